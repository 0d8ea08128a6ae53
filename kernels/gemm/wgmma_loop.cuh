// The main loop of gemm/wgmma.cu: the producer loads the stages of the ring, and the consumers
// multiply them.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "lib/launch.cuh"
#include "ptx/barrier.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/wgmma_ss.cuh"

constexpr u32 NONE = ~0u;

// A position in the ring of stages, each of which holds one k-tile of a and of b: the index of the
// next stage, and the parity of its mbarrier phase.
struct Ring {
    u32 shared;  // address of stage 0
    u32 stage = 0, parity = 0;
    u32 peer = NONE;  // of a consumer: the block at whose mbarriers this lane arrives

    INLINE Ring(u32 address) : shared(address) {}
    INLINE u32 address() const { return shared + stage * STAGE_BYTES; }
    INLINE u32 full() const { return shared + BARRIERS_OFFSET + stage * 8; }
    INLINE u32 empty() const { return shared + BARRIERS_OFFSET + (STAGES + stage) * 8; }
    // The empty barrier of the stage `back` stages before.
    INLINE u32 empty_before(u32 back) const { return empty() + i32(stage < back ? STAGES - back : -back) * 8; }
    INLINE void advance() {
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        parity ^= stage == 0;
    }
    // Advances by `stages` stages, which another warpgroup or an earlier function processes.
    INLINE void skip(u32 stages) {
        u32 position = stage + stages;
        parity ^= position / STAGES & 1;
        stage = position % STAGES;
    }
};

// ---------------------------------------------------------------- producer

// Loads one stage of an operand: TILE_MN rows of a or columns of b, from index `mn` on, and TILE_K
// indices of k.
template <bool K_MAJOR, int TILE_MN>
INLINE void load_operand(u32 to, const TensorMap& map, u32 mn, u32 k, i32 inner_batch, i32 outer_batch, u32 barrier) {
    if constexpr (K_MAJOR) {
        cp_async_bulk_tensor_4d(to, map, k, mn, inner_batch, outer_batch, barrier);
    } else {
        // Slabs of LINE_ELEMENTS rows or columns: a line is an index of k, 128 contiguous bytes.
#pragma unroll
        for (int slab = 0; slab < TILE_MN / LINE_ELEMENTS; ++slab)
            cp_async_bulk_tensor_4d(to + slab * SLAB_K_BYTES, map, mn + slab * LINE_ELEMENTS, k, inner_batch,
                                    outer_batch, barrier);
    }
}
// The part of an operand's stage that a thread block loads.
struct MulticastPart {
    u32 index;
    // Bit r: it is also written to the shared memory of the block of rank r in the cluster.
    u32 cta_mask;
};
// The part of a, for the thread blocks of the row: their ranks are CLUSTER_DOWN apart.
INLINE MulticastPart multicast_part_of_a() {
    u32 row_mask = 0;
#pragma unroll
    for (int across = 0; across < CLUSTER_ACROSS; ++across) row_mask |= 1u << across * CLUSTER_DOWN;
    return MulticastPart{rank_across(), row_mask << rank_down()};
}
// The part of b, for the thread blocks of the column.
INLINE MulticastPart multicast_part_of_b() {
    return MulticastPart{rank_down(), ((1u << CLUSTER_DOWN) - 1) << rank_across() * CLUSTER_DOWN};
}

