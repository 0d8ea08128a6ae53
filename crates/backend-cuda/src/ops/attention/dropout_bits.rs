//! Which weights dropout keeps, as bits that `attention/dropout_bits.cu` draws before the kernels by TMA read them: for so many heads at a time that the bits stay in
//! the cache.

use super::{Dropping, Plan, Sizes, grid};
use crate::call::Call;
use crate::gpu::Gpu;
use crate::launch::Launch;
use crate::memory::scratch::Scratch;
use crate::variant::attention::AttentionVariant;
use std::ops::Range;
use ternion_core::Result;

/// Queries of a row group, row groups of a block, keys of a tile, and tiles of a block, as in the kernel.
const ROWS: usize = 16;
const BLOCK_GROUPS: usize = 4;
pub(super) const KEYS: usize = 128;
const SPAN: usize = 4;
/// Bits of a row group and a key tile, in bytes.
const TILE_BYTES: usize = ROWS * KEYS / 8;
/// What the bits of some heads may take: about what the cache holds. Of one head it may be more.
const CHUNK_BYTES: usize = 64 << 20;
const MOST_BYTES: usize = 128 << 20;

/// As `BitLayout` of the kernels.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct BitLayout {
    first_head: u32,
    row_groups: u32,
    key_tiles: u32,
}

/// As `AttentionDropoutBits` of the kernel.
#[repr(C)]
struct Parameters {
    dropout: Dropping,
    bits: u64,
    layout: BitLayout,
    work_queries: u32,
    sizes: Sizes,
}

/// Bits of the weights of some heads at a time.
pub(super) struct DropoutBits {
    memory: Scratch,
    dropping: Dropping,
    layout: BitLayout,
    /// Queries that see the same tiles of keys.
    work_queries: usize,
    heads: usize,
    heads_at_once: usize,
}

/// Row groups of a head, in whole works, and its tiles of keys.
fn tiles(queries: usize, keys: usize, work_queries: usize) -> [usize; 2] {
    [queries.next_multiple_of(work_queries) / ROWS, keys.div_ceil(KEYS)]
}

impl Plan {
    /// Whether the bits of a head are few enough, and some weights are kept and others dropped.
    pub(super) fn has_dropout_bits(&self, dropping: &Dropping) -> bool {
        // Of the largest work: 192 queries.
        let [row_groups, key_tiles] = tiles(self.sizes.queries as usize, self.sizes.keys as usize, 192);
        (1..1 << 24).contains(&dropping.threshold)
            && row_groups.saturating_mul(key_tiles).saturating_mul(TILE_BYTES) <= MOST_BYTES
    }

    /// Memory for bits of heads whose works have so many queries.
    pub(super) fn dropout_bits(
        &self,
        gpu: &Gpu,
        dropping: Dropping,
        work_queries: usize,
    ) -> Result<DropoutBits> {
        let heads = self.batch * self.sizes.heads as usize;
        let [row_groups, key_tiles] =
            tiles(self.sizes.queries as usize, self.sizes.keys as usize, work_queries);
        let of_head = row_groups * key_tiles * TILE_BYTES;
        let heads_at_once = heads_at_once(heads, of_head);
        let layout = BitLayout { first_head: 0, row_groups: row_groups as u32, key_tiles: key_tiles as u32 };
        let memory = gpu.scratch(heads_at_once * of_head)?;
        Ok(DropoutBits { memory, dropping, layout, work_queries, heads, heads_at_once })
    }
}

/// As few launches as [`CHUNK_BYTES`] allow, each of about as many heads.
fn heads_at_once(heads: usize, of_head: usize) -> usize {
    let most = (CHUNK_BYTES / of_head.max(1)).clamp(1, heads.max(1));
    heads.div_ceil(heads.div_ceil(most).max(1)).max(1)
}

impl DropoutBits {
    pub(super) fn address(&self) -> u64 {
        self.memory.address()
    }

    pub(super) fn scale(&self) -> f32 {
        self.dropping.scale
    }

    /// Heads, counted over the batch, whose bits are drawn at once.
    pub(super) fn chunks(&self) -> impl Iterator<Item = Range<usize>> {
        let (heads, at_once) = (self.heads, self.heads_at_once);
        (0..heads).step_by(at_once).map(move |first| first..heads.min(first + at_once))
    }

    /// Queues the kernel that draws the bits of these heads, and says where they are.
    pub(super) fn draw(&self, call: &Call<'_>, sizes: Sizes, heads: &Range<usize>) -> Result<BitLayout> {
        let layout = BitLayout { first_head: heads.start as u32, ..self.layout };
        let [row_groups, key_tiles] = [layout.row_groups, layout.key_tiles].map(|count| count as usize);
        let parameters = Parameters {
            dropout: self.dropping,
            bits: self.address(),
            layout,
            work_queries: self.work_queries as u32,
            sizes,
        };
        let blocks = row_groups / BLOCK_GROUPS * key_tiles.div_ceil(SPAN);
        let grid = grid(call.name, heads.len(), blocks)?;
        let launch = Launch::new(AttentionVariant::DropoutBits, 0, grid, 128);
        call.gpu.launch(call.name, launch, &parameters)?;
        Ok(layout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::offset_of;

    #[test]
    fn parameters_are_laid_out_as_in_the_kernel() {
        assert_eq!((offset_of!(Parameters, bits), offset_of!(Parameters, layout)), (32, 40));
        assert_eq!((offset_of!(Parameters, work_queries), offset_of!(Parameters, sizes)), (52, 56));
        assert_eq!(size_of::<Parameters>(), 96);
    }

    #[test]
    fn bits_of_heads_are_drawn_in_about_equal_chunks() {
        // 4096 by 4096 bits are 2 MiB.
        assert_eq!(heads_at_once(128, 2 << 20), 32);
        assert_eq!(heads_at_once(33, 2 << 20), 17);
        assert_eq!(heads_at_once(3, 100 << 20), 1);
        assert_eq!((heads_at_once(5, 1), heads_at_once(0, 1)), (5, 1));
        assert_eq!(tiles(300, 130, 192), [24, 2]);
        assert_eq!(tiles(4096, 4096, 128), [256, 32]);
    }
}
