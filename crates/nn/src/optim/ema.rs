//! Exponential moving averages of weights, which often perform better than the weights themselves.

use super::steps::unique_label;
use crate::module::state::LoadError;
use crate::module::{Matching, Param, StateDict, StateTensor, state};
use std::collections::HashSet;
use ternion_core::capture::is_recording_step;
use ternion_core::{Error, Result, Tensor, no_grad, text};

const OP: &str = "ema";
const COUNT: &str = "n_averaged";

/// An exponential moving average of parameters, as PyTorch's `AveragedModel` with
/// `get_ema_multi_avg_fn`: `average += (1 - decay) (parameter - average)`.
///
/// The averages are initialized with the values of the parameters at creation, and are stored in
/// the accumulator dtype: f32 for half-precision parameters. State that is not trained, such as
/// running statistics, is averaged only if it is passed to [`with_buffers`](Ema::with_buffers).
/// Otherwise the model keeps using its own state.
///
/// ```
/// use ternion_nn::optim::{AdamW, AdamWConfig, Optimizer};
/// use ternion_nn::{Ema, EmaConfig};
/// # use ternion_nn::{Forward, Linear, Module};
/// # use ternion_core::{DType, Result, Tensor, no_grad};
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let model = Linear::new(3, 2, &device)?;
/// # let input = Tensor::ones([5, 3], DType::F32, &device)?;
/// let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
/// let mut ema = Ema::new(model.parameters(), EmaConfig::default())?;
/// for _ in 0..10 {
///     adam.step(&model.forward(&input)?.square()?.mean(..)?.backward()?)?;
///     ema.update()?;
/// }
/// // Computed with the averages; the model has its own weights again afterward.
/// let output = ema.averaged(|| no_grad(|| model.forward(&input)))?;
/// # assert_eq!(output.dims(), [5, 2]);
/// # Ok(())
/// # }
/// ```
pub struct Ema {
    config: EmaConfig,
    slots: Vec<Slot>,
    updates: u64,
    /// The model's own values, while the averages replace them.
    original: Option<Vec<Tensor>>,
}

/// Configuration of an [`Ema`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EmaConfig {
    /// Fraction of the old average that is kept; 0.999 by default.
    pub decay: f64,
    /// Uses `min(decay, (1 + n) / (10 + n))` at update number `n` (the first is 1), so that the
    /// first averages follow the parameters quickly (as TensorFlow's `ExponentialMovingAverage`);
    /// off by default.
    pub warmup: bool,
}

impl Default for EmaConfig {
    fn default() -> Self {
        EmaConfig { decay: 0.999, warmup: false }
    }
}

/// The source of the values that are averaged.
enum Source {
    Param(Param),
    Buffer(StateTensor),
}

impl Source {
    fn tensor(&self) -> Tensor {
        match self {
            Source::Param(param) => param.tensor().detach(),
            Source::Buffer(state) => state.tensor(),
        }
    }

    /// Whether two handles refer to the same parameter or buffer.
    fn is(&self, other: &Source) -> bool {
        match (self, other) {
            (Source::Param(param), Source::Param(other)) => param.is(other),
            (Source::Buffer(state), Source::Buffer(other)) => state.address() == other.address(),
            _ => false,
        }
    }
}

/// A parameter or a buffer with its average.
struct Slot {
    source: Source,
    label: String,
    average: Tensor,
}

impl Slot {
    fn new(source: Source, label: String) -> Result<Slot> {
        let tensor = source.tensor();
        let average = no_grad(|| tensor.copy()?.to_dtype(tensor.dtype().accumulator()))?;
        Ok(Slot { source, label, average })
    }

    /// Returns the tensor that is averaged, if the average still fits its shape, dtype and device.
    fn tensor(&self) -> Result<Tensor> {
        let (tensor, average) = (self.source.tensor(), &self.average);
        let dtype = tensor.dtype().accumulator();
        if average.shape() == tensor.shape()
            && average.dtype() == dtype
            && average.device().is(tensor.device())
        {
            return Ok(tensor);
        }
        let tensor_text = text![&self.label, " is ", &tensor, " on ", tensor.device().name(), " now"];
        let average = text![", but its average ", average, " on ", average.device().name()];
        let advice = ": make the averages after moving or casting the model";
        Err(Error::invalid(OP, text![tensor_text, average, advice]))
    }
}

