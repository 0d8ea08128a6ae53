"""Warnings that are located at the line of the program that called the package."""

from __future__ import annotations

import sys
import warnings


def warn_caller(text: str) -> None:
    """Issues a UserWarning at the first frame outside the package."""
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] == "ternion":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, UserWarning, stacklevel=level)
