//! Tests with a fake CUPTI: its records go through the same buffers and callbacks as those of the
//! library.

use super::*;
use std::ffi::{CStr, c_char};
use std::sync::atomic::{AtomicU32, Ordering};

type Callbacks = (
    extern "C" fn(*mut *mut u8, *mut usize, *mut usize),
    extern "C" fn(*mut c_void, u32, *mut u8, usize, usize),
);

/// Serializes the tests, which share process-wide state.
static TURN: Mutex<()> = Mutex::new(());
static CALLBACKS: Mutex<Option<Callbacks>> = Mutex::new(None);
static ENABLED: Mutex<Vec<u32>> = Mutex::new(Vec::new());
/// Records that the next flush writes.
static WAITING: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());
static DROPPED: AtomicU32 = AtomicU32::new(0);
static VERSION: AtomicU32 = AtomicU32::new(130_001);
static ENABLE_CODE: AtomicU32 = AtomicU32::new(0);

/// Bytes of a record of the fake library, of every kind.
const RECORD: usize = 216;
const NAME: &CStr = c"product";

unsafe extern "C" fn register(
    request: extern "C" fn(*mut *mut u8, *mut usize, *mut usize),
    complete: extern "C" fn(*mut c_void, u32, *mut u8, usize, usize),
) -> Code {
    *CALLBACKS.lock() = Some((request, complete));
    0
}

unsafe extern "C" fn enable(kind: u32) -> Code {
    ENABLED.lock().push(kind);
    ENABLE_CODE.load(Ordering::Relaxed)
}

unsafe extern "C" fn disable(kind: u32) -> Code {
    ENABLED.lock().retain(|&other| other != kind);
    0
}

unsafe extern "C" fn flush(_: u32) -> Code {
    let (request, complete) = CALLBACKS.lock().expect("callbacks");
    let waiting = std::mem::take(&mut *WAITING.lock());
    let (mut buffer, mut bytes, mut records) = (std::ptr::null_mut(), 0, 1);
    request(&mut buffer, &mut bytes, &mut records);
    assert!(!buffer.is_null() && buffer.addr().is_multiple_of(8) && records == 0);
    assert!(bytes >= waiting.len() * RECORD);
    for (index, record) in waiting.iter().enumerate() {
        // SAFETY: the buffer has room for it, as checked above.
        unsafe { buffer.add(index * RECORD).copy_from_nonoverlapping(record.as_ptr(), RECORD) };
    }
    complete(std::ptr::null_mut(), 0, buffer, bytes, waiting.len() * RECORD);
    0
}

unsafe extern "C" fn next(buffer: *mut u8, written: usize, record: *mut *mut u8) -> Code {
    // SAFETY: the caller passes a pointer to null or to a record of the buffer.
    let current = unsafe { &mut *record };
    let offset = if current.is_null() { 0 } else { current.addr() - buffer.addr() + RECORD };
    if offset >= written {
        return 12;
    }
    // SAFETY: within the buffer.
    *current = unsafe { buffer.add(offset) };
    0
}

unsafe extern "C" fn dropped(_: *mut c_void, _: u32, count: *mut usize) -> Code {
    // SAFETY: the caller passes a pointer to an integer.
    unsafe { count.write(DROPPED.swap(0, Ordering::Relaxed) as usize) };
    0
}

unsafe extern "C" fn text(code: Code, text: *mut *const c_char) -> Code {
    if code == 39 {
        // SAFETY: the caller passes a pointer to an address.
        unsafe { text.write(c"CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED".as_ptr()) };
    }
    0
}

unsafe extern "C" fn version(version: *mut u32) -> Code {
    // SAFETY: the caller passes a pointer to an integer.
    unsafe { version.write(VERSION.load(Ordering::Relaxed)) };
    0
}

const FAKE_CUPTI: Functions = Functions { register, enable, disable, flush, next, dropped, text, version };

fn record(fields: &[(usize, &[u8])]) -> Vec<u8> {
    let mut bytes = vec![0xA5; RECORD];
    for (offset, field) in fields {
        bytes[*offset..offset + field.len()].copy_from_slice(field);
    }
    bytes
}

