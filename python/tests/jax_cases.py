"""The differentiable ops of the op table in Ternion and in JAX, with at least one case for each.
Functions that JAX lacks are written by their definition."""

import math

import jax
import jax.numpy as jnp
import numpy as np

import ternion
from jax_linalg import CASES as LINEAR_ALGEBRA
from ternion import _ternion
from ternion.nn import functional as F

# The cases are drawn in float64, on the CPU.
jax.config.update("jax_enable_x64", True)
jax.config.update("jax_platforms", "cpu")

OPS = _ternion._trust.ops


class Case:
    """`ours` and `theirs` compute the same from random `inputs`: (shape, drawing) pairs."""

    def __init__(self, covers, label, ours, theirs, *inputs, second=True):
        self.covers, self.label = covers.split(), label
        self.ours, self.theirs, self.inputs, self.second = ours, theirs, inputs, second

    def __repr__(self):
        return f"{self.covers[0]}-{self.label}" if self.label else self.covers[0]


# ---- Distributions of inputs


def uniform(low=-2.0, high=2.0):
    return lambda rng, shape: rng.uniform(low, high, shape)


def away(distance=0.1, limit=2.0):
    """Numbers of both signs whose magnitude is at least `distance`."""
    return lambda rng, shape: rng.uniform(distance, limit, shape) * rng.choice([-1.0, 1.0], shape)


def distinct(rng, shape):
    """Numbers whose differences are much larger than rounding errors."""
    size = math.prod(shape)
    return (rng.permutation(size).reshape(shape) - size / 2) * 0.37 + rng.uniform(-0.1, 0.1, shape)


def between(rng, shape):
    """Numbers between integers."""
    return rng.integers(-3, 3, shape) + rng.uniform(0.15, 0.35, shape)


POSITIVE = uniform(0.2, 3.0)
SHAPES = [(), (1,), (0, 3), (3, 5), (2, 1, 4)]

# ---- Elementwise

UNARY = {
    "neg": ("neg", lambda x: -x, uniform()),
    "abs": ("abs", jnp.abs, away()),
    "sign": ("sign", jnp.sign, away()),
    "exp": ("exp", jnp.exp, uniform()),
    "log": ("log", jnp.log, POSITIVE),
    "log1p": ("log1p", jnp.log1p, uniform(-0.7, 2.0)),
    "expm1": ("expm1", jnp.expm1, uniform()),
    "sqrt": ("sqrt", jnp.sqrt, POSITIVE),
    "rsqrt": ("rsqrt", jax.lax.rsqrt, POSITIVE),
    "sin": ("sin", jnp.sin, uniform(-9, 9)),
    "cos": ("cos", jnp.cos, uniform(-9, 9)),
    "tanh": ("tanh", jnp.tanh, uniform(-4, 4)),
    "sigmoid": ("sigmoid", jax.nn.sigmoid, uniform(-6, 6)),
    "relu": ("relu", jax.nn.relu, away()),
    "erf": ("erf", jax.scipy.special.erf, uniform(-3, 3)),
    "square": ("square", jnp.square, uniform()),
    "recip": ("reciprocal", lambda x: 1 / x, away(0.3)),
    "floor": ("floor", jnp.floor, between),
    "ceil": ("ceil", jnp.ceil, between),
    "round": ("round", jnp.round, between),
    "leaky_relu": (lambda x: x.leaky_relu(0.2), lambda x: jnp.where(x > 0, x, 0.2 * x), away()),
    "elu": (lambda x: x.elu(0.7), lambda x: jnp.where(x > 0, x, 0.7 * jnp.expm1(jnp.where(x > 0, 0.0, x))), away()),
    "gelu_erf": ("gelu", lambda x: jax.nn.gelu(x, approximate=False), uniform(-4, 4)),
    "gelu_tanh": (lambda x: x.gelu("tanh"), lambda x: jax.nn.gelu(x, approximate=True), uniform(-4, 4)),
    "silu": ("silu", jax.nn.silu, uniform(-6, 6)),
    "softplus": (lambda x: x.softplus(2.0), lambda x: jnp.logaddexp(2.0 * x, 0.0) / 2.0, uniform(-4, 4)),
    "clamp": (lambda x: x.clamp(-0.5, 0.75), lambda x: jnp.clip(x, -0.5, 0.75), lambda rng, shape: between(rng, shape) + 0.06),
}


def unary():
    for name, (ours, theirs, drawing) in UNARY.items():
        ours = getattr(ternion.Tensor, ours) if isinstance(ours, str) else ours
        for shape in SHAPES:
            yield Case(f"{name} {name}_grad", f"{shape}", ours, theirs, (shape, drawing))


def tensor_of(numbers):
    return ternion.tensor(np.asarray(numbers))


