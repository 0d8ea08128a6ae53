"""Programs that stay alive and measure a case on each request, so that several of them can
alternate on one device.

Such a program prints {"cases": [name..]} when it is ready, then reads the name of a case from each
line of its input. It prints its measurements, one JSON object per line, and then {"done": name}:
with "unknown": true if it has no case with exactly this name, with "failed": true if it could not
measure it. It does nothing on the device until the next request, and ends when its input ends.
torch_cases.py answers with `answer`, ternion-bench has its own implementation
(benches/gpu/src/serve.rs); compare.py sends requests with `Program`.
"""

import json
import queue
import statistics
import subprocess
import threading

# The maximum time to wait for the last lines of an ended program, in seconds: a process that it
# started may keep its output open.
LAST_LINES_SECONDS = 5


def answer(cases, measure, requests, answers):
    """The answering side: calls `measure` with each requested name that is among `cases`, until the
    requests end.
    """
    print(json.dumps(dict(cases=list(cases))), file=answers, flush=True)
    for request in requests:
        name = request.strip()
        if not name:
            continue
        done = dict(done=name)
        if name in cases:
            measure(name)
        else:
            done["unknown"] = True
        print(json.dumps(done), file=answers, flush=True)


def parsed(text):
    """Returns the JSON object of a line, if it is one."""
    if not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


class Program:
    """The requesting side: a program called `impl` that answers. If it prints nothing for `limit`
    seconds while a line is expected, it is ended.
    """

    def __init__(self, impl, command, limit):
        self.impl, self.limit = impl, limit
        # Names of its cases, in its order.
        self.cases = []
        # Why it no longer answers, and whether this error was already returned.
        self.error, self.is_reported = None, False
        self.process, self.tail, self.texts = None, [], queue.SimpleQueue()
        try:
            self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        except OSError as error:
            self.error = str(error)
            return
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if not self.process:
            return
        self.process.kill()
        self.process.wait()
        self.reader.join(LAST_LINES_SECONDS)
        # Reading continues if another process keeps the output open.
        if not self.reader.is_alive():
            self.process.stdout.close()
        self.close_input()

    def close_input(self):
        try:
            self.process.stdin.close()
        except OSError:
            # The process has ended, so the rest of its input is lost.
            pass

    def read(self):
        """Reads everything that the program prints, because the program would block if its output
        were not read.
        """
        for text in self.process.stdout:
            self.texts.put(text)
        self.texts.put(None)

    def until(self, key):
        """Yields the objects that the program prints, the last of them the one that has this key;
        fewer if the program ends before.
        """
        while self.error is None:
            text = self.text()
            line = self.object(text) if text else None
            if line is not None:
                yield line
                if key in line:
                    return

    def text(self):
        """Returns the next line. None, with `error` set, if the program ended or printed nothing
        for too long.
        """
        waited = 0
        while waited < self.limit:
            seconds = min(LAST_LINES_SECONDS, self.limit - waited)
            try:
                text = self.texts.get(timeout=seconds)
            except queue.Empty:
                waited += seconds
                text = None if self.process.poll() is not None else ""
            if text is None:
                return self.fail()
            if text:
                return text
        self.process.kill()
        return self.fail(f"printed nothing for {self.limit:.0f} s")

    def object(self, text):
        """Returns the JSON object of a line. Other lines are kept, because they may explain why the
        program ended.
        """
        line = parsed(text)
        if line is None:
            self.tail = [*self.tail[-4:], text.strip()]
        return line

    def fail(self, reason=None):
        try:
            status = self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            status = self.process.wait()
        self.error = f"{reason or f'exit status {status}'}: {' | '.join(self.tail)}"[:500]

    def new_error(self):
        """Returns why the program no longer answers, once."""
        error = None if self.is_reported else self.error
        self.is_reported = error is not None or self.is_reported
        return error

    def begin(self):
        """Waits until the program is ready. Yields what it prints before."""
        for line in self.until("cases"):
            if "cases" in line:
                self.cases = line["cases"]
            else:
                yield line

    def measure(self, case):
        """Requests a case. Yields its lines, the last of them the one with "done"; fewer if the
        program ends before.
        """
        if self.error is None:
            try:
                self.process.stdin.write(f"{case}\n")
                self.process.stdin.flush()
            except OSError:
                # The process has ended: its last lines say why.
                pass
        yield from self.until("done")

    def end(self):
        """Ends the requests and waits for the program's end. Yields what it still prints; `error`
        is set if it did not succeed.
        """
        if self.error is not None:
            return
        self.close_input()
        try:
            status = self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.fail(f"not ended {self.limit:.0f} s after its input")
            return
        self.reader.join(LAST_LINES_SECONDS)
        while not self.texts.empty():
            if (text := self.texts.get()) is not None and (line := self.object(text)) is not None:
                yield line
        if status:
            self.fail()


def union(programs):
    """Returns the names of the cases of all programs: in the order of the first, followed by those
    that only others have.
    """
    return list(dict.fromkeys(case for program in programs for case in program.cases))


def in_turn(programs, turns, first=0):
    """Yields the index of each turn with the programs in their order in it; `first` is the number
    of earlier turns. Each turn begins with another program.
    """
    for turn in range(turns):
        begins = (first + turn) % len(programs)
        yield turn, [*programs[begins:], *programs[:begins]]


class Times:
    """Milliseconds of one request's cases, by impl and turn, as `ours` and others measured them."""

    def __init__(self, ours):
        self.ours, self.found = ours, {}

    def add(self, program, turn, line):
        # Counts, such as those of launches, have no time.
        if line.get("ms"):
            self.found.setdefault((line["case"], program, line["impl"]), {})[turn] = line["ms"]

    def ratios(self):
        """Returns our time divided by each other's: for the medians of all turns, and the minimum
        and the maximum in one turn.
        """
        ours = {key: times for key, times in self.found.items() if key[1] == self.ours}
        for (case, program, impl), theirs in self.found.items():
            for (what, _, of), times in ours.items():
                each = [times[turn] / theirs[turn] for turn in times.keys() & theirs.keys()]
                if program != self.ours and what == case and each:
                    ratio = statistics.median(times.values()) / statistics.median(theirs.values())
                    yield dict(case=case, impl=of, over=impl, ratio=round(ratio, 4), least=round(min(each), 4), most=round(max(each), 4))
