"""Behavior that needs a CUDA device: memory shared with PyTorch on the device, and the order
between the streams of both libraries."""

import gc

import pytest

import ternion

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("PyTorch sees no CUDA device", allow_module_level=True)
try:
    CUDA = ternion.device("cuda")
except (RuntimeError, ValueError) as error:
    pytest.skip(f"no CUDA device: {error}", allow_module_level=True)

# Cycles for which a PyTorch stream is kept busy: about 50 ms.
BUSY = 100_000_000


def chain(x, length=200):
    """Launches `length` kernels in sequence, after which x has its original values."""
    for _ in range(length // 2):
        x = (x + 1) - 1
    return x


def test_memory_is_the_same_on_both_sides():
    for dtype in ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]:
        torch_tensor = torch.ones(2, 3, dtype=getattr(torch, dtype), device="cuda")
        ternion_tensor = ternion.from_dlpack(torch_tensor)
        assert ternion_tensor.data_ptr() == torch_tensor.data_ptr() and ternion_tensor.device == "cuda" and str(ternion_tensor.dtype) == f"ternion.{dtype}"
        again = torch.from_dlpack(ternion_tensor)
        assert again.data_ptr() == torch_tensor.data_ptr() and again.dtype == torch_tensor.dtype
    torch_tensor = torch.arange(6.0, device="cuda").reshape(2, 3)
    ternion_tensor = ternion.from_dlpack(torch_tensor.t())
    torch_tensor[1, 2] = 9
    torch.cuda.synchronize()
    ternion_tensor[0, 0] = -5
    CUDA.synchronize()
    assert ternion_tensor[2, 1].item() == 9 and torch_tensor[0, 0].item() == -5
    assert torch.from_dlpack(ternion.zeros(0, 3, device="cuda")).shape == (0, 3)
    assert ternion.as_tensor(torch_tensor).data_ptr() == torch_tensor.data_ptr()


def test_pinned_memory_is_the_processors():
    torch_tensor = torch.arange(4.0).pin_memory()
    ternion_tensor = ternion.from_dlpack(torch_tensor)
    assert ternion_tensor.device == "cpu" and ternion_tensor.data_ptr() == torch_tensor.data_ptr() and ternion_tensor.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("own_stream", [False, True])
def test_what_pytorch_has_queued_comes_first_here(own_stream):
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        torch_tensor = torch.zeros(1 << 20, device="cuda")
        torch.cuda._sleep(BUSY)
        torch_tensor.fill_(7.0)
        ternion_tensor = ternion.from_dlpack(torch_tensor)
        total = (ternion_tensor * 2).sum()
    assert total.item() == 14.0 * (1 << 20)


@pytest.mark.parametrize("own_stream", [False, True])
def test_what_is_queued_here_comes_first_in_pytorch(own_stream):
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    for value in range(5):
        ternion_tensor = chain(ternion.full((1 << 22,), float(value), device="cuda")) + 1
        with torch.cuda.stream(stream):
            assert torch.from_dlpack(ternion_tensor).sum().item() == (value + 1) * (1 << 22)


def test_memory_of_pytorch_stays_until_kernels_here_have_ended():
    """PyTorch's allocator reuses a block as soon as its tensor has been freed."""
    for value in range(20):
        torch_tensor = torch.full((1 << 22,), float(value), device="cuda")
        ternion_tensor = ternion.from_dlpack(torch_tensor)
        busy = chain(ternion.ones(1 << 22, device="cuda"))
        # Queued after all of this. Only the kernels keep the memory alive.
        late = ternion_tensor + busy
        del torch_tensor, ternion_tensor
        overwritten = [torch.full((1 << 22,), -1e9, device="cuda") for _ in range(3)]
        assert late.sum().item() == (value + 1) * (1 << 22)
        del overwritten


@pytest.mark.parametrize("own_stream", [False, True])
def test_memory_from_here_stays_until_kernels_of_pytorch_have_ended(own_stream):
    stream = torch.cuda.Stream() if own_stream else torch.cuda.default_stream()
    with torch.cuda.stream(stream):
        for value in range(20):
            ternion_tensor = ternion.full((1 << 22,), float(value), device="cuda")
            torch_tensor = torch.from_dlpack(ternion_tensor)
            torch.cuda._sleep(BUSY // 10)
            late = torch_tensor + 1
            del torch_tensor, ternion_tensor
            overwritten = [ternion.full((1 << 22,), -1e9, device="cuda") for _ in range(3)]
            CUDA.synchronize()
            assert late.sum().item() == (value + 1) * (1 << 22)
            del overwritten


def test_ten_thousand_round_trips_leak_nothing():
    def trips(count):
        for _ in range(count):
            torch.from_dlpack(ternion.from_dlpack(torch.ones(1 << 12, device="cuda")))
            ternion.from_dlpack(torch.from_dlpack(ternion.ones(1 << 12, device="cuda")))
        gc.collect()
        torch.cuda.synchronize()
        CUDA.synchronize()

    trips(100)
    before = torch.cuda.memory_allocated(), CUDA.memory()["in_use"]
    trips(10_000)
    assert (torch.cuda.memory_allocated(), CUDA.memory()["in_use"]) == before


def test_streams_are_named():
    x = ternion.ones(2, device="cuda")
    with pytest.raises(ValueError, match="stream 0 is ambiguous"):
        x.__dlpack__(stream=0)
    with pytest.raises(ValueError, match="-2 is not a stream"):
        x.__dlpack__(stream=-2)
    with pytest.raises(TypeError):
        x.__dlpack__(stream="main")
    assert x.__dlpack_device__() == (2, 0)
    copied = torch.from_dlpack(x.__dlpack__(dl_device=(1, 0)))
    assert copied.device.type == "cpu" and copied.tolist() == [1, 1]


def test_gradients_are_those_of_the_processor():
    def gradients(device):
        ternion.manual_seed(3)
        model = ternion.nn.Sequential(ternion.nn.Linear(5, 7), ternion.nn.GELU(), ternion.nn.Linear(7, 2)).to(device)
        model(ternion.arange(15.0, device=device).reshape(3, 5) / 15).square().sum().backward()
        return [parameter.grad.cpu().numpy() for parameter in model.parameters()]

    for cuda_grad, cpu_grad in zip(gradients("cuda"), gradients("cpu")):
        assert abs(cuda_grad - cpu_grad).max() <= 1e-5 * abs(cpu_grad).max()
