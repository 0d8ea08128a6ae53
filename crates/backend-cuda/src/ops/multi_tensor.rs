//! The norm of many tensors: a launch for the squares of up to [`MAX_TENSORS`] of them, and one for
//! the root of their sum.

use super::copy::copy;
use crate::call::{Call, Selected};
use crate::launch::Launch;
use crate::variant::{KernelFamily, pack_of};
use smallvec::SmallVec;
use ternion_core::backend::{Buffer, Unsupported, View};
use ternion_core::{Error, Op, Result};

/// The kernels, in the order of the source.
const SQUARES_KERNEL: usize = 0;
const ROOT_KERNEL: usize = 1;

const THREADS: usize = 256;
/// Packs per thread.
const PACKS: usize = 16;
/// Threads of the kernel that adds the partial sums.
const PART_THREADS: u32 = 1024;
/// Tensors of a launch: as many as fit into the 4 KiB of parameters that every driver supports.
const MAX_TENSORS: usize = 192;

/// A tensor; mirrors `Source` in the kernels.
#[repr(C)]
#[derive(Clone, Copy)]
struct Source {
    x: u64,
    count: u64,
}

/// The parameters; mirrors `Sources` in the kernels.
#[repr(C)]
struct Sources {
    /// The number of tensors of this launch.
    tensors: u32,
    first_block: [u32; MAX_TENSORS],
    partial: u64,
    of: [Source; MAX_TENSORS],
}

/// The parameters of the sum; mirrors `Parts` in the kernels.
#[repr(C)]
struct Parts {
    partial: u64,
    y: u64,
    count: u32,
}

/// Supports every floating dtype, in any layout.
pub(crate) fn select() -> Result<Selected, Unsupported> {
    Ok(Selected::row_major(run))
}

fn run(_: &Op, call: &Call<'_>) -> Result<()> {
    let dtype = call.inputs[0].dtype;
    let chunk = THREADS * PACKS * pack_of(&[dtype]);
    // The copies live until the kernels have been queued.
    let mut copies: SmallVec<[Buffer; 1]> = SmallVec::new();
    let non_empty = call.inputs.iter().filter(|input| input.layout.elements() > 0);
    let sources = non_empty.map(|input| source(call, input, &mut copies)).collect::<Result<Vec<_>>>()?;
    let blocks_of = |sources: &[Source]| sources.iter().map(|source| blocks(source, chunk)).sum::<usize>();
    let count = u32::try_from(blocks_of(&sources))
        .ok()
        .filter(|&count| count < 1 << 31)
        .ok_or_else(|| Error::invalid(call.name, "more elements than one launch can process"))?;
    // The sums of small, medium and large values, each scaled separately (Blue 1978).
    let accumulator = 3 * dtype.accumulator().size();
    let workspace = call.gpu.workspace(count as usize * accumulator)?;
    let mut partial = workspace.address();
    for launch_sources in sources.chunks(MAX_TENSORS) {
        let blocks = blocks_of(launch_sources);
        let launch =
            Launch::new(KernelFamily::MultiTensorNorm(dtype), SQUARES_KERNEL, blocks as u32, THREADS as u32);
        call.gpu.launch(call.name, launch, &parameters(launch_sources, chunk, partial))?;
        partial += (blocks * accumulator) as u64;
    }
    let parts =
        Parts { partial: workspace.address(), y: call.gpu.address(call.name, &call.outputs[0])?, count };
    call.gpu.launch(
        call.name,
        Launch::new(KernelFamily::MultiTensorNorm(dtype), ROOT_KERNEL, 1, PART_THREADS),
        &parts,
    )
}

fn blocks(source: &Source, chunk: usize) -> usize {
    (source.count as usize).div_ceil(chunk)
}

/// Returns the parameters of a launch whose partial sums begin at `partial`.
fn parameters(sources: &[Source], chunk: usize, partial: u64) -> Sources {
    let mut parameters = Sources {
        tensors: sources.len() as u32,
        first_block: [0; MAX_TENSORS],
        partial,
        of: [Source { x: 0, count: 0 }; MAX_TENSORS],
    };
    let mut next_block = 0;
    for (index, source) in sources.iter().enumerate() {
        parameters.first_block[index] = next_block as u32;
        parameters.of[index] = *source;
        next_block += blocks(source, chunk);
    }
    parameters
}

/// Returns a tensor as the kernels read it. Copies it if it is not dense.
fn source(call: &Call<'_>, x: &View<'_>, copies: &mut SmallVec<[Buffer; 1]>) -> Result<Source> {
    let count = x.layout.elements() as u64;
    if x.layout.fills_its_range() {
        return Ok(Source { x: call.gpu.address(call.name, x)?, count });
    }
    let layout = x.layout.dense_like();
    let buffer = Buffer::new(call.gpu.alloc(layout.elements() * x.dtype.size())?);
    let dense = View { buffer: &buffer, dtype: x.dtype, layout: &layout };
    copy(call.gpu, call.name, x, &dense)?;
    let address = call.gpu.address(call.name, &dense)?;
    copies.push(buffer);
    Ok(Source { x: address, count })
}
