"""Functions of the core, with rows in the op table, that Python does not have yet: tests that ask for every row pass over them, and fail once they are there."""

import ternion

UNBOUND: frozenset[str] = frozenset()


def bound_by_now():
    return sorted(name for name in UNBOUND if hasattr(ternion.Tensor, name) or hasattr(ternion, name))
