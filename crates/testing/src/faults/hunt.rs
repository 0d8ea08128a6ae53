//! The search for planted faults: each fault in each op, dtype and direction, on the smallest cases
//! in which it makes a difference.
//!
//! [`main`] is the test program `tests/faults.rs`, with one test for each op. A fault that makes a
//! difference and is not detected is a failure that names op, fault, dtype and direction. If a
//! fault made no difference anywhere, the program prints what it would have needed.

use super::{Fault, Faulty};
use crate::array::broadcast_shape;
use crate::case::arrangements;
use crate::check::{Case, Filter, Knowledge, Target, check_case, check_row};
use crate::phase::Phase;
use crate::place::Arrangement;
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
const LARGEST: usize = 1500;
/// The same for sums, which must be long for their errors to be visible.
const LARGEST_SUM: usize = 16_000;
/// The number of cases that are tried before a fault is reported to make no difference.
const TRIES: usize = 120;
/// The number of cases in which a fault may make a difference and pass before it counts as
/// undetected.
const CHANCES: usize = 8;

/// The results for the faults planted in one op.
#[derive(Clone, Debug, Default)]
pub struct Bag {
    /// Faults that were detected.
    pub caught: usize,
    /// Faults that made no difference anywhere: op, fault, and what it would have needed. With the
    /// dtypes.
    pub idle: BTreeMap<(String, Fault), BTreeSet<&'static str>>,
    /// Faults that made a difference and were not detected: op, fault, dtype, direction and the
    /// cases.
    pub unseen: Vec<String>,
}

impl Bag {
    /// Adds the results of another search.
    pub fn merge(&mut self, other: Bag) {
        self.caught += other.caught;
        for (what, dtypes) in other.idle {
            self.idle.entry(what).or_default().extend(dtypes);
        }
        self.unseen.extend(other.unseen);
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
        for (at, row) in rows.iter().enumerate() {
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
                by_op.entry((op, phase)).or_default().push(at);
            }
            for &node in nodes.borrow().iter() {
                by_node.entry(node).or_default().push(at);
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
struct Plant {
    fault: Fault,
    op: &'static str,
    phase: Phase,
    dtype: DType,
}

impl Plant {
    fn check(&self) -> Check {
        if self.phase == Phase::Backward { Check::Backward } else { Check::Forward }
    }

    fn direction(&self) -> &'static str {
        if self.phase == Phase::Backward { "backward" } else { "forward" }
    }

    /// Returns the memory layouts in which the fault is searched, likely ones first.
    fn arrangements(&self) -> &'static [Arrangement] {
        match self.fault {
            Fault::StridesIgnored => {
                &[Arrangement::Transposed, Arrangement::Sliced, Arrangement::Mixed, Arrangement::Reversed]
            }
            Fault::OffsetIgnored => &[Arrangement::Sliced, Arrangement::Mixed, Arrangement::Reversed],
            _ => &[Arrangement::Dense, Arrangement::Transposed],
        }
    }
}

/// The cases of one op, with what is known about them.
pub struct Hunter<'a> {
    sites: &'a Sites,
    target: &'a Target,
    knowledge: Knowledge,
    /// The fingerprints of cases that pass without a fault: by row, instance, dtype, arrangement
    /// and check.
    sound: RefCell<HashMap<(usize, usize, DType, Arrangement, Check), Option<u64>>>,
}

