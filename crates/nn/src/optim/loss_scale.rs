//! Loss scales that follow the gradients: what training in f16 needs.

use super::optimizer::Optimizer;
use crate::module::StateDict;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use ternion_core::capture::{is_recording_step, only_once};
use ternion_core::{DType, Device, Error, Gradients, Result, Tensor, no_grad, text, without_precision};

const OP: &str = "loss_scale";
const SCALE: &str = "scale";
const TRACKER: &str = "growth_tracker";
const STEPS: &str = "steps";
const SKIPPED: &str = "skipped";
/// Losses are scaled in f32, which holds these and divides by them.
const SMALLEST: f64 = f32::MIN_POSITIVE as f64;
const LARGEST: f64 = 1.0 / SMALLEST;
const KEYS: [&str; 4] = [SCALE, TRACKER, STEPS, SKIPPED];

/// A factor of the loss that keeps small gradients from becoming 0 in f16, as PyTorch's `GradScaler` (Micikevicius et al. 2018, section 3.2).
///
/// The loss is multiplied by the scale before backward, and the gradients divided by it after. If one of them is not finite, the scale was too large: the step is left out, and the
/// scale falls. After a number of steps in a row that went well it rises.
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
/// Whoever does something with the gradients before the step, such as clipping, takes them from [`unscale`](LossScale::unscale):
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
/// let scaled = loss_scale.scale(&loss)?.backward()?; // of several batches: Gradients::accumulate, one scale for all of them
/// if let Some(mut gradients) = loss_scale.unscale(&scaled)? {
///     clip_grad_norm(&mut gradients, &model.parameters(), 1.0)?;
///     sgd.step(&gradients)?;
/// }
/// # Ok(())
/// # }
/// ```
///
/// The scale is a tensor on the device, whose memory stays the same: forward and backward can be [captured](Device::capture). [`unscale`](LossScale::unscale) reads one number from each device of the gradients,
/// and stays outside of what is captured.
pub struct LossScale {
    config: LossScaleConfig,
    state: Mutex<State>,
}

/// How a [`LossScale`] moves. The defaults are PyTorch's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleConfig {
    /// The first scale; 65536 by default.
    pub init_scale: f64,
    /// What the scale is multiplied by when it rises; 2 by default.
    pub growth_factor: f64,
    /// What the scale is multiplied by when a step is left out; 0.5 by default.
    pub backoff_factor: f64,
    /// After so many steps in a row that were not left out the scale rises; 2000 by default.
    pub growth_interval: u64,
    /// The scale that means that no scale helps: if one as small still gives gradients that are not finite, [`LossScale::unscale`] is an error (PyTorch would leave out every step, for ever). `2^-16` by default.
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

/// What became of a step. See [`LossScale::step`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScaledStep {
    /// The optimiser has made it.
    Taken,
    /// It was left out: a gradient was not finite.
    Skipped,
}

/// Plain numbers, and their copies on devices.
struct State {
    scale: f64,
    growth_tracker: u64,
    steps: u64,
    skipped: u64,
    /// The scale, one of each device and dtype that a loss came in.
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

    /// A scale that begins and moves as told.
    ///
    /// # Errors
    /// A scale that is not above 0, or that f32 does not hold; a growth factor of 1 or less, a backoff factor that is not between 0 and 1, an interval of 0; a smallest scale above the first.
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

    /// A panic elsewhere cannot leave the numbers half changed.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The scale of the next loss.
    pub fn value(&self) -> f64 {
        self.state().scale
    }

    /// How often [`unscale`](LossScale::unscale) or [`step`](LossScale::step) was called: steps that were taken and steps that were left out.
    pub fn steps(&self) -> u64 {
        self.state().steps
    }

    /// How many steps were left out. A few at the beginning and one from time to time are the scale finding its place; more of them mean that training does not go on.
    pub fn skipped(&self) -> u64 {
        self.state().skipped
    }

