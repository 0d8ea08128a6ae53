"""First and second derivatives compared with PyTorch at kinks, ties and bounds: at 0, at the
bounds, at the betas, and where elements are equal.

`OWN` lists intentional differences, with the reason and Ternion's second derivative. In most of
them PyTorch's is NaN.

The gradient of a piecewise linear function does not depend on the input. It does not require a
gradient in Ternion, and its gradient is 0 in PyTorch: the test treats it as 0."""

import functools
import math

import pytest
from pytorch_reference import torch_of

import ternion

POINTS = [0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 6.0, 20.0, 21.0, -0.3, 0.7]
TIED = [[0.0, 0.0, 0.0], [1.0, 1.0, 1.0], [0.0, 1.0, -1.0], [0.0, 0.0, 1.0], [1.0, 2.0, -2.0], [1.0, 1.0, -1.0], [1.0, 0.0, 1.0], [0.5, -0.5, 2.0]]


def activation(name, *arguments, **options):
    return lambda T, x: getattr(T.nn.functional, name)(x, *arguments, **options)


def loss(name, target, **options):
    return lambda T, x: getattr(T.nn.functional, name)(x, T.full_like(x, target), reduction="none", **options)


def of_targets(name, x, **options):
    return lambda T, target: getattr(T.nn.functional, name)(T.full_like(target, x), target, reduction="none", **options)


def with_number(name, number, is_first=True):
    def call(T, x):
        other = T.full_like(x, number)
        return getattr(T, name)(x, other) if is_first else getattr(T, name)(other, x)

    return call


ELEMENTWISE = {
    name: activation(name)
    for name in """relu elu celu selu softshrink hardshrink leaky_relu relu6 hardtanh hardswish softplus softsign tanhshrink logsigmoid silu mish gelu rrelu glu""".split()
}
ELEMENTWISE.update(
    (name, lambda T, x, name=name: getattr(T, name)(x))
    for name in """abs sign sgn sqrt square rsqrt reciprocal exp log log1p expm1 sin cos tan asin acos atan sinh cosh tanh asinh atanh sigmoid erf erfc erfinv floor ceil
    round trunc frac lgamma sinc logit neg deg2rad exp2 log2 log10 nan_to_num i0 positive""".split()
)
ELEMENTWISE.update((f"special.{name}", lambda T, x, name=name: getattr(T.special, name)(x)) for name in "i0e i1 i1e entr ndtr log_ndtr ndtri erfcx expit".split())
ELEMENTWISE.update((f"x ** {p}", lambda T, x, p=p: x**p) for p in (0, 1, 2, 3, 0.5, 1.5, 2.5, -1, -2))
ELEMENTWISE.update((f"x ** tensor {p}", lambda T, x, p=p: x ** T.full_like(x, p)) for p in (0.0, 1.0, 2.0, 3.0, 0.5, 1.5, -1.0))
ELEMENTWISE.update((f"{base} ** x", lambda T, x, base=base: base**x) for base in (0.0, 1.0, 2.0, 0.5))
ELEMENTWISE.update(
    (f"{name} {text} of x^2", lambda T, x, name=name, power=power: getattr(T, name)(x**power, x * x))
    for name in ("maximum", "minimum", "fmax", "fmin")
    for text, power in (("x", 1), ("x^3", 3))
)
for target in (0.0, 1.0, -1.0, 0.5):
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "soft_margin_loss", "binary_cross_entropy_with_logits"):
        ELEMENTWISE[f"{name} {target}"] = loss(name, target)
        if name != "soft_margin_loss":
            ELEMENTWISE[f"{name} of targets {target}"] = of_targets(name, target)
for target in (0.0, 1.0, 0.5):
    ELEMENTWISE[f"binary_cross_entropy {target}"] = lambda T, x, target=target: loss("binary_cross_entropy", target)(T, x.clamp(0, 1))