impl Ema {
    /// Creates averages of `parameters`, initialized with their current values.
    ///
    /// # Errors
    /// Returns an error if there are no parameters or one occurs twice, if the decay is not in 0 to
    /// 1, or if memory is exhausted.
    pub fn new(parameters: Vec<Param>, config: EmaConfig) -> Result<Ema> {
        if !(0.0..=1.0).contains(&config.decay) {
            return Err(Error::invalid(OP, format!("decay {}, expected 0 to 1", config.decay)));
        }
        if parameters.is_empty() {
            return Err(Error::invalid(OP, "no parameters to average"));
        }
        let (mut labels, mut slots) = (HashSet::new(), Vec::<Slot>::with_capacity(parameters.len()));
        for (position, param) in parameters.into_iter().enumerate() {
            let label = unique_label(&mut labels, &param, position);
            let source = Source::Param(param);
            if let Some(same) = slots.iter().find(|slot| slot.source.is(&source)) {
                let detail = format!("parameter {position} is given twice: it is {} already", same.label);
                return Err(Error::invalid(OP, detail));
            }
            slots.push(Slot::new(source, label)?);
        }
        Ok(Ema { config, slots, updates: 0, original: None })
    }

    /// Also averages the floating tensors of `buffers`, such as the running statistics of a
    /// [`BatchNorm2d`](crate::BatchNorm2d), as PyTorch's `use_buffers`. The averages are
    /// initialized with their current values. Pass a model's
    /// [`named_buffers`](crate::Module::named_buffers). Integer buffers, such as counts of batches,
    /// are not averaged: the model keeps using its own.
    ///
    /// # Errors
    /// Returns an error if a buffer is given twice or with the key of another one, if the averages
    /// are swapped in, or if memory is exhausted.
    pub fn with_buffers(mut self, buffers: Vec<(String, StateTensor)>) -> Result<Ema> {
        self.check_swapped_out("with_buffers")?;
        for (label, state) in buffers.into_iter().filter(|(_, state)| state.tensor().dtype().is_float()) {
            let source = Source::Buffer(state);
            let is_known = |slot: &&Slot| slot.source.is(&source) || slot.label == label;
            if let Some(same) = self.slots.iter().find(is_known) {
                let detail = format!("buffer {label} is given twice: it is {} already", same.label);
                return Err(Error::invalid(OP, detail));
            }
            self.slots.push(Slot::new(source, label)?);
        }
        Ok(self)
    }

    /// Moves the averages toward the parameters. Call it after each step of the optimizer.
    ///
    /// # Errors
    /// Returns an error while the averages are swapped in; within a step that is being recorded,
    /// which would repeat the decay of this update; or if a parameter no longer has the shape,
    /// dtype or device of its average.
    pub fn update(&mut self) -> Result<()> {
        self.check_swapped_out("update")?;
        if is_recording_step() {
            return Err(Error::invalid(OP, "update within a recorded step: make it after each replay"));
        }
        let tensors = self.tensors()?;
        let new_weight = 1.0 - self.decay(self.updates.saturating_add(1));
        no_grad(|| {
            for (slot, tensor) in self.slots.iter().zip(&tensors) {
                let difference = tensor.to_dtype(slot.average.dtype())?.sub(&slot.average)?;
                slot.average.copy_(&difference.scale_add(new_weight, &slot.average)?)?;
            }
            Ok::<_, Error>(())
        })?;
        self.updates = self.updates.saturating_add(1);
        Ok(())
    }

    /// Returns the decay of update number `update`; the first is 1.
    fn decay(&self, update: u64) -> f64 {
        let update = update as f64;
        match self.config.warmup {
            true => self.config.decay.min((1.0 + update) / (10.0 + update)),
            false => self.config.decay,
        }
    }

    fn tensors(&self) -> Result<Vec<Tensor>> {
        self.slots.iter().map(Slot::tensor).collect()
    }

