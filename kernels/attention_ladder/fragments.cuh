// The online softmax on tensor-core accumulators, for 04_mma.cu to 07_ping_pong.cu: the work of a
// lane on its part of 16 rows of a warp.
//
// Accumulators of mma.sync and of wgmma consist of blocks of 16 rows and 8 columns. The fragment of
// lane l in each block is two adjacent columns in two rows:
//
//     columns     2 (l % 4) and 2 (l % 4) + 1
//     [0] [1]     row l / 4
//     [2] [3]     row l / 4 + 8                  [half * 2 + e]: `half` is the row, `e` the column
//
// A row is in 4 adjacent lanes: two shuffles reduce it.
//
// Two adjacent blocks, rounded to bf16, are a left operand of 16 rows and 16 columns without any
// exchange between lanes, so that weights never leave the registers.

#pragma once

#include "attention_ladder/attention.cuh"
#include "lib/types.cuh"
#include "ptx/math.cuh"

// The softmax state of a lane's two rows: the running row max, times scale log2(e), and the lane's
// part of the row sum of the weights relative to it.
struct RowState {
    float row_max[2] = {-INFINITE, -INFINITE}, row_sum[2] = {0, 0};
};

template <int BLOCKS> INLINE void clear(float (&c)[BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) c[j][e] = 0;
}

// Causal and bounds mask: scores of keys after the query, or after the last token, become
// -infinity. `query` is the first of the warp, `key` the first of the step.
template <int BLOCKS> INLINE void apply_band_mask(float (&s)[BLOCKS][4], u32 query, u32 key, u32 tokens) {
    // The first query has the fewest keys: most steps need no mask.
    if (key + BLOCKS * 8 <= key_count(query, tokens)) return;
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        i32 key_end = i32(key_count(query + half * 8 + lane / 4, tokens)) - i32(key + lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) s[j][half * 2 + e] = j * 8 + e < key_end ? s[j][half * 2 + e] : -INFINITE;
    }
}

// Replaces products q k^T with weights, 2^(scale product - row_max) with log2(e) folded into the
// scale. y is to be multiplied by `factor`. Every query attends to key 0, so that its row max is
// finite from the first step on, and 2^-infinity is 0.
template <int BLOCKS>
INLINE void online_softmax(float (&s)[BLOCKS][4], RowState& state, float (&factor)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float step_max = -INFINITE;
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j) step_max = fmaxf(step_max, fmaxf(s[j][half * 2], s[j][half * 2 + 1]));
        step_max = fmaxf(step_max, __shfl_xor_sync(ALL_LANES, step_max, 1));
        step_max = fmaxf(step_max, __shfl_xor_sync(ALL_LANES, step_max, 2));
        float row_max = fmaxf(state.row_max[half], step_max * scale);
        factor[half] = ex2_approx_ftz(state.row_max[half] - row_max);
        state.row_max[half] = row_max;
        float sum = state.row_sum[half] * factor[half];
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
            for (int e = half * 2; e < half * 2 + 2; ++e) {
                s[j][e] = ex2_approx_ftz(fmaf(s[j][e], scale, -row_max));
                sum += s[j][e];
            }
        state.row_sum[half] = sum;
    }
}

template <int BLOCKS> INLINE void rescale(float (&y)[BLOCKS][4], const float (&factor)[2]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) y[j][e] *= factor[e / 2];
}

// Rounds weights to bf16 left operands: for each 16 keys, both rows of the first 8 columns, then of
// the last 8.
template <int BLOCKS> INLINE void round_to_operand(u32 (&weights)[BLOCKS / 2][4], const float (&s)[BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            weights[j / 2][j % 2 * 2 + half] = cvt_rn_bf16x2_f32(s[j][half * 2 + 1], s[j][half * 2]);
}

// Epilogue: divides y by the row sums, rounds once, and stores it to the head's rows from `query`,
// the first of the warp, on. Nothing is stored after the last token.
template <int BLOCKS>
INLINE void store_rows(bf16* head, const float (&y)[BLOCKS][4], const RowState& state, u32 query, u32 tokens) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float sum = state.row_sum[half];
        sum += __shfl_xor_sync(ALL_LANES, sum, 1);
        sum += __shfl_xor_sync(ALL_LANES, sum, 2);
        float inverse = 1 / sum;
        u32 row = query + half * 8 + lane / 4;
        if (row >= tokens) continue;
        u32* pairs = reinterpret_cast<u32*>(head + row * WIDTH + lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j)
            pairs[j * 4] = cvt_rn_bf16x2_f32(y[j][half * 2 + 1] * inverse, y[j][half * 2] * inverse);
    }
}
