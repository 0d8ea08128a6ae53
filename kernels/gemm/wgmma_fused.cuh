// The fused epilogues of gemm/wgmma.cu: what follows the sum where another tensor is stored or read beside y.
//
// Each warp has 16 rows of every 64 rows of its consumer's tile, and takes them out by itself, strip by strip (16 rows x 128 bytes), through a ring of
// BUFFERS buffers in shared memory. Warps wait for one another only until all have loaded the bias of a tile:
//
//   sums ----> piece of 32 columns in registers ----> y ----> | strip | strip | strip | ---TMA---> y, z
//                                      ^                          ^
//                             z, residual <---- ldmatrix ---------+--------------------TMA---- z, residual (BUFFERS - 1 strips ahead, in the same buffers)
//
// Functions are worked out in registers, by as few instructions as they take: one warp of a consumer is all that a scheduler has beside the products, and
// these have time for some twenty instructions for each number. Every strip has code of its own, since sums have names alone.

#pragma once

#include "gemm/wgmma_loop.cuh"
#include "gemm/wgmma_tile.cuh"
#include "lib/activations.cuh"
#include "ptx/barrier.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma_ss.cuh"

#ifdef HOST_SHIM
#define ACTIVATED rounded_unary_silu(x)
#define ACTIVATION_GRAD rounded_grad_silu(z, d)
#define BOUND 40
#endif

#if EPILOGUE

// Columns that are worked out together.
constexpr int PIECE_N = 32;
constexpr int COLUMN_PAIRS = PIECE_N / 16;  // of eight columns, as stmatrix stores them
constexpr bool READS_BESIDE = EPILOGUE != PRE_ACTIVATION;
static_assert(BLOCKS <= 2, "the block of a strip is found by one comparison");

// Numbers of a lane that are worked out together.
constexpr int TOGETHER = 8;

template <class Half> INLINE void widen_pairs(float (&to)[TOGETHER], const u32 (&pairs)[TOGETHER / 2], Half type) {
#pragma unroll
    for (int i = 0; i < TOGETHER / 2; ++i) to[2 * i] = low_of(pairs[i], type), to[2 * i + 1] = high_of(pairs[i], type);
}
template <class Half> INLINE void round_pairs(u32 (&to)[TOGETHER / 2], const float (&x)[TOGETHER], Half type) {
#pragma unroll
    for (int i = 0; i < TOGETHER / 2; ++i) to[i] = pair_of(x[2 * i], x[2 * i + 1], type);
}

#if EPILOGUE == PRE_ACTIVATION
INLINE void activate(float (&x)[TOGETHER]) { ACTIVATED; }
#elif EPILOGUE == GRAD_OF_ACTIVATION
INLINE void multiply_by_grad(float (&d)[TOGETHER], const float (&z)[TOGETHER]) { ACTIVATION_GRAD; }
// A pair of pre-activations: beyond BOUND, if there is one, the gradient has reached its limits.
#ifdef BOUND
INLINE u32 bounded(u32 z, f16 type) {
    return clamp_nan_f16x2(z, pair_of(-float(BOUND), -float(BOUND), type), pair_of(BOUND, BOUND, type));
}
INLINE u32 bounded(u32 z, bf16 type) {
    return clamp_nan_bf16x2(z, pair_of(-float(BOUND), -float(BOUND), type), pair_of(BOUND, BOUND, type));
}
#else
template <class Half> INLINE u32 bounded(u32 z, Half) { return z; }
#endif
#endif

// The strips of a warp's rows of a tile: those that are inside y, row by row of blocks.
struct Strips {
    u32 row, column;  // of the first
    u32 across, blocks, count;

    INLINE Strips(const TensorMapProduct& p, const Work& work, u32 first_row)
        : row(first_row), column(work.tile.column) {
        across = min((p.n - column + SLAB_N - 1) / SLAB_N, u32(SLABS_ACROSS));
        blocks = row < p.m ? min((p.m - row + 63) / 64, u32(BLOCKS)) : 0;
        count = across * blocks;
    }
    INLINE u32 block_of(u32 number) const { return number >= across; }
    INLINE u32 row_of(u32 number) const { return row + block_of(number) * 64; }
    INLINE u32 column_of(u32 number) const { return column + (number - block_of(number) * across) * SLAB_N; }
};

typedef float2 ColumnSums[SLABS_ACROSS];  // a lane's, of the columns 2 l and the next of each slab