BINARY = {
    "add": (lambda a, b: a + b, jnp.add, uniform(), uniform()),
    "sub": (lambda a, b: a - b, jnp.subtract, uniform(), uniform()),
    "mul": (lambda a, b: a * b, jnp.multiply, uniform(), uniform()),
    "div": (lambda a, b: a / b, jnp.divide, uniform(), away(0.4)),
    "pow": (lambda a, b: a**b, jnp.power, POSITIVE, uniform()),
    "maximum": (ternion.Tensor.maximum, jnp.maximum, uniform(0.1, 1.0), uniform(-1.0, 0.0)),
    "minimum": (ternion.Tensor.minimum, jnp.minimum, uniform(0.1, 1.0), uniform(1.1, 2.0)),
    "atan2": (ternion.Tensor.atan2, jnp.arctan2, away(), away()),
    "remainder": (ternion.Tensor.remainder, jnp.remainder, between, lambda rng, shape: np.full(shape, 0.9)),
    "add_relu": (OPS.add_relu, lambda a, b: jax.nn.relu(a + b), away(1.0), uniform(-0.75, 0.75)),
    "scale_add": (lambda a, b: OPS.scale_add(a, -0.625, b), lambda a, b: -0.625 * a + b, uniform(), uniform()),
}
BROADCASTS = [((3, 5), (3, 5)), ((), ()), ((4, 1), (3,)), ((2, 3, 1), (1, 5)), ((), (2, 3)), ((0, 3), (1, 3))]


def binary():
    for name, (ours, theirs, left, right) in BINARY.items():
        for a, b in BROADCASTS:
            yield Case(name, f"{a}{b}", ours, theirs, (a, left), (b, right))
    for shapes in [((3, 5),) * 3, ((4, 1), (3,), (2, 1, 3)), ((),) * 3]:
        inputs = [(shape, uniform()) for shape in shapes]
        yield Case("multiply_add", f"{shapes}", OPS.multiply_add, lambda a, b, c: a * b + c, *inputs)
    activations = {
        "relu": jax.nn.relu, "tanh": jnp.tanh, "sigmoid": jax.nn.sigmoid, "gelu": lambda x: jax.nn.gelu(x, approximate=False),
        "silu": jax.nn.silu, "square": jnp.square,
    }  # fmt: skip
    for name, theirs in activations.items():
        for shape in [(5,), (3, 5), (2, 3, 5), (0, 5)]:
            yield Case(
                "bias_activation", f"{name}{shape}", lambda x, b, name=name: OPS.bias_activation(x, b, name),
                lambda x, b, theirs=theirs: theirs(x + b), (shape, away(1.0)), ((5,), uniform(-0.75, 0.75)),
            )  # fmt: skip


def scalars():
    forms = {
        "add_scalar": [(lambda x: x + 2.5, lambda x: x + 2.5, uniform())],
        "sub_scalar": [(lambda x: x - 2.5, lambda x: x - 2.5, uniform()), (lambda x: 2.5 - x, lambda x: 2.5 - x, uniform())],
        "mul_scalar": [(lambda x: x * -1.7, lambda x: x * -1.7, uniform())],
        "div_scalar": [(lambda x: x / 3, lambda x: x / 3, uniform()), (lambda x: 3 / x, lambda x: 3 / x, away(0.3))],
        "maximum_scalar": [(lambda x: OPS.maximum_scalar(x, 0.0), lambda x: jnp.maximum(x, 0.0), away())],
        "minimum_scalar": [(lambda x: OPS.minimum_scalar(x, 0.0), lambda x: jnp.minimum(x, 0.0), away())],
        "atan2_scalar": [(ternion.Tensor.atan, jnp.arctan, uniform())],
        "remainder_scalar": [(lambda x: x % 0.9, lambda x: jnp.remainder(x, 0.9), lambda rng, shape: rng.integers(-3, 3, shape) * 0.9 + 0.4)],
        "pow_scalar": [
            (lambda x: x**3, lambda x: x**3, uniform()), (lambda x: x**-2, lambda x: x**-2, away(0.4)),
            (lambda x: x**0.5, lambda x: x**0.5, POSITIVE), (lambda x: x**2, lambda x: x**2, uniform()),
            (lambda x: 2.0**x, lambda x: 2.0**x, uniform()), (lambda x: x**1.7, lambda x: x**1.7, POSITIVE),
        ],
    }  # fmt: skip
    for name, pairs in forms.items():
        for number, (ours, theirs, drawing) in enumerate(pairs):
            for shape in SHAPES:
                yield Case(name, f"{number}{shape}", ours, theirs, (shape, drawing))


# ---- Reductions

AXES = [((3, 5), None), ((3, 5), 0), ((2, 3, 4), (0, 2)), ((2, 3, 4), -1), ((1, 1), 1), ((4,), 0)]


