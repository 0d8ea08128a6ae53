// The main loop of gemm/wgmma.cu: the producer loads the stages of the ring, and the consumers
// multiply them.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "lib/launch.cuh"
#include "ptx/barrier.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_ss.cuh"

constexpr u32 NONE = ~0u;

// The state of the ring: index of the next stage, and parity of its mbarrier phase.
struct Ring {
    u32 first;  // address of stage 0
    u32 stage = 0, parity = 0;
    u32 peer = NONE;  // of a consumer: the block at whose mbarriers this lane arrives

    INLINE Ring(u32 shared) : first(shared) {}
    INLINE u32 address() const { return first + stage * STAGE; }
    INLINE u32 full() const { return first + BARRIERS + stage * 8; }
    INLINE u32 empty() const { return first + BARRIERS + (STAGES + stage) * 8; }
    // The empty barrier of the stage `back` stages before.
    INLINE u32 empty_before(u32 back) const { return empty() + i32(stage < back ? STAGES - back : -back) * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    // Skips the stages of the other consumer's tile.
    INLINE void skip(u32 blocks) {
        u32 position = stage + blocks;
        parity ^= position / STAGES & 1;
        stage = position % STAGES;
    }
};

// ---------------------------------------------------------------- producer

// Loads one stage of an operand: the tile from line `line` on, along k from `k` on.
template <bool K_MAJOR, int LINES>
INLINE void load_operand(u32 to, const TensorMap& map, u32 line, u32 k, i32 fast, i32 slow, u32 barrier) {
    if constexpr (K_MAJOR) {
        cp_async_bulk_tensor_4d(to, map, k, line, fast, slow, barrier);
    } else {
        // Slabs whose lines are indices of k, 128 contiguous bytes each.
#pragma unroll
        for (int slab = 0; slab < LINES / RUN; ++slab)
            cp_async_bulk_tensor_4d(to + slab * SLAB_K, map, line + slab * RUN, k, fast, slow, barrier);
    }
}
// The part of an operand's stage that a block loads (`number`: its index), and the mask of the
// cluster's blocks into whose shared memory it is multicast.
struct MulticastPart {
    u32 number, blocks;
};
// The part of a, for the blocks of the row: their ranks are CLUSTER_DOWN apart.
INLINE MulticastPart multicast_part_of_a() {
    u32 blocks = 0;
#pragma unroll
    for (int across = 0; across < CLUSTER_ACROSS; ++across) blocks |= 1u << across * CLUSTER_DOWN;
    return MulticastPart{rank_across(), blocks << rank_down()};
}
// The part of b, for the blocks of the column.
INLINE MulticastPart multicast_part_of_b() {
    return MulticastPart{rank_down(), ((1u << CLUSTER_DOWN) - 1) << rank_across() * CLUSTER_DOWN};
}

// Loads one of MULTICAST_PARTS parts of one stage of an operand: some of its lines, or a range of
// k.
template <bool K_MAJOR, int LINES, int MULTICAST_PARTS>
INLINE void load_multicast(u32 to, const TensorMap& map, u32 line, u32 k, i32 fast, i32 slow, u32 barrier,
                           MulticastPart share) {
    u32 first = share.number * ((K_MAJOR ? LINES : TILE_K) / MULTICAST_PARTS);
    to += first * LINE;
    if constexpr (K_MAJOR) {
        cp_async_bulk_tensor_4d_multicast(to, map, k, line + first, fast, slow, barrier, share.blocks);
    } else {
#pragma unroll
        for (int slab = 0; slab < LINES / RUN; ++slab)
            cp_async_bulk_tensor_4d_multicast(to + slab * SLAB_K, map, line + slab * RUN, k + first, fast, slow,
                                              barrier, share.blocks);
    }
}

// Waits until the next stage is empty. In the first round the stages are free, so the parity is
// that of the phase before the first. Blocks of a cluster arrive at this barrier, too. Nothing that
// they wrote before is read here, so the wait does not acquire at cluster scope (which would
// invalidate the L1 cache each time).
INLINE void producer_acquire(const Ring& ring) { mbarrier_wait_parity(ring.empty(), ring.parity ^ 1); }

// The coordinates of the producer's loads of a tile.
struct Loads {
    const TensorMapProduct& p;
    WorkTile work;
    i32 a_fast, a_slow, b_fast, b_slow;
    MulticastPart a_multicast, b_multicast;

