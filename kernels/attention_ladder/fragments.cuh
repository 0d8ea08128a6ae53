// The online softmax on accumulators of tensor cores, for 04_mma.cu to 07_ping_pong.cu: what a lane does with its part of 16 rows of a warp.
//
// Accumulators of mma.sync and of wgmma are blocks of 16 rows and 8 columns. Lane l has, of each, two neighbors in two rows:
//
//     columns     2 (l % 4) and the next        a row is in 4 lanes that stand side by side: two shuffles reduce it
//     [0] [1]     row l / 4
//     [2] [3]     row l / 4 + 8                  [half * 2 + e]: `half` is the row, `e` the column
//
// Two blocks side by side, rounded to bf16, are a left operand of 16 rows and 16 columns as it stands, so that weights never leave the registers.

#pragma once

#include "attention_ladder/attention.cuh"
#include "lib/types.cuh"
#include "ptx/math.cuh"

// What a lane keeps of its two rows: the largest score so far, times scale log2(e), and its part of the sum of the weights relative to it.
struct RowState {
    float row_max[2] = {-INFINITE, -INFINITE}, row_sum[2] = {0, 0};
};

template <int BLOCKS> INLINE void clear(float (&c)[BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) c[j][e] = 0;
}

// Scores that a query does not see, of keys that come later or do not exist, become -infinity. `query` is the warp's first, `key` that of the step.
template <int BLOCKS> INLINE void hide_unseen(float (&s)[BLOCKS][4], u32 query, u32 key, u32 tokens) {
    // The first query sees fewest keys: most steps need no mask.
    if (key + BLOCKS * 8 <= keys_seen(query, tokens)) return;
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        i32 seen = i32(keys_seen(query + half * 8 + lane / 4, tokens)) - i32(key + lane % 4 * 2);
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) s[j][half * 2 + e] = j * 8 + e < seen ? s[j][half * 2 + e] : -INFINITE;
    }
}

// Products become weights, 2^(scale product - row_max) with log2(e) in the scale; `factor` is what y is to be multiplied by. Every query sees key 0, so
// that its maximum is finite from the first step on, and 2^-infinity is 0.
template <int BLOCKS>
INLINE void online_softmax(float (&s)[BLOCKS][4], RowState& state, float (&factor)[2], float scale) {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        float found = -INFINITE;
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j) found = fmaxf(found, fmaxf(s[j][half * 2], s[j][half * 2 + 1]));
        found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 1));
        found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 2));
        float row_max = fmaxf(state.row_max[half], found * scale);
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

// Weights, rounded to bf16, as left operands: of each 16 keys the rows' first 8 columns, then their last 8.
template <int BLOCKS> INLINE void round_to_operand(u32 (&weights)[BLOCKS / 2][4], const float (&s)[BLOCKS][4]) {
#pragma unroll
    for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
        for (int half = 0; half < 2; ++half)
            weights[j / 2][j % 2 * 2 + half] = cvt_rn_bf16x2_f32(s[j][half * 2 + 1], s[j][half * 2]);
}

// y divided by the sums of its weights, rounded once, into the head's rows from the warp's first one on; nothing is stored beyond the last token.
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