    /// The loss times the scale, in f32 for a loss in a half: what backward is called of.
    ///
    /// # Errors
    /// A loss that is not floating, no memory.
    pub fn scale(&self, loss: &Tensor) -> Result<Tensor> {
        if !loss.dtype().is_float() {
            return Err(Error::dtype(OP, "loss", loss.dtype(), "a floating dtype"));
        }
        let loss = loss.to_dtype(loss.dtype().accumulator())?;
        let scale = self.state().tensor(loss.dtype(), loss.device())?;
        loss.mul(&scale)
    }

    /// The gradients of a scaled loss divided by the scale; `None` if one of them is not finite, for then the step is to be left out. Call it once for each step: it moves the scale.
    ///
    /// Reads one number from each device of the gradients, for which it waits.
    ///
    /// # Errors
    /// A gradient in f16, which would be 0 where it is small once it is divided: parameters stay f32. Gradients that are not finite at the smallest scale. Within a
    /// step that is recorded; an earlier op that failed on the device.
    pub fn unscale(&self, gradients: &Gradients) -> Result<Option<Gradients>> {
        if is_recording_step() {
            let detail = "unscale reads from the device, which a recorded step cannot: capture forward and backward, and unscale after each replay";
            return Err(Error::invalid(OP, detail));
        }
        if let Some((_, grad)) = gradients.iter().find(|(_, grad)| grad.dtype() == DType::F16) {
            let got = text!["a gradient of shape ", grad.shape(), " in ", DType::F16];
            let expected = text![", expected ", DType::F32, ": keep the parameters in ", DType::F32];
            let scope = " and compute in a scope of Precision::F16";
            return Err(Error::invalid(OP, text![got, expected, scope]));
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

    /// [`unscale`](LossScale::unscale), and a step of `optimizer` unless it is to be left out: then nothing of parameters and optimiser changes.
    ///
    /// # Errors
    /// Those of [`unscale`](LossScale::unscale) and of the optimiser.
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

    /// A step that went well: the scale rises after so many of them.
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

    /// A step that is left out.
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

    /// The state at this moment, as tensors on `device`: `scale`, `growth_tracker`, `steps` and `skipped`. Can be kept in a file by
    /// [`checkpoint::write`](crate::checkpoint::write), also beside an optimiser's under keys of one's own.
    ///
    /// # Errors
    /// If there is no memory.
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

    /// Goes on from a state told by [`state_dict`](LossScale::state_dict). Nothing is changed unless all fits.
    ///
    /// # Errors
    /// A key that is missing or extra; a tensor that is no single number of the dtype told; a scale or a count that cannot be.
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
    /// The scale on `device`, in the same memory each time: a recorded step reads it there.
    fn tensor(&mut self, dtype: DType, device: &Device) -> Result<Tensor> {
        let serves = |tensor: &&Tensor| tensor.dtype() == dtype && tensor.device().is(device);
        if let Some(tensor) = self.tensors.iter().find(serves) {
            return Ok(tensor.clone());
        }
        if is_recording_step() {
            let detail = "scale a loss on this device once before a step is recorded";
            return Err(Error::invalid(OP, detail));
        }
        let tensor = only_once(|| Tensor::full((), self.scale, dtype, device))?;
        self.tensors.push(tensor.clone());
        Ok(tensor)
    }

    fn set(&mut self, scale: f64) -> Result<()> {
        no_grad(|| {
            for tensor in &self.tensors {
                // An upload, not an op that carries the number. In its own dtype: not every device has f64.
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

/// Whether every element of every gradient is finite: one number is read from each device.
fn are_finite(gradients: &Gradients) -> Result<bool> {
    let mut largest: Vec<Tensor> = Vec::new();
    for (_, grad) in gradients.iter().filter(|(_, grad)| grad.elements() > 0) {
        // In f64 where one is: what is finite there may not be in f32.
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
