//! Rungs of the attention ladder: kernels of attention forward, from a naive one to one with
//! ping-pong scheduling. They are for study and measurement; no op uses them.

use super::architecture::Architectures;
use ternion_core::DType;

/// A rung of the ladder, `y = softmax(scale q k^T) v`. Each adds one idea to the previous rung.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Rung {
    /// Three kernels, scores in global memory, one thread per element.
    Naive,
    /// As `Naive`, with tiles in shared memory and in registers for both products.
    Tiled,
    /// One kernel that updates the maximum and the sum of a row from step to step over the keys.
    /// Scores are never stored.
    OnlineSoftmax,
    /// Tensor cores by `mma.sync`, 16 queries per warp, weights in registers.
    Mma,
    /// Tensor cores by `wgmma`, tiles loaded by TMA.
    Wgmma,
    /// A producer warpgroup and two consumer warpgroups.
    WarpSpecialized,
    /// The consumers alternate: the softmax of one overlaps with the products of the other.
    PingPong,
}

/// The head widths that kernels are compiled for.
pub const WIDTHS: [usize; 2] = [64, 128];

/// Threads of a warp and of a warpgroup.
const LANES: usize = 32;
const WARPGROUP: usize = 128;
/// Threads of a block of the f32 rungs.
const THREADS: usize = 256;
/// The alignment of wgmma tiles in bytes.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// The length of a row of scores is rounded up to a multiple of this many elements.
const PITCH: usize = 4;

impl Rung {
    /// Every rung, in the order of the ladder.
    pub const ALL: [Rung; 7] = [
        Rung::Naive,
        Rung::Tiled,
        Rung::OnlineSoftmax,
        Rung::Mma,
        Rung::Wgmma,
        Rung::WarpSpecialized,
        Rung::PingPong,
    ];

