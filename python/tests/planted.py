"""What trainings with planted faults share: how they are registered and run, and what they report."""

import warnings
from collections import defaultdict

import pytest

import ternion
from ternion import nn, optim

# The trainings of each file of tests.
FAULTS = defaultdict(list)


def names(*words):
    """Registers a training: with its fault, what is reported contains these words."""

    def register(training):
        FAULTS[training.__module__].append(pytest.param(training, words, id=training.__name__))
        return training

    return register


def reported(training, planted):
    """All that a user meets: warnings, what the monitor says, and the error that ends the training."""
    ternion.manual_seed(7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = training(planted) or []
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            said = [str(error)]
    return "\n".join([str(warning.message) for warning in caught] + said)


def checks_of(module):
    """The two tests of each training of a module: its fault is named, and without the fault nothing is reported."""
    each = pytest.mark.parametrize("training, words", FAULTS[module])

    @each
    def is_named(training, words):
        found = reported(training, True)
        for word in words:
            assert word in found, found

    @each
    def reports_nothing(training, words):
        found = reported(training, False)
        assert found == "", found

    return is_named, reports_nothing


def watched(model, steps=1, rate=0.01, parameters=None, loss_of=None, x=None, optimizer=optim.SGD, **settings):
    """What a StatsMonitor says of a training by the mean square of what the model gives, or another loss of it."""
    x = ternion.randn(16, 8) if x is None else x
    monitor = nn.utils.StatsMonitor(model, every=1)
    made, said = optimizer(list(model.parameters() if parameters is None else parameters), lr=rate, **settings), []
    for step in range(steps):
        made.zero_grad()
        with monitor.watch(step):
            output = model(x)
            loss = output.square().mean() if loss_of is None else loss_of(output)
        loss.backward()
        said += [f"{warning.fault} {warning.text}" for warning in monitor.step(made).warnings]
    return said


def mlp(*widths, activation=nn.ReLU):
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), activation())]
    return nn.Sequential(*layers[:-1])


def scaled(parameters, factor):
    """Multiplies parameters by a factor."""
    with ternion.no_grad():
        for parameter in parameters:
            parameter.mul_(factor)
