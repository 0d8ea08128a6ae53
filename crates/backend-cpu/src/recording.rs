//! Steps recorded as lists of ops.
//!
//! While a thread records, its ops are stored with their kernels instead of being run. A replay
//! runs the list, without autograd graph, dispatch and allocation. The list keeps the external
//! buffers alive: those that existed before the step and that the step accesses. Temporary buffers,
//! which the step creates and releases, share memory: when the recording ends, each of them is
//! assigned a slot that no other buffer uses between its first and its last op.
//!
//! ```text
//! ops      0    1    2    3    4        x is from outside, y is returned
//! a        #----#                       slot 0
//! b             #---------#             slot 1: op 1 reads a while it writes b
//! c                  #----#             slot 0
//! y                            #        its own buffer
//! ```

use crate::access::with_locked;
use crate::kernel::KernelFn;
use crate::memory::Pool;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::Arc;
use ternion_core::backend::{Buffer, Capture, Replay, View, WeakBuffer};
use ternion_core::capture::rejected_while_recording;
use ternion_core::interrupt::check_interrupt;
use ternion_core::{DType, Error, Layout, Op, Result};

thread_local! {
    /// Whether this thread records; every op checks it.
    static IS_RECORDING: Cell<bool> = const { Cell::new(false) };
    static RECORDING: RefCell<Option<Recording>> = const { RefCell::new(None) };
}

/// A recording in progress.
struct Recording {
    /// The pool of the backend that records.
    pool: Arc<Pool>,
    /// By address: buffers that were created since the recording began, most of which are released
    /// before it ends.
    created: HashMap<usize, (WeakBuffer, usize)>,
    /// By address: indices in `buffers`.
    buffer_indices: HashMap<usize, usize>,
    buffers: Vec<StepBuffer>,
    calls: Vec<Call>,
}

/// A buffer of a step.
enum StepBuffer {
    /// Existed before the recording.
    External(Buffer),
    /// Created by the step, with its size in bytes.
    Created(WeakBuffer, usize),
}

/// One op of a step.
struct Call {
    op: Op,
    kernel: KernelFn,
    /// The tensors that it reads, then those that it writes.
    operands: SmallVec<[Operand; 4]>,
    /// The number of tensors that it reads.
    inputs: usize,
}

/// A tensor, with the index of its buffer in the list of the step's buffers.
struct Operand {
    buffer: usize,
    dtype: DType,
    layout: Layout,
}

/// Returns whether this thread records.
#[inline]
pub(crate) fn is_recording() -> bool {
    IS_RECORDING.get()
}

/// Returns an error for an operation that is not possible while this thread records.
#[inline]
pub(crate) fn reject_while_recording(what: &'static str) -> Result<()> {
    if is_recording() { Err(rejected_while_recording(what)) } else { Ok(()) }
}

/// Registers a fresh buffer of the step that this thread records.
pub(crate) fn record_allocation(pool: &Arc<Pool>, buffer: &Buffer) {
    with_recording(pool, |recording| {
        recording.created.insert(buffer.address(), (buffer.downgrade(), buffer.bytes()));
    });
}

