"""Mixed precision: autocast scopes, and loss scales."""

import threading

import numpy as np
import pytest

import ternion
from ternion import amp, nn, optim

F32, F16, BF16 = ternion.float32, ternion.float16, ternion.bfloat16


def test_products_are_in_half_precision_and_sums_are_not():
    x, layer = ternion.randn(4, 8), nn.Linear(8, 2)
    with ternion.autocast("cpu"):
        y = layer(x)
        assert y.dtype is BF16 and (y + x[:, :2]).dtype is F32 and y.softmax(1).dtype is F32 and y.relu().dtype is BF16
        loss = y.square().mean()
        assert loss.dtype is F32 and ternion.is_autocast_enabled()
    assert not ternion.is_autocast_enabled() and layer(x).dtype is F32
    loss.backward()
    assert layer.weight.grad.dtype is F32 and layer.weight.dtype is F32


def test_the_numbers_are_those_of_the_casts():
    a, b = ternion.randn(5, 7), ternion.randn(7, 3)
    for dtype in (F16, BF16):
        with ternion.autocast("cpu", dtype=dtype):
            result = a @ b
        assert result.equal(a.to(dtype) @ b.to(dtype))


def test_the_dtypes_are_those_of_pytorch():
    torch = pytest.importorskip("torch")
    programs = [
        lambda m, a, b: a @ b, lambda m, a, b: (a @ b).softmax(1), lambda m, a, b: (a @ b).sum(), lambda m, a, b: (a @ b) + a[:, :3],
        lambda m, a, b: (a @ b).relu(), lambda m, a, b: m.nn.functional.mse_loss(a @ b, a[:, :3]), lambda m, a, b: (a @ b).exp(),
    ]  # fmt: skip
    a, b = np.ones((5, 7), np.float32), np.ones((7, 3), np.float32)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    for number, program in enumerate(programs):
        with torch.autocast(device, dtype=torch.bfloat16):
            torch_dtype = program(torch, torch.tensor(a, device=device), torch.tensor(b, device=device)).dtype
        with ternion.autocast("cpu", dtype=BF16):
            ternion_dtype = program(ternion, ternion.tensor(a), ternion.tensor(b)).dtype
        # On the CPU, PyTorch keeps more ops in half precision. Ternion's lists are those of
        # PyTorch's CUDA devices.
        if device == "cuda" or number in (0, 3, 4, 5):
            assert str(ternion_dtype).split(".")[1] == str(torch_dtype).split(".")[1], number


def test_scopes_nest_and_end():
    x = ternion.ones(2, 2)
    with ternion.autocast("cpu", dtype="float16"):
        with ternion.autocast("cpu", dtype=F32):
            assert (x @ x).dtype is F32
        with ternion.autocast("cpu", enabled=False):
            assert (x @ x).dtype is F32 and not ternion.is_autocast_enabled()
        with pytest.raises(KeyError), ternion.autocast("cpu", dtype="tf32"):
            assert (x @ x).dtype is F32
            raise KeyError
        with ternion.autocast("cpu", dtype="ieee"):
            assert (x @ x).dtype is F32
        queries = ternion.ones(1, 1, 2, 2)
        for name in ("tf32", "ieee"):
            with ternion.autocast("cpu", dtype=name):
                assert ternion.nn.functional.scaled_dot_product_attention(queries, queries, queries).dtype is F32
        assert (x @ x).dtype is F16
        result = []
        thread = threading.Thread(target=lambda: result.append((x @ x).dtype))
        thread.start()
        thread.join()
        assert result == [F32]

    @ternion.autocast("cuda")
    def product():
        return (x @ x).dtype

    assert product() is F16 and (x @ x).dtype is F32


def test_scopes_that_cannot_be():
    with pytest.raises(ValueError, match="device_type 'tpu', expected one of cpu, cuda, wgpu"):
        ternion.autocast("tpu")
    with pytest.raises(ValueError, match="dtype ternion.int64, expected float16"):
        ternion.autocast("cpu", dtype=ternion.int64)
    with pytest.raises(TypeError, match="device_type 3"):
        ternion.autocast(3)
    with pytest.raises(TypeError, match="dtype 3"):
        ternion.autocast("cpu", dtype=3)


def test_a_training_in_a_half_learns():
    x = ternion.randn(64, 8)
    target = (x @ ternion.randn(8, 1)).tanh()
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
    adam, scaler = optim.AdamW(model.parameters(), lr=0.02), amp.GradScaler()
    losses = []
    for _ in range(100):
        adam.zero_grad()
        with ternion.autocast("cpu", dtype=F16):
            loss = nn.functional.mse_loss(model(x), target)
        scaler.scale(loss).backward()
        scaler.step(adam)
        scaler.update()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0] and scaler.steps == 100 and scaler.skipped < 5
    assert all(parameter.dtype is F32 for parameter in model.parameters())


# ---- Loss scales


