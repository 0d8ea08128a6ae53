// The fused epilogues of gemm/wgmma.cu, which store or load another tensor besides y.
//
// Each warp has 16 rows of every 64 rows of its consumer's tile. It stores them independently of
// the other warps, strip by strip (16 rows x 128 bytes), through a ring of BUFFERS buffers in
// shared memory. The warps of a consumer synchronize only until all have loaded the bias of a tile:
//
//   accumulators ---> piece of 32 columns ---> y ---> | strip | strip | strip | ---TMA---> y, z
//                     in registers                               ^
//                          ^                                     |
//                          +--- z, residual <--- ldmatrix -------+-------TMA---- z, residual
//                                                        (BUFFERS - 1 strips ahead, same buffers)
//
// Functions are computed in registers, in as few instructions as possible: during the other
// consumer's WGMMAs, each warp scheduler has only one warp that runs the epilogue, and the WGMMAs
// take as long as about twenty instructions for each element. Every strip has separate code, since
// accumulators are registers, which cannot be indexed.

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

// Columns that are computed together.
constexpr int PIECE_N = 32;
constexpr int COLUMN_PAIRS = PIECE_N / 16;  // pairs of eight columns, as stmatrix stores them
constexpr bool LOADS_SOURCE = EPILOGUE != PRE_ACTIVATION;
static_assert(ATOMS_M <= 2, "the WGMMA of a strip is found by one comparison");

// Values of a lane that are computed together.
constexpr int VALUES_AT_ONCE = 8;

template <class Half>
INLINE void widen_pairs(float (&to)[VALUES_AT_ONCE], const u32 (&pairs)[VALUES_AT_ONCE / 2], Half type) {
#pragma unroll
    for (int i = 0; i < VALUES_AT_ONCE / 2; ++i)
        to[2 * i] = low_of(pairs[i], type), to[2 * i + 1] = high_of(pairs[i], type);
}
template <class Half>
INLINE void round_pairs(u32 (&to)[VALUES_AT_ONCE / 2], const float (&x)[VALUES_AT_ONCE], Half type) {
#pragma unroll
    for (int i = 0; i < VALUES_AT_ONCE / 2; ++i) to[i] = pack_half2(x[2 * i], x[2 * i + 1], type);
}

#if EPILOGUE == PRE_ACTIVATION
INLINE void activate(float (&x)[VALUES_AT_ONCE]) { ACTIVATED; }
#elif EPILOGUE == GRAD_OF_ACTIVATION
INLINE void multiply_by_grad(float (&d)[VALUES_AT_ONCE], const float (&z)[VALUES_AT_ONCE]) { ACTIVATION_GRAD; }
// Clamps a pair of pre-activations to BOUND, if defined: beyond it the gradient has reached its
// limits.
#ifdef BOUND
INLINE u32 bounded(u32 z, f16 type) {
    return clamp_nan_f16x2(z, pack_half2(-float(BOUND), -float(BOUND), type), pack_half2(BOUND, BOUND, type));
}
INLINE u32 bounded(u32 z, bf16 type) {
    return clamp_nan_bf16x2(z, pack_half2(-float(BOUND), -float(BOUND), type), pack_half2(BOUND, BOUND, type));
}
#else
template <class Half> INLINE u32 bounded(u32 z, Half) { return z; }
#endif
#endif

// The strips of a warp's rows of a tile that are inside y: those of its first WGMMA's 64 rows, then
// those of the second one's.
struct Strips {
    u32 row, column;           // of the first strip
    u32 across, atoms, count;  // strips side by side, WGMMAs with rows in y, all strips

    INLINE Strips(const TensorMapProduct& p, const WorkTile& work, u32 first_row)
        : row(first_row), column(work.tile.column) {
        across = min((p.n - column + SLAB_COLUMNS - 1) / SLAB_COLUMNS, u32(SLABS_ACROSS));
        atoms = row < p.m ? min((p.m - row + 63) / 64, u32(ATOMS_M)) : 0;
        count = across * atoms;
    }
    INLINE u32 atom_of(u32 strip) const { return strip >= across; }
    INLINE u32 row_of(u32 strip) const { return row + atom_of(strip) * 64; }
    INLINE u32 column_of(u32 strip) const { return column + (strip - atom_of(strip) * across) * SLAB_COLUMNS; }
};

