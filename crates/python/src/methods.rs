//! Methods of `ternion.Tensor`, by topic. Functions of the module have the same names:
//! `ternion.exp(x)` is `x.exp()`.

pub mod activations;
mod argminmax;
mod arithmetic;
pub mod attention;
pub mod compare;
mod composed;
mod conversion;
pub mod elementwise;
pub mod embeddings;
pub mod functional;
pub mod images;
pub mod index;
mod integers;
mod join;
pub mod linalg;
mod linear;
pub mod loss;
pub mod margins;
mod products;
mod ranks;
mod reduce;
mod reductions;
mod scatter;
mod shapes;
mod special;
mod variance;
mod views;
pub mod windows;

use crate::tensor::PyTensor;
use pyo3::prelude::*;

/// A tensor among the arguments of a call.
type TensorArgument<'a, 'py> = &'a Bound<'py, PyTensor>;

/// Adds the functions that are not methods to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    join::register(module)?;
    compare::register(module)?;
    composed::register(module)?;
    shapes::register(module)?;
    linear::register(module)
}
