// Dropout of the attention weights: which are kept is drawn again wherever they are formed.

#pragma once

#include "attention/params.cuh"
#include "lib/philox.cuh"

// Whether the weights of four keys in a row are kept: bits 0 to 3. Not all of the keys need exist.
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
        Words words = philox(seed, first + number);
        u32 kept = 0;
#pragma unroll
        for (int word = 0; word < 4; ++word) kept |= words.of[word] >> 8 >= threshold ? 1u << word : 0;
        return kept;
    }
    // Of the weights from number `weight` on, which lie in two blocks of the stream where the keys' count is no multiple of 4.
    INLINE u32 four(u64 weight) const {
        u32 kept = block(weight / 4), skipped = u32(weight) % 4;
        if (skipped != 0) kept = (kept | block(weight / 4 + 1) << 4) >> skipped & 15;
        return kept;
    }
};
// Numbers of the weights of a head that is counted over the batch.
struct WeightNumbers {
    u32 queries, keys;
    u64 first;  // of the block's sequence

    template <class P> INLINE static WeightNumbers of(const P& p) {
        const Varlen& all = p.varlen;
        if (VARLEN) return {all.queries, all.keys, u64(all.first_query) * all.keys + all.first_key};
        return {p.sizes.queries, p.sizes.keys, 0};
    }
    INLINE u64 at(u32 head, i32 query, i32 key) const {
        return (u64(head) * queries + u32(query)) * keys + u32(key) + first;
    }
};

// In place of a KeepMask where nothing is ever dropped.
struct KeepAll {
    INLINE void draw(const DropoutParams&, const WeightNumbers&, u32, i32, i32) {}
    INLINE void keep_all() {}
    INLINE bool has(int, int, int) const { return true; }
    INLINE float only(int, int, float x) const { return x; }
    template <class Operand> INLINE void apply(Operand&) const {}
};
template <class Mask, int DROPS> struct KeptOf {
    typedef Mask type;
};
template <class Mask> struct KeptOf<Mask, 0> {
    typedef KeepAll type;
};
// What a variant knows of the weights that it keeps.
template <class Mask> using Kept = typename KeptOf<Mask, DROPOUT>::type;
