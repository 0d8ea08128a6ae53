"""Functions that PyTorch programs commonly use, compared with PyTorch: values, dtypes, shapes, and
gradients if they exist."""

import inspect
import math
import pickle

import numpy as np
import pytest

import ternion

A = np.array([[1.5, -2.25, 0.5], [3.0, -0.75, 2.0]])
B = np.array([[2.0, 0.5, -1.0], [-1.5, 4.0, 0.25]])
SQUARE = np.arange(9.0).reshape(3, 3) / 4 - 1
POSITIVE = np.array([[0.2, 0.9, 0.5], [0.4, 0.1, 0.7]])
VECTOR = np.array([0.5, -1.5, 2.0, 3.5])
BATCH = np.arange(24.0).reshape(2, 3, 4) / 10 - 1

# Expressions with a gradient. m is the module; floating tensors are a, b: [2, 3], s: [3, 3], p: [2,
# 3] in 0 to 1, v: [4], t: [2, 3, 4].
SMOOTH = """
m.lerp(a, b, 0.3) | a.lerp(b, p) | m.addcdiv(a, b, p, value=0.5) | m.baddbmm(t[:, :, :3], t, t.transpose(1, 2)[:, :, :3], beta=0.5, alpha=2) | m.addmv(a[0], s, b[0])
m.fmod(a, 0.7) | m.frac(a) | m.exp2(a) | m.hypot(a, b) | m.logaddexp(a, b) | m.xlogy(a, p) | m.deg2rad(a) | m.rad2deg(a) | m.asinh(a) | m.acosh(p + 2)
m.atanh(p) | m.logit(p) | p.logit(eps=0.3) | m.nan_to_num(a) | m.clamp_min(a, 0.1) | a.clamp_max(0.1) | m.erfc(a) | m.sinc(a) | m.positive(a) | m.rsub(a, b)
m.inner(a, b) | m.inner(t, v) | m.tensordot(t, v, 1) | m.tensordot(t, t, ([0, 1], [0, 1])) | m.tensordot(a, b, dims=2) | m.float_power(p, 2)
m.hstack([a, b]) | m.hstack([v, v]) | m.vstack((a, v[:3])) | m.dstack([a, b]) | m.column_stack([v, v]) | m.row_stack([v, v]) | m.atleast_2d(v) | m.atleast_3d(a)
m.stack(m.meshgrid(v, v[:2], indexing="ij")) | m.stack(m.meshgrid(v, v[:2], indexing="xy")) | m.cartesian_prod(v, v[:2]) | m.block_diag(a, v, s)
m.diagonal(s) | m.diagonal(t, 1, 1, 2) | t.diagonal(-1, 2, 0) | m.diag(s, 1) | m.diag(v, -1) | m.diag_embed(a) | m.diag_embed(t, 1, 0, 2) | m.diagflat(a) | m.trace(s)
m.movedim(t, 0, 2) | m.moveaxis(t, (0, 1), (-1, 0)) | m.swapaxes(t, 0, 1) | t.swapdims(0, 2) | m.ravel(t) | a.view_as(b) | t.reshape_as(t) | m.tile(a, (2, 2)) | a.tile(3)
m.repeat_interleave(a, 2) | a.repeat_interleave(3, dim=1) | a.repeat_interleave(m.tensor([2, 0, 1]), dim=1) | m.fliplr(a) | m.flipud(a) | m.broadcast_to(v, (2, 4))
m.cat(m.tensor_split(v, 3)) | m.tensor_split(t, (1, 2), dim=1)[1] | m.cat(v.split_with_sizes([1, 3])) | m.broadcast_tensors(a, a[:1])[1]
m.nansum(a, 1) | m.nanmean(a) | m.var_mean(a, 1)[0] | m.std_mean(a, dim=0, correction=0)[1] | m.dist(a, b) | m.dist(a, b, 1)
m.median(a) | m.median(a, 1).values | a.median(dim=0, keepdim=True)[0] | m.quantile(a, 0.3) | m.quantile(a, m.tensor([0.1, 0.6], dtype=m.float64), dim=1) | a.quantile(0.5, dim=0, keepdim=True)
m.quantile(v, 0.4, interpolation="lower") | m.quantile(v, 0.4, interpolation="nearest") | m.cumprod(a, 1) | v.cumprod(0) | m.diff(v) | m.diff(t, dim=1) | m.kthvalue(a, 2).values
m.cov(a) | m.corrcoef(SQ) | m.take_along_dim(a, m.tensor([[0], [2]]), 1) | m.take(a, m.tensor([[0, 5], [-1, 2]])) | m.index_copy(a, 1, m.tensor([2, 0]), b[:, :2]) | a.index_fill(1, m.tensor([0]), 7.0)
a.scatter(1, m.tensor([[0], [2]]), value=1.5) | a.scatter(1, m.tensor([[0], [2]]), 1.5) | a.index_put((m.tensor([0, 1]), m.tensor([2, 0])), v[:2]) | a.index_put((m.tensor([0, 0]),), b, accumulate=True) | m.scatter_reduce(a, 1, m.tensor([[0, 0, 2], [1, 1, 1]]), b, "sum")
a.scatter_reduce(1, m.tensor([[0, 0, 2], [1, 1, 1]]), b, "mean", include_self=False) | m.scatter_reduce(a, 1, m.tensor([[0, 0, 2], [1, 1, 1]]), b, "mean")
a.sum(axis=1, keepdims=True) | a.mean(axis=(0, 1)) | a.max(axis=1).values | a.max(axis=1, keepdims=True)[0] | a.std(axis=0) | a.var(1, False) | a.var(False)
m.cat([a, b], axis=1) | m.stack([a, b], axis=2) | a.softmax(axis=0) | m.softmax(a, 1) | a.cumsum(axis=1) | a.squeeze(axis=0) | a.unsqueeze(axis=1) | a.sort(axis=0).values | m.logsumexp(a, axis=1)
m.addr(a, a[:, 0], b[0], beta=0.5) | m.addbmm(s[:2], t[:, :2, :3], t.transpose(1, 2)[:, :3]) | m.cdist(a, b) | m.cdist(a, b, p=1.0) | m.cross(a, b, dim=1) | m.kron(a, b) | m.kron(v, a)
m.matrix_power(s, 5) | s.matrix_power(0) * s | m.vdot(v, v) | m.select_scatter(a, v[:2], 1, -1) | m.slice_scatter(a, b[:, :2], 1, 1) | m.logaddexp2(a, b) | m.fmax(a, b) | m.fmin(a, b)
m.logcumsumexp(a, 1) | m.msort(a) | m.trapezoid(a, dim=0) | m.trapz(a, v[:3]) | m.trapezoid(a, dx=0.5) | m.rot90(a) | m.rot90(t, 3, (1, 2)) | m.rot90(a, 2) | t.sum_to_size(3, 1) | t.sum_to_size((4,))
m.combinations(v) | m.combinations(v[:3], 3, True) | m.cat(m.hsplit(a, 3), 0) | m.vsplit(a, [1])[1] | m.dsplit(t, 2)[1] | m.prelu(a, p[0, :1]) | m.prelu(t, p[1])
a.amax(axis=1) | a.prod(axis=0) | m.copysign(a, b) | m.copysign(a, -1.0) | m.round(a * 0, decimals=2) | a.detach().clone(memory_format=m.preserve_format) * b | m.div(a, b)
m.conv1d(t, b[:, :, None], stride=2) | m.conv2d(t[None], s.repeat(2, 2, 1, 1), padding=1) | m.conv_transpose1d(t, b.T[:, :, None]) | m.layer_norm(t, (4,), v)
m.conv_transpose2d(t[None], s.repeat(2, 3, 1, 1)[:, :, :, :2]) | m.cosine_similarity(a, b, dim=0) | m.pairwise_distance(a, b) | m.bilinear(a, b, t[:, :, :3].reshape(2, 3, 3)) | m.group_norm(t, 3)
m.adaptive_avg_pool1d(t, 2) | m.avg_pool1d(t, 2) | m.max_pool1d(t, 2) | m.max_pool2d(t, 2) | m.celu(a, 0.5) | m.selu(a) | m.rrelu(a) | m.hardshrink(a) | m.threshold(a, 0.1, 2.0) | m.rms_norm(t, (4,)) | m.dropout(a, 0.5, False)
m.pixel_shuffle(t.reshape(1, 4, 2, 3), 2) | m.pixel_unshuffle(t.reshape(1, 1, 4, 6), 2) | m.index_add(a, 1, m.tensor([2, 0]), b[:, :2], alpha=2) | a.index_add(0, m.tensor([1, 1]), b) | (a * 1).index_add_(1, m.tensor([0]), b[:, :1], alpha=-0.5)
a.contiguous(memory_format=m.contiguous_format) * 1 | a.to(m.float64, non_blocking=True) * 1 | a.to("cpu", m.float64, True, True) * 1
""".replace("\n", " | ")

