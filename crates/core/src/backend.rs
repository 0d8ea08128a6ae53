//! The only door to hardware: [`Backend`], and the plain data that passes through it.

pub use crate::error::index_teller;

use crate::error::Result;
use crate::op::Op;
use crate::{DType, Layout};
use std::any::Any;
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that stores buffers and runs ops on them, in the order in which they are submitted.
///
/// Thirteen methods, five of them optional. [`plan`](Backend::plan) and [`run`](Backend::run) must agree: an op that is planned is run. A backend that runs the
/// primitives (see [`Op::is_primitive`]) runs every model; it may fuse any composite for the dtypes, shapes and layouts it likes
/// and answers [`Unsupported`] for the rest, which core then composes from primitives.
pub trait Backend: Send + Sync + Debug + Any {
    /// A short name for messages, such as `cuda:0`.
    fn name(&self) -> &str;

    /// A buffer of `bytes` bytes from the backend's own pool; its contents are unspecified.
    ///
    /// # Errors
    /// [`OutOfMemory`](crate::Error::OutOfMemory).
    fn alloc(&self, bytes: usize) -> Result<Buffer>;

    /// Copies `host` into `to`, starting at `offset_bytes`. `host` may be reused when this returns.
    ///
    /// # Errors
    /// If the bytes do not fit.
    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()>;

    /// Waits for the ops that write `from`, then copies its bytes from `offset_bytes` on into `host`.
    ///
    /// # Errors
    /// If the buffer is too short, or an earlier op failed on the device.
    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()>;

    /// (optional) [`download`](Backend::download) from several places, for which a device may wait once. Default: one after the other.
    ///
    /// # Errors
    /// Those of `download`; what is in `host` of the other parts is then unspecified.
    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        parts.iter_mut().try_for_each(|part| self.download(part.from, part.offset_bytes, part.host))
    }

    /// Whether this backend runs `op` itself on such inputs, and how it would like the outputs to be laid out.
    ///
    /// # Errors
    /// [`Unsupported`] with the reason: core then composes the op, or reports the reason for a primitive.
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported>;

    /// Runs (or queues) `op`. Shapes and dtypes have been checked; strides are arbitrary on both sides.
    ///
    /// An output view never overlaps itself. It may be exactly an input's view (same buffer, same layout) for elementwise ops
    /// and where the op's [`Role`](crate::op::Role) says so; otherwise it shares no element with any input.
    ///
    /// # Errors
    /// What only the data can tell, such as an index out of range. Asynchronous backends report it at the next synchronisation.
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()>;

    /// Waits until everything submitted has ended.
    ///
    /// # Errors
    /// Faults of earlier ops, with the op's name.
    fn synchronize(&self) -> Result<()>;

    /// Memory held at this moment.
    fn memory(&self) -> MemoryStats;

    /// (optional) Gives back the memory that no buffer uses and that is kept for reuse. Default: none is kept.
    ///
    /// # Errors
    /// Faults of earlier ops.
    fn release_cached(&self) -> Result<()> {
        Ok(())
    }

    /// (optional) Starts [`MemoryStats::peak`] anew: from now on it is the most that is in use, or `floor` if that is more. Default: the peak stays that since the start, and
    /// what measures the peak of a part of a program finds that of all of it.
    fn restart_peak(&self, floor: usize) {
        let _ = floor;
    }

    /// (optional) Recording and replay of steps. Default: none; a captured closure then simply runs each time.
    fn capture(&self) -> Option<&dyn Capture> {
        None
    }

    /// (optional) Raw memory for DLPack and communication libraries. Default: none.
    fn interop(&self) -> Option<&dyn Interop> {
        None
    }
}

/// Bytes on their way to the host: those of `from`, from `offset_bytes` on, as many as `host` takes.
#[derive(Debug)]
pub struct Download<'a> {
    /// Where they are.
    pub from: &'a Buffer,
    /// The first of them.
    pub offset_bytes: usize,
    /// Where they go.
    pub host: &'a mut [u8],
}

