"""Reference values of PyTorch for tests/layers.rs and tests/training.rs. Usage:

    pip install torch==2.11.* safetensors numpy
    python tests/reference/nn.py

The script writes nn.json and pytorch.safetensors to its own folder. Everything is computed in
float64 from inputs that are exact in float32, so the numbers are those of the definition and do not
depend on the rounding of a machine.
"""

import inspect
import json
import math
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import nn

from layer import draw, layer, plain

torch.manual_seed(20)
HERE = Path(__file__).parent


def layers():
    return {
        "linear": layer(nn.Linear(3, 2), draw(4, 3)),
        "linear_rank_3": layer(nn.Linear(3, 2), draw(2, 2, 3)),
        "conv2d": layer(nn.Conv2d(2, 3, 3), draw(2, 2, 4, 5)),
        "conv2d_general": layer(
            nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2), draw(1, 4, 5, 4)
        ),
        "layer_norm": layer(nn.LayerNorm(5), draw(3, 5)),
        "max_pool2d": layer(nn.MaxPool2d(2), draw(1, 2, 4, 4)),
        "avg_pool2d": layer(nn.AvgPool2d(2), draw(1, 2, 4, 4)),
        "batch_norm2d": layer(nn.BatchNorm2d(2), draw(3, 2, 2, 2)),
        "relu": layer(nn.ReLU(), draw(2, 5)),
        "leaky_relu": layer(nn.LeakyReLU(), draw(2, 5)),
        "elu": layer(nn.ELU(), draw(2, 5)),
        "gelu": layer(nn.GELU(), draw(2, 5)),
        "gelu_tanh": layer(nn.GELU(approximate="tanh"), draw(2, 5)),
        "silu": layer(nn.SiLU(), draw(2, 5)),
        "softplus": layer(nn.Softplus(), draw(2, 5)),
        "tanh": layer(nn.Tanh(), draw(2, 5)),
        "sigmoid": layer(nn.Sigmoid(), draw(2, 5)),
        "softmax": layer(nn.Softmax(dim=-1), draw(2, 5)),
        "log_softmax": layer(nn.LogSoftmax(dim=0), draw(2, 5)),
        "flatten": layer(nn.Flatten(), draw(2, 3, 2)),
    }


def batch_norm_statistics(**settings):
    """Returns the running statistics after two batches, and an output in evaluation mode."""
    module = nn.BatchNorm2d(2, **settings)
    batches = [draw(3, 2, 2, 2), draw(2, 2, 3, 1)]
    for batch in batches:
        module(batch)
    state = {name: plain(value.to(torch.float64)) for name, value in module.state_dict().items()}
    module.eval()
    x = draw(2, 2, 2, 2)
    return {"batches": [plain(b) for b in batches], "state": state, "input": plain(x), "output": plain(module(x))}


def losses():
    x, target = draw(3, 4), draw(3, 4)
    classes = torch.tensor([2, 0, 3])
    ignoring = torch.tensor([2, -100, 3])
    probabilities = torch.softmax(draw(3, 4), 1)
    log_x = torch.log_softmax(x, 1)
    shares = (torch.rand(3, 4) * 16).round() / 16
    class_weights = torch.tensor([0.5, 1.0, 2.0, 0.25])
    values = {
        "cross_entropy": nn.CrossEntropyLoss()(x, classes),
        "cross_entropy_ignoring": nn.CrossEntropyLoss()(x, ignoring),
        "cross_entropy_smoothed": nn.CrossEntropyLoss(label_smoothing=0.1)(x, classes),
        "cross_entropy_sum": nn.CrossEntropyLoss(reduction="sum")(x, classes),
        "cross_entropy_each": nn.CrossEntropyLoss(reduction="none")(x, classes),
        "cross_entropy_probabilities": nn.CrossEntropyLoss()(x, probabilities),
        "cross_entropy_weighted": nn.CrossEntropyLoss(class_weights)(x, ignoring),
        "cross_entropy_weighted_smoothed": nn.CrossEntropyLoss(class_weights, label_smoothing=0.1)(x, ignoring),
        "cross_entropy_weighted_probabilities": nn.CrossEntropyLoss(class_weights, label_smoothing=0.1)(x, probabilities),
        "nll": nn.NLLLoss()(log_x, classes),
        "nll_weighted": nn.NLLLoss(class_weights)(log_x, ignoring),
        "mse": nn.MSELoss()(x, target),
        "l1": nn.L1Loss()(x, target),
        "huber": nn.HuberLoss()(x, target),
        "huber_half": nn.HuberLoss(delta=0.5, reduction="sum")(x, target),
        "bce_with_logits": nn.BCEWithLogitsLoss()(x, shares),
        "kl_div": nn.KLDivLoss()(log_x, probabilities),
        "kl_div_log": nn.KLDivLoss(reduction="sum", log_target=True)(log_x, probabilities.log()),
    }
    inputs = {"x": x, "target": target, "probabilities": probabilities, "log_x": log_x, "shares": shares, "class_weights": class_weights}
    return {
        "inputs": {name: plain(value) for name, value in inputs.items()},
        "values": {name: plain(value) for name, value in values.items()},
    }


OPTIMIZERS = {
    "sgd": (torch.optim.SGD, dict(lr=0.1)),
    "sgd_weight_decay": (torch.optim.SGD, dict(lr=0.1, weight_decay=0.2)),
    "sgd_momentum": (torch.optim.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd_dampening": (torch.optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)),
    "sgd_nesterov": (torch.optim.SGD, dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1)),
    "adam": (torch.optim.Adam, dict(lr=0.01)),
    "adam_general": (torch.optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)),
    "adamw": (torch.optim.AdamW, dict(lr=0.01)),
    "adamw_general": (torch.optim.AdamW, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)),
}


