// Merges the partial results of the split-KV forward.cu (Milakov and Gimelshein 2018; Dao et al.
// 2023, Flash-Decoding). For each query:
//
//   max     = largest row max of the splits   f = 2^(split's max - max); e^(..) with a mask
//   total   = sum of f * split's total        y = sum of f * split's y / total
//   log_sum = max + log total
//
// Splits are summed in order, so that two runs are bit-equal. A split in which all keys are masked
// for the query has a max of -infinity and is ignored. A score of NaN or +infinity makes its row
// NaN.
//
// Launch: attention_merge_splits<<<rows, 128>>>, one block per query of each head. Of the macros it
// uses only TYPE, MASK and VALUE_DIM.

#include "attention/params.cuh"
#include "lib/launch.cuh"

constexpr int THREADS = 128;
constexpr int COLUMNS = (VALUE_DIM + THREADS - 1) / THREADS;
// Without a mask, the scores are in base 2: multiplied by log2(e). With a mask they are in base e.
constexpr float TO_BASE_2 = MASK == 0 ? 1 : LOG2_E;

INLINE float factor_of(float part_max, float row_max) {
    return part_max == -INFINITE ? 0 : ex2_approx_ftz((part_max - row_max) * TO_BASE_2);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_merge_splits(const __grid_constant__ Attention p) {
    wait_for_earlier_launches();
    const Splits& splits = p.splits;
    const float* statistics = splits.results + i64(blockIdx.x) * splits.count * 2;
    const float* partial =
        splits.results + i64(splits.rows) * splits.count * 2 + i64(blockIdx.x) * splits.count * VALUE_DIM;
    float row_max = -INFINITE;
    for (u32 split = threadIdx.x % WARP; split < splits.count; split += WARP)
        row_max = fmaxf(row_max, statistics[split * 2]);
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(ALL_LANES, row_max, apart));
    float total = 0, y[COLUMNS];
#pragma unroll
    for (int at = 0; at < COLUMNS; ++at) y[at] = 0;
    // Keeps the loads of several splits in flight.
#pragma unroll 8
    for (u32 split = 0; split < splits.count; ++split) {
        float factor = factor_of(statistics[split * 2], row_max);
        total = fmaf(factor, statistics[split * 2 + 1], total);
#pragma unroll
        for (int at = 0; at < COLUMNS; ++at) {
            u32 column = at * THREADS + threadIdx.x;
            if (column < VALUE_DIM) y[at] = fmaf(factor, partial[split * VALUE_DIM + column], y[at]);
        }
    }
    bool is_fully_masked = row_max == -INFINITE && total == 0;
    u32 head = blockIdx.x / p.sizes.queries, query = blockIdx.x - head * p.sizes.queries;
    u32 batch = head / p.sizes.heads;
    View<Element> to = head_of(p.y, batch, head - batch * p.sizes.heads);
#pragma unroll
    for (int at = 0; at < COLUMNS; ++at) {
        u32 column = at * THREADS + threadIdx.x;
        if (column >= p.sizes.value_dim) continue;
        to.first[i64(query) * to.row + column] = narrow<Element>(is_fully_masked ? 0 : y[at] / total);
    }
    if (threadIdx.x == 0) store_lse(p, blockIdx.x, MASK == 0 ? row_max * LN_2 : row_max, total, is_fully_masked);
}
