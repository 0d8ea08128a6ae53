//! The files of kernels that were compiled in their current version: kernels/compiled.tsv has a
//! line for each file and architecture with a digest of everything that determines the compiler's
//! report and the checks of the machine code. Compiling every kernel takes one CPU half an hour, so
//! unchanged files are not compiled each time.
//!
//! The list is written by a run that compiled everything without a spill or a warning. A run that
//! relies on it still compiles a sample, which differs whenever any kernel changes.

use crate::kernels::{Task, tasks};
use crate::waits;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use ternion_cuda::{nvrtc, options};

/// One of this many variants of a known file is compiled anyway.
const SAMPLE: usize = 16;

const HEADER: &str = "file\tarchitecture\tvariants\tsha256 of sources, options and compiler";

/// The digest of each file of kernels on an architecture.
#[derive(Debug, Default, PartialEq)]
pub struct Known(BTreeMap<(String, String), (usize, String)>);

/// Returns the root file that a variant is compiled from, and the architecture.
fn key_of((variant, architecture): &Task) -> (String, String) {
    (variant.source().file.to_string(), architecture.clone())
}

fn list(root: &Path) -> PathBuf {
    root.join("kernels").join("compiled.tsv")
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

impl Known {
    /// Computes the digests of the current kernels with the installed compiler.
    ///
    /// # Errors
    /// There is no compiler.
    pub fn now(architectures: &[String]) -> Result<Known, String> {
        let (major, minor) = nvrtc::version().map_err(|error| error.to_string())?;
        let mut digests: BTreeMap<(String, String), (usize, Sha256)> = BTreeMap::new();
        for task in tasks(architectures)? {
            let (count, digest) = digests.entry(key_of(&task)).or_default();
            *count += 1;
            let (variant, architecture) = task;
            let source = variant.source();
            let options = options(&architecture).join(" ");
            let program = source.program();
            let compiler = format!("{major}.{minor}");
            let checks = if architecture == waits::ARCHITECTURE { waits::CHECKS } else { "" };
            let context = [source.name.as_str(), options.as_str(), compiler.as_str(), checks];
            for text in context.into_iter().chain(program.digest_parts()) {
                digest.update(text.len().to_le_bytes());
                digest.update(text.as_bytes());
            }
            source.kernels.iter().for_each(|kernel| digest.update(kernel.as_bytes()));
        }
        let finish = |(key, (count, digest)): (_, (usize, Sha256))| (key, (count, hex(&digest.finalize())));
        Ok(Known(digests.into_iter().map(finish).collect()))
    }

    /// Reads the list; it is empty if there is no file.
    ///
    /// # Errors
    /// The file is not such a list.
    pub fn read(root: &Path) -> Result<Known, String> {
        let path = list(root);
        match std::fs::read_to_string(&path) {
            Ok(text) => Known::parse(&text).ok_or_else(|| {
                format!("{}: expected lines of file, architecture, variants, digest", path.display())
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Known::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    fn parse(text: &str) -> Option<Known> {
        let mut lines = text.lines();
        if lines.next() != Some(HEADER) {
            return None;
        }
        let entry = |line: &str| {
            let [file, architecture, variants, digest] =
                line.split('\t').collect::<Vec<_>>().try_into().ok()?;
            let key = (file.to_string(), architecture.to_string());
            Some((key, (variants.parse().ok()?, digest.to_string())))
        };
        lines.map(entry).collect::<Option<_>>().map(Known)
    }

    fn text(&self) -> String {
        let line = |((file, architecture), (variants, digest)): (&(String, String), &(usize, String))| {
            format!("{file}\t{architecture}\t{variants}\t{digest}\n")
        };
        format!("{HEADER}\n{}", self.0.iter().map(line).collect::<String>())
    }

    /// Replaces the list's entries of these architectures by these digests.
    ///
    /// # Errors
    /// The file is not such a list, or cannot be written.
    pub fn write(self, root: &Path, architectures: &[String]) -> Result<(), String> {
        let mut all = Known::read(root)?;
        all.0.retain(|(_, architecture), _| !architectures.contains(architecture));
        all.0.extend(self.0);
        let path = list(root);
        std::fs::write(&path, all.text()).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Returns what is to be compiled, given the list `listed`: all variants of other files, and a
    /// sample of the rest.
    pub fn to_compile(&self, listed: &Known, tasks: Vec<Task>) -> Vec<Task> {
        let salt = Sha256::digest(self.text());
        let first = usize::from(salt[0]) % SAMPLE;
        let mut known = 0;
        let mut must_compile = |task: &Task| {
            let key = key_of(task);
            if self.0.get(&key) != listed.0.get(&key) {
                return true;
            }
            known += 1;
            (known + first).is_multiple_of(SAMPLE)
        };
        tasks.into_iter().filter(|task| must_compile(task)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known(entries: &[(&str, &str)]) -> Known {
        let entry = |&(file, digest): &(&str, &str)| {
            ((file.to_string(), "sm_80".to_string()), (2, digest.to_string()))
        };
        Known(entries.iter().map(entry).collect())
    }

    #[test]
    fn a_list_is_read_as_it_is_written() {
        let listed = known(&[("sort.cu", "ab"), ("step.cu", "cd")]);
        assert_eq!(Known::parse(&listed.text()), Some(listed));
        assert_eq!(Known::parse(""), None);
        assert_eq!(Known::parse(&format!("{HEADER}\nsort.cu\tsm_80\tmany\tab\n")), None);
    }

    #[test]
    fn files_that_changed_are_compiled_and_a_sample_of_the_others() {
        let all = tasks(&["sm_80".to_string()]).expect("an architecture");
        let files: std::collections::BTreeSet<String> = all.iter().map(|task| key_of(task).0).collect();
        let entries: Vec<(&str, &str)> = files.iter().map(|file| (file.as_str(), "as it was")).collect();
        let listed = known(&entries);
        let sample = listed.to_compile(&listed, all.clone());
        assert!(sample.len().abs_diff(all.len() / SAMPLE) <= 1, "{} of {}", sample.len(), all.len());
        let changed: Vec<(&str, &str)> = entries
            .iter()
            .map(|&(file, digest)| (file, if file == "ops/reduce.cu" { "changed" } else { digest }))
            .collect();
        let of_reduce =
            |tasks: &[Task]| tasks.iter().filter(|task| key_of(task).0 == "ops/reduce.cu").count();
        let compiled = known(&changed).to_compile(&listed, all.clone());
        assert_eq!(of_reduce(&compiled), of_reduce(&all), "all of a file that changed");
        assert!(of_reduce(&all) > 0 && compiled.len() < all.len() / 4);
        assert_eq!(listed.to_compile(&Known::default(), all.clone()).len(), all.len(), "without a list");
    }
}
