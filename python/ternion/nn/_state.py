"""State dicts of modules: saving and loading, with hooks and custom state."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._scopes import no_grad
from .._ternion import Tensor, tensor
from ._parts import HOOKS, Part, parts, tensors

EXTRA = "_extra_state"
# Set in `local_metadata` by a module whose loading is not overridden.
_TAKES_ITS_OWN = "takes its own tensors"


class IncompatibleKeys(NamedTuple):
    """The keys that a state dict and a module do not have in common."""

    missing_keys: list[str]
    unexpected_keys: list[str]

    def __repr__(self) -> str:
        if not self.missing_keys and not self.unexpected_keys:
            return "<All keys matched successfully>"
        return f"IncompatibleKeys(missing_keys={self.missing_keys}, unexpected_keys={self.unexpected_keys})"


class Stateful(Part):
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
        local_metadata[_TAKES_ITS_OWN] = True


def _hooks(module: Any, kind: str) -> list[Any]:
    hooks = module.__dict__.get(HOOKS)
    return [] if hooks is None else [hook.call for hook in getattr(hooks, kind).values()]


def _has(part: Any, method: str) -> bool:
    return getattr(type(part), method) is not getattr(Stateful, method)


def gathered(module: Any, told: dict[str, Any], prefix: str, keep_vars: bool) -> dict[str, Any]:
    """Collects the state of a module into a dict."""
    everything = list(parts(module, prefix))
    for start, part in everything:
        for hook in _hooks(part, "before_state"):
            hook(part, start, keep_vars)
        for key, value in tensors(part, start, persistent=True):
            told[key] = value if keep_vars else value.detach()
        if _has(part, "get_extra_state"):
            told[start + EXTRA] = part.get_extra_state()
    for start, part in reversed(everything):
        for hook in _hooks(part, "after_state"):
            hook(part, told, start, {})
    return told


def taken(module: Any, given: Mapping[str, Any], strict: bool, assign: bool) -> IncompatibleKeys:
    """Overwrites the tensors of a module with those of a state dict. Changes nothing unless all of
    them fit.
    """
    everything, state = list(parts(module)), dict(given)
    keys = IncompatibleKeys([], [])
    unfit: list[str] = []
    for start, part in everything:
        for hook in _hooks(part, "before_load"):
            hook(part, state, start, {}, strict, *keys, unfit)
    others = _taken_otherwise(everything, state, strict, keys, unfit)
    own = {key: value for start, part in everything if start not in others for key, value in tensors(part, start, persistent=True)}
    extra = {start + EXTRA: part for start, part in everything if _has(part, "get_extra_state") or _has(part, "set_extra_state")}
    keys.missing_keys.extend(key for key in (*own, *extra) if key not in state)
    keys.unexpected_keys.extend(key for key in state if key not in own and key not in extra and key.rpartition(".")[0] not in others.values())
    sources = {key: _tensor(key, state[key]) for key in own if key in state}
    for key, value in sources.items():
        if value.ndim == 1 and own[key].ndim == 0 and value.numel():
            # Files of PyTorch before 0.4 store scalars with one axis.
            sources[key] = value[0]
    unfit += [
        f"size mismatch for {key}: {tuple(value.shape)}, expected {tuple(own[key].shape)}"
        for key, value in sources.items()
        if tuple(value.shape) != tuple(own[key].shape)
    ]
    # Hooks may resolve missing and unexpected keys, so they are called after the tensors have been
    # overwritten.
    hooks = [(hook, part) for _, part in reversed(everything) for hook in _hooks(part, "after_load")]
    _check(module, keys if strict and not hooks else IncompatibleKeys([], []), unfit)
    _overwrite(own, sources, assign)
    for key, part in extra.items():
        if key in state:
            part.set_extra_state(state[key])
    for hook, part in hooks:
        hook(part, keys)
    _check(module, keys if strict else IncompatibleKeys([], []), [])
    return keys


def _taken_otherwise(everything: list[Any], state: dict[str, Any], strict: bool, keys: IncompatibleKeys, unfit: list[str]) -> dict[str, str]:
    """Calls the modules that override loading. Returns the key prefixes, with and without the dot,
    of those that load their tensors themselves.
    """
    others = {}
    for start, part in everything:
        if _has(part, "_load_from_state_dict"):
            notes: dict[str, Any] = {}
            part._load_from_state_dict(state, start, notes, strict, *keys, unfit)
            if _TAKES_ITS_OWN not in notes:
                others[start] = start[:-1]
    return others


def _overwrite(own: dict[str, Any], sources: dict[str, Tensor], assign: bool) -> None:
    with no_grad():
        for key, source in sources.items():
            if assign:
                own[key].data = source
            else:
                own[key].copy_(source)


def _check(module: Any, keys: IncompatibleKeys, unfit: list[str]) -> None:
    told = [f"missing: {_first(keys.missing_keys, ', ')}"] if keys.missing_keys else []
    told += [f"unexpected: {_first(keys.unexpected_keys, ', ')}"] if keys.unexpected_keys else []
    told += [_first(unfit, "; ")] if unfit else []
    if told:
        raise RuntimeError(f"the state does not fit {type(module).__name__}: " + "; ".join(told))


# The number of entries that are listed; the others are counted.
_TOLD = 10


def _first(all_of_them: list[str], between: str) -> str:
    more = len(all_of_them) - _TOLD
    return between.join([*map(str, all_of_them[:_TOLD]), *([f"and {more} more"] if more > 0 else [])])


def _tensor(key: str, value: Any) -> Tensor:
    """Converts a value of a state dict to a tensor."""
    if isinstance(value, Tensor):
        return value.detach()
    try:
        return tensor(value)
    except (TypeError, ValueError) as error:
        raise TypeError(f"load_state_dict: {key} is of type {type(value).__name__}, expected a tensor: {error}") from None
