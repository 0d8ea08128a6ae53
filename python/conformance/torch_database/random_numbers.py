"""Functions that draw numbers, or whose contents nobody decided: what can be checked of them instead of values."""

import torch

from .comparison import VALUE, of_structure
from .conversion import torch_of

# PyTorch's results in float64 say nothing of these: they speak of the dtype itself.
WITHOUT_ORACLE = {"nextafter", "to"}

# About memory itself: the result is another for other strides.
OF_LAYOUT = {"as_strided", "as_strided_scatter", "view", "resize_", "resize_as_", "view_as"}


def check_of(name, sample):
    """The check of a sample of an entry that draws numbers; None if its results are decided."""
    check = _CHECKS.get(name)
    if name in _CHANCES and not _CHANCES[name]((sample.input, *sample.args), sample.kwargs):
        return None
    return check


def _of_form(found, own, arguments):
    """Shape and dtype alone."""
    return of_structure(found, own)


def _within(low, high):
    """Numbers from `low` to `high`."""

    def check(found, own, arguments):
        difference = of_structure(found, own)
        if difference:
            return difference
        values = torch_of(found).double()
        if values.numel() and not (values.min() >= low and values.max() <= high):
            return VALUE, f"numbers from {values.min().item()} to {values.max().item()}, expected from {low} to {high}"
        return None

    return check


def _spread(found, own, arguments):
    """Numbers whose mean and deviation are near those of PyTorch's numbers, within five standard errors."""
    difference = of_structure(found, own)
    if difference:
        return difference
    found, own = torch_of(found).double(), own.detach().double()
    count = own.numel()
    if count < 16 or not own.isfinite().all():
        return None
    if not found.isfinite().all():
        return VALUE, "a number that is not finite"
    # A mean of n numbers errs by deviation / sqrt(n); both means do. The median is compared where tails are heavy.
    scale = (own.quantile(0.84) - own.quantile(0.16)) / 2
    bound = 5 * 1.6 * scale * (2 / count) ** 0.5
    if (found.median() - own.median()).abs() > bound:
        return VALUE, f"median {found.median().item()}, expected {own.median().item()} within {bound.item()}"
    return None


def _dropped(found, own, arguments):
    """Each element is 0, or the input's by the factor that keeps the mean."""
    difference = of_structure(found, own)
    if difference:
        return difference
    x = arguments.args[0].detach()
    chance = arguments.kwargs.get("p", arguments.args[1] if len(arguments.args) > 1 else 0.5)
    return _one_of(found, x, [0.0, 1 / (1 - chance) if chance < 1 else 0.0])


def _one_of(found, x, factors):
    found, x = torch_of(found).double(), x.double()
    right = torch.zeros_like(x, dtype=torch.bool)
    for factor in factors:
        right |= torch.isclose(found, x * factor, rtol=1.6e-2, atol=1e-5)
    return None if right.all() else (VALUE, f"{int((~right).sum())} of {x.numel()} elements are not by {factors} of the input's")


def _leaky(found, own, arguments):
    """Numbers above 0 stay; others are by a factor between the bounds."""
    difference = of_structure(found, own)
    if difference:
        return difference
    x, found = arguments.args[0].detach().double(), torch_of(found).double()
    low, high = arguments.kwargs.get("lower", 1 / 8), arguments.kwargs.get("upper", 1 / 3)
    margin = 1.6e-2 * x.abs() + 1e-5
    right = torch.where(x >= 0, (found - x).abs() <= margin, (found <= low * x + margin) & (found >= high * x - margin))
    return None if right.all() else (VALUE, f"{int((~right).sum())} of {x.numel()} elements are not by {low} to {high} of the input's")


def _affine(found, own, arguments):
    """Alpha dropout: mean and deviation are kept; shape and dtype are compared, and that numbers are finite."""
    difference = of_structure(found, own)
    if difference:
        return difference
    finite = torch_of(found).isfinite().all() or not own.isfinite().all()
    return None if finite else (VALUE, "a number that is not finite")


def _of_dropout(args, kwargs):
    return kwargs.get("training", True) and kwargs.get("p", args[1] if len(args) > 1 else 0.5) > 0


# Whether a sample draws at all, by its arguments.
_CHANCES = {
    **{f"nn.functional.{name}": _of_dropout for name in ("dropout", "dropout2d", "dropout3d", "alpha_dropout")},
    **{f"nn.functional.feature_alpha_dropout.{name}": _of_dropout for name in ("with_train", "without_train")},
    "nn.functional.rrelu": lambda args, kwargs: kwargs.get("training", False),
    "nn.functional.scaled_dot_product_attention": lambda args, kwargs: kwargs.get("dropout_p", 0.0) > 0,
    "nn.functional.multi_head_attention_forward": lambda args, kwargs: kwargs.get("dropout_p", args[10] if len(args) > 10 else 0.0) > 0,
}

_CHECKS = {
    **{name: _of_form for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")},
    **{name: _spread for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform", "randint", "randint_like")},
    **{name: _spread for name in ("normal", "normal.in_place", "normal.number_mean", "randn", "randn_like")},
    "rand_like": _within(0, 1),
    "bernoulli": _within(0, 1),
    "multinomial": _of_form,
    "nn.functional.rrelu": _leaky,
    **{name: _dropped for name in ("nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d")},
    "nn.functional.alpha_dropout": _affine,
    **{f"nn.functional.feature_alpha_dropout.{name}": _affine for name in ("with_train", "without_train")},
    "nn.functional.scaled_dot_product_attention": _of_form,
    "nn.functional.multi_head_attention_forward": _of_form,
    "nn.functional.fractional_max_pool2d": _of_form,
    "nn.functional.fractional_max_pool3d": _of_form,
}
