//! Tensors assembled from parts: padding, concatenation, slice assignment.

use super::INDEX_LIMIT;
use super::copy::copy;
use super::elementwise::{self, Operand};
use super::window::supports_runs;
use crate::call::Call;
use crate::launch::Launch;
use crate::space::{Divisor, Space};
use crate::variant::elementwise::ElementwiseVariant;
use crate::variant::{KernelFamily, bits_like};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::geometry::padded_axes;
use ternion_core::ops::assemble::Pad;
use ternion_core::{DType, Error, MAX_RANK, Op, Result};

const THREADS: usize = 256;
/// Bytes of the widest access.
const ACCESS: usize = 16;
/// Words per thread in `concat`.
const PER_THREAD: usize = 4;
/// The maximum number of tensors of one launch of `concat`.
const PARTS: usize = 64;

/// The kernels, in the order of the source. Each is followed by its version that moves 16 bytes at
/// a time.
const PAD: usize = 0;
const CONCAT: usize = 2;

/// The parameters; mirrors `Padding` in the kernels.
#[repr(C)]
struct Padding {
    y: u64,
    x: u64,
    /// The bits of the padding value.
    value: u64,
    /// Elements of y.
    count: u32,
    rank: u32,
    /// The sizes of y.
    dims: [Divisor; MAX_RANK],
    /// The padding before x along each axis.
    before: [i32; MAX_RANK],
    /// The sizes of x.
    sizes: [i32; MAX_RANK],
    x_strides: [i64; MAX_RANK],
    y_strides: [i64; MAX_RANK],
}

pub(crate) fn run_pad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Pad(pad) = op else { return Err(Error::invalid(call.name, "is not pad")) };
    let (gpu, x, y) = (call.gpu, &call.inputs[0], &call.outputs[0]);
    let count = y.layout.elements();
    if count == 0 {
        return Ok(());
    }
    if count >= INDEX_LIMIT {
        return fill_and_copy(pad, call);
    }
    let axes = padded_axes(&pad.amounts, x.layout, y.layout);
    let mut parameters = Padding {
        y: gpu.address(call.name, y)?,
        x: gpu.address(call.name, x)?,
        value: pad.value.bits(x.dtype),
        count: count as u32,
        rank: axes.len() as u32,
        dims: [Divisor::new(1); MAX_RANK],
        before: [0; MAX_RANK],
        sizes: [1; MAX_RANK],
        x_strides: [0; MAX_RANK],
        y_strides: [0; MAX_RANK],
    };
    for (index, axis) in axes.iter().enumerate() {
        parameters.dims[index] = Divisor::new(axis.padded);
        parameters.before[index] = axis.before as i32;
        parameters.sizes[index] = axis.inner as i32;
        parameters.x_strides[index] = axis.x_stride as i64;
        parameters.y_strides[index] = axis.y_stride as i64;
    }
    let (kernel, elements) = match supports_runs(gpu, call.name, y, ACCESS as u64)? {
        true => (PAD + 1, ACCESS / y.dtype.size()),
        false => (PAD, 1),
    };
    let blocks = count.div_ceil(THREADS * elements) as u32;
    let variant = KernelFamily::Assemble(bits_like(x.dtype));
    gpu.launch(call.name, Launch::new(variant, kernel, blocks, THREADS as u32), &parameters)
}

/// Pads with a fill and a copy, for any number of elements.
fn fill_and_copy(pad: &Pad, call: &Call<'_>) -> Result<()> {
    let (gpu, x, y) = (call.gpu, &call.inputs[0], &call.outputs[0]);
    let value = Operand::Number(pad.value.bits(y.dtype));
    let variant = ElementwiseVariant::Move(bits_like(y.dtype));
    elementwise::launch(gpu, call.name, variant, y, [value, Operand::Absent, Operand::Absent], [0; 2])?;
    let mut unpadded = *y.layout;
    for (axis, &[before, _]) in pad.amounts.iter().enumerate() {
        unpadded = unpadded.slice(axis, before, (before + x.layout.shape().dim(axis)) as isize, 1)?;
    }
    copy(gpu, call.name, x, &View { layout: &unpadded, ..*y })
}

/// A tensor of a concatenation; mirrors `Part` in the kernels. All lengths are in words.
#[repr(C)]
#[derive(Clone, Copy)]
struct Part {
    x: u64,
    /// The distance between rows of x.
    x_pitch: i64,
    /// The offset in a row of y.
    start: u64,
    count: u32,
    first_block: u32,
    /// The length of a row of x.
    length: Divisor,
}

/// The parameters; mirrors `Concatenation` in the kernels.
#[repr(C)]
struct Concatenation {
    y: u64,
    y_pitch: i64,
    parts: u32,
    part: [Part; PARTS],
}

/// Rows of memory, in bytes.
#[derive(Clone, Copy, Debug)]
struct Rows {
    address: u64,
    count: usize,
    /// The distance between the starts of two rows.
    pitch: i64,
    /// The length of a row.
    length: usize,
}

