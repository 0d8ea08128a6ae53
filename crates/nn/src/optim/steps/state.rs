//! The optimizer's state as a dictionary: saving, checking and loading it.

use super::{Slot, StepRule, Steps, lock, state_fits};
use crate::module::{Param, StateDict};
use std::collections::BTreeSet;
use ternion_core::error::Text;
use ternion_core::{Element, Error, Result, Tensor, no_grad, text};

const LR: &str = "lr";
const STEP: &str = "step";

impl<R: StepRule> Steps<R> {
    /// The state names are the same in each group: only weight decay differs.
    fn state_names(&self) -> &'static [&'static str] {
        self.groups[0].rule.state_names()
    }

    /// Returns a dictionary with the keys `lr` and, for each parameter that has made a step,
    /// `NAME.step` and its moments, `NAME.exp_avg` and so on.
    pub fn state_dict(&self) -> Result<StateDict> {
        let device = self.slots[0].param.device();
        let mut dict = StateDict::from([(LR.to_owned(), Tensor::from_slice(&[self.lr()], (), &device)?)]);
        let steps = self.progress().steps.clone();
        no_grad(|| {
            for (slot, &steps) in self.slots.iter().zip(&steps).filter(|(_, steps)| **steps > 0) {
                let steps = [i64::try_from(steps).unwrap_or(i64::MAX)];
                let device = slot.param.device();
                dict.insert(format!("{}.{STEP}", slot.label), Tensor::from_slice(&steps, (), &device)?);
                for (name, state) in self.state_names().iter().zip(&slot.states) {
                    dict.insert(format!("{}.{name}", slot.label), state.copy()?);
                }
            }
            Ok(dict)
        })
    }

    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let mut loader = StateLoader { dict, known: BTreeSet::from([LR.to_owned()]), problems: Vec::new() };
        let lr = loader.number::<f64>(LR).unwrap_or(self.lr());
        let loaded: Vec<(u64, Vec<Tensor>)> =
            self.slots.iter().map(|slot| loader.slot(slot, self.state_names())).collect::<Result<_>>()?;
        loader.finish(self.op)?;
        self.set_lr(lr)?;
        for (at, (steps, states)) in loaded.into_iter().enumerate() {
            let initial = self.groups[self.slots[at].group].rule.initial_state();
            self.slots[at].load_states(states, initial)?;
            lock(&self.progress).steps[at] = steps;
        }
        Ok(())
    }
}

impl Slot {
    /// Copies `loaded` into the existing states, because a recorded step may read their buffers. If
    /// these no longer fit the parameter, `loaded` replaces them.
    fn load_states(&mut self, loaded: Vec<Tensor>, initial: f64) -> Result<()> {
        let tensor = self.param.tensor();
        if self.states.is_empty() || !self.states.iter().all(|state| state_fits(state, &tensor)) {
            self.states = loaded;
            return Ok(());
        }
        no_grad(|| match loaded.is_empty() {
            // The first step expects states with their initial value.
            true => self.states.iter().try_for_each(|state| state.fill_(initial).map(drop)),
            false => {
                self.states.iter().zip(&loaded).try_for_each(|(state, loaded)| state.copy_(loaded).map(drop))
            }
        })
    }
}

/// A state dict that is being checked. None of it is used before all of it is known to fit.
struct StateLoader<'a> {
    dict: &'a StateDict,
    known: BTreeSet<String>,
    problems: Vec<Text>,
}

impl StateLoader<'_> {
    /// Returns the number stored under `key`; records a problem if there is none.
    fn number<T: Element>(&mut self, key: &str) -> Option<T> {
        match self.dict.get(key).map(Tensor::item::<T>) {
            Some(Ok(value)) => return Some(value),
            Some(Err(problem)) => self.problems.push(text![key, ": ", problem]),
            None => self.problems.push(text!["missing: ", key]),
        }
        None
    }

    /// Returns the step count and the states of a parameter. A parameter whose key is missing has
    /// made no step.
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

    /// Returns the step count under `key`. Records a problem if it is not a valid count of a
    /// parameter with states, that is, at least 1.
    fn steps(&mut self, key: &str) -> u64 {
        match self.number::<i64>(key) {
            Some(steps) if steps < 1 => {
                self.problems.push(format!("{key}: {steps}, expected a step count of at least 1").into());
                0
            }
            steps => steps.map_or(0, i64::unsigned_abs),
        }
    }

    /// Returns a copy of one state on the parameter's device. Records a problem if the state is
    /// missing or does not fit.
    fn state(&mut self, key: String, param: &Param) -> Result<Option<Tensor>> {
        let (shape, dtype) = (param.shape(), param.dtype().accumulator());
        let error_message = match self.dict.get(&key) {
            None => text!["missing: ", &key],
            Some(state) if *state.shape() != shape => {
                text!["wrong shape: ", &key, " ", state.shape(), ", expected ", &shape]
            }
            Some(state) if state.dtype() != dtype => {
                text!["wrong dtype: ", &key, " ", state.dtype(), ", expected ", dtype]
            }
            Some(state) => {
                self.known.insert(key);
                return no_grad(|| state.detach().to_device(&param.device())?.copy()).map(Some);
            }
        };
        self.known.insert(key);
        self.problems.push(error_message);
        Ok(None)
    }

    fn finish(mut self, op: &'static str) -> Result<()> {
        let extra = self.dict.keys().filter(|key| !self.known.contains(*key));
        self.problems.extend(extra.map(|key| text!["extra: ", key]));
        if self.problems.is_empty() {
            return Ok(());
        }
        Err(Error::invalid(op, text!["the state does not fit; ", Text::joined(self.problems, "; ")]))
    }
}
