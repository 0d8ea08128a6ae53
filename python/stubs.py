"""Generates the type stubs of the package from the signatures and docstrings of its native part.

    python python/stubs.py          writes them
    python python/stubs.py --check  exits with 1 if they are not up to date

Types that a signature does not contain are derived from the names of the arguments: arguments of
the same name have the same type everywhere.
"""

import inspect
import re
import sys
import types
from pathlib import Path

import ternion
from ternion import _ternion

PACKAGE = Path(__file__).parent / "ternion"

HEADER = '"""Written by python/stubs.py."""\n\n'
BUILTINS = "from builtins import bool as _bool, float as _float, int as _int\n"
NATIVE = BUILTINS + """from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Union, overload

import numpy as np
from typing_extensions import Self

from ._functions.kinds import layout
from ._size import Size

Number = Union[_bool, _int, _float]
Operand = Union["Tensor", Number]
Other = Union["Tensor", Number, "np.ndarray[Any, Any]", "np.number[Any]", "np.bool_"]
SizeLike = Union[_int, Sequence[_int]]
DTypeLike = Union["dtype", str, type, Any]
DeviceLike = Union["device", str]

"""

# Types of arguments by name. SPECIAL has the exceptions for single functions.
ARGUMENTS = {
    "Tensor": "linear_weight count prob batch1 batch2 mat vec1 input index mask mat1 mat2 source src tensor tensor1 tensor2 vec vec2 weight target query key value condition",
    "Tensor | None": "linear_bias bias gradient attn_mask running_mean running_var pos_weight grad",
    "int": "dim0 dim1 start_dim end_dim dimension length step k chunks diagonal minlength bins n steps groups num_groups num_classes seed ignore_index",
    "float": "mean median sigma lambd rtol atol eps beta std low high value_float negative_slope p dropout_p momentum delta label_smoothing max_norm",
    "bool": "keepdim keepdims stable sorted pin_memory non_blocking equal_nan create_graph descending largest requires_grad as_tuple force copy training ceil_mode return_indices "
    "count_include_pad is_causal log_target enable_gqa sparse_grad",
    "bool | None": "size_average retain_graph unbiased align_corners recompute_scale_factor",
    "float | None": "correction scale",
    "int | None": "window chunk_rows",
    "float | Sequence[float] | None": "scale_factor",
    "Number | None": "alpha",
    "str": "approximate reduction mode equation activation",
    "DTypeLike | None": "dtype",
    "DeviceLike | None": "device",
    "SizeLike": "kernel_size output_size normalized_shape sizes size repeats shape",
    "SizeLike | None": "stride padding dilation output_padding",
    "Any": "data array x hook args memory_format layout",
    "Generator | None": "generator",
    "Sequence[Tensor] | None": "inputs",
    "str | None": "rounding_mode",
    "Sequence[Tensor]": "tensors",
    "Sequence[int]": "pad",
}
TYPES = {name: kind for kind, names in ARGUMENTS.items() for name in names.split()}

