"""`compare_models`: compares the parameters, and layer by layer the outputs and gradients, of two
models. The second one may be a PyTorch model.
"""

from __future__ import annotations

import abc
import sys
from typing import Any

import numpy as np

from .. import _tree, nn
from .._scopes import enable_grad, no_grad
from .._ternion import Tensor, tensor
from ._agreement import Item, compare, input_tensors, perturbed, require_comparable
from ._devices import values_of


def compare_models(model: Any, other: Any, inputs: Any, seed: int = 0) -> int:
    """Checks that two models are the same.

    Parameters and buffers are compared, then the outputs of each layer in the order of computation,
    then, for the same random cotangents of the outputs, the gradients with respect to the output of
    each layer, from the last layer to the first, and at the end the gradients of inputs and
    parameters.

    Layers are matched by their keys. `other` is the reference; the tolerances are those of
    `compare_devices`. The models are not changed.

    Args:
        model: A module.
        other: A module of Ternion, on any device, or a PyTorch module.
        inputs: A tensor, or a tuple of arguments, for `model`. They are copied to the device of
            `other`.
        seed: The seed of the random weights.

    Returns:
        The number of compared elements.

    Raises:
        AssertionError: If a parameter, a layer's output or a gradient differs (the message names
            the first one, the index and both values), or if a key is missing in one of the models.
        ValueError: If nothing was compared, or if a model is not deterministic (dropout).
        TypeError: If a model is not a module, or if the inputs contain no tensor.
    """
    sides = [_side(part) for part in (model, other)]
    input_tensors(model, inputs, "compare_models")
    names = (sides[0].name("the first model"), sides[1].name("the second model"))
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    states = [side.state() for side in sides]
    keys = [[name for name, _, _ in state] for state in states]
    _same_keys("parameters and buffers", keys[0], keys[1], names)
    compared = compare(states[0], states[1], names, lambda rng: states[1])
    first, second = (side.run(arguments, seed, None) for side in sides)
    common = _common_names(first, second, names)
    second_items = _select(second, common)

    def rerun(rng):
        return _select(sides[1].run(arguments, seed, rng), common)

    compared += compare(_select(first, common), second_items, names, rerun)
    require_comparable([item for item in second_items if item[0].endswith(" of the model")], "compare_models")
    require_comparable([item for item in second_items if item[0].startswith("gradient")] or second_items, "compare_models")
    return compared


def _same_keys(kind, first, second, names):
    missing = [key for key in second if key not in first]
    extra = [key for key in first if key not in second]
    if missing or extra:
        parts = [f"{names[0]} lacks {', '.join(missing)}"] * bool(missing) + [f"{names[1]} lacks {', '.join(extra)}"] * bool(extra)
        raise AssertionError(f"the models have other {kind}: {'; '.join(parts)}")


def _common_names(first, second, names):
    """Returns the names of items that both sides computed, in the order of the first: containers
    that exist in only one model are ignored, but not layers with parameters.
    """
    name_sets = [{name for name, *_ in items} for items in (first, second)]
    ends = [[name for name, *_ in items if "output of layer" not in name] for items in (first, second)]
    _same_keys("outputs and gradients", ends[0], ends[1], names)
    return [name for name, *_ in first if name in name_sets[1]]


def _select(items, names):
    by_name = {item[0]: item for item in items}
    return [by_name[name] for name in names]


def _side(module: Any) -> _Side:
    if isinstance(module, nn.Module):
        return _Ternion(module)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(module, torch.nn.Module):
        return _PyTorch(module, torch)
    actual = f"the class {module.__name__}" if isinstance(module, type) else type(module).__name__
    raise TypeError(f"compare_models: {actual}, expected a module of ternion or torch")


