"""Attention and rotary embeddings."""

import math

import ternion
from ternion.nn import functional

from arrays import dtype_of_type

from .table import operator


def _heads(x, heads):
    """Maps [batch, sequence, heads * width] to [batch, heads, sequence, width]. An input with four
    axes is returned unchanged."""
    return x if x.dim() == 4 else x.unflatten(2, [heads, -1]).transpose(1, 2)


def _allowed(node, queries, keys, offset):
    """Returns which keys a query may attend to by position: a mask that broadcasts to [batch,
    heads, queries, keys], or None.

    `offset` is the position of the first query: one number, or one per batch element.
    """
    left, right = node.attribute("left_window_size", -1), node.attribute("right_window_size", -1)
    if node.attribute("is_causal", 0):
        right = 0
    if left < 0 and right < 0:
        return None
    position = ternion.arange(queries).reshape(-1, 1) + offset
    key = ternion.arange(keys).reshape(1, -1)
    allowed = ternion.ones(1, dtype=ternion.bool)
    if right >= 0:
        allowed = allowed & (key <= position + right)
    if left >= 0:
        allowed = allowed & (key >= position - left)
    return allowed


def _is_causal_only(node, attn_mask, past, lengths):
    """Returns whether Ternion's `is_causal` is sufficient. It aligns the first query with the first
    key."""
    bounded = node.attribute("left_window_size", -1) >= 0
    return bool(node.attribute("is_causal", 0)) and past is None and not bounded and attn_mask is None and lengths is None


def _mask(node, q, k, attn_mask, past, lengths):
    """Returns the combined masks: bool, or additive if the model's mask is additive. None if there
    is no mask."""
    queries, keys = q.shape[2], k.shape[2]
    offset = 0 if past is None else past.shape[2]
    if past is None and lengths is not None:
        offset = lengths.reshape(-1, 1, 1, 1) - queries
    allowed = _allowed(node, queries, keys, offset)
    if lengths is not None:
        within = ternion.arange(keys).reshape(1, 1, 1, -1) < lengths.reshape(-1, 1, 1, 1)
        allowed = within if allowed is None else allowed & within
    if attn_mask is None:
        return allowed
    is_bool = attn_mask.dtype == ternion.bool
    missing = keys - attn_mask.shape[-1]
    if missing:  # Keys beyond a mask that is too short are masked.
        attn_mask = functional.pad(attn_mask, [0, missing], value=0 if is_bool else -math.inf)
    if allowed is None:
        return attn_mask
    return allowed & attn_mask if is_bool else ternion.where(allowed, attn_mask, -math.inf)


def _steps(node, q, k, v, mask, scale):
    """Computes attention step by step: for a soft cap, another precision, or intermediate results
    that the model uses."""
    repeats = q.shape[1] // k.shape[1]
    if repeats > 1:
        k, v = (x.unsqueeze(2).expand(-1, -1, repeats, -1, -1).flatten(1, 2) for x in (k, v))
    root = math.sqrt(scale)
    stages = [(q * root) @ (k * root).transpose(-1, -2)]
    cap = node.attribute("softcap", 0.0)
    stages.append(cap * (stages[0] / cap).tanh() if cap else stages[0])
    stages.append(stages[1] if mask is None else _masked(stages[1], mask))
    logits = stages[2]
    precision = node.attribute("softmax_precision")
    weights = (logits if precision is None else logits.to(dtype_of_type(precision))).softmax(-1)
    if mask is not None:  # A query without any key has weights 0.
        none = (mask.logical_not() if mask.dtype == ternion.bool else mask == -math.inf).all(-1, keepdim=True)
        weights = ternion.where(none, 0.0, weights)
    weights = weights.to(q.dtype)
    stages.append(weights)
    return weights @ v, stages[node.attribute("qk_matmul_output_mode", 0)]


def _masked(logits, mask):
    if mask.dtype == ternion.bool:
        return ternion.where(mask, logits, -math.inf)
    return logits + mask


@operator("Attention")
def attention(node, query, key, value, attn_mask=None, past_key=None, past_value=None, lengths=None):
    """Uses scaled_dot_product_attention whenever it supports what the node requires."""
    q = _heads(query, node.attribute("q_num_heads"))
    k, v = (_heads(x, node.attribute("kv_num_heads")) for x in (key, value))
    if past_key is not None:
        k, v = ternion.cat([past_key, k], 2), ternion.cat([past_value, v], 2)
    scale = node.attribute("scale", 1 / math.sqrt(q.shape[3]))
    steps = node.wants(3) or node.attribute("softcap", 0.0) or node.attribute("softmax_precision") is not None
    causal = _is_causal_only(node, attn_mask, past_key, lengths)
    mask = None if causal and not steps else _mask(node, q, k, attn_mask, past_key, lengths)
    if steps:
        result, logits = _steps(node, q, k, v, mask, scale)
    else:
        result, logits = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, scale=scale, enable_gqa=True), None
    if query.dim() == 3:
        result = result.transpose(1, 2).flatten(2)
    return result, k, v, logits


