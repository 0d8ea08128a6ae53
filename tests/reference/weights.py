"""Weights of a small PyTorch model.

For apps/src/bin/pytorch_weights.rs and docs/tutorials/pytorch_weights.md. Usage:

    pip install torch==2.11.* safetensors numpy
    python tests/reference/weights.py

writes the folder weights next to this script: model.safetensors, the state dict as written by
`save_file`, and case.safetensors, an input with its logits. The model was trained for some steps,
so that the running statistics of its batch norms differ from their initial values.

    python tests/reference/weights.py FILE CASE

loads weights that another program wrote, and compares the logits with those of a case.
"""

import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import nn

FOLDER = Path(__file__).parent / "weights"


class Classifier(nn.Module):
    """A classifier of 8 x 8 images with three classes."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.hidden = nn.Linear(4 * 4 * 4, 16)
        self.hidden_norm = nn.BatchNorm1d(16)
        self.output = nn.Linear(16, 3)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        x = nn.functional.max_pool2d(x, 2)
        x = torch.relu(self.hidden_norm(self.hidden(x.flatten(1))))
        return self.output(x)


def make():
    torch.manual_seed(23)
    model = Classifier()
    images, labels = torch.randn(64, 1, 8, 8), torch.randint(3, (64,))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(20):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        case = {"input": images[:5].clone(), "logits": model(images[:5])}
    FOLDER.mkdir(exist_ok=True)
    save_file(model.state_dict(), FOLDER / "model.safetensors")
    save_file(case, FOLDER / "case.safetensors")


def check(weights, case):
    model = Classifier()
    model.load_state_dict(load_file(weights))
    model.eval()
    case = load_file(case)
    with torch.no_grad():
        far = (model(case["input"]) - case["logits"]).abs().max().item()
    print(f"largest difference of a logit: {far:.2e}")
    assert far <= 1e-5, far


if __name__ == "__main__":
    check(*sys.argv[1:]) if len(sys.argv) == 3 else make()
