// Which weights dropout keeps, as bits in global memory: drawn by dropout_bits.cu, read by forward_tma.cu. Random numbers take twice as many instructions as the
// softmax, which the tensor cores would wait for; so they are drawn beforehand, for so many heads at a time that the bits stay in the cache.
//
//   bits [heads, row_groups, key_tiles, 32 lanes, 2]     a row group is 16 queries, a key tile 128 keys
//
// A lane has what it needs of a tile in two words, for the rows l / 4 and l / 4 + 8 of a group l = lane % 32, as accumulators have them: of each 8 keys the
// two from 2 (l % 4) on. Keys that lie 16 apart are neighboring bits, and those of one product of 16 keys the same bit of four bytes, first keys in bit 7:
//
//   byte     0           1           2           3
//   key      2 q         2 q + 1     2 q + 8     2 q + 9        + 16 * (7 - bit), with q = l % 4

#pragma once

#include "attention/params.cuh"
#include "ptx/prmt.cuh"

constexpr int BIT_ROWS = 16;
constexpr int BIT_KEYS = 128;
constexpr int BIT_WORDS = 2 * WARP;  // of a row group and a key tile

// Where the bits of some heads are.
struct BitLayout {
    u32 first_head;  // counted over the batch
    u32 row_groups;  // of a head, as many as whole tiles of queries have
    u32 key_tiles;   // of a head
};
INLINE u64 bit_words_before(const BitLayout& layout, u32 head, u32 row_group, u32 key_tile) {
    return ((u64(head - layout.first_head) * layout.row_groups + row_group) * layout.key_tiles + key_tile) * BIT_WORDS;
}

// A lane's bits of a row group and a key tile.
struct KeptBits {
    u32 of[2];

    // From the words of this tile on.
    INLINE void load(const u32* words) {
        uint2 pair = *reinterpret_cast<const uint2*>(words + read_tid_x() % WARP * 2);
        of[0] = pair.x;
        of[1] = pair.y;
    }
    // Makes what is dropped of a left operand 0.
    INLINE void apply(u32 (&a)[1][BIT_KEYS / 16][4]) const {
#pragma unroll
        for (int step = 0; step < BIT_KEYS / 16; ++step)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                u32 signs = of[half] << step;
                a[0][step][half] &= prmt<0x9988>(signs, signs);
                a[0][step][2 + half] &= prmt<0xBBAA>(signs, signs);
            }
    }
};
