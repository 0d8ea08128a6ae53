"""Functions over the whole range of their dtypes: values and gradients where simple formulas
overflow or cancel, compared with formulas in float64 that do not."""

import math
import warnings

import numpy as np
import pytest

import ternion
from pytorch_reference import torch_of

inf, nan = math.inf, math.nan

# Inputs. The expected values and derivatives come from formulas in float64 that are accurate there.
POINTS = {
    "sinh": [-1e-8, -0.3, -1.0, -5.0, -40.0, 0.0, 1e-5, 0.5, 2.0, 20.0, 80.0],
    "cosh": [-1e-8, -0.3, -1.0, -5.0, -40.0, 0.0, 1e-5, 0.5, 2.0, 20.0, 80.0],
    "asinh": [-1e-8, -0.3, -1.0, -5.0, -1e4, -1e20, 0.0, 1e-20, 1e-5, 0.5, 2.0, 1e7, 1e9, 1e20, 3e38],
    "acosh": [1.0, 1.0000001, 1.001, 1.5, 2.0, 30.0, 1e7, 1e9, 1e20, 3e38],
    "atanh": [-0.9999999, -0.5, -1e-8, 0.0, 1e-20, 1e-5, 0.5, 0.999, 0.9999999],
    "asin": [-1.0, -0.9999999, -0.5, -1e-8, 0.0, 0.3, 0.999, 1.0],
    "acos": [-1.0, -0.9999999, -0.5, -1e-8, 0.0, 0.3, 0.999, 1.0],
    "tan": [-1.5, -1e-8, 0.0, 0.3, 1.0, 1.57, 3.0],
    "erfc": [-30.0, -3.0, -1.0, -1e-8, 0.0, 1e-5, 0.3, 0.499, 0.5, 0.501, 1.0, 2.0, 3.0, 4.0, 5.5, 7.0, 8.0, 8.75, 9.0],
}
SLOPES = {
    "sinh": np.cosh, "cosh": np.sinh,
    "asinh": lambda x: 1 / np.hypot(x, 1), "acosh": lambda x: 1 / (np.sqrt(x - 1) * np.sqrt(x + 1)), "atanh": lambda x: 1 / ((1 - x) * (1 + x)),
    "asin": lambda x: 1 / np.sqrt((1 - x) * (1 + x)), "acos": lambda x: -1 / np.sqrt((1 - x) * (1 + x)), "tan": lambda x: 1 + np.tan(x) ** 2,
    "erfc": lambda x: np.array([-2 / math.sqrt(math.pi) * bell(value) for value in x]),
}  # fmt: skip
FUNCTIONS = {
    "sinh": np.sinh, "cosh": np.cosh, "asinh": np.arcsinh, "acosh": np.arccosh, "atanh": np.arctanh, "asin": np.arcsin, "acos": np.arccos, "tan": np.tan,
    "erfc": np.vectorize(math.erfc),
}  # fmt: skip


def bell(x):
    """Returns `exp(-x^2)` without rounding its argument, by exact fractions."""
    from fractions import Fraction

    exact = -(Fraction(float(x)) ** 2)
    near = float(exact)
    return math.exp(near) * (1 + float(exact - Fraction(near)))


def slope(result, x):
    result.sum().backward()
    return x.grad.numpy().astype(np.float64)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 5e-7), ("float64", 1e-13)])
@pytest.mark.parametrize("name", POINTS)
def test_values_and_slopes_have_all_digits(name, dtype, tolerance):
    points = np.array(POINTS[name], dtype)
    x = ternion.tensor(points, requires_grad=True)
    actual = getattr(ternion, name)(x)
    exact = points.astype(np.float64)
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(actual.detach().numpy(), FUNCTIONS[name](exact), rtol=tolerance, atol=0)
        np.testing.assert_allclose(slope(actual, x), SLOPES[name](exact), rtol=tolerance, atol=0)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", POINTS)
def test_half_precision_is_rounded_once(name, dtype):
    points = ternion.tensor(POINTS[name], dtype=dtype)
    wide = points.float()
    assert getattr(points, name)().tolist() == pytest.approx(getattr(wide, name)().to(dtype).tolist(), abs=0, rel=0, nan_ok=True)
    result, x = points.clone().requires_grad_(), wide.clone().requires_grad_()
    getattr(result, name)().sum().backward()
    getattr(x, name)().sum().backward()
    assert result.grad.tolist() == pytest.approx(x.grad.to(dtype).tolist(), abs=0, rel=0, nan_ok=True)


