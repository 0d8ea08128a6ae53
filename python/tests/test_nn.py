"""Layers, losses and modules compared with PyTorch: with the reference values of the repository,
and with PyTorch itself if it is installed."""

import inspect

import pytest
import reference

import ternion
from ternion import nn, optim

LAYERS = {
    "linear": lambda: nn.Linear(3, 2),
    "linear_rank_3": lambda: nn.Linear(3, 2),
    "conv2d": lambda: nn.Conv2d(2, 3, 3),
    "conv2d_general": lambda: nn.Conv2d(4, 6, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2),
    "layer_norm": lambda: nn.LayerNorm(5),
    "max_pool2d": lambda: nn.MaxPool2d(2),
    "avg_pool2d": lambda: nn.AvgPool2d(2),
    "batch_norm2d": lambda: nn.BatchNorm2d(2),
    "relu": nn.ReLU,
    "leaky_relu": nn.LeakyReLU,
    "elu": nn.ELU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
    "silu": nn.SiLU,
    "softplus": nn.Softplus,
    "tanh": nn.Tanh,
    "sigmoid": nn.Sigmoid,
    "softmax": lambda: nn.Softmax(dim=-1),
    "log_softmax": lambda: nn.LogSoftmax(dim=0),
    "flatten": nn.Flatten,
}


def test_every_layer_of_the_reference_is_tested():
    assert set(LAYERS) == set(reference.read_results()["layers"])


@pytest.mark.parametrize("name", LAYERS)
def test_layers_equal_pytorchs(name):
    case = reference.read_results()["layers"][name]
    layer = LAYERS[name]().double()
    parameters = dict(layer.named_parameters())
    assert list(parameters) == list(case["parameters"])
    layer.load_state_dict({key: reference.tensor(value) for key, value in case["parameters"].items()}, strict=name != "batch_norm2d")
    inputs = [reference.tensor(entry).requires_grad_() for entry in case["inputs"]]
    output = layer(*inputs)
    reference.close(output, case["output"])
    output.backward(reference.tensor(case["cotangent"]))
    for x, entry in zip(inputs, case["grad_inputs"]):
        reference.close(x.grad, entry)
    for key, entry in case["grad_parameters"].items():
        reference.close(parameters[key].grad, entry)
    if parameters:
        adam = optim.AdamW(layer.named_parameters(), lr=0.01, eps=1e-2)
        for _ in range(3):
            adam.zero_grad()
            layer(*inputs).square().mean().backward()
            adam.step()
        for key, entry in case["stepped"].items():
            reference.close(parameters[key], entry)


def test_batch_norm_rejects_a_single_value_a_channel():
    layer = nn.BatchNorm1d(4)
    with pytest.raises(ValueError, match="batch_norm: training on shape \\[1, 4\\]: a channel of 1 value has no variance"):
        layer(ternion.ones(1, 4))
    assert layer.running_var.tolist() == [1.0] * 4 and layer.num_batches_tracked.item() == 0
    assert layer.eval()(ternion.ones(1, 4)).shape == (1, 4)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d, nn.BatchNorm2d, nn.InstanceNorm1d, nn.InstanceNorm2d])
def test_running_statistics_have_the_dtype_of_the_layer(layer):
    for dtype in (ternion.float64, ternion.float16):
        norm = layer(2, affine=True, track_running_stats=True, dtype=dtype)
        assert {name: tensor.dtype for name, tensor in norm.state_dict().items() if name != "num_batches_tracked"} == dict.fromkeys(
            ["weight", "bias", "running_mean", "running_var"], dtype
        )
    norm = nn.BatchNorm1d(1, dtype=ternion.float64)
    norm(ternion.tensor([[1.0], [2.0]], dtype=ternion.float64))
    assert (norm.running_mean.item(), norm.running_var.item()) == pytest.approx((0.15, 0.95), abs=1e-15)


def test_batch_norm_follows_its_batches():
    case = reference.read_results()["batch_norm"]
    norm = nn.BatchNorm2d(2).double()
    for batch in case["batches"]:
        norm(reference.tensor(batch))
    for key, entry in case["state"].items():
        reference.close(norm.state_dict()[key].double(), entry)
    reference.close(norm.eval()(reference.tensor(case["input"])), case["output"])


