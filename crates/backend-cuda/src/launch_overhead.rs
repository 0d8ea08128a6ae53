//! The time that the driver itself takes to queue a kernel: the part of an op's host time that no
//! framework can avoid.

use crate::driver::check;
use crate::gpu::Gpu;
use cudarc::driver::sys;
use std::ffi::c_void;
use std::time::{Duration, Instant};
use ternion_core::Result;

const OP: &str = "launch_floor";

/// Bytes of the empty kernel's parameters: the parameters of most ops' kernels have a few hundred
/// bytes.
const PARAMETER_BYTES: usize = 256;

/// An empty kernel in PTX, which the driver compiles itself.
const EMPTY_KERNEL: &std::ffi::CStr = c".version 7.0\n.target sm_80\n.address_size 64\n\
    .visible .entry nothing(.param .align 8 .b8 p[256])\n{\n    ret;\n}\n";

impl Gpu {
    /// Returns the time of `launches` launches of an empty kernel, queued by direct calls of the
    /// driver.
    pub(crate) fn launch_floor(&self, launches: usize) -> Result<Duration> {
        let _guard = self.submission_guard();
        self.check_not_recording(OP)?;
        self.wait_stream()?;
        let mut module = std::ptr::null_mut();
        // SAFETY: the source ends with 0; the module is unloaded below, when none of its kernels is
        // running.
        check(OP, unsafe { sys::cuModuleLoadData(&mut module, EMPTY_KERNEL.as_ptr().cast()) })?;
        let mut function = std::ptr::null_mut();
        // SAFETY: the module was loaded, and the name ends with 0.
        let status = unsafe { sys::cuModuleGetFunction(&mut function, module, c"nothing".as_ptr()) };
        let timed = check(OP, status).and_then(|()| self.time_launches(function, launches));
        let ended = self.wait_stream();
        // SAFETY: its kernels have ended, and no other code has its handle.
        let unloaded = check(OP, unsafe { sys::cuModuleUnload(module) });
        let time = timed?;
        ended.and(unloaded).map(|()| time)
    }

    fn time_launches(&self, function: sys::CUfunction, launches: usize) -> Result<Duration> {
        let mut parameters = [0u64; PARAMETER_BYTES / 8];
        let mut arguments = [parameters.as_mut_ptr().cast::<c_void>()];
        let stream = self.stream();
        let start = Instant::now();
        for _ in 0..launches {
            // SAFETY: the kernel takes one struct of this size, and accesses no memory.
            let code = unsafe {
                sys::cuLaunchKernel(
                    function,
                    1,
                    1,
                    1,
                    32,
                    1,
                    1,
                    0,
                    stream,
                    arguments.as_mut_ptr(),
                    std::ptr::null_mut(),
                )
            };
            check(OP, code)?;
        }
        Ok(start.elapsed())
    }
}
