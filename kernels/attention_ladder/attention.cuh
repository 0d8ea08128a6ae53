// What the kernels of the attention ladder compute, and their parameters.
//
//   y = softmax(scale q k^T) v        q, k, v and y [heads, tokens, WIDTH], row-major without gaps
//
// `heads` counts the heads of the whole batch; each is computed by itself. Row i of q, query i, has a score for each key, row j of k; its row of y is
// the mean of the rows of v, weighted by the softmax of the scores.
//
// The ladder is for study and measurement (docs/kernels/attention-ladder.md); attention of tensors runs by the kernels in attention/.
//
// Macros: WIDTH, 64 or 128, and CAUSAL: 1, query i sees the keys 0 to i; 0, it sees all.
//
// Limits: inputs are finite, and so are their scores; the scale is above 0; any number of tokens above 0.

#pragma once

#ifdef HOST_SHIM
#define WIDTH 64
#define CAUSAL 1
#endif

#include "lib/base.cuh"

static_assert(WIDTH == 64 || WIDTH == 128, "a row has whole tiles of columns");

constexpr float LOG2_E = 1.4426950408889634f;

template <class T> struct Attention {
    T* y;
    const T* q;
    const T* k;
    const T* v;
    // Scratch of the forms that store scores, [heads, tokens, pitch]. The pitch is `tokens` rounded up to 4: rows begin at multiples of 16 bytes.
    float* scores;
    u32 tokens, pitch;
    float scale;
};

// A head's rows of q, k, v or y.
template <class T> INLINE T* head_of(T* rows, u32 head, u32 tokens) { return rows + i64(head) * tokens * WIDTH; }

// How many keys a query sees: the first ones.
INLINE u32 keys_seen(u32 query, u32 tokens) { return CAUSAL ? min(query + 1, tokens) : tokens; }
