// The main loop of gemm/wgmma.cu for f32 as bf16x6 (BF16X6 1): each operand is split into three
// bf16 terms, x = p0 + p1 + p2 and y = q0 + q1 + q2 (split_bf16x3.cu). Of their nine products, the
// six that are large enough are computed.
//
//   a stage    p0 p1 p2 of TILE_M rows, q0 q1 q2 of TILE_N columns, 32 elements along k each
//   products   p2 q0, p1 q1, p0 q2, p1 q0, p0 q1, p0 q0
//              the small ones first, so that the last addend is as large as the sum
//
// So a term is loaded into shared memory once for all its products. K-major operands have lines of
// 64 bytes in the 64-byte swizzle (16-byte chunk c of line r is stored at c ^ (r / 2 % 4)).
// MN-major operands have slabs of 32 lines of k with 64 rows each, in the 128-byte swizzle.
//
// Tensor cores truncate what they add, and the error grows with the sum. So they accumulate one
// stage, from 0, and the result is added to a second set of accumulators in registers, rounded to
// nearest (promotion). While one consumer does that, the other one multiplies.

#pragma once

#include "gemm/wgmma_loop.cuh"

#if BF16X6

constexpr int PAIRS = 6;
// The terms of a and b of each pair: four bits for a pair.
constexpr u32 TERMS_OF_A = 0x001012, TERMS_OF_B = 0x010210;

// The descriptor of a term in shared memory, at its first step along k (16 elements of all lines).
template <bool K_MAJOR> INLINE u64 term_descriptor(u32 address) {
    return K_MAJOR ? smem_descriptor_64(address, 8 * TILE_K_BYTES)
                   : smem_descriptor(address, SLAB_K_BYTES, 8 * LINE_BYTES);
}

// Issues the WGMMAs of the pairs FIRST to END - 1 of a stage, accumulated from 0. `row` is the
// consumer's first row.
template <int FIRST, int END> INLINE void multiply_pairs(Sums& sums, u32 stage, u32 row) {
    u64 a = term_descriptor<A_K_MAJOR>(stage + row * TILE_K_BYTES),
        b = term_descriptor<B_K_MAJOR>(stage + STAGE_A_BYTES);
    wgmma_fence();
#pragma unroll
    for (int pair = FIRST; pair < END; ++pair) {
        u32 from_a = (TERMS_OF_A >> 4 * pair & 3) * TERM_A_BYTES, from_b = (TERMS_OF_B >> 4 * pair & 3) * TERM_B_BYTES;
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
            wgmma_ss_wide<!A_K_MAJOR, !B_K_MAJOR>(
                sums[0], smem_descriptor_at(a, from_a + step * (A_K_MAJOR ? 32 : 16 * LINE_BYTES)),
                smem_descriptor_at(b, from_b + step * (B_K_MAJOR ? 32 : 16 * LINE_BYTES)), pair > FIRST || step > 0,
                Element());
    }
    wgmma_commit_group();
}
INLINE void warpgroup_wait(Sums& products) {
    wgmma_wait_group<0>();
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) wgmma_fence_operand(products[0][j][e]);
}
INLINE void add_to(Sums& sums, const Sums& products) {
#pragma unroll
    for (int j = 0; j < TILE_N / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[0][j][e] += products[0][j][e];
}

INLINE void mainloop_bf16x6(Sums& sums, Ring& ring, u32 k_tiles, u32 row) {
#pragma unroll
    for (int j = 0; j < TILE_N / 2; ++j) sums[0][j / 4][j % 4] = 0;
#pragma unroll 1
    for (u32 k_tile = 0; k_tile < k_tiles; ++k_tile) {
        Sums products;
        mbarrier_wait_parity(ring.full(), ring.parity);
        if (k_tile == 0 && row > 0) {
            // In its first stage, the second consumer promotes once more. From then on, one
            // consumer promotes while the other one multiplies.
            multiply_pairs<0, PAIRS / 2>(products, ring.address(), row);
            warpgroup_wait(products);
            add_to(sums, products);
            multiply_pairs<PAIRS / 2, PAIRS>(products, ring.address(), row);
        } else {
            multiply_pairs<0, PAIRS>(products, ring.address(), row);
        }
        warpgroup_wait(products);
        release(ring, ring.empty());
        ring.advance();
        add_to(sums, products);
    }
}

#endif
