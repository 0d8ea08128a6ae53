"""Tensors of Ternion and what ONNX has: arrays of NumPy, element types, protos; and the error for what Ternion does not have."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import ternion
from ternion import formats


class Unsupported(Exception):
    """Something of ONNX that is not covered, with the reason; `kind` is its class in the page."""

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

# Formats that are no dtypes of Ternion, and are kept as bits; the names are those of `ternion.formats` and of the dtypes that arrays of ONNX have.
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
    """Numbers of a format as their bits, uint8."""

    def __init__(self, bits, format):
        self.bits, self.format = bits, format

    @property
    def is_whole(self):
        """Whether the format is one of whole numbers."""
        return not self.format.startswith("float")

    def numbers(self):
        """What the bits stand for: int32, or float32, which holds all numbers of all formats."""
        return formats.decode(self.bits, self.format, ternion.int32 if self.is_whole else ternion.float32)


def lacking(name):
    """The error for an element type that Ternion lacks."""
    return Unsupported("missing dtype", f"dtype {name.lower()}")


def dtype_of_type(number):
    """The dtype for a number of `TensorProto.DataType`."""
    if number not in DTYPE_OF_TYPE:
        raise lacking(TensorProto.DataType.Name(number))
    return DTYPE_OF_TYPE[number]


def target_of_type(number):
    """What a number of `TensorProto.DataType` asks for: a dtype, or the name of a format."""
    return FORMAT_OF_TYPE[number] if number in FORMAT_OF_TYPE else dtype_of_type(number)


def tensor_of(array):
    """A copy of an array as a tensor, or as bits with their format."""
    array = np.asarray(array)
    if array.dtype.name in TYPE_OF_FORMAT:  # One number in a byte, also where ONNX's files hold several.
        return Coded(ternion.tensor(array.view(np.uint8)), array.dtype.name)
    if array.dtype.name == "bfloat16":  # Not a dtype of NumPy itself; float32 holds each of its numbers.
        return ternion.tensor(array.astype(np.float32)).bfloat16()
    if array.dtype.name not in NAMES_OF_ARRAYS:
        raise lacking("string" if array.dtype.kind in "OSU" else array.dtype.name)
    return ternion.tensor(array)


def array_of(tensor):
    """A tensor, or bits with their format, as an array in the array dtype that ONNX has for it."""
    if isinstance(tensor, Coded):
        return tensor.bits.numpy().view(onnx.helper.tensor_dtype_to_np_dtype(TYPE_OF_FORMAT[tensor.format]))
    if tensor.dtype == ternion.bfloat16:
        return tensor.float().numpy().astype(onnx.helper.tensor_dtype_to_np_dtype(TensorProto.BFLOAT16))
    return tensor.numpy()


def value_of(value):
    """An input of a test as a value of the interpreter: a tensor, a list of values, or None."""
    if value is None:
        return None
    if isinstance(value, (list, tuple)):
        return [value_of(item) for item in value]
    if isinstance(value, TensorProto):
        return tensor_of_proto(value)
    return tensor_of(value)


def reference_of(value):
    """An expected output as an array; tests of element types that NumPy lacks hold protos."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


def tensor_of_proto(proto):
    """The tensor of an initialiser or an attribute."""
    target_of_type(proto.data_type)  # Which is an error if there is neither a dtype nor a format.
    return tensor_of(numpy_helper.to_array(proto))
