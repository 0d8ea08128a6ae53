"""Healthy training runs with a `GradScaler`, next to others, for which nothing is reported; and
unhealthy ones that are still reported."""

import sys
import threading
import warnings

import pytest
from planted import checks_of, names, reported

import ternion
from ternion import amp, nn, optim


def loss_of(model):
    return model(ternion.randn(3, 4)).square().mean()


def two(strict):
    """Returns two models, with one optimizer each."""
    models = [nn.Linear(4, 2), nn.Linear(4, 2)]
    return (*models, *(optim.SGD(model.parameters(), lr=1e-3, strict=strict) for model in models))


TRAININGS = {}


def training(function):
    TRAININGS[function.__name__] = function
    return function


@training
def the_other_model_steps_before_the_update(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    scaler.step(of_a)
    loss_of(b).backward()
    of_b.step()
    scaler.update()


@training
def both_go_backward_before_both_step(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    loss_of(b).backward()
    nn.utils.clip_grad_norm_(b.parameters(), 1.0)
    nn.utils.clip_grad_value_(b.parameters(), 1.0)
    scaler.step(of_a)
    of_b.step()
    scaler.update()


@training
def the_sum_of_a_scaled_loss_and_one_of_the_other_model(scaler, a, b, of_a, of_b):
    (scaler.scale(loss_of(a)) + loss_of(b)).backward()
    of_b.step()
    scaler.step(of_a)
    scaler.update()


@training
def gradients_that_are_divided_by_hand(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    scaler.scale(loss_of(b)).backward()
    for parameter in a.parameters():
        parameter.grad.div_(scaler.get_scale())
    for parameter in b.parameters():
        parameter.grad = parameter.grad / scaler.get_scale()
    of_a.step()
    of_b.step()


@training
def losses_that_are_divided_by_hand(scaler, a, b, of_a, of_b):
    (scaler.scale(loss_of(a)) / scaler.get_scale()).backward()
    (scaler.scale(loss_of(b)) * ternion.tensor(1 / scaler.get_scale())).backward()
    of_a.step()
    of_b.step()


@training
def losses_that_are_scaled_by_hand(scaler, a, b, of_a, of_b):
    (loss_of(a) * scaler.get_scale()).backward()
    loss_of(b).backward(ternion.tensor(scaler.get_scale()))
    scaler.step(of_a)
    scaler.step(of_b)
    scaler.update()


@training
def a_scaled_loss_that_is_masked_and_averaged(scaler, a, b, of_a, of_b):
    losses = scaler.scale(a(ternion.randn(3, 4)).square().mean(1))
    (losses * ternion.tensor([1.0, 0.0, 1.0])).sum().clamp(min=0.0).backward()
    sum(scaler.scale([loss_of(b), loss_of(b)])).backward()
    scaler.step(of_a)
    scaler.step(of_b)
    scaler.update()


@training
def gradients_that_hooks_divide(scaler, a, b, of_a, of_b):
    hooks = [parameter.register_hook(lambda grad: grad / scaler.get_scale()) for parameter in a.parameters()]
    scaler.scale(loss_of(a)).backward()
    of_a.step()
    for hook in hooks:
        hook.remove()
    loss_of(b).backward()
    of_b.step()


@training
def a_loss_that_is_added_behind_unscale(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    scaler.unscale_(of_a)
    loss_of(a).backward()
    nn.utils.clip_grad_norm_(a.parameters(), 1.0)
    scaler.step(of_a)
    scaler.update()
    loss_of(b).backward()
    of_b.step()


@training
def a_limit_that_is_scaled_by_hand(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    nn.utils.clip_grad_norm_(a.parameters(), 1.0 * scaler.get_scale())
    scaler.step(of_a)
    scaler.update()
    loss_of(b).backward()
    of_b.step()


@training
def a_penalty_of_gradients(scaler, a, b, of_a, of_b):
    """As in PyTorch's documentation: scaled gradients that are divided by hand."""
    loss = loss_of(a)
    grads = ternion.autograd.grad(scaler.scale(loss), list(a.parameters()), create_graph=True)
    loss = loss + sum((grad / scaler.get_scale()).square().sum() for grad in grads).sqrt()
    scaler.scale(loss).backward()
    scaler.step(of_a)
    scaler.update()
    loss_of(b).backward()
    of_b.step()


@training
def gradients_that_become_0_and_are_used_again(scaler, a, b, of_a, of_b):
    scaler.scale(loss_of(a)).backward()
    of_a.zero_grad(set_to_none=False)
    loss_of(a).backward()
    of_a.step()
    loss_of(b).backward()
    of_b.step()


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("name", TRAININGS)
def test_nothing_is_reported(name, strict):
    def steps(planted):
        a, b, of_a, of_b = two(strict)
        scaler = amp.GradScaler("cpu")
        for _ in range(3):
            of_a.zero_grad()
            of_b.zero_grad()
            TRAININGS[name](scaler, a, b, of_a, of_b)

    assert reported(steps, True) == ""


@pytest.mark.parametrize("strict", [False, True])
def test_two_scalers_take_turns(strict):
    def steps(planted):
        a, b, of_a, of_b = two(strict)
        one, other = amp.GradScaler("cpu"), amp.GradScaler("cpu", init_scale=4.0)
        for _ in range(3):
            of_a.zero_grad()
            of_b.zero_grad()
            one.scale(loss_of(a)).backward()
            other.scale(loss_of(b)).backward()
            one.step(of_a)
            other.step(of_b)
            one.update()
            other.update()

    assert reported(steps, True) == ""


def test_a_scaled_training_in_another_thread():
    """A scaled training run reports nothing about another one in parallel, and the two do not
    affect each other."""
    failed = []

    def run(scaler):
        model = nn.Linear(4, 2)
        try:
            for _ in range(8):
                adam = optim.Adam(model.parameters(), lr=1e-3, strict=True)
                for _ in range(10):
                    adam.zero_grad()
                    loss = loss_of(model)
                    if scaler is None:
                        loss.backward()
                        adam.step()
                    else:
                        scaler.scale(loss).backward()
                        scaler.step(adam)
                        scaler.update()
        except Exception as error:
            failed.append(repr(error))

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=run, args=(scaler,)) for scaler in (None, None, amp.GradScaler("cpu"), amp.GradScaler("cpu"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    assert failed == []


# ---- What is still reported


def scaled_step(planted, begin, step=None, strict=False):
    model = nn.Linear(4, 2)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3, strict=strict)
    begin(scaler, model, sgd)
    if planted:
        (step or (lambda scaler, model, sgd: sgd.step()))(scaler, model, sgd)
    else:
        scaler.step(sgd)
    scaler.update()


NAMED = ("SGD: the gradients are those of a loss times 1024, by a GradScaler: call its step(optimizer)",)


@names("SGD: the gradients are those of a loss times 512, by a GradScaler", "(an error, as the optimizer is strict)")
def a_step_of_part_of_a_scaled_loss(planted):
    """A scaled loss is divided by the number of micro-batches, and the optimizer steps without the
    scaler."""
    scaled_step(planted, lambda scaler, model, sgd: (scaler.scale(loss_of(model)) / 2).backward(), strict=True)


@names("SGD: the gradients are those of a loss times 512, by a GradScaler", "(an error, as the optimizer is strict)")
def a_step_of_the_mean_of_scaled_losses(planted):
    """The same with several scaled losses."""
    scaled_step(planted, lambda scaler, model, sgd: (ternion.stack(scaler.scale([loss_of(model)] * 2)).sum() / 2).backward(), strict=True)


@names(*NAMED)
def a_step_behind_gradients_that_became_0(planted):
    """Gradients are reset to zeros instead of None, and the optimizer steps without the scaler."""
    def begin(scaler, model, sgd):
        scaler.scale(loss_of(model)).backward()
        sgd.zero_grad(set_to_none=False)
        scaler.scale(loss_of(model)).backward()

    scaled_step(planted, begin)


@names("clip_grad_norm_: the gradients are those of a loss times 1024", *NAMED)
def a_step_behind_a_norm_that_is_clipped(planted):
    """Scaled gradients are clipped, and used without unscaling."""
    def step(scaler, model, sgd):
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        sgd.step()

    scaled_step(planted, lambda scaler, model, sgd: scaler.scale(loss_of(model)).backward(), step)


@names(*NAMED)
def a_step_behind_the_update(planted):
    """The second step is made without the scaler."""
    def step(scaler, model, sgd):
        scaler.unscale_(sgd)
        scaler.update()
        sgd.zero_grad()
        scaler.scale(loss_of(model)).backward()
        sgd.step()
        scaler.unscale_(optim.SGD(nn.Linear(2, 2).parameters(), lr=0.1))

    scaled_step(planted, lambda scaler, model, sgd: scaler.scale(loss_of(model)).backward(), step)


@names("GradScaler: SGD: ", "weight", "bias", "in the gradients is that of a loss that was not scaled, and they are divided by 1024: call scaler.scale(loss).backward()")
def a_second_loss_that_is_not_scaled(planted):
    """The second of two losses is not scaled, but its gradients are unscaled."""
    model = nn.Linear(4, 2)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3)
    scaler.scale(loss_of(model)).backward()
    second = 0.1 * loss_of(model)
    (second if planted else scaler.scale(second)).backward()
    scaler.step(sgd)
    scaler.update()


@names("in the gradients is that of a loss that was not scaled, and they are divided by 1024")
def a_term_that_is_not_scaled(planted):
    """The same with a sum of losses."""
    model = nn.Linear(4, 2)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3)
    first, second = loss_of(model), loss_of(model)
    (scaler.scale(first) + second if planted else scaler.scale(first + second)).backward()
    scaler.step(sgd)
    scaler.update()


test_a_planted_fault_is_named, test_nothing_is_said_without_it = checks_of(__name__)


def test_a_registry_of_what_lives():
    from ternion._weak_registry import WeakRegistry

    registry, modules = WeakRegistry(), [nn.Linear(1, 1) for _ in range(3)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in [*modules, *(nn.Linear(1, 1) for _ in range(200)), modules[0]]:
            registry.add(module)
        del module
        for number, module in enumerate(registry):
            # The registry may grow during the iteration.
            registry.add(nn.Linear(1, 1))
            assert module is modules[number]
    assert len(list(registry)) == 3