@pytest.mark.parametrize("dtype, near, far", [("float32", 89.0, 90.0), ("float64", 710.0, 711.0), ("float16", 11.5, 30.0)])
def test_hyperbolic_functions_overflow_where_they_must(dtype, near, far):
    x = ternion.tensor([-inf, -far, -near, near, far, inf], dtype=dtype, requires_grad=True)
    size = float(np.cosh(near)) if dtype != "float16" else x.detach()[3:4].float().cosh().half().item()
    rel = 1e-5 if dtype == "float32" else 1e-12
    assert x.sinh().tolist() == pytest.approx([-inf, -inf, -size, size, inf, inf], rel=rel)
    assert x.cosh().tolist() == pytest.approx([inf, inf, size, size, inf, inf], rel=rel)
    assert slope(x.sinh(), x).tolist() == pytest.approx([inf, inf, size, size, inf, inf], rel=rel)


def test_zeros_keep_their_signs_and_integers_become_floats():
    for name in ("sinh", "asinh", "atanh", "asin", "tan"):
        assert [math.copysign(1, value) for value in getattr(ternion.tensor([-0.0, 0.0]), name)().tolist()] == [-1, 1], name
    assert ternion.tensor([100]).sinh().dtype is ternion.float32
    assert ternion.tensor([100]).sinh().tolist() == [inf] and ternion.tensor([2]).erfc().item() == pytest.approx(math.erfc(2))


def test_limits_of_inverses():
    x = ternion.tensor([-inf, inf, nan, 0.0], requires_grad=True)
    result = x.asinh()
    assert result.tolist() == pytest.approx([-inf, inf, nan, 0.0], nan_ok=True)
    result.sum().backward()
    assert x.grad.tolist() == pytest.approx([0.0, 0.0, nan, 1.0], nan_ok=True)
    assert ternion.tensor([-3.0, 0.0, 0.5, 1.0, inf]).acosh().tolist() == pytest.approx([nan, nan, nan, 0.0, inf], nan_ok=True)
    assert ternion.tensor([-2.0, -1.0, 1.0, 2.0]).atanh().tolist() == pytest.approx([nan, -inf, inf, nan], nan_ok=True)
    assert ternion.tensor([300.0, 1000.0], dtype="float16").asinh().tolist() == pytest.approx([6.3984375, 7.6015625], rel=1e-3)
    assert ternion.tensor([1e200], dtype="float64").asinh().item() == pytest.approx(math.asinh(1e200), rel=1e-15)
    one = ternion.tensor([-1.0, 1.0], requires_grad=True)
    assert slope(one.asin(), one).tolist() == [inf, inf]


def test_erfc_is_small_where_erf_is_1():
    wide = ternion.tensor([5.0, 6.0, 9.0, 20.0, 26.0, 28.0, inf, -inf], dtype="float64")
    assert wide.erfc().tolist() == pytest.approx([*(math.erfc(value) for value in (5, 6, 9, 20, 26)), 0.0, 0.0, 2.0], rel=1e-13, abs=0)
    assert ternion.tensor([3.0, 4.0, 11.0, nan]).erfc().tolist() == pytest.approx([math.erfc(3), math.erfc(4), 0.0, nan], rel=3e-7, abs=0, nan_ok=True)
    assert ternion.tensor([3.0], dtype="float16").erfc().item() == pytest.approx(math.erfc(3), rel=3e-3)


@pytest.mark.parametrize("name", POINTS)
def test_gradients_of_gradients(name):
    points = [value for value in POINTS[name] if 1e-4 < abs(value) < 3 and abs(value) not in (1.0, 0.9999999, 1.0000001, 1.57)]
    x = ternion.tensor(points, dtype="float64", requires_grad=True)
    assert ternion.testing.gradcheck(getattr(ternion, name), x)
    assert ternion.testing.gradcheck(lambda x: ternion.autograd.grad(getattr(x, name)().sum(), x, create_graph=True)[0], x)


def test_sinc_of_half_precision_is_rounded_once():
    for dtype in ("float16", "bfloat16"):
        x = ternion.arange(-40, 40).to(dtype) / 16
        assert x.sinc().tolist() == x.float().sinc().to(dtype).tolist()


@pytest.mark.parametrize("divisor", ["2.0", "m.tensor(2.0)", "m.tensor([2.0, 2.0, 2.0, -2.0, 2.0])"])
def test_fmod_has_its_gradient_at_0_too(divisor):
    x = ternion.tensor([0.0, -0.0, 2.5, -2.5, -4.0], requires_grad=True)
    result = ternion.fmod(x, eval(divisor, {"m": ternion}))
    result.sum().backward()
    assert x.grad.tolist() == [1.0] * 5
    assert [str(value) for value in result.tolist()] == ["0.0", "-0.0", "0.5", "-0.5", "-0.0"]


