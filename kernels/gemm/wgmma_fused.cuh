// The fused epilogues of gemm/wgmma.cu: what follows the sum where another tensor is stored or read beside y.
//
// Each warp has 16 rows of every 64 rows of its consumer's tile, and takes them out by itself, strip by strip (16 rows x 128 bytes), through a ring of
// BUFFERS buffers in shared memory. Warps wait for one another at the beginning of a tile only:
//
//   sums ----> piece of 32 columns in registers ----> y ----> | strip | strip | strip | ---TMA---> y, z
//                                      ^                          ^
//                             z, residual <---- ldmatrix ---------+--------------------TMA---- z, residual (BUFFERS - 1 strips ahead, in the same buffers)
//
// Functions are worked out in registers, with 16 numbers of a lane under way at a time: one warp of a consumer is all that a scheduler has beside the
// products. A piece has code of its own only for its way out of the sums, which have names alone; what follows is one piece of code, since all of it unrolled
// would be longer than the cache of instructions.

#pragma once

#include "gemm/wgmma_tile.cuh"
#include "lib/activations.cuh"
#include "ptx/barrier.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mbarrier.cuh"
#include "ptx/memory.cuh"
#include "ptx/stmatrix.cuh"
#include "ptx/wgmma_ss.cuh"

#ifdef HOST_SHIM
#define ACTIVATED x
#define ACTIVATION_GRAD d
#endif

#if EPILOGUE

// Columns: of more, gradients do not fit into the registers beside 192 sums.
constexpr int PIECE_N = EPILOGUE == GRAD_OF_ACTIVATION ? 16 : 32;
constexpr int COLUMN_PAIRS = PIECE_N / 16;  // of eight columns, as stmatrix stores them
constexpr int PIECES_ACROSS = TILE_N / PIECE_N;
constexpr int PIECES_OF_STRIP = SLAB_N / PIECE_N;
constexpr bool READS_BESIDE = EPILOGUE != PRE_ACTIVATION;
static_assert(BLOCKS <= 2, "the block of a strip is found by one comparison");

// A lane's sums of a piece, as in Sums.
typedef float Piece[PIECE_N / 8][4];

template <int FIRST, int END> INLINE void select_piece(Piece& to, const Sums& sums, int piece) {
    if constexpr (END - FIRST == 1) {
#pragma unroll
        for (int j = 0; j < PIECE_N / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e)
                to[j][e] = sums[FIRST / PIECES_ACROSS][FIRST % PIECES_ACROSS * (PIECE_N / 8) + j][e];
    } else {
        constexpr int MIDDLE = (FIRST + END) / 2;
        if (piece < MIDDLE) select_piece<FIRST, MIDDLE>(to, sums, piece);
        else select_piece<MIDDLE, END>(to, sums, piece);
    }
}

#if EPILOGUE == PRE_ACTIVATION
INLINE float activated(float x) { return ACTIVATED; }
#elif EPILOGUE == GRAD_OF_ACTIVATION
INLINE float passed(float d, float z) { return ACTIVATION_GRAD; }
#endif

// The strips of a warp's rows of a tile: those that are inside y, row by row of blocks.
struct Strips {
    u32 row, column;  // of the first
    u32 across, count;

    INLINE Strips(const TensorMapProduct& p, const Work& work, u32 first_row)
        : row(first_row), column(work.tile.column) {
        across = min((p.n - column + SLAB_N - 1) / SLAB_N, u32(SLABS_ACROSS));
        u32 blocks = row < p.m ? min((p.m - row + 63) / 64, u32(BLOCKS)) : 0;
        count = across * blocks;
    }
    INLINE u32 block_of(u32 number) const { return number >= across; }
    INLINE u32 row_of(u32 number) const { return row + block_of(number) * 64; }
    INLINE u32 slab_of(u32 number) const { return number - block_of(number) * across; }
    INLINE u32 column_of(u32 number) const { return column + slab_of(number) * SLAB_N; }
    INLINE int piece_of(u32 number) const {
        return block_of(number) * PIECES_ACROSS + slab_of(number) * PIECES_OF_STRIP;
    }
};

struct FusedOut {
    const TensorMapProduct& p;
    u32 shared;
    u32 buffer = 0, parity = 0;  // of the next strip; of PRE_ACTIVATION, whose strips take two: the first of them
    float2 bias = {0, 0};        // of columns 2 * thread and the next of the tile

    INLINE FusedOut(const TensorMapProduct& parameters, u32 first) : p(parameters), shared(first) {}
    // Read again where they are used, which takes no registers before.
    INLINE u32 lane() const { return read_tid_x() % WARP; }
    INLINE u32 warp() const { return read_tid_x() / WARP; }  // of all consumers
    INLINE u32 thread() const { return read_tid_x() % WARPGROUP; }
    INLINE bool leads() const { return read_tid_x() % WARP == 0; }
    INLINE u32 consumer() const { return read_tid_x() / WARPGROUP; }
    INLINE void meet() const { barrier_sync(1 + consumer(), WARPGROUP); }
    INLINE u32 strip_at(u32 number) const { return shared + OUT + (warp() * BUFFERS + number) * STRIP; }
    INLINE u32 barrier_of(u32 number) const { return turn_of(shared, CONSUMERS) + (warp() * BUFFERS + number) * 8; }
    INLINE Strips strips_of(const Work& work, u32 row) const {
        return Strips(p, work, work.tile.row + row + warp() % 4 * 16);
    }

