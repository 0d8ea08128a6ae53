//! The op table on the first adapter, where `TERNION_EXPECT` names wgpu.

use std::process::ExitCode;
use ternion_testing::{Target, suite};

fn main() -> ExitCode {
    let wanted = std::env::var(suite::EXPECT).unwrap_or_default();
    if !wanted.split(',').any(|name| name.trim() == "wgpu") {
        println!("not run: {} does not name wgpu", suite::EXPECT);
        return ExitCode::SUCCESS;
    }
    match ternion_wgpu::device(0) {
        Ok(device) => suite::main("cargo test -p ternion-wgpu --test table", &[Target::new(device)]),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
