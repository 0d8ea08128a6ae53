//! The parts of a training run, which define what a checkpoint contains when it is saved and when
//! it is resumed.

use crate::Checkpoint;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::path::Path;
use ternion_core::error::Text;
use ternion_core::{DType, Device, Error, Result, Tensor, text};
use ternion_nn::optim::Optimizer;
use ternion_nn::schedule::ReduceLROnPlateau;
use ternion_nn::{Ema, LossScale, Module, StateDict};

/// The complete state of a training run, each part under a name: a run that resumes from it
/// continues as if it had never stopped.
///
/// The same list is used for saving and resuming, so that no saved part can be forgotten: create it
/// in one function. The device's random state is always included. A schedule is a function of the
/// step and needs no part; [`ReduceLROnPlateau`] is a [`part`](TrainingState::part).
///
/// ```
/// use ternion_train::TrainingState;
/// # use ternion_core::{DType, Device, Result, Tensor};
/// # use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
/// # use ternion_nn::{Dropout, Forward, Linear, Module, Sequential};
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let folder = std::env::temp_dir().join(format!("ternion-train-doc-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder).expect("the temporary folder can be written");
/// # let file = folder.join("run.ckpt");
/// struct Run {
///     device: Device,
///     model: Sequential,
///     adam: AdamW,
///     step: u64,        // also the index of the next batch
///     losses: Vec<f64>, // of every step so far
/// }
///
/// impl Run {
///     /// Returns the contents of a checkpoint of this training run.
///     fn state(&mut self) -> TrainingState<'_> {
///         TrainingState::new(&self.device)
///             .model("model", &self.model)
///             .optimizer("adam", &mut self.adam)
///             .part("losses", &mut self.losses)
///             .setting("batch", 16)
///     }
///
///     fn train(&mut self, until: u64) -> Result<()> {
///         while self.step < until {
///             let batch = Tensor::full([16, 4], self.step as f64, DType::F32, &self.device)?;
///             let loss = self.model.forward(&batch)?.square()?.mean(..)?;
///             self.adam.step(&loss.backward()?)?;
///             self.losses.push(loss.item_f64()?);
///             self.step += 1;
///         }
///         Ok(())
///     }
/// }
///
/// # let make = || -> Result<Run> {
/// #     device.seed(1);
/// #     let model = Sequential::new().with(Linear::new(4, 8, &device)?).with(Dropout::new(0.5)?).with(Linear::new(8, 1, &device)?);
/// #     let adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
/// #     Ok(Run { device: device.clone(), model, adam, step: 0, losses: Vec::new() })
/// # };
/// let mut run = make()?;
/// run.train(5)?;
/// let step = run.step;
/// run.state().save(step, &file)?;
/// run.train(10)?;
///
/// let mut resumed = make()?; // in another process, at another time
/// resumed.step = resumed.state().resume(&file)?;
/// resumed.train(10)?;
/// assert_eq!(resumed.losses, run.losses); // bit-identical
/// # std::fs::remove_dir_all(&folder).ok();
/// # Ok(())
/// # }
/// ```
pub struct TrainingState<'a> {
    pub(crate) device: &'a Device,
    pub(crate) parts: Vec<(String, Part<'a>)>,
}

/// A part of the state.
pub(crate) enum Part<'a> {
    Model(&'a dyn Module),
    Optimizer(&'a mut dyn Optimizer),
    Stateful(&'a mut dyn Stateful),
    /// The random numbers of another device.
    Random(&'a Device),
    Value(&'a mut dyn Value),
    /// A value that must not change: its JSON, or why it cannot be represented in JSON.
    Setting(Result<Json, String>),
}

impl Part<'_> {
    /// Returns the kind of the part, if it consists of tensors.
    pub fn tensor_kind(&self) -> Option<&'static str> {
        match self {
            Part::Model(_) => Some("model"),
            Part::Optimizer(_) => Some("optimizer"),
            Part::Stateful(_) => Some("state"),
            Part::Random(_) | Part::Value(_) | Part::Setting(_) => None,
        }
    }

    /// Returns a copy of its tensors.
    pub fn tensors(&self, device: &Device) -> Result<StateDict> {
        match self {
            Part::Model(model) => model.state_dict(),
            Part::Optimizer(optimizer) => optimizer.state_dict(),
            Part::Stateful(part) => part.state(device),
            Part::Random(_) | Part::Value(_) | Part::Setting(_) => Ok(StateDict::new()),
        }
    }

    pub fn restore(&mut self, tensors: &StateDict) -> Result<()> {
        match self {
            Part::Model(model) => model.load_state_dict(tensors),
            Part::Optimizer(optimizer) => optimizer.load_state_dict(tensors),
            Part::Stateful(part) => part.restore(tensors),
            Part::Random(_) | Part::Value(_) | Part::Setting(_) => Ok(()),
        }
    }
}

impl<'a> TrainingState<'a> {
    /// Creates a state that contains only the random numbers of `device`.
    pub fn new(device: &'a Device) -> TrainingState<'a> {
        TrainingState { device, parts: Vec::new() }
    }

    fn with(mut self, name: &str, part: Part<'a>) -> Self {
        self.parts.push((name.to_owned(), part));
        self
    }

    /// Adds the parameters and state of a model.
    ///
    /// When resuming, a model of another floating dtype than the saved one keeps its dtype; the
    /// values are cast to it.
    pub fn model(self, name: &str, model: &'a dyn Module) -> Self {
        self.with(name, Part::Model(model))
    }

    /// Adds the moments, step counts and learning rate of an optimizer. Its configuration is not
    /// saved: create it with the same one.
    pub fn optimizer(self, name: &str, optimizer: &'a mut dyn Optimizer) -> Self {
        self.with(name, Part::Optimizer(optimizer))
    }

    /// Adds another part with a state: an [`Ema`], a [`ReduceLROnPlateau`], a [`LossScale`], a
    /// `Vec<f64>` of losses (which may be NaN), or a custom type.
    pub fn part(self, name: &str, part: &'a mut dyn Stateful) -> Self {
        self.with(name, Part::Stateful(part))
    }

    /// Adds the random numbers of a further device.
    pub fn random(self, name: &str, device: &'a Device) -> Self {
        self.with(name, Part::Random(device))
    }

    /// Adds a value that JSON can represent: the epoch, the position in the data, the best accuracy
    /// so far. Floats are restored exactly. A float that may be NaN or infinite, which JSON cannot
    /// represent, goes into a `Vec<f64>` as a [`part`](TrainingState::part).
    pub fn value(self, name: &str, value: &'a mut dyn Value) -> Self {
        self.with(name, Part::Value(value))
    }

    /// Adds a value that must be the same when resuming, such as the batch size or a checksum of
    /// the data: resuming with another value is an error that names both.
    pub fn setting(self, name: &str, setting: impl Serialize) -> Self {
        let json = serde_json::to_value(setting).map_err(|error| error.to_string());
        self.with(name, Part::Setting(json))
    }

    /// Writes everything to one file with [`Checkpoint::write`]. `step` is the number of completed
    /// steps.
    ///
    /// # Errors
    /// The errors of [`Checkpoint::of`] and [`Checkpoint::write`].
    pub fn save(&self, step: u64, path: impl AsRef<Path>) -> Result<()> {
        Checkpoint::of(step, self)?.write(path)
    }

    /// Resumes from a file: restores everything in this state, and returns the number of completed
    /// steps.
    ///
    /// # Errors
    /// The errors of [`Checkpoint::read`] and [`Checkpoint::resume`].
    pub fn resume(&mut self, path: impl AsRef<Path>) -> Result<u64> {
        Checkpoint::read(path)?.resume(self)
    }

    /// Checks that names are unambiguous, also as prefixes of the keys in the file.
    pub(crate) fn check_names(&self) -> Result<()> {
        let mut names = BTreeSet::new();
        for (name, _) in &self.parts {
            if name.is_empty() || name.contains('.') {
                let detail = format!("the name {name:?}, expected one that is not empty and has no dot");
                return Err(Error::invalid(OP, detail));
            }
            if !names.insert(name) {
                return Err(Error::invalid(OP, format!("two parts have the name {name:?}")));
            }
        }
        Ok(())
    }
}

const OP: &str = "training state";

/// A part of a training run whose state is saved and restored as tensors.
pub trait Stateful {
    /// Returns a copy of the current state. Values that are not on a device may be copied to
    /// `device`.
    ///
    /// # Errors
    /// Returns an error if the device is out of memory, or an earlier op failed on it.
    fn state(&self, device: &Device) -> Result<StateDict>;

    /// Restores a state that [`state`](Stateful::state) returned. Nothing is changed unless
    /// everything matches.
    ///
    /// # Errors
    /// Returns an error that describes what does not match.
    fn restore(&mut self, state: &StateDict) -> Result<()>;
}

impl Stateful for Ema {
    fn state(&self, _: &Device) -> Result<StateDict> {
        self.state_dict()
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

impl Stateful for LossScale {
    fn state(&self, device: &Device) -> Result<StateDict> {
        self.state_dict(device)
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

impl Stateful for ReduceLROnPlateau {
    fn state(&self, device: &Device) -> Result<StateDict> {
        self.state_dict(device)
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        self.load_state_dict(state)
    }
}

const VALUES: &str = "values";

/// Any floats, including NaN, under the key `values`.
impl Stateful for Vec<f64> {
    fn state(&self, device: &Device) -> Result<StateDict> {
        Ok(StateDict::from([(VALUES.to_owned(), Tensor::from_slice(self, [self.len()], device)?)]))
    }

    fn restore(&mut self, state: &StateDict) -> Result<()> {
        let tensor_entry = state.get(VALUES).filter(|_| state.len() == 1);
        let fits = |tensor: &&Tensor| tensor.dtype() == DType::F64 && tensor.shape().rank() == 1;
        let Some(tensor) = tensor_entry.filter(fits) else {
            let keys = state.iter().map(|(key, tensor)| text![key, " ", tensor]);
            let actual = text!["the state does not fit; got ", Text::joined(keys, ", ")];
            return Err(Error::invalid(
                "numbers",
                text![actual, ", expected ", VALUES, " [count] ", DType::F64],
            ));
        };
        *self = tensor.to_vec()?;
        Ok(())
    }
}

/// A value that JSON can represent. Implemented for every type that serde can serialize and
/// deserialize.
pub trait Value {
    /// Returns the value as JSON.
    ///
    /// # Errors
    /// Returns the reason why JSON cannot represent it.
    fn to_json(&self) -> Result<Json, String>;

    /// Checks whether [`set`](Value::set) would accept `json`.
    ///
    /// # Errors
    /// Returns the reason why it would not.
    fn check(&self, json: &Json) -> Result<(), String>;

    /// Sets the value from `json`.
    ///
    /// # Errors
    /// Returns an error if `json` is of another type; the value is not changed then.
    fn set(&mut self, json: &Json) -> Result<(), String>;
}

fn read<T: DeserializeOwned>(json: &Json) -> Result<T, String> {
    T::deserialize(json).map_err(|error| error.to_string())
}

impl<T: Serialize + DeserializeOwned> Value for T {
    fn to_json(&self) -> Result<Json, String> {
        let json = serde_json::to_value(self).map_err(|error| error.to_string())?;
        // A NaN becomes null, which is not a float. Report it now, and not when the training run is
        // resumed.
        match read::<T>(&json) {
            Ok(_) => Ok(json),
            Err(error) => Err(format!(
                "what JSON makes of it does not come back: {error} (JSON has no NaN and no infinity)"
            )),
        }
    }

    fn check(&self, json: &Json) -> Result<(), String> {
        read::<T>(json).map(drop)
    }

    fn set(&mut self, json: &Json) -> Result<(), String> {
        *self = read(json)?;
        Ok(())
    }
}
