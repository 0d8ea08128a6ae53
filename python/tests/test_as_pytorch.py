"""Behavior that PyTorch programs rely on implicitly: dtypes of results, bounds, rejected calls, and
values at the limits of dtypes."""

import math
import time

import pytest
from pytorch_reference import close, torch_of

import ternion


class TestBounds:
    """Bounds of `clamp`, also in place and with integers."""

    @pytest.mark.parametrize("call", [lambda x: x.clamp(), lambda x: x.clamp_(), lambda x: x.clip(), ternion.clamp])
    def test_one_at_least(self, call):
        with pytest.raises(ValueError, match="no bound, expected min, max or both"):
            call(ternion.tensor([1, 2]))

    @pytest.mark.parametrize("bounds", [dict(min=0.5), dict(max=math.nan), dict(min=0.5, max=2), dict(min=[1.5, 2.5]), dict(max=1.5, min=[0, 1]), dict(min=[0, 1], max=[1.5, 2.5])])
    def test_floats_are_not_written_into_integers(self, bounds):
        torch = torch_of()
        for T, error in ((torch, RuntimeError), (ternion, RuntimeError)):
            limits = {name: T.tensor(bound) if isinstance(bound, list) else bound for name, bound in bounds.items()}
            if T is torch and len({isinstance(bound, list) for bound in bounds.values()}) == 2:
                continue  # PyTorch rejects a number together with a tensor in any case.
            x = T.tensor([0, 5])
            with pytest.raises(error, match="result type .loat.* can't be cast to the desired output type"):
                x.clamp_(**limits)
            assert x.tolist() == [0, 5] and "float32" in str(x.clamp(**limits).dtype)

    def test_what_keeps_its_kind_is_written(self):
        assert ternion.tensor([1.0, 5.0]).clamp_(ternion.tensor([2, 2], dtype=ternion.float64)).tolist() == [2.0, 5.0]
        small = ternion.tensor([1, 5], dtype=ternion.int8).clamp_(max=ternion.tensor([3, 3]))
        assert small.dtype == ternion.int8 and small.tolist() == [1, 3]
        assert ternion.tensor([1, 5]).clamp_(ternion.tensor(2)).tolist() == [2, 5]

    @pytest.mark.parametrize("bounds", [dict(min=300), dict(min=256, max=400), dict(max=-1), dict(min=-5, max=-3)])
    def test_a_bound_that_every_element_would_become(self, bounds):
        for name in ("clamp", "clamp_"):
            with pytest.raises(ValueError, match=f"^{name}: -?[0-9]+ does not fit uint8"):
                getattr(ternion.tensor([0, 5], dtype=ternion.uint8), name)(**bounds)

    def test_bounds_beyond_the_dtype_that_no_element_meets(self):
        x = ternion.tensor([0, 255], dtype=ternion.uint8)
        assert x.clamp(-3, 300).tolist() == [0, 255] and x.clamp(max=300).dtype == ternion.uint8
        assert ternion.tensor([-128, 5], dtype=ternion.int8).clamp(min=-(2**62), max=4).tolist() == [-128, 4]

    def test_bools_with_numbers(self):
        torch = torch_of()
        for bounds in (dict(min=0, max=1), dict(min=2), dict(max=0.5)):
            actual, expected = ternion.tensor([True, False]).clamp(**bounds), torch.tensor([True, False]).clamp(**bounds)
            assert actual.tolist() == expected.tolist() and str(actual.dtype).split(".")[1] == str(expected.dtype).split(".")[1]
        with pytest.raises(RuntimeError, match="result type int64 can't be cast to the desired output type bool"):
            ternion.tensor([True, False]).clamp_(min=0)
        with pytest.raises(TypeError):
            ternion.tensor([True, False]).clamp(min=True)


