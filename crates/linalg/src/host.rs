//! Batches of matrices in host memory, in f64 and row-major: downloaded from a device, and uploaded
//! to it.

use crate::checks;
use faer::{Mat, MatRef};
use ternion_core::{DType, Error, Result, Tensor};

/// The matrices of a tensor.
pub(crate) struct Matrices {
    count: usize,
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrices {
    /// Reads the matrices of `[.., rows, columns]`, in order. Matrices without elements are not
    /// read: the result is empty.
    pub fn read(tensor: &Tensor) -> Result<Matrices> {
        let [rows, columns] = [tensor.dims()[tensor.rank() - 2], tensor.dims()[tensor.rank() - 1]];
        let values = tensor.to_vec_f64()?;
        let count = values.len().checked_div(rows * columns).unwrap_or(0);
        Ok(Matrices { count, rows, columns, values })
    }

    /// Iterates over the matrices.
    pub fn iter(&self) -> impl Iterator<Item = MatRef<'_, f64>> {
        let size = self.rows * self.columns;
        (0..self.count).map(move |index| {
            let values = &self.values[index * size..(index + 1) * size];
            MatRef::from_row_major_slice(values, self.rows, self.columns)
        })
    }

    /// Returns an error that names `op` if a matrix contains a NaN or an infinity: the iteration
    /// would not converge.
    pub fn check_finite(&self, op: &'static str, tensor: &Tensor) -> Result<()> {
        match self.values.iter().position(|value| !value.is_finite()) {
            None => Ok(()),
            Some(at) => {
                let batch_element = checks::describe_batch_element(tensor, at / (self.rows * self.columns));
                Err(Error::matrix(op, format!("the matrix{batch_element} has a NaN or an infinity")))
            }
        }
    }
}

/// Values of a tensor under construction.
#[derive(Default)]
pub(crate) struct Values(Vec<f64>);

impl Values {
    /// Appends a matrix.
    pub fn push_matrix(&mut self, matrix: MatRef<'_, f64>) {
        for row in 0..matrix.nrows() {
            self.0.extend((0..matrix.ncols()).map(|column| matrix[(row, column)]));
        }
    }

    /// Appends the transpose of a matrix.
    pub fn push_transposed(&mut self, matrix: MatRef<'_, f64>) {
        self.push_matrix(matrix.transpose());
    }

    /// Appends numbers.
    pub fn extend(&mut self, values: impl IntoIterator<Item = f64>) {
        self.0.extend(values);
    }

    /// Returns a tensor with the dtype and on the device of `like`. Its shape is the axes of `like`
    /// before the last two, then `tail`.
    pub fn into_tensor(self, like: &Tensor, tail: &[usize]) -> Result<Tensor> {
        let shape = checks::shape(checks::batch_dims(like), tail)?;
        match like.dtype() {
            DType::F32 => {
                let rounded: Vec<f32> = self.0.into_iter().map(|value| value as f32).collect();
                Tensor::from_vec(rounded, shape, like.device())
            }
            _ => Tensor::from_vec(self.0, shape, like.device()),
        }
    }
}

/// Returns a copy of `matrix` divided by a power of two near its largest element, and that power:
/// squares neither overflow nor underflow.
pub(crate) fn normalized(matrix: MatRef<'_, f64>) -> (Mat<f64>, f64) {
    let mut largest = 0.0f64;
    for row in 0..matrix.nrows() {
        for column in 0..matrix.ncols() {
            largest = largest.max(matrix[(row, column)].abs());
        }
    }
    let scale = match largest > 0.0 {
        // In the range where both it and its reciprocal are finite.
        true => largest.log2().floor().clamp(-1020.0, 1020.0).exp2(),
        false => 1.0,
    };
    (Mat::from_fn(matrix.nrows(), matrix.ncols(), |row, column| matrix[(row, column)] / scale), scale)
}

/// Returns the error of an iteration that did not converge for a matrix of `tensor`.
pub(crate) fn not_converged(op: &'static str, tensor: &Tensor, index: usize) -> Error {
    let batch_element = checks::describe_batch_element(tensor, index);
    Error::matrix(op, format!("the iteration for the matrix{batch_element} did not converge"))
}
