"""Models: a classic one with the habits of scikit-learn, transformers that write, residual networks."""

from .gpt import GPT, TextLoss  # noqa: F401
from .mlp import MLP  # noqa: F401
from .resnet import ResNet, ResNet18  # noqa: F401
