"""`autograd.grad` and related functions, grad-mode scopes, and in-place changes of tensors with
gradients and of their views. The results equal PyTorch's, or there is an error with an
explanation."""

import threading

import numpy as np
import pytest

import ternion
from ternion import autograd

# In-place programs over m (the module), x (a leaf [3, 4]), w (a leaf [4]) and y = x * x. Values and
# gradients equal PyTorch's.
IN_PLACE = """
v = y[0]; v += 1
v = y[0]; v *= w; z = y * 2
y.view(-1).add_(w[0])
y[0].zero_()
y[0] = 1
y[0] = w
v = y[1]; y[1] = w; z = v * 2
v = y[1]; y *= 2; z = v
v = y[0]; u = v[1:3]; u *= w[:2]; z = v + y
u = y.t()[1]; u.add_(2); z = y
v = y.reshape(2, 6)[:, ::2]; v.mul_(3); z = y.sum(0)
a, b = y[0], y[1]; a += b; b += a; z = y
v = y.view(-1); y[0, 0] = 7; v[1] = w[1]; y[2] = v[:4]; z = v
v = y.permute(1, 0); v[0] = w[0]; v *= 2; z = y[:, 1:] * v.t()[:, 1:]
v = y.unsqueeze(0).squeeze(0); v.copy_(w); z = y
y[0].copy_(w); z = y
y[1:].masked_fill_(y[1:] > 1, 0.5); z = y
y.relu_(); z = y
y.neg_(); z = y
y.clamp_(0.5, 2); z = y
y.fill_(3); z = y * x
y[0].clamp_(max=w); z = y
y.sub_(w, alpha=2).div_(w); z = y
y[:, 1].index_add_(0, m.tensor([0, 2]), w[:2]); z = y
y.scatter_(1, m.tensor([[0], [1], [2]]), x[:, :1]); z = y
y[[0, 2]] = w; z = y
y[y > 1] = 0.5; z = y
y.addmm_(x[:, :3], x, beta=0.5, alpha=2); z = y
y[0].lerp_(w, 0.3); y[1].addcmul_(w, w); y.tril_(); z = y
y.exp_(); z = y
with m.no_grad(): y[0] += 5
y += w; v = y[0]; y += w; v += w; y += w; z = v
v = y[2]; y = y * 2; v += w; z = y
y.zero_(); y += w; z = y
y[0] = y[1]; y[1] = y[2]; y[2] = y[0]; z = y
k = y.expand(2, 3, 4); y += w; z = k
"""


def outcome(module, program):
    x = module.tensor(np.linspace(0.2, 1.6, 12).reshape(3, 4), requires_grad=True)
    w = module.tensor([0.5, -1.0, 2.0, 1.5], dtype=module.float64, requires_grad=True)
    scope = {"m": module, "x": x, "w": w, "y": x * x}
    exec(program.replace("; ", "\n"), scope)
    result = scope.get("z", scope["y"])
    weights = module.linspace(1, 2, result.numel(), dtype=module.float64).reshape(result.shape)
    (result * weights).sum().backward()
    # The gradient of an unused leaf is None or zeros.
    grads = [np.zeros(1) if leaf.grad is None or not leaf.grad.numpy().any() else leaf.grad.numpy() for leaf in (x, w)]
    return [result.detach().numpy(), scope["y"].detach().numpy(), *grads]


@pytest.mark.parametrize("program", IN_PLACE.strip().splitlines())
def test_in_place_is_as_in_pytorch(program):
    torch = pytest.importorskip("torch")
    for actual, expected in zip(outcome(ternion, program), outcome(torch, program)):
        np.testing.assert_allclose(actual, expected, rtol=1e-12)


