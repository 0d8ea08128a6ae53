"""Programs that measure a case per request, so that several of them can alternate on one device.

A server prints {"cases": [name..]} when it is ready and then reads the name of a case from each
line of its input. It prints its measurements, one JSON object per line, and then {"done": name},
with "unknown": true if it has no case of exactly this name and "failed": true if it could not
measure the case. Between requests it leaves the device idle. It exits when its input ends.
torch_cases.py uses `serve`, ternion-bench has its own implementation (benches/gpu/src/serve.rs);
compare.py is the client and uses `Program`.
"""

import json
import queue
import statistics
import subprocess
import threading

# Maximum wait for the last lines of a program that has exited, in seconds. A child process may keep
# its output open.
LAST_LINES_SECONDS = 5


def serve(cases, measure, requests, answers):
    """Runs the server: calls `measure` with each requested name that is in `cases`, until the
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


def parse_json_line(text):
    """Returns the JSON object of a line; None if the line is something else."""
    if not text.startswith("{"):
        return None
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return None


class Program:
    """The client's side of a server process whose results are named `impl`. The process is killed
    if it prints nothing for `limit` seconds while a line is expected.
    """

    def __init__(self, impl, command, limit):
        self.impl, self.limit = impl, limit
        # Names of the server's cases, in its order.
        self.cases = []
        # Why the server no longer answers, and whether `take_error` has returned that.
        self.error, self.is_error_taken = None, False
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
        # The reader is still blocked if a child process keeps the output open.
        if not self.reader.is_alive():
            self.process.stdout.close()
        self.close_input()

    def close_input(self):
        try:
            self.process.stdin.close()
        except OSError:
            # The process has exited, and unflushed input is discarded.
            pass

    def read(self):
        """Reads the whole output into `texts`. The program would block if its pipe were full."""
        for text in self.process.stdout:
            self.texts.put(text)
        self.texts.put(None)

    def read_until(self, key):
        """Yields the objects that the program prints, up to and including the first one with this
        key. Stops earlier if the program exits.
        """
        while self.error is None:
            text = self.next_line()
            line = self.parse_object(text) if text else None
            if line is not None:
                yield line
                if key in line:
                    return

    def next_line(self):
        """Returns the next line; None, and `error` is set, if the program exited or was silent for
        too long.
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

    def parse_object(self, text):
        """Returns the JSON object of a line. The last other lines are kept for the error message.
        """
        line = parse_json_line(text)
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

    def take_error(self):
        """Returns the error the first time, and None afterward."""
        error = None if self.is_error_taken else self.error
        self.is_error_taken = error is not None or self.is_error_taken
        return error

    def wait_until_ready(self):
        """Waits until the program is ready. Yields the objects that it prints before that."""
        for line in self.read_until("cases"):
            if "cases" in line:
                self.cases = line["cases"]
            else:
                yield line

    def measure(self, case):
        """Requests a case. Yields its objects, the last of which has the key "done" unless the
        program exits earlier.
        """
        if self.error is None:
            try:
                self.process.stdin.write(f"{case}\n")
                self.process.stdin.flush()
            except OSError:
                # The process has exited. `read_until` reads its last lines.
                pass
        yield from self.read_until("done")

    def finish(self):
        """Closes the input and waits for the program to exit. Yields the objects that it still
        prints. Sets `error` if it fails.
        """
        if self.error is not None:
            return
        self.close_input()
        try:
            status = self.process.wait(self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.fail(f"still running {self.limit:.0f} s after the end of its input")
            return
        self.reader.join(LAST_LINES_SECONDS)
        while not self.texts.empty():
            if (text := self.texts.get()) is not None and (line := self.parse_object(text)) is not None:
                yield line
        if status:
            self.fail()


def all_cases(programs):
    """Returns the names of all cases: those of the first program in its order, then those that only
    other programs have.
    """
    return list(dict.fromkeys(case for program in programs for case in program.cases))


def alternate(programs, turns, previous_turns=0):
    """Yields the index of each turn with the programs in the order of that turn. The order rotates
    from turn to turn, including the `previous_turns`.
    """
    for turn in range(turns):
        start = (previous_turns + turn) % len(programs)
        yield turn, [*programs[start:], *programs[:start]]


class TurnTimes:
    """Milliseconds of the cases of one request by program, impl and turn. Ratios are those of the
    program `ours` to the others.
    """

    def __init__(self, ours):
        self.ours, self.times = ours, {}

    def add(self, program, turn, line):
        # Counts, for example of launches, have no time.
        if line.get("ms"):
            self.times.setdefault((line["case"], program, line["impl"]), {})[turn] = line["ms"]

    def ratios(self):
        """Yields the ratios of our time to that of each baseline: of the medians over all turns,
        and the minimum and maximum over single turns.
        """
        own = {key: times for key, times in self.times.items() if key[1] == self.ours}
        for (case, program, impl), baseline_times in self.times.items():
            for (own_case, _, own_impl), times in own.items():
                turn_ratios = [times[turn] / baseline_times[turn] for turn in times.keys() & baseline_times.keys()]
                if program != self.ours and own_case == case and turn_ratios:
                    ratio = statistics.median(times.values()) / statistics.median(baseline_times.values())
                    yield dict(case=case, impl=own_impl, baseline=impl, ratio=round(ratio, 4), min=round(min(turn_ratios), 4), max=round(max(turn_ratios), 4))
