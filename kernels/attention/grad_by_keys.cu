// One-pass gradient of forward.cu: attention of f16 and bf16 by wgmma (sm_90a), without mask. It
// takes five products per tile of scores; the two passes of grad.cu take seven. Operands are loaded
// by TMA. The dropout mask is computed beforehand (dropout_bits.cuh).
//
//   q, y, dy, dq [batch, heads, queries, width]
//   k, v, dk, dv [batch, heads / group, keys, width]
//   log_sums [batch, heads, queries]
//
//   s^T  = k q^T     dp^T = v dy^T     p^T = exp(scale s^T - lse)
//   row_dot = rowsum(dy y)             ds^T = p^T (dp^T - row_dot)
//   dv  += p^T dy    dk  += ds^T q     p^T and ds^T are left operands in registers
//   dq   = ds k                        ds^T goes through shared memory; ds and k are MN-major
//
// A work tile is KEYS keys of a head. It loops over the query tiles that attend to any of them,
// from the last tile to the first, for each query head that shares the key head. The grid is
// persistent: blocks fill the device, and each takes one work tile after another by a ticket. The
// next work tile's operands are loaded meanwhile:
//
//   producer (1 thread)   k, v of a work tile; q, dy, LSE, row_dot of a query tile
//                         ---TMA--->  ring buffers of OWN_STAGES and of STAGES stages
//   2 threads             a consumer's parts of dq
//                         ---bulk copies, in order--->  f32 sums in global memory
//   2 consumers           (warpgroups of 128 threads, 64 keys each)
//
//   tensor cores  | dp        | dv, dk              | dq, previous tile | s, next tile           |
//   other units   | p         ds | ds to shared memory                  | previous dq to staging |
//
// dq needs the ds of both consumers. With LAG, dq runs one tile behind, so that neither consumer
// waits for the other: the exponentials of one overlap with the products of the other. Without LAG,
// dq is that of the current tile, and the consumers wait for each other. Then a tile's turn comes
// sooner, and a short loop does not end with a product that nothing overlaps. Both consumers
// multiply ds by k: at width 64 each computes 64 of the 128 queries, at width 128 half of the
// columns of 64 queries.
//
// Order of sums. dq of a query tile is a sum over the work tiles of a head. They add to f32 sums in
// global memory in the order of their keys, each in its turn, so two runs are bit-identical. The
// first work tile stores, so the sums need no initialization. The last one, for a causal band that
// of the diagonal, adds in registers and writes dq, so no pass follows. A consumer leaves its part
// of a tile in shared memory and continues. One thread per consumer waits for the part's turn,
// which is a semaphore in global memory, adds the part by a reducing bulk copy
// (cp.reduce.async.bulk), and passes the turn on when the copy is complete. So a consumer waits for
// a turn only if it writes dq itself, or if its previous part has not been added for a whole tile.
//
// No deadlock. A work tile waits only for work tiles with smaller keys of the same head, which have
// lower indices. Blocks draw tickets in the order of the indices while they run. So the unfinished
// work tile with the lowest index can always proceed, however few blocks fit on the device. All
// work tiles loop from the last query tile on. To keep the waits short, the work tiles of
// `interleaved_heads` heads are interleaved: work tile 0 of each, work tile 1 of each, .. So a work
// tile begins some steps after the one that it follows, and those with the most work begin first.
//
// (Alternatively a cluster could have all keys of a head and sum dq in its shared memory. But
// clusters of 4 and more blocks do not fill an H100, and a causal band leaves blocks of a cluster
// idle.)
//
// With UNORDERED, which is only for measurement (docs/kernels/attention.md, "The price of the
// order"), no work tile waits for a turn. All add, in any order, to sums that the first launch set
// to 0, and a third launch converts the sums, as in FlashAttention-3. Then two runs need not be
// bit-identical. No op uses it.
//
// Macros: those of params.cuh, LAG, and UNORDERED (1: any order; 0 or undefined: fixed order).
//
// Launch, with query tiles of QUERIES (128 at width 64, else 64):
//   attention_grad_tile_rows<<<batch * heads * query_tiles, 256>>>
//       row_dot and LSE; sets the turns and the ticket to 0
//   attention_grad_by_keys<<<min(works, multiprocessors), THREADS, SHARED>>>
//       works = batch * heads / group * key_blocks
//   attention_grad_convert_queries<<<batch * heads * query_tiles, 256>>>
//       only with UNORDERED
//
// Limits: those of forward.cu; widths are rounded up to 64 or 128; every query attends to a key;
// strides are positive (TMA); MASK is 0. With DROPOUT, BAND is 1 and a launch covers some of the
// heads: the kernel that computes their keep bits resets the ticket to 0.

