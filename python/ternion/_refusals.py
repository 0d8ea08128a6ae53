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
_KINDS = {"Tensor": "a tensor", "int": "a whole number", "float": "a number", "bool": "True or False", "str": "a str"}
_MARKS = {"int": "__index__", "float": "__float__"}
_PREFIX = re.compile(r"(?:linalg\.)?([\w+*/%@&|^<>=-]+): ")
# The name that Python uses for a class that got too many or too few arguments.
_OF_INIT = re.compile(r"^\w+\.__init__\(\)")
# Messages of Python about its own types, and their replacements.
_PHRASES = [(re.compile(own), said) for own, said in (
    (r"^'(\w+)' object is not (?:iterable|subscriptable)$", r"expected a list, got \1"),
    (r"^cannot unpack non-iterable (\w+) object$", r"expected a list, got \1"),
    (r"^'(\w+)' object cannot be interpreted as an integer$", r"expected a whole number, got \1"),
    (r"^must be real number, not (\w+)$", r"expected a number, got \1"),
    (r"^invalid literal for int\(\) with base 10: (.+)$", r"expected a whole number, got \1"),
    (r"^could not convert string to float: (.+)$", r"expected a number, got \1"),
    (r"^int\(\) argument must be .*, not '(\w+)'$", r"expected a whole number, got \1"),
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
_RENAMED = (TypeError, ValueError, IndexError, RuntimeError, AttributeError, OverflowError, ZeroDivisionError)
# The native error for a tensor with a gradient in place of a number.
_LOST_GRADIENT = "got a tensor with a gradient, which does not flow through a number: detach() it"
# Messages that contain the arguments are truncated at this length.
_LONGEST = 4000


@functools.lru_cache(maxsize=None)
def _functions() -> frozenset[str]:
    """Returns the names of the package's functions in messages."""
    package = sys.modules["ternion"]
    names = {"index", *dir(package), *dir(package.Tensor), *dir(package.nn.functional), *dir(package.nn.init), *dir(package.nn), *dir(package.linalg)}
    return frozenset(names)


def _fits(value: Any, kind: str) -> bool:
    if kind != "Tensor" and isinstance(value, Tensor) and value.numel() != 1:
        return False
    if kind in _MARKS:
        return hasattr(value, _MARKS[kind]) or (kind == "float" and hasattr(value, "__index__"))
    return isinstance(value, {"Tensor": Tensor, "bool": bool, "str": str}[kind])


def _unfit(function: Any, args: Any, kwargs: Any) -> str | None:
    """Returns the message for the first argument that does not match its annotation."""
    signature = inspect.signature(function)
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    for name, value in given.items():
        parameter = signature.parameters[name]
        kind, _, others = str(parameter.annotation).partition(" | ")
        if kind not in _KINDS or others not in ("", "None") or (others and value is None):
            continue
        for each in value if parameter.kind is parameter.VAR_POSITIONAL else [value]:
            if not _fits(each, kind):
                return f"{name} is {type(each).__name__}, expected {_KINDS[kind]}"
    return None


def _has_gradient(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _gradient_lost(name: str, function: Any, args: Any, kwargs: Any, *kinds: str) -> Any:
    """Returns the error for the first argument that is a tensor with a gradient in place of a
    number. If `kinds` are given, only arguments with these annotations are checked.
    """
    if not any(map(_has_gradient, (*args, *kwargs.values()))):
        return None
    signature = inspect.signature(function)
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return None
    for argument, value in given.items():
        kind = str(signature.parameters[argument].annotation)
        if _has_gradient(value) and "Tensor" not in kind and argument != "self" and (not kinds or kind.removesuffix(" | None") in kinds):
            return TypeError(f"{name}: {argument} is a tensor with a gradient, expected a number, through which none flows: detach() it")
    return None


def _refusal(name: str, function: Any, error: Any, args: Any, kwargs: Any) -> Any:
    """Returns the error to raise instead of `error`, which the function `name` raised; None to keep
    it.
    """
    kind, text = type(error), str(error)
    if kind is TypeError and text.endswith(_LOST_GRADIENT):
        lost = _gradient_lost(name, function, args, kwargs)
        if lost is not None:
            return lost
    if kind in (OverflowError, ZeroDivisionError):
        return ValueError(f"{name}: {_out_of_range(function, args, kwargs)}")
    if len(text) > _LONGEST and kind in _RENAMED:
        text = f"{text[: _LONGEST - 1000]} .. {text[-500:]}"
        return kind(text)
    if kind not in _RENAMED or text.startswith((f"{name}: ", f"{name}(", f"{name} ", f"linalg.{name}: ")):
        return None
    if _OF_INIT.match(text):
        return kind(_OF_INIT.sub(f"{name}()", text))
    begin = _begin(error, text)
    plain = _plain(text)
    if kind in (TypeError, AttributeError) or plain != text:
        unfit = _unfit(function, args, kwargs)
        if unfit is not None or not begin:
            is_count = kind is ValueError and unfit is None and "items or axes" in plain
            return (ValueError if is_count else TypeError)(f"{name}: {unfit or plain}")
    if begin:
        return kind(f"{name}: {text[begin:]}")
    return _of_value(name, function, text, args, kwargs) if kind is ValueError else None


def _begin(error: Any, text: str) -> int:
    """Returns the offset of a message after the name of the package function with which it begins;
    0 if it begins with none.
    """
    # Errors from Rust have the attribute `_op`; those of Python functions begin with the name.
    op = getattr(error, "_op", None)
    if op is not None and text.startswith(f"{op}: "):
        return len(op) + 2 if op.removeprefix("linalg.") in _functions() else 0
    said = _PREFIX.match(text)
    return said.end() if said is not None and said[1] in _functions() else 0


def _out_of_range(function: Any, args: Any, kwargs: Any) -> str:
    """Returns the message for arithmetic on arguments that overflows or divides by 0: it names the
    arguments that are that large, or 0.
    """
    try:
        given = inspect.signature(function).bind_partial(*args, **kwargs).arguments
    except TypeError:
        given = {}
    numbers = {key: value for key, value in given.items() if isinstance(value, (int, float)) and not isinstance(value, bool)}
    odd = {key: value for key, value in numbers.items() if value == 0 or not -(2**31) < value < 2**31} or {
        key: value for key, value in numbers.items() if abs(value) > 300
    }
    named = ", ".join(f"{key} is {str(value)[:40]}" for key, value in (odd or numbers).items())
    return f"{named or 'an argument'}, expected a number that it can be computed with"


def _of_value(name: str, function: Any, text: str, args: Any, kwargs: Any) -> Any:
    """Returns the error to raise instead of a ValueError that does not name a function, such as
    that for a tensor with several elements in place of a number.
    """
    unfit = _unfit(function, args, kwargs)
    return ValueError(f"{name}: {text}") if unfit is None else TypeError(f"{name}: {unfit}")


def _plain(text: str) -> str:
    """Returns the replacement of a message of Python itself, or the message unchanged."""
    for own, phrase in _PHRASES:
        if own.search(text):
            return own.sub(phrase, text)
    return text


#: Losses that had `size_average` and `reduce` before PyTorch 1.0, each with the argument before
#: which `size_average` is inserted; `reduce` is inserted before `reduction`.
_OLDER = {
    **dict.fromkeys((
        "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "hinge_embedding_loss", "kl_div", "margin_ranking_loss", "multi_margin_loss",
        "multilabel_margin_loss", "multilabel_soft_margin_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss", "BCELoss", "BCEWithLogitsLoss",
        "CosineEmbeddingLoss", "HingeEmbeddingLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss", "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss",
        "MultiMarginLoss", "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss",
    ), "reduction"),
    **dict.fromkeys(("cross_entropy", "nll_loss", "CrossEntropyLoss", "NLLLoss"), "ignore_index"),
    **dict.fromkeys(("poisson_nll_loss", "PoissonNLLLoss"), "eps"),
}  # fmt: skip


class _Older:
    """The arguments `size_average` and `reduce` of a loss, from before PyTorch 1.0: the signature
    contains them at PyTorch's positions, the function itself has only `reduction`.
    """

    def __init__(self, name: str, function: Any):
        own = inspect.signature(function)
        older = {key: inspect.Parameter(key, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation="bool | None") for key in ("size_average", "reduce")}
        parameters = []
        for parameter in own.parameters.values():
            parameters += [older["size_average"]] * (parameter.name == _OLDER[name]) + [older["reduce"]] * (parameter.name == "reduction") + [parameter]
        self.name, self.shown = name, own.replace(parameters=parameters)
        taken = [parameter for parameter in parameters if parameter.name != "self"]
        self.signature, self.first = own.replace(parameters=taken), [parameter.name for parameter in taken].index("size_average")

    def newer(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """Returns the arguments with a `reduction` instead of the two."""
        if len(args) <= self.first and "size_average" not in kwargs and "reduce" not in kwargs:
            return args, kwargs
        try:
            given = self.signature.bind(*args, **kwargs).arguments
        except TypeError:
            return args, kwargs
        flags = {key: given.pop(key, None) for key in ("size_average", "reduce")}
        for key, flag in flags.items():
            if flag is not None and not isinstance(flag, bool):
                raise TypeError(f"{self.name}: {key} is {type(flag).__name__}, expected True, False or None: `reduction` is to be named, as in PyTorch")
        if any(flag is not None for flag in flags.values()):
            mean, reduced = (flag is not False for flag in flags.values())
            given["reduction"] = "none" if not reduced else "mean" if mean else "sum"
            warn_caller(f"size_average and reduce are deprecated: reduction={given['reduction']!r} says the same")
        return (), given


def _older_of(name: str, function: Any) -> _Older | None:
    # Losses at the top level never had them.
    return _Older(name, function) if name in _OLDER and not function.__module__.endswith("._top_level") else None


def _takes_whole(parameter: Any) -> bool:
    return str(parameter.annotation).partition(" | ")[0] in ("int", "_int") and "bool" not in str(parameter.annotation) and not parameter.name.startswith("_")


def _truth_refused(name: str, function: Any, args: Any, kwargs: Any) -> None:
    """Raises an error for a bool in place of an integer: in Python a bool is an int."""
    signature = inspect.signature(function)
    try:
        given = signature.bind_partial(*args, **kwargs).arguments
    except TypeError:
        return
    for argument, value in given.items():
        if isinstance(value, bool) and _takes_whole(signature.parameters[argument]):
            raise TypeError(f"{name}: {argument} is bool, expected a whole number")


def named(function: Any) -> Any:
    """Wraps a function so that its errors name it, and so that it rejects bools in place of
    integers.
    """
    takes_whole = any(map(_takes_whole, inspect.signature(function).parameters.values()))
    older = _older_of(function.__name__, function)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if older is not None:
            args, kwargs = older.newer(args, kwargs)
        if takes_whole:
            for value in (*args, *kwargs.values()):
                if value is True or value is False:
                    _truth_refused(function.__name__, function, args, kwargs)
        try:
            return function(*args, **kwargs)
        except _RENAMED as error:
            refusal = _refusal(function.__name__, function, error, args, kwargs)
            if refusal is None:
                raise
            raise refusal.with_traceback(error.__traceback__) from None

    if older is not None:
        checked.__signature__ = older.shown  # type: ignore[attr-defined]
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
    older = _older_of(kind.__name__, init)

    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        if older is not None:
            args, kwargs = older.newer(args, kwargs)
        lost = _gradient_lost(_class_of(self), init, (self, *args), kwargs, "float")
        if lost is not None:
            raise lost
        try:
            init(self, *args, **kwargs)
        except _RENAMED as error:
            refusal = _refusal(_class_of(self), init, error, (self, *args), kwargs)
            if refusal is None:
                raise
            raise refusal.with_traceback(error.__traceback__) from None

    if older is not None:
        checked.__signature__ = older.shown  # type: ignore[attr-defined]
    return checked


def name_classes(base: Any) -> None:
    """Wraps the constructors of all subclasses of `base` in the package, so that their errors name
    the class.
    """
    for kind in base.__subclasses__():
        if "__init__" in vars(kind) and kind.__module__.startswith("ternion."):
            kind.__init__ = _named_init(kind)
        name_classes(kind)


def _with_numbers(init: Any) -> Any:
    @functools.wraps(init)
    def checked(self: Any, *args: Any, **kwargs: Any) -> None:
        lost = _gradient_lost(_class_of(self), init, (self, *args), kwargs, "float", "Any")
        if lost is not None:
            raise lost
        init(self, *args, **kwargs)

    return checked


def take_numbers(*bases: Any) -> None:
    """Makes the constructors of these classes and of their subclasses reject tensors with gradients
    in place of numbers.
    """
    for kind in bases:
        if "__init__" in vars(kind) and kind.__module__.startswith("ternion."):
            kind.__init__ = _with_numbers(kind.__init__)
        take_numbers(*kind.__subclasses__())
