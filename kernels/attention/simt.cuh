// f32 tiles in shared memory and their products by FMAs, for the attention kernels of f32.
//
// A warp has WARP_ROWS rows of a product. Each of its four groups of 8 lanes takes every fourth
// row. The lanes of a group share a row's columns:
//
//            columns ->   0     1    ...   7   |  8     9   ...  a b^T: 1 column per lane, 8 apart
//   row 0               lane 0   1   ...   7   | lane 0   1 ...  w b: 4 columns per lane, 32 apart
//   row 1               lane 8   9   ...   15  | lane 8   9
//   row 2               lane 16  17  ...
//
// So no access of a warp has bank conflicts. A row of a tile begins 4 floats after a multiple of 32
// banks: lanes that read packs of 4 at the same column of different rows access different banks. A
// row of weights begins 8 banks after a multiple of 32: the groups write to different banks.

#pragma once

#include "attention/dropout.cuh"
#include "attention/mask.cuh"

constexpr int WARPS = 4;
constexpr int THREADS = WARPS * WARP;
constexpr int LANES = 8;
constexpr int LANE_COLUMNS = 4;
constexpr int GROUPS = WARP / LANES;
constexpr int LANE_ROWS = 4;
constexpr int WARP_ROWS = GROUPS * LANE_ROWS;
constexpr int ROWS = WARPS * WARP_ROWS;

INLINE constexpr int pitch_of(int width) { return width + 4; }
INLINE constexpr int weight_pitch(int columns) { return columns + 8; }

// Copies TILE_ROWS rows from `first_row` on into a tile, with zeros beyond `rows` and `columns`.
template <int TILE_ROWS, int WIDTH>
INLINE void fetch(float* to, const View<const Element>& from, i32 first_row, i32 rows, u32 columns) {
    constexpr int PACK = 4;
    constexpr int PACKS = WIDTH / PACK;
#pragma unroll 4
    for (u32 index = threadIdx.x; index < TILE_ROWS * PACKS; index += THREADS) {
        u32 row = index / PACKS, column = index % PACKS * PACK;
        bool inside = first_row + i32(row) < rows && column < columns;
        const Element* source = from.first + i64(first_row + i32(row)) * from.row;
        u32 position = cvta_to_shared(to + row * pitch_of(WIDTH) + column);
        cp_async<16>(position, source + column, inside);
    }
}

template <int N> INLINE void clear(float (&c)[LANE_ROWS][N]) {
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < N; ++j) c[i][j] = 0;
}

template <int N> INLINE void scale_by(float (&c)[LANE_ROWS][N], float factor) {
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < N; ++j) c[i][j] *= factor;
}

// Converts a product to a score, which is rounded separately. Within an FMA together with the
// subtraction that follows, a score would differ from the rounded score by up to half of its last
// bit, which is 1 or more from 2^24 on. The weights would then differ from those of forward.
INLINE float scaled(float product, float scale) { return __fmul_rn(product, scale); }

// c = a b^T over WIDTH columns, where a is the warp's rows of its tile, and b is a tile of COLUMNS
// * 8 rows.
template <int WIDTH, int COLUMNS> INLINE void gemm_nt(float (&c)[LANE_ROWS][COLUMNS], const float* a, const float* b) {
    constexpr int PITCH = pitch_of(WIDTH);
    u32 lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
    a += group * PITCH;
    b += lane * PITCH;
    clear(c);
#pragma unroll 2
    for (int at = 0; at < WIDTH; at += 4) {
        Pack<float, 4> left[LANE_ROWS], right[COLUMNS];
#pragma unroll
        for (int i = 0; i < LANE_ROWS; ++i) left[i] = load<float, 4>(a + GROUPS * i * PITCH + at);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) right[j] = load<float, 4>(b + LANES * j * PITCH + at);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
                for (int j = 0; j < COLUMNS; ++j) c[i][j] = fmaf(left[i].of[e], right[j].of[e], c[i][j]);
    }
}

// c += w b, where w is the warp's rows of a tile of weights with DEPTH columns, and b is a tile of
// DEPTH rows and WIDTH columns.
template <int WIDTH, int DEPTH>
INLINE void accumulate_gemm_nn(float (&c)[LANE_ROWS][WIDTH / LANES], const float* w, const float* b) {
    constexpr int PITCH = pitch_of(WIDTH);
    u32 lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
    w += group * weight_pitch(DEPTH);
    b += lane * LANE_COLUMNS;
#pragma unroll 2
    for (int at = 0; at < DEPTH; at += 4) {
        Pack<float, 4> left[LANE_ROWS];
#pragma unroll
        for (int i = 0; i < LANE_ROWS; ++i) left[i] = load<float, 4>(w + GROUPS * i * weight_pitch(DEPTH) + at);
#pragma unroll
        for (int e = 0; e < 4; ++e)
#pragma unroll
            for (int j = 0; j < WIDTH / LANES; j += LANE_COLUMNS) {
                Pack<float, LANE_COLUMNS> right = load<float, LANE_COLUMNS>(b + (at + e) * PITCH + j * LANES);
#pragma unroll
                for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
                    for (int column = 0; column < LANE_COLUMNS; ++column)
                        c[i][j + column] = fmaf(left[i].of[e], right.of[column], c[i][j + column]);
            }
    }
}

