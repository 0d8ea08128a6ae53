"""Statistics, the monitor of training runs, and ops that are compared with another device."""

import json
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
    result = ternion.stats(x)
    finite = np.array([1.0, -2.0, 0.0, 4.0])
    assert (result.elements, result.nan, result.infinite, result.zeros) == (6, 1, 1, 1)
    assert (result.nan_fraction, result.infinite_fraction, result.zero_fraction) == (1 / 6, 1 / 6, 1 / 6)
    assert result.mean == finite.mean() and result.min == -2 and result.max == 4 and result.has_non_finite
    assert math.isclose(result.std, finite.std()) and math.isclose(result.rms, math.sqrt((finite**2).mean()))
    assert repr(result) == "Stats(elements=6, mean=0.75, std=2.1651, min=-2, max=4, nan=1, infinite=1, zeros=1)"
    assert str(result) == "mean 0.75, std 2.1651, min -2, max 4, nan 1, inf 1, zero 1 of 6"
    assert ternion.stats(x) != ternion.stats(x * 2)


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_statistics_of_every_dtype(dtype):
    result = ternion.stats(ternion.tensor([0, 1, 1, 0]).to(getattr(ternion, dtype)))
    assert (result.mean, result.std, result.zeros) == (0.5, 0.5, 2) and result == ternion.stats(ternion.tensor([0.0, 1.0, 1.0, 0.0]))


def test_statistics_of_nothing_and_of_other_things():
    result = ternion.stats(ternion.zeros(0))
    assert math.isnan(result.mean) and result.elements == 0 and result.zero_fraction == 0 and repr(result) == "Stats(elements=0)" and str(result) == "no elements"
    with pytest.raises(TypeError, match="stats: expected a tensor, got builtins.list: ternion.as_tensor"):
        ternion.stats([1.0])


def test_statistics_on_another_device():
    x = ternion.randn(1000)
    cpu_stats, device_stats = ternion.stats(x), ternion.stats(x.to(other_device()))
    assert math.isclose(cpu_stats.mean, device_stats.mean, abs_tol=1e-6) and math.isclose(cpu_stats.std, device_stats.std, rel_tol=1e-5)
    assert (cpu_stats.min, cpu_stats.max, cpu_stats.zeros) == (device_stats.min, device_stats.max, device_stats.zeros)


# ---- The monitor


def trained(model, steps, every=1, rate=0.01, **options):
    """Returns the reports of a training run."""
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
    result = warned(model, 1, rate=1e-12)["ExplodingOutputs"]
    assert result.layer == "2" and result.since == 0 and "outputs explode from layer to layer" in str(result)


def test_vanishing_gradients():
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(8, 8), nn.Sigmoid())])
    result = warned(model, 1)["VanishingGradients"]
    assert result.layer == "0" and "gradients vanish in the backward pass" in result.message


def test_dead_layers():
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[0].bias.fill_(-1e3)
    result = warned(model, 1)["DeadReLU"]
    assert result.layer == "1" and "all its outputs are 0" in result.message


def test_numbers_that_are_none_and_steps_that_are_too_large():
    model = mlp(8, 16, 4)
    assert "divide the learning rate" in warned(model, 1, rate=1e4)["LargeUpdates"].message
    with ternion.no_grad():
        model[0].weight[0, 0] = float("nan")
    result = warned(model, 1)["NotFinite"]
    assert result.layer == "0" and "0.weight holds such numbers already" in result.message


class Branches(nn.Module):
    def __init__(self):
        self.used, self.unused = nn.Linear(8, 8), nn.Linear(8, 8)

    def forward(self, x):
        return self.used(x)


def test_a_layer_that_is_not_used_is_reported():
    result = warned(Branches(), 1, every=1)
    assert result["MissingGradient"].layer == "unused" and "unused.weight and unused.bias" in result["MissingGradient"].message