LOSSES = {
    "cross_entropy": (nn.CrossEntropyLoss, "x", "classes"),
    "cross_entropy_ignoring": (nn.CrossEntropyLoss, "x", "ignoring"),
    "cross_entropy_smoothed": (lambda: nn.CrossEntropyLoss(label_smoothing=0.1), "x", "classes"),
    "cross_entropy_sum": (lambda: nn.CrossEntropyLoss(reduction="sum"), "x", "classes"),
    "cross_entropy_each": (lambda: nn.CrossEntropyLoss(reduction="none"), "x", "classes"),
    "cross_entropy_probabilities": (nn.CrossEntropyLoss, "x", "probabilities"),
    "cross_entropy_weighted": (lambda: nn.CrossEntropyLoss(weights()), "x", "ignoring"),
    "cross_entropy_weighted_smoothed": (lambda: nn.CrossEntropyLoss(weights(), label_smoothing=0.1), "x", "ignoring"),
    "cross_entropy_weighted_probabilities": (lambda: nn.CrossEntropyLoss(weights(), label_smoothing=0.1), "x", "probabilities"),
    "nll": (nn.NLLLoss, "log_x", "classes"),
    "nll_weighted": (lambda: nn.NLLLoss(weights()), "log_x", "ignoring"),
    "mse": (nn.MSELoss, "x", "target"),
    "l1": (nn.L1Loss, "x", "target"),
    "huber": (nn.HuberLoss, "x", "target"),
    "huber_half": (lambda: nn.HuberLoss(delta=0.5, reduction="sum"), "x", "target"),
    "bce_with_logits": (nn.BCEWithLogitsLoss, "x", "shares"),
    "kl_div": (nn.KLDivLoss, "log_x", "probabilities"),
}


def weights():
    return reference.tensor(reference.read_results()["losses"]["inputs"]["class_weights"])


@pytest.mark.parametrize("name", LOSSES)
def test_losses_equal_pytorchs(name):
    recorded = reference.read_results()["losses"]
    make, left, right = LOSSES[name]
    targets = {"classes": ternion.tensor([2, 0, 3]), "ignoring": ternion.tensor([2, -100, 3])}
    target = targets[right] if right in targets else reference.tensor(recorded["inputs"][right])
    reference.close(make()(reference.tensor(recorded["inputs"][left]), target), recorded["values"][name])


def test_defaults_are_pytorchs():
    """For every class in both libraries: each setting that is a number, a string or None."""
    compared = 0
    for name, defaults in reference.read_results()["defaults"].items():
        kind = getattr(nn, name, None) or getattr(optim, name, None)
        if kind is None:
            continue
        if name in ("LeakyReLU", "ELU", "GELU", "Softplus"):
            own = vars(kind())
        else:
            own = {key: value.default for key, value in inspect.signature(kind.__init__).parameters.items()}
        for setting, default in defaults.items():
            if setting in own and not (name == "SGD" and setting == "lr"):
                result = list(own[setting]) if isinstance(own[setting], tuple) else own[setting]
                assert result == default, (name, setting)
                compared += 1
    assert compared > 60


class Nested(nn.Module):
    def __init__(self):
        self.first = [nn.Linear(4, 5), nn.Linear(5, 5)]
        self.heads = {"a": nn.Linear(5, 2), "b": nn.Linear(5, 3, bias=False)}
        self.scale = nn.Parameter(ternion.ones(5))
        self.tied = self.first[1]
        self.register_buffer("count", ternion.zeros(1))
        self.register_buffer("scratch", ternion.zeros(1), persistent=False)
        self.note = "no module"

    def forward(self, x):
        for layer in self.first:
            x = layer(x).relu()
        return self.heads["a"](x * self.scale), self.heads["b"](self.tied(x))


