// Code that the f16 and bf16 attention kernels share, for both matrix instructions. mma.cuh (sm_80
// and newer) or wgmma.cuh (sm_90a) defines the smem layout of a tile and the tile products.
//
// With either instruction, a warp's accumulators are ROW_TILES x COLUMN_BLOCKS blocks of 16 rows
// and 8 columns. Of each block, lane l has columns 2 (l % 4) and 2 (l % 4) + 1, in row l / 4 ([0],
// [1]) and in row l / 4 + 8 ([2], [3]).

#pragma once

#ifdef HOST_SHIM
#undef TYPE
#define TYPE f16
#endif

#include "attention/dropout.cuh"
#include "attention/mask.cuh"

template <int ROWS, int WIDTH> struct Tile;

// Row strides are below 2^31: one widening multiplication.
INLINE i64 row_start(i32 row, i64 stride) { return i64(row) * i64(i32(stride)); }

// Issues async copies of ROWS rows from `first_row` into a tile, with zeros beyond `rows` and
// `columns`. Each row has as many threads as chunks, rounded up to a power of two, so that a thread
// keeps its column in all rows.
template <int ROWS, int WIDTH, int THREADS_>
INLINE void fetch(u32 to, const View<const Element>& from, i32 first_row, i32 rows, u32 columns) {
    constexpr int CHUNKS = Tile<ROWS, WIDTH>::CHUNKS;
    constexpr int THREADS_PER_ROW = CHUNKS == 12 ? 16 : CHUNKS == 24 ? 32 : CHUNKS;
    constexpr int ROWS_AT_ONCE = THREADS_ / THREADS_PER_ROW;
    u32 row = threadIdx.x / THREADS_PER_ROW, chunk = threadIdx.x % THREADS_PER_ROW;
    if (CHUNKS < THREADS_PER_ROW && chunk >= CHUNKS) return;
    rows -= first_row;
    if (chunk * 8 >= columns) rows = 0;
#pragma unroll 64
    for (int i = 0; i < (ROWS + ROWS_AT_ONCE - 1) / ROWS_AT_ONCE; ++i, row += ROWS_AT_ONCE) {
        if (ROWS % ROWS_AT_ONCE != 0 && row >= ROWS) break;
        bool inside = i32(row) < rows;
        const Element* source = from.first + row_start(first_row + i32(row), from.row);
        u32 smem_address = to + Tile<ROWS, WIDTH>::at(row, chunk);
        cp_async<16>(smem_address, source + chunk * 8, inside);
    }
}

INLINE u32 pack_half2(float low, float high, f16) { return cvt_rn_f16x2_f32(high, low); }
INLINE u32 pack_half2(float low, float high, bf16) { return cvt_rn_bf16x2_f32(high, low); }

template <int ROW_BLOCKS, int COLUMN_BLOCKS> INLINE void clear(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) c[i][j][e] = 0;
}

template <int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void scale_by(float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4], float factor) {
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) c[i][j][e] *= factor;
}

// Rounds accumulators to half precision, as fragments of a left operand: two blocks of 8 columns
// make one k step of 16.
template <int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void round_to_operand(u32 (&a)[ROW_BLOCKS][COLUMN_BLOCKS / 2][4],
                             const float (&c)[ROW_BLOCKS][COLUMN_BLOCKS][4]) {
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half)
                a[i][j / 2][j % 2 * 2 + half] = pack_half2(c[i][j][half * 2], c[i][j][half * 2 + 1], Element());
}

INLINE float apply_mask_element(float score, float scale, MaskElement element) {
    if (MASK == 1) return widen(element) != 0 ? score * scale : -INFINITE;
    return fmaf(score, scale, float(widen(element)));
}

// Access to the mask elements of a lane: VEC2: two adjacent keys at once; CONTIGUOUS: one by one,
// keys contiguous; STRIDED: any stride; BOUNDS_CHECKED: any stride, with a bounds check of each
// element.
enum MaskAccess { VEC2, CONTIGUOUS, STRIDED, BOUNDS_CHECKED };

