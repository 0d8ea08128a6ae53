"""Optimizer steps as operators: many tensors at once, with their states as inputs and outputs."""

import ternion
from ternion import nn, optim

from .table import operator


def _of_each(inputs, states):
    """Returns, for each tensor, the tensor itself, its gradient, and `states` states. ONNX passes
    all tensors first, then all gradients, and so on."""
    count = len(inputs) // (2 + states)
    return [inputs[start::count] for start in range(count)]


def _in_order(results):
    """Returns all new tensors first, then all states of one kind, and so on."""
    return tuple(value for kind in zip(*results) for value in kind)


def _step(kind, x, gradient, state, **settings):
    """Makes a step of a Ternion optimizer that continues from a state. Returns the new tensor, and
    the new state."""
    parameter = nn.Parameter(x.clone())
    optimizer = kind([("x", parameter)], **settings)
    saved = optimizer.state_dict()
    saved["state"][0].update({f"x.{name}": value.clone() for name, value in state.items()})
    optimizer.load_state_dict(saved)
    parameter.grad = gradient
    optimizer.step()
    return parameter.detach(), optimizer.state[parameter]


@operator("ai.onnx.preview.training.Momentum")
def momentum(node, rate, count, *inputs):
    """Uses `optim.SGD`. The factor of the gradient is 1 in the first step."""
    share = node.attribute("beta") if count.item() > 0 else 1.0
    nesterov = node.attribute("mode") == "nesterov"
    if nesterov and share != 1:
        raise node.unsupported("nesterov with a fraction of the gradient: Ternion has it only without dampening")
    settings = dict(
        lr=rate.item(), momentum=node.attribute("alpha"), dampening=1 - share, weight_decay=node.attribute("norm_coefficient"), nesterov=nesterov
    )
    results = []
    for x, gradient, velocity in _of_each(inputs, 1):
        state = {"momentum_buffer": velocity, "step": ternion.tensor(1)}
        x, state = _step(optim.SGD, x, gradient, state, **settings)
        results.append((x, state["momentum_buffer"]))
    return _in_order(results)


@operator("ai.onnx.preview.training.Adagrad")
def adagrad(node, rate, count, *inputs):
    """Uses `optim.Adagrad`. The rate is passed with its decay, because a state of Ternion cannot
    express that no step was made, from which ONNX counts."""
    decayed = rate.item() / (1 + count.item() * node.attribute("decay_factor", 0.0))
    settings = dict(lr=decayed, weight_decay=node.attribute("norm_coefficient", 0.0), eps=node.attribute("epsilon", 1e-6))
    results = []
    for x, gradient, squares in _of_each(inputs, 1):
        x, state = _step(optim.Adagrad, x, gradient, {"sum": squares, "step": ternion.tensor(1)}, **settings)
        results.append((x, state["sum"]))
    return _in_order(results)


@operator("ai.onnx.preview.training.Adam")
def adam(node, rate, count, *inputs):
    """Composed, because ONNX does not correct the moments in the first step, and adds epsilon
    before the correction. Ternion, like PyTorch, adds it after."""
    alpha, beta = node.attribute("alpha", 0.9), node.attribute("beta", 0.999)
    steps, rate = count.item(), rate.item()
    if steps > 0:
        rate *= (1 - beta**steps) ** 0.5 / (1 - alpha**steps)
    results = []
    for x, gradient, first, second in _of_each(inputs, 2):
        gradient = gradient + node.attribute("norm_coefficient", 0.0) * x
        first = alpha * first + (1 - alpha) * gradient
        second = beta * second + (1 - beta) * gradient.square()
        x = x - rate * first / (second.sqrt() + node.attribute("epsilon", 1e-6))
        results.append((x * (1 - node.attribute("norm_coefficient_post", 0.0)), first, second))
    return _in_order(results)
