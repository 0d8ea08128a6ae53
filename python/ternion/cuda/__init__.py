"""CUDA device functions with PyTorch's names. Without a CUDA device, queries return a result, and
operations raise an error.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import _ternion
from . import nvtx

__all__ = [
    "current_device", "device_count", "empty_cache", "get_device_name", "get_device_properties", "get_rng_state", "is_available",
    "is_bf16_supported", "is_initialized", "manual_seed", "manual_seed_all", "max_memory_allocated", "mem_get_info", "memory_allocated",
    "memory_reserved", "nvrtc_version", "nvtx", "reset_peak_memory_stats", "set_rng_state", "synchronize",
]  # fmt: skip


def __dir__() -> list[str]:
    return __all__


def _hardware() -> list[dict[str, Any]]:
    return [entry for entry in _ternion.devices() if entry["name"].startswith("cuda")]


def _device(device: Any = None) -> Any:
    """Returns a CUDA device by index, by name or itself; by default the default device if it is a
    CUDA device, otherwise the first one.
    """
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
    """Whether a CUDA device is available."""
    return bool(_hardware())


def device_count() -> int:
    """Returns the number of CUDA devices."""
    return len(_hardware())


def current_device() -> int:
    """Returns the index of the default CUDA device.

    Raises:
        RuntimeError: If there is no CUDA device.
    """
    return _device().index or 0


def get_device_name(device: Any = None) -> str:
    """Returns the name of the hardware of a device.

    Raises:
        RuntimeError: If the device is not available.
    """
    return str(_entry(device)["hardware"])


def _entry(device: Any) -> dict[str, Any]:
    name = str(_device(device))
    for entry in _hardware():
        if entry["name"] == name:
            return entry
    raise RuntimeError(f"cuda: no device {name}")


class _Properties(NamedTuple):
    name: str
    total_memory: int


def get_device_properties(device: Any = None) -> _Properties:
    """Returns the name and the memory (bytes) of a device.

    Raises:
        RuntimeError: If the device is not available.
    """
    entry = _entry(device)
    return _Properties(str(entry["hardware"]), entry["memory"] or 0)


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Returns the number of bytes that this process does not use, and the total number of bytes of
    a device. Memory of other processes is not known.
    """
    total = _entry(device)["memory"] or 0
    memory = _device(device).memory()
    return max(total - memory["in_use"] - memory["cached"], 0), total


def synchronize(device: Any = None) -> None:
    """Waits until all work that was submitted to a device has completed.

    Raises:
        RuntimeError: If the device is not available, or if an earlier op failed on it.
    """
    _device(device).synchronize()


def memory_allocated(device: Any = None) -> int:
    """Returns the number of bytes in use by tensors on a device; 0 if there is no device."""
    return _device(device).memory()["in_use"] if is_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Returns the number of bytes in use by tensors on a device, plus those cached for reuse."""
    if not is_available():
        return 0
    memory = _device(device).memory()
    return memory["in_use"] + memory["cached"]


def max_memory_allocated(device: Any = None) -> int:
    """Returns the peak number of bytes in use by tensors on a device since
    `reset_peak_memory_stats`.
    """
    return _device(device).memory()["peak"] if is_available() else 0


def reset_peak_memory_stats(device: Any = None) -> None:
    """Resets the peak of `max_memory_allocated`."""
    if is_available() or device is not None:
        _device(device).reset_peak_memory()


def empty_cache() -> None:
    """Releases cached memory to the system, on every CUDA device."""
    for entry in _hardware():
        _ternion.device(entry["name"]).release_cached()


def manual_seed(seed: int) -> None:
    """Calls `ternion.manual_seed`, which sets the seed of every device."""
    _ternion.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Calls `ternion.manual_seed`."""
    _ternion.manual_seed(seed)


def get_rng_state(device: Any = None) -> tuple[int, int]:
    """Returns the state of a device's random number generator: its seed, and the count of drawn
    numbers.
    """
    return _ternion._random_position(_device(device))


def set_rng_state(new_state: tuple[int, int], device: Any = None) -> None:
    """Sets the state of a device's random number generator to one that `get_rng_state` returned."""
    seed, drawn = new_state
    _ternion._set_random_position((seed, drawn), _device(device))


def is_initialized() -> bool:
    """Whether a CUDA device is available; it is initialized when it is first used."""
    return is_available()


def is_bf16_supported() -> bool:
    """Whether bfloat16 is supported: true for every CUDA device."""
    return is_available()


def nvrtc_version() -> tuple[int, int]:
    """Returns the version of the kernel compiler NVRTC, as major and minor. No GPU is needed.

    Raises:
        RuntimeError: If NVRTC was not found; the message names the locations that were searched.
    """
    return _ternion._nvrtc_version()