typedef float2 ColumnSums[SLABS_ACROSS];  // of a lane: columns 2 l and 2 l + 1 of each slab

struct FusedOut {
    const TensorMapProduct& p;
    u32 shared;
    u32 buffer = 0, parity = 0;  // of the next strip (PRE_ACTIVATION: the first of its two)
    u32 turn = 0;                // index of the tile's bias buffer, of two
    // Index among all consumers' warps. From lane 0, so that the compiler knows that it, and every
    // branch on it, is warp-uniform.
    u32 warp;

    INLINE FusedOut(const TensorMapProduct& parameters, u32 first)
        : p(parameters), shared(first), warp(__shfl_sync(ALL_LANES, threadIdx.x / WARP, 0)) {}
    // Read from %tid.x at each use, so that they occupy no registers in between.
    INLINE u32 lane() const { return read_tid_x() % WARP; }
    INLINE bool leads() const { return read_tid_x() % WARP == 0; }
    INLINE u32 consumer() const { return warp / (WARPGROUP / WARP); }
    INLINE u32 strip_at(u32 number) const { return shared + STAGING_OFFSET + (warp * BUFFERS + number) * STRIP_BYTES; }
    INLINE u32 barrier_of(u32 number) const { return turn_barrier(shared, CONSUMERS) + (warp * BUFFERS + number) * 8; }
    INLINE Strips strips_of(const WorkTile& work, u32 row) const {
        return Strips(p, work, work.tile.row + row + warp % 4 * 16);
    }

    // ------------------------------------------------------------ z or residual

    // Issues the load of z or of the residual of strip `number`, into the buffer `ahead` after that
    // of the next strip. Called by the leading lane.
    INLINE void load(const Strips& strips, u32 number, u32 ahead) const {
        if (number >= strips.count) return;
        u32 to = buffer + ahead;
        to = to < BUFFERS ? to : to - BUFFERS;
        mbarrier_arrive_expect_tx(barrier_of(to), STRIP_BYTES);
        cp_async_bulk_tensor_4d(strip_at(to), p.z, strips.column_of(number), strips.row_of(number), 0, 0,
                                barrier_of(to));
    }
    // Called before the tile's main loop, which hides the latency of these loads.
    INLINE void begin(const WorkTile& work, u32 row) {
        if (LOADS_SOURCE && leads()) {
            // All stores except that of the last strip of the previous tile have read their
            // buffers.
            cp_async_bulk_wait_group_read<1>();
            Strips strips = strips_of(work, row);
#pragma unroll
            for (int number = 0; number < BUFFERS - 1; ++number) load(strips, number, number);
        }
        if (EPILOGUE != GRAD_OF_ACTIVATION) load_bias(work.tile.column);
    }

    // The previous tile has no pending slabs.
    INLINE u32 store_pending_slabs(Sums&, Ring&, u32) const { return 0; }

    // ------------------------------------------------------------ bias

    INLINE u32 bias_at(u32 column) const {
        return shared + BIAS_OFFSET + (warp / 4 * 2 + turn) * BIAS_BYTES + column * u32(sizeof(Output));
    }
    // Loads the bias of the tile's columns, or zeros if there is none. Each thread of a consumer
    // loads two elements. n is even: rows of y consist of whole packs.
    INLINE void load_bias(u32 first) {
        turn ^= 1;
        u32 column = 2 * (read_tid_x() % WARPGROUP);
        bool is_inside = p.bias && first + column < p.n;
        if (column < TILE_N)
            cp_async<2 * sizeof(Output)>(bias_at(column), p.bias + (is_inside ? first + column : 0), is_inside);
        cp_async_commit_group();
    }
    // Waits until all threads of the consumer have loaded their elements. After that no thread
    // reads the other bias buffer, which is the previous tile's.
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

