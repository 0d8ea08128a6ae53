"""What is the same in all right results, where a function has several: factors of a matrix up to signs and rotations, positions among equal elements.

The functions take tensors of PyTorch and of Ternion alike: gradients go through them.
"""


def _singular(result):
    """Singular values, and the product of the factors; V is transposed by some functions."""
    u, s, v = result
    return s, _product(u, s, v)


def _product(u, s, vh):
    rank = s.shape[-1]
    return (u[..., :rank] * s.unsqueeze(-2)) @ vh[..., :rank, :]


def _singular_transposed(result):
    u, s, v = result
    return s, _product(u, s, v.mT)


def _symmetric(result):
    """Eigenvalues, and the product of the factors."""
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mT


def _triangular(result):
    """The product of both factors, and R without the signs of its rows."""
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
    """The function from a result of this entry to what does not depend on the choice; None if the result is one."""
    return _INVARIANTS.get(name)


# Functions that tell positions, and may tell any of equal elements.
TIES = {"sort", "argsort", "topk", "kthvalue", "median", "nanmedian", "mode"}

# Functions whose gradients go to one of equal elements, whichever.
OF_ORDER = TIES | {"msort"}


def chosen(name, result, arguments):
    """What must be the same where positions may be others: the values, the elements at the positions, and that no position is returned twice.

    None if there are no positions.
    """
    values, positions = (None, result) if name == "argsort" else result if isinstance(result, tuple) else (None, None)
    x = arguments.args[0]
    if positions is None or x.ndim == 0:
        return None
    dim = _axis(name, arguments)
    if positions.ndim < x.ndim:
        positions = positions.unsqueeze(dim)
    picked = x.detach().gather(dim, positions)
    if name == "topk":  # Which may leave them unsorted.
        values, picked = values.sort(dim).values, picked.sort(dim).values
    distinct = positions.sort(dim).values.diff(dim=dim) != 0
    return (picked, distinct) if values is None else (values, picked, distinct)


def _axis(name, arguments):
    place = 2 if name in ("topk", "kthvalue") else 1
    given = arguments.args[place] if len(arguments.args) > place and type(arguments.args[place]) is int else -1
    return arguments.kwargs.get("dim", given)
