"""What parameters are called in messages: their keys, as the module says that was asked for its parameters last."""

from __future__ import annotations

import weakref
from typing import Any

from ._ternion import _trust


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


def all_named() -> list[tuple[Any, str]]:
    """The parameters that are in modules, with their names."""
    found = [(known(), known.name or f"{known.own} of a layer") for known in list(_names.values()) if not known.is_plain]
    return [(parameter, name) for parameter, name in found if parameter is not None]


def unmoved_plain() -> list[tuple[Any, str]]:
    """The tensors in modules that ask for a gradient and are no parameters, with what they are called. Those that were written to since the last call are left out: they
    may be moved by hand."""
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
