//! The ladder of matrix products: `y = a b` by thirteen kernels, from a naive one to one with
//! clusters. Each adds one idea to the previous one (`kernels/ladder`,
//! `docs/kernels/gemm-ladder.md`). The ladder is for study and measurement only:
//! [`Tensor::matmul`](ternion_core::Tensor::matmul) never uses these kernels.

use crate::backend::CudaBackend;
use crate::driver::tensor_map::{ALIGNMENT, Axis, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::variant::ladder::LadderVariant;
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::{DType, Error, Result};

pub use crate::variant::ladder::{Rung, Tile};

const OP: &str = "ladder";

/// Columns of a TMA box of an operand: 64 elements of 16 bits are the 128 bytes that the swizzle
/// permits. A box of b has as many rows.
const BOX: usize = 64;
/// The maximum number of blocks of a grid along its second axis.
const MAX_GRID_Y: usize = 65535;

/// The parameters, like `Matrices` in the kernels.
#[repr(C)]
struct Matrices {
    y: u64,
    a: u64,
    b: u64,
    m: u32,
    n: u32,
    k: u32,
}

/// The parameters, like `MappedMatrices` in the kernels.
#[repr(C)]
struct MappedMatrices {
    a: TensorMap,
    b: TensorMap,
    y: u64,
    m: u32,
    n: u32,
    k: u32,
}

/// Returns whether the backend's device has the instructions of this rung.
pub fn runs(backend: &CudaBackend, rung: Rung) -> bool {
    rung.architectures().contain(backend.gpu.architecture())
}

/// Queues `y = a b`, with one of [the tiles](Rung::tiles) of a rung. a `[m, k]`, b `[k, n]` and y
/// `[m, n]` have the rung's [dtype](Rung::dtype) and are contiguous. m, n and k are at least 1, and
/// n and k are multiples of [`Rung::multiple`]. Sums are f32, and are rounded once if y is bf16.
///
/// # Errors
/// The dtypes, shapes, layouts or sizes differ from these; a tensor has 2^31 elements or more; a
/// tensor is not aligned to 16 bytes although the rung uses such accesses; the tile belongs to
/// another rung; or the device lacks the rung's instructions.
pub fn product(
    backend: &CudaBackend,
    rung: Rung,
    tile: &'static Tile,
    [a, b, y]: [&View<'_>; 3],
) -> Result<()> {
    let sizes = sizes(rung, [a, b, y])?;
    let gpu = &backend.gpu;
    let mut addresses = [0; 3];
    for (address, (name, view)) in addresses.iter_mut().zip([("a", a), ("b", b), ("y", y)]) {
        *address = gpu.address(OP, view)?;
        if rung.multiple() > 1 && !address.is_multiple_of(ALIGNMENT) {
            return Err(rejected(
                rung,
                format!("{name} that begins at a multiple of {ALIGNMENT} bytes, got {address:#x}"),
            ));
        }
    }
    let launch = launch(LadderVariant { rung, tile }, sizes, gpu.multiprocessors())?;
    let [m, n, k] = sizes.map(|size| size as u32);
    let [address_a, address_b, address_y] = addresses;
    let _guard = gpu.submission_guard();
    gpu.retain([a, b, y].into_iter().map(|view| view.buffer))?;
    if !rung.uses_tensor_maps() {
        return gpu.launch(OP, launch, &Matrices { y: address_y, a: address_a, b: address_b, m, n, k });
    }
    let parameters = MappedMatrices {
        a: map(address_a, [sizes[2], sizes[0]], [BOX, tile.block[0]])?,
        b: map(address_b, [sizes[1], sizes[2]], [BOX, BOX])?,
        y: address_y,
        m,
        n,
        k,
    };
    gpu.launch(OP, launch, &parameters)
}

fn rejected(rung: Rung, detail: String) -> Error {
    Error::invalid(OP, format!("{}: expected {detail}", rung.name()))
}

/// Returns m, n and k, if the rung supports these tensors.
fn sizes(rung: Rung, views: [&View<'_>; 3]) -> Result<[usize; 3]> {
    for (name, view) in ["a", "b", "y"].into_iter().zip(views) {
        if view.dtype != rung.dtype() {
            return Err(rejected(rung, format!("{name} of {}, got {}", rung.dtype(), view.dtype)));
        }
        if !view.layout.is_contiguous() {
            let strides = view.layout.strides();
            return Err(rejected(rung, format!("{name} row-major without gaps, got strides {strides:?}")));
        }
        if view.layout.elements() >= 1 << 31 {
            let count = view.layout.elements();
            return Err(rejected(rung, format!("{name} of fewer than 2^31 elements, got {count}")));
        }
    }
    let [a, b, y] = views.map(|view| view.layout.shape());
    let ([m, k], [b_k, n]) = (a.to_array(OP)?, b.to_array(OP)?);
    let [rows, columns] = y.to_array(OP)?;
    if b_k != k || [rows, columns] != [m, n] {
        let expected = "a [m, k], b [k, n] and y [m, n]";
        return Err(rejected(
            rung,
            format!("{expected}, got [{m}, {k}], [{b_k}, {n}] and [{rows}, {columns}]"),
        ));
    }
    if m.min(n).min(k) == 0 {
        return Err(rejected(rung, format!("sizes of at least 1, got m {m}, n {n}, k {k}")));
    }
    let multiple = rung.multiple();
    if !n.is_multiple_of(multiple) || !k.is_multiple_of(multiple) {
        return Err(rejected(rung, format!("n and k that {multiple} divides, got n {n}, k {k}")));
    }
    Ok([m, n, k])
}

/// Returns the launch of the rung.
fn launch(variant: LadderVariant, [m, n, _]: [usize; 3], multiprocessors: usize) -> Result<Launch> {
    let LadderVariant { rung, tile } = variant;
    if !rung.tiles().contains(tile) {
        return Err(rejected(rung, format!("its own tile, got {tile}")));
    }
    let [tile_m, tile_n, _] = tile.block;
    let (rows, columns) = (m.div_ceil(tile_m), n.div_ceil(tile_n));
    let cluster = rung.cluster();
    let [x, y] = match rung.is_persistent() {
        true => [(rows.div_ceil(cluster) * columns).min((multiprocessors / cluster).max(1)) * cluster, 1],
        false => [columns, rows],
    };
    if y > MAX_GRID_Y {
        return Err(rejected(rung, format!("at most {MAX_GRID_Y} tiles of {tile_m} rows, got m {m}")));
    }
    Ok(Launch {
        grid: [x as u32, y as u32, 1],
        shared_bytes: tile.shared_bytes() as u32,
        cluster: [cluster as u8, 1, 1],
        ..Launch::new(variant, 0, 1, tile.threads(rung) as u32)
    })
}

/// Returns the tensor map of a row-major matrix, with boxes of `extents` elements: columns, then
/// rows.
fn map(address: u64, [columns, rows]: [usize; 2], extents: [usize; 2]) -> Result<TensorMap> {
    let size = DType::BF16.size() as u64;
    let [extent_columns, extent_rows] = extents.map(|extent| extent as u32);
    TensorMapSpec {
        address,
        dtype: DType::BF16,
        rounds_to_tf32: false,
        swizzle: Swizzle::Bytes128,
        axes: smallvec![
            Axis { size: columns as u64, stride: size, extent: extent_columns },
            Axis { size: rows as u64, stride: columns as u64 * size, extent: extent_rows },
        ],
    }
    .map(OP)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    fn grid(rung: Rung, sizes: [usize; 3]) -> [u32; 3] {
        let variant = LadderVariant { rung, tile: &rung.tiles()[0] };
        launch(variant, sizes, 132).expect("its own tile").grid
    }

    #[test]
    fn parameters_are_laid_out_as_in_the_kernels() {
        assert_eq!((size_of::<Matrices>(), offset_of!(Matrices, m)), (40, 24));
        assert_eq!((size_of::<MappedMatrices>(), offset_of!(MappedMatrices, b)), (320, 128));
        assert_eq!((offset_of!(MappedMatrices, y), offset_of!(MappedMatrices, m)), (256, 264));
    }

    #[test]
    fn grids_cover_the_result() {
        assert_eq!(grid(Rung::Naive, [33, 65, 1]), [3, 2, 1]);
        assert_eq!(grid(Rung::WgmmaTma, [256, 129, 8]), [2, 2, 1]);
        assert_eq!(grid(Rung::WarpSpecialized, [1, 8, 8]), [1, 1, 1]);
        assert_eq!(grid(Rung::WarpSpecialized, [8192, 8192, 64]), [132, 1, 1]);
        // Whole clusters, also for an odd number of tiles along m.
        assert_eq!(grid(Rung::Multicast, [1, 8, 8]), [2, 1, 1]);
        assert_eq!(grid(Rung::Multicast, [384, 512, 64]), [8, 1, 1]);
        assert_eq!(grid(Rung::Multicast, [8192, 8192, 64]), [132, 1, 1]);
    }

    #[test]
    fn tiles_of_other_rungs_and_too_many_rows_are_errors() {
        let variant = LadderVariant { rung: Rung::Multicast, tile: &Rung::WgmmaTma.tiles()[0] };
        let error = launch(variant, [64; 3], 132).expect_err("another rung's").to_string();
        assert_eq!(
            error,
            "ladder: multicast: expected its own tile, got 128x128x64, 128x128 a warpgroup, 3 stages"
        );
        let variant = LadderVariant { rung: Rung::Naive, tile: &Rung::Naive.tiles()[0] };
        let error = launch(variant, [65536 * 32, 1, 1], 132).expect_err("too many rows").to_string();
        assert!(error.contains("at most 65535 tiles of 32 rows, got m 2097152"), "{error}");
    }

    #[test]
    fn no_kernel_of_the_ladder_is_a_variant_of_an_op() {
        let (op_variants, study_variants) = (crate::variants(), crate::study_variants());
        assert!(
            study_variants.len() > Rung::ALL.len()
                && study_variants.iter().all(|variant| !op_variants.contains(variant))
        );
    }
}
