//! Linear algebra, from `ternion::linalg`. The functions of `ternion/linalg.py` and
//! `ternion/_functions/linalg.py` call it and define the default values.

use crate::arguments::Real;
use crate::dtype::DTypeArgument;
use crate::error::{LinAlgError, Outcome, RaisedError};
use crate::gil::wait;
use crate::tensor::{PyTensor, is_scalar_axis};
use pyo3::prelude::*;
use pyo3::types::PyString;
use ternion::linalg::{
    self, MatrixNorm, NormOptions, QrMode, RankTolerance, Triangle, TriangularOptions, VectorNormOptions,
};
use ternion::{Axes, Result, Tensor};

type Argument<'a, 'py> = &'a Bound<'py, PyTensor>;
type TensorPair = (PyTensor, PyTensor);
type TensorTriple = (PyTensor, PyTensor, PyTensor);

fn wrap_pair((first, second): (Tensor, Tensor)) -> TensorPair {
    (PyTensor::new(first), PyTensor::new(second))
}

fn wrap_triple((first, second, third): (Tensor, Tensor, Tensor)) -> TensorTriple {
    (PyTensor::new(first), PyTensor::new(second), PyTensor::new(third))
}

/// Functions of one tensor.
macro_rules! of_one {
    ($($name:ident)*) => {
        $(
            #[pyfunction]
            fn $name(py: Python<'_>, a: Argument<'_, '_>) -> Outcome<PyTensor> {
                let a = a.get().tensor();
                wait(py, || linalg::$name(&a)).map(PyTensor::new)
            }
        )*
    };
}

/// Functions of one tensor with two results.
macro_rules! two_of_one {
    ($($name:ident)*) => {
        $(
            #[pyfunction]
            fn $name(py: Python<'_>, a: Argument<'_, '_>) -> Outcome<TensorPair> {
                let a = a.get().tensor();
                wait(py, || linalg::$name(&a)).map(wrap_pair)
            }
        )*
    };
}

of_one!(det logdet inv svdvals matrix_exp);
two_of_one!(slogdet inv_ex lu_factor);

#[pyfunction]
fn cholesky(py: Python<'_>, a: Argument<'_, '_>, upper: bool) -> Outcome<PyTensor> {
    let a = a.get().tensor();
    wait(py, || linalg::cholesky(&a, upper)).map(PyTensor::new)
}

#[pyfunction]
fn cholesky_ex(py: Python<'_>, a: Argument<'_, '_>, upper: bool) -> Outcome<TensorPair> {
    let a = a.get().tensor();
    wait(py, || linalg::cholesky_ex(&a, upper)).map(wrap_pair)
}

#[pyfunction]
fn cholesky_inverse(py: Python<'_>, l: Argument<'_, '_>, upper: bool) -> Outcome<PyTensor> {
    let l = l.get().tensor();
    wait(py, || linalg::cholesky_inverse(&l, upper)).map(PyTensor::new)
}

#[pyfunction]
fn cholesky_solve(
    py: Python<'_>,
    b: Argument<'_, '_>,
    l: Argument<'_, '_>,
    upper: bool,
) -> Outcome<PyTensor> {
    let (b, l) = (b.get().tensor(), l.get().tensor());
    wait(py, || linalg::cholesky_solve(&b, &l, upper)).map(PyTensor::new)
}

#[pyfunction]
fn solve(py: Python<'_>, a: Argument<'_, '_>, b: Argument<'_, '_>, left: bool) -> Outcome<PyTensor> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    wait(py, || linalg::solve(&a, &b, left)).map(PyTensor::new)
}

#[pyfunction]
fn solve_ex(py: Python<'_>, a: Argument<'_, '_>, b: Argument<'_, '_>, left: bool) -> Outcome<TensorPair> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    wait(py, || linalg::solve_ex(&a, &b, left)).map(wrap_pair)
}

#[pyfunction]
fn solve_triangular(
    py: Python<'_>,
    a: Argument<'_, '_>,
    b: Argument<'_, '_>,
    upper: bool,
    left: bool,
    unitriangular: bool,
) -> Outcome<PyTensor> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    let options = TriangularOptions { upper, left, unitriangular };
    wait(py, || linalg::solve_triangular(&a, &b, options)).map(PyTensor::new)
}

