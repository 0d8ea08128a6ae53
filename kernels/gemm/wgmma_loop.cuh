// The main loop of gemm/wgmma.cu: a producer's loads and a consumer's products, by way of the ring of stages.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_ss.cuh"

// The ring: where the next stage is, and the parity of its turn.
struct Ring {
    u32 first;  // address of stage 0
    u32 stage = 0, parity = 0;

    INLINE Ring(u32 shared) : first(shared) {}
    INLINE u32 address() const { return first + stage * STAGE; }
    INLINE u32 full() const { return first + BARRIERS + stage * 8; }
    INLINE u32 empty() const { return first + BARRIERS + (STAGES + stage) * 8; }
    // Of the stage before.
    INLINE u32 empty_before() const { return empty() + (stage == 0 ? STAGES - 1 : -1) * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    // Past the stages of another consumer's tile.
    INLINE void skip(u32 blocks) {
        u32 position = stage + blocks;
        parity ^= position / STAGES & 1;
        stage = position % STAGES;
    }
};

// ---------------------------------------------------------------- producer

// One stage of an operand: its tile from line `line` on, along k from `k` on.
template <bool INNER, int LINES>
INLINE void load_operand(u32 to, const TensorMap& map, u32 line, u32 k, i32 fast, i32 slow, u32 barrier) {
    if constexpr (INNER) {
        cp_async_bulk_tensor_4d(to, map, k, line, fast, slow, barrier);
    } else {
        // Lines of k, each a run of 128 bytes.
#pragma unroll
        for (int slab = 0; slab < LINES / RUN; ++slab)
            cp_async_bulk_tensor_4d(to + slab * SLAB_K, map, line + slab * RUN, k, fast, slow, barrier);
    }
}
// The block's share of a stage of b, into the shared memory of all blocks of the cluster: lines of its own, or a range of k.
INLINE void load_share_of_b(u32 to, const TensorMap& map, u32 line, u32 k, i32 fast, i32 slow, u32 barrier) {
    constexpr u32 ALL_BLOCKS = (1u << CLUSTER) - 1, SHARE = (B_INNER ? TILE_N : TILE_K) / CLUSTER;
    u32 first = rank_in_cluster() * SHARE;
    to += first * LINE;
    if constexpr (B_INNER) {
        cp_async_bulk_tensor_4d_multicast(to, map, k, line + first, fast, slow, barrier, ALL_BLOCKS);
    } else {
#pragma unroll
        for (int slab = 0; slab < TILE_N / 64; ++slab)
            cp_async_bulk_tensor_4d_multicast(to + slab * SLAB, map, line + slab * 64, k + first, fast, slow, barrier,
                                              ALL_BLOCKS);
    }
}

// Where the producer's loads of a tile begin.
struct Loads {
    const TensorMapProduct& p;
    Work work;
    i32 a_fast, a_slow, b_fast, b_slow;

