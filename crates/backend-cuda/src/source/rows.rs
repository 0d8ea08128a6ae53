//! Kernels of rows: softmax, normalizations, losses.

use super::{Source, TYPE};
use crate::variant::loss::LossVariant;
use crate::variant::norm::{BatchNormVariant, NormVariant, rows_together};
use crate::variant::rows::{Packing, RowStorage, Rows, Team};
use crate::variant::softmax::{CHUNKS, SoftmaxVariant};
use ternion_core::DType;

impl Source {
    /// Adds the macros of `lib/rows.cuh`.
    fn rows_of(self, rows: &Rows, dtype: DType) -> Source {
        let pack = rows.packing.pack(dtype);
        self.define_all([
            ("PACK", pack),
            ("MASKED", usize::from(rows.packing == Packing::Masked && pack > 1)),
            ("TEAM", rows.team.threads()),
            ("PACKS", rows.team.packs()),
            ("ROW_STORAGE", rows.team.storage as usize),
            ("MIN_BLOCKS", if rows.team.storage == RowStorage::Shared { 2 } else { 1 }),
        ])
    }

    /// Adds the macros of `lib/rows.cuh` for kernels that use parts of it, but not its rows.
    fn no_rows(self, pack: usize) -> Source {
        self.define_all([("PACK", pack), ("MASKED", 0), ("TEAM", 32), ("ROW_STORAGE", 0)])
    }
}

pub(super) fn softmax(variant: SoftmaxVariant) -> Source {
    let source = |kernels: &'static [&'static str], form: usize, log: bool, dtype: DType| {
        Source::new("ops/softmax.cu", kernels)
            .define_type(TYPE, dtype)
            .define_all([("LOG", usize::from(log)), ("FORM", form)])
    };
    match variant {
        SoftmaxVariant::Rows { log, rows, dtype } => {
            source(&["softmax", "softmax_grad"], 0, log, dtype).rows_of(&rows, dtype)
        }
        SoftmaxVariant::Chunks(dtype) => {
            let kernels =
                &["softmax_parts", "softmax_from_parts", "softmax_grad_parts", "softmax_grad_from_parts"];
            source(kernels, 1, false, dtype).rows_of(&CHUNKS, dtype)
        }
        SoftmaxVariant::Columns { log, tile, dtype } => {
            source(&["softmax_columns", "softmax_grad_columns"], 2, log, dtype)
                .no_rows(usize::from(tile.pack))
                .define("ACROSS", tile.adjacent_packs)
        }
    }
}

pub(super) fn norm(variant: NormVariant) -> Source {
    let source = |kernels: &'static [&'static str], form: usize, dtype: DType| {
        Source::new("ops/norm.cu", kernels).define_type(TYPE, dtype).define("FORM", form)
    };
    match variant {
        NormVariant::Forward { centered, rows, dtype, y } => {
            let source = source(&["norm_rows"], 0, dtype).define("CENTERED", usize::from(centered));
            let source = if y == dtype { source } else { source.define_type("TYPE_Y", y) };
            source.rows_of(&rows, dtype)
        }
        NormVariant::Grad { centered, rows, dtype, dy } => {
            let is_persistent = usize::from(rows.team.storage == RowStorage::Registers);
            let centered = usize::from(centered);
            let source = source(&["norm_rows_grad"], 1, dtype);
            let source = if dy == dtype { source } else { source.define_type("TYPE_DY", dy) };
            source
                .define_all([
                    ("CENTERED", centered),
                    ("DWEIGHT", is_persistent),
                    ("DBIAS", is_persistent * centered),
                    ("ROWS_PER_ITERATION", rows_together(&rows, dtype)),
                ])
                .rows_of(&rows, dtype)
        }
        NormVariant::Sums(dtype) => {
            let rows = Rows { packing: Packing::Single, team: Team::LONGEST };
            source(&["norm_rows_parameter_grad", "column_sums"], 2, dtype).rows_of(&rows, dtype)
        }
    }
}

pub(super) fn batch_norm(BatchNormVariant { pack, dtype }: BatchNormVariant) -> Source {
    let kernels = &[
        "channel_parts_of_planes",
        "channel_parts_of_columns",
        "channel_statistics",
        "channel_gradients",
        "batch_norm",
        "batch_norm_grad",
        "batch_norm_columns",
        "batch_norm_grad_columns",
    ];
    Source::new("ops/batch_norm.cu", kernels).define_type(TYPE, dtype).no_rows(usize::from(pack))
}

pub(super) fn loss(variant: LossVariant) -> Source {
    let source = |kernels: &'static [&'static str], form: usize, dtype: DType| {
        Source::new("ops/loss.cu", kernels).define_type(TYPE, dtype).define("FORM", form)
    };
    match variant {
        LossVariant::Forward { smoothed, rows, dtype } => source(&["cross_entropy"], 0, dtype)
            .define("SMOOTHED", usize::from(smoothed))
            .rows_of(&rows, dtype),
        LossVariant::Grad { rows, dtype } => source(&["cross_entropy_grad"], 1, dtype).rows_of(&rows, dtype),
        LossVariant::WithGrad { smoothed, rows, dtype } => source(&["cross_entropy_with_grad"], 2, dtype)
            .define("SMOOTHED", usize::from(smoothed))
            .rows_of(&rows, dtype),
        LossVariant::GradUpdate { rows, dtype } => {
            source(&["cross_entropy_grad_update"], 3, dtype).rows_of(&rows, dtype)
        }
    }
}
