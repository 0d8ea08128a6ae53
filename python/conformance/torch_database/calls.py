"""Calls of Ternion within a check, and what they raise."""

from contextlib import contextmanager

import torch

from .conversion import LeftOut, Refused
from .failures import INTERNAL, PANIC, REFUSED, Failure, described
from .refusal_checks import is_refusal


class Failed(Exception):
    """A check that does not hold."""

    def __init__(self, kind, detail):
        super().__init__(detail)
        self.kind = kind


def outcome(form, check):
    """The failure of one form; None if it passes."""
    try:
        check()
    except Failed as failed:
        return Failure(form, failed.kind, str(failed))
    except Refused as refused:
        return Failure(form, REFUSED, str(refused))
    return None


def called(function, *args, **kwargs):
    """What Ternion gives; errors of this suite are not taken for its refusals."""
    try:
        return function(*args, **kwargs)
    except (LeftOut, Refused, Failed, KeyboardInterrupt, SystemExit):
        raise
    except Exception as error:
        raise Failed(REFUSED if is_refusal(error) else INTERNAL, described(error)) from None
    except BaseException as error:  # A panic of the native part is no Exception.
        raise Failed(PANIC, described(error)) from None


@contextmanager
def default_float64():
    """PyTorch computes in float64 by default."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
