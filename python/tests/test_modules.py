"""Modules as in PyTorch: registration, checks, hooks, containers, state, copies."""

import copy
import io
import pickle

import numpy as np
import pytest
from pytorch_reference import torch_of

import ternion
from ternion import nn
from ternion.utils.checkpoint import checkpoint


class Private(nn.Module):
    """A module with attributes that start with `_`, some with names that the package might use
    internally."""

    def __init__(self):
        super().__init__()
        self._linear = nn.Linear(2, 3)
        self._w = nn.Parameter(ternion.ones(3))
        self._hooks = [nn.Linear(3, 3)]
        self._own = nn.Linear(3, 3, bias=False)
        self._forward = self._walk = None
        self.register_buffer("_count", ternion.zeros(1))

    def forward(self, x):
        return self._own(self._hooks[0](self._linear(x) * self._w))


def test_attributes_that_begin_with_an_underscore_are_found():
    model = Private()
    inner = ["_linear.weight", "_linear.bias", "_hooks.0.weight", "_hooks.0.bias", "_own.weight"]
    assert [key for key, _ in model.named_parameters()] == ["_w", *inner]
    assert list(model.state_dict()) == ["_w", "_count", *inner]
    assert [key for key, _ in model.named_children()] == ["_linear", "_hooks.0", "_own"]
    model.register_forward_hook(lambda *_: None)
    model(ternion.ones(1, 2)).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


class TestAttributes:
    def test_a_parameter_is_not_dropped(self):
        layer = nn.Linear(2, 2)
        for value, kind in ((3, "int"), (ternion.ones(2, 2), "Tensor")):
            with pytest.raises(TypeError, match=f"cannot assign a {kind} as parameter 'weight': expected a nn.Parameter or None"):
                layer.weight = value
        layer.weight = None
        assert [key for key, _ in layer.named_parameters()] == ["bias"]
        with pytest.raises(TypeError, match="as parameter 'weight'"):
            layer.weight = 3
        layer.weight = nn.Parameter(ternion.ones(2, 2))
        assert layer(ternion.ones(1, 2)).shape == (1, 2) and len(list(layer.parameters())) == 2

    def test_modules_and_buffers_are_guarded(self):
        model = nn.Module()
        model.inner = nn.Linear(1, 1)
        model.register_buffer("count", ternion.zeros(1))
        with pytest.raises(TypeError, match="cannot assign a int as child module 'inner'"):
            model.inner = 5
        with pytest.raises(TypeError, match="cannot assign a int as buffer 'count'"):
            model.count = 5
        model.count = ternion.ones(2)
        assert model.state_dict()["count"].tolist() == [1, 1]
        model.count = nn.Parameter(ternion.ones(1))
        assert not list(model.buffers()) and "count" in dict(model.named_parameters())

    def test_deletion(self):
        layer = nn.BatchNorm1d(2)
        del layer.weight, layer.running_mean
        assert list(layer.state_dict()) == ["bias", "running_var", "num_batches_tracked"]
        layer.weight = 3
        assert layer.weight == 3
        model = nn.Sequential(nn.ReLU(), nn.Linear(1, 1))
        delattr(model, "1")
        assert len(model) == 1 and not list(model.parameters())
        with pytest.raises(AttributeError):
            del model.missing

    def test_registration(self):
        model = nn.Module()
        model.register_parameter("late", None)
        model.register_module("part", nn.Linear(1, 1))
        model.add_module("none", None)
        assert model.late is None and [key for key, _ in model.named_children()] == ["part"]
        model.late = nn.Parameter(ternion.ones(1))
        for call, kind, message in [
            (lambda: model.register_buffer("a", 5), TypeError, "register_buffer: 'a' of type int, expected a tensor or None"),
            (lambda: model.register_buffer("late.a", None), KeyError, "expected one without dots"),
            (lambda: model.register_buffer("part", ternion.ones(1)), KeyError, "register_buffer: Module has an attribute 'part' already"),
            (lambda: model.add_module("late", nn.ReLU()), KeyError, "add_module: Module has an attribute 'late' already"),
            (lambda: model.register_parameter("b", ternion.ones(1)), TypeError, "'b' of type Tensor, expected a nn.Parameter or None"),
            (lambda: model.register_parameter("forward", None), KeyError, "has an attribute 'forward' already"),
            (lambda: model.add_module("c", 3), TypeError, "'c' of type int, expected a nn.Module or None"),
            (lambda: model.add_module(3, None), TypeError, "the name 3 is of type int"),
        ]:
            with pytest.raises(kind, match=message):
                call()

    def test_by_keys(self):
        model = nn.Module()
        model.layers = [nn.Sequential(nn.Linear(1, 1)), {"a": nn.BatchNorm1d(2)}]
        assert model.get_submodule("layers.0.0") is model.layers[0][0] and model.get_submodule("") is model
        assert model.get_parameter("layers.1.a.bias") is model.layers[1]["a"].bias
        assert model.get_buffer("layers.1.a.running_var").tolist() == [1, 1]
        for call, message in [
            (lambda: model.get_submodule("layers.2"), "has no '2'"), (lambda: model.get_submodule("layers.0.0.weight"), "expected a nn.Module"),
            (lambda: model.get_parameter("layers.0"), "expected a nn.Parameter"), (lambda: model.get_buffer("layers.0.0.weight"), "is not a buffer"),
        ]:  # fmt: skip
            with pytest.raises(AttributeError, match=message):
                call()

    def test_a_module_that_knows_the_one_around_it(self):
        model = nn.Sequential(nn.Linear(1, 1))
        model[0].around = model
        assert len(list(model.parameters())) == 2 and len(list(model.modules())) == 2 and list(model.state_dict()) == ["0.weight", "0.bias"]
        assert model.eval() is model and not model[0].training

    def test_what_is_shared_comes_once(self):
        relu, linear = nn.ReLU(), nn.Linear(2, 2)
        model = nn.Sequential(relu, linear, relu, linear)
        assert len(list(model.children())) == 2 and len(list(model.modules())) == 3 and len(list(model.parameters())) == 2
        assert len(list(model.named_modules(remove_duplicate=False))) == 5 and len(list(model.named_parameters(remove_duplicate=False))) == 4
        assert list(model.state_dict()) == ["1.weight", "1.bias", "3.weight", "3.bias"]
        x = ternion.ones(1, 2)
        assert model(x).equal(linear(linear(x.relu()).relu()))


