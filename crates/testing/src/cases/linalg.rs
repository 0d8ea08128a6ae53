//! Rows of linear algebra (`crates/linalg`). If a decomposition is not unique, its defining
//! properties are compared: the product of its factors, their orthogonality, and elements without
//! their signs.

use crate::prelude::*;

mod decompositions;
mod norms;
mod oracles;
mod products;
mod systems;

/// Returns this module's rows of the op table.
pub fn rows() -> Vec<OpCase> {
    super::compositions([systems::rows(), decompositions::rows(), norms::rows(), products::rows()].concat())
}

/// A row of f64 and f32, the dtypes of decompositions.
fn row(op: &'static str, parameters: &str) -> OpCase {
    OpCase::new(op, parameters).dtypes(&[F64, F32])
}

/// Numbers between -1 and 1, with 2 k + 4 added to element k of the main diagonal: singular values
/// are well separated, and far from 0.
fn spread() -> Values {
    Values::custom(|shapes, position, rng| {
        let shape = &shapes[position];
        let [rows, columns] = [shape[shape.len() - 2], shape[shape.len() - 1]];
        let elements: usize = shape.iter().product();
        let on_diagonal = |at: usize| {
            let (row, column) = (at / columns % rows, at % columns);
            if row == column { 2.0 * (row as f64 + 2.0) } else { 0.0 }
        };
        (0..elements).map(|at| rng.uniform(-1.0, 1.0) + on_diagonal(at)).collect()
    })
}

/// Returns `x + x^T`.
fn symmetric(x: &Tensor) -> Result<Tensor> {
    x.add(&x.transpose(-2, -1)?)
}

/// Returns `x x^T + 1`.
fn positive(x: &Tensor) -> Result<Tensor> {
    let eye = Tensor::eye(x.dims()[x.rank() - 1], x.dtype(), x.device())?;
    x.matmul(&x.transpose(-2, -1)?)?.add(&eye)
}

fn zeros(shape: &[usize], device: &Device) -> Result<Tensor> {
    Tensor::zeros(shape, F32, device)
}

fn tensor(shape: &[usize], values: &[f64], device: &Device) -> Result<Tensor> {
    Tensor::from_slice(values, shape, device)
}