    // ------------------------------------------------------------ what is read beside

    // z or the residual of a strip, `ahead` strips from the next one on, on its way into its buffer. Of the leading lane.
    INLINE void load(const Strips& strips, u32 number, u32 ahead) const {
        if (number >= strips.count) return;
        u32 to = buffer + ahead;
        to = to < BUFFERS ? to : to - BUFFERS;
        mbarrier_arrive_expect_tx(barrier_of(to), STRIP);
        cp_async_bulk_tensor_4d(strip_at(to), p.z, strips.column_of(number), strips.row_of(number), 0, 0,
                                barrier_of(to));
    }
    // Before the tile's sums are added up: what takes long to come is under way meanwhile.
    INLINE void begin(const Work& work, u32 row) {
        if (READS_BESIDE && leads()) {
            // But for the last strip of the tile before, all have been read.
            cp_async_bulk_wait_group_read<1>();
            Strips strips = strips_of(work, row);
#pragma unroll
            for (int number = 0; number < BUFFERS - 1; ++number) load(strips, number, number);
        }
        u32 column = work.tile.column + 2 * thread();
        bias = float2{0, 0};
        if (EPILOGUE == GRAD_OF_ACTIVATION || !p.bias || 2 * thread() >= TILE_N || column >= p.n) return;
        // n is even: rows of y are whole packs.
        Pack<Output, 2> pair = load_pair(p.bias + column);
        bias = float2{widen(pair.of[0]), widen(pair.of[1])};
    }
    static INLINE Pack<Output, 2> load_pair(const Output* from) { return ::load<Output, 2>(from); }

    // ------------------------------------------------------------ bias

