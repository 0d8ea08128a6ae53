//! What all optimisers share: pairing parameters with gradients, their state, and the numbers of a step on its way to the device.

mod half_copies;
mod state;

use super::group::ParamGroup;
use crate::module::Param;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::capture::{before_replay, is_recording_step, only_once};
use ternion_core::trace::{SpanKind, in_span};
use ternion_core::{
    DType, Device, Element, Error, Gradients, Layout, Result, Shape, Tensor, grad_norm, no_grad,
    precision::HalfCopy, text, without_precision,
};

/// Parameters of one op: as many as a GPU's kernel takes in one launch.
const TOGETHER: usize = 512;

/// A way to step: how parameters change, and the numbers that this takes.
pub(super) trait StepRule: Clone + Send + 'static {
    /// Changes parameters and states in place, by a fused op or by [`composed`](super::composed::composed) ones. Inputs, for each parameter: it, its
    /// gradient, its numbers, its states, its half copy where `half_copy` says so. All are of one device and dtype, half copies too.
    fn change(&self, inputs: &[&Tensor], half_copy: bool) -> Result<()>;

    /// Whether `change` writes parameters in half precision too, at the price of the bytes: not where that would be a cast of its own.
    fn writes_half_copies(&self) -> bool {
        false
    }

    /// The names of the states of a parameter, as in PyTorch's optimisers.
    fn state_names(&self) -> &'static [&'static str];

    /// The numbers of step number `step` (the first is 1) of a parameter. The first two are the learning rate and the clip factor.
    fn numbers(&self, lr: f64, step: u64) -> Vec<f64>;

    /// The share of the old momentum that stays; none of a rule that keeps no momentum.
    fn momentum(&mut self) -> Option<&mut f64> {
        None
    }

    /// What a state holds before the first step.
    fn initial_state(&self) -> f64 {
        0.0
    }
}

/// Settings that all optimisers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub lr: f64,
    pub weight_decay: f64,
    pub max_grad_norm: Option<f64>,
    pub allow_missing_gradients: bool,
}

impl Common {
    /// Checks the numbers, and others that must be finite and not negative.
    pub fn check(&self, op: &'static str, others: &[(&str, f64)]) -> Result<()> {
        check_number(op, "lr", self.lr)?;
        check_number(op, "weight_decay", self.weight_decay)?;
        if let Some(norm) = self.max_grad_norm {
            check_number(op, "max_grad_norm", norm)?;
        }
        others.iter().try_for_each(|&(name, value)| check_number(op, name, value))
    }
}

pub(crate) fn check_number(op: &'static str, name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{name} {value}, expected a finite number of at least 0")))
}

/// How the parameters of a group step.
#[derive(Clone)]
struct Group<R> {
    rule: R,
    lr_scale: f64,
}

impl<R: StepRule> Group<R> {
    fn new(op: &'static str, group: &ParamGroup, weight_decay: f64, rule: impl Fn(f64) -> R) -> Result<Self> {
        let weight_decay = group.weight_decay.unwrap_or(weight_decay);
        check_number(op, "lr_scale", group.lr_scale)?;
        check_number(op, "weight_decay", weight_decay)?;
        Ok(Group { rule: rule(weight_decay), lr_scale: group.lr_scale })
    }
}

/// A parameter with its state, which is made by its first step.
struct Slot {
    param: Param,
    label: String,
    group: usize,
    states: Vec<Tensor>,
    /// The parameter in half precision, as long as scopes of precision use it. Derived from it, so no state.
    half_copy: Option<Arc<HalfCopy>>,
}

/// What changes from step to step. Recorded steps share it: they go on counting, and take the learning rate that is set between replays.
struct Progress {
    lr: f64,
    /// The group of each parameter.
    groups: Vec<usize>,
    /// Steps that each parameter has made.
    steps: Vec<u64>,
}

/// The numbers of a step: each group and step number that occurs, with its row in the table.
type Rows = BTreeMap<(usize, u64), usize>;

