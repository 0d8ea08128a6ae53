"""Correctness checks on a GPU, run by `compare.py check`: the op table, compute-sanitizer, a
thousand runs of each kernel, training, memory. Each result is a line of the results file.
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

# Eager steps of the memory check. It replays ten times as many recorded steps.
EAGER_MEMORY_STEPS = 100_000
# Runs of each case of kernels::repeats.
KERNEL_REPEATS = 1000
SANITIZER_TOOLS = ("memcheck", "initcheck", "synccheck", "racecheck")
EPOCHS = 3
# Reasons for which a test does not apply to a case on any device.
NOT_APPLICABLE_REASONS = ("nothing is fused", "too large for second differences")


def last_count(pattern, text):
    """Returns the number in the last match of `pattern`, or None."""
    matches = re.findall(pattern, text)
    return int(matches[-1].replace(",", "")) if matches else None


def parse_tests(text, device="cuda:0"):
    """Parses the summary of a test program and, for the op table, that of a device."""
    fingerprint = re.findall(rf"^{device}: .*fingerprint of the results ([0-9a-f]+)", text, re.MULTILINE)
    return dict(
        passed=last_count(r"test result: .*?(\d+) passed", text),
        failed=last_count(r"test result: .*?(\d+) failed", text),
        cases=last_count(rf"(?m)^{device}: (\d+) cases", text),
        dtypes=parse_dtypes(text, device),
        skipped=[f"{count} {reason}" for count, reason in parse_skips(text, device) if not is_not_applicable(reason)],
        not_applicable=sum(int(count) for count, reason in parse_skips(text, device) if is_not_applicable(reason)),
        fingerprint=fingerprint[-1] if fingerprint else None,
    )


def parse_op_table(text):
    """Adds the summaries of the parts of one run of the op table. Each case is in one part, and
    fingerprints are sums over cases modulo 2^64. Totals are None if a part has no summary.
    """
    parts = [parse_tests(part) for part in re.split(r"(?m)^== part \d+ of \d+$", text)[1:]]
    totals = {key: sum_or_none(part[key] for part in parts) for key in ("passed", "failed", "cases", "not_applicable")}
    fingerprints = [part["fingerprint"] for part in parts]
    fingerprint = None if not parts or None in fingerprints else f"{sum(int(digits, 16) for digits in fingerprints) % 2**64:016x}"
    cases_by_dtype = {dtype: sum(part["dtypes"].get(dtype, 0) for part in parts) for dtype in sorted({dtype for part in parts for dtype in part["dtypes"]})}
    counts = collections.Counter()
    for count, reason in (skip.split(" ", 1) for part in parts for skip in part["skipped"]):
        counts[reason] += int(count)
    return dict(totals, dtypes=cases_by_dtype, skipped=[f"{count} {reason}" for reason, count in sorted(counts.items())], fingerprint=fingerprint)


def device_section(text, device):
    """Returns the lines below the summary line of a device, up to the next device."""
    _, _, rest = text.partition(f"\n{device}: ")
    return re.split(r"\n(?=\w+(?::\d+)?: \d+ cases)", rest)[0]


def parse_dtypes(text, device):
    """Returns the number of cases of a device by dtype; empty if it is not reported."""
    match = re.search(r"(?m)^  of them (.*)$", device_section(text, device))
    return {dtype: int(count) for count, dtype in re.findall(r"(\d+) in (\w+)", match[1])} if match else {}


def parse_skips(text, device):
    """Returns (number of cases, reason) for the cases that a device skipped."""
    return re.findall(r"skipped +(\d+) cases: (.*)", device_section(text, device))


def is_not_applicable(skip_reason):
    """Returns whether cases with this reason are not applicable on any device."""
    return any(reason in skip_reason for reason in NOT_APPLICABLE_REASONS)


def parse_sanitizer(text):
    """Adds the summaries of tests and compute-sanitizer over all parts; for racecheck, hazards
    count as errors. Totals are None if a part has no summary. Only op table parts have cases.
    """
    parts = re.split(r"(?m)^=+ COMPUTE-SANITIZER$", text)[1:]
    parsed_parts = [parse_sanitizer_part(part) for part in parts]
    totals = {key: sum_or_none(part[key] for part in parsed_parts) for key in ("passed", "failed", "errors")}
    totals["cases"] = sum_or_none(part["cases"] for part in parsed_parts if part["cases"] is not None or part["passed"] is None)
    totals.update(parts=len(parts), skipped=sorted({reason for part in parsed_parts for reason in part["skipped"]}))
    if "Internal Sanitizer Error" in text:
        totals.update(error="internal error of compute-sanitizer")
    return totals


def parse_sanitizer_part(text):
    errors = last_count(r"(?m)ERROR SUMMARY: (\d+) errors?$", text)
    hazards = last_count(r"RACECHECK SUMMARY: (\d+) hazard", text)
    return dict(parse_tests(text), errors=hazards if errors is None else errors)


def parse_fingerprints(text):
    """Returns the fingerprint of each case, as kernels::repeats prints them."""
    return dict(re.findall(r"(?m)^(.+): fingerprint ([0-9a-f]{16})$", text))


def parse_repeats(text, expected=None):
    """Parses the output of kernels::repeats. `expected` are the fingerprints of another run, from
    which any difference is an error.
    """
    tests, fingerprints = parse_tests(text), parse_fingerprints(text)
    lines = "".join(f"{case} {digest}\n" for case, digest in sorted(fingerprints.items()))
    fingerprint = hashlib.sha256(lines.encode()).hexdigest()[:16]
    result = dict(passed=tests["passed"], failed=tests["failed"], repeats=KERNEL_REPEATS, cases=len(fingerprints), fingerprint=fingerprint)
    if not fingerprints:
        return dict(result, error="no case printed its fingerprint")
    if expected is None or expected == fingerprints:
        return result
    all_cases = fingerprints.keys() | expected.keys()
    different = sorted(case for case in all_cases if fingerprints.get(case) != expected.get(case))
    return dict(result, error=f"{len(different)} of {len(all_cases)} cases differ from the run without delays, for example: {different[0]}")


def failure_output(lines):
    """Returns the message of a failed program's first panic and its last lines."""
    panics = [index for index, line in enumerate(lines) if "panicked at" in line][:1]
    panic_lines = [line for index in panics for line in lines[index : index + 2]]
    return panic_lines + [line for line in lines[-4:] if line not in panic_lines]


