"""Pooling, convolutions, padding and resizing over one to three axes: PyTorch's semantics,
including edge cases, and memory use that does not depend on the window.

The expected values are PyTorch's. If it is installed, every case also runs there.
"""

import itertools

import numpy as np
import pytest

import ternion
from ternion import nn
from ternion.nn import functional as F

torch = None
try:
    import torch
except ImportError:
    pass

beside_torch = pytest.mark.skipif(torch is None, reason="PyTorch is not installed")
RANDOM = np.random.default_rng(7)
IMAGES = {1: (2, 3, 7), 2: (2, 3, 6, 5), 3: (2, 2, 4, 5, 3)}


def drawn(*shape, dtype="float32"):
    values = RANDOM.permutation(int(np.prod(shape))).reshape(shape) - int(np.prod(shape)) // 2
    return values.astype(dtype) if "int" in dtype else (values / 8).astype(dtype)


def same(actual, right, exact=True):
    if isinstance(right, tuple):
        assert isinstance(actual, tuple) and len(actual) == len(right)
        for own, other in zip(actual, right):
            same(own, other, exact)
        return
    assert tuple(actual.shape) == tuple(right.shape)
    assert str(actual.dtype).split(".")[-1] == str(right.dtype).split(".")[-1]
    own, other = actual.detach().double().numpy(), right.detach().double().numpy()
    if exact:
        np.testing.assert_array_equal(own, other)
    else:
        np.testing.assert_allclose(own, other, rtol=2e-6, atol=2e-6)


def compare_with_pytorch(name, *arguments, exact=True, gradient=True, **options):
    """Compares a function with PyTorch's on the same arrays, and the gradients of the sum of
    squares of its values."""
    ours = [ternion.tensor(value) if isinstance(value, np.ndarray) else value for value in arguments]
    theirs = [torch.tensor(value) if isinstance(value, np.ndarray) else value for value in arguments]
    gradient = gradient and ours[0].is_floating_point()
    if gradient:
        ours[0].requires_grad_()
        theirs[0].requires_grad_()
    actual, right = getattr(F, name)(*ours, **options), getattr(torch.nn.functional, name)(*theirs, **options)
    same(actual, right, exact)
    if gradient:
        (actual[0] if isinstance(actual, tuple) else actual).square().sum().backward()
        (right[0] if isinstance(right, tuple) else right).square().sum().backward()
        same(ours[0].grad, theirs[0].grad, exact=False)


# ---- Pooling


@beside_torch
@pytest.mark.parametrize("axes", [1, 2, 3])
@pytest.mark.parametrize("dtype", ["float32", "int64", "int32", "uint8"])
def test_largest_elements_and_their_indices(axes, dtype):
    if axes == 3 and dtype != "float32":
        pytest.skip("PyTorch has int64 and uint8 by another road")
    x = drawn(*IMAGES[axes], dtype="int32").astype(dtype) if "int" in dtype else drawn(*IMAGES[axes])
    for kernel, stride, padding, dilation, ceil in itertools.product((2, 3), (None, 1, 2), (0, 1), (1, 2), (False, True)):
        if dilation * (kernel - 1) + 1 > 3 + 2 * padding and axes == 3:
            continue
        compare_with_pytorch(f"max_pool{axes}d", x, kernel, stride, padding, dilation, ceil, True)


@beside_torch
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_means_and_their_divisors(axes):
    for kernel, stride, padding, ceil, counted in itertools.product((2, 3), (None, 1, 2), (0, 1), (False, True), (False, True)):
        compare_with_pytorch(f"avg_pool{axes}d", drawn(*IMAGES[axes], dtype="float64"), kernel, stride, padding, ceil, counted, exact=False)
        compare_with_pytorch(f"avg_pool{axes}d", drawn(*IMAGES[axes], dtype="int64"), kernel, stride, padding, ceil, counted)
        if axes > 1:
            for divisor in (1, 3, -2):
                compare_with_pytorch(f"avg_pool{axes}d", drawn(*IMAGES[axes], dtype="float64"), kernel, stride, padding, ceil, counted, divisor, exact=False)
                compare_with_pytorch(f"avg_pool{axes}d", drawn(*IMAGES[axes], dtype="int64"), kernel, stride, padding, ceil, counted, divisor)