ELEMENTWISE.update({
    "elu 0.5": activation("elu", 0.5), "elu 2": activation("elu", 2.0), "celu 0.5": activation("celu", 0.5), "leaky_relu 0.3": activation("leaky_relu", 0.3),
    "softplus threshold 6": activation("softplus", 2.0, 6.0), "hardtanh -2 0.5": activation("hardtanh", -2.0, 0.5), "threshold": activation("threshold", 0.5, 1.0),
    "gelu tanh": activation("gelu", approximate="tanh"), "softshrink 2": activation("softshrink", 2.0), "hardshrink 2": activation("hardshrink", 2.0),
    "prelu": lambda T, x: T.nn.functional.prelu(x, T.tensor([0.3], dtype=T.float64)),
    "clamp": lambda T, x: x.clamp(-1, 1), "clamp min": lambda T, x: x.clamp(min=0), "clamp tensors": lambda T, x: x.clamp(T.zeros_like(x), T.ones_like(x)),
    "where": lambda T, x: T.where(x > 0, x * x, -x), "logit eps": lambda T, x: T.logit(x, eps=0.3),
    "huber_loss delta 2": loss("huber_loss", 0.0, delta=2.0), "huber_loss delta 0.5": loss("huber_loss", 0.0, delta=0.5),
    "smooth_l1_loss beta 0.5": loss("smooth_l1_loss", 0.0, beta=0.5), "smooth_l1_loss beta 0": loss("smooth_l1_loss", 0.0, beta=0.0),
    "hinge_embedding_loss 1": loss("hinge_embedding_loss", 1.0), "hinge_embedding_loss -1": loss("hinge_embedding_loss", -1.0),
    "margin_ranking_loss": lambda T, x: T.nn.functional.margin_ranking_loss(x, x * x, T.ones_like(x), margin=1.0, reduction="none"),
    "poisson_nll_loss": loss("poisson_nll_loss", 2.0, full=True), "poisson_nll_loss of rates": loss("poisson_nll_loss", 2.0, log_input=False),
    "gaussian_nll_loss": lambda T, x: T.nn.functional.gaussian_nll_loss(T.full_like(x, 3.0), T.ones_like(x), x * x, eps=1.0, reduction="none"),
    "kl_div": loss("kl_div", 2.0), "kl_div of log targets": of_targets("kl_div", 2.0, log_target=True),
    "kl_div of targets": lambda T, x: of_targets("kl_div", 2.0)(T, x.abs()),
    "atan2 x 1": with_number("atan2", 1.0), "atan2 1 x": with_number("atan2", 1.0, False), "atan2 x 0": with_number("atan2", 0.0), "hypot 1": with_number("hypot", 1.0),
    "hypot 0": with_number("hypot", 0.0), "xlogy x 2": with_number("xlogy", 2.0), "xlogy 2 x": with_number("xlogy", 2.0, False), "xlogy 0 x": with_number("xlogy", 0.0, False),
    "logaddexp": with_number("logaddexp", 0.0), "logaddexp2": with_number("logaddexp2", 0.0), "fmod": lambda T, x: T.fmod(x * x, T.full_like(x, 2.0)),
    "remainder": lambda T, x: T.remainder(x * x, T.full_like(x, 2.0)), "lerp": lambda T, x: T.lerp(x, x * x, x), "polygamma": lambda T, x: T.polygamma(1, x + 4), "digamma": lambda T, x: T.digamma(x + 4),
})  # fmt: skip

PLACES = (0.0, 1.0, 2.0)


def weighed(f):
    return lambda T, x: (f(T, x) * T.tensor(PLACES, dtype=T.float64)).sum()


def norm_of(p):
    return lambda T, x: x.norm(p)


