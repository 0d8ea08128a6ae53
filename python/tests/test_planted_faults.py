"""Faults that are planted in small training runs: each is reported, with the name of the op, layer
or parameter."""

import math
import warnings

import pytest

import ternion
from ternion import amp, nn, optim

F = nn.functional


def watched(model, steps=1, rate=0.01, parameters=None, loss_of=None, x=None, optimizer=optim.SGD, strict=False, patience=5):
    """Returns the warnings of a StatsMonitor about a training run, by fault, and the Python
    warnings."""
    x = ternion.randn(16, 8) if x is None else x
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        monitor = nn.utils.StatsMonitor(model, every=1, patience=patience)
        created = optimizer(list(model.parameters() if parameters is None else parameters), lr=rate, strict=strict)
        result = {}
        for step in range(steps):
            created.zero_grad()
            with monitor.watch(step):
                output = model(x)
                loss = output.square().mean() if loss_of is None else loss_of(output)
            loss.backward()
            for warning in monitor.step(created).all_warnings:
                result.setdefault(warning.fault, warning)
    return result, [str(each.message) for each in caught]


def mlp(*widths, activation=nn.ReLU):
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), activation())]
    return nn.Sequential(*layers[:-1])


def test_a_healthy_training_causes_no_warnings():
    for optimizer in (optim.SGD, optim.AdamW):
        assert watched(mlp(8, 16, 4), steps=3, optimizer=optimizer, strict=True) == ({}, [])


class Forgetful(nn.Module):
    """Its custom parameters() omits a layer."""

    def __init__(self):
        self.first, self.second = nn.Linear(8, 8), nn.Linear(8, 8)

    def parameters(self, recurse=True):
        return iter(list(self.first.parameters()))

    def forward(self, x):
        return self.second(self.first(x).tanh())


def test_a_layer_that_parameters_forgets():
    model = Forgetful()
    result, messages = watched(model)
    assert "MissingGradient" not in result
    assert result["NotUpdated"].layer == "second" and result["NotUpdated"].message.startswith("second.weight: its gradient is not 0, but the step left it as it was")
    assert len(messages) == 1 and messages[0].startswith("SGD: second.weight [8, 8], second.bias [8]: gradients come to them, but no optimizer has them"), messages
    with pytest.raises(RuntimeError, match=r"second.weight \[8, 8\], .*an error, as the optimizer is strict"):
        watched(Forgetful(), strict=True)


def test_an_optimizer_of_some_of_the_parameters():
    model = mlp(8, 16, 4)
    result, messages = watched(model, parameters=model[0].parameters())
    assert result["NotUpdated"].layer == "2" and "2.weight [4, 16], 2.bias [4]" in messages[0]
    model[2].requires_grad_(False)
    assert watched(model, parameters=model[0].parameters()) == ({}, [])


def test_two_optimizers_share_the_parameters():
    model = mlp(8, 16, 4)
    others = optim.SGD(model[2].parameters(), lr=0.01)
    assert watched(model, parameters=model[0].parameters())[1] == []
    del others


def test_a_network_that_is_no_module():
    class Network:
        def __init__(self):
            self.one, self.two = nn.Linear(8, 8), nn.Linear(8, 4)

    network = Network()
    adam = optim.Adam(network.one.parameters(), lr=0.01)
    network.two(network.one(ternion.randn(3, 8))).square().mean().backward()
    with pytest.warns(UserWarning, match=r"Adam: weight of Linear 'network.two' \[4, 8\], bias of Linear 'network.two' \[4\]: gradients come to them"):
        adam.step()
    # It is reported once.
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adam.step()


def test_gradients_of_other_models_are_no_fault():
    teacher, student = mlp(8, 4), mlp(8, 4)
    teacher(ternion.randn(3, 8)).sum().backward()
    sgd = optim.SGD(student.parameters(), lr=0.1, strict=True)
    student(ternion.randn(3, 8)).square().mean().backward()
    sgd.step()


class Perturbed(nn.Module):
    """A model whose inputs are shifted by a tensor that requires a gradient, or that keeps an input
    that requires one."""

    def __init__(self, keeps_input=False):
        self.layer, self.keeps_input = nn.Linear(8, 4), keeps_input
        self.shift = ternion.zeros(8, requires_grad=True)

    def forward(self, x):
        if self.keeps_input:
            self.kept = x
            return self.layer(x)
        return self.layer(x + self.shift)


