//! Values of a view that are copied to the host, and from there to another device.

use crate::backend::{Backend, View};
use crate::dtype::Element;
use crate::dtype::with_element;
use crate::error::{Result, Text};
use crate::op::Op;
use crate::ops::copy::Copy;
use crate::tensor::Tensor;
use crate::text;
use crate::{DType, Device, Layout, Shape, Stats};
use smallvec::SmallVec;

/// The values of a view at one moment, on the host. Repeated elements (stride 0) are stored once.
#[derive(Clone)]
pub(crate) struct Snapshot {
    /// The elements in row-major order of `compact`.
    bytes: Vec<u8>,
    /// The shape of the stored elements: repeated axes have size 1.
    compact: Shape,
    /// The shape of the view.
    pub(crate) shape: Shape,
    pub(super) dtype: DType,
}

impl Snapshot {
    /// Copies `view` to the host. The elements are gathered on the host, so that the result does
    /// not depend on a copy kernel of the device.
    pub(crate) fn of(backend: &dyn Backend, view: &View<'_>) -> Result<Snapshot> {
        Snapshot::read(backend, view, compact_layout(view.layout)?)
    }

    /// Same as [`of`](Snapshot::of), but repeated elements are stored as often as they occur in the
    /// view.
    pub(super) fn dense(backend: &dyn Backend, view: &View<'_>) -> Result<Snapshot> {
        Snapshot::read(backend, view, *view.layout)
    }

    /// Copies the elements of `layout`, which is that of `view` or its compact form.
    fn read(backend: &dyn Backend, view: &View<'_>, layout: Layout) -> Result<Snapshot> {
        let (compact, size) = (*layout.shape(), view.dtype.size());
        let mut bytes = vec![0; compact.elements() * size];
        if layout.is_contiguous() && !bytes.is_empty() {
            backend.download(view.buffer, layout.offset() * size, &mut bytes)?;
        } else if let Some((low, high)) = layout.bounds().filter(|_| !bytes.is_empty()) {
            let mut range = vec![0; (high - low + 1) * size];
            backend.download(view.buffer, low * size, &mut range)?;
            for (element, position) in bytes.chunks_exact_mut(size).zip(layout.positions()) {
                let start = (position - low) * size;
                element.copy_from_slice(&range[start..start + size]);
            }
        }
        Ok(Snapshot { bytes, compact, shape: *view.layout.shape(), dtype: view.dtype })
    }

