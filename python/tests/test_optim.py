"""Optimizers compared with PyTorch, averages of weights, and the reports of missing gradients."""

import copy
import gc
import pickle
import warnings
from pathlib import Path

import pytest
import reference

import ternion
from ternion import _names, nn, optim

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
    recorded = reference.read_results()["optimizers"]
    parameters = [nn.Parameter(reference.tensor(entry)) for entry in recorded["start"]]
    kind, settings = OPTIMIZERS[name]
    optimizer = kind(parameters, **settings)
    for number, gradients in enumerate(recorded["gradients"]):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = reference.tensor(gradient)
        if number == 2:
            optimizer.param_groups[0]["lr"] /= 2
            nn.utils.clip_grad_norm_(parameters, 0.5)
        optimizer.step()
        for parameter, entry in zip(parameters, recorded["runs"][name][number]):
            reference.close(parameter, entry)


def test_every_optimizer_of_the_reference_is_tested():
    assert set(OPTIMIZERS) == set(reference.read_results()["optimizers"]["runs"])


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


def test_a_missing_gradient_is_reported_by_name():
    used, forgotten = nn.Parameter(ternion.ones(2)), nn.Parameter(ternion.ones(3))
    optimizer = optim.SGD([("used", used), ("forgotten", forgotten)], lr=0.1)
    used.sum().backward()
    with pytest.warns(UserWarning, match="no gradient for forgotten: the loss does not depend on it"):
        optimizer.step()
    assert used.tolist() == pytest.approx([0.9, 0.9]) and forgotten.tolist() == [1, 1, 1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer.step()  # It is reported only once.
    strict = optim.SGD([forgotten], lr=0.1, strict=True)
    with pytest.raises(RuntimeError, match="no gradient for parameter 0 of shape \\(3,\\)"):
        strict.step()


class PartlyUsed(nn.Module):
    def __init__(self):
        self.used, self.unused, self.scale = nn.Linear(2, 2), nn.Linear(2, 2), nn.Parameter(ternion.ones(3))

    def forward(self, x):
        return self.used(x)


def test_a_missing_gradient_is_reported_by_the_name_that_the_module_has_for_it():
    model = PartlyUsed()
    adam = optim.AdamW(model.parameters())
    model(ternion.ones(1, 2)).sum().backward()
    with pytest.warns(UserWarning, match="no gradient for scale of shape \\(3,\\), unused.weight, unused.bias: the loss") as caught:
        adam.step()  # here
    assert caught[0].filename == __file__ and "adam.step()  # here" in Path(__file__).read_text().splitlines()[caught[0].lineno - 1]
    # Shorter names, from a submodule that is used later, do not replace these names. Names from an
    # enclosing module do.
    model.unused.zero_grad()
    with pytest.raises(RuntimeError, match="no gradient for unused.weight, unused.bias: "):
        optim.SGD(model.unused.parameters(), strict=True).step()
    outer = nn.Sequential(model)
    with pytest.raises(RuntimeError, match="no gradient for 0.unused.weight: "):
        optim.SGD([parameter for parameter in outer.parameters() if parameter is model.unused.weight], strict=True).step()
    # Names do not keep parameters alive.
    assert _names.name_of(model.unused.weight) == "0.unused.weight"
    count = len(_names._names)
    del model, outer, adam
    gc.collect()
    assert len(_names._names) <= count - 5


@pytest.mark.parametrize("how", ["a closure", "a scaler"])
def test_a_warning_is_shown_at_the_line_that_steps(how):
    model, scaler = PartlyUsed(), ternion.amp.GradScaler()
    adam = optim.AdamW(model.parameters())

    def closure():
        loss = model(ternion.ones(1, 2)).sum()
        scaler.scale(loss).backward() if how == "a scaler" else loss.backward()
        return loss

    with pytest.warns(UserWarning, match="unused.weight") as caught:
        if how == "a closure":
            adam.step(closure)  # here
        else:
            closure()
            scaler.step(adam)  # here
    assert caught[0].filename == __file__ and "# here" in Path(__file__).read_text().splitlines()[caught[0].lineno - 1]


def test_groups_and_errors():
    one, two = nn.Parameter(ternion.ones(1)), nn.Parameter(ternion.ones(1))
    optimizer = optim.SGD([{"params": [one]}, {"params": [two], "lr": 1.0}], lr=0.1)
    (one + two).backward()
    optimizer.step()
    assert one.item() == pytest.approx(0.9) and two.item() == 0.0
    with pytest.raises(ValueError, match="SGD: no parameters"):
        optim.SGD([])
    with pytest.raises(ValueError, match="SGD: parameter 1 is given twice: it is parameter 0 already"):
        optim.SGD([one, one])
    with pytest.raises(TypeError, match="Adam has no setting momentum"):
        optim.Adam([{"params": [one], "momentum": 0.9}])
    with pytest.raises(TypeError, match="SGD: parameter 0 of type int, expected a tensor"):
        optim.SGD([1])
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


def two_runs(torch, name, settings, changed=None, steps=6):
    """Returns the parameters of both libraries after steps of an optimizer whose settings change
    after the third step."""
    ends = []
    for library, optimizers, make in ((ternion, optim, nn.Parameter), (torch, torch.optim, torch.nn.Parameter)):
        start = [[1.0, -2.0, 3.0], [0.5, 0.25, -1.5]]
        parameter = make(library.tensor(start, dtype=library.float64))
        optimizer = getattr(optimizers, name)([parameter], lr=0.1, **settings)
        for step in range(steps):
            if step == 3 and changed:
                optimizer.param_groups[0].update(changed)
            optimizer.zero_grad()
            # The gradients shrink, so that the largest second moment is not the last one.
            ((parameter**2).sum() / (step * step + 1)).backward()
            optimizer.step()
        ends.append(parameter.detach().numpy().copy())
    return ends


@pytest.mark.parametrize("name, settings", [
    ("Adam", dict(amsgrad=True)), ("Adam", dict(amsgrad=True, weight_decay=0.1, betas=(0.5, 0.6))), ("AdamW", dict(amsgrad=True, maximize=True)),
    ("Adam", dict(decoupled_weight_decay=True, weight_decay=0.3)), ("SGD", dict(maximize=True, momentum=0.9, weight_decay=0.1)),
    ("RMSprop", dict(maximize=True, centered=True)), ("Adagrad", dict(maximize=True, lr_decay=0.1)),
    ("AdamW", dict(foreach=False, fused=False, capturable=False)), ("SGD", dict(foreach=True, fused=None)),
])  # fmt: skip
def test_options_are_pytorchs(name, settings):
    torch = pytest.importorskip("torch")
    actual, expected = two_runs(torch, name, settings)
    assert actual == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("name, settings, changed", [
    ("Adam", dict(), dict(betas=(0.5, 0.7), eps=1e-2, weight_decay=0.3)), ("AdamW", dict(amsgrad=True), dict(weight_decay=0.5, maximize=True)),
    ("SGD", dict(momentum=0.9), dict(momentum=0.5, nesterov=True)), ("SGD", dict(), dict(momentum=0.9)),
    ("SGD", dict(momentum=0.9), dict(momentum=0.0, weight_decay=0.2)), ("RMSprop", dict(momentum=0.5), dict(alpha=0.5, momentum=0.9)),
    ("Adagrad", dict(), dict(eps=0.1, lr=0.3)),
])  # fmt: skip
def test_settings_that_change_count(name, settings, changed):
    torch = pytest.importorskip("torch")
    actual, expected = two_runs(torch, name, settings, changed)
    assert actual == pytest.approx(expected, rel=1e-9)
    unchanged, _ = two_runs(torch, name, settings)
    assert actual != pytest.approx(unchanged, rel=1e-3)


def test_settings_come_with_a_state():
    def create(**settings):
        parameter = nn.Parameter(ternion.ones(2))
        return parameter, optim.SGD([parameter], lr=0.1, **settings)

    def stepped(parameter, optimizer, times):
        for _ in range(times):
            parameter.grad = ternion.ones(2)
            optimizer.step()

    one, first = create(momentum=0.9, nesterov=True)
    stepped(one, first, 2)
    two, second = create()
    with ternion.no_grad():
        two.copy_(one)
    second.load_state_dict(first.state_dict())
    assert second.param_groups[0]["momentum"] == 0.9 and second.param_groups[0]["nesterov"] is True
    stepped(one, first, 2), stepped(two, second, 2)
    assert one.equal(two)


def test_groups_that_are_added_and_their_warnings():
    one, two = nn.Parameter(ternion.ones(1)), nn.Parameter(ternion.ones(2))
    adam = optim.Adam([one], lr=0.5)
    adam.add_param_group({"params": two, "lr": 0.25, "betas": (0.5, 0.5)})
    assert adam.state == {} and adam.param_groups[1]["betas"] == (0.5, 0.5)
    (one.sum() + two.sum()).backward()
    adam.step()
    assert set(adam.state) == {one, two} and adam.state[two]["step"].item() == 1 and adam.state[two]["exp_avg"].tolist() == [0.5, 0.5]
    assert repr(adam).startswith("Adam (\nParameter Group 0\n    amsgrad: False\n    betas: (0.9, 0.999)\n") and "lr: 0.25" in repr(adam)
    assert repr(optim.StepLR(adam, 3)) == "StepLR(step_size=3, gamma=0.1, last_epoch=0, base_lrs=[0.5, 0.25], lr=[0.5, 0.25])"
    assert "patience=10" in repr(optim.ReduceLROnPlateau(adam))


def test_plain_tensors_are_stepped():
    torch = pytest.importorskip("torch")
    weights = []
    for library, optimizers in ((ternion, optim), (torch, torch.optim)):
        weight = library.ones((2, 2), dtype=library.float64).t()
        weight.requires_grad_()
        adam = optimizers.Adam([weight], lr=0.1, weight_decay=0.1)
        for step in range(4):
            if step == 2:
                weight.data = library.full((2, 2), 3.0, dtype=library.float64)
            adam.zero_grad()
            (weight**2 * library.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=library.float64)).sum().backward()
            adam.step()
        weights.append(weight.detach().numpy())
    assert weights[0] == pytest.approx(weights[1], rel=1e-12)


