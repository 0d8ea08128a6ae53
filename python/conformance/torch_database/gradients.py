"""Compares the gradients of a sample with PyTorch's, for the same weights of the outputs."""

import torch

import ternion

from . import derivatives, drawn_gradients, invariants
from .calls import Failed, called, default_float64
from .comparison import DTYPE, GRADIENT, STEPS, near, of_numbers
from .conversion import flat, ternion_arguments, torch_of


class Known:
    """PyTorch's gradients of a sample, the exact ones if they are known, and the weights of outputs
    by index."""

    def __init__(self, own, exact, cotangents):
        self.own, self.exact, self.cotangents = own, exact, cotangents


def _gradients(outputs, leaves, cotangents):
    """Returns PyTorch's gradients, or None if it has none."""
    pairs = [(output, cotangents[index].to(output.dtype)) for index, output in enumerate(outputs) if index in cotangents and output.requires_grad]
    if not pairs:
        return None
    result = torch.autograd.grad([output for output, _ in pairs], leaves, [weights for _, weights in pairs], allow_unused=True)
    return [torch.zeros_like(leaf) if gradient is None else gradient for leaf, gradient in zip(leaves, result)]


def _invariant(subject, outputs):
    function = invariants.of(subject.entry.name)
    return flat(function(outputs) if function else outputs)


def _cotangents(outputs):
    """Returns weights for each output that requires a gradient, by index."""
    generator = torch.Generator().manual_seed(7)
    return {
        index: torch.randn(output.shape, generator=generator).to(output.dtype)
        for index, output in enumerate(outputs)
        if isinstance(output, torch.Tensor) and output.requires_grad and output.is_floating_point()
    }


def known_of(subject, reference):
    """Returns PyTorch's gradients, or None if there are none."""
    if not reference.arguments.leaves or _is_tied(subject, reference):
        return None
    outputs = _invariant(subject, reference.own)
    cotangents = _cotangents(outputs)
    try:
        expected = _gradients(outputs, reference.arguments.leaves, cotangents)
    except RuntimeError:  # PyTorch has no gradient here.
        return None
    return None if expected is None else Known(expected, _exact(subject, reference, cotangents), cotangents)


def _exact(subject, reference, cotangents):
    if reference.exact is None:
        return None
    try:
        return _gradients(_invariant(subject, reference.exact), reference.wide.leaves, cotangents)
    except RuntimeError:
        return None


def _is_tied(subject, reference):
    """Returns whether the gradient depends on which of several equal elements was selected."""
    x = reference.arguments.args[0]
    return subject.entry.name in invariants.OF_ORDER and x.unique().numel() < x.numel()


def compare(subject, result, arguments, reference):
    """Requires PyTorch's gradients for a result of Ternion with respect to its arguments."""
    known = reference.gradients(subject)
    if known is None:
        return
    outputs = called(_invariant, subject, result)
    actual = _of_outputs(outputs, arguments.leaves, known.cotangents, subject.device)
    reported_difference = None
    for index, (gradient, expected) in enumerate(zip(actual, known.own)):
        wide = known.exact[index] if known.exact else None
        difference = _difference(gradient, expected, wide, index, subject.entry.name not in STEPS)
        if difference and _is_theirs_wrong(subject, reference, index, gradient, difference):
            reported_difference, difference = reported_difference or difference, None
        if difference:
            raise Failed(*difference)
    if reported_difference:
        raise Failed(derivatives.KIND, reported_difference[1].replace(", expected ", ", PyTorch's is ", 1))


def _of_outputs(outputs, leaves, cotangents, device):
    """Returns Ternion's gradients."""
    without = [index for index in cotangents if not outputs[index].requires_grad]
    if without:
        raise Failed(GRADIENT, f"output {without[0]} has no gradient")
    weights = [ternion.from_dlpack(weight, copy=True).to(device) for weight in cotangents.values()]
    return called(ternion.autograd.grad, [outputs[index] for index in cotangents], leaves, weights, allow_unused=True)


def _is_theirs_wrong(subject, reference, index, gradient, difference):
    """Returns whether differences of PyTorch's function show that its gradient is wrong and this
    one is correct."""
    known = reference.gradients(subject)
    if difference[0] != GRADIENT or not known.exact:
        return False
    expected, exact = known.own[index], known.exact[index]
    actual = torch.zeros_like(expected) if gradient is None else torch_of(gradient)
    if actual.shape != expected.shape:
        return False
    wide = reference.wide

    def weighted_sum():
        with torch.no_grad(), default_float64():
            outputs = _invariant(subject, subject.entry.op(*wide.args, **wide.kwargs))
        return sum((outputs[number].double() * weights.double()).sum().item() for number, weights in known.cotangents.items())

    is_symmetric = getattr(subject.entry.gradcheck_wrapper, "__name__", "") == "gradcheck_wrapper_hermitian_input"
    return derivatives.decides(weighted_sum, wide.leaves[index], ~near(actual, expected, exact), actual, exact, is_symmetric)


def _difference(actual, expected, exact, index, measured):
    if actual is None:
        return (GRADIENT, f"input {index} has no gradient") if (expected != 0).any() else None
    actual = torch_of(actual)
    if actual.shape != expected.shape:
        return GRADIENT, f"gradient {index} has shape {list(actual.shape)}, expected {list(expected.shape)}"
    if actual.dtype != expected.dtype:
        return DTYPE, f"gradient {index} has dtype {actual.dtype}, expected {expected.dtype}"
    return of_numbers(GRADIENT, actual, expected, exact, f"gradient {index}", measured)


def compare_drawn(subject, sample, reference, strided):
    """Requires that the gradients of a function with random numbers are its derivative for a fixed
    seed."""
    known = reference.gradients(subject)
    if known is None:
        return

    def outputs_of(moved):
        arguments = called(ternion_arguments, moved, subject.device, strided)
        ternion.manual_seed(3)
        return flat(called(subject.call, subject.function, *arguments.args, **arguments.kwargs)), arguments

    def weighted_sum(moved):
        outputs, _ = outputs_of(moved)
        return sum((torch_of(outputs[index]).double() * weights.double()).sum().item() for index, weights in known.cotangents.items())

    outputs, arguments = outputs_of(sample)
    is_flat = not any(gradient.any() for gradient in known.own)
    if is_flat and not any(outputs[index].requires_grad for index in known.cotangents):
        return  # The random numbers are not a function of the inputs: bernoulli, normal.
    result = []
    for index, gradient in enumerate(_of_outputs(outputs, arguments.leaves, known.cotangents, subject.device)):
        tensor, difference = drawn_gradients.converted(gradient, reference.arguments.leaves[index], index)
        result.append(tensor)
        if difference:
            raise Failed(*difference)
    if is_flat:
        difference = (GRADIENT, "a gradient, expected none: it is 0") if any(gradient.any() for gradient in result) else None
    else:
        difference = drawn_gradients.difference(weighted_sum, sample, result)
    if difference:
        raise Failed(*difference)
