// Shared code of the matrix products: the parameters, the order of the tiles, and the epilogue:
//
//   y[batch, i, j] = activation(alpha * sum_k a[batch, i, k] * b[batch, k, j] + bias[j])
//
// Macros:
//
//   TYPE            element type of a and b
//   TYPE_Y          element type of y and the bias (default: TYPE)
//   ACTIVATION      expression in x, of the compute type of y, and in k, the constants of the
//                   function (default: x)
//
// Split-K, for long k and few tiles: the range of k is divided into `splits` ranges of
// `split_length`. Each is a separate tile whose raw sums are stored to `partial` [splits, matrices,
// m, n], and the kernel `sum_splits` adds them in the order of k. There are no atomics: the result
// depends only on shapes and values.

#pragma once

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/registers.cuh"

#ifndef TYPE_Y
#define TYPE_Y TYPE
#endif
#ifndef ACTIVATION
#define ACTIVATION x
#endif

typedef TYPE Element;
typedef TYPE_Y Output;

// The type of accumulators. Integers are unsigned, since their sums wrap.
template <class E> struct AccumulatorOf {
    typedef float type;
};
template <> struct AccumulatorOf<double> {
    typedef double type;
};
template <> struct AccumulatorOf<i64> {
    typedef u64 type;
};
template <> struct AccumulatorOf<i32> {
    typedef u32 type;
};
template <> struct AccumulatorOf<u8> {
    typedef u32 type;
};
typedef AccumulatorOf<Element>::type Sum;

struct GemmParams {
    Output* y;
    const Element* a;
    const Element* b;
    const Output* bias;  // null: no bias
    Sum* partial;
    // If `condition` is not null, the kernels of simt.cu and sum_splits compute only if it points
    // to condition_value. Another kernel computes if it does not.
    const u32* condition;
    u64 condition_value;
    // Strides in elements: of a between rows and along k, of b along k and between columns.
    i64 a_row, a_k, b_k, b_column, y_row, y_column, bias_stride;
    u64 alpha;  // bits of the compute type of y
    Constants constants;
    u32 m, n, k;
    u32 matrices;  // in the batch
    // split_length is a multiple of TILE_K, splits = max(1, ceil(k / split_length)).
    u32 splits, split_length;
    Space<3> batch;  // of y, a, b
};

INLINE bool should_run(const GemmParams& p) { return !p.condition || *p.condition == u32(p.condition_value); }

// ---------------------------------------------------------------- tiles

struct Tile {
    u32 row, column, matrix, split;
};

// The tile with index `block`. Tiles are traversed in bands of HEIGHT rows of tiles, column by
// column, so that tiles that are in progress at the same time share rows and columns in the L2
// cache:
//
//     0 3 6 9       (HEIGHT = 3)
//     1 4 7 10
//     2 5 8 11
//     12 13 14 15
//
// Most products have one matrix and no splits: divisions with a trivial result are skipped, since a
// short product waits for each.
template <int ROWS, int COLUMNS, int HEIGHT, class P> INLINE Tile tile_of(const P& p, u32 block) {
    u32 rows = (p.m + ROWS - 1) / ROWS;
    u32 columns = (p.n + COLUMNS - 1) / COLUMNS;
    u32 rest = p.matrices * p.splits == 1 ? 0 : block / (rows * columns);
    u32 number = block - rest * (rows * columns);
    u32 band = number < HEIGHT * columns ? 0 : number / (HEIGHT * columns);
    u32 height = min(rows - band * HEIGHT, u32(HEIGHT));
    number -= band * HEIGHT * columns;
    u32 column = height == HEIGHT ? number / HEIGHT : number / height;
    u32 matrix = p.splits == 1 ? rest : rest / p.splits;
    return Tile{(band * HEIGHT + number - column * height) * ROWS, column * COLUMNS, matrix, rest - matrix * p.splits};
}

// The same in units of tiles, with divisors that the host has computed: the first loads of a
// warpgroup kernel wait for this.
struct TileGrid {
    Divisor matrix;     // tiles of a matrix
    Divisor band;       // tiles of a band, which is BAND_ROWS rows of tiles
    Divisor last_band;  // rows of tiles after the full bands, if there are any
    Divisor splits;
    Divisor inner_batch;  // size of the fast axis of the batch
    u32 rows;             // rows of tiles of a matrix
    u32 count;            // of all tiles

    static constexpr u32 BAND_ROWS = 8;  // its divisor is {8, 1, 3}

