"""Causal attention with queries and keys of different lengths, as in PyTorch: the first query is
aligned with the first key."""

import pytest
from pytorch_reference import close as close_to, torch_of

import ternion
from ternion import nn


def close(actual, expected):
    close_to(actual, expected, 3e-6)


def both(make):
    """Returns a module of PyTorch, and the same module of Ternion."""
    torch = torch_of()
    theirs = make(torch.nn)
    ours = make(nn)
    ours.load_state_dict({name: ternion.tensor(value.numpy()) for name, value in theirs.state_dict().items()})
    return torch, ours.eval(), theirs.eval()


def pairs(torch, *shapes):
    values = [torch.randn(shape, generator=torch.Generator().manual_seed(number)) for number, shape in enumerate(shapes)]
    return [ternion.tensor(value.numpy()) for value in values], values


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("queries, keys", [(5, 2), (2, 5), (4, 4), (1, 3), (3, 1)])
def test_multihead_attention(queries, keys, need_weights):
    torch, ours, theirs = both(lambda n: n.MultiheadAttention(4, 2, batch_first=True))
    (q, k), (tq, tk) = pairs(torch, (1, queries, 4), (1, keys, 4))
    mask, theirs_mask = (T.ones(queries, keys, dtype=T.bool).triu(1) for T in (ternion, torch))
    expected, weights = theirs(tq, tk, tk, attn_mask=theirs_mask, need_weights=True)
    for options in (dict(attn_mask=mask, is_causal=True), dict(is_causal=True), dict(attn_mask=mask)):
        actual, found_weights = ours(q, k, k, need_weights=need_weights, **options)
        close(actual, expected)
        if need_weights:
            close(found_weights, weights)


@pytest.mark.parametrize("target, memory", [(5, 2), (2, 5), (3, 3)])
def test_decoders(target, memory):
    torch, ours, theirs = both(lambda n: n.TransformerDecoderLayer(4, 2, 8, batch_first=True))
    (x, memory_input), (tx, their_memory_input) = pairs(torch, (1, target, 4), (1, memory, 4))
    mask, theirs_mask = (T.ones(target, memory, dtype=T.bool).triu(1) for T in (ternion, torch))
    close(ours(x, memory_input, memory_mask=mask, memory_is_causal=True), theirs(tx, their_memory_input, memory_mask=theirs_mask, memory_is_causal=True))


def test_a_transformer():
    torch, ours, theirs = both(lambda n: n.Transformer(4, 2, 1, 1, 8, batch_first=True))
    (x, source), (tx, their_source) = pairs(torch, (1, 3, 4), (1, 5, 4))
    mask, theirs_mask = (T.ones(5, 3, dtype=T.bool).triu(1) for T in (ternion, torch))
    close(ours(x, source, memory_mask=mask, memory_is_causal=True), theirs(tx, their_source, memory_mask=theirs_mask, memory_is_causal=True))


@pytest.mark.parametrize("queries, keys", [(5, 2), (2, 5), (3, 3)])
def test_the_function(queries, keys):
    torch = torch_of()
    (q, k), (tq, tk) = pairs(torch, (1, 2, queries, 4), (1, 2, keys, 4))
    close(nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True), torch.nn.functional.scaled_dot_product_attention(tq, tk, tk, is_causal=True))


def test_a_mask_beside_the_flag_hides_more():
    torch = torch_of()
    (x,), (tx,) = pairs(torch, (1, 1, 3, 2))
    rows = [[True, False, True]] * 3
    result = nn.functional.scaled_dot_product_attention(x, x, x, attn_mask=ternion.tensor(rows), is_causal=True)
    close(result, torch.nn.functional.scaled_dot_product_attention(tx, tx, tx, attn_mask=torch.tensor(rows) & torch.ones(3, 3, dtype=torch.bool).tril()))


def test_earlier_keys_that_are_kept_are_seen():
    """With a KV cache, the last token is aligned with the last key."""
    layer = nn.MultiheadAttention(4, 2, batch_first=True).eval()
    x = ternion.randn(1, 5, 4)
    full = layer.attend_self(x, is_causal=True)
    cache = nn.KeyValueCache(8)
    with ternion.no_grad():
        parts = [layer.attend_self(x[:, first:end], is_causal=True, cache=cache) for first, end in ((0, 2), (2, 5))]
    close(ternion.cat(parts, 1), full)