def test_latents_with_an_optimizer_of_their_own_are_no_fault():
    model = Perturbed()
    sgd, latents = optim.SGD(model.parameters(), lr=0.1, strict=True), optim.Adam([model.shift], lr=0.1, strict=True)
    for _ in range(2):
        sgd.zero_grad(), latents.zero_grad()
        model(ternion.randn(3, 8)).square().mean().backward()
        sgd.step(), latents.step()


def test_an_adversarial_shift_that_is_moved_by_hand_is_no_fault():
    model = Perturbed()
    sgd = optim.SGD(model.parameters(), lr=0.1, strict=True)
    for _ in range(3):
        sgd.zero_grad()
        model.shift.grad = None
        model(ternion.randn(3, 8)).square().mean().backward()
        with ternion.no_grad():
            model.shift.add_(0.01 * model.shift.grad.sign())
        sgd.step()


def test_an_input_that_a_module_keeps_is_no_fault():
    model = Perturbed(keeps_input=True)
    sgd = optim.SGD(model.parameters(), lr=0.1, strict=True)
    model(ternion.randn(3, 8, requires_grad=True)).square().mean().backward()
    assert model.kept.grad is not None
    sgd.step()


def test_gradients_of_before_are_not_taken_for_those_of_a_model_that_was_replaced():
    other, model = mlp(8, 4), mlp(8, 4)
    other(ternion.randn(3, 8)).sum().backward()
    with pytest.warns(UserWarning, match="no gradient for 0.weight, 0.bias: the loss does not depend on them, or backward"):
        optim.SGD(model.parameters(), lr=0.1).step()


class Own(optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, {})

    @ternion.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.sub_(parameter.grad)


def test_an_optimizer_of_ones_own_of_some_of_the_parameters():
    model = mlp(8, 4, 4)
    steps = Own(model[0].parameters())
    model(ternion.randn(3, 8)).sum().backward()
    with pytest.warns(UserWarning, match=r"Own: 2.weight of Sequential 'model' \[4, 4\], 2.bias of Sequential 'model' \[4\]: gradients come to them"):
        steps.step()


def test_a_layer_that_is_repeated_by_a_list():
    model = nn.Sequential(*[nn.Linear(8, 8)] * 3)
    _, messages = watched(model)
    assert len(messages) == 1 and messages[0].startswith("StatsMonitor: 0, 1, 2 are one Linear: its parameters are used 3 times; make a layer for each use")
    relu = nn.ReLU()
    assert watched(nn.Sequential(nn.Linear(8, 8), relu, nn.Linear(8, 8), relu))[1] == []


@pytest.mark.parametrize("row, name", [(nn.Sequential, "Sequential"), (nn.ModuleList, "ModuleList"), (lambda *layers: Rows(list(layers)), "Rows")])
def test_a_strict_optimizer_rejects_a_layer_that_is_repeated_by_a_list(row, name):
    def step(layers, strict):
        model = row(*layers) if row is not nn.ModuleList else row(layers)
        sgd, x = optim.SGD(model.parameters(), lr=0.1, strict=strict), ternion.randn(4, 8)
        for layer in layers:
            x = layer(x)
        x.square().mean().backward()
        sgd.step()

    keys = "layers.0, layers.1, layers.2" if name == "Rows" else "0, 1, 2"
    with pytest.raises(RuntimeError, match=f"SGD: {keys} of {name} are one Linear, whose parameters are used 3 times: create a layer for each use"):
        step([nn.Linear(8, 8)] * 3, True)
    with pytest.raises(RuntimeError, match="are one Sequential, whose parameters are used 2 times"):
        step([mlp(8, 8, 8)] * 2, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        step([nn.Linear(8, 8)] * 3, False)
        step([nn.Linear(8, 8) for _ in range(3)], True)
        step([nn.Linear(8, 8), *[nn.ReLU()] * 2], True)


class Rows(nn.Module):
    def __init__(self, layers):
        self.layers = layers


class Shares(nn.Module):
    """Layers that share parameters intentionally: under several names, by their weights, and as a
    recurrent cell that is called at each step."""

    def __init__(self):
        self.encoder, self.head, self.cell = nn.Linear(8, 8), nn.Linear(8, 8), nn.RNNCell(8, 8)
        self.decoder, self.head.weight = self.encoder, self.encoder.weight
        self.by_name = nn.ModuleDict({"one": self.encoder, "other": self.encoder})

    def forward(self, x):
        state = None
        for _ in range(3):
            state = self.cell(x, state)
        return self.head(self.decoder(self.encoder(state).tanh()).tanh())


def test_layers_that_share_on_purpose_are_no_fault():
    model = Shares()
    sgd = optim.SGD(model.parameters(), lr=0.1, strict=True)
    model(ternion.randn(4, 8)).square().mean().backward()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sgd.step()


def test_layers_that_are_left_out_are_named_by_the_module_that_has_them():
    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(4)])
    sgd = optim.SGD(model[3].parameters(), lr=0.01, strict=True)
    model(ternion.randn(4, 8)).square().mean().backward()
    with pytest.raises(RuntimeError, match=r"SGD: 0.weight of Sequential 'model' \[8, 8\], 0.bias of Sequential 'model' \[8\], 1.weight of Sequential 'model' .* and 1 others: gradients"):
        sgd.step()


