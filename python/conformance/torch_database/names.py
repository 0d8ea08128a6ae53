"""The function of Ternion for each entry of the database, and the entries without one,
intentionally or not yet."""

from collections import namedtuple

import ternion

# `path` starts at the package. `call(function, *args, **kwargs)` is for entries whose arguments
# have another order than those of the function.
Function = namedtuple("Function", "path call")


def _plain(function, *args, **kwargs):
    return function(*args, **kwargs)


def _swapped(function, first, second, *args, **kwargs):
    return function(second, first, *args, **kwargs)


def _on_copy(function, x, *args, **kwargs):
    return function(x.clone(), *args, **kwargs)


def _attribute(function, x):
    return function.__get__(x)


def _equation_last(function, tensors, equation):
    return function(equation, tensors)


def _sliced(function, x, dim=0, start=None, end=None, step=1):
    return function(x, (slice(None),) * (dim % x.ndim) + (slice(start, end, step),))


def _first_two(function, a, b, driver):
    return tuple(function(a, b, driver=driver)[:2])


def _of_product(function, a, b, **kwargs):
    return function(a @ b.mT, **kwargs)


_METHODS = """
item contiguous sum_to_size expand expand_as to reshape_as view view_as bfloat16 bool byte char double float half int long short new_zeros new_ones new_empty
new_empty_strided new_full unfold repeat __radd__ __rmul__ __rand__ __ror__ __rxor__ __rmatmul__ __rmod__ __rpow__ __rsub__ __getitem__
""".split()

_SPECIAL = {
    **{name: Function(f"Tensor.{name}", _plain) for name in _METHODS},
    **{name: Function(f"Tensor.{name}_", _plain) for name in ("cauchy", "exponential", "geometric", "log_normal", "uniform")},
    **{name: Function(f"Tensor.{name}", _attribute) for name in ("T", "H", "mT", "mH", "real", "imag")},
    **{name: Function(f"Tensor.{name}", _on_copy) for name in ("resize_", "resize_as_", "zero_")},
    **{name: Function(name, _swapped) for name in ("where", "nn.functional.embedding", "nn.functional.embedding_bag", "polygamma", "special.polygamma")},
    "__rdiv__": Function("Tensor.__rtruediv__", _plain),
    "normal.in_place": Function("Tensor.normal_", _plain),
    "normal.number_mean": Function("normal", _swapped),
    "einsum": Function("einsum", _equation_last),
    "slice": Function("Tensor.__getitem__", _sliced),
    "linalg.lstsq.grad_oriented": Function("linalg.lstsq", _first_two),
    "linalg.pinv.singular": Function("linalg.pinv", _of_product),
    "svd_lowrank": Function("svd_lowrank", _of_product),
    "pca_lowrank": Function("pca_lowrank", _of_product),
}


def name_of(entry):
    """Returns an entry's name with its variant, which is unique."""
    return f"{entry.name}.{entry.variant_test_name}" if entry.variant_test_name else entry.name


def resolved(path):
    """Returns the object at a path from the package, or None if there is none."""
    found = ternion
    for part in path.split("."):
        found = getattr(found, part, None)
        if found is None:
            return None
    return found


def function_of(entry):
    """Returns the function for an entry, or None if Ternion has none."""
    special = _SPECIAL.get(name_of(entry)) or _SPECIAL.get(entry.name)
    if special:
        return special if resolved(special.path) is not None else None
    paths = [entry.name] if "." in entry.name else [entry.name, f"Tensor.{entry.name}"]
    return next((Function(path, _plain) for path in paths if callable(resolved(path))), None)


# Entries that are intentionally excluded. Names are those of the database without variants. A name
# that ends in a dot matches all names that start with it.
_COMPLEX = "complex numbers, which Ternion has not"
_FOURIER = "Fourier transforms, which are of complex numbers"
_SPARSE = "sparse tensors, which Ternion has not"
_KERNELS = "kernels of CUDA written as text"
_INTERNAL = "a function within PyTorch, not of its documented interface"
_COPIES = "a copy of what the function without `_copy` gives: within PyTorch, not of its documented interface"
_MASKED = "a prototype besides PyTorch's tensors; the functions without a mask exist"
_BITS = "the exclusive or of the elements as bits in memory: a checksum, and no function of numbers"
_RARE = "rarely used with gradients; SciPy has it"

_REASONS = {
    _COMPLEX: "complex polar view_as_complex view_as_real cdouble cfloat chalf linalg.eig linalg.eigvals nn.functional.silu.complex",
    _FOURIER: "fft. stft istft",
    _SPARSE: "sparse. to_sparse",
    _KERNELS: "jiterator_",
    _INTERNAL: """
        _softmax_backward_data native_layer_norm native_batch_norm _native_batch_norm_legit _batch_norm_with_update max_pool2d_with_indices_backward
        torch._scaled_mm torch._scaled_mm_v2
        torch.ops.aten. _upsample_bilinear2d_aa _unsafe_masked_index _unsafe_masked_index_put_accumulate _chunk_cat native_dropout_backward
        _segment_reduce grid_sampler_2d grid_sampler_3d unsafe_chunk unsafe_split constant_pad_nd addmm.decomposed
    """,
    _COPIES: """
        alias_copy as_strided_copy diagonal_copy expand_copy permute_copy split_with_sizes_copy squeeze_copy t_copy transpose_copy unbind_copy
        unfold_copy unsqueeze_copy view_copy
    """,
    _MASKED: "masked.",
    _BITS: "hash_tensor",
    _RARE: """
        special.airy_ai special.bessel_ special.chebyshev_ special.hermite_ special.laguerre_ special.legendre_ special.modified_bessel_
        special.scaled_modified_bessel_
        special.shifted_chebyshev_ special.spherical_bessel_
    """,
}
ON_PURPOSE = {name: reason for reason, names in _REASONS.items() for name in names.split()}


def reason_of(entry):
    """Returns why an entry is intentionally excluded, or None if it is not."""
    for name in (name_of(entry), entry.name):
        if name in ON_PURPOSE:
            return ON_PURPOSE[name]
    return next((reason for start, reason in ON_PURPOSE.items() if start[-1] in "._" and entry.name.startswith(start)), None)
