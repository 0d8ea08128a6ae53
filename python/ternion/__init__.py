"""Ternion: deep learning with numbers you can trust. One model, three backends: the processor, CUDA and wgpu.

    import ternion

    x = ternion.randn(3, 4, requires_grad=True)
    loss = (x @ ternion.ones(4, 2)).relu().sum()
    loss.backward()
    print(x.grad)

Names and meanings are PyTorch's. Layers are in `ternion.nn`, whole models in `ternion.models`, optimisers in `ternion.optim`, data sets in
`ternion.data`, checkpoints of trainings in `ternion.train`.
"""

from __future__ import annotations

import math as _math
import os as _os

from . import _ternion
from ._capture import CapturedStep, capture  # noqa: F401
from ._checks import Stats, check, stats  # noqa: F401
from ._random import get_rng_state, set_rng_state  # noqa: F401
from ._scopes import enable_grad, no_grad, set_grad_enabled
from ._ternion import *  # noqa: F401,F403  The native functions: creation, dtypes, devices.
from ._ternion import Tensor, device, dtype  # noqa: F401  Named, for readers and tools.

__version__ = _ternion.__version__

# From here on float, abs, sum and their like are those of this module.
inf = _math.inf
nan = _math.nan
pi = _math.pi
newaxis = None

# Methods that are functions, too: ternion.exp(x) is x.exp().
_METHODS = """
abs acos add addcmul addmm all allclose amax amin any argmax argmin argsort asin atan atan2 bernoulli bincount bmm ceil chunk clamp clip cos cosh cumsum
div dot elu eq equal erf exp expm1 flatten flip floor floor_divide gather ge gelu gt histc index_add index_select isclose isfinite isinf isnan le
leaky_relu log log10 log1p log2 log_softmax logical_and logical_not logical_or logical_xor logsumexp lt masked_fill masked_scatter masked_select
matmul max maximum mean min minimum mm mul mv narrow ne neg nonzero norm outer permute pow prod reciprocal relu remainder reshape roll round rsqrt
scatter scatter_add select sigmoid sign silu sin sinh softmax softplus sort split sqrt square squeeze std sub sum t tan tanh topk transpose tril triu
trunc unbind unflatten unsqueeze var
""".split()
for _name in _METHODS:
    globals()[_name] = getattr(Tensor, _name)
del _name

absolute = abs
subtract = sub
multiply = mul
divide = div
negative = neg
concatenate = cat


def is_tensor(obj) -> bool:
    """Whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def seed(number: int) -> None:
    """`manual_seed`."""
    manual_seed(number)


# Threads and devices do not survive a fork: the child is told when it tries to use them.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_ternion._forked)

from . import amp, data, models, nn, optim, testing, train, utils  # noqa: E402,F401
from ._files import load, save  # noqa: E402,F401
from .amp import autocast, is_autocast_enabled  # noqa: E402,F401
from .utils.checkpoint import checkpoint  # noqa: E402,F401