def reductions():
    plain = {
        "sum": (lambda x, d, k: x.sum(d, k), jnp.sum, uniform()),
        "mean": (lambda x, d, k: x.mean(d, k), jnp.mean, uniform()),
        "prod": (lambda x, d, k: x.prod(d, k), jnp.prod, away(0.4)),
        "max": (lambda x, d, k: x.amax(d, k), jnp.max, distinct),
        "min": (lambda x, d, k: x.amin(d, k), jnp.min, distinct),
        "logsumexp": (lambda x, d, k: x.logsumexp(d, k), lambda x, axis, keepdims: jax.scipy.special.logsumexp(x, axis, keepdims=keepdims), uniform()),
    }  # fmt: skip
    for name, (ours, theirs, drawing) in plain.items():
        for shape, axes in AXES:
            for keep in (False, True):
                yield Case(
                    name, f"{shape}{axes}{keep}", lambda x, f=ours, d=axes, k=keep: f(x, d, k),
                    lambda x, f=theirs, d=axes, k=keep: f(x, axis=d, keepdims=k), (shape, drawing),
                )  # fmt: skip
    for shape, axes in AXES:
        yield Case("sum_squares", f"{shape}{axes}", lambda x, d=axes: OPS.sum_squares(x, d), lambda x, d=axes: jnp.sum(x * x, axis=d), (shape, uniform()))
        yield Case("max_abs", f"{shape}{axes}", lambda x, d=axes: OPS.max_abs(x, d), lambda x, d=axes: jnp.max(jnp.abs(x), axis=d), (shape, distinct))
        for p in (1.0, 2.0, 3.0, math.inf):
            def theirs(x, p=p, d=axes):
                return jnp.max(jnp.abs(x), axis=d) if p == math.inf else jnp.sum(jnp.abs(x) ** p, axis=d) ** (1 / p)

            # For norms of one element, the second gradient is 0 and JAX's is a rounding error.
            is_of_many = math.prod(shape if axes is None else [shape[axis] for axis in (axes if isinstance(axes, tuple) else (axes,))]) != 1
            yield Case("norm", f"{p}{shape}{axes}", lambda x, p=p, d=axes: x.norm(p, d), theirs, (shape, distinct), second=is_of_many)
    for shapes in [((3, 5), (4,), ()), ((2, 3, 4),), ((0, 2), (1,), (7,))]:
        yield Case(
            "multi_tensor_norm total_norm", f"{shapes}", lambda *x: _ternion._total_norm(list(x)),
            lambda *x: jnp.sqrt(sum(jnp.sum(each * each) for each in x)), *((shape, away()) for shape in shapes),
        )  # fmt: skip
    for shape, axes in [((3, 5), None), ((3, 5), 0), ((2, 3, 4), (0, 2)), ((4,), 0)]:
        for correction in (0, 1):
            yield Case(
                "var", f"{shape}{axes}{correction}", lambda x, d=axes, c=correction: x.var(d, correction=c),
                lambda x, d=axes, c=correction: jnp.var(x, axis=d, ddof=c), (shape, uniform()),
            )  # fmt: skip
    for shape, axis in [((5,), 0), ((3, 4), 1), ((2, 3, 4), 0), ((2, 0), 1)]:
        yield Case("cumsum", f"{shape}{axis}", lambda x, d=axis: x.cumsum(d), lambda x, d=axis: jnp.cumsum(x, axis=d), (shape, uniform()))


# ---- Products


