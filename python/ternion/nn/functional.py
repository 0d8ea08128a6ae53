"""Functions of layers and losses, without parameters. Names, arguments and defaults are PyTorch's."""

from .._ternion import Tensor
from .._ternion import _functional as _native
globals().update({name: function for name, function in vars(_native).items() if not name.startswith("_")})

relu = Tensor.relu
gelu = Tensor.gelu
silu = Tensor.silu
elu = Tensor.elu
leaky_relu = Tensor.leaky_relu
softplus = Tensor.softplus
sigmoid = Tensor.sigmoid
tanh = Tensor.tanh
softmax = Tensor.softmax
log_softmax = Tensor.log_softmax
logsigmoid = Tensor.logsigmoid

linear = _native.linear


def normalize(input, p=2.0, dim=1, eps=1e-12):
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def binary_cross_entropy(input, target, reduction="mean"):
    """Cross-entropy of probabilities; logarithms below -100 count as that, as in PyTorch."""
    losses = -(target * input.log().clamp(min=-100.0) + (1 - target) * (1 - input).log().clamp(min=-100.0))
    return {"none": lambda: losses, "mean": losses.mean, "sum": losses.sum}[reduction]()
