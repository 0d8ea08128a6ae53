"""Tensors: creation, Python's operators, and rejected calls. The expected results are those of
NumPy and, if it is installed, PyTorch."""

import copy
import math
import pickle

import numpy as np
import pytest

import ternion


def same(tensor, expected):
    """Checks that a tensor has the shape and the values of an array."""
    expected = np.asarray(expected)
    assert tensor.shape == expected.shape
    np.testing.assert_array_equal(tensor.numpy(), expected)


class TestCreation:
    def test_numbers_decide_the_dtype(self):
        assert ternion.tensor(1).dtype == ternion.int64
        assert ternion.tensor([1.0, 2]).dtype == ternion.float32
        assert ternion.tensor([True, False]).dtype == ternion.bool
        assert ternion.tensor([[1, 2], [3, 4]], dtype=ternion.float16).dtype == ternion.half
        assert ternion.tensor(np.float64([1.5])).dtype == ternion.float64

    def test_nested_lists(self):
        same(ternion.tensor([[1, 2, 3], [4, 5, 6]]), [[1, 2, 3], [4, 5, 6]])
        assert ternion.tensor([]).shape == (0,)
        assert ternion.tensor([[], []]).shape == (2, 0)
        same(ternion.tensor([ternion.tensor(1.0), 2.0]), [1.0, 2.0])

    @pytest.mark.parametrize(
        "data, message",
        [
            ([[1, 2], [3]], "a list of 1 items at depth 1, expected 2 items"),
            ([1, [2]], "a list of 1 items at depth 1, expected a number"),
            ([[1], 2], "a number at depth 1, expected a list of 1 items"),
        ],
    )
    def test_ragged_lists_are_rejected(self, data, message):
        with pytest.raises(ValueError, match=message):
            ternion.tensor(data)

    def test_what_is_no_number_is_rejected(self):
        with pytest.raises(TypeError, match="expected numbers, lists of them or an array, got str"):
            ternion.tensor("one")
        with pytest.raises(TypeError, match="array of dtype complex64"):
            ternion.tensor(np.complex64([1]))

    def test_fillings(self):
        same(ternion.zeros(2, 3), np.zeros((2, 3), np.float32))
        same(ternion.ones((2,), dtype="int64"), np.ones(2, np.int64))
        same(ternion.full((2, 1), 7), [[7], [7]])
        same(ternion.eye(2), np.eye(2, dtype=np.float32))
        same(ternion.arange(5), np.arange(5))
        same(ternion.arange(1, 2, 0.25), np.arange(1, 2, 0.25, dtype=np.float32))
        same(ternion.linspace(0, 1, 5), np.linspace(0, 1, 5, dtype=np.float32))
        same(ternion.zeros_like(ternion.ones(2, 2)), np.zeros((2, 2), np.float32))

    def test_random_numbers_follow_the_seed(self):
        ternion.manual_seed(7)
        first = [ternion.rand(3), ternion.randn(3), ternion.randint(0, 10, (3,)), ternion.randperm(5)]
        ternion.manual_seed(7)
        again = [ternion.rand(3), ternion.randn(3), ternion.randint(0, 10, (3,)), ternion.randperm(5)]
        assert all(a.equal(b) for a, b in zip(first, again))
        assert sorted(first[3].tolist()) == [0, 1, 2, 3, 4]

    def test_a_copy_shares_nothing(self):
        array = np.ones(3, np.float32)
        tensor = ternion.tensor(array)
        array[0] = 5
        same(tensor, [1, 1, 1])

    def test_devices_and_dtypes_by_name(self):
        assert ternion.zeros(1, device="cpu").device == "cpu"
        assert ternion.zeros(1, device=ternion.device("cpu")).device.type == "cpu"
        with pytest.raises(RuntimeError, match="device gpu: no such device; expected auto, cpu, cuda"):
            ternion.zeros(1, device="gpu")
        with pytest.raises(TypeError, match="dtype complex64 is not known, expected one of float64, float32"):
            ternion.zeros(1, dtype=np.complex64)
        with pytest.raises(TypeError, match="device: expected a ternion.device or its name, got int"):
            ternion.zeros(1, device=3)


