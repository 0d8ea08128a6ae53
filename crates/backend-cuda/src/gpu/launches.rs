//! Launches of kernels that are loaded, cached on disk, or not yet compiled.

use super::Gpu;
use crate::launch::Launch;
use crate::modules::PendingKernel;
use crate::submit::history::LaunchHistory;
use crate::submit::queue::{LaunchError, LaunchErrorReason};
use cudarc::driver::sys;
use std::sync::atomic::Ordering;
use ternion_core::{Error, Result};

/// Bytes of free device memory below which kernels are not loaded in the background. If there is no
/// memory for a kernel, the pool first releases unused segments, which only the op's thread can do.
const MIN_FREE_BYTES: usize = 256 << 20;

impl Gpu {
    /// Queues a kernel of `op`. `params` is its parameter struct.
    #[inline]
    pub(crate) fn launch<P>(&self, op: &'static str, launch: Launch, params: &P) -> Result<()> {
        if launch.grid.contains(&0) {
            return Ok(());
        }
        self.context.bind()?;
        let function = match self.loaded(op, &launch) {
            Some(function) => function?,
            None if self.launch_later(op, &launch, params)? => return Ok(()),
            None => self.load(op, &launch)?,
        };
        let config = launch.config(function, self.overlaps_launches.load(Ordering::Relaxed));
        let is_recording = self.is_recording();
        let at_once = self.env.is_synchronous || is_recording;
        let record = |history: &mut LaunchHistory| history.add_launch(op, &launch, is_recording);
        // SAFETY: the kernel takes one struct by value, which `P` mirrors. The op guarantees the
        // addresses in it: their buffers live until this function returns. After that the memory
        // returns to the pool, which reuses it only for later work in the stream.
        let code = unsafe { self.queue.push(op, config, params, at_once, record) };
        self.check_status(op, code)?;
        self.report(self.queue.take_error_of_this_thread())?;
        if self.env.is_synchronous && !is_recording { self.wait_stream() } else { Ok(()) }
    }

    /// If the kernel must be compiled, passes the launch to the queue, which waits for the
    /// compilation while the program continues. Returns whether the queue has taken the launch.
    #[cold]
    fn launch_later<P>(&self, op: &'static str, launch: &Launch, params: &P) -> Result<bool> {
        let must_wait = self.env.is_synchronous || self.is_recording() || !self.queue.can_wait();
        if must_wait || self.free_bytes()? < MIN_FREE_BYTES {
            return Ok(false);
        }
        // The parameters of optimizer steps do not fit into a slot. Their kernels are compiled in
        // the background too, but the caller waits for them.
        if !self.modules.compile_in_background(launch.variant)? || !self.queue.fits_slot::<P>() {
            return Ok(false);
        }
        let awaited = PendingKernel { modules: self.modules.clone(), op, launch: *launch };
        let config = launch.config(std::ptr::null_mut(), self.overlaps_launches.load(Ordering::Relaxed));
        let record = |history: &mut LaunchHistory| history.add_launch(op, launch, false);
        // SAFETY: as in `launch`.
        unsafe { self.queue.push_awaited(op, config, Box::new(awaited), params, record) };
        self.report(self.queue.take_error_of_this_thread())?;
        Ok(true)
    }

    /// Returns the error of a launch that failed after its op had returned, if there is one.
    #[inline]
    pub(crate) fn check_failed_launches(&self) -> Result<()> {
        self.report(self.queue.take_error_of_any_thread())
    }

    #[inline]
    fn report(&self, launch_error: Option<LaunchError>) -> Result<()> {
        match launch_error {
            None => Ok(()),
            Some(LaunchError { op, reason: LaunchErrorReason::Driver(code), .. }) => {
                self.check_status(op, code)
            }
            Some(LaunchError {
                reason: LaunchErrorReason::Kernel(Error::OutOfMemory { requested, .. }),
                ..
            }) => Err(self.out_of_memory(&self.pool, requested)),
            Some(LaunchError { reason: LaunchErrorReason::Kernel(error), .. }) => Err(error),
        }
    }

    /// Returns the kernel of a launch, if it is loaded, after allowing it the shared memory that
    /// the launch requests.
    #[inline]
    fn loaded(&self, op: &'static str, launch: &Launch) -> Option<Result<sys::CUfunction>> {
        self.modules.with_loaded(&launch.variant, |functions| launch.function(op, functions))
    }

    /// As `loaded`, but loads the kernel now. If there is no memory for it, the pool releases its
    /// unused segments first.
    #[cold]
    fn load(&self, op: &'static str, launch: &Launch) -> Result<sys::CUfunction> {
        let load = || self.modules.with(&launch.variant, |functions| launch.function(op, functions));
        let requested = match load() {
            Err(Error::OutOfMemory { requested, .. }) => requested,
            result => return result,
        };
        self.release_unused();
        load().map_err(|error| match error {
            Error::OutOfMemory { .. } => self.out_of_memory(&self.pool, requested),
            other => other,
        })
    }
}