/// The numbers of a step on one device, in the accumulator dtype of its parameters: written anew before each step, so that their address stays.
#[derive(Clone)]
struct Numbers {
    /// `[rows, numbers]`.
    table: Tensor,
    /// Its rows, `[numbers]` each.
    rows: Vec<Tensor>,
}

impl Numbers {
    fn new(device: &Device, dtype: DType, rows: usize, width: usize) -> Result<Numbers> {
        let buffer = device.backend().alloc(rows * width * dtype.size())?;
        let layout = Layout::row_major(Shape::new(&[rows, width])?);
        let table = Tensor::from_buffer(buffer, layout, dtype, device)?;
        let rows = (0..rows).map(|row| table.select(0, row)).collect::<Result<_>>()?;
        Ok(Numbers { table, rows })
    }

    /// Whether these are the numbers for `parameter`.
    fn serve(&self, parameter: &Tensor) -> bool {
        self.table.device().is(parameter.device()) && self.table.dtype() == parameter.dtype().accumulator()
    }

    fn write(&self, values: &[f64]) -> Result<()> {
        let upload = |bytes: &[u8]| self.table.device().backend().upload(bytes, self.table.buffer(), 0);
        match self.table.dtype() {
            DType::F64 => upload(&f64::to_bytes(values)),
            _ => upload(&f32::to_bytes(&values.iter().map(|&value| value as f32).collect::<Vec<_>>())),
        }
    }
}

impl Progress {
    /// Group and number of the step that comes next for a parameter.
    fn next(&self, slot: usize) -> (usize, u64) {
        (self.groups[slot], self.steps[slot] + 1)
    }

    /// The rows that come next for these parameters: one for each group, unless gradients were missing.
    fn rows(&self, slots: &[usize]) -> Rows {
        let steps: BTreeSet<(usize, u64)> = slots.iter().map(|&slot| self.next(slot)).collect();
        steps.into_iter().zip(0..).collect()
    }

    /// The row of each of these parameters.
    fn places(&self, slots: &[usize]) -> Vec<usize> {
        let rows = self.rows(slots);
        slots.iter().map(|&slot| rows[&self.next(slot)]).collect()
    }

    /// What the rows hold, one after the other.
    fn values<R: StepRule>(&self, groups: &[Group<R>], rows: &Rows) -> Vec<f64> {
        let of = |&(group, step): &(usize, u64)| {
            groups[group].rule.numbers(self.lr * groups[group].lr_scale, step)
        };
        rows.keys().flat_map(of).collect()
    }

    /// Notes that these parameters have made a step.
    fn advance(&mut self, slots: &[usize]) {
        slots.iter().for_each(|&slot| self.steps[slot] += 1);
    }
}

/// Plain numbers: a panic elsewhere cannot leave them half changed.
fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parameters of an optimiser, with all that changes from step to step.
pub(super) struct Steps<R> {
    op: &'static str,
    groups: Vec<Group<R>>,
    common: Common,
    slots: Vec<Slot>,
    progress: Arc<Mutex<Progress>>,
    numbers: Vec<Numbers>,
}

/// A parameter about to be changed.
struct Work<'g> {
    slot: usize,
    tensor: Tensor,
    grad: &'g Tensor,
}

impl<R: StepRule> Steps<R> {
    /// Parameters that step as `rule` says, given the weight decay of their group.
    pub fn new(
        op: &'static str,
        common: Common,
        groups: Vec<ParamGroup>,
        rule: impl Fn(f64) -> R,
    ) -> Result<Steps<R>> {
        let of = |group| Group::new(op, group, common.weight_decay, &rule);
        let rules = groups.iter().map(of).collect::<Result<_>>()?;
        let slots = slots_of(op, groups)?;
        let progress = Progress {
            lr: common.lr,
            groups: slots.iter().map(|slot| slot.group).collect(),
            steps: vec![0; slots.len()],
        };
        let progress = Arc::new(Mutex::new(progress));
        Ok(Steps { op, groups: rules, common, slots, progress, numbers: Vec::new() })
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        lock(&self.progress)
    }

    pub fn lr(&self) -> f64 {
        self.progress().lr
    }

