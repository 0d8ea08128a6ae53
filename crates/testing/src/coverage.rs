//! Coverage of the op table on a device: which op runs in which dtype, forward and backward, in how
//! many cases.
//!
//! Each cell is the result of a run, not a claim of a backend. The CPU is measured whenever the
//! page is written ([`measure`]). Other devices may not be available at that time: the table's test
//! program writes their results to a file ([`suite::COVERAGE_OUT`](crate::suite::COVERAGE_OUT)),
//! which is stored next to the page.

mod file;
mod page;
mod shards;

pub use file::{read_folder, write_file, write_text};
pub use page::page;
pub use shards::join_shards;

use crate::check::{Filter, Target, check_row};
use crate::report::{Check, Outcome, Tally};
use crate::suite::{Shard, rows_by_op};
use crate::table::OpCase;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use ternion_core::DType;
use ternion_cuda::CudaBackend;

/// The measured support of one direction of an op in one dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Support {
    /// Nothing to run: no row in this dtype, or the op has no gradient.
    #[default]
    Absent,
    /// The device does not support some of the cases.
    No,
    /// It runs, at least partly as a composition of primitives.
    Composed,
    /// It runs, every op by a kernel of the device.
    Kernels,
}

impl Support {
    fn of(tally: &Tally) -> Support {
        match tally {
            Tally { unsupported: 1.., .. } => Support::No,
            // A case that needs another dtype that the device lacks, such as a conversion to that
            // dtype, does not count for this dtype, unless there are no other cases.
            Tally { compared: 0, unsupported_other: 1.., .. } => Support::No,
            // Empty tensors by themselves do not show support.
            Tally { compared: 0, .. } => Support::Absent,
            Tally { composed: 0, .. } => Support::Kernels,
            _ => Support::Composed,
        }
    }

    /// Returns the lower of two levels of support; `Absent` is ignored.
    fn with(self, other: Support) -> Support {
        if self == Support::Absent || other == Support::Absent { self.max(other) } else { self.min(other) }
    }

    /// Returns whether it runs.
    pub fn runs(self) -> bool {
        self >= Support::Composed
    }
}

/// The coverage of an op in one dtype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The op itself.
    pub forward: Support,
    /// Its gradient.
    pub backward: Support,
}

/// The coverage of one op.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpCoverage {
    /// Cases that ran and were correct.
    pub cases: usize,
    /// Coverage by dtype.
    pub cells: BTreeMap<String, Cell>,
}

/// The coverage of one device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Coverage {
    /// The device's name, such as `cuda:0`.
    pub device: String,
    /// The device's description.
    pub description: String,
    /// A description of what was run.
    pub scope: String,
    /// The shard of the table that was run. The default is the whole table.
    pub shard: Shard,
    /// The number of elements compared.
    pub compared: usize,
    /// Coverage by op.
    pub ops: BTreeMap<String, OpCoverage>,
    /// What the device does not support: reason and number of cases.
    pub unsupported: BTreeMap<String, usize>,
    /// Cases that ran and were wrong.
    pub failures: Vec<String>,
}

impl Coverage {
    /// Creates an empty coverage. `scope` and `shard` describe what is going to be run.
    pub fn new(target: &Target, scope: &str, shard: Shard) -> Coverage {
        Coverage {
            device: target.device.name().to_string(),
            description: describe(target),
            scope: scope.to_string(),
            shard,
            ..Coverage::default()
        }
    }

    /// Adds the outcome of `check` for `op`.
    pub fn record(&mut self, op: &str, check: Check, outcome: &Outcome) {
        let coverage = self.ops.entry(op.to_string()).or_default();
        coverage.cases += outcome.cases - outcome.failures.len();
        for (dtype, tally) in &outcome.dtypes {
            let cell = coverage.cells.entry((*dtype).to_string()).or_default();
            match check {
                Check::Forward => cell.forward = cell.forward.with(Support::of(tally)),
                Check::Backward => cell.backward = cell.backward.with(Support::of(tally)),
                _ => {}
            }
        }
        self.compared += outcome.compared;
        for (why, count) in &outcome.unsupported {
            *self.unsupported.entry(why.clone()).or_default() += count;
        }
        self.failures.extend(outcome.failures.iter().map(ToString::to_string));
    }

