"""Recurrent layers, step by step. ONNX's have other activations, peepholes, and a length per
sequence, which those of `nn` lack."""

import ternion

from .table import numbers, operator

ACTIVATIONS = {"Sigmoid": ternion.Tensor.sigmoid, "Tanh": ternion.Tensor.tanh, "Relu": ternion.Tensor.relu}


def _rnn_step(node, functions, x, h, c, w, r, b, p):
    """Computes `h = f(x W + h R + b)`."""
    bias = 0 if b is None else b.chunk(2)[0] + b.chunk(2)[1]
    return functions[0](x @ w.T + h @ r.T + bias), c


def _gru_step(node, functions, x, h, c, w, r, b, p):
    """Computes the gates z (update) and r (reset), then the new state. `linear_before_reset`
    determines whether the reset gate is applied to the state or to its product."""
    wz, wr, wh = (x @ part.T for part in w.chunk(3))
    rz, rr, rh = r.chunk(3)
    biases = [0] * 6 if b is None else b.chunk(6)
    update = functions[0](wz + h @ rz.T + biases[0] + biases[3])
    reset = functions[0](wr + h @ rr.T + biases[1] + biases[4])
    if node.attribute("linear_before_reset", 0):
        new = functions[1](wh + reset * (h @ rh.T + biases[5]) + biases[2])
    else:
        new = functions[1](wh + (reset * h) @ rh.T + biases[5] + biases[2])
    return (1 - update) * new + update * h, c


def _lstm_step(node, functions, x, h, c, w, r, b, p):
    """Computes the gates i (input), o (output), f (forget) and the new content of the cell. With
    peepholes `p`, the gates depend on the cell."""
    bias = 0 if b is None else b.chunk(2)[0] + b.chunk(2)[1]
    i, o, f, new = (x @ w.T + h @ r.T + bias).chunk(4, 1)
    peeps = [0, 0, 0] if p is None else p.chunk(3)
    i = functions[0](i + peeps[0] * c)
    f = functions[0](f + peeps[2] * c)
    cell = f * c + i * functions[1](new)
    return functions[0](o + peeps[1] * cell) * functions[2](cell), cell


def _direction(node, step, functions, x, h, c, parts, lengths, backward):
    """Runs one direction over [sequence, batch, input]. Returns the states of all steps, and the
    last ones."""
    rows = [None] * x.shape[0]
    for time in reversed(range(x.shape[0])) if backward else range(x.shape[0]):
        new, cell = step(node, functions, x[time], h, c, *parts)
        going = (lengths > time).reshape(-1, 1)
        rows[time] = ternion.where(going, new, 0.0)
        h, c = ternion.where(going, new, h), ternion.where(going, cell, c)
    return ternion.stack(rows), h, c


def _layer(node, step, defaults, x, w, r, b, lengths, h, c, p):
    """Runs all directions. Shapes: x [sequence, batch, input], or batch first with `layout` 1."""
    if node.attribute("clip") is not None:
        raise node.unsupported("attribute clip")
    names = node.attribute("activations", defaults * w.shape[0])
    if node.attribute("layout", 0):
        x = x.transpose(0, 1)
        h, c = (None if state is None else state.transpose(0, 1) for state in (h, c))
    batch, hidden = x.shape[1], node.attribute("hidden_size", r.shape[-1])
    lengths = ternion.full((batch,), x.shape[0]) if lengths is None else ternion.tensor(numbers(lengths))
    nothing = ternion.zeros(w.shape[0], batch, hidden, dtype=x.dtype)
    h, c = (nothing if state is None else state for state in (h, c))
    result = []
    for direction in range(w.shape[0]):
        functions = [ACTIVATIONS[name] for name in names[direction * len(defaults) :][: len(defaults)]]
        parts = [None if part is None else part[direction] for part in (w, r, b, p)]
        backward = direction == 1 or node.attribute("direction", "forward") == "reverse"
        result.append(_direction(node, step, functions, x, h[direction], c[direction], parts, lengths, backward))
    rows, h, c = (ternion.stack(states, axis) for states, axis in zip(zip(*result), (1, 0, 0)))
    if node.attribute("layout", 0):
        return rows.permute(2, 0, 1, 3), h.transpose(0, 1), c.transpose(0, 1)
    return rows, h, c


@operator("RNN")
def rnn(node, x, w, r, b=None, lengths=None, h=None):
    return _layer(node, _rnn_step, ["Tanh"], x, w, r, b, lengths, h, None, None)[:2]


@operator("GRU")
def gru(node, x, w, r, b=None, lengths=None, h=None):
    return _layer(node, _gru_step, ["Sigmoid", "Tanh"], x, w, r, b, lengths, h, None, None)[:2]


@operator("LSTM")
def lstm(node, x, w, r, b=None, lengths=None, h=None, c=None, p=None):
    return _layer(node, _lstm_step, ["Sigmoid", "Tanh", "Tanh"], x, w, r, b, lengths, h, c, p)
