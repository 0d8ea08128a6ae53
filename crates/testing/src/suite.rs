//! The op table as a test program: one test for each op, check and device, and the guards on the
//! table itself.
//!
//! A backend outside of this repository runs it on its own device:
//!
//! ```no_run
//! # fn my_device() -> ternion_core::Device { ternion_cpu::device() }
//! // tests/ops.rs, with `harness = false` in Cargo.toml
//! fn main() -> std::process::ExitCode {
//!     ternion_testing::suite::main("cargo test --test ops", &[ternion_testing::Target::new(my_device())])
//! }
//! ```

mod fingerprints;
mod guards;
mod shard;

pub use fingerprints::FINGERPRINTS;
pub use guards::{every_op_has_a_row, expected_devices, reached, table_errors};
pub use shard::{SHARD, Shard};

use crate::check::{Filter, GUARD, NOTHING_FUSED, Target, check_row, is_unguarded, keys, skips_all_cases};
use crate::coverage::{self, Coverage};
use crate::report::{Check, Outcome};
use crate::table::{OpCase, table};
use fingerprints::Fingerprints;
use guards::guards;
use libtest_mimic::{Arguments, Conclusion, Failed, Trial};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use ternion_core::Device;

/// The environment variable that lists the required devices: `TERNION_EXPECT=cpu,cuda`.
pub const EXPECT: &str = "TERNION_EXPECT";

/// The environment variable that names a folder for the results of a run of the whole table, one
/// file for each device: `coverage-cuda.json` and so on, for `cargo xtask coverage --results`. With
/// [`SHARD`], one file for each device and part; `--results` accepts all of them.
pub const COVERAGE_OUT: &str = "TERNION_COVERAGE_OUT";

/// The environment variable that selects how much of the table runs. `TERNION_TABLE=smallest`
/// selects only the smallest shapes of each row; `TERNION_TABLE=brief` also reduces the checks of
/// compositions. Both are for tools that make programs a hundred times slower, such as
/// compute-sanitizer. `TERNION_TABLE=whole` checks compositions fully where they would otherwise be
/// checked in brief.
pub const TABLE: &str = "TERNION_TABLE";

/// Returns whether this program runs all of its tests and only reports their results. Only such a
/// run can be split into processes.
fn is_plain_run() -> bool {
    let is_requested =
        [SHARD, COVERAGE_OUT, FINGERPRINTS].iter().any(|name| std::env::var_os(name).is_some());
    !is_requested && std::env::args_os().count() == 1
}

/// Runs [`main_excluding`]. If all tests of this program are requested, they run in `shards`
/// processes, one after another: for devices that use more memory with each kernel until their
/// process ends. `target` opens the device.
pub fn main_sharded(
    others: &[&str],
    command: &'static str,
    shards: usize,
    target: impl FnOnce() -> Result<Target, String>,
) -> ExitCode {
    if shards > 1 && is_plain_run() {
        return match (1..=shards).try_for_each(|shard| run_shard(shard, shards)) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("error: {error}");
                ExitCode::FAILURE
            }
        };
    }
    match target() {
        Ok(target) => main_excluding(others, command, &[target]),
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program for one shard, and prints its output.
fn run_shard(shard: usize, count: usize) -> Result<(), String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    println!("part {shard} of {count}");
    let ended = std::process::Command::new(program).env(SHARD, format!("{shard}/{count}")).status();
    match ended.map_err(|error| error.to_string())? {
        status if status.success() => Ok(()),
        status => Err(format!("part {shard} of {count}: {status}")),
    }
}

/// The scope of a run of the whole table, as stated in its results.
const FULL_TABLE: &str = "every case of the op table";
/// The scope of a run on the smallest shapes.
const SMALLEST: &str = "each row of the op table on its smallest shapes";

/// Returns whether [`EXPECT`] names this device, without its index.
pub fn expects(device: &str) -> bool {
    let requested = std::env::var(EXPECT).unwrap_or_default();
    requested.split(',').any(|name| name.trim().split(':').next() == Some(device))
}

/// Returns whether all rows run completely, including those of compositions on a software device:
/// if [`TABLE`] says so, and for a coverage page.
pub fn is_full_table() -> bool {
    std::env::var(TABLE).is_ok_and(|value| value == "whole") || std::env::var_os(COVERAGE_OUT).is_some()
}

/// Returns whether each row runs only on its smallest shapes: see [`TABLE`].
pub fn smallest_only() -> bool {
    std::env::var(TABLE).is_ok_and(|value| value == "smallest") || is_reduced()
}

/// Returns whether compositions are checked in brief on every device.
fn is_reduced() -> bool {
    std::env::var(TABLE).is_ok_and(|value| value == "brief")
}

/// Returns every device of this project that is present on this machine, the CPU first.
pub fn targets() -> Vec<Target> {
    let mut targets = vec![Target::new(ternion_cpu::device()).immediate()];
    targets.extend(cuda().ok().map(Target::new));
    targets
}

/// Returns the first CUDA device. It is opened once, because its kernels and memory belong to it.
fn cuda() -> Result<Device, String> {
    static CUDA: OnceLock<Result<Device, String>> = OnceLock::new();
    CUDA.get_or_init(|| ternion_cuda::device(0).map_err(|error| error.to_string())).clone()
}

/// Returns why devices that this project supports are not among [`targets`], one line for each.
pub fn absent() -> Vec<String> {
    cuda().err().into_iter().collect()
}

/// Runs the table on `targets` with the options of the command line. `command` is the command that
/// runs this program (`cargo test --test ops`): it is printed with each failure.
///
/// A test that would skip all of its cases is shown as ignored, and the reasons are counted at the
/// end. The filter is text in a test's name (`softmax::backward::cpu`), as in any test program; or
/// the printed key of a case (`softmax axis=1 [7,33] bf16 sliced`), which then runs in every check
/// that has it; or text in keys, starting at a word. A filter that matches nothing is an error, and
/// so is a run that compares nothing.
pub fn main(command: &'static str, targets: &[Target]) -> ExitCode {
    run(command, targets, &std::env::var(EXPECT).unwrap_or_default())
}

/// Runs [`main`] when other programs test some devices. `others` are the names of these devices
/// without their index; they are ignored in [`EXPECT`].
pub fn main_excluding(others: &[&str], command: &'static str, targets: &[Target]) -> ExitCode {
    run(command, targets, &expected_here(&std::env::var(EXPECT).unwrap_or_default(), others))
}

/// Removes from `requested` the devices that other programs test.
fn expected_here(requested: &str, others: &[&str]) -> String {
    let device = |name: &str| name.trim().split(':').next().unwrap_or_default().to_string();
    let remaining: Vec<&str> =
        requested.split(',').filter(|name| !others.contains(&device(name).as_str())).collect();
    remaining.join(",")
}

fn run(command: &'static str, targets: &[Target], expected: &str) -> ExitCode {
    run_requested(command, targets, expected).unwrap_or_else(|error| {
        eprintln!("error: {error}");
        ExitCode::FAILURE
    })
}

/// Runs what the command line and the environment request.
fn run_requested(command: &'static str, targets: &[Target], expected: &str) -> Result<ExitCode, String> {
    let mut arguments = Arguments::from_args();
    let shard = Shard::from_env(std::env::var(SHARD).ok().as_deref())?;
    let present: Vec<String> = targets.iter().map(|target| target.device.name().to_string()).collect();
    // Checked with every filter: a required device must not be skipped silently.
    expected_devices(expected, &present)?;
    let folder = std::env::var_os(COVERAGE_OUT);
    if folder.is_some() && (arguments.filter.is_some() || !arguments.skip.is_empty() || arguments.ignored) {
        return Err(format!("{COVERAGE_OUT} is for the whole table: run it without a filter"));
    }
    if folder.is_some() && (smallest_only() || is_unguarded()) {
        return Err(format!(
            "{COVERAGE_OUT} is for the whole table, watched: run it without {TABLE} and {GUARD}"
        ));
    }
    let run = Run::new(command, shard);
    let trials = run.requested_trials(guards(targets, expected), targets, &mut arguments)?;
    for why in absent() {
        println!("not tested: {why}");
    }
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        return Ok(conclusion.exit_code());
    }
    let written = folder.map_or(Ok(()), |folder| run.write(Path::new(&folder), &conclusion));
    let written = written.and_then(|()| match std::env::var_os(FINGERPRINTS) {
        Some(folder) => run.write_fingerprints(Path::new(&folder)),
        None => Ok(()),
    });
    run.summary(&conclusion).and(written).map(|()| conclusion.exit_code())
}

/// Returns the names of the `requested` tests that are shown as ignored on `targets` because they
/// would skip every case.
pub fn ignored(targets: &[Target], requested: &dyn Fn(&str) -> bool) -> Vec<String> {
    let trials = Run::new("", Shard::default()).row_trials(targets, requested);
    trials.iter().filter(|trial| trial.has_ignored_flag()).map(|trial| trial.name().to_string()).collect()
}

/// Returns the filter for `text`. A complete key selects only its case.
fn key_filter(text: String) -> Filter {
    let is_key = |row: &OpCase| Check::ALL.iter().any(|&check| keys(row, check).contains(&text));
    if table().iter().any(is_key) { Filter::Key(text) } else { Filter::Text(text) }
}

/// The state that all tests of a run share.
#[derive(Clone)]
struct Run {
    command: &'static str,
    shard: Shard,
    /// By device.
    results: Arc<Mutex<BTreeMap<String, DeviceResults>>>,
}

/// The results of a run on a device.
struct DeviceResults {
    totals: Outcome,
    coverage: Coverage,
    fingerprints: Fingerprints,
}

/// One check of some rows on a device.
struct Test {
    rows: Vec<OpCase>,
    check: Check,
    target: Target,
    filter: Filter,
}

fn print_totals(device: &str, totals: &Outcome) {
    println!(
        "{device}: {} cases, {} elements compared, {} ops watched; fingerprint of the results {:016x}",
        totals.cases, totals.compared, totals.trace.runs, totals.fingerprint
    );
    let by_dtype: Vec<String> =
        totals.dtypes.iter().map(|(dtype, tally)| format!("{} in {dtype}", tally.cases)).collect();
    println!("  of them {}", by_dtype.join(", "));
    for (why, count) in &totals.skipped {
        println!("  skipped {count:>6} cases: {why}");
    }
    println!();
}

/// Returns the rows, those of compositions reduced (see [`OpCase::reduced`]).
fn reduced(rows: &[OpCase]) -> Vec<OpCase> {
    rows.iter().map(|row| if row.composition { row.reduced() } else { row.clone() }).collect()
}

/// Returns whether `check` applies to any of `rows`.
fn applies(check: Check, rows: &[OpCase]) -> bool {
    rows.iter().any(|row| match check {
        Check::Forward => true,
        Check::Adversarial => !row.adversarial.is_empty(),
        Check::Backward => row.forward_only.is_none() && row.has_gradient(),
        Check::DoubleBackward => row.double_backward,
        Check::Composed => !row.instances.is_empty(),
        Check::Rejects => !row.rejects.is_empty(),
    })
}

