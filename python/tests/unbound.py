"""Functions of the core, with rows in the op table, that Python does not have yet: tests that ask for every row pass over them, and fail once they are there."""

import ternion

# What layers of Rust's transformers are made of, such as those of GPT.
UNBOUND: frozenset[str] = frozenset({"linear_add", "feed_forward"})


def bound_by_now():
    return sorted(name for name in UNBOUND if hasattr(ternion.Tensor, name) or hasattr(ternion, name))
