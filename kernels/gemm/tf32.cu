// Matrix products of f32 on the tensor cores (mma.sync, sm_80 and newer), for products that permit
// TF32: operands are rounded to a mantissa of 10 bits (to nearest, ties away from zero; infinities
// and NaN are preserved), their products are accumulated in f32. gemm.cuh defines the product and
// the macros of the epilogue.
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
// shared memory. A warp has WARP_M x WARP_N accumulators, in tiles of 16 x 8. It reads its operands
// one step of 8 along k ahead of the arithmetic, and rounds them just before they are multiplied.
//
// In shared memory a tile has the order that it has in global memory. "Lines" are rows of a or
// columns of b:
//
//   A_K_MAJOR, B_K_MAJOR 1   K-major: each line is contiguous along k       [lines][TILE_K]
//   A_K_MAJOR, B_K_MAJOR 0   MN-major: neighboring lines are contiguous     [TILE_K][lines]
//
// The lines of a warp are divided into groups of eight ("eights"). In each step, lane l = 4 g + t
// multiplies k = t and t + 4 of line g of each eight. Any assignment works if the epilogue uses the
// same one. Here eight j has every LINES_PER_LANE-th line from line j on, so that a lane's lines
// are adjacent, and its sums in y too:
//
//   LINES_PER_LANE           4                                              2
//             lines    0 1 2 3   4 5 6 7   ..  28 29 30 31       0 1   2 3  ..  14 15
//             lane g      0         1      ..       7             0     1    ..    7
//             eight j  0 1 2 3   0 1 2 3   ..   0  1  2  3       0 1   0 1  ..   0 1
//
// A lane reads adjacent lines (MN-major) by one load for all of its eights. It reads K-major lines
// by ldmatrix, whose rows of 16 bytes are 4 elements of a line. So that both use all banks once,
// tiles consist of chunks of 4 elements, whose index is XORed with a value that depends on the row:
//
//   K-major (8 rows of one eight, one chunk of each):   index of the row in its eight
//   MN-major (4 rows, two chunks of each):              2 * row index (16 lines: of a row pair)
//
// A_ALIGNMENT and B_ALIGNMENT are the number of elements of one copy, along the contiguous axis:
//
//   4   the first element and all other strides (of the batch too) are multiples of 4 elements, and
//       the contiguous axis (k if K_MAJOR, else m or n) is a multiple of 4, or zeros pad it to one
//   1   any strides, also along the contiguous axis
//
// Tiles that the host chooses from, by their predicted time (TILE_M, TILE_N, TILE_K, WARP_M,
// WARP_N, STAGES, BLOCKS_PER_SM blocks per multiprocessor). In bytes they are those of mma.cu:
//
//   128 256 32  64 64  3 1    128 accumulators per lane
//    64 128 32  32 64  4 2    for a few hundred tiles
//    64  64 32  32 32  4 3
//    32  32 32  16 16  6 4    for few tiles: many stages, since they are bound by memory latency
//    16 128 32  16 32  6 2    m of 16 and less
//    32  32 32  16 16  4 4    copies of 1 element
//
// Launch: blocks of THREADS threads, ceil(m / TILE_M) * ceil(n / TILE_N) * matrices * splits of
// them, SHARED bytes of dynamic shared memory; m, n and matrices are above 0 (k may be 0).
// sum_splits follows if splits > 1. Indices are below 2^31.

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
#define TILE_M 64
#define TILE_N 64
#define TILE_K 32
#define WARP_M 32
#define WARP_N 32
#define STAGES 4
#define BLOCKS_PER_SM 3
#endif
// Rows of tiles in a band: blocks that run at the same time share rows of a and columns of b in the
// L2 cache (locate_tile).
#ifndef BAND
#define BAND 8
#endif

