//! Dynamic loss scaling, which training in f16 needs.

use super::optimizer::Optimizer;
use crate::module::StateDict;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use ternion_core::capture::{excluded_from_capture, is_recording_step};
use ternion_core::{DType, Device, Error, Gradients, Result, Tensor, no_grad, text, without_precision};

const OP: &str = "loss_scale";
const SCALE: &str = "scale";
const TRACKER: &str = "growth_tracker";
const STEPS: &str = "steps";
const SKIPPED: &str = "skipped";
/// Limits of the scale. Losses are scaled in f32, which can represent both limits and their
/// reciprocals.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
const LARGEST: f64 = 1.0 / SMALLEST;
const KEYS: [&str; 4] = [SCALE, TRACKER, STEPS, SKIPPED];

/// A factor on the loss that keeps small f16 gradients from underflow to 0, as PyTorch's
/// `GradScaler` (Micikevicius et al. 2018, section 3.2).
///
/// The loss is multiplied by the scale before backward, and the gradients are divided by it
/// afterward. If one of them is not finite, the scale was too large: the step is skipped and the
/// scale is reduced. After a number of consecutive successful steps the scale is increased.
///
/// ```
/// use ternion_core::{DType, Precision, Reduction, Result, Tensor, with_precision};
/// use ternion_nn::optim::{AdamW, AdamWConfig};
/// use ternion_nn::{Forward, Linear, LossScale, Module};
///
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let (x, target) = (Tensor::ones([4, 3], DType::F32, &device)?, Tensor::ones([4, 1], DType::F32, &device)?);
/// let model = Linear::new(3, 1, &device)?;
/// let mut adam = AdamW::new(model.parameters(), AdamWConfig::default())?;
/// let loss_scale = LossScale::default();
/// for _ in 0..10 {
///     let loss = with_precision(Precision::F16, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))?;
///     loss_scale.step(&mut adam, &loss_scale.scale(&loss)?.backward()?)?;
/// }
/// assert_eq!(loss_scale.to_string(), "scale 65536, 0 of 10 steps skipped");
/// # Ok(())
/// # }
/// ```
///
/// To use the gradients before the step, for example to clip them, get them from
/// [`unscale`](LossScale::unscale):
///
/// ```
/// # use ternion_core::{DType, Gradients, Precision, Reduction, Result, Tensor, with_precision};
/// # use ternion_nn::optim::{Optimizer, SGD, SGDConfig, clip_grad_norm};
/// # use ternion_nn::{Forward, Linear, LossScale, Module};
/// # fn main() -> Result<()> {
/// # let device = ternion_cpu::device();
/// # let (x, target) = (Tensor::ones([4, 3], DType::F32, &device)?, Tensor::ones([4, 1], DType::F32, &device)?);
/// # let model = Linear::new(3, 1, &device)?;
/// # let mut sgd = SGD::new(model.parameters(), SGDConfig::default())?;
/// # let loss_scale = LossScale::default();
/// # let loss = with_precision(Precision::F16, || model.forward(&x)?.mse_loss(&target, Reduction::Mean))?;
/// // For several batches use Gradients::accumulate, with one scale for all of them.
/// let scaled = loss_scale.scale(&loss)?.backward()?;
/// if let Some(mut gradients) = loss_scale.unscale(&scaled)? {
///     clip_grad_norm(&mut gradients, &model.parameters(), 1.0)?;
///     sgd.step(&gradients)?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// The scale is a tensor on the device, whose address stays the same. Forward and backward can
/// therefore be [captured](Device::capture). [`unscale`](LossScale::unscale) must be called outside
/// of the capture, because it reads from the devices of the gradients.
pub struct LossScale {
    config: LossScaleConfig,
    state: Mutex<State>,
}

/// Configuration of a [`LossScale`]. The defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleConfig {
    /// The initial scale; 65536 by default.
    pub init_scale: f64,
    /// The factor by which the scale is increased; 2 by default.
    pub growth_factor: f64,
    /// The factor by which the scale is reduced when a step is skipped; 0.5 by default.
    pub backoff_factor: f64,
    /// The number of consecutive steps without a skip after which the scale is increased; 2000 by
    /// default.
    pub growth_interval: u64,
    /// The smallest scale. If gradients are not finite at this scale, no scale helps and
    /// [`LossScale::unscale`] returns an error (PyTorch would skip every further step). `2^-16` by
    /// default.
    pub min_scale: f64,
}

