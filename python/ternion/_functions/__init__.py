"""Functions written in Python on top of the native ones, and the list of those that are also tensor
methods.
"""

from __future__ import annotations

from typing import Any

from .._error_messages import name_all, named
from .._ternion import Tensor
from . import arithmetic, arrays, creation, indexing, kinds, linalg, matrices, reductions, shapes, special, windows

MODULES = (arithmetic, shapes, matrices, reductions, indexing, creation, kinds, linalg, special, windows)

# Functions of the package.
FUNCTIONS = """
addcdiv adjoint aminmax argwhere asarray atleast_1d atleast_2d atleast_3d block_diag broadcast_shapes broadcast_tensors broadcast_to
bucketize can_cast cartesian_prod clamp_max clamp_min column_stack copysign corrcoef count_nonzero cov cumprod deg2rad diag diag_embed diagflat diagonal diff
dist dstack fill float_power fliplr flipud frac heaviside hstack hypot index_copy index_fill index_put inner is_complex is_floating_point is_nonzero
is_same_size isin isneginf isposinf kthvalue lerp logaddexp logspace median meshgrid movedim multinomial nan_to_num nanmean nansum norm normal polygamma
positive promote_types put quantile rad2deg randint_like ravel repeat_interleave result_type round rsub scalar_tensor scatter_reduce searchsorted std_mean
narrow_copy split swapaxes swapdims take take_along_dim tensor_split tensordot tile trace tril_indices triu_indices unique unique_consecutive var_mean vstack xlogy
cdist chain_matmul combinations conj cross dsplit get_device hsplit is_signed isreal kron logaddexp2 logcumsumexp matrix_power msort prelu real rot90
select_scatter signbit slice_scatter split_with_sizes trapezoid typename unravel_index vdot vsplit
as_strided as_strided_scatter bartlett_window blackman_window cumulative_trapezoid diagonal_scatter frexp get_float32_matmul_precision gradient hamming_window hann_window histogram kaiser_window ldexp
set_float32_matmul_precision vander
cummax cummin index_reduce mode nanmedian nanquantile renorm
cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve lu_unpack matrix_exp orgqr pinverse qr slogdet svd triangular_solve
BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor ShortTensor finfo iinfo
""".split()

# Methods of tensors.
METHODS = """
addcdiv adjoint aminmax argwhere broadcast_to clamp_max clamp_min copysign corrcoef count_nonzero cov cumprod deg2rad diag
diag_embed diagflat diagonal diff dist fill_diagonal_ float_power fliplr flipud frac get_device heaviside hypot
index_copy index_fill index_put index_put_ inner is_complex is_nonzero is_same_size is_signed isneginf isposinf kthvalue lerp logaddexp masked_scatter_ median
movedim multinomial nan_to_num nanmean nansum ndimension nelement norm new_empty new_full new_ones new_tensor new_zeros pin_memory positive put quantile rad2deg
random_ ravel repeat_interleave reshape_as round narrow_copy scatter_reduce split_with_sizes swapaxes swapdims take take_along_dim tensor_split tile trace type unique
unique_consecutive view_as xlog1py xlogy zeta
conj cross dsplit hsplit is_pinned isreal kron logaddexp2 logcumsumexp matrix_power msort prelu rot90 select_scatter signbit
slice_scatter sum_to_size vdot vsplit
as_strided as_strided_scatter diagonal_scatter histogram nanquantile
frexp is_shared ldexp put_
cummax cummin index_reduce mode nanmedian renorm
cholesky cholesky_inverse cholesky_solve det inverse logdet lu lu_solve matrix_exp orgqr pinverse qr slogdet svd triangular_solve
""".split()

# Properties that are the same for all tensors, and their docstrings: no tensor is complex, sparse,
# quantized or without memory.
PROPERTIES: dict[str, tuple[Any, str]] = {
    "real": (lambda self: self, "The real part, which is the tensor itself."),
    "is_sparse": (lambda self: False, "Whether the tensor is sparse: always false."),
    "is_quantized": (lambda self: False, "Whether the elements are quantized: always false."),
    "is_meta": (lambda self: False, "Whether the tensor has a shape but no memory: always false."),
    "layout": (lambda self: kinds.strided, "The memory layout: always `ternion.strided`."),
    "mH": (
        lambda self: self.mT,
        """A view with the last two axes exchanged, as `mT`: there is nothing to conjugate.

        Raises:
            IndexError: If there are fewer than two axes.
        """,
    ),
    "H": (
        shapes._hermitian,
        """A view of a matrix with its axes exchanged, as `T`: there is nothing to conjugate.

        Raises:
            ValueError: If there is one axis, or more than two.
        """,
    ),
}

