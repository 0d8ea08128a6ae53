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
_DEEPEST = 4
_MOST = 64
_MOST_OF_ALL = 4096


def note_module(module: Any) -> None:
    """Registers a module that gets a parameter or submodule."""
    number = id(module)
    known = _modules.get(number)
    if known is None or known() is not module:

        def forget(gone: Any, number: int = number) -> None:
            # At interpreter shutdown, `_modules` may already be gone.
            if _modules is not None and _modules.get(number) is gone:
                _modules.pop(number, None)

        _modules[number] = weakref.ref(module, forget)


def roots() -> list[Any]:
    """Returns the modules that are not part of another one, the oldest first."""
    living = [module for module in (known() for known in list(_modules.values())) if module is not None]
    within = {id(child) for module in living for child in _children(module)}
    return [module for module in living if id(module) not in within]


def _children(module: Any) -> list[Any]:
    # Imported here because `nn` depends on this module.
    from .nn._parts import Part, own

    return [member for _, member in own(module) if isinstance(member, Part) and member is not module]


def tensors_of(module: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yields parameters and buffers with their keys, independently of a `parameters()` method that
    the module overrides.
    """
    from .nn._parts import walk

    return walk(module, prefix)


def repeats(model: Any, in_lists: bool = False) -> list[tuple[list[str], str]]:
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
    return [(named, kinds[number]) for number, named in keys.items() if len({key.rpartition(".")[0] for key in named}) < len(named)]


def places_of(parameters: Iterable[Any]) -> dict[int, str]:
    """Returns the names in messages of parameters that are in modules, by identity:
    `0.weight of Sequential 'body'`.
    """
    wanted = {id(parameter) for parameter in parameters}
    found: dict[int, str] = {}
    if not wanted:
        return found
    for root in sorted(roots(), key=_is_single):
        label = f"{type(root).__name__}{_variable(root)}"
        for key, tensor in (*tensors_of(root), *hidden(root)):
            if id(tensor) in wanted:
                found.setdefault(id(tensor), f"{key} of {label}")
    return found


def _is_single(module: Any) -> bool:
    """Whether a module has no submodules. A module with submodules is the better one to name, if an
    object stores a part of it.
    """
    return not _children(module) and next(hidden(module), None) is None


def _variable(module: Any) -> str:
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
        kept = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [] if isinstance(value, (type, types.ModuleType)) or not isinstance(kept, dict) else list(kept.items())[:_MOST]


def hidden(model: Any) -> Iterator[tuple[str, Any]]:
    """Yields the tensors, with their keys, that require gradients and are stored where parameters()
    of a module does not look: in objects and functions.
    """
    from .nn._parts import Part, parts

    modules = list(parts(model))
    own = {id(tensor) for _, tensor in tensors_of(model)}
    # Objects that refer to a module of the model, such as bound methods, do not hide tensors.
    seen = {id(module) for _, module in modules}
    for prefix, module in modules:
        for name, value in list(vars(module).items()):
            if not isinstance(value, (Part, Tensor, list, tuple, dict)):
                yield from ((key, tensor) for key, tensor in _within(value, prefix + name, seen, _DEEPEST) if id(tensor) not in own)


def _within(value: Any, key: str, seen: set[int], depth: int) -> Iterator[tuple[str, Any]]:
    if depth == 0 or id(value) in seen or len(seen) > _MOST_OF_ALL or isinstance(value, (type, types.ModuleType, str, bytes, int, float, complex, type(None))):
        return
    seen.add(id(value))
    if isinstance(value, Tensor):
        if value.requires_grad and value.is_leaf:
            yield key, value
    elif hasattr(type(value), "named_parameters"):
        for name, tensor in tensors_of(value, key):
            if tensor.requires_grad:
                yield name, tensor
    else:
        for name, part in _parts(value):
            yield from _within(part, f"{key}.{name}" if name else key, seen, depth - 1)


def _parts(value: Any) -> list[tuple[str, Any]]:
    """Returns the named contents of an object, which may be a function."""
    if isinstance(value, types.MethodType):
        return [("", value.__self__)]
    if isinstance(value, functools.partial):
        return [("", value.func), *_parts(value.args), *_parts(value.keywords)]
    if isinstance(value, types.FunctionType):
        return _of_function(value)
    if isinstance(value, (list, tuple)):
        return [(str(number), item) for number, item in enumerate(value[:_MOST])]
    if isinstance(value, dict):
        return [(str(name), item) for name, item in list(value.items())[:_MOST]]
    # An optimizer contains the parameters that it trains, and is known.
    if hasattr(type(value), "add_param_group"):
        return []
    return _attributes(value)


def _of_function(function: Any) -> list[tuple[str, Any]]:
    found = [("", default) for default in function.__defaults__ or ()]
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or ()):
        try:
            found.append((name, cell.cell_contents))
        except ValueError:
            # A variable that is not bound yet.
            continue
    return found
