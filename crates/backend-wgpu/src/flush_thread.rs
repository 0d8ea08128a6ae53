//! A thread that submits batches which have waited too long while the program does something else:
//! queued work starts without another call.
//!
//! The thread sleeps while nothing is queued, and checks every [`MAX_BATCH_DELAY`] while something
//! is.
//!
//! The module also makes the end of the process wait for the devices. Drivers that run in threads
//! of the process (Mesa's software Vulkan) do not survive if the process ends while they work.

use crate::batch::MAX_BATCH_DELAY;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// Whether flush threads may still submit batches. They hold the read lock while they submit. The
/// end of the process sets it to false, because drivers accept no commands after that.
static OPEN: RwLock<bool> = RwLock::new(true);

/// How long the end of the process waits for a batch that is being submitted, and then for the
/// submitted work of a device.
const EXIT_LOCK_TIMEOUT: Duration = Duration::from_secs(1);
const EXIT_WORK_TIMEOUT: Duration = Duration::from_secs(10);

/// The open devices.
static DEVICES: Mutex<Vec<Weak<dyn Flush>>> = Mutex::new(Vec::new());

/// The interface of a device to this thread and to the end of the process.
pub(crate) trait Flush: std::fmt::Debug + Send + Sync {
    /// Submits a batch that has waited too long. If nothing is queued, `asleep` is set before
    /// another batch can begin.
    fn flush_overdue(&self, asleep: &AtomicBool);

    /// Saves the compiled pipelines to disk.
    fn save_pipelines(&self);

    /// Waits for the submitted work, at most for `time`.
    fn finish_within(&self, time: Duration);
}

/// The flush thread of a device.
#[derive(Debug)]
pub(crate) struct FlushThread {
    gpu: Weak<dyn Flush>,
    /// Created with the first batch. `None` if the system cannot create a thread, or if the
    /// interface is GL. Only one thread at a time can hold a GL context, for as long as its work
    /// takes. In both cases a batch waits until the next call submits it.
    thread: OnceLock<Option<Thread>>,
    asleep: Arc<AtomicBool>,
}

impl FlushThread {
    pub(crate) fn of(gpu: Weak<dyn Flush>, backend: wgpu::Backend) -> FlushThread {
        let thread = OnceLock::new();
        if backend == wgpu::Backend::Gl {
            let _ = thread.set(None);
        }
        FlushThread { gpu, thread, asleep: Arc::new(AtomicBool::new(true)) }
    }

    /// Wakes the thread because a batch has its first launch. Must be called while the batch is
    /// locked, because the thread goes to sleep only with that lock held.
    pub(crate) fn wake(&self) {
        let thread = self.thread.get_or_init(|| {
            let (gpu, asleep) = (self.gpu.clone(), self.asleep.clone());
            let spawned =
                thread::Builder::new().name("ternion-wgpu".into()).spawn(move || flush_loop(&gpu, &asleep));
            spawned.ok().map(|handle| handle.thread().clone())
        });
        if let Some(thread) = thread
            && self.asleep.swap(false, Ordering::AcqRel)
        {
            thread.unpark();
        }
    }
}

impl Drop for FlushThread {
    /// Wakes the thread, which ends because the device is gone. The thread is not joined: it may be
    /// the one that drops the device.
    fn drop(&mut self) {
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn flush_loop(gpu: &Weak<dyn Flush>, asleep: &AtomicBool) {
    while gpu.strong_count() > 0 {
        if asleep.load(Ordering::Acquire) {
            thread::park();
            continue;
        }
        thread::sleep(MAX_BATCH_DELAY);
        // The lock is held for longer than the device, because this thread may own the last
        // reference to it.
        let open = OPEN.read();
        match gpu.upgrade() {
            Some(gpu) if *open => gpu.flush_overdue(asleep),
            // The driver has ended and must not be called to free anything.
            Some(gpu) => return std::mem::forget(gpu),
            None => return,
        }
    }
}

/// Makes a software device, which runs on the CPU, compile and run an empty shader. Its compiler
/// creates static objects at first use. Their destructors are then registered before [`at_exit`],
/// and therefore run after it.
pub(crate) fn warm_up(device: &wgpu::Device, queue: &wgpu::Queue) {
    let source = wgpu::ShaderSource::Wgsl("@compute @workgroup_size(1) fn main() {}".into());
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor { label: None, source });
    let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: None,
        layout: None,
        module: &module,
        entry_point: None,
        compilation_options: Default::default(),
        cache: None,
    });
    let mut encoder = device.create_command_encoder(&Default::default());
    let mut pass = encoder.begin_compute_pass(&Default::default());
    pass.set_pipeline(&pipeline);
    pass.dispatch_workgroups(1, 1, 1);
    drop(pass);
    queue.submit([encoder.finish()]);
    // If the device fails here, its first call reports the error.
    let _ = device.poll(wgpu::PollType::wait_indefinitely());
}

