"""Tensors of Ternion and what ONNX has: arrays of NumPy, element types, protos; and the error for what Ternion does not have."""

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

import ternion


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
    TensorProto.UINT8: ternion.uint8,
    TensorProto.BOOL: ternion.bool,
}

NAMES_OF_ARRAYS = {"float32", "float64", "float16", "int64", "int32", "int16", "int8", "uint8", "bool"}


def lacking(name):
    """The error for an element type that Ternion lacks."""
    return Unsupported("missing dtype", f"dtype {name.lower()}")


def dtype_of_type(number):
    """The dtype for a number of `TensorProto.DataType`."""
    if number not in DTYPE_OF_TYPE:
        raise lacking(TensorProto.DataType.Name(number))
    return DTYPE_OF_TYPE[number]


def tensor_of(array):
    """A copy of an array as a tensor."""
    array = np.asarray(array)
    if array.dtype.name == "bfloat16":  # Not a dtype of NumPy itself; float32 holds each of its numbers.
        return ternion.tensor(array.astype(np.float32)).bfloat16()
    if array.dtype.name not in NAMES_OF_ARRAYS:
        raise lacking("string" if array.dtype.kind in "OSU" else array.dtype.name)
    return ternion.tensor(array)


def array_of(tensor):
    """A tensor as an array, in the array dtype that ONNX has for it."""
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
    if proto.data_type not in DTYPE_OF_TYPE:
        raise lacking(TensorProto.DataType.Name(proto.data_type))
    return tensor_of(numpy_helper.to_array(proto))
