"""Trains a classifier of handwritten digits, as the Rust example mnist does.

Model, order of the examples and learning rates are the same.

    python python/examples/mnist.py
    python python/examples/mnist.py --model cnn --epochs 2 --device cuda
    nsys profile --trace=cuda,nvtx python python/examples/mnist.py --device cuda --nvtx --eager
"""

import argparse
import contextlib
import functools
import json
import math
import sys
import time

import ternion
from ternion import nn, optim
from ternion.cuda import nvtx


def model_of(kind, hidden, device):
    """Returns the model: the same layers as in Rust, created in the same order from the same random
    numbers.
    """
    made = dict(device=device)
    if kind == "mlp":
        return nn.Sequential(nn.Flatten(), nn.Linear(784, hidden, **made), nn.ReLU(), nn.Linear(hidden, 10, **made))
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, **made), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, **made), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(32 * 5 * 5, hidden, **made), nn.ReLU(), nn.Linear(hidden, 10, **made),
    )  # fmt: skip


# Mean and standard deviation of the pixels of the training set, from 0 to 1.
MEAN, DEVIATION = 0.1307, 0.3081

# The label that pads the last batch. The loss and the accuracy ignore it.
NO_LABEL = -100


class Digits:
    """A split on the device, normalized, followed by one image that pads batches."""

    def __init__(self, split, device):
        pixels = ternion.cat([split.images, ternion.zeros(1, *split.images.shape[1:], dtype="uint8")]).to(device)
        self.images = pixels.float().div_(255).sub_(MEAN).div_(DEVIATION)
        self.labels = ternion.cat([split.labels, ternion.tensor([NO_LABEL])]).to(device)
        self.split = split

    def __len__(self):
        return len(self.split)

    def rows(self, epoch, seed, batch):
        """Returns the indices of the digits of each batch of an epoch: [batches, batch]."""
        order, count = self.split.order(epoch, seed), -(-len(self) // batch)
        filling = ternion.full((count * batch - len(self),), len(self), dtype="int64")
        return ternion.cat([order, filling]).reshape(count, batch).to(self.images.device)


def accuracy_of(model, digits):
    """Returns the fraction of the images whose class is predicted correctly."""
    right = ternion.zeros((), dtype="int64", device=digits.images.device)
    with ternion.no_grad():
        for start in range(0, len(digits), 1000):
            several = slice(start, min(start + 1000, len(digits)))
            right += (model(digits.images[several]).argmax(1) == digits.labels[several]).sum()
    return right.item() / len(digits)


class Step:
    """Forward, loss, backward and the optimizer's step on one batch: captured once and replayed if
    the device supports it, otherwise run op by op.
    """

    def __init__(self, model, adam, digits, batch, eager):
        self.model, self.adam, self.digits, self.eager = model, adam, digits, eager
        self.rows = ternion.zeros(batch, dtype="int64", device=digits.images.device)
        self.total = ternion.zeros((), device=digits.images.device)
        self.recorded = None

    def once(self):
        images, labels = self.digits.images.index_select(0, self.rows), self.digits.labels.index_select(0, self.rows)
        self.adam.zero_grad()
        loss = nn.functional.cross_entropy(self.model(images), labels)
        loss.backward()
        self.adam.step()
        self.total.add_(loss.detach())

    def run(self, rows):
        self.rows.copy_(rows)
        if self.recorded is not None:
            self.recorded.replay()
        elif self.eager:
            self.once()
        else:
            self.recorded = ternion.capture(self.once, self.rows.device)


def train(model, digits, arguments, device):
    """Trains the model. Returns the time of all steps in seconds except the first, which compiles
    kernels on some devices, and the number of steps.
    """
    adam = optim.AdamW(model.named_parameters(), lr=arguments.lr)
    training = Step(model, adam, digits, min(arguments.batch, len(digits)), arguments.eager)
    step_range = nvtx.range if arguments.nvtx else contextlib.nullcontext
    steps, begun = 0, time.perf_counter()
    for epoch in range(arguments.epochs):
        rows = digits.rows(epoch, arguments.seed, len(training.rows))
        for batch, these in enumerate(rows):
            progress = (epoch + batch / len(rows)) / arguments.epochs
            adam.param_groups[0]["lr"] = arguments.lr * (1 + math.cos(math.pi * progress)) / 2
            with step_range("step"):
                training.run(these)
            steps += 1
            if steps == 1:
                device.synchronize()
                begun = time.perf_counter()
        print(f"epoch {epoch + 1}/{arguments.epochs}  loss {training.total.item() / len(rows):.4f}", flush=True)
        training.total.zero_()
    device.synchronize()
    return time.perf_counter() - begun, steps


def in_ranges(model, f):
    """Calls `f`, reports its layers, ops, backward passes and the optimizer's steps to NVIDIA's
    profilers, and returns its result.
    """
    returned = []
    nn.trace(model, lambda: returned.append(f()), nvtx=True)
    return returned[0]


def positive(text):
    """Parses a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected an integer above 0")
    return int(text)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER")
    parser.add_argument("--data", default="auto", help="a directory with MNIST's files, synthetic, or auto")
    parser.add_argument("--model", choices=["mlp", "cnn"], default="mlp")
    parser.add_argument("--epochs", type=positive, default=5)
    parser.add_argument("--batch", type=positive, default=64)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--hidden", type=positive, default=128)
    parser.add_argument("--limit", type=positive, help="takes only the first N digits")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--eager", action="store_true", help="runs each step op by op, and records none")
    parser.add_argument("--nvtx", action="store_true", help="reports steps and, with --eager, layers, ops, backward passes and the optimizer's steps to NVIDIA's profilers")
    parser.add_argument("--json", help="writes the results")
    arguments = parser.parse_args()
    # A file that cannot be written is reported before the training.
    results = open(arguments.json, "w", encoding="utf-8") if arguments.json else None
    device = ternion.device(arguments.device)
    if arguments.nvtx and device.type != "cuda":
        raise ValueError(f"--nvtx requires a CUDA device (--device cuda), got {device}")
    ternion.manual_seed(arguments.seed)
    model = model_of(arguments.model, arguments.hidden, device)
    digits = ternion.data.mnist(arguments.data)
    print(digits.origin)
    split = digits.train if arguments.limit is None else digits.train.first(arguments.limit)
    train_digits, test_digits = Digits(split, device), Digits(digits.test, device)
    training = functools.partial(train, model, train_digits, arguments, device)
    seconds, steps = in_ranges(model, training) if arguments.nvtx else training()
    accuracy = accuracy_of(model, test_digits)
    # All images except those of the first step.
    images = arguments.epochs * len(split) - min(arguments.batch, len(split))
    speed = images / seconds if steps > 1 else None
    told = "speed not measured: only one step" if speed is None else f"{speed:.0f} images/s"
    print(f"{told}, test accuracy {accuracy * 100:.2f} %")
    if results is not None:
        with results as file:
            json.dump({"device": str(device), "test_accuracy": accuracy, "train_seconds": seconds, "images_per_second": speed}, file, indent=2)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"mnist: {error}")
