//! Matrix products: which tile, how operands are copied into it, and into how many parts long sums are cut.

use super::copy::copy;
use super::elementwise::element_bits;
use crate::gpu::{Gpu, Launch};
use crate::select::{Call, Variant};
use crate::sources::{Family, Unit};
use crate::space::Space;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::RefCell;
use std::sync::Arc;
use ternion_core::backend::{Buffer, Meta, Unsupported, View};
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_core::{DType, Error, Layout, MAX_RANK, Op, Result, Scalar, Shape, UnaryOp};

/// The most bytes of partial sums.
const MOST_PARTIAL: usize = 256 << 20;

/// Sizes of products whose tiles are remembered.
const MOST_CHOSEN: usize = 4096;

/// The most parts that a sum is cut into.
const MOST_SPLITS: usize = 128;

/// Numbers of blocks that a cut aims at: a half of an H100 up to six times all of it.
const AIMS: [usize; 6] = [66, 132, 264, 396, 528, 792];

/// The kernels of a unit, in the order of its source.
const PRODUCT: usize = 0;
const SUM_SPLITS: usize = 1;

/// A tile of the SIMT kernel or the tensor-core kernel, and what it costs on an H100: fitted to 1450 measured products, from which the choice by
/// these numbers loses 2 % in the mean.
#[derive(Debug)]
pub(crate) struct Tile {
    pub(crate) name: &'static str,
    /// Rows, columns and inner length of a tile.
    pub(crate) block: [usize; 3],
    /// SIMT: elements of a thread; tensor cores: of a warp. Rows, then columns.
    pub(crate) part: [usize; 2],
    /// SIMT: lanes of a warp along the rows.
    pub(crate) lanes: usize,
    pub(crate) stages: usize,
    /// Blocks on a multiprocessor.
    pub(crate) resident: usize,
    /// Nanoseconds that a full multiprocessor needs for a tile, per inner element.
    per_inner: f64,
    /// How much longer a block takes that has a multiprocessor alone.
    alone: f64,
    /// Microseconds that a wave of blocks takes to begin and end.
    wave: f64,
}

#[allow(clippy::too_many_arguments)] // a row of a table
const fn tile(
    name: &'static str,
    block: [usize; 3],
    part: [usize; 2],
    lanes: usize,
    stages: usize,
    resident: usize,
    [per_inner, alone, wave]: [f64; 3],
) -> Tile {
    Tile { name, block, part, lanes, stages, resident, per_inner, alone, wave }
}

/// Tiles of f32 and i32. (More were tried: see docs/kernels/matmul.md.)
pub(crate) const SIMT: [Tile; 4] = [
    tile("C8", [128, 256, 8], [8, 16], 8, 4, 1, [172.0, 1.0, 4.0]),
    tile("M8", [64, 64, 8], [8, 8], 8, 4, 6, [24.0, 2.0, 3.0]),
    tile("S32", [32, 32, 32], [4, 4], 4, 3, 7, [13.0, 1.25, 1.0]),
    tile("V8", [8, 256, 32], [4, 4], 2, 3, 2, [32.0, 1.0, 4.0]),
];
/// Tiles of f64: half the rate at twice the size.
pub(crate) const DOUBLE: [Tile; 2] = [
    tile("W8", [64, 128, 8], [8, 8], 8, 3, 2, [96.0, 1.5, 4.0]),
    tile("W16", [64, 64, 16], [4, 4], 4, 3, 2, [54.0, 1.25, 1.5]),
];
/// Tiles of halves on tensor cores. The last one alone takes operands element by element.
pub(crate) const TENSOR: [Tile; 6] = [
    tile("T2", [128, 256, 64], [64, 64], 0, 3, 1, [18.3, 1.0, 4.0]),
    tile("T10", [64, 128, 64], [32, 64], 0, 4, 2, [5.9, 1.25, 3.0]),
    tile("T8", [64, 64, 64], [32, 32], 0, 4, 3, [3.5, 1.5, 2.0]),
    tile("T12", [32, 32, 64], [16, 16], 0, 6, 4, [1.7, 1.25, 1.5]),
    tile("T11", [16, 128, 64], [16, 32], 0, 6, 2, [3.4, 1.25, 2.0]),
    tile("E12", [32, 32, 64], [16, 16], 0, 4, 2, [8.1, 1.5, 3.7]),
];