impl Default for LossScaleConfig {
    fn default() -> Self {
        LossScaleConfig {
            init_scale: 65536.0,
            growth_factor: 2.0,
            backoff_factor: 0.5,
            growth_interval: 2000,
            min_scale: 1.0 / 65536.0,
        }
    }
}

/// The outcome of a step. See [`LossScale::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledStep {
    /// The optimizer has made the step.
    Taken,
    /// The step was skipped: a gradient was not finite.
    Skipped,
}

/// The scale and the counts, and the copies of the scale on devices.
struct State {
    scale: f64,
    growth_tracker: u64,
    steps: u64,
    skipped: u64,
    /// The scale, one tensor for each device and dtype of the losses so far.
    tensors: Vec<Tensor>,
}

impl Default for LossScale {
    fn default() -> Self {
        LossScale::of(LossScaleConfig::default())
    }
}

impl LossScale {
    fn of(config: LossScaleConfig) -> LossScale {
        let state =
            State { scale: config.init_scale, growth_tracker: 0, steps: 0, skipped: 0, tensors: Vec::new() };
        LossScale { config, state: Mutex::new(state) }
    }

    /// Creates a loss scale with this configuration.
    ///
    /// # Errors
    /// Returns an error if a scale is not above 0 or outside the range of f32, the growth factor is
    /// 1 or less, the backoff factor is not between 0 and 1, the interval is 0, or the smallest
    /// scale is above the initial one.
    pub fn new(config: LossScaleConfig) -> Result<LossScale> {
        let LossScaleConfig { init_scale, growth_factor, backoff_factor, growth_interval, min_scale } =
            config;
        check_scale("init_scale", init_scale)?;
        check_scale("min_scale", min_scale)?;
        if min_scale > init_scale {
            let detail = format!("min_scale {min_scale}, expected at most init_scale {init_scale}");
            return Err(Error::invalid(OP, detail));
        }
        if !(growth_factor.is_finite() && growth_factor > 1.0) {
            return Err(Error::invalid(OP, format!("growth_factor {growth_factor}, expected more than 1")));
        }
        if !(backoff_factor > 0.0 && backoff_factor < 1.0) {
            let detail = format!("backoff_factor {backoff_factor}, expected between 0 and 1");
            return Err(Error::invalid(OP, detail));
        }
        if growth_interval == 0 {
            return Err(Error::invalid(OP, "growth_interval 0, expected at least 1"));
        }
        Ok(LossScale::of(config))
    }

    /// Ignores poisoning: a panic elsewhere cannot leave the state half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the scale of the next loss.
    pub fn value(&self) -> f64 {
        self.state().scale
    }

    /// Returns how often [`unscale`](LossScale::unscale) or [`step`](LossScale::step) was called:
    /// the number of steps taken and steps skipped.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// Returns the number of skipped steps. It is normal to skip a few steps at the beginning,
    /// while the scale adjusts, and one from time to time. More of them mean that training does not
    /// progress.
    pub fn skipped(&self) -> u64 {
        self.state().skipped
    }

