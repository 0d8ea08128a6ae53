"""Runs entries in several processes. A process that dies or hangs is ended, and its current sample
has failed. Another process continues the entry after it."""

import json
import os
import pathlib
import selectors
import subprocess
import sys
import tempfile
import time
from collections import namedtuple

# One sample. `failures` is a list of (form, kind, detail), empty if it passes, or None if it does
# not count; then `detail` is the reason. For a sample that counts, `detail` explains how PyTorch's
# gradient is not the derivative, or is empty.
Outcome = namedtuple("Outcome", "entry case description failures detail")

# The number of a case that represents all samples of a dtype, if they could not be created.
# `detail` is the reason.
NO_SAMPLES = "none"

LIMIT = 60  # Seconds for one sample, including the first one of a process.
WORKER = pathlib.Path(__file__).with_name("worker.py")


class _Process:
    """A process that runs one entry at a time."""

    def __init__(self, device, command):
        self._errors = tempfile.TemporaryFile()
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self._process = subprocess.Popen(
            [*command, device], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, env=environment
        )
        os.set_blocking(self._process.stdout.fileno(), False)
        self._rest, self.task, self.since = b"", None, time.monotonic()
        self.running = None

    @property
    def pipe(self):
        return self._process.stdout

    def give(self, entry, reduced, after=0):
        self.task, self.reduced, self.done, self.running, self.since = entry, reduced, after, None, time.monotonic()
        try:
            self._process.stdin.write((json.dumps({"entry": entry, "reduced": reduced, "after": after}) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:  # Reading detects that it is dead.
            pass

    def lines(self):
        """Returns the lines of output since the last call, or None if the process is dead."""
        data = self._process.stdout.read()
        if data == b"":
            return None
        self.since = time.monotonic()
        *lines, self._rest = (self._rest + (data or b"")).split(b"\n")
        return [json.loads(line) for line in lines]

    def end(self):
        """Ends the process. Returns its exit status and its last error line."""
        self._process.kill()
        status = self._process.wait()
        self._process.stdin.close()
        self._process.stdout.close()
        self._errors.seek(0)
        words = self._errors.read().decode(errors="replace").strip().splitlines()
        self._errors.close()
        return f"status {status}: {words[-1] if words else 'no word'}"


class Pool:
    """Several processes, and the entries that wait for them."""

    def __init__(self, device, reduced, count=2, limit=LIMIT, command=(sys.executable, str(WORKER))):
        self._device, self._reduced, self._limit, self._command = device, reduced, limit, command
        self._count = count
        self._selector = selectors.DefaultSelector()

    def run(self, entries, seen=lambda outcome: None, ended=lambda entry: None):
        """Returns the outcomes of all samples of these entries. Each is passed to `seen`, and a
        completed entry to `ended`."""
        self._waiting, self._outcomes, self._seen, self._ended = [(entry, 0) for entry in reversed(entries)], [], seen, ended
        busy = set()
        for _ in range(min(self._count, len(self._waiting))):
            busy.add(self._started())
        while busy:
            for key, _ in self._selector.select(timeout=1):
                self._read(key.data, busy)
            for process in [each for each in busy if time.monotonic() - each.since > self._limit]:
                self._lost(process, busy, "hang", f"no result in {self._limit} s")
        return self._outcomes

    def _started(self):
        process = _Process(self._device, self._command)
        self._selector.register(process.pipe, selectors.EVENT_READ, process)
        self._next(process)
        return process

    def _next(self, process):
        entry, after = self._waiting.pop()
        process.give(entry, self._reduced, after)

    def _read(self, process, busy):
        if process not in busy:
            return
        lines = process.lines()
        if lines is None:
            self._lost(process, busy, "crash", "")
            return
        for line in lines:
            self._heard(process, line, busy)

    def _heard(self, process, line, busy):
        if "start" in line:
            process.running = (line["start"], line["description"])
        elif "no_samples" in line:
            self._add(Outcome(process.task, f"{line['no_samples']} {NO_SAMPLES}", "", None, line["detail"]))
        elif "end" in line:
            self._ended(process.task)
            if self._waiting:
                self._next(process)
            else:
                self._stop(process, busy)
        else:
            process.done += 1
            case, description = process.running
            process.running = None
            failures = None if "left_out" in line else [tuple(failure) for failure in line["failures"]]
            self._add(Outcome(process.task, case, description, failures, line.get("left_out", line.get("note", ""))))

    def _add(self, outcome):
        self._outcomes.append(outcome)
        self._seen(outcome)

    def _stop(self, process, busy):
        self._selector.unregister(process.pipe)
        busy.discard(process)
        return process.end()

    def _lost(self, process, busy, kind, detail):
        """Ends a process that does not continue. Its sample has failed, and the rest of its entry
        waits for another process."""
        words = self._stop(process, busy)
        if process.running:
            self._add(Outcome(process.task, *process.running, [("function", kind, detail or words)], ""))
            self._waiting.append((process.task, process.done + 1))
        else:
            self._add(Outcome(process.task, f"all {NO_SAMPLES}", "", None, f"{kind} while samples were made: {detail or words}"))
            self._ended(process.task)
        if self._waiting:
            busy.add(self._started())