/// The tiles that there are for `dtype`. For bytes and i64 the small one serves.
pub(crate) fn tiles(dtype: DType) -> &'static [Tile] {
    match dtype {
        DType::F16 | DType::BF16 => &TENSOR,
        DType::F64 => &DOUBLE,
        DType::I64 => &DOUBLE[1..],
        DType::U8 => &SIMT[2..3],
        _ => &SIMT,
    }
}

impl Tile {
    /// Whether it takes operands of any strides, element by element. Tensor cores ask for 16 bytes at a time where they are to be kept busy.
    fn takes_elements(&self) -> bool {
        !self.tensor() || self.name == "E12"
    }

    /// Whether there are products of these sizes that it is for.
    fn serves(&self, sizes: &Sizes) -> bool {
        match self.name {
            "V8" => sizes.m <= self.block[0],
            "E12" => sizes.strays != [0; 2],
            _ => true,
        }
    }

    /// Whether its copies of a may be packs along the inner axis.
    pub(crate) fn packs_inner_of_a(&self) -> bool {
        self.part[0] * self.part[1] < 64
    }

    fn tensor(&self) -> bool {
        self.lanes == 0
    }

    fn threads(&self) -> usize {
        let parts = (self.block[0] / self.part[0]) * (self.block[1] / self.part[1]);
        if self.tensor() { parts * 32 } else { parts }
    }

    /// Bytes of dynamic shared memory: the stages, or the sums on their way out.
    fn shared(&self, dtype: DType, forms: [Form; 2]) -> usize {
        let [rows, columns, inner] = self.block;
        let warps = self.threads() / 32;
        if self.tensor() {
            return (self.stages * (rows + columns) * inner * 2).max(warps * 16 * (self.part[1] + 8) * 4);
        }
        let size = if dtype.size() == 8 { 8 } else { 4 };
        let pack = 16 / size;
        let of = |lines: usize, form: Form| match form {
            Form::RunPacks => lines * (inner + pack),
            _ => inner * (lines + pack),
        };
        let stages = self.stages * (of(rows, forms[0]) + of(columns, forms[1]));
        let sums = warps * self.lanes * pack * (32 / self.lanes * self.part[1] + pack);
        stages.max(sums) * size
    }

    /// The most bytes that it takes, whatever its operands' forms.
    fn most_shared(&self, dtype: DType) -> usize {
        let forms = if self.tensor() { [Form::Inner; 2] } else { [Form::RunPacks; 2] };
        let other = if self.tensor() { [Form::Outer; 2] } else { [Form::Packs; 2] };
        self.shared(dtype, forms).max(self.shared(dtype, other))
    }

    /// Microseconds that a product takes with so many parts of its sums.
    fn predicted(&self, sizes: &Sizes, splits: usize, multiprocessors: usize) -> f64 {
        let tiles = self.count(sizes) * splits;
        let tile = self.per_inner * sizes.k.div_ceil(splits) as f64 / 1000.0;
        let slots = multiprocessors * self.resident;
        let (waves, rest) = (tiles / slots, tiles % slots);
        let mut time = 2.0 + waves as f64 * (self.resident as f64 * tile + self.wave);
        if rest > 0 {
            time += (rest.div_ceil(multiprocessors) as f64 * tile).max(self.alone * tile) + self.wave;
        }
        if splits > 1 {
            time += 1.8 + (sizes.outputs() * (splits + 1) * 4) as f64 / 2e6;
        }
        time
    }

    fn count(&self, sizes: &Sizes) -> usize {
        sizes.m.div_ceil(self.block[0]) * sizes.n.div_ceil(self.block[1]) * sizes.matrices
    }
}