@beside_torch
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_adaptive_pools(axes):
    for size in itertools.product((0, 1, 2, 4, 9), repeat=axes):
        # PyTorch has no gradients of empty results.
        compare_with_pytorch(f"adaptive_avg_pool{axes}d", drawn(*IMAGES[axes]), size, exact=False, gradient=0 not in size)
        compare_with_pytorch(f"adaptive_max_pool{axes}d", drawn(*IMAGES[axes]), size, True, gradient=0 not in size)
    compare_with_pytorch(f"adaptive_max_pool{axes}d", drawn(*IMAGES[axes]), 3)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "bool"])
def test_pools_of_powers_of_integers(dtype):
    x = ternion.tensor([0, 1, 1, 1]).to(getattr(ternion, dtype))
    for pool, shape in ((F.lp_pool1d, (1, 1, 4)), (F.lp_pool2d, (1, 1, 2, 2)), (F.lp_pool3d, (1, 1, 1, 2, 2))):
        result = pool(x.reshape(shape), 2, [4] if len(shape) == 3 else list(shape[2:]))
        assert result.dtype == ternion.float32 and result.item() == pytest.approx(3**0.5)
    assert nn.LPPool1d(1, 2)(ternion.tensor([[3, 4, 5, 6]])).tolist() == [[7.0, 11.0]]


@beside_torch
def test_pools_of_powers():
    for axes, power, ceil in itertools.product((1, 2, 3), (1, 2, 3.0, -1), (False, True)):
        compare_with_pytorch(f"lp_pool{axes}d", np.abs(drawn(*IMAGES[axes])) + 0.5, power, 2, 2, ceil, exact=False)
    compare_with_pytorch("lp_pool2d", np.zeros((1, 1, 4, 4), dtype="float32"), 2, 2)


@beside_torch
def test_windows_at_random_distances():
    samples = RANDOM.random((2, 3, 2)).astype("float32")
    x = drawn(2, 3, 11, 9)
    own, right = (module.nn.functional.fractional_max_pool2d(module.tensor(x), (3, 2), (4, 5), None, True, module.tensor(samples)) for module in (ternion, torch))
    same(own, right)
    samples = RANDOM.random((1, 2, 3)).astype("float32")
    x = drawn(1, 2, 7, 6, 8)
    own, right = (module.nn.functional.fractional_max_pool3d(module.tensor(x), 2, (3, 4, 5), None, True, module.tensor(samples)) for module in (ternion, torch))
    same(own, right)


def test_random_windows_follow_the_seed():
    layer = nn.FractionalMaxPool2d(2, output_ratio=(0.5, 0.6))
    x = ternion.tensor(drawn(2, 3, 10, 10))
    ternion.manual_seed(3)
    first = layer(x)
    ternion.manual_seed(3)
    assert first.shape == (2, 3, 5, 6) and ternion.equal(first, layer(x))
    with pytest.raises(ValueError, match="expected either of the two"):
        nn.FractionalMaxPool2d(2)


@beside_torch
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_pools_taken_back(axes):
    x = drawn(*IMAGES[axes])
    own, right = (getattr(module.nn.functional, f"max_pool{axes}d")(module.tensor(x), 2, return_indices=True) for module in (ternion, torch))
    for size in (IMAGES[axes][2:], IMAGES[axes]):
        same(getattr(F, f"max_unpool{axes}d")(*own, 2, output_size=size), getattr(torch.nn.functional, f"max_unpool{axes}d")(*right, 2, output_size=size))
    layer = getattr(nn, f"MaxUnpool{axes}d")(2)
    same(layer(*own, output_size=IMAGES[axes]), getattr(torch.nn, f"MaxUnpool{axes}d")(2)(*right, output_size=IMAGES[axes]))
    x = drawn(2, 3, *(4,) * axes)
    own, right = (getattr(module.nn.functional, f"max_pool{axes}d")(module.tensor(x), 2, return_indices=True) for module in (ternion, torch))
    same(layer(*own), getattr(torch.nn, f"MaxUnpool{axes}d")(2)(*right))


