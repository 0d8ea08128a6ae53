"""Arguments and overloads of PyTorch's functions, each with the value that PyTorch returns."""

import functools
import math
import warnings

import numpy as np
import pytest
import ternion
from ternion import nn
from ternion.nn import functional as F

NAN = math.nan


def t(values, **kinds):
    return ternion.tensor(values, **kinds)


def close(result, right):
    np.testing.assert_allclose(np.asarray(result.tolist()), np.asarray(right), rtol=1e-6, atol=1e-6)


# ---- Products that are added to an input


def test_products_of_integers_stay_exact():
    big = 2**53 + 1
    x = t([[big, 1], [0, 2]])
    assert ternion.addmv(t([1, 1]), x, t([1, 1])).tolist() == [big + 2, 3]
    assert ternion.addr(t([[big]]), t([2]), t([3])).tolist() == [[big + 6]]
    assert ternion.addbmm(t([[1]]), t([[[big]]]), t([[[1]]])).tolist() == [[big + 1]]
    assert ternion.baddbmm(t([[[1]]]), t([[[big]]]), t([[[1]]]), beta=2, alpha=3).tolist() == [[[3 * big + 2]]]
    with pytest.raises(ValueError, match="beta 0.5 for operands of int64, expected an integer"):
        ternion.addmv(t([1, 1]), x, t([1, 1]), beta=0.5)


@pytest.mark.parametrize("dtype", [ternion.float32, ternion.bfloat16, ternion.float16])
def test_a_summand_that_counts_for_nothing_is_not_read(dtype):
    hole = t([NAN], dtype=dtype)
    a, b = ternion.ones(2, 3, 4, dtype=dtype), ternion.ones(2, 4, 3, dtype=dtype)
    close(ternion.addmv(hole, a[0], b[0, :, 0], beta=0), [4, 4, 4])
    close(ternion.addr(hole, a[0, 0, :2], b[0, 0, :2], beta=0), [[1, 1], [1, 1]])
    close(ternion.addbmm(hole, a, b, beta=0), np.full((3, 3), 8))
    close(ternion.baddbmm(hole, a, b, beta=0), np.full((2, 3, 3), 4))


def test_half_precision_is_rounded_once():
    # 1 + 2^-8 is between two bfloat16 numbers: if intermediate results were rounded, the product
    # with beta would be lost.
    one = t([[[1.0]]], dtype=ternion.bfloat16)
    small = t([2.0**-8 * 3], dtype=ternion.bfloat16)
    right = t(2.0**-8 * 3 * 0.7 + 1.0).bfloat16()
    assert ternion.baddbmm(small, one, one, beta=0.7).item() == right.item()
    assert ternion.addmm(small, one[0], one[0], beta=0.7).item() == right.item()


@pytest.mark.parametrize("name, shapes", [("addmv", [(2,), (2, 3), (3,)]), ("addr", [(2, 3), (2,), (3,)]), ("addbmm", [(2, 4), (5, 2, 3), (5, 3, 4)]),
    ("baddbmm", [(5, 2, 4), (5, 2, 3), (5, 3, 4)])])  # fmt: skip
def test_in_place(name, shapes):
    x, *operands = (ternion.rand(shape) for shape in shapes)
    right = getattr(ternion, name)(x, *operands, beta=0.5, alpha=2)
    assert getattr(x, f"{name}_")(*operands, beta=0.5, alpha=2) is x
    close(x, right.tolist())


# ---- In-place views


def test_views_in_place_give_the_tensor_itself_another_form():
    x = ternion.arange(6).reshape(2, 3)
    assert x.unsqueeze_(0) is x and x.shape == (1, 2, 3)
    assert x.squeeze_(0).shape == (2, 3) and x.squeeze_().shape == (2, 3)
    assert x.t_().tolist() == [[0, 3], [1, 4], [2, 5]]
    assert x.transpose_(0, 1).shape == x.swapaxes_(0, 1).T.shape == x.swapdims_(0, 1).shape == (2, 3)


