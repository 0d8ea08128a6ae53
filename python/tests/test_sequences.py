"""Attention, recurrent layers, transformers and residual blocks compared with PyTorch."""

import copy
import math
import pickle

import numpy as np
import pytest

import ternion
from pytorch_reference import close, pair, same_gradients, torch_of, with_same_weights
from ternion import models, nn
from ternion.nn import functional as F

ATTENTION = {
    "plain": (dict(), dict()),
    "batch first": (dict(batch_first=True), dict()),
    "without bias": (dict(bias=False), dict(need_weights=False)),
    "other keys": (dict(kdim=6, vdim=5), dict()),
    "each head": (dict(), dict(average_attn_weights=False)),
}


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("masked", ["none", "bool", "float", "padding", "both", "each head"])
def test_attention_is_pytorchs(name, masked):
    torch = torch_of()
    settings, options = ATTENTION[name]
    ternion_layer, torch_layer = with_same_weights(nn.MultiheadAttention(8, 4, **settings), torch.nn.MultiheadAttention(8, 4, **settings))
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
    first = settings.get("batch_first", False)

    def of(length, width):
        return pair(torch, 3, length, width) if first else pair(torch, length, 3, width)

    q, k, v = of(5, 8), of(7, settings.get("kdim", 8)), of(7, settings.get("vdim", 8))
    masks = {}
    if masked in ("bool", "both"):
        masks["attn_mask"] = np.triu(np.ones((5, 7), bool), 3)
    if masked == "float":
        masks["attn_mask"] = np.random.default_rng(1).normal(size=(5, 7))
    if masked == "each head":
        masks["attn_mask"] = np.random.default_rng(2).random((12, 5, 7)) < 0.3
    if masked in ("padding", "both"):
        masks["key_padding_mask"] = np.arange(7) >= np.array([[7], [5], [6]])
    actual = ternion_layer(q[0], k[0], v[0], **options, **{key: ternion.tensor(value) for key, value in masks.items()})
    expected = torch_layer(q[1], k[1], v[1], **options, **{key: torch.tensor(value) for key, value in masks.items()})
    close(actual[0], expected[0])
    assert (actual[1] is None) == (expected[1] is None)
    if actual[1] is not None:
        close(actual[1], expected[1])
    weights = torch.randn(expected[0].shape, dtype=torch.float64)
    actual[0].backward(ternion.tensor(weights.numpy()))
    expected[0].backward(weights)
    same_gradients(ternion_layer, torch_layer, [q, k, v])


class TestAttention:
    def test_without_a_batch(self):
        torch = torch_of()
        ternion_layer, torch_layer = with_same_weights(nn.MultiheadAttention(8, 2), torch.nn.MultiheadAttention(8, 2))
        q, k = pair(torch, 5, 8), pair(torch, 7, 8)
        actual, expected = ternion_layer(q[0], k[0], k[0]), torch_layer(q[1], k[1], k[1])
        close(actual[0], expected[0])
        close(actual[1], expected[1])

    def test_causal(self):
        x = ternion.randn(2, 6, 8)
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        mask = ternion.ones(6, 6, dtype="bool").triu(1)
        expected = attention(x, x, x, attn_mask=mask)
        for actual in (attention(x, x, x, is_causal=True), attention(x, x, x, attn_mask=mask, is_causal=True)):
            assert actual[0].allclose(expected[0], atol=1e-6) and actual[1].allclose(expected[1], atol=1e-6)
        assert attention(x, x, x, is_causal=True, need_weights=False)[0].allclose(expected[0], atol=1e-6)
        assert attention.attend_self(x, is_causal=True).allclose(expected[0], atol=1e-6)

    def test_heads_that_are_shared(self):
        """Equivalent to attention with as many key and value heads, whose projections are
        repeated."""
        x = ternion.randn(2, 5, 12)
        shared = nn.MultiheadAttention(12, 4, batch_first=True, num_kv_heads=2)
        full = nn.MultiheadAttention(12, 4, batch_first=True)
        state = shared.state_dict()
        q, k, v = state["in_proj_weight"].split([12, 6, 6])

        def doubled(rows):
            return rows.reshape(2, 1, 3, 12).expand(2, 2, 3, 12).reshape(12, 12)

        full.load_state_dict({**state, "in_proj_weight": ternion.cat([q, doubled(k), doubled(v)]), "in_proj_bias": ternion.zeros(36)})
        assert shared.in_proj_weight.shape == (24, 12)
        for options in (dict(), dict(need_weights=False)):
            assert shared(x, x, x, **options)[0].allclose(full(x, x, x, **options)[0], atol=1e-6)

    def test_dropout_is_of_training(self):
        attention = nn.MultiheadAttention(8, 2, dropout=0.5, batch_first=True)
        x = ternion.randn(1, 6, 8)
        for need in (True, False):
            attention.train()
            assert not attention(x, x, x, need_weights=need)[0].equal(attention(x, x, x, need_weights=need)[0])
            attention.eval()
            assert attention(x, x, x, need_weights=need)[0].equal(attention(x, x, x, need_weights=need)[0])

    @pytest.mark.parametrize(
        "settings, message",
        [
            (dict(embed_dim=7, num_heads=2), "width 7 does not divide into 2 heads"),
            (dict(embed_dim=8, num_heads=4, num_kv_heads=3), "4 heads of queries cannot share 3 heads of keys"),
            (dict(embed_dim=8, num_heads=4, dropout=1.0), "dropout 1.0, expected at least 0 and below 1"),
        ],
    )
    def test_settings_are_rejected(self, settings, message):
        with pytest.raises(ValueError, match=message):
            nn.MultiheadAttention(**settings)

    def test_masks_are_rejected(self):
        attention = nn.MultiheadAttention(8, 2, batch_first=True)
        x = ternion.randn(2, 5, 8)
        with pytest.raises(ValueError, match=r"attn_mask of shape \(4, 5\), expected \(5, 5\) or \(4, 5, 5\)"):
            attention(x, x, x, attn_mask=ternion.ones(4, 5, dtype="bool"))
        with pytest.raises(ValueError, match=r"key_padding_mask of shape \(5, 2\), expected \(2, 5\)"):
            attention(x, x, x, key_padding_mask=ternion.ones(5, 2, dtype="bool"))


