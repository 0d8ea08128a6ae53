"""Indexing as in PyTorch: reads, writes, and the gradients of both."""

import math

import numpy as np
import pytest
import ternion

torch = pytest.importorskip("torch")

# The two libraries have different warnings for a uint8 mask.
pytestmark = pytest.mark.filterwarnings("ignore:indexing with .*uint8")
def same(got, expected):
    assert tuple(got.shape) == tuple(expected.shape)
    np.testing.assert_array_equal(got.detach().numpy(), expected.detach().numpy())


# Each function creates an index for a tensor of shape [3, 2, 4], with tensors of the given module.
INDICES = {
    "number, slice, list": lambda m: (0, slice(None), [1, 0]),
    "list, slice, number": lambda m: ([1, 0, 2], slice(None), 1),
    "slice, number, list": lambda m: (slice(None), 1, [3, 0]),
    "list, number, list": lambda m: ([0, 2], 1, [3, 0]),
    "number between": lambda m: (m.tensor([0, 2]), 0, m.tensor([[1], [2]])),
    "adjacent lists": lambda m: ([0, 2], [1, 0]),
    "lists at the end": lambda m: (slice(1), [0, 1], [3, 0]),
    "lists apart": lambda m: ([0, 2], slice(None), [1, 0]),
    "lists apart by a new axis": lambda m: ([0, 2], None, [1, 0]),
    "an empty ellipsis between": lambda m: ([0, 2], slice(1), Ellipsis, [1, 0]),
    "an ellipsis of no axis": lambda m: (1, [1, 0], Ellipsis, [0, 2]),
    "number and new axis": lambda m: (None, 0, slice(None), [1, 0]),
    "mask and number": lambda m: (m.tensor([True, False, True]), 0),
    "number and mask": lambda m: (0, slice(None), m.tensor([True, False, True, True])),
    "mask of two axes": lambda m: (m.tensor([[True, False], [False, True], [True, True]]), 2),
    "truth": lambda m: True,
    "untruth": lambda m: False,
    "new axis and truth": lambda m: (None, True),
    "slice, truth and number": lambda m: (slice(None), True, 0),
    "truth and a list": lambda m: (True, [0, 1]),
    "an empty list": lambda m: [],
    "slice and an empty list": lambda m: (slice(None), [], 0),
    "range": lambda m: range(2),
    "range of an axis": lambda m: (slice(None), range(2)),
    "list of bools": lambda m: [True, False, True],
    "tuple within a tuple": lambda m: ((0, 1),),
    "two ellipses": lambda m: (Ellipsis, Ellipsis),
    "number and two ellipses": lambda m: (0, Ellipsis, Ellipsis),
    "two ellipses around a number": lambda m: (Ellipsis, 0, Ellipsis),
    "bytes as a mask": lambda m: m.tensor([1, 0, 1], dtype=m.uint8),
    "one byte as a mask": lambda m: m.tensor(1, dtype=m.uint8),
    "number of a tensor": lambda m: (slice(None), m.tensor(1), [0, 3]),
    "mask without axes": lambda m: m.tensor(True),
}
each_index = pytest.mark.parametrize("index", INDICES.values(), ids=INDICES)


def filled(module):
    return module.arange(24.0).reshape(3, 2, 4)


@each_index
def test_reads(index):
    same(filled(ternion)[index(ternion)], filled(torch)[index(torch)])


@each_index
def test_writes_a_number(index):
    x, y = filled(ternion), filled(torch)
    x[index(ternion)] = -1
    # Not a number, because PyTorch does not accept one with a uint8 mask.
    y[index(torch)] = -torch.ones_like(y[index(torch)])
    same(x, y)


@each_index
def test_writes_a_tensor(index):
    x, y = filled(ternion), filled(torch)
    source = -1 - np.arange(y[index(torch)].numel(), dtype=np.float32).reshape(y[index(torch)].shape)
    x[index(ternion)] = ternion.tensor(source)
    y[index(torch)] = torch.tensor(source)
    same(x, y)


