// The gradient of forward.cu in one walk, of f16 and bf16 by warpgroups (wgmma, sm_90a), without mask: five products for each tile of scores, where the
// two walks of grad.cu take seven. Operands come by the tensor memory accelerator (TMA), and which weights dropout keeps has been drawn before
// (dropout_bits.cuh).
//
//   q, y, dy, dq [batch, heads, queries, width]   k, v, dk, dv [batch, heads / group, keys, width]   log_sums [batch, heads, queries]
//
//   s^T  = k q^T     dp^T = v dy^T       p^T = exp(scale s^T - lse)     ds^T = p^T (dp^T - row_dot)     row_dot = rowsum(dy y)
//   dv  += p^T dy    dk  += ds^T q       p^T and ds^T are left operands as they stand in registers
//   dq   = ds k                          ds^T goes through shared memory, k along its columns
//
// A work is KEYS keys of a head, and a walk over the tiles of queries that see any of them, the last tile first, of all query heads that share the
// key head. The grid is as large as the device; a block takes one work after the other, by a ticket, and loads the next one's tiles meanwhile:
//
//   producer (a thread)   k, v of a work; q, dy, lse, row_dot of a tile  ---TMA--->  rings of OWN_STAGES and of STAGES buffers
//   two threads           dq of a consumer's tiles                  ---TMA, in turn--->  sums in global memory
//   two consumers (128 threads each, 64 keys)
//
//      tensor cores  | dp        | dv, dk              | dq of the tile before | s of the next tile         |
//      other units   | p         ds | ds to shared memory                        | dq before to its staging   |
//
// dq takes ds of both consumers. With LAG it lags a tile behind, so that neither waits for the other: one's exponentials run under the other one's
// products. Without, it is that of the tile itself, and they wait: a tile's turn comes sooner, and a short walk has no end without other products.
// Both consumers multiply ds by k: of width 64 each has 64 of the 128 queries, of width 128 half of the columns of 64 queries.
//
// Order of sums. dq of a tile is a sum over the works of a head, which add to f32 sums in global memory in the order of their keys, each in its
// turn: two runs give the same bits. The first work of a tile stores, which takes no sums of 0 before; the last one, for a causal band that of the
// diagonal, adds in registers and writes dq, which takes no pass behind. A consumer leaves its part of a tile in shared memory and goes on; a thread
// for each consumer waits for the part's turn, which is a counter, adds it by a copy that sums (cp.reduce.async.bulk), and passes the turn on when the
// copy is complete. So a consumer waits for a turn only where it writes dq itself, or where the part before has not been added for a whole tile.
//
// A work waits for works with smaller keys of the same head only, which have smaller numbers. Tickets are drawn in the order of numbers by blocks
// that run: the undone work with the smallest number can always go on, however few blocks fit the device. All walk from the last tile on. That none
// waits long, `abreast` heads have their works beside each other: work 0 of each, work 1 of each, .. So a work begins some steps after the one it
// follows, and those with most to do begin first.
//
// (Instead a cluster could have all keys of a head, and add up dq in its shared memory; but clusters of 4 and more blocks do not fill an H100, and a
// causal band leaves a cluster's blocks idle.)
//
// With UNORDERED, for measurement alone (docs/kernels/attention.md, "The price of the order"), no work waits for a turn: all add to sums that the first
// launch set to 0, in whatever order they come, and a third launch converts the sums, as in FlashAttention-3. Two runs need not give the same bits
// then. No op asks for it.
//
// Macros: those of params.cuh, LAG, and UNORDERED (1; 0 or none: in a fixed order).
//
// Launch, with tile = QUERIES (128 of width 64, else 64):
//   attention_grad_tile_rows<<<batch * heads * query_tiles, 256>>>     row_dot and lse; turns and the ticket become 0
//   attention_grad_by_keys<<<works or multiprocessors, THREADS, SHARED>>>, with works = batch * heads / group * key_blocks
//   attention_grad_convert_queries<<<batch * heads * query_tiles, 256>>>     with UNORDERED alone
//
// Limits: as forward.cu; widths are rounded up to 64 or 128; every query sees a key; strides are positive (TMA); MASK is 0. With DROPOUT,
// BAND is 1 and a launch is of some heads: the kernel that draws their bits sets the ticket to 0 again.

