//! Profiles one benchmark case under Nsight Compute, on a machine that has it.
//! `ternion-bench profile` does the work, which also works in a bundle.

use crate::bundle::output;
use std::path::Path;
use std::process::Command;

/// Profiles `case` and writes to `out`, or to docs/profiles.
pub fn run(root: &Path, case: &str, out: Option<&Path>) -> Result<(), String> {
    let commit = output(
        Command::new("git").args(["describe", "--always", "--dirty", "--abbrev=10"]).current_dir(root),
        "git",
    )?;
    let out = out.map_or_else(|| root.join("docs/profiles"), Path::to_path_buf);
    let mut bench = crate::cargo::cargo();
    bench.current_dir(root).args(["run", "--release", "--quiet", "--package", "ternion-bench", "--"]);
    bench.args(["profile", case, "--commit", commit.trim(), "--out"]).arg(out);
    let status = bench.status().map_err(|error| format!("cargo run: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{case} was not profiled: {status}")) }
}
