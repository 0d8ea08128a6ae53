//! The interface to hardware: [`Backend`], and the plain data types that it uses.

pub use crate::error::index_error_op;

use crate::error::Result;
use crate::op::Op;
use crate::{DType, Layout};
use std::any::{Any, TypeId};
use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A device that stores buffers and runs ops on them, in the order in which they are submitted.
///
/// It has thirteen methods, of which five are optional. [`plan`](Backend::plan) and
/// [`run`](Backend::run) must agree: an op that is planned must run. A backend that implements the
/// primitives (see [`Op::is_primitive`]) can run every model. It may implement any composite op as
/// a fused kernel for the dtypes, shapes and layouts that it chooses, and returns [`Unsupported`]
/// for the others. Core then runs the composition of the op.
pub trait Backend: Send + Sync + Debug + Any {
    /// Returns a short name for messages, such as `cuda:0`.
    fn name(&self) -> &str;

    /// Allocates a buffer of `bytes` bytes from the backend's pool. Its contents are unspecified.
    ///
    /// # Errors
    /// Returns [`OutOfMemory`](crate::Error::OutOfMemory).
    fn alloc(&self, bytes: usize) -> Result<Buffer>;

    /// Copies `host` to `to`, starting at `offset_bytes`. `host` may be reused when this returns.
    ///
    /// # Errors
    /// Returns an error if the bytes do not fit.
    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()>;

    /// Waits for the ops that write `from`, then copies its bytes, starting at `offset_bytes`, to
    /// `host`.
    ///
    /// # Errors
    /// Returns an error if the buffer is too short, or if an earlier op failed on the device.
    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()>;

    /// (optional) Performs several [`download`](Backend::download)s, for which a device may wait
    /// only once. Default: one after another.
    ///
    /// # Errors
    /// Returns the errors of `download`. If one copy fails, the contents of the other `host` slices
    /// are unspecified.
    fn download_all(&self, parts: &mut [Download<'_>]) -> Result<()> {
        parts.iter_mut().try_for_each(|part| self.download(part.from, part.offset_bytes, part.host))
    }

    /// Returns whether this backend supports `op` on inputs with these dtypes and layouts, and
    /// which layouts it requests for the outputs.
    ///
    /// # Errors
    /// Returns [`Unsupported`] with the reason. Core then composes the op, or reports the reason if
    /// it is a primitive.
    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported>;

    /// Runs or submits `op`. Shapes and dtypes have been checked; strides are arbitrary for inputs
    /// and outputs.
    ///
    /// An output view never overlaps itself. It may be identical to an input's view (same buffer,
    /// same layout) for elementwise ops and where the op's [`Role`](crate::op::Role) permits it.
    /// Otherwise it shares no element with any input.
    ///
    /// # Errors
    /// Returns errors that depend on the data, such as an index out of range. Asynchronous backends
    /// report them at the next synchronization.
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()>;

    /// Waits until all submitted work has completed.
    ///
    /// # Errors
    /// Returns errors of earlier ops, with the name of the op.
    fn synchronize(&self) -> Result<()>;

    /// Returns the current memory use.
    fn memory(&self) -> MemoryStats;

    /// (optional) Releases cached memory that no buffer uses. Default: nothing is cached.
    ///
    /// # Errors
    /// Returns errors of earlier ops.
    fn release_cached(&self) -> Result<()> {
        Ok(())
    }

    /// (optional) Restarts [`MemoryStats::peak`]: from now on it is the maximum in use, or `floor`
    /// if that is larger. Default: does nothing, so that the measured peak of a section of a
    /// program is that of the whole program.
    fn restart_peak(&self, floor: usize) {
        let _ = floor;
    }

    /// (optional) Returns the interface for capture and replay of steps. Default: `None`; a
    /// captured closure then runs each time.
    fn capture(&self) -> Option<&dyn Capture> {
        None
    }

    /// (optional) Returns raw memory access for DLPack and communication libraries. Default:
    /// `None`.
    fn interop(&self) -> Option<&dyn Interop> {
        None
    }
}

/// A copy to the host: the bytes of `from`, starting at `offset_bytes`, as many as `host` has.
#[derive(Debug)]
pub struct Download<'a> {
    /// The source buffer.
    pub from: &'a Buffer,
    /// The offset of the first byte.
    pub offset_bytes: usize,
    /// The destination.
    pub host: &'a mut [u8],
}