# Exceptions: argument names with another meaning, and functions whose result is not a tensor. Keys
# are "function.argument" and "function".
SPECIAL = {
    "mse_loss.weight": "Tensor | None", "l1_loss.weight": "Tensor | None", "huber_loss.weight": "Tensor | None", "mse_loss.reduce": "bool | None", "l1_loss.reduce": "bool | None",
    "*.dim": "int", "stride.dim": "int | None", "*.axis": "int | None", "eye.m": "int | None", "set_default_dtype.d": "DTypeLike", "*.shifts": "SizeLike", "*.dims": "SizeLike | None", "*.other": "Other", "*.exponent": "Other", "*.min": "Operand | None", "*.max": "Operand | None",
    "*.fill_value": "Number | Tensor", "*.start": "Number", "*.end": "Number | None",
    "histc.min": "float", "histc.max": "float", "softplus.threshold": "float", "linspace.start": "float", "linspace.end": "float", "arange.step": "Number | None",
    "narrow.start": "int", "select.index": "int", "unfold.size": "int", "randint.size": "SizeLike | None",
    "permute.dims": "SizeLike", "flip.dims": "SizeLike", "fill_.value": "Number | Tensor", "masked_fill.value": "Number | Tensor",
    "masked_fill_.value": "Number | Tensor", "scatter.src": "Operand | None", "scatter_.src": "Operand | None", "scatter.value": "Number | None", "scatter_.value": "Number | None", 
    "split.split_size_or_sections": "SizeLike | None", "split.split_size": "SizeLike | None", "scatter.reduce": "str | None", "scatter_.reduce": "str | None",
    "bincount.weights": "Tensor | None", "bernoulli.p": "float | None", "from_dlpack.copy": "bool | None", "addcmul.value": "float", "pad.value": "float", "cuda.device": "int | DeviceLike | None", "einsum.operands": "Tensor",
    "set_default_device.device": "DeviceLike", "conv1d.stride": "int | None", "cross_entropy.weight": "Tensor | None", "linear_cross_entropy.weight": "Tensor | None",
    "nll_loss.weight": "Tensor | None", "batch_norm.weight": "Tensor | None", "layer_norm.weight": "Tensor | None",
    "rms_norm.weight": "Tensor | None", "rms_norm.eps": "float | None", "logit.eps": "float | None", "group_norm.weight": "Tensor | None", "roll.dims": "SizeLike | None",
    "addmm.other": "Tensor", "add_relu.other": "Tensor", "bias_activation.bias": "Tensor", "interpolate.size": "SizeLike | None",
    "addmm.alpha": "float", "addmm_.alpha": "float", **{f"{name}.alpha": "float" for name in "addmv addbmm baddbmm addr".split()}, "elu.alpha": "float", "normal_.mean": "float", "randint.low": "int | None", "randint.high": "Any",
    "atan2.other": "Tensor", "expand_as.other": "Tensor", "type_as.other": "Tensor", "matmul.other": "Tensor",
    "copy_.other": "Tensor", "bernoulli_.p": "float | Tensor", "uniform_.to": "float | None", "uniform_.first": "float", "expand.size": "SizeLike | None", "repeat.counts": "SizeLike",
    "repeat.repeats": "SizeLike | None", "gcd.other": "Tensor", "lcm.other": "Tensor", "fmax.other": "Tensor", "fmin.other": "Tensor", "equal.other": "Tensor", "allclose.other": "Tensor", "isclose.other": "Tensor", "maximum.other": "Tensor",
    "minimum.other": "Tensor", "logical_and.other": "Tensor", "logical_or.other": "Tensor", "logical_xor.other": "Tensor",
    **{f"{name}.{dim}": "SizeLike | None" for name in "sum prod mean any all logsumexp amax amin norm squeeze".split() for dim in ("dim", "axis")},
    **{f"{name}.{dim}": "SizeLike | bool | None" for name in "var std".split() for dim in ("dim", "axis")},
    **{f"{name}.dim": "int | None" for name in "argmax argmin size cumsum softmax log_softmax sort argsort unsqueeze cat concat stack".split()},
}  # fmt: skip
RESULTS = {
    "allclose": "bool", "equal": "bool", "is_contiguous": "bool", "is_floating_point": "bool", "is_grad_enabled": "bool", "dim": "int",
    "numel": "int", "element_size": "int", "data_ptr": "int", "item": "float", "tolist": "Any", "numpy": "np.ndarray[Any, Any]", "stride": "tuple[int, ...]",
    "storage_offset": "int",
    "backward": "None", "retain_grad": "None", "register_hook": "HookHandle", "manual_seed": "None", "set_default_device": "None",
    "get_default_device": "device", "devices": "list[dict[str, Any]]", "chunk": "tuple[Tensor, ...]", "split": "tuple[Tensor, ...]",
    "unbind": "tuple[Tensor, ...]", "sort": "sort", "topk": "topk", "nonzero": "Any", "size": "Any", "max_pool2d": "Any", "set_default_dtype": "None", "get_default_dtype": "dtype",
}  # fmt: skip
PROPERTIES = {
    "shape": "Size", "is_cuda": "bool", "is_cpu": "bool", "itemsize": "int", "dtype": "dtype", "device": "device", "ndim": "int", "nbytes": "int", "is_leaf": "bool",
    "grad_fn": "str | None", "layout": "layout", "real": "Tensor", "is_sparse": "bool", "is_quantized": "bool", "is_meta": "bool", "T": "Tensor", "mT": "Tensor", "H": "Tensor", "mH": "Tensor",
}  # fmt: skip
WRITABLE = {"grad": "Tensor | None", "requires_grad": "bool", "data": "Tensor"}


