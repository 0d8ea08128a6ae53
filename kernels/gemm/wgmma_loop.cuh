// The main loop of gemm/wgmma.cu: a producer's loads and a consumer's products, by way of the ring of stages.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "lib/launch.cuh"
#include "ptx/barrier.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_ss.cuh"

constexpr u32 NOBODY = ~0u;

// The ring: where the next stage is, and the parity of its turn.
struct Ring {
    u32 first;  // address of stage 0
    u32 stage = 0, parity = 0;
    u32 peer = NOBODY;  // of a consumer's ring: the block at whose barrier this lane arrives

    INLINE Ring(u32 shared) : first(shared) {}
    INLINE u32 address() const { return first + stage * STAGE; }
    INLINE u32 full() const { return first + BARRIERS + stage * 8; }
    INLINE u32 empty() const { return first + BARRIERS + (STAGES + stage) * 8; }
    // Of the stage `back` before.
    INLINE u32 empty_before(u32 back) const { return empty() + i32(stage < back ? STAGES - back : -back) * 8; }
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
// Which share of an operand's stage a block loads, and into the shared memory of which blocks of the cluster, a bit each.
struct Share {
    u32 number, blocks;
};
// Of a, for the blocks of the row: their ranks are CLUSTER_DOWN apart.
INLINE Share share_of_a() {
    u32 blocks = 0;
#pragma unroll
    for (int across = 0; across < CLUSTER_ACROSS; ++across) blocks |= 1u << across * CLUSTER_DOWN;
    return Share{rank_across(), blocks << rank_down()};
}
// Of b, for the blocks of the column.
INLINE Share share_of_b() { return Share{rank_down(), ((1u << CLUSTER_DOWN) - 1) << rank_across() * CLUSTER_DOWN}; }

// A share of one stage of an operand, one of SHARES: some of its lines, or a range of k.
template <bool INNER, int LINES, int SHARES>
INLINE void load_share(u32 to, const TensorMap& map, u32 line, u32 k, i32 fast, i32 slow, u32 barrier, Share share) {
    u32 first = share.number * ((INNER ? LINES : TILE_K) / SHARES);
    to += first * LINE;
    if constexpr (INNER) {
        cp_async_bulk_tensor_4d_multicast(to, map, k, line + first, fast, slow, barrier, share.blocks);
    } else {
#pragma unroll
        for (int slab = 0; slab < LINES / RUN; ++slab)
            cp_async_bulk_tensor_4d_multicast(to + slab * SLAB_K, map, line + slab * RUN, k + first, fast, slow,
                                              barrier, share.blocks);
    }
}

// In the first turn the stages are free: the parity is that of the phase before the first. Blocks of a cluster arrive there, too; what they did before
// is not read here, so that the wait acquires nothing of them (it would throw away the L1 cache each time).
INLINE void await_empty(const Ring& ring) { mbarrier_wait_parity(ring.empty(), ring.parity ^ 1); }

// Where the producer's loads of a tile begin.
struct Loads {
    const TensorMapProduct& p;
    Work work;
    i32 a_fast, a_slow, b_fast, b_slow;
    Share a_share, b_share;

    INLINE Loads(const TensorMapProduct& parameters, u32 number)
        : p(parameters), work(p, number), a_share(share_of_a()), b_share(share_of_b()) {
        a_fast = p.a_axes & 1 ? work.fast : 0, a_slow = p.a_axes & 2 ? work.slow : 0;
        b_fast = p.b_axes & 1 ? work.fast : 0, b_slow = p.b_axes & 2 ? work.slow : 0;
    }
    // The stage's own bytes are announced, whichever block loads them, and those of a begin to come.
    INLINE void load_a(const Ring& ring, u32 k) const {
        mbarrier_arrive_expect_tx(ring.full(), STAGE);
        if constexpr (CLUSTER_ACROSS > 1)
            load_share<A_INNER, TILE_M, CLUSTER_ACROSS>(ring.address(), p.a, work.tile.row, k, a_fast, a_slow,
                                                        ring.full(), a_share);
        else
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                load_operand<A_INNER, TILE_M>(ring.address() + part * PART_A, p.a, work.tile.row, k, a_fast,
                                              a_slow + part * p.a_part, ring.full());
    }
    INLINE void load_b(const Ring& ring, u32 k) const {
        u32 to = ring.address() + STAGE_A;
        if constexpr (CLUSTER_DOWN > 1)
            load_share<B_INNER, TILE_N, CLUSTER_DOWN>(to, p.b, work.tile.column, k, b_fast, b_slow, ring.full(),
                                                      b_share);
        else
#pragma unroll
            for (int part = 0; part < PARTS; ++part)
                load_operand<B_INNER, TILE_N>(to + part * PART_B, p.b, work.tile.column, k, b_fast,
                                              b_slow + part * p.b_part, ring.full());
    }
};

// The stages of a tile from number `block` on.
INLINE void load_tile(const Loads& loads, Ring& ring, u32 block) {
    u32 k = loads.work.first + block * TILE_K;
#pragma unroll 1
    for (; block < loads.work.blocks; ++block, k += TILE_K) {
        await_empty(ring);
        loads.load_a(ring, k);
        loads.load_b(ring, k);
        ring.advance();
    }
}

// Whether the block's a needs no other block: it may come before those have their barriers, which only b needs.
constexpr bool LOADS_EARLY = CLUSTER == 1 || (CLUSTER_DOWN > 1 && CLUSTER_ACROSS == 1);
// Stages that the first instructions of a kernel load.
constexpr u32 FIRST_STAGES = STAGES < 4 ? STAGES : 4;

// Barriers by one thread: a fence of more of them takes longer than they save. By another warp than the producer's, which meanwhile works out where its first
// loads begin.
INLINE void init_barriers(u32 shared) {
    Ring ring(shared);
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
        mbarrier_init(ring.full(), 1);
        mbarrier_init(ring.empty(), SHARING * (PINGPONG ? 1 : CONSUMERS) * WARPGROUP / WARP + SUM_WARPS);
    }
#pragma unroll
    for (u32 consumer = 0; consumer < CONSUMERS; ++consumer) mbarrier_init(turn_of(shared, consumer), WARPGROUP / WARP);
    for (u32 strip = 0; strip < STRIP_BARRIERS; ++strip) mbarrier_init(turn_of(shared, CONSUMERS + strip), 1);
    fence_mbarrier_init();
}
// The warp that makes the barriers goes on, and the producer's waits for it. (Were both to wait, each in code of its own, compute-sanitizer's synccheck would
// take them for threads of a block that diverge.)
INLINE void announce_barriers() { barrier_arrive(1 + CONSUMERS, 2 * WARP); }
INLINE void await_barriers() { barrier_sync(1 + CONSUMERS, 2 * WARP); }

