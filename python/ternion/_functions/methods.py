"""Tensor methods as functions whose first argument is named `input`."""

from __future__ import annotations

import functools
import inspect
import numbers
from typing import Any

from .._ternion import Tensor

# The reflected method for a number as first argument: `pow(2, x)` is `x.__rpow__(2)`.
_REFLECTED = {
    "add": "__radd__", "sub": "__rsub__", "mul": "__rmul__", "div": "__rtruediv__", "floor_divide": "__rfloordiv__", "remainder": "__rmod__",
    "pow": "__rpow__", "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__", "bitwise_left_shift": "__rlshift__",
    "bitwise_right_shift": "__rrshift__",
}  # fmt: skip
_MISSING = object()


def _without_tensor(name: str, input: Any, *args: Any, **kwargs: Any) -> Any:
    """Handles a call of the function `name` whose first argument is not a tensor: returns the
    result of the reflected operator if the argument is a number, otherwise raises an error.
    """
    other = next(iter((*args, *kwargs.values())), None)
    if name in _REFLECTED and len(args) + len(kwargs) == 1 and isinstance(input, numbers.Real) and isinstance(other, Tensor):
        return getattr(other, _REFLECTED[name])(input)
    raise TypeError(f"{name}: input is {type(input).__name__}, expected a tensor") from None


def _unary_function(name: str, method: Any) -> Any:
    def function(input):  # type: ignore[no-untyped-def]
        try:
            return method(input)
        except TypeError:
            if isinstance(input, Tensor):
                raise
            return _without_tensor(name, input)

    return function


def _binary_function(name: str, method: Any) -> Any:
    def function(input, other):  # type: ignore[no-untyped-def]
        try:
            return method(input, other)
        except TypeError:
            if isinstance(input, Tensor):
                raise
            return _without_tensor(name, input, other)

    return function


def _binary_function_with_options(name: str, method: Any) -> Any:
    def function(input, other, **options):  # type: ignore[no-untyped-def]
        try:
            return method(input, other, **options) if options else method(input, other)
        except TypeError:
            if isinstance(input, Tensor):
                raise
            return _without_tensor(name, input, other, **options)

    return function


def _function_along_dim(name: str, method: Any) -> Any:
    def function(input, dim=_MISSING, *args, **kwargs):  # type: ignore[no-untyped-def]
        try:
            if not args and not kwargs:
                return method(input) if dim is _MISSING else method(input, dim)
            return method(input, **kwargs) if dim is _MISSING else method(input, dim, *args, **kwargs)
        except TypeError:
            if isinstance(input, Tensor):
                raise
            return _without_tensor(name, input)

    return function


def _variadic_function(name: str, method: Any, variadic_name: str | None) -> Any:
    """`listed` is the name of the variadic argument, as in `reshape(x, 2, 3)`. It can also be
    passed by keyword as one list.
    """

    def function(input, *args, **kwargs):  # type: ignore[no-untyped-def]
        if variadic_name in kwargs:
            args = (*args, kwargs.pop(variadic_name))
        try:
            return method(input, *args, **kwargs)
        except TypeError:
            if isinstance(input, Tensor):
                raise
            return _without_tensor(name, input, *args, **kwargs)

    return function


@functools.lru_cache(maxsize=None)
def function_of(name: str, module: str = "ternion") -> Any:
    """Returns the method of this name as a function of a module."""
    method = getattr(Tensor, name)
    self_parameter, *rest = inspect.signature(method).parameters.values()
    names = [parameter.name for parameter in rest]
    if not rest:
        function = _unary_function(name, method)
    elif names == ["other"]:
        function = _binary_function(name, method)
    elif names[0] == "dim":
        function = _function_along_dim(name, method)
    elif names[0] == "other" and all(parameter.kind is parameter.KEYWORD_ONLY for parameter in rest[1:]):
        function = _binary_function_with_options(name, method)
    else:
        variadic_names = [parameter.name for parameter in rest if parameter.kind is parameter.VAR_POSITIONAL]
        function = _variadic_function(name, method, variadic_names[0] if variadic_names else None)
    function.__name__ = function.__qualname__ = name
    function.__module__, function.__doc__, function.__wrapped__ = module, method.__doc__, method
    function.__signature__ = inspect.Signature([self_parameter.replace(name="input", kind=self_parameter.POSITIONAL_OR_KEYWORD), *rest])
    return function
