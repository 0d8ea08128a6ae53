//! The CUDA device of tests that need one: where there is none they pass and say so, unless `TERNION_EXPECT` asks for it.

use std::io::Write;
use std::sync::{Once, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use ternion::Device;
use ternion_testing::suite::{EXPECT, expected_devices};

/// Held by every test while it runs, so that one can have the device's memory to itself.
static BESIDE_OTHERS: RwLock<()> = RwLock::new(());

/// Once nobody wants the device alone.
pub fn beside() -> RwLockReadGuard<'static, ()> {
    // A test that failed has left nothing half done there.
    BESIDE_OTHERS.read().unwrap_or_else(PoisonError::into_inner)
}

/// Once no other test is on the device, and none comes.
#[allow(dead_code)] // only one of the programs that include this file asks for it
pub fn alone() -> RwLockWriteGuard<'static, ()> {
    BESIDE_OTHERS.write().unwrap_or_else(PoisonError::into_inner)
}

/// The first CUDA device, opened anew; none where there is none.
///
/// # Panics
/// Where `TERNION_EXPECT` names a device that is not there.
pub fn cuda() -> Option<Device> {
    let opened = ternion_cuda::device(0);
    let mut present = vec!["cpu".to_string()];
    present.extend(opened.as_ref().map(|device| device.name().to_string()));
    // Whether other devices are there, tests/ops.rs tells.
    let asked = std::env::var(EXPECT).unwrap_or_default();
    let asked: Vec<&str> = asked.split(',').filter(|name| !name.trim().starts_with("wgpu")).collect();
    if let Err(missing) = expected_devices(&asked.join(","), &present) {
        panic!("{missing}{}", opened.err().map_or_else(String::new, |error| format!(": {error}")));
    }
    opened.map_err(|error| tell_once(&error.to_string())).ok()
}

/// Past the test harness, which keeps what passing tests print to itself.
fn tell_once(why: &str) {
    static TOLD: Once = Once::new();
    TOLD.call_once(|| {
        // Without a stream for errors there is nobody to tell.
        let _ = writeln!(std::io::stderr(), "not tested on CUDA: {why}");
    });
}
