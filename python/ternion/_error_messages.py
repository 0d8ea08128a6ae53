"""Rewrites errors so that they name the function that was called: functions are composed of others,
whose errors name themselves, and Python's errors name its own types.
"""

from __future__ import annotations

import functools
import inspect
import re
import sys
from typing import Any

from ._ternion import Tensor
from ._warnings import warn_caller

# What an argument with an annotation must be, and the attribute that shows it.
_EXPECTED_TYPES = {"Tensor": "a tensor", "int": "an integer", "float": "a number", "bool": "True or False", "str": "a str"}
_CONVERSION_METHODS = {"int": "__index__", "float": "__float__"}
_PREFIX = re.compile(r"(?:linalg\.)?([\w+*/%@&|^<>=-]+): ")
# The name that Python uses for a class that got too many or too few arguments.
_INIT_PREFIX = re.compile(r"^\w+\.__init__\(\)")
# Messages of Python about its own types, and their replacements.
_REPLACEMENTS = [(re.compile(pattern), replacement) for pattern, replacement in (
    (r"^'(\w+)' object is not (?:iterable|subscriptable)$", r"expected a list, got \1"),
    (r"^cannot unpack non-iterable (\w+) object$", r"expected a list, got \1"),
    (r"^'(\w+)' object cannot be interpreted as an integer$", r"expected an integer, got \1"),
    (r"^must be real number, not (\w+)$", r"expected a number, got \1"),
    (r"^invalid literal for int\(\) with base 10: (.+)$", r"expected an integer, got \1"),
    (r"^could not convert string to float: (.+)$", r"expected a number, got \1"),
    (r"^int\(\) argument must be .*, not '(\w+)'$", r"expected an integer, got \1"),
    (r"^float\(\) argument must be .*, not '(\w+)'$", r"expected a number, got \1"),
    (r"^'[<>=]+' not supported between instances of '([\w.]+)' and '([\w.]+)'$", r"expected numbers, got \1 and \2"),
    (r"^unsupported operand type\(s\) for .*: '([\w.]+)' and '([\w.]+)'$", r"expected numbers or tensors, got \1 and \2"),
    (r"^bad operand type for .*: '(\w+)'$", r"expected a number or a tensor, got \1"),
    (r"^'(\w+)' object is not an instance of '(\w+)'$", r"expected a \2, got \1"),
    (r"^not enough values to unpack \(expected (?:at least )?(\d+), got (\d+)\)$", r"expected \1 items or axes, got \2"),
    (r"^too many values to unpack \(expected (\d+).*\)$", r"expected \1 items or axes, got more"),
    (r"^not all arguments converted during string formatting$", r"expected a number, got str"),
    (r"^'(\w+)' object has no attribute '\w+'$", r"expected a tensor, got \1"),
)]  # fmt: skip
_REWRITTEN_ERRORS = (TypeError, ValueError, IndexError, RuntimeError, AttributeError, OverflowError, ZeroDivisionError)
# The native error for a tensor with a gradient in place of a number.
_LOST_GRADIENT = "got a tensor with a gradient, which does not flow through a number: detach() it"
# Messages that contain the arguments are truncated at this length.
_MAX_LENGTH = 4000


@functools.lru_cache(maxsize=None)
def _functions() -> frozenset[str]:
    """Returns the names of the package's functions in messages."""
    package = sys.modules["ternion"]
    names = {"index", *dir(package), *dir(package.Tensor), *dir(package.nn.functional), *dir(package.nn.init), *dir(package.nn), *dir(package.linalg)}
    return frozenset(names)


def _matches_type(value: Any, kind: str) -> bool:
    if kind != "Tensor" and isinstance(value, Tensor) and value.numel() != 1:
        return False
    if kind in _CONVERSION_METHODS:
        return hasattr(value, _CONVERSION_METHODS[kind]) or (kind == "float" and hasattr(value, "__index__"))
    return isinstance(value, {"Tensor": Tensor, "bool": bool, "str": str}[kind])


def _type_mismatch(function: Any, args: Any, kwargs: Any) -> str | None:
    """Returns the message for the first argument that does not match its annotation."""
    signature = inspect.signature(function)
    try:
        arguments = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in arguments.items():
        parameter = signature.parameters[name]
        kind, _, rest = str(parameter.annotation).partition(" | ")
        if kind not in _EXPECTED_TYPES or rest not in ("", "None") or (rest and value is None):
            continue
        for item in value if parameter.kind is parameter.VAR_POSITIONAL else [value]:
            if not _matches_type(item, kind):
                return f"{name} is {type(item).__name__}, expected {_EXPECTED_TYPES[kind]}"
    return None


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _lost_gradient_error(name: str, function: Any, args: Any, kwargs: Any, *kinds: str) -> Any:
    """Returns the error for the first argument that is a tensor with a gradient in place of a
    number. If `kinds` are given, only arguments with these annotations are checked.
    """
    if not any(map(_has_gradient, (*args, *kwargs.values()))):
        return None
    signature = inspect.signature(function)
    try:
        arguments = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    for argument, value in arguments.items():
        kind = str(signature.parameters[argument].annotation)
        if _has_gradient(value) and "Tensor" not in kind and argument != "self" and (not kinds or kind.removesuffix(" | None") in kinds):
            return TypeError(f"{name}: {argument} is a tensor with a gradient, expected a number, through which none flows: detach() it")
    return None