    /// Copies several views to the host.
    pub(super) fn of_all(backend: &dyn Backend, views: &[View<'_>]) -> Result<Vec<Snapshot>> {
        views.iter().map(|view| Snapshot::of(backend, view)).collect()
    }

    /// Returns a tensor with these values on `device`.
    pub(super) fn on(&self, device: &Device) -> Result<Tensor> {
        let tensor = Tensor::uninitialized(self.compact, self.dtype, device)?;
        if !self.bytes.is_empty() {
            device.backend().upload(&self.bytes, tensor.buffer(), 0)?;
        }
        tensor.expand(self.shape)
    }

    /// Returns the stored values, each once, in row-major order.
    pub(super) fn values(&self) -> Vec<f64> {
        fn convert<T: Element>(bytes: &[u8]) -> Vec<f64> {
            T::from_bytes(bytes).into_iter().map(|value| value.to_scalar().as_f64()).collect()
        }
        with_element!(self.dtype, T => convert::<T>(&self.bytes))
    }

    /// Returns the bytes of the element with index `linear`.
    pub(super) fn element(&self, linear: usize) -> &[u8] {
        let size = self.dtype.size();
        &self.bytes[linear * size..(linear + 1) * size]
    }

    /// Returns the largest finite absolute value, 0 if there is none.
    pub(super) fn largest(&self) -> f64 {
        self.values().into_iter().map(f64::abs).filter(|value| value.is_finite()).fold(0.0, f64::max)
    }

    /// Returns the snapshot with every floating value multiplied by `1 + epsilon` or `1 - epsilon`,
    /// at random (epsilon of the dtype): a perturbation that shows how sensitive an op is.
    pub(super) fn nudged(&self) -> Snapshot {
        fn nudge<T: Element>(bytes: &[u8]) -> Vec<u8> {
            let mut state = 0x9e37_79b9_7f4a_7c15u64;
            let nudged: Vec<T> = T::from_bytes(bytes)
                .into_iter()
                .map(|value| {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let sign = if state >> 63 == 0 { 1.0 } else { -1.0 };
                    T::from_scalar((value.to_scalar().as_f64() * (1.0 + sign * T::DTYPE.epsilon())).into())
                })
                .collect();
            T::to_bytes(&nudged).into_owned()
        }
        let bytes = match self.dtype.is_float() {
            true => with_element!(self.dtype, T => nudge::<T>(&self.bytes)),
            false => self.bytes.clone(),
        };
        Snapshot { bytes, ..*self }
    }

    /// Returns the snapshot with every f32 rounded to 10 bits of mantissa, to nearest, ties away
    /// from zero.
    pub(super) fn in_tf32(&self) -> Snapshot {
        if self.dtype != DType::F32 {
            return self.clone();
        }
        let mut values = f32::from_bytes(&self.bytes);
        for value in values.iter_mut().filter(|value| value.is_finite()) {
            *value = f32::from_bits((value.to_bits() + 0x1000) & !0x1fff);
        }
        Snapshot { bytes: f32::to_bytes(&values).into_owned(), ..*self }
    }

    /// Returns mean, min, max and counts of special values.
    pub(super) fn stats(&self) -> Stats {
        Stats::of(&self.values())
    }

    /// Describes shape and dtype for messages: `[32, 10] f32`.
    pub(super) fn describe(&self) -> Text {
        text![&self.shape, " ", self.dtype]
    }
}

/// Describes several snapshots: `[2, 3] f32, [3] f32`
pub(super) fn describe_all(snapshots: &[Snapshot]) -> Text {
    Text::joined(snapshots.iter().map(Snapshot::describe), ", ")
}

/// Returns `layout` with axes of stride 0 reduced to size 1.
fn compact_layout(layout: &Layout) -> Result<Layout> {
    let mut compact = *layout;
    for (axis, &stride) in layout.strides().iter().enumerate() {
        if stride == 0 && layout.shape().dim(axis) > 1 {
            compact = compact.slice(axis, 0, 1, 1)?;
        }
    }
    Ok(compact)
}

/// Writes the values of `tensor`, which may be on another device, to `view` on `device`.
pub(super) fn write_back(tensor: &Tensor, device: &Device, view: &View<'_>) -> Result<()> {
    let (bytes, backend) = (tensor.to_bytes()?, device.backend());
    if bytes.is_empty() {
        return Ok(());
    }
    if view.layout.is_contiguous() {
        return backend.upload(&bytes, view.buffer, view.layout.offset() * view.dtype.size());
    }
    // There may be elements of other tensors between those of the view, so only a copy on the
    // device can write the view's elements.
    let dense = Tensor::uninitialized(*view.layout.shape(), view.dtype, device)?;
    backend.upload(&bytes, dense.buffer(), 0)?;
    backend.run(&Op::Copy(Copy { dtype: view.dtype }), &[dense.view()], &[*view])
}

/// Runs `op` on `device` with the values of `inputs`, with dispatch: it may be composed there.
pub(super) fn run_on(op: &Op, inputs: &[Snapshot], device: &Device) -> Result<SmallVec<[Tensor; 1]>> {
    let tensors = inputs.iter().map(|input| input.on(device)).collect::<Result<Vec<_>>>()?;
    let handles: Vec<&Tensor> = tensors.iter().collect();
    crate::dispatch::apply_on(op.clone(), device, &handles)
}

/// Returns the multi-dimensional index of the element with row-major index `linear`.
pub(super) fn unravel(linear: usize, shape: &Shape) -> Vec<usize> {
    let mut rest = linear;
    let mut index = vec![0; shape.rank()];
    for axis in (0..shape.rank()).rev() {
        index[axis] = rest % shape.dim(axis);
        rest /= shape.dim(axis);
    }
    index
}