def test_a_step_is_seen_by_graphs_that_saved_the_tensor():
    weight = ternion.ones(2, requires_grad=True)
    sgd = optim.SGD([weight], lr=0.1)
    loss = (weight * weight).sum()
    loss.backward(retain_graph=True)
    sgd.step()
    assert weight.tolist() == pytest.approx([0.8, 0.8])
    with pytest.raises(RuntimeError, match="changed in place"):
        loss.backward()


def test_a_plain_tensor_that_asks_for_nothing_is_reported():
    with pytest.warns(UserWarning, match="no gradient for parameter 0 of shape \\(1,\\)"):
        optim.SGD([ternion.ones(1)], lr=0.1).step()


@pytest.mark.parametrize("how", ["copied", "pickled"])
def test_copies_of_optimisers(how):
    model = nn.Linear(2, 1)
    adam = optim.Adam([{"params": [model.weight], "lr": 0.5}, {"params": [model.bias]}], amsgrad=True)
    schedule = optim.StepLR(adam, 1)

    def step(model, adam):
        adam.zero_grad()
        model(ternion.ones(3, 2)).square().mean().backward()
        adam.step()

    step(model, adam)
    adam.param_groups[1]["eps"] = 1e-3
    both = (model, adam, schedule)
    other, second, further = copy.deepcopy(both) if how == "copied" else pickle.loads(pickle.dumps(both))
    assert second.param_groups[0]["params"][0] is other.weight and further.optimizer is second and other.weight is not model.weight
    for _ in range(3):
        step(model, adam), step(other, second)
        schedule.step(), further.step()
    assert other.weight.equal(model.weight) and other.bias.equal(model.bias)
    step(model, adam)
    assert not other.weight.equal(model.weight)