# Expressions without a gradient, or about other dtypes. i: int64 [2, 3], f: float32, k: bool.
EXACT = """
m.isposinf(f / 0) | m.isneginf(f / 0) | m.heaviside(f, f[0]) | m.round(f * 1.2345, decimals=2) | m.round(f * 123, decimals=-1) | i.float_power(2) | m.aminmax(f, dim=1)[0] | m.aminmax(f).max | m.count_nonzero(i, 1) | i.cumprod(1)
m.cumprod(i, 0, dtype=m.float32) | m.median(i) | m.median(i, 1).indices | m.median(f.masked_fill(k, math.nan)) | m.median(f.masked_fill(k, math.nan), 1).values | m.kthvalue(i, 3, 1).indices
m.unique(i) | m.unique(i, return_inverse=True)[1] | i.unique(return_inverse=True, return_counts=True)[2] | m.unique(k) | m.unique_consecutive(m.tensor([1, 1, 2, 2, 1]), return_counts=True)[1]
m.unique(f[:0]) | m.unique(i, return_inverse=True, return_counts=True, dim=0)[1] | m.unique(i, return_counts=True, dim=1)[1] | m.unique(i % 2, dim=1) | m.unique(i[:1].repeat(3, 1), return_counts=True, dim=0)[1] | m.argwhere(i) | m.isin(i, m.tensor([1, 4])) | m.isin(i, 3, invert=True) | m.where(k)[1] | m.where(k, i, 0) | (i << 2) | (i - 3 >> 1) | (i.to(m.int8) << m.tensor(7)) | (i.to(m.int8) - 3 >> 100) | m.searchsorted(m.tensor([1, 3, 5]), i) | m.bucketize(f, f[0].sort().values, right=True)
m.tril_indices(3, 4) | m.triu_indices(3, 3, 1) | m.logspace(0, 2, 5) | m.scalar_tensor(3) | m.full((2,), True) | m.eye(2, 3) | m.eye(3, 2, dtype=m.int64) | m.arange(3, dtype=m.float64)
f.new_zeros(2, 3) | i.new_ones((2,)) | f.new_full((2, 2), 7) | i.new_tensor([1, 2]) | f.new_zeros(f.shape) | i.new_empty(0) | m.tensor(i.shape) | m.nan_to_num(m.tensor([math.nan, math.inf, -math.inf, 1.0]))
m.LongTensor([1, 2]) | m.CharTensor([1, 2]) | m.ShortTensor([1, 2]) | i.type(m.CharTensor) | m.FloatTensor([[1, 2]]) | m.BoolTensor([True]) | m.Tensor([1, 2]) | m.Tensor([[1], [2]]) | i.type(m.float32) | i.byte() | m.promote_types(m.int32, m.uint8) | m.promote_types(m.bool, m.bool)
m.result_type(i, 2.5) | m.result_type(f, i) | m.result_type(2, 3.5) | m.can_cast(m.float32, m.int64) | m.can_cast(m.bool, m.float16) | i.numel() | m.numel(i) | i.nelement() | i.ndimension() | f.is_floating_point()
m.is_floating_point(i) | m.is_nonzero(i[0, 0]) | m.is_tensor(i) | i.is_signed() | k.is_signed() | f.get_device() | f.is_cuda | f.is_complex() | m.is_same_size(i, f) | i.shape.numel() | i.size().numel() | i.size(1)
i[0].tolist() | 3 in i | len(i) | [int(x) for x in i[0]] | k[0, 0].item() | m.equal(i, i) | i.to(m.float32).allclose(i * 1.0) | (k + k) | (k * k) | (k + True) | (k + 1) | k.logical_or(~k) | (k ^ k) | m.broadcast_shapes((2, 1), (3,))
m.iinfo(m.int32).max | m.iinfo(m.uint8).min | m.iinfo(m.int64).bits | m.finfo(m.float32).eps | m.finfo(m.float16).max | m.finfo(m.bfloat16).tiny | m.finfo(m.float64).min | m.finfo(m.float32).resolution | m.finfo().bits
f.sort(stable=True)[1] | f.argsort(dim=0, descending=True) | f.topk(2, sorted=True).indices | f.argmax(axis=1) | f.argmin(axis=0, keepdims=True) | k.any(axis=1) | k.all(axis=0) | m.diff(k) | m.tensor([[1, 2], [3, 4]]).trace()
(f // 0) | (-f // f[:, :1]) | m.div(f, 0.7, rounding_mode="floor") | m.randperm(5).sort().values | m.arange(4).roll(1) | m.tensor([np.float64(1), 2]) | m.tensor([np.int32(1)]) | m.tensor([np.ones(2), np.zeros(2)])
m.signbit(f * 0) | m.signbit(i) | m.isreal(f) | m.real(f) | m.unravel_index(i, (2, 3))[0] | (i << 2) | (i >> 1) | (i << m.tensor([1, 0, 2])) | m.fmax(f / 0, f * math.nan) | i.is_pinned()
i.greater(2) | i.less_equal(2) | m.not_equal(i, 3) | m.absolute(i) | m.multiply(i, 2) | m.true_divide(i, 2) | m.negative(i) | m.arctan2(f, f) | m.fix(f) | m.sgn(f)
""".replace("\n", " | ")


