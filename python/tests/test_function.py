"""`autograd.Function`: functions with custom gradients, compared with PyTorch."""

import gc
import weakref

import pytest

import ternion

LIBRARIES = [ternion]
try:
    import torch

    LIBRARIES.append(torch)
except ImportError:
    torch = None

both = pytest.mark.parametrize("m", LIBRARIES, ids=lambda m: m.__name__)


def exponential(m):
    class Exp(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    return Exp.apply


def leaf(m, *values):
    return m.tensor(values, dtype=m.float64, requires_grad=True)


@both
def test_gradients_of_every_order(m):
    x = leaf(m, 0.5, -1.0)
    total = exponential(m)(x).sum()
    for _ in range(3):
        (result,) = m.autograd.grad(total, x, create_graph=True)
        assert result.tolist() == pytest.approx([1.6487212707, 0.3678794412])
        total = result.sum()


@both
def test_several_arguments_and_outputs(m):
    calls = []

    class Both(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y=None, how="sum"):
            ctx.how, ctx.factor = how, factor
            ctx.save_for_backward(x, None, y)
            integers = (x * 0).long()
            return x * factor, x * y, integers

        @staticmethod
        def backward(ctx, first, second, third):
            x, nothing, y = ctx.saved_tensors
            calls.append((ctx.how, nothing, ctx.needs_input_grad, second.tolist()))
            return first * ctx.factor + second * y, None, second * x, None

    x, y = leaf(m, 1.0, 2.0), leaf(m, 3.0, 4.0)
    first, second, integers = Both.apply(x, 5.0, y, "kept")
    assert not integers.requires_grad and first.requires_grad and second.requires_grad
    first.sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([5.0, 5.0], [0.0, 0.0])
    first, second, _ = Both.apply(x, 5.0, y, "kept")
    (first + second).sum().backward()
    assert (x.grad.tolist(), y.grad.tolist()) == ([13.0, 14.0], [1.0, 2.0])
    assert calls == [("kept", None, (True, False, True, False), [0.0, 0.0]), ("kept", None, (True, False, True, False), [1.0, 1.0])]


@both
def test_a_forward_without_ctx(m):
    class Cube(m.autograd.Function):
        @staticmethod
        def forward(x):
            return x * x * x

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, grad):
            return 3 * ctx.saved_tensors[0] ** 2 * grad

    x = leaf(m, 2.0)
    y = Cube.apply(x)
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [24.0]


@both
def test_straight_through_and_reversed_gradients_in_a_model(m):
    class Round(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.round()

        @staticmethod
        def backward(ctx, grad):
            return -grad

    layer = m.nn.Linear(3, 2)
    with m.no_grad():
        layer.weight.copy_(m.ones(2, 3))
    Round.apply(layer(m.ones(4, 3))).sum().backward()
    assert layer.weight.grad.tolist() == [[-4.0] * 3] * 2


@both
def test_nothing_is_recorded_where_nothing_flows(m):
    apply = exponential(m)
    assert not apply(m.ones(2)).requires_grad
    with m.no_grad():
        assert not apply(leaf(m, 1.0)).requires_grad
    assert apply(leaf(m, 1.0)).requires_grad


@both
def test_options_of_the_context(m):
    class Options(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.set_materialize_grads(False)
            constant = x + 1
            ctx.mark_non_differentiable(constant)
            return x * 2, constant, x * 3

        @staticmethod
        def backward(ctx, first, constant, last):
            assert last is None
            return first * 2

    x = leaf(m, 1.0)
    first, constant, _ = Options.apply(x)
    assert not constant.requires_grad
    first.backward()
    assert x.grad.tolist() == [2.0]


@both
def test_what_was_saved_and_then_changed_in_place_is_an_error(m):
    x = leaf(m, 1.0)
    y = exponential(m)(x * 1)
    total = (y * 2).sum()
    y.detach().add_(1)
    with pytest.raises(RuntimeError, match="in place|inplace|changed"):
        total.backward()


@both
def test_exceptions_of_backward_arrive_as_they_are(m):
    class Fails(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, grad):
            raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        Fails.apply(leaf(m, 1.0)).backward()


@both
def test_graphs_are_let_go(m):
    class Kept(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.token = Token()
            alive.append(weakref.ref(ctx.token))
            ctx.save_for_backward(x, y)
            return y

        @staticmethod
        def backward(ctx, grad):
            return grad

    class Token:
        pass

    alive = []
    x = leaf(m, 1.0)
    Kept.apply(x)
    Kept.apply(x).backward()
    gc.collect()
    assert [token() for token in alive] == [None, None]


def returning(value):
    class Returns(ternion.autograd.Function):
        @staticmethod
        def forward(ctx, x, number):
            return x * number

        @staticmethod
        def backward(ctx, grad):
            return value(grad)

    Returns.apply(leaf(ternion, 1.0, 2.0), 3.0).sum().backward()


@pytest.mark.parametrize(
    "value, kind, message",
    [
        (lambda grad: grad, RuntimeError, "Returns.backward returned 1 gradients, expected 2"),
        (lambda grad: (grad, grad), RuntimeError, "gradient for argument 1, which is not a tensor"),
        (lambda grad: (grad.reshape(2, 1) * grad[:1], None), ValueError, "of shape \\[2, 1\\] for argument 0, which has shape \\[2\\]"),
        (lambda grad: (1.0, None), TypeError, "Returns.backward returned float for argument 0"),
    ],
)
def test_gradients_that_do_not_fit_are_reported(value, kind, message):
    with pytest.raises(kind, match=message):
        returning(value)


def test_what_is_broadcast_is_summed():
    class Scale(ternion.autograd.Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.save_for_backward(x)
            return x * scale

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return None, (grad * x).float()

    scale = leaf(ternion, 2.0)
    Scale.apply(ternion.ones(3, dtype=ternion.float64), scale).sum().backward()
    assert scale.grad.tolist() == [3.0] and scale.grad.dtype == ternion.float64


def test_what_is_missing_is_reported():
    class Dirty(ternion.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)

    with pytest.raises(ValueError, match="mark_dirty"):
        Dirty.apply(leaf(ternion, 1.0))
    with pytest.raises(NotImplementedError, match="forward"):
        ternion.autograd.Function.apply(leaf(ternion, 1.0))