class TestState:
    def test_prefixes(self):
        layer, state = nn.Linear(1, 1), {}
        assert layer.state_dict(state, "model.") is state and list(state) == ["model.weight", "model.bias"]
        assert layer.state_dict(keep_vars=True)["weight"] is layer.weight
        assert [key for key, _ in layer.named_parameters("head")] == ["head.weight", "head.bias"]

    def test_what_does_not_fit_is_reported(self):
        layer = nn.Linear(2, 1)
        keys = layer.load_state_dict({"weight": ternion.ones(1, 2), "other": ternion.ones(1)}, strict=False)
        assert keys.missing_keys == ["bias"] and keys.unexpected_keys == ["other"] and layer.weight.tolist() == [[1, 1]]
        missing, _ = keys
        assert missing == ["bias"]
        assert repr(layer.load_state_dict(layer.state_dict())) == "<All keys matched successfully>"
        assert layer.load_state_dict({"weight": np.zeros((1, 2)), "bias": [4.0]}) and layer.bias.tolist() == [4]
        with pytest.raises(TypeError, match="load_state_dict: a list, expected a dict of tensors"):
            layer.load_state_dict([])
        with pytest.raises(TypeError, match="load_state_dict: bias is of type object, expected a tensor"):
            layer.load_state_dict({"bias": object()}, strict=False)

    def test_assign_takes_the_memory(self):
        layer, state = nn.Linear(2, 1), {"weight": ternion.ones(1, 2, dtype=ternion.float64), "bias": ternion.ones(1, dtype=ternion.float64)}
        weight = layer.weight
        layer.load_state_dict(state, assign=True)
        assert layer.weight is weight and weight.dtype is ternion.float64 and weight.data_ptr() == state["weight"].data_ptr()

    def test_copies_and_pickles(self):
        model = Private()
        model.tied = model._linear
        model.add_module("norm", nn.BatchNorm1d(2))
        buffer = io.BytesIO()
        pickle.dump(model, buffer)
        buffer.seek(0)
        x = ternion.randn(2, 2)
        for other in (copy.deepcopy(model), pickle.load(buffer)):
            assert other(x).equal(model(x)) and other.tied is other._linear and other._w is not model._w
            assert list(other.state_dict()) == list(model.state_dict())
            with pytest.raises(TypeError):
                other._w = 3
            with ternion.no_grad():
                other._w.zero_()
            assert model._w.tolist() == [1, 1, 1]

    def test_dtypes_and_devices(self):
        model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
        for call, dtype in [("double", ternion.float64), ("half", ternion.float16), ("bfloat16", ternion.bfloat16), ("float", ternion.float32)]:
            getattr(model, call)()
            assert {value.dtype for key, value in model.state_dict().items() if "tracked" not in key} == {dtype}
        assert model[1].num_batches_tracked.dtype is ternion.int64
        assert model.to("cpu", ternion.float64, non_blocking=True).type(ternion.float32)[0].weight.dtype is ternion.float32
        with pytest.raises(ValueError, match="mode 'yes', expected True or False"):
            model.train("yes")