    /// Returns the loss times the scale; for a half-precision loss, in f32. Call backward on the
    /// result.
    ///
    /// # Errors
    /// Returns an error if the dtype of the loss is not floating, or if memory is exhausted.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        if !loss.dtype().is_float() {
            return Err(Error::dtype(OP, "loss", loss.dtype(), "a floating dtype"));
        }
        let loss = loss.to_dtype(loss.dtype().accumulator())?;
        let scale = self.state().tensor(loss.dtype(), loss.device())?;
        loss.mul(&scale)
    }

    /// Returns the gradients of a scaled loss divided by the scale, or `None` if one of them is not
    /// finite: the step must then be skipped. Call it once for each step, because it updates the
    /// scale.
    ///
    /// It waits for the devices of the gradients, and reads one number for each device and
    /// accumulator dtype.
    ///
    /// # Errors
    /// Returns an error for a gradient in f16, in which small values would become 0 after the
    /// division: keep parameters in f32. Returns an error if gradients are not finite at the
    /// smallest scale, if it is called within a step that is being recorded, or if an earlier op
    /// failed on the device.
    pub fn unscale(&self, gradients: &Gradients) -> Result<Option<Gradients>> {
        if is_recording_step() {
            let detail = "unscale reads from the device, which a recorded step cannot: capture forward and backward, and unscale after each replay";
            return Err(Error::invalid(OP, detail));
        }
        if let Some((_, grad)) = gradients.iter().find(|(_, grad)| grad.dtype() == DType::F16) {
            let actual = text!["a gradient of shape ", grad.shape(), " in ", DType::F16];
            let expected = text![", expected ", DType::F32, ": keep the parameters in ", DType::F32];
            let scope = " and compute in a scope of Precision::F16";
            return Err(Error::invalid(OP, text![actual, expected, scope]));
        }
        without_precision(|| {
            no_grad(|| {
                let mut state = self.state();
                if !are_finite(gradients)? {
                    return self.back_off(&mut state).map(|()| None);
                }
                let inverse = 1.0 / state.scale;
                let unscaled = gradients.map(|grad| grad.mul_scalar(inverse))?;
                self.advance(&mut state)?;
                Ok(Some(unscaled))
            })
        })
    }

    /// Calls [`unscale`](LossScale::unscale), and then `optimizer.step` unless the step must be
    /// skipped. A skipped step changes neither parameters nor optimizer.
    ///
    /// # Errors
    /// The errors of [`unscale`](LossScale::unscale) and of the optimizer.
    pub fn step<O: Optimizer + ?Sized>(
        &self,
        optimizer: &mut O,
        gradients: &Gradients,
    ) -> Result<ScaledStep> {
        match self.unscale(gradients)? {
            Some(gradients) => optimizer.step(&gradients).map(|()| ScaledStep::Taken),
            None => Ok(ScaledStep::Skipped),
        }
    }

    /// Counts a successful step. The scale is increased after `growth_interval` consecutive ones.
    fn advance(&self, state: &mut State) -> Result<()> {
        state.steps = state.steps.saturating_add(1);
        state.growth_tracker += 1;
        if state.growth_tracker < self.config.growth_interval {
            return Ok(());
        }
        state.growth_tracker = 0;
        let grown = state.scale * self.config.growth_factor;
        if grown <= LARGEST { state.set(grown) } else { Ok(()) }
    }

    /// Counts a skipped step and reduces the scale.
    fn back_off(&self, state: &mut State) -> Result<()> {
        let scale = state.scale;
        state.steps = state.steps.saturating_add(1);
        state.skipped = state.skipped.saturating_add(1);
        state.growth_tracker = 0;
        if scale <= self.config.min_scale {
            let detail = format!(
                "gradients are not finite at scale {scale}, the smallest: the loss itself, or the model, gives infinity or NaN"
            );
            return Err(Error::invalid(OP, detail));
        }
        state.set((scale * self.config.backoff_factor).max(self.config.min_scale))
    }

    /// Returns the current state as tensors on `device`: `scale`, `growth_tracker`, `steps` and
    /// `skipped`. [`checkpoint::write`](crate::checkpoint::write) can save it to a file, also
    /// together with an optimizer's state under other keys.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted.
    pub fn state_dict(&self, device: &Device) -> Result<StateDict> {
        let state = self.state();
        let mut dict = StateDict::from([(SCALE.to_owned(), Tensor::from_slice(&[state.scale], (), device)?)]);
        for (key, value) in [(TRACKER, state.growth_tracker), (STEPS, state.steps), (SKIPPED, state.skipped)]
        {
            let value = [i64::try_from(value).unwrap_or(i64::MAX)];
            dict.insert(key.to_owned(), Tensor::from_slice(&value, (), device)?);
        }
        Ok(dict)
    }

    /// Resumes from a state that [`state_dict`](LossScale::state_dict) returned. Nothing is changed
    /// unless all entries fit.
    ///
    /// # Errors
    /// Returns an error if a key is missing or unexpected, a tensor is not a single number of the
    /// expected dtype, or a scale or count is not valid.
    pub fn load_state_dict(&self, dict: &StateDict) -> Result<()> {
        if let Some(extra) = dict.keys().find(|key| !KEYS.contains(&key.as_str())) {
            return Err(Error::invalid(OP, format!("the state does not fit; extra: {extra}")));
        }
        let scale = entry(dict, SCALE)?.item::<f64>()?;
        check_scale(SCALE, scale)?;
        let [growth_tracker, steps, skipped] =
            [count(dict, TRACKER)?, count(dict, STEPS)?, count(dict, SKIPPED)?];
        if skipped > steps {
            return Err(Error::invalid(OP, format!("{skipped} of {steps} steps skipped")));
        }
        let mut state = self.state();
        state.set(scale)?;
        (state.growth_tracker, state.steps, state.skipped) = (growth_tracker, steps, skipped);
        Ok(())
    }
}

