//! What all optimisers share: pairing parameters with gradients, their state, and the numbers of a step on its way to the device.

use crate::{Param, StateDict};
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::capture::{before_replay, is_recording_step, only_once};
use ternion_core::dispatch::apply;
use ternion_core::{
    DType, Device, Element, Error, Gradients, Layout, Op, Result, Shape, Tensor, grad_norm, no_grad,
};

/// Parameters of one op: as many as a GPU's kernel takes in one launch.
const TOGETHER: usize = 512;

/// A way to step: the fused op and the numbers that it takes.
pub(super) trait StepRule: Clone + 'static {
    /// The fused op: inputs are parameter, gradient, numbers, states.
    fn op(&self) -> Op;

    /// The names of the states of a parameter, as in PyTorch's optimisers.
    fn state_names(&self) -> &'static [&'static str];

    /// The numbers of step number `step` (the first is 1) of a parameter. The second one is the clip factor.
    fn numbers(&self, lr: f64, step: u64) -> Vec<f64>;
}

/// Settings that all optimisers share.
#[derive(Clone, Copy, Debug)]
pub(super) struct Common {
    pub lr: f64,
    pub max_grad_norm: Option<f64>,
    pub allow_missing_gradients: bool,
}

impl Common {
    /// Checks the numbers, and others that must be finite and not negative.
    pub fn check(&self, op: &'static str, others: &[(&str, f64)]) -> Result<()> {
        check_number(op, "lr", self.lr)?;
        if let Some(norm) = self.max_grad_norm {
            check_number(op, "max_grad_norm", norm)?;
        }
        others.iter().try_for_each(|&(name, value)| check_number(op, name, value))
    }
}

fn check_number(op: &'static str, name: &str, value: f64) -> Result<()> {
    if value.is_finite() && value >= 0.0 {
        return Ok(());
    }
    Err(Error::invalid(op, format!("{name} {value}, expected a finite number of at least 0")))
}

/// A parameter with its state, which is made by its first step.
struct Slot {
    param: Param,
    label: String,
    states: Vec<Tensor>,
}

