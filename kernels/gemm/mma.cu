// Matrix products of f16 and bf16 on the tensor cores (mma.sync, sm_80 and newer), added up in f32. What is computed, and the macros of
// what follows the sum, stand in gemm.cuh.
//
//                      b: TILE_K x TILE_N                 A block has one tile of y. Tiles of a and b pass through STAGES
//                         +---------+---------+           buffers in shared memory. A warp has WARP_M x WARP_N sums, made of
//    a: TILE_M x TILE_K   |         |         |           16 x 8 squares; it reads its operands by ldmatrix one step of 16
//        +-------+        +---------+---------+           along k ahead of the arithmetic.
//        |       |        | WARP_M  |         |
//        |       |        | x WARP_N|   y     |
//        +-------+        +---------+---------+
//
// In shared memory a tile keeps the order that it has in global memory, either way round; ldmatrix.trans turns it:
//
//   A_INNER 1   a row of a is a run along k:          [TILE_M][TILE_K]
//   A_INNER 0   a column of a is a run of rows:       [TILE_K][TILE_M]
//   B_INNER 1   a column of b is a run along k:       [TILE_N][TILE_K]
//   B_INNER 0   a row of b is a run of columns:       [TILE_K][TILE_N]
//
// as chunks of 8 elements (16 bytes), the chunk's number XORed with its row's, so that the eight rows that ldmatrix reads at once
// lie in different banks:
//
//   row 0  | 0 1 2 3 4 5 6 7        row 1  | 1 0 3 2 5 4 7 6        row 2  | 2 3 0 1 6 7 4 5  ...
//
// A_COPY and B_COPY are the elements that are copied at once, along the run: 8 if every run begins at a multiple of 8 elements, strides
// (of the batch too) and first element, and its length (k if INNER, else m or n) is a multiple of 8 or has zeros behind it, up to one.
// 1: any strides at all.
//
// Tiles that the host chooses from, by the time that it expects (TILE_M, TILE_N, TILE_K, WARP_M, WARP_N, STAGES, RESIDENT):
//
//   128 256 64  64 64  3 1    128 of a lane's registers are sums; 48 KiB of operands for 4 million operations spare the L2 cache
//    64 128 64  32 64  4 2    for a few hundred tiles
//    64  64 64  32 32  4 3
//    32  32 64  16 16  6 4    for few tiles: many stages, since the way to memory is the time
//    16 128 64  16 32  6 2    m of 16 and less
//    32  32 64  16 16  4 2    elements one by one: registers left for what is on its way (docs/kernels/matmul.md has larger ones)
//
// Launch: blocks of THREADS, ceil(m / TILE_M) * ceil(n / TILE_N) * matrices * splits of them, shared memory of SHARED bytes; m, n and
// matrices are above 0 (k may be 0). sum_splits follows if splits > 1. Indices below 2^31.

#ifdef HOST_SHIM
#undef TYPE
#undef TYPE_Y
#define TYPE f16
#endif

#include "gemm/gemm.cuh"
#include "lib/launch.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

// The host says all of these; an editor's parser has one of the kernels.
#ifdef HOST_SHIM
#define A_INNER 1
#define B_INNER 0
#define A_COPY 1
#define B_COPY 1
#define TILE_M 128
#define TILE_N 128
#define TILE_K 32
#define WARP_M 64
#define WARP_N 32
#define STAGES 4
#define RESIDENT 1
#endif
#ifndef BAND
#define BAND 8
#endif

constexpr int CHUNK = 8;
constexpr int WARPS_M = TILE_M / WARP_M;
constexpr int THREADS = WARPS_M * (TILE_N / WARP_N) * WARP;
// Elements of one buffer.
constexpr int STAGE_A = TILE_M * TILE_K;
constexpr int STAGE = STAGE_A + TILE_N * TILE_K;
// Squares of 16 x 16 in a warp's part, and steps of 16 along k in a tile.
constexpr int SQUARES_M = WARP_M / 16, SQUARES_N = WARP_N / 16;
constexpr int STEPS = TILE_K / 16;
// 8 floats more than a warp's part is wide: the quads that write pairs of sums then meet different banks.
constexpr int LEAD_Y = WARP_N + 8;
// SHARED = max(STAGES * STAGE * 2, THREADS / 32 * 16 * LEAD_Y * 4)
static_assert(STEPS % 2 == 0, "operands alternate between two sets of registers");