    fn check_swapped_out(&self, what: &str) -> Result<()> {
        match self.original {
            None => Ok(()),
            Some(_) => {
                Err(Error::invalid(OP, format!("{what} while the averages are in the model: swap_out first")))
            }
        }
    }

    /// Whether the averages are swapped in, that is, replace the model's values.
    pub fn is_swapped_in(&self) -> bool {
        self.original.is_some()
    }

    /// Replaces the model's values by the averages, and keeps the values until
    /// [`swap_out`](Ema::swap_out).
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the averages are swapped in already or a parameter
    /// no longer fits its average. Returns an error if memory is exhausted.
    pub fn swap_in(&mut self) -> Result<()> {
        self.check_swapped_out("swap_in")?;
        let tensors = self.tensors()?;
        no_grad(|| {
            // Saved before anything is changed: after a failure on the device, swap_out restores
            // them.
            self.original = Some(tensors.iter().map(Tensor::copy).collect::<Result<_>>()?);
            self.slots.iter().zip(&tensors).try_for_each(|(slot, tensor)| tensor.copy_(&slot.average))
        })
    }

    /// Restores the values that the model had before [`swap_in`](Ema::swap_in), bit for bit.
    /// Changes that were made to the averaged tensors since then are lost; the averages do not
    /// change.
    ///
    /// # Errors
    /// Returns an error, and changes nothing, if the averages are not swapped in or a parameter no
    /// longer fits its average.
    pub fn swap_out(&mut self) -> Result<()> {
        let Some(original) = &self.original else {
            return Err(Error::invalid(OP, "swap_out, but the averages are not in the model: swap_in first"));
        };
        let tensors = self.tensors()?;
        no_grad(|| tensors.iter().zip(original).try_for_each(|(tensor, original)| tensor.copy_(original)))?;
        self.original = None;
        Ok(())
    }

    /// Calls `f` while the averages are swapped in, and returns its result. The model's own values
    /// are restored afterward, also if `f` fails.
    ///
    /// # Errors
    /// The first error of [`swap_in`](Ema::swap_in), `f` and [`swap_out`](Ema::swap_out).
    pub fn averaged<T>(&mut self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        self.swap_in()?;
        let result = f();
        let out = self.swap_out();
        let result = result?;
        out.map(|()| result)
    }

    /// Returns a copy of the current averages, as `average.NAME` of each parameter and buffer, and
    /// of the number of updates, as `n_averaged`. [`checkpoint::write`](crate::checkpoint::write)
    /// can save it to a file.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted, or if an earlier op failed on the device.
    pub fn state_dict(&self) -> Result<StateDict> {
        let updates = [i64::try_from(self.updates).unwrap_or(i64::MAX)];
        let count = Tensor::from_slice(&updates, (), self.slots[0].average.device())?;
        let mut dict = StateDict::from([(COUNT.to_owned(), count)]);
        no_grad(|| {
            for (key, average) in self.averages() {
                dict.insert(key, average.copy()?);
            }
            Ok(dict)
        })
    }

    /// Returns the averages by their keys, without copying them.
    fn averages(&self) -> StateDict {
        self.slots.iter().map(|slot| (format!("average.{}", slot.label), slot.average.clone())).collect()
    }

    /// Resumes from a state that [`state_dict`](Ema::state_dict) returned. Its averages are cast to
    /// the dtypes of these averages. Nothing is changed unless all entries fit.
    ///
    /// # Errors
    /// Returns an error if the count is missing or negative, or if averages are missing,
    /// unexpected, of another shape or not floating.
    pub fn load_state_dict(&mut self, dict: &StateDict) -> Result<()> {
        let mut averages = dict.clone();
        let count = averages.remove(COUNT);
        let count =
            count.ok_or_else(|| Error::invalid(OP, format!("the state does not fit; missing: {COUNT}")))?;
        let count = count.item::<i64>()?;
        let updates = u64::try_from(count)
            .map_err(|_| Error::invalid(OP, format!("{COUNT} {count}, expected at least 0")))?;
        state::overwrite(&self.averages(), &averages, Matching::Exact).map_err(|error| match error {
            LoadError::Mismatch(detail) => Error::invalid(OP, detail),
            LoadError::Failed(error) => error,
        })?;
        self.updates = updates;
        Ok(())
    }
}
