import pytest

import ternion


@pytest.fixture(autouse=True)
def seeded():
    """Each test draws the same numbers, whatever ran before it."""
    ternion.manual_seed(1)
