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


def _model(caller: str) -> str:
    return caller.model if isinstance(caller, Call) else Call.model


def table_values(value: Any) -> Any:
    """Returns the numbers of a table of `ternion.data`; any other value unchanged."""
    return value.tensor() if isinstance(value, Table) else value


def features(X: Any, caller: str, expected: int, device: Device, dtype: DType) -> Tensor:
    """Returns `X` as a tensor [examples, ..] of a floating-point dtype on a device.

    Raises:
        TypeError: If X is a sparse matrix, or does not contain numbers.
        ValueError: If X has only one axis or another number of features than `expected`, or
            contains complex numbers, NaN or infinity.
    """
    inputs = _to_tensor(table_values(X), caller, "X", device, dtype)
    shape = tuple(inputs.shape)
    if len(shape) < 2:
        hint = "reshape one example to [1, features], one feature to [examples, 1]"
        raise ValueError(f"{caller}: Expected 2D array, got {len(shape)}D array instead: X has shape {shape}. Reshape your data: {hint}")
    count = int(np.prod(shape[1:]))
    if count == 0:
        raise ValueError(f"{caller}: X has no features: Found array with 0 feature(s) (shape={shape}) while a minimum of 1 is required.")
    if count != expected:
        raise ValueError(f"{caller}: X has {count} features, but {_model(caller)} is expecting {expected} features as input: X has shape {shape}")
    _check_finite(inputs, caller, "X")
    return inputs


def numbers(y: Any, caller: str, outputs: int, device: Device, dtype: DType) -> Tensor:
    """Returns regression targets as a tensor [examples, outputs] of a floating-point dtype.

    Raises:
        TypeError: If y does not contain numbers.
        ValueError: If the number of values for each example differs from `outputs`, or if y
            contains NaN or infinity.
    """
    targets = _to_tensor(y, caller, "y", device, dtype)
    shape = tuple(targets.shape)
    if len(shape) == 1 and outputs == 1:
        targets = targets.unsqueeze(1)
    elif len(shape) != 2 or shape[1] != outputs:
        hint = "" if outputs == 1 else "; labels of classes are integers, strings or bools"
        raise ValueError(f"{caller}: y has shape {shape}, expected [examples, {outputs}]: numbers with a point are values of the {outputs} outputs{hint}")
    _check_finite(targets, caller, "y")
    return targets


def weights(sample_weight: Any, caller: str, like: Tensor) -> Tensor | None:
    """Returns the weights of the examples in `like`, [examples]; None if there are none.

    Raises:
        ValueError: If the number of weights differs from that of the examples, if a weight is NaN,
            infinite or negative, or if all are 0.
    """
    if sample_weight is None:
        return None
    values = _to_tensor(sample_weight, caller, "sample_weight", like.device, like.dtype)
    if tuple(values.shape) != (len(like),):
        raise ValueError(f"{caller}: sample_weight has shape {tuple(values.shape)}, expected ({len(like)},)")
    _check_finite(values, caller, "sample_weight")
    if values.min().item() < 0 or values.max().item() == 0:
        raise ValueError(f"{caller}: sample_weight holds numbers below 0, or only zeros")
    return values


def labels(y: Any, caller: str) -> Array:
    """Returns labels as an array with one axis: integers, bools or strings.

    Raises:
        ValueError: If there are several labels for an example, if labels are not integral, or if
            labels are missing.
    """
    array = _array(y, caller, "y")
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ValueError(f"{caller}: y has shape {array.shape}, expected one label for each example, [examples]; of rows with a 1 at the class y.argmax(1)")
    if array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise ValueError(f"{caller}: Input y contains NaN or infinity, expected labels")
        if (array != np.floor(array)).any():
            raise ValueError(f"{caller}: Unknown label type: continuous: y holds numbers with a point, expected integers, strings or bools")
    if array.dtype.kind == "c":
        raise ValueError(f"{caller}: Complex data not supported: y is {array.dtype}")
    if array.dtype.kind == "O" and any(label is None or label != label for label in array):
        raise ValueError(f"{caller}: a label is missing: Input y contains NaN or None")
    return array


def without_one_hot(y: Any, outputs: int, caller: str) -> Any:
    """Returns the class indices if all rows of `y` are one-hot; otherwise `y` itself."""
    # The shape of an array or a tensor is known before it is read.
    if outputs < 2 or tuple(getattr(y, "shape", (0, outputs)))[1:] != (outputs,):
        return y
    array = _array(y, caller, "y")
    if array.shape[1:] != (outputs,) or array.dtype.kind not in "biuf" or not len(array):
        return y
    is_one = array == 1
    is_one_hot = (is_one.sum(1) == 1).all() and (is_one | (array == 0)).all()
    return is_one.argmax(1) if is_one_hot else y


# Maximum deviation of the sum of probabilities from 1: they are rounded, possibly to half
# precision.
_ROUNDING_TOLERANCE = 2e-3


def are_probabilities(y: Any, outputs: int, caller: str) -> bool:
    """Returns whether every row of `y` has a probability for each output, as smoothed or mixed
    labels do.
    """
    if outputs < 2 or tuple(getattr(y, "shape", (0, outputs)))[1:] != (outputs,):
        return False
    array = _array(y, caller, "y")
    if array.shape[1:] != (outputs,) or array.dtype.kind != "f" or not len(array):
        return False
    return bool((array >= 0).all() and (abs(array.sum(1, dtype=np.float64) - 1) <= _ROUNDING_TOLERANCE).all())


def has_float_targets(y: Any, caller: str) -> bool:
    """Returns whether targets are floating-point numbers and not labels."""
    return y.is_floating_point() if isinstance(y, Tensor) else _array(y, caller, "y").dtype.kind == "f"


