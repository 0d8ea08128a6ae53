#!/usr/bin/env python3
"""Errors of f32 products relative to float64 sums on a GPU: as bf16x6, and by fused multiply-adds
of f32.

    product_errors.py run --bundle DIR --out errors.jsonl
        on the GPU machine: runs the bundle's test of these errors, which prints them
    product_errors.py write errors.jsonl docs/kernels/matmul.md
        anywhere: writes the table between the page's markers

The test is `errors_are_those_of_f32` of tests/kernels/bf16x6.rs; it fails if bf16x6 is less
accurate than f32. `write` needs only Python's standard library.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

from compare import header, read_one_run, replace
from pages import between_markers, provenance, row_of, write_of

MARKERS = ("<!-- product-errors:start -->", "<!-- product-errors:end -->")
TEST = "kernels::bf16x6::errors_are_those_of_f32"
# The prefix of a line of the test's output that states errors.
STATED = "product errors: "
COLUMNS = (("parts_rms", "in parts, rms"), ("f32_rms", "f32, rms"), ("parts_max", "in parts, largest"), ("f32_max", "f32, largest"))


def stated(text):
    """Returns the errors that the test printed, one for each kind of values and size."""
    return [json.loads(line[len(STATED) :]) for line in text.splitlines() if line.startswith(STATED)]


def run(given):
    command = [str((given.bundle / "tests" / "cuda").absolute()), TEST, "--exact", "--nocapture"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env={**os.environ, "TERNION_EXPECT": "cuda"})
    found = stated(done.stdout)
    if done.returncode != 0 or not found:
        raise SystemExit(f"error: {TEST}: {(done.stderr or done.stdout).strip()[-2000:]}")
    replace(given.out, "".join(json.dumps(line) + "\n" for line in [dict(run=header(given.bundle)), *found]))


def table(lines):
    about = next(line["run"] for line in lines if "run" in line)
    found = [line for line in lines if "numbers" in line]
    if not found:
        raise SystemExit("error: no errors in the file")
    rows = [row_of(["numbers", "m x n x k", *(title for _, title in COLUMNS)]), row_of(["---", "---", *["---:"] * len(COLUMNS)])]
    for line in found:
        rows.append(row_of([line["numbers"], line["size"], *(f"{line[key]:.1e}" for key, _ in COLUMNS)]))
    ratios = [line["parts_rms"] / line["f32_rms"] for line in found]
    most = f"The root mean square of parts is {min(ratios):.2f} to {max(ratios):.2f} times that of f32."
    return "\n".join([*provenance(about), "", *rows, "", most, ""])


def write(given):
    replace(given.page, between_markers(given.page.read_text(encoding="utf-8"), MARKERS, table(read_one_run(given.results))))


def main():
    if sys.argv[1:2] == ["write"]:
        write_of(__doc__, "what `run` measured", write)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bundle", type=pathlib.Path, required=True, help="the unpacked bundle")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("product-errors.jsonl"))
    run(parser.parse_args(sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]))


if __name__ == "__main__":
    main()
