"""Compares the distributions of random numbers of two functions: many draws of each, element by
element and as a whole.

Two samples of n numbers agree if the distance of their distribution functions is nowhere larger
than chance allows. By the two-sample Kolmogorov-Smirnov test, one pair in a thousand exceeds 1.95
standard deviations, and one in a hundred million exceeds `KOLMOGOROV`. This limits median, spread
and proportions alike. Numbers that differ only by the rounding of the dtype are treated as equal.
Means of n draws must agree within `DEVIATIONS` standard errors. Generators are seeded for each
sample, so that the outcome on a device is reproducible.
"""

import torch

import ternion

from .comparison import VALUE
from .conversion import torch_of

# How many numbers are drawn of independent elements, and the minimum and maximum number of calls.
# Each dependent element has only that many numbers.
NUMBERS, FEWEST, MOST = 8192, 128, 512
DEPENDENT = 256

# sqrt(log(2 / 1e-8) / 2), see above; and the number of standard errors by which means may differ.
KOLMOGOROV, DEVIATIONS = 3.09, 6.0

# The relative and absolute effect of rounding on a random number.
ROUNDING = {torch.bfloat16: (1.6e-2, 1e-2), torch.float16: (2e-3, 1e-3), torch.float32: (1e-4, 1e-4), torch.float64: (1e-7, 1e-7)}

# Replaces NaN, which has no order.
NOT_A_NUMBER = -1e300


def count_of(elements, is_independent):
    """Returns the number of draws for this number of elements."""
    if not is_independent:
        return DEPENDENT if elements < NUMBERS // DEPENDENT * 8 else FEWEST
    return min(max(NUMBERS // elements, FEWEST), MOST)


def leaves_of(result):
    """Returns the tensors and numbers of a result as a flat list."""
    return [leaf for item in result for leaf in leaves_of(item)] if isinstance(result, (list, tuple)) else [result]


def rows(draw, count):
    """Returns the elements of `count` results in float64, one row per result."""
    with torch.no_grad(), ternion.no_grad():
        results = [[_copied(leaf) for leaf in leaves_of(draw())] for _ in range(count)]
    return torch.cat([_stacked(list(leaves)) for leaves in zip(*results)], dim=1)


def _copied(leaf):
    return leaf.detach().clone()


def _stacked(leaves):
    stacked = torch.stack(leaves) if isinstance(leaves[0], torch.Tensor) else torch_of(ternion.stack(leaves))
    return stacked.reshape(len(leaves), -1).double()


def difference(actual, expected, dtypes, is_independent):
    """Returns a kind and a sentence if the draws, one per row, have another distribution than
    PyTorch's, or None."""
    if expected.shape[1] == 0:
        return None
    rounding = [max(ROUNDING.get(dtype, (0.0, 0.0))[part] for dtype in dtypes) for part in (0, 1)]
    actual, expected = (torch.nan_to_num(numbers, nan=NOT_A_NUMBER) for numbers in (actual, expected))
    return (
        _of_each("element", actual.mT, expected.mT, rounding)
        or _of_means(actual, expected, rounding)
        or (_of_each("all elements", actual.reshape(1, -1), expected.reshape(1, -1), rounding) if is_independent else None)
        or _of_each("the mean of a draw", actual.mean(1)[None], expected.mean(1)[None], rounding)
    )


def _of_each(label, actual, theirs, rounding):
    """Compares the distributions in the rows of two matrices."""
    actual, theirs = actual.contiguous().sort(dim=1).values, theirs.contiguous().sort(dim=1).values
    distances = torch.maximum(_above(actual, theirs, rounding), _above(theirs, actual, rounding))
    bound = KOLMOGOROV * (1 / actual.shape[1] + 1 / theirs.shape[1]) ** 0.5
    worst = int(distances.argmax())
    if distances[worst] <= bound:
        return None
    median, expected = (f"{numbers[worst].median().item():.4g}" for numbers in (actual, theirs))
    spread, expected_spread = (f"{(numbers[worst].quantile(0.75) - numbers[worst].quantile(0.25)).item():.4g}" for numbers in (actual, theirs))
    numbered = f"{label} {worst}" if label == "element" else label
    words = f"median {median}, expected {expected}, interquartile range {spread}, expected {expected_spread}"
    return VALUE, f"{numbered}: distribution functions are {distances[worst]:.3f} apart, expected at most {bound:.3f}; {words}"


def _above(first, second, rounding):
    """Returns how far the distribution function of each row of `first` is above that of `second`,
    whose numbers may be larger by rounding."""
    relative, absolute = rounding
    up_to = torch.searchsorted(first, first, right=True) / first.shape[1]
    others = torch.searchsorted(second, first + relative * first.abs() + absolute, right=True) / second.shape[1]
    return (up_to - others).max(dim=1).values


def _of_means(actual, theirs, rounding):
    """Compares the means of each element."""
    finite = (actual.abs() < 1e30).all(dim=0) & (theirs.abs() < 1e30).all(dim=0)
    means, expected = actual.mean(0), theirs.mean(0)
    errors = (actual.var(0) / len(actual) + theirs.var(0) / len(theirs)).sqrt()
    bound = DEVIATIONS * errors + rounding[1] + rounding[0] * torch.maximum(actual.abs().amax(0), theirs.abs().amax(0))
    wrong = finite & ((means - expected).abs() > bound)
    if not wrong.any():
        return None
    index = int(torch.nonzero(wrong)[0])
    return VALUE, f"element {index}: mean {means[index].item():.4g}, expected {expected[index].item():.4g} within {bound[index].item():.2g}"
