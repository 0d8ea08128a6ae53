"""Conversions between Ternion's tensors and ONNX's data: NumPy arrays, element types, protos; and
the error for ONNX features that Ternion lacks."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import ternion
from ternion import formats


class Unsupported(Exception):
    """A feature of ONNX that is not covered, with the reason. `kind` is its class on the page."""

    def __init__(self, kind, reason):
        super().__init__(reason)
        self.kind = kind


DTYPE_OF_TYPE = {
    TensorProto.FLOAT: ternion.float32,
    TensorProto.DOUBLE: ternion.float64,
    TensorProto.FLOAT16: ternion.float16,
    TensorProto.BFLOAT16: ternion.bfloat16,
    TensorProto.INT64: ternion.int64,
    TensorProto.INT32: ternion.int32,
    TensorProto.INT16: ternion.int16,
    TensorProto.INT8: ternion.int8,
    TensorProto.UINT64: ternion.uint64,
    TensorProto.UINT32: ternion.uint32,
    TensorProto.UINT16: ternion.uint16,
    TensorProto.UINT8: ternion.uint8,
    TensorProto.BOOL: ternion.bool,
}

# Formats that are not dtypes of Ternion and are stored as bits. The names are those of
# `ternion.formats` and of the dtypes of ONNX's arrays.
FORMAT_OF_TYPE = {
    TensorProto.FLOAT8E4M3FN: "float8_e4m3fn",
    TensorProto.FLOAT8E4M3FNUZ: "float8_e4m3fnuz",
    TensorProto.FLOAT8E5M2: "float8_e5m2",
    TensorProto.FLOAT8E5M2FNUZ: "float8_e5m2fnuz",
    TensorProto.FLOAT8E8M0: "float8_e8m0fnu",
    TensorProto.FLOAT4E2M1: "float4_e2m1fn",
    TensorProto.INT4: "int4",
    TensorProto.UINT4: "uint4",
    TensorProto.INT2: "int2",
    TensorProto.UINT2: "uint2",
}
TYPE_OF_FORMAT = {name: number for number, name in FORMAT_OF_TYPE.items()}

NAMES_OF_ARRAYS = {"float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"}


class Coded:
    """Numbers of a format, stored as bits in uint8."""

    def __init__(self, bits, format):
        self.bits, self.format = bits, format

    @property
    def is_integer(self):
        """Whether the format is an integer format."""
        return not self.format.startswith("float")

    def numbers(self):
        """Returns the numbers that the bits represent: int32, or float32, which can represent all
        numbers of all formats."""
        return formats.decode(self.bits, self.format, ternion.int32 if self.is_integer else ternion.float32)


def lacking(name):
    """Returns the error for an element type that Ternion lacks."""
    return Unsupported("missing dtype", f"dtype {name.lower()}")


def dtype_of_type(number):
    """Returns the dtype for a number of `TensorProto.DataType`."""
    if number not in DTYPE_OF_TYPE:
        raise lacking(TensorProto.DataType.Name(number))
    return DTYPE_OF_TYPE[number]


def target_of_type(number):
    """Returns the dtype, or the name of the format, for a number of `TensorProto.DataType`."""
    return FORMAT_OF_TYPE[number] if number in FORMAT_OF_TYPE else dtype_of_type(number)


def tensor_of(array):
    """Copies an array to a tensor, or to bits with their format."""
    array = np.asarray(array)
    # One number per byte, even if ONNX's files pack several.
    if array.dtype.name in TYPE_OF_FORMAT:
        return Coded(ternion.tensor(array.view(np.uint8)), array.dtype.name)
    # Not a native dtype of NumPy; float32 can represent all of its numbers.
    if array.dtype.name == "bfloat16":
        return ternion.tensor(array.astype(np.float32)).bfloat16()
    if array.dtype.name not in NAMES_OF_ARRAYS:
        raise lacking("string" if array.dtype.kind in "OSU" else array.dtype.name)
    return ternion.tensor(array)


def array_of(tensor):
    """Returns a tensor, or bits with their format, as an array with the dtype that ONNX uses for
    it."""
    if isinstance(tensor, Coded):
        return tensor.bits.numpy().view(onnx.helper.tensor_dtype_to_np_dtype(TYPE_OF_FORMAT[tensor.format]))
    if tensor.dtype == ternion.bfloat16:
        return tensor.float().numpy().astype(onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
    return tensor.numpy()


def value_of(value):
    """Converts an input of a test to a value of the interpreter: a tensor, a list of values, or
    None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [value_of(item) for item in value]
    if isinstance(value, TensorProto):
        return tensor_of_proto(value)
    return tensor_of(value)


def reference_of(value):
    """Returns an expected output as an array. Tests of element types that NumPy lacks use
    protos."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def tensor_of_proto(proto):
    """Returns the tensor of an initializer or an attribute."""
    target_of_type(proto.data_type)  # Raises an error if there is neither a dtype nor a format.
    return tensor_of(numpy_helper.to_array(proto))
