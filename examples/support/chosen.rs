//! The device of a program of the tutorial, whose only option it is.

use clap::Parser;
use ternion::prelude::*;

/// Prints what it does.
#[derive(Parser, Debug)]
#[command(version)]
struct Arguments {
    /// auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
    #[arg(long, default_value = "auto")]
    device: String,
}

/// The device that `--device` names, else the fastest one there is.
pub fn device() -> Result<Device> {
    ternion::device(&Arguments::parse().device)
}
