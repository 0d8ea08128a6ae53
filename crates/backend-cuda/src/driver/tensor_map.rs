//! Tensor maps: descriptors with which the Tensor Memory Accelerator (TMA) of compute capability
//! 9.0 and newer copies a box of a tensor to shared memory with one instruction.
//!
//! A kernel takes a map by value, in its parameters: see [`TensorMap`]. The driver encodes it on
//! the host, which takes about as long as all other host work of an op. Because the memory pool
//! returns the same addresses in each step, maps are cached, keyed by everything that they depend
//! on.

use super::{OptionalFunction, check};
use cudarc::driver::sys;
use rustc_hash::{FxBuildHasher, FxHashMap};
use smallvec::SmallVec;
use std::cell::RefCell;
use ternion_core::{DType, Error, Result};

/// The maximum number of axes of a map.
const MAX_RANK: usize = 5;
/// Addresses and strides must be multiples of this, in bytes. The offset of a box along the fastest
/// axis, which the kernel chooses, must be one too: with any other offset, an H100 aborts the
/// kernel with the error illegal instruction.
pub(crate) const ALIGNMENT: u64 = 16;
/// The maximum stride of an axis in bytes; more than the memory of any device.
const MAX_STRIDE: u64 = (1 << 40) - ALIGNMENT;
/// The maximum number of elements of a box along an axis.
const MAX_BOX: u32 = 256;
/// The unit in bytes in which the L2 cache reads a box from memory: 128, the length of a row of a
/// box in matrix products and attention. With 256 a cold cache also reads bytes next to the box,
/// which makes some products slower and none faster (`docs/kernels/matmul.md`, What a tensor map
/// reads).
const PROMOTION: sys::CUtensorMapL2promotion =
    sys::CUtensorMapL2promotion::CU_TENSOR_MAP_L2_PROMOTION_L2_128B;
/// The maximum number of maps that a thread caches.
const MAX_CACHED: usize = 4096;

/// A tensor map as kernels take it: a field of their parameters at a multiple of 64 bytes, usually
/// the first one. The map is valid as long as the address in it.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct TensorMap([u64; 16]);

impl TensorMap {
    /// All zeros, for the parameter of a tensor that the kernel does not read.
    pub(crate) const ABSENT: TensorMap = TensorMap([0; 16]);
}

/// The permutation of the rows of a box in shared memory, which lets kernels read columns without
/// bank conflicts. The number in the name is the maximum length of a row of a box in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(dead_code)] // not every swizzle has a user
pub(crate) enum Swizzle {
    None,
    Bytes32,
    Bytes64,
    Bytes128,
}

impl Swizzle {
    /// Returns the maximum number of bytes of a row of a box, if the swizzle limits it.
    fn span(self) -> Option<usize> {
        match self {
            Swizzle::None => None,
            Swizzle::Bytes32 => Some(32),
            Swizzle::Bytes64 => Some(64),
            Swizzle::Bytes128 => Some(128),
        }
    }

    fn to_driver(self) -> sys::CUtensorMapSwizzle {
        use sys::CUtensorMapSwizzle as Driver;
        match self {
            Swizzle::None => Driver::CU_TENSOR_MAP_SWIZZLE_NONE,
            Swizzle::Bytes32 => Driver::CU_TENSOR_MAP_SWIZZLE_32B,
            Swizzle::Bytes64 => Driver::CU_TENSOR_MAP_SWIZZLE_64B,
            Swizzle::Bytes128 => Driver::CU_TENSOR_MAP_SWIZZLE_128B,
        }
    }
}

/// An axis of a tensor and of the boxes that are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Axis {
    pub(crate) size: u64,
    /// Bytes between adjacent elements; for the first axis, the size of an element.
    pub(crate) stride: u64,
    /// The length of a box along this axis, in elements.
    pub(crate) extent: u32,
}

/// A builder of the axes of a tensor, beginning with the first one. The strides of axes with one
/// element, which are never used, are replaced by valid ones.
pub(crate) struct Axes {
    dtype: DType,
    /// Bytes that the axes added so far cover.
    filled: u64,
}

impl Axes {
    /// Begins with the first axis, which is contiguous: `size` elements, `extent` of them in a box.
    pub(crate) fn beginning(dtype: DType, size: usize, extent: usize) -> (Axes, Axis) {
        let first = Axis { size: size as u64, stride: dtype.size() as u64, extent: extent as u32 };
        (Axes { dtype, filled: (first.size * first.stride).next_multiple_of(ALIGNMENT) }, first)
    }

