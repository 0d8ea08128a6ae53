"""Calls that PyTorch rejects. Ternion must reject them too, with its own error that names the
function, and not because it lacks an argument."""

import re
import warnings

import ternion

from .conversion import LeftOut, Rejected, flat, own_arguments, ternion_arguments, torch_of
from .failures import ACCEPTED, INTERNAL, PANIC, REJECTED, Failure, described

# Exception types that the package raises for rejected calls. Others, such as KeyError, and
# subclasses of these that Python itself raises, are internal errors.
REJECTIONS = (TypeError, ValueError, IndexError, RuntimeError, NotImplementedError)
FAULTS = (RecursionError, UnicodeError)

# Python's messages about an argument that a function does not have.
UNKNOWN_ARGUMENT = re.compile(r"unexpected keyword argument|positional arguments? but|got multiple values for|missing \d+ required")


def is_rejection(error):
    """Returns whether an error has a type that the package raises for rejected calls."""
    return isinstance(error, REJECTIONS) and not isinstance(error, FAULTS)


def names_function(error, path):
    """Returns whether the type of an error explains what is wrong, such as TypeError, or its
    message names the function: "gather: .."."""
    words = str(error)
    return not isinstance(error, RuntimeError) or bool(re.match(r"[A-Za-z_][\w.]*: ", words)) or path.rpartition(".")[2].strip("_") in words


def fault_of(error, path, theirs):
    """Returns the kind of failure of an error, where PyTorch raises an error with the message
    `theirs`; None if the error is correct."""
    if not is_rejection(error):
        return INTERNAL
    if UNKNOWN_ARGUMENT.search(str(error)) and not UNKNOWN_ARGUMENT.search(theirs):
        return REJECTED
    return None if names_function(error, path) else INTERNAL


def run_error(subject, case):
    """Returns the failures of a call that must raise an error: an empty list if it does."""
    theirs = _rejection_of_pytorch(subject, case.sample_input)
    try:
        arguments = ternion_arguments(case.sample_input, subject.device)
        result = subject.call(subject.function, *arguments.args, **arguments.kwargs)
        # A GPU reports an invalid index when the result is read.
        for item in flat(result):
            if isinstance(item, ternion.Tensor):
                torch_of(item)
    except (LeftOut, KeyboardInterrupt, SystemExit):
        raise
    except Rejected as unsupported:  # The result of the call is unknown.
        return [Failure("error", REJECTED, str(unsupported))]
    except Exception as error:
        kind = fault_of(error, subject.path, theirs)
        return [Failure("error", kind, described(error))] if kind else []
    except BaseException as error:
        return [Failure("error", PANIC, described(error))]
    return [Failure("error", ACCEPTED, f"PyTorch rejects it: {theirs.splitlines()[0]}")]


def _rejection_of_pytorch(subject, sample):
    """Returns PyTorch's error message."""
    expected = own_arguments(sample)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            subject.entry.op(*expected.args, **expected.kwargs)
    except Exception as error:
        return str(error) or type(error).__name__
    raise LeftOut("PyTorch only warns")