def _renamed_error(name: str, function: Any, error: Any, args: Any, kwargs: Any) -> Any:
    """Returns the error to raise instead of `error`, which the function `name` raised; None to keep
    it.
    """
    kind, text = type(error), str(error)
    if kind is TypeError and text.endswith(_LOST_GRADIENT):
        gradient_error = _lost_gradient_error(name, function, args, kwargs)
        if gradient_error is not None:
            return gradient_error
    if kind in (OverflowError, ZeroDivisionError):
        return ValueError(f"{name}: {_out_of_range(function, args, kwargs)}")
    if len(text) > _MAX_LENGTH and kind in _REWRITTEN_ERRORS:
        text = f"{text[: _MAX_LENGTH - 1000]} .. {text[-500:]}"
        return kind(text)
    if kind not in _REWRITTEN_ERRORS or text.startswith((f"{name}: ", f"{name}(", f"{name} ", f"linalg.{name}: ")):
        return None
    if _INIT_PREFIX.match(text):
        return kind(_INIT_PREFIX.sub(f"{name}()", text))
    prefix_length = _prefix_length(error, text)
    replaced = _replace_python_message(text)
    if kind in (TypeError, AttributeError) or replaced != text:
        mismatch = _type_mismatch(function, args, kwargs)
        if mismatch is not None or not prefix_length:
            is_count = kind is ValueError and mismatch is None and "items or axes" in replaced
            return (ValueError if is_count else TypeError)(f"{name}: {mismatch or replaced}")
    if prefix_length:
        return kind(f"{name}: {text[prefix_length:]}")
    return _value_error(name, function, text, args, kwargs) if kind is ValueError else None


def _prefix_length(error: Any, text: str) -> int:
    """Returns the offset of a message after the name of the package function with which it begins;
    0 if it begins with none.
    """
    # Errors from Rust have the attribute `_op`; those of Python functions begin with the name.
    op = getattr(error, "_op", None)
    if op is not None and text.startswith(f"{op}: "):
        return len(op) + 2 if op.removeprefix("linalg.") in _functions() else 0
    prefix = _PREFIX.match(text)
    return prefix.end() if prefix is not None and prefix[1] in _functions() else 0