@each_index
def test_gradient_of_a_part(index):
    grads = []
    for module in (ternion, torch):
        x = filled(module).requires_grad_()
        part = x[index(module)]
        (part * module.arange(float(part.numel())).reshape(part.shape)).sum().backward()
        grads.append(x.grad)
    same(*grads)


@each_index
def test_gradients_of_what_is_written(index):
    grads = []
    for module in (ternion, torch):
        x = filled(module).requires_grad_()
        source = module.ones(filled(torch)[index(torch)].shape).requires_grad_()
        written = x * 2
        written[index(module)] = source
        (written * filled(module)).sum().backward()
        grads += [x.grad, source.grad]
    same(grads[0], grads[2])
    # PyTorch has no gradient for the source if nothing was written.
    if grads[3] is not None:
        same(grads[1], grads[3])


@pytest.mark.parametrize("index", [True, False, (None, True), Ellipsis, (Ellipsis, None), ()], ids=str)
def test_without_axes(index):
    same(ternion.tensor(3.0)[index], torch.tensor(3.0)[index])


@pytest.mark.parametrize("limit", [0.0, 5.0])
def test_mask_without_axes(limit):
    x, y = ternion.tensor(3.0), torch.tensor(3.0)
    same(x[x > limit], y[y > limit])
    x[x > limit], y[y > limit] = 7.0, 7.0
    same(x, y)


def test_lead_of_the_source():
    x, y = filled(ternion), filled(torch)
    x[0], y[0] = ternion.ones(1, 2, 4), torch.ones(1, 2, 4)
    x[[1, 2]], y[[1, 2]] = ternion.zeros(1, 1, 2, 1, 4), torch.zeros(1, 1, 2, 1, 4)
    same(x, y)


@pytest.mark.parametrize("index", [2**70, -(2**70), (0, 2**70), (Ellipsis, Ellipsis, 0), 3, (0, 0, 0, 0), (slice(None), 2)], ids=str)
def test_out_of_range(index):
    x = filled(ternion)
    with pytest.raises(IndexError):
        x[index]
    with pytest.raises(IndexError):
        x[index] = 0


def test_lists_within_a_list_are_one_tensor():
    x = filled(ternion)
    same(x[[[0, 1], [1, 0]]], x[ternion.tensor([[0, 1], [1, 0]])])


def test_bytes_warn():
    with pytest.warns(UserWarning, match="a tensor of uint8, which is taken as a mask"):
        filled(ternion)[ternion.tensor([1, 0, 1], dtype=ternion.uint8)]


def test_reversed():
    same(reversed(filled(ternion)), reversed(filled(torch)))
    assert reversed(ternion.tensor(3.0)).item() == 3.0


def test_tensor_of_a_range():
    assert ternion.tensor(range(3)).tolist() == [0, 1, 2]
    assert ternion.tensor([range(2), range(2, 4)]).tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("values", [[5], [1, 2, 3], [[1.0, 2.0], [3.0, 4.0]], 7], ids=str)
def test_bytes_are_the_elements(values):
    x = ternion.tensor(values)
    assert bytes(x) == x.numpy().tobytes()
    assert bytes(x.t()) == np.ascontiguousarray(x.numpy().T).tobytes()


def test_bytearray():
    x = ternion.tensor([1, 2, 3])
    assert bytearray(x) == x.numpy().tobytes()


SIZES = {
    "zeros": lambda m, n: m.zeros(n(3)),
    "ones": lambda m, n: m.ones(n(2), n(3)),
    "full": lambda m, n: m.full((n(2),), 1.0),
    "view": lambda m, n: m.arange(6.0).reshape(2, 3).view(n(6)),
    "reshape": lambda m, n: m.arange(6.0).reshape(n(2), n(-1)),
    "repeat": lambda m, n: m.arange(3.0).repeat(n(2)),
    "expand": lambda m, n: m.ones(1).expand(n(4)),
    "sum": lambda m, n: m.arange(6.0).reshape(2, 3).sum(n(0)),
    "flip": lambda m, n: m.arange(3.0).flip(n(0)),
    "softmax": lambda m, n: m.zeros(2, 2).softmax(n(1)),
    "max": lambda m, n: m.arange(6.0).reshape(2, 3).max(n(1)).values,
    "item": lambda m, n: m.arange(6.0)[n(2)],
}