def plain(kind):
    """Returns a type with aliases for the built-in number types, which dtypes and methods of the
    package shadow.
    """
    return re.sub(r"(?<![\w.])(int|float|bool)\b", r"_\1", kind)


def indented(text):
    return "".join(f"    {line}".rstrip() + "\n" for line in text.splitlines())


def docstring(function):
    text = inspect.getdoc(function)
    return f'"""{text}"""' if text and "\n" not in text else f'"""{text}\n"""' if text else ""


def described(head, source):
    """Returns the stub of a class or function with this head and the docstring of `source`."""
    return f"{head}:\n{indented(docstring(source) or '...')}"


def kind_of(function, argument):
    for key in (f"{function}.{argument}", f"*.{argument}"):
        if key in SPECIAL:
            return plain(SPECIAL[key])
    if argument not in TYPES:
        raise SystemExit(f"no type for the argument {argument} of {function}: see ARGUMENTS and SPECIAL")
    return plain(TYPES[argument])


def definition(name, function, first=None, result=None):
    """Returns the stub of a native function. `first` replaces `self`."""
    arguments = []
    for part in filter(None, re.sub(r"[()]", "", function.__text_signature__).split(", ")):
        argument, _, default = part.partition("=")
        if argument == "$self":
            arguments.append(first)
        elif argument == "*":
            arguments.append("*")
        else:
            stars = argument[: len(argument) - len(argument.lstrip("*"))]
            argument = argument.lstrip("*")
            arguments.append(f"{stars}{argument}: {kind_of(name, argument)}" + (f" = {default}" if default else ""))
    result = plain(result or RESULTS.get(name, "Tensor"))
    body = docstring(function) or "..."
    return f"def {name}({', '.join(arguments)}) -> {result}:\n{indented(body)}"


EXTREMES = """@overload
{described}@overload
def {name}({first}, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> {name}: ...
@overload
def {name}({first}, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> {name}: ...
@overload
def {name}({first}, dim: Tensor) -> Tensor: ...
@overload
def {name}({first}, *, other: Tensor) -> Tensor: ...
"""

WHERE = """@overload
{described}@overload
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor: ...
"""


def extremes(name, first):
    """Returns the stub of `max` or `min`. The first overload has the docstring."""
    head = described(f"def {name}({first}) -> Tensor", getattr(_ternion.Tensor, name))
    return EXTREMES.format(name=name, first=first, described=head)


SPECIAL_METHODS = """def __init__(self, *args: Any, device: DeviceLike | None = None) -> None: ...
def __len__(self) -> _int: ...
def __iter__(self) -> Iterator[Tensor]: ...
def __reversed__(self) -> Self: ...
def __getitem__(self, index: Any) -> Tensor: ...
def __setitem__(self, index: Any, value: Any) -> None: ...
def __contains__(self, value: Number) -> _bool: ...
def __bool__(self) -> _bool: ...
def __float__(self) -> _float: ...
def __int__(self) -> _int: ...
def __index__(self) -> _int: ...
def __bytes__(self) -> bytes: ...
def __hash__(self) -> _int: ...
def __neg__(self) -> Tensor: ...
def __pos__(self) -> Tensor: ...
def __abs__(self) -> Tensor: ...
def __invert__(self) -> Tensor: ...
def __lshift__(self, other: Any) -> Tensor: ...
def __rshift__(self, other: Any) -> Tensor: ...
def __ilshift__(self, other: Any) -> Self: ...
def __irshift__(self, other: Any) -> Self: ...
def __rlshift__(self, other: Any) -> Tensor: ...
def __rrshift__(self, other: Any) -> Tensor: ...
def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
def __round__(self, ndigits: _int | None = None) -> Tensor: ...
def __matmul__(self, other: Union[Tensor, np.ndarray[Any, Any]]) -> Tensor: ...
def __rmatmul__(self, other: np.ndarray[Any, Any]) -> Tensor: ...
def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
def __buffer__(self, flags: _int, /) -> memoryview: ...
def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: _bool | None = None) -> Any: ...
def __dlpack_device__(self) -> tuple[_int, _int]: ...
"""