/// Implements methods of a [`Backend`] that wraps another device. The named field contains the
/// device, and the listed methods are forwarded to it.
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

/// Recording of a sequence of ops, and its replay without host work per op.
pub trait Capture: Send + Sync {
    /// Starts recording: ops are recorded instead of run.
    ///
    /// # Errors
    /// Returns an error if a recording is in progress.
    fn begin(&self) -> Result<()>;

    /// Ends recording and returns the recorded step.
    ///
    /// # Errors
    /// Returns an error if something since `begin` cannot be recorded.
    fn end(&self) -> Result<Arc<dyn Replay>>;
}

/// A recorded step.
pub trait Replay: Send + Sync {
    /// Checks whether the step can be replayed now. It is called before any state is changed for
    /// the replay.
    ///
    /// # Errors
    /// Returns the reason why it cannot be replayed.
    fn ready(&self) -> Result<()> {
        Ok(())
    }

    /// Runs the recorded ops again on the same buffers.
    ///
    /// # Errors
    /// Same as [`Backend::run`].
    fn replay(&self) -> Result<()>;
}

/// Raw access to a backend's memory.
pub trait Interop: Send + Sync {
    /// Returns the address of the buffer's first byte in the device's address space. The caller may
    /// write to it, so backends record this with [`Buffer::mark_externally_shared`].
    fn address(&self, buffer: &Buffer) -> Option<usize>;
}

mod private {
    use std::any::{Any, TypeId};

    /// Compares the type of a value. All types have this implementation, so no type can pretend to
    /// be another one.
    pub trait Typed: Any {
        fn has_type(&self, id: &TypeId) -> bool;
    }

    impl<T: Any> Typed for T {
        fn has_type(&self, id: &TypeId) -> bool {
            *id == TypeId::of::<T>()
        }
    }
}

/// The memory of a [`Buffer`]. It is freed or returned to the pool when the last handle is dropped.
pub trait Memory: Any + private::Typed + Send + Sync + Debug {
    /// Returns the number of usable bytes.
    fn bytes(&self) -> usize;

    /// Returns the counter of in-place changes; see [`Buffer::version`]. The highest bit is set if
    /// other libraries may write to the memory.
    fn version_counter(&self) -> &AtomicU64;
}

/// The bit of a version counter that is set if other libraries may write to the memory.
const SHARED_OUTSIDE: u64 = 1 << 63;

/// A shared handle to device memory.
#[derive(Clone, Debug)]
pub struct Buffer(Arc<dyn Memory>);

impl Buffer {
    /// Creates a handle to `memory`.
    #[inline]
    pub fn new(memory: impl Memory) -> Buffer {
        Buffer(Arc::new(memory))
    }

    /// Returns the number of usable bytes.
    pub fn bytes(&self) -> usize {
        self.0.bytes()
    }

    /// Returns the number of in-place changes of the buffer. Autograd compares it with the version
    /// at the time of saving.
    #[inline]
    pub fn version(&self) -> u64 {
        self.0.version_counter().load(Ordering::Acquire) & !SHARED_OUTSIDE
    }

    /// Records an in-place change.
    #[inline]
    pub fn bump_version(&self) {
        self.0.version_counter().fetch_add(1, Ordering::AcqRel);
    }

    /// Records that other libraries may write to this memory from now on. Such changes are not
    /// counted, so values that are derived from the contents must not be cached.
    pub fn mark_externally_shared(&self) {
        self.0.version_counter().fetch_or(SHARED_OUTSIDE, Ordering::AcqRel);
    }

    /// Returns whether other libraries may write to this memory.
    pub fn is_externally_shared(&self) -> bool {
        self.0.version_counter().load(Ordering::Acquire) & SHARED_OUTSIDE != 0
    }

    /// Returns a pointer to the memory if it has type `M`, valid as long as a handle to the memory
    /// exists. This takes less time than [`downcast`](Buffer::downcast).
    #[inline]
    pub fn as_ptr<M: Memory>(&self) -> Option<*const M> {
        let has_type = private::Typed::has_type(&*self.0, const { &TypeId::of::<M>() });
        has_type.then(|| Arc::as_ptr(&self.0).cast())
    }

