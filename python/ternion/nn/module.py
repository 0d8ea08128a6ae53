"""`Module`: the base class of models and layers."""

from __future__ import annotations

import reprlib
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .._names import record_name, record_owner, record_plain
from .._parameter_keys import record_module
from .._scopes import no_grad
from .._ternion import Parameter, Tensor, _trust
from .._warnings import warn_caller
from ._hooks import Hooks, RemovableHandle, _Hook
from ._members import BUFFERS as _BUFFERS, HOOKS as _HOOKS, KINDS as _KINDS, own_members as _own_members, named_tensors
from ._state import IncompatibleKeys as IncompatibleKeys, Stateful, collect_state, load_state

if TYPE_CHECKING:
    from ._calls import Forwards, P, R
    from typing_extensions import Self

class Module(Stateful):
    """Base class of all models and layers.

    A subclass assigns parameters and modules to attributes and defines the computation in
    `forward`. Parameters and modules are found in attributes directly, and also within lists,
    tuples and dicts. A module's own parameters come before those of its submodules. Calling
    `super().__init__()` is allowed but not required.

        class Classifier(nn.Module):
            def __init__(self):
                self.hidden = [nn.Linear(784, 128), nn.Linear(128, 128)]
                self.output = nn.Linear(128, 10)

            def forward(self, x):
                for layer in self.hidden:
                    x = layer(x).relu()
                return self.output(x)

    Raises:
        TypeError: If a parameter or a module is replaced by another kind of value.
        AttributeError: If an attribute does not exist.
    """

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the output of the module.

        Raises:
            NotImplementedError: If the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no forward()")

    def __call__(self: Forwards[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        hooks = self.__dict__.get(_HOOKS)
        if hooks is not None:
            return hooks.call(self, _forward, args, kwargs)
        return _trust.in_layer(self, self.forward, args, kwargs) if _trust.layers_are_observed() else self.forward(*args, **kwargs)

    # ---- Hooks

    def register_forward_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False, always_call: bool = False) -> RemovableHandle:
        """Calls `hook(module, args, result)` after each `forward`. If it returns a value other than
        None, that value replaces the result.

        Args:
            prepend: whether to call the hook before the existing ones.
            with_kwargs: calls `hook(module, args, kwargs, result)`.
            always_call: whether to call the hook also after an exception, with None as the result.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after, _Hook(hook, with_kwargs, always_call), prepend)

    def register_forward_pre_hook(self, hook: Any, *, prepend: bool = False, with_kwargs: bool = False) -> RemovableHandle:
        """Calls `hook(module, args)` before each `forward`. If it returns a value other than None,
        that value replaces the arguments: a tuple, or the only argument.

        Args:
            prepend: whether to call the hook before the existing ones.
            with_kwargs: calls `hook(module, args, kwargs)`, which returns None or both.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before, _Hook(hook, with_kwargs), prepend)

    def register_full_backward_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_input, grad_output)` in the backward pass, once the gradients of
        all inputs that require one have been computed.

        Both are tuples, with None for tensors without a gradient. If exactly one input requires a
        gradient, a value other than None that the hook returns replaces that gradient. If no input
        requires a gradient, the hook is called when the gradients of the outputs have been
        computed.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.backward, _Hook(hook), prepend)

    def register_full_backward_pre_hook(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Calls `hook(module, grad_output)` in the backward pass before that of the module. If it
        returns a value other than None, that value replaces the gradient.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_backward, _Hook(hook), prepend)

    # ---- Attributes

    def __setattr__(self, name: str, value: Any) -> None:
        attributes = self.__dict__
        if isinstance(value, (Parameter, Module)):
            attributes.get(_BUFFERS, {}).pop(name, None)
            kinds, kind = attributes.setdefault(_KINDS, {}), "parameter" if isinstance(value, Parameter) else "module"
            if kinds.get(name) != kind:
                # An attribute that changes its kind moves to the end, as in PyTorch.
                attributes.pop(name, None)
                kinds.pop(name, None)
                kinds[name] = kind
            record_module(self)
            if kind == "parameter":
                record_owner(value, type(self).__name__, name)
        elif name == "requires_grad":
            message = f"{type(self).__name__}.requires_grad = {value!r} sets an attribute that nothing reads: requires_grad_({value!r}) counts for its parameters"
            warn_caller(message)
        elif value is not None:
            _check_kind(self, name, value)
            if type(value) is Tensor:
                if getattr(value, "_is_buffer", False):
                    attributes.setdefault(_BUFFERS, {})[name] = value.persistent  # type: ignore[attr-defined]
                _record_plain(self, name, value)
            elif type(value) in (list, tuple, dict):
                record_module(self)
                _record_plain_in(self, name, value)
        object.__setattr__(self, name, value)

    def __setstate__(self, state: Any) -> None:
        # Copied and unpickled modules receive all attributes at once, without `__setattr__`, so
        # their parameters are recorded here.
        attributes, slots = state if isinstance(state, tuple) else (state, None)
        self.__dict__.update(attributes or {})
        for name, value in (slots or {}).items():
            object.__setattr__(self, name, value)
        record_module(self)
        for key, member in _own_members(self):
            if isinstance(member, Parameter):
                record_owner(member, type(self).__name__, key)
        for name, value in self.__dict__.items():
            if type(value) is Tensor:
                _record_plain(self, name, value)
            elif type(value) in (list, tuple, dict):
                _record_plain_in(self, name, value)

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        for registry in (_KINDS, _BUFFERS):
            self.__dict__.get(registry, {}).pop(name, None)

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Registers a tensor that is not trained. It moves with the module and is part of the state
        dict unless `persistent` is False.

        Raises:
            TypeError: If `tensor` is not a tensor.
            KeyError: If the name is already used or contains a dot.
        """
        _check_name(self, "register_buffer", name, name in self.__dict__.get(_BUFFERS, ()))
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(f"register_buffer: {name!r} of type {type(tensor).__name__}, expected a tensor or None")
        self.__dict__.setdefault(_BUFFERS, {})[name] = persistent
        self.__dict__.get(_KINDS, {}).pop(name, None)
        setattr(self, name, tensor)

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Sets an attribute to a parameter, as `setattr` does. None reserves the name for a
        parameter.

        Raises:
            TypeError: If `param` is not a parameter.
            KeyError: If the name is already used or contains a dot.
        """
        _check_name(self, "register_parameter", name, self.__dict__.get(_KINDS, {}).get(name) == "parameter")
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(f"register_parameter: {name!r} of type {type(param).__name__}, expected a nn.Parameter or None")
        self.__dict__.setdefault(_KINDS, {})[name] = "parameter"
        setattr(self, name, param)

    def add_module(self, name: str, module: Module | None) -> None:
        """Sets an attribute to a module, as `setattr` does. None reserves the name for a module.

        Raises:
            TypeError: If `module` is not a module.
            KeyError: If the name is already used or contains a dot.
        """
        _check_name(self, "add_module", name, self.__dict__.get(_KINDS, {}).get(name) == "module")
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"add_module: {name!r} of type {type(module).__name__}, expected a nn.Module or None")
        self.__dict__.setdefault(_KINDS, {})[name] = "module"
        setattr(self, name, module)

    register_module = add_module

    # ---- Members

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yields the direct submodules, each once, with their keys."""
        seen = set()
        for key, value in _own_members(self):
            if isinstance(value, Module) and id(value) not in seen:
                seen.add(id(value))
                yield key, value

    def children(self) -> Iterator[Module]:
        """Yields the direct submodules, each once."""
        for _, module in self.named_children():
            yield module

    def named_modules(self, memo: Any = None, prefix: str = "", remove_duplicate: bool = True) -> Iterator[tuple[str, Module]]:
        """Yields this module and all modules within it, with their keys; each once unless
        `remove_duplicate` is False.
        """
        memo = set() if memo is None else memo
        if id(self) in memo:
            return
        if remove_duplicate:
            memo.add(id(self))
        yield prefix, self
        for key, child in _own_members(self):
            if isinstance(child, Module):
                yield from child.named_modules(memo, f"{prefix}.{key}" if prefix else key, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """Yields this module and all modules within it, each once."""
        for _, module in self.named_modules():
            yield module

    def get_submodule(self, target: str) -> Module:
        """Returns the module with this key, such as "layers.0". The key "" is this module.

        Raises:
            AttributeError: If it does not exist.
        """
        module = _resolve(self, target)
        if not isinstance(module, Module):
            raise AttributeError(f"{target!r} is a {type(module).__name__}, expected a nn.Module")
        return module

    def get_parameter(self, target: str) -> Parameter:
        """Returns the parameter with this key, such as "layers.0.weight".

        Raises:
            AttributeError: If it does not exist.
        """
        parameter = _resolve(self, target)
        if not isinstance(parameter, Parameter):
            raise AttributeError(f"{target!r} is a {type(parameter).__name__}, expected a nn.Parameter")
        return parameter

    def get_buffer(self, target: str) -> Tensor:
        """Returns the buffer with this key.

        Raises:
            AttributeError: If it does not exist.
        """
        owner, _, name = target.rpartition(".")
        module = self.get_submodule(owner)
        if name not in module.__dict__.get(_BUFFERS, ()):
            raise AttributeError(f"{target!r} is not a buffer of {type(self).__name__}")
        return getattr(module, name)

    def named_parameters(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Parameter]]:
        """Yields the parameters with their keys. A parameter that several modules share is yielded
        once, unless `remove_duplicate` is False.
        """
        seen = set()
        for key, parameter in named_tensors(self, prefix, recurse):
            if isinstance(parameter, Parameter) and not (remove_duplicate and id(parameter) in seen):
                seen.add(id(parameter))
                record_name(parameter, key)
                yield key, parameter

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yields the parameters, each once."""
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True) -> Iterator[tuple[str, Tensor]]:
        """Yields the buffers with their keys; each once unless `remove_duplicate` is False."""
        seen = set()
        for key, value in named_tensors(self, prefix, recurse):
            if not isinstance(value, Parameter) and not (remove_duplicate and id(value) in seen):
                seen.add(id(value))
                yield key, value

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yields the buffers, each once."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    # ---- State

    def state_dict(self, destination: dict[str, Tensor] | None = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Tensor]:
        """Returns the current parameters and buffers by key. They share memory with the module, as
        in PyTorch.

        Args:
            destination: a dict to which the tensors are added, and which is returned.
            prefix: the prefix of all keys, such as "model.".
            keep_vars: whether to return the parameters themselves rather than detached tensors.
        """
        return collect_state(self, {} if destination is None else destination, prefix, keep_vars)

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> IncompatibleKeys:
        """Overwrites parameters and buffers with the tensors of `state_dict`. Changes nothing
        unless all of them fit.

        Args:
            strict: whether missing or unexpected keys are an error.
            assign: uses the memory and dtype of the given tensors instead of copying their values.

        Returns:
            The missing and unexpected keys, as `missing_keys` and `unexpected_keys`.

        Raises:
            RuntimeError: If keys are missing, unexpected or of another shape; the message lists all
                of them in this order.
            TypeError: If `state_dict` is not a dict, or a value is not a tensor.
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"load_state_dict: a {type(state_dict).__name__}, expected a dict of tensors")
        return load_state(self, state_dict, strict, assign)

    def register_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, prefix, keep_vars)` before the module's part of a state dict is
        collected.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_state, _Hook(hook), False)

    def register_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata)` after the state dict has been
        collected. The hook may change it. `local_metadata` is an empty dict.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after_state, _Hook(hook), False)

    def register_load_state_dict_pre_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, state_dict, prefix, local_metadata, strict, missing_keys,
        unexpected_keys, error_msgs)` before a state dict is loaded.

        It may change `state_dict`, which is a copy, and append messages to `error_msgs`, which are
        then raised as an error.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.before_load, _Hook(hook), False)

    def register_load_state_dict_post_hook(self, hook: Any) -> RemovableHandle:
        """Calls `hook(module, incompatible_keys)` after `load_state_dict` has overwritten the
        tensors. Keys that the hook removes from the lists are not an error.

        With such a hook, tensors are overwritten before missing or unexpected keys are raised as an
        error.

        Raises:
            TypeError: If the hook is not callable.
        """
        hooks = _hooks_of(self)
        return hooks.add(hooks.after_load, _Hook(hook), False)

    # ---- Operations on all members

    def train(self, mode: bool = True) -> Self:
        """Sets layers that behave differently in training (dropout, batch norm) to training mode.
        Returns the module.

        Raises:
            ValueError: If `mode` is neither True nor False.
        """
        if not isinstance(mode, bool):
            raise ValueError(f"train: mode {mode!r}, expected True or False")
        for module in self.modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Sets layers that behave differently in training to evaluation mode. Returns the module.
        """
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Sets `requires_grad` of all parameters. Returns the module.

        Raises:
            TypeError: If `requires_grad` is neither True nor False.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or to 0 if `set_to_none` is False."""
        for parameter in self.parameters():
            if set_to_none:
                parameter.grad = None
            elif parameter.grad is not None:
                parameter.grad.zero_()

    def to(self, *args: Any, **kwargs: Any) -> Self:
        """Moves parameters and buffers to a device, converts floating ones to a dtype, or both.
        Returns the module.

        Raises:
            RuntimeError: If the device does not exist.
            TypeError: If the dtype is unknown.
        """
        # Copies are ordered on the device here, so `non_blocking` makes no difference.
        kwargs.pop("non_blocking", None)
        for module in self.modules():
            for name in module.__dict__.get(_BUFFERS, ()):
                value = module.__dict__[name]
                if value is not None:
                    setattr(module, name, _converted(value, args, kwargs))
        for parameter in self.parameters():
            grad = parameter.grad
            with no_grad():
                parameter.data = _converted(parameter.data, args, kwargs)
                if grad is not None:
                    parameter.grad = _converted(grad, args, kwargs)
        return self

    def cpu(self) -> Self:
        """Calls `to("cpu")`."""
        return self.to("cpu")

    def cuda(self, device: Any = None) -> Self:
        """Calls `to("cuda")`.

        Raises:
            RuntimeError: If the device does not exist.
        """
        return self.to(f"cuda:{device or 0}")

    def type(self, dst_type: Any) -> Self:
        """Converts floating parameters and buffers to this dtype.

        Raises:
            TypeError: If the dtype is unknown.
        """
        return self.to(dtype=dst_type)

    def float(self) -> Self:
        """Converts floating parameters and buffers to float32."""
        return self.to("float32")

    def double(self) -> Self:
        """Converts floating parameters and buffers to float64."""
        return self.to("float64")

    def half(self) -> Self:
        """Converts floating parameters and buffers to float16."""
        return self.to("float16")

    def bfloat16(self) -> Self:
        """Converts floating parameters and buffers to bfloat16."""
        return self.to("bfloat16")

    def apply(self, fn: Any) -> Self:
        """Calls `fn` with every module, children before parents. Returns the module.

        Raises:
            TypeError: If `fn` is not callable.
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """Returns what `repr` shows of the module in addition to its submodules."""
        return ""

    def _get_name(self) -> str:
        """Returns the name that `repr` shows."""
        return type(self).__name__

    @reprlib.recursive_repr()
    def __repr__(self) -> str:
        parts = [(key, child) for key, child in _own_members(self) if isinstance(child, Module)]
        lines = [f"({key}): {child!r}".replace("\n", "\n  ") for key, child in parts]
        extra = self.extra_repr()
        if not lines:
            return f"{self._get_name()}({extra})"
        return f"{self._get_name()}({extra}\n  " + "\n  ".join(lines) + "\n)"


# These are functions rather than methods because a subclass may have attributes of any name.


def _hooks_of(module) -> Hooks:
    return module.__dict__.setdefault(_HOOKS, Hooks())


def _record_plain(module, name, value):
    """Records a plain tensor that requires a gradient as a parameter does. A tensor that a module
    stores during its call is excluded: it is an input whose gradient is inspected, for example.
    """
    if value.requires_grad and value.is_leaf and not _is_computing():
        record_plain(value, type(module).__name__, name)


def _record_plain_in(module, name, values):
    """Applies `_record_plain` to the tensors in a list, a tuple or a dict."""
    for key, value in values.items() if isinstance(values, dict) else enumerate(values):
        if type(value) is Tensor:
            _record_plain(module, f"{name}[{key!r}]", value)


def _is_computing():
    """Returns whether a module is being called."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code is Module.__call__.__code__:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _forward(module, *args, **kwargs):
    return _trust.in_layer(module, module.forward, args, kwargs) if _trust.layers_are_observed() else module.forward(*args, **kwargs)


