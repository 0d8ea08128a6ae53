"""Learning-rate schedules compared with PyTorch."""

import pytest

import ternion
from ternion import nn, optim

# The schedules are stepped without training.
pytestmark = pytest.mark.filterwarnings("ignore:.*step.. was called before that of")

SCHEDULES = [
    ("StepLR", dict(step_size=2)),
    ("MultiStepLR", dict(milestones=[2, 5])),
    ("ExponentialLR", dict(gamma=0.8)),
    ("CosineAnnealingLR", dict(T_max=7, eta_min=0.01)),
    ("LinearLR", dict(total_iters=4)),
    ("LambdaLR", dict(lr_lambda=lambda epoch: 1 / (1 + epoch))),
    ("MultiplicativeLR", dict(lr_lambda=lambda epoch: 1 - 0.1 * epoch)),
    ("CosineAnnealingWarmRestarts", dict(T_0=3, eta_min=0.01)),
    ("CosineAnnealingWarmRestarts", dict(T_0=1, T_mult=2)),
    ("ConstantLR", dict(factor=0.2, total_iters=3)),
    ("PolynomialLR", dict(total_iters=4, power=2.0)),
    ("OneCycleLR", dict(max_lr=0.4, total_steps=9, cycle_momentum=False)),
    ("OneCycleLR", dict(max_lr=0.4, epochs=2, steps_per_epoch=5, pct_start=0.4, anneal_strategy="linear", three_phase=True, cycle_momentum=False)),
    ("OneCycleLR", dict(max_lr=0.4, total_steps=10, pct_start=1.0, three_phase=True, cycle_momentum=False)),
]


@pytest.mark.parametrize("name, settings", SCHEDULES)
def test_schedules_are_pytorchs(name, settings):
    torch = pytest.importorskip("torch")
    ternion_sgd = optim.SGD([nn.Parameter(ternion.ones(1))], lr=0.5)
    torch_sgd = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    ours = getattr(optim, name)(ternion_sgd, **settings)
    theirs = getattr(torch.optim.lr_scheduler, name)(torch_sgd, **settings)
    for _ in range(getattr(theirs, "total_steps", 24)):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9, abs=1e-12)
        torch_sgd.step()
        ours.step(), theirs.step()
    assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-9, abs=1e-12)


def test_one_cycle_takes_the_calls_that_pytorchs_takes():
    ternion_sgd, torch_sgd = both_of_two_groups()
    import torch

    settings = dict(max_lr=0.1, epochs=2, steps_per_epoch=3, cycle_momentum=False)
    ours, theirs = optim.OneCycleLR(ternion_sgd, **settings), torch.optim.lr_scheduler.OneCycleLR(torch_sgd, **settings)
    for _ in range(6):
        torch_sgd.step()
        ours.step(), theirs.step()
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)
    for schedule in (ours, theirs):
        with pytest.raises(ValueError):
            schedule.step()


def both_of_two_groups():
    torch = pytest.importorskip("torch")

    def groups(parameter, ones):
        return [{"params": [parameter(ones(1))]}, {"params": [parameter(ones(2))], "lr": 0.1}]

    return optim.SGD(groups(nn.Parameter, ternion.ones), lr=0.5), torch.optim.SGD(groups(torch.nn.Parameter, torch.ones), lr=0.5)


def test_a_warm_up_before_another_schedule_is_pytorchs():
    ternion_sgd, torch_sgd = both_of_two_groups()

    def course(optimizer, schedules):
        rise = schedules.LinearLR(optimizer, start_factor=0.01, total_iters=4)
        fall = schedules.CosineAnnealingLR(optimizer, T_max=6, eta_min=0.05)
        return schedules.SequentialLR(optimizer, [rise, fall, schedules.ConstantLR(optimizer, 0.5, 2)], [4, 10])

    import torch

    ours, theirs = course(ternion_sgd, optim.lr_scheduler), course(torch_sgd, torch.optim.lr_scheduler)
    for _ in range(14):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)
        torch_sgd.step()
        ours.step(), theirs.step()


