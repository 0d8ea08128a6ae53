// Attention ladder, 7: bf16 by wgmma, two consumers that take turns at the tensor cores (sm_90a), for study (attention_ladder/attention.cuh says what is
// computed, attention_ladder/warpgroups.cuh how shared memory is laid out).
//
// Idea: exponentials are slow. In a clock a multiprocessor of Hopper makes 2048 multiply-adds of bf16 on its tensor cores, and 16 exponentials. A score of
// width 128 takes 256 of the former and one of the latter: half as long; of width 64, as long. So both must run at the same time (Shah et al. 2024,
// FlashAttention-3), by two means:
//
//   Between consumers: two named barriers let one consumer begin products while the other one has its softmax, and then the other way round.
//   Within a consumer: values lag a step behind keys. A turn begins the scores of this step and the values of the step before; once the scores are
//   there, their softmax runs under the product of values.
//
//                  tensor cores                           other units
//     consumer 0 | q k | p v before | . . . . . . . . . | . . . | s becomes p               |
//     consumer 1 | . . . . . . . .  | q k | p v before  |  becomes p | . . . . . . . | s ..
//
// Weights of the step before stay in registers while those of this one are made, and y is corrected only when its product is complete. Sums are
// made in the order of 06_warp_specialized.cu.
//
// From here to the product path (attention/forward_tma.cu): blocks that stay and take one tile of queries after the other, without a gap between them;
// y by TMA; a maximum that is replaced only when it rises far; strides, groups of heads, and other widths.
//
// Limits: those of attention_ladder/attention.cuh and attention_ladder/warpgroups.cuh. CONSUMERS is 2.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, SHARED bytes of shared memory.

#include "attention_ladder/producer.cuh"
#include "ptx/barrier.cuh"

// Whose turn it is: named barrier 1 + c for consumer c, where it waits and the other one arrives. Arrivals and waits of a barrier alternate, since each
// consumer passes as many turns on as it takes.
struct Turns {
    u32 consumer;

    INLINE static u32 barrier(u32 of) { return 1 + of; }
    // Somebody must have arrived for the first turn of all.
    INLINE void begin() const {
        if (consumer == 1) barrier_arrive(barrier(0), 2 * WARPGROUP);
    }
    INLINE void await() const { barrier_sync(barrier(consumer), 2 * WARPGROUP); }
    INLINE void pass() const { barrier_arrive(barrier(1 - consumer), 2 * WARPGROUP); }
    // Takes the turn that nobody needs any more: no barrier is left half full.
    INLINE void end() const {
        if (consumer == 0) barrier_sync(barrier(0), 2 * WARPGROUP);
    }
};

// What a consumer has in registers and rings.
struct Consumer {
    Ring keys, values;
    u32 q_rows, query, tokens;
    float scale;
    Turns turns;
    RowState state;

    INLINE Consumer(const MappedAttention& p, u32 shared, const Work& work, u32 number)
        : keys(Ring::of_keys(shared)),
          values(Ring::of_values(shared)),
          q_rows(shared + number * Q_BYTES),
          query(first_query_of_warp(work, number)),
          tokens(p.tokens),
          scale(p.scale * LOG2_E),
          turns{number} {}

    INLINE void release_keys() {
        keys.release();
        keys.advance();
    }
    INLINE void release_values() {
        values.release();
        values.advance();
    }
    // Complete scores become weights; `factor` is what y is to be multiplied by.
    INLINE void weigh(Scores& s, float (&factor)[2], u32 step) {
        hide_unseen(s, query, step * STEP, tokens);
        online_softmax(s, state, factor, scale);
    }
    // The first turn has no values.
    INLINE void first_step(Scores& s, Weights& weights) {
        float factor[2];
        keys.await_full();
        turns.await();
        begin_scores(s, q_rows, keys.tile());
        turns.pass();
        await_products<0>(s);
        release_keys();
        weigh(s, factor, 0);
        round_to_operand(weights, s);
    }
    INLINE void next_step(Scores& s, Weights& weights, Outputs& y, u32 step) {
        float factor[2];
        keys.await_full();
        values.await_full();
        turns.await();
        begin_scores(s, q_rows, keys.tile());
        begin_values(y, weights, values.tile());
        turns.pass();
        await_products<1>(s);
        release_keys();
        weigh(s, factor, step);
        fence_accumulator(s);
        await_products<0>(y);
        release_values();
        rescale(y, factor);
        round_to_operand(weights, s);
    }
    // The values of the last step, of which no scores are begun any more.
    INLINE void last_values(const Weights& weights, Outputs& y) {
        values.await_full();
        begin_values(y, weights, values.tile());
        await_products<0>(y);
        release_values();
    }
};

INLINE void consume(const MappedAttention& p, u32 shared, const Work& work, u32 number) {
    Consumer consumer(p, shared, work, number);
    Scores s;
    Weights weights;
    Outputs y;
    clear(y);
    consumer.turns.begin();
    mbarrier_wait_parity(queries_full(shared), 0);
    consumer.first_step(s, weights);
#pragma unroll 1
    for (u32 step = 1; step < work.steps; ++step) consumer.next_step(s, weights, y, step);
    consumer.turns.end();
    consumer.last_values(weights, y);
    store_rows(head_of(p.y, work.head, p.tokens), y, consumer.state, consumer.query, p.tokens);
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
