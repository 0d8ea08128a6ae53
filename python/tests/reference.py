"""Numbers that PyTorch computed: tests/reference/nn.json of the repository, which the Rust tests hold Ternion to as well."""

import functools
import json
from pathlib import Path

import numpy as np

import ternion

FILE = Path(__file__).parents[2] / "tests" / "reference" / "nn.json"


@functools.lru_cache(None)
def told():
    """All of the file."""
    return json.loads(FILE.read_text())


def array(entry):
    """A tensor of the file as an array of float64."""
    return np.array(entry["values"], np.float64).reshape(entry["shape"])


def tensor(entry):
    """A tensor of the file, float64."""
    return ternion.tensor(array(entry))


def close(found, entry, tolerance=1e-7):
    """That a tensor is that of the file."""
    np.testing.assert_allclose(found.detach().numpy(), array(entry), rtol=tolerance, atol=tolerance)