/// How an operand is brought into shared memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    /// 16 bytes at a time along its lines.
    Packs,
    /// 16 bytes at a time along the inner axis.
    RunPacks,
    /// Elements that are runs along the inner axis.
    Runs,
    /// Elements, anywhere.
    Elements,
    /// Tensor cores: 16 bytes at a time along the inner axis.
    Inner,
    /// Tensor cores: 16 bytes at a time along its lines.
    Outer,
    /// Tensor cores: elements, anywhere, along the inner axis.
    InnerElements,
    /// Tensor cores: elements, anywhere, along its lines.
    OuterElements,
}

impl Form {
    pub(crate) const SIMT: [Form; 4] = [Form::Packs, Form::RunPacks, Form::Runs, Form::Elements];
    pub(crate) const TENSOR: [Form; 4] = [Form::Inner, Form::Outer, Form::InnerElements, Form::OuterElements];

    /// Whether tensor cores get it element by element.
    fn is_stray(self) -> bool {
        matches!(self, Form::InnerElements | Form::OuterElements)
    }

    /// As in the names of units.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Form::Packs => "packs",
            Form::RunPacks => "run_packs",
            Form::Runs => "runs",
            Form::Elements => "elements",
            Form::Inner => "inner",
            Form::Outer => "outer",
            Form::InnerElements => "inner_elements",
            Form::OuterElements => "outer_elements",
        }
    }
}

