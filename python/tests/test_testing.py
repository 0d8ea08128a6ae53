"""`ternion.testing`: what it accepts, what it detects, and its messages."""

import re

import numpy as np
import pytest

import ternion
from devices import other_device
from ternion import nn, testing


def double(*shape):
    return ternion.randn(*shape, dtype=ternion.float64, requires_grad=True)


# ---- gradcheck


def test_right_gradients_pass():
    assert testing.gradcheck(lambda a, b: (a @ b).tanh(), (double(3, 4), double(4, 2)))
    assert testing.gradcheck(lambda x: (x.exp(), {"sum": x.sum(0)}), double(2, 3))
    assert testing.gradcheck(lambda x, scale, power: x**power * scale, (double(3).exp().detach().requires_grad_(), 2.0, 3))
    assert testing.gradcheck(lambda x: x.sum(), double(0, 3))


def test_layouts_and_inputs_without_a_gradient():
    base = ternion.randn(4, 6, dtype=ternion.float64)
    view = base.t()[1::2].requires_grad_()
    fixed = ternion.randn(4, dtype=ternion.float32)
    before = view.tolist()
    assert not view.is_contiguous()
    assert testing.gradcheck(lambda x, y: (x * y.double()).sin(), (view, fixed))
    assert view.tolist() == before and view.grad is None


def wrong(x):
    """Its gradient is half of the correct one, for one element."""
    return ternion.cat([x[:1].detach() * x[:1], x[1:] ** 2])


def test_a_wrong_gradient_is_named():
    x = ternion.tensor([3.0, 4.0], dtype=ternion.float64, requires_grad=True)
    with pytest.raises(testing.GradcheckError, match=r"output 0 with respect to input 0: 1 of 4.*output\[0\] by input\[0\]: numerical 6(\.0+\d*)?, analytical 3"):
        testing.gradcheck(wrong, x)
    assert not testing.gradcheck(wrong, x, raise_exception=False)
    assert testing.gradcheck(wrong, x, atol=10.0)


def test_what_gradcheck_cannot_check():
    with pytest.raises(ValueError, match="no input requires a gradient"):
        testing.gradcheck(lambda x: x, ternion.ones(2, dtype=ternion.float64))
    with pytest.raises(TypeError, match="input 0 is ternion.float32, expected float64"):
        testing.gradcheck(lambda x: x, ternion.ones(2, requires_grad=True))
    with pytest.raises(ValueError, match="no output depends"):
        testing.gradcheck(lambda x: x.detach(), double(2))
    calls = []

    def changing(x):
        calls.append(1)
        return x * len(calls)

    with pytest.raises(testing.GradcheckError, match="output 0 is another when the function is called again, by [0-9.]+: switch dropout off"):
        testing.gradcheck(changing, double(2))


def test_what_gradcheck_is_given_wrong():
    for function, inputs, kind, message in [
        (double(2), lambda x: x, TypeError, "gradcheck: Tensor, expected a function of tensors, and then its inputs"),
        (lambda x: x, np.ones(2), TypeError, r"no tensor among the inputs \(numpy.ndarray\)"),
        (lambda: 1.0, (), TypeError, "no tensor among the inputs .nothing."),
        (lambda x: x.sum().item(), double(2), TypeError, "the function gave float, expected a tensor"),
        (lambda x: x * 2, ternion.ones(1, dtype=ternion.float64).expand(3).requires_grad_(), ValueError, "input 0 has elements that share memory"),
    ]:
        with pytest.raises(kind, match=message):
            testing.gradcheck(function, inputs)
    with pytest.raises(ValueError, match="eps 0, expected a number above 0"):
        testing.gradcheck(lambda x: x, double(2), eps=0)


def test_functions_that_draw_or_count_are_named():
    for function in (lambda x: x * ternion.rand(3), lambda x: nn.functional.dropout(x, 0.5, True), lambda x: x + float(len(calls) + bool(calls.append(1)))):
        calls = []
        with pytest.raises(testing.GradcheckError, match="output 0 is another when the function is called again, by [0-9.e-]+: switch dropout off"):
            testing.gradcheck(function, ternion.ones(3, dtype=ternion.float64, requires_grad=True))


@pytest.mark.parametrize("function", [lambda x: x, lambda x: x.t(), lambda x: x[1:], lambda x: (x.reshape(-1), x * 2)])
def test_outputs_that_share_memory_with_inputs(function):
    assert testing.gradcheck(function, double(3, 2))


def test_gradcheck_says_what_pytorch_says():
    torch = pytest.importorskip("torch")
    for function, expected in [(lambda x: x.sin() * x, True), (lambda x: x.detach() * x, False)]:
        torch_tensor = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
        ternion_tensor = ternion.tensor(torch_tensor.detach().numpy(), requires_grad=True)
        assert torch.autograd.gradcheck(function, torch_tensor, raise_exception=False) is expected
        assert testing.gradcheck(function, ternion_tensor, raise_exception=False) is expected