def operators():
    for name in "add sub mul truediv floordiv mod pow and or xor".split():
        yield f"def __{name}__(self, other: Other) -> Tensor: ...\n"
        yield f"def __r{name}__(self, other: Other) -> Tensor: ...\n"
    for name in "add sub mul truediv floordiv mod pow and or xor".split():
        yield f"def __i{name}__(self, other: Other) -> Self: ...\n"
    for name in "lt le gt ge".split():
        yield f"def __{name}__(self, other: Other) -> Tensor: ...  # type: ignore[misc]\n"
    for name in "eq ne".split():
        yield f"def __{name}__(self, other: Any) -> Tensor: ...  # type: ignore[override]\n"


def names_of(holder):
    return sorted(name for name in vars(holder) if not name.startswith("_"))


def tensor_class():
    body = docstring(_ternion.Tensor) + "\n" + SPECIAL_METHODS + "".join(operators())
    for name in names_of(_ternion.Tensor):
        member = getattr(_ternion.Tensor, name)
        if name in WRITABLE:
            body += f"{name}: {plain(WRITABLE[name])}\n"
        elif name in PROPERTIES:
            body += "@property\n" + described(f"def {name}(self) -> {plain(PROPERTIES[name])}", member)
        elif name in ("max", "min"):
            body += extremes(name, "self")
        elif isinstance(member, types.FunctionType):
            body += method(name, member)
        else:
            result_type = "Self" if name.endswith("_") and not name.endswith("__") else None
            body += definition(name, member, "self", result_type)
    # Private methods that the Python part of the package calls.
    private = sorted(name for name in vars(_ternion.Tensor) if name.startswith("_") and not name.startswith("__"))
    body += "".join(f"def {name}(self, *args: Any, **kwargs: Any) -> Any: ...\n" for name in private)
    return "class Tensor:\n" + indented(body)


def generator():
    """Returns the stub of the random number generator class."""
    methods = {
        "manual_seed": "seed: _int) -> Self", "seed": ") -> _int", "initial_seed": ") -> _int", "get_state": ") -> tuple[_int, _int]",
        "set_state": "new_state: tuple[_int, _int]) -> Self",
    }  # fmt: skip
    body = docstring(_ternion.Generator) + "\ndef __init__(self, device: DeviceLike | None = None) -> None: ...\n"
    body += "@property\n" + described("def device(self) -> device", _ternion.Generator.device)
    for name, rest in methods.items():
        first = "self, " if not rest.startswith(")") else "self"
        body += f"def {name}({first}{rest}:\n" + indented(docstring(getattr(_ternion.Generator, name)))
    return "class Generator:\n" + indented(body) + "\n"


def method(name, function):
    """Returns the stub of a method that is written in Python."""
    first, *rest = inspect.signature(function).parameters.values()
    result = inspect.signature(function).return_annotation
    return f"def {name}({', '.join(['self', *argument_stubs(rest)])}) -> {plain(result)}:\n{indented(docstring(function))}"


def device_class():
    """Returns the stub of the device class."""
    results = {"synchronize": "None", "memory": "dict[str, _int]", "reset_peak_memory": "None", "release_cached": "None"}
    body = "type: str\nindex: _int | None\ndef __init__(self, name: DeviceLike, index: _int | None = None) -> None: ...\n"
    body += "".join(described(f"def {name}(self) -> {result}", getattr(_ternion.device, name)) for name, result in results.items())
    return described("class device", _ternion.device) + indented(body)


