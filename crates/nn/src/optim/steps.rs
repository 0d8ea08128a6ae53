//! The common part of all optimizers: matching parameters with gradients, their state, and the
//! upload of a step's scalars to the device.

mod half_copies;
mod state;

use super::group::ParamGroup;
use crate::module::Param;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::capture::{excluded_from_capture, is_recording_step, on_replay};
use ternion_core::trace::{SpanKind, in_span};
use ternion_core::{
    DType, Device, Element, Error, Gradients, Layout, Result, Shape, Tensor, grad_norm, no_grad,
    precision::HalfCopy, text, without_precision,
};

/// Maximum number of parameters of one op: as many as a GPU kernel accepts in one launch.
const MAX_PARAMS_PER_OP: usize = 512;

/// The update rule of an optimizer, and the scalars that it needs for a step.
pub(super) trait StepRule: Clone + Send + 'static {
    /// Changes parameters and states in place, by a fused op or by the ops of
    /// [`composed`](super::composed::composed). The inputs are, for each parameter: the parameter,
    /// its gradient, its step scalars, its states, and its half-precision copy if `half_copy` is
    /// true. All have the same device; parameters have the same dtype, and so do the copies.
    fn apply(&self, inputs: &[&Tensor], half_copy: bool) -> Result<()>;

    /// Whether `apply` can also write parameters in half precision for only the cost of storing
    /// them. False for rules that would need a separate cast.
    fn writes_half_copies(&self) -> bool {
        false
    }

    /// Returns the names of the states of a parameter, as in PyTorch's optimizers.
    fn state_names(&self) -> &'static [&'static str];

    /// Returns the scalars of step number `step` (the first is 1) of a parameter. The first two are
    /// the learning rate and the clip factor.
    fn step_scalars(&self, lr: f64, step: u64) -> Vec<f64>;

    /// Returns a reference through which the fraction of the old momentum that is kept can be
    /// changed; `None` if the rule has no momentum.
    fn momentum(&mut self) -> Option<&mut f64> {
        None
    }

    /// Returns the value of a state before the first step.
    fn initial_state(&self) -> f64 {
        0.0
    }
}

/// The settings that all optimizers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct CommonConfig {
    pub lr: f64,
    pub weight_decay: f64,
    pub max_grad_norm: Option<f64>,
    pub allow_missing_gradients: bool,
}

impl CommonConfig {
    /// Checks that these values and `others` are finite and not negative.
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

/// The rule and learning-rate factor of one group.
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

/// A parameter with its state, which its first step creates.
struct Slot {
    param: Param,
    label: String,
    group: usize,
    states: Vec<Tensor>,
    /// The half-precision copy of the parameter, while precision scopes use it. It is derived from
    /// the parameter and therefore not part of the state dict.
    half_copy: Option<Arc<HalfCopy>>,
}

/// The values that change from step to step. Recorded steps share them: replays continue to count,
/// and use the learning rate that is set between replays.
struct Progress {
    lr: f64,
    /// The group of each parameter.
    groups: Vec<usize>,
    /// The number of steps that each parameter has made.
    steps: Vec<u64>,
}

/// For each pair of group and step number that occurs: its row in the table of scalars.
type Rows = BTreeMap<(usize, u64), usize>;

/// The scalars of a step on one device, in the accumulator dtype of its parameters. They are
/// overwritten before each step, so that their address stays the same.
#[derive(Clone)]
struct StepScalars {
    /// `[rows, scalars]`.
    table: Tensor,
    /// The rows of `table`, `[scalars]` each.
    rows: Vec<Tensor>,
}

impl StepScalars {
    fn new(device: &Device, dtype: DType, rows: usize, width: usize) -> Result<StepScalars> {
        let buffer = device.backend().alloc(rows * width * dtype.size())?;
        let layout = Layout::row_major(Shape::new(&[rows, width])?);
        let table = Tensor::from_buffer(buffer, layout, dtype, device)?;
        let rows = (0..rows).map(|row| table.select(0, row)).collect::<Result<_>>()?;
        Ok(StepScalars { table, rows })
    }

