//! Matrix products: which tile, how operands are copied into it, and into how many parts long sums are cut.

mod choice;
mod operand;

use crate::gpu::Launch;
use crate::select::{Call, Variant};
use crate::sources::{Family, Unit};
use crate::space::Space;
use choice::{Choice, Device, Sizes};
use operand::Operand;
use smallvec::SmallVec;
use ternion_core::backend::{Meta, Unsupported, View};
use ternion_core::ops::matmul::{Epilogue, Matmul};
use ternion_core::{DType, Error, MAX_RANK, Op, Result, Scalar, UnaryOp};

/// The kernels of a unit, in the order of its source.
const PRODUCT: usize = 0;
const SUM_SPLITS: usize = 1;

/// What products are formed of.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Factors {
    /// Elements of a dtype as they are.
    Of(DType),
    /// Those of f32, rounded to TF32.
    Tf32,
}

impl Factors {
    /// The dtype of the operands.
    pub(crate) fn dtype(self) -> DType {
        match self {
            Factors::Of(dtype) => dtype,
            Factors::Tf32 => DType::F32,
        }
    }

    /// Whether tensor cores multiply them.
    pub(crate) fn on_tensor_cores(self) -> bool {
        self == Factors::Tf32 || self.dtype().is_half()
    }

    /// Those of everything that is multiplied.
    pub(crate) fn all() -> impl Iterator<Item = Factors> {
        let integers = [DType::I64, DType::I32, DType::I16, DType::I8, DType::U8];
        DType::FLOATS.into_iter().chain(integers).map(Factors::Of).chain([Factors::Tf32])
    }
}

/// A tile of the SIMT kernel or the tensor-core kernels, and what it costs on an H100: fitted to 1450 measured products, from which the choice by
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

/// Tiles of f32 that is rounded to TF32: those of halves, with as many bytes and half the rate. The last one alone takes operands element by element.
pub(crate) const TF32: [Tile; 6] = [
    tile("F2", [128, 256, 32], [64, 64], 0, 3, 1, [36.6, 1.0, 4.0]),
    tile("F10", [64, 128, 32], [32, 64], 0, 4, 2, [11.8, 1.25, 3.0]),
    tile("F8", [64, 64, 32], [32, 32], 0, 4, 3, [7.0, 1.5, 2.0]),
    tile("F12", [32, 32, 32], [16, 16], 0, 6, 4, [3.4, 1.25, 1.5]),
    tile("F11", [16, 128, 32], [16, 32], 0, 6, 2, [6.8, 1.25, 2.0]),
    tile("G12", [32, 32, 32], [16, 16], 0, 4, 4, [8.1, 1.5, 3.7]),
];

/// The tiles that there are for products of these. For narrow integers and i64 the small one serves.
pub(crate) fn tiles(factors: Factors) -> &'static [Tile] {
    match factors {
        Factors::Tf32 => &TF32,
        Factors::Of(DType::F16 | DType::BF16) => &TENSOR,
        Factors::Of(DType::F64) => &DOUBLE,
        Factors::Of(DType::I64) => &DOUBLE[1..],
        Factors::Of(DType::I16 | DType::I8 | DType::U8) => &SIMT[2..3],
        Factors::Of(_) => &SIMT,
    }
}

impl Tile {
    /// Whether it takes operands of any strides, element by element. Tensor cores ask for 16 bytes at a time where they are to be kept busy.
    fn takes_elements(&self) -> bool {
        !self.tensor() || self.is_of_elements()
    }

    /// Whether it is of tensor cores, and takes operands element by element.
    fn is_of_elements(&self) -> bool {
        matches!(self.name, "E12" | "G12")
    }

    /// Whether there are products of these sizes that it is for.
    fn serves(&self, sizes: &Sizes) -> bool {
        match self.name {
            "V8" => sizes.m <= self.block[0],
            _ if self.is_of_elements() => sizes.strays != [0; 2],
            _ => true,
        }
    }

    /// Whether its copies of a may be packs along the inner axis.
    pub(crate) fn packs_inner_of_a(&self) -> bool {
        self.part[0] * self.part[1] < 64
    }

