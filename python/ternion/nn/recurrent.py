"""Recurrent layers, which process a sequence one element at a time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .. import _ternion
from .._ternion import Tensor
from .._warnings import warn_caller
from . import functional as F
from ._initialization import reset_uniform, uniform
from .module import Module
from .utils.rnn import PackedSequence, _repack, _unpack

# A padded batch gives a padded batch, packed sequences give packed sequences.
Sequences = TypeVar("Sequences", Tensor, PackedSequence)


def _lstm_step(x, recur, states):
    insert, forget, cell, out = (x + recur(states[0])).chunk(4, 1)
    inner = forget.sigmoid() * states[1] + insert.sigmoid() * cell.tanh()
    return [out.sigmoid() * inner.tanh(), inner]


def _gru_step(x, recur, states):
    x_reset, x_update, x_new = x.chunk(3, 1)
    h_reset, h_update, h_new = recur(states[0]).chunk(3, 1)
    update = (x_update + h_update).sigmoid()
    new = (x_new + (x_reset + h_reset).sigmoid() * h_new).tanh()
    # Equal to (1 - update) * new + update * old.
    return [new + update * (states[0] - new)]


def _simple_step(nonlinearity, x, recur, states):
    total = x + recur(states[0])
    return [total.relu() if nonlinearity == "relu" else total.tanh()]


def _check_nonlinearity(name, nonlinearity):
    if nonlinearity not in ("tanh", "relu"):
        raise ValueError(f"{name}: nonlinearity {nonlinearity!r}, expected \"tanh\" or \"relu\"")


class _Recurrent(Module):
    """Base class of multi-layer recurrent networks. Cells differ in the number of gates and states.
    """

    _gates = 0
    _states = 0

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, proj_size: int = 0, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        name = type(self).__name__
        if num_layers < 1 or hidden_size < 1:
            raise ValueError(f"{name}: {num_layers} layers of width {hidden_size}, expected at least 1 each")
        if dropout and num_layers == 1:
            warn_caller(f"{name}: dropout={dropout} of one layer drops nothing: it is between layers, expected num_layers of at least 2")
        if not 0 <= dropout <= 1:
            raise ValueError(f"{name}: dropout {dropout}, expected 0 to 1")
        if proj_size:
            raise ValueError(f"{name}: proj_size {proj_size}, expected 0: projections of the outputs are not supported")
        self.input_size, self.hidden_size, self.num_layers, self.bias = input_size, hidden_size, num_layers, bias
        self.batch_first, self.dropout, self.bidirectional = batch_first, float(dropout), bidirectional
        bound, rows = 1 / math.sqrt(hidden_size), self._gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self._directions
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", uniform((rows, inputs), bound, device, dtype))
                setattr(self, f"weight_hh_{suffix}", uniform((rows, hidden_size), bound, device, dtype))
                for part in ("ih", "hh") if bias else ():
                    setattr(self, f"bias_{part}_{suffix}", uniform((rows,), bound, device, dtype))

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        for parameter in self.parameters():
            reset_uniform(parameter, 1 / math.sqrt(self.hidden_size))

    @property
    def _directions(self):
        return 2 if self.bidirectional else 1

    @property
    def all_weights(self) -> list[list[Any]]:
        """The parameters per layer and direction: input weight, hidden weight, then the biases if
        there are any.
        """
        kinds = ("weight_ih", "weight_hh", "bias_ih", "bias_hh") if self.bias else ("weight_ih", "weight_hh")
        suffixes = [suffix for layer in range(self.num_layers) for suffix in self._suffixes(layer)]
        return [[getattr(self, f"{kind}_{suffix}") for kind in kinds] for suffix in suffixes]

    def _suffixes(self, layer):
        return [f"l{layer}", f"l{layer}_reverse"][: self._directions]

    def _step(self, x: Tensor, recur: Any, states: list[Tensor]) -> list[Tensor]:
        """Computes the new states, of which the first is the output, from the projected input and
        the old states.
        """
        raise NotImplementedError

    def flatten_parameters(self) -> None:
        """Accepted for compatibility with PyTorch. Does nothing."""

    def _run_direction(self, suffix, input, states, reverse, active):
        """Processes a sequence [batch, length, inputs]. Returns outputs [batch, length, width] in
        its order, and the last states.

        For each step, `running` is None or marks the sequences that have an element at that step.
        The states of the others stay unchanged.
        """
        attributes = self.__dict__
        weight, bias = attributes[f"weight_hh_{suffix}"], attributes.get(f"bias_hh_{suffix}")
        # Projects the inputs of all steps in one matrix product.
        steps = F.linear(input, attributes[f"weight_ih_{suffix}"], attributes.get(f"bias_ih_{suffix}")).unbind(1)

        def recur(state):
            return F.linear(state, weight, bias)

        outputs, order = [], range(len(steps))
        for index in reversed(order) if reverse else order:
            previous, states = states, self._step(steps[index], recur, states)
            if active is not None and active[index] is not None:
                states = [_ternion.where(active[index], state, old) for state, old in zip(states, previous)]
            outputs.append(states[0])
        return _ternion.stack(outputs[::-1] if reverse else outputs, 1), states

    def _run(self, input, states, active=None):
        """Runs all layers over [batch, length, inputs]. States are
        [layers * directions, batch, width].
        """
        last: list[list[Tensor]] = []
        for layer in range(self.num_layers):
            if layer > 0:
                input = F.dropout(input, self.dropout, self.training)
            outputs = []
            for direction, suffix in enumerate(self._suffixes(layer)):
                first = [state[layer * self._directions + direction] for state in states]
                output, end = self._run_direction(suffix, input, first, direction == 1, active)
                outputs.append(output)
                last.append(end)
            input = outputs[0] if len(outputs) == 1 else _ternion.cat(outputs, -1)
        return input, [_ternion.stack([states[index] for states in last]) for index in range(self._states)]

    def _forward_any(self, input, initial):
        """Returns outputs and last states for the inputs that `forward` accepts: a batch, a
        sequence without a batch axis, or packed sequences.
        """
        name = type(self).__name__
        if isinstance(input, PackedSequence):
            return self._forward_packed(input, initial)
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: an input of type {type(input).__name__}, expected a tensor or a PackedSequence")
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise ValueError(f"{name}: an input of shape {tuple(input.shape)}, expected 2 or 3 axes, the last of {self.input_size}")
        is_single = input.ndim == 2
        batches = input.unsqueeze(0) if is_single else input if self.batch_first else input.transpose(0, 1)
        if batches.shape[1] == 0:
            raise ValueError(f"{name}: a sequence of length 0, expected at least 1")
        if initial is not None and is_single:
            initial = [state.unsqueeze(1) for state in initial]
        output, last = self._run(batches, self._initial_states(batches, initial))
        if is_single:
            return output.squeeze(0), [state.squeeze(1) for state in last]
        return output if self.batch_first else output.transpose(0, 1), last

    def _forward_packed(self, packed, initial):
        """Runs packed sequences, which are padded internally. States are in the original order of
        the sequences.
        """
        if packed.data.ndim != 2 or packed.data.shape[-1] != self.input_size:
            shape = tuple(packed.data.shape)
            raise ValueError(f"{type(self).__name__}: packed data of shape {shape}, expected 2 axes, the last of {self.input_size}")
        batches, has_element = _unpack(packed)
        active = [None if row.all() else _ternion.tensor(row[:, None].tolist(), device=batches.device) for row in has_element]
        states = self._initial_states(batches, initial)
        if initial is not None and packed.sorted_indices is not None:
            states = [state.index_select(1, packed.sorted_indices) for state in states]
        output, last = self._run(batches, states, active)
        if packed.unsorted_indices is not None:
            last = [state.index_select(1, packed.unsorted_indices) for state in last]
        return _repack(packed, output, has_element), last

    def _initial_states(self, batches, initial):
        """Returns the initial states for [batch, length, inputs]: zeros if none are given."""
        shape = (self.num_layers * self._directions, batches.shape[0], self.hidden_size)
        if initial is None:
            zeros = _ternion.zeros(shape, dtype=batches.dtype, device=batches.device)
            return [zeros] * self._states
        for state in initial:
            if tuple(state.shape) != shape:
                raise ValueError(f"{type(self).__name__}: a state of shape {tuple(state.shape)}, expected {shape}")
        return list(initial)

    def extra_repr(self) -> str:
        defaults = {"num_layers": 1, "bias": True, "batch_first": False, "dropout": 0, "bidirectional": False}
        settings = [f"{name}={getattr(self, name)}" for name, value in defaults.items() if getattr(self, name) != value]
        return ", ".join([f"{self.input_size}, {self.hidden_size}", *settings])


class LSTM(_Recurrent):
    """Long short-term memory (Hochreiter and Schmidhuber 1997; with the forget gate of Gers et al.
    2000).

    The rows of the weights are those of the input, forget, cell and output gates, in this order.

    Shapes: [length, batch, input_size] -> [length, batch, directions * hidden_size], and the states
    `(h_n, c_n)`; see `forward`

    Args:
        num_layers: the number of stacked layers.
        batch_first: whether inputs are [batch, length, input_size].
        dropout: the dropout probability between two layers, in training.
        bidirectional: whether to process the sequence from its end as well.

    Raises:
        ValueError: If there is less than 1 layer or column, `dropout` is outside 0 to 1, or
            `proj_size` is not 0; when called, if the shapes do not match or a sequence has length
            0.
        TypeError: When called, if the input is neither a tensor nor a `PackedSequence`, or `hx` is
            not a pair.
    """

    _gates, _states = 4, 2

    def forward(self, input: Sequences, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Sequences, tuple[Tensor, Tensor]]:
        """Returns the outputs of the last layer, and the hidden and cell states of every layer
        after the last element: `output, (h_n, c_n)`.

        Shapes: [length, batch, input_size], with `batch_first` [batch, length, input_size], or
        [length, input_size] -> the same with directions * hidden_size; states
        [layers * directions, batch, hidden_size], without the batch axis if the input has none. For
        a `PackedSequence` the outputs are packed as well.

        Args:
            hx: hidden and cell states before the first element; 0 by default.
        """
        _check_pair("LSTM", hx)
        output, (h_n, c_n) = self._forward_any(input, hx)
        return output, (h_n, c_n)

    if TYPE_CHECKING:
        # Type checkers cannot infer the call of a module whose `forward` has a separate type for
        # each kind of input.
        def __call__(self, input: Sequences, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Sequences, tuple[Tensor, Tensor]]: ...  # type: ignore[override]

    def _step(self, x, recur, states):
        return _lstm_step(x, recur, states)


class _SingleStateRNN(_Recurrent):
    """Base class of `GRU` and `RNN`."""

    _states = 1

    def forward(self, input: Sequences, hx: Tensor | None = None) -> tuple[Sequences, Tensor]:
        """Returns the outputs of the last layer, and the hidden states of every layer after the
        last element: `output, h_n`.

        Shapes and the initial state are as in `LSTM`.
        """
        _check_state(type(self).__name__, hx)
        output, (h_n,) = self._forward_any(input, None if hx is None else [hx])
        return output, h_n

    if TYPE_CHECKING:

        def __call__(self, input: Sequences, hx: Tensor | None = None) -> tuple[Sequences, Tensor]: ...  # type: ignore[override]


class GRU(_SingleStateRNN):
    """Gated recurrent units (Cho et al. 2014, with the reset gate after the product). The rows of
    the weights are those of the reset, update and new gates.

    Shapes: [length, batch, input_size] -> [length, batch, directions * hidden_size], and the states
    `h_n`; see `LSTM` for these and for the arguments

    Raises:
        ValueError: If there is less than 1 layer or column, or `dropout` is outside 0 to 1; when
            called, if the shapes do not match or a sequence has length 0.
        TypeError: When called, if the input is neither a tensor nor a `PackedSequence`, or `hx` is
            not a tensor.
    """

    _gates = 3

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True, batch_first: bool = False, dropout: float = 0.0,
        bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)

    def _step(self, x, recur, states):
        return _gru_step(x, recur, states)


class RNN(_SingleStateRNN):
    """Elman network (Elman 1990): `tanh(W_ih x + b_ih + W_hh h + b_hh)`.

    Shapes: [length, batch, input_size] -> [length, batch, directions * hidden_size], and the states
    `h_n`; see `LSTM` for these and for the arguments

    Args:
        nonlinearity: "tanh" or "relu".

    Raises:
        ValueError: If there is less than 1 layer or column, `dropout` is outside 0 to 1, or the
            nonlinearity is unknown; when called, if the shapes do not match or a sequence has
            length 0.
        TypeError: When called, if the input is neither a tensor nor a `PackedSequence`, or `hx` is
            not a tensor.
    """

    _gates = 1

    def __init__(
        self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh", bias: bool = True,
        batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None, dtype: Any = None,
    ):  # fmt: skip
        _check_nonlinearity("RNN", nonlinearity)
        super().__init__(input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, x, recur, states):
        return _simple_step(self.nonlinearity, x, recur, states)

def _check_pair(name, hx):
    if hx is not None and (not isinstance(hx, (tuple, list)) or len(hx) != 2):
        raise TypeError(f"{name}: hx, expected a pair of tensors: outputs and cells")


def _check_state(name, hx):
    if hx is not None and not isinstance(hx, Tensor):
        raise TypeError(f"{name}: hx is of type {type(hx).__name__}, expected a tensor")


class _Cell(Module):
    """Base class of single steps of a recurrent layer."""

    _gates = 1
    _states = 1

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None):
        if hidden_size < 1:
            raise ValueError(f"{type(self).__name__}: width {hidden_size}, expected at least 1")
        self.input_size, self.hidden_size, self.bias = input_size, hidden_size, bias
        bound, rows = 1 / math.sqrt(hidden_size), self._gates * hidden_size
        self.weight_ih = uniform((rows, input_size), bound, device, dtype)
        self.weight_hh = uniform((rows, hidden_size), bound, device, dtype)
        for name in ("bias_ih", "bias_hh"):
            self.register_parameter(name, uniform((rows,), bound, device, dtype) if bias else None)

    def reset_parameters(self) -> None:
        """Reinitializes the parameters."""
        for parameter in self.parameters():
            reset_uniform(parameter, 1 / math.sqrt(self.hidden_size))

    def _step(self, x: Tensor, recur: Any, states: list[Tensor]) -> list[Tensor]:
        """Computes the new states from the projected input and the old states."""
        raise NotImplementedError

    def _next_states(self, input: Any, initial: Sequence[Tensor] | None) -> list[Tensor]:
        """Returns the states after an element. They have no batch axis if the element has none."""
        name, attributes = type(self).__name__, self.__dict__
        if not isinstance(input, Tensor):
            raise TypeError(f"{name}: an input of type {type(input).__name__}, expected a tensor")
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise ValueError(f"{name}: an input of shape {tuple(input.shape)}, expected 1 or 2 axes, the last of {self.input_size}")
        shape = (*input.shape[:-1], self.hidden_size)
        states = [_ternion.zeros(shape, dtype=input.dtype, device=input.device)] * self._states if initial is None else list(initial)
        for state in states:
            if tuple(state.shape) != shape:
                raise ValueError(f"{name}: a state of shape {tuple(state.shape)}, expected {shape}")
        is_single = input.ndim == 1
        if is_single:
            input, states = input.unsqueeze(0), [state.unsqueeze(0) for state in states]
        x = F.linear(input, self.weight_ih, attributes["bias_ih"])
        following = self._step(x, lambda state: F.linear(state, self.weight_hh, attributes["bias_hh"]), states)
        return [state.squeeze(0) for state in following] if is_single else following

    def extra_repr(self) -> str:
        bias = "" if self.bias else ", bias=False"
        nonlinearity = self.__dict__.get("nonlinearity", "tanh")
        return f"{self.input_size}, {self.hidden_size}{bias}" + (f", nonlinearity={nonlinearity}" if nonlinearity != "tanh" else "")


class LSTMCell(_Cell):
    """One step of `LSTM`, with the same row order of the weights and the same equations.

    Shapes: [batch, input_size], states `(h, c)` [batch, hidden_size] each -> `(h, c)`; the batch
    axis is optional in all of them

    Raises:
        ValueError: If there is less than 1 column; when called, if the shapes do not match.
        TypeError: When called, if the input is not a tensor, or `hx` is not a pair.
    """

    _gates, _states = 4, 2

    def forward(self, input: Tensor, hx: tuple[Tensor, Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Returns hidden and cell state after an element. The states before it are `hx`, 0 by
        default.
        """
        _check_pair("LSTMCell", hx)
        output, cell = self._next_states(input, hx)
        return output, cell

    def _step(self, x, recur, states):
        return _lstm_step(x, recur, states)


