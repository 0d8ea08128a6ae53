//! The dropout mask as bits, which `attention/dropout_bits.cu` computes before the TMA kernels read
//! them: for only some heads at a time, so that the bits stay in the L2 cache.
//!
//! A unit is a set of heads whose bits are needed together: one head in forward, and in the
//! gradient the query heads that share a head of keys.

use super::{DropoutParams, Plan, Sizes, grid};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::memory::workspace::Workspace;
use crate::variant::attention::AttentionVariant;
use std::ops::Range;
use ternion_core::Result;

/// Rows of a row group, as in the kernels.
const ROWS: usize = 16;
/// Row groups of a block, as in the kernels.
const BLOCK_GROUPS: usize = 4;
/// Tiles of a block, as in the kernels.
const SPAN: usize = 4;
/// Keys of a tile of forward.
const KEYS: usize = 128;
/// Queries of a tile of the gradient.
const QUERIES: usize = 64;
/// The maximum bytes of bits that are computed at once: about the size of the L2 cache. The bits
/// of one unit may have more.
const CHUNK_BYTES: usize = 64 << 20;
/// The maximum bytes of the bits of one unit.
const MAX_BYTES: usize = 128 << 20;

/// The layout of the bits; mirrors `BitLayout` in the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BitLayout {
    first_head: u32,
    row_groups: u32,
    tiles: u32,
}

/// The parameters; mirrors `AttentionDropoutBits` in the kernels.
#[repr(C)]
struct Parameters {
    dropout: DropoutParams,
    bits: u64,
    layout: BitLayout,
    work_tile_rows: u32,
    step_tiles: u32,
    /// The address of the counter from which blocks of the next kernel draw work tiles, or 0.
    ticket: u64,
    sizes: Sizes,
}

/// Which kernel computes the bits, and the tiles of the kernel that reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum BitTraversal {
    /// Work tiles of `work_queries` queries, and steps of [`KEYS`] keys or half as many.
    OverKeys { work_queries: usize },
    /// Work tiles of `work_keys` keys, and steps of `step` queries.
    OverQueries { work_keys: usize, step: usize },
}

impl BitTraversal {
    /// Returns the index of the kernel in its source.
    fn kernel(self) -> usize {
        match self {
            BitTraversal::OverKeys { .. } => 0,
            BitTraversal::OverQueries { .. } => 1,
        }
    }

    fn work_tile_rows(self) -> usize {
        match self {
            BitTraversal::OverKeys { work_queries } => work_queries,
            BitTraversal::OverQueries { work_keys, .. } => work_keys,
        }
    }

    /// Returns the tiles of a step.
    fn step_tiles(self) -> usize {
        match self {
            BitTraversal::OverKeys { .. } => 1,
            BitTraversal::OverQueries { step, .. } => step / QUERIES,
        }
    }

    /// Returns the row groups of a head, in whole work tiles, and its tiles, in whole steps.
    fn tiles(self, queries: usize, keys: usize) -> [usize; 2] {
        let (rows, tiles) = match self {
            BitTraversal::OverKeys { .. } => (queries, keys.div_ceil(KEYS)),
            BitTraversal::OverQueries { step, .. } => (keys, queries.next_multiple_of(step) / QUERIES),
        };
        [rows.next_multiple_of(self.work_tile_rows()) / ROWS, tiles]
    }

    /// Returns the bytes of the bits of a head.
    fn bytes(self, queries: usize, keys: usize) -> usize {
        let [row_groups, tiles] = self.tiles(queries, keys);
        let columns = match self {
            BitTraversal::OverKeys { .. } => KEYS,
            BitTraversal::OverQueries { .. } => QUERIES,
        };
        row_groups.saturating_mul(tiles).saturating_mul(ROWS * columns / 8)
    }
}

/// The dropout bits of some heads at a time.
pub(super) struct DropoutBits {
    memory: Workspace,
    dropout_params: DropoutParams,
    traversal: BitTraversal,
    layout: BitLayout,
    /// The number of query heads of a unit.
    group: usize,
    /// The number of units.
    units: usize,
    /// The number of units whose bits are computed at once.
    at_once: usize,
}

impl Plan {
    /// Returns whether dropout keeps some weights and drops others, and the bits of `heads` heads,
    /// which are needed together, have at most [`MAX_BYTES`] bytes.
    pub(super) fn has_dropout_bits(
        &self,
        dropout_params: &DropoutParams,
        traversal: BitTraversal,
        heads: usize,
    ) -> bool {
        let head_bytes = traversal.bytes(self.sizes.queries as usize, self.sizes.keys as usize);
        (1..1 << 24).contains(&dropout_params.threshold) && head_bytes.saturating_mul(heads) <= MAX_BYTES
    }

