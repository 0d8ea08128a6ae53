"""Modules and parameters in rows and by names."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .._ternion import Parameter, Tensor
from .module import _KINDS, Module

if TYPE_CHECKING:
    from typing_extensions import Self


# Functions rather than methods: a subclass may have attributes of any name.


def _items(owner) -> list[tuple[str, Any]]:
    """Names and modules, also of one that is there twice."""
    kinds = owner.__dict__.get(_KINDS, {})
    return [(name, owner.__dict__[name]) for name in kinds if kinds[name] == "module" and owner.__dict__.get(name) is not None]


def _modules(owner) -> list[Any]:
    return [module for _, module in _items(owner)]


def _renumber(owner, modules: Iterable[Any]) -> None:
    """These modules, and no others."""
    modules = [_checked(owner, module) for module in modules]
    for name, _ in _items(owner):
        delattr(owner, name)
    for number, module in enumerate(modules):
        owner.add_module(str(number), module)


def _checked(owner, module):
    if not isinstance(module, Module):
        raise TypeError(f"{type(owner).__name__}: a {type(module).__name__}, expected a nn.Module")
    return module


def _place(owner, index) -> int:
    count = len(owner)
    place = operator.index(index)
    if not -count <= place < count:
        raise IndexError(f"{type(owner).__name__}: index {place}, but there are {count} modules")
    return place % count


def _names(owner):
    return [name for name in owner.__dict__.get(_KINDS, {}) if name in owner.__dict__]


def _known(owner, name):
    if name not in _names(owner):
        raise KeyError(name)
    return owner.__dict__[name]


def _row(owner):
    return [owner.__dict__[name] for name in owner.__dict__.get(_KINDS, {}) if name in owner.__dict__]


class _Row(Module):
    """What `Sequential` and `ModuleList` have in common: modules under the names 0, 1, .."""

    def __len__(self) -> int:
        return len(_items(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_modules(self))

    def __contains__(self, module: Any) -> bool:
        return any(module is own for own in self)

    def __setitem__(self, index: Any, module: Any) -> None:
        setattr(self, _items(self)[_place(self, index)][0], _checked(self, module))

    def __delitem__(self, index: Any) -> None:
        kept = _modules(self)
        del kept[index if isinstance(index, slice) else _place(self, index)]
        _renumber(self, kept)

    def append(self, module: Module) -> Self:
        """Puts a module behind the others; the row itself."""
        self.add_module(str(len(self)), _checked(self, module))
        return self

    def extend(self, modules: Any):
        """Puts modules behind the others; the row itself."""
        if isinstance(modules, Module) and not isinstance(modules, _Row) or not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend: a {type(modules).__name__}, expected several modules")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: Any, module: Any):
        """Puts a module before the one at `index`; the row itself."""
        modules = _modules(self)
        modules.insert(operator.index(index), _checked(self, module))
        _renumber(self, modules)
        return self

    def pop(self, index: Any = -1):
        """Takes a module out; the module."""
        module = _modules(self)[_place(self, index)]
        del self[index]
        return module

    def __iadd__(self, other: Any):
        return self.extend(other)


class Sequential(_Row):
    """Modules one behind the other; they are also items: `model[0]`, `len(model)`, `for layer in model`.

    Shapes: those of the first module's input -> those of the last one's output

    Args:
        modules: the modules; or one dict of them, whose names they get.

    Raises:
        TypeError: something that is no module.
        IndexError: an item that is not there.
        KeyError: a name that is taken, or has dots.
    """

    def __init__(self, *modules: Any):
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], Mapping) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), _checked(self, module))

    def forward(self, input: Tensor) -> Tensor:
        # As `_items`, without lists of pairs: this runs for every batch.
        own = self.__dict__
        for name, kind in tuple(own.get(_KINDS, {}).items()):
            module = own.get(name) if kind == "module" else None
            if module is not None:
                input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(_items(self)[index]))
        return _items(self)[_place(self, index)][1]

    def __add__(self, other: Any):
        if not isinstance(other, Sequential):
            return NotImplemented
        return Sequential(*self, *other)

    def __mul__(self, times: int):
        if not isinstance(times, int):
            return NotImplemented
        if times < 1:
            raise ValueError(f"Sequential: {times} times, expected at least 1")
        return Sequential(*(list(self) * times))

    __rmul__ = __mul__


class ModuleList(_Row):
    """Modules in a list. (A plain list as an attribute does as well.)

    Raises:
        TypeError: something that is no module.
        IndexError: an item that is not there.
        NotImplementedError: when called: it says nothing of the order of computation.
    """

    def __init__(self, modules: Any = ()):
        self.extend(modules if modules is not None else ())

    def __getitem__(self, index: Any) -> Any:
        modules = _modules(self)
        return type(self)(modules[index]) if isinstance(index, slice) else modules[_place(self, index)]

    def __add__(self, other: Any):
        return ModuleList([*self, *other])


class _Named(Module):
    """What `ModuleDict` and `ParameterDict` have in common: values under names of one's own."""

    def _put(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        return _known(self, name)

    def __setitem__(self, name: str, value: float) -> None:
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        _known(self, name)
        delattr(self, name)

    def __len__(self) -> int:
        return len(_names(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_names(self))

    def __contains__(self, name: str) -> bool:
        return name in _names(self)

    def keys(self):
        """The names."""
        return _names(self)

    def values(self):
        """What is under the names."""
        return [self.__dict__[name] for name in _names(self)]

    def items(self):
        """Pairs of names and what is under them."""
        return [(name, self.__dict__[name]) for name in _names(self)]

    def clear(self):
        """Takes out everything."""
        for name in _names(self):
            delattr(self, name)

    def pop(self, name: str):
        """Takes out what is under a name, which is returned."""
        value = _known(self, name)
        delattr(self, name)
        return value

    def update(self, others: Any):
        """Puts in what another dict has, or pairs of names and values."""
        if not isinstance(others, Iterable):
            raise TypeError(f"{type(self).__name__}.update: a {type(others).__name__}, expected a dict or pairs")
        for name, value in list(others.items()) if isinstance(others, (Mapping, _Named)) else list(others):
            self._put(name, value)


class ModuleDict(_Named):
    """Modules by names. (A plain dict as an attribute does as well.)

    Raises:
        TypeError: something that is no module, a name that is no string.
        KeyError: an item that is not there, a name that is taken or has dots.
    """

    def __init__(self, modules: Any = None):
        self.update(modules or {})

    def _put(self, name, value):
        self.add_module(name, value)


class ParameterDict(_Named):
    """Parameters by names; a tensor becomes a parameter.

    Raises:
        TypeError: something that is neither a parameter nor a tensor.
        KeyError: an item that is not there.
    """

    def __init__(self, parameters: Any = None):
        self.update(parameters or {})

    def _put(self, name, value):
        self.register_parameter(name, _parameter(self, value))

    def get(self, name: str, default: Any = None) -> Any:
        """What is under a name, or `default`."""
        return self[name] if name in self else default

    def setdefault(self, name: str, default: Any = None) -> Any:
        """What is under a name, where `default` is put if there is nothing.

        Raises:
            TypeError: a default that is neither a parameter nor a tensor.
        """
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Takes out what was put in last, which is returned with its name.

        Raises:
            KeyError: there is nothing.
        """
        if not len(self):
            raise KeyError("ParameterDict: nothing is in it")
        name = self.keys()[-1]
        return name, self.pop(name)

    def copy(self) -> ParameterDict:
        """Another dict with the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Another dict, with `default` under each of these names.

        Raises:
            TypeError: a default that is neither a parameter nor a tensor.
        """
        return ParameterDict((name, default) for name in keys)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {tuple(value.shape)}" for name, value in self.items())


class ParameterList(Module):
    """Parameters in a list; a tensor becomes a parameter. (A plain list as an attribute does as well.)

    Raises:
        TypeError: something that is neither a parameter nor a tensor.
        IndexError: an item that is not there.
    """

    def __init__(self, values: Any = ()):
        self.extend(values if values is not None else ())

    def append(self, value: float) -> Self:
        """Puts a parameter behind the others; the list itself.

        Raises:
            TypeError: something that is neither a parameter nor a tensor.
        """
        self.register_parameter(str(len(self)), _parameter(self, value))
        return self

    def extend(self, values: Any):
        """Puts parameters behind the others; the list itself.

        Raises:
            TypeError: no list, or items that are neither parameters nor tensors.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: a {type(values).__name__}, expected several parameters")
        for value in list(values):
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(_row(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_row(self))

    def __getitem__(self, index: Any) -> Any:
        row = _row(self)
        return type(self)(row[index]) if isinstance(index, slice) else row[index]

    def __setitem__(self, index: Any, value: float) -> None:
        count, place = len(self), operator.index(index)
        if not -count <= place < count:
            raise IndexError(f"ParameterList: index {place}, but there are {count} parameters")
        setattr(self, str(place % count), _parameter(self, value))

    def __iadd__(self, values: Any):
        return self.extend(values)

    def extra_repr(self) -> str:
        return ", ".join(str(tuple(value.shape)) for value in self)


def _parameter(owner, value):
    if isinstance(value, Parameter):
        return value
    if not isinstance(value, Tensor):
        raise TypeError(f"{type(owner).__name__}: a {type(value).__name__}, expected a nn.Parameter or a tensor")
    return Parameter(value)
