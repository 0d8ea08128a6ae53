//! Variants of cross-entropy and its gradient.

use super::rows::{Packing, Rows, Team};
use ternion_core::DType;

/// `smoothed`: with label smoothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum LossVariant {
    Forward { smoothed: bool, rows: Rows, dtype: DType },
    Grad { rows: Rows, dtype: DType },
    WithGrad { smoothed: bool, rows: Rows, dtype: DType },
    GradUpdate { rows: Rows, dtype: DType },
}

/// Returns the teams of the loss, which reads rows once, whatever their length.
pub(crate) fn teams(smoothed: bool, dtype: DType, packing: Packing) -> &'static [Team] {
    match packing {
        Packing::Single if dtype == DType::F64 || !smoothed => {
            &[const { Team::memory(32, 1024) }, Team::LONGEST]
        }
        Packing::Single => &[Team::LONGEST],
        Packing::Whole => &[],
        Packing::Masked if !smoothed => &[
            const { Team::memory(8, 8) },
            const { Team::memory(32, 256) },
            const { Team::memory(128, 1024) },
            Team::LONGEST,
        ],
        Packing::Masked => &[const { Team::memory(32, 256) }, Team::LONGEST],
    }
}

/// Returns the teams of the gradient, which reads rows twice.
pub(crate) fn grad_teams(dtype: DType, packing: Packing) -> &'static [Team] {
    match (packing, dtype) {
        (Packing::Single, _) => &[const { Team::memory(32, 1024) }, Team::LONGEST],
        (Packing::Whole, _) => &[],
        (Packing::Masked, DType::F32) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(32, 4) },
            const { Team::registers(32, 8) },
            const { Team::registers(128, 8) },
            Team::SHARED,
            Team::LONGEST,
        ],
        (Packing::Masked, _) => &[
            const { Team::registers(8, 1) },
            const { Team::registers(32, 2) },
            const { Team::registers(32, 4) },
            const { Team::registers(128, 4) },
            Team::SHARED,
            Team::LONGEST,
        ],
    }
}

pub(super) fn variants() -> Vec<LossVariant> {
    let mut all = Vec::new();
    for dtype in DType::FLOATS {
        for packing in [Packing::Masked, Packing::Single] {
            if dtype == DType::F64 && packing == Packing::Masked {
                continue;
            }
            for smoothed in [false, true] {
                let rows = Rows::of_each(packing, teams(smoothed, dtype, packing));
                all.extend(rows.map(|rows| LossVariant::Forward { smoothed, rows, dtype }));
            }
            for rows in Rows::of_each(packing, grad_teams(dtype, packing)) {
                all.extend([
                    LossVariant::Grad { rows, dtype },
                    LossVariant::GradUpdate { rows, dtype },
                    LossVariant::WithGrad { smoothed: false, rows, dtype },
                    LossVariant::WithGrad { smoothed: true, rows, dtype },
                ]);
            }
        }
    }
    all
}