struct FusedOut {
    const TensorMapProduct& p;
    u32 shared;
    u32 buffer = 0, parity = 0;  // of the next strip; of PRE_ACTIVATION, whose strips take two: the first of them
    u32 turn = 0;                // which of both biases is the tile's
    // Of all consumers' warps. That of lane 0, so that the compiler knows it to be the same in a warp, and branches by it to be those of all lanes.
    u32 warp;

    INLINE FusedOut(const TensorMapProduct& parameters, u32 first)
        : p(parameters), shared(first), warp(__shfl_sync(ALL_LANES, threadIdx.x / WARP, 0)) {}
    // Read again where they are used, which takes no registers before.
    INLINE u32 lane() const { return read_tid_x() % WARP; }
    INLINE bool leads() const { return read_tid_x() % WARP == 0; }
    INLINE u32 consumer() const { return warp / (WARPGROUP / WARP); }
    INLINE u32 strip_at(u32 number) const { return shared + OUT + (warp * BUFFERS + number) * STRIP; }
    INLINE u32 barrier_of(u32 number) const { return turn_of(shared, CONSUMERS) + (warp * BUFFERS + number) * 8; }
    INLINE Strips strips_of(const Work& work, u32 row) const {
        return Strips(p, work, work.tile.row + row + warp % 4 * 16);
    }

    // ------------------------------------------------------------ what is read beside

    // Requests z or the residual of a strip, `ahead` strips from the next one on, into its buffer. By the leading lane.
    INLINE void load(const Strips& strips, u32 number, u32 ahead) const {
        if (number >= strips.count) return;
        u32 to = buffer + ahead;
        to = to < BUFFERS ? to : to - BUFFERS;
        mbarrier_arrive_expect_tx(barrier_of(to), STRIP);
        cp_async_bulk_tensor_4d(strip_at(to), p.z, strips.column_of(number), strips.row_of(number), 0, 0,
                                barrier_of(to));
    }
    // Before the tile's sums are added up, so that what takes long to arrive has arrived when they are.
    INLINE void begin(const Work& work, u32 row) {
        if (READS_BESIDE && leads()) {
            // But for the last strip of the tile before, all have been read.
            cp_async_bulk_wait_group_read<1>();
            Strips strips = strips_of(work, row);
#pragma unroll
            for (int number = 0; number < BUFFERS - 1; ++number) load(strips, number, number);
        }
        if (EPILOGUE != GRAD_OF_ACTIVATION) load_bias(work.tile.column);
    }

    // Nothing is left of the tile before.
    INLINE u32 add_up_beside(Sums&, Ring&, u32) const { return 0; }

    // ------------------------------------------------------------ bias

    INLINE u32 bias_at(u32 column) const {
        return shared + BESIDE + (warp / 4 * 2 + turn) * BIAS_BYTES + column * u32(sizeof(Output));
    }
    // That of the tile's columns, zeros where there is none; each thread of a consumer loads two. n is even: rows of y are whole packs.
    INLINE void load_bias(u32 first) {
        turn ^= 1;
        u32 column = 2 * (read_tid_x() % WARPGROUP);
        bool is_inside = p.bias && first + column < p.n;
        if (column < TILE_N)
            cp_async<2 * sizeof(Output)>(bias_at(column), p.bias + (is_inside ? first + column : 0), is_inside);
        cp_async_commit_group();
    }
    // All have loaded theirs. The other bias is that of the tile before, which nobody reads any longer behind this.
    INLINE void await_bias() const {
        cp_async_wait_group<0>();
        barrier_sync(1 + warp / 4, WARPGROUP);
    }
    template <class Half> INLINE float2 bias_of(u32 column, Half type) const {
        u32 pair = ld_shared(bias_at(column));
        return float2{low_of(pair, type), high_of(pair, type)};
    }
    INLINE float2 bias_of(u32 column, float) const { return ld_shared_v2_f32(bias_at(column)); }

    // ------------------------------------------------------------ pieces