def test_monitors_that_cannot_be():
    with pytest.raises(TypeError, match="StatsMonitor: int, expected a module"):
        nn.utils.StatsMonitor(3)
    model = mlp(8, 4)
    for options, message in [({"every": 0}, "every 0 steps"), ({"patience": 0}, "patience 0"), ({"growth": 0.5}, "growth 0.5"), ({"dead_fraction": 2.0}, "dead_fraction 2")]:
        with pytest.raises(ValueError, match=message):
            nn.utils.StatsMonitor(model, **options)
    monitor = nn.utils.StatsMonitor(model)
    assert monitor.report() is None
    with pytest.raises(ZeroDivisionError), monitor.watch(0):
        model(ternion.ones(2, 8))
        raise ZeroDivisionError
    model(ternion.ones(2, 8))  # No monitor is active anymore.

    def fails():
        raise KeyError("step")

    with pytest.raises(KeyError, match="step"):
        monitor.step(fails)


# ---- Summaries and timelines


def test_a_summary_counts_and_leaves_the_model_as_it_was():
    class Model(nn.Module):
        def __init__(self):
            self.used, self.unused, self.norm, self.dropout = nn.Linear(8, 16), nn.Linear(8, 8), nn.BatchNorm1d(16), nn.Dropout()

        def forward(self, x):
            return self.dropout(self.norm(self.used(x)))

    model, x = Model(), ternion.randn(4, 8)
    model.dropout.eval()
    before = {key: value.tolist() for key, value in model.state_dict().items()}
    drawn = ternion.get_rng_state()
    result = nn.summary(model, x, backward=True)
    assert ternion.get_rng_state() == drawn and {key: value.tolist() for key, value in model.state_dict().items()} == before
    assert model.training and not model.dropout.training and model.used.weight.grad is None
    rows = [(layer.key, layer.kind, layer.calls, layer.output, layer.parameters) for layer in result.layers]
    assert rows == [
        ("", "Model", 1, [4, 16], 0), ("used", "Linear", 1, [4, 16], 144), ("norm", "BatchNorm1d", 1, [4, 16], 32),
        ("dropout", "Dropout", 1, [4, 16], 0), ("unused", "Linear", 0, None, 72),
    ]  # fmt: skip
    assert result.parameters == result.trained_parameters == 248 and result.parameter_bytes == 4 * 248
    # Mean and variance, and the count of batches.
    assert result.state_bytes == 2 * 16 * 4 + 8
    assert result.layers[1].flops == 2 * 4 * 8 * 16 + 4 * 16 and result.flops > result.layers[1].flops and result.backward_flops > 0
    assert "used     Linear" in str(result) and str(result) == repr(result)


def test_a_summary_of_a_shape_and_of_several_inputs():
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.Linear(4 * 26 * 26, 10))
    result = nn.summary(model, (2, 1, 28, 28))
    assert [layer.output for layer in result.layers] == [[2, 10], [2, 4, 26, 26], [2, 4 * 26 * 26], [2, 10]] and result.backward_flops is None
    attention = nn.summary(nn.MultiheadAttention(8, 2), (ternion.randn(5, 3, 8),) * 3)
    assert attention.layers[0].output == [5, 3, 8]
    model[0].weight.requires_grad_(False)
    assert nn.summary(model, [2, 1, 28, 28]).trained_parameters == result.parameters - 36


def test_summaries_that_cannot_be():
    model = nn.Linear(3, 2)
    for arguments, kind, message in [
        ((nn.Linear, (1, 3)), TypeError, "the class Linear, expected a module"),
        ((model, "x"), TypeError, "an input of str, expected a tensor"),
        ((nn.ReLU(), (1, 3)), ValueError, "ReLU has no parameter that shows where it computes"),
        ((model, (1, 4)), ValueError, "inner sizes 4 and 3 differ"),
    ]:
        with pytest.raises(kind, match=message):
            nn.summary(*arguments)

    class Fails(nn.Module):
        def __init__(self):
            self.norm = nn.BatchNorm1d(2)

        def forward(self, x):
            self.norm(x)
            raise KeyError("inside")

    model = Fails()
    with pytest.raises(KeyError, match="inside"):
        nn.summary(model, ternion.randn(3, 2), backward=True)
    assert model.norm.running_mean.tolist() == [0, 0] and model.training
    with pytest.raises(RuntimeError, match="the model gave no tensor"):
        nn.summary(type("Nothing", (nn.Module,), {"forward": lambda self, x: None})(), ternion.ones(1))