def test_fmod_of_two_tensors():
    torch = pytest.importorskip("torch")
    values = [5.5, -5.5, 0.0, -0.0, 1.0, inf, -1.0, 7.0, 3.0, -7.25], [2.0, -2.0, 2.0, -3.0, inf, 2.0, -inf, 0.0, 3.0, 2.5]
    (a, b), (ours, theirs) = ([module.tensor(value, requires_grad=True) for value in values] for module in (ternion, torch))
    actual, expected = ternion.fmod(a, b), torch.fmod(ours, theirs)
    assert [str(value) for value in actual.tolist()] == [str(value) for value in expected.tolist()]
    finite = slice(0, 5)
    actual[finite].sum().backward()
    expected[finite].sum().backward()
    assert a.grad.tolist()[finite] == ours.grad.tolist()[finite] and b.grad.tolist()[finite] == theirs.grad.tolist()[finite] == [-2.0, -2.0, 0.0, 0.0, 0.0]
    operands = [-128, 127, -128, 5, -5, 6], [-1, -128, 127, -3, 3, 4]
    ternion_result, torch_result = (module.fmod(*(module.tensor(value, dtype=module.int8) for value in operands)) for module in (ternion, torch))
    assert ternion_result.tolist() == torch_result.tolist() == [0, 127, -1, 2, -2, 2]
    y = ternion.tensor([5.0, -5.0])
    assert y.fmod_(3).tolist() == [2.0, -2.0] and y.tolist() == [2.0, -2.0]


def test_xlogy_has_its_gradient_at_0_too():
    x, y = (ternion.tensor(value, requires_grad=True) for value in ([0.0, 1.0, 0.0, 0.0, 2.0], [2.0, 3.0, 0.0, -1.0, 4.0]))
    result = ternion.xlogy(x, y)
    result.sum().backward()
    assert result.tolist() == pytest.approx([0.0, math.log(3), 0.0, 0.0, 2 * math.log(4)])
    assert x.grad.tolist() == pytest.approx([math.log(2), math.log(3), 0.0, 0.0, math.log(4)])
    assert y.grad.tolist() == pytest.approx([0.0, 1 / 3, 0.0, 0.0, 0.5])
    near = ternion.logaddexp(ternion.tensor([-7.28e-5, inf, -inf, inf, 1.0]), ternion.tensor([-17.0, inf, -inf, -inf, 1.0]))
    assert near.tolist() == pytest.approx([-7.27586e-5, inf, -inf, inf, 1 + math.log(2)], rel=1e-5)
    half = ternion.logaddexp(ternion.tensor(-0.002037, dtype=ternion.float16), ternion.tensor(-5.78, dtype=ternion.float16))
    assert half.item() == pytest.approx(1.049e-3, rel=1e-3)
    assert ternion.hypot(ternion.tensor([inf, 1.0, 3.0]), ternion.tensor([0.0, -inf, 4.0])).tolist() == [inf, inf, 5.0]
    assert ternion.xlogy(ternion.tensor([0.0, 0.0, nan]), ternion.tensor([inf, nan, 1.0])).tolist() == pytest.approx([0.0, nan, nan], nan_ok=True)
    assert ternion.xlogy(2, ternion.tensor([2.0])).item() == ternion.tensor([2.0]).xlogy(2.0).item() == pytest.approx(2 * math.log(2))
    assert ternion.xlogy(ternion.tensor([0]), ternion.tensor([0])).tolist() == [0.0]


