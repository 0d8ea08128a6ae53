// The roles of 06_warp_specialized.cu and 07_ping_pong.cu: a warpgroup of which one thread loads, and two that multiply.

#pragma once

#include "attention_ladder/warpgroups.cuh"
#include "ptx/registers.cuh"

constexpr int THREADS = (CONSUMERS + 1) * WARPGROUP;
// 504 registers of three warpgroups' threads: 168 each at launch, which 65536 / THREADS rounds down to.
constexpr int PRODUCER_REGISTERS = 24, CONSUMER_REGISTERS = 240;
static_assert(CONSUMERS == 2, "registers are shared out among three warpgroups");

// Fills stages as soon as they are empty, in the order in which consumers read them.
INLINE void produce(const MappedAttention& p, u32 shared, const Work& work) {
    Ring keys = Ring::of_keys(shared), values = Ring::of_values(shared);
    load_queries(p, shared, work);
#pragma unroll 1
    for (u32 step = 0; step < work.steps; ++step, keys.advance(), values.advance()) {
        keys.await_empty();
        load_step(keys, p.k, step, work.head);
        values.await_empty();
        load_step(values, p.v, step, work.head);
    }
}

// Of the 16 queries that a warp of a consumer has.
INLINE u32 first_query_of_warp(const Work& work, u32 consumer) {
    return work.first_query + consumer * ROWS + threadIdx.x % WARPGROUP / WARP * 16;
}