class TestModule:
    def test_everything_is_found(self):
        model = Nested()
        first = ["first.0.weight", "first.0.bias", "first.1.weight", "first.1.bias"]
        heads = ["heads.a.weight", "heads.a.bias", "heads.b.weight"]
        assert [key for key, _ in model.named_parameters()] == ["scale", *first, *heads]
        assert list(model.state_dict()) == ["scale", "count", *first, *heads, "tied.weight", "tied.bias"]
        assert [key for key, _ in model.named_buffers()] == ["count", "scratch"]
        assert [key for key, _ in model.named_children()] == ["first.0", "first.1", "heads.a", "heads.b"]
        assert len(list(model.modules())) == 5

    def test_state_goes_to_another_model(self):
        one, two = Nested(), Nested()
        two.load_state_dict(one.state_dict())
        x = ternion.randn(3, 4)
        assert all(a.equal(b) for a, b in zip(one(x), two(x)))

    def test_a_state_that_does_not_fit_changes_nothing(self):
        model = Nested()
        before = {key: value.clone() for key, value in model.state_dict().items()}
        state = {**before, "scale": ternion.ones(6), "other": ternion.ones(1)}
        del state["count"]
        with pytest.raises(RuntimeError) as error:
            model.load_state_dict(state)
        assert str(error.value) == (
            "the state does not fit Nested: missing: count; unexpected: other; size mismatch for scale: (6,), expected (5,)"
        )
        assert all(value.equal(before[key]) for key, value in model.state_dict().items())

    def test_modes_and_switches(self):
        model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
        x = ternion.ones(100, 2)
        assert not model(x).equal(model(x))
        model.eval()
        assert model(x).equal(model(x)) and not model[1].training
        model.requires_grad_(False)
        assert not model(x).requires_grad
        model.train().requires_grad_()
        model(x).sum().backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        model.zero_grad()
        assert all(parameter.grad is None for parameter in model.parameters())

    def test_conversion(self):
        model = Nested().double()
        assert {value.dtype for value in model.state_dict().values()} == {ternion.float64}
        parameter = model.scale
        model.float()
        assert model.scale is parameter and parameter.dtype is ternion.float32
        model(ternion.randn(3, 4))[0].sum().backward()
        assert parameter.grad.dtype is ternion.float32

    def test_hooks_and_errors(self):
        model = nn.Linear(2, 2)
        handle = model.register_forward_hook(lambda module, arguments, result: result * 0)
        assert model(ternion.ones(1, 2)).tolist() == [[0, 0]]
        handle.remove()
        assert model(ternion.ones(1, 2)).tolist() != [[0, 0]]
        with pytest.raises(NotImplementedError, match="Module has no forward"):
            nn.Module()(1)
        with pytest.raises(ValueError, match="linear"):
            model(ternion.ones(1, 3))

    def test_repr(self):
        assert repr(nn.Sequential(nn.Linear(2, 3), nn.ReLU())) == (
            "Sequential(\n  (0): Linear(in_features=2, out_features=3, bias=True)\n  (1): ReLU()\n)"
        )


def test_the_same_seed_gives_the_same_model():
    ternion.manual_seed(3)
    one = nn.Linear(5, 4)
    ternion.manual_seed(3)
    two = nn.Linear(5, 4)
    assert one.weight.equal(two.weight) and one.bias.equal(two.bias)
    assert one.weight.abs().max().item() <= 1 / 5**0.5


def test_pytorchs_weights_give_pytorchs_numbers():
    torch = pytest.importorskip("torch")
    torch_model = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3, padding=1), torch.nn.BatchNorm2d(8), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Linear(8 * 4 * 4, 10),
    )  # fmt: skip
    ternion_model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(8 * 4 * 4, 10)
    )
    ternion_model.load_state_dict({key: ternion.from_dlpack(value.detach()) for key, value in torch_model.state_dict().items()})
    x = torch.randn(2, 3, 8, 8)
    for mode in (True, False):
        torch_model.train(mode), ternion_model.train(mode)
        expected, actual = torch_model(x).detach().numpy(), ternion_model(ternion.from_dlpack(x)).detach().numpy()
        assert abs(expected - actual).max() < 1e-5
