//! Runs the op table on the first adapter, if `TERNION_EXPECT` names wgpu, without the rest of the
//! framework. `tests/ops.rs` of the root runs it on all devices in one process.

use std::process::ExitCode;
use ternion_core::{Device, Result};
use ternion_testing::{Target, suite};

/// Maximum number of devices: each needs memory.
const DEVICES: usize = 8;

/// Number of processes in which the table runs on a software device: Mesa's compiler keeps some MiB
/// for each shader until its device is closed, and the whole table needs thousands of shaders.
const PARTS: usize = 6;

fn main() -> ExitCode {
    if !suite::expects("wgpu") {
        println!("not run: {} does not name wgpu", suite::EXPECT);
        return ExitCode::SUCCESS;
    }
    let parts = if first_is_software() { PARTS } else { 1 };
    let command = "cargo test -p ternion-wgpu --test table";
    suite::main_sharded(&["cpu", "cuda"], command, parts, || target().map_err(|error| error.to_string()))
}

fn first_is_software() -> bool {
    ternion_wgpu::descriptions().first().is_some_and(|first| first.kind == "software")
}

/// Software Vulkan compiles and runs the work of a device in a single thread, so each of the tests
/// that run at the same time has a separate device. Hardware would only switch between them.
fn target() -> Result<Target> {
    let device = ternion_wgpu::device(0)?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let devices = if first_is_software() { threads.min(DEVICES) } else { 1 };
    let others: Result<Vec<Device>> = (1..devices).map(|_| ternion_wgpu::device(0)).collect();
    let description =
        device.downcast().map(ternion_wgpu::WgpuBackend::description).unwrap_or_default().to_string();
    let brief = first_is_software() && !suite::is_full_table();
    Ok(Target::new(device).described(description).several(others?).reduced_compositions(brief))
}