class _Side(abc.ABC):
    """A model of a library. Subclasses implement what differs between the libraries."""

    def __init__(self, module: Any):
        self._module = module

    @abc.abstractmethod
    def name(self, which: str) -> str:
        """Returns the name of the model in messages."""

    @abc.abstractmethod
    def _values(self, value: Any) -> tuple[str, np.ndarray]:
        """Returns the name of the dtype, and the elements on the host."""

    @abc.abstractmethod
    def _copy(self, value: Any) -> Any:
        """Returns a copy of a tensor."""

    @abc.abstractmethod
    def _write(self, value: Any, values: Any) -> None:
        """Overwrites a tensor with another one, or with an array."""

    @abc.abstractmethod
    def _arguments(self, arguments: Any, rng: Any) -> tuple[list[Any], Any]:
        """Returns the tensors of the arguments as leaves on the model's device, perturbed if
        requested, and a function that calls the model with them.
        """

    @abc.abstractmethod
    def _tensors(self, result: Any) -> list[Any]:
        """Returns the tensors in the result of a layer."""

    @abc.abstractmethod
    def _backward(self, roots: list[Any], draw: Any) -> None:
        """Computes the gradients for random cotangents of the outputs."""

    def state(self) -> list[Item]:
        """Returns parameters and buffers."""
        parameters = [(f"parameter {key}", *self._values(value)) for key, value in self._module.named_parameters()]
        # PyTorch counts batches; the count does not affect results.
        buffers = [(key, value) for key, value in self._module.named_buffers() if not key.endswith("num_batches_tracked")]
        return parameters + [(f"buffer {key}", *self._values(value)) for key, value in buffers]

    def run(self, arguments, seed, rng) -> list[Item]:
        """Returns everything that a forward and a backward pass compute. With `rng`, inputs and
        parameters are perturbed. The model is not changed.
        """
        tensors = [value for _, value in [*self._module.named_parameters(), *self._module.named_buffers()]]
        saved = [self._copy(value) for value in tensors]
        grads = [(parameter, parameter.grad) for parameter in self._module.parameters()]
        try:
            for parameter in self._module.parameters():
                parameter.grad = None
                if rng is not None:
                    name, values = self._values(parameter)
                    self._write(parameter, perturbed(values, name, rng))
            return self._compute(arguments, np.random.default_rng(seed % 2**64), rng)
        finally:
            for value, copy in zip(tensors, saved):
                self._write(value, copy)
            for parameter, grad in grads:
                parameter.grad = grad

    def _compute(self, arguments, draw, rng):
        leaves, call = self._arguments(arguments, rng)
        forward: list[Item] = []
        backward: list[Item] = []
        hooks = [module.register_forward_hook(self._recording_hook(key, forward, backward)) for key, module in self._module.named_modules()]
        try:
            outputs = self._tensors(call())
        finally:
            for hook in hooks:
                hook.remove()
        forward += [(f"output {number} of the model", *self._values(output)) for number, output in enumerate(outputs)]
        buffers = [(key, value) for key, value in self._module.named_buffers() if not key.endswith("num_batches_tracked")]
        forward += [(f"buffer {key} after the forward", *self._values(value)) for key, value in buffers]
        self._backward([output for output in outputs if output.requires_grad], draw)
        gradients = [(f"input {number}", leaf) for number, leaf in enumerate(leaves)]
        gradients += [(f"parameter {key}", value) for key, value in self._module.named_parameters()]
        named_grads = [(f"gradient of {name}", value.grad) for name, value in gradients if value.requires_grad]
        grads = [(name, "none", None) if grad is None else (name, *self._values(grad)) for name, grad in named_grads]
        return forward + backward + grads

    def _recording_hook(self, key, forward, backward):
        """Returns a hook that records the output of a layer, and the gradient with respect to it.
        """
        counts = [0]

        def record(module, _, result):
            for output in self._tensors(result):
                # Without its class, whose name may differ in PyTorch.
                name = (f"layer {key}" if key else "the model itself") + (f", tensor {counts[0]}" if counts[0] else "")
                counts[0] += 1
                forward.append((f"output of {name}", *self._values(output)))
                if output.requires_grad:
                    output.register_hook(lambda grad, name=name: backward.append((f"gradient of the output of {name}", *self._values(grad))))

        return record


class _Ternion(_Side):
    def name(self, which):
        parameter = next(iter(self._module.parameters()), None)
        return f"{which} ({parameter.device})" if parameter is not None else which

    def _values(self, value):
        return values_of(value)

    def _copy(self, value):
        return value.detach().clone()

    def _write(self, value, values):
        with no_grad():
            source = values if isinstance(values, Tensor) else tensor(values)
            value.copy_(source.to(value.dtype).to(value.device))

    def _arguments(self, arguments, rng):
        device = next((parameter.device for parameter in self._module.parameters()), None)
        tensors, rebuild = _tree.flatten(arguments)
        leaves = []
        for value in tensors:
            value = value.detach()
            if value.is_floating_point():
                if rng is not None:
                    name, values = values_of(value)
                    value = tensor(perturbed(values, name, rng)).to(value.dtype).to(value.device)
                value = value.to(device) if device is not None else value
                leaves.append(value.detach().requires_grad_())
            else:
                leaves.append(value.to(device) if device is not None else value)

        def call():
            with enable_grad():
                return self._module(*rebuild(leaves))

        return leaves, call

    def _tensors(self, result):
        return _tree.flatten(result)[0]

    def _backward(self, roots, draw):
        total = None
        for root in roots:
            weights = tensor(draw.uniform(-1.0, 1.0, size=root.shape)).to(root.dtype).to(root.device)
            part = (root * weights).sum()
            total = part if total is None else total + part
        if total is not None:
            total.backward()


class _PyTorch(_Side):
    def __init__(self, module, torch):
        super().__init__(module)
        self._torch = torch

    def name(self, which):
        return f"{which} (PyTorch)"

    def _values(self, value):
        name = str(value.dtype).split(".")[-1]
        host = value.detach().cpu()
        floating = host.is_floating_point()
        return name, (host.double() if floating else host).numpy().astype(np.float64 if floating else np.int64)

    def _copy(self, value):
        return value.detach().clone()

    def _write(self, value, values):
        with self._torch.no_grad():
            value.copy_(values if isinstance(values, self._torch.Tensor) else self._torch.from_numpy(np.array(values)))

    def _arguments(self, arguments, rng):
        torch = self._torch
        device = next((parameter.device for parameter in self._module.parameters()), "cpu")
        tensors, rebuild = _tree.flatten(arguments)
        leaves = []
        for value in tensors:
            name, values = values_of(value)
            if value.is_floating_point() and rng is not None:
                values = perturbed(values, name, rng)
            leaf = torch.from_numpy(np.array(values)).to(getattr(torch, name)).to(device)
            leaves.append(leaf.requires_grad_() if value.is_floating_point() else leaf)

        def call():
            with torch.enable_grad():
                return self._module(*rebuild(leaves))

        return leaves, call

    def _tensors(self, result):
        if isinstance(result, self._torch.Tensor):
            return [result]
        if isinstance(result, dict):
            result = list(result.values())
        if isinstance(result, (tuple, list)):
            return [value for item in result for value in self._tensors(item)]
        return []

    def _backward(self, roots, draw):
        weights = [self._torch.from_numpy(draw.uniform(-1.0, 1.0, size=tuple(root.shape))).to(root.dtype).to(root.device) for root in roots]
        if roots:
            self._torch.autograd.backward(roots, weights)
