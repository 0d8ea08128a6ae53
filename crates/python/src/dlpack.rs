//! DLPack: sharing tensors with PyTorch, JAX, CuPy and others without a copy
//! (https://dmlc.github.io/dlpack, versions 0.8 and 1.0).

use crate::device::{DeviceArgument, or_default};
use crate::error::{Outcome, RaisedError};
use crate::external_memory::{ExternalArray, address};
use crate::extract::of;
use crate::gil::wait;
use crate::streams::{self, CUDA};
use crate::tensor::PyTensor;
use pyo3::exceptions::PyBufferError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use std::ffi::{CStr, c_void};
use std::ptr::NonNull;
use ternion::{DType, Device, Tensor};

/// `kDLCPU`, `kDLCUDAHost`: CPU memory; in the latter case CUDA devices can access it too.
const CPU: i32 = 1;
const CUDA_HOST: i32 = 3;

/// Names of a capsule that has not been consumed yet, and of a consumed one.
const NAME: &CStr = c"dltensor";
const USED_NAME: &CStr = c"used_dltensor";
const NAME_VERSIONED: &CStr = c"dltensor_versioned";
const USED_NAME_VERSIONED: &CStr = c"used_dltensor_versioned";

/// Set in the flags of read-only memory.
const READ_ONLY: u64 = 1;

#[repr(C)]
#[derive(Clone, Copy)]
struct DLDevice {
    kind: i32,
    index: i32,
}

/// `kDLInt` 0, `kDLUInt` 1, `kDLFloat` 2, `kDLBfloat` 4, `kDLBool` 6.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
struct DLDataType {
    code: u8,
    bits: u8,
    lanes: u16,
}

#[repr(C)]
struct DLTensor {
    data: *mut c_void,
    device: DLDevice,
    ndim: i32,
    dtype: DLDataType,
    shape: *mut i64,
    strides: *mut i64,
    byte_offset: u64,
}

#[repr(C)]
struct DLManagedTensor {
    tensor: DLTensor,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensor)>,
}

#[repr(C)]
struct DLManagedTensorVersioned {
    major: u32,
    minor: u32,
    context: *mut c_void,
    deleter: Option<unsafe extern "C" fn(*mut DLManagedTensorVersioned)>,
    flags: u64,
    tensor: DLTensor,
}

const fn data_type(dtype: DType) -> DLDataType {
    let code = match dtype {
        DType::F64 | DType::F32 | DType::F16 => 2,
        DType::BF16 => 4,
        DType::I64 | DType::I32 | DType::I16 | DType::I8 => 0,
        DType::U64 | DType::U32 | DType::U16 | DType::U8 => 1,
        DType::Bool => 6,
    };
    DLDataType { code, bits: dtype.size() as u8 * 8, lanes: 1 }
}

/// The two versions of the structure that a capsule contains.
trait Managed: Sized {
    const NAME: &'static CStr;
    const USED_NAME: &'static CStr;
    fn new(tensor: DLTensor, context: *mut c_void) -> Self;
    fn tensor(&self) -> &DLTensor;
    fn is_read_only(&self) -> bool;
    /// Releases `this` to its producer.
    ///
    /// # Safety
    /// `this` was not released before.
    unsafe fn release(this: *mut Self);
}

/// The data that an exported tensor keeps alive.
struct ManagerContext {
    tensor: Tensor,
    /// The CUDA stream on which the consumer uses the tensor, if it is known.
    stream: Option<usize>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

impl Drop for ManagerContext {
    /// The memory is reused only after the work that the consumer has queued.
    fn drop(&mut self) {
        if !streams::wait_for_stream(self.tensor.device(), self.stream) {
            // While a step is recorded, the device cannot wait for the consumer's stream. The
            // memory is leaked, because it is unknown when the consumer stops using it.
            std::mem::forget(self.tensor.clone());
        }
    }
}

/// Runs `f` while holding the GIL, which is acquired through the C API and not through PyO3. A
/// consumer may release a tensor on any thread, also in a call of ours in which it has released the
/// GIL while PyO3 still counts it as held. The memory may belong to a Python array, whose reference
/// count may be changed only while holding the GIL.
fn with_gil(f: impl FnOnce()) {
    // SAFETY: the interpreter was checked to be running; the acquired state is released once, on
    // the same thread.
    unsafe {
        if ffi::Py_IsInitialized() == 0 {
            // At the end of the process the memory need not be freed, and no Python object may be
            // accessed.
            return std::mem::forget(f);
        }
        let state = ffi::PyGILState_Ensure();
        f();
        ffi::PyGILState_Release(state);
    }
}

macro_rules! managed {
    ($kind:ident $name:ident $used_name:ident $this:ident => $read_only:expr; $($field:ident: $value:expr),*) => {
        impl Managed for $kind {
            const NAME: &'static CStr = $name;
            const USED_NAME: &'static CStr = $used_name;
            fn new(tensor: DLTensor, context: *mut c_void) -> Self {
                unsafe extern "C" fn delete(this: *mut $kind) {
                    // SAFETY: `export_capsule` created `this` and its context by Box::into_raw; the
                    // consumer calls this function once.
                    let (_, context) = unsafe {
                        let this = Box::from_raw(this);
                        let context = Box::from_raw(this.context.cast::<ManagerContext>());
                        (this, context)
                    };
                    with_gil(|| drop(context));
                }
                $kind { tensor, context, deleter: Some(delete), $($field: $value),* }
            }
            fn tensor(&self) -> &DLTensor {
                &self.tensor
            }
            fn is_read_only(&self) -> bool {
                let $this = self;
                $read_only
            }
            unsafe fn release(this: *mut Self) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    if let Some(deleter) = (*this).deleter {
                        deleter(this);
                    }
                }
            }
        }
    };
}

