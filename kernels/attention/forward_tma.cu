// forward.cu for f16 and bf16 by warpgroups (wgmma, sm_90a), without mask, with operands and results copied by the tensor memory accelerator (TMA):
// y = dropout(softmax(scale q k^T)) v and the log-sum-exp of the scores. Which weights dropout keeps has been drawn before (dropout_bits.cuh).
//
//   q [batch, heads, queries, head_dim]   k [batch, heads / group, keys, head_dim]   v [batch, heads / group, keys, value_dim]
//   y [batch, heads, queries, value_dim]  log_sums [batch, heads, queries], natural logarithms in f32
//
// A work is QUERIES rows of one head, 64 for each of the consumers, and a walk over the keys that any of them sees, STEP at a time. The grid is as
// large as the device; a block takes one work after the other, by a ticket:
//
//   producer (a thread)   q of a work, k and v of a step   ---TMA--->  rings of QUERY_STAGES and of STAGES buffers
//   storer (a thread)     y of a work                      <--TMA----  where q was
//   consumers (128 threads each, 64 queries)
//
//                 tensor cores                          other units
//     consumer 0 | q k | p v before | . . . . . . . .  |  . . . | s becomes p               |
//     consumer 1 | . . . . . . . .  | q k | p v before |  becomes p | . . . . . . . | s ...
//
// Products of one consumer run under the softmax of the other one: they take turns at the tensor cores, and values lag a step behind keys, so
// that a turn is two products, of which the second one runs under the softmax of the first. Steps of one work follow those of the work before
// without a gap: the last values of a work are multiplied beside the first keys of the next one. (Not where shared memory has one buffer of q, of
// wide heads: there a work begins when y of the one before has left the place of q, and only its keys and values have come meanwhile.)
//
// Works that have most keys to see begin first: the last tiles of queries of a causal band. `abreast` heads have their works next to each other, so
// that their keys and values stay in the cache. Every result is of one work: no number depends on which block does what.
//
// Rows keep an older maximum for as long as the new one is less than 2^8 above it, see softmax.cuh. A query that sees no key gives 0 and a
// log-sum-exp of -infinity; a score of NaN or +infinity makes its row NaN.
//
// Macros: those of params.cuh, and CONSUMERS, STEP, STAGES, QUERY_STAGES.
//
// Launch: attention_tma<<<grid, THREADS, SHARED>>>, with grid = works or multiprocessors, whichever is less, and works = batch * heads * tiles.
//
// Limits: as forward.cu; widths are rounded up to 64, 128, 192 or 256; there are queries and keys; the scale is above 0; strides are positive (TMA); *ticket
// is 0 before and behind. MASK is 0; with DROPOUT, STEP is 64 or 128 and BAND 1, and a launch is of some heads.

#ifdef HOST_SHIM
#undef DROPOUT
#define DROPOUT 0
#define CONSUMERS 2
#define STEP 64
#define STAGES 2
#define QUERY_STAGES 3
#endif

#include "attention/dropout_bits.cuh"
#include "attention/wgmma.cuh"
#include "ptx/barrier.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/tma.cuh"
#define WGMMA_N STEP  // of scores
#include "attention/warpgroup_softmax.cuh"
#include "ptx/wgmma_ss.cuh"

static_assert(HEAD_DIM == VALUE_DIM, "y takes the place of q");
static_assert(!DROPOUT || BIT_KEYS % STEP == 0, "a lane's bits of a step are in two words");

constexpr int WARPGROUP = 128;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
// Together as many as there are at launch: 65536 / THREADS, rounded down to a multiple of 8, for each thread.
// A producer that loads ahead does not do with 24.
constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : QUERY_STAGES == 1 ? 40 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : QUERY_STAGES == 1 ? 232 : 240;
// Whether y waits in registers, rounded, and is stored while the next products are formed, in place of before they begin. Wider heads and three consumers
// have no use for it, or no registers (docs/kernels/attention.md).
constexpr bool STORES_LATE = CONSUMERS == 2 && HEAD_DIM == 64;
static_assert(!STORES_LATE || QUERY_STAGES > 2, "places of y, of the q at hand and of the next q");

