// Attention ladder, file 5 (wgmma): bf16 by wgmma, with tiles loaded by TMA (sm_90a). A study
// kernel; operands and shapes are in attention_ladder/attention.cuh, the shared-memory layout is in
// attention_ladder/warpgroups.cuh.
//
// Idea: two instructions of Hopper instead of ldmatrix, mma.sync and cp.async.
//
//   wgmma   multiplies 64 queries by a whole step of keys, by a warpgroup (four warps). It reads k
//           and v, and q for scores, from shared memory itself. The weights are its left operand
//           from registers: accumulators of wgmma have the layout of those of mma.sync, and the
//           softmax is that of 04_mma.cu.
//   TMA     copies a tile by one instruction of one thread, in the swizzle that wgmma reads, with
//           zeros after the head's last token. Its bytes count toward the phase of an mbarrier in
//           shared memory.
//
//    thread 0        TMA -> | q |   | k, v: stage 0 | k, v: stage 1 |
//
//    128 threads     q k | softmax | p v | q k | softmax | p v | ..
//                                        ^
//                                        all warps have read the stage: thread 0 refills it
//
// Within a block nothing overlaps: the threads wait for the tensor cores, then the tensor cores for
// the threads. Two blocks share a multiprocessor: by chance, one uses the tensor cores while the
// other is in its softmax. Bottleneck: this overlap is not scheduled, and all threads stop at a
// block barrier so that one of them can issue two loads.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of 128 threads, SHARED bytes of dynamic shared
// memory.
//
// Limits: those of attention.cuh and warpgroups.cuh in attention_ladder/. CONSUMERS is 1.

#ifdef HOST_SHIM
#define CONSUMERS 1
#define STEP 64
#define STAGES 2
#endif

#include "attention_ladder/warpgroups.cuh"

static_assert(CONSUMERS == 1, "the block is one warpgroup");

// Issues the TMA loads of the keys and values of a step.
INLINE void load_both(const MappedAttention& p, PipelineState& keys, PipelineState& values, const WorkTile& work_tile,
                      u32 step) {
    load_step(keys, p.k, step, work_tile.head);
    load_step(values, p.v, step, work_tile.head);
    keys.advance();
    values.advance();
}

extern "C" __global__ void __launch_bounds__(WARPGROUP, 2) attention(const __grid_constant__ MappedAttention p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    WorkTile work_tile = WorkTile::of_block(p.tokens);
    bool is_leader = threadIdx.x == 0;
    u32 query = work_tile.first_query + threadIdx.x / WARP * 16;
    init_barriers(shared);
    PipelineState keys = PipelineState::of_keys(shared), values = PipelineState::of_values(shared), next_keys = keys,
                  next_values = values;
    u32 loaded = 0;
    if (is_leader) {
        load_queries(p, shared, work_tile);
        for (; loaded < STAGES && loaded < work_tile.steps; ++loaded)
            load_both(p, next_keys, next_values, work_tile, loaded);
    }
    __syncwarp();
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
        issue_scores(s, shared, keys.tile());
        warpgroup_wait<0>(s);
        apply_band_mask(s, query, step * STEP, p.tokens);
        online_softmax(s, state, factor, p.scale * LOG2_E);
        rescale(y, factor);
        round_to_operand(weights, s);
        values.wait_full();
        issue_values(y, weights, values.tile());
        warpgroup_wait<0>(y);
        // A warp waits only for its own wgmmas: the stages are empty when all warps have waited.
        __syncthreads();
        if (is_leader && loaded < work_tile.steps) load_both(p, next_keys, next_values, work_tile, loaded++);
        __syncwarp();
    }
    store_rows(head_of(p.y, work_tile.head, p.tokens), y, state, query, p.tokens);
}