@pytest.mark.parametrize("quotient", ["a // b", "m.floor_divide(a, b)", "m.div(a, b, rounding_mode='floor')"])
def test_floats_are_divided_by_infinity(quotient):
    torch = pytest.importorskip("torch")
    values = [1.0, -1.0, 1.0, -1.0, inf, 2.0, -2.0, 0.0, -0.0, 5.5, -5.5, 0.3, 6.0], [inf, inf, -inf, -inf, 2.0, 0.0, 0.0, 3.0, 2.0, 2.0, 2.0, 0.1, -3.0]
    ternion_result, torch_result = (eval(quotient, {"m": module, "a": module.tensor(values[0]), "b": module.tensor(values[1])}) for module in (ternion, torch))
    assert ternion_result.tolist() == pytest.approx(torch_result.tolist(), nan_ok=True, rel=0, abs=0)
    assert (ternion.tensor([-1.0]) // inf).tolist() == (-1.0 // ternion.tensor([inf])).tolist() == [-1.0]


def test_quotients_of_integers_have_no_slope():
    x, y = (ternion.tensor(value, requires_grad=True) for value in ([5.5, 3.0, 1.0], [2.0, 0.0, inf]))
    (x // y).sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [0.0, 0.0, 0.0]


def test_quotients_towards_zero_have_no_gradient():
    x, y = (ternion.tensor(value, requires_grad=True) for value in ([5.5, 0.0, 1.0, 0.0], [0.0, 0.0, inf, 2.0]))
    ternion.div(x, y, rounding_mode="trunc").sum().backward()
    assert x.grad.tolist() == y.grad.tolist() == [0.0] * 4
    x = ternion.tensor([3.0], requires_grad=True)
    ternion.div(x, 0.0, rounding_mode="trunc").sum().backward()
    assert x.grad.tolist() == [0.0]


def test_gradients_of_remainders_and_quotients_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    values = [5.5, -5.5, 3.0, -3.0, 0.0], [0.0, 0.0, 2.0, 2.0, 1e-30]
    for call in ("a % b", "m.fmod(a, b)", "a / b * 1e30"):
        grads = []
        for module in (ternion, torch):
            a, b = (module.tensor(value, dtype=module.float32, requires_grad=True) for value in values)
            eval(call, {"m": module, "a": a, "b": b}).sum().backward()
            grads.append(a.grad.tolist() + b.grad.tolist())
        assert grads[0] == pytest.approx(grads[1], rel=1e-6, nan_ok=True), call


def test_divisors_of_0_have_infinite_gradients():
    x, y = (ternion.tensor(value, requires_grad=True) for value in ([5.5, -5.5, -1.0], [0.0, 0.0, inf]))
    (x % y).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([1, 1, 1], [-inf, inf, 1])
    x, y = (ternion.tensor(value, requires_grad=True) for value in ([0.0, 3.0], [1e-30, 2.0]))
    (x / y * 1e30).sum().backward()
    assert y.grad.tolist() == pytest.approx([0, -0.75e30])


def digamma_of_half_integers(x):
    """Computes digamma at multiples of 1/2 by the recurrence from its values at 1 and 1/2 (DLMF
    5.4.12, 5.4.13)."""
    first = 1.0 if x % 1 == 0 else 0.5
    return math.fsum([-np.euler_gamma, 0.0 if first == 1 else -2 * math.log(2), *(1 / (first + k) for k in range(int(x - first)))])


def one_sided_zeta(order, x):
    """Computes the `sum of (x + k)^-order`: 2,000 terms, and for the rest the integral with two
    corrections."""
    far = x + 2000
    rest = far ** (1 - order) / (order - 1) + far**-order / 2 + order * far ** (-order - 1) / 12
    return math.fsum((x + k) ** -order for k in range(2000)) + rest


def cylinder(order, x):
    """Computes the modified Bessel function times `e^-|x|`: its integral as a sum over equal
    steps."""
    count = 60 + int(8 * math.sqrt(abs(x)))
    angles = np.pi * np.arange(count + 1) / count
    terms = np.exp(-2 * abs(x) * np.sin(angles / 2) ** 2) * np.cos(order * angles)
    return (terms.sum() - (terms[0] + terms[-1]) / 2) / count * (np.sign(x) if order else 1)


def scaled_tail(x):
    """Computes `e^(x^2) erfc(x)` for large x by its continued fraction."""
    fraction = x
    for n in range(200, 0, -1):
        fraction = x + n / 2 / fraction
    return 1 / (fraction * math.sqrt(math.pi))


# Functions of PyTorch's `special`, with inputs and formulas in float64.
SPECIAL = {
    "gammaln": ([1e-30, 1e-5, 0.3, 0.5, 1.001, 1.5, 1.999, 2.5, 7.9, 8.1, 100.0, 1e10, 1e30, -0.3, -1.7, -30.5], math.lgamma),
    "digamma": ([0.5, 1.0, 2.0, 7.5, 8.5, 40.0], lambda x: digamma_of_half_integers(x)),
    "ndtr": ([-12.0, -5.0, -1.0, -0.71, -0.69, 0.0, 0.5, 3.0, 9.0], lambda x: math.erfc(-x * math.sqrt(0.5)) / 2),
    "erfcx": ([-9.0, -3.0, -0.1, 0.0, 0.1, 1.0, 4.0, 10.0, 1e4, 1e15, 1e30], lambda x: math.erfc(x) / bell(x) if x < 5 else scaled_tail(x)),
    "log_ndtr": ([-1e8, -300.0, -20.0, -1.001, -0.999, 0.0, 2.0, 9.0], lambda x: (
        math.log(scaled_tail(-x * math.sqrt(0.5)) / 2) - x * x / 2 if x < -10 else math.log1p(-math.erfc(x * math.sqrt(0.5)) / 2))),
    "entr": ([0.0, 1e-30, 0.3, 1.0, 1e10], lambda x: -x * math.log(x) if x else 0.0),
    "i0e": ([-30.0, -8.1, 0.0, 0.3, 7.9, 8.1, 1e4], lambda x: cylinder(0, x)),
    "i1e": ([-30.0, -8.1, 0.0, 0.3, 7.9, 8.1, 1e4], lambda x: cylinder(1, x)),
    "i0": ([-30.0, 0.0, 0.3, 7.9, 8.1, 80.0], lambda x: cylinder(0, x) * math.exp(abs(x))),
    "i1": ([-30.0, 0.0, 0.3, 7.9, 8.1, 80.0], lambda x: cylinder(1, x) * math.exp(abs(x))),
    "exp2": ([-100.0, -0.5, 0.0, 0.3, 100.0], lambda x: 2.0**x),
    "sinc": ([-1.5, 0.0, 1e-20, 0.3, 0.5], lambda x: math.sin(math.pi * x) / (math.pi * x) if x else 1.0),
    "logit": ([1e-30, 0.1, 0.3, 0.499, 0.5001, 0.9], lambda x: 2 * math.atanh(2 * x - 1) if x > 0.2 else math.log(x) - math.log1p(-x)),
}  # fmt: skip


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-13)])
@pytest.mark.parametrize("name", SPECIAL)
def test_special_functions_have_all_digits(name, dtype, tolerance):
    points, formula = SPECIAL[name]
    x = np.array(points, dtype)
    result = getattr(ternion.special, name)(ternion.tensor(x)).numpy()
    # At the zeros of lgamma for negative numbers, the absolute error is that of the terms.
    np.testing.assert_allclose(result, [formula(value) for value in x.astype(np.float64)], rtol=tolerance, atol=tolerance / 10 if name == "gammaln" else 1e-300)


