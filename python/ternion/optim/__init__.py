"""Optimisers, schedules of the learning rate, and averages of weights. Names, arguments and defaults are PyTorch's.

`step()` takes a parameter without a gradient for a mistake: it warns and names it, once; with `strict=True` it raises an error.
"""

from . import lr_scheduler, swa_utils  # noqa: F401
from .lr_scheduler import *  # noqa: F401,F403
from .optimizers import SGD, Adagrad, Adam, AdamW, Lion, Muon, Optimizer, RMSprop  # noqa: F401
from .swa_utils import Ema  # noqa: F401
