//! Gather, scatter and index_add along an axis.

use crate::access::{Locked, Pointer};
use crate::elementwise::{BLOCK, Operand, Reader, Scratch, Writer};
use crate::kernel::Variant;
use crate::number::Number;
use crate::ops::copy::copy_view;
use crate::storage::{Compute, with_compute};
use crate::strided_iter::StridedIter;
use crate::temporary::WorkBuffer;
use crate::threads::{Cost, for_pieces, for_ranges};
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::geometry::sort_slowest_first;
use ternion_core::ops::index::{Gather, IndexAdd, IndexSelect, Scatter, ScatterMode};
use ternion_core::{DType, Error, Layout, MAX_RANK, Op, Result, text};

/// Supports every dtype.
pub(crate) fn select_gather(_: &Gather, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_gather })
}

fn run_gather(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Gather(Gather { axis }) = op else { return Err(Error::invalid(op.name(), "is not gather")) };
    gather("gather", *axis, inputs[0], inputs[1], outputs[0])
}

/// Supports every dtype.
pub(crate) fn select_index_select(_: &IndexSelect, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_index_select })
}

fn run_index_select(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::IndexSelect(IndexSelect { axis }) = op else {
        return Err(Error::invalid(op.name(), "is not index_select"));
    };
    if let Some(rows) = RowSelection::of(*axis, inputs[0], outputs[0]) {
        return rows.select(inputs[1]);
    }
    let expanded = expand_index(*axis, inputs[1].layout, outputs[0].layout)?;
    gather("index_select", *axis, inputs[0], inputs[1].with_layout(&expanded), outputs[0])
}

/// Expands the layout of the vector `index` to the shape of `target`: indices vary only along
/// `axis`.
fn expand_index(axis: usize, index: &Layout, target: &Layout) -> Result<Layout> {
    let mut strides = [0; MAX_RANK];
    strides[axis] = index.strides()[0];
    Layout::new(*target.shape(), &strides[..target.shape().rank()], index.offset())
}

/// The integer types of indices.
trait Index: Compute {
    fn value(self) -> i64;
}
impl Index for i32 {
    #[inline(always)]
    fn value(self) -> i64 {
        i64::from(self)
    }
}
impl Index for i64 {
    #[inline(always)]
    fn value(self) -> i64 {
        self
    }
}

/// Runs `$body` with `$index` naming the index type of `$dtype`.
macro_rules! with_index {
    ($op:expr, $dtype:expr, $index:ident => $body:expr) => {
        match $dtype {
            DType::I64 => {
                type $index = i64;
                $body
            }
            DType::I32 => {
                type $index = i32;
                $body
            }
            got => Err(Error::dtype($op, "index", got, text![DType::I32, " or ", DType::I64])),
        }
    };
}

/// Checks that all indices are in `0..size`. The error reports the first invalid one in row-major
/// order.
fn check_indices<I: Index>(op: &'static str, index: &Operand<'_, I>, size: usize) -> Result<()> {
    // A repeated index is checked once.
    let (shape, strides) = (index.view.layout.shape(), index.view.layout.strides());
    let axes: SmallVec<[(usize, [isize; 1]); MAX_RANK]> = (0..shape.rank())
        .filter(|&axis| strides[axis] != 0)
        .map(|axis| (shape.dim(axis), [strides[axis]]))
        .collect();
    let iter = StridedIter::from_axes(&axes);
    let mut scratch = Scratch::new();
    let mut reader = Reader::new(index, iter.operand(0), std::ptr::null_mut(), &mut scratch);
    let elements = if index.view.layout.elements() == 0 { 0 } else { iter.elements() };
    for start in (0..elements).step_by(BLOCK) {
        let block = reader.block(start, BLOCK.min(elements - start));
        if let Some(invalid) = block.iter().find(|index| !(0..size as i64).contains(&index.value())) {
            return Err(Error::IndexOutOfRange { op, index: invalid.value(), size });
        }
    }
    Ok(())
}

/// Returns the strides of `base`, with 0 along `axis`. They locate the start of each line along
/// this axis.
fn line_starts(axis: usize, base: &Layout, target: &Layout) -> SmallVec<[isize; MAX_RANK]> {
    (0..target.shape().rank()).map(|other| if other == axis { 0 } else { base.strides()[other] }).collect()
}

