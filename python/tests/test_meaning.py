"""The meaning of PyTorch programs in edge cases: gradients of fill values, losses of other shapes,
NaN bounds, margins that are met exactly."""

import math
import warnings

import numpy as np
import pytest

import ternion
from ternion import nn

from pytorch_reference import torch_of

F = nn.functional

FILLS = {
    "masked_fill": lambda x, mask, value: x.masked_fill(mask, value),
    "masked_fill_": lambda x, mask, value: (x * 1).masked_fill_(mask, value),
    "masked_fill_ of a leaf": lambda x, mask, value: x.detach().clone().masked_fill_(mask, value),
    "index_fill": lambda x, mask, value: x.index_fill(0, ternion.tensor([0, 2]), value),
    "index_fill_": lambda x, mask, value: (x * 1).index_fill_(0, ternion.tensor([0, 2]), value),
    "fill_": lambda x, mask, value: (x * 1).fill_(value),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_gradient_flows_to_a_value_to_fill_with(name):
    x = ternion.tensor([1.0, 2.0, 3.0], requires_grad=True)
    value = ternion.tensor(5.0, requires_grad=True)
    mask = ternion.tensor([True, False, True])
    filled = FILLS[name](x, mask, value)
    everywhere = name == "fill_"
    assert filled.tolist() == ([5.0, 5.0, 5.0] if everywhere else [5.0, 2.0, 5.0])
    (filled * ternion.tensor([1.0, 10.0, 100.0])).sum().backward()
    assert value.grad.item() == (111.0 if everywhere else 101.0)
    if name != "masked_fill_ of a leaf":
        assert x.grad.tolist() == ([0.0, 0.0, 0.0] if everywhere else [0.0, 10.0, 0.0])


def test_a_mask_token_is_learned():
    """The pattern of masked autoencoders: a learned number replaces the masked elements."""
    ternion.manual_seed(0)
    token = nn.Parameter(ternion.zeros(()))
    mask = ternion.tensor([True, False, False, True])
    sgd = ternion.optim.SGD([token], lr=0.25)
    for _ in range(60):
        sgd.zero_grad()
        F.mse_loss(ternion.ones(4).masked_fill(mask, token), 3 * ternion.ones(4)).backward()
        sgd.step()
    assert token.item() == pytest.approx(3.0, abs=1e-3)


def test_a_fill_value_is_cast_to_the_dtype_that_is_filled():
    value = ternion.tensor(2.5, dtype=ternion.float64, requires_grad=True)
    filled = ternion.zeros(2, dtype=ternion.bfloat16).masked_fill(ternion.tensor([True, False]), value)
    assert filled.dtype == ternion.bfloat16
    filled.sum().backward()
    assert value.grad.dtype == ternion.float64 and value.grad.item() == 1.0


LOSSES = {
    "mse_loss": F.mse_loss, "l1_loss": F.l1_loss, "smooth_l1_loss": F.smooth_l1_loss, "huber_loss": F.huber_loss, "soft_margin_loss": F.soft_margin_loss,
    "poisson_nll_loss": F.poisson_nll_loss, "hinge_embedding_loss": F.hinge_embedding_loss,
}  # fmt: skip


@pytest.mark.parametrize("name", LOSSES)
def test_a_loss_of_two_shapes_warns_of_both(name):
    loss, x, target = LOSSES[name], ternion.arange(4.0).reshape(4, 1), ternion.arange(4.0)
    with pytest.warns(UserWarning, match=rf"^{name}: input has shape \[4, 1\] and target \[4\]: they are broadcast") as caught:
        loss(x, target)
    assert len(caught) == 1 and caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loss(x[:, 0], target)


def test_modules_of_losses_warn_too():
    with pytest.warns(UserWarning, match="mse_loss: input has shape") as caught:
        nn.MSELoss()(ternion.ones(3, 1), ternion.ones(3))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", [ternion.float64, ternion.float32, ternion.float16, ternion.bfloat16])
def test_a_bound_that_is_nan_leaves_no_number(dtype):
    x = ternion.tensor([0.0, 5.0], dtype=dtype)
    for clamped in (x.clamp(min=math.nan), x.clamp(max=math.nan), x.clamp(math.nan, 1.0), x.clamp(0.0, math.nan), x.clone().clamp_(math.nan, 1.0), ternion.clamp_min(x, math.nan)):
        assert clamped.dtype == dtype and clamped.isnan().all().item()


def test_a_bound_that_is_nan_makes_floats_of_integers():
    assert ternion.tensor([0, 5]).clamp(min=math.nan).isnan().all().item()


def test_no_gradient_flows_through_a_bound_that_is_nan():
    x = ternion.tensor([0.0, 5.0], requires_grad=True)
    x.clamp(min=math.nan).sum().backward()
    assert x.grad.tolist() == [0.0, 0.0]


def test_targets_of_hinge_embedding_that_are_neither_count_both_ways():
    x, target = ternion.tensor([0.3, 0.3, 0.3]), ternion.tensor([1.0, -1.0, 0.0])
    assert F.hinge_embedding_loss(x, target, reduction="none").tolist() == pytest.approx([0.3, 0.7, 1.0])


def test_targets_of_cosine_embedding_that_are_neither_count_nothing():
    x = ternion.tensor([[1.0, 0.0]] * 3)
    result = F.cosine_embedding_loss(x, x, ternion.tensor([1.0, -1.0, 0.0]), reduction="none")
    assert result.tolist() == pytest.approx([0.0, 1.0, 0.0])


MARGINS = {
    "margin_ranking_loss": lambda x: F.margin_ranking_loss(x, ternion.zeros(1), ternion.ones(1), margin=1.0),
    "hinge_embedding_loss": lambda x: F.hinge_embedding_loss(x, -ternion.ones(1), margin=1.0),
    "triplet_margin_with_distance_loss": lambda x: F.triplet_margin_with_distance_loss(
        ternion.zeros(1, 1), ternion.zeros(1, 1), x.reshape(1, 1), distance_function=lambda a, b: (b - a).sum(-1), margin=1.0
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", MARGINS)
def test_a_margin_that_is_met_exactly_still_pulls(name):
    x = ternion.tensor([1.0], requires_grad=True)
    loss = MARGINS[name](x)
    loss.backward()
    assert loss.item() == 0.0 and x.grad.tolist() == [-1.0]


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm1d(2), lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2)), lambda: nn.InstanceNorm1d(2, track_running_stats=True)])
def test_weights_without_a_count_of_batches_load(make):
    """Files from PyTorch before 0.4.1, and from other frameworks."""
    trained, model = make(), make()
    state = {key: value + 1 for key, value in trained.state_dict().items() if not key.endswith("num_batches_tracked")}
    assert model.load_state_dict(state) == ([], [])
    for key, value in model.state_dict().items():
        expected = 0 if key.endswith("num_batches_tracked") else state[key]
        assert bool((value == expected).all()), key
    with pytest.raises(RuntimeError, match="missing: .*running_mean"):
        model.load_state_dict({key: value for key, value in state.items() if not key.endswith("running_mean")})


