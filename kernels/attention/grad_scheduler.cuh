// Shared by grad_by_keys.cu and grad_by_keys_wide.cu: sizes, shared-memory layout, parameters, the
// work tile scheduler with its turns, ring buffers and mbarriers.

#pragma once

#ifndef UNORDERED
#define UNORDERED 0
#endif

#include "attention/dropout_bits.cuh"
#include "attention/wgmma.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"

// Heads of more than 128 columns (grad_by_keys_wide.cu): both consumers have the same keys, and
// each has half of the columns of all accumulators.
constexpr bool WIDE = HEAD_DIM > 128;
constexpr int WARPGROUP = 128;
constexpr int CONSUMERS = 2;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
// Registers per thread, for each width as many as it needs without spills. The launch gives 168 to
// each thread, which is 65536 / THREADS rounded down to a multiple of 8. The three warpgroups
// divide 3 * 168 = 504 among themselves.
constexpr int PRODUCER_REGISTERS = HEAD_DIM % 128 == 64 ? 40 : 24,
              CONSUMER_REGISTERS = HEAD_DIM % 128 == 64 ? 232 : 240;

constexpr int KEYS = WIDE ? 64 : 128;                        // of a work tile; 64 per consumer
constexpr int QUERIES = HEAD_DIM == 64 ? 128 : 64;           // of a query tile
constexpr int SCORE_QUERIES = WIDE ? QUERIES / 2 : QUERIES;  // of a consumer's scores of a tile
constexpr int STAGES = 2;                                    // also of other double buffers
// Stages of k and v. Where shared memory has room for two, the next work tile's k and v are loaded
// during the current work tile.
constexpr int OWN_STAGES = HEAD_DIM == 64 ? 2 : 1;
constexpr int SLAB_COLUMNS = 64;
constexpr int SLABS = HEAD_DIM / SLAB_COLUMNS;

// Shared-memory layout, in bytes: sizes and offsets.
constexpr int OWN_BYTES = KEYS * HEAD_DIM * 2;
constexpr int TILE_BYTES = QUERIES * HEAD_DIM * 2;
constexpr int GRADS_BYTES = KEYS * QUERIES * 2;
constexpr int GRADS_COUNT = WIDE ? 4 : 2;  // ds^T of two tiles; for wide heads p^T, too
// Of a consumer: its part of dq of a tile, in f32.
constexpr int STAGING_BYTES = WIDE ? 0 : 64 * SLAB_COLUMNS * 4;
constexpr int ROW_STAT_BYTES = QUERIES * 4;
constexpr int OWN_STAGE_BYTES = 2 * OWN_BYTES;                 // k, then v
constexpr int STREAMED_OFFSET = OWN_STAGES * OWN_STAGE_BYTES;  // stages of q, then dy
constexpr int STAGE_BYTES = 2 * TILE_BYTES;
constexpr int GRADS_OFFSET = STREAMED_OFFSET + STAGES * STAGE_BYTES;
constexpr int STAGING_OFFSET = GRADS_OFFSET + GRADS_COUNT * GRADS_BYTES;
// Stages of the LSE and row_dot of each query.
constexpr int ROW_STATS_OFFSET = STAGING_OFFSET + CONSUMERS * STAGING_BYTES;
constexpr int BARRIERS_OFFSET = ROW_STATS_OFFSET + STAGES * 2 * ROW_STAT_BYTES;
// mbarriers: full and empty of each stage, of each stage of k and v, and of each buffer of ds^T;
// and for each consumer: its staging buffer is full (wide heads: it has added), its staging buffer
// is empty, and its turn has come.
constexpr int BARRIER_COUNT = 2 * STAGES + 2 * OWN_STAGES + 2 * STAGES + 3 * CONSUMERS;
// The work tile index of each stage of k and v.
constexpr int WORK_TILE_INDICES_OFFSET = BARRIERS_OFFSET + 8 * BARRIER_COUNT;
// SHARED (the host's `shared_bytes`) = WORK_TILE_INDICES_OFFSET + 8 * OWN_STAGES

