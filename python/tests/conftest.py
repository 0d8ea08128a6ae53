import pytest

import ternion


@pytest.fixture(autouse=True)
def seeded():
    """Seeds every test, so that it draws the same numbers regardless of the tests before it."""
    ternion.manual_seed(1)