@pytest.mark.parametrize("queries, keys", [(3, 6), (6, 3), (1, 4), (4, 1)])
@pytest.mark.parametrize("masked", ["", "bool", "float"])
def test_a_causal_query_sees_keys_from_the_first_on(queries, keys, masked):
    """Compared with the definition, with every weight computed separately."""
    ternion.manual_seed(0)
    q, k, v = ternion.randn(2, queries, 8, dtype=ternion.float64), ternion.randn(2, keys, 8, dtype=ternion.float64), ternion.randn(2, keys, 5, dtype=ternion.float64)
    mask = {"": None, "bool": ternion.rand(queries, keys) > 0.3, "float": ternion.randn(queries, keys, dtype=ternion.float64)}[masked]
    actual = F.scaled_dot_product_attention(q, k, v, mask, is_causal=True)
    for batch in range(2):
        for i in range(queries):
            scores = [(q[batch, i] * k[batch, j]).sum().item() / math.sqrt(8) for j in range(keys)]
            if masked == "float":
                scores = [score + mask[i, j].item() for j, score in enumerate(scores)]
            visible = [j for j in range(keys) if j <= i and (masked != "bool" or mask[i, j].item())]
            weights = [math.exp(scores[j]) for j in visible]
            expected = sum((w * v[batch, j] for w, j in zip(weights, visible)), ternion.zeros(5, dtype=ternion.float64)) / max(sum(weights), 1e-300)
            assert actual[batch, i].tolist() == pytest.approx(expected.tolist(), abs=1e-12)


