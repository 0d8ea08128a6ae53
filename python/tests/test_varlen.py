"""Attention within packed sequences of different lengths."""

import numpy as np
import pytest
import ternion
from ternion import nn
from ternion.nn import functional as F
from ternion.nn.attention.varlen import AuxRequest, varlen_attn

ENDS, KEY_ENDS = [0, 3, 3, 8, 9], [0, 2, 6, 11, 14]


def drawn(*shape):
    return ternion.tensor(np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32), requires_grad=True)


def lengths(ends):
    return ternion.tensor(ends, dtype=ternion.int32)


def attend_separately(q, k, v, causal, window):
    """Computes each sequence separately: [rows, heads, width]."""
    parts = []
    for (first, end), (first_key, end_key) in zip(zip(ENDS, ENDS[1:]), zip(KEY_ENDS, KEY_ENDS[1:])):
        if first == end:
            continue
        rows = [x.transpose(0, 1).unsqueeze(0) for x in (q[first:end], k[first_key:end_key], v[first_key:end_key])]
        queries, keys = end - first, end_key - first_key
        ahead = np.arange(keys)[None, :] - np.arange(queries)[:, None] - (keys - queries)
        visible = np.ones((queries, keys), dtype=bool)
        if causal:
            visible &= ahead <= 0
        if window is not None:
            visible &= ahead > -window
            visible &= ahead < window
        parts.append(F.scaled_dot_product_attention(*rows, attn_mask=ternion.tensor(visible), enable_gqa=True)[0].transpose(0, 1))
    return ternion.cat(parts)


@pytest.mark.parametrize("window_size, causal, window", [((-1, -1), False, None), ((-1, 0), True, None), ((1, 0), True, 2), ((2, 2), False, 3)])
def test_sequences_attend_as_each_alone(window_size, causal, window):
    q, k, v = drawn(9, 4, 8), drawn(14, 2, 8), drawn(14, 2, 6)
    actual = varlen_attn(q, k, v, lengths(ENDS), lengths(KEY_ENDS), 5, 5, window_size=window_size)
    expected = attend_separately(q, k, v, causal, window)
    assert actual.shape == (9, 4, 6)
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=2e-5, atol=2e-6)
    weight = drawn(9, 4, 6).detach()
    of_found, of_expected = (ternion.autograd.grad((y * weight).sum(), (q, k, v)) for y in (actual, expected))
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


def test_weights_are_dropped_as_in_the_dense_function():
    """The random numbers are the same: a single sequence is equivalent to a batch of one, and both
    leave the generator in the same state."""
    q, k, v = drawn(9, 4, 8), drawn(14, 2, 8), drawn(14, 2, 6)

    def packed():
        return varlen_attn(q, k, v, lengths([0, 9]), lengths([0, 14]), 9, 14, dropout_p=0.4)

    def dense():
        heads = [x.transpose(0, 1).unsqueeze(0) for x in (q, k, v)]
        return F.scaled_dot_product_attention(*heads, dropout_p=0.4, enable_gqa=True)[0].transpose(0, 1)

    def seeded(attend):
        ternion.manual_seed(3)
        return [attend().detach().numpy(), attend().detach().numpy(), ternion.rand(4).numpy()]

    actual, again, expected = seeded(packed), seeded(packed), seeded(dense)
    for ours, same, theirs in zip(actual, again, expected):
        assert np.array_equal(ours, same)
        np.testing.assert_allclose(ours, theirs, rtol=2e-5, atol=2e-6)
    assert not np.array_equal(actual[0], actual[1])


def test_dropout_is_of_weights_alone():
    q, k, v = drawn(9, 2, 4), drawn(14, 2, 4), drawn(14, 2, 4)

    def attend(p):
        ends = lengths(ENDS), lengths(KEY_ENDS), 5, 5
        output, lse = varlen_attn(q, k, v, *ends, return_aux=AuxRequest(lse=True), dropout_p=p)
        return output.detach().numpy(), lse.detach().numpy()

    (full, lse), (dropped, lse_of_dropped), (nothing, _) = attend(0.0), attend(0.5), attend(1.0)
    np.testing.assert_allclose(lse, lse_of_dropped, rtol=1e-6)
    assert not np.array_equal(full, dropped) and np.all(nothing == 0)
    mean = np.mean([attend(0.5)[0] for _ in range(600)], 0)
    assert np.abs(mean - full).max() < 0.25