@pytest.mark.parametrize("shape", [(5, 4), (3, 5, 4), (2, 3, 5, 4), (2, 2, 3, 5, 4)])
@pytest.mark.parametrize("mask", ["none", "plain", "all", "causal"])
def test_scaled_dot_product_attention_is_pytorchs(shape, mask):
    torch = torch_of()
    q, k, v = pair(torch, *shape), pair(torch, *shape), pair(torch, *shape)
    options = dict(is_causal=mask == "causal", scale=0.3)
    masks = {"plain": np.tri(5, dtype=bool), "all": np.random.default_rng(1).normal(size=(*shape[:-1], 5))}
    ours, theirs = (
        (ternion.tensor(masks[mask]), torch.tensor(masks[mask])) if mask in masks else (None, None)
    )
    result = F.scaled_dot_product_attention(q[0], k[0], v[0], ours, **options)
    close(result, torch.nn.functional.scaled_dot_product_attention(q[1], k[1], v[1], theirs, **options))


def test_attention_of_shared_heads_and_windows():
    torch = torch_of()
    q, k, v = pair(torch, 2, 4, 5, 3), pair(torch, 2, 2, 5, 3), pair(torch, 2, 2, 5, 3)
    expected = torch.nn.functional.scaled_dot_product_attention(q[1], k[1], v[1], enable_gqa=True)
    close(F.scaled_dot_product_attention(q[0], k[0], v[0], enable_gqa=True), expected)
    near = np.abs(np.subtract.outer(np.arange(5), np.arange(5))) < 2
    windowed = F.scaled_dot_product_attention(q[0], k[0], v[0], enable_gqa=True, window=2)
    close(windowed, F.scaled_dot_product_attention(q[0], k[0], v[0], ternion.tensor(near), enable_gqa=True))
    with pytest.raises(ValueError, match="attention"):
        F.scaled_dot_product_attention(q[0], k[0][..., :2], v[0], enable_gqa=True)