def test_wrong_arguments_are_reported():
    weight = nn.Parameter(ternion.ones(1))
    adam = optim.Adam([weight])
    for call, kind, message in [
        (lambda: optim.SGD([weight], lr="a"), TypeError, "SGD: lr 'a', expected a number"),
        (lambda: optim.Adam([weight], betas=0.9), TypeError, "Adam: betas 0.9, expected two numbers"),
        (lambda: optim.SGD([weight], nesterov=1), TypeError, "SGD: nesterov 1, expected True or False"),
        (lambda: optim.SGD([weight], nesterov=True), ValueError, "nesterov needs a momentum above 0"),
        (lambda: optim.SGD(weight), TypeError, "SGD: params of type Parameter, expected a list"),
        (lambda: optim.SGD(3), TypeError, "SGD: params of type int, expected a list"),
        (lambda: optim.SGD([{"lr": 3}]), TypeError, "SGD: a group {'lr': 3}, expected a dict with params and settings"),
        (lambda: optim.SGD([{"params": {weight}}]), TypeError, "SGD: params in a set, expected a list"),
        (lambda: optim.SGD([weight * 2]), ValueError, "SGD: parameter 0 is computed from others, expected a parameter or another leaf"),
        (lambda: optim.Adam([weight], differentiable=True), ValueError, "Adam: differentiable=True, expected False"),
        (lambda: adam.load_state_dict({}), ValueError, "Adam: a state without state and param_groups, expected what state_dict\\(\\) gave"),
        (lambda: adam.load_state_dict([]), TypeError, "Adam: a state of type list"),
        (lambda: adam.load_state_dict({"state": {}, "param_groups": []}), ValueError, "states of PyTorch do not fit"),
        (lambda: adam.load_state_dict({"state": [], "param_groups": []}), ValueError, "Adam: a state of 0 groups for 1"),
        (lambda: adam.add_param_group([weight]), TypeError, "Adam: a group"),
    ]:
        with pytest.raises(kind, match=message):
            call()
    adam.param_groups[0]["eps"] = "a"
    weight.grad = ternion.ones(1)
    with pytest.raises(TypeError, match="Adam: eps 'a', expected a number"):
        adam.step()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "Muon"])