/// What changes from step to step. Recorded steps share it: they go on counting, and take the learning rate that is set between replays.
struct Progress {
    lr: f64,
    /// Steps that each parameter has made.
    steps: Vec<u64>,
}

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
    /// The step numbers that come next for these parameters, each with its row in the table: one, unless gradients were missing.
    fn rows(&self, slots: &[usize]) -> BTreeMap<u64, usize> {
        let steps: BTreeSet<u64> = slots.iter().map(|&slot| self.steps[slot] + 1).collect();
        steps.into_iter().zip(0..).collect()
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
    rule: R,
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
    pub fn new(op: &'static str, rule: R, common: Common, params: Vec<Param>) -> Result<Steps<R>> {
        if params.is_empty() {
            return Err(Error::invalid(op, "no parameters to train"));
        }
        let mut labels = HashSet::new();
        let mut slots: Vec<Slot> = Vec::with_capacity(params.len());
        for (position, param) in params.into_iter().enumerate() {
            if let Some(same) = slots.iter().find(|slot| slot.param.is(&param)) {
                let detail = format!("parameter {position} is given twice: it is {} already", same.label);
                return Err(Error::invalid(op, detail));
            }
            let label = unique_label(&mut labels, &param, position);
            slots.push(Slot { param, label, states: Vec::new() });
        }
        let progress = Progress { lr: common.lr, steps: vec![0; slots.len()] };
        let progress = Arc::new(Mutex::new(progress));
        Ok(Steps { op, rule, common, slots, progress, numbers: Vec::new() })
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

    pub fn parameters(&self) -> Vec<Param> {
        self.slots.iter().map(|slot| slot.param.clone()).collect()
    }

    pub fn step(&mut self, gradients: &Gradients) -> Result<()> {
        no_grad(|| {
            let works = self.pair(gradients)?;
            self.prepare_states(&works)?;
            let slots: Vec<usize> = works.iter().map(|work| work.slot).collect();
            let rows = self.progress().rows(&slots);
            match is_recording_step() {
                true => self.write_before_replays(&works, slots.clone(), rows.len())?,
                false => self.write_numbers(&works, &rows)?,
            }
            self.clip(gradients, &works)?;
            self.change(&works, &rows)?;
            if !is_recording_step() {
                self.progress().advance(&slots);
            }
            Ok(())
        })
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
        let names = self.rule.state_names();
        for work in works {
            let (slot, tensor) = (&mut self.slots[work.slot], &work.tensor);
            let dtype = tensor.dtype().accumulator();
            if slot.states.is_empty() && !names.is_empty() && is_recording_step() {
                let detail =
                    format!("{} has made no step yet: make one before a step is recorded", slot.label);
                return Err(Error::invalid(self.op, detail));
            }
            if slot.states.is_empty() {
                let fresh = names.iter().map(|_| Tensor::zeros(*tensor.shape(), dtype, tensor.device()));
                slot.states = only_once(|| fresh.collect::<Result<_>>())?;
            }
            if let Some(state) = slot.states.iter().find(|state| !belongs(state, tensor)) {
                return Err(Error::invalid(
                    self.op,
                    format!(
                        "{} is {:?} {} on {} now, but its state {:?} {} on {}: make the optimiser after moving or casting the model",
                        slot.label,
                        tensor.shape(),
                        dtype,
                        tensor.device(),
                        state.shape(),
                        state.dtype(),
                        state.device()
                    ),
                ));
            }
        }
        Ok(())
    }

    /// One upload for each device and accumulator dtype.
    fn write_numbers(&mut self, works: &[Work<'_>], rows: &BTreeMap<u64, usize>) -> Result<()> {
        let lr = self.lr();
        let values: Vec<f64> = rows.keys().flat_map(|&step| self.rule.numbers(lr, step)).collect();
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
    fn write_before_replays(&self, works: &[Work<'_>], slots: Vec<usize>, rows: usize) -> Result<()> {
        let serve = |numbers: &&Numbers| works.iter().any(|work| numbers.serve(&work.tensor));
        let tables: Vec<Numbers> = self.numbers.iter().filter(serve).cloned().collect();
        let ready = |work: &Work<'_>| {
            tables.iter().any(|table| table.serve(&work.tensor) && table.rows.len() == rows)
        };
        if !works.iter().all(ready) {
            return Err(Error::invalid(self.op, "make a step with these gradients before one is recorded"));
        }
        let (op, rule, progress) = (self.op, self.rule.clone(), self.progress.clone());
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
            let steps = progress.rows(&slots);
            if steps.len() != rows {
                let detail = "some parameters of the recorded step were stepped apart from the others since: record it again";
                return Err(Error::invalid(op, detail));
            }
            let values: Vec<f64> = steps.keys().flat_map(|&step| rule.numbers(progress.lr, step)).collect();
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

    /// One op for up to [`TOGETHER`] parameters of a device and dtype.
    fn change(&self, works: &[Work<'_>], rows: &BTreeMap<u64, usize>) -> Result<()> {
        let alike = |left: &Work<'_>, right: &Work<'_>| {
            left.tensor.device().is(right.tensor.device()) && left.tensor.dtype() == right.tensor.dtype()
        };
        let mut groups: Vec<Vec<&Work<'_>>> = Vec::new();
        for work in works {
            let fits = |group: &&mut Vec<&Work<'_>>| group.len() < TOGETHER && alike(group[0], work);
            match groups.iter_mut().find(fits) {
                Some(group) => group.push(work),
                None => groups.push(vec![work]),
            }
        }
        let steps = self.progress().steps.clone();
        for group in groups {
            let mut inputs: Vec<&Tensor> = Vec::with_capacity(group.len() * 5);
            for work in &group {
                let slot = &self.slots[work.slot];
                inputs.extend([
                    &work.tensor,
                    work.grad,
                    &self.numbers_of(work)?.rows[rows[&(steps[work.slot] + 1)]],
                ]);
                inputs.extend(&slot.states);
            }
            apply(self.rule.op(), &inputs)?;
        }
        Ok(())
    }
}

/// The parameter's name, made different from those before it: two models may use the same names.
fn unique_label(labels: &mut HashSet<String>, param: &Param, position: usize) -> String {
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

// ---- State

const LR: &str = "lr";
const STEP: &str = "step";

impl<R: StepRule> Steps<R> {
    /// Keys: `lr`, and for each parameter that has made a step `NAME.step` and its moments, `NAME.exp_avg` and so on.
    pub fn state_dict(&self) -> Result<StateDict> {
        let home = self.slots[0].param.device();
        let mut dict = StateDict::from([(LR.to_owned(), Tensor::from_slice(&[self.lr()], (), &home)?)]);
        let steps = self.progress().steps.clone();
        no_grad(|| {
            for (slot, &steps) in self.slots.iter().zip(&steps).filter(|(_, steps)| **steps > 0) {
                let steps = [i64::try_from(steps).unwrap_or(i64::MAX)];
                let device = slot.param.device();
                dict.insert(format!("{}.{STEP}", slot.label), Tensor::from_slice(&steps, (), &device)?);
                for (name, state) in self.rule.state_names().iter().zip(&slot.states) {
                    dict.insert(format!("{}.{name}", slot.label), state.copy()?);
                }
            }
            Ok(dict)
        })
    }

    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let mut loading = Loading { dict, known: BTreeSet::from([LR.to_owned()]), problems: Vec::new() };
        let lr = loading.number::<f64>(LR).unwrap_or(self.lr());
        let loaded: Vec<(u64, Vec<Tensor>)> = self
            .slots
            .iter()
            .map(|slot| loading.slot(slot, self.rule.state_names()))
            .collect::<Result<_>>()?;
        loading.finish(self.op)?;
        self.set_lr(lr)?;
        for (at, (steps, states)) in loaded.into_iter().enumerate() {
            self.slots[at].take_over(states)?;
            lock(&self.progress).steps[at] = steps;
        }
        Ok(())
    }
}

/// Whether `state` is a state of the parameter `tensor` as that is now.
fn belongs(state: &Tensor, tensor: &Tensor) -> bool {
    state.shape() == tensor.shape()
        && state.dtype() == tensor.dtype().accumulator()
        && state.device().is(tensor.device())
}

impl Slot {
    /// Puts `loaded` into the memory of the states, which a recorded step may read; in their place where those are of the parameter as it was.
    fn take_over(&mut self, loaded: Vec<Tensor>) -> Result<()> {
        let tensor = self.param.tensor();
        if self.states.is_empty() || !self.states.iter().all(|state| belongs(state, &tensor)) {
            self.states = loaded;
            return Ok(());
        }
        no_grad(|| match loaded.is_empty() {
            // A first step finds zeros.
            true => self.states.iter().try_for_each(|state| state.fill_(0.0).map(drop)),
            false => {
                self.states.iter().zip(&loaded).try_for_each(|(state, loaded)| state.copy_(loaded).map(drop))
            }
        })
    }
}

/// A state dict being checked: nothing of it is used before all of it is known to fit.
struct Loading<'a> {
    dict: &'a StateDict,
    known: BTreeSet<String>,
    problems: Vec<String>,
}

impl Loading<'_> {
    /// A single number; a problem is noted if there is none.
    fn number<T: Element>(&mut self, key: &str) -> Option<T> {
        let found = self.dict.get(key).map(|tensor| tensor.item::<T>().map_err(|error| error.to_string()));
        match found {
            Some(Ok(value)) => return Some(value),
            Some(Err(problem)) => self.problems.push(format!("{key}: {problem}")),
            None => self.problems.push(format!("missing: {key}")),
        }
        None
    }

    /// The step count and the states of a parameter: a parameter without a step count has made none.
    fn slot(&mut self, slot: &Slot, names: &[&str]) -> Result<(u64, Vec<Tensor>)> {
        let key = format!("{}.{STEP}", slot.label);
        if !self.dict.contains_key(&key) {
            return Ok((0, Vec::new()));
        }
        let steps = self.steps(&key);
        self.known.insert(key);
        let mut states = Vec::with_capacity(names.len());
        for name in names {
            states.extend(self.state(format!("{}.{name}", slot.label), &slot.param)?);
        }
        Ok((steps, states))
    }

    /// The step count under `key`; a problem is noted unless it is one that a parameter with states can have.
    fn steps(&mut self, key: &str) -> u64 {
        match self.number::<i64>(key) {
            Some(steps) if steps < 1 => {
                self.problems.push(format!("{key}: {steps}, expected a step count of at least 1"));
                0
            }
            steps => steps.map_or(0, i64::unsigned_abs),
        }
    }

    /// A copy of one state on the parameter's device; a problem is noted if there is none that fits.
    fn state(&mut self, key: String, param: &Param) -> Result<Option<Tensor>> {
        let (shape, dtype) = (param.shape(), param.dtype().accumulator());
        let problem = match self.dict.get(&key) {
            None => format!("missing: {key}"),
            Some(state) if *state.shape() != shape => {
                format!("wrong shape: {key} {:?}, expected {shape:?}", state.shape())
            }
            Some(state) if state.dtype() != dtype => {
                format!("wrong dtype: {key} {}, expected {dtype}", state.dtype())
            }
            Some(state) => {
                self.known.insert(key);
                return no_grad(|| state.detach().to_device(&param.device())?.copy()).map(Some);
            }
        };
        self.known.insert(key);
        self.problems.push(problem);
        Ok(None)
    }

    fn finish(mut self, op: &'static str) -> Result<()> {
        let extra = self.dict.keys().filter(|key| !self.known.contains(*key));
        self.problems.extend(extra.map(|key| format!("extra: {key}")));
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(op, format!("the state does not fit; {}", self.problems.join("; "))))
    }
}
