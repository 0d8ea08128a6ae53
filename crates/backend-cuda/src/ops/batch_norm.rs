//! Batch normalization of channels, and its gradient, in three steps: partial sums of each channel,
//! total sums, elements. An input is `[batch, channels, space]`, where `space` is the product of
//! the spatial axes; a plane is the elements of one channel of one image, n is the normalized x.

use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::operands::Operands;
use crate::rows::grid;
use crate::space::Divisor;
use crate::variant::norm::{BatchNormVariant, batch_norm_packs};
use ternion_core::{DType, Error, Op, Result};

/// The kernels, in the order of the source.
const PARTS_OF_PLANES: usize = 0;
const PARTS_OF_COLUMNS: usize = 1;
const STATISTICS: usize = 2;
const GRADIENTS: usize = 3;
const ELEMENTS: usize = 4;
const GRADIENT_ELEMENTS: usize = 5;
const COLUMNS: usize = 6;
const GRADIENT_COLUMNS: usize = 7;

const THREADS: usize = 256;
/// Channels of a block of `channel_statistics` and `channel_gradients`.
const CHANNELS: usize = 8;
/// Packs of a block's row of threads in the column kernels.
const ACROSS: usize = 32;
/// The minimum number of images of a split in the column kernels: four for each of a block's warps.
const IMAGES: usize = 32;
/// The minimum bytes of a plane for which a block reads one plane at a time.
const MIN_PLANE_BYTES: usize = 64;
/// The number of blocks that compute partial sums: eight per multiprocessor of an H100. It is the
/// same on every device, so that the order of the sums is the same.
const BLOCKS: usize = 132 * 8;
/// The maximum number of blocks along the second axis of a grid.
const MAX_GRID_Y: usize = 65535;

/// The parameters; mirrors `ChannelParts` in the kernels.
#[repr(C)]
struct PartParameters {
    /// The partial sums.
    parts: u64,
    x: u64,
    /// Only in the gradient, like the mean and the variance.
    dy: u64,
    mean: u64,
    variance: u64,
    eps: f64,
    batch: u64,
    space: u64,
    /// Images of a split.
    batch_per_split: u64,
    channels: u32,
    /// 1 for the gradient.
    backward: u32,
    /// Packs of a plane.
    plane: Divisor,
}

/// The parameters; mirrors `Channels` in the kernels.
#[repr(C)]
struct ChannelParameters {
    parts: u64,
    x: u64,
    /// The means; in the gradient, the sums of dy.
    first: u64,
    /// The variances; in the gradient, the sums of dy * n.
    second: u64,
    dweight: u64,
    dbias: u64,
    /// The partial sums of a channel: `outer` groups of `inner` adjacent ones.
    outer: u64,
    outer_stride: u64,
    inner: u64,
    batch: u64,
    space: u64,
    channels: u32,
}

/// The parameters; mirrors `BatchNorm` in the kernels.
#[repr(C)]
struct ElementParameters {
    y: u64,
    x: u64,
    dy: u64,
    mean: u64,
    variance: u64,
    /// The sums of dy. Only in the gradient.
    sum_dy: u64,
    /// The sums of dy * n. Only in the gradient.
    dot: u64,
    weight: u64,
    bias: u64,
    eps: f64,
    inverse_count: f64,
    packs: u64,
    packs_of_plane: u64,
    channels: u32,
    /// 1 if `packs` fits 31 bits, so that the kernel divides by the two divisors.
    narrow: u32,
    plane: Divisor,
    channel: Divisor,
    batch: u64,
    space: u64,
    batch_per_split: u64,
}

/// How the work is split.
#[derive(Clone, Copy)]
struct Plan {
    op: &'static str,
    dtype: DType,
    batch: usize,
    channels: usize,
    space: usize,
    pack: usize,
    /// If true, a block processes planes of a channel, otherwise columns of the images.
    uses_planes: bool,
    splits: usize,
    batch_per_split: usize,
}

