//! Capture of whole steps, which are recorded once and replayed without host work per op:
//! [`Device::capture`].

use crate::autograd::FusionMode;
use crate::backend::{Buffer, Capture, Replay, WeakBuffer};
use crate::device::RandomPosition;
use crate::error::{Error, Result, Text};
use crate::observe::{observe_ops, unobserved};
use crate::ops::attention::AttentionConfig;
use crate::precision::{self, Precision};
use crate::{DType, Device, Layout, Op, Shape, Tensor, text};
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;
use std::sync::Arc;

/// Host work before each replay, such as writing the optimizer's next hyperparameters to the
/// device.
type Hook = Box<dyn FnMut() -> Result<()> + Send>;

thread_local! {
    /// The hooks of the step that this thread records.
    static RECORDING: RefCell<Option<Vec<Hook>>> = const { RefCell::new(None) };
    /// Whether this thread runs a step that is to be recorded.
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
    /// The buffers that this step has allocated so far, by address.
    static ALLOCATED: RefCell<BTreeMap<usize, WeakBuffer>> = const { RefCell::new(BTreeMap::new()) };
}

/// Records that the step which this thread runs has allocated `buffer` for an op.
#[inline]
pub(crate) fn record_allocation(buffer: &Buffer) {
    if IS_TRACED.get() {
        ALLOCATED.with_borrow_mut(|allocated| allocated.insert(buffer.address(), buffer.downgrade()));
    }
}

/// Records allocations until it is dropped.
struct Tracing {
    was_traced: bool,
    allocated: BTreeMap<usize, WeakBuffer>,
}

impl Tracing {
    fn begin() -> Tracing {
        Tracing { was_traced: IS_TRACED.replace(true), allocated: ALLOCATED.take() }
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        IS_TRACED.set(self.was_traced);
        ALLOCATED.set(std::mem::take(&mut self.allocated));
    }
}

/// Returns whether this thread records a step: ops are then recorded instead of run.
pub fn is_recording_step() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// Returns the error for an operation that is not possible while a step is recorded: waiting for
/// the device, or copying from or to the host.
pub fn rejected_while_recording(what: &'static str) -> Error {
    Error::invalid(
        what,
        "the step that is being recorded waits for the device or copies from the host; a recorded step does neither",
    )
}

/// Registers `hook` to be called before each replay of the step that is being recorded. Use it to
/// write host values that change from step to step, such as a learning rate, to the device.
///
/// # Errors
/// Returns an error if no step is being recorded.
pub fn on_replay(hook: impl FnMut() -> Result<()> + Send + 'static) -> Result<()> {
    RECORDING.with_borrow_mut(|hooks| match hooks {
        Some(hooks) => {
            hooks.push(Box::new(hook));
            Ok(())
        }
        None => Err(Error::invalid("on_replay", "no step is being recorded on this thread")),
    })
}

/// Excludes ops that a step runs only the first time, such as the creation of optimizer states,
/// from the comparison of the two runs. Do not call it while the step is recorded
/// ([`is_recording_step`]): the ops would be recorded.
pub fn excluded_from_capture<T>(f: impl FnOnce() -> T) -> T {
    unobserved(f)
}

/// A step that can be replayed. See [`Device::capture`].
pub struct CapturedStep<'f, T>(Replayable<'f, T>);

enum Replayable<'f, T> {
    /// The device does not support recording: the closure runs each time, with the precision and
    /// fusion switches of the first run.
    Closure {
        step: Box<dyn FnMut() -> Result<T> + 'f>,
        precision: Option<Precision>,
        fusion_mode: FusionMode,
        output: T,
    },
    Recorded(RecordedStep<T>),
}

/// A step that a device has recorded. See [`Device::record`].
pub struct RecordedStep<T> {
    output: T,
    recorded: Recorded,
}

struct Recorded {
    replay: Arc<dyn Replay>,
    /// The buffers that the step writes: each replay changes them in place, which autograd must
    /// detect.
    written: Vec<WeakBuffer>,
    hooks: Vec<Hook>,
    device: Device,
    random: Random,
}

/// The random numbers of a recorded step: it reads their state from a separate buffer.
struct Random {
    /// `[seed, base]`, i64: see [`crate::ops::random`].
    state: Buffer,
    /// The index of the first block when the step was recorded.
    from: u64,
    /// The number of blocks of random numbers that a step uses.
    blocks: u64,
}

