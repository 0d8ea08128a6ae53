"""The kinds of failures of a sample."""

from collections import namedtuple

from .comparison import DTYPE, GRADIENT, SHAPE, VALUE

REJECTED, NO_FORM, ACCEPTED, INTERNAL, PANIC, HANG = "rejected", "form absent", "accepted", "internal error", "crash", "hang"

# Failures other than rejected calls and missing functions. A sample with one of these counts as
# such, whatever its other failures.
WRONG = (VALUE, GRADIENT, SHAPE, DTYPE, INTERNAL, PANIC, HANG)
KINDS = (REJECTED, NO_FORM, ACCEPTED, *WRONG)

# A failure: the form in which the sample was run, the kind, a sentence.
Failure = namedtuple("Failure", "form kind detail")


def gravest(failures):
    """Returns the failure by which a sample counts: the first wrong one, or else the first."""
    return next((failure for failure in failures if failure[1] in WRONG), failures[0])


def described(error):
    return f"{type(error).__name__}: {error}"
