"""`Optimizer`: parameter groups with settings, gradients and hooks, and the state of optimizers
that define their own `step`.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Union

from .._capture import record_step
from .._names import all_named, full_names, name_of, unchanged_plain
from .._parameter_keys import repeated_modules, roots, tensors_of
from .._scales import scale_in
from .._ternion import Tensor, _trust
from .._warnings import warn_caller
from .._weak_registry import WeakRegistry
from ..nn._hooks import RemovableHandle
from ._setup_warnings import frozen_warning, lost_warning, memory_warning, record_gradients, settings_warning, shared_warning

# Parameters, pairs of names and parameters, or groups with their own settings. (A single list type,
# so that type checkers accept dicts with values of several types as groups.)
Params = Iterable[Union[Tensor, tuple[str, Tensor], dict[str, Any]]]


def _describe(parameter: Tensor, label: str) -> str:
    """Returns how messages refer to a parameter without a given name: by its name in its module. A
    name without dots may occur in several modules.
    """
    name = name_of(parameter)
    return name if name and "." in name else f"{name or label} of shape {tuple(parameter.shape)}"


# All existing optimizers.
_optimizers: WeakRegistry[Optimizer] = WeakRegistry()


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def optimized_parameters() -> list[Tensor]:
    """Returns the parameters of all optimizers."""
    return [parameter for optimizer in list(_optimizers) for parameter in _parameters(optimizer)]


def _orphans(tensors: list[Any]) -> list[tuple[int, Any]]:
    """Returns the tensors with a gradient that belong to no optimizer, each with the number of the
    backward pass that computed it.
    """
    known = {id(parameter) for parameter in optimized_parameters()}
    orphans = [tensor for tensor in tensors if id(tensor) not in known and tensor.requires_grad and tensor.grad is not None]
    return [(_trust.backward_index(tensor), tensor) for tensor in orphans]


def _with_shapes(tensors: list[Any], names: list[str]) -> list[str]:
    return [f"{name} {list(tensor.shape)}" for tensor, name in zip(tensors, names)]


def _last_pass(optimizer: Optimizer) -> int:
    """Returns the number of the last backward pass that computed a gradient of one of the
    optimizer's parameters; 0 if there was none.
    """
    return max((_trust.backward_index(parameter) for parameter in _parameters(optimizer) if parameter.grad is not None), default=0)


def _missing_parameters(optimizer: Optimizer) -> list[str]:
    """Returns the parameters that belong to no optimizer and got gradients in the last backward
    pass, together with parameters of this optimizer.
    """
    pass_number = _last_pass(optimizer)
    tensors = [tensor for number, tensor in _orphans(all_named()) if number == pass_number] if pass_number else []
    return _with_shapes(tensors, full_names(tensors))


def _replacement_parameters(optimizer: Optimizer) -> list[str]:
    """If no parameter of the optimizer has a gradient, returns the parameters that belong to no
    optimizer and got a gradient in the last backward pass since the optimizer was created.
    """
    if _last_pass(optimizer) or not any(parameter.requires_grad for parameter in _parameters(optimizer)):
        return []
    orphans = _orphans(all_named())
    pass_number = max((number for number, _ in orphans), default=0)
    tensors = [tensor for number, tensor in orphans if number == pass_number > optimizer._created_at_pass]
    return _with_shapes(tensors, full_names(tensors))


def _plain_tensors(optimizer: Optimizer) -> list[str]:
    """Like `_missing_parameters`, for tensors in modules that are not parameters."""
    pass_number, names = _last_pass(optimizer), {id(tensor): (tensor, name) for tensor, name in unchanged_plain(optimizer._checked_steps <= 2)}
    missing = [names[id(tensor)] for number, tensor in _orphans([tensor for tensor, _ in names.values()]) if number == pass_number] if pass_number else []
    return _with_shapes([tensor for tensor, _ in missing], [name for _, name in missing])


def _join_first(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")


def _add_hook(hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"a hook of type {type(hook).__name__}, expected a function")
    number = max(hooks, default=0) + 1
    hooks[number] = hook
    return RemovableHandle(hooks, number)


def _hook_arguments(result: Any) -> Any:
    """Returns the arguments that a pre-hook of a step returned."""
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"a step pre-hook returned {result!r}, expected None or a tuple of new args and kwargs")
    return result


def _with_hooks(step: Any) -> Any:
    """Wraps the `step` of a subclass: calls its hooks, and registers the step with a capture in
    progress.
    """

    @functools.wraps(step)
    def wrapper(self: Any, *args: Any, **kwargs: Any) -> Any:
        record_step(self)
        self._check_first_steps()
        self._rates = [group.get("lr") for group in self.param_groups]
        loss = self._step_with_hooks(step, args, kwargs)
        self._record_used()
        return loss

    return wrapper


class Optimizer:
    """Base class of all optimizers.

    `params` is a list of parameters (or other tensors that require gradients), of pairs of names
    and parameters, or of dicts with `params` and their own settings. Tensors that do not require
    gradients are never changed, and may have any dtype. The groups are in `param_groups`; a changed
    setting there takes effect at the next step.

    A subclass may define its own `step`, which iterates over `param_groups` under `no_grad` and
    stores its per-parameter state in `self.state[parameter]`:

        class Descent(optim.Optimizer):
            def __init__(self, params, lr=0.1):
                super().__init__(params, dict(lr=lr))

            @ternion.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for parameter in group["params"]:
                        if parameter.grad is not None:
                            parameter.sub_(group["lr"] * parameter.grad)

    Raises:
        TypeError: If `params` is not a list, if a parameter is not a tensor, or if `defaults` is
            not a dict.
        ValueError: If there are no parameters, or if one is given twice or is not a leaf.
    """

    # Whether the steps are native and call the hooks themselves.
    _is_native = False
    # Number of steps that were checked.
    _checked_steps = 0
    # Whether step() was called; used by learning-rate schedules.
    _has_stepped = False
    # Number of the last backward pass before the optimizer was created.
    _created_at_pass = 0
    _has_warned_plain = False
    # The gradients that the first steps used: ids of parameters, with the numbers of backward
    # passes.
    _used_passes: dict[int, int] | None = None

    def __init__(self, params: Params, defaults: dict[str, Any]):
        if not isinstance(defaults, Mapping):
            raise TypeError(f"{type(self).__name__}: defaults of type {type(defaults).__name__}, expected a dict of settings")
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._hooks_before: dict[int, Any] = {}
        self._hooks_after: dict[int, Any] = {}
        self._init_state()
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise TypeError(f"{type(self).__name__}: params of type {type(params).__name__}, expected a list of parameters or of dicts")
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: no parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._created_at_pass = max((_trust.backward_index(parameter) for parameter in all_named()), default=0)
        _optimizers.add(self)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls) and not cls._is_native:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def _init_state(self) -> None:
        """Initializes the state before the first group is added."""
        self.state: Any = defaultdict(dict)
        # The learning rates of the last step, which a capture of it contains.
        self._rates: list[Any] = []

    def add_param_group(self, param_group: dict) -> None:
        """Adds a group of parameters with its own settings.

        Raises:
            TypeError: If the group is not a dict, if a parameter is not a tensor, or if a built-in
                optimizer does not have a setting.
            ValueError: If a parameter is given twice or is not a leaf.
        """
        if not isinstance(param_group, dict) or "params" not in param_group:
            raise TypeError(f"{type(self).__name__}: a group {param_group!r}, expected a dict with params and settings")
        settings = {name: value for name, value in param_group.items() if name != "params"}
        named = self._name_parameters(param_group["params"])
        group = {"params": [parameter for _, _, parameter in named], **self.defaults, **settings}
        self._prepare_group(named, group)
        self.param_groups.append(group)

    def _prepare_group(self, named: list[tuple[str, str, Tensor]], group: dict[str, Any]) -> None:
        """Prepares the steps of a group that is about to be added."""

    def _name_parameters(self, params):
        """Returns parameters with their names in messages and in the state."""
        optimizer = type(self).__name__
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{optimizer}: params in a set, expected a list: sets have no order")
        first = sum(len(group["params"]) for group in self.param_groups)
        named = []
        for number, item in enumerate([params] if isinstance(params, Tensor) else list(params), first):
            label, parameter = item if isinstance(item, tuple) else (f"parameter {number}", item)
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{optimizer}: {label} of type {type(parameter).__name__}, expected a tensor")
            if not parameter.is_leaf:
                raise ValueError(f"{optimizer}: {label} is computed from others, expected a parameter or another leaf: its gradient is not gathered")
            name = label if isinstance(item, tuple) else _describe(parameter, label)
            named.append((name, label, parameter))
        labels = {id(parameter): f"parameter {number}" for number, parameter in enumerate(_parameters(self))}
        for _, label, parameter in named:
            if id(parameter) in labels:
                raise ValueError(f"{optimizer}: {label} is given twice: it is {full_names([parameter])[0] or labels[id(parameter)]} already")
            labels[id(parameter)] = label
        return named

    def step(self, closure: Any = None) -> Any:
        """Updates the parameters by their gradients.

        Raises:
            NotImplementedError: If the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def _check_first_steps(self, strict: bool = False) -> None:
        """Checks the first two steps. At the first, warns of gradients that no optimizer uses, and
        of gradients of a loss that is still scaled; at the second, of gradients that were added to
        those of the first. If strict, checks each step and raises an error.
        """
        self._has_stepped = True
        if self._checked_steps > 1 and not strict or _trust.is_recording_step():
            return
        self._checked_steps += 1
        _optimizers.add(self)
        messages = [self._stale_gradients_warning(), self._plain_tensors_warning()]
        if strict and self._checked_steps == 1:
            messages.append(self._repeated_layer_warning())
        if self._checked_steps == 1 or strict:
            messages += [settings_warning(self), frozen_warning(self), self._missing_parameters_warning(), self._replaced_warning(), self._scaled_gradients_warning()]
            messages += [memory_warning(self)]
            messages += [lost_warning(self, _last_pass(self)), shared_warning(self, list(_optimizers), _describe)]
        for text in filter(None, messages):
            if strict:
                raise RuntimeError(f"{text} (an error, as the optimizer is strict)")
            warn_caller(text)

    def _record_used(self) -> None:
        """Marks the gradients as used, as long as steps are checked."""
        if self._checked_steps < 2 or getattr(self, "strict", False):
            _trust.mark_used([parameter for group in self.param_groups for parameter in group["params"]])
            record_gradients(self)

    def _stale_gradients_warning(self) -> str:
        stale = [parameter for group in self.param_groups for parameter in group["params"] if _trust.is_stale(parameter)]
        if not stale:
            return ""
        names = _join_first([_describe(parameter, "a parameter") for parameter in stale])
        message = "gradients were added to those that the step before has used: call zero_grad() once for each step, before backward"
        return f"{type(self).__name__}: {names}: {message}"

    def _missing_parameters_warning(self) -> str:
        names = _missing_parameters(self)
        if not names:
            return ""
        them, are = ("it", "it is") if len(names) == 1 else ("them", "they are")
        return (
            f"{type(self).__name__}: {_join_first(names)}: gradients come to {them}, but no optimizer has {them}: look at what parameters() or the list "
            f"that was given leaves out, or freeze {them} by requires_grad_(False) if {are} not to be trained"
        )

    def _repeated_layer_warning(self) -> str:
        """Reports a layer that a list contains several times. Layers under several names share
        parameters on purpose.
        """
        own_ids = {id(parameter) for parameter in _parameters(self)}
        for root in roots():
            repeated = repeated_modules(root, in_lists=True) if any(id(tensor) in own_ids for _, tensor in tensors_of(root)) else []
            for keys, kind in repeated:
                listed = f"{_join_first(keys)} of {type(root).__name__} are one {kind}, whose parameters are used {len(keys)} times"
                return f"{type(self).__name__}: {listed}: create a layer for each use ([layer] * n repeats one), or call one in a loop if that is meant"
        return ""

    def _replaced_warning(self) -> str:
        names = _replacement_parameters(self)
        message = f"none of its parameters has a gradient, but gradients come to {_join_first(names)}, which no optimizer has"
        return f"{type(self).__name__}: {message}: create the optimizer from the parameters of the model that is trained, after the model was replaced or copied" if names else ""

    def _plain_tensors_warning(self) -> str:
        names = _plain_tensors(self)
        if not names or self._has_warned_plain:
            return ""
        self._has_warned_plain = not getattr(self, "strict", False)
        message = "a tensor that requires a gradient but is not an nn.Parameter, so parameters() does not have it, and no optimizer moves it: make it an nn.Parameter"
        return f"{type(self).__name__}: {_join_first(names)}: {message}"

    def _scaled_gradients_warning(self) -> str:
        scale = scale_in(_parameters(self))
        message = f"the gradients are those of a loss times {scale:g}, by a GradScaler: call its step(optimizer), or unscale_(optimizer) before"
        return f"{type(self).__name__}: {message}" if scale else ""

    def _step_with_hooks(self, step: Any, args: Any, kwargs: Any) -> Any:
        args = (self, *args)
        for hook in list(self._hooks_before.values()):
            changed = hook(self, args, kwargs)
            if changed is not None:
                args, kwargs = _hook_arguments(changed)
        loss = step(self, *args[1:], **kwargs)
        for hook in list(self._hooks_after.values()):
            hook(self, args, kwargs)
        return loss

    def register_step_pre_hook(self, hook: Any) -> RemovableHandle:
        """Registers a hook `hook(optimizer, args, kwargs)` that is called before each step. If it
        returns a tuple, this replaces args and kwargs. The first of the args is the optimizer.

        Raises:
            TypeError: If the hook is not callable.
        """
        return _add_hook(self._hooks_before, hook)

    def register_step_post_hook(self, hook: Any) -> RemovableHandle:
        """Registers a hook `hook(optimizer, args, kwargs)` that is called after each step.

        Raises:
            TypeError: If the hook is not callable.
        """
        return _add_hook(self._hooks_after, hook)

    def _apply_rates(self) -> None:
        """Applies the learning rates of `param_groups` to a step that is replayed."""
        # A step that is written in Python was captured with its learning rates as constants.
        rates = [group.get("lr") for group in self.param_groups]
        if rates != self._rates:
            raise RuntimeError(f"{type(self).__name__}: rates {rates}, but the step was recorded with {self._rates}: capture it again")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Sets the gradients of all parameters to None, or to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad.zero_()

    def state_dict(self) -> dict:
        """Returns the state of each parameter by its index, and the groups with their settings, in
        PyTorch's format.
        """
        indices = _parameter_indices(self.param_groups)
        state = {indices.get(id(key), key): value for key, value in self.state.items()}
        groups = [{**group, "params": [indices[id(parameter)] for parameter in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores the state and the settings that `state_dict` returned.

        Raises:
            ValueError: If the groups differ, or if the state does not match.
            TypeError: If the argument is not a dict.
        """
        state, groups = self._split_state(state_dict)
        sizes, own_sizes = [len(group["params"]) for group in groups], [len(group["params"]) for group in self.param_groups]
        if sizes != own_sizes:
            raise ValueError(f"{type(self).__name__}: a state of groups of {sizes} parameters, expected {own_sizes}")
        saved_indices = [number for group in groups for number in group["params"]]
        parameters = dict(zip(saved_indices, (parameter for group in self.param_groups for parameter in group["params"])))
        self.state = defaultdict(dict)
        for key, value in state.items():
            parameter = parameters.get(key)
            self.state[key if parameter is None else parameter] = _copied_state(parameter, value)
        for group, saved_group in zip(self.param_groups, groups):
            group.update({name: copy.deepcopy(value) for name, value in saved_group.items() if name != "params"})

    def _split_state(self, state_dict: Any) -> tuple[Any, Any]:
        """Returns the state and the groups of a state dict."""
        name = type(self).__name__
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"{name}: a state of type {type(state_dict).__name__}, expected what state_dict() gave")
        missing = [key for key in ("state", "param_groups") if key not in state_dict]
        if missing:
            raise ValueError(f"{name}: a state without {' and '.join(missing)}, expected what state_dict() gave")
        return state_dict["state"], state_dict["param_groups"]

    def __getstate__(self) -> Any:
        # Hooks and the count of backward passes are specific to this process.
        return {name: {} if name.startswith("_hooks") else value for name, value in self.__dict__.items() if name not in ("_created_at_pass", "_used_passes")}

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def _parameter_indices(groups: list[dict[str, Any]]) -> dict[int, int]:
    """Returns the indices of parameters in a state dict, counted over all groups."""
    parameters = (parameter for group in groups for parameter in group["params"])
    return {id(parameter): index for index, parameter in enumerate(parameters)}


def _copied_state(parameter: Any, value: Any, name: str = "") -> Any:
    """Returns a copy of a state value on the device of the parameter, and in its dtype if both are
    floating point and the value is not a step count.
    """
    if isinstance(value, Tensor):
        if parameter is None or name == "step":
            return value.clone()
        is_like = parameter.is_floating_point() and value.is_floating_point()
        return value.to(parameter.device, parameter.dtype if is_like else value.dtype, copy=True)
    if isinstance(value, dict):
        return {key: _copied_state(parameter, item, key) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied_state(parameter, item, name) for item in value)
    return copy.deepcopy(value)