    /// Whether it is of tensor cores.
    pub(crate) fn tensor(&self) -> bool {
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
            // matmul_tf32.cu lays out rows of a lane together: four, or two.
            let rows_out = if dtype == DType::F32 && self.part[0].is_multiple_of(32) { 32 } else { 16 };
            let operands = self.stages * (rows + columns) * inner * dtype.size();
            return operands.max(warps * rows_out * (self.part[1] + 8) * 4);
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
        && !(dtype.is_int() && dtype.size() < 4 && (packs(a) || packs(b)))
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

fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Matmul(payload) = op else { return Err(Error::invalid(call.name, "is not matmul")) };
    let (a, b, shape) = (call.inputs[0], call.inputs[1], call.outputs[0].layout.shape());
    let rank = shape.rank();
    let a = Operand::of(call, a, rank - 2, rank - 1)?;
    let b = Operand::of(call, b, rank - 1, rank - 2)?;
    let sizes = Sizes {
        m: shape.dim(rank - 2),
        n: shape.dim(rank - 1),
        k: a.view.layout.shape().dim(rank - 1),
        matrices: shape.dims()[..rank - 2].iter().product(),
        strays: [0; 2],
    };
    super::fits(call.name, &[sizes.outputs(), sizes.k, sizes.m, sizes.n])?;
    if sizes.outputs() == 0 {
        return Ok(());
    }
    let device = Device { multiprocessors: call.gpu.multiprocessors(), room: call.gpu.shared_memory() };
    let factors = match a.view.dtype {
        DType::F32 if payload.tf32 => Factors::Tf32,
        dtype => Factors::Of(dtype),
    };
    let choice = Choice::remembered(factors, [&a, &b], &sizes, device);
    match choice.is_copied {
        [false, false] => launch(call, &payload.epilogue, &sizes, &choice, [&a, &b]),
        _ => launch_with_copies(call, &payload.epilogue, &sizes, &choice, [&a, &b]),
    }
}

/// As [`launch`], of operands that the tile does not take as they lie, or of which it takes one.
#[cold]
fn launch_with_copies(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    // They live until the kernel has been queued.
    let a_copy = choice.is_copied[0].then(|| a.laid_out(call.gpu, call.name)).transpose()?;
    let b_copy = choice.is_copied[1].then(|| b.laid_out(call.gpu, call.name)).transpose()?;
    let (a, b) = (a.replaced(call, &a_copy)?, b.replaced(call, &b_copy)?);
    launch(call, epilogue, sizes, choice, [&a, &b])
}

fn launch(
    call: &Call<'_>,
    epilogue: &Epilogue,
    sizes: &Sizes,
    choice: &Choice,
    [a, b]: [&Operand<'_>; 2],
) -> Result<()> {
    let (gpu, op, y) = (call.gpu, call.name, &call.outputs[0]);
    let rank = y.layout.shape().rank();
    // That of an axis of one element may be anything, and lines that do not exist are counted with it.
    let stride = |view: &View<'_>, axis: usize| match view.layout.shape().dim(axis) {
        0 | 1 => 0,
        _ => view.layout.strides()[axis] as i64,
    };
    let mut axes: SmallVec<[(usize, [i64; 4]); MAX_RANK]> = SmallVec::new();
    for axis in 0..rank - 2 {
        axes.push((
            y.layout.shape().dim(axis),
            [stride(y, axis), stride(&a.view, axis), stride(&b.view, axis), 0],
        ));
    }
    let splits = choice.splits;
    let sum_size = if a.view.dtype.size() == 8 { 8 } else { 4 };
    let partial = gpu.scratch(if splits > 1 { splits * sizes.outputs() * sum_size } else { 0 })?;
    let bias = epilogue.bias.then(|| &call.inputs[2]);
    let mut parameters = Parameters {
        y: gpu.address(op, y)?,
        a: a.address,
        b: b.address,
        bias: bias.map_or(Ok(0), |bias| gpu.address(op, bias))?,
        residual: 0,
        partial: partial.address(),
        a_row: stride(&a.view, rank - 2),
        a_inner: stride(&a.view, rank - 1),
        b_inner: stride(&b.view, rank - 2),
        b_column: stride(&b.view, rank - 1),
        y_row: stride(y, rank - 2),
        y_column: stride(y, rank - 1),
        residual_row: 0,
        residual_column: 0,
        bias_stride: bias.map_or(0, |bias| stride(bias, 0)),
        alpha: Scalar::Float(epilogue.alpha).bits(y.dtype.accumulator()),
        // The kernels' activation is relu where the first constant is not 0.
        constants: [u64::from(epilogue.activation.is_some()), 0],
        m: sizes.m as u32,
        n: sizes.n as u32,
        k: sizes.k as u32,
        matrices: sizes.matrices as u32,
        splits: splits as u32,
        split_length: choice.split_length as u32,
        batch: Space::EMPTY,
    };
    parameters.batch.become_of(&axes);
    let unit =
        Unit { family: Family::Matmul, name: choice.name, types: [a.view.dtype, y.dtype, a.view.dtype] };
    super::fits(op, &[choice.blocks])?;
    let product = Launch {
        shared: choice.shared as u32,
        ..Launch::new(unit, PRODUCT, choice.blocks as u32, choice.threads as u32)
    };
    gpu.launch(op, product, &parameters)?;
    if splits == 1 {
        return Ok(());
    }
    gpu.launch(op, Launch::new(unit, SUM_SPLITS, sizes.outputs().div_ceil(256) as u32, 256), &parameters)
}

#[cfg(test)]
mod tests;
