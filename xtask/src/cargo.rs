//! Runs Cargo as a shell would.

use std::process::Command;

/// Prefixes of the variables with which Cargo describes its package to the programs that it runs.
/// They must be removed: build scripts that read such variables, as that of `ring` does, would run
/// again, and everything that depends on their packages would be recompiled.
const PACKAGE_PREFIXES: [&str; 2] = ["CARGO_MANIFEST_", "CARGO_PKG_"];

/// Returns the Cargo that runs this program, otherwise the one in `PATH`.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if PACKAGE_PREFIXES.iter().any(|start| name.to_string_lossy().starts_with(start)) {
            cargo.env_remove(name);
        }
    }
    cargo
}

#[test]
fn variables_of_this_package_are_not_passed_on() {
    assert!(std::env::var_os("CARGO_PKG_NAME").is_some(), "cargo runs this test");
    let removed = |name: &str| cargo().get_envs().any(|(key, value)| key == name && value.is_none());
    assert!(removed("CARGO_PKG_NAME") && removed("CARGO_MANIFEST_DIR") && !removed("PATH"));
}
