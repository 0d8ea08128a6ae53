"""What programs ask CUDA for, under PyTorch's names. Without a CUDA device questions are answered, and demands are errors."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _ternion
from . import nvtx

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "get_device_properties", "get_rng_state", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info", "memory_allocated",
    "memory_reserved", "nvtx", "reset_peak_memory_stats", "set_rng_state", "synchronize",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def _hardware() -> list[dict[str, Any]]:
    return [entry for entry in _ternion.devices() if entry["name"].startswith("cuda")]


def _device(device: Any = None) -> Any:
    """A CUDA device by its number, its name or itself; by default the one on which tensors are made, or the first."""
    if device is None:
        default = _ternion.get_default_device()
        return default if default.type == "cuda" else _ternion.device("cuda:0")
    if isinstance(device, int) and not isinstance(device, bool):
        return _ternion.device(f"cuda:{device}")
    opened = _ternion.device(device)
    if opened.type != "cuda":
        raise ValueError(f"cuda: the device {opened}, expected one of CUDA")
    return opened


def is_available() -> bool:
    """Whether there is a CUDA device."""
    return bool(_hardware())


def device_count() -> int:
    """The number of CUDA devices."""
    return len(_hardware())


def current_device() -> int:
    """The number of the device that is meant where none is named.

    Raises:
        RuntimeError: there is none.
    """
    return _device().index or 0


def get_device_name(device: Any = None) -> str:
    """What hardware a device is.

    Raises:
        RuntimeError: it is not there.
    """
    return str(_entry(device)["hardware"])


def _entry(device: Any) -> dict[str, Any]:
    wanted = str(_device(device))
    for entry in _hardware():
        if entry["name"] == wanted:
            return entry
    raise RuntimeError(f"cuda: no device {wanted}")


class _Properties(NamedTuple):
    name: str
    total_memory: int


def get_device_properties(device: Any = None) -> _Properties:
    """Name and memory (bytes) of a device.

    Raises:
        RuntimeError: it is not there.
    """
    entry = _entry(device)
    return _Properties(str(entry["hardware"]), entry["memory"] or 0)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes that are not in use here, and all bytes of a device. What other programs hold is not known."""
    total = _entry(device)["memory"] or 0
    memory = _device(device).memory()
    return max(total - memory["in_use"] - memory["cached"], 0), total


def synchronize(device: Any = None) -> None:
    """Waits until everything that was submitted to a device has ended.

    Raises:
        RuntimeError: there is no such device, or an earlier op failed on it.
    """
    _device(device).synchronize()


def memory_allocated(device: Any = None) -> int:
    """Bytes that tensors of a device hold; 0 where there is no device."""
    return _device(device).memory()["in_use"] if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes that tensors of a device hold, and those that are kept for reuse."""
    if not is_available():
        return 0
    memory = _device(device).memory()
    return memory["in_use"] + memory["cached"]


def max_memory_allocated(device: Any = None) -> int:
    """The most bytes that tensors of a device ever held, since `reset_peak_memory_stats`."""
    return _device(device).memory()["peak"] if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Counts `max_memory_allocated` from now on."""
    if is_available() or device is not None:
        _device(device).reset_peak_memory()


def empty_cache() -> None:
    """Gives memory that is kept for reuse back to the system, on every CUDA device."""
    for entry in _hardware():
        _ternion.device(entry["name"]).release_cached()


def manual_seed(seed: int) -> None:
    """`ternion.manual_seed`: seeds are those of every device."""
    _ternion.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """`ternion.manual_seed`."""
    _ternion.manual_seed(seed)


def get_rng_state(device: Any = None) -> tuple[int, int]:
    """Where the random numbers of a device stand: their seed, and how many were drawn."""
    return _ternion._random_position(_device(device))


def set_rng_state(new_state: tuple[int, int], device: Any = None) -> None:
    """Goes on with the random numbers of a device where `get_rng_state` told."""
    seed, drawn = new_state
    _ternion._set_random_position((seed, drawn), _device(device))


def is_initialized() -> bool:
    """Whether there is a CUDA device: it is opened when it is first used."""
    return is_available()


def is_bf16_supported() -> bool:
    """Whether bfloat16 can be computed with: on every CUDA device."""
    return is_available()
