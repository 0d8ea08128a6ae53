// The main loop of gemm/wgmma.cu for TF32 with an M-major a (A_FROM_REGISTERS). WGMMA reads TF32
// from shared memory only if it is K-major. So the consumers load a transposed from there into
// registers, and multiply from registers.
//
// In a stage, a is slabs of 32 rows, each 32 lines of k of 128 bytes: element (k, r) of a slab is
// at 128 k + 16 ((r / 4) ^ (k % 8)) + 4 (r % 4). Lane l loads rows r and r + 1 at once, first for
// k = l % 4, then for k + 4. The rows (accumulator_row) are chosen so that 16 lanes access every
// bank once.
//
//     load of set 1      | load of set 0      |
//     WGMMAs of set 0    | WGMMAs of set 1    | WGMMAs of set 0 ..
//
// Fragments of a are double-buffered in two sets of registers: one set is loaded while the WGMMAs
// of the other one run.

#pragma once

#include "gemm/wgmma_loop.cuh"
#include "ptx/memory.cuh"
#include "ptx/wgmma_rs.cuh"

#if A_FROM_REGISTERS || defined(HOST_SHIM)

// Steps along k of a set: all steps of a stage; half of them where a consumer has 128 rows; one
// where its accumulators leave no registers for more.
constexpr int SET_STEPS = ATOMS_M == 1 ? STEPS : TILE_N <= 128 ? STEPS / 2 : 1;
constexpr int SLAB_A = TILE_K * LINE_BYTES;  // bytes of 32 rows of a

typedef u32 Fragments[SET_STEPS][ATOMS_M][4];

// Where a lane loads its rows in the first step, as offsets from the consumer's first row: at k
// (low) and at k + 4 (high).
struct FragmentOffsets {
    u32 low, high;

    INLINE FragmentOffsets() {
        u32 lane = threadIdx.x % WARP, row = accumulator_row(threadIdx.x / WARP % 4, lane), k = lane % 4;
        low = row / 32 * SLAB_A + k * LINE_BYTES + (row % 32 / 4 ^ k) * 16 + row % 4 * 4;
        high = (low ^ 4 * 16) + 4 * LINE_BYTES;
    }
};

// Loads the fragments of the steps from FIRST on; `a` is the address of the consumer's first row.
template <int FIRST> INLINE void read_fragments(Fragments& set, u32 a, const FragmentOffsets& offsets) {
#pragma unroll
    for (int step = 0; step < SET_STEPS; ++step)
#pragma unroll
        for (int atom = 0; atom < ATOMS_M; ++atom) {
            u32 at = a + atom * SLAB_BYTES + (FIRST + step) * 8 * LINE_BYTES;
            u32 low[2], high[2];
            ld_shared_v2_unordered(low, at + offsets.low);
            ld_shared_v2_unordered(high, at + offsets.high);
            u32(&to)[4] = set[step][atom];
            to[0] = low[0], to[1] = low[1], to[2] = high[0], to[3] = high[1];
        }
}

// Issues the WGMMAs of these fragments.
template <int FIRST> INLINE void multiply_fragments(Sums& sums, const Fragments& set, u32 b, bool accumulate) {
    u64 b_first = smem_descriptor(b, SLAB_BYTES, 8 * LINE_BYTES);
    wgmma_fence();
#pragma unroll
    for (int step = 0; step < SET_STEPS; ++step)
#pragma unroll
        for (int atom = 0; atom < ATOMS_M; ++atom)
            wgmma_rs_tf32(sums[atom], set[step][atom], smem_descriptor_at(b_first, (FIRST + step) * 32),
                          accumulate || FIRST + step > 0);
    wgmma_commit_group();
}

// Loads a set and issues its WGMMAs. On return, those of the other set are complete.
template <int FIRST>
INLINE void add_set(Sums& sums, Fragments& set, const Ring& ring, u32 row, const FragmentOffsets& offsets,
                    bool accumulate) {
    read_fragments<FIRST>(set, ring.address() + row * LINE_BYTES, offsets);
    multiply_fragments<FIRST>(sums, set, ring.address() + STAGE_A_BYTES, accumulate);
    wgmma_wait_group<1>();
}

// The sets of a stage, from the one of step FIRST on.
template <int FIRST>
INLINE void add_sets(Sums& sums, Fragments (&sets)[2], const Ring& ring, u32 row, const FragmentOffsets& offsets) {
    if constexpr (FIRST < STEPS) {
        add_set<FIRST>(sums, sets[FIRST / SET_STEPS % 2], ring, row, offsets, true);
        add_sets<FIRST + SET_STEPS>(sums, sets, ring, row, offsets);
    }
}

// As mainloop (wgmma_loop.cuh), for the next `k_tiles` stages. The last stage is not released.
INLINE void mainloop_rs(Sums& sums, Ring& ring, u32 k_tiles, u32 row) {
    FragmentOffsets offsets;
    Fragments sets[2];
    u32 k_tile = 0;
    auto add_stage = [&](Fragments& first) {
        mbarrier_wait_parity(ring.full(), ring.parity);
        add_set<0>(sums, first, ring, row, offsets, k_tile > 0);
        // The WGMMAs of the previous stage are complete.
        if (k_tile > 0) release(ring, ring.empty_before(1));
        add_sets<SET_STEPS>(sums, sets, ring, row, offsets);
        ring.advance();
        ++k_tile;
    };
    // If a stage is one set, two stages alternate, so that the compiler knows the set of each.
#pragma unroll 1
    while (k_tile + 1 < k_tiles) {
        add_stage(sets[0]);
        add_stage(sets[SET_STEPS == STEPS]);
    }
    if (k_tile < k_tiles) add_stage(sets[0]);
}
#endif