def sum_or_none(numbers):
    numbers = list(numbers)
    return None if not numbers or None in numbers else sum(numbers)


class Checks:
    """The checks of a CUDA bundle on this machine. Program output is written to files in `logs`."""

    def __init__(self, bundle, data, logs, add, limit=None, resume=False):
        """`add` stores a result. With `resume`, parts of the op table and of the sanitizer that
        passed in an earlier call are skipped.
        """
        self.bundle, self.data, self.logs, self.add, self.limit, self.resume = bundle, data, logs, add, limit, resume
        self.failed = []

    def names(self):
        return ["table", "device", "repeats", "repeats_delayed", *SANITIZER_TOOLS, "mnist", "mnist_captured", "memory"]

    def run(self, name):
        if name == "table":
            for log in ("table", "table_again"):
                self.run_program(name, [self.program_path("run.sh"), "table"], parse_op_table, self.parts_environment(log), log)
        elif name == "device":
            self.run_program(name, [self.program_path("tests/cuda")], parse_tests, {"TERNION_EXPECT": "cuda"})
        elif name in ("repeats", "repeats_delayed"):
            self.run_repeats(name)
        elif name in SANITIZER_TOOLS:
            self.run_program(name, [self.program_path("run.sh"), "sanitize", name], parse_sanitizer, self.parts_environment(name))
        elif name == "memory":
            environment = {"TERNION_EXPECT": "cuda", "TERNION_MEMORY_STEPS": str(EAGER_MEMORY_STEPS)}
            command = [self.program_path("tests/cuda"), "steps_do_not_use_more_and_more_memory"]
            self.run_program(name, command, lambda text: dict(parse_tests(text), eager=EAGER_MEMORY_STEPS, replayed=10 * EAGER_MEMORY_STEPS), environment)
        else:
            self.run_training(name)

    def run_repeats(self, name):
        """Runs `repeats`, or `repeats_delayed`, whose kernels pause for random times. The latter
        must have the fingerprints of the last run of `repeats`, in this call or an earlier one.
        """
        is_delayed = name == "repeats_delayed"
        environment = {"TERNION_EXPECT": "cuda", "TERNION_REPEATS": str(KERNEL_REPEATS), "TERNION_CUDA_DELAYS": str(int(is_delayed))}
        undelayed = self.logs / "repeats.log"

        def read(text):
            if is_delayed and not undelayed.is_file():
                return dict(parse_repeats(text), error="no results to compare with: run the check `repeats` first")
            expected = parse_fingerprints(undelayed.read_text(encoding="utf-8", errors="replace")) if is_delayed else None
            return parse_repeats(text, expected)

        # The output of passing tests is shown.
        self.run_program(name, [self.program_path("tests/cuda"), "kernels::repeats::", "--show-output"], read, environment)

    def run_training(self, name, device="cuda"):
        with tempfile.TemporaryDirectory() as folder:
            results_path = pathlib.Path(folder, "mnist.json")
            command = [self.program_path("run.sh"), "app", "mnist", "--device", device, "--epochs", str(EPOCHS), "--json", str(results_path)]
            command += ["--data", str(self.data)] if self.data else []
            command += [] if name == "mnist_captured" else ["--eager"]
            keys = ("captured", "epochs", "first_step_seconds", "train_seconds", "test_accuracy", "final_loss")
            self.run_program(name, command, lambda _: {key: json.loads(results_path.read_text(encoding="utf-8"))[key] for key in keys})

    def parts_environment(self, name):
        """Returns the environment variable with the folder in which run.sh stores logs of parts."""
        folder = self.logs / f"{name}.parts"
        if not self.resume:
            shutil.rmtree(folder, ignore_errors=True)
        return {"LOGS": str(folder)}

    def program_path(self, name):
        return str(self.bundle / name)

    def run_command(self, command, file, environment):
        """Runs a command and returns its exit status. After the time limit, its process group is
        killed and None is returned.
        """
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=environment, start_new_session=True)
        try:
            return process.wait(self.limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None

    def run_program(self, name, command, read, environment=None, log=None):
        """Runs a command and stores what `read` parses from its output."""
        path = self.logs / f"{log or name}.log"
        started = time.monotonic()
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                status = self.run_command(command, file, {**os.environ, **(environment or {})})
            output = path.read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            print(f"{log or name}: {error}", flush=True)
            self.failed.append(log or name)
            return self.add(check=name, error=str(error))
        seconds = round(time.monotonic() - started, 1)
        try:
            result = read(output)
        except (OSError, ValueError, KeyError) as error:
            result = dict(error=f"{type(error).__name__}: {error}")
        if status != 0:
            last_lines = " | ".join(failure_output(output.strip().splitlines()))
            outcome = f"exit status {status}" if status is not None else f"killed after {self.limit:.0f} s"
            result = dict(result, error=f"{outcome}: {last_lines}"[:500])
        # A missing count (None) counts as a failure.
        if "error" in result or result.get("failed", 0) != 0 or result.get("errors", 0) != 0:
            self.failed.append(log or name)
        print(f"{log or name}: {seconds:.0f} s{', ' + result['error'] if 'error' in result else ''}", flush=True)
        return self.add(check=name, seconds=seconds, **result)


class WgpuChecks(Checks):
    """The checks of a wgpu bundle: the whole op table, tests of larger sizes, and training compared
    with the CPU.
    """

    def names(self):
        return ["table", "device", "mnist", "mnist_cpu"]

    def run(self, name):
        if name == "table":
            # Also writes the files for `cargo xtask coverage --results`. They contain all devices,
            # so CUDA is disabled.
            folder = self.logs / "coverage"
            folder.mkdir(parents=True, exist_ok=True)
            environment = {"TERNION_EXPECT": "wgpu", "CUDA_VISIBLE_DEVICES": "-1", "TERNION_COVERAGE_OUT": str(folder)}
            self.run_program(name, [self.program_path("tests/ops")], lambda text: parse_tests(text, "wgpu:0"), environment)
        elif name == "device":
            self.run_program(name, [self.program_path("tests/adapter")], parse_tests, {"TERNION_EXPECT": "wgpu"})
        else:
            self.run_training(name, "wgpu" if name == "mnist" else "cpu")
