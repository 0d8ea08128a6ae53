"""Other forms of tensors, and tensors put together."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .. import _ternion
from .._size import Size
from .._ternion import Tensor
from .kinds import _check_layout


def _axis(function: str, input: Tensor, dim: int) -> int:
    """An axis counted from the front."""
    dim = operator.index(dim)
    if not -input.ndim <= dim < input.ndim:
        raise IndexError(f"{function}: axis {dim} on shape {list(input.shape)}")
    return dim % input.ndim


def _axis_or_only(function: str, input: Tensor, dim: int) -> int:
    """As `_axis`; a tensor without axes stands for one of size 1, which 0 and -1 name, as in PyTorch."""
    return 0 if input.ndim == 0 and dim in (0, -1) else _axis(function, input, dim)


def _tensors(function: str, tensors: Any) -> list[Tensor]:
    found = list(tensors[0]) if len(tensors) == 1 and not isinstance(tensors[0], Tensor) else list(tensors)
    for tensor in found:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{function}: expected tensors, got {type(tensor).__name__}")
    return found


def _raised(function: str, tensors: Any, rank: int) -> Any:
    """The tensors with so many axes at least; those that have them stay the objects that they are."""
    found = [tensor if tensor.ndim >= rank else tensor._atleast(rank) for tensor in _tensors(function, tensors)]
    return found[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(found)


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with one axis at least.

    Shapes: [] -> [1]; others -> the same

    Raises:
        TypeError: something that is no tensor.
    """
    return _raised("atleast_1d", tensors, 1)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with two axes at least: one of one axis becomes a row.

    Shapes: [n] -> [1, n]; [] -> [1, 1]; others -> the same

    Raises:
        TypeError: something that is no tensor.
    """
    return _raised("atleast_2d", tensors, 2)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with three axes at least: [n] becomes [1, n, 1], [m, n] becomes [m, n, 1].

    Raises:
        TypeError: something that is no tensor.
    """
    return _raised("atleast_3d", tensors, 3)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: along the second axis, or the first of tensors with one.

    Shapes: [rows, a, ..], [rows, b, ..], .. -> [rows, a + b + .., ..]; [a], [b] -> [a + b]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    return _ternion._stacked("hstack", _tensors("hstack", (tensors,)))


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other; one of one axis is a row.

    Shapes: [a, columns, ..], [b, columns, ..], .. -> [a + b + .., columns, ..]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    return _ternion._stacked("vstack", _tensors("vstack", (tensors,)))


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other, along the third axis.

    Shapes: [rows, columns, a], [rows, columns, b], .. -> [rows, columns, a + b + ..]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    return _ternion._stacked("dstack", _tensors("dstack", (tensors,)))


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side; one of one axis is a column.

    Shapes: [rows, a] or [rows], .. -> [rows, all columns]

    Raises:
        ValueError: no tensors, rows that differ.
        TypeError: something that is no tensor.
    """
    return _ternion._stacked("column_stack", _tensors("column_stack", (tensors,)))


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have together.

    Raises:
        ValueError: sizes that differ, and are not 1.
    """
    return Size(_ternion._broadcast_shapes([[shape] if isinstance(shape, int) else list(shape) for shape in shapes]))


def _one_way(function: str, given: tuple[Any, ...], name: str, named: Any) -> tuple[Any, ...]:
    """Numbers that are given one by one, or as a list by the name that the argument has in PyTorch."""
    if named is None:
        return given
    if given:
        raise TypeError(f"{function}: {name} twice, expected once")
    return (named,)


