"""State dicts of modules: saving and loading, with hooks and custom state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._scopes import no_grad
from .._ternion import Tensor, tensor
from ._members import HOOKS, ModuleBase, iter_modules, own_tensors

EXTRA = "_extra_state"
# Set in `local_metadata` by a module whose loading is not overridden.
_DEFAULT_LOAD = "takes its own tensors"


class IncompatibleKeys(NamedTuple):
    """The keys that a state dict and a module do not have in common."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Stateful(ModuleBase):
    """The part of a module that a subclass may override: the state that it has in addition to
    tensors.
    """

    def get_extra_state(self) -> Any:
        """Returns state of the module in addition to its tensors, stored under "_extra_state".
        Numbers, strings, and lists and dicts of them can be written to a file.

        Raises:
            RuntimeError: If the subclass does not override it.
        """
        raise RuntimeError(f"{type(self).__name__} has no get_extra_state()")

    def set_extra_state(self, state: Any) -> None:
        """Restores what `get_extra_state` returned.

        Raises:
            RuntimeError: If the subclass does not override it.
        """
        raise RuntimeError(f"{type(self).__name__} has no set_extra_state(), but its state holds one")


    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], strict: bool, missing_keys: list[str],
        unexpected_keys: list[str], error_msgs: list[str],
    ) -> None:  # fmt: skip
        """Loads the module's own tensors, under `prefix`, from `state_dict`, which is a copy. A
        subclass may rename keys first, or load the tensors itself.

        Errors are appended to the lists. The tensors are overwritten only after the whole state has
        been found to fit.
        """
        local_metadata[_DEFAULT_LOAD] = True


def _hooks(module: Any, kind: str) -> list[Any]:
    hooks = module.__dict__.get(HOOKS)
    return [] if hooks is None else [hook.call for hook in getattr(hooks, kind).values()]


def _overrides(module: Any, method: str) -> bool:
    return getattr(type(module), method) is not getattr(Stateful, method)


def collect_state(module: Any, destination: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Collects the state of a module into a dict."""
    modules = list(iter_modules(module, prefix))
    for start, submodule in modules:
        for hook in _hooks(submodule, "before_state"):
            hook(submodule, start, keep_vars)
        for key, value in own_tensors(submodule, start, persistent=True):
            destination[key] = value if keep_vars else value.detach()
        if _overrides(submodule, "get_extra_state"):
            destination[start + EXTRA] = submodule.get_extra_state()
    for start, submodule in reversed(modules):
        for hook in _hooks(submodule, "after_state"):
            hook(submodule, destination, start, {})
    return destination


def load_state(module: Any, state_dict: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Overwrites the tensors of a module with those of a state dict. Changes nothing unless all of
    them fit.
    """
    modules, state = list(iter_modules(module)), dict(state_dict)
    keys = IncompatibleKeys([], [])
    errors: list[str] = []
    for start, submodule in modules:
        for hook in _hooks(submodule, "before_load"):
            hook(submodule, state, start, {}, strict, *keys, errors)
    custom_prefixes = _call_custom_loaders(modules, state, strict, keys, errors)
    targets = {key: value for start, submodule in modules if start not in custom_prefixes for key, value in own_tensors(submodule, start, persistent=True)}
    extra = {start + EXTRA: submodule for start, submodule in modules if _overrides(submodule, "get_extra_state") or _overrides(submodule, "set_extra_state")}
    keys.missing_keys.extend(key for key in (*targets, *extra) if key not in state)
    keys.unexpected_keys.extend(key for key in state if key not in targets and key not in extra and key.rpartition(".")[0] not in custom_prefixes.values())
    sources = {key: _tensor(key, state[key]) for key in targets if key in state}
    for key, value in sources.items():
        if value.ndim == 1 and targets[key].ndim == 0 and value.numel():
            # Files of PyTorch before 0.4 store scalars with one axis.
            sources[key] = value[0]
    errors += [
        f"size mismatch for {key}: {tuple(value.shape)}, expected {tuple(targets[key].shape)}"
        for key, value in sources.items()
        if tuple(value.shape) != tuple(targets[key].shape)
    ]
    # Hooks may resolve missing and unexpected keys, so they are called after the tensors have been
    # overwritten.
    hooks = [(hook, submodule) for _, submodule in reversed(modules) for hook in _hooks(submodule, "after_load")]
    _check(module, keys if strict and not hooks else IncompatibleKeys([], []), errors)
    _overwrite(targets, sources, assign)
    for key, submodule in extra.items():
        if key in state:
            submodule.set_extra_state(state[key])
    for hook, submodule in hooks:
        hook(submodule, keys)
    _check(module, keys if strict else IncompatibleKeys([], []), [])
    return keys


def _call_custom_loaders(modules: list[Any], state: dict[str, Any], strict: bool, keys: IncompatibleKeys, errors: list[str]) -> dict[str, str]:
    """Calls the modules that override loading. Returns the key prefixes, with and without the dot,
    of those that load their tensors themselves.
    """
    custom_prefixes = {}
    for start, submodule in modules:
        if _overrides(submodule, "_load_from_state_dict"):
            metadata: dict[str, Any] = {}
            submodule._load_from_state_dict(state, start, metadata, strict, *keys, errors)
            if _DEFAULT_LOAD not in metadata:
                custom_prefixes[start] = start[:-1]
    return custom_prefixes


def _overwrite(targets: dict[str, Any], sources: dict[str, Tensor], assign: bool) -> None:
    with no_grad():
        for key, source in sources.items():
            if assign:
                targets[key].data = source
            else:
                targets[key].copy_(source)


def _check(module: Any, keys: IncompatibleKeys, errors: list[str]) -> None:
    problems = [f"missing: {_join_first(keys.missing_keys, ', ')}"] if keys.missing_keys else []
    problems += [f"unexpected: {_join_first(keys.unexpected_keys, ', ')}"] if keys.unexpected_keys else []
    problems += [_join_first(errors, "; ")] if errors else []
    if problems:
        raise RuntimeError(f"the state does not fit {type(module).__name__}: " + "; ".join(problems))


# The number of entries that are listed; the others are counted.
_MAX_LISTED = 10


def _join_first(items: list[str], separator: str) -> str:
    remaining = len(items) - _MAX_LISTED
    return separator.join([*map(str, items[:_MAX_LISTED]), *([f"and {remaining} more"] if remaining > 0 else [])])


def _tensor(key: str, value: Any) -> Tensor:
    """Converts a value of a state dict to a tensor."""
    if isinstance(value, Tensor):
        return value.detach()
    try:
        return tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"load_state_dict: {key} is of type {type(value).__name__}, expected a tensor: {error}") from None
