//! Tensors from nested arrays: `Tensor::new([[1.0f32, 2.0], [3.0, 4.0]], &device)`.

use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::tensor::Tensor;
use crate::{Device, MAX_RANK};
use half::{bf16, f16};
use smallvec::SmallVec;

/// The sizes of nested values, outermost first.
pub type NestedSizes = SmallVec<[usize; MAX_RANK]>;

/// A number, or arrays, slices and vectors of numbers, nested up to the maximum rank.
pub trait NestedValues {
    /// The type of the numbers.
    type Item: Element;

    /// Returns the sizes of the axes that the type determines, outermost first: 0 for a vector or
    /// slice.
    fn sizes_of_type() -> NestedSizes;

    /// Returns the sizes of the axes, outermost first.
    ///
    /// # Errors
    /// Returns an error if rows have different lengths.
    fn sizes(&self) -> Result<NestedSizes>;

    /// Appends the numbers in row-major order.
    fn append_to(&self, values: &mut Vec<Self::Item>);
}

macro_rules! numbers {
    ($($number:ty),*) => {
        $(impl NestedValues for $number {
            type Item = $number;
            fn sizes_of_type() -> NestedSizes {
                NestedSizes::new()
            }
            fn sizes(&self) -> Result<NestedSizes> {
                Ok(NestedSizes::new())
            }
            fn append_to(&self, values: &mut Vec<$number>) {
                values.push(*self);
            }
        })*
    };
}
numbers!(f64, f32, f16, bf16, i64, i32, i16, i8, u64, u32, u16, u8, bool);

impl<T: NestedValues> NestedValues for [T] {
    type Item = T::Item;
    fn sizes_of_type() -> NestedSizes {
        with_outer(0, T::sizes_of_type())
    }
    fn sizes(&self) -> Result<NestedSizes> {
        let Some(first) = self.first() else { return Ok(Self::sizes_of_type()) };
        let row = first.sizes()?;
        for (index, other) in self.iter().enumerate().skip(1) {
            let other = other.sizes()?;
            if other != row {
                return Err(Error::invalid(
                    "new",
                    format!("row {index} has shape {:?}, row 0 has {:?}", other.as_slice(), row.as_slice()),
                ));
            }
        }
        Ok(with_outer(self.len(), row))
    }
    fn append_to(&self, values: &mut Vec<T::Item>) {
        for row in self {
            row.append_to(values);
        }
    }
}

fn with_outer(size: usize, mut row: NestedSizes) -> NestedSizes {
    row.insert(0, size);
    row
}

impl<T: NestedValues, const N: usize> NestedValues for [T; N] {
    type Item = T::Item;
    fn sizes_of_type() -> NestedSizes {
        with_outer(N, T::sizes_of_type())
    }
    fn sizes(&self) -> Result<NestedSizes> {
        if N == 0 { Ok(Self::sizes_of_type()) } else { self.as_slice().sizes() }
    }
    fn append_to(&self, values: &mut Vec<T::Item>) {
        self.as_slice().append_to(values);
    }
}

impl<T: NestedValues> NestedValues for Vec<T> {
    type Item = T::Item;
    fn sizes_of_type() -> NestedSizes {
        <[T]>::sizes_of_type()
    }
    fn sizes(&self) -> Result<NestedSizes> {
        self.as_slice().sizes()
    }
    fn append_to(&self, values: &mut Vec<T::Item>) {
        self.as_slice().append_to(values);
    }
}

impl<T: NestedValues + ?Sized> NestedValues for &T {
    type Item = T::Item;
    fn sizes_of_type() -> NestedSizes {
        T::sizes_of_type()
    }
    fn sizes(&self) -> Result<NestedSizes> {
        T::sizes(self)
    }
    fn append_to(&self, values: &mut Vec<T::Item>) {
        T::append_to(self, values);
    }
}

impl Tensor {
    /// Creates a tensor with the shape and values of `values`: a number, or nested arrays, slices
    /// and vectors of numbers.
    ///
    /// # Errors
    /// Returns an error if rows have different lengths, if there are more than [`MAX_RANK`] axes,
    /// or if there is not enough memory.
    pub fn new(values: impl NestedValues, device: &Device) -> Result<Tensor> {
        let shape = Shape::new(&values.sizes()?)?;
        let mut flat = Vec::with_capacity(shape.elements());
        values.append_to(&mut flat);
        Tensor::from_vec(flat, shape, device)
    }
}