#ifdef HOST_SHIM
#define LAG 1
#endif

#include "attention/grad_producer.cuh"
#include "attention/grad_scores.cuh"
#include "ptx/barrier.cuh"
#include "ptx/bulk.cuh"
#include "ptx/stmatrix.cuh"
#define WGMMA_N 64  // of dq
#include "ptx/wgmma_ss.cuh"

// ---------------------------------------------------------------- turns

// A consumer's parts of dq: adds each to the sums when the works before have. What a work adds last, the consumer itself reads and writes.
INLINE void add_parts(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    OwnRing own(shared);
    u32 parity = 0;
#pragma unroll 1
    for (;; own.advance()) {
        u32 number = own.await();
        if (number == NO_WORK) break;
        mbarrier_arrive(own.empty());
        Work work(p, number);
        Step step(p, work);
#pragma unroll 1
        for (i32 left = work.tiles * i32(p.sizes.group); left > 0; --left, parity ^= 1, step.advance(work)) {
            Turn turn(p, work, step.tile);
            u64 tile = tile_number(p, work, step);
            u32* counter = p.turns + tile * CONSUMERS + consumer;
            if (UNORDERED || !turn.is_last) mbarrier_wait_parity(staging_full(shared, consumer), parity);
            if (!UNORDERED && !turn.is_first)
                while (ld_acquire_gpu(counter) != turn.number) {}
            delay_at_random();
            if (!UNORDERED && turn.is_last) {
                if (!turn.is_first) mbarrier_arrive(turn_barrier(shared, consumer));
                mbarrier_wait_parity(staging_full(shared, consumer), parity);
                mbarrier_arrive(staging_empty(shared, consumer));
                continue;
            }
            fence_proxy_async_global();
            // Worked out here: the thread has few registers.
            u32 staging = shared + STAGING + opaque(consumer) * STAGING_BYTES;
            float* sums = p.sums + tile * (QUERIES * HEAD_DIM) + consumer * (STAGING_BYTES / 4);
            if (!UNORDERED && turn.is_first) cp_async_bulk_store(sums, staging, STAGING_BYTES);
            else cp_reduce_async_bulk_add_f32(sums, staging, STAGING_BYTES);
            cp_async_bulk_commit_group();
            cp_async_bulk_wait_group_read<0>();
            mbarrier_arrive(staging_empty(shared, consumer));
            if (UNORDERED) continue;
            cp_async_bulk_wait_group<0>();
            fence_proxy_async_global();
            st_release_gpu(counter, turn.number + 1);
        }
    }
    cp_async_bulk_wait_group<0>();
}

// ---------------------------------------------------------------- consumers

typedef float OwnSums[1][HEAD_DIM / 8][4];
typedef float QuerySums[1][SLAB_COLUMNS / 8][4];

// ds^T of a consumer's keys into shared memory: slabs of 64 queries, lines of keys.
INLINE void store_grads(u32 to, const ScoreOperand& grads, u32 row, u32 lane) {
    row += lane % 16;
#pragma unroll
    for (int step = 0; step < QUERIES / 16; ++step)
        stmatrix_x4(to + step / 4 * KEYS * 128 + row * 128 + (((step % 4 * 2 + lane / 16) ^ row) & 7) * 16,
                    grads[0][step]);
}

// dq of a tile over the work's keys, begun: of width 64, 64 queries of each consumer; of width 128, 64 columns of each.
INLINE void multiply_grads(QuerySums& dq, u32 grads, u32 k_tile, u32 consumer) {
    u64 a = smem_descriptor(grads + (HEAD_DIM == 64 ? consumer : 0) * KEYS * 128, KEYS * 128, 1024);
    u64 b = smem_descriptor(k_tile + (HEAD_DIM == 64 ? 0 : consumer) * KEYS * 128, KEYS * 128, 1024);
#pragma unroll
    for (int step = 0; step < KEYS / 16; ++step)
        wgmma_ss_wide<true, true>(dq[0], smem_descriptor_at(a, step * 2048), smem_descriptor_at(b, step * 2048),
                                  step > 0, Element());
}

