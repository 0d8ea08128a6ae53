"""Healthy training runs that resemble faults: nothing is reported for any of them."""

import copy
import warnings

import pytest
from planted import reported, watched

import ternion
from ternion import amp, nn, optim

F = nn.functional


def quiet(training):
    assert reported(lambda planted: training(), True) == ""


def test_inputs_that_the_model_scales():
    class Scales(nn.Module):
        def __init__(self, size):
            self.size, self.layer = size, nn.Linear(8, 4)

        def forward(self, x):
            return self.layer(x / self.size)

    for size in (1e-6, 255.0):
        quiet(lambda size=size: watched(Scales(size), x=ternion.randn(16, 8) * size, steps=6))


def test_rows_of_which_hardly_a_number_is_not_0():
    x = F.one_hot(ternion.randint(0, 4096, (16,)), 4096).float()
    quiet(lambda: watched(nn.Sequential(nn.Linear(4096, 8), nn.ReLU(), nn.Linear(8, 4)), x=x, steps=6))


@pytest.mark.parametrize("optimizer", [optim.AdamW, optim.Adam, optim.RMSprop])
def test_small_gradients_of_a_deep_model_that_learns(optimizer):
    """With default initialization, gradients are halved from layer to layer, but the steps of Adam
    do not depend on their size."""
    model = nn.Sequential(*[layer for _ in range(8) for layer in (nn.Linear(32, 32), nn.ReLU())], nn.Linear(32, 4))
    first, x = model[0].weight.detach().clone(), ternion.randn(64, 32)
    quiet(lambda: watched(model, steps=100, rate=3e-4, optimizer=optimizer, x=x, loss_of=lambda output: (output - x[:, :4]).square().mean()))
    assert (model[0].weight - first).norm() > 0.05 * first.norm()


def test_tensors_that_ask_for_gradients_and_are_no_parameters():
    """Inputs whose gradients are inspected, and a shift that is updated by hand, or by a separate
    optimizer."""

    class Shifts(nn.Module):
        def __init__(self):
            self.a, self.b, self.shift = nn.Linear(8, 8), nn.Linear(8, 4), ternion.zeros(8, requires_grad=True)

        def forward(self, x, second):
            return self.b((self.a(x) + self.shift).relu() + second)

    def training(by_hand):
        model, messages = Shifts(), []
        second = ternion.randn(16, 8, requires_grad=True)
        monitor, sgd = nn.utils.StatsMonitor(model, every=1), optim.SGD(model.parameters(), lr=0.01)
        others = optim.SGD([model.shift], lr=0.01) if not by_hand else None
        for step in range(4):
            sgd.zero_grad()
            model.shift.grad = None
            with monitor.watch(step):
                loss = (model(ternion.randn(16, 8, requires_grad=True), second) - 1).square().mean()
            loss.backward()
            if others is None:
                with ternion.no_grad():
                    model.shift.add_(0.1 * model.shift.grad)
            else:
                others.step()
            messages += [str(warning) for warning in monitor.step(sgd).warnings]
        return messages

    quiet(lambda: training(True))
    quiet(lambda: training(False))


def test_a_feature_that_is_constant():
    x = ternion.randn(16, 8)
    x[:, 3] = 1.0
    quiet(lambda: watched(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 4)), x=x, steps=6))


@pytest.mark.parametrize("dtype", [ternion.bfloat16, ternion.float16])
def test_autocast(dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    monitor, sgd = nn.utils.StatsMonitor(model, every=1), optim.SGD(model.parameters(), lr=0.01)
    scaler, x, labels = amp.GradScaler("cpu"), ternion.randn(16, 8), ternion.arange(16) % 4

    def training():
        messages = []
        for step in range(6):
            sgd.zero_grad()
            with monitor.watch(step), ternion.autocast("cpu", dtype=dtype):
                loss = F.nll_loss(model(x).log_softmax(1), labels)
            scaler.scale(loss).backward()
            scaler.unscale_(sgd)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            messages += [str(warning) for warning in monitor.step(lambda: scaler.step(sgd)).warnings]
            scaler.update()
        return messages

    quiet(training)


def test_linear_layers_in_a_row_that_are_meant():
    class Autoencoder(nn.Module):
        def __init__(self):
            self.encoder = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 16))
            self.decoder = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))

        def forward(self, x):
            return self.decoder(self.encoder(x))

    class Attends(nn.Module):
        def __init__(self):
            self.project, self.attention, self.last = nn.Linear(8, 16), nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 4)

        def forward(self, x):
            x = self.project(x)
            return self.last(self.attention(x, x, x)[0])

    class Adapted(nn.Module):
        def __init__(self):
            self.layer, self.down, self.up = nn.Linear(8, 8), nn.Linear(8, 2), nn.Linear(2, 8)

        def forward(self, x):
            return self.layer(x) + self.up(self.down(x))

    quiet(lambda: watched(Autoencoder(), steps=6))
    quiet(lambda: watched(Attends(), x=ternion.randn(4, 5, 8), steps=6))
    quiet(lambda: watched(Adapted(), steps=6))


