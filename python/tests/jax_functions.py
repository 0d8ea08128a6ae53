"""Special functions, order statistics and products that are added to an input, in Ternion and in
JAX: a part of `jax_cases`."""

import jax
import jax.numpy as jnp
import numpy as np

import ternion
from jax_cases import POSITIVE, SHAPES, Case, away, between, distinct, tensor_of, uniform
from ternion.nn import functional as F

# Functions composed of other ops, without a dedicated gradient rule.
COMPOSED = {
    "tan": ("tan", jnp.tan, uniform(-1, 1)),
    "asin": ("asin", jnp.arcsin, uniform(-0.7, 0.7)),
    "acos": ("acos", jnp.arccos, uniform(-0.7, 0.7)),
    "sinh": ("sinh", jnp.sinh, uniform(-4, 4)),
    "cosh": ("cosh", jnp.cosh, uniform(-4, 4)),
    "asinh": ("asinh", jnp.arcsinh, uniform(-8, 8)),
    "acosh": ("acosh", jnp.arccosh, uniform(1.6, 8)),
    "atanh": ("atanh", jnp.arctanh, uniform(-0.7, 0.7)),
    "erfc": ("erfc", jax.scipy.special.erfc, uniform(-3, 3)),
    "exp2": ("exp2", jnp.exp2, uniform(-3, 3)),
    "sinc": ("sinc", jnp.sinc, away(0.3)),
    "logit": ("logit", jax.scipy.special.logit, uniform(0.2, 0.8)),
    "hardtanh": (lambda x: F.hardtanh(x, -0.5, 0.75), lambda x: jnp.clip(x, -0.5, 0.75), lambda rng, shape: between(rng, shape) + 0.06),
    "lgamma": ("lgamma", jax.scipy.special.gammaln, POSITIVE),
    "digamma": ("digamma", jax.scipy.special.digamma, POSITIVE),
    "polygamma": (lambda x: x.polygamma(2), lambda x: jax.scipy.special.polygamma(2, x), uniform(0.8, 3.0)),
    "mvlgamma": (lambda x: x.mvlgamma(3), lambda x: jax.scipy.special.multigammaln(x, 3), uniform(1.5, 4.0)),
    "zeta": (lambda x: ternion.special.zeta(2.5, x), lambda x: jax.scipy.special.zeta(2.5, x), uniform(0.8, 3.0)),
    "i0": ("i0", jax.scipy.special.i0, away(0.3, 6.0)),
    "i0e": ("i0e", jax.scipy.special.i0e, away(0.3, 6.0)),
    "i1": ("i1", jax.scipy.special.i1, away(0.3, 6.0)),
    "i1e": ("i1e", jax.scipy.special.i1e, away(0.3, 6.0)),
    "erfcx": ("erfcx", lambda x: jnp.exp(x * x) * jax.scipy.special.erfc(x), uniform(-2, 2)),
    "erfinv": ("erfinv", jax.scipy.special.erfinv, uniform(-0.9, 0.9)),
    "ndtr": ("ndtr", jax.scipy.special.ndtr, uniform(-3, 3)),
    "ndtri": ("ndtri", jax.scipy.special.ndtri, uniform(0.1, 0.9)),
    "log_ndtr": ("log_ndtr", jax.scipy.special.log_ndtr, uniform(-3, 3)),
    "entr": ("entr", jax.scipy.special.entr, POSITIVE),
}


def composed():
    for name, (ours, theirs, drawing) in COMPOSED.items():
        ours = getattr(ternion.Tensor, ours) if isinstance(ours, str) else ours
        for shape in SHAPES:
            yield Case(name, f"{shape}", ours, theirs, (shape, drawing))


def chosen():
    """Functions that select elements by their order, or scatter them to indices."""
    yield Case("xlogy", "", ternion.xlogy, jax.scipy.special.xlogy, ((4, 3), POSITIVE), ((4, 3), POSITIVE))
    indices = np.array([2, 0, 2, 1])
    yield Case(
        "scatter_reduce", "sum", lambda x, s: x.scatter_reduce(0, tensor_of(indices), s, "sum"), lambda x, s: x.at[indices].add(s), ((3,), uniform()), ((4,), uniform())
    )
    for name, shapes, theirs in [
        ("addmv", [(4,), (4, 3), (3,)], lambda c, a, b: 0.5 * c + 2 * (a @ b)),
        ("addbmm", [(4, 2), (5, 4, 3), (5, 3, 2)], lambda c, a, b: 0.5 * c + 2 * (a @ b).sum(0)),
        ("baddbmm", [(5, 4, 2), (5, 4, 3), (5, 3, 2)], lambda c, a, b: 0.5 * c + 2 * (a @ b)),
        ("addr", [(4, 2), (4,), (2,)], lambda c, a, b: 0.5 * c + 2 * jnp.outer(a, b)),
    ]:
        ours = getattr(ternion, name)
        yield Case(name, "", lambda c, a, b, ours=ours: ours(c, a, b, beta=0.5, alpha=2), theirs, *((shape, uniform()) for shape in shapes))
    yield Case("clamp_tensor", "", lambda x, a, b: x.clamp(a - 0.5, b + 0.5), lambda x, a, b: jnp.clip(x, a - 0.5, b + 0.5), *[((4, 5), uniform())] * 3)
    yield Case("fmax", "", ternion.fmax, jnp.fmax, ((4, 5), uniform()), ((4, 5), uniform()))
    yield Case("fmin", "", ternion.fmin, jnp.fmin, ((4, 5), uniform()), ((4, 5), uniform()))
    yield Case("xlog1py", "", ternion.special.xlog1py, jax.scipy.special.xlog1py, ((4, 3), POSITIVE), ((4, 3), POSITIVE))
    for name, ours, theirs in [("amax", "amax", "max"), ("amin", "amin", "min")]:
        yield Case(
            "index_reduce", name, lambda x, s, ours=ours: x.index_reduce(0, tensor_of(indices), s, ours),
            lambda x, s, theirs=theirs: getattr(x.at[indices], theirs)(s), ((3, 2), distinct), ((4, 2), distinct)
        )  # fmt: skip
    yield Case("cummax", "", lambda x: x.cummax(-1)[0], lambda x: jax.lax.cummax(x, x.ndim - 1), ((3, 5), distinct))
    yield Case("cummin", "", lambda x: x.cummin(-1)[0], lambda x: jax.lax.cummin(x, x.ndim - 1), ((3, 5), distinct))
    # If all numbers differ, the mode is the smallest one.
    yield Case("mode", "", lambda x: x.mode(-1)[0], lambda x: jnp.min(x, -1), ((3, 5), distinct))
    yield Case("nanmedian", "", lambda x: x.nanmedian(-1)[0], lambda x: jnp.nanmedian(x, -1), ((3, 5), distinct))
    yield Case("renorm", "", lambda x: x.renorm(2, 0, 1.5), renormed, ((3, 5), away(0.3)))
    yield Case("kthvalue", "", lambda x: x.kthvalue(2, -1)[0], lambda x: jnp.sort(x, -1)[..., 1], ((3, 5), distinct))
    yield Case("median", "", lambda x: x.median(-1)[0], lambda x: jnp.median(x, -1), ((3, 5), distinct))


def renormed(x):
    norms = jnp.sqrt((x * x).sum(1, keepdims=True))
    return jnp.where(norms > 1.5, x * 1.5 / (norms + 1e-7), x)