def test_gradients_are_of_what_was_left():
    q, k, v = drawn(9, 2, 4), drawn(14, 2, 4), drawn(14, 2, 4)
    ternion.manual_seed(5)
    output = varlen_attn(q, k, v, lengths(ENDS), lengths(KEY_ENDS), 5, 5, dropout_p=0.5)
    # The output is linear in the values: their gradient times the values is the output.
    gradient = ternion.autograd.grad(output.sum(), v)[0]
    np.testing.assert_allclose((gradient * v).sum().item(), output.sum().item(), rtol=1e-4, atol=1e-5)


class TestLayer:
    """`nn.MultiheadAttention.forward_varlen`."""

    @pytest.mark.parametrize("options", [dict(), dict(is_causal=True), dict(is_causal=True, window=2), dict(window=2)])
    @pytest.mark.parametrize("settings", [dict(), dict(num_kv_heads=1, bias=False), dict(rotary=nn.Rotary(6, 4)), dict(rotary=nn.Rotary(6, 4, pairs="interleaved"))])
    def test_sequences_attend_as_each_alone(self, settings, options):
        ternion.manual_seed(1)
        attention, x, ends = nn.MultiheadAttention(8, 2, **settings), drawn(9, 8), [0, 2, 2, 8, 9]
        actual = attention.forward_varlen(x, lengths(ends), 6, **options)
        parts = [x[first:end].unsqueeze(0) for first, end in zip(ends, ends[1:]) if first < end]
        expected = ternion.cat([attention.attend_self(part, **options)[0] for part in parts])
        assert actual.shape == (9, 8)
        leaves = [x, *attention.parameters()]
        of_found, of_expected = (ternion.autograd.grad(y.square().sum(), leaves) for y in (actual, expected))
        for ours, theirs in zip((actual, *of_found), (expected, *of_expected)):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=4e-6)

    @pytest.mark.parametrize("settings", [dict(), dict(feed_forward="swiglu", norm="rms_norm", kv_heads=1, rotary=nn.Rotary(6, 4))])
    def test_blocks_treat_sequences_as_each_alone(self, settings):
        ternion.manual_seed(1)
        block, x, ends = nn.TransformerBlock(8, 2, **settings), drawn(9, 8), [0, 2, 2, 8, 9]
        actual = block.forward_varlen(x, lengths(ends), 6, is_causal=True, window=3)
        parts = [x[first:end].unsqueeze(0) for first, end in zip(ends, ends[1:]) if first < end]
        expected = ternion.cat([block(part, is_causal=True, window=3)[0] for part in parts])
        leaves = [x, *block.parameters()]
        of_found, of_expected = (ternion.autograd.grad(y.square().sum(), leaves) for y in (actual, expected))
        for ours, theirs in zip((actual, *of_found), (expected, *of_expected)):
            np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=2e-5, atol=2e-5)

    def test_half_precision_stays(self):
        attention = nn.MultiheadAttention(8, 2, dtype=ternion.bfloat16)
        assert attention.forward_varlen(drawn(9, 8).detach().bfloat16(), lengths([0, 9])).dtype is ternion.bfloat16

    def test_dropout_is_of_training(self):
        attention, x, ends = nn.MultiheadAttention(8, 2, dropout=0.5), drawn(9, 8), lengths([0, 3, 9])
        ternion.manual_seed(2)
        assert not attention.forward_varlen(x, ends).equal(attention.forward_varlen(x, ends))
        attention.eval()
        assert attention.forward_varlen(x, ends).equal(attention.forward_varlen(x, ends))

    @pytest.mark.parametrize(
        "settings, change, error, message",
        [
            ({}, dict(x=drawn(1, 9, 8)), ValueError, "forward_varlen: expected 2 axes, got shape [1, 9, 8]"),
            ({}, dict(x=[1.0]), TypeError, "forward_varlen: x of type list, expected a tensor"),
            ({}, dict(cu_seqlens=[0, 9]), TypeError, "forward_varlen: cu_seqlens of type list, expected a tensor"),
            ({}, dict(cu_seqlens=ternion.tensor([0, 9])), TypeError, "forward_varlen: cu_seqlens is int64, expected int32"),
            ({}, dict(cu_seqlens=lengths([9])), ValueError, "1 cumulative lengths, expected 0 and the end of each sequence"),
            ({}, dict(cu_seqlens=lengths([0, 10])), ValueError, "ends at 10, expected at most 9 rows"),
            ({}, dict(max_seqlen=-1), ValueError, "forward_varlen: max_seqlen is -1, expected an integer from 0 on"),
            ({}, dict(max_seqlen=2.0), ValueError, "forward_varlen: max_seqlen is 2.0, expected an integer from 0 on"),
            (dict(kdim=6), {}, ValueError, "forward_varlen: keys of 6 and values of 8 columns, expected 8"),
            (dict(add_zero_attn=True), {}, ValueError, "forward_varlen: add_bias_kv or add_zero_attn, expected neither: call the module"),
            (dict(rotary=nn.Rotary(9, 6)), {}, ValueError, "rotary: 9 rows of 4 at positions [9], expected rows of 6 and a position of each"),
        ],
    )
    def test_what_does_not_fit_is_rejected(self, settings, change, error, message):
        attention = nn.MultiheadAttention(8, 2, **settings)
        with pytest.raises(error) as raised:
            attention.forward_varlen(**{"x": drawn(9, 8), "cu_seqlens": lengths([0, 9]), **change})
        assert message in str(raised.value)


