// Products of f32 tiles on the tensor cores (mma.sync), for the attention kernels of f32. With
// SPLIT
//
//   0   TF32: operands are rounded to a mantissa of 10 bits, to nearest, ties away from zero, as in
//       gemm/tf32.cu (m16n8k8)
//   1   bf16x6, as accurate as f32: operands are split into three bf16 terms, and of the nine
//       products of terms the six largest are computed (m16n8k16), as in gemm/wgmma_bf16x6.cuh.
//       Numbers that cannot be split (`is_splittable` returns false) are multiplied by FMAs
//
// Either way, a warp multiplies 16 elements along the inner axis at a time. Their order is free if
// both operands agree. Lane 4 g + t has four elements of each row: those that it loads at once, or
// already holds.
//
//   inner axis          0  1  2  3 | 4  5  6  7 | 8  9 10 11 |12 13 14 15
//   rows in memory  t:  0  0  0  0   1  1  1  1   2  2  2  2   3  3  3  3   q k^T: 16-byte load
//   accumulators    t:  0  0  1  1   2  2  3  3 | 0  0  1  1   2  2  3  3   p v: columns 2 t and
//                                                                           2 t + 1 of two blocks
//
//   x[0..3] of a lane, and the index along k of the instruction that each is passed as:
//     m16n8k8     first product   t: x[0]             t + 4: x[1]
//                 second product  t: x[2]             t + 4: x[3]
//     m16n8k16    2 t, 2 t + 1: x[0], x[1]            2 t + 8, 2 t + 9: x[2], x[3]
//
// So accumulators of q k^T are the left operand of p v without rearrangement, and rows of v are
// read in the order of the line "accumulators". The order of columns of v is free, too: block 4 J +
// j of 8 columns has every fourth column from 32 J + j on. So a lane's columns are adjacent, in v
// (from 4 g of 32 on) and in y (from 8 t of 32 on).
//
// A tile is rows of WIDTH floats in shared memory, with WIDTH 32, 64, 128 or 256. Chunk c of 16
// bytes of row r is stored at index c ^ swizzle(r). The 8 lanes that are served at once then read 8
// different groups of banks in both access patterns:
//
//   two rows, four adjacent chunks        r = 2 m, 2 m + 1          c = 4 s + t
//       odd rows are in the other half of 8 chunks
//   four rows two apart, two chunks       r = 2 t (+ 1, + 8, + 9)   c = 2 m, 2 m + 1
//       rows 2 t are at chunks 2 t and the next, in another order
//
// The tensor cores truncate what they add to a sum. With SPLIT, they add 16 products to a sum that
// begins at 0, the small terms first, and these sums are added in registers, rounded to nearest. In
// TF32, where rounding the operands costs more accuracy, they add to the accumulators directly.

#pragma once

#include "attention/dropout.cuh"
#include "attention/half.cuh"
#include "ptx/cvt.cuh"
#include "ptx/mma.cuh"

#ifdef HOST_SHIM
#define SPLIT 1
#endif

template <int WIDTH> struct FloatTile {
    static constexpr int CHUNKS = WIDTH / 4;
    static constexpr int ROW_BYTES = WIDTH * 4;
    static_assert(CHUNKS % 8 == 0, "a row meets all banks");
    INLINE static u32 swizzle(u32 row) { return (row & 6) ^ (row & 1) << 2; }
    INLINE static u32 at(u32 row, u32 chunk) { return row * ROW_BYTES + ((chunk ^ swizzle(row)) << 4); }
};

// Calls work(address in shared memory, row, chunk) for the chunks of a tile that this thread
// copies. A row is copied by as many adjacent threads as it has chunks.
template <int ROWS, int WIDTH, int THREADS_, class Function> INLINE void for_own_chunks(u32 tile, Function function) {
    constexpr int CHUNKS = FloatTile<WIDTH>::CHUNKS, ROWS_AT_ONCE = THREADS_ / CHUNKS;
    static_assert(ROWS % ROWS_AT_ONCE == 0, "each thread copies as many");
    u32 thread = read_tid_x(), row = thread / CHUNKS, chunk = thread % CHUNKS;
#pragma unroll 16
    for (int i = 0; i < ROWS / ROWS_AT_ONCE; ++i, row += ROWS_AT_ONCE)
        function(tile + FloatTile<WIDTH>::at(row, chunk), row, chunk);
}

