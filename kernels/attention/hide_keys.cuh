// Scores of keys that a query does not see become -infinity, in accumulators of 16 queries (half.cuh).
//
//   s [1, OVER, 4]: 16 queries from `query` on, OVER * 8 keys from `first_key` on
//
// With BY_GROUPS each end of what a query sees is compared by itself, and only in groups of keys that it cuts: most steps of a band are cut at one end
// alone, and there most keys are seen by all queries of a warp. That makes a band 1 to 2 % faster in forward_tma.cu with three consumers, and no faster
// with two (docs/kernels/attention.md).

#pragma once

#include "attention/half.cuh"

// Those behind the last key that each query sees, or before the first one.
template <bool AT_END, int OVER>
INLINE void hide_beyond(float (&s)[1][OVER][4], const Sizes& sizes, i32 query, i32 first_key, u32 thread) {
    constexpr int BLOCKS = OVER % 4 == 0 ? 4 : 2;  // of 8 keys, of a group
    static_assert(OVER % BLOCKS == 0, "whole groups");
    i32 row = query + i32(thread % WARP / 4), column = i32(thread % 4) * 2;
#pragma unroll
    for (int group = 0; group < OVER / BLOCKS; ++group) {
        i32 key = first_key + group * BLOCKS * 8, end = key + BLOCKS * 8;
        if (AT_END ? end <= keys_of(sizes, query, query + 1).end : key >= query + 15 + sizes.reach_first) continue;
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // The first key that the row does not see, or that it sees, counted from this lane's first one.
            Range seen = keys_of(sizes, row + half * 8, row + half * 8 + 1);
            i32 limit = (AT_END ? seen.end : seen.first) - key - column;
#pragma unroll
            for (int j = 0; j < BLOCKS; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    float& score = s[0][group * BLOCKS + j][half * 2 + e];
                    score = (j * 8 + e < limit) == AT_END ? score : -INFINITE;
                }
        }
    }
}

template <bool BY_GROUPS, int OVER>
INLINE void hide_keys(float (&s)[1][OVER][4], const Sizes& sizes, i32 query, i32 first_key, u32 thread) {
    if constexpr (BY_GROUPS) {
        hide_beyond<true>(s, sizes, query, first_key, thread);
        if (BAND && first_key < query + 15 + sizes.reach_first) hide_beyond<false>(s, sizes, query, first_key, thread);
    } else {
        hide_unseen<false>(s, sizes, query, first_key, -INFINITE, thread);
    }
}
