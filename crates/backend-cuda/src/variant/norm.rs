//! Variants of the normalizations of rows and of channels, and of their gradients.

use super::rows::{Packing, RowStorage, Rows, Team};
use ternion_core::DType;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum NormVariant {
    /// `centered`: true for layer normalization, false for RMS normalization. `y`: the dtype of the
    /// output.
    Forward { centered: bool, rows: Rows, dtype: DType, y: DType },
    /// `dy`: the dtype of the output's gradient.
    Grad { centered: bool, rows: Rows, dtype: DType, dy: DType },
    /// Gradients of the parameters, and the sums of their partial results.
    Sums(DType),
}

/// `pack`: elements of a pack.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BatchNormVariant {
    pub(crate) pack: u8,
    pub(crate) dtype: DType,
}

/// Returns the teams of the normalization.
pub(crate) fn teams(dtype: DType, packing: Packing) -> &'static [Team] {
    match (packing, dtype) {
        (Packing::Masked, _) => &[],
        (Packing::Whole, DType::F32) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(8, 4) },
            const { Team::registers(32, 4) },
            const { Team::registers(32, 8) },
            const { Team::registers(128, 4) },
            const { Team::registers(128, 8) },
            const { Team::registers(256, 8) },
            const { Team::registers(512, 8) },
        ],
        (Packing::Whole, _) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(8, 4) },
            const { Team::registers(32, 2) },
            const { Team::registers(32, 4) },
            const { Team::registers(128, 2) },
            const { Team::registers(128, 4) },
            const { Team::registers(256, 4) },
            const { Team::registers(512, 4) },
        ],
        (Packing::Single, _) => &[const { Team::registers(32, 8) }, Team::LONGEST],
    }
}

/// Returns the teams of the gradient. Teams that keep rows in registers also compute the sums for
/// the parameters. Longer rows are read once more for these sums, by another kernel.
pub(crate) fn grad_teams(dtype: DType, packing: Packing) -> &'static [Team] {
    match (packing, dtype) {
        (Packing::Masked, _) => &[],
        (Packing::Whole, DType::F32) => &[
            const { Team::registers(16, 2) },
            const { Team::registers(32, 4) },
            const { Team::registers(64, 4) },
            const { Team::registers(256, 2) },
            const { Team::registers(512, 2) },
            const { Team::registers(512, 4) },
        ],
        (Packing::Whole, _) => &[
            const { Team::registers(16, 2) },
            const { Team::registers(32, 2) },
            const { Team::registers(64, 2) },
            const { Team::registers(128, 2) },
            const { Team::registers(512, 1) },
            const { Team::registers(512, 2) },
        ],
        (Packing::Single, _) => &[const { Team::registers(32, 4) }, Team::LONGEST],
    }
}

/// Returns whether there are kernels for rows of `dtype` with outputs, or their gradients, of dtype
/// `other`: f32 in whole packs, together with half precision.
pub(crate) fn mixes(dtype: DType, packing: Packing, other: DType) -> bool {
    dtype == DType::F32 && packing == Packing::Whole && other.is_half()
}

/// Returns the rows that a team processes together in the gradient's kernel, `ROWS_PER_ITERATION`
/// there. Half precision has twice the work per byte, so two of its rows share the exchange of
/// their sums; with one row the kernel would be limited by that latency, not by memory.
pub(crate) fn rows_together(rows: &Rows, dtype: DType) -> usize {
    let is_half = dtype.size() == 2 && rows.packing == Packing::Whole;
    if is_half && rows.team.storage == RowStorage::Registers && rows.team.threads() >= 32 { 2 } else { 1 }
}

pub(super) fn variants() -> Vec<NormVariant> {
    let mut all: Vec<NormVariant> = DType::FLOATS.map(NormVariant::Sums).into();
    for (centered, dtype) in
        [true, false].into_iter().flat_map(|centered| DType::FLOATS.map(|dtype| (centered, dtype)))
    {
        for packing in [Packing::Whole, Packing::Single] {
            if dtype == DType::F64 && packing == Packing::Whole {
                continue;
            }
            for other in
                DType::FLOATS.into_iter().filter(|&other| other == dtype || mixes(dtype, packing, other))
            {
                let forward = Rows::of_each(packing, teams(dtype, packing));
                all.extend(forward.map(|rows| NormVariant::Forward { centered, rows, dtype, y: other }));
                let gradient = Rows::of_each(packing, grad_teams(dtype, packing));
                all.extend(gradient.map(|rows| NormVariant::Grad { centered, rows, dtype, dy: other }));
            }
        }
    }
    all
}

/// Returns the pack sizes, in elements, that kernels are compiled for, the widest first. Elements
/// of 64 bits are accessed one by one.
pub(crate) fn batch_norm_packs(dtype: DType) -> &'static [usize] {
    match dtype.size() {
        8 => &[1],
        4 => &[4, 1],
        _ => &[8, 4, 1],
    }
}

pub(super) fn batch_norm_variants() -> Vec<BatchNormVariant> {
    let variants_of = |dtype: DType| {
        batch_norm_packs(dtype).iter().map(move |&pack| BatchNormVariant { pack: pack as u8, dtype })
    };
    DType::FLOATS.into_iter().flat_map(variants_of).collect()
}
