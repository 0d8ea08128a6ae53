"""Ternion: deep learning with numbers you can trust. One model, three backends: CPU, CUDA and wgpu.

    import ternion

    x = ternion.randn(3, 4, requires_grad=True)
    loss = (x @ ternion.ones(4, 2)).relu().sum()
    loss.backward()
    print(x.grad)

Names and semantics are PyTorch's. Layers are in `ternion.nn`, whole models in `ternion.models`,
optimizers in `ternion.optim`, data sets in `ternion.data`, checkpoints of training runs in
`ternion.train`.
"""

from __future__ import annotations

import math as _math
import os as _os

from . import _ternion
from ._capture import CapturedStep, capture  # noqa: F401
from ._checks import Stats, check, stats  # noqa: F401
from ._error_messages import named as _named
from ._functions import ALIASES as _ALIASES, FUNCTIONS as _FUNCTIONS, _find_function
from ._functions.constructors import CONSTRUCTORS as _CONSTRUCTORS
from ._functions.kinds import layout, strided  # noqa: F401
from ._functions.methods import function_of as _function_of
from ._random import get_rng_state, set_rng_state  # noqa: F401
from ._scopes import enable_grad, inference_mode, no_grad, set_grad_enabled  # noqa: F401
from ._size import Size  # noqa: F401
from ._ternion import *  # noqa: F401,F403  The native functions: creation, dtypes, devices.
from ._ternion import Tensor, device, dtype  # noqa: F401  Named, for readers and tools.

__version__ = _ternion.__version__

# From here on float, abs, sum and similar names refer to those of this module.
inf = _math.inf
nan = _math.nan
pi = _math.pi
e = _math.e
newaxis = None

# Methods that are also functions: ternion.add(x, y) is x.add(y). The elementwise methods without
# other arguments are listed by the binding.
_METHODS = """
acos acosh add addbmm addcmul addmm addmv addr all allclose amax amin any argmax argmin argsort asin asinh atan2 atanh baddbmm bernoulli bincount bmm ceil chunk clamp clip clone cosh cumsum detach
digamma div dot elu eq equal erfc erfinv exp2 flatten flip floor floor_divide fmax fmin fmod gather ge gelu gt histc i0 index_add index_select isclose isfinite isinf isnan le
leaky_relu lgamma log_softmax logical_and logical_not logical_or logical_xor logit logsumexp lt masked_fill masked_scatter masked_select
matmul max maximum mean min minimum mm mul mv mvlgamma narrow ne nonzero outer permute pow prod remainder reshape roll
scatter scatter_add select sign sinc sinh softmax softplus sort square squeeze std sub sum t tan topk transpose tril triu
trunc unbind unflatten unsqueeze var
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd lcm
""".split()
_METHODS += _ternion._ELEMENTWISE_METHODS
for _name in _METHODS:
    globals()[_name] = _function_of(_name)
globals().update(_CONSTRUCTORS)
for _name in _FUNCTIONS:
    globals()[_name] = _find_function(_name)
for _name, _known in _ALIASES.items():
    globals()[_name] = globals()[_known]
del _name, _known

concatenate = cat
row_stack = vstack
trapz = trapezoid


class memory_format:
    """A memory format, for compatibility with PyTorch. Functions accept it, but elements stay in
    row-major order.
    """

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"ternion.{self._name}"


contiguous_format, preserve_format, channels_last = (memory_format(name) for name in ("contiguous_format", "preserve_format", "channels_last"))


@_named
def numel(input: Tensor) -> int:
    """Returns the number of elements."""
    return input.numel()


def is_tensor(obj) -> bool:
    """Returns whether `obj` is a tensor."""
    return isinstance(obj, Tensor)


def initial_seed() -> int:
    """Returns the seed of the random numbers of the default device."""
    return get_rng_state()[0]


def seed(number: int | None = None) -> int:
    """Calls `manual_seed`, by default with a nondeterministic seed, and returns the seed."""
    number = Generator().seed() if number is None else number
    manual_seed(number)
    return number


# Threads and devices do not survive a fork: using them in the child process raises an error.
if hasattr(_os, "register_at_fork"):
    _os.register_at_fork(after_in_child=_ternion._forked)

from . import amp, autograd, cuda, data, formats, linalg, metrics, models, nn, optim, signal, special, testing, train, utils  # noqa: E402,F401
# Functions of `nn.functional` that PyTorch has at the top level, too.
_OF_LAYERS = """
adaptive_avg_pool1d avg_pool1d bilinear channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d cosine_similarity hardshrink
pairwise_distance pdist pixel_shuffle pixel_unshuffle rms_norm
""".split()
for _name in _OF_LAYERS:
    globals()[_name] = getattr(nn.functional, _name)
del _name
# Functions whose arguments differ at the top level.
from .nn._top_level import *  # noqa: E402,F401,F403

from ._files import load, save  # noqa: E402,F401
from .amp import autocast, is_autocast_enabled  # noqa: E402,F401
from .utils.checkpoint import checkpoint  # noqa: E402,F401

del annotations
