"""Reference values of PyTorch for tests/optimizers.rs. Usage:

    pip install torch==2.11.* numpy
    python tests/reference/optimizers.py

The script writes optimizers.json to its own folder. Everything is computed in float64 from inputs
that are exact in bfloat16, so the numbers are those of the definition and do not depend on the
rounding of a machine.
"""

import inspect
import json
from pathlib import Path

import torch
from torch.optim import _muon, lr_scheduler
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

torch.set_default_dtype(torch.float64)
torch.manual_seed(21)
HERE = Path(__file__).parent

# PyTorch's iterations without their rounding to bfloat16.
source = inspect.getsource(_muon._zeropower_via_newtonschulz)
assert ".bfloat16()" in source
exec(source.replace(".bfloat16()", ".clone()"), _muon.__dict__)


def draw(*shape):
    """Returns random multiples of 1/16: short in the file, exact in every floating dtype."""
    return (torch.randn(*shape) * 16).round().clamp(-48, 48) / 16


def plain(value):
    """Returns the shape of a tensor and its values with nine significant digits."""
    value = value.detach()
    return {"shape": list(value.shape), "values": [float(f"{x:.9g}") for x in value.flatten().tolist()]}


class Lion(torch.optim.Optimizer):
    """Lion as in google/automl, lion/lion_pytorch.py (Chen et al. 2023, algorithm 2).

    PyTorch does not have this optimizer.
    """

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                exp_avg = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["weight_decay"])
                update = exp_avg * beta1 + p.grad * (1 - beta1)
                p.add_(update.sign(), alpha=-group["lr"])
                exp_avg.mul_(beta2).add_(p.grad, alpha=1 - beta2)


START = [draw(2, 3), draw(4, 2), draw(3)]
GRADIENTS = [[draw(*value.shape) for value in START] for _ in range(4)]


def groups(kind, first, others, **settings):
    """Returns parameter groups with the first parameter in a separate group."""
    return lambda p: kind([{"params": p[:1], **first}, {"params": p[1:], **others}], **settings)


optim = torch.optim
OPTIMIZERS = {
    "rmsprop": lambda p: optim.RMSprop(p),
    "rmsprop_momentum": lambda p: optim.RMSprop(p, alpha=0.9, momentum=0.8, weight_decay=0.1),
    "rmsprop_centered": lambda p: optim.RMSprop(p, alpha=0.9, eps=1e-3, centered=True),
    "rmsprop_general": lambda p: optim.RMSprop(p, lr=0.02, alpha=0.8, eps=1e-3, momentum=0.5, centered=True),
    "adagrad": lambda p: optim.Adagrad(p),
    "adagrad_general": lambda p: optim.Adagrad(
        p, lr=0.1, lr_decay=0.2, weight_decay=0.1, initial_accumulator_value=0.5, eps=1e-3
    ),
    "adam_amsgrad": lambda p: optim.Adam(p, lr=0.02, betas=(0.5, 0.6), weight_decay=0.1, amsgrad=True),
    "adamw_amsgrad": lambda p: optim.AdamW(p, lr=0.02, betas=(0.8, 0.7), eps=1e-3, weight_decay=0.3, amsgrad=True),
    "lion": lambda p: Lion(p),
    "lion_general": lambda p: Lion(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.3),
    "muon": lambda p: optim.Muon(p[:2]),
    "muon_general": lambda p: optim.Muon(
        p[:2], lr=0.1, weight_decay=0.3, momentum=0.8, nesterov=False, ns_coefficients=(2.0, -1.5, 0.5), ns_steps=3
    ),
    "muon_match_rms_adamw": lambda p: optim.Muon(p[:2], lr=0.1, adjust_lr_fn="match_rms_adamw"),
    "sgd_groups": groups(optim.SGD, {"lr": 0.2}, {"weight_decay": 0.3}, lr=0.1, momentum=0.9, weight_decay=0.1),
    "adamw_groups": groups(optim.AdamW, {"lr": 0.002}, {"weight_decay": 0.0}, lr=0.01, weight_decay=0.3),
    "lion_groups": groups(Lion, {"lr": 0.002}, {"weight_decay": 0.0}, lr=0.01, weight_decay=0.3),
}


def run(make):
    """Returns the parameters after each of four steps with given gradients.

    The third step halves the learning rates.
    """
    parameters = [value.clone().requires_grad_() for value in START]
    optimizer = make(parameters)
    used = sum(len(group["params"]) for group in optimizer.param_groups)
    steps = []
    for number, step in enumerate(GRADIENTS):
        for parameter, gradient in zip(parameters, step):
            parameter.grad = gradient.clone()
        if number == 2:
            for group in optimizer.param_groups:
                group["lr"] /= 2
        optimizer.step()
        steps.append([plain(parameter) for parameter in parameters[:used]])
    return steps