class _SingleStateCell(_Cell):
    """Base class of `GRUCell` and `RNNCell`."""

    def forward(self, input: Tensor, hx: Tensor | None = None) -> Tensor:
        """Returns the hidden state after an element. The state before it is `hx`, 0 by default."""
        _check_state(type(self).__name__, hx)
        (output,) = self._next_states(input, None if hx is None else [hx])
        return output


class GRUCell(_SingleStateCell):
    """One step of `GRU`, with the same row order of the weights and the same equations.

    Shapes: [batch, input_size], state [batch, hidden_size] -> [batch, hidden_size]; the batch axis
    is optional in all of them

    Raises:
        ValueError: If there is less than 1 column; when called, if the shapes do not match.
        TypeError: When called, if the input is not a tensor.
    """

    _gates = 3

    def _step(self, x, recur, states):
        return _gru_step(x, recur, states)


class RNNCell(_SingleStateCell):
    """One step of `RNN`.

    Shapes: [batch, input_size], state [batch, hidden_size] -> [batch, hidden_size]; the batch axis
    is optional in all of them

    Args:
        nonlinearity: "tanh" or "relu".

    Raises:
        ValueError: If there is less than 1 column, or the nonlinearity is unknown; when called, if
            the shapes do not match.
        TypeError: When called, if the input is not a tensor.
    """

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, nonlinearity: str = "tanh", device: Any = None, dtype: Any = None
    ):
        _check_nonlinearity("RNNCell", nonlinearity)
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = nonlinearity

    def _step(self, x, recur, states):
        return _simple_step(self.nonlinearity, x, recur, states)


# PyTorch's names of the base classes of recurrent layers and cells, for `isinstance`.
RNNBase, RNNCellBase = _Recurrent, _Cell
RNNBase.__name__ = RNNBase.__qualname__ = "RNNBase"
RNNCellBase.__name__ = RNNCellBase.__qualname__ = "RNNCellBase"
