// The parameters of the attention kernels, and what a block works on.
//
//   forward.cu, grad.cu             f16, bf16 by mma.sync (mma.cuh, sm_80 and newer) or by wgmma (wgmma.cuh, sm_90a)
//   simt_forward.cu, simt_grad.cu   f32 by fused multiply-adds (simt.cuh)
//   grad_rows.cu                    what gradients need of each query
//
// The host compiles them with
//   TYPE        the element type of all operands but the log-sum-exp
//   HEAD_DIM    the width of the tiles of q and k, VALUE_DIM that of v's: both the wider of the two, rounded up to 32, 64, 128, 192 or 256
//   BAND        1: a query sees keys from its number + reach_first up to but not its number + reach_end (causal, window); 0: all keys
//   MASK        0: none; 1: Truth, true where seen; 2: TYPE, added to the scaled scores
//   DROPOUT     1: weights may be dropped (then BAND is 1); 0: never
//   PARTS       1: forward leaves the results of parts of the keys; 0 or none: of all keys
//   WGMMA       1: half precision by wgmma; 0: by mma.sync
//   VARLEN      1: sequences of different lengths are stored one after another, and the batch is 1 (then BAND is 1, MASK 0); 0 or none: all are as long
//
// Of all operands but the mask and the log-sum-exp the last axis is contiguous, widths, strides and addresses are multiples of 16 bytes, and
// strides of rows are below 2^31 elements: the host copies what is not.

#pragma once

#ifndef PARTS
#define PARTS 0
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

// [batch, head, row, column], strides in elements.
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
    // Query i sees the keys from i + reach_first up to but not i + reach_end. The host bounds both by -queries and keys: no sum overflows.
    i32 reach_first, reach_end;
    float scale;
};

template <int KIND> struct MaskOf {
    typedef Element type;
};
template <> struct MaskOf<1> {
    typedef Truth type;
};
typedef MaskOf<MASK>::type MaskElement;

// Dropout of the weights, numbered as a tensor [batch, heads, queries, keys] in row-major order: weight i is kept if word i of the stream that
// begins at block state[1] + offset, under the key state[0], is at least threshold * 2^8. As ops/random.cu drops elements.
struct DropoutParams {
    const i64* state;
    i64 state_stride;
    u64 offset;
    u32 threshold;  // 0: nothing is dropped
    float scale;    // of what is kept
};

// Writes the log-sum-exp of a query's scores, whose largest is row_max and whose weights relative to it add up to total. An additive mask of -1e9
// for every key leaves no bits for the logarithm: what rounding took from it is kept beside.
template <class P> INLINE void put_log_sum(const P& p, i64 at, float row_max, float total, bool is_fully_masked) {
    float log_total = logf(total), log_sum = row_max + log_total;
    p.log_sums[at] = log_sum;
    if (MASK == 2) p.log_sum_errors[at] = is_fully_masked ? 0 : (row_max - log_sum) + log_total;
}

// Where sequences of different lengths end, and what a block's own sequence has of their rows (varlen.cuh).
struct Varlen {
    const i32 *query_ends, *key_ends;  // [sequences + 1], 0 first
    i64 query_ends_step, key_ends_step;
    u32 sequences;
    u32 queries, keys;  // of all sequences
    u32 first_query, first_key;
    i32 first_row;  // of the block, within its sequence
    u32 padded;     // of the sequence's queries, rounded up to 16
};

// Of forward by parts (forward.cu with PARTS, merge_parts.cu): the keys are cut into parts, whose results wait in a workspace.
struct Parts {
    // [rows, count, 2]: what a part's weights are relative to, and their sum; then [rows, count, VALUE_DIM]: its y, not divided. Rows are all queries.
    float* results;
    u32 rows;  // queries of all heads
    u32 count;
    u32 keys;  // of a part, a multiple of STEP
};

struct Attention {
    View<const Element> q, k, v;
    View<const MaskElement> mask;
    View<Element> y;
    float* log_sums;        // [batch, heads, queries], without gaps
    float* log_sum_errors;  // the same, under an additive mask: what rounding took from log_sums
    u32 blocks;             // of queries, for each head
    Sizes sizes;
    DropoutParams dropout;
    Varlen varlen;
    Parts parts;
};
// Where a query's log-sum-exp is.
INLINE i64 log_sum_index(const Attention& p, u32 batch, u32 head, i32 query) {
    if (VARLEN) return i64(head) * p.varlen.queries + p.varlen.first_query + query;
    return i64(batch * p.sizes.heads + head) * p.sizes.queries + query;
}

struct AttentionGrad {
    View<const Element> q, k, v, y, dy;
    View<const MaskElement> mask;
    View<const float> log_sums;
    View<Element> dq, dk, dv;
    // [batch * heads, 2, padded]: what is subtracted from scores, then rowsum(dy y). Beyond the queries: infinity and 0, for weights of 0.
    float* rows;
    u32 padded;
    u32 query_blocks, key_blocks;  // for each head, for each key head
    Sizes sizes;
    DropoutParams dropout;
    Varlen varlen;
};
// Rows of the workspace that there are of a head, or of the block's sequence.
INLINE i32 workspace_rows(const AttentionGrad& p) { return i32(VARLEN ? p.varlen.padded : p.padded); }

// What a block works on. `head` is a head within its batch.
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
