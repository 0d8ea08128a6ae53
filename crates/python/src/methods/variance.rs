//! Variances and norms.

use crate::arguments::{AxesArgument, axes, dim_or_axis};
use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::{ExtractArgument, of};
use crate::promote::to_floating;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyBool;
use ternion::linalg::{self, MatrixNorm, NormOptions, VectorNormOptions};
use ternion::{Axes, Error, Result, Tensor};

/// Returns the correction. `unbiased` is PyTorch's older name for a correction of 1 or 0.
fn resolve_correction(op: &str, correction: Option<f64>, unbiased: Option<bool>) -> Outcome<f64> {
    match (correction, unbiased) {
        (Some(_), Some(_)) => {
            Err(RaisedError::type_error(format!("{op}: expected unbiased or correction, got both")))
        }
        (Some(correction), None) => Ok(correction),
        (None, unbiased) => Ok(if unbiased == Some(false) { 0.0 } else { 1.0 }),
    }
}

/// Returns the axes and the correction of a variance. A bool given for the axes is PyTorch's
/// `unbiased`.
fn parse_variance_args(
    op: &str,
    dim: Option<&Bound<'_, PyAny>>,
    correction: Option<f64>,
    unbiased: Option<bool>,
) -> Outcome<(Axes, f64)> {
    match dim.filter(|dim| !dim.is_none()) {
        Some(flag) if flag.cast::<PyBool>().is_ok() => match unbiased {
            None => Ok((Axes::All, resolve_correction(op, correction, Some(flag.is_truthy()?))?)),
            Some(_) => Err(RaisedError::type_error(format!("{op}: expected integers as axes, got bool"))),
        },
        dim => {
            let dim = dim.map(|dim| AxesArgument::of(op, dim)).transpose()?;
            Ok((axes(dim), resolve_correction(op, correction, unbiased)?))
        }
    }
}

/// Computes the norm of order `p` over axes. Half precision is computed in f32 and rounded once.
fn norm(x: &Tensor, p: f64, axes: Axes, keepdim: bool) -> Result<Tensor> {
    let dtype = x.dtype();
    let x = &x.to_dtype(dtype.accumulator())?;
    p_norm(x, p, axes, keepdim)?.to_dtype(dtype)
}

fn p_norm(x: &Tensor, p: f64, axes: Axes, keepdim: bool) -> Result<Tensor> {
    match p {
        2.0 if keepdim => x.norm_keep(axes),
        2.0 => x.norm(axes),
        1.0 => sum_along(&x.abs()?, axes, keepdim),
        p => vector_norm(x, p, &axes, keepdim),
    }
}

fn sum_along(x: &Tensor, axes: Axes, keepdim: bool) -> Result<Tensor> {
    if keepdim { x.sum_keep(axes) } else { x.sum(axes) }
}

/// Computes `sum(|x|^p)^(1/p)` without overflow or underflow; for infinite orders the largest or
/// smallest absolute value.
fn vector_norm(x: &Tensor, p: f64, axes: &Axes, keepdim: bool) -> Result<Tensor> {
    let options = VectorNormOptions { dim: axes_list(axes), keepdim, dtype: None };
    linalg::vector_norm(x, p, &options).with_op("norm")
}

/// Returns the list of axes, or `None` for all.
fn axes_list(axes: &Axes) -> Option<Vec<isize>> {
    match axes {
        Axes::All => None,
        Axes::List(list) => Some(list.to_vec()),
    }
}

/// Computes the sum of the singular values of matrices, whose axes are the last two by default.
fn nuclear_norm(x: &Tensor, axes: &Axes, keepdim: bool) -> Result<Tensor> {
    let dim = match axes_list(axes).as_deref() {
        None if x.rank() == 2 => [0, 1],
        Some(&[rows, columns]) => [rows, columns],
        other => {
            let count = other.map_or(x.rank(), <[isize]>::len);
            return Err(Error::invalid(
                "norm",
                format!("the nuclear norm over {count} axes, expected two of matrices"),
            ));
        }
    };
    linalg::matrix_norm(x, MatrixNorm::Nuc, &NormOptions { dim, keepdim, dtype: None }).with_op("norm")
}

