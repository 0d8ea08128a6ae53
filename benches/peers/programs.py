#!/usr/bin/env python3
"""Runs the programs of apps/ on real data and compares their results with limits. Only Python's
standard library is needed.

    programs.py run --programs target/release --data DIR --device cpu
        [--out programs.jsonl]
        measures on this machine
    programs.py run --bundle DIR --data DIR --device cuda [--only shakespeare_char mnist_cnn]
        the same with the programs of a bundle
    programs.py write programs.jsonl.. docs/benchmarks.md
        writes the table between the page's markers

`run` appends a line to the results file after each program. `write` uses the newest line of each
program and device, and keeps the rows of programs and devices that are not in the files.
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

from compare import capture_output, read_results, write_atomically

HERE = pathlib.Path(__file__).resolve().parent
MARKERS = START, END = "<!-- programs:start -->", "<!-- programs:end -->"


class Program:
    """A program with its arguments and the limits of its results.

    `arguments` contain `{data}` for the data folder, in which `required_files` must exist. `limits`
    maps a key of the results to ("at least", "at most" or "below", value). Results of the keys in
    `reported` are listed without a limit.
    """

    def __init__(
        self,
        title,
        binary,
        arguments,
        limits,
        devices=("cpu", "cuda", "wgpu"),
        required_files=(),
        reported=(),
        baseline=None,
        max_device_differences=None,
        published_results=None,
    ):
        self.title, self.binary, self.arguments, self.limits = title, binary, arguments, limits
        self.devices, self.required_files, self.reported = devices, required_files, reported
        # A script in this folder that prints the same results for PyTorch, its arguments, and key
        # -> by how much Ternion's value may be below PyTorch's.
        self.baseline = baseline
        # Key -> maximum difference between the values on different devices.
        self.max_device_differences = max_device_differences or {}
        # Device -> a published result for the same task.
        self.published_results = published_results or {}


SHAKESPEARE = "text/tinyshakespeare.txt"
# The options of the preset `shakespeare-char`.
SHAKESPEARE_CHAR = "--layers 6 --heads 6 --width 384 --context 256 --batch 64 --lr 2e-3 --dropout 0.2 --precision bf16".split()
# Programs by the name that --only selects.
PROGRAMS = {
    "shakespeare": Program(
        "tiny Shakespeare, nanoGPT's CPU setting: 4 layers, 4 heads, 128 wide, context 64, batch 12, 2000 steps",
        "tiny_gpt",
        ["--text", "{data}/" + SHAKESPEARE, "--context", "64", "--batch", "12", "--steps", "2000", "--dropout", "0", "--eval-every", "500"],
        {"validation_loss": ("at most", 1.90)},
        required_files=[SHAKESPEARE],
        reported=["train_seconds", "tokens_per_second", "peak_memory_bytes"],
        baseline=("tiny_gpt.py", ["--text", "{data}/" + SHAKESPEARE], {}),
        published_results={"cpu": "nanoGPT's README: 1.88 in about 3 minutes"},
    ),
    "shakespeare_char": Program(
        "tiny Shakespeare, `--preset shakespeare-char`: 6 layers, 6 heads, 384 wide, context 256, batch 64, dropout 0.2",
        "tiny_gpt",
        ["--text", "{data}/" + SHAKESPEARE, "--preset", "shakespeare-char"],
        {"validation_loss": ("at most", 1.48), "train_seconds": ("below", 90)},
        devices=("cuda",),
        required_files=[SHAKESPEARE],
        reported=["tokens_per_second", "peak_memory_bytes"],
        baseline=("tiny_gpt.py", ["--text", "{data}/" + SHAKESPEARE, "--compile", *SHAKESPEARE_CHAR], {}),
    ),
    "housing": Program(
        "California housing, MLP 8-128-128-1",
        "housing",
        ["--data", "{data}/california-housing/california_housing.csv"],
        {"test_r2": ("at least", 0.78)},
        required_files=["california-housing/california_housing.csv"],
        reported=["test_rmse", "train_seconds"],
    ),
    "mnist_mlp": Program(
        "MNIST, `--model mlp`",
        "mnist",
        ["--data", "{data}/mnist"],
        {"test_accuracy": ("at least", 0.97)},
        required_files=["mnist/train-images-idx3-ubyte.gz"],
        reported=["train_seconds", "images_per_second"],
    ),
    "mnist_cnn": Program(
        "MNIST, `--model cnn`",
        "mnist",
        ["--data", "{data}/mnist", "--model", "cnn"],
        {"test_accuracy": ("at least", 0.99), "train_seconds": ("below", 10)},
        devices=("cuda",),
        required_files=["mnist/train-images-idx3-ubyte.gz"],
        reported=["images_per_second"],
    ),
    "cifar10": Program(
        "CIFAR-10, a subset of 10,000 images, `--model alexnet`",
        "cifar10",
        ["--data", "{data}/cifar10", "--model", "alexnet"],
        {"test_accuracy": ("at least", 0.65)},
        required_files=["cifar10/cifar10-subset-train.bin"],
        reported=["train_seconds", "images_per_second"],
    ),
    "cifar10_resnet18": Program(
        "CIFAR-10, a subset of 10,000 images, `--model resnet18 --precision bf16`, 12 epochs",
        "cifar10",
        ["--data", "{data}/cifar10", "--model", "resnet18", "--precision", "bf16"],
        {"test_accuracy": ("at least", 0.75)},
        devices=("cuda",),
        required_files=["cifar10/cifar10-subset-train.bin"],
        reported=["train_seconds", "images_per_second", "peak_memory_bytes"],
    ),
    "gpt2_124m": Program(
        # The token files are written by `gpt2 --bpe {data}/gpt2 --tokenize`, for the first 90% of
        # the text and for the rest. The loss of uniform predictions is ln(50257) = 10.8.
        "GPT-2 of 124 million parameters from scratch on tiny Shakespeare's tokens: 100 steps, batch 12, context 1024, bf16",
        "gpt2",
        ["--train", "{data}/tokens/train.bin", "--validation", "{data}/tokens/validation.bin", "--bpe", "{data}/gpt2", "--steps", "100", "--precision", "bf16"],
        {"validation_loss": ("at most", 6.5)},
        devices=("cuda",),
        required_files=["tokens/train.bin", "tokens/validation.bin", "gpt2/vocab.bpe"],
        reported=["train_seconds", "tokens_per_second", "peak_memory_bytes"],
    ),
    "image_encoder": Program(
        "an image of 512 x 512 learned by an MLP of its positions, 10,000 steps of 512 pixels",
        "image_encoder",
        ["--image", "{data}/images/baboon.png"],
        {},
        required_files=["images/baboon.png"],
        reported=["train_seconds"],
        baseline=("image_encoder.py", ["--image", "{data}/images/baboon.png"], {"psnr": 0.2}),
        max_device_differences={"psnr": 0.1},
    ),
    **{
        f"compare_{model}": Program(
            f"losses compared with the CPU's, step by step: `compare --model {model}`, 100 steps",
            "compare",
            ["--model", model],
            {"largest_difference": ("at most", 1e-3)},
            devices=("cuda", "wgpu"),
        )
        for model in ("mlp", "cnn", "gpt", "tiny_gpt")
    },
}


def describe_machine(device, commit):
    """Returns machine, commit and time of a measurement."""
    names = [platform.processor() or platform.machine()]
    cpuinfo = pathlib.Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
    machine = f"{names[0]}, {os.cpu_count()} threads"
    if device != "cpu":
        smi_output, _ = capture_output("nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader")
        if smi_output:
            name, driver = smi_output.splitlines()[0].split(", ")
            machine = f"{name}, driver {driver}"
    return {"machine": machine, "commit": commit, "time": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d %H:%M UTC")}


def read_commit(args):
    if args.bundle:
        manifest = json.loads((args.bundle / "bundle.json").read_text(encoding="utf-8"))
        return manifest["commit"]
    version, _ = capture_output("git", "describe", "--always", "--dirty", "--abbrev=10")
    return version or "unknown"


def run_programs(args):
    """Runs the selected programs that support the device, until the time limit."""
    started, failed = time.monotonic(), []
    commit = read_commit(args)
    for name in args.only or PROGRAMS:
        program = PROGRAMS[name]
        kind = args.device.split(":")[0]
        missing = [file for file in program.required_files if not (args.data / file).is_file()]
        if kind not in program.devices or missing:
            reason = f"{args.data} lacks {', '.join(missing)}" if missing else f"not run on {kind}"
            print(f"{name}: skipped: {reason}", flush=True)
            continue
        seconds_left = args.time_limit - (time.monotonic() - started)
        if seconds_left < 10:
            print(f"{name}: skipped: --time-limit has expired", flush=True)
            failed.append(name)
            continue
        result = run_program(args, program, seconds_left)
        line = json.dumps({"program": name, "device": kind, **describe_machine(kind, commit), **result})
        with open(args.out, "a", encoding="utf-8") as file:
            file.write(line + "\n")
        if "error" in result:
            failed.append(name)
        print(f"{name}: {json.dumps(result.get('results', result))[:600]}", flush=True)
    if failed:
        raise SystemExit(f"failed: {', '.join(failed)}")


def run_program(args, program, seconds):
    """Runs a program. Returns its results, or an error."""
    launcher = [str(args.bundle.resolve() / "run.sh"), "app", program.binary] if args.bundle else [str(args.programs.resolve() / program.binary)]
    with tempfile.TemporaryDirectory() as folder:
        results = pathlib.Path(folder) / "results.json"
        command = [*launcher, "--device", args.device, "--seed", str(args.seed), *expand_data(program.arguments, args), "--json", str(results)]
        try:
            completed = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder)
        except (OSError, subprocess.TimeoutExpired) as error:
            return {"error": str(error)[-400:]}
        if completed.returncode:
            return {"error": (completed.stderr or completed.stdout).strip()[-400:]}
        values = json.loads(results.read_text(encoding="utf-8"))
        # A program with several tasks nests the results of training.
        result = {"seed": args.seed, "results": values | values.get("training", {})}
        return result | (run_baseline(program, args, seconds) if program.baseline else {})


def expand_data(arguments, args):
    return [argument.replace("{data}", str(args.data.resolve())) for argument in arguments]


def run_baseline(program, args, seconds):
    """Runs the PyTorch script of a program. Returns its results, or an error."""
    script, arguments, _ = program.baseline
    device = "cuda" if args.device.split(":")[0] != "cpu" else "cpu"
    command = [args.python, str(HERE / script), "--device", device, "--seed", str(args.seed), *expand_data(arguments, args)]
    try:
        completed = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)
        return {"peer": json.loads(completed.stdout)} if completed.returncode == 0 else {"peer_error": completed.stderr.strip()[-400:]}
    except (OSError, subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return {"peer_error": str(error)[-400:]}


def format_value(key, value):
    """Formats a value: bytes in MiB, accuracies in percent, long times in minutes."""
    if value is None:
        return "-"
    if key.endswith("bytes"):
        return f"{value / 2**20:.0f} MiB"
    if key.endswith("seconds"):
        return f"{value / 60:.1f} min" if value >= 120 else f"{value:.1f} s"
    if key.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def format_limit(key, limit):
    comparison, value = limit
    return comparison if value is None else f"{comparison} {format_value(key, value)}"


def meets_limit(value, limit):
    comparison, threshold = limit
    if value is None or threshold is None:
        return False
    return {"at least": value >= threshold, "at most": value <= threshold, "below": value < threshold}[comparison]


HEADER = ["| program | on | figure | measured | expected | holds | besides |", "|---|---|---|---:|---:|---|---|"]
DEVICES = ("cpu", "cuda", "wgpu")


def table_rows(lines, earlier_rows=None):
    """Returns a row for each limit of the newest run of each program on each device.
    `earlier_rows`: (title, device) -> rows of runs that are not in `lines`.
    """
    newest = {(line["program"], line["device"]): line for line in lines}
    table = []
    for name, program in PROGRAMS.items():
        current_rows = []
        for device in DEVICES:
            line = newest.get((name, device))
            current_rows += program_rows(program, device, line) if line else (earlier_rows or {}).get((program.title, device), [])
        table += current_rows + device_difference_rows(program, current_rows)
    return HEADER + table


def program_rows(program, device, line):
    """Returns the rows of a run of a program."""
    start = f"| {program.title} | {device} |"
    if "error" in line:
        return [f"{start} | | | no | {line['error'].splitlines()[-1].replace('|', '/')} |"]
    results = line["results"]
    notes = [format_values(results, program.reported), *([program.published_results[device]] if device in program.published_results else [])]
    if "peer" in line:
        compiled = " (torch.compile)" if "--compile" in program.baseline[1] else ""
        keys = [key for key in [*program.limits, *program.baseline[2], *program.reported] if key in line["peer"]]
        notes.append(f"PyTorch{compiled}: {format_values(line['peer'], keys)}")
    notes = "; ".join(filter(None, notes))
    limits = program.limits | baseline_limits(program, line)
    if not limits:
        return [f"{start} | | | | {notes} |"]
    return [format_row(start, key, format_value(key, results.get(key)), limit, meets_limit(results.get(key), limit), notes) for key, limit in limits.items()]


def format_values(results, keys):
    return ", ".join(f"{key.replace('_', ' ').removesuffix(' bytes')} {format_value(key, results.get(key))}" for key in dict.fromkeys(keys))


def format_row(start, key, measured, limit, is_met, notes):
    return f"{start} {key.replace('_', ' ')} | {measured} | {format_limit(key, limit)} | {'yes' if is_met else '**no**'} | {notes} |"


def device_difference_rows(program, program_rows):
    """Returns rows for the differences between the values in the rows of different devices."""
    rows = []
    for key, max_difference in program.max_device_differences.items():
        cells = [cells for cells in map(split_cells, program_rows) if cells[2] == key.replace("_", " ") and cells[3] != "-"]
        if len(cells) > 1:
            values, limit = [float(row_cells[3]) for row_cells in cells], ("at most", max_difference)
            difference = round(max(values) - min(values), 6)
            start = f"| {program.title} | {', '.join(row_cells[1] for row_cells in cells)} |"
            rows.append(format_row(start, f"{key}, apart", format_value(key, difference), limit, meets_limit(difference, limit), ""))
    return rows


def split_cells(table_row):
    return [cell.strip() for cell in table_row.strip().strip("|").split(" |")]


def baseline_limits(program, line):
    """Returns the limits that follow from PyTorch's results."""
    if program.baseline is None:
        return {}
    _, _, tolerances = program.baseline
    results = line.get("peer", {})
    missing = ("compared with PyTorch, which was not run", None)
    return {key: ("at least", results[key] - tolerance) if key in results else missing for key, tolerance in tolerances.items()}


