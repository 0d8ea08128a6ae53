//! Writes docs/coverage.md.

use std::path::Path;
use ternion_testing::{coverage, suite};

/// Measures every device that is here; the sections of others stay as they are.
pub fn write(root: &Path, allow_shrink: bool) -> Result<(), String> {
    let path = root.join("docs/coverage.md");
    let mut sections = coverage::sections(&std::fs::read_to_string(&path).unwrap_or_default());
    for target in suite::targets() {
        let found = coverage::measure(&target);
        if !found.failures.is_empty() {
            return Err(format!("{} cases are wrong:\n{}", found.failures.len(), found.failures.join("\n")));
        }
        let section = found.section();
        let before = sections.insert(found.device.clone(), section.clone()).unwrap_or_default();
        let lost = coverage::shrunk(&before, &section);
        if !lost.is_empty() && !allow_shrink {
            return Err(format!(
                "{} lost support (--allow-shrink writes it):\n{}",
                found.device,
                lost.join("\n")
            ));
        }
        println!("{}: {} elements compared", found.device, found.compared);
    }
    std::fs::write(&path, coverage::page(&sections)).map_err(|error| format!("{}: {error}", path.display()))
}