@pytest.mark.parametrize("dtype, tolerance", [("float32", 1e-6), ("float64", 1e-13)])
def test_quantiles_are_inverses(dtype, tolerance):
    special = ternion.special
    x = np.array([-12.5, -6.0, -2.0, -0.7, -0.01, 0.3, 1.2] if dtype == "float32" else [-37.0, -12.5, -2.0, -0.01, 0.3, 1.2])
    p = np.array([math.erfc(-value * math.sqrt(0.5)) / 2 for value in x], dtype)
    np.testing.assert_allclose(special.ndtri(ternion.tensor(p)).numpy(), x, rtol=tolerance, atol=tolerance)
    y = np.array([-1.9, -0.5, -1e-3, 1e-20, 0.2, 1.7])
    result = special.erfinv(ternion.tensor(np.array([math.erf(value) for value in y]), dtype="float64"))
    np.testing.assert_allclose(result.numpy(), y, rtol=1e-14, atol=0)
    assert special.ndtri(ternion.tensor([0.0, 0.5, 1.0, -0.1, 1.1, nan])).tolist() == pytest.approx([-inf, 0, inf, nan, nan, nan], nan_ok=True)
    assert special.erfinv(ternion.tensor([-1.0, 0.0, 1.0, -1.1, 1.1, nan])).tolist() == pytest.approx([-inf, 0, inf, nan, nan, nan], nan_ok=True)


@pytest.mark.parametrize("n, x", [(1, 0.1), (1, 3.5), (1, 1e4), (2, 0.7), (2, 9.0), (5, 1.5), (20, 4.0), (40, 20.0), (1, -0.5), (2, -1.25), (3, -4.75)])
def test_polygamma_is_a_sum(n, x):
    expected = (-1) ** (n + 1) * math.factorial(n) * one_sided_zeta(n + 1, x)
    wide = ternion.special.polygamma(n, ternion.tensor([x], dtype="float64")).item()
    assert wide == pytest.approx(expected, rel=1e-12) and ternion.polygamma(n, ternion.tensor([x])).item() == pytest.approx(expected, rel=2e-6)
    assert ternion.tensor([x], dtype="float64").polygamma(n).item() == wide
    assert ternion.special.zeta(n + 1, ternion.tensor([x], dtype="float64")).item() == pytest.approx(one_sided_zeta(n + 1, x), rel=1e-12)


def test_poles_of_special_functions():
    x = ternion.tensor([0.0, -0.0, -1.0, -2.0, inf, -inf, nan])
    some = dict(nan_ok=True)
    assert x.lgamma().tolist() == pytest.approx([inf, inf, inf, inf, inf, inf, nan], **some)
    assert x.digamma().tolist() == pytest.approx([-inf, inf, nan, nan, inf, nan, nan], **some)
    assert x.polygamma(1).tolist() == pytest.approx([inf, inf, inf, inf, 0.0, inf, nan], **some)
    assert x.polygamma(2).tolist() == pytest.approx([-inf, -inf, -inf, -inf, 0.0, -inf, nan], **some)
    assert ternion.special.zeta(1.0, x).tolist() == [inf] * 7
    assert ternion.special.entr(x).tolist() == pytest.approx([0.0, 0.0, -inf, -inf, -inf, -inf, nan], **some)
    assert x.logit().tolist() == pytest.approx([-inf, -inf, nan, nan, nan, nan, nan], **some)
    assert x.i0().tolist()[4:6] == [inf, inf] and ternion.special.i1(x).tolist()[4:6] == [inf, -inf]


