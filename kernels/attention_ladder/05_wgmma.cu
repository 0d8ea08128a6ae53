// Attention ladder, 5: bf16 by wgmma, tiles by the tensor memory accelerator (sm_90a), for study (attention_ladder/attention.cuh says what is
// computed, attention_ladder/warpgroups.cuh how shared memory is laid out).
//
// Idea: two instructions of Hopper in place of ldmatrix, mma.sync and cp.async. A product is one of four warps: 64 queries and a whole step of keys.
// It reads k and v, and for scores q as well, from shared memory by itself. The weights are its left operand from registers: accumulators of wgmma are
// laid out as those of mma.sync are, and the softmax is that of 04_mma.cu. TMA brings a tile by one instruction of one thread, in the swizzle that
// wgmma reads, with zeros beyond the head's last token; its bytes count at a barrier in shared memory.
//
//    thread 0        TMA -> | q |   | k, v: stage 0 | k, v: stage 1 |
//
//    128 threads     q k | softmax | p v | q k | softmax | p v | ..       for each step: everybody waits for products, then products for everybody
//                                        ^
//                                        all warps are done with the stage: thread 0 has it filled anew
//
// Two blocks share a multiprocessor: tensor cores that one leaves idle during a softmax the other may take, by chance. What limits it: that chance,
// and that all threads stop at a barrier for one of them to start two copies.
//
// Limits: those of attention_ladder/attention.cuh and attention_ladder/warpgroups.cuh. CONSUMERS is 1.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of 128, SHARED bytes of shared memory.

#ifdef HOST_SHIM
#define CONSUMERS 1
#define STEP 64
#define STAGES 2
#endif

#include "attention_ladder/warpgroups.cuh"

static_assert(CONSUMERS == 1, "the block is one warpgroup");

// Has TMA fill the stages with a step's keys and values.
INLINE void load_both(const MappedAttention& p, Ring& keys, Ring& values, const Work& work, u32 step) {
    load_step(keys, p.k, step, work.head);
    load_step(values, p.v, step, work.head);
    keys.advance();
    values.advance();
}

extern "C" __global__ void __launch_bounds__(WARPGROUP, 2) attention(const __grid_constant__ MappedAttention p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory);
    Work work = Work::of_block(p.tokens);
    bool leads = threadIdx.x == 0;
    u32 query = work.first_query + threadIdx.x / WARP * 16;
    init_barriers(shared);
    Ring keys = Ring::of_keys(shared), values = Ring::of_values(shared), next_keys = keys, next_values = values;
    u32 loaded = 0;
    if (leads) {
        load_queries(p, shared, work);
        for (; loaded < STAGES && loaded < work.steps; ++loaded) load_both(p, next_keys, next_values, work, loaded);
    }
    __syncwarp();
    Outputs y;
    RowState state;
    clear(y);
    mbarrier_wait_parity(queries_full(shared), 0);
#pragma unroll 1
    for (u32 step = 0; step < work.steps; ++step, keys.advance(), values.advance()) {
        Scores s;
        Weights weights;
        float factor[2];
        keys.await_full();
        begin_scores(s, shared, keys.tile());
        await_products<0>(s);
        hide_unseen(s, query, step * STEP, p.tokens);
        online_softmax(s, state, factor, p.scale * LOG2_E);
        rescale(y, factor);
        round_to_operand(weights, s);
        values.await_full();
        begin_values(y, weights, values.tile());
        await_products<0>(y);
        // Each warp waits for its own products alone: the stages are free when all have.
        __syncthreads();
        if (leads && loaded < work.steps) load_both(p, next_keys, next_values, work, loaded++);
        __syncwarp();
    }
    store_rows(head_of(p.y, work.head, p.tokens), y, state, query, p.tokens);
}
