"""Models: multilayer perceptrons with scikit-learn's interface, transformers that generate text,
and residual networks.
"""

from ._estimator import NotFittedError
from .gpt import GPT, TextLoss
from .mlp import MLP
from .network import NeuralNetwork
from .resnet import ResNet, ResNet18

__all__ = ["GPT", "MLP", "NeuralNetwork", "NotFittedError", "ResNet", "ResNet18", "TextLoss"]


def __dir__() -> list[str]:
    return __all__
