"""Written by python/stubs.py."""

from builtins import bool as _bool, float as _float, int as _int
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal, NamedTuple, Union, overload

import numpy as np
from typing_extensions import Self

from ._functions.kinds import layout
from ._size import Size

Number = Union[_bool, _int, _float]
Operand = Union["Tensor", Number]
Other = Union["Tensor", Number, "np.ndarray[Any, Any]", "np.number[Any]", "np.bool_"]
SizeLike = Union[_int, Sequence[_int]]
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
    def __init__(self, name: DeviceLike, index: _int | None = None) -> None: ...
    def synchronize(self) -> None: ...
    def memory(self) -> dict[str, _int]: ...
    def reset_peak_memory(self) -> None: ...
    def release_cached(self) -> None: ...

class Generator:
    """A separate random number generator. Functions that sample accept it as `generator=`.

    It is independent of the device's generator, and starts from a fixed seed.
    """
    def __init__(self, device: DeviceLike | None = None) -> None: ...
    @property
    def device(self) -> device: ...
    def manual_seed(self, seed: _int) -> Self:
        """Restarts from a seed. Returns the generator."""
    def seed(self) -> _int:
        """Restarts from an unpredictable seed. Returns the seed."""
    def initial_seed(self) -> _int:
        """Returns the seed."""
    def get_state(self) -> tuple[_int, _int]:
        """Returns the state: the seed, and the count of numbers drawn."""
    def set_state(self, new_state: tuple[_int, _int]) -> Self:
        """Restores a state that `get_state` returned. Returns the generator."""

class HookHandle:
    def remove(self) -> None: ...

