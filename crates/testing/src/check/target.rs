//! A device under test, its reference device, and the exclusive use of additional devices by
//! checks.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use ternion_core::Device;

/// A device under test, and a reference device on which float64 arithmetic shows the cost of
/// rounding.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device under test.
    pub device: Device,
    /// A device with f64.
    pub reference: Device,
    /// The name of the hardware, for the coverage page; empty if the device itself reports it.
    pub description: String,
    /// Additional devices of the same hardware that no check is using: see [`Target::several`].
    free: Arc<Mutex<Vec<Device>>>,
    /// Whether the device is synchronous: see [`Target::immediate`].
    immediate: bool,
    /// Whether compositions are checked only in part: see [`Target::reduced_compositions`].
    pub(crate) reduced: bool,
}

impl Target {
    /// Creates a target for `device`, with the CPU as reference.
    pub fn new(device: Device) -> Target {
        let (reference, description) = (ternion_cpu::device(), String::new());
        Target { device, reference, description, free: Arc::default(), immediate: false, reduced: false }
    }

    /// Adds devices of the same hardware and name. A check gets exclusive use of one while
    /// any are free, and otherwise shares the first device. Without them, checks in several threads
    /// wait for each other on a device that runs all work in a single CPU thread.
    pub fn several(self, others: impl IntoIterator<Item = Device>) -> Target {
        Target { free: Arc::new(Mutex::new(others.into_iter().collect())), ..self }
    }

    /// Marks the device as synchronous: its calls return after all work is done, so an error in the
    /// data of one check is never reported to another check.
    pub fn immediate(self) -> Target {
        Target { immediate: true, ..self }
    }

    /// Checks functions composed of ops only on their smallest shapes, in dense memory and few
    /// dtypes: for software devices, which take minutes to compile the kernel of each op for each
    /// dtype and layout.
    pub fn reduced_compositions(self, reduced: bool) -> Target {
        Target { reduced, ..self }
    }

    /// Runs `check` with exclusive use of an additional device, or on the first if all are in use.
    /// An asynchronous device reports an error in the data to the next caller that synchronizes.
    /// Therefore a check that provokes errors on a shared device runs while no other check does.
    pub(crate) fn with_device<T>(&self, provokes_errors: bool, check: impl FnOnce(&Target) -> T) -> T {
        static EXCLUSIVE: RwLock<()> = RwLock::new(());
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let free_device = free().pop();
        let result = match &free_device {
            Some(device) => check(&self.on(device.clone())),
            None if self.immediate => check(self),
            None if provokes_errors => {
                let _exclusive = EXCLUSIVE.write().unwrap_or_else(PoisonError::into_inner);
                check(self)
            }
            None => {
                let _shared = EXCLUSIVE.read().unwrap_or_else(PoisonError::into_inner);
                check(self)
            }
        };
        free().extend(free_device);
        result
    }

    /// Returns a copy of this target for `device` only.
    pub(crate) fn on(&self, device: Device) -> Target {
        Target { device, free: Arc::default(), ..self.clone() }
    }

    /// Sets the name of the hardware.
    pub fn described(self, description: impl Into<String>) -> Target {
        Target { description: description.into(), ..self }
    }
}
