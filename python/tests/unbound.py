"""Functions of core, with rows in the op table, that Python does not have yet. Tests that require
every row skip them, and fail once Python has them."""

import ternion

# Parts of Rust's transformer layers, such as those of GPT.
UNBOUND: frozenset[str] = frozenset({"linear_add", "feed_forward"})


def bound_by_now():
    return sorted(name for name in UNBOUND if hasattr(ternion.Tensor, name) or hasattr(ternion, name))