constexpr int ROWS = 64;  // of a consumer
constexpr int QUERIES = CONSUMERS * ROWS;
constexpr int SLAB_COLUMNS = 64;
constexpr int SLABS = HEAD_DIM / SLAB_COLUMNS;

// What is where in shared memory.
constexpr int ROWS_BYTES = ROWS * HEAD_DIM * 2;
constexpr int Q_BYTES = CONSUMERS * ROWS_BYTES;
constexpr int STEP_BYTES = STEP * HEAD_DIM * 2;  // of keys or of values
constexpr int K_TILES = QUERY_STAGES * Q_BYTES;
constexpr int V_TILES = K_TILES + STAGES * STEP_BYTES;
constexpr int BARRIERS = V_TILES + STAGES * STEP_BYTES;
// Of each stage of q: it is there, y is there in its place, it is free. Of each stage of k and of v: full and empty.
constexpr int BARRIER_COUNT = 3 * QUERY_STAGES + 4 * STAGES;
constexpr int TASKS = BARRIERS + (BARRIER_COUNT + 1) / 2 * 16;  // of each stage of q, read as one word of 16 bytes
constexpr int TASK_BYTES = 16;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = TASKS + QUERY_STAGES * TASK_BYTES + SWIZZLE_ALIGNMENT

struct AttentionTma {
    TensorMap q, k, v, y;  // axes: column, row, head, batch
    float* log_sums;       // [batch, heads, queries], without gaps
    u32* ticket;           // of the works beyond the grid; 0 again when all are drawn
    u32 works;
    u32 tiles;    // of queries, of a head
    u32 heads;    // of the whole batch; of this launch, with DROPOUT
    u32 abreast;  // heads whose works are next to each other
    Sizes sizes;
    const u32* bits;  // with DROPOUT
    BitLayout bit_layout;
    float dropout_scale;
};

// A work as the producer says it to the others. No steps: there are no more works.
struct Task {
    u32 head;  // counted over the batch
    i32 first_query;
    i32 first_key, steps;

    INLINE static Task none() { return Task{0, 0, 0, 0}; }
    INLINE static Task of(const AttentionTma& p, u32 number) {
        u32 group_works = p.abreast * p.tiles, group = number / group_works;
        number -= group * group_works;
        u32 first = group * p.abreast, abreast = min(p.abreast, p.heads - first);
        u32 row = number / abreast;
        Task task;
        task.head = (DROPOUT ? p.bit_layout.first_head : 0) + first + number - row * abreast;
        task.first_query = i32(p.tiles - 1 - row) * QUERIES;
        Range keys = keys_of(p.sizes, task.first_query, min(task.first_query + QUERIES, i32(p.sizes.queries)));
        // One step of which nothing is seen is what remains of none.
        bool any = keys.first < keys.end;
        task.first_key = any ? keys.first / STEP * STEP : 0;
        task.steps = any ? (keys.end - task.first_key + STEP - 1) / STEP : 1;
        return task;
    }
};

// The buffers of q, and later of y.
struct QueryRing {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE QueryRing(u32 first) : shared(first) {}
    INLINE u32 rows(u32 consumer) const { return shared + stage * Q_BYTES + consumer * ROWS_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS + stage * 8; }
    INLINE u32 done() const { return full() + QUERY_STAGES * 8; }
    INLINE u32 empty() const { return done() + QUERY_STAGES * 8; }
    INLINE void advance() {
        stage = stage == QUERY_STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }

    INLINE void put(const Task& task) const {
        u32 words[4] = {task.head, u32(task.first_query), u32(task.first_key), u32(task.steps)};
        st_shared_v4(shared + TASKS + stage * TASK_BYTES, words);
    }
    // Waits for the next work.
    INLINE Task await() const {
        mbarrier_wait_parity(full(), parity);
        uint4 words = ld_shared_v4(shared + TASKS + stage * TASK_BYTES);
        return Task{words.x, i32(words.y), i32(words.z), i32(words.w)};
    }
};
// The buffers of k, or those of v.
struct StepRing {
    u32 tiles, barriers;
    u32 stage = 0, parity = 0;