def test_attention_of_operands_with_other_numbers_of_axes():
    q, k, v = ternion.randn(4, 3, 8), ternion.randn(2, 4, 6, 8), ternion.randn(2, 4, 6, 5)
    result = F.scaled_dot_product_attention(q, k, v)
    assert result.shape == (2, 4, 3, 5)
    assert ternion.allclose(result, F.scaled_dot_product_attention(q.expand(2, 4, 3, 8), k, v))


def blind_rows():
    """Masks under which a query attends to no key. True excludes a key, as in PyTorch."""
    hidden = ternion.tensor([[False, False, False], [True, True, True], [False, False, True]])
    return {
        "padding": dict(key_padding_mask=ternion.tensor([[False] * 3, [True] * 3])),
        "bool": dict(attn_mask=hidden),
        "float": dict(attn_mask=ternion.zeros(3, 3).masked_fill(hidden, -math.inf)),
        "both": dict(key_padding_mask=ternion.tensor([[False] * 3, [True, False, False]]), attn_mask=ternion.ones(3, 3).triu(1).bool()),
    }


@pytest.mark.parametrize("name", ["padding", "bool", "float", "both"])
def test_attention_rows_without_a_key_are_zeros(name):
    """The result is the same with attention weights, which are computed separately, as without
    them, and no gradient is NaN."""
    ternion.manual_seed(0)
    attention, x = nn.MultiheadAttention(4, 2, batch_first=True), ternion.randn(2, 3, 4)
    gradients = []
    for need_weights in (True, False):
        attention.zero_grad()
        output, weights = attention(x, x, x, need_weights=need_weights, **blind_rows()[name])
        output.square().sum().backward()
        gradients.append([parameter.grad.clone() for parameter in attention.parameters()])
        if need_weights:
            with_weights = output
            sums = weights.sum(-1)
            assert bool(((sums - 1).abs() < 1e-6).logical_or(sums == 0).all()) and bool((sums == 0).any())
    assert ternion.allclose(with_weights, output, atol=1e-6)
    for one, other in zip(*gradients):
        assert bool(one.isfinite().all()) and ternion.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("change", ["renamed", "fewer", "numbers"])
def test_a_warm_start_with_other_labels_is_rejected(change):
    """As in scikit-learn. Otherwise the meaning of the outputs would change silently."""
    np = pytest.importorskip("numpy")
    draw = np.random.default_rng(0)
    X = draw.normal(size=(30, 2)).astype("f4")
    y = np.repeat(["a", "b", "c"], 10)
    model = ternion.models.MLP(2, 8, 3, warm_start=True, verbose=False, random_state=0).fit(X, y, epochs=2)
    model.fit(X, y, epochs=1)
    before = [parameter.clone() for parameter in model.parameters()]
    X, y = {"renamed": (X, np.where(y == "a", "z", y)), "fewer": (X[10:], y[10:]), "numbers": (X, draw.normal(size=(30, 3)))}[change]
    with pytest.raises(ValueError, match="warm_start continues with the labels of the call before"):
        model.fit(X, y, epochs=1)
    assert all(bool((one == other).all()) for one, other in zip(before, model.parameters()))
    assert list(model.classes_) == ["a", "b", "c"]