def update_page(text, lines):
    """Returns the page with the table between its markers. Rows without new results are kept."""
    if text.count(START) != 1 or text.count(END) != 1:
        raise SystemExit(f"error: expected the markers {START} and {END} once each")
    before, rest = text.split(START)
    old, after = rest.split(END)
    measured_keys = {(PROGRAMS[line["program"]].title, line["device"]) for line in lines}
    earlier_rows = {}
    for table_row in old.splitlines():
        if table_row.startswith("| ") and len(cells := split_cells(table_row)) == len(split_cells(HEADER[0])) and cells[1] in DEVICES:
            earlier_rows.setdefault((cells[0], cells[1]), []).append(table_row)
    earlier_rows = {key: old_rows for key, old_rows in earlier_rows.items() if key not in measured_keys}
    devices = {device for title, device in earlier_rows if title in {program.title for program in PROGRAMS.values()}}
    runs = {}
    for line in lines:
        run_line = f"- {line['device']}: {line['machine']}, commit {line['commit']}, {line['time'].split()[0]}"
        runs.setdefault((line["device"], run_line), set()).add(PROGRAMS[line["program"]].binary)
    # If rows of an earlier run of the device remain, the line names the programs of this run.
    run_lines = {run_line + (f": {', '.join(sorted(binaries))}" if device in devices else "") for (device, run_line), binaries in runs.items()}
    run_lines |= {run_line for run_line in old.splitlines() if run_line.startswith("- ") and run_line[2:].split(":")[0] in devices}
    body = "\n".join([*sorted(run_lines), "", *table_rows(lines, earlier_rows)])
    return f"{before}{START}\n{body}\n{END}{after}"


