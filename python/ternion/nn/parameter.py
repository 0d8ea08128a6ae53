"""`Parameter`, under the name of PyTorch's file."""

from .._ternion import Parameter as Parameter

__all__ = ["Parameter"]


def __dir__() -> list[str]:
    return __all__