def test_a_timeline(tmp_path):
    model = mlp(8, 4)
    adam = optim.AdamW(model.parameters())

    def step():
        for _ in range(3):
            adam.zero_grad()
            model(ternion.ones(2, 8)).sum().backward()
            adam.step()

    timeline = nn.trace(model, step)
    totals = {label: (count, total, own) for label, count, total, own in timeline.totals()}
    assert totals["0 (Linear)"][0] == totals["backward"][0] == totals["adamw"][0] == 3
    assert all(0 <= own <= total for _, total, own in totals.values()) and totals["0 (Linear)"][2] < totals["0 (Linear)"][1]
    assert "0 (Linear)" in str(timeline) and len(timeline) == sum(count for count, _, _ in totals.values())
    timeline.write_chrome(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert [event["ph"] for event in events].count("B") == len(timeline)
    with pytest.raises(OSError, match="cannot be written"):
        timeline.write_chrome(tmp_path / "no folder" / "trace.json")
    with pytest.raises(ZeroDivisionError):
        nn.trace(model, lambda: 1 / 0)
    with pytest.raises(TypeError, match="Linear and int, expected a module and a function"):
        nn.trace(nn.Linear(1, 1), 3)


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
    """With a factor of 0, no difference is allowed, not even in rounding: some sines of another
    device differ by one ulp."""
    device = other_device()
    x = ternion.linspace(0.1, 9.0, 4096).reshape(64, 64).to(device)
    if (x.sin().cpu() == x.cpu().sin()).all():
        pytest.skip("this device rounds as the CPU does")
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
    # Invalid arguments are reported where they are passed, not where the scope begins.
    for factor in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match=f"check: factor {factor}, expected a finite number"):
            ternion.check("cpu", factor=factor)
    with pytest.raises(TypeError, match="check: factor of type str"):
        ternion.check("cpu", factor="1")
    with pytest.raises(RuntimeError, match="device nowhere: no such device"):
        ternion.check("nowhere")
    with pytest.raises(TypeError, match="expected a ternion.device or its name"):
        ternion.check(None)
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


# ---- The monitor with checkpoints and with parts that are not trained, and its messages


class Segment(nn.Module):
    """A block between two layers, called directly or as a checkpoint."""

    def __init__(self, block, is_checkpoint):
        self.first, self.block, self.last, self.is_checkpoint = nn.Linear(8, 16), block, nn.Linear(16, 4), is_checkpoint

    def forward(self, x):
        x = self.first(x)
        return self.last(ternion.checkpoint(self.block, x) if self.is_checkpoint else self.block(x))


class Recurrent(nn.Module):
    def __init__(self):
        self.lstm = nn.LSTM(16, 16, batch_first=True)

    def forward(self, x):
        return self.lstm(x)[0]


BLOCKS = {
    "linear": lambda: nn.Sequential(nn.ReLU(), nn.Linear(16, 16), nn.ReLU()),
    "relu": lambda: nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)),
    "sigmoid": lambda: nn.Sequential(nn.Linear(16, 16), nn.Sigmoid(), nn.Linear(16, 16)),
    "dropout": lambda: nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.1)),
    "layer norm": lambda: nn.LayerNorm(16),
    "encoder": lambda: nn.TransformerEncoderLayer(16, 2, 32, batch_first=True),
    "lstm": Recurrent,
}


