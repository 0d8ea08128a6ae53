"""Statistics, the monitor of a training, and ops that are compared with another device."""

import math
import threading
import warnings

import numpy as np
import pytest

import ternion
from devices import other_device
from ternion import nn, optim

# ---- Statistics


def test_statistics():
    x = ternion.tensor([[1.0, -2.0, 0.0], [float("nan"), float("inf"), 4.0]])
    found = ternion.stats(x)
    finite = np.array([1.0, -2.0, 0.0, 4.0])
    assert (found.elements, found.nan, found.infinite, found.zeros) == (6, 1, 1, 1)
    assert (found.nan_share, found.infinite_share, found.zero_share) == (1 / 6, 1 / 6, 1 / 6)
    assert found.mean == finite.mean() and found.min == -2 and found.max == 4 and found.is_broken
    assert math.isclose(found.std, finite.std()) and math.isclose(found.rms, math.sqrt((finite**2).mean()))
    assert repr(found) == "Stats(mean 7.5000e-1 std 2.1651e0 min -2.0000e0 max 4.0000e0 nan 1 inf 1 zero 1 of 6)"
    assert ternion.stats(x) != ternion.stats(x * 2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_statistics_of_every_dtype(dtype):
    found = ternion.stats(ternion.tensor([0, 1, 1, 0]).to(getattr(ternion, dtype)))
    assert (found.mean, found.std, found.zeros) == (0.5, 0.5, 2) and found == ternion.stats(ternion.tensor([0.0, 1.0, 1.0, 0.0]))


def test_statistics_of_nothing_and_of_other_things():
    found = ternion.stats(ternion.zeros(0))
    assert math.isnan(found.mean) and found.elements == 0 and found.zero_share == 0
    with pytest.raises(TypeError):
        ternion.stats([1.0])


def test_statistics_on_another_device():
    x = ternion.randn(1000)
    here, there = ternion.stats(x), ternion.stats(x.to(other_device()))
    assert math.isclose(here.mean, there.mean, abs_tol=1e-6) and math.isclose(here.std, there.std, rel_tol=1e-5)
    assert (here.min, here.max, here.zeros) == (there.min, there.max, there.zeros)


# ---- The monitor


def trained(model, steps, every=1, rate=0.01, **options):
    """The reports of a training."""
    monitor = nn.utils.StatsMonitor(model, every=every, **options)
    sgd = optim.SGD(model.parameters(), lr=rate)
    x, reports = ternion.randn(16, 8), []
    for step in range(steps):
        sgd.zero_grad()
        with monitor.watch(step):
            loss = model(x).square().mean()
        loss.backward()
        reports.append(monitor.step(sgd))
    return reports


def mlp(*widths):
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), nn.ReLU())]
    return nn.Sequential(*layers[:-1])


def test_a_healthy_training_is_watched_every_so_often():
    model = mlp(8, 16, 16, 4)
    reports = trained(model, 7, every=3)
    assert [report is not None for report in reports] == [True, False, False, True, False, False, True]
    report = reports[3]
    assert report.step == 3 and report.warnings == [] and str(report).endswith("no warnings")
    names = [layer.name for layer in report.layers]
    assert names == ["input", "0", "1", "2", "3", "4", "Sequential"]
    assert [layer.kind for layer in report.layers][:3] == ["input", "Linear", "ReLU"]
    assert [weight.name for weight in report.weights] == [name for name, _ in model.named_parameters()]
    weight = report.weights[0]
    assert 0 < weight.update < 0.1 and weight.gradient.elements == 128 and not weight.is_frozen
    assert report.layers[1].output.elements == 16 * 16 and report.layers[1].gradient.elements == 16 * 16


def warned(model, *arguments, **options):
    return {warning.fault: warning for report in trained(model, *arguments, **options) for warning in report.all_warnings}


def test_exploding_outputs():
    model = mlp(8, 16, 16, 4)
    with ternion.no_grad():
        model[2].weight.mul_(1e6)
    found = warned(model, 1, rate=1e-12)["ExplodingOutputs"]
    assert found.layer == "2" and found.since == 0 and "outputs explode from layer to layer" in str(found)


