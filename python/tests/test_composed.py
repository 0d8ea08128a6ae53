"""Losses, embedding bags, windows, quantiles, distances and related functions, compared with values
of PyTorch 2.11 in float64."""

import math

import numpy as np
import pytest

import ternion
from ternion import nn
from ternion.nn import functional as F
from ternion.signal import windows

D = ternion.float64
X = [[0.3, -1.2, 2.0], [0.7, 0.5, -0.4]]
Y = [[1.5, 0.4, -0.6], [-2.0, 0.9, 1.1]]
Z = [[0.2, -0.3, 0.8], [1.0, -1.0, 0.5]]
SIGNS = [[1.0, -1, 1], [-1, 1, -1]]


def t(values, dtype=D):
    return ternion.tensor(values, dtype=dtype)


def near(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(np.asarray(actual.detach().tolist(), dtype=float).reshape(-1), np.asarray(expected, dtype=float).reshape(-1), tolerance, tolerance)


WEIGHT = [1.0, 2.0, 3.0]
LOSSES = {
    "multi_margin_loss": (
        lambda: F.multi_margin_loss(t(X), ternion.tensor([2, 0]), p=2, margin=0.75, weight=t(WEIGHT), reduction="none"), [0.0, 0.100833333333]),
    "multilabel_margin_loss": (
        lambda: F.multilabel_margin_loss(t(X), ternion.tensor([[2, -1, 0], [0, 1, -1]]), reduction="none"), [0.0, 0.033333333333]),
    "gaussian_nll_loss": (
        lambda: F.gaussian_nll_loss(t(X), t(Y), t([0.5, 2.0]), full=True, reduction="none"),
        [2.012364942925, 3.132364942925, 7.332364942925, 3.088012123485, 1.305512123485, 1.828012123485]),
    "poisson_nll_loss": (
        lambda: F.poisson_nll_loss(t(X), t(Y).abs() * 2, full=True, reduction="none"),
        [2.213940351119, 1.261194211912, 5.017941278685, 2.371015865715, 1.21956913318, 2.398093452224]),
    "triplet_margin_loss": (lambda: F.triplet_margin_loss(t(X), t(Y), t(Z), margin=1.0, p=3, swap=True, reduction="none"), [2.510693016802, 2.244342106446]),
    "cosine_embedding_loss": (lambda: F.cosine_embedding_loss(t(X), t(Y), ternion.tensor([1, -1]), margin=-0.9, reduction="none"), [1.314269808754, 0.302833687921]),
    "margin_ranking_loss": (lambda: F.margin_ranking_loss(t(X), t(Y), t(SIGNS), margin=0.5, reduction="none"), [1.7, 0.0, 0.0, 3.2, 0.9, 0.0]),
    "hinge_embedding_loss": (lambda: F.hinge_embedding_loss(t(X), t(SIGNS), reduction="none"), [0.3, 2.2, 2.0, 0.3, 0.5, 1.4]),
    "soft_margin_loss": (
        lambda: F.soft_margin_loss(t(X), t(SIGNS), reduction="none"),
        [0.554355244469, 0.263282467338, 0.126928011043, 1.103186048885, 0.47407698418, 0.5130152524]),
    "multilabel_soft_margin_loss": (
        lambda: F.multilabel_soft_margin_loss(t(X), (t(SIGNS) > 0).double(), weight=t(WEIGHT), reduction="none"), [0.487234737425, 1.196795258149]),
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_losses(name):
    actual, expected = LOSSES[name]
    near(actual(), expected)


def steps():
    return (ternion.arange(24, dtype=D).reshape(4, 2, 3).sin() * 3).requires_grad_()


def test_ctc_loss():
    raw = steps()
    losses = F.ctc_loss(F.log_softmax(raw, 2), ternion.tensor([[1, 1], [2, 0]]), ternion.tensor([4, 3]), ternion.tensor([2, 1]), reduction="none")
    near(losses, [8.489014340091, 3.048345856265])
    layer = nn.CTCLoss()
    mean = layer(F.log_softmax(raw, 2), ternion.tensor([1, 1, 2]), (4, 3), (2, 1))
    near(mean, [3.6464265131551254])
    mean.backward()
    near(raw.grad.reshape(-1)[:6], [-0.000119310282, -0.132771481097, 0.13289079138, 0.264814955878, 0.030613597456, -0.295428553334], 1e-9)


def test_ctc_loss_of_targets_that_do_not_fit():
    raw = steps()
    arguments = F.log_softmax(raw, 2), ternion.tensor([[1, 1], [2, 0]]), [2, 3], [2, 1]
    assert F.ctc_loss(*arguments, reduction="none").tolist()[0] == math.inf
    loss = F.ctc_loss(*arguments, reduction="none", zero_infinity=True)
    assert loss.tolist()[0] == 0
    loss.sum().backward()
    assert raw.grad[:, 0].abs().sum() == 0 and raw.grad.isfinite().all()


@pytest.mark.parametrize("call, error", [
    (lambda: F.ctc_loss(ternion.zeros(4, 1, 3), ternion.tensor([[1]]), [5], [1]), "ctc_loss: an input length of 5 for 4 steps"),
    (lambda: F.ctc_loss(ternion.zeros(4, 1, 3), ternion.tensor([[1]]), [4], [-1]), "ctc_loss: target_lengths below 0"),
    (lambda: F.triplet_margin_loss(t(X), t(Y), t(Z), margin=-1.0), "triplet_margin_loss: margin -1, expected above 0"),
    (lambda: nn.TripletMarginLoss(margin=0.0), "TripletMarginLoss: margin 0.0, expected above 0"),
    (lambda: nn.MultiMarginLoss(p=3), "MultiMarginLoss: p 3, expected 1 or 2"),
    (lambda: F.soft_margin_loss(t(X), t(X), reduction="batchmean"), "soft_margin_loss: reduction \"batchmean\", expected \"none\", \"mean\" or \"sum\""),
    (lambda: F.embedding_bag(ternion.tensor([0, 1]), t(X), ternion.tensor([1])), "embedding_bag: offsets that are not in order from 0 to 2"),
    (lambda: F.embedding_bag(ternion.tensor([0, 1]), t(X)), "embedding_bag: indices of shape [2] without offsets"),
    (lambda: F.embedding_bag(ternion.tensor([[0]]), t(X), mode="most"), "embedding_bag: mode \"most\", expected \"sum\", \"mean\" or \"max\""),
    (lambda: F.alpha_dropout(t(X), 1.5, True), "alpha_dropout: probability 1.5, expected 0 to 1"),
    (lambda: ternion.isclose(t(X), t(X), rtol=-1.0), "isclose: rtol -1 and atol 0.00000001, expected at least 0"),
    (lambda: ternion.rot90(t(X), 1, (1, 1)), "rot90: axes 1 and 1, expected two"),
    (lambda: ternion.gradient(t(X), dim=(1, 1)), "gradient: axes [1, 1], expected each once"),
    (lambda: ternion.flipud(t(1.0)), "flipud: expected at least 1 axes, got shape []"),
    (lambda: ternion.quantile(t(X), 2.0), "quantile: q of 2, expected 0 to 1"),
    (lambda: windows.kaiser(3, beta=-1.0), "kaiser: beta of -1, expected at least 0"),
    (lambda: windows.exponential(3, center=1.0), "exponential: a center of a symmetric window, whose center is its middle"),
    (lambda: ternion.zeros(3).geometric_(1.0), "geometric: probability 1, expected above 0 and below 1"),
    (lambda: ternion.poisson(t([-1.0])), "poisson: a rate of -1, expected a finite number of at least 0"),
    (lambda: ternion.as_strided(t(X), (3,), (3,)), "as_strided: size [3], strides [3] and offset 0 reach beyond 6 elements"),
    (lambda: ternion.as_strided(t(X).t(), (2,), (1,)), "as_strided: a tensor that is not contiguous, whose elements are not in row-major order; call contiguous() first"),
    (lambda: ternion.cdist(t(X), t(Y), compute_mode="fast"), "cdist: compute_mode \"fast\", which is none of PyTorch's"),
])  # fmt: skip
def test_rejections(call, error):
    with pytest.raises(ValueError) as caught:
        call()
    assert str(caught.value) == error


@pytest.mark.parametrize("call", [
    lambda: ternion.heaviside(t(X), 1.0),
    lambda: ternion.heaviside(1.0, t(X)),
    lambda: t(X).heaviside(t(X).float()),
    lambda: ternion.gcd(ternion.tensor([4]), 2),
    lambda: ternion.gcd(2, ternion.tensor([4])),
    lambda: ternion.tensor([4]).lcm(2),
    lambda: ternion.tensor([4]).lcm_(2),
    lambda: ternion.rsub(ternion.tensor([True]), 1),
    lambda: ternion.rsub(ternion.tensor([1]), True),
    lambda: t(X).narrow(0, ternion.tensor(True), 1),
    lambda: ternion.quantile(t(X), ternion.tensor([0.5])),
    lambda: F.ctc_loss(ternion.zeros(4, 1, 3), ternion.tensor([[1]]), ternion.tensor([4.0]), [1]),
])  # fmt: skip
def test_rejections_of_types(call):
    with pytest.raises(TypeError):
        call()


def test_embedding_bag():
    table = ternion.arange(10, dtype=D).reshape(5, 2).cos()
    bags = F.embedding_bag(ternion.tensor([0, 3, 1, 1, 4]), table, ternion.tensor([0, 2, 2]), padding_idx=1)
    near(bags, [0.980085143325, 0.647102280106, 0.0, 0.0, -0.145500033809, -0.911130261885])
    pairs = ternion.tensor([[0, 3], [1, 4]])
    near(F.embedding_bag(pairs, table, mode="max"), [1.0, 0.753902254343, -0.145500033809, -0.911130261885])
    weights = t([[0.5, 2], [1, -1]])
    near(F.embedding_bag(pairs, table, mode="sum", per_sample_weights=weights), [2.420340573301, 1.777955661621, -0.270646802739, -0.078862234716])


def test_embedding_bag_layer():
    layer = nn.EmbeddingBag(4, 3, mode="sum", padding_idx=-1)
    assert list(layer.state_dict()) == ["weight"] and layer.padding_idx == 3 and not layer.weight[3].any()
    layer(ternion.tensor([[0, 3], [0, 1]])).sum().backward()
    assert layer.weight.grad.tolist() == [[2.0] * 3, [1.0] * 3, [0.0] * 3, [0.0] * 3]
    same = nn.EmbeddingBag.from_pretrained(layer.weight.detach(), mode="max", include_last_offset=True)
    assert same(ternion.tensor([0, 1]), ternion.tensor([0, 2])).shape == (1, 3) and not same.weight.requires_grad


def test_quantiles():
    q = t([0.1, 0.55]).requires_grad_()
    result = ternion.quantile(t([3.0, 1, 4, 1.5, 9]), q)
    near(result, [1.2, 3.2])
    result.sum().backward()
    near(q.grad, [2.0, 4.0])
    holes = ternion.tensor([3.0, math.nan, 4, 1.5])
    kinds = ("linear", "lower", "higher", "midpoint", "nearest")
    near(ternion.stack([ternion.nanquantile(holes, 0.4, interpolation=kind) for kind in kinds]), [2.7, 1.5, 3.0, 2.25, 3.0], 1e-6)
    assert ternion.quantile(t(X), t([0.5, 0.25]), dim=1, keepdim=True).shape == (2, 2, 1)
    assert ternion.quantile(holes, 0.5).isnan()


def test_histograms():
    result = ternion.histogram(ternion.tensor([1.0, 2, 2, 3, 5]), 4, range=(1.0, 5.0), weight=ternion.tensor([1.0, 2, 3, 4, 5]), density=True)
    near(result.hist, [0.0666666667, 0.3333333333, 0.2666666667, 0.3333333333], 1e-6)
    assert result.bin_edges.tolist() == [1, 2, 3, 4, 5]
    assert ternion.histogram(t([0.5, 1.0]), t([0.0, 1.0, 2.0])).hist.tolist() == [1, 1]
    assert ternion.histc(ternion.tensor([3.0, 3, 3]), 3).tolist() == [0, 3, 0]
    assert ternion.histc(ternion.tensor([]), 3).tolist() == [0, 0, 0]


def test_distances():
    near(ternion.cdist(t(X), t(Y), p=1.5), [3.842018311618, 3.792322858872, 0.887866660953, 3.492424141697])
    near(F.pdist(ternion.cat([t(X), t(Y)]), 3.0), [2.659052935126, 2.860258505983, 2.808688994707, 0.804660299297, 2.848886401909, 3.632044170383])


@pytest.mark.parametrize("mode", ["use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist"])
def test_distances_of_many_vectors_take_no_more_memory_than_they_must(mode):
    numbers = np.random.default_rng(1).normal(size=(600, 64))
    x = t(numbers).requires_grad_()
    actual = ternion.cdist(x, x.detach() + 1.0, compute_mode=mode)
    expected = np.sqrt(((numbers[:, None] - numbers[None] - 1) ** 2).sum(-1))
    np.testing.assert_allclose(actual.detach().numpy(), expected, 1e-10)
    actual.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), ((numbers[:, None] - numbers[None] - 1) / expected[..., None]).sum(1), 1e-8)


