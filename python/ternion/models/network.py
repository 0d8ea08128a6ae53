"""The oldest interface: a network with one hidden layer, and `fit`, `predict` and `evaluate`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._ternion import Tensor
from . import _examples as examples
from .mlp import MLP, _OutputMeaning, _is_integer, _verbose

if TYPE_CHECKING:
    from typing_extensions import Self

    Array = np.ndarray[Any, Any]

_COLUMNS = ("epoch", "loss", "accuracy", "validation loss", "validation accuracy", "seconds")


class NeuralNetwork(MLP):
    """A classifier with one hidden layer and ReLU: `NeuralNetwork(784, 128, 10,
    batch_size=64)`. `predict` returns probabilities, `evaluate` the accuracy.

        network = models.NeuralNetwork(784, 128, 10)
        network.fit(images, labels, epochs=5, validation_data=(test_images, test_labels))
        network.predict(test_images).argmax(1)
        network.evaluate(test_images, test_labels)

    `fit` prints a table with a row for each epoch.

    Args:
        input_size, hidden_size, output_size: The number of features, of units in the hidden layer,
            and of classes.
        batch_size, epochs, learning_rate, verbose, random_state, device: As in `MLP`.
            `verbose=False` prints no table.

    Raises:
        ValueError: If a size is not a positive integer, or if there are fewer than two classes.
    """

    def __init__(
        self, input_size: int = 784, hidden_size: int = 128, output_size: int = 10, batch_size: int = 64, *, epochs: int | None = None,
        learning_rate: float = 1e-3, verbose: bool = True, random_state: Any = None, device: Any = None,
    ):  # fmt: skip
        self.input_size, self.hidden_size, self.output_size = input_size, hidden_size, output_size
        super().__init__(
            widths=(input_size, hidden_size, output_size), task="classification", epochs=epochs, batch_size=batch_size,
            learning_rate=learning_rate, verbose=verbose, random_state=random_state, device=device,
        )  # fmt: skip

    def _build(self) -> None:
        sizes = {"input_size": self.input_size, "hidden_size": self.hidden_size, "output_size": self.output_size}
        for name, size in sizes.items():
            if not _is_integer(size, 1):
                raise ValueError(f"{type(self).__name__}: {name} {size!r}, expected an integer above 0")
        if self.output_size == 1:
            raise ValueError(f"{type(self).__name__}: output_size 1, expected an output for each of at least 2 classes")
        super()._build()

    def _on_params_changed(self, changed: set[str]) -> None:
        if changed & {"input_size", "hidden_size", "output_size"}:
            self.widths = (self.input_size, self.hidden_size, self.output_size)
            changed = changed | {"widths"}
        super()._on_params_changed(changed)

    def fit(
        self, X: Any, y: Any = None, epochs: int | None = None, batch_size: int | None = None, learning_rate: float | None = None,
        validation_data: tuple[Any, Any] | None = None, verbose: bool | None = None, seed: Any = None, optimizer: Any = None,
        sample_weight: Any = None,
    ) -> Self:  # fmt: skip
        """Fits the model to the labels `y` of the examples `X`, prints a table, and returns the
        model. Arguments and errors are those of `MLP.fit`.

        Labels are output indices: integers from 0 to below `output_size`, [examples], some of which
        may not occur. One-hot rows [examples, output_size] and rows of probabilities, such as
        smoothed labels, are accepted, too; and bools if there are two outputs.

        Raises:
            ValueError: If there are other labels: their probabilities would be at other indices.
        """
        shown = bool(_verbose(type(self).__name__, self.verbose if verbose is None else verbose))
        self._table = _EpochTable() if shown else None
        try:
            return super().fit(X, y, epochs, batch_size, learning_rate, validation_data, False, seed, optimizer, sample_weight)
        finally:
            del self._table

    def _epoch(self, data: Any, validation: Any, size: Any, optimizer: Any, order: Any, line: Any) -> None:
        start = time.monotonic()
        super()._epoch(data, validation, size, optimizer, order, line)
        table = getattr(self, "_table", None)
        if table is not None:
            results = {name: values[-1] for name, values in self.history.items()}
            table.row({"epoch": self.n_iter_, "accuracy": self._measure(data, 1024)["accuracy"], "seconds": time.monotonic() - start, **results})

    def _infer_output_meaning(self, y: Any, caller: str) -> _OutputMeaning:
        """Checks that the outputs represent the labels 0, 1, .., so that `predict` returns the
        probability of each label at its index.
        """
        if examples.are_probabilities(y, int(self.output_size), caller):
            return super()._infer_output_meaning(y, caller)
        found_labels, meaning = examples.labels(y, caller), super()._infer_output_meaning(y, caller)
        if found_labels.dtype.kind == "b" and self.output_size == 2:
            return _OutputMeaning(np.array([False, True]), True)
        examples.check_class_indices(found_labels, int(self.output_size), caller)
        return meaning

    def predict(self, X: Any, batch_size: int = 1024) -> Array:
        """Returns the probability of each class for each example, [examples, output_size], as a
        NumPy array. Raises the errors of `MLP.predict`.
        """
        return self._probabilities(X, batch_size, "predict")

    def predict_classes(self, X: Any, batch_size: int = 1024) -> Array:
        """Returns the label of each example. Raises the errors of `MLP.predict`."""
        return self._predict(X, batch_size, "predict_classes")

    def evaluate(self, X: Any, y: Any, batch_size: int = 1024) -> float:  # type: ignore[override]
        """Returns the fraction of the examples whose most probable class is correct. Raises the
        errors of `MLP.evaluate`.
        """
        return super().evaluate(X, y, batch_size)["accuracy"]

    def score(self, X: Any, y: Any) -> float:
        """Returns the accuracy, as `evaluate` does."""
        return self._evaluate(X, y, 1024, "score")["accuracy"]

    def forward(self, x: Tensor) -> Tensor:
        """Maps [batch, ..] to logits [batch, output_size]. All axes after the first are flattened.
        """
        return super().forward(x)


class _EpochTable:
    """A table on stdout to which a row is added for each epoch."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def row(self, values: dict[str, float]) -> None:
        if not self._columns:
            self._columns = [name for name in _COLUMNS if name in values]
            self._write(self._columns)
            self._write(["-" * len(name) for name in self._columns])
        cells = [f"{values[name]:.0f}" if name == "epoch" else f"{values[name]:.2f}" if name == "seconds" else f"{values[name]:.4f}" for name in self._columns]
        self._write([f"{cell:>{len(name)}}" for name, cell in zip(self._columns, cells)])

    @staticmethod
    def _write(cells: list[str]) -> None:
        # A program without a console has no stdout.
        if sys.stdout is not None:
            print("  ".join(cells), flush=True)
