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

    /// Bytes that the form moves between global memory and the multiprocessors, by a model without caches: what its kernels load and store, with each
    /// element counted as often as a block, or of the naive form a warp, asks for it. Of a causal mask what its blocks leave out is not counted; scores are.
    pub fn global_bytes(self, heads: usize, tokens: usize, width: usize, causal: Causal) -> f64 {
        let size = self.dtype().size() as f64;
        let [heads, tokens, width] = [heads, tokens, width].map(|count| count as f64);
        let pairs = heads * tokens * tokens * causal.share();
        let rows = heads * tokens * width * size;
        let scores = heads * tokens * tokens * 4.0;
        match self {
            // A warp has 32 keys and a query: 33 rows for 32 scores. Then a row of values for each weight, shared by nobody.
            Form::Naive => {
                let queries_and_keys = pairs * width * size * 33.0 / 32.0;
                let values = pairs * width * size;
                queries_and_keys + values + self.score_bytes(pairs, scores) + rows
            }
            // Each tile of 128 x 128 scores loads 128 rows of q and of k, each tile of 128 rows of y all rows of v.
            Form::Tiled => {
                let rows_of_tile = width * size / 128.0;
                3.0 * pairs * rows_of_tile + self.score_bytes(pairs, scores) + rows
            }
            // Each tile of queries loads all its keys and values.
            _ => rows * 2.0 + 2.0 * pairs * width * size / self.queries() as f64,
        }
    }

    /// Bytes of scores: written once, read three times and written twice by the softmax, whose last pass writes whole rows, and read by the values.
    fn score_bytes(self, pairs: f64, all: f64) -> f64 {
        // Stored; read for the maximum, for exponentials and for the division; stored as exponentials; read as weights.
        6.0 * 4.0 * pairs + all
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
pub enum Causal {
    /// All.
    No,
    /// Those up to its own position.
    Yes,
}

impl Causal {
    /// Of all pairs of a query and a key those that are seen, but for half a diagonal.
    pub fn share(self) -> f64 {
        match self {
            Causal::No => 1.0,
            Causal::Yes => 0.5,
        }
    }
}

/// A form for heads of a width, with or without a causal mask.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct AttentionLadderVariant {
    pub(crate) form: Form,
    pub(crate) width: u16,
    pub(crate) causal: Causal,
}

/// Every form for each width, with and without a mask.
pub(crate) fn variants() -> impl Iterator<Item = AttentionLadderVariant> {
    Form::ALL.into_iter().flat_map(|form| {
        WIDTHS.into_iter().flat_map(move |width| {
            [Causal::No, Causal::Yes].map(|causal| AttentionLadderVariant {
                form,
                width: width as u16,
                causal,
            })
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

    /// 128 tokens of a head: the forms without scores load everything once for each tile of queries.
    #[test]
    fn bytes_are_those_of_tiles() {
        let row = 64.0 * 2.0;
        assert_eq!(Form::PingPong.global_bytes(1, 128, 64, Causal::No), 4.0 * 128.0 * row);
        assert_eq!(Form::Mma.global_bytes(1, 128, 64, Causal::No), (2.0 + 2.0 * 2.0) * 128.0 * row);
        let scores = 7.0 * 4.0 * 128.0 * 128.0;
        assert_eq!(Form::Tiled.global_bytes(1, 128, 64, Causal::No), 4.0 * 128.0 * 64.0 * 4.0 + scores);
    }
}
