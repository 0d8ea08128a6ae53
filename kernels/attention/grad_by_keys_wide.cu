// One-pass gradient of attention for heads of 129 to 256 columns: f16 and bf16 by wgmma (sm_90a),
// without mask. It computes what grad_by_keys.cu computes, with the same launches, work tiles,
// turns and order of sums.
//
//   q, y, dy, dq [batch, heads, queries, width]
//   k, v, dk, dv [batch, heads / group, keys, width]
//   log_sums [batch, heads, queries]
//
// The accumulators of dk and dv of 64 keys take all registers of two warpgroups. So a work tile is
// 64 keys, a query tile is 64 queries, and both consumers have the same keys. Each consumer
// computes the scores of half of the queries, and half of the columns of dq, dk and dv. Weights and
// gradients of scores go through shared memory, where both consumers read them.
//
//            queries -> 0 ..       32 ..                     columns ->
//            +------------+------------+                     +------------+------------+
//   64 keys  |  s^T, dp^T |  s^T, dp^T |  -- p^T, ds^T -->   |   dv, dk   |   dv, dk   | 64 keys
//            +------------+------------+   (shared memory)   |   dq       |   dq       | 64 queries
//             consumer 0   consumer 1                        +------------+------------+
//                                                             consumer 0   consumer 1
//
//   producer (1 thread)   k, v of a work tile; q, dy, LSE, row_dot of a query tile
//                         ---TMA--->  one buffer, and a ring buffer of STAGES stages
//   2 threads             turns of a consumer's part of dq
//   2 consumers           (warpgroups of 128 threads)
//
//   tensor cores  | s, dp of next tile | dv, dk                 | dq, 1st part | dq, 2nd part |
//   other units   | add previous dq, 2nd part   | p, ds of next |              | add 1st part |
//
// Each consumer also multiplies what the other one stores of p and ds. There are two buffers of
// each, so that neither consumer waits for the other for long.
//
// Columns of a consumer: at width 256, two slabs of 64; at width 192, one slab and half of the
// middle one.
//
// Width 256 has no room for dq in shared memory. So the consumers add dq themselves, by reductions
// to global memory, after waiting for their turn. They add it in two parts, because the registers
// have no room for all of it and the next scores. Width 192 has room in shared memory, but is
// slower that way (docs/kernels/attention.md).
//
// Macros: those of params.cuh.
//
// Launch, with query tiles of 64:
//   attention_grad_tile_rows<<<batch * heads * query_tiles, 256>>>
//       row_dot and LSE; sets the turns and the ticket to 0
//   attention_grad_by_keys<<<min(works, multiprocessors), THREADS, SHARED>>>
//       works = batch * heads / group * key_blocks
//
// Limits: those of grad_by_keys.cu, with widths rounded up to 192 or 256.

#ifdef HOST_SHIM
#undef HEAD_DIM
#undef VALUE_DIM
#define HEAD_DIM 256
#define VALUE_DIM 256
#endif

#include "attention/grad_producer.cuh"
#include "attention/grad_scores.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma_ordered.cuh"

// Columns of a consumer, in two parts: a slab; and at width 256 the next slab, at width 192 its
// half of the middle slab.
constexpr int FIRST_COLUMNS = 64, SECOND_COLUMNS = HEAD_DIM == 256 ? 64 : 32;
typedef float FirstSums[1][FIRST_COLUMNS / 8][4];
typedef float SecondSums[1][SECOND_COLUMNS / 8][4];
struct Sums {
    FirstSums first;
    SecondSums second;
};
INLINE u32 first_column(u32 consumer) { return consumer * 128; }
INLINE u32 second_column(u32 consumer) { return 64 + consumer * (HEAD_DIM == 256 ? 128 : 32); }

// ---------------------------------------------------------------- turns to add to dq

// Run by one thread per consumer: lets the consumer add to a query tile after the previous
// work tiles have, and passes the turn to the next work tile after the consumer has added.
INLINE void run_dq_semaphore(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    KeyValueRing own(shared);
    u32 parity = 0;
#pragma unroll 1
    for (;; own.advance()) {
        u32 index = own.await();
        if (index == NO_WORK_TILE) return;
        mbarrier_arrive(own.empty());
        WorkTile work(p, index);
        Step step(p, work);
        i32 steps = work.tiles * i32(p.sizes.group);
#pragma unroll 1
        for (i32 at = 0; at < steps; ++at, parity ^= 1, step.advance(work)) {
            DqSemaphore semaphore(p, work, step.tile);
            u32* counter = p.dq_semaphores + tile_index(p, work, step) * CONSUMERS + consumer;
            if (!semaphore.is_first)
                while (ld_acquire_gpu(counter) != semaphore.index) {}
            delay_at_random();
            mbarrier_arrive(semaphore_barrier(shared, consumer));
            mbarrier_wait_parity(added_barrier(shared, consumer), parity);
            if (!semaphore.is_last) st_release_gpu(counter, semaphore.index + 1);
        }
    }
}

