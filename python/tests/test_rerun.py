"""Segments that are recomputed in the backward pass, and captured steps."""

import collections
import gc
import signal
import time
import weakref

import numpy
import pytest

import ternion
from ternion import nn, optim
from ternion.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self):
        self.inner, self.outer, self.dropout = nn.Linear(4, 16), nn.Linear(16, 4), nn.Dropout(0.3)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return self.dropout(self.outer(self.inner(x).relu()))


def gradients(run, block, x):
    ternion.manual_seed(3)
    block.zero_grad()
    x.grad = None
    y = run(x)
    (y * y).sum().backward()
    return [y.tolist()] + [value.grad.tolist() for value in (x, *block.parameters())]


def test_gradients_are_those_of_a_single_run():
    block, x = Block(), ternion.randn(3, 4, requires_grad=True)
    plain = gradients(block, block, x)
    assert block.calls == 1
    assert gradients(lambda x: checkpoint(block, x, use_reentrant=False), block, x) == plain
    assert block.calls == 3
    assert ternion.checkpoint is checkpoint


def test_precision_and_nothing_to_record():
    block, x = Block().eval(), ternion.randn(3, 4)
    with ternion.autocast("cpu", dtype=ternion.bfloat16):
        y = checkpoint(block, x)
        assert y.dtype is ternion.bfloat16
    y.float().sum().backward()
    assert block.inner.weight.grad.dtype is ternion.float32
    calls = block.calls
    with ternion.no_grad():
        assert not checkpoint(block, x).requires_grad and block.calls == calls + 1


Pair = collections.namedtuple("Pair", ["first", "rest"])


def test_any_form_of_arguments_and_results():
    x, y = ternion.ones(2, requires_grad=True), ternion.ones(2, requires_grad=True)

    def function(pair, number, *, named):
        assert number == 3 and isinstance(pair, tuple)
        return Pair(pair[0] * number, {"sum": [pair[1] + named["y"], "text"]})

    result = checkpoint(function, (x, ternion.ones(2)), 3, named={"y": y})
    assert isinstance(result, Pair) and result.rest["sum"][1] == "text"
    (result.first.sum() + (result.rest["sum"][0] * 5).sum()).backward()
    assert x.grad.tolist() == [3.0, 3.0] and y.grad.tolist() == [5.0, 5.0]


def test_what_cannot_run_again():
    x = ternion.ones(2, requires_grad=True)
    with pytest.raises(ValueError, match="no argument is a tensor"):
        checkpoint(lambda: x * 2)
    with pytest.raises(ValueError, match="preserve_rng_state=False"):
        checkpoint(lambda x: x, x, preserve_rng_state=False)
    with pytest.raises(KeyError, match="inside"):
        checkpoint(lambda x: {}["inside"], x)
    calls = []

    def changing(x):
        calls.append(1)
        return x.exp() if len(calls) == 1 else x.sin()

    with pytest.raises(RuntimeError, match="ran exp .* at first and sin"):
        checkpoint(changing, x).sum().backward()
    factor = ternion.ones(2)
    y = checkpoint(lambda x: x * factor, x).sum()
    factor += 1
    with pytest.raises(RuntimeError, match="changed in place after it was saved"):
        y.backward()

    def fails_later(x):
        calls.append(1)
        if calls.count(2):
            raise LookupError("the second time")
        return x * 2

    y = checkpoint(fails_later, x).sum()
    calls.append(2)
    with pytest.raises(LookupError, match="the second time"):
        y.backward()


# ---- Captured steps


def training():
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
    x, target = ternion.randn(16, 4), ternion.randint(0, 2, (16,))
    sgd = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def step():
        sgd.zero_grad()
        loss = nn.functional.cross_entropy(model(x), target)
        loss.backward()
        sgd.step()
        return loss

    return step, x, sgd


def test_a_captured_step_is_the_step():
    step, x, _ = training()
    expected = [step().item() for _ in range(5)]
    ternion.manual_seed(1)
    step, x, _ = training()
    captured = ternion.capture(step)
    actual = [captured.output.item()] + [captured.replay().item() for _ in range(3)] + [captured().item()]
    assert actual == expected and captured.is_recorded
    assert repr(captured) == "CapturedStep(training.<locals>.step, is_recorded=True)"
    x.copy_(x * 0)
    assert captured.replay().item() != actual[-1]


def test_learning_rates_go_on():
    step, _, sgd = training()
    captured = ternion.capture(step)
    sgd.param_groups[0]["lr"] = 0.0
    captured.replay()
    # Momentum has no effect either: nothing changes anymore.
    before = captured.replay().item()
    assert captured.replay().item() == before


