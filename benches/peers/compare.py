#!/usr/bin/env python3
"""Compares Ternion with baselines on one GPU, in one run. Only Python's standard library is needed.

    compare.py run --bundle DIR [--out results.jsonl]
        on the GPU machine: measures Ternion and PyTorch alternately, case by case
    compare.py run --bundle DIR --device wgpu
        the same for the wgpu backend, compared with the CUDA backend and PyTorch if CUDA is present
    compare.py check --bundle DIR [--out checks.jsonl]
        on the GPU machine: the op table twice, compute-sanitizer, training, memory; minutes each
    compare.py check --bundle DIR --device wgpu
        the same for wgpu: the op table, tests of larger sizes, training on wgpu and on the CPU
    compare.py write results.jsonl.. docs/benchmarks.md
        on any machine: writes the tables between the page's markers
    compare.py write checks.jsonl docs/benchmarks.md
        updates only the rows of these checks and keeps the measurements

`run` starts Ternion and PyTorch once for each family and alternates requests for each case that
both have (turns.py): Ternion, PyTorch, PyTorch, Ternion, and so on. A GPU at its power limit slows
down over time, which would favor the first of two programs that run one after the other. Results
are medians over all turns; "ratios" in the results file adds the minimum and maximum over turns.
Host times and process starts, which do not depend on GPU clocks, and the CUDA C++ baselines are
measured one program after the other.

`run` appends a line to the results file after each measurement; --resume continues an interrupted
run. A baseline that cannot be built or run is recorded as a line with an "error", and the run
continues.
"""

import argparse
import contextlib
import datetime
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import tables
import wgpu_tables
from checks import Checks, WgpuChecks
from turns import Program, TurnTimes, all_cases, alternate, parse_json_line

HERE = pathlib.Path(__file__).resolve().parent

# Kind of device -> its checks.
CHECKS_BY_KIND = {"cuda": Checks, "wgpu": WgpuChecks}
# Family, in the order of measurement -> prefixes of the names of its cases. Copies are measured
# with each family whose results are relative to them, so that both run at the same clocks.
FAMILIES = {
    "start": [],
    "host": ["host/"],
    "train": ["train/"],
    "gemm": ["gemm/"],
    "attention": ["attention/"],
    "conv": ["conv/"],
    **{
        name: ["copy/", f"{name}/"]
        for name in ("elementwise", "reduce", "softmax", "layernorm", "layout", "cross_entropy", "embedding", "adamw", "total_norm")
    },
    "ladder": ["ladder/"],
    "attention_ladder": ["attention_ladder/"],
    "attention_study": ["order/", "forward_tiles/", "f32_products/"],
}
# Measured only if listed in --families. Scripts of the same names write the tables to other pages.
OPT_IN_FAMILIES = ("ladder", "attention_ladder", "attention_study")
# Measured only with the CUDA backend.
CUDA_ONLY_FAMILIES = ("start", "ladder", "attention_ladder", "attention_study")

# Families that depend on other load of the machine: measured in rounds, spread over the run.
HOST_FAMILIES = ("host",)
HOST_ROUNDS = 3

# Arguments with which ternion-bench trains GPT-2. It prints the first line after four eager steps,
# the first of which compiles the kernels. The recorded step after that line is not measured.
FIRST_STEPS_ARGUMENTS = ["--case", "train/gpt2_124m/bf16", "--once"]
# From NVRTC 12.9 on, CUDA's compute cache stores kernels, too. Cold starts disable it.
WITHOUT_CUDA_CACHE = {"CUDA_CACHE_DISABLE": "1"}

# Family -> CUDA C++ baseline with cases of it.
CUDA_BASELINES = {"reduce": "cub_reduce", "softmax": "cudnn_softmax"}


def reject_mixed_runs(run, other):
    """Raises an error if two runs differ in device, driver, commit or backend."""
    differences = [f"{key} {run.get(key)} and {other.get(key)}" for key in ("device", "driver", "commit", "backend") if run.get(key) != other.get(key)]
    if differences:
        raise SystemExit(f"error: results of different runs: {', '.join(differences)}")


