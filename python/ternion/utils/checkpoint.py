"""Activation checkpointing: segments of a model that are recomputed in the backward pass, so that
their memory is freed in between.
"""

from __future__ import annotations

from typing import Any

from .. import _tree
from .._ternion import _trust, is_grad_enabled

__all__ = ["checkpoint", "checkpoint_sequential"]


def __dir__() -> list[str]:
    return __all__


def checkpoint(function: Any, *args: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True, **kwargs: Any) -> Any:
    """Returns the result of `function(*args, **kwargs)`. Its intermediate tensors are not saved:
    the backward pass runs it again (Chen et al. 2016).

    The second run draws the same random numbers and uses the same precision. Parameters that
    `function` uses get their gradients, too. Tensors from outside that it changes in place, such as
    the running statistics of a batch norm, are changed once. All other side effects happen twice.

    Args:
        function: A module, or a function of tensors and other arguments that returns a tensor, or
            tuples, lists and dicts of tensors.
        use_reentrant: PyTorch's choice between two implementations. There is only one here, which
            corresponds to False.
        preserve_rng_state: Must be True: other random numbers would change the gradients.

    Raises:
        ValueError: If no argument is a tensor, or if `preserve_rng_state` is False.
        RuntimeError: In the backward pass, if the second run differs from the first, or if a tensor
            that it reads was changed in place.
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
        # The structure of the first run's result: the second run must do the same, and is only used
        # for gradients.
        rebuilt = rebuilt or rebuild
        return outputs

    outputs = _trust.checkpoint(segment, tensors)
    return rebuilt(outputs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None, preserve_rng_state: bool = True) -> Any:
    """Applies `functions` one after another, in `segments` segments, all of which except the last
    are a `checkpoint`.

    Args:
        functions: A `Sequential`, or a list of modules or functions.
        segments: The number of segments, from 1 to the number of functions.

    Raises:
        ValueError: If the number of segments is out of range; also as in `checkpoint`.
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