def products():
    for a, b in [((3, 4), (4, 5)), ((4,), (4,)), ((3, 4), (4,)), ((4,), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((0, 4), (4, 5)), ((3, 0), (0, 2))]:
        yield Case("matmul", f"{a}{b}", lambda a, b: a @ b, jnp.matmul, (a, uniform()), (b, uniform()))
    for shape in [(4,), (3, 4), (2, 3, 4)]:
        inputs = [(shape, uniform()), ((5, 4), uniform())]
        yield Case("linear", f"{shape}", F.linear, lambda x, w: x @ w.T, *inputs)
        yield Case("linear", f"bias{shape}", F.linear, lambda x, w, b: x @ w.T + b, *inputs, ((5,), uniform()))
    for shape in [(3, 5), (5,), (3, 1), ()]:
        inputs = [(shape, uniform()), ((3, 4), uniform()), ((4, 5), uniform())]
        yield Case("addmm", f"{shape}", lambda c, a, b: c.addmm(a, b, beta=0.5, alpha=-2.0), lambda c, a, b: 0.5 * c - 2.0 * (a @ b), *inputs)
    yield Case("outer", "", ternion.Tensor.outer, jnp.outer, ((3,), uniform()), ((5,), uniform()))
    yield Case("dot", "", ternion.Tensor.dot, jnp.dot, ((5,), uniform()), ((5,), uniform()))
    for equation, *shapes in [
        ("ij,jk->ik", (3, 4), (4, 5)), ("bij,bjk->bik", (2, 3, 4), (2, 4, 5)), ("ij->ji", (3, 4)), ("ii->i", (4, 4)), ("ij->", (3, 4)),
        ("...i,...i->...", (2, 3, 4), (3, 4)), ("i,j->ij", (3,), (4,)), ("bhqd,bhkd->bhqk", (2, 2, 3, 4), (2, 2, 5, 4)),
    ]:  # fmt: skip
        inputs = [(shape, uniform()) for shape in shapes]
        yield Case(
            "einsum", equation, lambda *x, e=equation: ternion.einsum(e, *x), lambda *x, e=equation: jnp.einsum(e, *x, precision="highest"), *inputs
        )


def attention(q, k, v, mask=None, causal=False, scale=None):
    scores = jnp.einsum("bhqd,bhkd->bhqk", q, k) * (scale or 1 / math.sqrt(q.shape[-1]))
    if causal:
        scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    if mask is not None:
        scores = jnp.where(mask, scores, -jnp.inf) if mask.dtype == bool else scores + mask
    return jnp.einsum("bhqk,bhkd->bhqd", jax.nn.softmax(scores, axis=-1), v)


def attentions():
    rng = np.random.default_rng(5)
    mask, bias = rng.random((4, 6)) < 0.7, rng.normal(size=(4, 6))
    mask[:, 0] = True
    q, k = (2, 3, 4, 5), (2, 3, 6, 5)
    inputs, square = [(q, uniform()), (k, uniform()), (k, uniform())], [(k, uniform())] * 3
    sdpa = F.scaled_dot_product_attention
    name = "attention attention_grad"
    yield Case(name, "plain", sdpa, attention, *inputs)
    yield Case(name, "causal", lambda q, k, v: sdpa(q, k, v, is_causal=True), lambda q, k, v: attention(q, k, v, causal=True), *square)
    yield Case(name, "scale", lambda q, k, v: sdpa(q, k, v, scale=0.3), lambda q, k, v: attention(q, k, v, scale=0.3), *inputs)
    yield Case(name, "truth", lambda q, k, v: sdpa(q, k, v, attn_mask=tensor_of(mask)), lambda q, k, v: attention(q, k, v, mask), *inputs)
    yield Case(name, "bias", lambda q, k, v: sdpa(q, k, v, attn_mask=tensor_of(bias)), lambda q, k, v: attention(q, k, v, bias), *inputs)
    shared = [*inputs, ((4, 6), uniform())]
    yield Case(f"{name} attention_grad_mask", "bias with a gradient", lambda q, k, v, bias: sdpa(q, k, v, attn_mask=bias), attention, *shared)
    one = (1, 1, 1, 1)
    yield Case(name, "one", sdpa, attention, (one, uniform()), (one, uniform()), (one, uniform()))


# ---- Softmax, norms, losses


def normalizations():
    for shape, axis in [((5,), 0), ((3, 4), 1), ((2, 3, 4), 1), ((3, 1), 1)]:
        yield Case("softmax softmax_grad", f"{shape}{axis}", lambda x, d=axis: x.softmax(d), lambda x, d=axis: jax.nn.softmax(x, axis=d), (shape, uniform()))
        yield Case(
            "log_softmax log_softmax_grad", f"{shape}{axis}", lambda x, d=axis: x.log_softmax(d), lambda x, d=axis: jax.nn.log_softmax(x, axis=d), (shape, uniform())
        )

    def moments(x, axes, eps):
        mean = x.mean(axes, keepdims=True)
        return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(axes, keepdims=True) + eps)

    for shape, width in [((3, 5), (5,)), ((2, 3, 4), (3, 4)), ((4,), (4,))]:
        affine = [(width, uniform())] * 2
        axes = tuple(range(-len(width), 0))
        name = "layer_norm layer_norm_grad"
        yield Case(name, f"{shape}", lambda x, w=width: F.layer_norm(x, w), lambda x, a=axes: moments(x, a, 1e-5), (shape, uniform()))
        yield Case(
            name, f"affine{shape}", lambda x, g, b, w=width: F.layer_norm(x, w, g, b, 1e-3), lambda x, g, b, a=axes: moments(x, a, 1e-3) * g + b,
            (shape, uniform()), *affine,
        )  # fmt: skip
        yield Case(
            "rms_norm rms_norm_grad", f"{shape}", lambda x, g, w=width: F.rms_norm(x, w, g, 1e-3),
            lambda x, g, a=axes: x / jnp.sqrt((x * x).mean(a, keepdims=True) + 1e-3) * g, (shape, uniform()), (width, uniform()),
        )  # fmt: skip

    def by_channel(values, x):
        return values.reshape((1, -1) + (1,) * (x.ndim - 2))

    def batch_norm(x, g, b):
        return moments(x, (0, *range(2, x.ndim)), 1e-5) * by_channel(g, x) + by_channel(b, x)

    mean, var = np.array([0.3, -0.2, 0.1]), np.array([0.5, 1.5, 0.9])
    for shape in [(4, 3), (2, 3, 5), (2, 3, 4, 2)]:
        inputs = [(shape, uniform()), ((3,), uniform()), ((3,), uniform())]
        yield Case("batch_norm batch_norm_grad", f"{shape}", lambda x, g, b: F.batch_norm(x, None, None, g, b, training=True), batch_norm, *inputs)
        yield Case(
            "batch_norm_eval", f"{shape}", lambda x, g, b: F.batch_norm(x, tensor_of(mean), tensor_of(var), g, b),
            lambda x, g, b: (x - by_channel(mean, x)) / jnp.sqrt(by_channel(var, x) + 1e-5) * by_channel(g, x) + by_channel(b, x), *inputs,
        )  # fmt: skip

    def group_norm(x, g, b):
        grouped = x.reshape(x.shape[0], 2, -1)
        return moments(grouped, 2, 1e-5).reshape(x.shape) * by_channel(g, x) + by_channel(b, x)

    for shape in [(3, 4), (2, 4, 3), (2, 4, 3, 2)]:
        yield Case("group_norm", f"{shape}", lambda x, g, b: F.group_norm(x, 2, g, b), group_norm, (shape, uniform()), ((4,), uniform()), ((4,), uniform()))


def reduced(values, reduction):
    return {"none": lambda: values, "mean": values.mean, "sum": values.sum}[reduction]()


