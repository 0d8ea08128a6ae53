"""Checks that a GPU must pass, in addition to measurements of speed: the op table,
compute-sanitizer, a thousand runs of kernels, training, memory. compare.py check runs them; each is
a line of results.
"""

import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time

# Eager steps of the memory check, and a tenth of the replayed steps.
MEMORY_STEPS = 100_000
# Runs of each case of kernels::repeats.
REPEATS = 1000
TOOLS = ("memcheck", "initcheck", "synccheck", "racecheck")
EPOCHS = 3
# Reasons why a check does not apply to a case, on any device.
BESIDE_THE_POINT = ("nothing is fused", "too large for second differences")


def counted(pattern, text):
    """Returns the number in the last match of `pattern`; None without a match."""
    found = re.findall(pattern, text)
    return int(found[-1].replace(",", "")) if found else None


def of_tests(text, device="cuda:0"):
    """Returns what the test program of the op table prints about a device at its end."""
    fingerprint = re.findall(rf"^{device}: .*fingerprint of the results ([0-9a-f]+)", text, re.MULTILINE)
    return dict(
        passed=counted(r"test result: .*?(\d+) passed", text),
        failed=counted(r"test result: .*?(\d+) failed", text),
        cases=counted(rf"(?m)^{device}: (\d+) cases", text),
        dtypes=dtypes(text, device),
        skipped=[f"{count} {why}" for count, why in skips(text, device) if not beside_the_point(why)],
        beside_the_point=sum(int(count) for count, why in skips(text, device) if beside_the_point(why)),
        fingerprint=fingerprint[-1] if fingerprint else None,
    )


def of_table(text):
    """Returns the sums of what the parts of one run of the op table print: each case is in one
    part, and fingerprints are sums over cases of 64 bits. None if a part has no summary.
    """
    parts = [of_tests(part) for part in re.split(r"(?m)^== part \d+ of \d+$", text)[1:]]
    found = {key: total(part[key] for part in parts) for key in ("passed", "failed", "cases", "beside_the_point")}
    prints = [part["fingerprint"] for part in parts]
    digest = None if not parts or None in prints else f"{sum(int(one, 16) for one in prints) % 2**64:016x}"
    by_dtype = {dtype: sum(part["dtypes"].get(dtype, 0) for part in parts) for dtype in sorted({dtype for part in parts for dtype in part["dtypes"]})}
    counts = collections.Counter()
    for count, why in (one.split(" ", 1) for part in parts for one in part["skipped"]):
        counts[why] += int(count)
    return dict(found, dtypes=by_dtype, skipped=[f"{count} {why}" for why, count in sorted(counts.items())], fingerprint=digest)


def of_device(text, device):
    """Returns what a device printed below its own line."""
    _, _, rest = text.partition(f"\n{device}: ")
    return re.split(r"\n(?=\w+(?::\d+)?: \d+ cases)", rest)[0]


def dtypes(text, device):
    """Returns the cases of a device by dtype, if they are reported."""
    told = re.search(r"(?m)^  of them (.*)$", of_device(text, device))
    return {dtype: int(count) for count, dtype in re.findall(r"(\d+) in (\w+)", told[1])} if told else {}


def skips(text, device):
    """Returns the cases that a device skipped, and why."""
    return re.findall(r"skipped +(\d+) cases: (.*)", of_device(text, device))


def beside_the_point(why):
    """Returns whether the check does not apply to such a case, on any device."""
    return any(reason in why for reason in BESIDE_THE_POINT)


def of_sanitizer(text):
    """Returns what the tests and compute-sanitizer's summaries report, over all parts that were
    run; racecheck reports hazards. None if a part has no summary. Only parts of the op table have
    cases.
    """
    parts = re.split(r"(?m)^=+ COMPUTE-SANITIZER$", text)[1:]
    every = [of_part(part) for part in parts]
    found = {key: total(part[key] for part in every) for key in ("passed", "failed", "errors")}
    found["cases"] = total(part["cases"] for part in every if part["cases"] is not None or part["passed"] is None)
    found.update(parts=len(parts), skipped=sorted({reason for part in every for reason in part["skipped"]}))
    if "Internal Sanitizer Error" in text:
        found.update(error="the tool itself failed")
    return found