def cases(text):
    return [case.strip() for case in text.split(" | ") if case.strip()]


def values(result):
    """Converts a result to something that compares by value and type."""
    if isinstance(result, (list, tuple)) and type(result).__name__ != "Size":
        return [values(each) for each in result]
    if hasattr(result, "detach"):
        return np.asarray(result.detach().numpy())
    if type(result).__name__ == "Size":
        return list(result)
    return str(result).split(".")[-1] if type(result).__name__ == "dtype" else result


def close(actual, expected):
    if isinstance(expected, np.ndarray):
        assert actual.shape == expected.shape and actual.dtype == expected.dtype
        np.testing.assert_allclose(actual, expected, rtol=1e-6 if expected.dtype == np.float32 else 1e-12, atol=1e-12)
    elif isinstance(expected, list):
        assert len(actual) == len(expected)
        for one, other in zip(actual, expected):
            close(one, other)
    else:
        assert actual == pytest.approx(expected) if isinstance(expected, float) else actual == expected


NAMES = {"a": A, "b": B, "s": SQUARE, "p": POSITIVE, "v": VECTOR, "t": BATCH}


@pytest.mark.parametrize("case", cases(SMOOTH))
def test_values_and_gradients_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    results = []
    for module in (torch, ternion):
        leaves = {name: module.tensor(value, requires_grad=True) for name, value in NAMES.items()}
        actual = eval(case, {"m": module, "SQ": leaves["t"][0], "math": math, **leaves})
        (actual * actual.detach().cos()).sum().backward()
        grads = [leaf.grad for leaf in leaves.values()]
        results.append((values(actual), [None if grad is None else values(grad) for grad in grads]))
    (expected, expected_grads), (actual, grads) = results
    close(actual, expected)
    for one, other in zip(grads, expected_grads):
        # The gradient of an unused tensor is None or zeros.
        one, other = (np.zeros(1) if grad is None else grad for grad in (one, other))
        if one.any() or other.any():
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("case", cases(EXACT))
def test_values_are_those_of_pytorch(case):
    torch = pytest.importorskip("torch")
    results = []
    for module in (torch, ternion):
        i = module.tensor([[3, 0, 4], [1, 3, 3]])
        names = {"i": i, "f": module.tensor([[1.5, -2.25, 0.5], [3.0, -0.75, 2.0]]), "k": i > 2}
        results.append(values(eval(case, {"m": module, "np": np, "math": math, **names})))
    close(results[1], results[0])