#[pyfunction]
fn lu(py: Python<'_>, a: Argument<'_, '_>) -> Outcome<TensorTriple> {
    let a = a.get().tensor();
    wait(py, || linalg::lu(&a)).map(wrap_triple)
}

#[pyfunction]
fn lu_factor_ex(py: Python<'_>, a: Argument<'_, '_>) -> Outcome<TensorTriple> {
    let a = a.get().tensor();
    wait(py, || linalg::lu_factor_ex(&a)).map(wrap_triple)
}

#[pyfunction]
fn lu_unpack(py: Python<'_>, lu: Argument<'_, '_>, pivots: Argument<'_, '_>) -> Outcome<TensorTriple> {
    let (lu, pivots) = (lu.get().tensor(), pivots.get().tensor());
    wait(py, || linalg::lu_unpack(&lu, &pivots)).map(wrap_triple)
}

#[pyfunction]
fn lu_solve(
    py: Python<'_>,
    lu: Argument<'_, '_>,
    pivots: Argument<'_, '_>,
    b: Argument<'_, '_>,
    left: bool,
    adjoint: bool,
) -> Outcome<PyTensor> {
    let (lu, pivots, b) = (lu.get().tensor(), pivots.get().tensor(), b.get().tensor());
    wait(py, || linalg::lu_solve(&lu, &pivots, &b, left, adjoint)).map(PyTensor::new)
}

#[pyfunction]
fn qr(py: Python<'_>, a: Argument<'_, '_>, mode: &str) -> Outcome<TensorPair> {
    let mode = match mode {
        "reduced" => QrMode::Reduced,
        "complete" => QrMode::Complete,
        "r" => QrMode::R,
        _ => {
            let message = format!("linalg.qr: mode {mode:?}, expected \"reduced\", \"complete\" or \"r\"");
            return Err(RaisedError::value_error(message));
        }
    };
    let a = a.get().tensor();
    wait(py, || linalg::qr(&a, mode)).map(wrap_pair)
}

#[pyfunction]
fn svd(py: Python<'_>, a: Argument<'_, '_>, full_matrices: bool) -> Outcome<TensorTriple> {
    let a = a.get().tensor();
    wait(py, || linalg::svd(&a, full_matrices)).map(wrap_triple)
}

/// Returns the triangle from PyTorch's name.
fn parse_triangle(name: &str, uplo: &str) -> Outcome<Triangle> {
    match uplo {
        "L" | "l" => Ok(Triangle::Lower),
        "U" | "u" => Ok(Triangle::Upper),
        _ => Err(RaisedError::value_error(format!("{name}: UPLO {uplo:?}, expected \"L\" or \"U\""))),
    }
}

#[pyfunction]
fn eigh(py: Python<'_>, a: Argument<'_, '_>, uplo: &str) -> Outcome<TensorPair> {
    let (a, triangle) = (a.get().tensor(), parse_triangle("linalg.eigh", uplo)?);
    wait(py, || linalg::eigh(&a, triangle)).map(wrap_pair)
}

#[pyfunction]
fn eigvalsh(py: Python<'_>, a: Argument<'_, '_>, uplo: &str) -> Outcome<PyTensor> {
    let (a, triangle) = (a.get().tensor(), parse_triangle("linalg.eigvalsh", uplo)?);
    wait(py, || linalg::eigvalsh(&a, triangle)).map(PyTensor::new)
}

#[pyfunction]
fn lstsq(
    py: Python<'_>,
    a: Argument<'_, '_>,
    b: Argument<'_, '_>,
    rcond: Option<Real>,
) -> Outcome<(PyTensor, PyTensor, PyTensor, PyTensor)> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    let least_squares = wait(py, || linalg::lstsq(&a, &b, rcond.map(f64::from)))?;
    let (solution, residuals) = wrap_pair((least_squares.solution, least_squares.residuals));
    let (rank, singular_values) = wrap_pair((least_squares.rank, least_squares.singular_values));
    Ok((solution, residuals, rank, singular_values))
}

