//! Ranges in NVIDIA's profilers: spans are passed to the NVTX library, if it is installed.

use libloading::Library;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;
use ternion_core::trace::{Span, SpanSink};

/// The names of the library: of NVTX 2, which is part of toolkits before CUDA 13, and of a library
/// that exports the functions of NVTX 3. Each library finds the profiler by itself.
const NAMES: [&str; 6] = [
    "libnvToolsExt.so.1",
    "libnvToolsExt.so",
    "libnvtx3interop.so.1",
    "libnvtx3interop.so",
    "nvToolsExt64_1.dll",
    "nvtx3interop.dll",
];

/// `int nvtxRangePushA(const char *message)`
type Push = unsafe extern "C" fn(*const c_char) -> c_int;
/// `int nvtxRangePop(void)`
type Pop = unsafe extern "C" fn() -> c_int;
/// `void nvtxMarkA(const char *message)`
type Mark = unsafe extern "C" fn(*const c_char);

#[derive(Clone, Copy)]
struct Functions {
    push: Push,
    pop: Pop,
    mark: Mark,
}

/// The result of NVTX if no profiler is attached: `NVTX_NO_PUSH_POP_TRACKING`.
const NO_PROFILER: i32 = -2;

/// A sink of spans (see `ternion_core::trace`) that a profiler such as Nsight Systems shows above
/// the kernels, as ranges of the thread. It does nothing without the library or without a profiler.
#[derive(Default)]
pub struct Nvtx {
    functions: Option<Functions>,
    /// Whether each open range was passed to NVTX. A name with a zero byte is not.
    open: RefCell<Vec<bool>>,
}

impl Nvtx {
    /// Opens the library, if it is installed. It stays loaded.
    pub fn open() -> Nvtx {
        static FUNCTIONS: OnceLock<Option<Functions>> = OnceLock::new();
        let functions = *FUNCTIONS.get_or_init(|| NAMES.iter().find_map(|name| load_functions(name)));
        Nvtx { functions, open: RefCell::default() }
    }

    /// Returns whether the library is available, so that a profiler could receive spans.
    pub fn is_available(&self) -> bool {
        self.functions.is_some()
    }

    /// Begins a range of this thread, nested in its open ranges, and returns how many enclose it; a
    /// negative number if no profiler is attached. The message ends at a zero byte.
    pub fn push(&self, message: &str) -> i32 {
        let message = up_to_zero(message);
        // SAFETY: a string that ends in a zero byte, which NVTX copies.
        self.functions.map_or(NO_PROFILER, |functions| unsafe { (functions.push)(message.as_ptr()) })
    }

    /// Ends the innermost range of this thread, and returns how many enclose it; a negative number
    /// if there is no range or no profiler is attached.
    pub fn pop(&self) -> i32 {
        // SAFETY: it takes no argument; without a range NVTX does nothing.
        self.functions.map_or(NO_PROFILER, |functions| unsafe { (functions.pop)() })
    }

    /// Marks this moment. The message ends at a zero byte.
    pub fn mark(&self, message: &str) {
        let message = up_to_zero(message);
        if let Some(functions) = self.functions {
            // SAFETY: a string that ends in a zero byte, which NVTX copies.
            unsafe { (functions.mark)(message.as_ptr()) };
        }
    }
}

fn up_to_zero(message: &str) -> CString {
    let end = message.find('\0').unwrap_or(message.len());
    CString::new(&message[..end]).unwrap_or_default()
}

/// Returns the functions of the library of this name. A missing library, or one without them, is
/// not an error, because ranges are optional.
fn load_functions(name: &str) -> Option<Functions> {
    // SAFETY: the initializers of NVIDIA's library, under its own name.
    let library = unsafe { Library::new(name) }.ok()?;
    // SAFETY: the types are those of NVIDIA's declarations (nvToolsExt.h), which are the same in
    // NVTX 2 and 3.
    let push = *unsafe { library.get::<Push>(b"nvtxRangePushA\0") }.ok()?;
    // SAFETY: as above.
    let pop = *unsafe { library.get::<Pop>(b"nvtxRangePop\0") }.ok()?;
    // SAFETY: as above.
    let mark = *unsafe { library.get::<Mark>(b"nvtxMarkA\0") }.ok()?;
    // The functions are valid as long as the library is loaded, so it is never unloaded.
    std::mem::forget(library);
    Some(Functions { push, pop, mark })
}

