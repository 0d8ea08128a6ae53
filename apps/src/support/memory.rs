//! Checks whether a model and its steps fit into memory. If they do not, the operating system kills
//! the program without a message; this check reports it before.

use crate::support::program::Outcome;
use std::fs;
use ternion::prelude::*;

/// Bytes per parameter in training: the value, its gradient and two moments of the optimizer, f32.
pub const TRAINED_BYTES: f64 = 16.0;

/// Checks that `bytes`, a lower bound of what is needed, are available on the CPU. `sizes` are the
/// options that determine it, with their values, for the message.
///
/// Other devices report out of memory themselves.
pub fn check(device: &Device, bytes: f64, sizes: &str) -> Outcome<()> {
    let is_on_host = device.name().contains("cpu");
    match available_memory().filter(|&free| is_on_host && bytes > free) {
        Some(free) => {
            let [bytes, free] = [bytes, free].map(|count| format!("{:.1} GB", count / 1e9));
            Err(format!("{sizes}: takes at least {bytes}, and {free} of memory are free").into())
        }
        None => Ok(()),
    }
}

/// Returns the bytes that this program can still allocate, as reported by Linux; `None` elsewhere.
fn available_memory() -> Option<f64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let kilobytes = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
        line.trim().strip_suffix(" kB")?.parse::<f64>().ok()
    };
    let system_free = 1024.0 * (kilobytes("MemAvailable")? + kilobytes("SwapFree").unwrap_or(0.0));
    // The limit of a container; the word `max` if there is none.
    let container_limit =
        fs::read_to_string("/sys/fs/cgroup/memory.max").ok().and_then(|text| text.trim().parse().ok());
    Some(container_limit.map_or(system_free, |limit: f64| limit.min(system_free)))
}

/// Returns a lower bound of the bytes of a transformer that is trained on `windows` windows per
/// step; 0 windows if it only generates text.
pub fn gpt_bytes(config: &GPTConfig, windows: usize) -> f64 {
    let [vocabulary, context, layers, width] =
        [config.vocabulary, config.context, config.layers, config.width].map(|size| size as f64);
    let parameters = (vocabulary + context) * width + layers * 12.0 * width * width;
    if windows == 0 {
        return parameters * 4.0;
    }
    // Saved per token for the backward pass: queries, keys, values, the attention output, and the
    // feed-forward layer of four times the width; and its logits.
    let token_bytes = 4.0 * (layers * 8.0 * width + vocabulary);
    parameters * TRAINED_BYTES + windows as f64 * context * token_bytes
}
