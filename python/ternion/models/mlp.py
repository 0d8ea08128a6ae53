"""A model with the habits of scikit-learn: `fit`, `predict`, `evaluate`."""

from __future__ import annotations

import sys
import time
from typing import Any

from .. import nn, optim
from .._scopes import no_grad
from .._ternion import Tensor, as_tensor, float32, int64, manual_seed, randperm


class MLP(nn.Module):
    """Linear layers of these widths with ReLU between them: `MLP(784, 128, 10)`.

    With whole numbers as targets it is a classifier, with numbers that have a point a regression.
    """

    def __init__(self, *widths: int, device: Any = None):
        if len(widths) < 2:
            raise ValueError(f"MLP: widths {widths}, expected at least those of input and output")
        super().__init__()
        self.layers = [nn.Linear(inputs, outputs, device=device) for inputs, outputs in zip(widths, widths[1:])]
        self.history: dict[str, list[float]] = {}

    def forward(self, x: Tensor) -> Tensor:
        """[batch, ..] -> [batch, widths[-1]]; axes behind the first become one."""
        x = x.flatten(1)
        for layer in self.layers[:-1]:
            x = layer(x).relu()
        return self.layers[-1](x)

    # ---- fit, predict, evaluate

    def fit(
        self, X, y, epochs=5, batch_size=64, learning_rate=1e-3, validation_data=None, verbose=True, seed=None, optimizer=None
    ):  # fmt: skip
        """Learns `y` from `X`, arrays or tensors; the model itself.

        Args:
            epochs: how often every example is seen.
            batch_size: examples in a step.
            learning_rate: of AdamW, unless `optimizer` is given.
            validation_data: a pair (X, y) that is tested after each epoch.
            verbose: whether a line tells how it goes.
            seed: decides the order of the examples.

        Raises:
            ValueError: other numbers of examples, or numbers that are none.
        """
        inputs, targets = self._inputs(X), self._targets(y)
        if len(inputs) != len(targets):
            raise ValueError(f"fit: {len(inputs)} examples and {len(targets)} targets")
        if len(inputs) == 0 or batch_size < 1:
            raise ValueError(f"fit: {len(inputs)} examples in batches of {batch_size}")
        if seed is not None:
            manual_seed(seed)
        adam = optimizer or optim.AdamW(self.named_parameters(), lr=learning_rate)
        history = self.history = {"loss": []}
        self.train()
        for epoch in range(epochs):
            line = _Line(f"epoch {epoch + 1}/{epochs}", -(-len(inputs) // batch_size), verbose)
            history["loss"].append(self._learn(inputs, targets, batch_size, adam, line))
            told = {"loss": history["loss"][-1]}
            if validation_data is not None:
                told.update({f"validation {name}": value for name, value in self.evaluate(*validation_data).items()})
                for name, value in told.items():
                    if name != "loss":
                        history.setdefault(name, []).append(value)
                self.train()
            line.end(told)
        self.eval()
        return self

    def _learn(self, inputs, targets, batch_size, adam, line):
        """One pass over the examples; their mean loss."""
        order, total = randperm(len(inputs), device=inputs.device), 0.0
        for first in range(0, len(inputs), batch_size):
            chosen = order[first : first + batch_size]
            adam.zero_grad()
            loss = self._loss(self(inputs[chosen]), targets[chosen])
            loss.backward()
            adam.step()
            line.tell(loss)
            total += loss.item() * len(chosen)
        return total / len(inputs)

    def predict(self, X, batch_size=1024):
        """For each example the number of its class, or the value; an array of NumPy."""
        outputs = self._outputs(X, batch_size)
        if self._is_classifier():
            return outputs.argmax(1).cpu().numpy()
        return outputs.squeeze(1).cpu().numpy() if outputs.shape[1] == 1 else outputs.cpu().numpy()

    def predict_proba(self, X, batch_size=1024):
        """For each example the probability of each class; an array of NumPy."""
        return self._outputs(X, batch_size).softmax(1).cpu().numpy()

    def evaluate(self, X, y, batch_size=1024) -> dict[str, float]:
        """The mean loss, and the accuracy of a classifier, or R2 of a regression."""
        targets = self._targets(y)
        outputs = self._outputs(X, batch_size)
        with no_grad():
            told = {"loss": self._loss(outputs, targets).item()}
            if self._is_classifier():
                told["accuracy"] = (outputs.argmax(1) == targets).to(float32).mean().item()
            else:
                spread = (targets - targets.mean(0)).square().sum()
                told["r2"] = (1 - (outputs - targets).square().sum() / spread).item()
        return told

    def score(self, X, y) -> float:
        """The accuracy of a classifier, R2 of a regression."""
        told = self.evaluate(X, y)
        return told["accuracy"] if "accuracy" in told else told["r2"]

    # ---- What is given, as tensors

    def _device(self):
        return self.layers[0].weight.device

    def _inputs(self, X):
        return as_tensor(X).to(float32).to(self._device())

    def _targets(self, y):
        targets = as_tensor(y)
        self._classifies = not targets.is_floating_point()
        if self._classifies:
            return targets.to(int64).to(self._device())
        targets = targets.to(float32).to(self._device())
        return targets.unsqueeze(1) if targets.ndim == 1 else targets

    def _is_classifier(self):
        if not hasattr(self, "_classifies"):
            raise RuntimeError("the model has not seen targets yet: fit it first")
        return self._classifies

    def _loss(self, outputs, targets):
        loss = nn.functional.cross_entropy if self._is_classifier() else nn.functional.mse_loss
        return loss(outputs, targets)

    def _outputs(self, X, batch_size):
        from .._ternion import cat

        inputs, was_training = self._inputs(X), self.training
        self.eval()
        try:
            with no_grad():
                return cat([self(inputs[first : first + batch_size]) for first in range(0, len(inputs), batch_size)])
        finally:
            self.train(was_training)


class _Line:
    """A line that tells how far an epoch is; on a terminal while it goes, else at its end."""

    def __init__(self, what, steps, verbose):
        self.what, self.steps, self.verbose = what, steps, verbose
        self.done, self.begun, self.told = 0, time.monotonic(), 0.0

    def tell(self, loss):
        """Another step. The loss is read, which waits for the device, only when it is shown."""
        self.done += 1
        now = time.monotonic()
        if self.verbose and sys.stderr.isatty() and now - self.told > 0.2:
            self.told = now
            share = self.done / self.steps
            bar = "=" * int(30 * share) + ">"
            print(f"\r{self.what} [{bar:31}] {self.done}/{self.steps}  loss {loss.item():.4f}", end="", file=sys.stderr, flush=True)

    def end(self, told):
        if self.verbose:
            seconds = time.monotonic() - self.begun
            numbers = "  ".join(f"{name} {value:.4f}" for name, value in told.items())
            print(f"\r{self.what}  {numbers}  {self.done / max(seconds, 1e-9):.0f} steps/s", file=sys.stderr)
