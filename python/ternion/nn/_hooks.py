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
        self._last_number = 0

    def add(self, hooks: dict[int, _Hook], hook: _Hook, prepend: bool) -> RemovableHandle:
        """Adds a hook after the existing ones of its kind, or before them if `prepend` is True."""
        if not callable(hook.call):
            raise TypeError(f"a hook of type {type(hook.call).__name__}, expected a function")
        self._last_number += 1
        others = dict(hooks)
        if prepend:
            hooks.clear()
        hooks[self._last_number] = hook
        if prepend:
            hooks.update(others)
        return RemovableHandle(hooks, self._last_number)

    def call(self, module: Any, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Calls `forward` with the hooks around it and returns its result."""
        try:
            return self._call_with_hooks(module, forward, args, kwargs)
        except Exception:
            for hook in list(self.after.values()):
                if hook.always_call:
                    _call_forward_hook(hook, module, args, kwargs, None)
            raise

    def _call_with_hooks(self, module, forward, args, kwargs):
        for hook in list(self.before.values()):
            args, kwargs = _call_forward_pre_hook(hook, module, args, kwargs)
        backward_state = _BackwardHookState(module, self) if (self.backward or self.before_backward) and is_grad_enabled() else None
        if backward_state is not None:
            args = backward_state.wrap_inputs(args)
        result = forward(module, *args, **kwargs)
        for hook in list(self.after.values()):
            changed = _call_forward_hook(hook, module, args, kwargs, result)
            result = result if changed is None else changed
        return result if backward_state is None else backward_state.wrap_outputs(result)


def _call_forward_hook(hook, module, args, kwargs, result):
    return hook.call(module, args, kwargs, result) if hook.with_kwargs else hook.call(module, args, result)


def _call_forward_pre_hook(hook, module, args, kwargs):
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


class _BackwardHookState:
    """Collects the gradients of the outputs and inputs of one module call and passes them to the
    hooks.
    """

    def __init__(self, module: Any, hooks: Hooks):
        self._module, self._hooks = module, hooks
        self._grad_inputs: list[Any] = []
        self._grad_outputs: list[Any] = []
        self._input_indices: set[int] = set()
        self._pending: set[int] = set()
        self._output_indices: set[int] = set()

    def wrap_inputs(self, args: Any):
        """Returns the arguments, with gradient hooks on the tensors that require a gradient."""
        wrapped = list(args)
        self._grad_inputs = [None] * len(wrapped)
        for index, value in enumerate(wrapped):
            if isinstance(value, Tensor) and value.requires_grad:
                self._input_indices.add(index)
                # A separate view, because other consumers may read the same tensor.
                wrapped[index] = value.view(value.shape)
                wrapped[index].register_hook(lambda grad, index=index: self._on_input_grad(index, grad))
        self._pending = set(self._input_indices)
        return tuple(wrapped)

    def wrap_outputs(self, result: Any):
        """Returns the result, with gradient hooks on its tensors that require a gradient."""
        tensors, rebuild = _tree.flatten(result)
        self._grad_outputs = [None] * len(tensors)
        for index, value in enumerate(tensors):
            if value.requires_grad:
                self._output_indices.add(index)
                tensors[index] = value.view(value.shape)
                tensors[index].register_hook(lambda grad, index=index: self._on_output_grad(index, grad))
        return rebuild(tensors)

    def _on_output_grad(self, index, grad):
        """Handles the gradient of an output."""
        self._grad_outputs[index] = grad
        changed = False
        for hook in list(self._hooks.before_backward.values()):
            replacement = hook.call(self._module, tuple(self._grad_outputs))
            if replacement is not None:
                grad = self._grad_outputs[index] = self._single_replacement(replacement, index, self._output_indices, "pre-hook", "output")
                changed = True
        if not self._input_indices and all(self._grad_outputs[position] is not None for position in self._output_indices):
            self._call_backward_hooks()
        return grad if changed else None

    def _on_input_grad(self, index, grad):
        """Handles the gradient of an input. The last one to arrive triggers the backward hooks."""
        self._grad_inputs[index] = grad
        self._pending.discard(index)
        if self._pending:
            return None
        changed = self._call_backward_hooks()
        self._pending = set(self._input_indices)
        return self._single_replacement(changed, index, self._input_indices, "hook", "input") if changed is not None else None

    def _call_backward_hooks(self):
        """Calls the backward hooks. Returns the input gradients that they replaced, or None."""
        grads, outputs, changed = tuple(self._grad_inputs), tuple(self._grad_outputs), None
        for hook in list(self._hooks.backward.values()):
            replacement = hook.call(self._module, grads, outputs)
            if replacement is None:
                continue
            if not self._input_indices:
                raise RuntimeError("a backward hook returned a gradient, but no input of the module asks for one")
            changed = grads = replacement if isinstance(replacement, tuple) else (replacement,)
        return changed

    def _single_replacement(self, replacement, index, indices, kind, side):
        replacement = replacement if isinstance(replacement, tuple) else (replacement,)
        if len(indices) > 1:
            raise RuntimeError(
                f"a backward {kind} of {type(self._module).__name__} returned other gradients for {len(indices)} {side}s: "
                f"that is possible only for a single {side}; put a Tensor.register_hook on each"
            )
        return replacement[index] if index < len(replacement) else None