/// Methods of a [`Backend`] that wraps another device, which is in the named field: those that are listed are passed on to it as they are.
///
/// ```
/// use ternion_core::backend::{Backend, MemoryStats, Meta, Plan, Unsupported, View};
/// use ternion_core::{Device, Op, Result, delegate_backend};
///
/// /// Prints the name of every op that runs.
/// #[derive(Debug)]
/// struct Loud {
///     inner: Device,
/// }
///
/// impl Backend for Loud {
///     delegate_backend!(inner: alloc, upload, download, plan, synchronize, memory);
///
///     fn name(&self) -> &str {
///         "loud"
///     }
///     fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
///         println!("{}", op.name());
///         self.inner.backend().run(op, inputs, outputs)
///     }
/// }
/// ```
#[macro_export]
macro_rules! delegate_backend {
    (@$inner:ident alloc) => {
        fn alloc(&self, bytes: usize) -> $crate::Result<$crate::Buffer> {
            self.$inner.backend().alloc(bytes)
        }
    };
    (@$inner:ident upload) => {
        fn upload(&self, host: &[u8], to: &$crate::Buffer, offset_bytes: usize) -> $crate::Result<()> {
            self.$inner.backend().upload(host, to, offset_bytes)
        }
    };
    (@$inner:ident download) => {
        fn download(&self, from: &$crate::Buffer, offset_bytes: usize, host: &mut [u8]) -> $crate::Result<()> {
            self.$inner.backend().download(from, offset_bytes, host)
        }
    };
    (@$inner:ident plan) => {
        fn plan(
            &self,
            op: &$crate::Op,
            inputs: &[$crate::Meta<'_>],
        ) -> $crate::Result<$crate::Plan, $crate::Unsupported> {
            self.$inner.backend().plan(op, inputs)
        }
    };
    (@$inner:ident run) => {
        fn run(
            &self,
            op: &$crate::Op,
            inputs: &[$crate::View<'_>],
            outputs: &[$crate::View<'_>],
        ) -> $crate::Result<()> {
            self.$inner.backend().run(op, inputs, outputs)
        }
    };
    (@$inner:ident synchronize) => {
        fn synchronize(&self) -> $crate::Result<()> {
            self.$inner.backend().synchronize()
        }
    };
    (@$inner:ident memory) => {
        fn memory(&self) -> $crate::MemoryStats {
            self.$inner.backend().memory()
        }

        fn release_cached(&self) -> $crate::Result<()> {
            self.$inner.backend().release_cached()
        }

        fn restart_peak(&self, floor: usize) {
            self.$inner.backend().restart_peak(floor);
        }
    };
    (@$inner:ident interop) => {
        fn interop(&self) -> ::std::option::Option<&dyn $crate::backend::Interop> {
            self.$inner.backend().interop()
        }
    };
    ($inner:ident: $($method:ident),+ $(,)?) => {
        $($crate::delegate_backend!(@$inner $method);)+
    };
}

/// Recording of a sequence of ops and its replay without host work per op.
pub trait Capture: Send + Sync {
    /// Starts recording: ops are noted instead of run.
    ///
    /// # Errors
    /// If a recording is under way.
    fn begin(&self) -> Result<()>;

    /// Ends recording and returns the recorded step.
    ///
    /// # Errors
    /// If something in between cannot be recorded.
    fn end(&self) -> Result<Arc<dyn Replay>>;
}

/// A recorded step.
pub trait Replay: Send + Sync {
    /// Whether it can be replayed now; asked before anything changes on whose account it is.
    ///
    /// # Errors
    /// The reason why not.
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// Runs the recorded ops again on the same buffers.
    ///
    /// # Errors
    /// As [`Backend::run`].
    fn replay(&self) -> Result<()>;
}

/// Raw access to a backend's memory.
pub trait Interop: Send + Sync {
    /// The address of the buffer's first byte in the device's address space. Who has it may write there: a backend notes that ([`Buffer::share_outside`]).
    fn address(&self, buffer: &Buffer) -> Option<usize>;
}

/// What backs a [`Buffer`]; freed or returned to the pool when the last handle is dropped.
pub trait Memory: Any + Send + Sync + Debug {
    /// Usable bytes.
    fn bytes(&self) -> usize;

    /// Counts in-place changes; see [`Buffer::version`]. The highest bit says that other libraries may write to the memory.
    fn version_counter(&self) -> &AtomicU64;
}

/// The bit of a version counter that says that other libraries may write to the memory.
const SHARED_OUTSIDE: u64 = 1 << 63;

/// A shared handle on device memory.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<dyn Memory>);

impl Buffer {
    /// A handle on `memory`.
    #[inline]
    pub fn new(memory: impl Memory) -> Buffer {
        Buffer(Arc::new(memory))
    }

    /// Usable bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// How often the buffer was changed in place. Autograd compares it with the version at the time of saving.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.version_counter().load(Ordering::Acquire) & !SHARED_OUTSIDE
    }

    /// Notes a change in place.
    #[inline]
    pub fn bump_version(&self) {
        self.0.version_counter().fetch_add(1, Ordering::AcqRel);
    }

    /// Notes that other libraries may write to this memory from now on: such changes are not counted, so nothing that is derived from the values may be kept beside them.
    pub fn share_outside(&self) {
        self.0.version_counter().fetch_or(SHARED_OUTSIDE, Ordering::AcqRel);
    }

    /// Whether other libraries may write to this memory.
    pub fn is_shared_outside(&self) -> bool {
        self.0.version_counter().load(Ordering::Acquire) & SHARED_OUTSIDE != 0
    }

    /// The backend's own type, if this buffer is its.
    #[inline]
    pub fn downcast<M: Memory>(&self) -> Option<&M> {
        let memory: &dyn Any = &*self.0;
        memory.downcast_ref()
    }

    /// What tells this memory from all other memory that there are handles on.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }

    /// A handle that does not keep the memory alive.
    pub fn downgrade(&self) -> WeakBuffer {
        WeakBuffer(Arc::downgrade(&self.0))
    }

    /// Whether nobody else has a handle on this memory.
    pub fn is_sole_handle(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Whether two handles name the same memory.
    #[inline]
    pub fn is(&self, other: &Buffer) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

/// A handle on device memory that does not keep it alive.
#[derive(Clone, Debug)]
pub struct WeakBuffer(std::sync::Weak<dyn Memory>);

impl WeakBuffer {
    /// The memory, if it is still there.
    pub fn upgrade(&self) -> Option<Buffer> {
        self.0.upgrade().map(Buffer)
    }
}

/// Dtype and layout of a tensor without its memory.
#[derive(Clone, Copy, Debug)]
pub struct Meta<'a> {
    /// Type of the elements.
    pub dtype: DType,
    /// Shape, strides and offset.
    pub layout: &'a Layout,
}

impl Meta<'_> {
    /// The shape.
    #[inline]
    pub fn shape(&self) -> &crate::Shape {
        self.layout.shape()
    }
}

/// A tensor as a backend sees it.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The memory.
    pub buffer: &'a Buffer,
    /// Type of the elements.
    pub dtype: DType,
    /// Shape, strides and offset, in elements of `dtype`.
    pub layout: &'a Layout,
}

impl<'a> View<'a> {
    /// The view without its memory.
    #[inline]
    pub fn meta(&self) -> Meta<'a> {
        Meta { dtype: self.dtype, layout: self.layout }
    }

    /// Whether both views name the same elements in the same order.
    pub fn is(&self, other: &View<'_>) -> bool {
        self.buffer.is(other.buffer) && self.dtype == other.dtype && self.layout == other.layout
    }
}