def test_vanishing_gradients():
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(8, 8), nn.Sigmoid())])
    found = warned(model, 1)["VanishingGradients"]
    assert found.layer == "0" and "gradients vanish on their way back" in found.text


def test_dead_layers():
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[0].bias.fill_(-1e3)
    found = warned(model, 1)["DeadReLU"]
    assert found.layer == "1" and "all its outputs are 0" in found.text


def test_numbers_that_are_none_and_steps_that_are_too_large():
    model = mlp(8, 16, 4)
    assert "divide the learning rate" in warned(model, 1, rate=1e4)["LargeUpdates"].text
    with ternion.no_grad():
        model[0].weight[0, 0] = float("nan")
    found = warned(model, 1)["NotFinite"]
    assert found.layer == "0" and "0.weight holds such numbers already" in found.text


class Branches(nn.Module):
    def __init__(self):
        self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.used(x)


def test_a_layer_that_is_not_used_is_told():
    found = warned(Branches(), 1, every=1)
    assert found["MissingGradient"].layer == "unused" and "unused.weight and unused.bias" in found["MissingGradient"].text


def test_monitors_that_cannot_be():
    model = mlp(8, 4)
    for options, told in [({"every": 0}, "every 0 steps"), ({"patience": 0}, "patience 0"), ({"growth": 0.5}, "growth 0.5"), ({"dead_share": 2.0}, "dead_share 2")]:
        with pytest.raises(ValueError, match=told):
            nn.utils.StatsMonitor(model, **options)
    monitor = nn.utils.StatsMonitor(model)
    assert monitor.report() is None
    with pytest.raises(ZeroDivisionError), monitor.watch(0):
        model(ternion.ones(2, 8))
        raise ZeroDivisionError
    model(ternion.ones(2, 8))  # Nobody watches any more.

    def fails():
        raise KeyError("step")

    with pytest.raises(KeyError, match="step"):
        monitor.step(fails)


# ---- Ops compared with another device


def test_a_right_device_passes():
    device = other_device()
    model, x = mlp(8, 16, 4).to(device), ternion.randn(4, 8, device=device)
    adam = optim.AdamW(model.parameters())
    with ternion.check("cpu") as check:
        loss = nn.functional.cross_entropy(model(x), ternion.tensor([0, 1, 2, 3], device=device))
        loss.backward()
        adam.step()
        y = ternion.zeros(3, 4, device=device)
        y.copy_(x[0, :4])
        y[0, 1:] += 1
    assert check.compared > 20 and check.differences == []
    with ternion.no_grad(), ternion.check("cpu") as check:
        model(x)
    assert check.compared > 2


def test_a_difference_is_an_error_or_is_collected():
    """With no difference allowed at all, even another rounding is one: of the sines of another processor, some are off by a unit."""
    device = other_device()
    x = ternion.linspace(0.1, 9.0, 4096).reshape(64, 64).to(device)
    if (x.sin().cpu() == x.cpu().sin()).all():
        pytest.skip("this device rounds as the processor does")
    with pytest.raises(RuntimeError, match=r"sin: \S+ and cpu differ: output 0 from \[64, 64\] float32: \d+ of 4096 elements .* first at \[\d+, \d+\]: got \S+, want"):
        with ternion.check("cpu", factor=0.0):
            x.sin()
    with ternion.check("cpu", raise_exception=False, factor=0.0) as check:
        y = x.sin()
        y = y + 0.0
    assert check.compared == 2 and len(check.differences) == 1 and check.differences[0].startswith("sin: ")
    assert (y == x.sin()).all()


def test_a_check_that_compares_nothing_warns():
    with pytest.warns(UserWarning, match="no op was compared"), ternion.check("cpu") as check:
        ternion.ones(2) + 1
    assert check.compared == 0
    with pytest.raises(ValueError, match="factor -1"):
        ternion.check("cpu", factor=-1.0).__enter__()
    with pytest.raises(RuntimeError, match="nowhere"):
        ternion.check("nowhere").__enter__()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(KeyError), ternion.check("cpu"):
            raise KeyError


def test_a_check_is_of_one_thread():
    device = other_device()
    x = ternion.ones(4, device=device)
    with ternion.check("cpu") as check:
        thread = threading.Thread(target=lambda: x * 2)
        thread.start()
        thread.join()
        x + 1
    assert check.compared == 1
