"""Gradients, accumulated as in PyTorch, and rejected calls."""

import gc
import resource
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import ternion


def test_backward_gathers():
    x = ternion.tensor([1.0, 2.0], requires_grad=True)
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    first = x.grad
    (3 * x).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0] and x.grad is first
    x.grad = None
    assert x.grad is None


def test_weights_of_elements():
    x = ternion.ones(3, requires_grad=True)
    y = x * 2
    with pytest.raises(RuntimeError, match="only a single element has a gradient by itself"):
        y.backward()
    y.backward(ternion.tensor([1.0, 0.0, 3.0]))
    assert x.grad.tolist() == [2.0, 0.0, 6.0]
    with pytest.raises(ValueError, match="gradient has shape \\[2\\], expected \\[3\\]"):
        (x * 2).backward(ternion.ones(2))


def test_a_graph_is_walked_once_unless_it_is_kept():
    x = ternion.ones(2, requires_grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    with pytest.raises(RuntimeError, match="backward"):
        y.backward()


def test_gradients_of_gradients():
    x = ternion.tensor(2.0, requires_grad=True)
    (x**3).backward(create_graph=True)
    slope = x.grad
    x.grad = None
    slope.backward()
    assert x.grad.item() == 12.0


def test_scopes():
    x = ternion.ones(2, requires_grad=True)
    with ternion.no_grad():
        assert not (x * 2).requires_grad and not ternion.is_grad_enabled()
        with ternion.enable_grad():
            assert (x * 2).requires_grad
        x += 1
    assert (x * 2).requires_grad and x.tolist() == [2.0, 2.0]

    @ternion.no_grad()
    def quietly():
        return x * 2

    assert not quietly().requires_grad
    with pytest.raises(RuntimeError):
        with ternion.no_grad():
            raise RuntimeError
    assert ternion.is_grad_enabled()


def test_a_parameter_is_not_changed_behind_its_back():
    x = ternion.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="do it within no_grad"):
        x += 1
    with pytest.raises(RuntimeError, match="do it within no_grad"):
        x.zero_()
    with pytest.raises(RuntimeError, match="do it within no_grad"):
        x[0] = 3
    y = x * x
    saved = (y * y).sum()
    with ternion.no_grad():
        y += 1
    with pytest.raises(RuntimeError, match="was changed in place after it was saved"):
        saved.backward()


def test_in_place_ops_of_a_graph_are_recorded():
    x = ternion.ones(3, requires_grad=True)
    y = x * 2
    y += x
    y[0] = x[1] * 10
    y.sum().backward()
    assert x.grad.tolist() == [0.0, 13.0, 3.0]


def test_leaves_and_their_switches():
    x = ternion.ones(2)
    assert x.is_leaf and not x.requires_grad and x.grad_fn is None
    x.requires_grad_()
    y = x.exp()
    assert x.is_leaf and not y.is_leaf and y.grad_fn == "exp"
    with pytest.raises(RuntimeError, match="requires_grad of a computed tensor cannot be taken back"):
        y.requires_grad = False
    assert not y.detach().requires_grad
    x.requires_grad = False
    assert not (x * 2).requires_grad
    with pytest.raises(TypeError, match="expected a floating dtype"):
        ternion.tensor([1]).requires_grad_()


def test_hooks():
    x = ternion.ones(2, requires_grad=True)
    y = x * 3
    grads = []
    handle = y.register_hook(lambda grad: grads.append(grad.tolist()) or grad * 2)
    y.retain_grad()
    y.sum().backward(retain_graph=True)
    assert grads == [[1.0, 1.0]] and x.grad.tolist() == [6.0, 6.0]
    handle.remove()
    y.sum().backward(retain_graph=True)
    assert len(grads) == 1

    def fails(grad):
        raise KeyError("no")

    y.register_hook(fails)
    with pytest.raises(KeyError, match="no") as raised:
        y.sum().backward()
    assert raised.traceback[-1].name == "fails"


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit, MemoryError])
def test_what_a_hook_raises_arrives_as_it_is(kind):
    def fails(grad):
        raise kind

    y = ternion.ones(2, requires_grad=True) * 2
    y.register_hook(fails)
    with pytest.raises(kind):
        y.sum().backward()


def test_a_hook_that_returns_no_tensor_is_reported():
    y = ternion.ones(2, requires_grad=True) * 2
    y.register_hook(lambda grad: 3)
    with pytest.raises(TypeError, match="register_hook: the hook returned int, expected a tensor or None"):
        y.sum().backward()


def test_modules_are_let_go_though_hooks_of_their_parameters_refer_to_them():
    alive = []
    for _ in range(3):
        module = ternion.nn.Linear(3, 2)
        module.weight.register_hook(lambda grad, module=module: grad / module.in_features)
        module(ternion.ones(1, 3)).sum().backward()
        assert module.weight.grad.tolist() == [[pytest.approx(1 / 3)] * 3] * 2
        alive.append(weakref.ref(module))
        del module
    gc.collect()
    assert [module() for module in alive] == [None] * 3


