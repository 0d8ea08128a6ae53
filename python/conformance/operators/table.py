"""The table operator -> function, and what the functions share."""

import ternion

TABLE = {}


def operator(*names, takes_coded=False):
    """Enters a function under names of operators: it takes the node and a value for each input, and returns the output or a tuple of them.

    With `takes_coded` it knows values of formats that are no dtypes.
    """

    def enter(function):
        for name in names:
            assert name not in TABLE, f"{name} is in the table twice"
            TABLE[name] = function
        function.takes_coded = takes_coded
        return function

    return enter


def numbers(tensor):
    """The elements of an input that holds shapes, axes and the like; None if it was left out."""
    return None if tensor is None else tensor.reshape(-1).tolist()


def whole(values):
    """Whole numbers as a tensor of axis 1, int64 even if there are none."""
    return ternion.tensor(list(values), dtype=ternion.int64)


def positive(axis, rank):
    """An axis counted from the front."""
    return axis + rank if axis < 0 else axis


def wrapped(index, size):
    """Indices, with those below 0 counted from the end, as ONNX has them."""
    index = index.long()
    return ternion.where(index < 0, index + size, index)
