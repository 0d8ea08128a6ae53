"""Numerical checks: gradients against finite differences, devices and models against each other,
and tensors against tensors.
"""

from ._close import assert_close
from ._devices import compare_devices
from ._gradcheck import GradcheckError, gradcheck, gradgradcheck
from ._make import make_tensor
from ._models import compare_models

__all__ = ["GradcheckError", "assert_close", "compare_devices", "compare_models", "gradcheck", "gradgradcheck", "make_tensor"]


def __dir__() -> list[str]:
    return __all__