// A consumer's part of dq of a tile, by way of its place in shared memory.
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

// The consumer's part of dq of a tile: to the thread that adds it in its turn; or, if this work is the last one, to those of the works before, and written.
INLINE void add_to_queries(const AttentionGradByKeys& p, QuerySums& dq, u32 shared, const Work& work, const Step& step,
                           u32 consumer, u32 parity, u32& turn_parity) {
    Turn turn(p, work, step.tile);
    u32 thread = read_tid_x() % WARPGROUP, staging = shared + STAGING + consumer * STAGING_BYTES;
    mbarrier_wait_parity(staging_empty(shared, consumer), parity ^ 1);
    if (UNORDERED || !turn.is_last) {
#pragma unroll
        for (int j = 0; j < SLAB_COLUMNS / 8; ++j) st_shared_v4_f32(staging + (j * WARPGROUP + thread) * 16, dq[0][j]);
        fence_proxy_async_shared();
    } else {
        if (!turn.is_first) {
            mbarrier_wait_parity(turn_barrier(shared, consumer), turn_parity);
            turn_parity ^= 1;
            const float* sums = p.sums + tile_number(p, work, step) * (QUERIES * HEAD_DIM) +
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

// ds^T of a consumer's keys for both to read, in the place of a stage.
INLINE void publish_grads(u32 shared, u32 stage, u32 parity, const ScoreOperand& grads, u32 consumer) {
    u32 thread = read_tid_x() % WARPGROUP;
    mbarrier_wait_parity(grads_empty(shared, stage), parity ^ 1);
    store_grads(shared + GRADS + stage * GRADS_BYTES, grads, consumer * 64 + thread / WARP * 16, thread % WARP);
    fence_proxy_async_shared();
    __syncwarp();
    if (thread % WARP == 0) mbarrier_arrive(grads_full(shared, stage));
}

// k q^T of a consumer's keys, begun.
INLINE void begin_scores(Scores& weight, u32 k_tile, u32 row, u32 q_tile) {
    wgmma_fence();
    product_of_rows<KEYS, HEAD_DIM>(weight, k_tile, row, q_tile);
    wgmma_commit_group();
}

// dk and dv, by way of the places of k and v once both consumers have read these.
INLINE void write_keys(const AttentionGradByKeys& p, OwnSums& dk, OwnSums& dv, const Work& work, const OwnRing& own,
                       u32 row) {
    barrier_sync(1, CONSUMERS * WARPGROUP);
    row += read_tid_x() % WARPGROUP / WARP * 16;
    scale_by(dk, score_grad_scale(p));
    if (DROPOUT) scale_by(dv, p.dropout_scale);
    write_rows<KEYS, HEAD_DIM>(dk, own.k_tile(), row, head_of(p.dk, work.batch, work.head), work.first_key(),
                               p.sizes.keys, p.sizes.head_dim);
    write_rows<KEYS, HEAD_DIM>(dv, own.v_tile(), row, head_of(p.dv, work.batch, work.head), work.first_key(),
                               p.sizes.keys, p.sizes.value_dim);
}

// With LAG: dq of the last tile of a work, whose scores are done. `ring` is behind that tile.
INLINE void add_last_tile(const AttentionGradByKeys& p, u32 shared, const Work& work, const Step& step, u32 consumer,
                          const OwnRing& own, const Ring& ring, u32& turn_parity) {
    u32 stage = ring.stage ^ 1;
    mbarrier_wait_parity(grads_full(shared, stage), ring.parity ^ (ring.stage == 0));
    QuerySums dq;
    wgmma_fence();
    multiply_grads(dq, shared + GRADS + stage * GRADS_BYTES, own.k_tile(), consumer);
    wgmma_commit_group();
    wgmma_wait_group<0>();
    fence_accumulator(dq);
    release(grads_empty(shared, stage));
    add_to_queries(p, dq, shared, work, step, consumer, stage, turn_parity);
}

// One work: see the picture above.
INLINE void consume(const AttentionGradByKeys& p, u32 shared, const Work& work, u32 consumer, const OwnRing& own,
                    Ring& ring, u32& turn_parity) {
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
        begin_scores(weight, own.k_tile(), row, ring.tiles());
        wgmma_wait_group<0>();
        fence_accumulator(weight);
    }
#pragma unroll 1
    for (i32 number = 0; number < steps; ++number) {
        u32 q_tile = ring.tiles(), dy_tile = q_tile + TILE_BYTES, stage = ring.stage;
        Scores weight_grad;
        wgmma_fence();
        product_of_rows<KEYS, HEAD_DIM>(weight_grad, own.v_tile(), row, dy_tile);
        wgmma_commit_group();
        weigh(weight, sizes, first_key, step.tile * QUERIES, ring.numbers(), scale);
        StepBits bits = step_bits(p, work, step);
        wgmma_wait_group<0>();
        fence_accumulator(weight_grad);
        ScoreOperand weights, grads;
        differentiate(weights, grads, weight, weight_grad, ring.numbers() + NUMBER_BYTES, bits);
        wgmma_fence();
        add_product<HEAD_DIM>(dv, weights, dy_tile);
        if (LAG) add_product<HEAD_DIM>(dk, grads, q_tile);
        wgmma_commit_group();
        publish_grads(shared, stage, ring.parity, grads, consumer);
        // dq of this tile; or of the one before, whose ds^T the other consumer has had time to store, and of the first one what no one reads.
        u32 of = LAG ? stage ^ 1 : stage;
        bool has_grads = !LAG || number > 0;
        if (has_grads) mbarrier_wait_parity(grads_full(shared, of), ring.parity ^ u32(LAG && stage == 0));
        QuerySums dq;
        wgmma_fence();
        if (!LAG) {
            add_product<HEAD_DIM>(dk, grads, q_tile);
            wgmma_commit_group();
        }
        multiply_grads(dq, shared + GRADS + of * GRADS_BYTES, own.k_tile(), consumer);
        wgmma_commit_group();
        wgmma_wait_group<1>();
        fence_accumulator(dv);
        fence_accumulator(dk);
        release(ring.empty());
        ring.advance();
        // The scores of the next tile; of the last one anew, which no one reads.
        if (number + 1 < steps) mbarrier_wait_parity(ring.full(), ring.parity);
        begin_scores(weight, own.k_tile(), row, ring.tiles());
        wgmma_wait_group<1>();
        fence_accumulator(dq);
        if (has_grads) {
            release(grads_empty(shared, of));
            add_to_queries(p, dq, shared, work, LAG ? before : step, consumer, of, turn_parity);
        }
        before = step;
        step.advance(work);
        wgmma_wait_group<0>();
        fence_accumulator(weight);
    }
    if (LAG && steps > 0) add_last_tile(p, shared, work, before, consumer, own, ring, turn_parity);
    write_keys(p, dk, dv, work, own, row);
}

INLINE void consume_all(const AttentionGradByKeys& p, u32 shared, u32 consumer) {
    Ring ring(shared);
    u32 turn_parity = 0;
    OwnRing own(shared);
#pragma unroll 1
    for (;; own.advance()) {
        u32 number = __shfl_sync(ALL_LANES, own.await(), 0);
        if (number == NO_WORK) return;
        consume(p, shared, Work(p, number), consumer, own, ring, turn_parity);
        // What was stored and read here is the next loads' place.
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
    // Of lane 0, so that the compiler knows it to be the same in a warp: addresses and descriptors are then worked out once for all lanes.
    u32 warp = __shfl_sync(ALL_LANES, threadIdx.x / WARP, 0), warpgroup = warp / (WARPGROUP / WARP);
    if (warpgroup == CONSUMERS) {
        setmaxnreg_dec<PRODUCER_REGISTERS>();
        if (threadIdx.x % WARP != 0) return;
        // Read again where the other warpgroups have no register for it.
        u32 task = DROPOUT ? read_tid_x() / WARP : warp;
        if (task == CONSUMER_WARPS) produce_all(p, shared);
        if (task > CONSUMER_WARPS && task <= CONSUMER_WARPS + CONSUMERS)
            add_parts(p, shared, task - CONSUMER_WARPS - 1);
    } else {
        setmaxnreg_inc<CONSUMER_REGISTERS>();
        consume_all(p, shared, warpgroup);
    }
}

#if UNORDERED
// dq of the sums of a tile, which all works have added to.
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