managed! { DLManagedTensor NAME USED_NAME _this => false; }
managed! { DLManagedTensorVersioned NAME_VERSIONED USED_NAME_VERSIONED this => this.flags & READ_ONLY != 0; major: 1, minor: 0, flags: 0 }

/// Returns the device in DLPack's terms.
fn device_of(device: &Device) -> Outcome<DLDevice> {
    match device.name().split_once(':') {
        None if device.name() == "cpu" => Ok(DLDevice { kind: CPU, index: 0 }),
        Some(("cuda", index)) => Ok(DLDevice { kind: CUDA, index: index.parse().unwrap_or_default() }),
        _ => Err(PyBufferError::new_err(format!(
            "memory on {} cannot be shared: copy the tensor with cpu() first",
            device.name()
        ))
        .into()),
    }
}

/// Releases the contents of a capsule unless they were consumed.
unsafe extern "C" fn destroy_capsule<M: Managed>(capsule: *mut ffi::PyObject) {
    // SAFETY: Python calls this with the capsule, once, when its last reference is gone.
    unsafe {
        if ffi::PyCapsule_IsValid(capsule, M::NAME.as_ptr()) == 1 {
            M::release(ffi::PyCapsule_GetPointer(capsule, M::NAME.as_ptr()).cast());
        }
    }
}

fn export_capsule<M: Managed>(
    py: Python<'_>,
    tensor: Tensor,
    stream: Option<usize>,
) -> Outcome<Bound<'_, PyAny>> {
    let (data, device) = (address(&tensor)? as *mut c_void, device_of(tensor.device())?);
    let (rank, dtype) = (tensor.rank() as i32, data_type(tensor.dtype()));
    let shape = tensor.dims().iter().map(|&size| size as i64).collect();
    let strides = tensor.layout().strides().iter().map(|&stride| stride as i64).collect();
    let mut context = Box::new(ManagerContext { tensor, stream, shape, strides });
    let (shape, strides) = (context.shape.as_mut_ptr(), context.strides.as_mut_ptr());
    let dl_tensor = DLTensor { data, device, ndim: rank, dtype, shape, strides, byte_offset: 0 };
    let managed = Box::into_raw(Box::new(M::new(dl_tensor, Box::into_raw(context).cast())));
    // SAFETY: the name is static and the pointer is not null; on failure no other reference to it
    // exists.
    unsafe {
        let capsule = ffi::PyCapsule_New(managed.cast(), M::NAME.as_ptr(), Some(destroy_capsule::<M>));
        if capsule.is_null() {
            M::release(managed);
            return Err(PyErr::fetch(py).into());
        }
        Ok(Bound::from_owned_ptr(py, capsule))
    }
}

