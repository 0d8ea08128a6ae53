#!/usr/bin/env python3
"""Compares Ternion with its peers on one GPU, in one run; only Python's standard library is needed.

    compare.py run --bundle DIR [--out results.jsonl]
        on the GPU machine: measures Ternion and PyTorch alternately, case by case
    compare.py run --bundle DIR --device wgpu
        the same for the wgpu backend; its peers are the CUDA backend and PyTorch, if there is CUDA
    compare.py check --bundle DIR [--out checks.jsonl]
        also there: the op table twice, compute-sanitizer, training, memory; minutes each
    compare.py check --bundle DIR --device wgpu
        the same for wgpu: the op table, what the table is too small for, training on the CPU too
    compare.py write results.jsonl.. docs/benchmarks.md
        anywhere: writes the tables between the page's markers
    compare.py write checks.jsonl docs/benchmarks.md
        the same only for checks: their rows, next to the earlier measurements

`run` starts Ternion and PyTorch once for each family and alternates requests for each case that
both have (turns.py): Ternion, PyTorch, PyTorch, Ternion, and so on. A GPU at its power limit
becomes slower the longer it works, so the first of two consecutive programs would have an
advantage. Figures are medians of all turns; "ratios" in the results file adds a turn's minimum and
maximum. The host's time and a process's start, which do not depend on the GPU's clocks, and the
CUDA C++ peers are measured program after program.

`run` adds a line to the results file after each measurement; --resume continues an interrupted run.
For peers that cannot be built or run there is a line with an "error", and the others continue.
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
from checks import Checks, GraphicsChecks
from turns import Program, Times, in_turn, parsed, union

HERE = pathlib.Path(__file__).resolve().parent

# Kind of device -> the checks that it must pass.
CHECKS = {"cuda": Checks, "wgpu": GraphicsChecks}
# Families in the order in which they run -> the prefixes of their cases' names. The copy is
# measured with each family whose results are relative to it, so that both run at the same clocks.
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
# Measured only if --families names them: scripts of the same names write their tables elsewhere.
APART = ("ladder", "attention_ladder", "attention_study")
# Only for the CUDA backend.
OF_CUDA = ("start", "ladder", "attention_ladder", "attention_study")

# Other load of the machine affects the host's times: families that consist only of such times are
# measured this often, spread over the whole run.
HOST_FAMILIES = ("host",)
HOST_ROUNDS = 3

# Arguments with which ternion-bench trains GPT-2. Its first line is printed after four steps op by
# op, the first of which compiles the kernels. The recorded step, which follows that line, is not
# counted.
FIRST_STEPS = ["--case", "train/gpt2_124m/bf16", "--once"]
# Since 12.9 NVRTC also stores what it compiles in CUDA's compute cache, whatever TERNION_CACHE is;
# cold starts disable that.
NO_CUDA_CACHE = {"CUDA_CACHE_DISABLE": "1"}

# Family -> the peer in CUDA C++ that has cases of it.
PEERS = {"reduce": "cub_reduce", "softmax": "cudnn_softmax"}


def refuse_mixed(one, other):
    """Raises an error if the figures of two devices or commits would be in one table."""
    differing = [f"{key} {one.get(key)} and {other.get(key)}" for key in ("device", "driver", "commit", "backend") if one.get(key) != other.get(key)]
    if differing:
        raise SystemExit(f"error: results of different runs: {', '.join(differing)}")


class Results:
    """The results file: one JSON object per line, complete lines only."""

    def __init__(self, path, resume, header):
        """With `resume`, the content of the file is kept, if it was measured on the same device and
        commit; the header of this run follows it.
        """
        kept = earlier_results(path) if resume else []
        for earlier in [line["run"] for line in kept if "run" in line]:
            refuse_mixed(earlier, header)
        self.finished = {line["finished"] for line in kept if "finished" in line}
        self.measured = {whole_case(line) for line in kept if "measured" in line}
        kept = [line for line in kept if self.is_whole(line)]
        replace(path, "".join(json.dumps(line) + "\n" for line in kept))
        self.file = open(path, "a", encoding="utf-8")
        self.add(run=header)

    def is_whole(self, line):
        """Returns whether a line belongs to a family or case that was measured completely. Other
        lines, from before an interruption, would be counted twice.
        """
        return line.get("family") is None or f"{line['family']} {line['round']}" in self.finished or whole_case(line) in self.measured

    def add(self, **line):
        self.file.write(json.dumps(line) + "\n")
        self.file.flush()
        os.fsync(self.file.fileno())


def whole_case(line):
    """Returns the case that a line was measured for. The line's own case may differ, such as that
    of a step's launches. None in lines without a turn.
    """
    return line["family"], line["round"], line.get("asked")


def replace(path, text):
    """Writes to a temporary file and renames it: a reader finds all of it or the previous content.
    """
    beside = path.with_name(path.name + ".tmp")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def earlier_results(path):
    """Returns the content of a results file that is to be continued: empty if there is none yet."""
    return read_results(path) if path.exists() else []


def read_results(path):
    """Returns the lines of a results file, which must exist. The last line may be cut off, others
    must be complete.
    """
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


def read_one_run(paths):
    """Returns the lines of results files, which must be of one device and commit."""
    lines = [line for path in paths for line in read_results(path)]
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        refuse_mixed(headers[0], header)
    return lines


def output_of(*command, timeout=60):
    """Returns the output of a program, or why there is none. `timeout` is in seconds."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, str(error)
    return (done.stdout.strip(), None) if done.returncode == 0 else (None, (done.stderr or done.stdout).strip()[-300:])


