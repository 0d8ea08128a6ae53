"""`Module`: what models are made of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .._ternion import Parameter, Tensor, _trust, tensor
from .._scopes import no_grad

if TYPE_CHECKING:
    from ._calls import Forwards, P, R
    from typing_extensions import Self


def _members(value, key):
    """The parameters, buffers and modules within an attribute, with their keys: lists, tuples and dicts are looked into."""
    if isinstance(value, (Parameter, Module)):
        yield key, value
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from _members(item, f"{key}.{number}")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _members(item, f"{key}.{name}")


class Module:
    """A model or part of one.

    A subclass assigns parameters and modules to attributes and says in `forward` how it computes. Attributes are found as they are, in the order of
    assignment, also within lists, tuples and dicts; `super().__init__()` may be called, but need not be.

        class Classifier(nn.Module):
            def __init__(self):
                self.hidden = [nn.Linear(784, 128), nn.Linear(128, 128)]
                self.output = nn.Linear(128, 10)

            def forward(self, x):
                for layer in self.hidden:
                    x = layer(x).relu()
                return self.output(x)
    """

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes."""
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self: Forwards[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        watched = _trust.layers_are_watched()
        result = _trust.in_layer(self, self.forward, args, kwargs) if watched else self.forward(*args, **kwargs)
        for hook in self.__dict__.get("_forward_hooks", ()):
            changed = hook(self, args, result)
            result = result if changed is None else changed
        return result

    def register_forward_hook(self, hook: Any) -> Any:
        """Calls `hook(module, arguments, result)` after each `forward`; what it returns, if not None, takes the result's place."""
        hooks = self.__dict__.setdefault("_forward_hooks", [])
        hooks.append(hook)
        return _Removal(hooks, hook)

    # ---- What it is made of

    def _own(self):
        """Parameters and modules of this module's attributes, with their keys."""
        for name, value in list(self.__dict__.items()):
            if not name.startswith("_"):
                yield from _members(value, name)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Makes a tensor that is not trained part of the state, unless `persistent` is False; it moves with the module."""
        self.__dict__.setdefault("_buffer_names", {})[name] = persistent
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """`setattr`."""
        setattr(self, name, param)

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are this module's own, with their keys."""
        for key, value in self._own():
            if isinstance(value, Module):
                yield key, value

    def children(self) -> Iterator[Module]:
        """The modules that are this module's own."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, prefix: str = "", _seen: Any = None) -> Iterator[tuple[str, Module]]:
        """This module and all within it, each once, with their keys."""
        seen = set() if _seen is None else _seen
        if id(self) in seen:
            return
        seen.add(id(self))
        yield prefix, self
        for key, child in self.named_children():
            yield from child.named_modules(f"{prefix}.{key}" if prefix else key, seen)

    def modules(self) -> Iterator[Module]:
        """This module and all within it, each once."""
        for _, module in self.named_modules():
            yield module

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their keys; one that several modules share comes once, unless `remove_duplicate` is False."""
        seen = set()
        for key, parameter in self._walk(prefix, recurse):
            if isinstance(parameter, Parameter) and not (remove_duplicate and id(parameter) in seen):
                seen.add(id(parameter))
                yield key, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The tensors of the state that are not trained, with their keys."""
        for key, value in self._walk(prefix, recurse):
            if not isinstance(value, Parameter):
                yield key, value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors of the state that are not trained."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def _walk(self, prefix="", recurse=True, persistent=False):
        """Parameters and buffers with their keys, in the order of assignment."""
        dot = f"{prefix}." if prefix else ""
        buffers = self.__dict__.get("_buffer_names", {})
        for name, value in list(self.__dict__.items()):
            if name in buffers:
                if value is not None and (buffers[name] or not persistent):
                    yield dot + name, value
            elif not name.startswith("_"):
                for key, member in _members(value, name):
                    if isinstance(member, Module):
                        if recurse:
                            yield from member._walk(dot + key, True, persistent)
                    else:
                        yield dot + key, member

    # ---- State

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by key, as they are now: they share memory with the module, as in PyTorch."""
        return {key: value.detach() for key, value in self._walk(persistent=True)}

    def load_state_dict(self, state_dict: Any, strict: bool = True) -> Any:
        """Overwrites parameters and buffers with the tensors of `state_dict`. Nothing is changed unless all of them fit.

        Raises:
            RuntimeError: a list of all keys that are missing, unexpected or of another shape.
        """
        own = dict(self._walk(persistent=True))
        missing = [key for key in own if key not in state_dict]
        unexpected = [key for key in state_dict if key not in own]
        wrong = [
            f"size mismatch for {key}: {tuple(state_dict[key].shape)}, expected {tuple(value.shape)}"
            for key, value in own.items()
            if key in state_dict and tuple(state_dict[key].shape) != tuple(value.shape)
        ]
        told = wrong
        if strict:
            told = told + ([f"missing: {', '.join(missing)}"] if missing else [])
            told = told + ([f"unexpected: {', '.join(unexpected)}"] if unexpected else [])
        if told:
            raise RuntimeError(f"the state does not fit {type(self).__name__}: " + "; ".join(told))
        with no_grad():
            for key, value in own.items():
                if key in state_dict:
                    source = state_dict[key]
                    value.copy_(source if isinstance(source, Tensor) else tensor(source))
        return missing, unexpected

    # ---- Changes of all of it

    def train(self, mode: bool = True) -> Self:
        """Puts layers that differ between training and use (dropout, batch norm) into training; the module itself."""
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Puts layers that differ between training and use into use; the module itself."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Takes all parameters into training, or out of it; the module itself."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets the gradients of all parameters, or makes them 0."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, converts floating ones to a dtype, or both; the module itself."""
        for module in self.modules():
            buffers = module.__dict__.get("_buffer_names", {})
            for name, value in list(module.__dict__.items()):
                if name in buffers and value is not None:
                    setattr(module, name, _moved(value, args, kwargs))
        for parameter in self.parameters():
            grad = parameter.grad
            with no_grad():
                parameter.data = _moved(parameter.data, args, kwargs)
                if grad is not None:
                    parameter.grad = _moved(grad, args, kwargs)
        return self

    def cpu(self) -> Self:
        """`to("cpu")`."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """`to("cuda")`."""
        return self.to(f"cuda:{device or 0}")

    def float(self) -> Self:
        """Floating parameters and buffers as float32."""
        return self.to("float32")

    def double(self) -> Self:
        """Floating parameters and buffers as float64."""
        return self.to("float64")

    def half(self) -> Self:
        """Floating parameters and buffers as float16."""
        return self.to("float16")

    def bfloat16(self) -> Self:
        """Floating parameters and buffers as bfloat16."""
        return self.to("bfloat16")

    def apply(self, fn: Any) -> Self:
        """Calls `fn` with every module, those within before those around them; the module itself."""
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """What `repr` says of the module besides the modules within."""
        return ""

    def __repr__(self) -> str:
        lines = [f"({key}): {child!r}".replace("\n", "\n  ") for key, child in self.named_children()]
        extra = self.extra_repr()
        if not lines:
            return f"{type(self).__name__}({extra})"
        return f"{type(self).__name__}({extra}\n  " + "\n  ".join(lines) + "\n)"


class _Removal:
    """Removes a hook."""

    def __init__(self, hooks: Any, hook: Any):
        self._hooks, self._hook = hooks, hook

    def remove(self):
        if self._hook in self._hooks:
            self._hooks.remove(self._hook)


def _moved(value, args, kwargs):
    """The tensor where and what was asked for; whole numbers keep their dtype."""
    moved = value.to(*args, **kwargs)
    if not value.is_floating_point() and moved.dtype != value.dtype:
        moved = value.to(moved.device)
    return moved
