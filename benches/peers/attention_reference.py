"""Attention and its gradient in float64, and the errors of other results; with PyTorch, on any
device.

Operands are [batch, heads, rows, columns]. Scores are computed for a few heads and queries at a
time, so that those of 16384 tokens fit into a GPU together with the other tensors.
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
    last key. A window counts positions back, including the query's own, and as many ahead if it is
    not causal. `mask` is true where a query attends to a key, or is added to the scaled scores, and
    is broadcast to [batch, heads, queries, keys].
    """

    scale: float
    causal: bool = False
    window: int | None = None
    mask: torch.Tensor | None = None
    dropout: float = 0.0

    def seen(self, first, end, queries, keys, device):
        """Returns whether queries first..end attend to keys, [rows, keys]; None if all do."""
        if not self.causal and self.window is None:
            return None
        position = torch.arange(first, end, device=device).unsqueeze(1) + (keys - queries)
        key = torch.arange(keys, device=device)
        seen = torch.ones(end - first, keys, dtype=torch.bool, device=device)
        if self.causal:
            seen &= key <= position
        if self.window is not None:
            seen &= key > position - self.window
            if not self.causal:
                seen &= key < position + self.window
        return seen


@dataclasses.dataclass
class Reference:
    """The results in float64: y, and dq, dk and dv if dy was given."""

    y: torch.Tensor
    dq: torch.Tensor | None = None
    dk: torch.Tensor | None = None
    dv: torch.Tensor | None = None

    def named(self):
        return {name: value for name, value in vars(self).items() if value is not None}


def reference(q, k, v, options, dy=None, kept=None, chunk_bytes=CHUNK_BYTES):
    """Computes the attention of exactly these operands. `kept` is the weights that dropout kept,
    [batch, heads, queries, keys].
    """
    (batch, heads, queries, _), (_, kv_heads, keys, _) = q.shape, k.shape
    group = heads // kv_heads
    if options.mask is not None:
        options = dataclasses.replace(options, mask=options.mask.expand(batch, heads, queries, keys))
    made = Reference(q.new_empty(batch, heads, queries, v.shape[3], dtype=torch.float64))
    if dy is not None:
        made.dq, made.dk, made.dv = (torch.zeros_like(x, dtype=torch.float64) for x in (q, k, v))
    rows = max(1, min(queries, CHUNK_QUERIES))
    several = max(1, chunk_bytes // max(1, 8 * rows * keys * group))
    for at in range(batch):
        for first_head in range(0, kv_heads, several):
            own = slice(first_head, min(first_head + several, kv_heads))
            for first in range(0, queries, rows):
                chunk(made, (q, k, v, dy, kept), options, at, own, first, min(first + rows, queries))
    return made


def chunk(made, operands, options, at, own, first, end):
    """Computes the results of some queries of the heads that share some key heads, and adds the
    contributions of these queries to the gradients of keys and values.
    """
    q, k, v, dy, kept = operands
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    theirs = slice(own.start * group, own.stop * group)

    def rows(x):
        """Returns [key heads, group, rows, columns]."""
        return x[at, theirs, first:end].unflatten(0, (-1, group))

    query, key, value = rows(q).double(), k[at, own].double().unsqueeze(1), v[at, own].double().unsqueeze(1)
    weights = weights_of(query, key, options, at, theirs, (first, end, queries, keys))
    factor = None if kept is None else rows(kept).double() / (1 - options.dropout)
    used = weights if factor is None else weights * factor
    made.y[at, theirs, first:end] = (used @ value).flatten(0, 1)
    if dy is None:
        return
    upstream = rows(dy).double()
    made.dv[at, own] += (used.transpose(-1, -2) @ upstream).sum(1)
    grad = upstream @ value.transpose(-1, -2)
    if factor is not None:
        grad *= factor
    grad = weights * (grad - (weights * grad).sum(-1, keepdim=True)) * options.scale
    made.dq[at, theirs, first:end] = (grad @ key).flatten(0, 1)
    made.dk[at, own] += (grad.transpose(-1, -2) @ query).sum(1)


def weights_of(query, key, options, at, theirs, sizes):
    """Returns the softmax of the scores, 0 for a fully masked query."""
    first, end, queries, keys = sizes
    scores = (query @ key.transpose(-1, -2)) * options.scale
    seen = options.seen(first, end, queries, keys, scores.device)
    if seen is not None:
        scores.masked_fill_(~seen, -math.inf)
    if options.mask is not None:
        mask = options.mask[at, theirs, first:end].unflatten(0, (-1, scores.shape[1]))
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else scores + mask.double()
    if keys == 0:
        return scores
    most = scores.amax(-1, keepdim=True)
    weights = (scores - most.masked_fill(most == -math.inf, 0)).exp_()
    total = weights.sum(-1, keepdim=True)
    return weights / total.masked_fill(total == 0, 1)


def kept_weights(attend, q, k, v, batches):
    """Returns the weights that dropout keeps, [batches, heads, queries, keys], for the first
    `batches`. `attend(q, k, v)` returns y, and drops the same weights in each call.

    All scores are equal if q and k are 0, and y is a row of weights if v has columns of the
    identity: weights that are not 0 were kept. Masked weights are 0, too.
    """
    (_, heads, queries, _), (_, _, keys, width) = q.shape, v.shape
    kept = torch.empty(batches, heads, queries, keys, dtype=torch.bool, device=q.device)
    none, nowhere = torch.zeros_like(q), torch.zeros_like(k)
    for first in range(0, keys, width):
        count = min(width, keys - first)
        columns = torch.zeros_like(v)
        columns[:, :, first : first + count, :count] = torch.eye(count, dtype=v.dtype, device=v.device)
        kept[..., first : first + count] = attend(none, nowhere, columns)[:batches, ..., :count] != 0
    return kept


def check_share(kept, options):
    """Checks that the fraction of unmasked weights that were kept is about that of dropout. Flash
    attention draws numbers of 8 bits, and keeps 230 of 256 for 0.9.
    """
    seen = options.seen(0, kept.shape[2], kept.shape[2], kept.shape[3], kept.device)
    count = kept.shape[0] * kept.shape[1] * (kept.shape[2] * kept.shape[3] if seen is None else seen.sum().item())
    share = kept.sum().item() / count
    if abs(share - (1 - options.dropout)) > 0.01:
        raise ValueError(f"dropout {options.dropout} seems to have kept a fraction of {share:.4f}")


def differences(found, exact):
    """Returns {"max", "rms"} of the error, and "scale", the root mean square of the exact values.
    """
    if found.shape != exact.shape:
        raise ValueError(f"expected shape {list(exact.shape)}, got {list(found.shape)}")
    apart = found.double() - exact
    if not apart.isfinite().all():
        raise ValueError("some values are not finite")
    if apart.numel() == 0:
        return dict(max=0.0, rms=0.0, scale=0.0)

    def rms(x):
        return x.square().mean().sqrt().item()

    return dict(max=apart.abs().max().item(), rms=rms(apart), scale=rms(exact))
