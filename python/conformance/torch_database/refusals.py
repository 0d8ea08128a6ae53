"""Intentionally rejected calls, with reasons by error message, and calls whose arguments the
database lacks. Each call is run, and must raise an error."""

import re

import ternion
from ternion import nn

# Failures that are not wrong results: (part of an entry's name, part of the error) -> reason. The
# first match counts.
REASONS = [
    ("signal.windows", "expects float32 or float64", "a window in half precision is the float32 one, rounded once"),
    ("rsub", "PyTorch refuses it", "two numbers, or a number and a tensor of integers, have a difference"),
    ("masked_fill", "PyTorch refuses it", "a value of one element is one number, whatever its axes"),
    ("local_response_norm", "expected a floating dtype", "PyTorch cuts the mean of the squares of integers off to one: convert to a floating dtype"),
    ("", "expected a floating dtype", "PyTorch gives integers, to which a mean or a margin is cut off: convert to a floating dtype"),
    ("", "is bool, expected a number", "bools have neither sums nor an order: convert to a number"),
    ("", r"(not|expected) an integer", "a fraction would be cut off without a word: numbers that a dtype does not hold are errors"),
    ("", r"expected (at least )?[12]( or 2)? axes|axis 0 on shape \[\]", "there is no axis for the function to work along"),
    ("gather", r"index of shape", "an index with another number of axes than the input, also one without elements, is a mistake"),
    ("multi_margin_loss", "target has shape", "a target with an axis more than the input's batch is a mistake"),
    ("pairwise_distance", "expected at least 0", "what a negative p gives is not a distance"),
    ("unravel_index", "more elements than can be addressed", "no tensor has such a shape"),
    ("", "layout strided", "elements are always in strided memory: there is no other layout to name"),
    ("", r"unexpected keyword argument 'out'", "results are new tensors: in-place methods change an existing one"),
    ("matrix_rank", "tol is Tensor, expected a number", "a tolerance for each matrix of a batch: call the function for each"),
]

# Calls with x = ones(2, 3), i = zeros(2, 3, dtype=int64), and why they are errors.
CALLS = [
    ("F.embedding(i, x, sparse=True)", "there are no sparse tensors"),
    ("F.embedding_bag(i, x, scale_grad_by_freq=True)", "PyTorch counts otherwise than in `embedding`"),
    ("F.embedding_bag(i, x, sparse=True)", "there are no sparse tensors"),
    ("nn.EmbeddingBag(3, 2, sparse=True)", "there are no sparse tensors"),
    ("nn.EmbeddingBag(3, 2, scale_grad_by_freq=True)", "PyTorch counts otherwise than in `embedding`"),
    ("F.interpolate(x[None, None], scale_factor=2, mode='bilinear', antialias=True)", "is not available"),
    ("F.interpolate(x[None, None].byte(), scale_factor=2, mode='bilinear')", "a mean of integers would be cut off: convert to a floating dtype"),
    ("x.view(ternion.uint8)", "a view of another dtype has its item size: `numpy().view` takes others"),
    ("ternion.einsum(x, [0, 1], x, [0, 1], [0])", "axes are named by letters: `einsum(\"ij,ij->i\", x, x)`"),
    ("ternion.ones(2, device='meta')", "tensors have memory"),
    ("ternion.optim.OneCycleLR(ternion.optim.Adagrad([x.requires_grad_()]), 0.1, 10)", "there is no momentum to cycle, as in PyTorch"),
    ("ternion.add(x, x, out=x)", "in-place methods change a tensor: `x.add_(x)`"),
    ("x.t().as_strided((2,), (1,))", "strides of memory that is not in row-major order: call `contiguous()` first"),
    ("x.byte() - 300", "numbers that a dtype does not hold are errors"),
    ("ternion.tensor(1j)", "there are no complex numbers"),
    ("ternion.quantile(x.long(), 0.5)", "a point between integers is none: convert to a floating dtype"),
    ("ternion.median(i[:0])", "nothing has no median"),
    ("ternion.linalg.pinv(x * float('inf'))", "the factors of a matrix with an infinity say nothing"),
    ("ternion.autograd.grad(x.sum(), x, is_grads_batched=True)", "call `grad` once for each"),
    ("nn.LSTM(2, 3, proj_size=1)", "is not available"),
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
