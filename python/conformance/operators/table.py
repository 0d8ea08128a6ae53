"""The table from operators to functions, and helpers that the functions share."""

import ternion

TABLE = {}


def operator(*names, takes_coded=False):
    """Adds a function to the table under names of operators. It takes the node and a value for each
    input, and returns the output or a tuple of outputs.

    With `takes_coded`, it supports values of formats that are not dtypes.
    """

    def enter(function):
        for name in names:
            assert name not in TABLE, f"{name} is in the table twice"
            TABLE[name] = function
        function.takes_coded = takes_coded
        return function

    return enter


def numbers(tensor):
    """Returns the elements of an input such as a shape or axes, or None if it was omitted."""
    return None if tensor is None else tensor.reshape(-1).tolist()


def int_tensor(values):
    """Returns integers as a tensor with one axis, int64 even if it is empty."""
    return ternion.tensor(list(values), dtype=ternion.int64)


def positive(axis, rank):
    """Returns an axis counted from the front."""
    return axis + rank if axis < 0 else axis


def wrapped(index, size):
    """Converts indices below 0, which count from the end in ONNX."""
    index = index.long()
    return ternion.where(index < 0, index + size, index)
