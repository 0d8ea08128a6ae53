//! Joining tensors along an axis, broadcasting them together, and grids.

use crate::error::{Error, Result};
use crate::op::check;
use crate::precision;
use crate::shape::MAX_RANK;
use crate::{Shape, Tensor};

/// The order of the first two axes of a grid: PyTorch's `indexing`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MeshgridIndexing {
    /// Axes in the order of the tensors.
    #[default]
    Ij,
    /// The first two axes are exchanged: the first tensor varies along the columns, like x in a
    /// plane.
    Xy,
}

/// Returns the shape to which all these shapes broadcast. Without shapes it is `[]`.
///
/// # Errors
/// Returns an error if two sizes differ and neither is 1, or if there are more elements than can be
/// addressed.
pub fn broadcast_shapes(shapes: &[Shape]) -> Result<Shape> {
    shapes.iter().try_fold(Shape::new(&[])?, |common, shape| common.broadcast(shape, "broadcast_shapes"))
}

impl Tensor {
    /// Returns a view with at least one axis.
    ///
    /// # Shapes
    /// `[]` -> `[1]`; other shapes are unchanged
    ///
    /// # Errors
    /// Never returns an error.
    pub fn atleast_1d(&self) -> Result<Tensor> {
        if self.rank() == 0 { self.reshape([1usize]) } else { Ok(self.clone()) }
    }

    /// Returns a view with at least two axes. A tensor with one axis becomes a row.
    ///
    /// # Shapes
    /// `[]` -> `[1, 1]`, `[n]` -> `[1, n]`; other shapes are unchanged
    ///
    /// # Errors
    /// Never returns an error.
    pub fn atleast_2d(&self) -> Result<Tensor> {
        if self.rank() < 2 { self.atleast_1d()?.unsqueeze(0) } else { Ok(self.clone()) }
    }

    /// Returns a view with at least three axes.
    ///
    /// # Shapes
    /// `[]` -> `[1, 1, 1]`, `[n]` -> `[1, n, 1]`, `[m, n]` -> `[m, n, 1]`; other shapes are
    /// unchanged
    ///
    /// # Errors
    /// Never returns an error.
    pub fn atleast_3d(&self) -> Result<Tensor> {
        if self.rank() < 3 { self.atleast_2d()?.unsqueeze(-1) } else { Ok(self.clone()) }
    }

    /// Concatenates tensors along the second axis, or along the only one.
    ///
    /// # Shapes
    /// `[rows, a, ..]`, `[rows, b, ..]`, .. -> `[rows, a + b + .., ..]`; `[a]`, `[b]`, .. ->
    /// `[a + b + ..]`
    ///
    /// # Errors
    /// Returns an error if there are no tensors, or if dtypes or other sizes differ.
    pub fn hstack(tensors: &[&Tensor]) -> Result<Tensor> {
        let parts = try_map_each(tensors, Tensor::atleast_1d)?;
        let axis = usize::from(parts.first().is_some_and(|first| first.rank() > 1));
        concat_named("hstack", &parts, axis)
    }

    /// Concatenates tensors along the first axis. A tensor with one axis counts as one row.
    ///
    /// # Shapes
    /// `[a, columns, ..]`, `[b, columns, ..]`, .. -> `[a + b + .., columns, ..]`
    ///
    /// # Errors
    /// Same as [`hstack`](Tensor::hstack).
    pub fn vstack(tensors: &[&Tensor]) -> Result<Tensor> {
        concat_named("vstack", &try_map_each(tensors, Tensor::atleast_2d)?, 0)
    }

    /// Concatenates tensors along the third axis, after adding missing axes as in
    /// [`atleast_3d`](Tensor::atleast_3d).
    ///
    /// # Shapes
    /// `[rows, columns, a]`, `[rows, columns, b]`, .. -> `[rows, columns, a + b + ..]`
    ///
    /// # Errors
    /// Same as [`hstack`](Tensor::hstack).
    pub fn dstack(tensors: &[&Tensor]) -> Result<Tensor> {
        concat_named("dstack", &try_map_each(tensors, Tensor::atleast_3d)?, 2)
    }

    /// Concatenates tensors along the second axis. A tensor with one axis counts as one column.
    ///
    /// # Shapes
    /// `[rows, a]` or `[rows]`, .. -> `[rows, total number of columns]`
    ///
    /// # Errors
    /// Same as [`hstack`](Tensor::hstack).
    pub fn column_stack(tensors: &[&Tensor]) -> Result<Tensor> {
        let column = |tensor: &Tensor| match tensor.rank() {
            0 | 1 => tensor.reshape([tensor.elements(), 1]),
            _ => Ok(tensor.clone()),
        };
        concat_named("column_stack", &try_map_each(tensors, column)?, 1)
    }