impl State {
    /// Returns the scale on `device`, always the same tensor: a recorded step reads the scale at
    /// its address.
    fn tensor(&mut self, dtype: DType, device: &Device) -> Result<Tensor> {
        let matches = |tensor: &&Tensor| tensor.dtype() == dtype && tensor.device().is(device);
        if let Some(tensor) = self.tensors.iter().find(matches) {
            return Ok(tensor.clone());
        }
        if is_recording_step() {
            let detail = "scale a loss on this device once before a step is recorded";
            return Err(Error::invalid(OP, detail));
        }
        let tensor = excluded_from_capture(|| Tensor::full((), self.scale, dtype, device))?;
        self.tensors.push(tensor.clone());
        Ok(tensor)
    }

    fn set(&mut self, scale: f64) -> Result<()> {
        no_grad(|| {
            for tensor in &self.tensors {
                // This is an upload, not an op with the number as a constant. It uses the tensor's
                // dtype, because not every device has f64.
                tensor.copy_(&match tensor.dtype() {
                    DType::F64 => Tensor::from_slice(&[scale], (), tensor.device())?,
                    _ => Tensor::from_slice(&[scale as f32], (), tensor.device())?,
                })?;
            }
            Ok::<_, Error>(())
        })?;
        self.scale = scale;
        Ok(())
    }
}

impl fmt::Display for LossScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        write!(f, "scale {}, {} of {} steps skipped", state.scale, state.skipped, state.steps)
    }
}

impl fmt::Debug for LossScale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LossScale({self})")
    }
}

/// Whether every element of every gradient is finite. Reads one number for each device and
/// accumulator dtype.
fn are_finite(gradients: &Gradients) -> Result<bool> {
    let mut largest: Vec<Tensor> = Vec::new();
    for (_, grad) in gradients.iter().filter(|(_, grad)| grad.elements() > 0) {
        // In f64 if the gradient is f64: a value that is finite there may not be finite in f32.
        let dtype = grad.dtype().accumulator();
        let of_grad = grad.max_abs(..)?.to_dtype(dtype)?;
        match largest.iter_mut().find(|other| other.device().is(grad.device()) && other.dtype() == dtype) {
            Some(largest) => *largest = largest.maximum(&of_grad)?,
            None => largest.push(of_grad),
        }
    }
    for tensor in &largest {
        if !tensor.item_f64()?.is_finite() {
            return Ok(false);
        }
    }
    Ok(true)
}

fn check_scale(name: &str, scale: f64) -> Result<()> {
    match (SMALLEST..=LARGEST).contains(&scale) {
        true => Ok(()),
        false => {
            let detail = format!("{name} {scale}, expected a number of {SMALLEST:e} to {LARGEST:e}");
            Err(Error::invalid(OP, detail))
        }
    }
}

fn entry<'d>(dict: &'d StateDict, key: &str) -> Result<&'d Tensor> {
    dict.get(key).ok_or_else(|| Error::invalid(OP, format!("the state does not fit; missing: {key}")))
}

fn count(dict: &StateDict, key: &str) -> Result<u64> {
    let value = entry(dict, key)?.item::<i64>()?;
    u64::try_from(value).map_err(|_| Error::invalid(OP, format!("{key} {value}, expected at least 0")))
}