# ---- assert_close

PAIRS = [
    ([1.0, 2.0, 3.0], [1.0, 2.0, 3.0], {}),
    ([1.0, 2.0, 3.0], [1.0, 2.1, 3.0], {}),
    ([[1.0, 2.0], [3.0, 4.0]], [[1.0, 2.0], [3.0, 4.00001]], {}),
    ([1.0, float("nan")], [1.0, float("nan")], {}),
    ([1.0, float("nan")], [1.0, float("nan")], {"equal_nan": True}),
    ([float("inf"), 1.0], [float("inf"), 1.0], {}),
    ([float("inf"), 1.0], [1.0, 1.0], {}),
    ([1.0, 2.0], [1.0, 2.0, 3.0], {}),
    ([1.0, 2.0], [1.5, 2.0], {"rtol": 0.5, "atol": 0.0}),
    ([1.0, 2.0], [1.5, 2.5], {"rtol": 0.0, "atol": 0.1}),
    ([1, 2, 3], [1, 5, 3], {}),
    ([True, False], [True, True], {}),
]


def verdict(check, actual, expected, options):
    try:
        check(actual, expected, **options)
    except AssertionError as error:
        return str(error)
    return None


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", None])
@pytest.mark.parametrize("actual, expected, options", PAIRS)
def test_assert_close_says_what_pytorch_says(actual, expected, options, dtype):
    torch = pytest.importorskip("torch")
    dtype = None if not isinstance(actual[0], (float, list)) else dtype
    torch_tensors = [torch.tensor(values, dtype=dtype and getattr(torch, dtype)) for values in (actual, expected)]
    ternion_tensors = [ternion.tensor(values, dtype=dtype and getattr(ternion, dtype)) for values in (actual, expected)]
    found, wanted = verdict(testing.assert_close, *ternion_tensors, options), verdict(torch.testing.assert_close, *torch_tensors, options)
    assert (found is None) == (wanted is None), (found, wanted)
    if wanted is None:
        return
    # Compares the sentences, with the indices and counts in them. PyTorch computes the numbers in
    # another precision.
    words = re.compile(r"difference: \S+")
    sizes = re.compile(r"torch\.Size\((.*?)\)")
    assert words.sub("", found) == words.sub("", sizes.sub(r"\1", wanted)).replace("torch.", "ternion.")


def test_assert_close_of_other_things():
    x = ternion.ones(2)
    testing.assert_close({"a": [x, 1.0]}, {"a": [x, 1.0]})
    testing.assert_close(x.numpy(), x)
    with pytest.raises(AssertionError, match=r"item \['a'\]\[1\]"):
        testing.assert_close({"a": [x, 1.0]}, {"a": [x, 2.0]})
    with pytest.raises(AssertionError, match="Missing keys in the actual mapping: \\['b'\\]"):
        testing.assert_close({}, {"b": 1})
    with pytest.raises(AssertionError, match="length of the sequences mismatch: 1 != 2"):
        testing.assert_close([x], [x, x])
    with pytest.raises(AssertionError, match="attribute 'dtype' do not match: ternion.float32 != ternion.float64"):
        testing.assert_close(x, x.double())
    testing.assert_close(x, x.double(), check_dtype=False)
    testing.assert_close(ternion.tensor([2**60]), ternion.tensor([2**60]))
    with pytest.raises(AssertionError, match="Greatest absolute difference: 1 at"):
        testing.assert_close(ternion.tensor([2**60 + 1]), ternion.tensor([2**60]))
    with pytest.raises(AssertionError, match="mine"):
        testing.assert_close(1.0, 2.0, msg="mine")
    with pytest.raises(ValueError, match="give both, or neither"):
        testing.assert_close(x, x, rtol=1.0)
    with pytest.raises(TypeError, match="object"):
        testing.assert_close(object(), object())
    testing.assert_close(None, None)
    with pytest.raises(AssertionError, match="None mismatch: None is not a Tensor"):
        testing.assert_close(None, x)
    with pytest.raises(TypeError, match=r"Tensor and float cannot be compared: take a tensor's item\(\)"):
        testing.assert_close(x.sum(), 2.0)


def test_tensors_of_pytorch_are_compared_as_they_are():
    torch = pytest.importorskip("torch")
    ternion_tensor = ternion.tensor([1.0, 2.0], dtype=ternion.bfloat16)
    testing.assert_close(ternion_tensor, torch.tensor([1.0, 2.0], dtype=torch.bfloat16, requires_grad=True))
    testing.assert_close({"a": [torch.ones(2)]}, {"a": [ternion.ones(2)]})
    testing.assert_close(torch.ones(2, 3).t(), ternion.ones(3, 2))
    with pytest.raises(AssertionError, match="Mismatched elements: 1 / 2 .50.0%."):
        testing.assert_close(torch.tensor([1.0, 3.0]), ternion_tensor.float())
    with pytest.raises(AssertionError, match="attribute 'dtype' do not match: ternion.float64 != ternion.bfloat16"):
        testing.assert_close(torch.ones(2).double(), ternion_tensor)


