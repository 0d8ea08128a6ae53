// What the kernels of attention/grad_by_keys.cu and grad_by_keys_wide.cu share: sizes, what is where in shared memory, parameters, works and their turns, rings.

#pragma once

#ifndef UNORDERED
#define UNORDERED 0
#endif

#include "attention/dropout_bits.cuh"
#include "attention/wgmma.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/tma.cuh"

// Heads of more than 128 columns (grad_by_keys_wide.cu): consumers have the same keys, and half of the columns of all sums each.
constexpr bool WIDE = HEAD_DIM > 128;
constexpr int WARPGROUP = 128;
constexpr int CONSUMERS = 2;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr int CONSUMER_WARPS = CONSUMERS * WARPGROUP / WARP;
// 504 registers of three warpgroups' threads: 168 each at launch, which 65536 / THREADS rounds down to.
// What each width takes without spills.
constexpr int PRODUCER_REGISTERS = HEAD_DIM % 128 == 64 ? 40 : 24,
              CONSUMER_REGISTERS = HEAD_DIM % 128 == 64 ? 232 : 240;

constexpr int KEYS = WIDE ? 64 : 128;                        // of a block; 64 of each consumer
constexpr int QUERIES = HEAD_DIM == 64 ? 128 : 64;           // of a tile
constexpr int SCORE_QUERIES = WIDE ? QUERIES / 2 : QUERIES;  // of a tile, of a consumer's scores
constexpr int STAGES = 2;                                    // what else is there twice takes turns with them
// Of k and v: where shared memory has room for two, those of the next block of keys come while one is worked on.
constexpr int OWN_STAGES = HEAD_DIM == 64 ? 2 : 1;
constexpr int SLAB_COLUMNS = 64;
constexpr int SLABS = HEAD_DIM / SLAB_COLUMNS;

// What is where in shared memory.
constexpr int OWN_BYTES = KEYS * HEAD_DIM * 2;
constexpr int TILE_BYTES = QUERIES * HEAD_DIM * 2;
constexpr int GRADS_BYTES = KEYS * QUERIES * 2;
constexpr int GRADS_COUNT = WIDE ? 4 : 2;                        // ds^T of two tiles in turn; of wide heads p^T, too
constexpr int STAGING_BYTES = WIDE ? 0 : 64 * SLAB_COLUMNS * 4;  // of a consumer: its part of dq of a tile, in f32
constexpr int NUMBER_BYTES = QUERIES * 4;
constexpr int OWN_STAGE_BYTES = 2 * OWN_BYTES;        // k, then v
constexpr int WALKED = OWN_STAGES * OWN_STAGE_BYTES;  // stages of q, then dy
constexpr int STAGE_BYTES = 2 * TILE_BYTES;
constexpr int GRADS = WALKED + STAGES * STAGE_BYTES;
constexpr int STAGING = GRADS + GRADS_COUNT * GRADS_BYTES;
constexpr int NUMBERS = STAGING + CONSUMERS * STAGING_BYTES;  // stages of two numbers of each query
constexpr int BARRIERS = NUMBERS + STAGES * 2 * NUMBER_BYTES;
// Barriers: full and empty of each stage, of each stage of k and v, of both ds^T; and of each consumer, full and empty of its staging, or that it has added, and its
// turn.
constexpr int BARRIER_COUNT = 2 * STAGES + 2 * OWN_STAGES + 2 * STAGES + 3 * CONSUMERS;
constexpr int NUMBERS_OF_WORK = BARRIERS + 8 * BARRIER_COUNT;  // of what is in each stage of k and v
// SHARED = NUMBERS_OF_WORK + 8 * OWN_STAGES

// As AttentionGrad, for this kernel.
struct AttentionGradByKeys {
    TensorMap q, k, v, dy;  // axes: column, row, head, batch
    View<const Element> rows_of_y, rows_of_dy;
    View<const float> log_sums;
    View<Element> dq, dk, dv;
    // [batch * heads, query_tiles, 2, QUERIES]: what is subtracted from scores, then rowsum(dy y). Beyond the queries infinity and 0, for weights
    // of 0.
    float* rows;
    float* sums;  // [batch * heads, query_tiles, QUERIES * HEAD_DIM], in the order of accumulators
    u32*
        turns;  // [batch * heads, query_tiles, CONSUMERS]: how many works have added to a consumer's part of a tile, 0 before the first
    u32 query_tiles, key_blocks;  // of a head
    u32 key_heads;                // of the whole batch; of this launch, with DROPOUT
    u32 abreast;                  // key heads whose works are next to each other
    Sizes sizes;
    u32* ticket;  // the next work, 0 before the first
    u32 works;
    u32 first_key_head;  // with DROPOUT, as what follows
    const u32* bits;
    BitLayout bit_layout;
    float dropout_scale, kept_share;  // of what is kept, and its inverse
};
// What dropout's scale is taken out of, until dk and dq are complete: the gradient of the scores.
INLINE float score_grad_scale(const AttentionGradByKeys& p) {
    return DROPOUT ? p.sizes.scale * p.dropout_scale : p.sizes.scale;
}

constexpr u32 NO_WORK = 0xffffffff;

// A block of keys, and the tiles of queries that it walks over: of each query head that shares the key head, the last one first.
struct Work {
    u32 batch, head;  // of the keys
    u32 block;
    i32 first_tile, tiles;

