"""Hooks of modules: functions that are called around `forward`, and with the gradients of its
inputs and outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import _tree
from .._ternion import Tensor, is_grad_enabled


class RemovableHandle:
    """Removes a hook, by `remove()` or at the end of a `with` block."""

    def __init__(self, hooks: dict[int, Any], number: int):
        self._hooks, self._number = hooks, number

    def remove(self) -> None:
        """Removes the hook, so that it is no longer called."""
        self._hooks.pop(self._number, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *_: Any) -> None:
        self.remove()


class _Hook(NamedTuple):
    call: Callable[..., Any]
    with_kwargs: bool = False
    always_call: bool = False


class Hooks:
    """The hooks of one module, in call order."""

    def __init__(self) -> None:
        self.before: dict[int, _Hook] = {}
        self.after: dict[int, _Hook] = {}
        self.backward: dict[int, _Hook] = {}
        self.before_backward: dict[int, _Hook] = {}
        # Called around saving and loading of state dicts.
        self.before_state: dict[int, _Hook] = {}
        self.after_state: dict[int, _Hook] = {}
        self.before_load: dict[int, _Hook] = {}
        self.after_load: dict[int, _Hook] = {}
        self._numbers = 0

    def add(self, hooks: dict[int, _Hook], hook: _Hook, prepend: bool) -> RemovableHandle:
        """Adds a hook after the existing ones of its kind, or before them if `prepend` is True."""
        if not callable(hook.call):
            raise TypeError(f"a hook of type {type(hook.call).__name__}, expected a function")
        self._numbers += 1
        others = dict(hooks)
        if prepend:
            hooks.clear()
        hooks[self._numbers] = hook
        if prepend:
            hooks.update(others)
        return RemovableHandle(hooks, self._numbers)

    def call(self, module: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls `forward` with the hooks around it and returns its result."""
        try:
            return self._called(module, forward, args, kwargs)
        except Exception:
            for hook in list(self.after.values()):
                if hook.always_call:
                    _told(hook, module, args, kwargs, None)
            raise

    def _called(self, module, forward, args, kwargs):
        for hook in list(self.before.values()):
            args, kwargs = _taken(hook, module, args, kwargs)
        walk = _Walk(module, self) if (self.backward or self.before_backward) and is_grad_enabled() else None
        if walk is not None:
            args = walk.take(args)
        result = forward(module, *args, **kwargs)
        for hook in list(self.after.values()):
            changed = _told(hook, module, args, kwargs, result)
            result = result if changed is None else changed
        return result if walk is None else walk.give(result)


def _told(hook, module, args, kwargs, result):
    return hook.call(module, args, kwargs, result) if hook.with_kwargs else hook.call(module, args, result)


def _taken(hook, module, args, kwargs):
    """Returns the arguments after a forward pre-hook, which may replace them."""
    if not hook.with_kwargs:
        changed = hook.call(module, args)
        if changed is None:
            return args, kwargs
        return changed if isinstance(changed, tuple) else (changed,), kwargs
    changed = hook.call(module, args, kwargs)
    if changed is None:
        return args, kwargs
    if not isinstance(changed, tuple) or len(changed) != 2:
        raise RuntimeError(f"a forward pre-hook with_kwargs returned {changed!r}, expected None or a tuple of new args and kwargs")
    return changed


class _Walk:
    """Collects the gradients of the outputs and inputs of one module call and passes them to the
    hooks.
    """

    def __init__(self, module: Any, hooks: Hooks):
        self._module, self._hooks = module, hooks
        self._of_inputs: list[Any] = []
        self._of_outputs: list[Any] = []
        self._asking: set[int] = set()
        self._awaited: set[int] = set()
        self._giving: set[int] = set()

    def take(self, args: Any):
        """Returns the arguments, with gradient hooks on the tensors that require a gradient."""
        taken = list(args)
        self._of_inputs = [None] * len(taken)
        for number, value in enumerate(taken):
            if isinstance(value, Tensor) and value.requires_grad:
                self._asking.add(number)
                # A separate view, because other consumers may read the same tensor.
                taken[number] = value.view(value.shape)
                taken[number].register_hook(lambda grad, number=number: self._came(number, grad))
        self._awaited = set(self._asking)
        return tuple(taken)

    def give(self, result: Any):
        """Returns the result, with gradient hooks on its tensors that require a gradient."""
        tensors, rebuild = _tree.flatten(result)
        self._of_outputs = [None] * len(tensors)
        for number, value in enumerate(tensors):
            if value.requires_grad:
                self._giving.add(number)
                tensors[number] = value.view(value.shape)
                tensors[number].register_hook(lambda grad, number=number: self._began(number, grad))
        return rebuild(tensors)

    def _began(self, number, grad):
        """Handles the gradient of an output."""
        self._of_outputs[number] = grad
        changed = False
        for hook in list(self._hooks.before_backward.values()):
            told = hook.call(self._module, tuple(self._of_outputs))
            if told is not None:
                grad = self._of_outputs[number] = self._only(told, number, self._giving, "pre-hook", "output")
                changed = True
        if not self._asking and all(self._of_outputs[place] is not None for place in self._giving):
            self._tell()
        return grad if changed else None

    def _came(self, number, grad):
        """Handles the gradient of an input. The last one to arrive triggers the backward hooks."""
        self._of_inputs[number] = grad
        self._awaited.discard(number)
        if self._awaited:
            return None
        changed = self._tell()
        self._awaited = set(self._asking)
        return self._only(changed, number, self._asking, "hook", "input") if changed is not None else None

    def _tell(self):
        """Calls the backward hooks. Returns the input gradients that they replaced, or None."""
        grads, outputs, changed = tuple(self._of_inputs), tuple(self._of_outputs), None
        for hook in list(self._hooks.backward.values()):
            told = hook.call(self._module, grads, outputs)
            if told is None:
                continue
            if not self._asking:
                raise RuntimeError("a backward hook returned a gradient, but no input of the module asks for one")
            changed = grads = told if isinstance(told, tuple) else (told,)
        return changed

    def _only(self, told, number, all_of_them, what, side):
        told = told if isinstance(told, tuple) else (told,)
        if len(all_of_them) > 1:
            raise RuntimeError(
                f"a backward {what} of {type(self._module).__name__} returned other gradients for {len(all_of_them)} {side}s: "
                f"that is possible for a single {side} alone; put a Tensor.register_hook on each"
            )
        return told[number] if number < len(told) else None
