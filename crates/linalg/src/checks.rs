//! Checks of inputs, and shapes of batches.

use ternion_core::{DType, Error, Result, Shape, Tensor, text};

/// Checks that `tensor` is f32 or f64: decompositions do not support half precision.
pub(crate) fn dtype(op: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype() {
        DType::F32 | DType::F64 => Ok(()),
        got => Err(Error::dtype(op, "input", got, text![DType::F32, " or ", DType::F64])),
    }
}

/// Checks that `tensor` is floating, including half precision.
pub(crate) fn floating(op: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype().is_float() {
        true => Ok(()),
        false => Err(Error::dtype(op, "input", tensor.dtype(), "a floating dtype")),
    }
}

/// Returns rows and columns of the matrices, which must be f32 or f64.
pub(crate) fn matrix(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    dtype(op, tensor)?;
    matrix_sizes(op, tensor)
}

/// Returns rows and columns of the last two axes.
pub(crate) fn matrix_sizes(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    match tensor.dims() {
        [.., rows, columns] => Ok([*rows, *columns]),
        _ => Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*tensor.shape()) }),
    }
}

/// Returns the size of square matrices, which must be f32 or f64.
pub(crate) fn square(op: &'static str, tensor: &Tensor) -> Result<usize> {
    dtype(op, tensor)?;
    square_sizes(op, tensor)
}

/// Returns the size of square matrices of any dtype.
pub(crate) fn square_sizes(op: &'static str, tensor: &Tensor) -> Result<usize> {
    let [rows, columns] = matrix_sizes(op, tensor)?;
    match rows == columns {
        true => Ok(rows),
        false => Err(Error::invalid(op, format!("matrices of {rows} x {columns}, expected square ones"))),
    }
}

/// Checks that two operands have the same dtype.
pub(crate) fn same_dtype(op: &'static str, left: &Tensor, right: &Tensor) -> Result<()> {
    match left.dtype() == right.dtype() {
        true => Ok(()),
        false => Err(Error::DTypeMismatch { op, left: left.dtype(), right: right.dtype() }),
    }
}

/// Checks that two operands are on the same device.
pub(crate) fn same_device(op: &'static str, left: &Tensor, right: &Tensor) -> Result<()> {
    match left.device().is(right.device()) {
        true => Ok(()),
        false => Err(Error::DeviceMismatch {
            op,
            left: left.device().name().to_string(),
            right: right.device().name().to_string(),
        }),
    }
}

/// Returns the sizes of the axes before the last two.
pub(crate) fn batch_dims(tensor: &Tensor) -> &[usize] {
    &tensor.dims()[..tensor.rank() - 2]
}

/// Returns the shape of `batch_dims` followed by `tail`.
pub(crate) fn shape(batch_dims: &[usize], tail: &[usize]) -> Result<Shape> {
    Shape::new(&[batch_dims, tail].concat())
}

/// Broadcasts the axes before the last two of both operands.
pub(crate) fn broadcast(op: &'static str, left: &Tensor, right: &Tensor) -> Result<(Tensor, Tensor)> {
    let common = Shape::new(batch_dims(left))?.broadcast(&Shape::new(batch_dims(right))?, op)?;
    let expand = |tensor: &Tensor| tensor.expand(shape(common.dims(), &tensor.dims()[tensor.rank() - 2..])?);
    Ok((expand(left)?, expand(right)?))
}

/// Transposes `[.., rows, columns]` to `[.., columns, rows]`.
pub(crate) fn transposed(tensor: &Tensor) -> Result<Tensor> {
    tensor.transpose(-2, -1)
}

/// Reshapes `[..]` to `[.., 1, 1]`.
pub(crate) fn as_matrices(tensor: &Tensor) -> Result<Tensor> {
    tensor.unsqueeze(-1)?.unsqueeze(-1)
}

/// Returns square matrices with `tensor` `[.., n]` on their diagonals.
pub(crate) fn with_diagonal(tensor: &Tensor) -> Result<Tensor> {
    let size = tensor.dims()[tensor.rank() - 1];
    let eye = Tensor::eye(size, tensor.dtype(), tensor.device())?.ne_scalar(0i64)?;
    let rows = tensor.unsqueeze(-1)?.expand(shape(tensor.dims(), &[size])?)?;
    rows.masked_fill(&eye.logical_not()?, 0i64)
}

/// Returns identity matrices of size `size` with the dtype and device of `like`, one for each of
/// its matrices.
pub(crate) fn identity(size: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::eye(size, like.dtype(), like.device())?.expand(shape(batch_dims(like), &[size, size])?)
}

/// Returns the machine epsilon of the dtype.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// Returns the tensor of `values`, one for each matrix of `like`; all 0 if the matrices have no
/// elements and were therefore not read.
pub(crate) fn info_tensor(mut values: Vec<i32>, like: &Tensor) -> Result<Tensor> {
    let shape = Shape::new(batch_dims(like))?;
    values.resize(shape.elements(), 0);
    Tensor::from_vec(values, shape, like.device())
}

/// Describes which matrix of a batch an error concerns; an empty string if there is only one
/// matrix.
pub(crate) fn describe_batch_element(tensor: &Tensor, index: usize) -> String {
    match tensor.rank() {
        2 => String::new(),
        _ => format!(" (of the batch element {index})"),
    }
}
