//! Launches: what the driver needs to launch a kernel, in addition to its parameters.

use super::OptionalFunction;
use super::stream::Stream;
use cudarc::driver::sys;
use std::ffi::c_void;

/// Attributes of a launch beyond grid, block and shared memory. They need compute capability 9.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LaunchAttributes {
    /// Blocks of a cluster along each axis. Each axis of the grid must be a multiple of it.
    pub(crate) cluster: [u8; 3],
    /// Whether the kernel may begin before the previous one has ended. The kernel then waits for
    /// the previous one itself, by `griddepcontrol.wait` (programmatic dependent launch).
    pub(crate) is_dependent: bool,
}

impl LaunchAttributes {
    /// No attributes, as every device supports.
    pub(crate) const NONE: LaunchAttributes = LaunchAttributes { cluster: [1; 3], is_dependent: false };

    /// Returns the attributes as the driver takes them, and their count.
    fn to_driver(self) -> ([sys::CUlaunchAttribute; 2], u32) {
        // SAFETY: plain data; all zeros is an attribute that the driver ignores.
        let mut attributes: [sys::CUlaunchAttribute; 2] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        if self.cluster != [1; 3] {
            let [x, y, z] = self.cluster.map(u32::from);
            attributes[count].id = sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
            attributes[count].value.clusterDim = sys::CUlaunchAttributeValue_union__bindgen_ty_1 { x, y, z };
            count += 1;
        }
        if self.is_dependent {
            attributes[count].id =
                sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
            attributes[count].value.programmaticStreamSerializationAllowed = 1;
            count += 1;
        }
        (attributes, count as u32)
    }
}

/// The launch configuration of a kernel, without its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LaunchConfig {
    pub(crate) function: sys::CUfunction,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    /// Bytes of dynamic shared memory.
    pub(crate) shared_bytes: u32,
    pub(crate) attributes: LaunchAttributes,
}

impl Stream {
    /// Queues a kernel.
    ///
    /// # Safety
    /// `parameters` points to the struct that the kernel takes. The buffers at its addresses are
    /// reused only in the order of the stream.
    #[inline]
    pub(crate) unsafe fn launch_kernel(
        &self,
        config: &LaunchConfig,
        parameters: *mut c_void,
    ) -> sys::CUresult {
        if self.context.bind().is_err() {
            return sys::CUresult::CUDA_ERROR_INVALID_CONTEXT;
        }
        if config.attributes != LaunchAttributes::NONE {
            // SAFETY: the caller guarantees the parameters.
            return unsafe { self.launch_with_attributes(config, parameters) };
        }
        let mut arguments = [parameters];
        let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
        // SAFETY: the caller guarantees the parameters, one struct by value; the stream lives as
        // long as this.
        unsafe {
            sys::cuLaunchKernel(
                config.function,
                gx,
                gy,
                gz,
                bx,
                by,
                bz,
                config.shared_bytes,
                self.handle,
                arguments.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        }
    }

    /// As [`Stream::launch_kernel`], for a launch with attributes.
    ///
    /// # Safety
    /// As [`Stream::launch_kernel`].
    unsafe fn launch_with_attributes(&self, config: &LaunchConfig, parameters: *mut c_void) -> sys::CUresult {
        if !OptionalFunction::LaunchKernelEx.is_available() {
            return sys::CUresult::CUDA_ERROR_NOT_SUPPORTED;
        }
        let (mut attributes, count) = config.attributes.to_driver();
        let ([gx, gy, gz], [bx, by, bz]) = (config.grid, config.block);
        let launch = sys::CUlaunchConfig {
            gridDimX: gx,
            gridDimY: gy,
            gridDimZ: gz,
            blockDimX: bx,
            blockDimY: by,
            blockDimZ: bz,
            sharedMemBytes: config.shared_bytes,
            hStream: self.handle,
            attrs: attributes.as_mut_ptr(),
            numAttrs: count,
        };
        let mut arguments = [parameters];
        // SAFETY: as for a launch without attributes; the attributes live until the call returns,
        // which copies them.
        unsafe {
            sys::cuLaunchKernelEx(&launch, config.function, arguments.as_mut_ptr(), std::ptr::null_mut())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_converted_to_those_of_the_driver() {
        use sys::CUlaunchAttributeID as Id;
        let of = |cluster, is_dependent| LaunchAttributes { cluster, is_dependent }.to_driver();
        assert_eq!(LaunchAttributes::NONE.to_driver().1, 0);
        let (attributes, count) = of([2, 1, 1], true);
        assert_eq!(count, 2);
        assert_eq!(attributes[0].id, Id::CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION);
        // SAFETY: the attribute's id determines this field of the union.
        let cluster = unsafe { attributes[0].value.clusterDim };
        assert_eq!([cluster.x, cluster.y, cluster.z], [2, 1, 1]);
        assert_eq!(attributes[1].id, Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
        // SAFETY: as for the cluster.
        assert_eq!(unsafe { attributes[1].value.programmaticStreamSerializationAllowed }, 1);
        let (attributes, count) = of([1; 3], true);
        assert_eq!(count, 1);
        assert_eq!(attributes[0].id, Id::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION);
    }

    #[test]
    fn the_launch_configuration_is_small() {
        assert_eq!(size_of::<LaunchConfig>(), 40, "a slot copies it for every launch");
    }
}