REDUCTIONS = {
    "std": lambda T, x: x.std(), "std of the population": lambda T, x: x.std(correction=0), "var": lambda T, x: x.var(), "std_mean": lambda T, x: sum(T.std_mean(x)),
    **{f"norm {p}": norm_of(p) for p in (2, 1, math.inf, -math.inf, 3, 1.5, 0.5, -1)},
    "vector_norm": lambda T, x: T.linalg.vector_norm(x), "vector_norm 4": lambda T, x: T.linalg.vector_norm(x, 4), "dist": lambda T, x: T.dist(x, T.zeros_like(x)),
    "prod": lambda T, x: x.prod(0), "cumprod": lambda T, x: x.cumprod(0).sum(), "logsumexp": lambda T, x: x.logsumexp(0), "logcumsumexp": lambda T, x: x.logcumsumexp(0).sum(),
    "amax": lambda T, x: (x * x).amax(), "amin": lambda T, x: (x * x).amin(), "max": lambda T, x: (x * x).max(), "min": lambda T, x: (x * x).min(),
    "max along": lambda T, x: (x * x).max(0)[0], "min along": lambda T, x: (x * x).min(0)[0], "cummax": lambda T, x: (x * x).cummax(0)[0].sum(),
    "cummin": lambda T, x: (x * x).cummin(0)[0].sum(), "median": lambda T, x: (x * x).median(), "sort": lambda T, x: weighed(lambda T, x: x.sort()[0])(T, x).square(),
    "normalize": weighed(lambda T, x: T.nn.functional.normalize(x, dim=0)), "cosine_similarity": lambda T, x: T.cosine_similarity(x, x * x, dim=0),
    "layer_norm": weighed(lambda T, x: T.nn.functional.layer_norm(x, (3,))), "rms_norm": weighed(lambda T, x: T.nn.functional.rms_norm(x, (3,), eps=1e-5)),
    "batch_norm": weighed(lambda T, x: T.nn.functional.batch_norm(x[:, None], None, None, training=True)[:, 0]),
    "renorm": weighed(lambda T, x: T.renorm(x[None], 2, 0, 1.0)[0]), "cross_entropy": lambda T, x: T.nn.functional.cross_entropy(x[None], T.tensor([1]), label_smoothing=0.1),
    "triplet_margin_loss": lambda T, x: T.nn.functional.triplet_margin_loss(x[None], (x * x)[None], T.zeros(1, 3, dtype=T.float64)),
    "cosine_embedding_loss": lambda T, x: T.nn.functional.cosine_embedding_loss(x[None], (x * x)[None], T.tensor([-1])),
    "lp_pool1d": lambda T, x: T.nn.functional.lp_pool1d(x[None, None], 2.0, 2, 1).sum(), "max_pool1d": lambda T, x: T.nn.functional.max_pool1d((x * x)[None, None], 2, 1).sum(),
    "prelu of weights": lambda T, x: (T.nn.functional.prelu(T.tensor([[-1.0, 0.0, 2.0]], dtype=T.float64), x) * x).sum(),
    "pairwise_distance": lambda T, x: T.nn.functional.pairwise_distance(x, T.zeros_like(x)), "corrcoef": lambda T, x: T.corrcoef(T.stack([x, x * x]))[0, 1],
}  # fmt: skip

NO_NUMBER = "PyTorch's is NaN"
INFINITE = "infinite in PyTorch: 0 times infinity"
OWN = {
    "softplus": (NO_THRESHOLD := "no threshold unless given: the function itself", {20.0: math.exp(-20)}),
    "softplus threshold 6": (NO_THRESHOLD, {3.0: 2 * math.exp(6) / (1 + math.exp(6)) ** 2}),
    "asin": (INFINITE, {1.0: math.nan, -1.0: math.nan}), "acos": (INFINITE, {1.0: math.nan, -1.0: math.nan}), "atanh": (INFINITE, {1.0: math.nan, -1.0: math.nan}),
    "erfinv": (INFINITE, {1.0: math.nan, -1.0: math.nan}), "special.ndtri": (INFINITE, {0.0: math.nan, 1.0: math.nan}),
    "lgamma": ("a pole, where PyTorch divides by the sine of a multiple of pi that is not quite 0", {x: math.inf for x in (-1.0, -2.0, -3.0)}),
    "sinc": (NO_NUMBER, {0.0: -math.pi**2 / 3}), "x ** tensor 0.0": (NO_NUMBER, {0.0: 0.0}), "logit eps": (NO_NUMBER, {0.0: 0.0, 1.0: 0.0}),
    "0.0 ** x": (NO_NUMBER, {x: 0.0 for x in POINTS if x >= 0}), "atan2 x 0": (NO_NUMBER, {0.0: 0.0}), "hypot 0": (NO_NUMBER, {0.0: 1.0}), "xlogy 0 x": (NO_NUMBER, {0.0: 0.0}),
    "kl_div of targets": (NO_NUMBER, {0.0: 0.0}),
    "binary_cross_entropy 0.0": ("PyTorch's numerator cancels", {0.0: 1.0}), "binary_cross_entropy 1.0": ("PyTorch's numerator cancels", {1.0: 1.0}),
    **{name: (NO_NUMBER, {(0.0, 0.0, 0.0): (0.0, 0.0, 0.0)}) for name in ("norm 2", "vector_norm", "dist", "normalize", "cosine_similarity", "renorm")},
}  # fmt: skip
# The second derivative of a norm of order p below 2 is unbounded at 0. In Ternion such an element
# contributes 0.
OF_ZEROS = ("norm 1.5", "norm 0.5", "norm -1")


