// Sums of what blocks of norm.cu leave of the gradients of a norm's weight and bias: partials [count, one or two sums, columns] to sums [columns].
#pragma once

#include "lib/launch.cuh"
#include "lib/rows.cuh"

struct ColumnSums {
    T* sums[2];         // each [columns]; null: not wanted
    const C* partials;  // [count, one or two sums, columns]
    u32 columns, count;
};
// 32 neighboring columns in a block: its warps take turns with the parts, and are added up in their order. As many warps as a block can
// have: what is added up is stored far apart, and each load waits for all of memory's latency. Blocks: (ceil(columns / 32), sums in the partials).
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