impl Plan {
    fn of(call: &Call<'_>, addresses: &[u64]) -> Result<Plan> {
        let (op, dtype, dims) = (call.name, call.inputs[0].dtype, call.inputs[0].layout.shape().dims());
        let (batch, channels, space) = (dims[0], dims[1], dims[2..].iter().product::<usize>());
        super::check_fits(op, &[channels])?;
        let uses_planes = space * dtype.size() >= MIN_PLANE_BYTES && channels <= MAX_GRID_Y;
        let contiguous = if uses_planes { space } else { channels * space };
        let fits_pack = |&&pack: &&usize| {
            let bytes = (pack * dtype.size()) as u64;
            contiguous.is_multiple_of(pack) && addresses.iter().all(|address| address.is_multiple_of(bytes))
        };
        let pack = batch_norm_packs(dtype).iter().find(fits_pack).copied().unwrap_or(1);
        let max_splits = |blocks: usize| BLOCKS.div_ceil(blocks.max(1));
        let splits = match uses_planes {
            true => max_splits(channels).min(batch.saturating_mul(space) / (pack * THREADS * 4)),
            false => max_splits(contiguous.div_ceil(ACROSS * pack)).min(batch.div_ceil(IMAGES)),
        };
        let batch_per_split = batch.div_ceil(splits.max(1)).max(1);
        let splits = batch.div_ceil(batch_per_split).max(1);
        if uses_planes {
            super::check_fits(op, &[batch_per_split.saturating_mul(space / pack)])?;
        }
        Ok(Plan { op, dtype, batch, channels, space, pack, uses_planes, splits, batch_per_split })
    }

    fn launch(&self, kernel: usize, blocks: [usize; 2]) -> Result<Launch> {
        let variant = BatchNormVariant { pack: self.pack as u8, dtype: self.dtype };
        let launch = Launch::new(variant, kernel, 0, THREADS as u32);
        Ok(Launch { grid: [grid(self.op, blocks[0])?, blocks[1] as u32, 1], ..launch })
    }

    /// Returns the grid of the column kernels.
    fn column_grid(&self) -> [usize; 2] {
        [(self.channels * self.space).div_ceil(ACROSS * self.pack), self.splits]
    }

    /// Computes the sums of all channels. Sets the fields of the parameters that forward and
    /// backward have in common.
    fn compute_sums(&self, gpu: &Gpu, parts: PartParameters, channels: ChannelParameters) -> Result<()> {
        let backward = parts.backward == 1;
        let width = if self.uses_planes { self.channels } else { self.channels * self.space };
        let values = if backward { 2 } else { 3 };
        let workspace = gpu.workspace(self.splits * width * values * self.dtype.accumulator().size())?;
        let parameters = PartParameters {
            parts: workspace.address(),
            batch: self.batch as u64,
            space: self.space as u64,
            batch_per_split: self.batch_per_split as u64,
            channels: self.channels as u32,
            plane: Divisor::new(self.space / self.pack),
            ..parts
        };
        let launch = match self.uses_planes {
            true => self.launch(PARTS_OF_PLANES, [self.splits, self.channels])?,
            false => self.launch(PARTS_OF_COLUMNS, self.column_grid())?,
        };
        gpu.launch(self.op, launch, &parameters)?;
        let [outer, outer_stride, inner] = match self.uses_planes {
            true => [1, 0, self.splits],
            false => [self.splits, width, self.space],
        };
        let parameters = ChannelParameters {
            parts: workspace.address(),
            outer: outer as u64,
            outer_stride: outer_stride as u64,
            inner: inner as u64,
            batch: self.batch as u64,
            space: self.space as u64,
            channels: self.channels as u32,
            ..channels
        };
        let kernel = if backward { GRADIENTS } else { STATISTICS };
        gpu.launch(self.op, self.launch(kernel, [self.channels.div_ceil(CHANNELS), 1])?, &parameters)
    }

    /// Computes the elements. Sets the fields of the parameters that forward and backward have in
    /// common.
    fn compute_elements(&self, gpu: &Gpu, kernels: [usize; 2], elements: ElementParameters) -> Result<()> {
        let packs = self.batch * self.channels * self.space / self.pack;
        let plane = (self.space / self.pack).max(1);
        let count = self.batch * self.space;
        let parameters = ElementParameters {
            inverse_count: if count == 0 { 0.0 } else { 1.0 / count as f64 },
            packs: packs as u64,
            packs_of_plane: plane as u64,
            channels: self.channels as u32,
            narrow: u32::from(packs < super::INDEX_LIMIT),
            plane: Divisor::new(plane),
            channel: Divisor::new(self.channels),
            batch: self.batch as u64,
            space: self.space as u64,
            batch_per_split: self.batch_per_split as u64,
            ..elements
        };
        let per_thread = if self.dtype == DType::F64 { 2 } else { 4 };
        let launch = match self.uses_planes {
            true => self.launch(kernels[0], [packs.div_ceil(THREADS * per_thread), 1])?,
            false => self.launch(kernels[1], self.column_grid())?,
        };
        gpu.launch(self.op, launch, &parameters)
    }
}