    /// Returns the name in records of measurements and in messages: `online_softmax`.
    pub fn name(self) -> &'static str {
        self.properties().0
    }

    /// Returns its root file in `kernels/`.
    pub(crate) fn file(self) -> &'static str {
        self.properties().1
    }

    fn properties(self) -> (&'static str, &'static str) {
        match self {
            Rung::Naive => ("naive", "attention_ladder/01_naive.cu"),
            Rung::Tiled => ("tiled", "attention_ladder/02_tiled.cu"),
            Rung::OnlineSoftmax => ("online_softmax", "attention_ladder/03_online_softmax.cu"),
            Rung::Mma => ("mma", "attention_ladder/04_mma.cu"),
            Rung::Wgmma => ("wgmma", "attention_ladder/05_wgmma.cu"),
            Rung::WarpSpecialized => ("warp_specialized", "attention_ladder/06_warp_specialized.cu"),
            Rung::PingPong => ("ping_pong", "attention_ladder/07_ping_pong.cu"),
        }
    }

    /// Returns the dtype of q, k, v and y; sums are f32.
    pub fn dtype(self) -> DType {
        match self {
            Rung::Naive | Rung::Tiled | Rung::OnlineSoftmax => DType::F32,
            Rung::Mma | Rung::Wgmma | Rung::WarpSpecialized | Rung::PingPong => DType::BF16,
        }
    }

    /// Returns whether the scores of all pairs of tokens are stored, in a workspace.
    pub fn stores_scores(self) -> bool {
        matches!(self, Rung::Naive | Rung::Tiled)
    }

    /// Returns the f32 elements of the rung's workspace: the scores of all pairs of tokens, in rows
    /// whose length is rounded up to a multiple of 4; 0 for rungs that do not store them.
    pub fn workspace_elements(self, heads: usize, tokens: usize) -> usize {
        if self.stores_scores() { heads * tokens * self.pitch(tokens) } else { 0 }
    }

    /// Returns the bytes that the rung moves between global memory and the multiprocessors, in a
    /// model without caches: each element counts once per block that requests it, or per warp in
    /// the naive rung. Pairs of a query and a key that a causal mask excludes are not counted,
    /// except where whole rows are written.
    pub fn global_bytes(self, heads: usize, tokens: usize, width: usize, mask: Mask) -> f64 {
        let row = (width * self.dtype().size()) as f64;
        let rows = (heads * tokens) as f64;
        let pairs = rows * tokens as f64 * mask.unmasked_fraction();
        // The softmax writes rows of scores to their end.
        let scores = |reads_as_weights: f64| 4.0 * ((5.0 + reads_as_weights) * pairs + rows * tokens as f64);
        match self {
            // A warp loads a query and 32 keys for 32 scores, and a value for each weight. Each
            // weight is read for 32 columns.
            Rung::Naive => pairs * row * (33.0 / 32.0 + 1.0) + scores(width as f64 / 32.0) + rows * row,
            // A tile of 128 x 128 scores loads 128 queries and 128 keys; a tile of 128 rows of y
            // loads all values.
            Rung::Tiled => pairs * row * 3.0 / 128.0 + scores(1.0) + rows * row,
            // A block loads its queries once and all their keys and values.
            _ => pairs * row * 2.0 / self.queries() as f64 + 2.0 * rows * row,
        }
    }

    /// Returns the elements of a row of scores.
    pub(crate) fn pitch(self, tokens: usize) -> usize {
        tokens.next_multiple_of(PITCH)
    }

    /// Returns the names of its kernels, in the order in which they run.
    pub(crate) fn kernels(self) -> &'static [&'static str] {
        if self.stores_scores() { &["scores", "softmax", "values"] } else { &["attention"] }
    }

    /// Returns the queries of a block, for rungs that do not store scores.
    pub(crate) fn queries(self) -> usize {
        match self.warpgroups() {
            Some(Warpgroups { consumers, .. }) => consumers * 64,
            None => 64,
        }
    }

    /// Returns how warpgroups share the work, for rungs with wgmma.
    pub(crate) fn warpgroups(self) -> Option<Warpgroups> {
        match self {
            Rung::Wgmma => Some(Warpgroups { consumers: 1, step: 64, stages: 2 }),
            Rung::WarpSpecialized | Rung::PingPong => Some(Warpgroups { consumers: 2, step: 128, stages: 2 }),
            _ => None,
        }
    }

    pub(crate) fn threads(self) -> usize {
        match self {
            Rung::Naive | Rung::Tiled | Rung::OnlineSoftmax => THREADS,
            Rung::Mma => 4 * LANES,
            Rung::Wgmma => WARPGROUP,
            Rung::WarpSpecialized | Rung::PingPong => 3 * WARPGROUP,
        }
    }

    /// Returns the bytes of dynamic shared memory.
    pub(crate) fn shared_bytes(self, width: usize) -> usize {
        let size = self.dtype().size();
        match (self, self.warpgroups()) {
            // These kernels use static arrays.
            (Rung::Naive | Rung::Tiled, _) => 0,
            // q; k, whose buffer is reused for v; and the weights. Rows are padded by a pack.
            (Rung::OnlineSoftmax, _) => size * (2 * width * (64 + 4) + 64 * (64 + 4)),
            // q, and two stages of k and v.
            (_, None) => size * 64 * width * 5,
            (_, Some(Warpgroups { consumers, step, stages })) => {
                let tiles = size * width * (consumers * 64 + 2 * stages * step);
                tiles + 8 * (1 + 4 * stages) + SWIZZLE_ALIGNMENT
            }
        }
    }

    pub(crate) fn architectures(self) -> Architectures {
        if self.warpgroups().is_some() { Architectures::Exact((9, 0)) } else { Architectures::ALL }
    }
}

/// Consumer warpgroups, each with 64 queries; keys of a step; stages of keys and of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Warpgroups {
    pub(crate) consumers: usize,
    pub(crate) step: usize,
    pub(crate) stages: usize,
}

/// Which keys a query attends to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mask {
    /// Every query attends to all keys.
    Full,
    /// A query attends to the keys up to its own position.
    Causal,
}