fn tolerance(atol: Option<Real>, rtol: Option<Real>) -> RankTolerance {
    RankTolerance { atol: atol.map(f64::from), rtol: rtol.map(f64::from) }
}

#[pyfunction]
fn pinv(
    py: Python<'_>,
    a: Argument<'_, '_>,
    atol: Option<Real>,
    rtol: Option<Real>,
    hermitian: bool,
) -> Outcome<PyTensor> {
    let a = a.get().tensor();
    wait(py, || linalg::pinv(&a, tolerance(atol, rtol), hermitian)).map(PyTensor::new)
}

#[pyfunction]
fn matrix_rank(
    py: Python<'_>,
    a: Argument<'_, '_>,
    atol: Option<Real>,
    rtol: Option<Real>,
    hermitian: bool,
) -> Outcome<PyTensor> {
    let a = a.get().tensor();
    wait(py, || linalg::matrix_rank(&a, tolerance(atol, rtol), hermitian)).map(PyTensor::new)
}

#[pyfunction]
fn matrix_power(py: Python<'_>, a: Argument<'_, '_>, n: i64) -> Outcome<PyTensor> {
    let a = a.get().tensor();
    wait(py, || linalg::matrix_power(&a, n)).map(PyTensor::new)
}

#[pyfunction]
fn multi_dot(py: Python<'_>, tensors: Vec<Bound<'_, PyTensor>>) -> Outcome<PyTensor> {
    let tensors: Vec<Tensor> = tensors.iter().map(|tensor| tensor.get().tensor()).collect();
    wait(py, || linalg::multi_dot(&tensors.iter().collect::<Vec<_>>())).map(PyTensor::new)
}

#[pyfunction]
fn cross(py: Python<'_>, a: Argument<'_, '_>, b: Argument<'_, '_>, dim: isize) -> Outcome<PyTensor> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    wait(py, || linalg::cross(&a, &b, dim)).map(PyTensor::new)
}

#[pyfunction]
fn vecdot(py: Python<'_>, x: Argument<'_, '_>, y: Argument<'_, '_>, dim: isize) -> Outcome<PyTensor> {
    let (x, y) = (x.get().tensor(), y.get().tensor());
    wait(py, || linalg::vecdot(&x, &y, dim)).map(PyTensor::new)
}

#[pyfunction]
fn vander(py: Python<'_>, x: Argument<'_, '_>, columns: Option<isize>) -> Outcome<PyTensor> {
    let x = x.get().tensor();
    let columns = columns.map(usize::try_from).transpose().map_err(|_| {
        let count = columns.unwrap_or_default();
        RaisedError::value_error(format!("linalg.vander: {count} columns, expected at least 1"))
    })?;
    wait(py, || linalg::vander(&x, columns)).map(PyTensor::new)
}

#[pyfunction]
fn householder_product(py: Python<'_>, a: Argument<'_, '_>, tau: Argument<'_, '_>) -> Outcome<PyTensor> {
    let (a, tau) = (a.get().tensor(), tau.get().tensor());
    wait(py, || linalg::householder_product(&a, &tau)).map(PyTensor::new)
}

#[pyfunction]
fn tensorinv(py: Python<'_>, a: Argument<'_, '_>, ind: usize) -> Outcome<PyTensor> {
    let a = a.get().tensor();
    wait(py, || linalg::tensorinv(&a, ind)).map(PyTensor::new)
}

#[pyfunction]
fn tensorsolve(
    py: Python<'_>,
    a: Argument<'_, '_>,
    b: Argument<'_, '_>,
    dims: Option<Vec<isize>>,
) -> Outcome<PyTensor> {
    let (a, b) = (a.get().tensor(), b.get().tensor());
    wait(py, || linalg::tensorsolve(&a, &b, dims.as_deref())).map(PyTensor::new)
}

