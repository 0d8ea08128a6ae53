"""Data sets, and the batches that a training takes from them.

A source is "auto" (`$TERNION_DATA`, the user's cache, for the MNIST family a download), "synthetic" (drawn by Ternion), a directory, or a pair of
numbers of drawn examples for training and for tests.

    train, test = ternion.data.mnist()
    for images, labels in train.batches(64, shuffle=1):
        ...
"""

from __future__ import annotations

import os
from typing import Any, NamedTuple

from . import _ternion

_native: Any = _ternion._data

Split: Any = _native.Split
Table: Any = _native.Table
Standardisation: Any = _native.Standardisation
read_csv = _native.read_csv
CharVocabulary: Any = _native.CharVocabulary
BpeTokenizer: Any = _native.BpeTokenizer
Windows: Any = _native.Windows
read_text = _native.read_text
train_validation = _native.train_validation

Source = "str | os.PathLike[str] | tuple[int, int]"


class Images(NamedTuple):
    """Images to learn from and to be tested on."""

    train: Any
    test: Any
    classes: list[str]
    origin: str


def mnist(source: Any = "auto") -> Images:
    """Handwritten digits, 28 x 28, in 10 classes (LeCun et al. 1998). Without the files and a network "auto" gives drawn digits; `origin` tells."""
    return Images(*_native._mnist(source, False))


def fashion_mnist(source: Any = "auto") -> Images:
    """Pieces of clothing, 28 x 28, in 10 classes (Xiao et al. 2017)."""
    return Images(*_native._mnist(source, True))


def cifar10(source: Any = "auto") -> Images:
    """Small photographs, 3 x 32 x 32, in 10 classes (Krizhevsky 2009)."""
    return Images(*_native._cifar10(source))


class Housing(NamedTuple):
    """A table of house prices."""

    table: Any
    origin: str


def california_housing(source: Any = "auto") -> Housing:
    """California's house prices of 1990 (Pace and Barry 1997): eight columns of features, and the target `MedHouseVal`."""
    return Housing(*_native._california_housing(source))