// The parameters, like AttentionGrad in params.cuh.
struct AttentionGradByKeys {
    TensorMap q, k, v, dy;  // axes: column, row, head, batch
    View<const Element> rows_of_y, rows_of_dy;
    View<const float> log_sums;
    View<Element> dq, dk, dv;
    // [batch * heads, query_tiles, 2, QUERIES]: the LSE that is subtracted from scores, then
    // rowsum(dy y). Beyond the queries infinity and 0, so that the weights are 0.
    float* rows;
    // [batch * heads, query_tiles, QUERIES * HEAD_DIM], in the order of accumulator fragments.
    float* sums;
    // [batch * heads, query_tiles, CONSUMERS]: the number of work tiles that have added to a
    // consumer's part of a query tile, initially 0.
    u32* dq_semaphores;
    u32 query_tiles, key_blocks;  // of a head
    u32 key_heads;                // of the whole batch; with DROPOUT, of this launch
    u32 interleaved_heads;        // interleaved key heads
    Sizes sizes;
    u32* ticket;  // index of the next work tile, initially 0
    u32 work_tiles;
    u32 first_key_head;  // only with DROPOUT, like the fields below
    const u32* bits;
    BitLayout bit_layout;
    float dropout_scale, keep_probability;  // factor of kept weights, and its inverse
};
// The factor of the finished dk and dq. Until then the gradient of the scores is without the
// dropout scale.
INLINE float score_grad_scale(const AttentionGradByKeys& p) {
    return DROPOUT ? p.sizes.scale * p.dropout_scale : p.sizes.scale;
}

constexpr u32 NO_WORK_TILE = 0xffffffff;

// A block of keys, and the query tiles that it loops over: for each query head that shares the key
// head, from the last tile to the first.
struct WorkTile {
    u32 batch, head;  // the key head
    u32 block;
    i32 first_tile, tiles;

    INLINE WorkTile(const AttentionGradByKeys& p, u32 index) {
        u32 group_blocks = p.interleaved_heads * p.key_blocks, group = index / group_blocks;
        index -= group * group_blocks;
        u32 first = group * p.interleaved_heads, interleaved_heads = min(p.interleaved_heads, p.key_heads - first);
        block = index / interleaved_heads;
        u32 at = (DROPOUT ? p.first_key_head : 0) + first + index - block * interleaved_heads,
            heads = p.sizes.heads / p.sizes.group;
        batch = at / heads;
        head = at - batch * heads;
        i32 key = first_key();
        Range queries = query_range(p.sizes, key, min(key + KEYS, i32(p.sizes.keys)));
        first_tile = queries.first / QUERIES;
        tiles = queries.end > queries.first ? (queries.end + QUERIES - 1) / QUERIES - first_tile : 0;
    }
    INLINE i32 first_key() const { return block * KEYS; }
};
// The position of a work tile's loop.
struct Step {
    u32 head;  // the query head
    i32 tile;

    INLINE Step(const AttentionGradByKeys& p, const WorkTile& work)
        : head(work.head * p.sizes.group), tile(work.first_tile + work.tiles - 1) {}
    INLINE Step(u32 head, i32 tile) : head(head), tile(tile) {}
    INLINE void advance(const WorkTile& work) {
        if (--tile >= work.first_tile) return;
        tile = work.first_tile + work.tiles - 1;
        ++head;
    }
};
INLINE u64 tile_index(const AttentionGradByKeys& p, const WorkTile& work, const Step& step) {
    return u64(work.batch * p.sizes.heads + step.head) * p.query_tiles + step.tile;
}
// The work tile's turn among those that add to a query tile.
struct DqSemaphore {
    u32 index;
    bool is_first, is_last;