#ifdef HOST_SHIM
#define LAG 1
#endif

#include "attention/grad_producer.cuh"
#include "attention/grad_scores.cuh"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/stmatrix.cuh"
#define WGMMA_N 64  // columns of dq
#include "ptx/wgmma_ss.cuh"

// ---------------------------------------------------------------- ordered sums of dq

// Run by one thread per consumer: adds each part of the consumer's dq to the sums after the
// previous work tiles have added theirs. If this work tile adds last, the consumer itself reads the
// sums and writes dq.
INLINE void accumulate_dq_parts(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    KeyValueRing own(shared);
    u32 parity = 0;
#pragma unroll 1
    for (;; own.advance()) {
        u32 index = own.await();
        if (index == NO_WORK_TILE) break;
        mbarrier_arrive(own.empty());
        WorkTile work(p, index);
        Step step(p, work);
#pragma unroll 1
        for (i32 left = work.tiles * i32(p.sizes.group); left > 0; --left, parity ^= 1, step.advance(work)) {
            DqSemaphore semaphore(p, work, step.tile);
            u64 tile = tile_index(p, work, step);
            u32* counter = p.dq_semaphores + tile * CONSUMERS + consumer;
            if (UNORDERED || !semaphore.is_last) mbarrier_wait_parity(staging_full(shared, consumer), parity);
            if (!UNORDERED && !semaphore.is_first)
                while (ld_acquire_gpu(counter) != semaphore.index) {}
            delay_at_random();
            if (!UNORDERED && semaphore.is_last) {
                if (!semaphore.is_first) mbarrier_arrive(semaphore_barrier(shared, consumer));
                mbarrier_wait_parity(staging_full(shared, consumer), parity);
                mbarrier_arrive(staging_empty(shared, consumer));
                continue;
            }
            fence_proxy_async_global();
            // Computed here because the thread has few registers.
            u32 staging = shared + STAGING_OFFSET + opaque(consumer) * STAGING_BYTES;
            float* sums = p.sums + tile * (QUERIES * HEAD_DIM) + consumer * (STAGING_BYTES / 4);
            if (!UNORDERED && semaphore.is_first) cp_async_bulk_store(sums, staging, STAGING_BYTES);
            else cp_reduce_async_bulk_add_f32(sums, staging, STAGING_BYTES);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group_read<0>();
            mbarrier_arrive(staging_empty(shared, consumer));
            if (UNORDERED) continue;
            cp_async_bulk_wait_group<0>();
            fence_proxy_async_global();
            st_release_gpu(counter, semaphore.index + 1);
        }
    }
    cp_async_bulk_wait_group<0>();
}

// ---------------------------------------------------------------- consumers

typedef float OwnSums[1][HEAD_DIM / 8][4];
typedef float QuerySums[1][SLAB_COLUMNS / 8][4];

// Stores ds^T of a consumer's keys to shared memory: slabs of 64 queries, one row per key.
INLINE void store_grads(u32 to, const ScoreOperand& grads, u32 row, u32 lane) {
    row += lane % 16;
#pragma unroll
    for (int step = 0; step < QUERIES / 16; ++step)
        stmatrix_x4(to + step / 4 * KEYS * 128 + row * 128 + (((step % 4 * 2 + lane / 16) ^ row) & 7) * 16,
                    grads[0][step]);
}