class Results:
    """A results file: one JSON object per line. Only complete lines are written."""

    def __init__(self, path, resume, header):
        """With `resume`, complete earlier results are kept; they must be of the same device and
        commit as `header`, which is appended to them.
        """
        lines = read_results_if_present(path) if resume else []
        for run in [line["run"] for line in lines if "run" in line]:
            reject_mixed_runs(run, header)
        self.finished = {line["finished"] for line in lines if "finished" in line}
        self.measured_requests = {request_key(line) for line in lines if "measured" in line}
        lines = [line for line in lines if self.is_complete(line)]
        write_atomically(path, "".join(json.dumps(line) + "\n" for line in lines))
        self.file = open(path, "a", encoding="utf-8")
        self.add(run=header)

    def is_complete(self, line):
        """Returns whether a line belongs to a family or case that was measured completely. Others
        are measured again and must be dropped.
        """
        return line.get("family") is None or f"{line['family']} {line['round']}" in self.finished or request_key(line) in self.measured_requests

    def add(self, **line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def request_key(line):
    """Returns family, round and requested case of a line. The requested case may differ from the
    line's own case, for example that of a step's launches; it is None in lines without a turn.
    """
    return line["family"], line["round"], line.get("requested")


def write_atomically(path, text):
    """Replaces a file by writing a temporary file and renaming it: readers get either the complete
    text or the previous content."""
    temporary = path.with_name(path.name + ".tmp")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)


def read_results_if_present(path):
    """Returns the lines of a results file, or an empty list if there is no such file."""
    return read_results(path) if path.exists() else []


def read_results(path):
    """Returns the lines of a results file, which must exist. An incomplete last line is ignored;
    any other invalid line is an error."""
    if not path.exists():
        raise SystemExit(f"error: {path}: expected a results file, found none")
    texts = path.read_text(encoding="utf-8").splitlines()
    lines = []
    for number, text in enumerate(texts, 1):
        try:
            lines.append(json.loads(text))
        except json.JSONDecodeError as error:
            if number < len(texts):
                raise SystemExit(f"error: {path}:{number}: expected a JSON object, got {text[:60]!r}: {error}") from error
    return lines


def read_single_run(paths):
    """Returns the lines of results files, which must be of the same device and commit."""
    lines = [line for path in paths for line in read_results(path)]
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        reject_mixed_runs(headers[0], header)
    return lines


def capture_output(*command, timeout=60):
    """Runs a program. Returns its output and None, or None and the error. `timeout`: seconds."""
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return (completed.stdout.strip(), None) if completed.returncode == 0 else (None, (completed.stderr or completed.stdout).strip()[-300:])


def find_nvcc():
    """Returns the path of nvcc, or None."""
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/local/cuda/bin"]:
        if folder and os.access(path := pathlib.Path(folder) / "nvcc", os.X_OK):
            return str(path)
    return None


def describe_machine(bundle):
    """Returns device, driver, nvcc version, commit, date and number of cores of a run."""
    smi_output, why = capture_output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    device, _, driver = (smi_output or f"unknown ({why}), unknown").splitlines()[0].rpartition(", ")
    nvcc = find_nvcc()
    version, _ = capture_output(nvcc, "--version") if nvcc else (None, None)
    release = next((line.split("release ")[1].split(",")[0] for line in (version or "").splitlines() if "release " in line), None)
    manifest = bundle / "bundle.json"
    commit = json.loads(manifest.read_text(encoding="utf-8"))["commit"] if manifest.exists() else "unknown"
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return dict(device=device, driver=driver, nvcc=release, commit=commit, date=date, cores=len(os.sched_getaffinity(0)))