// Copies ROWS rows from `first_row` on into a tile, with zeros beyond `rows` and `columns`.
template <int ROWS, int WIDTH, int THREADS_>
INLINE void fetch_tile(u32 to, const View<const Element>& from, i32 first_row, i32 rows, u32 columns) {
    for_own_chunks<ROWS, WIDTH, THREADS_>(to, [&](u32 offset, u32 row, u32 chunk) {
        i32 at = first_row + i32(row);
        cp_async<16>(offset, from.first + row_start(at, from.row) + chunk * 4, at < rows && chunk * 4 < columns);
    });
}

INLINE void load_chunk(float (&to)[4], u32 from) {
    u32 words[4];
    ld_shared_v4_unordered(words, from);
#pragma unroll
    for (int e = 0; e < 4; ++e) to[e] = __uint_as_float(words[e]);
}

// ---------------------------------------------------------------- operands

#if SPLIT
// The bf16 terms, each of all 16 elements.
constexpr int PIECES = 3;
#else
// Each has 8 of the 16 elements.
constexpr int PIECES = 2;
#endif

// A lane's fragments: 16 x 16 elements of a left operand, and 16 x 8 of a right one.
struct Left {
    u32 of[PIECES][4];
};
struct Right {
    u32 of[PIECES][2];
};

// Rounds by adding half of the last bit that the tensor cores read, which is 2^-11 of x's power of
// two. The tensor cores ignore the bits below.
INLINE u32 to_tf32(float x) {
    // Infinite for infinities and NaN, which both stay.
    float power = __uint_as_float(__float_as_uint(x) & 0xff800000u);
    return __float_as_uint(fmaf(power, 0x1p-11f, x));
}

// Returns two numbers rounded to bf16, and replaces them by the remainders, which are exact.
INLINE u32 split_off_bf16(float& low, float& high) {
    u32 pair = cvt_rn_bf16x2_f32(high, low);
    low -= __uint_as_float(pair << 16);
    high -= __uint_as_float(pair & 0xffff0000u);
    return pair;
}

INLINE Right right_of(float (&x)[4]) {
    Right right;
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece) {
#if SPLIT
        right.of[piece][0] = split_off_bf16(x[0], x[1]);
        right.of[piece][1] = split_off_bf16(x[2], x[3]);
#else
        right.of[piece][0] = to_tf32(x[2 * piece]);
        right.of[piece][1] = to_tf32(x[2 * piece + 1]);
#endif
    }
    return right;
}
// From a row, and from the row eight below.
INLINE Left left_of(float (&upper)[4], float (&lower)[4]) {
    Right above = right_of(upper), below = right_of(lower);
    Left left;
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            left.of[piece][2 * half] = above.of[piece][half];
            left.of[piece][2 * half + 1] = below.of[piece][half];
        }
    return left;
}

// Blocks `first` to `first` + COUNT of c += left right, over 16 elements of the inner axis.
template <int ROW_BLOCKS, int COUNT, int COLUMN_BLOCKS>
INLINE void multiply(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], int first, const Left (&left)[ROW_BLOCKS],
                     const Right (&right)[COUNT]) {
#if SPLIT
    // The pairs of terms that are multiplied, small ones first, so that what is added last is as
    // large as the sum.
    constexpr int PAIRS = 6;
    constexpr u32 LEFT_TERMS = 0x001012, RIGHT_TERMS = 0x010210;
    float sums[ROW_BLOCKS][COUNT][4];
    clear(sums);
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair)
#pragma unroll
        for (int j = 0; j < COUNT; ++j)
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i) {
                const u32(&a)[4] = left[i].of[LEFT_TERMS >> 4 * pair & 3];
                const u32(&b)[2] = right[j].of[RIGHT_TERMS >> 4 * pair & 3];
                mma_m16n8k16(sums[i][j], a, b[0], b[1], bf16());
            }
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COUNT; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) c[i][first + j][e] += sums[i][j][e];
#else
#pragma unroll
    for (int piece = 0; piece < PIECES; ++piece)