def test_the_memory_of_a_parameter_is_given_back():
    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

    ternion.nn.Linear(2048, 2048)
    before = resident()
    for _ in range(20):
        ternion.nn.Linear(2048, 2048)
    # One of them has 16 MiB.
    assert resident() - before < 64 * 2**20


def test_tensors_have_attributes():
    parameter, x = ternion.nn.Parameter(ternion.ones(2)), ternion.ones(2)
    parameter.no_weight_decay, x.label = True, "x"
    assert (parameter.no_weight_decay, x.label) == (True, "x")
    with pytest.raises(AttributeError):
        x.other


def test_gradients_are_those_of_differences():
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(3, 4))

    def f(x):
        return ((x @ ternion.tensor(numbers.T)).softmax(-1).log().tanh() * x[:, :3].exp()).sum()

    x = ternion.tensor(numbers, requires_grad=True)
    f(x).backward()
    for at in np.ndindex(3, 4):
        step = np.zeros((3, 4))
        step[at] = 1e-6
        slope = (f(ternion.tensor(numbers + step)).item() - f(ternion.tensor(numbers - step)).item()) / 2e-6
        assert abs(slope - x.grad[at].item()) < 1e-7, at


def test_what_nobody_has_any_more_is_let_go():
    x = ternion.ones(2, requires_grad=True)
    gone = weakref.ref(x)
    (x * 2).sum().backward()
    del x
    gc.collect()
    assert gone() is None


def test_threads():
    x = ternion.randn(64, 64, requires_grad=True)
    result = []

    def work():
        for _ in range(20):
            y = (x @ x).relu().sum()
            with ternion.no_grad():
                result.append(y.item())

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(result) == 80 and len(set(result)) == 1


def test_each_gradient_has_memory_of_its_own():
    a, b = (ternion.ones(3, requires_grad=True) for _ in range(2))
    (a + b).square().sum().backward()
    a.grad.mul_(10)
    assert a.grad.tolist() == [40.0] * 3 and b.grad.tolist() == [4.0] * 3
    x, weights = ternion.ones(3, requires_grad=True), ternion.ones(3)
    (x * 1).backward(weights)
    x.grad.mul_(5)
    assert weights.tolist() == [1.0] * 3
    p = ternion.ones(2, 3, requires_grad=True)
    p.sum().backward()
    p.grad.zero_()
    assert p.grad.tolist() == [[0.0] * 3] * 2
    x, y = ternion.ones(2, requires_grad=True), ternion.ones(2, requires_grad=True)
    (x * y).sum().backward(create_graph=True)
    (x.grad * y.grad).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_clipping_and_unscaling_touch_each_gradient_once():
    a, b = (ternion.nn.Parameter(ternion.ones(3)) for _ in range(2))
    (a + b).square().sum().backward()
    ternion.nn.utils.clip_grad_norm_([a, b], 1.0, norm_type=1.0)
    assert np.allclose(a.grad.tolist(), 1 / 6, rtol=1e-5) and np.allclose(b.grad.tolist(), 1 / 6, rtol=1e-5)


def test_numpy_on_the_left_keeps_the_graph():
    x = ternion.ones(3, requires_grad=True)
    for factor in (np.sqrt(4.0), np.float32(2), np.int64(2), np.full(3, 2, np.float32)):
        x.grad = None
        y = factor * x
        assert isinstance(y, ternion.Tensor)
        y.sum().backward()
        assert x.grad.tolist() == [2.0] * 3


@pytest.mark.parametrize("make", [lambda: ternion.ones(3, requires_grad=True), lambda: ternion.ones(3, requires_grad=True) * 2, lambda: ternion.nn.Parameter(ternion.ones(3))])
def test_a_tensor_whose_hook_refers_to_it_is_let_go(make):
    x = make()
    x.register_hook(lambda grad: x)
    ref = weakref.ref(x)
    x = None
    gc.collect()
    assert ref() is None


def test_a_hook_is_called_though_nobody_has_its_tensor():
    x, grads = ternion.ones(3, requires_grad=True), []
    handle = x.register_hook(lambda grad: grads.append(grad.tolist()))
    y = (x * 3).sum()
    del x
    gc.collect()
    y.backward(retain_graph=True)
    handle.remove()
    y.backward()
    assert grads == [[3.0, 3.0, 3.0]]


@pytest.mark.parametrize("of", ["tensor", "parameter", "subclass", "leaf"])
def test_objects_are_dropped_while_the_collector_runs(of):
    """Runs in a separate process, because a failure would not be an exception."""
    program = f"""
import gc, ternion
class Own(ternion.nn.Parameter):
    pass
make = {{"tensor": lambda x: x + 1, "parameter": ternion.nn.Parameter, "subclass": Own, "leaf": lambda x: (x * 2).requires_grad_()}}["{of}"]
gc.set_threshold(1)
x = ternion.ones(2)
for step in range(3000):
    kept = [make(x) for _ in range(3)]
    if "{of}" != "tensor":
        kept[0].register_hook(lambda grad, kept=kept: kept[0])
        (kept[0] * kept[1]).sum().backward()
    kept.append([kept])
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