#[pymethods]
impl PyTensor {
    /// Exports the tensor, with shared memory, to other libraries: `torch.from_dlpack(x)` and
    /// similar functions call this.
    ///
    /// Raises:
    ///     BufferError: the tensor is on a device whose memory cannot be shared, or requires a
    ///         gradient.
    #[pyo3(signature = (*, stream=None, max_version=None, dl_device=None, copy=None))]
    fn __dlpack__<'py>(
        &self,
        py: Python<'py>,
        stream: Option<&Bound<'py, PyAny>>,
        max_version: Option<(u32, u32)>,
        dl_device: Option<(i32, i32)>,
        copy: Option<bool>,
    ) -> Outcome<Bound<'py, PyAny>> {
        let mut tensor = self.tensor();
        if tensor.needs_grad() {
            return Err(PyBufferError::new_err(
                "a tensor that a gradient flows to cannot be shared: detach() it",
            )
            .into());
        }
        let tensor_device = device_of(tensor.device())?;
        if dl_device.is_some_and(|requested| requested != (tensor_device.kind, tensor_device.index)) {
            if dl_device.is_some_and(|(kind, _)| kind != CPU) || copy == Some(false) {
                return Err(PyBufferError::new_err(
                    "the tensor is on another device than the one that was asked for",
                )
                .into());
            }
            let cpu = or_default(py, Some(DeviceArgument::Named("cpu".into())))?;
            tensor = wait(py, || tensor.to_device(&cpu))?;
        } else if copy == Some(true) {
            tensor = wait(py, || tensor.copy())?;
        }
        if tensor.layout().strides().iter().any(|&stride| stride < 0) {
            // PyTorch and JAX do not support negative strides, and their error messages are
            // misleading.
            if copy == Some(false) {
                let message =
                    "the tensor has negative strides, which others do not take: contiguous() copies it";
                return Err(PyBufferError::new_err(message).into());
            }
            tensor = wait(py, || tensor.copy())?;
        }
        let stream = streams::parse_stream(stream)?;
        wait(py, || streams::make_stream_wait(tensor.device(), stream))?;
        if max_version.is_some_and(|(major, _)| major >= 1) {
            return export_capsule::<DLManagedTensorVersioned>(py, tensor, stream);
        }
        export_capsule::<DLManagedTensor>(py, tensor, stream)
    }

    /// Returns the location of the memory in DLPack's terms: a kind (1: CPU, 2: CUDA) and an index.
    fn __dlpack_device__(&self) -> Outcome<(i32, i32)> {
        let DLDevice { kind, index } = device_of(self.tensor().device())?;
        Ok((kind, index))
    }
}

/// A tensor of another library, which is released when this is dropped.
struct OwnedManaged<M: Managed>(NonNull<M>);

// SAFETY: DLPack's deleters may be called from any thread; deleters of Python objects acquire the
// GIL themselves.
unsafe impl<M: Managed> Send for OwnedManaged<M> {}
// SAFETY: only `consume_capsule` reads from it, before it is shared.
unsafe impl<M: Managed> Sync for OwnedManaged<M> {}

impl<M: Managed> Drop for OwnedManaged<M> {
    fn drop(&mut self) {
        // SAFETY: consumed once, from a capsule that was renamed.
        unsafe { M::release(self.0.as_ptr()) }
    }
}

fn consume_capsule<M: Managed + 'static>(capsule: &Bound<'_, PyAny>) -> Outcome<Option<Tensor>> {
    let raw = capsule.as_ptr();
    // SAFETY: the name is checked before the pointer is read, and changed before any other thread
    // can read it: the GIL is held throughout.
    let owned = unsafe {
        if ffi::PyCapsule_IsValid(raw, M::NAME.as_ptr()) != 1 {
            return Ok(None);
        }
        let pointer = ffi::PyCapsule_GetPointer(raw, M::NAME.as_ptr()).cast::<M>();
        let Some(pointer) = NonNull::new(pointer) else { return Ok(None) };
        if ffi::PyCapsule_SetName(raw, M::USED_NAME.as_ptr()) != 0 {
            return Err(PyErr::fetch(capsule.py()).into());
        }
        OwnedManaged(pointer)
    };
    // SAFETY: alive as long as `owned`.
    let managed = unsafe { owned.0.as_ref() };
    let (tensor, is_read_only) = (managed.tensor(), managed.is_read_only());
    let dtype = DType::ALL.into_iter().find(|&dtype| data_type(dtype) == tensor.dtype).ok_or_else(|| {
        let DLDataType { code, bits, lanes } = tensor.dtype;
        RaisedError::type_error(format!(
            "from_dlpack: elements of code {code}, {bits} bits, {lanes} lanes, which no dtype of ternion is"
        ))
    })?;
    let device = match tensor.device {
        DLDevice { kind: CPU | CUDA_HOST, .. } => "cpu".to_owned(),
        DLDevice { kind: CUDA, index } => format!("cuda:{index}"),
        DLDevice { kind, .. } => {
            return Err(RaisedError::value_error(format!(
                "from_dlpack: memory on a device of kind {kind}, expected 1 (the CPU) or 2 (CUDA)"
            )));
        }
    };
    let rank = usize::try_from(tensor.ndim)
        .map_err(|_| RaisedError::value_error("from_dlpack: a negative number of axes"))?;
    // SAFETY: guaranteed by DLPack: `ndim` sizes, and as many strides unless the pointer is null.
    let (shape, strides) = unsafe {
        let sizes = if rank == 0 { &[] } else { std::slice::from_raw_parts(tensor.shape, rank) };
        let strides =
            (rank > 0 && !tensor.strides.is_null()).then(|| std::slice::from_raw_parts(tensor.strides, rank));
        (sizes, strides.map(<[i64]>::to_vec))
    };
    let shape: Vec<usize> = shape.iter().map(|&size| usize::try_from(size).unwrap_or_default()).collect();
    let row_major = ternion::Layout::row_major(ternion::Shape::new(&shape)?);
    let strides = strides.map_or_else(
        || row_major.strides().to_vec(),
        |strides| strides.into_iter().map(|stride| stride as isize).collect(),
    );
    let address = tensor.data as usize + tensor.byte_offset as usize;
    // The address of memory without elements may be null.
    let address = if shape.contains(&0) { 64 } else { address };
    let device = or_default(capsule.py(), Some(DeviceArgument::Named(device)))?;
    // SAFETY: guaranteed by the producer; `owned` owns the memory.
    let shared =
        unsafe { ExternalArray { address, dtype, shape, strides }.tensor(&device, Box::new(owned))? };
    // Read-only memory is copied instead of shared.
    Ok(Some(if is_read_only { wait(capsule.py(), || shared.copy())? } else { shared }))
}