def test_heads_are_shared_only_if_that_is_asked_for():
    torch = torch_of()
    q, k, v = pair(torch, 2, 4, 5, 3), pair(torch, 2, 2, 5, 3), pair(torch, 2, 2, 5, 3)
    with pytest.raises(RuntimeError):
        torch.nn.functional.scaled_dot_product_attention(q[1], k[1], v[1])
    with pytest.raises(ValueError, match="attention: key of 2 heads for 4 of queries, expected as many, or enable_gqa=True"):
        F.scaled_dot_product_attention(q[0], k[0], v[0])
    with pytest.raises(ValueError, match="attention: value of 2 heads for 4 of queries"):
        F.scaled_dot_product_attention(q[0], q[0], v[0])
    # PyTorch also broadcasts a single head.
    result = F.scaled_dot_product_attention(q[0], k[0][:, :1], v[0][:, :1])
    close(result, torch.nn.functional.scaled_dot_product_attention(q[1], k[1][:, :1], v[1][:, :1]))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("settings", [
    dict(), dict(batch_first=True), dict(num_layers=3, bias=False), dict(bidirectional=True), dict(num_layers=2, bidirectional=True, batch_first=True),
])  # fmt: skip
@pytest.mark.parametrize("with_state", [False, True])
def test_recurrent_layers_are_pytorchs(kind, settings, with_state):
    torch = torch_of()
    ternion_layer, torch_layer = with_same_weights(getattr(nn, kind)(4, 3, **settings), getattr(torch.nn, kind)(4, 3, **settings))
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
    x = pair(torch, 2, 6, 4)
    layers = settings.get("num_layers", 1) * (2 if settings.get("bidirectional") else 1)
    states = [pair(torch, layers, 2 if settings.get("batch_first") else 6, 3) for _ in range(2 if kind == "LSTM" else 1)]

    def handed(number):
        every = tuple(state[number] for state in states)
        return (every if kind == "LSTM" else every[0]) if with_state else None

    def flat(output, last):
        return [output, *(last if kind == "LSTM" else [last])]

    actual, expected = flat(*ternion_layer(x[0], handed(0))), flat(*torch_layer(x[1], handed(1)))
    for ours, theirs in zip(actual, expected):
        close(ours, theirs)
    sum((ours * ours).sum() for ours in actual).backward()
    sum((theirs * theirs).sum() for theirs in expected).backward()
    same_gradients(ternion_layer, torch_layer, [x, *(states if with_state else [])])


class TestRecurrent:
    def test_without_a_batch(self):
        torch = torch_of()
        ternion_layer, torch_layer = with_same_weights(nn.LSTM(4, 3, 2), torch.nn.LSTM(4, 3, 2))
        x, states = pair(torch, 5, 4), [pair(torch, 2, 3) for _ in range(2)]
        actual, expected = ternion_layer(x[0], [ours for ours, _ in states]), torch_layer(x[1], tuple(theirs for _, theirs in states))
        close(actual[0], expected[0])
        close(actual[1][1], expected[1][1])

    def test_dropout_is_between_layers_in_training(self):
        layer, single = nn.GRU(4, 3, 2, dropout=0.5), nn.GRU(4, 3, 1, dropout=0.5)
        x = ternion.randn(5, 2, 4)
        assert not layer(x)[0].equal(layer(x)[0]) and single(x)[0].equal(single(x)[0])
        layer.eval()
        assert layer(x)[0].equal(layer(x)[0])

    def test_what_is_rejected(self):
        with pytest.raises(ValueError, match="LSTM: proj_size 2, expected 0"):
            nn.LSTM(4, 3, proj_size=2)
        with pytest.raises(ValueError, match="GRU: 0 layers of width 3"):
            nn.GRU(4, 3, num_layers=0)
        with pytest.raises(ValueError, match=r"LSTM: an input of shape \(2, 5, 3\), expected 2 or 3 axes, the last of 4"):
            nn.LSTM(4, 3)(ternion.ones(2, 5, 3))
        with pytest.raises(ValueError, match="a sequence of length 0"):
            nn.LSTM(4, 3)(ternion.ones(0, 5, 4))
        with pytest.raises(ValueError, match=r"a state of shape \(1, 2, 3\), expected \(1, 5, 3\)"):
            nn.GRU(4, 3)(ternion.ones(2, 5, 4), ternion.ones(1, 2, 3))
        with pytest.raises(TypeError, match="expected a pair of tensors"):
            nn.LSTM(4, 3)(ternion.ones(2, 5, 4), ternion.ones(1, 5, 3))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_block_is_pytorchs_encoder_layer(activation):
    torch = torch_of()
    torch_layer = torch.nn.TransformerEncoderLayer(8, 2, 20, 0.0, activation, batch_first=True, norm_first=True)
    ternion_layer, torch_layer = with_same_weights(nn.TransformerBlock(8, 2, hidden=20, feed_forward=activation), torch_layer)
    assert list(ternion_layer.state_dict()) == list(torch_layer.state_dict())
    x = pair(torch, 3, 5, 8)
    actual, expected = ternion_layer(x[0]), torch_layer(x[1])
    close(actual, expected)
    actual.square().sum().backward()
    expected.square().sum().backward()
    same_gradients(ternion_layer, torch_layer, [x])
    hidden = torch.nn.Transformer.generate_square_subsequent_mask(5, dtype=torch.float64)
    close(ternion_layer(x[0], is_causal=True), torch_layer(x[1], hidden))