def test_restarts_at_parts_of_epochs_are_pytorchs():
    ternion_sgd, torch_sgd = both_of_two_groups()
    import torch

    ours = optim.CosineAnnealingWarmRestarts(ternion_sgd, 2, T_mult=3)
    theirs = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(torch_sgd, 2, T_mult=3)
    torch_sgd.step()
    for epoch in (0.5, 1.75, 2.0, 7.25, 8.0, 20.5):
        ours.step(epoch), theirs.step(epoch)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12) and ours.last_epoch == theirs.last_epoch


def test_schedules_at_once_are_pytorchs():
    ternion_sgd, torch_sgd = both_of_two_groups()

    def course(optimizer, schedules):
        parts = [schedules.LinearLR(optimizer, 0.1, total_iters=4), schedules.ExponentialLR(optimizer, 0.9), schedules.CosineAnnealingLR(optimizer, T_max=20)]
        return schedules.ChainedScheduler(parts, optimizer=optimizer)

    import torch

    ours, theirs = course(ternion_sgd, optim.lr_scheduler), course(torch_sgd, torch.optim.lr_scheduler)
    for _ in range(10):
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)
        torch_sgd.step()
        ours.step(), theirs.step()
    again = course(both_of_two_groups()[0], optim.lr_scheduler)
    again.load_state_dict(ours.state_dict())
    assert again.get_last_lr() == ours.get_last_lr()


@pytest.mark.parametrize("settings", [
    dict(patience=1), dict(patience=0, cooldown=2, min_lr=[0.01, 0.02]), dict(mode="max", patience=1, threshold=0.1),
    dict(mode="max", threshold_mode="abs", threshold=0.3, patience=1, factor=0.5), dict(threshold_mode="abs", patience=0, eps=0.2),
])  # fmt: skip
def test_a_plateau_is_pytorchs(settings):
    ternion_sgd, torch_sgd = both_of_two_groups()
    import torch

    ours, theirs = optim.ReduceLROnPlateau(ternion_sgd, **settings), torch.optim.lr_scheduler.ReduceLROnPlateau(torch_sgd, **settings)
    for measure in (3.0, 2.0, 2.0, 2.1, 2.05, 2.4, 1.9, 1.9, 1.9, float("nan"), 5.0, 5.0, 5.0):
        ours.step(ternion.tensor(measure, dtype=ternion.float64)), theirs.step(measure)
        assert ours.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)
    other = optim.ReduceLROnPlateau(ternion_sgd, **settings)
    other.load_state_dict(ours.state_dict())
    assert other.best == theirs.best and other.num_bad_epochs == theirs.num_bad_epochs


def test_schedules_reject():
    sgd = optim.SGD([nn.Parameter(ternion.ones(1))], lr=0.5)
    for make, message in [
        (lambda: optim.StepLR(sgd, 0), "StepLR: step_size 0, expected at least 1"),
        (lambda: optim.CosineAnnealingLR(sgd, 0), "T_max 0"),
        (lambda: optim.CosineAnnealingWarmRestarts(sgd, 0), "T_0 0, expected an integer"),
        (lambda: optim.CosineAnnealingWarmRestarts(sgd, 2, 1.5), "T_mult 1.5, expected an integer"),
        (lambda: optim.CosineAnnealingWarmRestarts(sgd, 2).step(-1), "epoch -1, expected at least 0"),
        (lambda: optim.MultiplicativeLR(sgd, [abs, abs]), "MultiplicativeLR: 2 functions for 1 groups"),
        (lambda: optim.ChainedScheduler([]), "no schedules"),
        (lambda: optim.ChainedScheduler([optim.ReduceLROnPlateau(sgd)]), "ReduceLROnPlateau is not a function of only the step"),
        (lambda: optim.LinearLR(sgd, start_factor=0.0), "start_factor 0.0, expected above 0"),
        (lambda: optim.ConstantLR(sgd, 2.0), "factor 2.0, expected 0 to 1"),
        (lambda: optim.OneCycleLR(sgd, 0.1), "expected total_steps, or both epochs and steps_per_epoch"),
        (lambda: optim.OneCycleLR(optim.Adagrad([nn.Parameter(ternion.ones(1))]), 0.1, 10), "cycle_momentum of Adagrad, which has no momentum"),
        (lambda: optim.OneCycleLR(sgd, 0.1, 10, base_momentum=[0.8, 0.9]), "2 and 1 momenta for 1 groups"),
        (lambda: optim.OneCycleLR(sgd, [0.1, 0.2], 10), "2 rates for 1 groups"),
        (lambda: optim.ReduceLROnPlateau(sgd, factor=1.0), "factor 1.0, expected at least 0 and below 1"),
        (lambda: optim.ReduceLROnPlateau(sgd, mode="best"), "mode 'best'"),
        (lambda: optim.SequentialLR(sgd, [optim.StepLR(sgd, 2)], [3]), "1 schedules and 1 milestones"),
    ]:
        with pytest.raises(ValueError, match=message):
            make()
    course = optim.OneCycleLR(sgd, 0.1, 2)
    course.step(), course.step()
    with pytest.raises(ValueError, match="step 3, but total_steps is 2"):
        course.step()


