//! Fingerprints of the results, test by test: two builds with equal files computed the same values.
//!
//! With `TERNION_FINGERPRINTS=FOLDER` a run writes `fingerprints-cpu.tsv` and so on, one line per
//! op and check. Results depend on the CPU's instruction set and on the driver, so only files from
//! the same machine can be compared.

use crate::report::{Check, Outcome};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The environment variable that names the folder.
pub const FINGERPRINTS: &str = "TERNION_FINGERPRINTS";

/// Number of cases and fingerprint of each op and check on one device.
#[derive(Clone, Debug, Default)]
pub(super) struct Fingerprints(BTreeMap<String, (usize, u64)>);

impl Fingerprints {
    pub(super) fn add(&mut self, op: &str, check: Check, outcome: &Outcome) {
        let (cases, fingerprint) = self.0.entry(format!("{op}::{check}")).or_default();
        *cases += outcome.cases;
        *fingerprint = fingerprint.wrapping_add(outcome.fingerprint);
    }

    fn text(&self) -> String {
        let mut text = "test\tcases\tfingerprint\n".to_string();
        for (test, (cases, fingerprint)) in &self.0 {
            let _ = writeln!(text, "{test}\t{cases}\t{fingerprint:016x}");
        }
        text
    }

    /// Writes the file of `device` to `folder`, which is created if it does not exist.
    ///
    /// # Errors
    /// What the file system reports, with the path.
    pub(super) fn write(&self, folder: &Path, device: &str) -> Result<PathBuf, String> {
        let kind = device.split(':').next().unwrap_or(device);
        let path = folder.join(format!("fingerprints-{kind}.tsv"));
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, self.text()));
        written.map(|()| path.clone()).map_err(|error| format!("{}: {error}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_sorted_and_rows_of_one_op_are_summed() {
        let mut fingerprints = Fingerprints::default();
        let outcome = |cases, fingerprint| Outcome { cases, fingerprint, ..Outcome::default() };
        fingerprints.add("sub", Check::Forward, &outcome(2, 0xab));
        fingerprints.add("add", Check::Forward, &outcome(1, u64::MAX));
        fingerprints.add("add", Check::Forward, &outcome(3, 2));
        let want = "test\tcases\tfingerprint\nadd::forward\t4\t0000000000000001\nsub::forward\t2\t00000000000000ab\n";
        assert_eq!(fingerprints.text(), want);
    }
}
