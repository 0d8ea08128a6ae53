"""Writes metrics of a training run to TensorBoard event files. Names and arguments are those of
`torch.utils.tensorboard`.

    writer = SummaryWriter("runs/first")
    writer.add_scalar("loss", loss.item(), step)
    writer.close()

An event file is a sequence of records: length, masked CRC-32C of the length, data, masked CRC-32C
of the data (TensorFlow's `record_writer.h`). The data is a protocol buffer, `tensorflow.Event`, of
which scalars need six fields.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = ["SummaryWriter"]


def __dir__() -> list[str]:
    return __all__


def _crc_table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _crc_table()


def _masked_crc(data: bytes) -> bytes:
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _TABLE[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def _varint(number: int) -> bytes:
    # Negative numbers are encoded in 64-bit two's complement.
    number &= 2**64 - 1
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*encoded, number])


def _part(field: int, data: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(data)) + data


def _event(wall_time: float, step: int, rest: bytes) -> bytes:
    return b"\x09" + struct.pack("<d", wall_time) + b"\x10" + _varint(step) + rest


class SummaryWriter:
    """Writes scalars to a new event file in a folder, for `tensorboard --logdir runs`.

    Args:
        log_dir: The folder, which is created if it does not exist. Default: a folder in `runs` with
            the time in its name.
        comment: A suffix of the name of the default folder.
        purge_step: Makes TensorBoard discard the events of earlier files in the folder from this
            step on.
        max_queue, flush_secs: Accepted for compatibility with PyTorch. Every event is written
            immediately.
        filename_suffix: A suffix of the name of the file.

    Raises:
        OSError: If the file cannot be written.
    """

    def __init__(
        self, log_dir: str | os.PathLike[str] | None = None, comment: str = "", purge_step: int | None = None, max_queue: int = 10,
        flush_secs: int = 120, filename_suffix: str = "",
    ):  # fmt: skip
        if log_dir is None:
            log_dir = Path("runs", f"{time.strftime('%b%d_%H-%M-%S')}_{socket.gethostname()}{comment}")
        self.log_dir = str(log_dir)
        Path(log_dir).mkdir(parents=True, exist_ok=True)
        # Readers process files in the order of their names. A number distinguishes files of the
        # same second and process.
        begin, number = f"events.out.tfevents.{int(time.time()):010}.{socket.gethostname()}.{os.getpid()}", 0
        while (path := Path(log_dir, f"{begin}.{number}{filename_suffix}")).exists():
            number += 1
        self._file: Any = path.open("xb")
        self._write(_event(time.time(), 0, _part(3, b"brain.Event:2")))
        if purge_step is not None:
            # SessionLog with the status START.
            self._write(_event(time.time(), purge_step, _part(7, b"\x08\x01")))

    def _write(self, event: bytes) -> None:
        if self._file is None:
            raise ValueError("SummaryWriter: it is closed")
        length = struct.pack("<Q", len(event))
        self._file.write(length + _masked_crc(length) + event + _masked_crc(event))
        self._file.flush()

    def add_scalar(self, tag: str, scalar_value: Any, global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes a number under a tag at a step (0 by default). A tensor must have one element.

        Raises:
            TypeError: If the value is not a number.
            ValueError: If the writer is closed.
        """
        try:
            value = float(scalar_value)
        except (TypeError, ValueError):
            raise TypeError(f"add_scalar: {tag} is of type {type(scalar_value).__name__}, expected a number or a tensor of one element") from None
        single = struct.pack("<f", value) if abs(value) <= 3.4028234e38 or value != value else struct.pack("<f", float("inf") if value > 0 else float("-inf"))
        summary = _part(1, _part(1, str(tag).encode()) + b"\x15" + single)
        self._write(_event(time.time() if walltime is None else walltime, global_step or 0, _part(5, summary)))

    def add_scalars(self, main_tag: str, tag_scalar_dict: dict[str, Any], global_step: int | None = None, walltime: float | None = None) -> None:
        """Writes several numbers, as `main_tag/name`. (PyTorch writes a file for each.) Raises the
        errors of `add_scalar`.
        """
        for name, value in tag_scalar_dict.items():
            self.add_scalar(f"{main_tag}/{name}", value, global_step, walltime)

    def flush(self) -> None:
        """Has no effect: every event is written immediately."""

    def close(self) -> None:
        """Closes the file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()