class Whole:
    def __init__(self, number):
        self.number = number

    def __index__(self):
        return self.number


@pytest.mark.parametrize("number", [np.int64, np.int32], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("make", SIZES.values(), ids=SIZES)
def test_numbers_of_numpy_as_sizes(make, number):
    same(make(ternion, number), make(torch, int))


@pytest.mark.parametrize("make", SIZES.values(), ids=SIZES)
def test_integers_as_sizes(make):
    same(make(ternion, Whole), make(torch, int))


def test_properties():
    p = ternion.ones(3).requires_grad_()
    p.sum().backward()
    del p.grad
    assert p.grad is None
    assert p.is_cpu and p.itemsize == 4 and p.double().itemsize == 8


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30, 300, -1, 1e10])
@pytest.mark.parametrize("assign", ["x[0] = v", "x[1:] = v", "x[x > 0] = v", "x[m.tensor([0, 2])] = v", "x[:2] = [v, 1]", "x[...] = v"])
def test_numbers_that_do_not_fit_are_not_assigned(assign, value):
    x = ternion.arange(3, dtype=ternion.uint8)
    with pytest.raises(ValueError, match="the number (nan|-?inf|1e30|300|-1|1e10|10000000000.0) does not fit uint8"):
        exec(assign, {"x": x, "v": value, "m": ternion})
    assert x.tolist() == [0, 1, 2]


def test_assigned_numbers_lose_what_is_behind_their_point():
    x = ternion.arange(4)
    x[0], x[1:3] = 1.5, [7.9, 2]
    assert x.tolist() == [1, 7, 2, 3]
    for value in (math.nan, math.inf, 1e30):
        with pytest.raises(ValueError, match="does not fit int64"):
            x[0] = value
    bools = ternion.zeros(2, dtype=ternion.bool)
    bools[0] = math.nan
    assert bools.tolist() == [True, False]


@pytest.mark.parametrize("dtype", "uint8 int8 int32 int64 uint64 bool float16 bfloat16 float32 float64".split())
def test_what_is_in_a_tensor(dtype):
    """Same as `(x == value).any()`: the number keeps its fraction and sign, whatever the dtype of
    the tensor."""
    for value in (0, 1, 2, 1.5, 0.5, -1, 255, 2.0, True, False, math.nan, math.inf, 1e30, np.int64(1), np.float32(1.5)):
        x, theirs = (m.tensor([0, 1, 2]).to(getattr(m, dtype)) for m in (ternion, torch))
        assert (value in x) is (value in theirs) is bool((x == value).any()), value
        if not isinstance(value, np.generic):
            for shape in ([], [1])[: 1 + (dtype != "uint64")]:
                assert (ternion.full(shape, value) in x) is (torch.full(shape, value) in theirs), value
    for value in (-1, 300, -1.0, 1.5, 65537, ternion.tensor(-1), ternion.tensor([300])):
        # Converted to uint8 they would be 255, 44 and 1, which PyTorch finds.
        assert value not in ternion.tensor([255, 44, 1], dtype=ternion.uint8)


def test_more_of_what_is_in_a_tensor():
    for m, errors in ((ternion, (ValueError, TypeError)), (torch, (RuntimeError, RuntimeError))):
        x = m.tensor([[1.0, 2.0], [3.0, 4.0]])
        assert m.tensor([7.0, 4.0]) in x and m.tensor([2.0, 1.0]) not in x and m.tensor([[3.0], [1.0]]) not in x
        assert 0.1 in m.tensor([0.1]) and 0.1 in m.tensor([0.1]).half() and 1.0 not in m.zeros(0) and math.nan not in m.tensor([math.nan])
        with pytest.raises(errors[0]):
            m.zeros(3) in x
        for no_number in ("a", None, [1.0]):
            with pytest.raises(errors[1]):
                no_number in x
    with pytest.raises(TypeError, match="^in: other is str, expected a tensor or a number"):
        "a" in ternion.zeros(2)