// What takes longest in a short product is the way of its first loads. So these are among the kernel's first instructions: code that comes behind a jump is
// not there yet, and is waited for as long as for operands, or longer while they come. Nor do they wait for the consumers. By the producer's warp; how many
// stages are on their way then.
INLINE u32 load_first_stages(const TensorMapProduct& p, u32 shared) {
    Ring ring(shared);
    bool leads = threadIdx.x % WARP == 0;
    if (leads) {
        prefetch_tensormap(p.a);
        prefetch_tensormap(p.b);
    }
    Loads loads(p, first_number());
    u32 stages = min(loads.work.blocks, FIRST_STAGES), k = loads.work.first;
    wait_for_earlier_launches();
    await_barriers();
    if (CLUSTER > 1) barrier_cluster_arrive_relaxed();
    if (LOADS_EARLY && leads)
#pragma unroll 1
        for (u32 block = 0; block < stages; ++block, ring.advance()) {
            loads.load_a(ring, k + block * TILE_K);
            if (CLUSTER == 1) loads.load_b(ring, k + block * TILE_K);
        }
    if (CLUSTER == 1) return stages;
    __syncwarp();
    barrier_cluster_wait();
    ring = Ring(shared);
    if (leads)
#pragma unroll 1
        for (u32 block = 0; block < stages; ++block, ring.advance()) {
            if (!LOADS_EARLY) loads.load_a(ring, k + block * TILE_K);
            loads.load_b(ring, k + block * TILE_K);
        }
    return stages;
}
// The producer. Of its first tile `stages` stages are on their way.
INLINE void produce(const TensorMapProduct& p, u32 shared, u32 stages) {
    Ring ring(shared);
    ring.skip(stages);
#pragma unroll 1
    for (u32 number = first_number(); number < p.tiles.count; number = next_number(number), stages = 0)
        load_tile(Loads(p, number), ring, stages);
    // The other blocks of a cluster arrive at this block's barriers: its shared memory stays until they have.
    if (CLUSTER > 1)
#pragma unroll 1
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) await_empty(ring);
}

// ---------------------------------------------------------------- consumers

// The block at whose barriers the lane arrives: lanes have those that share operands with this one, of which any may fill a stage anew. Worked out once:
// else it would be for every stage.
INLINE u32 peer_of_lane() {
    u32 lane = threadIdx.x % WARP;
    return opaque(lane < CLUSTER && shares_with(lane) ? lane : NOBODY);
}
// The stage may be filled anew. Of each warp, since each waits for its own products.
INLINE void release(const Ring& ring, u32 empty) {
    if constexpr (CLUSTER > 1) {
        if (ring.peer != NOBODY) mbarrier_arrive_cluster(mapa_shared_cluster(empty, ring.peer));
    } else if (threadIdx.x % WARP == 0) {
        mbarrier_arrive(empty);
    }
}
// Until all products are complete; releases the last stages of `blocks`.
INLINE void await_sums(Sums& sums, const Ring& ring, u32 blocks) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) wgmma_fence_operand(sums[block][j][e]);
#pragma unroll
    for (u32 back = UNDER_WAY; back > 0; --back)
        if (back <= blocks) release(ring, ring.empty_before(back));
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

// The next stage, number `block` of its tile; `beside` runs while it is multiplied.
template <class Beside> INLINE void add_stage(Sums& sums, Ring& ring, u32 block, u32 row, Beside beside) {
    mbarrier_wait_parity(ring.full(), ring.parity);
    multiply(sums, ring.address() + row * LINE, ring.address() + STAGE_A, block > 0);
    beside();
    // The products of earlier stages are complete; those of the last UNDER_WAY run on.
    wgmma_wait_group<UNDER_WAY>();
    if (block >= UNDER_WAY) release(ring, ring.empty_before(UNDER_WAY));
    ring.advance();
}
// The products of the next stages, from number `block` to `blocks`. The last ones are not released: their products run on. Before number `pause` the consumer
// waits for the other one.
INLINE void add_up(Sums& sums, Ring& ring, u32 block, u32 blocks, u32 row, u32 pause) {
#pragma unroll 1
    for (; block < blocks; ++block) {
        if (PAUSE > 0 && block == pause) mbarrier_wait_parity(turn_of(ring.first, 1), 0);
        add_stage(sums, ring, block, row, [] {});
    }
}
#endif