// Issues dq of a tile over the work tile's keys: at width 64, 64 queries per consumer; at width
// 128, 64 columns per consumer.
INLINE void multiply_grads(QuerySums& dq, u32 grads, u32 k_tile, u32 consumer) {
    u64 a = smem_descriptor(grads + (HEAD_DIM == 64 ? consumer : 0) * KEYS * 128, KEYS * 128, 1024);
    u64 b = smem_descriptor(k_tile + (HEAD_DIM == 64 ? 0 : consumer) * KEYS * 128, KEYS * 128, 1024);
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step)
        wgmma_ss_wide<true, true>(dq[0], smem_descriptor_at(a, step * 2048), smem_descriptor_at(b, step * 2048),
                                  step > 0, Element());
}

// Writes a consumer's part of dq of a tile, through its staging buffer in shared memory.
INLINE void write_queries(const AttentionGradByKeys& p, QuerySums& dq, u32 staging, u32 batch, const Step& step,
                          u32 consumer, u32 thread) {
    scale_by(dq, score_grad_scale(p));
    View<Element> to = head_of(p.dq, batch, step.head);
    i32 columns = p.sizes.head_dim, first_row = step.tile * QUERIES;
    if (HEAD_DIM == 64) {
        first_row += consumer * 64;
    } else {
        to.first += consumer * SLAB_COLUMNS;
        columns -= consumer * SLAB_COLUMNS;
    }
    write_rows<64, SLAB_COLUMNS>(dq, staging, thread / WARP * 16, to, first_row, p.sizes.queries, max(columns, 0));
}

// Passes the consumer's part of dq of a tile to the thread that adds it in its turn. If this work
// tile is the last to add, the consumer adds the sums of the previous ones instead and writes dq.
INLINE void add_to_queries(const AttentionGradByKeys& p, QuerySums& dq, u32 shared, const WorkTile& work,
                           const Step& step, u32 consumer, u32 parity, u32& semaphore_parity) {
    DqSemaphore semaphore(p, work, step.tile);
    u32 thread = read_tid_x() % WARPGROUP, staging = shared + STAGING_OFFSET + consumer * STAGING_BYTES;
    mbarrier_wait_parity(staging_empty(shared, consumer), parity ^ 1);
    if (UNORDERED || !semaphore.is_last) {
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; ++j) st_shared_v4_f32(staging + (j * WARPGROUP + thread) * 16, dq[0][j]);
        fence_proxy_async_shared();
    } else {
        if (!semaphore.is_first) {
            mbarrier_wait_parity(semaphore_barrier(shared, consumer), semaphore_parity);
            semaphore_parity ^= 1;
            const float* sums = p.sums + tile_index(p, work, step) * (QUERIES * HEAD_DIM) +
                                (consumer * (SLAB_COLUMNS / 8) * WARPGROUP + thread) * 4;
            float before[SLAB_COLUMNS / 8][4];
#pragma unroll
            for (int j = 0; j < SLAB_COLUMNS / 8; ++j) ld_relaxed_gpu_v4(before[j], sums + j * WARPGROUP * 4);
#pragma unroll
            for (int j = 0; j < SLAB_COLUMNS / 8; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) dq[0][j][e] += before[j][e];
        }
        write_queries(p, dq, staging, work.batch, step, consumer, thread);
    }
    __syncwarp();
    if (thread % WARP == 0) mbarrier_arrive(staging_full(shared, consumer));
}

// Stores ds^T of a consumer's keys in the buffer of a stage, where both consumers read it.
INLINE void publish_grads(u32 shared, u32 stage, u32 parity, const ScoreOperand& grads, u32 consumer) {
    u32 thread = read_tid_x() % WARPGROUP;
    mbarrier_wait_parity(grads_empty(shared, stage), parity ^ 1);
    store_grads(shared + GRADS_OFFSET + stage * GRADS_BYTES, grads, consumer * 64 + thread / WARP * 16, thread % WARP);
    fence_proxy_async_shared();
    __syncwarp();
    if (thread % WARP == 0) mbarrier_arrive(grads_full(shared, stage));
}

