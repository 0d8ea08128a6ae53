//! The device, the program and the date of a measurement, for pages that show its results.

use crate::device::hardware;
use serde_json::{Value, json};
use std::path::Path;
use ternion::Device;

/// Returns the device, the program and the date of a measurement:
/// `{"device", "driver", "commit", "date"}`, null where unknown.
pub fn of(device: &Device) -> std::result::Result<Value, String> {
    let program = std::env::current_exe().map_err(|error| format!("the path of this program: {error}"))?;
    // The same query as in the scripts of `benches/peers`.
    let drivers = output_of("nvidia-smi", &["--query-gpu=driver_version", "--format=csv,noheader"]);
    Ok(json!({
        "device": hardware(device),
        "driver": drivers.and_then(|drivers| drivers.lines().next().map(|line| line.trim().to_string())),
        "commit": bundled_commit(program.parent().unwrap_or(Path::new("")))?,
        "date": output_of("date", &["-u", "+%Y-%m-%d %H:%M UTC"]),
    }))
}

/// Returns the commit of the bundle in `folder`; `None` if there is no bundle.
///
/// # Errors
/// Those of [`commit_of`].
fn bundled_commit(folder: &Path) -> std::result::Result<Option<String>, String> {
    let manifest = folder.join("bundle.json");
    if manifest.exists() { commit_of(&manifest).map(Some) } else { Ok(None) }
}

/// Returns the commit that a bundle's manifest names.
///
/// # Errors
/// The manifest cannot be read, or names no commit.
pub fn commit_of(manifest: &Path) -> std::result::Result<String, String> {
    let text = std::fs::read_to_string(manifest).map_err(|error| crate::file_error(manifest, &error))?;
    let found: Value =
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", manifest.display()))?;
    let missing =
        || format!("{}: expected a text as \"commit\", got {}", manifest.display(), found["commit"]);
    found["commit"].as_str().map(str::to_string).ok_or_else(missing)
}

/// Returns the output of a program; `None` if it is missing or fails.
fn output_of(program: &str, arguments: &[&str]) -> Option<String> {
    let output = std::process::Command::new(program).args(arguments).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).trim().to_string();
    (output.status.success() && !text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commits_are_those_of_the_bundle() {
        let folder = crate::temporary("provenance");
        std::fs::create_dir_all(&folder).expect("a folder");
        let of = |text: &str| {
            std::fs::write(folder.join("bundle.json"), text).expect("a file");
            bundled_commit(&folder)
        };
        assert_eq!(bundled_commit(&folder), Ok(None), "no bundle");
        assert_eq!(of(r#"{"commit": "abc1234 with changes"}"#), Ok(Some("abc1234 with changes".into())));
        let message = of("{}").expect_err("rejected");
        assert!(message.ends_with("bundle.json: expected a text as \"commit\", got null"), "{message}");
        assert!(of("commit").expect_err("rejected").contains("bundle.json: expected"));
        std::fs::remove_dir_all(&folder).expect("a folder");
    }

    #[test]
    fn it_has_device_driver_commit_and_date() {
        let run = of(&ternion_cpu::device()).expect("JSON");
        let keys: Vec<&String> = run.as_object().expect("an object").keys().collect();
        assert_eq!(keys, ["commit", "date", "device", "driver"]);
        let date = run["date"].as_str().expect("a date");
        assert_eq!((date.len(), &date[4..5], &date[16..]), ("2026-01-01 00:00 UTC".len(), "-", " UTC"));
    }
}
