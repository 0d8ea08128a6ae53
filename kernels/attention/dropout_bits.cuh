// Which weights dropout keeps, as bits in global memory: drawn by dropout_bits.cu, read by forward_tma.cu, grad_by_keys.cu and grad_by_keys_wide.cu. Random numbers take twice as many
// instructions as the softmax, which the tensor cores would wait for; so they are drawn beforehand, for so many heads at a time that the bits stay in the
// cache.
//
//   forward     bits [heads, row_groups, tiles, 32 lanes, 2]     a row group is 16 queries, a tile 128 keys
//   gradient    bits [heads, row_groups, tiles, 32 lanes]        a row group is 16 keys, a tile 64 queries
//
// A lane has the bits of a tile as accumulators have its elements: of the rows l / 4 and l / 4 + 8 of a group, with l = lane % 32, and of each 8 columns the
// two from 2 (l % 4) on. The bits that a lane needs at a time, of one product of 16 columns, are the same bit of four bytes:
//
//   byte     0           1           2           3
//   column   2 q         2 q + 1     2 q + 8     2 q + 9        + 16 * step, with q = l % 4
//   bit      forward: 7 - step, a word for either row            gradient: 7 - 2 step of row l / 4, 6 - 2 step of the other

#pragma once

#include "lib/base.cuh"
#include "ptx/prmt.cuh"
#include "ptx/registers.cuh"

constexpr int BIT_ROWS = 16;
constexpr int BIT_KEYS = 128;    // of a tile of forward
constexpr int BIT_QUERIES = 64;  // of a tile of the gradient

// Where the bits of some heads are.
struct BitLayout {
    u32 first_head;  // counted over the batch
    u32 row_groups;  // of a head, as many as whole works have
    u32 tiles;       // of a head
};
// The words before those of a tile, which has `words` for each lane.
INLINE u64 bit_words_before(const BitLayout& layout, u32 head, u32 row_group, u32 tile, u32 words) {
    return ((u64(head - layout.first_head) * layout.row_groups + row_group) * layout.tiles + tile) * (words * WARP);
}

// All ones where a byte's sign bit is 1, else 0: `keep_pair` in 16 bits each for bytes 0 and 1 or 2 and 3 (a bf16x2 or f16x2 mask); `keep_or_zero`
// in 32 bits for one byte.
INLINE u32 keep_pair(u32 signs, int pair) { return prmt(signs, signs, pair == 0 ? 0x9988 : 0xBBAA); }
INLINE float keep_or_zero(float x, u32 signs, int byte) {
    return __int_as_float(__float_as_int(x) & prmt(signs, signs, 0x8888 + byte * 0x1111));
}

// A lane's bits of a row group and a tile of forward.
struct KeptBits {
    u32 of[2];

    // From the words of this tile on.
    INLINE void load(const u32* words) {
        uint2 pair = *reinterpret_cast<const uint2*>(words + read_tid_x() % WARP * 2);
        of[0] = pair.x;
        of[1] = pair.y;
    }
    // Lets `apply` begin with a later key of the tile, a multiple of 16.
    INLINE void skip(u32 keys) {
        of[0] <<= keys / 16;
        of[1] <<= keys / 16;
    }
    // Makes what is dropped of a left operand 0.
    template <int STEPS> INLINE void apply(u32 (&a)[1][STEPS][4]) const {
#pragma unroll
        for (int step = 0; step < STEPS; ++step)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                u32 signs = of[half] << step;
                a[0][step][half] &= keep_pair(signs, 0);
                a[0][step][2 + half] &= keep_pair(signs, 1);
            }
    }
};

// A lane's bits of a row group and so many tiles of the gradient, one after another.
template <int TILES> struct KeptBitsByKeys {
    u32 of[TILES];

    INLINE void load(const u32* words) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) of[tile] = words[tile * WARP + read_tid_x() % WARP];
    }
    // The bits of two elements of the block j of 8 columns, in row `half`: the first bits of the bytes 2 (j % 2) and behind it.
    INLINE u32 signs(int j, int half) const { return of[j / 8] << (j % 8 / 2 * 2 + half); }
};
