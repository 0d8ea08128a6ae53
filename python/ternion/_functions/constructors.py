"""Native functions that create tensors, extended by PyTorch's remaining arguments. Those that
request another kind of memory have no effect.
"""

from __future__ import annotations

import inspect
from typing import Any

from .. import _ternion
from .._ternion import Tensor
from .kinds import _check_layout

# For each function, the arguments that the native one does not have.
_EXTRA_ARGUMENTS = {
    "arange": "layout pin_memory", "empty": "layout pin_memory memory_format", "empty_like": "layout pin_memory", "eye": "layout pin_memory", "full": "layout pin_memory",
    "full_like": "layout pin_memory", "linspace": "layout pin_memory", "ones": "layout pin_memory", "ones_like": "layout pin_memory", "rand": "layout pin_memory",
    "rand_like": "layout pin_memory generator", "randint": "requires_grad layout pin_memory", "randn": "layout pin_memory", "randn_like": "layout pin_memory generator",
    "randperm": "requires_grad layout pin_memory", "tensor": "pin_memory", "zeros": "layout pin_memory", "zeros_like": "layout pin_memory",
}  # fmt: skip
_DEFAULTS = {"requires_grad": False, "layout": None, "pin_memory": False, "memory_format": None, "generator": None}


def _with_extra_arguments(name: str, extra_arguments: list[str]) -> Any:
    native = getattr(_ternion, name)

    def constructor(*args: Any, **kwargs: Any) -> Tensor:
        if not kwargs:
            return native(*args)
        extra = {argument: kwargs.pop(argument) for argument in extra_arguments if argument in kwargs}
        _check_layout(name, extra.get("layout"))
        generator = extra.get("generator")
        result = native(*args, **kwargs) if generator is None else _random_like(name, generator, *args, **kwargs)
        return result.requires_grad_() if extra.get("requires_grad") else result

    constructor.__name__ = constructor.__qualname__ = name
    constructor.__module__, constructor.__doc__ = "ternion", native.__doc__
    signature = inspect.signature(native)
    extra = [inspect.Parameter(argument, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS[argument]) for argument in extra_arguments]
    constructor.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *extra])  # type: ignore[attr-defined]
    # The format in which native functions store their signature, from which the stubs are
    # generated.
    separator = "" if "*" in native.__text_signature__ else "*, "
    defaults = ", ".join(f"{argument}={_DEFAULTS[argument]}" for argument in extra_arguments)
    constructor.__text_signature__ = f"{native.__text_signature__[:-1]}, {separator}{defaults})"  # type: ignore[attr-defined]
    return constructor


def _random_like(name: str, generator: Any, input: Tensor, *, dtype: Any = None, device: Any = None, requires_grad: bool = False, memory_format: Any = None) -> Tensor:
    draw = getattr(_ternion, name.removesuffix("_like"))
    return draw(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


CONSTRUCTORS = {name: _with_extra_arguments(name, added.split()) for name, added in _EXTRA_ARGUMENTS.items()}
