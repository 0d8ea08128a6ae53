//! The CUDA device of tests that need one: without one they pass and report that, unless
//! `TERNION_EXPECT` requires it.

use std::io::Write;
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use ternion::Device;
use ternion_testing::suite::{EXPECT, expected_devices};

/// Every test holds a read guard while it runs, so that one test can have exclusive use of the
/// device's memory.
static DEVICE_LOCK: RwLock<()> = RwLock::new(());

/// Returns a guard for shared use, when no test needs the device exclusively.
pub fn lock_shared() -> RwLockReadGuard<'static, ()> {
    // A failed test leaves no inconsistent state.
    DEVICE_LOCK.read().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a guard for exclusive use, when no other test uses the device.
#[allow(dead_code)] // used by only one of the programs that include this file
pub fn lock_exclusive() -> RwLockWriteGuard<'static, ()> {
    DEVICE_LOCK.write().unwrap_or_else(PoisonError::into_inner)
}

/// Opens the first CUDA device as a new device; `None` if there is none.
///
/// # Panics
/// If `TERNION_EXPECT` names a device that is not available.
pub fn cuda() -> Option<Device> {
    let opened = ternion_cuda::device(0);
    let mut present = vec!["cpu".to_string()];
    present.extend(opened.as_ref().map(|device| device.name().to_string()));
    // Other devices are checked by tests/ops.rs.
    let required = std::env::var(EXPECT).unwrap_or_default();
    let required: Vec<&str> = required.split(',').filter(|name| !name.trim().starts_with("wgpu")).collect();
    if let Err(missing) = expected_devices(&required.join(","), &present) {
        panic!("{missing}{}", opened.err().map_or_else(String::new, |error| format!(": {error}")));
    }
    opened.map_err(|error| print_once(&error.to_string())).ok()
}

/// Prints once, bypassing the test harness, which captures the output of passing tests.
fn print_once(why: &str) {
    static PRINTED: Once = Once::new();
    PRINTED.call_once(|| {
        // If stderr is closed, the message is dropped.
        let _ = writeln!(std::io::stderr(), "not tested on CUDA: {why}");
    });
}
