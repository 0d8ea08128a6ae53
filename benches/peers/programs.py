#!/usr/bin/env python3
"""Runs the programs of apps/ on real data and records their results; only Python's standard library
is needed.

    programs.py run --programs target/release --data DIR --device cpu
        [--out programs.jsonl]
        measures on this machine
    programs.py run --bundle DIR --data DIR --device cuda [--only shakespeare_char mnist_cnn]
        the same with the programs of a bundle
    programs.py write programs.jsonl.. docs/benchmarks.md
        writes the table between the page's markers

`run` adds a line to the results file when a program ends. For each program and device the newest
line counts. `write` keeps the rows of programs and devices that are not in the files.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import time

from compare import output_of, read_results, replace

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = START, END = "<!-- programs:start -->", "<!-- programs:end -->"


class Claim:
    """A program with its arguments, and what its results must be."""

    def __init__(self, title, example, arguments, expected, devices=("cpu", "cuda", "wgpu"), needs=(), told=(), peer=None, apart=None, public=None):
        self.title, self.example, self.arguments, self.expected = title, example, arguments, expected
        # Required files in the data folder; `{data}` in an argument is replaced by that folder.
        self.devices, self.needs, self.told = devices, needs, told
        # A script in this folder that prints the same figures for PyTorch, its arguments, and
        # figure -> how much worse than PyTorch's Ternion's figure may be. Other figures are only
        # reported.
        self.peer = peer
        # Figure -> the maximum difference of its values on different devices.
        self.apart = apart or {}
        # Device -> a published result of others for the same task.
        self.public = public or {}


SHAKESPEARE = "text/tinyshakespeare.txt"
# The options that the preset sets.
SHAKESPEARE_CHAR = "--layers 6 --heads 6 --width 384 --context 256 --batch 64 --lr 2e-3 --dropout 0.2 --precision bf16".split()
# Name -> what is claimed. Expected: key of the JSON -> ("at least" or "at most" or "below", limit).
CLAIMS = {
    "shakespeare": Claim(
        "tiny Shakespeare, nanoGPT's CPU setting: 4 layers, 4 heads, 128 wide, context 64, batch 12, 2000 steps",
        "tiny_gpt",
        ["--text", "{data}/" + SHAKESPEARE, "--context", "64", "--batch", "12", "--steps", "2000", "--dropout", "0", "--eval-every", "500"],
        {"validation_loss": ("at most", 1.90)},
        needs=[SHAKESPEARE],
        told=["train_seconds", "tokens_per_second", "peak_memory_bytes"],
        peer=("tiny_gpt.py", ["--text", "{data}/" + SHAKESPEARE], {}),
        public={"cpu": "nanoGPT's README: 1.88 in about 3 minutes"},
    ),
    "shakespeare_char": Claim(
        "tiny Shakespeare, `--preset shakespeare-char`: 6 layers, 6 heads, 384 wide, context 256, batch 64, dropout 0.2",
        "tiny_gpt",
        ["--text", "{data}/" + SHAKESPEARE, "--preset", "shakespeare-char"],
        {"validation_loss": ("at most", 1.48), "train_seconds": ("below", 90)},
        devices=("cuda",),
        needs=[SHAKESPEARE],
        told=["tokens_per_second", "peak_memory_bytes"],
        peer=("tiny_gpt.py", ["--text", "{data}/" + SHAKESPEARE, "--compile", *SHAKESPEARE_CHAR], {}),
    ),
    "housing": Claim(
        "California housing, MLP 8-128-128-1",
        "housing",
        ["--data", "{data}/california-housing/california_housing.csv"],
        {"test_r2": ("at least", 0.78)},
        needs=["california-housing/california_housing.csv"],
        told=["test_rmse", "train_seconds"],
    ),
    "mnist_mlp": Claim(
        "MNIST, `--model mlp`",
        "mnist",
        ["--data", "{data}/mnist"],
        {"test_accuracy": ("at least", 0.97)},
        needs=["mnist/train-images-idx3-ubyte.gz"],
        told=["train_seconds", "images_per_second"],
    ),
    "mnist_cnn": Claim(
        "MNIST, `--model cnn`",
        "mnist",
        ["--data", "{data}/mnist", "--model", "cnn"],
        {"test_accuracy": ("at least", 0.99), "train_seconds": ("below", 10)},
        devices=("cuda",),
        needs=["mnist/train-images-idx3-ubyte.gz"],
        told=["images_per_second"],
    ),
    "cifar10": Claim(
        "CIFAR-10, a subset of 10,000 images, `--model alexnet`",
        "cifar10",
        ["--data", "{data}/cifar10", "--model", "alexnet"],
        {"test_accuracy": ("at least", 0.65)},
        needs=["cifar10/cifar10-subset-train.bin"],
        told=["train_seconds", "images_per_second"],
    ),
    "cifar10_resnet18": Claim(
        "CIFAR-10, a subset of 10,000 images, `--model resnet18 --precision bf16`, 12 epochs",
        "cifar10",
        ["--data", "{data}/cifar10", "--model", "resnet18", "--precision", "bf16"],
        {"test_accuracy": ("at least", 0.75)},
        devices=("cuda",),
        needs=["cifar10/cifar10-subset-train.bin"],
        told=["train_seconds", "images_per_second", "peak_memory_bytes"],
    ),
    "gpt2_124m": Claim(
        # The files that `gpt2 --bpe {data}/gpt2 --tokenize` writes for the first nine tenths of the
        # text and for the rest. The loss of a random guess is ln(50257) = 10.8.
        "GPT-2 of 124 million parameters from scratch on tiny Shakespeare's tokens: 100 steps, batch 12, context 1024, bf16",
        "gpt2",
        ["--train", "{data}/tokens/train.bin", "--validation", "{data}/tokens/validation.bin", "--bpe", "{data}/gpt2", "--steps", "100", "--precision", "bf16"],
        {"validation_loss": ("at most", 6.5)},
        devices=("cuda",),
        needs=["tokens/train.bin", "tokens/validation.bin", "gpt2/vocab.bpe"],
        told=["train_seconds", "tokens_per_second", "peak_memory_bytes"],
    ),
    "image_encoder": Claim(
        "an image of 512 x 512 learned by an MLP of its positions, 10,000 steps of 512 pixels",
        "image_encoder",
        ["--image", "{data}/images/baboon.png"],
        {},
        needs=["images/baboon.png"],
        told=["train_seconds"],
        peer=("image_encoder.py", ["--image", "{data}/images/baboon.png"], {"psnr": 0.2}),
        apart={"psnr": 0.1},
    ),
    **{
        f"compare_{model}": Claim(
            f"losses compared with the CPU's, step by step: `compare --model {model}`, 100 steps",
            "compare",
            ["--model", model],
            {"largest_difference": ("at most", 1e-3)},
            devices=("cuda", "wgpu"),
        )
        for model in ("mlp", "cnn", "gpt", "tiny_gpt")
    },
}


def header(device, commit):
    """Returns what the results were measured with."""
    names = [platform.processor() or platform.machine()]
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
    machine = f"{names[0]}, {os.cpu_count()} threads"
    if device != "cpu":
        told, _ = output_of("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        if told:
            name, driver = told.splitlines()[0].split(", ")
            machine = f"{name}, driver {driver}"
    return {"machine": machine, "commit": commit, "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


def commit_of(given):
    if given.bundle:
        manifest = json.loads((given.bundle / "bundle.json").read_text(encoding="utf-8"))
        return manifest["commit"]
    told, _ = output_of("git", "describe", "--always", "--dirty", "--abbrev=10")
    return told or "unknown"


def run(given):
    """Runs every claim that the device supports and the time allows."""
    begun, failed = time.monotonic(), []
    commit = commit_of(given)
    for name in given.only or CLAIMS:
        claim = CLAIMS[name]
        kind = given.device.split(":")[0]
        missing = [file for file in claim.needs if not (given.data / file).is_file()]
        if kind not in claim.devices or missing:
            print(f"{name}: left out: " + (f"{given.data} lacks {', '.join(missing)}" if missing else f"not claimed of {kind}"), flush=True)
            continue
        left = given.time_limit - (time.monotonic() - begun)
        if left < 10:
            print(f"{name}: left out: no time", flush=True)
            failed.append(name)
            continue
        result = measured(given, claim, left)
        line = json.dumps({"program": name, "device": kind, **header(kind, commit), **result})
        with open(given.out, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if "error" in result:
            failed.append(name)
        print(f"{name}: {json.dumps(result.get('results', result))[:600]}", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def measured(given, claim, seconds):
    """Returns the program's JSON, or why there is none."""
    start = [str(given.bundle.resolve() / "run.sh"), "app", claim.example] if given.bundle else [str(given.programs.resolve() / claim.example)]
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.json"
        command = [*start, "--device", given.device, "--seed", str(given.seed), *with_data(claim.arguments, given), "--json", str(results)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"error": str(error)[-400:]}
        if done.returncode:
            return {"error": (done.stderr or done.stdout).strip()[-400:]}
        figures = json.loads(results.read_text(encoding="utf-8"))
        # A program with several tasks reports each of them separately.
        found = {"seed": given.seed, "results": figures | figures.get("training", {})}
        return found | (peer_of(claim, given, seconds) if claim.peer else {})


