//! Forms of the attention ladder: kernels of attention forward from the naive one to one whose consumers take turns at the tensor cores. They are for
//! study and measurement; no op asks for them.

use super::architecture::Architectures;
use ternion_core::DType;

/// A rung of the ladder, `y = softmax(scale q k^T) v`: one idea more than the rung before it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Form {
    /// Three kernels, scores in global memory, a thread for each number.
    Naive,
    /// The same with tiles in shared memory and in registers for both products.
    Tiled,
    /// One kernel, which corrects maximum and sum of a row as keys pass by: scores are never stored.
    OnlineSoftmax,
    /// Tensor cores by `mma.sync`, 16 queries a warp, weights in registers.
    Mma,
    /// Tensor cores by `wgmma`, tiles by the tensor memory accelerator.
    Wgmma,
    /// A warpgroup that copies and two that multiply.
    WarpSpecialized,
    /// These two take turns: the softmax of one runs under the products of the other.
    PingPong,
}

/// The widths of heads that kernels are compiled for.
pub const WIDTHS: [usize; 2] = [64, 128];

/// Threads of a warp and of a warpgroup.
const LANES: usize = 32;
const WARPGROUP: usize = 128;
/// Threads of the blocks of f32.
const THREADS: usize = 256;
/// What tiles of wgmma begin at multiples of, in bytes.
const SWIZZLE_ALIGNMENT: usize = 1024;
/// Elements of a row of scores are rounded up to as many.
const PITCH: usize = 4;

impl Form {
    /// Every form, in the order in which they are read.
    pub const ALL: [Form; 7] = [
        Form::Naive,
        Form::Tiled,
        Form::OnlineSoftmax,
        Form::Mma,
        Form::Wgmma,
        Form::WarpSpecialized,
        Form::PingPong,
    ];

    /// What records of measurements and messages call it: `online_softmax`.
    pub fn name(self) -> &'static str {
        self.facts().0
    }

    /// Its root file in `kernels/`.
    pub(crate) fn file(self) -> &'static str {
        self.facts().1
    }

    fn facts(self) -> (&'static str, &'static str) {
        match self {
            Form::Naive => ("naive", "attention_ladder/01_naive.cu"),
            Form::Tiled => ("tiled", "attention_ladder/02_tiled.cu"),
            Form::OnlineSoftmax => ("online_softmax", "attention_ladder/03_online_softmax.cu"),
            Form::Mma => ("mma", "attention_ladder/04_mma.cu"),
            Form::Wgmma => ("wgmma", "attention_ladder/05_wgmma.cu"),
            Form::WarpSpecialized => ("warp_specialized", "attention_ladder/06_warp_specialized.cu"),
            Form::PingPong => ("ping_pong", "attention_ladder/07_ping_pong.cu"),
        }
    }

    /// Of q, k, v and y; sums are f32.
    pub fn dtype(self) -> DType {
        match self {
            Form::Naive | Form::Tiled | Form::OnlineSoftmax => DType::F32,
            Form::Mma | Form::Wgmma | Form::WarpSpecialized | Form::PingPong => DType::BF16,
        }
    }

    /// Whether the scores of all pairs of tokens are stored, in scratch.
    pub fn stores_scores(self) -> bool {
        matches!(self, Form::Naive | Form::Tiled)
    }

    /// Elements of f32 that the form takes as scratch: the scores of all pairs of tokens, in rows whose length is rounded up to a multiple of 4; 0 of
    /// forms that do not store them.
    pub fn scratch_elements(self, heads: usize, tokens: usize) -> usize {
        if self.stores_scores() { heads * tokens * self.pitch(tokens) } else { 0 }
    }

    /// Bytes that the form moves between global memory and the multiprocessors, by a model without caches: each element counts as often as a block, or
    /// a warp of the naive form, asks for it. Pairs of a query and a key that a causal mask hides are not counted, but where whole rows are written.
    pub fn global_bytes(self, heads: usize, tokens: usize, width: usize, mask: Mask) -> f64 {
        let row = (width * self.dtype().size()) as f64;
        let rows = (heads * tokens) as f64;
        let pairs = rows * tokens as f64 * mask.share();
        // The softmax writes rows of scores to their end.
        let scores = |reads_as_weights: f64| 4.0 * ((5.0 + reads_as_weights) * pairs + rows * tokens as f64);
        match self {
            // A warp loads a query and 32 keys for 32 scores, and a value for each weight, which it reads for 32 columns.
            Form::Naive => pairs * row * (33.0 / 32.0 + 1.0) + scores(width as f64 / 32.0) + rows * row,
            // A tile of 128 x 128 scores loads 128 queries and 128 keys; a tile of 128 rows of y loads all values.
            Form::Tiled => pairs * row * 3.0 / 128.0 + scores(1.0) + rows * row,
            // A block loads its queries once and all their keys and values.
            _ => pairs * row * 2.0 / self.queries() as f64 + 2.0 * rows * row,
        }
    }

    /// Elements of a row of scores.
    pub(crate) fn pitch(self, tokens: usize) -> usize {
        tokens.next_multiple_of(PITCH)
    }

    /// Names of its kernels, in the order in which they run.
    pub(crate) fn kernels(self) -> &'static [&'static str] {
        if self.stores_scores() { &["scores", "softmax", "values"] } else { &["attention"] }
    }

    /// Queries of a block, of forms that do not store scores.
    pub(crate) fn queries(self) -> usize {
        match self.warpgroups() {
            Some(Warpgroups { consumers, .. }) => consumers * 64,
            None => 64,
        }
    }

    /// How warpgroups share the work, of forms that multiply by them.
    pub(crate) fn warpgroups(self) -> Option<Warpgroups> {
        match self {
            Form::Wgmma => Some(Warpgroups { consumers: 1, step: 64, stages: 2 }),
            Form::WarpSpecialized | Form::PingPong => Some(Warpgroups { consumers: 2, step: 128, stages: 2 }),
            _ => None,
        }
    }

    pub(crate) fn threads(self) -> usize {
        match self {
            Form::Naive | Form::Tiled | Form::OnlineSoftmax => THREADS,
            Form::Mma => 4 * LANES,
            Form::Wgmma => WARPGROUP,
            Form::WarpSpecialized | Form::PingPong => 3 * WARPGROUP,
        }
    }

    /// Bytes of dynamic shared memory.
    pub(crate) fn shared(self, width: usize) -> usize {
        let size = self.dtype().size();
        match (self, self.warpgroups()) {
            // Arrays of the kernels' own.
            (Form::Naive | Form::Tiled, _) => 0,
            // q; k, whose place v takes; weights: in rows that are a pack longer.
            (Form::OnlineSoftmax, _) => size * (2 * width * (64 + 4) + 64 * (64 + 4)),
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

/// Warpgroups that multiply, each with 64 queries; keys of a step; stages of keys and of values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Warpgroups {
    pub(crate) consumers: usize,
    pub(crate) step: usize,
    pub(crate) stages: usize,
}

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Mask {
    /// All.
    Full,
    /// Those up to its own position.
    Causal,
}

impl Mask {
    /// Of all pairs of a query and a key those that are seen, but for half a diagonal.
    pub fn share(self) -> f64 {
        match self {
            Mask::Full => 1.0,
            Mask::Causal => 0.5,
        }
    }
}

/// A form for heads of a width, with or without a causal mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AttentionLadderVariant {
    pub(crate) form: Form,
    pub(crate) width: u16,
    pub(crate) mask: Mask,
}