def test_numbers_that_float64_does_not_hold_are_reported(kind):
    for value in (10**400, -(10**400), 10**5000):
        with pytest.raises(ValueError, match=f"{kind}: lr of about -?10..[0-9]+, expected a number that float64 holds"):
            getattr(optim, kind)([nn.Parameter(ternion.zeros(2, 2))], lr=value)
    with pytest.raises(ValueError, match=r"Adam: betas \(of about 10\*\*400, 0.9\), expected two numbers"):
        optim.Adam([nn.Parameter(ternion.zeros(2))], betas=(10**400, 0.9))


def test_gradients_of_parts_of_a_batch_add_up():
    model, x = nn.Linear(3, 2), ternion.randn(8, 3)
    model(x).square().mean().backward()
    full = model.weight.grad.clone()
    model.zero_grad()
    for part in x.chunk(4):
        (model(part).square().mean() / 4).backward()
    assert model.weight.grad.allclose(full, atol=1e-6)


class TestClipping:
    def gradients(self):
        parameters = [nn.Parameter(ternion.zeros(2)), nn.Parameter(ternion.zeros(1)), nn.Parameter(ternion.zeros(1))]
        parameters[0].grad, parameters[1].grad = ternion.tensor([3.0, -4.0]), ternion.tensor([12.0])
        return parameters

    @pytest.mark.parametrize("norm_type, norm", [(2.0, 13.0), (float("inf"), 12.0), (1.0, 19.0)])
    def test_by_norms(self, norm_type, norm):
        parameters = self.gradients()
        assert nn.utils.clip_grad_norm_(parameters, 1.0, norm_type).item() == pytest.approx(norm)
        assert parameters[0].grad.tolist() == pytest.approx([3 / norm, -4 / norm], rel=1e-5)
        again = nn.utils.clip_grad_norm_(iter(parameters), 5.0, norm_type).item()
        assert again == pytest.approx(1.0, rel=1e-5) and parameters[1].grad.item() == pytest.approx(12 / norm, rel=1e-5)

    @pytest.mark.parametrize("norm_type", [0.5, 1.0, 2.0, float("inf"), 0.0])
    def test_in_float64_nothing_is_rounded_to_less(self, norm_type):
        torch, values = pytest.importorskip("torch"), [1 / 3, -2 / 3, 1 / 7]
        actual, expected = [], []
        for results, module, tensor, float64 in [(actual, nn, ternion.tensor, ternion.float64), (expected, torch.nn, torch.tensor, torch.float64)]:
            parameter = module.Parameter(tensor(values, dtype=float64))
            parameter.grad = tensor(values, dtype=float64)
            norm = module.utils.clip_grad_norm_([parameter], 0.1, norm_type)
            assert norm.dtype == float64
            results += [norm.item(), *parameter.grad.tolist()]
        assert actual == pytest.approx(expected, rel=1e-14)

    def test_norms_of_half_precision_do_not_overflow(self):
        half_tensors = [ternion.full((4,), 30000.0, dtype="float16"), ternion.full((2,), 30000.0, dtype="bfloat16")]
        for norm_type, norm in [(1.0, 180000.0), (2.0, 30000 * 6**0.5)]:
            assert nn.utils.get_total_norm(half_tensors, norm_type).item() == pytest.approx(norm, rel=1e-2)

    def test_what_is_not_finite_can_be_an_error(self):
        parameters = self.gradients()
        parameters[1].grad = ternion.tensor([float("nan")])
        with pytest.raises(RuntimeError, match="the norm of the gradients is nan"):
            nn.utils.clip_grad_norm_(parameters, 1.0, error_if_nonfinite=True)
        assert parameters[0].grad.tolist() == [3, -4]

    def test_without_gradients(self):
        parameters = [nn.Parameter(ternion.ones(2))]
        for norm in (nn.utils.clip_grad_norm_(parameters, 1.0), nn.utils.clip_grad_norm_([], 1.0, 1.0, True), nn.utils.clip_grad_norm_(parameters[0], 1.0)):
            assert norm.shape == () and norm.item() == 0.0
        nn.utils.clip_grad_value_(parameters, 1.0, foreach=True)
        assert nn.utils.get_total_norm([]).item() == 0.0

    def test_of_plain_tensors(self):
        x = ternion.zeros(2, requires_grad=True)
        x.grad = ternion.tensor([3.0, 4.0])
        assert nn.utils.clip_grad_norm_(x, 1.0, foreach=False).item() == 5 and x.grad.tolist() == pytest.approx([0.6, 0.8], rel=1e-5)
        nn.utils.clip_grads_with_norm_([x], 0.5, ternion.tensor(1.0))
        assert x.grad.tolist() == pytest.approx([0.3, 0.4], rel=1e-5)

    def test_as_one_vector(self):
        parameters = [nn.Parameter(ternion.ones(2, 2)), nn.Parameter(ternion.zeros(1))]
        vector = nn.utils.parameters_to_vector(parameters)
        assert vector.tolist() == [1, 1, 1, 1, 0]
        nn.utils.vector_to_parameters(ternion.arange(5.0), parameters)
        assert parameters[0].tolist() == [[0, 1], [2, 3]] and parameters[1].tolist() == [4]
        with pytest.raises(ValueError, match="a vector of shape \\(4,\\), expected \\(5,\\)"):
            nn.utils.vector_to_parameters(ternion.arange(4.0), parameters)

    def test_by_values(self):
        parameters = self.gradients()
        nn.utils.clip_grad_value_(parameters, 3.5)
        assert parameters[0].grad.tolist() == [3, -3.5] and parameters[1].grad.item() == 3.5