class TestHooks:
    def test_before_and_after(self):
        layer, calls = nn.Identity(), []
        first = layer.register_forward_pre_hook(lambda module, args: calls.append("first"))
        layer.register_forward_pre_hook(lambda module, args: args[0] * 2, prepend=True)
        layer.register_forward_hook(lambda module, args, result: result + args[0])
        with layer.register_forward_hook(lambda module, args, result: calls.append(result.item())):
            assert layer(ternion.tensor(3.0)).item() == 12 and calls == ["first", 12.0]
        first.remove()
        assert layer(ternion.tensor(3.0)).item() == 12 and calls == ["first", 12.0]

    def test_with_names(self):
        class Scaled(nn.Module):
            def forward(self, x, scale=1.0):
                return x * scale

        layer = Scaled()
        layer.register_forward_pre_hook(lambda module, args, kwargs: (args, {"scale": kwargs["scale"] + 1}), with_kwargs=True)
        layer.register_forward_hook(lambda module, args, kwargs, result: result + kwargs["scale"], with_kwargs=True)
        assert layer(ternion.tensor(2.0), scale=3.0).item() == 12
        layer.register_forward_pre_hook(lambda *_: 3, with_kwargs=True)
        with pytest.raises(RuntimeError, match="returned 3, expected None or a tuple of new args and kwargs"):
            layer(ternion.tensor(2.0), scale=3.0)
        with pytest.raises(TypeError, match="a hook of type int, expected a function"):
            layer.register_forward_hook(3)

    def test_after_an_exception(self):
        layer, calls = nn.Module(), []
        layer.register_forward_hook(lambda module, args, result: calls.append(result), always_call=True)
        with pytest.raises(NotImplementedError):
            layer(1)
        assert calls == [None]

    @pytest.mark.parametrize("asks", [True, False])
    def test_gradients_are_pytorchs(self, asks):
        torch = pytest.importorskip("torch")

        def hook_gradients(nn, tensor, weight):
            layer, calls = nn.Linear(2, 2, bias=False), []
            with (ternion if nn is not torch.nn else torch).no_grad():
                layer.weight.copy_(weight)
            layer.register_full_backward_pre_hook(lambda module, grads: (grads[0] * 2,))
            layer.register_full_backward_hook(lambda module, inputs, outputs: calls.append((inputs, outputs)))
            if asks:
                layer.register_full_backward_hook(lambda module, inputs, outputs: (inputs[0] * 3,))
            x = tensor([[1.0, 2.0]])
            x.requires_grad = asks
            loss = layer(x).square().sum() + x.sum() * 5
            loss.backward()
            ((grad_input,), (grad_output,)), = calls
            return [layer.weight.grad.tolist(), grad_output.tolist()] + ([x.grad.tolist(), grad_input.tolist()] if asks else [grad_input])

        weights = [[1.0, -2.0], [3.0, 4.0]]
        assert hook_gradients(nn, ternion.tensor, ternion.tensor(weights)) == hook_gradients(torch.nn, torch.tensor, torch.tensor(weights))

    def test_of_several_inputs(self):
        class Product(nn.Module):
            def forward(self, a, b):
                return {"product": a * b}

        layer, calls = Product(), []
        layer.register_full_backward_hook(lambda module, inputs, outputs: calls.append([grad.item() for grad in (*inputs, *outputs)]))
        a, b = ternion.tensor(2.0, requires_grad=True), ternion.tensor(3.0, requires_grad=True)
        layer(a, b)["product"].backward()
        assert calls == [[3, 2, 1]] and (a.grad.item(), b.grad.item()) == (3, 2)
        handle = layer.register_full_backward_hook(lambda module, inputs, outputs: inputs)
        with pytest.raises(RuntimeError, match="returned other gradients for 2 inputs"):
            layer(a, b)["product"].backward()
        handle.remove()
        with ternion.no_grad():
            layer(a, b)
        checkpoint(layer, a, b)["product"].backward()
        assert calls[-1] == [3, 2, 1]

    def test_of_inputs_in_another_order(self):
        layer, calls = nn.Identity(), []
        layer.register_full_backward_hook(lambda module, inputs, outputs: calls.append(inputs[0].tolist()))
        x = ternion.ones(2, 3, requires_grad=True)
        (layer(x.t()) * ternion.arange(6.0).reshape(3, 2)).sum().backward()
        assert calls == [[[0, 1], [2, 3], [4, 5]]] and x.grad.tolist() == [[0, 2, 4], [1, 3, 5]]

    def test_twice_through_one_graph(self):
        layer, calls = nn.Linear(1, 1), []
        layer.register_full_backward_hook(lambda module, inputs, outputs: calls.append(inputs[0].shape))
        loss = layer(ternion.ones(3, 1, requires_grad=True)).sum()
        loss.backward(retain_graph=True)
        loss.backward()
        assert calls == [(3, 1)] * 2