class Branches(nn.Module):
    def __init__(self, cut):
        self.one, self.other, self.cut = nn.Linear(8, 8), nn.Linear(8, 8), cut

    def forward(self, x):
        return self.one(x) + self.cut(self.other(x))


@pytest.mark.parametrize("cut", [lambda x: x.detach(), lambda x: ternion.tensor(x.detach().numpy())])
def test_a_branch_that_is_detached(cut):
    result = watched(Branches(cut))[0]["MissingGradient"]
    assert result.layer == "other" and "the layer was computed, but nothing came back from the loss" in result.message
    assert "other.weight and other.bias" in result.message


def test_a_layer_that_is_not_used():
    class Unused(Branches):
        def forward(self, x):
            return self.one(x)

    result = watched(Unused(None))[0]["MissingGradient"]
    assert result.layer == "other" and "the loss does not depend on this layer" in result.message


def test_layers_that_are_not_frozen():
    model = mlp(8, 4, 4)
    with pytest.warns(UserWarning, match=r"Linear.requires_grad = False sets an attribute that nothing reads: requires_grad_\(False\)"):
        model[0].requires_grad = False
    _, messages = watched(model, parameters=model[2].parameters())
    assert "0.weight [4, 8]" in messages[0] and "freeze them by requires_grad_(False)" in messages[0]


def test_a_scaled_loss_without_its_scaler():
    model = mlp(8, 4)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=0.1)
    scaler.scale(model(ternion.randn(3, 8)).square().mean()).backward()
    with pytest.warns(UserWarning, match=r"SGD: the gradients are those of a loss times 1024, by a GradScaler: call its step\(optimizer\)"):
        sgd.step()
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=0.1, strict=True)
    for _ in range(2):
        sgd.zero_grad()
        scaler.scale(model(ternion.randn(3, 8)).square().mean()).backward()
        scaler.step(sgd)
        scaler.update()


def test_a_loss_of_another_scale():
    model = mlp(8, 16, 4)
    result, _ = watched(model, loss_of=lambda output: output.square().sum() * 1e4)
    assert result["LargeUpdates"].layer in ("0", "2") and "divide the learning rate" in result["LargeUpdates"].message
    result, _ = watched(model, steps=5, rate=1e-3, loss_of=lambda output: output.square().mean() * 1e-9)
    assert result["SmallUpdates"].layer in ("0", "2") and "the gradients, are too small" in result["SmallUpdates"].message


def test_a_parameter_that_is_given_twice():
    layer, model = nn.Linear(8, 8), mlp(8, 16, 4)
    with pytest.raises(ValueError, match="^SGD: parameter 2 is given twice: it is weight of Linear 'layer' already$"):
        optim.SGD([*layer.parameters(), layer.weight], lr=0.1)
    with pytest.raises(ValueError, match="^AdamW: parameter 4 is given twice: it is 2.weight already$"):
        optim.AdamW([*model.parameters(), model[2].weight])
    with pytest.raises(ValueError, match="^SGD: parameter 1 is given twice: it is 0.bias of Sequential 'other' already$"):
        other = mlp(8, 4, 4)
        optim.SGD([{"params": [other[0].bias]}, {"params": [other[0].bias]}], lr=0.1)
    with pytest.raises(ValueError, match="^SGD: head is given twice: it is tensor already$"):
        tensor = ternion.zeros(2, requires_grad=True)
        optim.SGD([("tensor", tensor), ("head", tensor)], lr=0.1)