#pragma unroll
        for (int j = 0; j < COUNT; ++j)
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i)
                mma_m16n8k8_tf32(c[i][first + j], left[i].of[piece], right[j].of[piece][0], right[j].of[piece][1]);
#endif
}

// ---------------------------------------------------------------- products of tiles

// The maximum number of column blocks that are multiplied together, so that products wait less for
// one another. The bf16 terms take the registers of more.
constexpr int MAX_COLUMN_BLOCKS = SPLIT ? 2 : 4;
// Unrolled steps of 16 along the inner axis. With more, loads are moved so far ahead that registers
// spill.
constexpr int UNROLLED = SPLIT ? 2 : 8;

// c = a b^T over WIDTH columns, for the ROW_BLOCKS * 16 rows from `row` on of tile a and the
// COLUMN_BLOCKS * 8 rows of tile b.
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void gemm_nt(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], u32 a_tile, u32 row, u32 b_tile) {
    typedef FloatTile<WIDTH> Tile;
    constexpr int BLOCKS_AT_ONCE = smallest(MAX_COLUMN_BLOCKS, COLUMN_BLOCKS);
    static_assert(COLUMN_BLOCKS % BLOCKS_AT_ONCE == 0, "whole groups of blocks");
    // Read again, so that values derived from it take no registers between products.
    u32 lane = read_tid_x() % WARP, swizzled = (lane % 4 ^ Tile::swizzle(lane / 4)) << 4;
    u32 a = a_tile + (row + lane / 4) * Tile::ROW_BYTES, b = b_tile + lane / 4 * Tile::ROW_BYTES;
    clear(c);
#pragma unroll UNROLLED
    for (int step = 0; step < WIDTH / 16; ++step) {
        u32 chunk = step * 64 ^ swizzled;
        Left left[ROW_BLOCKS];
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
            float upper[4], lower[4];
            load_chunk(upper, a + i * 16 * Tile::ROW_BYTES + chunk);
            load_chunk(lower, a + (i * 16 + 8) * Tile::ROW_BYTES + chunk);
            left[i] = left_of(upper, lower);
        }
#pragma unroll
        for (int first = 0; first < COLUMN_BLOCKS; first += BLOCKS_AT_ONCE) {
            Right right[BLOCKS_AT_ONCE];
#pragma unroll
            for (int j = 0; j < BLOCKS_AT_ONCE; ++j) {
                float x[4];
                load_chunk(x, b + (first + j) * 8 * Tile::ROW_BYTES + chunk);
                right[j] = right_of(x);
            }
            multiply(c, first, left, right);
        }
    }
}