class TestRows:
    def test_lists(self):
        row = nn.ModuleList([nn.Linear(1, 1), nn.ReLU()])
        row.insert(0, nn.Tanh()).extend([nn.Sigmoid()])
        row[-1] = nn.GELU()
        row += [nn.Identity()]
        assert [type(module).__name__ for module in row] == ["Tanh", "Linear", "ReLU", "GELU", "Identity"]
        assert [key for key, _ in row.named_children()] == list("01234") and list(row.state_dict()) == ["1.weight", "1.bias"]
        assert isinstance(row[1:3], nn.ModuleList) and row[1:3][0] is row[1] and len(row + row[:1]) == 6 and row[2] in row
        del row[0], row[1:3]
        assert [type(module).__name__ for module in row] == ["Linear", "Identity"] and type(row.pop(0)) is nn.Linear and len(row) == 1
        for call, kind, message in [
            (lambda: row[3], IndexError, "index 3, but there are 1 modules"), (lambda: row.append(3), TypeError, "a int, expected a nn.Module"),
            (lambda: row.extend(nn.ReLU()), TypeError, "extend: a ReLU, expected several modules"), (lambda: row.insert(0, "a"), TypeError, "a str"),
        ]:  # fmt: skip
            with pytest.raises(kind, match=message):
                call()

    def test_sequences(self):
        named = nn.Sequential({"first": nn.Linear(1, 2), "second": nn.ReLU(), "third": nn.Linear(2, 1)})
        assert list(named.state_dict()) == ["first.weight", "first.bias", "third.weight", "third.bias"] and named.first is named[0]
        assert list(named[1:].state_dict()) == ["third.weight", "third.bias"] and named[-1] is named.third
        named[1] = nn.Tanh()
        assert type(named.second) is nn.Tanh
        x, longer = ternion.ones(3, 1), named + nn.Sequential(nn.ReLU())
        assert len(longer) == 4 and longer(x).equal(named(x).relu()) and len(nn.Sequential(nn.ReLU()) * 3) == 3
        longer.insert(1, nn.Identity()).append(nn.Tanh()).extend(nn.Sequential(nn.ReLU()))
        assert len(longer) == 7 and longer(x).equal(named(x).relu().tanh().relu())
        del longer[-1]
        assert len(longer) == 6 and type(longer.pop()) is nn.Tanh
        with pytest.raises(TypeError, match="Sequential: a function, expected a nn.Module"):
            nn.Sequential(nn.ReLU(), lambda x: x)
        with pytest.raises(TypeError, match="unsupported operand"):
            named + [nn.ReLU()]
        assert repr(nn.Sequential(nn.ReLU(), nn.Dropout(0.1))) == "Sequential(\n  (0): ReLU()\n  (1): Dropout(p=0.1, inplace=False)\n)"

    def test_dicts(self):
        parts = nn.ModuleDict({"a": nn.Linear(1, 1), "b": nn.ReLU()})
        parts["c"] = nn.Tanh()
        parts.update([("b", nn.GELU())])
        assert list(parts) == parts.keys() == ["a", "b", "c"] and type(parts["b"]) is nn.GELU and "c" in parts and len(parts) == 3
        assert list(parts.state_dict()) == ["a.weight", "a.bias"] and [name for name, _ in parts.items()] == list("abc")
        assert type(parts.pop("c")) is nn.Tanh
        del parts["a"]
        assert not list(parts.parameters()) and len(parts.values()) == 1
        for call, kind, message in [
            (lambda: parts["x"], KeyError, "x"), (lambda: parts.update({"a.b": nn.ReLU()}), KeyError, "without dots"),
            (lambda: parts.update({"keys": nn.ReLU()}), KeyError, "has an attribute 'keys' already"),
            (lambda: parts.update({"a": 3}), TypeError, "expected a nn.Module"), (lambda: parts.update(3), TypeError, "expected a dict or pairs"),
        ]:  # fmt: skip
            with pytest.raises(kind, match=message):
                call()
        parts.clear()
        assert len(parts) == 0

    def test_parameters(self):
        row = nn.ParameterList([ternion.ones(1), nn.Parameter(ternion.ones(2))])
        row.append(ternion.zeros(3)).extend([ternion.zeros(4)])
        row[0] = ternion.zeros(5)
        assert [tuple(parameter.shape) for parameter in row] == [(5,), (2,), (3,), (4,)] and list(row.state_dict()) == list("0123")
        assert len(row[1:]) == 3 and row[-1].requires_grad and repr(row) == "ParameterList((5,), (2,), (3,), (4,))"
        named = nn.ParameterDict({"a": ternion.ones(1)})
        named["b"] = ternion.ones(2)
        assert list(named.state_dict()) == ["a", "b"] and isinstance(named["b"], nn.Parameter) and named.pop("a").tolist() == [1]
        model = nn.Module()
        model.row, model.named = row, named
        assert [key for key, _ in model.named_parameters()] == ["row.0", "row.1", "row.2", "row.3", "named.b"]
        with pytest.raises(TypeError, match="ParameterList: a int, expected a nn.Parameter or a tensor"):
            row.append(3)
        with pytest.raises(IndexError, match="index 9, but there are 4 parameters"):
            row[9] = ternion.ones(1)


