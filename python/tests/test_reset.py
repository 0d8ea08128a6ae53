"""`reset_parameters` initializes parameters as at the creation of the layer."""

import pytest

import ternion
from ternion import nn

LAYERS = {
    "Linear": lambda: nn.Linear(5, 3),
    "Linear without a bias": lambda: nn.Linear(5, 3, bias=False),
    "Bilinear": lambda: nn.Bilinear(3, 4, 2),
    "Conv1d": lambda: nn.Conv1d(4, 6, 3, groups=2),
    "Conv2d": lambda: nn.Conv2d(3, 6, (3, 2), dtype="float64"),
    "ConvTranspose1d": lambda: nn.ConvTranspose1d(4, 6, 3, groups=2),
    "ConvTranspose2d": lambda: nn.ConvTranspose2d(4, 6, 3, bias=False),
    "Embedding": lambda: nn.Embedding(5, 3, padding_idx=1),
    "LSTM": lambda: nn.LSTM(3, 4, 2, bidirectional=True),
    "GRU": lambda: nn.GRU(3, 4, bias=False),
    "RNN": lambda: nn.RNN(3, 4),
    "LSTMCell": lambda: nn.LSTMCell(3, 4),
    "GRUCell": lambda: nn.GRUCell(3, 4, bias=False),
    "RNNCell": lambda: nn.RNNCell(3, 4),
    "LayerNorm": lambda: nn.LayerNorm((2, 3)),
    "LayerNorm without values": lambda: nn.LayerNorm(3, elementwise_affine=False),
    "RMSNorm": lambda: nn.RMSNorm(3),
    "GroupNorm": lambda: nn.GroupNorm(2, 4),
    "BatchNorm1d": lambda: nn.BatchNorm1d(3),
    "BatchNorm2d": lambda: nn.BatchNorm2d(3, affine=False),
    "InstanceNorm1d": lambda: nn.InstanceNorm1d(3, affine=True),
    "BatchNorm3d": lambda: nn.BatchNorm3d(3),
    "InstanceNorm2d": lambda: nn.InstanceNorm2d(3),
    "InstanceNorm3d": lambda: nn.InstanceNorm3d(3, affine=True),
    "PReLU": lambda: nn.PReLU(3, 0.4),
}


@pytest.mark.parametrize("name", LAYERS)
def test_first_values_are_drawn_anew(name):
    ternion.manual_seed(3)
    layer = LAYERS[name]()
    first = {key: value.clone() for key, value in layer.state_dict().items()}
    with ternion.no_grad():
        for value in layer.state_dict().values():
            value.fill_(7)
    ternion.manual_seed(3)
    assert layer.reset_parameters() is None
    for key, value in layer.state_dict().items():
        assert value.equal(first[key]), key
    assert all(parameter.requires_grad and parameter.is_leaf for parameter in layer.parameters())


@pytest.mark.parametrize("settings", [{}, dict(kdim=3, vdim=5), dict(bias=False)])
def test_attention_draws_the_projections_of_its_inputs(settings):
    ternion.manual_seed(3)
    attention = nn.MultiheadAttention(4, 2, **settings)
    first = {key: value.clone() for key, value in attention.state_dict().items()}
    with ternion.no_grad():
        for value in attention.state_dict().values():
            value.fill_(7)
    ternion.manual_seed(3)
    attention._reset_parameters()
    for key, value in attention.state_dict().items():
        assert value.equal(first[key] if key != "out_proj.weight" else ternion.full((4, 4), 7.0)), key


def test_a_model_is_drawn_anew_by_the_usual_loop():
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.ReLU(), nn.Flatten(), nn.Linear(8, 2))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    model(ternion.randn(2, 1, 4, 4))
    model.apply(lambda module: module.reset_parameters() if hasattr(module, "reset_parameters") else None)
    assert model[1].running_mean.tolist() == [0, 0] and model[1].num_batches_tracked.item() == 0
    for key in ("0.weight", "0.bias", "4.weight", "4.bias"):
        assert not model.state_dict()[key].equal(before[key])


def test_layers_that_pytorch_resets_are_reset_here():
    torch = pytest.importorskip("torch")
    shared = [name for name in dir(torch.nn) if hasattr(getattr(torch.nn, name), "reset_parameters") and isinstance(getattr(nn, name, None), type)]
    assert len(shared) > 15 and [name for name in shared if not hasattr(getattr(nn, name), "reset_parameters")] == []