IN_PLACE = """
lerp_(b, 0.5) | addcmul_(b, b, value=2) | addcdiv_(b, b + 9) | clamp_min_(0.5) | clip_(-1, 1) | fmod_(2) | tril_() | cumsum_(1) | nan_to_num_() | index_fill_(1, m.tensor([0]), 3.0) | multiply_(2)
index_put_((m.tensor([0]),), b[0]) | index_put_((m.tensor([0, 0]),), b, accumulate=True) | fill_diagonal_(5) | masked_scatter_(a > 0, b) | sub_(b, alpha=2) | div_(2, rounding_mode="floor") | tan_()
""".replace("\n", " | ")


@pytest.mark.parametrize("case", cases(IN_PLACE))
def test_forms_in_place(case):
    torch = pytest.importorskip("torch")
    results = []
    for module in (torch, ternion):
        a, b = module.tensor(A), module.tensor(B)
        view = a[0]
        assert eval(f"a.{case}", {"m": module, "a": a, "b": b}) is a
        results.append((values(a), values(view)))
    close(list(results[1]), list(results[0]))


def test_integers_are_not_truncated_in_place():
    x = ternion.tensor([1, 2])
    for change in (x.tan_, lambda: x.lerp_(x, 0.5), x.exp2_):
        with pytest.raises(RuntimeError, match="result type float(32|64) can't be cast to the desired output type int64"):
            change()
    assert x.tolist() == [1, 2]


class TestSize:
    def test_it_is_a_tuple_that_counts(self):
        shape = ternion.ones(2, 3, 4).shape
        assert isinstance(shape, tuple) and shape == (2, 3, 4) and shape.numel() == 24
        assert repr(shape) == "ternion.Size([2, 3, 4])" and shape[1:].numel() == 12 and shape[-1] == 4
        assert (shape[:1] + (5,)).numel() == 10 and pickle.loads(pickle.dumps(shape)) == shape
        assert ternion.ones(shape).shape == shape and type(ternion.ones(2).size()) is ternion.Size
        assert ternion.Size([]).numel() == 1 and ternion.Tensor(ternion.Size([2, 1])).shape == (2, 1)


class TestDefaultDtype:
    def test_floats_and_layers_are_of_it(self):
        assert ternion.get_default_dtype() is ternion.float32
        ternion.set_default_dtype(ternion.float64)
        try:
            tensors = [ternion.tensor([1.5]), ternion.zeros(2), ternion.rand(2), ternion.tensor([1]) / 2, ternion.linspace(0, 1, 3), ternion.Tensor([1])]
            assert all(x.dtype is ternion.float64 for x in tensors) and ternion.tensor([1]).dtype is ternion.int64
            assert repr(tensors[0]) == "tensor([1.5])" and "dtype=ternion.float32" in repr(tensors[0].float())
            assert ternion.nn.Linear(2, 2).weight.dtype is ternion.float64
        finally:
            ternion.set_default_dtype(ternion.float32)
        with pytest.raises(TypeError, match="set_default_dtype: int64, expected a floating dtype"):
            ternion.set_default_dtype(ternion.int64)


