"""Rejected calls: the type of the exception, and messages in Python's terms."""

import operator
import re

import numpy as np
import pytest
from devices import other_device

import ternion

NAMES_OF_RUST = re.compile(r"\b(f64|f32|f16|bf16|i64|i32|i16|i8|u8)\b|to_dtype|to_device|\w+_scalar\b|\w+_keep\b|cotangent|concat|usize|isize|::|true|false")

INTEGERS = "x = m.tensor([4, 2])"


@pytest.mark.parametrize(
    "change",
    ["x /= 2", "x *= 0.5", "x += 1.5", "x -= m.tensor([0.5])", "x //= 2.0", "x %= 1.5", "x **= 0.5", "x.add_(1.5)", "x.mul_(m.tensor(0.5))", "x.div_(2)", "x.sqrt_()", "x.exp_()", "x.pow_(-0.5)"],
)  # fmt: skip
def test_integers_take_no_floats_in_place(change):
    for module in [ternion] + ([pytest.importorskip("torch")] if change else []):
        scope = {"m": module}
        exec(INTEGERS, scope)
        with pytest.raises(RuntimeError, match="result type .* can't be cast to the desired output type"):
            exec(change, scope)
        assert scope["x"].tolist() == [4, 2]


def test_the_message_names_dtypes_of_python():
    x = ternion.tensor([4, 2])
    with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int64"):
        x /= 2
    flag = ternion.tensor([True])
    with pytest.raises(RuntimeError, match="result type int64 can't be cast to the desired output type bool"):
        flag += 1
    flag += True
    x //= 2
    y = ternion.ones(2)
    y += ternion.ones(2, dtype="float64")
    assert flag.tolist() == [True] and x.tolist() == [2, 1] and y.dtype is ternion.float32


