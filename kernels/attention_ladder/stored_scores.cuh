// Shared by 01_naive.cu and 02_tiled.cu: scores in global memory, and the softmax of their rows in
// place.

#pragma once

#include "attention_ladder/attention.cuh"

constexpr int THREADS = 256;
constexpr int ROWS_OF_SOFTMAX = THREADS / WARP;  // rows of a block, one per warp

INLINE float* scores_of(const Attention<float>& p, u32 head) { return p.scores + i64(head) * p.tokens * p.pitch; }

INLINE float warp_reduce_max(float x) {
#pragma unroll
    for (int lanes = 1; lanes < WARP; lanes *= 2) x = fmaxf(x, __shfl_xor_sync(ALL_LANES, x, lanes));
    return x;
}
INLINE float warp_reduce_sum(float x) {
#pragma unroll
    for (int lanes = 1; lanes < WARP; lanes *= 2) x += __shfl_xor_sync(ALL_LANES, x, lanes);
    return x;
}

// Replaces a row of scores with weights, in three passes: row max; exponentials and row sum;
// division. Masked weights and the padding up to the pitch become 0, because `values` of
// 02_tiled.cu reads them.
//
// Launch: ceil(tokens / ROWS_OF_SOFTMAX) x heads blocks.
INLINE void softmax_of_row(const Attention<float>& p) {
    u32 query = blockIdx.x * ROWS_OF_SOFTMAX + threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (query >= p.tokens) return;
    float* row = scores_of(p, blockIdx.y) + i64(query) * p.pitch;
    u32 key_end = key_count(query, p.tokens);
    float row_max = -INFINITE, sum = 0;
    for (u32 key = lane; key < key_end; key += WARP) row_max = fmaxf(row_max, row[key]);
    row_max = warp_reduce_max(row_max);
    for (u32 key = lane; key < key_end; key += WARP) {
        float weight = expf(row[key] - row_max);
        row[key] = weight;
        sum += weight;
    }
    sum = warp_reduce_sum(sum);
    for (u32 key = lane; key < p.pitch; key += WARP) row[key] = key < key_end ? row[key] / sum : 0;
}
