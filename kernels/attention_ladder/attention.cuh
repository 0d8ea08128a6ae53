// What the kernels of the attention ladder compute, and their parameters.
//
//   y = softmax(scale q k^T) v        q, k, v and y [heads, tokens, WIDTH], row-major without gaps
//
// `heads` is the number of heads of the whole batch; heads are independent. Row i of q, query i,
// has a score for each key, row j of k. Its row of y is the mean of the rows of v, weighted by the
// softmax of the scores.
//
// The ladder is for study and measurement (docs/kernels/attention-ladder.md); attention ops use the
// kernels in attention/.
//
// Macros: WIDTH, the head dimension: 64 or 128. CAUSAL: with 1, query i attends to keys 0 to i;
// with 0, to all keys.
//
// Limits: inputs and scores are finite; the scale is greater than 0; there is at least one token.

#pragma once

#ifdef HOST_SHIM
#define WIDTH 64
#define CAUSAL 1
#endif

#include "lib/base.cuh"

static_assert(WIDTH == 64 || WIDTH == 128, "WIDTH is a supported head dimension");

constexpr float LOG2_E = 1.4426950408889634f;

template <class T> struct Attention {
    T* y;
    const T* q;
    const T* k;
    const T* v;
    // Workspace of 01_naive.cu and 02_tiled.cu, which store scores: [heads, tokens, pitch]. The
    // pitch is `tokens` rounded up to a multiple of 4, so that rows are aligned to 16 bytes.
    float* scores;
    u32 tokens, pitch;
    float scale;
};

// Returns the rows of a head of q, k, v or y.
template <class T> INLINE T* head_of(T* rows, u32 head, u32 tokens) { return rows + i64(head) * tokens * WIDTH; }

// Returns the number of keys that a query attends to. They are the first ones.
INLINE u32 key_count(u32 query, u32 tokens) { return CAUSAL ? min(query + 1, tokens) : tokens; }
