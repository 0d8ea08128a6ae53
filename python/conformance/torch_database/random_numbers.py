"""Functions that return random numbers, or memory with undefined contents: what is checked instead
of values.

Each draw must have possible numbers: a dropped element is 0, others are the input's times the
factor, an index has a positive probability. Many draws must have the distribution of PyTorch's
(draws.py). Gradients must be the derivative of the function for a fixed seed (drawn_gradients.py).
"""

import torch
from torch.testing._internal import common_methods_invocations

from . import draws
from .comparison import DTYPE, VALUE, of_structure

# PyTorch's float64 results are useless for these, because they depend on the dtype itself.
WITHOUT_ORACLE = {"nextafter", "to"}

# Functions of the memory itself: the result depends on the strides.
OF_LAYOUT = {"as_strided", "as_strided_scatter", "view", "resize_", "resize_as_", "view_as"}


# Entries whose function in the database is another one: that of `rand_like` is `randn_like`.
DRAWN_BY_OTHERS = {"rand_like": torch.rand_like}


class OfStructure:
    """Memory with undefined contents: only shape and dtype are compared."""

    is_drawn = False

    def difference(self, draw, torch_draw, first, arguments):
        return of_structure(draw(), first)


class OfDraws:
    """Random numbers, independent of each other or not. `possible(actual, first, arguments)`
    returns what is wrong with the draws, one per row, or None."""

    is_drawn = True

    def __init__(self, possible=None, is_independent=True, count=None):
        self._possible, self._is_independent, self._count = possible, is_independent, count

    def difference(self, draw, torch_draw, first, arguments):
        """Returns what is wrong with the results of `draw()`, compared with those of PyTorch's
        `torch_draw()`, such as `first`: a kind and a sentence, or None."""
        difference = of_structure(draw(), first)
        if difference:
            return difference
        leaves = draws.leaves_of(first)
        if not all(isinstance(leaf, torch.Tensor) for leaf in leaves):
            return DTYPE, "a number that is drawn is not a tensor"
        elements = sum(leaf.numel() for leaf in leaves)
        if elements == 0:
            return None
        count = self._count or draws.count_of(elements, self._is_independent)
        actual = draws.rows(draw, count)
        wrong = self._possible(actual, first, arguments) if self._possible else None
        # The random samples in the database are outside 0 to 1, so windows can be at any position.
        if wrong or arguments.kwargs.get("_random_samples") is not None:
            return (VALUE, wrong) if wrong else None
        return draws.difference(actual, _rows(torch_draw, count), {leaf.dtype for leaf in leaves}, self._is_independent)


def _rows(torch_draw, count):
    """Returns draws of PyTorch. Its database reseeds the generator for each call of most entries,
    which is disabled here."""
    seeding = common_methods_invocations.wrapper_set_seed
    common_methods_invocations.wrapper_set_seed = lambda function, *args, **kwargs: function(*args, **kwargs)
    try:
        torch.manual_seed(2)
        return draws.rows(torch_draw, count)
    finally:
        common_methods_invocations.wrapper_set_seed = seeding


def check_of(name, sample):
    """Returns the check for a sample of an entry that draws random numbers, or None if its results
    are determined."""
    if name in _CHANCES and not _CHANCES[name]((sample.input, *sample.args), sample.kwargs):
        return None
    return _CHECKS.get(name)


def _argument(arguments, index, name, default):
    return arguments.args[index] if len(arguments.args) > index else arguments.kwargs.get(name, default)


def _within(low, high):
    """Checks for numbers from `low` to `high`."""
    def check(actual, first, arguments):
        is_right = actual.min() >= low and actual.max() <= high
        return None if is_right else f"numbers from {actual.min().item()} to {actual.max().item()}, expected from {low} to {high}"

    return check


def _check_integers(actual, low, high):
    return _within(low, high)(actual, None, None) or (None if (actual == actual.round()).all() else "a number that is not whole")


def _uniform(actual, first, arguments):
    return _within(*arguments.args[1:3])(actual, first, arguments)


def _integers(first_bound):
    """Checks for integers between the bounds in the arguments, excluding the upper one."""

    def check(actual, first, arguments):
        bounds = [value for value in arguments.args[first_bound:] if type(value) is int]
        low, high = bounds if len(bounds) == 2 else (0, bounds[0])
        return _check_integers(actual, low, high - 1)

    return check


