//! The buffer protocol (PEP 3118): `memoryview(tensor)`, `numpy.frombuffer(tensor)` and every other
//! reader of such memory.
//!
//! PyO3 has methods for it only from CPython 3.11 on, where it is part of the limited C API.
//! CPython itself has accepted the two slots in a type's specification since 3.9 ("Slots in
//! PyBufferProcs may be set", PyType_Slot), with the numbers and the structure that the limited API
//! froze later. So they are registered here in the same way as PyO3's macros register theirs.

use crate::error::RaisedError;
use crate::external_memory::address;
use crate::tensor::PyTensor;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::impl_::pyclass::{PyClassImpl, PyClassItems};
use pyo3::prelude::*;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null_mut;
use ternion::{DType, Layout, Tensor};

/// `Py_bf_getbuffer`, `Py_bf_releasebuffer`.
const SLOT_GETBUFFER: c_int = 1;
const SLOT_RELEASEBUFFER: c_int = 2;

/// Flags of a request: `PyBUF_WRITABLE`, `PyBUF_FORMAT`, `PyBUF_ND`, `PyBUF_STRIDES`, and the
/// required order of the elements.
const WRITABLE: c_int = 0x1;
const FORMAT: c_int = 0x4;
const SHAPE: c_int = 0x8;
const STRIDES: c_int = 0x10 | SHAPE;
const C_CONTIGUOUS: c_int = 0x20 | STRIDES;
const F_CONTIGUOUS: c_int = 0x40 | STRIDES;
const ANY_CONTIGUOUS: c_int = 0x80 | STRIDES;

/// `Py_buffer`, the same in every version from 3.9 on.
#[repr(C)]
struct Buffer {
    buf: *mut c_void,
    obj: *mut ffi::PyObject,
    len: ffi::Py_ssize_t,
    itemsize: ffi::Py_ssize_t,
    readonly: c_int,
    ndim: c_int,
    format: *mut c_char,
    shape: *mut ffi::Py_ssize_t,
    strides: *mut ffi::Py_ssize_t,
    suboffsets: *mut ffi::Py_ssize_t,
    internal: *mut c_void,
}

/// The data that lives as long as a view: the tensor at the time of the request, and the arrays
/// that the view points to.
struct BufferOwner {
    _tensor: Tensor,
    shape: Vec<ffi::Py_ssize_t>,
    strides: Vec<ffi::Py_ssize_t>,
}

/// Returns the format character of the module `struct`.
fn format(dtype: DType) -> Option<&'static CStr> {
    Some(match dtype {
        DType::F64 => c"d",
        DType::F32 => c"f",
        DType::F16 => c"e",
        DType::BF16 => return None,
        DType::I64 => c"q",
        DType::I32 => c"i",
        DType::I16 => c"h",
        DType::I8 => c"b",
        DType::U64 => c"Q",
        DType::U32 => c"I",
        DType::U16 => c"H",
        DType::U8 => c"B",
        DType::Bool => c"?",
    })
}

fn requests(flags: c_int, what: c_int) -> bool {
    flags & what == what
}

/// Returns whether the elements are contiguous with the first axis varying fastest.
fn is_column_major(layout: &Layout) -> bool {
    let mut step = 1;
    layout.shape().dims().iter().zip(layout.strides()).all(|(&size, &stride)| {
        let fits = size == 1 || stride == step;
        step *= size as isize;
        fits
    })
}

/// Returns the error text for a request that the tensor does not satisfy.
fn unsupported_request(tensor: &Tensor, flags: c_int, is_read_only: bool) -> Option<String> {
    let (rows, columns) = (tensor.is_contiguous(), is_column_major(tensor.layout()));
    if requests(flags, WRITABLE) && is_read_only {
        return Some(match tensor.needs_grad() {
            true => {
                "the memory of a tensor that a gradient flows to is read-only: take that of detach()".into()
            }
            false => {
                "the memory of an expanded tensor is read-only: take that of a copy, contiguous()".into()
            }
        });
    }
    let needs_row_major = !requests(flags, STRIDES) || requests(flags, C_CONTIGUOUS);
    let is_mismatch = needs_row_major && !rows
        || requests(flags, F_CONTIGUOUS) && !columns
        || requests(flags, ANY_CONTIGUOUS) && !rows && !columns;
    is_mismatch.then(|| {
        format!(
            "a tensor of shape {:?} with strides {:?} is not contiguous as the reader wants it: take contiguous()",
            tensor.dims(),
            tensor.layout().strides()
        )
    })
}