class TestInPlace:
    """As in PyTorch, an in-place op is rejected if the tensor's dtype cannot store the result, and
    nothing is changed."""

    CALLS = {
        "elu_": lambda T, x: T.nn.functional.elu_(x), "leaky_relu_": lambda T, x: T.nn.functional.leaky_relu_(x, 0.5), "selu": lambda T, x: T.nn.functional.selu(x, inplace=True),
        "silu": lambda T, x: T.nn.functional.silu(x, inplace=True), "add_": lambda T, x: x.add_(1.5), "add_ alpha": lambda T, x: x.add_(x, alpha=0.5),
        "div_": lambda T, x: x.div_(2), "pow_": lambda T, x: x.pow_(0.5), "sqrt_": lambda T, x: x.sqrt_(), "fmod_": lambda T, x: x.fmod_(1.5),
        "addcmul_": lambda T, x: x.addcmul_(T.tensor([1.0, 2.0]), T.tensor([1.0, 2.0])), "xlogy_": lambda T, x: x.xlogy_(T.tensor([1.5, 2.5])),
        "index_put_": lambda T, x: x.index_put_((T.tensor([0]),), T.tensor([1.5])), "put_": lambda T, x: x.put_(T.tensor([0]), T.tensor([1.5])),
        "index_add_": lambda T, x: x.index_add_(0, T.tensor([0]), T.tensor([1.5])), "scatter_add_": lambda T, x: x.scatter_add_(0, T.tensor([0]), T.tensor([1.5])),
        "index_copy_": lambda T, x: x.index_copy_(0, T.tensor([0]), T.tensor([1.5])), "masked_scatter_": lambda T, x: x.masked_scatter_(x > 1, T.tensor([1.5])),
        "copysign_": lambda T, x: x.copysign_(T.tensor([-1.0, 1.0])), "hypot_": lambda T, x: x.hypot_(T.tensor([1.5, 1.5])), "atan2_": lambda T, x: x.atan2_(x),
    }  # fmt: skip

    @pytest.mark.parametrize("name", CALLS)
    def test_floats_into_integers(self, name):
        for T in (torch_of(), ternion):
            x = T.tensor([1, 5])
            with pytest.raises((RuntimeError, TypeError, ValueError, NotImplementedError)):
                self.CALLS[name](T, x)
            assert x.tolist() == [1, 5]


def dtype_name(dtype):
    return str(dtype).split(".")[-1]