# Methods with an in-place variant.
IN_PLACE = """
acos acosh addbmm addcdiv addcmul addmv addr asin asinh atan atan2 atanh baddbmm clamp_max clamp_min clip copysign cosh cumprod cumsum deg2rad digamma erfc erfinv exp2 float_power frac hypot
i0 index_copy index_fill index_reduce lerp lgamma log10 log2 logical_and logical_not logical_or logical_xor logit mvlgamma nan_to_num polygamma rad2deg renorm scatter_reduce sinc sinh tan tril triu xlogy
bitwise_and bitwise_left_shift bitwise_not bitwise_or bitwise_right_shift bitwise_xor gcd lcm
eq ge gt heaviside ldexp le lt ne round
""".split()

# Methods that return a view, with a variant that changes the shape or strides of the tensor itself.
VIEWS_IN_PLACE = "as_strided squeeze swapaxes swapdims t transpose unsqueeze".split()

# Operators of integer and bool tensors with an in-place variant.
IN_PLACE_SIGNS = {"and": "&=", "or": "|=", "xor": "^=", "lshift": "<<=", "rshift": ">>="}

# Aliases of functions and methods.
ALIASES = {
    "absolute": "abs", "arccos": "acos", "arccosh": "acosh", "arcsin": "asin", "arcsinh": "asinh", "arctan": "atan", "arctan2": "atan2", "arctanh": "atanh",
    "divide": "div", "fix": "trunc", "ger": "outer", "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "moveaxis": "movedim", "multiply": "mul",
    "negative": "neg", "not_equal": "ne", "sgn": "sign", "subtract": "sub", "true_divide": "div",
}  # fmt: skip


def _write_in_place(name: str, input: Tensor, result: Tensor) -> Tensor:
    """Writes a result that has no other reference to `input`. `input`'s dtype must be able to
    represent the result.
    """
    if not kinds.can_cast(result.dtype, input.dtype):
        raise RuntimeError(f"{name}: result type {kinds._dtype_name(result.dtype)} can't be cast to the desired output type {kinds._dtype_name(input.dtype)}")
    return input._replace_with(result)


def _in_place_function(name: str, function: Any) -> Any:
    def in_place(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return _write_in_place(f"{name}_", input, function(input, *args, **kwargs))

    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = f"`{name}`, in place: the tensor itself is changed and returned."
    return named(in_place)


def _in_place_view(name: str, function: Any) -> Any:
    def in_place(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return input._take_layout(function(input, *args, **kwargs))

    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = f"`{name}` in place: the tensor itself gets the new shape and strides, and is returned."
    return named(in_place)


def _in_place_operator(sign: str, name: str, operator: Any) -> Any:
    """Implements `&=` and similar operators."""

    def in_place(self: Tensor, other: Any) -> Tensor:
        result = operator(self, other)
        # For unsupported operands, Python must get `NotImplemented` so that it tries the reflected
        # operator.
        return result if result is NotImplemented else _write_in_place(sign, self, result)

    in_place.__name__ = in_place.__qualname__ = f"__i{name}__"
    return in_place


def _find_function(name: str) -> Any:
    for module in MODULES:
        function = vars(module).get(name)
        if getattr(function, "__module__", None) == module.__name__:
            return function
    raise AttributeError(name)


def _attach() -> None:
    """Adds the methods that are written in Python to `Tensor`."""
    for module in MODULES:
        name_all(vars(module))
    for name in METHODS:
        setattr(Tensor, name, _find_function(name))
    for name, (getter, text) in PROPERTIES.items():
        setattr(Tensor, name, property(getter, doc=text))
    for name in IN_PLACE:
        setattr(Tensor, f"{name}_", _in_place_function(name, getattr(Tensor, name)))
    for name in VIEWS_IN_PLACE:
        setattr(Tensor, f"{name}_", _in_place_view(name, getattr(Tensor, name)))
    for name, shift in (("lshift", arithmetic.shifted_left), ("rshift", arithmetic.shifted_right)):
        setattr(Tensor, f"__{name}__", shift)
        setattr(Tensor, f"__r{name}__", arithmetic.reflected(shift))
    for name, sign in IN_PLACE_SIGNS.items():
        setattr(Tensor, f"__i{name}__", _in_place_operator(sign, name, getattr(Tensor, f"__{name}__")))
    # The methods that Python's built-in functions of these names call.
    for name, function in (("divmod", arithmetic._divmod), ("rdivmod", arithmetic._rdivmod), ("round", arithmetic._round_to_digits)):
        setattr(Tensor, f"__{name}__", function)
    setattr(Tensor, "__array_function__", arrays.array_function)
    for name, known in ALIASES.items():
        setattr(Tensor, name, getattr(Tensor, known))
        if hasattr(Tensor, f"{known}_"):
            setattr(Tensor, f"{name}_", getattr(Tensor, f"{known}_"))


_attach()
