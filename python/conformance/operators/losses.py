"""Classification losses."""

from ternion.nn import functional

from .table import operator

# The value of `ignore_index` that ignores no class, as in PyTorch.
NOTHING = -100


@operator("NegativeLogLikelihoodLoss")
def nll_loss(node, x, target, weight=None):
    ignored = node.attribute("ignore_index", NOTHING)
    return functional.nll_loss(x, target, weight, ignore_index=ignored, reduction=node.attribute("reduction", "mean"))


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(node, x, target, weight=None):
    """Also returns the log-probabilities, if the model uses them."""
    ignored = node.attribute("ignore_index", NOTHING)
    loss = functional.cross_entropy(x, target, weight, ignore_index=ignored, reduction=node.attribute("reduction", "mean"))
    return (loss, x.log_softmax(1)) if node.wants(1) else loss
