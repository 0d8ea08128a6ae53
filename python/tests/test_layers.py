"""Layers, functions and initializers compared with PyTorch: settings, inputs without a batch,
gradients, and errors for invalid arguments."""

import math

import numpy as np
import pytest

import ternion
from ternion import nn
from ternion.nn import functional as F


@pytest.fixture
def torch():
    torch = pytest.importorskip("torch")
    torch.manual_seed(1)
    return torch


def close(actual, expected, tolerance=1e-9):
    np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=tolerance, atol=tolerance)


def both(torch, shape):
    values = torch.randn(*shape, dtype=torch.float64) * 2
    return ternion.tensor(values.numpy()).requires_grad_(), values.requires_grad_()


def same(torch, ternion_layer, torch_layer, shape):
    """Checks that two functions or layers return the same values and gradients."""
    ours, theirs = both(torch, shape)
    actual, expected = ternion_layer(ours), torch_layer(theirs)
    assert actual.shape == tuple(expected.shape)
    close(actual, expected)
    actual.square().sum().backward()
    expected.square().sum().backward()
    close(ours.grad, theirs.grad)


# Name, arguments, settings, shape of the input.
LAYERS = [
    ("ReLU", (), dict(inplace=False), (3, 4)),
    ("ReLU6", (), {}, (30, 4)),
    ("LeakyReLU", (0.2,), {}, (3, 4)),
    ("ELU", (0.7,), {}, (3, 4)),
    ("CELU", (0.5,), {}, (3, 4)),
    ("SELU", (), {}, (3, 4)),
    ("SiLU", (), {}, (3, 4)),
    ("Mish", (), {}, (3, 4)),
    ("GELU", ("tanh",), {}, (3, 4)),
    ("GLU", (1,), {}, (3, 4)),
    ("Hardswish", (), {}, (30, 4)),
    ("Hardtanh", (-0.5, 1.5), {}, (30, 4)),
    ("Hardshrink", (0.4,), {}, (30, 4)),
    ("Softshrink", (0.4,), {}, (30, 4)),
    ("Softplus", (2.0, 1.0), {}, (30, 4)),
    ("Softsign", (), {}, (3, 4)),
    ("Softmin", (1,), {}, (3, 4)),
    ("Tanhshrink", (), {}, (3, 4)),
    ("Threshold", (0.3, -7.0), {}, (3, 4)),
    ("PReLU", (), {}, (3, 4)),
    ("PReLU", (4, 0.3), {}, (3, 4, 5)),
    ("Flatten", (0, 1), {}, (3, 4, 2)),
    ("Unflatten", (1, (2, 2)), {}, (3, 4)),
    ("Conv1d", (4, 6, 3), dict(padding="same"), (2, 4, 9)),
    ("Conv1d", (4, 6, 4), dict(padding="same", dilation=2, groups=2), (2, 4, 9)),
    ("Conv1d", (4, 6, 3), dict(padding=2, padding_mode="circular"), (4, 9)),
    ("Conv2d", (2, 3, 3), dict(padding="valid"), (2, 2, 6, 7)),
    ("Conv2d", (2, 3, (4, 3)), dict(padding="same"), (2, 2, 6, 7)),
    ("Conv2d", (2, 3, (2, 3)), dict(padding="same", padding_mode="reflect"), (2, 2, 6, 7)),
    ("Conv2d", (2, 3, 3), dict(padding=(1, 2), padding_mode="replicate", stride=2, bias=False), (2, 6, 7)),
    ("Conv2d", (2, 3, 3), dict(padding=1), (2, 6, 7)),
    ("ConvTranspose1d", (4, 6, 3), dict(stride=2, padding=1, output_padding=1, groups=2), (2, 4, 5)),
    ("ConvTranspose2d", (2, 3, 3), dict(stride=(2, 1), dilation=2), (2, 4, 5)),
    ("MaxPool1d", (3,), dict(stride=2, padding=1), (2, 3, 9)),
    ("MaxPool1d", (2,), dict(dilation=2, ceil_mode=True), (3, 9)),
    ("MaxPool2d", (2,), {}, (3, 6, 7)),
    ("AvgPool1d", (3,), dict(stride=2, padding=1, count_include_pad=False), (2, 3, 9)),
    ("AvgPool2d", ((2, 3),), dict(ceil_mode=True), (3, 6, 7)),
    ("AdaptiveAvgPool1d", (4,), {}, (2, 3, 9)),
    ("AdaptiveAvgPool2d", ((None, 3),), {}, (3, 6, 7)),
    ("AdaptiveMaxPool1d", (4,), {}, (3, 9)),
    ("AdaptiveMaxPool2d", ((4, 3),), {}, (2, 3, 6, 7)),
    ("InstanceNorm1d", (3,), dict(affine=True), (2, 3, 5)),
    ("InstanceNorm2d", (3,), {}, (3, 5, 4)),
    ("InstanceNorm3d", (3,), dict(affine=True), (2, 3, 2, 3, 2)),
    ("BatchNorm3d", (3,), {}, (2, 3, 2, 3, 2)),
    ("GroupNorm", (2, 4), {}, (3, 4, 5)),
    ("PixelShuffle", (2,), {}, (2, 8, 3, 2)),
    ("PixelUnshuffle", (2,), {}, (3, 4, 6)),
    ("Unfold", ((2, 3),), dict(padding=1), (3, 4, 6)),
    ("Fold", ((4, 5), (2, 2)), {}, (8, 12)),
    ("Upsample", (), dict(scale_factor=2, mode="linear"), (2, 3, 5)),
    ("Upsample", (), dict(size=7), (2, 3, 5)),
    ("UpsamplingBilinear2d", (), dict(scale_factor=2), (2, 3, 4, 5)),
    ("ReflectionPad1d", ((2, 1),), {}, (2, 3, 5)),
    ("ReflectionPad2d", (2,), {}, (2, 3, 4, 5)),
    ("ReplicationPad2d", ((3, 1, 0, 2),), {}, (3, 4, 5)),
    ("CircularPad2d", ((3, 1, 0, 2),), {}, (2, 3, 4, 5)),
    ("ConstantPad1d", (2, 1.5), {}, (3, 5)),
    ("ZeroPad2d", ((1, 0, 2, 1),), {}, (3, 4, 5)),
]


