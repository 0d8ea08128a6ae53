"""The buffer protocol: memory of a tensor as seen by memoryviews and arrays."""

import gc
import struct
import weakref

import numpy as np
import pytest

import ternion


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "int64", "int32", "uint8", "bool"])
def test_every_dtype(dtype):
    x = ternion.tensor([[0, 1, 1], [1, 0, 1]]).to(getattr(ternion, dtype))
    view = memoryview(x)
    assert (view.shape, view.itemsize, view.nbytes, view.ndim) == ((2, 3), x.element_size(), x.nbytes, 2)
    assert view.strides == tuple(stride * x.element_size() for stride in x.stride())
    assert struct.calcsize(view.format) == view.itemsize and np.asarray(view).tolist() == x.tolist()
    assert np.frombuffer(x, dtype).tolist() == x.flatten().tolist()
    assert np.asarray(view).dtype == np.dtype(dtype) and not view.readonly


def test_writes_are_seen_on_both_sides():
    x = ternion.zeros(2, 3)
    view, array = memoryview(x), np.frombuffer(x, np.float32)
    view[1, 2] = 7.0
    array[0] = -1.0
    assert x.tolist() == [[-1, 0, 0], [0, 0, 7]]
    x[0, 1] = 5
    assert view[0, 1] == 5 and array[1] == 5


def test_strides():
    x = ternion.arange(24.0).reshape(2, 3, 4)
    for part in (x.transpose(0, 2), x[:, 1], x[:, ::2], x[1, :, 1:3]):
        view = memoryview(part)
        assert view.tolist() == part.tolist() and view.c_contiguous == part.is_contiguous()
        assert np.asarray(view).ctypes.data == part.data_ptr()
    with pytest.raises(BufferError, match="not C-contiguous"):
        np.frombuffer(x[:, 1], np.float32)
    with pytest.raises(TypeError, match="read-write bytes-like object"):
        struct.pack_into("f", x[:, ::2], 0, 1.0)
    assert bytes(x[:, 1].contiguous()) == x[:, 1].numpy().tobytes() and memoryview(x.transpose(0, 2)).f_contiguous


def test_sizes_without_elements_or_axes():
    assert memoryview(ternion.zeros(0, 3)).shape == (0, 3) and bytes(ternion.zeros(0)) == b""
    assert memoryview(ternion.tensor(3.0)).tolist() == 3.0 and np.frombuffer(ternion.tensor(3.0), np.float32).tolist() == [3.0]


def test_memory_of_what_needs_a_gradient_is_read_only():
    x = ternion.ones(3, requires_grad=True)
    for part in (x, x * 2, ternion.nn.Parameter(ternion.ones(3)), ternion.ones(1).expand(3)):
        view = memoryview(part)
        assert view.readonly and not np.asarray(view).flags.writeable
        with pytest.raises(TypeError, match="read-only"):
            view[0] = 1.0
    assert not np.frombuffer(x, np.float32).flags.writeable
    with pytest.raises(TypeError, match="read-write bytes-like object"):
        struct.pack_into("f", x, 0, 5.0)
    struct.pack_into("f", x.detach(), 0, 5.0)
    assert x.tolist() == [5, 1, 1]


def test_what_has_no_buffer():
    with pytest.raises(BufferError, match="no format of a buffer is bf16"):
        memoryview(ternion.ones(1, dtype="bfloat16"))
    for name in ("cuda", "wgpu"):
        try:
            x = ternion.ones(1, device=name)
        except RuntimeError:
            continue
        with pytest.raises(BufferError, match=f"memory on {name}:0 is not a buffer: copy the tensor with cpu"):
            memoryview(x)


def test_memory_lives_as_long_as_a_view():
    x = ternion.full((100_000,), 7.0)
    gone, view = weakref.ref(x), memoryview(x)
    array = np.frombuffer(ternion.full((100_000,), 3.0), np.float32)
    del x
    gc.collect()
    trash = [np.zeros(100_000, np.float32) for _ in range(20)]
    assert view[99_999] == 7.0 and array.sum() == 300_000.0
    del trash
    view.release()
    del view
    gc.collect()
    assert gone() is None


def test_a_view_keeps_the_memory_that_it_saw():
    """If the memory of a tensor is replaced, the view remains valid on the old memory."""
    x = ternion.ones(3)
    view = memoryview(x)
    x.data = ternion.zeros(3)
    assert view.tolist() == [1, 1, 1] and memoryview(x).tolist() == [0, 0, 0]
