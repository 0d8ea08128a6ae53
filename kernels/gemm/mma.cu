// Matrix products of f16 and bf16 on the tensor cores (mma.sync, sm_80 and newer), accumulated in
// f32: y = a b for each of a batch of matrices, and the epilogue that gemm.cuh defines.
//
//   a   [batch.., m, k]      b   [batch.., k, n]      y   [batch.., m, n]
//
//                      b: TILE_K x TILE_N
//                         +---------+---------+
//    a: TILE_M x TILE_K   |         |         |
//        +-------+        +---------+---------+
//        |       |        | WARP_M  |         |
//        |       |        | x WARP_N|   y     |
//        +-------+        +---------+---------+
//
// A block computes one tile of y. Tiles of a and b pass through a ring buffer of STAGES stages in
// shared memory. A warp has WARP_M x WARP_N accumulators, in tiles of 16 x 8. It reads its operand
// fragments by ldmatrix, one step of 16 along k ahead of the arithmetic.
//
// In shared memory a tile has the order that it has in global memory, K-major or MN-major;
// ldmatrix.trans transposes MN-major tiles:
//
//   A_K_MAJOR 1   a is K-major: rows are contiguous          [TILE_M][TILE_K]
//   A_K_MAJOR 0   a is MN-major: columns are contiguous      [TILE_K][TILE_M]
//   B_K_MAJOR 1   b is K-major: columns are contiguous       [TILE_N][TILE_K]
//   B_K_MAJOR 0   b is MN-major: rows are contiguous         [TILE_K][TILE_N]
//
// A row of a tile consists of chunks of 8 elements (16 bytes). The swizzle XORs the index of a
// chunk with the index of its row, so that the eight rows that ldmatrix reads at once are in
// different banks:
//
//   row 0  | 0 1 2 3 4 5 6 7        row 1  | 1 0 3 2 5 4 7 6        row 2  | 2 3 0 1 6 7 4 5  ...
//
// A_ALIGNMENT and B_ALIGNMENT are the number of elements of one copy, along the contiguous axis:
//
//   8   the first element and all other strides (of the batch too) are multiples of 8 elements, and
//       the contiguous axis (k if K_MAJOR, else m or n) is a multiple of 8, or zeros pad it to one
//   1   any strides, also along the contiguous axis
//
// Tiles that the host chooses from, by their predicted time (TILE_M, TILE_N, TILE_K, WARP_M,
// WARP_N, STAGES, BLOCKS_PER_SM blocks per multiprocessor):
//
//   128 256 64  64 64  3 1    128 accumulators per lane; 48 KiB of operands for 4 million
//                             operations, which relieves the L2 cache
//    64 128 64  32 64  4 2    for a few hundred tiles
//    64  64 64  32 32  4 3
//    32  32 64  16 16  6 4    for few tiles: many stages, since they are bound by memory latency
//    16 128 64  16 32  6 2    m of 16 and less
//    32  32 64  16 16  4 2    copies of 1 element: leaves registers for elements in flight
//                             (docs/kernels/matmul.md has larger tiles)
//
// Launch: blocks of THREADS threads, ceil(m / TILE_M) * ceil(n / TILE_N) * matrices * splits of
// them, SHARED bytes of dynamic shared memory; m, n and matrices are above 0 (k may be 0).
// sum_splits follows if splits > 1. Indices are below 2^31.

#ifdef HOST_SHIM
#undef TYPE
#undef TYPE_Y
#define TYPE f16
#endif

#include "gemm/gemm.cuh"
#include "lib/launch.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

// The host defines all of these; an editor's parser gets the macros of one of the kernels.
#ifdef HOST_SHIM
#define A_K_MAJOR 1
#define B_K_MAJOR 0
#define A_ALIGNMENT 1
#define B_ALIGNMENT 1
#define TILE_M 128
#define TILE_N 128
#define TILE_K 32
#define WARP_M 64
#define WARP_N 32
#define STAGES 4
#define BLOCKS_PER_SM 1
#endif
// Rows of tiles in a band: blocks that run at the same time share rows of a and columns of b in the
// L2 cache (locate_tile).
#ifndef BAND
#define BAND 8
#endif

