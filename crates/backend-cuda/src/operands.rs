//! Tensors as a kernel can take them: as they lie where their strides suit it, else as dense
//! copies.

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
    /// Outputs that are formed apart: their number and where they are.
    apart: Vec<(usize, Buffer, Layout)>,
}

impl<'a> Operands<'a> {
    pub(crate) fn new(call: &'a Call<'a>) -> Operands<'a> {
        Operands { call, copies: Vec::new(), apart: Vec::new() }
    }

    /// Address and strides of an input, by the function that says what strides suit.
    pub(crate) fn input<S>(&mut self, at: usize, suits: impl Fn(&Layout) -> Option<S>) -> Result<(u64, S)> {
        let (call, view) = (self.call, &self.call.inputs[at]);
        if let Some(strides) = suits(view.layout) {
            return Ok((call.gpu.address(call.name, view)?, strides));
        }
        let (buffer, layout) = self.dense(view)?;
        let dense = View { buffer: &buffer, dtype: view.dtype, layout: &layout };
        copy(call.gpu, call.name, view, &dense)?;
        let found = (call.gpu.address(call.name, &dense)?, self.dense_strides(suits(&layout))?);
        self.copies.push(buffer);
        Ok(found)
    }

    /// Address and strides of an output. [`finish`](Operands::finish) brings to its place what was
    /// formed apart.
    pub(crate) fn output<S>(&mut self, at: usize, suits: impl Fn(&Layout) -> Option<S>) -> Result<(u64, S)> {
        let (call, view) = (self.call, &self.call.outputs[at]);
        if let Some(strides) = suits(view.layout) {
            return Ok((call.gpu.address(call.name, view)?, strides));
        }
        let (buffer, layout) = self.dense(view)?;
        let dense = View { buffer: &buffer, dtype: view.dtype, layout: &layout };
        let found = (call.gpu.address(call.name, &dense)?, self.dense_strides(suits(&layout))?);
        self.apart.push((at, buffer, layout));
        Ok(found)
    }

    /// The address of an input whose elements lie one after the other.
    pub(crate) fn dense_input(&mut self, at: usize) -> Result<u64> {
        self.input(at, |layout| layout.is_contiguous().then_some(())).map(|(address, ())| address)
    }

    /// The address of an output whose elements lie one after the other.
    pub(crate) fn dense_output(&mut self, at: usize) -> Result<u64> {
        self.output(at, |layout| layout.is_contiguous().then_some(())).map(|(address, ())| address)
    }

    /// The rows of an input along its last axis, or along `axis` if all behind it have one element.
    pub(crate) fn input_rows(&mut self, at: usize, axis: usize) -> Result<RowLayout> {
        self.input(at, |layout| rows(layout, axis)).map(|(address, stride)| RowLayout { address, stride })
    }

    /// The rows of an output, as of an input.
    pub(crate) fn output_rows(&mut self, at: usize, axis: usize) -> Result<RowLayout> {
        self.output(at, |layout| rows(layout, axis)).map(|(address, stride)| RowLayout { address, stride })
    }

    fn dense(&self, view: &View<'_>) -> Result<(Buffer, Layout)> {
        let layout = Layout::row_major(*view.layout.shape());
        let buffer = Buffer::new(self.call.gpu.alloc(layout.elements() * view.dtype.size())?);
        Ok((buffer, layout))
    }

    fn dense_strides<S>(&self, strides: Option<S>) -> Result<S> {
        strides.ok_or_else(|| Error::invalid(self.call.name, "a kernel that does not take dense tensors"))
    }

    /// Brings outputs that were formed apart to their layouts. The kernels must have been queued.
    pub(crate) fn finish(self) -> Result<()> {
        let call = self.call;
        for (at, buffer, layout) in &self.apart {
            let dense = View { buffer, dtype: call.outputs[*at].dtype, layout };
            copy(call.gpu, call.name, &dense, &call.outputs[*at])?;
        }
        Ok(())
    }
}

/// The stride of several axes as of one, if they lie evenly; 0 if they have one element.
pub(crate) fn even(layout: &Layout, axes: Range<usize>) -> Option<i64> {
    // The stride of the fastest axis, and the one that the next must have.
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

/// The stride from row to row, where rows lie evenly and their elements next to each other.
fn rows(layout: &Layout, axis: usize) -> Option<i64> {
    let along = even(layout, axis..layout.shape().rank())?;
    if along == 1 || layout.shape().dim(axis) <= 1 { even(layout, 0..axis) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Shape;

    #[test]
    fn rows_that_lie_evenly_have_a_stride() {
        let layout = |dims: &[usize], strides: &[isize]| {
            Layout::new(Shape::new(dims).expect("a shape"), strides, 1000).expect("a layout")
        };
        assert_eq!(rows(&layout(&[2, 3, 4], &[12, 4, 1]), 2), Some(4));
        assert_eq!(rows(&layout(&[2, 3, 4], &[24, 8, 1]), 2), Some(8));
        assert_eq!(rows(&layout(&[2, 3, 4], &[13, 4, 1]), 2), None);
        assert_eq!(rows(&layout(&[2, 3, 4], &[12, 4, 2]), 2), None);
        assert_eq!(rows(&layout(&[2, 3, 4], &[0, 0, 1]), 2), Some(0));
        assert_eq!(rows(&layout(&[2, 3, 1], &[3, 1, 9]), 2), Some(1));
        assert_eq!(rows(&layout(&[2, 3, 1], &[3, 1, 9]), 1), Some(3));
        assert_eq!(rows(&layout(&[3], &[1]), 0), Some(0));
        assert_eq!(rows(&layout(&[3, 4], &[-4, 1]), 1), Some(-4));
    }
}
