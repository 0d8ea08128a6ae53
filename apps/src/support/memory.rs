//! Whether the sizes of a model and its steps fit into memory. Where they do not, a system kills the program without a word; here it is told before.

use crate::support::program::Outcome;
use std::fs;
use ternion::prelude::*;

/// Of a parameter in training: the value, its gradient and two moments of the optimiser, f32.
pub const TRAINED_BYTES: f64 = 16.0;

/// That `bytes`, the least that it takes, are there on the processor. `sizes` are the options that decide it, with their values, for the message.
///
/// Other devices refuse what does not fit by themselves.
pub fn check(device: &Device, bytes: f64, sizes: &str) -> Outcome<()> {
    let is_on_host = device.name().contains("cpu");
    match free().filter(|&free| is_on_host && bytes > free) {
        Some(free) => {
            let [bytes, free] = [bytes, free].map(|count| format!("{:.1} GB", count / 1e9));
            Err(format!("{sizes}: takes at least {bytes}, and {free} of memory are free").into())
        }
        None => Ok(()),
    }
}

/// Bytes of memory that this program can still have, as Linux tells them; `None` elsewhere.
fn free() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    let of_system = 1024.0 * (kilobytes("MemAvailable")? + kilobytes("SwapFree").unwrap_or(0.0));
    // The limit of a container; a word where there is none.
    let of_container =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(of_container.map_or(of_system, |limit: f64| limit.min(of_system)))
}

/// The least bytes that a transformer takes whose steps learn `windows` windows; 0 if it only writes.
pub fn of_gpt(config: &GPTConfig, windows: usize) -> f64 {
    let [vocabulary, context, layers, width] =
        [config.vocabulary, config.context, config.layers, config.width].map(|size| size as f64);
    let parameters = (vocabulary + context) * width + layers * 12.0 * width * width;
    if windows == 0 {
        return parameters * 4.0;
    }
    // Kept of each token for backward: queries, keys, values and what attention makes of them, and the four times wider layer; and its scores.
    let of_token = 4.0 * (layers * 8.0 * width + vocabulary);
    parameters * TRAINED_BYTES + windows as f64 * context * of_token
}