REJECTED = {
    "repeat_interleave: a fraction": lambda m: m.repeat_interleave(m.ones(2), 1.5),
    "repeat_interleave: a tensor of a fraction": lambda m: m.repeat_interleave(m.ones(2), m.tensor(1.5)),
    "one_hot: classes below -1": lambda m: m.nn.functional.one_hot(m.tensor([0]), -2),
    "one_hot: no classes": lambda m: m.nn.functional.one_hot(m.tensor([0]), 0),
    "trapezoid of bool": lambda m: m.trapezoid(m.ones(3).bool()),
    "cumulative_trapezoid of bool": lambda m: m.cumulative_trapezoid(m.ones(3).bool()),
    "cov of bool": lambda m: m.cov(m.ones(2, 3).bool()),
    "corrcoef of bool": lambda m: m.corrcoef(m.ones(2, 3).bool()),
    "chain_matmul of vectors": lambda m: m.chain_matmul(m.ones(2, 2), m.ones(2)),
    "chain_matmul of numbers": lambda m: m.chain_matmul(m.tensor(1.0), m.ones(2, 2)),
    "binary_cross_entropy_with_logits: a weight that broadcasts the losses": lambda m: m.nn.functional.binary_cross_entropy_with_logits(
        m.zeros(3, 1), m.ones(3, 1), weight=m.ones(3)),
    "binary_cross_entropy_with_logits: a weight of more axes": lambda m: m.nn.functional.binary_cross_entropy_with_logits(m.zeros(3), m.ones(3), weight=m.ones(3, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_what_pytorch_rejects_is_rejected(name):
    for library in (torch_of(), ternion):
        with pytest.raises((TypeError, ValueError, RuntimeError)) as error:
            REJECTED[name](library)
    assert "internal" not in str(error.value) and name.split(":")[0].split(" ")[0] in str(error.value)


@pytest.mark.parametrize("weight", [(5, 3), (3,), (5, 1), ()])
@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
def test_weights_of_elements_are_pytorchs(weight, reduction):
    """Losses have the dtype of the first input, float32, whatever the dtype of the weights."""
    torch = torch_of()
    for dtype in ("float32", "float64", "int64"):
        result = []
        for library in (ternion, torch):
            x = library.linspace(-2, 2, 15).reshape(5, 3).requires_grad_()
            weights = library.ones(weight) * 3 - library.arange(3.0)[: (weight or (1,))[-1]].reshape((-1,) if weight else ())
            weights = weights.to(getattr(library, dtype))
            loss = library.nn.functional.binary_cross_entropy_with_logits(x, x.detach().sigmoid(), weights, reduction=reduction, pos_weight=library.tensor([1.0, 2.0, 3.0]))
            loss.sum().backward()
            result.append((str(loss.dtype).rpartition(".")[2], loss.tolist(), x.grad.tolist()))
        assert result[0][0] == result[1][0]
        np.testing.assert_allclose(np.array(result[0][1]), np.array(result[1][1]), rtol=2e-6)
        np.testing.assert_allclose(np.array(result[0][2]), np.array(result[1][2]), rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ["any", "all"])
def test_logical_not_of_bytes_is_bytes(name):
    torch = torch_of()
    for arguments in ((), (0,), ((0, 1), True), ((),)):
        for dtype in ("uint8", "int8", "int64", "float32", "bool", "uint16"):
            ours, theirs = (getattr(m.tensor([[1, 0], [2, 3]]).to(getattr(m, dtype)), name)(*arguments) for m in (ternion, torch))
            assert ours.tolist() == theirs.tolist() and str(ours.dtype).rpartition(".")[2] == str(theirs.dtype).rpartition(".")[2]


def test_covariances_of_integers_have_the_dtype_of_their_weights():
    torch = torch_of()
    for dtype in ("int64", "int32", "float32", "float16"):
        for weights in ("float16", "bfloat16", "float32", "float64"):
            result = [m.cov(m.tensor([[1, 2, 5], [0, 3, 1]]).to(getattr(m, dtype)), aweights=m.ones(3).to(getattr(m, weights))).dtype for m in (ternion, torch)]
            assert str(result[0]).rpartition(".")[2] == str(result[1]).rpartition(".")[2], (dtype, weights)
