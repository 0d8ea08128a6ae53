// Sets masked scores to -infinity, in accumulators of 16 queries (half.cuh).
//
//   s [1, COLUMN_BLOCKS, 4]: 16 queries from `query`, COLUMN_BLOCKS * 8 keys from `first_key`
//
// With BY_BITS, a word has a bit for each unmasked key of a row, and each element is selected by
// its bit: one instruction per element instead of three (R2P moves seven bits at a time to
// predicates). This makes forward_tma.cu faster with three consumers, but not with two
// (docs/kernels/attention.md, What was tried).

#pragma once

#include "attention/half.cuh"

// Bit mask of the elements of a lane's row (two of each 8 columns) that are among the first
// `columns` columns, counted from the lane's first column.
INLINE u32 elements_below(i32 columns) {
    columns = min(max(columns, 0), 128);
    u32 count = columns / 8 * 2 + min(columns % 8, 2);
    return count >= 32 ? ~0u : (1u << count) - 1;
}

template <int COLUMN_BLOCKS>
INLINE void apply_bit_mask(float (&s)[1][COLUMN_BLOCKS][4], const Sizes& sizes, i32 query, i32 first_key, u32 thread) {
    static_assert(COLUMN_BLOCKS <= 16, "a bit of a word for each element of a row");
    i32 row = query + i32(thread % WARP / 4), column = first_key + i32(thread % 4) * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        Range seen = key_range(sizes, row + half * 8, row + half * 8 + 1);
        u32 kept = elements_below(seen.end - column);
        if (BAND) kept &= ~elements_below(seen.first - column);
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float& score = s[0][j][half * 2 + e];
                score = kept >> (j * 2 + e) & 1 ? score : -INFINITE;
            }
    }
}

template <bool BY_BITS, int COLUMN_BLOCKS>
INLINE void apply_key_mask(float (&s)[1][COLUMN_BLOCKS][4], const Sizes& sizes, i32 query, i32 first_key, u32 thread) {
    if constexpr (BY_BITS) apply_bit_mask(s, sizes, query, first_key, thread);
    else apply_band_mask<false>(s, sizes, query, first_key, -INFINITE, thread);
}
