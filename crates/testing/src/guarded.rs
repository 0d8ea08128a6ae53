//! A device that checks every op: only the elements of its outputs may change, and a second run
//! must compute the same bits.

use crate::kinds::OpName;
use crate::phase::{self, Phase};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use ternion_core::backend::{Download, Memory};
use ternion_core::ops::{copy::Copy, create::Fill};
use ternion_core::{
    Backend, Buffer, DType, Device, Error, Layout, MemoryStats, Meta, Op, Plan, Result, Scalar, Shape,
    Unsupported, View,
};

/// The number of bytes before and after each buffer that must not be written. A multiple of every
/// element size and of a cache line.
pub const MARGIN: usize = 64;
/// The pattern in the margins: a NaN in every floating dtype. It differs from the poison, so that
/// writing poison into a margin is also detected.
const CANARY: [u8; 2] = [0xFE, 0xFF];
/// The pattern in fresh memory: NaN in every floating dtype, -1 or 255 in the integers, and not a
/// valid bool.
const POISON: u8 = 0xFF;

/// The record of the ops requested from a [`Guarded`] device.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// Every op that was requested.
    pub requested: BTreeSet<OpName>,
    /// Ops with a composition for which the device has a kernel.
    pub fused: BTreeSet<&'static str>,
    /// Ops that core composed, with the device's reason for not supporting them.
    pub composed: BTreeMap<&'static str, String>,
    /// Primitives that the device does not support.
    pub unsupported: BTreeMap<&'static str, UnsupportedOp>,
    /// Ops that ran, and in which phase of a check.
    pub ran: BTreeSet<(Phase, &'static str)>,
    /// The number of checked runs.
    pub runs: usize,
}

/// A primitive that the device does not support.
#[derive(Clone, Debug, Default)]
pub struct UnsupportedOp {
    /// The dtypes of the op's inputs and outputs.
    pub dtypes: BTreeSet<&'static str>,
    /// The dtypes among them that the device does not have at all. If there are none, this is a
    /// fault of the device: core has no other way to run a primitive.
    pub lacking: BTreeSet<&'static str>,
    /// The device's reason.
    pub why: String,
}