def test_unpooling_rejects_what_cannot_be():
    x, indices = ternion.ones(1, 1, 2, 2), ternion.zeros(1, 1, 2, 2, dtype=ternion.int64)
    with pytest.raises(IndexError, match="max_unpool2d"):
        F.max_unpool2d(x, indices + 99, 2)
    with pytest.raises(ValueError, match="output_size"):
        F.max_unpool2d(x, indices, 2, output_size=(9, 4))
    with pytest.raises(ValueError, match="indices of shape"):
        F.max_unpool2d(x, indices[:, :, :1], 2)
    gradient = x.clone().requires_grad_()
    F.max_unpool2d(gradient, indices, 2).sum().backward()
    assert gradient.grad.tolist() == [[[[1, 1], [1, 1]]]], "each has the gradient of its position"


@pytest.mark.parametrize("name, shape", [("max_pool1d", (0, 10)), ("max_pool1d", (2, 0, 5)), ("max_pool2d", (0, 4, 4)), ("max_pool2d", (2, 0, 4, 4)),
                                         ("max_pool3d", (0, 4, 4, 4)), ("avg_pool1d", (2, 0, 5)), ("adaptive_max_pool2d", (1, 0, 5, 5)),
                                         ("adaptive_avg_pool3d", (1, 0, 5, 5, 5))])  # fmt: skip
def test_no_channels_are_rejected(name, shape):
    with pytest.raises(ValueError, match="without channels"):
        getattr(F, name)(ternion.ones(shape), 1)


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_empty_batches_stay_empty(axes):
    x = ternion.ones(0, 2, *(4,) * axes)
    for name in ("max_pool", "avg_pool", "adaptive_avg_pool", "adaptive_max_pool"):
        assert getattr(F, f"{name}{axes}d")(x, 2).shape == (0, 2, *(2,) * axes)
        assert getattr(F, f"{name}{axes}d")(ternion.ones(2, *(4,) * axes), 2).shape == (2, *(2,) * axes)


def test_memory_follows_the_image_and_not_the_window():
    """Windows of 2^32 elements used to take gigabytes."""
    x = ternion.ones(3, 4, 1)
    assert F.avg_pool1d(x, (2**32,), ceil_mode=True).tolist() == [[[1.0]] * 4] * 3
    values, indices = F.max_pool1d(x, 2**32, ceil_mode=True, return_indices=True)
    assert values.shape == (3, 4, 1) and indices.sum().item() == 0
    assert F.max_pool1d(ternion.tensor([[[1.0, 3.0, 2.0]]]), 2**32, 1, 2**31).max().item() == 3
    with pytest.raises(ValueError, match="larger than"):
        F.avg_pool2d(ternion.ones(1, 1, 2, 2), 2**62)
    with pytest.raises(MemoryError):
        F.pad(ternion.ones(1, 1, 4), (2**50, 2**50), mode="replicate")
    with pytest.raises((MemoryError, ValueError)):
        F.pad(ternion.ones(1, 1, 4), (2**62, 2**62), mode="replicate")


def test_half_precision_of_pools_is_rounded_once():
    x = ternion.tensor([[[[[1.0, 2.0**-7]] * 2] * 2] * 1]).to(ternion.bfloat16)
    wide = F.avg_pool3d(x.float(), 2).to(ternion.bfloat16)
    assert ternion.equal(F.avg_pool3d(x, 2), wide)


# ---- Resizing


