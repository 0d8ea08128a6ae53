//! Launch features beyond a grid, each with a minimal kernel that shows that the feature works
//! (`kernels/probe/launch.cu`). These kernels are used by the tests in `tests/kernels/launch.rs`.

use crate::backend::CudaBackend;
use crate::driver::tensor_map::{ALIGNMENT, Axis, Swizzle, TensorMap, TensorMapSpec};
use crate::launch::Launch;
use crate::variant::Variant;
use smallvec::smallvec;
use ternion_core::backend::View;
use ternion_core::{DType, Error, Result};

const OP: &str = "probe";

/// The kernels, in the order of the source.
const TENSOR_MAP: usize = 0;
const CLUSTER: usize = 1;
const DEPENDENT_LAUNCH: usize = 2;

/// Elements of a box along each axis.
pub const BOX: usize = 32;

/// The parameters, like `TensorMapProbe` in the kernels.
#[repr(C)]
struct TensorMapParameters {
    map: TensorMap,
    y: u64,
    row: i32,
    column: i32,
}

/// The parameters, like `ClusterProbe` in the kernels.
#[repr(C)]
struct ClusterParameters {
    sums: u64,
}

/// The parameters, like `DependentProbe` in the kernels.
#[repr(C)]
struct DependentParameters {
    y: u64,
    x: u64,
    count: u32,
}

fn expect(is_met: bool, expected: &str) -> Result<()> {
    if is_met { Ok(()) } else { Err(Error::invalid(OP, format!("expected {expected}"))) }
}

fn launch<P>(backend: &CudaBackend, views: &[&View<'_>], launch: Launch, parameters: &P) -> Result<()> {
    let _guard = backend.gpu.submission_guard();
    backend.gpu.retain(views.iter().map(|view| view.buffer))?;
    backend.gpu.launch(OP, launch, parameters)
}

/// Computes `y[i, j] = x[row + i, column + j]`, a box copied by a tensor map, with 0 outside of x.
/// x is an f32 matrix whose rows begin at multiples of 16 bytes. `column` is also a multiple of 16
/// bytes. y is a contiguous matrix of [`BOX`] rows and columns.
///
/// # Errors
/// The tensors do not meet these conditions, or the device has no tensor maps.
pub fn tensor_map(backend: &CudaBackend, x: &View<'_>, y: &View<'_>, [row, column]: [i32; 2]) -> Result<()> {
    let [rows, columns] = x.layout.shape().to_array(OP)?;
    let strides = x.layout.strides();
    expect([x.dtype, y.dtype] == [DType::F32; 2], "f32")?;
    expect(strides[0] > 0 && strides[1] == 1, "rows of neighboring elements")?;
    expect(y.layout.is_row_major() && y.layout.elements() == BOX * BOX, "room for a box")?;
    let size = DType::F32.size() as u64;
    let offset = i64::from(column) * size as i64;
    expect(offset % ALIGNMENT as i64 == 0, "a column whose offset 16 bytes divide")?;
    let extent = BOX as u32;
    let spec = TensorMapSpec {
        address: backend.gpu.address(OP, x)?,
        dtype: x.dtype,
        rounds_to_tf32: false,
        swizzle: Swizzle::None,
        axes: smallvec![
            Axis { size: columns as u64, stride: size, extent },
            Axis { size: rows as u64, stride: strides[0] as u64 * size, extent },
        ],
    };
    let parameters = TensorMapParameters { map: spec.map(OP)?, y: backend.gpu.address(OP, y)?, row, column };
    launch(backend, &[x, y], Launch::new(Variant::PROBE, TENSOR_MAP, 1, 128), &parameters)
}

/// Computes `sums[block] = block + 1000 * next`, where `next` is the index of the next block in a
/// cluster of `cluster` blocks, read from that block's shared memory. `sums` is contiguous i32 with
/// a multiple of `cluster` elements.
///
/// # Errors
/// The tensor does not meet these conditions, or the device has no clusters.
pub fn cluster(backend: &CudaBackend, sums: &View<'_>, cluster: u8) -> Result<()> {
    expect(sums.dtype == DType::I32 && sums.layout.is_row_major(), "contiguous i32")?;
    let blocks = sums.layout.elements() as u32;
    let parameters = ClusterParameters { sums: backend.gpu.address(OP, sums)? };
    let clusters = Launch { cluster: [cluster, 1, 1], ..Launch::new(Variant::PROBE, CLUSTER, blocks, 32) };
    launch(backend, &[sums], clusters, &parameters)
}

/// Computes `y[i] = x[i] + 1` with a kernel that may begin before the previous one has ended, and
/// that lets the next one begin at once. Both tensors are contiguous i32.
///
/// # Errors
/// The tensors do not meet these conditions, or the device is older than compute capability 9.0.
pub fn dependent_launch(backend: &CudaBackend, x: &View<'_>, y: &View<'_>) -> Result<()> {
    let is_suited = |view: &View<'_>| view.dtype == DType::I32 && view.layout.is_row_major();
    expect(is_suited(x) && is_suited(y), "contiguous i32")?;
    let count = x.layout.elements();
    expect(count == y.layout.elements() && count < 1 << 31, "as many elements on both sides")?;
    let parameters = DependentParameters {
        y: backend.gpu.address(OP, y)?,
        x: backend.gpu.address(OP, x)?,
        count: count as u32,
    };
    let blocks = count.div_ceil(256) as u32;
    launch(backend, &[x, y], Launch::new(Variant::PROBE, DEPENDENT_LAUNCH, blocks, 256), &parameters)
}

/// Sets whether kernels may begin before the previous ones have ended, for tests that compare both.
/// Returns whether they may: never on a device before compute capability 9.0, with a driver before
/// CUDA 12.3 or with `TERNION_CUDA_DEPENDENT_LAUNCHES=0`.
pub fn overlap_launches(backend: &CudaBackend, enable: bool) -> bool {
    backend.gpu.overlap_launches(enable)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn parameters_are_laid_out_as_in_the_kernels() {
        assert_eq!(size_of::<TensorMapParameters>(), 192);
        assert_eq!(offset_of!(TensorMapParameters, map), 0);
        assert_eq!(offset_of!(TensorMapParameters, y), 128);
        assert_eq!(offset_of!(TensorMapParameters, row), 136);
        assert_eq!(offset_of!(TensorMapParameters, column), 140);
        assert_eq!(size_of::<DependentParameters>(), 24);
    }
}