@pytest.mark.parametrize("name, arguments, settings, shape", LAYERS)
def test_layers_are_pytorchs(torch, name, arguments, settings, shape):
    torch_layer = getattr(torch.nn, name)(*arguments, **settings).double()
    ternion_layer = getattr(nn, name)(*arguments, **settings).double()
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
    ternion_layer.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()})
    same(torch, ternion_layer, torch_layer, shape)
    for ours, theirs in zip(ternion_layer.parameters(), torch_layer.parameters()):
        close(ours.grad, theirs.grad)


FUNCTIONS = {
    "normalize": lambda F, x: F.normalize(x, 3.0, 0),
    "cosine_similarity": lambda F, x: F.cosine_similarity(x, x.flip(0), dim=1),
    "pairwise_distance": lambda F, x: F.pairwise_distance(x, x.flip(0), keepdim=True),
    "pad reflect": lambda F, x: F.pad(x.reshape(1, 4, 6), (2, 3), "reflect"),
    "pad replicate": lambda F, x: F.pad(x.reshape(1, 4, 6), (5, 0), mode="replicate"),
    "pad circular": lambda F, x: F.pad(x.reshape(1, 4, 6), (6, 1), mode="circular"),
    "pad constant": lambda F, x: F.pad(x, (1, -2), value=3.0),
    "area": lambda F, x: F.interpolate(x.reshape(1, 1, 4, 6), size=(3, 4), mode="area"),
    "smooth_l1": lambda F, x: F.smooth_l1_loss(x, x.detach().flip(0), beta=0.5),
    "hinge": lambda F, x: F.hinge_embedding_loss(x, (x.detach() > 0).double() * 2 - 1),
    "margin_ranking": lambda F, x: F.margin_ranking_loss(x, x.detach().flip(0), (x.detach() > 0).double() * 2 - 1, 0.3, reduction="sum"),
    "cosine_embedding": lambda F, x: F.cosine_embedding_loss(x, x.detach().flip(0), (x.detach()[:, 0] > 0).double() * 2 - 1, reduction="none"),
    "soft_margin": lambda F, x: F.soft_margin_loss(x, (x.detach() > 0.3).double() * 2 - 1),
    "multilabel": lambda F, x: F.multilabel_soft_margin_loss(x, (x.detach() > 0.3).double(), x.detach()[0].abs()),
    "triplet": lambda F, x: F.triplet_margin_loss(x, x.detach() + 0.2, x.detach().flip(0) * 0.1, swap=True, p=1.5),
    "poisson": lambda F, x: F.poisson_nll_loss(x, x.detach().abs() * 2, full=True),
    "gaussian": lambda F, x: F.gaussian_nll_loss(x, x.detach().flip(0), x.abs() + 0.1, full=True),
    "bce": lambda F, x: F.binary_cross_entropy(x.sigmoid(), (x.detach() > 0.3).double(), x.detach().abs(), reduction="sum"),
    "bce logits": lambda F, x: F.binary_cross_entropy_with_logits(x, (x.detach() > 0.3).double(), x.detach().abs()),
    "cross entropy of one": lambda F, x: F.cross_entropy(x[0], x.detach()[0].softmax(0)),
    "relu": lambda F, x: F.relu(x * 1.0, inplace=True),
    "leaky_relu": lambda F, x: F.leaky_relu(x * 1.0, 0.3, True),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_pytorchs(torch, name):
    call = FUNCTIONS[name]
    same(torch, lambda x: call(F, x), lambda x: call(torch.nn.functional, x), (4, 6))


def test_hardsigmoid_is_its_formula(torch):
    # PyTorch's gradient of hardsigmoid uses 1/6 rounded to float32.
    same(torch, nn.Hardsigmoid(), lambda x: (x + 3).clamp(0, 6) / 6, (30, 4))


def test_bilinear_and_distances_are_pytorchs(torch):
    torch_layer, ternion_layer = torch.nn.Bilinear(3, 4, 2).double(), nn.Bilinear(3, 4, 2).double()
    ternion_layer.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()})
    (a, torch_a), (b, torch_b) = both(torch, (5, 2, 3)), both(torch, (5, 2, 4))
    close(ternion_layer(a, b), torch_layer(torch_a, torch_b))
    close(nn.CosineSimilarity(2)(a, a * a), torch.nn.CosineSimilarity(2)(torch_a, torch_a * torch_a))
    close(nn.PairwiseDistance(1.0)(a, a * a), torch.nn.PairwiseDistance(1.0)(torch_a, torch_a * torch_a))


