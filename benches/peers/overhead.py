#!/usr/bin/env python3
"""Compares the overhead of a call from Python of Ternion and PyTorch, alternately in one process.
The tensors have one element, so that nearly all of the time is overhead.

    overhead.py run --device cpu cuda [--out overhead.jsonl]
        measures; requires ternion and torch
    overhead.py run --device cpu --mnist "run.sh app mnist" python/examples/mnist.py --data DIR
        also measures the Rust and the Python version of this program
    overhead.py write overhead.jsonl.. docs/benchmarks.md
        writes the table between the page's markers

Results are medians over rounds in which both alternate. A round has as many calls as take some
milliseconds. On CUDA a round ends with a synchronization.
"""

import argparse
import json
import pathlib
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

from compare import capture_output, read_results, write_atomically
from programs import describe_machine

MARKERS = START, END = "<!-- python:start -->", "<!-- python:end -->"
CHAIN = 100
ROUNDS = 51


def add(library, device):
    a, b = (library.ones(1, device=device) for _ in range(2))

    def calls(count):
        for _ in range(count):
            a + b

    return calls, 1


def chain(library, device):
    """A chain of x * c + c, recorded for autograd because x requires a gradient."""
    x, c = library.ones(1, device=device, requires_grad=True), library.full((1,), 0.5, device=device)

    def calls(count):
        for _ in range(count):
            y = x
            for _ in range(CHAIN // 2):
                y = y * c + c

    return calls, CHAIN


def chain_backward(library, device):
    x, c = library.ones(1, device=device, requires_grad=True), library.full((1,), 0.5, device=device)

    def calls(count):
        for _ in range(count):
            y = x
            for _ in range(CHAIN // 2):
                y = y * c + c
            y.backward()

    return calls, CHAIN


def add_thousand(library, device):
    """A kernel with some work, for which vectorization helps."""
    a, b = (library.ones(1000, device=device) for _ in range(2))

    def calls(count):
        for _ in range(count):
            a + b

    return calls, 1


# Name -> arguments of both versions of the program `mnist`.
PROGRAMS = {"mnist": [], "mnist_eager": ["--eager"]}
# Minimum speed of the Python program relative to the Rust program.
MIN_SPEED_RATIO = 0.95
# Number of alternate runs of each version. The result is the median ratio over these turns, which
# differ by 10% and more.
TURNS = 9

# Name -> description, and the function that creates its calls.
CASES = {
    "add": ("`a + b`, 1 element", add),
    "chain": (f"each op of a chain of {CHAIN}, recorded for gradients", chain),
    "chain_backward": (f"each op of a chain of {CHAIN} with its gradient", chain_backward),
    "add_1000": ("`a + b`, 1,000 elements", add_thousand),
}
# Maximum ratios to PyTorch's time. MAX_RATIO_OF_ADD is for `a + b` on the CPU, which is overhead
# only: on CUDA half of the time is spent in the driver, equally for both.
MAX_RATIO, MAX_RATIO_OF_ADD = 0.4, 0.3


def max_ratio(line):
    return MAX_RATIO_OF_ADD if (line["device"], line["case"]) == ("cpu", "add") else MAX_RATIO


def synchronizer(library, name, device):
    if device == "cpu":
        return lambda: None
    return library.cuda.synchronize if name == "torch" else library.device(device).synchronize


def time_calls(calls, wait, count):
    wait()
    started = time.perf_counter()
    calls(count)
    wait()
    return time.perf_counter() - started


def measure_case(case, device, libraries):
    """Returns library -> nanoseconds per op."""
    _, make = CASES[case]
    tasks = {}
    for name, library in libraries.items():
        calls, ops = make(library, device)
        wait, count = synchronizer(library, name, device), 1
        time_calls(calls, wait, 3)
        while time_calls(calls, wait, count) < 4e-3:
            count *= 2
        tasks[name] = calls, wait, count, ops
    times = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, (calls, wait, count, ops) in tasks.items():
            times[name].append(time_calls(calls, wait, count) / count / ops)
    return {name: statistics.median(times_of_library) * 1e9 for name, times_of_library in times.items()}


def measure_mnist(args, device, arguments):
    """Returns the accuracy and median speed of each version, and the speed ratio of each turn."""
    program, script = args.mnist
    commands = {"rust": [*shlex.split(program), *arguments], "python": [sys.executable, script, *arguments]}
    turns = {version: [] for version in commands}
    for _ in range(TURNS):
        for version, command in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "results.json"
                subprocess.run([*command, "--device", device, "--data", str(args.data), "--seed", "1", "--json", str(out)], check=True, capture_output=True)
                turns[version].append(json.loads(out.read_text(encoding="utf-8")))
    speed_ratios = [python["images_per_second"] / rust["images_per_second"] for rust, python in zip(turns["rust"], turns["python"])]
    return {"programs": {version: summarize_turns(version_turns) for version, version_turns in turns.items()}, "shares": speed_ratios}


def summarize_turns(turns):
    """Returns the minimum accuracy and the median speed."""
    return {
        "test_accuracy": min(turn["test_accuracy"] for turn in turns),
        "images_per_second": statistics.median(turn["images_per_second"] for turn in turns),
    }


def run(args):
    import ternion
    import torch

    libraries = {"ternion": ternion, "torch": torch}
    for device in args.device:
        header = {"python": platform.python_version(), "versions": {"torch": torch.__version__}}
        for case in PROGRAMS if args.mnist else ():
            results = measure_mnist(args, device, PROGRAMS[case])
            line = {**describe_machine(device, args.commit), "device": device, "case": case, **header, **results}
            append_line(args, line)
            print(f"{device} {case}: {line['programs']}, {[round(ratio, 3) for ratio in line['shares']]}", flush=True)
        for case in CASES:
            nanoseconds = measure_case(case, device, libraries)
            line = {**describe_machine(device, args.commit), "device": device, "case": case, **header, "nanoseconds": nanoseconds}
            append_line(args, line)
            own, baseline = nanoseconds["ternion"], nanoseconds["torch"]
            print(f"{device} {case}: {own:.0f} ns, PyTorch {baseline:.0f} ns, ratio {own / baseline:.2f}", flush=True)


def append_line(args, line):
    with open(args.out, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def mnist_rows(lines):
    if not lines:
        return []
    header = "| program | on | accuracy, Rust | Python | images a second, Rust | Python | share | expected | holds |"
    return ["", header, "|---|---|---:|---:|---:|---:|---:|---|---|"] + [mnist_row(line) for line in lines]


def mnist_row(line):
    rust, python = (line["programs"][version] for version in ("rust", "python"))
    speed_ratio = round(statistics.median(line["shares"]), 3)
    holds = speed_ratio >= MIN_SPEED_RATIO and python["test_accuracy"] >= rust["test_accuracy"]
    cells = [f"{100 * version['test_accuracy']:.2f} %" for version in (rust, python)] + [f"{version['images_per_second']:.0f}" for version in (rust, python)]
    title = " ".join(["`mnist", *PROGRAMS[line["case"]]]) + "`"
    expected = f"at least {MIN_SPEED_RATIO}, as accurate"
    return f"| {title} | {line['device']} | {' | '.join(cells)} | {speed_ratio:.3f} | {expected} | {'yes' if holds else '**no**'} |"


HEADER = ["| call | on | Ternion | PyTorch | of PyTorch's time | expected | holds |", "|---|---|---:|---:|---:|---|---|"]


def format_row(line):
    title, limit = CASES[line["case"]][0], max_ratio(line)
    ternion, torch = (line["nanoseconds"][name] for name in ("ternion", "torch"))
    ratio = ternion / torch
    holds = "yes" if ratio <= limit else "**no**"
    return f"| {title} | {line['device']} | {ternion:.0f} ns | {torch:.0f} ns | {ratio:.2f} | at most {limit} | {holds} |"


def format_run(line):
    versions = f"Python {line['python']}, PyTorch {line['versions']['torch']}"
    return f"- {line['device']}: {line['machine']}, {versions}, commit {line['commit']}, {line['time'].split()[0]}"


def update_page(text, lines):
    if text.count(START) != 1 or text.count(END) != 1:
        raise SystemExit(f"error: expected the markers {START} and {END} once each")
    newest = {(line["device"], line["case"]): line for line in lines}
    run_lines = sorted({format_run(line) for line in newest.values()})
    table = [format_row(newest[device, case]) for device in ("cpu", "cuda") for case in CASES if (device, case) in newest]
    table += mnist_rows([newest[device, case] for device in ("cpu", "cuda") for case in PROGRAMS if (device, case) in newest])
    before, rest = text.split(START)
    return "\n".join([before + START, *run_lines, "", *HEADER, *table, END]) + rest.split(END)[1]


def write_page(args):
    lines = [line for path in args.results for line in read_results(path)]
    if not lines:
        raise SystemExit("error: no results")
    write_atomically(args.page, update_page(args.page.read_text(encoding="utf-8"), lines))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="measure on this machine")
    run_parser.add_argument("--device", nargs="+", choices=("cpu", "cuda"), default=["cpu"])
    run_parser.add_argument("--mnist", nargs=2, metavar=("PROGRAM", "SCRIPT"), help="the Rust example with its arguments, and the Python example")
    run_parser.add_argument("--data", type=pathlib.Path, help="folder with MNIST")
    commit = capture_output("git", "describe", "--always", "--dirty", "--abbrev=10")[0] or "unknown"
    run_parser.add_argument("--commit", default=commit, help="commit from which the package was built")
    run_parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("overhead.jsonl"))
    write_parser = commands.add_parser("write", help="write the table to a page")
    write_parser.add_argument("results", type=pathlib.Path, nargs="+")
    write_parser.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


if __name__ == "__main__":
    args = parse_arguments()
    {"run": run, "write": write_page}[args.command](args)
