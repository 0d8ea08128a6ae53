"""Attention and its gradient in float64, and the errors of other results; with PyTorch, on any
device.

Operands are [batch, heads, rows, columns]. Scores are computed for a few heads and queries at a
time, so that those of 16384 tokens fit into a GPU together with the other tensors. Operands of
sequences of different lengths are [rows, heads, columns].
"""

import dataclasses
import math

import torch

# Bytes of the scores that are computed at once. About six times as much memory is used.
CHUNK_BYTES = 1 << 30
# The maximum number of queries in a chunk.
CHUNK_QUERIES = 4096


@dataclasses.dataclass(frozen=True)
class Options:
    """Which keys a query attends to, as in Ternion's options: the last query is aligned with the
    last key, or with upper_left the first query with the first key. A window counts positions back,
    including the query's own, and as many ahead if it is not causal. `mask` is true where a query
    attends to a key, or is added to the scaled scores, and is broadcast to [batch, heads, queries,
    keys].
    """

    scale: float
    causal: bool = False
    window: int | None = None
    mask: torch.Tensor | None = None
    dropout: float = 0.0
    upper_left: bool = False
    # Whether the gradient of the mask is computed.
    mask_gradient: bool = False

    def attended_keys(self, first, end, queries, keys, device):
        """Returns whether queries first..end attend to keys, [rows, keys]; None if all do."""
        if not self.causal and self.window is None:
            return None
        position = torch.arange(first, end, device=device).unsqueeze(1) + (0 if self.upper_left else keys - queries)
        key_index = torch.arange(keys, device=device)
        attended = torch.ones(end - first, keys, dtype=torch.bool, device=device)
        if self.causal:
            attended &= key_index <= position
        if self.window is not None:
            attended &= key_index > position - self.window
            if not self.causal:
                attended &= key_index < position + self.window
        return attended


@dataclasses.dataclass
class Reference:
    """The results in float64: y, and dq, dk, dv and, if requested, dmask if dy was given."""

    y: torch.Tensor
    dq: torch.Tensor | None = None
    dk: torch.Tensor | None = None
    dv: torch.Tensor | None = None
    dmask: torch.Tensor | None = None

    def to_dict(self):
        return {name: value for name, value in vars(self).items() if value is not None}


def reference(q, k, v, options, dy=None, dropout_mask=None, chunk_bytes=CHUNK_BYTES):
    """Computes the attention of exactly these operands. `kept` is the weights that dropout kept,
    [batch, heads, queries, keys].
    """
    (batch, heads, queries, _), (_, kv_heads, keys, _) = q.shape, k.shape
    group, mask = heads // kv_heads, options.mask
    if mask is not None:
        options = dataclasses.replace(options, mask=mask.expand(batch, heads, queries, keys))
    results = Reference(q.new_empty(batch, heads, queries, v.shape[3], dtype=torch.float64))
    if dy is not None:
        results.dq, results.dk, results.dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, k, v))
        if options.mask_gradient:
            results.dmask = q.new_zeros((1,) * (4 - mask.dim()) + mask.shape, dtype=torch.float64)
    queries_per_chunk = max(1, min(queries, CHUNK_QUERIES))
    heads_per_chunk = max(1, chunk_bytes // max(1, 8 * queries_per_chunk * keys * group))
    for batch_index in range(batch):
        for first_head in range(0, kv_heads, heads_per_chunk):
            kv_heads_in_chunk = slice(first_head, min(first_head + heads_per_chunk, kv_heads))
            for first_query in range(0, queries, queries_per_chunk):
                compute_chunk(results, (q, k, v, dy, dropout_mask), options, batch_index, kv_heads_in_chunk, first_query, min(first_query + queries_per_chunk, queries))
    if results.dmask is not None:
        results.dmask = results.dmask.reshape(mask.shape)
    return results


def heads_first(x):
    """Permutes [rows, heads, columns] to [1, heads, rows, columns]."""
    return x.transpose(0, 1).unsqueeze(0)


def rows_first(x):
    """Permutes [1, heads, rows, columns] to [rows, heads, columns]."""
    return x[0].transpose(0, 1)


def sequences(ends):
    """Returns the slices of the rows of queries and of keys of each sequence. `ends` is the
    cumulative lengths of queries and of keys.
    """
    return list(zip(*([slice(first, end) for first, end in zip(cumulative, cumulative[1:])] for cumulative in ends)))


def reference_varlen(q, k, v, ends, options, dy=None, dropout_mask=None):
    """Computes the attention within each of several sequences. The dropout mask is [1, heads, rows,
    key rows]. Rows after the last sequence have results of 0.
    """
    results = Reference(q.new_zeros(*q.shape[:2], v.shape[2], dtype=torch.float64))
    if dy is not None:
        results.dq, results.dk, results.dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, k, v))
    for queries, keys in sequences(ends):
        operands = [heads_first(x) for x in (q[queries], k[keys], v[keys])]
        own_dy = None if dy is None else heads_first(dy[queries])
        kept = None if dropout_mask is None else dropout_mask[:, :, queries, keys]
        for name, part in reference(*operands, options, own_dy, kept).to_dict().items():
            getattr(results, name)[queries if name in ("y", "dq") else keys] = rows_first(part)
    return results