def test_max_pool_tells_where(torch):
    ours, theirs = both(torch, (3, 9))
    (values, indices), (_, expected) = nn.MaxPool1d(2, return_indices=True)(ours), torch.nn.MaxPool1d(2, return_indices=True)(theirs)
    assert indices.tolist() == expected.tolist() and values.shape == (3, 4)


def test_output_sizes_of_transposed_convolutions(torch):
    ours, theirs = both(torch, (2, 4, 5))
    torch_layer = torch.nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1).double()
    ternion_layer = nn.ConvTranspose2d(2, 3, 3, stride=2, padding=1).double()
    ternion_layer.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()})
    close(ternion_layer(ours, output_size=(8, 9)), torch_layer(theirs, output_size=(8, 9)))
    with pytest.raises(ValueError, match="output_size \\(9, 9\\), expected 7 to 8, 9 to 10"):
        ternion_layer(ours, output_size=(9, 9))


class TestInPlace:
    """`inplace=True` changes the input itself, and the gradient flows through it as in PyTorch."""

    LAYERS = [nn.ReLU, nn.ReLU6, nn.LeakyReLU, nn.ELU, nn.CELU, nn.SiLU, nn.SELU, nn.Mish, nn.Hardswish, nn.Hardsigmoid, nn.Hardtanh, nn.RReLU, nn.Dropout]

    @pytest.mark.parametrize("kind", LAYERS)
    def test_without_a_gradient(self, kind):
        x = ternion.randn(40)
        before = x.clone()
        layer = kind(inplace=True).eval()
        result = layer(x)
        assert result is x and x.equal(kind().eval()(before)) and "inplace=True" in repr(layer)

    # PyTorch's gradient of hardsigmoid uses 1/6 rounded to float32.
    @pytest.mark.parametrize("kind", [kind for kind in LAYERS if kind is not nn.Hardsigmoid])
    def test_with_a_gradient(self, torch, kind):
        """A residual block with an in-place activation: when the input is added, it already
        contains the result of the activation."""
        ours, theirs = both(torch, (5, 8))
        results = []
        for library, x in ((nn, ours), (torch.nn, theirs)):
            inner = x * 2
            result = getattr(library, kind.__name__)(inplace=True).eval()(inner)
            assert result is inner
            (result * 3 + inner * inner).sum().backward()
            results.append(inner)
        close(results[0], results[1])
        close(ours.grad, theirs.grad)

    FUNCTIONS = {
        "relu_": (), "elu_": (0.5,), "leaky_relu_": (0.3,), "selu_": (), "celu_": (0.5,), "hardtanh_": (-0.5, 0.25), "threshold_": (0.1, -2.0), "rrelu_": (0.2, 0.4),
    }  # fmt: skip

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_functions(self, torch, name):
        ours, theirs = both(torch, (5, 8))
        results = []
        for library, x in ((F, ours), (torch.nn.functional, theirs)):
            rows = x * 2
            assert getattr(library, name)(rows[1:3], *self.FUNCTIONS[name]).shape == (2, 8)
            (rows * rows).sum().backward()
            results.append(rows)
        close(results[0], results[1])
        close(ours.grad, theirs.grad)

    @pytest.mark.parametrize("name", FUNCTIONS)
    def test_a_tensor_that_asks_for_its_gradient_is_rejected(self, name):
        x = ternion.randn(4, requires_grad=True)
        with pytest.raises(RuntimeError, match="a tensor that requires a gradient, or a view of one, is changed in place"):
            getattr(F, name)(x, *self.FUNCTIONS[name])

    def test_dropout_in_training(self):
        x = ternion.ones(1000)
        assert F.dropout(x, 0.5, True, True).equal(x) and 300 < x.eq(0).sum().item() < 700


