//! A thread that hands over what has waited for long while the program does something else: what is
//! queued begins without another call.
//!
//! It sleeps while nothing waits, and looks every [`LONGEST_WAIT`] while something does.
//!
//! And what the end of the process waits for: drivers that run in threads of it (Mesa's software
//! Vulkan) do not survive being ended while they work.

use crate::batch::LONGEST_WAIT;
use parking_lot::{Mutex, RwLock};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Once, OnceLock, Weak};
use std::thread::{self, Thread};
use std::time::Duration;

/// Read while a batch is handed over; written once, when the process ends: drivers take nothing any
/// more then.
static OPEN: RwLock<bool> = RwLock::new(true);

/// How long the end of the process waits for a batch that is being handed over, and then for what a
/// device was given.
const LAST_WAIT: Duration = Duration::from_secs(1);
const LAST_WORK: Duration = Duration::from_secs(10);

/// The devices that there are.
static DEVICES: Mutex<Vec<Weak<dyn Flush>>> = Mutex::new(Vec::new());

/// A device as this thread and the end of the process see it.
pub(crate) trait Flush: std::fmt::Debug + Send + Sync {
    /// Hands over a batch that has waited for long. If there is none, `asleep` is set before
    /// another one can begin.
    fn flush_overdue(&self, asleep: &AtomicBool);

    /// Keeps what was compiled on disk.
    fn save_pipelines(&self);

    /// Waits for what was submitted, for so long at most.
    fn finish_within(&self, time: Duration);
}

/// The thread of a device.
#[derive(Debug)]
pub(crate) struct FlushThread {
    gpu: Weak<dyn Flush>,
    /// Made with the first batch; none where the system has no more threads or the interface is GL,
    /// of which one thread at a time has the context, for as long as its work takes: batches wait
    /// for the next call then.
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

    /// A batch has got its first launch. To be called while the batch is locked, as the thread
    /// falls asleep only then.
    pub(crate) fn begun(&self) {
        let thread = self.thread.get_or_init(|| {
            let (gpu, asleep) = (self.gpu.clone(), self.asleep.clone());
            let made = thread::Builder::new().name("ternion-wgpu".into()).spawn(move || watch(&gpu, &asleep));
            made.ok().map(|handle| handle.thread().clone())
        });
        if let Some(thread) = thread
            && self.asleep.swap(false, Ordering::AcqRel)
        {
            thread.unpark();
        }
    }
}

impl Drop for FlushThread {
    /// The thread finds no device any more. It is not waited for: it may be the one that drops the
    /// device.
    fn drop(&mut self) {
        if let Some(Some(thread)) = self.thread.get() {
            thread.unpark();
        }
    }
}

fn watch(gpu: &Weak<dyn Flush>, asleep: &AtomicBool) {
    while gpu.strong_count() > 0 {
        if asleep.load(Ordering::Acquire) {
            thread::park();
            continue;
        }
        thread::sleep(LONGEST_WAIT);
        // Held for longer than the device, which this thread may be the last to have.
        let open = OPEN.read();
        match gpu.upgrade() {
            Some(gpu) if *open => gpu.flush_overdue(asleep),
            // The driver has ended, and may not be asked to free anything.
            Some(gpu) => return std::mem::forget(gpu),
            None => return,
        }
    }
}

/// Has a device that is a program on the CPU compile and run a shader that does nothing: its
/// compiler makes static objects when it is first used, whose end is then registered before
/// [`stop`] and comes after it.
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
    // A device that fails here reports it at the first call.
    let _ = device.poll(wgpu::PollType::wait_indefinitely());
}

/// The end of the process waits for what `gpu` was given.
pub(crate) fn wait_at_exit(gpu: &Arc<dyn Flush>) {
    let mut devices = DEVICES.lock();
    devices.retain(|device| device.strong_count() > 0);
    devices.push(Arc::downgrade(gpu));
    static REGISTERED: Once = Once::new();
    // What is registered last is called first: the driver, which is there already, has registered
    // its own end before. SAFETY: the function may be called at any time; it does not unwind.
    REGISTERED.call_once(|| unsafe {
        libc::atexit(stop);
    });
}

extern "C" fn stop() {
    if let Some(mut open) = OPEN.try_write_for(LAST_WAIT) {
        *open = false;
    }
    // On a thread of its own: thread-local values of the thread that ends the process are destroyed
    // by now, and wgpu's locks use such values. Without a thread nothing is waited for.
    if let Ok(last) = thread::Builder::new().name("ternion-wgpu-end".into()).spawn(finish_all) {
        let _ = last.join();
    }
}

fn finish_all() {
    let Some(devices) = DEVICES.try_lock_for(LAST_WAIT) else { return };
    for gpu in devices.iter().filter_map(Weak::upgrade) {
        gpu.finish_within(LAST_WORK);
        // Programs keep devices in statics, which nobody drops.
        gpu.save_pipelines();
        // The driver is about to end, and is not asked to free anything.
        std::mem::forget(gpu);
    }
}

#[cfg(test)]
mod tests {
    use crate::WgpuBackend;
    use crate::batch::LONGEST_WAIT;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::thread::sleep;
    use std::time::{Duration, Instant};
    use ternion_core::{DType, Device, Result, Tensor};

    fn becomes(what: impl Fn() -> bool) -> bool {
        let begun = Instant::now();
        while !what() && begun.elapsed() < Duration::from_secs(20) {
            sleep(LONGEST_WAIT / 4);
        }
        what()
    }

    #[test]
    fn what_is_queued_begins_without_another_call() -> Result<()> {
        let gpu = Gpu::noop(Options::default());
        let device = Device::new(WgpuBackend { gpu: gpu.clone() });
        let x = Tensor::zeros([1000], DType::F32, &device)?;
        // Again after it has fallen asleep.
        for _ in 0..3 {
            let before = gpu.launches();
            let _y = x.exp()?;
            assert!(gpu.launches() > before, "exp is a launch");
            assert!(becomes(|| gpu.waiting() == 0), "it still waits");
            assert!(
                becomes(|| gpu.flush_thread().asleep.load(Ordering::Acquire)),
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
        assert!(becomes(|| Arc::strong_count(&asleep) == 1), "the thread goes on");
        Ok(())
    }
}