constexpr int CHUNK = 4;
constexpr int SIZE = sizeof(Element);
constexpr int WARPS_M = TILE_M / WARP_M;
constexpr int THREADS = WARPS_M * (TILE_N / WARP_N) * WARP;
// Bytes of one stage.
constexpr int STAGE_A = TILE_M * TILE_K * SIZE;
constexpr int STAGE = STAGE_A + TILE_N * TILE_K * SIZE;
// Pairs of eights in a warp's tile, and steps of 8 along k in a tile.
constexpr int PAIRS_M = WARP_M / 16, PAIRS_N = WARP_N / 16;
constexpr int STEPS = TILE_K / 8;
__device__ constexpr int lines_per_lane(int warp_lines) { return warp_lines % 32 == 0 ? 4 : 2; }
constexpr int LINES_PER_LANE_M = lines_per_lane(WARP_M), LINES_PER_LANE_N = lines_per_lane(WARP_N);
// The block of sums that one warp stages for store_block.
constexpr int BLOCK_M = 8 * LINES_PER_LANE_M;
constexpr int Y_ROW_STRIDE = WARP_N + 8;
// SHARED = max(STAGES * STAGE, THREADS / 32 * BLOCK_M * Y_ROW_STRIDE * 4)
static_assert(SIZE == 4, "TF32 is what f32 is rounded to");
static_assert(TILE_K == 8 * CHUNK, "a K-major row is 128 bytes, all banks once");
static_assert(STEPS > 1, "the first and the last step of a tile differ");
static_assert(WARP_M % (8 * LINES_PER_LANE_M) == 0 && WARP_N % (8 * LINES_PER_LANE_N) == 0, "whole eights");

// The value that the index of a chunk in row `row` is XORed with. For row < 2^n:
// swizzle(row + i * 2^n) = swizzle(row) ^ swizzle(i * 2^n)
template <int LINES, bool K_MAJOR, int LINES_PER_LANE> __device__ constexpr int swizzle(int row) {
    return K_MAJOR ? row / LINES_PER_LANE % 8 : LINES >= 32 ? row % 4 * 2 : row / 2 % 2 * 2;
}

// Copies one operand's tiles to shared memory. Elements outside the matrix are 0.
template <int LINES, bool K_MAJOR, int LINES_PER_LANE, int ALIGNMENT> struct TileLoader {
    static constexpr int RUN = K_MAJOR ? TILE_K : LINES;  // elements of a row in shared memory
    static constexpr int ROWS = K_MAJOR ? LINES : TILE_K;
    static constexpr int PER_ROW = RUN / ALIGNMENT;     // copies
    static constexpr int ROW_STEP = THREADS / PER_ROW;  // rows between a thread's copies
    static constexpr int COUNT = ROWS / ROW_STEP;
    static_assert(ALIGNMENT == CHUNK || ALIGNMENT == 1, "copies of a chunk or of one element");
    static_assert(THREADS % PER_ROW == 0 && ROWS % ROW_STEP == 0 && (ROW_STEP & (ROW_STEP - 1)) == 0,
                  "whole rows at once");

    const Element* from;
    i64 row_step, k_step;
    u32 to;  // bytes from the start of the tile
    i32 row, place, lines_left;

    INLINE TileLoader(const Element* first, i64 line_stride, i64 k_stride, u32 line, u32 lines) {
        row = threadIdx.x / PER_ROW;
        place = threadIdx.x % PER_ROW * ALIGNMENT;
        // Along a line's contiguous axis the stride is known to be 1, unless elements are copied
        // one by one.
        i64 run_stride = ALIGNMENT > 1 ? 1 : K_MAJOR ? k_stride : line_stride;
        i64 row_stride = K_MAJOR ? line_stride : k_stride;
        from = first + (K_MAJOR ? line * line_stride : line * run_stride) + row * row_stride + place * run_stride;
        row_step = ROW_STEP * row_stride;
        k_step = TILE_K * (K_MAJOR ? run_stride : row_stride);
        // Lines of the matrix from the first line of the tile on.
        lines_left = lines - line;
        to =
            (row * RUN + (place / CHUNK ^ swizzle<LINES, K_MAJOR, LINES_PER_LANE>(row)) * CHUNK + place % CHUNK) * SIZE;
    }

    // Issues the loads of the next tile; `left` is the length of k from its start.
    INLINE void fetch(u32 tile, i32 left) {
        i32 rows_left = K_MAJOR ? lines_left : left;
        bool in_run = place < (K_MAJOR ? left : lines_left);
        const Element* source = from;
#pragma unroll
        for (int i = 0; i < COUNT; ++i, source += row_step) {
            u32 swizzled = to ^ swizzle<LINES, K_MAJOR, LINES_PER_LANE>(i * ROW_STEP) * CHUNK * SIZE;
            cp_async<ALIGNMENT * SIZE>(tile + swizzled + i * ROW_STEP * RUN * SIZE, source,
                                       in_run && row + i * ROW_STEP < rows_left);
        }
        from += k_step;
    }
    // No element passes through registers.
    INLINE void commit_to_smem(u32) {}
};