impl SpanSink for Nvtx {
    fn begin(&self, span: &Span<'_>) {
        let Some(Functions { push, .. }) = self.functions else { return };
        let c_string = CString::new(span.to_string());
        if let Ok(message) = &c_string {
            // SAFETY: a string that ends in a zero byte, which NVTX copies.
            unsafe { push(message.as_ptr()) };
        }
        self.open.borrow_mut().push(c_string.is_ok());
    }

    fn end(&self) {
        let Some(Functions { pop, .. }) = self.functions else { return };
        if self.open.borrow_mut().pop() == Some(true) {
            // SAFETY: it takes no argument, and ends this thread's last range that `begin` began.
            unsafe { pop() };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::ffi::CStr;
    use std::rc::Rc;
    use ternion_core::trace::{SpanKind, in_span, with_sink};

    thread_local! {
        static RECEIVED: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static DEPTH: Cell<i32> = const { Cell::new(0) };
    }

    unsafe extern "C" fn push(message: *const c_char) -> c_int {
        // SAFETY: `begin` passes a string that ends in a zero byte.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        RECEIVED.with_borrow_mut(|received| received.push(message));
        DEPTH.set(DEPTH.get() + 1);
        DEPTH.get()
    }

    unsafe extern "C" fn pop() -> c_int {
        DEPTH.set(DEPTH.get() - 1);
        DEPTH.get()
    }

    unsafe extern "C" fn mark(message: *const c_char) {
        // SAFETY: `mark` passes a string that ends in a zero byte.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        RECEIVED.with_borrow_mut(|received| received.push(message));
    }

    fn with_fake_functions() -> Nvtx {
        Nvtx { functions: Some(Functions { push, pop, mark }), ..Default::default() }
    }

    #[test]
    fn ranges_and_marks_by_hand_are_passed_on() {
        let nvtx = with_fake_functions();
        assert_eq!((nvtx.push("epoch"), nvtx.push("step\0of it"), nvtx.pop()), (1, 2, 1));
        nvtx.mark("a\0b");
        assert_eq!((nvtx.pop(), DEPTH.get()), (0, 0));
        assert_eq!(RECEIVED.take(), ["epoch", "step", "a"]);
    }

    #[test]
    fn ranges_are_balanced_whatever_a_span_is_called() {
        let nvtx = Rc::new(with_fake_functions());
        let depth = with_sink(nvtx, || {
            in_span(SpanKind::Layer, "Linear", "layers.0", || {
                let depth_without_range = in_span(SpanKind::Other, "a\0b", "", || DEPTH.get());
                in_span(SpanKind::Node, "matmul", "", || (depth_without_range, DEPTH.get()))
            })
        });
        assert_eq!((depth, DEPTH.get()), ((1, 2), 0));
        assert_eq!(RECEIVED.take(), ["layers.0 (Linear)", "matmul backward"]);
    }

    #[test]
    fn without_a_library_nothing_happens() {
        assert!(load_functions("libno-such-library-of-nvtx.so").is_none());
        let nvtx = Nvtx::default();
        assert!(!nvtx.is_available());
        nvtx.end();
        assert_eq!((nvtx.push("epoch"), nvtx.pop()), (NO_PROFILER, NO_PROFILER));
        nvtx.mark("moment");
        let sink = Rc::new(nvtx);
        assert_eq!(with_sink(sink, || in_span(SpanKind::Op, "exp", "", || 7)), 7);
        // It must not fail, whether or not this machine has the library.
        with_sink(Rc::new(Nvtx::open()), || in_span(SpanKind::Op, "exp", "", || ()));
    }
}