constexpr int CHUNK = 8;
constexpr int WARPS_M = TILE_M / WARP_M;
constexpr int THREADS = WARPS_M * (TILE_N / WARP_N) * WARP;
// Elements of one stage.
constexpr int STAGE_A = TILE_M * TILE_K;
constexpr int STAGE = STAGE_A + TILE_N * TILE_K;
// Operand fragments of 16 rows (of a) or 16 columns (of b) in a warp's tile, and steps of 16 along
// k in a tile.
constexpr int FRAGMENTS_M = WARP_M / 16, FRAGMENTS_N = WARP_N / 16;
constexpr int STEPS = TILE_K / 16;
// Floats from one row to the next of the results in smem. Rows are padded by 8 floats: the groups
// of four lanes that write pairs of accumulators then use different banks.
constexpr int Y_ROW_STRIDE = WARP_N + 8;
// SHARED = max(STAGES * STAGE * 2, THREADS / 32 * 16 * Y_ROW_STRIDE * 4)
static_assert(STEPS % 2 == 0, "operands are double buffered in registers");

// The value that the index of a chunk in row `row` is XORed with, in a tile with ROW chunks per
// row. 8 chunks are 128 bytes, all banks once, so shorter rows share a value.
template <int ROW> INLINE int swizzle(int row) { return ROW >= 8 ? row % 8 : row / (8 / ROW) % ROW; }

// Copies one operand's tiles to shared memory. A line is a row of a or a column of b; a tile has
// LINES of them. A row is one of the tile in smem: a line if the operand is K-major, otherwise the
// elements of all lines at one index of k. Elements outside the matrix are 0.
template <int LINES, bool K_MAJOR, int ALIGNMENT> struct TileLoader {
    static constexpr int ROW = (K_MAJOR ? TILE_K : LINES) / CHUNK;  // chunks of a row in smem
    static constexpr int ROWS = K_MAJOR ? LINES : TILE_K;
    static constexpr int ROW_STEP = THREADS / ROW;  // rows between a thread's chunks
    static constexpr int COUNT = (ROWS + ROW_STEP - 1) / ROW_STEP;
    static_assert(THREADS % ROW == 0, "whole rows at once");
    static_assert(ALIGNMENT == CHUNK || ALIGNMENT == 1, "copies of a chunk or of one element");

    const Element* source;  // this thread's first chunk in the next tile
    // In elements: between a thread's rows, between tiles along k, and between a chunk's elements.
    i64 row_step, k_step, element_stride;
    u32 target;  // offset of this thread's first chunk in a tile in smem
    // This thread's first row in the tile, the first element of its chunks in their rows, and the
    // lines of the matrix from the first line of the tile on.
    i32 row, chunk, lines_left;
    // Elements between fetch and commit_to_smem.
    Pack<Element, CHUNK> held[ALIGNMENT == 1 ? COUNT : 1];

    INLINE TileLoader(const Element* first, i64 line_stride, i64 k_stride, u32 line, u32 lines) {
        row = threadIdx.x / ROW;
        chunk = threadIdx.x % ROW * CHUNK;
        // Along the contiguous axis, which is k if the operand is K-major. Known to be 1 unless
        // elements are copied one by one.
        element_stride = ALIGNMENT > 1 ? 1 : K_MAJOR ? k_stride : line_stride;
        i64 row_stride = K_MAJOR ? line_stride : k_stride;
        source =
            first + (K_MAJOR ? line * line_stride : line * element_stride) + row * row_stride + chunk * element_stride;
        row_step = ROW_STEP * row_stride;
        k_step = TILE_K * (K_MAJOR ? element_stride : row_stride);
        lines_left = lines - line;
        target = row * (ROW * CHUNK) + (threadIdx.x % ROW ^ swizzle<ROW>(row)) * CHUNK;
    }

    // Issues the loads of the next tile; `k_left` is the length of k from its start.
    INLINE void fetch(Element* tile, i32 k_left) {
        i32 rows_valid = K_MAJOR ? lines_left : k_left;
        i32 chunk_valid = (K_MAJOR ? k_left : lines_left) - chunk;
        const Element* from = source;
#pragma unroll
        for (int i = 0; i < COUNT; ++i, from += row_step) {
            if (ROWS % ROW_STEP != 0 && row + i * ROW_STEP >= ROWS) break;
            bool valid = row + i * ROW_STEP < rows_valid;
            if constexpr (ALIGNMENT == 1) {
#pragma unroll
                for (int e = 0; e < CHUNK; ++e)
                    held[i].of[e] = valid && e < chunk_valid ? from[e * element_stride] : Element();
            } else {
                cp_async<16>(cvta_to_shared(tile + offset_of(i)), from, valid && chunk_valid > 0);
            }
        }
        source += k_step;
    }
    // Stores the elements that pass through registers.
    INLINE void commit_to_smem(Element* tile) {
        if constexpr (ALIGNMENT == 1) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                if (ROWS % ROW_STEP != 0 && row + i * ROW_STEP >= ROWS) break;
                store<Element, CHUNK>(tile + offset_of(i), held[i]);
            }
        }
    }
    // The offset in a tile of this thread's chunk i. The swizzle repeats after at most 8 rows.
    INLINE u32 offset_of(int i) {
        if constexpr (ROW_STEP % 8 == 0 || COUNT == 1) return target + i * ROW_STEP * ROW * CHUNK;
        int tile_row = row + i * ROW_STEP;
        return tile_row * (ROW * CHUNK) + (threadIdx.x % ROW ^ swizzle<ROW>(tile_row)) * CHUNK;
    }
};