def broadcast_to(input: Tensor, *sizes: Any, size: Any = None) -> Tensor:
    """The tensor repeated up to these sizes, without a copy.

    Shapes: [..] -> size

    Raises:
        ValueError: sizes that the tensor does not broadcast to.
    """
    return input.expand(*_one_way("broadcast_to", sizes, "size", size))


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the shape that they have together, without copies.

    Shapes: [..], .. -> as many of the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    return _ternion._broadcast_tensors(tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: for each tensor of one axis a tensor with as many axes as there are tensors.

    Shapes: [m], [n], .. -> as many of [m, n, ..]

    Args:
        indexing: "ij" for axes in the order of the tensors, "xy" with the first two exchanged, as NumPy's default.

    Raises:
        ValueError: another indexing, a tensor of several axes.
    """
    return _ternion._meshgrid(_tensors("meshgrid", tensors), indexing)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of one element of each tensor, as rows.

    Shapes: [m], [n], .. -> [m * n * .., tensors]

    Raises:
        ValueError: a tensor of several axes.
    """
    return tensors[0] if len(tensors) == 1 and tensors[0].ndim == 1 else _ternion._stacked("cartesian_prod", tensors)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements of a diagonal of two axes, as a last axis: a view.

    Shapes: [.., rows, columns] -> [.., diagonal], for the last two axes

    Raises:
        IndexError: an axis that does not exist.
        ValueError: one axis twice.
    """
    return input._diagonal(offset, (operator.index(dim1), operator.index(dim2)))


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices whose diagonals are the last axis, zeros elsewhere, as two axes at `dim1` and `dim2`.

    Shapes: [.., n] -> [.., n + |offset|, n + |offset|]

    Raises:
        IndexError: axes that do not exist.
        ValueError: one axis twice, a tensor without axes.
    """
    return input._diag_embed(offset, (operator.index(dim1), operator.index(dim2)))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    Shapes: [rows, columns] -> [diagonal]; [n] -> [n + |diagonal|, n + |diagonal|]

    Raises:
        ValueError: a tensor that is neither.
    """
    return input._diag(diagonal)


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements on its diagonal.

    Shapes: [..] of n elements -> [n + |offset|, n + |offset|]
    """
    return input._diagflat(offset)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Shapes: [rows, columns] -> []

    Raises:
        ValueError: a tensor that is none.
    """
    return input._trace()


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes `source` at the places `destination`, the others in their order.

    Shapes: [..] -> its sizes in another order

    Raises:
        IndexError: an axis that does not exist.
        ValueError: other numbers of sources and destinations, or one twice.
    """
    sources, targets = ([given] if isinstance(given, int) else list(given) for given in (source, destination))
    if any(isinstance(axis, bool) for axis in (*sources, *targets)):
        raise TypeError("movedim: expected whole numbers as axes, got bool")
    if input.ndim == 0:
        # As in PyTorch, a tensor without axes stands for one of size 1, which 0 and -1 name.
        return input.reshape(1)._movedim(sources, targets).reshape(())
    return input._movedim(sources, targets)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged: `transpose`.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: an axis that does not exist.
    """
    return input.transpose(axis0, axis1)


def swapdims(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged: `transpose`.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: an axis that does not exist.
    """
    return input.transpose(dim0, dim1)


def narrow_copy(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`narrow`, a copy.

    Shapes: [.., n, ..] -> [.., length, ..]

    Raises:
        IndexError: an axis that does not exist, a start before the first element.
        ValueError: elements behind the last one, a negative length.
    """
    return input.narrow(dim, start, length).clone()


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of axis `dim`: of `split_size_or_sections` elements each, or of these sizes.

    Shapes: [.., n, ..] -> a tuple of [.., size, ..]; a last part may be smaller

    Raises:
        IndexError: an axis that does not exist.
        ValueError: parts of size 0, sizes that do not add up to that of the axis.
    """
    return tensor.split(split_size_or_sections, dim)


def adjoint(input: Tensor) -> Tensor:
    """The last two axes exchanged: there are no complex numbers to conjugate.

    Shapes: [.., m, n] -> [.., n, m]

    Raises:
        IndexError: less than two axes.
    """
    return input.transpose(-2, -1)


def _hermitian(input: Tensor) -> Tensor:
    if input.ndim not in (0, 2):
        raise ValueError(f"H: a tensor of shape {list(input.shape)}, expected a matrix: mH exchanges the last two axes of others")
    return input.T


def ravel(input: Tensor) -> Tensor:
    """All elements as one axis: a view of a tensor in row-major order, else a copy.

    Shapes: [..] -> [elements]
    """
    return input.contiguous().view(-1)


def view_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements of the same memory in the shape of `other`.

    Shapes: [..] -> the other's

    Raises:
        ValueError: another number of elements, or a shape that only a copy has.
    """
    return input.view(other.shape)


def reshape_as(input: Tensor, other: Tensor) -> Tensor:
    """The elements in the shape of `other`.

    Shapes: [..] -> the other's

    Raises:
        ValueError: another number of elements.
    """
    return input.reshape(other.shape)


def tile(input: Tensor, *counts: Any, dims: Any = None) -> Tensor:
    """The tensor repeated so often along each axis; counts are for the last axes.

    Shapes: [.., n] -> [.., n * times]

    Raises:
        ValueError: a count below 0.
    """
    counts = _one_way("tile", counts, "dims", dims)
    return input._tile(counts[0] if len(counts) == 1 and not isinstance(counts[0], int) else counts)


# More places than this are no list of Python: they would take all memory, and minutes.
_MOST_LISTED = 2**27


def _fits(function: str, places: int, most: int) -> None:
    if places > most:
        raise MemoryError(f"{function}: a result of more than {most} elements")


def repeat_interleave(input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element, or each slice of an axis, several times in turn.

    Shapes: [..] -> [elements * repeats], or longer along `dim`

    Args:
        repeats: how often, a number or a tensor with one for each; without it `input` tells how often each of its indices is repeated.
        dim: the axis; all elements in a row by default.
        output_size: taken as in PyTorch, and not needed.

    Raises:
        ValueError: a number below 0, or not one for each.
    """
    del output_size
    if repeats is None:
        if dim is not None or input.ndim != 1:
            raise ValueError(f"repeat_interleave: repeats of shape {list(input.shape)} alone, expected 1 axis and no dim")
        return _ternion.arange(input.numel(), device=input.device)._repeat_interleave(input, 0)
    if isinstance(repeats, bool):
        raise TypeError("repeat_interleave: repeats is bool, expected whole numbers")
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        return input._repeat_interleave(repeats, dim)
    if isinstance(repeats, Tensor) and (repeats.is_floating_point() or repeats.dtype == _ternion.bool):
        raise TypeError(f"repeat_interleave: repeats is {str(repeats.dtype).rpartition('.')[2]}, expected whole numbers")
    number = int(repeats) if isinstance(repeats, Tensor) else operator.index(repeats)
    if number < 0:
        raise ValueError(f"repeat_interleave: repeats of {number}, expected 0 or more")
    _fits("repeat_interleave", number * (input.numel() if dim is None else input.shape[_axis("repeat_interleave", input, dim)]), 2**48)
    return input._repeat_interleave(number, dim)


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order.

    Shapes: [rows, columns, ..] -> the same

    Raises:
        ValueError: less than 2 axes.
    """
    return input._fliplr()


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order.

    Shapes: [rows, ..] -> the same

    Raises:
        ValueError: no axes.
    """
    return input._flipud()


_MOST_PARTS = 2**24


def _sections(function: str, sections: Any) -> Any:
    """A number of parts, or a list of the places between them."""
    if isinstance(sections, Tensor) and sections.ndim == 0:
        sections = operator.index(sections)
    if isinstance(sections, bool):
        raise TypeError(f"{function}: indices_or_sections is bool, expected whole numbers")
    if not isinstance(sections, int):
        return list(sections)
    if sections < 0:
        raise ValueError(f"{function}: {sections} parts, expected at least 1")
    if sections > _MOST_PARTS:
        raise MemoryError(f"{function}: {sections} parts, expected at most {_MOST_PARTS}: each is a tensor")
    return sections


def _cuts(function: str, *given: Any) -> Any:
    """How a function cuts: by the first argument, by `sections` or by `indices`, as PyTorch calls what it may be."""
    named = [cut for cut in given if cut is not None]
    if len(named) != 1:
        raise TypeError(f"{function}: {len(named)} of indices_or_sections, sections and indices, expected one")
    return _sections(function, named[0])


def tensor_split(input: Tensor, indices_or_sections: Any = None, dim: int = 0, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Parts of an axis: so many, as even as can be, or those between these places.

    Args:
        sections, indices: what PyTorch calls the first argument, by what it is.

    Shapes: [.., size, ..] -> parts of [.., part, ..]

    Raises:
        ValueError: less than 1 part.
        IndexError: an axis that does not exist.
    """
    return input._parts("tensor_split", _cuts("tensor_split", indices_or_sections, sections, indices), dim)


def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of an axis of these sizes.

    Shapes: [.., size, ..] -> parts of [.., part, ..]

    Raises:
        ValueError: sizes that do not add up to that of the axis.
        IndexError: an axis that does not exist.
    """
    return input.split(list(split_sizes), dim)


def block_diag(*tensors: Tensor) -> Tensor:
    """The matrix with these on its diagonal, one behind the other, and zeros elsewhere.

    Shapes: [a, b], [c, d], .. -> [a + c + .., b + d + ..]

    Raises:
        ValueError: more than 2 axes.
    """
    return _ternion._stacked("block_diag", tensors)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """The places on and below a diagonal of a matrix, row by row: [2, count], int64.

    Raises:
        ValueError: a size below 0.
    """
    _check_layout("tril_indices", layout)
    found = _ternion._triangle(True, (row, col), offset, device)
    return found if dtype is None else found.to(dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None, layout: Any = None, pin_memory: bool = False) -> Tensor:
    """The places on and above a diagonal of a matrix, row by row: [2, count], int64.

    Raises:
        ValueError: a size below 0.
    """
    _check_layout("triu_indices", layout)
    found = _ternion._triangle(False, (row, col), offset, device)
    return found if dtype is None else found.to(dtype)


def hsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Parts side by side: of the second axis, or the only one. So many must be of one size.

    Shapes: [rows, columns, ..] -> parts of [rows, part, ..]

    Raises:
        ValueError: no axes, a number of parts that does not divide the axis.
    """
    return input._parts("hsplit", _cuts("hsplit", indices_or_sections, sections, indices), 0)


def vsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Parts one below the other: of the first axis. So many must be of one size.

    Shapes: [rows, columns, ..] -> parts of [part, columns, ..]

    Raises:
        ValueError: less than 2 axes, a number of parts that does not divide the first.
    """
    return input._parts("vsplit", _cuts("vsplit", indices_or_sections, sections, indices), 0)


def dsplit(input: Tensor, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
    """Parts one behind the other: of the third axis. So many must be of one size.

    Shapes: [rows, columns, depth, ..] -> parts of [rows, columns, part, ..]

    Raises:
        ValueError: less than 3 axes, a number of parts that does not divide the third.
    """
    return input._parts("dsplit", _cuts("dsplit", indices_or_sections, sections, indices), 0)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The tensor turned `k` times by a right angle, from the first of two axes to the second.

    Shapes: [rows, columns] -> [columns, rows], or the same for even `k`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: one axis twice.
    """
    first, second = dims
    return input._rot90(k, (first, second))


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sums over the axes along which a tensor of these sizes would be repeated; of whole numbers and truth values int64, also of the one element without sizes.

    Raises:
        ValueError: sizes that do not broadcast to this tensor's.
    """
    return input._sum_to_size(size[0] if len(size) == 1 and not isinstance(size[0], int) else size)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places in a tensor of this shape of elements that are counted in row-major order, one tensor of int64 for each axis.

    Shapes: [..] -> as many of the same as the shape has axes

    Raises:
        TypeError: indices that are no whole numbers.
        ValueError: a shape without elements.
    """
    return indices._unravel_index([shape] if isinstance(shape, int) else shape)


def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All choices of `r` elements of a vector, in its order, as rows.

    Shapes: [n] -> [choices, r]

    Raises:
        ValueError: a tensor that is no vector, `r` below 0.
        MemoryError: more choices than can be listed.
    """
    if input.ndim != 1 or r < 0:
        raise ValueError(f"combinations: {r} elements of a tensor of shape {list(input.shape)}, expected one axis and at least 0")
    count = input.numel()
    _fits("combinations", r * (math.comb(count + r - 1, r) if with_replacement and count else math.comb(count, r)), _MOST_LISTED)
    return input._combinations(r, with_replacement)