def test_a_backward_that_is_missing():
    model = mlp(8, 4)
    with pytest.warns(UserWarning, match="no gradient for 0.weight, 0.bias: the loss does not depend on them, or backward"):
        optim.SGD(model.parameters(), lr=0.1).step()
    with pytest.raises(RuntimeError, match="no gradient for 0.weight, 0.bias"):
        optim.SGD(model.parameters(), lr=0.1, strict=True).step()


def test_weights_that_are_none():
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[2].weight[0, 0] = math.nan
    result = watched(model)[0]["NotFinite"]
    assert result.layer == "2" and "2.weight holds such numbers already" in result.message


def test_data_that_are_none():
    x = ternion.randn(16, 8)
    x[3, 4] = math.inf
    result = watched(mlp(8, 16, 4), x=x)[0]["NotFinite"]
    assert result.message.startswith("input: 1 of 128 numbers are infinite") and "clean the data" in result.message


def test_an_infinite_slope():
    class Root(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return (self.layer(x) * 0).sqrt()

    result = watched(Root())[0]["NotFinite"]
    assert result.layer == "layer" and "though all outputs are finite" in result.message


def test_first_weights_that_are_too_large_or_too_small():
    model = mlp(8, 16, 16, 4)
    with ternion.no_grad():
        model[2].weight.mul_(1e6)
    assert watched(model, rate=1e-12)[0]["ExplodingOutputs"].layer == "2"
    sigmoids = mlp(*[8] * 9, activation=nn.Sigmoid)
    assert watched(sigmoids)[0]["VanishingGradients"].layer == "0"
    assert watched(mlp(8, 16, 4), rate=1e4)[0]["LargeUpdates"].layer in ("0", "2")


def test_units_that_are_dead():
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[0].bias.fill_(-1e3)
    result = watched(model)[0]
    assert result["DeadReLU"].layer == "1" and "all its outputs are 0" in result["DeadReLU"].message


def test_a_rounding_behind_a_layer():
    class Rounds(nn.Module):
        def __init__(self):
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            return self.last(self.first(x).round())

    result = watched(Rounds(), steps=5)[0]["ZeroGradient"]
    assert result.layer == "first" and "a rounding" in result.message


def test_a_target_of_another_shape():
    with pytest.warns(UserWarning, match=r"mse_loss: input has shape \[4, 1\] and target \[4\]"):
        F.mse_loss(ternion.randn(4, 1), ternion.randn(4))


def test_labels_that_are_no_classes():
    with pytest.raises(IndexError, match="cross_entropy: index 4 is out of range for size 4"):
        F.cross_entropy(ternion.randn(2, 4), ternion.tensor([0, 4]))


def test_a_tensor_that_is_changed_after_it_was_saved():
    x = ternion.randn(3, requires_grad=True)
    y = x * 2
    z = y * y
    with ternion.no_grad():
        y.add_(1)
    with pytest.raises(RuntimeError, match="mul.*changed in place"):
        z.sum().backward()


def test_an_optimizer_that_was_made_before_the_model_was_cast():
    model = nn.Linear(8, 4)
    adam = optim.Adam(model.parameters(), lr=0.1)
    model(ternion.randn(2, 8)).sum().backward()
    adam.step()
    adam.zero_grad()
    model.double()
    model(ternion.randn(2, 8).double()).sum().backward()
    with pytest.raises((RuntimeError, ValueError), match=r"adam: weight is \[4, 8\] float64 on cpu now, but its state"):
        adam.step()


def test_a_graph_is_drawn():
    model = mlp(8, 4)
    loss = model(ternion.randn(2, 8)).square().mean()
    dot = ternion.autograd.to_dot(loss, model)
    assert dot.startswith("digraph") and "0.weight" in dot and "mean" in dot
    assert "std" in ternion.autograd.to_dot(loss, {"loss": loss}, statistics=True)
    with pytest.raises(RuntimeError, match="to_dot: nothing was recorded"):
        ternion.autograd.to_dot(ternion.ones(2))
    for arguments in ((3, None), (loss, 3)):
        with pytest.raises(TypeError, match="to_dot: "):
            ternion.autograd.to_dot(*arguments)