    /// Returns the number of cases that ran and were correct.
    pub fn cases(&self) -> usize {
        self.ops.values().map(|op| op.cases).sum()
    }

    fn cell(&self, op: &str, dtype: &str) -> Cell {
        self.ops.get(op).and_then(|op| op.cells.get(dtype)).copied().unwrap_or_default()
    }

    /// Returns what runs according to `before` but not according to this coverage: op, dtype and
    /// direction.
    pub fn lost(&self, before: &Coverage) -> Vec<String> {
        let mut lost = Vec::new();
        for (op, dtype, was) in before.cells() {
            let now = self.cell(op, dtype);
            for (what, was, now) in
                [("forward", was.forward, now.forward), ("backward", was.backward, now.backward)]
            {
                if was.runs() && !now.runs() {
                    lost.push(format!("{op} {dtype}: {what} does not run any more"));
                }
            }
        }
        lost
    }

    /// Returns every op and dtype with its cell.
    pub fn cells(&self) -> impl Iterator<Item = (&str, &str, Cell)> {
        self.ops.iter().flat_map(|(op, coverage)| {
            coverage.cells.iter().map(move |(dtype, &cell)| (op.as_str(), dtype.as_str(), cell))
        })
    }
}

/// Returns a description of the device and its driver.
fn describe(target: &Target) -> String {
    let device = &target.device;
    match device.downcast::<CudaBackend>() {
        _ if !target.description.is_empty() => target.description.clone(),
        Some(cuda) => {
            let version = std::fs::read_to_string("/sys/module/nvidia/version").unwrap_or_default();
            let version = Some(version.trim()).filter(|version| !version.is_empty());
            cuda.description() + &version.map_or(String::new(), |version| format!(" ({version})"))
        }
        None if device.name() == "cpu" => "the host's CPU".to_string(),
        None => String::new(),
    }
}

/// Runs every row on its smallest shapes in every dtype, forward and backward.
pub fn measure(target: &Target) -> Coverage {
    let mut runs = Vec::new();
    for (op, rows) in rows_by_op() {
        for dtype in DType::ALL {
            for row in rows.iter().filter_map(|row| smallest_in(row, dtype)) {
                let backward = row.forward_only.is_none() && row.has_gradient();
                let checks = [Check::Forward, Check::Backward].into_iter().take(1 + usize::from(backward));
                runs.extend(checks.map(|check| (op, check, row.clone())));
            }
        }
    }
    let outcomes =
        in_threads(runs.len(), |index| check_row(&runs[index].2, runs[index].1, target, &Filter::default()));
    let mut coverage = Coverage::new(target, "each row on its smallest shapes", Shard::default());
    for ((op, check, _), outcome) in runs.iter().zip(&outcomes) {
        coverage.record(op, *check, outcome);
    }
    coverage
}

/// Calls `run` with each index below `count` in as many threads as there are CPUs, and returns the
/// results. It does not use Rayon's threads: a check that waits for an op there would start another
/// check within itself, which would overwrite the thread-local state of the first.
fn in_threads<T: Send>(count: usize, run: impl Fn(usize) -> T + Sync) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || -> Vec<(usize, T)> {
        let numbers = std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed));
        numbers.take_while(|&number| number < count).map(|number| (number, run(number))).collect()
    };
    let mut results: Vec<(usize, T)> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, NonZero::get);
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter()
            .flat_map(|thread| thread.join().unwrap_or_else(|cause| resume_unwind(cause)))
            .collect()
    });
    results.sort_by_key(|(number, _)| *number);
    results.into_iter().map(|(_, result)| result).collect()
}

