//! The op table on the first adapter, where `TERNION_EXPECT` names wgpu, without the rest of the framework: `tests/ops.rs` of the root runs it on all devices
//! in one go.

use std::process::ExitCode;
use ternion_testing::{Target, suite};

fn main() -> ExitCode {
    if !suite::expects("wgpu") {
        println!("not run: {} does not name wgpu", suite::EXPECT);
        return ExitCode::SUCCESS;
    }
    match ternion_wgpu::device(0) {
        Ok(device) => {
            let what = device.downcast().map(ternion_wgpu::WgpuBackend::description).unwrap_or_default();
            let target = Target::new(device.clone()).described(what);
            suite::main("cargo test -p ternion-wgpu --test table", &[target])
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