class TestAverages:
    def trained(self, model, averages, steps=5):
        sgd = optim.SGD(model.parameters(), lr=0.1)
        for step in range(steps):
            sgd.zero_grad()
            model(ternion.ones(4, 2) * (step + 1)).square().mean().backward()
            sgd.step()
            averages(step)

    def test_ema_by_its_formula(self):
        model = nn.Linear(2, 1)
        expected = model.weight.detach().clone()
        ema = optim.Ema(model, decay=0.8)

        def average(_):
            nonlocal expected
            ema.update()
            expected = 0.8 * expected + 0.2 * model.weight.detach()

        self.trained(model, average)
        own = model.weight.detach().clone()
        with ema.averaged():
            assert model.weight.allclose(expected, atol=1e-6)
            with pytest.raises(RuntimeError, match="update while the averages are in the model"):
                ema.update()
        assert model.weight.equal(own)
        with pytest.raises(RuntimeError, match="swap_in first"):
            ema.swap_out()

    def test_ema_that_warms_up_and_has_buffers(self):
        model = nn.BatchNorm1d(2)
        ema = optim.Ema(model, decay=0.9, warmup=True, buffers=model.named_buffers())
        model.running_mean.fill_(11.0)
        ema.update()
        state = ema.state_dict()
        assert state["average.running_mean"].tolist() == pytest.approx([11 * 9 / 11] * 2)
        assert state["n_averaged"].item() == 1 and "average.num_batches_tracked" not in state
        other = optim.Ema(model, buffers=model.named_buffers())
        other.load_state_dict(state)
        assert other.state_dict()["average.running_mean"].equal(state["average.running_mean"]) and other.updates == 1
        with pytest.raises(ValueError, match="missing: average.weight; extra: more"):
            other.load_state_dict({**{key: value for key, value in state.items() if key != "average.weight"}, "more": state["n_averaged"]})

    def test_ema_of_half_precision_is_of_float32(self):
        model = nn.Linear(2, 1).bfloat16()
        ema = optim.Ema(model, decay=0.999)
        before = model.weight.detach().float()
        with ternion.no_grad():
            model.weight.add_(1.0)
        ema.update()
        change = ema.state_dict()["average.weight"] - before
        assert change.tolist()[0] == pytest.approx([0.001, 0.001], rel=0.05)
        model.double()
        with pytest.raises(ValueError, match="make the averages after moving or casting the model"):
            ema.update()

    def test_ema_rejects(self):
        model = nn.Linear(2, 1)
        with pytest.raises(ValueError, match="decay 1.5, expected 0 to 1"):
            optim.Ema(model, 1.5)
        with pytest.raises(ValueError, match="no parameters"):
            optim.Ema([])
        with pytest.raises(ValueError, match=r"^Ema: .* is given twice: it is weight of Linear 'model' already$"):
            optim.Ema([model.weight, model.weight])
        with pytest.raises(ValueError, match="^Ema: the name 'weight' is given twice$"):
            optim.Ema([("weight", model.weight), ("weight", model.bias)])

    @pytest.mark.parametrize("kind", ["mean", "ema", "multi"])
    @pytest.mark.parametrize("use_buffers", [False, True])
    def test_averaged_model_is_pytorchs(self, kind, use_buffers):
        torch = pytest.importorskip("torch")

        def averaged(utils, model):
            options = {"mean": {}, "ema": dict(avg_fn=utils.get_ema_avg_fn(0.7)), "multi": dict(multi_avg_fn=utils.get_ema_multi_avg_fn(0.7))}
            return utils.AveragedModel(model, use_buffers=use_buffers, **options[kind])

        ternion_model, torch_model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)), torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
        ours, theirs = averaged(optim.swa_utils, ternion_model), averaged(torch.optim.swa_utils, torch_model)
        assert set(ours.state_dict()) == set(theirs.state_dict())
        for _ in range(4):
            for parameter in torch_model.parameters():
                parameter.data = torch.randn_like(parameter)
            torch_model(torch.randn(5, 2))
            ternion_model.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_model.state_dict().items()})
            ours.update_parameters(ternion_model), theirs.update_parameters(torch_model)
        for key, value in theirs.state_dict().items():
            if key == "module.1.num_batches_tracked":
                # A count is not averaged. With use_buffers, PyTorch averages it and truncates it to
                # an integer at every step.
                assert ours.state_dict()[key].item() == 4
                continue
            assert abs(ours.state_dict()[key].double().numpy() - value.double().numpy()).max() < 1e-5, key

    def test_statistics_are_computed_anew(self):
        torch = pytest.importorskip("torch")
        ternion_layer, torch_layer = nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)
        batches = [torch.randn(6, 3) for _ in range(4)]
        optim.swa_utils.update_bn([[ternion.tensor(batch.numpy())] for batch in batches], ternion_layer.eval())
        torch.optim.swa_utils.update_bn(batches, torch_layer)
        assert abs(ternion_layer.running_var.numpy() - torch_layer.running_var.numpy()).max() < 1e-6
        assert not ternion_layer.training and ternion_layer.momentum == 0.1