    // Where a lane's 16 bytes are for stmatrix and ldmatrix: of columns 8 * chunk and, for the upper lanes, the eight behind.
    INLINE u32 chunk_at(u32 strip, u32 chunk) const {
        u32 lane = this->lane(), row = lane % 16;
        return strip + row * LINE + ((chunk + lane / 16) ^ (row & 7)) * 16;
    }

#if EPILOGUE == PRE_ACTIVATION
    // z = alpha * sum + bias, rounded, and y of it, of columns from the tile's `column` on, which are chunks of the strip from `chunk` on. Of a lane's sums those
    // of eight columns follow each other. Accesses stand before and behind all that is worked out: the compiler keeps their order.
    template <int FIRST>
    INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32 chunk, u32 column, u32) const {
        Output type{};
        u32 z[COLUMN_PAIRS][4], y[COLUMN_PAIRS][4];
        float2 bias[2 * COLUMN_PAIRS];
#pragma unroll
        for (int j = 0; j < 2 * COLUMN_PAIRS; ++j) bias[j] = bias_of(column + j * 8 + 2 * (lane() % 4), type);
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            float x[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                float2 of = bias[2 * pair + i / 4];
                x[i] = fmaf(p.alpha, sums[FIRST + 2 * pair + i / 4][i % 4], i % 2 ? of.y : of.x);
            }
            round_pairs(z[pair], x, type);
            widen_pairs(x, z[pair], type);
            activate(x);
            round_pairs(y[pair], x, type);
        }
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            stmatrix_x4(chunk_at(strip, chunk + 2 * pair), z[pair]);
            stmatrix_x4(chunk_at(strip + STRIP, chunk + 2 * pair), y[pair]);
        }
    }
    INLINE void store_boxes(u32 strip, u32 column, u32 row) const {
        cp_async_bulk_tensor_store_4d(p.z, column, row, 0, 0, strip);
        cp_async_bulk_tensor_store_4d(p.y, column, row, 0, 0, strip + STRIP);
    }
#else
    INLINE void store_boxes(u32 strip, u32 column, u32 row) const {
        cp_async_bulk_tensor_store_4d(p.y, column, row, 0, 0, strip);
    }
#endif

#if EPILOGUE == GRAD_OF_ACTIVATION
    // y of z, which is in the strip, and d = alpha * sum, rounded.
    template <int FIRST>
    INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32 chunk, u32, u32 row) const {
        Output type{};
        u32 z[COLUMN_PAIRS][4], y[COLUMN_PAIRS][4];
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) ldmatrix_x4(z[pair], chunk_at(strip, chunk + 2 * pair));
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            float d[TOGETHER], x[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) d[i] = p.alpha * sums[FIRST + 2 * pair + i / 4][i % 4];
            round_pairs(y[pair], d, type);
            widen_pairs(d, y[pair], type);
#pragma unroll
            for (int i = 0; i < 4; ++i) z[pair][i] = bounded(z[pair][i], type);
            widen_pairs(x, z[pair], type);
            multiply_by_grad(d, x);
            round_pairs(y[pair], d, type);
        }
        if (row + 16 > p.m) clear_rows_beyond(y, row);
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) stmatrix_x4(chunk_at(strip, chunk + 2 * pair), y[pair]);
    }
    // Rows that y does not have are not stored, but would be added up: zeros may have met an infinity.
    INLINE void clear_rows_beyond(u32 (&y)[COLUMN_PAIRS][4], u32 row) const {
        bool upper = row + lane() / 4 < p.m, lower = row + lane() / 4 + 8 < p.m;
#pragma unroll
        for (int w = 0; w < 4 * COLUMN_PAIRS; ++w)
            if (!(w % 2 ? lower : upper)) y[w / 4][w % 4] = 0;
    }
    // Adds the sums of the columns of the strip, of which a lane has two. (Formed by the tensor cores, as the transpose of y times ones, they would wait for
    // the other consumer's products: docs/kernels/matmul.md, What was tried.)
    INLINE void add_columns(u32 strip, float2& sums) const {
        if (!p.sums) return;
        Output type{};
        u32 lane = this->lane(), y[STRIP / LINE];
        __syncwarp();
#pragma unroll
        for (u32 row = 0; row < STRIP / LINE; ++row)
            y[row] = ld_shared(strip + row * LINE + (lane * 4 ^ (row & 7) * 16));
#pragma unroll
        for (u32 row = 0; row < STRIP / LINE; ++row) sums.x += low_of(y[row], type), sums.y += high_of(y[row], type);
    }
    // Those of the warp's rows of a tile, which are a row of the matrix of sums, also where there are no such rows.
    INLINE void store_column_sums(const Work& work, const ColumnSums& sums) const {
        if (!p.sums) return;
        u32 row = work.tile.row / TILE_M * SUMS_OF_TILE + warp % SUMS_OF_TILE;
#pragma unroll
        for (u32 slab = 0; slab < SLABS_ACROSS; ++slab) {
            u32 column = work.tile.column + slab * SLAB_N + lane() * 2;
            if (column < p.n) store_pair(p.sums + u64(row) * p.n + column, sums[slab]);
        }
    }
    static INLINE void store_pair(float* to, float2 pair) { ::store<float, 2>(to, {{pair.x, pair.y}}); }
