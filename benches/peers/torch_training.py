"""The training cases of torch_cases.py: models, optimizers and steps; the same sizes as in
ternion-bench (benches/gpu/src/train.rs).
"""

import dataclasses

import torch
import torch.nn.functional as F
from torch import nn

DEVICE = "cuda"


def mlp():
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))


def cnn():
    return nn.Sequential(
        *(nn.Conv2d(1, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        *(nn.Flatten(), nn.Linear(64 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10)),
    )


def alexnet():
    def stack(*channels, window=3):
        layers = []
        for inputs, outputs in zip(channels, channels[1:]):
            layers += [nn.Conv2d(inputs, outputs, window, padding=window // 2), nn.ReLU()]
        return [*layers, nn.MaxPool2d(2)]

    return nn.Sequential(
        *(*stack(3, 64, window=5), *stack(64, 192, window=5), *stack(192, 384, 256, 256)),
        *(nn.Flatten(), nn.Linear(256 * 4 * 4, 1024), nn.ReLU()),
        *(nn.Linear(1024, 512), nn.ReLU(), nn.Linear(512, 10)),
    )


class Block(nn.Module):
    """Causal attention and a feed-forward layer with GELU, each after a norm and with a residual
    connection.
    """

    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.norm, self.feed_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.projection = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm(x)).split(width, 2))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).reshape(x.shape))
        return x + self.narrow(F.gelu(self.wide(self.feed_norm(x)), approximate="tanh"))


class GPT(nn.Module):
    """[batch, context] -> [batch * context, vocabulary]; the head shares the weight of the
    embedding.
    """

    def __init__(self, vocabulary, context, layers, heads, width):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(heads, width) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.norm(x), self.tokens.weight).flatten(0, 1)


class Loss(nn.Module):
    """Mean cross-entropy of a model, in float32."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, inputs, targets):
        return F.cross_entropy(self.model(inputs).float(), targets)


def recorded(step):
    """Returns a step as a CUDA graph: run a few times on a separate stream, then recorded."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@dataclasses.dataclass
class Training:
    """A model that is trained, and the amount that a step processes: `amount` of a `unit` such as
    images/s.
    """

    name: str
    amount: int
    unit: str
    modes: tuple
    # Returns model, optimizer, inputs and targets.
    make: callable

    def step(self, mode):
        """Returns the step of a new model: eager, graph or compile; with -nhwc, images are
        channels-last.
        """
        torch.manual_seed(0)
        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True
        model, optimizer, inputs, targets = self.make()
        model = Loss(model)
        if mode.endswith("-nhwc"):
            model, inputs = (of.to(memory_format=torch.channels_last) for of in (model, inputs))
        if mode == "compile":
            torch.compiler.reset()
            model = torch.compile(model, dynamic=False)
        bf16 = "bf16" in self.name.split("/")

        def step():
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast(DEVICE, torch.bfloat16, enabled=bf16):
                loss = model(inputs, targets)
            loss.backward()
            optimizer.step()

        return recorded(step) if mode.startswith("graph") else step


def images(name, make_model, shape, batch, *more_modes):
    """Returns a classifier of images of ten classes, with Adam."""

    def make():
        model = make_model().to(DEVICE)
        adam = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True, capturable=DEVICE == "cuda")
        return model, adam, torch.randn(batch, *shape, device=DEVICE), torch.randint(0, 10, (batch,), device=DEVICE)

    return Training(f"train/{name}/b{batch}", batch, "images/s", ("eager", "graph", "compile", *more_modes), make)


def texts(name, batch, vocabulary, context, layers, heads, width):
    """Returns a GPT on full contexts, with AdamW."""

    def make():
        model = GPT(vocabulary, context, layers, heads, width).to(DEVICE)
        adam = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True, capturable=DEVICE == "cuda")
        inputs = torch.randint(0, vocabulary, (batch, context), device=DEVICE)
        return model, adam, inputs, torch.randint(0, vocabulary, (batch * context,), device=DEVICE)

    return Training(f"train/{name}", batch * context, "tokens/s", ("eager", "graph", "compile"), make)


def training_cases():
    """Returns all training cases."""
    tiny, characters, gpt2 = (65, 256, 4, 4, 128), (65, 256, 6, 6, 384), (50304, 1024, 12, 12, 768)
    return [
        *(images("mnist_mlp/f32", mlp, (1, 28, 28), batch) for batch in (64, 512)),
        images("mnist_cnn/f32", cnn, (1, 28, 28), 128),
        texts("tiny_gpt/f32", 64, *tiny),
        texts("tiny_gpt/bf16", 64, *tiny),
        texts("char_gpt/bf16", 64, *characters),
        texts("gpt2_124m/bf16", 16, *gpt2),
        *(images(f"cifar_alexnet/{dtype}", alexnet, (3, 32, 32), 256, "eager-nhwc", "graph-nhwc") for dtype in ("f32", "bf16")),
    ]