def compute_chunk(results, operands, options, batch_index, kv_heads, first, end):
    """Computes the results of some queries of the heads that share some key heads, and adds the
    contributions of these queries to the gradients of keys and values.
    """
    q, k, v, dy, dropout_mask = operands
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    heads = slice(kv_heads.start * group, kv_heads.stop * group)

    def select_queries(x):
        """Returns [key heads, group, rows, columns]."""
        return x[batch_index, heads, first:end].unflatten(0, (-1, group))

    query, key, value = select_queries(q).double(), k[batch_index, kv_heads].double().unsqueeze(1), v[batch_index, kv_heads].double().unsqueeze(1)
    weights = compute_weights(query, key, options, batch_index, heads, (first, end, queries, keys))
    factor = None if dropout_mask is None else select_queries(dropout_mask).double() / (1 - options.dropout)
    used = weights if factor is None else weights * factor
    results.y[batch_index, heads, first:end] = (used @ value).flatten(0, 1)
    if dy is None:
        return
    upstream = select_queries(dy).double()
    results.dv[batch_index, kv_heads] += (used.transpose(-1, -2) @ upstream).sum(1)
    grad = upstream @ value.transpose(-1, -2)
    if factor is not None:
        grad *= factor
    grad = weights * (grad - (weights * grad).sum(-1, keepdim=True))
    if results.dmask is not None:
        add_mask_gradient(results.dmask, grad.flatten(0, 1).unsqueeze(0), (batch_index, heads, slice(first, end)))
    grad *= options.scale
    results.dq[batch_index, heads, first:end] = (grad @ key).flatten(0, 1)
    results.dk[batch_index, kv_heads] += (grad.transpose(-1, -2) @ query).sum(1)


def add_mask_gradient(dmask, grad, position):
    """Adds the gradient of scores of one sequence, [1, heads, rows, keys], summed over the axes
    along which the mask is broadcast.
    """
    batch_index, heads, rows = position
    slices = [slice(batch_index, batch_index + 1), heads, rows, slice(None)]
    for axis, size in enumerate(dmask.shape):
        if size == 1:
            grad, slices[axis] = grad.sum(axis, keepdim=True), slice(None)
    dmask[tuple(slices)] += grad


def compute_weights(query, key, options, batch_index, heads, sizes):
    """Returns the softmax of the scores, 0 for a fully masked query."""
    first, end, queries, keys = sizes
    scores = (query @ key.transpose(-1, -2)) * options.scale
    attended = options.attended_keys(first, end, queries, keys, scores.device)
    if attended is not None:
        scores.masked_fill_(~attended, -math.inf)
    if options.mask is not None:
        mask = options.mask[batch_index, heads, first:end].unflatten(0, (-1, scores.shape[1]))
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    if keys == 0:
        return scores
    row_max = scores.amax(-1, keepdim=True)
    weights = (scores - row_max.masked_fill(row_max == -math.inf, 0)).exp_()
    row_sum = weights.sum(-1, keepdim=True)
    return weights / row_sum.masked_fill(row_sum == 0, 1)


def find_dropout_mask(attend, q, k, v, batches):
    """Returns the weights that dropout keeps, [batches, heads, queries, keys], for the first
    `batches`. `attend(q, k, v)` returns y, and drops the same weights in each call.

    All scores are equal if q and k are 0, and y is a row of weights if v has columns of the
    identity: weights that are not 0 were kept. Masked weights are 0, too.
    """
    (_, heads, queries, _), (_, _, keys, width) = q.shape, v.shape
    dropout_mask = torch.empty(batches, heads, queries, keys, dtype=torch.bool, device=q.device)
    zero_queries, zero_keys = torch.zeros_like(q), torch.zeros_like(k)
    for first in range(0, keys, width):
        count = min(width, keys - first)
        columns = torch.zeros_like(v)
        columns[:, :, first : first + count, :count] = torch.eye(count, dtype=v.dtype, device=v.device)
        dropout_mask[..., first : first + count] = attend(zero_queries, zero_keys, columns)[:batches, ..., :count] != 0
    return dropout_mask


def check_kept_fraction(dropout_mask, options):
    """Checks that the fraction of unmasked weights that were kept is about that of dropout. Flash
    attention draws numbers of 8 bits, and keeps 230 of 256 for 0.9.
    """
    attended = options.attended_keys(0, dropout_mask.shape[2], dropout_mask.shape[2], dropout_mask.shape[3], dropout_mask.device)
    count = dropout_mask.shape[0] * dropout_mask.shape[1] * (dropout_mask.shape[2] * dropout_mask.shape[3] if attended is None else attended.sum().item())
    fraction = dropout_mask.sum().item() / count
    if abs(fraction - (1 - options.dropout)) > 0.01:
        raise ValueError(f"dropout {options.dropout} seems to have kept a fraction of {fraction:.4f}")


def measure_error(result, exact):
    """Returns {"max", "rms"} of the error, and "scale", the root mean square of the exact values.
    """
    if result.shape != exact.shape:
        raise ValueError(f"expected shape {list(exact.shape)}, got {list(result.shape)}")
    difference = result.double() - exact
    if not difference.isfinite().all():
        raise ValueError("some values are not finite")
    if difference.numel() == 0:
        return dict(max=0.0, rms=0.0, scale=0.0)

    def rms(x):
        return x.square().mean().sqrt().item()

    return dict(max=difference.abs().max().item(), rms=rms(difference), scale=rms(exact))
