//! Tensors as a file holds them: bytes in the host's memory, without a device.

use safetensors::tensor::{Dtype, View};
use std::borrow::Cow;
use std::collections::BTreeMap;
use ternion_core::{DType, Device, Layout, Result, Shape, Tensor};

/// A tensor's bytes on the host: what a file holds of it.
#[derive(Clone, PartialEq, Eq)]
pub struct HostTensor {
    dtype: DType,
    dims: Vec<usize>,
    /// Row-major, little-endian.
    bytes: Vec<u8>,
}

/// Tensors on the host, by their keys.
pub type HostTensors = BTreeMap<String, HostTensor>;

impl HostTensor {
    /// A copy of what `tensor` is at this moment.
    ///
    /// # Errors
    /// If an earlier op failed on the device.
    pub fn of(tensor: &Tensor) -> Result<HostTensor> {
        let (dtype, mut bytes) = (tensor.dtype(), tensor.to_bytes()?);
        to_or_from_little_endian(&mut bytes, dtype);
        Ok(HostTensor { dtype, dims: tensor.dims().to_vec(), bytes })
    }

    /// A tensor as it stands in a file, whose header was checked: there are as many bytes as the shape needs.
    pub(super) fn from_file(dtype: DType, dims: &[usize], bytes: Vec<u8>) -> HostTensor {
        HostTensor { dtype, dims: dims.to_vec(), bytes }
    }

    /// The dtype.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The size of each axis.
    pub fn dims(&self) -> &[usize] {
        &self.dims
    }

    /// The elements in row-major order, little-endian.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A tensor on `device`.
    ///
    /// # Errors
    /// If there is no memory, or the shape has more axes than a tensor can have.
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

/// Dtype and shape: a model's numbers fill no message.
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

pub(super) fn own_dtype(dtype: Dtype) -> Option<DType> {
    DType::ALL.into_iter().find(|&own| file_dtype(own) == dtype)
}

/// The file is little-endian; tensors are in the machine's byte order.
fn to_or_from_little_endian(bytes: &mut [u8], dtype: DType) {
    if cfg!(target_endian = "big") {
        bytes.chunks_exact_mut(dtype.size()).for_each(<[u8]>::reverse);
    }
}