// ---------------------------------------------------------------- consumers

// Issues a consumer's part of s^T = k q^T, or of dp^T = v dy^T: 64 keys and its half of the
// queries.
INLINE void gemm_k_major(Scores& c, u32 own_tile, u32 streamed_tile, u32 consumer) {
    streamed_tile += consumer * SCORE_QUERIES * 128;
#pragma unroll
    for (int step = 0; step < HEAD_DIM / 16; ++step) {
        u32 at = step / 4 * 64 * 128 + step % 4 * 32;
        wgmma_ss_ordered<false, false>(c[0], smem_descriptor(own_tile + at, 16, 1024),
                                       smem_descriptor(streamed_tile + at, 16, 1024), step > 0, Element());
    }
}

// Issues c = a b, or c += a b with ACCUMULATE. `a` has 64 lines of 64 elements, which are its rows,
// or its columns with A_MN_MAJOR. `b` is a tile of 64 rows, of which the columns from `column` on
// are multiplied; they are in one slab.
template <bool A_MN_MAJOR, bool ACCUMULATE, int BLOCKS>
INLINE void gemm_mn_major(float (&c)[1][BLOCKS][4], u32 a, u32 b, u32 column) {
    u64 left = A_MN_MAJOR ? smem_descriptor(a, 64 * 128, 1024) : smem_descriptor(a, 16, 1024);
    u64 right = smem_descriptor(b + column / 64 * (64 * 128) + column % 64 * 2, 64 * 128, 1024);
#pragma unroll
    for (int step = 0; step < 64 / 16; ++step)
        wgmma_ss_ordered<A_MN_MAJOR, true>(c[0], smem_descriptor_at(left, step * (A_MN_MAJOR ? 16 * 128 : 32)),
                                           smem_descriptor_at(right, step * 16 * 128), ACCUMULATE || step > 0,
                                           Element());
}
INLINE void add_columns(Sums& c, u32 a, u32 b, u32 consumer) {
#if HEAD_DIM == 256
    // One instruction for both slabs.
    u64 left = smem_descriptor(a, 16, 1024), right = smem_descriptor(b + consumer * (2 * 64 * 128), 64 * 128, 1024);
#pragma unroll
    for (int step = 0; step < 64 / 16; ++step)
        wgmma_ss_ordered<false, true>(reinterpret_cast<float (&)[16][4]>(c), smem_descriptor_at(left, step * 32),
                                      smem_descriptor_at(right, step * 16 * 128), 1, Element());
#else
    gemm_mn_major<false, true>(c.first, a, b, first_column(consumer));
    gemm_mn_major<false, true>(c.second, a, b, second_column(consumer));
#endif
}

// Issues s and dp of a tile.
INLINE void issue_scores(Scores& weight, Scores& weight_grad, u32 own_tiles, u32 tiles, u32 consumer) {
    wgmma_fence();
    gemm_k_major(weight, own_tiles, tiles, consumer);
    gemm_k_major(weight_grad, own_tiles + OWN_BYTES, tiles + TILE_BYTES, consumer);
    wgmma_commit_group();
}

// Stores a consumer's part of p^T or ds^T to shared memory: one row per key.
INLINE void store_scores(u32 to, const ScoreOperand& from, u32 consumer) {
    u32 thread = read_tid_x() % WARPGROUP, lane = thread % WARP, row = thread / WARP * 16 + lane % 16;
#pragma unroll
    for (int step = 0; step < SCORE_QUERIES / 16; ++step) {
        u32 chunk = consumer * (SCORE_QUERIES / 8) + step * 2 + lane / 16;
        stmatrix_x4(to + row * 128 + ((chunk ^ row) & 7) * 16, from[0][step]);
    }
}

// The address of p^T of a tile, which ds^T follows.
INLINE u32 scores_of(u32 shared, u32 stage) { return shared + GRADS_OFFSET + stage * 2 * GRADS_BYTES; }