class TestOperators:
    @pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%", "**"])
    @pytest.mark.parametrize("right", ["b", "2.5", "3"])
    def test_arithmetic(self, operator, right):
        a, b = np.float32([[5.5, -3.25, 8]]), np.float32([[2], [-1.5]])
        if operator == "**":
            a = abs(a)
        expected = eval(f"a {operator} {right}")
        actual = eval(f"a {operator} {right}", {"a": ternion.tensor(a), "b": ternion.tensor(b)})
        np.testing.assert_allclose(actual.numpy(), expected, rtol=1e-6)
        assert actual.dtype == ternion.float32

    @pytest.mark.parametrize("operator", ["+", "-", "*", "/", "//", "%"])
    def test_numbers_on_the_left(self, operator):
        a = np.float32([0.5, -3, 7])
        expected = eval(f"10 {operator} a")
        np.testing.assert_allclose(eval(f"10 {operator} a", {"a": ternion.tensor(a)}).numpy(), expected, rtol=1e-6)

    def test_integers(self):
        a = ternion.tensor([7, -7])
        same(a // 2, [3, -4])
        same(a % 3, [1, 2])
        same(a * 2, [14, -14])
        same(a / 2, np.float32([3.5, -3.5]))
        same(-a, [-7, 7])
        same(~a, [-8, 6])
        same(abs(a), [7, 7])
        same(~ternion.tensor([0, 7, 255], dtype=ternion.uint8), np.uint8([255, 248, 0]))

    @pytest.mark.parametrize("name", ["int8", "uint8"])
    @pytest.mark.parametrize("operator", ["+", "-", "*", "//", "%", "<", "=="])
    def test_every_pair_of_bytes_as_in_pytorch(self, name, operator):
        """Arithmetic wraps, and quotients and remainders round down, for all values of a byte."""
        torch = pytest.importorskip("torch")
        all_of_it = np.iinfo(name)
        values = np.arange(all_of_it.min, all_of_it.max + 1).astype(name)
        # PyTorch does not divide by 0, and the lowest number divided by -1 is undefined.
        divisors = values[(values != 0) & (values.astype(int) != -1)] if operator in ("//", "%") else values
        a, b = values.reshape(-1, 1), divisors.reshape(1, -1)
        expected = eval(f"a {operator} b", {"a": torch.from_numpy(a), "b": torch.from_numpy(b)})
        actual = eval(f"a {operator} b", {"a": ternion.tensor(a), "b": ternion.tensor(b)})
        np.testing.assert_array_equal(actual.numpy(), expected.numpy(), strict=True)

    @pytest.mark.parametrize("name", ["int16", "int8"])
    def test_narrow_integers_wrap_and_are_summed_widely(self, name):
        low, high = np.iinfo(name).min, np.iinfo(name).max
        a = ternion.tensor(np.array([low, -1, 5, high], name))
        assert a.dtype is getattr(ternion, name) and a.tolist() == [low, -1, 5, high]
        same(a + 1, np.array([low + 1, 0, 6, low], name))
        same(-a, np.array([low, 1, -5, -high], name))
        same(abs(a), np.array([low, 1, 5, high], name))
        same(a // 2, np.array([low // 2, -1, 2, high // 2], name))
        same(a.sum(), np.int64(3))
        same(a.cumsum(0), np.int64([low, low - 1, low + 4, 3]))
        same(a / 2, np.float32([low / 2, -0.5, 2.5, high / 2]))
        same(a.sort().values, np.array([low, -1, 5, high], name))
        same(ternion.tensor([-1e9, -1.5, float("nan"), 1e9]).to(name), np.array([low, -1, 0, high], name))
        drawn = ternion.randint(low, high + 1, (1000,), dtype=name)
        assert str(drawn.dtype) == f"ternion.{name}" and drawn.min().item() < low / 2 and drawn.max().item() > high / 2
        with pytest.raises(TypeError, match="mean"):
            a.mean()
        with pytest.raises(ValueError, match=f"{high + 1} does not fit i"):
            a + (high + 1)

    def test_dtypes_meet_as_in_pytorch(self):
        torch = pytest.importorskip("torch")
        names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]
        for left in names:
            for right in names:
                for shapes in ((2,), (2,)), ((2,), ()), ((), (2,)):
                    a, b = (
                        [module.ones(shape, dtype=getattr(module, name)) for module in (ternion, torch)]
                        for shape, name in zip(shapes, (left, right))
                    )
                    expected = str((a[1] * b[1]).dtype).split(".")[1] if (left, right) != ("bool", "bool") else None
                    if expected:
                        assert str((a[0] * b[0]).dtype) == f"ternion.{expected}", (left, right, shapes)
        for name in names:
            for number in (True, 2, 2.5):
                expected = (torch.ones(2, dtype=getattr(torch, name)) * number).dtype
                if name != "bool" or number is not True:
                    actual = (ternion.ones(2, dtype=name) * number).dtype
                    assert str(actual).split(".")[1] == str(expected).split(".")[1], (name, number)

    def test_in_place(self):
        a = ternion.ones(3)
        view = a[1:]
        a += 1
        a *= ternion.tensor([1.0, 2.0, 3.0])
        same(a, [2, 4, 6])
        same(view, [4, 6])
        a.sub_(1).div_(2)
        same(view, [1.5, 2.5])

    def test_comparisons_and_bools(self):
        a, b = ternion.tensor([1, 2, 3]), ternion.tensor([3.0, 2.0, 1.0])
        same(a < b, [True, False, False])
        same(a == 2, [False, True, False])
        same((a > 1) & (a < 3), [False, True, False])
        same((a == 1) | (a == 3), [True, False, True])
        assert bool(ternion.tensor(1)) and not bool(ternion.tensor([0.0]))
        with pytest.raises(ValueError, match="bool\\(\\) of a tensor with 3 elements is ambiguous"):
            bool(a)
        assert (a == None) is False  # noqa: E711  As for any object.

    def test_products(self):
        a, b = np.random.default_rng(0).normal(size=(2, 2, 3, 4)).astype(np.float32)[:2]
        b = np.swapaxes(b, -1, -2)
        np.testing.assert_allclose((ternion.tensor(a) @ ternion.tensor(b)).numpy(), a @ b, rtol=1e-5)
        with pytest.raises(ValueError, match="matmul: \\[2, 3\\] x \\[2, 3\\]: inner sizes 3 and 2 differ"):
            ternion.ones(2, 3) @ ternion.ones(2, 3)
        with pytest.raises(TypeError):
            ternion.ones(2) @ 3
        with pytest.raises(TypeError):
            ternion.ones(2) + "x"
        with pytest.raises(ValueError, match="shapes \\[2\\] and \\[3\\] do not broadcast"):
            ternion.ones(2) + ternion.ones(3)


class TestIndexing:
    @pytest.mark.parametrize(
        "index",
        [
            "0", "-1", "1:", "::2", "::-1", "..., 0", "None, 1", ":, 1:3", "0, :, -1", "[0, 1]", "[[0, 1], [1, 0]]", ":, [2, 0]",
            "x > 5", "1, x[1] > 15", "x[:, :, 0] > 5", "..., None", "2**70:", ": -2**70",
        ],
    )  # fmt: skip
    def test_parts_are_numpys(self, index):
        x = np.arange(24).reshape(2, 3, 4)
        expected = eval(f"x[{index}]")
        actual = eval(f"x[{index}]", {"x": ternion.tensor(x)})
        same(actual, expected)

    @pytest.mark.parametrize("index", ["0", "1:", "..., 0", "[0]", "x > 5", ":, [2, 0]", "0, [1, 2], [0, 1]"])
    @pytest.mark.parametrize("value", ["7", "x[-1, -1, -1]"])
    def test_parts_are_written(self, index, value):
        x = np.arange(24).reshape(2, 3, 4)
        tensor = ternion.tensor(x)
        exec(f"x[{index}] = {value}", {"x": tensor})
        exec(f"x[{index}] = {value}")
        same(tensor, x)

    def test_views_share_memory(self):
        x = ternion.zeros(2, 3)
        row = x[1]
        row[0] = 5
        x[:, 2] = ternion.tensor([7.0, 8.0])
        same(x, [[0, 0, 7], [5, 0, 8]])
        same(row, [5, 0, 8])

    @pytest.mark.parametrize(
        "index, error, message",
        [
            ("3", IndexError, "index 3 is out of range for size 2"),
            ("0, 0, 0, 0", IndexError, "4 axes of shape"),
            ("'a'", TypeError, "index: str, expected numbers, slices"),
            ("1.5", TypeError, "index: float, expected"),
            ("[5]", IndexError, "index 5 is out of range for size 2"),
            ("::0", ValueError, "a slice with step 0"),
        ],
    )
    def test_wrong_indices_are_reported(self, index, error, message):
        with pytest.raises(error, match=message):
            eval(f"x[{index}]", {"x": ternion.zeros(2, 3, 4)})

    def test_iteration_and_length(self):
        x = ternion.arange(6).reshape(3, 2)
        assert len(x) == 3 and [row.tolist() for row in x] == [[0, 1], [2, 3], [4, 5]]
        assert 3 in x and 9 not in x
        with pytest.raises(TypeError, match="len\\(\\) of a tensor without axes"):
            len(ternion.tensor(1))
        with pytest.raises(TypeError, match="iteration over a tensor without axes"):
            iter(ternion.tensor(1))


class TestConversion:
    def test_numbers(self):
        assert ternion.tensor(2.5).item() == 2.5 and float(ternion.tensor([2.5])) == 2.5
        assert int(ternion.tensor(3)) == 3 and [10, 20, 30][ternion.tensor(1)] == 20
        assert ternion.tensor(True).item() is True
        assert ternion.tensor(2**53 + 1).item() == 2**53 + 1
        with pytest.raises(ValueError, match="2 elements, expected 1"):
            ternion.ones(2).item()

    def test_dtypes_and_devices(self):
        x = ternion.tensor([1.7, -1.7])
        same(x.long(), [1, -1])
        same(x.bool(), [True, True])
        same(x.short(), np.int16([1, -1]))
        same(x.char(), np.int8([1, -1]))
        same(abs(x).byte(), np.uint8([1, 1]))
        assert ternion.short is ternion.int16 and ternion.int8.itemsize == 1
        assert x.to("float64").dtype == ternion.float64 and x.to(ternion.int32).dtype == ternion.int32
        assert x.to("cpu") is x and x.cpu() is x and x.to(x) is x

    def test_repr_shows_values_and_what_is_unusual(self):
        assert repr(ternion.tensor([1.0, 2.5])) == "tensor([1.0, 2.5])"
        assert repr(ternion.tensor([1], dtype=ternion.int32)) == "tensor([1], dtype=ternion.int32)"
        assert repr(ternion.ones(2, requires_grad=True)) == "tensor([1., 1.], requires_grad=True)"
        assert "grad_fn=<exp>" in repr(ternion.ones(2, requires_grad=True).exp())
        assert repr(ternion.zeros(0, 2)) == "tensor([], size=[0, 2])"

    def test_copies_and_pickles(self):
        x = ternion.tensor([1.0, 2.0])
        twin = copy.deepcopy(x)
        twin[0] = 5
        same(x, [1, 2])
        same(pickle.loads(pickle.dumps(x)), [1, 2])
        assert pickle.loads(pickle.dumps(ternion.ones(2, dtype="bfloat16"))).dtype == ternion.bfloat16
        assert pickle.loads(pickle.dumps(ternion.float16)) == ternion.float16

    def test_functions_are_methods(self):
        x = ternion.tensor([-1.0, 4.0])
        same(ternion.relu(x), [0, 4])
        same(ternion.sqrt(ternion.tensor([4])), np.float32([2]))
        assert math.isclose(ternion.sum(x).item(), 3.0)
        same(ternion.cat([x, x]), [-1, 4, -1, 4])
        same(ternion.stack([x, x], dim=1), [[-1, -1], [4, 4]])
        same(ternion.where(x > 0, x, 0.0), [0, 4])


def test_lists_without_end_are_rejected():
    endless: list = []
    endless.append(endless)
    deep: object = 1.0
    for _ in range(20_000):
        deep = [deep]
    for data in (endless, deep):
        with pytest.raises(ValueError, match="tensor: lists within lists, expected at most 8 deep"):
            ternion.tensor(data)
    assert ternion.tensor([[[[[[[[1.0]]]]]]]]).shape == (1,) * 8


def test_tensors_are_formatted_as_their_number():
    assert f"{ternion.tensor(0.123456):.3f} {ternion.tensor(7):>4}" == "0.123    7"
    assert f"{ternion.tensor([1.0, 2.0])}" == "tensor([1., 2.])"
    with pytest.raises(TypeError, match=r"of shape \[2\], expected one without axes"):
        f"{ternion.tensor([1.0, 2.0]):.3f}"


class TestArrays:
    """Operators of a tensor and a NumPy array."""

    @pytest.mark.parametrize("symbol", ["==", "!=", "<", "<=", ">", ">="])
    def test_comparisons_are_of_elements(self, symbol):
        x, array = ternion.tensor([0, 1, 2]), np.array([0, 2, 1])
        expected = eval(f"a {symbol} b", {"a": x.numpy(), "b": array})
        for result in (eval(f"a {symbol} b", {"a": x, "b": array}), eval(f"a {symbol} b", {"a": x.numpy(), "b": ternion.tensor(array)})):
            assert result.dtype == ternion.bool
            same(result, expected)
        names = {"==": "eq", "!=": "ne", "<": "lt", "<=": "le", ">": "gt", ">=": "ge"}
        same(getattr(x, names[symbol])(array), expected)
        same(getattr(ternion, names[symbol])(x, array), expected)

    @pytest.mark.parametrize("symbol", ["+", "-", "*", "/", "//", "%", "**", "@"])
    def test_arithmetic_keeps_the_gradient(self, symbol):
        values, array = np.array([1.5, 2.0, 4.0]), np.array([3.0, 0.5, 2.0])
        for left in (False, True):
            x = ternion.tensor(values, requires_grad=True)
            y = eval(f"b {symbol} a" if left else f"a {symbol} b", {"a": x, "b": array})
            assert isinstance(y, ternion.Tensor) and y.dtype == ternion.float64
            expected = eval(f"b {symbol} a" if left else f"a {symbol} b", {"a": values, "b": array})
            np.testing.assert_allclose(y.detach().numpy(), expected, rtol=1e-14)
            if symbol != "//":
                other = ternion.tensor(array)
                again = ternion.tensor(values, requires_grad=True)
                eval(f"b {symbol} a" if left else f"a {symbol} b", {"a": again, "b": other}).sum().backward()
                y.sum().backward()
                same(x.grad, again.grad.numpy())

    def test_an_array_is_copied_before_it_is_used(self):
        array = np.array([2.0, 3.0])
        x = ternion.tensor([1.0, 1.0], dtype=ternion.float64, requires_grad=True)
        y = (x * array).sum()
        array[:] = 0
        y.backward()
        same(x.grad, [2.0, 3.0])

    def test_in_place(self):
        x = ternion.tensor([1.0, 2.0])
        alias = x
        x += np.array([0.5, 0.5])
        assert x is alias and x.dtype == ternion.float32
        same(x, [1.5, 2.5])
        with pytest.raises(RuntimeError, match="can't be cast"):
            ternion.tensor([1, 2]).__iadd__(np.array([0.5, 0.5]))

    def test_dtypes_meet_as_those_of_tensors(self):
        assert (ternion.ones(2) * np.ones(2)).dtype == ternion.float64
        assert (ternion.ones(2, dtype=ternion.int8) + np.ones(2, np.int16)).dtype == ternion.int16
        same(ternion.tensor([True, False]) & np.array([True, True]), [True, False])
        with pytest.raises(TypeError, match="an array of dtype object"):
            ternion.ones(2) * np.array([1, "a"], dtype=object)

    def test_functions_of_numpy_give_arrays(self):
        x = ternion.arange(6.0).reshape(2, 3)
        for function in (np.sum, np.mean, np.max, np.min, np.std, np.var, np.prod, np.argmax, np.cumsum):
            for options in ({}, {"axis": 1}):
                result = function(x, **options)
                assert not isinstance(result, ternion.Tensor)
                np.testing.assert_array_equal(result, function(x.numpy(), **options))
        np.testing.assert_array_equal(np.sum(x, axis=0, keepdims=True, dtype=np.float64), [[3, 5, 7]])
        np.testing.assert_array_equal(np.concatenate([x, x]), np.concatenate([x.numpy()] * 2))
        np.testing.assert_array_equal(np.exp(x), np.exp(x.numpy()))
        assert np.shape(x) == (2, 3) and np.ndim(x) == 2


@pytest.mark.parametrize("name", "add sub mul div pow remainder floor_divide true_divide fmod eq ne lt le gt ge multiply".split())
@pytest.mark.parametrize("other", [[1.0, 2.0, 3.0], "a", None])
def test_operands_that_are_none_are_rejected(name, other):
    full_name = {"true_divide": "div", "multiply": "mul"}.get(name, name)
    for call in (lambda: getattr(ternion.ones(3), name)(other), lambda: getattr(ternion, name)(ternion.ones(3), other)):
        with pytest.raises(TypeError, match=f"{full_name}: other is {type(other).__name__}, expected a tensor or a number"):
            call()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32"])
def test_numbers_that_a_dtype_does_not_hold_are_compared(dtype):
    x = ternion.tensor([0, 1], dtype=dtype)
    for number in (10**10, -(10**10)):
        for symbol in ("==", "!=", "<", "<=", ">", ">="):
            same(eval(f"x {symbol} n", {"x": x, "n": number}), eval(f"x {symbol} n", {"x": np.array([0, 1]), "n": number}))
            same(eval(f"n {symbol} x", {"x": x, "n": number}), eval(f"n {symbol} x", {"x": np.array([0, 1]), "n": number}))
    same(ternion.tensor([255], dtype=ternion.uint8) < 256, [True])
    same(ternion.tensor([255], dtype=ternion.uint8) >= 255, [True])


def test_reflected_shifts():
    x = ternion.tensor([0, 1, 3], dtype=ternion.int16)
    assert (2 << x).dtype == ternion.int16
    same(2 << x, [2, 4, 16])
    same(np.int64(16) >> x, [16, 8, 2])
    same(np.array([8, 8, 8]) >> x, [8, 4, 1])
    same(np.array([300]) >> ternion.tensor([1], dtype=ternion.int8), [150])
    for wrong in (lambda: 2 << ternion.ones(3), lambda: 1.5 << x, lambda: 2 >> ternion.ones(3)):
        with pytest.raises(TypeError, match="expected integers"):
            wrong()
