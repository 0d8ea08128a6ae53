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
        // Lines of k, as many as a run of 128 bytes has elements.
#pragma unroll
        for (int slab = 0; slab < LINES / TILE_K; ++slab)
            cp_async_bulk_tensor_4d(to + slab * TILE_K * LINE, map, line + slab * TILE_K, k, fast, slow, barrier);
    }
}

// Which parts of a and b are multiplied, four bits of each pair: 2 0, 1 1, 0 2, 1 0, 0 1, 0 0. Small products first, so that what is added last is as large as the sum.
constexpr u32 PARTS_OF_A = BF16X6 ? 0x001012 : 0, PARTS_OF_B = BF16X6 ? 0x010210 : 0;

INLINE void produce(const TensorMapProduct& p, u32 shared) {
    prefetch_tensormap(p.a);
    prefetch_tensormap(p.b);
    prefetch_tensormap(p.y);
    if (EPILOGUE) prefetch_tensormap(p.z);
    Ring ring(shared);
    u32 tiles = count_tiles(p);
#pragma unroll 1
    for (u32 number = blockIdx.x; number < tiles; number += gridDim.x) {
        Work work(p, number);
        i32 a_fast = p.a_axes & 1 ? work.fast : 0, a_slow = p.a_axes & 2 ? work.slow : 0;
        i32 b_fast = p.b_axes & 1 ? work.fast : 0, b_slow = p.b_axes & 2 ? work.slow : 0;
#pragma unroll 1
        for (int pair = 0; pair < PAIRS; ++pair) {
            i32 a_last = a_slow + (PARTS_OF_A >> 4 * pair & 3) * p.a_part;
            i32 b_last = b_slow + (PARTS_OF_B >> 4 * pair & 3) * p.b_part;
            u32 k = work.first;
#pragma unroll 1
            for (u32 block = 0; block < work.blocks / PAIRS; ++block, k += TILE_K) {
                // In the first turn the stages are free: the parity is that of the phase before the first.
                mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
                mbarrier_arrive_expect_tx(ring.full(), STAGE);
                load_operand<A_INNER, TILE_M>(ring.address(), p.a, work.tile.row, k, a_fast, a_last, ring.full());
                load_operand<B_INNER, TILE_N>(ring.address() + STAGE_A, p.b, work.tile.column, k, b_fast, b_last,
                                              ring.full());
                ring.advance();
            }
        }
    }
}

// ---------------------------------------------------------------- consumers

// The stage may be filled anew. Of each warp, since each waits for its own products.
INLINE void release(u32 empty) {
    if (threadIdx.x % WARP == 0) mbarrier_arrive(empty);
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

#if !A_FROM_REGISTERS
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

#if BF16X6
// The tensor cores cut bits off what they add, ever more as the sums grow: so the products of a few stages are added up there, and what comes out in
// registers, rounded to nearest.
INLINE void add_up_promoted(Sums& sums, Ring& ring, u32 blocks, u32 row) {
#pragma unroll
    for (int j = 0; j < BLOCKS * TILE_N / 2; ++j) sums[j / (TILE_N / 2)][j / 4 % (TILE_N / 8)][j % 4] = 0;
    // The second consumer begins with half as many, so that one multiplies while the other one adds.
    u32 most = row == 0 ? PROMOTED : PROMOTED / 2;
#pragma unroll 1
    for (u32 done = 0; done < blocks; done += most, most = PROMOTED) {
        Sums promoted;
        add_up(promoted, ring, min(blocks - done, most), row);
        await_sums(promoted, ring);
#pragma unroll
        for (int block = 0; block < BLOCKS; ++block)
#pragma unroll
            for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) sums[block][j][e] += promoted[block][j][e];
    }
}
#endif
