// forward.cu for f16 and bf16 with wgmma (sm_90a), without a mask, with operands and results copied
// by the Tensor Memory Accelerator (TMA): y = dropout(softmax(scale q k^T)) v, and the log-sum-exp
// (LSE) of the scores. dropout_bits.cu has drawn the dropout mask before (dropout_bits.cuh).
//
//   q        [batch, heads, queries, head_dim]
//   k        [batch, heads / group, keys, head_dim]
//   v        [batch, heads / group, keys, value_dim]
//   y        [batch, heads, queries, value_dim]
//   log_sums [batch, heads, queries], natural logarithms in f32
//
// A work tile is QUERIES rows of one head, 64 for each consumer, and the keys to which any of them
// attends, STEP per iteration. The grid is persistent. A block takes work tiles one after another,
// from an atomic ticket counter:
//
//   producer (a thread)   q of a tile, k and v of a step   ---TMA--->  rings of QUERY_STAGES and of
//                                                                      STAGES buffers
//   storer (a thread)     y of a tile                      <--TMA----  the buffer of q
//   consumers (128 threads each, 64 queries)
//
//               turn of consumer 0            turn of consumer 1            turn of consumer 0
//   consumer 0  s(i) = q k(i), p(i-1) v(i-1)  p(i) = softmax of s(i)        s(i+1), p(i) v(i)
//   consumer 1  p(i-1) = softmax of s(i-1)    s(i) = q k(i), p(i-1) v(i-1)  p(i) = softmax of s(i)
//
// Ping-pong: consumers take turns at the tensor cores, so that the products of one overlap the
// softmax of the other. Values lag one step behind keys: the turn of step i issues the scores s(i)
// and then the product p(i-1) v(i-1), which overlaps the softmax of s(i), too. There is no gap
// between two work tiles: the last p v of a tile is issued together with the first scores of the
// next one. (Except where shared memory has one buffer of q, for wide heads: there a tile begins
// when y of the previous tile has left the buffer of q, and only its keys and values are loaded
// earlier.)
//
// Work tiles that process the most keys begin first: the last queries of a causal band. The work
// tiles of `interleaved_heads` heads are interleaved, so that the keys and values of these heads
// stay in the cache. Each result comes from one work tile: it does not depend on which block
// processes it.
//
// Row maxima are updated only when one has risen by more than 8 in base 2, see softmax.cuh. A fully
// masked query gives 0 and a log-sum-exp of -infinity. A score of NaN or +infinity makes its row
// NaN.
//
// Macros: those of params.cuh, and CONSUMERS, STEP, STAGES, QUERY_STAGES.
//
// Launch: attention_tma<<<grid, THREADS, SHARED>>>, with grid = min(works, multiprocessors) and
// works = batch * heads * tiles.
//
// Limits: as forward.cu. Widths are rounded up to 64, 128, 192 or 256. There is at least one query
// and one key. The scale is above 0. Strides are positive (TMA). *ticket is 0 before and after each
// launch. MASK is 0. With DROPOUT, STEP is 64 or 128, BAND is 1, and a launch covers some of the
// heads.

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

static_assert(HEAD_DIM == VALUE_DIM, "y reuses the buffers of q");
static_assert(!DROPOUT || BIT_KEYS % STEP == 0, "a lane's bits of a step are in two words");

constexpr int WARPGROUP = 128;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
// Their sum over all threads is at most the registers at launch, which are 65536 / THREADS per
// thread, rounded down to a multiple of 8. A producer that loads ahead needs more than 24.
constexpr int PRODUCER_REGISTERS = CONSUMERS == 3 ? 32 : QUERY_STAGES == 1 ? 40 : 24;
constexpr int CONSUMER_REGISTERS = CONSUMERS == 3 ? 160 : QUERY_STAGES == 1 ? 232 : 240;
// Whether y stays in registers, rounded, and is stored during the next products, instead of before
// they are issued. Wider heads and three consumers do not benefit, or have no registers left for it
// (docs/kernels/attention.md).
constexpr bool DEFERS_STORE = CONSUMERS == 2 && HEAD_DIM == 64;
static_assert(!DEFERS_STORE || QUERY_STAGES > 2, "buffers for y, for the current q and for the next q");

