"""Custom optimizers and schedules, written as for PyTorch: the same numbers, states and hooks."""

import copy
import io
import pickle

import pytest

import ternion
from ternion import nn, optim, train
from ternion.optim.lr_scheduler import LRScheduler


def momentum_of(module, base):
    """The same source for either framework."""

    class Momentum(base):
        def __init__(self, params, lr=0.1, momentum=0.9, label="a text"):
            super().__init__(params, dict(lr=lr, momentum=momentum, label=label))

        @module.no_grad()
        def step(self, closure=None):
            loss = None
            if closure is not None:
                with module.enable_grad():
                    loss = closure()
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is None:
                        continue
                    state = self.state[parameter]
                    if not state:
                        state["step"], state["velocity"] = 0, module.zeros_like(parameter)
                    state["step"] += 1
                    state["velocity"].mul_(group["momentum"]).add_(parameter.grad)
                    parameter.add_(state["velocity"], alpha=-group["lr"])
            return loss

    return Momentum


Momentum = momentum_of(ternion, optim.Optimizer)
# The name by which pickle finds the class.
Momentum.__qualname__ = "Momentum"


class Halved(LRScheduler):
    def get_lr(self):
        return [rate * 0.5**self.last_epoch for rate in self.base_lrs]


def falling_of(base):
    class Falling(base):
        def __init__(self, optimizer, gamma=0.9, last_epoch=-1):
            self.gamma = gamma
            super().__init__(optimizer, last_epoch)

        def get_lr(self):
            if not self._get_lr_called_within_step:
                raise AssertionError("called by hand")
            rates = [group["lr"] for group in self.optimizer.param_groups]
            return rates if self._step_count == 1 else [rate * self.gamma for rate in rates]

    return Falling


def trained(module, steps=5):
    """Returns weights, rates, state and hook calls after some steps with two parameter groups."""
    weights = [
        module.nn.Parameter(module.tensor(values, dtype=module.float64)) for values in ([[0.5, -1.0, 2.0], [1.0, 0.0, -1.0]], [1.0, 2.0])
    ]
    optimizer = momentum_of(module, module.optim.Optimizer)([{"params": weights[:1], "lr": 0.05}, {"params": weights[1:], "extra": 3}])
    schedule = falling_of(module.optim.lr_scheduler.LRScheduler)(optimizer)
    calls, rates = [], []
    optimizer.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))

    def closure():
        optimizer.zero_grad()
        loss = (weights[0].sum(1) * weights[1]).square().sum()
        loss.backward()
        return loss

    for _ in range(steps):
        loss = optimizer.step(closure)
        schedule.step()
        rates.append(schedule.get_last_lr())
    return optimizer, schedule, [weight.tolist() for weight in weights], rates, calls, loss.item()


def test_steps_are_pytorchs():
    torch = pytest.importorskip("torch")
    actual, expected = trained(ternion), trained(torch)
    for ours, theirs in zip(actual[2], expected[2]):
        assert sum(map(abs, _flat(ours))) > 0 and _flat(ours) == pytest.approx(_flat(theirs), rel=1e-14)
    assert actual[3] == expected[3] and actual[4] == expected[4] == ["before", "after"] * 5
    assert actual[5] == pytest.approx(expected[5], rel=1e-13)
    state, theirs = actual[0].state_dict(), expected[0].state_dict()
    assert state["param_groups"] == theirs["param_groups"]
    assert [each["step"] for each in state["state"].values()] == [5, 5]
    assert state["state"][1]["velocity"].tolist() == pytest.approx(theirs["state"][1]["velocity"].tolist(), rel=1e-13)


def _flat(values):
    return [number for value in values for number in _flat(value)] if isinstance(values, list) else [values]