// Scales the accumulators of q k^T and applies the mask. `query` and `key` are the lane's first.
template <bool BY_KEYS, MaskAccess ACCESS, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void read_mask(float (&s)[ROW_BLOCKS][COLUMN_BLOCKS][4], const View<const MaskElement>& mask, i32 query, i32 key,
                      const Sizes& sizes, float scale) {
    const MaskElement* first = mask.first + i64(query) * mask.row + i64(key) * mask.column;
    // Mask strides are below 2^24: offsets within a tile fit in 32 bits.
    i32 down = i32(mask.row), over = ACCESS <= CONTIGUOUS ? 1 : i32(mask.column);
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half)
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j) {
                Pack<MaskElement, 2> pair;
                if (ACCESS == VEC2) pair = load<MaskElement, 2>(first + (i * 16 + half * 8) * down + j * 8);
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    int along_rows = i * 16 + half * 8, along_columns = j * 8 + e;
                    int queries = BY_KEYS ? along_columns : along_rows, keys = BY_KEYS ? along_rows : along_columns;
                    float& score = s[i][j][half * 2 + e];
                    bool exists = ACCESS != BOUNDS_CHECKED ||
                                  (query + queries < i32(sizes.queries) && key + keys < i32(sizes.keys));
                    if (ACCESS != VEC2 && exists) pair.of[e] = first[queries * down + keys * over];
                    score = exists ? apply_mask_element(score, scale, pair.of[e]) : -INFINITE;
                }
            }
}
// s has rows from `row` and columns from `column`: queries and keys, or with BY_KEYS keys and
// queries.
template <bool BY_KEYS, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void apply_mask(float (&s)[ROW_BLOCKS][COLUMN_BLOCKS][4], View<const MaskElement> mask, i32 row, i32 column,
                       const Sizes& sizes, float scale) {
    bool inside = row + ROW_BLOCKS * 16 <= i32(BY_KEYS ? sizes.keys : sizes.queries) &&
                  column + COLUMN_BLOCKS * 8 <= i32(BY_KEYS ? sizes.queries : sizes.keys);
    // Hides from the compiler that the strides are the same in every step: otherwise values derived
    // from them would occupy registers between the steps.
    make_opaque(mask.row, mask.column);
    u32 thread = read_tid_x();
    row += thread % WARP / 4;
    column += thread % 4 * 2;
    i32 query = BY_KEYS ? column : row, key = BY_KEYS ? row : column;
    bool pairs = !BY_KEYS && mask.row % 2 == 0 && u64(mask.first) % (2 * sizeof(MaskElement)) == 0;
    if (!inside) read_mask<BY_KEYS, BOUNDS_CHECKED>(s, mask, query, key, sizes, scale);
    else if (mask.column != 1) read_mask<BY_KEYS, STRIDED>(s, mask, query, key, sizes, scale);
    else if (pairs) read_mask<BY_KEYS, BY_KEYS ? CONTIGUOUS : VEC2>(s, mask, query, key, sizes, scale);
    else read_mask<BY_KEYS, CONTIGUOUS>(s, mask, query, key, sizes, scale);
}

// Sets accumulators to `unseen` where the query does not attend to the key, or the key does not
// exist. s has rows from `row` and columns from `column`.
template <bool BY_KEYS, int ROW_BLOCKS, int COLUMN_BLOCKS>
INLINE void apply_band_mask(float (&s)[ROW_BLOCKS][COLUMN_BLOCKS][4], const Sizes& sizes, i32 row, i32 column,
                            float unseen, u32 thread) {
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i32 mine = row + i * 16 + half * 8 + i32(thread % WARP / 4), first = column + i32(thread % 4) * 2;
            // Unmasked columns of the row, relative to this lane's first column.
            i32 begin, end;
            if (BY_KEYS) {
                begin = BAND ? mine - sizes.band_end + 1 : 0;
                end = BAND ? mine - sizes.band_begin + 1 : i32(sizes.queries);
            } else {
                begin = BAND ? mine + sizes.band_begin : 0;
                end = BAND ? min(i32(sizes.keys), mine + sizes.band_end) : i32(sizes.keys);
            }
            begin -= first;
            end -= first;
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    bool within = (!BAND || j * 8 + e >= begin) && j * 8 + e < end;
                    s[i][j][half * 2 + e] = within ? s[i][j][half * 2 + e] : unseen;
                }
        }
}

