//! Linear algebra with gradients: determinants, inverses, linear systems, decompositions, norms.
//! Names and semantics are those of `torch.linalg`.
//!
//! Functions take one matrix `[rows, columns]` or a batch of them `[.., rows, columns]`, in f32 or
//! f64; other dtypes are errors, except where a function says otherwise. There are no complex
//! numbers, and therefore no eigenvalues of matrices that are not symmetric. A matrix without a
//! result (singular, not positive definite, not finite) is an
//! [`Error::Matrix`](ternion_core::Error::Matrix). **Decompositions run on the host**: the matrices
//! are downloaded from their device, decomposed in f64 by the crate `faer`, rounded once to their
//! dtype and uploaded to the device; the device is synchronized. Functions that are composed of
//! them (products, norms, the products in gradients) run on the device.
//!
//! Gradients are the published formulas: M. Giles, "An extended collection of matrix derivative
//! results for forward and reverse mode algorithmic differentiation", 2008; I. Murray,
//! "Differentiation of the Cholesky decomposition", 2016; S. Walter and L. Lehmann, "Algorithmic
//! differentiation of linear algebra functions with application in optimum experimental design",
//! 2010 (QR); J. Townsend, "Differentiating the singular value decomposition", 2016; G. Golub and
//! V. Pereyra, "The differentiation of pseudo-inverses and nonlinear least squares problems whose
//! variables separate", 1973. They are composed of functions that have gradients themselves, so
//! double backward works.

mod checks;
mod cholesky;
mod cond;
mod det;
mod eigh;
mod exp;
mod host;
mod lstsq;
mod lu;
mod matrix_norm;
mod pinv;
mod products;
mod qr;
mod record;
mod solve;
mod svd;
mod tensors;
mod triangular;
mod vector_norm;

pub use cholesky::{cholesky, cholesky_ex, cholesky_inverse, cholesky_solve};
pub use cond::cond;
pub use det::{det, logdet, slogdet};
pub use eigh::{Triangle, eigh, eigvalsh};
pub use exp::matrix_exp;
pub use lstsq::{Lstsq, lstsq};
pub use lu::{lu, lu_factor, lu_factor_ex, lu_solve, lu_unpack};
pub use matrix_norm::{MatrixNorm, NormOptions, matrix_norm, norm};
pub use pinv::{RankTolerance, matrix_rank, pinv};
pub use products::{cross, householder_product, matrix_power, multi_dot, vander, vecdot};
pub use qr::{QrMode, qr};
pub use solve::{inv, inv_ex, solve, solve_ex};
pub use svd::{svd, svdvals};
pub use tensors::{tensorinv, tensorsolve};
pub use triangular::{TriangularOptions, solve_triangular};
pub use vector_norm::{VectorNormOptions, dist, normalize, vector_norm};
