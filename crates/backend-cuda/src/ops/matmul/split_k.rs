//! Products whose parts of sums the blocks of a cluster add up (`gemm/wgmma_split_k.cu`).

use super::choice::Choice;
use super::tensor_maps::{OperandMap, batch_axes};
use super::{PRODUCT, Parameters};
use crate::call::Call;
use crate::driver::tensor_map::TensorMap;
use crate::launch::Launch;
use crate::variant::gemm::GemmVariant;
use ternion_core::Result;

/// The parameters, as `SplitKProduct` of the kernel.
#[repr(C)]
struct SplitKParameters {
    maps: [TensorMap; 2],
    product: Parameters,
    fast: u32,
    a_axes: u32,
    b_axes: u32,
}

/// Launches the product of these operands, whose sums the blocks of a cluster add up.
pub(super) fn launch(
    call: &Call<'_>,
    choice: &Choice,
    [a, b]: [OperandMap; 2],
    product: Parameters,
    variant: GemmVariant,
) -> Result<()> {
    let launch = Launch {
        shared: choice.shared as u32,
        cluster: [choice.splits as u8, 1, 1],
        ..Launch::new(variant, PRODUCT, choice.blocks as u32, choice.threads as u32)
    };
    let parameters = SplitKParameters {
        maps: [a.map, b.map],
        fast: batch_axes(&product.batch, 0)[0].0 as u32,
        product,
        a_axes: a.axes,
        b_axes: b.axes,
    };
    call.gpu.launch(call.name, launch, &parameters)
}