DTYPES = {
    "int8 summed": lambda T: T.einsum("ij->i", T.tensor([[100, 100]], dtype=T.int8)), "the trace": lambda T: T.einsum("ii->", T.tensor([[100, 1], [1, 100]], dtype=T.int8)),
    "uint8": lambda T: T.einsum("ij->", T.tensor([[200, 200]], dtype=T.uint8)), "one is summed": lambda T: T.einsum("ij,k->ik", T.tensor([[100, 100]], dtype=T.int8), T.tensor([1, 1], dtype=T.int8)),
    "both are summed": lambda T: T.einsum("ij,kl->ik", T.tensor([[100, 100]], dtype=T.int8), T.tensor([[1], [1]], dtype=T.int8)),
    "a product": lambda T: T.einsum("ij,jk->ik", T.tensor([[100, 100]], dtype=T.int8), T.tensor([[1], [1]], dtype=T.int8)),
    "elements": lambda T: T.einsum("ij,ij->ij", T.tensor([[100, 100]], dtype=T.int8), T.tensor([[1, 2]], dtype=T.int8)),
    "transposed": lambda T: T.einsum("ij->ji", T.tensor([[100, 100]], dtype=T.int8)), "truth summed": lambda T: T.einsum("ij->i", T.tensor([[True, True]])),
    "truth": lambda T: T.einsum("ij,ij->ij", T.tensor([[True, True]]), T.tensor([[True, False]])), "half": lambda T: T.einsum("ij->i", T.tensor([[200.0, 2.0]], dtype=T.float16)),
    "sums of truth": lambda T: T.einsum("ij,kl->ik", T.tensor([[True, True]]), T.tensor([[True], [True]])),
    "all of no axis": lambda T: T.tensor([[True, False], [True, True]]).all(dim=()), "any of no axis": lambda T: T.any(T.tensor([[2.0, 0.0]]), dim=[]),
    "all keepdim": lambda T: T.tensor([[True, False]]).all(dim=(), keepdim=True), "sum of no axis": lambda T: T.tensor([[1, 2]]).sum(dim=()),
    **{
        f"{name} {dtype} {index_dtype}": lambda T, name=name, dtype=dtype, index_dtype=index_dtype: getattr(T, name)(T.ones(3, dtype=getattr(T, dtype)), T.tensor([0, 1, 3], dtype=getattr(T, index_dtype)))
        for name in ("trapezoid", "cumulative_trapezoid")
        for dtype, index_dtype in (("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "float64"), ("float64", "float32"), ("bfloat16", "bfloat16"))
    },
    **{
        f"gradient {dtype} {index_dtype}": lambda T, dtype=dtype, index_dtype=index_dtype: T.gradient(
            T.tensor([1, 2, 4], dtype=getattr(T, dtype)), spacing=(T.tensor([0, 1, 3], dtype=getattr(T, index_dtype)),)
        )[0]
        for dtype, index_dtype in (("bfloat16", "float32"), ("float16", "bfloat16"), ("float32", "float64"), ("bfloat16", "bfloat16"))
    },
    "kl_div": lambda T: F_of(T).kl_div(T.ones(1, dtype=T.bfloat16), T.ones(1)), "kl_div of half": lambda T: F_of(T).kl_div(T.ones(1, dtype=T.bfloat16), T.ones(1, dtype=T.bfloat16)),
    **{
        f"{name} {dtypes}": lambda T, name=name, dtypes=dtypes: getattr(T, name)(*(T.tensor([2, 1], dtype=getattr(T, dtype)) for dtype in dtypes.split()))
        for name in ("addcmul", "addcdiv")
        for dtypes in ("int64 float64 int64", "float64 float32 float32", "float32 float64 float16", "int32 float32 int64", "float32 float32 bool")
    },
    "repeats only": lambda T: T.repeat_interleave(T.tensor([1, 0, 2])), "no repeats": lambda T: T.repeat_interleave(T.tensor([], dtype=T.int64)),
    "H": lambda T: T.tensor([[1.0, 2.0]]).H, "mH": lambda T: T.arange(6.0).reshape(1, 2, 3).mH, "adjoint": lambda T: T.arange(6.0).reshape(1, 2, 3).adjoint(),
    "broadcast by sizes": lambda T: T.ones(3).broadcast_to(2, 3), "variance along an axis": lambda T: T.var_mean(T.tensor([[1.0, 3.0]]), axis=1)[0],
    "padded": lambda T: T.nn.utils.rnn.pad_sequence([T.tensor([1, 2]), T.tensor([3])], True, -1),
    "padded in the dtype of the first": lambda T: T.nn.utils.rnn.pad_sequence([T.tensor([1, 2]), T.tensor([3.5])], padding_side="left"),
    "addcmul of a float and integers": lambda T: T.addcmul(T.ones(2), T.tensor([1, 2]), T.tensor([3, 4])),
    "addcmul of integers": lambda T: T.addcmul(T.tensor([1, 2], dtype=T.int32), T.tensor([1, 2]), T.tensor([3, 4], dtype=T.int8)),
    **{
        f"diff {dtypes}": lambda T, dtypes=dtypes: T.diff(*(T.tensor([1, 3], dtype=getattr(T, dtype)) for dtype in dtypes.split()[:1]), 1, -1, *(T.tensor([2], dtype=getattr(T, dtype)) for dtype in dtypes.split()[1:]))
        for dtypes in ("float32 int64", "int64 float32", "float32 float64", "float32 int64 float64", "int32 float16 bfloat16", "bool int64")
    },
    "logits": lambda T: F_of(T).binary_cross_entropy_with_logits(T.ones(1, dtype=T.bfloat16), T.zeros(1)),
}  # fmt: skip


def F_of(T):
    return T.nn.functional


@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_of_sums_and_of_what_meets(name):
    actual, expected = DTYPES[name](ternion), DTYPES[name](torch_of())
    assert dtype_name(actual.dtype) == dtype_name(expected.dtype)
    # bfloat16 has about 3 decimal digits, float32 about 7.
    assert actual.shape == expected.shape and actual.double().reshape(-1).tolist() == pytest.approx(expected.double().reshape(-1).tolist(), rel=1e-2 if "logits" in name else 1e-6)


def test_products_of_matrices_of_bools_are_rejected():
    for T in (torch_of(), ternion):
        with pytest.raises((RuntimeError, TypeError)):
            T.einsum("ij,jk->ik", T.ones(2, 2).bool(), T.ones(2, 2).bool())


def representable(T, numbers, dtype):
    return T.tensor(numbers, dtype=getattr(T, dtype))


@pytest.mark.parametrize("dtype, limit", [("float64", 1e-12), ("float32", 1e-6), ("bfloat16", 1e-2)])
def test_deviations_near_the_largest_number(dtype, limit):
    largest = ternion.finfo(getattr(ternion, dtype)).max
    for shares in ([0.9, 0.85, 0.95], [0.9, -0.8, -0.8], [0.9, 0.9, 0.9], [0.5, -0.25, 0.0, 1.0]):
        x = representable(ternion, [share * largest for share in shares], dtype)
        scaled = [number / largest for number in x.double().tolist()]
        center = sum(scaled) / len(scaled)
        spread = math.sqrt(sum((number - center) ** 2 for number in scaled) / (len(scaled) - 1))
        std, mean = ternion.std_mean(x)
        assert std.dtype == x.dtype and ternion.var_mean(x)[1].item() == mean.item()
        assert mean.item() / largest == pytest.approx(center, rel=limit)
        for result in (std, x.std(), x.std(0, keepdim=True)):
            assert result.item() / largest == pytest.approx(spread, rel=limit, abs=limit)


def test_gradients_of_large_deviations():
    x = ternion.tensor([3e38, 2e38, 1e38], requires_grad=True)
    x.std().backward()
    assert x.grad.tolist() == pytest.approx([0.5, 0.0, -0.5], abs=1e-6)
    x = ternion.tensor([3e38, 2e38, 1e38], requires_grad=True)
    ternion.std_mean(x)[1].backward()
    assert x.grad.tolist() == pytest.approx([1 / 3] * 3)


@pytest.mark.parametrize("name", ["fmax", "fmin", "maximum", "minimum", "max", "min"])
def test_nan_in_pairs(name):
    a, b = [math.nan, math.nan, 1.0, math.nan, 2.0], [math.nan, 1.0, math.nan, -math.inf, 3.0]
    torch = torch_of()
    close(getattr(ternion, name)(ternion.tensor(a), ternion.tensor(b)), getattr(torch, name)(torch.tensor(a), torch.tensor(b)))


@pytest.mark.parametrize("index", range(5))
@pytest.mark.parametrize("name", ["amax", "amin", "argmax", "argmin", "aminmax", "max", "min", "cummax", "cummin", "sort"])
def test_nan_anywhere(name, index):
    torch, values = torch_of(), [2.0, 3.0, 1.0, 5.0, 4.0]
    values[index] = math.nan
    options = {} if name in ("aminmax", "argmax", "argmin") else dict(dim=0)
    actual, expected = getattr(ternion.tensor(values), name)(**options), getattr(torch.tensor(values), name)(**options)
    for one, other in zip(*((part,) if hasattr(part, "shape") else part for part in (actual, expected))):
        close(one, other)


REJECTED = {
    "unbiased and correction": lambda T: T.tensor([1.0, 2.0]).var(unbiased=True, correction=1), "of std": lambda T: T.tensor([1.0, 2.0]).std(0, unbiased=False, correction=0),
    "unbiased by position": lambda T: T.var(T.tensor([1.0, 2.0]), True, correction=1), "of var_mean": lambda T: T.var_mean(T.tensor([1.0, 2.0]), 0, unbiased=True, correction=1),
    "eps of cosines": lambda T: T.cosine_similarity(T.ones(2), T.ones(2), dim=0, eps=-1.0), "its layer": lambda T: T.nn.CosineSimilarity(eps=-1.0)(T.ones(1, 2), T.ones(1, 2)),
    "eps of a batch norm": lambda T: F_of(T).batch_norm(T.ones(2, 2), None, None, training=True, eps=0.0),
    "alpha": lambda T: T.add(T.tensor([1]), T.tensor([1]), alpha=0.5), "alpha of sub": lambda T: T.tensor([1]).sub(1, alpha=2.0),
    "alpha of rsub": lambda T: T.rsub(T.tensor([1]), T.tensor([1]), alpha=0.5), "truth as alpha": lambda T: T.add(T.tensor([1.0]), T.tensor([1.0]), alpha=True),
    "truth as start": lambda T: T.ones(2).narrow(0, True, 1), "truth as length": lambda T: T.ones(2).narrow(0, 0, True), "truth as index": lambda T: T.ones(2).select(0, True),
    "truth as size": lambda T: T.zeros(True), "truth in a shape": lambda T: T.ones(1, 2).reshape((True, 2)), "truth as k": lambda T: T.ones(2).topk(True),
    "truth as axis": lambda T: T.ones(2, 2).cumsum(True), "truth as axes": lambda T: T.ones(2, 2).transpose(False, True), "truth as diagonal": lambda T: T.ones(2, 2).triu(True),
    "truth as count": lambda T: T.eye(True), "truth as classes": lambda T: F_of(T).one_hot(T.tensor([0]), True), "truth in full": lambda T: T.full((True,), 1),
    "timeout": lambda T: next(iter(T.utils.data.DataLoader([1, 2], timeout=1))), "persistent": lambda T: T.utils.data.DataLoader([1, 2], persistent_workers=True),
    "axes of a ranking": lambda T: F_of(T).margin_ranking_loss(T.ones(4, 1), T.ones(4), T.ones(4)), "of its target": lambda T: F_of(T).margin_ranking_loss(T.ones(4), T.ones(4), T.ones(())),
    "axes of vectors": lambda T: F_of(T).cosine_embedding_loss(T.ones(4, 2), T.ones(2), T.ones(4)), "of their targets": lambda T: F_of(T).cosine_embedding_loss(T.ones(4, 2), T.ones(4, 2), T.ones(4, 1)),
    "integers divided": lambda T: T.addcdiv(T.ones(1), T.tensor([2]), T.tensor([1])), "bool divided": lambda T: T.addcdiv(T.ones(1), T.tensor([2]), T.tensor([True])),
    "a number to subtract from": lambda T: T.rsub(3, T.ones(1)), "x and dx": lambda T: T.trapezoid(T.ones(3), x=T.ones(3), dx=2.0),
    "cumulative x and dx": lambda T: T.cumulative_trapezoid(T.ones(3), x=T.ones(3), dx=2.0),
    **{f"groups of one value {shape}": lambda T, shape=shape, groups=groups: F_of(T).group_norm(T.ones(shape), groups) for shape, groups in (((1, 2), 2), ((1, 4), 4), ((1, 2, 1), 2))},
    **{
        f"variances {shape} of {of}": lambda T, shape=shape, of=of: F_of(T).gaussian_nll_loss(T.ones(of), T.ones(of), T.ones(shape))
        for shape, of in (((), (2, 3)), ((3,), (2, 3)), ((1, 1), (2, 3)), ((2, 2), (2, 3)))
    },
    "a shift": lambda T: T.arange(3).roll(2**70), "a variance": lambda T: F_of(T).gaussian_nll_loss(T.ones(2), T.ones(2), -T.ones(2)),
}  # fmt: skip


@pytest.mark.parametrize("name", REJECTED)
def test_rejected_as_by_pytorch(name):
    for T in (torch_of(), ternion):
        with pytest.raises((RuntimeError, TypeError, ValueError, AssertionError)):
            REJECTED[name](T)


def test_what_is_near_to_what_is_rejected():
    for shape, of in (((), (3,)), ((2,), (2, 3)), ((2, 1), (2, 3)), ((1, 3), (2, 3)), ((2, 3), (2, 3))):
        ours, theirs = (F_of(T).gaussian_nll_loss(T.ones(of), T.zeros(of), T.full(shape, 2.0)).item() for T in (ternion, torch_of()))
        assert ours == pytest.approx(theirs)
    assert F_of(ternion).group_norm(ternion.ones(2, 2), 2).tolist() == [[0.0, 0.0], [0.0, 0.0]]
    assert ternion.add(ternion.tensor([1]), ternion.tensor([1]), alpha=2).tolist() == [3]
    assert ternion.add(ternion.tensor([1]), 1.0, alpha=0.5).tolist() == [1.5]
    assert ternion.add(ternion.tensor([True]), ternion.tensor([True]), alpha=True).tolist() == [True]
    assert ternion.tensor([1.0, 2.0]).narrow(0, ternion.tensor(1), 1).tolist() == [2.0]
    assert ternion.arange(3).roll(2**62).tolist() == [2, 0, 1]
    assert F_of(ternion).margin_ranking_loss(ternion.ones(4), ternion.ones(4), ternion.ones(1)).item() == 0.0
    assert ternion.tensor([1, 2]).index_put_((ternion.tensor([0]),), ternion.tensor([5], dtype=ternion.int8)).tolist() == [5, 2]


@pytest.mark.parametrize(
    "call",
    [
        lambda: ternion.vander(ternion.ones(3), N=2**45), lambda: ternion.linalg.vander(ternion.ones(3), N=2**45), lambda: ternion.pdist(ternion.ones(2**20, 1)),
        lambda: ternion.cdist(ternion.ones(2**20, 1), ternion.ones(2**20, 1), compute_mode="donot_use_mm_for_euclid_dist"), lambda: ternion.linspace(0, 1, 2**45),
        lambda: ternion.arange(2**45), lambda: ternion.eye(1, 2**45), lambda: F_of(ternion).one_hot(ternion.tensor([2**45])), lambda: ternion.tril_indices(2**45, 2),
        lambda: ternion.kaiser_window(2**45), lambda: ternion.repeat_interleave(ternion.ones(1), ternion.tensor([2**45])), lambda: ternion.combinations(ternion.arange(10**6), 2),
    ],
)  # fmt: skip
def test_results_beyond_memory_are_rejected_before_they_grow(call):
    begin = time.monotonic()
    with pytest.raises((MemoryError, ValueError)):
        call()
    assert time.monotonic() - begin < 5


def test_a_target_that_does_not_fit_its_input():
    """The loss of such a target is infinite and its gradient is 0. The gradients of the other
    examples are unaffected."""
    logits = ternion.zeros(2, 2, 3, requires_grad=True)
    arguments = (ternion.tensor([[1, 1], [1, 2]]), ternion.tensor([2, 2]), ternion.tensor([2, 2]))
    losses = F_of(ternion).ctc_loss(logits.log_softmax(-1), *arguments, reduction="none")
    assert losses[0].item() == math.inf and losses[1].item() == pytest.approx(2 * math.log(3))
    losses.sum().backward()
    assert logits.grad[:, 0].tolist() == [[0.0] * 3] * 2
    torch = torch_of()
    theirs = torch.zeros(2, 2, 3, requires_grad=True)
    torch.nn.functional.ctc_loss(theirs.log_softmax(-1), *(torch.tensor(argument.tolist()) for argument in arguments), reduction="none").sum().backward()
    assert theirs.grad[:, 0].isnan().all()
    close(logits.grad[:, 1], theirs.grad[:, 1], 1e-6)


class TestNumbersBeyondEveryDtype:
    """Comparisons with integers that neither int64 nor uint64 can represent have a result. In
    PyTorch they are an error."""

    @pytest.mark.parametrize("dtype", "uint64 int64 int8 uint8 bool float32 float64 bfloat16".split())
    @pytest.mark.parametrize("number", [2**70, -(2**70), 2**64, -(2**63) - 1])
    def test_answers(self, dtype, number):
        x = ternion.tensor([0, 1], dtype=getattr(ternion, dtype))
        is_above = number > 0
        assert (x < number).tolist() == (x <= number).tolist() == [is_above] * 2 and (x > number).tolist() == (x >= number).tolist() == [not is_above] * 2
        assert (x == number).tolist() == [False] * 2 and (x != number).tolist() == [True] * 2
        assert x.lt(number).tolist() == ternion.lt(x, number).tolist() == [is_above] * 2 and (number > x).tolist() == [is_above] * 2

    def test_floats_that_hold_it(self):
        x = ternion.tensor([2.0**70, float("inf"), float("nan")], dtype=ternion.float64)
        assert (x == 2**70).tolist() == [True, False, False] and (x < 10**400).tolist() == [True, False, False] and (x > -(10**400)).tolist() == [True, True, False]

    def test_arithmetic_is_rejected(self):
        with pytest.raises(ValueError, match="does not fit"):
            ternion.tensor([1]) + 2**70
