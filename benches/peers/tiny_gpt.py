#!/usr/bin/env python3
"""apps/src/tiny_gpt in PyTorch, on the CPU or a GPU.

The sizes, optimizer, schedule and split of the text are the same.

    tiny_gpt.py --text shakespeare.txt --seed 1
    tiny_gpt.py --text shakespeare.txt --device cuda --layers 6 --heads 6 --width 384 --context 256
        --batch 64 --lr 2e-3 --dropout 0.2 --precision bf16 --compile

Needs torch. Prints one JSON object with the keys that the example writes: train_loss,
validation_loss, tokens_per_second, train_seconds and, on a GPU, peak_memory_bytes. The random
numbers are PyTorch's own. Times exclude the first step, or the first ten with --compile, and the
test at the end.
"""

import argparse
import contextlib
import json
import math
import pathlib
import time

import torch
import torch.nn.functional as F
from torch import nn

WARMUP_STEPS = 100


class Block(nn.Module):
    """Attention and a feed-forward layer with GELU, each after a norm and with a residual
    connection.
    """

    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.attention, self.projection = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.wide, self.narrow = nn.Linear(width, 4 * width, bias=False), nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        batch, length, width = x.shape
        heads = [part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.attention(self.ln_1(x)).split(width, 2)]
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(*heads, dropout_p=dropout, is_causal=True).transpose(1, 2).reshape(x.shape)
        x = x + F.dropout(self.projection(mixed), dropout)
        hidden = F.gelu(self.wide(self.ln_2(x)), approximate="tanh")
        return x + F.dropout(self.narrow(hidden), dropout)


class GPT(nn.Module):
    """[batch, length] -> [batch, length, vocabulary]; the embedding of characters is also the last
    layer.
    """

    def __init__(self, vocabulary, args):
        super().__init__()
        self.dropout = nn.Dropout(args.dropout)
        self.wte, self.wpe = nn.Embedding(vocabulary, args.width), nn.Embedding(args.context, args.width)
        self.blocks = nn.ModuleList(Block(args.width, args.heads, args.dropout) for _ in range(args.layers))
        self.ln_f = nn.LayerNorm(args.width, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                scale = 1 / math.sqrt(2 * args.layers) if name.split(".")[-2] in ("projection", "narrow") else 1
                nn.init.normal_(parameter, 0.0, 0.02 * scale)

    def forward(self, tokens):
        x = self.dropout(self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device)))
        for block in self.blocks:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def learning_rate(step, args):
    """Returns a learning rate that rises from a hundredth in the first steps, then falls to a tenth
    along a cosine.
    """
    if step < WARMUP_STEPS:
        return args.lr * (0.01 + 0.99 * step / WARMUP_STEPS)
    progress = (step - WARMUP_STEPS) / max(args.steps - WARMUP_STEPS, 1)
    return args.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * progress)))


class Training:
    def __init__(self, args):
        text = pathlib.Path(args.text).read_text(encoding="utf-8")
        characters = {character: token for token, character in enumerate(sorted(set(text)))}
        tokens = torch.tensor([characters[character] for character in text])
        split = len(tokens) * 9 // 10
        self.args, self.train, self.held_out = args, tokens[:split].to(args.device), tokens[split:].to(args.device)
        self.model = GPT(len(characters), args).to(args.device)
        groups = {True: [], False: []}
        for parameter in self.model.parameters():
            groups[parameter.dim() > 1].append(parameter)
        groups = [{"params": groups[True], "weight_decay": 0.1}, {"params": groups[False], "weight_decay": 0.0}]
        self.optimizer = torch.optim.AdamW(groups, lr=args.lr, betas=(0.9, 0.99), fused=args.device != "cpu")
        self.forward = torch.compile(self.model) if args.compile else self.model
        dtype = {"bf16": torch.bfloat16, "f32": None, "tf32": None}[args.precision]
        torch.backends.cuda.matmul.allow_tf32 = args.precision == "tf32"
        self.scope = (lambda: torch.autocast(args.device, dtype)) if dtype else contextlib.nullcontext

    def loss(self, tokens):
        """Returns the mean loss of `tokens` [batch, context + 1]."""
        with self.scope():
            logits = self.forward(tokens[:, :-1])
        return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())

    def step(self, number):
        args = self.args
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(number, args)
        begins = torch.randint(len(self.train) - args.context, (args.batch, 1), device=args.device)
        loss = self.loss(self.train[begins + torch.arange(args.context + 1, device=args.device)])
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def run(self):
        """Returns the mean loss of the last 50 steps, the seconds of the counted steps, and their
        number.
        """
        left_out, losses, started = 10 if self.args.compile else 1, [], 0.0
        for number in range(self.args.steps):
            losses = losses[-49:] + [self.step(number)]
            if number + 1 == left_out:
                losses[-1].item()
                started = time.perf_counter()
        mean = torch.stack(losses).mean().item()
        return mean, time.perf_counter() - started, self.args.steps - left_out

    @torch.no_grad()
    def validation_loss(self):
        self.model.eval()
        self.forward = self.model
        length = self.args.context
        count = (len(self.held_out) - 1) // length
        windows = torch.arange(count, device=self.args.device)[:, None] * length
        windows = self.held_out[windows + torch.arange(length + 1, device=self.args.device)]
        return sum(self.loss(part).item() * len(part) for part in windows.split(self.args.batch)) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", required=True)
    parser.add_argument("--device", default="cpu")
    for name, value in dict(layers=4, heads=4, width=128, context=64, batch=12, steps=2000, seed=1, threads=2).items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--dropout", type=float, default=0.0)
    parser.add_argument("--precision", choices=["f32", "tf32", "bf16"], default="f32")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)
    training = Training(args)
    train_loss, seconds, steps = training.run()
    results = dict(device=args.device, seed=args.seed, steps=args.steps, precision=args.precision, train_loss=train_loss)
    results.update(validation_loss=training.validation_loss(), train_seconds=seconds)
    results.update(tokens_per_second=steps * args.batch * args.context / seconds)
    if args.device != "cpu":
        results.update(peak_memory_bytes=torch.cuda.max_memory_allocated())
    print(json.dumps(results))


if __name__ == "__main__":
    main()