class Tensor:
    """An n-dimensional array on a device, created by ternion.tensor and similar functions.

    Methods have the names and semantics of PyTorch's. Views share memory. If `requires_grad` is
    set, `backward` of a result accumulates the gradient in `grad`.
    """
    def __init__(self, *args: Any, device: DeviceLike | None = None) -> None: ...
    def __len__(self) -> _int: ...
    def __iter__(self) -> Iterator[Tensor]: ...
    def __reversed__(self) -> Self: ...
    def __getitem__(self, index: Any) -> Tensor: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __contains__(self, value: Number) -> _bool: ...
    def __bool__(self) -> _bool: ...
    def __float__(self) -> _float: ...
    def __int__(self) -> _int: ...
    def __index__(self) -> _int: ...
    def __bytes__(self) -> bytes: ...
    def __hash__(self) -> _int: ...
    def __neg__(self) -> Tensor: ...
    def __pos__(self) -> Tensor: ...
    def __abs__(self) -> Tensor: ...
    def __invert__(self) -> Tensor: ...
    def __lshift__(self, other: Any) -> Tensor: ...
    def __rshift__(self, other: Any) -> Tensor: ...
    def __ilshift__(self, other: Any) -> Self: ...
    def __irshift__(self, other: Any) -> Self: ...
    def __rlshift__(self, other: Any) -> Tensor: ...
    def __rrshift__(self, other: Any) -> Tensor: ...
    def __divmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
    def __rdivmod__(self, other: Any) -> tuple[Tensor, Tensor]: ...
    def __round__(self, ndigits: _int | None = None) -> Tensor: ...
    def __matmul__(self, other: Union[Tensor, np.ndarray[Any, Any]]) -> Tensor: ...
    def __rmatmul__(self, other: np.ndarray[Any, Any]) -> Tensor: ...
    def __array__(self, dtype: Any = None, copy: _bool | None = None) -> Any: ...
    def __buffer__(self, flags: _int, /) -> memoryview: ...
    def __dlpack__(self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: _bool | None = None) -> Any: ...
    def __dlpack_device__(self) -> tuple[_int, _int]: ...
    def __add__(self, other: Other) -> Tensor: ...
    def __radd__(self, other: Other) -> Tensor: ...
    def __sub__(self, other: Other) -> Tensor: ...
    def __rsub__(self, other: Other) -> Tensor: ...
    def __mul__(self, other: Other) -> Tensor: ...
    def __rmul__(self, other: Other) -> Tensor: ...
    def __truediv__(self, other: Other) -> Tensor: ...
    def __rtruediv__(self, other: Other) -> Tensor: ...
    def __floordiv__(self, other: Other) -> Tensor: ...
    def __rfloordiv__(self, other: Other) -> Tensor: ...
    def __mod__(self, other: Other) -> Tensor: ...
    def __rmod__(self, other: Other) -> Tensor: ...
    def __pow__(self, other: Other) -> Tensor: ...
    def __rpow__(self, other: Other) -> Tensor: ...
    def __and__(self, other: Other) -> Tensor: ...
    def __rand__(self, other: Other) -> Tensor: ...
    def __or__(self, other: Other) -> Tensor: ...
    def __ror__(self, other: Other) -> Tensor: ...
    def __xor__(self, other: Other) -> Tensor: ...
    def __rxor__(self, other: Other) -> Tensor: ...
    def __iadd__(self, other: Other) -> Self: ...
    def __isub__(self, other: Other) -> Self: ...
    def __imul__(self, other: Other) -> Self: ...
    def __itruediv__(self, other: Other) -> Self: ...
    def __ifloordiv__(self, other: Other) -> Self: ...
    def __imod__(self, other: Other) -> Self: ...
    def __ipow__(self, other: Other) -> Self: ...
    def __iand__(self, other: Other) -> Self: ...
    def __ior__(self, other: Other) -> Self: ...
    def __ixor__(self, other: Other) -> Self: ...
    def __lt__(self, other: Other) -> Tensor: ...  # type: ignore[misc]
    def __le__(self, other: Other) -> Tensor: ...  # type: ignore[misc]
    def __gt__(self, other: Other) -> Tensor: ...  # type: ignore[misc]
    def __ge__(self, other: Other) -> Tensor: ...  # type: ignore[misc]
    def __eq__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    def __ne__(self, other: Any) -> Tensor: ...  # type: ignore[override]
    @property
    def H(self) -> Tensor: ...
    @property
    def T(self) -> Tensor: ...
    def abs(self) -> Tensor:
        """Computes the absolute value of each element.

        Shapes: [..] -> the same

        Raises:
            TypeError: a bool input.
        """
    def abs_(self) -> Self:
        """Computes the absolute value of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def absolute(self) -> Tensor:
        """Computes the absolute value of each element.

        Shapes: [..] -> the same

        Raises:
            TypeError: a bool input.
        """
    def absolute_(self) -> Self:
        """Computes the absolute value of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def acos(self) -> Tensor:
        """Computes the arccosine of each element, from 0 to pi.

        Shapes: [..] -> the same; integers become float32
        """
    def acos_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`acos`, in place: the tensor itself is changed and returned."""
    def acosh(self) -> Tensor:
        """Computes the inverse hyperbolic cosine of each element, at least 0; NaN below 1.

        Shapes: [..] -> the same; integers become float32
        """
    def acosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`acosh`, in place: the tensor itself is changed and returned."""
    def add(self, other: Other, *, alpha: Number | None = None) -> Tensor:
        """Computes the sum of this tensor and `alpha` times another, or a number, broadcast.

        Raises:
            ValueError: shapes that do not broadcast, or tensors on different devices.
            TypeError: a floating `alpha` for integers, or a bool `alpha` for numbers.
        """
    def add_(self, other: Other, *, alpha: Number | None = None) -> Self:
        """Adds `alpha` times another tensor, or a number, broadcast, in place: the tensor itself is
        changed and returned.
        """
    def addbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """Computes `beta * self + alpha * sum(batch1 @ batch2)`, summed over the batch, with self
        broadcast.

        Shapes: self broadcast to [m, n], [b, m, k] x [b, k, n] -> [m, n]

        If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
        once. For integers `beta` and `alpha` must be integers.

        Raises:
            ValueError: incompatible shapes, or fractional factors for integers.
            TypeError: dtypes that differ.
        """
    def addbmm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`addbmm`, in place: the tensor itself is changed and returned."""
    def addcdiv(self, tensor1: Tensor, tensor2: Tensor, *, value: _float = 1.0) -> Tensor:
        """`input + value * tensor1 / tensor2`, broadcast.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: something that is neither a tensor nor a number; whole numbers divided by whole numbers, as in PyTorch.
        """
    def addcdiv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`addcdiv`, in place: the tensor itself is changed and returned."""
    def addcmul(self, tensor1: Tensor, tensor2: Tensor, *, value: _float = 1.0) -> Tensor:
        """Computes `self + value * tensor1 * tensor2`, broadcast.

        Shapes: three tensors, broadcast -> the broadcast shape

        Raises:
            TypeError: dtypes that differ.
        """
    def addcmul_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`addcmul`, in place: the tensor itself is changed and returned."""
    def addmm(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """Computes `beta * self + alpha * (mat1 @ mat2)`, with self broadcast.

        Shapes: self broadcast to [m, n], [m, k] x [k, n] -> [m, n]

        Raises:
            ValueError: incompatible shapes.
            TypeError: dtypes that differ.
        """
    def addmm_(self, mat1: Tensor, mat2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Self:
        """Computes `beta * self + alpha * (mat1 @ mat2)` in place: the tensor itself is changed and
        returned.

        Raises:
            RuntimeError: the change would have to be recorded for a gradient.
        """
    def addmv(self, mat: Tensor, vec: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """Computes `beta * self + alpha * (mat @ vec)`, with self broadcast.

        Shapes: self broadcast to [m], [m, k] x [k] -> [m]

        If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
        once. For integers `beta` and `alpha` must be integers.

        Raises:
            ValueError: incompatible shapes, or fractional factors for integers.
            TypeError: dtypes that differ.
        """
    def addmv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`addmv`, in place: the tensor itself is changed and returned."""
    def addr(self, vec1: Tensor, vec2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """Computes `beta * self + alpha * outer(vec1, vec2)`, with self broadcast.

        Shapes: self broadcast to [m, n], [m] and [n] -> [m, n]

        If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
        once. For integers `beta` and `alpha` must be integers.

        Raises:
            ValueError: incompatible shapes, or fractional factors for integers.
            TypeError: dtypes that differ.
        """
    def addr_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`addr`, in place: the tensor itself is changed and returned."""
    def adjoint(self) -> Tensor:
        """The last two axes exchanged: there are no complex numbers to conjugate.

        Shapes: [.., m, n] -> [.., n, m]

        Raises:
            IndexError: less than two axes.
        """
    def all(self, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def allclose(self, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> _bool:
        """Returns whether all elements are close to those of `other`: `|a - b| <= atol + rtol * |b|`.

        Raises:
            ValueError: a negative tolerance, or shapes that do not broadcast.
        """
    def amax(self, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def amin(self, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def aminmax(self, *, dim: _int | None = None, keepdim: _bool = False) -> Any:
        """The smallest and the largest element, over an axis or all: a tuple of min and max.

        Shapes: [..] -> two of [], or without the axis `dim`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: no elements.
        """
    def any(self, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def arccos(self) -> Tensor:
        """Computes the arccosine of each element, from 0 to pi.

        Shapes: [..] -> the same; integers become float32
        """
    def arccos_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`acos`, in place: the tensor itself is changed and returned."""
    def arccosh(self) -> Tensor:
        """Computes the inverse hyperbolic cosine of each element, at least 0; NaN below 1.

        Shapes: [..] -> the same; integers become float32
        """
    def arccosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`acosh`, in place: the tensor itself is changed and returned."""
    def arcsin(self) -> Tensor:
        """Computes the arcsine of each element, from -pi/2 to pi/2.

        Shapes: [..] -> the same; integers become float32
        """
    def arcsin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`asin`, in place: the tensor itself is changed and returned."""
    def arcsinh(self) -> Tensor:
        """Computes the inverse hyperbolic sine of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def arcsinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`asinh`, in place: the tensor itself is changed and returned."""
    def arctan(self) -> Tensor:
        """Computes the arctangent of each element, from -pi/2 to pi/2.

        Shapes: [..] -> the same; integers become float32
        """
    def arctan2(self, other: Other) -> Tensor:
        """Computes the angles of the points (other, self), in radians, broadcast.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: `other` is not a tensor.
        """
    def arctan2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atan2`, in place: the tensor itself is changed and returned."""
    def arctan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atan`, in place: the tensor itself is changed and returned."""
    def arctanh(self) -> Tensor:
        """Computes the inverse hyperbolic tangent of each element; NaN outside -1 to 1.

        Shapes: [..] -> the same; integers become float32
        """
    def arctanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atanh`, in place: the tensor itself is changed and returned."""
    def argmax(self, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
        """Returns the index of the first maximum, among all elements in row-major order or along
        `dim`; int64.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: no elements.
            TypeError: a bool input.
        """
    def argmin(self, dim: _int | None = None, keepdim: _bool = False, *, axis: _int | None = None, keepdims: _bool = False) -> Tensor:
        """Returns the index of the first minimum, among all elements in row-major order or along
        `dim`; int64.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: no elements.
            TypeError: a bool input.
        """
    def argsort(self, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> Tensor:
        """Returns the indices that sort the elements along `dim`; int64.

        Shapes: [.., n, ..] -> the same

        Raises:
            IndexError: an axis that does not exist.
        """
    def argwhere(self) -> Tensor:
        """Where elements are not 0: a row of indices for each, int64.

        Shapes: [..] -> [elements that are not 0, axes]
        """
    def as_strided(self, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
        """The elements of a tensor by their distances in its memory: at `[i, j]` that number `storage_offset + i * stride[0] + j * stride[1]`. A view; where an element
        is in several places it is not changed in place.

        Shapes: [..] -> size

        Args:
            storage_offset: counted from the start of the memory, as `x.storage_offset()`, which it is by default.

        Raises:
            ValueError: an element before the tensor's first or beyond its last, a size or a stride below 0; a tensor that is not contiguous.
        """
    def as_strided_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`as_strided`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
        """This tensor with `src` in the place of the elements that `as_strided` gives.

        Shapes: [..], `src` of the size -> the input's

        Raises:
            ValueError: an element before the tensor's first or beyond its last, a size or a stride below 0; a tensor that is not contiguous; a `src` of another
                shape.
        """
    def asin(self) -> Tensor:
        """Computes the arcsine of each element, from -pi/2 to pi/2.

        Shapes: [..] -> the same; integers become float32
        """
    def asin_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`asin`, in place: the tensor itself is changed and returned."""
    def asinh(self) -> Tensor:
        """Computes the inverse hyperbolic sine of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def asinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`asinh`, in place: the tensor itself is changed and returned."""
    def atan(self) -> Tensor:
        """Computes the arctangent of each element, from -pi/2 to pi/2.

        Shapes: [..] -> the same; integers become float32
        """
    def atan2(self, other: Tensor) -> Tensor:
        """Computes the angles of the points (other, self), in radians, broadcast.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: `other` is not a tensor.
        """
    def atan2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atan2`, in place: the tensor itself is changed and returned."""
    def atan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atan`, in place: the tensor itself is changed and returned."""
    def atanh(self) -> Tensor:
        """Computes the inverse hyperbolic tangent of each element; NaN outside -1 to 1.

        Shapes: [..] -> the same; integers become float32
        """
    def atanh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`atanh`, in place: the tensor itself is changed and returned."""
    def backward(self, gradient: Tensor | None = None, retain_graph: _bool | None = None, create_graph: _bool = False, inputs: Sequence[Tensor] | None = None) -> None:
        """Computes the gradient of this tensor and accumulates it in `grad` of every tensor that it
        was computed from and that requires a gradient.

        Args:
            gradient: weights of the elements, of this tensor's shape; required unless the tensor
                has
                exactly one element.
            retain_graph: keep the saved tensors, so that backward can be called again on the graph.
            create_graph: record the backward pass itself, to allow higher-order gradients.
            inputs: the tensors whose gradients are accumulated; all others are left unchanged.

        Raises:
            RuntimeError: nothing was recorded, a saved tensor was changed in place, or the graph
                was
                already freed by an earlier backward pass.
            ValueError: `gradient` has another shape.
        """
    def baddbmm(self, batch1: Tensor, batch2: Tensor, *, beta: _float = 1.0, alpha: _float = 1.0) -> Tensor:
        """Computes `beta * self + alpha * (batch1 @ batch2)`, with self broadcast.

        Shapes: self broadcast to [b, m, n], [b, m, k] x [b, k, n] -> [b, m, n]

        If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
        once. For integers `beta` and `alpha` must be integers.

        Raises:
            ValueError: incompatible shapes, or fractional factors for integers.
            TypeError: dtypes that differ.
        """
    def baddbmm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`baddbmm`, in place: the tensor itself is changed and returned."""
    def bernoulli(self, p: _float | None = None, *, generator: Generator | None = None) -> Tensor:
        """Samples 1 with the probability given by each element, or with probability `p`, otherwise 0;
        the dtype is kept. No gradient flows.

        Shapes: [..] -> the same

        Raises:
            ValueError: a probability outside 0 to 1, or NaN; only on the CPU, because the check
                would have to wait for another device.
            TypeError: a dtype that is not floating, without `p`.
        """
    def bernoulli_(self, p: _float | Tensor = 0.5, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with 1 with probability `p`, a number or a tensor that is broadcast,
        otherwise 0, in place: the tensor itself is changed and returned.

        Raises:
            ValueError: a probability outside 0 to 1, or a shape that does not broadcast to this
                one.
            TypeError: probabilities of integer dtype.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def bfloat16(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to bfloat16.

        Shapes: [..] -> the same
        """
    def bincount(self, weights: Tensor | None = None, minlength: _int = 0) -> Tensor:
        """Counts the occurrences of each integer from 0 on, int64. With weights, returns the sums of
        the weights instead: float32 if the weights are float32, otherwise float64.

        Shapes: [n], weights [n] -> [the largest integer plus 1, at least minlength]

        Raises:
            ValueError: another number of axes, a negative integer, or weights of another shape.
        """
    def bitwise_and(self, other: Other) -> Tensor:
        """Computes the bitwise AND; for bool tensors the logical AND.

        Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

        Raises:
            TypeError: floats.
            ValueError: shapes that do not broadcast.
        """
    def bitwise_and_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_and`, in place: the tensor itself is changed and returned."""
    def bitwise_left_shift(self, other: Other) -> Tensor:
        """Computes `x << n`: the product with 2 to the power of n, which wraps. The result is 0 if n
        is negative or at least the number of bits, as in PyTorch.

        Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

        Raises:
            TypeError: floats.
            ValueError: shapes that do not broadcast.
        """
    def bitwise_left_shift_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_left_shift`, in place: the tensor itself is changed and returned."""
    def bitwise_not(self) -> Tensor:
        """Computes the bitwise NOT; for bool tensors the logical NOT.

        Shapes: [..] -> the same

        Raises:
            TypeError: floats.
        """
    def bitwise_not_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_not`, in place: the tensor itself is changed and returned."""
    def bitwise_or(self, other: Other) -> Tensor:
        """Computes the bitwise OR; for bool tensors the logical OR.

        Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

        Raises:
            TypeError: floats.
            ValueError: shapes that do not broadcast.
        """
    def bitwise_or_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_or`, in place: the tensor itself is changed and returned."""
    def bitwise_right_shift(self, other: Other) -> Tensor:
        """Computes `x >> n`: the quotient by 2 to the power of n, rounded down. The result is -1 or 0
        if n is negative or at least the number of bits, as in PyTorch.

        Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

        Raises:
            TypeError: floats.
            ValueError: shapes that do not broadcast.
        """
    def bitwise_right_shift_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_right_shift`, in place: the tensor itself is changed and returned."""
    def bitwise_xor(self, other: Other) -> Tensor:
        """Computes the bitwise XOR; for bool tensors the logical XOR.

        Shapes: [..] and a shape that broadcasts with it -> the broadcast shape

        Raises:
            TypeError: floats.
            ValueError: shapes that do not broadcast.
        """
    def bitwise_xor_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`bitwise_xor`, in place: the tensor itself is changed and returned."""
    def bmm(self, mat2: Tensor) -> Tensor:
        """Computes the products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n].

        Raises:
            ValueError: other numbers of axes.
        """
    def bool(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to bool: True where they are not 0.

        Shapes: [..] -> the same
        """
    def broadcast_to(self, *sizes: Any, size: Any = None) -> Tensor:
        """The tensor repeated up to these sizes, without a copy.

        Shapes: [..] -> size

        Raises:
            ValueError: sizes that the tensor does not broadcast to.
        """
    def byte(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to uint8, rounding toward zero.

        Shapes: [..] -> the same
        """
    def cauchy_(self, median: _float = 0.0, sigma: _float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with random numbers from the Cauchy distribution, in place: the tensor
        itself is changed and returned.

        Raises:
            TypeError: the dtype is not floating.
            ValueError: a `sigma` that is not positive.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def ceil(self) -> Tensor:
        """Computes the smallest integer greater than or equal to each element.

        Shapes: [..] -> the same
        """
    def ceil_(self) -> Self:
        """Computes the smallest integer greater than or equal to each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def char(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to int8, rounding toward zero.

        Shapes: [..] -> the same
        """
    def cholesky(self, upper: _bool = False) -> Tensor:
        """The lower triangular `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`, of symmetric positive definite matrices.

        Shapes: [.., n, n] -> the same

        Raises:
            LinAlgError: a matrix that is not positive definite.
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """The inverses of matrices, of the triangles that `cholesky` makes of them.

        Shapes: [.., n, n] -> the same

        Raises:
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def cholesky_solve(self, input2: Tensor, upper: _bool = False) -> Tensor:
        """`X` with `A @ X = input`, of the triangles `input2` that `cholesky` makes of `A`.

        Shapes: [.., n, k] and [.., n, n] -> [.., n, k]

        Raises:
            ValueError: sizes that do not fit.
            TypeError: dtypes other than float32 and float64, or that differ.
        """
    def chunk(self, chunks: _int, dim: _int = 0) -> tuple[Tensor, ...]:
        """Splits axis `dim` into at most `chunks` equal parts; an axis without elements into exactly
        `chunks`.

        Shapes: [.., n, ..] -> a tuple of [.., size, ..]

        Raises:
            IndexError: an axis that does not exist.
            ValueError: 0 parts.
        """
    def clamp(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Clamps each element to the range from `min` to `max`, which are numbers or tensors; NaN
        stays NaN.

        Shapes: [..] -> the same; tensors as bounds are broadcast

        Raises:
            TypeError: a bound that is neither a number nor a tensor, or a bool input with only bool
                bounds.
            ValueError: no bound, a bound that would set every element to a number that does not fit
                the dtype, or shapes that do not broadcast.
        """
    def clamp_(self, min: Operand | None = None, max: Operand | None = None) -> Self:
        """`clamp` in place.

        Raises:
            RuntimeError: bounds that promote the dtype, or a leaf that requires a gradient is
                changed in place while operations are recorded.
        """
    def clamp_max(self, max: Any) -> Tensor:
        """Each element, but at most `max`.

        Shapes: [..] -> the same

        Raises:
            TypeError: a limit that is neither a number nor a tensor.
        """
    def clamp_max_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`clamp_max`, in place: the tensor itself is changed and returned."""
    def clamp_min(self, min: Any) -> Tensor:
        """Each element, but at least `min`.

        Shapes: [..] -> the same

        Raises:
            TypeError: a limit that is neither a number nor a tensor.
        """
    def clamp_min_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`clamp_min`, in place: the tensor itself is changed and returned."""
    def clip(self, min: Operand | None = None, max: Operand | None = None) -> Tensor:
        """Alias of `clamp`.

        Shapes and errors are those of `clamp`
        """
    def clip_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`clip`, in place: the tensor itself is changed and returned."""
    def clone(self, *, memory_format: Any = None) -> Tensor:
        """Returns a copy, through which gradients flow.

        Shapes: [..] -> the same
        """
    def conj(self) -> Tensor:
        """The conjugates: the tensor itself.

        Shapes: [..] -> the same
        """
    def contiguous(self, *, memory_format: Any = None) -> Tensor:
        """Returns the tensor itself if it is contiguous, otherwise a contiguous copy.

        Shapes: [..] -> the same
        """
    def copy_(self, other: Tensor, non_blocking: _bool = False) -> Self:
        """Copies the elements of `other` into this tensor, with broadcasting and conversion of dtype
        and device, and returns the tensor.

        Raises:
            ValueError: a shape that does not broadcast to this one.
        """
    def copysign(self, other: Any) -> Tensor:
        """The size of each element of `input` with the sign of `other`; broadcast. The sign of zero counts.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def copysign_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`copysign`, in place: the tensor itself is changed and returned."""
    def corrcoef(self) -> Tensor:
        """The correlations of rows, whose columns are observations.

        Shapes: [variables, observations] -> [variables, variables], of one variable []
        """
    def cos(self) -> Tensor:
        """Computes the cosine of each element, in radians.

        Shapes: [..] -> the same; integers become float32
        """
    def cos_(self) -> Self:
        """Computes the cosine of each element, in radians.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def cosh(self) -> Tensor:
        """Computes the hyperbolic cosine of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def cosh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`cosh`, in place: the tensor itself is changed and returned."""
    def count_nonzero(self, dim: Any = None) -> Tensor:
        """How many elements over axes are not 0, int64.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: an axis that does not exist.
        """
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """The covariances of rows, whose columns are observations: [variables, observations] -> [variables, variables], of one variable [].

        Args:
            fweights: how often each observation was made, whole numbers: [observations].
            aweights: how much each counts: [observations].

        Raises:
            ValueError: weights of another shape or below 0, more than two axes.
            TypeError: `fweights` that are no whole numbers.
        """
    def cpu(self, *, memory_format: Any = None) -> Tensor:
        """Returns the tensor on the CPU.

        Shapes: [..] -> the same
        """
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """The products of vectors in space, along an axis of 3: by default the first one.

        Shapes: [.., 3, ..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: an axis of another size, other numbers of axes.
            IndexError: an axis that does not exist.
        """
    def cuda(self, device: _int | DeviceLike | None = None, non_blocking: _bool = False, *, memory_format: Any = None) -> Tensor:
        """Returns the tensor on a CUDA device, by default the first.

        Shapes: [..] -> the same

        Raises:
            RuntimeError: the device is not available.
        """
    def cummax(self, dim: _int) -> Any:
        """The largest of the elements up to each along an axis, and the last index where it is (int64): a tuple of values and indices. NaN is larger than all.

        Shapes: [..] -> two of the same

        Raises:
            IndexError: an axis that does not exist.
        """
    def cummin(self, dim: _int) -> Any:
        """The smallest of the elements up to each along an axis, and the last index where it is (int64): a tuple of values and indices. NaN is smaller than all.

        Shapes: [..] -> two of the same

        Raises:
            IndexError: an axis that does not exist.
        """
    def cumprod(self, dim: _int, *, dtype: Any = None) -> Tensor:
        """The products of the elements up to each, along `dim`; of integers in int64.

        Shapes: [..] -> the same

        Raises:
            IndexError: an axis that does not exist.
        """
    def cumprod_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`cumprod`, in place: the tensor itself is changed and returned."""
    def cumsum(self, dim: _int | None = None, *, dtype: DTypeLike | None = None, axis: _int | None = None) -> Tensor:
        """Computes the cumulative sum along `dim`.

        Shapes: [.., n, ..] -> the same

        Args:
            dtype: the dtype to which the elements are converted first.
            axis: an alternative name of dim.

        Raises:
            IndexError: an axis that does not exist.
            TypeError: no `dim`.
        """
    def cumsum_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`cumsum`, in place: the tensor itself is changed and returned."""
    data: Tensor
    def data_ptr(self) -> _int:
        """Returns the address of the first element."""
    def deg2rad(self) -> Tensor:
        """Degrees as radians.

        Shapes: [..] -> the same
        """
    def deg2rad_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`deg2rad`, in place: the tensor itself is changed and returned."""
    def det(self) -> Tensor:
        """The determinants of square matrices.

        Shapes: [.., n, n] -> [..]

        Raises:
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def detach(self) -> Tensor:
        """Returns a tensor with the same memory, detached from the graph: no gradient flows through
        it.
        """
    def detach_(self) -> Self:
        """Detaches the tensor from the graph, in place: no gradient flows through it any more. Returns
        the tensor.
        """
    @property
    def device(self) -> device: ...
    def diag(self, diagonal: _int = 0) -> Tensor:
        """The diagonal of a matrix, or the matrix with a vector on its diagonal.

        Shapes: [rows, columns] -> [diagonal]; [n] -> [n + |diagonal|, n + |diagonal|]

        Raises:
            ValueError: a tensor that is neither.
        """
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Matrices whose diagonals are the last axis, zeros elsewhere, as two axes at `dim1` and `dim2`.

        Shapes: [.., n] -> [.., n + |offset|, n + |offset|]

        Raises:
            IndexError: axes that do not exist.
            ValueError: one axis twice, a tensor without axes.
        """
    def diagflat(self, offset: _int = 0) -> Tensor:
        """The matrix with all elements on its diagonal.

        Shapes: [..] of n elements -> [n + |offset|, n + |offset|]
        """
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """The elements of a diagonal of two axes, as a last axis: a view.

        Shapes: [.., rows, columns] -> [.., diagonal], for the last two axes

        Raises:
            IndexError: an axis that does not exist.
            ValueError: one axis twice.
        """
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """This tensor with `src` in the place of the diagonals of the matrices of two axes; above the main one if `offset` is above 0.

        Shapes: [..], `src` the other axes and last the length of the diagonal -> the input's

        Raises:
            IndexError: an axis that does not exist.
            ValueError: one axis twice, a `src` of another shape.
        """
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """The differences of neighbours along `dim`, `n` times, with `prepend` before the elements and `append` behind them.

        Shapes: [.., size, ..] -> [.., size - n, ..], of the size with what is put to it

        Raises:
            IndexError: an axis that does not exist.
            ValueError: an `n` below 0.
        """
    def digamma(self) -> Tensor:
        """Computes the derivative of `lgamma` of each element: infinite at 0, NaN at negative
        integers.

        Shapes: [..] -> the same; integers become float32
        """
    def digamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`digamma`, in place: the tensor itself is changed and returned."""
    def dim(self) -> _int:
        """Returns the number of axes."""
    def dist(self, other: Tensor, p: _float = 2) -> Tensor:
        """The norm of the difference.

        Shapes: [..] and what broadcasts to it -> []

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def div(self, other: Other, *, rounding_mode: str | None = None) -> Tensor:
        """Divides by another tensor, or a number, broadcast. Integers become float32 first.

        Args:
            rounding_mode: "floor" rounds down, as `//` does; "trunc" rounds toward zero.
        """
    def div_(self, other: Other, *, rounding_mode: str | None = None) -> Self:
        """Divides by another tensor, or a number, broadcast, in place: the tensor itself is changed
        and returned.
        """
    def divide(self, other: Other, *, rounding_mode: str | None = None) -> Tensor:
        """Divides by another tensor, or a number, broadcast. Integers become float32 first.

        Args:
            rounding_mode: "floor" rounds down, as `//` does; "trunc" rounds toward zero.
        """
    def divide_(self, other: Other, *, rounding_mode: str | None = None) -> Self:
        """Divides by another tensor, or a number, broadcast, in place: the tensor itself is changed
        and returned.
        """
    def dot(self, tensor: Tensor) -> Tensor:
        """Computes the dot product of two vectors.

        Shapes: [n] and [n] -> []

        Raises:
            ValueError: tensors that are not vectors, or have different lengths.
            TypeError: dtypes that differ.
        """
    def double(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to float64.

        Shapes: [..] -> the same
        """
    def dsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Parts one behind the other: of the third axis. So many must be of one size.

        Shapes: [rows, columns, depth, ..] -> parts of [rows, columns, part, ..]

        Raises:
            ValueError: less than 3 axes, a number of parts that does not divide the third.
        """
    @property
    def dtype(self) -> dtype: ...
    def element_size(self) -> _int:
        """Returns the size of an element in bytes."""
    def elu(self, alpha: _float = 1.0) -> Tensor:
        """Computes `x` where it is positive, and `alpha * (e^x - 1)` elsewhere.

        Shapes: [..] -> the same; integers become float32
        """
    def entr(self) -> Tensor:
        """Computes `-x log(x)` of each element: 0 at 0, -inf below.

        Shapes: [..] -> the same; integers become float32
        """
    def eq(self, other: Other) -> Tensor:
        """Computes element-wise equality with `other`, a tensor or a number; broadcast."""
    def eq_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`eq`, in place: the tensor itself is changed and returned."""
    def equal(self, other: Tensor) -> _bool:
        """Returns whether both tensors have the same shape and the same elements."""
    def erf(self) -> Tensor:
        """Computes the error function of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def erf_(self) -> Self:
        """Computes the error function of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def erfc(self) -> Tensor:
        """Computes the complementary error function `1 - erf(x)` of each element, without cancellation
        where `erf(x)` is near 1.

        Shapes: [..] -> the same; integers become float32
        """
    def erfc_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`erfc`, in place: the tensor itself is changed and returned."""
    def erfcx(self) -> Tensor:
        """Computes `e^(x^2) erfc(x)` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def erfinv(self) -> Tensor:
        """Computes the inverse error function of each element: infinite at -1 and 1, NaN outside.

        Shapes: [..] -> the same; integers become float32
        """
    def erfinv_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`erfinv`, in place: the tensor itself is changed and returned."""
    def exp(self) -> Tensor:
        """Computes `e^x` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def exp2(self) -> Tensor:
        """Computes 2 to the power of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def exp2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`exp2`, in place: the tensor itself is changed and returned."""
    def exp_(self) -> Self:
        """Computes `e^x` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def expand(self, *sizes: SizeLike, size: SizeLike | None = None) -> Tensor:
        """Returns a view with axes of size 1 broadcast to these sizes; -1 keeps a size.

        Shapes: [.., 1, ..] -> [.., n, ..]; new axes come first

        Raises:
            ValueError: a size other than 1 that differs from the requested one.
        """
    def expand_as(self, other: Tensor) -> Tensor:
        """Returns a view broadcast to the shape of `other`.

        Shapes: [.., 1, ..] and other [.., n, ..] -> [.., n, ..]

        Raises:
            ValueError: a size other than 1 that differs from that of `other`.
        """
    def expm1(self) -> Tensor:
        """Computes `e^x - 1` of each element, accurate near 0.

        Shapes: [..] -> the same; integers become float32
        """
    def expm1_(self) -> Self:
        """Computes `e^x - 1` of each element, accurate near 0.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def exponential_(self, lambd: _float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with random numbers from the exponential distribution with rate `lambd`, in
        place: the tensor itself is changed and returned.

        Raises:
            TypeError: the dtype is not floating.
            ValueError: a rate that is not positive.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def fill_(self, value: Number | Tensor) -> Self:
        """Fills the tensor with `value`, in place, and returns it. If `value` is a tensor, a gradient
        flows to it.

        Raises:
            TypeError: a value that is not a number.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def fill_diagonal_(self, fill_value: Any, wrap: _bool = False) -> Tensor:
        """`fill_value` on the diagonal of a matrix, in place: the tensor itself is changed and returned.

        Shapes: [rows, columns] or [n, n, n, ..], unchanged

        Args:
            wrap: whether the diagonal of a matrix with more rows than columns begins anew one row after it has ended.

        Raises:
            ValueError: less than two axes, more than two of different sizes.
        """
    def fix(self) -> Tensor:
        """Rounds each element to an integer toward zero.

        Shapes: [..] -> the same
        """
    def fix_(self) -> Self:
        """Rounds each element to an integer toward zero.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def flatten(self, start_dim: _int = 0, end_dim: _int = ...) -> Tensor:
        """Flattens the axes from `start_dim` to `end_dim` into one.

        Shapes: [.., m, n, ..] -> [.., m * n, ..]

        Raises:
            IndexError: an axis that does not exist.
            ValueError: a first axis after the last.
        """
    def flip(self, *dims: SizeLike) -> Tensor:
        """Reverses the order of the elements along these axes.

        Shapes: [..] -> the same

        Raises:
            IndexError: an axis that does not exist.
            ValueError: an axis that occurs twice.
        """
    def fliplr(self) -> Tensor:
        """Columns in reverse order.

        Shapes: [rows, columns, ..] -> the same

        Raises:
            ValueError: less than 2 axes.
        """
    def flipud(self) -> Tensor:
        """Rows in reverse order.

        Shapes: [rows, ..] -> the same

        Raises:
            ValueError: no axes.
        """
    def float(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to float32.

        Shapes: [..] -> the same
        """
    def float_power(self, exponent: Any) -> Tensor:
        """Each element to a power, computed in float64; one of both may be a number.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: two numbers.
        """
    def float_power_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`float_power`, in place: the tensor itself is changed and returned."""
    def floor(self) -> Tensor:
        """Computes the largest integer less than or equal to each element.

        Shapes: [..] -> the same
        """
    def floor_(self) -> Self:
        """Computes the largest integer less than or equal to each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def floor_divide(self, other: Other) -> Tensor:
        """Computes the largest integer less than or equal to the quotient, broadcast."""
    def floor_divide_(self, other: Other) -> Self:
        """Computes the largest integer less than or equal to the quotient, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def fmax(self, other: Tensor) -> Tensor:
        """Computes the element-wise maximum, broadcast; if one element is NaN, the result is the other
        one. At ties the gradient flows to this tensor.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def fmin(self, other: Tensor) -> Tensor:
        """Computes the element-wise minimum, broadcast; if one element is NaN, the result is the other
        one. At ties the gradient flows to this tensor.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def fmod(self, other: Other) -> Tensor:
        """Computes the remainder of a division, with the sign of this tensor; broadcast."""
    def fmod_(self, other: Other) -> Self:
        """Computes the remainder of a division, with the sign of this tensor; broadcast.

        In place: the tensor itself is changed and returned.
        """
    def frac(self) -> Tensor:
        """What is behind the point of each element, with its sign.

        Shapes: [..] -> the same

        Raises:
            TypeError: whole numbers.
        """
    def frac_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`frac`, in place: the tensor itself is changed and returned."""
    def frexp(self) -> Any:
        """The parts of each element as `mantissa * 2^exponent`, with mantissas from 0.5 to below 1 (0 of 0) and exponents in int32: a
        tuple of mantissa and exponent.

        Shapes: [..] -> two of the same

        Raises:
            TypeError: whole numbers.
        """
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """Gathers the elements at the positions `index` along `dim`; `index` has as many axes as this
        tensor.

        Shapes: [.., n, ..] and index [.., m, ..] -> [.., m, ..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64.
            ValueError: an index with another number of axes, or larger than this tensor along
                another axis than `dim`; or `sparse_grad`, which only PyTorch supports.
        """
    def gcd(self, other: Tensor) -> Tensor:
        """Computes the greatest common divisor element-wise; 0 for two zeros.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            TypeError: floats, or `other` is not a tensor.
            ValueError: shapes that do not broadcast.
        """
    def gcd_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gcd`, in place: the tensor itself is changed and returned."""
    def ge(self, other: Other) -> Tensor:
        """Computes `self >= other` element-wise."""
    def ge_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ge`, in place: the tensor itself is changed and returned."""
    def gelu(self, approximate: str = "none") -> Tensor:
        """Computes `x * Phi(x)`, with the exact distribution function, or with its tanh approximation
        if `approximate` is "tanh".

        Shapes: [..] -> the same; integers become float32

        Raises:
            ValueError: an unknown `approximate`.
        """
    def geometric_(self, p: _float, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with random numbers from the geometric distribution: the number of trials
        with probability `p` up to the first success, in place: the tensor itself is changed and
        returned.

        Raises:
            TypeError: a bool tensor.
            ValueError: a probability that is not between 0 and 1, both excluded.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def ger(self, vec2: Tensor) -> Tensor:
        """Computes the outer product of two vectors: [m] and [n] -> [m, n].

        Raises:
            ValueError: tensors that are not vectors.
        """
    def get_device(self) -> _int:
        """The number of the device among those of its kind; -1 on the processor."""
    grad: Tensor | None
    @property
    def grad_fn(self) -> str | None: ...
    def greater(self, other: Other) -> Tensor:
        """Computes `self > other` element-wise."""
    def greater_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gt`, in place: the tensor itself is changed and returned."""
    def greater_equal(self, other: Other) -> Tensor:
        """Computes `self >= other` element-wise."""
    def greater_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ge`, in place: the tensor itself is changed and returned."""
    def gt(self, other: Other) -> Tensor:
        """Computes `self > other` element-wise."""
    def gt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gt`, in place: the tensor itself is changed and returned."""
    def half(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to float16.

        Shapes: [..] -> the same
        """
    def heaviside(self, values: Tensor) -> Tensor:
        """0 below 0, 1 above, `values` at 0.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: numbers in the place of tensors, dtypes that differ.
        """
    def heaviside_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`heaviside`, in place: the tensor itself is changed and returned."""
    def histc(self, bins: _int = 100, min: _float = 0.0, max: _float = 0.0) -> Tensor:
        """Computes a histogram with `bins` equal bins from `min` to `max`. If these are equal, the
        range is that of the elements.

        Shapes: [..] -> [bins]

        Raises:
            TypeError: the dtype is not floating.
            ValueError: no bins, or bounds that are in the wrong order or not finite.
        """
    def histogram(self, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False) -> Any:
        """How many elements, or the sum of the weights of those that, fall into each interval, and the ends of the intervals: a tuple of hist and bin_edges.

        The last interval is closed, the others are half open; elements outside, and NaN, do not count. No gradient flows.

        Shapes: [..] -> [bins] and [bins + 1]

        Args:
            bins: how many intervals of equal width, or a tensor of their ends, in order.
            range: the smallest and the largest end; by default those of the elements.
            weight: how much each element counts, of the input's shape.
            density: divides by the sum and by the widths.

        Raises:
            TypeError: no floats, ends or weights of another dtype.
            ValueError: no intervals, ends that are not finite or not in order, weights of another shape, a `range` beside ends.
        """
    def hsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Parts side by side: of the second axis, or the only one. So many must be of one size.

        Shapes: [rows, columns, ..] -> parts of [rows, part, ..]

        Raises:
            ValueError: no axes, a number of parts that does not divide the axis.
        """
    def hypot(self, other: Tensor) -> Tensor:
        """The length of the vectors (input, other), without overflow; broadcast.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def hypot_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`hypot`, in place: the tensor itself is changed and returned."""
    def i0(self) -> Tensor:
        """Computes the modified Bessel function of the first kind of order 0 of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def i0_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`i0`, in place: the tensor itself is changed and returned."""
    def i0e(self) -> Tensor:
        """Computes `i0` times `e^-|x|` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def i1(self) -> Tensor:
        """Computes the modified Bessel function of the first kind of order 1 of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def i1e(self) -> Tensor:
        """Computes `i1` times `e^-|x|` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def index_add(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | None = None) -> Tensor:
        """Adds the slices of `source`, times `alpha`, to the slices along `dim` at the indices of
        `index`. All slices with the same index are added.

        Shapes: [.., n, ..], index [m] and source [.., m, ..] -> [.., n, ..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64, a source of another dtype, a floating
                `alpha` for integers, or a bool `alpha` for numbers.
            ValueError: an index with several axes, or a source of another shape.
        """
    def index_add_(self, dim: _int, index: Tensor, source: Tensor, *, alpha: Number | None = None) -> Self:
        """`index_add` in place.

        Shapes and errors are those of `index_add`

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def index_copy(self, dim: _int, index: Tensor, source: Tensor) -> Tensor:
        """This tensor with the slices of `source` in place of those along `dim` that `index` names.

        Shapes: [..], index [n], source with n along `dim` -> the input's

        Raises:
            IndexError: an axis or a place that does not exist.
            ValueError: a source of another shape.
        """
    def index_copy_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`index_copy`, in place: the tensor itself is changed and returned."""
    def index_fill(self, dim: _int, index: Tensor, value: Any) -> Tensor:
        """This tensor with `value` in the slices along `dim` that `index` names. A gradient flows to a `value` that is a tensor.

        Shapes: [..], index [n] -> the input's

        Raises:
            IndexError: an axis or a place that does not exist.
        """
    def index_fill_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`index_fill`, in place: the tensor itself is changed and returned."""
    def index_put(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """A copy of this tensor with `values` in the places that a tuple of tensors names, or added to them.

        Shapes: [..], values that broadcast to the places -> the input's

        Raises:
            IndexError: a place that does not exist.
            ValueError: values that do not broadcast to the places.
            TypeError: values of a dtype that the input's does not hold, floats of integers.
        """
    def index_put_(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """`values` in the places that a tuple of tensors names, or added to them, in place: the tensor itself is changed and returned.

        Shapes: [..], values that broadcast to the places -> the input's

        Raises:
            IndexError: a place that does not exist.
            ValueError: values that do not broadcast to the places.
            TypeError: values of a dtype that the input's does not hold, floats of integers.
        """
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """This tensor with the slices of `source` reduced into those along `dim` that `index` names.

        Shapes: [..], index [n], source with n along `dim` -> the input's

        Args:
            reduce: "prod", "mean", "amax" or "amin".
            include_self: whether the slices of this tensor count, too.

        Raises:
            IndexError: an axis or a place that does not exist.
            ValueError: another `reduce`, shapes that do not fit.
            TypeError: a source of another dtype, the mean of truth values.
        """
    def index_reduce_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`index_reduce`, in place: the tensor itself is changed and returned."""
    def index_select(self, dim: _int, index: Tensor) -> Tensor:
        """Selects slices along `dim` at the indices of `index`, a 1-D tensor.

        Shapes: [.., n, ..] and index [m] -> [.., m, ..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64.
            ValueError: an index with several axes.
        """
    def inner(self, other: Tensor) -> Tensor:
        """The sums of products along the last axis of both: [.., k] and [.., k].

        Shapes: [.., k] and [*others, k] -> [.., *others]

        Raises:
            ValueError: last sizes that differ.
        """
    def int(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to int32, rounding toward zero.

        Shapes: [..] -> the same
        """
    def inverse(self) -> Tensor:
        """The inverses of square matrices.

        Shapes: [.., n, n] -> the same

        Raises:
            LinAlgError: a singular matrix.
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def is_complex(self) -> _bool:
        """Whether the dtype is a complex one: there are none."""
    def is_contiguous(self, *, memory_format: Any = None) -> _bool:
        """Returns whether the elements are contiguous in row-major order, or in the order of
        `memory_format`: for channels last, channels after height and width.
        """
    @property
    def is_cpu(self) -> _bool: ...
    @property
    def is_cuda(self) -> _bool: ...
    def is_floating_point(self) -> _bool:
        """Returns whether the dtype is floating."""
    @property
    def is_leaf(self) -> _bool: ...
    @property
    def is_meta(self) -> _bool: ...
    def is_nonzero(self) -> _bool:
        """Whether the only element is not 0.

        Shapes: [] or one element -> a truth value

        Raises:
            ValueError: more than 1 element.
        """
    def is_pinned(self) -> _bool:
        """Whether the memory is pinned: it never is."""
    @property
    def is_quantized(self) -> _bool: ...
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether both have one shape."""
    def is_shared(self) -> _bool:
        """Whether the memory is shared with other processes: it never is."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative numbers."""
    @property
    def is_sparse(self) -> _bool: ...
    def isclose(self, other: Tensor, rtol: _float = 1e-5, atol: _float = 1e-8, equal_nan: _bool = False) -> Tensor:
        """Returns a bool tensor that is True where an element is close to that of `other`: `|a - b| <=
        atol + rtol * |b|`.

        Raises:
            ValueError: a negative tolerance, or shapes that do not broadcast.
        """
    def isfinite(self) -> Tensor:
        """Returns a bool tensor that is True where an element is neither infinite nor NaN."""
    def isinf(self) -> Tensor:
        """Returns a bool tensor that is True where an element is infinite."""
    def isnan(self) -> Tensor:
        """Returns a bool tensor that is True where an element is NaN."""
    def isneginf(self) -> Tensor:
        """Where the elements are infinite and negative.

        Shapes: [..] -> the same, bool
        """
    def isposinf(self) -> Tensor:
        """Where the elements are infinite and positive.

        Shapes: [..] -> the same, bool
        """
    def isreal(self) -> Tensor:
        """Where the elements are real: everywhere.

        Shapes: [..] -> the same, bool
        """
    def item(self) -> _float:
        """Returns the only element as a Python number.

        Raises:
            ValueError: there are several elements, or none.
        """
    @property
    def itemsize(self) -> _int: ...
    def kron(self, other: Tensor) -> Tensor:
        """Each element of one times all of the other, in blocks.

        Shapes: [m, n] and [p, q] -> [m * p, n * q]; with more axes alike

        Raises:
            ValueError: more than 4 axes.
        """
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> Any:
        """The k-th smallest element along an axis, counted from 1, and its index (int64): a tuple of values and indices.

        Shapes: [..] -> two without the axis `dim`

        Raises:
            ValueError: a k that is not from 1 to the size of the axis.
        """
    @property
    def layout(self) -> layout: ...
    def lcm(self, other: Tensor) -> Tensor:
        """Computes the least common multiple element-wise; 0 if either is 0.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            TypeError: floats, or `other` is not a tensor.
            ValueError: shapes that do not broadcast.
        """
    def lcm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lcm`, in place: the tensor itself is changed and returned."""
    def ldexp(self, other: Tensor) -> Tensor:
        """`input * 2^other`, broadcast.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def ldexp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ldexp`, in place: the tensor itself is changed and returned."""
    def le(self, other: Other) -> Tensor:
        """Computes `self <= other` element-wise."""
    def le_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`le`, in place: the tensor itself is changed and returned."""
    def leaky_relu(self, negative_slope: _float = 0.01) -> Tensor:
        """Computes `x` where it is positive, and `negative_slope * x` elsewhere.

        Shapes: [..] -> the same; integers become float32
        """
    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """From `input`, where the weight is 0, to `end`, where it is 1: `input + weight * (end - input)`; weight is a number or a tensor.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: something that is neither a tensor nor a number.
        """
    def lerp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lerp`, in place: the tensor itself is changed and returned."""
    def less(self, other: Other) -> Tensor:
        """Computes `self < other` element-wise."""
    def less_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lt`, in place: the tensor itself is changed and returned."""
    def less_equal(self, other: Other) -> Tensor:
        """Computes `self <= other` element-wise."""
    def less_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`le`, in place: the tensor itself is changed and returned."""
    def lgamma(self) -> Tensor:
        """Computes the logarithm of the absolute value of the gamma function of each element: infinite
        at 0 and at negative integers.

        Shapes: [..] -> the same; integers become float32
        """
    def lgamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lgamma`, in place: the tensor itself is changed and returned."""
    def log(self) -> Tensor:
        """Computes the natural logarithm of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def log10(self) -> Tensor:
        """Computes the logarithm to base 10 of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def log10_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`log10`, in place: the tensor itself is changed and returned."""
    def log1p(self) -> Tensor:
        """Computes `log(1 + x)` of each element, accurate near 0.

        Shapes: [..] -> the same; integers become float32
        """
    def log1p_(self) -> Self:
        """Computes `log(1 + x)` of each element, accurate near 0.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def log2(self) -> Tensor:
        """Computes the logarithm to base 2 of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def log2_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`log2`, in place: the tensor itself is changed and returned."""
    def log_(self) -> Self:
        """Computes the natural logarithm of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def log_ndtr(self) -> Tensor:
        """Computes the logarithm of the normal distribution function of each element; finite where the
        function underflows to 0.

        Shapes: [..] -> the same; integers become float32
        """
    def log_normal_(self, mean: _float = 1.0, std: _float = 2.0, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with random numbers whose logarithms are normally distributed with this
        mean and standard deviation, in place: the tensor itself is changed and returned.

        Raises:
            TypeError: the dtype is not floating.
            ValueError: a standard deviation that is not positive.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def log_softmax(self, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
        """Computes the logarithm of `softmax` along `dim` without cancellation.

        Shapes: [.., n, ..] -> the same

        Raises:
            IndexError: an axis that does not exist.
            TypeError: no `dim`.
        """
    def logaddexp(self, other: Tensor) -> Tensor:
        """`log(e^input + e^other)` of each pair of elements, without overflow; broadcast.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def logaddexp2(self, other: Tensor) -> Tensor:
        """`log2(2^input + 2^other)` of each pair of elements, without overflow; broadcast.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def logcumsumexp(self, dim: _int) -> Tensor:
        """The logarithms of the sums of `e^x` up to each element, along `dim`, without overflow.

        Shapes: [..] -> the same; integers become float32

        Raises:
            IndexError: an axis that does not exist.
        """
    def logdet(self) -> Tensor:
        """The logarithms of the determinants of square matrices: -inf where they are 0, NaN where they are negative.

        Shapes: [.., n, n] -> [..]

        Raises:
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def logical_and(self, other: Tensor) -> Tensor:
        """Computes the logical AND; elements that are not 0 count as true."""
    def logical_and_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`logical_and`, in place: the tensor itself is changed and returned."""
    def logical_not(self) -> Tensor:
        """Computes the logical NOT of each element; elements that are not 0 count as true.

        Shapes: [..] -> the same
        """
    def logical_not_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`logical_not`, in place: the tensor itself is changed and returned."""
    def logical_or(self, other: Tensor) -> Tensor:
        """Computes the logical OR; elements that are not 0 count as true."""
    def logical_or_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`logical_or`, in place: the tensor itself is changed and returned."""
    def logical_xor(self, other: Tensor) -> Tensor:
        """Computes the logical XOR; elements that are not 0 count as true."""
    def logical_xor_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`logical_xor`, in place: the tensor itself is changed and returned."""
    def logit(self, eps: _float | None = None) -> Tensor:
        """Computes `log(x / (1 - x))` of each element, which is clamped to the range from `eps` to `1
        - eps` if `eps` is given.

        Shapes: [..] -> the same; integers become float32
        """
    def logit_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`logit`, in place: the tensor itself is changed and returned."""
    def logsigmoid(self) -> Tensor:
        """Computes `log(sigmoid(x))` of each element without cancellation.

        Shapes: [..] -> the same; integers become float32
        """
    def logsumexp(self, dim: SizeLike | None = None, keepdim: _bool = False, *, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
        """Computes `log(sum(e^x))` over axes without overflow. Integers become float32 first.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

        Args:
            dim: the axis or axes to reduce; all by default.
            keepdim: whether to keep reduced axes with size 1.
            axis, keepdims: alternative names of dim and keepdim.

        Raises:
            IndexError: an axis that does not exist.
        """
    def long(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to int64, rounding toward zero.

        Shapes: [..] -> the same
        """
    def lt(self, other: Other) -> Tensor:
        """Computes `self < other` element-wise."""
    def lt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lt`, in place: the tensor itself is changed and returned."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Any:
        """LU decompositions with partial pivoting: both factors in one matrix, and the exchanges of rows, from 1 on (int32); with `get_infos` the first pivots
        that are 0, too (int32, 0 for none). `lu_unpack` makes matrices of them.

        Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)], and [..]

        Raises:
            ValueError: less than 2 axes, no pivoting.
            TypeError: a dtype other than float32 and float64.
        """
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """`X` with `A @ X = input`, of what `lu` makes of `A`.

        Shapes: [.., n, k], [.., n, n] and [.., n] -> [.., n, k]

        Raises:
            ValueError: sizes that do not fit, pivots that are none.
            TypeError: dtypes other than float32 and float64, or that differ; pivots that are not int32.
        """
    @property
    def mH(self) -> Tensor: ...
    @property
    def mT(self) -> Tensor: ...
    def masked_fill(self, mask: Tensor, value: Number | Tensor) -> Tensor:
        """Returns a copy with `value` where the mask is True; broadcast. If `value` is a tensor, a
        gradient flows to it.
        """
    def masked_fill_(self, mask: Tensor, value: Number | Tensor) -> Self:
        """Writes `value` where the mask is True, in place, and returns the tensor. If `value` is a
        tensor, a gradient flows to it.
        """
    def masked_scatter(self, mask: Tensor, source: Tensor) -> Tensor:
        """Copies the elements of `source`, in order, to the elements where the mask is True.

        Shapes: [..] and a mask that broadcasts to it -> [..]

        Raises:
            TypeError: a mask that is not bool, or a source of another dtype.
            ValueError: an incompatible mask, or a source with too few elements.
        """
    def masked_scatter_(self, mask: Tensor, source: Tensor) -> Tensor:
        """The elements of `source`, in turn, where the mask is true, in place: the tensor itself is changed and returned.

        Shapes: [..], mask that broadcasts to it, source of any shape -> the input's

        Raises:
            ValueError: a source with less elements than there are places.
            TypeError: a mask that is not bool.
        """
    def masked_select(self, mask: Tensor) -> Tensor:
        """Returns the elements where the mask is True, in row-major order, as a 1-D tensor."""
    def matmul(self, other: Tensor) -> Tensor:
        """Computes the matrix product.

        Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one
            axis is a
        row on the left, a column on the right.

        Raises:
            ValueError: incompatible sizes.
        """
    def matrix_exp(self) -> Tensor:
        """`1 + A + A @ A / 2 + ..` of square matrices.

        Shapes: [.., n, n] -> the same

        Raises:
            ValueError: matrices that are not square.
            TypeError: no floating dtype.
        """
    def matrix_power(self, n: _int) -> Tensor:
        """A square matrix, or each of several, times itself `n` times; the inverse if `n` is negative.

        Shapes: [.., n, n] -> the same

        Raises:
            LinAlgError: a singular matrix, if `n` is negative.
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64, if `n` is negative.
        """
    @overload
    def max(self) -> Tensor: ...
    @overload
    def max(self, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> max: ...
    @overload
    def max(self, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> max: ...
    @overload
    def max(self, dim: Tensor) -> Tensor: ...
    @overload
    def max(self, *, other: Tensor) -> Tensor: ...
    def maximum(self, other: Tensor) -> Tensor:
        """Computes the element-wise maximum, broadcast; NaN if either element is NaN."""
    def mean(self, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def median(self, dim: _int | None = None, keepdim: _bool = False) -> Any:
        """The middle element in order, of two the smaller; NaN if there is one. Along `dim` a tuple of values and indices.

        Shapes: [..] -> [], or two without the axis `dim`

        Raises:
            ValueError: no elements along `dim`; no whole numbers at all.
            IndexError: an axis that does not exist.
        """
    @overload
    def min(self) -> Tensor: ...
    @overload
    def min(self, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> min: ...
    @overload
    def min(self, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> min: ...
    @overload
    def min(self, dim: Tensor) -> Tensor: ...
    @overload
    def min(self, *, other: Tensor) -> Tensor: ...
    def minimum(self, other: Tensor) -> Tensor:
        """Computes the element-wise minimum, broadcast; NaN if either element is NaN."""
    def mm(self, mat2: Tensor) -> Tensor:
        """Computes the product of two matrices: [m, k] x [k, n] -> [m, n].

        Raises:
            ValueError: other numbers of axes, or inner sizes that differ.
        """
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> Any:
        """The most frequent element along an axis, of several the smallest, and the last index where it is (int64): a tuple of values and indices.

        Shapes: [..] -> two without the axis `dim`

        Raises:
            ValueError: no elements along `dim`.
            IndexError: an axis that does not exist.
        """
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """The axes `source` at the places `destination`, the others in their order.

        Shapes: [..] -> its sizes in another order

        Raises:
            IndexError: an axis that does not exist.
            ValueError: other numbers of sources and destinations, or one twice.
        """
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """The axes `source` at the places `destination`, the others in their order.

        Shapes: [..] -> its sizes in another order

        Raises:
            IndexError: an axis that does not exist.
            ValueError: other numbers of sources and destinations, or one twice.
        """
    def msort(self) -> Tensor:
        """The elements in order along the first axis.

        Shapes: [..] -> the same
        """
    def mul(self, other: Other) -> Tensor:
        """Multiplies by another tensor, or a number, element-wise, broadcast."""
    def mul_(self, other: Other) -> Self:
        """Multiplies by another tensor, or a number, element-wise, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: Any = None) -> Tensor:
        """Indices that are drawn with these probabilities, which need not sum to 1: of each row of [.., categories], int64, [.., num_samples].

        Args:
            replacement: whether an index may be drawn twice.

        Raises:
            TypeError: no floats.
            ValueError: other than one or two axes, a probability below 0 or not finite, a row of zeros, more samples than there are categories to draw.
        """
    def multiply(self, other: Other) -> Tensor:
        """Multiplies by another tensor, or a number, element-wise, broadcast."""
    def multiply_(self, other: Other) -> Self:
        """Multiplies by another tensor, or a number, element-wise, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def mv(self, vec: Tensor) -> Tensor:
        """Computes the product of a matrix and a vector: [m, k] x [k] -> [m].

        Raises:
            ValueError: other numbers of axes, or inner sizes that differ.
        """
    def mvlgamma(self, p: _float) -> Tensor:
        """Computes the multivariate log-gamma function of dimension `p`: `log(pi) p (p - 1) / 4` plus
        the sum of `lgamma(x - i / 2)` over `i < p`.

        Shapes: [..] -> the same; integers become float32

        Raises:
            ValueError: a dimension below 1.
        """
    def mvlgamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`mvlgamma`, in place: the tensor itself is changed and returned."""
    def nan_to_num(self, nan: _float = 0.0, posinf: _float | None = None, neginf: _float | None = None) -> Tensor:
        """The elements, with numbers in place of NaN and of the infinities: by default 0 and the largest numbers of the dtype.

        Shapes: [..] -> the same
        """
    def nan_to_num_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`nan_to_num`, in place: the tensor itself is changed and returned."""
    def nanmean(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None) -> Tensor:
        """The mean over axes of what is not NaN.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: an axis that does not exist.
        """
    def nanmedian(self, dim: _int | None = None, keepdim: _bool = False) -> Any:
        """The middle element in order among those that are not NaN, of two the smaller; NaN where there is none. Along `dim` a tuple of values and indices.

        Shapes: [..] -> [], or two without the axis `dim`

        Raises:
            ValueError: no elements along `dim`; no whole numbers at all.
            IndexError: an axis that does not exist.
        """
    def nanquantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = "linear") -> Tensor:
        """`quantile` of the elements that are not NaN; NaN where all are.

        Raises:
            TypeError: no floats, a `q` of another dtype.
            ValueError: no elements, a share outside 0 to 1, another interpolation.
            IndexError: an axis that does not exist.
        """
    def nansum(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None) -> Tensor:
        """The sum over axes, NaN counted as 0.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: an axis that does not exist.
        """
    def narrow(self, dim: _int, start: _int, length: _int) -> Tensor:
        """Returns a view of `length` elements of axis `dim` from `start` on.

        Shapes: [.., n, ..] -> [.., length, ..]

        Raises:
            IndexError: an axis that does not exist, or a start before the first element.
            ValueError: a range beyond the last element, or a negative length.
            TypeError: a start that is not an integer.
        """
    def narrow_copy(self, dim: _int, start: Any, length: _int) -> Tensor:
        """`narrow`, a copy.

        Shapes: [.., n, ..] -> [.., length, ..]

        Raises:
            IndexError: an axis that does not exist, a start before the first element.
            ValueError: elements behind the last one, a negative length.
        """
    @property
    def nbytes(self) -> _int: ...
    @property
    def ndim(self) -> _int: ...
    def ndimension(self) -> _int:
        """The number of axes."""
    def ndtr(self) -> Tensor:
        """Computes the cumulative distribution function of the standard normal distribution of each
        element.

        Shapes: [..] -> the same; integers become float32
        """
    def ndtri(self) -> Tensor:
        """Computes the inverse of the normal distribution function of each element: infinite at 0 and
        1, NaN outside.

        Shapes: [..] -> the same; integers become float32
        """
    def ne(self, other: Other) -> Tensor:
        """Computes `self != other` element-wise."""
    def ne_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ne`, in place: the tensor itself is changed and returned."""
    def neg(self) -> Tensor:
        """Computes `-x` of each element. Integers wrap.

        Shapes: [..] -> the same

        Raises:
            TypeError: a bool input.
        """
    def neg_(self) -> Self:
        """Computes `-x` of each element. Integers wrap.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def negative(self) -> Tensor:
        """Computes `-x` of each element. Integers wrap.

        Shapes: [..] -> the same

        Raises:
            TypeError: a bool input.
        """
    def negative_(self) -> Self:
        """Computes `-x` of each element. Integers wrap.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def nelement(self) -> _int:
        """The number of elements."""
    def new_empty(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """A tensor of these sizes whose contents nobody has decided (zeros here), in the dtype and on the device of this one.

        Shapes: any -> size

        Raises:
            ValueError: a size below 0.
            TypeError: a size that is no whole number.
        """
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """One value in these sizes, in the dtype and on the device of this tensor.

        Shapes: any -> size

        Raises:
            ValueError: a size below 0.
            TypeError: a value that is no number.
        """
    def new_ones(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Ones of these sizes, in the dtype and on the device of this tensor.

        Shapes: any -> size

        Raises:
            ValueError: a size below 0.
            TypeError: a size that is no whole number.
        """
    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """A tensor with these values, in the dtype and on the device of this one.

        Raises:
            TypeError: values that are no numbers.
            ValueError: lists of several lengths.
        """
    def new_zeros(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Zeros of these sizes, in the dtype and on the device of this tensor.

        Shapes: any -> size

        Raises:
            ValueError: a size below 0.
            TypeError: a size that is no whole number.
        """
    def nonzero(self, *, as_tuple: _bool = False) -> Any:
        """Returns the indices (int64) of all elements that are not 0: one row per element, or with
        `as_tuple` one tensor per axis.
        """
    def norm(self, p: _float | str | None = None, dim: Any = None, keepdim: _bool = False, dtype: Any = None, *, axis: Any = None, keepdims: _bool = False) -> Tensor:
        """The norm over axes: of order 2 by default, or any other number: of 0 how many are not 0, of infinity the largest size, of minus infinity the smallest;
        "fro" is 2, and "nuc" the sum of the singular values of matrices, which lie in two axes.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

        Args:
            dtype: what the elements are cast to first.

        Raises:
            IndexError: an axis that does not exist.
            ValueError: "nuc" over other axes than two, a `dtype` that does not hold the numbers of the input.
            TypeError: a `dtype` that is no floating one.
        """
    def normal_(self, mean: _float = 0.0, std: _float = 1.0, *, generator: Generator | None = None) -> Self:
        """Fills the tensor with random numbers from the normal distribution, in place: the tensor
        itself is changed and returned.

        Raises:
            TypeError: the dtype is not floating.
            ValueError: a negative standard deviation.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def not_equal(self, other: Other) -> Tensor:
        """Computes `self != other` element-wise."""
    def not_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ne`, in place: the tensor itself is changed and returned."""
    def numel(self) -> _int:
        """Returns the number of elements."""
    def numpy(self, *, force: _bool = False) -> np.ndarray[Any, Any]:
        """Returns the tensor's memory as a NumPy array: a change of one is visible in the other.

        Args:
            force: accept also a tensor that requires a gradient or is on another device, which is
                then copied.

        Raises:
            TypeError: the tensor is not on the CPU, or has a dtype that NumPy lacks.
            RuntimeError: the tensor requires a gradient.
        """
    def orgqr(self, input2: Tensor) -> Tensor:
        """The first columns of products of reflections `1 - tau v v.mT`: their vectors v are below the diagonal of `input`, and tau is `input2`.

        Shapes: [.., m, n] and [.., k] -> [.., m, n]

        Raises:
            ValueError: sizes that do not fit.
            TypeError: dtypes other than float32 and float64, or that differ.
        """
    def outer(self, vec2: Tensor) -> Tensor:
        """Computes the outer product of two vectors: [m] and [n] -> [m, n].

        Raises:
            ValueError: tensors that are not vectors.
        """
    def permute(self, *dims: SizeLike) -> Tensor:
        """Returns a view with the axes in another order.

        Shapes: [a, b, c] by (2, 0, 1) -> [c, a, b]

        Raises:
            IndexError: an axis that does not exist.
            ValueError: an order that does not contain each axis once.
        """
    def pin_memory(self) -> Tensor:
        """The tensor itself: copies to a device go through memory of their own.

        Shapes: [..] -> the same
        """
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """The Moore-Penrose inverses; singular values not above `rcond` times the largest count as 0.

        Shapes: [.., m, n] -> [.., n, m]

        Raises:
            LinAlgError: a NaN or an infinity.
            ValueError: less than 2 axes.
            TypeError: a dtype other than float32 and float64.
        """
    def polygamma(self, n: _int) -> Tensor:
        """Computes the derivative of order `n` of `digamma` of each element; order 0 is `digamma`
        itself.

        Shapes: [..] -> the same; integers become float32

        Raises:
            ValueError: a negative order.
        """
    def polygamma_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`polygamma`, in place: the tensor itself is changed and returned."""
    def positive(self) -> Tensor:
        """The tensor itself.

        Shapes: [..] -> the same
        """
    def pow(self, exponent: Other) -> Tensor:
        """Raises this tensor to the power of another, or of a number, broadcast."""
    def pow_(self, exponent: Other) -> Self:
        """Raises this tensor to the power of another, or of a number, broadcast, in place: the tensor
        itself is changed and returned.
        """
    def prelu(self, weight: Tensor) -> Tensor:
        """`x` where it is positive, else `weight * x`, with one weight, or one for each channel (the second axis).

        Shapes: [batch, channels, ..], weight [1] or [channels] -> the input's

        Raises:
            ValueError: as many weights as neither 1 nor the channels.
        """
    def prod(self, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def put(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """This tensor with the elements of `source` in these places of all elements in a row, or added to them.

        Shapes: [..], index and source of as many elements -> the input's

        Raises:
            IndexError: a place that does not exist.
            ValueError: as many elements as there are no places.
            TypeError: a source of a dtype that the input's does not hold, floats of integers.
        """
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """The elements of `source` in these places of all elements in a row, or added to them, in place: the tensor itself is changed and returned.

        Shapes: [..], index and source of as many elements -> the input's

        Raises:
            IndexError: a place that does not exist.
            ValueError: as many elements as there are no places.
            TypeError: a source of a dtype that the input's does not hold, floats of integers.
        """
    def qr(self, some: _bool = True) -> Any:
        """`input = Q @ R` with orthonormal columns of Q, all of them unless `some`, and an upper triangular R: a tuple of Q and R.

        Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or m unless `some`

        Raises:
            ValueError: less than 2 axes.
            TypeError: a dtype other than float32 and float64.
        """
    def quantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = "linear") -> Tensor:
        """The numbers below which these shares of the elements are; NaN where there is one. Gradients go to the elements that were found, and to `q`.

        Args:
            q: a share from 0 to 1, or a tensor of several, which are a first axis of the result.
            interpolation: what is between two elements: "linear", "lower", "higher", "midpoint" or "nearest".

        Raises:
            TypeError: no floats, a `q` of another dtype.
            ValueError: no elements, a share outside 0 to 1, another interpolation.
            IndexError: an axis that does not exist.
        """
    def rad2deg(self) -> Tensor:
        """Radians as degrees.

        Shapes: [..] -> the same
        """
    def rad2deg_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`rad2deg`, in place: the tensor itself is changed and returned."""
    def random_(self, *limits: _int, to: _int | None = None, generator: Any = None, **first: _int) -> Tensor:
        """Random whole numbers, in place: `random_(to)` from 0 up to, not including, `to`; `random_(from, to)` from the first on; by default all that the dtype can count exactly, up to 2**40.

        Shapes: [..] -> the same

        Raises:
            ValueError: no number from the first to below `to`.
            TypeError: other arguments, `from` without `to`.
        """
    def ravel(self) -> Tensor:
        """All elements as one axis: a view of a tensor in row-major order, else a copy.

        Shapes: [..] -> [elements]
        """
    @property
    def real(self) -> Tensor: ...
    def reciprocal(self) -> Tensor:
        """Computes `1 / x` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def reciprocal_(self) -> Self:
        """Computes `1 / x` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def register_hook(self, hook: Any) -> HookHandle:
        """Registers a function that is called with the gradient of this tensor when it is final. If
        the function returns a tensor, it replaces the gradient.

        Returns:
            a handle that removes the hook by `handle.remove()`.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
    def relu(self) -> Tensor:
        """Computes `max(x, 0)` of each element; NaN stays NaN.

        Shapes: [..] -> the same

        Raises:
            TypeError: a bool input.
        """
    def relu_(self) -> Self:
        """Computes `max(x, 0)` of each element; NaN stays NaN.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def remainder(self, other: Other) -> Tensor:
        """Computes the remainder of a division, with the sign of the divisor; broadcast."""
    def remainder_(self, other: Other) -> Self:
        """Computes the remainder of a division, with the sign of the divisor; broadcast.

        In place: the tensor itself is changed and returned.
        """
    def renorm(self, p: _float, dim: _int, maxnorm: _float) -> Tensor:
        """The slices along an axis, those whose `p`-norm is above `maxnorm` scaled to that.

        Shapes: [..], at least two axes -> the same

        Raises:
            ValueError: less than two axes, a `p` that is not above 0, a `maxnorm` below 0.
            TypeError: whole numbers.
            IndexError: an axis that does not exist.
        """
    def renorm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`renorm`, in place: the tensor itself is changed and returned."""
    def repeat(self, *counts: SizeLike, repeats: SizeLike | None = None) -> Tensor:
        """Repeats the tensor along each axis the given number of times; a copy.

        Shapes: [m, n] by (a, b) -> [a * m, b * n]; new axes come first

        Raises:
            ValueError: fewer counts than axes, or a negative count.
        """
    def repeat_interleave(self, repeats: Any = None, dim: _int | None = None, *, output_size: _int | None = None) -> Tensor:
        """Each element, or each slice of an axis, several times in turn.

        Shapes: [..] -> [elements * repeats], or longer along `dim`

        Args:
            repeats: how often, a number or a tensor with one for each; without it `input` tells how often each of its indices is repeated.
            dim: the axis; all elements in a row by default.
            output_size: taken as in PyTorch, and not needed.

        Raises:
            ValueError: a number below 0, or not one for each.
        """
    requires_grad: _bool
    def requires_grad_(self, requires_grad: _bool = True) -> Self:
        """Sets whether this tensor requires a gradient, in place. Returns the tensor.

        Raises:
            TypeError: the dtype is not floating.
            RuntimeError: `requires_grad` is False for a computed tensor.
        """
    def reshape(self, *shape: SizeLike) -> Tensor:
        """Returns the elements in row-major order with another shape, of which one size may be -1; a
        view if possible.

        Raises:
            ValueError: sizes whose product is not the number of elements.
        """
    def reshape_as(self, other: Tensor) -> Tensor:
        """The elements in the shape of `other`.

        Shapes: [..] -> the other's

        Raises:
            ValueError: another number of elements.
        """
    def retain_grad(self) -> None:
        """Accumulates the gradient in `grad` of this tensor too, although it is not a leaf.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
    def roll(self, shifts: SizeLike, dims: SizeLike | None = None) -> Tensor:
        """Shifts the elements along `dims`; elements that leave at one end reenter at the other.

        Shapes: [..] -> the same

        Raises:
            IndexError: an axis that does not exist.
            ValueError: different numbers of axes and shifts, or several shifts without axes.
        """
    def rot90(self, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
        """The tensor turned `k` times by a right angle, from the first of two axes to the second.

        Shapes: [rows, columns] -> [columns, rows], or the same for even `k`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: one axis twice.
        """
    def round(self, *, decimals: _int = 0) -> Tensor:
        """The nearest whole number of each element, halves to even; with `decimals` that many digits behind the point.

        Shapes: [..] -> the same

        Raises:
            TypeError: no tensor, `decimals` that are no number.
        """
    def round_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`round`, in place: the tensor itself is changed and returned."""
    def rsqrt(self) -> Tensor:
        """Computes `1 / sqrt(x)` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def rsqrt_(self) -> Self:
        """Computes `1 / sqrt(x)` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def scatter(self, dim: _int, index: Tensor, src: Operand | None = None, *, value: Number | None = None, reduce: str | None = None) -> Tensor:
        """Writes `src`, a tensor or a number, to a copy of this tensor at the positions `index` along
        `dim`.

        Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] or larger, of which the first
            elements
        are used -> [.., n, ..]

        Args:
            reduce: "add" adds to the current values, "multiply" multiplies them.

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64, a source of another dtype, both `src`
                and `value`, or neither.
            ValueError: incompatible shapes.
        """
    def scatter_(self, dim: _int, index: Tensor, src: Operand | None = None, *, value: Number | None = None, reduce: str | None = None) -> Self:
        """`scatter` in place.

        Shapes and errors are those of `scatter`

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """Adds the elements of `src` to a copy of this tensor at the positions `index` along `dim`.

        Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] or larger, of which the first
            elements
        are used -> [.., n, ..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64, or a source of another dtype.
            ValueError: incompatible shapes.
        """
    def scatter_add_(self, dim: _int, index: Tensor, src: Tensor) -> Self:
        """`scatter_add` in place.

        Shapes and errors are those of `scatter_add`

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def scatter_reduce(self, dim: _int, index: Tensor, src: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """This tensor with the elements of `src` reduced into the places along `dim` that `index` names.

        Shapes: [..], index of as many axes, src at least as long along each -> the input's

        Args:
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: whether the elements of this tensor count, too.

        Raises:
            IndexError: an axis or a place that does not exist.
            ValueError: another `reduce`, shapes that do not fit.
            TypeError: a source of another dtype, the mean of truth values.
        """
    def scatter_reduce_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`scatter_reduce`, in place: the tensor itself is changed and returned."""
    def select(self, dim: _int, index: _int) -> Tensor:
        """Returns a view of one element of axis `dim`, without that axis.

        Shapes: [.., n, ..] -> [..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
        """
    def select_scatter(self, src: Tensor, dim: _int, index: _int) -> Tensor:
        """This tensor with `src` in the place of one slice of an axis.

        Shapes: [..], `src` without the axis `dim` -> the input's

        Raises:
            IndexError: an axis or a slice that does not exist.
            ValueError: a `src` of another shape.
        """
    def sgn(self) -> Tensor:
        """Returns -1, 0 or 1 for each element; NaN stays NaN.

        Shapes: [..] -> the same
        """
    def sgn_(self) -> Self:
        """Computes -1, 0 or 1 for each element; NaN stays NaN.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    @property
    def shape(self) -> Size: ...
    def short(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to int16, rounding toward zero.

        Shapes: [..] -> the same
        """
    def sigmoid(self) -> Tensor:
        """Computes `1 / (1 + e^-x)` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def sigmoid_(self) -> Self:
        """Computes `1 / (1 + e^-x)` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def sign(self) -> Tensor:
        """Returns -1, 0 or 1 for each element; NaN stays NaN.

        Shapes: [..] -> the same
        """
    def sign_(self) -> Self:
        """Computes -1, 0 or 1 for each element; NaN stays NaN.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def signbit(self) -> Tensor:
        """Where the sign is negative: that of zero counts.

        Shapes: [..] -> the same, bool
        """
    def silu(self) -> Tensor:
        """Computes `x * sigmoid(x)` of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def silu_(self) -> Self:
        """Computes `x * sigmoid(x)` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def sin(self) -> Tensor:
        """Computes the sine of each element, in radians.

        Shapes: [..] -> the same; integers become float32
        """
    def sin_(self) -> Self:
        """Computes the sine of each element, in radians.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def sinc(self) -> Tensor:
        """Computes `sin(pi x) / (pi x)` of each element; 1 at 0.

        Shapes: [..] -> the same; integers become float32
        """
    def sinc_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`sinc`, in place: the tensor itself is changed and returned."""
    def sinh(self) -> Tensor:
        """Computes the hyperbolic sine of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def sinh_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`sinh`, in place: the tensor itself is changed and returned."""
    def size(self, dim: _int | None = None) -> Any:
        """Returns the sizes, or the size of one axis.

        Raises:
            IndexError: an axis that does not exist.
        """
    def slice_scatter(self, src: Tensor, dim: _int = 0, start: _int | None = None, end: _int | None = None, step: _int = 1) -> Tensor:
        """This tensor with `src` in the place of a part of an axis.

        Shapes: [..], `src` of the part's shape -> the input's

        Raises:
            IndexError: an axis that does not exist.
            ValueError: a `src` of another shape.
        """
    def slogdet(self) -> Any:
        """Signs and logarithms of the magnitudes of determinants: a tuple of sign and logabsdet.

        Shapes: [.., n, n] -> two of [..]

        Raises:
            ValueError: matrices that are not square.
            TypeError: a dtype other than float32 and float64.
        """
    def softmax(self, dim: _int | None = None, dtype: DTypeLike | None = None, *, axis: _int | None = None) -> Tensor:
        """Computes `e^x / sum(e^x)` along `dim`.

        Shapes: [.., n, ..] -> the same

        Raises:
            IndexError: an axis that does not exist.
            TypeError: no `dim`.
        """
    def softplus(self, beta: _float = 1.0, threshold: _float = 20.0) -> Tensor:
        """Computes `log(1 + e^(beta * x)) / beta`, or `x` itself where `beta * x` is above the
        threshold.

        Shapes: [..] -> the same; integers become float32

        Raises:
            ValueError: a `beta` that is not positive.
        """
    def sort(self, dim: _int | None = None, descending: _bool = False, stable: _bool = False, *, axis: _int | None = None) -> sort:
        """Sorts the elements along `dim`. Returns a named tuple of the sorted values and their
        original indices (int64).

        Shapes: [.., n, ..] -> two of the same

        Args:
            stable: accepted as in PyTorch; equal elements keep their order in any case.
            axis: an alternative name of dim.

        Raises:
            IndexError: an axis that does not exist.
        """
    def split(self, split_size_or_sections: SizeLike | None = None, dim: _int = 0, *, split_size: SizeLike | None = None) -> tuple[Tensor, ...]:
        """Splits axis `dim` into parts of `split_size_or_sections` elements each, or of these sizes.

        Shapes: [.., n, ..] -> a tuple of [.., size, ..]; a last part may be smaller

        Raises:
            IndexError: an axis that does not exist.
            ValueError: parts of size 0, or sizes whose sum is not the size of the axis.
        """
    def split_with_sizes(self, split_sizes: Sequence[_int], dim: _int = 0) -> tuple[Tensor, ...]:
        """Parts of an axis of these sizes.

        Shapes: [.., size, ..] -> parts of [.., part, ..]

        Raises:
            ValueError: sizes that do not add up to that of the axis.
            IndexError: an axis that does not exist.
        """
    def sqrt(self) -> Tensor:
        """Computes the square root of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def sqrt_(self) -> Self:
        """Computes the square root of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def square(self) -> Tensor:
        """Computes `x * x` of each element; bool becomes int64.

        Shapes: [..] -> the same
        """
    def square_(self) -> Self:
        """Computes `x * x` of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            TypeError: a bool input.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def squeeze(self, dim: SizeLike | None = None, *, axis: SizeLike | None = None) -> Tensor:
        """Removes all axes of size 1, or those of the given axes that have size 1.

        Shapes: [.., 1, ..] -> [..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`squeeze`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def std(self, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
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
    def storage_offset(self) -> _int:
        """Returns the offset of the first element in its memory, in elements."""
    def stride(self, dim: _int | None = None) -> tuple[_int, ...]:
        """Returns the distance in elements between neighbors along each axis, or along one.

        Raises:
            IndexError: an axis that does not exist.
        """
    def sub(self, other: Other, *, alpha: Number | None = None) -> Tensor:
        """Subtracts `alpha` times another tensor, or a number, broadcast."""
    def sub_(self, other: Other, *, alpha: Number | None = None) -> Self:
        """Subtracts `alpha` times another tensor, or a number, broadcast, in place: the tensor itself
        is changed and returned.
        """
    def subtract(self, other: Other, *, alpha: Number | None = None) -> Tensor:
        """Subtracts `alpha` times another tensor, or a number, broadcast."""
    def subtract_(self, other: Other, *, alpha: Number | None = None) -> Self:
        """Subtracts `alpha` times another tensor, or a number, broadcast, in place: the tensor itself
        is changed and returned.
        """
    def sum(self, dim: SizeLike | None = None, keepdim: _bool = False, *, dtype: DTypeLike | None = None, axis: SizeLike | None = None, keepdims: _bool = False) -> Tensor:
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
    def sum_to_size(self, *size: Any) -> Tensor:
        """The sums over the axes along which a tensor of these sizes would be repeated; of whole numbers and truth values int64, also of the one element without sizes.

        Raises:
            ValueError: sizes that do not broadcast to this tensor's.
        """
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> Any:
        """`input = U @ diag(S) @ V.mT` with orthonormal columns of U and V, all of them unless `some`, and singular values S in descending order: a tuple of all.

        Without `compute_uv` U and V are zeros, and square.

        Shapes: [.., m, n] -> [.., m, k], [.., k] and [.., n, k] with k = min(m, n); unless `some` [.., m, m], [.., k] and [.., n, n]

        Raises:
            LinAlgError: a NaN or an infinity.
            ValueError: less than 2 axes.
            TypeError: a dtype other than float32 and float64.
        """
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """Two axes exchanged: `transpose`.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def swapaxes_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`swapaxes`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Two axes exchanged: `transpose`.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def swapdims_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`swapdims`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def t(self) -> Tensor:
        """Returns a view of a matrix with its two axes exchanged.

        Shapes: [m, n] -> [n, m]; [n] and [] are unchanged

        Raises:
            ValueError: more than two axes.
        """
    def t_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`t`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def take(self, index: Tensor) -> Tensor:
        """The elements at these places of all elements in a row, in the shape of `index`.

        Shapes: [..], index [*places] -> [*places]

        Raises:
            IndexError: a place that does not exist.
            TypeError: an index of a floating dtype.
        """
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """The elements whose places along `dim` are in `indices`, both broadcast against each other elsewhere; of all elements in a row by default.

        Shapes: [..] and indices of as many axes -> the indices' shape

        Raises:
            IndexError: an axis or a place that does not exist.
            ValueError: indices of another number of axes.
        """
    def tan(self) -> Tensor:
        """Computes the tangent of each element, in radians.

        Shapes: [..] -> the same; integers become float32
        """
    def tan_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`tan`, in place: the tensor itself is changed and returned."""
    def tanh(self) -> Tensor:
        """Computes the hyperbolic tangent of each element.

        Shapes: [..] -> the same; integers become float32
        """
    def tanh_(self) -> Self:
        """Computes the hyperbolic tangent of each element.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: the dtype is an integer type, which cannot represent the
                result.
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def tensor_split(self, indices_or_sections: Any = None, dim: _int = 0, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Parts of an axis: so many, as even as can be, or those between these places.

        Args:
            sections, indices: what PyTorch calls the first argument, by what it is.

        Shapes: [.., size, ..] -> parts of [.., part, ..]

        Raises:
            ValueError: less than 1 part.
            IndexError: an axis that does not exist.
        """
    def tile(self, *counts: Any, dims: Any = None) -> Tensor:
        """The tensor repeated so often along each axis; counts are for the last axes.

        Shapes: [.., n] -> [.., n * times]

        Raises:
            ValueError: a count below 0.
        """
    def to(self, *args: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, copy: _bool = False, non_blocking: _bool = False, memory_format: Any = None) -> Tensor:
        """Converts the dtype or the device. Returns the tensor itself if it already has both.

        Accepts a dtype, a device or its name, both, or a tensor whose dtype and device are used.

        Shapes: [..] -> the same

        Args:
            copy: whether to copy in any case.
            non_blocking, memory_format: accepted as in PyTorch; ignored.

        Raises:
            RuntimeError: the device is not available.
            TypeError: an argument that is neither a dtype nor a device.
        """
    def tolist(self) -> Any:
        """Returns the elements as nested lists of Python numbers, or as a number for a tensor without
        axes.
        """
    def topk(self, k: _int, dim: _int = ..., largest: _bool = True, sorted: _bool = True) -> topk:
        """Returns the `k` largest (or smallest) elements along `dim` in order, as a named tuple of
        values and indices (int64).

        Shapes: [.., n, ..] -> two of [.., k, ..]

        Args:
            sorted: accepted as in PyTorch; the elements are sorted in any case.

        Raises:
            IndexError: an axis that does not exist.
            ValueError: a `k` below 0, or above the number of elements.
        """
    def trace(self) -> Tensor:
        """The sum of the diagonal of a matrix.

        Shapes: [rows, columns] -> []

        Raises:
            ValueError: a tensor that is none.
        """
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Returns a view with two axes exchanged.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def transpose_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`transpose`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> Any:
        """`X` with `A @ X = input` (or with `A.mT`) of one triangle of `A`: a tuple of solution and cloned_coefficient, a copy of `A`.

        Shapes: [.., n, k] and [.., n, n] -> [.., n, k] and [.., n, n]

        Raises:
            ValueError: sizes that do not fit.
            TypeError: dtypes other than float32 and float64, or that differ.
        """
    def tril(self, diagonal: _int = 0) -> Tensor:
        """Keeps the elements on and below a diagonal of the last two axes, and sets those above to
        zero.

        Shapes: [.., m, n] -> the same

        Raises:
            ValueError: fewer than two axes.
        """
    def tril_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`tril`, in place: the tensor itself is changed and returned."""
    def triu(self, diagonal: _int = 0) -> Tensor:
        """Keeps the elements on and above a diagonal of the last two axes, and sets those below to
        zero.

        Shapes: [.., m, n] -> the same

        Raises:
            ValueError: fewer than two axes.
        """
    def triu_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`triu`, in place: the tensor itself is changed and returned."""
    def true_divide(self, other: Other, *, rounding_mode: str | None = None) -> Tensor:
        """Divides by another tensor, or a number, broadcast. Integers become float32 first.

        Args:
            rounding_mode: "floor" rounds down, as `//` does; "trunc" rounds toward zero.
        """
    def true_divide_(self, other: Other, *, rounding_mode: str | None = None) -> Self:
        """Divides by another tensor, or a number, broadcast, in place: the tensor itself is changed
        and returned.
        """
    def trunc(self) -> Tensor:
        """Rounds each element to an integer toward zero.

        Shapes: [..] -> the same
        """
    def trunc_(self) -> Self:
        """Rounds each element to an integer toward zero.

        In place: the tensor itself is changed and returned.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while
                operations are recorded.
        """
    def type(self, dtype: Any = None, non_blocking: _bool = False) -> Any:
        """The tensor in another dtype, which may be told as "ternion.LongTensor"; or the name of its type.

        Shapes: [..] -> the same
        """
    def type_as(self, other: Tensor) -> Tensor:
        """Converts the tensor to the dtype and device of `other`.

        Shapes: [..] -> the same
        """
    def unbind(self, dim: _int = 0) -> tuple[Tensor, ...]:
        """Returns views of all elements of axis `dim`, without that axis.

        Shapes: [.., n, ..] -> a tuple of n of [..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def unflatten(self, dim: _int, sizes: SizeLike) -> Tensor:
        """Splits axis `dim` into several axes of these sizes, one of which may be -1.

        Shapes: [.., m * n, ..] -> [.., m, n, ..]

        Raises:
            IndexError: an axis that does not exist.
            ValueError: sizes whose product is not the size of the axis.
        """
    def unfold(self, dimension: _int, size: _int, step: _int) -> Tensor:
        """Returns sliding windows of `size` elements along `dimension`, with distance `step`, in an
        additional last axis.

        Shapes: [.., n, ..] -> [.., windows, .., size]

        Raises:
            IndexError: an axis that does not exist.
            ValueError: windows larger than the axis, or a step of 0.
        """
    def uniform_(self, low: _float = 0.0, high: _float = 1.0, *, generator: Generator | None = None, to: _float | None = None, **first: _float) -> Self:
        """Fills the tensor with uniform random numbers in [low, high), in place: the tensor itself is
        changed and returned.

        Raises:
            TypeError: the dtype is not floating.
            ValueError: bounds in the wrong order.
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def unique(self, sorted: _bool = True, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """The different elements in order, and what is asked for beside them.

        Args:
            sorted: taken as in PyTorch; they are in order in any case.
            return_inverse: where each element of the input is among them, in the input's shape, int64.
            return_counts: how often each of them occurs, int64.
            dim: an axis whose slices are compared as a whole, number by number; `inverse` and `counts` have one number for each slice then.

        Raises:
            IndexError: an axis that is none.
            ValueError: slices without elements.
        """
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """The elements without those that are as the one before, and what is asked for beside them: see `unique`.

        Shapes: [..] -> [groups], and beside it the input's shape (inverse) and [groups] (counts); along `dim` of slices, which are compared as a whole

        Raises:
            IndexError: an axis that is none.
            ValueError: slices without elements.
        """
    def unsqueeze(self, dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
        """Inserts an axis of size 1 at `dim`.

        Shapes: [..] -> [.., 1, ..]

        Raises:
            IndexError: an axis that does not exist.
            TypeError: no `dim`.
        """
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`unsqueeze`, in place: the tensor itself has the other form and is returned; what shares its memory stays as it is."""
    def var(self, dim: SizeLike | _bool | None = None, unbiased: _bool | None = None, keepdim: _bool = False, *, correction: _float | None = None, axis: SizeLike | _bool | None = None, keepdims: _bool = False) -> Tensor:
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
    def vdot(self, other: Tensor) -> Tensor:
        """The sum of the products of the elements of two vectors.

        Shapes: [n] and [n] -> []

        Raises:
            ValueError: tensors that are no vectors, or of other sizes.
        """
    def view(self, *shape: SizeLike) -> Tensor:
        """Returns a view with another shape, of which one size may be -1; or, given a dtype, the bytes
        reinterpreted as numbers of another dtype of the same size.

        Raises:
            ValueError: incompatible sizes, or a shape that requires a copy.
            TypeError: a dtype of another size, or bool.
        """
    def view_as(self, other: Tensor) -> Tensor:
        """The elements of the same memory in the shape of `other`.

        Shapes: [..] -> the other's

        Raises:
            ValueError: another number of elements, or a shape that only a copy has.
        """
    def vsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Parts one below the other: of the first axis. So many must be of one size.

        Shapes: [rows, columns, ..] -> parts of [part, columns, ..]

        Raises:
            ValueError: less than 2 axes, a number of parts that does not divide the first.
        """
    def where(self, condition: Tensor, other: Other) -> Tensor:
        """Returns the elements of this tensor where the condition is True, and those of `other`
        elsewhere; broadcast.
        """
    def xlog1py(self, other: Any) -> Tensor:
        """`input * log(1 + other)`, accurate near 0: 0 where input is 0 and other is not NaN; one of both may be a number.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: something that is neither a tensor nor a number, two numbers.
        """
    def xlogy(self, other: Any) -> Tensor:
        """`input * log(other)`, 0 where input is 0 and other is not NaN; one of both may be a number.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: something that is neither a tensor nor a number, two numbers.
        """
    def xlogy_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`xlogy`, in place: the tensor itself is changed and returned."""
    def zero_(self) -> Self:
        """Fills the tensor with 0, in place, and returns it.

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def zeta(self, other: Any) -> Tensor:
        """The zeta function of Hurwitz, the sum of `(other + k)^-input` over `k >= 0`; one of both may be a number. Input has no gradient.

        Shapes: [..] and what broadcasts to it -> the shape that they have together

        Raises:
            ValueError: shapes that do not broadcast.
            TypeError: something that is neither a tensor nor a number, two numbers.
        """
    def _addcdiv(self, *args: Any, **kwargs: Any) -> Any: ...
    def _aminmax(self, *args: Any, **kwargs: Any) -> Any: ...
    def _as_strided(self, *args: Any, **kwargs: Any) -> Any: ...
    def _as_strided_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _atleast(self, *args: Any, **kwargs: Any) -> Any: ...
    def _cdist(self, *args: Any, **kwargs: Any) -> Any: ...
    def _combinations(self, *args: Any, **kwargs: Any) -> Any: ...
    def _copysign(self, *args: Any, **kwargs: Any) -> Any: ...
    def _corrcoef(self, *args: Any, **kwargs: Any) -> Any: ...
    def _count_nonzero(self, *args: Any, **kwargs: Any) -> Any: ...
    def _cov(self, *args: Any, **kwargs: Any) -> Any: ...
    def _cummax(self, *args: Any, **kwargs: Any) -> Any: ...
    def _cummin(self, *args: Any, **kwargs: Any) -> Any: ...
    def _cumprod(self, *args: Any, **kwargs: Any) -> Any: ...
    def _deg2rad(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diag(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diag_embed(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diagflat(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diagonal(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diagonal_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _diff(self, *args: Any, **kwargs: Any) -> Any: ...
    def _dist(self, *args: Any, **kwargs: Any) -> Any: ...
    def _fill_diagonal_(self, *args: Any, **kwargs: Any) -> Any: ...
    def _fliplr(self, *args: Any, **kwargs: Any) -> Any: ...
    def _flipud(self, *args: Any, **kwargs: Any) -> Any: ...
    def _float_power(self, *args: Any, **kwargs: Any) -> Any: ...
    def _frac(self, *args: Any, **kwargs: Any) -> Any: ...
    def _frexp(self, *args: Any, **kwargs: Any) -> Any: ...
    def _gradient(self, *args: Any, **kwargs: Any) -> Any: ...
    def _heaviside(self, *args: Any, **kwargs: Any) -> Any: ...
    def _histogram(self, *args: Any, **kwargs: Any) -> Any: ...
    def _hypot(self, *args: Any, **kwargs: Any) -> Any: ...
    def _index_copy(self, *args: Any, **kwargs: Any) -> Any: ...
    def _index_fill(self, *args: Any, **kwargs: Any) -> Any: ...
    def _index_put(self, *args: Any, **kwargs: Any) -> Any: ...
    def _index_reduce(self, *args: Any, **kwargs: Any) -> Any: ...
    def _inner(self, *args: Any, **kwargs: Any) -> Any: ...
    def _isin(self, *args: Any, **kwargs: Any) -> Any: ...
    def _isneginf(self, *args: Any, **kwargs: Any) -> Any: ...
    def _isposinf(self, *args: Any, **kwargs: Any) -> Any: ...
    def _kron(self, *args: Any, **kwargs: Any) -> Any: ...
    def _kthvalue(self, *args: Any, **kwargs: Any) -> Any: ...
    def _ldexp(self, *args: Any, **kwargs: Any) -> Any: ...
    def _lerp(self, *args: Any, **kwargs: Any) -> Any: ...
    def _lerp_tensor(self, *args: Any, **kwargs: Any) -> Any: ...
    def _logaddexp(self, *args: Any, **kwargs: Any) -> Any: ...
    def _logaddexp2(self, *args: Any, **kwargs: Any) -> Any: ...
    def _logcumsumexp(self, *args: Any, **kwargs: Any) -> Any: ...
    def _median(self, *args: Any, **kwargs: Any) -> Any: ...
    def _median_all(self, *args: Any, **kwargs: Any) -> Any: ...
    def _mode(self, *args: Any, **kwargs: Any) -> Any: ...
    def _movedim(self, *args: Any, **kwargs: Any) -> Any: ...
    def _msort(self, *args: Any, **kwargs: Any) -> Any: ...
    def _multinomial(self, *args: Any, **kwargs: Any) -> Any: ...
    def _nan_to_num(self, *args: Any, **kwargs: Any) -> Any: ...
    def _nanmean(self, *args: Any, **kwargs: Any) -> Any: ...
    def _nanmedian(self, *args: Any, **kwargs: Any) -> Any: ...
    def _nanmedian_all(self, *args: Any, **kwargs: Any) -> Any: ...
    def _nansum(self, *args: Any, **kwargs: Any) -> Any: ...
    def _parts(self, *args: Any, **kwargs: Any) -> Any: ...
    def _prelu(self, *args: Any, **kwargs: Any) -> Any: ...
    def _put(self, *args: Any, **kwargs: Any) -> Any: ...
    def _quantile(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rad2deg(self, *args: Any, **kwargs: Any) -> Any: ...
    def _renorm(self, *args: Any, **kwargs: Any) -> Any: ...
    def _repeat_interleave(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rot90(self, *args: Any, **kwargs: Any) -> Any: ...
    def _round(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rsub(self, *args: Any, **kwargs: Any) -> Any: ...
    def _scatter_reduce(self, *args: Any, **kwargs: Any) -> Any: ...
    def _searchsorted(self, *args: Any, **kwargs: Any) -> Any: ...
    def _select_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _signbit(self, *args: Any, **kwargs: Any) -> Any: ...
    def _slice_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _sum_to_size(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take_along_dim(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take_form(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take_over(self, *args: Any, **kwargs: Any) -> Any: ...
    def _tensordot(self, *args: Any, **kwargs: Any) -> Any: ...
    def _tile(self, *args: Any, **kwargs: Any) -> Any: ...
    def _trace(self, *args: Any, **kwargs: Any) -> Any: ...
    def _trapezoid(self, *args: Any, **kwargs: Any) -> Any: ...
    def _unique(self, *args: Any, **kwargs: Any) -> Any: ...
    def _unravel_index(self, *args: Any, **kwargs: Any) -> Any: ...
    def _var_mean(self, *args: Any, **kwargs: Any) -> Any: ...
    def _version(self, *args: Any, **kwargs: Any) -> Any: ...

class Parameter(Tensor):
    def __init__(self, data: Tensor, requires_grad: _bool = True) -> None: ...

class _Steps:
    def __init__(self, *args: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...

def arange(start: Number, end: Number | None = None, step: Number | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Returns the numbers from `start` up to, but not including, `end` with distance `step`:
    `arange(end)`, `arange(start, end)`, `arange(start, end, step)`.

    The dtype is int64 if all arguments are ints, otherwise float32.

    Shapes: -> [n]

    Raises:
        ValueError: a step of 0, or a step that leads away from `end`.
        TypeError: an argument that is not a number.
    """
def as_tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Converts `data` to a tensor, without a copy if possible: a tensor is returned itself, and a
    NumPy array shares its memory.

    Arguments and errors are those of `tensor`.
    """
def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples from binomial distributions: the number of successes in `count` trials with probability
    `prob`, in the dtype of `count`. No gradient flows.

    Shapes: two tensors, broadcast -> the broadcast shape

    Raises:
        TypeError: the dtype is not floating.
        ValueError: counts that are not integers of at least 0, probabilities outside 0 to 1, or
            shapes that do not broadcast.
    """
def cat(tensors: Sequence[Tensor], dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
    """Concatenates tensors along an existing axis. Tensors of shape [0] are ignored if others have
    more axes.

    Shapes: [.., m, ..] and [.., n, ..] -> [.., m + n, ..]

    Raises:
        ValueError: no tensors, or sizes that differ along another axis.
        IndexError: an axis that does not exist.
        TypeError: an argument that is not a tensor.
    """
def concat(tensors: Sequence[Tensor], dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
    """Alias of `cat`.

    Shapes and errors are those of `cat`
    """
def devices() -> list[dict[str, Any]]:
    """Returns the available devices: a list of dicts with name, hardware and memory (bytes, or None).
    No device is opened.
    """
def einsum(equation: str, *operands: Tensor) -> Tensor:
    """Sums products by names of axes: `einsum("bij,bjk->bik", a, b)`.

    Shapes: determined by the equation: "bij,bjk->bik" is [b, i, j] and [b, j, k] -> [b, i, k]

    Raises:
        ValueError: an invalid equation, or one that does not match the operands.
    """
def empty(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def empty_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns a tensor with unspecified contents (zeros in this implementation), with the shape,
    dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def eye(n: _int, m: _int | None = None, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Returns a matrix of `n` rows and `m` columns (`n` by default) with ones on the diagonal and
    zeros elsewhere.

    Shapes: -> [n, m]

    Raises:
        ValueError: a negative size.
    """
def from_dlpack(x: Any, *, device: DeviceLike | None = None, copy: _bool | None = None) -> Tensor:
    """Creates a tensor that shares the memory of `x`, an array of another library with `__dlpack__`,
    or a capsule that `__dlpack__` returned. A change of one is visible in the other.

    Args:
        device: the device of the tensor; by default that of `x`.
        copy: True always copies, False never does.

    Raises:
        TypeError: `x` has no `__dlpack__`, or has a dtype that Ternion does not support.
        ValueError: the memory cannot be shared.
        BufferError: a copy is necessary, and `copy` is False.
    """
def from_numpy(array: Any) -> Tensor:
    """Creates a tensor that shares the memory of a NumPy array: a change of one is visible in the
    other. A read-only array is copied.

    Raises:
        TypeError: the argument is not an array, or has a dtype that Ternion does not support.
    """
def full(size: SizeLike, fill_value: Number | Tensor, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def full_like(input: Tensor, fill_value: Number | Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns a tensor filled with `fill_value`, with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: a value that is not a number.
    """
def get_default_device() -> device:
    """Returns the default device of new tensors."""
def get_default_dtype() -> dtype:
    """Returns the default dtype of new floating tensors."""
def is_grad_enabled() -> _bool:
    """Returns whether ops on this thread are recorded if an input requires a gradient."""
def linspace(start: _float, end: _float, steps: _int, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
    """Returns `steps` evenly spaced numbers from `start` to `end`, both included. For integer dtypes
    `start` and `end` are truncated first, and then the results.

    Shapes: -> [steps]

    Raises:
        ValueError: a negative number of steps.
    """
def manual_seed(seed: _int) -> None:
    """Seeds the random number generators of every device, including those that are opened later.

    Raises:
        ValueError: a seed that is not from -2**63 to 2**64 - 1.
        TypeError: a seed that is not an integer.
    """
def ones(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def ones_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns ones with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def poisson(input: Tensor, generator: Generator | None = None) -> Tensor:
    """Samples from Poisson distributions whose rates are the elements of `input`; the dtype is kept.
    No gradient flows.

    Shapes: [..] -> the same

    Raises:
        TypeError: the dtype is not floating.
        ValueError: a rate that is negative or not finite.
    """
def rand(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def rand_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns uniform random numbers in [0, 1), with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def randint(low: _int | None = None, high: Any = None, size: SizeLike | None = None, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Returns uniform random integers from `low` up to, but not including, `high`: `randint(high,
    size)`, `randint(low, high, size)`.

    Shapes: -> [*size]

    Raises:
        ValueError: `high` is not greater than `low`, or an integer does not fit the dtype (bool
            accepts 0 and 1).
        TypeError: no size.
    """
def randn(*size: SizeLike, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def randn_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns random numbers from the standard normal distribution, with the shape, dtype and
    device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def randperm(n: _int, *, generator: Generator | None = None, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """Returns a random permutation of the integers from 0 up to, but not including, `n`; int64.

    Shapes: -> [n]

    Raises:
        ValueError: a negative `n`.
    """
def set_default_device(device: DeviceLike) -> None:
    """Sets the default device of new tensors.

    Raises:
        RuntimeError: the device is not available.
    """
def set_default_dtype(d: DTypeLike) -> None:
    """Sets the default dtype of new floating tensors, including those of layers. It is initially
    float32.

    Raises:
        TypeError: a dtype that is not floating.
    """
def stack(tensors: Sequence[Tensor], dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
    """Stacks tensors of one shape along a new axis.

    Shapes: n of [..] -> [.., n, ..]

    Raises:
        ValueError: no tensors, or shapes that differ.
        IndexError: an axis that the result does not have.
        TypeError: an argument that is not a tensor.
    """
def tensor(data: Any, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
@overload
def where(condition: Tensor) -> tuple[Tensor, ...]: ...
@overload
def where(condition: Tensor, input: Operand, other: Operand) -> Tensor: ...
def zeros(*size: SizeLike, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False) -> Tensor:
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
def zeros_like(input: Tensor, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: _bool = False, memory_format: Any = None) -> Tensor:
    """Returns zeros with the shape, dtype and device of `input`.

    Shapes: [..] -> the same

    Raises:
        TypeError: an input that is not a tensor, or an unsuitable dtype.
    """
def _clip_grad_norm(*args: Any, **kwargs: Any) -> Tensor: ...
def _clip_grad_value(*args: Any, **kwargs: Any) -> Tensor: ...
def _initial(*args: Any, **kwargs: Any) -> Tensor: ...
def _logspace(*args: Any, **kwargs: Any) -> Tensor: ...
def _normal(*args: Any, **kwargs: Any) -> Tensor: ...
def _pad_sequence(*args: Any, **kwargs: Any) -> Tensor: ...
def _sinusoidal(*args: Any, **kwargs: Any) -> Tensor: ...
def _stacked(*args: Any, **kwargs: Any) -> Tensor: ...
def _total_norm(*args: Any, **kwargs: Any) -> Tensor: ...
def _triangle(*args: Any, **kwargs: Any) -> Tensor: ...
def _window(*args: Any, **kwargs: Any) -> Tensor: ...
def _number(value: Any, /) -> _float: ...
def _set_recording(on: _bool) -> _bool: ...
def _forked() -> None: ...
def _random_position(device: Any = None) -> tuple[_int, _int]: ...
def _set_random_position(position: tuple[_int, _int], device: Any = None) -> None: ...
def _nvtx_push(message: str) -> _int: ...
def _nvtx_pop() -> _int: ...
def _nvtx_mark(message: str) -> None: ...
def _load_gpt2(*args: Any) -> tuple[dict[str, Any], dict[str, Tensor]]: ...
def _save_gpt2(*args: Any) -> None: ...
def _broadcast_shapes(shapes: list[list[_int]]) -> list[_int]: ...
def _broadcast_tensors(tensors: Any) -> tuple[Tensor, ...]: ...
def _meshgrid(tensors: Any, indexing: str) -> tuple[Tensor, ...]: ...
def _choose(*args: Any) -> list[_int]: ...
def _save(path: Any, tensors: dict[str, Tensor], texts: dict[str, str]) -> None: ...
def _load(path: Any, device: Any, name: str) -> tuple[dict[str, Tensor], dict[str, str], list[str]]: ...
def _grad(*args: Any) -> list[Any]: ...
_functional: Any
_linalg: Any
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
int16: dtype
int32: dtype
int64: dtype
int8: dtype
long: dtype
short: dtype
uint16: dtype
uint32: dtype
uint64: dtype
uint8: dtype
