"""Intentionally rejected calls, with reasons by error message, and calls whose arguments the
database lacks. Each call is run, and must raise an error."""

import re

import ternion
from ternion import nn

# Failures that are not wrong results: (part of an entry's name, part of the error) -> reason. The
# first match counts.
REASONS = [
    ("signal.windows", "expects float32 or float64", "a window in half precision is the float32 one, rounded once"),
    ("rsub", "PyTorch rejects it", "the difference of two numbers, or of a number and an integer tensor, is defined"),
    ("masked_fill", "PyTorch rejects it", "a value with one element is a scalar, regardless of its rank"),
    ("local_response_norm", "expected a floating dtype", "PyTorch truncates the mean of the squares to an integer: convert to a floating dtype"),
    ("", "expected a floating dtype", "PyTorch returns integers and truncates a mean or a margin: convert to a floating dtype"),
    ("", "is bool, expected a number", "sum and order are not defined for bool: convert to a number"),
    ("", r"(not|expected) an integer", "the fraction would be truncated silently: numbers that a dtype cannot represent are errors"),
    ("", r"expected (at least )?[12]( or 2)? axes|axis 0 on shape \[\]", "the input has no axis that the function can reduce"),
    ("gather", r"index of shape", "an index whose rank differs from the input's, even an empty one, is an error"),
    ("multi_margin_loss", "target has shape", "a target with one axis more than the input's batch is an error"),
    ("pairwise_distance", "expected at least 0", "a negative p does not define a distance"),
    ("unravel_index", "more elements than can be addressed", "no tensor has such a shape"),
    ("", "layout strided", "the only layout is strided"),
    ("", r"unexpected keyword argument 'out'", "results are new tensors: in-place methods change an existing one"),
    ("matrix_rank", "tol is Tensor, expected a number", "a tolerance for each matrix of a batch: call the function for each"),
]

# Calls with x = ones(2, 3), i = zeros(2, 3, dtype=int64), and why they are errors.
CALLS = [
    ("F.embedding(i, x, sparse=True)", "there are no sparse tensors"),
    ("F.embedding_bag(i, x, scale_grad_by_freq=True)", "PyTorch counts differently here than in `embedding`"),
    ("F.embedding_bag(i, x, sparse=True)", "there are no sparse tensors"),
    ("nn.EmbeddingBag(3, 2, sparse=True)", "there are no sparse tensors"),
    ("nn.EmbeddingBag(3, 2, scale_grad_by_freq=True)", "PyTorch counts differently here than in `embedding`"),
    ("F.interpolate(x[None, None], scale_factor=2, mode='bilinear', antialias=True)", "not implemented"),
    ("F.interpolate(x[None, None].byte(), scale_factor=2, mode='bilinear')", "a mean of integers would be truncated: convert to a floating dtype"),
    ("x.view(ternion.uint8)", "a view as another dtype needs the same item size: `numpy().view` accepts other sizes"),
    ("ternion.einsum(x, [0, 1], x, [0, 1], [0])", "axes are named by letters: `einsum(\"ij,ij->i\", x, x)`"),
    ("ternion.ones(2, device='meta')", "every tensor has storage"),
    ("ternion.optim.OneCycleLR(ternion.optim.Adagrad([x.requires_grad_()]), 0.1, 10)", "there is no momentum to cycle, as in PyTorch"),
    ("ternion.add(x, x, out=x)", "in-place methods change a tensor: `x.add_(x)`"),
    ("x.t().as_strided((2,), (1,))", "strides of memory that is not in row-major order: call `contiguous()` first"),
    ("x.byte() - 300", "numbers that a dtype cannot represent are errors"),
    ("ternion.tensor(1j)", "there are no complex numbers"),
    ("ternion.quantile(x.long(), 0.5)", "a quantile can be between two integers: convert to a floating dtype"),
    ("ternion.median(i[:0])", "an empty input has no median"),
    ("ternion.linalg.pinv(x * float('inf'))", "a matrix with NaN or infinity has no singular value decomposition"),
    ("ternion.autograd.grad(x.sum(), x, is_grads_batched=True)", "call `grad` once for each"),
    ("nn.LSTM(2, 3, proj_size=1)", "not implemented"),
    ("ternion.optim.Adam([x], differentiable=True)", "no gradient flows through a step"),
    ("ternion.set_float32_matmul_precision('high')", "see `autocast(dtype=\"tf32\")`"),
    ("ternion.utils.data.DataLoader([1], multiprocessing_context='fork', num_workers=1)", "workers are threads"),
    ("ternion.ones(1, 1, 1, 1, 1, 1, 1, 1, 1)", "tensors have 8 axes at most"),
]


def reason_of(entry, detail):
    """Returns why a failure of an entry is intentional, or None if no reason is listed."""
    fits = (why for part, pattern, why in REASONS if part in entry and re.search(pattern, detail))
    return next(fits, None)


def error_of(call):
    """Returns type and message of the error that a call raises, or None if it raises none."""
    names = {"ternion": ternion, "nn": nn, "F": nn.functional, "x": ternion.ones(2, 3), "i": ternion.zeros(2, 3, dtype=ternion.int64)}
    try:
        eval(call, names)  # noqa: S307: the calls are those above.
    except (TypeError, ValueError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None
