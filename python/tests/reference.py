"""Values computed by PyTorch, from tests/reference/nn.json of the repository. The Rust tests use
the same file."""

import functools
import json
from pathlib import Path

import numpy as np

import ternion

FILE = Path(__file__).parents[2] / "tests" / "reference" / "nn.json"


@functools.lru_cache(None)
def read_results():
    """Returns the contents of the file."""
    return json.loads(FILE.read_text())


def array(entry):
    """Returns a tensor of the file as a float64 array."""
    return np.array(entry["values"], np.float64).reshape(entry["shape"])


def tensor(entry):
    """Returns a tensor of the file as a float64 tensor."""
    return ternion.tensor(array(entry))


def close(result, entry, tolerance=1e-7):
    """Checks that a tensor equals that of the file."""
    np.testing.assert_allclose(result.detach().numpy(), array(entry), rtol=tolerance, atol=tolerance)
