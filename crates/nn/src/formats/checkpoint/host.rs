//! Tensors as stored in a file: bytes in host memory, without a device.

use safetensors::tensor::{Dtype, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use ternion_core::{DType, Device, Layout, Result, Shape, Tensor};

/// A tensor in host memory, as stored in a file: dtype, shape and bytes.
#[derive(Clone, PartialEq, Eq)]
pub struct HostTensor {
    dtype: DType,
    dims: Vec<usize>,
    /// Row-major, little-endian.
    bytes: Vec<u8>,
}

/// Tensors in host memory, by their keys.
pub type HostTensors = BTreeMap<String, HostTensor>;

impl HostTensor {
    /// Copies the current values of `tensor`.
    ///
    /// # Errors
    /// Returns an error if an earlier op failed on the device.
    pub fn of(tensor: &Tensor) -> Result<HostTensor> {
        let (dtype, mut bytes) = (tensor.dtype(), tensor.to_bytes()?);
        to_or_from_little_endian(&mut bytes, dtype);
        Ok(HostTensor { dtype, dims: tensor.dims().to_vec(), bytes })
    }

    /// Creates a tensor from file content. The header was checked: the number of bytes fits the
    /// shape.
    pub(super) fn from_file(dtype: DType, dims: &[usize], bytes: Vec<u8>) -> HostTensor {
        HostTensor { dtype, dims: dims.to_vec(), bytes }
    }

    /// Returns the dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the size of each axis.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// Returns the elements in row-major order, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Copies the tensor to `device`.
    ///
    /// # Errors
    /// Returns an error if memory is exhausted, or if the shape has more axes than a tensor
    /// supports.
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        let shape = Shape::new(&self.dims)?;
        let buffer = device.backend().alloc(self.bytes.len())?;
        let bytes = match cfg!(target_endian = "big") {
            true => {
                let mut bytes = self.bytes.clone();
                to_or_from_little_endian(&mut bytes, self.dtype);
                Cow::Owned(bytes)
            }
            false => Cow::Borrowed(&self.bytes),
        };
        device.backend().upload(&bytes, &buffer, 0)?;
        Tensor::from_buffer(buffer, Layout::row_major(shape), self.dtype, device)
    }
}

/// Prints dtype and shape, not the values, which would fill the message.
impl std::fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostTensor({} {:?})", self.dtype, self.dims)
    }
}

impl View for &HostTensor {
    fn dtype(&self) -> Dtype {
        file_dtype(self.dtype)
    }
    fn shape(&self) -> &[usize] {
        &self.dims
    }
    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }
    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}

fn file_dtype(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::F16 => Dtype::F16,
        DType::BF16 => Dtype::BF16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::I16 => Dtype::I16,
        DType::I8 => Dtype::I8,
        DType::U64 => Dtype::U64,
        DType::U32 => Dtype::U32,
        DType::U16 => Dtype::U16,
        DType::U8 => Dtype::U8,
        DType::Bool => Dtype::BOOL,
    }
}

pub(super) fn ternion_dtype(dtype: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&ternion| file_dtype(ternion) == dtype)
}

/// Converts between the byte order of files (little-endian) and the byte order of tensors (the
/// machine's).
fn to_or_from_little_endian(bytes: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
}