// c += w b. The accumulators w are the left operand; their COLUMN_BLOCKS * 8 columns correspond to
// the rows of tile b. The WIDTH columns of b are those of c in the order described above.
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void accumulate_gemm_nn(float (&c)[ROW_BLOCKS][WIDTH / 8][4], const float (&w)[ROW_BLOCKS][COLUMN_BLOCKS][4],
                               u32 b_tile) {
    typedef FloatTile<WIDTH> Tile;
    u32 lane = read_tid_x() % WARP, row = lane % 4 * 2, chunk = lane / 4 ^ row;
    u32 even = b_tile + row * Tile::ROW_BYTES + (chunk << 4);
    u32 odd = b_tile + (row + 1) * Tile::ROW_BYTES + ((chunk ^ 4) << 4);
#pragma unroll
    for (int step = 0; step < COLUMN_BLOCKS / 2; ++step) {
        Left left[ROW_BLOCKS];
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
            const float (&first)[4] = w[i][2 * step], (&second)[4] = w[i][2 * step + 1];
            float upper[4] = {first[0], first[1], second[0], second[1]};
            float lower[4] = {first[2], first[3], second[2], second[3]};
            left[i] = left_of(upper, lower);
        }
#pragma unroll
        for (int group = 0; group < WIDTH / 32; ++group) {
            u32 from = step * 16 * Tile::ROW_BYTES + group * 128;
            float rows[4][4];
            load_chunk(rows[0], even + from);
            load_chunk(rows[1], odd + from);
            load_chunk(rows[2], even + from + 8 * Tile::ROW_BYTES);
            load_chunk(rows[3], odd + from + 8 * Tile::ROW_BYTES);
#pragma unroll
            for (int first = 0; first < 4; first += MAX_COLUMN_BLOCKS) {
                Right right[MAX_COLUMN_BLOCKS];
#pragma unroll
                for (int j = 0; j < MAX_COLUMN_BLOCKS; ++j) {
                    int at = first + j;
                    float x[4] = {rows[0][at], rows[1][at], rows[2][at], rows[3][at]};
                    right[j] = right_of(x);
                }
                multiply(c, group * 4 + first, left, right);
            }
            // Keeps the loads of the next groups after these products. Further ahead, registers
            // spill.
            if (SPLIT) __syncwarp();
        }
    }
}

// Writes a lane's columns of accumulate_gemm_nn's accumulators to rows of `to`, 16 bytes at a time.
// The warp's rows begin at `first_row`.
template <int WIDTH, int ROW_BLOCKS>
INLINE void write_columns(const float (&c)[ROW_BLOCKS][WIDTH / 8][4], const View<Element>& to, i32 first_row, i32 rows,
                          u32 columns) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i32 row = first_row + i * 16 + half * 8 + i32(lane / 4);
            if (row >= rows) continue;
            Element* at = to.first + row_start(row, to.row);
#pragma unroll
            for (int group = 0; group < WIDTH / 32; ++group)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    u32 column = group * 32 + lane % 4 * 8 + e * 4;
                    Pack<float, 4> pack;
#pragma unroll
                    for (int j = 0; j < 4; ++j) pack.of[j] = c[i][group * 4 + j][half * 2 + e];
                    if (column < columns) store<float, 4>(at + column, pack);
                }
        }
}

// Sets the weights of a warp that dropout drops to 0.
template <int ROW_BLOCKS, int COLUMN_BLOCKS, class Mask>
INLINE void drop_weights(float (&w)[ROW_BLOCKS][COLUMN_BLOCKS][4], const Mask& kept) {
    if constexpr (DROPOUT)
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
                for (int e = 0; e < 4; ++e) w[i][j][e] = kept.has(i, j, e) ? w[i][j][e] : 0;
}

// ---------------------------------------------------------------- numbers that cannot be split

// Whether a number is the sum of three bf16 terms of which none is subnormal, and too small for a
// sum of products to overflow f32: 0, or from 2^-103 to below 2^48 (gemm/split_bf16x3.cu).
INLINE bool is_splittable(u32 bits) {
    constexpr u32 LEAST = (127 - 103) << 23, BEYOND = (127 + 48) << 23;
    u32 magnitude = bits & 0x7fffffff;
    return magnitude == 0 || magnitude - LEAST < BEYOND - LEAST;
}

// Whether all that this thread copied of a tile can be split. In TF32 nothing is checked.
template <int ROWS, int WIDTH, int THREADS_> INLINE bool has_splittable_chunks(u32 tile) {
    bool splittable = true;
#if SPLIT
    for_own_chunks<ROWS, WIDTH, THREADS_>(tile, [&](u32 offset, u32, u32) {
        uint4 words = ld_shared_v4(offset);
        splittable &= is_splittable(words.x) & is_splittable(words.y) & is_splittable(words.z) & is_splittable(words.w);
    });
#endif
    return splittable;
}
// Whether a warp's accumulators can be a left operand. Small ones are not checked: they may lose
// their last bits, which are small compared with sums of larger ones.
template <int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE bool are_splittable(const float (&w)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {
    bool splittable = true;
#if SPLIT
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) splittable &= fabsf(w[i][j][e]) < 0x1p48f;
    splittable = !__any_sync(ALL_LANES, !splittable);
#endif
    return splittable;
}
// Synchronizes the block, and returns whether `splittable` is true in all threads.
INLINE bool sync_all_splittable(bool splittable) {
#if SPLIT
    return __syncthreads_and(splittable);
#else
    __syncthreads();
    return splittable;
#endif
}