    INLINE static StepRing of_keys(u32 shared) {
        return StepRing{shared + K_TILES, shared + BARRIERS + 3 * QUERY_STAGES * 8};
    }
    INLINE static StepRing of_values(u32 shared) {
        return StepRing{shared + V_TILES, shared + BARRIERS + (3 * QUERY_STAGES + 2 * STAGES) * 8};
    }
    INLINE u32 tile() const { return tiles + stage * STEP_BYTES; }
    INLINE u32 full() const { return barriers + stage * 8; }
    INLINE u32 empty() const { return full() + STAGES * 8; }
    INLINE void await() const { mbarrier_wait_parity(full(), parity); }
    // A warp is done with it, behind products that all its lanes have waited for.
    INLINE void release() const {
        if (read_tid_x() % WARP == 0) mbarrier_arrive(empty());
    }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// ---------------------------------------------------------------- producer, storer

// A step's keys or values.
INLINE void load_step(StepRing& ring, const TensorMap& map, i32 row, u32 head, u32 batch) {
    mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
    mbarrier_arrive_expect_tx(ring.full(), STEP_BYTES);
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
        cp_async_bulk_tensor_4d(ring.tile() + slab * STEP * 128, map, slab * SLAB_COLUMNS, row, head, batch,
                                ring.full());
    ring.advance();
}
// Takes works until there are no more: first that of the block's number, then those beyond the grid.
INLINE void produce_all(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
    StepRing keys = StepRing::of_keys(shared), values = StepRing::of_values(shared);
    u32 number = read_ctaid_x();
#pragma unroll 1
    for (;; queries.advance()) {
        mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
        if (number >= p.works) break;
        Task task = Task::of(p, number);
        queries.put(task);
        mbarrier_arrive_expect_tx(queries.full(), Q_BYTES);
        u32 batch = task.head / p.sizes.heads, head = task.head - batch * p.sizes.heads;
#pragma unroll
        for (int at = 0; at < CONSUMERS * SLABS; ++at)
            cp_async_bulk_tensor_4d(queries.rows(0) + at * (ROWS * 128), p.q, at % SLABS * SLAB_COLUMNS,
                                    task.first_query + at / SLABS * ROWS, head, batch, queries.full());
        head /= p.sizes.group;
#pragma unroll 1
        for (i32 step = 0; step < task.steps; ++step) {
            load_step(keys, p.k, task.first_key + step * STEP, head, batch);
            load_step(values, p.v, task.first_key + step * STEP, head, batch);
        }
        // As many are drawn as there are works, one of each block in vain: the last one leaves 0.
        number = gridDim.x + atomicInc(p.ticket, p.works - 1);
    }
    queries.put(Task::none());
    mbarrier_arrive(queries.full());
}
// What a work is, and its q, when the place of these is free.
INLINE void load_queries(const AttentionTma& p, const QueryRing& queries, const Task& task, u32 batch) {
    mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
    queries.put(task);
    mbarrier_arrive_expect_tx(queries.full(), Q_BYTES);
    u32 head = task.head - batch * p.sizes.heads;
#pragma unroll
    for (int at = 0; at < CONSUMERS * SLABS; ++at)
        cp_async_bulk_tensor_4d(queries.rows(0) + at * (ROWS * 128), p.q, at % SLABS * SLAB_COLUMNS,
                                task.first_query + at / SLABS * ROWS, head, batch, queries.full());
}
// The same with one buffer of q, which waits for y to leave it. As many steps as have buffers come first: the work before gives those back without it.
INLINE void produce_all_ahead(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
    StepRing keys = StepRing::of_keys(shared), values = StepRing::of_values(shared);
#pragma unroll 1
    for (u32 number = read_ctaid_x(); number < p.works; queries.advance()) {
        Task task = Task::of(p, number);
        u32 batch = task.head / p.sizes.heads, key_head = (task.head - batch * p.sizes.heads) / p.sizes.group;
        i32 ahead = min(task.steps, STAGES);
#pragma unroll 1
        for (i32 step = 0;; ++step) {
            if (step == ahead) load_queries(p, queries, task, batch);
            if (step >= task.steps) break;
            load_step(keys, p.k, task.first_key + step * STEP, key_head, batch);
            load_step(values, p.v, task.first_key + step * STEP, key_head, batch);
        }
        number = gridDim.x + atomicInc(p.ticket, p.works - 1);
    }
    mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
    queries.put(Task::none());
    mbarrier_arrive(queries.full());
}
// Stores what the consumers have left in the place of q, and gives the place back.
INLINE void store_all(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
#pragma unroll 1
    for (;; queries.advance()) {
        Task task = queries.await();
        if (task.steps == 0) return;
        u32 batch = task.head / p.sizes.heads, head = task.head - batch * p.sizes.heads;
        mbarrier_wait_parity(queries.done(), queries.parity);
#pragma unroll
        for (int at = 0; at < CONSUMERS * SLABS; ++at) {
            i32 column = at % SLABS * SLAB_COLUMNS, row = task.first_query + at / SLABS * ROWS;
            if (column < i32(p.sizes.value_dim) && row < i32(p.sizes.queries))
                cp_async_bulk_tensor_store_4d(p.y, column, row, head, batch, queries.rows(0) + at * (ROWS * 128));
        }
        cp_async_bulk_commit_group();
        cp_async_bulk_wait_group_read<0>();
        mbarrier_arrive(queries.empty());
    }
}

// ---------------------------------------------------------------- consumers

typedef float Outputs[1][VALUE_DIM / 8][4];
typedef u32 Weights[1][STEP / 16][4];

// Consumers begin their products in turn: a barrier for each, which the one before arrives at.
struct Turns {
    u32 consumer;