/// The number of bytes from which on the elements after the selected axis are copied as a row: a
/// copy call costs as much as copying several elements one by one.
const ROW: usize = 32;
/// The number of bytes of rows in a piece of work: about half of an L1 cache. Reading rows from all
/// over a table is limited by memory latency, so several threads should wait at the same time.
const ROWS_PIECE: usize = 1 << 15;

/// A selection in which all axes after the selected one are contiguous: `x [outer.., size, row]`
/// gives `y [outer.., length, row]`, and entire rows are copied.
struct RowSelection<'a> {
    axis: usize,
    x: Locked<'a>,
    y: Locked<'a>,
    row_bytes: usize,
}

impl<'a> RowSelection<'a> {
    /// Returns the selection, or `None` if the rows are small or not contiguous.
    fn of(axis: usize, x: Locked<'a>, y: Locked<'a>) -> Option<RowSelection<'a>> {
        let (dims, strides) = (x.layout.shape().dims(), x.layout.strides());
        let mut row = 1;
        for inner in (axis + 1..dims.len()).rev() {
            if dims[inner] != 1 && strides[inner] != row as isize {
                return None;
            }
            row *= dims[inner];
        }
        let row_bytes = row * x.dtype.size();
        (row_bytes >= ROW && y.layout.is_contiguous()).then_some(RowSelection { axis, x, y, row_bytes })
    }

    fn select(&self, index: Locked<'_>) -> Result<()> {
        with_index!("index_select", index.dtype, I => {
            let size = self.x.layout.shape().dim(self.axis);
            check_indices("index_select", &Operand::<I>::new("index_select", index)?, size)?;
            self.copy::<I>(index);
            Ok(())
        })
    }

    /// Copies the rows at these indices, which have been checked.
    fn copy<I: Index>(&self, index: Locked<'_>) {
        let (length, index_step) = (index.layout.elements(), index.layout.strides()[0]);
        let rows = self.y.layout.elements() * self.y.dtype.size() / self.row_bytes;
        let per_piece = (ROWS_PIECE / self.row_bytes).max(1);
        let (indices, from, to) =
            (Pointer(index.first().cast::<I>()), Pointer(self.x.first()), Pointer(self.y.first()));
        let step = self.x.layout.strides()[self.axis];
        for_ranges(rows, per_piece, |range| {
            for row in range {
                let (outer, at) = (row / length, row % length);
                // SAFETY: inside the index, whose only axis has `length` elements.
                let at = unsafe { indices.get().offset(at as isize * index_step).read() }.value();
                let start = (self.line_start(outer) + at as isize * step) * self.x.dtype.size() as isize;
                // SAFETY: an entire row of x (the line by its layout, the index by the check), and
                // one of y, which is contiguous and does not overlap x.
                unsafe {
                    let to = to.get().add(row * self.row_bytes);
                    std::ptr::copy_nonoverlapping(from.get().offset(start), to, self.row_bytes);
                }
            }
        });
    }

    /// Returns the offset at which line `outer` along the axis begins.
    fn line_start(&self, mut outer: usize) -> isize {
        let (dims, strides) = (self.x.layout.shape().dims(), self.x.layout.strides());
        let mut offset = 0;
        for axis in (0..self.axis).rev() {
            offset += (outer % dims[axis]) as isize * strides[axis];
            outer /= dims[axis];
        }
        offset
    }
}

fn gather(op: &'static str, axis: usize, x: Locked<'_>, index: Locked<'_>, y: Locked<'_>) -> Result<()> {
    with_index!(op, index.dtype, I => {
        let index = Operand::<I>::new(op, index)?;
        check_indices(op, &index, x.layout.shape().dim(axis))?;
        match x.dtype.size() {
            8 => gather_elements::<I, i64>(op, axis, x, index, y),
            4 => gather_elements::<I, i32>(op, axis, x, index, y),
            2 => gather_elements::<I, u16>(op, axis, x, index, y),
            _ => gather_elements::<I, u8>(op, axis, x, index, y),
        }
    })
}