def native():
    text = HEADER + NATIVE
    for name in ("max", "min", "sort", "topk"):
        text += f"class {name}(NamedTuple):\n    values: Tensor\n    indices: Tensor\n\n"
    text += described("class dtype", _ternion.dtype) + "    itemsize: _int\n    is_floating_point: _bool\n\n"
    text += device_class() + "\n" + generator()
    text += described("class HookHandle", _ternion.HookHandle) + indented(described("def remove(self) -> None", _ternion.HookHandle.remove)) + "\n"
    text += tensor_class() + "\n"
    text += described("class Parameter(Tensor)", _ternion.Parameter) + "    def __init__(self, data: Tensor, requires_grad: _bool = True) -> None: ...\n\n"
    text += "class _Steps:\n    def __init__(self, *args: Any) -> None: ...\n    def __getattr__(self, name: str) -> Any: ...\n\n"
    for name in names_of(_ternion):
        member = getattr(_ternion, name)
        if isinstance(member, types.BuiltinFunctionType):
            text += WHERE.format(described=described("def where(condition: Tensor) -> tuple[Tensor, ...]", member)) if name == "where" else definition(name, member)
    for private in ("_clip_grad_norm", "_clip_grad_value", "_initial", "_logspace", "_normal", "_pad_sequence", "_sinusoidal", "_stack_by", "_total_norm", "_triangle", "_window"):
        text += f"def {private}(*args: Any, **kwargs: Any) -> Tensor: ...\n"
    text += "def _number(value: Any, /) -> _float: ...\n"
    text += "def _set_recording(on: _bool) -> _bool: ...\ndef _forked() -> None: ...\n"
    text += "def _random_position(device: Any = None) -> tuple[_int, _int]: ...\ndef _set_random_position(position: tuple[_int, _int], device: Any = None) -> None: ...\n"
    text += "def _nvrtc_version() -> tuple[_int, _int]: ...\n"
    text += "def _nvtx_push(message: str) -> _int: ...\ndef _nvtx_pop() -> _int: ...\ndef _nvtx_mark(message: str) -> None: ...\n"
    text += "def _load_gpt2(*args: Any) -> tuple[dict[str, Any], dict[str, Tensor]]: ...\ndef _save_gpt2(*args: Any) -> None: ...\n"
    text += "def _broadcast_shapes(shapes: list[list[_int]]) -> list[_int]: ...\n"
    text += "def _broadcast_tensors(tensors: Any) -> tuple[Tensor, ...]: ...\ndef _meshgrid(tensors: Any, indexing: str) -> tuple[Tensor, ...]: ...\n"
    text += "def _choose(*args: Any) -> list[_int]: ...\ndef _save(path: Any, tensors: dict[str, Tensor], texts: dict[str, str]) -> None: ...\n"
    text += "def _load(path: Any, device: Any, name: str) -> tuple[dict[str, Tensor], dict[str, str], list[str]]: ...\n"
    text += "def _grad(*args: Any) -> list[Any]: ...\n"
    text += "_functional: Any\n_linalg: Any\n_data: Any\n_train: Any\n_trust: Any\n_Rotary: Any\n__version__: str\n"
    dtypes = [name for name in names_of(_ternion) if isinstance(getattr(_ternion, name), _ternion.dtype)]
    return text + "".join(f"{name}: dtype\n" for name in dtypes)


def functional():
    from ternion.nn import functional as module

    text = HEADER + BUILTINS + "from typing import Any\n\nfrom .._ternion import Operand, SizeLike, DTypeLike, Tensor, Number\nfrom collections.abc import Sequence\n\n"
    for name in names_of(_ternion._functional):
        # Some native functions are replaced by Python functions, and some are in another module.
        if getattr(module, name, None) is getattr(_ternion._functional, name):
            text += definition(name, getattr(_ternion._functional, name))
    for name in names_of(module):
        method = getattr(getattr(module, name), "__wrapped__", None)
        if isinstance(method, types.MethodDescriptorType):
            text += definition(name, method, "input: Tensor")
    text += "".join(python_function(name, member) for name, member in vars(module).items() if is_own(name, member))
    private = [name for name, member in vars(module).items() if isinstance(member, types.FunctionType) and member.__module__ == module.__name__ and name.startswith("_")]
    return text + "".join(f"def {name}(*args: Any, **kwargs: Any) -> Any: ...\n" for name in private)


def is_own(name, member):
    is_written = isinstance(member, types.FunctionType) and not isinstance(getattr(member, "__wrapped__", None), types.MethodDescriptorType)
    return is_written and member.__module__.startswith("ternion.nn.") and not name.startswith("_")


def argument_stubs(parameters):
    """Returns the arguments of a Python function, whose annotations contain their types."""
    stubs, starred = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            stubs.append("*")
        starred |= parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        stars = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        default = parameter.default
        value = "" if default is inspect.Parameter.empty else f' = "{default}"' if isinstance(default, str) else f" = {default!r}"
        stubs.append(f"{stars}{parameter.name}: {plain(parameter.annotation)}{value}")
    return stubs