def test_views_in_place_keep_what_shares_the_memory():
    x = ternion.zeros(2, 3)
    same, row = x.view(6), x[0]
    x.t_()
    assert same.shape == (6,) and row.shape == (3,)
    x[1, 0] = 5
    assert same.tolist() == [0, 5, 0, 0, 0, 0] and row.tolist() == [0, 5, 0]


def test_views_in_place_pass_gradients_on():
    weight = ternion.tensor([[1.0, 2, 3]], requires_grad=True)
    y = weight * 2
    y.transpose_(0, 1).mul_(ternion.tensor([[1.0], [10], [100]]))
    y.sum().backward()
    assert weight.grad.tolist() == [[2, 20, 200]]
    with pytest.raises(RuntimeError, match="changed in place"):
        weight.t_()


def test_parameters_take_another_form_in_place():
    layer = nn.Linear(3, 2)
    with ternion.no_grad():
        layer.weight.t_()
    assert layer.weight.shape == (3, 2) and isinstance(layer.weight, nn.Parameter)


def test_comparisons_in_place_give_numbers():
    x = t([1.0, 2, 3])
    assert x.eq_(2).tolist() == [0, 1, 0] and x.dtype == ternion.float32
    assert t([1, 2, 3]).ge_(t([2, 2, 2])).tolist() == [0, 1, 1]
    assert [getattr(t([1.0, 2]), f"{name}_")(2).tolist() for name in ("ne", "lt", "le", "gt", "less", "greater_equal")] == [
        [1, 0], [1, 0], [1, 1], [0, 0], [1, 0], [0, 1]]  # fmt: skip
    assert t([-1.0, 0, 2]).heaviside_(t([0.5])).tolist() == [0, 0.5, 1]
    assert t([1.0, 3]).ldexp_(t([2, -1])).tolist() == [4, 1.5]
    assert t([1.26, -0.04]).round_(decimals=1).tolist() == pytest.approx([1.3, 0])


# ---- Masks that broadcast the tensor


def test_masks_spread_the_tensor_itself():
    mask = t([[True, False], [False, True]])
    assert t([1.0, 2]).masked_fill(mask, 9).tolist() == [[9, 2], [1, 9]]
    assert t([1.0, 2]).masked_scatter(mask, t([7.0, 8])).tolist() == [[7, 2], [1, 8]]
    x = t([1.0, 2], requires_grad=True)
    x.masked_fill(mask, 9).sum().backward()
    assert x.grad.tolist() == [1, 1]
    with pytest.raises(ValueError, match="do not broadcast"):
        t([1.0, 2, 3]).masked_fill(mask, 9)
    with pytest.raises((ValueError, RuntimeError)):
        t([1.0, 2]).masked_fill_(mask, 9)


# ---- Arguments


def test_casts_take_a_memory_format():
    for name in "float double half bfloat16 long int short char byte bool".split():
        assert getattr(t([1, 0]), name)(memory_format=ternion.contiguous_format).tolist() == [1, 0]


def test_means_beside_variances():
    x = t([[1.0, 2], [4, 8]])
    assert [part.item() for part in ternion.var_mean(x, False)] == pytest.approx([7.1875, 3.75])
    assert ternion.std_mean(x, dim=1, unbiased=True, keepdim=True)[0].flatten().tolist() == pytest.approx([0.5**0.5, 8**0.5])
    assert ternion.var_mean(x, 0, correction=0)[0].tolist() == pytest.approx([2.25, 9])
    assert ternion.var_mean(x, 0, correction=None)[0].tolist() == [4.5, 18] and ternion.std_mean(t([1.0, 5, 9]), correction=None)[0].item() == 4


@pytest.mark.parametrize("function", [ternion.var_mean, ternion.std_mean])
def test_a_correction_beside_unbiased_is_rejected(function):
    for arguments in ({"dim": 0, "unbiased": True}, {"dim": False}):
        with pytest.raises(TypeError, match="_mean: expected unbiased or correction, got both"):
            function(t([1.0, 2]), **arguments, correction=1)