#else
    INLINE void add_columns(u32, float2&) const {}
    INLINE void store_column_sums(const Work&, const ColumnSums&) const {}
#endif

#if EPILOGUE == RESIDUAL
    // y = alpha * sum + bias + residual, which is in the strip.
    template <int FIRST> INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32, u32 column, u32) const {
        u32 lane = this->lane(), row = lane / 4, first = strip + row * LINE + lane % 2 * 8;
#pragma unroll
        for (int j = 0; j < PIECE_N / 8; ++j) {
            const float (&c)[4] = sums[FIRST + j];
            float2 bias = bias_of(column + j * 8 + 2 * (lane % 4), Output());
            u32 at = first + ((2 * j + lane % 4 / 2) ^ row) * 16;
            float2 above = ld_shared_v2_f32(at), below = ld_shared_v2_f32(at + 8 * LINE);
            st_shared_v2_f32(at, fmaf(p.alpha, c[0], bias.x) + above.x, fmaf(p.alpha, c[1], bias.y) + above.y);
            st_shared_v2_f32(at + 8 * LINE, fmaf(p.alpha, c[2], bias.x) + below.x,
                             fmaf(p.alpha, c[3], bias.y) + below.y);
        }
    }
#endif

    // ------------------------------------------------------------ strips

    // Until the next strip's buffer is full of what is read beside, or free.
    INLINE void await_buffer() {
        if (READS_BESIDE) mbarrier_wait_parity(barrier_of(buffer), parity);
        else {
            if (leads()) cp_async_bulk_wait_group_read<1>();
            __syncwarp();
        }
    }
    INLINE void advance() {
        constexpr int STEP = READS_BESIDE ? 1 : 2;
        buffer = buffer == BUFFERS - STEP ? 0 : buffer + STEP;
        parity ^= buffer == 0;
    }
    INLINE void store(Sums& sums, const Work& work, u32 row, bool) {
        if (EPILOGUE != GRAD_OF_ACTIVATION) await_bias();
        Strips strips = strips_of(work, row);
        ColumnSums column_sums = {};
        u32 number = 0;
        store_strips<0>(sums, strips, number, column_sums);
        store_column_sums(work, column_sums);
    }
    // Those from number NUMBER of a whole tile on; `number` counts the ones that are inside y.
    template <int NUMBER>
    INLINE void store_strips(Sums& sums, const Strips& strips, u32& number, ColumnSums& column_sums) {
        if constexpr (NUMBER < BLOCKS * SLABS_ACROSS) {
            constexpr u32 BLOCK = NUMBER / SLABS_ACROSS, SLAB_INDEX = NUMBER % SLABS_ACROSS;
            if (SLAB_INDEX < strips.across && BLOCK < strips.blocks) {
                store_strip<SLAB_INDEX>(sums[BLOCK], strips, number, column_sums[SLAB_INDEX]);
                ++number;
            }
            store_strips<NUMBER + 1>(sums, strips, number, column_sums);
        }
    }
    template <int SLAB_INDEX>
    INLINE void store_strip(float (&sums)[TILE_N / 8][4], const Strips& strips, u32 number, float2& column_sums) {
        await_buffer();
        u32 strip = strip_at(buffer);
        finish_pieces<SLAB_INDEX * SLAB_N, 0>(sums, strip, strips.row_of(number));
        add_columns(strip, column_sums);
        fence_proxy_async_shared();
        __syncwarp();
        if (leads()) {
            store_boxes(strip, strips.column_of(number), strips.row_of(number));
            cp_async_bulk_commit_group();
            if (READS_BESIDE) {
                // The strip before has been read: its buffer is for the one that comes as many strips later as there are others.
                cp_async_bulk_wait_group_read<1>();
                load(strips, number + BUFFERS - 1, BUFFERS - 1);
            }
        }
        advance();
    }
    template <int COLUMN, int DONE> INLINE void finish_pieces(float (&sums)[TILE_N / 8][4], u32 strip, u32 row) const {
        if constexpr (DONE < SLAB_N) {
            finish<(COLUMN + DONE) / 8>(sums, strip, DONE / 8, COLUMN + DONE, row);
            finish_pieces<COLUMN, DONE + PIECE_N>(sums, strip, row);
        }
    }
};

#endif
