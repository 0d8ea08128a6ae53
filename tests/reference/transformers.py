"""Reference values of PyTorch 2.11 for tests/transformers.rs.

    pip install torch==2.11.* numpy
    python tests/reference/transformers.py

writes transformers.json beside itself. As in nn.py everything is computed in float64 from inputs that are exact in float32. Each layer also makes three
steps of AdamW on the mean of its squared outputs; the file holds the parameters after them.
"""

import json
from pathlib import Path

import torch
from torch import nn

torch.set_default_dtype(torch.float64)
torch.manual_seed(21)
HERE = Path(__file__).parent


def draw(*shape):
    """Random sixteenths: short in the file, exact in every floating dtype."""
    return (torch.randn(*shape) * 16).round().clamp(-48, 48) / 16


def plain(value):
    """A tensor as shape and values of eight significant digits."""
    value = value.detach()
    return {"shape": list(value.shape), "values": [float(f"{x:.8g}") for x in value.flatten().tolist()]}


def layer(module, *inputs, call=None):
    """A layer with drawn parameters: its output, the gradients of (output * cotangent).sum(), and its parameters after three steps of AdamW."""
    call = call or (lambda: module(*inputs))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.copy_(draw(*parameter.shape) / 2)
    for x in inputs:
        x.requires_grad_()
    start = {name: plain(value) for name, value in module.named_parameters()}
    output = call()
    cotangent = draw(*output.shape)
    (output * cotangent).sum().backward()
    case = {
        "parameters": start,
        "inputs": [plain(x) for x in inputs],
        "cotangent": plain(cotangent),
        "output": plain(output),
        "grad_inputs": [plain(x.grad) for x in inputs],
        "grad_parameters": {name: plain(value.grad) for name, value in module.named_parameters()},
    }
    if start:
        case["stepped"] = steps(module, call)
    return case


def steps(module, call):
    """Parameters after three steps of AdamW on the mean of the squared outputs. (eps is large: of a gradient that is 0 but for rounding nothing is left.)"""
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01, eps=1e-2)
    for _ in range(3):
        optimizer.zero_grad()
        call().square().mean().backward()
        optimizer.step()
    return {name: plain(value) for name, value in module.named_parameters()}


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
    """The output, from states that are inputs, too; the last states come behind it."""
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
    """torchvision's ResNet with the first layers for small images, and two stages of one block."""

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
    """GPT-2 of PyTorch's own layers: what ternion's is, with its keys."""

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.wpe = nn.Embedding(context, width)
        block = lambda: nn.TransformerEncoderLayer(
            width, heads, 4 * width, dropout=0.0, activation=lambda x: nn.functional.gelu(x, approximate="tanh"), batch_first=True, norm_first=True
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
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())
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
    }


def rotary():
    """By complex numbers: column i and i + 2 (halves), or 2 i and 2 i + 1 (neighbours), times e^(i angle)."""
    x = draw(1, 2, 3, 4)
    angles = torch.arange(3)[:, None] * 10000.0 ** (-2.0 * torch.arange(2) / 4)
    turn = torch.polar(torch.ones_like(angles), angles)
    halves = torch.complex(x[..., :2], x[..., 2:]) * turn
    neighbours = torch.complex(x[..., 0::2], x[..., 1::2]) * turn
    return {
        "input": plain(x),
        "halves": plain(torch.cat([halves.real, halves.imag], -1)),
        "neighbours": plain(torch.view_as_real(neighbours).flatten(-2)),
    }


reference = {"torch": torch.__version__.split("+")[0], "layers": layers(), "gpt": gpt(), "rotary": rotary()}
lines = json.dumps(reference, separators=(",", ":")).replace('},"', '},\n"')
(HERE / "transformers.json").write_text(lines + "\n")
