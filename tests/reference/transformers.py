"""Reference values of PyTorch 2.11 for tests/transformers.rs. Usage:

    pip install torch==2.11.* numpy
    python tests/reference/transformers.py

The script writes transformers.json to its own folder. As in nn.py everything is computed in float64
from inputs that are exact in float32. Each layer also makes three steps of AdamW on the mean of its
squared outputs; the file contains the parameters after them.
"""

import json
from functools import partial
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional

import layer as of_layer
from layer import draw

torch.manual_seed(21)
HERE = Path(__file__).parent
plain = partial(of_layer.plain, digits=8)
layer = partial(of_layer.layer, scale=0.5, digits=8)


def attention(causal=False, **settings):
    module = nn.MultiheadAttention(8, 2, batch_first=True, **settings)
    x = draw(2, 5, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(5) if causal else None
    return layer(module, x, call=lambda: module(x, x, x, attn_mask=mask, need_weights=False)[0])


def cross_attention():
    module = nn.MultiheadAttention(8, 4, batch_first=True)
    query, key, value = draw(2, 3, 8), draw(2, 4, 8), draw(2, 4, 8)
    padding = torch.tensor([[False, False, False, True], [False, True, False, False]])
    call = lambda: module(query, key, value, key_padding_mask=padding, need_weights=False)[0]
    return layer(module, query, key, value, call=call) | {"tokens": (~padding).tolist()}


def block(causal):
    module = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, activation="gelu", batch_first=True, norm_first=True)
    x = draw(2, 4, 8)
    mask = nn.Transformer.generate_square_subsequent_mask(4) if causal else None
    return layer(module, x, call=lambda: module(x, src_mask=mask))


def recurrent(kind, **settings):
    """Returns the values of a recurrent layer: the output followed by the last states.

    The initial states are inputs of the layer too.
    """
    module = kind(3, 2, batch_first=True, **settings)
    cells = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    states = [draw(cells, 2, 2) for _ in range(2 if kind is nn.LSTM else 1)]
    x = draw(2, 4, 3)

    def call():
        output, last = module(x, tuple(states) if kind is nn.LSTM else states[0])
        last = last if kind is nn.LSTM else (last,)
        return torch.cat([output.flatten(), *(state.flatten() for state in last)])

    return layer(module, x, *states, call=call)


class ResidualBlock(nn.Module):
    """torchvision's BasicBlock."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        inner = torch.relu(self.bn1(self.conv1(x)))
        shortcut = x if self.downsample is None else self.downsample(x)
        return torch.relu(self.bn2(self.conv2(inner)) + shortcut)


class ResNet(nn.Module):
    """torchvision's ResNet with a stem for small images, and two stages of one block."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 2, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(2)
        self.layer1 = nn.Sequential(ResidualBlock(2, 2, 1))
        self.layer2 = nn.Sequential(ResidualBlock(2, 4, 2))
        self.fc = nn.Linear(4, 3)

    def forward(self, x):
        x = self.layer2(self.layer1(torch.relu(self.bn1(self.conv1(x)))))
        return self.fc(x.mean((2, 3)))


