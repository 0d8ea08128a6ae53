"""uint16, uint32 and uint64 compared with PyTorch, or with NumPy if PyTorch lacks the function."""

import numpy as np
import pytest

import ternion

NAMES = ["uint16", "uint32", "uint64"]


def ends(name):
    """Returns numbers at both ends of the dtype, and around the maximum of the signed dtype of the
    same size."""
    largest = np.iinfo(name).max
    return np.array([0, 1, 2, 7, 300, largest // 2, largest // 2 + 1, largest - 1, largest], name)


def same(actual, expected):
    np.testing.assert_array_equal(actual.numpy(), expected, strict=True)


@pytest.mark.parametrize("name", NAMES)
class TestNumbers:
    def test_lists_arrays_and_numbers(self, name):
        numbers = ends(name)
        x = ternion.tensor(numbers.tolist(), dtype=name)
        same(x, numbers)
        assert x.dtype is getattr(ternion, name) and x.tolist() == numbers.tolist() and x.element_size() == numbers.itemsize
        assert x[-1].item() == int(x[8]) == np.iinfo(name).max and str(numbers[-1]) in repr(x)
        same(ternion.tensor(numbers), numbers)
        same(ternion.full((2,), np.iinfo(name).max, dtype=name), np.full(2, np.iinfo(name).max, name))
        largest = np.iinfo(name).max
        same(ternion.arange(largest - 4, largest, 2, dtype=name), np.array([largest - 4, largest - 2], name))
        assert memoryview(x).format == {2: "H", 4: "I", 8: "Q"}[numbers.itemsize]
        with pytest.raises(ValueError, match=f"the number -1 does not fit {name}"):
            ternion.tensor([-1], dtype=name)
        with pytest.raises(ValueError, match=f"does not fit {'int64' if name == 'uint64' else name}"):
            ternion.tensor([largest + 1], dtype=name)

    def test_arithmetic(self, name):
        a, b = ends(name).reshape(-1, 1), ends(name)
        x, y = ternion.tensor(a), ternion.tensor(b)
        same(x + y, a + b)
        same(x - y, a - b)
        same(x * y, a * b)
        same(x & y, a & b)
        same(x | y, a | b)
        same(x ^ y, a ^ b)
        same(~x, ~a)
        same(-x, -a)
        same(abs(x), a)
        same(x.sign(), np.sign(a))
        same(x // y[1:], a // b[1:])
        same(x % y[1:], a % b[1:])
        same(x << y[:4], a << b[:4])
        same(x >> y[:4], a >> b[:4])
        same(x + 5, a + np.array(5, name))
        same(1 - x, np.array(1, name) - a)
        same(x * int(b[-1]), a * b[-1])
        same(x**2, a**2)
        same(ternion.maximum(x, y), np.maximum(a, b))
        same(ternion.minimum(x, y), np.minimum(a, b))
        same(x.clamp(2, int(b[-2])), np.clip(a, 2, b[-2]))
        assert (x / y[1:]).dtype == ternion.float32 and (x + 1.5).dtype == ternion.float32
        with pytest.raises(ValueError, match="-1 does not fit"):
            x + -1
        with pytest.raises(RuntimeError, match="divided by 0"):
            x // 0

    def test_comparisons(self, name):
        a, b = ends(name).reshape(-1, 1), ends(name)
        x, y = ternion.tensor(a), ternion.tensor(b)
        same(x == y, a == b)
        same(x != y, a != b)
        same(x < y, a < b)
        same(x <= y, a <= b)
        same(x > y, a > b)
        same(x >= y, a >= b)
        same(x > int(b[5]), a > b[5])
        same(x < -1, np.zeros_like(a, bool))
        same(x < 2**63, a < 2**63)
        same(ternion.where(x < y, x, y), np.where(a < b, a, b))

    def test_reductions_and_orders(self, name):
        a = ends(name)[[3, 8, 0, 6, 5, 1]]
        x = ternion.tensor(a)
        same(x.sum(), np.int64(a.astype(np.int64).sum()))
        same(x.cumsum(0), a.astype(np.int64).cumsum())
        same(x[::2].prod(), np.int64(0))
        same(x.max(), a.max())
        same(x.min(), a.min())
        assert x.argmax().item() == 1 and x.argmin().item() == 2 and bool(x.any()) and not bool(x.all())
        values, indices = x.sort(descending=True)
        same(values, np.sort(a)[::-1])
        same(x[indices], values.numpy())
        same(x.unique(), np.unique(a))
        same(ternion.cat([x, x]), np.concatenate([a, a]))
        with pytest.raises(TypeError, match="mean"):
            x.mean()

    def test_casts(self, name):
        a = ends(name)
        x = ternion.tensor(a)
        for other in ["float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]:
            same(x.to(other), a.astype(other))
        same(ternion.tensor([-1, 70000, 5]).to(name), np.array([-1, 70000, 5]).astype(name))
        largest = np.iinfo(name).max
        same(ternion.tensor([-1.5, 2.9, float("nan"), 1e30], dtype="float64").to(name), np.array([0, 2, 0, largest], name))

    def test_indices(self, name):
        x = ternion.arange(10.0)
        index = ternion.tensor([2, 0], dtype=name)
        assert x[index[0]].item() == 2.0
        for call in (lambda: x[index], lambda: x.gather(0, index), lambda: x.index_select(0, index)):
            with pytest.raises((IndexError, TypeError), match="int32"):
                call()
        y = ternion.zeros(4, dtype=name)
        y[ternion.tensor([1, 1, 3])] = 9
        same(y, np.array([0, 9, 0, 9], name))
        same(y.scatter_add(0, ternion.tensor([0, 0]), index + 1), np.array([4, 9, 0, 9], name))

    def test_files(self, name, tmp_path):
        ternion.save(tmp_path / "numbers", {"x": ternion.tensor(ends(name))})
        same(ternion.load(tmp_path / "numbers")["x"], ends(name))

    def test_what_they_meet(self, name):
        torch = pytest.importorskip("torch")
        names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"]
        for other in names:
            for left, right in ((name, other), (other, name)):
                for shapes in ((2,), (2,)), ((2,), ()), ((), (2,)):
                    a, b = (
                        [module.ones(shape, dtype=getattr(module, kind)) for module in (ternion, torch)]
                        for shape, kind in zip(shapes, (left, right))
                    )
                    try:
                        expected = str((a[1] * b[1]).dtype).split(".")[1]
                    except RuntimeError:
                        with pytest.raises(TypeError, match=r"(mul|logical_and): dtypes \w+ and \w+ differ"):
                            a[0] * b[0]
                        with pytest.raises(TypeError, match="differ"):
                            a[0] / b[0]
                        with pytest.raises(TypeError, match="differ"):
                            a[0] == b[0]
                        continue
                    assert str((a[0] * b[0]).dtype) == f"ternion.{expected}", (left, right, shapes)
        with pytest.raises(TypeError, match="dtypes"):
            ternion.cat([ternion.ones(2, dtype=name), ternion.ones(2, dtype="int64")])

    def test_against_pytorch(self, name):
        torch = pytest.importorskip("torch")
        a = ends(name)
        x, t = ternion.tensor(a), torch.from_numpy(a)
        others = ternion.tensor(a[::-1].copy()), torch.from_numpy(a[::-1].copy())
        functions = [
            lambda x, y: x * x,
            lambda x, y: x & y,
            lambda x, y: x | y,
            lambda x, y: x ^ y,
            lambda x, y: x == y,
            lambda x, y: x.sum(),
            lambda x, y: x.prod(),
            lambda x, y: x.cumsum(0),
            lambda x, y: x.sort(descending=True)[0],
            lambda x, y: x.unique(),
            lambda x, y: x.float(),
            lambda x, y: x.double(),
            lambda x, y: x.to(x.dtype) * 3,
            lambda x, y: x + 1.5,
            lambda x, y: x / y[:1],
        ]
        for number, function in enumerate(functions):
            actual, expected = function(x, others[0]), function(t, others[1])
            np.testing.assert_array_equal(actual.numpy(), expected.numpy(), strict=True, err_msg=str(number))
        assert x.type().split(".")[1] == t.type().split(".")[1]
        info, expected = ternion.iinfo(x.dtype), torch.iinfo(t.dtype)
        assert (info.min, info.max, info.bits) == (expected.min, expected.max, expected.bits)
        shared = torch.from_dlpack(x)
        assert shared.data_ptr() == x.data_ptr() and shared.dtype == t.dtype
        np.testing.assert_array_equal(ternion.from_dlpack(t).numpy(), a, strict=True)