def with_data(arguments, given):
    return [argument.replace("{data}", str(given.data.resolve())) for argument in arguments]


def peer_of(claim, given, seconds):
    """Returns PyTorch's results on this machine, or why they are not known."""
    script, arguments, _ = claim.peer
    device = "cuda" if given.device.split(":")[0] != "cpu" else "cpu"
    command = [given.python, str(HERE / script), "--device", device, "--seed", str(given.seed), *with_data(arguments, given)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        return {"peer": json.loads(done.stdout)} if done.returncode == 0 else {"peer_error": done.stderr.strip()[-400:]}
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return {"peer_error": str(error)[-400:]}


def number(key, value):
    """Formats a figure: bytes in MiB, ratios in percent, long times in minutes."""
    if value is None:
        return "-"
    if key.endswith("bytes"):
        return f"{value / 2**20:.0f} MiB"
    if key.endswith("seconds"):
        return f"{value / 60:.1f} min" if value >= 120 else f"{value:.1f} s"
    if key.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def limit(key, bound):
    words, value = bound
    return words if value is None else f"{words} {number(key, value)}"


def holds(value, bound):
    words, expected = bound
    if value is None or expected is None:
        return False
    return {"at least": value >= expected, "at most": value <= expected, "below": value < expected}[words]


HEAD = ["| program | on | figure | measured | expected | holds | besides |", "|---|---|---|---:|---:|---|---|"]
DEVICES = ("cpu", "cuda", "wgpu")


def rows(lines, kept=None):
    """Returns a row for each figure of the newest run of each program on each device; `kept`:
    (title, device) -> rows of runs that `lines` lack.
    """
    newest = {(line["program"], line["device"]): line for line in lines}
    table = []
    for name, claim in CLAIMS.items():
        of_claim = []
        for device in DEVICES:
            line = newest.get((name, device))
            of_claim += rows_of(claim, device, line) if line else (kept or {}).get((claim.title, device), [])
        table += of_claim + rows_between(claim, of_claim)
    return HEAD + table


def rows_of(claim, device, line):
    """Returns the rows of one run."""
    start = f"| {claim.title} | {device} |"
    if "error" in line:
        return [f"{start} | | | no | {line['error'].splitlines()[-1].replace('|', '/')} |"]
    results = line["results"]
    besides = [told(results, claim.told), *([claim.public[device]] if device in claim.public else [])]
    if "peer" in line:
        compiled = " (torch.compile)" if "--compile" in claim.peer[1] else ""
        keys = [key for key in [*claim.expected, *claim.peer[2], *claim.told] if key in line["peer"]]
        besides.append(f"PyTorch{compiled}: {told(line['peer'], keys)}")
    besides = "; ".join(filter(None, besides))
    expected = claim.expected | bounds_by_peer(claim, line)
    if not expected:
        return [f"{start} | | | | {besides} |"]
    return [row(start, key, number(key, results.get(key)), bound, holds(results.get(key), bound), besides) for key, bound in expected.items()]


def told(results, keys):
    return ", ".join(f"{key.replace('_', ' ').removesuffix(' bytes')} {number(key, results.get(key))}" for key in dict.fromkeys(keys))


def row(start, key, measured, bound, is_met, besides):
    return f"{start} {key.replace('_', ' ')} | {measured} | {limit(key, bound)} | {'yes' if is_met else '**no**'} | {besides} |"


def rows_between(claim, of_claim):
    """Returns how much the figures of different devices differ, as their rows state them."""
    found = []
    for key, most in claim.apart.items():
        cells = [cells for cells in map(cells_of, of_claim) if cells[2] == key.replace("_", " ") and cells[3] != "-"]
        if len(cells) > 1:
            figures, bound = [float(measured[3]) for measured in cells], ("at most", most)
            apart = round(max(figures) - min(figures), 6)
            start = f"| {claim.title} | {', '.join(measured[1] for measured in cells)} |"
            found.append(row(start, f"{key}, apart", number(key, apart), bound, holds(apart, bound), ""))
    return found


def cells_of(table_row):
    return [cell.strip() for cell in table_row.strip().strip("|").split(" |")]


def bounds_by_peer(claim, line):
    """Returns the bounds that PyTorch's figures determine."""
    if claim.peer is None:
        return {}
    _, _, slack = claim.peer
    peer = line.get("peer", {})
    return {key: ("at least", peer[key] - less) if key in peer else ("compared with PyTorch, which was not run", None) for key, less in slack.items()}


def page(text, lines):
    """Returns the page with the table between its markers. Rows that were not measured now are
    kept.
    """
    if text.count(START) != 1 or text.count(END) != 1:
        raise SystemExit(f"error: expected the markers {START} and {END} once each")
    before, rest = text.split(START)
    old, after = rest.split(END)
    measured = {(CLAIMS[line["program"]].title, line["device"]) for line in lines}
    kept = {}
    for table_row in old.splitlines():
        if table_row.startswith("| ") and len(cells := cells_of(table_row)) == len(cells_of(HEAD[0])) and cells[1] in DEVICES:
            kept.setdefault((cells[0], cells[1]), []).append(table_row)
    kept = {place: found for place, found in kept.items() if place not in measured}
    still_told = {device for title, device in kept if title in {claim.title for claim in CLAIMS.values()}}
    runs = {f"- {line['device']}: {line['machine']}, commit {line['commit']}, {line['time'].split()[0]}" for line in lines}
    runs |= {told for told in old.splitlines() if told.startswith("- ") and told[2:].split(":")[0] in still_told}
    body = "\n".join([*sorted(runs), "", *rows(lines, kept)])
    return f"{before}{START}\n{body}\n{END}{after}"


def write(given):
    lines = [line for path in given.results for line in read_results(path)]
    if not lines:
        raise SystemExit("error: no results")
    replace(given.page, page(given.page.read_text(encoding="utf-8"), lines))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    ran = commands.add_parser("run", help="measures on this machine")
    place = ran.add_mutually_exclusive_group(required=True)
    place.add_argument("--programs", type=pathlib.Path, help="the folder of the built programs")
    place.add_argument("--bundle", type=pathlib.Path, help="the folder that holds run.sh")
    ran.add_argument("--data", type=pathlib.Path, required=True, help="the folder of the data sets, each in its own folder")
    ran.add_argument("--device", default="cpu")
    ran.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    ran.add_argument("--seed", type=int, default=1)
    ran.add_argument("--only", nargs="+", choices=CLAIMS, metavar="PROGRAM", help=f"of {', '.join(CLAIMS)}")
    ran.add_argument("--time-limit", type=float, default=7200, help="seconds for all")
    ran.add_argument("--out", type=pathlib.Path, default=pathlib.Path("programs.jsonl"))
    written = commands.add_parser("write", help="writes the table into a page")
    written.add_argument("results", type=pathlib.Path, nargs="+")
    written.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


def main():
    given = arguments()
    try:
        {"run": run, "write": write}[given.command](given)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