def test_a_module_that_holds_itself_has_a_repr():
    model = nn.Module()
    model.part, model.all = nn.ReLU(), [model]
    assert repr(model) == "Module(\n  (part): ReLU()\n  (all.0): ...\n)"


def test_extra_repr():
    class Scaled(nn.Module):
        def __init__(self):
            self.part = nn.ReLU(inplace=True)

        def extra_repr(self):
            return "scale=2"

    assert repr(Scaled()) == "Scaled(scale=2\n  (part): ReLU(inplace=True)\n)"
    assert repr(nn.Conv2d(1, 2, 3, padding="same", padding_mode="reflect")).endswith("stride=(1, 1), padding=same, padding_mode=reflect)")


def test_everything_is_called_by_apply():
    names = []
    nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.ReLU())).apply(lambda module: names.append(type(module).__name__))
    assert names == ["Linear", "ReLU", "Sequential", "Sequential"]


class TestParametersOfWholeNumbers:
    @pytest.mark.parametrize("values", [[1, 2], [True, False]])
    def test_they_are_pytorchs(self, values):
        torch = pytest.importorskip("torch")
        for module in (ternion, torch):
            parameter = module.nn.Parameter(module.tensor(values), requires_grad=False)
            assert isinstance(parameter, module.nn.Parameter) and parameter.tolist() == values
            assert not parameter.requires_grad and parameter.grad is None and parameter.is_leaf
            with pytest.raises((TypeError, RuntimeError), match="float"):
                module.nn.Parameter(module.tensor(values))
            with pytest.raises((TypeError, RuntimeError), match="float"):
                parameter.requires_grad_()
        with pytest.raises(TypeError, match="Parameter: data is (int64|bool), expected a floating dtype, or requires_grad=False"):
            ternion.nn.Parameter(ternion.tensor(values))

    def test_they_belong_to_modules(self):
        layer = nn.Linear(2, 2)
        layer.indices = nn.Parameter(ternion.tensor([1, 2]), requires_grad=False)
        assert [name for name, _ in layer.named_parameters()] == ["weight", "bias", "indices"]
        layer.load_state_dict({**layer.state_dict(), "indices": ternion.tensor([3, 4])})
        layer.to("float64")
        assert layer.indices.tolist() == [3, 4] and layer.indices.dtype is ternion.int64 and layer.weight.dtype is ternion.float64
        for copied in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
            assert isinstance(copied.indices, nn.Parameter) and copied.indices.tolist() == [3, 4] and copied.indices is not layer.indices
        layer(ternion.ones(1, 2, dtype="float64")).sum().backward()
        assert layer.indices.grad is None and layer.weight.grad is not None
        layer.indices.data = ternion.tensor([5, 6])
        assert layer.indices.tolist() == [5, 6]


