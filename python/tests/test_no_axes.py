"""Where an axis is given, a tensor without axes is treated as a tensor of size 1, as in PyTorch."""

import numpy as np
import pytest
import ternion

torch = pytest.importorskip("torch")


def parts(result):
    return list(result) if isinstance(result, tuple) else [result]


ALONG = {
    name: (lambda name: lambda m, x, dim: getattr(x, name)(dim))(name)
    for name in (
        "sum mean prod any all amax amin argmax argmin max min softmax log_softmax logsumexp sort argsort "
        "cumsum cumprod logcumsumexp flip squeeze unsqueeze median nansum nanmean count_nonzero"
    ).split()
}
ALONG |= {
    "sum, kept": lambda m, x, dim: x.sum(dim, True),
    "max, kept": lambda m, x, dim: x.max(dim, True),
    "argmax, kept": lambda m, x, dim: x.argmax(dim, True),
    "sum of a list": lambda m, x, dim: x.sum([dim]),
    "std": lambda m, x, dim: x.std(dim, correction=0),
    "var": lambda m, x, dim: x.var(dim, correction=0),
    "norm": lambda m, x, dim: x.norm(2, dim),
    "norm of order 1": lambda m, x, dim: x.norm(1, dim),
    "topk": lambda m, x, dim: x.topk(1, dim),
    "kthvalue": lambda m, x, dim: x.kthvalue(1, dim),
    "median, kept": lambda m, x, dim: x.median(dim, True),
    "quantile": lambda m, x, dim: x.quantile(0.3, dim),
    "quantiles": lambda m, x, dim: x.quantile(m.tensor([0.2, 0.5]), dim, True),
    "aminmax": lambda m, x, dim: x.aminmax(dim=dim),
    "transpose": lambda m, x, dim: x.transpose(dim, 0),
    "swapaxes": lambda m, x, dim: x.swapaxes(0, dim),
    "movedim": lambda m, x, dim: x.movedim(dim, 0),
    "unfold": lambda m, x, dim: x.unfold(dim, 1, 1),
    "gather": lambda m, x, dim: x.gather(dim, m.tensor(0)),
    "gather of one": lambda m, x, dim: x.gather(dim, m.tensor([0])),
    "index_select": lambda m, x, dim: x.index_select(dim, m.tensor([0])),
    "scatter": lambda m, x, dim: x.scatter(dim, m.tensor(0), 5.0),
    "scatter_add": lambda m, x, dim: x.scatter_add(dim, m.tensor(0), x),
    "index_add": lambda m, x, dim: x.index_add(dim, m.tensor([0]), x),
    "scatter_": lambda m, x, dim: x.scatter_(dim, m.tensor(0), 5.0),
    "scatter_add_": lambda m, x, dim: x.scatter_add_(dim, m.tensor(0), x.clone()),
    "index_add_": lambda m, x, dim: x.index_add_(dim, m.tensor([0]), x.clone()),
    "index_copy": lambda m, x, dim: x.index_copy(dim, m.tensor([0]), x + 1),
    "index_fill": lambda m, x, dim: x.index_fill(dim, m.tensor([0]), 2.0),
    "softmax of nn": lambda m, x, dim: m.nn.functional.softmax(x, dim),
    "softmin of nn": lambda m, x, dim: m.nn.functional.softmin(x, dim),
    "normalize of nn": lambda m, x, dim: m.nn.functional.normalize(x, dim=dim),
}
each = pytest.mark.parametrize("along", ALONG.values(), ids=ALONG)


@each
@pytest.mark.parametrize("dim", [0, -1])
def test_the_only_axis(along, dim):
    got, expected = parts(along(ternion, ternion.tensor(3.0), dim)), parts(along(torch, torch.tensor(3.0), dim))
    assert len(got) == len(expected)
    for a, b in zip(got, expected):
        assert tuple(a.shape) == tuple(b.shape)
        assert str(a.dtype).split(".")[-1] == str(b.dtype).split(".")[-1]
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-6)


@each
@pytest.mark.parametrize("dim", [1, -2, 7])
def test_other_axes_are_out_of_range(along, dim):
    if along is ALONG["unsqueeze"]:
        dim = 7
    with pytest.raises(IndexError):
        along(ternion, ternion.tensor(3.0), dim)


@pytest.mark.parametrize("call", [
    lambda x: x.roll(1, 0), lambda x: x.unbind(0), lambda x: x.select(0, 0), lambda x: x.size(0), lambda x: x.stride(0),
    lambda x: x.repeat_interleave(2, 0), lambda x: x.unique(dim=0),
])  # fmt: skip
def test_what_needs_an_axis(call):
    for x in (ternion.tensor(3.0), torch.tensor(3.0)):
        with pytest.raises(IndexError):
            call(x)


@pytest.mark.parametrize("along", [lambda x: x.sum(0), lambda x: x.softmax(-1), lambda x: x.max(0).values, lambda x: x.sort(0).values, lambda x: x.flip(0)])
def test_gradient(along):
    grads = []
    for module in (ternion, torch):
        x = module.tensor(3.0, requires_grad=True)
        (along(x) * 2).backward()
        grads.append(x.grad.item())
    assert grads[0] == grads[1]
