"""Tracks which gradients belong to scaled losses. The scale is recorded when backward accumulates
them, and is valid until they are written to or replaced.
"""

from __future__ import annotations

from typing import Any

from ._ternion import Tensor, _trust


def enable_tracking() -> None:
    """Enables tracking: from now on the origin of gradients is recorded."""
    _trust.record_scaler()


def record_scaled(loss: Tensor, scale: float) -> None:
    """Records that a loss, in its current state, was multiplied by a scale."""
    _trust.record_scaled(loss, scale)


def scale_in(parameters: list[Tensor]) -> float:
    """Returns the scale of a loss that contributed to the current gradients of these parameters; 0
    if there is none, or none is known.
    """
    return next((scale for scale, _ in _trust.scales_of(parameters) if scale), 0.0)


def unscaled_among(parameters: list[Tensor], scale: float) -> list[Tensor]:
    """Returns the parameters whose gradients contain that of a loss which neither a scaler has
    scaled, nor the program by multiplying it by `scale`.
    """

    def is_scaled_by_hand(factor: float) -> bool:
        return abs(factor / scale - 1.0) < 1e-6

    pairs = zip(parameters, _trust.scales_of(parameters))
    return [parameter for parameter, (_, factor) in pairs if factor and not is_scaled_by_hand(abs(factor))]


class preserve_scales:
    """A context manager around code that changes the magnitude of gradients, but not the losses to
    which they belong: clipping.
    """

    def __init__(self, parameters: list[Tensor]):
        self._parameters = parameters

    def __enter__(self) -> preserve_scales:
        self._scales = _trust.scales_of(self._parameters)
        return self

    def __exit__(self, *_: Any) -> None:
        _trust.keep_scales(self._parameters, self._scales)
