// What the kernels of the ladder take: operands and result row by row, without gaps.
//
//   y[i, j] = sum_k a[i, k] b[k, j]        a [m, k], b [k, n], y [m, n]
//
// The ladder is for study and measurement (docs/kernels/gemm-ladder.md); products of tensors run by the kernels in gemm/.

#pragma once

#include "lib/base.cuh"

template <class T> struct Matrices {
    T* y;
    const T* a;
    const T* b;
    u32 m, n, k;  // above 0; m k, k n and m n are below 2^31
};

// Element [row, column] of a matrix of `rows` rows and `columns` columns, 0 beyond it.
INLINE float element_or_zero(const float* matrix, u32 row, u32 column, u32 rows, u32 columns) {
    return row < rows && column < columns ? matrix[row * columns + column] : 0.0f;
}
