"""Functions of the core, with rows in the op table, that Python does not have yet: tests that ask for every row pass over them, and fail once they are there."""

import ternion

UNBOUND = frozenset(
    """
    bitwise_and bitwise_not bitwise_or bitwise_xor cummax cummin digamma entr erfcx erfinv gcd i0 i0e i1 i1e index_reduce lcm lgamma log_ndtr mode mvlgamma
    nanmedian ndtr ndtri polygamma renorm xlog1py zeta
    """.split()
)


def bound_by_now():
    return sorted(name for name in UNBOUND if hasattr(ternion.Tensor, name) or hasattr(ternion, name))
