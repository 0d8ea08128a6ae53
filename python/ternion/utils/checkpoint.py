"""Segments of a model that are computed twice, so that their memory is let go in between."""

from __future__ import annotations

from typing import Any

from .. import _tree
from .._ternion import _trust, is_grad_enabled

__all__ = ["checkpoint", "checkpoint_sequential"]


def __dir__() -> list[str]:
    return __all__


def checkpoint(function: Any, *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """What `function(*args, **kwargs)` gives. Nothing that it computes inside is kept: backward runs it again (Chen et al. 2016).

    The second run draws the same random numbers and computes in the same precision. Parameters that `function` uses get their gradients, too. Tensors
    from outside that it changes in place, as a batch norm its running statistics, change once; whatever else it does happens twice.

    Args:
        function: a module, or a function of tensors and anything else; what it gives may be a tensor, or tuples, lists and dicts of them.
        use_reentrant: PyTorch's choice between two ways; here there is one, that of False.
        preserve_rng_state: True; other random numbers would be other gradients.

    Raises:
        ValueError: no argument is a tensor, or `preserve_rng_state` is False.
        RuntimeError: in the backward pass, if the second run does not do what the first did, or a tensor that it reads was changed in place.
    """
    if not preserve_rng_state:
        raise ValueError("checkpoint: preserve_rng_state=False: the second run would compute something else than the first")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    tensors, arguments = _tree.flatten((args, kwargs))
    if not tensors:
        raise ValueError("checkpoint: no argument is a tensor")
    rebuilt: Any = None

    def segment(inputs):
        nonlocal rebuilt
        positional, named = arguments(inputs)
        outputs, rebuild = _tree.flatten(function(*positional, **named))
        # The form of the first run: the second has to do the same, and is only asked for gradients.
        rebuilt = rebuilt or rebuild
        return outputs

    outputs = _trust.checkpoint(segment, tensors)
    return rebuilt(outputs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True) -> Any:
    """What `functions` give one after the other, in so many parts of which all but the last are a `checkpoint`.

    Args:
        functions: a `Sequential`, or a list of modules or functions.
        segments: from 1 to the number of functions.

    Raises:
        ValueError: another number of segments; as `checkpoint`.
    """
    steps = list(functions)
    if isinstance(segments, bool) or not isinstance(segments, int) or not 1 <= segments <= len(steps):
        raise ValueError(f"checkpoint_sequential: {segments!r} segments of {len(steps)} functions, expected from 1 to as many")

    def part(start, end):
        def run(value):
            for step in steps[start:end]:
                value = step(value)
            return value

        return run

    length = len(steps) // segments
    for start in range(0, length * (segments - 1), length):
        input = checkpoint(part(start, start + length), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return part(length * (segments - 1), len(steps))(input)
