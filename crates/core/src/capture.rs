//! Whole steps recorded once and replayed without host work per op: [`Device::capture`].

use crate::autograd::Forming;
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

/// What the host does before each replay, such as writing an optimiser's next numbers to the device.
type Hook = Box<dyn FnMut() -> Result<()> + Send>;

thread_local! {
    /// The hooks of the step that this thread records.
    static RECORDING: RefCell<Option<Vec<Hook>>> = const { RefCell::new(None) };
    /// Whether this thread runs a step that is to be recorded, and by address the memory that was made meanwhile.
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
    static MADE: RefCell<BTreeMap<usize, WeakBuffer>> = const { RefCell::new(BTreeMap::new()) };
}

/// Notes fresh memory for an op: it belongs to the step that this thread runs.
#[inline]
pub(crate) fn note_made(buffer: &Buffer) {
    if IS_TRACED.get() {
        MADE.with_borrow_mut(|made| made.insert(buffer.address(), buffer.downgrade()));
    }
}

/// Notes what is made, until it is dropped.
struct Tracing {
    was_traced: bool,
    made: BTreeMap<usize, WeakBuffer>,
}

impl Tracing {
    fn begin() -> Tracing {
        Tracing { was_traced: IS_TRACED.replace(true), made: MADE.take() }
    }
}

impl Drop for Tracing {
    fn drop(&mut self) {
        IS_TRACED.set(self.was_traced);
        MADE.set(std::mem::take(&mut self.made));
    }
}

/// Whether this thread records a step: ops are noted, not run.
pub fn is_recording_step() -> bool {
    RECORDING.with_borrow(Option::is_some)
}

/// The error for what a step that is being recorded asked of its device and cannot have: to wait for it, or to copy from the host or to it.
pub fn refused_while_recording(what: &'static str) -> Error {
    Error::invalid(
        what,
        "the step that is being recorded waits for the device or copies from the host; a recorded step does neither",
    )
}

/// While a step is recorded: has `hook` called before each of its replays. What changes from step to step and comes from the host, such as a learning
/// rate, is written to the device there.
///
/// # Errors
/// If no step is being recorded.
pub fn before_replay(hook: impl FnMut() -> Result<()> + Send + 'static) -> Result<()> {
    RECORDING.with_borrow_mut(|hooks| match hooks {
        Some(hooks) => {
            hooks.push(Box::new(hook));
            Ok(())
        }
        None => Err(Error::invalid("before_replay", "no step is being recorded on this thread")),
    })
}

/// What a step does the first time only, such as an optimiser's making of its states: no part of the step that is recorded.
pub fn only_once<T>(f: impl FnOnce() -> T) -> T {
    unobserved(f)
}

/// A step that can be replayed. See [`Device::capture`].
pub struct CapturedStep<'f, T>(Form<'f, T>);

enum Form<'f, T> {
    /// The device records nothing: the closure runs each time, in the precision of the first and fused if that was.
    Closure {
        step: Box<dyn FnMut() -> Result<T> + 'f>,
        precision: Option<Precision>,
        forming: Forming,
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
    /// What the step writes: each replay changes it in place, which autograd must know.
    written: Vec<WeakBuffer>,
    hooks: Vec<Hook>,
    device: Device,
    random: Random,
}

/// The random numbers of a recorded step: it reads them from a place of its own.
struct Random {
    /// `[seed, base]`.
    state: Buffer,
    /// The position at which the step was recorded.
    from: u64,
    /// Blocks of numbers that a step uses.
    blocks: u64,
}

impl<T> CapturedStep<'_, T> {
    /// Runs the step again, on the same tensors, and gives what the closure returned: tensors whose memory each replay fills anew.
    ///
    /// # Errors
    /// As the ops of the step.
    pub fn replay(&mut self) -> Result<&T> {
        match &mut self.0 {
            Form::Closure { step, precision, forming, output } => {
                *output = forming.apply(|| precision::apart(*precision, step))?;
                Ok(output)
            }
            Form::Recorded(recorded) => recorded.replay(),
        }
    }

    /// Whether the device recorded the step; else each replay runs the closure.
    pub fn is_recorded(&self) -> bool {
        matches!(self.0, Form::Recorded(_))
    }
}