class TestOrder:
    """A module's direct parameters come before those of its submodules, in order of
    registration."""

    @staticmethod
    def made(m, nn):
        class Inner(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(2, 2)
                self.register_buffer("count", m.zeros(1))
                self.late = None
                self.scale = nn.Parameter(m.ones(3))
                self.register_parameter("kept", None)
                self.late = nn.Parameter(m.ones(4))
                self.kept = nn.Parameter(m.ones(5))

        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()
                self.norm = nn.BatchNorm1d(2)
                self.weight = nn.Parameter(m.ones(6))
                self.register_buffer("steps", m.zeros(2))
                self.register_buffer("passing", m.zeros(3), persistent=False)
                self.rows = nn.ModuleList([nn.Linear(2, 1), Inner()])
                self.bias = nn.Parameter(m.ones(7))
                self.swapped = nn.Linear(1, 1)
                self.swapped = None
                self.again = nn.Parameter(m.ones(8))
                self.weight = nn.Parameter(m.ones(6))

        return Outer()

    def test_is_pytorchs(self):
        torch = pytest.importorskip("torch")
        ours, theirs = self.made(ternion, nn), self.made(torch, torch.nn)
        assert list(ours.state_dict()) == list(theirs.state_dict())
        for name in ("named_parameters", "named_buffers", "named_modules", "named_children"):
            assert [key for key, _ in getattr(ours, name)()] == [key for key, _ in getattr(theirs, name)()], name
        assert [tuple(one.shape) for one in ours.parameters()] == [tuple(one.shape) for one in theirs.parameters()]

    def test_of_lists_too(self):
        class Listed(nn.Module):
            def __init__(self):
                self.layers = [nn.Linear(2, 2), nn.Parameter(ternion.ones(1))]
                self.last = nn.Parameter(ternion.ones(2))

        assert list(Listed().state_dict()) == ["layers.1", "last", "layers.0.weight", "layers.0.bias"]


class TestRegistered:
    def test_is_pytorchs(self):
        torch = pytest.importorskip("torch")
        ours, theirs = TestOrder.made(ternion, nn), TestOrder.made(torch, torch.nn)
        for name in ("_parameters", "_buffers", "_modules"):
            for one, other in ((ours, theirs), (ours.inner, theirs.inner), (nn.GRUCell(1, 1, bias=False), torch.nn.GRUCell(1, 1, bias=False))):
                assert list(getattr(one, name)) == [key for key in getattr(other, name)], name
                assert [value is None for value in getattr(one, name).values()] == [value is None for value in getattr(other, name).values()]

    def test_is_read_only_and_gives_way(self):
        layer = nn.Linear(2, 2)
        with pytest.raises(TypeError):
            layer._parameters["bias"] = None
        layer._modules = 3
        assert layer._modules == 3 and list(layer._parameters) == ["weight", "bias"]


class Counting(nn.Module):
    """A module with state in addition to its tensors."""

    def __init__(self):
        super().__init__()
        self.layer, self.words = nn.Linear(2, 2), {"a": 1}
        self.weight = nn.Parameter(ternion.ones(1))

    def get_extra_state(self):
        return self.words

    def set_extra_state(self, state):
        self.words = state


class TestExtraState:
    def test_what_a_module_adds_is_saved_and_loaded(self, tmp_path):
        one, two = nn.Sequential(Counting()), nn.Sequential(Counting())
        one[0].words = {"b": [2, 3]}
        ternion.save(one.state_dict(), tmp_path / "state")
        assert list(one.state_dict()) == ["0.weight", "0._extra_state", "0.layer.weight", "0.layer.bias"]
        two.load_state_dict(ternion.load(tmp_path / "state"))
        assert two[0].words == {"b": [2, 3]}
        state = one.state_dict()
        del state["0._extra_state"]
        with pytest.raises(RuntimeError, match="missing: 0._extra_state"):
            two.load_state_dict(state)
        assert two.load_state_dict(state, strict=False).missing_keys == ["0._extra_state"]
        with pytest.raises(RuntimeError, match="no get_extra_state"):
            nn.Linear(1, 1).get_extra_state()

    def hooked(self, m, nn):
        """Returns the arguments that hooks of modules of one of the two libraries receive."""
        torch_like, calls = nn.Sequential(nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 1))), []
        for key, module in torch_like.named_modules():
            module.register_state_dict_pre_hook(lambda module, prefix, keep_vars, key=key: calls.append((key, prefix, keep_vars)))
            module.register_load_state_dict_post_hook(lambda module, keys, key=key: calls.append((key, list(keys.missing_keys), list(keys.unexpected_keys))))
        state = torch_like.state_dict(keep_vars=True)
        state["other"] = state.pop("1.0.bias")
        torch_like[1][0].register_load_state_dict_post_hook(lambda module, keys: keys.missing_keys.clear())
        torch_like.register_load_state_dict_post_hook(lambda module, keys: keys.unexpected_keys.clear())
        torch_like.load_state_dict(state)
        return calls

    def test_hooks_are_called_and_settle_keys(self):
        torch = pytest.importorskip("torch")
        ours, theirs = self.hooked(ternion, nn), self.hooked(torch, torch.nn)
        # In the order in which PyTorch calls them, except that Ternion loads children from last to
        # first.
        assert sorted(map(str, ours[:4])) == sorted(map(str, theirs[:4])) and ours[-1] == theirs[-1]
        assert {key for key, *_ in ours} == {key for key, *_ in theirs}

    def test_a_hook_may_change_what_is_passed_and_be_removed(self):
        layer = nn.Linear(1, 1)
        handle = layer.register_state_dict_pre_hook(lambda module, prefix, keep_vars: module.weight.detach().fill_(7.0))
        assert layer.state_dict()["weight"].tolist() == [[7.0]]
        handle.remove()
        layer.weight.detach().fill_(1.0)
        assert layer.state_dict()["weight"].tolist() == [[1.0]]

    def renamed(self, m, nn):
        """A model that writes and reads custom keys."""
        model, calls = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)), []

        def written(module, state, prefix, metadata):
            state[prefix + "kernel"] = state.pop(prefix + "weight")

        def read(module, state, prefix, metadata, strict, missing, unexpected, errors):
            calls.append((prefix, strict, list(missing), list(unexpected)))
            state[prefix + "weight"] = state.pop(prefix + "kernel")

        model[1].register_state_dict_post_hook(written)
        model[1].register_load_state_dict_pre_hook(read)
        state = model.state_dict()
        before = list(state)
        model.load_state_dict(state)
        assert list(state) == before
        model[0].register_load_state_dict_pre_hook(lambda *arguments: arguments[-1].append("not today"))
        with pytest.raises(RuntimeError, match="not today"):
            model.load_state_dict(state)
        return sorted(state), calls

    def test_hooks_rename_keys_as_in_pytorch(self):
        torch = pytest.importorskip("torch")
        assert self.renamed(ternion, nn) == self.renamed(torch, torch.nn)


