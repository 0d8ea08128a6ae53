//! A device: a cheap handle to a backend, with the state of its random number generator.

use crate::DType;
use crate::backend::{Backend, Buffer, MemoryStats};
use crate::error::{Error, Result};
use crate::layout::Layout;
use crate::shape::Shape;
use crate::tensor::Tensor;
use std::cell::RefCell;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// A device, on which tensors are stored and ops run. Clones refer to the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    random: Mutex<RandomState>,
}

#[derive(Default)]
struct RandomState {
    /// The key of the Philox generator.
    seed: u64,
    /// Number of blocks of four random words used since seeding.
    offset: u64,
    /// `[seed, base]` (i64) on the device, created on first use. A kernel adds `base` to the index
    /// of a block, so that each replay of a recorded step uses other blocks.
    state: Option<(Buffer, Layout)>,
    /// The thread that records a step. Only this thread may use random numbers meanwhile, because
    /// those of another thread would be attributed to the step.
    recorder: Option<ThreadId>,
}

thread_local! {
    /// The device and the generator that this thread uses instead of the device's generator: see
    /// [`Device::with_random`].
    static THREAD_RANDOM: RefCell<Option<(Device, RandomState)>> = const { RefCell::new(None) };
}

/// The state of the random numbers before a step was recorded.
pub(crate) struct RandomPosition {
    pub(crate) offset: u64,
    state: Option<(Buffer, Layout)>,
}

impl Device {
    /// Creates a device that runs on `backend`.
    pub fn new(backend: impl Backend) -> Device {
        Device(Arc::new(Inner { backend: Box::new(backend), random: Mutex::default() }))
    }

    /// Returns the backend.
    #[inline]
    pub fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    /// Returns the backend as its concrete type, if it is a `B`.
    pub fn downcast<B: Backend>(&self) -> Option<&B> {
        let backend: &dyn std::any::Any = self.backend();
        backend.downcast_ref()
    }

    /// Returns a short name for messages, such as `cuda:0`.
    pub fn name(&self) -> &str {
        self.0.backend.name()
    }

    /// Returns whether two handles refer to the same device.
    #[inline]
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Waits until all submitted work has completed.
    ///
    /// # Errors
    /// Returns errors of earlier ops.
    pub fn synchronize(&self) -> Result<()> {
        self.0.backend.synchronize()
    }

    /// Returns the current memory use, in bytes.
    pub fn memory(&self) -> MemoryStats {
        self.0.backend.memory()
    }

    /// Resets [`MemoryStats::peak`] to the memory in use now.
    pub fn reset_peak_memory(&self) {
        self.0.backend.restart_peak(0);
    }

