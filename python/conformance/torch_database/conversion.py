"""Converts arguments of PyTorch to those of Ternion, and results of Ternion to PyTorch tensors."""

import torch

import ternion


class LeftOut(Exception):
    """A sample that needs an intentionally unsupported feature, such as complex numbers, or that
    PyTorch itself rejects. It is not counted."""


class Rejected(Exception):
    """An argument without a counterpart in Ternion."""


def mapped(value, leaf):
    """Applies `leaf` to everything in a value that is not a list, tuple, dict or slice."""
    if isinstance(value, torch.Size):
        return leaf(value)
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(item, leaf) for item in value])
    if isinstance(value, dict):
        return {key: mapped(item, leaf) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*(mapped(part, leaf) for part in (value.start, value.stop, value.step)))
    return leaf(value)


def flat(value):
    """Returns the tensors and other objects in nested lists, tuples and dicts."""
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in flat(item)]
    if isinstance(value, dict):
        return flat(list(value.values()))
    return [value]


class Arguments:
    """The arguments of a call. `leaves` are the tensors that require a gradient, in order of
    occurrence."""

    def __init__(self, sample, leaf):
        self.leaves = []
        self._leaf, self._known = leaf, {}
        self.args = mapped((sample.input, *sample.args), self._once)
        self.kwargs = mapped(dict(sample.kwargs), self._once)

    def _once(self, value):
        """A tensor that occurs several times is converted only once."""
        if not isinstance(value, torch.Tensor):
            return self._leaf(value)
        if id(value) not in self._known:
            self._known[id(value)] = self._leaf(value)
            if value.requires_grad:
                self.leaves.append(self._known[id(value)])
        return self._known[id(value)]


def own_arguments(sample):
    """Copies arguments for PyTorch."""
    return Arguments(sample, lambda value: _copied(value).requires_grad_(value.requires_grad) if isinstance(value, torch.Tensor) else value)


def wide_arguments(sample):
    """Copies arguments for PyTorch, with all floats in float64."""

    def leaf(value):
        if isinstance(value, torch.Tensor):
            copy = _copied(value)
            return (copy.double() if copy.is_floating_point() else copy).requires_grad_(value.requires_grad)
        return torch.float64 if isinstance(value, torch.dtype) and value.is_floating_point else value

    return Arguments(sample, leaf)


def ternion_arguments(sample, device, strided=False):
    """Copies arguments for Ternion on a device; with `strided`, not contiguous."""

    def leaf(value):
        if not isinstance(value, torch.Tensor):
            return argument_of(value, device)
        tensor = tensor_of(value, device)
        if strided:
            tensor = _strided(tensor)
        return tensor.requires_grad_() if value.requires_grad else tensor

    return Arguments(sample, leaf)


def _copied(tensor):
    return tensor.detach().clone()


def _strided(tensor):
    """Returns the same elements in non-contiguous memory: with two axes swapped, or as every other
    element of a larger tensor."""
    if tensor.ndim >= 2:
        return tensor.transpose(0, -1).clone().contiguous().transpose(0, -1)
    if tensor.ndim == 1:
        return ternion.stack([tensor, tensor], 1)[:, 0]
    return ternion.stack([tensor, tensor])[1]


def tensor_of(value, device):
    """Copies a tensor, preserving the order of its axes in memory."""
    if value.is_complex():
        raise LeftOut("complex numbers")
    if value.layout != torch.strided or value.is_quantized:
        raise LeftOut("sparse or quantized tensors")
    if value.is_meta:
        raise LeftOut("tensors without memory (device meta)")
    _named("dtype", dtype_name(value.dtype), device)
    value = value.detach().resolve_neg()
    order = sorted(range(value.ndim), key=lambda axis: -value.stride(axis))
    plain = value.permute(order).contiguous().clone()
    tensor = ternion.from_dlpack(plain, copy=True)
    if order != sorted(order):
        tensor = tensor.permute([order.index(axis) for axis in range(value.ndim)])
    return tensor.to(device) if device != "cpu" else tensor


def dtype_name(dtype):
    return str(dtype).rpartition(".")[2]


def argument_of(value, device):
    """Converts an argument that is not a tensor."""
    if isinstance(value, torch.Size):
        return ternion.Size(value)
    if isinstance(value, torch.dtype):
        if value.is_complex:
            raise LeftOut("complex numbers")
        return _named("dtype", dtype_name(value), device)
    if isinstance(value, torch.memory_format):
        return _named("memory format", dtype_name(value))
    if isinstance(value, torch.layout):
        if value != torch.strided:
            raise LeftOut("sparse tensors")
        return _named("layout", "strided")
    if isinstance(value, torch.device) or (isinstance(value, str) and value in ("cpu", "cuda")):
        return ternion.device(device)
    if isinstance(value, torch.Generator):
        return ternion.Generator(device).manual_seed(value.initial_seed() % 2**63)
    if isinstance(value, torch.nn.Module):
        return getattr(ternion.nn, type(value).__name__)()
    if isinstance(value, complex):
        raise LeftOut("complex numbers")
    if isinstance(value, torch.storage.UntypedStorage):
        raise LeftOut("storages")
    return value


def _named(what, name, device="cpu"):
    if device == "wgpu" and name == "float64":
        raise LeftOut("float64, which wgpu has not")
    if not hasattr(ternion, name):
        raise Rejected(f"{what} {name}")
    return getattr(ternion, name)


def torch_of(tensor):
    """Converts a result of Ternion to a PyTorch tensor."""
    tensor = tensor.detach()
    if str(tensor.device) != "cpu":
        tensor = tensor.cpu()
    return torch.from_dlpack(tensor)
