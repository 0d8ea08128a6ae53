//! An operand of a product: how tiles load it, and its copy if they do not support its layout.

use crate::call::Call;
use crate::gpu::Gpu;
use crate::ops::copy::copy;
use crate::variant::gemm::{LoadMode, Tile};
use smallvec::SmallVec;
use std::sync::Arc;
use ternion_core::backend::{Buffer, View};
use ternion_core::{Layout, MAX_RANK, Result, Shape};

/// An operand of a product. Its lines are rows of a, or columns of b: each has length k.
pub(super) struct Operand<'a> {
    pub(super) view: View<'a>,
    /// The axis m of a, or n of b.
    pub(super) line_axis: usize,
    /// The axis k.
    pub(super) inner_axis: usize,
    /// The address of its first element.
    pub(super) address: u64,
}

/// Bytes that tiles copy at a time.
const ACCESS: u64 = 16;
/// Bytes of a line of the L2 cache.
const L2_LINE: usize = 128;

impl<'a> Operand<'a> {
    /// Creates the operand for a tensor of a call.
    #[inline]
    pub(super) fn of(
        call: &Call<'_>,
        view: View<'a>,
        line_axis: usize,
        inner_axis: usize,
    ) -> Result<Operand<'a>> {
        Ok(Operand { view, line_axis, inner_axis, address: call.gpu.address(call.name, &view)? })
    }

    /// Returns whether its first element is aligned to what tiles copy at a time. No other property
    /// of its address matters to them.
    #[inline]
    pub(super) fn is_aligned(&self) -> bool {
        self.address.is_multiple_of(ACCESS)
    }

    fn stride(&self, axis: usize) -> i64 {
        self.view.layout.strides()[axis] as i64
    }

    /// Returns whether packs of `pack` elements along the axis `along` are aligned: the operand is
    /// aligned, and the strides of all other axes are multiples of `pack` elements.
    fn has_aligned_packs(&self, along: usize, pack: usize) -> bool {
        let other_axis = if along == self.line_axis { self.inner_axis } else { self.line_axis };
        let shape = self.view.layout.shape();
        let is_multiple = |axis: usize| shape.dim(axis) <= 1 || self.stride(axis) % pack as i64 == 0;
        self.is_aligned() && is_multiple(other_axis) && (0..shape.rank() - 2).all(is_multiple)
    }

    /// Returns how the tiles of tensor cores load it.
    pub(super) fn tensor_load(&self) -> LoadMode {
        let pack = 16 / self.view.dtype.size();
        let is_contiguous = |axis: usize| self.stride(axis) == 1;
        let has_packs = |axis: usize| {
            let size = self.view.layout.shape().dim(axis);
            is_contiguous(axis) && size.is_multiple_of(pack) && self.has_aligned_packs(axis, pack)
        };
        match (has_packs(self.inner_axis), has_packs(self.line_axis)) {
            (true, _) => LoadMode::KMajor,
            (_, true) => LoadMode::MnMajor,
            _ if is_contiguous(self.inner_axis) || !is_contiguous(self.line_axis) => LoadMode::KMajorElements,
            _ => LoadMode::MnMajorElements,
        }
    }

    /// Returns how the tiles of tensor cores load its bf16 terms: along the axis that is
    /// contiguous, otherwise along k.
    pub(super) fn bf16x6_load(&self) -> LoadMode {
        match self.stride(self.inner_axis) != 1 && self.stride(self.line_axis) == 1 {
            true => LoadMode::MnMajor,
            false => LoadMode::KMajor,
        }
    }

    /// Returns how the SIMT tiles load it.
    pub(super) fn simt_load(&self, tile: &Tile, is_a: bool) -> LoadMode {
        let dtype = self.view.dtype;
        let (line, inner) = (self.stride(self.line_axis), self.stride(self.inner_axis));
        let shape = self.view.layout.shape();
        let (lines, length) = (shape.dim(self.line_axis), shape.dim(self.inner_axis));
        let (pack, is_wide) = (16 / dtype.size(), dtype.size() >= 4);
        let has_packs = |axis: usize, size: usize| {
            is_wide
                && self.stride(axis) == 1
                && size.is_multiple_of(pack)
                && self.has_aligned_packs(axis, pack)
        };
        if has_packs(self.line_axis, lines) {
            return LoadMode::VectorMn;
        }
        if has_packs(self.inner_axis, length) && (!is_a || tile.loads_a_along_k()) {
            return LoadMode::VectorK;
        }
        if inner == 1 && line != 1 { LoadMode::ElementsK } else { LoadMode::Elements }
    }

    /// Returns the number of its elements if, among the tiles of tensor cores, only the
    /// element-by-element one supports its layout; otherwise 0.
    pub(super) fn unaligned_elements(&self) -> usize {
        if !self.tensor_load().is_unaligned() {
            return 0;
        }
        // An operand without elements also has no other load mode.
        self.distinct_elements()
    }

    /// Returns whether its lines, as tensor cores read them, are not aligned to 128 bytes. The
    /// lines of a copy are assumed to be along the inner axis.
    pub(super) fn is_unaligned_to_l2_line(&self) -> bool {
        let load = self.tensor_load();
        let (shape, size) = (self.view.layout.shape(), self.view.dtype.size());
        let across = if load.is_k_major() { self.line_axis } else { self.inner_axis };
        let step = match load.is_unaligned() {
            true => shape.dim(self.inner_axis).next_multiple_of(16 / size),
            false => self.stride(across).unsigned_abs() as usize,
        };
        shape.dim(across) > 1 && !(step * size).is_multiple_of(L2_LINE)
    }

    /// Returns the number of its elements if the fast tiles of tensor cores load it along its
    /// lines, not along k; otherwise 0.
    pub(super) fn mn_major_elements(&self) -> usize {
        match self.tensor_load() {
            LoadMode::MnMajor => self.distinct_elements(),
            _ => 0,
        }
    }

    /// Returns the number of its elements, where matrices that are broadcast along a batch axis
    /// count once.
    pub(super) fn distinct_elements(&self) -> usize {
        self.distinct().map_or(1, |shape| shape.elements()).max(1)
    }

    /// Returns its shape, where matrices that are broadcast along a batch axis count once.
    fn distinct(&self) -> Result<Shape> {
        let shape = self.view.layout.shape();
        let is_broadcast = |axis: usize| axis < shape.rank() - 2 && self.stride(axis) == 0;
        let dims: SmallVec<[usize; MAX_RANK]> =
            (0..shape.rank()).map(|axis| if is_broadcast(axis) { 1 } else { shape.dim(axis) }).collect();
        Shape::new(&dims)
    }

    /// Returns a copy in which the inner axis is contiguous, and lines begin at multiples of 16
    /// bytes, padded with zeros.
    pub(super) fn k_major_copy(&self, gpu: &Arc<Gpu>, op: &'static str) -> Result<(Buffer, Layout)> {
        let (shape, size) = (self.distinct()?, self.view.dtype.size());
        let pack = 16 / size;
        let (run, rank) = (shape.dim(self.inner_axis), shape.rank());
        let padded = run.next_multiple_of(pack);
        let (mut strides, mut broadcast_strides) = ([0; MAX_RANK], [0; MAX_RANK]);
        let mut step = 1;
        for axis in [self.inner_axis, self.line_axis].into_iter().chain((0..rank - 2).rev()) {
            strides[axis] = step as isize;
            broadcast_strides[axis] =
                if axis < rank - 2 && self.stride(axis) == 0 { 0 } else { strides[axis] };
            step *= if axis == self.inner_axis { padded } else { shape.dim(axis) };
        }
        let layout = Layout::new(shape, &strides[..rank], 0)?;
        let buffer = Buffer::new(gpu.alloc(step * size)?);
        let destination = View { buffer: &buffer, dtype: self.view.dtype, layout: &layout };
        let source_layout = Layout::new(shape, self.view.layout.strides(), self.view.layout.offset())?;
        copy(gpu, op, &View { layout: &source_layout, ..self.view }, &destination)?;
        if run < padded {
            let (first, lines) = (gpu.address(op, &destination)? + (run * size) as u64, step / padded);
            gpu.zero_columns(op, first, padded * size, (padded - run) * size, lines)?;
        }
        Ok((buffer, Layout::new(*self.view.layout.shape(), &broadcast_strides[..rank], 0)?))
    }

    /// Returns the operand with its copy instead of the tensor, if there is one.
    pub(super) fn replaced<'c>(
        &'c self,
        call: &Call<'_>,
        copy: &'c Option<(Buffer, Layout)>,
    ) -> Result<Operand<'c>> {
        let view = match copy {
            Some((buffer, layout)) => View { buffer, dtype: self.view.dtype, layout },
            None => self.view,
        };
        Operand::of(call, view, self.line_axis, self.inner_axis)
    }
}