/// Copies elements at the indices, which have been checked. Only bits are copied, so one loop
/// handles all dtypes of a size.
fn gather_elements<I: Index, C: Compute>(
    op: &'static str,
    axis: usize,
    x: Locked<'_>,
    index: Operand<'_, I>,
    y: Locked<'_>,
) -> Result<()> {
    let (x, y) = (Operand::<C>::raw(op, x)?, Operand::<C>::raw(op, y)?);
    let starts = line_starts(axis, x.view.layout, y.view.layout);
    let step = x.view.layout.strides()[axis];
    let mut axes: SmallVec<[(usize, [isize; 3]); MAX_RANK]> = (0..starts.len())
        .map(|axis| {
            let strides = [y.view.layout.strides()[axis], index.view.layout.strides()[axis], starts[axis]];
            (y.view.layout.shape().dim(axis), strides)
        })
        .collect();
    sort_slowest_first(&mut axes, 0);
    let iter = StridedIter::from_axes(&axes);
    let first = Pointer(x.first().cast::<C>());
    for_ranges(iter.elements(), Cost::Heavy.piece(), |range| {
        let (mut scratch_y, mut scratch_index) = (Scratch::new(), Scratch::new());
        let mut writer = Writer::new(&y, iter.operand(0), &mut scratch_y);
        let mut indices = Reader::new(&index, iter.operand(1), std::ptr::null_mut(), &mut scratch_index);
        for start in range.clone().step_by(BLOCK) {
            let length = BLOCK.min(range.end - start);
            let indices = indices.block(start, length);
            writer.block(start, length, |block| {
                let mut done = 0;
                iter.operand(2).runs(start, length, |position, stride, count| {
                    let elements = block[done..].iter_mut().zip(&indices[done..]).take(count).enumerate();
                    for (i, (value, index)) in elements {
                        let at = position + i as isize * stride + index.value() as isize * step;
                        // SAFETY: inside x: the line start by its layout, the index by the check.
                        *value = unsafe { first.get().offset(at).read() };
                    }
                    done += count;
                });
            });
        }
    });
    Ok(())
}

/// Supports every dtype that core accepts.
pub(crate) fn select_scatter(_: &Scatter, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_scatter })
}

fn run_scatter(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Scatter(Scatter { axis, mode }) = op else {
        return Err(Error::invalid(op.name(), "is not scatter"));
    };
    let args = ScatterArgs { op: op.name(), axis: *axis, index: inputs[1], source: inputs[2] };
    match mode {
        ScatterMode::Set => scatter_set(args, inputs[0], outputs[0]),
        ScatterMode::Add => scatter_add(args, inputs[0], outputs[0]),
    }
}

/// Supports every dtype that core accepts.
pub(crate) fn select_index_add(_: &IndexAdd, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_index_add })
}

fn run_index_add(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::IndexAdd(IndexAdd { axis }) = op else {
        return Err(Error::invalid(op.name(), "is not index_add"));
    };
    let expanded = expand_index(*axis, inputs[1].layout, inputs[2].layout)?;
    let args = ScatterArgs {
        op: "index_add",
        axis: *axis,
        index: inputs[1].with_layout(&expanded),
        source: inputs[2],
    };
    scatter_add(args, inputs[0], outputs[0])
}

/// The operands of a scatter.
#[derive(Clone, Copy)]
struct ScatterArgs<'a> {
    op: &'static str,
    axis: usize,
    /// Has the shape of `source`.
    index: Locked<'a>,
    source: Locked<'a>,
}

/// Copies `base` to `y`, unless they are the same view.
fn copy_base(base: Locked<'_>, y: Locked<'_>) -> Result<()> {
    if std::ptr::eq(base.first(), y.first()) { Ok(()) } else { copy_view(base, y) }
}

fn scatter_set(args: ScatterArgs<'_>, base: Locked<'_>, y: Locked<'_>) -> Result<()> {
    args.check_indices(base)?;
    copy_base(base, y)?;
    match base.dtype.size() {
        8 => args.run::<i64>(Operand::raw(args.op, args.source)?, y, |_, new| new),
        4 => args.run::<i32>(Operand::raw(args.op, args.source)?, y, |_, new| new),
        2 => args.run::<u16>(Operand::raw(args.op, args.source)?, y, |_, new| new),
        _ => args.run::<u8>(Operand::raw(args.op, args.source)?, y, |_, new| new),
    }
}