    pub fn set_lr(&mut self, lr: f64) -> Result<()> {
        check_number(self.op, "lr", lr)?;
        self.progress().lr = lr;
        Ok(())
    }

    pub fn set_momentum(&mut self, momentum: f64) -> Result<()> {
        // Without momentum there are no buffers, which are made with the optimizer.
        let is_kept = |group: &mut Group<R>| group.rule.momentum().is_some_and(|kept| *kept != 0.0);
        let is_share = momentum > 0.0 && momentum < 1.0;
        if !is_share || !self.groups.iter_mut().all(is_kept) {
            let detail =
                format!("momentum {momentum}, expected above 0 and below 1, for an optimizer with momentum");
            return Err(Error::invalid(self.op, detail));
        }
        self.groups.iter_mut().filter_map(|group| group.rule.momentum()).for_each(|kept| *kept = momentum);
        Ok(())
    }

    pub fn parameters(&self) -> Vec<Param> {
        self.slots.iter().map(|slot| slot.param.clone()).collect()
    }

    pub fn step(&mut self, gradients: &Gradients) -> Result<()> {
        // A scope of precision is for models: a step is made in the dtype of its parameters.
        let op = self.op;
        in_span(SpanKind::Step, op, "", || no_grad(|| without_precision(|| self.step_as_it_is(gradients))))
    }

    fn step_as_it_is(&mut self, gradients: &Gradients) -> Result<()> {
        let works = self.pair(gradients)?;
        self.prepare_states(&works)?;
        if !is_recording_step() {
            self.prepare_half_copies(&works)?;
        }
        let slots: Vec<usize> = works.iter().map(|work| work.slot).collect();
        let rows = self.progress().rows(&slots);
        match is_recording_step() {
            true => self.write_before_replays(&works, slots.clone())?,
            false => self.write_numbers(&works, &rows)?,
        }
        self.clip(gradients, &works)?;
        self.change(&works, &rows)?;
        self.note_half_copies(&works);
        if !is_recording_step() {
            self.progress().advance(&slots);
        }
        gradients.note_used();
        Ok(())
    }

