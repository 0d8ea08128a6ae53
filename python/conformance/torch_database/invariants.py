"""Invariants of all correct results, for functions with several: matrix factors up to signs and
rotations, indices among equal elements.

The functions accept tensors of PyTorch and of Ternion, and gradients flow through them.
"""


def _singular(result):
    """Returns the singular values, and the product of the factors. Some functions return V
    transposed."""
    u, s, v = result
    return s, _product(u, s, v)


def _product(u, s, vh):
    rank = s.shape[-1]
    return (u[..., :rank] * s.unsqueeze(-2)) @ vh[..., :rank, :]


def _singular_transposed(result):
    u, s, v = result
    return s, _product(u, s, v.mT)


def _symmetric(result):
    """Returns the eigenvalues, and the product of the factors."""
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT


def _triangular(result):
    """Returns the product of both factors, and R without the signs of its rows."""
    q, r = result
    if q.numel() == 0:
        return (r.mT @ r,)
    return q @ r, r.mT @ r


_INVARIANTS = {
    "svd": _singular_transposed,
    "svd_lowrank": _singular_transposed,
    "pca_lowrank": _singular_transposed,
    "linalg.svd": _singular,
    "linalg.eigh": _symmetric,
    "qr": _triangular,
    "linalg.qr": _triangular,
}


def of(name):
    """Returns the function from a result of this entry to its invariant, or None if the result is
    unique."""
    return _INVARIANTS.get(name)


# Functions that return indices, and may return that of any of several equal elements.
TIES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}

# Functions whose gradient goes to an arbitrary one of several equal elements.
OF_ORDER = TIES | {"msort"}


def chosen(name, result, arguments):
    """Returns what must be the same if indices may differ: the values, the elements at the indices,
    and whether no index occurs twice.

    Returns None if there are no indices.
    """
    values, positions = (None, result) if name == "argsort" else result if isinstance(result, tuple) else (None, None)
    x = arguments.args[0]
    if positions is None or x.ndim == 0:
        return None
    dim = _axis(name, arguments)
    if positions.ndim < x.ndim:
        positions = positions.unsqueeze(dim)
    picked = x.detach().gather(dim, positions)
    if name == "topk":  # The results of topk may be unsorted.
        values, picked = values.sort(dim).values, picked.sort(dim).values
    distinct = positions.sort(dim).values.diff(dim=dim) != 0
    return (picked, distinct) if values is None else (values, picked, distinct)


def _axis(name, arguments):
    position = 2 if name in ("topk", "kthvalue") else 1
    axis = arguments.args[position] if len(arguments.args) > position and type(arguments.args[position]) is int else -1
    return arguments.kwargs.get("dim", axis)
