"""Names of parameters in messages: their keys in the module whose parameters were requested last.
"""

from __future__ import annotations

import weakref
from typing import Any

from ._places import hidden, places_of, roots
from ._ternion import Parameter, _trust


class _Known(weakref.ref):  # type: ignore[type-arg]
    """A weak reference to a named parameter, or to a tensor that is used like one. Its entry in
    `_names` is removed when the tensor dies.
    """

    __slots__ = ("is_plain", "name", "number", "own", "version")

    def __init__(self, parameter: Any, forget: Any):
        super().__init__(parameter, forget)  # type: ignore[call-arg]
        self.number, self.name, self.own = id(parameter), "", ""
        self.is_plain, self.version = False, 0


def _forget(known: _Known) -> None:
    names = _names
    # At interpreter shutdown, `_names` may already be gone.
    if names is not None and names.get(known.number) is known:
        names.pop(known.number, None)


# By identity: `==` on parameters is elementwise.
_names: dict[int, _Known] = {}


def _known(parameter: Any) -> _Known:
    known = _names.get(id(parameter))
    if known is None or known() is not parameter:
        known = _names[id(parameter)] = _Known(parameter, _forget)
    return known


def note_name(parameter: Any, name: str) -> None:
    """Records the key of a parameter in a module. A shorter key that a submodule reports later is
    ignored.
    """
    known = _known(parameter)
    if known.name != name and not known.name.endswith(f".{name}"):
        known.name = name


def note_owner(parameter: Any, module: str, name: str) -> None:
    """Records the class of the module to which a parameter is assigned, and its attribute name.
    Messages use them if no module was asked for its parameters.
    """
    known = _known(parameter)
    if not known.own:
        known.own = f"{module}.{name}"
        _trust.note_owner(parameter, known.own)


def note_plain(tensor: Any, module: str, name: str) -> None:
    """Records the class of the module to which a tensor that requires a gradient, but is not a
    parameter, is assigned, and its attribute name.
    """
    known = _known(tensor)
    if not known.own:
        known.own, known.is_plain, known.version = f"{name} of {module}", True, tensor._version


def all_named() -> list[Any]:
    """Returns the parameters that are in modules."""
    found = [known() for known in list(_names.values()) if not known.is_plain and (known.name or known.own)]
    return [parameter for parameter in found if parameter is not None]


def _note_hidden() -> None:
    """Records the tensors that require gradients and are stored by a module in an object or a
    function. Parameters get their names elsewhere.
    """
    for root in roots():
        for key, tensor in hidden(root):
            if not isinstance(tensor, Parameter) and id(tensor) not in _names:
                note_plain(tensor, type(root).__name__, key)
                # Whether the program updates it itself is not known yet.
                _known(tensor).version = -1


def unmoved_plain(looks: bool) -> list[tuple[Any, str]]:
    """Returns the tensors in modules that require gradients and are not parameters, with their
    names; also those in objects and functions if `looks` is true. Tensors that were written to
    since the last call are excluded: the program may update them itself.
    """
    if looks:
        _note_hidden()
    found = []
    for known in [each for each in list(_names.values()) if each.is_plain]:
        tensor = known()
        if tensor is not None:
            before, known.version = known.version, tensor._version
            found += [(tensor, known.own)] if known.version == before else []
    return found


def name_of(parameter: Any) -> str | None:
    """Returns the key of a parameter, if a module was asked for its parameters."""
    known = _names.get(id(parameter))
    return known.name or None if known is not None and known() is parameter else None


def full_names(parameters: list[Any]) -> list[str]:
    """Returns the names of parameters in messages: the key in the module that was asked for its
    parameters, or the key in the outermost module that contains the parameter; otherwise whatever
    is known.
    """
    names = [name_of(parameter) or "" for parameter in parameters]
    # A key without dots may occur in several modules.
    places = places_of(parameter for parameter, name in zip(parameters, names) if "." not in name)
    owned = [known.own if known is not None and known() is parameter else "" for parameter, known in ((each, _names.get(id(each))) for each in parameters)]
    return [name if "." in name else places.get(id(parameter)) or name or own for parameter, name, own in zip(parameters, names, owned)]