    INLINE static u32 barrier(u32 of) { return 1 + of; }
    // All warps of the consumer are here: their products of q are complete, and y may take its place.
    INLINE void meet() const { barrier_sync(1 + CONSUMERS + consumer, WARPGROUP); }
    // The first one need not wait for its first turn.
    INLINE void begin() const {
        if (consumer == CONSUMERS - 1) barrier_arrive(barrier(0), 2 * WARPGROUP);
    }
    INLINE void await() const { barrier_sync(barrier(consumer), 2 * WARPGROUP); }
    INLINE void pass() const { barrier_arrive(barrier(consumer == CONSUMERS - 1 ? 0 : consumer + 1), 2 * WARPGROUP); }
    // The turn that the last one has passed on to the first one.
    INLINE void end() const {
        if (consumer == 0) barrier_sync(barrier(0), 2 * WARPGROUP);
    }
};

// s = q k^T of a consumer's queries and a step, begun.
INLINE void begin_scores(Scores& s, u32 q_rows, u32 k_tile) {
    u64 a = smem_descriptor(q_rows, 16, 1024), b = smem_descriptor(k_tile, 16, 1024);
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; ++step) {
        u32 along = step % 4 * 32;
        wgmma_ss_wide<false, false>(s[0], smem_descriptor_at(a, step / 4 * (ROWS * 128) + along),
                                    smem_descriptor_at(b, step / 4 * (STEP * 128) + along), step > 0, Element());
    }
    wgmma_commit_group();
}

// y += p v of a step, begun.
INLINE void begin_outputs(Outputs& y, const Weights& weights, u32 v_tile) {
    u64 b = smem_descriptor(v_tile, STEP * 128, 1024);
#pragma unroll
    for (int step = 0; step < STEP / 16; ++step)
        wgmma_rs_trans(y[0], weights[0][step], smem_descriptor_at(b, step * 2048), Element());
    wgmma_commit_group();
}

// Rows of a work that are finished: y, divided by the sums of its weights and rounded, what the log-sum-exp of the scores is made of, and where both go.
struct Finished {
    u32 y[1][VALUE_DIM / 16][4];
    float row_max[2], row_sum[2];
    u32 head;
    i32 first_query;
    u32 rows, done;  // in shared memory, the place of the consumer's q and its barrier