def test_slopes_of_special_functions_where_differences_cancel():
    special = ternion.special
    large = ternion.tensor([1e4], requires_grad=True)
    # For large x, erfcx'(x) is -1 / (sqrt(pi) x^2) and i0e'(x) is -1 / sqrt(8 pi x^3).
    assert slope(special.erfcx(large), large).item() == pytest.approx(-1 / (math.sqrt(math.pi) * 1e8), rel=1e-6)
    large.grad = None
    assert slope(special.i0e(large), large).item() == pytest.approx(-1 / math.sqrt(8 * math.pi * 1e12) * (1 + 3 / (8 * 1e4)), rel=1e-6)
    low = ternion.tensor([-1e4], requires_grad=True)
    assert slope(special.log_ndtr(low), low).item() == pytest.approx(1e4 + 1e-4, rel=1e-6)
    small = ternion.tensor([1e-6], requires_grad=True)
    assert slope(special.sinc(small), small).item() == pytest.approx(-(math.pi**2) * 1e-6 / 3, rel=1e-6)
    ends = ternion.tensor([-1.0, 1.0], requires_grad=True)
    assert slope(ends.erfinv(), ends).tolist() == [inf, inf]
    outside = ternion.tensor([0.05, 0.3, 0.95], requires_grad=True)
    assert slope(outside.logit(0.1), outside).tolist() == pytest.approx([0.0, 1 / 0.21, 0.0])


@pytest.mark.parametrize("name", "gammaln digamma erfcx erfinv i0 i0e i1 i1e ndtr log_ndtr exp2 sinc".split())
def test_gradients_of_gradients_of_special_functions(name):
    function = getattr(ternion.special, name)
    x = ternion.tensor([-0.6, -0.3, 0.2, 0.4, 0.8], dtype="float64", requires_grad=True)
    assert ternion.testing.gradcheck(function, x)
    assert ternion.testing.gradcheck(lambda x: ternion.autograd.grad(function(x).sum(), x, create_graph=True)[0], x)


def test_special_functions_of_integers_and_numbers():
    special = ternion.special
    assert special.gammaln(ternion.tensor([3])).dtype is ternion.float32
    assert special.xlog1py(2, ternion.tensor([1.0])).item() == pytest.approx(2 * math.log(2))
    assert special.xlog1py(ternion.tensor([0.0, 0.0, 1.0]), ternion.tensor([-1.0, nan, -1.0])).tolist() == pytest.approx([0.0, nan, -inf], nan_ok=True)
    assert special.multigammaln(ternion.tensor([4.0]), 2).item() == pytest.approx(math.log(math.pi) / 2 + math.lgamma(4) + math.lgamma(3.5))
    with pytest.raises(ValueError, match="polygamma: order -1, expected at least 0"):
        ternion.polygamma(-1, ternion.tensor([1.0]))
    with pytest.raises(ValueError, match="mvlgamma: size 0, expected 1 to 1048576"):
        ternion.tensor([1.0]).mvlgamma(0)
    with pytest.raises(TypeError, match="ndtr: input is float, expected a tensor"):
        special.ndtr(1.0)
    order = ternion.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="zeta: no gradient with respect to the order"):
        special.zeta(order, ternion.tensor([1.0])).sum().backward()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_special_functions_of_half_precision_are_rounded_once(dtype):
    x = ternion.arange(1, 16).to(dtype) / 16
    for name in ("gammaln", "digamma", "erfcx", "erfinv", "i0", "i1e", "ndtr", "ndtri", "log_ndtr", "entr", "logit", "sinc"):
        function = getattr(ternion.special, name)
        assert function(x).tolist() == function(x.float()).to(dtype).tolist(), name


FAR = {
    ("float64", 1): [1e4, 1e20, 1e160, 1e300, 1.7e308], ("float64", 2): [1e4, 1e100, 1e153], ("float64", 3): [1e5, 1e90, 3e102], ("float64", 20): [1e7, 1e14, 3e16],
    ("float32", 1): [1e4, 1e20, 8e37], ("float32", 2): [1e4, 1e15, 9e18], ("float32", 3): [1e5, 5e12], ("float32", 6): [1e4, 2e6],
    ("bfloat16", 1): [1e4, 1e20, 8e37], ("bfloat16", 2): [1e15], ("float16", 1): [1e3, 6e4], ("float16", 2): [100.0],
}  # fmt: skip


def far_polygamma(order, x):
    """Computes the first terms of the asymptotic series (DLMF 5.15.8)."""
    sign = 1.0 if order % 2 else -1.0
    factors = 1.0
    for k in range(1, order):
        factors *= k / x
    return sign * factors / x * (1 + order / (2 * x) + order * (order + 1) / (12 * x) / x)


