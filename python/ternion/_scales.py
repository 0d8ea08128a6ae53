"""Which gradients are those of scaled losses: noted where backward gathers them, and true until somebody writes to them or puts others in their place."""

from __future__ import annotations

from typing import Any

from ._ternion import Tensor, _trust


def note_scaler() -> None:
    """There is a scaler: from now on it is noted where gradients come from."""
    _trust.note_scaler()


def note_scaled(loss: Tensor, scale: float) -> None:
    """A loss, as it is here, was multiplied by a scale."""
    _trust.note_scaled(loss, scale)


def scale_in(parameters: list[Tensor]) -> float:
    """The scale of a loss whose gradients are in those of these parameters, as they are now; 0 if there is none, or none is known."""
    return next((scale for scale, _ in _trust.scales_of(parameters) if scale), 0.0)


def unscaled_among(parameters: list[Tensor], scale: float) -> list[Tensor]:
    """The parameters in whose gradients is that of a loss that no scaler has scaled, nor the program by multiplying it by this."""

    def is_scaled_by_hand(factor: float) -> bool:
        return abs(factor / scale - 1.0) < 1e-6

    found = zip(parameters, _trust.scales_of(parameters))
    return [parameter for parameter, (_, factor) in found if factor and not is_scaled_by_hand(abs(factor))]


class kept:
    """A scope that changes the size of gradients, and not which losses they are of: clipping."""

    def __init__(self, parameters: list[Tensor]):
        self._parameters = parameters

    def __enter__(self) -> kept:
        self._scales = _trust.scales_of(self._parameters)
        return self

    def __exit__(self, *_: Any) -> None:
        _trust.keep_scales(self._parameters, self._scales)