def layers():
    return {
        "lstm": recurrent(nn.LSTM),
        "lstm_deep": recurrent(nn.LSTM, num_layers=2, bidirectional=True),
        "gru": recurrent(nn.GRU),
        "gru_without_bias": recurrent(nn.GRU, num_layers=2, bias=False),
        "resnet": layer(ResNet(), draw(2, 3, 5, 4)),
        "rms_norm": layer(nn.RMSNorm(5, eps=1e-5), draw(3, 5)),
        "group_norm": layer(nn.GroupNorm(2, 4), draw(2, 4, 3)),
        "batch_norm1d": layer(nn.BatchNorm1d(3), draw(4, 3)),
        "batch_norm1d_sequence": layer(nn.BatchNorm1d(3), draw(2, 3, 4)),
        "conv1d": layer(nn.Conv1d(2, 3, 3), draw(2, 2, 6)),
        "conv1d_general": layer(nn.Conv1d(4, 2, 2, stride=2, padding=1, dilation=2, groups=2), draw(1, 4, 7)),
        "conv_transpose2d": layer(nn.ConvTranspose2d(2, 3, 2), draw(1, 2, 3, 4)),
        "conv_transpose2d_general": layer(
            nn.ConvTranspose2d(4, 2, (3, 2), stride=(2, 3), padding=(1, 0), output_padding=(1, 2), groups=2), draw(1, 4, 3, 2)
        ),
        "adaptive_avg_pool2d": layer(nn.AdaptiveAvgPool2d((2, 3)), draw(1, 2, 5, 7)),
        "upsample_nearest": layer(nn.Upsample(scale_factor=2), draw(1, 2, 2, 3)),
        "upsample_nearest_to": layer(nn.Upsample(size=(5, 4)), draw(1, 2, 3, 6)),
        "upsample_bilinear": layer(nn.Upsample(scale_factor=2, mode="bilinear"), draw(1, 2, 3, 2)),
        "upsample_bilinear_to": layer(nn.Upsample(size=(5, 3), mode="bilinear"), draw(1, 1, 3, 7)),
        "upsample_bilinear_corners": layer(nn.Upsample(size=(5, 4), mode="bilinear", align_corners=True), draw(1, 2, 3, 2)),
        "attention": attention(),
        "attention_causal": attention(causal=True),
        "attention_without_bias": attention(bias=False),
        "cross_attention": cross_attention(),
        "block": block(False),
        "block_causal": block(True),
    }


class GPT(nn.Module):
    """GPT-2 of PyTorch's layers, with the architecture and the keys of ternion's GPT."""

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        block = lambda: nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation=lambda x: functional.gelu(x, approximate="tanh"), batch_first=True, norm_first=True
        )
        self.h = nn.ModuleList(block() for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        length = tokens.shape[1]
        x = self.wte(tokens) + self.wpe(torch.arange(length))
        for block in self.h:
            x = block(x, src_mask=nn.Transformer.generate_square_subsequent_mask(length))
        return self.ln_f(x) @ self.wte.weight.T


def gpt():
    settings = {"vocabulary": 11, "context": 6, "layers": 2, "heads": 2, "width": 8}
    model = GPT(**settings)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(draw(*parameter.shape) / 4)
    tokens, targets = torch.randint(0, 11, (2, 5)), torch.randint(0, 11, (2, 5))
    logits = model(tokens)
    loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
    parameters = {name: plain(value) for name, value in model.named_parameters()}
    loss.backward()
    return {
        "settings": settings,
        "parameters": parameters,
        "tokens": tokens.tolist(),
        "targets": targets.tolist(),
        "logits": plain(logits),
        "loss": loss.item(),
        "grad_wte": plain(model.wte.weight.grad),
        "grad_in_proj": plain(model.h[1].self_attn.in_proj_weight.grad),
        **gpt_steps(model, tokens, targets),
    }


def gpt_steps(model, tokens, targets):
    """Returns losses and some parameters of three steps of AdamW, and the norm of each change.

    (eps is large, so that the gradient of a key's bias, which is 0 except for rounding, has no
    effect.)
    """
    before = {name: value.detach().clone() for name, value in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01, eps=1e-2)
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = functional.cross_entropy(model(tokens).flatten(0, 1), targets.flatten())
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    after = dict(model.named_parameters())
    told = ["wte.weight", "wpe.weight", "h.0.norm1.weight", "h.1.self_attn.in_proj_bias", "h.1.linear1.bias", "ln_f.bias"]
    return {
        "step_losses": losses,
        "stepped": {name: plain(after[name]) for name in told},
        "moved": {name: float(f"{(after[name] - before[name]).norm().item():.8g}") for name in after},
    }


def turned(x, pairs, first=0):
    """Applies a rotary embedding to rows of 4 columns, at positions starting at `first`.

    Pairs of columns are multiplied as complex numbers by e^(i angle): columns i and i + 2 if
    `pairs` is `"half"`, otherwise columns 2 i and 2 i + 1.
    """
    angles = torch.arange(first, first + x.shape[-2])[:, None] * 10000.0 ** (-2.0 * torch.arange(2) / 4)
    turn = torch.polar(torch.ones_like(angles), angles)
    if pairs == "half":
        halves = torch.complex(x[..., :2], x[..., 2:]) * turn
        return torch.cat([halves.real, halves.imag], -1)
    neighbours = torch.complex(x[..., 0::2], x[..., 1::2]) * turn
    return torch.view_as_real(neighbours).flatten(-2)


def rotary():
    x = draw(1, 2, 3, 4)
    return {"input": plain(x)} | {pairs: plain(turned(x, pairs)) for pairs in ("half", "interleaved")}


def rotary_scores():
    """Returns attention scores with rotary embeddings, and the gradients of queries and keys.

    Queries are at positions 1 and 2, keys at positions 0 to 2.
    """
    q, k, cotangent = draw(1, 2, 2, 4), draw(1, 2, 3, 4), draw(1, 2, 2, 3)
    cases = {"q": plain(q), "k": plain(k), "cotangent": plain(cotangent)}
    for pairs in ("half", "interleaved"):
        of_q, of_k = q.clone().requires_grad_(), k.clone().requires_grad_()
        scores = turned(of_q, pairs, first=1) @ turned(of_k, pairs).transpose(-1, -2)
        (scores * cotangent).sum().backward()
        cases[pairs] = {"scores": plain(scores), "grad_q": plain(of_q.grad), "grad_k": plain(of_k.grad)}
    return cases


class SwiGLU(nn.Module):
    """SwiGLU (Shazeer 2020), with the parameter names of ternion's FeedForward."""

    def __init__(self, width, hidden):
        super().__init__()
        self.linear1, self.linear_gate, self.linear2 = nn.Linear(width, hidden), nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.linear2(functional.silu(self.linear_gate(x)) * self.linear1(x))


class GroupedQueryAttention(nn.Module):
    """nn.MultiheadAttention with fewer key and value heads than query heads.

    PyTorch has this only as a function.
    """

    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        rows = (heads + 2 * kv_heads) * self.head_dim
        self.in_proj_weight = nn.Parameter(torch.empty(rows, width))
        self.in_proj_bias = nn.Parameter(torch.empty(rows))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x, mask=None, causal=False):
        projected = functional.linear(x, self.in_proj_weight, self.in_proj_bias)
        sizes = [heads * self.head_dim for heads in (self.heads, self.kv_heads, self.kv_heads)]
        q, k, v = (part.unflatten(-1, (-1, self.head_dim)).transpose(1, 2) for part in projected.split(sizes, -1))
        heads = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal, enable_gqa=True)
        return self.out_proj(heads.transpose(1, 2).flatten(2))


