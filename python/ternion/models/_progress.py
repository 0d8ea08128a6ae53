"""The line that tells how far a training is."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

# Seconds between two changes of the line.
_PAUSE_S = 0.2


class ProgressLine:
    """A line on stderr that tells how far an epoch is: on a terminal while it goes, elsewhere (a file, a notebook) once, at its end.

    Args:
        what: what it begins with.
        steps: how many there will be.
        shown: whether anything is told at all.
    """

    def __init__(self, what: str, steps: int, shown: bool):
        self._what, self._steps, self._done = what, steps, 0
        # A program without a console has no stderr.
        self._stream = sys.stderr if shown else None
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._begun, self._told, self._length = time.monotonic(), 0.0, 0

    def tell(self, loss: Any) -> None:
        """Another step. The loss, a tensor, is read, which waits for the device, only when it is shown."""
        self._done += 1
        now = time.monotonic()
        if self._is_terminal and now - self._told > _PAUSE_S:
            self._told = now
            bar = "=" * int(30 * self._done / self._steps) + ">"
            left = (now - self._begun) / self._done * (self._steps - self._done)
            told = [(1, f" {self._done}/{self._steps}"), (2, f"  loss {loss.item():.4f}"), (3, f"  {left:.0f} s left")]
            self._write([(0, self._what), (4, f" [{bar:31}]"), *told])

    def end(self, told: dict[str, float]) -> None:
        """The line as it stays, with these numbers."""
        seconds = max(time.monotonic() - self._begun, 1e-9)
        # Of two losses, and a measure that is easier to read, the loss of the validation is the least.
        numbers = [(2 if name == "validation loss" else 1, f"  {name} {value:.4f}") for name, value in told.items()]
        self._write([(0, self._what), *numbers, (3, f"  {self._done / seconds:.0f} steps/s")])
        self.close()

    def close(self) -> None:
        """Leaves the line: what comes next has one of its own. Does nothing if there is none."""
        if self._length and self._stream is not None:
            print(file=self._stream, flush=True)
            self._length = 0

    def _write(self, fields: list[tuple[int, str]]) -> None:
        """Writes texts with their ranks. What does not fit into the line of a terminal could not be written over: texts of the highest ranks are left out."""
        if self._stream is None:
            return
        text = "".join(field for _, field in fields)
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns - 1
            while len(text) > columns and len(fields) > 1:
                # Of several of one rank, the last.
                fields.pop(max(range(len(fields)), key=lambda place: (fields[place][0], place)))
                text = "".join(field for _, field in fields)
            text = text[:columns]
            print(f"\r{text:{self._length}}", end="", file=self._stream, flush=True)
        else:
            print(text, end="", file=self._stream)
        self._length = len(text)