def test_rows_behind_the_last_sequence_give_zeros():
    q, k, v = drawn(5, 1, 4), drawn(6, 1, 4), drawn(6, 1, 4)
    output = varlen_attn(q, k, v, lengths([0, 3]), lengths([0, 4]), 3, 4).detach().numpy()
    assert np.all(output[3:] == 0) and np.all(output[:3] != 0)


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(window_size=(2, 1)), ValueError, r"varlen_attn: window_size (2, 1), expected (-1, -1), (-1, 0), (W, 0) or (W, W)"),
        (dict(dropout_p=1.5), ValueError, "varlen_attn: probability 1.5, expected 0 to 1"),
        (dict(dropout_p="a"), TypeError, "varlen_attn: expected a number, got str"),
        (dict(max_q=-1), ValueError, "varlen_attn: max_q is -1, expected an integer from 0 on"),
        (dict(cu_seq_q=ternion.tensor([0, 9])), TypeError, "cu_seqlens_q is int64, expected int32"),
        (dict(cu_seq_k=lengths([0, 3, 14])), ValueError, "cu_seqlens_k has shape [3], expected [2]"),
        (dict(cu_seq_q=lengths([1, 9])), ValueError, "cu_seqlens_q: begins with 1, expected 0"),
        (dict(cu_seq_k=lengths([0, 15])), ValueError, "cu_seqlens_k: ends at 15, expected at most 14 rows"),
        (dict(cu_seq_q=lengths([0, 9, 4]), cu_seq_k=lengths([0, 9, 14])), ValueError, "cu_seqlens_q: 4 behind 9, expected ends that do not fall"),
        (dict(query=drawn(1, 9, 2, 4)), ValueError, "expected 3 axes, got shape [1, 9, 2, 4]"),
    ],
)
def test_what_does_not_fit_is_rejected(change, error, message):
    arguments = dict(query=drawn(9, 2, 4), key=drawn(14, 2, 4), value=drawn(14, 2, 4), cu_seq_q=lengths([0, 9]), cu_seq_k=lengths([0, 14]), max_q=9, max_k=14)
    with pytest.raises(error) as raised:
        varlen_attn(**{**arguments, **change})
    assert message in str(raised.value)