    INLINE Work(const AttentionGradByKeys& p, u32 number) {
        u32 group_blocks = p.abreast * p.key_blocks, group = number / group_blocks;
        number -= group * group_blocks;
        u32 first = group * p.abreast, abreast = min(p.abreast, p.key_heads - first);
        block = number / abreast;
        u32 at = (DROPOUT ? p.first_key_head : 0) + first + number - block * abreast,
            heads = p.sizes.heads / p.sizes.group;
        batch = at / heads;
        head = at - batch * heads;
        i32 key = first_key();
        Range queries = queries_of(p.sizes, key, min(key + KEYS, i32(p.sizes.keys)));
        first_tile = queries.first / QUERIES;
        tiles = queries.end > queries.first ? (queries.end + QUERIES - 1) / QUERIES - first_tile : 0;
    }
    INLINE i32 first_key() const { return block * KEYS; }
};
// Where a work is on its way.
struct Step {
    u32 head;  // of the queries
    i32 tile;

    INLINE Step(const AttentionGradByKeys& p, const Work& work)
        : head(work.head * p.sizes.group), tile(work.first_tile + work.tiles - 1) {}
    INLINE Step(u32 head, i32 tile) : head(head), tile(tile) {}
    INLINE void advance(const Work& work) {
        if (--tile >= work.first_tile) return;
        tile = work.first_tile + work.tiles - 1;
        ++head;
    }
};
INLINE u64 tile_number(const AttentionGradByKeys& p, const Work& work, const Step& step) {
    return u64(work.batch * p.sizes.heads + step.head) * p.query_tiles + step.tile;
}
// The work's turn among those that add to a tile of queries.
struct Turn {
    u32 number;
    bool is_first, is_last;

    INLINE Turn(const AttentionGradByKeys& p, const Work& work, i32 tile) {
        i32 query = tile * QUERIES;
        Range keys = keys_of(p.sizes, query, min(query + QUERIES, i32(p.sizes.queries)));
        number = work.block - keys.first / KEYS;
        is_first = number == 0;
        is_last = work.block == u32(keys.end - 1) / KEYS;
    }
};

struct Ring {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE Ring(u32 first) : shared(first) {}
    INLINE u32 tiles() const { return shared + WALKED + stage * STAGE_BYTES; }
    INLINE u32 numbers() const { return shared + NUMBERS + stage * 2 * NUMBER_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS + stage * 8; }
    INLINE u32 empty() const { return full() + STAGES * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
};
// The same of k and v, and of the numbers of works.
struct OwnRing {
    u32 shared;
    u32 stage = 0, parity = 0;

    INLINE OwnRing(u32 first) : shared(first) {}
    INLINE u32 k_tile() const { return shared + stage * OWN_STAGE_BYTES; }
    INLINE u32 v_tile() const { return k_tile() + OWN_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS + 2 * STAGES * 8 + stage * 8; }
    INLINE u32 empty() const { return full() + OWN_STAGES * 8; }
    INLINE u32 number() const { return shared + NUMBERS_OF_WORK + stage * 8; }
    INLINE void advance() {
        stage = stage == OWN_STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    // Waits for the next work.
    INLINE u32 await() const {
        mbarrier_wait_parity(full(), parity);
        return ld_shared(number());
    }
};
// Of ds^T in the place that belongs to a stage.
INLINE u32 grads_full(u32 shared, u32 stage) { return shared + BARRIERS + (2 * STAGES + 2 * OWN_STAGES + stage) * 8; }
INLINE u32 grads_empty(u32 shared, u32 stage) { return grads_full(shared, stage) + STAGES * 8; }
// A warp's arrival, behind products that all its lanes have waited for.
INLINE void release(u32 barrier) {
    if (read_tid_x() % WARP == 0) mbarrier_arrive(barrier);
}
// Of a consumer: the staging of dq has its part of a tile; it has been read; the turn has come.
INLINE u32 staging_full(u32 shared, u32 consumer) {
    return shared + BARRIERS + (4 * STAGES + 2 * OWN_STAGES + consumer) * 8;
}
INLINE u32 staging_empty(u32 shared, u32 consumer) { return staging_full(shared, consumer) + CONSUMERS * 8; }
// Of wide heads, without staging: the consumer has added to a tile.
INLINE u32 added_barrier(u32 shared, u32 consumer) { return staging_full(shared, consumer); }
INLINE u32 turn_barrier(u32 shared, u32 consumer) { return staging_full(shared, consumer) + 2 * CONSUMERS * 8; }

// By all threads, ahead of everything else. Wide heads use no barrier of an empty staging.
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
        OwnRing own(shared);
#pragma unroll
        for (int stage = 0; stage < OWN_STAGES; ++stage, own.advance()) {
            mbarrier_init(own.full(), 1);
            mbarrier_init(own.empty(), CONSUMER_WARPS + CONSUMERS);
        }
#pragma unroll
        for (int consumer = 0; consumer < CONSUMERS; ++consumer) {
            mbarrier_init(staging_full(shared, consumer), WARPGROUP / WARP);
            mbarrier_init(staging_empty(shared, consumer), 1);
            mbarrier_init(turn_barrier(shared, consumer), 1);
        }
        fence_mbarrier_init();
    }
    __syncthreads();
}