// The keep mask of a warp's COLUMN_BLOCKS blocks of columns. Each draw yields the bits of four
// consecutive keys, so lanes share draws:
//
//   rows are queries   A pair of lanes has the same four keys. The even lane draws for the upper
//                      row, the odd lane for the lower row; they exchange the results.
//   rows are keys      The 16 lanes of four rows draw for 8 queries, one draw per lane: for the
//                      four upper rows and for the four rows 8 below.
template <bool BY_KEYS, int ROW_BLOCKS, int COLUMN_BLOCKS> struct KeepMask {
    static_assert(COLUMN_BLOCKS <= 8, "a word holds four bits of each block");
    static constexpr int WORDS = BY_KEYS ? 4 : 2;
    u32 of[ROW_BLOCKS][WORDS];

    // Whether element e of accumulator block j is kept.
    INLINE bool has(int i, int j, int e) const {
        return of[i][BY_KEYS ? e : e / 2] >> (j * 4 + (BY_KEYS ? 0 : e % 2)) & 1;
    }

    // Draws for rows from `row` and columns from `column`. `head` is a query head, counted over the
    // batch.
    INLINE void draw(const DropoutParams& dropout, const WeightIndex& numbers, u32 head, i32 row, i32 column) {
        u32 lane = read_tid_x() % WARP;
        if (MASK != 0 && dropout.threshold == 0) {
#pragma unroll
            for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
                for (int word = 0; word < WORDS; ++word) of[i][word] = ~0u;
            return;
        }
        DropoutRng rng = DropoutRng::of(dropout);
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i) {
            i32 query = BY_KEYS ? column + i32(lane % 8) : row + i * 16 + i32(lane % 2 * 8 + lane / 4);
            i32 key = BY_KEYS ? row + i * 16 + i32(lane % 16 / 8 * 8 + lane / 16 * 4) : column + i32(lane % 4 / 2 * 4);
            u64 number = numbers.at(head, query, key), step = BY_KEYS ? u64(numbers.keys) * 8 : 8;
            u32 drawn = 0;
#pragma unroll 2
            for (int j = 0; j < COLUMN_BLOCKS; ++j, number += step) drawn |= rng.four(number) << (j * 4);
            if constexpr (BY_KEYS) {
#pragma unroll
                for (u32 e = 0; e < 4; ++e)
                    of[i][e] =
                        __shfl_sync(ALL_LANES, drawn, lane & 16 | e / 2 * 8 | (lane % 4 * 2 + e % 2)) >> lane / 4 % 4;
            } else {
                u32 other = __shfl_xor_sync(ALL_LANES, drawn, 1);
#pragma unroll
                for (u32 half = 0; half < 2; ++half) of[i][half] = (lane % 2 == half ? drawn : other) >> lane % 2 * 2;
            }
        }
    }

    // Zeroes the dropped elements of a left operand.
    INLINE void apply(u32 (&a)[ROW_BLOCKS][COLUMN_BLOCKS / 2][4]) const {
#pragma unroll
        for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
            for (int j = 0; j < COLUMN_BLOCKS; ++j)
#pragma unroll
                for (int half = 0; half < 2; ++half)
                    a[i][j / 2][j % 2 * 2 + half] &=
                        (has(i, j, half * 2) ? 0xffffu : 0) | (has(i, j, half * 2 + 1) ? 0xffff0000u : 0);
    }
};

// Stores a warp's accumulators to rows of `to`, staged through the smem tile `tile` of ROWS rows.
// Only this warp uses the tile rows from `row`. The tile's first row is row `first_row` of `to`.
template <int ROWS, int WIDTH, int ROW_BLOCKS>
INLINE void write_rows(const float (&c)[ROW_BLOCKS][WIDTH / 8][4], u32 tile, u32 row, const View<Element>& to,
                       i32 first_row, i32 rows, u32 columns) {
    typedef Tile<ROWS, WIDTH> Staging;
    u32 lane = threadIdx.x % WARP;
    rows -= first_row;
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS; ++i)
#pragma unroll
        for (int j = 0; j < WIDTH / 8; ++j)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                u32 at = row + i * 16 + half * 8 + lane / 4;
                u32 pair = pack_half2(c[i][j][half * 2], c[i][j][half * 2 + 1], Element());
                st_shared(tile + Staging::at(at, j) + lane % 4 * 4, pair);
            }
    __syncwarp();
#pragma unroll
    for (int i = 0; i < ROW_BLOCKS * 16 * Staging::CHUNKS / WARP; ++i) {
        u32 number = lane + i * WARP, at = row + number / Staging::CHUNKS, chunk = number % Staging::CHUNKS;
        if (i32(at) >= rows || chunk * 8 >= columns) continue;
        // Inline PTX for one 16-byte access: NVRTC splits a plain assignment into four.
        st_global_v4(to.first + i64(first_row + i32(at)) * to.row + chunk * 8,
                     ld_shared_v4(tile + Staging::at(at, chunk)));
    }
}