@pytest.mark.parametrize("create", [
    lambda nn: nn.RNN(2, 3), lambda nn: nn.RNN(2, 3, 2, nonlinearity="relu", bias=False, batch_first=True, dropout=0.1, bidirectional=True), lambda nn: nn.GRU(2, 3),
    lambda nn: nn.LSTM(2, 3, num_layers=2), lambda nn: nn.LSTM(2, 3, batch_first=True), lambda nn: nn.Fold(4, 2), lambda nn: nn.Fold((4, 4), 2, 1, 1, 2), lambda nn: nn.Unfold(2),
    lambda nn: nn.Unfold((2, 2), 1, 1, 2), lambda nn: nn.ConstantPad1d(1, 2.0), lambda nn: nn.ConstantPad2d(1, 2.0), lambda nn: nn.ConstantPad3d((1, 2, 3, 4, 5, 6), 2.0),
    lambda nn: nn.ZeroPad2d(1), lambda nn: nn.Softshrink(), lambda nn: nn.Hardshrink(0.25), lambda nn: nn.Dropout(0.2), lambda nn: nn.Dropout(0.2, True), lambda nn: nn.Dropout1d(),
    lambda nn: nn.Dropout2d(), lambda nn: nn.Dropout3d(), lambda nn: nn.AlphaDropout(), lambda nn: nn.FeatureAlphaDropout(), lambda nn: nn.Conv1d(2, 3, 1),
    lambda nn: nn.Conv2d(2, 3, 1, padding="same", bias=False), lambda nn: nn.Conv3d(2, 4, 1, stride=2, padding=1, dilation=2, groups=2),
    lambda nn: nn.Conv2d(1, 2, 3, padding="same", padding_mode="reflect"), lambda nn: nn.ConvTranspose1d(2, 3, 2), lambda nn: nn.ConvTranspose2d(2, 3, 2, output_padding=1, stride=2),
    lambda nn: nn.ConvTranspose3d(2, 3, 2, padding=1),
])  # fmt: skip
def test_layers_are_shown_as_in_pytorch(create):
    assert repr(create(nn)) == repr(create(torch_of().nn))


def test_attention_is_shown_with_what_pytorch_has_not():
    assert repr(nn.MultiheadAttention(4, 2)).splitlines()[0] == "MultiheadAttention("
    assert "num_kv_heads=1" in repr(nn.MultiheadAttention(4, 2, num_kv_heads=1)).splitlines()[0]
