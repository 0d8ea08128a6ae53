"""Optimisers and schedules against PyTorch, and what is told of gradients that are missing."""

import warnings

import pytest
import reference

import ternion
from ternion import nn, optim

OPTIMIZERS = {
    "sgd": (optim.SGD, dict(lr=0.1)),
    "sgd_weight_decay": (optim.SGD, dict(lr=0.1, weight_decay=0.2)),
    "sgd_momentum": (optim.SGD, dict(lr=0.1, momentum=0.9)),
    "sgd_dampening": (optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1)),
    "sgd_nesterov": (optim.SGD, dict(lr=0.1, momentum=0.8, nesterov=True, weight_decay=0.1)),
    "adam": (optim.Adam, dict(lr=0.01)),
    "adam_general": (optim.Adam, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)),
    "adamw": (optim.AdamW, dict(lr=0.01)),
    "adamw_general": (optim.AdamW, dict(lr=0.02, betas=(0.8, 0.95), eps=1e-3, weight_decay=0.3)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_equal_pytorchs(name):
    told = reference.told()["optimizers"]
    parameters = [nn.Parameter(reference.tensor(entry)) for entry in told["start"]]
    kind, settings = OPTIMIZERS[name]
    optimizer = kind(parameters, **settings)
    for number, gradients in enumerate(told["gradients"]):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = reference.tensor(gradient)
        if number == 2:
            optimizer.param_groups[0]["lr"] /= 2
            nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        for parameter, entry in zip(parameters, told["runs"][name][number]):
            reference.close(parameter, entry)


def test_every_optimizer_of_the_reference_is_tested():
    assert set(OPTIMIZERS) == set(reference.told()["optimizers"]["runs"])


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.AdamW, optim.RMSprop, optim.Adagrad, optim.Lion, optim.Muon])
def test_all_of_them_learn(kind):
    ternion.manual_seed(5)
    weight = nn.Parameter(ternion.randn(4, 4))
    target = ternion.randn(4, 4)
    optimizer = kind([weight], lr=0.05)
    losses = []
    for _ in range(80):
        optimizer.zero_grad()
        loss = (weight - target).square().sum()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.7 * losses[0]


def test_a_missing_gradient_is_told_by_name():
    used, forgotten = nn.Parameter(ternion.ones(2)), nn.Parameter(ternion.ones(3))
    optimizer = optim.SGD([("used", used), ("forgotten", forgotten)], lr=0.1)
    used.sum().backward()
    with pytest.warns(UserWarning, match="no gradient for forgotten: the loss does not depend on it"):
        optimizer.step()
    assert used.tolist() == pytest.approx([0.9, 0.9]) and forgotten.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()  # Once is enough.
    strict = optim.SGD([forgotten], lr=0.1, strict=True)
    with pytest.raises(RuntimeError, match="no gradient for parameter 0 of shape \\(3,\\)"):
        strict.step()


def test_groups_and_errors():
    one, two = nn.Parameter(ternion.ones(1)), nn.Parameter(ternion.ones(1))
    optimizer = optim.SGD([{"params": [one]}, {"params": [two], "lr": 1.0}], lr=0.1)
    (one + two).backward()
    optimizer.step()
    assert one.item() == pytest.approx(0.9) and two.item() == 0.0
    with pytest.raises(ValueError, match="SGD: no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="a parameter is given twice"):
        optim.SGD([one, one])
    with pytest.raises(TypeError, match="Adam has no setting momentum"):
        optim.Adam([{"params": [one], "momentum": 0.9}])
    with pytest.raises(TypeError, match="make the tensor a nn.Parameter"):
        optim.SGD([ternion.ones(1)])
    with pytest.raises(ValueError, match="lr"):
        optim.SGD([one], lr=-1.0)


def test_a_state_goes_on_where_it_was():
    def trained(steps, state=None):
        ternion.manual_seed(2)
        parameter = nn.Parameter(ternion.ones(3))
        optimizer = optim.AdamW([parameter], lr=0.1)
        if state:
            with ternion.no_grad():
                parameter.copy_(state[0])
            optimizer.load_state_dict(state[1])
        for _ in range(steps):
            optimizer.zero_grad()
            (parameter**3).sum().backward()
            optimizer.step()
        return parameter.detach().clone(), optimizer.state_dict()

    assert trained(4, trained(3))[0].equal(trained(7)[0])


SCHEDULES = [
    ("StepLR", dict(step_size=2)),
    ("MultiStepLR", dict(milestones=[2, 5])),
    ("ExponentialLR", dict(gamma=0.8)),
    ("CosineAnnealingLR", dict(T_max=7, eta_min=0.01)),
    ("LinearLR", dict(total_iters=4)),
    ("LambdaLR", dict(lr_lambda=lambda epoch: 1 / (1 + epoch))),
]


@pytest.mark.parametrize("name, settings", SCHEDULES)
def test_schedules_are_pytorchs(name, settings):
    torch = pytest.importorskip("torch")
    here = optim.SGD([nn.Parameter(ternion.ones(1))], lr=0.5)
    there = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.5)
    own = getattr(optim, name)(here, **settings)
    theirs = getattr(torch.optim.lr_scheduler, name)(there, **settings)
    for _ in range(7):
        assert own.get_last_lr() == pytest.approx(theirs.get_last_lr(), rel=1e-12)
        there.step()
        own.step(), theirs.step()