@pytest.mark.parametrize(
    "make",
    [
        "m.tensor(300, dtype=m.uint8)", "m.tensor([-1], dtype=m.uint8)", "m.tensor([2**40], dtype=m.int32)", "m.tensor([1e30], dtype=m.int64)",
        "m.tensor([float('nan')], dtype=m.int32)", "m.tensor(float('inf'), dtype=m.int64)", "m.tensor(2**63)", "m.tensor([2**70])", "m.full((2,), 300, dtype=m.uint8)",
        "m.zeros(2, dtype=m.uint8).fill_(300)", "m.arange(0, 300, dtype=m.uint8)", "m.zeros(1, dtype=m.uint8) + 300", "m.zeros(1) + 2**64", "m.full_like(m.zeros(1, dtype=m.int32), 2**40)",
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_does_not_hold(make):
    with pytest.raises(ValueError, match="fit (u?int(8|32|64))"):
        eval(make, {"m": ternion})
    bounds = ternion.tensor([2**31 - 1, -(2**31)], dtype=ternion.int32).tolist() + ternion.tensor([255, 0, 1.9], dtype=ternion.uint8).tolist()
    assert bounds == [2**31 - 1, -(2**31), 255, 0, 1] and ternion.tensor(-(2**63)).item() == -(2**63)


@pytest.mark.parametrize("division", ["x // 0", "x % 0", "x // z", "x % z", "5 // z", "5 % z", "x.remainder(0)", "x.floor_divide(0)", "m.div(x, 0, rounding_mode='floor')", "x.__ifloordiv__(0)"])
def test_integers_divided_by_zero(division):
    for module in (ternion, pytest.importorskip("torch")):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            eval(division, {"m": module, "x": module.tensor([1, 2]), "z": module.tensor([3, 0])})


def test_zero_divides_floats_and_nothing():
    x = ternion.tensor([1.0, -1.0, 0.0])
    np.testing.assert_array_equal((x // 0).numpy(), [np.inf, -np.inf, np.nan])
    assert (ternion.tensor([1, 2]) / 0).isinf().all() and (ternion.zeros(0, dtype="int64") // ternion.zeros(0, dtype="int64")).shape == (0,)


def test_negative_powers_of_integers():
    x = ternion.tensor([1, 2])
    for power in (lambda: x**-1, lambda: x.pow(-2), lambda: x.__ipow__(-1)):
        with pytest.raises(RuntimeError, match="Integers to negative integer powers are not allowed"):
            power()
    assert (x**2).tolist() == [1, 4] and (x**-1.0).tolist() == [1.0, 0.5]


@pytest.mark.parametrize("difference", ["k - k", "k - True", "True - k", "k - 1", "1 - k", "i - k", "k - 1.5", "f - k", "k.__isub__(k)"])
def test_bools_have_no_difference(difference):
    for module in (ternion, pytest.importorskip("torch")):
        names = {"k": module.tensor([True, False]), "i": module.tensor([1, 2]), "f": module.tensor([1.0, 2.0])}
        with pytest.raises(RuntimeError, match="bools|bool tensor"):
            eval(difference, names)


# Every function with an axis, on a tensor with two axes.
AXES = """
x.sum(D) | x.sum(axis=D) | x.prod(D) | x.mean(D) | x.any(D) | x.all(D) | x.amax(D) | x.amin(D) | x.max(D) | x.min(D) | x.argmax(D) | x.argmin(D) | x.var(D) | x.std(D) | x.norm(dim=D)
x.logsumexp(D) | x.cumsum(D) | x.cumprod(D) | x.softmax(D) | x.log_softmax(D) | x.sort(D) | x.argsort(D) | x.topk(1, D) | x.median(D) | x.kthvalue(1, D) | x.quantile(0.5, D) | x.nansum(D) | x.nanmean(D)
x.count_nonzero(D) | x.diff(dim=D) | m.aminmax(x, dim=D) | m.var_mean(x, D) | m.std_mean(x, D) | x.squeeze(D) | x.unsqueeze(D + 1 if D > 0 else D - 1) | x.transpose(0, D) | x.transpose(D, 0) | x.permute(0, D)
x.flip(D) | x.roll(1, D) | x.flatten(0, D) | x.flatten(D) | x.unflatten(D, (1, 2)) | x.select(D, 0) | x.narrow(D, 0, 1) | x.split(1, D) | x.split([1, 1], D) | x.chunk(2, D) | x.unbind(D) | x.unfold(D, 1, 1)
x.tensor_split(2, D) | x.movedim(D, 0) | x.movedim(0, D) | x.swapaxes(0, D) | x.diagonal(0, 0, D) | x.repeat_interleave(2, D) | m.cat([x, x], D) | m.cat([x, x], axis=D) | m.stack([x, x], D + 1 if D > 0 else D - 1)
x.gather(D, i) | x.scatter(D, i, x) | x.scatter_add(D, i, x) | x.scatter_reduce(D, i, x, "sum") | x.index_select(D, i[0]) | x.index_add(D, i[0], x) | x.index_copy(D, i[0], x) | x.index_fill(D, i[0], 1.0)
x.take_along_dim(i, D) | x.size(D) | x.stride(D) | x[0, 0, 0] | x[..., 0, 0, 0] | x[:, :, None, 0] | x[5] | x[0, -4]
""".replace("\n", " | ")


@pytest.mark.parametrize("case", [case.strip() for case in AXES.split(" | ") if case.strip()])
@pytest.mark.parametrize("axis", [2, -3])
def test_axes_and_indices_out_of_range(case, axis):
    names = {"m": ternion, "x": ternion.ones(2, 2), "i": ternion.tensor([[0, 1], [1, 0]]), "D": axis}
    with pytest.raises(IndexError) as raised:
        eval(case, names)
    assert not NAMES_OF_RUST.search(str(raised.value))


@pytest.mark.parametrize(
    "case, error, message",
    [
        ("m.manual_seed(2**70)", ValueError, "a seed of"),
        ("m.linspace(0, 1, -1)", ValueError, "a count of -1, expected 0 or more"),
        ("m.ones(2).reshape(2**63)", ValueError, "reshape: 9223372036854775808 is out of range"),
        ("m.ones(2**70)", ValueError, "ones: .* is out of range"),
        ("m.ones(2.5)", TypeError, "ones: expected integers, got float"),
        ("m.zeros((2, 'a'))", TypeError, "zeros: expected integers, got str"),
        ("m.rand(-2)", ValueError, "rand: a size of -2, expected 0 or more"),
        ("m.full((2.5,), 1)", TypeError, "expected integers, got float"),
        ("x.view('a')", TypeError, "view: expected integers, got str"),
        ("x.expand(-2, 3)", ValueError, "expand: a size of -2 for axis 0"),
        ("x.topk(-1)", ValueError, "a count of -1"),
        ("x.narrow(0, 0, -1)", ValueError, "a count of -1"),
        ("x.chunk(-1)", ValueError, "a count of -1"),
        ("m.randperm(-1)", ValueError, "a count of -1"),
        ("m.eye(-1)", ValueError, "a count of -1"),
        ("x.sum(True)", TypeError, "sum: expected integers as axes, got bool"),
        ("x.sum(1.5)", TypeError, "sum: expected integers, got float"),
        ("x + 2**64", ValueError, "the number 18446744073709551616 does not fit int64"),
        ("m.div(x, 2, rounding_mode='up')", ValueError, "rounding_mode 'up'|rounding_mode \"up\""),
        ("m.where(x > 0, x)", TypeError, "expected only a condition, or also input and other"),
        ("m.tensor(np.array(['a']))", TypeError, "an array of dtype <U1, expected one of float64"),
        ("m.tensor(np.array([1j]))", TypeError, "an array of dtype complex128"),
        ("m.tensor(np.array([{}]))", TypeError, "an array of dtype object"),
        ("m.tensor(np.array([1], '>f4'))", TypeError, "an array of dtype >f4"),
        ("m.tensor(np.array(['2020'], 'M8[D]'))", TypeError, r"an array of dtype datetime64\[D\]"),
        ("m.from_numpy(np.zeros(2, [('a', 'f4')]))", TypeError, "an array of dtype"),
        ("m.as_tensor(np.complex64([1]))", TypeError, "an array of dtype complex64"),
        ("m.tensor([np.array(['a'])])", TypeError, "an array of dtype <U1"),
        ("m.tensor([[1.0, 2.0], np.ones(3)])", ValueError, "a list of 3 items"),
        ("m.Generator('nowhere')", RuntimeError, "device nowhere"),
        ("m.rand(2, generator=3)", TypeError, "generator"),
        ("x @ m.ones(2, 2)", ValueError, "matmul"),
        ("x.dot(x)", ValueError, "dot|axes"),
        ("m.ones(2).dot(m.ones(2).double())", TypeError, r"dot: dtypes float32 and float64 differ; cast one of them with .to\(dtype\)"),
        ("m.einsum('i,i->', m.ones(2), m.ones(2).long())", TypeError, r"dtypes float32 and int64 differ; cast one of them with .to\(dtype\)"),
        ("x.long().mean()", TypeError, "mean: input is int64, expected a floating dtype"),
        ("x.gather(1, x)", TypeError, "gather: index is float32, expected int32 or int64"),
        ("x.scatter(0, m.zeros(2, 2).long(), m.zeros(2, 2).long())", TypeError, "scatter: dtypes float32 and int64 differ"),
        ("m.cat([x, m.ones(2)])", ValueError, "cat: expected 2 axes"),
        ("x.masked_fill(x > 0, 2**70)", ValueError, "does not fit int64"),
        ("x.long().fill_(1.5)", ValueError, "1.5 is not an integer, tensor is int64"),
        ("m.ones(2, requires_grad=True).backward()", RuntimeError, r"or give backward\(\) a gradient"),
        ("m.ones(2, dtype=m.int64, requires_grad=True)", TypeError, "requires_grad of a tensor of int64, expected a floating dtype"),
        ("x.bincount()", ValueError, "bincount|axes"),
        ("x.flatten().bincount()", TypeError, "bincount: input is float32"),
        ("x.long().histc()", TypeError, "histc: input is int64"),
        ("x.to('float33')", RuntimeError, "device float33"),
        ("m.zeros(1, dtype='i64')", TypeError, "dtype i64 is not known, expected one of float64"),
        ("m.nn.functional.cross_entropy(x, x.long()[0].bool())", TypeError, "cross_entropy: .* is bool"),
        ("m.randint(5, 2, (2,))", ValueError, "randint"),
        ("m.randint(3)", TypeError, "randint: expected high and size"),
        ("~x", TypeError, "float32"),
        ("x & x", TypeError, "bitwise_and: operand is float32, expected an integer dtype"),
        ("-(x > 0)", TypeError, "neg: input is bool"),
        ("m.from_dlpack(3)", TypeError, "expected an array with __dlpack__, got int"),
    ],
)  # fmt: skip
def test_messages_are_of_python(case, error, message):
    with pytest.raises(error, match=message) as raised:
        eval(case, {"m": ternion, "np": np, "x": ternion.ones(2, 3)})
    assert type(raised.value) is error
    if "i64" not in case:
        assert not NAMES_OF_RUST.search(str(raised.value)), raised.value


# Ops of many kinds, each with an invalid operand. Their messages use Python's terms.
OPERANDS = """
x.matmul(n) | x.mm(n) | x.bmm(x) | x.mv(x) | x.outer(x) | x.addmm(x, x) | x.addcmul(n, x) | x.dot(n) | F.linear(x, n) | F.conv2d(x, x) | F.conv2d(t, n4) | F.max_pool2d(x, 2) | F.avg_pool2d(n4, 2) | F.layer_norm(x, (7,))
F.batch_norm(x, None, None, training=False) | F.group_norm(x, 2) | F.embedding(x, x) | F.embedding(n, n) | F.cross_entropy(x, x) | F.nll_loss(x, n) | F.mse_loss(x, m.ones(3)) | F.kl_div(n, n) | F.dropout(x, 2.0)
F.scaled_dot_product_attention(x, x, m.ones(5, 5)) | F.one_hot(x, 3) | F.pad(x, (1,)) | F.interpolate(x, 2) | x.masked_fill(n, 1.0) | x.masked_select(n) | x.masked_scatter(n > 0, n) | x.index_select(0, x[0]) | x.index_add(0, n[0], n)
x.gather(0, n[0]) | x.scatter_add(0, n, n) | x.topk(9) | x.cumsum(5) | k.cumsum(0) | k.prod() | k.mean() | k.sqrt_() | k.argsort(7) | x.split(0) | x.chunk(0) | x.unfold(0, 9, 1) | x.roll((1, 2)) | x.permute(0) | x.expand(5) | x.reshape(5)
x.view(4, 9) | x.unflatten(0, (3, 3)) | x.repeat(1) | x.t().contiguous().view(7) | x.histc(0) | n.histc() | x.bincount() | x.var(correction=-5, dim=9) | x.norm(0) | x.clamp("a") | n.clamp(0.5) | n + 2**64 | n.bernoulli() | n.softmax(9) | x.tril(0)[0].tril() | x[0].t().t().bmm(x)
m.cat([x, x[0]]) | m.stack([x, x[0]]) | m.einsum("ij,jk", x, n) | m.einsum("ij->ijk", x) | m.einsum("i", x) | m.arange(0, 3, 0) | m.arange(0, 3, dtype=m.bool) | m.linspace(0, 1, 3, dtype=m.int32) | m.rand(2, dtype=m.int32) | m.randint(0, 2, (1,), dtype=m.float32)
m.randint(0, 2**50, (1,)) | m.full((1,), 2.5, dtype=m.int32) | m.eye(2, dtype="i32") | x.requires_grad_().detach().long().requires_grad_() | x.atan2(k) | k.maximum(x).fill_(2**70) | n.remainder(k) // 0 | x.copy_(m.ones(7)) | x.to(m.int32).uniform_() | m.ones(2, 3).backward()
"""


@pytest.mark.parametrize("case", [case.strip() for line in OPERANDS.strip().splitlines() for case in line.split(" | ")])
def test_no_message_speaks_rust(case):
    names = {"m": ternion, "F": ternion.nn.functional, "x": ternion.ones(3, 3), "n": ternion.ones(3, 3).long(), "k": ternion.ones(3, 3).bool()}
    names |= {"t": ternion.ones(1, 3, 3, 3), "n4": ternion.ones(1, 3, 3, 3).long()}
    try:
        eval(case, names)
    except (ValueError, TypeError, IndexError, RuntimeError) as error:
        assert not NAMES_OF_RUST.search(str(error)) or "dtype i32 is not known" in str(error), error


def test_names_of_users_stay(tmp_path):
    file = tmp_path / "f32" / "i64.safetensors"
    with pytest.raises(FileNotFoundError, match="f32.i64.safetensors"):
        ternion.load(file)
    layer = ternion.nn.Linear(2, 2)
    with pytest.raises((ValueError, RuntimeError, KeyError), match="block.f32.weight"):
        layer.load_state_dict({"block.f32.weight": ternion.ones(2, 2)})


# Calls with an invalid argument, and the function that the error must name: the one that was
# called, with the argument that it received.
CALLS = """
sum: x.sum("a") | sum: x.sum(dim=0, keepdim="a") | mean: x.mean(1.5) | max: x.max("a") | max: x.max(7) | min: x.min(1.5) | argmax: x.argmax("a") | var: x.var("a") | std: x.std(correction="a") | norm: x.norm("a")
cumsum: x.cumsum("a") | sort: x.sort("a") | sort: x.sort(descending=3.5) | topk: x.topk("a") | topk: x.topk(1, None) | view: x.view(4, 4) | transpose: x.transpose("a", 1) | squeeze: x.squeeze("a") | unsqueeze: x.unsqueeze("a")
flatten: x.flatten("a") | unflatten: x.unflatten(0, (3, 3)) | unflatten: x.unflatten("a", (1, 2)) | split: x.split("a") | split: x.split([1, 5]) | chunk: x.chunk("a") | narrow: x.narrow("a", 0, 1) | select: x.select("a", 0)
gather: x.gather(0, "a") | gather: x.gather("a", i) | scatter: x.scatter(0, i, "a") | index_select: x.index_select(0, "a") | masked_fill: x.masked_fill("a", 1) | masked_select: x.masked_select(None) | roll: x.roll("a")
unfold: x.unfold("a", 1, 1) | tril: x.tril(1.5) | triu: x.triu(None) | add: x.add(x, alpha="a") | add: x.add("a") | +=: operator.iadd(x, "a") | //=: operator.ifloordiv(x, None) | add_: x.add_("a") | matmul: x.matmul(5)
mm: m.mm(x, "a") | dot: x.dot("a") | clamp: x.clamp(m.ones(7)) | clamp: x.clamp("a") | clamp_: x.clamp_("a") | softmax: x.softmax("a") | logsumexp: x.logsumexp("a") | index: x[0:2.5] | index: x["a"] | zeros: m.zeros("a")
zeros: m.zeros(2, requires_grad="a") | zeros: m.zeros(-1) | zeros: m.zeros(10**9, 10**9, 10**9) | ones: m.ones(*[1] * 12) | full: m.full("a", 1) | full: m.full(-1, 1) | linspace: m.linspace("a", 1, 3) | linspace: m.linspace(0, 1, "a")
eye: m.eye("a") | randint: m.randint("a", (2,)) | randint: m.randint(0, 5, "a") | randperm: m.randperm("a") | cat: m.cat([x, x], "a") | cat: m.cat(5) | stack: m.stack(5) | where: m.where("a", x, x) | where: m.where(x > 0, "a", x)
where: m.where(x > 0, 1, "a") | where: x.where(x > 0, "a") | einsum: m.einsum(5, x) | einsum: m.einsum("i,i", x, "a") | maximum: m.maximum(x, "a") | minimum: m.minimum(x, None) | cross_entropy: F.cross_entropy(x, i, reduction="x")
mse_loss: F.mse_loss(x, x, reduction="x") | layer_norm: F.layer_norm(x, "a") | interpolate: F.interpolate(x, size=3) | scaled_dot_product_attention: F.scaled_dot_product_attention(x, x, "a") | dropout: F.dropout(x, "a")
scaled_dot_product_attention: F.scaled_dot_product_attention(x, m.ones(2, 4), x) | requires_grad_: x.requires_grad_("a") | copy_: x.copy_("a") | copy_: x.copy_(m.ones(7)) | uniform_: x.uniform_("a") | isclose: m.isclose(x, "a")
allclose: m.allclose(x, m.ones(7)) | equal: m.equal(x, "a") | expand_as: x.expand_as("a") | unbind: x.unbind("a") | logical_and: x.logical_and("a") | all: x.all("a") | any: x.any(9) | register_hook: x.register_hook(5)
grad: setattr(x, "grad", "a") | data: setattr(x, "data", "a") | requires_grad: setattr(x, "requires_grad", "a") | normal_: m.nn.init.normal_(x, std=-1) | uniform_: m.nn.init.uniform_(x, 2, 1) | trunc_normal_: m.nn.init.trunc_normal_(x, 0, 1, 5, 2)
histc: m.histc(x, "a") | bincount: i.bincount("a") | stride: x.stride("a") | size: x.size("a") | backward: x.backward("a") | masked_scatter: x.masked_scatter(x > 0, 1) | addmm: x.addmm(x, 1) | outer: x.outer(None)
"""
OF_RUST = re.compile(r"\w+ \{|Some\(|None\)|Dim\(|cannot be interpreted|not an instance of|must be real")


@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")])
def test_the_function_that_was_called_is_named(call):
    name, case = call.split(": ", 1)
    with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as raised:
        eval(case, {"m": ternion, "F": ternion.nn.functional, "x": ternion.ones(2, 3), "i": ternion.tensor([0, 1]), "operator": operator})
    assert str(raised.value).startswith(f"{name}: ") and not OF_RUST.search(str(raised.value))


class TestScalarsOfTheProcessor:
    def test_they_meet_tensors_of_other_devices(self):
        device = other_device()
        x, s = ternion.tensor([1.0, 2.0], device=device), ternion.tensor(3.0)
        for actual, expected in [(x + s, [4, 5]), (s - x, [2, 1]), (x * ternion.tensor(2), [2, 4]), (x.maximum(ternion.tensor(1.5)), [1.5, 2]), (x / ternion.tensor(2.0, dtype="float32"), [0.5, 1])]:
            assert actual.device == x.device and actual.tolist() == expected
        assert (x > ternion.tensor(1.5)).tolist() == [False, True] and (x > 1).device == x.device
        assert ternion.where(x > 1, x, ternion.tensor(0.0)).tolist() == [0.0, 2.0]
        x += s
        assert x.tolist() == [4.0, 5.0] and x.device == ternion.device(device)
        w = ternion.tensor(2.0, requires_grad=True)
        (x * w).sum().backward()
        assert w.grad.item() == 9.0 and w.grad.device == "cpu"

    def test_others_do_not(self):
        device = other_device()
        x = ternion.ones(2, device=device)
        with pytest.raises(ValueError, match=r"add: tensors on .*; move one of them with .to\(device\)"):
            x + ternion.ones(2)
        with pytest.raises(ValueError, match="tensors on|on"):
            ternion.tensor(1.0).add_(x.sum())
        with pytest.raises(RuntimeError, match="generator: of cpu, expected one of"):
            ternion.rand(2, device=device, generator=ternion.Generator())
        generator = ternion.Generator(device).manual_seed(1)
        first = ternion.rand(3, device=device, generator=generator)
        assert ternion.rand(3, device=device, generator=generator.manual_seed(1)).equal(first)