    /// Expands all tensors to their common broadcast shape, without copies.
    ///
    /// # Shapes
    /// `[..]`, .. -> the same number of tensors, all with the common shape
    ///
    /// # Errors
    /// Returns an error if the shapes do not broadcast.
    pub fn broadcast_tensors(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let common = tensors.iter().try_fold(Shape::new(&[])?, |common, tensor| {
            common.broadcast(tensor.shape(), "broadcast_tensors")
        })?;
        try_map_each(tensors, |tensor| tensor.expand(common))
    }

    /// Returns the coordinates of a grid: each tensor repeated along the axes of the others,
    /// without a copy.
    ///
    /// # Shapes
    /// `[m]`, `[n]`, .. -> the same number of `[m, n, ..]`, or `[n, m, ..]` with
    /// [`MeshgridIndexing::Xy`]; `[]` counts as `[1]`
    ///
    /// # Errors
    /// Returns an error if there are no tensors, if a tensor has several axes, or if there are more
    /// tensors than the maximum rank.
    pub fn meshgrid(tensors: &[&Tensor], indexing: MeshgridIndexing) -> Result<Vec<Tensor>> {
        let name = "meshgrid";
        let count = tensors.len();
        if !(1..=MAX_RANK).contains(&count) {
            return Err(Error::invalid(name, format!("{count} tensors, expected 1 to {MAX_RANK}")));
        }
        if let Some(tensor) = tensors.iter().find(|tensor| tensor.rank() > 1) {
            let shape = Box::new(*tensor.shape());
            return Err(Error::Rank { op: name, expected: "at most 1".into(), shape });
        }
        // The axis along which each tensor varies.
        let mut axes: Vec<usize> = (0..count).collect();
        if indexing == MeshgridIndexing::Xy && count > 1 {
            axes.swap(0, 1);
        }
        let mut shape = vec![1; count];
        for (&axis, tensor) in axes.iter().zip(tensors) {
            shape[axis] = tensor.elements();
        }
        let grid = |(&axis, tensor): (&usize, &&Tensor)| {
            let mut dims = vec![1; count];
            dims[axis] = tensor.elements();
            tensor.reshape(dims)?.expand(&shape)
        };
        axes.iter().zip(tensors).map(grid).collect()
    }

    /// Returns all tuples with one element from each tensor, as rows; the last element varies
    /// fastest. A single tensor is returned unchanged.
    ///
    /// # Shapes
    /// `[m]`, `[n]`, .. -> `[m * n * .., tensors]`; `[m]` -> `[m]`
    ///
    /// # Errors
    /// Returns an error if there are no tensors, if one is not a vector, or if the dtypes differ.
    pub fn cartesian_prod(tensors: &[&Tensor]) -> Result<Tensor> {
        let name = "cartesian_prod";
        if tensors.is_empty() {
            return Err(Error::invalid(name, "expected at least 1 tensor, got 0"));
        }
        for tensor in tensors {
            let [_] = tensor.shape().to_array(name)?;
            check::same_dtype(name, &tensors[0].meta(), &tensor.meta())?;
        }
        if let [only] = tensors {
            return Ok((*only).clone());
        }
        let grids = Tensor::meshgrid(tensors, MeshgridIndexing::Ij)?;
        let columns = grids.iter().map(|grid| grid.reshape([grid.elements()])).collect::<Result<Vec<_>>>()?;
        Tensor::stack(&columns.iter().collect::<Vec<_>>(), 1)
    }
}

fn try_map_each(tensors: &[&Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    tensors.iter().map(|tensor| f(tensor)).collect()
}

/// Concatenates parts along `axis`; errors contain `name`. Parts of shape `[0]` are skipped if
/// others have more axes, as in PyTorch.
fn concat_named(name: &'static str, parts: &[Tensor], axis: usize) -> Result<Tensor> {
    let others: Vec<&Tensor> = parts.iter().filter(|part| part.dims() != [0]).collect();
    let parts = if others.iter().any(|part| part.rank() != 1) { others } else { parts.iter().collect() };
    let parts = precision::widened(&parts)?;
    let Some(first) = parts.first() else {
        return Err(Error::invalid(name, "expected at least 1 tensor, got 0"));
    };
    for part in &parts {
        check::same_dtype(name, &first.meta(), &part.meta())?;
        if part.rank() != first.rank() {
            let shape = Box::new(*part.shape());
            return Err(Error::Rank { op: name, expected: first.rank().to_string(), shape });
        }
        let expected = first.shape().resized(axis, part.shape().dim(axis), name)?;
        check::shape(name, "input", &part.meta(), expected)?;
    }
    Tensor::concat(&parts.iter().collect::<Vec<_>>(), axis)
}