fn kernel(start: u64, end: u64) -> Vec<u8> {
    let three = |values: [u32; 3]| values.map(u32::to_le_bytes).concat();
    let (grid, block) = (three([132, 2, 1]), three([384, 1, 1]));
    record(&[
        (0, &KERNEL.to_le_bytes()),
        (6, &168u16.to_le_bytes()),
        (16, &start.to_le_bytes()),
        (24, &end.to_le_bytes()),
        (52, &grid),
        (64, &block),
        (76, &16u32.to_le_bytes()),
        (80, &200_000u32.to_le_bytes()),
        (92, &77u32.to_le_bytes()),
        (104, &(NAME.as_ptr() as u64).to_le_bytes()),
    ])
}

fn memory_record(kind: u32, copy_kind: u8, start: u64) -> Vec<u8> {
    record(&[
        (0, &kind.to_le_bytes()),
        (4, &[copy_kind]),
        (8, &4096u64.to_le_bytes()),
        (16, &start.to_le_bytes()),
        (24, &(start + 5).to_le_bytes()),
        (44, &78u32.to_le_bytes()),
    ])
}

#[test]
fn records_are_read_and_sorted() {
    let _turn = TURN.lock();
    let trace = KernelTrace::begin_with(FAKE_CUPTI).expect("a trace");
    assert_eq!(*ENABLED.lock(), [10, 1, 2]);
    let unknown = record(&[(0, &3u32.to_le_bytes())]);
    *WAITING.lock() =
        vec![kernel(300, 450), memory_record(MEMSET, 0, 200), unknown, memory_record(MEMCPY, 8, 100)];
    let activities = trace.take().expect("records");
    let names: Vec<&str> = activities.iter().map(|activity| activity.name.as_str()).collect();
    assert_eq!(names, ["copy device to device", "fill", "product"]);
    let expected = Activity {
        kind: ActivityKind::Kernel,
        name: "product".into(),
        start_ns: 300,
        end_ns: 450,
        grid: [132, 2, 1],
        block: [384, 1, 1],
        static_shared: 16,
        dynamic_shared: 200_000,
        registers: 168,
        bytes: 0,
        correlation: 77,
    };
    assert_eq!(activities[2], expected);
    assert_eq!((activities[0].bytes, activities[0].end_ns, activities[0].correlation), (4096, 105, 78));
    assert_eq!((activities[1].kind, activities[1].bytes), (ActivityKind::Fill, 4096));
    assert!(trace.take().expect("no more").is_empty());
    drop(trace);
    assert!(ENABLED.lock().is_empty());
}

#[test]
fn lost_records_are_an_error() {
    let _turn = TURN.lock();
    let trace = KernelTrace::begin_with(FAKE_CUPTI).expect("a trace");
    DROPPED.store(3, Ordering::Relaxed);
    let error = trace.take().expect_err("lost").to_string();
    assert!(error.contains("3 records were lost"), "{error}");
    assert!(trace.take().is_ok());
}

#[test]
fn one_trace_at_a_time_and_none_beside_another_profiler() {
    let _turn = TURN.lock();
    let trace = KernelTrace::begin_with(FAKE_CUPTI).expect("a trace");
    let error = KernelTrace::begin_with(FAKE_CUPTI).err().expect("rejected").to_string();
    assert!(error.contains("another trace of kernels is on"), "{error}");
    drop(trace);
    ENABLE_CODE.store(ANOTHER_PROFILER, Ordering::Relaxed);
    let error = KernelTrace::begin_with(FAKE_CUPTI).err().expect("rejected").to_string();
    assert!(
        error.contains("another profiler is attached") && error.contains("MULTIPLE_SUBSCRIBERS"),
        "{error}"
    );
    ENABLE_CODE.store(7, Ordering::Relaxed);
    let error = KernelTrace::begin_with(FAKE_CUPTI).err().expect("rejected").to_string();
    assert!(error.contains("CUPTI does not begin: code 7"), "{error}");
    ENABLE_CODE.store(0, Ordering::Relaxed);
    // A trace that failed to begin has ended.
    drop(KernelTrace::begin_with(FAKE_CUPTI).expect("a trace"));
    assert!(ENABLED.lock().is_empty());
}

#[test]
fn an_old_library_is_rejected() {
    let _turn = TURN.lock();
    VERSION.store(17, Ordering::Relaxed);
    let why = FAKE_CUPTI.check_version().err().expect("rejected");
    assert_eq!(why, "its API version is 17, expected 18 (CUDA 12.0) or newer");
    VERSION.store(18, Ordering::Relaxed);
    assert!(FAKE_CUPTI.check_version().is_ok());
}