def found_nvcc():
    """Returns the path of nvcc, if there is one."""
    for folder in [*os.environ.get("PATH", "").split(":"), "/usr/local/cuda/bin"]:
        if folder and os.access(path := pathlib.Path(folder) / "nvcc", os.X_OK):
            return str(path)
    return None


def header(bundle):
    """Returns what the figures were measured on."""
    smi, why = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
    device, _, driver = (smi or f"unknown ({why}), unknown").splitlines()[0].rpartition(", ")
    nvcc = found_nvcc()
    version, _ = output_of(nvcc, "--version") if nvcc else (None, None)
    release = next((line.split("release ")[1].split(",")[0] for line in (version or "").splitlines() if "release " in line), None)
    manifest = bundle / "bundle.json"
    commit = json.loads(manifest.read_text(encoding="utf-8"))["commit"] if manifest.exists() else "unknown"
    date = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    return dict(device=device, driver=driver, nvcc=release, commit=commit, date=date, cores=len(os.sched_getaffinity(0)))


def order(families, rounds):
    """Returns families with the indices of their rounds, in the order in which they are run:
    further rounds of the host's are spread evenly over the others, to the end.
    """
    once = [(family, number) for family in families for number in range(rounds)]
    again = [(family, number) for number in range(rounds, HOST_ROUNDS) for family in families if family in HOST_FAMILIES]
    steps = list(once)
    for at, step in reversed(list(enumerate(again, 1))):
        steps.insert(-(-len(once) * at // len(again)), step)
    return steps


def only(family):
    """Returns the arguments with which a program measures the cases of a family."""
    return ["--only", *FAMILIES[family]]


class Run:
    """One run of all programs on this machine."""

    def __init__(self, given):
        self.given = given
        self.bundle = given.bundle.resolve()
        if not (self.bundle / "ternion-bench").is_file():
            raise SystemExit(f"error: {self.bundle}: holds no ternion-bench")
        self.built = {}
        # The start of --time-limit; whether it has expired.
        self.begun, self.stopped = time.monotonic(), False
        # Why the peers of the wgpu backend cannot run.
        self.cuda = output_of(str(self.bundle / "ternion-bench"), "start", "context")[1] if given.device != "cuda" else None
        # Last, because the file is overwritten: errors in the arguments are found before.
        self.results = Results(given.out, given.resume, self.header())

    def header(self):
        """Returns what the figures are measured on, and for which backend."""
        about = header(self.bundle)
        return about if self.given.device == "cuda" else dict(about, backend="wgpu", cuda=self.cuda or "present")

    def go(self):
        if self.cuda:
            print(f"without the CUDA backend and PyTorch: {self.cuda}", flush=True)
        failed = []
        for family, number in order(self.given.families, self.given.rounds):
            label = f"{family} {number}"
            if label in self.results.finished:
                continue
            if self.is_over(family):
                break
            unwell = self.family(family, number)
            if unwell:
                failed.append(f"{label} ({', '.join(unwell)})")
            if self.stopped:
                break
            if not unwell:
                self.results.add(finished=label)
        if failed:
            raise SystemExit(f"error: not measured whole, --resume tries again: {', '.join(failed)}")

    def is_over(self, before):
        """Returns whether --time-limit has expired before the next measurement."""
        self.stopped = bool(self.given.time_limit) and time.monotonic() - self.begun > self.given.time_limit
        if self.stopped:
            print(f"stopped before {before}: --time-limit {self.given.time_limit:.0f} is over; --resume continues there")
        return self.stopped

    def family(self, family, number):
        """Measures a family. Returns which of Ternion and PyTorch failed: what their lines say, and
        what else was measured, is kept.
        """
        begun = time.monotonic()
        if family == "start":
            failed = self.starts(number)
        else:
            programs = self.programs(family)
            if family in HOST_FAMILIES:
                failed = [impl for impl, command in programs.items() if not self.program(family, number, impl, command)]
            else:
                failed = self.turns(family, number, programs)
            if family in PEERS and self.given.device == "cuda" and not self.stopped:
                self.peer(family, number)
        print(f"{family}: {time.monotonic() - begun:.0f} s", flush=True)
        return failed

    def programs(self, family):
        """Returns the names of the programs in lines of results, Ternion first -> the command that
        measures its cases of a family.
        """
        sizes = ["--rep", str(self.given.rep), "--steps", str(self.given.steps)]
        flags = ["--skip-compile"] if self.given.skip_compile else []
        bench = [str(self.bundle / "ternion-bench"), *only(family), *sizes]
        programs = {"ternion": bench, "torch": [self.given.python, str(HERE / "torch_cases.py"), *only(family), *sizes, *flags]}
        if self.given.device != "cuda":
            programs = {wgpu_tables.OURS: [*bench, "--device", self.given.device], **({} if self.cuda else programs)}
        return programs

    def turns(self, family, number, commands):
        """Measures each case with all programs that have it, alternately. Returns which of them
        failed.
        """
        labels = dict(family=family, round=number)
        with contextlib.ExitStack() as stack:
            programs = [stack.enter_context(Program(impl, [*command, "--serve"], self.given.case_limit)) for impl, command in commands.items()]
            for program in programs:
                self.keep(program, program.begin(), labels)
            for case in union(programs):
                if (family, number, case) in self.results.measured:
                    continue
                if self.is_over(case):
                    break
                self.case(case, programs, labels)
            for program in programs:
                self.keep(program, program.end(), labels)
        return [program.impl for program in programs if program.error]

    def case(self, case, programs, labels):
        """Measures a case in all turns. Adds the ratios of its times, and that it was measured,
        unless a program ended or failed.
        """
        labels = dict(labels, asked=case)
        having = [program for program in programs if case in program.cases]
        times, whole = Times(programs[0].impl), True
        for turn, ordered in in_turn(having, self.given.turns, labels["round"] * self.given.turns):
            for program in ordered:
                lines = self.keep(program, program.measure(case), dict(labels, turn=turn))
                for line in lines:
                    times.add(program.impl, turn, line)
                whole = whole and bool(lines) and not lines[-1].keys() & {"failed", "unknown"}
        for ratios in times.ratios():
            self.results.add(ratios=ratios, **labels)
        if whole and all(program.error is None for program in programs):
            self.results.add(measured=True, **labels)

    def keep(self, program, lines, labels):
        """Stores a program's output as it arrives, and why the program ended, if it does. Returns
        the lines.
        """
        kept = []
        for line in lines:
            kept.append(line)
            if "unknown" in line:
                line = dict(case=line["done"], impl=program.impl, error="the program lists the case, but does not know it")
            if "done" not in line:
                self.record(line, labels)
        if error := program.new_error():
            self.ended(labels["family"], labels["round"], program.impl, error)
        return kept

    def record(self, line, labels):
        """Stores a line that a program printed."""
        if "versions" in line:
            self.results.add(versions=line["versions"])
        elif "adapter" in line:
            self.results.add(**line)
        else:
            if "error" in line:
                print(f"  {line.get('case')} {line.get('impl')}: {line['error']}")
            self.results.add(**{**line, **labels})

    def ended(self, family, number, impl, error):
        """Stores why a program ended before it had measured everything, or did not start."""
        print(f"  {impl}: {error}")
        self.results.add(case=f"{family}/", impl=impl, error=error, family=family, round=number)

    def program(self, family, number, impl, command, environment=None):
        """Runs a program and stores its lines as they arrive. Returns whether it finished."""
        tail = []
        try:
            process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={**os.environ, **(environment or {})}
            )
        except OSError as error:
            self.ended(family, number, impl, str(error))
            return False
        with process:
            for text in process.stdout:
                line = parsed(text)
                if line is None:
                    tail = [*tail[-4:], text.strip()]
                else:
                    self.record(line, dict(family=family, round=number))
        if process.returncode:
            self.ended(family, number, impl, f"exit status {process.returncode}: {' | '.join(tail)}"[:500])
        return process.returncode == 0

    def peer(self, family, number):
        name = PEERS[family]
        if name not in self.built:
            self.built[name] = build(name, self.given.python)
        path, environment, error = self.built[name]
        if error:
            return self.ended(family, number, name, error)
        return self.program(family, number, name, [path, *only(family)], environment)

    def starts(self, number):
        """Measures from the start of a process to its first result: compared with a bare context,
        with compiled kernels on disk and without; and to GPT-2's first steps without them.
        """
        program = str(self.bundle / "ternion-bench")
        bench = [program, "start"]
        with tempfile.TemporaryDirectory() as folder:
            warm = {"TERNION_CACHE": f"{folder}/warm"}
            plans = {
                ("start/cold", "ternion"): (3, [*bench, "result"], lambda at: {"TERNION_CACHE": f"{folder}/cold{at}", **NO_CUDA_CACHE}),
                ("start/context", "driver"): (self.given.starts, [*bench, "context"], lambda _: {}),
                ("start/warm", "ternion"): (self.given.starts, [*bench, "result"], lambda _: warm),
                ("start/cold_gpt2", "ternion"): (3, [program, *FIRST_STEPS], lambda at: {"TERNION_CACHE": f"{folder}/cold_gpt2_{at}", **NO_CUDA_CACHE}),
                ("start/warm", "torch"): (3, [self.given.python, str(HERE / "torch_cases.py"), "--start"], lambda _: {}),
            }
            # The first of each is not counted: it fills the kernel cache, and the machine's file
            # cache. Cold starts each have a separate empty cache, and do not use CUDA's.
            for (case, impl), (_, command, environment) in plans.items():
                if not case.startswith("start/cold"):
                    seconds_to_first_line(command, environment(0))
            measured = {key: [] for key in plans}
            for at in range(max(count for count, _, _ in plans.values())):
                for key, (count, command, environment) in plans.items():
                    if at < count:
                        measured[key].append(seconds_to_first_line(command, environment(at)))
            # The files that a cold start has stored are those that it had to compile.
            caches = {case: pathlib.Path(environment(0)["TERNION_CACHE"]) for (case, _), (_, _, environment) in plans.items() if case.startswith("start/cold")}
            more = {case: dict(compiled=len(list(cache.rglob("*.cubin"))), cuda_cache=False) for case, cache in caches.items()}
        return sorted({impl for (case, impl), found in measured.items() if not self.start_line(case, impl, number, found, more.get(case, {}))})

    def start_line(self, case, impl, number, found, more):
        labels = dict(case=case, impl=impl, family="start", round=number, **more)
        errors = [error for _, error in found if error]
        if errors:
            print(f"  {case} {impl}: {errors[0]}")
            self.results.add(error=errors[0], **labels)
            return False
        milliseconds = sorted(seconds for seconds, _ in found)[len(found) // 2] * 1e3
        self.results.add(ms=round(milliseconds, 2), value=round(milliseconds, 2), unit="ms", times=len(found), **labels)
        return True


def seconds_to_first_line(command, environment):
    """Returns the seconds from the start of a process to its first line of output, and the error if
    there is none.
    """
    begun = time.perf_counter()
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, **environment})
    except OSError as error:
        return None, str(error)
    line = process.stdout.readline()
    seconds = time.perf_counter() - begun
    _, errors = process.communicate()
    if process.returncode or parsed(line) is None:
        return None, f"{' '.join(command)}: exit status {process.returncode}: {(line + errors).strip()[-300:]}"
    return seconds, None


