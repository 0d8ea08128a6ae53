#!/usr/bin/env python3
"""Errors of sums of products that tensor cores compute from f32 operands split into terms: a
simulation of their arithmetic with NumPy, on any machine.

    attention_parts.py write docs/kernels/attention.md
        writes the table between the page's markers

The model is that of Fasi et al. 2021, "Numerical behavior of NVIDIA tensor cores", for an A100:
addends are aligned to the largest one and truncated to 25 bits, and the sum is truncated to f32.
This script does not check on a device whether the model holds there.
"""

import argparse
import pathlib

from compare import write_atomically
from pages import format_row, replace_between_markers

MARKERS = START, END = "<!-- parts:start -->", "<!-- parts:end -->"
SAMPLES = 600  # the number of sums in each row; the root mean square then has two digits
SEED = 5
STEP = 16  # the number of terms that are added from 0 before the sum is added in f32 registers
# Pairs of terms that are multiplied, small products first.
PAIRS_OF_THREE = [(2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)]
PAIRS_OF_TWO = [(1, 0), (0, 1), (0, 0)]
METHODS = ["fused multiply-adds", "bf16x6", "bf16x6, whole", "3xTF32", "3xTF32, whole", "TF32"]
KINDS = {
    "as those of scores, normal": (32, 64, 128),
    "all positive": (64,),
    "exponents from -20 to 20": (64,),
    "canceling": (64,),
    "weights, values": (64, 1024, 8192),
    "weights, values of one sign": (1024, 8192),
}


def draw_operands(numpy, random, kind, terms):
    """Returns two f32 arrays `[terms, SAMPLES]`; each column is a sum."""
    shape = (terms, SAMPLES)
    normal, positive = (lambda: random.standard_normal(shape)), (lambda: random.random(shape))
    if kind == "as those of scores, normal":
        pair = normal(), normal()
    elif kind == "all positive":
        pair = positive(), positive()
    elif kind == "exponents from -20 to 20":
        pair = tuple(normal() * 2.0 ** random.integers(-20, 21, shape) for _ in range(2))
    elif kind == "canceling":
        pair = normal(), normal()
        pair[0][1::2] = pair[0][::2]
        pair[1][1::2] = -pair[1][::2] * (1 + random.standard_normal((terms // 2, SAMPLES)) * 2.0**-12)
    else:
        scores = normal() * 2
        pair = numpy.exp(scores - scores.max(0)), positive() if kind.endswith("one sign") else normal()
    return tuple(operand.astype(numpy.float32) for operand in pair)


class Arithmetic:
    """Rounding, sums of tensor cores and sums of f32, of all samples at once."""

    def __init__(self, numpy):
        self.numpy = numpy

    def round_bf16(self, x):
        """Rounds to nearest, ties to even."""
        words = x.view(self.numpy.uint32)
        return ((words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000).view(self.numpy.float32)

    def round_tf32(self, x):
        """Rounds to nearest, ties away from 0, as cvt.rna does."""
        return ((x.view(self.numpy.uint32) + 0x1000) & 0xFFFFE000).view(self.numpy.float32)

    def truncate(self, x, largest, bits):
        """Truncates x to `bits` bits below the highest bit of `largest`, toward 0."""
        _, exponent = self.numpy.frexp(largest)
        unit = self.numpy.ldexp(1.0, exponent - bits)
        return self.numpy.trunc(x / unit) * unit

    def add_on_tensor_core(self, total, left, right):
        """Returns the sum of `total` and the products of two arrays `[terms, SAMPLES]`, in one
        instruction.
        """
        addends = self.numpy.concatenate([left.astype(float) * right, total[None].astype(float)])
        added = self.truncate(addends, abs(addends).max(0), 25).sum(0)
        return self.truncate(added, added, 24).astype(self.numpy.float32)

    def split(self, x, rounded, count):
        """Splits x into terms. Each is the rounded remainder of the terms before it."""
        terms = []
        for _ in range(count):
            terms.append(rounded(x))
            x = x - terms[-1]
        return terms

    def split_sum(self, left, right, rounded, count, pairs, width, is_promoted):
        """Adds `width` terms per instruction. Promoted: every STEP terms are added from 0, and then
        to a sum in f32.
        """
        lefts, rights = self.split(left, rounded, count), self.split(right, rounded, count)
        total = self.numpy.zeros(SAMPLES, self.numpy.float32)
        for start in range(0, len(left), STEP):
            partial = self.numpy.zeros_like(total) if is_promoted else total
            for i, j in pairs:
                for first in range(start, min(start + STEP, len(left)), width):
                    partial = self.add_on_tensor_core(partial, lefts[i][first : first + width], rights[j][first : first + width])
            total = total + partial if is_promoted else partial
        return total

    def fma_sum(self, left, right):
        total = self.numpy.zeros(SAMPLES, self.numpy.float32)
        for x, y in zip(left, right):
            total = (x.astype(float) * y + total).astype(self.numpy.float32)
        return total

    def sums(self, left, right):
        """Yields the sums by each of FORMS."""
        bf16x6, tf32x3 = (self.round_bf16, 3, PAIRS_OF_THREE, 16), (self.round_tf32, 2, PAIRS_OF_TWO, 8)
        yield self.fma_sum(left, right)
        for method in (bf16x6, tf32x3):
            yield self.split_sum(left, right, *method, is_promoted=True)
            yield self.split_sum(left, right, *method, is_promoted=False)
        yield self.split_sum(left, right, self.round_tf32, 1, [(0, 0)], 8, is_promoted=False)

    def rms_errors(self, left, right):
        """Returns the root mean square of each form's errors, relative to the sum of the terms'
        magnitudes.
        """
        exact = (left.astype(self.numpy.longdouble) * right).sum(0).astype(float)
        magnitude = abs(left.astype(float) * right).sum(0)
        return [float(self.numpy.sqrt((((result - exact) / magnitude) ** 2).mean())) for result in self.sums(left, right)]


def render_table(kinds=KINDS):
    import numpy

    random, arithmetic = numpy.random.default_rng(SEED), Arithmetic(numpy)
    lines = [format_row(["terms", "number", *METHODS]), format_row(["---", *["---:"] * (1 + len(METHODS))])]
    for kind, term_counts in kinds.items():
        for terms in term_counts:
            errors = arithmetic.rms_errors(*draw_operands(numpy, random, kind, terms))
            lines.append(format_row([kind, str(terms), *(f"{error:.1e}" for error in errors)]))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    write_parser = parser.add_subparsers(dest="command", required=True).add_parser("write", help="simulate and write the table")
    write_parser.add_argument("page", type=pathlib.Path)
    page = parser.parse_args().page
    try:
        write_atomically(page, replace_between_markers(page.read_text(encoding="utf-8"), MARKERS, "\n".join(render_table()) + "\n"))
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
