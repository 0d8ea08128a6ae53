"""`ternion.Size`: the shape of a tensor, a tuple with a method for the number of elements."""

from __future__ import annotations

import math
from typing import Any, SupportsIndex, overload


class Size(tuple[int, ...]):
    """The sizes of all axes: a tuple of integers, as returned by `x.shape`."""

    __slots__ = ()

    def numel(self) -> int:
        """Returns the number of elements of a tensor with these sizes."""
        return math.prod(self)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> Size: ...

    def __getitem__(self, index: Any) -> Any:
        result = super().__getitem__(index)
        return Size(result) if isinstance(index, slice) else result

    def __add__(self, other: Any) -> Size:  # type: ignore[override]  # With a Size it is one.
        return Size(super().__add__(tuple(other)))

    def __repr__(self) -> str:
        return f"ternion.Size({list(self)})"

    def __str__(self) -> str:
        # Formatted as a tuple, as messages show shapes that way.
        return repr(tuple(self))

    def __reduce__(self) -> Any:
        return Size, (tuple(self),)