    // The address of a lane's 16 bytes for stmatrix and ldmatrix: eight columns from 8 * chunk on,
    // and for the upper 16 lanes the next eight.
    INLINE u32 chunk_at(u32 strip, u32 chunk) const {
        u32 lane = this->lane(), row = lane % 16;
        return strip + row * LINE_BYTES + ((chunk + lane / 16) ^ (row & 7)) * 16;
    }

#if EPILOGUE == PRE_ACTIVATION
    // Computes z = alpha * sum + bias, rounded, and y from it, for columns from the tile's `column`
    // on. They are chunks of the strip from `chunk` on. A lane's accumulators of eight columns are
    // consecutive. All loads come before the arithmetic and all stores after it: the compiler does
    // not reorder accesses.
    template <int FIRST>
    INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32 chunk, u32 column, u32) const {
        Output type{};
        u32 z[COLUMN_PAIRS][4], y[COLUMN_PAIRS][4];
        float2 bias[2 * COLUMN_PAIRS];
#pragma unroll
        for (int j = 0; j < 2 * COLUMN_PAIRS; ++j) bias[j] = bias_of(column + j * 8 + 2 * (lane() % 4), type);
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            float x[VALUES_AT_ONCE];
#pragma unroll
            for (int i = 0; i < VALUES_AT_ONCE; ++i) {
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
            stmatrix_x4(chunk_at(strip + STRIP_BYTES, chunk + 2 * pair), y[pair]);
        }
    }
    INLINE void store_boxes(u32 strip, u32 column, u32 row) const {
        cp_async_bulk_tensor_store_4d(p.z, column, row, 0, 0, strip);
        cp_async_bulk_tensor_store_4d(p.y, column, row, 0, 0, strip + STRIP_BYTES);
    }
#else
    INLINE void store_boxes(u32 strip, u32 column, u32 row) const {
        cp_async_bulk_tensor_store_4d(p.y, column, row, 0, 0, strip);
    }
#endif

#if EPILOGUE == GRAD_OF_ACTIVATION
    // Computes y from z, which is in the strip, and from d = alpha * sum, rounded.
    template <int FIRST>
    INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32 chunk, u32, u32 row) const {
        Output type{};
        u32 z[COLUMN_PAIRS][4], y[COLUMN_PAIRS][4];
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) ldmatrix_x4(z[pair], chunk_at(strip, chunk + 2 * pair));
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            float d[VALUES_AT_ONCE], x[VALUES_AT_ONCE];
#pragma unroll
            for (int i = 0; i < VALUES_AT_ONCE; ++i) d[i] = p.alpha * sums[FIRST + 2 * pair + i / 4][i % 4];
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
    // Sets rows outside y to 0. They are not stored, but would enter the column sums: they may be
    // NaN, a zero times an infinity.
    INLINE void clear_rows_beyond(u32 (&y)[COLUMN_PAIRS][4], u32 row) const {
        bool upper = row + lane() / 4 < p.m, lower = row + lane() / 4 + 8 < p.m;
#pragma unroll
        for (int w = 0; w < 4 * COLUMN_PAIRS; ++w)
            if (!(w % 2 ? lower : upper)) y[w / 4][w % 4] = 0;
    }
    // Adds the column sums of the strip; a lane has two columns. (On tensor cores, as the transpose
    // of y times ones, they would wait for the other consumer's WGMMAs: docs/kernels/matmul.md,
    // What was tried.)
    INLINE void add_columns(u32 strip, float2& sums) const {
        if (!p.sums) return;
        Output type{};
        u32 lane = this->lane(), y[STRIP_BYTES / LINE_BYTES];
        __syncwarp();
#pragma unroll
        for (u32 row = 0; row < STRIP_BYTES / LINE_BYTES; ++row)
            y[row] = ld_shared(strip + row * LINE_BYTES + (lane * 4 ^ (row & 7) * 16));
#pragma unroll
        for (u32 row = 0; row < STRIP_BYTES / LINE_BYTES; ++row)
            sums.x += low_of(y[row], type), sums.y += high_of(y[row], type);
    }
    // Stores the column sums of the warp's rows of a tile as one row of the matrix of sums, also if
    // these rows are outside y.
    INLINE void store_column_sums(const WorkTile& work, const ColumnSums& sums) const {
        if (!p.sums) return;
        u32 row = work.tile.row / TILE_M * SUMS_OF_TILE + warp % SUMS_OF_TILE;
#pragma unroll
        for (u32 slab = 0; slab < SLABS_ACROSS; ++slab) {
            u32 column = work.tile.column + slab * SLAB_COLUMNS + lane() * 2;
            if (column < p.n) store_pair(p.sums + u64(row) * p.n + column, sums[slab]);
        }
    }
    static INLINE void store_pair(float* to, float2 pair) { ::store<float, 2>(to, {{pair.x, pair.y}}); }
#else
    INLINE void add_columns(u32, float2&) const {}
    INLINE void store_column_sums(const WorkTile&, const ColumnSums&) const {}
