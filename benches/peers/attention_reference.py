"""Attention and its gradient in float64, and how far other results are from it; with PyTorch, on any device.

Operands are [batch, heads, rows, columns]. Scores are formed a few heads and queries at a time, so that those of 16384 tokens fit a GPU beside the rest.
"""

import dataclasses
import math

import torch

# Of the scores that are formed at once: some six times as much memory is used.
CHUNK_BYTES = 1 << 30
# Queries of a chunk at most.
CHUNK_QUERIES = 4096


@dataclasses.dataclass(frozen=True)
class Options:
    """What a query sees, as Ternion's options say it: the last query stands beside the last key. A window counts positions back, itself counted, and ahead as
    many where it is not causal. `mask` is true where a key is seen, or added to the scaled scores, and spreads to [batch, heads, queries, keys]."""

    scale: float
    causal: bool = False
    window: int | None = None
    mask: torch.Tensor | None = None
    dropout: float = 0.0

    def seen(self, first, end, queries, keys, device):
        """Whether queries first..end see keys, [rows, keys]; None where all do."""
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
    """The results in float64: y, and where dy was given dq, dk and dv."""

    y: torch.Tensor
    dq: torch.Tensor | None = None
    dk: torch.Tensor | None = None
    dv: torch.Tensor | None = None

    def named(self):
        return {name: value for name, value in vars(self).items() if value is not None}


def reference(q, k, v, options, dy=None, kept=None, chunk_bytes=CHUNK_BYTES):
    """The attention of exactly these bits. `kept` tells which weights dropout kept, [batch, heads, queries, keys]."""
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
    """Forms the results of some queries of the heads that share some heads of keys, and adds what these queries give to the gradients of keys and values."""
    q, k, v, dy, kept = operands
    queries, keys, group = q.shape[2], k.shape[2], q.shape[1] // k.shape[1]
    theirs = slice(own.start * group, own.stop * group)

    def rows(x):
        """[key heads, group, rows, columns]"""
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
    """The softmax of the scores, 0 for a query that sees no key."""
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
    """Which weights dropout keeps, [batches, heads, queries, keys], of the first `batches`: `attend(q, k, v)` gives y, and drops the same weights each time.

    All scores are equal where q and k are 0, and y is a row of weights where v has columns of the identity: what is not 0 was kept. What a query does not see
    is 0, too."""
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
    """That about as many of the weights that are seen were kept as dropout says. Flash attention draws numbers of 8 bits, and keeps 230 of 256 for 0.9."""
    seen = options.seen(0, kept.shape[2], kept.shape[2], kept.shape[3], kept.device)
    count = kept.shape[0] * kept.shape[1] * (kept.shape[2] * kept.shape[3] if seen is None else seen.sum().item())
    share = kept.sum().item() / count
    if abs(share - (1 - options.dropout)) > 0.01:
        raise ValueError(f"dropout {options.dropout} seems to have kept a share of {share:.4f}")


def differences(found, exact):
    """{"max", "rms"} of the error, and "scale", the root mean square of what is exact."""
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