MODES = [("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2), ("nearest-exact", 3), ("linear", 1), ("bilinear", 2),
         ("bicubic", 2), ("trilinear", 3), ("area", 1), ("area", 2), ("area", 3)]  # fmt: skip


@beside_torch
@pytest.mark.parametrize("mode, axes", MODES)
def test_other_sizes_are_pytorchs(mode, axes):
    exact = mode.startswith("nearest")
    corners = [None, False, True] if "linear" in mode or mode == "bicubic" else [None]
    for align in corners:
        for size in (1, 3, 9, tuple(range(4, 4 + axes))):
            compare_with_pytorch("interpolate", drawn(*IMAGES[axes], dtype="float64"), size=size, mode=mode, align_corners=align, exact=exact)
        for factor, recompute in itertools.product((2, 0.7, 1.7, 1.2, tuple(1.3 + axis for axis in range(axes))), (None, False, True)):
            if (mode, axes, factor) == ("nearest", 3, 1.2) and not recompute:
                # An axis of size 3 keeps its size. PyTorch's forward and backward then use
                # different elements.
                continue
            options = {"scale_factor": factor, "mode": mode, "align_corners": align, "recompute_scale_factor": recompute}
            compare_with_pytorch("interpolate", drawn(*IMAGES[axes], dtype="float64"), exact=exact, **options)


@beside_torch
@pytest.mark.parametrize("mode, axes", [each for each in MODES if not each[0].startswith("nearest")])
def test_half_precision_of_other_sizes_is_rounded_once(mode, axes):
    align = None if mode == "area" else True
    for dtype in (ternion.bfloat16, ternion.float16):
        x = ternion.tensor(drawn(*IMAGES[axes])).to(dtype)
        wide = F.interpolate(x.float(), size=(4,) * axes, mode=mode, align_corners=align).to(dtype)
        assert ternion.equal(F.interpolate(x, size=(4,) * axes, mode=mode, align_corners=align), wide)


@pytest.mark.parametrize("mode, axes", MODES)
def test_gradients_in_half_precision_are_rounded_once(mode, axes):
    align = True if "linear" in mode or mode == "bicubic" else None
    for dtype in (ternion.bfloat16, ternion.float16):
        x = ternion.tensor(drawn(*IMAGES[axes])).to(dtype)
        gradients, weights = [], ternion.tensor(drawn(*x.shape[:2], *(9,) * axes)).to(dtype)
        for leaf in (x.clone().requires_grad_(), x.float().requires_grad_()):
            resized = F.interpolate(leaf, size=(9,) * axes, mode=mode, align_corners=align)
            resized.backward(weights.to(resized.dtype))
            gradients.append(leaf.grad.to(dtype))
        assert gradients[0].equal(gradients[1])


def test_sizes_that_pytorch_rejects_are_rejected():
    x = ternion.ones(1, 2, 4, 4)
    for options in ({"mode": "linear"}, {"mode": "trilinear"}, {"mode": "cubic"}, {"mode": "nearest", "align_corners": False}, {"size": (3,)}, {"size": 3, "scale_factor": None,
                    "recompute_scale_factor": True}, {"antialias": True}):  # fmt: skip
        with pytest.raises(ValueError, match="interpolate"):
            F.interpolate(x, **{"size": 3, **options})
    for shape, size in (((1, 0, 4, 4), 3), ((1, 2, 0, 4), 3), ((1, 2, 4, 4), 0)):
        with pytest.raises(ValueError, match="interpolate"):
            F.interpolate(ternion.ones(shape), size=size)
    assert F.interpolate(ternion.ones(0, 2, 4, 4), size=3).shape == (0, 2, 3, 3)
    with pytest.raises(TypeError, match="integers"):
        F.interpolate(x, size=4.0)
    with pytest.raises(MemoryError, match="more than memory holds"):
        F.interpolate(x, scale_factor=1e9)


# ---- Grids


@beside_torch
@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
def test_images_at_any_positions(axes, padding):
    for mode, align in itertools.product(("bilinear", "nearest", "bicubic"), (None, False, True)):
        if mode == "bicubic" and axes == 3:
            continue
        # In float64: the gradient of a position is a difference of neighbors, which has few digits
        # in float32.
        grid = RANDOM.uniform(-1.5, 1.5, (2, *(4,) * axes, axes))
        x = drawn(*IMAGES[axes], dtype="float64")
        own, right = (module.tensor(x).requires_grad_() for module in (ternion, torch))
        our_grid, their_grid = (module.tensor(grid).requires_grad_() for module in (ternion, torch))
        actual = F.grid_sample(own, our_grid, mode, padding, align)
        expected = torch.nn.functional.grid_sample(right, their_grid, mode, padding, align)
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-10)
        actual.square().sum().backward()
        expected.square().sum().backward()
        np.testing.assert_allclose(own.grad.numpy(), right.grad.numpy(), rtol=1e-9, atol=1e-9)
        if mode != "nearest":
            np.testing.assert_allclose(our_grid.grad.numpy(), their_grid.grad.numpy(), rtol=1e-9, atol=1e-9)


@beside_torch
def test_positions_of_affine_maps():
    for shape, size in (((2, 2, 3), (2, 3, 4, 5)), ((1, 2, 3), (1, 1, 1, 3)), ((2, 3, 4), (2, 1, 3, 1, 2))):
        for align in (False, True):
            compare_with_pytorch("affine_grid", drawn(*shape), size, align, exact=False)