    /// Adds the next axis: `size` elements, where 0 counts as 1, with a stride of `stride`
    /// elements. If the stride is 0, the axis gets one element.
    pub(crate) fn next(&mut self, size: usize, stride: i64, extent: usize) -> Axis {
        let size = if stride == 0 { 1 } else { size.max(1) as u64 };
        let stride = if size == 1 { self.filled } else { stride as u64 * self.dtype.size() as u64 };
        self.filled = self.filled.max(stride * size);
        Axis { size, stride, extent: extent as u32 }
    }
}

/// Everything that a map depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TensorMapSpec {
    pub(crate) address: u64,
    pub(crate) dtype: DType,
    /// Whether f32 elements are rounded to TF32 by the copy.
    pub(crate) rounds_to_tf32: bool,
    pub(crate) swizzle: Swizzle,
    /// The fastest axis first.
    pub(crate) axes: SmallVec<[Axis; 4]>,
}

impl TensorMapSpec {
    /// Returns the map, from this thread's cache or encoded now.
    ///
    /// # Errors
    /// The hardware cannot copy boxes of this map, or the driver is older than CUDA 12.0.
    pub(crate) fn map(&self, op: &'static str) -> Result<TensorMap> {
        thread_local! {
            static MAPS: RefCell<FxHashMap<TensorMapSpec, TensorMap>> =
                const { RefCell::new(FxHashMap::with_hasher(FxBuildHasher)) };
        }
        MAPS.with_borrow_mut(|maps| {
            if let Some(map) = maps.get(self) {
                return Ok(*map);
            }
            let map = self.encode(op)?;
            // The cache is bounded: a program whose tensors change their addresses must not fill
            // the memory with maps.
            if maps.len() >= MAX_CACHED {
                maps.clear();
            }
            maps.insert(self.clone(), map);
            Ok(map)
        })
    }

    /// Checks that the hardware can copy boxes of this map.
    fn check(&self, op: &'static str) -> Result<()> {
        let fail = |detail: String| Err(Error::invalid(op, format!("tensor map: {detail}")));
        let rank = self.axes.len();
        if !(1..=MAX_RANK).contains(&rank) {
            return fail(format!("expected 1 to {MAX_RANK} axes, got {rank}"));
        }
        if !self.address.is_multiple_of(ALIGNMENT) {
            return fail(format!("expected an address that {ALIGNMENT} divides, got {:#x}", self.address));
        }
        for axis in &self.axes {
            if axis.size == 0 || axis.size > 1 << 32 {
                return fail(format!("expected axes of 1 to 2^32 elements, got {}", axis.size));
            }
            if !(1..=MAX_BOX).contains(&axis.extent) {
                return fail(format!("expected boxes of 1 to {MAX_BOX} elements, got {}", axis.extent));
            }
        }
        for Axis { stride, .. } in &self.axes[1..] {
            if !stride.is_multiple_of(ALIGNMENT) || *stride > MAX_STRIDE {
                let expected = format!("multiples of {ALIGNMENT} bytes, at most {MAX_STRIDE}");
                return fail(format!("expected strides of {expected}, got {stride}"));
            }
        }
        if self.rounds_to_tf32 && self.dtype != DType::F32 {
            return fail(format!("expected f32 to round to TF32, got {}", self.dtype));
        }
        let row = self.axes[0].extent as usize * self.dtype.size();
        if !row.is_multiple_of(ALIGNMENT as usize) {
            return fail(format!("expected rows of a box of multiples of {ALIGNMENT} bytes, got {row}"));
        }
        match self.swizzle.span() {
            Some(span) if row > span => {
                fail(format!("expected rows of a box of at most {span} bytes for this swizzle, got {row}"))
            }
            _ => Ok(()),
        }
    }

    fn data_type(&self) -> sys::CUtensorMapDataType {
        match self.rounds_to_tf32 {
            true => sys::CUtensorMapDataType::CU_TENSOR_MAP_DATA_TYPE_TFLOAT32,
            false => data_type(self.dtype),
        }
    }

    #[cold]
    fn encode(&self, op: &'static str) -> Result<TensorMap> {
        self.check(op)?;
        if !OptionalFunction::TensorMapEncodeTiled.is_available() {
            return Err(Error::invalid(op, "tensor maps need a driver for CUDA 12.0 or newer"));
        }
        let sizes: SmallVec<[u64; MAX_RANK]> = self.axes.iter().map(|axis| axis.size).collect();
        let strides: SmallVec<[u64; MAX_RANK]> = self.axes[1..].iter().map(|axis| axis.stride).collect();
        let extents: SmallVec<[u32; MAX_RANK]> = self.axes.iter().map(|axis| axis.extent).collect();
        let steps = [1_u32; MAX_RANK];
        // The driver's own type: its alignment may be stricter than that of a kernel's parameter.
        let mut map = sys::CUtensorMap { opaque: [0; 16] };
        // SAFETY: the arrays have one integer per axis (one fewer for strides), and the call copies
        // them; the address is not dereferenced.
        let code = unsafe {
            sys::cuTensorMapEncodeTiled(
                &mut map,
                self.data_type(),
                self.axes.len() as u32,
                self.address as *mut std::ffi::c_void,
                sizes.as_ptr(),
                strides.as_ptr(),
                extents.as_ptr(),
                steps.as_ptr(),
                sys::CUtensorMapInterleave::CU_TENSOR_MAP_INTERLEAVE_NONE,
                self.swizzle.to_driver(),
                PROMOTION,
                sys::CUtensorMapFloatOOBfill::CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
            )
        };
        check(op, code).map(|()| TensorMap(map.opaque))
    }
}