# ---- compare_devices


def test_one_device_agrees_with_itself():
    compared = testing.compare_devices(lambda x, y: (x @ y).softmax(1), (ternion.randn(3, 4), ternion.randn(4, 2)), ("cpu", "cpu"))
    assert compared == 3 * 2 + 3 * 4 + 4 * 2


def test_what_differs_is_named():
    calls = []

    def function(x):
        """Its second call, on the reference, computes another function, like a faulty device."""
        calls.append(1)
        return (x.exp(), x * (1.001 if len(calls) == 1 else 1.0))

    with pytest.raises(AssertionError, match=r"output 1 differs: 4 of 4 elements of \[4\]; first at \[0\]: .* on cpu, .* on cpu \(limit"):
        testing.compare_devices(function, ternion.tensor([1.0, 2.0, 3.0, 4.0]), ("cpu", "cpu"))


def test_functions_that_compare_devices_rejects():
    with pytest.raises(ValueError, match="differs again when the same side computes it again"):
        testing.compare_devices(lambda x: x + ternion.rand(3), ternion.ones(3), ("cpu", "cpu"))
    with pytest.raises(ValueError, match="NaN on both sides"):
        testing.compare_devices(lambda x: x * float("nan"), ternion.ones(3), ("cpu", "cpu"))
    with pytest.raises(ValueError, match="nothing was compared"):
        testing.compare_devices(lambda x: x, ternion.ones(0), ("cpu", "cpu"))


def test_what_compare_devices_is_given_wrong():
    for function, inputs, devices, kind, message in [
        (lambda x: x, ternion.ones(1), "cpu", ValueError, "only device cpu, which is the reference itself"),
        (lambda x: x, ternion.ones(1), "nowhere", RuntimeError, "device nowhere: no such device"),
        (lambda x: x, ternion.ones(1), ("cpu",), ValueError, "1 devices, expected two"),
        (lambda x: x, ternion.ones(1), ("cpu", "cpu", "cpu"), ValueError, "3 devices, expected two"),
        (lambda x: x, np.ones(1), ("cpu", "cpu"), TypeError, "no tensor among the inputs .numpy.ndarray."),
        (lambda x: None, ternion.ones(1), ("cpu", "cpu"), TypeError, "the function gave NoneType, expected a tensor"),
        (ternion.ones(1), lambda x: x, ("cpu", "cpu"), TypeError, "compare_devices: Tensor, expected a function"),
    ]:
        with pytest.raises(kind, match=message):
            testing.compare_devices(function, inputs, devices)


def test_rounding_where_terms_cancel_is_no_difference():
    def function(x):
        return (x - x.mean()).sum() * 1.0

    assert testing.compare_devices(function, ternion.randn(1000), ("cpu", "cpu")) == 1001


def test_two_devices():
    device = other_device()
    x = ternion.randn(8, 16)
    inputs = x, ternion.randn(16, 4)
    compared = testing.compare_devices(lambda x, w: (x @ w).relu().log_softmax(1), inputs, ("cpu", device))
    assert compared == testing.compare_devices(lambda x, w: (x @ w).relu().log_softmax(1), inputs, device) > 0


# ---- compare_models


class Classifier(nn.Module):
    def __init__(self):
        self.hidden, self.norm, self.output = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 3)

    def forward(self, x):
        return self.output(self.norm(self.hidden(x)).relu())


def twins():
    one, other = Classifier(), Classifier()
    other.load_state_dict(one.state_dict())
    return one, other


def test_equal_models_pass_and_are_left_as_they_were():
    one, other = twins()
    before = {key: value.tolist() for key, value in one.state_dict().items()}
    compared = testing.compare_models(one, other, ternion.randn(5, 4))
    assert compared > 2 * sum(parameter.numel() for parameter in one.parameters())
    assert {key: value.tolist() for key, value in one.state_dict().items()} == before
    assert all(parameter.grad is None for parameter in [*one.parameters(), *other.parameters()])


def test_the_first_layer_that_differs_is_named():
    one, other = twins()
    with ternion.no_grad():
        other.norm.weight[3] = 2.0
    with pytest.raises(AssertionError, match=r"parameter norm.weight differs: 1 of 8 elements of \[8\]; first at \[3\]: 1 on the first model \(cpu\), 2 on"):
        testing.compare_models(one, other, ternion.randn(5, 4))
    one, other = twins()
    other.norm.eps = 0.5
    with pytest.raises(AssertionError, match="^output of layer norm differs"):
        testing.compare_models(one, other, ternion.randn(5, 4))
    one, other = twins()
    other.output.forward = lambda x: nn.functional.linear(x.detach() * 0.5 + x * 0.5, other.output.weight, other.output.bias)
    with pytest.raises(AssertionError, match="gradient of the output of layer norm differs"):
        testing.compare_models(one, other, ternion.randn(5, 4))


