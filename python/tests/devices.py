"""Devices beside the processor, for the tests that want two."""

import pytest

import ternion


def other_device():
    """The name of a device that is not the processor; the test is skipped where none is."""
    for name in ("cuda", "wgpu"):
        try:
            ternion.device(name)
        except RuntimeError:
            continue
        return name
    pytest.skip("no device beside the processor")
