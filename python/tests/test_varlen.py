"""Attention within sequences of different lengths that are stored one after another."""

import numpy as np
import pytest
import ternion
from ternion.nn import functional as F
from ternion.nn.attention.varlen import AuxRequest, varlen_attn

ENDS, KEY_ENDS = [0, 3, 3, 8, 9], [0, 2, 6, 11, 14]


def drawn(*shape):
    return ternion.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32), requires_grad=True)


def lengths(ends):
    return ternion.tensor(ends, dtype=ternion.int32)


def alone(q, k, v, causal, window):
    """Each sequence by itself: [rows, heads, width]."""
    parts = []
    for (first, end), (first_key, end_key) in zip(zip(ENDS, ENDS[1:]), zip(KEY_ENDS, KEY_ENDS[1:])):
        if first == end:
            continue
        rows = [x.transpose(0, 1).unsqueeze(0) for x in (q[first:end], k[first_key:end_key], v[first_key:end_key])]
        queries, keys = end - first, end_key - first_key
        ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
        seen = np.ones((queries, keys), dtype=bool)
        if causal:
            seen &= ahead <= 0
        if window is not None:
            seen &= ahead > -window
            seen &= ahead < window
        parts.append(F.scaled_dot_product_attention(*rows, attn_mask=ternion.tensor(seen), enable_gqa=True)[0].transpose(0, 1))
    return ternion.cat(parts)


@pytest.mark.parametrize("window_size, causal, window", [((-1, -1), False, None), ((-1, 0), True, None), ((1, 0), True, 2), ((2, 2), False, 3)])
def test_sequences_attend_as_each_alone(window_size, causal, window):
    q, k, v = drawn(9, 4, 8), drawn(14, 2, 8), drawn(14, 2, 6)
    found = varlen_attn(q, k, v, lengths(ENDS), lengths(KEY_ENDS), 5, 5, window_size=window_size)
    expected = alone(q, k, v, causal, window)
    assert found.shape == (9, 4, 6)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6)
    weight = drawn(9, 4, 6).detach()
    of_found, of_expected = (ternion.autograd.grad((y * weight).sum(), (q, k, v)) for y in (found, expected))
    for ours, theirs in zip(of_found, of_expected):
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=2e-5, atol=2e-6)


def test_the_log_sum_exp_is_a_second_result():
    q, k, v = drawn(9, 2, 4), drawn(14, 2, 4), drawn(14, 2, 4)
    output, lse = varlen_attn(q, k, v, lengths(ENDS), lengths(KEY_ENDS), 5, 5, return_aux=AuxRequest(lse=True), scale=0.3)
    assert lse.shape == (2, 9)
    scores = 0.3 * np.einsum("hd,khd->hk", q.detach().numpy()[4], k.detach().numpy()[6:11])
    np.testing.assert_allclose(lse.detach().numpy()[:, 4], np.log(np.exp(scores).sum(-1)), rtol=1e-5)
    plain = varlen_attn(q, k, v, lengths(ENDS), lengths(KEY_ENDS), 5, 5, return_aux=AuxRequest(), scale=0.3)
    assert np.array_equal(plain.detach().numpy(), output.detach().numpy())


def test_rows_behind_the_last_sequence_give_zeros():
    q, k, v = drawn(5, 1, 4), drawn(6, 1, 4), drawn(6, 1, 4)
    output = varlen_attn(q, k, v, lengths([0, 3]), lengths([0, 4]), 3, 4).detach().numpy()
    assert np.all(output[3:] == 0) and np.all(output[:3] != 0)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(window_size=(2, 1)), ValueError, r"varlen_attn: window_size (2, 1), expected (-1, -1), (-1, 0), (W, 0) or (W, W)"),
        (dict(max_q=-1), ValueError, "varlen_attn: max_q is -1, expected a whole number from 0 on"),
        (dict(cu_seq_q=ternion.tensor([0, 9])), TypeError, "cu_seqlens_q is int64, expected int32"),
        (dict(cu_seq_k=lengths([0, 3, 14])), ValueError, "cu_seqlens_k has shape [3], expected [2]"),
        (dict(cu_seq_q=lengths([1, 9])), ValueError, "cu_seqlens_q: begins with 1, expected 0"),
        (dict(cu_seq_k=lengths([0, 15])), ValueError, "cu_seqlens_k: ends at 15, expected at most 14 rows"),
        (dict(cu_seq_q=lengths([0, 9, 4]), cu_seq_k=lengths([0, 9, 14])), ValueError, "cu_seqlens_q: 4 behind 9, expected ends that do not fall"),
        (dict(query=drawn(1, 9, 2, 4)), ValueError, "expected 3 axes, got shape [1, 9, 2, 4]"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    arguments = dict(query=drawn(9, 2, 4), key=drawn(14, 2, 4), value=drawn(14, 2, 4), cu_seq_q=lengths([0, 9]), cu_seq_k=lengths([0, 14]), max_q=9, max_k=14)
    with pytest.raises(error) as refused:
        varlen_attn(**{**arguments, **change})
    assert message in str(refused.value)
