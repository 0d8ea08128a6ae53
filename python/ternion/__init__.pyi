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
from ._functions.indexing import combinations as combinations
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
from ._functions.indexing import unravel_index as unravel_index
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
    """Returns the numbers from `start` up to, but not including, `end` with distance `step`:
    `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.

    The dtype is int64 if all arguments are ints, otherwise float32.

    Shapes: -> [n]

    Raises:
        ValueError: a step of 0, or a step that leads away from `end`.
        TypeError: an argument that is not a number.
    """
def empty(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns a tensor with unspecified contents, which are zeros in this implementation.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: a negative size.
        TypeError: a size that is not an integer, or a gradient for a dtype that is not
            floating.
    """
def empty_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a tensor with unspecified contents (zeros in this implementation), with the shape,
    dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def eye(n: _int, m: _int | None = None, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a matrix of `n` rows and `m` columns (`n` by default) with ones on the diagonal and
    zeros elsewhere.

    Shapes: -> [n, m]

    Raises:
        ValueError: a negative size.
    """
def full(size: SizeLike, fill_value: Number | Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a tensor filled with `fill_value`.

    Shapes: -> [*size]

    Args:
        size: the sizes, a tuple.
        fill_value: the value.
        dtype: by default the dtype of the value: float32, int64 or bool.
        device: by default that of get_default_device().

    Raises:
        TypeError: a value that is not a number.
        ValueError: a negative size.
    """
def full_like(input: Tensor, fill_value: Number | Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a tensor filled with `fill_value`, with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a value that is not a number.
    """
def linspace(start: _float, end: _float, steps: _int, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns `steps` evenly spaced numbers from `start` to `end`, both included. For integer dtypes
    `start` and `end` are truncated first, and then the results.

    Shapes: -> [steps]

    Raises:
        ValueError: a negative number of steps.
    """
def ones(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a tensor filled with ones.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: a negative size.
        TypeError: a size that is not an integer, or a gradient for a dtype that is not
            floating.
    """
def ones_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns ones with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def rand(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns uniform random numbers in [0, 1).

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        generator: the generator; by default that of the device.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: a negative size.
        TypeError: a dtype that is not floating, or a `generator` of another type.
    """
def rand_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False, generator: Generator | None = None) -> Tensor:
    """Returns uniform random numbers in [0, 1), with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def randint(low: _int | None = None, high: Any = None, size: SizeLike | None = None, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns uniform random integers from `low` up to, but not including, `high`: `randint(high,
    size)`, `randint(low, high, size)`.

    Shapes: -> [*size]

    Raises:
        ValueError: `high` is not greater than `low`, or an integer does not fit the dtype (bool
            accepts 0 and 1).
        TypeError: no size.
    """
def randn(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns random numbers from the normal distribution with mean 0 and variance 1.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        generator: the generator; by default that of the device.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: a negative size.
        TypeError: a dtype that is not floating, or a `generator` of another type.
    """
def randn_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False, generator: Generator | None = None) -> Tensor:
    """Returns random numbers from the standard normal distribution, with the shape, dtype and
    device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def randperm(n: _int, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a random permutation of the integers from 0 up to, but not including, `n`; int64.

    Shapes: -> [n]

    Raises:
        ValueError: a negative `n`.
    """
def tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, *, pin_memory: _bool = False) -> Tensor:
    """Creates a tensor from `data`: a number, nested lists of numbers, a NumPy array or a tensor. The
    data is copied.

    Shapes: a number -> []; m lists of n numbers -> [m, n]

    Args:
        data: the values.
        dtype: by default the dtype of the values; float32 for Python floats, int64 for ints.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: lists of different lengths, or a number that does not fit the dtype.
        TypeError: a value that is not a number.
    """
def zeros(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns a tensor filled with zeros.

    Shapes: -> [*size]

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether the tensor requires a gradient.

    Raises:
        ValueError: a negative size.
        TypeError: a size that is not an integer, or a gradient for a dtype that is not
            floating.
    """
def zeros_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None, layout: Any = None, pin_memory: _bool = False) -> Tensor:
    """Returns zeros with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def abs(input: Tensor) -> Tensor:
    """Computes the absolute value of each element.

    Shapes: [..] -> the same

    Raises:
        TypeError: a bool input.
    """
def acos(input: Tensor) -> Tensor:
    """Computes the arccosine of each element, from 0 to pi.

    Shapes: [..] -> the same; integers become float32
    """
def acosh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic cosine of each element, at least 0; NaN below 1.

    Shapes: [..] -> the same; integers become float32
    """
def add(input: Tensor, other: Other, *, alpha: Number | None = None) -> Tensor:
    """Computes the sum of this tensor and `alpha` times another, or a number, broadcast.

    Raises:
        ValueError: shapes that do not broadcast, or tensors on different devices.
        TypeError: a floating `alpha` for integers, or a bool `alpha` for numbers.
    """
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """Computes `beta * self + alpha * sum(batch1 @ batch2)`, summed over the batch, with self
    broadcast.

    Shapes: self broadcast to [m, n], [b, m, k] x [b, k, n] -> [m, n]

    If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
    once. For integers `beta` and `alpha` must be integers.

    Raises:
        ValueError: incompatible shapes, or fractional factors for integers.
        TypeError: dtypes that differ.
    """
def addcmul(input: Tensor, tensor1: Tensor, tensor2: Tensor, *, value: _float = 1.0) -> Tensor:
    """Computes `self + value * tensor1 * tensor2`, broadcast.

    Shapes: three tensors, broadcast -> the broadcast shape

    Raises:
        TypeError: dtypes that differ.
    """
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """Computes `beta * self + alpha * (mat1 @ mat2)`, with self broadcast.

    Shapes: self broadcast to [m, n], [m, k] x [k, n] -> [m, n]

    Raises:
        ValueError: incompatible shapes.
        TypeError: dtypes that differ.
    """
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """Computes `beta * self + alpha * (mat @ vec)`, with self broadcast.

    Shapes: self broadcast to [m], [m, k] x [k] -> [m]

    If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
    once. For integers `beta` and `alpha` must be integers.

    Raises:
        ValueError: incompatible shapes, or fractional factors for integers.
        TypeError: dtypes that differ.
    """
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """Computes `beta * self + alpha * outer(vec1, vec2)`, with self broadcast.

    Shapes: self broadcast to [m, n], [m] and [n] -> [m, n]

    If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
    once. For integers `beta` and `alpha` must be integers.

    Raises:
        ValueError: incompatible shapes, or fractional factors for integers.
        TypeError: dtypes that differ.
    """
def all(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Tests whether all elements over axes are not 0; with `dim=()` tests each element, as in
    PyTorch.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def allclose(input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> _bool:
    """Returns whether all elements are close to those of `other`: `|a - b| <= atol + rtol * |b|`.

    Raises:
        ValueError: a negative tolerance, or shapes that do not broadcast.
    """
def amax(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the maximum over axes. Equal elements share the gradient.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def amin(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the minimum over axes. Equal elements share the gradient.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def any(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Tests whether any element over axes is not 0; with `dim=()` tests each element, as in
    PyTorch.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def argmax(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """Returns the index of the first maximum, among all elements in row-major order or along
    `dim`; int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements.
        TypeError: a bool input.
    """
def argmin(input: Tensor, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
    """Returns the index of the first minimum, among all elements in row-major order or along
    `dim`; int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements.
        TypeError: a bool input.
    """
def argsort(input: Tensor, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> Tensor:
    """Returns the indices that sort the elements along `dim`; int64.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
    """
def asin(input: Tensor) -> Tensor:
    """Computes the arcsine of each element, from -pi/2 to pi/2.

    Shapes: [..] -> the same; integers become float32
    """
def asinh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic sine of each element.

    Shapes: [..] -> the same; integers become float32
    """
def atan(input: Tensor) -> Tensor:
    """Computes the arctangent of each element, from -pi/2 to pi/2.

    Shapes: [..] -> the same; integers become float32
    """
def atan2(input: Tensor, other: Tensor) -> Tensor:
    """Computes the angles of the points (other, self), in radians, broadcast.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        ValueError: shapes that do not broadcast.
        TypeError: `other` is not a tensor.
    """
def atanh(input: Tensor) -> Tensor:
    """Computes the inverse hyperbolic tangent of each element; NaN outside -1 to 1.

    Shapes: [..] -> the same; integers become float32
    """
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
    """Computes `beta * self + alpha * (batch1 @ batch2)`, with self broadcast.

    Shapes: self broadcast to [b, m, n], [b, m, k] x [b, k, n] -> [b, m, n]

    If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
    once. For integers `beta` and `alpha` must be integers.

    Raises:
        ValueError: incompatible shapes, or fractional factors for integers.
        TypeError: dtypes that differ.
    """
def bernoulli(input: Tensor, p: _float | None = None, *, generator: Generator | None = None) -> Tensor:
    """Samples 1 with the probability given by each element, or with probability `p`, otherwise 0;
    the dtype is kept. No gradient flows.

    Shapes: [..] -> the same

    Raises:
        ValueError: a probability outside 0 to 1, or NaN; only on the CPU, because the check
            would have to wait for another device.
        TypeError: a dtype that is not floating, without `p`.
    """
def bincount(input: Tensor, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
    """Counts the occurrences of each integer from 0 on, int64. With weights, returns the sums of
    the weights instead: float32 if the weights are float32, otherwise float64.

    Shapes: [n], weights [n] -> [the largest integer plus 1, at least minlength]

    Raises:
        ValueError: another number of axes, a negative integer, or weights of another shape.
    """
def bitwise_and(input: Tensor, other: Other) -> Tensor:
    """Computes the bitwise AND; for bool tensors the logical AND.

    Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_left_shift(input: Tensor, other: Other) -> Tensor:
    """Computes `x << n`: the product with 2 to the power of n, which wraps. The result is 0 if n
    is negative or at least the number of bits, as in PyTorch.

    Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_not(input: Tensor) -> Tensor:
    """Computes the bitwise NOT; for bool tensors the logical NOT.

    Shapes: [..] -> the same

    Raises:
        TypeError: floats.
    """
def bitwise_or(input: Tensor, other: Other) -> Tensor:
    """Computes the bitwise OR; for bool tensors the logical OR.

    Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_right_shift(input: Tensor, other: Other) -> Tensor:
    """Computes `x >> n`: the quotient by 2 to the power of n, rounded down. The result is -1 or 0
    if n is negative or at least the number of bits, as in PyTorch.

    Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bitwise_xor(input: Tensor, other: Other) -> Tensor:
    """Computes the bitwise XOR; for bool tensors the logical XOR.

    Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

    Raises:
        TypeError: floats.
        ValueError: shapes that do not broadcast.
    """
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Computes the products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n].

    Raises:
        ValueError: other numbers of axes.
    """
def ceil(input: Tensor) -> Tensor:
    """Computes the smallest integer greater than or equal to each element.

    Shapes: [..] -> the same
    """
def chunk(input: Tensor, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
    """Splits axis `dim` into at most `chunks` equal parts; an axis without elements into exactly
    `chunks`.

    Shapes: [.., n, ..] -> a tuple of [.., size, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: 0 parts.
    """
def clamp(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Clamps each element to the range from `min` to `max`, which are numbers or tensors; NaN
    stays NaN.

    Shapes: [..] -> the same; tensors as bounds are broadcast

    Raises:
        TypeError: a bound that is neither a number nor a tensor, or a bool input with only bool
            bounds.
        ValueError: no bound, a bound that would set every element to a number that does not fit
            the dtype, or shapes that do not broadcast.
    """
def clip(input: Tensor, min: Operand | None = None, max: Operand | None = None) -> Tensor:
    """Alias of `clamp`.

    Shapes and errors are those of `clamp`
    """
def clone(input: Tensor, *, memory_format: Any = None) -> Tensor:
    """Returns a copy, through which gradients flow.

    Shapes: [..] -> the same
    """
def cos(input: Tensor) -> Tensor:
    """Computes the cosine of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def cosh(input: Tensor) -> Tensor:
    """Computes the hyperbolic cosine of each element.

    Shapes: [..] -> the same; integers become float32
    """
def cumsum(input: Tensor, dim: _int | None = None, *, dtype: DTypeLike | None = None, axis: _int | None = None) -> Tensor:
    """Computes the cumulative sum along `dim`.

    Shapes: [.., n, ..] -> the same

    Args:
        dtype: the dtype to which the elements are converted first.
        axis: an alternative name of dim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def detach(input: Tensor) -> Tensor:
    """Returns a tensor with the same memory, detached from the graph: no gradient flows through
    it.
    """
def digamma(input: Tensor) -> Tensor:
    """Computes the derivative of `lgamma` of each element: infinite at 0, NaN at negative
    integers.

    Shapes: [..] -> the same; integers become float32
    """
def div(input: Tensor, other: Other, *, rounding_mode: str | None = None) -> Tensor:
    """Divides by another tensor, or a number, broadcast. Integers become float32 first.

    Args:
        rounding_mode: "floor" rounds down, as `//` does; "trunc" rounds toward zero.
    """
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Computes the dot product of two vectors.

    Shapes: [n] and [n] -> []

    Raises:
        ValueError: tensors that are not vectors, or have different lengths.
        TypeError: dtypes that differ.
    """
def elu(input: Tensor, alpha: _float = 1.0) -> Tensor:
    """Computes `x` where it is positive, and `alpha * (e^x - 1)` elsewhere.

    Shapes: [..] -> the same; integers become float32
    """
def eq(input: Tensor, other: Other) -> Tensor:
    """Computes elementwise equality with `other`, a tensor or a number; broadcast."""
def equal(input: Tensor, other: Tensor) -> _bool:
    """Returns whether both tensors have the same shape and the same elements."""
def erf(input: Tensor) -> Tensor:
    """Computes the error function of each element.

    Shapes: [..] -> the same; integers become float32
    """
def erfc(input: Tensor) -> Tensor:
    """Computes the complementary error function `1 - erf(x)` of each element, without cancellation
    where `erf(x)` is near 1.

    Shapes: [..] -> the same; integers become float32
    """
def erfinv(input: Tensor) -> Tensor:
    """Computes the inverse error function of each element: infinite at -1 and 1, NaN outside.

    Shapes: [..] -> the same; integers become float32
    """
def exp(input: Tensor) -> Tensor:
    """Computes `e^x` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def exp2(input: Tensor) -> Tensor:
    """Computes 2 to the power of each element.

    Shapes: [..] -> the same; integers become float32
    """
def expm1(input: Tensor) -> Tensor:
    """Computes `e^x - 1` of each element, accurate near 0.

    Shapes: [..] -> the same; integers become float32
    """
def flatten(input: Tensor, start_dim: _int = 0, end_dim: _int = ...) -> Tensor:
    """Flattens the axes from `start_dim` to `end_dim` into one.

    Shapes: [.., m, n, ..] -> [.., m * n, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a first axis after the last.
    """
def flip(input: Tensor, *dims: SizeLike) -> Tensor:
    """Reverses the order of the elements along these axes.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an axis that occurs twice.
    """
def floor(input: Tensor) -> Tensor:
    """Computes the largest integer less than or equal to each element.

    Shapes: [..] -> the same
    """
def floor_divide(input: Tensor, other: Other) -> Tensor:
    """Computes the largest integer less than or equal to the quotient, broadcast."""
def fmax(input: Tensor, other: Tensor) -> Tensor:
    """Computes the elementwise maximum, broadcast; if one element is NaN, the result is the other
    one. At ties the gradient flows to this tensor.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        ValueError: shapes that do not broadcast.
    """
def fmin(input: Tensor, other: Tensor) -> Tensor:
    """Computes the elementwise minimum, broadcast; if one element is NaN, the result is the other
    one. At ties the gradient flows to this tensor.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        ValueError: shapes that do not broadcast.
    """
def fmod(input: Tensor, other: Other) -> Tensor:
    """Computes the remainder of a division, with the sign of this tensor; broadcast."""
def gather(input: Tensor, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
    """Gathers the elements at the positions `index` along `dim`; `index` has as many axes as this
    tensor.

    Shapes: [.., n, ..] and index [.., m, ..] -> [.., m, ..]

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
        TypeError: an index that is not int32 or int64.
        ValueError: an index with another number of axes, or larger than this tensor along an
            axis other than `dim`; or `sparse_grad`, which only PyTorch supports.
    """
def gcd(input: Tensor, other: Tensor) -> Tensor:
    """Computes the greatest common divisor elementwise; 0 for two zeros.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        TypeError: floats, or `other` is not a tensor.
        ValueError: shapes that do not broadcast.
    """
def ge(input: Tensor, other: Other) -> Tensor:
    """Computes `self >= other` elementwise."""
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """Computes `x * Phi(x)`, where `Phi` is the CDF of the standard normal distribution, or its
    tanh approximation if `approximate` is "tanh".

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: an unknown `approximate`.
    """
def gt(input: Tensor, other: Other) -> Tensor:
    """Computes `self > other` elementwise."""
def histc(input: Tensor, bins: _int = 100, min: _float = 0.0, max: _float = 0.0) -> Tensor:
    """Computes a histogram with `bins` equal bins from `min` to `max`. If these are equal, the
    range is from the smallest to the largest element.

    Shapes: [..] -> [bins]

    Raises:
        TypeError: the dtype is not floating.
        ValueError: no bins, or bounds that are in the wrong order or not finite.
    """
def i0(input: Tensor) -> Tensor:
    """Computes the modified Bessel function of the first kind of order 0 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def index_add(input: Tensor, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | None = None) -> Tensor:
    """Adds the slices of `source`, times `alpha`, to the slices along `dim` at the indices of
    `index`. All slices with the same index are added.

    Shapes: [.., n, ..], index [m] and source [.., m, ..] -> [.., n, ..]

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
        TypeError: an index that is not int32 or int64, a source of another dtype, a floating
            `alpha` for integers, or a bool `alpha` for numbers.
        ValueError: an index with several axes, or a source of another shape.
    """
def index_select(input: Tensor, dim: _int, index: Tensor) -> Tensor:
    """Selects slices along `dim` at the indices of `index`, a 1-D tensor.

    Shapes: [.., n, ..] and index [m] -> [.., m, ..]

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
        TypeError: an index that is not int32 or int64.
        ValueError: an index with several axes.
    """
def isclose(input: Tensor, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> Tensor:
    """Returns a bool tensor that is True where an element is close to that of `other`: `|a - b| <=
    atol + rtol * |b|`.

    Raises:
        ValueError: a negative tolerance, or shapes that do not broadcast.
    """
def isfinite(input: Tensor) -> Tensor:
    """Returns a bool tensor that is True where an element is neither infinite nor NaN."""
def isinf(input: Tensor) -> Tensor:
    """Returns a bool tensor that is True where an element is infinite."""
def isnan(input: Tensor) -> Tensor:
    """Returns a bool tensor that is True where an element is NaN."""
def lcm(input: Tensor, other: Tensor) -> Tensor:
    """Computes the least common multiple elementwise; 0 if either is 0.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        TypeError: floats, or `other` is not a tensor.
        ValueError: shapes that do not broadcast.
    """
def le(input: Tensor, other: Other) -> Tensor:
    """Computes `self <= other` elementwise."""
def leaky_relu(input: Tensor, negative_slope: _float = 0.01) -> Tensor:
    """Computes `x` where it is positive, and `negative_slope * x` elsewhere.

    Shapes: [..] -> the same; integers become float32
    """
def lgamma(input: Tensor) -> Tensor:
    """Computes the logarithm of the absolute value of the gamma function of each element: infinite
    at 0 and at negative integers.

    Shapes: [..] -> the same; integers become float32
    """
def log(input: Tensor) -> Tensor:
    """Computes the natural logarithm of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log10(input: Tensor) -> Tensor:
    """Computes the logarithm to base 10 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log1p(input: Tensor) -> Tensor:
    """Computes `log(1 + x)` of each element, accurate near 0.

    Shapes: [..] -> the same; integers become float32
    """
def log2(input: Tensor) -> Tensor:
    """Computes the logarithm to base 2 of each element.

    Shapes: [..] -> the same; integers become float32
    """
def log_softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """Computes the logarithm of `softmax` along `dim` without cancellation.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def logical_and(input: Tensor, other: Tensor) -> Tensor:
    """Computes the logical AND; elements that are not 0 count as true."""
def logical_not(input: Tensor) -> Tensor:
    """Computes the logical NOT of each element; elements that are not 0 count as true.

    Shapes: [..] -> the same
    """
def logical_or(input: Tensor, other: Tensor) -> Tensor:
    """Computes the logical OR; elements that are not 0 count as true."""
def logical_xor(input: Tensor, other: Tensor) -> Tensor:
    """Computes the logical XOR; elements that are not 0 count as true."""
def logit(input: Tensor, eps: _float | None = None) -> Tensor:
    """Computes `log(x / (1 - x))` of each element, which is clamped to the range from `eps` to `1
    - eps` if `eps` is given.

    Shapes: [..] -> the same; integers become float32
    """
def logsumexp(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes `log(sum(e^x))` over axes without overflow. Integers become float32 first.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def lt(input: Tensor, other: Other) -> Tensor:
    """Computes `self < other` elementwise."""
def masked_fill(input: Tensor, mask: Tensor, value: Number | Tensor) -> Tensor:
    """Returns a copy with `value` where the mask is True; broadcast. If `value` is a tensor, a
    gradient flows to it.
    """
def masked_scatter(input: Tensor, mask: Tensor, source: Tensor) -> Tensor:
    """Copies the elements of `source`, in order, to the elements where the mask is True.

    Shapes: [..] and a mask that broadcasts to it -> [..]

    Raises:
        TypeError: a mask that is not bool, or a source of another dtype.
        ValueError: an incompatible mask, or a source with too few elements.
    """
def masked_select(input: Tensor, mask: Tensor) -> Tensor:
    """Returns the elements where the mask is True, in row-major order, as a 1-D tensor."""
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """Computes the matrix product.

    Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one
    axis is a row on the left, a column on the right.

    Raises:
        ValueError: incompatible sizes.
    """
@overload
def max(input: Tensor) -> Tensor:
    """Returns the maximum of all elements, or along `dim` a named tuple of the maximum values and
    their indices, or with a tensor the elementwise maximum.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
    `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements, or shapes of two tensors that do not broadcast.
    """
@overload
def max(input: Tensor, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> _max: ...
@overload
def max(input: Tensor, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> _max: ...
@overload
def max(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def max(input: Tensor, *, other: Tensor) -> Tensor: ...
def maximum(input: Tensor, other: Tensor) -> Tensor:
    """Computes the elementwise maximum, broadcast; NaN if either element is NaN."""
def mean(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the mean over axes. Raises a TypeError if the dtype is not floating.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        dtype: the dtype to which the elements are converted first.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
@overload
def min(input: Tensor) -> Tensor:
    """Returns the minimum of all elements, or along `dim` a named tuple of the minimum values and
    their indices, or with a tensor the elementwise minimum.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
    `keepdim`

    Raises:
        IndexError: an axis that does not exist.
        ValueError: no elements, or shapes of two tensors that do not broadcast.
    """
@overload
def min(input: Tensor, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> _min: ...
@overload
def min(input: Tensor, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> _min: ...
@overload
def min(input: Tensor, dim: Tensor) -> Tensor: ...
@overload
def min(input: Tensor, *, other: Tensor) -> Tensor: ...
def minimum(input: Tensor, other: Tensor) -> Tensor:
    """Computes the elementwise minimum, broadcast; NaN if either element is NaN."""
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Computes the product of two matrices: [m, k] x [k, n] -> [m, n].

    Raises:
        ValueError: other numbers of axes, or inner sizes that differ.
    """
def mul(input: Tensor, other: Other) -> Tensor:
    """Multiplies by another tensor, or a number, elementwise, broadcast."""
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Computes the product of a matrix and a vector: [m, k] x [k] -> [m].

    Raises:
        ValueError: other numbers of axes, or inner sizes that differ.
    """
def mvlgamma(input: Tensor, p: _float) -> Tensor:
    """Computes the multivariate log-gamma function of dimension `p`: `log(pi) p (p - 1) / 4` plus
    the sum of `lgamma(x - i / 2)` over `i < p`.

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: a dimension below 1.
    """
def narrow(input: Tensor, dim: _int, start: _int, length: _int) -> Tensor:
    """Returns a view of `length` elements of axis `dim` from `start` on.

    Shapes: [.., n, ..] -> [.., length, ..]

    Raises:
        IndexError: an axis that does not exist, or a start before the first element.
        ValueError: a range beyond the last element, or a negative length.
        TypeError: a start that is not an integer.
    """
def ne(input: Tensor, other: Other) -> Tensor:
    """Computes `self != other` elementwise."""
def neg(input: Tensor) -> Tensor:
    """Computes `-x` of each element. Integers wrap.

    Shapes: [..] -> the same

    Raises:
        TypeError: a bool input.
    """
def nonzero(input: Tensor, *, as_tuple: _bool = False) -> Any:
    """Returns the indices (int64) of all elements that are not 0: one row per element, or with
    `as_tuple` one tensor per axis.
    """
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """Computes the outer product of two vectors: [m] and [n] -> [m, n].

    Raises:
        ValueError: tensors that are not vectors.
    """
def permute(input: Tensor, *dims: SizeLike) -> Tensor:
    """Returns a view with the axes in another order.

    Shapes: [a, b, c] by (2, 0, 1) -> [c, a, b]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: an order that does not contain each axis once.
    """
def pow(input: Tensor, exponent: Other) -> Tensor:
    """Raises this tensor to the power of another, or of a number, broadcast."""
def prod(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the product over axes. The product of integers is int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        dtype: the dtype to which the elements are converted first.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def reciprocal(input: Tensor) -> Tensor:
    """Computes `1 / x` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def relu(input: Tensor) -> Tensor:
    """Computes `max(x, 0)` of each element; NaN stays NaN.

    Shapes: [..] -> the same

    Raises:
        TypeError: a bool input.
    """
def remainder(input: Tensor, other: Other) -> Tensor:
    """Computes the remainder of a division, with the sign of the divisor; broadcast."""
def reshape(input: Tensor, *shape: SizeLike) -> Tensor:
    """Returns the elements in row-major order with another shape; a view if possible. One of the
    sizes may be -1.

    Raises:
        ValueError: sizes whose product is not the number of elements.
    """
def roll(input: Tensor, shifts: SizeLike, dims: SizeLike | None = None) -> Tensor:
    """Shifts the elements along `dims`; elements shifted past one end reappear at the other end.

    Shapes: [..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        ValueError: different numbers of axes and shifts, or several shifts without axes.
    """
def rsqrt(input: Tensor) -> Tensor:
    """Computes `1 / sqrt(x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def scatter(input: Tensor, dim: _int, index: Tensor, src: Operand | None = None, *, value: Number | None = None, reduce: str | None = None) -> Tensor:
    """Writes `src`, a tensor or a number, to a copy of this tensor at the positions `index` along
    `dim`.

    Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] (if it is larger, only the first
    elements are used) -> [.., n, ..]

    Args:
        reduce: "add" adds to the current values, "multiply" multiplies them.

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
        TypeError: an index that is not int32 or int64, a source of another dtype, both `src`
            and `value`, or neither.
        ValueError: incompatible shapes.
    """
def scatter_add(input: Tensor, dim: _int, index: Tensor, src: Tensor) -> Tensor:
    """Adds the elements of `src` to a copy of this tensor at the positions `index` along `dim`.

    Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] (if it is larger, only the first
    elements are used) -> [.., n, ..]

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
        TypeError: an index that is not int32 or int64, or a source of another dtype.
        ValueError: incompatible shapes.
    """
def select(input: Tensor, dim: _int, index: _int) -> Tensor:
    """Returns a view of one element of axis `dim`, without that axis.

    Shapes: [.., n, ..] -> [..]

    Raises:
        IndexError: an axis that does not exist, or an index out of range.
    """
def sigmoid(input: Tensor) -> Tensor:
    """Computes `1 / (1 + e^-x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def sign(input: Tensor) -> Tensor:
    """Returns -1, 0 or 1 for each element; NaN stays NaN.

    Shapes: [..] -> the same
    """
def silu(input: Tensor) -> Tensor:
    """Computes `x * sigmoid(x)` of each element.

    Shapes: [..] -> the same; integers become float32
    """
def sin(input: Tensor) -> Tensor:
    """Computes the sine of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def sinc(input: Tensor) -> Tensor:
    """Computes `sin(pi x) / (pi x)` of each element; 1 at 0.

    Shapes: [..] -> the same; integers become float32
    """
def sinh(input: Tensor) -> Tensor:
    """Computes the hyperbolic sine of each element.

    Shapes: [..] -> the same; integers become float32
    """
def softmax(input: Tensor, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
    """Computes `e^x / sum(e^x)` along `dim`.

    Shapes: [.., n, ..] -> the same

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def softplus(input: Tensor, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
    """Computes `log(1 + e^(beta * x)) / beta`, or `x` itself where `beta * x` is above the
    threshold.

    Shapes: [..] -> the same; integers become float32

    Raises:
        ValueError: a `beta` that is not positive.
    """
def sort(input: Tensor, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> _sort:
    """Sorts the elements along `dim`. Returns a named tuple of the sorted values and their
    original indices (int64).

    Shapes: [.., n, ..] -> two of the same

    Args:
        stable: accepted as in PyTorch; equal elements keep their order in any case.
        axis: an alternative name of dim.

    Raises:
        IndexError: an axis that does not exist.
    """
def sqrt(input: Tensor) -> Tensor:
    """Computes the square root of each element.

    Shapes: [..] -> the same; integers become float32
    """
def square(input: Tensor) -> Tensor:
    """Computes `x * x` of each element; bool becomes int64.

    Shapes: [..] -> the same
    """
def squeeze(input: Tensor, dim: SizeLike | None = None, *, axis: SizeLike | None = None) -> Tensor:
    """Removes all axes of size 1, or only the given axes if their size is 1.

    Shapes: [.., 1, ..] -> [..]

    Raises:
        IndexError: an axis that does not exist.
    """
def std(input: Tensor, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the standard deviation over axes: the square root of `var`.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        unbiased: an older name of a correction of 1 or 0.
        keepdim: whether to keep reduced axes with size 1.
        correction: 1 by default.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: the dtype is not floating, or both `unbiased` and `correction` are given.
    """
def sub(input: Tensor, other: Other, *, alpha: Number | None = None) -> Tensor:
    """Subtracts `alpha` times another tensor, or a number, broadcast."""
def sum(input: Tensor, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the sum over axes. The sum of integers is int64.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with
    `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        keepdim: whether to keep reduced axes with size 1.
        dtype: the dtype to which the elements are converted first.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
    """
def t(input: Tensor) -> Tensor:
    """Returns a view of a matrix with its two axes exchanged.

    Shapes: [m, n] -> [n, m]; [n] and [] are unchanged

    Raises:
        ValueError: more than two axes.
    """
def tan(input: Tensor) -> Tensor:
    """Computes the tangent of each element, in radians.

    Shapes: [..] -> the same; integers become float32
    """
def tanh(input: Tensor) -> Tensor:
    """Computes the hyperbolic tangent of each element.

    Shapes: [..] -> the same; integers become float32
    """
def topk(input: Tensor, k: _int, dim: _int = ..., largest: _bool = True, sorted: _bool = True) -> _topk:
    """Returns the `k` largest (or smallest) elements along `dim` in order, as a named tuple of
    values and indices (int64).

    Shapes: [.., n, ..] -> two of [.., k, ..]

    Args:
        sorted: accepted as in PyTorch; the elements are sorted in any case.

    Raises:
        IndexError: an axis that does not exist.
        ValueError: a `k` below 0, or above the number of elements.
    """
def transpose(input: Tensor, dim0: _int, dim1: _int) -> Tensor:
    """Returns a view with two axes exchanged.

    Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

    Raises:
        IndexError: an axis that does not exist.
    """
def tril(input: Tensor, diagonal: _int = 0) -> Tensor:
    """Keeps the elements on and below a diagonal of the last two axes, and sets those above to
    zero.

    Shapes: [.., m, n] -> the same

    Raises:
        ValueError: fewer than two axes.
    """
def triu(input: Tensor, diagonal: _int = 0) -> Tensor:
    """Keeps the elements on and above a diagonal of the last two axes, and sets those below to
    zero.

    Shapes: [.., m, n] -> the same

    Raises:
        ValueError: fewer than two axes.
    """
def trunc(input: Tensor) -> Tensor:
    """Rounds each element to an integer toward zero.

    Shapes: [..] -> the same
    """
def unbind(input: Tensor, dim: _int = 0) -> tuple[Tensor, ...]:
    """Returns views of all elements of axis `dim`, without that axis.

    Shapes: [.., n, ..] -> a tuple of n of [..]

    Raises:
        IndexError: an axis that does not exist.
    """
def unflatten(input: Tensor, dim: _int, sizes: SizeLike) -> Tensor:
    """Splits axis `dim` into several axes of these sizes, one of which may be -1.

    Shapes: [.., m * n, ..] -> [.., m, n, ..]

    Raises:
        IndexError: an axis that does not exist.
        ValueError: sizes whose product is not the size of the axis.
    """
def unsqueeze(input: Tensor, dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
    """Inserts an axis of size 1 at `dim`.

    Shapes: [..] -> [.., 1, ..]

    Raises:
        IndexError: an axis that does not exist.
        TypeError: no `dim`.
    """
def var(input: Tensor, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
    """Computes the variance over axes: the sum of squares is divided by the number of elements
    less `correction`.

    Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

    Args:
        dim: the axis or axes to reduce; all by default.
        unbiased: an older name of a correction of 1 or 0.
        keepdim: whether to keep reduced axes with size 1.
        correction: 1 by default.
        axis, keepdims: alternative names of dim and keepdim.

    Raises:
        IndexError: an axis that does not exist.
        TypeError: the dtype is not floating, or both `unbiased` and `correction` are given.
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
