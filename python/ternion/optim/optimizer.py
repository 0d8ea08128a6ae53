"""`Optimizer`: parameter groups with settings, gradients and hooks, and the state of optimizers
that define their own `step`.
"""

from __future__ import annotations

import copy
import functools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Union

from .._capture import note_step
from .._living import Living
from .._names import all_named, full_names, name_of, unmoved_plain
from .._places import repeats, roots, tensors_of
from .._scales import scale_in
from .._ternion import Tensor, _trust
from .._warnings import warn_caller
from ..nn._hooks import RemovableHandle
from ._first_steps import note_gradients, told_of_frozen, told_of_lost, told_of_memory, told_of_settings, told_of_shared

# Parameters, pairs of names and parameters, or groups with their own settings. (A single list type,
# so that type checkers accept dicts with values of several types as groups.)
Params = Iterable[Union[Tensor, tuple[str, Tensor], dict[str, Any]]]


def _described(parameter: Tensor, label: str) -> str:
    """Returns how messages refer to a parameter without a given name: by its name in its module. A
    name without dots may occur in several modules.
    """
    name = name_of(parameter)
    return name if name and "." in name else f"{name or label} of shape {tuple(parameter.shape)}"


# All existing optimizers.
_living: Living[Optimizer] = Living()


def _parameters(optimizer: Optimizer) -> list[Tensor]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def held() -> list[Tensor]:
    """Returns the parameters of all optimizers."""
    return [parameter for optimizer in list(_living) for parameter in _parameters(optimizer)]


def _orphans(tensors: list[Any]) -> list[tuple[int, Any]]:
    """Returns the tensors with a gradient that belong to no optimizer, each with the number of the
    backward pass that computed it.
    """
    known = {id(parameter) for parameter in held()}
    found = [tensor for tensor in tensors if id(tensor) not in known and tensor.requires_grad and tensor.grad is not None]
    return [(_trust.backward_number(tensor), tensor) for tensor in found]


def _with_shapes(tensors: list[Any], names: list[str]) -> list[str]:
    return [f"{name} {list(tensor.shape)}" for tensor, name in zip(tensors, names)]


def _last_pass(optimizer: Optimizer) -> int:
    """Returns the number of the last backward pass that computed a gradient of one of the
    optimizer's parameters; 0 if there was none.
    """
    return max((_trust.backward_number(parameter) for parameter in _parameters(optimizer) if parameter.grad is not None), default=0)


def _left_out(optimizer: Optimizer) -> list[str]:
    """Returns the parameters that belong to no optimizer and got gradients in the last backward
    pass, together with parameters of this optimizer.
    """
    turn = _last_pass(optimizer)
    found = [tensor for number, tensor in _orphans(all_named()) if number == turn] if turn else []
    return _with_shapes(found, full_names(found))


def _instead(optimizer: Optimizer) -> list[str]:
    """If no parameter of the optimizer has a gradient, returns the parameters that belong to no
    optimizer and got a gradient in the last backward pass since the optimizer was created.
    """
    if _last_pass(optimizer) or not any(parameter.requires_grad for parameter in _parameters(optimizer)):
        return []
    orphans = _orphans(all_named())
    turn = max((number for number, _ in orphans), default=0)
    found = [tensor for number, tensor in orphans if number == turn > optimizer._made_at]
    return _with_shapes(found, full_names(found))


def _plain(optimizer: Optimizer) -> list[str]:
    """Like `_left_out`, for tensors in modules that are not parameters."""
    turn, names = _last_pass(optimizer), {id(tensor): (tensor, name) for tensor, name in unmoved_plain(optimizer._looked <= 2)}
    found = [names[id(tensor)] for number, tensor in _orphans([tensor for tensor, _ in names.values()]) if number == turn] if turn else []
    return _with_shapes([tensor for tensor, _ in found], [name for _, name in found])


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} others" if len(names) > 5 else "")


def _hooked(hooks: dict[int, Any], hook: Any) -> RemovableHandle:
    if not callable(hook):
        raise TypeError(f"a hook of type {type(hook).__name__}, expected a function")
    number = max(hooks, default=0) + 1
    hooks[number] = hook
    return RemovableHandle(hooks, number)


def _arguments(told: Any) -> Any:
    """Returns the arguments that a pre-hook of a step returned."""
    if not isinstance(told, tuple) or len(told) != 2:
        raise RuntimeError(f"a step pre-hook returned {told!r}, expected None or a tuple of new args and kwargs")
    return told


