"""The oldest interface: a network of one hidden layer with `fit`, `predict` and `evaluate`."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from .._ternion import Tensor
from . import _examples as examples
from .mlp import MLP, _is_whole, _Learned, _verbose

if TYPE_CHECKING:
    from typing_extensions import Self

    Array = np.ndarray[Any, Any]

_COLUMNS = ("epoch", "loss", "accuracy", "validation loss", "validation accuracy", "seconds")


class NeuralNetwork(MLP):
    """A classifier of one hidden layer with ReLU: `NeuralNetwork(784, 128, 10, batch_size=64)`. `predict` gives probabilities, `evaluate` the accuracy.

        network = models.NeuralNetwork(784, 128, 10).fit(images, labels, epochs=5, validation_data=(test_images, test_labels))
        network.predict(test_images).argmax(1)
        network.evaluate(test_images, test_labels)

    `fit` prints a table with a row for each epoch.

    Args:
        input_size, hidden_size, output_size: numbers of an example, units of the hidden layer, classes.
        batch_size, epochs, learning_rate, verbose, random_state, device: as of `MLP`; `verbose=False` prints no table.

    Raises:
        ValueError: sizes that are no whole numbers above 0, fewer than two classes.
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
            if not _is_whole(size, 1):
                raise ValueError(f"{type(self).__name__}: {name} {size!r}, expected a whole number above 0")
        if self.output_size == 1:
            raise ValueError(f"{type(self).__name__}: output_size 1, expected an output for each of at least 2 classes")
        super()._build()

    def _parameters_set(self, changed: set[str]) -> None:
        if changed & {"input_size", "hidden_size", "output_size"}:
            self.widths = (self.input_size, self.hidden_size, self.output_size)
            changed = changed | {"widths"}
        super()._parameters_set(changed)

    def fit(
        self, X: Any, y: Any = None, epochs: int | None = None, batch_size: int | None = None, learning_rate: float | None = None,
        validation_data: tuple[Any, Any] | None = None, verbose: bool | None = None, seed: Any = None, optimizer: Any = None,
        sample_weight: Any = None,
    ) -> Self:  # fmt: skip
        """Learns the labels `y` of the examples `X`, and prints a table; the model itself. Arguments and errors are those of `MLP.fit`.

        Labels are whole numbers from 0 to below `output_size`, the places of the outputs, [examples], some of which may not occur; or rows with a 1 at the class,
        [examples, output_size], or of probabilities, as of smoothed labels; where there are two outputs, bools.

        Raises:
            ValueError: other labels: their probabilities would stand at other places.
        """
        shown = bool(_verbose(type(self).__name__, self.verbose if verbose is None else verbose))
        self._table = _Table() if shown else None
        try:
            return super().fit(X, y, epochs, batch_size, learning_rate, validation_data, False, seed, optimizer, sample_weight)
        finally:
            del self._table

    def _epoch(self, data: Any, tested: Any, size: Any, optimizer: Any, order: Any, line: Any) -> None:
        begun = time.monotonic()
        super()._epoch(data, tested, size, optimizer, order, line)
        table = getattr(self, "_table", None)
        if table is not None:
            told = {name: values[-1] for name, values in self.history.items()}
            table.row({"epoch": self.n_iter_, "accuracy": self._measured(data, 1024)["accuracy"], "seconds": time.monotonic() - begun, **told})

    def _outputs_mean(self, y: Any, what: str) -> _Learned:
        """That the outputs stand for the labels 0, 1, .., so that `predict` has the probability of each at its place."""
        if examples.are_probabilities(y, int(self.output_size), what):
            return super()._outputs_mean(y, what)
        found, learned = examples.labels(y, what), super()._outputs_mean(y, what)
        if found.dtype.kind == "b" and self.output_size == 2:
            return _Learned(np.array([False, True]), True)
        examples.check_are_places(found, int(self.output_size), what)
        return learned

    def predict(self, X: Any, batch_size: int = 1024) -> Array:
        """For each example the probability of each class, [examples, output_size]; an array of NumPy. Raises as `MLP.predict`."""
        return self._probabilities(X, batch_size, "predict")

    def predict_classes(self, X: Any, batch_size: int = 1024) -> Array:
        """For each example its label. Raises as `MLP.predict`."""
        return self._predicted(X, batch_size, "predict_classes")

    def evaluate(self, X: Any, y: Any, batch_size: int = 1024) -> float:  # type: ignore[override]
        """The share of the examples whose most probable class is right. Raises as `MLP.evaluate`."""
        return super().evaluate(X, y, batch_size)["accuracy"]

    def score(self, X: Any, y: Any) -> float:
        """The accuracy, as `evaluate`."""
        return self._evaluated(X, y, 1024, "score")["accuracy"]

    def forward(self, x: Tensor) -> Tensor:
        """[batch, ..] -> logits [batch, output_size]; axes behind the first become one."""
        return super().forward(x)


class _Table:
    """A table on stdout that grows by a row for each epoch."""

    def __init__(self) -> None:
        self._columns: list[str] = []

    def row(self, told: dict[str, float]) -> None:
        if not self._columns:
            self._columns = [name for name in _COLUMNS if name in told]
            self._write(self._columns)
            self._write(["-" * len(name) for name in self._columns])
        cells = [f"{told[name]:.0f}" if name == "epoch" else f"{told[name]:.2f}" if name == "seconds" else f"{told[name]:.4f}" for name in self._columns]
        self._write([f"{cell:>{len(name)}}" for name, cell in zip(self._columns, cells)])

    @staticmethod
    def _write(cells: list[str]) -> None:
        # A program without a console has no stdout.
        if sys.stdout is not None:
            print("  ".join(cells), flush=True)