// Stores the kept products of a lane, with 0 for dropped ones, to the warp's rows of a tile of
// weights. The warp must synchronize before it reads them.
template <int COLUMNS, class Mask>
INLINE void store_weights(float* w, const float (&c)[LANE_ROWS][COLUMNS], const Mask& kept) {
    u32 lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            w[(GROUPS * i + group) * weight_pitch(COLUMNS * LANES) + lane + j * LANES] = kept.only(i, j, c[i][j]);
}

// The dropout mask of a warp's rows and COLUMNS * 8 columns. Each call of the random number
// generator decides on four consecutive keys of a query, so lanes share the results:
//
//   rows are queries   each lane of a group generates the bits of four keys of the group's rows
//   rows are keys      a group generates the bits of four consecutive rows, one of each group
template <bool BY_KEYS, int COLUMNS> struct KeepMask {
    static constexpr int ROUNDS = BY_KEYS ? 1 : COLUMNS / 4;
    // One bit for each of the lane's rows and columns, so that the mask of a step takes one
    // register.
    u32 bits;

    // Returns x of row i, column j of the lane if it is kept, else 0. This uses bit operations
    // instead of conditions: when the same sixteen conditions were tested twice, ptxas 13.0 kept
    // some of the first results in predicates that it had overwritten since (R2P), and so used
    // another element's bit.
    INLINE float only(int i, int j, float x) const {
        int position = BY_KEYS ? j * 4 + i : i * ROUNDS * 4 + j;
        return __int_as_float(__float_as_int(x) & (i32(bits << (31 - position)) >> 31));
    }

    // Computes the bits of the rows from `row` on and the columns from `column` on. `head` is the
    // query head, counted over the batch.
    INLINE void draw(const DropoutParams& dropout, const WeightIndex& indices, u32 head, i32 row, i32 column) {
        u32 lane = read_tid_x() % LANES, group = read_tid_x() % WARP / LANES;
        u32 drawn = 0;
        DropoutRng rng = DropoutRng::of(dropout);
        bits = 0;
        if constexpr (BY_KEYS) {
            u64 index = indices.at(head, column + i32(lane), row + i32(group) * GROUPS);
#pragma unroll 2
            for (int j = 0; j < COLUMNS; ++j, index += u64(indices.keys) * LANES) drawn |= rng.four(index) << j * 4;
#pragma unroll
            for (int i = 0; i < LANE_ROWS; ++i)
                bits |= (__shfl_sync(ALL_LANES, drawn, i * LANES + lane) >> group & 0x1111) << i;
        } else {
#pragma unroll 2
            for (int i = 0; i < LANE_ROWS; ++i) {
                u64 index = indices.at(head, row + GROUPS * i + i32(group), column + i32(lane) * 4);
#pragma unroll
                for (int round = 0; round < ROUNDS; ++round)
                    drawn |= rng.four(index + round * LANES * 4) << (i * ROUNDS + round) * 4;
            }
            // One column's bit of each row.
            constexpr u32 ROWS_APART = ROUNDS == 2 ? 0x01010101 : 0x1111;
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j)
                bits |= (__shfl_sync(ALL_LANES, drawn, group * LANES + (2 * j + lane / 4) % LANES) >>
                             (j / 4 * 4 + lane % 4) &
                         ROWS_APART)
                        << j;
        }
    }
    INLINE void keep_all() { bits = ~0u; }
    // Sets the lane's dropped weights to 0.
    INLINE void apply(float (&w)[LANE_ROWS][COLUMNS]) const {
#pragma unroll
        for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMNS; ++j) w[i][j] = only(i, j, w[i][j]);
    }
};

template <int WIDTH>
INLINE void write_rows(const float (&c)[LANE_ROWS][WIDTH / LANES], const View<Element>& to, i32 first_row, i32 rows,
                       u32 columns) {
    u32 lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        i32 row = first_row + GROUPS * i + i32(group);
        if (row >= rows) continue;
        Element* at = to.first + i64(row) * to.row;
#pragma unroll
        for (int j = 0; j < WIDTH / LANES; j += LANE_COLUMNS) {
            u32 column = lane * LANE_COLUMNS + j * LANES;
            Pack<float, LANE_COLUMNS> pack;
#pragma unroll
            for (int e = 0; e < LANE_COLUMNS; ++e) pack.of[e] = c[i][j + e];
            if (column < columns) store<float, LANE_COLUMNS>(at + column, pack);
        }
    }
}