/// Fills in all fields of `view` for the memory of `tensor`, except its owner.
fn fill(tensor: Tensor, flags: c_int, view: &mut Buffer) -> PyResult<()> {
    let buffer_error = |message: String| Err(PyBufferError::new_err(message));
    let (device, dtype) = (tensor.device().name(), tensor.dtype());
    if device != "cpu" {
        return buffer_error(format!("memory on {device} is not a buffer: copy the tensor with cpu() first"));
    }
    let Some(format) = format(dtype) else {
        return buffer_error(format!(
            "no format of a buffer is {dtype}: convert the tensor with float() first"
        ));
    };
    let is_read_only = tensor.needs_grad() || tensor.layout().overlaps_itself();
    if let Some(message) = unsupported_request(&tensor, flags, is_read_only) {
        return buffer_error(message);
    }
    let size = dtype.size() as ffi::Py_ssize_t;
    view.buf = address(&tensor).map_err(|error: RaisedError| PyErr::from(error))? as *mut c_void;
    view.len = tensor.elements() as ffi::Py_ssize_t * size;
    view.itemsize = size;
    view.readonly = c_int::from(is_read_only);
    view.ndim = tensor.rank() as c_int;
    view.suboffsets = null_mut();
    view.format = if requests(flags, FORMAT) { format.as_ptr().cast_mut() } else { null_mut() };
    let shape = tensor.dims().iter().map(|&size| size as ffi::Py_ssize_t).collect();
    let strides = tensor.layout().strides().iter().map(|&stride| stride as ffi::Py_ssize_t * size).collect();
    let mut owner = Box::new(BufferOwner { _tensor: tensor, shape, strides });
    view.shape = if requests(flags, SHAPE) { owner.shape.as_mut_ptr() } else { null_mut() };
    view.strides = if requests(flags, STRIDES) { owner.strides.as_mut_ptr() } else { null_mut() };
    view.internal = Box::into_raw(owner).cast();
    Ok(())
}

unsafe extern "C" fn get(object: *mut ffi::PyObject, view: *mut c_void, flags: c_int) -> c_int {
    // SAFETY: the interpreter calls this while holding the GIL, with an object of the type, and a
    // view that is NULL or may be written.
    let (object, view) = unsafe { (object, view.cast::<Buffer>().as_mut()) };
    Python::attach(|py| {
        let Some(view) = view else {
            PyBufferError::new_err("a buffer without a view").restore(py);
            return -1;
        };
        view.obj = null_mut();
        let filled = catch_unwind(AssertUnwindSafe(|| {
            // SAFETY: as above; the pointer is borrowed for this call.
            let tensor = unsafe { Bound::from_borrowed_ptr(py, object) };
            let tensor = tensor.cast::<PyTensor>()?.get().tensor();
            fill(tensor, flags, view)
        }));
        let filled = filled
            .unwrap_or_else(|_| Err(PyBufferError::new_err("an error within ternion, please report it")));
        match filled {
            Ok(()) => {
                // SAFETY: the object is alive, and the owner of the view releases this reference.
                unsafe { ffi::Py_IncRef(object) };
                view.obj = object;
                0
            }
            Err(error) => {
                error.restore(py);
                -1
            }
        }
    })
}

unsafe extern "C" fn release(_: *mut ffi::PyObject, view: *mut c_void) {
    // SAFETY: `view` was filled in above, once, and is released once.
    unsafe {
        let view = &mut *view.cast::<Buffer>();
        if !view.internal.is_null() {
            drop(Box::from_raw(view.internal.cast::<BufferOwner>()));
            view.internal = null_mut();
        }
    }
}

pyo3::inventory::submit! {
    type Inventory = <PyTensor as PyClassImpl>::Inventory;
    Inventory::new(PyClassItems {
        methods: &[],
        slots: &[
            ffi::PyType_Slot { slot: SLOT_GETBUFFER, pfunc: get as *mut c_void },
            ffi::PyType_Slot { slot: SLOT_RELEASEBUFFER, pfunc: release as *mut c_void },
        ],
    })
}