def target_ndim(y: Any, caller: str) -> int:
    """Returns the number of axes of the targets."""
    return y.ndim if isinstance(y, Tensor) else _array(y, caller, "y").ndim


def label_classes(found_labels: Array, outputs: int, caller: str) -> Array:
    """Returns the label of each output. Nonnegative integers below the number of outputs are output
    indices; other labels are sorted.

    Raises:
        TypeError: If labels have different types, which cannot be ordered.
        ValueError: If there are more labels than outputs.
    """
    if outputs == 1:
        hint = "values are numbers with a point, or task='regression' is given"
        raise ValueError(f"{caller}: y holds labels ({found_labels.dtype}), and a classifier has an output for each class, but the model has 1 output; {hint}")
    if found_labels.dtype.kind in "iuf" and found_labels.size and found_labels.min() >= 0 and found_labels.max() < outputs:
        return np.arange(outputs).astype(found_labels.dtype)
    try:
        classes = np.unique(found_labels)
    except TypeError:
        kinds = sorted({type(label).__name__ for label in found_labels})
        raise TypeError(f"{caller}: y mixes labels of the kinds {', '.join(kinds)}, which have no order") from None
    if len(classes) > outputs:
        raise ValueError(f"{caller}: y has {len(classes)} different labels ({_format_first(classes)}), but the model has {outputs} outputs")
    return classes


def check_class_indices(found_labels: Array, outputs: int, caller: str) -> None:
    """Checks that labels are output indices: from 0 to below the number of outputs.

    Raises:
        ValueError: If there are other labels. The message contains those that were found.
    """
    if found_labels.dtype.kind not in "iuf" or found_labels.size and not (found_labels.min() >= 0 and found_labels.max() < outputs):
        hint = "np.unique(y, return_inverse=True)[1] makes such labels of others"
        raise ValueError(f"{caller}: y has the labels {_format_first(np.unique(found_labels))}, expected integers 0 to {outputs - 1}, the indices of the {outputs} outputs: {hint}")


def class_indices(found_labels: Array, classes: Array, caller: str) -> Tensor:
    """Returns the index of each label among the classes, int64.

    Raises:
        ValueError: If a label is not one of the classes.
    """
    are_words = [array.dtype.kind in "OUST" for array in (found_labels, classes)]
    if found_labels.size and are_words[0] != are_words[1]:
        raise ValueError(f"{caller}: y holds labels of {found_labels.dtype}, but the classes are {_format_first(classes)}")
    indices = np.searchsorted(classes, found_labels).clip(0, len(classes) - 1) if found_labels.size else np.zeros(0, np.int64)
    unknown = classes[indices] != found_labels
    if unknown.any():
        raise ValueError(f"{caller}: y holds labels that are not among the classes: {_format_first(np.unique(found_labels[unknown]))}; the classes are {_format_first(classes)}")
    return as_tensor(indices.astype(np.int64))


def feature_names(X: Any) -> Array | None:
    """Returns the names of a table's columns if all of them are strings."""
    columns = None if isinstance(X, Tensor) else getattr(X, "columns", None)
    if columns is None:
        return None
    names = np.asarray(columns, dtype=object)
    return names if len(names) and all(isinstance(name, str) for name in names) else None


def same_length(inputs: Tensor, targets: Tensor, caller: str) -> None:
    """Checks that there are examples, and one target for each."""
    if len(inputs) != len(targets):
        raise ValueError(f"{caller}: {len(inputs)} examples and {len(targets)} targets: inconsistent numbers of samples in X and y")
    if len(inputs) == 0:
        raise ValueError(f"{caller}: no examples: Found array with 0 sample(s) (shape={tuple(inputs.shape)}) while a minimum of 1 is required.")


def _format_first(values: Array) -> str:
    text = ", ".join(repr(label) for label in values[:5].tolist())
    return f"{text}, .." if len(values) > 5 else text


def _array(value: Any, caller: str, name: str) -> Array:
    if value is None:
        raise ValueError(f"{caller}: {_model(caller)} requires {name} to be passed, but the {'target' if name == 'y' else 'input'} {name} is None")
    if hasattr(value, "toarray") and hasattr(value, "nnz"):
        raise TypeError(f"{caller}: {name} is a sparse matrix ({type(value).__name__}), which is not taken: give {name}.toarray()")
    # Tensors, including PyTorch's, may be on a device and require gradients.
    value = value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value
    try:
        return np.asarray(value)
    except ValueError as error:
        raise ValueError(f"{caller}: {name} is not an array: {error}") from None


def _to_tensor(value: Any, caller: str, name: str, device: Device, dtype: DType) -> Tensor:
    """Returns a numeric tensor from any value that NumPy converts to an array."""
    if isinstance(value, Tensor):
        return value.detach().to(device).to(dtype)
    array = _array(value, caller, name)
    if array.dtype.kind == "c":
        raise ValueError(f"{caller}: Complex data not supported: {name} is {array.dtype}")
    if array.dtype.kind not in "biufO":
        description = "text" if array.dtype.kind in "USO" else str(array.dtype)
        raise ValueError(f"{caller}: {name} holds {description}, expected numbers")
    wide = array.dtype.kind == "O" or (array.dtype.kind == "f" and array.dtype.itemsize >= 8)
    try:
        numeric = array.astype(np.float64 if wide else np.float32, copy=False)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{caller}: {name} holds a value that is not a number: {error}") from None
    return as_tensor(numeric).to(device).to(dtype)


def _check_finite(values: Tensor, caller: str, name: str) -> None:
    if values.numel() and not values.isfinite().all().item():
        raise ValueError(f"{caller}: Input {name} contains NaN or infinity, or a number beyond {values.dtype}")
