//! Planted faults, which show that the checks can fail.
//!
//! [`Faulty`] is a device with one bug in one op. [`search`](mod@search) plants each [`Fault`] in
//! each op, in each dtype and direction, and expects the table to detect it.

mod low_precision;
pub mod search;

use crate::array::Array;
use crate::guarded::MARGIN;
use crate::memory_layout::encode;
use crate::phase::{self, Phase};
use crate::read::decode;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use ternion_core::ops::copy::Copy;
use ternion_core::ops::reduce::{Reduce, ReduceOp};
use ternion_core::{Backend, Buffer, DType, Device, Layout, Op, Result, View};

/// A typical fault of kernels and gradient rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The last element of the output is slightly off.
    LastElementOff,
    /// The last element is never written.
    TailUnwritten,
    /// One element is NaN.
    NanInOutput,
    /// One element is written after the end of the output.
    WritesPastEnd,
    /// One element of an input is changed.
    InputClobbered,
    /// Inputs are read as if they were row-major.
    StridesIgnored,
    /// Inputs are read from the start of their memory.
    OffsetIgnored,
    /// Two rows of the output are swapped.
    RowsSwapped,
    /// Sums are accumulated in half precision.
    HalfAccumulate,
    /// The gradients of an op are five times too large.
    GradientTimesFive,
    /// The gradients of an op are zero.
    GradientZero,
    /// The gradient of a broadcast operand covers one repetition instead of the sum over all.
    BroadcastNotSummed,
}

impl Fault {
    /// All twelve faults.
    pub const ALL: [Fault; 12] = [
        Fault::LastElementOff,
        Fault::TailUnwritten,
        Fault::NanInOutput,
        Fault::WritesPastEnd,
        Fault::InputClobbered,
        Fault::StridesIgnored,
        Fault::OffsetIgnored,
        Fault::RowsSwapped,
        Fault::HalfAccumulate,
        Fault::GradientTimesFive,
        Fault::GradientZero,
        Fault::BroadcastNotSummed,
    ];