impl<'a> Hunter<'a> {
    /// Creates a search on one device.
    pub fn new(sites: &'a Sites, target: &'a Target) -> Hunter<'a> {
        Hunter { sites, target, knowledge: Knowledge::default(), sound: RefCell::default() }
    }

    /// Plants every fault of kernels and of gradient rules in `op`, in every dtype and direction.
    pub fn hunt(&self, op: &'static str) -> Bag {
        let mut bag = Bag::default();
        let kernel_faults = &Fault::ALL[..9];
        for phase in [Phase::Forward, Phase::Backward] {
            let Some(rows) = self.sites.by_op.get(&(op, phase)) else { continue };
            for &fault in kernel_faults {
                self.in_every_dtype(Plant { fault, op, phase, dtype: DType::F32 }, rows, &mut bag);
            }
        }
        if let Some(rows) = self.sites.by_node.get(op) {
            for fault in [Fault::GradientTimesFive, Fault::GradientZero] {
                self.in_every_dtype(
                    Plant { fault, op, phase: Phase::Backward, dtype: DType::F32 },
                    rows,
                    &mut bag,
                );
            }
        }
        bag
    }

    /// Plants unsummed gradients in the rows of `op` that broadcast an operand.
    pub fn hunt_broadcast(&self, op: &'static str) -> Bag {
        let mut bag = Bag::default();
        let rows: Vec<usize> = (0..self.sites.rows.len())
            .filter(|&at| {
                self.sites.rows[at].op == op
                    && self.sites.rows[at].instances.iter().any(|i| broadcasts(&self.sites.rows[at], i))
            })
            .collect();
        if !rows.is_empty() {
            let plant =
                Plant { fault: Fault::BroadcastNotSummed, op, phase: Phase::Backward, dtype: DType::F32 };
            self.in_every_dtype(plant, &rows, &mut bag);
        }
        bag
    }

    fn in_every_dtype(&self, plant: Plant, rows: &[usize], bag: &mut Bag) {
        for dtype in DType::ALL {
            let plant = Plant { dtype, ..plant };
            // Not in compositions: their limits may be too loose for a fault of one of their steps.
            let is_own = |at: usize| {
                let row = &self.sites.rows[at];
                !row.composition || row.op == plant.op.trim_end_matches("_grad")
            };
            let rows: Vec<usize> =
                rows.iter().copied().filter(|&at| is_own(at) && self.runs_in(at, plant)).collect();
            if rows.is_empty() {
                continue;
            }
            match self.plant(plant, &rows) {
                Found::Caught => bag.caught += 1,
                Found::Idle => {
                    let what = (format!("{} {}", plant.op, plant.direction()), plant.fault);
                    bag.idle.entry(what).or_default().insert(dtype.name());
                }
                Found::Unseen(cases) => bag.unseen.push(format!(
                    "{} in {}, {dtype}, {}: not noticed in {}",
                    plant.fault,
                    plant.op,
                    plant.direction(),
                    cases.join("; ")
                )),
            }
        }
    }

    fn runs_in(&self, at: usize, plant: Plant) -> bool {
        let row = &self.sites.rows[at];
        row.dtypes.contains(&plant.dtype)
            && (plant.phase == Phase::Forward
                || (row.forward_only.is_none() && !row.differentiable_inputs(plant.dtype).is_empty()))
    }

    fn plant(&self, plant: Plant, rows: &[usize]) -> Found {
        let mut passed = Vec::new();
        for (at, which, arrangement) in self.candidates(plant, rows).into_iter().take(TRIES) {
            let row = &self.sites.rows[at];
            let case = (&row.instances[which], plant.dtype, arrangement);
            let Some(honest) = self.sound(at, which, plant, arrangement) else { continue };
            let (result, values, differences) = self.run_planted(row, plant, case);
            match result {
                _ if differences == 0 => {}
                Err(_) => return Found::Caught,
                // The fault changed something that does not affect the result: a value that is not
                // used, a mask that did not flip.
                Ok(_) if values == honest => {}
                Ok(_) => passed.push(crate::case::case_key(row, case.0, case.1, case.2)),
            }
            if passed.len() >= CHANCES {
                break;
            }
        }
        if passed.is_empty() { Found::Idle } else { Found::Unseen(passed) }
    }

    /// Returns the cases to search: the op's own rows first, small ones first (for sums large ones,
    /// where the error grows).
    fn candidates(&self, plant: Plant, rows: &[usize]) -> Vec<(usize, usize, Arrangement)> {
        let mut found = Vec::new();
        for &at in rows {
            let row = &self.sites.rows[at];
            for (which, instance) in row.instances.iter().enumerate() {
                let size = elements(instance);
                let largest = if plant.fault == Fault::HalfAccumulate { LARGEST_SUM } else { LARGEST };
                let fits = size <= largest
                    && (plant.fault != Fault::BroadcastNotSummed || broadcasts(row, instance));
                let there = arrangements(row, instance);
                let wanted = plant.arrangements().iter().filter(|wanted| there.contains(wanted));
                for (order, &arrangement) in wanted.enumerate().filter(|_| fits) {
                    found.push((size, order, at, which, arrangement));
                }
            }
        }
        let foreign = |at: usize| self.sites.rows[at].op != plant.op;
        match plant.fault {
            Fault::HalfAccumulate => {
                found.sort_by_key(|&(size, order, at, ..)| (foreign(at), order, std::cmp::Reverse(size)))
            }
            // A single element has no rows to swap and no tail: it comes last.
            _ => found.sort_by_key(|&(size, order, at, ..)| (foreign(at), size <= 1, size, order)),
        }
        found.into_iter().map(|(_, _, at, which, arrangement)| (at, which, arrangement)).collect()
    }

    /// Returns the fingerprint of the case without a fault, if it passes: only then does a failure
    /// show that a fault was detected.
    fn sound(&self, at: usize, which: usize, plant: Plant, arrangement: Arrangement) -> Option<u64> {
        let key = (at, which, plant.dtype, arrangement, plant.check());
        if let Some(&sound) = self.sound.borrow().get(&key) {
            return sound;
        }
        let row = &self.sites.rows[at];
        let case = (&row.instances[which], plant.dtype, arrangement);
        let (result, values) = check_case(row, plant.check(), self.target, case, &self.knowledge);
        let sound = result.is_ok().then_some(values);
        self.sound.borrow_mut().insert(key, sound);
        sound
    }

    /// Returns the check's result with the fault planted, the fingerprint of the values, and how
    /// often the fault made a difference.
    fn run_planted(&self, row: &OpCase, plant: Plant, case: Case<'_>) -> (Result<usize, String>, u64, usize) {
        match plant.fault {
            Fault::GradientTimesFive | Fault::GradientZero => self.run_with_gradients(row, plant, case),
            _ => {
                let (device, count) =
                    Faulty::device(&self.target.device, plant.fault, plant.op, plant.phase, plant.dtype);
                let target = self.target.on(device);
                let (result, values) = check_case(row, plant.check(), &target, case, &self.knowledge);
                (result, values, count.load(std::sync::atomic::Ordering::Relaxed))
            }
        }
    }

    fn run_with_gradients(
        &self,
        row: &OpCase,
        plant: Plant,
        case: Case<'_>,
    ) -> (Result<usize, String>, u64, usize) {
        let factor = if plant.fault == Fault::GradientZero { 0.0 } else { 5.0 };
        let count: Rc<RefCell<usize>> = Rc::default();
        let seen = count.clone();
        let observer = move |name: &'static str, grads: &mut Grads| {
            if name == plant.op && crate::phase::current() == Phase::Backward {
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
            check_case(row, Check::Backward, self.target, case, &self.knowledge)
        });
        let count = *count.borrow();
        (result, values, count)
    }
}