/// Records an op in the step that this thread records. Returns `None` if the step belongs to
/// another device.
pub(crate) fn record_call(
    pool: &Arc<Pool>,
    op: &Op,
    kernel: KernelFn,
    inputs: &[View<'_>],
    outputs: &[View<'_>],
) -> Option<()> {
    with_recording(pool, |recording| {
        let operands = inputs.iter().chain(outputs).map(|view| recording.operand(view)).collect();
        recording.calls.push(Call { op: op.clone(), kernel, operands, inputs: inputs.len() });
    })
}

fn with_recording<T>(pool: &Arc<Pool>, f: impl FnOnce(&mut Recording) -> T) -> Option<T> {
    RECORDING.with_borrow_mut(|recording| {
        recording.as_mut().filter(|recording| Arc::ptr_eq(&recording.pool, pool)).map(f)
    })
}

impl Recording {
    fn operand(&mut self, view: &View<'_>) -> Operand {
        let address = view.buffer.address();
        let buffer = *self.buffer_indices.entry(address).or_insert_with(|| {
            // An address identifies one buffer as long as a handle of the buffer exists, strong or
            // weak.
            self.buffers.push(match self.created.remove(&address) {
                Some((memory, bytes)) => StepBuffer::Created(memory, bytes),
                None => StepBuffer::External(view.buffer.clone()),
            });
            self.buffers.len() - 1
        });
        Operand { buffer, dtype: view.dtype, layout: *view.layout }
    }

    /// Returns the first and the last op that use each buffer.
    fn lifetimes(&self) -> Vec<(usize, usize)> {
        let mut lifetimes = vec![(usize::MAX, 0); self.buffers.len()];
        for (at, call) in self.calls.iter().enumerate() {
            for operand in &call.operands {
                let (first, last) = &mut lifetimes[operand.buffer];
                (*first, *last) = ((*first).min(at), at);
            }
        }
        lifetimes
    }

    /// Returns the recorded step, with memory for all its buffers.
    fn end(self) -> Result<Recorded> {
        let lifetimes = self.lifetimes();
        // Buffers that still have an owner keep their memory: external buffers, and those that the
        // step returned or stored.
        let live: Vec<Option<Buffer>> = self.buffers.iter().map(StepBuffer::buffer).collect();
        let needed_bytes: Vec<Option<usize>> = self
            .buffers
            .iter()
            .zip(&live)
            .map(|(buffer, live)| if live.is_some() { None } else { Some(buffer.bytes()) })
            .collect();
        let plan = assign_slots(&needed_bytes, &lifetimes, self.calls.len());
        for buffer in live
            .iter()
            .zip(&self.buffers)
            .filter_map(|(live, buffer)| live.as_ref().filter(|_| buffer.is_created()))
        {
            // The tensors that the step returned may be read before the first replay, when nothing
            // has been written to them.
            crate::memory("capture", buffer)?.clear();
        }
        let slots: Vec<Buffer> = plan
            .sizes
            .iter()
            .map(|&bytes| Pool::alloc(&self.pool, bytes).map(Buffer::new))
            .collect::<Result<_>>()?;
        let buffers =
            live.into_iter().zip(plan.slots).map(|(live, slot)| live.unwrap_or_else(|| slots[slot].clone()));
        Ok(Recorded { buffers: buffers.collect(), calls: self.calls, replay_lock: Mutex::new(()) })
    }
}

impl StepBuffer {
    /// Returns the buffer, if there is still a handle of it.
    fn buffer(&self) -> Option<Buffer> {
        match self {
            StepBuffer::External(buffer) => Some(buffer.clone()),
            StepBuffer::Created(memory, _) => memory.upgrade(),
        }
    }

    fn is_created(&self) -> bool {
        matches!(self, StepBuffer::Created(..))
    }

    fn bytes(&self) -> usize {
        match self {
            StepBuffer::External(buffer) => buffer.bytes(),
            StepBuffer::Created(_, bytes) => *bytes,
        }
    }
}

/// The slots of the temporary buffers.
#[derive(Default)]
struct ArenaPlan {
    /// The size of each slot in bytes.
    sizes: Vec<usize>,
    /// The slot of each buffer; unused for buffers with separate memory.
    slots: Vec<usize>,
}

/// Assigns each buffer that needs memory a slot that no other buffer uses between its first and its
/// last op.
fn assign_slots(needed_bytes: &[Option<usize>], lifetimes: &[(usize, usize)], calls: usize) -> ArenaPlan {
    let (mut begin, mut end) = (vec![Vec::new(); calls], vec![Vec::new(); calls]);
    for (buffer, &(first, last)) in
        lifetimes.iter().enumerate().filter(|(buffer, _)| needed_bytes[*buffer].is_some())
    {
        begin[first].push(buffer);
        end[last].push(buffer);
    }
    let mut plan = ArenaPlan { sizes: Vec::new(), slots: vec![0; needed_bytes.len()] };
    let mut free = Vec::new();
    for (begin, end) in begin.iter().zip(&end) {
        for &buffer in begin {
            plan.slots[buffer] = plan.take(&mut free, needed_bytes[buffer].unwrap_or(0));
        }
        // Slots become free only after the assignments: an op must not write to a slot that it
        // reads.
        free.extend(end.iter().map(|&buffer| plan.slots[buffer]));
    }
    plan
}

impl ArenaPlan {
    /// Takes the smallest free slot that fits, or a new one. Of slots of the same size it takes the
    /// most recently used one, which is in the CPU caches.
    fn take(&mut self, free: &mut Vec<usize>, bytes: usize) -> usize {
        // A slot of more than twice the size is left for larger buffers.
        let fits = |slot: usize| (bytes..=bytes.saturating_mul(2)).contains(&self.sizes[slot]);
        let best = (0..free.len()).rev().filter(|&at| fits(free[at])).min_by_key(|&at| self.sizes[free[at]]);
        if let Some(best) = best {
            return free.remove(best);
        }
        self.sizes.push(bytes);
        self.sizes.len() - 1
    }
}

/// Recording on a backend.
#[derive(Debug)]
pub(crate) struct Recorder {
    pub(crate) pool: Arc<Pool>,
}

impl Capture for Recorder {
    fn begin(&self) -> Result<()> {
        if is_recording() {
            return Err(Error::invalid("capture", "this thread records a step on the CPU already"));
        }
        RECORDING.set(Some(Recording {
            pool: self.pool.clone(),
            created: HashMap::new(),
            buffer_indices: HashMap::new(),
            buffers: Vec::new(),
            calls: Vec::new(),
        }));
        IS_RECORDING.set(true);
        Ok(())
    }

    fn end(&self) -> Result<Arc<dyn Replay>> {
        IS_RECORDING.set(false);
        let recording = RECORDING.take().filter(|recording| Arc::ptr_eq(&recording.pool, &self.pool));
        let recording = recording.ok_or_else(|| Error::invalid("capture", "nothing is being recorded"))?;
        Ok(Arc::new(recording.end()?))
    }
}

/// A recorded step.
struct Recorded {
    buffers: Vec<Buffer>,
    calls: Vec<Call>,
    /// Held during a replay: simultaneous replays would use the same temporary memory.
    replay_lock: Mutex<()>,
}

impl Replay for Recorded {
    fn ready(&self) -> Result<()> {
        reject_while_recording("replay")
    }

    fn replay(&self) -> Result<()> {
        self.ready()?;
        let _guard = self.replay_lock.lock();
        self.calls.iter().try_for_each(|call| {
            check_interrupt()?;
            call.run(&self.buffers)
        })
    }
}

impl Call {
    fn run(&self, buffers: &[Buffer]) -> Result<()> {
        let view = |operand| {
            let Operand { buffer, dtype, layout }: &Operand = operand;
            View { buffer: &buffers[*buffer], dtype: *dtype, layout }
        };
        let views: SmallVec<[View<'_>; 4]> = self.operands.iter().map(view).collect();
        let (inputs, outputs) = views.split_at(self.inputs);
        with_locked(&self.op, inputs, outputs, self.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_that_live_at_the_same_time_have_different_slots() {
        // The picture above, and a buffer that needs much more memory than any free slot has.
        let needed_bytes = [Some(100), Some(100), Some(80), None, Some(1000)];
        let lifetimes = [(0, 1), (1, 3), (2, 3), (4, 4), (4, 4)];
        let plan = assign_slots(&needed_bytes, &lifetimes, 5);
        assert_eq!(plan.slots[..3], [0, 1, 0]);
        assert_eq!((plan.slots[4], plan.sizes), (2, vec![100, 100, 1000]));
    }

    #[test]
    fn the_smallest_free_slot_that_fits_is_taken_and_the_last_used_among_equals() {
        let mut plan = ArenaPlan { sizes: vec![64, 100, 64, 200], slots: Vec::new() };
        let mut free = vec![0, 1, 2, 3];
        let taken: Vec<usize> = [60, 60, 60, 60].map(|bytes| plan.take(&mut free, bytes)).to_vec();
        assert_eq!((taken, free), (vec![2, 0, 1, 4], vec![3]), "200 is more than twice as much as 60");
    }
}
