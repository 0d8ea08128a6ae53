//! Kernels of ops from other crates: registered by the op's type, run on slices, and written
//! without `unsafe`.

use crate::access::Locked;
use crate::kernel::Variant;
use crate::memory::zeros;
use crate::ops::copy::copy_view;
use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock};
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::custom::{Custom, CustomOp};
use ternion_core::{DType, Element, Error, Layout, Op, Result, Shape};

/// Defines how the CPU runs a [`CustomOp`] of type [`Op`](CpuKernel::Op). Without a kernel, the
/// op's composition runs.
pub trait CpuKernel: Send + Sync + 'static {
    /// The op that this kernel computes.
    type Op: CustomOp + 'static;

    /// (optional) Checks whether the kernel supports these inputs. Default: yes.
    ///
    /// # Errors
    /// [`Unsupported`] with the reason: the op is then composed.
    fn supports(&self, op: &Self::Op, inputs: &[Meta<'_>]) -> Result<(), Unsupported> {
        let _ = (op, inputs);
        Ok(())
    }

    /// Computes the outputs, whose shapes and dtypes are those that the op's `infer` returned.
    ///
    /// # Errors
    /// Faults that can be detected only in the data.
    fn run(&self, op: &Self::Op, inputs: &[CpuInput<'_>], outputs: &mut [CpuOutput<'_>]) -> Result<()>;
}

/// Registers `kernel` for ops of type `K::Op` on every CPU device of this process. A later
/// registration for the same op replaces an earlier one.
pub fn register_custom_kernel<K: CpuKernel>(kernel: K) {
    let erased: Arc<dyn ErasedKernel> = Arc::new(kernel);
    kernels().write().unwrap_or_else(PoisonError::into_inner).insert(TypeId::of::<K::Op>(), erased);
}

type Kernels = RwLock<HashMap<TypeId, Arc<dyn ErasedKernel>>>;

fn kernels() -> &'static Kernels {
    static KERNELS: std::sync::OnceLock<Kernels> = std::sync::OnceLock::new();
    KERNELS.get_or_init(Kernels::default)
}

/// A [`CpuKernel`] whose op's type is known only at run time.
trait ErasedKernel: Send + Sync {
    fn supports(&self, op: &dyn Any, inputs: &[Meta<'_>]) -> Result<(), Unsupported>;
    fn run(&self, op: &dyn Any, inputs: &[CpuInput<'_>], outputs: &mut [CpuOutput<'_>]) -> Result<()>;
}

impl<K: CpuKernel> ErasedKernel for K {
    fn supports(&self, op: &dyn Any, inputs: &[Meta<'_>]) -> Result<(), Unsupported> {
        match op.downcast_ref() {
            Some(op) => CpuKernel::supports(self, op, inputs),
            None => Err(Unsupported::because("the op is not the one that the kernel was registered for")),
        }
    }

    fn run(&self, op: &dyn Any, inputs: &[CpuInput<'_>], outputs: &mut [CpuOutput<'_>]) -> Result<()> {
        match op.downcast_ref() {
            Some(op) => CpuKernel::run(self, op, inputs, outputs),
            None => Err(Error::invalid("custom", "the op is not the one that the kernel was registered for")),
        }
    }
}

fn kernel_of(op: &Custom) -> Option<Arc<dyn ErasedKernel>> {
    let kernels = kernels().read().unwrap_or_else(PoisonError::into_inner);
    kernels.get(&op.0.as_any().type_id()).cloned()
}

/// Selects ops with a registered kernel that supports the inputs.
pub(crate) fn select_custom(op: &Custom, inputs: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    match kernel_of(op) {
        Some(kernel) => kernel.supports(op.0.as_any(), inputs)?,
        None => return Err(Unsupported::because("no kernel is registered for this op")),
    }
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_custom })
}

fn run_custom(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let name = op.name();
    let Op::Custom(custom) = op else { return Err(Error::invalid(name, "is not a custom op")) };
    let kernel = kernel_of(custom).ok_or_else(|| Error::invalid(name, "its kernel is gone"))?;
    let mut cpu_outputs: Vec<CpuOutput<'_>> = outputs
        .iter()
        .map(|&view| {
            let shared = inputs.iter().any(|input| input.shares_buffer(&view));
            CpuOutput { view, shared, is_zeroed: false, staging: None, marker: PhantomData }
        })
        .collect();
    let views: Vec<CpuInput<'_>> = inputs.iter().map(|&view| CpuInput { view }).collect();
    kernel.run(custom.0.as_any(), &views, &mut cpu_outputs)?;
    cpu_outputs.into_iter().try_for_each(CpuOutput::store)
}

fn check_type<T: Element>(view: &Locked<'_>) -> Result<()> {
    if view.dtype == T::DTYPE {
        return Ok(());
    }
    Err(Error::dtype("custom", "tensor", view.dtype, T::DTYPE))
}

/// Returns the bytes of a view's elements in row-major order.
fn dense_bytes(view: &Locked<'_>) -> Result<Vec<u8>> {
    // Entire words, so that the bytes are aligned for every dtype.
    let bytes = view.dtype.bytes_for(view.layout.elements()).unwrap_or(usize::MAX);
    let mut words = zeros::<u64>(bytes.div_ceil(8))?;
    let layout = Layout::row_major(*view.layout.shape());
    copy_view(*view, Locked::of_words(&mut words, view.dtype, &layout))?;
    Ok(bytemuck::cast_slice(&words)[..bytes].to_vec())
}

/// A tensor that a custom kernel reads.
pub struct CpuInput<'a> {
    view: Locked<'a>,
}