@pytest.mark.parametrize("call", [lambda x, g: F.grid_sample(x, g, "linear"), lambda x, g: F.grid_sample(x, g, padding_mode="circular"), lambda x, g: F.grid_sample(x, g[:1]),
                                  lambda x, g: F.grid_sample(x[0], g), lambda x, g: F.grid_sample(x[:, :, :0], g), lambda x, g: F.affine_grid(ternion.ones(1, 3, 4), (1, 1, 2, 2)),
                                  lambda x, g: F.affine_grid(ternion.ones(1, 2, 3), (1, 1, 0, 2))])  # fmt: skip
def test_grids_that_do_not_fit(call):
    with pytest.raises(ValueError):
        call(ternion.ones(2, 1, 3, 3), ternion.ones(2, 2, 2, 2))


# ---- Convolutions


@beside_torch
@pytest.mark.parametrize("dtype", ["float32", "int64"])
@pytest.mark.parametrize("axes", [1, 2, 3])
def test_convolutions(axes, dtype):
    small = (3,) * axes
    for groups, stride, padding, dilation in itertools.product((1, 2), (1, 2), (0, 1, "same", "valid"), (1, 2)):
        if padding == "same" and stride != 1:
            continue
        x, weight, bias = (RANDOM.integers(-9, 9, shape).astype(dtype) for shape in ((2, 4, *(6,) * axes), (6, 4 // groups, *small), (6,)))
        compare_with_pytorch(f"conv{axes}d", x, weight, bias, stride, padding, dilation, groups)
        if not isinstance(padding, str):
            output_padding = 1 if stride == 2 or dilation == 2 else 0
            weight, bias = (RANDOM.integers(-9, 9, shape).astype(dtype) for shape in ((4, 3, *small), (3 * groups,)))
            compare_with_pytorch(f"conv_transpose{axes}d", x, weight, bias, stride, padding, output_padding, groups, dilation)


@beside_torch
def test_layers_of_volumes():
    for name, options in (("Conv3d", {"padding": "same", "padding_mode": "circular"}), ("Conv3d", {"stride": 2, "groups": 2, "bias": False}), ("ConvTranspose3d", {"stride": 2})):
        theirs = getattr(torch.nn, name)(4, 6, (3, 2, 1), dtype=torch.float64, **options)
        ours = getattr(nn, name)(4, 6, (3, 2, 1), dtype=ternion.float64, **options)
        ours.load_state_dict({key: ternion.tensor(value.numpy()) for key, value in theirs.state_dict().items()})
        x = drawn(2, 4, 5, 4, 3, dtype="float64")
        same(ours(ternion.tensor(x)), theirs(torch.tensor(x)), exact=False)
    layer = nn.ConvTranspose3d(2, 3, 3, stride=2, padding=1)
    assert layer(ternion.ones(1, 2, 3, 3, 3), output_size=(6, 6, 6)).shape == (1, 3, 6, 6, 6)


def test_patches_of_integers():
    image = ternion.arange(16).reshape(1, 1, 4, 4)
    assert F.unfold(image, 2, stride=2).tolist() == [[[0, 2, 8, 10], [1, 3, 9, 11], [4, 6, 12, 14], [5, 7, 13, 15]]]
    assert F.unfold(image > 5, 2, padding=1).dtype == ternion.bool


# ---- Padding


@beside_torch
@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
def test_borders_with_negative_amounts(mode):
    for shape, amounts in (((1, 1, 5), (-1, 2)), ((1, 1, 5), (3, -2)), ((1, 5), (-1, -1)), ((5, 5), (1, 1)), ((2, 3, 4, 5), (1, 2, -1, 1)), ((3, 4, 5), (1, -2, 0, 3)),
                           ((1, 2, 3, 4, 5), (1, 1, 2, -1, 1, 2)), ((2, 3, 4, 5), (1, 0, 0, 1, -1, 1)), ((0, 2, 5), (1, 1)), ((1, 1, 5), (0, 0))):  # fmt: skip
        compare_with_pytorch("pad", drawn(*shape), amounts, mode, gradient=0 not in shape)
        compare_with_pytorch("pad", drawn(*shape, dtype="int64"), amounts, mode)
    compare_with_pytorch("pad", drawn(1, 2, 3), (-1, 5), "replicate")


@pytest.mark.parametrize("mode, shape, amounts", [("reflect", (1, 1, 5), (-3, -3)), ("reflect", (1, 1, 5), (5, 5)), ("reflect", (1, 1, 5, 5), (1, 1)), ("reflect", (5,), (1, 1)),
                                                  ("reflect", (2, 0, 5), (1, 1)), ("replicate", (2, 2, 0), (1, 1)), ("replicate", (1, 1, 5), (-3, -3)),
                                                  ("circular", (1, 1, 5), (-3, -3)), ("circular", (1, 1, 5), (6, 0)), ("circular", (1, 1, 5), (-5, 7))])  # fmt: skip
def test_borders_that_pytorch_rejects(mode, shape, amounts):
    with pytest.raises(ValueError, match="pad"):
        F.pad(ternion.ones(shape), amounts, mode)


def test_borders_have_no_value_of_their_own():
    with pytest.raises(ValueError, match="value"):
        F.pad(ternion.ones(1, 1, 5), (1, 1), "reflect", 1.0)
    with pytest.raises(TypeError, match="^pad: a bool input"):
        F.pad(ternion.ones(1, 1, 5) > 0, (1, 1), "reflect")
    x = ternion.ones(1, 1, 5)
    F.pad(x, (0, 0), "replicate").zero_()
    assert x.sum().item() == 5, "a border of nothing is a copy"


@beside_torch
@pytest.mark.parametrize("kind, mode", [("ReflectionPad3d", "reflect"), ("ReplicationPad3d", "replicate"), ("CircularPad3d", "circular"), ("ZeroPad3d", "constant")])
def test_layers_of_borders_of_volumes(kind, mode):
    x = drawn(1, 2, 3, 4, 5)
    for amounts in (1, (1, 2, 0, 1, 2, 1)):
        same(getattr(nn, kind)(amounts)(ternion.tensor(x)), getattr(torch.nn, kind)(amounts)(torch.tensor(x)))
    same(nn.ConstantPad3d(1, 7.0)(ternion.tensor(x)), torch.nn.ConstantPad3d(1, 7.0)(torch.tensor(x)))


# ---- Channels


@beside_torch
def test_channels():
    for shape in ((1, 4, 2, 2), (2, 6, 5), (3, 4, 0), (0, 4, 2)):
        compare_with_pytorch("channel_shuffle", drawn(*shape), 2)
        for size in (1, 2, 3, 9):
            compare_with_pytorch("local_response_norm", drawn(*shape), size, exact=False)
    for shape in ((0, 4, 2, 2), (1, 0, 2, 2), (1, 4, 0, 2), (4, 2, 3)):
        compare_with_pytorch("pixel_shuffle", drawn(*shape), 2, gradient=0 not in shape)
    compare_with_pytorch("pixel_unshuffle", drawn(2, 4, 6), 2)
    # PyTorch leaves the shape of empty inputs unchanged.
    for shape, right in (((0, 1, 4, 4), (0, 4, 2, 2)), ((1, 0, 4, 4), (1, 0, 2, 2)), ((1, 1, 0, 4), (1, 4, 0, 2))):
        assert F.pixel_unshuffle(ternion.ones(shape), 2).shape == right
    assert nn.LocalResponseNorm(2)(ternion.ones(1, 4, 2)).shape == nn.ChannelShuffle(2)(ternion.ones(1, 4, 2)).shape


@pytest.mark.parametrize("call", [lambda: F.channel_shuffle(ternion.ones(1, 4, 2), 3), lambda: F.channel_shuffle(ternion.ones(4, 2), 2), lambda: F.channel_shuffle(ternion.ones(1, 4, 2), 0),
                                  lambda: F.pixel_shuffle(ternion.ones(4, 2), 2), lambda: F.pixel_shuffle(ternion.ones(3, 4, 2, 2), -1),
                                  lambda: F.local_response_norm(ternion.ones(1, 4), 3), lambda: F.local_response_norm(ternion.ones(1, 4, 2), 0)])  # fmt: skip
def test_channels_that_do_not_fit(call):
    with pytest.raises(ValueError):
        call()
