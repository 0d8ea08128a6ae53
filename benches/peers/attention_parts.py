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

from compare import replace
from pages import between_markers, row_of

MARKERS = START, END = "<!-- parts:start -->", "<!-- parts:end -->"
SAMPLES = 600  # the number of sums in each row; the root mean square then has two digits
SEED = 5
STEP = 16  # the number of terms that are added from 0 before the sum is added in f32 registers
# Pairs of terms that are multiplied, small products first.
PAIRS_OF_THREE = [(2, 0), (1, 1), (0, 2), (1, 0), (0, 1), (0, 0)]
PAIRS_OF_TWO = [(1, 0), (0, 1), (0, 0)]
FORMS = ["fused multiply-adds", "bf16x6", "bf16x6, whole", "3xTF32", "3xTF32, whole", "TF32"]
KINDS = {
    "as those of scores, normal": (32, 64, 128),
    "all positive": (64,),
    "exponents from -20 to 20": (64,),
    "canceling": (64,),
    "weights, values": (64, 1024, 8192),
    "weights, values of one sign": (1024, 8192),
}


def operands(numpy, random, kind, terms):
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
    return tuple(one.astype(numpy.float32) for one in pair)


class Arithmetic:
    """Rounding, sums of tensor cores and sums of f32, of all samples at once."""

    def __init__(self, numpy):
        self.numpy = numpy

    def bf16(self, x):
        """Rounds to nearest, ties to even."""
        words = x.view(self.numpy.uint32)
        return ((words + 0x7FFF + ((words >> 16) & 1)) & 0xFFFF0000).view(self.numpy.float32)

    def tf32(self, x):
        """Rounds to nearest, ties away from 0, as cvt.rna does."""
        return ((x.view(self.numpy.uint32) + 0x1000) & 0xFFFFE000).view(self.numpy.float32)

    def cut(self, x, largest, bits):
        """Truncates x to `bits` bits below the highest bit of `largest`, toward 0."""
        _, exponent = self.numpy.frexp(largest)
        unit = self.numpy.ldexp(1.0, exponent - bits)
        return self.numpy.trunc(x / unit) * unit

    def tensor_core(self, total, left, right):
        """Returns the sum of `total` and the products of two arrays `[terms, SAMPLES]`, in one
        instruction.
        """
        addends = self.numpy.concatenate([left.astype(float) * right, total[None].astype(float)])
        added = self.cut(addends, abs(addends).max(0), 25).sum(0)
        return self.cut(added, added, 24).astype(self.numpy.float32)

    def parts(self, x, rounded, count):
        """Splits x into terms. Each is the rounded remainder of the terms before it."""
        found = []
        for _ in range(count):
            found.append(rounded(x))
            x = x - found[-1]
        return found

    def in_parts(self, left, right, rounded, count, pairs, width, promoted):
        """Adds `width` terms per instruction. Promoted: every STEP terms are added from 0, and then
        to a sum in f32.
        """
        lefts, rights = self.parts(left, rounded, count), self.parts(right, rounded, count)
        total = self.numpy.zeros(SAMPLES, self.numpy.float32)
        for begin in range(0, len(left), STEP):
            added = self.numpy.zeros_like(total) if promoted else total
            for i, j in pairs:
                for at in range(begin, min(begin + STEP, len(left)), width):
                    added = self.tensor_core(added, lefts[i][at : at + width], rights[j][at : at + width])
            total = total + added if promoted else added
        return total

    def fused(self, left, right):
        total = self.numpy.zeros(SAMPLES, self.numpy.float32)
        for x, y in zip(left, right):
            total = (x.astype(float) * y + total).astype(self.numpy.float32)
        return total

    def forms(self, left, right):
        """Yields the sums by each of FORMS."""
        three, two = (self.bf16, 3, PAIRS_OF_THREE, 16), (self.tf32, 2, PAIRS_OF_TWO, 8)
        yield self.fused(left, right)
        for form in (three, two):
            yield self.in_parts(left, right, *form, promoted=True)
            yield self.in_parts(left, right, *form, promoted=False)
        yield self.in_parts(left, right, self.tf32, 1, [(0, 0)], 8, promoted=False)

    def errors(self, left, right):
        """Returns the root mean square of each form's errors, relative to the sum of the terms'
        magnitudes.
        """
        exact = (left.astype(self.numpy.longdouble) * right).sum(0).astype(float)
        magnitude = abs(left.astype(float) * right).sum(0)
        return [float(self.numpy.sqrt((((found - exact) / magnitude) ** 2).mean())) for found in self.forms(left, right)]


def table(kinds=KINDS):
    import numpy

    random, arithmetic = numpy.random.default_rng(SEED), Arithmetic(numpy)
    lines = [row_of(["terms", "number", *FORMS]), row_of(["---", *["---:"] * (1 + len(FORMS))])]
    for kind, numbers in kinds.items():
        for terms in numbers:
            found = arithmetic.errors(*operands(numpy, random, kind, terms))
            lines.append(row_of([kind, str(terms), *(f"{error:.1e}" for error in found)]))
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    written = parser.add_subparsers(dest="command", required=True).add_parser("write", help="simulate and write the table")
    written.add_argument("page", type=pathlib.Path)
    page = parser.parse_args().page
    try:
        replace(page, between_markers(page.read_text(encoding="utf-8"), MARKERS, "\n".join(table()) + "\n"))
    except OSError as error:
        raise SystemExit(f"error: {error}") from error


if __name__ == "__main__":
    main()
