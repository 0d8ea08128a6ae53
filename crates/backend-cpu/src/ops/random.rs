//! Random bits, uniform and normal values from Philox4x32-10 (Salmon et al. 2011).

use crate::access::Locked;
use crate::elementwise::{Operand, map0};
use crate::kernel::Variant;
use crate::threads::Cost;
use ternion_core::backend::{Meta, Plan, Unsupported};
use ternion_core::ops::random::{Normal, RandomBits, Uniform};
use ternion_core::philox;
use ternion_core::{DType, Error, Op, Result};

/// Supports every call.
pub(crate) fn select_random_bits(_: &RandomBits, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_random_bits })
}

fn run_random_bits(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::RandomBits(payload) = op else { return Err(Error::invalid(op.name(), "is not random_bits")) };
    let (stream, shift) = (Stream::new(inputs[0], payload.offset), 32 - u32::from(payload.bits));
    map0(Cost::Heavy, Operand::<i32>::new("random_bits", outputs[0])?, &|start, block: &mut [i32]| {
        stream.fill(start, block, |word| (word >> shift) as i32);
    });
    Ok(())
}

/// Supports f32 and f64.
pub(crate) fn select_uniform(_: &Uniform, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_uniform })
}

fn run_uniform(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Uniform(payload) = op else { return Err(Error::invalid(op.name(), "is not uniform")) };
    let stream = Stream::new(inputs[0], payload.offset);
    match payload.dtype {
        DType::F64 => {
            map0(Cost::Heavy, Operand::<f64>::new("uniform", outputs[0])?, &|start, block: &mut [f64]| {
                stream.fill(start, block, |word| f64::from(word >> 8) * 2f64.powi(-24));
            });
        }
        _ => map0(Cost::Heavy, Operand::<f32>::new("uniform", outputs[0])?, &|start, block: &mut [f32]| {
            stream.fill(start, block, |word| (word >> 8) as f32 * 2f32.powi(-24));
        }),
    }
    Ok(())
}

/// Supports f32 and f64.
pub(crate) fn select_normal(_: &Normal, _: &[Meta<'_>]) -> Result<Variant, Unsupported> {
    Ok(Variant { plan: Plan::ROW_MAJOR, run: run_normal })
}

fn run_normal(op: &Op, inputs: &[Locked<'_>], outputs: &[Locked<'_>]) -> Result<()> {
    let Op::Normal(payload) = op else { return Err(Error::invalid(op.name(), "is not normal")) };
    let stream = Stream::new(inputs[0], payload.offset);
    match payload.dtype {
        DType::F64 => {
            map0(Cost::Heavy, Operand::<f64>::new("normal", outputs[0])?, &|start, block: &mut [f64]| {
                stream.fill_pairs(start, block, normal);
            });
        }
        _ => map0(Cost::Heavy, Operand::<f32>::new("normal", outputs[0])?, &|start, block: &mut [f32]| {
            stream.fill_pairs(start, block, |first, second| normal(first, second) as f32);
        }),
    }
    Ok(())
}

/// Returns a standard normal value by the method of Box and Muller (1958): `sqrt(-2 ln u) * cos(2
/// pi v)`.
fn normal(first: u32, second: u32) -> f64 {
    let u = f64::from((first >> 8) + 1) * 2f64.powi(-24);
    let v = f64::from(second >> 8) * 2f64.powi(-24);
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// The random words of one op.
#[derive(Clone, Copy)]
pub(crate) struct Stream {
    seed: u64,
    first_block: u64,
}

impl Stream {
    /// Returns the stream of `[seed, base]`, from block `base + offset` on.
    pub(crate) fn new(state: Locked<'_>, offset: u64) -> Stream {
        let (first, stride) = (state.first().cast::<i64>(), state.layout.strides()[0]);
        // SAFETY: core has checked that the state is i64 and has two elements.
        let (seed, base) = unsafe { (first.read(), first.offset(stride).read()) };
        Stream { seed: seed as u64, first_block: (base as u64).wrapping_add(offset) }
    }

    /// Returns the four words of block `index`.
    #[inline]
    pub(crate) fn block(&self, index: usize) -> [u32; 4] {
        philox::block(self.seed, self.first_block.wrapping_add(index as u64))
    }

    /// Computes `values[i] = make(word[start + i])`.
    fn fill<T>(&self, start: usize, values: &mut [T], make: impl Fn(u32) -> T) {
        let mut words = self.block(start / 4);
        for (value, word) in values.iter_mut().zip(start..) {
            if word % 4 == 0 {
                words = self.block(word / 4);
            }
            *value = make(words[word % 4]);
        }
    }

    /// Computes `values[i] = make(word[2 (start + i)], word[2 (start + i) + 1])`.
    fn fill_pairs<T>(&self, start: usize, values: &mut [T], make: impl Fn(u32, u32) -> T) {
        for (value, pair) in values.iter_mut().zip(start..) {
            let words = self.block(pair / 2);
            let at = pair % 2 * 2;
            *value = make(words[at], words[at + 1]);
        }
    }
}
