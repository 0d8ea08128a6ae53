"""Memory that is shared with NumPy and PyTorch: pointers are equal, writes are visible on the other
side, and all memory is released."""

import gc
import os
import subprocess
import sys

import numpy as np
import pytest

import ternion


def test_a_tensor_as_an_array():
    x = ternion.arange(6.0).reshape(2, 3)
    array = x.numpy()
    assert array.__array_interface__["data"][0] == x.data_ptr()
    array[1, 2] = 50
    assert x[1, 2].item() == 50
    x[0, 0] = -1
    assert array[0, 0] == -1
    view = x.t()[1:]
    assert view.numpy().__array_interface__["data"][0] == view.data_ptr()
    np.testing.assert_array_equal(view.numpy(), array.T[1:])
    np.testing.assert_array_equal(np.asarray(x), array)
    assert np.asarray(x).ctypes.data == x.data_ptr()


def test_an_array_as_a_tensor():
    array = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    for part in (array, array[:, ::2], array.transpose(2, 0, 1), array[::-1], array[1, 1:2, :3], array[:0]):
        x = ternion.from_numpy(part)
        assert x.shape == part.shape
        np.testing.assert_array_equal(x.numpy(), part)
        if part.size:
            assert x.data_ptr() == part.ctypes.data
    x = ternion.from_numpy(array)
    array[0, 0, 0] = 7
    assert x[0, 0, 0].item() == 7
    x *= 2
    assert array[0, 0, 0] == 14


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"])
def test_every_dtype_that_both_have(dtype):
    array = np.array([[1, 0, 1]], dtype=dtype)
    x = ternion.from_numpy(array)
    assert str(x.dtype) == f"ternion.{dtype}" and x.numpy().dtype == array.dtype
    np.testing.assert_array_equal(x.numpy(), array)


def test_what_cannot_be_shared_is_copied_or_reported():
    frozen = np.ones(3, np.float32)
    frozen.flags.writeable = False
    x = ternion.from_numpy(frozen)
    x[0] = 5
    assert frozen[0] == 1
    shifted = np.zeros(9, np.uint8)[1:].view(np.uint8)
    unaligned = np.frombuffer(bytearray(9), np.uint8)[1:9].view(np.float32)
    assert ternion.from_numpy(unaligned).tolist() == [0.0, 0.0] and ternion.from_numpy(shifted).shape == (8,)
    with pytest.raises(TypeError, match="an array of dtype complex64, expected one of float64"):
        ternion.from_numpy(np.ones(1, np.complex64))
    with pytest.raises(TypeError, match="an array of dtype >f4"):
        ternion.from_numpy(np.ones(1, ">f4"))
    with pytest.raises(TypeError, match="from_numpy: expected an array of NumPy, got list"):
        ternion.from_numpy([1.0])
    with pytest.raises(TypeError, match="NumPy has no bfloat16"):
        ternion.ones(1, dtype="bfloat16").numpy()
    with pytest.raises(RuntimeError, match="call detach\\(\\).numpy\\(\\)"):
        ternion.ones(1, requires_grad=True).numpy()
    assert ternion.ones(1, requires_grad=True).numpy(force=True) == 1


def test_scalars_of_numpy_stay():
    numbers = np.arange(5, dtype=np.float32) + 0.5
    assert [ternion.as_tensor(number).item() for number in numbers] == numbers.tolist()
    tensors = [ternion.from_numpy(np.int64(number)) for number in range(100)]
    gc.collect()
    assert [tensor.item() for tensor in tensors] == list(range(100))
    first = ternion.from_numpy(np.float64(1))
    first.fill_(3)
    assert first.item() == 3 and ternion.as_tensor(np.float32(2).copy()).item() == 2


def test_as_tensor_copies_only_where_it_must():
    array = np.ones(3, np.float32)
    x = ternion.as_tensor(array)
    assert x.data_ptr() == array.ctypes.data and ternion.as_tensor(x) is x
    assert ternion.as_tensor(array, dtype=ternion.float64).data_ptr() != array.ctypes.data
    assert ternion.tensor(array).data_ptr() != array.ctypes.data
    assert ternion.as_tensor([1, 2]).tolist() == [1, 2]


def test_numpy_by_dlpack():
    x = ternion.arange(6.0).reshape(2, 3)
    array = np.from_dlpack(x)
    assert array.ctypes.data == x.data_ptr()
    back = ternion.from_dlpack(np.arange(4.0))
    assert back.dtype is ternion.float64 and back.tolist() == [0, 1, 2, 3]
    with pytest.raises(TypeError, match="expected an array with __dlpack__, got list"):
        ternion.from_dlpack([1])
    with pytest.raises(BufferError, match="detach"):
        np.from_dlpack(ternion.ones(1, requires_grad=True))
    capsule = x.__dlpack__()
    del capsule  # No consumer took it: its contents are freed with it.
    assert x.__dlpack_device__() == (1, 0)


def test_a_capsule_is_taken_once():
    x = ternion.ones(3)
    for source in [x] + ([__import__("torch").ones(3)] if _has_torch() else []):
        capsule = source.__dlpack__()
        imported = ternion.from_dlpack(capsule)
        imported[0] = 5
        assert source.tolist() == [5.0, 1.0, 1.0]
        with pytest.raises(ValueError, match="none of DLPack, or was taken before"):
            ternion.from_dlpack(capsule)


def _has_torch():
    try:
        import torch  # noqa: F401
    except ImportError:
        return False
    return True