impl CpuInput<'_> {
    /// Returns the sizes.
    pub fn shape(&self) -> &Shape {
        self.view.layout.shape()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// Returns the elements in row-major order. They are copied only if they are not contiguous, or
    /// if `T` is `bool`.
    ///
    /// # Errors
    /// If `T` is not the tensor's dtype.
    pub fn values<T: Element>(&self) -> Result<Cow<'_, [T]>> {
        check_type::<T>(&self.view)?;
        if T::DTYPE == DType::Bool || !self.view.layout.is_contiguous() {
            return Ok(Cow::Owned(T::from_bytes(&dense_bytes(&self.view)?)));
        }
        // SAFETY: contiguous, locked, of this type, for which all bits are a valid value (bool was
        // handled above). Slices of outputs on the same buffer are never returned (see
        // `CpuOutput::values_mut`).
        Ok(Cow::Borrowed(unsafe {
            std::slice::from_raw_parts(self.view.first().cast(), self.view.layout.elements())
        }))
    }
}

/// A tensor that a custom kernel writes.
pub struct CpuOutput<'a> {
    view: Locked<'a>,
    /// Whether an input uses the same buffer.
    shared: bool,
    /// Whether new memory has been filled with zeros.
    is_zeroed: bool,
    staging: Option<Staging>,
    marker: PhantomData<&'a mut [u8]>,
}

/// Values that are stored separately from the output, and a function that returns their bytes.
struct Staging {
    values: Box<dyn Any>,
    bytes: fn(&dyn Any) -> Vec<u8>,
}

impl CpuOutput<'_> {
    /// Returns the sizes.
    pub fn shape(&self) -> &Shape {
        self.view.layout.shape()
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.view.dtype
    }

    /// Returns the elements in row-major order. New memory is filled with zeros. If the op's role
    /// says that the output uses an input's memory, the values are the input's.
    ///
    /// # Errors
    /// If `T` is not the tensor's dtype.
    pub fn values_mut<T: Element>(&mut self) -> Result<&mut [T]> {
        check_type::<T>(&self.view)?;
        let elements = self.view.layout.elements();
        if !self.shared && T::DTYPE != DType::Bool && self.view.layout.is_contiguous() {
            let first = self.view.first().cast::<T>();
            // SAFETY: contiguous, locked for writing, of this type, for which zero bytes are a
            // valid value; no input uses the buffer, and `self` is borrowed while the slice lives.
            return Ok(unsafe {
                if !std::mem::replace(&mut self.is_zeroed, true) {
                    first.write_bytes(0, elements);
                }
                std::slice::from_raw_parts_mut(first, elements)
            });
        }
        if self.staging.is_none() {
            let values: Vec<T> = match self.shared {
                true => T::from_bytes(&dense_bytes(&self.view)?),
                false => vec![T::from_scalar(ternion_core::Scalar::Int(0)); elements],
            };
            self.staging = Some(Staging { values: Box::new(values), bytes: bytes_of::<T> });
        }
        let staged = self.staging.as_mut().and_then(|staging| staging.values.downcast_mut::<Vec<T>>());
        staged
            .map(Vec::as_mut_slice)
            .ok_or_else(|| Error::invalid("custom", "an output is written as two types"))
    }

    /// Copies staged values to the output.
    fn store(self) -> Result<()> {
        let Some(staging) = self.staging else { return Ok(()) };
        let bytes = (staging.bytes)(&*staging.values);
        let mut words = vec![0u64; bytes.len().div_ceil(8)];
        bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(&bytes);
        let layout = Layout::row_major(*self.view.layout.shape());
        copy_view(Locked::of_words(&mut words, self.view.dtype, &layout), self.view)
    }
}

fn bytes_of<T: Element>(values: &dyn Any) -> Vec<u8> {
    values.downcast_ref::<Vec<T>>().map_or_else(Vec::new, |values| T::to_bytes(values).into_owned())
}