@pytest.mark.parametrize("dtype, order", FAR, ids=str)
def test_derivatives_of_digamma_far_away(dtype, order):
    points = ternion.tensor(FAR[dtype, order], dtype=dtype)
    expected = [far_polygamma(order, x) for x in points.double().tolist()]
    limits = {"float64": 2e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 4e-3}
    assert ternion.polygamma(order, points).tolist() == pytest.approx(expected, rel=limits[dtype], abs=6e-8 if dtype == "float16" else 0)
    x = points.requires_grad_()
    ternion.polygamma(order - 1, x).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected, rel=limits[dtype], abs=6e-8 if dtype == "float16" else 0)


@pytest.mark.parametrize("dtype, far", [("float64", 1e300), ("float32", 1e37)])
def test_gamma_functions_at_the_largest_numbers(dtype, far):
    x = ternion.tensor([far], dtype=dtype, requires_grad=True)
    rel = 1e-14 if dtype == "float64" else 1e-6
    value = x.detach().double().item()
    for function in (ternion.lgamma, lambda x: x.mvlgamma(3) / 3):
        assert slope(function(x), x).item() == pytest.approx(math.log(value), rel=rel)
        x.grad = None
    limit = ternion.finfo(x.dtype).max
    expected = value * (math.log(value) - 1)
    assert ternion.lgamma(x).item() == pytest.approx(expected if expected < limit else inf, rel=rel)
    for order in (1.5, 2.0, 1.25):
        s = ternion.tensor([order], dtype=dtype)
        assert ternion.special.zeta(s, x).item() == pytest.approx(value ** (1 - order) / (order - 1), rel=10 * rel)
    assert ternion.special.zeta(ternion.tensor([1.5], dtype=dtype), x.detach() * inf).item() == 0.0


@pytest.mark.parametrize("dtype, tiny", [("float64", 5e-324), ("float64", 1e-160), ("float32", 1e-45), ("float32", 1e-30), ("bfloat16", 1e-30), ("float16", 6e-8)])
def test_gamma_functions_at_the_smallest_numbers(dtype, tiny):
    x = ternion.tensor([tiny, -tiny], dtype=dtype)
    value = x[0].double().item()
    with np.errstate(over="ignore"):
        size = float((1 / np.float64(value)).astype({"bfloat16": "float32"}.get(dtype, dtype)))
    rel = {"float64": 1e-14, "float32": 1e-6, "float16": 1e-3, "bfloat16": 4e-3}[dtype]
    assert x.digamma().tolist() == pytest.approx([-size, size], rel=rel)
    assert x.lgamma().tolist() == pytest.approx([-math.log(value)] * 2, rel=rel)
    largest = ternion.finfo(x.dtype).max
    squares = [size**2] * 2 if size < math.sqrt(largest) else [inf, inf]
    assert ternion.polygamma(1, x).double().tolist() == pytest.approx(squares, rel=rel)


@pytest.mark.parametrize("dtype, sizes", [
    ("float32", [1e37, 3.8e37, 1e38, 3.4e38]), ("bfloat16", [1e37, 3.8e37, 1e38, 3.38e38]), ("float64", [1e306, 1e307, 1.7e308]), ("float16", [3e4, 65504.0]),
])  # fmt: skip
def test_gamma_functions_of_the_largest_negative_numbers(dtype, sizes):
    x = -ternion.tensor(sizes, dtype=dtype)
    for function in (ternion.lgamma, lambda x: x.mvlgamma(3), lambda x: x.polygamma(1)):
        assert function(x).tolist() == [inf] * len(sizes)
    assert x.polygamma(2).tolist() == [-inf] * len(sizes)


def test_digamma_where_only_its_value_is_beyond_the_dtype():
    x = ternion.tensor([2.938735877055719e-39, -2.938735877055719e-39])
    assert x.digamma().tolist() == [-inf, inf]
    assert x.bfloat16().digamma().tolist() == [-inf, inf]


def large_polygamma(order, x):
    """Computes `-(-1)^order order!` times the sum of `(x + k)^-(order + 1)`, for an order for which
    the sum converges quickly. Each term is a product of that many factors."""
    sign = 1.0 if order % 2 else -1.0
    return sign * math.fsum(math.prod(k / (x + j) for k in range(1, order + 1)) / (x + j) for j in range(300))


@pytest.mark.parametrize("order", [50, 100, 140, 160, 170, 171, 200, 300])
def test_polygamma_of_large_orders(order):
    sign = 1.0 if order % 2 else -1.0
    # The point where the value is about 1, and points where it is orders of magnitude larger or
    # smaller.
    middle = round(math.exp(math.lgamma(order + 1) / (order + 1)) * 4) / 4
    points = [middle - 2, middle, middle + 2]
    expected = [large_polygamma(order, x) for x in points]
    assert ternion.polygamma(order, ternion.tensor(points)).tolist() == pytest.approx(expected, rel=4e-6)
    assert ternion.polygamma(order, ternion.tensor(points, dtype="float64")).tolist() == pytest.approx(expected, rel=4e-13)
    x = ternion.tensor([1.0, 0.5, 1e-3, *points], requires_grad=True)
    y = ternion.polygamma(order, x)
    assert y[:3].tolist() == [sign * inf] * 3
    y.sum().backward()
    assert x.grad[:3].tolist() == [-sign * inf] * 3
    assert x.grad[3:].tolist() == pytest.approx([large_polygamma(order + 1, x) for x in points], rel=4e-6)


