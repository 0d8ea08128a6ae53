"""Optimizers, learning-rate schedules, and averages of parameters. Names, arguments and defaults
are PyTorch's.

A parameter without a gradient is treated as a mistake: `step()` warns once and names it; with
`strict=True` it raises an error.
"""

from .._error_messages import reject_gradients as _reject_gradients
from . import lr_scheduler as lr_scheduler, swa_utils as swa_utils
from .lr_scheduler import *  # noqa: F401,F403
from .optimizer import Optimizer as Optimizer
from .optimizers import SGD as SGD, Adagrad as Adagrad, Adam as Adam, AdamW as AdamW, Lion as Lion, Muon as Muon, RMSprop as RMSprop
from .swa_utils import Ema as Ema

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Ema", "Lion", "Muon", "Optimizer", "RMSprop", "lr_scheduler", "swa_utils"]
__all__ += lr_scheduler.__all__

_reject_gradients(Optimizer, lr_scheduler.LRScheduler, lr_scheduler.ReduceLROnPlateau, Ema)


def __dir__() -> list[str]:
    return __all__
