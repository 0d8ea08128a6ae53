//! Products that are added to a tensor, from the core's `functions/products.rs`.

use crate::error::Outcome;
use crate::extract::of;
use crate::gil::run;
use crate::promote::promote_pair;
use crate::tensor::PyTensor;
use pyo3::prelude::*;
use ternion::{DType, Result, Tensor};

/// A summand and two factors.
type Operands = (Tensor, Tensor, Tensor);

fn unconverted(x: Tensor, a: Tensor, b: Tensor) -> Result<Operands> {
    Ok((x, a, b))
}

/// Converts the summand to the dtype of the product.
fn to_product_dtype(x: Tensor, a: Tensor, b: Tensor) -> Result<Operands> {
    let x = if x.dtype() != a.dtype() && a.dtype() == b.dtype() { x.to_dtype(a.dtype())? } else { x };
    Ok((x, a, b))
}

/// Converts all operands to their common dtype.
fn promote_all(x: Tensor, a: Tensor, b: Tensor) -> Result<Operands> {
    let (a, b) = promote_pair(&a, &b)?;
    let (x, a) = promote_pair(&x, &a)?;
    let b = b.to_dtype(x.dtype())?;
    Ok((x, a, b))
}

/// Computes `addr` of bool tensors: sums are logical ORs, and integer factors count as bool.
fn addr_bool(operands: [Tensor; 3], factors: [f64; 2]) -> Result<Tensor> {
    let [x, a, b] = operands.map(|part| part.to_dtype(DType::I32));
    let [beta, alpha] =
        factors.map(|factor| if factor.fract() == 0.0 { f64::from(factor != 0.0) } else { factor });
    x?.addr(&a?, &b?, beta, alpha)?.to_dtype(DType::Bool)
}

macro_rules! added_products {
    ($($(#[$doc:meta])* $name:ident($left:ident, $right:ident) of $promote:ident;)*) => {
        #[pymethods]
        impl PyTensor {
            $(
                $(#[$doc])*
                /// If `beta` is 0, the values of this tensor are ignored. Half precision is rounded
                /// once. For integers `beta` and `alpha` must be integers.
                ///
                /// Raises:
                ///     ValueError: incompatible shapes, or fractional factors for integers.
                ///     TypeError: dtypes that differ.
                #[pyo3(signature = ($left, $right, *, beta=1.0, alpha=1.0))]
                fn $name(
                    &self,
                    py: Python<'_>,
                    #[pyo3(from_py_with = of::$name)] $left: Bound<'_, PyTensor>,
                    #[pyo3(from_py_with = of::$name)] $right: Bound<'_, PyTensor>,
                    #[pyo3(from_py_with = of::$name)] beta: f64,
                    #[pyo3(from_py_with = of::$name)] alpha: f64,
                ) -> Outcome<PyTensor> {
                    let (x, a, b) = (self.tensor(), $left.get().tensor(), $right.get().tensor());
                    run(py, a.elements().max(b.elements()), || {
                        if stringify!($name) == "addr" && [&x, &a, &b].iter().all(|part| part.dtype() == DType::Bool) {
                            return addr_bool([x, a, b], [beta, alpha]);
                        }
                        let (x, a, b) = $promote(x, a, b)?;
                        x.$name(&a, &b, beta, alpha)
                    })
                    .map(PyTensor::new)
                }
            )*
        }
    };
}

added_products! {
    /// Computes `beta * self + alpha * (mat @ vec)`, with self broadcast.
    ///
    /// Shapes: self broadcast to [m], [m, k] x [k] -> [m]
    ///
    addmv(mat, vec) of to_product_dtype;
    /// Computes `beta * self + alpha * sum(batch1 @ batch2)`, summed over the batch, with self
    /// broadcast.
    ///
    /// Shapes: self broadcast to [m, n], [b, m, k] x [b, k, n] -> [m, n]
    ///
    addbmm(batch1, batch2) of unconverted;
    /// Computes `beta * self + alpha * (batch1 @ batch2)`, with self broadcast.
    ///
    /// Shapes: self broadcast to [b, m, n], [b, m, k] x [b, k, n] -> [b, m, n]
    ///
    baddbmm(batch1, batch2) of unconverted;
    /// Computes `beta * self + alpha * outer(vec1, vec2)`, with self broadcast.
    ///
    /// Shapes: self broadcast to [m, n], [m] and [n] -> [m, n]
    ///
    addr(vec1, vec2) of promote_all;
}