/// Makes the end of the process wait for the work of `gpu`.
pub(crate) fn wait_at_exit(gpu: &Arc<dyn Flush>) {
    let mut devices = DEVICES.lock();
    devices.retain(|device| device.strong_count() > 0);
    devices.push(Arc::downgrade(gpu));
    static REGISTERED: Once = Once::new();
    // Functions that are registered last are called first. The driver is loaded already, so its
    // exit functions were registered earlier and run after this one.
    // SAFETY: the function may be called at any time; it does not unwind.
    REGISTERED.call_once(|| unsafe {
        libc::atexit(at_exit);
    });
}

extern "C" fn at_exit() {
    if let Some(mut open) = OPEN.try_write_for(EXIT_LOCK_TIMEOUT) {
        *open = false;
    }
    // Runs on a separate thread: the thread-local values of the thread that ends the process are
    // already destroyed, and wgpu's locks use such values. If no thread can be created, the process
    // does not wait.
    if let Ok(exit_thread) = thread::Builder::new().name("ternion-wgpu-end".into()).spawn(finish_all) {
        let _ = exit_thread.join();
    }
}

fn finish_all() {
    let Some(devices) = DEVICES.try_lock_for(EXIT_LOCK_TIMEOUT) else { return };
    for gpu in devices.iter().filter_map(Weak::upgrade) {
        gpu.finish_within(EXIT_WORK_TIMEOUT);
        // Programs keep devices in statics, which are never dropped.
        gpu.save_pipelines();
        // The driver is about to end and must not be called to free anything.
        std::mem::forget(gpu);
    }
}

#[cfg(test)]
mod tests {
    use crate::WgpuBackend;
    use crate::batch::MAX_BATCH_DELAY;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread::sleep;
    use std::time::{Duration, Instant};
    use ternion_core::{DType, Device, Result, Tensor};

    fn wait_until(condition: impl Fn() -> bool) -> bool {
        let start = Instant::now();
        while !condition() && start.elapsed() < Duration::from_secs(20) {
            sleep(MAX_BATCH_DELAY / 4);
        }
        condition()
    }

    #[test]
    fn queued_work_starts_without_another_call() -> Result<()> {
        let gpu = Gpu::noop(Options::default());
        let device = Device::new(WgpuBackend { gpu: gpu.clone() });
        let x = Tensor::zeros([1000], DType::F32, &device)?;
        // Repeated, so that the thread has gone to sleep in between.
        for _ in 0..3 {
            let before = gpu.launches();
            let _y = x.exp()?;
            assert!(gpu.launches() > before, "exp is a launch");
            assert!(wait_until(|| gpu.pending_launches() == 0), "it still waits");
            assert!(
                wait_until(|| gpu.flush_thread().asleep.load(Ordering::Acquire)),
                "nothing waits, and the thread does not sleep"
            );
        }
        Ok(())
    }

    #[test]
    fn the_thread_ends_with_its_device() -> Result<()> {
        let gpu = Gpu::noop(Options::default());
        let device = Device::new(WgpuBackend { gpu: gpu.clone() });
        let asleep = gpu.flush_thread().asleep.clone();
        drop(Tensor::zeros([1000], DType::F32, &device)?.exp()?);
        assert_eq!(Arc::strong_count(&asleep), 3, "the device's, the thread's, this one");
        drop((gpu, device));
        assert!(wait_until(|| Arc::strong_count(&asleep) == 1), "the thread continues");
        Ok(())
    }
}