class SharingBlock(nn.Module):
    """A block of grouped-query attention, RMS norms and SwiGLU.

    Parameter names are those of nn.TransformerEncoderLayer.
    """

    def __init__(self, width, heads, kv_heads, hidden):
        super().__init__()
        self.self_attn = GroupedQueryAttention(width, heads, kv_heads)
        feed_forward = SwiGLU(width, hidden)
        self.linear1, self.linear_gate, self.linear2 = feed_forward.linear1, feed_forward.linear_gate, feed_forward.linear2
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)

    def forward(self, x):
        x = x + self.self_attn(self.norm1(x), causal=True)
        return x + SwiGLU.forward(self, self.norm2(x))


def embedding(**settings):
    """Returns the values of an embedding. Row 3 is not used; rows 0 and 2 are used twice."""
    module = nn.Embedding(5, 3, **settings)
    indices = torch.tensor([[0, 2, 4], [1, 2, 0]])
    return layer(module, call=lambda: module(indices)) | {"indices": indices.tolist()}


def masked(heads, kv_heads, is_additive):
    """Returns the values of attention with a mask for each head, or one for all.

    The mask has ternion's format: true where a query attends to a key, or added to the scores.
    """
    width = 2 * heads
    x = draw(2, 4, width)
    seen = torch.eye(4, dtype=torch.bool) | (torch.rand(4, 4) < 0.5)
    mask = draw(2, heads, 4, 4) if is_additive else seen
    if kv_heads != heads:
        module = GroupedQueryAttention(width, heads, kv_heads)
        call = lambda: module(x, mask)
    else:
        module = nn.MultiheadAttention(width, heads, batch_first=True)
        of_torch = mask.flatten(0, 1) if is_additive else ~mask
        call = lambda: module(x, x, x, attn_mask=of_torch, need_weights=False)[0]
    return layer(module, x, call=call) | {"mask": plain(mask)}


