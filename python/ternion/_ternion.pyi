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
    """The data type of a tensor's elements: ternion.float32, ternion.int64 and so on."""
    itemsize: _int
    is_floating_point: _bool

class device:
    """The device on which tensors are stored and ops run: "cpu", "cuda", "cuda:1", "wgpu", "wgpu:0",
    or "auto" for the fastest available one.

    Args:
        name: one of these names, or a device.
        index: the index among the devices of a kind, for a name without one; ignored for the CPU.

    Raises:
        RuntimeError: the name is unknown, or the device is not available.
        ValueError: a negative index.
    """
    type: str
    index: _int | None
    def __init__(self, name: DeviceLike, index: _int | None = None) -> None: ...
    def synchronize(self) -> None:
        """Waits until everything that was submitted to the device is complete.

        Raises:
            RuntimeError: an earlier op failed on the device.
        """
    def memory(self) -> dict[str, _int]:
        """Returns a dict with the numbers of bytes in use (in_use), cached for reuse (cached), and the
        peak of those in use (peak).
        """
    def reset_peak_memory(self) -> None:
        """Resets the peak of the memory in use to the current value."""
    def release_cached(self) -> None:
        """Releases cached memory to the system.

        Raises:
            RuntimeError: an earlier op failed on the device.
        """