def test_pytorch_by_dlpack():
    torch = pytest.importorskip("torch")
    for dtype in ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]:
        torch_tensor = torch.ones(2, 3, dtype=getattr(torch, dtype))
        ternion_tensor = ternion.from_dlpack(torch_tensor)
        assert ternion_tensor.data_ptr() == torch_tensor.data_ptr() and str(ternion_tensor.dtype) == f"ternion.{dtype}"
        again = torch.from_dlpack(ternion_tensor)
        assert again.data_ptr() == torch_tensor.data_ptr() and again.dtype == torch_tensor.dtype
    for dtype in ["int16", "int8"]:
        torch_tensor = torch.tensor([-100, 7], dtype=getattr(torch, dtype))
        assert ternion.from_dlpack(torch_tensor).tolist() == [-100, 7] and torch.from_dlpack(ternion.from_dlpack(torch_tensor)).tolist() == [-100, 7]
        torch_tensor[0] = -5
        assert ternion.as_tensor(torch_tensor)[0].item() == -5 and ternion.as_tensor(torch_tensor).numpy().dtype == dtype
    torch_tensor = torch.arange(6.0).reshape(2, 3)
    ternion_tensor = ternion.from_dlpack(torch_tensor.t())
    torch_tensor[1, 2] = 9
    ternion_tensor[0, 0] = -5
    assert ternion_tensor[2, 1].item() == 9 and torch_tensor[0, 0].item() == -5
    assert ternion.as_tensor(torch_tensor).data_ptr() == torch_tensor.data_ptr()
    assert torch.from_dlpack(ternion.zeros(0, 3)).shape == (0, 3)


def resident():
    """Returns the resident memory of this process in bytes."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="memory is reported by Linux")
@pytest.mark.parametrize("way", ["numpy", "from_numpy", "dlpack", "capsule"])
def test_ten_thousand_round_trips_leak_nothing(way):
    if way == "dlpack" and np.lib.NumpyVersion(np.__version__) < "2.0.0":
        pytest.skip("NumPy 1 takes tensors as read-only arrays, which it does not pass on")
    array = np.ones(1 << 14, np.float32)
    x = ternion.ones(1 << 14)
    trips = {
        "numpy": lambda: x.numpy(),
        "from_numpy": lambda: ternion.from_numpy(array.copy()),
        "dlpack": lambda: ternion.from_dlpack(np.from_dlpack(ternion.from_numpy(array.copy()))),
        "capsule": lambda: x.__dlpack__(),
    }
    for _ in range(1000):
        trips[way]()
    gc.collect()
    before = resident()
    for _ in range(10_000):
        trips[way]()
    gc.collect()
    assert resident() - before < 1 << 21
    assert sys.getrefcount(array) <= 4


def test_owners_live_as_long_as_they_are_needed():
    x = ternion.from_numpy(np.full(100_000, 7.0, np.float32))
    array = ternion.full((100_000,), 3.0).numpy()
    gc.collect()
    trash = [np.zeros(100_000, np.float32) for _ in range(20)]
    assert x.sum().item() == 700_000 and array.sum() == 300_000
    del trash


def test_a_fork_is_reported():
    program = """
import os, ternion
ternion.ones(2) + 1
child = os.fork()
if child == 0:
    try:
        ternion.ones(2) + 1
    except RuntimeError as error:
        os._exit(0 if "was forked after ternion had been used" in str(error) else 2)
    os._exit(1)
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_a_fork_before_the_first_tensor_is_fine():
    program = """
import os, ternion
child = os.fork()
if child == 0:
    os._exit(int((ternion.ones(2) + 1).sum().item() != 4))
raise SystemExit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    if not hasattr(os, "fork"):
        pytest.skip("this system does not fork")
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0


def test_memory_that_went_through_pytorch_is_let_go_safely():
    """Runs in a separate process: releasing DLPack memory without holding the GIL would crash the
    interpreter."""
    pytest.importorskip("torch")
    program = """
import numpy as np, torch, ternion

def there_and_back(size):
    return ternion.from_dlpack(torch.from_dlpack(ternion.from_numpy(np.zeros(size, np.float32)))[1:3])

for _ in range(200):
    first = ternion.from_numpy(np.zeros(4, np.float32))
    again = ternion.from_dlpack(torch.from_dlpack(first))
    del first  # PyTorch holds what it has, and the last of them all lets it go.
    again += 1
    assert again.sum().item() == 4
    del again
for _ in range(200):
    assert (there_and_back(4) + 1).sum().item() == 2  # Only the addition refers to it.
    assert ternion.as_tensor(torch.from_dlpack(ternion.from_numpy(np.ones(3, np.float32)))).sum().item() == 3
"""
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_what_others_have_no_strides_for_is_copied():
    torch = pytest.importorskip("torch")
    x = ternion.arange(6.0)[::-1]
    assert x.stride() == (-1,) and torch.from_dlpack(x).tolist() == [5.0, 4.0, 3.0, 2.0, 1.0, 0.0]
    with pytest.raises(BufferError, match="negative strides.*contiguous\\(\\) copies it"):
        x.__dlpack__(copy=False)


def test_arguments_of_from_dlpack():
    array = np.arange(3.0)
    shared, copied = ternion.from_dlpack(array, device="cpu", copy=False), ternion.from_dlpack(array, copy=True)
    array[0] = 7
    assert shared.tolist() == [7.0, 1.0, 2.0] and copied.tolist() == [0.0, 1.0, 2.0]
