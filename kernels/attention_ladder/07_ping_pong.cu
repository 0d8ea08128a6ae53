// Attention ladder, file 7 (ping-pong): bf16 by wgmma, two consumers that alternate on the tensor
// cores (sm_90a). A study kernel; operands and shapes are in attention_ladder/attention.cuh, the
// shared-memory layout is in attention_ladder/warpgroups.cuh.
//
// Idea: exponentials are slow. Per clock, a multiprocessor of Hopper does 2048 bf16 multiply-adds
// on its tensor cores and 16 exponentials. A score takes 2 WIDTH multiply-adds and one exponential:
// with width 128 the exponential takes half as long as the 256 multiply-adds, with width 64 as long
// as the 128. So both must run at the same time (Shah et al. 2024, FlashAttention-3), by two means:
//
//   Between consumers: two named barriers let one consumer issue its products while the other is in
//   its softmax, and then the other way around.
//   Within a consumer: values lag one step behind keys. An iteration issues q k^T of step i and p v
//   of step i - 1. When the scores are complete, their softmax overlaps with p v.
//
//                  tensor cores, time ->                other units, time ->
//     consumer 0 | q k i | p v i-1 | . . . . . . . . | . . . | softmax i               |
//     consumer 1 | . . . . . . . . | q k i | p v i-1 |  softmax i-1 | . . . . . | softmax i ..
//
// The weights of step i - 1 stay in registers while those of step i are computed. y is rescaled
// only when p v of step i - 1 is complete. The accumulation order is that of
// 06_warp_specialized.cu.
//
// What the kernel of the attention op (attention/forward_tma.cu) adds: a persistent grid that
// computes one work tile of queries after another without a gap; y stored by TMA; a row max that is
// replaced only when it rises far; strides, grouped-query attention, and other head dimensions.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, SHARED bytes of dynamic shared memory.
//
// Limits: those of attention.cuh and warpgroups.cuh in attention_ladder/. CONSUMERS is 2.

#include "attention_ladder/producer.cuh"
#include "ptx/barrier.cuh"

// Ping-pong order of the consumers: consumer c waits on named barrier 1 + c, and the other consumer
// arrives there. Arrivals and waits on a barrier alternate, since a consumer arrives as often as it
// waits.
struct SchedulerBarriers {
    u32 consumer;

    INLINE static u32 barrier(u32 of) { return 1 + of; }
    // Consumer 1 arrives in advance, so that consumer 0 gets the first turn.
    INLINE void begin() const {
        if (consumer == 1) barrier_arrive(barrier(0), 2 * WARPGROUP);
    }
    INLINE void sync() const { barrier_sync(barrier(consumer), 2 * WARPGROUP); }
    INLINE void arrive() const { barrier_arrive(barrier(1 - consumer), 2 * WARPGROUP); }
    // Consumer 0 takes the last arrival of consumer 1, so that no barrier is left incomplete.
    INLINE void end() const {
        if (consumer == 0) barrier_sync(barrier(0), 2 * WARPGROUP);
    }
};

// The state of a consumer: ring positions, parameters and softmax state.
struct Consumer {
    PipelineState keys, values;
    u32 q_rows, query, tokens;
    float scale;
    SchedulerBarriers scheduler_barriers;
    RowState state;

    INLINE Consumer(const MappedAttention& p, u32 shared, const WorkTile& work_tile, u32 consumer_index)
        : keys(PipelineState::of_keys(shared)),
          values(PipelineState::of_values(shared)),
          q_rows(shared + consumer_index * Q_BYTES),
          query(first_query_of_warp(work_tile, consumer_index)),
          tokens(p.tokens),
          scale(p.scale * LOG2_E),
          scheduler_barriers{consumer_index} {}

    INLINE void release_keys() {
        keys.release();
        keys.advance();
    }
    INLINE void release_values() {
        values.release();
        values.advance();
    }
    // Masks complete scores and replaces them with weights. y is to be multiplied by `factor`.
    INLINE void mask_and_softmax(Scores& s, float (&factor)[2], u32 step) {
        apply_band_mask(s, query, step * STEP, tokens);
        online_softmax(s, state, factor, scale);
    }
    // Prologue: step 0 has scores only.
    INLINE void first_step(Scores& s, Weights& weights) {
        float factor[2];
        keys.wait_full();
        scheduler_barriers.sync();
        issue_scores(s, q_rows, keys.tile());
        scheduler_barriers.arrive();
        warpgroup_wait<0>(s);
        release_keys();
        mask_and_softmax(s, factor, 0);
        round_to_operand(weights, s);
    }
    // Main loop: scores of `step`, values of the previous step.
    INLINE void next_step(Scores& s, Weights& weights, Outputs& y, u32 step) {
        float factor[2];
        keys.wait_full();
        values.wait_full();
        scheduler_barriers.sync();
        issue_scores(s, q_rows, keys.tile());
        issue_values(y, weights, values.tile());
        scheduler_barriers.arrive();
        warpgroup_wait<1>(s);
        release_keys();
        mask_and_softmax(s, factor, step);
        fence_accumulator(s);
        warpgroup_wait<0>(y);
        release_values();
        rescale(y, factor);
        round_to_operand(weights, s);
    }
    // Epilogue: the values of the last step.
    INLINE void last_values(const Weights& weights, Outputs& y) {
        values.wait_full();
        issue_values(y, weights, values.tile());
        warpgroup_wait<0>(y);
        release_values();
    }
};

INLINE void consume(const MappedAttention& p, u32 shared, const WorkTile& work_tile, u32 consumer_index) {
    Consumer consumer(p, shared, work_tile, consumer_index);
    Scores s;
    Weights weights;
    Outputs y;
    clear(y);
    consumer.scheduler_barriers.begin();
    mbarrier_wait_parity(q_full_barrier(shared), 0);
    consumer.first_step(s, weights);
#pragma unroll 1
    for (u32 step = 1; step < work_tile.steps; ++step) consumer.next_step(s, weights, y, step);
    consumer.scheduler_barriers.end();
    consumer.last_values(weights, y);
    store_rows(head_of(p.y, work_tile.head, p.tokens), y, consumer.state, consumer.query, p.tokens);
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
