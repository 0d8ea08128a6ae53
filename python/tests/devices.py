"""Devices other than the CPU, for tests that need two."""

import pytest

import ternion


def other_device():
    """Returns the name of a device other than the CPU. Skips the test if there is none."""
    for name in ("cuda", "wgpu"):
        try:
            ternion.device(name)
        except RuntimeError:
            continue
        return name
    pytest.skip("no device other than the CPU")
