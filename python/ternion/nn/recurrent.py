"""Layers that read a sequence one element after the other."""

from __future__ import annotations

import math
from typing import Any

from .. import _ternion
from .._ternion import Tensor
from . import functional as F
from .images import _uniform
from .module import Module


class _Recurrent(Module):
    """All layers of a recurrent network, whose cells differ in the number of gates and states."""

    _gates = 0
    _states = 0

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        name = type(self).__name__
        if num_layers < 1 or hidden_size < 1:
            raise ValueError(f"{name}: {num_layers} layers of width {hidden_size}, expected at least 1 each")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout {dropout}, expected 0 to 1")
        if proj_size:
            raise ValueError(f"{name}: proj_size {proj_size}, expected 0: projections of the outputs are not there")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        bound, rows = 1 / math.sqrt(hidden_size), self._gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self._directions
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", _uniform((rows, inputs), bound, device, dtype))
                setattr(self, f"weight_hh_{suffix}", _uniform((rows, hidden_size), bound, device, dtype))
                for part in ("ih", "hh") if bias else ():
                    setattr(self, f"bias_{part}_{suffix}", _uniform((rows,), bound, device, dtype))

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    def _suffixes(self, layer):
        return [f"l{layer}", f"l{layer}_reverse"][: self._directions]

    def _step(self, x: Tensor, recur: Any, states: list[Tensor]) -> list[Tensor]:
        """The new states, of which the first is the output, from an input times its weight and the old states."""
        raise NotImplementedError

    def _read(self, suffix, input, states, reverse):
        """A sequence [batch, length, inputs]: outputs [batch, length, width] in its order, and the last states."""
        own = self.__dict__
        weight, bias = own[f"weight_hh_{suffix}"], own.get(f"bias_hh_{suffix}")
        # The inputs of all steps in one product.
        steps = F.linear(input, own[f"weight_ih_{suffix}"], own.get(f"bias_ih_{suffix}")).unbind(1)

        def recur(state):
            return F.linear(state, weight, bias)

        outputs = []
        for x in reversed(steps) if reverse else steps:
            states = self._step(x, recur, states)
            outputs.append(states[0])
        return _ternion.stack(outputs[::-1] if reverse else outputs, 1), states

    def _run(self, input, states):
        """All layers over [batch, length, inputs]; states [layers * directions, batch, width]."""
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer > 0:
                input = F.dropout(input, self.dropout, self.training)
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                first = [state[layer * self._directions + direction] for state in states]
                output, end = self._read(suffix, input, first, direction == 1)
                outputs.append(output)
                last.append(end)
            input = outputs[0] if len(outputs) == 1 else _ternion.cat(outputs, -1)
        return input, [_ternion.stack([states[number] for states in last]) for number in range(self._states)]

    def _checked(self, input, given):
        """The input as [batch, length, inputs] and states for it, which begin at 0 if none are given."""
        name = type(self).__name__
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: an input of type {type(input).__name__}, expected a tensor")
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(f"{name}: an input of shape {tuple(input.shape)}, expected 2 or 3 axes, the last of {self.input_size}")
        is_single = input.ndim == 2
        if is_single:
            input = input.unsqueeze(0)
        elif not self.batch_first:
            input = input.transpose(0, 1)
        if input.shape[1] == 0:
            raise ValueError(f"{name}: a sequence of length 0, expected at least 1")
        shape = (self.num_layers * self._directions, input.shape[0], self.hidden_size)
        if given is None:
            zeros = _ternion.zeros(shape, dtype=input.dtype, device=input.device)
            return input, [zeros] * self._states
        states = [state.unsqueeze(1) if is_single else state for state in given]
        for state in states:
            if tuple(state.shape) != shape:
                raise ValueError(f"{name}: a state of shape {tuple(state.shape)}, expected {shape}")
        return input, states

    def _told(self, output, states, is_single):
        if is_single:
            return output.squeeze(0), [state.squeeze(1) for state in states]
        return output if self.batch_first else output.transpose(0, 1), states

    def extra_repr(self) -> str:
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, bias={self.bias}, batch_first={self.batch_first}, "
            f"dropout={self.dropout}, bidirectional={self.bidirectional}"
        )


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with the forget gate of Gers et al. 2000).

    Rows of the weights: input, forget, cell and output gate.

    Shapes: [length, batch, input_size] -> [length, batch, directions * hidden_size], and the states `(h_n, c_n)`; see `forward`

    Args:
        num_layers: layers one above the other.
        batch_first: whether inputs are [batch, length, input_size].
        dropout: in training, the probability that a number between two layers becomes 0.
        bidirectional: reads the sequence from its end, too.

    Raises:
        ValueError: less than 1 layer or column, a `dropout` outside 0 to 1, a `proj_size`; when called, shapes that do not fit, or a sequence of length 0.
        TypeError: when called, no tensor, or an `hx` that is no pair.
    """

    _gates, _states = 4, 2

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """Outputs of the last layer, and the outputs and cells of every layer after the last element: `output, (h_n, c_n)`.

        Shapes: [length, batch, input_size], with `batch_first` [batch, length, input_size], or [length, input_size] -> the same with
        directions * hidden_size; states [layers * directions, batch, hidden_size], without a batch if the input has none

        Args:
            hx: outputs and cells before the first element; 0 by default.
        """
        if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
            raise TypeError("LSTM: hx, expected a pair of tensors: outputs and cells")
        batches, states = self._checked(input, hx)
        outputs, last = self._run(batches, states)
        output, (h_n, c_n) = self._told(outputs, last, input.ndim == 2)
        return output, (h_n, c_n)

    def _step(self, x, recur, states):
        insert, forget, cell, out = (x + recur(states[0])).chunk(4, 1)
        inner = forget.sigmoid() * states[1] + insert.sigmoid() * cell.tanh()
        return [out.sigmoid() * inner.tanh(), inner]


class GRU(_Recurrent):
    """Gated recurrent units (Cho et al. 2014, with the reset gate behind the product). Rows of the weights: reset, update and new gate.

    Shapes: [length, batch, input_size] -> [length, batch, directions * hidden_size], and the states `h_n`; see `LSTM`, also for arguments

    Raises:
        ValueError: less than 1 layer or column, a `dropout` outside 0 to 1; when called, shapes that do not fit, or a sequence of length 0.
        TypeError: when called, no tensor, or an `hx` that is none.
    """

    _gates, _states = 3, 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def forward(self, input: Tensor, hx: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Outputs of the last layer, and the outputs of every layer after the last element: `output, h_n`.

        Shapes and the state before the first element are those of `LSTM`.
        """
        if hx is not None and not isinstance(hx, Tensor):
            raise TypeError(f"GRU: hx is of type {type(hx).__name__}, expected a tensor")
        batches, states = self._checked(input, None if hx is None else [hx])
        outputs, last = self._run(batches, states)
        output, (h_n,) = self._told(outputs, last, input.ndim == 2)
        return output, h_n

    def _step(self, x, recur, states):
        x_reset, x_update, x_new = x.chunk(3, 1)
        h_reset, h_update, h_new = recur(states[0]).chunk(3, 1)
        update = (x_update + h_update).sigmoid()
        new = (x_new + (x_reset + h_reset).sigmoid() * h_new).tanh()
        # (1 - update) new + update old.
        return [new + update * (states[0] - new)]