// What the number of a chunk in row `row` of a tile with ROW chunks a row is XORed with: 8 chunks are 128 bytes, all banks once, so
// shorter rows share a pattern.
template <int ROW> INLINE int swizzle(int row) { return ROW >= 8 ? row % 8 : row / (8 / ROW) % ROW; }

// Moves one operand's tiles to shared memory: LINES are rows of a or columns of b. Beyond the matrix there are zeros.
template <int LINES, bool INNER, int COPY> struct TileLoader {
    static constexpr int ROW = (INNER ? TILE_K : LINES) / CHUNK;  // chunks of a row in shared memory
    static constexpr int ROWS = INNER ? LINES : TILE_K;
    static constexpr int ROW_STEP = THREADS / ROW;  // rows between a thread's chunks
    static constexpr int COUNT = (ROWS + ROW_STEP - 1) / ROW_STEP;
    static_assert(THREADS % ROW == 0, "whole rows at once");
    static_assert(COPY == CHUNK || COPY == 1, "whole chunks, or elements");

    const Element* from;
    i64 row_step, k_step, run_stride;
    u32 to;
    i32 row, chunk, rows_left;
    Pack<Element, CHUNK> held[COPY == 1 ? COUNT : 1];

    INLINE TileLoader(const Element* first, i64 line_stride, i64 k_stride, u32 line, u32 lines) {
        row = threadIdx.x / ROW;
        chunk = threadIdx.x % ROW * CHUNK;
        // Along a run the stride is known to be 1, unless elements are copied one by one.
        run_stride = COPY > 1 ? 1 : INNER ? k_stride : line_stride;
        i64 row_stride = INNER ? line_stride : k_stride;
        from = first + (INNER ? line * line_stride : line * run_stride) + row * row_stride + chunk * run_stride;
        row_step = ROW_STEP * row_stride;
        k_step = TILE_K * (INNER ? run_stride : row_stride);
        // Lines that the matrix has from the tile's first on.
        rows_left = lines - line;
        to = row * (ROW * CHUNK) + (threadIdx.x % ROW ^ swizzle<ROW>(row)) * CHUNK;
    }

    // Starts the next tile on its way; `left` of k are left from its beginning.
    INLINE void fetch(Element* tile, i32 left) {
        i32 rows_valid = INNER ? rows_left : left;
        i32 chunk_valid = (INNER ? left : rows_left) - chunk;
        const Element* source = from;
#pragma unroll
        for (int i = 0; i < COUNT; ++i, source += row_step) {
            if (ROWS % ROW_STEP != 0 && row + i * ROW_STEP >= ROWS) break;
            bool valid = row + i * ROW_STEP < rows_valid;
            if constexpr (COPY == 1) {
#pragma unroll
                for (int e = 0; e < CHUNK; ++e)
                    held[i].of[e] = valid && e < chunk_valid ? source[e * run_stride] : Element();
            } else {
                u32 target = cvta_to_shared(tile + to_of(i));
                cp_async<16>(target, source, valid && chunk_valid > 0);
            }
        }
        from += k_step;
    }
    // Ends it.
    INLINE void commit_to_smem(Element* tile) {
        if constexpr (COPY == 1) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                if (ROWS % ROW_STEP != 0 && row + i * ROW_STEP >= ROWS) break;
                store<Element, CHUNK>(tile + to_of(i), held[i]);
            }
        }
    }
    // The pattern of the banks repeats after 8 rows at most.
    INLINE u32 to_of(int i) {
        if constexpr (ROW_STEP % 8 == 0 || COUNT == 1) return to + i * ROW_STEP * ROW * CHUNK;
        int mine = row + i * ROW_STEP;
        return mine * (ROW * CHUNK) + (threadIdx.x % ROW ^ swizzle<ROW>(mine)) * CHUNK;
    }
};

// Where a lane's rows of the 8 x 8 matrices lie that its warp reads of one operand: four matrices at a time, two by two along the
// lines and along k. MATRIX_K: the second of the four lies along k (b), not along the lines (a).
template <int LINES, bool INNER, bool MATRIX_K> struct Reader {
    static constexpr int ROW = (INNER ? TILE_K : LINES) / CHUNK;
    u32 first;  // bytes from the start of the tile to this lane's row
    int chunk, pattern;

    INLINE Reader(int line, int lane) {
        int second = lane / 8 % 2, third = lane / 16;
        int along_k = MATRIX_K ? second : third;
        int along_lines = MATRIX_K ? third : second;
        int row = lane % 8 + 8 * (INNER ? along_lines : along_k) + (INNER ? line : 0);
        chunk = (INNER ? along_k : along_lines) + (INNER ? 0 : line / CHUNK);
        pattern = swizzle<ROW>(row);
        first = row * ROW * 16;
    }
    // Square `square` of 16 lines in step `step`; `tile` is the address of the tile.
    INLINE void read(u32 (&to)[4], u32 tile, int square, int step) const {
        if constexpr (INNER)
            ldmatrix_x4(to, tile + first + square * (16 * ROW * 16) + ((chunk + 2 * step) ^ pattern) * 16);
        else ldmatrix_x4_trans(to, tile + first + step * (16 * ROW * 16) + ((chunk + 2 * square) ^ pattern) * 16);
    }
};