fn scatter_add(args: ScatterArgs<'_>, base: Locked<'_>, y: Locked<'_>) -> Result<()> {
    args.check_indices(base)?;
    if base.dtype.is_half() {
        // Sums are computed in f32 in separate memory, and rounded once.
        let mut sums = WorkBuffer::<f32>::uninit(base.layout.elements())?;
        let layout = Layout::row_major(*base.layout.shape());
        let wide = Locked::of_slice(&mut sums, DType::F32, &layout);
        copy_view(base, wide)?;
        args.run::<f32>(Operand::new(args.op, args.source)?, wide, f32::add)?;
        return copy_view(wide, y);
    }
    copy_base(base, y)?;
    with_compute!(base.dtype, T => args.run::<T>(Operand::new(args.op, args.source)?, y, T::add))
}

impl ScatterArgs<'_> {
    fn check_indices(&self, base: Locked<'_>) -> Result<()> {
        let size = base.layout.shape().dim(self.axis);
        with_index!(self.op, self.index.dtype, I => check_indices(self.op, &Operand::<I>::new(self.op, self.index)?, size))
    }

    fn run<C: Compute>(
        &self,
        source: Operand<'_, C>,
        y: Locked<'_>,
        combine: impl Fn(C, C) -> C + Sync + Copy,
    ) -> Result<()> {
        with_index!(self.op, self.index.dtype, I => {
            self.scatter_lines::<I, C>(Operand::new(self.op, self.index)?, source, y, combine);
            Ok(())
        })
    }

    /// Traverses the source as `[outer, length, inner]`: elements can have the same target only
    /// along the middle axis. So the other axes may be split into pieces, and each line is
    /// processed in order.
    fn scatter_lines<I: Index, C: Compute>(
        &self,
        index: Operand<'_, I>,
        source: Operand<'_, C>,
        y: Locked<'_>,
        combine: impl Fn(C, C) -> C + Sync + Copy,
    ) {
        let shape = source.view.layout.shape();
        let (index_strides, source_strides) = (index.view.layout.strides(), source.view.layout.strides());
        let starts = line_starts(self.axis, y.layout, source.view.layout);
        let axes: SmallVec<[(usize, [isize; 3]); MAX_RANK]> = (0..shape.rank())
            .map(|axis| (shape.dim(axis), [starts[axis], index_strides[axis], source_strides[axis]]))
            .collect();
        let iter = StridedIter::from_axes(&axes);
        if iter.elements() == 0 {
            return;
        }
        let length = shape.dim(self.axis);
        let inner: usize = shape.dims()[self.axis + 1..].iter().product();
        let (outer, tiles) = (iter.elements() / (length * inner), inner.div_ceil(BLOCK));
        let (first, step) = (Pointer(y.first().cast::<C>()), y.layout.strides()[self.axis]);
        let work = |piece: usize| {
            let (mut scratch_index, mut scratch_source) = (Scratch::new(), Scratch::new());
            let mut indices = Reader::new(&index, iter.operand(1), std::ptr::null_mut(), &mut scratch_index);
            let mut sources =
                Reader::new(&source, iter.operand(2), std::ptr::null_mut(), &mut scratch_source);
            let mut scatter_block = |start: usize, count: usize| {
                let (indices, sources) = (indices.block(start, count), sources.block(start, count));
                let mut done = 0;
                iter.operand(0).runs(start, count, |position, stride, run| {
                    for i in 0..run {
                        let offset = indices[done + i].value() as isize * step;
                        // SAFETY: inside y: the line start by its layout, the index by the check.
                        // No line belongs to two pieces.
                        unsafe {
                            let target = first.get().offset(position + i as isize * stride + offset);
                            target.write(combine(target.read(), sources[done + i]));
                        }
                    }
                    done += run;
                });
            };
            let (outer, tile) = (piece / tiles, piece % tiles * BLOCK);
            let start = outer * length * inner + tile;
            if inner == 1 {
                (0..length).step_by(BLOCK).for_each(|at| scatter_block(start + at, BLOCK.min(length - at)));
            } else {
                (0..length).for_each(|row| scatter_block(start + row * inner, BLOCK.min(inner - tile)));
            }
        };
        if iter.elements() < 1 << 14 {
            (0..outer * tiles).for_each(work);
        } else {
            for_pieces(outer * tiles, work);
        }
    }
}