impl Rows {
    /// Returns `view` as rows that contain the axes from `axis` on, if the rows are contiguous and
    /// evenly spaced.
    fn of(call: &Call<'_>, view: &View<'_>, axis: usize) -> Result<Option<Rows>> {
        let space = |range: std::ops::Range<usize>| {
            let axes: SmallVec<[(usize, [i64; 1]); MAX_RANK]> = range
                .map(|axis| (view.layout.shape().dim(axis), [view.layout.strides()[axis] as i64]))
                .collect();
            Space::in_order(&axes)
        };
        let (outer, inner) = (space(0..axis), space(axis..view.layout.shape().rank()));
        if outer.rank != 1 || !inner.is_dense() || view.layout.elements() >= INDEX_LIMIT {
            return Ok(None);
        }
        let size = view.dtype.size();
        let count: usize = view.layout.shape().dims()[..axis].iter().product();
        let pitch = if count == 1 { 0 } else { outer.strides[0][0] * size as i64 };
        let length = view.layout.elements() / count.max(1) * size;
        Ok(Some(Rows { address: call.gpu.address(call.name, view)?, count, pitch, length }))
    }
}

pub(crate) fn run_concat(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Concat(concat) = op else { return Err(Error::invalid(call.name, "is not concat")) };
    let y = &call.outputs[0];
    if y.layout.elements() == 0 {
        return Ok(());
    }
    let target = Rows::of(call, y, concat.axis)?;
    // The bytes of a row of y per index of the concatenated axis.
    let step = y.layout.shape().dims()[concat.axis + 1..].iter().product::<usize>() * y.dtype.size();
    let mut parts: SmallVec<[(Rows, usize); 8]> = SmallVec::new();
    let mut start = 0;
    for x in call.inputs {
        let end = start + x.layout.shape().dim(concat.axis);
        match (target, Rows::of(call, x, concat.axis)?) {
            _ if x.layout.elements() == 0 => {}
            (Some(_), Some(rows)) => parts.push((rows, start * step)),
            _ => {
                let y_slice = y.layout.slice(concat.axis, start, end as isize, 1)?;
                copy(call.gpu, call.name, x, &View { layout: &y_slice, ..*y })?;
            }
        }
        start = end;
    }
    let Some(target) = target else { return Ok(()) };
    parts.chunks(PARTS).try_for_each(|parts| concatenate(call, &target, parts))
}

/// Copies `parts` in one launch, each to its byte offset in every row of `target`.
fn concatenate(call: &Call<'_>, target: &Rows, parts: &[(Rows, usize)]) -> Result<()> {
    let word = word_bytes(target, parts);
    let empty = Part { x: 0, x_pitch: 0, start: 0, count: 0, first_block: 0, length: Divisor::new(1) };
    let mut parameters = Concatenation {
        y: target.address,
        y_pitch: target.pitch / word as i64,
        parts: parts.len() as u32,
        part: [empty; PARTS],
    };
    let mut blocks = 0;
    for (part, (rows, start)) in parameters.part.iter_mut().zip(parts) {
        let count = rows.count * (rows.length / word);
        *part = Part {
            x: rows.address,
            x_pitch: rows.pitch / word as i64,
            start: (start / word) as u64,
            count: count as u32,
            first_block: blocks as u32,
            length: Divisor::new(rows.length / word),
        };
        blocks += count.div_ceil(THREADS * PER_THREAD);
    }
    let (kernel, dtype) = match word {
        ACCESS => (CONCAT + 1, DType::I32),
        8 => (CONCAT, DType::I64),
        4 => (CONCAT, DType::I32),
        2 => (CONCAT, DType::F16),
        _ => (CONCAT, DType::U8),
    };
    let variant = KernelFamily::Assemble(dtype);
    call.gpu.launch(call.name, Launch::new(variant, kernel, blocks as u32, THREADS as u32), &parameters)
}

/// Returns the size of the largest word that divides all addresses and lengths, in bytes.
fn word_bytes(target: &Rows, parts: &[(Rows, usize)]) -> usize {
    let row_bits = |rows: &Rows| rows.address | rows.pitch.unsigned_abs();
    let all_bits = parts.iter().fold(row_bits(target) | ACCESS as u64, |all_bits, (rows, start)| {
        all_bits | row_bits(rows) | (rows.length | start) as u64
    });
    1 << all_bits.trailing_zeros()
}

pub(crate) fn run_slice_assign(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::SliceAssign(assign) = op else { return Err(Error::invalid(call.name, "is not slice_assign")) };
    let (base, source, y) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    if !y.is(base) {
        copy(call.gpu, call.name, base, y)?;
    }
    copy(call.gpu, call.name, source, &View { layout: &assign.layout(y.layout)?, ..*y })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_divide_everything() {
        let rows = |address: u64, pitch: i64, length: usize| Rows { address, count: 2, pitch, length };
        let target = rows(512, 64, 64);
        assert_eq!(word_bytes(&target, &[(rows(1024, 32, 32), 0), (rows(2048, -32, 32), 32)]), 16);
        assert_eq!(word_bytes(&target, &[(rows(1024, 32, 32), 0), (rows(2056, 32, 32), 32)]), 8);
        assert_eq!(word_bytes(&target, &[(rows(1024, 28, 28), 0), (rows(2048, 36, 36), 28)]), 4);
        assert_eq!(word_bytes(&target, &[(rows(1024, 0, 63), 0), (rows(2048, 0, 1), 63)]), 1);
    }
}
