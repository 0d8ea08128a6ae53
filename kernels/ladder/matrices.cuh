// Parameters of the GEMM ladder: row-major operands and result, without gaps.
//
//   y[i, j] = sum_k a[i, k] b[k, j]        a [m, k], b [k, n], y [m, n]
//
// The ladder is for study and measurement (docs/kernels/gemm-ladder.md); ops on tensors use the
// kernels in gemm/.

#pragma once

#include "lib/base.cuh"

template <class T> struct Matrices {
    T* y;
    const T* a;
    const T* b;
    u32 m, n, k;  // at least 1; m k, k n and m n are below 2^31
};

// Returns element [row, column] of a `rows` x `columns` matrix, or 0 outside it.
INLINE float element_or_zero(const float* matrix, u32 row, u32 column, u32 rows, u32 columns) {
    return row < rows && column < columns ? matrix[row * columns + column] : 0.0f;
}
