//! The outcome of a check: how much was compared, what was skipped and why, what failed and how to
//! run it again.

use crate::guarded::Trace;
use std::collections::BTreeMap;
use std::fmt;
use ternion_core::DType;

/// The checks of a row. Each is a separate test for each op and device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Check {
    /// Outputs against the oracle, in every dtype and memory layout, under
    /// [`Guarded`](crate::guarded::Guarded).
    Forward,
    /// Outputs against the oracle for adversarial inputs.
    Adversarial,
    /// Gradients against central differences of the oracle.
    Backward,
    /// Second-order gradients against mixed central differences of the oracle.
    DoubleBackward,
    /// The compositions of fused ops against the oracle and the fused ops, forward and backward.
    Composed,
    /// Exact messages of rejected calls.
    Rejects,
}

impl Check {
    /// All checks, starting with those that help most to understand a row.
    pub const ALL: [Check; 6] = [
        Check::Forward,
        Check::Adversarial,
        Check::Backward,
        Check::DoubleBackward,
        Check::Composed,
        Check::Rejects,
    ];

    /// Returns the name as printed in test names.
    pub fn name(self) -> &'static str {
        match self {
            Check::Forward => "forward",
            Check::Adversarial => "adversarial",
            Check::Backward => "backward",
            Check::DoubleBackward => "double_backward",
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

/// A failed case.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The printed key: op, parameters, shapes, dtype, layout. Used as a filter, it runs the case
    /// again.
    pub key: String,
    /// The device.
    pub device: String,
    /// The check.
    pub check: Check,
    /// The expected and the actual result.
    pub detail: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}\n    {} on {}: {}", self.key, self.check, self.device, self.detail)
    }
}

/// The results in one dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Cases that ran and were correct.
    pub cases: usize,
    /// Elements compared in them.
    pub compared: usize,
    /// Cases among them in which core composed an op.
    pub composed: usize,
    /// Cases that are unsupported because the device lacks the dtype.
    pub unsupported: usize,
    /// Cases that are unsupported because the device lacks another dtype, such as the target of a
    /// conversion.
    pub unsupported_other: usize,
}

/// The results of a check of one or several rows.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Cases that ran.
    pub cases: usize,
    /// Elements compared.
    pub compared: usize,
    /// The results by dtype.
    pub dtypes: BTreeMap<&'static str, Tally>,
    /// Cases that did not run: the reason, and how many.
    pub skipped: BTreeMap<String, usize>,
    /// Skipped cases that the device does not support: the reason, and how many.
    pub unsupported: BTreeMap<String, usize>,
    /// Cases that failed.
    pub failures: Vec<Failure>,
    /// The ops that the device was requested to run.
    pub trace: Trace,
    /// A hash of all values that were compared with the oracle, independent of the order of rows.
    /// Rows whose bits may differ between runs are excluded.
    pub fingerprint: u64,
}

impl Outcome {
    /// Adds the results of another check.
    pub fn merge(&mut self, other: Outcome) {
        self.cases += other.cases;
        self.compared += other.compared;
        for (dtype, tally) in other.dtypes {
            let sum = self.dtypes.entry(dtype).or_default();
            sum.cases += tally.cases;
            sum.compared += tally.compared;
            sum.composed += tally.composed;
            sum.unsupported += tally.unsupported;
            sum.unsupported_other += tally.unsupported_other;
        }
        for (reasons, others) in
            [(&mut self.skipped, other.skipped), (&mut self.unsupported, other.unsupported)]
        {
            for (why, count) in others {
                *reasons.entry(why).or_default() += count;
            }
        }
        self.failures.extend(other.failures);
        self.trace.merge(other.trace);
        self.fingerprint = self.fingerprint.wrapping_add(other.fingerprint);
    }

    /// Records a case that did not run.
    pub fn skip(&mut self, why: impl Into<String>) {
        *self.skipped.entry(why.into()).or_default() += 1;
    }

    /// Records a case in `dtype` that did not run because the device does not support it: it lacks
    /// `dtype` itself, or another dtype that the case also needs.
    pub fn record_unsupported(&mut self, dtype: DType, lacks_dtype: bool, why: impl Into<String>) {
        let why = why.into();
        let tally = self.dtypes.entry(dtype.name()).or_default();
        match lacks_dtype {
            true => tally.unsupported += 1,
            false => tally.unsupported_other += 1,
        }
        *self.unsupported.entry(why.clone()).or_default() += 1;
        self.skip(why);
    }

    /// Records a comparison of `elements` elements in `dtype`.
    pub fn count(&mut self, dtype: DType, elements: usize) {
        self.cases += 1;
        self.compared += elements;
        let tally = self.dtypes.entry(dtype.name()).or_default();
        tally.cases += 1;
        tally.compared += elements;
    }

    /// Records that core composed an op in the last counted case in `dtype`.
    pub fn count_composed(&mut self, dtype: DType) {
        self.dtypes.entry(dtype.name()).or_default().composed += 1;
    }

    /// Checks that everything that ran was correct, and that something was compared.
    ///
    /// # Errors
    /// The failures as text, each with the line that runs it again by `command` (`cargo test --test
    /// ops`); or that nothing was compared, and why.
    pub fn verdict(&self, command: &str) -> Result<(), String> {
        const MAX_PRINTED: usize = 6;
        if self.failures.is_empty() {
            return if self.compared > 0 { Ok(()) } else { Err(self.nothing_compared()) };
        }
        let mut text = format!("{} failures in {} cases", self.failures.len(), self.cases);
        for failure in self.failures.iter().take(MAX_PRINTED) {
            text += &format!("\n{failure}\n    again: {command} -- {}", quoted(&failure.key));
        }
        if self.failures.len() > MAX_PRINTED {
            text += &format!("\n.. and {} more", self.failures.len() - MAX_PRINTED);
        }
        Err(text)
    }
}

impl Outcome {
    fn nothing_compared(&self) -> String {
        let reasons = self.skipped.iter().map(|(why, count)| format!("\n    skipped {count} cases: {why}"));
        format!("nothing was compared{}", reasons.collect::<String>())
    }
}

/// Quotes `key` as a single word for a shell.
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
