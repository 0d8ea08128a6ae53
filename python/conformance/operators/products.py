"""Matrix products, einsum, and determinants."""

import ternion

from .table import operator


@operator("MatMul")
def matmul(node, a, b):
    return a @ b


@operator("Det")
def det(node, x):
    return ternion.linalg.det(x)


@operator("QLinearMatMul")
def quantized_matmul(node, a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero):
    """Multiplies integers that represent `(x - zero) * scale`, and returns such integers in the
    dtype of `y_zero`."""
    scale = a_scale.float() * b_scale.float() / y_scale.float()
    steps = (matmul_integer(node, a, b, a_zero, b_zero).float() * scale).round() + y_zero.float()
    # Converting floats to integers saturates at the limits of the dtype.
    return steps.to(y_zero.dtype)


@operator("Gemm")
def gemm(node, a, b, c=None):
    """Computes `alpha * a' @ b' + beta * c`."""
    a = a.T if node.attribute("transA", 0) else a
    b = b.T if node.attribute("transB", 0) else b
    alpha, beta = node.attribute("alpha", 1.0), node.attribute("beta", 1.0)
    if c is None:
        return alpha * (a @ b)
    return ternion.Tensor.addmm(c, a, b, beta=beta, alpha=alpha)


@operator("Einsum")
def einsum(node, *operands):
    return ternion.einsum(node.attribute("equation"), *operands)


@operator("MatMulInteger")
def matmul_integer(node, a, b, a_zero=None, b_zero=None):
    """Computes in int32, after subtracting the zero points: one number, or one per row of a and
    column of b."""
    a, b = a.int(), b.int()
    if a_zero is not None:
        a_zero = a_zero.int()
        a = a - (a_zero.unsqueeze(-1) if a_zero.dim() else a_zero)
    if b_zero is not None:
        b = b - b_zero.int()
    return a @ b
