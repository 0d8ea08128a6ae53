//! Operations on f32 and f64 for the fused kernels: operators and a matrix product.

use crate::number::Real;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// A matrix in memory: its first element, and the strides of rows and columns in elements.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<P> {
    pub(crate) first: P,
    pub(crate) row_stride: isize,
    pub(crate) column_stride: isize,
}

impl<P> Matrix<P> {
    /// Creates a row-major matrix with rows of `width` elements.
    #[inline]
    pub(crate) fn rows(first: P, width: usize) -> Matrix<P> {
        Matrix { first, row_stride: width as isize, column_stride: 1 }
    }

    /// Creates the transpose of a row-major matrix with rows of `width` elements.
    #[inline]
    pub(crate) fn columns(first: P, width: usize) -> Matrix<P> {
        Matrix { first, row_stride: 1, column_stride: width as isize }
    }
}

/// A float type in which kernels compute.
pub(crate) trait Float:
    Real
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
    + Sum
    + bytemuck::Pod
{
    const NEG_INFINITY: Self;

    /// Computes `c = alpha a b + beta c`, with a `[m, k]`, b `[k, n]`, c `[m, n]` and sizes `[m, k,
    /// n]`. If beta is 0, c need not be initialized.
    ///
    /// # Safety
    /// All elements of the matrices must be in readable memory, those of c also in writable memory.
    /// No other thread may write c, and no two elements of c may have the same address.
    unsafe fn gemm(
        sizes: [usize; 3],
        alpha: Self,
        a: Matrix<*const Self>,
        b: Matrix<*const Self>,
        beta: Self,
        c: Matrix<*mut Self>,
    );
}

macro_rules! float {
    ($($float:ident: $gemm:ident),*) => {
        $(impl Float for $float {
            const NEG_INFINITY: Self = $float::NEG_INFINITY;

            unsafe fn gemm(
                [m, k, n]: [usize; 3],
                alpha: Self,
                a: Matrix<*const Self>,
                b: Matrix<*const Self>,
                beta: Self,
                c: Matrix<*mut Self>,
            ) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    matrixmultiply::$gemm(
                        m, k, n,
                        alpha,
                        a.first, a.row_stride, a.column_stride,
                        b.first, b.row_stride, b.column_stride,
                        beta,
                        c.first, c.row_stride, c.column_stride,
                    );
                }
            }
        })*
    };
}
float!(f32: sgemm, f64: dgemm);
