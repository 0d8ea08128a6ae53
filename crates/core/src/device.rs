//! A device: a cheap handle on a backend, with the state of its random numbers.

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

/// Where tensors live and ops run. Clones name the same device.
#[derive(Clone)]
pub struct Device(Arc<Inner>);

struct Inner {
    backend: Box<dyn Backend>,
    random: Mutex<RandomState>,
}

#[derive(Default)]
struct RandomState {
    seed: u64,
    /// Blocks of four random words handed out since seeding.
    offset: u64,
    /// `[seed, base]` on the device; made when first needed.
    state: Option<(Buffer, Layout)>,
    /// The thread that records a step, which alone draws meanwhile: what another one took would count as the step's.
    recorder: Option<ThreadId>,
}

thread_local! {
    /// The device and the numbers that this thread draws from instead of the device's own: see [`Device::with_random`].
    static OWN_RANDOM: RefCell<Option<(Device, RandomState)>> = const { RefCell::new(None) };
}

/// Where random numbers stood before a step was recorded.
pub(crate) struct RandomPosition {
    pub(crate) offset: u64,
    state: Option<(Buffer, Layout)>,
}

impl Device {
    /// A device that runs on `backend`.
    pub fn new(backend: impl Backend) -> Device {
        Device(Arc::new(Inner { backend: Box::new(backend), random: Mutex::default() }))
    }

    /// The backend.
    #[inline]
    pub fn backend(&self) -> &dyn Backend {
        &*self.0.backend
    }

    /// The backend as its own type, if it is a `B`.
    pub fn downcast<B: Backend>(&self) -> Option<&B> {
        let backend: &dyn std::any::Any = self.backend();
        backend.downcast_ref()
    }

    /// A short name for messages, such as `cuda:0`.
    pub fn name(&self) -> &str {
        self.0.backend.name()
    }