class Generator:
    """A separate random number generator. Functions that sample accept it as `generator=`.

    It is independent of the device's generator, and starts from a fixed seed.
    """
    def __init__(self, device: DeviceLike | None = None) -> None: ...
    @property
    def device(self) -> device:
        """The device of the generator."""
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
    """A handle of a registered hook."""
    def remove(self) -> None:
        """Removes the hook."""

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
    def H(self) -> Tensor:
        """A view of a matrix with its axes exchanged, as `T`: there is nothing to conjugate.

        Raises:
            ValueError: If there is one axis, or more than two.
        """
    @property
    def T(self) -> Tensor:
        """A view with the axes in reverse order."""
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
        """Computes `input + value * tensor1 / tensor2`, broadcast.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is neither a tensor nor a number, or if both `tensor1` and
                `tensor2` are integer tensors, as in PyTorch.
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
        """Swaps the last two axes. No dtype is complex, so that there is nothing to conjugate.

        Shapes: [.., m, n] -> [.., n, m]

        Raises:
            IndexError: If there are fewer than two axes.
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
        """Returns the smallest and the largest element, over an axis or all axes: a tuple of min and
        max.

        Shapes: [..] -> two tensors of shape [], or without the axis `dim`

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If there are no elements.
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
        """Returns the indices of all nonzero elements, one row for each element, int64.

        Shapes: [..] -> [number of nonzero elements, rank]
        """
    def as_strided(self, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
        """Returns a view of the tensor's memory with the given shape and strides: the element `[i, j]`
        is at offset `storage_offset + i * stride[0] + j * stride[1]`.

        If elements overlap, the view cannot be changed in place.

        Shapes: [..] -> `size`

        Args:
            storage_offset: Offset from the start of the buffer in elements, as `x.storage_offset()`,
                which is the default.

        Raises:
            ValueError: If an element would be before the first or after the last element of the tensor,
                if a size or a stride is negative, or if the tensor is not contiguous.
        """
    def as_strided_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`as_strided` in place: the tensor itself gets the new shape and strides, and is returned."""
    def as_strided_scatter(self, src: Tensor, size: Any, stride: Any, storage_offset: _int | None = None) -> Tensor:
        """Returns a copy of this tensor in which the elements that `as_strided` selects are replaced by
        `src`.

        Shapes: [..], `src` of shape `size` -> the shape of `input`

        Raises:
            ValueError: If an element would be before the first or after the last element of the tensor,
                if a size or a stride is negative, if the tensor is not contiguous, or if `src` has a
                different shape.
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
                has exactly one element.
            retain_graph: keep the saved tensors, so that backward can be called again on the graph.
            create_graph: record the backward pass itself, to allow higher-order gradients.
            inputs: the tensors whose gradients are accumulated; all others are left unchanged.

        Raises:
            RuntimeError: nothing was recorded, a saved tensor was changed in place, or the graph
                was already freed by an earlier backward pass.
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
        """Expands the tensor to the given sizes without a copy.

        Shapes: [..] -> `size`

        Raises:
            ValueError: If the tensor does not broadcast to these sizes.
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
        """Returns the Cholesky factors of symmetric positive definite matrices: the lower triangular
        `L` with `input = L @ L.mT`, or the upper triangular `U` with `input = U.mT @ U`.

        Shapes: [.., n, n] -> the same shape

        Raises:
            LinAlgError: If a matrix is not positive definite.
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
        """
    def cholesky_inverse(self, upper: _bool = False) -> Tensor:
        """Returns the inverses of matrices whose Cholesky factors are given.

        Shapes: [.., n, n] -> the same shape

        Raises:
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
        """
    def cholesky_solve(self, input2: Tensor, upper: _bool = False) -> Tensor:
        """Returns the `X` with `A @ X = input`, where `input2` is the Cholesky factor of `A`.

        Shapes: [.., n, k] and [.., n, n] -> [.., n, k]

        Raises:
            ValueError: If the sizes do not match.
            TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
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
        """Returns the minimum of each element and `max`.

        Shapes: [..] -> the same shape

        Raises:
            TypeError: If the limit is neither a number nor a tensor.
        """
    def clamp_max_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`clamp_max`, in place: the tensor itself is changed and returned."""
    def clamp_min(self, min: Any) -> Tensor:
        """Returns the maximum of each element and `min`.

        Shapes: [..] -> the same shape

        Raises:
            TypeError: If the limit is neither a number nor a tensor.
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
        """Returns the complex conjugate, which is the tensor itself.

        Shapes: [..] -> the same shape
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
        """Returns the magnitude of `input` with the sign of `other`, elementwise and broadcast. The
        sign of zero is significant.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
        """
    def copysign_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`copysign`, in place: the tensor itself is changed and returned."""
    def corrcoef(self) -> Tensor:
        """Returns the correlation matrix of the rows, whose columns are observations.

        Shapes: [variables, observations] -> [variables, variables], or [] for one variable
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
        """Returns the number of nonzero elements over axes, int64.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: If an axis is out of range.
        """
    def cov(self, *, correction: _int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None) -> Tensor:
        """Returns the covariance matrix of the rows, whose columns are observations:
        [variables, observations] -> [variables, variables], or [] for one variable.

        Args:
            fweights: The number of times that each observation occurred, integers [observations].
            aweights: The weight of each observation, [observations].

        Raises:
            ValueError: If weights have a different shape or are negative, or if there are more than two
                axes.
            TypeError: If `fweights` has no integer dtype.
        """
    def cpu(self, *, memory_format: Any = None) -> Tensor:
        """Returns the tensor on the CPU.

        Shapes: [..] -> the same
        """
    def cross(self, other: Tensor, dim: _int | None = None) -> Tensor:
        """Returns the cross products of three-dimensional vectors along an axis of size 3, by default
        the first such axis.

        Shapes: [.., 3, ..] and [.., 3, ..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the axis does not have size 3, or if the ranks differ.
            IndexError: If an axis is out of range.
        """
    def cuda(self, device: _int | DeviceLike | None = None, non_blocking: _bool = False, *, memory_format: Any = None) -> Tensor:
        """Returns the tensor on a CUDA device, by default the first.

        Shapes: [..] -> the same

        Raises:
            RuntimeError: the device is not available.
        """
    def cummax(self, dim: _int) -> Any:
        """Returns the largest of the elements up to each one along an axis, and the last index at which
        it occurs (int64): a tuple of values and indices. NaN is treated as the largest value.

        Shapes: [..] -> two tensors of the same shape

        Raises:
            IndexError: If an axis is out of range.
        """
    def cummin(self, dim: _int) -> Any:
        """Returns the smallest of the elements up to each one along an axis, and the last index at
        which it occurs (int64): a tuple of values and indices. NaN is treated as the smallest value.

        Shapes: [..] -> two tensors of the same shape

        Raises:
            IndexError: If an axis is out of range.
        """
    def cumprod(self, dim: _int, *, dtype: Any = None) -> Tensor:
        """Returns the cumulative products along `dim`; int64 for integers.

        Shapes: [..] -> the same shape

        Raises:
            IndexError: If an axis is out of range.
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
        """Converts degrees to radians.

        Shapes: [..] -> the same shape
        """
    def deg2rad_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`deg2rad`, in place: the tensor itself is changed and returned."""
    def det(self) -> Tensor:
        """Returns the determinants of square matrices.

        Shapes: [.., n, n] -> [..]

        Raises:
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
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
    def device(self) -> device:
        """The device of the tensor."""
    def diag(self, diagonal: _int = 0) -> Tensor:
        """Returns the diagonal of a matrix, or a matrix with a vector on its diagonal.

        Shapes: [rows, columns] -> [diagonal]; [n] -> [n + |diagonal|, n + |diagonal|]

        Raises:
            ValueError: If the tensor is neither a vector nor a matrix.
        """
    def diag_embed(self, offset: _int = 0, dim1: _int = -2, dim2: _int = -1) -> Tensor:
        """Returns matrices, in the axes `dim1` and `dim2`, whose diagonals are the last axis of the
        input and whose other elements are zeros.

        Shapes: [.., n] -> [.., n + |offset|, n + |offset|]

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If both axes are the same, or if the tensor has no axes.
        """
    def diagflat(self, offset: _int = 0) -> Tensor:
        """Returns the matrix with all elements of the input on its diagonal.

        Shapes: [..] with n elements -> [n + |offset|, n + |offset|]
        """
    def diagonal(self, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """Returns a view of a diagonal of two axes, as the last axis.

        Shapes: [.., rows, columns] -> [.., diagonal], for the last two axes

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If both axes are the same.
        """
    def diagonal_scatter(self, src: Tensor, offset: _int = 0, dim1: _int = 0, dim2: _int = 1) -> Tensor:
        """Returns a copy of this tensor in which the diagonals of the matrices of two axes are replaced
        by `src`. A positive `offset` selects a diagonal above the main one.

        Shapes: [..], `src` with the other axes, followed by the length of the diagonal -> the shape of
        `input`

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If both axes are the same, or if `src` has a different shape.
        """
    def diff(self, n: _int = 1, dim: _int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
        """Returns the differences of neighbors along `dim`, applied `n` times, with `prepend` before
        the elements and `append` after them.

        Shapes: [.., size, ..] -> [.., size - n, ..], where size includes `prepend` and `append`

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If `n` is negative.
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
        """Returns the norm of the difference.

        Shapes: [..] and [..], which broadcast -> []

        Raises:
            ValueError: If the shapes do not broadcast.
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
        """Splits the third axis. A number of parts must divide its size.

        Shapes: [rows, columns, depth, ..] -> parts of [rows, columns, part, ..]

        Raises:
            ValueError: If there are fewer than 3 axes, or if the number of parts does not divide the
                size of the third.
        """
    @property
    def dtype(self) -> dtype:
        """The type of the elements."""
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
        """Computes elementwise equality with `other`, a tensor or a number; broadcast."""
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
        """Fills the diagonal with `fill_value` in place: the tensor itself is changed and returned.

        Shapes: [rows, columns] or [n, n, n, ..], unchanged

        Args:
            wrap: Whether the diagonal of a matrix with more rows than columns starts again one row
                after its end.

        Raises:
            ValueError: If there are fewer than two axes, or more than two axes of different sizes.
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
        """Reverses the order of the columns.

        Shapes: [rows, columns, ..] -> the same shape

        Raises:
            ValueError: If there are fewer than 2 axes.
        """
    def flipud(self) -> Tensor:
        """Reverses the order of the rows.

        Shapes: [rows, ..] -> the same shape

        Raises:
            ValueError: If there are no axes.
        """
    def float(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to float32.

        Shapes: [..] -> the same
        """
    def float_power(self, exponent: Any) -> Tensor:
        """Raises each element to a power in float64. One of the arguments may be a number.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If both arguments are numbers.
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
        """Computes the elementwise maximum, broadcast; if one element is NaN, the result is the other
        one. At ties the gradient flows to this tensor.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            ValueError: shapes that do not broadcast.
        """
    def fmin(self, other: Tensor) -> Tensor:
        """Computes the elementwise minimum, broadcast; if one element is NaN, the result is the other
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
        """Returns the fractional part of each element, with its sign.

        Shapes: [..] -> the same shape

        Raises:
            TypeError: If the input has no floating-point dtype.
        """
    def frac_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`frac`, in place: the tensor itself is changed and returned."""
    def frexp(self) -> Any:
        """Decomposes each element into `mantissa * 2^exponent`, with mantissas in [0.5, 1) in magnitude
        (0 for 0) and int32 exponents. Returns a tuple of mantissa and exponent.

        Shapes: [..] -> two tensors of the same shape

        Raises:
            TypeError: If the input has no floating-point dtype.
        """
    def gather(self, dim: _int, index: Tensor, *, sparse_grad: _bool = False) -> Tensor:
        """Gathers the elements at the positions `index` along `dim`; `index` has as many axes as this
        tensor.

        Shapes: [.., n, ..] and index [.., m, ..] -> [.., m, ..]

        Raises:
            IndexError: an axis that does not exist, or an index out of range.
            TypeError: an index that is not int32 or int64.
            ValueError: an index with another number of axes, or larger than this tensor along an
                axis other than `dim`; or `sparse_grad`, which only PyTorch supports.
        """
    def gcd(self, other: Tensor) -> Tensor:
        """Computes the greatest common divisor elementwise; 0 for two zeros.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            TypeError: floats, or `other` is not a tensor.
            ValueError: shapes that do not broadcast.
        """
    def gcd_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gcd`, in place: the tensor itself is changed and returned."""
    def ge(self, other: Other) -> Tensor:
        """Computes `self >= other` elementwise."""
    def ge_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ge`, in place: the tensor itself is changed and returned."""
    def gelu(self, approximate: str = "none") -> Tensor:
        """Computes `x * Phi(x)`, where `Phi` is the CDF of the standard normal distribution, or its
        tanh approximation if `approximate` is "tanh".

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
        """Returns the index of the device among the devices of its type; -1 for the CPU."""
    grad: Tensor | None
    @property
    def grad_fn(self) -> str | None:
        """The name of the op that computed the tensor, if it was recorded."""
    def greater(self, other: Other) -> Tensor:
        """Computes `self > other` elementwise."""
    def greater_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gt`, in place: the tensor itself is changed and returned."""
    def greater_equal(self, other: Other) -> Tensor:
        """Computes `self >= other` elementwise."""
    def greater_equal_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ge`, in place: the tensor itself is changed and returned."""
    def gt(self, other: Other) -> Tensor:
        """Computes `self > other` elementwise."""
    def gt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`gt`, in place: the tensor itself is changed and returned."""
    def half(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to float16.

        Shapes: [..] -> the same
        """
    def heaviside(self, values: Tensor) -> Tensor:
        """Returns 0 where the input is negative, 1 where it is positive, and `values` where it is 0.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is a number instead of a tensor, or if the dtypes differ.
        """
    def heaviside_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`heaviside`, in place: the tensor itself is changed and returned."""
    def histc(self, bins: _int = 100, min: _float = 0.0, max: _float = 0.0) -> Tensor:
        """Computes a histogram with `bins` equal bins from `min` to `max`. If these are equal, the
        range is from the smallest to the largest element.

        Shapes: [..] -> [bins]

        Raises:
            TypeError: the dtype is not floating.
            ValueError: no bins, or bounds that are in the wrong order or not finite.
        """
    def histogram(self, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: _bool = False) -> Any:
        """Returns the number of elements, or the sum of their weights, in each bin, and the bin edges:
        a tuple of hist and bin_edges.

        The last bin is closed, the others are half open. Elements outside and NaN are ignored. The
        result has no gradient.

        Shapes: [..] -> [bins] and [bins + 1]

        Args:
            bins: The number of bins of equal width, or a tensor of bin edges in ascending order.
            range: The smallest and the largest edge. Default: the min and max of the elements.
            weight: The weight of each element, in the shape of `input`.
            density: Divides the counts by their sum and by the widths of the bins.

        Raises:
            TypeError: If the input has no floating-point dtype, or if edges or weights have a different
                dtype.
            ValueError: If there are no bins, if edges are not finite or not in ascending order, if the
                weights have a different shape, or if `range` is given in addition to edges.
        """
    def hsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Splits the second axis, or the only one. A number of parts must divide its size.

        Shapes: [rows, columns, ..] -> parts of [rows, part, ..]

        Raises:
            ValueError: If there are no axes, or if the number of parts does not divide the size of the
                axis.
        """
    def hypot(self, other: Tensor) -> Tensor:
        """Returns the length of the vectors (input, other) without overflow, broadcast.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
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
        """Returns a copy of this tensor in which the slices along `dim` at `index` are replaced by
        those of `source`.

        Shapes: [..], index [n], source of size n along `dim` -> the shape of `input`

        Raises:
            IndexError: If the axis or an index is out of range.
            ValueError: If the shape of `source` does not match.
        """
    def index_copy_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`index_copy`, in place: the tensor itself is changed and returned."""
    def index_fill(self, dim: _int, index: Tensor, value: Any) -> Tensor:
        """Returns a copy of this tensor in which the slices along `dim` at `index` are filled with
        `value`. A gradient flows to `value` if it is a tensor.

        Shapes: [..], index [n] -> the shape of `input`

        Raises:
            IndexError: If the axis or an index is out of range.
        """
    def index_fill_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`index_fill`, in place: the tensor itself is changed and returned."""
    def index_put(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """Returns a copy of this tensor in which `values` are written to the elements at `indices`, a
        tuple of tensors, or added to them.

        Shapes: [..], values that broadcast to the indexed elements -> the shape of `input`

        Raises:
            IndexError: If an index is out of range.
            ValueError: If the values do not broadcast to the indexed elements.
            TypeError: If the dtype of the values cannot be cast to that of the input, such as float to
                integer.
        """
    def index_put_(self, indices: Any, values: Any, accumulate: _bool = False) -> Tensor:
        """Writes `values` to the elements at `indices`, a tuple of tensors, or adds them, in place: the
        tensor itself is changed and returned.

        Shapes: [..], values that broadcast to the indexed elements -> the shape of `input`

        Raises:
            IndexError: If an index is out of range.
            ValueError: If the values do not broadcast to the indexed elements.
            TypeError: If the dtype of the values cannot be cast to that of the input, such as float to
                integer.
        """
    def index_reduce(self, dim: _int, index: Tensor, source: Tensor, reduce: str, *, include_self: _bool = True) -> Tensor:
        """Returns a copy of this tensor into which the slices of `source` are reduced at `index` along
        `dim`.

        Shapes: [..], index [n], source of size n along `dim` -> the shape of `input`

        Args:
            reduce: "prod", "mean", "amax" or "amin".
            include_self: Whether the slices of `input` are included in the reduction.

        Raises:
            IndexError: If the axis or an index is out of range.
            ValueError: If `reduce` is unknown, or if the shapes do not match.
            TypeError: If the source has a different dtype, or for the mean of a bool tensor.
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
        """Returns the sums of products along the last axes of both: [.., k] and [.., k].

        Shapes: [.., k] and [*others, k] -> [.., *others]

        Raises:
            ValueError: If the sizes of the last axes differ.
        """
    def int(self, *, memory_format: Any = None) -> Tensor:
        """Converts the elements to int32, rounding toward zero.

        Shapes: [..] -> the same
        """
    def inverse(self) -> Tensor:
        """Returns the inverses of square matrices.

        Shapes: [.., n, n] -> the same shape

        Raises:
            LinAlgError: If a matrix is singular.
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
        """
    def is_complex(self) -> _bool:
        """Whether the dtype is complex. No dtype is."""
    def is_contiguous(self, *, memory_format: Any = None) -> _bool:
        """Returns whether the elements are contiguous in row-major order, or in the order of
        `memory_format`: for channels last, channels after height and width.
        """
    @property
    def is_cpu(self) -> _bool:
        """Whether the tensor is on the CPU."""
    @property
    def is_cuda(self) -> _bool:
        """Whether the tensor is on a CUDA device."""
    def is_floating_point(self) -> _bool:
        """Returns whether the dtype is floating."""
    @property
    def is_leaf(self) -> _bool:
        """Whether the tensor was created by the user rather than computed from a tensor that requires
        a gradient.
        """
    @property
    def is_meta(self) -> _bool:
        """Whether the tensor has a shape but no memory: always false."""
    def is_nonzero(self) -> _bool:
        """Whether the only element is nonzero.

        Shapes: [] or one element -> bool

        Raises:
            ValueError: If the tensor has more than one element.
        """
    def is_pinned(self) -> _bool:
        """Whether the memory is pinned: always false."""
    @property
    def is_quantized(self) -> _bool:
        """Whether the elements are quantized: always false."""
    def is_same_size(self, other: Tensor) -> _bool:
        """Whether both tensors have the same shape."""
    def is_shared(self) -> _bool:
        """Whether the memory is shared with other processes: always false."""
    def is_signed(self) -> _bool:
        """Whether the dtype has negative values."""
    @property
    def is_sparse(self) -> _bool:
        """Whether the tensor is sparse: always false."""
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
        """Whether each element is negative infinity.

        Shapes: [..] -> the same shape, bool
        """
    def isposinf(self) -> Tensor:
        """Whether each element is positive infinity.

        Shapes: [..] -> the same shape, bool
        """
    def isreal(self) -> Tensor:
        """Whether each element is real: true for all elements.

        Shapes: [..] -> the same shape, bool
        """
    def item(self) -> _float:
        """Returns the only element as a Python number.

        Raises:
            ValueError: there are several elements, or none.
        """
    @property
    def itemsize(self) -> _int:
        """The size of an element in bytes."""
    def kron(self, other: Tensor) -> Tensor:
        """Returns the Kronecker product: blocks, each of which is an element of `input` times all of
        `other`.

        Shapes: [m, n] and [p, q] -> [m * p, n * q]; further axes accordingly

        Raises:
            ValueError: If there are more than 4 axes.
        """
    def kthvalue(self, k: _int, dim: _int = -1, keepdim: _bool = False) -> Any:
        """Returns the k-th smallest element along an axis, with k counted from 1, and its index
        (int64): a tuple of values and indices.

        Shapes: [..] -> two tensors without the axis `dim`

        Raises:
            ValueError: If `k` is not between 1 and the size of the axis.
        """
    @property
    def layout(self) -> layout:
        """The memory layout: always `ternion.strided`."""
    def lcm(self, other: Tensor) -> Tensor:
        """Computes the least common multiple elementwise; 0 if either is 0.

        Shapes: two tensors, broadcast -> the broadcast shape

        Raises:
            TypeError: floats, or `other` is not a tensor.
            ValueError: shapes that do not broadcast.
        """
    def lcm_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lcm`, in place: the tensor itself is changed and returned."""
    def ldexp(self, other: Tensor) -> Tensor:
        """Computes `input * 2^other`, broadcast.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
        """
    def ldexp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`ldexp`, in place: the tensor itself is changed and returned."""
    def le(self, other: Other) -> Tensor:
        """Computes `self <= other` elementwise."""
    def le_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`le`, in place: the tensor itself is changed and returned."""
    def leaky_relu(self, negative_slope: _float = 0.01) -> Tensor:
        """Computes `x` where it is positive, and `negative_slope * x` elsewhere.

        Shapes: [..] -> the same; integers become float32
        """
    def lerp(self, end: Tensor, weight: Any) -> Tensor:
        """Computes `input + weight * (end - input)`: `input` where the weight is 0, `end` where it is
        1. `weight` is a number or a tensor.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is neither a tensor nor a number.
        """
    def lerp_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lerp`, in place: the tensor itself is changed and returned."""
    def less(self, other: Other) -> Tensor:
        """Computes `self < other` elementwise."""
    def less_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lt`, in place: the tensor itself is changed and returned."""
    def less_equal(self, other: Other) -> Tensor:
        """Computes `self <= other` elementwise."""
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
        """Computes the logarithm of `ndtr` of each element; finite where `ndtr` underflows to 0.

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
        """Computes `log(e^input + e^other)` elementwise without overflow, broadcast.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
        """
    def logaddexp2(self, other: Tensor) -> Tensor:
        """Computes `log2(2^input + 2^other)` elementwise without overflow, broadcast.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
        """
    def logcumsumexp(self, dim: _int) -> Tensor:
        """Returns the logarithms of the cumulative sums of `e^x` along `dim`, without overflow.

        Shapes: [..] -> the same shape; integers become float32

        Raises:
            IndexError: If an axis is out of range.
        """
    def logdet(self) -> Tensor:
        """Returns the logarithms of the determinants of square matrices: -inf where they are 0, NaN
        where they are negative.

        Shapes: [.., n, n] -> [..]

        Raises:
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
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
        """Computes `self < other` elementwise."""
    def lt_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`lt`, in place: the tensor itself is changed and returned."""
    def lu(self, pivot: _bool = True, get_infos: _bool = False) -> Any:
        """Returns LU decompositions with partial pivoting: both factors in one matrix, and the row
        exchanges, counted from 1 (int32). With `get_infos`, also returns the index of the first pivot
        that is 0 (int32, 0 for none).

        `lu_unpack` returns the separate matrices.

        Shapes: [.., m, n] -> [.., m, n] and [.., min(m, n)], and [..]

        Raises:
            ValueError: If there are fewer than 2 axes, or `pivot` is False.
            TypeError: If the dtype is not float32 or float64.
        """
    def lu_solve(self, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
        """Returns the `X` with `A @ X = input`, from the LU decomposition of `A` that `lu` returns.

        Shapes: [.., n, k], [.., n, n] and [.., n] -> [.., n, k]

        Raises:
            ValueError: If the sizes do not match, or if a pivot is out of range.
            TypeError: If a dtype is not float32 or float64, if the dtypes differ, or if the pivots are
                not int32.
        """
    @property
    def mH(self) -> Tensor:
        """A view with the last two axes exchanged, as `mT`: there is nothing to conjugate.

        Raises:
            IndexError: If there are fewer than two axes.
        """
    @property
    def mT(self) -> Tensor:
        """A view with the last two axes exchanged.

        Raises:
            IndexError: fewer than two axes.
        """
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
        """Copies the elements of `source`, in order, to the elements where the mask is true, in place:
        the tensor itself is changed and returned.

        Shapes: [..], mask that broadcasts to it, source of any shape -> the shape of `input`

        Raises:
            ValueError: If the source has fewer elements than the mask has true values.
            TypeError: If the mask is not a bool tensor.
        """
    def masked_select(self, mask: Tensor) -> Tensor:
        """Returns the elements where the mask is True, in row-major order, as a 1-D tensor."""
    def matmul(self, other: Tensor) -> Tensor:
        """Computes the matrix product.

        Shapes: [.., m, k] x [.., k, n] -> [.., m, n], outer axes broadcast; an operand with one
        axis is a row on the left, a column on the right.

        Raises:
            ValueError: incompatible sizes.
        """
    def matrix_exp(self) -> Tensor:
        """Returns the matrix exponential `1 + A + A @ A / 2 + ..` of square matrices.

        Shapes: [.., n, n] -> the same shape

        Raises:
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not a floating-point dtype.
        """
    def matrix_power(self, n: _int) -> Tensor:
        """Returns the `n`-th power of square matrices; of the inverse if `n` is negative.

        Shapes: [.., n, n] -> the same shape

        Raises:
            LinAlgError: If `n` is negative and a matrix is singular.
            ValueError: If the matrices are not square.
            TypeError: If `n` is negative and the dtype is not float32 or float64.
        """
    @overload
    def max(self) -> Tensor:
        """Returns the maximum of all elements, or along `dim` a named tuple of the maximum values and
        their indices, or with a tensor the elementwise maximum.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
        `keepdim`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: no elements, or shapes of two tensors that do not broadcast.
        """
    @overload
    def max(self, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> max: ...
    @overload
    def max(self, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> max: ...
    @overload
    def max(self, dim: Tensor) -> Tensor: ...
    @overload
    def max(self, *, other: Tensor) -> Tensor: ...
    def maximum(self, other: Tensor) -> Tensor:
        """Computes the elementwise maximum, broadcast; NaN if either element is NaN."""
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
        """Returns the median; the smaller of two middle elements; NaN if an element is NaN. With `dim`,
        returns a tuple of values and indices.

        Shapes: [..] -> [], or two tensors without the axis `dim`

        Raises:
            ValueError: If there are no elements along `dim`, or if `dim` is not given and an integer
                tensor has no elements.
            IndexError: If an axis is out of range.
        """
    @overload
    def min(self) -> Tensor:
        """Returns the minimum of all elements, or along `dim` a named tuple of the minimum values and
        their indices, or with a tensor the elementwise minimum.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> two of [..], or of [.., 1, ..] with
        `keepdim`

        Raises:
            IndexError: an axis that does not exist.
            ValueError: no elements, or shapes of two tensors that do not broadcast.
        """
    @overload
    def min(self, dim: _int, keepdim: _bool = False, *, keepdims: _bool = False) -> min: ...
    @overload
    def min(self, *, axis: _int, keepdim: _bool = False, keepdims: _bool = False) -> min: ...
    @overload
    def min(self, dim: Tensor) -> Tensor: ...
    @overload
    def min(self, *, other: Tensor) -> Tensor: ...
    def minimum(self, other: Tensor) -> Tensor:
        """Computes the elementwise minimum, broadcast; NaN if either element is NaN."""
    def mm(self, mat2: Tensor) -> Tensor:
        """Computes the product of two matrices: [m, k] x [k, n] -> [m, n].

        Raises:
            ValueError: other numbers of axes, or inner sizes that differ.
        """
    def mode(self, dim: _int = -1, keepdim: _bool = False) -> Any:
        """Returns the most frequent element along an axis, the smallest of several, and the last index
        at which it occurs (int64): a tuple of values and indices.

        Shapes: [..] -> two tensors without the axis `dim`

        Raises:
            ValueError: If there are no elements along `dim`.
            IndexError: If an axis is out of range.
        """
    def moveaxis(self, source: Any, destination: Any) -> Tensor:
        """Moves the axes `source` to `destination`. The other axes keep their order.

        Shapes: [..] -> the same sizes in another order

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If the numbers of sources and destinations differ, or if an axis is given twice.
        """
    def movedim(self, source: Any, destination: Any) -> Tensor:
        """Moves the axes `source` to `destination`. The other axes keep their order.

        Shapes: [..] -> the same sizes in another order

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If the numbers of sources and destinations differ, or if an axis is given twice.
        """
    def msort(self) -> Tensor:
        """Sorts the elements along the first axis in ascending order.

        Shapes: [..] -> the same shape
        """
    def mul(self, other: Other) -> Tensor:
        """Multiplies by another tensor, or a number, elementwise, broadcast."""
    def mul_(self, other: Other) -> Self:
        """Multiplies by another tensor, or a number, elementwise, broadcast.

        In place: the tensor itself is changed and returned.
        """
    def multinomial(self, num_samples: _int, replacement: _bool = False, *, generator: Any = None) -> Tensor:
        """Draws indices with the given probabilities, which need not sum to 1: for each row of
        [.., categories], int64, [.., num_samples].

        Args:
            replacement: Whether an index may be drawn more than once.

        Raises:
            TypeError: If the input has no floating-point dtype.
            ValueError: If the input does not have one or two axes, if a probability is negative or not
                finite, if a row is all zeros, or if there are fewer nonzero categories than samples
                without replacement.
        """
    def multiply(self, other: Other) -> Tensor:
        """Multiplies by another tensor, or a number, elementwise, broadcast."""
    def multiply_(self, other: Other) -> Self:
        """Multiplies by another tensor, or a number, elementwise, broadcast.

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
        """Replaces NaN and infinities: by default NaN by 0, and infinities by the largest finite value
        of the dtype with their sign.

        Shapes: [..] -> the same shape
        """
    def nan_to_num_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`nan_to_num`, in place: the tensor itself is changed and returned."""
    def nanmean(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None) -> Tensor:
        """Returns the mean over axes of the elements that are not NaN.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: If an axis is out of range.
        """
    def nanmedian(self, dim: _int | None = None, keepdim: _bool = False) -> Any:
        """Returns the median of the elements that are not NaN; the smaller of two middle elements; NaN
        if all are NaN. With `dim`, returns a tuple of values and indices.

        Shapes: [..] -> [], or two tensors without the axis `dim`

        Raises:
            ValueError: If there are no elements along `dim`, or if `dim` is not given and an integer
                tensor has no elements.
            IndexError: If an axis is out of range.
        """
    def nanquantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = "linear") -> Tensor:
        """Returns the `quantile` of the elements that are not NaN; NaN if all are NaN.

        Raises:
            TypeError: If the input has no floating-point dtype, or if `q` has a different dtype.
            ValueError: If there are no elements, if `q` is outside 0 to 1, or if the interpolation is
                unknown.
            IndexError: If an axis is out of range.
        """
    def nansum(self, dim: Any = None, keepdim: _bool = False, *, dtype: Any = None) -> Tensor:
        """Returns the sum over axes, with NaN treated as 0.

        Shapes: [..] -> [], or without the axes `dim`

        Raises:
            IndexError: If an axis is out of range.
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
        """Returns a copy of `narrow`.

        Shapes: [.., n, ..] -> [.., length, ..]

        Raises:
            IndexError: If the axis is out of range, or if `start` is before the first element.
            ValueError: If the range ends after the last element, or if the length is negative.
        """
    @property
    def nbytes(self) -> _int:
        """The size of all elements in bytes."""
    @property
    def ndim(self) -> _int:
        """The number of axes."""
    def ndimension(self) -> _int:
        """Returns the number of axes."""
    def ndtr(self) -> Tensor:
        """Computes the cumulative distribution function of the standard normal distribution at each
        element.

        Shapes: [..] -> the same; integers become float32
        """
    def ndtri(self) -> Tensor:
        """Computes the inverse of `ndtr` of each element: infinite at 0 and 1, NaN outside.

        Shapes: [..] -> the same; integers become float32
        """
    def ne(self, other: Other) -> Tensor:
        """Computes `self != other` elementwise."""
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
        """Returns the number of elements."""
    def new_empty(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Returns a tensor with unspecified contents (zeros in this implementation). Dtype and device
        are those of this tensor by default.

        Shapes: any shape -> `size`

        Raises:
            ValueError: If a size is negative.
            TypeError: If a size is not an integer.
        """
    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Returns a tensor filled with one value. Dtype and device are those of this tensor by default.

        Shapes: any shape -> `size`

        Raises:
            ValueError: If a size is negative.
            TypeError: If `fill_value` is not a number.
        """
    def new_ones(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Returns a tensor of ones. Dtype and device are those of this tensor by default.

        Shapes: any shape -> `size`

        Raises:
            ValueError: If a size is negative.
            TypeError: If a size is not an integer.
        """
    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: _bool = False, pin_memory: _bool = False) -> Tensor:
        """Returns a tensor with the given values. Dtype and device are those of this tensor by default.

        Raises:
            TypeError: If a value is not a number.
            ValueError: If nested lists have different lengths.
        """
    def new_zeros(self, *sizes: Any, size: Any = None, dtype: Any = None, device: Any = None, requires_grad: _bool = False, layout: Any = None, pin_memory: _bool = False) -> Tensor:
        """Returns a tensor of zeros. Dtype and device are those of this tensor by default.

        Shapes: any shape -> `size`

        Raises:
            ValueError: If a size is negative.
            TypeError: If a size is not an integer.
        """
    def nonzero(self, *, as_tuple: _bool = False) -> Any:
        """Returns the indices (int64) of all elements that are not 0: one row per element, or with
        `as_tuple` one tensor per axis.
        """
    def norm(self, p: _float | str | None = None, dim: Any = None, keepdim: _bool = False, dtype: Any = None, *, axis: Any = None, keepdims: _bool = False) -> Tensor:
        """Returns the norm over axes, by default of order 2.

        Any number is an order: 0 counts the nonzero elements, infinity gives the largest magnitude and
        minus infinity the smallest. "fro" is the order 2, and "nuc" is the sum of the singular values
        of matrices, which are in two axes.

        Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`

        Args:
            dtype: The dtype to which the elements are cast first.

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If "nuc" is used over a number of axes other than two, or if `dtype` cannot
                represent the values of the input's dtype.
            TypeError: If `dtype` is not a floating-point dtype.
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
        """Computes `self != other` elementwise."""
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
        """Returns the first columns of the product of Householder reflections `1 - tau v v.mT`, whose
        vectors v are below the diagonal of `input`, and whose tau are `input2`.

        Shapes: [.., m, n] and [.., k] -> [.., m, n]

        Raises:
            ValueError: If the sizes do not match.
            TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
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
        """Returns the tensor itself: copies to a device go through the backend's staging buffers.

        Shapes: [..] -> the same shape
        """
    def pinverse(self, rcond: _float = 1e-15) -> Tensor:
        """Returns the Moore-Penrose inverses. Singular values that are not above `rcond` times the
        largest one are treated as 0.

        Shapes: [.., m, n] -> [.., n, m]

        Raises:
            LinAlgError: If the input contains NaN or infinity.
            ValueError: If there are fewer than 2 axes.
            TypeError: If the dtype is not float32 or float64.
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
        """Returns the tensor itself.

        Shapes: [..] -> the same shape
        """
    def pow(self, exponent: Other) -> Tensor:
        """Raises this tensor to the power of another, or of a number, broadcast."""
    def pow_(self, exponent: Other) -> Self:
        """Raises this tensor to the power of another, or of a number, broadcast, in place: the tensor
        itself is changed and returned.
        """
    def prelu(self, weight: Tensor) -> Tensor:
        """Returns `x` where it is positive, and `weight * x` elsewhere, with one weight, or one for
        each channel (the second axis).

        Shapes: [batch, channels, ..], weight [1] or [channels] -> the shape of `input`

        Raises:
            ValueError: If the number of weights is neither 1 nor the number of channels.
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
        """Returns a copy of this tensor in which the elements of `source` are written to the elements
        at `index` of the flattened tensor, or added to them.

        Shapes: [..], index and source with the same number of elements -> the shape of `input`

        Raises:
            IndexError: If an index is out of range.
            ValueError: If `index` and `source` have different numbers of elements.
            TypeError: If the dtype of the source cannot be cast to that of the input, such as float to
                integer.
        """
    def put_(self, index: Tensor, source: Tensor, accumulate: _bool = False) -> Tensor:
        """Writes the elements of `source` to the elements at `index` of the flattened tensor, or adds
        them, in place: the tensor itself is changed and returned.

        Shapes: [..], index and source with the same number of elements -> the shape of `input`

        Raises:
            IndexError: If an index is out of range.
            ValueError: If `index` and `source` have different numbers of elements.
            TypeError: If the dtype of the source cannot be cast to that of the input, such as float to
                integer.
        """
    def qr(self, some: _bool = True) -> Any:
        """Returns the QR decomposition `input = Q @ R`, with orthonormal columns of Q, all of them if
        `some` is false, and an upper triangular R: a tuple of Q and R.

        Shapes: [.., m, n] -> [.., m, k] and [.., k, n] with k = min(m, n), or k = m with `some=False`

        Raises:
            ValueError: If there are fewer than 2 axes.
            TypeError: If the dtype is not float32 or float64.
        """
    def quantile(self, q: Any, dim: _int | None = None, keepdim: _bool = False, *, interpolation: str = "linear") -> Tensor:
        """Returns the quantiles at the probabilities `q`; NaN if an element is NaN. Gradients flow to
        the selected elements and to `q`.

        Args:
            q: A probability from 0 to 1, or a tensor of several, which become the first axis of the
                result.
            interpolation: How to interpolate between two elements: "linear", "lower", "higher",
                "midpoint" or "nearest".

        Raises:
            TypeError: If the input has no floating-point dtype, or if `q` has a different dtype.
            ValueError: If there are no elements, if `q` is outside 0 to 1, or if the interpolation is
                unknown.
            IndexError: If an axis is out of range.
        """
    def rad2deg(self) -> Tensor:
        """Converts radians to degrees.

        Shapes: [..] -> the same shape
        """
    def rad2deg_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`rad2deg`, in place: the tensor itself is changed and returned."""
    def random_(self, *limits: _int, to: _int | None = None, generator: Any = None, **first: _int) -> Tensor:
        """Fills the tensor with random integers in place.

        `random_(to)` draws from 0 up to, but not including, `to`; `random_(from, to)` draws from `from`
        on. By default all integers that the dtype represents exactly are drawn, up to 2**40.

        Shapes: [..] -> the same shape

        Raises:
            ValueError: If there is no integer in the range.
            TypeError: If there are other arguments, or `from` without `to`.
        """
    def ravel(self) -> Tensor:
        """Returns all elements as one axis: a view of a contiguous tensor, otherwise a copy.

        Shapes: [..] -> [elements]
        """
    @property
    def real(self) -> Tensor:
        """The real part, which is the tensor itself."""
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
        """Scales the slices along an axis whose `p`-norm is above `maxnorm` to that norm.

        Shapes: [..], at least two axes -> the same shape

        Raises:
            ValueError: If there are fewer than two axes, if `p` is not positive, or if `maxnorm` is
                negative.
            TypeError: If the input has no floating-point dtype.
            IndexError: If an axis is out of range.
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
        """Repeats each element, or each slice of an axis, several times in a row.

        Shapes: [..] -> [elements * repeats], or longer along `dim`

        Args:
            repeats: The number of repetitions, or a tensor with one number for each element. Without
                it, `input` contains the number of repetitions of each of its indices.
            dim: The axis. Default: the flattened tensor.
            output_size: Accepted for compatibility with PyTorch; not needed.

        Raises:
            ValueError: If a number of repetitions is negative, or if there is not one for each element.
        """
    requires_grad: _bool
    def requires_grad_(self, requires_grad: _bool = True) -> Self:
        """Sets whether this tensor requires a gradient, in place. Returns the tensor.

        Raises:
            TypeError: the dtype is not floating.
            RuntimeError: `requires_grad` is False for a computed tensor.
        """
    def reshape(self, *shape: SizeLike) -> Tensor:
        """Returns the elements in row-major order with another shape; a view if possible. One of the
        sizes may be -1.

        Raises:
            ValueError: sizes whose product is not the number of elements.
        """
    def reshape_as(self, other: Tensor) -> Tensor:
        """Returns the elements in the shape of `other`.

        Shapes: [..] -> the shape of `other`

        Raises:
            ValueError: If the number of elements differs.
        """
    def retain_grad(self) -> None:
        """Accumulates the gradient in `grad` of this tensor too, although it is not a leaf.

        Raises:
            RuntimeError: the tensor does not require a gradient.
        """
    def roll(self, shifts: SizeLike, dims: SizeLike | None = None) -> Tensor:
        """Shifts the elements along `dims`; elements shifted past one end reappear at the other end.

        Shapes: [..] -> the same

        Raises:
            IndexError: an axis that does not exist.
            ValueError: different numbers of axes and shifts, or several shifts without axes.
        """
    def rot90(self, k: _int = 1, dims: Sequence[_int] = (0, 1)) -> Tensor:
        """Rotates the tensor `k` times by 90 degrees, from the first of two axes to the second.

        Shapes: [rows, columns] -> [columns, rows], or the same shape for even `k`

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If both axes are the same.
        """
    def round(self, *, decimals: _int = 0) -> Tensor:
        """Rounds each element to the nearest integer, ties to even; with `decimals`, to that number of
        decimal places.

        Shapes: [..] -> the same shape

        Raises:
            TypeError: If `input` is not a tensor, or `decimals` is not a number.
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
    def scatter_(self, dim: _int, index: Tensor, src: Operand | None = None, *, value: Number | None = None, reduce: str | None = None) -> Self:
        """`scatter` in place.

        Shapes and errors are those of `scatter`

        Raises:
            RuntimeError: a leaf that requires a gradient is changed in place while operations are
                recorded.
        """
    def scatter_add(self, dim: _int, index: Tensor, src: Tensor) -> Tensor:
        """Adds the elements of `src` to a copy of this tensor at the positions `index` along `dim`.

        Shapes: [.., n, ..], index [.., m, ..] and src [.., m, ..] (if it is larger, only the first
        elements are used) -> [.., n, ..]

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
        """Returns a copy of this tensor into which the elements of `src` are reduced at `index` along
        `dim`.

        Shapes: [..], index of the same rank, src at least as large as index along each axis -> the
        shape of `input`

        Args:
            reduce: "sum", "prod", "mean", "amax" or "amin".
            include_self: Whether the elements of `input` are included in the reduction.

        Raises:
            IndexError: If the axis or an index is out of range.
            ValueError: If `reduce` is unknown, or if the shapes do not match.
            TypeError: If the source has a different dtype, or for the mean of a bool tensor.
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
        """Returns a copy of this tensor in which one slice along an axis is replaced by `src`.

        Shapes: [..], `src` without the axis `dim` -> the shape of `input`

        Raises:
            IndexError: If the axis or the index is out of range.
            ValueError: If `src` has a different shape.
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
    def shape(self) -> Size:
        """The sizes, a tuple."""
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
        """Whether the sign bit of each element is set, also for negative zero.

        Shapes: [..] -> the same shape, bool
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
        """Returns a copy of this tensor in which a range of an axis is replaced by `src`.

        Shapes: [..], `src` of the shape of the slice -> the shape of `input`

        Raises:
            IndexError: If an axis is out of range.
            ValueError: If `src` has a different shape.
        """
    def slogdet(self) -> Any:
        """Returns the signs and the logarithms of the magnitudes of determinants: a tuple of sign and
        logabsdet.

        Shapes: [.., n, n] -> two tensors of shape [..]

        Raises:
            ValueError: If the matrices are not square.
            TypeError: If the dtype is not float32 or float64.
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
        """Splits an axis into parts of the given sizes.

        Shapes: [.., size, ..] -> parts of [.., part, ..]

        Raises:
            ValueError: If the sizes do not sum to the size of the axis.
            IndexError: If an axis is out of range.
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
        """Removes all axes of size 1, or only the given axes if their size is 1.

        Shapes: [.., 1, ..] -> [..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`squeeze` in place: the tensor itself gets the new shape and strides, and is returned."""
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
        """Sums over the axes along which a tensor of these sizes would be broadcast. For integer and
        bool tensors the result is int64, also for a single element without sizes.

        Raises:
            ValueError: If the sizes do not broadcast to the shape of this tensor.
        """
    def svd(self, some: _bool = True, compute_uv: _bool = True) -> Any:
        """Returns the singular value decomposition `input = U @ diag(S) @ V.mT`: a tuple of U, S and V.
        The columns of U and V are orthonormal, and are complete if `some` is false. The singular values
        S are in descending order.

        If `compute_uv` is false, U and V are square matrices of zeros.

        Shapes: [.., m, n] -> [.., m, k], [.., k] and [.., n, k] with k = min(m, n); with `some=False`
        [.., m, m], [.., k] and [.., n, n]

        Raises:
            LinAlgError: If the input contains NaN or infinity.
            ValueError: If there are fewer than 2 axes.
            TypeError: If the dtype is not float32 or float64.
        """
    def swapaxes(self, axis0: _int, axis1: _int) -> Tensor:
        """Swaps two axes; the same as `transpose`.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: If an axis is out of range.
        """
    def swapaxes_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`swapaxes` in place: the tensor itself gets the new shape and strides, and is returned."""
    def swapdims(self, dim0: _int, dim1: _int) -> Tensor:
        """Swaps two axes; the same as `transpose`.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: If an axis is out of range.
        """
    def swapdims_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`swapdims` in place: the tensor itself gets the new shape and strides, and is returned."""
    def t(self) -> Tensor:
        """Returns a view of a matrix with its two axes exchanged.

        Shapes: [m, n] -> [n, m]; [n] and [] are unchanged

        Raises:
            ValueError: more than two axes.
        """
    def t_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`t` in place: the tensor itself gets the new shape and strides, and is returned."""
    def take(self, index: Tensor) -> Tensor:
        """Returns the elements of the flattened tensor at `index`, in the shape of `index`.

        Shapes: [..], index [*shape] -> [*shape]

        Raises:
            IndexError: If an index is out of range.
            TypeError: If the index has a floating-point dtype.
        """
    def take_along_dim(self, indices: Tensor, dim: _int | None = None) -> Tensor:
        """Returns the elements at `indices` along `dim`. The other axes of both tensors are broadcast.
        Without `dim`, the flattened tensor is indexed.

        Shapes: [..] and indices of the same rank -> the shape of `indices`

        Raises:
            IndexError: If the axis or an index is out of range.
            ValueError: If `indices` has a different rank.
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
        """Splits an axis into a number of parts of nearly equal size, or at the given indices.

        Args:
            sections, indices: PyTorch's names for the first argument, depending on its meaning.

        Shapes: [.., size, ..] -> parts of [.., part, ..]

        Raises:
            ValueError: If there is less than one part.
            IndexError: If an axis is out of range.
        """
    def tile(self, *counts: Any, dims: Any = None) -> Tensor:
        """Repeats the tensor along each axis by the given counts, which apply to the last axes.

        Shapes: [.., n] -> [.., n * times]

        Raises:
            ValueError: If a count is negative.
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
        """Returns the sum of the diagonal of a matrix.

        Shapes: [rows, columns] -> []

        Raises:
            ValueError: If the tensor is not a matrix.
        """
    def transpose(self, dim0: _int, dim1: _int) -> Tensor:
        """Returns a view with two axes exchanged.

        Shapes: [.., m, .., n, ..] -> [.., n, .., m, ..]

        Raises:
            IndexError: an axis that does not exist.
        """
    def transpose_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`transpose` in place: the tensor itself gets the new shape and strides, and is returned."""
    def triangular_solve(self, A: Tensor, upper: _bool = True, transpose: _bool = False, unitriangular: _bool = False) -> Any:
        """Returns the `X` with `A @ X = input` (or with `A.mT`), where one triangle of `A` is used: a
        tuple of solution and cloned_coefficient, a copy of `A`.

        Shapes: [.., n, k] and [.., n, n] -> [.., n, k] and [.., n, n]

        Raises:
            ValueError: If the sizes do not match.
            TypeError: If a dtype is not float32 or float64, or if the dtypes differ.
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
        """Casts the tensor to a dtype, which may be given as a name such as "ternion.LongTensor".
        Without `dtype`, returns the name of the tensor's type.

        Shapes: [..] -> the same shape
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
        """Returns the unique elements in ascending order, optionally with inverse indices and counts.

        Args:
            sorted: Accepted for compatibility with PyTorch. The result is always sorted.
            return_inverse: Also returns the index of each element of the input in the result, in the
                shape of `input`, int64.
            return_counts: Also returns the number of occurrences of each unique element, int64.
            dim: An axis whose slices are compared as a whole, element by element. `inverse` and
                `counts` then have one value for each slice.

        Raises:
            IndexError: If the axis is out of range.
            ValueError: If the slices have no elements.
        """
    def unique_consecutive(self, return_inverse: _bool = False, return_counts: _bool = False, dim: _int | None = None) -> Any:
        """Returns the elements without those that are equal to the previous one, optionally with
        inverse indices and counts; see `unique`.

        Shapes: [..] -> [groups], and optionally the shape of `input` (inverse) and [groups] (counts).
        With `dim`, slices are compared as a whole.

        Raises:
            IndexError: If the axis is out of range.
            ValueError: If the slices have no elements.
        """
    def unsqueeze(self, dim: _int | None = None, *, axis: _int | None = None) -> Tensor:
        """Inserts an axis of size 1 at `dim`.

        Shapes: [..] -> [.., 1, ..]

        Raises:
            IndexError: an axis that does not exist.
            TypeError: no `dim`.
        """
    def unsqueeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """`unsqueeze` in place: the tensor itself gets the new shape and strides, and is returned."""
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
        """Returns the dot product of two vectors.

        Shapes: [n] and [n] -> []

        Raises:
            ValueError: If an argument is not a vector, or if the sizes differ.
        """
    def view(self, *shape: SizeLike) -> Tensor:
        """Returns a view with another shape, where one size may be -1; or, given a dtype of the same
        size, with the bytes reinterpreted as elements of that dtype.

        Raises:
            ValueError: incompatible sizes, or a shape that requires a copy.
            TypeError: a dtype of another size, or bool.
        """
    def view_as(self, other: Tensor) -> Tensor:
        """Returns a view in the shape of `other`.

        Shapes: [..] -> the shape of `other`

        Raises:
            ValueError: If the number of elements differs, or if the shape would need a copy.
        """
    def vsplit(self, indices_or_sections: Any = None, *, sections: Any = None, indices: Any = None) -> tuple[Tensor, ...]:
        """Splits the first axis. A number of parts must divide its size.

        Shapes: [rows, columns, ..] -> parts of [part, columns, ..]

        Raises:
            ValueError: If there are fewer than 2 axes, or if the number of parts does not divide the
                size of the first.
        """
    def where(self, condition: Tensor, other: Other) -> Tensor:
        """Returns the elements of this tensor where the condition is True, and those of `other`
        elsewhere; broadcast.
        """
    def xlog1py(self, other: Any) -> Tensor:
        """Computes `input * log(1 + other)`, accurate near 0; 0 where input is 0 and other is not NaN.
        One of the arguments may be a number.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
        """
    def xlogy(self, other: Any) -> Tensor:
        """Computes `input * log(other)`, 0 where input is 0 and other is not NaN. One of the arguments
        may be a number.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
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
        """Computes the Hurwitz zeta function, the sum of `(other + k)^-input` over `k >= 0`. One of the
        arguments may be a number. There is no gradient with respect to `input`.

        Shapes: [..] and [..], which broadcast -> the broadcast shape

        Raises:
            ValueError: If the shapes do not broadcast.
            TypeError: If an argument is neither a tensor nor a number, or if both are numbers.
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
    def _prelu(self, *args: Any, **kwargs: Any) -> Any: ...
    def _put(self, *args: Any, **kwargs: Any) -> Any: ...
    def _quantile(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rad2deg(self, *args: Any, **kwargs: Any) -> Any: ...
    def _renorm(self, *args: Any, **kwargs: Any) -> Any: ...
    def _repeat_interleave(self, *args: Any, **kwargs: Any) -> Any: ...
    def _replace_with(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rot90(self, *args: Any, **kwargs: Any) -> Any: ...
    def _round(self, *args: Any, **kwargs: Any) -> Any: ...
    def _rsub(self, *args: Any, **kwargs: Any) -> Any: ...
    def _scatter_reduce(self, *args: Any, **kwargs: Any) -> Any: ...
    def _searchsorted(self, *args: Any, **kwargs: Any) -> Any: ...
    def _select_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _signbit(self, *args: Any, **kwargs: Any) -> Any: ...
    def _slice_scatter(self, *args: Any, **kwargs: Any) -> Any: ...
    def _split_by(self, *args: Any, **kwargs: Any) -> Any: ...
    def _sum_to_size(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take_along_dim(self, *args: Any, **kwargs: Any) -> Any: ...
    def _take_layout(self, *args: Any, **kwargs: Any) -> Any: ...
    def _tensordot(self, *args: Any, **kwargs: Any) -> Any: ...
    def _tile(self, *args: Any, **kwargs: Any) -> Any: ...
    def _trace(self, *args: Any, **kwargs: Any) -> Any: ...
    def _trapezoid(self, *args: Any, **kwargs: Any) -> Any: ...
    def _unique(self, *args: Any, **kwargs: Any) -> Any: ...
    def _unravel_index(self, *args: Any, **kwargs: Any) -> Any: ...
    def _var_mean(self, *args: Any, **kwargs: Any) -> Any: ...
    def _version(self, *args: Any, **kwargs: Any) -> Any: ...

class Parameter(Tensor):
    """A trainable tensor. As an attribute of a Module it is one of its parameters.

    Args:
        data: the values; the parameter shares their memory.
        requires_grad: whether the parameter is trained.

    Raises:
        TypeError: the dtype is not floating, and `requires_grad` is not False.
    """
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
    """Computes sums of products over named axes: `einsum("bij,bjk->bik", a, b)`.

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
def where(condition: Tensor) -> tuple[Tensor, ...]:
    """Returns the elements of `input` where the condition is True, and those of `other` elsewhere;
    broadcast. Both may be numbers.

    With only a condition: returns the indices (int64) where it is True, one tensor per axis.

    Shapes: condition, input and other, broadcast -> the broadcast shape; only a condition -> one
    [n] for each axis

    Raises:
        TypeError: a condition for `input` and `other` that is neither bool nor uint8, or only one
            of `input` and `other`.
        ValueError: shapes that do not broadcast.
    """
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
def _stack_by(*args: Any, **kwargs: Any) -> Tensor: ...
def _total_norm(*args: Any, **kwargs: Any) -> Tensor: ...
def _triangle(*args: Any, **kwargs: Any) -> Tensor: ...
def _window(*args: Any, **kwargs: Any) -> Tensor: ...
def _number(value: Any, /) -> _float: ...
def _set_recording(on: _bool) -> _bool: ...
def _forked() -> None: ...
def _random_position(device: Any = None) -> tuple[_int, _int]: ...
def _set_random_position(position: tuple[_int, _int], device: Any = None) -> None: ...
def _nvrtc_version() -> tuple[_int, _int]: ...
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
