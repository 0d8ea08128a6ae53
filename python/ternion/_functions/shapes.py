"""Other forms of tensors, and tensors put together."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

from .. import _ternion
from .._size import Size
from .._ternion import Tensor


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


def atleast_1d(*tensors: Any) -> Any:
    """Tensors with one axis at least.

    Shapes: [] -> [1]; others -> the same

    Raises:
        TypeError: something that is no tensor.
    """
    found = [tensor.reshape(1) if tensor.ndim == 0 else tensor for tensor in _tensors("atleast_1d", tensors)]
    return found[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(found)


def atleast_2d(*tensors: Any) -> Any:
    """Tensors with two axes at least: one of one axis becomes a row.

    Shapes: [n] -> [1, n]; [] -> [1, 1]; others -> the same

    Raises:
        TypeError: something that is no tensor.
    """
    found = [tensor.reshape(1, -1) if tensor.ndim < 2 else tensor for tensor in _tensors("atleast_2d", tensors)]
    return found[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(found)


def atleast_3d(*tensors: Any) -> Any:
    """Tensors with three axes at least: [n] becomes [1, n, 1], [m, n] becomes [m, n, 1].

    Raises:
        TypeError: something that is no tensor.
    """
    found = [tensor if tensor.ndim > 2 else atleast_2d(tensor).unsqueeze(-1) for tensor in _tensors("atleast_3d", tensors)]
    return found[0] if len(tensors) == 1 and isinstance(tensors[0], Tensor) else tuple(found)


def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side: along the second axis, or the first of tensors with one.

    Shapes: [rows, a, ..], [rows, b, ..], .. -> [rows, a + b + .., ..]; [a], [b] -> [a + b]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    parts = [atleast_1d(tensor) for tensor in _tensors("hstack", (tensors,))]
    return _ternion.cat(parts, 0 if parts and parts[0].ndim == 1 else 1)


def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one below the other; one of one axis is a row.

    Shapes: [a, columns, ..], [b, columns, ..], .. -> [a + b + .., columns, ..]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    return _ternion.cat([atleast_2d(tensor) for tensor in _tensors("vstack", (tensors,))], 0)


def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors one behind the other, along the third axis.

    Shapes: [rows, columns, a], [rows, columns, b], .. -> [rows, columns, a + b + ..]

    Raises:
        ValueError: no tensors, other sizes that differ.
        TypeError: something that is no tensor.
    """
    return _ternion.cat([atleast_3d(tensor) for tensor in _tensors("dstack", (tensors,))], 2)


def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Tensors side by side; one of one axis is a column.

    Shapes: [rows, a] or [rows], .. -> [rows, all columns]

    Raises:
        ValueError: no tensors, rows that differ.
        TypeError: something that is no tensor.
    """
    return hstack([tensor.reshape(-1, 1) if tensor.ndim < 2 else tensor for tensor in _tensors("column_stack", (tensors,))])


def broadcast_shapes(*shapes: Any) -> Size:
    """The shape that tensors of these shapes have together.

    Raises:
        ValueError: sizes that differ, and are not 1.
    """
    listed = [(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]
    found: list[int] = []
    for at in range(1, max(map(len, listed), default=0) + 1):
        sizes = {shape[-at] for shape in listed if len(shape) >= at and shape[-at] != 1}
        if len(sizes) > 1:
            raise ValueError(f"broadcast_shapes: shapes {', '.join(str(list(shape)) for shape in listed)} do not broadcast")
        found.insert(0, sizes.pop() if sizes else 1)
    return Size(found)


def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """The tensor repeated up to these sizes, without a copy.

    Shapes: [..] -> size

    Raises:
        ValueError: sizes that the tensor does not broadcast to.
    """
    return input.expand(size)


def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors in the shape that they have together, without copies.

    Shapes: [..], .. -> as many of the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
    shape = broadcast_shapes(*(tensor.shape for tensor in tensors))
    return tuple(tensor.expand(shape) for tensor in tensors)


def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: for each tensor of one axis a tensor with as many axes as there are tensors.

    Shapes: [m], [n], .. -> as many of [m, n, ..]

    Args:
        indexing: "ij" for axes in the order of the tensors, "xy" with the first two exchanged, as NumPy's default.

    Raises:
        ValueError: another indexing, a tensor of several axes.
    """
    parts = _tensors("meshgrid", tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f'meshgrid: indexing {indexing!r}, expected "ij" or "xy"')
    for part in parts:
        if part.ndim > 1:
            raise ValueError(f"meshgrid: a tensor of shape {list(part.shape)}, expected one axis")
    swaps = indexing == "xy" and len(parts) > 1
    if swaps:
        parts[:2] = parts[1::-1]
    shape = [part.numel() for part in parts]
    grids = [part.reshape([-1 if at == own else 1 for at in range(len(parts))]).expand(shape) for own, part in enumerate(parts)]
    if swaps:
        grids[:2] = grids[1::-1]
    return tuple(grids)


