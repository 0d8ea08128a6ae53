"""Whether numbers that two functions draw have the same distribution: many draws of each, compared element by element and as a whole.

Two samples of n numbers agree if their distribution functions are nowhere further apart than chance allows: by the two-sample Kolmogorov-Smirnov test,
1.95 standard deviations are exceeded by one pair in a thousand, `KOLMOGOROV` by one in a hundred million. That bounds median, spread and shares alike.
Numbers that differ by the dtype's rounding are the same number. Means of n draws agree within `DEVIATIONS` of their standard errors. Generators are seeded for each sample,
so that a device gives the same outcome each time.
"""

import torch

import ternion

from .comparison import VALUE
from .conversion import torch_of

# How many numbers are drawn of independent elements, and how often a function is called at least and at most; of others each element has that many only.
NUMBERS, FEWEST, MOST = 8192, 128, 512
DEPENDENT = 256

# sqrt(log(2 / 1e-8) / 2): see above. And how many standard errors apart means may be.
KOLMOGOROV, DEVIATIONS = 3.09, 6.0

# What rounding does to a number that is drawn, of itself and besides.
ROUNDING = {torch.bfloat16: (1.6e-2, 1e-2), torch.float16: (2e-3, 1e-3), torch.float32: (1e-4, 1e-4), torch.float64: (1e-7, 1e-7)}

# In the place of NaN, which has no order.
NOT_A_NUMBER = -1e300


def count_of(elements, is_independent):
    """How many draws of so many elements are made."""
    if not is_independent:
        return DEPENDENT if elements < NUMBERS // DEPENDENT * 8 else FEWEST
    return min(max(NUMBERS // elements, FEWEST), MOST)


def leaves_of(result):
    """The tensors and numbers of a result, one after the other."""
    return [leaf for item in result for leaf in leaves_of(item)] if isinstance(result, (list, tuple)) else [result]


def rows(draw, count):
    """The elements of `count` results in float64, a row each."""
    with torch.no_grad(), ternion.no_grad():
        results = [[_copied(leaf) for leaf in leaves_of(draw())] for _ in range(count)]
    return torch.cat([_stacked(list(leaves)) for leaves in zip(*results)], dim=1)


def _copied(leaf):
    return leaf.detach().clone()


def _stacked(leaves):
    stacked = torch.stack(leaves) if isinstance(leaves[0], torch.Tensor) else torch_of(ternion.stack(leaves))
    return stacked.reshape(len(leaves), -1).double()


def difference(found, own, dtypes, is_independent):
    """A kind and a sentence if draws, a row each, are of another distribution than PyTorch's; None if they are not."""
    if own.shape[1] == 0:
        return None
    rounding = [max(ROUNDING.get(dtype, (0.0, 0.0))[part] for dtype in dtypes) for part in (0, 1)]
    found, own = (torch.nan_to_num(numbers, nan=NOT_A_NUMBER) for numbers in (found, own))
    return (
        _of_each("element", found.mT, own.mT, rounding)
        or _of_means(found, own, rounding)
        or (_of_each("all elements", found.reshape(1, -1), own.reshape(1, -1), rounding) if is_independent else None)
        or _of_each("the mean of a draw", found.mean(1)[None], own.mean(1)[None], rounding)
    )


def _of_each(what, found, own, rounding):
    """Compares the distributions in the rows of two matrices."""
    found, own = found.contiguous().sort(dim=1).values, own.contiguous().sort(dim=1).values
    apart = torch.maximum(_above(found, own, rounding), _above(own, found, rounding))
    bound = KOLMOGOROV * (1 / found.shape[1] + 1 / own.shape[1]) ** 0.5
    worst = int(apart.argmax())
    if apart[worst] <= bound:
        return None
    median, expected = (f"{numbers[worst].median().item():.4g}" for numbers in (found, own))
    spread, wanted = (f"{(numbers[worst].quantile(0.75) - numbers[worst].quantile(0.25)).item():.4g}" for numbers in (found, own))
    numbered = f"{what} {worst}" if what == "element" else what
    words = f"median {median}, expected {expected}, interquartile range {spread}, expected {wanted}"
    return VALUE, f"{numbered}: distribution functions are {apart[worst]:.3f} apart, expected at most {bound:.3f}; {words}"


def _above(first, second, rounding):
    """How far the distribution function of the rows of `first` is above that of `second`, whose numbers may be larger by their rounding."""
    relative, absolute = rounding
    up_to = torch.searchsorted(first, first, right=True) / first.shape[1]
    others = torch.searchsorted(second, first + relative * first.abs() + absolute, right=True) / second.shape[1]
    return (up_to - others).max(dim=1).values


def _of_means(found, own, rounding):
    """Compares the means of each element."""
    finite = (found.abs() < 1e30).all(dim=0) & (own.abs() < 1e30).all(dim=0)
    means, expected = found.mean(0), own.mean(0)
    errors = (found.var(0) / len(found) + own.var(0) / len(own)).sqrt()
    bound = DEVIATIONS * errors + rounding[1] + rounding[0] * torch.maximum(found.abs().amax(0), own.abs().amax(0))
    wrong = finite & ((means - expected).abs() > bound)
    if not wrong.any():
        return None
    index = int(torch.nonzero(wrong)[0])
    return VALUE, f"element {index}: mean {means[index].item():.4g}, expected {expected[index].item():.4g} within {bound[index].item():.2g}"
