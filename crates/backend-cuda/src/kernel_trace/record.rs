//! CUPTI's records of a kernel, a copy or a fill, read at the offsets of NVIDIA's declarations.
//!
//! CUPTI's records grow at their end from version to version. The fields that are read here have
//! the same offset in `CUpti_ActivityKernel4` (CUDA 9.0) to `CUpti_ActivityKernel10` (13.0),
//! `CUpti_ActivityMemcpy4` to `6` and `CUpti_ActivityMemset3` and `4`. The offsets were determined
//! with a C compiler from `cupti_activity.h` and `cupti_activity_deprecated.h` of CUDA 12.8 (API
//! version 26) and 13.0 (130001), 64-bit.
//!
//! | field | kernel | copy | fill |
//! |---|---:|---:|---:|
//! | `kind` u32 | 0 | 0 | 0 |
//! | `copyKind` u8 | | 4 | |
//! | `registersPerThread` u16 | 6 | | |
//! | `bytes` u64 | | 8 | 8 |
//! | `start`, `end` u64, ns | 16, 24 | 16, 24 | 16, 24 |
//! | `gridX` .. i32 x 3 | 52 | | |
//! | `blockX` .. i32 x 3 | 64 | | |
//! | `staticSharedMemory`, `dynamicSharedMemory` i32 | 76, 80 | | |
//! | `correlationId` u32 | 92 | 44 | 44 |
//! | `name`, a C string | 104 | | |

use std::ffi::{CStr, c_char};

/// `CUPTI_ACTIVITY_KIND_MEMCPY`.
pub(super) const MEMCPY: u32 = 1;
/// `CUPTI_ACTIVITY_KIND_MEMSET`.
pub(super) const MEMSET: u32 = 2;
/// `CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL`.
pub(super) const KERNEL: u32 = 10;

/// The kind of an activity.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ActivityKind {
    /// A kernel.
    Kernel,
    /// A copy by the driver.
    Copy,
    /// A memset.
    Fill,
}

/// One activity of a device, as measured by CUPTI.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Activity {
    /// What kind of activity it is.
    pub kind: ActivityKind,
    /// The kernel's name, or the source and destination of a copy.
    pub name: String,
    /// The start time, in nanoseconds of CUPTI's clock.
    pub start_ns: u64,
    /// The end time, in nanoseconds of CUPTI's clock.
    pub end_ns: u64,
    /// Blocks of a kernel; 0 for copies and memsets.
    pub grid: [u32; 3],
    /// Threads of a block of a kernel; 0 for copies and memsets.
    pub block: [u32; 3],
    /// Bytes of static shared memory of a kernel; 0 for copies and memsets.
    pub static_shared: u32,
    /// Bytes of dynamic shared memory of a kernel's launch; 0 for copies and memsets.
    pub dynamic_shared: u32,
    /// Registers of a thread of a kernel; 0 for copies and memsets.
    pub registers: u16,
    /// Bytes that were copied or set; 0 for kernels.
    pub bytes: u64,
    /// CUPTI's correlation id: that of the driver call that caused the activity.
    pub correlation: u32,
}

/// A CUPTI activity record, by its address.
struct Record(*const u8);

impl Record {
    /// Returns the field at `offset`.
    ///
    /// # Safety
    /// The record is long enough, and contains a `T` at this offset.
    unsafe fn field<T: Copy>(&self, offset: usize) -> T {
        // SAFETY: guaranteed by the caller; the read does not require alignment.
        unsafe { self.0.add(offset).cast::<T>().read_unaligned() }
    }

    /// Returns three consecutive integers from `offset` on.
    ///
    /// # Safety
    /// As for [`field`](Record::field), for three values.
    unsafe fn three_fields(&self, offset: usize) -> [u32; 3] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.field(offset) }
    }

    /// Returns the activity of a kernel.
    ///
    /// # Safety
    /// It is a record of a kernel.
    unsafe fn kernel(&self) -> Activity {
        // SAFETY: the offsets are those of every version (see above); the name is null or a string
        // that CUPTI keeps as long as the kernel's module is loaded.
        unsafe {
            let name: *const c_char = self.field(104);
            let name = match name.is_null() {
                true => String::new(),
                false => CStr::from_ptr(name).to_string_lossy().into_owned(),
            };
            Activity {
                grid: self.three_fields(52),
                block: self.three_fields(64),
                static_shared: self.field(76),
                dynamic_shared: self.field(80),
                registers: self.field(6),
                ..self.timed(ActivityKind::Kernel, name, 92)
            }
        }
    }

    /// Returns an activity with the fields that all kinds have; the others are 0.
    ///
    /// # Safety
    /// It is a record whose correlation id is at the offset `correlation`.
    unsafe fn timed(&self, kind: ActivityKind, name: String, correlation: usize) -> Activity {
        // SAFETY: guaranteed by the caller, and the offsets are those of every kind (see above).
        let (start_ns, end_ns, correlation) =
            unsafe { (self.field(16), self.field(24), self.field(correlation)) };
        Activity {
            kind,
            name,
            start_ns,
            end_ns,
            grid: [0; 3],
            block: [0; 3],
            static_shared: 0,
            dynamic_shared: 0,
            registers: 0,
            bytes: 0,
            correlation,
        }
    }
}

/// Returns the name of a copy by its `CUpti_ActivityMemcpyKind`.
fn copy_name(kind: u8) -> &'static str {
    match kind {
        1 => "copy host to device",
        2 => "copy device to host",
        8 => "copy device to device",
        10 => "copy peer to peer",
        _ => "copy",
    }
}

/// Returns the activity of a record; `None` for a kind that was not requested.
///
/// # Safety
/// `record` is a complete record that CUPTI returned.
pub(super) unsafe fn activity(record: *const u8) -> Option<Activity> {
    let record = Record(record);
    // SAFETY: every record begins with its kind, and the fields that are read exist in records of
    // that kind.
    unsafe {
        match record.field(0) {
            KERNEL => Some(record.kernel()),
            MEMCPY => {
                let name = copy_name(record.field(4)).to_owned();
                Some(Activity { bytes: record.field(8), ..record.timed(ActivityKind::Copy, name, 44) })
            }
            MEMSET => Some(Activity {
                bytes: record.field(8),
                ..record.timed(ActivityKind::Fill, "fill".into(), 44)
            }),
            _ => None,
        }
    }
}