def write_table(args):
    lines = [line for path in args.results for line in read_results(path)]
    if not lines:
        raise SystemExit("error: no results")
    write_atomically(args.page, update_page(args.page.read_text(encoding="utf-8"), lines))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    run_parser = commands.add_parser("run", help="measure on this machine")
    location = run_parser.add_mutually_exclusive_group(required=True)
    location.add_argument("--programs", type=pathlib.Path, help="folder with the built programs")
    location.add_argument("--bundle", type=pathlib.Path, help="folder with run.sh")
    run_parser.add_argument("--data", type=pathlib.Path, required=True, help="folder with a subfolder for each data set")
    run_parser.add_argument("--device", default="cpu")
    run_parser.add_argument("--python", default=sys.executable, help="Python interpreter with PyTorch")
    run_parser.add_argument("--seed", type=int, default=1)
    run_parser.add_argument("--only", nargs="+", choices=PROGRAMS, metavar="PROGRAM", help=", ".join(PROGRAMS))
    run_parser.add_argument("--time-limit", type=float, default=7200, help="seconds for all programs")
    run_parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("programs.jsonl"))
    write_parser = commands.add_parser("write", help="write the table to a page")
    write_parser.add_argument("results", type=pathlib.Path, nargs="+")
    write_parser.add_argument("page", type=pathlib.Path)
    return parser.parse_args()


def main():
    args = parse_arguments()
    try:
        {"run": run_programs, "write": write_table}[args.command](args)
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
