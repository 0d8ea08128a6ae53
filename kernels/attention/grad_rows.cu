// Row statistics of the attention gradient, for each query: the LSE that is subtracted from its
// scores, and rowsum(dy y).
//
//   dy, y [batch, heads, queries, value_dim], log_sums [batch, heads, queries]
//     ->  rows [batch * heads, 2, padded]
//
// Sixteen lanes process a row. Rows from the number of queries up to `padded`, a multiple of 16,
// get infinity and 0, so that their weights are 0. A query that attends to no key gets infinity,
// too. With VARLEN, each sequence begins at a multiple of 16 rows (workspace_start in varlen.cuh).
//
// Launch: attention_grad_rows<<<batch * heads * padded / 16, 256>>>. Of the macros, it depends only
// on TYPE, MASK and VARLEN.

#include "attention/params.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

constexpr int LANES = 16;
constexpr int THREADS = 256;
constexpr int PACK = 16 / sizeof(Element);
// Without a mask, the LSE of f16 and bf16 is in base 2.
constexpr float UNIT = MASK == 0 && sizeof(Element) == 2 ? LOG2_E : 1;

extern "C" __global__ void __launch_bounds__(THREADS) attention_grad_rows(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    u64 index = (u64(blockIdx.x) * THREADS + threadIdx.x) / LANES;
    u32 lane = threadIdx.x % LANES;
    u32 head = u32(index / p.padded), row = u32(index % p.padded);
    u32 query = VARLEN ? query_of_row(p.varlen, row) : row;
    u32 batch = head / p.sizes.heads, inner = head % p.sizes.heads;
    float row_dot = 0, log_sum = -INFINITE;
    if (query < p.sizes.queries) {
        View<const Element> y = head_of(p.y, batch, inner), dy = head_of(p.dy, batch, inner);
        const Element *y_row = y.first + i64(query) * y.row, *dy_row = dy.first + i64(query) * dy.row;
        for (u32 column = lane * PACK; column < p.sizes.value_dim; column += LANES * PACK) {
            Pack<Element, PACK> left = load<Element, PACK>(y_row + column),
                                right = load<Element, PACK>(dy_row + column);
#pragma unroll
            for (int e = 0; e < PACK; ++e) row_dot += widen(left.of[e]) * widen(right.of[e]);
        }
        log_sum =
            p.log_sums
                .first[i64(batch) * p.log_sums.batch + i64(inner) * p.log_sums.head + i64(query) * p.log_sums.row];
    }
#pragma unroll
    for (int lane_mask = LANES / 2; lane_mask > 0; lane_mask /= 2)
        row_dot += __shfl_xor_sync(ALL_LANES, row_dot, lane_mask);
    if (lane != 0) return;
    float* rows = p.rows + i64(head) * 2 * p.padded + row;
    rows[0] = log_sum == -INFINITE ? INFINITE : log_sum * UNIT;
    rows[p.padded] = row_dot;
}
