//! Strided copies and casts.

use super::elementwise::{self, Operand};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::space::{Divisor, Space};
use crate::variant::elementwise::ElementwiseVariant;
use crate::variant::{KernelFamily, bits_like};
use smallvec::SmallVec;
use ternion_core::backend::View;
use ternion_core::geometry::sort_slowest_first;
use ternion_core::{MAX_RANK, Op, Result};

/// Threads of a row of a tile, as in the kernels.
const SIDE: usize = 32;
/// Rows of threads, as in the kernels.
const ROWS: usize = 8;
/// Packs per thread along y's fastest axis.
const DEPTH: usize = 2;

/// The minimum number of elements along both axes of a tile for which tiles are faster than single
/// elements.
const MIN_SIDE: usize = 8;

/// The parameters; mirrors `Transposition` in the kernels. `i` is the fastest axis of x, `j` that
/// of y.
#[repr(C)]
struct Parameters {
    x: u64,
    y: u64,
    i_count: u32,
    j_count: u32,
    x_stride: i64,
    y_stride: i64,
    i_tiles: Divisor,
    j_tiles: Divisor,
    batch: Space<2>,
}

pub(crate) fn run_copy(_: &Op, call: &Call<'_>) -> Result<()> {
    copy(call.gpu, call.name, &call.inputs[0], &call.outputs[0])
}

/// Copies `x` to `y`, which has the same shape; casts if their dtypes differ.
pub(crate) fn copy(gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<()> {
    let operands = [Operand::Tensor(x), Operand::Absent, Operand::Absent];
    if x.dtype != y.dtype
        && let Some(variant) = ElementwiseVariant::cast(x.dtype, y.dtype)
    {
        return elementwise::launch(gpu, op, variant, y, operands, [0; 2]);
    }
    match copy_transposed(gpu, op, x, y)? {
        true => Ok(()),
        false => {
            let variant = ElementwiseVariant::Move(bits_like(x.dtype));
            elementwise::launch(gpu, op, variant, y, operands, [0; 2])
        }
    }
}

/// Copies in tiles, if the fastest axes of `x` and `y` differ and are long enough. Returns whether
/// it did.
fn copy_transposed(gpu: &Gpu, op: &'static str, x: &View<'_>, y: &View<'_>) -> Result<bool> {
    let rank = y.layout.shape().rank();
    let dim = |axis: usize| y.layout.shape().dim(axis);
    let fastest_axis =
        |view: &View<'_>| (0..rank).find(|&axis| view.layout.strides()[axis] == 1 && dim(axis) > 1);
    let (Some(i), Some(j)) = (fastest_axis(x), fastest_axis(y)) else { return Ok(false) };
    if i == j || dim(i) < MIN_SIDE || dim(j) < MIN_SIDE || y.layout.elements() >= super::INDEX_LIMIT {
        return Ok(false);
    }
    let stride = |view: &View<'_>, axis: usize| view.layout.strides()[axis] as i64;
    let mut batch: SmallVec<[(usize, [i64; 2]); MAX_RANK]> = (0..rank)
        .filter(|&axis| axis != i && axis != j)
        .map(|axis| (dim(axis), [stride(x, axis), stride(y, axis)]))
        .collect();
    sort_slowest_first(&mut batch, 1);
    let (x_address, y_address) = (gpu.address(op, x)?, gpu.address(op, y)?);
    // Elements of a 32-bit word.
    let vector = (4 / x.dtype.size()).max(1);
    let is_multiple = |count: usize| count.is_multiple_of(vector);
    let is_packed = vector > 1
        && [x_address, y_address].iter().all(|address| address.is_multiple_of(4))
        && is_multiple(dim(i))
        && is_multiple(dim(j))
        && batch
            .iter()
            .flat_map(|(_, strides)| strides)
            .all(|stride| is_multiple(stride.unsigned_abs() as usize))
        && [stride(x, j), stride(y, i)].iter().all(|stride| is_multiple(stride.unsigned_abs() as usize));
    let tile = if is_packed { SIDE * vector } else { SIDE };
    let (i_tiles, j_tiles) = (dim(i).div_ceil(tile), dim(j).div_ceil(tile * DEPTH));
    let blocks = i_tiles * j_tiles * batch.iter().map(|(size, _)| size).product::<usize>();
    let parameters = Parameters {
        x: x_address,
        y: y_address,
        i_count: dim(i) as u32,
        j_count: dim(j) as u32,
        x_stride: stride(x, j),
        y_stride: stride(y, i),
        i_tiles: Divisor::new(i_tiles),
        j_tiles: Divisor::new(j_tiles),
        batch: Space::in_order(&batch),
    };
    let variant = KernelFamily::Transpose(bits_like(x.dtype));
    let launch = Launch {
        block: [SIDE as u32, ROWS as u32, 1],
        ..Launch::new(variant, usize::from(is_packed), blocks as u32, 0)
    };
    gpu.launch(op, launch, &parameters)?;
    Ok(true)
}
