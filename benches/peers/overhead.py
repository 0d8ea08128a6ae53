#!/usr/bin/env python3
"""The cost of a call from Python: Ternion's package compared with PyTorch, alternately in one
process. The ops have tensors of one element, so that there is no work but the call.

    overhead.py run --device cpu cuda [--out overhead.jsonl]
        measures; needs ternion and torch
    overhead.py run --device cpu --mnist "run.sh app mnist" python/examples/mnist.py --data DIR
        in addition, the Rust and the Python version of this program
    overhead.py write overhead.jsonl.. docs/benchmarks.md
        writes the table between the page's markers

Each figure is the median of rounds in which both alternate; a round has as many calls as take some
milliseconds. On CUDA a round ends with a wait for the device.
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

from compare import output_of, read_results, replace
from programs import header

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
    """Recorded for gradients: x * c + c and so on, where x requires a gradient."""
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


def thousand(library, device):
    """A thousand elements: a kernel with some work, for which vectorization pays."""
    a, b = (library.ones(1000, device=device) for _ in range(2))

    def calls(count):
        for _ in range(count):
            a + b

    return calls, 1


# Name -> the arguments of both versions of the program `mnist`.
PROGRAMS = {"mnist": [], "mnist_eager": ["--eager"]}
# The minimum, relative to the speed of the Rust program.
LEAST = 0.95
# Each version runs this often, alternately. The result is the median of the turns' ratios: turns
# differ by a tenth and more.
TURNS = 9

# Name -> what it is, and the function that creates its calls.
CASES = {
    "add": ("`a + b`, 1 element", add),
    "chain": (f"each op of a chain of {CHAIN}, recorded for gradients", chain),
    "chain_backward": (f"each op of a chain of {CHAIN} with its gradient", chain_backward),
    "add_1000": ("`a + b`, 1,000 elements", thousand),
}
# The maximum ratio to PyTorch's time. MOST_OF_ADD is for `a + b` on the CPU, which is nothing but
# the call: on CUDA half of the time is the driver's, the same for both.
MOST, MOST_OF_ADD = 0.4, 0.3


def limit(line):
    return MOST_OF_ADD if (line["device"], line["case"]) == ("cpu", "add") else MOST


def waiting(library, name, device):
    if device == "cpu":
        return lambda: None
    return library.cuda.synchronize if name == "torch" else library.device(device).synchronize


def seconds(calls, wait, count):
    wait()
    begun = time.perf_counter()
    calls(count)
    wait()
    return time.perf_counter() - begun


def measured(case, device, libraries):
    """Returns library -> nanoseconds per op."""
    _, make = CASES[case]
    tasks = {}
    for name, library in libraries.items():
        calls, ops = make(library, device)
        wait, count = waiting(library, name, device), 1
        seconds(calls, wait, 3)
        while seconds(calls, wait, count) < 4e-3:
            count *= 2
        tasks[name] = calls, wait, count, ops
    times = {name: [] for name in tasks}
    for _ in range(ROUNDS):
        for name, (calls, wait, count, ops) in tasks.items():
            times[name].append(seconds(calls, wait, count) / count / ops)
    return {name: statistics.median(found) * 1e9 for name, found in times.items()}


def mnist(given, device, arguments):
    """Returns version -> its accuracy and median speed, and the ratio of each turn."""
    program, script = given.mnist
    commands = {"rust": [*shlex.split(program), *arguments], "python": [sys.executable, script, *arguments]}
    turns = {form: [] for form in commands}
    for _ in range(TURNS):
        for form, command in commands.items():
            with tempfile.TemporaryDirectory() as folder:
                out = pathlib.Path(folder) / "results.json"
                subprocess.run([*command, "--device", device, "--data", str(given.data), "--seed", "1", "--json", str(out)], check=True, capture_output=True)
                turns[form].append(json.loads(out.read_text(encoding="utf-8")))
    shares = [python["images_per_second"] / rust["images_per_second"] for rust, python in zip(turns["rust"], turns["python"])]
    return {"programs": {form: typical(found) for form, found in turns.items()}, "shares": shares}


def typical(turns):
    """Returns the accuracy, which is that of every turn or the minimum, and the median speed."""
    return {"test_accuracy": min(turn["test_accuracy"] for turn in turns), "images_per_second": statistics.median(turn["images_per_second"] for turn in turns)}


def run(given):
    import ternion
    import torch

    libraries = {"ternion": ternion, "torch": torch}
    for device in given.device:
        for case in PROGRAMS if given.mnist else ():
            line = {**header(device, given.commit), "device": device, "case": case, "python": platform.python_version(), "versions": {"torch": torch.__version__}, **mnist(given, device, PROGRAMS[case])}
            note(given, line)
            print(f"{device} {case}: {line['programs']}, {[round(share, 3) for share in line['shares']]}", flush=True)
        for case in CASES:
            found = measured(case, device, libraries)
            line = {**header(device, given.commit), "device": device, "case": case, "python": platform.python_version(), "versions": {"torch": torch.__version__}, "nanoseconds": found}
            note(given, line)
            print(f"{device} {case}: {found['ternion']:.0f} ns, PyTorch {found['torch']:.0f} ns, ratio {found['ternion'] / found['torch']:.2f}", flush=True)


def note(given, line):
    with open(given.out, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def mnist_rows(lines):
    if not lines:
        return []
    head = ["", "| program | on | accuracy, Rust | Python | images a second, Rust | Python | share | expected | holds |", "|---|---|---:|---:|---:|---:|---:|---|---|"]
    return head + [mnist_row(line) for line in lines]


def mnist_row(line):
    rust, python = (line["programs"][form] for form in ("rust", "python"))
    share = round(statistics.median(line["shares"]), 3)
    holds = share >= LEAST and python["test_accuracy"] >= rust["test_accuracy"]
    figures = [f"{100 * form['test_accuracy']:.2f} %" for form in (rust, python)] + [f"{form['images_per_second']:.0f}" for form in (rust, python)]
    title = " ".join(["`mnist", *PROGRAMS[line["case"]]]) + "`"
    return f"| {title} | {line['device']} | {' | '.join(figures)} | {share:.3f} | at least {LEAST}, as accurate | {'yes' if holds else '**no**'} |"


HEAD = ["| call | on | Ternion | PyTorch | of PyTorch's time | expected | holds |", "|---|---|---:|---:|---:|---|---|"]


def row(line):
    title, most = CASES[line["case"]][0], limit(line)
    ours, theirs = (line["nanoseconds"][name] for name in ("ternion", "torch"))
    share = ours / theirs
    holds = "yes" if share <= most else "**no**"
    return f"| {title} | {line['device']} | {ours:.0f} ns | {theirs:.0f} ns | {share:.2f} | at most {most} | {holds} |"


def page(text, lines):
    if text.count(START) != 1 or text.count(END) != 1:
        raise SystemExit(f"error: expected the markers {START} and {END} once each")
    newest = {(line["device"], line["case"]): line for line in lines}
    told = sorted({f"- {line['device']}: {line['machine']}, Python {line['python']}, PyTorch {line['versions']['torch']}, commit {line['commit']}, {line['time'].split()[0]}" for line in newest.values()})
    table = [row(newest[device, case]) for device in ("cpu", "cuda") for case in CASES if (device, case) in newest]
    table += mnist_rows([newest[device, case] for device in ("cpu", "cuda") for case in PROGRAMS if (device, case) in newest])
    before, rest = text.split(START)
    return "\n".join([before + START, *told, "", *HEAD, *table, END]) + rest.split(END)[1]


def write(given):
    lines = [line for path in given.results for line in read_results(path)]
    if not lines:
        raise SystemExit("error: no results")
    replace(given.page, page(given.page.read_text(encoding="utf-8"), lines))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ran = commands.add_parser("run", help="measures on this machine")
    ran.add_argument("--device", nargs="+", choices=("cpu", "cuda"), default=["cpu"])
    ran.add_argument("--mnist", nargs=2, metavar=("PROGRAM", "SCRIPT"), help="the Rust example, with its arguments, and the Python one")
    ran.add_argument("--data", type=pathlib.Path, help="the folder of MNIST's files")
    ran.add_argument("--commit", default=output_of("git", "describe", "--always", "--dirty", "--abbrev=10")[0] or "unknown", help="of which the package was built")
    ran.add_argument("--out", type=pathlib.Path, default=pathlib.Path("overhead.jsonl"))
    written = commands.add_parser("write", help="writes the table into a page")
    written.add_argument("results", type=pathlib.Path, nargs="+")
    written.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


if __name__ == "__main__":
    given = arguments()
    {"run": run, "write": write}[given.command](given)
