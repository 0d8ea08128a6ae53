//! Ranges in NVIDIA's profilers: spans are passed on to the NVTX library, where there is one.

use libloading::Library;
use std::cell::RefCell;
use std::ffi::{CString, c_char, c_int};
use ternion_core::trace::{Span, SpanSink};

/// The names of the library: of NVTX 2, which toolkits before CUDA 13 have, and of what exports the
/// functions of NVTX 3. Each finds the profiler by itself.
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

/// A sink of spans (see `ternion_core::trace`) that a profiler such as Nsight Systems shows above
/// the kernels, as ranges of the thread. Without the library, or without a profiler, it does
/// nothing.
#[derive(Default)]
pub struct Nvtx {
    functions: Option<(Push, Pop)>,
    /// Whether each range that is open was told: a name with a zero byte is not.
    open: RefCell<Vec<bool>>,
}

impl Nvtx {
    /// Opens the library, if there is one. It stays loaded.
    pub fn open() -> Nvtx {
        Nvtx { functions: NAMES.iter().find_map(|name| functions(name)), open: RefCell::default() }
    }

    /// Whether there is a library, so that a profiler could hear of spans.
    pub fn is_available(&self) -> bool {
        self.functions.is_some()
    }
}

/// The functions of the library of this name. A library without them, or none, is no fault: ranges
/// are a convenience.
fn functions(name: &str) -> Option<(Push, Pop)> {
    // SAFETY: the initialisers of NVIDIA's library, under its own name.
    let library = unsafe { Library::new(name) }.ok()?;
    // SAFETY: the types are those of NVIDIA's declarations (nvToolsExt.h), the same in NVTX 2 and
    // 3.
    let push = *unsafe { library.get::<Push>(b"nvtxRangePushA\0") }.ok()?;
    // SAFETY: as above.
    let pop = *unsafe { library.get::<Pop>(b"nvtxRangePop\0") }.ok()?;
    // The functions live as long as the library, which stays.
    std::mem::forget(library);
    Some((push, pop))
}

impl SpanSink for Nvtx {
    fn begin(&self, span: &Span<'_>) {
        let Some((push, _)) = self.functions else { return };
        let told = CString::new(span.to_string());
        if let Ok(message) = &told {
            // SAFETY: a string that ends in a zero byte, which NVTX copies.
            unsafe { push(message.as_ptr()) };
        }
        self.open.borrow_mut().push(told.is_ok());
    }

    fn end(&self) {
        let Some((_, pop)) = self.functions else { return };
        if self.open.borrow_mut().pop() == Some(true) {
            // SAFETY: it takes nothing, and ends the range of this thread that `begin` began last.
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
        static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
        static DEPTH: Cell<i32> = const { Cell::new(0) };
    }

    unsafe extern "C" fn push(message: *const c_char) -> c_int {
        // SAFETY: `begin` gives a string that ends in a zero byte.
        let message = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
        HEARD.with_borrow_mut(|heard| heard.push(message));
        DEPTH.set(DEPTH.get() + 1);
        DEPTH.get()
    }

    unsafe extern "C" fn pop() -> c_int {
        DEPTH.set(DEPTH.get() - 1);
        DEPTH.get()
    }

    #[test]
    fn ranges_are_balanced_whatever_a_span_is_called() {
        let nvtx = Rc::new(Nvtx { functions: Some((push, pop)), ..Default::default() });
        let depth = with_sink(nvtx, || {
            in_span(SpanKind::Layer, "Linear", "layers.0", || {
                let of_zero = in_span(SpanKind::Other, "a\0b", "", || DEPTH.get());
                in_span(SpanKind::Node, "matmul", "", || (of_zero, DEPTH.get()))
            })
        });
        assert_eq!((depth, DEPTH.get()), ((1, 2), 0));
        assert_eq!(HEARD.take(), ["layers.0 (Linear)", "matmul backward"]);
    }

    #[test]
    fn without_a_library_nothing_happens() {
        assert!(functions("libno-such-library-of-nvtx.so").is_none());
        let nvtx = Nvtx::default();
        assert!(!nvtx.is_available());
        nvtx.end();
        let sink = Rc::new(nvtx);
        assert_eq!(with_sink(sink, || in_span(SpanKind::Op, "exp", "", || 7)), 7);
        // Whether this machine has one or not, it must not fail.
        with_sink(Rc::new(Nvtx::open()), || in_span(SpanKind::Op, "exp", "", || ()));
    }
}
