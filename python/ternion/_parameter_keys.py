"""Finds where a parameter is stored, for messages: its key in the outermost module that contains
it, also in objects and functions that parameters() does not traverse.
"""

from __future__ import annotations

import functools
import sys
import types
import weakref
from collections.abc import Iterable, Iterator
from typing import Any

from ._ternion import Tensor

# The modules that have parameters or submodules, by identity: a subclass may define `__eq__` in any
# way.
_modules: dict[int, weakref.ref[Any]] = {}
# The maximum depth to which objects and functions are searched, the maximum number of items of
# each, and the maximum number of items for one module.
_MAX_DEPTH = 4
_MAX_ITEMS = 64
_MAX_VISITED = 4096


def record_module(module: Any) -> None:
    """Registers a module that gets a parameter or submodule."""
    number = id(module)
    ref = _modules.get(number)
    if ref is None or ref() is not module:

        def forget(dead_ref: Any, number: int = number) -> None:
            # At interpreter shutdown, `_modules` may already be gone.
            if _modules is not None and _modules.get(number) is dead_ref:
                _modules.pop(number, None)

        _modules[number] = weakref.ref(module, forget)


def roots() -> list[Any]:
    """Returns the modules that are not part of another one, the oldest first."""
    alive = [module for module in (ref() for ref in list(_modules.values())) if module is not None]
    child_ids = {id(child) for module in alive for child in _children(module)}
    return [module for module in alive if id(module) not in child_ids]


def _children(module: Any) -> list[Any]:
    # Imported here because `nn` depends on this module.
    from .nn._members import ModuleBase, own_members

    return [member for _, member in own_members(module) if isinstance(member, ModuleBase) and member is not module]


def tensors_of(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields parameters and buffers with their keys, independently of a `parameters()` method that
    the module overrides.
    """
    from .nn._members import named_tensors

    return named_tensors(module, prefix)


def repeated_modules(model: Any, in_lists: bool = False) -> list[tuple[list[str], str]]:
    """Returns the modules with parameters that occur several times in one module, with their keys
    and types. With `in_lists` only those in lists (`[layer] * 3`): under names, modules share
    parameters on purpose.
    """
    keys: dict[int, list[str]] = {}
    kinds: dict[int, str] = {}
    for key, module in model.named_modules(remove_duplicate=False):
        if next(tensors_of(module), None) is not None and (key.rpartition(".")[2].isdigit() or not in_lists):
            keys.setdefault(id(module), []).append(key)
            kinds[id(module)] = type(module).__name__
    return [(module_keys, kinds[number]) for number, module_keys in keys.items() if len({key.rpartition(".")[0] for key in module_keys}) < len(module_keys)]


def locations_of(parameters: Iterable[Any]) -> dict[int, str]:
    """Returns the names in messages of parameters that are in modules, by identity:
    `0.weight of Sequential 'body'`.
    """
    ids = {id(parameter) for parameter in parameters}
    locations: dict[int, str] = {}
    if not ids:
        return locations
    for root in sorted(roots(), key=_is_single):
        label = f"{type(root).__name__}{_variable_name(root)}"
        for key, tensor in (*tensors_of(root), *hidden_tensors(root)):
            if id(tensor) in ids:
                locations.setdefault(id(tensor), f"{key} of {label}")
    return locations


def _is_single(module: Any) -> bool:
    """Whether a module has no submodules. A module with submodules is the better one to name, if an
    object stores a part of it.
    """
    return not _children(module) and next(hidden_tensors(module), None) is None


def _variable_name(module: Any) -> str:
    """Returns the name of a module in the program that calls the package, if it is one of its
    variables, or an attribute of one.
    """
    frame: Any = sys._getframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").split(".")[0] != "ternion":
            for name, value in [*frame.f_locals.items()]:
                if value is module and name != "self":
                    return f" {name!r}"
                for attribute, item in _attributes(value):
                    if item is module:
                        return f" '{name}.{attribute}'"
        frame = frame.f_back
    return ""


def _attributes(value: Any) -> list[tuple[str, Any]]:
    """Returns the attributes of an object without calling its code, which may compute something."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [] if isinstance(value, (type, types.ModuleType)) or not isinstance(attributes, dict) else list(attributes.items())[:_MAX_ITEMS]


def hidden_tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields the tensors, with their keys, that require gradients and are stored where parameters()
    of a module does not look: in objects and functions.
    """
    from .nn._members import ModuleBase, iter_modules

    modules = list(iter_modules(model))
    own_ids = {id(tensor) for _, tensor in tensors_of(model)}
    # Objects that refer to a module of the model, such as bound methods, do not hide tensors.
    visited = {id(module) for _, module in modules}
    for prefix, module in modules:
        for name, value in list(vars(module).items()):
            if not isinstance(value, (ModuleBase, Tensor, list, tuple, dict)):
                yield from ((key, tensor) for key, tensor in _hidden_in(value, prefix + name, visited, _MAX_DEPTH) if id(tensor) not in own_ids)


def _hidden_in(value: Any, key: str, visited: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    if depth == 0 or id(value) in visited or len(visited) > _MAX_VISITED or isinstance(value, (type, types.ModuleType, str, bytes, int, float, complex, type(None))):
        return
    visited.add(id(value))
    if isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            yield key, value
    elif hasattr(type(value), "named_parameters"):
        for name, tensor in tensors_of(value, key):
            if tensor.requires_grad:
                yield name, tensor
    else:
        for name, part in _contents(value):
            yield from _hidden_in(part, f"{key}.{name}" if name else key, visited, depth - 1)


def _contents(value: Any) -> list[tuple[str, Any]]:
    """Returns the named contents of an object, which may be a function."""
    if isinstance(value, types.MethodType):
        return [("", value.__self__)]
    if isinstance(value, functools.partial):
        return [("", value.func), *_contents(value.args), *_contents(value.keywords)]
    if isinstance(value, types.FunctionType):
        return _function_contents(value)
    if isinstance(value, (list, tuple)):
        return [(str(index), item) for index, item in enumerate(value[:_MAX_ITEMS])]
    if isinstance(value, dict):
        return [(str(name), item) for name, item in list(value.items())[:_MAX_ITEMS]]
    # An optimizer contains the parameters that it trains, and is known.
    if hasattr(type(value), "add_param_group"):
        return []
    return _attributes(value)


def _function_contents(function: Any) -> list[tuple[str, Any]]:
    contents = [("", default) for default in function.__defaults__ or ()]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            contents.append((name, cell.cell_contents))
        except ValueError:
            # A variable that is not bound yet.
            continue
    return contents
