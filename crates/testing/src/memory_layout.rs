//! Memory layouts: the same values in every layout that an op must support.

use crate::array::Array;
use crate::compare::round_to;
use std::fmt;
use ternion_core::{DType, Device, Element, Layout, Result, Scalar, Shape, Tensor};

/// The memory layout of the inputs of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemoryLayout {
    /// Row-major without gaps.
    Dense,
    /// The last two axes swapped in memory.
    Transposed,
    /// Part of a larger buffer: an offset, and gaps between rows (every second element, if there is
    /// one axis).
    Sliced,
    /// One axis of stride 0.
    Broadcast,
    /// Every axis reversed.
    Reversed,
    /// A different layout for each input: the first with its axes in reverse order in memory, the
    /// second sliced, the third dense.
    Mixed,
}

impl MemoryLayout {
    /// All memory layouts.
    pub const ALL: [MemoryLayout; 6] = [
        MemoryLayout::Dense,
        MemoryLayout::Transposed,
        MemoryLayout::Sliced,
        MemoryLayout::Broadcast,
        MemoryLayout::Reversed,
        MemoryLayout::Mixed,
    ];

    /// Returns the name as printed in keys.
    pub fn name(self) -> &'static str {
        match self {
            MemoryLayout::Dense => "dense",
            MemoryLayout::Transposed => "transposed",
            MemoryLayout::Sliced => "sliced",
            MemoryLayout::Broadcast => "broadcast",
            MemoryLayout::Reversed => "reversed",
            MemoryLayout::Mixed => "mixed",
        }
    }

    /// Returns the layout of input `position` with shape `shape`, or `None` if it would equal the
    /// dense layout; the input is then dense.
    pub fn layout(self, shape: &[usize], position: usize) -> Option<Layout> {
        let rank = shape.len();
        let elements: usize = shape.iter().product();
        if elements == 0 {
            return None;
        }
        let in_order = |order: &[usize]| {
            let mut strides = vec![0isize; rank];
            let mut step = 1;
            for &axis in order.iter().rev() {
                strides[axis] = step;
                step *= shape[axis] as isize;
            }
            strides
        };
        let mut order: Vec<usize> = (0..rank).collect();
        let (strides, offset) = match self {
            MemoryLayout::Dense => return None,
            MemoryLayout::Transposed if rank >= 2 && shape[rank - 2] > 1 && shape[rank - 1] > 1 => {
                order.swap(rank - 2, rank - 1);
                (in_order(&order), 0)
            }
            MemoryLayout::Transposed => return None,
            MemoryLayout::Sliced => (sliced_strides(shape), 5),
            MemoryLayout::Broadcast => {
                let axis = broadcast_axis(shape)?;
                let mut strides = in_order(&order);
                strides[axis] = 0;
                (strides, 0)
            }
            MemoryLayout::Reversed if elements > 1 => {
                (in_order(&order).iter().map(|stride| -stride).collect(), elements - 1)
            }
            MemoryLayout::Reversed => return None,
            MemoryLayout::Mixed => match position % 3 {
                0 if rank >= 2 => {
                    order.reverse();
                    (in_order(&order), 0)
                }
                1 => (sliced_strides(shape), 5),
                _ => return None,
            },
        };
        Layout::new(Shape::new(shape).ok()?, &strides, offset).ok()
    }
}

impl fmt::Display for MemoryLayout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the axis that the broadcast layout repeats: the first with more than one element.
pub fn broadcast_axis(shape: &[usize]) -> Option<usize> {
    shape.iter().position(|&size| size > 1)
}

/// Returns row-major strides with gaps of 3 elements between rows (every second element, if there
/// is one axis). Like the offset of 5 elements, they are not a multiple of a vector load.
fn sliced_strides(shape: &[usize]) -> Vec<isize> {
    let mut strides = vec![0; shape.len()];
    let mut step = if shape.len() == 1 { 2 } else { 1 };
    for axis in (0..shape.len()).rev() {
        strides[axis] = step;
        step = step * shape[axis] as isize + if axis + 1 == shape.len() { 3 } else { 0 };
    }
    strides
}