def test_swiglu_by_its_formula():
    layer, x = nn.FeedForward(6, kind="swiglu"), ternion.randn(2, 6)
    assert layer.linear1.weight.shape == (16, 6)
    gate = layer.linear_gate(x)
    assert layer(x).allclose(layer.linear2(gate * gate.sigmoid() * layer.linear1(x)), atol=1e-6)
    with pytest.raises(ValueError, match="kind 'glu', expected one of relu, gelu, gelu_tanh, swiglu"):
        nn.FeedForward(6, kind="glu")
    with pytest.raises(ValueError, match="norm 'batch'"):
        nn.TransformerBlock(6, 2, norm="batch")


class TestPositions:
    @pytest.mark.parametrize("pairs", ["half", "interleaved"])
    def test_rotary_products_depend_on_the_distance(self, pairs):
        rotary = nn.Rotary(20, 6, pairs=pairs)
        q, k = ternion.randn(1, 6), ternion.randn(1, 6)
        near = [(rotary(q, at + 3) * rotary(k, at)).sum().item() for at in (0, 5, 16)]
        assert near == pytest.approx([near[0]] * 3, abs=1e-5)
        assert rotary(q, 0).equal(q) and not rotary(q, 1).allclose(q)
        half = [0, 3] if pairs == "half" else [0, 1]
        one = ternion.zeros(1, 6)
        one[0, 0] = 1.0
        assert [rotary(one, 2)[0, at].item() for at in half] == pytest.approx([math.cos(2), math.sin(2)], abs=1e-6)

    def test_rotary_is_copied_and_rejects(self):
        rotary = nn.Rotary(20, 6)
        x = ternion.randn(3, 6)
        for other in (copy.deepcopy(rotary), pickle.loads(pickle.dumps(rotary))):
            assert other(x, 4).equal(rotary(x, 4))
        with pytest.raises(ValueError, match="3 rows of 6 from position 18"):
            rotary(x, 18)
        with pytest.raises(ValueError, match="heads of 5, expected an even width"):
            nn.Rotary(20, 5)
        with pytest.raises(ValueError, match="expected \"half\" or \"interleaved\""):
            nn.Rotary(20, 6, pairs="both")

    def test_sinusoidal_by_its_formula(self):
        table = F.sinusoidal(7, 4).numpy()
        for position in range(7):
            expected = [math.sin(position), math.cos(position), math.sin(position / 100), math.cos(position / 100)]
            assert table[position].tolist() == pytest.approx(expected, abs=1e-6)
        with pytest.raises(ValueError, match="width 3, expected an even one"):
            F.sinusoidal(7, 3)


INTERPOLATIONS = [
    dict(size=(7, 3)), dict(size=4), dict(scale_factor=2), dict(scale_factor=(1.5, 0.6)), dict(scale_factor=2.7),
    dict(scale_factor=1.7, recompute_scale_factor=True),
    *(dict(mode="bilinear", align_corners=corners, **size) for corners in (False, True, None) for size in (
        dict(size=(7, 3)), dict(scale_factor=1.5), dict(scale_factor=(0.6, 2.3)), dict(size=(1, 9)), dict(scale_factor=2.3, recompute_scale_factor=True))),
]  # fmt: skip


@pytest.mark.parametrize("options", INTERPOLATIONS)
def test_interpolation_is_pytorchs(options):
    torch = torch_of()
    x = pair(torch, 2, 3, 5, 6)
    actual, expected = F.interpolate(x[0], **options), torch.nn.functional.interpolate(x[1], **options)
    close(actual, expected)
    assert nn.Upsample(**options)(x[0]).equal(actual)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    actual.backward(ternion.tensor(weights.numpy()))
    expected.backward(weights)
    close(x[0].grad, x[1].grad)


@pytest.mark.parametrize(
    "options, message",
    [
        (dict(), "expected either of the two"),
        (dict(size=3, scale_factor=2), "expected either of the two"),
        (dict(size=3, mode="trilinear"), "mode 'trilinear' of an input of 4 axes, expected"),
        (dict(size=3, align_corners=True), "align_corners True of mode 'nearest', expected None"),
        (dict(scale_factor=-1.0), "a factor of -1"),
        (dict(scale_factor=(1.0, 2.0, 3.0)), "expected one number or 2"),
        (dict(size=3, recompute_scale_factor=True), "recompute_scale_factor of a size"),
    ],
)
def test_interpolation_rejects(options, message):
    with pytest.raises(ValueError, match=message):
        F.interpolate(ternion.ones(1, 1, 2, 2), **options)


