"""Names of parameters in messages: their keys in the module whose parameters were requested last.
"""

from __future__ import annotations

import weakref
from typing import Any

from ._parameter_keys import hidden_tensors, locations_of, roots
from ._ternion import Parameter, _trust


class _NamedRef(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a named parameter, or to a tensor that is used like one. Its entry in
    `_names` is removed when the tensor dies.
    """

    __slots__ = ("is_plain", "name", "object_id", "owner_name", "version")

    def __init__(self, parameter: Any, forget: Any):
        super().__init__(parameter, forget)  # type: ignore[call-arg]
        self.object_id, self.name, self.owner_name = id(parameter), "", ""
        self.is_plain, self.version = False, 0


def _forget(ref: _NamedRef) -> None:
    names = _names
    # At interpreter shutdown, `_names` may already be gone.
    if names is not None and names.get(ref.object_id) is ref:
        names.pop(ref.object_id, None)


# By identity: `==` on parameters is elementwise.
_names: dict[int, _NamedRef] = {}


def _ref_of(parameter: Any) -> _NamedRef:
    ref = _names.get(id(parameter))
    if ref is None or ref() is not parameter:
        ref = _names[id(parameter)] = _NamedRef(parameter, _forget)
    return ref


def record_name(parameter: Any, name: str) -> None:
    """Records the key of a parameter in a module. A shorter key that a submodule reports later is
    ignored.
    """
    ref = _ref_of(parameter)
    if ref.name != name and not ref.name.endswith(f".{name}"):
        ref.name = name


def record_owner(parameter: Any, module: str, name: str) -> None:
    """Records the class of the module to which a parameter is assigned, and its attribute name.
    Messages use them if no module was asked for its parameters.
    """
    ref = _ref_of(parameter)
    if not ref.owner_name:
        ref.owner_name = f"{module}.{name}"
        _trust.record_owner(parameter, ref.owner_name)


def record_plain(tensor: Any, module: str, name: str) -> None:
    """Records the class of the module to which a tensor that requires a gradient, but is not a
    parameter, is assigned, and its attribute name.
    """
    ref = _ref_of(tensor)
    if not ref.owner_name:
        ref.owner_name, ref.is_plain, ref.version = f"{name} of {module}", True, tensor._version


def all_named() -> list[Any]:
    """Returns the parameters that are in modules."""
    alive = [ref() for ref in list(_names.values()) if not ref.is_plain and (ref.name or ref.owner_name)]
    return [parameter for parameter in alive if parameter is not None]


def _record_hidden() -> None:
    """Records the tensors that require gradients and are stored by a module in an object or a
    function. Parameters get their names elsewhere.
    """
    for root in roots():
        for key, tensor in hidden_tensors(root):
            if not isinstance(tensor, Parameter) and id(tensor) not in _names:
                record_plain(tensor, type(root).__name__, key)
                # Whether the program updates it itself is not known yet.
                _ref_of(tensor).version = -1


def unchanged_plain(search_hidden: bool) -> list[tuple[Any, str]]:
    """Returns the tensors in modules that require gradients and are not parameters, with their
    names; also those in objects and functions if `search_hidden` is true. Tensors that were
    written to since the last call are excluded: the program may update them itself.
    """
    if search_hidden:
        _record_hidden()
    unchanged = []
    for ref in [entry for entry in list(_names.values()) if entry.is_plain]:
        tensor = ref()
        if tensor is not None:
            previous, ref.version = ref.version, tensor._version
            unchanged += [(tensor, ref.owner_name)] if ref.version == previous else []
    return unchanged


def name_of(parameter: Any) -> str | None:
    """Returns the key of a parameter, if a module was asked for its parameters."""
    ref = _names.get(id(parameter))
    return ref.name or None if ref is not None and ref() is parameter else None


def full_names(parameters: list[Any]) -> list[str]:
    """Returns the names of parameters in messages: the key in the module that was asked for its
    parameters, or the key in the outermost module that contains the parameter; otherwise whatever
    is known.
    """
    names = [name_of(parameter) or "" for parameter in parameters]
    # A key without dots may occur in several modules.
    locations = locations_of(parameter for parameter, name in zip(parameters, names) if "." not in name)
    owner_names = [ref.owner_name if ref is not None and ref() is parameter else "" for parameter, ref in ((entry, _names.get(id(entry))) for entry in parameters)]
    return [name if "." in name else locations.get(id(parameter)) or name or owner_name for parameter, name, owner_name in zip(parameters, names, owner_names)]