@operator("RotaryEmbedding")
def rotary_embedding(node, x, cos, sin, positions=None):
    """Rotates pairs of elements by the angle of their position. Shapes: [batch, heads, sequence,
    width] or [batch, sequence, heads * width]."""
    if x.dim() == 4:
        rows = x.transpose(1, 2)
    else:
        rows = x.unflatten(2, [node.attribute("num_heads"), -1])
    width = node.attribute("rotary_embedding_dim", 0) or rows.shape[3]
    rotated, rest = rows[..., :width], rows[..., width:]
    if positions is not None:
        cos, sin = (functional.embedding(positions, table) for table in (cos, sin))
    cos, sin = cos.unsqueeze(2), sin.unsqueeze(2)
    interleaved = node.attribute("interleaved", 0)
    first, second = (rotated[..., ::2], rotated[..., 1::2]) if interleaved else rotated.chunk(2, -1)
    pairs = [cos * first - sin * second, sin * first + cos * second]
    rotated = ternion.stack(pairs, -1).flatten(3) if interleaved else ternion.cat(pairs, -1)
    result = ternion.cat([rotated, rest], -1)
    return result.transpose(1, 2) if x.dim() == 4 else result.flatten(2)


@operator("ai.onnx.preview.FlexAttention")
def flex_attention(node, q, k, v):
    """Attention whose logits and weights can be modified by graphs of the node."""
    repeats = q.shape[1] // k.shape[1]
    k, v = (x.unsqueeze(2).expand(-1, -1, repeats, -1, -1).flatten(1, 2) for x in (k, v))
    precision = node.attribute("softmax_precision")
    wide = ternion.float64 if q.dtype == ternion.float64 else ternion.float32
    wide = wide if precision is None else dtype_of_type(precision)
    logits = (q.to(wide) @ k.to(wide).transpose(-1, -2)) * node.attribute("scale", 1 / math.sqrt(q.shape[3]))
    if node.attribute("score_mod") is not None:
        (logits,) = node.run_graph("score_mod", logits)
    weights = logits.softmax(-1)
    if node.attribute("prob_mod") is not None:
        (weights,) = node.run_graph("prob_mod", weights)
    return (weights @ v.to(wide)).to(q.dtype)


def _linear_heads(x, heads):
    """Maps [batch, sequence, heads * width] to [sequence, batch, heads, width]."""
    return x.unflatten(2, [heads, -1]).transpose(0, 1)


@operator("LinearAttention")
def linear_attention(node, query, key, value, state=None, decay=None, beta=None):
    """Computes the recurrence token by token: each token updates the state [batch, heads, key
    width, value width], which the queries read."""
    heads, rule = node.attribute("kv_num_heads"), node.attribute("update_rule", "gated_delta")
    # The state is computed in float32, whatever the dtype of the tokens.
    state_dtype = query.dtype if state is None else state.dtype
    wide = [None if x is None else x.float() for x in (query, key, value, state, decay, beta)]
    dtype, (query, key, value, state, decay, beta) = query.dtype, wide
    q = _linear_heads(query, node.attribute("q_num_heads"))
    k, v = _linear_heads(key, heads), _linear_heads(value, heads)
    repeats = q.shape[2] // heads
    scale = node.attribute("scale", 0.0) or 1 / math.sqrt(q.shape[3])
    if state is None:
        state = ternion.zeros(k.shape[1], heads, k.shape[3], v.shape[3])
    if decay is not None:
        decay = _linear_heads(decay, heads).exp()
    rows = []
    for step in range(q.shape[0]):
        if "gated" in rule:
            state = state * decay[step].unsqueeze(-1)
        new = v[step]
        if "delta" in rule:
            predicted = (k[step].unsqueeze(-2) @ state).squeeze(-2)
            new = (new - predicted) * beta[:, step].unsqueeze(-1)
        state = state + k[step].unsqueeze(-1) * new.unsqueeze(-2)
        grouped = q[step].unflatten(1, [heads, repeats])
        rows.append((scale * (grouped @ state)).flatten(1))
    return ternion.stack(rows, 1).to(dtype), state.to(state_dtype)