def schedule(families, rounds):
    """Returns (family, round) in the order in which they are measured. Additional rounds of host
    families are spread evenly over the others, up to the end.
    """
    first = [(family, round_index) for family in families for round_index in range(rounds)]
    repeats = [(family, round_index) for round_index in range(rounds, HOST_ROUNDS) for family in families if family in HOST_FAMILIES]
    steps = list(first)
    for position, step in reversed(list(enumerate(repeats, 1))):
        steps.insert(-(-len(first) * position // len(repeats)), step)
    return steps


def only_arguments(family):
    """Returns the arguments that select the cases of a family."""
    return ["--only", *FAMILIES[family]]


class Comparison:
    """One run of Ternion and its baselines on this machine."""

    def __init__(self, args):
        self.args = args
        self.bundle = args.bundle.resolve()
        if not (self.bundle / "ternion-bench").is_file():
            raise SystemExit(f"error: {self.bundle}: expected a folder with ternion-bench")
        self.built = {}
        # Start time, for --time-limit, and whether that limit has expired.
        self.started, self.is_stopped = time.monotonic(), False
        # For wgpu: why the CUDA backend and PyTorch cannot run.
        self.cuda_error = capture_output(str(self.bundle / "ternion-bench"), "start", "context")[1] if args.device != "cuda" else None
        # Last, because this overwrites the file: argument errors must be reported before.
        self.results = Results(args.out, args.resume, self.header())

    def header(self):
        """Returns the header of the results file: the machine and the backend."""
        machine = describe_machine(self.bundle)
        return machine if self.args.device == "cuda" else dict(machine, backend="wgpu", cuda=self.cuda_error or "present")

    def run(self):
        if self.cuda_error:
            print(f"without the CUDA backend and PyTorch: {self.cuda_error}", flush=True)
        failed = []
        for family, round_index in schedule(self.args.families, self.args.rounds):
            label = f"{family} {round_index}"
            if label in self.results.finished:
                continue
            if self.is_time_over(family):
                break
            failed_impls = self.measure_family(family, round_index)
            if failed_impls:
                failed.append(f"{label} ({', '.join(failed_impls)})")
            if self.is_stopped:
                break
            if not failed_impls:
                self.results.add(finished=label)
        if failed:
            raise SystemExit(f"error: incomplete, --resume measures again: {', '.join(failed)}")

    def is_time_over(self, before):
        """Returns whether --time-limit has expired before the next measurement."""
        self.is_stopped = bool(self.args.time_limit) and time.monotonic() - self.started > self.args.time_limit
        if self.is_stopped:
            print(f"stopped before {before}: --time-limit {self.args.time_limit:.0f} has expired; --resume continues there")
        return self.is_stopped

    def measure_family(self, family, round_index):
        """Measures a family. Returns the names of the programs that failed. Their errors and all
        other results are stored.
        """
        started = time.monotonic()
        if family == "start":
            failed = self.measure_starts(round_index)
        else:
            programs = self.family_commands(family)
            if family in HOST_FAMILIES:
                failed = [impl for impl, command in programs.items() if not self.run_program(family, round_index, impl, command)]
            else:
                failed = self.measure_alternately(family, round_index, programs)
            if family in CUDA_BASELINES and self.args.device == "cuda" and not self.is_stopped:
                self.run_cuda_baseline(family, round_index)
        print(f"{family}: {time.monotonic() - started:.0f} s", flush=True)
        return failed

    def family_commands(self, family):
        """Returns impl -> the command that measures the cases of a family. Ternion is the first
        impl.
        """
        options = ["--rep", str(self.args.rep), "--steps", str(self.args.steps)]
        compile_options = ["--skip-compile"] if self.args.skip_compile else []
        own_command = [str(self.bundle / "ternion-bench"), *only_arguments(family), *options]
        programs = {"ternion": own_command, "torch": [self.args.python, str(HERE / "torch_cases.py"), *only_arguments(family), *options, *compile_options]}
        if self.args.device != "cuda":
            programs = {wgpu_tables.OWN_IMPL: [*own_command, "--device", self.args.device], **({} if self.cuda_error else programs)}
        return programs

    def measure_alternately(self, family, round_index, commands):
        """Measures each case alternately with all programs that have it. Returns the names of
        those that failed.
        """
        labels = dict(family=family, round=round_index)
        with contextlib.ExitStack() as stack:
            programs = [stack.enter_context(Program(impl, [*command, "--serve"], self.args.case_limit)) for impl, command in commands.items()]
            for program in programs:
                self.store_lines(program, program.wait_until_ready(), labels)
            for case in all_cases(programs):
                if (family, round_index, case) in self.results.measured_requests:
                    continue
                if self.is_time_over(case):
                    break
                self.measure_case(case, programs, labels)
            for program in programs:
                self.store_lines(program, program.finish(), labels)
        return [program.impl for program in programs if program.error]

    def measure_case(self, case, programs, labels):
        """Measures a case in all turns and stores the ratios of its times. Unless a program exited
        or failed, the case is marked as measured.
        """
        labels = dict(labels, requested=case)
        participants = [program for program in programs if case in program.cases]
        times, is_complete = TurnTimes(programs[0].impl), True
        for turn, ordered_programs in alternate(participants, self.args.turns, labels["round"] * self.args.turns):
            for program in ordered_programs:
                lines = self.store_lines(program, program.measure(case), dict(labels, turn=turn))
                for line in lines:
                    times.add(program.impl, turn, line)
                is_complete = is_complete and bool(lines) and not lines[-1].keys() & {"failed", "unknown"}
        for ratios in times.ratios():
            self.results.add(ratios=ratios, **labels)
        if is_complete and all(program.error is None for program in programs):
            self.results.add(measured=True, **labels)

    def store_lines(self, program, lines, labels):
        """Stores a program's lines as they arrive, and its error if it exits. Returns the lines."""
        stored = []
        for line in lines:
            stored.append(line)
            if "unknown" in line:
                line = dict(case=line["done"], impl=program.impl, error="the program lists this case but rejects it as unknown")
            if "done" not in line:
                self.store_line(line, labels)
        if error := program.take_error():
            self.store_error(labels["family"], labels["round"], program.impl, error)
        return stored

    def store_line(self, line, labels):
        """Stores a line of a program's output."""
        if "versions" in line:
            self.results.add(versions=line["versions"])
        elif "adapter" in line:
            self.results.add(**line)
        else:
            if "error" in line:
                print(f"  {line.get('case')} {line.get('impl')}: {line['error']}")
            self.results.add(**{**line, **labels})

    def store_error(self, family, round_index, impl, error):
        """Stores the error of a program that did not start or exited early."""
        print(f"  {impl}: {error}")
        self.results.add(case=f"{family}/", impl=impl, error=error, family=family, round=round_index)

    def run_program(self, family, round_index, impl, command, environment=None):
        """Runs a program and stores its lines as they arrive. Returns whether it succeeded."""
        tail = []
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})}
            )
        except OSError as error:
            self.store_error(family, round_index, impl, str(error))
            return False
        with process:
            for output_line in process.stdout:
                line = parse_json_line(output_line)
                if line is None:
                    tail = [*tail[-4:], output_line.strip()]
                else:
                    self.store_line(line, dict(family=family, round=round_index))
        if process.returncode:
            self.store_error(family, round_index, impl, f"exit status {process.returncode}: {' | '.join(tail)}"[:500])
        return process.returncode == 0

    def run_cuda_baseline(self, family, round_index):
        name = CUDA_BASELINES[family]
        if name not in self.built:
            self.built[name] = build_baseline(name, self.args.python)
        path, environment, error = self.built[name]
        if error:
            return self.store_error(family, round_index, name, error)
        return self.run_program(family, round_index, name, [path, *only_arguments(family)], environment)

    def measure_starts(self, round_index):
        """Measures the time from process start to the first result with cached kernels and without,
        to a bare context, and to the first GPT-2 steps without cached kernels.
        """
        program = str(self.bundle / "ternion-bench")
        bench = [program, "start"]
        with tempfile.TemporaryDirectory() as folder:
            warm_environment = {"TERNION_CACHE": f"{folder}/warm"}
            plans = {
                ("start/cold", "ternion"): (3, [*bench, "result"], lambda repetition: {"TERNION_CACHE": f"{folder}/cold{repetition}", **WITHOUT_CUDA_CACHE}),
                ("start/context", "driver"): (self.args.starts, [*bench, "context"], lambda _: {}),
                ("start/warm", "ternion"): (self.args.starts, [*bench, "result"], lambda _: warm_environment),
                ("start/cold_gpt2", "ternion"): (
                    3,
                    [program, *FIRST_STEPS_ARGUMENTS],
                    lambda repetition: {"TERNION_CACHE": f"{folder}/cold_gpt2_{repetition}", **WITHOUT_CUDA_CACHE},
                ),
                ("start/warm", "torch"): (3, [self.args.python, str(HERE / "torch_cases.py"), "--start"], lambda _: {}),
            }
            # A warm-up of each fills the kernel cache and the file cache. Each cold start has a
            # separate empty kernel cache and does not use CUDA's cache.
            for (case, impl), (_, command, environment) in plans.items():
                if not case.startswith("start/cold"):
                    seconds_to_first_line(command, environment(0))
            measured = {key: [] for key in plans}
            for repetition in range(max(count for count, _, _ in plans.values())):
                for key, (count, command, environment) in plans.items():
                    if repetition < count:
                        measured[key].append(seconds_to_first_line(command, environment(repetition)))
            # The files in the cache of a cold start are the kernels that it compiled.
            caches = {case: pathlib.Path(environment(0)["TERNION_CACHE"]) for (case, _), (_, _, environment) in plans.items() if case.startswith("start/cold")}
            extra_fields = {case: dict(compiled=len(list(cache.rglob("*.cubin"))), cuda_cache=False) for case, cache in caches.items()}
        return sorted({impl for (case, impl), times in measured.items() if not self.add_start_time(case, impl, round_index, times, extra_fields.get(case, {}))})

    def add_start_time(self, case, impl, round_index, times, extra_fields):
        labels = dict(case=case, impl=impl, family="start", round=round_index, **extra_fields)
        errors = [error for _, error in times if error]
        if errors:
            print(f"  {case} {impl}: {errors[0]}")
            self.results.add(error=errors[0], **labels)
            return False
        milliseconds = sorted(seconds for seconds, _ in times)[len(times) // 2] * 1e3
        self.results.add(ms=round(milliseconds, 2), value=round(milliseconds, 2), unit="ms", times=len(times), **labels)
        return True


def seconds_to_first_line(command, environment):
    """Returns the seconds from the start of a process to its first line of output, and None; or
    None and an error.
    """
    started = time.perf_counter()
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    except OSError as error:
        return None, str(error)
    line = process.stdout.readline()
    seconds = time.perf_counter() - started
    _, error_output = process.communicate()
    if process.returncode or parse_json_line(line) is None:
        return None, f"{' '.join(command)}: exit status {process.returncode}: {(line + error_output).strip()[-300:]}"
    return seconds, None


def find_cudnn(python):
    """Finds cuDNN in PyTorch's wheels or in system folders. Returns the flags for nvcc, the
    environment for the loader, and an error if it was not found.
    """
    locate = "import importlib.util as u; print(*u.find_spec('nvidia.cudnn').submodule_search_locations)"
    root, _ = capture_output(python, "-c", locate)
    if root and (pathlib.Path(root) / "include/cudnn.h").exists():
        libraries = sorted(pathlib.Path(root, "lib").glob("libcudnn.so.*"))
        if libraries:
            folder = str(libraries[0].parent)
            flags = [f"-I{root}/include", f"-L{folder}", f"-l:{libraries[0].name}", "-Xlinker", f"-rpath={folder}"]
            return flags, {"LD_LIBRARY_PATH": f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}"}, None
    for include in ("/usr/include", "/usr/include/x86_64-linux-gnu", "/usr/local/cuda/include"):
        if pathlib.Path(include, "cudnn.h").exists():
            return [f"-I{include}", "-lcudnn"], {}, None
    return [], {}, "cudnn.h was found neither in PyTorch's wheels nor in the system's folders"


def build_baseline(name, python):
    """Builds a CUDA C++ baseline with nvcc. Returns its path, the environment for running it, and
    an error if the build failed.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        return None, {}, "nvcc was found neither in PATH nor in /usr/local/cuda/bin"
    flags, environment, error = find_cudnn(python) if "cudnn" in name else ([], {}, None)
    if error:
        return None, {}, error
    path = pathlib.Path(tempfile.mkdtemp(prefix="ternion-peers-")) / name
    command = [nvcc, "-O3", "-std=c++17", "-arch=native", str(HERE / f"{name}.cu"), "-o", str(path), *flags]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode:
        return None, {}, f"{' '.join(command)}: {(completed.stderr or completed.stdout).strip()[-400:]}"
    return str(path), environment, None


def run_checks(args):
    """Runs checks. Earlier results of other checks are kept."""
    if not (args.bundle / "run.sh").is_file():
        raise SystemExit(f"error: {args.bundle}: expected a folder with run.sh")
    if args.data and not args.data.is_dir():
        raise SystemExit(f"error: {args.data}: expected the folder of MNIST, found none")
    measured_on = dict(describe_machine(args.bundle.resolve()), backend=args.device)
    lines = [line for line in read_results_if_present(args.out) if line.get("check") not in args.only]
    write_atomically(args.out, "".join(json.dumps(line) + "\n" for line in lines))

    def add(**line):
        with open(args.out, "a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "measured_on": measured_on}) + "\n")

    kind = CHECKS_BY_KIND[args.device]
    checks = kind(args.bundle.resolve(), args.data, args.out.resolve().with_suffix(".logs"), add, args.time_limit, args.resume)
    for name in args.only:
        checks.run(name)
    if checks.failed:
        raise SystemExit(f"failed: {', '.join(checks.failed)}")


def write_tables(args):
    """Writes the tables of results files between the markers of a page."""
    lines = [line for path in args.results for line in read_results(path)]
    text = args.page.read_text(encoding="utf-8")
    if not any("ms" in line for line in lines):
        if not any("check" in line for line in lines):
            raise SystemExit(f"error: {', '.join(map(str, args.results))}: expected measurements or checks, found none")
        return write_atomically(args.page, tables.update_check_rows(text, lines))
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        reject_mixed_runs(headers[0], header)
    update = wgpu_tables.update_page if wgpu_tables.has_wgpu_results(lines) else tables.update_page
    write_atomically(args.page, update(text, lines))


def positive(text):
    """Parses an integer greater than 0."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def duration(text):
    """Parses a duration greater than 0."""
    number = float(text)
    if not number > 0:
        raise ValueError
    return number


def device(text):
    """Parses `cuda`, `wgpu` or `wgpu:ADAPTER`."""
    if text != "cuda" and text.split(":")[0] != "wgpu":
        raise ValueError
    return text


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measure on this machine")
    run.add_argument("--bundle", type=pathlib.Path, required=True, help="folder with ternion-bench")
    run.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    run.add_argument("--device", type=device, default="cuda", help="cuda, wgpu or wgpu:ADAPTER")
    families = f"{', '.join(FAMILIES)}; only with CUDA: {', '.join(CUDA_ONLY_FAMILIES)}; not in the default: {', '.join(OPT_IN_FAMILIES)}"
    run.add_argument("--families", nargs="+", choices=FAMILIES, metavar="FAMILY", help=families)
    run.add_argument("--rounds", type=positive, default=1, help="rounds of each family; medians are over all rounds and turns")
    run.add_argument("--turns", type=positive, default=3, help="measurements of each case per program and round, alternately; host families have one")
    run.add_argument("--rep", type=duration, default=60.0, help="milliseconds of measurement per case")
    run.add_argument("--steps", type=positive, default=20, help="steps per measurement of a training case")
    run.add_argument("--starts", type=positive, default=9, help="processes that are started for each start case")
    run.add_argument("--skip-compile", action="store_true", help="do not measure torch.compile")
    run.add_argument("--python", default=sys.executable, help="Python interpreter with PyTorch")
    run.add_argument("--resume", action="store_true", help="continue an interrupted run with the same file")
    run.add_argument("--case-limit", type=duration, default=900.0, help="seconds without output during a case after which a program is killed")
    run.add_argument("--time-limit", type=float, default=0, help="seconds after which no further family or case is started")
    names = {device: kind(None, None, None, None).names() for device, kind in CHECKS_BY_KIND.items()}
    check_parser = commands.add_parser("check", help="run the checks on this machine")
    check_parser.add_argument("--bundle", type=pathlib.Path, required=True, help="folder with run.sh")
    check_parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("checks.jsonl"), help="results file; program output goes to a folder next to it, .logs")
    check_parser.add_argument("--device", choices=CHECKS_BY_KIND, default="cuda")
    names_help = "; of wgpu: ".join(", ".join(device_names) for device_names in names.values())
    check_parser.add_argument("--only", nargs="+", choices=sorted(set(sum(names.values(), []))), metavar="CHECK", help=names_help)
    check_parser.add_argument("--time-limit", type=duration, default=1800, help="maximum seconds per check")
    check_parser.add_argument("--resume", action="store_true", help="skip parts of the op table and of the sanitizer that passed in an earlier call")
    check_parser.add_argument("--data", type=pathlib.Path, help="folder with MNIST; by default the one that the example finds")
    write_parser = commands.add_parser("write", help="write the tables to a page")
    write_parser.add_argument("results", type=pathlib.Path, nargs="+")
    write_parser.add_argument("page", type=pathlib.Path)
    args = parser.parse_args()
    if args.command == "check":
        args.only = args.only or names[args.device]
        if not set(args.only) <= set(names[args.device]):
            parser.error(f"--device {args.device} has the checks {', '.join(names[args.device])}")
    if args.command == "run":
        available = [family for family in FAMILIES if args.device == "cuda" or family not in CUDA_ONLY_FAMILIES]
        args.families = args.families or [family for family in available if family not in OPT_IN_FAMILIES]
        if not set(args.families) <= set(available):
            parser.error(f"--device {args.device}: these families need cuda: {', '.join(CUDA_ONLY_FAMILIES)}")
    return args


def main():
    args = parse_arguments()
    try:
        {"run": lambda: Comparison(args).run(), "check": lambda: run_checks(args), "write": lambda: write_tables(args)}[args.command]()
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