constexpr int ROWS = 64;  // per consumer
constexpr int QUERIES = CONSUMERS * ROWS;
constexpr int SLAB_COLUMNS = 64;
constexpr int SLABS = HEAD_DIM / SLAB_COLUMNS;

// Layout of shared memory, in bytes.
constexpr int ROWS_BYTES = ROWS * HEAD_DIM * 2;
constexpr int Q_BYTES = CONSUMERS * ROWS_BYTES;
constexpr int STEP_BYTES = STEP * HEAD_DIM * 2;  // of keys, or of values
constexpr int K_OFFSET = QUERY_STAGES * Q_BYTES;
constexpr int V_OFFSET = K_OFFSET + STAGES * STEP_BYTES;
constexpr int BARRIERS_OFFSET = V_OFFSET + STAGES * STEP_BYTES;
// Per stage of q: q is full, y is done (it has replaced q), empty. Per stage of k and of v: full,
// empty.
constexpr int BARRIER_COUNT = 3 * QUERY_STAGES + 4 * STAGES;
// One message per stage of q, read as 16 bytes at once.
constexpr int MESSAGES_OFFSET = BARRIERS_OFFSET + (BARRIER_COUNT + 1) / 2 * 16;
constexpr int MESSAGE_BYTES = 16;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = MESSAGES_OFFSET + QUERY_STAGES * MESSAGE_BYTES + SWIZZLE_ALIGNMENT

struct AttentionTma {
    TensorMap q, k, v, y;  // axes: column, row, head, batch
    float* log_sums;       // LSE [batch, heads, queries], contiguous
    u32* ticket;           // counter of work tiles beyond the grid; wraps to 0 with the last draw
    u32 work_tiles;
    u32 tiles;              // of queries, per head
    u32 heads;              // of the whole batch; with DROPOUT, of this launch
    u32 interleaved_heads;  // heads whose work tiles are interleaved
    Sizes sizes;
    const u32* bits;  // keep bits, only with DROPOUT
    BitLayout bit_layout;
    float dropout_scale;
};

// A work tile, as the producer sends it to the other warps. steps == 0: no work tiles are left.
struct WorkMessage {
    u32 head;  // counted over the batch
    i32 first_query;
    i32 first_key, steps;

    INLINE static WorkMessage none() { return WorkMessage{0, 0, 0, 0}; }
    INLINE static WorkMessage of(const AttentionTma& p, u32 tile_index) {
        u32 group_tiles = p.interleaved_heads * p.tiles, group = tile_index / group_tiles;
        tile_index -= group * group_tiles;
        u32 first = group * p.interleaved_heads, interleaved_heads = min(p.interleaved_heads, p.heads - first);
        u32 row = tile_index / interleaved_heads;
        WorkMessage work_tile;
        work_tile.head = (DROPOUT ? p.bit_layout.first_head : 0) + first + tile_index - row * interleaved_heads;
        work_tile.first_query = i32(p.tiles - 1 - row) * QUERIES;
        Range keys =
            key_range(p.sizes, work_tile.first_query, min(work_tile.first_query + QUERIES, i32(p.sizes.queries)));
        // A fully masked work tile still processes one step.
        bool any = keys.first < keys.end;
        work_tile.first_key = any ? keys.first / STEP * STEP : 0;
        work_tile.steps = any ? (keys.end - work_tile.first_key + STEP - 1) / STEP : 1;
        return work_tile;
    }
};

// The ring of q buffers, which are reused for y.
struct QueryRing {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE QueryRing(u32 first) : shared(first) {}
    INLINE u32 rows(u32 consumer) const { return shared + stage * Q_BYTES + consumer * ROWS_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + stage * 8; }
    INLINE u32 done() const { return full() + QUERY_STAGES * 8; }
    INLINE u32 empty() const { return done() + QUERY_STAGES * 8; }
    INLINE void advance() {
        stage = stage == QUERY_STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }

    INLINE void put(const WorkMessage& work_tile) const {
        u32 words[4] = {work_tile.head, u32(work_tile.first_query), u32(work_tile.first_key), u32(work_tile.steps)};
        st_shared_v4(shared + MESSAGES_OFFSET + stage * MESSAGE_BYTES, words);
    }
    // Waits for the next work tile.
    INLINE WorkMessage await() const {
        mbarrier_wait_parity(full(), parity);
        uint4 words = ld_shared_v4(shared + MESSAGES_OFFSET + stage * MESSAGE_BYTES);
        return WorkMessage{words.x, i32(words.y), i32(words.z), i32(words.w)};
    }
};
// The ring of k buffers, or that of v buffers.
struct KvRing {
    u32 tiles, barriers;
    u32 stage = 0, parity = 0;

    INLINE static KvRing of_keys(u32 shared) {
        return KvRing{shared + K_OFFSET, shared + BARRIERS_OFFSET + 3 * QUERY_STAGES * 8};
    }
    INLINE static KvRing of_values(u32 shared) {
        return KvRing{shared + V_OFFSET, shared + BARRIERS_OFFSET + (3 * QUERY_STAGES + 2 * STAGES) * 8};
    }
    INLINE u32 tile() const { return tiles + stage * STEP_BYTES; }
    INLINE u32 full() const { return barriers + stage * 8; }
    INLINE u32 empty() const { return full() + STAGES * 8; }
    INLINE void await() const { mbarrier_wait_parity(full(), parity); }
    // Releases the stage for this warp. All its lanes must have waited for the products that read
    // it.
    INLINE void release() const {
        if (read_tid_x() % WARP == 0) mbarrier_arrive(empty());
    }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};

// ---------------------------------------------------------------- producer, storer

