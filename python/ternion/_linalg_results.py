"""The named tuples that functions of `ternion.linalg` with several results return."""

from __future__ import annotations

from typing import NamedTuple

from ._ternion import Tensor


class CholeskyEx(NamedTuple):
    L: Tensor
    info: Tensor


class Eigh(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


class InvEx(NamedTuple):
    inverse: Tensor
    info: Tensor


class Lstsq(NamedTuple):
    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class Lu(NamedTuple):
    P: Tensor
    L: Tensor
    U: Tensor


class LuFactor(NamedTuple):
    LU: Tensor
    pivots: Tensor


class LuFactorEx(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor


class Qr(NamedTuple):
    Q: Tensor
    R: Tensor


class Slogdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


class SolveEx(NamedTuple):
    result: Tensor
    info: Tensor


class Svd(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor
