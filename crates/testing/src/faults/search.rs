//! The search for planted faults: each fault in each op, dtype and direction, on the smallest cases
//! in which it makes a difference.
//!
//! [`main`] is the test program `tests/faults.rs`, with one test for each op. A fault that makes a
//! difference and is not detected is a failure that names op, fault, dtype and direction. If a
//! fault made no difference anywhere, the program prints what it would have needed.

use super::{Fault, Faulty};
use crate::array::broadcast_shape;
use crate::case::memory_layouts;
use crate::check::{Case, Filter, OracleCache, Target, check_case, check_row};
use crate::memory_layout::MemoryLayout;
use crate::phase::Phase;
use crate::report::Check;
use crate::suite::rows_by_op;
use crate::table::{Instance, OpCase, table};
use libtest_mimic::{Arguments, Failed, Trial};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::process::ExitCode;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use ternion_core::DType;
use ternion_core::autograd::{Grads, observe_backward};

/// The maximum number of elements of a case, except for sums.
const MAX_ELEMENTS: usize = 1500;
/// The same limit for sums, which must be long for their errors to be visible.
const MAX_SUM_ELEMENTS: usize = 16_000;
/// The number of cases that are tried before a fault is reported to make no difference.
const MAX_CASES: usize = 120;
/// The number of cases in which a fault may make a difference and pass before it counts as
/// undetected.
const MAX_UNDETECTED_CASES: usize = 8;

/// The results for the faults planted in one op.
#[derive(Clone, Debug, Default)]
pub struct FaultReport {
    /// Faults that were detected.
    pub detected: usize,
    /// The dtypes in which a fault made no difference in any case, by op with direction and by
    /// fault.
    pub without_effect: BTreeMap<(String, Fault), BTreeSet<&'static str>>,
    /// Faults that made a difference and were not detected: op, fault, dtype, direction and the
    /// cases.
    pub undetected: Vec<String>,
}

impl FaultReport {
    /// Adds the results of another search.
    pub fn merge(&mut self, other: FaultReport) {
        self.detected += other.detected;
        for (what, dtypes) in other.without_effect {
            self.without_effect.entry(what).or_default().extend(dtypes);
        }
        self.undetected.extend(other.undetected);
    }
}

/// The rows that reach each op.
pub struct Sites {
    rows: Vec<OpCase>,
    /// Rows by direction and op.
    by_op: BTreeMap<(&'static str, Phase), Vec<usize>>,
    /// Rows by the name of a node of the autograd graph.
    by_node: BTreeMap<&'static str, Vec<usize>>,
}

impl Sites {
    /// Runs every row once, on its smallest shapes, and records which ops it reaches in which
    /// direction.
    pub fn survey(target: &Target) -> Sites {
        let mut rows = table();
        rows.retain(|row| !row.instances.is_empty());
        rows.sort_by_key(|row| row.instances.iter().map(elements).min());
        let (mut by_op, mut by_node) = (BTreeMap::<_, Vec<usize>>::new(), BTreeMap::<_, Vec<usize>>::new());
        for (row_index, row) in rows.iter().enumerate() {
            let nodes: Rc<RefCell<BTreeSet<&'static str>>> = Rc::default();
            let mut ran = check_row(&row.smallest(), Check::Forward, target, &Filter::default()).trace.ran;
            if row.forward_only.is_none() && row.has_gradient() {
                let seen = nodes.clone();
                let observer = move |name: &'static str, _: &mut Grads| {
                    seen.borrow_mut().insert(name);
                    Ok(())
                };
                let smallest = row.smallest();
                let outcome = observe_backward(observer, || {
                    check_row(&smallest, Check::Backward, target, &Filter::default())
                });
                ran.extend(outcome.trace.ran.into_iter().filter(|(phase, _)| *phase == Phase::Backward));
            }
            for (phase, op) in
                ran.into_iter().filter(|(phase, _)| matches!(phase, Phase::Forward | Phase::Backward))
            {
                by_op.entry((op, phase)).or_default().push(row_index);
            }
            for &node in nodes.borrow().iter() {
                by_node.entry(node).or_default().push(row_index);
            }
        }
        Sites { rows, by_op, by_node }
    }

    /// Returns every op that runs, and every node of the autograd graph.
    pub fn ops(&self) -> BTreeSet<&'static str> {
        self.by_op.keys().map(|(op, _)| *op).chain(self.by_node.keys().copied()).collect()
    }
}

fn elements(instance: &Instance) -> usize {
    instance.iter().map(|shape| shape.iter().product::<usize>()).sum()
}

/// A fault to be planted.
#[derive(Clone, Copy)]
struct PlantedFault {
    fault: Fault,
    op: &'static str,
    phase: Phase,
    dtype: DType,
}

impl PlantedFault {
    fn check(&self) -> Check {
        if self.phase == Phase::Backward { Check::Backward } else { Check::Forward }
    }

    fn direction(&self) -> &'static str {
        if self.phase == Phase::Backward { "backward" } else { "forward" }
    }

    /// Returns the memory layouts in which the fault is searched, starting with those that are most
    /// likely to show it.
    fn memory_layouts(&self) -> &'static [MemoryLayout] {
        match self.fault {
            Fault::StridesIgnored => {
                &[MemoryLayout::Transposed, MemoryLayout::Sliced, MemoryLayout::Mixed, MemoryLayout::Reversed]
            }
            Fault::OffsetIgnored => &[MemoryLayout::Sliced, MemoryLayout::Mixed, MemoryLayout::Reversed],
            _ => &[MemoryLayout::Dense, MemoryLayout::Transposed],
        }
    }
}

/// A search for planted faults on one target, with its cached results.
pub struct FaultSearch<'a> {
    sites: &'a Sites,
    target: &'a Target,
    oracle_cache: OracleCache,
    /// The fingerprints of cases that pass without a fault: by row, instance, dtype, layout
    /// and check.
    baseline: RefCell<HashMap<(usize, usize, DType, MemoryLayout, Check), Option<u64>>>,
}

impl<'a> FaultSearch<'a> {
    /// Creates a search on one device.
    pub fn new(sites: &'a Sites, target: &'a Target) -> FaultSearch<'a> {
        FaultSearch { sites, target, oracle_cache: OracleCache::default(), baseline: RefCell::default() }
    }

    /// Plants every fault of kernels and of gradient rules in `op`, in every dtype and direction.
    pub fn search(&self, op: &'static str) -> FaultReport {
        let mut report = FaultReport::default();
        let kernel_faults = &Fault::ALL[..9];
        for phase in [Phase::Forward, Phase::Backward] {
            let Some(rows) = self.sites.by_op.get(&(op, phase)) else { continue };
            for &fault in kernel_faults {
                self.in_every_dtype(PlantedFault { fault, op, phase, dtype: DType::F32 }, rows, &mut report);
            }
        }
        if let Some(rows) = self.sites.by_node.get(op) {
            for fault in [Fault::GradientTimesFive, Fault::GradientZero] {
                self.in_every_dtype(
                    PlantedFault { fault, op, phase: Phase::Backward, dtype: DType::F32 },
                    rows,
                    &mut report,
                );
            }
        }
        report
    }

    /// Plants unsummed gradients in the rows of `op` that broadcast an operand.
    pub fn search_broadcast(&self, op: &'static str) -> FaultReport {
        let mut report = FaultReport::default();
        let rows: Vec<usize> = (0..self.sites.rows.len())
            .filter(|&row_index| {
                self.sites.rows[row_index].op == op
                    && self.sites.rows[row_index]
                        .instances
                        .iter()
                        .any(|i| broadcasts(&self.sites.rows[row_index], i))
            })
            .collect();
        if !rows.is_empty() {
            let planted = PlantedFault {
                fault: Fault::BroadcastNotSummed,
                op,
                phase: Phase::Backward,
                dtype: DType::F32,
            };
            self.in_every_dtype(planted, &rows, &mut report);
        }
        report
    }

    fn in_every_dtype(&self, planted: PlantedFault, rows: &[usize], report: &mut FaultReport) {
        for dtype in DType::ALL {
            let planted = PlantedFault { dtype, ..planted };
            // Cases of other ops' compositions are excluded: their limits may be too loose for a
            // fault of one step.
            let belongs_to_op = |row_index: usize| {
                let row = &self.sites.rows[row_index];
                !row.composition || row.op == planted.op.trim_end_matches("_grad")
            };
            let rows: Vec<usize> = rows
                .iter()
                .copied()
                .filter(|&row_index| belongs_to_op(row_index) && self.runs_in(row_index, planted))
                .collect();
            if rows.is_empty() {
                continue;
            }
            match self.run_fault(planted, &rows) {
                Detection::Detected => report.detected += 1,
                Detection::NoEffect => {
                    let what = (format!("{} {}", planted.op, planted.direction()), planted.fault);
                    report.without_effect.entry(what).or_default().insert(dtype.name());
                }
                Detection::Undetected(cases) => report.undetected.push(format!(
                    "{} in {}, {dtype}, {}: not noticed in {}",
                    planted.fault,
                    planted.op,
                    planted.direction(),
                    cases.join("; ")
                )),
            }
        }
    }

    fn runs_in(&self, row_index: usize, planted: PlantedFault) -> bool {
        let row = &self.sites.rows[row_index];
        row.dtypes.contains(&planted.dtype)
            && (planted.phase == Phase::Forward
                || (row.forward_only.is_none() && !row.differentiable_inputs(planted.dtype).is_empty()))
    }

    fn run_fault(&self, planted: PlantedFault, rows: &[usize]) -> Detection {
        let mut passed = Vec::new();
        for (row_index, instance_index, memory_layout) in
            self.candidates(planted, rows).into_iter().take(MAX_CASES)
        {
            let row = &self.sites.rows[row_index];
            let case = (&row.instances[instance_index], planted.dtype, memory_layout);
            let Some(baseline_values) = self.baseline(row_index, instance_index, planted, memory_layout)
            else {
                continue;
            };
            let (result, values, differences) = self.run_planted(row, planted, case);
            match result {
                _ if differences == 0 => {}
                Err(_) => return Detection::Detected,
                // The fault changed something that does not affect the result: a value that is not
                // used, a mask that did not flip.
                Ok(_) if values == baseline_values => {}
                Ok(_) => passed.push(crate::case::case_key(row, case.0, case.1, case.2)),
            }
            if passed.len() >= MAX_UNDETECTED_CASES {
                break;
            }
        }
        if passed.is_empty() { Detection::NoEffect } else { Detection::Undetected(passed) }
    }

    /// Returns the cases to search: the op's own rows first, small ones first (for sums large ones,
    /// where the error grows).
    fn candidates(&self, planted: PlantedFault, rows: &[usize]) -> Vec<(usize, usize, MemoryLayout)> {
        let mut cases = Vec::new();
        for &row_index in rows {
            let row = &self.sites.rows[row_index];
            for (instance_index, instance) in row.instances.iter().enumerate() {
                let size = elements(instance);
                let max_elements =
                    if planted.fault == Fault::HalfAccumulate { MAX_SUM_ELEMENTS } else { MAX_ELEMENTS };
                let fits = size <= max_elements
                    && (planted.fault != Fault::BroadcastNotSummed || broadcasts(row, instance));
                let available = memory_layouts(row, instance);
                let searched =
                    planted.memory_layouts().iter().filter(|searched| available.contains(searched));
                for (order, &memory_layout) in searched.enumerate().filter(|_| fits) {
                    cases.push((size, order, row_index, instance_index, memory_layout));
                }
            }
        }
        let is_foreign = |row_index: usize| self.sites.rows[row_index].op != planted.op;
        match planted.fault {
            Fault::HalfAccumulate => cases.sort_by_key(|&(size, order, row_index, ..)| {
                (is_foreign(row_index), order, std::cmp::Reverse(size))
            }),
            // Cases of a single element come last: they have no rows to swap and no tail.
            _ => cases
                .sort_by_key(|&(size, order, row_index, ..)| (is_foreign(row_index), size <= 1, size, order)),
        }
        cases
            .into_iter()
            .map(|(_, _, row_index, instance_index, memory_layout)| {
                (row_index, instance_index, memory_layout)
            })
            .collect()
    }

    /// Returns the fingerprint of the case without a fault, if it passes. Only then does a failure
    /// with the fault show that the fault was detected.
    fn baseline(
        &self,
        row_index: usize,
        instance_index: usize,
        planted: PlantedFault,
        memory_layout: MemoryLayout,
    ) -> Option<u64> {
        let key = (row_index, instance_index, planted.dtype, memory_layout, planted.check());
        if let Some(&baseline) = self.baseline.borrow().get(&key) {
            return baseline;
        }
        let row = &self.sites.rows[row_index];
        let case = (&row.instances[instance_index], planted.dtype, memory_layout);
        let (result, values) = check_case(row, planted.check(), self.target, case, &self.oracle_cache);
        let baseline = result.is_ok().then_some(values);
        self.baseline.borrow_mut().insert(key, baseline);
        baseline
    }

    /// Returns the check's result with the fault planted, the fingerprint of the values, and how
    /// often the fault made a difference.
    fn run_planted(
        &self,
        row: &OpCase,
        planted: PlantedFault,
        case: Case<'_>,
    ) -> (Result<usize, String>, u64, usize) {
        match planted.fault {
            Fault::GradientTimesFive | Fault::GradientZero => self.run_with_gradients(row, planted, case),
            _ => {
                let (device, count) = Faulty::device(
                    &self.target.device,
                    planted.fault,
                    planted.op,
                    planted.phase,
                    planted.dtype,
                );
                let target = self.target.on(device);
                let (result, values) = check_case(row, planted.check(), &target, case, &self.oracle_cache);
                (result, values, count.load(std::sync::atomic::Ordering::Relaxed))
            }
        }
    }

    fn run_with_gradients(
        &self,
        row: &OpCase,
        planted: PlantedFault,
        case: Case<'_>,
    ) -> (Result<usize, String>, u64, usize) {
        let factor = if planted.fault == Fault::GradientZero { 0.0 } else { 5.0 };
        let count: Rc<RefCell<usize>> = Rc::default();
        let seen = count.clone();
        let observer = move |name: &'static str, grads: &mut Grads| {
            if name == planted.op && crate::phase::current() == Phase::Backward {
                for slot in grads.iter_mut() {
                    if let Some(grad) = slot.as_ref() {
                        let differs = grad.to_vec_f64()?.iter().any(|&v| v != 0.0);
                        *seen.borrow_mut() += usize::from(differs);
                        *slot = Some(grad.mul_scalar(factor)?);
                    }
                }
            }
            Ok(())
        };
        let (result, values) = observe_backward(observer, || {
            check_case(row, Check::Backward, self.target, case, &self.oracle_cache)
        });
        let count = *count.borrow();
        (result, values, count)
    }
}

/// The result of planting a fault.
enum Detection {
    Detected,
    /// The fault made no difference in any case.
    NoEffect,
    /// The fault made a difference in these cases, and all of them passed.
    Undetected(Vec<String>),
}

/// Returns whether an instance has a differentiable operand that is smaller than the broadcast
/// shape.
fn broadcasts(row: &OpCase, instance: &Instance) -> bool {
    let common_shape = instance.iter().try_fold(Vec::new(), |shape, other| {
        let fits = (0..shape.len().min(other.len())).all(|back| {
            let (a, b) = (shape[shape.len() - 1 - back], other[other.len() - 1 - back]);
            a == b || a == 1 || b == 1
        });
        fits.then(|| broadcast_shape(&shape, other))
    });
    let Some(shape) = common_shape else { return false };
    (0..instance.len()).any(|position| row.inputs[position].differentiable && instance[position] != shape)
}

/// Returns the ops of the table with a row that broadcasts a differentiable operand.
pub fn broadcasting_ops() -> Vec<&'static str> {
    let any_broadcasts = |rows: &[OpCase]| {
        rows.iter().any(|row| row.instances.iter().any(|instance| broadcasts(row, instance)))
    };
    rows_by_op().into_iter().filter(|(_, rows)| any_broadcasts(rows)).map(|(op, _)| op).collect()
}

/// Plants every fault in every op of the table on `target`, with the options of the command line.
pub fn main(target: &Target) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let sites = Arc::new(Sites::survey(target));
    let total = Arc::new(Mutex::new(FaultReport::default()));
    let mut trials = Vec::new();
    for op in sites.ops() {
        trials.push(trial(format!("{op}::faults"), &sites, target, &total, move |fault_search| {
            fault_search.search(op)
        }));
    }
    for op in broadcasting_ops() {
        let name = format!("{op}::broadcast_not_summed");
        trials
            .push(trial(name, &sites, target, &total, move |fault_search| fault_search.search_broadcast(op)));
    }
    if let Some(filter) = &arguments.filter
        && !trials.iter().any(|trial| trial.name().contains(filter.as_str()))
    {
        eprintln!("error: no op that runs contains {filter:?}");
        return ExitCode::FAILURE;
    }
    // Only filters by text in a name apply to these tests; exact names do not.
    arguments.exact = false;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        return conclusion.exit_code();
    }
    let total = total.lock().unwrap_or_else(PoisonError::into_inner);
    total.print();
    if total.detected == 0 {
        eprintln!("error: no fault made a difference anywhere");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(
    name: String,
    sites: &Arc<Sites>,
    target: &Target,
    total: &Arc<Mutex<FaultReport>>,
    search: impl Fn(&FaultSearch<'_>) -> FaultReport + Send + 'static,
) -> Trial {
    let (sites, target, total) = (sites.clone(), target.clone(), total.clone());
    Trial::test(name, move || {
        let report = search(&FaultSearch::new(&sites, &target));
        let verdict = if report.undetected.is_empty() {
            Ok(())
        } else {
            Err(Failed::from(report.undetected.join("\n")))
        };
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(report);
        verdict
    })
}

impl FaultReport {
    fn print(&self) {
        println!("{} planted faults caught, {} unseen", self.detected, self.undetected.len());
        for fault in Fault::ALL {
            let without_effect: Vec<String> = self
                .without_effect
                .iter()
                .filter(|((_, of), _)| *of == fault)
                .map(|((op, _), dtypes)| {
                    format!("{op} ({})", dtypes.iter().copied().collect::<Vec<_>>().join(" "))
                })
                .collect();
            if !without_effect.is_empty() {
                println!(
                    "  {fault} needs {}; it has none to spoil in: {}",
                    fault.needs(),
                    without_effect.join(", ")
                );
            }
        }
    }
}