@pytest.mark.parametrize("kind, shape, dropped_shape", [
    (nn.Dropout1d, (50, 40, 3), (50, 40)), (nn.Dropout1d, (2000, 3), (2000,)), (nn.Dropout2d, (50, 40, 3, 2), (50, 40)),
    (nn.Dropout3d, (50, 40, 3, 2, 2), (50, 40)), (nn.Dropout3d, (2000, 3, 2, 2), (2000,)),
])  # fmt: skip
def test_dropout_of_channels(kind, shape, dropped_shape):
    x = ternion.ones(shape)
    y = kind(0.25)(x)
    each = y.reshape(*dropped_shape, -1)
    assert each.amax(-1).equal(each.amin(-1)) and set(np.unique(y.numpy())) == {0.0, np.float32(4 / 3)}
    assert 0.18 < y.eq(0).float().mean().item() < 0.32
    assert kind(0.25).eval()(x).equal(x)


def test_volumes_are_normalized():
    x = ternion.tensor([[[[[0.0, 1, 2, 3]]]]])
    for layer in (nn.BatchNorm3d(1, eps=0.0), nn.InstanceNorm3d(1, eps=0.0)):
        assert layer(x).flatten().tolist() == pytest.approx([-3 / 5**0.5, -1 / 5**0.5, 1 / 5**0.5, 3 / 5**0.5])
    assert layer(x[0]).equal(layer(x)[0])
    with pytest.raises(ValueError, match="BatchNorm3d: an input of shape"):
        nn.BatchNorm3d(1)(x[0])
    with pytest.raises(ValueError, match="dropout3d: an input of shape"):
        F.dropout3d(x[0, 0])