    INLINE Loads(const TensorMapProduct& parameters, u32 number) : p(parameters), work(p, number) {
        a_fast = p.a_axes & 1 ? work.fast : 0, a_slow = p.a_axes & 2 ? work.slow : 0;
        b_fast = p.b_axes & 1 ? work.fast : 0, b_slow = p.b_axes & 2 ? work.slow : 0;
    }
    // The stage's own bytes are announced, whichever block loads them, and those of a begin to come.
    INLINE void load_a(const Ring& ring, u32 k) const {
        mbarrier_arrive_expect_tx(ring.full(), STAGE);
#pragma unroll
        for (int part = 0; part < PARTS; ++part)
            load_operand<A_INNER, TILE_M>(ring.address() + part * PART_A, p.a, work.tile.row, k, a_fast,
                                          a_slow + part * p.a_part, ring.full());
    }
    INLINE void load_b(const Ring& ring, u32 k) const {
        u32 to = ring.address() + STAGE_A;
        if constexpr (CLUSTER > 1) load_share_of_b(to, p.b, work.tile.column, k, b_fast, b_slow, ring.full());
        else
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                load_operand<B_INNER, TILE_N>(to + part * PART_B, p.b, work.tile.column, k, b_fast,
                                              b_slow + part * p.b_part, ring.full());
    }
};

// In the first turn the stages are free: the parity is that of the phase before the first.
INLINE void await_empty(const Ring& ring) {
    if (CLUSTER > 1) mbarrier_wait_parity_cluster(ring.empty(), ring.parity ^ 1);
    else mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
}

// Stages whose a may come before the other blocks of the cluster have their barriers, which only b needs.
INLINE u32 early_stages(const TensorMapProduct& p) {
    if (CLUSTER == 1 || first_number() >= count_tiles(p)) return 0;
    return min(u32(STAGES), Work(p, first_number()).blocks);
}
INLINE void produce_early(const TensorMapProduct& p, u32 shared) {
    Ring ring(shared);
    u32 early = early_stages(p);
    Loads loads(p, first_number());
#pragma unroll 1
    for (u32 block = 0; block < early; ++block, ring.advance()) loads.load_a(ring, loads.work.first + block * TILE_K);
}

INLINE void produce(const TensorMapProduct& p, u32 shared) {
    Ring ring(shared);
    u32 tiles = count_tiles(p), early = early_stages(p);
#pragma unroll 1
    for (u32 number = first_number(); number < tiles; number = next_number(number)) {
        Loads loads(p, number);
        u32 k = loads.work.first;
#pragma unroll 1
        for (u32 block = 0; block < loads.work.blocks; ++block, k += TILE_K) {
            if (CLUSTER > 1 && early > 0) {
                --early;
            } else {
                await_empty(ring);
                loads.load_a(ring, k);
            }
            loads.load_b(ring, k);
            ring.advance();
        }
    }
    // The other blocks arrive at this block's barriers: its shared memory stays until they have.
    if (CLUSTER > 1)
#pragma unroll 1
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) await_empty(ring);
}

// ---------------------------------------------------------------- consumers

// The stage may be filled anew, by any block of the cluster. Of each warp, since each waits for its own products.
INLINE void release(u32 empty) {
    u32 lane = threadIdx.x % WARP;
    if constexpr (CLUSTER > 1) {
        if (lane < CLUSTER) mbarrier_arrive_cluster(mapa_shared_cluster(empty, lane));
    } else if (lane == 0) {
        mbarrier_arrive(empty);
    }
}
// Until all products are complete; releases the last stage.
INLINE void await_sums(Sums& sums, const Ring& ring) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) wgmma_fence_operand(sums[block][j][e]);
    release(ring.empty_before());
}

#if !A_FROM_REGISTERS && !BF16X6
// The products of one stage, begun; `a` is where the consumer's rows begin.
INLINE void multiply(Sums& sums, u32 a, u32 b, bool accumulate) {
    u64 a_first = smem_descriptor(a, SLAB, 8 * LINE), b_first = smem_descriptor(b, SLAB, 8 * LINE);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        u64 b_step = smem_descriptor_at(b_first, step * (B_INNER ? 32 : 16 * LINE));
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
            wgmma_ss_wide<!A_INNER, !B_INNER>(
                sums[block], smem_descriptor_at(a_first, block * SLAB + step * (A_INNER ? 32 : 16 * LINE)), b_step,
                accumulate || step > 0, Element());
    }
    wgmma_commit_group();
}

// The products of the next `blocks` stages. The last stage is not released: its products run on.
INLINE void add_up(Sums& sums, Ring& ring, u32 blocks, u32 row) {
#pragma unroll 1
    for (u32 block = 0; block < blocks; ++block) {
        mbarrier_wait_parity(ring.full(), ring.parity);
        multiply(sums, ring.address() + row * LINE, ring.address() + STAGE_A, block > 0);
        // The products of the stage before are complete; those of this one run on.
        wgmma_wait_group<1>();
        if (block > 0) release(ring.empty_before());
        ring.advance();
    }
}
#endif