    /// Returns the backend's memory type, if this buffer belongs to the backend.
    #[inline]
    pub fn downcast<M: Memory>(&self) -> Option<&M> {
        let memory: &dyn Any = &*self.0;
        memory.downcast_ref()
    }

    /// Returns an address that identifies this memory among all memory with live handles.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).cast::<()>() as usize
    }

    /// Returns a handle that does not keep the memory alive.
    pub fn downgrade(&self) -> WeakBuffer {
        WeakBuffer(Arc::downgrade(&self.0))
    }

    /// Returns whether this is the only handle to the memory.
    pub fn is_sole_handle(&self) -> bool {
        Arc::strong_count(&self.0) == 1
    }

    /// Returns whether two handles refer to the same memory.
    #[inline]
    pub fn is(&self, other: &Buffer) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.0), Arc::as_ptr(&other.0))
    }
}

/// A handle to device memory that does not keep it alive.
#[derive(Clone, Debug)]
pub struct WeakBuffer(std::sync::Weak<dyn Memory>);

impl WeakBuffer {
    /// Returns the buffer, if its memory still exists.
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
    /// Returns the shape.
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
    /// Returns the view without its memory.
    #[inline]
    pub fn meta(&self) -> Meta<'a> {
        Meta { dtype: self.dtype, layout: self.layout }
    }

    /// Returns whether both views have the same elements in the same order.
    pub fn is(&self, other: &View<'_>) -> bool {
        self.buffer.is(other.buffer) && self.dtype == other.dtype && self.layout == other.layout
    }
}

/// The memory layout that a backend requests for outputs. Core allocates them accordingly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputOrder {
    /// Contiguous, last axis fastest.
    RowMajor,
    /// The first output is non-overlapping and dense, with the axes ordered in memory as those of
    /// this input, which has the output's shape.
    Like(usize),
    /// Each output as [`Like`](OutputOrder::Like) of the input of the same index, if that input has
    /// its shape.
    LikeEach,
}

/// A backend's answer that it supports an op.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The layout of the outputs. Outputs to which it does not apply are row-major.
    pub order: OutputOrder,
}

impl Plan {
    /// Contiguous row-major outputs.
    pub const ROW_MAJOR: Plan = Plan { order: OutputOrder::RowMajor };

    /// Returns a plan with the first output in the memory order of input `index`.
    pub const fn like(index: usize) -> Plan {
        Plan { order: OutputOrder::Like(index) }
    }

    /// Returns a plan with the first output in the memory order of the first input that is not
    /// broadcast along an axis.
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

/// A backend's answer that it does not support an op, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsupported {
    /// The reason, for the coverage page and for error messages.
    pub why: std::borrow::Cow<'static, str>,
}

impl Unsupported {
    /// Creates the answer with this reason.
    pub fn because(why: impl Into<std::borrow::Cow<'static, str>>) -> Unsupported {
        Unsupported { why: why.into() }
    }
}

/// Memory of a device, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryStats {
    /// Memory in use by live buffers.
    pub in_use: usize,
    /// Memory that the pool caches for reuse.
    pub cached: usize,
    /// The maximum memory in use since the start, or since the peak was restarted.
    pub peak: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Default)]
    struct Host(AtomicU64);

    #[derive(Debug, Default)]
    struct Other(AtomicU64);

    impl Memory for Host {
        fn bytes(&self) -> usize {
            8
        }
        fn version_counter(&self) -> &AtomicU64 {
            &self.0
        }
    }

    impl Memory for Other {
        fn bytes(&self) -> usize {
            8
        }
        fn version_counter(&self) -> &AtomicU64 {
            &self.0
        }
    }

    /// Backends dereference the pointer, so it must exist for the memory's own type only.
    #[test]
    fn the_pointer_to_memory_is_that_of_its_own_type() {
        let buffer = Buffer::new(Host::default());
        let expected = buffer.downcast::<Host>().map(std::ptr::from_ref);
        assert!(expected.is_some());
        assert_eq!(buffer.as_ptr::<Host>(), expected);
        assert_eq!(buffer.as_ptr::<Other>(), None);
        assert_eq!(Buffer::new(Other::default()).as_ptr::<Host>(), None);
    }
}