def test_what_cannot_be_captured():
    with pytest.raises(TypeError, match="expected a function without arguments, got int"):
        ternion.capture(3)
    with pytest.raises(KeyError, match="step"):
        ternion.capture(lambda: {}["step"])
    x, rows = ternion.ones(2), ternion.tensor([0, 1])
    with pytest.raises(ValueError, match="download: the step that is being recorded waits for the device"):
        ternion.capture(lambda: x.sum().item())
    with pytest.raises(ValueError, match="address: the step that is being recorded waits for the device"):
        ternion.capture(lambda: (x + 1).numpy())
    with pytest.raises(ValueError, match="the step that is being recorded waits for the device or copies from the host"):
        ternion.capture(lambda: x * ternion.tensor([1.0, 2.0]))
    batches = iter([ternion.ones(2), ternion.zeros(2)])
    with pytest.raises(ValueError, match=r"op 0, mul of .* read a different tensor as input 1 .* copy new values into the same tensor"):
        ternion.capture(lambda: x * next(batches))
    with pytest.raises(ValueError, match="read a different tensor"):
        ternion.capture(lambda: x + ternion.from_numpy(numpy.ones(2, dtype="float32")))
    table, numbers = ternion.zeros(20, 2), iter(range(20))
    with pytest.raises(ValueError, match="accessed a different part of a tensor"):
        ternion.capture(lambda: table[next(numbers)] * x)
    step, _, sgd = training()
    schedule = optim.lr_scheduler.ExponentialLR(sgd, 0.5)
    with pytest.raises(ValueError, match=r"capture: the step changes the rates of SGD from \[0.5\] to \[0.25\], which no replay would"):
        ternion.capture(lambda: (step(), schedule.step()))
    # Everything is unchanged, and a step that can be recorded is recorded.
    captured = ternion.capture(lambda: x.index_select(0, rows) + 1)
    assert captured.output.tolist() == [2.0, 2.0]
    x.fill_(3)
    assert captured.replay().tolist() == [4.0, 4.0]
    rows.fill_(5)
    with pytest.raises(IndexError, match="index 5 is out of range for size 2"):
        captured.replay()


def test_random_numbers_go_on_where_a_step_is_recorded():
    x = ternion.ones(1000)
    ternion.manual_seed(3)
    expected = [(nn.functional.dropout(x, 0.5).sum() + ternion.rand(1)).item() for _ in range(4)]
    ternion.manual_seed(3)
    captured = ternion.capture(lambda: nn.functional.dropout(x, 0.5).sum() + ternion.rand(1))
    assert [captured.output.item()] + [captured.replay().item() for _ in range(3)] == expected and len(set(expected)) == 4
    layer, sequence = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.5, batch_first=True), ternion.randn(3, 5, 8)
    ternion.manual_seed(3)
    expected = [layer(sequence).sum().item() for _ in range(3)]
    ternion.manual_seed(3)
    captured = ternion.capture(lambda: layer(sequence).sum())
    assert [captured.output.item()] + [captured.replay().item() for _ in range(2)] == expected and len(set(expected)) == 3


def test_a_step_calls_python_twice_and_never_again():
    calls = []
    captured = ternion.capture(lambda: calls.append(len(calls)))
    captured.replay()
    assert calls == [0, 1] and captured.output is None


@pytest.fixture
def cuda():
    try:
        return ternion.device("cuda")
    except RuntimeError:
        pytest.skip("no CUDA device")


def test_a_step_is_recorded_on_cuda(cuda):
    ternion.set_default_device("cuda")
    try:
        step, _, _ = training()
        expected = [step().item() for _ in range(6)]
        ternion.manual_seed(1)
        step, _, sgd = training()
        captured = ternion.capture(step)
        assert captured.is_recorded
        # The first run is a step, but the recording is not.
        actual = [captured.replay().item() for _ in range(5)]
        assert actual == pytest.approx(expected[1:], rel=1e-5)
        sgd.param_groups[0]["lr"] = 0.0
        captured.replay()
        assert captured.replay().item() == captured.replay().item()
        x = ternion.ones(2)
        with pytest.raises(ValueError, match="capture|recorded"):
            ternion.capture(lambda: x.sum().item())
        assert (x + 1).tolist() == [2.0, 2.0]
    finally:
        ternion.set_default_device("cpu")


def test_a_function_that_reaches_the_output_of_its_checkpoint_is_collected():
    x = ternion.randn(3, requires_grad=True)

    class Marker:
        pass

    def segment_with_output():
        marker = Marker()

        def function(value):
            assert marker is not None and len(outputs) < 2
            return value.exp()

        outputs = []
        outputs.append(ternion.checkpoint(function, x))
        return weakref.ref(marker), outputs

    marker, outputs = segment_with_output()
    gc.collect()
    # The output is in use, and so is the function that computes its gradient.
    outputs[0].sum().backward()
    assert x.grad.tolist() == pytest.approx(x.exp().tolist())
    marker, outputs = segment_with_output()
    loss = outputs[0].sum()
    del outputs
    gc.collect()
    # Only unused objects are collected: the loss still needs the function.
    assert marker() is not None
    loss.backward()
    marker, outputs = segment_with_output()
    del outputs
    gc.collect()
    assert marker() is None


def test_an_interrupt_ends_a_replay_between_two_ops():
    x, finished = ternion.ones(300, 300) / 300, ternion.zeros(())

    def step():
        y = x
        for _ in range(300):
            y = y @ x
        finished.add_(1)
        return y

    captured = ternion.capture(step, "cpu")
    begun = time.perf_counter()
    for _ in range(4):
        captured.replay()
    pause = (time.perf_counter() - begun) / 8

    class Alarm(Exception):
        pass

    def ring(*_):
        raise Alarm

    before = signal.signal(signal.SIGALRM, ring)
    try:
        # An alarm may come too late, between two replays. Then the test tries again.
        for _ in range(50):
            count = finished.item()
            signal.setitimer(signal.ITIMER_REAL, pause)
            with pytest.raises(Alarm):
                while True:
                    captured.replay()
                    count += 1
            if finished.item() == count:
                break
        else:
            pytest.fail("no alarm ended a replay before its last op")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert captured.replay().sum().item() == pytest.approx(300, rel=1e-3)