/// Returns the driver's type for elements of `dtype`, or unsigned integers of the same size if the
/// driver has no such type, because copies do not interpret the values.
fn data_type(dtype: DType) -> sys::CUtensorMapDataType {
    use sys::CUtensorMapDataType as Driver;
    match dtype {
        DType::F64 => Driver::CU_TENSOR_MAP_DATA_TYPE_FLOAT64,
        DType::F32 => Driver::CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
        DType::F16 => Driver::CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        DType::BF16 => Driver::CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        DType::I64 => Driver::CU_TENSOR_MAP_DATA_TYPE_INT64,
        DType::U64 => Driver::CU_TENSOR_MAP_DATA_TYPE_UINT64,
        DType::U32 => Driver::CU_TENSOR_MAP_DATA_TYPE_UINT32,
        DType::I32 => Driver::CU_TENSOR_MAP_DATA_TYPE_INT32,
        DType::I16 | DType::U16 => Driver::CU_TENSOR_MAP_DATA_TYPE_UINT16,
        DType::I8 | DType::U8 | DType::Bool => Driver::CU_TENSOR_MAP_DATA_TYPE_UINT8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    fn spec() -> TensorMapSpec {
        TensorMapSpec {
            address: 512,
            dtype: DType::BF16,
            rounds_to_tf32: false,
            swizzle: Swizzle::Bytes128,
            axes: smallvec![
                Axis { size: 100, stride: 2, extent: 64 },
                Axis { size: 70, stride: 208, extent: 128 },
            ],
        }
    }

    #[test]
    fn maps_are_aligned_to_64_bytes() {
        #[repr(C)]
        struct Parameters {
            count: u32,
            map: TensorMap,
        }
        assert_eq!((size_of::<TensorMap>(), align_of::<TensorMap>()), (128, 64));
        assert_eq!((std::mem::offset_of!(Parameters, map), size_of::<Parameters>()), (64, 192));
    }

    #[test]
    fn boxes_that_the_hardware_does_not_copy_are_errors() {
        spec().check("test").expect("a box that it copies");
        let wrong = |change: fn(&mut TensorMapSpec), expected: &str| {
            let mut spec = spec();
            change(&mut spec);
            let error = spec.check("test").expect_err(expected).to_string();
            assert!(error.starts_with("test: tensor map: ") && error.contains(expected), "{error}");
        };
        wrong(|spec| spec.address = 520, "an address that 16 divides");
        let strides = "strides of multiples of 16 bytes, at most 1099511627760, got";
        wrong(|spec| spec.axes[1].stride = 202, &format!("{strides} 202"));
        wrong(|spec| spec.axes[1].stride = 1 << 40, &format!("{strides} 1099511627776"));
        wrong(|spec| spec.axes[1].extent = 257, "boxes of 1 to 256 elements, got 257");
        wrong(|spec| spec.axes[0].extent = 128, "at most 128 bytes for this swizzle, got 256");
        wrong(|spec| spec.axes[0].extent = 4, "multiples of 16 bytes, got 8");
        wrong(|spec| spec.axes[0].size = 0, "1 to 2^32 elements, got 0");
        wrong(|spec| spec.rounds_to_tf32 = true, "expected f32 to round to TF32");
        wrong(|spec| spec.axes.clear(), "1 to 5 axes, got 0");
    }

    #[test]
    fn maps_are_distinguished_by_everything_that_they_depend_on() {
        let changes: [fn(&mut TensorMapSpec); 8] = [
            |spec| spec.address = 1024,
            |spec| spec.dtype = DType::F16,
            |spec| spec.rounds_to_tf32 = true,
            |spec| spec.swizzle = Swizzle::None,
            |spec| spec.axes[1].stride = 224,
            |spec| spec.axes[1].size = 71,
            |spec| spec.axes[1].extent = 64,
            |spec| spec.axes.truncate(1),
        ];
        for change in changes {
            let mut changed = spec();
            change(&mut changed);
            assert_ne!(changed, spec());
        }
    }
}