def test_states_are_called_by_the_parameters_names():
    model = nn.Linear(2, 1)
    adam = optim.Adam([{"params": model.named_parameters()}, {"params": [("weight", nn.Parameter(ternion.ones(1)))]}])
    for group in adam.param_groups:
        for parameter in group["params"]:
            parameter.grad = ternion.ones(parameter.shape)
    adam.step()
    keys = [sorted(key for key in state if key.endswith(".step")) for state in adam.state_dict()["state"]]
    assert keys == [["bias.step", "weight.step"], ["weight#2.step"]]


@pytest.mark.parametrize("closed", [False, True])
def test_hooks_around_a_step_are_pytorchs(closed):
    torch = pytest.importorskip("torch")

    def hook_calls(m, optim):
        weight, calls = m.nn.Parameter(m.ones(2)), []
        sgd = optim.SGD([weight], lr=0.5)
        before = sgd.register_step_pre_hook(lambda optimizer, args, kwargs: calls.append(("before", optimizer is sgd, len(args), len(kwargs), weight.tolist())))
        sgd.register_step_post_hook(lambda optimizer, args, kwargs: calls.append(("after", optimizer is sgd, len(args), len(kwargs), weight.tolist())))

        def closure():
            sgd.zero_grad()
            loss = (weight * weight).sum()
            loss.backward()
            return loss

        closure()
        result = sgd.step(closure) if closed else sgd.step()
        before.remove()
        closure()
        sgd.step()
        return calls, None if result is None else result.item()

    assert hook_calls(ternion, optim) == hook_calls(torch, torch.optim)