def losses():
    labels, ignoring = np.array([1, 0, 3, 3]), np.array([1, -100, 3, 0])
    weights = np.array([0.5, 1.5, 2.0, 0.7, 1.0])

    def cross_entropy(x, labels, reduction, smoothing=0.0, weights=np.ones(5), take=jax.nn.log_softmax):
        logs, counts, picked = take(x), labels >= 0, np.maximum(labels, 0)
        row_weights = weights[picked] * counts
        rows = -(1 - smoothing) * row_weights * logs[np.arange(len(labels)), picked] - smoothing / 5 * counts * (logs * weights).sum(1)
        return rows.sum() / row_weights.sum() if reduction == "mean" else reduced(rows, reduction)

    x = ((4, 5), uniform(-3, 3))
    name = "cross_entropy cross_entropy_grad"
    for reduction in ("mean", "sum", "none"):
        for label, target in (("", labels), ("ignoring", ignoring)):
            yield Case(
                name, f"{reduction}{label}", lambda x, t=target, r=reduction: F.cross_entropy(x, tensor_of(t), reduction=r),
                lambda x, t=target, r=reduction: cross_entropy(x, t, r), x,
            )  # fmt: skip
        yield Case(
            name, f"{reduction} smooth, weighted",
            lambda x, r=reduction: F.cross_entropy(x, tensor_of(labels), tensor_of(weights), reduction=r, label_smoothing=0.1),
            lambda x, r=reduction: cross_entropy(x, labels, r, 0.1, weights), x,
        )  # fmt: skip
        yield Case(
            "nll_loss", reduction, lambda x, r=reduction: F.nll_loss(x, tensor_of(ignoring), tensor_of(weights), reduction=r),
            lambda x, r=reduction: cross_entropy(x, ignoring, r, 0.0, weights, lambda x: x), x,
        )  # fmt: skip
        pairs = {
            "mse_loss": (F.mse_loss, lambda d: d * d), "l1_loss": (F.l1_loss, jnp.abs),
            "huber_loss": (lambda a, b, reduction: F.huber_loss(a, b, reduction, 0.7), lambda d: jnp.where(jnp.abs(d) < 0.7, d * d / 2, 0.7 * (jnp.abs(d) - 0.35))),
        }  # fmt: skip
        for loss, (ours, theirs) in pairs.items():
            yield Case(
                loss, reduction, lambda a, b, f=ours, r=reduction: f(a, b, reduction=r), lambda a, b, f=theirs, r=reduction: reduced(f(a - b), r),
                ((3, 4), uniform()), ((3, 4), uniform(2.1, 4)),
            )  # fmt: skip
        positive = np.array([0.5, 2.0, 1.0, 3.0])

        def logits(x, t, r=reduction):
            return reduced((1 - t) * x + (1 + (positive - 1) * t) * jnp.logaddexp(-x, 0.0), r)

        yield Case(
            "bce_with_logits", reduction, lambda x, t, r=reduction: F.binary_cross_entropy_with_logits(x, t, reduction=r, pos_weight=tensor_of(positive)), logits,
            ((3, 4), uniform(-4, 4)), ((3, 4), uniform(0.05, 0.95)),
        )  # fmt: skip
        yield Case(
            "kl_div", reduction, lambda x, t, r=reduction: F.kl_div(x, t, reduction=r), lambda x, t, r=reduction: reduced(t * (jnp.log(t) - x), r),
            ((3, 4), uniform(-3, 0)), ((3, 4), uniform(0.05, 0.95)),
        )  # fmt: skip
        yield Case(
            "kl_div", f"{reduction} log", lambda x, t, r=reduction: F.kl_div(x, t, reduction=r, log_target=True),
            lambda x, t, r=reduction: reduced(jnp.exp(t) * (t - x), r), ((3, 4), uniform(-3, 0)), ((3, 4), uniform(-3, 0)),
        )  # fmt: skip
    soft = np.random.default_rng(2).dirichlet(np.ones(5), 4)
    yield Case(name, "soft", lambda x: F.cross_entropy(x, tensor_of(soft)), lambda x: -(soft * jax.nn.log_softmax(x)).sum(1).mean(), x)

    def of_linear(x, weight, bias, t, r, smoothing):
        return cross_entropy(x @ weight.T + bias, t, r, smoothing)

    for reduction, smoothing in (("mean", 0.0), ("mean", 0.1), ("sum", 0.0)):
        yield Case(
            "linear_cross_entropy", f"{reduction} {smoothing}",
            lambda x, weight, bias, r=reduction, s=smoothing: F.linear_cross_entropy(
                x, weight, tensor_of(ignoring), linear_bias=bias, reduction=r, label_smoothing=s, chunk_rows=3
            ),
            lambda x, weight, bias, r=reduction, s=smoothing: of_linear(x, weight, bias, ignoring, r, s),
            ((4, 3), uniform(-1, 1)), ((5, 3), uniform(-1, 1)), ((5,), uniform(-1, 1)),
        )  # fmt: skip
    # From this number of logits on, the gradient is computed together with the loss.
    many = np.random.default_rng(3).integers(0, 512, 640)
    yield Case(
        "cross_entropy_with_grad", "", lambda x: F.cross_entropy(x, tensor_of(many)),
        lambda x: -jax.nn.log_softmax(x)[np.arange(640), many].mean(), ((640, 512), uniform(-3, 3)),
    )  # fmt: skip