    INLINE Tile tile(u32 number) const {
        u32 rest = divide(number, matrix);
        number -= rest * matrix.divisor;
        u32 first = divide(number, band);
        number -= first * band.divisor;
        Divisor height = first * BAND_ROWS + BAND_ROWS <= rows ? Divisor{BAND_ROWS, 1, 3} : last_band;
        u32 column = divide(number, height), row = first * BAND_ROWS + number - column * height.divisor;
        u32 of_batch = divide(rest, splits);
        return Tile{row, column, of_batch, rest - of_batch * splits.divisor};
    }
};

// The offsets of matrix `matrix` of the batch in y, a and b.
INLINE void locate_matrix(const GemmParams& p, u32 matrix, i64 (&at)[3]) {
#pragma unroll
    for (int tensor = 0; tensor < 3; ++tensor) at[tensor] = 0;
    if (p.matrices > 1) locate(p.batch, matrix, at);
}
// The tile with index `block`, and the offsets of its matrix.
template <int ROWS, int COLUMNS, int HEIGHT> INLINE Tile locate_tile(const GemmParams& p, u32 block, i64 (&at)[3]) {
    Tile tile = tile_of<ROWS, COLUMNS, HEIGHT>(p, block);
    locate_matrix(p, tile.matrix, at);
    return tile;
}

// A lane's warp, and the first row and column of the warp's tile in the block's tile. The warps'
// tiles are ROWS x COLUMNS, with DOWN of them in each column.
template <int DOWN, int ROWS, int COLUMNS> struct WarpTile {
    int warp, lane, row, column;

    INLINE WarpTile() {
        warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
        row = warp % DOWN * ROWS, column = warp / DOWN * COLUMNS;
    }
};

// A block's range of k.
struct KRange {
    u32 first;
    i32 length;
    i32 left;  // from the start of the tile that is fetched next

    INLINE KRange(const GemmParams& p, const Tile& tile)
        : first(tile.split * p.split_length), length(min(p.k - first, p.split_length)), left(length) {}
};
template <class Loader>
INLINE Loader loader_of_a(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const KRange& k) {
    return Loader(p.a + at[1] + k.first * p.a_k, p.a_row, p.a_k, tile.row, p.m);
}
template <class Loader>
INLINE Loader loader_of_b(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const KRange& k) {
    return Loader(p.b + at[2] + k.first * p.b_k, p.b_column, p.b_k, tile.column, p.n);
}

// Tiles of LENGTH along k that pass through a ring buffer of BUFFERS stages in shared memory.
// `SmemPointer` is the pointer or address type that a loader takes. In its units, a stage has size
// BUFFER, with the tile of a at its start and the tile of b at OFFSET_B. A loader's `fetch` issues
// the loads of the next tile. Its `commit_to_smem` stores elements that pass through registers.
// Loaders and range are references: as members of one struct with arrays they would stay in local
// memory until loops are unrolled, too late for the compiler, and kernels of f64 took 10 to 16
// registers more.
template <class LoaderA, class LoaderB, class SmemPointer, int LENGTH, int BUFFERS, int BUFFER, int OFFSET_B>
struct TilePipeline {
    LoaderA& a;
    LoaderB& b;
    KRange& k;
    SmemPointer buffers;

    INLINE void fetch(SmemPointer to) {
        a.fetch(to, k.left);
        b.fetch(to + OFFSET_B, k.left);
    }
    INLINE void commit_to_smem(SmemPointer to) {
        a.commit_to_smem(to);
        b.commit_to_smem(to + OFFSET_B);
    }
    // Commits all copies since the last commit as one group, and advances to the next k.
    INLINE void commit_group() {
        cp_async_commit_group();
        k.left -= LENGTH;
    }
    // Waits until the tile that is read next is complete, and no warp reads the stage that is
    // filled next.
    INLINE void await_tile() {
        cp_async_wait_group<BUFFERS - 2>();
        __syncthreads();
    }
    // Waits until no copy is in flight and shared memory is free for the epilogue.
    INLINE void drain() {
        cp_async_wait_group<0>();
        __syncthreads();
    }
    // The prologue: fetches the first tiles into all stages but one.
    INLINE void fill() {
#pragma unroll
        for (int buffer = 0; buffer < BUFFERS - 1; ++buffer) {
            SmemPointer to = buffers + buffer * BUFFER;
            fetch(to);
            commit_group();
            commit_to_smem(to);
        }
        await_tile();
    }
};

// ---------------------------------------------------------------- epilogue

typedef Compute<Output> Value;

INLINE Output apply_epilogue(const GemmParams& p, Sum sum, Output bias) {
    Value x = product_of(constant<Value>(p.alpha), Value(sum));
    if (p.bias) x = sum_of(x, Value(widen(bias)));
    const Constants& k = p.constants;
    x = ACTIVATION;
    return narrow<Output>(x);
}