    INLINE void of(const AttentionTma& p, const Task& task, const QueryRing& queries, u32 consumer, Outputs& from,
                   const Softmax& softmax) {
        head = task.head;
        first_query = task.first_query + i32(consumer) * ROWS;
        rows = queries.rows(consumer);
        done = queries.done();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.row_sum[0][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            row_max[half] = softmax.row_max[0][half];
            row_sum[half] = total;
            bool sees_none = row_max[half] == -INFINITE && total == 0;
            float inverse = (DROPOUT ? p.dropout_scale : 1) / total;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) from[0][j][e] = sees_none ? 0 : from[0][j][e] * inverse;
        }
        round_to_operand(y, from);
        // In registers other than the accumulators, which the next products have meanwhile.
#pragma unroll
        for (int step = 0; step < VALUE_DIM / 16; ++step)
#pragma unroll
            for (int e = 0; e < 4; ++e) y[0][step][e] = opaque(y[0][step][e]);
    }
    INLINE void store(const AttentionTma& p) const {
        u32 thread = read_tid_x() % WARPGROUP, lane = thread % WARP, row = thread / WARP * 16;
#pragma unroll
        for (int step = 0; step < VALUE_DIM / 16; ++step)
            stmatrix_x4(rows + Tile<ROWS, VALUE_DIM>::at(row + lane % 16, step * 2 + lane / 16), y[0][step]);
        fence_proxy_async_shared();
        __syncwarp();
        if (lane == 0) mbarrier_arrive(done);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i32 query = first_query + i32(row + half * 8 + lane / 4);
            if (query < i32(p.sizes.queries) && lane % 4 == 0)
                p.log_sums[i64(head) * p.sizes.queries + query] = row_max[half] * LN_2 + logf(row_sum[half]);
        }
    }
};

// Which of a lane's weights of a step are kept: loaded while the scores are formed, and applied when they have become weights.
#if DROPOUT
struct StepBits : KeptBits {
    INLINE static StepBits of(const AttentionTma& p, const Task& task, u32 consumer) {
        u32 row = u32(task.first_query) + consumer * ROWS, warp = read_tid_x() % WARPGROUP / WARP;
        u32 key = u32(task.first_key), row_group = row / BIT_ROWS + warp;
        StepBits bits;
        bits.load(p.bits + bit_words_before(p.bit_layout, task.head, row_group, key / BIT_KEYS, 2));
        // Steps of less than a tile of bits begin within it.
        if (STEP < BIT_KEYS) bits.skip(key % BIT_KEYS);
        return bits;
    }
};
#else
struct StepBits {
    INLINE static StepBits of(const AttentionTma&, const Task&, u32) { return {}; }
    INLINE void apply(Weights&) const {}
};
#endif

// The next work, as uniform in a warp as it is.
INLINE Task next_task(const QueryRing& queries) {
    Task task = queries.await();
    task.steps = __shfl_sync(ALL_LANES, task.steps, 0);
    return task;
}

// The first scores of a work, in a turn without values, become weights.
INLINE void weigh_first_step(const AttentionTma& p, Scores& s, Weights& weights, Rows& softmax, const Task& task,
                             u32 q_rows, StepRing& keys, const Turns& turns, float scale) {
    StepBits bits = StepBits::of(p, task, turns.consumer);
    keys.await();
    turns.await();
    wgmma_fence();
    begin_scores(s, q_rows, keys.tile());
    turns.pass();
    wgmma_wait_group<0>();
    keys.release();
    keys.advance();
    weigh(s, softmax, p.sizes, task.first_query + i32(turns.consumer) * ROWS, task.first_key, scale);
    round_to_operand(weights, s);
    bits.apply(weights);
}
// The last values of a work, multiplied alone.
INLINE void add_last_step(Outputs& y, const Weights& weights, StepRing& values) {
    values.await();
    wgmma_fence();
    begin_outputs(y, weights, values.tile());
    wgmma_wait_group<0>();
    fence_accumulator(y);
    values.release();
    values.advance();
}

