"""Errors of functions and classes that are written in Python: they name what was called, not what
it is composed of."""

import copy
import io
import pickle
import traceback

import pytest

import ternion
from ternion import nn

# Calls, and the complete message of each.
CALLS = """
m.median([1]) | median: input is list, expected a tensor
x.median("a") | median: dim is str, expected an integer
m.kthvalue(None, 1) | kthvalue: input is NoneType, expected a tensor
x.kthvalue("a") | kthvalue: k is str, expected an integer
x.quantile("a") | quantile: expected a number, got 'a'
x.movedim("a", 0) | movedim: expected an integer, got str
x.movedim(1.5, 0) | movedim: expected a list, got float
x.diagonal("a") | diagonal: offset is str, expected an integer
m.cross(x, "a") | cross: other is str, expected a tensor
m.cumprod("a", 0) | cumprod: input is str, expected a tensor
m.unique("a") | unique: input is str, expected a tensor
m.cdist(x, "a") | cdist: x2 is str, expected a tensor
m.kron(x, None) | kron: other is NoneType, expected a tensor
x.view_as("a") | view_as: other is str, expected a tensor
x.lerp("a", 1) | lerp: end is str, expected a tensor
x.lerp_("a", 1) | lerp_: end is str, expected a tensor
x.lerp(x, "a") | lerp: expected numbers or tensors
x.repeat_interleave("a") | repeat_interleave: expected an integer, got str
m.normal(x, "a") | normal: expected numbers, got str and int
x.multinomial("a") | multinomial: num_samples is str, expected an integer
x.round(decimals="a") | round: decimals is str, expected an integer
x.unique(True, x) | unique: return_inverse is Tensor, expected True or False
m.numel("a") | numel: input is str, expected a tensor
m.result_type(x, None) | result_type: expected numbers or tensors, got ternion.Tensor and NoneType
m.nn.init.constant_(x, "a") | constant_: val is str, expected a number
m.nn.init.uniform_("a") | uniform_: tensor of type str, expected a tensor
F.pad(x, "a") | pad: expected integers, got str
F.pad(x, 1.5) | pad: expected a list, got float
F.relu("a") | relu: input is str, expected a tensor
F.relu(x, x) | relu: inplace is Tensor, expected True or False
F.softmax("a", 0) | softmax: input is str, expected a tensor
x.index_fill(0, i, "a") | index_fill: expected a number, got str
x.nan_to_num("a") | nan_to_num: nan is str, expected a number
x.tile("a") | tile: expected integers, got str
x.swapaxes("a", 1) | swapaxes: axis0 is str, expected an integer
x.swapaxes(0, 7) | swapaxes: axis 7 on shape [2, 3]
x.broadcast_to("a") | broadcast_to: expected integers, got str
m.logspace(0, 1, "a") | logspace: steps is str, expected an integer
m.logspace(0, 1, -1) | logspace: a count of -1, expected 0 or more
F.normalize(x, "a") | normalize: p is str, expected a number
F.cosine_similarity(x, m.ones(7)) | cosine_similarity: shapes [2, 3] and [7] do not broadcast
nn.utils.clip_grad_norm_(5, 1.0) | clip_grad_norm_: expected a list, got int
nn.utils.clip_grad_norm_([x], "a") | clip_grad_norm_: max_norm is str, expected a number
nn.LayerNorm("a") | LayerNorm: expected integers, got str
nn.BatchNorm2d(None) | BatchNorm2d: num_features is NoneType, expected an integer
nn.GroupNorm("a", 2) | GroupNorm: num_groups is str, expected an integer
nn.GRU(2, "a") | GRU: hidden_size is str, expected an integer
nn.ReLU(False, "a") | ReLU() takes from 1 to 2 positional arguments but 3 were given
nn.Parameter(x, "a") | Parameter: expected True or False, got str
F.mse_loss(x, x, reduction=5) | mse_loss: expected a str, got int
F.cross_entropy(x, i, reduction=5) | cross_entropy: expected a str, got int
F.interpolate(m.ones(1, 1, 2, 2), 2, mode=5) | interpolate: expected a str, got int
F.gelu(x, approximate=5) | gelu: expected a str, got int
x.div(x, rounding_mode=5) | div: expected a str, got int
x.div_(x, rounding_mode=5) | div_: expected a str, got int
x.backward(inputs=5) | backward: expected a list, got int
x.backward(inputs=["a"]) | backward: expected a tensor, got str
m.autograd.grad(5, x) | grad: outputs: expected tensors, got int
m.autograd.grad(x.sum(), x, grad_outputs=["a"]) | grad: gradients: expected tensors, got str
m.autograd.grad(x.sum(), x, retain_graph="a") | grad: expected True or False, got str
m.autograd.backward(x.sum(), inputs=5) | backward: inputs: expected tensors, got int
"""


