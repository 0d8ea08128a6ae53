// The softmax of a step in forward_tma.cu: scores of a warpgroup, 64 queries and STEP keys in accumulators of wgmma, become weights that are not yet rounded.
// Macros: those of params.cuh, STEP and CONSUMERS.

#pragma once

#ifdef HOST_SHIM
#define CONSUMERS 2
#endif

#define ROW_TILES 1  // of 16 rows, of a warp
#include "attention/hide_keys.cuh"
#include "attention/softmax.cuh"
#include "attention/wgmma.cuh"

typedef float Scores[1][STEP / 8][4];

// A lane's rows.
struct Rows : Softmax {
    bool any_large;  // of the warp's rows; a maximum that stays tells nothing new
};
INLINE void clear(Rows& rows) {
    clear(static_cast<Softmax&>(rows));
    rows.any_large = false;
}

// Of rows whose scores are large: these less the maximum, both rounded once scaled, so that the maximum's weight is 1.
INLINE void scale_large_rows(Scores& s, const Softmax& softmax, float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float row_max = softmax.row_max[0][half];
        if (!is_large(row_max)) continue;
#pragma unroll
        for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
            for (int e = half * 2; e < half * 2 + 2; ++e) s[0][j][e] = __fmul_rn(s[0][j][e], scale) - row_max;
    }
}

// Scores become weights. (A second form of this that does not compute the weights of 16 keys that no query of the warp sees made causal bands slower:
// docs/kernels/attention.md, What was tried.)
INLINE void exp_rows(Scores& s, Rows& softmax, float scale) {
    float factor[2], base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float row_max = softmax.row_max[0][half];
        bool is_scaled = softmax.any_large && is_large(row_max);
        factor[half] = is_scaled ? 1 : scale;
        // A row of which nothing has been seen yet: weights of 0, not of exp(-infinity + infinity).
        base[half] = is_scaled || row_max == -INFINITE ? 0 : row_max;
    }
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            s[0][j][e] = ex2_approx_ftz(fmaf(s[0][j][e], factor[e / 2], -base[e / 2]));
            softmax.row_sum[0][e / 2] += s[0][j][e];
        }
    // Before the wait that follows, not behind it.
    wgmma_fence_operand(softmax.row_sum[0][0]);
    wgmma_fence_operand(softmax.row_sum[0][1]);
    fence_accumulator(s);
}

// Complete products become weights. y is to be rescaled as the softmax says.
INLINE void weigh(Scores& s, Rows& softmax, const Sizes& sizes, i32 first_query, i32 first_key, float scale) {
    fence_accumulator(s);
    u32 thread = read_tid_x();
    i32 query = first_query + i32(thread % 128 / WARP * 16);
    if (!all_seen(sizes, query, query + 16, first_key, first_key + STEP))
        hide_keys<(CONSUMERS > 2)>(s, sizes, query, first_key, thread);
    update_row_max(softmax, s, scale);
    if (softmax.is_rescaled) softmax.any_large = any_large(softmax);
    if (softmax.any_large) scale_large_rows(s, softmax, scale);
    exp_rows(s, softmax, scale);
}