def test_slopes_and_areas():
    (slopes,) = ternion.gradient(t([1.0, 4, 9, 16, 30]), edge_order=2)
    near(slopes, [2.0, 4.0, 6.0, 10.5, 17.5])
    near(ternion.trapezoid(t(X), t(Y), dim=0), [-1.75, -0.175, 1.36])
    near(ternion.cumulative_trapezoid(t(X), t([0.0, 1, 3])), [-0.45, 0.35, 0.6, 0.7])


def test_parts_in_the_place_of_others():
    x = t([[0.0, 1, 2], [3, 4, 5]]).requires_grad_()
    assert ternion.diagonal_scatter(x, t([8.0, 9.0]), 1).tolist() == [[0, 8, 2], [3, 4, 9]]
    assert x.select_scatter(t([8.0, 9.0]), 1, -1).tolist() == [[0, 1, 8], [3, 4, 9]]
    assert x.slice_scatter(t([[7.0], [8.0]]), 1, 1, 2).tolist() == [[0, 7, 2], [3, 8, 5]]
    assert ternion.as_strided(x, (2, 2), (3, 1), 1).tolist() == [[1, 2], [4, 5]]
    result = ternion.as_strided_scatter(x, t([8.0, 9.0]), (2,), (5,))
    assert result.tolist() == [[8, 1, 2], [3, 4, 9]]
    result.sum().backward()
    assert x.grad.tolist() == [[0, 1, 1], [1, 1, 0]]