    /// Allocates memory for dropout bits. The bits of `group` heads are needed together.
    pub(super) fn dropout_bits(
        &self,
        gpu: &Gpu,
        dropout_params: DropoutParams,
        traversal: BitTraversal,
        group: usize,
    ) -> Result<DropoutBits> {
        let (queries, keys) = (self.sizes.queries as usize, self.sizes.keys as usize);
        let [row_groups, tiles] = traversal.tiles(queries, keys);
        let unit_bytes = traversal.bytes(queries, keys) * group;
        let units = self.batch * self.sizes.heads as usize / group.max(1);
        let at_once = units_at_once(units, unit_bytes);
        let layout = BitLayout { first_head: 0, row_groups: row_groups as u32, tiles: tiles as u32 };
        let memory = gpu.workspace(at_once * unit_bytes)?;
        Ok(DropoutBits { memory, dropout_params, traversal, layout, group, units, at_once })
    }
}

/// Returns the number of units per launch: with as few launches as [`CHUNK_BYTES`] allows, and
/// about the same number of units in each.
fn units_at_once(units: usize, unit_bytes: usize) -> usize {
    let max_units = (CHUNK_BYTES / unit_bytes.max(1)).clamp(1, units.max(1));
    units.div_ceil(units.div_ceil(max_units).max(1)).max(1)
}

impl DropoutBits {
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    /// Returns the ranges of units, counted over the batch, whose bits are computed at once.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        let (units, at_once) = (self.units, self.at_once);
        (0..units).step_by(at_once).map(move |first| first..units.min(first + at_once))
    }

    /// Queues the kernel that computes the bits of these units, and that sets the work tile counter
    /// at `ticket`, if there is one, to 0. Returns the layout of the bits.
    pub(super) fn compute(
        &self,
        call: &Call<'_>,
        sizes: Sizes,
        units: &Range<usize>,
        ticket: Option<u64>,
    ) -> Result<BitLayout> {
        let layout = BitLayout { first_head: (units.start * self.group) as u32, ..self.layout };
        let [row_groups, tiles] = [layout.row_groups, layout.tiles].map(|count| count as usize);
        let parameters = Parameters {
            dropout: self.dropout_params,
            bits: self.address(),
            layout,
            work_tile_rows: self.traversal.work_tile_rows() as u32,
            step_tiles: self.traversal.step_tiles() as u32,
            ticket: ticket.unwrap_or(0),
            sizes,
        };
        let blocks = row_groups / BLOCK_GROUPS * tiles.div_ceil(SPAN);
        let grid = grid(call.name, units.len() * self.group, blocks)?;
        let launch = Launch::new(AttentionVariant::DropoutBits, self.traversal.kernel(), grid, 128);
        call.gpu.launch(call.name, launch, &parameters)?;
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn parameters_are_laid_out_as_in_the_kernels() {
        assert_eq!((offset_of!(Parameters, bits), offset_of!(Parameters, layout)), (32, 40));
        assert_eq!((offset_of!(Parameters, work_tile_rows), offset_of!(Parameters, ticket)), (52, 64));
        assert_eq!((offset_of!(Parameters, sizes), size_of::<Parameters>()), (72, 112));
    }

    #[test]
    fn bits_are_computed_in_about_equal_chunks() {
        // 4096 by 4096 bits are 2 MiB.
        assert_eq!(units_at_once(128, 2 << 20), 32);
        assert_eq!(units_at_once(33, 2 << 20), 17);
        assert_eq!(units_at_once(3, 100 << 20), 1);
        assert_eq!((units_at_once(5, 1), units_at_once(0, 1)), (5, 1));
    }

    #[test]
    fn rows_are_of_whole_work_tiles_and_tiles_of_whole_steps() {
        let forward = BitTraversal::OverKeys { work_queries: 192 };
        assert_eq!((forward.tiles(300, 130), forward.bytes(300, 130)), ([24, 2], 24 * 2 * 256));
        let gradient = BitTraversal::OverQueries { work_keys: 128, step: 128 };
        assert_eq!((gradient.tiles(300, 130), gradient.bytes(300, 130)), ([16, 6], 16 * 6 * 128));
        assert_eq!((gradient.step_tiles(), gradient.kernel()), (2, 1));
        assert_eq!(forward.bytes(4096, 3072), 4224 * 3072 / 8);
    }
}