/// How a backend would like an output to be laid out. Core allocates it so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputOrder {
    /// Dense, last axis fastest.
    RowMajor,
    /// The first output dense, with the axes ordered in memory as those of this input, which has the output's shape.
    Like(usize),
    /// Each output as [`Like`](OutputOrder::Like) of the input of the same number, where that has its shape.
    LikeEach,
}

/// A backend's yes to an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Layout of the outputs; row-major but for those of which it says something else.
    pub order: OutputOrder,
}

impl Plan {
    /// Outputs dense in row-major order.
    pub const ROW_MAJOR: Plan = Plan { order: OutputOrder::RowMajor };

    /// The first output in the memory order of input `index`.
    pub const fn like(index: usize) -> Plan {
        Plan { order: OutputOrder::Like(index) }
    }

    /// The first output in the memory order of the first input that is not repeated along an axis.
    pub fn like_first_unrepeated(inputs: &[Meta<'_>]) -> Plan {
        if inputs.first().is_some_and(|meta| meta.layout.is_row_major()) {
            return Plan::ROW_MAJOR;
        }
        let is_unrepeated = |meta: &Meta<'_>| {
            let mut axes = meta.layout.strides().iter().zip(meta.shape().dims());
            axes.all(|(&stride, &size)| stride != 0 || size == 1)
        };
        inputs.iter().position(is_unrepeated).map_or(Plan::ROW_MAJOR, Plan::like)
    }
}

/// A backend's no to an op, with its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The reason, for the coverage page and for error messages.
    pub why: std::borrow::Cow<'static, str>,
}

impl Unsupported {
    /// A no for this reason.
    pub fn because(why: impl Into<std::borrow::Cow<'static, str>>) -> Unsupported {
        Unsupported { why: why.into() }
    }
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Held by live buffers.
    pub in_use: usize,
    /// Kept by the pool for reuse.
    pub cached: usize,
    /// The most that was in use since the start, or since the peak was restarted.
    pub peak: usize,
}