/// Every form for each width, with and without a mask.
pub(crate) fn variants() -> impl Iterator<Item = AttentionLadderVariant> {
    Form::ALL.into_iter().flat_map(|form| {
        WIDTHS.into_iter().flat_map(move |width| {
            [Mask::Full, Mask::Causal].map(|mask| AttentionLadderVariant { form, width: width as u16, mask })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_fit_a_multiprocessor() {
        for AttentionLadderVariant { form, width, .. } in variants() {
            let (threads, shared) = (form.threads(), form.shared(width.into()));
            assert!(threads.is_multiple_of(LANES) && threads <= 1024, "{form:?}: {threads} threads");
            // Of compute capability 8.0 a block may have 163 KiB, of 9.0 it may have 227.
            let room = if form.warpgroups().is_some() { 227 << 10 } else { 163 << 10 };
            assert!(shared <= room, "{form:?} {width}: {shared} bytes");
        }
    }

    /// As the kernels count them: `sizeof(Tiles)`, SHARED.
    #[test]
    fn shared_memory_is_what_the_kernels_lay_out() {
        assert_eq!(Form::OnlineSoftmax.shared(128), 4 * (8 * 16 * 68 + 8 * 16 * 68 + 4 * 16 * 68));
        // Keys of width 64 take more than values: 64 x 68 floats, not 64 x 64.
        assert_eq!(Form::OnlineSoftmax.shared(64), 4 * (4 * 16 * 68 + 4 * 16 * 68 + 4 * 16 * 68));
        assert_eq!(Form::Mma.shared(64), 64 * 128 * 5);
        assert_eq!(Form::Wgmma.shared(128), 16384 + 4 * 16384 + 72 + 1024);
        assert_eq!(Form::PingPong.shared(128), 32768 + 4 * 32768 + 72 + 1024);
    }

    #[test]
    fn names_are_unique_and_files_stand_in_the_order_of_the_forms() {
        let names: std::collections::BTreeSet<&str> = Form::ALL.iter().map(|form| form.name()).collect();
        assert_eq!(names.len(), Form::ALL.len());
        assert!(Form::ALL.is_sorted_by_key(|form| form.file()));
    }

    #[test]
    fn only_forms_that_store_scores_take_scratch() {
        assert_eq!(Form::Naive.scratch_elements(2, 3), 2 * 3 * 4);
        assert_eq!(Form::Tiled.scratch_elements(1, 128), 128 * 128);
        assert_eq!(Form::OnlineSoftmax.scratch_elements(2, 3), 0);
    }

    /// 128 tokens of a head: forms that store no scores load keys and values once for each block of queries.
    #[test]
    fn bytes_are_those_of_blocks() {
        let row = 64.0 * 2.0;
        assert_eq!(Form::PingPong.global_bytes(1, 128, 64, Mask::Full), 4.0 * 128.0 * row);
        assert_eq!(Form::Mma.global_bytes(1, 128, 64, Mask::Full), (2.0 + 2.0 * 2.0) * 128.0 * row);
        // Stored, read three times, stored twice, read as weights.
        let scores = 7.0 * 4.0 * 128.0 * 128.0;
        assert_eq!(Form::Tiled.global_bytes(1, 128, 64, Mask::Full), 4.0 * 128.0 * 64.0 * 4.0 + scores);
        let causal = Form::PingPong.global_bytes(1, 128, 64, Mask::Causal);
        assert_eq!(causal, 3.0 * 128.0 * row);
    }
}
