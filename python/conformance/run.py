"""Runs the node tests of ONNX with Ternion, and writes the results to docs/conformance.md.

    python python/conformance/run.py                   writes the page
    python python/conformance/run.py --check           fails if a case fails that passes on the page
    python python/conformance/run.py --only Conv -v    shows the failures of an operator or a case
"""

import argparse
import pathlib
import re
import sys
import warnings
from collections import Counter, defaultdict, namedtuple

import ml_dtypes
import numpy as np
import onnx
from onnx.backend.test.loader import load_model_tests

import page
from arrays import Unsupported, array_of, reference_of, value_of
from interpreter import Interpreter, operator_name
from operators import TABLE

# The packages that compute the expected outputs.
VERSIONS = f"onnx {onnx.__version__}, ml_dtypes {ml_dtypes.__version__}"
PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "conformance.md"

Outcome = namedtuple("Outcome", "operator case passed kind detail")


def collect():
    """Returns all node tests, as pairs of the tested operator and the test."""
    with warnings.catch_warnings():
        # The expected outputs are computed, some with NaN and infinities.
        warnings.simplefilter("ignore")
        tests = load_model_tests(kind="node")
    by_name = {test.name: test for test in tests}
    return [(_subject(test, by_name), test) for test in tests]


def _subject(test, by_name):
    """Returns the operator of a test's nodes. For an expanded function, it is the operator that was
    expanded."""
    plain = re.match(r"(.*?)_expanded.*$", test.name)
    if plain and plain.group(1) in by_name:
        return _subject(by_name[plain.group(1)], by_name)
    return operator_name(test.model.graph.node[-1])


def run(operator, test):
    """Returns the outcome of one test."""
    try:
        for inputs, expected in test.data_sets:
            with np.errstate(all="ignore"):
                outputs = Interpreter(test.model, TABLE).run([value_of(value) for value in inputs])
                kind, detail = _compare_all(outputs, expected, test.rtol, test.atol)
            if kind:
                return Outcome(operator, test.name, False, kind, detail)
    except Unsupported as error:
        return Outcome(operator, test.name, False, error.kind, str(error))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # A panic of the native part is not an Exception.
        return Outcome(operator, test.name, False, "error", f"{type(error).__name__}: {error}")
    return Outcome(operator, test.name, True, "", "")


def _compare_all(outputs, expected, rtol, atol):
    if len(outputs) != len(expected):
        return "shape differs", f"{len(outputs)} outputs, expected {len(expected)}"
    for index, (output, reference) in enumerate(zip(outputs, expected)):
        kind, detail = _compare(output, reference, rtol, atol)
        if kind:
            return kind, f"output {index}: {detail}"
    return "", ""


def _compare(output, reference, rtol, atol):
    """Compares by the rules of ONNX's runner: shape, dtype, then numbers within the tolerances of
    the test."""
    if output is None or reference is None:
        return ("", "") if output is reference else ("differs", "an optional value that one side lacks")
    if isinstance(output, list):
        return _compare_all(output, list(reference), rtol, atol)
    output, reference = array_of(output), reference_of(reference)
    if output.shape != reference.shape:
        return "shape differs", f"shape {list(output.shape)}, expected {list(reference.shape)}"
    if output.dtype != reference.dtype:
        return "dtype differs", f"dtype {output.dtype}, expected {reference.dtype}"
    if output.dtype.name == "bfloat16":  # As in ONNX's runner: two units in the last place.
        rtol, output, reference = max(rtol, 2**-6), output.astype(np.float32), reference.astype(np.float32)
    near = np.isclose(output, reference, rtol=rtol, atol=atol, equal_nan=True)
    if near.all():
        return "", ""
    first = tuple(int(index) for index in np.argwhere(~near)[0])
    return "numbers differ", f"{np.count_nonzero(~near)} of {near.size}, first at {list(first)}: {output[first]!s}, expected {reference[first]!s}"


def run_all(only=None):
    """Returns the outcomes of all tests, or of those of one operator or with this text in their
    name."""
    outcomes = []
    for operator, test in collect():
        if only is None or only == operator or only in test.name:
            outcomes.append(run(operator, test))
    return outcomes


def grouped(outcomes):
    """Returns the two groups of operators with their outcomes, in alphabetical order."""
    by_operator = defaultdict(list)
    for outcome in sorted(outcomes, key=lambda outcome: outcome.operator.lower()):
        by_operator[outcome.operator].append(outcome)
    return page.groups(by_operator, TABLE)


def _show(outcomes, verbose):
    failures = [outcome for outcome in outcomes if not outcome.passed]
    if verbose:
        for outcome in failures:
            print(f"{outcome.operator}  {outcome.case}  [{outcome.kind}]  {outcome.detail}")
    print(f"{len(outcomes)} cases, {len(outcomes) - len(failures)} passed, {len(failures)} failed: {dict(Counter(o.kind for o in failures))}")


def regressions(listed, text):
    """Returns the cases that fail and are not listed as failures on the page."""
    known = page.failures(text)
    cases = [outcome for outcomes in listed.values() for outcome in outcomes]
    return [outcome for outcome in cases if not outcome.passed and outcome.case not in known]


def _check(listed):
    """Returns the exit status: 1 if a case fails that passes on the page."""
    worse = regressions(listed, PAGE.read_text())
    for outcome in worse:
        print(f"passes by the page, fails now: {outcome.case} [{outcome.kind}] {outcome.detail}")
    return 1 if worse else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the page, write nothing")
    parser.add_argument("--only", metavar="NAME", help="an operator, or a part of the names of cases; writes nothing")
    parser.add_argument("-v", "--verbose", action="store_true", help="show the failures, each with its first difference")
    arguments = parser.parse_args()
    outcomes = run_all(arguments.only)
    if arguments.only:
        _show(outcomes, arguments.verbose)
        return 0
    listed, others = grouped(outcomes)
    _show([outcome for group in listed.values() for outcome in group], arguments.verbose)
    if arguments.check:
        return _check(listed)
    before = PAGE.read_text() if PAGE.exists() else ""
    PAGE.write_text(page.written(before, listed, others, TABLE, VERSIONS))
    return 0


if __name__ == "__main__":
    sys.exit(main())