def test_a_hook_before_a_step_may_change_its_arguments():
    weight = nn.Parameter(ternion.ones(1))
    sgd = optim.SGD([weight], lr=1.0)
    handle = sgd.register_step_pre_hook(lambda optimizer, args, kwargs: ((optimizer, lambda: 3.0), {}))
    weight.grad = ternion.ones(1)
    assert sgd.step() == 3.0 and weight.tolist() == [0.0]
    handle.remove()
    sgd.register_step_pre_hook(lambda optimizer, args, kwargs: 1)
    with pytest.raises(RuntimeError, match="a step pre-hook returned 1"):
        sgd.step()
    with pytest.raises(TypeError, match="a hook of type int"):
        sgd.register_step_post_hook(1)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Lion"])
def test_a_state_of_fewer_parameters_is_rejected(kind):
    def stepped(count):
        parameters = [nn.Parameter(ternion.ones(2)) for _ in range(count)]
        optimizer = getattr(optim, kind)(parameters, lr=0.1)
        for _ in range(2):
            optimizer.zero_grad()
            sum((parameter**2).sum() for parameter in parameters).backward()
            optimizer.step()
        return optimizer

    before = stepped(3)
    saved = {name: value.tolist() for states in before.state.values() for name, value in states.items()}
    for count in (1, 2, 4):
        with pytest.raises(ValueError, match=rf"{kind}: a state of groups of \[{count}\] parameters, expected \[3\]"):
            before.load_state_dict(stepped(count).state_dict())
    assert saved == {name: value.tolist() for states in before.state.values() for name, value in states.items()}
    assert before.state_dict()["param_groups"][0]["params"] == [0, 1, 2]
    before.load_state_dict(stepped(3).state_dict())