// Converts scores and dp of a tile to p^T and ds^T in shared memory, which both consumers multiply.
// Before it stores, it waits until the buffer's previous contents, those of two tiles before, have
// been multiplied.
INLINE void publish_scores(const AttentionGradByKeys& p, u32 shared, const WorkTile& work, const Step& step,
                           const Ring& ring, Scores& weight, Scores& weight_grad, u32 consumer) {
    u32 row_stats = ring.row_stats() + consumer * SCORE_QUERIES * 4;
    recompute_weights(weight, p.sizes, work.first_key(), step.tile * QUERIES + i32(consumer) * SCORE_QUERIES, row_stats,
                      p.sizes.scale * LOG2_E);
    StepBits bits = step_bits(p, work, step);
    ScoreOperand weights, grads;
    compute_ds(weights, grads, weight, weight_grad, row_stats + ROW_STAT_BYTES, bits);
    mbarrier_wait_parity(grads_empty(shared, ring.stage), ring.parity ^ 1);
    u32 to = scores_of(shared, ring.stage);
    store_scores(to, weights, consumer);
    store_scores(to + GRADS_BYTES, grads, consumer);
    fence_proxy_async_shared();
    __syncwarp();
    release(grads_full(shared, ring.stage));
}

// Writes 64 rows and BLOCKS * 8 columns of `to`, from `column` on.
template <int BLOCKS>
INLINE void write_columns(const float (&c)[1][BLOCKS][4], const View<Element>& to, i32 first_row, i32 rows, u32 columns,
                          u32 column) {
    u32 thread = read_tid_x() % WARPGROUP;
    first_row += i32(thread / WARP * 16 + thread % WARP / 4);
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        i32 row = first_row + half * 8;
        if (row >= rows) continue;
        Element* line = to.first + row_start(row, to.row) + column + thread % 4 * 2;
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j)
            if (column + j * 8 < columns)
                *reinterpret_cast<u32*>(line + j * 8) = pack_half2(c[0][j][half * 2], c[0][j][half * 2 + 1], Element());
    }
}
INLINE void write_sums(Sums& c, float scale, const View<Element>& to, i32 first_row, i32 rows, u32 columns,
                       u32 consumer) {
    scale_by(c.first, scale);
    scale_by(c.second, scale);
    write_columns(c.first, to, first_row, rows, columns, first_column(consumer));
    write_columns(c.second, to, first_row, rows, columns, second_column(consumer));
}

// Adds a part of dq of a tile whose turn has come to that of the previous work tiles, and writes dq
// if this work tile is the last. `sums` are the sums of the part, and `column` is its first column.
template <int BLOCKS>
INLINE void add_part(const AttentionGradByKeys& p, float (&dq)[1][BLOCKS][4], float* sums, const DqSemaphore& semaphore,
                     u32 batch, const Step& step, u32 column) {
    if (!semaphore.is_last) {
        if (semaphore.is_first) {
#pragma unroll
            for (int j = 0; j < BLOCKS; ++j) st_relaxed_gpu_v4(sums + j * WARPGROUP * 4, dq[0][j]);
        } else {
#pragma unroll
            for (int j = 0; j < BLOCKS; ++j) red_relaxed_gpu_add_v4(sums + j * WARPGROUP * 4, dq[0][j]);
        }
        return;
    }
    if (!semaphore.is_first) {
#pragma unroll
        for (int j = 0; j < BLOCKS; ++j) {
            float before[4];
            ld_relaxed_gpu_v4(before, sums + j * WARPGROUP * 4);
#pragma unroll
            for (int e = 0; e < 4; ++e) dq[0][j][e] += before[e];
        }
    }
    scale_by(dq, score_grad_scale(p));
    write_columns(dq, head_of(p.dq, batch, step.head), step.tile * QUERIES, p.sizes.queries, p.sizes.head_dim, column);
}
INLINE float* sums_of(const AttentionGradByKeys& p, const WorkTile& work, const Step& step, u32 consumer) {
    return p.sums + tile_index(p, work, step) * (QUERIES * HEAD_DIM) + consumer * (QUERIES * HEAD_DIM / CONSUMERS) +
           read_tid_x() % WARPGROUP * 4;
}
// Adds the first part, after waiting for the tile's turn.
INLINE void add_first(const AttentionGradByKeys& p, FirstSums& dq, u32 shared, const WorkTile& work, const Step& step,
                      u32 consumer, u32 parity) {
    mbarrier_wait_parity(semaphore_barrier(shared, consumer), parity);
    add_part(p, dq, sums_of(p, work, step, consumer), DqSemaphore(p, work, step.tile), work.batch, step,
             first_column(consumer));
}
// Adds the second part, after which the next work tile may add.
INLINE void add_second(const AttentionGradByKeys& p, SecondSums& dq, u32 shared, const WorkTile& work, const Step& step,
                       u32 consumer) {
    float* sums = sums_of(p, work, step, consumer) + FIRST_COLUMNS / 8 * WARPGROUP * 4;
    add_part(p, dq, sums, DqSemaphore(p, work, step.tile), work.batch, step, second_column(consumer));
    __syncwarp();
    release(added_barrier(shared, consumer));
}