impl Mask {
    /// Returns the fraction of all pairs of a query and a key that are unmasked, ignoring half of
    /// the diagonal.
    pub fn unmasked_fraction(self) -> f64 {
        match self {
            Mask::Full => 1.0,
            Mask::Causal => 0.5,
        }
    }
}

/// A rung for heads of a width, with or without a causal mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AttentionLadderVariant {
    pub(crate) rung: Rung,
    pub(crate) width: u16,
    pub(crate) mask: Mask,
}

/// Returns every rung for each width, with and without a mask.
pub(crate) fn variants() -> impl Iterator<Item = AttentionLadderVariant> {
    Rung::ALL.into_iter().flat_map(|rung| {
        WIDTHS.into_iter().flat_map(move |width| {
            [Mask::Full, Mask::Causal].map(|mask| AttentionLadderVariant { rung, width: width as u16, mask })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_a_multiprocessor() {
        for AttentionLadderVariant { rung, width, .. } in variants() {
            let (threads, shared_bytes) = (rung.threads(), rung.shared_bytes(width.into()));
            assert!(threads.is_multiple_of(LANES) && threads <= 1024, "{rung:?}: {threads} threads");
            // With compute capability 8.0 a block may have 163 KiB, with 9.0 it may have 227.
            let limit = if rung.warpgroups().is_some() { 227 << 10 } else { 163 << 10 };
            assert!(shared_bytes <= limit, "{rung:?} {width}: {shared_bytes} bytes");
        }
    }

    /// Sizes as the kernels compute them: `sizeof(Tiles)`, SHARED.
    #[test]
    fn shared_memory_is_as_large_as_the_kernels_layout() {
        assert_eq!(Rung::OnlineSoftmax.shared_bytes(128), 4 * (8 * 16 * 68 + 8 * 16 * 68 + 4 * 16 * 68));
        // With width 64, keys take more memory than values: 64 x 68 floats, not 64 x 64.
        assert_eq!(Rung::OnlineSoftmax.shared_bytes(64), 4 * (4 * 16 * 68 + 4 * 16 * 68 + 4 * 16 * 68));
        assert_eq!(Rung::Mma.shared_bytes(64), 64 * 128 * 5);
        assert_eq!(Rung::Wgmma.shared_bytes(128), 16384 + 4 * 16384 + 72 + 1024);
        assert_eq!(Rung::PingPong.shared_bytes(128), 32768 + 4 * 32768 + 72 + 1024);
    }

    #[test]
    fn names_are_unique_and_files_are_in_the_order_of_the_rungs() {
        let names: std::collections::BTreeSet<&str> = Rung::ALL.iter().map(|rung| rung.name()).collect();
        assert_eq!(names.len(), Rung::ALL.len());
        assert!(Rung::ALL.is_sorted_by_key(|rung| rung.file()));
    }

    #[test]
    fn only_rungs_that_store_scores_need_a_workspace() {
        assert_eq!(Rung::Naive.workspace_elements(2, 3), 2 * 3 * 4);
        assert_eq!(Rung::Tiled.workspace_elements(1, 128), 128 * 128);
        assert_eq!(Rung::OnlineSoftmax.workspace_elements(2, 3), 0);
    }

    /// 128 tokens of a head: rungs that do not store scores load keys and values once for each
    /// block of queries.
    #[test]
    fn bytes_are_those_of_blocks() {
        let row = 64.0 * 2.0;
        assert_eq!(Rung::PingPong.global_bytes(1, 128, 64, Mask::Full), 4.0 * 128.0 * row);
        assert_eq!(Rung::Mma.global_bytes(1, 128, 64, Mask::Full), (2.0 + 2.0 * 2.0) * 128.0 * row);
        // Stored, read three times, stored twice, read as weights.
        let scores = 7.0 * 4.0 * 128.0 * 128.0;
        assert_eq!(Rung::Tiled.global_bytes(1, 128, 64, Mask::Full), 4.0 * 128.0 * 64.0 * 4.0 + scores);
        let causal = Rung::PingPong.global_bytes(1, 128, 64, Mask::Causal);
        assert_eq!(causal, 3.0 * 128.0 * row);
    }
}
