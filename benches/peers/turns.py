"""Programs that stay alive and measure a case whenever they are asked, so that several of them measure in turn on one device.

Such a program prints {"cases": [name..]} once it is ready, then reads the name of a case from each line of its input. It prints what it measured, one JSON
object a line, and then {"done": name}: with "unknown": true where it has no case of exactly this name, with "failed": true where it could not measure it. It
does nothing on the device until it is asked again, and ends where its input ends. torch_cases.py answers with `answer`, ternion-bench by itself
(benches/gpu/src/serve.rs); compare.py asks with `Program`.
"""

import json
import queue
import statistics
import subprocess
import threading

# Seconds for which the last lines of an ended program are waited for: a process that it started may hold its output open.
LAST_LINES_SECONDS = 5


def answer(cases, measure, requests, answers):
    """The side that answers: calls `measure` with each requested name that is among `cases`, until the requests end."""
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
    """The JSON object that a line is, if it is one."""
    if not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


class Program:
    """The side that asks: a program called `impl` that answers. One that prints nothing for `limit` seconds while it is waited for is ended."""

    def __init__(self, impl, command, limit):
        self.impl, self.limit = impl, limit
        # Names of its cases, in its order.
        self.cases = []
        # Why it answers no more, and whether anybody has asked for that.
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
        # Reading goes on where another process holds the output open.
        if not self.reader.is_alive():
            self.process.stdout.close()
        self.close_input()

    def close_input(self):
        try:
            self.process.stdin.close()
        except OSError:
            # What it was still to read is lost, as it has ended.
            pass

    def read(self):
        """Lets nothing that the program prints wait, as it would wait then, too."""
        for text in self.process.stdout:
            self.texts.put(text)
        self.texts.put(None)

    def until(self, key):
        """Yields the objects that the program prints, the last of them the one that has this key; fewer if the program ends before."""
        while self.error is None:
            text = self.text()
            line = self.object(text) if text else None
            if line is not None:
                yield line
                if key in line:
                    return

    def text(self):
        """The next line. None, with `error` set, where the program ended or printed nothing for too long."""
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
        """The JSON object that a line is. Other lines may tell later why the program ended."""
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
        """Why the program answers no more, once."""
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
        """Asks for a case. Yields its lines, the last of them the one with "done"; fewer if the program ends before."""
        if self.error is None:
            try:
                self.process.stdin.write(f"{case}\n")
                self.process.stdin.flush()
            except OSError:
                # It has ended: its last lines tell why.
                pass
        yield from self.until("done")

    def end(self):
        """Ends the requests and waits for the program's end. Yields what it still prints; `error` is set where it ended otherwise than with success."""
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
    """Names of the cases of all programs: in the order of the first, then what only others have."""
    return list(dict.fromkeys(case for program in programs for case in program.cases))


def in_turn(programs, turns, first=0):
    """Yields the number of each turn with the programs in their order in it; `first` is the number of turns before. Another program begins each turn."""
    for turn in range(turns):
        begins = (first + turn) % len(programs)
        yield turn, [*programs[begins:], *programs[:begins]]


class Times:
    """Milliseconds of one request's cases, by impl and turn, as `ours` and others measured them."""

    def __init__(self, ours):
        self.ours, self.found = ours, {}

    def add(self, program, turn, line):
        # Counts, such as those of launches, take no time.
        if line.get("ms"):
            self.found.setdefault((line["case"], program, line["impl"]), {})[turn] = line["ms"]

    def ratios(self):
        """Our time over each other's: of the medians of all turns, and the least and the most in one turn."""
        ours = {key: times for key, times in self.found.items() if key[1] == self.ours}
        for (case, program, impl), theirs in self.found.items():
            for (what, _, of), times in ours.items():
                each = [times[turn] / theirs[turn] for turn in times.keys() & theirs.keys()]
                if program != self.ours and what == case and each:
                    ratio = statistics.median(times.values()) / statistics.median(theirs.values())
                    yield dict(case=case, impl=of, over=impl, ratio=round(ratio, 4), least=round(min(each), 4), most=round(max(each), 4))
