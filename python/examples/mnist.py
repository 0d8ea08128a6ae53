"""Trains a classifier of handwritten digits: the Python form of the Rust example mnist, with the same model, order and learning rates.

    python python/examples/mnist.py
    python python/examples/mnist.py --model cnn --epochs 2 --device cuda
"""

import argparse
import json
import math
import time

import ternion
from ternion import nn, optim


def model_of(kind, hidden, device):
    """The same layers, made in the same order from the same random numbers."""
    made = dict(device=device)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, hidden, **made), nn.ReLU(), nn.Linear(hidden, 10, **made))
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, **made), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, **made), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 5 * 5, hidden, **made), nn.ReLU(), nn.Linear(hidden, 10, **made),
    )  # fmt: skip


def accuracy_of(model, split, device):
    """The share of the images whose class is found."""
    model.eval()
    right = ternion.zeros((), dtype="int64", device=device)
    with ternion.no_grad():
        for images, labels in split.batches(1000, device=device):
            right += (model(images).argmax(1) == labels).sum()
    model.train()
    return right.item() / len(split)


def train(model, split, arguments, device):
    """The seconds that all steps but the first took, which compiles kernels on some devices."""
    adam = optim.AdamW(model.named_parameters(), lr=arguments.lr)
    batches = split.batches(arguments.batch, shuffle=arguments.seed, device=device, prefetch=4)
    steps, step, begun = arguments.epochs * len(batches), 0, time.perf_counter()
    for epoch in range(arguments.epochs):
        total = ternion.zeros((), device=device)
        for images, labels in batches.epoch(epoch):
            adam.param_groups[0]["lr"] = arguments.lr * (1 + math.cos(math.pi * step / steps)) / 2
            adam.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            adam.step()
            with ternion.no_grad():
                total += loss
            step += 1
            if step == 1:
                device.synchronize()
                begun = time.perf_counter()
        print(f"epoch {epoch + 1}/{arguments.epochs}  loss {total.item() / len(batches):.4f}")
    device.synchronize()
    return time.perf_counter() - begun, steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")
    parser.add_argument("--data", default="auto", help="a directory with MNIST's files, synthetic, or auto")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--limit", type=int, help="takes only the first so many digits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="writes the results")
    arguments = parser.parse_args()
    device = ternion.device(arguments.device)
    ternion.manual_seed(arguments.seed)
    model = model_of(arguments.model, arguments.hidden, device)
    digits = ternion.data.mnist(arguments.data)
    print(digits.origin)
    split = digits.train if arguments.limit is None else digits.train.first(arguments.limit)
    seconds, steps = train(model, split, arguments, device)
    accuracy = accuracy_of(model, digits.test, device)
    speed = (steps - 1) * arguments.batch / seconds if steps > 1 else None
    print(f"{speed or 0:.0f} images/s, test accuracy {accuracy * 100:.2f} %")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"device": str(device), "test_accuracy": accuracy, "train_seconds": seconds, "images_per_second": speed}, file, indent=2)


if __name__ == "__main__":
    main()
