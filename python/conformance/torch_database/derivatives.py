"""Whether PyTorch's gradient is the derivative, where Ternion's differs from it: differences of PyTorch's own function in float64 decide.

Some of PyTorch's gradients are not the derivative of its function, such as that of `ctc_loss`, which is right behind a `log_softmax` only, or those of
triangles of a matrix that are never read. At a point without a derivative, where the differences to both sides disagree, nothing is decided.
"""

import torch

KIND = "not the derivative"

# Relative to the largest element of the gradient: how near the differences a gradient must be that was computed in this dtype.
TOLERANCES = {torch.bfloat16: 3e-2, torch.float16: 5e-3, torch.float32: 1e-3, torch.float64: 1e-5}
STEP = 1e-5
# Elements that are looked at.
MOST = 8


def decides(weighted_sum, leaf, wrong, found, theirs):
    """True if at all elements that are wrong by PyTorch's gradient `theirs` the differences of `weighted_sum`, a function of `leaf`, agree with `found`
    and not with `theirs`."""
    if theirs is None or not theirs.isfinite().all() or not found.isfinite().all():
        return False
    tolerance = TOLERANCES[found.dtype] * max(theirs.abs().max().item(), found.double().abs().max().item())
    places = [tuple(int(index) for index in place) for place in torch.nonzero(wrong)] if wrong.ndim else [()]
    for place in places[:: -(-len(places) // MOST)]:
        slope = _difference(weighted_sum, leaf, place, tolerance)
        if slope is None or abs(found[place].item() - slope) > tolerance or abs(theirs[place].item() - slope) <= 2 * tolerance:
            return False
    return True


def _difference(weighted_sum, leaf, place, tolerance):
    """The central difference by one element; None if those to both sides disagree."""
    before = leaf.detach()[place].item()
    step = STEP * max(1.0, abs(before))

    def at(value):
        leaf.detach()[place] = value
        try:
            return weighted_sum()
        finally:
            leaf.detach()[place] = before

    low, middle, high = at(before - step), at(before), at(before + step)
    if abs((high - middle) - (middle - low)) > step * tolerance:
        return None
    return (high - low) / (2 * step)