impl<T> CapturedStep<'_, T> {
    /// Runs the step again on the same tensors, and returns the closure's result: tensors whose
    /// memory each replay overwrites.
    ///
    /// # Errors
    /// Returns the errors of the ops of the step, of the hooks ([`on_replay`]), and of the upload
    /// of the random state.
    pub fn replay(&mut self) -> Result<&T> {
        match &mut self.0 {
            Replayable::Closure { step, precision, fusion_mode, output } => {
                *output = fusion_mode.apply(|| precision::with_separate_casts(*precision, step))?;
                Ok(output)
            }
            Replayable::Recorded(recorded) => recorded.replay(),
        }
    }

    /// Returns whether the device recorded the step. Otherwise each replay runs the closure.
    pub fn is_recorded(&self) -> bool {
        matches!(self.0, Replayable::Recorded(_))
    }
}

impl<T> RecordedStep<T> {
    /// Same as [`CapturedStep::replay`].
    ///
    /// # Errors
    /// Same as [`CapturedStep::replay`].
    pub fn replay(&mut self) -> Result<&T> {
        self.recorded.replay()?;
        Ok(&self.output)
    }

    /// Returns the result of the step, as written by the last replay. Before the first replay the
    /// contents of its tensors are undefined.
    pub fn output(&self) -> &T {
        &self.output
    }
}

impl Recorded {
    fn replay(&mut self) -> Result<()> {
        // Step counts and random numbers must advance only if the step runs.
        self.replay.ready()?;
        self.hooks.iter_mut().try_for_each(|hook| hook())?;
        if self.random.blocks > 0 {
            let (seed, first) = self.device.take_random(self.random.blocks);
            let state = [seed, first.wrapping_sub(self.random.from)];
            self.device.backend().upload(bytemuck::cast_slice(&state), &self.random.state, 0)?;
        }
        let outcome = self.replay.replay();
        // Also if the replay failed, because some of its ops may have run.
        self.written.iter().filter_map(WeakBuffer::upgrade).for_each(|buffer| buffer.bump_version());
        outcome
    }
}

/// A call of an op in a step, with the properties that must not change from run to run.
struct CalledOp {
    name: &'static str,
    inputs: SmallVec<[(Shape, DType); 4]>,
    /// A digest of the op's settings.
    settings_digest: u64,
    /// For each input, the address of its buffer, if the step had not written to the buffer before
    /// this call.
    outside: SmallVec<[Option<usize>; 4]>,
    /// The layouts of inputs and outputs.
    layouts: SmallVec<[Layout; 4]>,
}

impl Device {
    /// Runs `step` once, so that kernels are compiled and optimizer states exist, then records it.
    /// The returned step repeats it without host work per op. On a device that does not support
    /// recording, each replay runs the closure.
    ///
    /// The step uses the same memory each time: pass new data by writing it to its input tensors
    /// ([`Tensor::copy_`](crate::Tensor::copy_)). Learning rates, step counts and random numbers
    /// advance from replay to replay; the [precision](crate::with_precision) is fixed at capture.
    /// Memory that the step allocates is reserved for it, including the tensors that the closure
    /// returns.
    ///
    /// # Errors
    /// Returns the errors of the step. A step cannot be recorded if it reads from the device,
    /// copies to it from the host, or uses another device, or if it does not call the same ops on
    /// the same shapes, with the same settings and the same memory, each time.
    pub fn capture<'f, T>(&self, mut step: impl FnMut() -> Result<T> + 'f) -> Result<CapturedStep<'f, T>> {
        if let Some(recorded) = self.record(&mut step)? {
            return Ok(CapturedStep(Replayable::Recorded(recorded)));
        }
        let (precision, fusion_mode) = (precision::current(), FusionMode::current());
        let output = precision::with_separate_casts(precision, &mut step)?;
        Ok(CapturedStep(Replayable::Closure { step: Box::new(step), precision, fusion_mode, output }))
    }

    /// Same as [`capture`](Device::capture), for callers that run the step themselves if the device
    /// does not support recording: the result is then `None`, and `step` has not run.
    ///
    /// # Errors
    /// Same as [`capture`](Device::capture).
    pub fn record<T>(&self, mut step: impl FnMut() -> Result<T>) -> Result<Option<RecordedStep<T>>> {
        let Some(capture) = self.backend().capture() else { return Ok(None) };
        let (first, output) = trace_step(self, &mut step);
        let output = output?;
        if is_recording_step() {
            return Err(Error::invalid("capture", "this thread records a step already"));
        }
        drop(output);
        let state = self.backend().alloc(16)?;
        // Recording begins first because it can fail: another thread may be recording and using
        // random numbers.
        let recording = Recording::begin(self, capture)?;
        let random_guard =
            RandomStateGuard { device: self, position: self.begin_random(&state), ended: false };
        let (second, output) = trace_step(self, &mut step);
        let (replay, hooks) = recording.end(output.is_ok());
        let (from, blocks) = random_guard.end();
        let output = output?;
        same_ops(&first.called, &second.called)?;
        same_memory(&first.called, &second.called, state.address())?;
        let random = Random { state, from, blocks };
        let recorded =
            Recorded { replay: replay?, written: second.written(), hooks, device: self.clone(), random };
        Ok(Some(RecordedStep { output, recorded }))
    }
}

