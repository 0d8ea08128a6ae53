//! Errors that wgpu reports outside any call: rejected commands, and the loss of the device.

use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The errors of a device.
#[derive(Debug, Default)]
pub(crate) struct DeviceErrors {
    /// Why the device was lost. Permanent.
    lost: OnceLock<String>,
    /// The first error since the last check.
    pending: Mutex<Option<String>>,
    /// Whether either is set. A launch checks only this flag.
    has_error: AtomicBool,
}

impl DeviceErrors {
    /// Registers callbacks on `device` that collect its errors.
    pub(crate) fn register(device: &wgpu::Device) -> Arc<DeviceErrors> {
        let errors = Arc::new(DeviceErrors::default());
        let uncaptured = errors.clone();
        device.on_uncaptured_error(Arc::new(move |error: wgpu::Error| {
            uncaptured.record_error(error.to_string())
        }));
        let lost = errors.clone();
        device.set_device_lost_callback(move |reason, message| {
            lost.set_lost(match reason {
                wgpu::DeviceLostReason::Destroyed => "it was destroyed".into(),
                _ => message,
            });
        });
        errors
    }

    fn record_error(&self, error: String) {
        self.pending.lock().get_or_insert(error);
        self.has_error.store(true, Ordering::Release);
    }

    fn set_lost(&self, why: String) {
        let _ = self.lost.set(why);
        self.has_error.store(true, Ordering::Release);
    }

    /// Fails with the pending error: a rejected command is reported once, a lost device on every
    /// call.
    pub(crate) fn check(&self, device: &wgpu::Device) -> Result<(), String> {
        if !self.has_error.load(Ordering::Acquire) {
            return Ok(());
        }
        // A lost device rejects every command, and reports the loss when it is polled.
        self.free(device);
        if let Some(why) = self.lost.get() {
            return Err(format!("was lost: {why}"));
        }
        self.has_error.store(false, Ordering::Release);
        self.pending.lock().take().map_or(Ok(()), Err)
    }

    /// Waits until the device has completed all submissions.
    pub(crate) fn wait(&self, device: &wgpu::Device) -> Result<(), String> {
        if self.lost.get().is_none() {
            self.poll(device, wgpu::PollType::wait_indefinitely());
        }
        self.check(device)
    }

    /// Like [`DeviceErrors::wait`], but waits at most for `time`.
    pub(crate) fn wait_within(&self, device: &wgpu::Device, time: Duration) {
        if self.lost.get().is_none() {
            self.poll(device, wgpu::PollType::Wait { submission_index: None, timeout: Some(time) });
        }
    }

    /// Frees the resources of finished submissions. Errors are reported later.
    pub(crate) fn free(&self, device: &wgpu::Device) {
        if self.lost.get().is_none() {
            self.poll(device, wgpu::PollType::Poll);
        }
    }