    INLINE u32 bias_at(u32 column) const {
        return shared + BESIDE + (consumer() * TILE_N + column) * u32(sizeof(Output));
    }
    template <class Half> INLINE void put_bias(Half type) const {
        st_shared(bias_at(2 * thread()), pair_of(bias.x, bias.y, type));
    }
    INLINE void put_bias(float) const { st_shared_v2_f32(bias_at(2 * thread()), bias.x, bias.y); }
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
    // z = alpha * sum + bias, rounded, and y of it. `column` counts in the tile, `chunk` in the strip. Accesses stand before and behind all that is worked out:
    // the compiler keeps their order.
    INLINE void finish(const Piece& sums, u32 strip, u32 chunk, u32 column, u32) const {
        Output type{};
        u32 z[COLUMN_PAIRS][4], y[COLUMN_PAIRS][4];
        float2 bias[2 * COLUMN_PAIRS];
#pragma unroll
        for (int j = 0; j < 2 * COLUMN_PAIRS; ++j) bias[j] = bias_of(column + j * 8 + 2 * (lane() % 4), type);
#pragma unroll
        for (int w = 0; w < 4 * COLUMN_PAIRS; ++w) {
            const float (&c)[4] = sums[w / 2];
            u32& pair = z[w / 4][w % 4];
            pair = pair_of(p.alpha * c[w % 2 * 2] + bias[w / 2].x, p.alpha * c[w % 2 * 2 + 1] + bias[w / 2].y, type);
            y[w / 4][w % 4] = pair_of(activated(low_of(pair, type)), activated(high_of(pair, type)), type);
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
    INLINE void finish(const Piece& sums, u32 strip, u32 chunk, u32 column, u32 row) const {
        Output type{};
        u32 y[COLUMN_PAIRS][4];
#pragma unroll
        for (int pair = 0; pair < COLUMN_PAIRS; ++pair) {
            u32 z[4], at = chunk_at(strip, chunk + 2 * pair);
            ldmatrix_x4(z, at);
#pragma unroll
            for (int w = 0; w < 4; ++w) {
                const float (&c)[4] = sums[2 * pair + w / 2];
                u32 d = pair_of(p.alpha * c[w % 2 * 2], p.alpha * c[w % 2 * 2 + 1], type);
                y[pair][w] = pair_of(passed(low_of(d, type), low_of(z[w], type)),
                                     passed(high_of(d, type), high_of(z[w], type)), type);
            }
            stmatrix_x4(at, y[pair]);
        }
        if (p.column_sums) add_columns(y, column, row);
    }
    // The sums of the warp's 16 rows, where they wait for those of the other warps: a lane ends up with one column. Zeros beyond the last row may have met an
    // infinity.
    INLINE void add_columns(const u32 (&y)[COLUMN_PAIRS][4], u32 column, u32 row) const {
        constexpr int COLUMNS = PIECE_N / 4;  // of a lane
        Output type{};
        u32 lane = this->lane();
        bool upper = row + lane / 4 < p.m, lower = row + lane / 4 + 8 < p.m;
        float sums[COLUMNS];  // of columns 8 j + 2 (l % 4) and the next
#pragma unroll
        for (int j = 0; j < PIECE_N / 8; ++j) {
            u32 above = y[j / 2][j % 2 * 2], below = y[j / 2][j % 2 * 2 + 1];
            sums[2 * j] = (upper ? low_of(above, type) : 0.0f) + (lower ? low_of(below, type) : 0.0f);
            sums[2 * j + 1] = (upper ? high_of(above, type) : 0.0f) + (lower ? high_of(below, type) : 0.0f);
        }
        // Halves are exchanged among the lanes that have the same columns: each keeps one, and adds the other lane's.
#pragma unroll
        for (int bit = 16, half = COLUMNS / 2; bit >= 4; bit /= 2, half /= 2) {
            bool keeps_upper = lane & bit;
#pragma unroll
            for (int c = 0; c < half; ++c) {
                float sent = keeps_upper ? sums[c] : sums[c + half];
                sums[c] = (keeps_upper ? sums[c + half] : sums[c]) + __shfl_xor_sync(ALL_LANES, sent, bit);
            }
            if (half == 0) sums[0] += __shfl_xor_sync(ALL_LANES, sums[0], bit);
        }
        u32 kept = lane / 4 * COLUMNS / 8;
        st_shared(sums_at(row, warp() % 4, column + kept / 2 * 8 + lane % 4 * 2 + kept % 2), __float_as_uint(sums[0]));
    }
    INLINE u32 sums_at(u32 row, u32 warp, u32 column) const {
        u32 block = BLOCKS == 1 ? 0 : row / 64 % 2;
        return shared + BESIDE + (((consumer() * BLOCKS + block) * 4 + warp) * TILE_N + column) * 4;
    }
    // Those of 64 rows: of the warps in their order.
    INLINE void store_column_sums(const Strips& strips) const {
        if (!p.column_sums) return;
        meet();
        u32 first_row = strips.row - warp() % 4 * 16;
#pragma unroll 1
        for (u32 column = thread(); column < TILE_N && strips.column + column < p.n; column += WARPGROUP)
#pragma unroll 1
            for (u32 block = 0; block < BLOCKS; ++block) {
                u32 row = first_row + block * 64;
                if (row >= p.m) break;
                float sum = 0;
#pragma unroll
                for (u32 warp = 0; warp < 4; ++warp)
                    if (row + warp * 16 < p.m) sum += __uint_as_float(ld_shared(sums_at(row, warp, column)));
                p.column_sums[u64(row / 64) * p.n + strips.column + column] = sum;
            }
    }
#else
    INLINE void store_column_sums(const Strips&) const {}
#endif

#if EPILOGUE == RESIDUAL
    // y = alpha * sum + bias + residual, which is in the strip.
    INLINE void finish(const Piece& sums, u32 strip, u32, u32 column, u32) const {
        u32 lane = this->lane(), row = lane / 4, first = strip + row * LINE + lane % 2 * 8;
#pragma unroll
        for (int j = 0; j < PIECE_N / 8; ++j) {
            const float (&c)[4] = sums[j];
            float2 bias = bias_of(column + j * 8 + 2 * (lane % 4), Output());
            u32 at = first + ((2 * j + lane % 4 / 2) ^ row) * 16;
            float2 above = ld_shared_v2_f32(at), below = ld_shared_v2_f32(at + 8 * LINE);
            st_shared_v2_f32(at, p.alpha * c[0] + bias.x + above.x, p.alpha * c[1] + bias.y + above.y);
            st_shared_v2_f32(at + 8 * LINE, p.alpha * c[2] + bias.x + below.x, p.alpha * c[3] + bias.y + below.y);
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
    INLINE void store(Sums& sums, const Work& work, u32 row) {
        // What the tile before has left beside has been read by all.
        meet();
        if (EPILOGUE != GRAD_OF_ACTIVATION) {
            if (2 * thread() < TILE_N) put_bias(Output());
            meet();
        }
        Strips strips = strips_of(work, row);
#pragma unroll 1
        for (u32 number = 0; number < strips.count; ++number) {
            await_buffer();
            u32 strip = strip_at(buffer);
#pragma unroll 1
            for (int half = 0; half < PIECES_OF_STRIP; ++half) {
                Piece piece;
                select_piece<0, BLOCKS * PIECES_ACROSS>(piece, sums, strips.piece_of(number) + half);
                finish(piece, strip, half * (PIECE_N / 8), strips.slab_of(number) * SLAB_N + half * PIECE_N,
                       strips.row_of(number));
            }
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
        store_column_sums(strips);
    }
};

#endif
