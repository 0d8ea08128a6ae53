"""Containers of modules and parameters."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from .._ternion import Parameter, Tensor
from .module import _KINDS, Module

if TYPE_CHECKING:
    from typing_extensions import Self


# These are functions rather than methods because a subclass may have attributes of any name.


def _items(owner) -> list[tuple[str, Any]]:
    """Returns names and modules, including a module that occurs twice."""
    kinds = owner.__dict__.get(_KINDS, {})
    return [(name, owner.__dict__[name]) for name in kinds if kinds[name] == "module" and owner.__dict__.get(name) is not None]


def _modules(owner) -> list[Any]:
    return [module for _, module in _items(owner)]


def _renumber(owner, modules: Iterable[Any]) -> None:
    """Replaces all modules by these."""
    modules = [_require_module(owner, module) for module in modules]
    for name, _ in _items(owner):
        delattr(owner, name)
    for index, module in enumerate(modules):
        owner.add_module(str(index), module)


def _require_module(owner, module):
    if not isinstance(module, Module):
        raise TypeError(f"{type(owner).__name__}: a {type(module).__name__}, expected a nn.Module")
    return module


def _index(owner, index) -> int:
    count = len(owner)
    position = operator.index(index)
    if not -count <= position < count:
        raise IndexError(f"{type(owner).__name__}: index {position}, but there are {count} modules")
    return position % count


def _names(owner):
    return [name for name in owner.__dict__.get(_KINDS, {}) if name in owner.__dict__]


def _lookup(owner, name):
    if name not in _names(owner):
        raise KeyError(name)
    return owner.__dict__[name]


def _values(owner):
    return [owner.__dict__[name] for name in owner.__dict__.get(_KINDS, {}) if name in owner.__dict__]


class _ModuleSequence(Module):
    """Base class of `Sequential` and `ModuleList`: modules with the names 0, 1, .."""

    def __len__(self) -> int:
        return len(_items(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_modules(self))

    def __contains__(self, module: Any) -> bool:
        return any(module is item for item in self)

    def __setitem__(self, index: Any, module: Any) -> None:
        setattr(self, _items(self)[_index(self, index)][0], _require_module(self, module))

    def __delitem__(self, index: Any) -> None:
        remaining = _modules(self)
        del remaining[index if isinstance(index, slice) else _index(self, index)]
        _renumber(self, remaining)

    def append(self, module: Module) -> Self:
        """Appends a module and returns the container."""
        self.add_module(str(len(self)), _require_module(self, module))
        return self

    def extend(self, modules: Any):
        """Appends modules and returns the container."""
        if isinstance(modules, Module) and not isinstance(modules, _ModuleSequence) or not isinstance(modules, Iterable):
            raise TypeError(f"{type(self).__name__}.extend: a {type(modules).__name__}, expected several modules")
        for module in list(modules):
            self.append(module)
        return self

    def insert(self, index: Any, module: Any):
        """Inserts a module before the one at `index` and returns the container."""
        modules = _modules(self)
        modules.insert(operator.index(index), _require_module(self, module))
        _renumber(self, modules)
        return self

    def pop(self, index: Any = -1):
        """Removes a module and returns it."""
        module = _modules(self)[_index(self, index)]
        del self[index]
        return module

    def __iadd__(self, other: Any):
        return self.extend(other)


class Sequential(_ModuleSequence):
    """Applies modules in order. They are also items: `model[0]`, `len(model)`,
    `for layer in model`.

    Shapes: the input of the first module -> the output of the last module

    Args:
        modules: the modules, or one dict of modules with their names.

    Raises:
        TypeError: If an item is not a module.
        IndexError: If an item does not exist.
        KeyError: If a name is already used or contains dots.
    """

    def __init__(self, *modules: Any):
        named = modules[0].items() if len(modules) == 1 and isinstance(modules[0], Mapping) else enumerate(modules)
        for name, module in named:
            self.add_module(str(name), _require_module(self, module))

    def forward(self, input: Tensor) -> Tensor:
        # Same as `_items`, without building lists of pairs: this runs for every batch.
        attributes = self.__dict__
        for name, kind in tuple(attributes.get(_KINDS, {}).items()):
            module = attributes.get(name) if kind == "module" else None
            if module is not None:
                input = module(input)
        return input

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(dict(_items(self)[index]))
        return _items(self)[_index(self, index)][1]

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


class ModuleList(_ModuleSequence):
    """A list of modules. (A plain list as an attribute works as well.)

    Raises:
        TypeError: If an item is not a module.
        IndexError: If an item does not exist.
        NotImplementedError: When called, because a list does not define an order of computation.
    """

    def __init__(self, modules: Any = ()):
        self.extend(modules if modules is not None else ())

    def __getitem__(self, index: Any) -> Any:
        modules = _modules(self)
        return type(self)(modules[index]) if isinstance(index, slice) else modules[_index(self, index)]

    def __add__(self, other: Any):
        return ModuleList([*self, *other])


class _NamedContainer(Module):
    """Base class of `ModuleDict` and `ParameterDict`: values with names that the caller chooses."""

    def _put(self, name: str, value: Any) -> None:
        raise NotImplementedError

    def __getitem__(self, name: str) -> Any:
        return _lookup(self, name)

    def __setitem__(self, name: str, value: float) -> None:
        self._put(name, value)

    def __delitem__(self, name: str) -> None:
        _lookup(self, name)
        delattr(self, name)

    def __len__(self) -> int:
        return len(_names(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_names(self))

    def __contains__(self, name: str) -> bool:
        return name in _names(self)

    def keys(self):
        """Returns the names."""
        return _names(self)

    def values(self):
        """Returns the values."""
        return [self.__dict__[name] for name in _names(self)]

    def items(self):
        """Returns pairs of names and values."""
        return [(name, self.__dict__[name]) for name in _names(self)]

    def clear(self):
        """Removes all values."""
        for name in _names(self):
            delattr(self, name)

    def pop(self, name: str):
        """Removes a value by name and returns it."""
        value = _lookup(self, name)
        delattr(self, name)
        return value

    def update(self, others: Any):
        """Adds the values of another dict, or pairs of names and values."""
        if not isinstance(others, Iterable):
            raise TypeError(f"{type(self).__name__}.update: a {type(others).__name__}, expected a dict or pairs")
        for name, value in list(others.items()) if isinstance(others, (Mapping, _NamedContainer)) else list(others):
            self._put(name, value)


class ModuleDict(_NamedContainer):
    """A dict of modules. (A plain dict as an attribute works as well.)

    Raises:
        TypeError: If a value is not a module, or a name is not a string.
        KeyError: If an item does not exist, or a name is already used or contains dots.
    """

    def __init__(self, modules: Any = None):
        self.update(modules or {})

    def _put(self, name, value):
        self.add_module(name, value)


class ParameterDict(_NamedContainer):
    """A dict of parameters. A tensor is converted to a parameter.

    Raises:
        TypeError: If a value is neither a parameter nor a tensor.
        KeyError: If an item does not exist.
    """

    def __init__(self, parameters: Any = None):
        self.update(parameters or {})

    def _put(self, name, value):
        self.register_parameter(name, _parameter(self, value))

    def get(self, name: str, default: Any = None) -> Any:
        """Returns the value with this name, or `default`."""
        return self[name] if name in self else default

    def setdefault(self, name: str, default: Any = None) -> Any:
        """Returns the value with this name. If there is none, sets it to `default` first.

        Raises:
            TypeError: If the default is neither a parameter nor a tensor.
        """
        if name not in self:
            self[name] = default
        return self[name]

    def popitem(self) -> tuple[str, Any]:
        """Removes the value that was added last and returns it with its name.

        Raises:
            KeyError: If the dict is empty.
        """
        if not len(self):
            raise KeyError("ParameterDict: nothing is in it")
        name = self.keys()[-1]
        return name, self.pop(name)

    def copy(self) -> ParameterDict:
        """Returns another dict with the same parameters."""
        return ParameterDict(self.items())

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """Returns another dict, with `default` under each of these names.

        Raises:
            TypeError: If the default is neither a parameter nor a tensor.
        """
        return ParameterDict((name, default) for name in keys)

    def extra_repr(self) -> str:
        return ", ".join(f"{name}: {tuple(value.shape)}" for name, value in self.items())


class ParameterList(Module):
    """A list of parameters. A tensor is converted to a parameter. (A plain list as an attribute
    works as well.)

    Raises:
        TypeError: If a value is neither a parameter nor a tensor.
        IndexError: If an item does not exist.
    """

    def __init__(self, values: Any = ()):
        self.extend(values if values is not None else ())

    def append(self, value: float) -> Self:
        """Appends a parameter and returns the list.

        Raises:
            TypeError: If a value is neither a parameter nor a tensor.
        """
        self.register_parameter(str(len(self)), _parameter(self, value))
        return self

    def extend(self, values: Any):
        """Appends parameters and returns the list.

        Raises:
            TypeError: If the argument is not a list, or an item is neither a parameter nor a
                tensor.
        """
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend: a {type(values).__name__}, expected several parameters")
        for value in list(values):
            self.append(value)
        return self

    def __len__(self) -> int:
        return len(_values(self))

    def __iter__(self) -> Iterator[Any]:
        return iter(_values(self))

    def __getitem__(self, index: Any) -> Any:
        values = _values(self)
        return type(self)(values[index]) if isinstance(index, slice) else values[index]

    def __setitem__(self, index: Any, value: float) -> None:
        count, position = len(self), operator.index(index)
        if not -count <= position < count:
            raise IndexError(f"ParameterList: index {position}, but there are {count} parameters")
        setattr(self, str(position % count), _parameter(self, value))

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
