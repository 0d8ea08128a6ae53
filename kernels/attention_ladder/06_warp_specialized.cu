// Attention ladder, file 6 (warp-specialized): bf16 by wgmma, one producer warpgroup and two
// consumer warpgroups (sm_90a). A study kernel; operands and shapes are in
// attention_ladder/attention.cuh, the shared-memory layout is in attention_ladder/warpgroups.cuh.
//
// Idea: in 05_wgmma.cu all threads stop at a block barrier in each step, so that one of them can
// issue copies. Here copying is a separate role. The producer, one thread of a separate warpgroup,
// fills a stage as soon as both consumers have released it. The consumers, with 64 queries each,
// wait only for bytes that have not arrived. They synchronize with the producer only through two
// mbarriers per stage, full and empty. k and v have separate stages: a tile of keys is released as
// soon as its scores are complete, before the softmax. The producer warpgroup releases registers to
// the consumers (setmaxnreg), which makes room for steps of 128 keys. Each key or value that is
// loaded is used by the 128 queries of a block.
//
//    producer      | q | k 0 | v 0 | k 1 | v 1 | waits until k 0 is empty ..  | k 2 | ..
//                           |  full     ^  empty
//                           v           |
//    consumer 0            | q k | softmax | p v | q k | softmax | p v | ..
//    consumer 1            | q k | softmax | p v | q k | softmax | p v | ..
//
// Bottleneck: the two consumers are not synchronized with each other. If both are in their softmax
// at the same time, the tensor cores are idle.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, SHARED bytes of dynamic shared memory.
//
// Limits: those of attention.cuh and warpgroups.cuh in attention_ladder/. CONSUMERS is 2.

#include "attention_ladder/producer.cuh"

INLINE void consume(const MappedAttention& p, u32 shared, const WorkTile& work_tile, u32 consumer) {
    PipelineState keys = PipelineState::of_keys(shared), values = PipelineState::of_values(shared);
    u32 q_rows = shared + consumer * Q_BYTES, query = first_query_of_warp(work_tile, consumer);
    Outputs y;
    RowState state;
    clear(y);
    mbarrier_wait_parity(q_full_barrier(shared), 0);
#pragma unroll 1
    for (u32 step = 0; step < work_tile.steps; ++step, keys.advance(), values.advance()) {
        Scores s;
        Weights weights;
        float factor[2];
        keys.wait_full();
        issue_scores(s, q_rows, keys.tile());
        warpgroup_wait<0>(s);
        keys.release();
        apply_band_mask(s, query, step * STEP, p.tokens);
        online_softmax(s, state, factor, p.scale * LOG2_E);
        rescale(y, factor);
        round_to_operand(weights, s);
        values.wait_full();
        issue_values(y, weights, values.tile());
        warpgroup_wait<0>(y);
        values.release();
    }
    store_rows(head_of(p.y, work_tile.head, p.tokens), y, state, query, p.tokens);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention(const __grid_constant__ MappedAttention p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory), warpgroup = threadIdx.x / WARPGROUP;
    WorkTile work_tile = WorkTile::of_block(p.tokens);
    init_barriers(shared);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) produce(p, shared, work_tile);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, work_tile, warpgroup);
    }
}