// Reads one operand of a warp: four 8 x 8 matrices at a time, two by two along the lines and along
// k. A lane passes the address of one row. MATRIX_K: the second of the four matrices follows the
// first along k (b), not along the lines (a).
template <int LINES, bool K_MAJOR, bool MATRIX_K> struct Reader {
    static constexpr int ROW = (K_MAJOR ? TILE_K : LINES) / CHUNK;
    u32 first;           // bytes from the start of the tile to this lane's row
    int chunk, pattern;  // this lane's chunk in the row, and the swizzle of the row

    INLINE Reader(int line, int lane) {
        int second = lane / 8 % 2, third = lane / 16;
        int along_k = MATRIX_K ? second : third;
        int along_lines = MATRIX_K ? third : second;
        int row = lane % 8 + 8 * (K_MAJOR ? along_lines : along_k) + (K_MAJOR ? line : 0);
        chunk = (K_MAJOR ? along_k : along_lines) + (K_MAJOR ? 0 : line / CHUNK);
        pattern = swizzle<ROW>(row);
        first = row * ROW * 16;
    }
    // Reads the fragment with this index, of 16 lines, at this step of k; `tile` is the address of
    // the tile.
    INLINE void read(u32 (&fragment)[4], u32 tile, int index, int step) const {
        if constexpr (K_MAJOR)
            ldmatrix_x4(fragment, tile + first + index * (16 * ROW * 16) + ((chunk + 2 * step) ^ pattern) * 16);
        else ldmatrix_x4_trans(fragment, tile + first + step * (16 * ROW * 16) + ((chunk + 2 * index) ^ pattern) * 16);
    }
};

typedef TileLoader<TILE_M, A_K_MAJOR, A_ALIGNMENT> LoaderA;
typedef TileLoader<TILE_N, B_K_MAJOR, B_ALIGNMENT> LoaderB;
typedef TilePipeline<LoaderA, LoaderB, Element*, TILE_K, STAGES, STAGE, STAGE_A> Tiles;
typedef WarpTile<WARPS_M, WARP_M, WARP_N> WarpPart;
typedef float Sums[FRAGMENTS_M][2 * FRAGMENTS_N][4];

// A warp's operands of one step.
struct Operands {
    u32 a[FRAGMENTS_M][4], b[FRAGMENTS_N][4];
};
struct OperandReader {
    Reader<TILE_M, A_K_MAJOR, false> a;
    Reader<TILE_N, B_K_MAJOR, true> b;