fn smallest_in(row: &OpCase, dtype: DType) -> Option<OpCase> {
    let mut smallest = row.smallest();
    smallest.dtypes = vec![dtype];
    (row.dtypes.contains(&dtype) && !smallest.instances.is_empty()).then_some(smallest)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Returns the coverage of two ops on a device that composes the gradient of one and lacks half
    /// precision.
    pub fn example() -> Coverage {
        let cell = |forward, backward| Cell { forward, backward };
        let exp = [
            ("f64", cell(Support::Kernels, Support::Kernels)),
            ("f32", cell(Support::Kernels, Support::Composed)),
            ("f16", cell(Support::No, Support::No)),
        ];
        let floor = [("f32", cell(Support::Kernels, Support::Absent))];
        let op = |cases, cells: &[(&str, Cell)]| OpCoverage {
            cases,
            cells: cells.iter().map(|(dtype, cell)| ((*dtype).to_string(), *cell)).collect(),
        };
        Coverage {
            device: "cuda:0".into(),
            description: "NVIDIA of \"one\", driver CUDA 13.0".into(),
            scope: "every case of the op table".into(),
            shard: Shard::default(),
            compared: 1234,
            ops: [("exp".into(), op(12, &exp)), ("floor".into(), op(3, &floor))].into(),
            unsupported: [("f16: the device has no f16".into(), 4)].into(),
            failures: Vec::new(),
        }
    }

    #[test]
    fn lost_support_is_named() {
        let before = example();
        assert!(before.lost(&before).is_empty());
        let mut after = before.clone();
        let cells = &mut after.ops.get_mut("exp").expect("it exists").cells;
        cells.get_mut("f64").expect("it exists").backward = Support::Composed;
        assert!(after.lost(&before).is_empty(), "a composition is support too");
        after.ops.get_mut("exp").expect("it exists").cells.get_mut("f32").expect("it exists").backward =
            Support::No;
        after.ops.remove("floor");
        let expected =
            ["exp f32: backward does not run any more", "floor f32: forward does not run any more"];
        assert_eq!(after.lost(&before), expected);
    }

    #[test]
    fn one_unsupported_case_in_a_dtype_is_no_support_and_one_composition_is_reported() {
        let mut coverage = Coverage::default();
        let tally = |composed, unsupported| Tally {
            cases: 5,
            compared: 7,
            composed,
            unsupported,
            unsupported_other: 0,
        };
        let mut outcome = Outcome { cases: 15, compared: 21, ..Outcome::default() };
        outcome.dtypes = [("f64", tally(0, 0)), ("f32", tally(1, 0)), ("f16", tally(0, 1))].into();
        coverage.record("exp", Check::Forward, &outcome);
        coverage.record("exp", Check::DoubleBackward, &outcome);
        let forward = |dtype| coverage.cell("exp", dtype).forward;
        assert_eq!(
            [forward("f64"), forward("f32"), forward("f16")],
            [Support::Kernels, Support::Composed, Support::No]
        );
        assert!(coverage.cells().all(|(.., cell)| cell.backward == Support::Absent));
        assert_eq!((coverage.cases(), coverage.compared), (30, 42));
        // Another row of the op does not change earlier results.
        outcome.dtypes = [("f64", tally(2, 0)), ("f32", tally(0, 0)), ("f16", tally(0, 0))].into();
        coverage.record("exp", Check::Forward, &outcome);
        let forward = |dtype| coverage.cell("exp", dtype).forward;
        assert_eq!(
            [forward("f64"), forward("f32"), forward("f16")],
            [Support::Composed, Support::Composed, Support::No]
        );
    }

    #[test]
    fn an_unsupported_target_of_a_conversion_does_not_affect_its_source_dtype() {
        let mut coverage = Coverage::default();
        let some = Tally { cases: 5, compared: 7, unsupported_other: 2, ..Tally::default() };
        let none = Tally { unsupported_other: 2, ..Tally::default() };
        let outcome = Outcome { dtypes: [("f32", some), ("u8", none)].into(), ..Outcome::default() };
        coverage.record("copy", Check::Forward, &outcome);
        let forward = |dtype| coverage.cell("copy", dtype).forward;
        assert_eq!([forward("f32"), forward("u8")], [Support::Kernels, Support::No]);
    }
}