/// Returns `array` with its first slice repeated along its broadcast axis.
pub fn repeat_first(array: &Array) -> Array {
    match broadcast_axis(&array.shape) {
        Some(axis) => array.map_slices(axis, |slice| vec![slice[0]; slice.len()]),
        None => array.clone(),
    }
}

/// Returns the bytes of `values` in `dtype`.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    fn encode_as<T: Element>(values: &[f64]) -> Vec<u8> {
        let values: Vec<T> = values.iter().map(|&value| T::from_scalar(Scalar::Float(value))).collect();
        T::to_bytes(&values).into_owned()
    }
    match dtype {
        DType::F64 => encode_as::<f64>(values),
        DType::F32 => encode_as::<f32>(values),
        DType::F16 => encode_as::<half::f16>(values),
        DType::BF16 => encode_as::<half::bf16>(values),
        DType::I64 => encode_as::<i64>(values),
        DType::I32 => encode_as::<i32>(values),
        DType::I16 => encode_as::<i16>(values),
        DType::I8 => encode_as::<i8>(values),
        DType::U64 => encode_as::<u64>(values),
        DType::U32 => encode_as::<u32>(values),
        DType::U16 => encode_as::<u16>(values),
        DType::U8 => encode_as::<u8>(values),
        DType::Bool => encode_as::<bool>(values),
    }
}

/// Creates a tensor with the elements of `array` (which `dtype` must represent exactly) in this
/// layout, or dense. All other bytes of its buffer are 0xFF, which is NaN in every floating dtype.
///
/// # Errors
/// The device is out of memory.
pub fn tensor_with_layout(
    array: &Array,
    dtype: DType,
    layout: Option<Layout>,
    device: &Device,
) -> Result<Tensor> {
    debug_assert!(
        array.data.iter().all(|&v| v.is_nan() || round_to(dtype, v) == v),
        "values that {dtype} holds"
    );
    let layout = match layout {
        Some(layout) => layout,
        None => Layout::row_major(Shape::new(&array.shape)?),
    };
    let size = dtype.size();
    let elements = layout.elements();
    let end = layout.bounds().map_or(0, |(_, high)| if elements == 0 { 0 } else { high + 1 });
    let mut memory = vec![0xFF; end * size];
    let bytes = encode(dtype, &array.data);
    for (position, element) in layout.positions().zip(bytes.chunks(size)) {
        memory[position * size..(position + 1) * size].copy_from_slice(element);
    }
    let buffer = device.backend().alloc(memory.len())?;
    if !memory.is_empty() {
        device.backend().upload(&memory, &buffer, 0)?;
    }
    Tensor::from_buffer(buffer, layout, dtype, device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_memory_layout_matches_its_name() {
        let strides = |memory_layout: MemoryLayout, shape: &[usize]| {
            memory_layout.layout(shape, 0).map(|layout| (layout.strides().to_vec(), layout.offset()))
        };
        assert_eq!(strides(MemoryLayout::Dense, &[2, 3]), None);
        assert_eq!(strides(MemoryLayout::Transposed, &[4, 2, 3]), Some((vec![6, 1, 2], 0)));
        assert_eq!(strides(MemoryLayout::Sliced, &[2, 3]), Some((vec![6, 1], 5)));
        assert_eq!(strides(MemoryLayout::Sliced, &[3]), Some((vec![2], 5)));
        assert_eq!(strides(MemoryLayout::Sliced, &[]), Some((vec![], 5)));
        assert_eq!(strides(MemoryLayout::Broadcast, &[1, 3, 2]), Some((vec![6, 0, 1], 0)));
        assert_eq!(strides(MemoryLayout::Reversed, &[2, 3]), Some((vec![-3, -1], 5)));
        assert_eq!(strides(MemoryLayout::Mixed, &[2, 3, 4]), Some((vec![1, 2, 6], 0)));
        for memory_layout in MemoryLayout::ALL {
            assert!(memory_layout.layout(&[0, 3], 0).is_none());
        }
    }

    #[test]
    fn repeating_keeps_the_first() {
        let x = Array::new(&[1, 3], vec![1.0, 2.0, 3.0]);
        assert_eq!(repeat_first(&x).data, [1.0, 1.0, 1.0]);
    }
}
