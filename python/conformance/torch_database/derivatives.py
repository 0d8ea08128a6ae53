"""If Ternion's gradient differs from PyTorch's, decides which one is the derivative, by differences
of PyTorch's function in float64.

Some of PyTorch's gradients are not the derivative of its function, such as that of `ctc_loss`,
which is correct only after a `log_softmax`, or those of triangles of a matrix that are never read.
For a function of symmetric matrices, which reads one triangle, both elements of a pair are changed
together, as PyTorch's own gradient checks do (`gradcheck_wrapper_hermitian_input`). At a point
without a derivative, where the differences to both sides disagree, nothing is decided.
"""

import torch

KIND = "not the derivative"

# How close to the differences a gradient computed in this dtype must be: relative to the element,
# and relative to the largest element, because sums have errors of that magnitude. In float64 either
# pair may decide. The second one is for piecewise linear functions, whose differences have almost
# all digits.
TOLERANCES = {
    torch.bfloat16: [(3e-2, 2e-3)],
    torch.float16: [(5e-3, 5e-4)],
    torch.float32: [(1e-3, 1e-4)],
    torch.float64: [(1e-6, 1e-6), (2e-9, 5e-11)],
}
STEP = 1e-5
# If the differences to both sides disagree by more than this fraction of the largest element, there
# is a kink.
KINK = 1e-2
# At this number of elements, those that differ most, PyTorch's gradient must be wrong. At the
# others, differences may have too few digits to decide.
MOST = 8
# At this number of elements, `actual` must be the derivative.
LOOKED_AT = 512


def decides(weighted_sum, leaf, wrong, actual, theirs, is_symmetric=False):
    """Returns True if, at the elements in `wrong`, the differences of `weighted_sum`, a function of
    `leaf`, agree with `actual`, and do not agree with PyTorch's gradient `theirs` where both differ
    most."""
    if theirs is None or not theirs.isfinite().all() or not actual.isfinite().all():
        return False
    return any(_decides(weighted_sum, leaf, wrong, actual, theirs, is_symmetric, tolerances) for tolerances in TOLERANCES[actual.dtype])


def _decides(weighted_sum, leaf, wrong, actual, theirs, is_symmetric, tolerances):
    of_element, of_largest = tolerances
    largest = actual.double().abs().max().item()
    indices = [tuple(int(index) for index in row) for row in torch.nonzero(wrong)] if wrong.ndim else [()]
    indices.sort(key=lambda index: -abs(actual[index].item() - theirs[index].item()))
    for number, index in enumerate(indices[:LOOKED_AT]):
        together = {index, (*index[:-2], index[-1], index[-2])} if is_symmetric else {index}
        difference = _difference(weighted_sum, leaf, together, KINK * largest)
        if difference is None:
            return False
        tolerance = of_element * abs(difference) + of_largest * largest
        ours, other = (sum(gradient[each].item() for each in together) for gradient in (actual, theirs))
        if abs(ours - difference) > tolerance or (number < MOST and abs(other - difference) <= 2 * tolerance):
            return False
    return True


def _difference(weighted_sum, leaf, together, separately):
    """Returns the central difference with respect to these elements, changed together, or None if
    the differences to both sides disagree by more than `apart`."""
    before = {index: leaf.detach()[index].item() for index in together}
    step = STEP * max([1.0, *map(abs, before.values())])

    def at(change):
        try:
            for index, value in before.items():
                leaf.detach()[index] = value + change
            return weighted_sum()
        finally:
            for index, value in before.items():
                leaf.detach()[index] = value

    low, middle, high = at(-step), at(0.0), at(step)
    if abs((high - middle) - (middle - low)) > step * separately:
        return None
    return (high - low) / (2 * step)