def test_models_that_cannot_be_compared():
    one, _ = twins()
    with pytest.raises(AssertionError, match="other parameters and buffers: .*the second model .* lacks parameter hidden.weight"):
        testing.compare_models(one, nn.Linear(4, 3), ternion.randn(5, 4))
    with pytest.raises(TypeError, match="int, expected a module"):
        testing.compare_models(one, 3, ternion.randn(5, 4))
    with pytest.raises(TypeError, match="the class Linear, expected a module of ternion or torch"):
        testing.compare_models(one, nn.Linear, ternion.randn(5, 4))
    with pytest.raises(TypeError, match="compare_models: no tensor among the inputs .numpy.ndarray."):
        testing.compare_models(one, one, np.ones((5, 4)))
    drops = nn.Sequential(nn.Linear(4, 20), nn.Dropout(0.5))
    with pytest.raises(ValueError, match=r"output of layer 1 differs, and differs again .*: call eval\(\) where dropout is"):
        testing.compare_models(drops, drops, ternion.randn(5, 4))
    assert testing.compare_models(drops.eval(), drops, ternion.randn(5, 4)) > 0
    with pytest.raises(ValueError, match="NaN on both sides"):
        testing.compare_models(one, one, ternion.full((5, 4), float("nan")))


def test_a_model_of_pytorch():
    torch = pytest.importorskip("torch")
    torch_model = torch.nn.Sequential(torch.nn.Conv2d(2, 3, 3), torch.nn.BatchNorm2d(3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(27, 2))
    ternion_model = nn.Sequential(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(27, 2))
    ternion_model.load_state_dict({key: value.numpy() for key, value in torch_model.state_dict().items()}, strict=False)
    x = ternion.randn(4, 2, 5, 5)
    assert testing.compare_models(ternion_model, torch_model, x) > 300
    torch_model[1].momentum = 0.5
    with pytest.raises(AssertionError, match="buffer 1.running_mean after the forward differs"):
        testing.compare_models(ternion_model, torch_model, x)
    torch_model[1].momentum, torch_model[1].eps = 0.1, 0.1
    with pytest.raises(AssertionError, match="output of layer 1 differs.*the second model \\(PyTorch\\)"):
        testing.compare_models(ternion_model, torch_model, x)


def test_models_on_two_devices():
    device = other_device()
    one, other = twins()
    assert testing.compare_models(one.to(device), other, ternion.tensor(np.ones((5, 4), np.float32)).cumsum(0)) > 0


def test_gradcheck_tells_what_is_nan():
    x = ternion.tensor([[4.0, -1.0]], dtype=ternion.float64, requires_grad=True)
    with pytest.raises(testing.GradcheckError, match=r"output 1 is nan at output\[0, 1\]: nothing can be compared there"):
        testing.gradcheck(lambda x: (x * 2, x.sqrt()), x)
    assert not testing.gradcheck(lambda x: x.sqrt(), x, raise_exception=False)
    # The gradient of the square root at 0 is infinite, and its product with 0 is NaN.
    zero = ternion.tensor([1.0, 0.0], dtype=ternion.float64, requires_grad=True)
    message = r"the gradient of output 0 for input 0 is nan, first that of output\[0\] by input\[1\]: numerical"
    with pytest.raises(testing.GradcheckError, match=message):
        testing.gradcheck(lambda x: ternion.stack([x[0], (x[1] * 0).sqrt()]), zero)


@pytest.mark.parametrize("actual, expected, options, is_close", [
    ([0], [2**64 - 1], dict(atol=2, rtol=0), False), ([5], [2**63 + 5], dict(atol=2, rtol=0), False), ([2**64 - 1], [2**64 - 2], dict(atol=0, rtol=1e-6), True),
    ([2**64 - 1], [2**64 - 2], dict(atol=0, rtol=0), False), ([2**64 - 1], [2**64 - 2], dict(atol=1, rtol=0), True), ([2**64 - 1], [2**64 - 1], {}, True),
])  # fmt: skip
def test_numbers_of_64_bits_without_a_sign(actual, expected, options, is_close):
    torch = pytest.importorskip("torch")
    for T, check in ((ternion, ternion.testing.assert_close), (torch, torch.testing.assert_close)):
        left, right = (T.tensor(values, dtype=T.uint64) for values in (actual, expected))
        if is_close:
            check(left, right, **options)
        else:
            with pytest.raises(AssertionError):
                check(left, right, **options)