#[pymethods]
impl PyTensor {
    /// Computes the variance over axes: the sum of squares is divided by the number of elements
    /// less `correction`.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Args:
    ///     dim: the axis or axes to reduce; all by default.
    ///     unbiased: an older name of a correction of 1 or 0.
    ///     keepdim: whether to keep reduced axes with size 1.
    ///     correction: 1 by default.
    ///     axis, keepdims: alternative names of dim and keepdim.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: the dtype is not floating, or both `unbiased` and `correction` are given.
    #[pyo3(signature = (dim=None, unbiased=None, keepdim=false, *, correction=None, axis=None, keepdims=false))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's")]
    fn var(
        &self,
        py: Python<'_>,
        dim: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::var)] unbiased: Option<bool>,
        #[pyo3(from_py_with = of::var)] keepdim: bool,
        #[pyo3(from_py_with = of::var)] correction: Option<f64>,
        axis: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::var)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let (axes, correction) =
            parse_variance_args("var", dim_or_axis("var", dim, axis)?, correction, unbiased)?;
        self.map_along(py, axes.clone(), |x| {
            if keepdim || keepdims { x.var_keep(axes, correction) } else { x.var(axes, correction) }
        })
    }

    /// Computes the standard deviation over axes: the square root of `var`.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Args:
    ///     dim: the axis or axes to reduce; all by default.
    ///     unbiased: an older name of a correction of 1 or 0.
    ///     keepdim: whether to keep reduced axes with size 1.
    ///     correction: 1 by default.
    ///     axis, keepdims: alternative names of dim and keepdim.
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     TypeError: the dtype is not floating, or both `unbiased` and `correction` are given.
    #[pyo3(signature = (dim=None, unbiased=None, keepdim=false, *, correction=None, axis=None, keepdims=false))]
    #[allow(clippy::too_many_arguments, reason = "PyTorch's")]
    fn std(
        &self,
        py: Python<'_>,
        dim: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::std)] unbiased: Option<bool>,
        #[pyo3(from_py_with = of::std)] keepdim: bool,
        #[pyo3(from_py_with = of::std)] correction: Option<f64>,
        axis: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::std)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let (axes, correction) =
            parse_variance_args("std", dim_or_axis("std", dim, axis)?, correction, unbiased)?;
        self.map_along(py, axes.clone(), |x| {
            if keepdim || keepdims { x.std_keep(axes, correction) } else { x.std(axes, correction) }
        })
    }

    /// Computes the norm over axes, by default of order 2. Order 0 counts the elements that are not
    /// 0; infinity is the largest absolute value, minus infinity the smallest. "fro" is order 2,
    /// and "nuc" is the sum of the singular values of the matrices in two axes.
    ///
    /// Shapes: all axes -> []; [.., n, ..] along `dim` -> [..], or [.., 1, ..] with `keepdim`
    ///
    /// Raises:
    ///     IndexError: an axis that does not exist.
    ///     ValueError: "nuc" over another number of axes than two.
    #[pyo3(signature = (p=None, dim=None, keepdim=false, *, axis=None, keepdims=false))]
    fn norm(
        &self,
        py: Python<'_>,
        p: Option<&Bound<'_, PyAny>>,
        #[pyo3(from_py_with = of::norm)] dim: Option<AxesArgument>,
        #[pyo3(from_py_with = of::norm)] keepdim: bool,
        #[pyo3(from_py_with = of::norm)] axis: Option<AxesArgument>,
        #[pyo3(from_py_with = of::norm)] keepdims: bool,
    ) -> Outcome<PyTensor> {
        let (dim, keepdim) = (dim_or_axis("norm", dim, axis)?, keepdim || keepdims);
        let p = match p.filter(|p| !p.is_none()) {
            None => 2.0,
            Some(p) if p.extract::<String>().is_ok_and(|name| name == "fro") => 2.0,
            Some(p) if p.extract::<String>().is_ok_and(|name| name == "nuc") => {
                return self.map(py, |x| nuclear_norm(x, &axes(dim), keepdim));
            }
            Some(p) => f64::of("norm", p)?,
        };
        if p.is_nan() {
            return Err(RaisedError::value_error("norm: order nan, expected a number"));
        }
        let axes = axes(dim);
        self.map_along(py, axes.clone(), |x| norm(&to_floating(x)?, p, axes, keepdim))
    }
}