def test_views_of_other_threads_and_dead_objects():
    x = ternion.ones(4, 1000, requires_grad=True)
    y = x * 2
    rows = [y[at] for at in range(4)]

    def work(row):
        for _ in range(20):
            row += 1

    threads = [threading.Thread(target=work, args=(row,)) for row in rows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (y == 22).all() and all((row == 22).all() for row in rows)
    y.sum().backward()
    assert (x.grad == 2).all()
    h = (x * 2).view(-1)  # No other tensor uses the memory, so no scatter is needed.
    h += 1
    assert h.grad_fn == "add_scalar"


@pytest.mark.parametrize(
    "program, message",
    [
        ("v = x[0]; v += 1", "a view of one, is changed in place: do it within no_grad"),
        ("x.view(-1).zero_()", "is changed in place: do it within no_grad"),
        ("x[0] = 1", "is changed in place: do it within no_grad"),
        ("x.t()[1].copy_(w[:3])", "is changed in place: do it within no_grad"),
        ("y.expand(2, 3, 4).add_(1)", "whose elements share memory"),
        ("p = m.zeros(3, 4, dtype=m.float64); q = p[0]; q += w", "shares memory with others.*clone\\(\\) it first"),
        ("p = m.zeros(4, dtype=m.float64); d = p.detach(); q = p[:]; q.copy_(w)", "shares memory with others"),
        ("y[0] += x", "in place: a result of shape"),
        ("v = w * 1; v += x", "in place: a result of shape"),
    ],
)
def test_what_would_lose_a_gradient_is_reported(program, message):
    x = ternion.ones(3, 4, dtype=ternion.float64, requires_grad=True)
    scope = {"m": ternion, "x": x, "w": ternion.ones(4, dtype=ternion.float64, requires_grad=True), "y": x * x}
    with pytest.raises((RuntimeError, ValueError), match=message):
        exec(program.replace("; ", "\n"), scope)
    assert (x == 1).all()


def test_a_plain_tensor_joins_the_graph():
    w = ternion.ones(3, requires_grad=True)
    total = ternion.zeros(3)
    for _ in range(3):
        total += w
    rows = ternion.zeros(2, 3)
    rows[1] = w * 2
    rows[0] += w
    (total.sum() + rows.sum()).backward()
    assert w.grad.tolist() == [6.0] * 3


class TestGrad:
    def test_it_is_pytorchs(self):
        torch = pytest.importorskip("torch")
        results = []
        for module in (torch, ternion):
            x = module.tensor([1.0, 2.0, 3.0], dtype=module.float64, requires_grad=True)
            w = module.tensor(0.5, dtype=module.float64, requires_grad=True)
            h = (x * w).sin()
            first = module.autograd.grad(h.sum(), [x, w, h], retain_graph=True)
            weighted = module.autograd.grad([h, h * h], x, grad_outputs=[module.ones_like(h), h.detach()], retain_graph=True)
            (slope,) = module.autograd.grad(h.sum(), x, create_graph=True)
            second = module.autograd.grad(slope.square().sum(), (x, w), allow_unused=True)
            results.append([each.detach().numpy() for each in (*first, *weighted, slope, *second)])
            assert x.grad is None and w.grad is None
        for actual, expected in zip(results[1], results[0]):
            np.testing.assert_allclose(actual, expected, rtol=1e-12)

    def test_what_is_not_used(self):
        x, w = ternion.ones(2, requires_grad=True), ternion.ones(2, requires_grad=True)
        with pytest.raises(RuntimeError, match="do not depend on input 1.*allow_unused=True gives None"):
            autograd.grad((x * 2).sum(), (x, w))
        assert autograd.grad((x * 2).sum(), (x, w), allow_unused=True)[1] is None
        assert autograd.grad((x * 2).sum(), (x, w), materialize_grads=True)[1].tolist() == [0.0, 0.0]

    @pytest.mark.parametrize(
        "case, error, message",
        [
            ("grad(x * 2, x)", RuntimeError, "only a single element has a gradient by itself"),
            ("grad(n.sum(), x)", RuntimeError, "does not require grad"),
            ("grad((x * 2).sum(), n)", RuntimeError, "no gradient flows to input 0"),
            ("grad(x * 2, x, n[:1])", ValueError, r"a gradient of shape \[1\] for an output of shape \[2\]"),
            ("grad([x * 2, x * 3], x, n)", ValueError, "1 gradients for 2 outputs"),
            ("grad((x * 2).sum(), 3)", TypeError, "int"),
            ("grad((x * 2).sum(), [3])", TypeError, "expected tensors, got int"),
            ("grad((x * 2).sum(), x, is_grads_batched=True)", ValueError, "is_grads_batched"),
            ("backward([x * 2])", RuntimeError, "only a single element has a gradient by itself"),
            ("backward([x * 2], [n[:1]])", ValueError, "a gradient of shape"),
            ("backward((x * 2).sum(), inputs=[])", ValueError, "expected at least one tensor"),
            ("backward(n.sum())", RuntimeError, "nothing was recorded"),
        ],
    )
    def test_what_is_wrong_is_reported(self, case, error, message):
        x, n = ternion.ones(2, requires_grad=True), ternion.ones(2)
        with pytest.raises(error, match=message):
            eval(case, {"x": x, "n": n, "grad": autograd.grad, "backward": autograd.backward})

    def test_gradients_are_nobody_elses(self):
        x, weights = ternion.ones(2, requires_grad=True), ternion.ones(2)
        (result,) = autograd.grad(x * 1, x, weights)
        result.mul_(5)
        assert weights.tolist() == [1.0, 1.0]

    def test_backward_of_several(self):
        x, w = ternion.ones(2, requires_grad=True), ternion.nn.Parameter(ternion.ones(2))
        autograd.backward([(x * w).sum(), x * 3], [None, ternion.tensor([1.0, 2.0])])
        assert x.grad.tolist() == [4.0, 7.0] and w.grad.tolist() == [1.0, 1.0]
        (x * w).sum().backward(inputs=[w])
        assert x.grad.tolist() == [4.0, 7.0] and w.grad.tolist() == [2.0, 2.0]


class TestScopes:
    def test_all_of_them(self):
        x = ternion.ones(1, requires_grad=True)
        with ternion.inference_mode():
            assert not (x * 2).requires_grad
            with ternion.inference_mode(False):
                assert (x * 2).requires_grad
        for scope, recorded in [(ternion.no_grad, False), (ternion.no_grad(), False), (ternion.inference_mode(), False), (ternion.inference_mode, False), (ternion.enable_grad(), True),
                                (lambda f: ternion.set_grad_enabled(False)(f), False), (lambda f: ternion.set_grad_enabled(True)(f), True)]:  # fmt: skip

            @scope
            def double(x):
                """Twice."""
                return x * 2

            assert double(x).requires_grad is recorded and double.__doc__ == "Twice."
            assert ternion.is_grad_enabled()

    def test_set_grad_enabled_is_a_switch_and_a_scope(self):
        ternion.set_grad_enabled(False)
        assert not ternion.is_grad_enabled()
        ternion.set_grad_enabled(True)
        with ternion.set_grad_enabled(False):
            assert not ternion.is_grad_enabled()
            with ternion.enable_grad():
                assert ternion.is_grad_enabled()
        assert ternion.is_grad_enabled()

    def test_they_tell_what_they_are(self):
        reprs = [repr(scope) for scope in (ternion.no_grad(), ternion.enable_grad(), ternion.inference_mode(), ternion.autocast("cpu"))]
        assert reprs == ["ternion.no_grad()", "ternion.enable_grad()", "ternion.inference_mode(mode=True)", "ternion.autocast('cpu', dtype=bfloat16)"]


def test_detach_in_place():
    x = ternion.ones(2, requires_grad=True)
    y = (x * 2).detach_()
    assert not y.requires_grad and y.is_leaf
    y += 1
    assert y.tolist() == [3.0, 3.0]