enum Found {
    Caught,
    Idle,
    Unseen(Vec<String>),
}

/// Returns whether an instance has a differentiable operand that is smaller than the broadcast
/// shape.
fn broadcasts(row: &OpCase, instance: &Instance) -> bool {
    let ranked = instance.iter().try_fold(Vec::new(), |shape, other| {
        let fits = (0..shape.len().min(other.len())).all(|back| {
            let (a, b) = (shape[shape.len() - 1 - back], other[other.len() - 1 - back]);
            a == b || a == 1 || b == 1
        });
        fits.then(|| broadcast_shape(&shape, other))
    });
    let Some(shape) = ranked else { return false };
    (0..instance.len()).any(|at| row.inputs[at].differentiable && instance[at] != shape)
}

/// Returns the ops of the table whose rows have several operands.
pub fn broadcasting_ops() -> Vec<&'static str> {
    let several = |rows: &[OpCase]| {
        rows.iter().any(|row| row.instances.iter().any(|instance| broadcasts(row, instance)))
    };
    rows_by_op().into_iter().filter(|(_, rows)| several(rows)).map(|(op, _)| op).collect()
}

/// Plants every fault in every op of the table on `target`, with the options of the command line.
pub fn main(target: &Target) -> ExitCode {
    let mut arguments = Arguments::from_args();
    let sites = Arc::new(Sites::survey(target));
    let total = Arc::new(Mutex::new(Bag::default()));
    let mut trials = Vec::new();
    for op in sites.ops() {
        trials.push(trial(format!("{op}::faults"), &sites, target, &total, move |hunter| hunter.hunt(op)));
    }
    for op in broadcasting_ops() {
        let name = format!("{op}::broadcast_not_summed");
        trials.push(trial(name, &sites, target, &total, move |hunter| hunter.hunt_broadcast(op)));
    }
    if let Some(filter) = &arguments.filter
        && !trials.iter().any(|trial| trial.name().contains(filter.as_str()))
    {
        eprintln!("error: no op that runs contains {filter:?}");
        return ExitCode::FAILURE;
    }
    // Filters other than text in a name have no meaning here.
    arguments.exact = false;
    let conclusion = libtest_mimic::run(&arguments, trials);
    if arguments.list {
        return conclusion.exit_code();
    }
    let total = total.lock().unwrap_or_else(PoisonError::into_inner);
    total.print();
    if total.caught == 0 {
        eprintln!("error: no fault made a difference anywhere");
        return ExitCode::FAILURE;
    }
    conclusion.exit_code()
}

fn trial(
    name: String,
    sites: &Arc<Sites>,
    target: &Target,
    total: &Arc<Mutex<Bag>>,
    hunt: impl Fn(&Hunter<'_>) -> Bag + Send + 'static,
) -> Trial {
    let (sites, target, total) = (sites.clone(), target.clone(), total.clone());
    Trial::test(name, move || {
        let bag = hunt(&Hunter::new(&sites, &target));
        let verdict = if bag.unseen.is_empty() { Ok(()) } else { Err(Failed::from(bag.unseen.join("\n"))) };
        total.lock().unwrap_or_else(PoisonError::into_inner).merge(bag);
        verdict
    })
}

impl Bag {
    fn print(&self) {
        println!("{} planted faults caught, {} unseen", self.caught, self.unseen.len());
        for fault in Fault::ALL {
            let idle: Vec<String> = self
                .idle
                .iter()
                .filter(|((_, of), _)| *of == fault)
                .map(|((op, _), dtypes)| {
                    format!("{op} ({})", dtypes.iter().copied().collect::<Vec<_>>().join(" "))
                })
                .collect();
            if !idle.is_empty() {
                println!("  {fault} needs {}; it has none to spoil in: {}", fault.needs(), idle.join(", "));
            }
        }
    }
}