def test_losses_by_hand():
    labels = ternion.arange(16) % 4
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    quiet(lambda: watched(model, loss_of=lambda logits: (logits.logsumexp(1) - logits.gather(1, labels.unsqueeze(1)).squeeze(1)).mean(), steps=6))
    quiet(lambda: watched(model, loss_of=lambda logits: (-logits.gather(1, labels.unsqueeze(1)) + logits.logsumexp(1, keepdim=True)).mean(), steps=6))
    quiet(lambda: watched(model, loss_of=lambda logits: -logits.softmax(1).gather(1, labels.unsqueeze(1)).log().mean(), steps=6))
    single = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    quiet(lambda: watched(single, loss_of=lambda scores: (scores - scores.t() - 1).square().mean(), steps=6))
    quiet(lambda: watched(single, loss_of=lambda scores: F.binary_cross_entropy_with_logits(scores.squeeze(1), (labels % 2) * 0.9 + 0.05), steps=6))


def test_a_penalty_of_the_gradient_at_points_between():
    """A tensor that requires a gradient, and is freed before the backward pass that computes it."""
    critic = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    adam = optim.Adam(critic.parameters(), lr=1e-3, strict=True)

    def penalty(real, generated):
        between = (0.5 * real + 0.5 * generated).requires_grad_()
        (slope,) = ternion.autograd.grad(critic(between).sum(), between, create_graph=True)
        return (slope.norm(dim=1) - 1).square().mean()

    def training():
        for _ in range(3):
            adam.zero_grad()
            real, generated = ternion.randn(4, 8), ternion.randn(4, 8)
            (critic(generated).mean() - critic(real).mean() + 10 * penalty(real, generated)).backward()
            adam.step()

    quiet(training)


def test_models_that_go_between_two_steps():
    """Models that are created, used and dropped during training: averages, teachers, trials."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    sgd = optim.SGD(model.parameters(), lr=0.01, strict=True)

    def training():
        for _ in range(3):
            teacher = copy.deepcopy(model)
            with ternion.no_grad():
                target = teacher(ternion.ones(4, 8))
            trial = nn.Linear(8, 4)
            trial(ternion.ones(4, 8)).sum().backward()
            del trial, teacher
            sgd.zero_grad()
            (model(ternion.ones(4, 8)) - target + 1).square().mean().backward()
            sgd.step()

    quiet(training)


def test_two_optimizers_that_take_turns():
    generator, critic = nn.Linear(4, 8), nn.Linear(8, 1)
    first, second = optim.Adam(generator.parameters(), lr=1e-3, strict=True), optim.Adam(critic.parameters(), lr=1e-3, strict=True)

    def training():
        for _ in range(3):
            second.zero_grad()
            critic(generator(ternion.randn(4, 4)).detach()).mean().backward()
            second.step()
            first.zero_grad()
            critic(generator(ternion.randn(4, 4))).mean().backward()
            first.step()

    quiet(training)


def test_an_optimizer_that_takes_the_place_of_another():
    model = nn.Linear(8, 4)
    adam, sgd = optim.Adam(model.parameters(), lr=1e-3), optim.SGD(model.parameters(), lr=1e-3, momentum=0.99, weight_decay=1.0)

    def training():
        for optimizer in (adam, adam, sgd, sgd):
            optimizer.zero_grad()
            model(ternion.randn(4, 8)).square().mean().backward()
            optimizer.step()

    quiet(training)


def test_schedules_with_a_monitor():
    """Warm-up from almost 0, restarts, and one cycle: rising learning rates are not a fault."""

    def training(schedule_of, rate):
        model, messages, x = nn.Linear(8, 4), [], ternion.randn(16, 8)
        monitor, sgd = nn.utils.StatsMonitor(model, every=5), optim.SGD(model.parameters(), lr=rate)
        schedule = schedule_of(sgd)
        for step in range(30):
            sgd.zero_grad()
            with monitor.watch(step):
                loss = (model(x) - 1).square().mean()
            loss.backward()
            report = monitor.step(sgd)
            messages += [str(warning) for warning in (report.warnings if report else [])]
            schedule.step()
        return messages

    schedules = optim.lr_scheduler
    quiet(lambda: training(lambda sgd: schedules.LambdaLR(sgd, lambda step: min(1.0, (step + 1e-4) / 20)), 0.05))
    quiet(lambda: training(lambda sgd: schedules.CosineAnnealingWarmRestarts(sgd, 7), 0.05))
    quiet(lambda: training(lambda sgd: schedules.OneCycleLR(sgd, 0.1, total_steps=40), 0.05))


def test_an_optimizer_of_ones_own_may_have_attributes_of_these_names():
    class Own(optim.SGD):
        def __init__(self, parameters, lr):
            super().__init__(parameters, lr=lr)
            self.lr, self.momentum = lr, 0.5

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = Own(nn.Linear(2, 2).parameters(), 0.1)
        assert (optimizer.lr, optimizer.momentum) == (0.1, 0.5)
        optimizer.lr = 0.2
        del optimizer.momentum
    assert optimizer.lr == 0.2 and not hasattr(optimizer, "momentum") and not hasattr(optim.SGD(nn.Linear(2, 2).parameters()), "lr")