/// While a step is recorded, random numbers are counted, not generated. This guard restores the
/// random state when the recording ends, also if the step panics.
struct RandomStateGuard<'a> {
    device: &'a Device,
    position: RandomPosition,
    ended: bool,
}

impl RandomStateGuard<'_> {
    /// Returns the position of the step's first random numbers, and the number of blocks.
    fn end(mut self) -> (u64, u64) {
        self.ended = true;
        (self.position.offset, self.device.end_random(&mut self.position))
    }
}

impl Drop for RandomStateGuard<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.device.end_random(&mut self.position);
        }
    }
}

/// A recording in progress. It is ended also if the step panics.
struct Recording<'a> {
    capture: &'a dyn Capture,
    ended: bool,
}

impl<'a> Recording<'a> {
    fn begin(device: &Device, capture: &'a dyn Capture) -> Result<Recording<'a>> {
        device.synchronize()?;
        capture.begin()?;
        RECORDING.set(Some(Vec::new()));
        Ok(Recording { capture, ended: false })
    }

    /// Returns the recorded step, if the recording is complete (`is_complete`), and its hooks.
    fn end(mut self, is_complete: bool) -> (Result<Arc<dyn Replay>>, Vec<Hook>) {
        self.ended = true;
        let hooks = RECORDING.take().unwrap_or_default();
        let replay = self.capture.end();
        let broken = || Err(Error::invalid("capture", "the step was not recorded to its end"));
        (if is_complete { replay } else { replay.and_then(|_| broken()) }, hooks)
    }
}

impl Drop for Recording<'_> {
    fn drop(&mut self) {
        if !self.ended {
            RECORDING.set(None);
            let _ = self.capture.end();
        }
    }
}

/// The trace of a step.
#[derive(Default)]
struct Trace {
    called: Vec<CalledOp>,
    /// The buffers of the outputs of its ops.
    outputs: BTreeMap<usize, WeakBuffer>,
    /// The buffers that it read before it wrote to them. The weak handles keep their addresses from
    /// being reused.
    outside: BTreeMap<usize, WeakBuffer>,
}

impl Trace {
    /// Returns the address of `tensor`'s buffer if it existed before the step, or was uploaded from
    /// the host.
    fn outside(&mut self, tensor: &Tensor) -> Option<usize> {
        let address = tensor.buffer().address();
        if self.outputs.contains_key(&address)
            || ALLOCATED.with_borrow(|allocated| allocated.contains_key(&address))
        {
            return None;
        }
        self.outside.entry(address).or_insert_with(|| tensor.buffer().downgrade());
        Some(address)
    }

    /// Returns the written buffers that still exist: those of tensors from outside, and of returned
    /// tensors.
    fn written(self) -> Vec<WeakBuffer> {
        self.outputs.into_values().filter(|buffer| buffer.upgrade().is_some()).collect()
    }
}

/// Runs `step` on `device`, and returns its trace and its result.
fn trace_step<T>(device: &Device, step: &mut impl FnMut() -> Result<T>) -> (Trace, Result<T>) {
    let trace: Rc<RefCell<Trace>> = Rc::default();
    let (log, recorded) = (trace.clone(), device.clone());
    let observer = move |call: &crate::OpCall<'_>| {
        let mut log = log.borrow_mut();
        let outside = call.inputs.iter().map(|tensor| log.outside(tensor)).collect();
        for output in call.outputs {
            check_device(&recorded, call.op, output.device())?;
            if !precision::is_elided_cast(call) {
                log.outputs.insert(output.buffer().address(), output.buffer().downgrade());
            }
        }
        let inputs = call.inputs.iter().map(|tensor| (*tensor.shape(), tensor.dtype())).collect();
        let layouts =
            call.inputs.iter().copied().chain(call.outputs).map(|tensor| *tensor.layout()).collect();
        log.called.push(CalledOp {
            name: call.op.name(),
            inputs,
            settings_digest: settings_digest(call.op),
            outside,
            layouts,
        });
        Ok(())
    };
    // Casts that a precision scope has cached are not reused, so that the step computes its own
    // casts and they are recorded.
    let tracing = Tracing::begin();
    let output = precision::with_separate_casts(precision::current(), || observe_ops(observer, step));
    drop(tracing);
    (trace.take(), output)
}