    /// Whether these scalars have the device and dtype for `parameter`.
    fn matches(&self, parameter: &Tensor) -> bool {
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
    /// Returns the group and the number of the next step of a parameter.
    fn next(&self, slot: usize) -> (usize, u64) {
        (self.groups[slot], self.steps[slot] + 1)
    }

    /// Returns the rows of the next step of these parameters. A group has one row, or several if
    /// gradients were missing in earlier steps, so that its step counts differ.
    fn rows(&self, slots: &[usize]) -> Rows {
        let steps: BTreeSet<(usize, u64)> = slots.iter().map(|&slot| self.next(slot)).collect();
        steps.into_iter().zip(0..).collect()
    }

    /// Returns the row index of each of these parameters.
    fn row_indices(&self, slots: &[usize]) -> Vec<usize> {
        let rows = self.rows(slots);
        slots.iter().map(|&slot| rows[&self.next(slot)]).collect()
    }

    /// Returns the values of the rows, concatenated.
    fn values<R: StepRule>(&self, groups: &[Group<R>], rows: &Rows) -> Vec<f64> {
        let scalars_of_row = |&(group, step): &(usize, u64)| {
            groups[group].rule.step_scalars(self.lr * groups[group].lr_scale, step)
        };
        rows.keys().flat_map(scalars_of_row).collect()
    }

    /// Records that these parameters have made a step.
    fn advance(&mut self, slots: &[usize]) {
        slots.iter().for_each(|&slot| self.steps[slot] += 1);
    }
}

/// Ignores poisoning: the state consists of plain numbers, which a panic elsewhere cannot leave
/// half changed.
fn lock(progress: &Mutex<Progress>) -> MutexGuard<'_, Progress> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parameters of an optimizer, with all values that change from step to step.
pub(super) struct Steps<R> {
    op: &'static str,
    groups: Vec<Group<R>>,
    common: CommonConfig,
    slots: Vec<Slot>,
    progress: Arc<Mutex<Progress>>,
    step_scalars: Vec<StepScalars>,
}

/// A parameter that is about to be changed.
struct ParamUpdate<'g> {
    slot: usize,
    tensor: Tensor,
    grad: &'g Tensor,
}

impl<R: StepRule> Steps<R> {
    /// Creates the steps of parameters. `rule` returns the update rule for the weight decay of a
    /// group.
    pub fn new(
        op: &'static str,
        common: CommonConfig,
        groups: Vec<ParamGroup>,
        rule: impl Fn(f64) -> R,
    ) -> Result<Steps<R>> {
        let build_group = |group| Group::new(op, group, common.weight_decay, &rule);
        let rules = groups.iter().map(build_group).collect::<Result<_>>()?;
        let slots = create_slots(op, groups)?;
        let progress = Progress {
            lr: common.lr,
            groups: slots.iter().map(|slot| slot.group).collect(),
            steps: vec![0; slots.len()],
        };
        let progress = Arc::new(Mutex::new(progress));
        Ok(Steps { op, groups: rules, common, slots, progress, step_scalars: Vec::new() })
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
        // A momentum of 0 means that the optimizer was created without momentum buffers.
        let has_momentum = |group: &mut Group<R>| group.rule.momentum().is_some_and(|kept| *kept != 0.0);
        let is_fraction = momentum > 0.0 && momentum < 1.0;
        if !is_fraction || !self.groups.iter_mut().all(has_momentum) {
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
        // Precision scopes are meant for models: a step runs in the dtype of its parameters.
        let op = self.op;
        in_span(SpanKind::Step, op, "", || no_grad(|| without_precision(|| self.step_inner(gradients))))
    }

    fn step_inner(&mut self, gradients: &Gradients) -> Result<()> {
        let updates = self.match_gradients(gradients)?;
        self.prepare_states(&updates)?;
        if !is_recording_step() {
            self.prepare_half_copies(&updates)?;
        }
        let slots: Vec<usize> = updates.iter().map(|update| update.slot).collect();
        let rows = self.progress().rows(&slots);
        match is_recording_step() {
            true => self.write_before_replays(&updates, slots.clone())?,
            false => self.write_step_scalars(&updates, &rows)?,
        }
        self.clip(gradients, &updates)?;
        self.apply_rules(&updates, &rows)?;
        self.publish_half_copies(&updates);
        if !is_recording_step() {
            self.progress().advance(&slots);
        }
        gradients.mark_used();
        Ok(())
    }

    /// Returns each parameter that is not frozen, with its gradient.
    fn match_gradients<'g>(&self, gradients: &'g Gradients) -> Result<Vec<ParamUpdate<'g>>> {
        let (mut updates, mut missing) = (Vec::with_capacity(self.slots.len()), Vec::new());
        for (index, slot) in self.slots.iter().enumerate() {
            let tensor = slot.param.tensor();
            if !tensor.needs_grad() {
                continue;
            }
            match gradients.get(&tensor) {
                Some(grad) => updates.push(ParamUpdate { slot: index, tensor, grad }),
                None => missing.push(slot.label.as_str()),
            }
        }
        if !missing.is_empty() && !self.common.allow_missing_gradients {
            return Err(Error::MissingGradient { names: missing.join(", ") });
        }
        Ok(updates)
    }

