//! Sizes of tensors: [`Shape`], axis arguments, and NumPy's broadcasting rule.

use crate::error::{Error, Result};
use std::fmt;

/// The largest number of axes: shapes and strides travel by value, also into kernel launches.
pub const MAX_RANK: usize = 8;

/// The size of a tensor along each of its axes; rank 0 is a single element.
#[derive(Clone, Copy, Eq)]
pub struct Shape {
    dims: [usize; MAX_RANK],
    rank: u8,
}

impl PartialEq for Shape {
    /// Without a call and without a branch per axis: shapes are compared several times in every op. (Sizes beyond the rank are all 0.)
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

    /// The shape with these sizes.
    ///
    /// # Errors
    /// More than [`MAX_RANK`] axes, or more elements than `isize` can count.
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

    /// This shape, if its elements can be counted in bytes of the largest dtype.
    ///
    /// # Errors
    /// If they are too many; the message names `op`.
    #[inline]
    fn addressable(self, op: &'static str) -> Result<Shape> {
        // Sizes of zero do not excuse the others: the strides must be countable all the same.
        let countable = self.dims().iter().try_fold(1usize, |product, &dim| product.checked_mul(dim.max(1)));
        match countable {
            Some(count) if count <= (isize::MAX as usize) / 8 => Ok(self),
            _ => Err(Error::invalid(op, format!("shape {self:?} has more elements than can be addressed"))),
        }
    }

    /// A shape from sizes that are known to be few and small.
    #[inline]
    pub(crate) fn unchecked(dims: &[usize]) -> Shape {
        let mut shape = Shape::SCALAR;
        shape.dims[..dims.len()].copy_from_slice(dims);
        shape.rank = dims.len() as u8;
        shape
    }

    /// The sizes.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        &self.dims[..self.rank as usize]
    }

    /// The number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.rank as usize
    }

    /// The number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.dims().iter().product()
    }

    /// The size along `axis`.
    ///
    /// # Panics
    /// If there is no such axis.
    #[inline]
    pub fn dim(&self, axis: usize) -> usize {
        self.dims()[axis]
    }

    /// The same shape but for the size along `axis`, which is in range.
    ///
    /// # Errors
    /// More elements than can be addressed; the message names `op`.
    pub fn resized(&self, axis: usize, size: usize, op: &'static str) -> Result<Shape> {
        self.with_dim(axis, size).addressable(op)
    }

    /// As [`resized`](Shape::resized), for a size that is known not to make the shape too large.
    pub(crate) fn with_dim(mut self, axis: usize, size: usize) -> Shape {
        assert!(axis < self.rank(), "axis {axis} of {self:?}");
        self.dims[axis] = size;
        self
    }

    /// The shape without `axis`, which is in range.
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

    /// The shape with an axis of `size` put before position `axis`.
    ///
    /// # Errors
    /// If the rank would exceed [`MAX_RANK`] or `axis` is beyond the end.
    pub fn with_axis(&self, axis: usize, size: usize) -> Result<Shape> {
        if axis > self.rank() {
            return Err(Error::invalid("unsqueeze", format!("axis {axis} on shape {self:?}")));
        }
        let mut dims = self.dims().to_vec();
        dims.insert(axis, size);
        Shape::new(&dims)
    }

    /// NumPy's broadcast of two shapes: aligned at the last axis, sizes equal or one of them 1.
    ///
    /// # Errors
    /// If two sizes differ and neither is 1, or the result has more elements than can be addressed; the message names `op`.
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
        // Each of two shapes that is the result itself has been counted.
        if result == *self || result == *other { Ok(result) } else { result.addressable(op) }
    }

    /// Whether a tensor of this shape can be expanded to `target` by broadcasting.
    pub fn broadcasts_to(&self, target: &Shape) -> bool {
        self.broadcast(target, "expand").is_ok_and(|shape| shape == *target)
    }

    /// Row-major strides, in elements.
    pub fn row_major_strides(&self) -> [isize; MAX_RANK] {
        let mut strides = [0isize; MAX_RANK];
        let mut step = 1isize;
        for axis in (0..self.rank()).rev() {
            strides[axis] = step;
            step *= self.dims[axis].max(1) as isize;
        }
        strides
    }

    /// The sizes as an array of the expected length.
    ///
    /// # Errors
    /// If the rank is not `N`.
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

/// Anything that names a shape: arrays, slices and vectors of sizes, `()` for a single element, a [`Shape`].
pub trait IntoShape {
    /// The shape.
    ///
    /// # Errors
    /// As [`Shape::new`].
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

/// Sizes of a reshape, of which one may be -1: what is left over.
#[derive(Clone, Debug)]
pub struct ReshapeDims(pub(crate) Vec<isize>);

impl ReshapeDims {
    /// The shape that `elements` elements take.
    ///
    /// # Errors
    /// More than one -1, another negative size, or sizes that do not multiply to `elements`.
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

/// One axis; negative numbers count from the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis(pub isize);

impl Axis {
    /// The axis counted from the front.
    ///
    /// # Errors
    /// If there is no such axis: `softmax: axis 3 on shape [4, 7]`.
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
    /// The axes as a set.
    ///
    /// # Errors
    /// An axis that does not exist, or is named twice.
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
    /// No axis.
    pub const EMPTY: AxisSet = AxisSet(0);

    /// The first `count` axes.
    pub fn first(count: usize) -> AxisSet {
        AxisSet(((1u16 << count.min(MAX_RANK)) - 1) as u8)
    }

    /// Only `axis`.
    ///
    /// # Panics
    /// If `axis` is not below [`MAX_RANK`].
    pub fn one(axis: usize) -> AxisSet {
        AxisSet::EMPTY.with(axis)
    }

    /// This set and `axis`.
    ///
    /// # Panics
    /// If `axis` is not below [`MAX_RANK`].
    #[must_use]
    pub fn with(self, axis: usize) -> AxisSet {
        assert!(axis < MAX_RANK, "axis {axis} is beyond the largest rank");
        AxisSet(self.0 | 1 << axis)
    }

    /// Whether `axis` is in the set.
    #[inline]
    pub fn contains(self, axis: usize) -> bool {
        axis < MAX_RANK && self.0 & (1 << axis) != 0
    }

    /// The number of axes.
    pub fn count(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The axes in rising order.
    pub fn iter(self) -> impl DoubleEndedIterator<Item = usize> {
        (0..MAX_RANK).filter(move |&axis| self.contains(axis))
    }

    /// `shape` with every axis of the set set to 1.
    pub fn keep(self, shape: &Shape) -> Shape {
        self.iter().fold(*shape, |shape, axis| shape.with_dim(axis, 1))
    }

    /// `shape` without the axes of the set.
    pub fn drop_from(self, shape: &Shape) -> Shape {
        let mut kept = Shape::SCALAR;
        for (axis, &dim) in shape.dims().iter().enumerate() {
            if !self.contains(axis) {
                kept.dims[kept.rank as usize] = dim;
                kept.rank += 1;
            }
        }
        kept
    }

    /// The number of elements of `shape` along the set's axes.
    pub fn elements(self, shape: &Shape) -> usize {
        self.iter().map(|axis| shape.dim(axis)).product()
    }
}

impl fmt::Debug for AxisSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
