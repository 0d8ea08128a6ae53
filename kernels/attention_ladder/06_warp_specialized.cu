// Attention ladder, 6: bf16 by wgmma, a warpgroup that copies and two that multiply (sm_90a), for study (attention_ladder/attention.cuh says what is
// computed, attention_ladder/warpgroups.cuh how shared memory is laid out).
//
// Idea: in 05_wgmma.cu all threads meet at a barrier for each step, so that one of them may start copies. Here copying is a role. The producer, one
// thread of a warpgroup of its own, fills a stage as soon as both consumers have released it; the consumers, 64 queries each, wait only for bytes that
// are not there yet. Two barriers for each stage, full and empty, are all that they exchange. k and v have stages of their own: a tile of keys is free
// as soon as its scores are there, before its softmax. The producer gives its registers to the consumers (setmaxnreg), which makes room for steps of
// 128 keys, and a key or value that is loaded serves the 128 queries of a block.
//
//    producer      | q | k 0 | v 0 | k 1 | v 1 | waits for k 0 to be empty .. | k 2 | ..
//                           |  full     ^  empty
//                           v           |
//    consumer 0            | q k | softmax | p v | q k | softmax | p v | ..
//    consumer 1            | q k | softmax | p v | q k | softmax | p v | ..
//
// What limits it: nothing keeps the two consumers apart. If both have their softmax at the same time, the tensor cores stand idle meanwhile.
//
// Limits: those of attention_ladder/attention.cuh and attention_ladder/warpgroups.cuh. CONSUMERS is 2.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, SHARED bytes of shared memory.

#include "attention_ladder/producer.cuh"

INLINE void consume(const MappedAttention& p, u32 shared, const Work& work, u32 consumer) {
    Ring keys = Ring::of_keys(shared), values = Ring::of_values(shared);
    u32 q_rows = shared + consumer * Q_BYTES, query = first_query_of_warp(work, consumer);
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
        begin_scores(s, q_rows, keys.tile());
        await_products<0>(s);
        keys.release();
        hide_unseen(s, query, step * STEP, p.tokens);
        online_softmax(s, state, factor, p.scale * LOG2_E);
        rescale(y, factor);
        round_to_operand(weights, s);
        values.await_full();
        begin_values(y, weights, values.tile());
        await_products<0>(y);
        values.release();
    }
    store_rows(head_of(p.y, work.head, p.tokens), y, state, query, p.tokens);
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention(const __grid_constant__ MappedAttention p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = aligned_shared(memory), warpgroup = threadIdx.x / WARPGROUP;
    Work work = Work::of_block(p.tokens);
    init_barriers(shared);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARPGROUP == 0) produce(p, shared, work);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume(p, shared, work, warpgroup);
    }
}