/// Returns the rows of the table by op, in the table's order.
pub fn rows_by_op() -> Vec<(&'static str, Vec<OpCase>)> {
    let mut groups: Vec<(&'static str, Vec<OpCase>)> = Vec::new();
    for row in table() {
        match groups.iter_mut().find(|(op, _)| *op == row.op) {
            Some((_, rows)) => rows.push(row),
            None => groups.push((row.op, vec![row])),
        }
    }
    groups
}

impl Run {
    fn new(command: &'static str, shard: Shard) -> Run {
        Run { command, shard, results: Arc::default() }
    }

    fn results(&self) -> MutexGuard<'_, BTreeMap<String, DeviceResults>> {
        self.results.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the results of `test` on its device.
    fn record(&self, test: &Test, outcome: Outcome) {
        let device = &test.target.device;
        let mut all = self.results();
        let results = all.entry(device.name().to_string()).or_insert_with(|| DeviceResults {
            totals: Outcome::default(),
            fingerprints: Fingerprints::default(),
            coverage: Coverage::new(
                &test.target,
                if smallest_only() { SMALLEST } else { FULL_TABLE },
                self.shard,
            ),
        });
        if let Some(row) = test.rows.first() {
            results.coverage.record(row.op, test.check, &outcome);
            results.fingerprints.add(row.op, test.check, &outcome);
        }
        results.totals.merge(outcome);
    }

    /// Prints how much was compared on each device.
    ///
    /// # Errors
    /// If nothing was compared.
    fn summary(&self, conclusion: &Conclusion) -> Result<(), String> {
        let all = self.results();
        all.iter().for_each(|(device, results)| print_totals(device, &results.totals));
        if conclusion.num_passed + conclusion.num_failed == 0 {
            return Err("no test was left to run".into());
        }
        let compared: usize = all.values().map(|results| results.totals.compared).sum();
        match compared == 0 && all.values().any(|results| !results.totals.skipped.is_empty()) {
            true => Err("everything was skipped, nothing was compared".into()),
            false => Ok(()),
        }
    }

    /// Writes the results of each device to a file, if all of them were correct.
    fn write(&self, folder: &Path, conclusion: &Conclusion) -> Result<(), String> {
        if conclusion.num_failed > 0 {
            return Err(format!("{} tests failed: {COVERAGE_OUT} is left alone", conclusion.num_failed));
        }
        std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        for results in self.results().values() {
            println!("{} written", coverage::write_file(folder, &results.coverage)?.display());
        }
        Ok(())
    }

    fn write_fingerprints(&self, folder: &Path) -> Result<(), String> {
        for (device, results) in self.results().iter() {
            println!("{} written", results.fingerprints.write(folder, device)?.display());
        }
        Ok(())
    }

    /// Returns `guards` and the requested trials of this run's shard of the table. A filter that
    /// matches keys instead of test names is removed from `arguments`.
    fn requested_trials(
        &self,
        guards: Vec<Trial>,
        targets: &[Target],
        arguments: &mut Arguments,
    ) -> Result<Vec<Trial>, String> {
        let exact = arguments.exact;
        let matches = |name: &str, text: &str| if exact { name == text } else { name.contains(text) };
        let selection = RefCell::new(self.shard.selection());
        let is_skipped = |name: &str| arguments.skip.iter().any(|text| matches(name, text));
        // `is_of_shard` also selects which tests are rehearsed: only the shard of a test counts its
        // skipped cases.
        let is_of_shard =
            |name: &str| self.shard.is_full() || !is_skipped(name) && selection.borrow_mut().selects(name);
        let is_requested = |name: &str, filter: Option<&String>| {
            filter.is_none_or(|filter| matches(name, filter)) && is_of_shard(name)
        };
        let mut trials = guards;
        trials.extend(self.row_trials(targets, &|name| is_requested(name, arguments.filter.as_ref())));
        let matches_a_name = |filter: &&String| trials.iter().any(|trial| matches(trial.name(), filter));
        if let Some(filter) = arguments.filter.as_ref().filter(|filter| !matches_a_name(filter)) {
            let requested = key_filter(filter.clone());
            let is_key = matches!(requested, Filter::Key(_));
            trials = if exact && !is_key { Vec::new() } else { self.key_trials(targets, &requested) };
            if trials.is_empty() {
                return Err(format!("no test name and no case of the op table contains {filter:?}"));
            }
            arguments.filter = None;
        }
        if !self.shard.is_full() {
            trials.retain(|trial| is_requested(trial.name(), arguments.filter.as_ref()));
        }
        Ok(trials)
    }

    /// Creates one trial for each op and check, and rehearses those `requested` by name. If the
    /// device lacks the dtypes of all cases, the trial is shown as ignored. If the device fuses
    /// nothing, there is nothing to compare with a composition, and the trial is omitted.
    fn row_trials(&self, targets: &[Target], requested: &dyn Fn(&str) -> bool) -> Vec<Trial> {
        let mut trials = Vec::new();
        let smallest = smallest_only();
        for (op, mut rows) in rows_by_op() {
            if smallest {
                let smallest = |row: &OpCase| OpCase { dtypes: row.dtypes.clone(), ..row.smallest() };
                rows = rows.iter().map(smallest).collect();
            }
            for check in Check::ALL.into_iter().filter(|&check| applies(check, &rows)) {
                let rows: Vec<OpCase> =
                    rows.iter().filter(|row| applies(check, std::slice::from_ref(row))).cloned().collect();
                for target in targets {
                    let is_reduced = target.reduced || is_reduced();
                    let rows = if is_reduced { reduced(&rows) } else { rows.clone() };
                    let name = format!("{op}::{check}::{}", target.device.name());
                    let test = Test { rows, check, target: target.clone(), filter: Filter::All };
                    let skipped = if requested(&name) { self.skipped(&test) } else { None };
                    trials.extend(self.create_trial(name, test, skipped));
                }
            }
        }
        trials
    }

    /// Creates the trial, if it would check anything. `skipped` contains the reasons if the test
    /// would skip every case.
    fn create_trial(&self, name: String, test: Test, skipped: Option<Outcome>) -> Option<Trial> {
        let lacks_only_fusion = |all: &Outcome| all.skipped.keys().all(|why| why.ends_with(NOTHING_FUSED));
        if skipped.as_ref().is_some_and(lacks_only_fusion) {
            return None;
        }
        let run = self.clone();
        let trial = Trial::test(name, move || {
            let mut outcome = Outcome::default();
            for row in &test.rows {
                let provokes_errors = test.check == Check::Rejects;
                let check = |target: &Target| check_row(row, test.check, target, &test.filter);
                outcome.merge(test.target.with_device(provokes_errors, check));
            }
            run.conclude(&test, outcome)
        });
        Some(trial.with_ignored_flag(skipped.is_some()))
    }

    /// Returns the reasons if `test` would skip every case. They are counted here, because the test
    /// does not run.
    fn skipped(&self, test: &Test) -> Option<Outcome> {
        let mut all = Outcome::default();
        for row in &test.rows {
            all.merge(skips_all_cases(row, test.check, &test.target, &test.filter)?);
        }
        self.record(test, all.clone());
        Some(all)
    }

    /// Creates one trial for each row and check with a case that `filter` selects.
    fn key_trials(&self, targets: &[Target], filter: &Filter) -> Vec<Trial> {
        let mut trials = Vec::new();
        for row in table() {
            for check in Check::ALL.into_iter().filter(|&check| applies(check, std::slice::from_ref(&row))) {
                if !keys(&row, check).iter().any(|key| filter.selects(key)) {
                    continue;
                }
                for target in targets {
                    let (rows, target, filter) = (vec![row.clone()], target.clone(), filter.clone());
                    let name = format!("{}::{check}::{}", row.name(), target.device.name());
                    let test = Test { rows, check, target, filter };
                    let skipped = self.skipped(&test);
                    trials.extend(self.create_trial(name, test, skipped));
                }
            }
        }
        trials
    }

    fn conclude(&self, test: &Test, outcome: Outcome) -> Result<(), Failed> {
        let verdict = outcome.verdict(self.command);
        self.record(test, outcome);
        verdict.map_err(Failed::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complete_key_selects_one_case_in_every_check_that_has_it() {
        let run = Run::new("cargo test --test ops", Shard::default());
        let names = |text: &str| -> Vec<String> {
            let targets = [Target::new(ternion_cpu::device())];
            let trials = run.key_trials(&targets, &key_filter(text.into()));
            trials.iter().map(|trial| trial.name().to_string()).collect()
        };
        let key = "softmax axis=1 [7,33] bf16 sliced";
        assert_eq!(key_filter(key.into()), Filter::Key(key.into()));
        assert_eq!(names(key), ["softmax axis=1::forward::cpu", "softmax axis=1::backward::cpu"]);
        let of_f64 = names("softmax axis=1 [7,33] f64 dense");
        assert_eq!(of_f64.len(), 4, "forward, backward, double_backward, composed: {of_f64:?}");
        let text = names("softmax axis=1 [7,33]");
        assert!(text.len() > 3 && text.iter().all(|name| name.starts_with("softmax axis=1::")), "{text:?}");
        assert_eq!(names("no such op"), [""; 0]);
    }

    #[test]
    fn a_single_case_is_compared_in_each_of_its_checks() {
        let (target, filter) =
            (Target::new(ternion_cpu::device()), key_filter("softmax axis=1 [7,33] bf16 sliced".into()));
        let row = table().into_iter().find(|row| row.name() == "softmax axis=1").expect("the row of softmax");
        for check in [Check::Forward, Check::Backward] {
            let outcome = check_row(&row, check, &target, &filter);
            assert_eq!((outcome.cases, outcome.verdict("")), (1, Ok(())), "{check}");
            assert!(outcome.compared >= 7 * 33, "{check}");
        }
    }

    /// Uses the CPU as the device, through the same path as any other.
    #[test]
    fn results_are_written_to_a_file_unless_a_test_failed() {
        let rows: Vec<OpCase> = table().into_iter().filter(|row| row.op == "softmax").take(1).collect();
        let (run, target) = (Run::new("", Shard::default()), Target::new(ternion_cpu::device()));
        for check in [Check::Forward, Check::Backward] {
            let test = Test { rows: rows.clone(), check, target: target.clone(), filter: Filter::All };
            let trial = run.create_trial(check.to_string(), test, None).expect("it applies");
            let quiet = Arguments { quiet: true, test_threads: Some(1), ..Arguments::default() };
            assert!(!libtest_mimic::run(&quiet, vec![trial]).has_failed());
        }
        let folder = std::env::temp_dir().join(format!("ternion-suite-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
        let conclusion = |num_failed| Conclusion {
            num_filtered_out: 0,
            num_passed: 2,
            num_failed,
            num_ignored: 0,
            num_measured: 0,
        };
        let rejection = run.write(&folder, &conclusion(1));
        let before = coverage::read_folder(&folder);
        let written = run.write(&folder, &conclusion(0));
        let after = coverage::read_folder(&folder);
        std::fs::remove_dir_all(&folder).expect("it exists");
        assert_eq!(rejection, Err("1 tests failed: TERNION_COVERAGE_OUT is left alone".into()));
        assert_eq!((before, written), (Ok(Vec::new()), Ok(())));
        let after = after.expect("one file");
        let [cpu] = after.as_slice() else { panic!("{after:?}") };
        let cells: Vec<(&str, &str, String)> =
            cpu.cells().map(|(op, dtype, cell)| (op, dtype, cell.mark())).collect();
        let expected = ["bf16", "f16", "f32", "f64"].map(|dtype| ("softmax", dtype, "FB".to_string()));
        assert_eq!(cells, expected);
        let results = &run.results()["cpu"];
        assert_eq!((cpu.cases(), cpu.compared), (results.totals.cases, results.totals.compared));
        assert!(cpu.cases() > 20 && cpu.compared > 1000 && results.coverage == *cpu);
        assert_eq!(
            (cpu.description.as_str(), cpu.scope.as_str()),
            ("the host's CPU", "every case of the op table")
        );
    }

    #[test]
    fn a_missing_device_is_a_failure() {
        let present = ["cpu".to_string(), "cuda:0".to_string()];
        assert_eq!(expected_devices("", &present), Ok(()));
        assert_eq!(expected_devices("cpu, cuda", &present), Ok(()));
        assert!(expected_devices("wgpu", &present).is_err());
        assert_eq!(expected_here("cpu, wgpu:1,cuda", &["wgpu"]), "cpu,cuda");
        assert!(
            expected_devices(&expected_here("wgup", &["wgpu"]), &present).is_err(),
            "a name that is misspelled"
        );
    }
}