def test_sets():
    assert ternion.isin(ternion.tensor([1, 2, 3]), ternion.tensor([2, 5])).tolist() == [False, True, False]
    assert ternion.isin(ternion.tensor([1, 2]), 2, invert=True).tolist() == [True, False]
    assert ternion.combinations(ternion.tensor([1, 2, 3]), 2, True).tolist() == [[1, 1], [1, 2], [1, 3], [2, 2], [2, 3], [3, 3]]


def test_windows():
    near(windows.kaiser(5, beta=8.0, dtype=D), [0.002338830513, 0.368972722616, 1.0, 0.368972722616, 0.002338830513])
    near(windows.nuttall(4, sym=False, dtype=D), [0.0003628, 0.2269824, 1.0, 0.2269824])
    near(windows.exponential(4, tau=3.0, dtype=D), [0.606530659713, 0.846481724891, 0.846481724891, 0.606530659713])
    near(windows.gaussian(4, std=2.0, sym=False, dtype=D), [0.606530659713, 0.882496902585, 1.0, 0.882496902585])
    near(windows.general_cosine(4, a=[0.5, 0.3, 0.2], dtype=D), [0.4, 0.55, 0.55, 0.4])
    near(windows.general_hamming(4, alpha=0.6, dtype=D), [0.2, 0.8, 0.8, 0.2])
    near(ternion.kaiser_window(4, dtype=D), [5.2773441e-05, 0.215672744759, 1.0, 0.215672744759])
    near(ternion.hamming_window(4, True, 0.6, 0.4, dtype=D), [0.2, 0.6, 1.0, 0.6])
    for name in windows.__all__:
        window = getattr(windows, name)
        assert window(0, **({"a": [1.0]} if name == "general_cosine" else {})).shape == (0,)
        assert window(1, requires_grad=True, **({"a": [1.0]} if name == "general_cosine" else {})).tolist() == [1.0]


