"""Written by python/stubs.py."""

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Union, overload

import numpy as np
from typing_extensions import Self

Number = Union[_bool, _int, _float]
Operand = Union["Tensor", Number]
Size = Union[_int, Sequence[_int]]
DTypeLike = Union["dtype", str, type, Any]
DeviceLike = Union["device", str]

class max(NamedTuple):
    values: Tensor
    indices: Tensor

class min(NamedTuple):
    values: Tensor
    indices: Tensor

class sort(NamedTuple):
    values: Tensor
    indices: Tensor

class topk(NamedTuple):
    values: Tensor
    indices: Tensor

class dtype:
    itemsize: _int
    is_floating_point: _bool

class device:
    type: str
    index: _int | None
    def __init__(self, name: DeviceLike) -> None: ...
    def synchronize(self) -> None: ...
    def memory(self) -> dict[str, _int]: ...

class HookHandle:
    def remove(self) -> None: ...

class Tensor:
    """An n-dimensional array on a device: ternion.tensor and its kin make them.

    Methods have the names and meanings of PyTorch's. Views share memory; `requires_grad` asks for a gradient, which `backward` of what was computed
    from it adds to `grad`.
    """
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __contains__(self, value: Number) -> _bool: ...
    def __bool__(self) -> _bool: ...
    def __float__(self) -> _float: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __hash__(self) -> _int: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __matmul__(self, other: Tensor) -> Tensor: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: _bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __add__(self, other: Operand) -> Tensor: ...
    def __radd__(self, other: Operand) -> Tensor: ...
    def __sub__(self, other: Operand) -> Tensor: ...
    def __rsub__(self, other: Operand) -> Tensor: ...
    def __mul__(self, other: Operand) -> Tensor: ...
    def __rmul__(self, other: Operand) -> Tensor: ...
    def __truediv__(self, other: Operand) -> Tensor: ...
    def __rtruediv__(self, other: Operand) -> Tensor: ...
    def __floordiv__(self, other: Operand) -> Tensor: ...
    def __rfloordiv__(self, other: Operand) -> Tensor: ...
    def __mod__(self, other: Operand) -> Tensor: ...
    def __rmod__(self, other: Operand) -> Tensor: ...
    def __pow__(self, other: Operand) -> Tensor: ...
    def __rpow__(self, other: Operand) -> Tensor: ...
    def __and__(self, other: Operand) -> Tensor: ...
    def __rand__(self, other: Operand) -> Tensor: ...
    def __or__(self, other: Operand) -> Tensor: ...
    def __ror__(self, other: Operand) -> Tensor: ...
    def __xor__(self, other: Operand) -> Tensor: ...
    def __rxor__(self, other: Operand) -> Tensor: ...
    def __iadd__(self, other: Operand) -> Self: ...
    def __isub__(self, other: Operand) -> Self: ...
    def __imul__(self, other: Operand) -> Self: ...
    def __itruediv__(self, other: Operand) -> Self: ...
    def __ifloordiv__(self, other: Operand) -> Self: ...
    def __imod__(self, other: Operand) -> Self: ...
    def __ipow__(self, other: Operand) -> Self: ...
    def __lt__(self, other: Operand) -> Tensor: ...
    def __le__(self, other: Operand) -> Tensor: ...
    def __gt__(self, other: Operand) -> Tensor: ...
    def __ge__(self, other: Operand) -> Tensor: ...
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    @property
    def T(self) -> Tensor: ...
    def abs(self) -> Tensor:
        """The absolute value of each element."""
    def abs_(self) -> Self:
        """The absolute value of each element.

        In place: the tensor itself is changed and returned.
        """
    def acos(self) -> Tensor:
        """The angle of each element's cosine, from 0 to pi."""
    def add(self, other: Operand, *, alpha: Number | None = None) -> Tensor:
        """The sum of this tensor and `alpha` times another, or a number, broadcast.

        Raises:
            ValueError: shapes that do not broadcast, tensors on different devices.
        """
    def add_(self, other: Operand, *, alpha: Number | None = None) -> Self:
        """The sum of this tensor and `alpha` times another, or a number, broadcast, in place: the tensor itself is changed and returned."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _float = 1.0) -> Tensor:
        """`self + value * tensor1 * tensor2`, broadcast."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """`beta * self + alpha * (mat1 @ mat2)`, self broadcast."""
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Self:
        """`beta * self + alpha * (mat1 @ mat2)`, in place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a gradient would have to flow through it.
        """
    def all(self, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """Whether all elements over axes are true, or not 0.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
        """
    def allclose(self, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> _bool:
        """Whether all elements are near those of `other`: `|a - b| <= atol + rtol * |b|`."""
    def amax(self, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """The largest element over axes; equals share the gradient.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
        """
    def amin(self, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """The smallest element over axes; equals share the gradient.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
        """
    def any(self, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """Whether any element over axes is true, or not 0.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
        """
    def argmax(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first largest element, of all of them in row-major order, or along `dim`; int64."""
    def argmin(self, dim: _int | None = None, keepdim: _bool = False) -> Tensor:
        """The index of the first smallest element, of all of them in row-major order, or along `dim`; int64."""
    def argsort(self, dim: _int = ..., descending: _bool = False) -> Tensor:
        """Where the elements are that come first, second and so on in order along `dim`; int64."""
    def asin(self) -> Tensor:
        """The angle of each element's sine, from -pi/2 to pi/2."""
    def atan(self) -> Tensor:
        """The angle of each element's tangent, from -pi/2 to pi/2."""
    def atan2(self, other: Tensor) -> Tensor:
        """The angle of the points (other, self), in radians, broadcast."""
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False) -> None:
        """Adds the gradient of this tensor to `grad` of every tensor that it was computed from and that asks for one.

        Args:
            gradient: weights of the elements, of this tensor's shape; needed unless it is a single element.
            retain_graph: keep what was saved, so that the graph can be walked again.
            create_graph: record the walk itself, so that gradients have gradients.

        Raises:
            RuntimeError: nothing was recorded, a saved tensor was changed in place, or the graph was walked before.
        """
    def bernoulli(self) -> Tensor:
        """1 with the probability that each element is, else 0; of the same dtype. No gradient flows."""
    def bernoulli_(self, p: _float = 0.5) -> Self:
        """1 with probability `p`, else 0, in place: the tensor itself is changed and returned.

        Raises:
            ValueError: a probability outside 0 to 1.
        """
    def bfloat16(self) -> Tensor:
        """The elements as bfloat16."""
    def bincount(self, minlength: _int = 0) -> Tensor:
        """How often each number from 0 on occurs."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """The products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n]."""
    def bool(self) -> Tensor:
        """Which elements are not 0."""
    def ceil(self) -> Tensor:
        """The smallest whole number not below each element."""
    def ceil_(self) -> Self:
        """The smallest whole number not below each element.

        In place: the tensor itself is changed and returned.
        """
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """At most `chunks` equal parts of axis `dim`."""
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Each element, but at least `min` and at most `max`, which are numbers or tensors; NaN stays."""
    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """`clamp`, in place."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """`clamp`."""
    def clone(self) -> Tensor:
        """A copy; gradients flow through it."""
    def contiguous(self) -> Tensor:
        """The elements one after the other in row-major order: the tensor itself if they are, else a copy."""
    def copy_(self, source: Tensor) -> Self:
        """Overwrites the elements with those of `source`, broadcast, cast and moved; the tensor itself.

        Raises:
            ValueError: a shape that does not broadcast to this one.
        """
    def cos(self) -> Tensor:
        """The cosine of each element, in radians."""
    def cos_(self) -> Self:
        """The cosine of each element, in radians.

        In place: the tensor itself is changed and returned.
        """
    def cosh(self) -> Tensor:
        """The hyperbolic cosine of each element."""
    def cpu(self) -> Tensor:
        """The tensor on the processor."""
    def cuda(self, device: _int | None = None) -> Tensor:
        """The tensor on a CUDA device, by default the first."""
    def cumsum(self, dim: _int) -> Tensor:
        """The sums of the elements up to each, along `dim`."""
    data: Tensor
    def data_ptr(self) -> _int:
        """The address of the first element."""
    def detach(self) -> Tensor:
        """The same memory without history: no gradient flows through it."""
    @property
    def device(self) -> device: ...
    def dim(self) -> _int:
        """The number of axes."""
    def div(self, other: Operand) -> Tensor:
        """This tensor divided by another, or a number, broadcast. Integers become float32 first."""
    def div_(self, other: Operand) -> Self:
        """This tensor divided by another, or a number, broadcast. Integers become float32 first.

        In place: the tensor itself is changed and returned.
        """
    def dot(self, other: Tensor) -> Tensor:
        """The sum of the products of the elements of two vectors."""
    def double(self) -> Tensor:
        """The elements as float64."""
    @property
    def dtype(self) -> dtype: ...
    def element_size(self) -> _int:
        """Bytes of an element."""
    def elu(self, alpha: _float = 1.0) -> Tensor:
        """`x` where it is positive, else `alpha * (e^x - 1)`."""
    def eq(self, other: Operand) -> Tensor:
        """Where the elements are equal to those of `other`, a tensor or a number; broadcast."""
    def equal(self, other: Tensor) -> _bool:
        """Whether both have the same shape and the same elements."""
    def erf(self) -> Tensor:
        """The error function of each element."""
    def erf_(self) -> Self:
        """The error function of each element.

        In place: the tensor itself is changed and returned.
        """
    def exp(self) -> Tensor:
        """`e^x` of each element."""
    def exp_(self) -> Self:
        """`e^x` of each element.

        In place: the tensor itself is changed and returned.
        """
    def expand(self, *sizes: Size) -> Tensor:
        """Axes of size 1 repeated up to these sizes, without a copy; -1 leaves a size as it is.

        Raises:
            ValueError: a size other than 1 that is not the one asked for.
        """
    def expand_as(self, other: Tensor) -> Tensor:
        """Repeated up to the shape of `other`, without a copy."""
    def expm1(self) -> Tensor:
        """`e^x - 1` of each element, accurate near 0."""
    def expm1_(self) -> Self:
        """`e^x - 1` of each element, accurate near 0.

        In place: the tensor itself is changed and returned.
        """
    def fill_(self, value: Number | Tensor) -> Self:
        """Overwrites every element with `value`; the tensor itself."""
    def flatten(self, start_dim: _int = 0, end_dim: _int = ...) -> Tensor:
        """Axes from `start_dim` to `end_dim` as one."""
    def flip(self, *dims: Size) -> Tensor:
        """The elements of these axes in reverse order."""
    def float(self) -> Tensor:
        """The elements as float32."""
    def floor(self) -> Tensor:
        """The largest whole number not above each element."""
    def floor_(self) -> Self:
        """The largest whole number not above each element.

        In place: the tensor itself is changed and returned.
        """
    def floor_divide(self, other: Operand) -> Tensor:
        """The largest whole number not above the quotient, broadcast."""
    def floor_divide_(self, other: Operand) -> Self:
        """The largest whole number not above the quotient, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def gather(self, dim: _int, index: Tensor) -> Tensor:
        """The elements whose places along `dim` are in `index`, a tensor of as many axes."""
    def ge(self, other: Operand) -> Tensor:
        """Where the elements are at least those of `other`."""
    def gelu(self, approximate: str = "none") -> Tensor:
        """`x * Phi(x)`, with the exact distribution function, or by tanh if `approximate` is "tanh"."""
    grad: Tensor | None
    @property
    def grad_fn(self) -> str | None: ...
    def gt(self, other: Operand) -> Tensor:
        """Where the elements are greater than those of `other`."""
    def half(self) -> Tensor:
        """The elements as float16."""
    def histc(self, bins: _int = 100, min: _float = 0.0, max: _float = 0.0) -> Tensor:
        """How many elements fall into each of `bins` equal parts of the range from `min` to `max`."""
    def index_add(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """This tensor with the slices of `source` added to those along `dim` that `index` names."""
    def index_add_(self, dim: _int, index: Tensor, source: Tensor) -> Self:
        """`index_add`, in place."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """The slices along `dim` that `index`, a tensor of one axis, names."""
    def int(self) -> Tensor:
        """The elements as int32, towards zero."""
    def is_contiguous(self) -> _bool:
        """Whether the elements lie one after the other in row-major order."""
    def is_floating_point(self) -> _bool:
        """Whether the dtype is a floating one."""
    @property
    def is_leaf(self) -> _bool: ...
    def isclose(self, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> Tensor:
        """Where the elements are near those of `other`: `|a - b| <= atol + rtol * |b|`."""
    def isfinite(self) -> Tensor:
        """Where the elements are neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Where the elements are infinite."""
    def isnan(self) -> Tensor:
        """Where the elements are NaN."""
    def item(self) -> _float:
        """The only element, as a number of Python.

        Raises:
            ValueError: there are several elements, or none.
        """
    def le(self, other: Operand) -> Tensor:
        """Where the elements are at most those of `other`."""
    def leaky_relu(self, negative_slope: _float = 0.01) -> Tensor:
        """`x` where it is positive, else `negative_slope * x`."""
    def log(self) -> Tensor:
        """The natural logarithm of each element."""
    def log10(self) -> Tensor:
        """The logarithm to base 10 of each element."""
    def log1p(self) -> Tensor:
        """`log(1 + x)` of each element, accurate near 0."""
    def log1p_(self) -> Self:
        """`log(1 + x)` of each element, accurate near 0.

        In place: the tensor itself is changed and returned.
        """
    def log2(self) -> Tensor:
        """The logarithm to base 2 of each element."""
    def log_(self) -> Self:
        """The natural logarithm of each element.

        In place: the tensor itself is changed and returned.
        """
    def log_softmax(self, dim: _int, *, dtype: DTypeLike | None = None) -> Tensor:
        """The logarithm of `softmax` along `dim`, without loss."""
    def logical_and(self, other: Tensor) -> Tensor:
        """Where both are true, or not 0."""
    def logical_not(self) -> Tensor:
        """`not x` of each truth value."""
    def logical_or(self, other: Tensor) -> Tensor:
        """Where at least one is true, or not 0."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """Where exactly one is true, or not 0."""
    def logsigmoid(self) -> Tensor:
        """`log(sigmoid(x))` of each element, without loss."""
    def logsumexp(self, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """`log(sum(e^x))` over axes, without overflow.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
        """
    def long(self) -> Tensor:
        """The elements as int64, towards zero."""
    def lt(self, other: Operand) -> Tensor:
        """Where the elements are less than those of `other`."""
    @property
    def mT(self) -> Tensor: ...
    def masked_fill(self, mask: Tensor, value: Number | Tensor) -> Tensor:
        """The elements, but `value` where the mask is true; broadcast."""
    def masked_fill_(self, mask: Tensor, value: Number | Tensor) -> Self:
        """`value` in place of the elements where the mask is true; the tensor itself."""
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """This tensor with the elements of `source`, in turn, where the mask is true."""
    def masked_select(self, mask: Tensor) -> Tensor:
        """The elements where the mask is true, in row-major order, as one axis."""
    def matmul(self, other: Tensor) -> Tensor:
        """The matrix product.

        Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one axis is a row on the left, a column on the right.

        Raises:
            ValueError: sizes that do not fit.
        """
    @overload
    def max(self) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False) -> max: ...
    @overload
    def max(self, dim: Tensor) -> Tensor: ...
    def maximum(self, other: Tensor) -> Tensor:
        """The larger of each pair of elements, broadcast; NaN if either is."""
    def mean(self, dim: Size | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The mean over axes; of floating dtypes.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
            dtype: what the elements are converted to first.

        Raises:
            IndexError: an axis that does not exist.
        """
    @overload
    def min(self) -> Tensor: ...
    @overload
    def min(self, dim: _int, keepdim: _bool = False) -> min: ...
    @overload
    def min(self, dim: Tensor) -> Tensor: ...
    def minimum(self, other: Tensor) -> Tensor:
        """The smaller of each pair of elements, broadcast; NaN if either is."""
    def mm(self, mat2: Tensor) -> Tensor:
        """The product of two matrices: [m, k] x [k, n] -> [m, n]."""
    def mul(self, other: Operand) -> Tensor:
        """The product of this tensor and another, or a number, element by element, broadcast."""
    def mul_(self, other: Operand) -> Self:
        """The product of this tensor and another, or a number, element by element, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def mv(self, vec: Tensor) -> Tensor:
        """The product of a matrix and a vector: [m, k] x [k] -> [m]."""
    def narrow(self, dim: _int, start: _int, length: _int) -> Tensor:
        """`length` elements of axis `dim` from `start` on."""
    @property
    def nbytes(self) -> _int: ...
    @property
    def ndim(self) -> _int: ...
    def ne(self, other: Operand) -> Tensor:
        """Where the elements are not equal to those of `other`."""
    def neg(self) -> Tensor:
        """`-x` of each element. Integers wrap."""
    def neg_(self) -> Self:
        """`-x` of each element. Integers wrap.

        In place: the tensor itself is changed and returned.
        """
    def nonzero(self, *, as_tuple: _bool = False) -> Any:
        """Where elements are not 0: a row of indices (int64) for each, or with `as_tuple` a tensor for each axis."""
    def norm(self, p: _float | str | None = None, dim: Size | None = None, keepdim: _bool = False) -> Tensor:
        """The norm over axes: of order 1, 2 (by default), infinity, or any positive number."""
    def normal_(self, mean: _float = 0.0, std: _float = 1.0) -> Self:
        """Of the normal distribution, in place: the tensor itself is changed and returned."""
    def numel(self) -> _int:
        """The number of elements."""
    def numpy(self, *, force: _bool = False) -> np.ndarray[Any, Any]:
        """The tensor's memory as an array of NumPy: a change of one is seen in the other.

        Args:
            force: also of a tensor that a gradient flows to, or that is on another device; it is copied then.

        Raises:
            TypeError: the tensor is not on the processor, or has a dtype that NumPy lacks.
            RuntimeError: a gradient flows to the tensor.
        """
    def outer(self, vec2: Tensor) -> Tensor:
        """The products of every element of a vector with every one of another: [m] and [n] -> [m, n]."""
    def permute(self, *dims: Size) -> Tensor:
        """The axes in another order."""
    def pow(self, other: Operand) -> Tensor:
        """This tensor to the power of another, or of a number, broadcast."""
    def pow_(self, other: Operand) -> Self:
        """This tensor to the power of another, or of a number, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def prod(self, dim: Size | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The product over axes; of integers in int64.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
            dtype: what the elements are converted to first.

        Raises:
            IndexError: an axis that does not exist.
        """
    def reciprocal(self) -> Tensor:
        """`1 / x` of each element."""
    def reciprocal_(self) -> Self:
        """`1 / x` of each element.

        In place: the tensor itself is changed and returned.
        """
    def register_hook(self, hook: Any) -> HookHandle:
        """Calls `hook` with the gradient of this tensor when it is final; what it returns, if not None, takes the gradient's place.

        Returns:
            what removes the hook when its `remove()` is called.
        """
    def relu(self) -> Tensor:
        """`max(x, 0)` of each element; NaN stays."""
    def relu_(self) -> Self:
        """`max(x, 0)` of each element; NaN stays.

        In place: the tensor itself is changed and returned.
        """
    def remainder(self, other: Operand) -> Tensor:
        """What is left over of this tensor by division, with the sign of the divisor; broadcast."""
    def remainder_(self, other: Operand) -> Self:
        """What is left over of this tensor by division, with the sign of the divisor; broadcast.

        In place: the tensor itself is changed and returned.
        """
    def repeat(self, *repeats: Size) -> Tensor:
        """Repeated so often along each axis, a copy."""
    requires_grad: _bool
    def requires_grad_(self, requires_grad: _bool = True) -> Self:
        """Asks for a gradient, or no longer; the tensor itself."""
    def reshape(self, *shape: Size) -> Tensor:
        """The elements in row-major order under other sizes, one of which may be -1; a view where that can be.

        Raises:
            ValueError: sizes that do not multiply to the number of elements.
        """
    def retain_grad(self) -> None:
        """Gathers the gradient of this tensor too, though it was computed."""
    def roll(self, shifts: Size, dims: Size | None = None) -> Tensor:
        """The elements moved along `dims`, those that leave at one end come in at the other."""
    def round(self) -> Tensor:
        """The nearest whole number of each element, halves to even."""
    def round_(self) -> Self:
        """The nearest whole number of each element, halves to even.

        In place: the tensor itself is changed and returned.
        """
    def rsqrt(self) -> Tensor:
        """`1 / sqrt(x)` of each element."""
    def rsqrt_(self) -> Self:
        """`1 / sqrt(x)` of each element.

        In place: the tensor itself is changed and returned.
        """
    def scatter(self, dim: _int, index: Tensor, src: Operand) -> Tensor:
        """This tensor with `src`, a tensor or a number, in the places along `dim` that `index` names."""
    def scatter_(self, dim: _int, index: Tensor, src: Operand) -> Self:
        """`scatter`, in place."""
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """This tensor with the elements of `src` added in the places along `dim` that `index` names."""
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Self:
        """`scatter_add`, in place."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """One element of axis `dim`, which disappears."""
    @property
    def shape(self) -> tuple[_int, ...]: ...
    def sigmoid(self) -> Tensor:
        """`1 / (1 + e^-x)` of each element."""
    def sigmoid_(self) -> Self:
        """`1 / (1 + e^-x)` of each element.

        In place: the tensor itself is changed and returned.
        """
    def sign(self) -> Tensor:
        """-1, 0 or 1 for each element; NaN stays."""
    def sign_(self) -> Self:
        """-1, 0 or 1 for each element; NaN stays.

        In place: the tensor itself is changed and returned.
        """
    def silu(self) -> Tensor:
        """`x * sigmoid(x)` of each element."""
    def silu_(self) -> Self:
        """`x * sigmoid(x)` of each element.

        In place: the tensor itself is changed and returned.
        """
    def sin(self) -> Tensor:
        """The sine of each element, in radians."""
    def sin_(self) -> Self:
        """The sine of each element, in radians.

        In place: the tensor itself is changed and returned.
        """
    def sinh(self) -> Tensor:
        """The hyperbolic sine of each element."""
    def size(self, dim: _int | None = None) -> Any:
        """The sizes, or that of one axis.

        Raises:
            IndexError: there is no such axis.
        """
    def softmax(self, dim: _int, *, dtype: DTypeLike | None = None) -> Tensor:
        """`e^x / sum(e^x)` along `dim`."""
    def softplus(self, beta: _float = 1.0) -> Tensor:
        """`log(1 + e^(beta * x)) / beta`."""
    def sort(self, dim: _int = ..., descending: _bool = False) -> sort:
        """The elements in order along `dim`, and where they were: a tuple of values and indices (int64)."""
    def split(self, split_size_or_sections: Size, dim: _int = 0) -> tuple[Tensor, ...]:
        """Parts of axis `dim`: of `split_size_or_sections` elements each, or of these sizes."""
    def sqrt(self) -> Tensor:
        """The square root of each element."""
    def sqrt_(self) -> Self:
        """The square root of each element.

        In place: the tensor itself is changed and returned.
        """
    def square(self) -> Tensor:
        """`x * x` of each element."""
    def square_(self) -> Self:
        """`x * x` of each element.

        In place: the tensor itself is changed and returned.
        """
    def squeeze(self, dim: Size | None = None) -> Tensor:
        """Without the axes of size 1, or without these if their size is 1."""
    def std(self, dim: Size | None = None, *, correction: _float | None = None, unbiased: _bool | None = None, keepdim: _bool = False) -> Tensor:
        """The standard deviation over axes: the root of `var`."""
    def stride(self) -> tuple[_int, ...]:
        """How many elements lie between neighbours along each axis, or along one."""
    def sub(self, other: Operand, *, alpha: Number | None = None) -> Tensor:
        """This tensor less `alpha` times another, or a number, broadcast."""
    def sub_(self, other: Operand, *, alpha: Number | None = None) -> Self:
        """This tensor less `alpha` times another, or a number, broadcast, in place: the tensor itself is changed and returned."""
    def sum(self, dim: Size | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None) -> Tensor:
        """The sum over axes; of integers in int64.

        Args:
            dim: the axis or axes; all of them by default.
            keepdim: whether reduced axes stay, with size 1.
            dtype: what the elements are converted to first.

        Raises:
            IndexError: an axis that does not exist.
        """
    def t(self) -> Tensor:
        """The two axes of a matrix exchanged."""
    def tan(self) -> Tensor:
        """The tangent of each element, in radians."""
    def tanh(self) -> Tensor:
        """The hyperbolic tangent of each element."""
    def tanh_(self) -> Self:
        """The hyperbolic tangent of each element.

        In place: the tensor itself is changed and returned.
        """
    def to(self, *args: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, copy: _bool = False) -> Tensor:
        """The tensor in another dtype or on another device; the tensor itself if it is so.

        Takes a dtype, a device or its name, both, or a tensor whose dtype and device are meant.
        """
    def tolist(self) -> Any:
        """The elements as nested lists of numbers of Python; a number for a tensor without axes."""
    def topk(self, k: _int, dim: _int = ..., largest: _bool = True) -> topk:
        """The `k` largest (or smallest) elements along `dim` in order, and where they are: a tuple of values and indices (int64)."""
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Two axes exchanged."""
    def tril(self, diagonal: _int = 0) -> Tensor:
        """The elements on and below a diagonal of the last two axes, zeros above."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """The elements on and above a diagonal of the last two axes, zeros below."""
    def trunc(self) -> Tensor:
        """The whole part of each element, towards zero."""
    def trunc_(self) -> Self:
        """The whole part of each element, towards zero.

        In place: the tensor itself is changed and returned.
        """
    def type_as(self, other: Tensor) -> Tensor:
        """The dtype and device of `other`."""
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """The elements of axis `dim`, without it."""
    def unflatten(self, dim: _int, sizes: Size) -> Tensor:
        """Axis `dim` as several of these sizes, one of which may be -1."""
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Windows of `size` elements along `dimension`, `step` apart, as a further axis at the end."""
    def uniform_(self, low: _float = 0.0, high: _float = 1.0) -> Self:
        """Even from `low` up to, not including, `high`, in place: the tensor itself is changed and returned."""
    def unsqueeze(self, dim: _int) -> Tensor:
        """With an axis of size 1 at `dim`."""
    def var(self, dim: Size | None = None, *, correction: _float | None = None, unbiased: _bool | None = None, keepdim: _bool = False) -> Tensor:
        """The variance over axes: squares are divided by the number of elements less `correction`."""
    def view(self, *shape: Size) -> Tensor:
        """The elements of the same memory under other sizes, one of which may be -1.

        Raises:
            ValueError: sizes that do not fit, or that only a copy could have.
        """
    def where(self, condition: Tensor, other: Operand) -> Tensor:
        """The elements where the condition is true, those of `other` elsewhere; broadcast."""
    def zero_(self) -> Self:
        """Overwrites every element with 0; the tensor itself."""

class Parameter(Tensor):
    def __init__(self, data: Tensor, requires_grad: _bool = True) -> None: ...

class _Steps:
    def __init__(self, *args: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def arange(start: Number, end: Number | None = None, step: Number | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Numbers from `start` up to, not including, `end`, `step` apart: `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.

    The dtype is int64 if all of them are whole numbers of Python, else float32.
    """
def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """The values as a tensor, without a copy where that can be: a tensor itself, an array of NumPy that shares its memory.

    Args and errors are those of `tensor`.
    """
def cat(tensors: Sequence[Tensor], dim: _int = 0) -> Tensor:
    """Tensors one behind the other along an axis that they have.

    Raises:
        ValueError: no tensors, or sizes that differ along another axis.
    """
def concat(tensors: Sequence[Tensor], dim: _int = 0) -> Tensor:
    """`cat`."""
def devices() -> list[dict[str, Any]]:
    """What is there: a list of dicts with name, hardware and memory (bytes, or None). No device is opened."""
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """A sum of products by names of axes: `einsum("bij,bjk->bik", a, b)`.

    Raises:
        ValueError: an equation that is none, or does not fit the operands.
    """
def empty(*size: Size, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor whose contents nobody has decided: zeros here.

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.
    """
def empty_like(input: Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor of the shape, dtype and device of `input` whose contents nobody has decided: zeros here."""
def eye(n: _int, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """The identity matrix of `n` rows."""
def from_dlpack(x: Any) -> Tensor:
    """A tensor on the memory of `x`, an array of another library with `__dlpack__`: a change of one is seen in the other.

    Raises:
        TypeError: `x` has no `__dlpack__`, or a dtype that Ternion does not have.
        ValueError: memory that cannot be shared.
    """
def from_numpy(array: Any) -> Tensor:
    """A tensor on the memory of an array of NumPy: a change of one is seen in the other. A read-only array is copied.

    Raises:
        TypeError: no array, or one of a dtype that Ternion does not have.
    """
def full(size: Size, fill_value: Number | Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor of one value.

    Args:
        size: the sizes, a tuple.
        fill_value: the value.
        dtype: that of the value by default: float32, int64 or bool.
        device: by default that of get_default_device().
    """
def full_like(input: Tensor, fill_value: Number | Tensor, dtype: DTypeLike | None = None) -> Tensor:
    """One value in the shape, dtype and on the device of `input`."""
def get_default_device() -> device:
    """The device on which tensors are made if none is named."""
def is_grad_enabled() -> _bool:
    """Whether ops on this thread are recorded when an input asks for its gradient."""
def linspace(start: _float, end: _float, steps: _int, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, evenly apart."""
def manual_seed(seed: _int) -> None:
    """Seeds the random numbers of every device, those included that are opened later."""
def ones(*size: Size, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor of ones.

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.
    """
def ones_like(input: Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Ones of the shape, dtype and device of `input`."""
def rand(*size: Size, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Random numbers from 0 up to, not including, 1.

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.
    """
def rand_like(input: Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Random numbers from 0 up to, not including, 1, of the shape, dtype and device of `input`."""
def randint(low: _int, high: Any, size: Size | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Random whole numbers from `low` up to, not including, `high`: `randint(high, size)`, `randint(low, high, size)`."""
def randn(*size: Size, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Random numbers of a normal distribution with mean 0 and variance 1.

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.
    """
def randn_like(input: Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Random numbers of a normal distribution, of the shape, dtype and device of `input`."""
def randperm(n: _int, device: DeviceLike | None = None) -> Tensor:
    """The numbers from 0 up to, not including, `n` in random order, int64."""
def set_default_device(device: DeviceLike) -> None:
    """Makes new tensors on this device if none is named."""
def stack(tensors: Sequence[Tensor], dim: _int = 0) -> Tensor:
    """Tensors of one shape side by side along a new axis.

    Raises:
        ValueError: no tensors, or shapes that differ.
    """
def tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor with these values: a number, nested lists of numbers, an array of NumPy or a tensor, which is copied.

    Args:
        data: the values.
        dtype: that of the values by default; float32 for numbers of Python with a point, int64 for those without.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.

    Raises:
        ValueError: lists of different lengths.
        TypeError: something that is no number.
    """
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor:
    """The elements of `input` where the condition is true, those of `other` elsewhere; broadcast. Both may be numbers."""
def zeros(*size: Size, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """A tensor of zeros.

    Args:
        size: the sizes, one by one or as a tuple.
        dtype: float32 by default.
        device: by default that of get_default_device().
        requires_grad: whether a gradient is gathered for it.
    """
def zeros_like(input: Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Zeros of the shape, dtype and device of `input`."""
def _clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor: ...
def _initial(*args: Any, **kwargs: Any) -> Tensor: ...
def _sinusoidal(*args: Any, **kwargs: Any) -> Tensor: ...
def _set_recording(on: _bool) -> _bool: ...
def _forked() -> None: ...
def _random_position(device: Any = None) -> tuple[_int, _int]: ...
def _set_random_position(position: tuple[_int, _int], device: Any = None) -> None: ...
def _load_gpt2(*args: Any) -> tuple[dict[str, Any], dict[str, Tensor]]: ...
def _save_gpt2(*args: Any) -> None: ...
def _choose(*args: Any) -> list[_int]: ...
def _save(path: Any, tensors: dict[str, Tensor]) -> None: ...
def _load(path: Any, device: Any) -> dict[str, Tensor]: ...
_functional: Any
_data: Any
_train: Any
_trust: Any
_Rotary: Any
__version__: str
bfloat16: dtype
bool: dtype
double: dtype
float: dtype
float16: dtype
float32: dtype
float64: dtype
half: dtype
int: dtype
int32: dtype
int64: dtype
long: dtype
uint8: dtype
