//! Shapes of tensors: [`Shape`], axis arguments, and NumPy's broadcasting rule.

use crate::error::{Error, Result};
use std::fmt;

/// The maximum number of axes: shapes and strides are passed by value, also to kernel launches.
pub const MAX_RANK: usize = 8;

/// The size of a tensor along each of its axes; rank 0 is a single element.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl PartialEq for Shape {
    /// Compares without a function call and without a branch per axis, because every op compares
    /// shapes several times. (All sizes beyond the rank are 0.)
    #[inline]
    fn eq(&self, other: &Shape) -> bool {
        let mut differences = usize::from(self.rank ^ other.rank);
        for axis in 0..MAX_RANK {
            differences |= self.dims[axis] ^ other.dims[axis];
        }
        differences == 0
    }
}

impl std::hash::Hash for Shape {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.dims().hash(state);
    }
}

impl Shape {
    /// The shape of a single element.
    pub const SCALAR: Shape = Shape { dims: [0; MAX_RANK], rank: 0 };

    /// Creates the shape with these sizes.
    ///
    /// # Errors
    /// Returns an error if there are more than [`MAX_RANK`] axes, or more elements than `isize` can
    /// count.
    #[inline]
    pub fn new(dims: &[usize]) -> Result<Shape> {
        if dims.len() > MAX_RANK {
            return Err(Error::invalid(
                "shape",
                format!("{dims:?} has {} axes, at most {MAX_RANK} are possible", dims.len()),
            ));
        }
        Shape::unchecked(dims).addressable("shape")
    }

    /// Returns this shape, if the size of its elements in bytes is representable for the largest
    /// dtype.
    ///
    /// # Errors
    /// Returns an error if there are too many; the message names `op`.
    #[inline]
    fn addressable(self, op: &'static str) -> Result<Shape> {
        // Also if a size is zero: the strides must be representable.
        let countable = self.dims().iter().try_fold(1usize, |product, &dim| product.checked_mul(dim.max(1)));
        match countable {
            Some(count) if count <= (isize::MAX as usize) / 8 => Ok(self),
            _ => Err(Error::invalid(op, format!("shape {self:?} has more elements than can be addressed"))),
        }
    }

    /// Creates a shape from sizes that are known to be valid.
    #[inline]
    pub(crate) fn unchecked(dims: &[usize]) -> Shape {
        let mut shape = Shape::SCALAR;
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape.rank = dims.len() as u8;
        shape
    }

    /// Returns the sizes.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// Returns the number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// Returns the number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// Returns the size along `axis`.
    ///
    /// # Panics
    /// If the axis does not exist.
    #[inline]
    pub fn dim(&self, axis: usize) -> usize {
        self.dims()[axis]
    }

    /// Returns this shape with another size along `axis`, which must be in range.
    ///
    /// # Errors
    /// Returns an error if there are more elements than can be addressed; the message names `op`.
    pub fn resized(&self, axis: usize, size: usize, op: &'static str) -> Result<Shape> {
        self.with_dim(axis, size).addressable(op)
    }

    /// Same as [`resized`](Shape::resized), for a size that is known not to make the shape too
    /// large.
    pub(crate) fn with_dim(mut self, axis: usize, size: usize) -> Shape {
        assert!(axis < self.rank(), "axis {axis} of {self:?}");
        self.dims[axis] = size;
        self
    }

    /// Returns the shape without `axis`, which must be in range.
    pub fn without_axis(&self, axis: usize) -> Shape {
        let mut shape = Shape::SCALAR;
        for (index, &dim) in self.dims().iter().enumerate() {
            if index != axis {
                shape.dims[shape.rank as usize] = dim;
                shape.rank += 1;
            }
        }
        shape
    }

    /// Returns the shape with an axis of `size` inserted before position `axis`.
    ///
    /// # Errors
    /// Returns an error if the rank would exceed [`MAX_RANK`], or if `axis` is out of range.
    pub fn with_axis(&self, axis: usize, size: usize) -> Result<Shape> {
        if axis > self.rank() {
            return Err(Error::invalid("unsqueeze", format!("axis {axis} on shape {self:?}")));
        }
        let mut dims = self.dims().to_vec();
        dims.insert(axis, size);
        Shape::new(&dims)
    }

    /// Broadcasts two shapes by NumPy's rule: they are aligned at the last axis, and sizes must be
    /// equal or one of them 1.
    ///
    /// # Errors
    /// Returns an error if two sizes differ and neither is 1, or if the result has more elements
    /// than can be addressed; the message names `op`.
    pub fn broadcast(&self, other: &Shape, op: &'static str) -> Result<Shape> {
        if self == other {
            return Ok(*self);
        }
        let rank = self.rank().max(other.rank());
        let mut result = Shape { dims: [0; MAX_RANK], rank: rank as u8 };
        for axis in 0..rank {
            let from_end = rank - axis;
            let left = if from_end > self.rank() { 1 } else { self.dims[self.rank() - from_end] };
            let right = if from_end > other.rank() { 1 } else { other.dims[other.rank() - from_end] };
            result.dims[axis] = match (left, right) {
                (l, r) if l == r => l,
                (1, r) => r,
                (l, 1) => l,
                _ => return Err(Error::Broadcast { op, left: Box::new(*self), right: Box::new(*other) }),
            };
        }
        // If the result equals one of the two shapes, its elements have already been checked.
        if result == *self || result == *other { Ok(result) } else { result.addressable(op) }
    }