def derivatives(T, function, values):
    """Returns the derivatives of the sum, and those of a weighted sum of the first derivatives,
    which shows mixed terms."""
    x = T.tensor(values, dtype=T.float64, requires_grad=True)
    (first,) = T.autograd.grad(function(T, x).sum(), [x], create_graph=True)
    second = T.zeros_like(x)
    if first.requires_grad:
        weights = T.tensor([1.0 + i / 2 for i in range(len(values))], dtype=T.float64)
        result = T.autograd.grad((first * weights).sum(), [x], allow_unused=True)[0]
        second = second if result is None else result / (weights if len(values) == len(POINTS) else 1.0)
    # PyTorch may return zeros without memory, which tolist() does not accept. Adding 0 allocates
    # it.
    return (first.detach() + 0).tolist(), (second.detach() + 0).tolist()


def same(actual, expected):
    return actual == pytest.approx(expected, rel=1e-6, abs=1e-9, nan_ok=True)


@functools.lru_cache(None)
def of_pytorch(kind, name, values):
    return derivatives(torch_of(), {"elementwise": ELEMENTWISE, "reduction": REDUCTIONS}[kind][name], values)


@pytest.mark.parametrize("name", ELEMENTWISE)
def test_functions_of_one_element(name):
    torch_of()
    firsts, seconds = of_pytorch("elementwise", name, tuple(POINTS))
    own_firsts, own_seconds = derivatives(ternion, ELEMENTWISE[name], POINTS)
    _, own = OWN.get(name, ("", {}))
    for x, first, second, own_first, own_second in zip(POINTS, firsts, seconds, own_firsts, own_seconds):
        if not (x in own and math.isnan(first)):
            assert same(own_first, first), f"first derivative at {x}"
        assert same(own_second, own[x] if x in own else second), f"second derivative at {x}"
        assert x not in own or not same(own_second, second), f"{x} is no longer an exception"


@pytest.mark.parametrize("values", TIED, ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_reductions_of_equal_elements(name, values):
    torch_of()
    first, second = of_pytorch("reduction", name, tuple(values))
    own_first, own_second = derivatives(ternion, REDUCTIONS[name], values)
    assert same(own_first, first)
    _, own = OWN.get(name, ("", {}))
    expected = list(own.get(tuple(values), second))
    if name in OF_ZEROS:
        assert all(math.isnan(number) for number, x in zip(second, values) if x == 0)
        expected = [0.0 if x == 0 else number for number, x in zip(second, values)]
    assert same(own_second, expected)


def test_the_exceptions_are_of_functions_that_are_tested():
    assert not OWN.keys() - ELEMENTWISE.keys() - REDUCTIONS.keys()


def test_a_slope_of_pieces_asks_for_no_gradient():
    """As documented. PyTorch returns zeros."""
    x = ternion.tensor([1.0, -2.0], requires_grad=True)
    for function in (lambda x: x**1, lambda x: x * 3, lambda x: x.mean()):
        (slope,) = ternion.autograd.grad(function(x).sum(), [x], create_graph=True)
        assert not slope.requires_grad
        with pytest.raises(RuntimeError, match="an output does not require grad"):
            ternion.autograd.grad(slope.sum(), [x])
    (slope,) = ternion.autograd.grad(x.relu().sum(), [x], create_graph=True)
    assert ternion.autograd.grad((slope * x).sum(), [x])[0].tolist() == [1.0, 0.0]


def test_prelu_at_0_has_the_slope_of_the_weight_in_every_derivative():
    """PyTorch's first gradient uses the weight too, but its second gradient uses 1."""
    x, weight = ternion.tensor([0.0], requires_grad=True), ternion.tensor([0.25], requires_grad=True)
    (slope,) = ternion.autograd.grad(ternion.nn.functional.prelu(x, weight).square().sum(), [x], create_graph=True)
    assert ternion.autograd.grad(slope.sum(), [x])[0].tolist() == [2 * 0.25**2]