@pytest.mark.parametrize("name, settings", [("StepLR", (2,)), ("MultiStepLR", ([2],)), ("ExponentialLR", ())])
def test_factors_that_float64_does_not_hold_are_reported(name, settings):
    sgd = optim.SGD([ternion.nn.Parameter(ternion.zeros(2))], lr=0.1)
    with pytest.raises(ValueError, match=f"{name}: gamma of 1329 bits, expected a number that float64 holds"):
        getattr(optim.lr_scheduler, name)(sgd, *settings, gamma=10**400)


@pytest.mark.parametrize("options", [dict(), dict(three_phase=True), dict(anneal_strategy="linear", base_momentum=0.7, max_momentum=0.9)])
@pytest.mark.parametrize("kind, settings", [("SGD", dict(momentum=0.9)), ("SGD", dict(momentum=0.9, nesterov=True)), ("SGD", dict()), ("AdamW", dict()), ("Adam", dict(amsgrad=True)), ("RMSprop", dict(momentum=0.5))])
def test_one_cycle_moves_momentum_as_pytorchs(kind, settings, options):
    torch = pytest.importorskip("torch")
    sides = []
    for T, parameter in ((ternion, nn.Parameter(ternion.tensor([1.0, -2.0]))), (torch, torch.nn.Parameter(torch.tensor([1.0, -2.0])))):
        optimizer = getattr(T.optim, kind)([parameter], lr=0.1, **settings)
        sides.append((parameter, optimizer, T.optim.lr_scheduler.OneCycleLR(optimizer, 0.05, total_steps=10, **options), T))
    for _ in range(9):
        for parameter, optimizer, schedule, T in sides:
            optimizer.zero_grad()
            (parameter**2 * T.tensor([1.0, 0.5])).sum().backward()
            optimizer.step(), schedule.step()
        ours, theirs = (side[1].param_groups[0] for side in sides)
        name = "momentum" if "betas" not in theirs else "betas"
        assert ours[name] == pytest.approx(theirs[name], rel=1e-9) and ours["lr"] == pytest.approx(theirs["lr"], rel=1e-9)
        assert sides[0][0].tolist() == pytest.approx(sides[1][0].tolist(), rel=1e-5)


def test_the_state_of_a_cycle_keeps_its_momentum():
    def create():
        sgd = optim.SGD([nn.Parameter(ternion.ones(1))], lr=0.1, momentum=0.9)
        return sgd, optim.OneCycleLR(sgd, 0.1, total_steps=10)

    (sgd, schedule), (other, again) = create(), create()
    for _ in range(4):
        sgd.param_groups[0]["params"][0].grad = ternion.ones(1)
        sgd.step(), schedule.step()
    other.load_state_dict(sgd.state_dict()), again.load_state_dict(schedule.state_dict())
    assert other.param_groups[0]["momentum"] == sgd.param_groups[0]["momentum"] != 0.9


def test_a_captured_step_does_not_lose_a_momentum_that_changes():
    layer = nn.Linear(2, 2)
    sgd = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

    def step():
        sgd.zero_grad()
        layer(ternion.ones(1, 2)).sum().backward()
        sgd.step()

    captured = ternion.capture(step)
    captured()
    sgd.param_groups[0]["momentum"] = 0.5
    if captured.is_recorded:
        with pytest.raises(ValueError, match="SGD: momentum changed since the step was captured"):
            captured()
    else:
        captured()