    INLINE Loads(const TensorMapProduct& parameters, u32 number)
        : p(parameters), work(p, number), a_multicast(multicast_part_of_a()), b_multicast(multicast_part_of_b()) {
        a_fast = p.a_axes & 1 ? work.fast : 0, a_slow = p.a_axes & 2 ? work.slow : 0;
        b_fast = p.b_axes & 1 ? work.fast : 0, b_slow = p.b_axes & 2 ? work.slow : 0;
    }
    // Expects all bytes of the stage, whichever block loads them, and issues the loads of a.
    INLINE void load_a(const Ring& ring, u32 k) const {
        mbarrier_arrive_expect_tx(ring.full(), STAGE);
        if constexpr (CLUSTER_ACROSS > 1)
            load_multicast<A_K_MAJOR, TILE_M, CLUSTER_ACROSS>(ring.address(), p.a, work.tile.row, k, a_fast, a_slow,
                                                              ring.full(), a_multicast);
        else
#pragma unroll
            for (int part = 0; part < TERMS; ++part)
                load_operand<A_K_MAJOR, TILE_M>(ring.address() + part * TERM_A, p.a, work.tile.row, k, a_fast,
                                                a_slow + part * p.a_term_stride, ring.full());
    }
    INLINE void load_b(const Ring& ring, u32 k) const {
        u32 to = ring.address() + STAGE_A;
        if constexpr (CLUSTER_DOWN > 1)
            load_multicast<B_K_MAJOR, TILE_N, CLUSTER_DOWN>(to, p.b, work.tile.column, k, b_fast, b_slow, ring.full(),
                                                            b_multicast);
        else
#pragma unroll
            for (int part = 0; part < TERMS; ++part)
                load_operand<B_K_MAJOR, TILE_N>(to + part * TERM_B, p.b, work.tile.column, k, b_fast,
                                                b_slow + part * p.b_term_stride, ring.full());
    }
};

// Loads the stages of a tile from index `block` on.
INLINE void load_tile(const Loads& loads, Ring& ring, u32 block) {
    u32 k = loads.work.first + block * TILE_K;
#pragma unroll 1
    for (; block < loads.work.blocks; ++block, k += TILE_K) {
        producer_acquire(ring);
        loads.load_a(ring, k);
        loads.load_b(ring, k);
        ring.advance();
    }
}

// Whether a is loaded only into the block itself: then these loads may precede the initialization
// of the other blocks' barriers, which only loads of b need.
constexpr bool LOADS_EARLY = CLUSTER == 1 || (CLUSTER_DOWN > 1 && CLUSTER_ACROSS == 1);
// Stages whose loads are issued by the first instructions of the kernel.
constexpr u32 FIRST_STAGES = STAGES < 4 ? STAGES : 4;

// One thread initializes all barriers: a fence of several threads takes longer than they save. The
// thread is not in the producer's warp, which computes the coordinates of its first loads
// meanwhile.
INLINE void init_barriers(u32 shared) {
    Ring ring(shared);
#pragma unroll
    for (int stage = 0; stage < STAGES; ++stage, ring.advance()) {
        mbarrier_init(ring.full(), 1);
        mbarrier_init(ring.empty(), MULTICAST_PEERS * (PINGPONG ? 1 : CONSUMERS) * WARPGROUP / WARP + SUM_WARPS);
    }
#pragma unroll
    for (u32 consumer = 0; consumer < CONSUMERS; ++consumer)
        mbarrier_init(turn_barrier(shared, consumer), WARPGROUP / WARP);
    for (u32 strip = 0; strip < STRIP_BARRIERS; ++strip) mbarrier_init(turn_barrier(shared, CONSUMERS + strip), 1);
    fence_mbarrier_init();
}
// The warp that initializes the barriers arrives and continues; the producer's warp waits for it.
// (If both waited, in different code, compute-sanitizer's synccheck would report divergent
// threads.)
INLINE void arrive_barriers_ready() { barrier_arrive(1 + CONSUMERS, 2 * WARP); }
INLINE void wait_barriers_ready() { barrier_sync(1 + CONSUMERS, 2 * WARP); }

// Prologue of the producer's warp: issues the loads of the first stages and returns their number.
// The latency of the first loads takes most of the time of a short product. So they are among the
// kernel's first instructions: code after a jump is not yet in the instruction cache, and fetching
// it takes as long as loading operands, or longer while these are in flight. The loads do not wait
// for the consumers either.
INLINE u32 load_first_stages(const TensorMapProduct& p, u32 shared) {
    Ring ring(shared);
    bool leads = threadIdx.x % WARP == 0;
    if (leads) {
        prefetch_tensormap(p.a);
        prefetch_tensormap(p.b);
    }
    Loads loads(p, first_tile_index());
    u32 stages = min(loads.work.blocks, FIRST_STAGES), k = loads.work.first;
    wait_for_earlier_launches();
    wait_barriers_ready();
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
// The producer. Loads of the first tile's first `stages` stages are in flight.
INLINE void produce(const TensorMapProduct& p, u32 shared, u32 stages) {
    Ring ring(shared);
    ring.skip(stages);
#pragma unroll 1
    for (u32 number = first_tile_index(); number < p.tiles.count; number = next_tile_index(number), stages = 0)
        load_tile(Loads(p, number), ring, stages);
    // The other blocks of a cluster arrive at this block's barriers. Its shared memory must stay
    // allocated until they have.
    if (CLUSTER > 1)
#pragma unroll 1
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) producer_acquire(ring);
}

// ---------------------------------------------------------------- consumers

// The block at whose barriers the lane arrives. The lanes have one each of the blocks that share
// operands with this one, any of which may refill a stage. Opaque, since the compiler would
// otherwise recompute it for every stage.
INLINE u32 peer_of_lane() {
    u32 lane = threadIdx.x % WARP;
    return opaque(lane < CLUSTER && shares_operand_with(lane) ? lane : NONE);
}
// Releases a stage, which may then be refilled. Every warp arrives, since each waits for its
// WGMMAs.
INLINE void release(const Ring& ring, u32 empty) {
    if constexpr (CLUSTER > 1) {
        if (ring.peer != NONE) mbarrier_arrive_cluster(mapa_shared_cluster(empty, ring.peer));
    } else if (threadIdx.x % WARP == 0) {
        mbarrier_arrive(empty);
    }
}
// Waits until all WGMMAs are complete, and releases the last of `blocks` stages.
INLINE void await_sums(Sums& sums, const Ring& ring, u32 blocks) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) wgmma_fence_operand(sums[block][j][e]);
#pragma unroll
    for (u32 back = STAGES_IN_FLIGHT; back > 0; --back)
        if (back <= blocks) release(ring, ring.empty_before(back));
}

