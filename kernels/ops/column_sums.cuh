// Adds the partial gradients of a norm's weight and bias, which the blocks of norm.cu write:
// partials [count, 1 or 2, columns] -> sums [columns].
#pragma once

#include "lib/launch.cuh"
#include "lib/rows.cuh"

struct ColumnSums {
    T* sums[2];         // each [columns]; null: not requested
    const C* partials;  // [count, 1 or 2, columns]
    u32 columns, count;
};
// A block adds 32 adjacent columns. Warp w adds the partials w, w + SUM_WARPS, ..; warp 0 then adds
// the sums of the warps in order. SUM_WARPS is the most warps that a block can have: the addends of
// a column are far apart in memory, and each load takes the full memory latency.
// Grid: (ceil(columns / 32), sums per partial).
constexpr int SUM_WARPS = 32;
extern "C" __global__ void __launch_bounds__(SUM_WARPS* WARP) column_sums(const __grid_constant__ ColumnSums p) {
    wait_for_earlier_launches();
    if (!p.sums[blockIdx.y]) return;
    u64 column = u64(blockIdx.x) * WARP + lane();
    const C* partials = p.partials + u64(blockIdx.y) * p.columns + column;
    u64 stride = u64(gridDim.y) * p.columns;
    C sum = 0;
    if (column < p.columns)
#pragma unroll 8
        for (u32 part = warp_of_block(); part < p.count; part += SUM_WARPS) sum += partials[part * stride];
    __shared__ C of_warps[SUM_WARPS][WARP];
    of_warps[warp_of_block()][lane()] = sum;
    __syncthreads();
    if (warp_of_block() > 0 || column >= p.columns) return;
    sum = 0;
#pragma unroll
    for (int w = 0; w < SUM_WARPS; ++w) sum += of_warps[w][lane()];
    p.sums[blockIdx.y][column] = narrow<T>(sum);
}