    /// Creates the states of parameters that have none, and checks that existing states still fit.
    fn prepare_states(&mut self, updates: &[ParamUpdate<'_>]) -> Result<()> {
        for update in updates {
            let (slot, tensor) = (&mut self.slots[update.slot], &update.tensor);
            let rule = &self.groups[slot.group].rule;
            let (names, initial) = (rule.state_names(), rule.initial_state());
            let dtype = tensor.dtype().accumulator();
            if slot.states.is_empty() && !names.is_empty() && is_recording_step() {
                let detail =
                    format!("{} has made no step yet: make one before a step is recorded", slot.label);
                return Err(Error::invalid(self.op, detail));
            }
            if slot.states.is_empty() {
                let new_states =
                    names.iter().map(|_| Tensor::full(*tensor.shape(), initial, dtype, tensor.device()));
                slot.states = excluded_from_capture(|| new_states.collect::<Result<_>>())?;
            }
            if let Some(state) = slot.states.iter().find(|state| !state_fits(state, tensor)) {
                let parameter_text =
                    text![&slot.label, " is ", tensor.shape(), " ", dtype, " on ", tensor.device().name()];
                let state = text![" now, but its state ", state, " on ", state.device().name()];
                let advice = ": make the optimizer after moving or casting the model";
                return Err(Error::invalid(self.op, text![parameter_text, state, advice]));
            }
        }
        Ok(())
    }

    /// Uploads the scalars: one upload for each device and accumulator dtype.
    fn write_step_scalars(&mut self, updates: &[ParamUpdate<'_>], rows: &Rows) -> Result<()> {
        let values = self.progress().values(&self.groups, rows);
        // Drop tables of devices or dtypes that no parameter has any longer.
        self.step_scalars.retain(|scalars| updates.iter().any(|update| scalars.matches(&update.tensor)));
        for tensor in updates.iter().map(|update| &update.tensor) {
            let fits = |scalars: &StepScalars| scalars.matches(tensor) && scalars.rows.len() == rows.len();
            if !self.step_scalars.iter().any(fits) {
                self.step_scalars.retain(|scalars| !scalars.matches(tensor));
                let (device, dtype) = (tensor.device(), tensor.dtype().accumulator());
                let width = values.len() / rows.len();
                self.step_scalars.push(StepScalars::new(device, dtype, rows.len(), width)?);
            }
        }
        self.step_scalars.iter().try_for_each(|scalars| scalars.write(&values))
    }

    /// Arranges that the scalars are written before each replay of the step that is being recorded,
    /// to the tables that it reads.
    fn write_before_replays(&self, updates: &[ParamUpdate<'_>], slots: Vec<usize>) -> Result<()> {
        let row_indices = self.progress().row_indices(&slots);
        let rows = self.progress().rows(&slots).len();
        let matches = |scalars: &&StepScalars| updates.iter().any(|update| scalars.matches(&update.tensor));
        let tables: Vec<StepScalars> = self.step_scalars.iter().filter(matches).cloned().collect();
        let has_table = |update: &ParamUpdate<'_>| {
            tables.iter().any(|table| table.matches(&update.tensor) && table.rows.len() == rows)
        };
        if !updates.iter().all(has_table) {
            return Err(Error::invalid(self.op, "make a step with these gradients before one is recorded"));
        }
        let (op, groups, progress) = (self.op, self.groups.clone(), self.progress.clone());
        let recorded_params = updates.iter().map(|update| (&self.slots[update.slot], &update.tensor));
        let recorded_params: Vec<(Param, Tensor, String)> = recorded_params
            .map(|(slot, tensor)| (slot.param.clone(), tensor.detach(), slot.label.clone()))
            .collect();
        on_replay(move || {
            let replaced =
                |(param, tensor, _): &&(Param, Tensor, String)| !param.tensor().buffer().is(tensor.buffer());
            if let Some((_, _, label)) = recorded_params.iter().find(replaced) {
                let detail = format!("{label} was replaced after the step was recorded: record it again");
                return Err(Error::invalid(op, detail));
            }
            let mut progress = lock(&progress);
            if progress.row_indices(&slots) != row_indices {
                let detail = "some parameters of the recorded step were stepped apart from the others since: record it again";
                return Err(Error::invalid(op, detail));
            }
            let values = progress.values(&groups, &progress.rows(&slots));
            tables.iter().try_for_each(|table| table.write(&values))?;
            progress.advance(&slots);
            Ok(())
        })
    }

    fn step_scalars_of(&self, update: &ParamUpdate<'_>) -> Result<&StepScalars> {
        let matching = self.step_scalars.iter().find(|scalars| scalars.matches(&update.tensor));
        matching.ok_or_else(|| {
            Error::invalid(self.op, format!("no step scalars were written on {}", update.tensor.device()))
        })
    }

    /// Writes `min(1, max_norm / (norm + 1e-6))` to the clip factor, on the device (Pascanu et al.
    /// 2013, as PyTorch computes it).
    fn clip(&self, gradients: &Gradients, updates: &[ParamUpdate<'_>]) -> Result<()> {
        let Some(max_norm) = self.common.max_grad_norm.filter(|_| !updates.is_empty()) else { return Ok(()) };
        let tensors: Vec<&Tensor> = updates.iter().map(|update| &update.tensor).collect();
        let norm = grad_norm(gradients, &tensors)?;
        let factor = norm.add_scalar(1e-6)?.rdiv_scalar(max_norm)?.minimum_scalar(1.0)?;
        self.step_scalars.iter().try_for_each(|scalars| scalars.table.narrow(1, 1, 1)?.copy_(&factor))
    }

    /// Calls the update rule once for up to [`MAX_PARAMS_PER_OP`] parameters of the same group,
    /// device and dtype.
    fn apply_rules(&self, updates: &[ParamUpdate<'_>], rows: &Rows) -> Result<()> {
        let is_compatible = |left: &ParamUpdate<'_>, right: &ParamUpdate<'_>| {
            self.slots[left.slot].group == self.slots[right.slot].group
                && left.tensor.device().is(right.tensor.device())
                && left.tensor.dtype() == right.tensor.dtype()
                && self.half_copy(left).map(Tensor::dtype) == self.half_copy(right).map(Tensor::dtype)
        };
        let mut batches: Vec<Vec<&ParamUpdate<'_>>> = Vec::new();
        let is_shared = share_buffers(updates);
        for update in updates {
            let overlaps = |other: &&ParamUpdate<'_>| is_shared && overlap(&other.tensor, &update.tensor);
            let fits = |updates: &&mut Vec<&ParamUpdate<'_>>| {
                updates.len() < MAX_PARAMS_PER_OP
                    && is_compatible(updates[0], update)
                    && !updates.iter().any(overlaps)
            };
            match batches.iter_mut().find(fits) {
                Some(updates) => updates.push(update),
                None => batches.push(vec![update]),
            }
        }
        for updates in batches {
            let mut inputs: Vec<&Tensor> = Vec::with_capacity(updates.len() * 6);
            for update in &updates {
                let row = rows[&self.progress().next(update.slot)];
                inputs.extend([&update.tensor, update.grad, &self.step_scalars_of(update)?.rows[row]]);
                inputs.extend(&self.slots[update.slot].states);
                inputs.extend(self.half_copy(update));
            }
            let half_copy = self.half_copy(updates[0]).is_some();
            self.groups[self.slots[updates[0].slot].group].rule.apply(&inputs, half_copy)?;
        }
        Ok(())
    }
}

/// Whether any two parameters share a buffer. Overlapping parameters are changed by separate calls,
/// one after another.
fn share_buffers(updates: &[ParamUpdate<'_>]) -> bool {
    let mut addresses: Vec<usize> = updates.iter().map(|update| update.tensor.buffer().address()).collect();
    addresses.sort_unstable();
    addresses.windows(2).any(|pair| pair[0] == pair[1])
}

/// Whether the memory ranges of two tensors of the same dtype overlap.
fn overlap(one: &Tensor, other: &Tensor) -> bool {
    let ranges = one.layout().bounds().zip(other.layout().bounds());
    one.buffer().is(other.buffer())
        && ranges.is_none_or(|((low, high), (other_low, other_high))| low <= other_high && other_low <= high)
}

/// Creates a slot for each parameter of these groups.
fn create_slots(op: &'static str, groups: Vec<ParamGroup>) -> Result<Vec<Slot>> {
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

/// Returns the parameter's name, made unique among the earlier ones: two models may use the same
/// names.
pub(crate) fn unique_label(labels: &mut HashSet<String>, param: &Param, position: usize) -> String {
    let name = param.name().map_or_else(|| format!("parameter {position}"), str::to_owned);
    let mut label = name.clone();
    let mut number = 1;
    // The new label may itself be the name of another parameter.
    while !labels.insert(label.clone()) {
        number += 1;
        label = format!("{name}#{number}");
    }
    label
}

/// Whether `state` fits the current shape, dtype and device of the parameter `tensor`.
fn state_fits(state: &Tensor, tensor: &Tensor) -> bool {
    state.shape() == tensor.shape()
        && state.dtype() == tensor.dtype().accumulator()
        && state.device().is(tensor.device())
}
