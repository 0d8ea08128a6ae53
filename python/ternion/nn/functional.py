"""Functions of layers and losses, without parameters. Names, arguments and defaults are PyTorch's."""

from __future__ import annotations

from typing import Any

from .._ternion import Tensor, _sinusoidal
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


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Tensor:
    """Each vector along `dim` divided by its norm, which counts as `eps` if it is less."""
    return input / input.norm(p, dim, keepdim=True).clamp(min=eps)


def sinusoidal(positions: int, width: int, device: Any = None) -> Tensor:
    """Sines and cosines of positions (Vaswani et al. 2017, section 3.5): float32, [positions, width].

    Column `2 i` is `sin(position / 10000^(2 i / width))`, column `2 i + 1` its cosine.

    Raises:
        ValueError: an odd width.
    """
    return _sinusoidal(positions, width, device)


def binary_cross_entropy(input: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """Cross-entropy of probabilities; logarithms below -100 count as that, as in PyTorch."""
    losses = -(target * input.log().clamp(min=-100.0) + (1 - target) * (1 - input).log().clamp(min=-100.0))
    return {"none": lambda: losses, "mean": losses.mean, "sum": losses.sum}[reduction]()
