//! Radix sort of (key, number) pairs, for scattering and for sorting along long axes.

use crate::gpu::{Gpu, Launch};
use crate::names::{RadixStage, SlotName};
use crate::pipelines::Variant;
use crate::shaders::{Class, Shader};
use crate::slots::{Access, StorageFormat};
use crate::space::Space;
use bytemuck::{Pod, Zeroable};
use smallvec::smallvec;
use std::sync::Arc;
use ternion_core::backend::Buffer;
use ternion_core::{Error, Result};

/// Number of pairs whose digits one workgroup counts and moves, as in radix_digits.wgsl.
const TILE: usize = 2048;
/// The number of values of a digit, and the number of its bits.
const DIGITS: usize = 16;
const DIGIT_BITS: u32 = 4;

/// The parameters of radix.wgsl.
#[repr(C)]
#[derive(Clone, Copy, Pod, Zeroable)]
pub(crate) struct Parameters {
    pub(crate) launched: u32,
    pub(crate) length: u32,
    pub(crate) lines: u32,
    pub(crate) tiles: u32,
    pub(crate) shift: u32,
    pub(crate) mask: u32,
    pub(crate) descending: u32,
    pub(crate) rank: u32,
    pub(crate) offsets: [u32; 4],
    pub(crate) steps: [u32; 4],
    pub(crate) space: Space,
}

/// Keys and numbers, `[lines, length]` each, and a second buffer for each. The pass for a digit
/// moves them to the second buffers, which then become the first ones.
pub(crate) struct Pairs {
    pub(crate) lines: usize,
    pub(crate) length: usize,
    pub(crate) keys: Buffer,
    pub(crate) numbers: Buffer,
    other_keys: Buffer,
    other_numbers: Buffer,
}

/// Allocates memory for `words` words. Shaders can index fewer than 2^32 - 1 words.
pub(crate) fn alloc_words(gpu: &Arc<Gpu>, op: &'static str, words: usize) -> Result<Buffer> {
    match u32::try_from(words) {
        Ok(count) if count < u32::MAX => gpu.alloc(words * 4),
        _ => {
            Err(Error::invalid(op, format!("{words} positions, of which shaders count fewer than 2^32 - 1")))
        }
    }
}

impl Pairs {
    pub(crate) fn new(gpu: &Arc<Gpu>, op: &'static str, lines: usize, length: usize) -> Result<Pairs> {
        let words = || alloc_words(gpu, op, lines * length);
        Ok(Pairs {
            lines,
            length,
            keys: words()?,
            numbers: words()?,
            other_keys: words()?,
            other_numbers: words()?,
        })
    }

    pub(crate) fn parameters(&self) -> Parameters {
        Parameters {
            launched: 0,
            length: self.length as u32,
            lines: self.lines as u32,
            tiles: self.length.div_ceil(TILE) as u32,
            shift: 0,
            mask: u32::MAX,
            descending: 0,
            rank: 1,
            offsets: [0; 4],
            steps: [0; 4],
            space: Space::EMPTY,
        }
    }

    /// Sorts by the lower `bits` bits of the keys. The sort is stable.
    pub(crate) fn sort(&mut self, gpu: &Arc<Gpu>, op: &'static str, bits: u32) -> Result<()> {
        let mut parameters = self.parameters();
        let tiles = self.lines * parameters.tiles as usize;
        let counts = gpu.alloc(tiles * DIGITS * 4)?;
        for shift in (0..bits).step_by(DIGIT_BITS as usize) {
            parameters.shift = shift;
            let launch = |stage: RadixStage, slots: &[(SlotName, &Buffer, Access)], groups| {
                launch(
                    gpu,
                    op,
                    Variant::new(Shader::Radix, Class::Byte).fill(stage),
                    slots,
                    groups,
                    &parameters,
                )
            };
            let (read, written) = (Access::Read, Access::Scattered);
            launch(
                RadixStage::CountDigits,
                &[(SlotName::Keys, &self.keys, read), (SlotName::Counts, &counts, written)],
                tiles,
            )?;
            launch(RadixStage::SumDigits, &[(SlotName::Counts, &counts, written)], self.lines)?;
            let moved = [
                (SlotName::Keys, &self.keys, read),
                (SlotName::Numbers, &self.numbers, read),
                (SlotName::Counts, &counts, read),
                (SlotName::SortedKeys, &self.other_keys, written),
                (SlotName::SortedNumbers, &self.other_numbers, written),
            ];
            launch(RadixStage::MoveDigits, &moved, tiles)?;
            std::mem::swap(&mut self.keys, &mut self.other_keys);
            std::mem::swap(&mut self.numbers, &mut self.other_numbers);
        }
        Ok(())
    }
}

/// Queues a stage over buffers of words.
fn launch(
    gpu: &Gpu,
    op: &'static str,
    mut variant: Variant,
    slots: &[(SlotName, &Buffer, Access)],
    groups: usize,
    parameters: &Parameters,
) -> Result<()> {
    let mut bindings = smallvec![];
    for &(name, buffer, access) in slots {
        variant = variant.slot(name, StorageFormat::RawWord, access);
        bindings.push(gpu.workspace(op, buffer)?);
    }
    gpu.launch(op, Launch { variant, bindings, groups }, bytemuck::bytes_of(parameters))
}