    /// Polls the device. wgpu panics if the wait itself fails, for example because the hardware was
    /// removed: that counts as a lost device.
    fn poll(&self, device: &wgpu::Device, kind: wgpu::PollType) {
        match catch_unwind(AssertUnwindSafe(|| device.poll(kind))) {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => self.record_error(format!("waiting failed: {error}")),
            Err(_) => self.set_lost("waiting for it failed".into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::WgpuBackend;
    use crate::gpu::Gpu;
    use crate::options::Options;
    use std::sync::Arc;
    use ternion_core::{DType, Device, Error, Result, Tensor};
    use ternion_testing::suite;

    /// Returns a device that runs nothing, and the first adapter if `TERNION_EXPECT` names wgpu.
    fn gpus(options: Options) -> Vec<Arc<Gpu>> {
        let mut gpus = vec![Gpu::noop(options)];
        if suite::expects("wgpu") {
            gpus.push(Gpu::open(0, options).expect("TERNION_EXPECT names wgpu"));
        }
        gpus
    }

    fn device(gpu: &Arc<Gpu>) -> Device {
        Device::new(WgpuBackend { gpu: gpu.clone() })
    }

    /// Tries every kind of access to a lost device.
    fn attempts(device: &Device, x: &Tensor) -> Vec<Result<()>> {
        vec![
            x.exp().map(drop),
            Tensor::zeros([1000], DType::F32, device).map(drop),
            Tensor::from_vec(vec![0.0f32; 1000], [1000], device).map(drop),
            x.to_vec::<f32>().map(drop),
            device.synchronize(),
        ]
    }

    #[test]
    fn a_lost_device_fails_every_call() -> Result<()> {
        for gpu in gpus(Options::default()) {
            let device = device(&gpu);
            let x = Tensor::zeros([1000], DType::F32, &device)?;
            let waiting = x.add_scalar(1.0)?;
            gpu.destroy();
            // The loss is noticed at the first wait, and lost results are never read.
            let error = waiting.to_vec::<f32>().expect_err("there is no device");
            assert!(matches!(error, Error::Device { .. }), "{error:?}");
            let elsewhere = std::thread::scope(|scope| {
                scope.spawn(|| attempts(&device, &waiting)).join().expect("no panic")
            });
            for attempt in elsewhere.into_iter().chain(attempts(&device, &x)) {
                let error = attempt.expect_err("there is no device");
                assert!(matches!(error, Error::Device { .. }), "{error:?}");
                assert!(error.to_string().contains("was lost: it was destroyed"), "{error}");
            }
        }
        Ok(())
    }

    #[test]
    fn a_rejected_command_is_the_error_of_the_next_call() -> Result<()> {
        for gpu in gpus(Options::default()) {
            let device = device(&gpu);
            let x = Tensor::zeros([1000], DType::F32, &device)?;
            gpu.cause_error();
            let error = x.exp().expect_err("rejected before");
            assert!(matches!(error, Error::Device { .. }), "{error:?}");
            x.exp()?;
            device.synchronize()?;
        }
        Ok(())
    }

    #[test]
    fn cached_memory_is_released_before_an_allocation_fails() -> Result<()> {
        let options = Options { memory_bytes: Some(1 << 20), ..Options::default() };
        for gpu in gpus(options) {
            let device = device(&gpu);
            let of = |bytes: usize| Tensor::zeros([bytes], DType::U8, &device);
            let kept = of(400_000)?;
            drop((of(300_000)?, of(200_000)?));
            assert!(gpu.memory().cached >= 500_000, "{:?}", gpu.memory());
            // Fits into none of the cached blocks, and not into the remaining memory either.
            let other = of(550_000)?;
            assert!(gpu.memory().cached < 500_000, "{:?}", gpu.memory());
            let error = of(600_000).expect_err("a megabyte in all");
            let Error::OutOfMemory { requested, in_use, .. } = error else { panic!("{error:?}") };
            assert!(requested == 600_000 && (950_000..1 << 20).contains(&in_use), "{requested} {in_use}");
            drop(other);
            of(500_000)?;
            drop(kept);
        }
        Ok(())
    }

    /// Threads allocate and free memory while cached blocks are released.
    #[test]
    fn memory_is_released_while_other_threads_compute() -> Result<()> {
        let options = Options { memory_bytes: Some(1 << 20), ..Options::default() };
        for gpu in gpus(options) {
            let device = device(&gpu);
            std::thread::scope(|scope| {
                let work = |thread: usize| {
                    let device = &device;
                    scope.spawn(move || -> Result<()> {
                        for round in 0..60 {
                            let count = 10_000 + 4_000 * ((round + thread) % 4);
                            let x = Tensor::full([count], 2.0f32, DType::F32, device)?;
                            drop(x.mul_scalar(3.0)?.add(&x)?);
                        }
                        device.synchronize()
                    })
                };
                let threads = [0, 1, 2].map(work);
                threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
            })?;
        }
        Ok(())
    }

    #[test]
    fn a_buffer_above_the_limit_is_out_of_memory() {
        for gpu in gpus(Options::default()) {
            let error = gpu.alloc(1 << 48).expect_err("256 TiB");
            let message = error.to_string();
            assert!(
                matches!(error, Error::OutOfMemory { requested, .. } if requested == 1 << 48),
                "{message}"
            );
        }
    }
}
