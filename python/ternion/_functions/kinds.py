"""Dtype limits and promotion, and properties of tensors."""

from __future__ import annotations

from typing import Any

from .. import _ternion
from .._ternion import Tensor, dtype as _dtype

# Bits of the exponent and of the mantissa without the implicit leading bit.
_FLOATS = {_ternion.float64: (11, 52), _ternion.float32: (8, 23), _ternion.float16: (5, 10), _ternion.bfloat16: (8, 7)}

# PyTorch's names of tensor types by dtype.
_TENSOR_TYPES = {
    "float32": "Float", "float64": "Double", "float16": "Half", "bfloat16": "BFloat16", "int64": "Long", "int32": "Int", "int16": "Short", "int8": "Char",
    "uint64": "UInt64", "uint32": "UInt32", "uint16": "UInt16", "uint8": "Byte", "bool": "Bool",
}  # fmt: skip


def _dtype_name(dtype: Any) -> str:
    return str(dtype).split(".")[-1]


class layout:
    """The memory layout of a tensor. The only layout is strided."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"ternion.{self._name}"


strided = layout("strided")


def _check_layout(function: str, requested: Any) -> None:
    """Checks that the requested layout is `strided`, the only one available."""
    if requested is not None and requested is not strided:
        raise ValueError(f"{function}: expected the layout {strided}, got {requested}")


class finfo:
    """The limits of a floating-point dtype: bits, eps, max, min, tiny (also smallest_normal),
    resolution, dtype.

    Raises:
        TypeError: If the dtype is not a floating-point dtype.
    """

    def __init__(self, type: Any = None):
        dtype = _ternion.get_default_dtype() if type is None else type
        if dtype not in _FLOATS:
            raise TypeError(f"finfo: {dtype}, expected a floating ternion.dtype")
        exponent, mantissa = _FLOATS[dtype]
        bias = 2 ** (exponent - 1) - 1
        self.dtype = _dtype_name(dtype)
        self.bits = 8 * dtype.itemsize
        self.eps = 2.0**-mantissa
        self.max = (2.0 - 2.0**-mantissa) * 2.0**bias
        self.min = -self.max
        self.tiny = self.smallest_normal = 2.0 ** (1 - bias)
        self.resolution = 10.0 ** -int(mantissa * 0.30103)

    def __repr__(self) -> str:
        limits = f"resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, smallest_normal={self.tiny:g}, tiny={self.tiny:g}"
        return f"finfo({limits}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: bits, max, min, dtype.

    Raises:
        TypeError: If the dtype is not an integer dtype.
    """

    def __init__(self, type: Any):
        if not isinstance(type, _dtype) or type in _FLOATS or type == _ternion.bool:
            raise TypeError(f"iinfo: {type}, expected an integer ternion.dtype")
        self.dtype = _dtype_name(type)
        self.bits = 8 * type.itemsize
        signed = not self.dtype.startswith("u")
        self.max = 2 ** (self.bits - signed) - 1
        self.min = -(2 ** (self.bits - 1)) if signed else 0

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def promote_types(type1: Any, type2: Any) -> Any:
    """Returns the dtype to which the two dtypes are promoted.

    Raises:
        TypeError: If a dtype is unknown.
    """
    return (_ternion.zeros(1, dtype=type1) * _ternion.zeros(1, dtype=type2)).dtype


def result_type(tensor1: Any, tensor2: Any) -> Any:
    """Returns the dtype of the result of an arithmetic operator on two tensors or numbers.

    Raises:
        TypeError: If an argument is neither a tensor nor a number.
    """
    one, other = (value.detach() if isinstance(value, Tensor) else value for value in (tensor1, tensor2))
    # Without elements where axes permit it: only the dtypes matter.
    parts = [value.reshape(-1)[:0] if isinstance(value, Tensor) and value.ndim else value for value in (one, other)]
    if not any(isinstance(part, Tensor) for part in parts):
        parts[0] = _ternion.tensor(parts[0])
    return (parts[0] * parts[1]).dtype