typedef TileLoader<TILE_M, A_INNER, A_COPY> LoaderA;
typedef TileLoader<TILE_N, B_INNER, B_COPY> LoaderB;
typedef TilePipeline<LoaderA, LoaderB, Element*, TILE_K, STAGES, STAGE, STAGE_A> Tiles;
typedef WarpPart<WARPS_M, WARP_M, WARP_N> Part;
typedef float Sums[SQUARES_M][2 * SQUARES_N][4];

// A warp's operands of one step.
struct Operands {
    u32 a[SQUARES_M][4], b[SQUARES_N][4];
};
struct OperandReader {
    Reader<TILE_M, A_INNER, false> a;
    Reader<TILE_N, B_INNER, true> b;

    INLINE OperandReader(const Part& part) : a(part.row, part.lane), b(part.column, part.lane) {}
    // Of step `step`; `stage` is the address of the buffer.
    INLINE void read(Operands& to, u32 stage, int step) const {
#pragma unroll
        for (int i = 0; i < SQUARES_M; ++i) a.read(to.a[i], stage, i, step);
#pragma unroll
        for (int j = 0; j < SQUARES_N; ++j) b.read(to.b[j], stage + STAGE_A * 2, j, step);
    }
};

// The products of one step are added up.
INLINE void multiply(Sums& sums, const Operands& operands) {
#pragma unroll
    for (int j = 0; j < 2 * SQUARES_N; ++j)
#pragma unroll
        for (int i = 0; i < SQUARES_M; ++i) {
            const u32(&both)[4] = operands.b[j / 2];
            // Back and forth: neighbours in time share an operand.
            int to = j % 2 ? SQUARES_M - 1 - i : i;
            mma_m16n8k16(sums[to][j], operands.a[to], both[j % 2 * 2], both[j % 2 * 2 + 1], Element());
        }
}

// y of a warp's sums, a row of squares at a time by way of shared memory. Lane l holds columns 2 (l % 4) and the next of rows l / 4 and l / 4 + 8
// of a 16 x 8 square.
INLINE void finish_sums(const Product& p, const Tile& tile, const i64 (&at)[3], const Part& part, float* shared,
                        const Sums& sums) {
    float* block = shared + part.warp * (16 * LEAD_Y);
    float* mine = block + part.lane / 4 * LEAD_Y + part.lane % 4 * 2;
#pragma unroll
    for (int i = 0; i < SQUARES_M; ++i) {
#pragma unroll
        for (int j = 0; j < 2 * SQUARES_N; ++j) {
            store<float, 2>(mine + j * 8, Pack<float, 2>{{sums[i][j][0], sums[i][j][1]}});
            store<float, 2>(mine + 8 * LEAD_Y + j * 8, Pack<float, 2>{{sums[i][j][2], sums[i][j][3]}});
        }
        __syncwarp();
        finish_block<16, WARP_N, LEAD_Y>(p, tile, at, block, tile.row + part.row + i * 16, tile.column + part.column);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, RESIDENT) product(const __grid_constant__ Product p) {
    wait_for_earlier_launches();
    extern __shared__ __align__(128) u8 shared[];
    Element* stages = reinterpret_cast<Element*>(shared);
    i64 at[3];
    Tile tile = locate_tile<TILE_M, TILE_N, BAND>(p, blockIdx.x, at);
    KRange k(p, tile);
    LoaderA loader_a = loader_of_a<LoaderA>(p, tile, at, k);
    LoaderB loader_b = loader_of_b<LoaderB>(p, tile, at, k);
    Tiles tiles = {loader_a, loader_b, k, stages};
    Part part;
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
            // The next operands are read while these are multiplied, also across the end of the tile.
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
    tile = locate_tile<TILE_M, TILE_N, BAND>(p, opaque(blockIdx.x), at);
    finish_sums(p, tile, at, part, reinterpret_cast<float*>(shared), sums);
}