// Issues k q^T of a consumer's keys.
INLINE void issue_scores(Scores& weight, u32 k_tile, u32 row, u32 q_tile) {
    wgmma_fence();
    gemm_nt<KEYS, HEAD_DIM>(weight, k_tile, row, q_tile);
    wgmma_commit_group();
}

// Writes dk and dv, staged in the buffers of k and v after both consumers have read these.
INLINE void write_keys(const AttentionGradByKeys& p, OwnSums& dk, OwnSums& dv, const WorkTile& work,
                       const KeyValueRing& own, u32 row) {
    barrier_sync(1, CONSUMERS * WARPGROUP);
    row += read_tid_x() % WARPGROUP / WARP * 16;
    scale_by(dk, score_grad_scale(p));
    if (DROPOUT) scale_by(dv, p.dropout_scale);
    write_rows<KEYS, HEAD_DIM>(dk, own.k_tile(), row, head_of(p.dk, work.batch, work.head), work.first_key(),
                               p.sizes.keys, p.sizes.head_dim);
    write_rows<KEYS, HEAD_DIM>(dv, own.v_tile(), row, head_of(p.dv, work.batch, work.head), work.first_key(),
                               p.sizes.keys, p.sizes.value_dim);
}

// With LAG: dq of the last query tile of a work tile, after the main loop. `ring` is one stage past
// that tile.
INLINE void add_last_tile(const AttentionGradByKeys& p, u32 shared, const WorkTile& work, const Step& step,
                          u32 consumer, const KeyValueRing& own, const Ring& ring, u32& semaphore_parity) {
    u32 stage = ring.stage ^ 1;
    mbarrier_wait_parity(grads_full(shared, stage), ring.parity ^ (ring.stage == 0));
    QuerySums dq;
    wgmma_fence();
    multiply_grads(dq, shared + GRADS_OFFSET + stage * GRADS_BYTES, own.k_tile(), consumer);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    fence_accumulator(dq);
    release(grads_empty(shared, stage));
    add_to_queries(p, dq, shared, work, step, consumer, stage, semaphore_parity);
}

// One work tile: see the picture above.
INLINE void consume(const AttentionGradByKeys& p, u32 shared, const WorkTile& work, u32 consumer,
                    const KeyValueRing& own, Ring& ring, u32& semaphore_parity) {
    const Sizes& sizes = p.sizes;
    OwnSums dk, dv;
    clear(dk);
    clear(dv);
    Step step(p, work);
    i32 steps = work.tiles * i32(sizes.group);
    float scale = sizes.scale * LOG2_E;
    u32 row = consumer * 64;
    i32 first_key = work.first_key() + row;
    Scores weight;
    Step before = step;
    if (steps > 0) {
        mbarrier_wait_parity(ring.full(), ring.parity);
        issue_scores(weight, own.k_tile(), row, ring.tiles());
        wgmma_wait_group<0>();
        fence_accumulator(weight);
    }
#pragma unroll 1
    for (i32 index = 0; index < steps; ++index) {
        u32 q_tile = ring.tiles(), dy_tile = q_tile + TILE_BYTES, stage = ring.stage;
        Scores weight_grad;
        wgmma_fence();
        gemm_nt<KEYS, HEAD_DIM>(weight_grad, own.v_tile(), row, dy_tile);
        wgmma_commit_group();
        recompute_weights(weight, sizes, first_key, step.tile * QUERIES, ring.row_stats(), scale);
        StepBits bits = step_bits(p, work, step);
        wgmma_wait_group<0>();
        fence_accumulator(weight_grad);
        ScoreOperand weights, grads;
        compute_ds(weights, grads, weight, weight_grad, ring.row_stats() + ROW_STAT_BYTES, bits);
        wgmma_fence();
        accumulate_gemm_nn<HEAD_DIM>(dv, weights, dy_tile);
        if (LAG) accumulate_gemm_nn<HEAD_DIM>(dk, grads, q_tile);
        wgmma_commit_group();
        publish_grads(shared, stage, ring.parity, grads, consumer);
        // dq of this tile. With LAG, dq of the previous one, whose ds^T the other consumer has had
        // time to store; at the first tile the product is not used.
        u32 of = LAG ? stage ^ 1 : stage;
        bool has_grads = !LAG || index > 0;
        if (has_grads) mbarrier_wait_parity(grads_full(shared, of), ring.parity ^ u32(LAG && stage == 0));
        QuerySums dq;
        wgmma_fence();
        if (!LAG) {
            accumulate_gemm_nn<HEAD_DIM>(dk, grads, q_tile);
            wgmma_commit_group();
        }
        multiply_grads(dq, shared + GRADS_OFFSET + of * GRADS_BYTES, own.k_tile(), consumer);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        fence_accumulator(dv);
        fence_accumulator(dk);
        release(ring.empty());
        ring.advance();
        // The scores of the next tile. After the last tile the stage has no valid data, and the
        // product is not used.
        if (index + 1 < steps) mbarrier_wait_parity(ring.full(), ring.parity);
        issue_scores(weight, own.k_tile(), row, ring.tiles());
        wgmma_wait_group<1>();
        fence_accumulator(dq);
        if (has_grads) {
            release(grads_empty(shared, of));
            add_to_queries(p, dq, shared, work, LAG ? before : step, consumer, of, semaphore_parity);
        }
        before = step;
        step.advance(work);
        wgmma_wait_group<0>();
        fence_accumulator(weight);
    }
    if (LAG && steps > 0) add_last_tile(p, shared, work, before, consumer, own, ring, semaphore_parity);
    write_keys(p, dk, dv, work, own, row);
}

