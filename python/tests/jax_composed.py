"""Functions that core composes from ops, in Ternion and in JAX: a part of `jax_cases`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np

import ternion
from jax_cases import POSITIVE, Case, away, distinct, uniform
from ternion import nn
from ternion.nn import functional as F

SIGNS = np.array([[1.0, -1, 1, -1, 1], [-1, -1, 1, 1, -1], [1, 1, 1, -1, -1]])
PLACE = np.array([2, 0, 4])


def constant(values):
    return ternion.tensor(values)


def relu(x):
    return jnp.where(x > 0, x, 0)


def softplus(x):
    return jnp.logaddexp(x, 0)


def length(x, p=2.0):
    return (jnp.abs(x) ** p).sum(-1) ** (1 / p)


def margins(x):
    expected = jnp.take_along_axis(x, jnp.asarray(PLACE)[:, None], 1)
    return jnp.where(jnp.arange(5) == PLACE[:, None], 0, relu(1 + x - expected) ** 2).sum(1) / 5


def label_margins(x):
    """The losses for the targets 0 and 3, and for no targets."""
    return jnp.stack([sum(relu(1 - (x[0, y] - x[0, c])) for y in (0, 3) for c in (1, 2, 4)) / 5, 0 * x[1, 0]])


def alignments(x):
    """The loss of 4 steps with 3 classes and the target 1, 1, computed over all sequences."""
    sequences = [s for s in itertools.product(range(3), repeat=4) if [a for a, _ in itertools.groupby(s) if a] == [1, 1]]
    return -jax.scipy.special.logsumexp(jnp.stack([sum(x[step, 0, symbol] for step, symbol in enumerate(s)) for s in sequences]))[None]


def of_margins():
    x = ((3, 5), uniform())
    signs = constant(SIGNS)
    yield Case("soft_margin_loss", "", lambda x: F.soft_margin_loss(x, signs, reduction="none"), lambda x: softplus(-SIGNS * x), x)
    hinge = lambda x: jnp.where(SIGNS == 1, x, relu(3 - x))  # noqa: E731
    yield Case("hinge_embedding_loss", "", lambda x: F.hinge_embedding_loss(x, signs, 3.0, reduction="none"), hinge, x)
    ranked = lambda x, y: relu(0.5 - SIGNS * (x - y))  # noqa: E731
    yield Case("margin_ranking_loss", "", lambda x, y: F.margin_ranking_loss(x, y, signs, 0.5, reduction="none"), ranked, x, x)
    smooth = lambda x, y: jnp.where(jnp.abs(x - y) < 0.5, (x - y) ** 2, jnp.abs(x - y) - 0.25)  # noqa: E731
    yield Case("smooth_l1_loss", "", lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.5), smooth, x, x)
    yield Case("multi_margin_loss", "", lambda x: F.multi_margin_loss(x, constant(PLACE), 2, reduction="none"), margins, x)
    targets = constant(np.array([[0, 3, -1, 1, 2], [-1, 0, 1, 2, 3]]))
    yield Case("multilabel_margin_loss", "", lambda x: F.multilabel_margin_loss(x, targets, reduction="none"), label_margins, ((2, 5), distinct))
    of_labels = lambda x, t: (softplus(x) - t * x).mean(-1)  # noqa: E731
    yield Case("multilabel_soft_margin_loss", "", lambda x, t: F.multilabel_soft_margin_loss(x, t, reduction="none"), of_labels, x, ((3, 5), uniform(0, 1)))
    yield Case(
        "ctc_loss", "", lambda x: F.ctc_loss(x, constant(np.array([[1, 1]])), [4], [2], reduction="none"), alignments, ((4, 1, 3), uniform(-2, 0))
    )


def of_distances():
    x = ((3, 5), away(0.2))

    def cosine(x, y):
        return (x * y).sum(-1) / length(x) / length(y)

    yield Case("cosine_similarity", "", F.cosine_similarity, cosine, x, x)
    for p in (2.0, 3.0):
        yield Case("pairwise_distance", f"{p}", lambda x, y, p=p: F.pairwise_distance(x, y, p), lambda x, y, p=p: length(x - y + 1e-6, p), x, x)
        expected = lambda x, y, p=p: length(x[:, None] - y[None], p)  # noqa: E731
        yield Case("cdist", f"{p}", lambda x, y, p=p: ternion.cdist(x, y, p, "donot_use_mm_for_euclid_dist"), expected, x, ((4, 5), away(0.2)))
    rows, columns = np.triu_indices(3, 1)
    yield Case("pdist", "", F.pdist, lambda x: length(x[rows] - x[columns]), x)
    product = lambda x, y: length(x[:, None] - y[None])  # noqa: E731
    yield Case("cdist", "product", lambda x, y: ternion.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), product, x, ((4, 5), away(0.2)))
    targets = np.array([1, -1, 0])

    def embedded(x, y):
        return jnp.where(targets == 1, 1 - cosine(x, y), jnp.where(targets == -1, relu(cosine(x, y) + 1.5), 0))

    yield Case("cosine_embedding_loss", "", lambda x, y: F.cosine_embedding_loss(x, y, constant(targets), -1.5, reduction="none"), embedded, x, x)

    def triplets(x, y, z):
        return relu(length(x - y + 1e-6) - length(x - z + 1e-6) + 9)

    yield Case("triplet_margin_loss", "", lambda x, y, z: F.triplet_margin_loss(x, y, z, 9.0, reduction="none"), triplets, x, x, x)
    any_distance = lambda x, y, z: F.triplet_margin_with_distance_loss(x, y, z, margin=9.0, reduction="none")  # noqa: E731
    yield Case("triplet_margin_with_distance_loss", "", any_distance, triplets, x, x, x)


def of_likelihoods():
    x, positive = ((3, 5), uniform()), ((3, 5), POSITIVE)
    yield Case("poisson_nll_loss", "", lambda x, t: F.poisson_nll_loss(x, t, reduction="none"), lambda x, t: jnp.exp(x) - t * x, x, positive)
    gaussian = lambda x, t, v: 0.5 * (jnp.log(v) + (x - t) ** 2 / v)  # noqa: E731
    yield Case("gaussian_nll_loss", "", lambda x, t, v: F.gaussian_nll_loss(x, t, v, reduction="none"), gaussian, x, x, positive)
    share = ((3, 5), uniform(0.1, 0.9))
    entropy = lambda x, t: -(t * jnp.log(x) + (1 - t) * jnp.log1p(-x))  # noqa: E731
    yield Case("binary_cross_entropy", "", lambda x, t: F.binary_cross_entropy(x, t, reduction="none"), entropy, share, share)


def of_indices():
    x = ((3, 5), uniform())
    indices = np.array([[0, 3], [1, 2]])
    for mode, reduced in (("sum", jnp.sum), ("mean", jnp.mean), ("max", jnp.max)):
        ours = lambda w, m=mode: F.embedding_bag(constant(indices), w, mode=m)  # noqa: E731
        yield Case("embedding_bag", mode, ours, lambda w, r=reduced: r(w[indices], 1), ((4, 3), distinct))
    padded = lambda x, y: jnp.stack([x, jnp.pad(y, ((0, 2), (0, 0)), constant_values=0.5)], 1)  # noqa: E731
    yield Case("pad_sequence", "", lambda x, y: nn.utils.rnn.pad_sequence([x, y], padding_value=0.5), padded, ((4, 3), uniform()), ((2, 3), uniform()))
    yield Case("as_strided", "", lambda x: ternion.as_strided(x.contiguous(), (3, 4), (2, 1), 1), lambda x: x.reshape(-1)[1 + 2 * np.arange(3)[:, None] + np.arange(4)], x)
    scattered = lambda x, s: x.reshape(-1).at[1 + 4 * np.arange(3)].set(s).reshape(3, 5)  # noqa: E731
    yield Case("as_strided_scatter", "", lambda x, s: ternion.as_strided_scatter(x.contiguous(), s, (3,), (4,), 1), scattered, x, ((3,), uniform()))
    yield Case("select_scatter", "", lambda x, s: x.select_scatter(s, 1, -2), lambda x, s: x.at[:, -2].set(s), x, ((3,), uniform()))
    yield Case("slice_scatter", "", lambda x, s: x.slice_scatter(s, 1, 1, None, 2), lambda x, s: x.at[:, 1::2].set(s), x, ((3, 2), uniform()))
    diagonal = lambda x, s: x.at[np.arange(3), 1 + np.arange(3)].set(s)  # noqa: E731
    yield Case("diagonal_scatter", "", lambda x, s: x.diagonal_scatter(s, 1), diagonal, x, ((3,), uniform()))
    pairs = np.array(list(itertools.combinations(range(5), 2)))
    yield Case("combinations", "", lambda x: ternion.combinations(x, 2), lambda x: x[pairs], ((5,), uniform()))


def of_series():
    x = ((3, 5), uniform())
    q = ((2,), lambda rng, shape: np.array([0.3, 0.8]))
    yield Case("quantile", "", lambda x, q: ternion.quantile(x, q, 1), lambda x, q: jnp.quantile(x, q, axis=1), ((3, 6), distinct), q)
    yield Case("nanquantile", "", lambda x, q: ternion.nanquantile(x, q), lambda x, q: jnp.nanquantile(x, q), ((3, 6), distinct), q)
    points = np.array([0.0, 0.5, 2.0, 2.75, 4.0])

    # The derivatives are linear combinations of the elements with these factors.
    factors = np.gradient(np.eye(5), points, axis=0, edge_order=2).T
    yield Case("gradient", "", lambda x: ternion.gradient(x, spacing=(constant(points),), dim=1, edge_order=2)[0], lambda x: x @ factors, x)
    yield Case("trapezoid", "", lambda x, y: ternion.trapezoid(x, y), lambda x, y: jnp.trapezoid(x, y), x, x)
    running = lambda x: jnp.cumsum((x[:, 1:] + x[:, :-1]) / 4, 1)  # noqa: E731
    yield Case("cumulative_trapezoid", "", lambda x: ternion.cumulative_trapezoid(x, dx=0.5), running, x)
    yield Case("logaddexp", "", ternion.logaddexp, jnp.logaddexp, x, x)
    yield Case("logaddexp2", "", ternion.logaddexp2, jnp.logaddexp2, x, x)
    yield Case("logcumsumexp", "", lambda x: x.logcumsumexp(1), lambda x: jnp.log(jnp.cumsum(jnp.exp(x), 1)), x)


def of_dropouts():
    for name, shape in (("alpha_dropout", (3, 5)), ("feature_alpha_dropout", (3, 5, 2))):

        def dropped(x, f=getattr(F, name)):
            ternion.manual_seed(11)
            return f(x, 0.4, True)

        ends = [dropped(ternion.full(shape, value, dtype=ternion.float64)).numpy().copy() for value in (0.0, 1.0)]
        yield Case(name, "", dropped, lambda x, zero=ends[0], slope=ends[1] - ends[0]: zero + x * slope, (shape, uniform()))


def composed_in_core():
    groups = (of_margins, of_distances, of_likelihoods, of_indices, of_series, of_dropouts)
    return [case for group in groups for case in group()]
