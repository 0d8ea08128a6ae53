// Dropout mask as keep bits in global memory: written by dropout_bits.cu; read by forward_tma.cu,
// grad_by_keys.cu and grad_by_keys_wide.cu. Random numbers take twice as many instructions as the
// softmax, and the tensor cores would wait for them. So a separate kernel draws them first. Each
// launch covers only as many heads as keep their bits in the cache.
//
//   forward     bits [heads, row_groups, tiles, 32 lanes, 2]   row group: 16 queries,
//                                                              tile: 128 keys
//   gradient    bits [heads, row_groups, tiles, 32 lanes]      row group: 16 keys,
//                                                              tile: 64 queries
//
// A lane has the bits of its accumulator elements of a tile: rows l / 4 and l / 4 + 8 of the row
// group, with l = lane % 32, and of each 8 columns the two from 2 (l % 4). The bits that a lane
// needs at a time, for one product over 16 columns, are the same bit of all four bytes:
//
//   byte     0           1           2           3
//   column   2 q         2 q + 1     2 q + 8     2 q + 9        + 16 * step, with q = l % 4
//   bit      forward:  7 - step, with one word for each of the two rows
//            gradient: 7 - 2 step for row l / 4, 6 - 2 step for row l / 4 + 8

#pragma once

#include "lib/base.cuh"
#include "ptx/prmt.cuh"
#include "ptx/registers.cuh"

constexpr int BIT_ROWS = 16;
constexpr int BIT_KEYS = 128;    // of a forward tile
constexpr int BIT_QUERIES = 64;  // of a gradient tile

// Layout of the bits of a range of heads.
struct BitLayout {
    u32 first_head;  // counted over the batch
    u32 row_groups;  // per head, padded to whole work tiles
    u32 tiles;       // per head
};
// Offset in words of a tile that has `words` words per lane.
INLINE u64 bit_words_before(const BitLayout& layout, u32 head, u32 row_group, u32 tile, u32 words) {
    return ((u64(head - layout.first_head) * layout.row_groups + row_group) * layout.tiles + tile) * (words * WARP);
}

// All ones where a byte's sign bit is 1, else 0. `keep_pair` gives 16 bits for each of bytes 0 and
// 1, or 2 and 3 (a bf16x2 or f16x2 mask). `keep_or_zero` uses 32 bits for one byte.
INLINE u32 keep_pair(u32 signs, int pair) { return prmt(signs, signs, pair == 0 ? 0x9988 : 0xBBAA); }
INLINE float keep_or_zero(float x, u32 signs, int byte) {
    return __int_as_float(__float_as_int(x) & prmt(signs, signs, 0x8888 + byte * 0x1111));
}

// A lane's keep bits of a row group and a forward tile.
struct KeepBits {
    u32 of[2];

    // `words` points to the first word of the tile.
    INLINE void load(const u32* words) {
        uint2 pair = *reinterpret_cast<const uint2*>(words + read_tid_x() % WARP * 2);
        of[0] = pair.x;
        of[1] = pair.y;
    }
    // Advances the first key that `apply` uses by `keys`, a multiple of 16.
    INLINE void skip(u32 keys) {
        of[0] <<= keys / 16;
        of[1] <<= keys / 16;
    }
    // Zeroes the dropped elements of a left operand.
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

// A lane's keep bits of a row group and TILES consecutive gradient tiles.
template <int TILES> struct KeepBitsByKeys {
    u32 of[TILES];

    INLINE void load(const u32* words) {
#pragma unroll
        for (int tile = 0; tile < TILES; ++tile) of[tile] = words[tile * WARP + read_tid_x() % WARP];
    }
    // Keep bits of the two elements of row `half` in block j of 8 columns: the sign bits of bytes
    // 2 (j % 2) and 2 (j % 2) + 1.
    INLINE u32 signs(int j, int half) const { return of[j / 8] << (j % 8 / 2 * 2 + half); }
};
