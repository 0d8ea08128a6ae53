//! Writes docs/coverage.md, and the files that it is generated from.

use std::path::{Path, PathBuf};
use ternion_testing::coverage::{self, Coverage};
use ternion_testing::suite;

/// Measures the CPU and reads `results` of other devices, which must contain all parts of a device.
/// Earlier results of all other devices are kept.
pub fn write(root: &Path, results: &[PathBuf], allow_shrink: bool) -> Result<(), String> {
    let folder = root.join("docs");
    let read = results.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let mut fresh = coverage::join_shards(read)?;
    fresh.push(coverage::measure(&suite::targets()[0]));
    let before = coverage::read_folder(&folder)?;
    for found in &fresh {
        let lost =
            before.iter().find(|before| before.device == found.device).map(|before| found.lost(before));
        reject_lost(found, &lost.unwrap_or_default(), allow_shrink)?;
    }
    for found in &fresh {
        coverage::write_file(&folder, found)?;
        println!("{}: {} cases, {} elements compared", found.device, found.cases(), found.compared);
    }
    coverage::write_text(&folder.join("coverage.md"), &coverage::page(&coverage::read_folder(&folder)?))
}

/// Reads the results of a run on another machine. (The CPU is measured here.)
fn read(file: &Path) -> Result<Coverage, String> {
    let with_file = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
    let text = std::fs::read_to_string(file).map_err(|error| with_file(&error))?;
    let found = Coverage::from_json(&text).map_err(|error| with_file(&error))?;
    match found.device.as_str() {
        "cpu" => Err(with_file(&"describes the CPU, which is measured here; expected another device")),
        _ => Ok(found),
    }
}

fn reject_lost(found: &Coverage, lost: &[String], allow_shrink: bool) -> Result<(), String> {
    if lost.is_empty() || allow_shrink {
        return Ok(());
    }
    Err(format!("{} lost support (--allow-shrink writes it):\n{}", found.device, lost.join("\n")))
}
