//! What the functions check of their inputs, and shapes of batches.

use ternion_core::{DType, Error, Result, Shape, Tensor, text};

/// That `tensor` is f32 or f64: decompositions in half precision are not offered.
pub(crate) fn dtype(op: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype() {
        DType::F32 | DType::F64 => Ok(()),
        got => Err(Error::dtype(op, "input", got, text![DType::F32, " or ", DType::F64])),
    }
}

/// That `tensor` is floating, half precision included.
pub(crate) fn floating(op: &'static str, tensor: &Tensor) -> Result<()> {
    match tensor.dtype().is_float() {
        true => Ok(()),
        false => Err(Error::dtype(op, "input", tensor.dtype(), "a floating dtype")),
    }
}

/// Rows and columns of the matrices, which must be f32 or f64.
pub(crate) fn matrix(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    dtype(op, tensor)?;
    sizes(op, tensor)
}

/// Rows and columns of the last two axes.
pub(crate) fn sizes(op: &'static str, tensor: &Tensor) -> Result<[usize; 2]> {
    match tensor.dims() {
        [.., rows, columns] => Ok([*rows, *columns]),
        _ => Err(Error::Rank { op, expected: "at least 2".into(), shape: Box::new(*tensor.shape()) }),
    }
}

/// The size of square matrices, which must be f32 or f64.
pub(crate) fn square(op: &'static str, tensor: &Tensor) -> Result<usize> {
    dtype(op, tensor)?;
    square_sizes(op, tensor)
}

/// The size of square matrices of any dtype.
pub(crate) fn square_sizes(op: &'static str, tensor: &Tensor) -> Result<usize> {
    let [rows, columns] = sizes(op, tensor)?;
    match rows == columns {
        true => Ok(rows),
        false => Err(Error::invalid(op, format!("matrices of {rows} x {columns}, expected square ones"))),
    }
}

/// That two operands have one dtype.
pub(crate) fn same_dtype(op: &'static str, left: &Tensor, right: &Tensor) -> Result<()> {
    match left.dtype() == right.dtype() {
        true => Ok(()),
        false => Err(Error::DTypeMismatch { op, left: left.dtype(), right: right.dtype() }),
    }
}

/// That two operands are on one device.
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

/// The axes before the last two.
pub(crate) fn lead(tensor: &Tensor) -> &[usize] {
    &tensor.dims()[..tensor.rank() - 2]
}

/// `lead` and then `tail`.
pub(crate) fn shape(lead: &[usize], tail: &[usize]) -> Result<Shape> {
    Shape::new(&[lead, tail].concat())
}

/// Both operands with the axes before the last two broadcast to each other's.
pub(crate) fn broadcast(op: &'static str, left: &Tensor, right: &Tensor) -> Result<(Tensor, Tensor)> {
    let common = Shape::new(lead(left))?.broadcast(&Shape::new(lead(right))?, op)?;
    let expand = |tensor: &Tensor| tensor.expand(shape(common.dims(), &tensor.dims()[tensor.rank() - 2..])?);
    Ok((expand(left)?, expand(right)?))
}

/// `[.., rows, columns]` as `[.., columns, rows]`.
pub(crate) fn transposed(tensor: &Tensor) -> Result<Tensor> {
    tensor.transpose(-2, -1)
}

/// `[..]` as `[.., 1, 1]`.
pub(crate) fn as_matrices(tensor: &Tensor) -> Result<Tensor> {
    tensor.unsqueeze(-1)?.unsqueeze(-1)
}

/// Square matrices with `tensor` `[.., n]` on their diagonals.
pub(crate) fn with_diagonal(tensor: &Tensor) -> Result<Tensor> {
    let size = tensor.dims()[tensor.rank() - 1];
    let eye = Tensor::eye(size, tensor.dtype(), tensor.device())?.ne_scalar(0i64)?;
    let rows = tensor.unsqueeze(-1)?.expand(shape(tensor.dims(), &[size])?)?;
    rows.masked_fill(&eye.logical_not()?, 0i64)
}

/// Identity matrices of the dtype and device of `like`, for each of its matrices one of `size`.
pub(crate) fn identity(size: usize, like: &Tensor) -> Result<Tensor> {
    Tensor::eye(size, like.dtype(), like.device())?.expand(shape(lead(like), &[size, size])?)
}

/// `eps` of the dtype.
pub(crate) fn epsilon(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => f64::EPSILON,
        _ => f64::from(f32::EPSILON),
    }
}

/// What an op found of each matrix of `like`, in their order: 0 of all if they have no elements, which nobody looked at.
pub(crate) fn info(mut found: Vec<i32>, like: &Tensor) -> Result<Tensor> {
    let shape = Shape::new(lead(like))?;
    found.resize(shape.elements(), 0);
    Tensor::from_vec(found, shape, like.device())
}

/// Which matrix of a batch an error tells of: nothing where there is only one.
pub(crate) fn of_batch_element(tensor: &Tensor, index: usize) -> String {
    match tensor.rank() {
        2 => String::new(),
        _ => format!(" (of the batch element {index})"),
    }
}
