//! The op table on every device that is present: forward, backward, double backward, fused against
//! composed, and rejected calls.
//!
//! `cargo test --test ops -- softmax` runs the tests whose names contain that; `cargo test --test
//! ops -- 'softmax axis=1 [7,33] bf16 sliced'` runs every check of the case with that printed key.
//! A filter that matches nothing fails. `TERNION_EXPECT=cpu,cuda` makes a missing device a failure.
//!
//! With the feature `wgpu` it also runs on the first hardware adapter, or on any adapter if
//! `TERNION_EXPECT` names wgpu: `cpu,cuda,wgpu` tests all devices in one run.

use std::process::ExitCode;
use ternion_testing::suite;

/// Without the feature, wgpu is tested only by its own crate.
const OTHERS: &[&str] = if cfg!(feature = "wgpu") { &[] } else { &["wgpu"] };

fn main() -> ExitCode {
    let mut targets = suite::targets();
    match adapter() {
        Ok(adapter) => targets.extend(adapter),
        Err(error) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
    }
    suite::main_excluding(OTHERS, "cargo test --test ops", &targets)
}

/// Returns the first adapter. A software adapter is tested only by the backend's own test unless it
/// is requested: it would take CPU time from all other devices.
#[cfg(feature = "wgpu")]
fn adapter() -> Result<Option<ternion_testing::Target>, String> {
    let first = ternion_wgpu::descriptions().into_iter().next();
    if !suite::expects("wgpu") && first.is_none_or(|first| first.kind == "software") {
        return Ok(None);
    }
    let device = ternion_wgpu::device(0).map_err(|error| error.to_string())?;
    let what = device.downcast().map(ternion_wgpu::WgpuBackend::description).unwrap_or_default().to_string();
    Ok(Some(ternion_testing::Target::new(device).described(what)))
}

#[cfg(not(feature = "wgpu"))]
fn adapter() -> Result<Option<ternion_testing::Target>, String> {
    if suite::expects("wgpu") {
        // Makes clear that this run does not test wgpu.
        eprintln!("wgpu: not tested here, but by: cargo test -p ternion-wgpu --test table");
    }
    Ok(None)
}
