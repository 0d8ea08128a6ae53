// Shared code of kernels that reduce to one value: packs that are unpacked where they are used,
// sums of squares over the full range of numbers, and accumulators that are merged over a warp and
// a block.
//
// R is a policy: a type R::Acc, R::start() for no elements, and R::merge(a, b) for two partial
// results in this order. The merge order depends only on the number of threads.

#pragma once

#include "lib/functions.cuh"
#include "lib/vec.cuh"
#include "ptx/memory.cuh"

// A pack as in memory, unpacked where it is used. The compiler would keep each element that is
// narrower than a register in a separate register, and would wait for a pack to unpack it while
// others are in flight.
template <class X, int V> struct PackedWords {
    u32 words[(sizeof(X) * V + 3) / 4];

    INLINE X get(int e) const {
        constexpr int EACH = sizeof(X) < 4 ? 4 / sizeof(X) : 1, WORDS = sizeof(X) < 4 ? 1 : sizeof(X) / 4;
        union {
            u32 words[WORDS];
            X x;
        } both;
#pragma unroll
        for (int w = 0; w < WORDS; ++w) both.words[w] = words[e / EACH * WORDS + w] >> 8 * sizeof(X) % 32 * (e % EACH);
        return both.x;
    }
};
template <class X, int V> INLINE PackedWords<X, V> load_words(const X* from) {
    union {
        Pack<X, V> pack;
        PackedWords<X, V> words;
    } both;
    if constexpr (sizeof(X) * V == 16) both.pack = load_once<X, V>(from);
    else both.pack = load<X, V>(from);
    return both.words;
}
// Calls merge(pack, i) for the packs i at x + i * step, i < count, while the next DEPTH are in
// flight.
template <class X, int V, int DEPTH, class Merge> INLINE void for_packs(const X* x, i64 step, u32 count, Merge merge) {
    PackedWords<X, V> packs[DEPTH];
    u32 i = 0;
    if (count >= DEPTH) {
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) packs[d] = load_words<X, V>(x + d * step);
#pragma unroll 1
        for (; i + 2 * DEPTH <= count; i += DEPTH) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                PackedWords<X, V> pack = packs[d];
                packs[d] = load_words<X, V>(x + (i + DEPTH + d) * step);
                merge(pack, i + d);
            }
        }
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) merge(packs[d], i + d);
        i += DEPTH;
    }
    // Fewer than DEPTH remain, all of them in flight together.
#pragma unroll
    for (int d = 0; d < DEPTH - 1; ++d)
        if (i + d < count) packs[d] = load_words<X, V>(x + (i + d) * step);
#pragma unroll
    for (int d = 0; d < DEPTH - 1; ++d)
        if (i + d < count) merge(packs[d], i + d);
}

// Sums of squares in three accumulators: of numbers whose squares overflow, of those in between,
// and of those whose squares underflow. The first and the last are scaled (Blue 1978).
template <class C> struct Squares {
    typedef Squares Acc;
    static constexpr bool IS_DOUBLE = sizeof(C) == 8;
    // Powers of two: the bounds between the three ranges, and the scales.
    static constexpr C LARGE = IS_DOUBLE ? C(0x1p400) : C(0x1p50), SMALL = IS_DOUBLE ? C(0x1p-400) : C(0x1p-50);
    static constexpr C DOWN = IS_DOUBLE ? C(0x1p-600) : C(0x1p-76), UP = IS_DOUBLE ? C(0x1p600) : C(0x1p88);
    C large, middle, small;

    static INLINE Squares start() { return Squares{C(0), C(0), C(0)}; }
    static INLINE Squares of(C x) {
        C size = abs_of(x);
        bool is_large = size > LARGE, is_small = size < SMALL;
        C scaled = is_large ? x * DOWN : is_small ? x * UP : x;
        C square = product_of(scaled, scaled);
        return Squares{is_large ? square : C(0), is_large || is_small ? C(0) : square, is_small ? square : C(0)};
    }
    static INLINE Squares merge(Squares a, Squares b) {
        return Squares{sum_of(a.large, b.large), sum_of(a.middle, b.middle), sum_of(a.small, b.small)};
    }
    // The square root of the sum of all three.
    INLINE C root() const {
        // NaN is in `middle`.
        if (large > C(0)) return sqrt_of(large + middle * DOWN * DOWN) * (C(1) / DOWN);
        if (middle != C(0)) return sqrt_of(middle + small * (C(1) / UP) * (C(1) / UP));
        return sqrt_of(small) * (C(1) / UP);
    }
};

// The accumulator of the lane that is `by` lanes above this one.
template <class Acc> INLINE Acc shuffle_down(Acc acc, int by) {
    union {
        Acc acc;
        u32 words[(sizeof(Acc) + 3) / 4];
    } from, to;
    from.acc = acc;
#pragma unroll
    for (int w = 0; w < int((sizeof(Acc) + 3) / 4); ++w) to.words[w] = __shfl_down_sync(ALL_LANES, from.words[w], by);
    return to.acc;
}
// Lane 0 returns the result of the whole warp.
template <class R> INLINE typename R::Acc warp_reduce(typename R::Acc acc) {
#pragma unroll
    for (int by = WARP / 2; by > 0; by /= 2) acc = R::merge(acc, shuffle_down(acc, by));
    return acc;
}
// Thread 0 returns the result of the whole block. All threads must synchronize between two calls
// with one R, which use the same shared memory.
template <class R, int WARPS> INLINE typename R::Acc block_reduce(typename R::Acc acc) {
    typedef typename R::Acc Acc;
    __shared__ alignas(16) unsigned char room[WARPS * sizeof(Acc)];
    Acc* warps = reinterpret_cast<Acc*>(room);
    acc = warp_reduce<R>(acc);
    if (threadIdx.x % WARP == 0) warps[threadIdx.x / WARP] = acc;
    __syncthreads();
    if (threadIdx.x >= WARP) return acc;
    acc = threadIdx.x < WARPS ? warps[threadIdx.x] : R::start();
    return warp_reduce<R>(acc);
}
