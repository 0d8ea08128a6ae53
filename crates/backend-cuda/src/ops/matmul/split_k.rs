//! Products with split-K whose partial sums are added by the blocks of a cluster
//! (`gemm/wgmma_split_k.cu`).

use super::choice::Choice;
use super::tensor_maps::{OperandMap, batch_axes};
use super::tile_grid::TileGrid;
use super::{PRODUCT, Parameters};
use crate::call::Call;
use crate::driver::tensor_map::TensorMap;
use crate::launch::Launch;
use crate::variant::gemm::GemmVariant;
use ternion_core::Result;

/// The parameters, like `SplitKProduct` in the kernel.
#[repr(C)]
struct SplitKParameters {
    maps: [TensorMap; 2],
    tiles: TileGrid,
    k: u32,
    split_length: u32,
    a_batch_axes: u32,
    b_batch_axes: u32,
    reads_b_once: u32,
    product: Parameters,
}

/// Launches the product of these operands, whose partial sums are added by the blocks of a cluster.
pub(super) fn launch(
    call: &Call<'_>,
    choice: &Choice,
    [a, b]: [OperandMap; 2],
    product: Parameters,
    variant: GemmVariant,
) -> Result<()> {
    let launch = Launch {
        shared_bytes: choice.shared_bytes as u32,
        cluster: [choice.splits as u8, 1, 1],
        ..Launch::new(variant, PRODUCT, choice.blocks as u32, choice.threads as u32)
    };
    // The splits of a tile are the blocks of one cluster.
    let (block, inner_batch) = (choice.tile.block, batch_axes(&product.batch, 0)[0].0);
    let [m, n, matrices] = [product.m, product.n, product.matrices].map(|size| size as usize);
    let parameters = SplitKParameters {
        maps: [a.map, b.map],
        tiles: TileGrid::new([m, n], [block.m, block.n], matrices, 1, inner_batch),
        k: product.k,
        split_length: product.split_length,
        a_batch_axes: a.axes,
        b_batch_axes: b.axes,
        reads_b_once: u32::from(m <= block.m && matrices == 1),
        product,
    };
    call.gpu.launch(call.name, launch, &parameters)
}