def cartesian_prod(*tensors: Tensor) -> Tensor:
    """All tuples of one element of each tensor, as rows.

    Shapes: [m], [n], .. -> [m * n * .., tensors]

    Raises:
        ValueError: a tensor of several axes.
    """
    if len(tensors) == 1:
        return tensors[0]
    return _ternion.stack([grid.reshape(-1) for grid in meshgrid(*tensors)], 1)


def diagonal(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The elements of a diagonal of two axes, as a last axis. A copy, where PyTorch has a view.

    Shapes: [.., rows, columns] -> [.., diagonal], for the last two axes

    Raises:
        IndexError: an axis that does not exist.
        ValueError: one axis twice.
    """
    first, second = _axis("diagonal", input, dim1), _axis("diagonal", input, dim2)
    if first == second:
        raise ValueError(f"diagonal: axes {dim1} and {dim2} are one")
    rest = [axis for axis in range(input.ndim) if axis not in (first, second)]
    rows, columns = input.shape[first], input.shape[second]
    row, column = max(-offset, 0), max(offset, 0)
    count = max(min(rows - row, columns - column), 0)
    flat = input.permute(*rest, first, second).reshape([input.shape[axis] for axis in rest] + [rows * columns])
    places = row * columns + column + (columns + 1) * _ternion.arange(count, device=input.device)
    return flat.index_select(-1, places)


def diag_embed(input: Tensor, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """Matrices whose diagonals are the last axis, zeros elsewhere, as two axes at `dim1` and `dim2`.

    Shapes: [.., n] -> [.., n + |offset|, n + |offset|]

    Raises:
        IndexError: axes that do not exist.
    """
    count, rank = input.shape[-1], input.ndim + 1
    size = count + abs(offset)
    rows = _ternion.arange(count, device=input.device) + max(-offset, 0)
    places = rows * size + rows + offset
    flat = _ternion.zeros([*input.shape[:-1], size * size], dtype=input.dtype, device=input.device)
    found = flat.scatter(-1, places.expand(input.shape), input).reshape(*input.shape[:-1], size, size)
    first, second = (dim + rank if dim < 0 else dim for dim in (dim1, dim2))
    return movedim(found, (-2, -1), (first, second))


def diag(input: Tensor, diagonal: int = 0) -> Tensor:
    """The diagonal of a matrix, or the matrix with a vector on its diagonal.

    Shapes: [rows, columns] -> [diagonal]; [n] -> [n + |diagonal|, n + |diagonal|]

    Raises:
        ValueError: a tensor that is neither.
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim != 2:
        raise ValueError(f"diag: of shape {list(input.shape)}, expected a vector or a matrix")
    return _diagonal(input, diagonal)


_diagonal = diagonal


def diagflat(input: Tensor, offset: int = 0) -> Tensor:
    """The matrix with all elements on its diagonal.

    Shapes: [..] of n elements -> [n + |offset|, n + |offset|]
    """
    return diag_embed(input.reshape(-1), offset)


def trace(input: Tensor) -> Tensor:
    """The sum of the diagonal of a matrix.

    Shapes: [rows, columns] -> []

    Raises:
        ValueError: a tensor that is none.
    """
    if input.ndim != 2:
        raise ValueError(f"trace: of shape {list(input.shape)}, expected a matrix")
    return diag(input).sum()


def movedim(input: Tensor, source: Any, destination: Any) -> Tensor:
    """The axes `source` at the places `destination`, the others in their order.

    Shapes: [..] -> its sizes in another order

    Raises:
        IndexError: an axis that does not exist.
        ValueError: other numbers of sources and destinations, or one twice.
    """
    sources = [source] if isinstance(source, int) else list(source)
    targets = [destination] if isinstance(destination, int) else list(destination)
    sources = [_axis_or_only("movedim", input, axis) for axis in sources]
    targets = [_axis_or_only("movedim", input, axis) for axis in targets]
    if len(sources) != len(targets) or len(set(sources)) != len(sources) or len(set(targets)) != len(targets):
        raise ValueError(f"movedim: axes {source} to {destination}, expected as many, each once")
    if input.ndim == 0:
        return input.permute(())
    rest = iter(axis for axis in range(input.ndim) if axis not in sources)
    order = [sources[targets.index(at)] if at in targets else next(rest) for at in range(input.ndim)]
    return input.permute(order)


def swapaxes(input: Tensor, axis0: int, axis1: int) -> Tensor:
    """Two axes exchanged: `transpose`.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: an axis that does not exist.
    """
    return input.transpose(axis0, axis1)


def ravel(input: Tensor) -> Tensor:
    """All elements as one axis.

    Shapes: [..] -> [elements]
    """
    return input.reshape(-1)


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


def tile(input: Tensor, *dims: Any) -> Tensor:
    """The tensor repeated so often along each axis; counts are for the last axes.

    Shapes: [.., n] -> [.., n * times]

    Raises:
        ValueError: a count below 0.
    """
    counts = list(dims[0]) if len(dims) == 1 and not isinstance(dims[0], int) else list(dims)
    return input.repeat([1] * (input.ndim - len(counts)) + counts)


# More places than this are no list of Python: they would take all memory, and minutes.
_MOST_LISTED = 2**27


def _fits(function: str, places: int, most: int) -> None:
    if places > most:
        raise MemoryError(f"{function}: a result of more than {most} elements")


def repeat_interleave(input: Tensor, repeats: Any, dim: int | None = None, *, output_size: int | None = None) -> Tensor:
    """Each element, or each slice of an axis, several times in turn.

    Shapes: [..] -> [elements * repeats], or longer along `dim`

    Args:
        repeats: how often, a number or a tensor with one for each.
        dim: the axis; all elements in a row by default.
        output_size: taken as in PyTorch, and not needed.

    Raises:
        ValueError: a number below 0, or not one for each.
    """
    del output_size
    x, axis = (input.reshape(-1), 0) if dim is None else (input, _axis("repeat_interleave", input, dim))
    count = x.shape[axis]
    if isinstance(repeats, Tensor) and repeats.numel() != 1:
        if repeats.shape != (count,):
            raise ValueError(f"repeat_interleave: repeats of shape {list(repeats.shape)} for {count} elements")
        numbers = repeats.tolist()
        if any(number < 0 for number in numbers):
            raise ValueError("repeat_interleave: repeats below 0")
        _fits("repeat_interleave", sum(numbers), _MOST_LISTED)
        places = [at for at, number in enumerate(numbers) for _ in range(number)]
        index = _ternion.tensor(places, dtype=_ternion.int64, device=input.device)
    else:
        number = int(repeats)
        if number < 0:
            raise ValueError(f"repeat_interleave: repeats of {number}, expected 0 or more")
        _fits("repeat_interleave", number * count, 2**48)
        index = _ternion.arange(count, device=input.device).unsqueeze(1).expand(count, number).reshape(-1)
    return x.index_select(axis, index)


def fliplr(input: Tensor) -> Tensor:
    """Columns in reverse order.

    Shapes: [rows, columns, ..] -> the same

    Raises:
        IndexError: less than 2 axes.
    """
    return input.flip(1)


def flipud(input: Tensor) -> Tensor:
    """Rows in reverse order.

    Shapes: [rows, ..] -> the same

    Raises:
        ValueError: no axes.
    """
    if input.ndim == 0:
        raise ValueError("flipud: a tensor without axes, expected at least one")
    return input.flip(0)


_MOST_PARTS = 2**24


def tensor_split(input: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Parts of an axis: so many, as even as can be, or those between these places.

    Shapes: [.., size, ..] -> parts of [.., part, ..]

    Raises:
        ValueError: less than 1 part.
        IndexError: an axis that does not exist.
    """
    size = input.shape[_axis("tensor_split", input, dim)]
    if isinstance(indices_or_sections, Tensor) and indices_or_sections.ndim == 0:
        indices_or_sections = operator.index(indices_or_sections)
    if isinstance(indices_or_sections, int):
        parts = indices_or_sections
        if parts <= 0:
            raise ValueError(f"tensor_split: {parts} parts, expected at least 1")
        if parts > _MOST_PARTS:
            raise MemoryError(f"tensor_split: {parts} parts, expected at most {_MOST_PARTS}: each is a tensor")
        ends = [(at + 1) * (size // parts) + min(at + 1, size % parts) for at in range(parts)]
    else:
        ends = [min(max(place + size if place < 0 else place, 0), size) for place in indices_or_sections] + [size]
    starts = [0] + ends[:-1]
    return tuple(input.narrow(dim, start, max(end - start, 0)) for start, end in zip(starts, ends))


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
    blocks = [atleast_2d(tensor) for tensor in tensors]
    width = sum(block.shape[1] for block in blocks)
    rows, before = [], 0
    for block in blocks:
        height, own = block.shape
        left = _ternion.zeros(height, before, dtype=block.dtype, device=block.device)
        right = _ternion.zeros(height, width - before - own, dtype=block.dtype, device=block.device)
        rows.append(_ternion.cat([left, block, right], 1))
        before += own
    return _ternion.cat(rows, 0)


def tril_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The places on and below a diagonal of a matrix, row by row: [2, count], int64.

    Raises:
        ValueError: a size below 0.
    """
    found = _ternion.ones(row, col, device=device).tril(offset).nonzero().t().contiguous()
    return found if dtype is None else found.to(dtype)


def triu_indices(row: int, col: int, offset: int = 0, *, dtype: Any = None, device: Any = None) -> Tensor:
    """The places on and above a diagonal of a matrix, row by row: [2, count], int64.

    Raises:
        ValueError: a size below 0.
    """
    found = _ternion.ones(row, col, device=device).triu(offset).nonzero().t().contiguous()
    return found if dtype is None else found.to(dtype)


def hsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts side by side: of the second axis, or the only one.

    Shapes: [rows, columns, ..] -> parts of [rows, part, ..]

    Raises:
        ValueError: less than 1 part.
    """
    return tensor_split(input, indices_or_sections, 0 if input.ndim == 1 else 1)


def vsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts one below the other: of the first axis.

    Shapes: [rows, ..] -> parts of [part, ..]

    Raises:
        ValueError: less than 1 part.
    """
    return tensor_split(input, indices_or_sections, 0)


def dsplit(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """Parts one behind the other: of the third axis.

    Shapes: [rows, columns, depth, ..] -> parts of [rows, columns, part, ..]

    Raises:
        IndexError: less than 3 axes.
    """
    return tensor_split(input, indices_or_sections, 2)


def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """The tensor turned `k` times by a right angle, from the first of two axes to the second.

    Shapes: [rows, columns] -> [columns, rows], or the same for even `k`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: one axis twice.
    """
    first, second = (_axis("rot90", input, dim) for dim in dims)
    if first == second:
        raise ValueError(f"rot90: dims {tuple(dims)}, expected two different axes")
    turned = {0: lambda: input.clone(), 1: lambda: input.flip(second).transpose(first, second), 2: lambda: input.flip(first, second)}
    return turned.get(k % 4, lambda: input.transpose(first, second).flip(second))()


def sum_to_size(input: Tensor, *size: Any) -> Tensor:
    """The sums over the axes along which a tensor of these sizes would be repeated.

    Raises:
        ValueError: sizes that do not broadcast to this tensor's.
    """
    wanted = list(size[0]) if len(size) == 1 and not isinstance(size[0], int) else list(size)
    lead = input.ndim - len(wanted)
    if lead < 0 or any(own != other and other != 1 for own, other in zip(input.shape[max(lead, 0) :], wanted)):
        raise ValueError(f"sum_to_size: {wanted} does not broadcast to shape {list(input.shape)}")
    axes = [at for at in range(input.ndim) if at < lead or (wanted[at - lead] == 1 and input.shape[at] != 1)]
    return (input.sum(axes, True) if axes else input).reshape(wanted)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The places in a tensor of this shape of elements that are counted in row-major order, one tensor for each axis.

    Shapes: [..] -> as many of the same as the shape has axes
    """
    found: list[Tensor] = []
    for size in reversed(list(shape)):
        found.insert(0, indices % size)
        indices = indices // size
    return tuple(found)


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