INLINE void store_element(const GemmParams& p, const i64 (&at)[3], Sum sum, u32 row, u32 column) {
    Output* y = p.y + at[0] + row * p.y_row + column * p.y_column;
    *y = apply_epilogue(p, sum, p.bias ? p.bias[column * p.bias_stride] : Output());
}

constexpr int OUTPUTS = 16 / sizeof(Output);

// Whether rows of this tensor can be read or written in packs of 16 bytes of y.
INLINE bool in_packs(const Output* first, i64 row, i64 column) {
    return column == 1 && row % OUTPUTS == 0 && u64(first) % (OUTPUTS * sizeof(Output)) == 0;
}

// One warp stores a block of sums that it has written to shared memory, in rows ROW_STRIDE sums
// apart.
// The first sum is that of y[row, column]. Staging through shared memory makes every access to y a
// full contiguous run, and keeps this code short: in registers the sums have the layout of the
// arithmetic and could be indexed only by unrolling all of this code.
template <int ROWS, int COLUMNS, int ROW_STRIDE>
INLINE void store_block(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const Sum* sums, u32 row,
                        u32 column) {
    int lane = threadIdx.x % WARP;
    if (p.splits > 1) {
        u64 first_row = (u64(tile.split) * p.matrices + tile.matrix) * p.m + row;
        Sum* partial = p.partial + first_row * p.n + column;
#pragma unroll 4
        for (int i = lane; i < ROWS * COLUMNS; i += WARP) {
            int r = i / COLUMNS, c = i % COLUMNS;
            if (row + r < p.m && column + c < p.n) partial[u64(r) * p.n + c] = sums[r * ROW_STRIDE + c];
        }
        return;
    }
    bool packs = in_packs(p.y + at[0], p.y_row, p.y_column) && column + COLUMNS <= p.n;
    if (!packs) {
        // Neighboring lanes access neighboring elements, also if columns of y are contiguous.
        int run = p.y_row == 1 ? ROWS : COLUMNS;
#pragma unroll 1
        for (int i = lane; i < ROWS * COLUMNS; i += WARP) {
            int r = i / run, c = i - r * run;
            if (p.y_row == 1) {
                int swapped = r;
                r = c;
                c = swapped;
            }
            if (row + r < p.m && column + c < p.n) store_element(p, at, sums[r * ROW_STRIDE + c], row + r, column + c);
        }
        return;
    }
    constexpr int PER_ROW = COLUMNS / OUTPUTS;
    static_assert(PER_ROW > 0 && WARP % PER_ROW == 0, "a lane keeps its columns");
    constexpr int STEP = WARP / PER_ROW;
    constexpr int SUMS = smallest(OUTPUTS, 16 / sizeof(Sum));
    int c = lane % PER_ROW * OUTPUTS;
    Pack<Output, OUTPUTS> bias = {};
    if (p.bias) {
#pragma unroll
        for (int e = 0; e < OUTPUTS; ++e) bias.of[e] = p.bias[(column + c + e) * p.bias_stride];
    }
    Output* y = p.y + at[0] + column + c;
#pragma unroll 1
    for (int r = lane / PER_ROW; r < ROWS; r += STEP) {
        if (row + r >= p.m) return;
        Output* to = y + (row + r) * p.y_row;
        Pack<Output, OUTPUTS> pack;
#pragma unroll
        for (int first = 0; first < OUTPUTS; first += SUMS) {
            Pack<Sum, SUMS> sum = load<Sum, SUMS>(sums + r * ROW_STRIDE + c + first);
#pragma unroll
            for (int e = 0; e < SUMS; ++e) {
                int o = first + e;
                pack.of[o] = apply_epilogue(p, sum.of[e], bias.of[o]);
            }
        }
        store<Output, OUTPUTS>(to, pack);
    }
}

// Computes the elements of block `block` of y from the partial sums.
INLINE void sum_splits_of(const GemmParams& p, u32 block) {
    u32 count = p.matrices * p.m * p.n;
    u32 number = block * 256 + threadIdx.x;
    if (number >= count || !should_run(p)) return;
    Sum sum = 0;
    const Sum* partial = p.partial + number;
#pragma unroll 4
    for (u32 split = 0; split < p.splits; ++split, partial += count) sum += *partial;
    u32 row = number / p.n;
    u32 column = number - row * p.n;
    u32 matrix = row / p.m;
    row -= matrix * p.m;
    i64 at[3];
    locate_matrix(p, matrix, at);
    store_element(p, at, sum, row, column);
}

// Computes y from the partial sums: one thread per element, blocks of 256, matrices * m * n below
// 2^31.
extern "C" __global__ void __launch_bounds__(256) sum_splits(const __grid_constant__ GemmParams p) {
    wait_for_earlier_launches();
    sum_splits_of(p, blockIdx.x);
}