def _bools(actual, first, arguments):
    return _check_integers(actual, 0, 1)


def _trials(actual, first, arguments):
    return _check_integers(actual, 1, float("inf"))


def _categories(actual, first, arguments):
    """Checks for indices of categories with a positive probability, each at most once without
    replacement."""
    weights = arguments.args[0]
    wrong = _check_integers(actual, 0, weights.shape[-1] - 1)
    if wrong:
        return wrong
    indices = actual.long().reshape(len(actual), *first.shape)
    if not (weights.expand(len(actual), *weights.shape).gather(-1, indices) > 0).all():
        return "a category without a probability"
    if _are_shares_wrong(indices[..., 0].flatten(1) if first.ndim > 1 else indices[:, :1], weights.double()):
        return "categories are not drawn by their probabilities"
    is_repeated = (indices.sort(-1).values.diff(dim=-1) == 0).any()
    return "a category is drawn twice" if is_repeated and not _argument(arguments, 2, "replacement", False) else None


def _are_shares_wrong(first, weights):
    """Returns whether the first categories drawn, one row per draw, have other frequencies than the
    weights specify, by more standard errors than allowed."""
    chances = (weights / weights.sum(-1, keepdim=True)).reshape(-1, weights.shape[-1])
    shares = torch.nn.functional.one_hot(first, weights.shape[-1]).double().mean(0)
    return ((shares - chances).abs() > draws.DEVIATIONS * (chances * (1 - chances) / len(first)).sqrt() + 1e-9).any()


def _alpha(axes_of):
    """Checks that each element is the transformed input or the value of a dropped one, and that
    channels are dropped completely or not at all. The formula is that of Klambauer et al. 2017."""

    def check(actual, first, arguments):
        x, chance, saturated = arguments.args[0].detach().double(), _argument(arguments, 1, "p", 0.5), -1.7580993408473766
        if chance == 1 or not first.is_floating_point():
            return None
        scale = ((1 - chance) * (1 + chance * saturated**2)) ** -0.5
        shift = -scale * chance * saturated
        expected = scale * x.reshape(1, -1) + shift
        is_kept, is_dropped = (torch.isclose(actual, each, rtol=1.6e-2, atol=2e-2) for each in (expected, torch.full_like(actual, scale * saturated + shift)))
        if not (is_kept | is_dropped).all():
            return f"{int((~(is_kept | is_dropped)).sum())} of {actual.numel()} elements are neither kept nor dropped"
        channels = [each.reshape(len(actual), -1, x.shape[x.ndim - axes_of(x) :].numel()) for each in (is_kept, is_dropped)]
        return None if (channels[0].all(-1) | channels[1].all(-1)).all() else "a channel is dropped in part"

    return check


def _dropped(axes_of):
    """Checks that each element is 0, or the input's times the factor that preserves the mean, and
    that channels, the last `axes_of(input)` axes, are dropped completely or not at all."""

    def check(actual, first, arguments):
        x = arguments.args[0].detach().double()
        chance = _argument(arguments, 1, "p", 0.5)
        is_kept, axes = actual != 0, axes_of(x)
        expected = x.reshape(1, -1) * (1 / (1 - chance) if chance < 1 else 0.0) * is_kept
        wrong = ~torch.isclose(actual, expected, rtol=1.6e-2, atol=1e-5)
        if wrong.any():
            return f"{int(wrong.sum())} of {wrong.numel()} elements are neither 0 nor the input's by {1 / (1 - chance) if chance < 1 else 0}"
        channels = (is_kept | (x == 0).reshape(1, -1)).reshape(len(actual), -1, x.shape[-axes:].numel() if axes else 1)
        return None if axes == 0 or (channels.all(-1) | ~is_kept.reshape(channels.shape).any(-1)).all() else "a channel is dropped in part"

    return check


