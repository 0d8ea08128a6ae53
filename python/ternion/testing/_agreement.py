"""Comparison of two devices, or two models, with tolerances that depend on the values, as in the
Rust crate ternion-testing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import _tree
from .._ternion import Tensor

# Machine epsilons, and the tolerances relative to an element.
EPSILON = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
RELATIVE = {"float64": 1e-10, "float32": 1e-4, "float16": 2 * EPSILON["float16"], "bfloat16": 2 * EPSILON["bfloat16"]}
# The number of runs on perturbed inputs, and the factors of the change of an element, and of the
# median element, that are allowed in addition.
PERTURBED_RUNS = 4
ELEMENT_CHANGE_FACTOR = 16.0
MEDIAN_CHANGE_FACTOR = 4.0

# A computed item: its name, the name of its dtype and its values; None if there is no gradient.
Item = tuple[str, str, "np.ndarray | None"]
# Computes all items again: on the same inputs (None), or on inputs perturbed by one machine
# epsilon.
Rerun = Callable[["np.random.Generator | None"], Sequence[Item]]


def perturbed(values: np.ndarray, dtype: str, rng: np.random.Generator) -> np.ndarray:
    """Returns values of a floating-point dtype, each moved up or down by one machine epsilon."""
    return values * (1.0 + EPSILON[dtype] * rng.choice([-1.0, 1.0], size=values.shape))


def limits(dtype: str, want: np.ndarray) -> np.ndarray:
    """Returns the tolerance of each element: relative to itself, and, because sums lose digits, to
    the root mean square of its tensor.
    """
    if dtype not in EPSILON:
        return np.zeros(want.shape)
    finite = want[np.isfinite(want)]
    scale = float(np.sqrt(np.mean(np.square(finite)))) if finite.size else 0.0
    roundings = 32.0 if dtype in ("float64", "float32") else 4.0
    size = np.where(np.isfinite(want), np.abs(want), 0.0)
    return (RELATIVE[dtype] + EPSILON[dtype]) * size + roundings * EPSILON[dtype] * scale


def compare(first: Sequence[Item], second: Sequence[Item], names: tuple[str, str], rerun: Rerun) -> int:
    """Compares what two sides computed, in order, and returns the number of compared elements.
    `second` is the reference, and `again` computes it again.

    Raises:
        AssertionError: If an item differs. The message names the first such item, the index and
            both values.
        ValueError: If the reference is not deterministic.
    """
    noise = _Noise(rerun)
    compared = 0
    for index, ((name, dtype, got), (_, other, want)) in enumerate(zip(first, second)):
        if got is None and want is None:
            continue
        if got is None or want is None:
            side = names[0] if want is None else names[1]
            raise AssertionError(f"{name}: only {side} has one")
        if got.shape != want.shape or dtype != other:
            raise AssertionError(f"{name}: {list(got.shape)} {dtype} on {names[0]}, {list(want.shape)} {other} on {names[1]}")
        wrong = _mismatches(got, want, limits(dtype, want))
        if wrong.any():
            allowed = limits(dtype, want) + noise.of(index, name, dtype, want)
            wrong = _mismatches(got, want, allowed)
        if wrong.any():
            raise AssertionError(_mismatch_message(name, got, want, wrong, allowed, names))
        compared += want.size
    return compared


def _mismatches(got, want, allowed):
    with np.errstate(invalid="ignore"):
        near = np.isfinite(got) & (np.abs(got - want) <= allowed)
        return ~((got == want) | (np.isnan(got) & np.isnan(want)) | near)


def _mismatch_message(name, got, want, wrong, allowed, names):
    at = tuple(int(number) for number in np.argwhere(wrong)[0])
    got_value, want_value, limit = (float(values[at]) for values in (got, want, allowed))
    return (
        f"{name} differs: {int(wrong.sum())} of {wrong.size} elements of {list(want.shape)}; first at {list(at)}: "
        f"{got_value:.9g} on {names[0]}, {want_value:.9g} on {names[1]} (limit {limit:.3g}); largest {_size(got)} and {_size(want)}"
    )


def _size(values):
    finite = values[np.isfinite(values)]
    if not finite.size:
        return "none finite"
    others = values.size - finite.size
    return f"{float(np.abs(finite).max()):.3g}" + (f" ({others} not finite)" if others else "")


class _Noise:
    """The effect of rounding: how much the results of the reference change when each input moves by
    one machine epsilon. In case of catastrophic cancellation no other tolerance is adequate.
    """

    def __init__(self, rerun: Rerun):
        self._rerun = rerun
        self._runs: list[Sequence[Item]] = []

    def _compute_runs(self) -> list[Sequence[Item]]:
        if not self._runs:
            rng = np.random.default_rng(1)
            self._runs = [self._rerun(None)] + [self._rerun(rng) for _ in range(PERTURBED_RUNS)]
        return self._runs

    def of(self, index, name, dtype, want):
        unperturbed, *perturbed_values = (run[index][2] for run in self._compute_runs())
        if unperturbed is None or unperturbed.shape != want.shape or _mismatches(unperturbed, want, limits(dtype, want)).any():
            hint = "it draws random numbers, or remembers: call eval() where dropout is, or seed the device within the function"
            raise ValueError(f"{name} differs, and differs again when the same side computes it again: {hint}")
        changes = np.zeros(want.shape)
        with np.errstate(invalid="ignore"):
            for values in perturbed_values:
                change = np.abs(values - want) if values is not None and values.shape == want.shape else changes
                changes = np.where(np.isfinite(change), np.maximum(changes, change), changes)
        return ELEMENT_CHANGE_FACTOR * changes + MEDIAN_CHANGE_FACTOR * float(np.median(changes)) if changes.size else changes


def input_tensors(function: Any, inputs: Any, caller: str) -> tuple[list[Tensor], Callable[[list[Tensor]], Any]]:
    """Returns the tensors among the arguments of a function, and a function that rebuilds the
    arguments from other tensors.

    Raises:
        TypeError: If `function` is not callable, or if there is no tensor among the inputs.
    """
    if not callable(function):
        raise TypeError(f"{caller}: {type(function).__name__}, expected a function of tensors, and then its inputs")
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    tensors, rebuild = _tree.flatten(arguments)
    if not tensors:
        kinds = ", ".join(f"{type(argument).__module__}.{type(argument).__qualname__}" for argument in arguments) or "nothing"
        raise TypeError(f"{caller}: no tensor among the inputs ({kinds}): ternion.as_tensor(x) makes one of an array")
    return tensors, rebuild


def output_tensors(result: Any, caller: str) -> list[Tensor]:
    """Returns the tensors in the result of a function.

    Raises:
        TypeError: If it returned none.
    """
    tensors, _ = _tree.flatten(result)
    if not tensors:
        raise TypeError(f"{caller}: the function gave {type(result).__name__}, expected a tensor, or tuples, lists and dicts of them")
    return tensors


def require_comparable(items: Sequence[Item], caller: str) -> None:
    """Checks that there are values to compare that are not NaN: NaN agrees with NaN.

    Raises:
        ValueError: If there are no elements, or only NaN.
    """
    all_values = [values for _, _, values in items if values is not None and values.size]
    if not all_values:
        raise ValueError(f"{caller}: nothing was compared: no output has elements")
    if all(np.isnan(values).all() for values in all_values):
        raise ValueError(f"{caller}: every element of every output and gradient is NaN on both sides: nothing was compared")