// All steps of all works: see the picture above.
INLINE void consume_all(const AttentionTma& p, u32 shared, u32 consumer) {
    QueryRing queries(shared);
    StepRing keys = StepRing::of_keys(shared), values = StepRing::of_values(shared);
    Turns turns = {consumer};
    float scale = p.sizes.scale * LOG2_E;
    i32 own = consumer * ROWS;
    Outputs y;
    Scores s;
    Weights weights;
    Rows softmax;
    Finished finished;
    bool is_pending = false;  // whether it is to be stored
    clear(y);
    clear(softmax);
    turns.begin();
    Task task = next_task(queries);
    weigh_first_step(p, s, weights, softmax, task, queries.rows(consumer), keys, turns, scale);
#pragma unroll 1
    while (true) {
        Task before = task;
        Softmax softmax_before = softmax;
        QueryRing queries_before = queries;
        bool is_new = task.steps == 1;
        task.first_key += STEP;
        --task.steps;
        if (is_new) {
            if (QUERY_STAGES == 1) {
                add_last_step(y, weights, values);
                turns.meet();
                finished.of(p, before, queries, consumer, y, softmax);
                finished.store(p);
                clear(y);
            }
            queries.advance();
            task = next_task(queries);
            if (task.steps == 0) {
                turns.end();
                if (QUERY_STAGES == 1) return;
                if (is_pending) finished.store(p);
                add_last_step(y, weights, values);
                turns.meet();
                finished.of(p, before, queries_before, consumer, y, softmax);
                finished.store(p);
                return;
            }
            clear(softmax);
            if (QUERY_STAGES == 1) {
                weigh_first_step(p, s, weights, softmax, task, queries.rows(consumer), keys, turns, scale);
                continue;
            }
        }
        StepBits bits = StepBits::of(p, task, consumer);
        keys.await();
        values.await();
        turns.await();
        wgmma_fence();
        begin_scores(s, queries.rows(consumer), keys.tile());
        begin_outputs(y, weights, values.tile());
        turns.pass();
        if (STORES_LATE && is_pending) finished.store(p);
        is_pending = STORES_LATE && is_new;
        wgmma_wait_group<1>();
        keys.release();
        keys.advance();
        weigh(s, softmax, p.sizes, task.first_query + own, task.first_key, scale);
        wgmma_wait_group<0>();
        fence_accumulator(y);
        values.release();
        values.advance();
        if (is_new) {
            finished.of(p, before, queries_before, consumer, y, softmax_before);
            if (!STORES_LATE) finished.store(p);
            clear(y);
        } else {
            rescale_output(y, softmax);
        }
        round_to_operand(weights, s);
        bits.apply(weights);
    }
}

INLINE void init_barriers(u32 shared) {
    if (threadIdx.x == 0) {
        QueryRing queries(shared);
#pragma unroll
        for (int stage = 0; stage < QUERY_STAGES; ++stage, queries.advance()) {
            mbarrier_init(queries.full(), 1);
            mbarrier_init(queries.done(), CONSUMER_WARPS);
            mbarrier_init(queries.empty(), 1);
        }
        StepRing keys = StepRing::of_keys(shared), values = StepRing::of_values(shared);
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage, keys.advance(), values.advance()) {
            mbarrier_init(keys.full(), 1);
            mbarrier_init(keys.empty(), CONSUMER_WARPS);
            mbarrier_init(values.full(), 1);
            mbarrier_init(values.empty(), CONSUMER_WARPS);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}

extern "C" __global__ void __launch_bounds__(THREADS, 1) attention_tma(const __grid_constant__ AttentionTma p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = (cvta_to_shared(memory) + SWIZZLE_ALIGNMENT - 1) / SWIZZLE_ALIGNMENT * SWIZZLE_ALIGNMENT;
    init_barriers(shared);
    wait_for_earlier_launches();
    // Of lane 0, so that the compiler knows it to be the same in a warp: addresses and descriptors are then worked out once for all lanes.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0), warpgroup = warp / (WARPGROUP / WARP);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP != 0) return;
        if (warp == CONSUMER_WARPS && QUERY_STAGES == 1) produce_all_ahead(p, shared);
        if (warp == CONSUMER_WARPS && QUERY_STAGES > 1) produce_all(p, shared);
        if (warp == CONSUMER_WARPS + 1) store_all(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume_all(p, shared, warpgroup);
    }
}
