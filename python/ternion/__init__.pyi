"""Written by python/stubs.py."""

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Sequence
from typing import Any, overload

from . import amp as amp, autograd as autograd, cuda as cuda, data as data, formats as formats, linalg as linalg, metrics as metrics, models as models, nn as nn, optim as optim, signal as signal, special as special, testing as testing, train as train, utils as utils
from ._files import load as load, save as save
from ._random import get_rng_state as get_rng_state, set_rng_state as set_rng_state
from ._capture import CapturedStep as CapturedStep, capture as capture
from ._checks import Stats as Stats, check as check, stats as stats
from .amp import autocast as autocast, is_autocast_enabled as is_autocast_enabled
from .utils.checkpoint import checkpoint as checkpoint
from ._scopes import enable_grad as enable_grad, inference_mode as inference_mode, no_grad as no_grad, set_grad_enabled as set_grad_enabled
from ._size import Size as Size
from ._functions.kinds import layout as layout, strided as strided
from ._functions.arithmetic import addcdiv as addcdiv
from ._functions.arithmetic import clamp_max as clamp_max
from ._functions.arithmetic import clamp_min as clamp_min
from ._functions.arithmetic import copysign as copysign
from ._functions.arithmetic import deg2rad as deg2rad
from ._functions.arithmetic import float_power as float_power
from ._functions.arithmetic import frac as frac
from ._functions.arithmetic import frexp as frexp
from ._functions.arithmetic import heaviside as heaviside
from ._functions.arithmetic import hypot as hypot
from ._functions.arithmetic import inner as inner
from ._functions.arithmetic import isneginf as isneginf
from ._functions.arithmetic import isposinf as isposinf
from ._functions.arithmetic import ldexp as ldexp
from ._functions.arithmetic import lerp as lerp
from ._functions.arithmetic import logaddexp as logaddexp
from ._functions.arithmetic import logaddexp2 as logaddexp2
from ._functions.arithmetic import nan_to_num as nan_to_num
from ._functions.arithmetic import positive as positive
from ._functions.arithmetic import prelu as prelu
from ._functions.arithmetic import rad2deg as rad2deg
from ._functions.arithmetic import round as round
from ._functions.arithmetic import rsub as rsub
from ._functions.arithmetic import signbit as signbit
from ._functions.arithmetic import tensordot as tensordot
from ._functions.shapes import adjoint as adjoint
from ._functions.shapes import atleast_1d as atleast_1d
from ._functions.shapes import atleast_2d as atleast_2d
from ._functions.shapes import atleast_3d as atleast_3d
from ._functions.shapes import block_diag as block_diag
from ._functions.shapes import broadcast_shapes as broadcast_shapes
from ._functions.shapes import broadcast_tensors as broadcast_tensors
from ._functions.shapes import broadcast_to as broadcast_to
from ._functions.shapes import cartesian_prod as cartesian_prod
from ._functions.shapes import column_stack as column_stack
from ._functions.shapes import combinations as combinations
from ._functions.shapes import diag as diag
from ._functions.shapes import diag_embed as diag_embed
from ._functions.shapes import diagflat as diagflat
from ._functions.shapes import diagonal as diagonal
from ._functions.shapes import dsplit as dsplit
from ._functions.shapes import dstack as dstack
from ._functions.shapes import fliplr as fliplr
from ._functions.shapes import flipud as flipud
from ._functions.shapes import hsplit as hsplit
from ._functions.shapes import hstack as hstack
from ._functions.shapes import meshgrid as meshgrid
from ._functions.shapes import movedim as movedim
from ._functions.shapes import narrow_copy as narrow_copy
from ._functions.shapes import ravel as ravel
from ._functions.shapes import repeat_interleave as repeat_interleave
from ._functions.shapes import rot90 as rot90
from ._functions.shapes import split as split
from ._functions.shapes import split_with_sizes as split_with_sizes
from ._functions.shapes import swapaxes as swapaxes
from ._functions.shapes import swapdims as swapdims
from ._functions.shapes import tensor_split as tensor_split
from ._functions.shapes import tile as tile
from ._functions.shapes import trace as trace
from ._functions.shapes import tril_indices as tril_indices
from ._functions.shapes import triu_indices as triu_indices
from ._functions.shapes import unravel_index as unravel_index
from ._functions.shapes import vsplit as vsplit
from ._functions.shapes import vstack as vstack
from ._functions.matrices import as_strided as as_strided
from ._functions.matrices import as_strided_scatter as as_strided_scatter
from ._functions.matrices import cdist as cdist
from ._functions.matrices import diagonal_scatter as diagonal_scatter
from ._functions.matrices import kron as kron
from ._functions.matrices import select_scatter as select_scatter
from ._functions.matrices import slice_scatter as slice_scatter
from ._functions.matrices import vdot as vdot
from ._functions.reductions import aminmax as aminmax
from ._functions.reductions import corrcoef as corrcoef
from ._functions.reductions import count_nonzero as count_nonzero
from ._functions.reductions import cov as cov
from ._functions.reductions import cummax as cummax
from ._functions.reductions import cummin as cummin
from ._functions.reductions import cumprod as cumprod
from ._functions.reductions import cumulative_trapezoid as cumulative_trapezoid
from ._functions.reductions import diff as diff
from ._functions.reductions import dist as dist
from ._functions.reductions import gradient as gradient
from ._functions.reductions import histogram as histogram
from ._functions.reductions import kthvalue as kthvalue
from ._functions.reductions import logcumsumexp as logcumsumexp
from ._functions.reductions import median as median
from ._functions.reductions import mode as mode
from ._functions.reductions import msort as msort
from ._functions.reductions import nanmean as nanmean
from ._functions.reductions import nanmedian as nanmedian
from ._functions.reductions import nanquantile as nanquantile
from ._functions.reductions import nansum as nansum
from ._functions.reductions import norm as norm
from ._functions.reductions import quantile as quantile
from ._functions.reductions import renorm as renorm
from ._functions.reductions import std_mean as std_mean
from ._functions.reductions import trapezoid as trapezoid
from ._functions.reductions import unique as unique
from ._functions.reductions import unique_consecutive as unique_consecutive
from ._functions.reductions import var_mean as var_mean
from ._functions.indexing import argwhere as argwhere
from ._functions.indexing import bucketize as bucketize
from ._functions.indexing import index_copy as index_copy
from ._functions.indexing import index_fill as index_fill
from ._functions.indexing import index_put as index_put
from ._functions.indexing import index_reduce as index_reduce
from ._functions.indexing import isin as isin
from ._functions.indexing import put as put
from ._functions.indexing import scatter_reduce as scatter_reduce
from ._functions.indexing import searchsorted as searchsorted
from ._functions.indexing import take as take
from ._functions.indexing import take_along_dim as take_along_dim
from ._functions.creation import BFloat16Tensor as BFloat16Tensor
from ._functions.creation import BoolTensor as BoolTensor
from ._functions.creation import ByteTensor as ByteTensor
from ._functions.creation import CharTensor as CharTensor
from ._functions.creation import DoubleTensor as DoubleTensor
from ._functions.creation import FloatTensor as FloatTensor
from ._functions.creation import HalfTensor as HalfTensor
from ._functions.creation import IntTensor as IntTensor
from ._functions.creation import LongTensor as LongTensor
from ._functions.creation import ShortTensor as ShortTensor
from ._functions.creation import asarray as asarray
from ._functions.creation import fill as fill
from ._functions.creation import logspace as logspace
from ._functions.creation import multinomial as multinomial
from ._functions.creation import normal as normal
from ._functions.creation import randint_like as randint_like
from ._functions.creation import scalar_tensor as scalar_tensor
from ._functions.kinds import can_cast as can_cast
from ._functions.kinds import conj as conj
from ._functions.kinds import finfo as finfo
from ._functions.kinds import get_device as get_device
from ._functions.kinds import get_float32_matmul_precision as get_float32_matmul_precision
from ._functions.kinds import iinfo as iinfo
from ._functions.kinds import is_complex as is_complex
from ._functions.kinds import is_floating_point as is_floating_point
from ._functions.kinds import is_nonzero as is_nonzero
from ._functions.kinds import is_same_size as is_same_size
from ._functions.kinds import is_signed as is_signed
from ._functions.kinds import isreal as isreal
from ._functions.kinds import promote_types as promote_types
from ._functions.kinds import real as real
from ._functions.kinds import result_type as result_type
from ._functions.kinds import set_float32_matmul_precision as set_float32_matmul_precision
from ._functions.kinds import typename as typename
from ._functions.linalg import chain_matmul as chain_matmul
from ._functions.linalg import cholesky as cholesky
from ._functions.linalg import cholesky_inverse as cholesky_inverse
from ._functions.linalg import cholesky_solve as cholesky_solve
from ._functions.linalg import cross as cross
from ._functions.linalg import det as det
from ._functions.linalg import inverse as inverse
from ._functions.linalg import logdet as logdet
from ._functions.linalg import lu as lu
from ._functions.linalg import lu_solve as lu_solve
from ._functions.linalg import lu_unpack as lu_unpack
from ._functions.linalg import matrix_exp as matrix_exp
from ._functions.linalg import matrix_power as matrix_power
from ._functions.linalg import orgqr as orgqr
from ._functions.linalg import pinverse as pinverse
from ._functions.linalg import qr as qr
from ._functions.linalg import slogdet as slogdet
from ._functions.linalg import svd as svd
from ._functions.linalg import triangular_solve as triangular_solve
from ._functions.linalg import vander as vander
from ._functions.special import polygamma as polygamma
from ._functions.special import xlogy as xlogy
from ._functions.windows import bartlett_window as bartlett_window
from ._functions.windows import blackman_window as blackman_window
from ._functions.windows import hamming_window as hamming_window
from ._functions.windows import hann_window as hann_window
from ._functions.windows import kaiser_window as kaiser_window
from .nn.functional import adaptive_avg_pool1d as adaptive_avg_pool1d
from .nn.functional import avg_pool1d as avg_pool1d
from .nn.functional import bilinear as bilinear
from .nn.functional import channel_shuffle as channel_shuffle
from .nn.functional import conv1d as conv1d
from .nn.functional import conv2d as conv2d
from .nn.functional import conv3d as conv3d
from .nn.functional import conv_transpose1d as conv_transpose1d
from .nn.functional import conv_transpose2d as conv_transpose2d
from .nn.functional import conv_transpose3d as conv_transpose3d
from .nn.functional import cosine_similarity as cosine_similarity
from .nn.functional import hardshrink as hardshrink
from .nn.functional import pairwise_distance as pairwise_distance
from .nn.functional import pdist as pdist
from .nn.functional import pixel_shuffle as pixel_shuffle
from .nn.functional import pixel_unshuffle as pixel_unshuffle
from .nn.functional import rms_norm as rms_norm
from .nn._top_level import adaptive_max_pool1d as adaptive_max_pool1d
from .nn._top_level import alpha_dropout as alpha_dropout
from .nn._top_level import batch_norm as batch_norm
from .nn._top_level import binary_cross_entropy_with_logits as binary_cross_entropy_with_logits
from .nn._top_level import celu as celu
from .nn._top_level import cosine_embedding_loss as cosine_embedding_loss
from .nn._top_level import ctc_loss as ctc_loss
from .nn._top_level import dropout as dropout
from .nn._top_level import embedding as embedding
from .nn._top_level import embedding_bag as embedding_bag
from .nn._top_level import feature_alpha_dropout as feature_alpha_dropout
from .nn._top_level import group_norm as group_norm
from .nn._top_level import hinge_embedding_loss as hinge_embedding_loss
from .nn._top_level import instance_norm as instance_norm
from .nn._top_level import kl_div as kl_div
from .nn._top_level import layer_norm as layer_norm
from .nn._top_level import margin_ranking_loss as margin_ranking_loss
from .nn._top_level import max_pool1d as max_pool1d
from .nn._top_level import max_pool2d as max_pool2d
from .nn._top_level import max_pool3d as max_pool3d
from .nn._top_level import poisson_nll_loss as poisson_nll_loss
from .nn._top_level import rrelu as rrelu
from .nn._top_level import selu as selu
from .nn._top_level import threshold as threshold
from .nn._top_level import triplet_margin_loss as triplet_margin_loss
from ._ternion import DTypeLike, DeviceLike, Number, Operand, Other, SizeLike, max as _max, min as _min, sort as _sort, topk as _topk
from ._ternion import Generator as Generator
from ._ternion import HookHandle as HookHandle
from ._ternion import Tensor as Tensor
from ._ternion import as_tensor as as_tensor
from ._ternion import binomial as binomial
from ._ternion import cat as cat
from ._ternion import concat as concat
from ._ternion import device as device
from ._ternion import devices as devices
from ._ternion import dtype as dtype
from ._ternion import einsum as einsum
from ._ternion import from_dlpack as from_dlpack
from ._ternion import from_numpy as from_numpy
from ._ternion import get_default_device as get_default_device
from ._ternion import get_default_dtype as get_default_dtype
from ._ternion import is_grad_enabled as is_grad_enabled
from ._ternion import manual_seed as manual_seed
from ._ternion import poisson as poisson
from ._ternion import set_default_device as set_default_device
from ._ternion import set_default_dtype as set_default_dtype
from ._ternion import stack as stack
from ._ternion import where as where

