"""`Module`: what models are made of."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .._names import note_name, note_owner, note_plain
from .._places import note_module
from .._scopes import no_grad
from .._ternion import Parameter, Tensor, _trust
from .._warnings import warn_caller
from ._hooks import Hooks, RemovableHandle, _Hook
from ._parts import BUFFERS as _BUFFERS, HOOKS as _HOOKS, KINDS as _KINDS, own as _own, walk as walk
from ._state import IncompatibleKeys as IncompatibleKeys, Stateful, gathered, taken

if TYPE_CHECKING:
    from ._calls import Forwards, P, R
    from typing_extensions import Self

class Module(Stateful):
    """A model or part of one.

    A subclass assigns parameters and modules to attributes and says in `forward` how it computes. Attributes are found as they are, a module's
    own parameters before those of the modules within, also within lists, tuples and dicts; `super().__init__()` may be called, but need not be.

        class Classifier(nn.Module):
            def __init__(self):
                self.hidden = [nn.Linear(784, 128), nn.Linear(128, 128)]
                self.output = nn.Linear(128, 10)

            def forward(self, x):
                for layer in self.hidden:
                    x = layer(x).relu()
                return self.output(x)

    Raises:
        TypeError: something else is put in the place of a parameter or a module.
        AttributeError: an attribute that is not there.
    """

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """What the module computes.

        Raises:
            NotImplementedError: the subclass does not say it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self: Forwards[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        hooks = self.__dict__.get(_HOOKS)
        if hooks is not None:
            return hooks.call(self, _forward, args, kwargs)
        return _trust.in_layer(self, self.forward, args, kwargs) if _trust.layers_are_watched() else self.forward(*args, **kwargs)

    # ---- Hooks

    def register_forward_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
        """Calls `hook(module, args, result)` after each `forward`; what it returns, if not None, takes the result's place.

        Args:
            prepend: before the hooks that are there.
            with_kwargs: calls `hook(module, args, kwargs, result)`.
            always_call: also after an exception, with None for the result.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after, _Hook(hook, with_kwargs, always_call), prepend)

    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Calls `hook(module, args)` before each `forward`; what it returns, if not None, takes the place of the arguments: a tuple, or the only one.

        Args:
            prepend: before the hooks that are there.
            with_kwargs: calls `hook(module, args, kwargs)`, which returns None or both.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before, _Hook(hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` in a backward pass, once the gradients of all inputs that ask for one are there.

        Both are tuples with None for what has no gradient. If a single input asks for a gradient, what the hook returns, if not None, takes its place. A module
        none of whose inputs asks for one is told when the gradients of its outputs are there.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.backward, _Hook(hook), prepend)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` in a backward pass before that of the module; what it returns, if not None, takes the gradient's place.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_backward, _Hook(hook), prepend)

    # ---- Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        if isinstance(value, (Parameter, Module)):
            own.get(_BUFFERS, {}).pop(name, None)
            kinds, kind = own.setdefault(_KINDS, {}), "parameter" if isinstance(value, Parameter) else "module"
            if kinds.get(name) != kind:
                # What was something else comes behind the others, as in PyTorch.
                own.pop(name, None)
                kinds.pop(name, None)
                kinds[name] = kind
            note_module(self)
            if kind == "parameter":
                note_owner(value, type(self).__name__, name)
        elif name == "requires_grad":
            told = f"{type(self).__name__}.requires_grad = {value!r} sets an attribute that nothing reads: requires_grad_({value!r}) counts for its parameters"
            warn_caller(told)
        elif value is not None:
            _check_kind(self, name, value)
            if type(value) is Tensor:
                if getattr(value, "_is_buffer", False):
                    own.setdefault(_BUFFERS, {})[name] = value.persistent  # type: ignore[attr-defined]
                _note_plain(self, name, value)
            elif type(value) in (list, tuple, dict):
                note_module(self)
                _note_plain_within(self, name, value)
        object.__setattr__(self, name, value)

    def __setstate__(self, state: Any) -> None:
        # Copies and what is unpickled get their attributes at once, not one by one: their parameters are noted here.
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        self.__dict__.update(attributes or {})
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)
        note_module(self)
        for key, member in _own(self):
            if isinstance(member, Parameter):
                note_owner(member, type(self).__name__, key)
        for name, value in self.__dict__.items():
            if type(value) is Tensor:
                _note_plain(self, name, value)
            elif type(value) in (list, tuple, dict):
                _note_plain_within(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        for kept in (_KINDS, _BUFFERS):
            self.__dict__.get(kept, {}).pop(name, None)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Makes a tensor that is not trained part of the state, unless `persistent` is False; it moves with the module.

        Raises:
            TypeError: no tensor.
            KeyError: a name that is taken, or that has a dot.
        """
        _check_name(self, "register_buffer", name, name in self.__dict__.get(_BUFFERS, ()))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} of type {type(tensor).__name__}, expected a tensor or None")
        self.__dict__.setdefault(_BUFFERS, {})[name] = persistent
        self.__dict__.get(_KINDS, {}).pop(name, None)
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """`setattr`, of a parameter; None keeps the name for one.

        Raises:
            TypeError: no parameter.
            KeyError: a name that is taken, or that has a dot.
        """
        _check_name(self, "register_parameter", name, self.__dict__.get(_KINDS, {}).get(name) == "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"register_parameter: {name!r} of type {type(param).__name__}, expected a nn.Parameter or None")
        self.__dict__.setdefault(_KINDS, {})[name] = "parameter"
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """`setattr`, of a module; None keeps the name for one.

        Raises:
            TypeError: no module.
            KeyError: a name that is taken, or that has a dot.
        """
        _check_name(self, "add_module", name, self.__dict__.get(_KINDS, {}).get(name) == "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} of type {type(module).__name__}, expected a nn.Module or None")
        self.__dict__.setdefault(_KINDS, {})[name] = "module"
        setattr(self, name, module)

    register_module = add_module

    # ---- What it is made of

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The modules that are this module's own, each once, with their keys."""
        seen = set()
        for key, value in _own(self):
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield key, value

    def children(self) -> Iterator[Module]:
        """The modules that are this module's own, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """This module and all within it, each once unless `remove_duplicate` is False, with their keys."""
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for key, child in _own(self):
            if isinstance(child, Module):
                yield from child.named_modules(memo, f"{prefix}.{key}" if prefix else key, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all within it, each once."""
        for _, module in self.named_modules():
            yield module

    def get_submodule(self, target: str) -> Module:
        """The module of a key, such as "layers.0"; that of "" is this one.

        Raises:
            AttributeError: there is none.
        """
        found = _found(self, target)
        if not isinstance(found, Module):
            raise AttributeError(f"{target!r} is a {type(found).__name__}, expected a nn.Module")
        return found

    def get_parameter(self, target: str) -> Parameter:
        """The parameter of a key, such as "layers.0.weight".

        Raises:
            AttributeError: there is none.
        """
        found = _found(self, target)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{target!r} is a {type(found).__name__}, expected a nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer of a key.

        Raises:
            AttributeError: there is none.
        """
        owner, _, name = target.rpartition(".")
        module = self.get_submodule(owner)
        if name not in module.__dict__.get(_BUFFERS, ()):
            raise AttributeError(f"{target!r} is no buffer of {type(self).__name__}")
        return getattr(module, name)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """The parameters with their keys; one that several modules share comes once, unless `remove_duplicate` is False."""
        seen = set()
        for key, parameter in walk(self, prefix, recurse):
            if isinstance(parameter, Parameter) and not (remove_duplicate and id(parameter) in seen):
                seen.add(id(parameter))
                note_name(parameter, key)
                yield key, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """The parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """The tensors of the state that are not trained, with their keys; each once, unless `remove_duplicate` is False."""
        seen = set()
        for key, value in walk(self, prefix, recurse):
            if not isinstance(value, Parameter) and not (remove_duplicate and id(value) in seen):
                seen.add(id(value))
                yield key, value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """The tensors of the state that are not trained, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- State

    def state_dict(self, destination: dict[str, Tensor] | None = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Parameters and buffers by key, as they are now: they share memory with the module, as in PyTorch.

        Args:
            destination: a dict to put them into, and to return.
            prefix: what keys begin with, such as "model.".
            keep_vars: the parameters themselves rather than tensors without history.
        """
        return gathered(self, {} if destination is None else destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Overwrites parameters and buffers with the tensors of `state_dict`. Nothing is changed unless all of them fit.

        Args:
            strict: whether keys that are missing or unexpected are an error.
            assign: takes over the tensors' memory and dtype instead of overwriting.

        Returns:
            the keys that are missing and unexpected, as `missing_keys` and `unexpected_keys`.

        Raises:
            RuntimeError: a list of all keys that are missing, unexpected or of another shape, in this order.
            TypeError: no dict, or values that are no tensors.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: a {type(state_dict).__name__}, expected a dict of tensors")
        return taken(self, state_dict, strict, assign)

    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before the module's part of a state dict is gathered.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_state, _Hook(hook), False)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after the state dict was gathered, which it may change; `local_metadata` is an empty dict.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after_state, _Hook(hook), False)

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)` before a state is taken.

        It may change `state_dict`, which is a copy, and put words into `error_msgs`, which are an error then.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_load, _Hook(hook), False)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after `load_state_dict` overwrote the tensors; keys that it takes out of the lists are no error.

        Where there is such a hook, tensors are overwritten before keys that are missing or unexpected are an error.

        Raises:
            TypeError: a hook that is no function.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after_load, _Hook(hook), False)

    # ---- Changes of all of it

    def train(self, mode: bool = True) -> Self:
        """Puts layers that differ between training and use (dropout, batch norm) into training; the module itself.

        Raises:
            ValueError: a mode that is neither True nor False.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode {mode!r}, expected True or False")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Puts layers that differ between training and use into use; the module itself."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Takes all parameters into training, or out of it; the module itself.

        Raises:
            TypeError: a `requires_grad` that is neither True nor False.
        """
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
        """Moves parameters and buffers to a device, converts floating ones to a dtype, or both; the module itself.

        Raises:
            RuntimeError: a device that there is not.
            TypeError: a dtype that is not known.
        """
        # Copies are made in order here: there is nothing to wait for less.
        kwargs.pop("non_blocking", None)
        for module in self.modules():
            for name in module.__dict__.get(_BUFFERS, ()):
                value = module.__dict__[name]
                if value is not None:
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
        """`to("cuda")`.

        Raises:
            RuntimeError: there is no such device.
        """
        return self.to(f"cuda:{device or 0}")

    def type(self, dst_type: Any) -> Self:
        """Floating parameters and buffers in this dtype.

        Raises:
            TypeError: a dtype that is not known.
        """
        return self.to(dtype=dst_type)

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
        """Calls `fn` with every module, those within before those around them; the module itself.

        Raises:
            TypeError: no function.
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """What `repr` says of the module besides the modules within."""
        return ""

    def _get_name(self) -> str:
        """What `repr` calls the module."""
        return type(self).__name__

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        parts = [(key, child) for key, child in _own(self) if isinstance(child, Module)]
        lines = [f"({key}): {child!r}".replace("\n", "\n  ") for key, child in parts]
        extra = self.extra_repr()
        if not lines:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}({extra}\n  " + "\n  ".join(lines) + "\n)"


# No methods: a subclass may have attributes of any name.


def _hooks_of(module) -> Hooks:
    return module.__dict__.setdefault(_HOOKS, Hooks())


def _note_plain(module, name, value):
    """Notes a tensor that asks for a gradient as a parameter does. What a module keeps while it computes is an input, such as one whose gradient is looked at."""
    if value.requires_grad and value.is_leaf and not _is_computing():
        note_plain(value, type(module).__name__, name)


def _note_plain_within(module, name, values):
    """The same of tensors in a list, a tuple or a dict."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if type(value) is Tensor:
            _note_plain(module, f"{name}[{key!r}]", value)


def _is_computing():
    """Whether a module is being called."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is Module.__call__.__code__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _forward(module, *args, **kwargs):
    return _trust.in_layer(module, module.forward, args, kwargs) if _trust.layers_are_watched() else module.forward(*args, **kwargs)


def _check_kind(module, name, value):
    """That a value which is neither a parameter nor a module does not take the place of one."""
    kind, given = module.__dict__.get(_KINDS, {}).get(name), type(value).__name__
    if kind == "parameter":
        raise TypeError(f"cannot assign a {given} as parameter {name!r}: expected a nn.Parameter or None; its values are changed by .data or copy_()")
    if kind == "module":
        raise TypeError(f"cannot assign a {given} as child module {name!r}: expected a nn.Module or None")
    if name in module.__dict__.get(_BUFFERS, ()) and not isinstance(value, Tensor):
        raise TypeError(f"cannot assign a {given} as buffer {name!r}: expected a tensor or None")


def _check_name(module, what, name, known):
    """That a name is a plain one, and is not taken by anything but what is `known` under it."""
    if not isinstance(name, str):
        raise TypeError(f"{what}: the name {name!r} is of type {type(name).__name__}, expected a str")
    if not name or "." in name:
        raise KeyError(f"{what}: the name {name!r}, expected one without dots")
    if hasattr(module, name) and not known:
        raise KeyError(f"{what}: {type(module).__name__} has an attribute {name!r} already")


def _found(module, target):
    found: Any = module
    for part in target.split(".") if target else ():
        try:
            found = found[int(part)] if isinstance(found, (list, tuple)) else found[part] if isinstance(found, dict) else getattr(found, part)
        except (AttributeError, LookupError, ValueError):
            raise AttributeError(f"{type(module).__name__} has no {target!r}: {type(found).__name__} has no {part!r}") from None
    return found


def _moved(value, args, kwargs):
    """The tensor where and what was asked for; whole numbers keep their dtype."""
    moved = value.to(*args, **kwargs)
    if not value.is_floating_point() and moved.dtype != value.dtype:
        moved = value.to(moved.device)
    return moved