    /// Each parameter that is not frozen, with its gradient.
    fn pair<'g>(&self, gradients: &'g Gradients) -> Result<Vec<Work<'g>>> {
        let (mut works, mut missing) = (Vec::with_capacity(self.slots.len()), Vec::new());
        for (index, slot) in self.slots.iter().enumerate() {
            let tensor = slot.param.tensor();
            if !tensor.needs_grad() {
                continue;
            }
            match gradients.get(&tensor) {
                Some(grad) => works.push(Work { slot: index, tensor, grad }),
                None => missing.push(slot.label.as_str()),
            }
        }
        if !missing.is_empty() && !self.common.allow_missing_gradients {
            return Err(Error::MissingGradient { names: missing.join(", ") });
        }
        Ok(works)
    }

    /// States for parameters that have none; those that there are must still fit.
    fn prepare_states(&mut self, works: &[Work<'_>]) -> Result<()> {
        for work in works {
            let (slot, tensor) = (&mut self.slots[work.slot], &work.tensor);
            let rule = &self.groups[slot.group].rule;
            let (names, initial) = (rule.state_names(), rule.initial_state());
            let dtype = tensor.dtype().accumulator();
            if slot.states.is_empty() && !names.is_empty() && is_recording_step() {
                let detail =
                    format!("{} has made no step yet: make one before a step is recorded", slot.label);
                return Err(Error::invalid(self.op, detail));
            }
            if slot.states.is_empty() {
                let fresh =
                    names.iter().map(|_| Tensor::full(*tensor.shape(), initial, dtype, tensor.device()));
                slot.states = only_once(|| fresh.collect::<Result<_>>())?;
            }
            if let Some(state) = slot.states.iter().find(|state| !belongs(state, tensor)) {
                let now =
                    text![&slot.label, " is ", tensor.shape(), " ", dtype, " on ", tensor.device().name()];
                let state = text![" now, but its state ", state, " on ", state.device().name()];
                let advice = ": make the optimiser after moving or casting the model";
                return Err(Error::invalid(self.op, text![now, state, advice]));
            }
        }
        Ok(())
    }

    /// One upload for each device and accumulator dtype.
    fn write_numbers(&mut self, works: &[Work<'_>], rows: &Rows) -> Result<()> {
        let values = self.progress().values(&self.groups, rows);
        // Tables of devices or dtypes that no parameter has any more go.
        self.numbers.retain(|numbers| works.iter().any(|work| numbers.serve(&work.tensor)));
        for tensor in works.iter().map(|work| &work.tensor) {
            if !self.numbers.iter().any(|numbers| numbers.serve(tensor) && numbers.rows.len() == rows.len()) {
                self.numbers.retain(|numbers| !numbers.serve(tensor));
                let (device, dtype) = (tensor.device(), tensor.dtype().accumulator());
                self.numbers.push(Numbers::new(device, dtype, rows.len(), values.len() / rows.len())?);
            }
        }
        self.numbers.iter().try_for_each(|numbers| numbers.write(&values))
    }

    /// Has the numbers written before each replay of the step that is being recorded, into the tables that it reads.
    fn write_before_replays(&self, works: &[Work<'_>], slots: Vec<usize>) -> Result<()> {
        let places = self.progress().places(&slots);
        let rows = self.progress().rows(&slots).len();
        let serve = |numbers: &&Numbers| works.iter().any(|work| numbers.serve(&work.tensor));
        let tables: Vec<Numbers> = self.numbers.iter().filter(serve).cloned().collect();
        let ready = |work: &Work<'_>| {
            tables.iter().any(|table| table.serve(&work.tensor) && table.rows.len() == rows)
        };
        if !works.iter().all(ready) {
            return Err(Error::invalid(self.op, "make a step with these gradients before one is recorded"));
        }
        let (op, groups, progress) = (self.op, self.groups.clone(), self.progress.clone());
        let changed = works.iter().map(|work| (&self.slots[work.slot], &work.tensor));
        let changed: Vec<(Param, Tensor, String)> =
            changed.map(|(slot, tensor)| (slot.param.clone(), tensor.detach(), slot.label.clone())).collect();
        before_replay(move || {
            let replaced =
                |(param, tensor, _): &&(Param, Tensor, String)| !param.tensor().buffer().is(tensor.buffer());
            if let Some((_, _, label)) = changed.iter().find(replaced) {
                let detail = format!("{label} was replaced after the step was recorded: record it again");
                return Err(Error::invalid(op, detail));
            }
            let mut progress = lock(&progress);
            if progress.places(&slots) != places {
                let detail = "some parameters of the recorded step were stepped apart from the others since: record it again";
                return Err(Error::invalid(op, detail));
            }
            let values = progress.values(&groups, &progress.rows(&slots));
            tables.iter().try_for_each(|table| table.write(&values))?;
            progress.advance(&slots);
            Ok(())
        })
    }

    fn numbers_of(&self, work: &Work<'_>) -> Result<&Numbers> {
        let found = self.numbers.iter().find(|numbers| numbers.serve(&work.tensor));
        found.ok_or_else(|| {
            Error::invalid(self.op, format!("no numbers were written on {}", work.tensor.device()))
        })
    }

    /// Puts `min(1, max_norm / (norm + 1e-6))` into the clip factor's place, on the device (Pascanu et al. 2013, in PyTorch's form).
    fn clip(&self, gradients: &Gradients, works: &[Work<'_>]) -> Result<()> {
        let Some(max_norm) = self.common.max_grad_norm.filter(|_| !works.is_empty()) else { return Ok(()) };
        let tensors: Vec<&Tensor> = works.iter().map(|work| &work.tensor).collect();
        let norm = grad_norm(gradients, &tensors)?;
        let factor = norm.add_scalar(1e-6)?.rdiv_scalar(max_norm)?.minimum_scalar(1.0)?;
        self.numbers.iter().try_for_each(|numbers| numbers.table.narrow(1, 1, 1)?.copy_(&factor))
    }

    /// One change for up to [`TOGETHER`] parameters of a group, device and dtype.
    fn change(&self, works: &[Work<'_>], rows: &Rows) -> Result<()> {
        let alike = |left: &Work<'_>, right: &Work<'_>| {
            self.slots[left.slot].group == self.slots[right.slot].group
                && left.tensor.device().is(right.tensor.device())
                && left.tensor.dtype() == right.tensor.dtype()
                && self.half_copy(left).map(Tensor::dtype) == self.half_copy(right).map(Tensor::dtype)
        };
        let mut together: Vec<Vec<&Work<'_>>> = Vec::new();
        let is_shared = share_memory(works);
        for work in works {
            let meets = |other: &&Work<'_>| is_shared && overlap(&other.tensor, &work.tensor);
            let fits = |works: &&mut Vec<&Work<'_>>| {
                works.len() < TOGETHER && alike(works[0], work) && !works.iter().any(meets)
            };
            match together.iter_mut().find(fits) {
                Some(works) => works.push(work),
                None => together.push(vec![work]),
            }
        }
        for works in together {
            let mut inputs: Vec<&Tensor> = Vec::with_capacity(works.len() * 6);
            for work in &works {
                let row = rows[&self.progress().next(work.slot)];
                inputs.extend([&work.tensor, work.grad, &self.numbers_of(work)?.rows[row]]);
                inputs.extend(&self.slots[work.slot].states);
                inputs.extend(self.half_copy(work));
            }
            let half_copy = self.half_copy(works[0]).is_some();
            self.groups[self.slots[works[0].slot].group].rule.change(&inputs, half_copy)?;
        }
        Ok(())
    }
}

/// Whether any two parameters have one memory: such as overlap are changed one after the other, as if each had a step of its own.
fn share_memory(works: &[Work<'_>]) -> bool {
    let mut addresses: Vec<usize> = works.iter().map(|work| work.tensor.buffer().address()).collect();
    addresses.sort_unstable();
    addresses.windows(2).any(|pair| pair[0] == pair[1])
}

/// Whether the ranges of two tensors of one dtype meet.
fn overlap(one: &Tensor, other: &Tensor) -> bool {
    let ranges = one.layout().bounds().zip(other.layout().bounds());
    one.buffer().is(other.buffer())
        && ranges.is_none_or(|((low, high), (other_low, other_high))| low <= other_high && other_low <= high)
}

/// A slot for each parameter of these groups.
fn slots_of(op: &'static str, groups: Vec<ParamGroup>) -> Result<Vec<Slot>> {
    let mut labels = HashSet::new();
    let mut slots: Vec<Slot> = Vec::new();
    let numbered = groups.into_iter().enumerate();
    for (group, param) in
        numbered.flat_map(|(index, group)| group.parameters.into_iter().map(move |param| (index, param)))
    {
        let position = slots.len();
        if let Some(same) = slots.iter().find(|slot| slot.param.is(&param)) {
            let detail = format!("parameter {position} is given twice: it is {} already", same.label);
            return Err(Error::invalid(op, detail));
        }
        let label = unique_label(&mut labels, &param, position);
        slots.push(Slot { param, label, group, states: Vec::new(), half_copy: None });
    }
    if slots.is_empty() {
        return Err(Error::invalid(op, "no parameters to train"));
    }
    Ok(slots)
}

/// The parameter's name, made different from those before it: two models may use the same names.
pub(crate) fn unique_label(labels: &mut HashSet<String>, param: &Param, position: usize) -> String {
    let name = param.name().map_or_else(|| format!("parameter {position}"), str::to_owned);
    let mut label = name.clone();
    let mut number = 1;
    // A label that was made different may itself be the name of another parameter.
    while !labels.insert(label.clone()) {
        number += 1;
        label = format!("{name}#{number}");
    }
    label
}

/// Whether `state` is a state of the parameter `tensor` as that is now.
fn belongs(state: &Tensor, tensor: &Tensor) -> bool {
    state.shape() == tensor.shape()
        && state.dtype() == tensor.dtype().accumulator()
        && state.device().is(tensor.device())
}
