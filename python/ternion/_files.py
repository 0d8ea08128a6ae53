"""Saves and loads state dicts and other objects as safetensors, the format that PyTorch users
share.
"""

from __future__ import annotations

import io
import json
import os
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from . import _ternion
from ._size import Size
from ._ternion import Tensor, device as _device, dtype as _dtype
from ._warnings import warn_caller

# Any structure other than a plain dict of tensors is stored in the header of the file, under this
# name, as JSON. Reading it creates only numbers, strings and Python containers: no code is run.
_TREE = "ternion.tree"
_PLAIN = (type(None), bool, int, float, str)


class _Writer:
    """Collects tensors by key, and builds the tree of everything else."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}
        self._keys: dict[int, str] = {}
        self._open: set[int] = set()

    def tree(self, value: Any, path: str) -> Any:
        if isinstance(value, _PLAIN) and type(value) in _PLAIN:
            return value
        if isinstance(value, Tensor):
            return {"tensor": self._key(value, path)}
        if isinstance(value, _dtype):
            return {"dtype": str(value).split(".")[-1]}
        if isinstance(value, _device):
            return {"device": str(value)}
        if isinstance(value, (dict, list, tuple)):
            return self._container(value, path)
        if hasattr(value, "state_dict"):
            return self.tree(value.state_dict(), path)
        if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
            return self.tree(value.item(), path)
        raise TypeError(
            f"save: {path or 'the object'} is of type {type(value).__name__}, expected tensors, numbers, texts, None, and dicts, lists and tuples of them"
        )

    def _container(self, value: Any, path: str) -> Any:
        if id(value) in self._open:
            raise ValueError(f"save: {path or 'the object'} holds itself")
        self._open.add(id(value))
        below = f"{path}." if path else ""
        if isinstance(value, dict):
            node = {"dict": [[self._plain_key(key, path), self.tree(item, f"{below}{key}")] for key, item in value.items()]}
        else:
            kind = "list" if isinstance(value, list) else "size" if isinstance(value, Size) else "tuple"
            node = {kind: [self.tree(item, f"{below}{at}") for at, item in enumerate(value)]}
        self._open.remove(id(value))
        return node

    def _plain_key(self, key: Any, path: str) -> Any:
        if type(key) not in _PLAIN:
            raise TypeError(f"save: the key {key!r} of {path or 'the object'} is of type {type(key).__name__}, expected a str or a number")
        return key

    def _key(self, tensor: Tensor, path: str) -> str:
        key = self._keys.get(id(tensor))
        if key is None:
            key = path or "tensor"
            while key in self.tensors:
                key += "_"
            self._keys[id(tensor)] = key
            self.tensors[key] = tensor
        return key


class _UnavailableDevice(Exception):
    """A device in a file that is not available."""


def _mapped_device(name: str, map_location: Any) -> Any:
    """Returns a saved device. If it is not available, returns the device to which tensors are
    loaded.
    """
    try:
        return _device(name)
    except (RuntimeError, ValueError):
        if map_location is None:
            raise _UnavailableDevice(f"the device {name} is not available: map_location names a replacement") from None
        return _device(map_location)


def _rebuild(tree: Any, tensors: dict[str, Tensor], map_location: Any = None) -> Any:
    if not isinstance(tree, dict):
        return tree
    ((kind, content),) = tree.items()
    if kind == "tensor":
        return tensors[content]
    if kind == "dtype":
        dtype = getattr(_ternion, content)
        if not isinstance(dtype, _dtype):
            raise ValueError(content)
        return dtype
    if kind == "device":
        return _mapped_device(content, map_location)
    if kind == "dict":
        return {key: _rebuild(item, tensors, map_location) for key, item in content}
    return {"list": list, "tuple": tuple, "size": Size}[kind](_rebuild(item, tensors, map_location) for item in content)


def _is_file(value: Any) -> bool:
    """Whether it is a file name or an open file."""
    return isinstance(value, (str, os.PathLike)) or (callable(getattr(value, "write", None)) and not isinstance(value, type))


def _write(file: Any, tensors: dict[str, Tensor], texts: dict[str, str]) -> None:
    if isinstance(file, (str, os.PathLike)):
        _ternion._save(file, tensors, texts)
        return
    if isinstance(file, io.TextIOBase):
        raise TypeError('save: a file of text, expected one for bytes: open(name, "wb")')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "written")
        _ternion._save(path, tensors, texts)
        file.write(path.read_bytes())


def save(path: Any, state: Any, pickle_module: Any = None, pickle_protocol: int | None = None, _use_new_zipfile_serialization: bool = True) -> None:
    """Saves a state dict, or that of a module, to a safetensors file, which is written atomically.
    (PyTorch's argument order is accepted, too.)

    Nested dicts, lists and tuples with numbers, strings, None, dtypes and devices in addition to
    tensors can be saved, too. `load` restores them.

    Args:
        path: The name of the file, or an object with `write`, such as an open file or io.BytesIO.
        state: The object to save.
        pickle_module, pickle_protocol: Accepted for compatibility with PyTorch; no effect, as
            nothing is pickled.

    Raises:
        TypeError: If the object contains another type, or if the file is opened in text mode.
        ValueError: If a list or dict contains itself, or if a tensor has the key "__metadata__",
            which the format reserves.
        OSError: If the file cannot be written.
    """
    del pickle_module, pickle_protocol, _use_new_zipfile_serialization
    if not _is_file(path) or isinstance(state, (str, os.PathLike)):
        path, state = state, path
    if not _is_file(path):
        raise TypeError(f"save: a file of type {type(path).__name__}, expected its name or an open file")
    if hasattr(state, "state_dict"):
        state = state.state_dict()
    if isinstance(state, dict) and all(isinstance(key, str) and isinstance(value, Tensor) for key, value in state.items()):
        _write(path, state, {})
        return
    writer = _Writer()
    tree = writer.tree(state, "")
    _write(path, writer.tensors, {_TREE: json.dumps(tree)})


def _load_file(path: Any, device: Any, name: str) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Returns the contents of a file. `name` is its name in messages."""
    try:
        tensors, texts, left_out = _ternion._load(path, device, name)
    except OSError:
        cause = _other_format(Path(path)) if os.path.isfile(path) else None
        if cause is None:
            raise
        raise OSError(f"{name}: {cause}") from None
    if left_out:
        warn_caller(f"load: {name}: left out, as there are no tensors of these dtypes: {', '.join(left_out[:8])}{', ..' if len(left_out) > 8 else ''}")
    return tensors, texts


# The first bytes of files of other formats, and how to read them.
_FILE_SIGNATURES = {
    b"\x93NUMPY": "an array of NumPy: ternion.from_numpy(numpy.load(..)) makes a tensor of it",
    b"\x89HDF\r\n\x1a\n": "an HDF5 file (of Keras, for one): read it with h5py, and its arrays with ternion.tensor",
    b"GGUF": "a GGUF file (of llama.cpp), whose weights are quantized: take the model's safetensors file",
    b"version https://git-lfs": "a pointer of Git LFS in the place of a file: `git lfs pull` fetches that",
    b"<!DOCTYPE": "a page of the web, not the file: look at the address that it was downloaded from",
    b"<html": "a page of the web, not the file: look at the address that it was downloaded from",
}


def _other_format(path: Path) -> str | None:
    """Returns which other format a file has, if its first bytes show it."""
    try:
        if _is_pickle(path):
            return "a pickle of PyTorch, which would run code: save it there with safetensors.torch.save_file"
        if zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                is_of_arrays = any(name.endswith(".npy") for name in archive.namelist())
            return "arrays of NumPy (npz): numpy.load(..) reads them" if is_of_arrays else "a zip archive: unpack it first"
        with path.open("rb") as file:
            header = file.read(32)
    except (OSError, zipfile.BadZipFile):
        return None
    return next((cause for signature, cause in _FILE_SIGNATURES.items() if header.startswith(signature)), None)


def _is_pickle(path: Path) -> bool:
    """Whether a file was written by torch.save: a zip archive that contains a pickle, or in the
    older format a pickle of protocol 2. (If a zero follows these bytes, they are part of a length.)
    """
    with path.open("rb") as file:
        header = file.read(4)
    if not zipfile.is_zipfile(path):
        return header[:2] == b"\x80\x02" and header[2:3] != b"\0"
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("data.pkl") for name in archive.namelist())