def cudnn_flags(python):
    """Returns what nvcc and the loader need to find cuDNN, which may be installed only with
    PyTorch; or why it was not found.
    """
    wheel = "import importlib.util as u; print(*u.find_spec('nvidia.cudnn').submodule_search_locations)"
    root, _ = output_of(python, "-c", wheel)
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


def build(name, python):
    """Builds a peer with nvcc. Returns its path, the environment it needs, and an error if it
    failed.
    """
    nvcc = found_nvcc()
    if nvcc is None:
        return None, {}, "nvcc was found neither in PATH nor in /usr/local/cuda/bin"
    flags, environment, error = cudnn_flags(python) if "cudnn" in name else ([], {}, None)
    if error:
        return None, {}, error
    path = pathlib.Path(tempfile.mkdtemp(prefix="ternion-peers-")) / name
    command = [nvcc, "-O3", "-std=c++17", "-arch=native", str(HERE / f"{name}.cu"), "-o", str(path), *flags]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return None, {}, f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-400:]}"
    return str(path), environment, None


def check(given):
    """Runs checks. The results of an earlier call are kept, except for the same checks."""
    if not (given.bundle / "run.sh").is_file():
        raise SystemExit(f"error: {given.bundle}: holds no run.sh")
    if given.data and not given.data.is_dir():
        raise SystemExit(f"error: {given.data}: expected the folder of MNIST, found none")
    of = dict(header(given.bundle.resolve()), backend=given.device)
    kept = [line for line in earlier_results(given.out) if line.get("check") not in given.only]
    replace(given.out, "".join(json.dumps(line) + "\n" for line in kept))

    def add(**line):
        with open(given.out, "a", encoding="utf-8") as file:
            file.write(json.dumps({**line, "of": of}) + "\n")

    kind = CHECKS[given.device]
    checks = kind(given.bundle.resolve(), given.data, given.out.resolve().with_suffix(".logs"), add, given.time_limit, given.resume)
    for name in given.only:
        checks.run(name)
    if checks.failed:
        raise SystemExit(f"failed: {', '.join(checks.failed)}")


