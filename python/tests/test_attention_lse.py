"""`nn.attention.scaled_dot_product_attention_with_lse`: attention, and the log-sum-exp of its
scores."""

import numpy as np
import pytest

import ternion
from ternion.nn import functional as F
from ternion.nn.attention import scaled_dot_product_attention_with_lse

HIDDEN = np.ones((5, 7), bool)
HIDDEN[1] = False
HIDDEN[3, 2:] = False
ADDED = np.random.default_rng(1).normal(size=(5, 7)).astype(np.float32)


def drawn(*shape, dtype=ternion.float32):
    return ternion.tensor(np.random.default_rng(sum(shape)).normal(size=shape), dtype=dtype).requires_grad_()


def lse_of(q, k, scale, mask=None, is_causal=False):
    """Computes the log-sum-exp of the scores with NumPy."""
    q, k = (x.detach().float().numpy().astype(np.float64) for x in (q, k))
    k = k if k.ndim < 3 else np.repeat(k, q.shape[-3] // k.shape[-3], -3)
    scores = scale * q @ np.swapaxes(k, -1, -2)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)
    with np.errstate(divide="ignore"):
        return np.log(np.exp(scores).sum(-1))


@pytest.mark.parametrize("shape", [(), (3,), (2, 4), (2, 2, 4)])
@pytest.mark.parametrize("mask, is_causal", [(None, False), (None, True), (HIDDEN, False), (HIDDEN, True), (ADDED, False)])
def test_the_log_sum_exp_is_that_of_the_scores(shape, mask, is_causal):
    q, k, v = drawn(*shape, 5, 6), drawn(*shape, 7, 6), drawn(*shape, 7, 3)
    options = dict(attn_mask=None if mask is None else ternion.tensor(mask), is_causal=is_causal, scale=0.3)
    output, lse = scaled_dot_product_attention_with_lse(q, k, v, **options)
    assert np.array_equal(output.detach().numpy(), F.scaled_dot_product_attention(q, k, v, **options).detach().numpy())
    assert lse.dtype is ternion.float32 and lse.shape == (*shape, 5)
    np.testing.assert_allclose(lse.detach().numpy(), lse_of(q, k, 0.3, mask, is_causal), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("width", [5, 64, 200])
@pytest.mark.parametrize("dtype, lse_dtype", [("float64", "float64"), ("float32", "float32"), ("bfloat16", "float32")])
def test_dtypes(width, dtype, lse_dtype):
    q, k, v = (drawn(2, heads, rows, width, dtype=getattr(ternion, dtype)) for heads, rows in ((4, 5), (2, 7), (2, 7)))
    output, lse = scaled_dot_product_attention_with_lse(q, k, v, enable_gqa=True)
    assert (output.dtype, lse.dtype) == (getattr(ternion, dtype), getattr(ternion, lse_dtype))
    assert output.equal(F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    np.testing.assert_allclose(lse.detach().numpy(), lse_of(q, k, width**-0.5), rtol=1e-5, atol=1e-5)


def test_a_mask_of_float32_beside_half_precision():
    q, k = drawn(1, 2, 5, 8, dtype=ternion.float16), drawn(1, 2, 7, 8, dtype=ternion.float16)
    output, lse = scaled_dot_product_attention_with_lse(q, k, k, ternion.tensor(ADDED))
    assert output.equal(F.scaled_dot_product_attention(q, k, k, ternion.tensor(ADDED))) and output.dtype is ternion.float16
    np.testing.assert_allclose(lse.detach().numpy(), lse_of(q, k, 8**-0.5, ADDED), rtol=1e-5, atol=1e-5)


def test_dropout_leaves_the_log_sum_exp():
    q, k, v = drawn(1, 2, 5, 6), drawn(1, 2, 7, 6), drawn(1, 2, 7, 3)
    ternion.manual_seed(4)
    expected = F.scaled_dot_product_attention(q, k, v, dropout_p=0.5)
    ternion.manual_seed(4)
    output, lse = scaled_dot_product_attention_with_lse(q, k, v, dropout_p=0.5)
    assert output.equal(expected) and not output.equal(F.scaled_dot_product_attention(q, k, v))
    np.testing.assert_allclose(lse.detach().numpy(), lse_of(q, k, 6**-0.5), rtol=1e-5, atol=1e-6)


def test_it_is_that_of_pytorchs_flash_attention():
    torch = pytest.importorskip("torch")
    q, k, v = drawn(2, 3, 5, 8), drawn(2, 3, 7, 8), drawn(2, 3, 7, 8)
    theirs = [torch.tensor(x.detach().numpy(), requires_grad=True) for x in (q, k, v)]
    torch_result = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(*theirs, 0.0, False)
    output, lse = scaled_dot_product_attention_with_lse(q, k, v)
    np.testing.assert_allclose(output.detach().numpy(), torch_result[0].detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(lse.detach().numpy(), torch_result[1].detach().numpy(), rtol=1e-5, atol=1e-6)


def test_gradients_flow_through_both():
    q, k, v, mask = drawn(2, 4, 5, 6), drawn(2, 2, 7, 6), drawn(2, 2, 7, 3), ternion.tensor(ADDED).requires_grad_()
    weight, of_lse = drawn(2, 4, 5, 3).detach(), drawn(2, 4, 5).detach()
    output, lse = scaled_dot_product_attention_with_lse(q, k, v, mask, is_causal=True, scale=0.3, enable_gqa=True)

    def twice(x):
        return x.repeat_interleave(2, dim=1)

    hidden = ~ternion.tensor(np.tri(5, 7, dtype=bool))
    scores = (0.3 * q @ twice(k).transpose(-1, -2) + mask).masked_fill(hidden, float("-inf"))
    pairs = (output, lse), (scores.softmax(-1) @ twice(v), scores.logsumexp(-1))
    leaves = (q, k, v, mask)
    actual, expected = (ternion.autograd.grad((y * weight).sum() + (l * of_lse).sum(), leaves) for y, l in pairs)
    for ours, theirs in zip(actual, expected):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=4e-6)


def test_parts_are_put_together():
    q, k, v = drawn(2, 4, 5, 6), drawn(2, 4, 7, 6), drawn(2, 4, 7, 3)
    (first, of_first), (second, of_second) = (scaled_dot_product_attention_with_lse(q, k[:, :, part], v[:, :, part]) for part in (slice(0, 3), slice(3, 7)))
    share = (of_first - of_second).sigmoid().unsqueeze(-1)
    full, lse = scaled_dot_product_attention_with_lse(q, k, v)
    np.testing.assert_allclose((share * first + (1 - share) * second).detach().numpy(), full.detach().numpy(), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(of_first.logaddexp(of_second).detach().numpy(), lse.detach().numpy(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(dropout_p=1.5), ValueError, "scaled_dot_product_attention_with_lse: probability 1.5, expected 0 to 1"),
        (dict(query=drawn(1, 2, 5, 3)), ValueError, "scaled_dot_product_attention_with_lse: key has shape [1, 2, 7, 6], expected [1, 2, 7, 3]"),
        (dict(key=drawn(1, 3, 7, 6)), ValueError, "scaled_dot_product_attention_with_lse: key of 3 heads for 2 of queries, expected as many, or enable_gqa=True"),
        (dict(attn_mask=ternion.zeros(5, 7, dtype="int64")), TypeError, "scaled_dot_product_attention_with_lse: mask is int64, expected bool or the query's dtype"),
        (dict(attn_mask=ternion.zeros(4, 7)), ValueError, "scaled_dot_product_attention_with_lse: mask has shape [4, 7], expected [1, 2, 5, 7]"),
        (dict(query=drawn(1, 2, 5, 6, dtype=ternion.float64)), TypeError, "scaled_dot_product_attention_with_lse: dtypes float64 and float32 differ; cast one of them with .to(dtype)"),
        (dict(query=[1.0]), TypeError, "scaled_dot_product_attention_with_lse: query is list, expected a tensor"),
        (dict(scale="a"), TypeError, "scaled_dot_product_attention_with_lse: expected a number, got str"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_rejected(change, error, message):
    arguments = dict(query=drawn(1, 2, 5, 6), key=drawn(1, 2, 7, 6), value=drawn(1, 2, 7, 3))
    with pytest.raises(error) as raised:
        scaled_dot_product_attention_with_lse(**{**arguments, **change})
    assert str(raised.value) == message