class TestEmbedding:
    def test_the_row_of_the_padding_has_no_gradient(self, torch):
        torch_layer = torch.nn.Embedding(5, 3, padding_idx=-4).double()
        ternion_layer = nn.Embedding(5, 3, padding_idx=-4).double()
        assert ternion_layer.padding_idx == 1 and ternion_layer.weight[1].tolist() == [0, 0, 0]
        ternion_layer.load_state_dict({"weight": ternion.tensor(torch_layer.weight.detach().numpy())})
        for layer, numbers in ((ternion_layer, ternion.tensor([[1, 2], [2, 4]])), (torch_layer, torch.tensor([[1, 2], [2, 4]]))):
            layer(numbers).square().sum().backward()
        close(ternion_layer.weight.grad, torch_layer.weight.grad)
        assert F.embedding(ternion.tensor(3), ternion_layer.weight, padding_idx=3).shape == (3,)

    def test_rows_that_were_learned_elsewhere(self):
        rows = ternion.randn(4, 2)
        layer = nn.Embedding.from_pretrained(rows)
        assert not layer.weight.requires_grad and layer(ternion.tensor([3])).equal(rows[3:])
        assert nn.Embedding.from_pretrained(rows, freeze=False, padding_idx=2).weight.requires_grad
        with pytest.raises(ValueError, match="expected a tensor of 2 axes"):
            nn.Embedding.from_pretrained(ternion.ones(3))

    def test_rejected(self):
        with pytest.raises(ValueError, match="sparse=True, expected False: only PyTorch has it"):
            nn.Embedding(3, 2, sparse=True)
        with pytest.raises(ValueError, match="padding_idx 3 is none of 3 rows"):
            nn.Embedding(3, 2, padding_idx=3)


def test_random_slopes():
    layer, x = nn.RReLU(0.1, 0.3), -ternion.ones(1000)
    assert -0.3 <= layer(x).min().item() < -0.28 and -0.12 < layer(x).max().item() <= -0.1
    assert layer.eval()(x).mean().item() == pytest.approx(-0.2)


def test_random_choices():
    logits = ternion.tensor([0.0, 1.0, 2.0]).expand(4000, 3)
    hard = F.gumbel_softmax(logits, hard=True)
    assert hard.sum(1).allclose(ternion.ones(4000)) and hard.mean(0).allclose(logits[0].softmax(0), atol=0.03)


def test_gradients_of_a_hard_choice_are_those_of_the_soft_one():
    result = []
    for hard in (False, True):
        ternion.manual_seed(5)
        logits = ternion.tensor([0.0, 1.0, 2.0]).expand(40, 3).clone().requires_grad_()
        (F.gumbel_softmax(logits, hard=hard) * ternion.tensor([1.0, 2.0, 3.0])).sum().backward()
        result.append(logits.grad)
    assert result[0].abs().sum().item() > 0 and result[0].equal(result[1])


class TestTransformer:
    @pytest.mark.parametrize("settings", [
        dict(), dict(batch_first=True, norm_first=True), dict(activation="gelu", bias=False, batch_first=True), dict(layer_norm_eps=0.1),
    ])  # fmt: skip
    @pytest.mark.parametrize("masked", ["none", "padding", "mask", "causal"])
    def test_encoders_are_pytorchs(self, torch, settings, masked):
        def create(nn):
            layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, **settings)
            return nn.TransformerEncoder(layer, 2, nn.LayerNorm(8), enable_nested_tensor=False).double()

        torch_layer, ternion_layer = create(torch.nn), create(nn)
        assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
        ternion_layer.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()})
        shape = (3, 5, 8) if settings.get("batch_first") else (5, 3, 8)
        hidden = torch.ones(5, 5, dtype=torch.bool).triu(1)
        padding = torch.tensor([[False] * 5, [False] * 3 + [True] * 2, [False] * 4 + [True]])
        masks = {"none": {}, "padding": dict(src_key_padding_mask=padding), "mask": dict(mask=hidden), "causal": dict(mask=hidden, is_causal=True)}[masked]
        own = {key: value if isinstance(value, bool) else ternion.tensor(value.numpy()) for key, value in masks.items()}
        same(torch, lambda x: ternion_layer(x, **own), lambda x: torch_layer(x, **masks), shape)
        for name, parameter in torch_layer.named_parameters():
            close(dict(ternion_layer.named_parameters())[name].grad, parameter.grad)

    @pytest.mark.parametrize("settings", [dict(), dict(batch_first=True, norm_first=True, activation="gelu", bias=False)])
    def test_encoder_and_decoder_are_pytorchs(self, torch, settings):
        def create(nn):
            return nn.Transformer(8, 2, 1, 2, 12, dropout=0.0, **settings).double()

        torch_layer, ternion_layer = create(torch.nn), create(nn)
        assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
        ternion_layer.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()})
        first = settings.get("batch_first", False)
        source, torch_source = both(torch, (3, 4, 8) if first else (4, 3, 8))
        hidden = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
        assert nn.Transformer.generate_square_subsequent_mask(5).tolist() == hidden.tolist()
        padding = torch.tensor([[False] * 4, [False] * 3 + [True], [False] * 2 + [True] * 2])
        ours = dict(tgt_mask=ternion.tensor(hidden.numpy()), memory_key_padding_mask=ternion.tensor(padding.numpy()))
        theirs = dict(tgt_mask=hidden, memory_key_padding_mask=torch.zeros(padding.shape, dtype=torch.float64).masked_fill(padding, -math.inf))
        same(torch, lambda x: ternion_layer(source, x, **ours), lambda x: torch_layer(torch_source, x, **theirs), (3, 5, 8) if first else (5, 3, 8))
        close(source.grad, torch_source.grad)

    def test_causal_without_a_mask(self):
        layer = nn.TransformerEncoderLayer(8, 2, 12, dropout=0.0, batch_first=True)
        x = ternion.randn(2, 5, 8)
        assert layer(x, is_causal=True)[:, :3].allclose(layer(x[:, :3], is_causal=True), atol=1e-6)

    def test_rejected(self):
        with pytest.raises(ValueError, match="activation 'selu', expected \"relu\", \"gelu\" or a function"):
            nn.TransformerEncoderLayer(8, 2, activation="selu")
        with pytest.raises(TypeError, match="TransformerDecoder: a layer of type int, expected a nn.Module"):
            nn.TransformerDecoder(3, 2)
        with pytest.raises(ValueError, match="num_layers 0"):
            nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2), 0)