def test_norms_in_another_dtype():
    x = t([[3.0, 4], [1, 2**-14]])
    for result in (ternion.norm(x[1], 2, dtype=ternion.float64), x[1].norm(dtype=ternion.float64), x[1:].norm("nuc", dtype=ternion.float64)):
        assert result.dtype == ternion.float64 and result.item() == pytest.approx((1 + 2**-28) ** 0.5, rel=1e-14) != 1
    assert x.norm(1, 1, True, ternion.float64).tolist() == [[7], [1 + 2**-14]] and x[0].half().norm(2, 0, dtype=ternion.float32).item() == 5
    with pytest.raises(ValueError, match="norm: expected a dtype that holds the numbers of float32, got float16"):
        x.norm(dtype=ternion.float16)
    with pytest.raises(TypeError, match="norm: expected a floating dtype, got int64"):
        ternion.norm(x, dtype=ternion.int64)


def test_a_spacing_of_none_is_1():
    assert ternion.gradient(t([1.0, 3, 9]), spacing=None)[0].tolist() == [2, 4, 6]


def test_what_is_drawn_may_ask_for_its_gradient():
    results = [
        ternion.logspace(0, 2, 3, requires_grad=True), ternion.normal(0.0, 1.0, (3,), requires_grad=True), ternion.randperm(3, dtype=ternion.float32, requires_grad=True),
        ternion.randint(0, 3, (3,), dtype=ternion.float64, requires_grad=True), ternion.randint_like(ternion.ones(3), 3, requires_grad=True),
    ]  # fmt: skip
    for x in results:
        assert x.requires_grad and x.is_leaf
        (x * t([1.0, 2, 3])).sum().backward()
        assert x.grad.tolist() == [1, 2, 3]
    assert results[0].tolist() == [1, 10, 100] and sorted(results[2].tolist()) == [0, 1, 2]
    for call in (lambda: ternion.randint(0, 3, (2,), requires_grad=True), lambda: ternion.normal(t([0.0]), 1.0, requires_grad=True)):
        with pytest.raises((TypeError, RuntimeError)):
            call()


def test_where_memory_lies_changes_nothing():
    x, strided = t([1.5]), {"layout": ternion.strided, "pin_memory": False}
    results = [
        ternion.zeros(1, **strided), ternion.empty(1, memory_format=ternion.contiguous_format, **strided), ternion.zeros_like(x, **strided), x.new_zeros(1, **strided),
        ternion.arange(1.0, **strided), ternion.full((1,), 0.0, **strided), (ternion.eye(1, **strided) - 1)[0], x.new_full((1,), 0.0, **strided), ternion.tensor([0.0], pin_memory=False),
        ternion.randint_like(x, 1, memory_format=ternion.preserve_format, **strided), ternion.randperm(1, dtype=ternion.float32, **strided), ternion.linspace(0, 0, 1, **strided),
    ]  # fmt: skip
    assert [each.tolist() for each in results] == [[0.0]] * len(results)
    assert x.layout is ternion.strided and repr(x.layout) == "ternion.strided" and isinstance(x.layout, ternion.layout)
    with pytest.raises(ValueError, match="ones: expected the layout ternion.strided, got sparse_coo"):
        ternion.ones(2, layout="sparse_coo")


def test_dropouts_at_the_top_level_take_train():
    x = ternion.ones(1, 3)
    for function in (ternion.dropout, ternion.alpha_dropout, ternion.feature_alpha_dropout):
        assert function(x, p=0.5, train=False).tolist() == [[1, 1, 1]] and function(x, 0.0, True).tolist() == [[1, 1, 1]]
    assert ternion.dropout(x, 1.0, train=True).tolist() == [[0, 0, 0]]