// Rounds to what mma reads as TF32, to nearest, ties away from zero. mma ignores the low 13 bits,
// so this adds half of the last bit that it reads: 2^-11 times the power of two of the number. Like
// cvt.rna, except that numbers below 2^-126 are truncated. Unlike cvt.rna, it needs no condition
// and writes any register.
INLINE u32 round_to_tf32(u32 bits) {
    float power = __uint_as_float(bits & 0xff800000u);  // infinite for infinity and NaN: both stay
    return __float_as_uint(fmaf(power, 0x1p-11f, __uint_as_float(bits)));
}

// Reads a warp's WARP_LINES lines of one operand, one step of 8 along k at a time. For each pair of
// eights a lane gets four values: of both eights, at k = t and t + 4. In the fragment of a the
// eight varies fastest, in that of b the k (K_VARIES_FASTEST).
template <int LINES, bool K_MAJOR, int WARP_LINES, bool K_VARIES_FASTEST> struct Reader {
    static constexpr int LINES_PER_LANE = lines_per_lane(WARP_LINES);
    static constexpr int PAIRS = WARP_LINES / 16;
    u32 first;  // bytes from the start of the tile

    INLINE Reader(int line, int lane) {
        if constexpr (K_MAJOR) {
            // The row of 16 bytes whose address this lane passes to ldmatrix: lane % 8 of matrix
            // lane / 8.
            int second = lane / 8 % 2, third = lane / 16, row = lane % 8;
            int eight = K_VARIES_FASTEST ? third : second, chunk = K_VARIES_FASTEST ? second : third;
            first = ((line + row * LINES_PER_LANE + eight) * TILE_K + (chunk ^ row) * CHUNK) * SIZE;
        } else {
            int mine = line + lane / 4 * LINES_PER_LANE, k = lane % 4;
            first =
                (k * LINES + (mine / CHUNK ^ swizzle<LINES, K_MAJOR, LINES_PER_LANE>(k)) * CHUNK + mine % CHUNK) * SIZE;
        }
    }
    // `tile` is the address of the tile, a multiple of 128.
    INLINE void read(u32 (&to)[PAIRS][4], u32 tile, int step) const {
        if constexpr (K_MAJOR) {
            u32 from = tile + first ^ step * 2 * CHUNK * SIZE;
#pragma unroll
            for (int pair = 0; pair < PAIRS; ++pair) {
                int line = 2 * pair / LINES_PER_LANE * 8 * LINES_PER_LANE + 2 * pair % LINES_PER_LANE;
                ldmatrix_x4(to[pair], from + line * TILE_K * SIZE);
            }
        } else {
#pragma unroll
            for (int line = 0; line < WARP_LINES; line += 8 * LINES_PER_LANE)
#pragma unroll
                for (int place = 0; place < 2; ++place) {
                    u32 numbers[LINES_PER_LANE];
                    u32 from = tile + first + ((step * 8 + place * 4) * LINES + line) * SIZE;
                    if constexpr (LINES_PER_LANE == 2) {
                        ld_shared_v2_unordered(numbers, from);
                    } else {
                        ld_shared_v4_unordered(numbers, from);
                    }
#pragma unroll
                    for (int eight = 0; eight < LINES_PER_LANE; ++eight)
                        to[line / 16 + eight / 2][K_VARIES_FASTEST ? eight % 2 * 2 + place : place * 2 + eight % 2] =
                            numbers[eight];
                }
        }
    }
};

typedef TileLoader<TILE_M, A_K_MAJOR, LINES_PER_LANE_M, A_ALIGNMENT> LoaderA;
typedef TileLoader<TILE_N, B_K_MAJOR, LINES_PER_LANE_N, B_ALIGNMENT> LoaderB;
typedef TilePipeline<LoaderA, LoaderB, u32, TILE_K, STAGES, STAGE, STAGE_A> Tiles;
typedef WarpTile<WARPS_M, WARP_M, WARP_N> Part;
typedef float Sums[PAIRS_M][2 * PAIRS_N][4];

// A warp's operands of one step.
struct Operands {
    u32 a[PAIRS_M][4], b[PAIRS_N][4];
};
struct OperandReader {
    Reader<TILE_M, A_K_MAJOR, WARP_M, false> a;
    Reader<TILE_N, B_K_MAJOR, WARP_N, true> b;

    INLINE OperandReader(const Part& part) : a(part.row, part.lane), b(part.column, part.lane) {}
    // Reads the operands of step `step`; `stage` is the address of the stage.
    INLINE void read(Operands& to, u32 stage, int step) const {
        a.read(to.a, stage, step);
        b.read(to.b, stage + STAGE_A, step);
    }
};