@pytest.mark.parametrize("call, message", [line.split(" | ") for line in CALLS.strip().splitlines()])
def test_the_message_is_of_the_function_that_was_called(call, message):
    names = {"m": ternion, "nn": nn, "F": nn.functional, "x": ternion.ones(2, 3), "i": ternion.tensor([0, 1])}
    with pytest.raises((TypeError, ValueError, IndexError)) as raised:
        eval(call, names)
    assert str(raised.value) == message


def test_what_is_missing_is_reported_as_by_python():
    with pytest.raises(TypeError, match=r"median\(\) missing 1 required positional argument: 'input'"):
        ternion.median()
    with pytest.raises(TypeError, match=r"median\(\) got an unexpected keyword argument 'axes'"):
        ternion.median(ternion.ones(2), axes=1)


def test_errors_of_users_stay():
    class Own(RuntimeError):
        pass

    class Layer(nn.Linear):
        def __init__(self):
            super().__init__("a", 2)

    class Place:
        def __index__(self):
            raise Own("mine: unchanged")

    with pytest.raises(Own, match="^mine: unchanged$"):
        ternion.ones(2, 3).diagonal(0, Place())
    with pytest.raises(TypeError, match="^Linear: in_features"):
        Layer()


def test_the_location_of_the_error_is_shown():
    with pytest.raises(TypeError) as raised:
        ternion.median("a")
    assert [frame.name for frame in traceback.extract_tb(raised.value.__traceback__)][-1] == "median" and raised.value.__cause__ is None


@pytest.mark.parametrize("function", [ternion.median, ternion.result_type, nn.functional.relu, nn.functional.normalize, nn.init.constant_])
def test_functions_are_pickled_and_copied(function):
    assert pickle.loads(pickle.dumps(function)) is function and copy.deepcopy(function) is function


OPTIMISERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "Lion", "Muon"]


class Counting(nn.Module):
    """A layer with an integer parameter, such as an index table."""

    def __init__(self):
        super().__init__()
        self.places = nn.Parameter(ternion.tensor([1, 0]), requires_grad=False)
        self.weight = nn.Parameter(ternion.ones(2, 2))

    def forward(self, x):
        return x[:, self.places] @ self.weight


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.filterwarnings("error")
def test_parameters_of_integers_are_never_changed(kind):
    torch_like, model = getattr(ternion.optim, kind), Counting()
    optimizer = torch_like(model.parameters(), lr=0.1)
    assert [parameter.dtype for parameter in optimizer.param_groups[0]["params"]] == [ternion.int64, ternion.float32]
    for rate in (0.1, 0.2):
        optimizer.param_groups[0]["lr"] = rate
        optimizer.param_groups[0]["weight_decay"] = rate
        optimizer.zero_grad()
        model(ternion.tensor([[1.0, 2.0], [3.0, 1.0]])).square().sum().backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        nn.utils.clip_grad_value_(model.parameters(), 1.0)
        optimizer.step()
    assert model.places.tolist() == [1, 0] and (model.weight != 1).all() and model.places.grad is None
    file = io.BytesIO()
    ternion.save(optimizer.state_dict(), file)
    file.seek(0)
    again = torch_like(model.parameters(), lr=0.1)
    again.load_state_dict(ternion.load(file))
    assert list(again.state) == list(optimizer.state) and copy.deepcopy(optimizer).param_groups[0]["lr"] == 0.2


@pytest.mark.parametrize("kind", OPTIMISERS)
@pytest.mark.filterwarnings("error")
def test_parameters_of_integers_alone(kind):
    integers = nn.Parameter(ternion.tensor([1, 0]), requires_grad=False)
    optimizer = getattr(ternion.optim, kind)([integers], lr=0.1, strict=True)
    optimizer.step()
    optimizer.load_state_dict(copy.deepcopy(optimizer).state_dict())
    assert integers.tolist() == [1, 0] and not optimizer.state and not any("none" in key for key in optimizer.state_dict()["state"][0])


def test_integers_claim_no_gradients():
    with pytest.raises(TypeError, match="Parameter: data is int64, expected a floating dtype, or requires_grad=False"):
        nn.Parameter(ternion.tensor([1]))
