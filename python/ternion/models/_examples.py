"""Conversion of the inputs of `fit` and `predict`: features to tensors and labels to classes, with
error messages for invalid inputs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._ternion import Tensor, as_tensor
from ..data import Table

if TYPE_CHECKING:
    from .._ternion import device as Device
    from .._ternion import dtype as DType

    Array = np.ndarray[Any, Any]


class Call(str):
    """The name of the called method in messages, with the class of the model."""

    model = "MLP"

    @classmethod
    def of(cls, model: Any, method: str) -> Call:
        call = cls(method)
        call.model = type(model).__name__
        return call


def _model(what: str) -> str:
    return what.model if isinstance(what, Call) else Call.model


def of_table(value: Any) -> Any:
    """Returns the numbers of a table of `ternion.data`; any other value unchanged."""
    return value.tensor() if isinstance(value, Table) else value


def features(X: Any, what: str, expected: int, device: Device, dtype: DType) -> Tensor:
    """Returns `X` as a tensor [examples, ..] of a floating-point dtype on a device.

    Raises:
        TypeError: If X is a sparse matrix, or does not contain numbers.
        ValueError: If X has only one axis or another number of features than `expected`, or
            contains complex numbers, NaN or infinity.
    """
    inputs = _of_array(of_table(X), what, "X", device, dtype)
    shape = tuple(inputs.shape)
    if len(shape) < 2:
        told = "reshape one example to [1, features], one feature to [examples, 1]"
        raise ValueError(f"{what}: Expected 2D array, got {len(shape)}D array instead: X has shape {shape}. Reshape your data: {told}")
    found = int(np.prod(shape[1:]))
    if found == 0:
        raise ValueError(f"{what}: X has no features: Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if found != expected:
        raise ValueError(f"{what}: X has {found} features, but {_model(what)} is expecting {expected} features as input: X has shape {shape}")
    _finite(inputs, what, "X")
    return inputs


def numbers(y: Any, what: str, outputs: int, device: Device, dtype: DType) -> Tensor:
    """Returns regression targets as a tensor [examples, outputs] of a floating-point dtype.

    Raises:
        TypeError: If y does not contain numbers.
        ValueError: If the number of values for each example differs from `outputs`, or if y
            contains NaN or infinity.
    """
    targets = _of_array(y, what, "y", device, dtype)
    shape = tuple(targets.shape)
    if len(shape) == 1 and outputs == 1:
        targets = targets.unsqueeze(1)
    elif len(shape) != 2 or shape[1] != outputs:
        hint = "" if outputs == 1 else "; labels of classes are whole numbers, strings or bools"
        raise ValueError(f"{what}: y has shape {shape}, expected [examples, {outputs}]: numbers with a point are values of the {outputs} outputs{hint}")
    _finite(targets, what, "y")
    return targets


def weights(sample_weight: Any, what: str, like: Tensor) -> Tensor | None:
    """Returns the weights of the examples in `like`, [examples]; None if there are none.

    Raises:
        ValueError: If the number of weights differs from that of the examples, if a weight is NaN,
            infinite or negative, or if all are 0.
    """
    if sample_weight is None:
        return None
    given = _of_array(sample_weight, what, "sample_weight", like.device, like.dtype)
    if tuple(given.shape) != (len(like),):
        raise ValueError(f"{what}: sample_weight has shape {tuple(given.shape)}, expected ({len(like)},)")
    _finite(given, what, "sample_weight")
    if given.min().item() < 0 or given.max().item() == 0:
        raise ValueError(f"{what}: sample_weight holds numbers below 0, or zeros alone")
    return given


def labels(y: Any, what: str) -> Array:
    """Returns labels as an array with one axis: integers, bools or strings.

    Raises:
        ValueError: If there are several labels for an example, if labels are not integral, or if
            labels are missing.
    """
    found = _array(y, what, "y")
    if found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if found.ndim != 1:
        raise ValueError(f"{what}: y has shape {found.shape}, expected one label for each example, [examples]; of rows with a 1 at the class y.argmax(1)")
    if found.dtype.kind == "f":
        if not np.isfinite(found).all():
            raise ValueError(f"{what}: Input y contains NaN or infinity, expected labels")
        if (found != np.floor(found)).any():
            raise ValueError(f"{what}: Unknown label type: continuous: y holds numbers with a point, expected whole numbers, strings or bools")
    if found.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported: y is {found.dtype}")
    if found.dtype.kind == "O" and any(label is None or label != label for label in found):
        raise ValueError(f"{what}: a label is missing: Input y contains NaN or None")
    return found


def without_one_hot(y: Any, outputs: int, what: str) -> Any:
    """Returns the class indices if all rows of `y` are one-hot; otherwise `y` itself."""
    # The shape of an array or a tensor is known before it is read.
    if outputs < 2 or tuple(getattr(y, "shape", (0, outputs)))[1:] != (outputs,):
        return y
    found = _array(y, what, "y")
    if found.shape[1:] != (outputs,) or found.dtype.kind not in "biuf" or not len(found):
        return y
    is_one = found == 1
    is_one_hot = (is_one.sum(1) == 1).all() and (is_one | (found == 0)).all()
    return is_one.argmax(1) if is_one_hot else y


# Maximum deviation of the sum of probabilities from 1: they are rounded, possibly to half
# precision.
_ROUNDED = 2e-3


def are_probabilities(y: Any, outputs: int, what: str) -> bool:
    """Returns whether every row of `y` has a probability for each output, as smoothed or mixed
    labels do.
    """
    if outputs < 2 or tuple(getattr(y, "shape", (0, outputs)))[1:] != (outputs,):
        return False
    found = _array(y, what, "y")
    if found.shape[1:] != (outputs,) or found.dtype.kind != "f" or not len(found):
        return False
    return bool((found >= 0).all() and (abs(found.sum(1, dtype=np.float64) - 1) <= _ROUNDED).all())


def is_of_numbers(y: Any, what: str) -> bool:
    """Returns whether targets are floating-point numbers and not labels."""
    return y.is_floating_point() if isinstance(y, Tensor) else _array(y, what, "y").dtype.kind == "f"


def axes_of(y: Any, what: str) -> int:
    """Returns the number of axes of the targets."""
    return y.ndim if isinstance(y, Tensor) else _array(y, what, "y").ndim


def classes_of(found: Array, outputs: int, what: str) -> Array:
    """Returns the label of each output. Nonnegative integers below the number of outputs are output
    indices; other labels are sorted.

    Raises:
        TypeError: If labels have different types, which cannot be ordered.
        ValueError: If there are more labels than outputs.
    """
    if outputs == 1:
        told = "values are numbers with a point, or task='regression' is given"
        raise ValueError(f"{what}: y holds labels ({found.dtype}), and a classifier has an output for each class, but the model has 1 output; {told}")
    if found.dtype.kind in "iuf" and found.size and found.min() >= 0 and found.max() < outputs:
        return np.arange(outputs).astype(found.dtype)
    try:
        classes = np.unique(found)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in found})
        raise TypeError(f"{what}: y mixes labels of the kinds {', '.join(kinds)}, which have no order") from None
    if len(classes) > outputs:
        raise ValueError(f"{what}: y has {len(classes)} different labels ({_few(classes)}), but the model has {outputs} outputs")
    return classes


def check_are_places(found: Array, outputs: int, what: str) -> None:
    """Checks that labels are output indices: from 0 to below the number of outputs.

    Raises:
        ValueError: If there are other labels. The message contains those that were found.
    """
    if found.dtype.kind not in "iuf" or found.size and not (found.min() >= 0 and found.max() < outputs):
        told = "np.unique(y, return_inverse=True)[1] makes such labels of others"
        raise ValueError(f"{what}: y has the labels {_few(np.unique(found))}, expected whole numbers 0 to {outputs - 1}, the places of the {outputs} outputs: {told}")


def places_of(found: Array, classes: Array, what: str) -> Tensor:
    """Returns the index of each label among the classes, int64.

    Raises:
        ValueError: If a label is not one of the classes.
    """
    are_words = [array.dtype.kind in "OUST" for array in (found, classes)]
    if found.size and are_words[0] != are_words[1]:
        raise ValueError(f"{what}: y holds labels of {found.dtype}, but the classes are {_few(classes)}")
    places = np.searchsorted(classes, found).clip(0, len(classes) - 1) if found.size else np.zeros(0, np.int64)
    unknown = classes[places] != found
    if unknown.any():
        raise ValueError(f"{what}: y holds labels that are not among the classes: {_few(np.unique(found[unknown]))}; the classes are {_few(classes)}")
    return as_tensor(places.astype(np.int64))


def feature_names(X: Any) -> Array | None:
    """Returns the names of a table's columns if all of them are strings."""
    columns = None if isinstance(X, Tensor) else getattr(X, "columns", None)
    if columns is None:
        return None
    names = np.asarray(columns, dtype=object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def same_length(inputs: Tensor, targets: Tensor, what: str) -> None:
    """Checks that there are examples, and one target for each."""
    if len(inputs) != len(targets):
        raise ValueError(f"{what}: {len(inputs)} examples and {len(targets)} targets: inconsistent numbers of samples in X and y")
    if len(inputs) == 0:
        raise ValueError(f"{what}: no examples: Found array with 0 sample(s) (shape={tuple(inputs.shape)}) while a minimum of 1 is required.")


def _few(found: Array) -> str:
    shown = ", ".join(repr(label) for label in found[:5].tolist())
    return f"{shown}, .." if len(found) > 5 else shown


def _array(value: Any, what: str, name: str) -> Array:
    if value is None:
        raise ValueError(f"{what}: {_model(what)} requires {name} to be passed, but the {'target' if name == 'y' else 'input'} {name} is None")
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{what}: {name} is a sparse matrix ({type(value).__name__}), which is not taken: give {name}.toarray()")
    # Tensors, including PyTorch's, may be on a device and require gradients.
    value = value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{what}: {name} is no array: {error}") from None


def _of_array(value: Any, what: str, name: str, device: Device, dtype: DType) -> Tensor:
    """Returns a numeric tensor from any value that NumPy converts to an array."""
    if isinstance(value, Tensor):
        return value.detach().to(device).to(dtype)
    array = _array(value, what, name)
    if array.dtype.kind == "c":
        raise ValueError(f"{what}: Complex data not supported: {name} is {array.dtype}")
    if array.dtype.kind not in "biufO":
        held_as = "text" if array.dtype.kind in "USO" else str(array.dtype)
        raise ValueError(f"{what}: {name} holds {held_as}, expected numbers")
    wide = array.dtype.kind == "O" or (array.dtype.kind == "f" and array.dtype.itemsize >= 8)
    try:
        held = array.astype(np.float64 if wide else np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{what}: {name} holds what is no number: {error}") from None
    return as_tensor(held).to(device).to(dtype)


def _finite(values: Tensor, what: str, name: str) -> None:
    if values.numel() and not values.isfinite().all().item():
        raise ValueError(f"{what}: Input {name} contains NaN or infinity, or a number beyond {values.dtype}")
