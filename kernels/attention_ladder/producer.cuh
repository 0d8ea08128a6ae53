// The roles of 06_warp_specialized.cu and 07_ping_pong.cu: one producer warpgroup, in which a
// single thread loads, and two consumer warpgroups.

#pragma once

#include "attention_ladder/warpgroups.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
// At launch a thread has 168 registers, 65536 / THREADS rounded down to a multiple of 8. The three
// warpgroups redistribute 3 * 168 = 504 registers: 24 + 2 * 240.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are distributed among three warpgroups");

// The producer: fills stages as soon as they are empty, in the order in which consumers read them.
INLINE void produce(const MappedAttention& p, u32 shared, const WorkTile& work_tile) {
    PipelineState keys = PipelineState::of_keys(shared), values = PipelineState::of_values(shared);
    load_queries(p, shared, work_tile);
#pragma unroll 1
    for (u32 step = 0; step < work_tile.steps; ++step, keys.advance(), values.advance()) {
        keys.wait_empty();
        load_step(keys, p.k, step, work_tile.head);
        values.wait_empty();
        load_step(values, p.v, step, work_tile.head);
    }
}

// Returns the first of the 16 queries of this warp of a consumer.
INLINE u32 first_query_of_warp(const WorkTile& work_tile, u32 consumer) {
    return work_tile.first_query + consumer * ROWS + threadIdx.x % WARPGROUP / WARP * 16;
}
