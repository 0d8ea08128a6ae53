// Parameters of the attention kernels, and the mapping from a block index to its tile.
//
//   forward.cu, grad.cu             f16, bf16 with mma.sync (mma.cuh, sm_80 and newer) or wgmma
//                                   (wgmma.cuh, sm_90a)
//   f32_forward.cu, f32_grad.cu     f32 on tensor cores (f32_mma.cuh)
//   simt_forward.cu, simt_grad.cu   f32 with fused multiply-adds (simt.cuh)
//   grad_rows.cu                    the two numbers of each query that the gradient needs
//
// Macros that the host defines:
//   TYPE        element type of all operands except the log-sum-exp (LSE)
//   HEAD_DIM    tile width of q and k; VALUE_DIM: tile width of v. Both are the wider of the two
//               widths, rounded up to 32, 64, 128, 192 or 256
//   BAND        1: query i attends to keys [i + band_begin, i + band_end) (causal, window);
//               0: to all keys
//   MASK        0: none; 1: Truth, true where a query attends to a key; 2: TYPE, added to the
//               scaled scores
//   DROPOUT     1: weights may be dropped (BAND must be 1); 0: never
//   SPLIT_KV       1: split-KV: forward stores the partial result of each split of the keys; 0 or
//               undefined: the final result of all keys
//   WGMMA       1: half precision with wgmma; 0: with mma.sync
//   VARLEN      1: sequences of different lengths are concatenated, and the batch is 1 (BAND must
//               be 1 and MASK 0); 0 or undefined: all sequences have the same length
//
// For all operands except the mask and the log-sum-exp, the last axis is contiguous; widths,
// strides and addresses are multiples of 16 bytes; row strides are below 2^31 elements. The host
// copies operands that do not meet this.

#pragma once

#ifndef SPLIT_KV
#define SPLIT_KV 0
#endif
#ifndef VARLEN
#define VARLEN 0
#endif

#include "lib/functions.cuh"
#include "lib/vec.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/math.cuh"
#include "ptx/registers.cuh"

constexpr float LOG2_E = 1.4426950408889634f;
constexpr float LN_2 = 0.6931471805599453f;

typedef TYPE Element;

// Axes [batch, head, row, column], strides in elements.
template <class T> struct View {
    T* first;
    i64 batch, head, row, column;
};
template <class T> INLINE View<T> head_of(View<T> view, u32 batch, u32 head) {
    view.first += i64(batch) * view.batch + i64(head) * view.head;
    return view;
}

struct Sizes {
    u32 heads;  // query heads
    u32 group;  // query heads that share a key head
    u32 queries, keys;
    u32 head_dim, value_dim;
    // Query i attends to keys [i + band_begin, i + band_end). The host clamps both bounds to
    // [-queries, keys], so that no sum overflows.
    i32 band_begin, band_end;
    float scale;
};

template <int KIND> struct MaskOf {
    typedef Element type;
};
template <> struct MaskOf<1> {
    typedef Bool type;
};
typedef MaskOf<MASK>::type MaskElement;

// Dropout of the weights, which are indexed as a row-major tensor [batch, heads, queries, keys].
// The stream has the key state[0] and starts at Philox block state[1] + offset. Weight i is kept if
// word i of the stream is at least threshold * 2^8. ops/random.cu drops elements in the same way.
struct DropoutParams {
    const i64* state;
    i64 state_stride;
    u64 offset;
    u32 threshold;  // 0: nothing is dropped
    float scale;    // of the kept weights
};

// Stores the log-sum-exp of a query's scores: row_max is their maximum, total the sum of the
// weights relative to it. If an additive mask is -1e9 for every key, the sum has no bits left for
// the logarithm: the rounding error is stored separately.
template <class P> INLINE void store_lse(const P& p, i64 at, float row_max, float total, bool is_fully_masked) {
    float log_total = logf(total), log_sum = row_max + log_total;
    p.log_sums[at] = log_sum;
    if (MASK == 2) p.log_sum_errors[at] = is_fully_masked ? 0 : (row_max - log_sum) + log_total;
}

// Cumulative lengths of packed sequences, and the rows of the block's sequence (varlen.cuh).
struct Varlen {
    const i32 *cu_seqlens_q, *cu_seqlens_k;  // cu_seqlens, [sequences + 1], the first element is 0
    i64 cu_seqlens_q_stride, cu_seqlens_k_stride;
    u32 sequences;
    u32 queries, keys;  // totals over all sequences
    u32 first_query, first_key;
    i32 first_row;  // of the block, within its sequence
    u32 padded;     // queries of the sequence, rounded up to 16
};

// Split-KV forward (forward.cu with SPLIT_KV, merge_splits.cu): a workspace holds the partial
// result of each split of the keys.
struct Splits {
    // [rows, count, 2]: row max and row sum of each split; then [rows, count, VALUE_DIM]: its
    // unnormalized y. Rows are the queries of all heads.
    float* results;
    u32 rows;  // queries of all heads
    u32 count;
    u32 keys;  // per split, a multiple of STEP
};

struct Attention {
    View<const Element> q, k, v;
    View<const MaskElement> mask;
    View<Element> y;
    float* log_sums;        // LSE [batch, heads, queries], contiguous
    float* log_sum_errors;  // same shape, with an additive mask: the rounding errors of log_sums
    u32 blocks;             // tiles of queries per head
    Sizes sizes;
    DropoutParams dropout;
    Varlen varlen;
    Splits splits;
};
// Index of a query's log-sum-exp.
INLINE i64 lse_index(const Attention& p, u32 batch, u32 head, i32 query) {
    if (VARLEN) return i64(head) * p.varlen.queries + p.varlen.first_query + query;
    return i64(batch * p.sizes.heads + head) * p.sizes.queries + query;
}

struct AttentionGrad {
    View<const Element> q, k, v, y, dy;
    View<const MaskElement> mask;
    View<const float> log_sums;
    View<Element> dq, dk, dv;
    // [batch * heads, 2, padded]: the value that is subtracted from the scores, then rowsum(dy y).
    // Beyond the queries: infinity and 0, which give weights of 0.
    float* rows;
    u32 padded;
    u32 query_blocks, key_blocks;  // per query head, per key head
    Sizes sizes;
    DropoutParams dropout;
    Varlen varlen;
};
// Number of workspace rows of a head, or of the block's sequence.
INLINE i32 workspace_rows(const AttentionGrad& p) { return i32(VARLEN ? p.varlen.padded : p.padded); }

// The tile of a block. `head` is relative to its batch.
struct TileCoord {
    u32 batch, head;
    i32 first_row;
};
INLINE TileCoord tile_coord(u32 number, u32 heads, u32 blocks, bool last_first, i32 rows, const Varlen& varlen) {
    TileCoord tile;
    u32 outer = number / blocks, block = number - outer * blocks;
    tile.batch = outer / heads;
    tile.head = outer - tile.batch * heads;
    tile.first_row = VARLEN ? varlen.first_row : i32(last_first ? blocks - 1 - block : block) * rows;
    return tile;
}