impl<T> RecordedStep<T> {
    /// As [`CapturedStep::replay`].
    ///
    /// # Errors
    /// As the ops of the step.
    pub fn replay(&mut self) -> Result<&T> {
        self.recorded.replay()?;
        Ok(&self.output)
    }

    /// What the step returned: what the last replay filled.
    pub fn output(&self) -> &T {
        &self.output
    }
}

impl Recorded {
    fn replay(&mut self) -> Result<()> {
        // Step counts and random numbers go on only where the step does.
        self.replay.ready()?;
        self.hooks.iter_mut().try_for_each(|hook| hook())?;
        if self.random.blocks > 0 {
            let (seed, at) = self.device.take_random(self.random.blocks);
            let state = [seed, at.wrapping_sub(self.random.from)];
            self.device.backend().upload(bytemuck::cast_slice(&state), &self.random.state, 0)?;
        }
        let outcome = self.replay.replay();
        // Also of a step that did not come to its end: some of its ops have run.
        self.written.iter().filter_map(WeakBuffer::upgrade).for_each(|buffer| buffer.bump_version());
        outcome
    }
}

/// One op of a step, as far as a recording depends on it.
struct Called {
    name: &'static str,
    inputs: SmallVec<[(Shape, DType); 4]>,
    /// A digest.
    settings: u64,
    /// Of each input: where it lies, if the step has not written there before.
    outside: SmallVec<[Option<usize>; 4]>,
    /// How inputs and outputs lie in their memory.
    layouts: SmallVec<[Layout; 4]>,
}

impl Device {
    /// Runs `step` once as it is, so that kernels are compiled and optimisers have their states, then records it: what comes back repeats it without
    /// host work per op. On a device that records nothing, each replay runs the closure.
    ///
    /// The step works on the same memory each time: feed it by writing into its input tensors ([`Tensor::copy_`](crate::Tensor::copy_)). Learning rates, step counts and
    /// random numbers go on from replay to replay; its [precision](crate::with_precision) stays that in which it was captured. Memory that the step makes for itself is kept apart for it; the tensors that the closure returns are part of
    /// that.
    ///
    /// # Errors
    /// What the step says. A step that reads from the device, writes to it from the host, works on another device too, or does not call the same ops on
    /// the same shapes, with the same numbers and in the same memory each time, cannot be recorded.
    pub fn capture<'f, T>(&self, mut step: impl FnMut() -> Result<T> + 'f) -> Result<CapturedStep<'f, T>> {
        if let Some(recorded) = self.record(&mut step)? {
            return Ok(CapturedStep(Form::Recorded(recorded)));
        }
        let (precision, forming) = (precision::current(), Forming::current());
        let output = precision::apart(precision, &mut step)?;
        Ok(CapturedStep(Form::Closure { step: Box::new(step), precision, forming, output }))
    }

    /// As [`capture`](Device::capture), for callers that run the step themselves where the device records nothing: `None`, and `step` has not run.
    ///
    /// # Errors
    /// As [`capture`](Device::capture).
    pub fn record<T>(&self, mut step: impl FnMut() -> Result<T>) -> Result<Option<RecordedStep<T>>> {
        let Some(capture) = self.backend().capture() else { return Ok(None) };
        let (first, output) = traced(self, &mut step);
        let output = output?;
        if is_recording_step() {
            return Err(Error::invalid("capture", "this thread records a step already"));
        }
        drop(output);
        let state = self.backend().alloc(16)?;
        // First what may be refused: another thread may be recording, and drawing.
        let recording = Recording::begin(self, capture)?;
        let drawing = Drawing { device: self, position: self.begin_random(&state), ended: false };
        let (second, output) = traced(self, &mut step);
        let (replay, hooks) = recording.end(output.is_ok());
        let (from, blocks) = drawing.end();
        let output = output?;
        same_ops(&first.called, &second.called)?;
        same_memory(&first.called, &second.called, state.address())?;
        let random = Random { state, from, blocks };
        let recorded =
            Recorded { replay: replay?, written: second.written(), hooks, device: self.clone(), random };
        Ok(Some(RecordedStep { output, recorded }))
    }
}