// Loads one of MULTICAST_PARTS parts of one stage of an operand: some rows or columns of a K-major
// operand, some indices of k of an MN-major one.
template <bool K_MAJOR, int TILE_MN, int MULTICAST_PARTS>
INLINE void load_multicast(u32 to, const TensorMap& map, u32 mn, u32 k, i32 inner_batch, i32 outer_batch, u32 barrier,
                           MulticastPart part) {
    u32 first = part.index * ((K_MAJOR ? TILE_MN : TILE_K) / MULTICAST_PARTS);
    to += first * LINE_BYTES;
    if constexpr (K_MAJOR) {
        cp_async_bulk_tensor_4d_multicast(to, map, k, mn + first, inner_batch, outer_batch, barrier, part.cta_mask);
    } else {
#pragma unroll
        for (int slab = 0; slab < TILE_MN / LINE_ELEMENTS; ++slab)
            cp_async_bulk_tensor_4d_multicast(to + slab * SLAB_K_BYTES, map, mn + slab * LINE_ELEMENTS, k + first,
                                              inner_batch, outer_batch, barrier, part.cta_mask);
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
    i32 a_inner, a_outer, b_inner, b_outer;
    MulticastPart a_multicast, b_multicast;

    INLINE Loads(const TensorMapProduct& parameters, u32 tile_index)
        : p(parameters), work(p, tile_index), a_multicast(multicast_part_of_a()), b_multicast(multicast_part_of_b()) {
        a_inner = p.a_batch_axes & 1 ? work.inner_batch : 0, a_outer = p.a_batch_axes & 2 ? work.outer_batch : 0;
        b_inner = p.b_batch_axes & 1 ? work.inner_batch : 0, b_outer = p.b_batch_axes & 2 ? work.outer_batch : 0;
    }
    // Expects all bytes of the stage, whichever block loads them, and issues the loads of a.
    INLINE void load_a(const Ring& ring, u32 k) const {
        mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES);
        if constexpr (CLUSTER_ACROSS > 1)
            load_multicast<A_K_MAJOR, TILE_M, CLUSTER_ACROSS>(ring.address(), p.a, work.tile.row, k, a_inner, a_outer,
                                                              ring.full(), a_multicast);
        else
#pragma unroll
            for (int term = 0; term < TERMS; ++term)
                load_operand<A_K_MAJOR, TILE_M>(ring.address() + term * TERM_A_BYTES, p.a, work.tile.row, k, a_inner,
                                                a_outer + term * p.a_term_stride, ring.full());
    }
    INLINE void load_b(const Ring& ring, u32 k) const {
        u32 to = ring.address() + STAGE_A_BYTES;
        if constexpr (CLUSTER_DOWN > 1)
            load_multicast<B_K_MAJOR, TILE_N, CLUSTER_DOWN>(to, p.b, work.tile.column, k, b_inner, b_outer, ring.full(),
                                                            b_multicast);
        else
#pragma unroll
            for (int term = 0; term < TERMS; ++term)
                load_operand<B_K_MAJOR, TILE_N>(to + term * TERM_B_BYTES, p.b, work.tile.column, k, b_inner,
                                                b_outer + term * p.b_term_stride, ring.full());
    }
};

// Loads the k-tiles of a work tile from index `k_tile` on.
INLINE void load_tile(const Loads& loads, Ring& ring, u32 k_tile) {
    u32 k = loads.work.first_k + k_tile * TILE_K;
#pragma unroll 1
    for (; k_tile < loads.work.k_tiles; ++k_tile, k += TILE_K) {
        producer_acquire(ring);
        loads.load_a(ring, k);
        loads.load_b(ring, k);
        ring.advance();
    }
}

// Whether a is loaded only into the thread block itself: then these loads may precede the
// initialization of the other blocks' barriers, which only loads of b need.
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
    u32 stages = min(loads.work.k_tiles, FIRST_STAGES), k = loads.work.first_k;
    wait_for_earlier_launches();
    wait_barriers_ready();
    if (CLUSTER > 1) barrier_cluster_arrive_relaxed();
    if (LOADS_EARLY && leads)
#pragma unroll 1
        for (u32 stage = 0; stage < stages; ++stage, ring.advance()) {
            loads.load_a(ring, k + stage * TILE_K);
            if (CLUSTER == 1) loads.load_b(ring, k + stage * TILE_K);
        }
    if (CLUSTER == 1) return stages;
    __syncwarp();
    barrier_cluster_wait();
    ring = Ring(shared);
    if (leads)
