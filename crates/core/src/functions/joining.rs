//! Tensors put together: side by side, one below the other, one behind the other, as a grid.

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
    /// The first two exchanged: the first tensor runs along columns, as x in a plane.
    Xy,
}

/// The shape that tensors of these shapes have together; of no shapes that without axes.
///
/// # Errors
/// Sizes that differ where neither is 1, more elements than can be addressed.
pub fn broadcast_shapes(shapes: &[Shape]) -> Result<Shape> {
    shapes.iter().try_fold(Shape::new(&[])?, |together, shape| together.broadcast(shape, "broadcast_shapes"))
}

impl Tensor {
    /// With one axis at least; a view.
    ///
    /// # Shapes
    /// `[]` -> `[1]`; others stay
    ///
    /// # Errors
    /// None.
    pub fn atleast_1d(&self) -> Result<Tensor> {
        if self.rank() == 0 { self.reshape([1usize]) } else { Ok(self.clone()) }
    }

    /// With two axes at least, of which one of one axis becomes a row; a view.
    ///
    /// # Shapes
    /// `[]` -> `[1, 1]`, `[n]` -> `[1, n]`; others stay
    ///
    /// # Errors
    /// None.
    pub fn atleast_2d(&self) -> Result<Tensor> {
        if self.rank() < 2 { self.atleast_1d()?.unsqueeze(0) } else { Ok(self.clone()) }
    }

    /// With three axes at least; a view.
    ///
    /// # Shapes
    /// `[]` -> `[1, 1, 1]`, `[n]` -> `[1, n, 1]`, `[m, n]` -> `[m, n, 1]`; others stay
    ///
    /// # Errors
    /// None.
    pub fn atleast_3d(&self) -> Result<Tensor> {
        if self.rank() < 3 { self.atleast_2d()?.unsqueeze(-1) } else { Ok(self.clone()) }
    }

    /// Tensors side by side: along the second axis, or the only one.
    ///
    /// # Shapes
    /// `[rows, a, ..]`, `[rows, b, ..]`, .. -> `[rows, a + b + .., ..]`; `[a]`, `[b]`, .. -> `[a + b + ..]`
    ///
    /// # Errors
    /// No tensors, dtypes or other sizes that differ.
    pub fn hstack(tensors: &[&Tensor]) -> Result<Tensor> {
        let parts = each(tensors, Tensor::atleast_1d)?;
        let axis = usize::from(parts.first().is_some_and(|first| first.rank() > 1));
        joined("hstack", &parts, axis)
    }

    /// Tensors one below the other; one of one axis is a row.
    ///
    /// # Shapes
    /// `[a, columns, ..]`, `[b, columns, ..]`, .. -> `[a + b + .., columns, ..]`
    ///
    /// # Errors
    /// As [`hstack`](Tensor::hstack).
    pub fn vstack(tensors: &[&Tensor]) -> Result<Tensor> {
        joined("vstack", &each(tensors, Tensor::atleast_2d)?, 0)
    }

    /// Tensors one behind the other, along the third axis.
    ///
    /// # Shapes
    /// `[rows, columns, a]`, `[rows, columns, b]`, .. -> `[rows, columns, a + b + ..]`
    ///
    /// # Errors
    /// As [`hstack`](Tensor::hstack).
    pub fn dstack(tensors: &[&Tensor]) -> Result<Tensor> {
        joined("dstack", &each(tensors, Tensor::atleast_3d)?, 2)
    }

    /// Tensors side by side; one of one axis is a column.
    ///
    /// # Shapes
    /// `[rows, a]` or `[rows]`, .. -> `[rows, all columns]`
    ///
    /// # Errors
    /// As [`hstack`](Tensor::hstack).
    pub fn column_stack(tensors: &[&Tensor]) -> Result<Tensor> {
        let column = |tensor: &Tensor| match tensor.rank() {
            0 | 1 => tensor.reshape([tensor.elements(), 1]),
            _ => Ok(tensor.clone()),
        };
        joined("column_stack", &each(tensors, column)?, 1)
    }

    /// The tensors in the shape that they have together, without copies.
    ///
    /// # Shapes
    /// `[..]`, .. -> as many of the shape that they have together
    ///
    /// # Errors
    /// Shapes that do not broadcast.
    pub fn broadcast_tensors(tensors: &[&Tensor]) -> Result<Vec<Tensor>> {
        let together = tensors.iter().try_fold(Shape::new(&[])?, |together, tensor| {
            together.broadcast(tensor.shape(), "broadcast_tensors")
        })?;
        each(tensors, |tensor| tensor.expand(together))
    }

    /// The coordinates of a grid: for each tensor one that repeats it along the axes of the others, without a copy.
    ///
    /// # Shapes
    /// `[m]`, `[n]`, .. -> as many of `[m, n, ..]`, or of `[n, m, ..]` by [`MeshgridIndexing::Xy`]; `[]` is `[1]`
    ///
    /// # Errors
    /// No tensors, one of several axes, more tensors than axes can be.
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
        // Which axis each tensor runs along.
        let mut axes: Vec<usize> = (0..count).collect();
        if indexing == MeshgridIndexing::Xy && count > 1 {
            axes.swap(0, 1);
        }
        let mut shape = vec![1; count];
        for (&axis, tensor) in axes.iter().zip(tensors) {
            shape[axis] = tensor.elements();
        }
        let grid = |(&axis, tensor): (&usize, &&Tensor)| {
            let mut own = vec![1; count];
            own[axis] = tensor.elements();
            tensor.reshape(own)?.expand(&shape)
        };
        axes.iter().zip(tensors).map(grid).collect()
    }

    /// All tuples of one element of each tensor, as rows, of which the last element changes first. Of one tensor the tensor itself.
    ///
    /// # Shapes
    /// `[m]`, `[n]`, .. -> `[m * n * .., tensors]`; `[m]` -> `[m]`
    ///
    /// # Errors
    /// No tensors, one that is no vector, dtypes that differ.
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

fn each(tensors: &[&Tensor], f: impl Fn(&Tensor) -> Result<Tensor>) -> Result<Vec<Tensor>> {
    tensors.iter().map(|tensor| f(tensor)).collect()
}

/// Parts one after the other along `axis`, with errors in the name of `name`. Those of shape `[0]` add nothing to others with more axes, as in PyTorch.
fn joined(name: &'static str, parts: &[Tensor], axis: usize) -> Result<Tensor> {
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