def of_part(text):
    errors = counted(r"(?m)ERROR SUMMARY: (\d+) errors?$", text)
    hazards = counted(r"RACECHECK SUMMARY: (\d+) hazard", text)
    return dict(of_tests(text), errors=hazards if errors is None else errors)


def fingerprints(text):
    """Returns the fingerprint of each case's bits, as kernels::repeats prints them."""
    return dict(re.findall(r"(?m)^(.+): fingerprint ([0-9a-f]{16})$", text))


def of_repeats(text, expected=None):
    """Returns what kernels::repeats prints. `expected` are the fingerprints of another run, which
    must be equal.
    """
    tests, found = of_tests(text), fingerprints(text)
    lines = "".join(f"{case} {digest}\n" for case, digest in sorted(found.items()))
    told = dict(passed=tests["passed"], failed=tests["failed"], repeats=REPEATS, cases=len(found), fingerprint=hashlib.sha256(lines.encode()).hexdigest()[:16])
    if not found:
        return dict(told, error="no case has printed its fingerprint")
    if expected is None or expected == found:
        return told
    other = sorted(case for case in found.keys() | expected.keys() if found.get(case) != expected.get(case))
    return dict(told, error=f"{len(other)} of {len(found.keys() | expected.keys())} cases have not the bits that they have without delays, as: {other[0]}")


def why(lines):
    """Returns what a failed program printed last, after the message of its first panic."""
    panics = [number for number, line in enumerate(lines) if "panicked at" in line][:1]
    told = [line for number in panics for line in lines[number : number + 2]]
    return told + [line for line in lines[-4:] if line not in told]


def total(numbers):
    numbers = list(numbers)
    return None if not numbers or None in numbers else sum(numbers)