#pragma unroll 1
        for (u32 stage = 0; stage < stages; ++stage, ring.advance()) {
            if (!LOADS_EARLY) loads.load_a(ring, k + stage * TILE_K);
            loads.load_b(ring, k + stage * TILE_K);
        }
    return stages;
}
// Producer loop. Loads of the first tile's first `stages` stages are in flight.
INLINE void producer_loop(const TensorMapProduct& p, u32 shared, u32 stages) {
    Ring ring(shared);
    ring.skip(stages);
#pragma unroll 1
    for (u32 tile_index = first_tile_index(); tile_index < p.tiles.count;
         tile_index = next_tile_index(tile_index), stages = 0)
        load_tile(Loads(p, tile_index), ring, stages);
    // The other blocks of a cluster arrive at this block's barriers. Its shared memory must stay
    // allocated until they have.
    if (CLUSTER > 1)
#pragma unroll 1
        for (int stage = 0; stage < STAGES; ++stage, ring.advance()) producer_acquire(ring);
}

// ---------------------------------------------------------------- consumers

// The thread block at whose barriers the lane arrives: each lane has one of the blocks that share
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
// Waits until all WGMMAs are complete, and releases those of a tile's `k_tiles` stages that the
// main loop has not released.
INLINE void await_sums(Sums& sums, const Ring& ring, u32 k_tiles) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int atom = 0; atom < ATOMS_M; ++atom)
#pragma unroll
        for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) wgmma_fence_operand(sums[atom][j][e]);
#pragma unroll
    for (u32 back = STAGES_IN_FLIGHT; back > 0; --back)
        if (back <= k_tiles) release(ring, ring.empty_before(back));
}

#if !A_FROM_REGISTERS && !BF16X6
// Issues the WGMMAs of one stage. `a` is the address of the consumer's first row.
INLINE void multiply(Sums& sums, u32 a, u32 b, bool accumulate) {
    u64 a_first = smem_descriptor(a, SLAB_BYTES, 8 * LINE_BYTES),
        b_first = smem_descriptor(b, SLAB_BYTES, 8 * LINE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < STEPS; ++step) {
        u64 b_step = smem_descriptor_at(b_first, step * (B_K_MAJOR ? 32 : 16 * LINE_BYTES));
#pragma unroll
        for (int atom = 0; atom < ATOMS_M; ++atom)
            wgmma_ss_wide<!A_K_MAJOR, !B_K_MAJOR>(
                sums[atom], smem_descriptor_at(a_first, atom * SLAB_BYTES + step * (A_K_MAJOR ? 32 : 16 * LINE_BYTES)),
                b_step, accumulate || step > 0, Element());
    }
    wgmma_commit_group();
}

// Multiplies the next stage, k-tile `k_tile` of a work tile. `overlapped` runs during its WGMMAs.
template <class Overlapped> INLINE void add_stage(Sums& sums, Ring& ring, u32 k_tile, u32 row, Overlapped overlapped) {
    mbarrier_wait_parity(ring.full(), ring.parity);
    multiply(sums, ring.address() + row * LINE_BYTES, ring.address() + STAGE_A_BYTES, k_tile > 0);
    overlapped();
    // WGMMAs of the last STAGES_IN_FLIGHT stages stay in flight; earlier ones are complete.
    wgmma_wait_group<STAGES_IN_FLIGHT>();
    if (k_tile >= STAGES_IN_FLIGHT) release(ring, ring.empty_before(STAGES_IN_FLIGHT));
    ring.advance();
}
// Multiplies the k-tiles from `k_tile` to `k_tiles`. The last stages are not released: their WGMMAs
// are in flight. Before k-tile `pause` the consumer waits until the other one has issued all its
// WGMMAs.
INLINE void mainloop(Sums& sums, Ring& ring, u32 k_tile, u32 k_tiles, u32 row, u32 pause) {
#pragma unroll 1
    for (; k_tile < k_tiles; ++k_tile) {
        if (LAG_STAGES > 0 && k_tile == pause) mbarrier_wait_parity(turn_barrier(ring.shared, 1), 0);
        add_stage(sums, ring, k_tile, row, [] {});
    }
}
#endif
