//! The tensor: a layout on a buffer of a device, with its edge in the autograd graph.

use crate::autograd::Edge;
use crate::backend::{Buffer, Meta, View};
use crate::dtype::{DType, Element, Scalar};
use crate::error::{Error, Result};
use crate::{Device, Layout, Shape, text};
use std::sync::Arc;

/// An n-dimensional array on a device. Clones and views share memory; ops return new tensors.
#[derive(Clone)]
pub struct Tensor(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) buffer: Buffer,
    /// Shared with tensors of the same layout: a layout takes three cache lines, and copies would
    /// be a measurable cost.
    pub(crate) layout: Arc<Layout>,
    pub(crate) dtype: DType,
    pub(crate) device: Device,
    pub(crate) edge: Option<Edge>,
}

impl Tensor {
    /// Returns whether this is the only handle to the tensor and the only tensor on its buffer, and
    /// no two of its elements share memory, so that an in-place change is not visible elsewhere.
    pub fn is_sole_owner(&self) -> bool {
        Arc::strong_count(&self.0) == 1 && self.0.buffer.is_sole_handle() && !self.layout().overlaps_itself()
    }

    /// Creates a tensor without history from a buffer of `device`.
    #[inline]
    pub(crate) fn from_parts(
        buffer: Buffer,
        layout: impl Into<Arc<Layout>>,
        dtype: DType,
        device: Device,
    ) -> Tensor {
        Tensor::with_edge(buffer, layout, dtype, device, None)
    }

    #[inline]
    pub(crate) fn with_edge(
        buffer: Buffer,
        layout: impl Into<Arc<Layout>>,
        dtype: DType,
        device: Device,
        edge: Option<Edge>,
    ) -> Tensor {
        Tensor(Arc::new(Inner { buffer, layout: layout.into(), dtype, device, edge }))
    }

    /// Creates a tensor from a buffer that a backend created (for interchange with external
    /// memory).
    ///
    /// # Errors
    /// Returns an error if the layout exceeds the buffer.
    pub fn from_buffer(buffer: Buffer, layout: Layout, dtype: DType, device: &Device) -> Result<Tensor> {
        let end = layout.bounds().map(|(_, high)| if layout.elements() == 0 { 0 } else { high + 1 });
        let fits = end.and_then(|end| dtype.bytes_for(end)).is_some_and(|bytes| bytes <= buffer.bytes());
        if !fits {
            return Err(Error::invalid(
                "from_buffer",
                text![
                    "shape ",
                    layout.shape(),
                    " of ",
                    dtype,
                    format!(" does not fit a buffer of {} bytes", buffer.bytes())
                ],
            ));
        }
        Ok(Tensor::from_parts(buffer, layout, dtype, device.clone()))
    }

    /// Creates a tensor with unspecified contents, for ops that fill it.
    pub(crate) fn uninitialized(shape: Shape, dtype: DType, device: &Device) -> Result<Tensor> {
        let bytes = dtype
            .bytes_for(shape.elements())
            .ok_or_else(|| Error::invalid("alloc", format!("shape {shape:?} is too large")))?;
        let buffer = device.backend().alloc(bytes)?;
        Ok(Tensor::from_parts(buffer, Layout::row_major(shape), dtype, device.clone()))
    }