def test_powers_of_integers_are_exact():
    assert ternion.logspace(0, 4, 5, dtype=ternion.int64).tolist() == [1, 10, 100, 1000, 10000]
    assert ternion.logspace(0, 3, 7, base=2, dtype=ternion.int32).tolist() == [1, 1, 2, 2, 4, 5, 8]


def second(function, at):
    x = t(at).requires_grad_()
    (slope,) = ternion.autograd.grad(function(x).sum(), x, create_graph=True)
    return ternion.autograd.grad(slope.sum(), x)[0].tolist()


def test_second_derivatives_where_numbers_are_equal_or_zero():
    assert second(lambda x: F.huber_loss(x, t([0.5]), reduction="sum"), [0.5]) == [1.0]
    assert second(lambda x: F.smooth_l1_loss(x, t([0.5]), reduction="sum", beta=2.0), [0.5]) == [0.5]
    assert second(lambda x: ternion.logaddexp(x, t([0.5])), [0.5]) == [0.25]
    near(t(second(lambda x: ternion.logaddexp2(x, t([0.5])), [0.5])), [0.17328679513998632])
    near(t(second(ternion.sinc, [0.0])), [-math.pi**2 / 3])
    # The second derivative of log(e^a + e^b) + log(e^a + e^b + e^c) at equal numbers, summed over
    # all of them.
    assert second(lambda x: ternion.logcumsumexp(x, 0), [0.5, 0.5]) == pytest.approx([0.0, 0.0])