INLINE void consumer_loop(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    u32 semaphore_parity = 0;
    KeyValueRing own(shared);
#pragma unroll 1
    for (;; own.advance()) {
        u32 index = __shfl_sync(ALL_LANES, own.await(), 0);
        if (index == NO_WORK_TILE) return;
        consume(p, shared, WorkTile(p, index), consumer, own, ring, semaphore_parity);
        // The next loads overwrite what was stored and read here.
        fence_proxy_async_shared();
        __syncwarp();
        if (read_tid_x() % WARP == 0) mbarrier_arrive(own.empty());
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
        // Read again where the other warpgroups have no register for it.
        u32 task = DROPOUT ? read_tid_x() / WARP : warp;
        if (task == CONSUMER_WARPS) producer_loop(p, shared);
        if (task > CONSUMER_WARPS && task <= CONSUMER_WARPS + CONSUMERS)
            accumulate_dq_parts(p, shared, task - CONSUMER_WARPS - 1);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consumer_loop(p, shared, warpgroup);
    }
}

#if UNORDERED
// Converts the sums of a query tile, to which all work tiles have added, to dq.
extern "C" __global__ void __launch_bounds__(CONSUMERS* WARPGROUP)
    attention_grad_convert_queries(const __grid_constant__ AttentionGradByKeys p) {
    wait_for_earlier_launches();
    __shared__ __align__(16) u8 staging[CONSUMERS * STAGING_BYTES];
    u32 head = blockIdx.x / p.query_tiles, tile = blockIdx.x - head * p.query_tiles, batch = head / p.sizes.heads;
    u32 consumer = threadIdx.x / WARPGROUP, thread = threadIdx.x % WARPGROUP;
    const float* sums =
        p.sums + u64(blockIdx.x) * (QUERIES * HEAD_DIM) + (consumer * (SLAB_COLUMNS / 8) * WARPGROUP + thread) * 4;
    QuerySums dq;
#pragma unroll
    for (int j = 0; j < SLAB_COLUMNS / 8; ++j) ld_relaxed_gpu_v4(dq[0][j], sums + j * WARPGROUP * 4);
    write_queries(p, dq, cvta_to_shared(staging) + consumer * STAGING_BYTES, batch,
                  Step(head - batch * p.sizes.heads, tile), consumer, thread);
}
#endif
