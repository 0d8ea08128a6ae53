"""The cases of attention_errors.py and their operands."""

import dataclasses
import itertools
import json

from attention_tables import ROWS_KIND

TOKENS, WIDTH = 16384, 2048
DROPOUT = 0.1
# The cases of the benchmark, as in benches/gpu/src/attention.rs: the lengths of sequences; and
# batch, heads, key heads, queries and keys of decoding steps.
LENGTHS = (4096, 256, 1024, 2048, 512, 3072, 128, 768, 1536, 64, 2368, 512)
DECODE = ((1, 32, 8, 1, 8192), (1, 32, 32, 1, 8192), (16, 32, 8, 1, 8192), (4, 32, 8, 8, 32768))
DTYPES = ("bf16", "f16")


@dataclasses.dataclass(frozen=True)
class Case:
    """An attention call to compare. Shapes are those of q, k, v and the mask, if any."""

    name: str
    dtype: str
    shapes: tuple
    # Options of `ternion-bench attend`: causal, upper_left, window, scale, dropout.
    options: dict
    # "bool" or "additive".
    mask: str | None = None
    draws: int = 1
    # The cumulative lengths of queries and of keys. Shapes are then [rows, heads, columns].
    ends: tuple | None = None
    mask_gradient: bool = False
    # The value of all elements of the mask; None if they are drawn.
    mask_value: float | None = None
    # Whether keys and values are the queries.
    tied: bool = False
    forward_only: bool = False

    @property
    def kind(self):
        return self.name.split("/")[0]

    @property
    def is_row(self):
        return self.kind == ROWS_KIND

    @property
    def dropout(self):
        return self.options.get("dropout", 0.0)


def make_options(head_dim, causal=False, dropout=0.0):
    return dict(causal=causal, scale=head_dim**-0.5, dropout=dropout)


def shape_of(tokens, head_dim):
    """Returns the shape of 16,384 tokens in total, or of one longer sequence."""
    return (max(TOKENS // tokens, 1), WIDTH // head_dim, tokens, head_dim)


def shape_cases():
    """Returns the cases of the benchmark whose queries and keys have the same shape."""
    cases = []
    for dtype, head_dim, tokens in itertools.product(DTYPES, (64, 128, 192, 256), (512, 1024, 4096, 16384)):
        for mask, dropout in (("full", 0.0), ("causal", 0.0), ("causal-dropout", DROPOUT)):
            if dropout and tokens not in (1024, 4096):
                continue
            name = f"shapes/{dtype}/d{head_dim}/t{tokens}/{mask}"
            cases.append(Case(name, dtype, (shape_of(tokens, head_dim),) * 3, make_options(head_dim, mask != "full", dropout)))
    return cases


def varlen_cases():
    """Returns the cases of the benchmark with sequences of different lengths."""
    ends = tuple(itertools.accumulate(LENGTHS, initial=0))
    return [
        Case(
            f"varlen/{dtype}/d{head_dim}/{'causal' if causal else 'full'}",
            dtype,
            ((ends[-1], WIDTH // head_dim, head_dim),) * 3,
            make_options(head_dim, causal),
            ends=(ends, ends),
        )
        for dtype, head_dim, causal in itertools.product(DTYPES, (64, 128), (False, True))
    ]


def decode_cases():
    """Returns the cases of the benchmark with few queries of many keys."""
    cases = []
    for dtype, (batch, heads, kv_heads, queries, keys) in itertools.product(DTYPES, DECODE):
        shapes = (batch, heads, queries, 128), *((batch, kv_heads, keys, 128),) * 2
        name = f"decode/{dtype}/d128/b{batch}h{heads}kv{kv_heads}q{queries}k{keys}"
        cases.append(Case(name, dtype, shapes, make_options(128), forward_only=True))
    return cases


def bias_cases():
    """Returns the cases of the benchmark with a bias that all sequences of the batch share."""
    cases = []
    for dtype, head_dim, tokens in itertools.product(DTYPES, (64, 128), (512, 2048)):
        shape = shape_of(tokens, head_dim)
        shapes = *(shape,) * 3, (1, shape[1], tokens, tokens)
        cases.append(Case(f"bias/{dtype}/d{head_dim}/t{tokens}", dtype, shapes, make_options(head_dim), "additive", mask_gradient=True))
    return cases


def forward_cases():
    """Returns the forward cases of the attention ladder (torch_attention_ladder.py) and of the
    study of forward tiles whose lengths shape_cases() lacks.
    """
    lengths = {64: (128, 256, 2048, 8192, 32768), 128: (128, 256, 2048, 8192, 32768), 192: (2048,)}
    return [
        Case(
            f"forward/bf16/d{head_dim}/t{tokens}/{'causal' if causal else 'full'}",
            "bf16",
            (shape_of(tokens, head_dim),) * 3,
            make_options(head_dim, causal),
            forward_only=True,
        )
        for head_dim in lengths
        for tokens, causal in itertools.product(lengths[head_dim], (False, True))
    ]


def row_cases(text, draws):
    """Returns the cases of the op table from lines of JSON. Cases that drop all weights are
    omitted, because they have no rounding errors.
    """
    cases = []
    for line in map(json.loads, text.splitlines()):
        for dtype, (index, shapes) in itertools.product(line["dtypes"], enumerate(line["shapes"])):
            if line["options"]["dropout"] < 1 and all(size for shape in shapes for size in shape):
                name = f"{ROWS_KIND}/{dtype}/{line['parameters'] or 'plain'}/{index}"
                more = {key: line[key] for key in ("mask_gradient", "mask_value", "tied") if key in line}
                ends = tuple(map(tuple, line["ends"][index])) if "ends" in line else None
                cases.append(Case(name, dtype, tuple(map(tuple, shapes)), line["options"], line["mask"], draws, ends, **more))
    return cases


def all_cases(rows, draws):
    """Returns all cases; `rows` is the text of attention_rows.jsonl."""
    return [*shape_cases(), *varlen_cases(), *decode_cases(), *bias_cases(), *forward_cases(), *row_cases(rows, draws)]


def draw_operands(case, seed, device):
    """Returns {q, k, v, and mask and cumulative lengths if any} and dy (None in forward cases):
    normally distributed as in the benchmark, or uniform from -2 to 2 as in the op table.
    """
    import torch

    dtype = getattr(torch, {"bf16": "bfloat16", "f16": "float16"}[case.dtype])
    generator = torch.Generator(device).manual_seed(seed)

    def draw(shape):
        if case.is_row:
            return (torch.rand(shape, device=device, generator=generator) * 4 - 2).to(dtype)
        return torch.randn(shape, device=device, generator=generator).to(dtype)

    operands = dict(zip("qkv", map(draw, case.shapes[:3])))
    if case.tied:
        operands.update(k=operands["q"], v=operands["q"])
    if case.mask_value is not None:
        operands["mask"] = torch.full(case.shapes[3], case.mask_value, dtype=dtype, device=device)
    elif case.mask is not None:
        mask = draw(case.shapes[3])
        operands["mask"] = mask > -1 if case.mask == "bool" else mask
    if case.ends is not None:
        operands.update((f"cu_seqlens_{name}", torch.tensor(ends, dtype=torch.int32, device=device)) for name, ends in zip("qk", case.ends))
    (*rows, _), (*_, value_dim) = case.shapes[0], case.shapes[2]
    return operands, None if case.forward_only else draw((*rows, value_dim))