def _read(file: Any, device: Any) -> tuple[dict[str, Tensor], dict[str, str]]:
    if isinstance(file, (str, os.PathLike)):
        return _load_file(file, device, str(file))
    if not callable(getattr(file, "read", None)):
        raise TypeError(f"load: a file of type {type(file).__name__}, expected its name or an open file")
    content = file.read()
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f'load: a file of {type(content).__name__}, expected one of bytes: open(name, "rb")')
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "read")
        path.write_bytes(content)
        return _load_file(path, device, _name(file))


def _name(file: Any) -> str:
    """Returns the name of a file in messages."""
    if isinstance(file, (str, os.PathLike)):
        return str(file)
    return str(getattr(file, "name", type(file).__name__))


def load(path: Any, device: Any = None, *, map_location: Any = None, weights_only: bool = True, mmap: bool | None = None, pickle_module: Any = None) -> Any:
    """Loads what `save` wrote, or the tensors of another safetensors file by key:
    `model.load_state_dict(ternion.load(path))`.

    Tensors of unsupported dtypes are skipped with a warning.

    Args:
        path: The name of the file, or an object with `read`, such as an open file or io.BytesIO,
            which is read to its end.
        device: The device of the loaded tensors. Default: the default device.
        map_location: Another name of device.
        weights_only, mmap, pickle_module: Accepted for compatibility with PyTorch; no effect, as a
            file never contains code and is read once.

    Raises:
        TypeError: If `path` is neither a name nor an open file, or if the file is opened in text
            mode.
        FileNotFoundError: If the file does not exist.
        OSError: If the file cannot be read, is corrupt, has another format, or contains a device
            that is not available and no map_location is given. The message names the file.
    """
    del weights_only, mmap, pickle_module
    target = map_location if device is None else device
    tensors, texts = _read(path, target)
    if _TREE not in texts:
        return tensors
    try:
        return _rebuild(json.loads(texts[_TREE]), tensors, target)
    except _UnavailableDevice as error:
        raise OSError(f"{_name(path)}: {error}") from None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise OSError(f"{_name(path)}: corrupt: what it holds besides tensors cannot be read: {error!r}") from None
