"""Functions that change shapes, and that join or split tensors."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

from .. import _ternion
from .._size import Size
from .._ternion import Tensor
from .kinds import _check_layout


def _axis(function: str, input: Tensor, dim: int) -> int:
    """Returns an axis as a nonnegative index."""
    dim = operator.index(dim)
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"{function}: axis {dim} on shape {list(input.shape)}")
    return dim % input.ndim


def _axis_or_only(function: str, input: Tensor, dim: int) -> int:
    """Like `_axis`. A tensor without axes is treated as one of shape [1], whose axis is 0 or -1, as
    in PyTorch.
    """
    return 0 if input.ndim == 0 and dim in (0, -1) else _axis(function, input, dim)


def _tensors(function: str, tensors: Any) -> list[Tensor]:
    listed = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    for tensor in listed:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function}: expected tensors, got {type(tensor).__name__}")
    return listed


def _with_min_rank(function: str, tensors: Any, rank: int) -> Any:
    """Returns the tensors with at least `rank` axes. Those that already have them are returned as
    the same objects.
    """
    raised = [tensor if tensor.ndim >= rank else tensor._atleast(rank) for tensor in _tensors(function, tensors)]
    return raised[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(raised)


def atleast_1d(*tensors: Any) -> Any:
    """Returns the tensors with at least one axis.

    Shapes: [] -> [1]; others are unchanged

    Raises:
        TypeError: If an argument is not a tensor.
    """
    return _with_min_rank("atleast_1d", tensors, 1)


def atleast_2d(*tensors: Any) -> Any:
    """Returns the tensors with at least two axes. A vector becomes a row.

    Shapes: [n] -> [1, n]; [] -> [1, 1]; others are unchanged

    Raises:
        TypeError: If an argument is not a tensor.
    """
    return _with_min_rank("atleast_2d", tensors, 2)


def atleast_3d(*tensors: Any) -> Any:
    """Returns the tensors with at least three axes: [n] becomes [1, n, 1], [m, n] becomes
    [m, n, 1].

    Raises:
        TypeError: If an argument is not a tensor.
    """
    return _with_min_rank("atleast_3d", tensors, 3)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors horizontally: along the second axis, or along the first axis of vectors.

    Shapes: [rows, a, ..], [rows, b, ..], .. -> [rows, a + b + .., ..]; [a], [b] -> [a + b]

    Raises:
        ValueError: If there are no tensors, or if sizes along other axes differ.
        TypeError: If an argument is not a tensor.
    """
    return _ternion._stack_by("hstack", _tensors("hstack", (tensors,)))


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors vertically, along the first axis. A vector is treated as a row.

    Shapes: [a, columns, ..], [b, columns, ..], .. -> [a + b + .., columns, ..]

    Raises:
        ValueError: If there are no tensors, or if sizes along other axes differ.
        TypeError: If an argument is not a tensor.
    """
    return _ternion._stack_by("vstack", _tensors("vstack", (tensors,)))


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors along the third axis.

    Shapes: [rows, columns, a], [rows, columns, b], .. -> [rows, columns, a + b + ..]

    Raises:
        ValueError: If there are no tensors, or if sizes along other axes differ.
        TypeError: If an argument is not a tensor.
    """
    return _ternion._stack_by("dstack", _tensors("dstack", (tensors,)))


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Concatenates tensors as columns. A vector is treated as a column.

    Shapes: [rows, a] or [rows], .. -> [rows, all columns]

    Raises:
        ValueError: If there are no tensors, or if the numbers of rows differ.
        TypeError: If an argument is not a tensor.
    """
    return _ternion._stack_by("column_stack", _tensors("column_stack", (tensors,)))


def broadcast_shapes(*shapes: Any) -> Size:
    """Returns the shape to which tensors of these shapes broadcast.

    Raises:
        ValueError: If sizes differ and neither is 1.
    """
    return Size(_ternion._broadcast_shapes([[shape] if isinstance(shape, int) else list(shape) for shape in shapes]))


def _positional_or_keyword(function: str, positional: tuple[Any, ...], name: str, keyword: Any) -> tuple[Any, ...]:
    """Returns sizes that are given one by one, or as a list under PyTorch's name of the argument.
    """
    if keyword is None:
        return positional
    if positional:
        raise TypeError(f"{function}: {name} twice, expected once")
    return (keyword,)


def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """Expands the tensor to the given sizes without a copy.

    Shapes: [..] -> `size`

    Raises:
        ValueError: If the tensor does not broadcast to these sizes.
    """
    return input.expand(*_positional_or_keyword("broadcast_to", sizes, "size", size))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Broadcasts the tensors to a common shape without copies.

    Shapes: [..], .. -> the same number of tensors of the broadcast shape

    Raises:
        ValueError: If the shapes do not broadcast.
    """
    return _ternion._broadcast_tensors(tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Returns the coordinates of a grid: for each vector, a tensor with as many axes as there are
    vectors.

    Shapes: [m], [n], .. -> the same number of tensors of shape [m, n, ..]

    Args:
        indexing: "ij" for axes in the order of the tensors, "xy" for the first two swapped, as in
            NumPy's default.

    Raises:
        ValueError: If the indexing is unknown, or if a tensor has several axes.
    """
    return _ternion._meshgrid(_tensors("meshgrid", tensors), indexing)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Returns all tuples with one element of each tensor, as rows.

    Shapes: [m], [n], .. -> [m * n * .., number of tensors]

    Raises:
        ValueError: If a tensor has several axes.
    """
    return tensors[0] if len(tensors) == 1 and tensors[0].ndim == 1 else _ternion._stack_by("cartesian_prod", tensors)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """Returns a view of a diagonal of two axes, as the last axis.

    Shapes: [.., rows, columns] -> [.., diagonal], for the last two axes

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If both axes are the same.
    """
    return input._diagonal(offset, (operator.index(dim1), operator.index(dim2)))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Returns matrices, in the axes `dim1` and `dim2`, whose diagonals are the last axis of the
    input and whose other elements are zeros.

    Shapes: [.., n] -> [.., n + |offset|, n + |offset|]

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If both axes are the same, or if the tensor has no axes.
    """
    return input._diag_embed(offset, (operator.index(dim1), operator.index(dim2)))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """Returns the diagonal of a matrix, or a matrix with a vector on its diagonal.

    Shapes: [rows, columns] -> [diagonal]; [n] -> [n + |diagonal|, n + |diagonal|]

    Raises:
        ValueError: If the tensor is neither a vector nor a matrix.
    """
    return input._diag(diagonal)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """Returns the matrix with all elements of the input on its diagonal.

    Shapes: [..] with n elements -> [n + |offset|, n + |offset|]
    """
    return input._diagflat(offset)


def trace(input: Tensor) -> Tensor:
    """Returns the sum of the diagonal of a matrix.

    Shapes: [rows, columns] -> []

    Raises:
        ValueError: If the tensor is not a matrix.
    """
    return input._trace()


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """Moves the axes `source` to `destination`. The other axes keep their order.

    Shapes: [..] -> the same sizes in another order

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If the numbers of sources and destinations differ, or if an axis is given twice.
    """
    sources, targets = ([axes] if isinstance(axes, int) else list(axes) for axes in (source, destination))
    if any(isinstance(axis, bool) for axis in (*sources, *targets)):
        raise TypeError("movedim: expected integers as axes, got bool")
    if input.ndim == 0:
        # As in PyTorch, a tensor without axes is treated as one of shape [1], whose axis is 0 or
        # -1.
        return input.reshape(1)._movedim(sources, targets).reshape(())
    return input._movedim(sources, targets)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Swaps two axes; the same as `transpose`.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: If an axis is out of range.
    """
    return input.transpose(axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two axes; the same as `transpose`.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: If an axis is out of range.
    """
    return input.transpose(dim0, dim1)


def narrow_copy(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """Returns a copy of `narrow`.

    Shapes: [.., n, ..] -> [.., length, ..]

    Raises:
        IndexError: If the axis is out of range, or if `start` is before the first element.
        ValueError: If the range ends after the last element, or if the length is negative.
    """
    return input.narrow(dim, start, length).clone()


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Splits the axis `dim` into parts of `split_size_or_sections` elements each, or of these
    sizes.

    Shapes: [.., n, ..] -> a tuple of [.., size, ..]; the last part may be smaller

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If the split size is 0, or if the sizes do not sum to the size of the axis.
    """
    return tensor.split(split_size_or_sections, dim)


def adjoint(input: Tensor) -> Tensor:
    """Swaps the last two axes. No dtype is complex, so that there is nothing to conjugate.

    Shapes: [.., m, n] -> [.., n, m]

    Raises:
        IndexError: If there are fewer than two axes.
    """
    return input.transpose(-2, -1)


def _hermitian(input: Tensor) -> Tensor:
    if input.ndim not in (0, 2):
        raise ValueError(f"H: a tensor of shape {list(input.shape)}, expected a matrix: mH exchanges the last two axes of others")
    return input.T


def ravel(input: Tensor) -> Tensor:
    """Returns all elements as one axis: a view of a contiguous tensor, otherwise a copy.

    Shapes: [..] -> [elements]
    """
    return input.contiguous().view(-1)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """Returns a view in the shape of `other`.

    Shapes: [..] -> the shape of `other`

    Raises:
        ValueError: If the number of elements differs, or if the shape would need a copy.
    """
    return input.view(other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """Returns the elements in the shape of `other`.

    Shapes: [..] -> the shape of `other`

    Raises:
        ValueError: If the number of elements differs.
    """
    return input.reshape(other.shape)


def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """Repeats the tensor along each axis by the given counts, which apply to the last axes.

    Shapes: [.., n] -> [.., n * times]

    Raises:
        ValueError: If a count is negative.
    """
    counts = _positional_or_keyword("tile", counts, "dims", dims)
    return input._tile(counts[0] if len(counts) == 1 and not isinstance(counts[0], int) else counts)


def _check_size(function: str, count: int, limit: int) -> None:
    if count > limit:
        raise MemoryError(f"{function}: a result of more than {limit} elements")


def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Repeats each element, or each slice of an axis, several times in a row.

    Shapes: [..] -> [elements * repeats], or longer along `dim`

    Args:
        repeats: The number of repetitions, or a tensor with one number for each element. Without
            it, `input` contains the number of repetitions of each of its indices.
        dim: The axis. Default: the flattened tensor.
        output_size: Accepted for compatibility with PyTorch; not needed.

    Raises:
        ValueError: If a number of repetitions is negative, or if there is not one for each element.
    """
    del output_size
    if repeats is None:
        if dim is not None or input.ndim != 1:
            raise ValueError(f"repeat_interleave: only repeats of shape {list(input.shape)}, expected 1 axis and no dim")
        return _ternion.arange(input.numel(), device=input.device)._repeat_interleave(input, 0)
    if isinstance(repeats, bool):
        raise TypeError("repeat_interleave: repeats is bool, expected integers")
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        return input._repeat_interleave(repeats, dim)
    if isinstance(repeats, Tensor) and (repeats.is_floating_point() or repeats.dtype == _ternion.bool):
        raise TypeError(f"repeat_interleave: repeats is {str(repeats.dtype).rpartition('.')[2]}, expected integers")
    number = int(repeats) if isinstance(repeats, Tensor) else operator.index(repeats)
    if number < 0:
        raise ValueError(f"repeat_interleave: repeats of {number}, expected 0 or more")
    _check_size("repeat_interleave", number * (input.numel() if dim is None else input.shape[_axis("repeat_interleave", input, dim)]), 2**48)
    return input._repeat_interleave(number, dim)


def fliplr(input: Tensor) -> Tensor:
    """Reverses the order of the columns.

    Shapes: [rows, columns, ..] -> the same shape

    Raises:
        ValueError: If there are fewer than 2 axes.
    """
    return input._fliplr()


def flipud(input: Tensor) -> Tensor:
    """Reverses the order of the rows.

    Shapes: [rows, ..] -> the same shape

    Raises:
        ValueError: If there are no axes.
    """
    return input._flipud()


_MAX_PARTS = 2**24


def _sections(function: str, sections: Any) -> Any:
    """Returns a number of parts, or a list of the indices between them."""
    if isinstance(sections, Tensor) and sections.ndim == 0:
        sections = operator.index(sections)
    if isinstance(sections, bool):
        raise TypeError(f"{function}: indices_or_sections is bool, expected integers")
    if not isinstance(sections, int):
        return list(sections)
    if sections < 0:
        raise ValueError(f"{function}: {sections} parts, expected at least 1")
    if sections > _MAX_PARTS:
        raise MemoryError(f"{function}: {sections} parts, expected at most {_MAX_PARTS}: each is a tensor")
    return sections


def _split_argument(function: str, *candidates: Any) -> Any:
    """Returns how to split: by the first argument, by `sections` or by `indices`, which are
    PyTorch's names for its two meanings.
    """
    present = [candidate for candidate in candidates if candidate is not None]
    if len(present) != 1:
        raise TypeError(f"{function}: {len(present)} of indices_or_sections, sections and indices, expected one")
    return _sections(function, present[0])


def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Splits an axis into a number of parts of nearly equal size, or at the given indices.

    Args:
        sections, indices: PyTorch's names for the first argument, depending on its meaning.

    Shapes: [.., size, ..] -> parts of [.., part, ..]

    Raises:
        ValueError: If there is less than one part.
        IndexError: If an axis is out of range.
    """
    return input._split_by("tensor_split", _split_argument("tensor_split", indices_or_sections, sections, indices), dim)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Splits an axis into parts of the given sizes.

    Shapes: [.., size, ..] -> parts of [.., part, ..]

    Raises:
        ValueError: If the sizes do not sum to the size of the axis.
        IndexError: If an axis is out of range.
    """
    return input.split(list(split_sizes), dim)


def block_diag(*tensors: Tensor) -> Tensor:
    """Returns the matrix with the given tensors as consecutive blocks on its diagonal, and zeros
    elsewhere.

    Shapes: [a, b], [c, d], .. -> [a + c + .., b + d + ..]

    Raises:
        ValueError: If a tensor has more than 2 axes.
    """
    return _ternion._stack_by("block_diag", tensors)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the indices of the elements on and below a diagonal of a matrix, in row-major order:
    [2, count], int64.

    Raises:
        ValueError: If a size is negative.
    """
    _check_layout("tril_indices", layout)
    indices = _ternion._triangle(True, (row, col), offset, device)
    return indices if dtype is None else indices.to(dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """Returns the indices of the elements on and above a diagonal of a matrix, in row-major order:
    [2, count], int64.

    Raises:
        ValueError: If a size is negative.
    """
    _check_layout("triu_indices", layout)
    indices = _ternion._triangle(False, (row, col), offset, device)
    return indices if dtype is None else indices.to(dtype)


def hsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Splits the second axis, or the only one. A number of parts must divide its size.

    Shapes: [rows, columns, ..] -> parts of [rows, part, ..]

    Raises:
        ValueError: If there are no axes, or if the number of parts does not divide the size of the
            axis.
    """
    return input._split_by("hsplit", _split_argument("hsplit", indices_or_sections, sections, indices), 0)


def vsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Splits the first axis. A number of parts must divide its size.

    Shapes: [rows, columns, ..] -> parts of [part, columns, ..]

    Raises:
        ValueError: If there are fewer than 2 axes, or if the number of parts does not divide the
            size of the first.
    """
    return input._split_by("vsplit", _split_argument("vsplit", indices_or_sections, sections, indices), 0)


def dsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Splits the third axis. A number of parts must divide its size.

    Shapes: [rows, columns, depth, ..] -> parts of [rows, columns, part, ..]

    Raises:
        ValueError: If there are fewer than 3 axes, or if the number of parts does not divide the
            size of the third.
    """
    return input._split_by("dsplit", _split_argument("dsplit", indices_or_sections, sections, indices), 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """Rotates the tensor `k` times by 90 degrees, from the first of two axes to the second.

    Shapes: [rows, columns] -> [columns, rows], or the same shape for even `k`

    Raises:
        IndexError: If an axis is out of range.
        ValueError: If both axes are the same.
    """
    first, second = dims
    return input._rot90(k, (first, second))


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """Sums over the axes along which a tensor of these sizes would be broadcast. For integer and
    bool tensors the result is int64, also for a single element without sizes.

    Raises:
        ValueError: If the sizes do not broadcast to the shape of this tensor.
    """
    return input._sum_to_size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)