@pytest.mark.parametrize("options", [dict(kernel_size=2), dict(kernel_size=(2, 3), stride=2, padding=1), dict(kernel_size=2, dilation=2)])
def test_unfold_and_fold_are_pytorchs(options):
    torch = torch_of()
    ours, theirs = pair(torch, 2, 3, 6, 5)
    actual, expected = F.unfold(ours, **options), torch.nn.functional.unfold(theirs, **options)
    close(actual, expected)
    close(F.fold(actual, (6, 5), **options), torch.nn.functional.fold(expected, (6, 5), **options))


def basic_block(torch, inputs, outputs, stride):
    """torchvision's BasicBlock."""

    class Block(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv1 = torch.nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
            self.bn1 = torch.nn.BatchNorm2d(outputs)
            self.conv2 = torch.nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
            self.bn2 = torch.nn.BatchNorm2d(outputs)
            if stride != 1 or inputs != outputs:
                self.downsample = torch.nn.Sequential(
                    torch.nn.Conv2d(inputs, outputs, 1, stride, bias=False), torch.nn.BatchNorm2d(outputs)
                )
            else:
                self.downsample = torch.nn.Identity()

        def forward(self, x):
            inner = self.bn2(self.conv2(self.bn1(self.conv1(x)).relu()))
            return (inner + self.downsample(x)).relu()

    return Block()


@pytest.mark.parametrize("inputs, outputs, stride", [(4, 4, 1), (4, 6, 1), (4, 8, 2)])
def test_the_residual_block_is_torchvisions(inputs, outputs, stride):
    torch = torch_of()
    torch_layer = basic_block(torch, inputs, outputs, stride).double()
    ternion_layer = nn.ResidualBlock(inputs, outputs, stride).double()
    state = {key: ternion.tensor(value.numpy()) for key, value in torch_layer.state_dict().items()}
    ternion_layer.load_state_dict(state)
    x = pair(torch, 2, inputs, 7, 6)
    actual, expected = ternion_layer(x[0]), torch_layer(x[1])
    close(actual, expected)
    actual.square().sum().backward()
    expected.square().sum().backward()
    same_gradients(ternion_layer, torch_layer, [x])


class TestResNet:
    def test_sizes_and_keys(self):
        model = models.ResNet(blocks=(1, 2), width=4, classes=7)
        assert model(ternion.randn(2, 3, 8, 8)).shape == (2, 7)
        keys = list(model.state_dict())
        assert keys[0] == "conv1.weight" and "layer2.0.downsample.0.weight" in keys and keys[-1] == "fc.bias"
        assert "layer1.0.downsample.0.weight" not in keys
        parameters = sum(parameter.numel() for parameter in models.ResNet18().parameters())
        # torchvision's 11,689,512, minus the larger stem (7,680) and 990 of 1000 classes (507,870)
        assert parameters == 11_173_962
        with pytest.raises(ValueError, match="stages of \\[2, 0\\] blocks"):
            models.ResNet(blocks=(2, 0))

    def test_it_learns(self):
        model = models.ResNet(channels=1, classes=2, blocks=(1, 1), width=4)
        x, target = ternion.randn(16, 1, 8, 8), ternion.tensor([0, 1] * 8)
        adam = ternion.optim.AdamW(model.named_parameters(), lr=1e-2)
        losses = []
        for _ in range(30):
            adam.zero_grad()
            loss = F.cross_entropy(model(x), target)
            loss.backward()
            adam.step()
            losses.append(loss.item())
        assert losses[-1] < 0.2 < losses[0]


def test_modules_are_copied_and_pickled():
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.append(model[0])
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert list(other.state_dict()) == list(model.state_dict())
        assert len(list(other.parameters())) == 4 and other[2] is other[0]
        with ternion.no_grad():
            other[0].weight.fill_(0.0)
        assert model[0].weight.abs().sum().item() > 0
        other(ternion.randn(4, 2)).sum().backward()
        assert other[0].bias.grad is not None and model[0].bias.grad is None


@pytest.mark.parametrize("dtype", [ternion.uint8, ternion.int64])
@pytest.mark.parametrize("name, shape", [("attn_mask", (3, 3)), ("key_padding_mask", (1, 3))])
def test_masks_of_integers_are_rejected(dtype, name, shape):
    attention, x = nn.MultiheadAttention(4, 2, batch_first=True), ternion.ones(1, 3, 4)
    kind = str(dtype).rpartition(".")[2]
    with pytest.raises(TypeError, match=f"MultiheadAttention: {name} is {kind}, expected bool"):
        attention(x, x, x, **{name: ternion.zeros(shape, dtype=dtype)})
