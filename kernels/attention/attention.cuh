// What the attention kernels share: their parameters, which keys a query sees, and copies to shared memory.
//
//   forward.cu, grad.cu             f16, bf16 by mma.sync (mma.cuh, sm_80 and newer) or by wgmma (wgmma.cuh, sm_90a)
//   simt_forward.cu, simt_grad.cu   f32 by fused multiply-adds (simt.cuh)
//   grad_rows.cu                    what gradients need of each query
//
// The host compiles them with
//   TYPE        the element type of all operands but the log-sum-exp
//   HEAD_DIM    the width of q and k, rounded up to 32, 64, 96 or 128; VALUE_DIM likewise that of v
//   BAND        1: a query sees keys from its number + reach_first up to but not its number + reach_end (causal, window); 0: all keys
//   MASK        0: none; 1: Truth, true where seen; 2: TYPE, added to the scaled scores
//   DROPOUT     1: weights may be dropped (then BAND is 1); 0: never
//   ALIGNED     1: of all operands but the mask and the log-sum-exp the last axis is a run, width, strides and address divide by 16 bytes,
//               and strides of rows are below 2^31 elements; 0: any layout

#pragma once

#include "lib/functions.cuh"
#include "lib/philox.cuh"
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
    u32 heads;   // query heads
    u32 group;   // query heads that share a key head
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
// begins at block state[1] + offset, under the key state[0], is at least threshold * 2^8. As kernels/random.cu drops elements.
struct Dropping {
    const i64* state;
    i64 state_stride;
    u64 offset;
    u32 threshold;  // 0: nothing is dropped
    float scale;    // of what is kept
};

struct Attention {
    View<const Element> q, k, v;
    View<const MaskElement> mask;
    View<Element> y;
    float* log_sums;  // [batch, heads, queries], without gaps
    u32 blocks;       // of queries, for each head
    Sizes sizes;
    Dropping dropping;
};

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
    Dropping dropping;
};

// Which keys a query sees: the band's and those that exist.
INLINE bool seen(const Sizes& sizes, u32 query, u32 key) {
    if (key >= sizes.keys) return false;
    if (BAND == 0) return true;
    i32 ahead = i32(key) - i32(query);
    return ahead >= sizes.reach_first && ahead < sizes.reach_end;
}
// Whether all of `queries` see all of `keys`; whether any sees any. (Both are ranges: first, and one past the last.)
INLINE bool all_seen(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    if (end_key > i32(sizes.keys)) return false;
    return BAND == 0 || (first_key - (end_query - 1) >= sizes.reach_first && end_key - 1 - first_query < sizes.reach_end);
}
INLINE bool any_seen(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    return BAND == 0 || (end_key - 1 - first_query >= sizes.reach_first && first_key - (end_query - 1) < sizes.reach_end);
}

// The keys that any of the queries sees, and the queries that see any of the keys.
struct Range {
    i32 first, end;
};
INLINE Range keys_of(const Sizes& sizes, i32 first_query, i32 end_query) {
    if (BAND == 0) return Range{0, i32(sizes.keys)};
    return Range{max(0, first_query + sizes.reach_first), min(i32(sizes.keys), end_query - 1 + sizes.reach_end)};
}
INLINE Range queries_of(const Sizes& sizes, i32 first_key, i32 end_key) {
    if (BAND == 0) return Range{0, i32(sizes.queries)};
    return Range{max(0, first_key - sizes.reach_end + 1), min(i32(sizes.queries), end_key - sizes.reach_first)};
}

// A scaled score after the mask. The key and the query exist.
INLINE float masked(float score, const View<const MaskElement>& mask, u32 query, u32 key) {
    if (MASK == 0) return score;
    MaskElement element = mask.first[i64(query) * mask.row + i64(key) * mask.column];
    if (MASK == 1) return widen(element) != 0 ? score : -INFINITE;
    return score + float(widen(element));
}

// Whether the weights of four keys in a row are kept: bits 0 to 3. Not all of the keys need exist.
struct Drawing {
    u64 seed, first;
    u32 threshold;
    INLINE static Drawing of(const Dropping& dropping) {
        Drawing drawing;
        drawing.seed = u64(dropping.state[0]);
        drawing.first = u64(dropping.state[dropping.state_stride]) + dropping.offset;
        drawing.threshold = dropping.threshold;
        return drawing;
    }
    INLINE u32 block(u64 number) const {
        Words words = philox(seed, first + number);
        u32 kept = 0;
#pragma unroll
        for (int word = 0; word < 4; ++word) kept |= words.of[word] >> 8 >= threshold ? 1u << word : 0;
        return kept;
    }
    // Of the weights from number `weight` on, which lie in two blocks of the stream where the keys' count is no multiple of 4.
    INLINE u32 four(u64 weight) const {
        u32 kept = block(weight / 4), skipped = u32(weight) % 4;
        if (skipped != 0) kept = (kept | block(weight / 4 + 1) << 4) >> skipped & 15;
        return kept;
    }
};
// Number of the weight of a key in a query of a head that is counted over the batch.
INLINE u64 weight_number(const Sizes& sizes, u32 head, i32 query, i32 key) { return (u64(head) * sizes.queries + u32(query)) * sizes.keys + u32(key); }

// What a block works on. `head` is a head within its batch.
struct Place {
    u32 batch, head;
    i32 first_row;
};
INLINE Place place_of(u32 number, u32 heads, u32 blocks, bool last_first, i32 rows) {
    Place place;
    u32 outer = number / blocks, block = number - outer * blocks;
    place.batch = outer / heads;
    place.head = outer - place.batch * heads;
    place.first_row = i32(last_first ? blocks - 1 - block : block) * rows;
    return place;
}