def python_function(name, function):
    """Returns the stub of a Python function, whose annotations contain its types."""
    signature = inspect.signature(function)
    arguments = ", ".join(argument_stubs(signature.parameters.values()))
    return f"def {name}({arguments}) -> {plain(signature.return_annotation)}:\n{indented(docstring(function))}"


def package():
    text = HEADER + BUILTINS + "from collections.abc import Sequence\nfrom typing import Any, overload\n\n"
    text += "from . import amp as amp, autograd as autograd, cuda as cuda, data as data, formats as formats, linalg as linalg, metrics as metrics, models as models, nn as nn, optim as optim, signal as signal, special as special, testing as testing, train as train, utils as utils\nfrom ._files import load as load, save as save\nfrom ._random import get_rng_state as get_rng_state, set_rng_state as set_rng_state\n"
    text += "from ._capture import CapturedStep as CapturedStep, capture as capture\nfrom ._checks import Stats as Stats, check as check, stats as stats\n"
    text += "from .amp import autocast as autocast, is_autocast_enabled as is_autocast_enabled\nfrom .utils.checkpoint import checkpoint as checkpoint\n"
    text += "from ._scopes import enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, set_grad_enabled as set_grad_enabled\nfrom ._size import Size as Size\nfrom ._functions.kinds import layout as layout, strided as strided\n"
    for module in ternion._functions.MODULES:
        listed = [name for name in ternion._FUNCTIONS if getattr(ternion._find_function(name), "__module__", "") == module.__name__]
        short = module.__name__.rsplit(".", 1)[-1]
        text += "".join(f"from ._functions.{short} import {name} as {name}\n" for name in sorted(listed))
    text += "".join(f"from .nn.functional import {name} as {name}\n" for name in ternion._OF_LAYERS)
    text += "".join(f"from .nn._top_level import {name} as {name}\n" for name in ternion.nn._top_level.__all__)
    text += "from ._ternion import DTypeLike, DeviceLike, Number, Operand, Other, SizeLike, max as _max, min as _min, sort as _sort, topk as _topk\n"
    exported = [
        name for name in names_of(_ternion)
        if name != "Parameter" and name not in ternion._CONSTRUCTORS and not isinstance(getattr(_ternion, name), _ternion.dtype)
    ]  # fmt: skip
    text += "".join(f"from ._ternion import {name} as {name}\n" for name in exported)
    text += "\n__version__: str\ninf: _float\nnan: _float\npi: _float\nnewaxis: None\n\n"
    text += "".join(definition(name, member) for name, member in ternion._CONSTRUCTORS.items())
    for name in sorted(ternion._METHODS):
        if name in ("max", "min"):
            text += extremes(name, "input: Tensor").replace(f"-> {name}:", f"-> _{name}:")
        else:
            result = f"_{name}" if name in ("sort", "topk") else None
            text += definition(name, getattr(_ternion.Tensor, name), "input: Tensor", result)
    text += "def is_tensor(obj: Any) -> _bool: ...\ndef seed(number: _int) -> None: ...\ndef initial_seed() -> _int: ...\n"
    text += "def numel(input: Tensor) -> _int: ...\nclass memory_format:\n    def __init__(self, name: str) -> None: ...\n\n"
    text += "".join(f"{name}: memory_format\n" for name in ("contiguous_format", "preserve_format", "channels_last"))
    for alias, name in {**ternion._ALIASES, "concatenate": "cat", "row_stack": "vstack", "trapz": "trapezoid"}.items():
        text += f"{alias} = {name}\n"
    dtypes = [name for name in names_of(_ternion) if isinstance(getattr(_ternion, name), _ternion.dtype)]
    return text + "".join(f"from ._ternion import {name} as {name}\n" for name in dtypes)


def main():
    files = {"_ternion.pyi": native(), "nn/functional.pyi": functional(), "__init__.pyi": package()}
    stale = []
    for name, text in files.items():
        file = PACKAGE / name
        if not file.exists() or file.read_text(encoding="utf-8") != text:
            stale.append(name)
            if "--check" not in sys.argv:
                file.write_text(text, encoding="utf-8")
    if "--check" in sys.argv and stale:
        raise SystemExit(f"{', '.join(stale)}: not what python/stubs.py writes")


if __name__ == "__main__":
    main()