/// Converts PyTorch's name of a norm: a number, "fro" or "nuc".
fn parse_norm_order(name: &str, order: &Bound<'_, PyAny>) -> Outcome<MatrixNorm> {
    let Ok(text) = order.cast::<PyString>() else {
        let number = order.extract::<Real>().map_err(|_| {
            let kind = order.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
            RaisedError::type_error(format!("{name}: ord is {kind}, expected a number, \"fro\" or \"nuc\""))
        })?;
        return Ok(MatrixNorm::Order(number.0));
    };
    match text.to_string().as_str() {
        "fro" => Ok(MatrixNorm::Fro),
        "nuc" => Ok(MatrixNorm::Nuc),
        other => Err(RaisedError::value_error(format!(
            "{name}: ord {other:?}, expected a number, \"fro\" or \"nuc\""
        ))),
    }
}

/// Runs `f` on `x`. A tensor without axes, which `dim` may name as axis 0 or -1, is passed as a
/// tensor of one element.
fn apply_along(
    x: &Tensor,
    dim: Option<&[isize]>,
    f: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    match dim {
        Some(dim) if !dim.is_empty() && is_scalar_axis(x, &Axes::from(dim)) => {
            f(&x.reshape([1_usize])?)?.reshape(())
        }
        _ => f(x),
    }
}

#[pyfunction]
fn vector_norm(
    py: Python<'_>,
    x: Argument<'_, '_>,
    ord: Real,
    dim: Option<Vec<isize>>,
    keepdim: bool,
    dtype: Option<DTypeArgument>,
) -> Outcome<PyTensor> {
    let x = x.get().tensor();
    let options = VectorNormOptions { dim, keepdim, dtype: dtype.map(|dtype| dtype.0) };
    wait(py, || apply_along(&x, options.dim.as_deref(), |x| linalg::vector_norm(x, ord.0, &options)))
        .map(PyTensor::new)
}

#[pyfunction]
fn matrix_norm(
    py: Python<'_>,
    a: Argument<'_, '_>,
    ord: &Bound<'_, PyAny>,
    dim: Vec<isize>,
    keepdim: bool,
    dtype: Option<DTypeArgument>,
) -> Outcome<PyTensor> {
    const NAME: &str = "linalg.matrix_norm";
    let (a, ord) = (a.get().tensor(), parse_norm_order(NAME, ord)?);
    let [rows, columns] = dim[..] else {
        return Err(RaisedError::value_error(format!("{NAME}: dim {dim:?}, expected two axes")));
    };
    let options = NormOptions { dim: [rows, columns], keepdim, dtype: dtype.map(|dtype| dtype.0) };
    wait(py, || linalg::matrix_norm(&a, ord, &options)).map(PyTensor::new)
}

#[pyfunction]
fn norm(
    py: Python<'_>,
    x: Argument<'_, '_>,
    ord: Option<&Bound<'_, PyAny>>,
    dim: Option<Vec<isize>>,
    keepdim: bool,
    dtype: Option<DTypeArgument>,
) -> Outcome<PyTensor> {
    let (x, ord) = (x.get().tensor(), ord.map(|ord| parse_norm_order("linalg.norm", ord)).transpose()?);
    let options = VectorNormOptions { dim, keepdim, dtype: dtype.map(|dtype| dtype.0) };
    wait(py, || apply_along(&x, options.dim.as_deref(), |x| linalg::norm(x, ord, &options)))
        .map(PyTensor::new)
}

#[pyfunction]
fn cond(py: Python<'_>, a: Argument<'_, '_>, p: Option<&Bound<'_, PyAny>>) -> Outcome<PyTensor> {
    let (a, p) = (a.get().tensor(), p.map(|p| parse_norm_order("linalg.cond", p)).transpose()?);
    wait(py, || linalg::cond(&a, p)).map(PyTensor::new)
}

/// Adds the functions to the module `_linalg`.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("LinAlgError", module.py().get_type::<LinAlgError>())?;
    macro_rules! add {
        ($($name:ident)*) => { $( module.add_function(wrap_pyfunction!($name, module)?)?; )* };
    }
    add!(
        det logdet slogdet inv inv_ex solve solve_ex solve_triangular cholesky cholesky_ex cholesky_inverse cholesky_solve lu lu_factor lu_factor_ex lu_solve
        lu_unpack qr svd svdvals eigh eigvalsh lstsq pinv matrix_rank matrix_power matrix_exp multi_dot cross vecdot vander householder_product tensorinv
        tensorsolve vector_norm matrix_norm norm cond
    );
    Ok(())
}
