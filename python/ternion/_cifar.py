"""Converts CIFAR-10's batches for Python, which are pickles, to the binary format that the native
part reads.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import numpy

_NAMES = [*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]
_FOLDERS = ("cifar-10-batches-py", "cifar10/cifar-10-batches-py", "cifar10", ".")
# All names that such a pickle may reference: the constructors of NumPy arrays, under the names of
# different versions, and strings of Python 2.
_ALLOWED = {
    ("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct"), ("numpy", "ndarray"), ("numpy", "dtype"), ("_codecs", "encode"),
}  # fmt: skip


class _ArrayUnpickler(pickle.Unpickler):
    """Unpickles containers, strings, numbers and NumPy arrays. Anything else, which could run code,
    raises an error.
    """

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ALLOWED:
            raise pickle.UnpicklingError(f"{module}.{name} in it, expected only images and labels")
        # The module was renamed in NumPy 2.
        core = "numpy._core" if hasattr(numpy, "_core") else "numpy.core"
        return super().find_class(f"{core}.multiarray" if name == "_reconstruct" else module, name)


def find_python_batches(source: Any) -> Path | None:
    """Returns the folder with all batches, which is a directory or one of its usual subfolders;
    None if there is none, or if `source` is not a directory.
    """
    if not isinstance(source, (str, os.PathLike)) or source in ("auto", "synthetic", ""):
        return None
    folders = (Path(source, folder) for folder in _FOLDERS)
    return next((folder for folder in folders if all((folder / name).is_file() for name in _NAMES)), None)


def write_as_binary(folder: Path, binary: str) -> None:
    """Writes the batches of a folder as records of one label and one image each.

    Raises:
        ValueError: If a batch contains anything except images and labels.
    """
    for name in _NAMES:
        Path(binary, f"{name}.bin").write_bytes(_records(folder / name))


def _records(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            batch = _ArrayUnpickler(opened, encoding="bytes").load()
        pixels, labels = (numpy.asarray(batch[key], numpy.uint8) for key in (b"data", b"labels"))
    except (pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        raise ValueError(f"{file}: no batch of CIFAR-10: {error}") from None
    if pixels.ndim != 2 or pixels.shape[1] != 3072 or labels.shape != pixels.shape[:1]:
        raise ValueError(f"{file}: images of shape {pixels.shape} and labels of shape {labels.shape}, expected [images, 3072] and [images]")
    return numpy.concatenate([labels[:, None], pixels], 1).tobytes()
