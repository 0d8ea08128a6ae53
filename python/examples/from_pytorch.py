"""Trains a small model in PyTorch, writes its weights as safetensors, and loads them in Ternion.

The logits of both are compared.

    python python/examples/from_pytorch.py
    python python/examples/from_pytorch.py --device cuda --steps 500 --weights model.safetensors
"""

import argparse
import json
import sys
import tempfile
from pathlib import Path

import ternion
from ternion import nn


def layers_of(nn):
    """Returns the model: the same code creates it in PyTorch and in Ternion."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16 * 7 * 7, 10),
    )  # fmt: skip


def digits_of(source, limit):
    """Returns images and labels as NumPy arrays, for training and for the test."""
    digits = ternion.data.mnist(source)
    print(digits.origin, flush=True)
    parts = digits.train.first(limit), digits.test.first(limit)
    return [((part.images.float() / 255).numpy(), part.labels.numpy()) for part in parts]


def train_in_pytorch(torch, images, labels, steps, seed):
    """Returns a trained PyTorch model."""
    torch.manual_seed(seed)
    model = layers_of(torch.nn)
    adam = torch.optim.AdamW(model.parameters(), lr=3e-3)
    images, labels = torch.from_numpy(images), torch.from_numpy(labels)
    for step in range(1, steps + 1):
        chosen = torch.randint(0, len(images), (64,))
        adam.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images[chosen]), labels[chosen])
        loss.backward()
        adam.step()
        if step % 50 == 0 or step == steps:
            print(f"PyTorch: step {step}/{steps}  loss {loss.item():.4f}", flush=True)
    return model.eval()


def compare(torch, torch_model, ternion_model, images, labels, device):
    """Returns the largest difference of the logits, and both accuracies."""
    with torch.no_grad():
        expected = torch_model(torch.from_numpy(images)).numpy()
    with ternion.no_grad():
        found = ternion_model(ternion.tensor(images, device=device)).cpu().numpy()
    accuracies = [float((logits.argmax(1) == labels).mean()) for logits in (expected, found)]
    return float(abs(expected - found).max()), accuracies


def positive(text):
    """Parses a positive integer."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}, expected an integer above 0")
    return int(text)


def writable(text):
    """Parses the name of a file that can be written: an error is reported before
    training starts.
    """
    file = Path(text)
    if file.is_dir() or not file.absolute().parent.is_dir():
        raise argparse.ArgumentTypeError(f"{text} is a folder" if file.is_dir() else f"{text}: there is no folder {file.parent}")
    return file


def save_weights(safetensors, model, file):
    """Writes the weights of a PyTorch model."""
    try:
        safetensors.torch.save_file(model.state_dict(), file)
    except safetensors.SafetensorError as error:
        raise OSError(f"{file} cannot be written: {error}") from None


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto", help="device for Ternion")
    parser.add_argument("--data", default="auto", help="a directory with MNIST's files, synthetic, or auto")
    parser.add_argument("--limit", type=positive, default=2000, help="takes only the first N digits")
    parser.add_argument("--steps", type=positive, default=200, help="training steps in PyTorch")
    parser.add_argument("--weights", type=writable, help="keeps the weights in this file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", help="writes the results")
    arguments = parser.parse_args()
    try:
        import safetensors.torch
        import torch
    except ImportError as error:
        sys.exit(f"from_pytorch needs PyTorch and safetensors (pip install torch safetensors): {error}")
    device = ternion.device(arguments.device)
    (images, labels), test = digits_of(arguments.data, arguments.limit)
    torch_model = train_in_pytorch(torch, images, labels, arguments.steps, arguments.seed)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(arguments.weights or Path(folder) / "model.safetensors")
        save_weights(safetensors, torch_model, file)
        ternion_model = layers_of(nn)
        ternion_model.load_state_dict(ternion.load(file))
    ternion_model.to(device).eval()
    difference, accuracies = compare(torch, torch_model, ternion_model, *test, device)
    print(f"test accuracy {accuracies[0] * 100:.2f} % in PyTorch, {accuracies[1] * 100:.2f} % in Ternion on {device}")
    print(f"largest difference of the logits: {difference:.1e}")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as out:
            json.dump({"device": str(device), "difference": difference, "accuracies": accuracies}, out, indent=2)


if __name__ == "__main__":
    try:
        main()
    except (OSError, RuntimeError, ValueError) as error:
        sys.exit(f"from_pytorch: {error}")
