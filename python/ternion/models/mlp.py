"""A model with scikit-learn's interface: `fit`, `predict`, `score`."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Mapping, Sequence
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import nn, optim
from .._random import get_rng_state, set_rng_state
from .._scopes import enable_grad, no_grad
from .._ternion import Tensor, as_tensor, cat, randint, stack
from .._ternion import device as _device
from . import _examples as examples
from ._estimator import Estimator, classifier_only, not_fitted, seed_of
from ._progress import ProgressLine

if TYPE_CHECKING:
    from typing_extensions import Self

    from ..nn.module import IncompatibleKeys

    Array = np.ndarray[Any, Any]

# The number of steps of a `fit` for which no number of epochs is given, and the minimum and maximum
# number of epochs.
_DEFAULT_STEPS = 3000
_EPOCHS = (5, 200)
_TASKS = ("auto", "classification", "regression")
# The initial weights of a seed are drawn from the device's random numbers, whose state only one
# thread at a time may set.
_rng_lock = threading.Lock()


class _OutputMeaning(NamedTuple):
    """The meaning of a model's outputs: classes, or numbers; for numbers, whether the target of an
    example is a scalar without an axis.
    """

    classes: Any
    is_flat: bool


class _Data(NamedTuple):
    """Examples on the device, and the meaning of their targets."""

    inputs: Tensor
    targets: Tensor
    meaning: _OutputMeaning
    weights: Tensor | None = None


class MLP(Estimator):
    """A multilayer perceptron with ReLU between linear layers of the given widths:
    `MLP(784, 128, 10)`. It is a classifier or a regressor with scikit-learn's interface.

        model = models.MLP(784, 128, 10)
        model.fit(images, labels, epochs=5, validation_data=(test_images, test_labels))
        model.predict(test_images)

    It works with scikit-learn's `clone`, `cross_val_score`, `GridSearchCV`, pipelines and
    ensembles. It is also a module: `model(x)` returns logits, or values. `pickle` saves the whole
    fitted model. A state dict contains only the weights; a model whose `task` is given can predict
    with them, with the classes 0, 1, ...

    Args:
        layer_widths: The widths of input, hidden layers and output as separate arguments; or
        widths: The same as a list.
        task: "classification", "regression", or "auto". With "auto", labels (integers, bools,
            strings) and rows of probabilities make a classifier, other floating-point numbers a
            regressor.
        epochs, batch_size, learning_rate, verbose: The defaults of the arguments of `fit`. By
            default there are as many epochs as 3,000 steps need, from 5 to 200.
        random_state: A seed for the initial weights and the order of the examples in `fit`. By
            default the random numbers of the device are used.
        warm_start: Whether `fit` continues from the current weights instead of starting from
            scratch.
        device: The device of the model.

    Attributes:
        classes_: The label of each output of a classifier. Nonnegative integers below the number of
            outputs are output indices; other labels are sorted.
        n_features_in_: The number of features.
        feature_names_in_: The columns of the training data, if it was a table.
        n_iter_: The number of epochs.
        loss_: The loss of the last epoch.
        loss_curve_: The loss of each epoch of the last `fit`.
        history: Lists by name ("loss", "validation loss", ..), with one number for each epoch of
            the last `fit`.

    Raises:
        ValueError: If there are fewer than two widths, or if one is not a positive integer.
    """

    classes_: Array
    n_features_in_: int
    feature_names_in_: Array
    n_iter_: int

    def __init__(
        self, *layer_widths: int, widths: Sequence[int] | None = None, task: str = "auto", epochs: int | None = None, batch_size: int = 64,
        learning_rate: float = 1e-3, verbose: bool | None = None, random_state: Any = None, warm_start: bool = False, device: Any = None,
    ):  # fmt: skip
        super().__init__()
        if layer_widths and widths is not None:
            raise TypeError(f"{type(self).__name__}: widths are given twice: {layer_widths} and widths={widths}")
        self.widths: Sequence[int] = layer_widths if widths is None else widths
        self.task, self.epochs, self.batch_size, self.learning_rate = task, epochs, batch_size, learning_rate
        self.verbose, self.random_state, self.warm_start, self.device = verbose, random_state, warm_start, device
        self._build()

    def _build(self) -> None:
        """Creates untrained layers of these widths."""
        widths = tuple(self.widths) if isinstance(self.widths, (tuple, list, np.ndarray)) else (self.widths,)
        if not widths:
            raise ValueError(f"{type(self).__name__}: no widths, expected those of input, hidden layers and output: {type(self).__name__}(8, 16, 3), or widths=[8, 16, 3]")
        if len(widths) < 2 or not all(_is_integer(width, 1) for width in widths):
            hint = "; a list is given as widths=[..]" if len(widths) == 1 and isinstance(widths[0], (list, tuple)) else ""
            raise ValueError(f"{type(self).__name__}: widths {widths}, expected integers above 0, at least those of input and output{hint}")
        self._check_device()
        self.layers = [nn.Linear(inputs, outputs, device=self.device) for inputs, outputs in zip(widths, widths[1:])]
        self.history: dict[str, list[float]] = {}
        self._output_meaning: _OutputMeaning | None = None
        self._partial: tuple[optim.Optimizer, np.random.Generator] | None = None
        self.training = True

    def _check_device(self) -> None:
        if self.device is None:
            return
        try:
            _device(self.device)
        except TypeError:
            message = f"device of type {type(self.device).__name__}, expected a ternion.device or its name"
            raise TypeError(f"{type(self).__name__}: {message}") from None

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, ..] to [batch, widths[-1]]. All axes after the first are flattened."""
        if not isinstance(x, Tensor):
            raise TypeError(f"{type(self).__name__}: called with {type(x).__name__}, expected a tensor: ternion.as_tensor() makes one; predict() takes arrays")
        if x.ndim < 2:
            raise ValueError(f"{type(self).__name__}: called with a tensor of shape {tuple(x.shape)}, expected [batch, ..]: x.unsqueeze(0) makes one example a batch")
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)

    # ---- fit

    def fit(
        self, X: Any, y: Any = None, epochs: int | None = None, batch_size: int | None = None, learning_rate: float | None = None,
        validation_data: tuple[Any, Any] | None = None, verbose: bool | None = None, seed: Any = None, optimizer: optim.Optimizer | None = None,
        sample_weight: Any = None,
    ) -> Self:  # fmt: skip
        """Fits the model to `y` given `X`, and returns the model. A previous fit is discarded,
        unless `warm_start` is set.

        The first `fit` starts with the current weights of the model. Later ones, and all with a
        seed, start with new weights. With a seed, the result does not depend on earlier random
        numbers, and the state of the device's generator is unchanged afterward. After Ctrl-C the
        model keeps what it has learned so far.

        Args:
            X: An array, a tensor, or a table of pandas or `ternion.data`, with finite numbers,
                [examples, features]. All axes after the first are flattened.
            y: Labels [examples], or numbers [examples] or [examples, outputs]. Unless the task is
                regression, one-hot rows are labels, too, and rows of nonnegative numbers that sum
                to 1, such as smoothed labels, are probabilities of the outputs.
            epochs: The number of passes over the examples. Default: as many as 3,000 steps need,
                from 5 to 200.
            batch_size: The number of examples per step. The last step of an epoch has the remaining
                ones.
            learning_rate: The learning rate of AdamW. Ignored if `optimizer` is given.
            validation_data: A pair (X, y) on which the model is evaluated after each epoch.
            verbose: Whether a line on stderr shows the progress. Default: True, except in calls by
                scikit-learn.
            seed: The `random_state` of this call.
            optimizer: The optimizer to use instead of AdamW.
            sample_weight: The weight of each example in the loss, [examples]. Default: equal
                weights.

        Raises:
            ValueError: If shapes do not match, if there is NaN or infinity, if the labels do not
                match the number of outputs, if a setting is out of range, or if the labels differ
                from those of the previous call under `warm_start`.
            TypeError: If an input is a sparse matrix, or if labels have several types.
            RuntimeError: If the loss becomes NaN or infinite.
        """
        kind, caller = type(self).__name__, examples.Call.of(self, "fit")
        size = _setting(kind, "batch_size", self.batch_size if batch_size is None else batch_size, 1)
        rate = _rate(kind, self.learning_rate if learning_rate is None else learning_rate)
        verbose = _verbose(kind, self.verbose if verbose is None else verbose)
        shown = not _is_called_by_scikit_learn() if verbose is None else bool(verbose)
        warm_start = _bool_setting(kind, "warm_start", self.warm_start)
        if optimizer is not None and not hasattr(optimizer, "zero_grad"):
            raise TypeError(f"fit: optimizer of type {type(optimizer).__name__}, expected an optimizer of the model's parameters: optim.AdamW(model.parameters())")
        if y is None and isinstance(X, examples.Table):
            hint = f"fit(table.without([{X.columns[-1]!r}]), table.select([{X.columns[-1]!r}])) learns one of its columns from the others"
            raise ValueError(f"fit: {kind} requires y to be passed, but the target y is None: {hint}")
        data = self._data(X, y, caller, None)
        epochs = self.epochs if epochs is None else epochs
        epochs = _default_epochs(len(data.inputs), size) if epochs is None else _setting(kind, "epochs", epochs, 1)
        data = data._replace(weights=examples.weights(sample_weight, "fit", data.inputs))
        validation = None if validation_data is None else self._data(*_pair(validation_data), examples.Call.of(self, "validation_data"), data.meaning)
        seed = self._seed() if seed is None else seed_of(seed, f"{kind}: seed")
        if not warm_start and (seed is not None or self._output_meaning is not None):
            self._draw_weights(seed)
        if warm_start:
            self._check_same_meaning(data.meaning)
        self._start_training(X, data.meaning)
        steps, order = optimizer or optim.AdamW(self.named_parameters(), lr=rate), _order_generator(seed)
        for epoch in range(epochs):
            line = ProgressLine(f"epoch {epoch + 1}/{epochs}", -(-len(data.inputs) // size), shown)
            self._epoch(data, validation, size, steps, order, line)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Self:
        """Continues training with one pass over the examples, with AdamW's moments of the previous
        call, and returns the model.

        Args:
            X, y: As in `fit`.
            classes: At the first call, all labels that will occur, if they are neither those in `y`
                nor 0, 1, ...

        Raises:
            ValueError: As `fit`; also if a label is not one of the classes.
        """
        kind, caller = type(self).__name__, examples.Call.of(self, "partial_fit")
        size, rate = _setting(kind, "batch_size", self.batch_size, 1), _rate(kind, self.learning_rate)
        warm_start = _bool_setting(kind, "warm_start", self.warm_start)
        meaning = self._output_meaning if self._output_meaning is not None or classes is None else self._infer_output_meaning(classes, caller)
        data = self._data(X, y, caller, meaning)
        if self._output_meaning is None:
            seed = self._seed()
            if seed is not None and not warm_start:
                self._draw_weights(seed)
            self._start_training(X, data.meaning)
        if self._partial is None:
            self._partial = optim.AdamW(self.named_parameters(), lr=rate), _order_generator(self._seed())
        line = ProgressLine("partial_fit", -(-len(data.inputs) // size), False)
        self._epoch(data, None, size, *self._partial, line)
        return self

    def _seed(self) -> int | None:
        return seed_of(self.random_state, f"{type(self).__name__}: random_state")

    def _check_same_meaning(self, meaning: _OutputMeaning) -> None:
        """Checks that outputs keep their meaning: the labels are those of the previous call, or
        both targets are numbers.
        """
        previous = self._output_meaning
        if previous is None:
            return
        descriptions = ["numbers" if each.classes is None else f"labels {list(each.classes)}" for each in (meaning, previous)]
        is_same = descriptions[0] == descriptions[1] if meaning.classes is None or previous.classes is None else np.array_equal(meaning.classes, previous.classes)
        if not is_same:
            raise ValueError(f"fit: warm_start continues with the labels of the call before: y has {descriptions[0]}, that had {descriptions[1]}")

    def _start_training(self, X: Any, meaning: _OutputMeaning) -> None:
        """Records the meaning of the outputs."""
        self._output_meaning, self._partial = meaning, None
        self.history, self.n_iter_, self.n_features_in_ = {"loss": []}, 0, int(self.widths[0])
        names = examples.feature_names(X)
        for name, value in (("classes_", meaning.classes), ("feature_names_in_", names)):
            self.__dict__.pop(name, None)
            if value is not None:
                setattr(self, name, value)

    def _epoch(self, data, validation, size, optimizer, order, line):
        """Makes one pass over the examples, and adds the results to the history and the progress
        line.
        """
        self.train()
        try:
            results = {"loss": self._pass(data, size, optimizer, order, line)}
            self.eval()
            if validation is not None:
                results.update({f"validation {name}": value for name, value in self._measure(validation, 1024).items()})
            line.end(results)
        finally:
            self.eval()
            line.close()
        self.n_iter_ += 1
        for name, value in results.items():
            self.history.setdefault(name, []).append(value)

    def _pass(self, data, size, optimizer, order, line):
        """Makes a pass over the examples in a new order, and returns the mean loss."""
        chosen = as_tensor(order.permutation(len(data.inputs)).astype(np.int64)).to(data.inputs.device)
        losses: list[Tensor] = []
        sizes: list[Any] = []
        for batch in chosen.split(size):
            optimizer.zero_grad()
            with enable_grad():
                weights = None if data.weights is None else data.weights[batch]
                loss = self._loss(self._class_outputs(self(data.inputs[batch])), data.targets[batch], data.meaning, weights)
            loss.backward()
            optimizer.step()
            line.update(loss)
            # Read at the end of the epoch: reading waits for the device.
            losses.append(loss.detach())
            sizes.append(len(batch) if weights is None else weights.sum())
        mean = float(np.average(stack(losses).cpu().numpy().astype(np.float64), weights=[float(size) for size in sizes]))
        if not math.isfinite(mean):
            raise RuntimeError(f"fit: the loss of epoch {self.n_iter_ + 1} is {mean}: try a smaller learning_rate, or features of similar size (StandardScaler)")
        return mean

    def _draw_weights(self, seed: int | None) -> None:
        """Draws new initial weights and writes them to the existing parameters, which an optimizer
        may reference.
        """
        first = self.layers[0].weight
        with _rng_lock:
            rng_state = get_rng_state(first.device)
            if seed is not None:
                set_rng_state((seed, 0), first.device)
            try:
                for layer in self.layers:
                    fresh = nn.Linear(layer.in_features, layer.out_features, device=first.device, dtype=first.dtype)
                    layer.load_state_dict(fresh.state_dict())
            finally:
                if seed is not None:
                    set_rng_state(rng_state, first.device)

    # ---- predict, score

    def predict(self, X: Any, batch_size: int = 1024) -> Array:
        """Returns the label or the value of each example, in the shape that `fit` was given, as a
        NumPy array.

        Raises:
            NotFittedError: If the model is not fitted (a ValueError and an AttributeError).
            ValueError: As `fit` for `X`; also if a table has other columns.
        """
        return self._predict(X, batch_size, "predict")

    def _predict(self, X: Any, batch_size: int, method: str) -> Array:
        """Returns labels or values. `method` is the name of the called method in error messages."""
        meaning = self._require_fitted(method)
        outputs = self._outputs(self._features(X, examples.Call.of(self, method), meaning), batch_size)
        if meaning.classes is not None:
            return np.asarray(meaning.classes[outputs.argmax(1).cpu().numpy()])
        values = outputs.squeeze(1) if meaning.is_flat else outputs
        return np.asarray(values.cpu().numpy())

    @classifier_only
    def predict_proba(self, X: Any, batch_size: int = 1024) -> Array:
        """Returns the probability of each class for each example, in the order of `classes_`, as a
        NumPy array. A regressor does not have this method.

        Raises:
            NotFittedError, ValueError: As `predict`.
        """
        return self._probabilities(X, batch_size, "predict_proba")

    def _probabilities(self, X: Any, batch_size: int, method: str) -> Array:
        inputs = self._features(X, examples.Call.of(self, method), self._require_fitted(method))
        return np.asarray(self._outputs(inputs, batch_size).softmax(1).cpu().numpy())

    def evaluate(self, X: Any, y: Any, batch_size: int = 1024) -> dict[str, float]:
        """Returns the mean "loss", and "accuracy" for a classifier, or "r2" for a regressor: the
        mean R2 of its outputs.

        Raises:
            NotFittedError, ValueError: As `predict`; also if there are no examples, or if a label
                is not one of the classes.
        """
        return self._evaluate(X, y, batch_size, "evaluate")

    def _evaluate(self, X: Any, y: Any, batch_size: int, method: str) -> dict[str, float]:
        return self._measure(self._data(X, y, examples.Call.of(self, method), self._require_fitted(method)), batch_size)

    def score(self, X: Any, y: Any) -> float:
        """Returns the accuracy of a classifier, or the R2 of a regressor. Raises the errors of
        `evaluate`.
        """
        results = self._evaluate(X, y, 1024, "score")
        return results["accuracy"] if "accuracy" in results else results["r2"]

    def _measure(self, data, batch_size):
        outputs = self._outputs(data.inputs, batch_size)
        with no_grad():
            results = {"loss": self._loss(outputs, data.targets, data.meaning).item()}
        if self._output_meaning.classes is not None:
            labels = data.targets.argmax(1) if data.targets.is_floating_point() else data.targets
            results["accuracy"] = float((outputs.argmax(1) == labels).cpu().numpy().mean())
        else:
            results["r2"] = _r2(outputs.cpu().numpy().astype(np.float64), data.targets.cpu().numpy().astype(np.float64))
        return results

    # ---- Conversion of inputs to tensors

    def _infer_output_meaning(self, y: Any, caller: str) -> _OutputMeaning:
        """Returns the meaning of the outputs for targets `y`."""
        if self.task not in _TASKS:
            raise ValueError(f"{caller}: task {self.task!r}, expected one of {', '.join(map(repr, _TASKS))}")
        if self.task != "regression" and examples.are_probabilities(y, int(self.widths[-1]), caller):
            return _OutputMeaning(np.arange(int(self.widths[-1])), True)
        if self.task == "regression" or (self.task == "auto" and examples.has_float_targets(y, caller)):
            return _OutputMeaning(None, examples.target_ndim(y, caller) == 1)
        return _OutputMeaning(examples.label_classes(examples.labels(y, caller), int(self.widths[-1]), caller), True)

    def _features(self, X: Any, caller: str, meaning: _OutputMeaning | None) -> Tensor:
        names, known = examples.feature_names(X), getattr(self, "feature_names_in_", None)
        if meaning is not None and meaning is self._output_meaning and names is not None and known is not None and list(names) != list(known):
            message = f"fitted on the columns {', '.join(known)}, got {', '.join(names)}"
            raise ValueError(f"{caller}: The feature names should match those that were passed during fit: {message}")
        weight = self.layers[0].weight
        return examples.features(X, caller, int(self.widths[0]), weight.device, weight.dtype)

    def _data(self, X: Any, y: Any, caller: str, meaning: _OutputMeaning | None) -> _Data:
        """Returns both as tensors. If the model is not fitted, `y` determines the meaning of the
        outputs.
        """
        inputs, y = self._features(X, caller, meaning), examples.table_values(y)
        if self.task != "regression" and (meaning is None or meaning.classes is not None):
            y = examples.without_one_hot(y, int(self.widths[-1]), caller)
        meaning = self._infer_output_meaning(y, caller) if meaning is None else meaning
        if meaning.classes is None:
            targets = examples.numbers(y, caller, int(self.widths[-1]), inputs.device, inputs.dtype)
        elif examples.are_probabilities(y, len(meaning.classes), caller):
            targets = examples.numbers(y, caller, len(meaning.classes), inputs.device, inputs.dtype)
        else:
            targets = examples.class_indices(examples.labels(y, caller), meaning.classes, caller).to(inputs.device)
        examples.same_length(inputs, targets, caller)
        return _Data(inputs, targets, meaning)

    def _require_fitted(self, caller: str) -> _OutputMeaning:
        if self._output_meaning is None:
            kind = type(self).__name__
            hint = f"to predict with weights of load_state_dict(), give the model its task: {kind}(.., task='classification')"
            hint = hint if "task" in self._get_param_names() else "load_state_dict() of weights that were saved makes it so, too"
            not_fitted(f"{caller}: this {kind} instance is not fitted yet: call fit() first; {hint}")
        return self._output_meaning

    def _outputs(self, inputs: Tensor, batch_size: int) -> Tensor:
        """Returns the model's outputs for all examples: values, or the logits of the existing
        classes.
        """
        batch_size, was_training = _setting(type(self).__name__, "batch_size", batch_size, 1), self.training
        self.eval()
        try:
            with no_grad():
                return cat([self._class_outputs(self(inputs[first : first + batch_size])) for first in range(0, max(len(inputs), 1), batch_size)])
        finally:
            self.train(was_training)

    def _class_outputs(self, outputs: Tensor) -> Tensor:
        classes = None if self._output_meaning is None else self._output_meaning.classes
        return outputs if classes is None or len(classes) == outputs.shape[1] else outputs[:, : len(classes)]

    def _loss(self, outputs: Tensor, targets: Tensor, meaning: _OutputMeaning, weights: Tensor | None = None) -> Tensor:
        is_regression = meaning.classes is None
        loss = nn.functional.mse_loss if is_regression else nn.functional.cross_entropy
        if weights is None:
            return loss(outputs, targets)
        losses = loss(outputs, targets, reduction="none")
        # A batch whose weights are all 0 has no gradient.
        return ((losses.mean(1) if is_regression else losses) * weights).sum() / weights.sum().clamp(min=1e-30)

    # ---- scikit-learn's conventions

    @property
    def loss_curve_(self) -> list[float]:
        """The loss of each epoch of the last `fit`."""
        losses = self.history.get("loss")
        if not losses:
            raise AttributeError(f"this {type(self).__name__} has made no epoch yet: call fit() first")
        return losses

    @property
    def loss_(self) -> float:
        """The loss of the last epoch."""
        return self.loss_curve_[-1]

    @property
    def _estimator_type(self) -> str:
        if self._output_meaning is not None:
            return "regressor" if self._output_meaning.classes is None else "classifier"
        if self.task != "auto":
            return "regressor" if self.task == "regression" else "classifier"
        # Before it is fitted: the more likely task.
        return "regressor" if self.widths[-1] == 1 else "classifier"

    @property
    def _is_fitted(self) -> bool:
        return self._output_meaning is not None

    def _on_params_changed(self, changed: set[str]) -> None:
        if changed & {"widths", "device"}:
            self._build()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Loads weights like `Module.load_state_dict`. A model whose `task` is given is then
        fitted, with the classes 0, 1, ...
        """
        loaded = super().load_state_dict(state_dict, strict, assign)
        outputs = int(self.widths[-1])
        if self._output_meaning is None and self.task != "auto":
            classes = np.arange(outputs) if self.task == "classification" else None
            self._start_training(None, _OutputMeaning(classes, outputs == 1))
        return loaded

    def __getstate__(self) -> dict[str, Any]:
        # The moments of partial_fit are not saved: the next call starts with new ones.
        return {**self.__dict__, "_partial": None}


def _is_integer(value: Any, minimum: int) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= minimum


def _setting(model: str, name: str, value: Any, minimum: int) -> int:
    if not _is_integer(value, minimum):
        raise ValueError(f"{model}: {name} {value!r}, expected an integer, at least {minimum}")
    return int(value)


def _bool_setting(model: str, name: str, value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)):
        raise ValueError(f"{model}: {name} {value!r}, expected True or False")
    return bool(value)


def _verbose(model: str, value: Any) -> Any:
    """Checks `verbose`: None, a bool or, as in scikit-learn, a verbosity level."""
    if value is not None and not isinstance(value, (bool, np.bool_)) and not _is_integer(value, 0):
        raise ValueError(f"{model}: verbose {value!r}, expected True or False")
    return value


def _default_epochs(count: int, batch_size: int) -> int:
    """Returns enough epochs for the steps that a small table needs, but only a few for a large set
    of images.
    """
    return min(max(-(-_DEFAULT_STEPS // -(-count // batch_size)), _EPOCHS[0]), _EPOCHS[1])


def _is_called_by_scikit_learn() -> bool:
    """Returns whether `fit` was called by a function of scikit-learn, such as cross_val_score,
    which makes many such calls.
    """
    frame: Any = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ternion":
        frame = frame.f_back
    return frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in ("sklearn", "joblib")


def _rate(model: str, value: Any) -> float:
    if not isinstance(value, Real) or isinstance(value, bool) or not 0 < float(value) < math.inf:
        raise ValueError(f"{model}: learning_rate {value!r}, expected a number above 0")
    return float(value)


def _pair(validation_data: Any) -> tuple[Any, Any]:
    if not isinstance(validation_data, (tuple, list)) or len(validation_data) != 2:
        shape = getattr(validation_data, "shape", None)
        described = f" of shape {tuple(shape)}" if shape is not None else f" with {len(validation_data)} parts" if hasattr(validation_data, "__len__") else ""
        raise ValueError(f"fit: validation_data is one {type(validation_data).__name__}{described}, expected a pair (X, y)")
    return validation_data[0], validation_data[1]


def _order_generator(seed: int | None) -> np.random.Generator:
    """Returns the generator for the order of the examples. It is local, so that a seed has the same
    effect whatever other threads draw.
    """
    return np.random.default_rng(int(randint(0, 2**31 - 1, (1,), device="cpu").item()) if seed is None else seed)


def _r2(predicted: Any, targets: Any) -> float:
    """Returns the mean over the outputs of `1 - residual / spread`. For a constant output it is 1
    if the output is matched and 0 otherwise, as in scikit-learn.
    """
    if len(targets) < 2:
        return math.nan
    residual, total = ((targets - predicted) ** 2).sum(0), ((targets - targets.mean(0)) ** 2).sum(0)
    constant = np.where(residual == 0, 1.0, 0.0)
    return float(np.where(total > 0, 1 - residual / np.where(total > 0, total, 1.0), constant).mean())