// One work tile: see the picture above.
INLINE void consume(const AttentionGradByKeys& p, u32 shared, const WorkTile& work, u32 consumer,
                    const KeyValueRing& own, Ring& ring) {
    Sums dk, dv;
    SecondSums second;  // of the previous tile
    clear(dk.first);
    clear(dk.second);
    clear(dv.first);
    clear(dv.second);
    Step step(p, work);
    Step before(0, -1);  // none
    i32 left = work.tiles * i32(p.sizes.group);
    u32 k_tile = own.k_tile();
    Scores weight, weight_grad;
    if (left > 0) {
        mbarrier_wait_parity(ring.full(), ring.parity);
        issue_scores(weight, weight_grad, k_tile, ring.tiles(), consumer);
        wgmma_wait_group<0>();
        fence_accumulator(weight);
        fence_accumulator(weight_grad);
        publish_scores(p, shared, work, step, ring, weight, weight_grad, consumer);
    }
#pragma unroll 1
    for (; left > 0; --left) {
        u32 stage = ring.stage, parity = ring.parity, tiles = ring.tiles(), empty = ring.empty();
        u32 scores = scores_of(shared, stage);
        bool has_next = left > 1;
        ring.advance();
        // After the last tile its own scores are computed again, and not used.
        if (has_next) mbarrier_wait_parity(ring.full(), ring.parity);
        issue_scores(weight, weight_grad, k_tile, has_next ? ring.tiles() : tiles, consumer);
        mbarrier_wait_parity(grads_full(shared, stage), parity);
        wgmma_fence();
        add_columns(dv, scores, tiles + TILE_BYTES, consumer);
        add_columns(dk, scores + GRADS_BYTES, tiles, consumer);
        wgmma_commit_group();
        if (before.tile >= 0) add_second(p, second, shared, work, before, consumer);
        wgmma_wait_group<1>();
        fence_accumulator(weight);
        fence_accumulator(weight_grad);
        before = step;
        step.advance(work);
        if (has_next) publish_scores(p, shared, work, step, ring, weight, weight_grad, consumer);
        FirstSums first;
        wgmma_fence();
        gemm_mn_major<true, false>(first, scores + GRADS_BYTES, k_tile, first_column(consumer));
        wgmma_commit_group();
        wgmma_wait_group<1>();
        fence_accumulator(dv.first);
        fence_accumulator(dv.second);
        fence_accumulator(dk.first);
        fence_accumulator(dk.second);
        // The stage is free for the tile after the next one.
        release(empty);
        wgmma_fence();
        gemm_mn_major<true, false>(second, scores + GRADS_BYTES, k_tile, second_column(consumer));
        wgmma_commit_group();
        wgmma_wait_group<1>();
        fence_accumulator(first);
        add_first(p, first, shared, work, before, consumer, stage);
        wgmma_wait_group<0>();
        fence_accumulator(second);
        release(grads_empty(shared, stage));
    }
    // k and v have been read.
    release(own.empty());
    if (before.tile >= 0) add_second(p, second, shared, work, before, consumer);
    write_sums(dk, score_grad_scale(p), head_of(p.dk, work.batch, work.head), work.first_key(), p.sizes.keys,
               p.sizes.head_dim, consumer);
    write_sums(dv, DROPOUT ? p.dropout_scale : 1, head_of(p.dv, work.batch, work.head), work.first_key(), p.sizes.keys,
               p.sizes.value_dim, consumer);
}

INLINE void consumer_loop(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    KeyValueRing own(shared);
#pragma unroll 1
    for (;; own.advance()) {
        u32 index = __shfl_sync(ALL_LANES, own.await(), 0);
        if (index == NO_WORK_TILE) return;
        consume(p, shared, WorkTile(p, index), consumer, own, ring);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
    attention_grad_by_keys(const __grid_constant__ AttentionGradByKeys p) {
    extern __shared__ __align__(1024) u8 memory[];
    u32 shared = cvta_to_shared(memory);  // aligned: the kernel has no static shared memory
    init_barriers(shared);
    wait_for_earlier_launches();
    // From lane 0, so that the compiler knows that the value is uniform in a warp: addresses and
    // descriptors are then computed once for all lanes.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0), warpgroup = warp / (WARPGROUP / WARP);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP != 0) return;
        u32 task = DROPOUT ? read_tid_x() / WARP : warp;
        if (task == CONSUMER_WARPS) producer_loop(p, shared);
        if (task > CONSUMER_WARPS && task <= CONSUMER_WARPS + CONSUMERS)
            run_dq_semaphore(p, shared, task - CONSUMER_WARPS - 1);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consumer_loop(p, shared, warpgroup);
    }
}
