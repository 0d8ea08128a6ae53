"""What dtypes can hold, and questions about tensors."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Tensor, dtype as _dtype

# Bits of the exponent and of the mantissa, the leading one not counted.
_FLOATS = {_ternion.float64: (11, 52), _ternion.float32: (8, 23), _ternion.float16: (5, 10), _ternion.bfloat16: (8, 7)}

# What types of tensors are called.
_KINDS = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint64": "UInt64", "uint32": "UInt32", "uint16": "UInt16", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def _name(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


class layout:
    """How the elements of a tensor are kept: always in memory with strides."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"ternion.{self._name}"


strided = layout("strided")


def _check_layout(function: str, asked: Any) -> None:
    """That no other layout is asked for than the one that there is."""
    if asked is not None and asked is not strided:
        raise ValueError(f"{function}: expected the layout {strided}, got {asked}")


class finfo:
    """The limits of a floating dtype: bits, eps, max, min, tiny (also smallest_normal), resolution, dtype.

    Raises:
        TypeError: a dtype that is not a floating one.
    """

    def __init__(self, type: Any = None):
        dtype = _ternion.get_default_dtype() if type is None else type
        if dtype not in _FLOATS:
            raise TypeError(f"finfo: {dtype}, expected a floating ternion.dtype")
        exponent, mantissa = _FLOATS[dtype]
        bias = 2 ** (exponent - 1) - 1
        self.dtype = _name(dtype)
        self.bits = 8 * dtype.itemsize
        self.eps = 2.0**-mantissa
        self.max = (2.0 - 2.0**-mantissa) * 2.0**bias
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        self.resolution = 10.0 ** -int(mantissa * 0.30103)

    def __repr__(self) -> str:
        told = f"resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}"
        return f"finfo({told}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: bits, max, min, dtype.

    Raises:
        TypeError: a dtype that is not an integer one.
    """

    def __init__(self, type: Any):
        if not isinstance(type, _dtype) or type in _FLOATS or type == _ternion.bool:
            raise TypeError(f"iinfo: {type}, expected an integer ternion.dtype")
        self.dtype = _name(type)
        self.bits = 8 * type.itemsize
        signed = not self.dtype.startswith("u")
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def promote_types(type1: Any, type2: Any) -> Any:
    """The dtype that holds the numbers of both.

    Raises:
        TypeError: a dtype that is not known.
    """
    return (_ternion.zeros(1, dtype=type1) * _ternion.zeros(1, dtype=type2)).dtype


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """The dtype that an operator of both, tensors or numbers, has.

    Raises:
        TypeError: something that is neither a tensor nor a number.
    """
    one, other = (value.detach() if isinstance(value, Tensor) else value for value in (tensor1, tensor2))
    # Of no elements, as far as axes leave it so: dtypes are all that counts.
    parts = [value.reshape(-1)[:0] if isinstance(value, Tensor) and value.ndim else value for value in (one, other)]
    if not any(isinstance(part, Tensor) for part in parts):
        parts[0] = _ternion.tensor(parts[0])
    return (parts[0] * parts[1]).dtype


def can_cast(from_: Any, to: Any) -> bool:
    """Whether in place a result of one dtype may be written into a tensor of another."""
    order = [0 if kind == _ternion.bool else 2 if kind.is_floating_point else 1 for kind in (from_, to)]
    return order[0] <= order[1]


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating one."""
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is a complex one: there are none."""
    return False


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return not _name(input.dtype).startswith(("u", "bool"))


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not 0.

    Shapes: [] or one element -> a truth value

    Raises:
        ValueError: more than 1 element.
    """
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""
    return input.shape == other.shape


def get_device(input: Tensor) -> int:
    """The number of the device among those of its kind; -1 on the processor."""
    index = input.device.index
    return -1 if index is None else index


def type(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """The tensor in another dtype, which may be told as "ternion.LongTensor"; or the name of its type.

    Shapes: [..] -> the same
    """
    if dtype is None:
        return f"ternion.{'cuda.' if input.is_cuda else ''}{_KINDS[_name(input.dtype)]}Tensor"
    told = getattr(dtype, "__name__", dtype)
    if not isinstance(told, str) or not told.endswith("Tensor"):
        return input.to(dtype, non_blocking=non_blocking)
    where, _, kind = told.removesuffix("Tensor").rpartition(".")
    named = [name for name, known in _KINDS.items() if known == kind]
    if where not in ("", "ternion", "ternion.cuda") or not named:
        raise ValueError(f"type: {told!r}, expected a dtype or a name such as 'ternion.FloatTensor'")
    device = "cuda" if where.endswith("cuda") and not input.is_cuda else "cpu" if where == "ternion" and input.is_cuda else input.device
    return input.to(device, dtype=named[0], non_blocking=non_blocking)


def nelement(input: Tensor) -> int:
    """The number of elements."""
    return input.numel()


def ndimension(input: Tensor) -> int:
    """The number of axes."""
    return input.ndim


def pin_memory(input: Tensor) -> Tensor:
    """The tensor itself: copies to a device go through memory of their own.

    Shapes: [..] -> the same
    """
    return input


def typename(obj: Any) -> str:
    """The name of the type of an object."""
    return str(type(obj)) if isinstance(obj, Tensor) else obj.__class__.__name__


def isreal(input: Tensor) -> Tensor:
    """Where the elements are real: everywhere.

    Shapes: [..] -> the same, bool
    """
    return input == input if not input.is_floating_point() else (input == input) | input.isnan()


def real(input: Tensor) -> Tensor:
    """The real part: the tensor itself.

    Shapes: [..] -> the same
    """
    return input


def conj(input: Tensor) -> Tensor:
    """The conjugates: the tensor itself.

    Shapes: [..] -> the same
    """
    return input


def is_shared(input: Tensor) -> bool:
    """Whether the memory is shared with other processes: it never is."""
    return False


def set_float32_matmul_precision(precision: str) -> None:
    """Takes "highest", as products of float32 are those of float32 in any case: `autocast(dtype="tf32")` is for others.

    Raises:
        ValueError: another precision.
    """
    if precision != "highest":
        raise ValueError(f'set_float32_matmul_precision: {precision!r}, expected "highest"; autocast(dtype="tf32") rounds factors to TF32')


def get_float32_matmul_precision() -> str:
    """How products of float32 are computed: "highest"."""
    return "highest"


def is_pinned(input: Tensor) -> bool:
    """Whether the memory is pinned: it never is."""
    return False