class TestOptimizers:
    def stepped(self, steps=3):
        parameter = nn.Parameter(ternion.ones(2))
        optimizer = Momentum([("weight", parameter)], lr=0.1)
        for _ in range(steps):
            parameter.grad = ternion.ones(2)
            optimizer.step()
        return parameter, optimizer

    def test_state_is_kept_in_a_file(self):
        parameter, optimizer = self.stepped()
        file = io.BytesIO()
        ternion.save({"optimizer": optimizer.state_dict()}, file)
        file.seek(0)
        other = nn.Parameter(parameter.detach().clone().double())
        resumed = Momentum([other], lr=7.0)
        resumed.load_state_dict(ternion.load(file)["optimizer"])
        assert resumed.param_groups[0]["lr"] == 0.1 and resumed.state[other]["step"] == 3
        assert resumed.state[other]["velocity"].dtype is ternion.float64
        for each, steps in ((parameter, optimizer), (other, resumed)):
            each.grad = ternion.ones(2, dtype=each.dtype)
            steps.step()
        assert other.tolist() == pytest.approx(parameter.tolist(), rel=1e-6)

    def test_loading_copies(self):
        parameter, optimizer = self.stepped()
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        parameter.grad = ternion.ones(2)
        optimizer.step()
        assert state["state"][0]["step"] == 3 and optimizer.state[parameter]["step"] == 4

    @pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
    def test_copies(self, copied):
        optimizer = copied(self.stepped()[1])
        (parameter,) = optimizer.param_groups[0]["params"]
        assert optimizer.state[parameter]["step"] == 3
        parameter.grad = ternion.ones(2)
        optimizer.step()
        assert optimizer.state[parameter]["step"] == 4

    def test_what_is_rejected(self):
        parameter, optimizer = self.stepped()
        with pytest.raises(NotImplementedError, match=r"Optimizer has no step\(\)"):
            optim.Optimizer([parameter], {}).step()
        with pytest.raises(TypeError, match="Momentum: a state of type int, expected what state_dict"):
            optimizer.load_state_dict(3)
        with pytest.raises(ValueError, match="Momentum: a state without param_groups"):
            optimizer.load_state_dict({"state": {}})
        with pytest.raises(ValueError, match=r"Momentum: a state of groups of \[2\] parameters, expected \[1\]"):
            optimizer.load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]})
        with pytest.raises(TypeError, match="Optimizer: defaults of type float, expected a dict"):
            optim.Optimizer([parameter], 0.1)
        with pytest.raises(ValueError, match="Momentum: no parameters"):
            Momentum([])
        with pytest.raises(TypeError, match="optimizer o: Momentum has its own step, expected one of ternion.optim"):
            train.TrainingState().optimizer("o", optimizer)

    def test_with_a_scaler(self):
        parameter, optimizer = self.stepped(0)
        scaler = ternion.amp.GradScaler(init_scale=4.0)
        scaler.scale((parameter * 2).sum()).backward()
        scaler.step(optimizer)
        assert parameter.tolist() == pytest.approx([0.8, 0.8])

    def test_a_recorded_step_keeps_its_rate(self):
        _, optimizer = self.stepped()
        optimizer._apply_rates()
        optimizer.param_groups[0]["lr"] = 0.2
        with pytest.raises(RuntimeError, match=r"rates \[0.2\], but the step was recorded with \[0.1\]"):
            optimizer._apply_rates()


class TestSchedules:
    def sgd(self):
        return optim.SGD([nn.Parameter(ternion.zeros(1))], lr=0.8)

    def test_of_the_epoch(self):
        sgd = self.sgd()
        schedule = Halved(sgd)
        assert schedule.get_last_lr() == [0.8]
        schedule.step()
        assert sgd.param_groups[0]["lr"] == 0.4 and schedule.get_lr() == [0.4]
        schedule.step(3)
        assert schedule.get_last_lr() == [0.1] and schedule.last_epoch == 3

    def test_states(self):
        sgd = self.sgd()
        schedule = falling_of(LRScheduler)(sgd, 0.5)
        schedule.step()
        other = falling_of(LRScheduler)(sgd, 0.1)
        sgd.param_groups[0]["lr"] = 0.4
        other.load_state_dict(schedule.state_dict())
        # The optimizer stores the rate: loading the schedule does not reduce it.
        assert other.gamma == 0.5 and other.last_epoch == 1 and sgd.param_groups[0]["lr"] == 0.4

    def test_within_others(self):
        sgd = self.sgd()
        both = optim.SequentialLR(sgd, [optim.ConstantLR(sgd, 0.5, 2), Halved(sgd)], milestones=[2])
        rates = []
        for _ in range(4):
            rates.append(both.get_last_lr()[0])
            both.step()
        assert rates == [0.4, 0.4, 0.8, 0.4]

    @pytest.mark.parametrize("name, settings", [("StepLR", dict(step_size=2)), ("ExponentialLR", dict(gamma=0.5)), ("CosineAnnealingLR", dict(T_max=4))])
    def test_to_an_epoch(self, name, settings):
        torch = pytest.importorskip("torch")
        ours = getattr(optim, name)(self.sgd(), **settings)
        theirs = getattr(torch.optim.lr_scheduler, name)(torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.8), **settings)
        ours.step(3)
        with pytest.warns(UserWarning):
            theirs.step(3)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr()) and ours.get_lr() == ours.get_last_lr()
        with pytest.raises(ValueError, match=f"{name}: epoch -1, expected at least 0"):
            ours.step(-1)

    def test_what_a_subclass_must_say(self):
        with pytest.raises(NotImplementedError, match=r"LRScheduler has no get_lr\(\)"):
            LRScheduler(self.sgd())