#endif

#if EPILOGUE == RESIDUAL
    // Computes y = alpha * sum + bias + residual. The residual is in the strip.
    template <int FIRST> INLINE void finish(const float (&sums)[TILE_N / 8][4], u32 strip, u32, u32 column, u32) const {
        u32 lane = this->lane(), row = lane / 4, first = strip + row * LINE_BYTES + lane % 2 * 8;
#pragma unroll
        for (int j = 0; j < PIECE_N / 8; ++j) {
            const float (&c)[4] = sums[FIRST + j];
            float2 bias = bias_of(column + j * 8 + 2 * (lane % 4), Output());
            u32 at = first + ((2 * j + lane % 4 / 2) ^ row) * 16;
            float2 above = ld_shared_v2_f32(at), below = ld_shared_v2_f32(at + 8 * LINE_BYTES);
            st_shared_v2_f32(at, fmaf(p.alpha, c[0], bias.x) + above.x, fmaf(p.alpha, c[1], bias.y) + above.y);
            st_shared_v2_f32(at + 8 * LINE_BYTES, fmaf(p.alpha, c[2], bias.x) + below.x,
                             fmaf(p.alpha, c[3], bias.y) + below.y);
        }
    }
#endif

    // ------------------------------------------------------------ strips

    // Waits until the next strip's buffer contains z or the residual, or, without these, is free.
    INLINE void await_buffer() {
        if (LOADS_SOURCE) mbarrier_wait_parity(barrier_of(buffer), parity);
        else {
            if (leads()) cp_async_bulk_wait_group_read<1>();
            __syncwarp();
        }
    }
    INLINE void advance() {
        constexpr int STEP = LOADS_SOURCE ? 1 : 2;
        buffer = buffer == BUFFERS - STEP ? 0 : buffer + STEP;
        parity ^= buffer == 0;
    }
    INLINE void store(Sums& sums, const WorkTile& work, u32 row, bool) {
        if (EPILOGUE != GRAD_OF_ACTIVATION) await_bias();
        Strips strips = strips_of(work, row);
        ColumnSums column_sums = {};
        u32 number = 0;
        store_strips<0>(sums, strips, number, column_sums);
        store_column_sums(work, column_sums);
    }
    // Stores the strips from NUMBER of a whole tile on. `number` counts the strips that are inside
    // y.
    template <int NUMBER>
    INLINE void store_strips(Sums& sums, const Strips& strips, u32& number, ColumnSums& column_sums) {
        if constexpr (NUMBER < ATOMS_M * SLABS_ACROSS) {
            constexpr u32 ATOM = NUMBER / SLABS_ACROSS, SLAB_INDEX = NUMBER % SLABS_ACROSS;
            if (SLAB_INDEX < strips.across && ATOM < strips.atoms) {
                store_strip<SLAB_INDEX>(sums[ATOM], strips, number, column_sums[SLAB_INDEX]);
                ++number;
            }
            store_strips<NUMBER + 1>(sums, strips, number, column_sums);
        }
    }
    template <int SLAB_INDEX>
    INLINE void store_strip(float (&sums)[TILE_N / 8][4], const Strips& strips, u32 number, float2& column_sums) {
        await_buffer();
        u32 strip = strip_at(buffer);
        finish_pieces<SLAB_INDEX * SLAB_COLUMNS, 0>(sums, strip, strips.row_of(number));
        add_columns(strip, column_sums);
        fence_proxy_async_shared();
        __syncwarp();
        if (leads()) {
            store_boxes(strip, strips.column_of(number), strips.row_of(number));
            cp_async_bulk_commit_group();
            if (LOADS_SOURCE) {
                // The store of the previous strip has read its buffer, which is free for the strip
                // BUFFERS - 1 after this one.
                cp_async_bulk_wait_group_read<1>();
                load(strips, number + BUFFERS - 1, BUFFERS - 1);
            }
        }
        advance();
    }
    template <int COLUMN, int DONE> INLINE void finish_pieces(float (&sums)[TILE_N / 8][4], u32 strip, u32 row) const {
        if constexpr (DONE < SLAB_COLUMNS) {
            finish<(COLUMN + DONE) / 8>(sums, strip, DONE / 8, COLUMN + DONE, row);
            finish_pieces<COLUMN, DONE + PIECE_N>(sums, strip, row);
        }
    }
};

#endif
