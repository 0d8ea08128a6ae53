"""What is wrong with a sample."""

from collections import namedtuple

from .comparison import DTYPE, GRADIENT, SHAPE, VALUE

REFUSED, NO_FORM, ACCEPTED, INTERNAL, PANIC, HANG = "refused", "form absent", "accepted", "internal error", "crash", "hang"

# Failures that are no refusal and nothing absent: a sample with one of these counts by it, whatever else fails of it.
WRONG = (VALUE, GRADIENT, SHAPE, DTYPE, INTERNAL, PANIC, HANG)
KINDS = (REFUSED, NO_FORM, ACCEPTED, *WRONG)

# What is wrong: the form in which the sample was run, the kind, a sentence.
Failure = namedtuple("Failure", "form kind detail")


def gravest(failures):
    """The failure by which a sample counts: the first that is wrong, or else the first."""
    return next((failure for failure in failures if failure[1] in WRONG), failures[0])


def described(error):
    return f"{type(error).__name__}: {error}"
