"""Operands of different dtypes in losses, distances, norms and attention. Whenever PyTorch accepts
a call, Ternion returns the same dtype and values, or the call is listed here as rejected."""

import itertools
import warnings

import pytest
from pytorch_reference import torch_of

import ternion

DTYPES = "float64 float32 float16 bfloat16 int64 int32 bool".split()
WHOLE = ("int64", "int32", "bool")
A, B, SIGNS, SHARES = [[1.0, 2, 3], [2, 1, 1]], [[1.0, 2, 1], [2, 1, 3]], [[1.0, -1, 1], [-1, 1, 1]], [[0.5, 1, 0], [0, 1, 0.5]]
ROWS = [[[1.0, 2, 3, 5], [2, 1, 1, 0], [0, 1, 2, 4]], [[3.0, 2, 1, 0], [2, 5, 1, 0], [0, 9, 2, 4]]]
SIDE, LINE = [[0.0, 1, 1], [1, 1, 0], [1, 0, 1]], [1.0, 2, 1]

# Each function takes the module, a function that creates a tensor of the first dtype, one for the
# second dtype, and the reduction.
LOSSES = {
    "mse_loss": lambda F, p, q, **r: F.mse_loss(p(A), q(B), **r),
    "mse_loss of weights": lambda F, p, q, **r: F.mse_loss(p(A), p(B), weight=q(B), **r),
    "mse_loss of targets and weights": lambda F, p, q, **r: F.mse_loss(p(A), q(B), weight=p(B), **r),
    "l1_loss": lambda F, p, q, **r: F.l1_loss(p(A), q(B), **r),
    "l1_loss of weights": lambda F, p, q, **r: F.l1_loss(p(A), p(B), weight=q(B), **r),
    "smooth_l1_loss": lambda F, p, q, **r: F.smooth_l1_loss(p(A), q(B), **r),
    "huber_loss": lambda F, p, q, **r: F.huber_loss(p(A), q(B), **r),
    "huber_loss of weights": lambda F, p, q, **r: F.huber_loss(p(A), p(B), weight=q(B), **r),
    "huber_loss of targets and weights": lambda F, p, q, **r: F.huber_loss(p(A), q(B), weight=p(B), **r),
    "poisson_nll_loss": lambda F, p, q, **r: F.poisson_nll_loss(p(A), q(B), **r),
    "poisson_nll_loss in full": lambda F, p, q, **r: F.poisson_nll_loss(p(A), q(B), full=True, **r),
    "poisson_nll_loss of rates": lambda F, p, q, **r: F.poisson_nll_loss(p(A), q(B), log_input=False, **r),
    "gaussian_nll_loss": lambda F, p, q, **r: F.gaussian_nll_loss(p(A), q(B), p(A), **r),
    "gaussian_nll_loss of variances": lambda F, p, q, **r: F.gaussian_nll_loss(p(A), p(B), q(A), **r),
    "kl_div": lambda F, p, q, **r: F.kl_div(p(A), q(B), **r),
    "kl_div of logarithms": lambda F, p, q, **r: F.kl_div(p(A), q(B), log_target=True, **r),
    "hinge_embedding_loss": lambda F, p, q, **r: F.hinge_embedding_loss(p(A), q(SIGNS), **r),
    "soft_margin_loss": lambda F, p, q, **r: F.soft_margin_loss(p(A), q(SIGNS), **r),
    "margin_ranking_loss": lambda F, p, q, **r: F.margin_ranking_loss(p(A), q(B), p(SIGNS), margin=0.5, **r),
    "margin_ranking_loss of targets": lambda F, p, q, **r: F.margin_ranking_loss(p(A), p(B), q(SIGNS), **r),
    "cosine_embedding_loss": lambda F, p, q, **r: F.cosine_embedding_loss(p(A), q(B), p([1.0, -1]), **r),
    "cosine_embedding_loss of targets": lambda F, p, q, **r: F.cosine_embedding_loss(p(A), p(B), q([1.0, -1]), margin=0.5, **r),
    "triplet_margin_loss": lambda F, p, q, **r: F.triplet_margin_loss(p(A), q(B), p(SIGNS), **r),
    "triplet_margin_loss swapped": lambda F, p, q, **r: F.triplet_margin_loss(p(A), p(B), q(SIGNS), swap=True, **r),
    "triplet_margin_with_distance_loss": lambda F, p, q, **r: F.triplet_margin_with_distance_loss(p(A), q(B), p(SIGNS), **r),
    "binary_cross_entropy": lambda F, p, q, **r: F.binary_cross_entropy(p(SHARES), q(SHARES), **r),
    "binary_cross_entropy of weights": lambda F, p, q, **r: F.binary_cross_entropy(p(SHARES), p(SHARES), weight=q(B), **r),
    "binary_cross_entropy_with_logits": lambda F, p, q, **r: F.binary_cross_entropy_with_logits(p(A), q(SHARES), **r),
    "binary_cross_entropy_with_logits of weights": lambda F, p, q, **r: F.binary_cross_entropy_with_logits(p(A), p(SHARES), weight=q(B), **r),
    "binary_cross_entropy_with_logits of pos_weight": lambda F, p, q, **r: F.binary_cross_entropy_with_logits(p(A), p(SHARES), pos_weight=q(LINE), **r),
    "multilabel_soft_margin_loss": lambda F, p, q, **r: F.multilabel_soft_margin_loss(p(A), q(SHARES), **r),
    "multilabel_soft_margin_loss of weights": lambda F, p, q, **r: F.multilabel_soft_margin_loss(p(A), p(SHARES), weight=q(B), **r),
    "cross_entropy of weights": lambda F, p, q, **r: F.cross_entropy(p(A), p(SHARES), weight=q(LINE), **r),
}  # fmt: skip
OTHERS = {
    "cosine_similarity": lambda F, p, q: F.cosine_similarity(p(A), q(B)),
    "pairwise_distance": lambda F, p, q: F.pairwise_distance(p(A), q(B)),
    "pairwise_distance of 1": lambda F, p, q: F.pairwise_distance(p(A), q(B), p=1.0, keepdim=True),
    "layer_norm": lambda F, p, q: F.layer_norm(p(A), (3,), q(LINE), q([1.0, 2, 0])),
    "layer_norm of weights": lambda F, p, q: F.layer_norm(p(A), (3,), q(LINE)),
    "rms_norm": lambda F, p, q: F.rms_norm(p(A), (3,), q(LINE)),
    "group_norm": lambda F, p, q: F.group_norm(p(ROWS), 1, q(LINE), q(LINE)),
    "batch_norm": lambda F, p, q: F.batch_norm(p(ROWS), None, None, q(LINE), q(LINE), True),
    "batch_norm of statistics": lambda F, p, q: F.batch_norm(p(ROWS), q([0.0, 1, 1]), q(LINE), q(LINE), q(LINE), False),
    "batch_norm that follows": lambda F, p, q: F.batch_norm(p(ROWS), q([0.0, 1, 1]), q(LINE), None, None, True),
    "instance_norm": lambda F, p, q: F.instance_norm(p(ROWS), None, None, q(LINE), q(LINE)),
    "attention": lambda F, p, q: F.scaled_dot_product_attention(p(ROWS), p(ROWS), p(ROWS), attn_mask=q(SIDE)),
}  # fmt: skip
# Losses whose dtype is an integer in PyTorch. Ternion rejects them.
REJECTED = {"hinge_embedding_loss", "l1_loss", "mse_loss of weights", "mse_loss of targets and weights", "l1_loss of weights"}
TOLERANCES = {"float64": 1e-9, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


def dtype_of(x):
    return str(x.dtype).split(".")[1]


def converter(module, dtype):
    return lambda values: module.tensor(values).to(getattr(module, dtype))


def answers(module, call, dtypes, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call(module.nn.functional, *(converter(module, dtype) for dtype in dtypes), **options)


def compared(name, call, **options):
    """Returns the number of dtype pairs that PyTorch accepts. For each of them, Ternion must return
    the same dtype and values."""
    torch, count = torch_of(), 0
    for dtypes in itertools.product(DTYPES, DTYPES):
        try:
            expected = answers(torch, call, dtypes, **options)
        except (RuntimeError, ValueError, TypeError):
            continue
        count += 1
        if name in REJECTED and dtypes[0] in WHOLE and (dtypes[1] in WHOLE or name == "hinge_embedding_loss"):
            with pytest.raises(TypeError, match="expected a floating dtype"):
                answers(ternion, call, dtypes, **options)
            continue
        actual = answers(ternion, call, dtypes, **options)
        assert dtype_of(actual) == dtype_of(expected), (name, dtypes)
        # Where PyTorch computes a part in half precision, or integers in float32, Ternion rounds
        # once.
        tolerance = max(TOLERANCES.get(dtype, TOLERANCES["float32"]) for dtype in (*dtypes, dtype_of(expected)))
        assert torch.allclose(torch.tensor(actual.double().tolist()), torch.tensor(expected.double().tolist()), tolerance, tolerance), (name, dtypes)
    return count


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("name", LOSSES)
def test_losses(name, reduction):
    # `binary_cross_entropy` does not accept two dtypes.
    assert compared(name, LOSSES[name], reduction=reduction) >= (4 if name == "binary_cross_entropy" else 16)


@pytest.mark.parametrize("name", OTHERS)
def test_distances_norms_and_attention(name):
    assert compared(name, OTHERS[name]) >= 6


@pytest.mark.parametrize("target", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_cross_entropy_of_probabilities(dtype, target):
    """One-hot targets from NumPy are float64."""
    torch = torch_of()
    for options in (dict(), dict(label_smoothing=0.1), dict(reduction="sum")):
        actual, expected = (answers(T, lambda F, p, q: F.cross_entropy(p(A), q(SHARES), **options), (dtype, target)) for T in (ternion, torch))
        assert dtype_of(actual) == dtype_of(expected) and abs(actual.item() - expected.item()) <= 3e-2 * abs(expected.item())


@pytest.mark.parametrize("function", ["trapezoid", "cumulative_trapezoid"])
def test_areas(function):
    torch = torch_of()
    for dtypes in itertools.product(DTYPES[:-1], DTYPES[:-1]):
        actual, expected = (getattr(T, function)(converter(T, dtypes[0])(A), converter(T, dtypes[1])([1.0, 2, 4])) for T in (ternion, torch))
        assert dtype_of(actual) == dtype_of(expected) and actual.double().tolist() == expected.double().tolist(), dtypes


@pytest.mark.parametrize("name", ["huber_loss", "soft_margin_loss", "hinge_embedding_loss"])
def test_gradients_that_pytorch_rejects(name):
    x = ternion.tensor(A, requires_grad=True)
    LOSSES[name](ternion.nn.functional, lambda values: x, converter(ternion, "float64")).backward()
    y = ternion.tensor(A, requires_grad=True)
    LOSSES[name](ternion.nn.functional, lambda values: y, converter(ternion, "float32")).backward()
    assert x.grad.dtype == ternion.float32 and x.grad.sub(y.grad).abs().max().item() < 1e-6


@pytest.mark.parametrize("name", ["mse_loss of weights", "kl_div", "multilabel_soft_margin_loss", "poisson_nll_loss", "binary_cross_entropy_with_logits"])
def test_gradients_have_the_dtype_of_their_tensor(name):
    torch = torch_of()
    gradients = []
    for T in (ternion, torch):
        leaves = []

        def leaf(values):
            leaves.append(T.tensor(values, requires_grad=True))
            return leaves[-1]

        LOSSES[name](T.nn.functional, leaf, converter(T, "float64")).backward()
        gradients.append(leaves[0].grad)
    assert dtype_of(gradients[0]) == "float32" and torch.allclose(torch.tensor(gradients[0].tolist()), gradients[1], 1e-5, 1e-6)


def test_running_statistics_follow_in_their_own_dtype():
    torch = torch_of()
    results = []
    for T in (ternion, torch):
        mean, var, x = T.zeros(3), T.ones(3), converter(T, "bfloat16")(ROWS)
        y = T.nn.functional.batch_norm(x, mean, var, T.ones(3) * 1.5, T.ones(3), True)
        results.append((mean.tolist(), var.tolist(), dtype_of(y)))
    assert results[0][2] == results[1][2] == "bfloat16"
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5) and results[0][1] == pytest.approx(results[1][1], rel=1e-5)


def test_integers_that_pytorch_truncates():
    """PyTorch truncates the mean of squares of integers to an integer."""
    with pytest.raises(TypeError, match="local_response_norm: input is int64, expected a floating dtype"):
        ternion.nn.functional.local_response_norm(ternion.ones(1, 2, 3).long(), 2)


@pytest.mark.parametrize("call", [lambda T: T.nn.functional.hardshrink(T.tensor([1, 2, 0])), lambda T: T.nn.Hardshrink()(T.tensor([1, 2, 0])), lambda T: T.logcumsumexp(T.tensor([1, 2, 0]), 0)])
def test_functions_of_floats_of_integers(call):
    result = call(ternion)
    assert result.dtype == ternion.float32 and result.tolist() == call_of_floats(call).tolist()


def call_of_floats(call):
    class Floats:
        nn, logcumsumexp, tensor = ternion.nn, ternion.logcumsumexp, staticmethod(lambda values: ternion.tensor(values).float())

    return call(Floats)


def test_bools():
    torch = torch_of()
    for T in (torch, ternion):
        x, y = T.tensor([True, False, True]), T.tensor([False, False, True])
        assert T.clamp_max(x, y).tolist() == [False, False, True] and T.clamp_min(x, y).tolist() == [True, False, True] and x.clamp_min(y).dtype == T.bool
        assert T.clamp_max(x, 0).tolist() == [0, 0, 0] and T.clamp_max(x, 1.5).tolist() == [1.0, 0.0, 1.0] and T.clamp(x, min=y).tolist() == [True, False, True]
        square = T.zeros(3, 3).bool()
        assert T.addr(square, x, y).tolist() == [[False, False, True], [False] * 3, [False, False, True]]
        ones = T.ones(3, 3).bool()
        assert T.addr(ones, x, y, beta=2, alpha=0).tolist() == [[True] * 3] * 3 and T.addr(ones, x, y, beta=False).sum().item() == 2
        assert T.addr(ones, x, y.long()).tolist() == [[1, 1, 2], [1, 1, 1], [1, 1, 2]]
        with pytest.raises((RuntimeError, ValueError)):
            T.addr(ones, x, y, beta=0.5)
        assert square.addr_(x, y).sum().item() == 2 and x.clone().clamp_max_(y).tolist() == [False, False, True]