    /// Whether two handles name the same device.
    #[inline]
    pub fn is(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Waits until everything submitted has ended.
    ///
    /// # Errors
    /// Faults of earlier ops.
    pub fn synchronize(&self) -> Result<()> {
        self.0.backend.synchronize()
    }

    /// Memory held at this moment, in bytes.
    pub fn memory(&self) -> MemoryStats {
        self.0.backend.memory()
    }

    /// Starts [`MemoryStats::peak`] anew, from what is in use now.
    pub fn reset_peak_memory(&self) {
        self.0.backend.restart_peak(0);
    }

    /// Runs `f`, and tells the most memory that was in use meanwhile, in bytes, with what was in use before. [`MemoryStats::peak`] is afterwards what it would have been
    /// without the question. What other threads use at the same time counts, too.
    pub fn peak_memory_of<T>(&self, f: impl FnOnce() -> T) -> (T, usize) {
        /// Puts the peak of the whole program back, also where `f` panics.
        struct Whole<'d>(&'d Device, usize);
        impl Drop for Whole<'_> {
            fn drop(&mut self) {
                let own = self.0.memory().peak;
                self.0.0.backend.restart_peak(self.1.max(own));
            }
        }
        let _whole = Whole(self, self.memory().peak);
        self.0.backend.restart_peak(0);
        let result = f();
        (result, self.memory().peak)
    }

    /// Gives the system, or the driver, the memory that no tensor uses and that the device keeps for reuse ([`MemoryStats::cached`]); it waits for what was
    /// submitted. For programs that leave memory to others; the device gives it back by itself where it would have none otherwise.
    ///
    /// # Errors
    /// Faults of earlier ops.
    pub fn release_cached(&self) -> Result<()> {
        self.0.backend.release_cached()
    }

    /// Starts the device's random numbers anew from `seed` (0 at the start of a program).
    pub fn seed(&self, seed: u64) {
        *self.random() = RandomState { seed, ..RandomState::default() };
    }

    /// The seed and the number of blocks handed out: all there is to restore.
    pub fn random_position(&self) -> (u64, u64) {
        let random = self.random();
        (random.seed, random.offset)
    }

    /// Goes back (or on) to a position told by [`random_position`](Device::random_position).
    pub fn set_random_position(&self, (seed, offset): (u64, u64)) {
        let mut random = self.random();
        if random.seed != seed {
            *random = RandomState { seed, ..RandomState::default() };
        }
        random.offset = offset;
    }

    /// Hands out random numbers for `words` 32-bit words: the state tensor `[seed, base]` and the first block.
    ///
    /// # Errors
    /// No memory for the state; another thread records a step on this device.
    pub fn draw(&self, words: usize) -> Result<(Tensor, u64)> {
        let own = OWN_RANDOM.with_borrow_mut(|own| match own {
            Some((device, random)) if device.is(self) => Some(self.draw_from(random, words)),
            _ => None,
        });
        let mut random = self.random();
        if let Some(drawn) = own {
            // A step that another thread records does not see them.
            return match random.recorder == Some(std::thread::current().id()) {
                false => drawn,
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

    /// That there is memory for a tensor of this shape: for what is computed in parts that grow, so that it fails before it begins. Small ones are not looked at.
    ///
    /// # Errors
    /// [`OutOfMemory`](Error::OutOfMemory), more elements than can be addressed.
    pub fn check_room(&self, dims: &[usize], dtype: DType) -> Result<()> {
        const SMALL: usize = 1 << 30;
        let bytes = Shape::new(dims)?.elements().saturating_mul(dtype.size());
        if bytes > SMALL { self.backend().alloc(bytes).map(drop) } else { Ok(()) }
    }

    /// Runs `f`, in which this thread draws the numbers of this device from `position` on, as [`random_position`](Device::random_position) tells it, rather than
    /// the device's own, and moves `position` on. Other threads, and the device's own numbers, notice nothing.
    pub fn with_random<T>(&self, position: &mut (u64, u64), f: impl FnOnce() -> T) -> T {
        struct Restore(Option<(Device, RandomState)>);
        impl Drop for Restore {
            fn drop(&mut self) {
                OWN_RANDOM.replace(self.0.take());
            }
        }
        let (seed, offset) = *position;
        let random = RandomState { seed, offset, ..RandomState::default() };
        let restore = Restore(OWN_RANDOM.replace(Some((self.clone(), random))));
        let result = f();
        let moved = OWN_RANDOM.with_borrow(|own| own.as_ref().map_or(offset, |(_, random)| random.offset));
        drop(restore);
        *position = (seed, moved);
        result
    }

    /// Has random numbers read from `state` (16 bytes), as long as a step is recorded. Gives what [`end_random`](Device::end_random) undoes it with.
    pub(crate) fn begin_random(&self, state: &Buffer) -> RandomPosition {
        let mut random = self.random();
        let layout = Layout::row_major(Shape::unchecked(&[2]));
        let before = random.state.replace((state.clone(), layout));
        random.recorder = Some(std::thread::current().id());
        RandomPosition { offset: random.offset, state: before }
    }

    /// Goes back to where [`begin_random`](Device::begin_random) was called: nothing was drawn since, only noted. Tells how many blocks.
    pub(crate) fn end_random(&self, position: &mut RandomPosition) -> u64 {
        let mut random = self.random();
        let blocks = random.offset.wrapping_sub(position.offset);
        random.offset = position.offset;
        random.state = position.state.take();
        random.recorder = None;
        blocks
    }

    /// The seed, and the first of `blocks` blocks that are handed out now.
    pub(crate) fn take_random(&self, blocks: u64) -> (u64, u64) {
        let mut random = self.random();
        let first = random.offset;
        random.offset = first.wrapping_add(blocks);
        (random.seed, first)
    }

    fn random(&self) -> MutexGuard<'_, RandomState> {
        // The state is plain numbers: a panic elsewhere cannot leave it half changed.
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
