"""Members of a module: the parameters, buffers and modules among its attributes, with their keys.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from .._ternion import Parameter

# Keys of the bookkeeping data that a module stores in its `__dict__`. They are not identifiers, so
# that no attribute can have the same name.
KINDS = "kinds of attributes"
BUFFERS = "names of buffers"
HOOKS = "hooks of calls"
_INTERNAL_KEYS = frozenset((KINDS, BUFFERS, HOOKS))


class Registered:
    """The current parameters, buffers or modules of a module itself, by key. An attribute of the
    same name shadows it.
    """

    def __init__(self, kind: str):
        self._kind = kind

    def __get__(self, module: Any, owner: Any = None) -> Mapping[str, Any]:
        return MappingProxyType({} if module is None else dict(registered_members(module, self._kind)))


class ModuleBase:
    """Base class of the members that are collected from attributes: every module is one."""

    _parameters = Registered("parameter")
    _buffers = Registered("buffer")
    _modules = Registered("module")


def iter_members(value: Any, key: str) -> Iterator[tuple[str, Any]]:
    """Yields the parameters and modules within an attribute, with their keys. Searches lists,
    tuples and dicts.
    """
    if isinstance(value, (Parameter, ModuleBase)):
        yield key, value
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from iter_members(item, f"{key}.{index}")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from iter_members(item, f"{key}.{name}")


def own_members(module: Any) -> Iterator[tuple[str, Any]]:
    """Yields the parameters and modules in this module's attributes, with their keys."""
    buffers = module.__dict__.get(BUFFERS, ())
    for name, value in list(module.__dict__.items()):
        if name not in _INTERNAL_KEYS and name not in buffers:
            yield from iter_members(value, name)


def registered_members(module: Any, kind: str) -> Iterator[tuple[str, Any]]:
    """Yields the members of one kind, with None for a name that is reserved for that kind."""
    attributes = module.__dict__
    if kind == "buffer":
        yield from ((name, attributes[name]) for name in attributes.get(BUFFERS, ()))
        return
    kinds, member_type = attributes.get(KINDS, {}), Parameter if kind == "parameter" else ModuleBase
    for name, value in list(attributes.items()):
        if value is None and kinds.get(name) == kind:
            yield name, None
        elif name not in _INTERNAL_KEYS and name not in attributes.get(BUFFERS, ()):
            yield from ((key, member) for key, member in iter_members(value, name) if isinstance(member, member_type))


def iter_modules(module: Any, prefix: str = "", recurse: bool = True, _ancestors: Any = ()) -> Iterator[tuple[str, Any]]:
    """Yields this module and all modules within it, parents before children, each with the prefix
    of its keys.
    """
    yield prefix, module
    for key, member in own_members(module) if recurse else ():
        # A module that holds a reference to its parent does not contain the parent.
        if isinstance(member, ModuleBase) and member is not module and member not in _ancestors:
            yield from iter_modules(member, f"{prefix}{key}.", True, (*_ancestors, module))


def own_tensors(module: Any, prefix: str = "", persistent: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields the parameters of this module only, then its buffers, with their keys."""
    for key, member in own_members(module):
        if not isinstance(member, ModuleBase):
            yield prefix + key, member
    for name, is_persistent in list(module.__dict__.get(BUFFERS, {}).items()):
        value = module.__dict__[name]
        if value is not None and (is_persistent or not persistent):
            yield prefix + name, value


def named_tensors(module: Any, prefix: str = "", recurse: bool = True, persistent: bool = False) -> Iterator[tuple[str, Any]]:
    """Yields parameters and buffers with their keys in PyTorch's order: a module's own parameters,
    its own buffers, then those of its submodules.
    """
    for start, submodule in iter_modules(module, f"{prefix}." if prefix else "", recurse):
        yield from own_tensors(submodule, start, persistent)