/// Random numbers while a step is recorded are noted, not drawn: until this ends, also when the step panics.
struct Drawing<'a> {
    device: &'a Device,
    position: RandomPosition,
    ended: bool,
}

impl Drawing<'_> {
    /// From where on the step draws, and how many blocks.
    fn end(mut self) -> (u64, u64) {
        self.ended = true;
        (self.position.offset, self.device.end_random(&mut self.position))
    }
}

impl Drop for Drawing<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.device.end_random(&mut self.position);
        }
    }
}

/// A recording under way: ended also when the step panics.
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

    /// The recorded step, if what was recorded is whole, and its hooks.
    fn end(mut self, whole: bool) -> (Result<Arc<dyn Replay>>, Vec<Hook>) {
        self.ended = true;
        let hooks = RECORDING.take().unwrap_or_default();
        let replay = self.capture.end();
        let broken = || Err(Error::invalid("capture", "the step was not recorded to its end"));
        (if whole { replay } else { replay.and_then(|_| broken()) }, hooks)
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

/// What a step did.
#[derive(Default)]
struct Trace {
    called: Vec<Called>,
    /// Outputs of its ops, each once.
    outputs: BTreeMap<usize, WeakBuffer>,
    /// What it read before it wrote there, so that no other memory takes the address.
    outside: BTreeMap<usize, WeakBuffer>,
}

impl Trace {
    /// The address of `tensor`, if it was there before the step, or came from the host.
    fn outside(&mut self, tensor: &Tensor) -> Option<usize> {
        let address = tensor.buffer().address();
        if self.outputs.contains_key(&address) || MADE.with_borrow(|made| made.contains_key(&address)) {
            return None;
        }
        self.outside.entry(address).or_insert_with(|| tensor.buffer().downgrade());
        Some(address)
    }

    /// What is left of the memory that it wrote: that of tensors from outside, and of those that it returned.
    fn written(self) -> Vec<WeakBuffer> {
        self.outputs.into_values().filter(|buffer| buffer.upgrade().is_some()).collect()
    }
}

/// What `step` does on `device`, and what it returns.
fn traced<T>(device: &Device, step: &mut impl FnMut() -> Result<T>) -> (Trace, Result<T>) {
    let trace: Rc<RefCell<Trace>> = Rc::default();
    let (noted, recorded) = (trace.clone(), device.clone());
    let note = move |call: &crate::OpCall<'_>| {
        let mut noted = noted.borrow_mut();
        let outside = call.inputs.iter().map(|tensor| noted.outside(tensor)).collect();
        for output in call.outputs {
            on(&recorded, call.op, output.device())?;
            if !precision::is_found(call) {
                noted.outputs.insert(output.buffer().address(), output.buffer().downgrade());
            }
        }
        let inputs = call.inputs.iter().map(|tensor| (*tensor.shape(), tensor.dtype())).collect();
        let layouts =
            call.inputs.iter().copied().chain(call.outputs).map(|tensor| *tensor.layout()).collect();
        noted.called.push(Called {
            name: call.op.name(),
            inputs,
            settings: settings(call.op),
            outside,
            layouts,
        });
        Ok(())
    };
    // What a scope of precision has cast before is no part of the step: its own casts are, and are recorded with it.
    let tracing = Tracing::begin();
    let output = precision::apart(precision::current(), || observe_ops(note, step));
    drop(tracing);
    (trace.take(), output)
}