    /// Returns whether a tensor of this shape can be expanded to `target` by broadcasting.
    pub fn broadcasts_to(&self, target: &Shape) -> bool {
        self.broadcast(target, "expand").is_ok_and(|shape| shape == *target)
    }

    /// Returns the row-major strides, in elements.
    pub fn row_major_strides(&self) -> [isize; MAX_RANK] {
        let mut strides = [0isize; MAX_RANK];
        let mut step = 1isize;
        for axis in (0..self.rank()).rev() {
            strides[axis] = step;
            step *= self.dims[axis].max(1) as isize;
        }
        strides
    }

    /// Returns the sizes as an array of the expected length.
    ///
    /// # Errors
    /// Returns an error if the rank is not `N`.
    pub fn to_array<const N: usize>(&self, op: &'static str) -> Result<[usize; N]> {
        self.dims().try_into().map_err(|_| Error::Rank {
            op,
            expected: N.to_string(),
            shape: Box::new(*self),
        })
    }
}

impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.dims())
    }
}

/// A type that can be converted to a shape: arrays, slices and vectors of sizes, `()` for a single
/// element, a [`Shape`].
pub trait IntoShape {
    /// Converts to a shape.
    ///
    /// # Errors
    /// Same as [`Shape::new`].
    fn into_shape(self) -> Result<Shape>;
}

impl IntoShape for Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(self)
    }
}
impl IntoShape for &Shape {
    fn into_shape(self) -> Result<Shape> {
        Ok(*self)
    }
}
impl IntoShape for () {
    fn into_shape(self) -> Result<Shape> {
        Ok(Shape::SCALAR)
    }
}
impl IntoShape for usize {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&[self])
    }
}
impl<const N: usize> IntoShape for [usize; N] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}
impl IntoShape for &[usize] {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}
impl IntoShape for Vec<usize> {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(&self)
    }
}
impl IntoShape for &Vec<usize> {
    fn into_shape(self) -> Result<Shape> {
        Shape::new(self)
    }
}

/// The sizes of a reshape. One of them may be -1, and is then inferred.
#[derive(Clone, Debug)]
pub struct ReshapeDims(pub(crate) Vec<isize>);

impl ReshapeDims {
    /// Computes the shape for the elements of `from`.
    ///
    /// # Errors
    /// Returns an error if there is more than one -1 or another negative size, or if the product of
    /// the sizes differs from the number of elements.
    pub fn resolve(&self, from: &Shape) -> Result<Shape> {
        let fail = || {
            Error::invalid("reshape", format!("{from:?} ({} elements) into {:?}", from.elements(), self.0))
        };
        let mut known = 1usize;
        let mut open = None;
        for (axis, &dim) in self.0.iter().enumerate() {
            match dim {
                -1 if open.is_none() => open = Some(axis),
                dim if dim < 0 => return Err(fail()),
                dim => known = known.checked_mul(dim as usize).ok_or_else(fail)?,
            }
        }
        let mut dims: Vec<usize> = self.0.iter().map(|&dim| dim.max(0) as usize).collect();
        if let Some(axis) = open {
            if known == 0 || !from.elements().is_multiple_of(known) {
                return Err(fail());
            }
            dims[axis] = from.elements() / known;
        } else if known != from.elements() {
            return Err(fail());
        }
        Shape::new(&dims)
    }
}

macro_rules! reshape_from {
    ($($int:ty),*) => {
        $(impl<const N: usize> From<[$int; N]> for ReshapeDims {
            fn from(dims: [$int; N]) -> Self { ReshapeDims(dims.iter().map(|&dim| isize::try_from(dim).unwrap_or(isize::MIN)).collect()) }
        }
        impl From<&[$int]> for ReshapeDims {
            fn from(dims: &[$int]) -> Self { ReshapeDims(dims.iter().map(|&dim| isize::try_from(dim).unwrap_or(isize::MIN)).collect()) }
        }
        impl From<Vec<$int>> for ReshapeDims {
            fn from(dims: Vec<$int>) -> Self { ReshapeDims::from(dims.as_slice()) }
        })*
    };
}
reshape_from!(i32, isize, usize);
impl From<Shape> for ReshapeDims {
    fn from(shape: Shape) -> Self {
        ReshapeDims::from(shape.dims())
    }
}
impl From<()> for ReshapeDims {
    fn from((): ()) -> Self {
        ReshapeDims(Vec::new())
    }
}

