//! What a check found: how much was compared, what was skipped and why, what failed and how to run it again.

use crate::guarded::Trace;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use ternion_core::DType;

/// The checks that are made of a row. Each is a test of its own for each op and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Outputs against the oracle, in every dtype and memory layout, watched by [`Guarded`](crate::guarded::Guarded).
    Forward,
    /// Outputs against the oracle for inputs that ops get wrong.
    Hostile,
    /// Gradients against central differences of the oracle.
    Backward,
    /// Gradients of gradients against mixed central differences of the oracle.
    Twice,
    /// The compositions of fused ops against the oracle and the fused ops, forward and backward.
    Composed,
    /// Exact messages of calls that must fail.
    Rejects,
}

impl Check {
    /// All of them, in the order in which a row is best understood.
    pub const ALL: [Check; 6] =
        [Check::Forward, Check::Hostile, Check::Backward, Check::Twice, Check::Composed, Check::Rejects];

    /// As printed in test names.
    pub fn name(self) -> &'static str {
        match self {
            Check::Forward => "forward",
            Check::Hostile => "hostile",
            Check::Backward => "backward",
            Check::Twice => "twice",
            Check::Composed => "composed",
            Check::Rejects => "rejects",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One case that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The printed key: op, parameters, shapes, dtype, layout. It is the filter that runs the case again.
    pub key: String,
    /// The device.
    pub device: String,
    /// The check.
    pub check: Check,
    /// What was expected and what came.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {} on {}: {}", self.key, self.check, self.device, self.detail)
    }
}

/// What a check of a row, or of several, found.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Cases that ran.
    pub cases: usize,
    /// Elements compared.
    pub compared: usize,
    /// Dtypes in which something was compared.
    pub dtypes: BTreeSet<&'static str>,
    /// Cases that did not run: the reason, and how many.
    pub skipped: BTreeMap<String, usize>,
    /// Cases that failed.
    pub failures: Vec<Failure>,
    /// What the device was asked.
    pub trace: Trace,
}

impl Outcome {
    /// Adds what another check found.
    pub fn merge(&mut self, other: Outcome) {
        self.cases += other.cases;
        self.compared += other.compared;
        self.dtypes.extend(other.dtypes);
        for (why, count) in other.skipped {
            *self.skipped.entry(why).or_default() += count;
        }
        self.failures.extend(other.failures);
        self.trace.merge(other.trace);
    }

    /// Notes a case that did not run.
    pub fn skip(&mut self, why: impl Into<String>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }

    /// Notes a comparison of `elements` elements in `dtype`.
    pub fn count(&mut self, dtype: DType, elements: usize) {
        self.cases += 1;
        self.compared += elements;
        self.dtypes.insert(dtype.name());
    }

    /// Whether everything that ran was right, and something was compared.
    ///
    /// # Errors
    /// The failures in words, each with the line that runs it again by `command` (`cargo test --test ops`); or that nothing was compared, and why.
    pub fn verdict(&self, command: &str) -> Result<(), String> {
        const SHOWN: usize = 6;
        if self.failures.is_empty() {
            return if self.compared > 0 { Ok(()) } else { Err(self.nothing()) };
        }
        let mut text = format!("{} failures in {} cases", self.failures.len(), self.cases);
        for failure in self.failures.iter().take(SHOWN) {
            text += &format!("\n{failure}\n    again: {command} -- {}", quoted(&failure.key));
        }
        if self.failures.len() > SHOWN {
            text += &format!("\n.. and {} more", self.failures.len() - SHOWN);
        }
        Err(text)
    }
}

impl Outcome {
    fn nothing(&self) -> String {
        let reasons = self.skipped.iter().map(|(why, count)| format!("\n    skipped {count} cases: {why}"));
        format!("nothing was compared{}", reasons.collect::<String>())
    }
}

/// As a shell takes it for one word.
fn quoted(key: &str) -> String {
    format!("'{}'", key.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_that_compared_nothing_fails() {
        let mut outcome = Outcome::default();
        assert!(outcome.verdict("cargo test --test mine").is_err());
        outcome.skip("f16: the device has none");
        let text = outcome.verdict("cargo test --test mine").expect_err("everything was skipped");
        assert_eq!(text, "nothing was compared\n    skipped 1 cases: f16: the device has none");
        outcome.count(DType::F32, 3);
        assert!(outcome.verdict("cargo test --test mine").is_ok());
        let failure = Failure {
            key: "add [2] f32 dense".into(),
            device: "cpu".into(),
            check: Check::Forward,
            detail: "wrong".into(),
        };
        outcome.failures.push(failure);
        let text = outcome.verdict("cargo test --test mine").unwrap_err();
        assert!(text.contains("again: cargo test --test mine -- 'add [2] f32 dense'"), "{text}");
        assert_eq!(quoted("add rejects: it's"), r"'add rejects: it'\''s'");
    }
}