def can_cast(from_: Any, to: Any) -> bool:
    """Whether a result of dtype `from_` may be written in place to a tensor of dtype `to`."""
    order = [0 if kind == _ternion.bool else 2 if kind.is_floating_point else 1 for kind in (from_, to)]
    return order[0] <= order[1]


def is_floating_point(input: Tensor) -> bool:
    """Whether the dtype is a floating-point dtype."""
    return input.dtype.is_floating_point


def is_complex(input: Tensor) -> bool:
    """Whether the dtype is complex. No dtype is."""
    return False


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative values."""
    return not _dtype_name(input.dtype).startswith(("u", "bool"))


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is nonzero.

    Shapes: [] or one element -> bool

    Raises:
        ValueError: If the tensor has more than one element.
    """
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both tensors have the same shape."""
    return input.shape == other.shape


def get_device(input: Tensor) -> int:
    """Returns the index of the device among the devices of its type; -1 for the CPU."""
    index = input.device.index
    return -1 if index is None else index


def type(input: Tensor, dtype: Any = None, non_blocking: bool = False) -> Any:
    """Casts the tensor to a dtype, which may be given as a name such as "ternion.LongTensor".
    Without `dtype`, returns the name of the tensor's type.

    Shapes: [..] -> the same shape
    """
    if dtype is None:
        return f"ternion.{'cuda.' if input.is_cuda else ''}{_TENSOR_TYPES[_dtype_name(input.dtype)]}Tensor"
    type_name = getattr(dtype, "__name__", dtype)
    if not isinstance(type_name, str) or not type_name.endswith("Tensor"):
        return input.to(dtype, non_blocking=non_blocking)
    where, _, kind = type_name.removesuffix("Tensor").rpartition(".")
    dtype_names = [name for name, known in _TENSOR_TYPES.items() if known == kind]
    if where not in ("", "ternion", "ternion.cuda") or not dtype_names:
        raise ValueError(f"type: {type_name!r}, expected a dtype or a name such as 'ternion.FloatTensor'")
    device = "cuda" if where.endswith("cuda") and not input.is_cuda else "cpu" if where == "ternion" and input.is_cuda else input.device
    return input.to(device, dtype=dtype_names[0], non_blocking=non_blocking)


def nelement(input: Tensor) -> int:
    """Returns the number of elements."""
    return input.numel()


def ndimension(input: Tensor) -> int:
    """Returns the number of axes."""
    return input.ndim


def pin_memory(input: Tensor) -> Tensor:
    """Returns the tensor itself: copies to a device go through the backend's staging buffers.

    Shapes: [..] -> the same shape
    """
    return input


def typename(obj: Any) -> str:
    """Returns the name of the type of an object."""
    return str(type(obj)) if isinstance(obj, Tensor) else obj.__class__.__name__


def isreal(input: Tensor) -> Tensor:
    """Whether each element is real: true for all elements.

    Shapes: [..] -> the same shape, bool
    """
    return input == input if not input.is_floating_point() else (input == input) | input.isnan()


def real(input: Tensor) -> Tensor:
    """Returns the real part, which is the tensor itself.

    Shapes: [..] -> the same shape
    """
    return input


def conj(input: Tensor) -> Tensor:
    """Returns the complex conjugate, which is the tensor itself.

    Shapes: [..] -> the same shape
    """
    return input


def is_shared(input: Tensor) -> bool:
    """Whether the memory is shared with other processes: always false."""
    return False


def set_float32_matmul_precision(precision: str) -> None:
    """Accepts only "highest": float32 products are always computed in float32 precision. Use
    `autocast(dtype="tf32")` for TF32.

    Raises:
        ValueError: If the precision is not "highest".
    """
    if precision != "highest":
        raise ValueError(f'set_float32_matmul_precision: {precision!r}, expected "highest"; autocast(dtype="tf32") rounds factors to TF32')


def get_float32_matmul_precision() -> str:
    """Returns the precision of float32 products: "highest"."""
    return "highest"


def is_pinned(input: Tensor) -> bool:
    """Whether the memory is pinned: always false."""
    return False