/// That an op runs on the device whose step is recorded: elsewhere it would not be replayed.
fn on(recorded: &Device, op: &Op, device: &Device) -> Result<()> {
    match device.is(recorded) {
        true => Ok(()),
        false => Err(Error::invalid(
            "capture",
            format!(
                "{} runs on {device}: a step that is recorded on {recorded} replays nothing elsewhere; name the device of its tensors",
                op.name()
            ),
        )),
    }
}

/// A digest of an op's settings: numbers of the host, which a recording keeps as they were. Not of the position of its random numbers, which go on.
fn settings(op: &Op) -> u64 {
    let mut op = op.clone();
    match &mut op {
        Op::RandomBits(drawn) => drawn.offset = 0,
        Op::Uniform(drawn) => drawn.offset = 0,
        Op::Normal(drawn) => drawn.offset = 0,
        Op::Dropout(drawn) => drawn.offset = 0,
        Op::Attention(attention) => forget_offset(&mut attention.config),
        Op::AttentionGrad(attention) => forget_offset(&mut attention.config),
        Op::AttentionGradMask(attention) => forget_offset(&mut attention.config),
        _ => {}
    }
    let mut digest = DefaultHasher::new();
    format!("{op:?}").hash(&mut digest);
    digest.finish()
}

fn forget_offset(config: &mut AttentionConfig) {
    if let Some(drawn) = &mut config.dropout {
        drawn.offset = 0;
    }
}

impl Called {
    /// Without where its inputs lie.
    fn is_as(&self, other: &Called) -> bool {
        (self.name, &self.inputs, self.settings) == (other.name, &other.inputs, other.settings)
    }

    /// The op and its inputs, for messages.
    fn text(&self) -> Text {
        let inputs = self.inputs.iter().map(|(shape, dtype)| text![shape, " ", *dtype]);
        text![self.name, " of ", Text::joined(inputs, ", ")]
    }
}

/// A step that does something else the second time would do the first thing for ever.
fn same_ops(first: &[Called], second: &[Called]) -> Result<()> {
    let differs = |detail: Text| {
        let rule =
            "; a recorded step must call the same ops on the same shapes with the same settings each time";
        Err(Error::invalid("capture", text![detail, rule]))
    };
    let other = first.iter().zip(second).enumerate().find(|(_, (first, second))| !first.is_as(second));
    if let Some((at, (first, second))) = other {
        return differs(match (first.name, &first.inputs) == (second.name, &second.inputs) {
            true => text![
                format!("op {at}, "),
                first.text(),
                ", had other settings when it was recorded than when the step ran: numbers that change belong in tensors"
            ],
            false => {
                let ran = text![format!("op {at} was "), first.text(), " when the step ran"];
                text![ran, " and ", second.text(), " when it was recorded"]
            }
        });
    }
    match first.len() == second.len() {
        true => Ok(()),
        false => {
            let (ran, recorded) = (first.len(), second.len());
            differs(format!("{ran} ops when the step ran and {recorded} when it was recorded").into())
        }
    }
}

/// A step that reads other tensors the second time, such as a batch that it fetches itself, would read those of the recording for ever. Random numbers are
/// read from `random` while it is recorded.
fn same_memory(first: &[Called], second: &[Called], random: usize) -> Result<()> {
    for (at, (first, second)) in first.iter().zip(second).enumerate() {
        let moved = first.outside.iter().zip(&second.outside).position(|places| match places {
            (Some(first), Some(second)) => first != second && *second != random,
            _ => false,
        });
        let differs = |detail: String| {
            let differs = format!(
                ", {detail} when it was recorded than when the step ran; a recorded step works in the same \
                 memory each time: copy new values into a tensor that stays (copy_)"
            );
            Err(Error::invalid("capture", text![format!("op {at}, "), second.text(), differs]))
        };
        if let Some(input) = moved {
            return differs(format!("read another tensor as input {input}"));
        }
        if first.layouts != second.layouts && !second.outside.contains(&Some(random)) {
            return differs("worked on another part of a tensor".into());
        }
    }
    Ok(())
}