def _with_hooks(step: Any) -> Any:
    """Wraps the `step` of a subclass: calls its hooks, and registers the step with a capture in
    progress.
    """

    @functools.wraps(step)
    def hooked(self: Any, *args: Any, **kwargs: Any) -> Any:
        note_step(self)
        self._look_at_first_steps()
        self._rates = [group.get("lr") for group in self.param_groups]
        found = self._between_hooks(step, args, kwargs)
        self._note_used()
        return found

    return hooked


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
    _looked = 0
    # Whether step() was called; used by learning-rate schedules.
    _has_stepped = False
    # Number of the last backward pass before the optimizer was created.
    _made_at = 0
    _has_told_of_plain = False
    # The gradients that the first steps used: ids of parameters, with the numbers of backward
    # passes.
    _used: dict[int, int] | None = None

    def __init__(self, params: Params, defaults: dict[str, Any]):
        if not isinstance(defaults, Mapping):
            raise TypeError(f"{type(self).__name__}: defaults of type {type(defaults).__name__}, expected a dict of settings")
        self.defaults = defaults
        self.param_groups: list[dict[str, Any]] = []
        self._hooks_before: dict[int, Any] = {}
        self._hooks_after: dict[int, Any] = {}
        self._begin()
        if isinstance(params, Tensor) or not isinstance(params, Iterable):
            raise TypeError(f"{type(self).__name__}: params of type {type(params).__name__}, expected a list of parameters or of dicts")
        groups: list[Any] = list(params)
        if not groups:
            raise ValueError(f"{type(self).__name__}: no parameters")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)
        self._made_at = max((_trust.backward_number(parameter) for parameter in all_named()), default=0)
        _living.add(self)

    def __init_subclass__(cls, **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if "step" in vars(cls) and not cls._is_native:
            cls.step = _with_hooks(cls.step)  # type: ignore[method-assign]

    def _begin(self) -> None:
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
        given = {name: value for name, value in param_group.items() if name != "params"}
        named = self._named(param_group["params"])
        group = {"params": [parameter for _, _, parameter in named], **self.defaults, **given}
        self._take(named, group)
        self.param_groups.append(group)

    def _take(self, named: list[tuple[str, str, Tensor]], group: dict[str, Any]) -> None:
        """Prepares the steps of a group that is about to be added."""

    def _named(self, given):
        """Returns parameters with their names in messages and in the state."""
        optimizer = type(self).__name__
        if isinstance(given, (set, frozenset)):
            raise TypeError(f"{optimizer}: params in a set, expected a list: sets have no order")
        first = sum(len(group["params"]) for group in self.param_groups)
        named = []
        for number, item in enumerate([given] if isinstance(given, Tensor) else list(given), first):
            label, parameter = item if isinstance(item, tuple) else (f"parameter {number}", item)
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{optimizer}: {label} of type {type(parameter).__name__}, expected a tensor")
            if not parameter.is_leaf:
                raise ValueError(f"{optimizer}: {label} is computed from others, expected a parameter or another leaf: its gradient is not gathered")
            name = label if isinstance(item, tuple) else _described(parameter, label)
            named.append((name, label, parameter))
        held = {id(parameter): f"parameter {number}" for number, parameter in enumerate(_parameters(self))}
        for _, label, parameter in named:
            if id(parameter) in held:
                raise ValueError(f"{optimizer}: {label} is given twice: it is {full_names([parameter])[0] or held[id(parameter)]} already")
            held[id(parameter)] = label
        return named

    def step(self, closure: Any = None) -> Any:
        """Updates the parameters by their gradients.

        Raises:
            NotImplementedError: If the subclass does not define it.
        """
        raise NotImplementedError(f"{type(self).__name__} has no step()")

    def _look_at_first_steps(self, strict: bool = False) -> None:
        """Checks the first two steps. At the first, warns of gradients that no optimizer uses, and
        of gradients of a loss that is still scaled; at the second, of gradients that were added to
        those of the first. If strict, checks each step and raises an error.
        """
        self._has_stepped = True
        if self._looked > 1 and not strict or _trust.is_recording_step():
            return
        self._looked += 1
        _living.add(self)
        told = [self._told_of_kept(), self._told_of_plain()]
        if strict and self._looked == 1:
            told.append(self._told_of_repeats())
        if self._looked == 1 or strict:
            told += [told_of_settings(self), told_of_frozen(self), self._told_of_left_out(), self._told_of_replaced(), self._told_of_scale()]
            told += [told_of_memory(self)]
            told += [told_of_lost(self, _last_pass(self)), told_of_shared(self, list(_living), _described)]
        for text in filter(None, told):
            if strict:
                raise RuntimeError(f"{text} (an error, as the optimizer is strict)")
            warn_caller(text)

    def _note_used(self) -> None:
        """Marks the gradients as used, as long as steps are checked."""
        if self._looked < 2 or getattr(self, "strict", False):
            _trust.note_used([parameter for group in self.param_groups for parameter in group["params"]])
            note_gradients(self)

    def _told_of_kept(self) -> str:
        kept = [parameter for group in self.param_groups for parameter in group["params"] if _trust.is_stale(parameter)]
        if not kept:
            return ""
        names = _few([_described(parameter, "a parameter") for parameter in kept])
        told = "gradients were added to those that the step before has used: call zero_grad() once for each step, before backward"
        return f"{type(self).__name__}: {names}: {told}"

    def _told_of_left_out(self) -> str:
        names = _left_out(self)
        if not names:
            return ""
        them, are = ("it", "it is") if len(names) == 1 else ("them", "they are")
        return (
            f"{type(self).__name__}: {_few(names)}: gradients come to {them}, but no optimizer has {them}: look at what parameters() or the list "
            f"that was given leaves out, or freeze {them} by requires_grad_(False) if {are} not to be trained"
        )

    def _told_of_repeats(self) -> str:
        """Reports a layer that a list contains several times. Layers under several names share
        parameters on purpose.
        """
        own = {id(parameter) for parameter in _parameters(self)}
        for root in roots():
            found = repeats(root, in_lists=True) if any(id(tensor) in own for _, tensor in tensors_of(root)) else []
            for keys, kind in found:
                them = f"{_few(keys)} of {type(root).__name__} are one {kind}, whose parameters are used {len(keys)} times"
                return f"{type(self).__name__}: {them}: create a layer for each place ([layer] * n repeats one), or call one in a loop if that is meant"
        return ""

    def _told_of_replaced(self) -> str:
        names = _instead(self)
        told = f"none of its own parameters has a gradient, but gradients come to {_few(names)}, which no optimizer has"
        return f"{type(self).__name__}: {told}: create the optimizer from the parameters of the model that is trained, after the model was replaced or copied" if names else ""

    def _told_of_plain(self) -> str:
        names = _plain(self)
        if not names or self._has_told_of_plain:
            return ""
        self._has_told_of_plain = not getattr(self, "strict", False)
        told = "a tensor that asks for a gradient but is no nn.Parameter, so parameters() does not have it, and no optimizer moves it: make it an nn.Parameter"
        return f"{type(self).__name__}: {_few(names)}: {told}"

    def _told_of_scale(self) -> str:
        scale = scale_in(_parameters(self))
        told = f"the gradients are those of a loss times {scale:g}, by a GradScaler: call its step(optimizer), or unscale_(optimizer) before"
        return f"{type(self).__name__}: {told}" if scale else ""

    def _between_hooks(self, step: Any, args: Any, kwargs: Any) -> Any:
        args = (self, *args)
        for hook in list(self._hooks_before.values()):
            told = hook(self, args, kwargs)
            if told is not None:
                args, kwargs = _arguments(told)
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
        return _hooked(self._hooks_before, hook)

    def register_step_post_hook(self, hook: Any) -> RemovableHandle:
        """Registers a hook `hook(optimizer, args, kwargs)` that is called after each step.

        Raises:
            TypeError: If the hook is not callable.
        """
        return _hooked(self._hooks_after, hook)

    def _take_rates(self) -> None:
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
        numbers = _numbered(self.param_groups)
        state = {numbers.get(id(key), key): value for key, value in self.state.items()}
        groups = [{**group, "params": [numbers[id(parameter)] for parameter in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict) -> None:
        """Restores the state and the settings that `state_dict` returned.

        Raises:
            ValueError: If the groups differ, or if the state does not match.
            TypeError: If the argument is not a dict.
        """
        state, groups = self._parted(state_dict)
        sizes, own = [len(group["params"]) for group in groups], [len(group["params"]) for group in self.param_groups]
        if sizes != own:
            raise ValueError(f"{type(self).__name__}: a state of groups of {sizes} parameters, expected {own}")
        told = [number for group in groups for number in group["params"]]
        parameters = dict(zip(told, (parameter for group in self.param_groups for parameter in group["params"])))
        self.state = defaultdict(dict)
        for key, value in state.items():
            parameter = parameters.get(key)
            self.state[key if parameter is None else parameter] = _beside(parameter, value)
        for group, told_group in zip(self.param_groups, groups):
            group.update({name: copy.deepcopy(value) for name, value in told_group.items() if name != "params"})

    def _parted(self, state_dict: Any) -> tuple[Any, Any]:
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
        return {name: {} if name.startswith("_hooks") else value for name, value in self.__dict__.items() if name not in ("_made_at", "_used")}

    def __repr__(self) -> str:
        lines = []
        for number, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {number}")
            lines += [f"    {name}: {group[name]}" for name in sorted(group) if name != "params"]
        return f"{type(self).__name__} (\n" + "\n".join(lines) + "\n)"


def _numbered(groups: list[dict[str, Any]]) -> dict[int, int]:
    """Returns the indices of parameters in a state dict, counted over all groups."""
    parameters = (parameter for group in groups for parameter in group["params"])
    return {id(parameter): number for number, parameter in enumerate(parameters)}


def _beside(parameter: Any, value: Any, name: str = "") -> Any:
    """Returns a copy of a state value on the device of the parameter, and in its dtype if both are
    floating point and the value is not a step count.
    """
    if isinstance(value, Tensor):
        if parameter is None or name == "step":
            return value.clone()
        is_like = parameter.is_floating_point() and value.is_floating_point()
        return value.to(parameter.device, parameter.dtype if is_like else value.dtype, copy=True)
    if isinstance(value, dict):
        return {key: _beside(parameter, each, key) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_beside(parameter, each, name) for each in value)
    return copy.deepcopy(value)
