"""Reference values of PyTorch 2.11 for crates/nn/tests/precision_reference.rs.

A small model under torch.autocast("cpu", torch.bfloat16). Usage:

    pip install torch==2.11.* numpy
    python tests/reference/precision.py

The script writes precision.json to its own folder. Inputs and initial parameters are exact in
bfloat16, so that their rounding is not part of the comparison. `exact` is the same model in
float64.
"""

import json
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(7)
HERE = Path(__file__).parent
LR = 0.1
STEPS = 3


def draw(*shape):
    """Returns random multiples of 1/16: short in the file, exact in every floating dtype."""
    return (torch.randn(*shape) * 16).round().clamp(-32, 32) / 16


def plain(value):
    """Returns shape and dtype of a tensor, and its values with six significant digits."""
    value = value.detach()
    values = [float(f"{x:.6g}") for x in value.double().flatten().tolist()]
    return {"shape": list(value.shape), "dtype": str(value.dtype).removeprefix("torch."), "values": values}


class Model(nn.Module):
    """A model of self-attention, a residual, a norm, and a feed-forward network."""

    def __init__(self):
        super().__init__()
        self.query = nn.Linear(8, 8)
        self.value = nn.Linear(8, 8)
        self.norm = nn.LayerNorm(8)
        self.hidden = nn.Linear(8, 12)
        self.output = nn.Linear(12, 4)
        self.outputs = {}

    def forward(self, x):
        query, value = self.query(x), self.value(x)
        heads = [tensor.unflatten(2, (2, 4)).transpose(1, 2) for tensor in (query, query, value)]
        attended = nn.functional.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        summed = x + attended
        hidden = nn.functional.gelu(self.hidden(self.norm(summed)))
        logits = self.output(hidden)
        self.outputs = {"query": query, "attended": attended, "summed": summed, "hidden": hidden, "logits": logits}
        return logits


def run(model, x, target, autocast):
    """Returns outputs, loss and gradients of the first SGD step, and the losses of all steps."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    losses, case = [], {}
    for step in range(STEPS):
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            logits = model(x)
            loss = nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())
        optimizer.zero_grad()
        loss.backward()
        losses.append(float(f"{loss.item():.8g}"))
        if step == 0:
            case["outputs"] = {name: plain(value) for name, value in model.outputs.items()}
            case["loss_dtype"] = str(loss.dtype).removeprefix("torch.")
            case["gradients"] = {name: plain(value.grad) for name, value in model.named_parameters()}
        optimizer.step()
    case["losses"] = losses
    return case


model = Model()
with torch.no_grad():
    for name, parameter in model.named_parameters():
        parameter.copy_(draw(*parameter.shape) / 2)
start = {name: plain(value) for name, value in model.named_parameters()}
x, target = draw(2, 3, 8), torch.randint(0, 4, (2, 3))
exact = Model().double()
exact.load_state_dict({name: value.double() for name, value in model.state_dict().items()})

everything = {
    "lr": LR,
    "parameters": start,
    "x": plain(x),
    "target": {"shape": list(target.shape), "values": target.flatten().tolist()},
    "bfloat16": run(model, x, target, True),
    "exact": run(exact, x.double(), target, False),
}
del everything["exact"]["outputs"]
(HERE / "precision.json").write_text(json.dumps(everything, separators=(",", ":")) + "\n")