@pytest.mark.parametrize("precision", [None, ternion.bfloat16])
@pytest.mark.parametrize("backward_is_watched", [False, True])
@pytest.mark.parametrize("block", BLOCKS)
def test_a_checkpoint_is_watched_as_what_it_computes(block, backward_is_watched, precision):
    """The monitor's computations are not part of the segment: the weights are those of training
    without it."""

    def training(is_checkpoint, is_watched):
        ternion.manual_seed(3)
        model, x, messages = Segment(BLOCKS[block](), is_checkpoint), ternion.randn(4, 5, 8), []
        monitor, sgd = nn.utils.StatsMonitor(model, every=2 if is_watched else 1000), optim.SGD(model.parameters(), lr=0.01)
        for step in range(1, 4):
            sgd.zero_grad()
            with monitor.watch(step), ternion.autocast("cpu", dtype=precision or ternion.float32):
                loss = model(x).square().mean()
                if backward_is_watched:
                    loss.backward()
            if not backward_is_watched:
                loss.backward()
            report = monitor.step(sgd)
            messages += [str(warning) for warning in (report.warnings if report else [])]
        assert messages == []
        return ternion.cat([parameter.detach().flatten() for parameter in model.parameters()])

    expected = training(True, False)
    assert ternion.equal(training(True, True), expected) and ternion.equal(training(False, True), expected)


def test_a_recorded_step_may_have_a_monitor():
    """The first run is monitored, and the recording contains only the program's ops."""
    model, x, reports = mlp(8, 16, 4), ternion.randn(6, 8), []
    monitor, sgd = nn.utils.StatsMonitor(model, every=1), optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        sgd.zero_grad()
        with monitor.watch(0):
            loss = model(x).square().mean()
        loss.backward()
        reports.append(monitor.step(sgd))
        return loss

    captured = ternion.capture(step, x.device)
    losses = [captured.output.item(), *(captured.replay().item() for _ in range(3))]
    assert losses == sorted(losses, reverse=True) and losses[0] > losses[-1]
    assert len(reports) == 2 and reports[0].step == 0 and reports[1] is None


class Features(nn.Module):
    """A part that is used but not trained, and a head that is trained."""

    def __init__(self, way):
        self.backbone, self.head, self.way = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.TransformerEncoderLayer(8, 2, 8, batch_first=True)), nn.Linear(8, 4), way

    def forward(self, x):
        if self.way == "no_grad":
            with ternion.no_grad():
                features = self.backbone(x)
        else:
            features = self.backbone(x).detach()
        return self.head(features)


def missing(model, parameters):
    monitor, sgd, result = nn.utils.StatsMonitor(model, every=1), optim.SGD(list(parameters), lr=0.01), set()
    for step in range(3):
        sgd.zero_grad()
        with monitor.watch(step):
            loss = model(ternion.randn(4, 3, 8)).square().mean()
        loss.backward()
        result |= {warning.layer for warning in monitor.step(sgd).all_warnings if warning.fault == "MissingGradient"}
    return result


@pytest.mark.parametrize("way", ["no_grad", "detach"])
def test_a_part_that_no_optimizer_has_needs_no_gradient(way):
    model = Features(way)
    assert missing(model, model.head.parameters()) == set()


@pytest.mark.parametrize("way", ["no_grad", "detach"])
@pytest.mark.filterwarnings("ignore:no gradient for")
def test_a_part_that_an_optimizer_has_needs_one(way):
    model = Features(way)
    result = missing(model, model.parameters())
    assert {"backbone.0", "backbone.2.linear1"} <= result and "head" not in result


def test_the_monitor_names_functions_of_neither_language():
    """The recommended functions have different names in Rust and in Python."""
    model = mlp(8, 8, 4)
    with ternion.no_grad():
        model[0].weight.fill_(0.5)
    messages = [str(warning) for report in trained(model, 1) for warning in report.all_warnings]
    model = mlp(*[8] * 12)
    with ternion.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.weight.mul_(6.0)
    reports = trained(model, 8, rate=1e4)
    messages += [str(warning) for report in reports for warning in report.all_warnings] + [str(report) for report in reports]
    text = "\n".join(messages)
    for words in ("Kaiming's or Xavier's", "gradients by their norm"):
        assert words in text, text
    # Names of neither language: the sentences are the same in both.
    assert "::" not in text and "clip_grad_norm" not in text and "nn.init" not in text
    with pytest.raises(ValueError, match="^StatsMonitor: every 0 steps"):
        nn.utils.StatsMonitor(model, every=0)