__version__: str
inf: _float
nan: _float
pi: _float
newaxis: None

def arange(start: Number, end: Number | None = None, step: Number | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Numbers from `start` up to, not including, `end`, `step` apart: `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.

    The dtype is int64 if all of them are whole numbers of Python, else float32.

    Shapes: -> [n]

    Raises:
        ValueError: a step of 0, or away from the end.
        TypeError: something that is no number.
    """
def empty(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False, memory_format: Any = None) -> Tensor:
    """A tensor whose contents nobody has decided: zeros here.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: a negative size.
        TypeError: sizes that are no whole numbers, a gradient for no floating dtype.
    """
def empty_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """A tensor of the shape, dtype and device of `input` whose contents nobody has decided: zeros here.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor, a dtype that does not fit.
    """
def eye(n: _int, m: _int | None = None, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Ones on the diagonal of a matrix of `n` rows and `m` columns, by default as many, and zeros elsewhere.

    Shapes: -> [n, m]

    Raises:
        ValueError: a negative size.
    """
def full(size: SizeLike, fill_value: Number | Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """A tensor of one value.

    Shapes: -> [*size]

    Args:
        size: the sizes, a tuple.
        fill_value: the value.
        dtype: that of the value by default: float32, int64 or bool.
        device: by default that of get_default_device().

    Raises:
        TypeError: a value that is no number.
        ValueError: a negative size.
    """
def full_like(input: Tensor, fill_value: Number | Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """One value in the shape, dtype and on the device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a value that is no number.
    """
def linspace(start: _float, end: _float, steps: _int, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, evenly apart; of integers the fractions of both ends are cut off, then those of the numbers.

    Shapes: -> [steps]

    Raises:
        ValueError: a negative number of steps.
    """
def ones(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """A tensor of ones.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: a negative size.
        TypeError: sizes that are no whole numbers, a gradient for no floating dtype.
    """
def ones_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Ones of the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor, a dtype that does not fit.
    """
def rand(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Random numbers from 0 up to, not including, 1.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        generator: where the numbers come from; the device's own by default.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: a negative size.
        TypeError: no floating dtype, a generator that is none.
    """
def rand_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False, generator: Generator | None = None) -> Tensor:
    """Random numbers from 0 up to, not including, 1, of the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor, a dtype that does not fit.
    """
def randint(low: _int | None = None, high: Any = None, size: SizeLike | None = None, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Random whole numbers from `low` up to, not including, `high`: `randint(high, size)`, `randint(low, high, size)`.

    Shapes: -> [*size]

    Raises:
        ValueError: no whole number from `low` up to `high`, one that the dtype does not hold: truth values are 0 and 1.
        TypeError: no size.
    """
def randn(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Random numbers of a normal distribution with mean 0 and variance 1.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        generator: where the numbers come from; the device's own by default.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: a negative size.
        TypeError: no floating dtype, a generator that is none.
    """
def randn_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False, generator: Generator | None = None) -> Tensor:
    """Random numbers of a normal distribution, of the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor, a dtype that does not fit.
    """
def randperm(n: _int, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """The numbers from 0 up to, not including, `n` in random order, int64.

    Shapes: -> [n]

    Raises:
        ValueError: a negative number.
    """
def tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, pin_memory: _bool = False) -> Tensor:
    """A tensor with these values: a number, nested lists of numbers, an array of NumPy or a tensor, which is copied.

    Shapes: a number -> []; m lists of n numbers -> [m, n]

    Args:
        data: the values.
        dtype: that of the values by default; float32 for numbers of Python with a point, int64 for those without.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: lists of different lengths, a number that the dtype does not hold.
        TypeError: something that is no number.
    """
def zeros(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """A tensor of zeros.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: a negative size.
        TypeError: sizes that are no whole numbers, a gradient for no floating dtype.
    """
def zeros_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is no tensor, a dtype that does not fit.
    """
def abs(input: Tensor) -> Tensor:
    """The absolute value of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input of truth values.
    """
def acos(input: Tensor) -> Tensor:
    """The angle of each element's cosine, from 0 to pi.

    Shapes: [..] -> the same; integers become float32
    """
def acosh(input: Tensor) -> Tensor:
    """The number of at least 0 whose hyperbolic cosine each element is; NaN below 1.

    Shapes: [..] -> the same; integers become float32
    """
def add(input: Tensor, other: Other, *, alpha: Number | None = None) -> Tensor:
    """The sum of this tensor and `alpha` times another, or a number, broadcast.

    Raises:
        ValueError: shapes that do not broadcast, tensors on different devices.
        TypeError: an `alpha` with a point for whole numbers, or a truth value for numbers.
    """
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """`beta * self + alpha * sum(batch1 @ batch2)`, summed over the batch, self broadcast.

    Shapes: self broadcast to [m, n], [b, m, k] x [b, k, n] -> [m, n]

    With `beta` 0 it does not matter what this tensor holds. Half precision is rounded once; factors of integers are whole.

    Raises:
        ValueError: shapes that do not fit, factors of integers that are not whole.
        TypeError: dtypes that differ.
    """
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _float = 1.0) -> Tensor:
    """`self + value * tensor1 * tensor2`, broadcast.

    Shapes: three tensors, broadcast -> the shape that they have together

    Raises:
        TypeError: dtypes that differ.
    """
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """`beta * self + alpha * (mat1 @ mat2)`, self broadcast.

    Shapes: self broadcast to [m, n], [m, k] x [k, n] -> [m, n]

    Raises:
        ValueError: shapes that do not fit.
        TypeError: dtypes that differ.
    """
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """`beta * self + alpha * (mat @ vec)`, self broadcast.

    Shapes: self broadcast to [m], [m, k] x [k] -> [m]

    With `beta` 0 it does not matter what this tensor holds. Half precision is rounded once; factors of integers are whole.

    Raises:
        ValueError: shapes that do not fit, factors of integers that are not whole.
        TypeError: dtypes that differ.
    """
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """`beta * self + alpha * outer(vec1, vec2)`, self broadcast.

    Shapes: self broadcast to [m, n], [m] and [n] -> [m, n]

    With `beta` 0 it does not matter what this tensor holds. Half precision is rounded once; factors of integers are whole.

    Raises:
        ValueError: shapes that do not fit, factors of integers that are not whole.
        TypeError: dtypes that differ.
    """
def all(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Whether all elements over axes are true, or not 0; with `dim=()` whether each is, as in PyTorch.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> _bool:
    """Whether all elements are near those of `other`: `|a - b| <= atol + rtol * |b|`.

    Raises:
        ValueError: a tolerance below 0, shapes that do not broadcast.
    """
def amax(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """The largest element over axes; equals share the gradient.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def amin(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """The smallest element over axes; equals share the gradient.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def any(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Whether any element over axes is true, or not 0; with `dim=()` whether each is, as in PyTorch.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """The index of the first largest element, of all of them in row-major order, or along `dim`; int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements.
        TypeError: an input of truth values.
    """
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """The index of the first smallest element, of all of them in row-major order, or along `dim`; int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements.
        TypeError: an input of truth values.
    """
def argsort(input: Tensor, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> Tensor:
    """Where the elements are that come first, second and so on in order along `dim`; int64.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
    """
def asin(input: Tensor) -> Tensor:
    """The angle of each element's sine, from -pi/2 to pi/2.

    Shapes: [..] -> the same; integers become float32
    """
def asinh(input: Tensor) -> Tensor:
    """The number whose hyperbolic sine each element is.

    Shapes: [..] -> the same; integers become float32
    """
def atan(input: Tensor) -> Tensor:
    """The angle of each element's tangent, from -pi/2 to pi/2.

    Shapes: [..] -> the same; integers become float32
    """
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """The angle of the points (other, self), in radians, broadcast.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: `other` is no tensor.
    """
def atanh(input: Tensor) -> Tensor:
    """The number whose hyperbolic tangent each element is; NaN outside -1 to 1.

    Shapes: [..] -> the same; integers become float32
    """
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """`beta * self + alpha * (batch1 @ batch2)`, self broadcast.

    Shapes: self broadcast to [b, m, n], [b, m, k] x [b, k, n] -> [b, m, n]

    With `beta` 0 it does not matter what this tensor holds. Half precision is rounded once; factors of integers are whole.

    Raises:
        ValueError: shapes that do not fit, factors of integers that are not whole.
        TypeError: dtypes that differ.
    """
def bernoulli(input: Tensor, p: _float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element is, or with probability `p`, else 0; of the same dtype. No gradient flows.

    Shapes: [..] -> the same

    Raises:
        ValueError: a number outside 0 to 1, or NaN, on the processor: of a device that would mean to wait for it.
        TypeError: no floating dtype, and no `p`.
    """
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """How often each number from 0 on occurs, int64; or the sum of the weights of the places where it does, float32 of such weights, else float64.

    Shapes: [n], weights [n] -> [numbers up to the largest, at least minlength]

    Raises:
        ValueError: another number of axes, a negative number, weights of another shape.
    """
def bitwise_and(input: Tensor, other: Other) -> Tensor:
    """The bits that both of each pair have; of truth values whether both are true.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_left_shift(input: Tensor, other: Other) -> Tensor:
    """`x << n`: times 2 to the power of n, wrapped; 0 by as many bits as there are or more, and by less than none, as in PyTorch.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_not(input: Tensor) -> Tensor:
    """All bits but those of each element; of truth values the other one.

    Shapes: [..] -> the same

    Raises:
        TypeError: floats.
    """
def bitwise_or(input: Tensor, other: Other) -> Tensor:
    """The bits that either of each pair has; of truth values whether either is true.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_right_shift(input: Tensor, other: Other) -> Tensor:
    """`x >> n`: divided by 2 to the power of n, rounded down; -1 or 0 by as many bits as there are or more, and by less than none, as in PyTorch.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_xor(input: Tensor, other: Other) -> Tensor:
    """The bits that one of each pair has; of truth values whether one alone is true.

    Shapes: [..] and what broadcasts to it -> the shape that they have together

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """The products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n].

    Raises:
        ValueError: other numbers of axes.
    """
def ceil(input: Tensor) -> Tensor:
    """The smallest whole number not below each element.

    Shapes: [..] -> the same
    """
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` equal parts of axis `dim`; of one without elements as many as are asked for.

    Shapes: [.., n, ..] -> a tuple of [.., size, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: 0 parts.
    """
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Each element, but at least `min` and at most `max`, which are numbers or tensors; NaN stays.

    Shapes: [..] -> the same; tensors as bounds are broadcast

    Raises:
        TypeError: a bound that is neither a number nor a tensor, truth values without numbers.
        ValueError: no bound, one that makes each element a number which the dtype does not hold, shapes that do not broadcast.
    """
def clip(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """`clamp`.

    Shapes and errors as of `clamp`
    """
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """A copy; gradients flow through it.

    Shapes: [..] -> the same
    """
def cos(input: Tensor) -> Tensor:
    """The cosine of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def cosh(input: Tensor) -> Tensor:
    """The hyperbolic cosine of each element.

    Shapes: [..] -> the same; integers become float32
    """
def cumsum(input: Tensor, dim: _int | None = None, *, dtype: DTypeLike | None = None, axis: _int | None = None) -> Tensor:
    """The sums of the elements up to each, along `dim`.

    Shapes: [.., n, ..] -> the same

    Args:
        dtype: what the elements are converted to first.
        axis: another name of dim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def detach(input: Tensor) -> Tensor:
    """The same memory without history: no gradient flows through it."""
def digamma(input: Tensor) -> Tensor:
    """The derivative of `lgamma` of each element: infinite at 0, NaN at negative whole numbers.

    Shapes: [..] -> the same; integers become float32
    """
def div(input: Tensor, other: Other, *, rounding_mode: str | None = None) -> Tensor:
    """This tensor divided by another, or a number, broadcast. Integers become float32 first.

    Args:
        rounding_mode: "floor" for whole numbers, as by `//`; "trunc" for those nearer to 0.
    """
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The sum of the products of the elements of two vectors.

    Shapes: [n] and [n] -> []

    Raises:
        ValueError: no vectors, or of different lengths.
        TypeError: dtypes that differ.
    """
def elu(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """`x` where it is positive, else `alpha * (e^x - 1)`.

    Shapes: [..] -> the same; integers become float32
    """
def eq(input: Tensor, other: Other) -> Tensor:
    """Where the elements are equal to those of `other`, a tensor or a number; broadcast."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Whether both have the same shape and the same elements."""
def erf(input: Tensor) -> Tensor:
    """The error function of each element.

    Shapes: [..] -> the same; integers become float32
    """
def erfc(input: Tensor) -> Tensor:
    """1 less the error function of each element, to the last digits where that is near 1.

    Shapes: [..] -> the same; integers become float32
    """
def erfinv(input: Tensor) -> Tensor:
    """The number whose error function each element is: infinite at -1 and 1, NaN outside.

    Shapes: [..] -> the same; integers become float32
    """
def exp(input: Tensor) -> Tensor:
    """`e^x` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def exp2(input: Tensor) -> Tensor:
    """2 to the power of each element.

    Shapes: [..] -> the same; integers become float32
    """
def expm1(input: Tensor) -> Tensor:
    """`e^x - 1` of each element, accurate near 0.

    Shapes: [..] -> the same; integers become float32
    """
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = ...) -> Tensor:
    """Axes from `start_dim` to `end_dim` as one.

    Shapes: [.., m, n, ..] -> [.., m * n, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a first axis behind the last.
    """
def flip(input: Tensor, *dims: SizeLike) -> Tensor:
    """The elements of these axes in reverse order.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an axis that is named twice.
    """
def floor(input: Tensor) -> Tensor:
    """The largest whole number not above each element.

    Shapes: [..] -> the same
    """
def floor_divide(input: Tensor, other: Other) -> Tensor:
    """The largest whole number not above the quotient, broadcast."""
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair of elements, broadcast; of a number and NaN the number. At ties this tensor has the gradient.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair of elements, broadcast; of a number and NaN the number. At ties this tensor has the gradient.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        ValueError: shapes that do not broadcast.
    """
def fmod(input: Tensor, other: Other) -> Tensor:
    """What is left over of this tensor by division, with its own sign; broadcast."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
    """The elements whose places along `dim` are in `index`, a tensor of as many axes.

    Shapes: [.., n, ..] and index [.., m, ..] -> [.., m, ..]

    Raises:
        IndexError: an axis that does not exist, an index outside it.
        TypeError: an index that is not int32 or int64.
        ValueError: an index of another number of axes, or larger elsewhere than along `dim`; a `sparse_grad`, which PyTorch alone has.
    """
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """The greatest common divisor of each pair; 0 of two zeros.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        TypeError: floats, `other` is no tensor.
        ValueError: shapes that do not broadcast.
    """
def ge(input: Tensor, other: Other) -> Tensor:
    """Where the elements are at least those of `other`."""
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """`x * Phi(x)`, with the exact distribution function, or by tanh if `approximate` is "tanh".

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: another name as `approximate`.
    """
def gt(input: Tensor, other: Other) -> Tensor:
    """Where the elements are greater than those of `other`."""
def histc(input: Tensor, bins: _int = 100, min: _float = 0.0, max: _float = 0.0) -> Tensor:
    """How many elements fall into each of `bins` equal parts of the range from `min` to `max`; if these are equal, from the smallest element to the largest.

    Shapes: [..] -> [bins]

    Raises:
        TypeError: no floating dtype.
        ValueError: no bins, ends in the wrong order or not finite.
    """
def i0(input: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | None = None) -> Tensor:
    """This tensor with the slices of `source`, times `alpha`, added to those along `dim` that `index` names; a place that is named twice gets both.

    Shapes: [.., n, ..], index [m] and source [.., m, ..] -> [.., n, ..]

    Raises:
        IndexError: an axis that does not exist, an index outside it.
        TypeError: an index that is not int32 or int64, a source of another dtype, an `alpha` with a point for whole numbers, or a truth value for numbers.
        ValueError: an index of several axes, a source of another shape.
    """
def index_select(input: Tensor, dim: _int, index: Tensor) -> Tensor:
    """The slices along `dim` that `index`, a tensor of one axis, names.

    Shapes: [.., n, ..] and index [m] -> [.., m, ..]

    Raises:
        IndexError: an axis that does not exist, an index outside it.
        TypeError: an index that is not int32 or int64.
        ValueError: an index of several axes.
    """
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> Tensor:
    """Where the elements are near those of `other`: `|a - b| <= atol + rtol * |b|`.

    Raises:
        ValueError: a tolerance below 0, shapes that do not broadcast.
    """
def isfinite(input: Tensor) -> Tensor:
    """Where the elements are neither infinite nor NaN."""
def isinf(input: Tensor) -> Tensor:
    """Where the elements are infinite."""
def isnan(input: Tensor) -> Tensor:
    """Where the elements are NaN."""
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """The least common multiple of each pair; 0 where either is 0.

    Shapes: two tensors, broadcast -> the shape that they have together

    Raises:
        TypeError: floats, `other` is no tensor.
        ValueError: shapes that do not broadcast.
    """
def le(input: Tensor, other: Other) -> Tensor:
    """Where the elements are at most those of `other`."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """`x` where it is positive, else `negative_slope * x`.

    Shapes: [..] -> the same; integers become float32
    """
def lgamma(input: Tensor) -> Tensor:
    """The logarithm of the size of the gamma function of each element: infinite at 0 and at negative whole numbers.

    Shapes: [..] -> the same; integers become float32
    """
def log(input: Tensor) -> Tensor:
    """The natural logarithm of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log10(input: Tensor) -> Tensor:
    """The logarithm to base 10 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log1p(input: Tensor) -> Tensor:
    """`log(1 + x)` of each element, accurate near 0.

    Shapes: [..] -> the same; integers become float32
    """
def log2(input: Tensor) -> Tensor:
    """The logarithm to base 2 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log_softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """The logarithm of `softmax` along `dim`, without loss.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Where both are true, or not 0."""
def logical_not(input: Tensor) -> Tensor:
    """`not x` of each truth value.

    Shapes: [..] -> the same
    """
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Where at least one is true, or not 0."""
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Where exactly one is true, or not 0."""
def logit(input: Tensor, eps: _float | None = None) -> Tensor:
    """`log(x / (1 - x))` of each element, which is kept from `eps` to `1 - eps` if that is given.

    Shapes: [..] -> the same; integers become float32
    """
def logsumexp(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """`log(sum(e^x))` over axes, without overflow. Integers become float32 first.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def lt(input: Tensor, other: Other) -> Tensor:
    """Where the elements are less than those of `other`."""
def masked_fill(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """The elements, but `value` where the mask is true; broadcast. A gradient flows to a `value` that is a tensor."""
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """This tensor with the elements of `source`, in turn, where the mask is true.

    Shapes: [..] and a mask that broadcasts to it -> [..]

    Raises:
        TypeError: a mask that is not bool, a source of another dtype.
        ValueError: a mask that does not fit, a source of too few elements.
    """
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """The elements where the mask is true, in row-major order, as one axis."""
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product.

    Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one axis is a row on the left, a column on the right.

    Raises:
        ValueError: sizes that do not fit.
    """
@overload
def max(input: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> _max: ...
@overload
def max(input: Tensor, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> _max: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """The larger of each pair of elements, broadcast; NaN if either is."""
def mean(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """The mean over axes; of floating dtypes (else a TypeError).

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        dtype: what the elements are converted to first.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
@overload
def min(input: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> _min: ...
@overload
def min(input: Tensor, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> _min: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """The smaller of each pair of elements, broadcast; NaN if either is."""
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: [m, k] x [k, n] -> [m, n].

    Raises:
        ValueError: other numbers of axes, inner sizes that differ.
    """
def mul(input: Tensor, other: Other) -> Tensor:
    """The product of this tensor and another, or a number, element by element, broadcast."""
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector: [m, k] x [k] -> [m].

    Raises:
        ValueError: other numbers of axes, inner sizes that differ.
    """
def mvlgamma(input: Tensor, p: _float) -> Tensor:
    """The logarithm of the gamma function of positive definite matrices of size `p`: `log(pi) p (p - 1) / 4` and the sum of `lgamma(x - i / 2)`
    over `i < p`.

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: a size below 1.
    """
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor:
    """`length` elements of axis `dim` from `start` on.

    Shapes: [.., n, ..] -> [.., length, ..]

    Raises:
        IndexError: an axis that does not exist, a start before the first element.
        ValueError: elements behind the last one, a negative length.
        TypeError: a start that is no whole number.
    """
def ne(input: Tensor, other: Other) -> Tensor:
    """Where the elements are not equal to those of `other`."""
def neg(input: Tensor) -> Tensor:
    """`-x` of each element. Integers wrap.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input of truth values.
    """
def nonzero(input: Tensor, *, as_tuple: _bool = False) -> Any:
    """Where elements are not 0: a row of indices (int64) for each, or with `as_tuple` a tensor for each axis."""
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The products of every element of a vector with every one of another: [m] and [n] -> [m, n].

    Raises:
        ValueError: no vectors.
    """
def permute(input: Tensor, *dims: SizeLike) -> Tensor:
    """The axes in another order.

    Shapes: [a, b, c] by (2, 0, 1) -> [c, a, b]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an order that does not name each axis once.
    """
def pow(input: Tensor, exponent: Other) -> Tensor:
    """This tensor to the power of another, or of a number, broadcast."""
def prod(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """The product over axes; of integers in int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        dtype: what the elements are converted to first.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def reciprocal(input: Tensor) -> Tensor:
    """`1 / x` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def relu(input: Tensor) -> Tensor:
    """`max(x, 0)` of each element; NaN stays.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input of truth values.
    """
def remainder(input: Tensor, other: Other) -> Tensor:
    """What is left over of this tensor by division, with the sign of the divisor; broadcast."""
def reshape(input: Tensor, *shape: SizeLike) -> Tensor:
    """The elements in row-major order under other sizes, one of which may be -1; a view where that can be.

    Raises:
        ValueError: sizes that do not multiply to the number of elements.
    """
def roll(input: Tensor, shifts: SizeLike, dims: SizeLike | None = None) -> Tensor:
    """The elements moved along `dims`, those that leave at one end come in at the other.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        ValueError: not as many axes as shifts, several shifts without axes.
    """
def rsqrt(input: Tensor) -> Tensor:
    """`1 / sqrt(x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def scatter(input: Tensor, dim: _int, index: Tensor, src: Operand | None = None, *, value: Number | None = None, reduce: str | None = None) -> Tensor:
    """This tensor with `src`, a tensor or a number, in the places along `dim` that `index` names.

    Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] or larger, of which the first elements count -> [.., n, ..]

    Args:
        reduce: "add" adds to the current values, "multiply" multiplies them.

    Raises:
        IndexError: an axis that does not exist, an index outside it.
        TypeError: an index that is not int32 or int64, a source of another dtype, both `src` and `value` or neither.
        ValueError: shapes that do not fit.
    """
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """This tensor with the elements of `src` added in the places along `dim` that `index` names.

    Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] or larger, of which the first elements count -> [.., n, ..]

    Raises:
        IndexError: an axis that does not exist, an index outside it.
        TypeError: an index that is not int32 or int64, a source of another dtype.
        ValueError: shapes that do not fit.
    """
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """One element of axis `dim`, which disappears.

    Shapes: [.., n, ..] -> [..]

    Raises:
        IndexError: an axis that does not exist, an index outside it.
    """
def sigmoid(input: Tensor) -> Tensor:
    """`1 / (1 + e^-x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def sign(input: Tensor) -> Tensor:
    """-1, 0 or 1 for each element; NaN stays.

    Shapes: [..] -> the same
    """
def silu(input: Tensor) -> Tensor:
    """`x * sigmoid(x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def sin(input: Tensor) -> Tensor:
    """The sine of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def sinc(input: Tensor) -> Tensor:
    """`sin(pi x) / (pi x)` of each element, 1 at 0.

    Shapes: [..] -> the same; integers become float32
    """
def sinh(input: Tensor) -> Tensor:
    """The hyperbolic sine of each element.

    Shapes: [..] -> the same; integers become float32
    """
def softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """`e^x / sum(e^x)` along `dim`.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
    """`log(1 + e^(beta * x)) / beta`; `x` itself where `beta * x` is above the threshold.

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: a `beta` that is not above 0.
    """
def sort(input: Tensor, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> _sort:
    """The elements in order along `dim`, and where they were: a tuple of values and indices (int64).

    Shapes: [.., n, ..] -> two of the same

    Args:
        stable: taken as in PyTorch; equal elements keep their order in any case.
        axis: another name of dim.

    Raises:
        IndexError: an axis that does not exist.
    """
def sqrt(input: Tensor) -> Tensor:
    """The square root of each element.

    Shapes: [..] -> the same; integers become float32
    """
def square(input: Tensor) -> Tensor:
    """`x * x` of each element; of truth values in int64.

    Shapes: [..] -> the same
    """
def squeeze(input: Tensor, dim: SizeLike | None = None, *, axis: SizeLike | None = None) -> Tensor:
    """Without the axes of size 1, or without these if their size is 1.

    Shapes: [.., 1, ..] -> [..]

    Raises:
        IndexError: an axis that does not exist.
    """
def std(input: Tensor, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
    """The standard deviation over axes: the root of `var`.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        unbiased: an older name of a correction of 1 or 0.
        keepdim: whether reduced axes stay, with size 1.
        correction: 1 by default.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no floating dtype; both `unbiased` and `correction`.
    """
def sub(input: Tensor, other: Other, *, alpha: Number | None = None) -> Tensor:
    """This tensor less `alpha` times another, or a number, broadcast."""
def sum(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """The sum over axes; of integers in int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        keepdim: whether reduced axes stay, with size 1.
        dtype: what the elements are converted to first.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def t(input: Tensor) -> Tensor:
    """The two axes of a matrix exchanged.

    Shapes: [m, n] -> [n, m]; [n] and [] stay

    Raises:
        ValueError: more than two axes.
    """
def tan(input: Tensor) -> Tensor:
    """The tangent of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def tanh(input: Tensor) -> Tensor:
    """The hyperbolic tangent of each element.

    Shapes: [..] -> the same; integers become float32
    """
def topk(input: Tensor, k: _int, dim: _int = ..., largest: _bool = True, sorted: _bool = True) -> _topk:
    """The `k` largest (or smallest) elements along `dim` in order, and where they are: a tuple of values and indices (int64).

    Shapes: [.., n, ..] -> two of [.., k, ..]

    Args:
        sorted: taken as in PyTorch; they are in order in any case.

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a `k` below 0, or above the number of elements.
    """
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Two axes exchanged.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: an axis that does not exist.
    """
def tril(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The elements on and below a diagonal of the last two axes, zeros above.

    Shapes: [.., m, n] -> the same

    Raises:
        ValueError: fewer than two axes.
    """
def triu(input: Tensor, diagonal: _int = 0) -> Tensor:
    """The elements on and above a diagonal of the last two axes, zeros below.

    Shapes: [.., m, n] -> the same

    Raises:
        ValueError: fewer than two axes.
    """
def trunc(input: Tensor) -> Tensor:
    """The whole part of each element, towards zero.

    Shapes: [..] -> the same
    """
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """The elements of axis `dim`, without it.

    Shapes: [.., n, ..] -> a tuple of n of [..]

    Raises:
        IndexError: an axis that does not exist.
    """
def unflatten(input: Tensor, dim: _int, sizes: SizeLike) -> Tensor:
    """Axis `dim` as several of these sizes, one of which may be -1.

    Shapes: [.., m * n, ..] -> [.., m, n, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: sizes that do not multiply to that of the axis.
    """
def unsqueeze(input: Tensor, dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
    """With an axis of size 1 at `dim`.

    Shapes: [..] -> [.., 1, ..]

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def var(input: Tensor, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
    """The variance over axes: squares are divided by the number of elements less `correction`.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes; all of them by default.
        unbiased: an older name of a correction of 1 or 0.
        keepdim: whether reduced axes stay, with size 1.
        correction: 1 by default.
        axis, keepdims: other names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no floating dtype; both `unbiased` and `correction`.
    """
def is_tensor(obj: Any) -> _bool: ...
def seed(number: _int) -> None: ...
def initial_seed() -> _int: ...
def numel(input: Tensor) -> _int: ...
class memory_format:
    def __init__(self, name: str) -> None: ...

contiguous_format: memory_format
preserve_format: memory_format
channels_last: memory_format
absolute = abs
arccos = acos
arccosh = acosh
arcsin = asin
arcsinh = asinh
arctan = atan
arctan2 = atan2
arctanh = atanh
divide = div
fix = trunc
ger = outer
greater = gt
greater_equal = ge
less = lt
less_equal = le
moveaxis = movedim
multiply = mul
negative = neg
not_equal = ne
sgn = sign
subtract = sub
true_divide = div
concatenate = cat
row_stack = vstack
trapz = trapezoid
from ._ternion import bfloat16 as bfloat16
from ._ternion import bool as bool
from ._ternion import double as double
from ._ternion import float as float
from ._ternion import float16 as float16
from ._ternion import float32 as float32
from ._ternion import float64 as float64
from ._ternion import half as half
from ._ternion import int as int
from ._ternion import int16 as int16
from ._ternion import int32 as int32
from ._ternion import int64 as int64
from ._ternion import int8 as int8
from ._ternion import long as long
from ._ternion import short as short
from ._ternion import uint16 as uint16
from ._ternion import uint32 as uint32
from ._ternion import uint64 as uint64
from ._ternion import uint8 as uint8