def test_names_at_the_top_level():
    x = t([[1.0, 5, 2, 7]], requires_grad=True)
    assert [part.tolist() for part in ternion.adaptive_max_pool1d(x, 2)] == [[[5, 7]], [[1, 3]]]
    assert ternion.max_pool3d(x.reshape(1, 1, 1, 2, 2), (1, 2, 2)).item() == 7 and ternion.channel_shuffle(x.reshape(1, 4, 1), 2).flatten().tolist() == [1, 2, 5, 7]
    assert ternion.conv3d(x.reshape(1, 1, 1, 2, 2), ternion.ones(1, 1, 1, 1, 2)).flatten().tolist() == [6, 9]
    assert ternion.conv_transpose3d(x.reshape(1, 1, 1, 2, 2), ternion.ones(1, 1, 1, 1, 2)).flatten().tolist() == [1, 6, 5, 2, 9, 7]
    value = t(3.0, requires_grad=True)
    filled = ternion.fill(x, value)
    (filled * t([1.0, 2, 3, 4])).sum().backward()
    assert (filled.tolist(), x.tolist(), x.grad.tolist(), value.grad.item()) == ([[3] * 4], [[1, 5, 2, 7]], [[0] * 4], 10)
    assert ternion.fill(t([1, 2]), 7).tolist() == [7, 7]


def test_put_leaves_the_tensor_alone():
    x = t([[1.0, 5], [2, 7]], requires_grad=True)
    put = x.put(t([-1, 0]), t([8, 9]))
    assert put.tolist() == [[9, 5], [2, 8]] and x.tolist() == [[1, 5], [2, 7]]
    put.sum().backward()
    assert x.grad.tolist() == [[0, 1], [1, 0]]
    assert ternion.put(x, t([1, 1]), t([1.0, 2]), accumulate=True).tolist() == [[1, 8], [2, 7]]
    with pytest.raises(IndexError, match="put: index 4 is out of range for size 4"):
        ternion.put(x, t([4]), t([1.0]))


def test_others():
    assert F.softmin(t([0, 0]), 0, dtype=ternion.float64).dtype == ternion.float64
    assert ternion.scalar_tensor(2, requires_grad=True).requires_grad
    assert [part.tolist() for part in ternion.tensor_split(ternion.arange(4), t(2))] == [[0, 1], [2, 3]]
    assert ternion.take_along_dim(t([[1, 2, 3]]), t([[-1, 0]]), 1).tolist() == [[3, 1]]
    assert ternion.take_along_dim(t([1, 2, 3]), t([-1])).tolist() == [3]
    parts = ternion.frexp(t([6.0, 0, -0.75]))
    assert (parts.mantissa.tolist(), parts.exponent.tolist()) == ([0.75, 0, -0.75], [3, 0, 0])
    assert [part.tolist() for part in t(5).nonzero(as_tuple=True)] == [[0]]
    assert [part.tolist() for part in t(0).nonzero(as_tuple=True)] == [[]]
    assert t(5).nonzero().shape == (1, 0)


def test_attention_spreads_operands_of_fewer_axes():
    query, key, value = ternion.rand(4, 3, 8), ternion.rand(2, 4, 6, 8), ternion.rand(2, 4, 6, 5)
    result = F.scaled_dot_product_attention(query, key, value)
    right = F.scaled_dot_product_attention(query.expand(2, 4, 3, 8), key, value)
    assert result.shape == (2, 4, 3, 5)
    close(result, right.tolist())
    with pytest.raises(ValueError, match="4 heads for 3 of queries"):
        F.scaled_dot_product_attention(ternion.rand(3, 3, 8), key, value)


# ---- Running statistics of instance norm


def test_instance_norm_with_running_statistics():
    x = ternion.tensor([[[1.0, 3], [0, 8]], [[5, 7], [2, 2]]])
    mean, var = ternion.zeros(2), ternion.ones(2)
    close(F.instance_norm(x, mean, var, momentum=0.5), F.instance_norm(x).tolist())
    # The means are those of [2, 6] and [4, 2], the unbiased variances those of [2, 2] and [32, 0].
    assert (mean.tolist(), var.tolist()) == ([2, 1.5], [1.5, 8.5])
    close(F.instance_norm(x, mean, var, use_input_stats=False, eps=0.0), (x.numpy() - [[2], [1.5]]) / np.sqrt([[1.5], [8.5]]))
    with pytest.raises(ValueError, match="use_input_stats=False without running_mean and running_var"):
        F.instance_norm(x, use_input_stats=False)
    assert F.instance_norm(ternion.ones(2, 0, 4), ternion.ones(0), ternion.ones(0), ternion.ones(0), ternion.ones(0)).shape == (2, 0, 4)


