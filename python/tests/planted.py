"""Shared code for training runs with planted faults: how they are registered and run, and what they
report."""

import warnings
from collections import defaultdict

import pytest

import ternion
from ternion import nn, optim

# The training runs of each test file.
FAULTS = defaultdict(list)


def names(*words):
    """Registers a training run. With its fault, the report contains these words."""

    def register(training):
        FAULTS[training.__module__].append(pytest.param(training, words, id=training.__name__))
        return training

    return register


def reported(training, planted):
    """Returns everything a user sees: warnings, messages of the monitor, and the error that ends
    training."""
    ternion.manual_seed(7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            messages = training(planted) or []
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            messages = [str(error)]
    return "\n".join([str(warning.message) for warning in caught] + messages)


def checks_of(module):
    """Returns the two tests for the training runs of a module: the fault is named, and without the
    fault nothing is reported."""
    each = pytest.mark.parametrize("training, words", FAULTS[module])

    @each
    def is_named(training, words):
        result = reported(training, True)
        for word in words:
            assert word in result, result

    @each
    def reports_nothing(training, words):
        result = reported(training, False)
        assert result == "", result

    return is_named, reports_nothing


def watched(model, steps=1, rate=0.01, parameters=None, loss_of=None, x=None, optimizer=optim.SGD, **settings):
    """Returns the report of a StatsMonitor on a training run. The loss is the mean square of the
    model's output, unless `loss_of` is given."""
    x = ternion.randn(16, 8) if x is None else x
    monitor = nn.utils.StatsMonitor(model, every=1)
    created, messages = optimizer(list(model.parameters() if parameters is None else parameters), lr=rate, **settings), []
    for step in range(steps):
        created.zero_grad()
        with monitor.watch(step):
            output = model(x)
            loss = output.square().mean() if loss_of is None else loss_of(output)
        loss.backward()
        messages += [f"{warning.fault} {warning.message}" for warning in monitor.step(created).warnings]
    return messages


def mlp(*widths, activation=nn.ReLU):
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), activation())]
    return nn.Sequential(*layers[:-1])


def scaled(parameters, factor):
    """Multiplies parameters by a factor in place."""
    with ternion.no_grad():
        for parameter in parameters:
            parameter.mul_(factor)
