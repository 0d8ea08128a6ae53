"""Cases of `jax_cases` over one to three axes: pooling, convolutions, resizing, padding, grids."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.ndimage import map_coordinates
from jax_cases import Case, distinct, uniform

import ternion
from ternion.nn import functional as F

NAMES = {3: ("NCH", "OIH", "NCH"), 4: ("NCHW", "OIHW", "NCHW"), 5: ("NCDHW", "OIDHW", "NCDHW")}


def windows_of(x, kernel, stride, padding, fill=0.0):
    """Maps [.., *sizes] to [kernel positions, .., *windows]."""
    axes = len(kernel)
    x = jnp.pad(x, [(0, 0)] * (x.ndim - axes) + [(side, side) for side in padding], constant_values=fill)
    counts = [(size - window) // step + 1 for size, window, step in zip(x.shape[-axes:], kernel, stride)]
    windows = []
    for tap in itertools.product(*map(range, kernel)):
        positions = [start + np.arange(count) * step for start, count, step in zip(tap, counts, stride)]
        windows.append(x[(..., *np.ix_(*positions))])
    return jnp.stack(windows)


def cells(x, size, reduce):
    """Divides the last axes into `size` windows, and reduces each."""
    axes, parts = len(size), []
    for at in itertools.product(*map(range, size)):
        cut = [slice(cell * length // count, -(-(cell + 1) * length // count)) for cell, count, length in zip(at, size, x.shape[-axes:])]
        parts.append(reduce(x[(..., *cut)], tuple(range(-axes, 0))))
    return jnp.stack(parts, -1).reshape(*x.shape[:-axes], *size)


def pools():
    shapes = {1: (2, 3, 7), 2: (2, 2, 5, 4), 3: (1, 2, 4, 3, 5)}
    for axes in (1, 3):
        x, window = (shapes[axes], distinct), ((2,) * axes, (1,) * axes, (1,) * axes)
        yield Case(
            f"max_pool{axes}d", "", lambda x, n=axes, w=window: getattr(F, f"max_pool{n}d")(x, *w), lambda x, w=window: windows_of(x, *w, fill=-jnp.inf).max(0), x,
        )  # fmt: skip
        yield Case(f"avg_pool{axes}d", "", lambda x, n=axes, w=window: getattr(F, f"avg_pool{n}d")(x, *w), lambda x, w=window: windows_of(x, *w).mean(0), x)
        size = (3, 2, 4)[:axes]
        yield Case(f"adaptive_avg_pool{axes}d", "", lambda x, n=axes, s=size: getattr(F, f"adaptive_avg_pool{n}d")(x, s), lambda x, s=size: cells(x, s, jnp.mean), x)
    for axes in (1, 2, 3):
        x, size = (shapes[axes], distinct), (3, 2, 4)[:axes]
        yield Case(f"adaptive_max_pool{axes}d", "", lambda x, n=axes, s=size: getattr(F, f"adaptive_max_pool{n}d")(x, s), lambda x, s=size: cells(x, s, jnp.max), x)
        window = ((2,) * axes, (2,) * axes, (0,) * axes)
        yield Case(
            f"lp_pool{axes}d", "", lambda x, n=axes: getattr(F, f"lp_pool{n}d")(x, 3.0, 2), lambda x, w=window: (windows_of(x, *w) ** 3).sum(0) ** (1 / 3),
            (shapes[axes], uniform(0.5, 2.0)),
        )  # fmt: skip
        yield from unpooled(axes, shapes[axes])
    for axes, order in ((2, (1, 0)), (3, (0, 1, 2))):
        yield from fractional(axes, order, shapes[axes])


def unpooled(axes, shape):
    planes, count, size = shape[0] * shape[1], math.prod(shape[2:]), tuple(2 * length for length in shape[2:])
    rng = np.random.default_rng(3)
    indices = np.stack([rng.permutation(math.prod(size))[:count] for _ in range(planes)]).reshape(shape)

    def theirs(x):
        flat = jnp.zeros((planes, math.prod(size))).at[np.arange(planes)[:, None], indices.reshape(planes, count)].set(x.reshape(planes, count))
        return flat.reshape(*shape[:2], *size)

    yield Case(f"max_unpool{axes}d", "", lambda x: getattr(F, f"max_unpool{axes}d")(x, ternion.tensor(indices), 2), theirs, (shape, uniform()))


def fractional(axes, order, shape):
    kernel, size = (2,) * axes, tuple(length // 2 for length in shape[2:])
    samples = np.random.default_rng(5).random((*shape[:2], axes))

    def theirs(x):
        planes = []
        for n, c in itertools.product(*map(range, shape[:2])):
            starts = []
            for axis, count in enumerate(size):
                last, u = shape[2 + axis] - kernel[axis], samples[n, c, order[axis]]
                distance = last / (count - 1) if count > 1 else 0.0
                starts.append([int((at + u) * distance) - int(u * distance) for at in range(count - 1)] + [last])
            cut = [x[(n, c, *(slice(start, start + 2) for start in at))].max() for at in itertools.product(*starts)]
            planes.append(jnp.stack(cut).reshape(size))
        return jnp.stack(planes).reshape(*shape[:2], *size)

    yield Case(
        f"fractional_max_pool{axes}d", "", lambda x: getattr(F, f"fractional_max_pool{axes}d")(x, kernel, size, _random_samples=ternion.tensor(samples)), theirs, (shape, distinct),
    )  # fmt: skip


def convolved(x, w, stride, padding, dilation, groups):
    return jax.lax.conv_general_dilated(
        x, w, stride, [(side, side) for side in padding], rhs_dilation=dilation, feature_group_count=groups, precision="highest", dimension_numbers=NAMES[x.ndim],
    )  # fmt: skip


def convolutions():
    for stride, padding, dilation, groups in (((1, 1, 1), (0, 0, 0), (1, 1, 1), 1), ((2, 1, 2), (1, 0, 1), (1, 2, 1), 2)):
        options = (stride, padding, dilation, groups)
        yield Case(
            "conv3d", f"{options}", lambda x, w, o=options: F.conv3d(x, w, None, *o), lambda x, w, o=options: convolved(x, w, *o),
            ((1, 2, 4, 5, 4), uniform()), ((4, 2 // groups, 2, 2, 3), uniform()),
        )  # fmt: skip
    for axes, extra in ((1, 0), (1, 1), (3, 0), (3, 1)):
        stride, groups = (2,) * axes, 1 + extra

        def transposed(x, w, s=stride, e=extra, g=groups):
            size = [(length - 1) * 2 - 2 + window + e for length, window in zip(x.shape[2:], w.shape[2:])]
            image = jnp.zeros((x.shape[0], w.shape[1] * g, *size))
            return jax.vjp(lambda image: convolved(image, w, s, (1,) * len(s), (1,) * len(s), g), image)[1](x)[0]

        yield Case(
            f"conv_transpose{axes}d", f"{extra}", lambda x, w, n=axes, e=extra, g=groups: getattr(F, f"conv_transpose{n}d")(x, w, None, 2, 1, e, g), transposed,
            ((2, 4, *(3, 2, 4)[:axes]), uniform()), ((4, 2, *(3,) * axes), uniform()),
        )  # fmt: skip


def resizing(mode, inputs, outputs):
    """Returns the matrix that resizes an axis."""
    matrix = np.zeros((outputs, inputs))
    for at in range(outputs):
        position = (at + 0.5) * inputs / outputs - 0.5
        if mode == "nearest":
            matrix[at, at * inputs // outputs] = 1
        elif mode == "linear":
            position = max(position, 0)
            low = int(position)
            matrix[at, low] += 1 - (position - low)
            matrix[at, min(low + 1, inputs - 1)] += position - low
        else:
            for tap in range(math.floor(position) - 1, math.floor(position) + 3):
                d = abs(position - tap)
                weight = 1.25 * d**3 - 2.25 * d**2 + 1 if d <= 1 else -0.75 * d**3 + 3.75 * d**2 - 6 * d + 3
                matrix[at, min(max(tap, 0), inputs - 1)] += weight
    return matrix


def sizes():
    for mode, kind, shape, size in (("nearest", "nearest", (2, 2, 3), (5,)), ("linear", "linear", (2, 2, 5), (3,)), ("bilinear", "linear", (1, 2, 3, 4), (5, 3)),
                                    ("bicubic", "cubic", (1, 2, 3, 4), (4, 7)), ("trilinear", "linear", (1, 1, 2, 3, 2), (3, 2, 4))):  # fmt: skip
        def theirs(x, kind=kind, size=size):
            for axis, outputs in enumerate(size):
                x = jnp.moveaxis(jnp.tensordot(resizing(kind, x.shape[2 + axis], outputs), x, (1, 2 + axis)), 0, 2 + axis)
            return x

        yield Case("interpolate", mode, lambda x, m=mode, s=size: F.interpolate(x, size=s, mode=m), theirs, (shape, uniform()))


def borders_and_channels():
    x = ((2, 3, 4, 5), uniform())
    pads = ((0, 0), (0, 0), (2, 1), (1, 3))
    for name, mode, other in (("reflection", "reflect", "reflect"), ("replication", "replicate", "edge"), ("circular", "circular", "wrap")):
        yield Case(f"{name}_pad", "", lambda x, m=mode: F.pad(x, (1, 3, 2, 1), m), lambda x, m=other: jnp.pad(x, pads, m), x)
    x = ((2, 8, 2, 3), uniform())
    yield Case("pixel_shuffle", "", lambda x: F.pixel_shuffle(x, 2), lambda x: x.reshape(2, 2, 2, 2, 2, 3).transpose(0, 1, 4, 2, 5, 3).reshape(2, 2, 4, 6), x)
    yield Case("channel_shuffle", "", lambda x: F.channel_shuffle(x, 2), lambda x: x.reshape(2, 2, 4, 2, 3).swapaxes(1, 2).reshape(2, 8, 2, 3), x)
    y = ((2, 2, 4, 6), uniform())
    yield Case("pixel_unshuffle", "", lambda y: F.pixel_unshuffle(y, 2), lambda y: y.reshape(2, 2, 2, 2, 3, 2).transpose(0, 1, 3, 5, 2, 4).reshape(2, 8, 2, 3), y)

    def normed(x):
        squares = jnp.pad(x**2, ((0, 0), (1, 1), (0, 0), (0, 0)))
        return x / (2 + 0.5 / 3 * (squares[:, :-2] + squares[:, 1:-1] + squares[:, 2:])) ** 0.75

    yield Case("local_response_norm", "", lambda x: F.local_response_norm(x, 3, 0.5, 0.75, 2.0), normed, x)


def grids():
    def sampled(x, grid):
        positions = [((grid[..., 1 - axis] + 1) * x.shape[2 + axis] - 1) / 2 for axis in (0, 1)]
        planes = [[map_coordinates(x[n, c], [position[n] for position in positions], 1) for c in range(x.shape[1])] for n in range(x.shape[0])]
        return jnp.stack([jnp.stack(row) for row in planes])

    # Also beyond the corners, where the weights depend on both coordinates at once.
    yield Case(
        "grid_sample", "", lambda x, grid: F.grid_sample(x, grid, align_corners=False), sampled, ((2, 2, 4, 5), uniform()), ((2, 3, 2, 2), uniform(-1.1, 1.1)),
    )  # fmt: skip

    def mapped(theta):
        y, x = jnp.meshgrid((2 * jnp.arange(3) + 1) / 3 - 1, (2 * jnp.arange(4) + 1) / 4 - 1, indexing="ij")
        return jnp.einsum("hwk,njk->nhwj", jnp.stack([x, y, jnp.ones_like(x)], -1), theta)

    yield Case("affine_grid", "", lambda theta: F.affine_grid(theta, (2, 1, 3, 4), align_corners=False), mapped, ((2, 2, 3), uniform()))


def volumes():
    """Returns all cases."""
    groups = (pools, convolutions, sizes, borders_and_channels, grids)
    return [case for group in groups for case in group()]