def _leaky(actual, first, arguments):
    """Checks that positive numbers are unchanged and others are multiplied by a factor between the
    bounds."""
    x = arguments.args[0].detach().double().reshape(1, -1)
    low, high = arguments.kwargs.get("lower", 1 / 8), arguments.kwargs.get("upper", 1 / 3)
    margin = 1.6e-2 * x.abs() + 1e-5
    right = torch.where(x >= 0, (actual - x).abs() <= margin, (actual <= low * x + margin) & (actual >= high * x - margin))
    return None if right.all() else f"{int((~right).sum())} of {right.numel()} elements are not by {low} to {high} of the input's"


def _pooled(axes):
    """Checks that each output is the largest element of a possible window of the input, and that
    its index, if returned, is that of this element."""

    def check(actual, first, arguments):
        outputs, *indices = first if isinstance(first, tuple) else (first,)
        x = arguments.args[0].detach().double()
        values, rest = actual[:, : outputs.numel()], actual[:, outputs.numel() :]
        image = x.reshape(-1, x.shape[-axes:].numel())
        values = values.reshape(len(actual), len(image), -1)
        if not (values.unsqueeze(-1) == image[None, :, None, :]).any(-1).all():
            return "an output that is not an element of its channel"
        if not indices:
            return None
        indices = rest.long().reshape(values.shape)
        if indices.min() < 0 or indices.max() >= image.shape[-1]:
            return "an index outside the channel"
        pointed = image.expand(len(actual), *image.shape).gather(-1, indices)
        return None if (pointed == values).all() else "an index that does not point at its output"

    return check


def _of_dropout(training):
    """Returns a function that determines whether dropout is active; `training` is its default."""
    return lambda args, kwargs: kwargs.get("training", training) and kwargs.get("p", args[1] if len(args) > 1 else 0.5) > 0


_FEATURES = ("feature_alpha_dropout.with_train", "feature_alpha_dropout.without_train")

# Whether a sample draws random numbers at all, by its arguments.
_CHANCES = {
    **{f"nn.functional.{name}": _of_dropout(True) for name in ("dropout", "dropout2d", "dropout3d")},
    **{f"nn.functional.{name}": _of_dropout(False) for name in ("alpha_dropout", *_FEATURES)},
    "nn.functional.rrelu": lambda args, kwargs: kwargs.get("training", False),
    "nn.functional.scaled_dot_product_attention": lambda args, kwargs: kwargs.get("dropout_p", 0.0) > 0,
    "nn.functional.multi_head_attention_forward": lambda args, kwargs: kwargs.get("dropout_p", args[10] if len(args) > 10 else 0.0) > 0,
}

_CHECKS = {
    **{name: OfStructure() for name in ("empty", "empty_like", "empty_strided", "empty_permuted", "new_empty", "new_empty_strided")},
    **{name: OfDraws() for name in ("cauchy", "normal", "normal.in_place", "normal.number_mean", "randn", "randn_like")},
    **{name: OfDraws(_within(0, float("inf"))) for name in ("exponential", "log_normal")},
    "geometric": OfDraws(_trials),
    "uniform": OfDraws(_uniform),
    "randint": OfDraws(_integers(0)),
    "randint_like": OfDraws(_integers(1)),
    "rand_like": OfDraws(_within(0, 1)),
    "bernoulli": OfDraws(_bools),
    "multinomial": OfDraws(_categories, is_independent=False, count=4 * draws.MOST),
    "nn.functional.rrelu": OfDraws(_leaky),
    "nn.functional.dropout": OfDraws(_dropped(lambda x: 0)),
    # With three axes, the channels have one axis, as PyTorch warns.
    "nn.functional.dropout2d": OfDraws(_dropped(lambda x: x.ndim - 2), is_independent=False),
    "nn.functional.dropout3d": OfDraws(_dropped(lambda x: 3), is_independent=False),
    "nn.functional.alpha_dropout": OfDraws(_alpha(lambda x: 0)),
    **{f"nn.functional.{name}": OfDraws(_alpha(lambda x: max(x.ndim - 2, 0)), is_independent=False) for name in _FEATURES},
    "nn.functional.scaled_dot_product_attention": OfDraws(is_independent=False),
    "nn.functional.multi_head_attention_forward": OfDraws(is_independent=False),
    **{f"nn.functional.fractional_max_pool{axes}d": OfDraws(_pooled(axes), is_independent=False, count=draws.FEWEST) for axes in (2, 3)},
}
