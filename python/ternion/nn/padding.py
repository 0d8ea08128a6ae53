"""Layers that pad sequences, images and volumes."""

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
    """Pads both sides of sequences with a constant.

    Shapes: [.., length] -> [.., length + before + after]

    Raises:
        ValueError: If neither one nor two amounts are given; when called, if negative amounts crop
            more than there is.
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
    """Pads all sides of images with a constant.

    Shapes: [.., height, width] -> [.., height + top + bottom, width + left + right]; `padding` is
    (left, right, top, bottom) or one amount

    Raises:
        ValueError: If neither one nor four amounts are given.
    """

    _axes = 2


class ZeroPad1d(_Pad):
    """Pads both sides of sequences with zeros.

    Shapes: [.., length] -> [.., length + before + after]

    Raises:
        ValueError: If neither one nor two amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes = 1


class ZeroPad2d(_Pad):
    """Pads all sides of images with zeros.

    Shapes: [.., height, width] -> [.., height + top + bottom, width + left + right]; `padding` is
    (left, right, top, bottom) or one amount

    Raises:
        ValueError: If neither one nor four amounts are given.
    """

    _axes = 2


class ReflectionPad1d(_Pad):
    """Pads both sides of sequences by reflection, excluding the edge element.

    Shapes: [.., length] -> [.., length + before + after]

    Raises:
        ValueError: If neither one nor two amounts are given; when called, if an amount is not below
            the length.
    """

    _axes, _mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads all sides of images by reflection, excluding the edge pixels.

    Shapes: [.., height, width] -> [.., height + top + bottom, width + left + right]; `padding` is
    (left, right, top, bottom) or one amount

    Raises:
        ValueError: If neither one nor four amounts are given; when called, if an amount is not
            below the size.
    """

    _axes, _mode = 2, "reflect"


class ReplicationPad1d(_Pad):
    """Pads both sides of sequences by repeating the edge element.

    Shapes: [.., length] -> [.., length + before + after]

    Raises:
        ValueError: If neither one nor two amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes, _mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads all sides of images by repeating the edge pixels.

    Shapes: [.., height, width] -> [.., height + top + bottom, width + left + right]; `padding` is
    (left, right, top, bottom) or one amount

    Raises:
        ValueError: If neither one nor four amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes, _mode = 2, "replicate"


class CircularPad1d(_Pad):
    """Pads each end of sequences with the elements of the other end.

    Shapes: [.., length] -> [.., length + before + after]

    Raises:
        ValueError: If neither one nor two amounts are given; when called, if an amount is above the
            length.
    """

    _axes, _mode = 1, "circular"


class CircularPad2d(_Pad):
    """Pads each side of images with the pixels of the opposite side.

    Shapes: [.., height, width] -> [.., height + top + bottom, width + left + right]; `padding` is
    (left, right, top, bottom) or one amount

    Raises:
        ValueError: If neither one nor four amounts are given; when called, if an amount is above
            the size.
    """

    _axes, _mode = 2, "circular"


class ConstantPad3d(ConstantPad1d):
    """Pads all sides of volumes with a constant.

    Shapes: [.., depth, height, width] -> each axis extended by its amounts; `padding` is (left,
    right, top, bottom, front, back) or one amount

    Raises:
        ValueError: If neither one nor six amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes = 3


class ZeroPad3d(_Pad):
    """Pads all sides of volumes with zeros.

    Shapes: [.., depth, height, width] -> each axis extended by its amounts; `padding` is (left,
    right, top, bottom, front, back) or one amount

    Raises:
        ValueError: If neither one nor six amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes = 3


class ReflectionPad3d(_Pad):
    """Pads all sides of volumes by reflection, excluding the edge elements.

    Shapes: [.., depth, height, width] -> each axis extended by its amounts; `padding` is (left,
    right, top, bottom, front, back) or one amount

    Raises:
        ValueError: If neither one nor six amounts are given; when called, if an amount is not below
            the size.
    """

    _axes, _mode = 3, "reflect"


class ReplicationPad3d(_Pad):
    """Pads all sides of volumes by repeating the edge elements.

    Shapes: [.., depth, height, width] -> each axis extended by its amounts; `padding` is (left,
    right, top, bottom, front, back) or one amount

    Raises:
        ValueError: If neither one nor six amounts are given; when called, if negative amounts crop
            more than there is.
    """

    _axes, _mode = 3, "replicate"


class CircularPad3d(_Pad):
    """Pads each side of volumes with the elements of the opposite side.

    Shapes: [.., depth, height, width] -> each axis extended by its amounts; `padding` is (left,
    right, top, bottom, front, back) or one amount

    Raises:
        ValueError: If neither one nor six amounts are given; when called, if an amount is above the
            size.
    """

    _axes, _mode = 3, "circular"