/// Returns the initial parameters of forward and backward.
fn part_parameters(x: u64, dy: u64, statistics: [u64; 2], eps: f64) -> PartParameters {
    PartParameters {
        parts: 0,
        x,
        dy,
        mean: statistics[0],
        variance: statistics[1],
        eps,
        batch: 0,
        space: 0,
        batch_per_split: 0,
        channels: 0,
        backward: u32::from(dy != 0),
        plane: Divisor::new(1),
    }
}

fn channel_parameters(x: u64, sums: [u64; 2], gradients: [u64; 2]) -> ChannelParameters {
    ChannelParameters {
        parts: 0,
        x,
        first: sums[0],
        second: sums[1],
        dweight: gradients[0],
        dbias: gradients[1],
        outer: 0,
        outer_stride: 0,
        inner: 0,
        batch: 0,
        space: 0,
        channels: 0,
    }
}

fn element_parameters(parts: &PartParameters, y: u64, sums: [u64; 2], affine: [u64; 2]) -> ElementParameters {
    ElementParameters {
        y,
        x: parts.x,
        dy: parts.dy,
        mean: parts.mean,
        variance: parts.variance,
        sum_dy: sums[0],
        dot: sums[1],
        weight: affine[0],
        bias: affine[1],
        eps: parts.eps,
        inverse_count: 0.0,
        packs: 0,
        packs_of_plane: 1,
        channels: 0,
        narrow: 0,
        plane: Divisor::new(1),
        channel: Divisor::new(1),
        batch: 0,
        space: 0,
        batch_per_split: 0,
    }
}

pub(crate) fn run(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BatchNorm(payload) = op else { return Err(Error::invalid(call.name, "is not batch_norm")) };
    let mut operands = Operands::new(call);
    let (x, y) = (operands.dense_input(0)?, operands.dense_output(0)?);
    let statistics = [operands.dense_output(1)?, operands.dense_output(2)?];
    let mut vector = |index: usize| if payload.affine { operands.dense_input(index) } else { Ok(0) };
    let affine = [vector(1)?, vector(2)?];
    let plan = Plan::of(call, &[x, y])?;
    let parts = part_parameters(x, 0, statistics, payload.eps);
    let elements = element_parameters(&parts, y, [0; 2], affine);
    plan.compute_sums(call.gpu, parts, channel_parameters(x, statistics, [0; 2]))?;
    plan.compute_elements(call.gpu, [ELEMENTS, COLUMNS], elements)?;
    operands.finish()
}

pub(crate) fn run_grad(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::BatchNormGrad(payload) = op else {
        return Err(Error::invalid(call.name, "is not batch_norm_grad"));
    };
    let mut operands = Operands::new(call);
    let (x, dx) = (operands.dense_input(0)?, operands.dense_output(0)?);
    let statistics = [operands.dense_input(1)?, operands.dense_input(2)?];
    let dy = operands.dense_input(3)?;
    let weight = if payload.affine { operands.dense_input(4)? } else { 0 };
    let mut gradient = |index: usize| if payload.affine { operands.dense_output(index) } else { Ok(0) };
    let gradients = [gradient(1)?, gradient(2)?];
    let plan = Plan::of(call, &[x, dx, dy])?;
    // Sums of dy and of dy * n, of each channel.
    let bytes = plan.channels * plan.dtype.accumulator().size();
    let workspace = call.gpu.workspace(2 * bytes)?;
    let sums = [workspace.address(), workspace.address() + bytes as u64];
    let parts = PartParameters { backward: 1, ..part_parameters(x, dy, statistics, payload.eps) };
    let elements = element_parameters(&parts, dx, sums, [weight, 0]);
    plan.compute_sums(call.gpu, parts, channel_parameters(x, sums, gradients))?;
    plan.compute_elements(call.gpu, [GRADIENT_ELEMENTS, GRADIENT_COLUMNS], elements)?;
    operands.finish()
}