// Issues the load of the keys or values of a step.
INLINE void load_step(KvRing& ring, const TensorMap& map, i32 row, u32 head, u32 batch) {
    mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
    mbarrier_arrive_expect_tx(ring.full(), STEP_BYTES);
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
        cp_async_bulk_tensor_4d(ring.tile() + slab * STEP * 128, map, slab * SLAB_COLUMNS, row, head, batch,
                                ring.full());
    ring.advance();
}
// Producer loop: loads all work tiles of the block. The first is the one with the block's index,
// the others come from the ticket counter.
INLINE void producer_loop(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
    KvRing keys = KvRing::of_keys(shared), values = KvRing::of_values(shared);
    u32 tile_index = read_ctaid_x();
#pragma unroll 1
    for (;; queries.advance()) {
        mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
        if (tile_index >= p.work_tiles) break;
        WorkMessage work_tile = WorkMessage::of(p, tile_index);
        queries.put(work_tile);
        mbarrier_arrive_expect_tx(queries.full(), Q_BYTES);
        u32 batch = work_tile.head / p.sizes.heads, head = work_tile.head - batch * p.sizes.heads;
#pragma unroll
        for (int at = 0; at < CONSUMERS * SLABS; ++at)
            cp_async_bulk_tensor_4d(queries.rows(0) + at * (ROWS * 128), p.q, at % SLABS * SLAB_COLUMNS,
                                    work_tile.first_query + at / SLABS * ROWS, head, batch, queries.full());
        head /= p.sizes.group;
#pragma unroll 1
        for (i32 step = 0; step < work_tile.steps; ++step) {
            load_step(keys, p.k, work_tile.first_key + step * STEP, head, batch);
            load_step(values, p.v, work_tile.first_key + step * STEP, head, batch);
        }
        // Each launch draws `work_tiles` tickets: the grid takes its first tiles without one, and
        // each block draws one ticket beyond the end. So the counter wraps to 0 with the last draw.
        tile_index = gridDim.x + atomicInc(p.ticket, p.work_tiles - 1);
    }
    queries.put(WorkMessage::none());
    mbarrier_arrive(queries.full());
}
// Waits for a free buffer of q, then sends the work tile and issues the load of its q.
INLINE void load_queries(const AttentionTma& p, const QueryRing& queries, const WorkMessage& work_tile, u32 batch) {
    mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
    queries.put(work_tile);
    mbarrier_arrive_expect_tx(queries.full(), Q_BYTES);
    u32 head = work_tile.head - batch * p.sizes.heads;
#pragma unroll
    for (int at = 0; at < CONSUMERS * SLABS; ++at)
        cp_async_bulk_tensor_4d(queries.rows(0) + at * (ROWS * 128), p.q, at % SLABS * SLAB_COLUMNS,
                                work_tile.first_query + at / SLABS * ROWS, head, batch, queries.full());
}
// Producer loop for one buffer of q, which is free only after y was stored. The first STAGES steps
// are loaded before q: the tile before frees their stages without this q.
INLINE void producer_loop_single_q(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
    KvRing keys = KvRing::of_keys(shared), values = KvRing::of_values(shared);
#pragma unroll 1
    for (u32 tile_index = read_ctaid_x(); tile_index < p.work_tiles; queries.advance()) {
        WorkMessage work_tile = WorkMessage::of(p, tile_index);
        u32 batch = work_tile.head / p.sizes.heads, key_head = (work_tile.head - batch * p.sizes.heads) / p.sizes.group;
        i32 ahead = min(work_tile.steps, STAGES);
#pragma unroll 1
        for (i32 step = 0;; ++step) {
            if (step == ahead) load_queries(p, queries, work_tile, batch);
            if (step >= work_tile.steps) break;
            load_step(keys, p.k, work_tile.first_key + step * STEP, key_head, batch);
            load_step(values, p.v, work_tile.first_key + step * STEP, key_head, batch);
        }
        tile_index = gridDim.x + atomicInc(p.ticket, p.work_tiles - 1);
    }
    mbarrier_wait_parity(queries.empty(), queries.parity ^ 1);
    queries.put(WorkMessage::none());
    mbarrier_arrive(queries.full());
}
// Storer loop: stores the y that the consumers have written over q, and releases the buffer.
INLINE void storer_loop(const AttentionTma& p, u32 shared) {
    QueryRing queries(shared);
#pragma unroll 1
    for (;; queries.advance()) {
        WorkMessage work_tile = queries.await();
        if (work_tile.steps == 0) return;
        u32 batch = work_tile.head / p.sizes.heads, head = work_tile.head - batch * p.sizes.heads;
        mbarrier_wait_parity(queries.done(), queries.parity);
#pragma unroll
        for (int at = 0; at < CONSUMERS * SLABS; ++at) {
            i32 column = at % SLABS * SLAB_COLUMNS, row = work_tile.first_query + at / SLABS * ROWS;
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

// The order in which consumers issue their products: one named barrier per consumer, at which the
// consumer before it arrives.
struct SchedulerBarriers {
    u32 consumer;

    INLINE static u32 barrier(u32 of) { return 1 + of; }
    // Synchronizes the warps of the consumer: their products of q are complete, and y may
    // overwrite it.
    INLINE void sync_warpgroup() const { barrier_sync(1 + CONSUMERS + consumer, WARPGROUP); }
    // Gives the first consumer its first turn.
    INLINE void begin() const {
        if (consumer == CONSUMERS - 1) barrier_arrive(barrier(0), 2 * WARPGROUP);
    }
    INLINE void await() const { barrier_sync(barrier(consumer), 2 * WARPGROUP); }
    INLINE void pass() const { barrier_arrive(barrier(consumer == CONSUMERS - 1 ? 0 : consumer + 1), 2 * WARPGROUP); }
    // Consumes the turn that the last consumer has passed to the first.
    INLINE void end() const {
        if (consumer == 0) barrier_sync(barrier(0), 2 * WARPGROUP);
    }
};

// Issues s = q k^T of a consumer's queries and one step.
INLINE void issue_scores(Scores& s, u32 q_rows, u32 k_tile) {
    u64 a = smem_descriptor(q_rows, 16, 1024), b = smem_descriptor(k_tile, 16, 1024);
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; ++step) {
        u32 along = step % 4 * 32;
        wgmma_ss_wide<false, false>(s[0], smem_descriptor_at(a, step / 4 * (ROWS * 128) + along),
                                    smem_descriptor_at(b, step / 4 * (STEP * 128) + along), step > 0, Element());
    }
    wgmma_commit_group();
}

// Issues y += p v of one step.
INLINE void issue_outputs(Outputs& y, const Weights& weights, u32 v_tile) {
    u64 b = smem_descriptor(v_tile, STEP * 128, 1024);
#pragma unroll
    for (int step = 0; step < STEP / 16; ++step)
        wgmma_rs_trans(y[0], weights[0][step], smem_descriptor_at(b, step * 2048), Element());
    wgmma_commit_group();
}

// Epilogue of a work tile's rows: y, divided by the row sums and rounded, the row maxima and sums
// for the log-sum-exp, and the destinations of both.
struct EpilogueRows {
    u32 y[1][VALUE_DIM / 16][4];
    float row_max[2], row_sum[2];
    u32 head;
    i32 first_query;
    u32 rows, done;  // smem addresses of the consumer's q buffer and of its barrier

    // Takes over the results of a work tile: divides `from` by the row sums and rounds it.
    INLINE void finalize(const AttentionTma& p, const WorkMessage& work_tile, const QueryRing& queries, u32 consumer,
                         Outputs& from, const Softmax& softmax) {
        head = work_tile.head;
        first_query = work_tile.first_query + i32(consumer) * ROWS;
        rows = queries.rows(consumer);
        done = queries.done();
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.row_sum[0][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            row_max[half] = softmax.row_max[0][half];
            row_sum[half] = total;
            bool is_fully_masked = row_max[half] == -INFINITE && total == 0;
            float inverse = (DROPOUT ? p.dropout_scale : 1) / total;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e)
                    from[0][j][e] = is_fully_masked ? 0 : from[0][j][e] * inverse;
        }
        round_to_operand(y, from);
        // Moves y out of the accumulators, which the next products overwrite meanwhile.
#pragma unroll
        for (int step = 0; step < VALUE_DIM / 16; ++step)
#pragma unroll
            for (int e = 0; e < 4; ++e) y[0][step][e] = opaque(y[0][step][e]);
    }
    // Writes y over the consumer's q, for the storer, and the log-sum-exp to device memory.
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

// A lane's keep bits of one step: loaded before the scores are computed, applied to the weights.
#if DROPOUT
struct StepBits : KeepBits {
    INLINE static StepBits of(const AttentionTma& p, const WorkMessage& work_tile, u32 consumer) {
        u32 row = u32(work_tile.first_query) + consumer * ROWS, warp = read_tid_x() % WARPGROUP / WARP;
        u32 key = u32(work_tile.first_key), row_group = row / BIT_ROWS + warp;
        StepBits bits;
        bits.load(p.bits + bit_words_before(p.bit_layout, work_tile.head, row_group, key / BIT_KEYS, 2));
        // A step narrower than a tile of bits begins inside it.
        if (STEP < BIT_KEYS) bits.skip(key % BIT_KEYS);
        return bits;
    }
};
#else
struct StepBits {
    INLINE static StepBits of(const AttentionTma&, const WorkMessage&, u32) { return {}; }
    INLINE void apply(Weights&) const {}
};
#endif

// Waits for the next work tile. The shuffle makes `steps` warp-uniform for the compiler.
INLINE WorkMessage next_work_tile(const QueryRing& queries) {
    WorkMessage work_tile = queries.await();
    work_tile.steps = __shfl_sync(ALL_LANES, work_tile.steps, 0);
    return work_tile;
}

// Prologue of a work tile: computes the scores of the first step, in a turn without p v, and their
// weights.
INLINE void softmax_prologue(const AttentionTma& p, Scores& s, Weights& weights, SoftmaxRows& softmax,
                             const WorkMessage& work_tile, u32 q_rows, KvRing& keys, const SchedulerBarriers& turns,
                             float scale) {
    StepBits bits = StepBits::of(p, work_tile, turns.consumer);
    keys.await();
    turns.await();
    wgmma_fence();
    issue_scores(s, q_rows, keys.tile());
    turns.pass();
    wgmma_wait_group<0>();
    keys.release();
    keys.advance();
    online_softmax(s, softmax, p.sizes, work_tile.first_query + i32(turns.consumer) * ROWS, work_tile.first_key, scale);
    round_to_operand(weights, s);
    bits.apply(weights);
}
// Issues the last p v of a work tile separately, and waits for it.
INLINE void add_last_step(Outputs& y, const Weights& weights, KvRing& values) {
    values.await();
    wgmma_fence();
    issue_outputs(y, weights, values.tile());
    wgmma_wait_group<0>();
    fence_accumulator(y);
    values.release();
    values.advance();
}

// Consumer loop over all steps of all work tiles: see the picture above.
INLINE void consumer_loop(const AttentionTma& p, u32 shared, u32 consumer) {
    QueryRing queries(shared);
    KvRing keys = KvRing::of_keys(shared), values = KvRing::of_values(shared);
    SchedulerBarriers turns = {consumer};
    float scale = p.sizes.scale * LOG2_E;
    i32 own = consumer * ROWS;
    Outputs y;
    Scores s;
    Weights weights;
    SoftmaxRows softmax;
    EpilogueRows finished;
    bool is_pending = false;  // whether `finished` is still to be stored
    clear(y);
    clear(softmax);
    turns.begin();
    WorkMessage work_tile = next_work_tile(queries);
    softmax_prologue(p, s, weights, softmax, work_tile, queries.rows(consumer), keys, turns, scale);
#pragma unroll 1
    while (true) {
        WorkMessage previous = work_tile;
        Softmax previous_softmax = softmax;
        QueryRing previous_queries = queries;
        bool begins_tile = work_tile.steps == 1;  // and adds the last p v of the previous tile
        work_tile.first_key += STEP;
        --work_tile.steps;
        if (begins_tile) {
            if (QUERY_STAGES == 1) {
                add_last_step(y, weights, values);
                turns.sync_warpgroup();
                finished.finalize(p, previous, queries, consumer, y, softmax);
                finished.store(p);
                clear(y);
            }
            queries.advance();
            work_tile = next_work_tile(queries);
            if (work_tile.steps == 0) {
                turns.end();
                if (QUERY_STAGES == 1) return;
                if (is_pending) finished.store(p);
                add_last_step(y, weights, values);
                turns.sync_warpgroup();
                finished.finalize(p, previous, previous_queries, consumer, y, softmax);
                finished.store(p);
                return;
            }
            clear(softmax);
            if (QUERY_STAGES == 1) {
                softmax_prologue(p, s, weights, softmax, work_tile, queries.rows(consumer), keys, turns, scale);
                continue;
            }
        }
        StepBits bits = StepBits::of(p, work_tile, consumer);
        keys.await();
        values.await();
        turns.await();
        wgmma_fence();
        issue_scores(s, queries.rows(consumer), keys.tile());
        issue_outputs(y, weights, values.tile());
        turns.pass();
        if (DEFERS_STORE && is_pending) finished.store(p);
        is_pending = DEFERS_STORE && begins_tile;
        wgmma_wait_group<1>();
        keys.release();
        keys.advance();
        online_softmax(s, softmax, p.sizes, work_tile.first_query + own, work_tile.first_key, scale);
        wgmma_wait_group<0>();
        fence_accumulator(y);
        values.release();
        values.advance();
        if (begins_tile) {
            finished.finalize(p, previous, previous_queries, consumer, y, previous_softmax);
            if (!DEFERS_STORE) finished.store(p);
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
        KvRing keys = KvRing::of_keys(shared), values = KvRing::of_values(shared);
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
    // Broadcast from lane 0, so that the compiler knows that the value is warp-uniform: addresses
    // and descriptors are then computed once for all lanes.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0), warpgroup = warp / (WARPGROUP / WARP);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP != 0) return;
        if (warp == CONSUMER_WARPS && QUERY_STAGES == 1) producer_loop_single_q(p, shared);
        if (warp == CONSUMER_WARPS && QUERY_STAGES > 1) producer_loop(p, shared);
        if (warp == CONSUMER_WARPS + 1) storer_loop(p, shared);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consumer_loop(p, shared, warpgroup);
    }
}