/// Whether the unit of a tile with these forms of a and b exists.
pub(crate) fn has_unit(tile: &Tile, dtype: DType, [a, b]: [Form; 2]) -> bool {
    if tile.tensor() {
        let strays = a.is_stray() || b.is_stray();
        return Form::TENSOR.contains(&a) && Form::TENSOR.contains(&b) && strays == tile.takes_elements();
    }
    let packs = |form: Form| matches!(form, Form::Packs | Form::RunPacks);
    Form::SIMT.contains(&a)
        && Form::SIMT.contains(&b)
        && (a != Form::RunPacks || tile.packs_inner_of_a())
        && !(dtype == DType::U8 && (packs(a) || packs(b)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Sizes {
    m: usize,
    n: usize,
    k: usize,
    matrices: usize,
    /// Elements of a and of b, if they fit no form of the fast tiles of tensor cores, which are laid out anew for those; else 0.
    strays: [usize; 2],
}

impl Sizes {
    fn outputs(&self) -> usize {
        self.m * self.n * self.matrices
    }

    /// Microseconds that the copies of strays take: what queueing one and the zeros behind its lines takes, and reading and writing halves at two
    /// thirds of an H100's bandwidth.
    fn copies(&self) -> f64 {
        let copied = self.strays.iter().filter(|&&elements| elements > 0);
        let queued = if self.k.is_multiple_of(8) { 4.0 } else { 6.0 };
        copied.map(|&elements| queued + (elements * 4) as f64 / 2e6).sum()
    }
}

/// What a device has for tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Device {
    multiprocessors: usize,
    /// Bytes of shared memory that a block may have.
    room: usize,
}

/// The tile and the number of parts for a product, worked out once for each of its sizes.
fn chosen(dtype: DType, sizes: &Sizes, device: Device) -> (&'static Tile, usize) {
    thread_local! {
        static CHOSEN: RefCell<FxHashMap<(DType, Sizes, Device), (&'static Tile, usize)>> = RefCell::default();
    }
    CHOSEN.with_borrow_mut(|chosen| {
        // A program that never multiplies the same sizes twice must not fill the memory with them.
        if chosen.len() >= MOST_CHOSEN {
            chosen.clear();
        }
        *chosen.entry((dtype, *sizes, device)).or_insert_with(|| choose(dtype, sizes, device))
    })
}

/// The tile and the number of parts with the least predicted time.
fn choose(dtype: DType, sizes: &Sizes, device: Device) -> (&'static Tile, usize) {
    let Device { multiprocessors, room } = device;
    let tiles = tiles(dtype);
    let serving = || tiles.iter().filter(|tile| tile.serves(sizes));
    let mut best: Option<(f64, &'static Tile, usize)> = None;
    for tile in serving().filter(|tile| tile.most_shared(dtype) <= room) {
        let copies = if tile.takes_elements() { 0.0 } else { sizes.copies() };
        let blocks = tile.count(sizes).max(1);
        let longest = sizes.k / (2 * tile.block[2]).max(64);
        let cuts = AIMS.iter().map(|aim| (aim / blocks).min(longest).min(MOST_SPLITS)).filter(|&cut| cut > 1);
        for splits in std::iter::once(1).chain(cuts) {
            if splits > 1 && sizes.outputs() * splits * 8 > MOST_PARTIAL {
                continue;
            }
            let time = copies + tile.predicted(sizes, splits, multiprocessors);
            if best.is_none_or(|(least, ..)| time < least) {
                best = Some((time, tile, splits));
            }
        }
    }
    let smallest = || serving().min_by_key(|tile| tile.most_shared(dtype)).unwrap_or(&tiles[0]);
    best.map_or_else(|| (smallest(), 1), |(_, tile, splits)| (tile, splits))
}

/// The parameters, as `Product` of the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    a: u64,
    b: u64,
    bias: u64,
    residual: u64,
    partial: u64,
    a_row: i64,
    a_inner: i64,
    b_inner: i64,
    b_column: i64,
    y_row: i64,
    y_column: i64,
    residual_row: i64,
    residual_column: i64,
    bias_stride: i64,
    alpha: u64,
    constants: [u64; 2],
    m: u32,
    n: u32,
    k: u32,
    matrices: u32,
    splits: u32,
    split_length: u32,
    batch: Space<4>,
}

/// The product with a factor, a bias and a relu; what else may follow is composed.
pub(crate) fn select(payload: &Matmul, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    let Epilogue { bias, activation, residual, accumulate, out_dtype, .. } = payload.epilogue;
    let simple = !residual && !accumulate && matches!(activation, None | Some(UnaryOp::Relu));
    let bias_fits = !bias || inputs[2].dtype == out_dtype.unwrap_or(inputs[0].dtype);
    match simple && bias_fits {
        true => Ok(Variant::row_major(run)),
        false => Err(Unsupported::because("no kernel with this epilogue")),
    }
}

/// An operand on its way into the tiles: its lines are rows of a, or columns of b.
struct Operand<'a> {
    view: View<'a>,
    line_axis: usize,
    inner_axis: usize,
}

impl Operand<'_> {
    fn stride(&self, axis: usize) -> i64 {
        self.view.layout.strides()[axis] as i64
    }

    /// Whether everything but the axis that packs run along lies at multiples of `pack` elements.
    fn is_even(&self, address: u64, along: usize, pack: usize) -> bool {
        let across = if along == self.line_axis { self.inner_axis } else { self.line_axis };
        let shape = self.view.layout.shape();
        let even = |axis: usize| shape.dim(axis) <= 1 || self.stride(axis) % pack as i64 == 0;
        address.is_multiple_of((pack * self.view.dtype.size()) as u64)
            && even(across)
            && (0..shape.rank() - 2).all(even)
    }

    /// How the tiles of tensor cores copy it.
    fn tensor_form(&self, address: u64) -> Form {
        let pack = 16 / self.view.dtype.size();
        let is_run = |axis: usize| self.stride(axis) == 1;
        let even = |axis: usize| {
            let size = self.view.layout.shape().dim(axis);
            is_run(axis) && size.is_multiple_of(pack) && self.is_even(address, axis, pack)
        };
        match (even(self.inner_axis), even(self.line_axis)) {
            (true, _) => Form::Inner,
            (_, true) => Form::Outer,
            _ if is_run(self.inner_axis) || !is_run(self.line_axis) => Form::InnerElements,
            _ => Form::OuterElements,
        }
    }

    /// How the other tiles copy it.
    fn simt_form(&self, address: u64, tile: &Tile, is_a: bool) -> Form {
        let dtype = self.view.dtype;
        let (line, inner) = (self.stride(self.line_axis), self.stride(self.inner_axis));
        let shape = self.view.layout.shape();
        let (lines, length) = (shape.dim(self.line_axis), shape.dim(self.inner_axis));
        let (pack, wide) = (16 / dtype.size(), dtype.size() >= 4);
        let even = |axis: usize, size: usize| {
            wide && self.stride(axis) == 1 && size.is_multiple_of(pack) && self.is_even(address, axis, pack)
        };
        if even(self.line_axis, lines) {
            return Form::Packs;
        }
        if even(self.inner_axis, length) && (!is_a || tile.packs_inner_of_a()) {
            return Form::RunPacks;
        }
        if inner == 1 && line != 1 { Form::Runs } else { Form::Elements }
    }

    /// Its elements if only the tile of elements takes it as it is, else 0.
    fn stray(&self, address: u64) -> usize {
        if !self.view.dtype.is_half() || !self.tensor_form(address).is_stray() {
            return 0;
        }
        // One without elements too has no other form.
        self.distinct().map_or(1, |shape| shape.elements()).max(1)
    }

    /// Its shape, where matrices that are repeated along a batch axis are counted once.
    fn distinct(&self) -> Result<Shape> {
        let shape = self.view.layout.shape();
        let once = |axis: usize| axis < shape.rank() - 2 && self.stride(axis) == 0;
        let dims: SmallVec<[usize; MAX_RANK]> =
            (0..shape.rank()).map(|axis| if once(axis) { 1 } else { shape.dim(axis) }).collect();
        Shape::new(&dims)
    }

    /// A copy in which the inner axis is a run, and lines begin at multiples of 16 bytes, with zeros between one and the next.
    fn laid_out(&self, gpu: &Arc<Gpu>, op: &'static str) -> Result<(Buffer, Layout)> {
        let (shape, size) = (self.distinct()?, self.view.dtype.size());
        let pack = 16 / size;
        let (run, rank) = (shape.dim(self.inner_axis), shape.rank());
        let padded = run.next_multiple_of(pack);
        let (mut strides, mut repeated) = ([0; MAX_RANK], [0; MAX_RANK]);
        let mut step = 1;
        for axis in [self.inner_axis, self.line_axis].into_iter().chain((0..rank - 2).rev()) {
            strides[axis] = step as isize;
            repeated[axis] = if axis < rank - 2 && self.stride(axis) == 0 { 0 } else { strides[axis] };
            step *= if axis == self.inner_axis { padded } else { shape.dim(axis) };
        }
        let layout = Layout::new(shape, &strides[..rank], 0)?;
        let buffer = Buffer::new(gpu.alloc(step * size)?);
        let to = View { buffer: &buffer, dtype: self.view.dtype, layout: &layout };
        let from = Layout::new(shape, self.view.layout.strides(), self.view.layout.offset())?;
        copy(gpu, op, &View { layout: &from, ..self.view }, &to)?;
        if run < padded {
            let (first, lines) = (gpu.address(op, &to)? + (run * size) as u64, step / padded);
            gpu.zero_columns(op, first, padded * size, (padded - run) * size, lines)?;
        }
        Ok((buffer, Layout::new(*self.view.layout.shape(), &repeated[..rank], 0)?))
    }
}

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Matmul(payload) = op else { return Err(Error::invalid(call.name, "is not matmul")) };
    let (a, b, y) = (&call.inputs[0], &call.inputs[1], &call.outputs[0]);
    let rank = y.layout.shape().rank();
    let a = Operand { view: *a, line_axis: rank - 2, inner_axis: rank - 1 };
    let b = Operand { view: *b, line_axis: rank - 1, inner_axis: rank - 2 };
    let stray = |operand: &Operand<'_>| Ok(operand.stray(call.gpu.address(call.name, &operand.view)?));
    let sizes = Sizes {
        m: y.layout.shape().dim(rank - 2),
        n: y.layout.shape().dim(rank - 1),
        k: a.view.layout.shape().dim(rank - 1),
        matrices: y.layout.shape().dims()[..rank - 2].iter().product(),
        strays: [stray(&a)?, stray(&b)?],
    };
    super::fits(call.name, &[sizes.outputs(), sizes.k, sizes.m, sizes.n])?;
    if sizes.outputs() == 0 {
        return Ok(());
    }
    let device = Device { multiprocessors: call.gpu.multiprocessors(), room: call.gpu.shared_memory() };
    let (tile, splits) = chosen(a.view.dtype, &sizes, device);
    laid_out(&a, tile, true, call, |a, a_form| {
        laid_out(&b, tile, false, call, |b, b_form| {
            launch(call, &payload.epilogue, sizes, tile, splits, (a, a_form), (b, b_form))
        })
    })
}

