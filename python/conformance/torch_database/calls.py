"""Calls of Ternion within a check, and the errors that they raise."""

from contextlib import contextmanager

import torch

from .conversion import LeftOut, Rejected
from .failures import INTERNAL, PANIC, REJECTED, Failure, described
from .rejection_checks import is_rejection


class Failed(Exception):
    """A check that failed."""

    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


def outcome(form, check):
    """Returns the failure of one form, or None if it passes."""
    try:
        check()
    except Failed as failed:
        return Failure(form, failed.kind, str(failed))
    except Rejected as error:
        return Failure(form, REJECTED, str(error))
    return None


def called(function, *args, **kwargs):
    """Calls a function of Ternion. Errors of this suite are not treated as errors of Ternion."""
    try:
        return function(*args, **kwargs)
    except (LeftOut, Rejected, Failed, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        raise Failed(REJECTED if is_rejection(error) else INTERNAL, described(error)) from None
    except BaseException as error:  # A panic of the native part is not an Exception.
        raise Failed(PANIC, described(error)) from None


@contextmanager
def default_float64():
    """Makes float64 PyTorch's default dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
