"""Checks that the gradient of a function with random numbers is its derivative: with the same seed
the function draws the same numbers, and has differences like any other function."""

from collections import namedtuple

import torch

from .comparison import GRADIENT
from .conversion import Arguments, torch_of

# The arguments of a PyTorch sample.
Moved = namedtuple("Moved", "input args kwargs")

# By the dtype of an input: how far it is moved to both sides, and how close to the difference the
# derivative must be, as a fraction of the magnitudes of its summands. Half precision has no useful
# differences: its gradients must only have the correct shape and dtype, and be finite.
STEPS = {torch.float32: (1e-3, 2e-2), torch.float64: (1e-6, 1e-6)}


class Directions:
    """A direction for each input that requires a gradient."""

    def __init__(self, sample):
        self._generator = torch.Generator().manual_seed(5)
        self._known = {}
        self.leaves = Arguments(sample, self._own).leaves

    def _own(self, value):
        if isinstance(value, torch.Tensor) and value.requires_grad:
            self._known[id(value)] = torch.randn(value.shape, generator=self._generator).to(value.dtype)
        return value

    def of(self, index):
        return self._known[id(self.leaves[index])]

    def moved(self, sample, step):
        """Returns the sample with its inputs moved along their directions."""

        def leaf(value):
            if id(value) not in self._known:
                return value
            return (value.detach() + step * self._known[id(value)]).requires_grad_()

        arguments = Arguments(sample, leaf)
        return Moved(arguments.args[0], arguments.args[1:], arguments.kwargs)


def difference(weighted_sum, sample, gradients):
    """Returns what is wrong with the gradients of `weighted_sum(sample)`, in the order of the
    inputs that require them: a kind and a sentence, or None."""
    directions = Directions(sample)
    dtypes = {leaf.dtype for leaf in directions.leaves}
    if not dtypes <= set(STEPS):
        return None
    step, tolerance = STEPS[torch.float32 if torch.float32 in dtypes else torch.float64]
    high, low = (weighted_sum(directions.moved(sample, sign * step)) for sign in (1, -1))
    products = [(gradient.double() * directions.of(index).double()).flatten() for index, gradient in enumerate(gradients)]
    products = torch.cat(products)
    actual, expected = products.sum().item(), (high - low) / (2 * step)
    if abs(actual - expected) <= tolerance * (products.abs().sum().item() + 1):
        return None
    return GRADIENT, f"the derivative along a direction is {actual:.6g} by the gradients, expected {expected:.6g} by differences with the same seed"


def converted(gradient, leaf, index):
    """Returns a gradient as a PyTorch tensor, and what is wrong with its shape, dtype and
    numbers."""
    if gradient is None:
        return torch.zeros_like(leaf), None
    result = torch_of(gradient)
    if result.shape != leaf.shape or result.dtype != leaf.dtype:
        return result, (GRADIENT, f"gradient {index} is {result.dtype}{list(result.shape)}, expected {leaf.dtype}{list(leaf.shape)}")
    return result, None if result.isfinite().all() else (GRADIENT, f"gradient {index} has numbers that are not finite")