def write(given):
    """Writes the tables of results files to the page, between its markers."""
    lines = [line for path in given.results for line in read_results(path)]
    text = given.page.read_text(encoding="utf-8")
    if not any("ms" in line for line in lines):
        if not any("check" in line for line in lines):
            raise SystemExit(f"error: {', '.join(map(str, given.results))}: neither a measured case nor a check")
        return replace(given.page, tables.page_of_checks(text, lines))
    headers = [line["run"] for line in lines if "run" in line]
    for header in headers[1:]:
        refuse_mixed(headers[0], header)
    page = wgpu_tables.page if wgpu_tables.is_of_wgpu(lines) else tables.page
    replace(given.page, page(text, lines))


def positive(text):
    """Parses an integer greater than 0."""
    number = int(text)
    if number < 1:
        raise ValueError
    return number


def duration(text):
    """Parses a time greater than 0."""
    number = float(text)
    if not number > 0:
        raise ValueError
    return number


def device(text):
    """Parses the name of a device that ternion-bench can compare with peers."""
    if text != "cuda" and text.split(":")[0] != "wgpu":
        raise ValueError
    return text


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="measures on this machine")
    run.add_argument("--bundle", type=pathlib.Path, required=True, help="the folder that holds ternion-bench")
    run.add_argument("--out", type=pathlib.Path, default=pathlib.Path("results.jsonl"))
    run.add_argument("--device", type=device, default="cuda", help="cuda, wgpu or wgpu:ADAPTER")
    run.add_argument("--families", nargs="+", choices=FAMILIES, metavar="FAMILY", help=f"of {', '.join(FAMILIES)}; {' and '.join(OF_CUDA)} are of cuda only, {' and '.join(APART)} are run only where they are named")
    run.add_argument("--rounds", type=positive, default=1, help="times that each family is run; medians are of all rounds and turns")
    run.add_argument("--turns", type=positive, default=3, help="times that each case is measured by Ternion and PyTorch in turn, in a round; the host's has one")
    run.add_argument("--rep", type=duration, default=60.0, help="milliseconds to measure a case for")
    run.add_argument("--steps", type=positive, default=20, help="steps of a round of a train case")
    run.add_argument("--starts", type=positive, default=9, help="processes started for the time to the first result")
    run.add_argument("--skip-compile", action="store_true", help="leaves out torch.compile")
    run.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    run.add_argument("--resume", action="store_true", help="continues where a run into the same file was cut off")
    run.add_argument("--case-limit", type=duration, default=900.0, help="seconds after which a program that is asked for a case and prints nothing is ended")
    run.add_argument("--time-limit", type=float, default=0, help="seconds after which no other family, and no other case of turns, is begun")
    names = {device: kind(None, None, None, None).names() for device, kind in CHECKS.items()}
    checked = commands.add_parser("check", help="runs what must pass on this machine")
    checked.add_argument("--bundle", type=pathlib.Path, required=True, help="the folder that holds run.sh")
    checked.add_argument("--out", type=pathlib.Path, default=pathlib.Path("checks.jsonl"), help="what the programs print goes into a folder next to it, .logs")
    checked.add_argument("--device", choices=CHECKS, default="cuda")
    known = "; of wgpu ".join(", ".join(of_device) for of_device in names.values())
    checked.add_argument("--only", nargs="+", choices=sorted(set(sum(names.values(), []))), metavar="CHECK", help=f"of {known}")
    checked.add_argument("--time-limit", type=duration, default=1800, help="seconds that a check may take")
    checked.add_argument("--resume", action="store_true", help="parts of the op table and of the sanitizer that passed in an earlier call are not run again")
    checked.add_argument("--data", type=pathlib.Path, help="the folder of MNIST; without it what the example finds")
    written = commands.add_parser("write", help="writes the tables into a page")
    written.add_argument("results", type=pathlib.Path, nargs="+")
    written.add_argument("page", type=pathlib.Path)
    given = parser.parse_args()
    if given.command == "check":
        given.only = given.only or names[given.device]
        if not set(given.only) <= set(names[given.device]):
            parser.error(f"--device {given.device}: its checks are {', '.join(names[given.device])}")
    if given.command == "run":
        there = [family for family in FAMILIES if given.device == "cuda" or family not in OF_CUDA]
        given.families = given.families or [family for family in there if family not in APART]
        if not set(given.families) <= set(there):
            parser.error(f"--device {given.device}: {' and '.join(OF_CUDA)} are families of cuda only")
    return given


def main():
    given = arguments()
    try:
        {"run": lambda: Run(given).go(), "check": lambda: check(given), "write": lambda: write(given)}[given.command]()
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
