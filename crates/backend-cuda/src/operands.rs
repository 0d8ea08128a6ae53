//! Tensors in a layout that a kernel supports: unchanged if their strides are suitable, otherwise
//! as contiguous copies.

use crate::call::Call;
use crate::ops::copy::copy;
use crate::rows::RowLayout;
use std::ops::Range;
use ternion_core::backend::{Buffer, View};
use ternion_core::{Error, Layout, Result};

/// The tensors of a call. Copies live as long as this.
pub(crate) struct Operands<'a> {
    call: &'a Call<'a>,
    copies: Vec<Buffer>,
    /// Outputs that are computed in a temporary buffer: their index, buffer and layout.
    temporaries: Vec<(usize, Buffer, Layout)>,
}

impl<'a> Operands<'a> {
    pub(crate) fn new(call: &'a Call<'a>) -> Operands<'a> {
        Operands { call, copies: Vec::new(), temporaries: Vec::new() }
    }

    /// Returns the address and strides of an input, or those of a contiguous copy if the kernel
    /// does not support its layout. `fit` returns the strides of a layout if the kernel supports
    /// it.
    pub(crate) fn input<S>(&mut self, index: usize, fit: impl Fn(&Layout) -> Option<S>) -> Result<(u64, S)> {
        let (call, view) = (self.call, &self.call.inputs[index]);
        if let Some(strides) = fit(view.layout) {
            return Ok((call.gpu.address(call.name, view)?, strides));
        }
        let (buffer, layout) = self.dense(view)?;
        let dense = View { buffer: &buffer, dtype: view.dtype, layout: &layout };
        copy(call.gpu, call.name, view, &dense)?;
        let operand = (call.gpu.address(call.name, &dense)?, self.dense_strides(fit(&layout))?);
        self.copies.push(buffer);
        Ok(operand)
    }

    /// Returns the address and strides of an output. If its layout is not supported, they are those
    /// of a temporary buffer, which [`finish`](Operands::finish) copies to the output.
    pub(crate) fn output<S>(&mut self, index: usize, fit: impl Fn(&Layout) -> Option<S>) -> Result<(u64, S)> {
        let (call, view) = (self.call, &self.call.outputs[index]);
        if let Some(strides) = fit(view.layout) {
            return Ok((call.gpu.address(call.name, view)?, strides));
        }
        let (buffer, layout) = self.dense(view)?;
        let dense = View { buffer: &buffer, dtype: view.dtype, layout: &layout };
        let operand = (call.gpu.address(call.name, &dense)?, self.dense_strides(fit(&layout))?);
        self.temporaries.push((index, buffer, layout));
        Ok(operand)
    }

    /// Returns the address of an input as a contiguous tensor.
    pub(crate) fn dense_input(&mut self, index: usize) -> Result<u64> {
        self.input(index, |layout| layout.is_contiguous().then_some(())).map(|(address, ())| address)
    }

    /// Returns the address of an output as a contiguous tensor.
    pub(crate) fn dense_output(&mut self, index: usize) -> Result<u64> {
        self.output(index, |layout| layout.is_contiguous().then_some(())).map(|(address, ())| address)
    }

    /// Returns the rows of an input along its last axis, or along `axis` if all later axes have one
    /// element.
    pub(crate) fn input_rows(&mut self, index: usize, axis: usize) -> Result<RowLayout> {
        self.input(index, |layout| row_stride(layout, axis))
            .map(|(address, stride)| RowLayout { address, stride })
    }

    /// Returns the rows of an output, as `input_rows`.
    pub(crate) fn output_rows(&mut self, index: usize, axis: usize) -> Result<RowLayout> {
        self.output(index, |layout| row_stride(layout, axis))
            .map(|(address, stride)| RowLayout { address, stride })
    }

    fn dense(&self, view: &View<'_>) -> Result<(Buffer, Layout)> {
        let layout = Layout::row_major(*view.layout.shape());
        let buffer = Buffer::new(self.call.gpu.alloc(layout.elements() * view.dtype.size())?);
        Ok((buffer, layout))
    }

    fn dense_strides<S>(&self, strides: Option<S>) -> Result<S> {
        strides.ok_or_else(|| Error::invalid(self.call.name, "a kernel that does not take dense tensors"))
    }

    /// Copies the temporary buffers to their outputs. Call it after the kernels have been queued.
    pub(crate) fn finish(self) -> Result<()> {
        let call = self.call;
        for (index, buffer, layout) in &self.temporaries {
            let dense = View { buffer, dtype: call.outputs[*index].dtype, layout };
            copy(call.gpu, call.name, &dense, &call.outputs[*index])?;
        }
        Ok(())
    }
}

/// Returns the stride of several axes merged into one, if their strides allow it; 0 if they have
/// one element.
pub(crate) fn merged_stride(layout: &Layout, axes: Range<usize>) -> Option<i64> {
    // The stride of the fastest axis, and the one that the next axis must have.
    let (mut fastest, mut expected) = (0, None);
    for axis in axes.rev().filter(|&axis| layout.shape().dim(axis) != 1) {
        let stride = layout.strides()[axis] as i64;
        match expected {
            None => fastest = stride,
            Some(expected) if expected != stride => return None,
            Some(_) => {}
        }
        expected = Some(stride * layout.shape().dim(axis) as i64);
    }
    Some(fastest)
}

/// Returns the stride between rows if they are evenly spaced and each row is contiguous.
fn row_stride(layout: &Layout, axis: usize) -> Option<i64> {
    let along = merged_stride(layout, axis..layout.shape().rank())?;
    if along == 1 || layout.shape().dim(axis) <= 1 { merged_stride(layout, 0..axis) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Shape;

    #[test]
    fn evenly_spaced_rows_have_a_stride() {
        let layout = |dims: &[usize], strides: &[isize]| {
            Layout::new(Shape::new(dims).expect("a shape"), strides, 1000).expect("a layout")
        };
        assert_eq!(row_stride(&layout(&[2, 3, 4], &[12, 4, 1]), 2), Some(4));
        assert_eq!(row_stride(&layout(&[2, 3, 4], &[24, 8, 1]), 2), Some(8));
        assert_eq!(row_stride(&layout(&[2, 3, 4], &[13, 4, 1]), 2), None);
        assert_eq!(row_stride(&layout(&[2, 3, 4], &[12, 4, 2]), 2), None);
        assert_eq!(row_stride(&layout(&[2, 3, 4], &[0, 0, 1]), 2), Some(0));
        assert_eq!(row_stride(&layout(&[2, 3, 1], &[3, 1, 9]), 2), Some(1));
        assert_eq!(row_stride(&layout(&[2, 3, 1], &[3, 1, 9]), 1), Some(3));
        assert_eq!(row_stride(&layout(&[3], &[1]), 0), Some(0));
        assert_eq!(row_stride(&layout(&[3, 4], &[-4, 1]), 1), Some(-4));
    }
}