def stepped(scaler, optimizer, parameter, gradient):
    optimizer.zero_grad()
    scaler.scale((parameter * ternion.tensor(gradient)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    return scaler.get_scale(), parameter.tolist()


def test_the_scale_moves_as_pytorchs():
    torch = pytest.importorskip("torch")
    options = dict(init_scale=8.0, growth_factor=2.0, backoff_factor=0.25, growth_interval=2)
    ternion_parameter, torch_parameter = nn.Parameter(ternion.ones(2)), torch.nn.Parameter(torch.ones(2))
    ours, theirs = optim.SGD([ternion_parameter], lr=0.5), torch.optim.SGD([torch_parameter], lr=0.5)
    scaler, reference = amp.GradScaler("cpu", **options), torch.amp.GradScaler("cpu", **options)
    for gradient in ([1.0, 2.0], [1.0, float("inf")], [1.0, 1.0], [0.5, 0.5], [float("nan"), 0.0], [1.0, 0.0]):
        theirs.zero_grad()
        reference.scale((torch_parameter * torch.tensor(gradient)).sum()).backward()
        reference.step(theirs)
        reference.update()
        assert stepped(scaler, ours, ternion_parameter, gradient) == (reference.get_scale(), torch_parameter.tolist())
    assert (scaler.steps, scaler.skipped) == (6, 2) and repr(scaler) == f"GradScaler(scale {scaler.get_scale():g}, 2 of 6 steps skipped)"
    state = reference.state_dict()
    assert {key: value for key, value in scaler.state_dict().items() if key in state} == state
    fresh = amp.GradScaler("cpu")
    fresh.load_state_dict(state)
    assert fresh.get_scale() == reference.get_scale() and fresh.steps == 0


def test_unscaled_gradients_can_be_clipped():
    parameter = nn.Parameter(ternion.ones(3))
    sgd, scaler = optim.SGD([parameter], lr=1.0), amp.GradScaler(init_scale=1024.0)
    scaler.scale((parameter * 4).sum()).backward()
    assert parameter.grad.tolist() == [4096.0] * 3
    scaler.unscale_(sgd)
    assert parameter.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="since the last update"):
        scaler.unscale_(sgd)
    nn.utils.clip_grad_value_([parameter], 1.0)
    scaler.step(sgd)
    assert parameter.tolist() == [0.0] * 3
    with pytest.raises(RuntimeError, match="since the last update"):
        scaler.step(sgd)
    with pytest.raises(RuntimeError, match="after step"):
        scaler.unscale_(sgd)
    scaler.update()
    with pytest.raises(RuntimeError, match="before step"):
        scaler.update()
    scaler.update(32.0)
    assert scaler.get_scale() == 32.0 and scaler.scale([ternion.tensor(1.0), ternion.tensor(2.0, dtype=F16)])[1].dtype is F32


def test_a_model_that_gives_infinity_is_reported():
    parameter = nn.Parameter(ternion.ones(1))
    sgd, scaler = optim.SGD([parameter], lr=1.0), amp.GradScaler(init_scale=2.0**-15)
    assert stepped(scaler, sgd, parameter, [float("inf")]) == (2.0**-16, [1.0])
    with pytest.raises(RuntimeError, match="the smallest: the loss itself"):
        stepped(scaler, sgd, parameter, [float("inf")])


def test_scales_that_cannot_be():
    for options, message in [
        ({"init_scale": 0.0}, "init_scale 0"), ({"growth_factor": 1.0}, "growth_factor 1"), ({"backoff_factor": 1.0}, "backoff_factor 1"),
        ({"growth_interval": 0}, "growth_interval 0"), ({"init_scale": float("inf")}, "init_scale inf"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            amp.GradScaler(**options)
    scaler = amp.GradScaler()
    with pytest.raises(TypeError, match="expected a floating dtype"):
        scaler.scale(ternion.tensor(1))
    with pytest.raises(TypeError, match="got float"):
        scaler.scale(1.0)
    with pytest.raises(RuntimeError, match="the state is empty"):
        scaler.load_state_dict({})
    with pytest.raises(ValueError, match="lacks growth_factor"):
        scaler.load_state_dict({"scale": 1.0})
    half = nn.Parameter(ternion.ones(2, dtype=F16))
    half.grad = ternion.ones(2, dtype=F16)
    with pytest.raises(ValueError, match="gradients in float16"):
        scaler.unscale_(optim.SGD([half], lr=1.0))


def test_a_scaler_that_is_switched_off():
    parameter = nn.Parameter(ternion.ones(1))
    sgd, scaler = optim.SGD([parameter], lr=1.0), amp.GradScaler(enabled=False)
    loss = (parameter * 2).sum()
    assert scaler.scale(loss) is loss and not scaler.is_enabled() and scaler.state_dict() == {}
    loss.backward()
    scaler.unscale_(sgd)
    scaler.step(sgd)
    scaler.update()
    assert parameter.tolist() == [-1.0] and scaler.get_scale() == 1.0