def _check_kind(module, name, value):
    """Raises TypeError if a value that is neither a parameter nor a module would replace one."""
    kind, type_name = module.__dict__.get(_KINDS, {}).get(name), type(value).__name__
    if kind == "parameter":
        raise TypeError(f"cannot assign a {type_name} as parameter {name!r}: expected a nn.Parameter or None; its values are changed by .data or copy_()")
    if kind == "module":
        raise TypeError(f"cannot assign a {type_name} as child module {name!r}: expected a nn.Module or None")
    if name in module.__dict__.get(_BUFFERS, ()) and not isinstance(value, Tensor):
        raise TypeError(f"cannot assign a {type_name} as buffer {name!r}: expected a tensor or None")


def _check_name(module, method, name, is_known):
    """Checks that a name has no dots and is not used by an attribute other than the one `known`
    under it.
    """
    if not isinstance(name, str):
        raise TypeError(f"{method}: the name {name!r} is of type {type(name).__name__}, expected a str")
    if not name or "." in name:
        raise KeyError(f"{method}: the name {name!r}, expected one without dots")
    if hasattr(module, name) and not is_known:
        raise KeyError(f"{method}: {type(module).__name__} has an attribute {name!r} already")


def _resolve(module, target):
    current: Any = module
    for part in target.split(".") if target else ():
        try:
            current = current[int(part)] if isinstance(current, (list, tuple)) else current[part] if isinstance(current, dict) else getattr(current, part)
        except (AttributeError, LookupError, ValueError):
            raise AttributeError(f"{type(module).__name__} has no {target!r}: {type(current).__name__} has no {part!r}") from None
    return current


def _converted(value, args, kwargs):
    """Returns the tensor on the requested device and in the requested dtype. Integer tensors keep
    their dtype.
    """
    converted = value.to(*args, **kwargs)
    if not value.is_floating_point() and converted.dtype != value.dtype:
        converted = value.to(converted.device)
    return converted