class TestRandom:
    def draws(self, generator):
        p = ternion.tensor([0.1, 0.0, 0.6, 0.3])
        return [
            ternion.rand(3, generator=generator), ternion.randn(2, 2, generator=generator), ternion.randint(0, 9, (4,), generator=generator),
            ternion.randperm(6, generator=generator), ternion.multinomial(p, 3, generator=generator), p.bernoulli(generator=generator),
            ternion.normal(0.0, 1.0, (3,), generator=generator), ternion.zeros(3).uniform_(generator=generator), ternion.zeros(3).normal_(generator=generator),
            ternion.zeros(3).exponential_(generator=generator), ternion.zeros(3).random_(0, 5, generator=generator), ternion.zeros(3).bernoulli_(generator=generator),
        ]  # fmt: skip

    def test_generators_draw_their_own(self):
        generator = ternion.Generator().manual_seed(3)
        first = self.draws(generator)
        state = generator.get_state()
        before = ternion.get_rng_state()
        again = self.draws(ternion.Generator("cpu").manual_seed(3))
        assert ternion.get_rng_state() == before
        assert all(one.equal(other) for one, other in zip(first, again))
        went_on = ternion.rand(3, generator=generator)
        assert ternion.rand(3, generator=generator.set_state(state)).equal(went_on) and generator.initial_seed() == 3
        assert not ternion.rand(3, generator=ternion.Generator().manual_seed(4)).equal(first[0])
        assert generator.seed() == generator.initial_seed() != 3 and generator.device == "cpu"

    def test_a_generator_draws_what_its_seed_draws(self):
        ternion.manual_seed(5)
        assert ternion.randn(7).equal(ternion.randn(7, generator=ternion.Generator().manual_seed(5)))

    def test_seeds(self):
        ternion.manual_seed(-1)
        first = ternion.rand(2)
        ternion.manual_seed(2**64 - 2)
        assert ternion.rand(2).equal(first)
        for seed in (2**64, -(2**63) - 1):
            with pytest.raises(ValueError, match="a seed of .*, expected -2\\*\\*63 to 2\\*\\*64 - 1"):
                ternion.manual_seed(seed)
        with pytest.raises(TypeError):
            ternion.manual_seed("one")

    def test_multinomial(self):
        p = ternion.tensor([[0.0, 2.0, 6.0], [5.0, 5.0, 0.0]])
        drawn = ternion.multinomial(p, 4000, replacement=True)
        assert drawn.shape == (2, 4000) and drawn.dtype is ternion.int64
        shares = [drawn[row].bincount(minlength=3).float() / 4000 for row in (0, 1)]
        np.testing.assert_allclose(shares[0].numpy(), [0, 0.25, 0.75], atol=0.03)
        np.testing.assert_allclose(shares[1].numpy(), [0.5, 0.5, 0], atol=0.03)
        assert all(sorted(row) in ([1, 2], [0, 1]) for row in p.multinomial(2).tolist())
        first = [ternion.multinomial(p[0], 1).item() for _ in range(400)]
        assert 0.65 < np.mean(np.array(first) == 2) < 0.85 and 0 not in first
        for wrong, samples, message in [
            (ternion.tensor([1.0, -1.0]), 1, "below 0"), (ternion.tensor([1.0, math.nan]), 1, "NaN"), (ternion.tensor([1.0, 0.0]), 2, "2 samples of 1 categories"),
            (ternion.zeros(3), 1, "1 samples of 0 categories"), (ternion.ones(3), 0, "0 samples"), (ternion.ones(2, 2, 2), 1, "one or two axes"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=message):
                ternion.multinomial(wrong, samples)
        with pytest.raises(TypeError, match="input is int64"):
            ternion.multinomial(ternion.tensor([1, 2]), 1)

    def test_draws_that_may_come_twice_take_little_memory(self):
        drawn = ternion.multinomial(ternion.tensor([0.0, 1.0, 0.0, 3.0, 0.0]).repeat(8000), 100000, replacement=True)
        assert set((drawn % 5).tolist()) == {1, 3} and abs((drawn % 5 == 3).float().mean().item() - 0.75) < 0.01

    def test_one_limit_is_the_upper_one(self):
        integers = ternion.zeros(2000, dtype=ternion.int64)
        for draw, low, high in [
            (lambda: integers.random_(10), 0, 10), (lambda: integers.random_(to=3), 0, 3), (lambda: integers.random_(5, 8), 5, 8), (lambda: integers.random_(5, to=8), 5, 8),
            (lambda: integers.random_(**{"from": -2, "to": 2}), -2, 2), (lambda: integers.float().random_(4), 0, 4),
        ]:  # fmt: skip
            assert sorted(set(draw().tolist())) == list(range(low, high))
        for wrong in ({"from": 1}, {"low": 1, "to": 3}, {"from": 1, "to": 2, "high": 3}):
            with pytest.raises(TypeError, match="random_: .*expected"):
                integers.random_(**wrong)

    def test_float64_has_53_random_bits(self):
        for drawn in (ternion.rand(4000, dtype=ternion.float64), ternion.zeros(4000, dtype=ternion.float64).uniform_(), ternion.rand_like(ternion.ones(4000, dtype=ternion.float64))):
            bits = drawn * 2**53
            assert bits.equal(bits.floor()) and 0 <= drawn.min() and drawn.max() < 1 and abs(drawn.mean().item() - 0.5) < 0.03
            for bit in range(53):
                share = (bits // 2**bit % 2).mean().item()
                assert 0.45 < share < 0.55, bit

    def test_normal(self):
        drawn = ternion.normal(ternion.full((2000,), 5.0), 0.5)
        assert abs(drawn.mean().item() - 5) < 0.05 and abs(drawn.std().item() - 0.5) < 0.05
        assert ternion.normal(0.0, ternion.ones(2, 3)).shape == (2, 3) and ternion.normal(0, 1, size=(4,)).shape == (4,)
        with pytest.raises(ValueError, match="normal: std below 0"):
            ternion.normal(0.0, -1.0, (2,))
        with pytest.raises(ValueError, match="expected a tensor as mean or std, or sizes"):
            ternion.normal(0.0, 1.0)

    def test_kinds_of_draws(self):
        assert ternion.randint(3, (50,)).max() < 3 and ternion.randint(high=3, size=(2,)).shape == (2,)
        assert ternion.randint_like(ternion.zeros(9), 2, 4).amin() >= 2 and ternion.rand_like(ternion.ones(2, dtype=ternion.float64)).dtype is ternion.float64
        assert ternion.zeros(9).exponential_(2.0).amin() >= 0 and ternion.zeros(500, dtype=ternion.uint8).random_().amax() > 127


class TestCuda:
    def test_questions_are_answered_without_a_device(self):
        is_available = ternion.cuda.is_available()
        assert ternion.cuda.device_count() == 0 or is_available
        ternion.cuda.manual_seed_all(1)
        ternion.cuda.empty_cache()
        assert ternion.cuda.memory_allocated() >= 0 and ternion.cuda.max_memory_allocated() >= 0 and ternion.cuda.memory_reserved() >= 0
        ternion.cuda.reset_peak_memory_stats()
        if not is_available:
            for demand in (ternion.cuda.synchronize, ternion.cuda.get_device_name, ternion.cuda.current_device):
                with pytest.raises(RuntimeError, match="device cuda"):
                    demand()
        with pytest.raises(ValueError, match="expected one of CUDA"):
            ternion.cuda.synchronize("cpu")


class TestWrong:
    @pytest.mark.parametrize(
        "case, error, message",
        [
            ("m.meshgrid(x, indexing='zz')", ValueError, 'indexing "zz"'),
            ("m.meshgrid(x.reshape(2, 3))", ValueError, "meshgrid: expected at most 1 axes"),
            ("m.hstack([x, 3])", TypeError, "hstack: expected tensors, got int"),
            ("m.diag(m.ones(2, 2, 2))", ValueError, "diag: expected 1 or 2 axes"),
            ("m.diagonal(x)", IndexError, "diagonal: axis 1 on shape"),
            ("m.diagonal(m.ones(2, 2), 0, 1, 1)", ValueError, "axes 1 and 1, expected two"),
            ("x.repeat_interleave(-1)", ValueError, "repeats of -1"),
            ("x.repeat_interleave(m.tensor([1, 2]))", ValueError, "repeats has shape"),
            ("x.quantile(1.5)", ValueError, "expected 0 to 1"),
            ("x.quantile(0.5, interpolation='cubic')", ValueError, "interpolation \"cubic\""),
            ("x.long().quantile(0.5)", TypeError, "expected a floating dtype"),
            ("m.zeros(0, 2).median(0)", ValueError, "expected elements"),
            ("x.kthvalue(7)", ValueError, "k of 7"),
            ("x.unique(dim=7)", IndexError, "unique: "),
            ("x.scatter_reduce(0, m.tensor([0]), x, 'median')", ValueError, 'expected "sum", "prod"'),
            ("m.finfo(m.int64)", TypeError, "expected a floating"),
            ("m.iinfo(m.float32)", TypeError, "expected an integer"),
            ("x.tensor_split(0)", ValueError, "0 parts"),
            ("m.ones(5).hsplit(2)", ValueError, "hsplit: 2 parts of one size"),
            ("m.ones(5).vsplit(1)", ValueError, "vsplit: expected at least 2 axes"),
            ("m.ones(2, 2).dsplit(1)", ValueError, "dsplit: expected at least 3 axes"),
            ("m.hstack([])", ValueError, "hstack: expected at least one tensor"),
            ("m.block_diag(m.ones(1, 1, 1))", ValueError, "block_diag: expected at most 2 axes"),
            ("m.unravel_index(m.ones(3), (3,))", TypeError, "expected an integer"),
            ("m.tensordot(x, x, 3)", ValueError, "3 axes"),
            ("m.broadcast_shapes((2,), (3,))", ValueError, "do not broadcast"),
            ("x.sum(dim=0, axis=0)", TypeError, "both dim and axis"),
            ("x.softmax()", TypeError, "softmax: expected dim"),
            ("x.movedim((0, 0), (0, 0))", ValueError, "each once"),
            ("x.scatter(0, m.tensor([0]))", TypeError, "expected either src or value"),
            ("x << 1", TypeError, "a shift of float32"),
            ("m.matrix_power(m.ones(2, 2), -1)", RuntimeError, "the matrix is singular"),
            ("x.cross(x)", ValueError, "expected an axis of size 3"),
            ("m.ones(2, 3).sum_to_size(4)", ValueError, "does not broadcast"),
            ("m.Tensor('a')", TypeError, "got str"),
            ("m.Tensor(2, -1)", ValueError, "Tensor: a size of -1"),
        ],
    )
    def test_what_is_wrong_is_reported(self, case, error, message):
        with pytest.raises(error, match=message):
            eval(case, {"m": ternion, "x": ternion.arange(6.0)})


class TestInput:
    """Functions that are also methods: the name of their first argument is `input`."""

    @pytest.mark.parametrize("name", sorted(ternion._METHODS))
    def test_signatures_name_it(self, name):
        function = getattr(ternion, name)
        first = next(iter(inspect.signature(function).parameters.values()))
        assert first.name == "input" and function.__name__ == name and function.__doc__
        with pytest.raises(TypeError, match=rf"{name}\(\) missing 1 required positional argument: 'input'|{name}\(\) missing 2 required"):
            function()
        with pytest.raises(TypeError, match=f"{name}: input is list, expected a tensor"):
            function([1.0], *(1.0 for parameter in list(inspect.signature(function).parameters.values())[1:2] if parameter.name == "other"))

    @pytest.mark.parametrize(
        "call",
        """m.sum(input=a, dim=0) | m.abs(input=a) | m.exp(input=a) | m.mean(input=a) | m.softmax(input=a, dim=1) | m.matmul(input=a, other=s) | m.clamp(input=a, min=0)
        m.gather(input=a, dim=1, index=m.tensor([[0], [2]])) | m.topk(input=a, k=2).values | m.add(input=a, other=b, alpha=2) | m.add(a, other=b) | m.reshape(input=a, shape=(3, 2))
        m.flatten(input=a) | m.std(input=a) | m.permute(input=a, dims=(1, 0)) | m.flip(input=a, dims=(0,)) | m.nn.functional.gelu(input=a.double()) | m.nn.functional.softmax(input=a, dim=1)
        m.nn.functional.logsigmoid(input=a) | m.pow(2, a) | m.pow(2, exponent=a) | m.pow(input=a, exponent=2) | a.pow(exponent=2) | m.remainder(5, b) | m.add(2, a) | m.sub(2, a) | m.mul(2.5, a)""".replace("\n", "|").split("|"),
    )
    def test_calls_are_those_of_pytorch(self, call):
        torch = pytest.importorskip("torch")
        results = []
        for m in (ternion, torch):
            names = {"m": m, "a": m.tensor(A.tolist()), "b": m.tensor(B.tolist()), "s": m.tensor(SQUARE.tolist())}
            results.append(np.asarray(eval(call.strip(), names)))
        np.testing.assert_allclose(results[0], results[1], rtol=1e-6)

    def test_functions_are_pickled_by_name(self):
        for function in (ternion.exp, ternion.nn.functional.softmax, ternion.nn.functional.logsigmoid):
            assert pickle.loads(pickle.dumps(function)) is function


def test_types_of_tensors_by_name():
    x = ternion.arange(4)
    for name in ("CharTensor", "ShortTensor", "ByteTensor", "BFloat16Tensor", "LongTensor"):
        assert x.type(f"ternion.{name}").type() == x.type(getattr(ternion, name)).type() == getattr(ternion, name)([1]).type() == f"ternion.{name}"
    with pytest.raises(ValueError, match="type: 'ternion.SmallTensor', expected a dtype or a name such as 'ternion.FloatTensor'"):
        x.type("ternion.SmallTensor")


def test_modules_offer_what_is_theirs():
    assert not hasattr(ternion, "annotations")
    for module in (ternion.nn.functional, ternion.data, ternion.utils.data):
        assert not {"Any", "Sequence", "annotations", "ones", "where", "ThreadPoolExecutor"} & set(dir(module))
    assert {"gelu", "linear", "cross_entropy", "relu", "interpolate", "one_hot"} <= set(dir(ternion.nn.functional))


# Expressions over the module m whose results differed from PyTorch in users' reports. Compared are
# values and dtypes, and gradients of `g(function, *values)`.
FOUND = """
g(lambda x: x.norm(3), [0.0, 0.0, 0.0]) | g(lambda x: x.norm(3, 1), [[0.0, 0.0], [1.0, 0.0]]) | g(lambda x: x.norm(0.5), [1.0, 0.0, 4.0]) | g(lambda x: x.norm(-1), [1.0, 2.0, 4.0])
g(lambda x: x.norm(-1), [1.0, 0.0, 4.0]) | g(lambda x: x.norm(float("-inf")), [3.0, -2.0]) | m.tensor([1.0, 0.0, 4.0]).norm(0) | g(lambda x: x.var(0, correction=3), [1.0, 2.0, 4.0])
g(lambda x: F.binary_cross_entropy(x, m.tensor([1.0, 0, 0, 1, 1])), [1.0, 0.0, 1.0, 0.0, 0.5]) | g(lambda x: F.binary_cross_entropy(x.sigmoid(), m.tensor([0.0, 0.0])), [120.0, -120.0])
F.binary_cross_entropy(m.tensor([0.3, 1.0]).half(), m.tensor([1.0, 1.0]).half()) | g(lambda x: F.cosine_similarity(x, m.ones(3), 0), [0.0, 0.0, 0.0])
g(lambda x, y: F.cosine_similarity(x, y, 0), [1.0, 2.0, 0.5], [1.0, -1.0, 3.0]) | F.cosine_similarity(m.ones(3, 1), m.ones(4)) | F.cosine_similarity(m.ones(2), m.ones(2, dtype=m.float64), 0).dtype
m.tensor([m.tensor(1 / 3, dtype=m.float64)]) | m.tensor([m.tensor(2**60 + 1)]) | m.tensor([m.tensor(True)]) | m.ones(2).half().copysign(-m.ones(2)) | m.ones(2).long().copysign(m.ones(2).half())
m.logaddexp2(m.ones(2), m.full((2,), 1 / 3, dtype=m.float64)) | m.logaddexp(m.ones(2), m.full((2,), 1 / 3, dtype=m.float64)) | m.xlogy(m.ones(2).bfloat16(), m.ones(2).half())
m.xlogy(m.ones(3, 1), m.full((4,), 2.0)) | m.atan2(m.ones(2).long(), m.ones(2).half()) | m.ones(2).sum(dtype=m.int32) | m.full((300,), 2.0).sum(dtype=m.uint8) | m.ones(3).cumsum(0, dtype=m.uint8)
F.mse_loss(m.ones(2, 3).half(), m.zeros(2, 3).half()) | F.l1_loss(m.ones(2).half(), m.zeros(2).half(), reduction="none") | F.smooth_l1_loss(m.ones(2).half(), m.zeros(2).half())
F.mse_loss(m.ones(2).half(), m.zeros(2)) | F.mse_loss(m.ones(2), m.zeros(2).double()) | F.mse_loss(m.ones(3, 1), m.zeros(4)) | F.cross_entropy(m.ones(2, 3).half(), m.tensor([1, 2])).dtype
m.tensordot(m.ones(3, 1), m.ones(4, 2), 1) | m.tensordot(m.ones(3, 4), m.ones(1, 2), 1) | F.softmax(m.arange(8.0).reshape(2, 2, 2)) | F.log_softmax(m.arange(4.0).reshape(2, 2))
m.tensor([1, 2]).clamp(max=1.5) | m.tensor([1, 2]).clamp(0.5, 5) | m.linspace(0, 5, 4, dtype=m.int64) | m.cat([m.ones(2, 2), m.zeros(0)]) | m.cat([m.zeros(0), m.ones(2, 2)], 1) | m.cat([m.zeros(0), m.zeros(0)])
m.tensor([7, -7, 6, -1]).div(m.tensor([2, 2, -4, 3]), rounding_mode="trunc") | m.div(m.tensor([7.0, -7.0]), 2, rounding_mode="trunc") | m.tensor([7.0, -7.0]).div_(2, rounding_mode="trunc")
m.div(m.tensor([7, -7]), 2.5, rounding_mode="trunc") | m.tensor([1, 0]).byte().add(m.tensor([True, False]), alpha=2) | m.tensor([False, True]).add(m.tensor([True, False]), alpha=2)
m.ones(2).add(m.tensor([True, False]), alpha=2) | m.ones(2, 2).trace() | F.softmin(m.ones(2, 2, 2))
""".replace("\n", " | ")


def gradients(module):
    def g(function, *arguments):
        leaves = [module.tensor(value, requires_grad=True) for value in arguments]
        result = function(*leaves)
        result.sum().backward()
        return [result, *(leaf.grad for leaf in leaves)]

    return g


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", cases(FOUND))
def test_what_was_otherwise_is_as_in_pytorch(case):
    torch = pytest.importorskip("torch")
    actual, expected = (eval(case, {"m": module, "F": module.nn.functional, "g": gradients(module)}) for module in (ternion, torch))
    if hasattr(expected, "dtype"):
        assert str(actual.dtype).split(".")[-1] == str(expected.dtype).split(".")[-1]
        actual, expected = ([x.double() if x.dtype.is_floating_point else x] for x in (actual, expected))
    close(values(actual), values(expected))


def test_losses_keep_their_dtype_within_autocast():
    x = ternion.ones(2, 3).half()
    with ternion.autocast("cpu", dtype=ternion.bfloat16):
        assert ternion.nn.functional.mse_loss(x, x).dtype is ternion.float32


@pytest.mark.parametrize(
    "case, error, message",
    [
        ("F.binary_cross_entropy(m.tensor([1.5]), m.ones(1))", ValueError, "input has numbers outside 0 to 1"),
        ("F.binary_cross_entropy(m.tensor([math.nan]), m.ones(1))", ValueError, "input has numbers outside 0 to 1"),
        ("F.binary_cross_entropy(m.ones(1), m.tensor([-1.0]))", ValueError, "target has numbers outside 0 to 1"),
        ("m.ones(2, 3, 4).t()", ValueError, "t: a tensor of 3 axes"),
        ("m.ones(()).cumprod(5)", IndexError, "cumprod: axis 5"),
        ("m.ones(5).trace()", ValueError, "expected 2 axes"),
        ("m.tensor([1.5]).bernoulli()", ValueError, "bernoulli: probabilities from 1.5"),
        ("m.tensor([math.nan]).bernoulli()", ValueError, "bernoulli: probabilities"),
        ("m.where(m.ones(2), m.ones(2), m.ones(2))", TypeError, "condition of float32, expected bool"),
        ("m.combinations(m.ones(2, 2))", ValueError, "expected one axis"),
        ("m.zeros(0, dtype=m.bool).min()", ValueError, "min: of shape"),
        ("setattr(m.zeros(2, dtype=m.float64, requires_grad=True), 'grad', m.ones(2))", TypeError, "grad: of float32, expected float64"),
        ("m.zeros(3).repeat_interleave(m.tensor([2**60] * 3))", MemoryError, "out of memory"),
        ("m.zeros(3).repeat_interleave(2**60)", MemoryError, "repeat_interleave: a result of more than"),
        ("m.combinations(m.arange(10**5), 3)", MemoryError, "combinations: a result of more than"),
        ("F.adaptive_max_pool2d(m.zeros(1, 1, 3, 3), 2**40)", MemoryError, "adaptive_max_pool2d: output_size"),
        ("m.zeros(2).tensor_split(2**40)", MemoryError, "tensor_split: "),
        ("m.tensordot(m.ones(3, 4), m.ones(5, 2), 1)", ValueError, "sizes differ"),
        ("m.ones(2).norm(math.nan)", ValueError, "norm: order nan"),
    ],
)
def test_what_pytorch_rejects_is_reported_at_once(case, error, message):
    with pytest.raises(error, match=message):
        eval(case, {"m": ternion, "F": ternion.nn.functional, "math": math})


def test_functions_of_python_take_tensors():
    x, of = ternion.tensor([7.26, -7.26]), ternion.tensor([2, 3])
    assert [part.tolist() for part in divmod(x, 2)] == [(x // 2).tolist(), (x % 2).tolist()]
    assert [part.tolist() for part in divmod(7, of)] == [[3, 2], [1, 1]] and [part.tolist() for part in divmod(of * 3, of)] == [[3, 3], [0, 0]]
    assert round(x).tolist() == [7.0, -7.0] and round(x, 1).tolist() == ternion.round(x, decimals=1).tolist()