# Between poles, mostly next to half-integers: values of mpmath 1.3 with 50 digits.
BETWEEN_POLES = [
    (2, -39.500999450683594, -0.19533859590520955), (2, -39.499996185302734, 0.00011826988806985885), (2, -39.50390625, -0.7617861323280095),
    (4, -39.49800109863281, 30.750988135791626), (4, -15.499999046325684, 0.014578378763603177), (4, -1000.4999389648438, 0.9388567321489576),
    (2, -1000.5000610351562, -0.01189175676840586), (2, -0.5000000596046448, -0.8288081723144936), (2, -1.4999998807907104, -0.23618085419631088),
    (6, -7.500000476837158, -1.2311053326719934), (20, -3.4999001026153564, 4.281435367177398e+22), (2, -0.25, 122.69736678366236),
    (2, -0.25999999046325684, 108.28602483602329), (3, -15.5, 194.8176947371882), (3, -112.5, 194.81818068195884),
    (2, -7.699999809265137, -68.85221431341527), (5, -2.299999952316284, 165660.2101829793),
]  # fmt: skip


@pytest.mark.parametrize("dtype, rel", [("float64", 4e-14), ("float32", 2e-6), ("bfloat16", 4e-3), ("float16", 1e-3)])
@pytest.mark.parametrize("order", [2, 4, 6])
def test_polygamma_half_way_between_poles(order, dtype, rel):
    # The value at 1 - x: by the reflection formula, because the derivative of the cotangent is 0
    # here.
    points = [-0.5, -1.5, -2.5, -15.5, -39.5, -112.5]
    expected = [ternion.polygamma(order, ternion.tensor([1 - x], dtype="float64")).item() for x in points]
    abs = 6e-8 if dtype == "float16" else 0
    x = ternion.tensor(points, dtype=dtype, requires_grad=True)
    assert ternion.polygamma(order, x).tolist() == pytest.approx(expected, rel=rel, abs=abs)
    ternion.polygamma(order - 1, x).sum().backward()
    assert x.grad.tolist() == pytest.approx(expected, rel=rel, abs=abs)
    if order == 2:
        assert ternion.special.zeta(3, x.detach()).tolist() == pytest.approx([-value / 2 for value in expected], rel=rel, abs=abs)


@pytest.mark.parametrize("order, x, expected", BETWEEN_POLES)
def test_polygamma_next_to_multiples_of_one_half(order, x, expected):
    for dtype, rel in (("float64", 1e-13), ("float32", 4e-6)):
        assert ternion.polygamma(order, ternion.tensor([x], dtype=dtype)).item() == pytest.approx(expected, rel=rel)


def test_gamma_functions_of_large_matrices_are_sums_over_blocks():
    for shape in ((), (3,), (2, 5)):
        x = ternion.full(shape, 20_000.25, dtype="float64", requires_grad=True)
        p = 30_001
        expected = math.log(math.pi) * p * (p - 1) / 4 + math.fsum(math.lgamma(20_000.25 - i / 2) for i in range(p))
        y = ternion.special.multigammaln(x, p)
        assert y.shape == shape
        np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-13)
        expected = math.fsum(math.log(z) - 0.5 / z - 1 / (12 * z * z) for z in (20_000.25 - i / 2 for i in range(p)))
        np.testing.assert_allclose(slope(y, x), expected, rtol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "float16"])
def test_covariances_without_an_observation(dtype):
    for shape in ((3, 0), (2, 0), (1, 0), (0,), (0, 0), (0, 3)):
        for correction in (1, 0, -1):
            answers = []
            for m in (ternion, torch_of()):
                x = m.zeros(shape, dtype=getattr(m, dtype), requires_grad=True)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    result = [m.cov(x, correction=correction), m.corrcoef(x)]
                for part in result:
                    part.sum().backward()
                answers.append([part.detach().float().numpy() for part in (*result, x.grad)])
            for ours, theirs in zip(*answers, strict=True):
                assert ours.shape == theirs.shape
                np.testing.assert_array_equal(ours, theirs)
    with pytest.raises(ValueError, match="cov: weights whose sum is 0"):
        ternion.cov(ternion.zeros(3, 0, dtype=dtype), fweights=ternion.zeros(0, dtype="int64"))
