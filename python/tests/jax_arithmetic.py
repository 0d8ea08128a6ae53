"""Arithmetic, reductions and statistics that core composes from ops, in Ternion and in JAX: a part
of `jax_cases`."""

import jax.numpy as jnp

import ternion
from jax_cases import POSITIVE, SHAPES, Case, away, distinct, uniform
from ternion.nn import functional as F


def steps(rng, shape):
    """Numbers away from integers."""
    return rng.integers(-6, 6, shape) + rng.uniform(0.2, 0.8, shape)


def signs(x):
    return jnp.where(x < 0, -1.0, 1.0)


ONE = {
    "trunc": (ternion.trunc, jnp.trunc, steps),
    "frac": (ternion.frac, lambda x: x - jnp.trunc(x), steps),
    "round_decimals": (lambda x: ternion.round(x / 10, decimals=1), lambda x: jnp.round(x / 10, 1), lambda rng, shape: steps(rng, shape) - 0.5),
    "nan_to_num": (ternion.nan_to_num, jnp.nan_to_num, uniform()),
    "frexp": (lambda x: ternion.frexp(x).mantissa, lambda x: x / 2, lambda rng, shape: rng.uniform(1.1, 1.9, shape)),
    "deg2rad": (ternion.deg2rad, jnp.deg2rad, uniform()),
    "rad2deg": (ternion.rad2deg, jnp.rad2deg, uniform()),
}


def two():
    """Functions of two numbers."""
    pairs = {
        "floor_divide": (ternion.floor_divide, lambda a, b: jnp.floor(a / b), uniform(), away(0.3)),
        "trunc_divide": (lambda a, b: ternion.div(a, b, rounding_mode="trunc"), lambda a, b: jnp.trunc(a / b), uniform(), away(0.3)),
        "fmod": (ternion.fmod, lambda a, b: a - b * jnp.trunc(a / b), uniform(), away(0.3)),
        "copysign": (ternion.copysign, lambda a, b: a * signs(a) * signs(b), away(), away()),
        "heaviside": (ternion.heaviside, lambda a, b: jnp.where(a > 0, 1.0, 0.0) + 0 * b, away(), uniform()),
        "ldexp": (ternion.ldexp, lambda a, b: a * 2.0**b, uniform(), uniform()),
        "float_power": (ternion.float_power, lambda a, b: a**b, POSITIVE, uniform()),
        "hypot": (ternion.hypot, lambda a, b: jnp.sqrt(a * a + b * b), away(), away()),
        "lerp": (lambda a, b: ternion.lerp(a, b, 0.7), lambda a, b: a + 0.7 * (b - a), uniform(), uniform()),
        "dist": (lambda a, b: ternion.dist(a, b, 3), lambda a, b: (jnp.abs(a - b) ** 3).sum() ** (1 / 3), uniform(0, 2), uniform(-3, -1)),
        "inner": (ternion.inner, jnp.inner, uniform(), uniform()),
    }
    for name, (ours, theirs, first, second) in pairs.items():
        yield Case(name, "", ours, theirs, ((4, 3), first), ((4, 3), second))
    yield Case("tensordot", "", lambda a, b: ternion.tensordot(a, b, 2), lambda a, b: jnp.tensordot(a, b, 2), ((2, 4, 3), uniform()), ((4, 3, 5), uniform()))
    yield Case("prelu", "", F.prelu, lambda x, weight: jnp.where(x > 0, x, x * weight), ((4, 3), away()), ((3,), uniform()))


def three():
    shapes = [(4, 3), (3,), (4, 1)]
    triples = {
        "lerp_tensor": (ternion.lerp, lambda a, b, c: a + c * (b - a)),
        "addcmul": (lambda a, b, c: ternion.addcmul(a, b, c, value=0.3), lambda a, b, c: a + 0.3 * b * c),
        "addcdiv": (lambda a, b, c: ternion.addcdiv(a, b, c, value=0.3), lambda a, b, c: a + 0.3 * b / c),
    }
    for name, (ours, theirs) in triples.items():
        yield Case(name, "", ours, theirs, *((shape, away(0.3)) for shape in shapes))


def statistics():
    reduced = {
        "nansum": (lambda x: ternion.nansum(x, 1), lambda x: x.sum(1), uniform()),
        "nanmean": (lambda x: ternion.nanmean(x, 0), lambda x: x.mean(0), uniform()),
        "var_mean": (lambda x: ternion.var_mean(x, 1), lambda x: (x.var(1, ddof=1), x.mean(1)), uniform()),
        "std_mean": (lambda x: ternion.std_mean(x, 1), lambda x: (x.std(1, ddof=1), x.mean(1)), uniform()),
        "aminmax": (lambda x: tuple(ternion.aminmax(x, dim=1)), lambda x: (x.min(1), x.max(1)), distinct),
        "cumprod": (lambda x: ternion.cumprod(x, 1), lambda x: jnp.cumprod(x, 1), away(0.5)),
        "diff": (lambda x: ternion.diff(x, 2), lambda x: jnp.diff(x, 2), uniform()),
        "msort": (ternion.msort, lambda x: jnp.sort(x, 0), distinct),
        "cov": (ternion.cov, jnp.cov, uniform()),
        "corrcoef": (ternion.corrcoef, jnp.corrcoef, uniform()),
    }
    for name, (ours, theirs, drawing) in reduced.items():
        yield Case(name, "", ours, theirs, ((3, 5), drawing))


def arithmetic():
    for name, (ours, theirs, drawing) in ONE.items():
        for shape in SHAPES:
            yield Case(name, f"{shape}", ours, theirs, (shape, drawing))
    yield from two()
    yield from three()
    yield from statistics()
