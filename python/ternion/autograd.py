"""Gradients of chosen tensors: `grad` gives them, `backward` gathers them in `.grad`."""

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


def _listed(tensors: Any, what: str) -> list[Tensor]:
    if not isinstance(tensors, Iterable):
        raise TypeError(f"{what}: expected tensors, got {type(tensors).__name__}")
    found = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for tensor in found:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{what}: expected tensors, got {type(tensor).__name__}")
    return found


def _weights(given: Any, outputs: list[Tensor], what: str) -> list[Any]:
    if given is None:
        return [None] * len(outputs)
    found = [None if each is None else _listed(each, f"{what}: gradients")[0] for each in ([given] if isinstance(given, Tensor) or not isinstance(given, Iterable) else given)]
    if len(found) != len(outputs):
        raise ValueError(f"{what}: {len(found)} gradients for {len(outputs)} outputs")
    return found


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
    """The gradients of `outputs` for `inputs`, one for each; no `.grad` is touched.

    Args:
        outputs: tensors that were computed of the inputs.
        inputs: tensors that ask for a gradient, or that were computed on the way.
        grad_outputs: weights of the elements of each output, in its shape; None for an output of a single element.
        retain_graph: keep what was saved, so that the graph can be walked again; as `create_graph` by default.
        create_graph: record the walk itself, so that gradients have gradients.
        only_inputs: taken as in PyTorch, where it has no effect either.
        allow_unused: give None for an input that the outputs do not depend on, rather than an error.
        is_grads_batched: not there: an error.
        materialize_grads: zeros in place of None.

    Raises:
        RuntimeError: an output that nothing was recorded for, or an input that the outputs do not depend on.
        ValueError: gradients that do not fit the outputs.
    """
    if only_inputs is not True:
        warn_caller("grad: only_inputs is deprecated and taken for True: accumulate gradients of other leaves with backward")
    if is_grads_batched:
        raise ValueError("grad: is_grads_batched: call grad once for each gradient")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads is for inputs that are not used, which allow_unused=False forbids")
    wanted, sources = _listed(inputs, "grad: inputs"), _listed(outputs, "grad: outputs")
    weights = _weights(grad_outputs, sources, "grad")
    found = _ternion._grad(sources, wanted, weights, retain_graph, create_graph, bool(allow_unused) or materialize_grads)
    if materialize_grads:
        found = [_ternion.zeros_like(tensor) if each is None else each for tensor, each in zip(wanted, found)]
    return tuple(found)


def backward(
    tensors: Tensors,
    grad_tensors: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Any = None,
) -> None:
    """Adds the gradients of several tensors together to `.grad` of what they were computed of; see `Tensor.backward`.

    Args:
        tensors: tensors that were recorded.
        grad_tensors: weights of the elements of each, in its shape; None for a single element.
        grad_variables: the older name of grad_tensors.
        inputs: the tensors whose gradients are gathered; all that ask for one by default.

    Raises:
        RuntimeError: a tensor that nothing was recorded for, or of several elements without weights.
        ValueError: weights that do not fit.
    """
    if grad_variables is not None:
        if grad_tensors is not None:
            raise RuntimeError("backward: grad_variables and grad_tensors, which are one: give grad_tensors")
        warn_caller("backward: grad_variables is deprecated: grad_tensors is its name")
        grad_tensors = grad_variables
    sources = _listed(tensors, "backward: tensors")
    chosen = None if inputs is None else _listed(inputs, "backward: inputs")
    if chosen == []:
        raise ValueError("backward: inputs: expected at least one tensor")
    total = None
    for source, weights in zip(sources, _weights(grad_tensors, sources, "backward")):
        if weights is None and source.numel() != 1:
            raise RuntimeError(f"backward: of shape {list(source.shape)}: only a single element has a gradient by itself: give grad_tensors")
        if weights is not None and weights.shape != source.shape:
            raise ValueError(f"backward: a gradient of shape {list(weights.shape)} for a tensor of shape {list(source.shape)}")
        part = source.reshape(()) if weights is None else (source * weights.detach()).sum()
        total = part if total is None else total + part
    if total is not None:
        total.backward(retain_graph=retain_graph, create_graph=create_graph, inputs=chosen)


class set_detect_anomaly:
    """Has every op of this thread that makes a NaN be an error that names it, or no longer, from now on or (`with`) within a scope; see `detect_anomaly`.

    Args:
        mode: whether NaN are looked for.
        check_nan: as in PyTorch; False: none are.
    """

    def __init__(self, mode: bool, check_nan: bool = True):
        self._before = _trust.set_anomaly_detection(bool(mode) and bool(check_nan))

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: Any) -> None:
        _trust.set_anomaly_detection(self._before)


class detect_anomaly:
    """A scope in which every op that makes a NaN is an error that names it, in the forward and in the backward pass: where NaN begin.

        with autograd.detect_anomaly():
            loss = criterion(model(x), target)
            loss.backward()   # RuntimeError: sqrt: NaN in 4 of 64 elements of the gradient of its input 0 ..

    A NaN of inputs that had some already is no error. PyTorch looks in the backward pass alone. Slow, as a number of each output is read.

    Args:
        check_nan: False: none are looked for.
    """

    def __init__(self, check_nan: bool = True):
        self._check_nan = bool(check_nan)
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_trust.set_anomaly_detection(self._check_nan))

    def __exit__(self, *_: Any) -> None:
        _trust.set_anomaly_detection(self._before.pop())


def to_dot(tensor: Tensor, names: Any = None, statistics: bool = False) -> str:
    """The graph that computed a tensor, in Graphviz's language: ops and leaves with shapes and dtypes.

        open("graph.dot", "w").write(autograd.to_dot(loss, model))   # dot -Tsvg graph.dot

    Args:
        names: a module, whose parameters are named, or a dict of tensors by their names.
        statistics: adds those of every tensor that is still there.

    Raises:
        RuntimeError: nothing was recorded for the tensor.
        TypeError: no tensor, or names that are none.
    """
    given = dict(names.named_parameters()) if hasattr(names, "named_parameters") else {} if names is None else names
    if not isinstance(given, Mapping) or not all(isinstance(each, Tensor) for each in given.values()):
        raise TypeError(f"to_dot: names of type {type(names).__name__}, expected a module or a dict of tensors")
    _listed(tensor, "to_dot")
    told: str = _trust.to_dot(tensor, [(str(name), each) for name, each in given.items()], statistics)
    return told