/// Checks that an op runs on the device whose step is recorded: on another device it would not be
/// replayed.
fn check_device(recorded: &Device, op: &Op, device: &Device) -> Result<()> {
    match device.is(recorded) {
        true => Ok(()),
        false => Err(Error::invalid(
            "capture",
            format!(
                "{} runs on {device}, but the step is recorded on {recorded}: all tensors of a recorded step must be on one device",
                op.name()
            ),
        )),
    }
}

/// Computes a digest of an op's settings: host values, which are constant in a recording. The
/// position of its random numbers is excluded, because it advances.
fn settings_digest(op: &Op) -> u64 {
    let mut op = op.clone();
    match &mut op {
        Op::RandomBits(random) => random.offset = 0,
        Op::Uniform(random) => random.offset = 0,
        Op::Normal(random) => random.offset = 0,
        Op::Dropout(random) => random.offset = 0,
        Op::Attention(attention) => reset_offset(&mut attention.config),
        Op::AttentionGrad(attention) => reset_offset(&mut attention.config),
        Op::AttentionGradMask(attention) => reset_offset(&mut attention.config),
        _ => {}
    }
    let mut digest = DefaultHasher::new();
    format!("{op:?}").hash(&mut digest);
    digest.finish()
}

fn reset_offset(config: &mut AttentionConfig) {
    if let Some(dropout) = &mut config.dropout {
        dropout.offset = 0;
    }
}

impl CalledOp {
    /// Compares everything except the buffers and layouts of the inputs.
    fn is_same_call(&self, other: &CalledOp) -> bool {
        (self.name, &self.inputs, self.settings_digest) == (other.name, &other.inputs, other.settings_digest)
    }

    /// Describes the op and its inputs, for messages.
    fn describe(&self) -> Text {
        let inputs = self.inputs.iter().map(|(shape, dtype)| text![shape, " ", *dtype]);
        text![self.name, " of ", Text::joined(inputs, ", ")]
    }
}

/// Checks that both runs call the same ops. Otherwise each replay would repeat ops that only the
/// recorded run called.
fn same_ops(first: &[CalledOp], second: &[CalledOp]) -> Result<()> {
    let differs = |detail: Text| {
        let rule =
            "; a recorded step must call the same ops on the same shapes with the same settings each time";
        Err(Error::invalid("capture", text![detail, rule]))
    };
    let other = first.iter().zip(second).enumerate().find(|(_, (first, second))| !first.is_same_call(second));
    if let Some((at, (first, second))) = other {
        return differs(match (first.name, &first.inputs) == (second.name, &second.inputs) {
            true => text![
                format!("op {at}, "),
                first.describe(),
                ", had different settings in the recorded run than in the first run: pass values that change as tensors"
            ],
            false => {
                let ran = text![format!("op {at} was "), first.describe(), " in the first run"];
                text![ran, " and ", second.describe(), " in the recorded run"]
            }
        });
    }
    match first.len() == second.len() {
        true => Ok(()),
        false => {
            let (ran, recorded) = (first.len(), second.len());
            differs(format!("{ran} ops in the first run and {recorded} in the recorded run").into())
        }
    }
}

/// Checks that both runs use the same memory. If a step reads other tensors in the second run, such
/// as a batch that it loads itself, each replay would read the tensors of the recorded run. The
/// buffer at address `random` is an exception: the second run reads its random state from there.
fn same_memory(first: &[CalledOp], second: &[CalledOp], random: usize) -> Result<()> {
    for (at, (first, second)) in first.iter().zip(second).enumerate() {
        let moved = first.outside.iter().zip(&second.outside).position(|addresses| match addresses {
            (Some(first), Some(second)) => first != second && *second != random,
            _ => false,
        });
        let differs = |detail: String| {
            let differs = format!(
                ", {detail} in the recorded run than in the first run; a recorded step uses the same memory \
                 each time: copy new values into the same tensor (copy_)"
            );
            Err(Error::invalid("capture", text![format!("op {at}, "), second.describe(), differs]))
        };
        if let Some(input) = moved {
            return differs(format!("read a different tensor as input {input}"));
        }
        if first.layouts != second.layouts && !second.outside.contains(&Some(random)) {
            return differs("accessed a different part of a tensor".into());
        }
    }
    Ok(())
}