class Checks:
    """The checks of a bundle on this machine. The output of their programs is written to files in
    `logs`.
    """

    def __init__(self, bundle, data, logs, add, limit=None, resume=False):
        """With `resume`, parts of the table and of the sanitizer that passed in an earlier call are
        not run again.
        """
        self.bundle, self.data, self.logs, self.add, self.limit, self.resume = bundle, data, logs, add, limit, resume
        self.failed = []

    def names(self):
        return ["table", "device", "repeats", "repeats_delayed", *TOOLS, "mnist", "mnist_captured", "memory"]

    def run(self, name):
        if name == "table":
            for log in ("table", "table_again"):
                self.line(name, [self.program("run.sh"), "table"], of_table, self.parts(log), log)
        elif name == "device":
            self.line(name, [self.program("tests/cuda")], of_tests, {"TERNION_EXPECT": "cuda"})
        elif name in ("repeats", "repeats_delayed"):
            self.repeat(name)
        elif name in TOOLS:
            self.line(name, [self.program("run.sh"), "sanitize", name], of_sanitizer, self.parts(name))
        elif name == "memory":
            environment = {"TERNION_EXPECT": "cuda", "TERNION_MEMORY_STEPS": str(MEMORY_STEPS)}
            command = [self.program("tests/cuda"), "steps_do_not_use_more_and_more_memory"]
            self.line(name, command, lambda text: dict(of_tests(text), eager=MEMORY_STEPS, replayed=10 * MEMORY_STEPS), environment)
        else:
            self.train(name)

    def repeat(self, name):
        """Runs a check whose kernels pause for random times. It must give the same bits as without:
        those of the check `repeats`, of this call or an earlier one.
        """
        is_delayed = name == "repeats_delayed"
        environment = {"TERNION_EXPECT": "cuda", "TERNION_REPEATS": str(REPEATS), "TERNION_CUDA_DELAYS": str(int(is_delayed))}
        undelayed = self.logs / "repeats.log"

        def read(text):
            if is_delayed and not undelayed.is_file():
                return dict(of_repeats(text), error="there is nothing to compare with: the check repeats comes first")
            expected = fingerprints(undelayed.read_text(encoding="utf-8", errors="replace")) if is_delayed else None
            return of_repeats(text, expected)

        # The output of passing tests is shown.
        self.line(name, [self.program("tests/cuda"), "kernels::repeats::", "--show-output"], read, environment)

    def train(self, name, device="cuda"):
        with tempfile.TemporaryDirectory() as folder:
            told = pathlib.Path(folder, "mnist.json")
            command = [self.program("run.sh"), "app", "mnist", "--device", device, "--epochs", str(EPOCHS), "--json", str(told)]
            command += ["--data", str(self.data)] if self.data else []
            command += [] if name == "mnist_captured" else ["--eager"]
            keys = ("captured", "epochs", "first_step_seconds", "train_seconds", "test_accuracy", "final_loss")
            self.line(name, command, lambda _: {key: json.loads(told.read_text(encoding="utf-8"))[key] for key in keys})

    def parts(self, name):
        """Returns the folder in which run.sh stores the logs of parts."""
        folder = self.logs / f"{name}.parts"
        if not self.resume:
            shutil.rmtree(folder, ignore_errors=True)
        return {"LOGS": str(folder)}

    def program(self, name):
        return str(self.bundle / name)

    def ended(self, command, file, environment):
        """Returns the exit status of a command; None if it took too long, in which case it is
        killed with all processes that it started.
        """
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            return process.wait(self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None

    def line(self, name, command, read, environment=None, log=None):
        """Runs a command to its end and adds what `read` finds in its output."""
        path = self.logs / f"{log or name}.log"
        begun = time.monotonic()
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                status = self.ended(command, file, {**os.environ, **(environment or {})})
            printed = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            print(f"{log or name}: {error}", flush=True)
            self.failed.append(log or name)
            return self.add(check=name, error=str(error))
        seconds = round(time.monotonic() - begun, 1)
        try:
            found = read(printed)
        except (OSError, ValueError, KeyError) as error:
            found = dict(error=f"{type(error).__name__}: {error}")
        if status != 0:
            last = " | ".join(why(printed.strip().splitlines()))
            told = f"exit status {status}" if status is not None else f"not ended after {self.limit:.0f} s"
            found = dict(found, error=f"{told}: {last}"[:500])
        # A missing count (None) is treated like a failure.
        if "error" in found or found.get("failed", 0) != 0 or found.get("errors", 0) != 0:
            self.failed.append(log or name)
        print(f"{log or name}: {seconds:.0f} s{', ' + found['error'] if 'error' in found else ''}", flush=True)
        return self.add(check=name, seconds=seconds, **found)


class GraphicsChecks(Checks):
    """The same for a wgpu bundle: the whole op table, what the table is too small for, and training
    compared with the CPU's.
    """

    def names(self):
        return ["table", "device", "mnist", "mnist_cpu"]

    def run(self, name):
        if name == "table":
            # With the output for `cargo xtask coverage --results`. That contains all devices, so
            # CUDA is disabled.
            folder = self.logs / "coverage"
            folder.mkdir(parents=True, exist_ok=True)
            environment = {"TERNION_EXPECT": "wgpu", "CUDA_VISIBLE_DEVICES": "-1", "TERNION_COVERAGE_OUT": str(folder)}
            self.line(name, [self.program("tests/ops")], lambda text: of_tests(text, "wgpu:0"), environment)
        elif name == "device":
            self.line(name, [self.program("tests/adapter")], of_tests, {"TERNION_EXPECT": "wgpu"})
        else:
            self.train(name, "wgpu" if name == "mnist" else "cpu")