@pytest.mark.parametrize("norm", [F.instance_norm, functools.partial(F.batch_norm, training=True)])
def test_running_statistics_are_both_or_neither(norm):
    for statistics, present in (({"running_mean": t([0.0])}, "running_mean"), ({"running_var": t([1.0])}, "running_var")):
        with pytest.raises(ValueError, match=f"_norm: expected both or neither of running_mean and running_var, got only {present}"):
            norm(ternion.ones(2, 1, 3), **statistics)


def test_instance_norm_layers_track_statistics():
    layer = nn.InstanceNorm1d(2, momentum=0.5, track_running_stats=True)
    assert sorted(layer.state_dict()) == ["num_batches_tracked", "running_mean", "running_var"]
    x = ternion.tensor([[[1.0, 3], [0, 8]]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        close(layer(x), nn.InstanceNorm1d(2)(x).tolist())
    assert layer.running_mean.tolist() == [1, 2]
    close(layer.eval()(x), F.instance_norm(x, layer.running_mean, layer.running_var, use_input_stats=False).tolist())
    assert list(nn.InstanceNorm1d(2).state_dict()) == []


# ---- The operand that receives the gradient of a tie


@pytest.mark.parametrize("dtype", [ternion.float32, ternion.bfloat16])
@pytest.mark.parametrize("name", ["clamp_min", "clamp_max", "fmax", "fmin"])
def test_ties_are_of_the_first(name, dtype):
    x, bound = (t([1.0, 2, 3], dtype=dtype, requires_grad=True) for _ in range(2))
    getattr(x, name)(bound).sum().backward()
    assert x.grad.tolist() == [1, 1, 1] and bound.grad.tolist() == [0, 0, 0]


def test_bounds_have_gradients_outside():
    x, low, high = (t(values, requires_grad=True) for values in ([-5.0, 0, 5, 1], [-1.0, -1, -1, 3], [1.0, 1, 1, 2]))
    y = x.clamp(low, high)
    assert y.tolist() == [-1, 0, 1, 2]
    y.sum().backward()
    assert (x.grad.tolist(), low.grad.tolist(), high.grad.tolist()) == ([0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 1, 1])
    assert t([1.0, NAN, 1]).clamp(t([NAN, 0, 0]), t([2.0, 2, NAN])).isnan().all()


# ---- Bool tensors


def test_bools_are_added_as_logical_or():
    x, indices = t([False, True, False]), t([0, 0, 2, 2])
    source = t([True, True, False, False])
    assert x.scatter_add(0, indices, source).tolist() == x.index_add(0, indices, source).tolist() == [True, True, False]
    assert x.scatter(0, indices, source, reduce="add").tolist() == [True, True, False]
    for change in ("scatter_add_", "index_add_"):
        y = x.clone()
        assert getattr(y, change)(0, indices, source) is y and y.tolist() == [True, True, False]
    # As many additions as a byte has values.
    assert t([False]).scatter_add(0, ternion.zeros(256, dtype=ternion.int64), ternion.ones(256).bool()).tolist() == [True]


def test_windows_of_bools():
    image = t([[[[True, False, True]]]])
    assert F.unfold(image, (1, 2)).tolist() == [[[True, False], [False, True]]]


def test_an_index_without_elements_has_any_dtype():
    assert t([1.0, 2]).gather(0, ternion.empty(0, dtype=ternion.uint8)).tolist() == []
    with pytest.raises(TypeError, match="index is uint8"):
        t([1.0, 2]).gather(0, t([1], dtype=ternion.uint8))
