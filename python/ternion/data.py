"""Data sets, and the batches that a training takes from them.

A source is "auto" (`$TERNION_DATA`, the user's cache, for the MNIST family a download), "synthetic" (drawn by Ternion), a directory, or a pair of
numbers of drawn examples for training and for tests.

    train, test = ternion.data.mnist()
    for images, labels in train.batches(64, shuffle=1):
        ...
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _ternion

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ._ternion import DeviceLike, Tensor

__all__ = [
    "Batches", "BpeTokenizer", "CharVocabulary", "Housing", "Images", "Split", "Standardisation", "Table", "Windows", "california_housing", "cifar10",
    "fashion_mnist", "mnist", "read_csv", "read_text", "train_validation",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


_native: Any = _ternion._data

if TYPE_CHECKING:
    # What the native part has, as type checkers see it.
    Batch = tuple[Tensor, Tensor]

    class Batches:
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Batch]: ...
        def epoch(self, number: int) -> Iterator[Batch]: ...

    class Split:
        images: Tensor
        labels: Tensor

        def __len__(self) -> int: ...
        def first(self, count: int) -> Split: ...
        def order(self, epoch: int, seed: int) -> Tensor: ...
        def batches(
            self, batch_size: int, shuffle: int | None = None, device: DeviceLike | None = None, drop_last: bool = False,
            mean: Sequence[float] | None = None, std: Sequence[float] | None = None, padding: int = 0, flip: bool = False, prefetch: int = 0,
        ) -> Batches: ...  # fmt: skip

    class Table:
        columns: list[str]

        def __init__(self, columns: Sequence[str], rows: Any) -> None: ...
        def __len__(self) -> int: ...
        def select(self, names: Sequence[str]) -> Table: ...
        def without(self, names: Sequence[str]) -> Table: ...
        def train_held_out(self, seed: int) -> tuple[Table, Table]: ...
        def tensor(self, device: DeviceLike | None = None, dtype: Any = None) -> Tensor: ...

    class Standardisation:
        means: list[float]
        deviations: list[float]

        def __init__(self, table: Table) -> None: ...
        def apply(self, table: Table) -> Table: ...
        def restore(self, values: Tensor) -> Tensor: ...

    class CharVocabulary:
        characters: str

        def __init__(self, text: str) -> None: ...
        def __len__(self) -> int: ...
        def encode(self, text: str) -> Tensor: ...
        def decode(self, tokens: Any) -> str: ...

    class BpeTokenizer:
        end_of_text: int | None

        def __init__(self, vocabulary: str | os.PathLike[str], merges: str | os.PathLike[str]) -> None: ...
        def __len__(self) -> int: ...
        def encode(self, text: str) -> Tensor: ...
        def decode(self, tokens: Any) -> str: ...

    class RandomWindows:
        position: int

        def __iter__(self) -> Iterator[Batch]: ...
        def __next__(self) -> Batch: ...

    class SequentialWindows:
        def __len__(self) -> int: ...
        def __iter__(self) -> Iterator[Batch]: ...

    class Windows:
        def __init__(self, tokens: Tensor, context: int) -> None: ...
        def __len__(self) -> int: ...
        def random(self, batch_size: int, seed: int, device: DeviceLike | None = None) -> RandomWindows: ...
        def sequential(self, batch_size: int, device: DeviceLike | None = None) -> SequentialWindows: ...

    def read_csv(
        file: str | os.PathLike[str], delimiter: str = ",", names: Sequence[str] | None = None, columns: Sequence[str] | None = None,
        missing: float | str | None = None,
    ) -> Table: ...  # fmt: skip
    def read_text(file: str | os.PathLike[str]) -> str: ...
    def train_validation(text: str) -> tuple[str, str]: ...
else:
    Split, Batches, Table, Standardisation = _native.Split, _native.Batches, _native.Table, _native.Standardisation
    CharVocabulary, BpeTokenizer, Windows = _native.CharVocabulary, _native.BpeTokenizer, _native.Windows
    read_csv, read_text, train_validation = _native.read_csv, _native.read_text, _native.train_validation
    # What pickle makes a Standardisation by: it looks for it here.
    _standardisation = _native._standardisation
    _standardisation.__module__ = __name__

Source = "str | os.PathLike[str] | tuple[int, int]"


class Images(NamedTuple):
    """Images to learn from and to be tested on."""

    train: Split
    test: Split
    classes: list[str]
    origin: str


def mnist(source: Any = "auto", *, classes: int | None = None) -> Images:
    """Handwritten digits, 28 x 28, in 10 classes (LeCun et al. 1998). Without the files and a network "auto" gives drawn digits; `origin` tells.

    A directory may hold any four files of this form: they tell the size of the images, and by the largest label the number of classes (26, 47 or 62 in parts
    of EMNIST). Of a directory of torchvision's without MNIST the only other such data set is taken, with a warning.

    Args:
        classes: the number of classes, if some have no example.

    Raises:
        FileNotFoundError: a directory without the files; those of other data sets in it are named.
        TypeError: a source of another kind.
        ValueError: a label that is not below `classes`.
    """
    return Images(*_native._mnist(source, False, _count(classes)))


def fashion_mnist(source: Any = "auto", *, classes: int | None = None) -> Images:
    """Pieces of clothing, 28 x 28, in 10 classes (Xiao et al. 2017).

    Args:
        classes: the number of classes, if some have no example.

    Raises:
        FileNotFoundError: a directory without the files.
        TypeError: a source of another kind.
        ValueError: "synthetic", or numbers of examples: nothing is drawn in its place; a label that is not below `classes`.
    """
    return Images(*_native._mnist(source, True, _count(classes)))


def _count(classes: int | None) -> int | None:
    if classes is not None and (isinstance(classes, bool) or not isinstance(classes, int) or classes < 1):
        raise ValueError(f"mnist: classes of {classes!r}, expected a whole number above 0")
    return classes


def cifar10(source: Any = "auto") -> Images:
    """Small photographs, 3 x 32 x 32, in 10 classes (Krizhevsky 2009).

    A directory may have the binary batches, or those of Python (`cifar-10-batches-py`), whose pickles are read without running anything in them.

    Raises:
        FileNotFoundError: a directory without the files.
        TypeError: a source of another kind.
        ValueError: "synthetic", or numbers of examples: nothing is drawn in its place; a batch of Python that holds anything but images and labels.
    """
    # NumPy, which reads such batches, is asked for only here.
    from ._cifar import batches_of_python, written_as_binary

    folder = batches_of_python(source)
    if folder is None:
        return Images(*_native._cifar10(source))
    with tempfile.TemporaryDirectory() as binary:
        written_as_binary(folder, binary)
        train, test, classes, _ = _native._cifar10(binary)
        return Images(train, test, classes, f"data from {folder}")


class Housing(NamedTuple):
    """A table of house prices."""

    table: Table
    origin: str


def california_housing(source: Any = "auto") -> Housing:
    """California's house prices of 1990 (Pace and Barry 1997): eight columns of features, and the target `MedHouseVal`.

    Raises:
        FileNotFoundError: a directory without the files.
        TypeError: a source of another kind.
        ValueError: "synthetic", or numbers of examples: nothing is drawn in its place.
    """
    return Housing(*_native._california_housing(source))