def test_dtypes():
    assert ternion.cov(ternion.ones(2, 3, dtype=ternion.bfloat16), aweights=ternion.ones(3)).dtype == ternion.float32
    assert ternion.ones(2, 3, dtype=ternion.int32).sum_to_size(1, 3).dtype == ternion.int64
    assert ternion.ones(2, 3, dtype=ternion.bool).sum_to_size(3).tolist() == [2, 2, 2]
    # Without sizes, all elements are summed, also if there is only one.
    assert ternion.tensor(True).sum_to_size(()).dtype == ternion.int64 and ternion.tensor(True).sum_to_size().item() == 1
    assert ternion.ones(3, dtype=ternion.bool).sum_to_size(3).dtype == ternion.bool


def test_indices_counted_past_the_last_element_begin_anew():
    indices = ternion.unravel_index(ternion.tensor([0, 5, 6, -1], dtype=ternion.int32), (2, 3))
    assert [index.tolist() for index in indices] == [[0, 1, 0, 0], [0, 2, 0, 2]] and indices[0].dtype == ternion.int64


def test_a_diagonal_that_wraps():
    tall = ternion.zeros(7, 2).fill_diagonal_(1, wrap=True)
    assert tall.nonzero().tolist() == [[0, 0], [1, 1], [3, 0], [4, 1], [6, 0]]
    assert ternion.zeros(2, 2, 2).fill_diagonal_(3).nonzero().tolist() == [[0, 0, 0], [1, 1, 1]]


