//! The smallest backend that passes the op table. It implements only the primitives, as plain loops
//! over `f64` and `i128`.
//!
//! Read this file from the top: memory, the required methods of a backend, elements. Then read
//! `primitives.rs`, which has one function for each primitive. Every op reads all elements of its
//! inputs, computes, and writes all elements of its outputs. Only [`read`] and [`write`] handle
//! strides. The backend is slow because it is written to be simple.

mod primitives;

use primitives::{compute, real_unary, whole_unary};
use std::sync::atomic::AtomicU64;
use std::sync::{Mutex, MutexGuard, PoisonError};
use ternion_core::backend::{Backend, Buffer, Memory, MemoryStats, Meta, Plan, Unsupported, View};
use ternion_core::op::Op;
use ternion_core::{DType, Device, Element, Error, Result, Scalar, Shape};

// ---------------------------------------------------------------- memory

/// A buffer in host memory: bytes behind a lock.
#[derive(Debug)]
struct Bytes {
    bytes: Mutex<Vec<u8>>,
    length: usize,
    version: AtomicU64,
}

impl Bytes {
    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.bytes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory for Bytes {
    fn bytes(&self) -> usize {
        self.length
    }
    fn version_counter(&self) -> &AtomicU64 {
        &self.version
    }
}

fn bytes_of<'a>(op: &'static str, buffer: &'a Buffer) -> Result<&'a Bytes> {
    buffer.downcast().ok_or_else(|| Error::invalid(op, "the buffer belongs to another backend"))
}

// ---------------------------------------------------------------- required methods of a backend

/// A backend that runs every primitive as a plain loop.
#[derive(Debug)]
pub struct Smallest;

/// Returns a device that runs on [`Smallest`].
pub fn device() -> Device {
    Device::new(Smallest)
}

impl Backend for Smallest {
    fn name(&self) -> &str {
        "smallest"
    }

    fn alloc(&self, bytes: usize) -> Result<Buffer> {
        Ok(Buffer::new(Bytes {
            bytes: Mutex::new(vec![0; bytes]),
            length: bytes,
            version: AtomicU64::new(0),
        }))
    }

    fn upload(&self, host: &[u8], to: &Buffer, offset_bytes: usize) -> Result<()> {
        let mut bytes = bytes_of("upload", to)?.lock();
        let place = bytes.get_mut(offset_bytes..).and_then(|rest| rest.get_mut(..host.len()));
        place.ok_or_else(|| Error::invalid("upload", "the bytes leave the buffer"))?.copy_from_slice(host);
        Ok(())
    }

    fn download(&self, from: &Buffer, offset_bytes: usize, host: &mut [u8]) -> Result<()> {
        let bytes = bytes_of("download", from)?.lock();
        let place = bytes.get(offset_bytes..).and_then(|rest| rest.get(..host.len()));
        host.copy_from_slice(place.ok_or_else(|| Error::invalid("download", "the bytes leave the buffer"))?);
        Ok(())
    }

    fn plan(&self, op: &Op, inputs: &[Meta<'_>]) -> Result<Plan, Unsupported> {
        let has_loop = match op {
            Op::Unary(unary) if inputs[0].dtype.is_float() => real_unary(unary.op).is_some(),
            Op::Unary(unary) => whole_unary(unary.op).is_some(),
            other => other.is_primitive(),
        };
        match has_loop {
            true => Ok(Plan::ROW_MAJOR),
            false => Err(Unsupported::because("only primitives run here")),
        }
    }

    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        let values = inputs.iter().map(|view| read(op, view)).collect::<Result<Vec<Values>>>()?;
        let shapes: Vec<Shape> = inputs.iter().map(|view| *view.layout.shape()).collect();
        let results = compute(op, &values, &shapes, outputs[0].layout.shape())?;
        results.into_iter().zip(outputs).try_for_each(|(result, view)| write(op, view, &result))
    }