def _out_of_range(function: Any, args: Any, kwargs: Any) -> str:
    """Returns the message for arithmetic on arguments that overflows or divides by 0: it names the
    arguments that are that large, or 0.
    """
    try:
        arguments = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except TypeError:
        arguments = {}
    numbers = {key: value for key, value in arguments.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    extreme = {key: value for key, value in numbers.items() if value == 0 or not -(2**31) < value < 2**31} or {
        key: value for key, value in numbers.items() if abs(value) > 300
    }
    description = ", ".join(f"{key} is {str(value)[:40]}" for key, value in (extreme or numbers).items())
    return f"{description or 'an argument'}, expected a number that it can be computed with"


def _value_error(name: str, function: Any, text: str, args: Any, kwargs: Any) -> Any:
    """Returns the error to raise instead of a ValueError that does not name a function, such as
    that for a tensor with several elements in place of a number.
    """
    mismatch = _type_mismatch(function, args, kwargs)
    return ValueError(f"{name}: {text}") if mismatch is None else TypeError(f"{name}: {mismatch}")


def _replace_python_message(text: str) -> str:
    """Returns the replacement of a message of Python itself, or the message unchanged."""
    for pattern, replacement in _REPLACEMENTS:
        if pattern.search(text):
            return pattern.sub(replacement, text)
    return text


#: Losses that had `size_average` and `reduce` before PyTorch 1.0, each with the argument before
#: which `size_average` is inserted; `reduce` is inserted before `reduction`.
_LEGACY_LOSSES = {
    **dict.fromkeys((
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss", "kl_div", "margin_ranking_loss", "multi_margin_loss",
        "multilabel_margin_loss", "multilabel_soft_margin_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "BCELoss", "BCEWithLogitsLoss",
        "CosineEmbeddingLoss", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
        "MultiMarginLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    ), "reduction"),
    **dict.fromkeys(("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"), "ignore_index"),
    **dict.fromkeys(("poisson_nll_loss", "PoissonNLLLoss"), "eps"),
}  # fmt: skip


class _LegacyArguments:
    """The arguments `size_average` and `reduce` of a loss, from before PyTorch 1.0: the signature
    contains them at PyTorch's positions, the function itself has only `reduction`.
    """

    def __init__(self, name: str, function: Any):
        signature = inspect.signature(function)
        legacy = {key: inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None") for key in ("size_average", "reduce")}
        parameters = []
        for parameter in signature.parameters.values():
            parameters += [legacy["size_average"]] * (parameter.name == _LEGACY_LOSSES[name]) + [legacy["reduce"]] * (parameter.name == "reduction") + [parameter]
        self.name, self.public_signature = name, signature.replace(parameters=parameters)
        without_self = [parameter for parameter in parameters if parameter.name != "self"]
        self.signature, self.first_index = signature.replace(parameters=without_self), [parameter.name for parameter in without_self].index("size_average")

    def convert(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the arguments with a `reduction` instead of the two."""
        if len(args) <= self.first_index and "size_average" not in kwargs and "reduce" not in kwargs:
            return args, kwargs
        try:
            arguments = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return args, kwargs
        flags = {key: arguments.pop(key, None) for key in ("size_average", "reduce")}
        for key, flag in flags.items():
            if flag is not None and not isinstance(flag, bool):
                raise TypeError(f"{self.name}: {key} is {type(flag).__name__}, expected True, False or None: `reduction` is to be named, as in PyTorch")
        if any(flag is not None for flag in flags.values()):
            mean, reduced = (flag is not False for flag in flags.values())
            arguments["reduction"] = "none" if not reduced else "mean" if mean else "sum"
            warn_caller(f"size_average and reduce are deprecated: reduction={arguments['reduction']!r} says the same")
        return (), arguments


def _legacy_arguments(name: str, function: Any) -> _LegacyArguments | None:
    # Losses at the top level never had them.
    return _LegacyArguments(name, function) if name in _LEGACY_LOSSES and not function.__module__.endswith("._top_level") else None


def _takes_int(parameter: Any) -> bool:
    return str(parameter.annotation).partition(" | ")[0] in ("int", "_int") and "bool" not in str(parameter.annotation) and not parameter.name.startswith("_")


def _reject_bool(name: str, function: Any, args: Any, kwargs: Any) -> None:
    """Raises an error for a bool in place of an integer: in Python a bool is an int."""
    signature = inspect.signature(function)
    try:
        arguments = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return
    for argument, value in arguments.items():
        if isinstance(value, bool) and _takes_int(signature.parameters[argument]):
            raise TypeError(f"{name}: {argument} is bool, expected an integer")


def named(function: Any) -> Any:
    """Wraps a function so that its errors name it, and so that it rejects bools in place of
    integers.
    """
    takes_int = any(map(_takes_int, inspect.signature(function).parameters.values()))
    legacy = _legacy_arguments(function.__name__, function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if legacy is not None:
            args, kwargs = legacy.convert(args, kwargs)
        if takes_int:
            for value in (*args, *kwargs.values()):
                if value is True or value is False:
                    _reject_bool(function.__name__, function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except _REWRITTEN_ERRORS as error:
            renamed = _renamed_error(function.__name__, function, error, args, kwargs)
            if renamed is None:
                raise
            raise renamed.with_traceback(error.__traceback__) from None

    if legacy is not None:
        checked.__signature__ = legacy.public_signature  # type: ignore[attr-defined]
    return checked


def name_all(namespace: dict[str, Any]) -> None:
    """Wraps the public functions of a module, whose namespace this is, so that their errors name
    them.
    """
    for name, function in list(namespace.items()):
        is_own = inspect.isfunction(function) and function.__module__ == namespace["__name__"] and not hasattr(function, "__wrapped__")
        if is_own and not name.startswith("_"):
            namespace[name] = named(function)


def _class_of(module: Any) -> str:
    """Returns the name of the package's class of an object. For a subclass of a user, it is the
    name of the base class.
    """
    return next(kind.__name__ for kind in type(module).__mro__ if kind.__module__.startswith("ternion.") and not kind.__name__.startswith("_"))


def _named_init(kind: Any) -> Any:
    init = kind.__init__
    legacy = _legacy_arguments(kind.__name__, init)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if legacy is not None:
            args, kwargs = legacy.convert(args, kwargs)
        gradient_error = _lost_gradient_error(_class_of(self), init, (self, *args), kwargs, "float")
        if gradient_error is not None:
            raise gradient_error
        try:
            init(self, *args, **kwargs)
        except _REWRITTEN_ERRORS as error:
            renamed = _renamed_error(_class_of(self), init, error, (self, *args), kwargs)
            if renamed is None:
                raise
            raise renamed.with_traceback(error.__traceback__) from None

    if legacy is not None:
        checked.__signature__ = legacy.public_signature  # type: ignore[attr-defined]
    return checked


def name_classes(base: Any) -> None:
    """Wraps the constructors of all subclasses of `base` in the package, so that their errors name
    the class.
    """
    for kind in base.__subclasses__():
        if "__init__" in vars(kind) and kind.__module__.startswith("ternion."):
            kind.__init__ = _named_init(kind)
        name_classes(kind)


def _rejecting_gradients(init: Any) -> Any:
    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        gradient_error = _lost_gradient_error(_class_of(self), init, (self, *args), kwargs, "float", "Any")
        if gradient_error is not None:
            raise gradient_error
        init(self, *args, **kwargs)

    return checked


def reject_gradients(*bases: Any) -> None:
    """Makes the constructors of these classes and of their subclasses reject tensors with gradients
    in place of numbers.
    """
    for kind in bases:
        if "__init__" in vars(kind) and kind.__module__.startswith("ternion."):
            kind.__init__ = _rejecting_gradients(kind.__init__)
        reject_gradients(*kind.__subclasses__())
