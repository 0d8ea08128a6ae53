"""Running statistics of norms. As in PyTorch, statistics whose size is not the number of channels
are rejected and remain unchanged, and others are updated."""

import itertools

import numpy as np
import pytest

import ternion
from ternion import nn

torch = pytest.importorskip("torch")

F = nn.functional
NORMS = {
    "batch_norm": lambda m, x, mean, var, of_input: m.nn.functional.batch_norm(x, mean, var, training=of_input),
    "instance_norm": lambda m, x, mean, var, of_input: m.nn.functional.instance_norm(x, mean, var, use_input_stats=of_input),
}
LAYERS = {
    **{f"BatchNorm{axes}d": dict(affine=False) for axes in (1, 2, 3)},
    **{f"InstanceNorm{axes}d": dict(track_running_stats=True) for axes in (1, 2, 3)},
}


def image(module, name, channels, batch=2):
    return module.arange(float(batch * channels * 4 ** int(name[-2]))).reshape(batch, channels, *[4] * int(name[-2]))


@pytest.mark.parametrize("shape, channels", [((3,), 1), ((1,), 3), ((2, 3), 1), ((2, 3), 3), ((1, 3), 3), ((0,), 1)])
@pytest.mark.parametrize("of_input", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_statistics_of_another_size_are_rejected(name, of_input, shape, channels):
    right = (channels,)
    for shapes, wrong in (((shape, right), "running_mean"), ((right, shape), "running_var")):
        for batch in (2, 0):
            x, statistics = ternion.arange(float(batch * channels * 4)).reshape(batch, channels, 4), [ternion.full(shape, 0.5) for shape in shapes]
            before = [each.clone() for each in statistics]
            with pytest.raises(ValueError, match=rf"^{name}: {wrong} has shape \[{', '.join(map(str, shape))}\], expected \[{channels}\]"):
                NORMS[name](ternion, x, *statistics, of_input)
            assert all(map(ternion.equal, statistics, before))
        with pytest.raises(RuntimeError):
            NORMS[name](torch, torch.ones(2, channels, 4), *(torch.full(shape, 0.5) for shape in shapes), of_input)


@pytest.mark.filterwarnings("ignore:input's size at dim=1")
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name, channels", list(itertools.product(LAYERS, [1, 2, 4])))
def test_layers_reject_inputs_of_other_channels(name, channels, training):
    for module, error in ((ternion, ValueError), (torch, RuntimeError)):
        layer = getattr(module.nn, name)(3, **LAYERS[name]).train(training)
        with pytest.raises(error, match="running_mean"):
            layer(image(module, name, channels))
        assert layer.running_mean.tolist() == [0] * 3 and layer.running_var.tolist() == [1] * 3


@pytest.mark.parametrize("name", LAYERS)
def test_layers_of_a_fitting_size_follow(name):
    layers = [getattr(module.nn, name)(3, momentum=0.3, **LAYERS[name]) for module in (ternion, torch)]
    for _ in range(2):
        ours, theirs = (layer(image(module, name, 3) * 0.5) for module, layer in zip((ternion, torch), layers))
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-4, atol=1e-5)
    for key in ("running_mean", "running_var"):
        np.testing.assert_allclose(*(getattr(layer, key).numpy() for layer in layers), rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", NORMS)
def test_large_values_of_half_precision_have_finite_statistics(name, dtype):
    """Squared deviations overflow in half precision. PyTorch's batch norm computes them in f32; its
    instance norm returns infinities."""
    values = torch.arange(24.0).reshape(2, 3, 4).mul(2000).to(getattr(torch, dtype))
    exact = [torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    NORMS[name](torch, values.double(), *exact, True)
    wide = "float64" if dtype == "float64" else "float32"
    statistics = [ternion.zeros(3, dtype=getattr(ternion, wide)), ternion.ones(3, dtype=getattr(ternion, wide))]
    NORMS[name](ternion, ternion.tensor(values.double().numpy()).to(getattr(ternion, dtype)), *statistics, True)
    for actual, want in zip(statistics, exact):
        np.testing.assert_allclose(actual.numpy(), want.numpy(), rtol=1e-12 if wide == "float64" else 2e-6)


def test_statistics_of_another_dtype_follow():
    x = np.random.default_rng(1).normal(size=(4, 3, 5)).astype(np.float32)
    exact = [torch.zeros(3, dtype=torch.float64), torch.ones(3, dtype=torch.float64)]
    torch.nn.functional.instance_norm(torch.tensor(x).double(), *exact)
    for dtype, limit in ((ternion.float64, 1e-6), (ternion.float16, 1e-3), (ternion.bfloat16, 1e-2)):
        statistics = [ternion.zeros(3, dtype=dtype), ternion.ones(3, dtype=dtype)]
        F.instance_norm(ternion.tensor(x), *statistics)
        for actual, want in zip(statistics, exact):
            np.testing.assert_allclose(actual.double().numpy(), want.numpy(), rtol=limit, atol=limit)
    with pytest.raises(TypeError, match="instance_norm: running_mean is int64, expected a floating dtype"):
        F.instance_norm(ternion.tensor(x), ternion.zeros(3).long(), ternion.ones(3))


@pytest.mark.parametrize("shape", [(0, 3, 4), (2, 3, 0), (2, 0, 4)])
def test_inputs_without_values_move_nothing(shape):
    for norm in NORMS.values():
        statistics = [ternion.full((shape[1],), 0.5), ternion.full((shape[1],), 2.0)]
        assert norm(ternion, ternion.zeros(shape), *statistics, True).shape == shape
        assert statistics[0].tolist() == [0.5] * shape[1] and statistics[1].tolist() == [2] * shape[1]


def test_gradients_beside_running_statistics():
    """The update of the statistics is not differentiated."""
    x = np.random.default_rng(2).normal(size=(2, 3, 5))
    weights = np.random.default_rng(3).normal(size=(2, 3, 5))
    result = []
    for module in (ternion, torch):
        tensor = module.tensor(x, dtype=module.float64).requires_grad_()
        statistics = [module.zeros(3, dtype=module.float64), module.ones(3, dtype=module.float64)]
        (module.nn.functional.instance_norm(tensor, *statistics) * module.tensor(weights)).sum().backward()
        assert not statistics[0].requires_grad and not statistics[1].requires_grad
        result.append((tensor.grad.numpy(), statistics[0].numpy(), statistics[1].numpy()))
    for ours, theirs in zip(*result):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12)