def averages():
    """Returns the EMA of parameters, with a decay of 0.9, after each of four steps of SGD."""
    model = torch.nn.ParameterList([value.clone() for value in START])
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    averaged.update_parameters(model)  # the first call copies
    steps = []
    for step in GRADIENTS:
        with torch.no_grad():
            for parameter, gradient in zip(model, step):
                parameter -= 0.1 * gradient
        averaged.update_parameters(model)
        steps.append([plain(value) for value in averaged.module])
    return steps


def averages_of_buffers():
    """Returns the EMA of a batch norm's buffers, with a decay of 0.9, after each of four batches.

    The result also contains the output for the last batch, computed with these buffers.
    """
    model = torch.nn.BatchNorm1d(2)
    averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9), use_buffers=True)
    averaged.update_parameters(model)  # the first call copies
    batches = [draw(3, 2) for _ in range(4)]
    steps = []
    for batch in batches:
        model(batch)
        averaged.update_parameters(model)
        steps.append({name: plain(value) for name, value in averaged.module.named_buffers() if value.is_floating_point()})
    return {"batches": [plain(batch) for batch in batches], "steps": steps, "output": plain(averaged.eval()(batches[-1]))}


LR = 0.5
SCHEDULES = {
    "step": (12, lambda o: lr_scheduler.StepLR(o, 3, 0.5)),
    "multi_step": (12, lambda o: lr_scheduler.MultiStepLR(o, [7, 2, 7])),
    "exponential": (12, lambda o: lr_scheduler.ExponentialLR(o, 0.9)),
    "cosine": (9, lambda o: lr_scheduler.CosineAnnealingLR(o, 8, 0.05)),
    "warmup_cosine": (
        13,
        lambda o: lr_scheduler.SequentialLR(
            o,
            [lr_scheduler.LinearLR(o, 0.1, total_iters=4), lr_scheduler.CosineAnnealingLR(o, 8, 0.05)],
            milestones=[4],
        ),
    ),
    "one_cycle": (12, lambda o: lr_scheduler.OneCycleLR(o, LR, 12, cycle_momentum=False)),
    "one_cycle_general": (
        12,
        lambda o: lr_scheduler.OneCycleLR(
            o,
            LR,
            12,
            pct_start=0.4,
            anneal_strategy="linear",
            cycle_momentum=False,
            div_factor=10.0,
            final_div_factor=100.0,
            three_phase=True,
        ),
    ),
}


def schedule(steps, make):
    """Returns the learning rate of each of `steps` steps."""
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler = make(optimizer)
    rates = []
    for step in range(steps):
        rates.append(optimizer.param_groups[0]["lr"])
        if step + 1 < steps:
            optimizer.step()
            scheduler.step()
    return rates


METRICS = [3.0, 2.0, 2.0, 1.9999, 2.0, 2.5, 1.0, 1.0, 1.2, 1.1, 1.0, 1.3, 0.5, 0.6, 0.6, 0.6, 0.7, 0.7, 0.8]
PLATEAUS = {
    "min": {"patience": 2},
    "max": {"mode": "max", "patience": 1, "threshold": 0.2, "threshold_mode": "abs", "factor": 0.5},
    "max_relative": {"mode": "max", "patience": 1, "threshold": 0.2, "factor": 0.5},
    "cooldown": {"patience": 1, "cooldown": 2, "threshold": 0.05, "threshold_mode": "abs", "factor": 0.3, "min_lr": 0.05},
}


def plateau(settings):
    """Returns the learning rate after each measurement."""
    optimizer = optim.SGD([torch.zeros(1, requires_grad=True)], lr=LR)
    scheduler = lr_scheduler.ReduceLROnPlateau(optimizer, **settings)
    rates = []
    for metric in METRICS:
        scheduler.step(metric)
        rates.append(optimizer.param_groups[0]["lr"])
    return rates


reference = {
    "torch": torch.__version__.split("+")[0],
    "start": [plain(value) for value in START],
    "gradients": [[plain(value) for value in step] for step in GRADIENTS],
    "runs": {name: run(make) for name, make in OPTIMIZERS.items()},
    "averages": averages(),
    "schedules": {name: schedule(*case) for name, case in SCHEDULES.items()},
    "metrics": METRICS,
    "plateaus": {name: plateau(settings) for name, settings in PLATEAUS.items()},
}
# After the others, so that their random numbers do not change.
reference["averages_of_buffers"] = averages_of_buffers()
lines = json.dumps(reference, separators=(",", ":")).replace('],"', '],\n"')
(HERE / "optimizers.json").write_text(lines + "\n")
