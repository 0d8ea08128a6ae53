"""What parameters are called in messages: their keys, as the module says that was asked for its parameters last."""

from __future__ import annotations

import weakref
from typing import Any

from ._places import hidden, places_of, roots
from ._ternion import Parameter, _trust


class _Known(weakref.ref):  # type: ignore[type-arg]
    """A parameter that has a name, or a tensor that is like one: a place in `_names` that is left when it goes."""

    __slots__ = ("is_plain", "name", "number", "own", "version")

    def __init__(self, parameter: Any, forget: Any):
        super().__init__(parameter, forget)  # type: ignore[call-arg]
        self.number, self.name, self.own = id(parameter), "", ""
        self.is_plain, self.version = False, 0


def _forget(known: _Known) -> None:
    names = _names
    # While the interpreter ends, the names may have gone before.
    if names is not None and names.get(known.number) is known:
        names.pop(known.number, None)


# By identity: parameters are compared element by element.
_names: dict[int, _Known] = {}


def _known(parameter: Any) -> _Known:
    known = _names.get(id(parameter))
    if known is None or known() is not parameter:
        known = _names[id(parameter)] = _Known(parameter, _forget)
    return known


def note_name(parameter: Any, name: str) -> None:
    """A module says what it calls a parameter. What a part of it says then is shorter, and does not count."""
    known = _known(parameter)
    if known.name != name and not known.name.endswith(f".{name}"):
        known.name = name


def note_owner(parameter: Any, module: str, name: str) -> None:
    """A parameter is put into a module of this class, under this name: all that messages can say of one of which no module was asked."""
    known = _known(parameter)
    if not known.own:
        known.own = f"{module}.{name}"
        _trust.note_owner(parameter, known.own)


def note_plain(tensor: Any, module: str, name: str) -> None:
    """A tensor that asks for a gradient, but is no parameter, is put into a module of this class, under this name."""
    known = _known(tensor)
    if not known.own:
        known.own, known.is_plain, known.version = f"{name} of {module}", True, tensor._version


def all_named() -> list[Any]:
    """The parameters that are in modules."""
    found = [known() for known in list(_names.values()) if not known.is_plain and (known.name or known.own)]
    return [parameter for parameter in found if parameter is not None]


def _note_hidden() -> None:
    """Notes the tensors that ask for a gradient and that a module keeps in an object or in a function; those that are parameters are named otherwise."""
    for root in roots():
        for key, tensor in hidden(root):
            if not isinstance(tensor, Parameter) and id(tensor) not in _names:
                note_plain(tensor, type(root).__name__, key)
                # Whether it is moved by hand is not known yet.
                _known(tensor).version = -1


def unmoved_plain(looks: bool) -> list[tuple[Any, str]]:
    """The tensors in modules that ask for a gradient and are no parameters, with what they are called; in objects and functions, too, if they are looked for. Those that were
    written to since the last call are left out: they may be moved by hand."""
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
    """The name of a parameter that a module was asked for."""
    known = _names.get(id(parameter))
    return known.name or None if known is not None and known() is parameter else None


def full_names(parameters: list[Any]) -> list[str]:
    """What messages call parameters: the key that a module was asked for, or the key in the outermost module that has it; else all that is known."""
    names = [name_of(parameter) or "" for parameter in parameters]
    # A key without dots may be that of several modules.
    places = places_of(parameter for parameter, name in zip(parameters, names) if "." not in name)
    owned = [known.own if known is not None and known() is parameter else "" for parameter, known in ((each, _names.get(id(each))) for each in parameters)]
    return [name if "." in name else places.get(id(parameter)) or name or own for parameter, name, own in zip(parameters, names, owned)]