#if !A_FROM_REGISTERS && !BF16X6
// Issues the WGMMAs of one stage. `a` is the address of the consumer's first row.
INLINE void multiply(Sums& sums, u32 a, u32 b, bool accumulate) {
    u64 a_first = smem_descriptor(a, SLAB, 8 * LINE), b_first = smem_descriptor(b, SLAB, 8 * LINE);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        u64 b_step = smem_descriptor_at(b_first, step * (B_K_MAJOR ? 32 : 16 * LINE));
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
            wgmma_ss_wide<!A_K_MAJOR, !B_K_MAJOR>(
                sums[block], smem_descriptor_at(a_first, block * SLAB + step * (A_K_MAJOR ? 32 : 16 * LINE)), b_step,
                accumulate || step > 0, Element());
    }
    wgmma_commit_group();
}

// Multiplies the next stage, which has index `block` in its tile. `overlapped` runs during its
// WGMMAs.
template <class Overlapped> INLINE void add_stage(Sums& sums, Ring& ring, u32 block, u32 row, Overlapped overlapped) {
    mbarrier_wait_parity(ring.full(), ring.parity);
    multiply(sums, ring.address() + row * LINE, ring.address() + STAGE_A, block > 0);
    overlapped();
    // WGMMAs of the last STAGES_IN_FLIGHT stages stay in flight; earlier ones are complete.
    wgmma_wait_group<STAGES_IN_FLIGHT>();
    if (block >= STAGES_IN_FLIGHT) release(ring, ring.empty_before(STAGES_IN_FLIGHT));
    ring.advance();
}
// Multiplies the next stages, from index `block` to `blocks`. The last ones are not released: their
// WGMMAs are in flight. Before stage `pause` the consumer waits until the other one has issued all
// its stages.
INLINE void mainloop(Sums& sums, Ring& ring, u32 block, u32 blocks, u32 row, u32 pause) {
#pragma unroll 1
    for (; block < blocks; ++block) {
        if (LAG_STAGES > 0 && block == pause) mbarrier_wait_parity(turn_barrier(ring.first, 1), 0);
        add_stage(sums, ring, block, row, [] {});
    }
}
#endif
