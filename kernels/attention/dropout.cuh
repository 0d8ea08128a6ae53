// Dropout of the attention weights: the dropout mask is recomputed wherever the weights are.

#pragma once

#include "attention/params.cuh"
#include "lib/philox.cuh"

// Keep bits of four consecutive keys, in bits 0 to 3. Some of the keys may not exist.
struct DropoutRng {
    u64 seed, first;
    u32 threshold;
    INLINE static DropoutRng of(const DropoutParams& dropout) {
        DropoutRng rng;
        rng.seed = u64(dropout.state[0]);
        rng.first = u64(dropout.state[dropout.state_stride]) + dropout.offset;
        rng.threshold = dropout.threshold;
        return rng;
    }
    INLINE u32 block(u64 number) const {
        RandomWords words = philox(seed, first + number);
        u32 kept = 0;
#pragma unroll
        for (int word = 0; word < 4; ++word) kept |= words.of[word] >> 8 >= threshold ? 1u << word : 0;
        return kept;
    }
    // Of the four weights from index `weight`. They span two Philox blocks if the index is not a
    // multiple of 4: where the number of keys is not a multiple of 4, or with VARLEN.
    INLINE u32 four(u64 weight) const {
        u32 kept = block(weight / 4), skipped = u32(weight) % 4;
        if (skipped != 0) kept = (kept | block(weight / 4 + 1) << 4) >> skipped & 15;
        return kept;
    }
};
// Indices of the weights. `head` is counted over the batch.
struct WeightIndex {
    u32 queries, keys;
    u64 first;  // index offset of the block's sequence

    template <class P> INLINE static WeightIndex of(const P& p) {
        const Varlen& all = p.varlen;
        if (VARLEN) return {all.queries, all.keys, u64(all.first_query) * all.keys + all.first_key};
        return {p.sizes.queries, p.sizes.keys, 0};
    }
    INLINE u64 at(u32 head, i32 query, i32 key) const {
        return (u64(head) * queries + u32(query)) * keys + u32(key) + first;
    }
};

// Replaces KeepMask in variants without dropout.
struct KeepAll {
    INLINE void draw(const DropoutParams&, const WeightIndex&, u32, i32, i32) {}
    INLINE void keep_all() {}
    INLINE bool has(int, int, int) const { return true; }
    INLINE float only(int, int, float x) const { return x; }
    template <class Operand> INLINE void apply(Operand&) const {}
};
template <class Mask, int DROPS> struct SelectKeepMask {
    typedef Mask type;
};
template <class Mask> struct SelectKeepMask<Mask, 0> {
    typedef KeepAll type;
};
// The keep mask of a variant: `Mask` with dropout, else KeepAll.
template <class Mask> using KeepMaskFor = typename SelectKeepMask<Mask, DROPOUT>::type;
