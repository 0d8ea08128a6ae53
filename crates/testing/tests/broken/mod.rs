//! A device with one wrong op, for the tests of device comparison. This file has no tests.

use ternion_core::{Backend, Device, Element, Layout, Op, Result, View};

/// What is wrong with the first output of the op.
#[allow(dead_code, reason = "each test program has its own copy, and needs some of them")]
#[derive(Clone, Copy, Debug)]
pub enum Wrong {
    /// Every element is too large by this factor.
    Times(f64),
    /// The last element is off by a thousandth of itself and a small constant.
    LastElementOff,
}

#[derive(Debug)]
struct Broken {
    inner: Device,
    op: &'static str,
    wrong: Wrong,
}

/// Returns a device like `inner`, with the same name, on which `op` is wrong.
pub fn broken(inner: &Device, op: &'static str, wrong: Wrong) -> Device {
    Device::new(Broken { inner: inner.clone(), op, wrong })
}

impl Broken {
    /// Reads and writes outputs of f32, f64 and half precision as f64.
    fn tamper(&self, output: &View<'_>) -> Result<()> {
        match output.dtype {
            ternion_core::DType::F64 => self.tamper_as::<f64>(output),
            ternion_core::DType::F32 => self.tamper_as::<f32>(output),
            ternion_core::DType::F16 => self.tamper_as::<half::f16>(output),
            ternion_core::DType::BF16 => self.tamper_as::<half::bf16>(output),
            _ => Ok(()),
        }
    }

    fn tamper_as<T: Element>(&self, output: &View<'_>) -> Result<()> {
        let positions: Vec<usize> = Layout::positions(output.layout).collect();
        let size = output.dtype.size();
        let mut bytes = vec![0; output.buffer.bytes()];
        self.inner.backend().download(output.buffer, 0, &mut bytes)?;
        for (index, position) in positions.iter().enumerate() {
            let byte_range = position * size..(position + 1) * size;
            let value = T::from_bytes(&bytes[byte_range.clone()])[0].to_scalar().as_f64();
            let changed = match self.wrong {
                Wrong::Times(factor) => value * factor,
                Wrong::LastElementOff if index + 1 == positions.len() => value + 1e-3 * (value.abs() + 0.1),
                Wrong::LastElementOff => value,
            };
            bytes[byte_range].copy_from_slice(&T::to_bytes(&[T::from_scalar(changed.into())]));
        }
        self.inner.backend().upload(&bytes, output.buffer, 0)
    }
}

impl Backend for Broken {
    ternion_core::delegate_backend!(inner: alloc, upload, download, plan, synchronize, memory);

    fn name(&self) -> &str {
        self.inner.name()
    }
    fn run(&self, op: &Op, inputs: &[View<'_>], outputs: &[View<'_>]) -> Result<()> {
        self.inner.backend().run(op, inputs, outputs)?;
        if op.name() == self.op { self.tamper(&outputs[0]) } else { Ok(()) }
    }
}
