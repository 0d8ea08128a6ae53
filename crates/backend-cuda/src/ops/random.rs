//! Random numbers.

use crate::call::Call;
use crate::launch::Launch;
use crate::space::Space;
use crate::variant::KernelFamily;
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::{Error, MAX_RANK, Op, Result};

const THREADS: usize = 256;

/// The kernels of `random.cu`, in the order of their source. `BITS_KERNEL` is the only kernel of a
/// separate variant.
const BITS_KERNEL: usize = 0;
const UNIFORM_KERNEL: usize = 0;
const NORMAL_KERNEL: usize = 1;
const DROPOUT_KERNEL: usize = 2;
/// Dropout of contiguous tensors, by vectorized accesses.
const DROPOUT_LINE_KERNEL: usize = 3;

/// The parameters; mirrors `Random` in the kernels.
#[repr(C)]
struct Parameters {
    y: u64,
    x: u64,
    state: u64,
    state_stride: i64,
    offset: u64,
    count: u64,
    /// Only in `bits`: the number of low bits of a word that are dropped.
    shift: u32,
    /// Only in dropout.
    threshold: u32,
    /// Only in dropout: the factor of elements that are kept.
    scale: f64,
    space: Space<2>,
}

/// Returns the parameters that the ops have in common. Ops without an `x` pass y itself.
fn parameters(call: &Call<'_>, x: &View<'_>, state: &View<'_>, offset: u64) -> Result<Parameters> {
    let y = &call.outputs[0];
    let axes: SmallVec<[(usize, [i64; 2]); MAX_RANK]> = (0..y.layout.shape().rank())
        .map(|axis| {
            let strides = [y, x].map(|view| view.layout.strides()[axis] as i64);
            (y.layout.shape().dim(axis), strides)
        })
        .collect();
    Ok(Parameters {
        y: call.gpu.address(call.name, y)?,
        x: call.gpu.address(call.name, x)?,
        state: call.gpu.address(call.name, state)?,
        state_stride: state.layout.strides()[0] as i64,
        offset,
        count: y.layout.elements() as u64,
        shift: 0,
        threshold: 0,
        scale: 0.0,
        space: Space::in_order(&axes),
    })
}

/// Launches a kernel in which a thread computes `per_thread` elements.
fn launch(
    call: &Call<'_>,
    variant: KernelFamily,
    kernel: usize,
    per_thread: u64,
    parameters: &Parameters,
) -> Result<()> {
    let blocks = u32::try_from(parameters.count.div_ceil(per_thread * THREADS as u64))
        .map_err(|_| Error::invalid(call.name, "more elements than one launch can process"))?;
    call.gpu.launch(call.name, Launch::new(variant, kernel, blocks, THREADS as u32), parameters)
}

pub(crate) fn run_bits(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::RandomBits(payload) = op else { return Err(Error::invalid(call.name, "is not random_bits")) };
    let mut parameters = parameters(call, &call.outputs[0], &call.inputs[0], payload.offset)?;
    parameters.shift = 32 - u32::from(payload.bits);
    launch(call, KernelFamily::RandomBits, BITS_KERNEL, 4, &parameters)
}

pub(crate) fn run_uniform(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Uniform(payload) = op else { return Err(Error::invalid(call.name, "is not uniform")) };
    let parameters = parameters(call, &call.outputs[0], &call.inputs[0], payload.offset)?;
    launch(call, KernelFamily::Random(payload.dtype), UNIFORM_KERNEL, 4, &parameters)
}

pub(crate) fn run_normal(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Normal(payload) = op else { return Err(Error::invalid(call.name, "is not normal")) };
    let parameters = parameters(call, &call.outputs[0], &call.inputs[0], payload.offset)?;
    launch(call, KernelFamily::Random(payload.dtype), NORMAL_KERNEL, 2, &parameters)
}

pub(crate) fn run_dropout(op: &Op, call: &Call<'_>) -> Result<()> {
    let Op::Dropout(payload) = op else { return Err(Error::invalid(call.name, "is not dropout")) };
    let (x, y) = (&call.inputs[0], &call.outputs[0]);
    let mut parameters = parameters(call, x, &call.inputs[1], payload.offset)?;
    parameters.threshold = payload.threshold();
    parameters.scale = payload.scale();
    let pack = 4 * x.dtype.size() as u64;
    let are_aligned = [parameters.x, parameters.y].iter().all(|address| address.is_multiple_of(pack.min(16)));
    let is_vectorizable = x.layout.is_row_major() && y.layout.is_row_major() && are_aligned;
    let kernel = if is_vectorizable { DROPOUT_LINE_KERNEL } else { DROPOUT_KERNEL };
    launch(call, KernelFamily::Random(x.dtype), kernel, 4, &parameters)
}
