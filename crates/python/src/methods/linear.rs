//! Matrix products.

use crate::error::{Outcome, RaisedError, WithOp};
use crate::extract::of;
use crate::gil::run;
use crate::promote::{promote_pair, promote_three};
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use ternion::{DType, Result, Tensor};

impl PyTensor {
    /// Returns the product of tensors that must have `ranks` axes.
    fn matmul_of_ranks(
        &self,
        py: Python<'_>,
        other: &Bound<'_, PyTensor>,
        name: &'static str,
        ranks: [usize; 2],
    ) -> Outcome<PyTensor> {
        let (a, b) = (self.tensor(), other.get().tensor());
        if [a.rank(), b.rank()] != ranks {
            return Err(RaisedError::value_error(format!(
                "{name}: shapes {:?} and {:?}, expected {} and {} axes",
                a.dims(),
                b.dims(),
                ranks[0],
                ranks[1]
            )));
        }
        let elements = a.elements().max(b.elements());
        run(py, elements, || promoted_matmul(&a, &b).with_op(name)).map(PyTensor::new)
    }
}

fn promoted_matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let (a, b) = promote_pair(a, b)?;
    a.matmul(&b)
}

#[pymethods]
impl PyTensor {
    /// Computes the product of two matrices: [m, k] x [k, n] -> [m, n].
    ///
    /// Raises:
    ///     ValueError: other numbers of axes, or inner sizes that differ.
    fn mm(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::mm)] mat2: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        self.matmul_of_ranks(py, &mat2, "mm", [2, 2])
    }

    /// Computes the product of a matrix and a vector: [m, k] x [k] -> [m].
    ///
    /// Raises:
    ///     ValueError: other numbers of axes, or inner sizes that differ.
    fn mv(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::mv)] vec: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        self.matmul_of_ranks(py, &vec, "mv", [2, 1])
    }

    /// Computes the products of the matrices of two batches: [b, m, k] x [b, k, n] -> [b, m, n].
    ///
    /// Raises:
    ///     ValueError: other numbers of axes.
    fn bmm(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::bmm)] mat2: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        self.matmul_of_ranks(py, &mat2, "bmm", [3, 3])
    }

    /// Computes the dot product of two vectors.
    ///
    /// Shapes: [n] and [n] -> []
    ///
    /// Raises:
    ///     ValueError: tensors that are not vectors, or have different lengths.
    ///     TypeError: dtypes that differ.
    fn dot(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::dot)] tensor: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = tensor.get().tensor();
        self.map(py, |x| x.dot(&other))
    }

    /// Computes the outer product of two vectors: [m] and [n] -> [m, n].
    ///
    /// Raises:
    ///     ValueError: tensors that are not vectors.
    fn outer(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::outer)] vec2: Bound<'_, PyTensor>,
    ) -> Outcome<PyTensor> {
        let other = vec2.get().tensor();
        self.map(py, |x| {
            let (x, other) = promote_pair(x, &other)?;
            if x.dtype() != DType::Bool {
                return x.outer(&other);
            }
            x.to_dtype(DType::U8)?.outer(&other.to_dtype(DType::U8)?)?.to_dtype(DType::Bool)
        })
    }

    /// Computes `beta * self + alpha * (mat1 @ mat2)`, with self broadcast.
    ///
    /// Shapes: self broadcast to [m, n], [m, k] x [k, n] -> [m, n]
    ///
    /// Raises:
    ///     ValueError: incompatible shapes.
    ///     TypeError: dtypes that differ.
    #[pyo3(signature = (mat1, mat2, *, beta=1.0, alpha=1.0))]
    fn addmm(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::addmm)] mat1: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addmm)] mat2: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addmm)] beta: f64,
        #[pyo3(from_py_with = of::addmm)] alpha: f64,
    ) -> Outcome<PyTensor> {
        let (x, a, b) = (self.tensor(), mat1.get().tensor(), mat2.get().tensor());
        run(py, a.elements().max(b.elements()), || x.addmm(&a, &b, beta, alpha)).map(PyTensor::new)
    }

    /// Computes `beta * self + alpha * (mat1 @ mat2)` in place: the tensor itself is changed and
    /// returned.
    ///
    /// Raises:
    ///     RuntimeError: the change would have to be recorded for a gradient.
    #[pyo3(signature = (mat1, mat2, *, beta=1.0, alpha=1.0))]
    fn addmm_<'py>(
        slf: &Bound<'py, Self>,
        #[pyo3(from_py_with = of::addmm_)] mat1: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addmm_)] mat2: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addmm_)] beta: f64,
        #[pyo3(from_py_with = of::addmm_)] alpha: f64,
    ) -> Outcome<Bound<'py, Self>> {
        let (a, b) = (mat1.get().tensor(), mat2.get().tensor());
        PyTensor::change(
            slf,
            &[&a, &b],
            |x| x.addmm(&a, &b, beta, alpha),
            |x| x.addmm_(&a, &b, beta, alpha).with_op("addmm_"),
        )
    }

    /// Computes `self + value * tensor1 * tensor2`, broadcast.
    ///
    /// Shapes: three tensors, broadcast -> the broadcast shape
    ///
    /// Raises:
    ///     TypeError: dtypes that differ.
    #[pyo3(signature = (tensor1, tensor2, *, value=1.0))]
    fn addcmul(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = of::addcmul)] tensor1: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addcmul)] tensor2: Bound<'_, PyTensor>,
        #[pyo3(from_py_with = of::addcmul)] value: f64,
    ) -> Outcome<PyTensor> {
        let (a, b) = (tensor1.get().tensor(), tensor2.get().tensor());
        self.map(py, |x| {
            let [x, a, b] = promote_three(x, &a, &b)?;
            x.addcmul(&a, &b, value)
        })
    }
}

/// Computes sums of products over named axes: `einsum("bij,bjk->bik", a, b)`.
///
/// Shapes: determined by the equation: "bij,bjk->bik" is [b, i, j] and [b, j, k] -> [b, i, k]
///
/// Raises:
///     ValueError: an invalid equation, or one that does not match the operands.
#[pyfunction]
#[pyo3(signature = (equation, *operands))]
fn einsum<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = of::einsum)] equation: String,
    operands: &Bound<'py, PyTuple>,
) -> Outcome<PyTensor> {
    let items = match operands.len() {
        1 => operands.get_item(0)?,
        _ => operands.clone().into_any(),
    };
    let of_items = |items: &Bound<'py, PyAny>| {
        items.try_iter()?.map(|item| of::einsum::<Bound<'py, PyTensor>>(&item?)).collect::<PyResult<Vec<_>>>()
    };
    let objects = match items.cast::<PyTensor>() {
        Ok(only) => vec![only.clone()],
        Err(_) => of_items(&items)?,
    };
    if let [only] = &objects[..] {
        // The diagonals and permuted axes of a single operand are views.
        return only.get().map(py, |x| ternion::einsum(&equation, &[x]));
    }
    let tensors: Vec<Tensor> = objects.iter().map(|object| object.get().tensor()).collect();
    let elements = tensors.iter().map(Tensor::elements).max().unwrap_or_default();
    run(py, elements, || ternion::einsum(&equation, &tensors.iter().collect::<Vec<_>>())).map(PyTensor::new)
}

/// Adds the function to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(einsum, module)?)
}