/// Calls `then` with the operand as the tile takes it: as it is, or a copy, which lives until the kernel has been queued.
fn laid_out(
    operand: &Operand<'_>,
    tile: &Tile,
    is_a: bool,
    call: &Call<'_>,
    then: impl FnOnce(&View<'_>, Form) -> Result<()>,
) -> Result<()> {
    let address = call.gpu.address(call.name, &operand.view)?;
    if !tile.tensor() {
        return then(&operand.view, operand.simt_form(address, tile, is_a));
    }
    let form = operand.tensor_form(address);
    if tile.takes_elements() || !form.is_stray() {
        return then(&operand.view, form);
    }
    let (buffer, layout) = operand.laid_out(call.gpu, call.name)?;
    then(&View { buffer: &buffer, dtype: operand.view.dtype, layout: &layout }, Form::Inner)
}

fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: Sizes,
    tile: &Tile,
    splits: usize,
    (a, a_form): (&View<'_>, Form),
    (b, b_form): (&View<'_>, Form),
) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let rank = y.layout.shape().rank();
    // That of an axis of one element may be anything, and lines that do not exist are counted with it.
    let stride = |view: &View<'_>, axis: usize| match view.layout.shape().dim(axis) {
        0 | 1 => 0,
        _ => view.layout.strides()[axis] as i64,
    };
    let axes: SmallVec<[(usize, [i64; 4]); MAX_RANK]> = (0..rank - 2)
        .map(|axis| (y.layout.shape().dim(axis), [stride(y, axis), stride(a, axis), stride(b, axis), 0]))
        .collect();
    let split_length = sizes.k.max(1).div_ceil(splits).next_multiple_of(tile.block[2]);
    let splits = sizes.k.div_ceil(split_length).max(1);
    let sum_size = if a.dtype.size() == 8 { 8 } else { 4 };
    let partial = gpu.scratch(if splits > 1 { splits * sizes.outputs() * sum_size } else { 0 })?;
    let bias = epilogue.bias.then(|| &call.inputs[2]);
    let parameters = Parameters {
        y: gpu.address(op, y)?,
        a: gpu.address(op, a)?,
        b: gpu.address(op, b)?,
        bias: bias.map_or(Ok(0), |bias| gpu.address(op, bias))?,
        residual: 0,
        partial: partial.address(),
        a_row: stride(a, rank - 2),
        a_inner: stride(a, rank - 1),
        b_inner: stride(b, rank - 2),
        b_column: stride(b, rank - 1),
        y_row: stride(y, rank - 2),
        y_column: stride(y, rank - 1),
        residual_row: 0,
        residual_column: 0,
        bias_stride: bias.map_or(0, |bias| stride(bias, 0)),
        alpha: element_bits(Scalar::Float(epilogue.alpha), y.dtype.accumulator()),
        // The kernels' activation is relu where the first constant is not 0.
        constants: [u64::from(epilogue.activation.is_some()), 0],
        m: sizes.m as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        matrices: sizes.matrices as u32,
        splits: splits as u32,
        split_length: split_length as u32,
        batch: Space::in_order(&axes),
    };
    let unit = Unit {
        family: Family::Matmul,
        name: crate::sources::matmul_name(tile.name, [a_form, b_form]),
        types: [a.dtype, y.dtype, a.dtype],
    };
    let blocks = tile.count(&sizes) * splits;
    super::fits(op, &[blocks])?;
    let product = Launch {
        shared: tile.shared(a.dtype, [a_form, b_form]) as u32,
        ..Launch::new(unit, PRODUCT, blocks as u32, tile.threads() as u32)
    };
    gpu.launch(op, product, &parameters)?;
    if splits == 1 {
        return Ok(());
    }
    gpu.launch(op, Launch::new(unit, SUM_SPLITS, sizes.outputs().div_ceil(256) as u32, 256), &parameters)
}

#[cfg(test)]
mod tests;