/// One axis. Negative numbers count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(pub isize);

impl Axis {
    /// Returns the axis counted from the front.
    ///
    /// # Errors
    /// Returns an error if the axis does not exist: `softmax: axis 3 on shape [4, 7]`.
    pub fn resolve(self, shape: &Shape, op: &'static str) -> Result<usize> {
        let rank = shape.rank() as isize;
        let axis = if self.0 < 0 { self.0 + rank } else { self.0 };
        if (0..rank).contains(&axis) {
            Ok(axis as usize)
        } else {
            Err(Error::Axis { op, axis: self.0, shape: Box::new(*shape) })
        }
    }
}
impl From<i32> for Axis {
    fn from(axis: i32) -> Self {
        Axis(axis as isize)
    }
}
impl From<isize> for Axis {
    fn from(axis: isize) -> Self {
        Axis(axis)
    }
}
impl From<usize> for Axis {
    fn from(axis: usize) -> Self {
        Axis(isize::try_from(axis).unwrap_or(isize::MAX))
    }
}

/// Several axes: one, a list, or all of them (`..`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Axes {
    /// Every axis of the tensor.
    All,
    /// These axes.
    List(smallvec::SmallVec<[isize; MAX_RANK]>),
}

impl Axes {
    /// Returns the axes as a set.
    ///
    /// # Errors
    /// Returns an error if an axis does not exist, or occurs twice.
    pub fn resolve(&self, shape: &Shape, op: &'static str) -> Result<AxisSet> {
        match self {
            Axes::All => Ok(AxisSet::first(shape.rank())),
            Axes::List(axes) => {
                let mut set = AxisSet::EMPTY;
                for &axis in axes {
                    let resolved = Axis(axis).resolve(shape, op)?;
                    if set.contains(resolved) {
                        return Err(Error::invalid(
                            op,
                            format!("axis {axis} is named twice on shape {shape:?}"),
                        ));
                    }
                    set = set.with(resolved);
                }
                Ok(set)
            }
        }
    }
}
impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Axes::All
    }
}
impl From<AxisSet> for Axes {
    fn from(set: AxisSet) -> Self {
        Axes::List(set.iter().map(|axis| axis as isize).collect())
    }
}
macro_rules! axes_from {
    ($($int:ty),*) => {
        $(impl From<$int> for Axes {
            fn from(axis: $int) -> Self { Axes::List([Axis::from(axis).0].into_iter().collect()) }
        }
        impl<const N: usize> From<[$int; N]> for Axes {
            fn from(axes: [$int; N]) -> Self { Axes::List(axes.iter().map(|&axis| Axis::from(axis).0).collect()) }
        }
        impl From<&[$int]> for Axes {
            fn from(axes: &[$int]) -> Self { Axes::List(axes.iter().map(|&axis| Axis::from(axis).0).collect()) }
        })*
    };
}
axes_from!(i32, isize, usize);

/// A set of axes, one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct AxisSet(u8);

impl AxisSet {
    /// The empty set.
    pub const EMPTY: AxisSet = AxisSet(0);

    /// Returns the set of the first `count` axes.
    pub fn first(count: usize) -> AxisSet {
        AxisSet(((1u16 << count.min(MAX_RANK)) - 1) as u8)
    }

    /// Returns the set that contains only `axis`.
    ///
    /// # Panics
    /// If `axis` is not below [`MAX_RANK`].
    pub fn one(axis: usize) -> AxisSet {
        AxisSet::EMPTY.with(axis)
    }

    /// Returns this set with `axis` added.
    ///
    /// # Panics
    /// If `axis` is not below [`MAX_RANK`].
    #[must_use]
    pub fn with(self, axis: usize) -> AxisSet {
        assert!(axis < MAX_RANK, "axis {axis} is beyond the largest rank");
        AxisSet(self.0 | 1 << axis)
    }

    /// Returns whether `axis` is in the set.
    #[inline]
    pub fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 & (1 << axis) != 0
    }

    /// Returns the number of axes.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Returns whether the set is empty.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Iterates over the axes in ascending order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..MAX_RANK).filter(move |&axis| self.contains(axis))
    }

    /// Returns `shape` with the size of every axis of the set replaced by 1.
    pub fn keep(self, shape: &Shape) -> Shape {
        self.iter().fold(*shape, |shape, axis| shape.with_dim(axis, 1))
    }

    /// Returns `shape` without the axes of the set.
    pub fn drop_from(self, shape: &Shape) -> Shape {
        let mut result = Shape::SCALAR;
        for (axis, &dim) in shape.dims().iter().enumerate() {
            if !self.contains(axis) {
                result.dims[result.rank as usize] = dim;
                result.rank += 1;
            }
        }
        result
    }

    /// Returns the number of elements of `shape` along the set's axes.
    pub fn elements(self, shape: &Shape) -> usize {
        self.iter().map(|axis| shape.dim(axis)).product()
    }
}

impl fmt::Debug for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