    /// Returns the name of the fault.
    pub fn name(self) -> &'static str {
        match self {
            Fault::LastElementOff => "last element off",
            Fault::TailUnwritten => "tail unwritten",
            Fault::NanInOutput => "NaN in output",
            Fault::WritesPastEnd => "write past end",
            Fault::InputClobbered => "input clobbered",
            Fault::StridesIgnored => "strides ignored",
            Fault::OffsetIgnored => "offset ignored",
            Fault::RowsSwapped => "two rows swapped",
            Fault::HalfAccumulate => "half-precision accumulate",
            Fault::GradientTimesFive => "gradient x 5",
            Fault::GradientZero => "gradient zero",
            Fault::BroadcastNotSummed => "gradient of broadcast not summed",
        }
    }

    /// Returns what an op needs for this fault to make a difference.
    pub fn needs(self) -> &'static str {
        match self {
            Fault::LastElementOff => "an output with elements",
            Fault::TailUnwritten => "an output whose last element differs from what its memory held",
            Fault::NanInOutput => "a floating output",
            Fault::WritesPastEnd => "an output with elements",
            Fault::InputClobbered => "an input that is not its output too",
            Fault::StridesIgnored => "an input that comes with strides, and reads differently without",
            Fault::OffsetIgnored => "an input that comes with an offset, and reads differently without",
            Fault::RowsSwapped => "at least two rows that differ",
            Fault::HalfAccumulate => {
                "a sum of several terms that does not come out the same in a narrower dtype"
            }
            Fault::GradientTimesFive | Fault::GradientZero => "a gradient that is not zero",
            Fault::BroadcastNotSummed => "an operand whose gradient sums over repetitions that differ",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A device with one fault in one op, in one direction.
#[derive(Debug)]
pub struct Faulty {
    inner: Device,
    fault: Fault,
    op: &'static str,
    phase: Phase,
    /// The dtype of the row, which determines the dtype of narrow sums.
    dtype: DType,
    /// How often the fault changed what an op reads or writes.
    made_a_difference: Arc<AtomicUsize>,
}

impl Faulty {
    /// Creates a device like `inner` with `fault` in `op` (by name) while the harness is in
    /// `phase`. Returns it with a count of how often the fault made a difference.
    pub fn device(
        inner: &Device,
        fault: Fault,
        op: &'static str,
        phase: Phase,
        dtype: DType,
    ) -> (Device, Arc<AtomicUsize>) {
        let made_a_difference = Arc::new(AtomicUsize::new(0));
        let faulty = Faulty {
            inner: inner.clone(),
            fault,
            op,
            phase,
            dtype,
            made_a_difference: made_a_difference.clone(),
        };
        (Device::new(faulty), made_a_difference)
    }

    fn applies(&self, op: &Op) -> bool {
        phase::current() == self.phase && (op.name() == self.op || self.fault == Fault::BroadcastNotSummed)
    }

    fn bytes(&self, buffer: &Buffer) -> Result<Vec<u8>> {
        let mut bytes = vec![0; buffer.bytes()];
        self.inner.backend().download(buffer, 0, &mut bytes)?;
        Ok(bytes)
    }

    fn elements(&self, view: &View<'_>, layout: &Layout) -> Result<Vec<u8>> {
        let (bytes, size) = (self.bytes(view.buffer)?, view.dtype.size());
        Ok(layout
            .positions()
            .flat_map(|position| bytes[position * size..(position + 1) * size].to_vec())
            .collect())
    }

    fn count_difference(&self, differs: bool) {
        self.made_a_difference.fetch_add(usize::from(differs), Ordering::Relaxed);
    }

    /// Writes `element` at `position` of the view's memory.
    fn poke(&self, view: &View<'_>, position: usize, element: &[u8]) -> Result<()> {
        let offset = position * view.dtype.size();
        let mut previous = vec![0; element.len()];
        self.inner.backend().download(view.buffer, offset, &mut previous)?;
        self.count_difference(previous != element);
        self.inner.backend().upload(element, view.buffer, offset)
    }

    fn tampered_run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let backend = self.inner.backend();
        match self.fault {
            Fault::StridesIgnored => self.run_with_layouts(op, inputs, outputs, |view| {
                let low = view.layout.bounds()?.0;
                Some(Layout::row_major(*view.layout.shape()).shifted(low))
            }),
            Fault::OffsetIgnored => self.run_with_layouts(op, inputs, outputs, |view| {
                let start = MARGIN / view.dtype.size();
                Layout::new(*view.layout.shape(), view.layout.strides(), start).ok()
            }),
            Fault::HalfAccumulate => self.run_narrow(op, inputs, outputs),
            Fault::BroadcastNotSummed => match op {
                Op::Reduce(reduce) if reduce.op == ReduceOp::Sum => {
                    self.run_unsummed(reduce, inputs, outputs)
                }
                _ => backend.run(op, inputs, outputs),
            },
            _ => {
                let before = outputs.first().map(|view| self.elements(view, view.layout)).transpose()?;
                backend.run(op, inputs, outputs)?;
                match (outputs.first(), before) {
                    (Some(output), Some(before)) if output.layout.elements() > 0 => {
                        self.tamper(inputs, outputs, output, &before)
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Changes the results of a run.
    fn tamper(
        &self,
        inputs: &[View<'_>],
        outputs: &[View<'_>],
        output: &View<'_>,
        before: &[u8],
    ) -> Result<()> {
        let positions: Vec<usize> = output.layout.positions().collect();
        let (last, middle) = (positions[positions.len() - 1], positions[positions.len() / 2]);
        let size = output.dtype.size();
        match self.fault {
            Fault::LastElementOff => {
                let after = self.elements(output, output.layout)?;
                let value = decode(output.dtype, &after[after.len() - size..])[0];
                // If a row in half precision computes this op in f32, the error must survive
                // rounding to half precision to be visible.
                let visible_dtype =
                    if self.dtype.is_half() && output.dtype.is_float() { self.dtype } else { output.dtype };
                self.poke(output, last, &encode(output.dtype, &[off_by_a_little(visible_dtype, value)]))
            }
            Fault::TailUnwritten => self.poke(output, last, &before[before.len() - size..]),
            Fault::NanInOutput if output.dtype.is_float() => {
                self.poke(output, middle, &encode(output.dtype, &[f64::NAN]))
            }
            Fault::WritesPastEnd => {
                let after = output.layout.bounds().map_or(0, |(_, high)| high + 1);
                match (after + 1) * size <= output.buffer.bytes() {
                    true => self.poke(output, after, &vec![0; size]),
                    false => Ok(()),
                }
            }
            Fault::InputClobbered => {
                let is_input_only = |view: &&View<'_>| {
                    view.layout.elements() > 0 && !outputs.iter().any(|output| output.buffer.is(view.buffer))
                };
                let Some(input) = inputs.iter().find(is_input_only) else { return Ok(()) };
                let position = input.layout.positions().next().unwrap_or(0);
                let mut element = vec![0; input.dtype.size()];
                self.inner.backend().download(input.buffer, position * element.len(), &mut element)?;
                element[0] ^= 1;
                self.poke(input, position, &element)
            }
            Fault::RowsSwapped => self.swap_rows(output, &positions),
            _ => Ok(()),
        }
    }

    /// Swaps the first and the last row (element, if there is one axis) of an output.
    fn swap_rows(&self, output: &View<'_>, positions: &[usize]) -> Result<()> {
        let dims = output.layout.shape().dims();
        let row_size = if dims.len() < 2 { 1 } else { dims[dims.len() - 1] };
        let size = output.dtype.size();
        let elements = self.elements(output, output.layout)?;
        for column in 0..row_size {
            let (first, last) = (column, positions.len() - row_size + column);
            let element = |position: usize| elements[position * size..(position + 1) * size].to_vec();
            self.poke(output, positions[first], &element(last))?;
            self.poke(output, positions[last], &element(first))?;
        }
        Ok(())
    }

    /// Runs the op on inputs with other layouts, if those are inside the memory.
    fn run_with_layouts(
        &self,
        op: &Op,
        inputs: &[View<'_>],
        outputs: &[View<'_>],
        layout: impl Fn(&View<'_>) -> Option<Layout>,
    ) -> Result<()> {
        let mut layouts: Vec<Layout> = inputs.iter().map(|view| *view.layout).collect();
        for (current, view) in layouts.iter_mut().zip(inputs) {
            // An output in the same memory would overwrite an input that is read with other
            // strides.
            let in_place = outputs.iter().any(|output| output.buffer.is(view.buffer));
            let Some(other) = layout(view).filter(|other| !in_place && other != current) else { continue };
            let is_inside =
                other.bounds().is_some_and(|(_, high)| (high + 1) * view.dtype.size() <= view.buffer.bytes());
            if is_inside && view.layout.elements() > 0 {
                self.count_difference(self.elements(view, current)? != self.elements(view, &other)?);
                *current = other;
            }
        }
        let inputs: Vec<View<'_>> =
            inputs.iter().zip(&layouts).map(|(view, layout)| View { layout, ..*view }).collect();
        self.inner.backend().run(op, &inputs, outputs)
    }

    /// Writes the first slice along the reduced axes instead of their sum.
    fn run_unsummed(&self, reduce: &Reduce, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let backend = self.inner.backend();
        let (input, output) = (&inputs[0], &outputs[0]);
        backend.run(&Op::Reduce(reduce.clone()), inputs, outputs)?;
        if input.layout.elements() == 0 {
            return Ok(());
        }
        let baseline_values = self.elements(output, output.layout)?;
        let mut slice = *input.layout;
        for axis in reduce.axes.iter() {
            slice = slice.slice(axis, 0, 1, 1)?;
        }
        if !reduce.keep {
            slice = slice.squeeze(reduce.axes);
        }
        let view = View { layout: &slice, ..*input };
        backend.run(&Op::Copy(Copy { dtype: output.dtype }), &[view], outputs)?;
        self.count_difference(self.elements(output, output.layout)? != baseline_values);
        Ok(())
    }

    /// Runs the op with sums in too narrow a dtype.
    fn run_narrow(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let in_place = |output: &View<'_>| inputs.iter().any(|input| input.buffer.is(output.buffer));
        let adds_to_output = matches!(op, Op::Scatter(_) | Op::IndexAdd(_));
        let Some(output) = outputs.first().filter(|output| adds_to_output || !in_place(output)) else {
            return self.inner.backend().run(op, inputs, outputs);
        };
        let before = self.bytes(output.buffer)?;
        // The baseline is the same composition with exact sums: a kernel that sums in another order
        // is not at fault.
        low_precision::run(&self.inner, DType::F64, op, inputs, outputs)?;
        let baseline_values = self.elements(output, output.layout)?;
        // The first run may have changed the buffer to which the op adds.
        self.inner.backend().upload(&before, output.buffer, 0)?;
        low_precision::run(&self.inner, low_precision::too_narrow_for(self.dtype), op, inputs, outputs)?;
        self.count_difference(self.elements(output, output.layout)? != baseline_values);
        Ok(())
    }
}

/// Returns a value that is wrong by more than rounding, and by no more than necessary.
fn off_by_a_little(dtype: DType, value: f64) -> f64 {
    match dtype {
        DType::Bool => 1.0 - value,
        DType::F64 | DType::F32 if value.is_finite() => value + 1e-3 * (value.abs() + 0.1),
        DType::F16 | DType::BF16 if value.is_finite() => value + 0.25 * (value.abs() + 0.25),
        DType::U8 => (value + 1.0) % 256.0,
        // The largest value cannot be increased.
        DType::U32 if value == f64::from(u32::MAX) => value - 1.0,
        DType::U16 if value == f64::from(u16::MAX) => value - 1.0,
        DType::I16 if value == f64::from(i16::MAX) => value - 1.0,
        DType::I8 if value == f64::from(i8::MAX) => value - 1.0,
        _ if value.is_finite() => value + 1.0,
        // Any finite value is wrong among NaNs or infinities.
        _ => 1.0,
    }
}

/// Reads the elements of a view into an array, without any op.
fn array_of(device: &Device, view: &View<'_>) -> Result<Array> {
    let (mut bytes, size) = (vec![0; view.buffer.bytes()], view.dtype.size());
    device.backend().download(view.buffer, 0, &mut bytes)?;
    let elements: Vec<u8> = view
        .layout
        .positions()
        .flat_map(|position| bytes[position * size..(position + 1) * size].to_vec())
        .collect();
    Ok(Array::new(view.layout.shape().dims(), decode(view.dtype, &elements)))
}

/// Writes an array to the elements of a view, without any op.
fn write_array(device: &Device, view: &View<'_>, array: &Array) -> Result<()> {
    let (mut bytes, size) = (vec![0; view.buffer.bytes()], view.dtype.size());
    device.backend().download(view.buffer, 0, &mut bytes)?;
    for (position, element) in view.layout.positions().zip(encode(view.dtype, &array.data).chunks(size)) {
        bytes[position * size..(position + 1) * size].copy_from_slice(element);
    }
    device.backend().upload(&bytes, view.buffer, 0)
}

impl Backend for Faulty {
    ternion_core::delegate_backend!(inner: alloc, upload, download, plan, synchronize, memory);

    fn name(&self) -> &str {
        "faulty"
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        match self.applies(op) {
            true => self.tampered_run(op, inputs, outputs),
            false => self.inner.backend().run(op, inputs, outputs),
        }
    }
}