@pytest.mark.parametrize("optimizer", [optim.SGD, optim.Adam, optim.AdamW])
def test_two_parameters_on_one_memory(optimizer):
    """As in PyTorch, each parameter updates the memory, one after the other. The warning explains
    how to make them one parameter."""

    def training(strict):
        first, second = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        second.weight = nn.Parameter(first.weight)
        before = first.weight.detach().clone()
        created = optimizer([*first.parameters(), *second.parameters()], lr=0.1, strict=strict)
        second(first(ternion.ones(2, 3))).sum().backward()
        grads = [first.weight.grad.clone(), second.weight.grad.clone()]
        created.step()
        return before, first.weight, second.weight, grads

    with pytest.warns(UserWarning, match="weight of Linear 'first' and weight of Linear 'second' are two parameters on one memory.*decoder.weight = encoder.weight"):
        before, one, other, grads = training(False)
    assert ternion.equal(one, other)
    expected = before.clone().requires_grad_()
    # Each has separate moments.
    for grad in grads:
        separate = optimizer([expected], lr=0.1)
        expected.grad = grad
        separate.step()
    np.testing.assert_allclose(one.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match="two parameters on one memory.*an error, as the optimizer is strict"):
        training(True)
    # Disjoint parts of the same memory are not reported.
    flat = ternion.zeros(6)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        parts = [nn.Parameter(flat[:3]), nn.Parameter(flat[3:])]
        created = optimizer(parts, lr=0.1, strict=True)
        sum(part.sum() for part in parts).backward()
        created.step()


# ---- One-hot labels


ONE_HOT = ternion.eye(4)[ternion.tensor([0, 2, 1])]


@pytest.mark.parametrize("loss", ["cross_entropy", "nll_loss", "multi_margin_loss"])
@pytest.mark.parametrize("dtype", [ternion.int64, ternion.int32, ternion.uint8, ternion.bool, ternion.float32])
def test_one_hot_labels_are_reported(loss, dtype):
    function, input = getattr(nn.functional, loss), ternion.randn(3, 4).log_softmax(1)
    target = ONE_HOT.to(dtype)
    if loss == "cross_entropy" and dtype == ternion.float32:
        assert math.isclose(function(input, target).item(), function(input, target.argmax(1)).item(), rel_tol=1e-6)
        return
    with pytest.raises((ValueError, TypeError), match=rf"^{loss}: target is {dtype} of the input's shape .*as one-hot labels are: target.argmax\(1\) makes class indices") as caught:
        function(input, target)
    assert ("target.float() probabilities" in str(caught.value)) == (loss == "cross_entropy")
    # The advice is correct.
    assert function(input, target.long().argmax(1)).isfinite()


def test_one_hot_labels_of_images_and_of_other_dtypes():
    images = ternion.zeros(2, 4, 3, 3, dtype=ternion.int64)
    images[:, 1] = 1
    with pytest.raises(ValueError, match="one-hot"):
        nn.functional.cross_entropy(ternion.randn(2, 4, 3, 3), images)
    with pytest.raises(ValueError, match=r"target.double\(\) probabilities"):
        nn.CrossEntropyLoss()(ternion.randn(3, 4).double(), ONE_HOT.long())
    # Other integers of the input's shape are reported as a shape that does not fit.
    with pytest.raises(ValueError) as caught:
        nn.functional.cross_entropy(ternion.randn(3, 4), ternion.ones(3, 4, dtype=ternion.int64))
    assert "one-hot" not in str(caught.value)