class TestInit:
    def test_gains_are_pytorchs(self, torch):
        for name, slope in [("linear", None), ("conv_transpose2d", None), ("sigmoid", None), ("tanh", None), ("relu", None), ("selu", None), ("leaky_relu", None), ("leaky_relu", 0.3)]:
            assert nn.init.calculate_gain(name, slope) == pytest.approx(torch.nn.init.calculate_gain(name, slope))
        with pytest.raises(ValueError, match="nonlinearity 'swish', expected one of"):
            nn.init.calculate_gain("swish")

    @pytest.mark.parametrize("name, settings", [
        ("kaiming_uniform_", dict(a=0.5)), ("kaiming_normal_", dict(mode="fan_out", nonlinearity="tanh")), ("xavier_uniform_", dict(gain=2.0)),
        ("xavier_normal_", dict(gain=0.5)), ("trunc_normal_", dict(std=0.5, a=-0.5, b=1.0)), ("normal_", dict(mean=1.0, std=0.1)),
    ])  # fmt: skip
    def test_spreads_are_pytorchs(self, torch, name, settings):
        ours, theirs = nn.Parameter(ternion.empty(60, 20, 5)), torch.empty(60, 20, 5)
        assert getattr(nn.init, name)(ours, **settings) is ours
        getattr(torch.nn.init, name)(theirs, **settings)
        assert ours.std().item() == pytest.approx(theirs.std().item(), rel=0.05)
        assert ours.mean().item() == pytest.approx(theirs.mean().item(), abs=0.05 * theirs.std().item() + 0.01)
        assert ours.abs().max().item() == pytest.approx(theirs.abs().max().item(), rel=0.25)

    @pytest.mark.parametrize("shape", [(4, 7), (7, 4), (4, 2, 3)])
    def test_orthogonal(self, shape):
        x = nn.init.orthogonal_(ternion.empty(shape), gain=2.0)
        rows = x.reshape(shape[0], -1)
        product = rows @ rows.t() if rows.shape[0] <= rows.shape[1] else rows.t() @ rows
        assert product.allclose(4 * ternion.eye(len(product)), atol=1e-5)
        ternion.manual_seed(1)
        again = nn.init.orthogonal_(ternion.empty(shape))
        ternion.manual_seed(1)
        assert nn.init.orthogonal_(ternion.empty(shape)).equal(again)

    def test_values_at_indices(self, torch):
        for shape, groups in [((4, 3, 3), 1), ((4, 2, 3, 3), 2)]:
            assert nn.init.dirac_(ternion.ones(shape), groups).tolist() == torch.nn.init.dirac_(torch.ones(shape), groups).tolist()
        assert nn.init.eye_(ternion.ones(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
        assert nn.init.sparse_(ternion.ones(10, 4), 0.3).eq(0).sum(0).tolist() == [3] * 4
        assert nn.init.ones_(nn.Parameter(ternion.zeros(2))).tolist() == [1, 1] and nn.init.constant_(ternion.zeros(1), 3).tolist() == [3]

    def test_rejected(self):
        for call, kind, message in [
            (lambda: nn.init.xavier_uniform_(ternion.ones(3)), ValueError, "xavier_uniform_: a tensor of shape \\(3,\\), expected at least 2 axes"),
            (lambda: nn.init.kaiming_normal_(ternion.ones(3, 3), mode="both"), ValueError, "mode 'both'"),
            (lambda: nn.init.eye_(ternion.ones(3)), ValueError, "expected 2 axes"),
            (lambda: nn.init.orthogonal_([1.0]), TypeError, "orthogonal_: tensor of type list"),
        ]:
            with pytest.raises(kind, match=message):
                call()


REJECTED = [
    (lambda: nn.ReLU(3), TypeError, "ReLU: inplace 3, expected True or False"),
    (lambda: nn.ReLU(True, 1), TypeError, "positional"),
    (lambda: nn.ELU("a"), TypeError, "ELU: alpha 'a', expected a number"),
    (lambda: nn.Softmax("rows"), TypeError, "Softmax: dim 'rows', expected an integer"),
    (lambda: nn.GELU("exact"), ValueError, "GELU: approximate 'exact'"),
    (lambda: nn.Dropout("a"), TypeError, "Dropout: p 'a'"),
    (lambda: nn.MSELoss(reduction="max"), ValueError, "MSELoss: reduction 'max', expected one of none, mean, sum"),
    (lambda: nn.CrossEntropyLoss([1.0]), TypeError, "CrossEntropyLoss: weight of type list, expected a tensor or None"),
    (lambda: nn.Linear(3, 2)(np.ones((2, 3))), TypeError, "linear: input of type numpy.ndarray, expected a tensor: ternion.tensor\\(\\) makes one"),
    (lambda: nn.Linear("a", 2), TypeError, "Linear: in_features 'a', expected integers"),
    (lambda: nn.Linear(3, -2), ValueError, "Linear: out_features -2, expected at least 0"),
    (lambda: nn.Conv1d(2.0, 2, 3), TypeError, "Conv1d: in_channels 2.0, expected integers"),
    (lambda: nn.Embedding(3, 2)([0, 1]), TypeError, "embedding: input of type list, expected a tensor"),
    (lambda: nn.Dropout()(1.0), TypeError, "dropout: input of type float, expected a tensor"),
    (lambda: nn.LSTM(3, 2)(np.ones((4, 3))), TypeError, "LSTM: an input of type ndarray, expected a tensor"),
    (lambda: nn.MultiheadAttention(4, 2)(*[np.ones((3, 4))] * 3), TypeError, "MultiheadAttention: query of type ndarray, expected a tensor"),
    (lambda: nn.Parameter([1.0]), TypeError, "Parameter: data of type list, expected a tensor"),
    (lambda: F.mse_loss(ternion.ones(2), 1.0), TypeError, "mse_loss: target of type float, expected a tensor"),
    (lambda: F.conv2d(np.ones((1, 1, 3, 3)), ternion.ones(1, 1, 2, 2)), TypeError, "conv2d: input of type ndarray, expected a tensor"),
    (lambda: F.conv2d(ternion.ones(1, 1, 3, 3), ternion.ones(1, 1, 2, 2), padding=-1), ValueError, "conv2d: padding -1, expected at least 0"),
    (lambda: F.conv2d(ternion.ones(1, 1, 3, 3), ternion.ones(1, 1, 2, 2), stride=1.5), TypeError, "conv2d: stride 1.5, expected integers"),
    (lambda: F.conv2d(ternion.ones(1, 1, 3, 3), ternion.ones(1, 1, 2, 2), stride=(1, 1, 1)), ValueError, "conv2d: stride \\(1, 1, 1\\), expected one number or 2"),
    (lambda: F.conv2d(ternion.ones(3, 3), ternion.ones(1, 1, 2, 2)), ValueError, "conv2d: an input of shape \\(3, 3\\), expected 4 axes, or 3 without a batch"),
    (lambda: F.conv2d(ternion.ones(1, 3, 3), ternion.ones(1, 2, 2)), ValueError, "conv2d: weight of shape \\(1, 2, 2\\), expected a tensor of 4 axes"),
    (lambda: nn.Conv2d(1, 1, 3, stride=2, padding="same"), ValueError, "padding \"same\" with stride \\(2, 2\\)"),
    (lambda: nn.Conv2d(1, 1, 3, padding="full"), ValueError, "padding 'full', expected numbers, \"same\" or \"valid\""),
    (lambda: nn.Conv2d(1, 1, 3, padding_mode="mirror"), ValueError, "padding_mode 'mirror', expected zeros or reflect or replicate or circular"),
    (lambda: nn.ConvTranspose2d(1, 1, 3, padding_mode="reflect"), ValueError, "padding_mode 'reflect', expected zeros"),
    (lambda: nn.Conv2d(3, 4, 3, groups=2), ValueError, "Conv2d: groups 2 do not divide 3 and 4 channels"),
    (lambda: nn.MaxPool2d(0)(ternion.ones(1, 3, 3)), ValueError, "max_pool2d: kernel_size 0, expected at least 1"),
    (lambda: F.avg_pool2d(ternion.ones(1, 3, 3), 2, divisor_override=0), ValueError, "avg_pool2d: divisor_override 0, expected an integer"),
    (lambda: F.pad(ternion.ones(1, 3), (3, 0), "reflect"), ValueError, "pad: 3 and 0 elements around axis 1 of 3, expected fewer"),
    (lambda: F.pad(ternion.ones(1, 3), (4, 0), "circular"), ValueError, "pad: 4 and 0 elements around axis 1 of 3, expected no more"),
    (lambda: F.pad(ternion.ones(1, 3), (1, 1), "mirror"), ValueError, "mode 'mirror'"),
    (lambda: F.glu(ternion.ones(3)), ValueError, "glu: size 3 along axis -1, expected an even one"),
    (lambda: F.prelu(ternion.ones(2, 3), ternion.ones(2)), ValueError, "prelu: weight of shape \\(2,\\), expected 1 slope or 3"),
    (lambda: F.binary_cross_entropy(ternion.ones(2), ternion.ones(3)), ValueError, "a target of shape \\(3,\\), expected \\(2,\\)"),
    (lambda: nn.BatchNorm2d(3)([1]), TypeError, "BatchNorm2d: an input of type list, expected a tensor"),
    (lambda: F.pixel_shuffle(ternion.ones(1, 3, 2, 2), 2), ValueError, "3 channels by a factor of 2"),
    (lambda: F.interpolate(ternion.ones(1, 1, 4), size=2, mode="bilinear"), ValueError, "mode 'bilinear' of an input of 3 axes"),
]


@pytest.mark.parametrize("number", range(len(REJECTED)))
def test_wrong_arguments_are_reported(number):
    call, kind, message = REJECTED[number]
    with pytest.raises(kind, match=message):
        call()


def test_softplus_is_exact_where_it_is_linear():
    x = ternion.tensor([-800.0, 0.0, 30.0, 800.0], dtype=ternion.float64)
    assert nn.Softplus(0.5)(x).tolist() == pytest.approx([0.0, 2 * math.log(2), 30 + 2 * math.exp(-15), 800.0], abs=1e-12)


@pytest.mark.parametrize("shape, settings", [
    ((2, 3, 5, 4), dict(size=(8, 3))), ((2, 3, 5, 4), dict(size=7)), ((1, 2, 5, 4), dict(scale_factor=1.7)), ((1, 2, 5, 4), dict(scale_factor=(0.6, 2.0))),
    ((1, 2, 5, 4), dict(scale_factor=1.7, recompute_scale_factor=True)), ((2, 3, 7), dict(size=4)), ((2, 3, 7), dict(scale_factor=1.5)),
])  # fmt: skip
def test_the_nearest_by_centres_is_pytorchs(shape, settings):
    torch = pytest.importorskip("torch")
    same(torch, lambda x: F.interpolate(x, mode="nearest-exact", **settings), lambda x: torch.nn.functional.interpolate(x, mode="nearest-exact", **settings), shape)
    same(torch, nn.Upsample(mode="nearest-exact", **settings), torch.nn.Upsample(mode="nearest-exact", **settings), shape)