    /// Runs `f`, and returns its result and the maximum memory in use during it, in bytes,
    /// including memory that was in use before. Afterward [`MemoryStats::peak`] is the same as
    /// without this call. Memory that other threads use at the same time is included.
    pub fn peak_memory_of<T>(&self, f: impl FnOnce() -> T) -> (T, usize) {
        /// Restores the peak of the whole program, also if `f` panics.
        struct RestorePeak<'d>(&'d Device, usize);
        impl Drop for RestorePeak<'_> {
            fn drop(&mut self) {
                let inner_peak = self.0.memory().peak;
                self.0.0.backend.restart_peak(self.1.max(inner_peak));
            }
        }
        let _restore = RestorePeak(self, self.memory().peak);
        self.0.backend.restart_peak(0);
        let result = f();
        (result, self.memory().peak)
    }

    /// Waits for submitted work, and releases the memory that the device caches for reuse
    /// ([`MemoryStats::cached`]) to the system or the driver, so that other programs can use it. If
    /// an allocation would fail otherwise, the device does this itself.
    ///
    /// # Errors
    /// Returns errors of earlier ops.
    pub fn release_cached(&self) -> Result<()> {
        self.0.backend.release_cached()
    }

    /// Restarts the device's random numbers from `seed` (0 at the start of a program).
    pub fn seed(&self, seed: u64) {
        *self.random() = RandomState { seed, ..RandomState::default() };
    }

    /// Returns the seed and the number of used blocks: the complete state to restore.
    pub fn random_position(&self) -> (u64, u64) {
        let random = self.random();
        (random.seed, random.offset)
    }

    /// Sets the position to one that [`random_position`](Device::random_position) returned.
    pub fn set_random_position(&self, (seed, offset): (u64, u64)) {
        let mut random = self.random();
        if random.seed != seed {
            *random = RandomState { seed, ..RandomState::default() };
        }
        random.offset = offset;
    }

    /// Reserves random numbers for `words` 32-bit words, and returns the state tensor
    /// `[seed, base]` and the index of the first block.
    ///
    /// # Errors
    /// Returns an error if there is no memory for the state, or if another thread records a step on
    /// this device.
    pub fn draw(&self, words: usize) -> Result<(Tensor, u64)> {
        let thread_random = THREAD_RANDOM.with_borrow_mut(|thread_random| match thread_random {
            Some((device, random)) if device.is(self) => Some(self.draw_from(random, words)),
            _ => None,
        });
        let mut random = self.random();
        if let Some(position) = thread_random {
            // This thread's generator is independent of a step that another thread records.
            return match random.recorder == Some(std::thread::current().id()) {
                false => position,
                true => {
                    Err(Error::invalid("random numbers", "of a generator's own, in a step that is recorded"))
                }
            };
        }
        if random.recorder.is_some_and(|recorder| recorder != std::thread::current().id()) {
            return Err(Error::invalid("random numbers", "another thread records a step on this device"));
        }
        self.draw_from(&mut random, words)
    }

    fn draw_from(&self, random: &mut RandomState, words: usize) -> Result<(Tensor, u64)> {
        if random.state.is_none() {
            let layout = Layout::row_major(Shape::new(&[2])?);
            let buffer = self.backend().alloc(16)?;
            let values = [random.seed as i64, 0];
            self.backend().upload(bytemuck::cast_slice(&values), &buffer, 0)?;
            random.state = Some((buffer, layout));
        }
        let offset = random.offset;
        random.offset = offset.wrapping_add(words.div_ceil(4) as u64);
        let (buffer, layout) = random.state.clone().expect("made above");
        Ok((Tensor::from_parts(buffer, layout, DType::I64, self.clone()), offset))
    }

    /// Checks that there is memory for a tensor of this shape, so that a computation whose tensors
    /// grow fails before it starts. Small tensors are not checked.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`](Error::OutOfMemory), or an error if there are more elements than can
    /// be addressed.
    pub fn check_room(&self, dims: &[usize], dtype: DType) -> Result<()> {
        const SMALL: usize = 1 << 30;
        let bytes = Shape::new(dims)?.elements().saturating_mul(dtype.size());
        if bytes > SMALL { self.backend().alloc(bytes).map(drop) } else { Ok(()) }
    }

    /// Runs `f`. In it, this thread takes random numbers from `position`, as returned by
    /// [`random_position`](Device::random_position), instead of the device's generator. Then
    /// advances `position`. Other threads and the device's generator are not affected.
    pub fn with_random<T>(&self, position: &mut (u64, u64), f: impl FnOnce() -> T) -> T {
        struct Restore(Option<(Device, RandomState)>);
        impl Drop for Restore {
            fn drop(&mut self) {
                THREAD_RANDOM.replace(self.0.take());
            }
        }
        let (seed, offset) = *position;
        let random = RandomState { seed, offset, ..RandomState::default() };
        let restore = Restore(THREAD_RANDOM.replace(Some((self.clone(), random))));
        let result = f();
        let new_offset = THREAD_RANDOM
            .with_borrow(|thread_random| thread_random.as_ref().map_or(offset, |(_, random)| random.offset));
        drop(restore);
        *position = (seed, new_offset);
        result
    }

    /// Makes random numbers use `state` (16 bytes) while a step is recorded. Returns the position
    /// to pass to [`end_random`](Device::end_random).
    pub(crate) fn begin_random(&self, state: &Buffer) -> RandomPosition {
        let mut random = self.random();
        let layout = Layout::row_major(Shape::unchecked(&[2]));
        let before = random.state.replace((state.clone(), layout));
        random.recorder = Some(std::thread::current().id());
        RandomPosition { offset: random.offset, state: before }
    }

    /// Restores the state before [`begin_random`](Device::begin_random). Returns the number of
    /// blocks of random numbers that were counted since then.
    pub(crate) fn end_random(&self, position: &mut RandomPosition) -> u64 {
        let mut random = self.random();
        let blocks = random.offset.wrapping_sub(position.offset);
        random.offset = position.offset;
        random.state = position.state.take();
        random.recorder = None;
        blocks
    }

    /// Returns the seed, and the index of the first of `blocks` blocks, which are now used.
    pub(crate) fn take_random(&self, blocks: u64) -> (u64, u64) {
        let mut random = self.random();
        let first = random.offset;
        random.offset = first.wrapping_add(blocks);
        (random.seed, first)
    }

    fn random(&self) -> MutexGuard<'_, RandomState> {
        // The state is plain integers: a panic elsewhere cannot leave it half changed.
        self.0.random.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({})", self.name())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