def test_slices_filled_from_the_end():
    x = ternion.zeros(3, 2).requires_grad_()
    value = ternion.tensor(5.0).requires_grad_()
    filled = x.index_fill(0, ternion.tensor([-1]), value)
    filled.sum().backward()
    assert filled.tolist() == [[0, 0], [0, 0], [5, 5]] and value.grad.item() == 2 and x.grad.tolist() == [[1, 1], [1, 1], [0, 0]]


# The cumulative distribution functions of the random numbers.
DRAWN = {
    "exponential_": (lambda x: x.exponential_(2.0), lambda x: -np.expm1(-2 * x)),
    "cauchy_": (lambda x: x.cauchy_(1.0, 0.5), lambda x: 0.5 + np.arctan((x - 1) / 0.5) / np.pi),
    "log_normal_": (lambda x: x.log_normal_(0.5, 0.25), lambda x: 0.5 + 0.5 * np.vectorize(math.erf)((np.log(x) - 0.5) / 0.25 / math.sqrt(2))),
    "normal": (lambda x: ternion.normal(x + 3.0, ternion.full((1,), 2.0)), lambda x: 0.5 + 0.5 * np.vectorize(math.erf)((x - 3) / 2 / math.sqrt(2))),
}  # fmt: skip


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("dtype", [ternion.float32, ternion.float64])
def test_distributions(name, dtype):
    ternion.manual_seed(7)
    draw, function = DRAWN[name]
    count = 20000
    result = np.sort(draw(ternion.zeros(count, dtype=dtype)).double().numpy())
    ends = np.arange(count + 1) / count
    # The Kolmogorov-Smirnov statistic: above 1.95 in one of a thousand draws.
    distance = max((ends[1:] - function(result)).max(), (function(result) - ends[:-1]).max())
    assert distance * math.sqrt(count) < 1.95


def test_counts():
    ternion.manual_seed(7)
    trials = ternion.zeros(20000, dtype=ternion.int64).geometric_(0.25).double()
    assert trials.min() == 1 and abs(trials.mean().item() - 4) < 0.15 and abs(trials.var().item() - 12) < 1.2
    for rate in (0.5, 30.0):
        counts = ternion.poisson(ternion.full((20000,), rate, dtype=D))
        assert abs(counts.mean().item() - rate) < 5 * math.sqrt(rate / 20000) and abs(counts.var().item() / rate - 1) < 0.06
    counts = ternion.binomial(ternion.full((20000,), 40.0), ternion.tensor(0.75))
    assert abs(counts.mean().item() - 30) < 0.1 and abs(counts.var().item() - 7.5) < 0.5
    first, again = (ternion.poisson(ternion.ones(5), generator=ternion.Generator().manual_seed(3)).tolist() for _ in range(2))
    assert first == again


@pytest.mark.parametrize("layer, shape", [(nn.AlphaDropout(0.3), (200, 500)), (nn.FeatureAlphaDropout(0.3), (400, 200, 2))])
def test_alpha_dropout_keeps_mean_and_variance(layer, shape):
    ternion.manual_seed(7)
    x = ternion.randn(shape)
    y = layer(x)
    assert abs(y.mean().item()) < 0.02 and abs(y.var().item() - 1) < 0.03
    assert layer.eval()(x) is x
    # Dropped elements become the lower limit of selu, after the scale and the shift that preserve
    # mean and variance: Klambauer et al. 2017, equation 7.
    end = -1.7580993408473766
    scale = (0.7 * (1 + 0.3 * end**2)) ** -0.5
    dropped = ((y - scale * end * 0.7).abs() < 1e-4).float().mean().item()
    assert abs(dropped - 0.3) < 0.01
    assert F.alpha_dropout(x, 1.0, True).abs().max() == 0