template <int PAIRS> INLINE void round_all(u32 (&to)[PAIRS][4], const u32 (&from)[PAIRS][4]) {
#pragma unroll
    for (int pair = 0; pair < PAIRS; ++pair)
#pragma unroll
        for (int i = 0; i < 4; ++i) to[pair][i] = round_to_tf32(from[pair][i]);
}

// Adds the products of one step to the accumulators.
INLINE void multiply(Sums& sums, const Operands& operands) {
#pragma unroll
    for (int j = 0; j < 2 * PAIRS_N; ++j)
#pragma unroll
        for (int i = 0; i < PAIRS_M; ++i) {
            const u32(&both)[4] = operands.b[j / 2];
            // Back and forth: consecutive products share an operand.
            int to = j % 2 ? PAIRS_M - 1 - i : i;
            mma_m16n8k8_tf32(sums[to][j], operands.a[to], both[j % 2 * 2], both[j % 2 * 2 + 1]);
        }
}

// Stores a warp's sums to y through shared memory, BLOCK_M rows at a time. Of a pair of eights of
// rows and an eight of columns, lane 4 g + t holds row g of the first and of the second eight, and
// columns 2 t and 2 t + 1.
INLINE void store_accumulators(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const Part& part,
                               float* shared, const Sums& sums) {
    float* block = shared + part.warp * (BLOCK_M * Y_ROW_STRIDE);
    float* mine = block + part.lane / 4 * LINES_PER_LANE_M * Y_ROW_STRIDE + part.lane % 4 * 2 * LINES_PER_LANE_N;
#pragma unroll
    for (int group = 0; group < WARP_M; group += BLOCK_M) {
#pragma unroll
        for (int eight = 0; eight < LINES_PER_LANE_M; ++eight)
#pragma unroll
            for (int first = 0; first < WARP_N; first += 8 * LINES_PER_LANE_N)
#pragma unroll
                for (int next = 0; next < 2; ++next) {
                    Pack<float, LINES_PER_LANE_N> pack;
#pragma unroll
                    for (int j = 0; j < LINES_PER_LANE_N; ++j)
                        pack.of[j] = sums[group / 16 + eight / 2][first / 8 + j][eight % 2 * 2 + next];
                    store<float, LINES_PER_LANE_N>(mine + eight * Y_ROW_STRIDE + first + next * LINES_PER_LANE_N, pack);
                }
        __syncwarp();
        store_block<BLOCK_M, WARP_N, Y_ROW_STRIDE>(p, tile, at, block, tile.row + part.row + group,
                                                   tile.column + part.column);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS_PER_SM) product(const __grid_constant__ GemmParams p) {
    wait_for_earlier_launches();
    extern __shared__ __align__(128) u8 shared[];
    i64 at[3];
    Tile tile = locate_tile<TILE_M, TILE_N, BAND>(p, blockIdx.x, at);
    u32 stages = cvta_to_shared(shared);
    KRange k(p, tile);
    LoaderA loader_a = loader_of_a<LoaderA>(p, tile, at, k);
    LoaderB loader_b = loader_of_b<LoaderB>(p, tile, at, k);
    Tiles tiles = {loader_a, loader_b, k, stages};
    Part part;
    OperandReader reader(part);
    Sums sums = {};
    tiles.fill();

    Operands operands, next;
    u32 reading = stages, writing = stages + (STAGES - 1) * STAGE;
    reader.read(next, reading, 0);
#pragma unroll 1
    for (i32 done = 0; done < k.length; done += TILE_K) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            round_all(operands.a, next.a);
            round_all(operands.b, next.b);
            // The next operands are read while these are multiplied, also across the end of the
            // tile.
            if (step == STEPS - 1) {
                writing = writing == stages + (STAGES - 1) * STAGE ? stages : writing + STAGE;
                reading = reading == stages + (STAGES - 1) * STAGE ? stages : reading + STAGE;
                tiles.await_tile();
            }
            reader.read(next, reading, (step + 1) % STEPS);
            if (step == 0) tiles.fetch(writing);
            if (step == STEPS - 2) tiles.commit_group();
            multiply(sums, operands);
        }
    }
    tiles.drain();
    // Computed again, so that no registers hold the tile during the main loop.
    tile = locate_tile<TILE_M, TILE_N, BAND>(p, opaque(blockIdx.x), at);
    store_accumulators(p, tile, at, part, reinterpret_cast<float*>(shared), sums);
}
