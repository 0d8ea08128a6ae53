"""Gradients of chosen tensors: `grad` returns them, `backward` accumulates them in `.grad`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Union

from . import _ternion
from ._own_gradients import Function
from ._scopes import enable_grad, inference_mode, no_grad, set_grad_enabled
from ._ternion import Tensor, _trust, is_grad_enabled
from ._warnings import warn_caller

__all__ = ["Function", "backward", "detect_anomaly", "enable_grad", "grad", "inference_mode", "is_grad_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled", "to_dot"]


def __dir__() -> list[str]:
    return __all__


Tensors = Union[Tensor, Sequence[Tensor]]


def _tensor_list(tensors: Any, caller: str) -> list[Tensor]:
    if not isinstance(tensors, Iterable):
        raise TypeError(f"{caller}: expected tensors, got {type(tensors).__name__}")
    listed = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for tensor in listed:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{caller}: expected tensors, got {type(tensor).__name__}")
    return listed


def _output_grads(grads: Any, outputs: list[Tensor], caller: str) -> list[Any]:
    if grads is None:
        return [None] * len(outputs)
    weights = [None if each is None else _tensor_list(each, f"{caller}: gradients")[0] for each in ([grads] if isinstance(grads, Tensor) or not isinstance(grads, Iterable) else grads)]
    if len(weights) != len(outputs):
        raise ValueError(f"{caller}: {len(weights)} gradients for {len(outputs)} outputs")
    return weights


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Any, ...]:
    """Returns the gradients of `outputs` with respect to `inputs`, one for each input. No `.grad`
    is changed.

    Args:
        outputs: Tensors that were computed from the inputs.
        inputs: Tensors that require gradients, or intermediate tensors of the computation.
        grad_outputs: The cotangent of each output, in its shape; None for an output with a single
            element.
        retain_graph: Keeps the saved tensors, so that another backward pass through the graph is
            possible. Default: the value of `create_graph`.
        create_graph: Records the backward pass, which allows double backward.
        only_inputs: Accepted for compatibility with PyTorch, where it has no effect either.
        allow_unused: Returns None for an input on which the outputs do not depend, instead of
            raising an error.
        is_grads_batched: Not supported: True raises an error.
        materialize_grads: Returns zeros instead of None.

    Raises:
        RuntimeError: If an output has no graph, or if the outputs do not depend on an input.
        ValueError: If the gradients do not match the outputs.
    """
    if only_inputs is not True:
        warn_caller("grad: only_inputs is deprecated and taken for True: accumulate gradients of other leaves with backward")
    if is_grads_batched:
        raise ValueError("grad: is_grads_batched: call grad once for each gradient")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads is for inputs that are not used, which allow_unused=False forbids")
    targets, sources = _tensor_list(inputs, "grad: inputs"), _tensor_list(outputs, "grad: outputs")
    weights = _output_grads(grad_outputs, sources, "grad")
    grads = _ternion._grad(sources, targets, weights, retain_graph, create_graph, bool(allow_unused) or materialize_grads)
    if materialize_grads:
        grads = [_ternion.zeros_like(tensor) if each is None else each for tensor, each in zip(targets, grads)]
    return tuple(grads)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Accumulates the gradients of several tensors in `.grad` of the leaves from which they were
    computed; see `Tensor.backward`.

    Args:
        tensors: Tensors with a graph.
        grad_tensors: The cotangent of each tensor, in its shape; None for a tensor with a single
            element.
        grad_variables: The older name of grad_tensors.
        inputs: The tensors whose gradients are accumulated. Default: all leaves that require
            gradients.

    Raises:
        RuntimeError: If a tensor has no graph, or has several elements and no cotangent.
        ValueError: If a cotangent does not match its tensor.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_variables and grad_tensors, which are one: give grad_tensors")
        warn_caller("backward: grad_variables is deprecated: grad_tensors is its name")
        grad_tensors = grad_variables
    sources = _tensor_list(tensors, "backward: tensors")
    chosen = None if inputs is None else _tensor_list(inputs, "backward: inputs")
    if chosen == []:
        raise ValueError("backward: inputs: expected at least one tensor")
    total = None
    for source, weights in zip(sources, _output_grads(grad_tensors, sources, "backward")):
        if weights is None and source.numel() != 1:
            raise RuntimeError(f"backward: of shape {list(source.shape)}: only a single element has a gradient by itself: give grad_tensors")
        if weights is not None and weights.shape != source.shape:
            raise ValueError(f"backward: a gradient of shape {list(weights.shape)} for a tensor of shape {list(source.shape)}")
        part = source.reshape(()) if weights is None else (source * weights.detach()).sum()
        total = part if total is None else total + part
    if total is not None:
        total.backward(retain_graph=retain_graph, create_graph=create_graph, inputs=chosen)


class set_detect_anomaly:
    """Enables or disables anomaly detection for this thread: an op that produces NaN raises an
    error that names it. The setting applies from now on, or (`with`) in a scope; see
    `detect_anomaly`.

    Args:
        mode: Whether anomaly detection is enabled.
        check_nan: As in PyTorch. False disables the detection.
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._previous = _trust.set_anomaly_detection(bool(mode) and bool(check_nan))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        _trust.set_anomaly_detection(self._previous)


class detect_anomaly:
    """A scope in which an op that produces NaN raises an error that names it, in the forward and in
    the backward pass: it shows where NaN originates.

        with autograd.detect_anomaly():
            loss = criterion(model(x), target)
            # RuntimeError: sqrt: NaN in 4 of 64 elements of the gradient of its input 0 ..
            loss.backward()

    An op whose inputs already contain NaN raises no error. PyTorch checks only the backward pass.
    The mode is slow, as a value of each output is copied to the host.

    Args:
        check_nan: False disables the detection.
    """

    def __init__(self, check_nan: bool = True):
        self._check_nan = bool(check_nan)
        self._previous: list[bool] = []

    def __enter__(self) -> None:
        self._previous.append(_trust.set_anomaly_detection(self._check_nan))

    def __exit__(self, *_: Any) -> None:
        _trust.set_anomaly_detection(self._previous.pop())


def to_dot(tensor: Tensor, names: Any = None, statistics: bool = False) -> str:
    """Returns the graph that computed a tensor in Graphviz's DOT language: ops and leaves with
    shapes and dtypes.

        open("graph.dot", "w").write(autograd.to_dot(loss, model))   # dot -Tsvg graph.dot

    Args:
        names: A module, whose parameters are labeled, or a dict of tensors by name.
        statistics: Adds the statistics of every tensor that still exists.

    Raises:
        RuntimeError: If the tensor has no graph.
        TypeError: If `tensor` is not a tensor, or if `names` has the wrong type.
    """
    named_tensors = dict(names.named_parameters()) if hasattr(names, "named_parameters") else {} if names is None else names
    if not isinstance(named_tensors, Mapping) or not all(isinstance(each, Tensor) for each in named_tensors.values()):
        raise TypeError(f"to_dot: names of type {type(names).__name__}, expected a module or a dict of tensors")
    _tensor_list(tensor, "to_dot")
    dot: str = _trust.to_dot(tensor, [(str(name), each) for name, each in named_tensors.items()], statistics)
    return dot