# ---- Windows


def conv(x, w, stride=(1, 1), padding=(0, 0), dilation=(1, 1), groups=1):
    return jax.lax.conv_general_dilated(
        x, w, stride, [(p, p) for p in padding], rhs_dilation=dilation, feature_group_count=groups, precision="highest",
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )  # fmt: skip


def patches(x, kernel, stride, padding, dilation, fill=0.0):
    """Maps [.., rows, columns] to [kernel positions, .., vertical windows, horizontal windows]."""
    pads = [(0, 0)] * (x.ndim - 2) + [(p, p) for p in padding]
    x = jnp.pad(x, pads, constant_values=fill)
    counts = [(x.shape[axis - 2] - dilation[axis] * (kernel[axis] - 1) - 1) // stride[axis] + 1 for axis in (0, 1)]
    windows = []
    for i in range(kernel[0]):
        for j in range(kernel[1]):
            rows = i * dilation[0] + np.arange(counts[0]) * stride[0]
            columns = j * dilation[1] + np.arange(counts[1]) * stride[1]
            windows.append(x[..., rows[:, None], columns[None, :]])
    return jnp.stack(windows)


def columns(x, kernel, stride, padding, dilation):
    windows = jnp.moveaxis(patches(x, kernel, stride, padding, dilation), 0, 2)
    return windows.reshape(x.shape[0], x.shape[1] * kernel[0] * kernel[1], -1)


def windows():
    settings = [((1, 1), (0, 0), (1, 1), 1), ((2, 1), (1, 2), (1, 1), 1), ((1, 2), (1, 0), (2, 1), 2)]
    name = "conv2d conv2d_grad_input conv2d_grad_weight"
    for stride, padding, dilation, groups in settings:
        x, w = ((2, 4, 6, 5), uniform()), ((6, 4 // groups, 3, 2), uniform())
        options = dict(stride=stride, padding=padding, dilation=dilation, groups=groups)
        label = f"{stride}{padding}{dilation}{groups}"
        yield Case(name, label, lambda x, w, b, o=options: F.conv2d(x, w, b, **o), lambda x, w, b, o=options: conv(x, w, **o) + b[:, None, None], x, w, ((6,), uniform()))
        yield Case(
            "conv1d", label, lambda x, w, o=options: F.conv1d(x, w, None, o["stride"][0], o["padding"][0], o["dilation"][0], o["groups"]),
            lambda x, w, o=options: conv(x[..., None], w[..., None], (o["stride"][0], 1), (o["padding"][0], 0), (o["dilation"][0], 1), o["groups"])[..., 0],
            ((2, 4, 7), uniform()), ((6, 4 // groups, 3), uniform()),
        )  # fmt: skip
    for stride, padding, extra, groups in [((1, 1), (0, 0), (0, 0), 1), ((2, 3), (1, 0), (1, 2), 2)]:
        def transposed(x, w, s=stride, p=padding, e=extra, g=groups):
            size = [(x.shape[2 + a] - 1) * s[a] - 2 * p[a] + w.shape[2 + a] + e[a] for a in (0, 1)]
            image = jnp.zeros((x.shape[0], w.shape[1] * g, *size))
            # The gradient of a convolution with respect to its images.
            return jax.vjp(lambda image: conv(image, w, s, p, groups=g), image)[1](x)[0]

        yield Case(
            "conv_transpose2d", f"{stride}{padding}{extra}{groups}",
            lambda x, w, s=stride, p=padding, e=extra, g=groups: F.conv_transpose2d(x, w, None, s, p, e, g), transposed,
            ((2, 4, 3, 4), uniform()), ((4, 3, 3, 2), uniform()),
        )  # fmt: skip
    for kernel, stride, padding, dilation in [((3, 2), (1, 1), (0, 0), (1, 1)), ((2, 2), (2, 1), (1, 1), (1, 2))]:
        window = (kernel, stride, padding, dilation)
        yield Case("im2col", f"{window}", lambda x, w=window: OPS.im2col(x, *w), lambda x, w=window: columns(x, *w), ((2, 3, 6, 5), uniform()))
        length = jax.eval_shape(lambda x, w=window: columns(x, *w), jax.ShapeDtypeStruct((2, 3, 6, 5), np.float64)).shape

        def folded(y, w=window):
            return jax.vjp(lambda x: columns(x, *w), jnp.zeros((2, 3, 6, 5)))[1](y)[0]

        yield Case("col2im", f"{window}", lambda y, w=window: OPS.col2im(y, (6, 5), *w), folded, (length, uniform()))
    yield from pools()


def pools():
    x = ((2, 3, 7, 6), distinct)
    for kernel, stride, padding, dilation in [((2, 2), (2, 2), (0, 0), (1, 1)), ((3, 2), (2, 1), (1, 1), (1, 1)), ((2, 2), (1, 1), (0, 0), (2, 1))]:
        window = (kernel, stride, padding, dilation)
        yield Case("max_pool2d max_pool2d_grad", f"{window}", lambda x, w=window: F.max_pool2d(x, *w), lambda x, w=window: patches(x, *w, fill=-jnp.inf).max(0), x)
    for kernel, stride, padding in [((2, 2), (2, 2), (0, 0)), ((3, 2), (2, 1), (1, 1))]:
        window = (kernel, stride, padding, (1, 1))

        def mean_inside(x, w=window):
            return patches(x, *w).sum(0) / patches(jnp.ones(x.shape), *w).sum(0)

        name = "avg_pool2d avg_pool2d_grad"
        yield Case(name, f"{window}", lambda x, w=window: F.avg_pool2d(x, *w[:3]), lambda x, w=window: patches(x, *w).mean(0), x)
        yield Case(name, f"inside{window}", lambda x, w=window: F.avg_pool2d(x, *w[:3], count_include_pad=False), mean_inside, x)

    def adaptive(x, rows, columns):
        def edges(size, parts):
            return [(part * size // parts, -(-(part + 1) * size // parts)) for part in range(parts)]

        cells = [[x[..., a:b, c:d].mean((-2, -1)) for c, d in edges(x.shape[-1], columns)] for a, b in edges(x.shape[-2], rows)]
        return jnp.stack([jnp.stack(row, -1) for row in cells], -2)

    for size in [(1, 1), (3, 2), (7, 4)]:
        yield Case("adaptive_avg_pool2d", f"{size}", lambda x, s=size: F.adaptive_avg_pool2d(x, s), lambda x, s=size: adaptive(x, *s), x)


# ---- Moving elements


def indices():
    rng = np.random.default_rng(7)
    rows, twice = np.array([2, 0, 2]), rng.integers(0, 4, (3, 5))
    at, mask = rng.permuted(np.tile(np.arange(4), (5, 1)), axis=1).T[:3], rng.random((4, 5)) < 0.5
    x, source = ((4, 5), uniform()), ((3, 5), uniform())

    def by_axis(array, index):
        return array, (index, np.arange(array.shape[1])[None, :].repeat(len(index), 0))

    def put(method, index):
        def theirs(x, s):
            array, position = by_axis(x, index)
            return getattr(array.at[position], method)(s)

        return theirs

    yield Case("gather", "", lambda x: x.gather(0, tensor_of(twice)), lambda x: jnp.take_along_axis(x, jnp.asarray(twice), 0), x)
    yield Case("gather", "last", lambda x: x.gather(1, tensor_of(rows[:, None])), lambda x: jnp.take_along_axis(x[:3], jnp.asarray(rows[:, None]), 1), x)
    yield Case("scatter_add", "", lambda x, s: x.scatter_add(0, tensor_of(twice), s), put("add", twice), x, source)
    yield Case("scatter_set", "", lambda x, s: x.scatter(0, tensor_of(at), s), put("set", at), x, source)
    yield Case("index_add", "", lambda x, s: x.index_add(0, tensor_of(rows), s), lambda x, s: x.at[rows].add(s), x, source)
    yield Case("index_select", "0", lambda x: x.index_select(0, tensor_of(rows)), lambda x: x[rows], x)
    yield Case("index_select", "1", lambda x: x.index_select(1, tensor_of(rows)), lambda x: x[:, rows], x)
    yield Case("embedding", "", lambda x: F.embedding(tensor_of(twice), x), lambda x: x[twice], x)
    yield Case("masked_select", "", lambda x: x.masked_select(tensor_of(mask)), lambda x: x[mask], x)
    count = ((int(mask.sum()) + 2,), uniform())
    yield Case(
        "masked_scatter", "", lambda x, s: x.masked_scatter(tensor_of(mask), s), lambda x, s: x.at[mask].set(s[: int(mask.sum())]), x, count
    )
    yield Case("where", "", lambda a, b: ternion.where(tensor_of(mask), a, b), lambda a, b: jnp.where(mask, a, b), x, x)
    yield Case("where", "broadcast", lambda a, b: ternion.where(tensor_of(mask), a, b), lambda a, b: jnp.where(mask, a, b), ((5,), uniform()), ((4, 1), uniform()))
    keys = {
        "slice": [np.s_[1:3], np.s_[::2, 1:], np.s_[..., 3:0:-1], np.s_[0:0]],
        "index": [np.s_[rows], np.s_[rows, :2], np.s_[:, rows], np.s_[mask], np.s_[rows, np.array([1, 1, 4])], np.s_[None, rows, None]],
    }  # fmt: skip
    for name, list_of in keys.items():
        for number, key in enumerate(list_of):
            yield Case(name, f"{number}", lambda x, k=key: x[ours_of(k)], lambda x, k=key: x[k], x)

    def assigned(x, s):
        y = x * 1.0
        y[1:, ::2] = s
        return y

    yield Case("slice_assign", "", assigned, lambda x, s: (x * 1.0).at[1:, ::2].set(s), x, ((3, 3), uniform()))
    yield Case("slice_assign", "broadcast", assigned, lambda x, s: (x * 1.0).at[1:, ::2].set(s), x, ((3,), uniform()))
    for axis in (0, 1):
        for descending in (False, True):
            sign = -1 if descending else 1
            yield Case(
                "sort", f"{axis}{descending}", lambda x, d=axis, r=descending: x.sort(d, r).values, lambda x, d=axis, s=sign: s * jnp.sort(s * x, axis=d),
                ((4, 5), distinct),
            )  # fmt: skip
    yield Case("topk", "largest", lambda x: x.topk(3).values, lambda x: jax.lax.top_k(x, 3)[0], ((4, 5), distinct))
    yield Case("topk", "smallest", lambda x: x.topk(2, 0, False).values, lambda x: jnp.sort(x, axis=0)[:2], ((4, 5), distinct))


def ours_of(key):
    """Converts an index with arrays to one with tensors."""
    if isinstance(key, tuple):
        return tuple(ours_of(part) for part in key)
    return tensor_of(key) if isinstance(key, np.ndarray) else key


def shapes():
    x = ((2, 3, 4), uniform())
    pairs = [
        ("copy", lambda x: x.clone(), lambda x: x), ("copy", lambda x: x.transpose(0, 2).contiguous(), lambda x: x.swapaxes(0, 2)),
        ("reshape", lambda x: x.reshape(4, -1), lambda x: x.reshape(4, 6)), ("reshape", lambda x: x.unflatten(2, (2, 2)), lambda x: x.reshape(2, 3, 2, 2)),
        ("flatten", lambda x: x.flatten(1), lambda x: x.reshape(2, 12)), ("flatten", lambda x: x.flatten(), lambda x: x.reshape(-1)),
        ("squeeze", lambda x: x[:, :1].squeeze(1), lambda x: x[:, 0]), ("squeeze", lambda x: x[:1, :1].squeeze(), lambda x: x[0, 0]),
        ("unsqueeze", lambda x: x.unsqueeze(1), lambda x: x[:, None]), ("unsqueeze", lambda x: x.unsqueeze(-1), lambda x: x[..., None]),
        ("permute", lambda x: x.permute(2, 0, 1), lambda x: x.transpose(2, 0, 1)), ("transpose", lambda x: x.transpose(0, -1), lambda x: x.swapaxes(0, 2)),
        ("t", lambda x: x[0].t(), lambda x: x[0].T), ("flip", lambda x: x.flip(0, 2), lambda x: jnp.flip(x, (0, 2))),
        ("narrow", lambda x: x.narrow(2, 1, 2), lambda x: x[:, :, 1:3]), ("select", lambda x: x.select(1, -1), lambda x: x[:, -1]),
        ("expand", lambda x: x[:, :1].expand(5, 2, 3, 4), lambda x: jnp.broadcast_to(x[:, :1], (5, 2, 3, 4))),
        ("unfold", lambda x: x.unfold(2, 3, 1), lambda x: jnp.stack([x[..., i : i + 3] for i in range(2)], 2)),
        ("unfold", lambda x: x.unfold(1, 2, 2), lambda x: x[:, :2].swapaxes(1, 2)[:, None]),
        ("roll", lambda x: x.roll((1, -2), (0, 2)), lambda x: jnp.roll(x, (1, -2), (0, 2))), ("roll", lambda x: x.roll(5), lambda x: jnp.roll(x, 5)),
        ("repeat", lambda x: x.repeat(2, 1, 1, 3), lambda x: jnp.tile(x, (2, 1, 1, 3))), ("chunk", lambda x: x.chunk(3, 2), lambda x: (x[..., :2], x[..., 2:])),
        ("split", lambda x: x.split(2, 1), lambda x: (x[:, :2], x[:, 2:])), ("split_sizes", lambda x: x.split([1, 3], 2), lambda x: (x[..., :1], x[..., 1:])),
        ("pad", lambda x: F.pad(x, (1, 2)), lambda x: jnp.pad(x, ((0, 0), (0, 0), (1, 2)))),
        ("pad", lambda x: F.pad(x, (0, 1, 2, 0), value=1.5), lambda x: jnp.pad(x, ((0, 0), (2, 0), (0, 1)), constant_values=1.5)),
    ]  # fmt: skip
    for number, (name, ours, theirs) in enumerate(pairs):
        yield Case(name, f"{number}", ours, theirs, x)
    parts = [((2, 1, 4), uniform()), ((2, 0, 4), uniform()), ((2, 3, 4), uniform())]
    yield Case("concat", "", lambda *x: ternion.cat(x, 1), lambda *x: jnp.concatenate(x, 1), *parts)
    yield Case("stack", "", lambda *x: ternion.stack(x, 1), lambda *x: jnp.stack(x, 1), x, x)

    def dropped(x):
        ternion.manual_seed(11)
        return F.dropout(x, 0.4)

    mask = dropped(ternion.ones(2, 3, 4, dtype=ternion.float64)).numpy().copy()
    yield Case("dropout", "", dropped, lambda x: x * mask, x)


def linear_algebra():
    return [Case(*entry) for entry in LINEAR_ALGEBRA]


def cases():
    """Returns all cases."""
    from jax_activations import activations
    from jax_arithmetic import arithmetic
    from jax_composed import composed_in_core
    from jax_forms import cases as forms
    from jax_functions import chosen, composed
    from jax_volumes import volumes

    groups = (
        unary, composed, chosen, binary, scalars, reductions, products, attentions, normalizations, losses, windows, volumes, indices, shapes,
        linear_algebra, composed_in_core, arithmetic, forms, activations,
    )  # fmt: skip
    return [case for group in groups for case in group()]