def optimizers():
    """Returns two parameters after each of four steps with given gradients.

    The third step halves the learning rate and has clipped gradients.
    """
    start = [draw(2, 3), draw(3)]
    gradients = [[draw(2, 3), draw(3)] for _ in range(4)]
    runs = {}
    for name, (kind, settings) in OPTIMIZERS.items():
        parameters = [value.clone().requires_grad_() for value in start]
        optimizer = kind(parameters, **settings)
        steps = []
        for number, step in enumerate(gradients):
            for parameter, gradient in zip(parameters, step):
                parameter.grad = gradient.clone()
            if number == 2:
                optimizer.param_groups[0]["lr"] /= 2
                torch.nn.utils.clip_grad_norm_(parameters, 0.5)
            optimizer.step()
            steps.append([plain(parameter) for parameter in parameters])
        runs[name] = steps
    return {
        "start": [plain(value) for value in start],
        "gradients": [[plain(value) for value in step] for step in gradients],
        "runs": runs,
    }


def initialisation():
    """Returns the bounds and standard deviations of torch.nn.init's distributions."""
    fan_in, fan_out = nn.init._calculate_fan_in_and_fan_out(torch.empty(32, 16, 3, 5))
    gain = nn.init.calculate_gain
    correct = lambda mode: nn.init._calculate_correct_fan(torch.empty(32, 16, 3, 5), mode)
    return {
        "shape": [32, 16, 3, 5],
        "fans": [fan_in, fan_out],
        "gains": {
            "linear": gain("linear"),
            "tanh": gain("tanh"),
            "relu": gain("relu"),
            "leaky_relu_0.2": gain("leaky_relu", 0.2),
            "selu": gain("selu"),
        },
        "kaiming_uniform_default_bound": math.sqrt(3) * gain("leaky_relu", math.sqrt(5)) / math.sqrt(correct("fan_in")),
        "kaiming_uniform_fan_out_relu_bound": math.sqrt(3) * gain("relu") / math.sqrt(correct("fan_out")),
        "kaiming_normal_relu_std": gain("relu") / math.sqrt(correct("fan_in")),
        "xavier_uniform_tanh_bound": math.sqrt(3) * gain("tanh") * math.sqrt(2.0 / (fan_in + fan_out)),
        "xavier_normal_std": math.sqrt(2.0 / (fan_in + fan_out)),
    }


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 2, 3, padding=1)
        self.norm = nn.BatchNorm2d(2)

    def forward(self, x):
        return torch.relu(self.norm(self.conv(x)))


class Network(nn.Module):
    """The model that tests/layers.rs declares with the same field names."""

    def __init__(self):
        super().__init__()
        self.stem = Block()
        self.layers = nn.ModuleList([nn.Linear(32, 4), nn.Linear(4, 3)])
        self.head = nn.Sequential(nn.LayerNorm(3), nn.ReLU(), nn.Linear(3, 2, bias=False))

    def forward(self, x):
        x = self.stem(x).flatten(1)
        for linear in self.layers:
            x = torch.tanh(linear(x))
        return self.head(x)


def network():
    model = Network().float()
    x = draw(2, 1, 4, 4).float()
    model(x)
    model.eval()
    save_file(model.state_dict(), HERE / "pytorch.safetensors")
    keys = {name: list(value.shape) for name, value in model.state_dict().items()}
    parameters = [name for name, _ in model.named_parameters()]
    buffers = [name for name, _ in model.named_buffers()]
    output = model.double()(x.double())
    return {"keys": keys, "parameters": parameters, "buffers": buffers, "input": plain(x), "output": plain(output)}


def defaults():
    """Returns the default settings of each class, as far as they are numbers, names or None."""
    classes = [nn.Linear, nn.Conv1d, nn.Conv2d, nn.ConvTranspose2d, nn.MaxPool2d, nn.AvgPool2d, nn.Upsample, nn.Embedding, nn.Dropout, nn.Flatten]
    classes += [nn.LayerNorm, nn.RMSNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d, nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer]
    classes += [nn.LeakyReLU, nn.ELU, nn.GELU, nn.Softplus, nn.CrossEntropyLoss, nn.NLLLoss, nn.MSELoss, nn.HuberLoss, nn.BCEWithLogitsLoss, nn.KLDivLoss]
    optim = torch.optim
    classes += [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Muon]
    told = {}
    for kind in classes:
        settings = inspect.signature(kind.__init__).parameters.values()
        plain = [setting for setting in settings if isinstance(setting.default, (bool, int, float, str, tuple, type(None)))]
        told[kind.__name__] = {setting.name: setting.default for setting in plain}
    return told


reference = {
    "torch": torch.__version__.split("+")[0],
    "layers": layers(),
    "batch_norm": batch_norm_statistics(),
    "losses": losses(),
    "optimizers": optimizers(),
    "initialization": initialisation(),
    "network": network(),
}
# After the others, so that their random numbers do not change.
reference["batch_norm_cumulative"] = batch_norm_statistics(momentum=None)
reference["batch_norm_untracked"] = batch_norm_statistics(track_running_stats=False)
reference["defaults"] = defaults()
lines = json.dumps(reference, separators=(",", ":")).replace('},"', '},\n"')
(HERE / "nn.json").write_text(lines + "\n")
