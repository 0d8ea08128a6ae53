"""The progress line of a training run."""

from __future__ import annotations

import shutil
import sys
import time
from typing import Any

# Seconds between two updates of the line.
_PAUSE_S = 0.2


class ProgressLine:
    """A line on stderr that shows the progress of an epoch: on a terminal while it runs, elsewhere
    (a file, a notebook) once at its end.

    Args:
        what: The text at the start of the line.
        steps: The number of steps.
        shown: Whether anything is written.
    """

    def __init__(self, what: str, steps: int, shown: bool):
        self._what, self._steps, self._done = what, steps, 0
        # A program without a console has no stderr.
        self._stream = sys.stderr if shown else None
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._start_time, self._last_shown, self._length = time.monotonic(), 0.0, 0

    def update(self, loss: Any) -> None:
        """Counts a step. The loss, a tensor, is read only if it is displayed, as reading waits for
        the device.
        """
        self._done += 1
        now = time.monotonic()
        if self._is_terminal and now - self._last_shown > _PAUSE_S:
            self._last_shown = now
            bar = "=" * int(30 * self._done / self._steps) + ">"
            remaining = (now - self._start_time) / self._done * (self._steps - self._done)
            fields = [(1, f" {self._done}/{self._steps}"), (2, f"  loss {loss.item():.4f}"), (3, f"  {remaining:.0f} s left")]
            self._write([(0, self._what), (4, f" [{bar:31}]"), *fields])

    def end(self, values: dict[str, float]) -> None:
        """Writes the final line with these numbers."""
        seconds = max(time.monotonic() - self._start_time, 1e-9)
        # The validation loss is dropped before the other numbers: it matters least next to the loss
        # and an accuracy that is easier to read.
        numbers = [(2 if name == "validation loss" else 1, f"  {name} {value:.4f}") for name, value in values.items()]
        self._write([(0, self._what), *numbers, (3, f"  {self._done / seconds:.0f} steps/s")])
        self.close()

    def close(self) -> None:
        """Ends the line, so that the next output starts on a new one. Has no effect if there is no
        line.
        """
        if self._length and self._stream is not None:
            print(file=self._stream, flush=True)
            self._length = 0

    def _write(self, fields: list[tuple[int, str]]) -> None:
        """Writes texts with their ranks. A line that is longer than the terminal could not be
        overwritten: texts of the highest ranks are omitted.
        """
        if self._stream is None:
            return
        text = "".join(field for _, field in fields)
        if self._is_terminal:
            columns = shutil.get_terminal_size().columns - 1
            while len(text) > columns and len(fields) > 1:
                # Of several texts of the same rank, the last one is dropped.
                fields.pop(max(range(len(fields)), key=lambda index: (fields[index][0], index)))
                text = "".join(field for _, field in fields)
            text = text[:columns]
            print(f"\r{text:{self._length}}", end="", file=self._stream, flush=True)
        else:
            print(text, end="", file=self._stream)
        self._length = len(text)
