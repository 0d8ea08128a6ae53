"""Activations and stateless layers that core composes from ops, in Ternion and in JAX: a part of
`jax_cases`."""

import jax
import jax.numpy as jnp
import numpy as np

import ternion
from jax_cases import POSITIVE, SHAPES, Case, away, uniform
from ternion.nn import functional as F


def pieces(rng, shape):
    """Numbers below -3, between -3 and 3, and above 3."""
    return rng.choice([-4.5, 0.0, 4.5], shape) + rng.uniform(-1.25, 1.25, shape)


UNARY = {
    "selu": (F.selu, jax.nn.selu, away()),
    "mish": (F.mish, jax.nn.mish, uniform(-4, 4)),
    "softsign": (F.softsign, jax.nn.soft_sign, away()),
    "tanhshrink": (F.tanhshrink, lambda x: x - jnp.tanh(x), uniform(-4, 4)),
    "logsigmoid": (F.logsigmoid, jax.nn.log_sigmoid, uniform(-6, 6)),
    "hardsigmoid": (F.hardsigmoid, jax.nn.hard_sigmoid, pieces),
    "hardswish": (F.hardswish, jax.nn.hard_swish, pieces),
    "celu": (lambda x: F.celu(x, 1.5), lambda x: jax.nn.celu(x, 1.5), away()),
    "softshrink": (lambda x: F.softshrink(x, 3.0), lambda x: x - jnp.clip(x, -3, 3), pieces),
    "hardshrink": (lambda x: F.hardshrink(x, 3.0), lambda x: jnp.where(jnp.abs(x) <= 3, 0, x), pieces),
    "threshold": (lambda x: F.threshold(x, 3.0, -1.0), lambda x: jnp.where(x <= 3, -1, x), pieces),
    "rrelu": (lambda x: F.rrelu(x, 0.25, 0.5), lambda x: jnp.where(x > 0, x, 0.375 * x), away()),
    "atan": (ternion.atan, jnp.arctan, uniform(-4, 4)),
    "log2": (ternion.log2, jnp.log2, POSITIVE),
    "log10": (ternion.log10, jnp.log10, POSITIVE),
}


def along_axes():
    x = ((3, 4), uniform())
    yield Case("softmin", "", lambda x: F.softmin(x, 1), lambda x: jax.nn.softmax(-x, 1), x)
    yield Case("glu", "", lambda x: F.glu(x, 1), lambda x: x[:, :2] * jax.nn.sigmoid(x[:, 2:]), x)
    yield Case("normalize", "", lambda x: F.normalize(x, 3.0, 1), lambda x: x / (jnp.abs(x) ** 3).sum(1, keepdims=True) ** (1 / 3), ((3, 4), away()))
    normed = lambda x: (x - x.mean(2, keepdims=True)) / jnp.sqrt(x.var(2, keepdims=True) + 1e-3)  # noqa: E731
    yield Case("instance_norm", "", lambda x: F.instance_norm(x, eps=1e-3), normed, ((2, 3, 5), uniform()))
    tracked = lambda x: F.instance_norm(x, ternion.zeros(3, dtype=x.dtype), ternion.ones(3, dtype=x.dtype), momentum=0.5, eps=1e-3)  # noqa: E731
    yield Case("instance_norm_tracked", "", tracked, normed, ((2, 3, 5), uniform()))
    bilinear = lambda x, y, w, b: jnp.einsum("bi,oij,bj->bo", x, w, y) + b  # noqa: E731
    yield Case("bilinear", "", F.bilinear, bilinear, x, ((3, 2), uniform()), ((5, 4, 2), uniform()), ((5,), uniform()))


def drawn():
    """Random functions, seeded so that each call draws the same numbers. Their mask is computed
    from inputs of ones and zeros."""

    def seeded(f):
        def run(x):
            ternion.manual_seed(11)
            return f(x)

        return run

    for name, shape in (("dropout1d", (3, 5, 2)), ("dropout2d", (3, 5, 2, 2))):
        ours = seeded(lambda x, f=getattr(F, name): f(x, 0.4))
        mask = ours(ternion.ones(shape, dtype=ternion.float64)).numpy().copy()
        yield Case(name, "", ours, lambda x, mask=mask: x * mask, (shape, uniform()))
    sloped = seeded(lambda x: F.rrelu(x, 0.25, 0.5, True))
    slopes = -sloped(-ternion.ones(3, 5, dtype=ternion.float64)).numpy()
    yield Case("rrelu", "training", sloped, lambda x: jnp.where(x > 0, x, x * slopes), ((3, 5), away()))
    chosen = seeded(lambda x: F.gumbel_softmax(x, 0.75))
    noise = np.log(chosen(ternion.zeros(3, 5, dtype=ternion.float64)).numpy())
    yield Case("gumbel_softmax", "", chosen, lambda x: jax.nn.softmax(x / 0.75 + noise, -1), ((3, 5), uniform()))


def activations():
    result = [Case(name, f"{shape}", ours, theirs, (shape, drawing)) for name, (ours, theirs, drawing) in UNARY.items() for shape in SHAPES]
    return result + list(along_axes()) + list(drawn())