/// Returns a tensor that shares the memory of `object`, which exports it by `__dlpack__`.
pub fn import_tensor(object: &Bound<'_, PyAny>) -> Outcome<Tensor> {
    if object.cast::<PyCapsule>().is_ok() {
        return from_capsule(object);
    }
    let py = object.py();
    let kwargs = PyDict::new(py);
    if let Some(stream) = streams::importer_stream(object)? {
        kwargs.set_item("stream", stream)?;
    }
    let first = kwargs.copy()?;
    kwargs.set_item("max_version", PyTuple::new(py, [1, 0])?)?;
    let capsule = match object.call_method("__dlpack__", (), Some(&kwargs)) {
        // A producer of DLPack's first version does not know this argument.
        Err(error) if error.is_instance_of::<pyo3::exceptions::PyTypeError>(py) => {
            object.call_method("__dlpack__", (), Some(&first))?
        }
        other => other?,
    };
    from_capsule(&capsule)
}

/// Returns a tensor that shares the memory of a capsule, which is consumed.
fn from_capsule(capsule: &Bound<'_, PyAny>) -> Outcome<Tensor> {
    match consume_capsule::<DLManagedTensorVersioned>(capsule)? {
        Some(tensor) => Ok(tensor),
        None => consume_capsule::<DLManagedTensor>(capsule)?.ok_or_else(|| {
            RaisedError::value_error("from_dlpack: a capsule that is none of DLPack, or was taken before")
        }),
    }
}

/// Creates a tensor that shares the memory of `x`, an array of another library with `__dlpack__`,
/// or a capsule that `__dlpack__` returned. A change of one is visible in the other.
///
/// Args:
///     device: the device of the tensor; by default that of `x`.
///     copy: True always copies, False never does.
///
/// Raises:
///     TypeError: `x` has no `__dlpack__`, or has a dtype that Ternion does not support.
///     ValueError: the memory cannot be shared.
///     BufferError: a copy is necessary, and `copy` is False.
#[pyfunction]
#[pyo3(signature = (x, *, device=None, copy=None))]
fn from_dlpack(
    x: &Bound<'_, PyAny>,
    device: Option<DeviceArgument>,
    #[pyo3(from_py_with = of::from_dlpack)] copy: Option<bool>,
) -> Outcome<PyTensor> {
    if !x.hasattr("__dlpack__")? && x.cast::<PyCapsule>().is_err() {
        let kind = x.get_type().name()?.to_string();
        return Err(RaisedError::type_error(format!(
            "from_dlpack: expected an array with __dlpack__, got {kind}"
        )));
    }
    let (py, shared) = (x.py(), import_tensor(x)?);
    let device = device.map_or_else(|| Ok(shared.device().clone()), |device| device.open(py))?;
    if device.is(shared.device()) {
        return Ok(PyTensor::new(if copy == Some(true) { wait(py, || shared.copy())? } else { shared }));
    }
    if copy == Some(false) {
        let (source_device, requested) = (shared.device().name(), device.name());
        let message = format!(
            "from_dlpack: an array on {source_device} for {requested}, which is a copy, and copy is False"
        );
        return Err(PyBufferError::new_err(message).into());
    }
    Ok(PyTensor::new(wait(py, || shared.to_device(&device))?))
}

/// Adds the functions to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(from_dlpack, module)?)
}
