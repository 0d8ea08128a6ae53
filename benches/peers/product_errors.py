#!/usr/bin/env python3
"""Errors of f32 matrix products relative to float64 on a GPU: as bf16x6, and by f32 FMA.

    product_errors.py run --bundle DIR --out errors.jsonl
        on the GPU machine: runs the test of the bundle that prints these errors
    product_errors.py write errors.jsonl docs/kernels/matmul.md
        on any machine: writes the table between the page's markers

The test is `errors_are_those_of_f32` of tests/kernels/bf16x6.rs; it fails if bf16x6 is less
accurate than f32. `write` needs only Python's standard library.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from compare import describe_machine, read_single_run, write_atomically
from pages import format_row, provenance_lines, replace_between_markers, run_write_command

MARKERS = ("<!-- product-errors:start -->", "<!-- product-errors:end -->")
TEST = "kernels::bf16x6::errors_are_those_of_f32"
# Prefix of the lines with errors in the output of the test.
OUTPUT_PREFIX = "product errors: "
COLUMNS = (("parts_rms", "bf16x6, rms"), ("f32_rms", "f32, rms"), ("parts_max", "bf16x6, largest"), ("f32_max", "f32, largest"))


def parse_errors(text):
    """Parses the errors that the test prints for each kind of values and size."""
    return [json.loads(line[len(OUTPUT_PREFIX) :]) for line in text.splitlines() if line.startswith(OUTPUT_PREFIX)]


def run(args):
    command = [str((args.bundle / "tests" / "cuda").absolute()), TEST, "--exact", "--nocapture"]
    completed = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "TERNION_EXPECT": "cuda"})
    errors = parse_errors(completed.stdout)
    if completed.returncode != 0 or not errors:
        raise SystemExit(f"error: {TEST}: {(completed.stderr or completed.stdout).strip()[-2000:]}")
    write_atomically(args.out, "".join(json.dumps(line) + "\n" for line in [dict(run=describe_machine(args.bundle)), *errors]))


def render(lines):
    header = next(line["run"] for line in lines if "run" in line)
    errors = [line for line in lines if "numbers" in line]
    if not errors:
        raise SystemExit("error: no errors in the file")
    rows = [format_row(["numbers", "m x n x k", *(title for _, title in COLUMNS)]), format_row(["---", "---", *["---:"] * len(COLUMNS)])]
    for line in errors:
        rows.append(format_row([line["numbers"], line["size"], *(f"{line[key]:.1e}" for key, _ in COLUMNS)]))
    ratios = [line["parts_rms"] / line["f32_rms"] for line in errors]
    summary = f"The root mean square of bf16x6 is {min(ratios):.2f} to {max(ratios):.2f} times that of f32."
    return "\n".join([*provenance_lines(header), "", *rows, "", summary, ""])


def write_page(args):
    write_atomically(args.page, replace_between_markers(args.page.read_text(encoding="utf-8"), MARKERS, render(read_single_run(args.results))))


def main():
    if sys.argv[1:2] == ["write"]:
        run_write_command(__doc__, "results of `run`", write_page)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True, help="folder with the unpacked bundle")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("product-errors.jsonl"))
    run(parser.parse_args(sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]))


if __name__ == "__main__":
    main()
