"""`nn.summary` shows a model as a table; `nn.trace` records when its parts ran."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .. import _ternion, _tree
from .._random import get_rng_state, set_rng_state
from .._scopes import enable_grad
from .._ternion import _trust
from .module import Module

if TYPE_CHECKING:
    import os

    class LayerSummary:
        """A layer of a summary. Arithmetic, memory and parameters exclude those of its sublayers.
        """

        key: str
        kind: str
        calls: int
        output: list[int] | None
        parameters: int
        flops: int
        activation_bytes: int

    class Summary:
        """The structure and cost of a model. Printed as a table."""

        layers: list[LayerSummary]
        parameters: int
        trained_parameters: int
        parameter_bytes: int
        state_bytes: int
        flops: int
        backward_flops: int | None
        activation_bytes: int
        peak_bytes: int

    class Timeline:
        """Layers, ops, backward passes and optimizer steps as time spans. Printing shows those that
        took longest.
        """

        def totals(self) -> list[tuple[str, int, float, float]]:
            """Returns for each label its spans: the label, their number, and two times in seconds,
            the total and the total without inner spans. The largest of the latter is first.
            """

        def write_chrome(self, path: str | os.PathLike[str]) -> None:
            """Writes a file for ui.perfetto.dev and chrome://tracing.

            Raises:
                OSError: If the file cannot be written.
            """

        def __len__(self) -> int: ...
else:
    LayerSummary, Summary, Timeline = _trust.LayerSummary, _trust.Summary, _trust.Timeline

__all__ = ["LayerSummary", "Summary", "Timeline", "summary", "trace"]


def summary(model: Module, input: Any, backward: bool = False) -> Summary:
    """Runs `model` on `input` and returns its layers in the order of computation, with output
    shapes, parameters, arithmetic and memory.

        print(nn.summary(model, ternion.zeros(32, 784)))
        print(nn.summary(model, (32, 784)))  # the same: a shape

    A multiplication and an addition count as 2 floating-point operations. Layers that compute
    nothing with their parameters, or that are not called, come last. The model is left unchanged:
    modes, buffers, gradients and the random number generator are restored.

    Args:
        model: a module.
        input: a tensor, a tuple of arguments with tensors, or the shape of an input of zeros, which
            has the dtype and device of the first parameter.
        backward: whether to measure a backward pass from the sum of the output as well, in training
            mode. Otherwise the model runs in evaluation mode, without dropout.

    Raises:
        TypeError: If `model` is not a module, or the input contains no tensors.
        ValueError: If a shape is given for a model without parameters, or the model does not accept
            the shape.
        RuntimeError: If the model returns no tensor, or a backward pass is requested of an output
            that does not require a gradient.
    """
    arguments = _arguments(model, input)
    device = _tree.flatten(arguments)[0][0].device
    modes = [(module, module.training) for module in model.modules()]
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    rng_state, state_bytes = get_rng_state(device), sum(buffer.nbytes for buffer, _ in buffers)
    model.train(backward)
    try:
        with enable_grad():
            result: Summary = _trust.summary(model, lambda: model(*arguments), device, backward, state_bytes)
    finally:
        for module, mode in modes:
            module.training = mode
        for buffer, previous in buffers:
            buffer.copy_(previous)
        set_rng_state(rng_state, device)
    return result


def _arguments(model: Any, input: Any) -> Any:
    """Returns the arguments for the model."""
    if not isinstance(model, Module):
        actual = f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__
        raise TypeError(f"summary: {actual}, expected a module")
    is_shape = isinstance(input, (tuple, list)) and all(isinstance(size, int) for size in input)
    if not is_shape:
        arguments = tuple(input) if isinstance(input, (tuple, list)) else (input,)
        tensors, rebuild = _tree.flatten(arguments)
        if not tensors:
            raise TypeError(f"summary: an input of {type(input).__name__}, expected a tensor, a tuple of arguments with tensors, or a shape")
        return rebuild([tensor.detach() for tensor in tensors])
    first = next(model.parameters(), None)
    if first is None:
        raise ValueError(f"summary: {type(model).__name__} has no parameter that shows where it computes: give an input, not its shape")
    return (_ternion.zeros(tuple(input), dtype=first.dtype, device=first.device),)


def trace(model: Module, step: Callable[[], Any], nvtx: bool = False) -> Timeline:
    """Runs `step()` and records when layers of `model`, ops, backward passes and optimizer steps
    ran on this thread.

        timeline = nn.trace(model, lambda: train_step(model, x, target))
        print(timeline)
        timeline.write_chrome("trace.json")  # for ui.perfetto.dev or chrome://tracing

    The times are host times: on CUDA and wgpu those of submission. For a replayed step the host
    sees only the replay.

    Args:
        model: a module.
        step: a function without arguments.
        nvtx: whether the spans are also emitted as ranges for NVIDIA's profilers, above the kernels
            (`nsys profile --trace=cuda,nvtx python PROGRAM`). Without CUDA or the NVTX library this
            has no effect.

    Raises:
        TypeError: If `model` is not a module, `step` is not callable, or `nvtx` is not a bool.
    """
    if not isinstance(nvtx, bool):
        raise TypeError(f"trace: nvtx is {type(nvtx).__name__}, expected bool")
    if not isinstance(model, Module) or not callable(step):
        raise TypeError(f"trace: {type(model).__name__} and {type(step).__name__}, expected a module and a function without arguments")
    timeline: Timeline = _trust.trace(model, step, nvtx)
    return timeline
