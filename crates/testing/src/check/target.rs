//! A device under test: what it is compared with, and which checks have it for themselves.

use std::sync::{Arc, Mutex, PoisonError, RwLock};
use ternion_core::Device;

/// A device under test, and the one on which float64 arithmetic shows what rounding costs.
#[derive(Clone, Debug)]
pub struct Target {
    /// The device under test.
    pub device: Device,
    /// A device that has f64.
    pub reference: Device,
    /// What the hardware is, for the coverage page; empty where the device itself tells.
    pub description: String,
    /// Of the same hardware, and not in use: see [`Target::several`].
    free: Arc<Mutex<Vec<Device>>>,
    immediate: bool,
    /// Whether compositions are checked in brief: see [`Target::compositions_in_brief`].
    pub(crate) brief: bool,
}

impl Target {
    /// `device`, with the CPU as reference.
    pub fn new(device: Device) -> Target {
        let (reference, description) = (ternion_cpu::device(), String::new());
        Target { device, reference, description, free: Arc::default(), immediate: false, brief: false }
    }

    /// With further devices of the same hardware and name. A check takes one for itself while there are any, and shares the first where they are taken: where
    /// a device does its work in one thread of the processor, checks in several threads would wait for that one.
    pub fn several(self, others: impl IntoIterator<Item = Device>) -> Target {
        Target { free: Arc::new(Mutex::new(others.into_iter().collect())), ..self }
    }

    /// For a device whose calls return when all is done: what is wrong with the data of one check is not told to another.
    pub fn immediate(self) -> Target {
        Target { immediate: true, ..self }
    }

    /// With functions composed of ops checked on their smallest shapes, in dense memory and few dtypes: for software devices, which compile each op's kernel for
    /// each dtype and layout for minutes.
    pub fn compositions_in_brief(self, brief: bool) -> Target {
        Target { brief, ..self }
    }

    /// What `check` finds on a further device, which no other check has; on the first if all are taken. A device that runs behind the program tells what is
    /// wrong with the data to whoever waits for it next: if it is shared, a check that `provokes` errors runs while no other does.
    pub(crate) fn in_turn<T>(&self, provokes: bool, check: impl FnOnce(&Target) -> T) -> T {
        static TURN: RwLock<()> = RwLock::new(());
        let free = || self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = free().pop();
        let found = match &taken {
            Some(device) => check(&self.on(device.clone())),
            None if self.immediate => check(self),
            None if provokes => {
                let _alone = TURN.write().unwrap_or_else(PoisonError::into_inner);
                check(self)
            }
            None => {
                let _together = TURN.read().unwrap_or_else(PoisonError::into_inner);
                check(self)
            }
        };
        free().extend(taken);
        found
    }

    /// The same with this device alone.
    pub(crate) fn on(&self, device: Device) -> Target {
        Target { device, free: Arc::default(), ..self.clone() }
    }

    /// With what its hardware is called.
    pub fn described(self, description: impl Into<String>) -> Target {
        Target { description: description.into(), ..self }
    }
}