impl UnsupportedOp {
    fn of(device: &Device, op: &Op, inputs: &[Meta<'_>], why: String) -> UnsupportedOp {
        let outputs = op.rule().infer(inputs).unwrap_or_default();
        let all = inputs.iter().map(|input| input.dtype).chain(outputs.iter().map(|output| output.dtype));
        let all: Vec<DType> = all.collect();
        let lacking = all.iter().filter(|&&dtype| !has_dtype(device, dtype)).map(|dtype| dtype.name());
        UnsupportedOp {
            lacking: lacking.collect(),
            dtypes: all.iter().map(|dtype| dtype.name()).collect(),
            why,
        }
    }
}

/// Returns whether `device` has `dtype`: whether it supports filling memory with it, or copying it.
pub fn has_dtype(device: &Device, dtype: DType) -> bool {
    let shape = Shape::SCALAR;
    let layout = Layout::row_major(shape);
    let fill = Op::from(Fill { shape, dtype, value: Scalar::Int(0) });
    let plans = |op: Op, inputs: &[Meta<'_>]| device.backend().plan(&op, inputs).is_ok();
    plans(fill, &[]) || plans(Op::from(Copy { dtype }), &[Meta { dtype, layout: &layout }])
}

impl Trace {
    /// Adds another record to this one.
    pub fn merge(&mut self, other: Trace) {
        self.requested.extend(other.requested);
        self.fused.extend(other.fused);
        self.composed.extend(other.composed);
        self.unsupported.extend(other.unsupported);
        self.ran.extend(other.ran);
        self.runs += other.runs;
    }
}

/// A decorator that checks another device; see the [module documentation](crate::guarded).
#[derive(Debug)]
pub struct Guarded {
    inner: Device,
    repeat: Repeat,
    trace: Arc<Mutex<Trace>>,
}

impl Guarded {
    /// Creates a device that checks `inner`, with its record. Each op runs as often as `repeat`
    /// specifies.
    pub fn device(inner: &Device, repeat: Repeat) -> (Device, TraceHandle) {
        let trace = Arc::new(Mutex::new(Trace::default()));
        let guarded = Guarded { inner: inner.clone(), repeat, trace: trace.clone() };
        (Device::new(guarded), TraceHandle(trace))
    }

    /// Returns the number of bytes around each buffer.
    fn margin(&self) -> usize {
        if self.repeat == Repeat::Unguarded { 0 } else { MARGIN }
    }

    fn record(&self, f: impl FnOnce(&mut Trace)) {
        f(&mut self.trace.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// How often each op is run; the second run compares the bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// Not at all: only the device's plans matter. Results are undefined.
    Never,
    /// Once: the row declares that its bits may differ between runs, or a second run would take too
    /// long.
    Once,
    /// Twice.
    Twice,
    /// Once and without checks: buffers are those of the device, without margins and without
    /// poison. For tools that check every access themselves: they would not detect a read of a
    /// margin or of poison.
    Unguarded,
}

/// Access to the record of a [`Guarded`] device.
#[derive(Clone, Debug)]
pub struct TraceHandle(Arc<Mutex<Trace>>);

impl TraceHandle {
    /// Returns a copy of the record.
    pub fn get(&self) -> Trace {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the record and clears it.
    pub fn take(&self) -> Trace {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A buffer of a [`Guarded`] device: a buffer of the inner device with margins at both ends.
#[derive(Debug)]
struct Fenced {
    inner: Buffer,
    /// The size without the margins.
    bytes: usize,
    version: AtomicU64,
    /// The contents of `inner` as last written by the host or by a checked op. `None` if they must
    /// be downloaded.
    known: Mutex<Option<Vec<u8>>>,
}

impl Fenced {
    fn known(&self) -> MutexGuard<'_, Option<Vec<u8>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for Fenced {
    fn bytes(&self) -> usize {
        self.bytes
    }
    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

fn fenced(buffer: &Buffer) -> Result<&Fenced> {
    buffer.downcast::<Fenced>().ok_or_else(|| Error::invalid("guarded", "a buffer of another device"))
}

/// The contents of one buffer before an op ran, margins included.
struct Snapshot<'a> {
    fenced: &'a Fenced,
    bytes: Vec<u8>,
    /// Which bytes belong to an output.
    writable: Vec<bool>,
}

/// Downloads these buffers, with a single synchronization.
fn download_contents(device: &Device, buffers: &[&Fenced]) -> Result<Vec<Vec<u8>>> {
    let mut all: Vec<Vec<u8>> = buffers.iter().map(|fenced| vec![0; fenced.inner.bytes()]).collect();
    let parts = buffers.iter().zip(&mut all);
    let mut parts: Vec<Download<'_>> =
        parts.map(|(fenced, host)| Download { from: &fenced.inner, offset_bytes: 0, host }).collect();
    device.backend().download_all(&mut parts)?;
    Ok(all)
}

/// Returns a snapshot of each distinct buffer of the views. Their known contents are moved out;
/// `run_checked` sets them again after a correct run.
fn snapshots<'a>(
    device: &Device,
    inputs: &[Shifted<'a>],
    outputs: &[Shifted<'a>],
) -> Result<Vec<Snapshot<'a>>> {
    let mut all: Vec<Snapshot<'a>> = Vec::new();
    for (view, is_output) in inputs.iter().map(|v| (v, false)).chain(outputs.iter().map(|v| (v, true))) {
        let existing = all.iter().position(|snapshot| std::ptr::eq(snapshot.fenced, view.fenced));
        let index = match existing {
            Some(index) => index,
            None => {
                let known = view.fenced.known().take();
                let bytes = match known {
                    Some(bytes) => bytes,
                    None => download_contents(device, &[view.fenced])?.remove(0),
                };
                all.push(Snapshot { fenced: view.fenced, writable: vec![false; bytes.len()], bytes });
                all.len() - 1
            }
        };
        if is_output {
            let size = view.dtype.size();
            for position in view.layout.positions() {
                all[index].writable[position * size..(position + 1) * size].fill(true);
            }
        }
    }
    Ok(all)
}

impl Guarded {
    /// Runs `op` and compares all memory that it can reach before and after.
    fn run_checked(&self, op: &Op, inputs: &[Shifted<'_>], outputs: &[Shifted<'_>]) -> Result<()> {
        let backend = self.inner.backend();
        let before = snapshots(&self.inner, inputs, outputs)?;
        let buffers: Vec<&Fenced> = before.iter().map(|snapshot| snapshot.fenced).collect();
        let (sources, targets) = (views(inputs), views(outputs));
        backend.run(op, &sources, &targets)?;
        let first = download_contents(&self.inner, &buffers)?;
        for (snapshot, after) in before.iter().zip(&first) {
            only_outputs_changed(op, snapshot, after, outputs)?;
        }
        bools_are_0_or_1(op, &buffers, &first, outputs)?;
        if self.repeat == Repeat::Twice {
            for snapshot in before.iter().filter(|snapshot| snapshot.writable.contains(&true)) {
                backend.upload(&snapshot.bytes, &snapshot.fenced.inner, 0)?;
            }
            backend.run(op, &sources, &targets)?;
            if download_contents(&self.inner, &buffers)? != first {
                return Err(Error::invalid(op.name(), "guarded: a second run gave other bits"));
            }
        }
        for (fenced, bytes) in buffers.into_iter().zip(first) {
            *fenced.known() = Some(bytes);
        }
        Ok(())
    }
}

fn only_outputs_changed(op: &Op, before: &Snapshot<'_>, after: &[u8], outputs: &[Shifted<'_>]) -> Result<()> {
    let changed = (0..after.len()).find(|&byte| !before.writable[byte] && before.bytes[byte] != after[byte]);
    let Some(byte) = changed else { return Ok(()) };
    let owner = outputs.iter().position(|view| std::ptr::eq(view.fenced, before.fenced));
    let end = after.len() - MARGIN;
    let location = match owner {
        Some(output) if byte < MARGIN => {
            format!("{} bytes before the memory of output {output}", MARGIN - byte)
        }
        Some(output) if byte >= end => format!("{} bytes after the memory of output {output}", byte - end),
        Some(output) => {
            format!("byte {} of the memory of output {output}, between its elements", byte - MARGIN)
        }
        None => format!("byte {} of the memory of an input", byte as isize - MARGIN as isize),
    };
    Err(Error::invalid(op.name(), format!("guarded: wrote outside its outputs: {location}")))
}

fn bools_are_0_or_1(
    op: &Op,
    buffers: &[&Fenced],
    contents: &[Vec<u8>],
    outputs: &[Shifted<'_>],
) -> Result<()> {
    for (index, view) in outputs.iter().enumerate().filter(|(_, view)| view.dtype == DType::Bool) {
        let of_view = buffers.iter().zip(contents).find(|(fenced, _)| std::ptr::eq(**fenced, view.fenced));
        let bytes = of_view.map_or(&[][..], |(_, bytes)| bytes);
        if let Some(position) = view.layout.positions().find(|&position| bytes[position] > 1) {
            let detail = format!("guarded: output {index} holds the bool {}", bytes[position]);
            return Err(Error::invalid(op.name(), detail));
        }
    }
    Ok(())
}

/// A view of a buffer of the inner device, which has a margin before it.
struct Shifted<'a> {
    fenced: &'a Fenced,
    dtype: DType,
    layout: Layout,
}

/// Returns the views shifted into the buffers of the inner device, which have margins of `margin`
/// bytes.
fn shifted<'a>(views: &[View<'a>], margin: usize) -> Result<Vec<Shifted<'a>>> {
    let shift = |view: &View<'a>| {
        let layout = view.layout.shifted(margin / view.dtype.size());
        Ok(Shifted { fenced: fenced(view.buffer)?, dtype: view.dtype, layout })
    };
    views.iter().map(shift).collect()
}

fn views<'a>(parts: &'a [Shifted<'_>]) -> Vec<View<'a>> {
    let view =
        |part: &'a Shifted<'_>| View { buffer: &part.fenced.inner, dtype: part.dtype, layout: &part.layout };
    parts.iter().map(view).collect()
}

impl Backend for Guarded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        let (backend, margin) = (self.inner.backend(), self.margin());
        let inner = backend.alloc(bytes + 2 * margin)?;
        let mut known = None;
        if margin > 0 {
            let mut fill: Vec<u8> = CANARY.iter().copied().cycle().take(inner.bytes()).collect();
            fill[margin..margin + bytes].fill(POISON);
            backend.upload(&fill, &inner, 0)?;
            known = Some(fill);
        }
        Ok(Buffer::new(Fenced { inner, bytes, version: AtomicU64::new(0), known: Mutex::new(known) }))
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        let to = fenced(to)?;
        check_range(to, offset_bytes, host.len())?;
        let (mut known, start) = (to.known(), offset_bytes + self.margin());
        self.inner.backend().upload(host, &to.inner, start).inspect_err(|_| *known = None)?;
        if let Some(known) = &mut *known {
            known[start..start + host.len()].copy_from_slice(host);
        }
        Ok(())
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        let from = fenced(from)?;
        check_range(from, offset_bytes, host.len())?;
        self.inner.backend().download(&from.inner, offset_bytes + self.margin(), host)
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        let plan = self.inner.backend().plan(op, inputs);
        self.record(|trace| {
            trace.requested.insert(OpName { kind: op.kind(), name: op.name() });
            match &plan {
                Ok(_) if op.is_primitive() => {}
                Ok(_) => {
                    trace.fused.insert(op.name());
                }
                Err(error) if op.is_primitive() => {
                    let unsupported_op = UnsupportedOp::of(&self.inner, op, inputs, error.why.to_string());
                    trace.unsupported.insert(op.name(), unsupported_op);
                }
                Err(error) => {
                    trace.composed.insert(op.name(), error.why.to_string());
                }
            }
        });
        plan
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        if self.repeat == Repeat::Never {
            return Ok(());
        }
        let margin = self.margin();
        let (inputs, outputs) = (shifted(inputs, margin)?, shifted(outputs, margin)?);
        self.record(|trace| {
            trace.runs += 1;
            trace.ran.insert((phase::current(), op.name()));
        });
        match self.repeat {
            Repeat::Unguarded => self.inner.backend().run(op, &views(&inputs), &views(&outputs)),
            _ => self.run_checked(op, &inputs, &outputs),
        }
    }

    fn synchronize(&self) -> Result<()> {
        self.inner.synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.inner.memory()
    }

    fn restart_peak(&self, floor: usize) {
        self.inner.backend().restart_peak(floor);
    }
}

fn check_range(buffer: &Fenced, offset: usize, bytes: usize) -> Result<()> {
    match offset.checked_add(bytes).is_some_and(|end| end <= buffer.bytes) {
        true => Ok(()),
        false => Err(Error::invalid(
            "guarded",
            format!("{bytes} bytes from {offset} on in a buffer of {}", buffer.bytes),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ternion_core::Tensor;

    /// Returns the sum of a slice of a tensor on a guarded device, the bytes of its inner buffers,
    /// and the number of checked runs.
    fn summed(repeat: Repeat) -> Result<(f32, Vec<usize>, usize)> {
        let (device, trace) = Guarded::device(&ternion_cpu::device(), repeat);
        let x = Tensor::from_slice(&[1.0f32, 2.0, 3.0, 4.0, 5.0], 5, &device)?;
        let sum = x.narrow(0, 1, 3)?.sum(0)?;
        let bytes = [&x, &sum].map(|tensor| fenced(tensor.view().buffer).map(|buffer| buffer.inner.bytes()));
        Ok((sum.item()?, bytes.into_iter().collect::<Result<_>>()?, trace.get().runs))
    }

    #[test]
    fn unguarded_buffers_are_the_devices_own() -> Result<()> {
        assert_eq!(summed(Repeat::Unguarded)?, (9.0, vec![20, 4], 1));
        assert_eq!(summed(Repeat::Twice)?, (9.0, vec![20 + 2 * MARGIN, 4 + 2 * MARGIN], 1));
        Ok(())
    }
}