    INLINE DqSemaphore(const AttentionGradByKeys& p, const WorkTile& work, i32 tile) {
        i32 query = tile * QUERIES;
        Range keys = key_range(p.sizes, query, min(query + QUERIES, i32(p.sizes.queries)));
        index = work.block - keys.first / KEYS;
        is_first = index == 0;
        is_last = work.block == u32(keys.end - 1) / KEYS;
    }
};

struct Ring {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE Ring(u32 first) : shared(first) {}
    INLINE u32 tiles() const { return shared + STREAMED_OFFSET + stage * STAGE_BYTES; }
    INLINE u32 row_stats() const { return shared + ROW_STATS_OFFSET + stage * 2 * ROW_STAT_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + stage * 8; }
    INLINE u32 empty() const { return full() + STAGES * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};
// The same for k and v, and for the indices of work tiles.
struct KeyValueRing {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE KeyValueRing(u32 first) : shared(first) {}
    INLINE u32 k_tile() const { return shared + stage * OWN_STAGE_BYTES; }
    INLINE u32 v_tile() const { return k_tile() + OWN_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + 2 * STAGES * 8 + stage * 8; }
    INLINE u32 empty() const { return full() + OWN_STAGES * 8; }
    INLINE u32 index() const { return shared + WORK_TILE_INDICES_OFFSET + stage * 8; }
    INLINE void advance() {
        stage = stage == OWN_STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    // Waits for the next work tile and returns its index.
    INLINE u32 await() const {
        mbarrier_wait_parity(full(), parity);
        return ld_shared(index());
    }
};
// mbarriers of the ds^T buffer that belongs to a stage.
INLINE u32 grads_full(u32 shared, u32 stage) {
    return shared + BARRIERS_OFFSET + (2 * STAGES + 2 * OWN_STAGES + stage) * 8;
}
INLINE u32 grads_empty(u32 shared, u32 stage) { return grads_full(shared, stage) + STAGES * 8; }
// Arrives for a warp, after all its lanes have waited for the products that read the buffer.
INLINE void release(u32 barrier) {
    if (read_tid_x() % WARP == 0) mbarrier_arrive(barrier);
}
// mbarriers of a consumer: its staging buffer holds its part of dq of a tile; the staging buffer
// has been read; (below) its turn has come.
INLINE u32 staging_full(u32 shared, u32 consumer) {
    return shared + BARRIERS_OFFSET + (4 * STAGES + 2 * OWN_STAGES + consumer) * 8;
}
INLINE u32 staging_empty(u32 shared, u32 consumer) { return staging_full(shared, consumer) + CONSUMERS * 8; }
// For wide heads, which have no staging buffer: the consumer has added to a tile.
INLINE u32 added_barrier(u32 shared, u32 consumer) { return staging_full(shared, consumer); }
INLINE u32 semaphore_barrier(u32 shared, u32 consumer) { return staging_full(shared, consumer) + 2 * CONSUMERS * 8; }

// Called by all threads, before everything else. Wide heads do not use staging_empty.
INLINE void init_barriers(u32 shared) {
    if (threadIdx.x == 0) {
        Ring ring(shared);
#pragma unroll
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
            mbarrier_init(ring.full(), 1);
            mbarrier_init(ring.empty(), CONSUMER_WARPS);
            mbarrier_init(grads_full(shared, stage), CONSUMER_WARPS);
            mbarrier_init(grads_empty(shared, stage), CONSUMER_WARPS);
        }
        KeyValueRing own(shared);
#pragma unroll
        for (int stage = 0; stage < OWN_STAGES; ++stage, own.advance()) {
            mbarrier_init(own.full(), 1);
            mbarrier_init(own.empty(), CONSUMER_WARPS + CONSUMERS);
        }
#pragma unroll
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            mbarrier_init(staging_full(shared, consumer), WARPGROUP / WARP);
            mbarrier_init(staging_empty(shared, consumer), 1);
            mbarrier_init(semaphore_barrier(shared, consumer), 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}