def pools_of_ceil_mode():
    """Returns the values of pools in ceil mode.

    Windows of 3 that extend beyond the padding below; of 2 whose last one would begin after the
    image; of 3 on an image of 2 rows.
    """
    settings = dict(kernel_size=3, stride=2, padding=1, ceil_mode=True)
    largest, x = nn.MaxPool2d(return_indices=True, **settings), draw(1, 2, 6, 4)
    return {
        "max_pool2d_ceil": layer(largest, x, call=lambda: largest(x)[0]) | {"positions": largest(x)[1].tolist()},
        "max_pool2d_ceil_dropped": layer(nn.MaxPool2d(2, stride=3, ceil_mode=True), draw(1, 1, 3, 5)),
        "max_pool2d_ceil_larger": layer(nn.MaxPool2d(3, stride=2, ceil_mode=True), draw(1, 1, 2, 4)),
        "avg_pool2d_ceil": layer(nn.AvgPool2d(**settings), draw(1, 2, 6, 4)),
        "avg_pool2d_ceil_without_border": layer(nn.AvgPool2d(count_include_pad=False, **settings), draw(1, 2, 6, 4)),
    }


def upsamples_by_fractions():
    """Returns the values of upsampling by fractional factors.

    Cropped columns, fewer rows than before, and output sizes of 2 and 1 times the input by factors
    that are neither 2 nor 1.
    """
    bilinear = partial(nn.Upsample, mode="bilinear")
    return {
        "upsample_nearest_fraction": layer(nn.Upsample(scale_factor=(0.6, 1.5)), draw(1, 1, 5, 3)),
        "upsample_nearest_doubled": layer(nn.Upsample(scale_factor=(2.4, 1.3)), draw(1, 1, 2, 3)),
        "upsample_bilinear_fraction": layer(bilinear(scale_factor=(0.6, 1.5)), draw(1, 1, 5, 3)),
        "upsample_bilinear_doubled": layer(bilinear(scale_factor=(2.4, 1.3)), draw(1, 1, 2, 3)),
        "upsample_bilinear_fraction_corners": layer(bilinear(scale_factor=1.5, align_corners=True), draw(1, 1, 3, 2)),
    }


def grouped_query_attention(causal):
    module = GroupedQueryAttention(8, 4, 2)
    x = draw(1, 5, 8)
    return layer(module, x, call=lambda: module(x, causal=causal))


def more_layers():
    return {
        "embedding": embedding(),
        "swiglu": layer(SwiGLU(4, 6), draw(2, 3, 4)),
        "grouped_query_attention": grouped_query_attention(False),
        "grouped_query_attention_causal": grouped_query_attention(True),
        "attention_masked": masked(2, 2, is_additive=False),
        "attention_added": masked(2, 2, is_additive=True),
        "grouped_query_attention_masked": masked(4, 2, is_additive=False),
        "grouped_query_attention_added": masked(4, 2, is_additive=True),
        "sharing_block": layer(SharingBlock(8, 4, 2, 4), draw(1, 4, 8)),
        "embedding_padded": embedding(padding_idx=2),
        **pools_of_ceil_mode(),
    }


def rms_norm_without_eps():
    """Returns the output of RMSNorm with the default eps, in each dtype.

    The rows are so small that the eps matters. PyTorch uses that of the dtype in which it computes.
    """
    cases = {}
    for name, dtype in {"f64": torch.float64, "f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}.items():
        x = draw(2, 4) * (2.0**-26 if dtype == torch.float64 else 2.0**-12)
        cases[name] = {"input": plain(x), "output": plain(nn.RMSNorm(4, dtype=dtype)(x.to(dtype)))}
    return cases


reference = {"torch": torch.__version__.split("+")[0], "layers": layers(), "gpt": gpt(), "rotary": rotary()}
# After the others, so that their random numbers do not change.
reference["layers"] |= more_layers()
reference["rms_norm_without_eps"] = rms_norm_without_eps()
reference["rotary_scores"] = rotary_scores()
reference["layers"] |= upsamples_by_fractions()
lines = json.dumps(reference, separators=(",", ":")).replace('},"', '},\n"')
(HERE / "transformers.json").write_text(lines + "\n")
