// Puts together what forward.cu has left of parts of the keys (Milakov and Gimelshein 2018; Dao et al. 2023, Flash-Decoding): of each query
//
//   max = largest of the parts'    f = 2^(part's max - max)    total = sum f part's total    y = sum f part's y / total    log_sum = max + log total
//
// Parts are summed in their order, so that two runs give the same bits. A part of which the query sees no key has a maximum of -infinity and counts for nothing;
// a score of NaN or +infinity makes its row NaN.
//
// Launch: attention_merge_parts<<<rows, 128>>>, a block for each query of each head. It knows TYPE, MASK and VALUE_DIM alone.

#include "attention/params.cuh"
#include "lib/launch.cuh"

constexpr int THREADS = 128;
constexpr int COLUMNS = (VALUE_DIM + THREADS - 1) / THREADS;
// Scores are kept as powers of two where no mask is added to them.
constexpr float UNIT = MASK == 0 ? 1 : LOG2_E;

INLINE float factor_of(float part_max, float row_max) {
    return part_max == -INFINITE ? 0 : ex2_approx_ftz((part_max - row_max) * UNIT);
}

extern "C" __global__ void __launch_bounds__(THREADS) attention_merge_parts(const __grid_constant__ Attention p) {
    wait_for_earlier_launches();
    const Parts& parts = p.parts;
    const float* numbers = parts.results + i64(blockIdx.x) * parts.count * 2;
    const float* partial =
        parts.results + i64(parts.rows) * parts.count * 2 + i64(blockIdx.x) * parts.count * VALUE_DIM;
    float row_max = -INFINITE;
    for (u32 part = threadIdx.x % WARP; part < parts.count; part += WARP) row_max = fmaxf(row_max, numbers[part * 2]);
#pragma unroll
    for (int apart = WARP / 2; apart > 0; apart /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(ALL_LANES, row_max, apart));
    float total = 0, y[COLUMNS];
#pragma unroll
    for (int at = 0; at < COLUMNS; ++at) y[at] = 0;
    // Loads of several parts are in flight at a time.
#pragma unroll 8
    for (u32 part = 0; part < parts.count; ++part) {
        float factor = factor_of(numbers[part * 2], row_max);
        total = fmaf(factor, numbers[part * 2 + 1], total);
#pragma unroll
        for (int at = 0; at < COLUMNS; ++at) {
            u32 column = at * THREADS + threadIdx.x;
            if (column < VALUE_DIM) y[at] = fmaf(factor, partial[part * VALUE_DIM + column], y[at]);
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
    if (threadIdx.x == 0) put_log_sum(p, blockIdx.x, MASK == 0 ? row_max * LN_2 : row_max, total, is_fully_masked);
}