    fn synchronize(&self) -> Result<()> {
        Ok(())
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }
}

// ---------------------------------------------------------------- elements

/// The elements of a tensor in row-major order. Integers and bools are stored exactly.
#[derive(Clone, Debug)]
enum Values {
    Real(Vec<f64>),
    /// Integers and bools. `i128` contains the ranges of both `i64` and `u64`.
    Whole(Vec<i128>),
}
use Values::{Real, Whole};

/// Runs `$body` with `$element` as the host type of `$dtype`.
macro_rules! with_element {
    ($dtype:expr, $element:ident => $body:expr) => {
        match $dtype {
            DType::F64 => {
                type $element = f64;
                $body
            }
            DType::F32 => {
                type $element = f32;
                $body
            }
            DType::F16 => {
                type $element = half::f16;
                $body
            }
            DType::BF16 => {
                type $element = half::bf16;
                $body
            }
            DType::I64 => {
                type $element = i64;
                $body
            }
            DType::I32 => {
                type $element = i32;
                $body
            }
            DType::I16 => {
                type $element = i16;
                $body
            }
            DType::I8 => {
                type $element = i8;
                $body
            }
            DType::U64 => {
                type $element = u64;
                $body
            }
            DType::U32 => {
                type $element = u32;
                $body
            }
            DType::U16 => {
                type $element = u16;
                $body
            }
            DType::U8 => {
                type $element = u8;
                $body
            }
            DType::Bool => {
                type $element = bool;
                $body
            }
        }
    };
}

use with_element;

fn read(op: &Op, view: &View<'_>) -> Result<Values> {
    let bytes = bytes_of(op.name(), view.buffer)?.lock();
    let positions = view.layout.positions();
    Ok(with_element!(view.dtype, E => {
        let buffer = E::from_bytes(&bytes);
        let scalars = positions.map(|position| buffer[position].to_scalar());
        match view.dtype.is_float() {
            true => Real(scalars.map(Scalar::as_f64).collect()),
            false => Whole(scalars.map(Scalar::as_i128).collect()),
        }
    }))
}

fn write(op: &Op, view: &View<'_>, values: &Values) -> Result<()> {
    let mut bytes = bytes_of(op.name(), view.buffer)?.lock();
    let size = view.dtype.size();
    for (index, position) in view.layout.positions().enumerate() {
        let scalar = match values {
            Real(values) => Scalar::Float(values[index]),
            Whole(values) => wrapped(values[index], view.dtype),
        };
        let element = &mut bytes[position * size..(position + 1) * size];
        with_element!(view.dtype, E => element.copy_from_slice(&E::to_bytes(&[E::from_scalar(scalar)])));
    }
    Ok(())
}

/// Converts a value to a scalar of an integer dtype or bool. Integers wrap: only the low bits that
/// fit in `dtype` are kept.
fn wrapped(value: i128, dtype: DType) -> Scalar {
    match dtype {
        DType::I64 => (value as i64).into(),
        DType::I32 => (value as i32).into(),
        DType::I16 => (value as i16).into(),
        DType::I8 => (value as i8).into(),
        DType::U64 => (value as u64).into(),
        DType::U32 => (value as u32).into(),
        DType::U16 => (value as u16).into(),
        DType::U8 => (value as u8).into(),
        _ => Scalar::Bool(value != 0),
    }
}

impl Values {
    fn real(&self) -> Vec<f64> {
        match self {
            Real(values) => values.clone(),
            Whole(values) => values.iter().map(|&value| value as f64).collect(),
        }
    }

    fn whole(&self) -> Vec<i128> {
        match self {
            Real(values) => values.iter().map(|&value| value as i128).collect(),
            Whole(values) => values.clone(),
        }
    }

    /// Returns the values at `positions`.
    fn pick(&self, positions: &[usize]) -> Values {
        match self {
            Real(values) => Real(positions.iter().map(|&position| values[position]).collect()),
            Whole(values) => Whole(positions.iter().map(|&position| values[position]).collect()),
        }
    }

    fn at(&self, position: usize) -> Scalar {
        match self {
            Real(values) => Scalar::Float(values[position]),
            // The values were read from a tensor, so each is in the range of `i64` or of `u64`.
            Whole(values) => {
                u64::try_from(values[position]).map_or(Scalar::Int(values[position] as i64), Scalar::from)
            }
        }
    }
}
