"""Edge cases of functions and layers, as in PyTorch: bounds and NaN, unnamed axes, empty batches,
missing statistics."""

import math
import warnings

import pytest
from pytorch_reference import close, torch_of

import ternion
from ternion import nn
from ternion.nn import functional as F

AT_BOUNDS = {
    "relu6": (0.0, 6.0),
    "hardtanh": (-1.0, 1.0),
    "hardsigmoid": (-3.0, 3.0),
    "hardswish": (-3.0, 3.0),
}
# Below, at the lower bound, between, at the upper bound, above.
GRADIENTS = {"relu6": [0, 0, 1, 0, 0], "hardtanh": [0, 0, 1, 0, 0], "hardsigmoid": [0, 0, 1 / 6, 0, 0], "hardswish": [0, 0, 0.5, 1, 1]}


class TestActivations:
    @pytest.mark.parametrize("name", AT_BOUNDS)
    def test_gradients_at_bounds(self, name):
        low, high = AT_BOUNDS[name]
        x = ternion.tensor([low - 1, low, (low + high) / 2, high, high + 1], dtype=ternion.float64, requires_grad=True)
        output = getattr(F, name)(x)
        assert output.equal(getattr(F, name)(x.detach()))
        output.sum().backward()
        assert x.grad.tolist() == pytest.approx(GRADIENTS[name], abs=1e-15)

    @pytest.mark.parametrize("name", [*AT_BOUNDS, "threshold"])
    def test_numbers_and_gradients_are_pytorchs(self, name):
        torch = torch_of()
        arguments = (0.5, 1.0) if name == "threshold" else ()
        # The gradient of hardswish at NaN and at the bounds differs between versions of PyTorch.
        values = [-math.inf, -4, -1, 0, 0.5, 1, 4, math.inf] if name == "hardswish" else [math.nan, -math.inf, -4, -3, -1, 0, 0.5, 1, 3, 6, 7, math.inf]
        ours, theirs = ternion.tensor(values, dtype=ternion.float64, requires_grad=True), torch.tensor(values, dtype=torch.float64, requires_grad=True)
        actual, expected = getattr(F, name)(ours, *arguments), getattr(torch.nn.functional, name)(theirs, *arguments)
        close(actual, expected)
        actual.sum().backward()
        expected.sum().backward()
        # PyTorch rounds 1/6 to float32.
        close(ours.grad, theirs.grad, 1e-7)

    def test_threshold_keeps_nan(self):
        assert math.isnan(F.threshold(ternion.tensor([math.nan]), 0.5, 1.0).item())
        x = ternion.tensor([math.nan, 0.5, 1.0])
        F.threshold(x, 0.5, -1.0, inplace=True)
        assert math.isnan(x[0].item()) and x[1:].tolist() == [-1.0, 1.0]

    def test_in_place(self):
        x = ternion.tensor([-4.0, 0.5, 7.0])
        assert nn.ReLU6(inplace=True)(x) is x or x.tolist() == [0.0, 0.5, 6.0]
        assert nn.Hardtanh(inplace=True)(x).tolist() == x.tolist() == [0.0, 0.5, 1.0]

    @pytest.mark.parametrize("kind", ["Softmax", "Softmin", "LogSoftmax"])
    @pytest.mark.parametrize("shape, axis", [((), 0), ((3,), 0), ((2, 3), 1), ((2, 3, 4), 0), ((2, 3, 4, 5), 1)])
    def test_without_dim(self, kind, shape, axis):
        layer, x = getattr(nn, kind)(), ternion.randn(*shape)
        assert layer.dim is None
        with pytest.warns(UserWarning, match=f"{kind}: without dim it is along axis {axis} of shape") as caught:
            output = layer(x)
        assert caught[0].filename == __file__
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert output.equal(getattr(nn, kind)(axis)(x))
            assert nn.GLU()(ternion.ones(2, 4)).shape == (2, 2)
        with pytest.warns(UserWarning, match="softmin: without dim") as caught:
            F.softmin(x)
        assert caught[0].filename == __file__


class TestBatchNorm:
    @pytest.mark.parametrize("shape", [(0, 2), (0, 2, 3), (2, 2, 0)])
    def test_an_empty_batch_leaves_the_statistics(self, shape):
        norm = nn.BatchNorm1d(2)
        assert norm(ternion.zeros(*shape)).shape == shape
        assert norm.running_mean.tolist() == [0, 0] and norm.running_var.tolist() == [1, 1] and norm.num_batches_tracked.item() == 1
        assert norm.eval()(ternion.zeros(*shape)).shape == shape
        mean, var = ternion.zeros(2), ternion.ones(2)
        assert F.batch_norm(ternion.zeros(*shape), mean, var, training=True).shape == shape
        assert mean.tolist() == [0, 0] and var.tolist() == [1, 1]

    @pytest.mark.parametrize("statistics, missing", [((None, None), "running_mean"), ((ternion.zeros(2), None), "running_var")])
    def test_use_needs_statistics(self, statistics, missing):
        x = ternion.randn(4, 2)
        with pytest.raises(ValueError, match=f"batch_norm: {missing} is None, expected a tensor, or training=True"):
            F.batch_norm(x, *statistics)
        close(F.batch_norm(x, None, None, training=True), nn.BatchNorm1d(2, track_running_stats=False).eval()(x), 1e-6)
