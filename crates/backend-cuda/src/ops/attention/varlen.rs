//! Sequences of different lengths that are stored one after another (`attention/varlen.cuh`). Their
//! cumulative lengths (cu_seqlens) are stored on the device.

use crate::call::Call;
use ternion_core::Result;
use ternion_core::ops::attention::AttentionConfig;

/// The parameters; mirrors `Varlen` in the kernels, which set the fields after `keys` themselves.
/// Without sequences all fields are 0.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Varlen {
    cu_seqlens_q: u64,
    cu_seqlens_k: u64,
    cu_seqlens_q_stride: i64,
    cu_seqlens_k_stride: i64,
    sequences: u32,
    queries: u32,
    keys: u32,
    first_query: u32,
    first_key: u32,
    first_row: i32,
    padded: u32,
}

impl Varlen {
    /// Returns the parameters of a call whose cumulative lengths are the inputs from index `first`
    /// on.
    pub(super) fn of(call: &Call<'_>, config: &AttentionConfig, first: usize) -> Result<Varlen> {
        let Some(lengths) = config.lengths_inputs(first) else { return Ok(Varlen::default()) };
        let [query_lengths, key_lengths] = lengths.map(|input| &call.inputs[input]);
        let rows = |input: usize| call.inputs[input].layout.shape().dim(2) as u32;
        Ok(Varlen {
            cu_seqlens_q: call.gpu.address(call.name, query_lengths)?,
            cu_seqlens_k: call.gpu.address(call.name, key_lengths)?,
            cu_seqlens_q_stride: query_lengths.layout.strides()[0] as i64,
            cu_seqlens_k_stride: key_lengths.layout.strides()[0] as i64,
            sequences: (query_lengths.layout.elements() - 1) as u32,
            queries: rows(0),
            keys: rows(1),
            ..Varlen::default()
        })
    }

    /// Returns the maximum number of tiles of `tile_rows` rows for the rows of all sequences of a
    /// head: each sequence begins a tile, and so do the rows after the last sequence.
    pub(super) fn tiles(&self, rows: u32, tile_rows: usize) -> usize {
        let rows = rows as usize;
        match self.sequences as usize {
            0 => rows.div_ceil(tile_rows),
            sequences => rows / tile_rows + sequences + 1,
        }
    }

    /// Returns the bytes of shared memory for a block's parameters `P`, adapted to its sequence.
    pub(super) fn parameter_bytes<P>(&self) -> usize {
        if self.sequences == 0 { 0 } else { parameter_bytes::<P>() }
    }
}

/// Returns the bytes of shared memory for parameters `P`.
pub(super) const fn parameter_bytes<P>() -> usize {
    size_of::<P>().next_multiple_of(16)
}

/// Returns the smallest distances of a key behind and ahead of a query's position with which it is
/// masked. Both are at most `rows`, with which no key is masked.
pub(super) fn band_bounds(config: &AttentionConfig, rows: usize) -> (i32, i32) {
    let window = config.window.map_or(rows, |window| window.min(rows)) as i32;
    (window, if config.causal { 1 } else { window })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_of_a_sequence_begin_after_those_of_the_previous_one() {
        let first_tile = |end: usize, index: usize| end / 64 + index;
        for ends in
            [vec![0_usize, 64, 64, 65, 200], vec![0, 1, 2, 3, 4, 5], vec![0, 63, 127, 191], vec![0, 1000]]
        {
            for (index, pair) in ends.windows(2).enumerate() {
                let needed = (pair[1] - pair[0]).div_ceil(64);
                assert!(first_tile(pair[0], index) + needed <= first_tile(pair[1], index + 1), "{ends:?}");
            }
            let (sequences, last) = (ends.len() - 1, ends[ends.len() - 1]);
            for rows in [last, last + 1, last + 64, last + 129] {
                let varlen = Varlen { sequences: sequences as u32, ..Varlen::default() };
                let needed = first_tile(last, sequences) + (rows - last).div_ceil(64);
                assert!(needed <= varlen.tiles(rows as u32, 64), "{ends:?} of {rows}");
            }
        }
    }

    #[test]
    fn without_sequences_tiles_are_as_many_as_rows_fill() {
        assert_eq!(
            (Varlen::default().tiles(65, 64), Varlen::default().parameter_bytes::<[u64; 9]>()),
            (2, 0)
        );
    }

    #[test]
    fn a_query_attends_to_all_rows_at_most() {
        let all = AttentionConfig { varlen: true, ..AttentionConfig::PLAIN };
        assert_eq!(band_bounds(&all, 30), (30, 30));
        assert_eq!(band_bounds(&AttentionConfig { causal: true, ..all }, 30), (30, 1));
        assert_eq!(band_bounds(&AttentionConfig { window: Some(4), ..all }, 30), (4, 4));
        assert_eq!(
            band_bounds(&AttentionConfig { window: Some(usize::MAX), causal: true, ..all }, 30),
            (30, 1)
        );
    }
}
