// Online softmax of one step in forward_tma.cu: converts the scores of a warpgroup, 64 queries and
// STEP keys in wgmma accumulators, to weights that are not yet rounded.
// Macros: those of params.cuh, STEP and CONSUMERS.

#pragma once

#ifdef HOST_SHIM
#define CONSUMERS 2
#endif

#define ROW_TILES 1  // of 16 rows, per warp
#include "attention/key_mask.cuh"
#include "attention/softmax.cuh"
#include "attention/wgmma.cuh"

typedef float Scores[1][STEP / 8][4];

// A lane's rows.
struct SoftmaxRows : Softmax {
    bool any_large;  // in the warp; changes only when a row max does
};
INLINE void clear(SoftmaxRows& rows) {
    clear(static_cast<Softmax&>(rows));
    rows.any_large = false;
}

// For rows with large scores: subtracts the row max after both were scaled and rounded, so that the
// weight of the largest score is 1.
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

// Converts scores to weights, and adds them to the row sums. (A second version, which skipped the
// weights of 16 keys that are masked for all queries of the warp, made causal bands slower:
// docs/kernels/attention.md, What was tried.)
INLINE void exp_rows(Scores& s, SoftmaxRows& softmax, float scale) {
    float factor[2], base[2];
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float row_max = softmax.row_max[0][half];
        bool is_scaled = softmax.any_large && is_large(row_max);
        factor[half] = is_scaled ? 1 : scale;
        // If all keys so far are masked: weights of 0, not exp(-infinity + infinity).
        base[half] = is_scaled || row_max == -INFINITE ? 0 : row_max;
    }
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            s[0][j][e] = ex2_approx_ftz(fmaf(s[0][j][e], factor[e / 2], -base[e / 2]));
            softmax.row_sum[0][e / 2] += s[0][j][e];
        }
    // Keeps the compiler from moving these computations past the wait that follows.
    wgmma_fence_operand(softmax.row_sum[0][0]);
    wgmma_fence_operand(softmax.row_sum[0][1]);
    fence_accumulator(s);
}

// Converts complete products q k^T to weights. The caller must rescale y as `softmax` says.
INLINE void online_softmax(Scores& s, SoftmaxRows& softmax, const Sizes& sizes, i32 first_query, i32 first_key,
                           float scale) {
    fence_accumulator(s);
    u32 thread = read_tid_x();
    i32 query = first_query + i32(thread % 128 / WARP * 16);
    if (!is_tile_unmasked(sizes, query, query + 16, first_key, first_key + STEP))
        apply_key_mask<(CONSUMERS > 2)>(s, sizes, query, first_key, thread);
    update_row_max(softmax, s, scale);
    if (softmax.is_rescaled) softmax.any_large = any_large(softmax);
    if (softmax.any_large) scale_large_rows(s, softmax, scale);
    exp_rows(s, softmax, scale);
}