    /// Creates a tensor with these values in row-major order.
    ///
    /// # Errors
    /// Returns an error if the number of values differs from that of the shape.
    pub fn from_slice<T: Element>(
        values: &[T],
        shape: impl crate::shape::IntoShape,
        device: &Device,
    ) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if values.len() != shape.elements() {
            return Err(Error::invalid(
                "from_slice",
                format!("{} values for shape {shape:?} of {} elements", values.len(), shape.elements()),
            ));
        }
        let tensor = Tensor::uninitialized(shape, T::DTYPE, device)?;
        device.backend().upload(&T::to_bytes(values), tensor.buffer(), 0)?;
        Ok(tensor)
    }

    /// Same as [`from_slice`](Tensor::from_slice).
    ///
    /// # Errors
    /// Returns an error if the number of values differs from that of the shape.
    pub fn from_vec<T: Element>(
        values: Vec<T>,
        shape: impl crate::shape::IntoShape,
        device: &Device,
    ) -> Result<Tensor> {
        Tensor::from_slice(&values, shape, device).map_err(|error| match error {
            crate::Error::Invalid { detail, .. } => crate::Error::invalid("from_vec", detail),
            other => other,
        })
    }

    /// Returns the shape.
    #[inline]
    pub fn shape(&self) -> &Shape {
        self.0.layout.shape()
    }

    /// Returns the sizes as a slice.
    #[inline]
    pub fn dims(&self) -> &[usize] {
        self.0.layout.shape().dims()
    }

    /// Returns the sizes as an array, to name them: `let [batch, width] = x.sizes()?;`
    ///
    /// # Errors
    /// Returns an error if the rank is not `N`.
    pub fn sizes<const N: usize>(&self) -> Result<[usize; N]> {
        self.shape().to_array("sizes")
    }

    /// Returns the number of axes.
    #[inline]
    pub fn rank(&self) -> usize {
        self.shape().rank()
    }

    /// Returns the number of elements.
    #[inline]
    pub fn elements(&self) -> usize {
        self.shape().elements()
    }

    /// Returns the dtype of the elements.
    #[inline]
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the device.
    #[inline]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    /// Returns shape, strides and offset.
    #[inline]
    pub fn layout(&self) -> &Layout {
        &self.0.layout
    }

    /// Returns the buffer.
    #[inline]
    pub fn buffer(&self) -> &Buffer {
        &self.0.buffer
    }

    /// Returns whether the elements are contiguous in row-major order.
    pub fn is_contiguous(&self) -> bool {
        self.0.layout.is_contiguous()
    }

    /// Returns the tensor as a backend sees it.
    #[inline]
    pub fn view(&self) -> View<'_> {
        View { buffer: &self.0.buffer, dtype: self.0.dtype, layout: &self.0.layout }
    }

    #[inline]
    pub(crate) fn meta(&self) -> Meta<'_> {
        Meta { dtype: self.0.dtype, layout: &self.0.layout }
    }

    /// Copies the elements to the host in row-major order.
    ///
    /// # Errors
    /// Returns an error if `T` is not the tensor's dtype, or if an earlier op failed on the device.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        if self.dtype() != T::DTYPE {
            return Err(Error::dtype("to_vec", "tensor", self.dtype(), T::DTYPE));
        }
        Ok(T::from_bytes(&self.to_bytes()?))
    }

    /// Copies the elements to the host in row-major order, converted to f64.
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on the device.
    pub fn to_vec_f64(&self) -> Result<Vec<f64>> {
        fn convert<T: Element>(bytes: &[u8]) -> Vec<f64> {
            T::from_bytes(bytes).into_iter().map(|value| value.to_scalar().as_f64()).collect()
        }
        let bytes = self.to_bytes()?;
        Ok(crate::dtype::with_element!(self.dtype(), T => convert::<T>(&bytes)))
    }

    /// Copies the bytes of the elements to the host in row-major order.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory, or if an earlier op failed on the device.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let dense = crate::autograd::no_grad(|| self.contiguous())?;
        let size = self.dtype().size();
        let mut bytes = host_bytes(dense.elements().saturating_mul(size))?;
        if !bytes.is_empty() {
            self.device().backend().download(dense.buffer(), dense.layout().offset() * size, &mut bytes)?;
        }
        Ok(bytes)
    }

    /// Returns the only element.
    ///
    /// # Errors
    /// Returns an error if there is not exactly one element, or if `T` is not the tensor's dtype.
    pub fn item<T: Element>(&self) -> Result<T> {
        if self.elements() != 1 {
            return Err(Error::invalid(
                "item",
                format!("shape {:?} has {} elements, expected 1", self.shape(), self.elements()),
            ));
        }
        if self.dtype() != T::DTYPE {
            return Err(Error::dtype("item", "tensor", self.dtype(), T::DTYPE));
        }
        Ok(self.to_vec::<T>()?[0])
    }

    /// Returns the only element, converted to f64.
    ///
    /// # Errors
    /// Returns an error if there is not exactly one element.
    pub fn item_f64(&self) -> Result<f64> {
        if self.elements() != 1 {
            return Err(Error::invalid(
                "item",
                format!("shape {:?} has {} elements, expected 1", self.shape(), self.elements()),
            ));
        }
        Ok(self.to_vec_f64()?[0])
    }

    /// Returns this tensor if it is contiguous in row-major order, otherwise a contiguous copy.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// Returns a contiguous copy in new memory.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn copy(&self) -> Result<Tensor> {
        crate::dispatch::apply_one(crate::ops::copy::Copy { dtype: self.dtype() }, &[self])
    }

    /// Converts the values to another dtype. Returns this tensor itself if it already has that
    /// dtype. [`Copy`](crate::ops::copy::Copy) describes the conversions.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory.
    pub fn to_dtype(&self, dtype: DType) -> Result<Tensor> {
        if dtype == self.dtype() {
            Ok(self.clone())
        } else {
            crate::dispatch::apply_one(crate::ops::copy::Copy { dtype }, &[self])
        }
    }

    /// Copies the values to another device. Returns this tensor itself if that is its device.
    /// Gradients flow back to the source device.
    ///
    /// # Errors
    /// Returns an error if there is not enough memory on that device, or if an earlier op failed on
    /// either device.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        if self.device().is(device) {
            return Ok(self.clone());
        }
        let bytes = self.to_bytes()?;
        let moved = Tensor::uninitialized(*self.shape(), self.dtype(), device)?;
        device.backend().upload(&bytes, moved.buffer(), 0)?;
        crate::autograd::record_transfer(self, moved)
    }

    /// Overwrites this tensor with the values of `source`, broadcast to its shape and converted to
    /// its dtype.
    ///
    /// # Errors
    /// Returns an error if shapes are incompatible, if this tensor overlaps itself, or if gradients
    /// would be lost (see [`apply_into`](crate::dispatch::apply_into)).
    pub fn copy_(&self, source: &Tensor) -> Result<()> {
        crate::dispatch::apply_into(crate::ops::copy::Copy { dtype: self.dtype() }, &[source], self)
    }

    /// Overwrites every element with `value`.
    ///
    /// # Errors
    /// Same as [`copy_`](Tensor::copy_).
    pub fn fill_(&self, value: impl Into<Scalar>) -> Result<()> {
        let op = crate::ops::create::Fill { shape: *self.shape(), dtype: self.dtype(), value: value.into() };
        crate::dispatch::apply_into(op, &[], self)
    }
}

/// Creates a list of `count` values in host memory, with `value(index)` for each index. Use it if a
/// user chooses the length, which may exceed the memory.
///
/// # Errors
/// Returns an error if there is not enough memory.
pub fn host_values<T>(count: usize, value: impl FnMut(usize) -> T) -> Result<Vec<T>> {
    let mut values = Vec::new();
    if values.try_reserve_exact(count).is_err() {
        return Err(Error::host_memory(count.saturating_mul(size_of::<T>())));
    }
    values.extend((0..count).map(value));
    Ok(values)
}

/// Allocates zeros in host memory.
fn host_bytes(count: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(count).is_err() {
        return Err(Error::host_memory(count));
    }
    bytes.resize(count, 0);
    Ok(bytes)
}
