"""State dicts on disk, as safetensors: the format that PyTorch's users share."""

from __future__ import annotations

import os
from typing import Any

from . import _ternion
from ._ternion import Tensor


def save(path: str | os.PathLike[str], state: Any) -> None:
    """Writes a state dict, or that of a module, to a safetensors file, which appears whole or not at all. (The other order, PyTorch's, is taken, too.)

    Raises:
        TypeError: something in it that is no tensor.
        OSError: the file cannot be written.
    """
    if not isinstance(path, (str, os.PathLike)):
        path, state = state, path
    if not isinstance(state, dict) and hasattr(state, "state_dict"):
        state = state.state_dict()
    if not isinstance(state, dict):
        raise TypeError(f"save: the state is of type {type(state).__name__}, expected a dict of tensors or a module")
    _ternion._save(path, state)


def load(path: str | os.PathLike[str], device: Any = None) -> dict[str, Tensor]:
    """The tensors of a safetensors file by their keys, on a device: `model.load_state_dict(ternion.load(path))`.

    Raises:
        FileNotFoundError: there is no such file.
        OSError: it cannot be read, is damaged, or holds dtypes that tensors do not have; the message names it.
    """
    return _ternion._load(path, device)
