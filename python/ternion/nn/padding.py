"""Layers that put something around sequences, images and volumes."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor
from . import functional as F
from .module import Module

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d", "ReflectionPad1d", "ReflectionPad2d",
    "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d", "ReplicationPad3d", "ZeroPad1d", "ZeroPad2d", "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    _axes, _mode = 0, "constant"

    def __init__(self, padding: Any):
        sides = tuple(padding) if isinstance(padding, (list, tuple)) else (padding,) * (2 * self._axes)
        if len(sides) != 2 * self._axes:
            raise ValueError(f"{type(self).__name__}: padding {padding}, expected one number or {2 * self._axes}")
        self.padding = sides

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return str(self.padding)


class ConstantPad1d(_Pad):
    """One value on both sides of sequences.

    Shapes: [.., length] -> [.., length + before + behind]

    Raises:
        ValueError: neither one amount nor two; when called, more cut off (by negative amounts) than there is.
    """

    _axes = 1

    def __init__(self, padding: Any, value: float):
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad2d(ConstantPad1d):
    """One value around images.

    Shapes: [.., height, width] -> [.., height + above + below, width + left + right]; `padding` is (left, right, above, below) or one amount

    Raises:
        ValueError: neither one amount nor four.
    """

    _axes = 2


class ZeroPad1d(_Pad):
    """Zeros on both sides of sequences.

    Shapes: [.., length] -> [.., length + before + behind]

    Raises:
        ValueError: neither one amount nor two; when called, more cut off (by negative amounts) than there is.
    """

    _axes = 1


class ZeroPad2d(_Pad):
    """Zeros around images.

    Shapes: [.., height, width] -> [.., height + above + below, width + left + right]; `padding` is (left, right, above, below) or one amount

    Raises:
        ValueError: neither one amount nor four.
    """

    _axes = 2


class ReflectionPad1d(_Pad):
    """Sequences reflected on both sides, without their outermost element.

    Shapes: [.., length] -> [.., length + before + behind]

    Raises:
        ValueError: neither one amount nor two; when called, amounts not below the length.
    """

    _axes, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Images reflected on all sides, without their outermost pixels.

    Shapes: [.., height, width] -> [.., height + above + below, width + left + right]; `padding` is (left, right, above, below) or one amount

    Raises:
        ValueError: neither one amount nor four; when called, amounts not below the size.
    """

    _axes, _mode = 2, "reflect"


class ReplicationPad1d(_Pad):
    """The outermost elements of sequences on both sides.

    Shapes: [.., length] -> [.., length + before + behind]

    Raises:
        ValueError: neither one amount nor two; when called, more cut off (by negative amounts) than there is.
    """

    _axes, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The outermost pixels of images on all sides.

    Shapes: [.., height, width] -> [.., height + above + below, width + left + right]; `padding` is (left, right, above, below) or one amount

    Raises:
        ValueError: neither one amount nor four; when called, more cut off (by negative amounts) than there is.
    """

    _axes, _mode = 2, "replicate"


class CircularPad1d(_Pad):
    """What is at one end of sequences before the other.

    Shapes: [.., length] -> [.., length + before + behind]

    Raises:
        ValueError: neither one amount nor two; when called, amounts above the length.
    """

    _axes, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """What is at one side of images beside the other.

    Shapes: [.., height, width] -> [.., height + above + below, width + left + right]; `padding` is (left, right, above, below) or one amount

    Raises:
        ValueError: neither one amount nor four; when called, amounts above the size.
    """

    _axes, _mode = 2, "circular"


class ConstantPad3d(ConstantPad1d):
    """One value around volumes.

    Shapes: [.., depth, height, width] -> each longer by its amounts; `padding` is (left, right, above, below, front, back) or one amount

    Raises:
        ValueError: neither one amount nor six; when called, more cut off (by negative amounts) than there is.
    """

    _axes = 3


class ZeroPad3d(_Pad):
    """Zeros around volumes.

    Shapes: [.., depth, height, width] -> each longer by its amounts; `padding` is (left, right, above, below, front, back) or one amount

    Raises:
        ValueError: neither one amount nor six; when called, more cut off (by negative amounts) than there is.
    """

    _axes = 3


class ReflectionPad3d(_Pad):
    """Volumes reflected on all sides, without their outermost elements.

    Shapes: [.., depth, height, width] -> each longer by its amounts; `padding` is (left, right, above, below, front, back) or one amount

    Raises:
        ValueError: neither one amount nor six; when called, amounts not below the size.
    """

    _axes, _mode = 3, "reflect"


class ReplicationPad3d(_Pad):
    """The outermost elements of volumes on all sides.

    Shapes: [.., depth, height, width] -> each longer by its amounts; `padding` is (left, right, above, below, front, back) or one amount

    Raises:
        ValueError: neither one amount nor six; when called, more cut off (by negative amounts) than there is.
    """

    _axes, _mode = 3, "replicate"


class CircularPad3d(_Pad):
    """What is at one side of volumes beside the other.

    Shapes: [.., depth, height, width] -> each longer by its amounts; `padding` is (left, right, above, below, front, back) or one amount

    Raises:
        ValueError: neither one amount nor six; when called, amounts above the size.
    """

    _axes, _mode = 3, "circular"
