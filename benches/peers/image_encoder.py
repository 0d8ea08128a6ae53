#!/usr/bin/env python3
"""apps/src/image_encoder in PyTorch, on the CPU or a GPU.

The encoding, model, initialization, loss, optimizer and schedule are the same.

    image_encoder.py --image photo.png --seed 1

Needs torch and pillow. Prints one JSON object with the keys that the example writes: psnr,
final_loss, train_seconds. The random numbers are PyTorch's own.
"""

import argparse
import json
import math
import time

import torch
from PIL import Image
from torch import nn

FREQUENCIES = 16
HIDDEN = 64


class FrequencyEncoding(nn.Module):
    """[batch, 2] -> [batch, 64]: sine and cosine of each coordinate at increasing frequencies, two
    per octave.
    """

    def __init__(self):
        super().__init__()
        self.register_buffer("frequencies", torch.tensor([math.pi * 2 ** (index / 2) for index in range(FREQUENCIES)]))

    def forward(self, positions):
        angles = (positions[:, :, None] * self.frequencies).flatten(1)
        return torch.cat([angles.sin(), angles.cos()], 1)


def linear(inputs, outputs):
    """Returns a layer with normally distributed weights of variance 1 / inputs, and biases 0."""
    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, 0.0, 1.0 / math.sqrt(inputs))
    nn.init.zeros_(layer.bias)
    return layer


def encoder():
    return nn.Sequential(
        FrequencyEncoding(),
        linear(4 * FREQUENCIES, HIDDEN),
        nn.LeakyReLU(0.1),
        linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.1),
        linear(HIDDEN, HIDDEN),
        nn.LeakyReLU(0.1),
        linear(HIDDEN, 3),
    )


def pixels_of(file, device):
    """Returns positions [pixels, 2] and colors [pixels, 3] from 0 to 1, in row-major order."""
    image = Image.open(file).convert("RGB")
    cols, rows = image.size
    colours = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).reshape(-1, 3).float() / 255
    y, x = torch.meshgrid((torch.arange(rows) + 0.5) / rows, (torch.arange(cols) + 0.5) / cols, indexing="ij")
    return torch.stack([x.flatten(), y.flatten()], 1).to(device), colours.to(device)


def train(model, positions, colours, arguments):
    """Returns the mean squared error of the last 500 steps, and the seconds of all but the first
    step.
    """
    optimizer = torch.optim.AdamW(model.parameters(), lr=arguments.lr, betas=(0.92, 0.95), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99999)
    total, started = torch.zeros((), device=positions.device), time.perf_counter()
    for step in range(arguments.steps):
        drawn = torch.randint(0, len(positions), (arguments.batch,), device=positions.device)
        loss = (model(positions[drawn]) - colours[drawn]).square().sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step >= arguments.steps - 500:
            total += loss.detach()
        if step == 0:
            started = time.perf_counter()
    counted = 3 * arguments.batch * min(arguments.steps, 500)
    return total.item() / counted, time.perf_counter() - started


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--image", required=True)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--lr", type=float, default=5.33e-4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(arguments.seed)
    positions, colours = pixels_of(arguments.image, arguments.device)
    model = encoder().to(arguments.device)
    loss, seconds = train(model, positions, colours, arguments)
    with torch.no_grad():
        found = torch.cat([model(part) for part in positions.split(1 << 15)]).clamp(0, 1)
        psnr = -10 * math.log10((found - colours).square().mean().item())
    results = dict(device=arguments.device, seed=arguments.seed, steps=arguments.steps, batch=arguments.batch)
    results.update(psnr=psnr, final_loss=loss, train_seconds=seconds)
    print(json.dumps(results))


if __name__ == "__main__":
    main()