// Converts products to scores. Each is rounded separately. Within an FMA together with the
// subtraction that follows, a score would differ from the rounded score by up to half of its last
// bit, which is 1 or more from 2^24 on. The weights would then differ from those of forward.
template <int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void scale_scores(float (&s)[ROW_BLOCKS][COLUMN_BLOCKS][4], float scale) {
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) s[i][j][e] = __fmul_rn(s[i][j][e], scale);
}

INLINE float load_float(u32 from) { return __uint_as_float(ld_shared(from)); }

// Like gemm_nt, by FMAs in the order of the columns.
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void product_of_rows_by_fma(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], u32 a_tile, u32 row, u32 b_tile) {
    typedef FloatTile<WIDTH> Tile;
    u32 lane = read_tid_x() % WARP, upper = row + lane / 4, first = lane % 4 * 2;
    clear(c);
#pragma unroll 1
    for (u32 column = 0; column < WIDTH; ++column) {
        u32 chunk = column / 4, offset = column % 4 * 4;
        float left[ROW_BLOCKS][2];
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                left[i][half] = load_float(a_tile + Tile::at(upper + i * 16 + half * 8, chunk) + offset);
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float right = load_float(b_tile + Tile::at(first + j * 8 + e, chunk) + offset);
#pragma unroll
                for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        c[i][j][half * 2 + e] = fmaf(left[i][half], right, c[i][j][half * 2 + e]);
            }
    }
}

// Like accumulate_gemm_nn, by FMAs in the order of the rows of b. Groups of four lanes share a
// row's weights.
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void add_product_by_fma(float (&c)[ROW_BLOCKS][WIDTH / 8][4], const float (&w)[ROW_BLOCKS][COLUMN_BLOCKS][4],
                               u32 b_tile) {
    typedef FloatTile<WIDTH> Tile;
    u32 lane = read_tid_x() % WARP;
#pragma unroll
    for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll 1
        for (u32 source = 0; source < 4; ++source)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                float weight[ROW_BLOCKS][2];
#pragma unroll
                for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
                    for (int half = 0; half < 2; ++half)
                        weight[i][half] = __shfl_sync(ALL_LANES, w[i][j][half * 2 + e], lane / 4 * 4 + source);
                u32 row = j * 8 + source * 2 + e;
#pragma unroll
                for (int pack = 0; pack < WIDTH / 16; ++pack) {
                    float x[4];
                    load_chunk(x, b_tile + Tile::at(row, pack / 2 * 8 + lane % 4 * 2 + pack % 2));
#pragma unroll
                    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
                        for (int half = 0; half < 2; ++half)
#pragma unroll
                            for (int at = 0; at < 4; ++at) {
                                float& sum = c[i][pack / 2 * 4 + at][half * 2 + pack % 2];
                                sum = fmaf(weight[i][half], x[at], sum);
                            }
                }
            }
}

// The products above, on the tensor cores if all operands can be split, else by FMAs.
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void gemm_nt(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], u32 a_tile, u32 row, u32 b_tile, bool splittable) {
    if (!SPLIT || splittable) gemm_nt<WIDTH>(c, a_tile, row, b_tile);
    else product_of_rows_by_fma<WIDTH>(c, a_tile, row, b_tile);
}
template <int WIDTH, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void accumulate_gemm_nn(float (&c)[ROW_BLOCKS][WIDTH / 8][4], const float (&w)[ROW_BLOCKS][COLUMN_BLOCKS][4],
                               u32 b_tile, bool splittable) {
    if (!SPLIT || splittable) accumulate_gemm_nn<WIDTH>(c, w, b_tile);
    else add_product_by_fma<WIDTH>(c, w, b_tile);
}