    INLINE OperandReader(const WarpPart& part) : a(part.row, part.lane), b(part.column, part.lane) {}
    // Reads the operands of a step of k; `stage` is the address of the stage.
    INLINE void read(Operands& operands, u32 stage, int step) const {
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) a.read(operands.a[i], stage, i, step);
#pragma unroll
        for (int j = 0; j < FRAGMENTS_N; ++j) b.read(operands.b[j], stage + STAGE_A * 2, j, step);
    }
};

// Adds the products of one step to the accumulators.
INLINE void multiply(Sums& sums, const Operands& operands) {
#pragma unroll
    for (int j = 0; j < 2 * FRAGMENTS_N; ++j)
#pragma unroll
        for (int i = 0; i < FRAGMENTS_M; ++i) {
            const u32(&b)[4] = operands.b[j / 2];  // two columns of accumulator tiles
            // Back and forth along m: consecutive instructions share an operand.
            int row = j % 2 ? FRAGMENTS_M - 1 - i : i;
            mma_m16n8k16(sums[row][j], operands.a[row], b[j % 2 * 2], b[j % 2 * 2 + 1], Element());
        }
}

// Stores a warp's accumulators to y through shared memory, 16 rows at a time. Lane l holds columns
// 2 (l % 4) and 2 (l % 4) + 1 of rows l / 4 and l / 4 + 8 of a 16 x 8 accumulator tile.
INLINE void store_accumulators(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const WarpPart& part,
                               float* shared, const Sums& sums) {
    float* block = shared + part.warp * (16 * Y_ROW_STRIDE);
    float* mine = block + part.lane / 4 * Y_ROW_STRIDE + part.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < FRAGMENTS_M; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * FRAGMENTS_N; ++j) {
            store<float, 2>(mine + j * 8, Pack<float, 2>{{sums[i][j][0], sums[i][j][1]}});
            store<float, 2>(mine + 8 * Y_ROW_STRIDE + j * 8, Pack<float, 2>{{sums[i][j][2], sums[i][j][3]}});
        }
        __syncwarp();
        store_block<16, WARP_N, Y_ROW_STRIDE>(p, tile, at, block, tile.row + part.row + i * 16,
                                              tile.column + part.column);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) product(const __grid_constant__ GemmParams p) {
    wait_for_earlier_launches();
    extern __shared__ __align__(128) u8 shared[];
    Element* stages = reinterpret_cast<Element*>(shared);
    i64 at[3];
    Tile tile = locate_tile<TILE_M, TILE_N, BAND>(p, blockIdx.x, at);
    KRange k(p, tile);
    LoaderA loader_a = loader_of_a<LoaderA>(p, tile, at, k);
    LoaderB loader_b = loader_of_b<LoaderB>(p, tile, at, k);
    Tiles tiles = {loader_a, loader_b, k, stages};
    WarpPart part;
    OperandReader reader(part);
    Sums sums = {};
    tiles.fill();

    Operands operands[2];
    u32 first_stage = cvta_to_shared(stages);
    int reading = 0, writing = STAGES - 1;
    reader.read(operands[0], first_stage, 0);
#pragma unroll 1
    for (i32 done = 0; done < k.length; done += TILE_K) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            // The next operands are read while these are multiplied, also across the end of the
            // tile.
            if (step == STEPS - 1) {
                tiles.commit_to_smem(stages + writing * STAGE);
                writing = writing == STAGES - 1 ? 0 : writing + 1;
                reading = reading == STAGES - 1 ? 0 : reading + 1;
                tiles.await_tile();
            }
            reader.read(operands[(step + 1) % 2], first_stage + reading * (STAGE * 2), (step + 1) % STEPS);
            if (step == 0) tiles.fetch(stages + writing * STAGE);
            if (step == STEPS - 2) tiles.commit_group();
            multiply(sums, operands[step % 2]);
        }
    }
    tiles.drain();
    // Computed again, so that no registers hold the tile during the main loop.
    tile = locate_tile<TILE_M, TILE_N, BAND>(p, opaque(blockIdx.x), at);
    store_accumulators(p, tile, at, part, reinterpret_cast<float*>(shared), sums);
}
