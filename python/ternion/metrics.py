"""Metrics of predictions: accuracy, confusion matrix, precision, recall and F1 for classes, and
errors and R2 for numbers.

Functions take tensors or arrays, and return Python numbers, except for `confusion_matrix`.
"""

from __future__ import annotations

from typing import Any

from ._ternion import Tensor, as_tensor, cat, int64

__all__ = ["accuracy", "confusion_matrix", "f1_score", "mean_absolute_error", "mean_squared_error", "precision_recall_f1", "r2_score"]


def __dir__() -> list[str]:
    return __all__


def _pair(caller: str, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
    tensors = [value.detach().cpu() if isinstance(value, Tensor) else as_tensor(value) for value in (prediction, target)]
    if not len(tensors[1].shape) or not tensors[1].numel():
        raise ValueError(f"{caller}: a target of shape {list(tensors[1].shape)}, expected at least 1 example")
    return tensors[0], tensors[1]


def _classes(caller: str, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
    """Returns the predicted and the correct classes."""
    predicted, correct = _pair(caller, prediction, target)
    if predicted.ndim == correct.ndim + 1 and predicted.shape[1] == 1:
        message = f"predictions of shape {list(predicted.shape)}, whose only column would always win"
        raise ValueError(f"{caller}: {message}, expected numbers of classes [examples]: squeeze(1), and of scores (scores > 0).long()")
    if predicted.ndim == correct.ndim + 1:
        predicted = predicted.argmax(1)
    if predicted.shape != correct.shape or predicted.is_floating_point() or correct.is_floating_point():
        message = f"predictions of {predicted.dtype} and shape {list(predicted.shape)} for targets of {correct.dtype} and shape {list(correct.shape)}"
        raise ValueError(f"{caller}: {message}, expected numbers of classes [examples], predictions also as scores [examples, classes]")
    return predicted.to(int64).flatten(), correct.to(int64).flatten()


def accuracy(prediction: Any, target: Any, top_k: int = 1) -> float:
    """Returns the fraction of the examples whose class is predicted correctly; with `top_k`, whose
    class is one of the `top_k` classes with the highest scores.

    Shapes: [examples] or scores [examples, classes], and [examples]

    Raises:
        ValueError: If the shapes do not match, if there are no examples, if the targets are
            floating point, or if `top_k` is used without scores or exceeds the number of classes.
    """
    if top_k == 1:
        predicted, correct = _classes("accuracy", prediction, target)
        return (predicted == correct).double().mean().item()
    scores, correct = _pair("accuracy", prediction, target)
    if scores.ndim != 2 or correct.ndim != 1 or len(scores) != len(correct) or not 1 <= top_k <= scores.shape[1]:
        message = f"scores of shape {list(scores.shape)}, targets of shape {list(correct.shape)} and top_k {top_k}"
        raise ValueError(f"accuracy: {message}, expected [examples, classes], [examples] and at most as many as there are classes")
    return (scores.topk(top_k, 1).indices == correct.to(int64).unsqueeze(1)).any(1).double().mean().item()


def confusion_matrix(prediction: Any, target: Any, classes: int | None = None) -> Tensor:
    """Returns the number of examples of each class (row) that were predicted as each class
    (column): int64, [classes, classes].

    Raises:
        ValueError: As `accuracy`; also if a class is not from 0 to below `classes`.
    """
    predicted, correct = _classes("confusion_matrix", prediction, target)
    lowest, highest = (int(cat([predicted, correct]).aminmax()[index].item()) for index in (0, 1))
    count = highest + 1 if classes is None else classes
    if lowest < 0 or highest >= count:
        raise ValueError(f"confusion_matrix: classes from {lowest} to {highest}, expected 0 to {count - 1}")
    return (correct * count + predicted).bincount(minlength=count * count).reshape(count, count)


def precision_recall_f1(prediction: Any, target: Any, classes: int | None = None) -> tuple[list[float], list[float], list[float]]:
    """Returns for each class the fraction of its predictions that are correct, the fraction of its
    examples that are found, and their harmonic mean; 0 if there are none.

    Raises:
        ValueError: As `confusion_matrix`.
    """
    table = confusion_matrix(prediction, target, classes).double()
    hits, predicted, actual = table.diagonal().tolist(), table.sum(0).tolist(), table.sum(1).tolist()
    precision = [hit / count if count else 0.0 for hit, count in zip(hits, predicted)]
    recall = [hit / count if count else 0.0 for hit, count in zip(hits, actual)]
    f1 = [2 * hit / (one + other) if one + other else 0.0 for hit, one, other in zip(hits, predicted, actual)]
    return precision, recall, f1


def f1_score(prediction: Any, target: Any, classes: int | None = None) -> float:
    """Returns the mean of F1 over the classes ("macro"). Raises the errors of `confusion_matrix`.
    """
    f1 = precision_recall_f1(prediction, target, classes)[2]
    return sum(f1) / len(f1)


def _numbers(caller: str, prediction: Any, target: Any) -> tuple[Tensor, Tensor]:
    predicted, correct = _pair(caller, prediction, target)
    if predicted.shape != correct.shape:
        raise ValueError(f"{caller}: predictions of shape {list(predicted.shape)} for targets of shape {list(correct.shape)}, expected one shape")
    return predicted.double(), correct.double()


def mean_squared_error(prediction: Any, target: Any) -> float:
    """Returns the mean of the squared differences.

    Raises:
        ValueError: If the shapes differ, or if there are no examples.
    """
    predicted, correct = _numbers("mean_squared_error", prediction, target)
    return (predicted - correct).square().mean().item()


def mean_absolute_error(prediction: Any, target: Any) -> float:
    """Returns the mean of the absolute differences. Raises the errors of `mean_squared_error`."""
    predicted, correct = _numbers("mean_absolute_error", prediction, target)
    return (predicted - correct).abs().mean().item()


def r2_score(prediction: Any, target: Any) -> float:
    """Returns the coefficient of determination: 1 minus the sum of squared differences divided by
    that of the differences from the mean of the targets. For constant targets it is 1 if they are
    matched, otherwise 0.

    Raises:
        ValueError: If the shapes differ, or if there are no examples.
    """
    predicted, correct = _numbers("r2_score", prediction, target)
    residual, spread = (predicted - correct).square().sum().item(), (correct - correct.mean()).square().sum().item()
    return 1 - residual / spread if spread else float(residual == 0)
