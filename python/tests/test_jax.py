"""Every differentiable op of the op table compared with JAX in float64: values, vector-Jacobian
products, and vector-Jacobian products of those."""

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest

import ternion
from ternion import _ternion

jax = pytest.importorskip("jax")

from jax_cases import cases  # noqa: E402
from unbound import UNBOUND  # noqa: E402

TABLE = Path(__file__).parents[2] / "docs" / "coverage-cpu.json"
RELATIVE = 1e-10
CASES = cases()

# Memory layouts of the same elements.
LAYOUTS = {
    "dense": lambda array: ternion.tensor(array),
    "transposed": lambda array: ternion.tensor(array.T.copy("C")).permute(*reversed(range(array.ndim))),
    "strided": lambda array: strided(array),
}


def strided(array):
    """Returns every second element of the last axis of a larger tensor, starting from the second
    one."""
    if array.ndim == 0:
        return ternion.tensor(np.array([7.0, array.item()]))[1]
    large = np.full((*array.shape[:-1], 2 * array.shape[-1] + 1), np.nan)
    large[..., 1::2] = array
    return ternion.tensor(large)[..., 1::2]


def drawn(case):
    rng = np.random.default_rng(zlib.crc32(repr(case).encode()))
    return [np.asarray(drawing(rng, shape), np.float64) for shape, drawing in case.inputs], rng


def close(actual, expected, what):
    """Compares arrays. The tolerance is relative to each element, plus a tenth of it relative to
    the largest element, because sums cancel, plus some roundings of 1, the magnitude of the inputs,
    for results in which all digits cancel."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"{what}: {actual.shape}, expected {expected.shape}"
    largest = np.abs(expected).max() if expected.size else 0.0
    np.testing.assert_allclose(actual, expected, rtol=RELATIVE, atol=RELATIVE / 10 * largest + 1e-15, err_msg=what)


def listed(outputs):
    return list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]


def gradients(outputs, inputs, weights, create_graph):
    result = _ternion._trust.grad(outputs, inputs, weights, create_graph, True)
    return [ternion.zeros_like(value) if grad is None else grad for grad, value in zip(result, inputs)]


@pytest.mark.parametrize("case", CASES, ids=repr)
def test_an_op_is_that_of_jax(case):
    arrays, rng = drawn(case)
    expected, pull = jax.vjp(lambda *x: listed(case.theirs(*x)), *arrays)
    weights = [rng.uniform(0.5, 1.5, want.shape) for want in expected]
    firsts = pull(weights)
    second_weights = [rng.uniform(0.5, 1.5, array.shape) for array in arrays]
    seconds = seconds_of(case, arrays, weights, second_weights) if case.second else None
    for name, layout in LAYOUTS.items():
        inputs = [layout(array).requires_grad_() for array in arrays]
        outputs = listed(case.ours(*inputs))
        assert len(outputs) == len(expected)
        for number, (output, want) in enumerate(zip(outputs, expected)):
            close(output.detach().numpy(), want, f"{name}: output {number}")
        weighing = [ternion.tensor(weight).requires_grad_() for weight in weights]
        first = gradients(outputs, inputs, weighing, case.second)
        for number, (grad, want) in enumerate(zip(first, firsts)):
            close(grad.detach().numpy(), want, f"{name}: gradient of input {number}")
        if case.second:
            twice(name, first, inputs + weighing, second_weights, seconds)


def seconds_of(case, arrays, weights, second_weights):
    """Returns the second gradients, with respect to the inputs and the weights."""
    count = len(arrays)

    def pulled(*x):
        return jax.vjp(lambda *x: listed(case.theirs(*x)), *x[:count])[1](list(x[count:]))

    return jax.vjp(pulled, *arrays, *weights)[1](tuple(second_weights))


def twice(name, first, leaves, second_weights, expected):
    flowing = [(grad, ternion.tensor(weight)) for grad, weight in zip(first, second_weights) if grad.requires_grad]
    actual = gradients([grad for grad, _ in flowing], leaves, [weight for _, weight in flowing], False)
    for number, (grad, want) in enumerate(zip(actual, expected)):
        by = f"input {number}" if number < len(first) else f"weights {number - len(first)}"
        close(grad.detach().numpy(), want, f"{name}: gradient of the gradient, by {by}")


def test_every_differentiable_op_of_the_table_has_a_case():
    ops = json.loads(TABLE.read_text(encoding="utf-8"))["ops"]
    differentiable = {name for name, entry in ops.items() if "B" in entry["dtypes"].get("f64", "").upper()} - UNBOUND
    covered = {name for case in CASES for name in case.covers}
    assert covered == differentiable, f"without a case: {sorted(differentiable - covered)}; no such op: {sorted(covered - differentiable)}"
    # The gradient of a gradient op is a second gradient, so these ops need a case with second
    # gradients.
    twice_checked = {name for case in CASES if case.second for name in case.covers}
    assert all(name in twice_checked for name in covered if "_grad" in name)


def test_a_wrong_gradient_is_found():
    """Checks the comparison itself: if the gradient of a square is wrong by a millionth, the values
    pass and the gradient fails."""
    case = next(case for case in CASES if case.covers[0] == "square")
    (array,), _ = drawn(case)
    x = ternion.tensor(array).requires_grad_()
    y = x.square()
    (grad,) = gradients([y], [x], [ternion.ones_like(y)], False)
    close(y.detach().numpy(), array**2, "output 0")
    with pytest.raises(AssertionError):
        close(grad.numpy() * (1 + 1e-6), 2 * array, "gradient of input 0")
    assert math.isfinite(grad.sum().item())
