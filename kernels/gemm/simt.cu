// Matrix products on FMA units, in full precision: f32, f64, and integers. gemm.cuh defines the
// product and the macros of the epilogue.
//
//                      b: a tile of TILE_K x TILE_N
//                         +-------------------+
//                         |    |    |    |    |
//    a: TILE_M x TILE_K   +----+----+----+----+
//        +-------+        |warp|warp|warp|warp|
//        |       |        +----+----+----+----+
//        |       |        |    |    | y  |    |
//        +-------+        +----+----+----+----+
//
// A block computes one tile of y. Tiles of a and b pass through a ring buffer of STAGES stages in
// shared memory. A warp has LANES_M x LANES_N lanes, a lane THREAD_M x THREAD_N accumulators. It
// reads its operands of two k at a time, while those of the two k before are multiplied.
//
// COPY_A and COPY_B specify the layout of an operand in global memory, and with it the layout of
// its tile in shared memory. "Lines" are rows of a or columns of b:
//
//   VECTOR_MN   MN-major (lines have stride 1), copied 16 bytes at a time   [TILE_K][lines]
//   VECTOR_K    K-major (k has stride 1), copied 16 bytes at a time         [lines][TILE_K]
//   ELEMENTS_K  K-major (k has stride 1), copied by elements                [TILE_K][lines]
//   ELEMENTS    any strides, copied by elements                             [TILE_K][lines]
//
// With packs the first element is at a multiple of 16 bytes, and all strides except that of 1
// (those of the batch too) and the number of lines (VECTOR_MN) or k (VECTOR_K) are multiples of
// PACK. Types of 1 and 2 bytes are copied by elements. From [TILE_K][lines] a lane reads groups of
// PACK lines, one group of each LANES * PACK lines; from [lines][TILE_K] it reads two k of every
// LANES-th line. The rows of the tiles are padded by PACK elements, so that the lanes of a warp use
// different banks.
//
// Operands that are read as pairs along k are in pairs of registers, those of one k in even
// registers, those of the next in odd ones. If a has such pairs, operands and accumulators often
// use the same register bank, so that VECTOR_K for a and VECTOR_MN for b are slower than the
// reverse (docs/kernels/matmul.md, What was tried). So with 64 or more accumulators per lane, use
// ELEMENTS_K for a K-major a; VECTOR_K is right for b, and below 64 accumulators.
//
// Tiles that the host chooses from, by their predicted time (TILE_M, TILE_N, TILE_K, THREAD_M,
// THREAD_N, LANES_M, STAGES, BLOCKS_PER_SM blocks per multiprocessor). f32 and i32:
//
//   128 256  8   8 16  8  4 1    a block fills a multiprocessor: 128 accumulators per lane, 6 loads
//                                for 128 multiplications
//    64  64  8   8  8  8  4 6    for a few hundred tiles
//    32  32 32   4  4  4  3 7    for few tiles: long along k, since they are bound by memory
//                                latency; the only one for integers of 8 and 16 bits
//     8 256 32   4  4  2  3 2    m of 8 and less: bound by reading b, of which shared memory holds
//                                as much as possible
//
// f64, and i64 only with the second one:
//
//    64 128  8   8  8  8  3 2
//    64  64 16   4  4  4  3 2
//
// Launch: blocks of THREADS threads, ceil(m / TILE_M) * ceil(n / TILE_N) * matrices * splits of
// them, SHARED bytes of dynamic shared memory; m, n and matrices are above 0 (k may be 0).
// sum_splits follows if splits > 1. Indices are below 2^31.

#include "gemm/gemm.cuh"
#include "lib/launch.cuh"

// The host defines all of these; an editor's parser gets the macros of one of the kernels.
#ifdef HOST_SHIM
#define COPY_A ELEMENTS
#define COPY_B ELEMENTS
#define TILE_M 64
#define TILE_N 64
#define TILE_K 16
#define THREAD_M 8
#define THREAD_N 8
#define LANES_M 8
#define STAGES 3
#define BLOCKS_PER_SM 4
#endif
// Rows of tiles in a band: blocks that run at the same time share rows of a and columns of b in the
// L2 cache (locate_tile).
#ifndef BAND
#define BAND 8
#endif

constexpr int VECTOR_MN = 0, VECTOR_K = 1, ELEMENTS_K = 2, ELEMENTS = 3;
constexpr bool A_K_MAJOR = COPY_A == VECTOR_K, B_K_MAJOR = COPY_B == VECTOR_K;
constexpr int LANES_N = WARP / LANES_M;
constexpr int WARP_M = LANES_M * THREAD_M;
constexpr int WARP_N = LANES_N * THREAD_N;
constexpr int WARPS_M = TILE_M / WARP_M;
constexpr int THREADS = (TILE_M / THREAD_M) * (TILE_N / THREAD_N);
// Sums of one access of 16 bytes.
constexpr int PACK = 16 / sizeof(Sum);
// Elements from one row of a tile in smem to the next. Rows are padded by an access, so that the
// rows that lanes access together are in different banks.
constexpr int A_ROW_STRIDE = (A_K_MAJOR ? TILE_K : TILE_M) + PACK;
constexpr int B_ROW_STRIDE = (B_K_MAJOR ? TILE_K : TILE_N) + PACK;
constexpr int STAGE_A = (A_K_MAJOR ? TILE_M : TILE_K) * A_ROW_STRIDE;
constexpr int STAGE = STAGE_A + (B_K_MAJOR ? TILE_N : TILE_K) * B_ROW_STRIDE;
// The number of k whose operands a lane holds at once, and of columns that it multiplies at a time:
// all 16 columns and their successors would not fit in the registers in addition to 8 x 16
// accumulators.
constexpr int DEPTH = 2;
constexpr int PART = smallest(THREAD_N, 32 / sizeof(Sum));
constexpr int PARTS = THREAD_N / PART;
// Copies by elements need many addresses: then blocks may use all registers.
constexpr int BLOCKS =
    COPY_A <= VECTOR_K && COPY_B <= VECTOR_K ? BLOCKS_PER_SM : smallest(BLOCKS_PER_SM, 65536 / (256 * THREADS));
// The block of sums that one warp stages for store_block.
constexpr int BLOCK_M = LANES_M * PACK;
constexpr int Y_ROW_STRIDE = WARP_N + PACK;
// SHARED = max(STAGES * STAGE, THREADS / 32 * BLOCK_M * Y_ROW_STRIDE) * sizeof(Sum)

// Copies one operand's tiles of LINES x TILE_K to shared memory. Elements beyond k are 0. Sums of
// lines outside the matrix are never stored: these lines repeat the last one or (VECTOR_K) are 0,
// since reads of one line by all blocks again and again would be serialized.
template <int LINES, int FORM, int ROW_STRIDE> struct TileLoader {
    static constexpr bool K_MAJOR = FORM == VECTOR_K;
    static constexpr bool K_FIRST = FORM == VECTOR_K || FORM == ELEMENTS_K;
    // Elements of one access, along the lines or along k.
    static constexpr int WIDE_LINES = FORM == VECTOR_MN ? PACK : 1;
    static constexpr int WIDE_K = FORM == VECTOR_K ? PACK : 1;
    // Neighboring threads read neighboring addresses: along the lines, or along k. ELEMENTS_K: 8
    // threads along k (a sector of f32) and 4 lines, which use different banks when they are
    // stored.
    static constexpr int K_THREADS = FORM == ELEMENTS_K ? 8 : TILE_K / WIDE_K;
    static constexpr int THREADS_ALONG_LINES = smallest(LINES / WIDE_LINES, K_FIRST ? THREADS / K_THREADS : THREADS);
    static constexpr int THREADS_ALONG_K = THREADS / THREADS_ALONG_LINES;
    static constexpr int POINTERS = LINES / WIDE_LINES / THREADS_ALONG_LINES;
    static constexpr int STEPS = largest(1, TILE_K / (THREADS_ALONG_K * WIDE_K));
    static constexpr bool IDLE = THREADS_ALONG_K * WIDE_K > TILE_K;  // some threads copy nothing
    // Narrow types are widened during the copy, so they pass through registers.
    static constexpr bool THROUGH_REGISTERS = sizeof(Element) != sizeof(Sum);
    static_assert(THREADS % THREADS_ALONG_LINES == 0 && LINES % (WIDE_LINES * THREADS_ALONG_LINES) == 0,
                  "all threads copy equally many lines");
    static_assert(IDLE || TILE_K % (THREADS_ALONG_K * WIDE_K) == 0, "all threads copy equally much along k");
    static_assert(!THROUGH_REGISTERS || FORM == ELEMENTS_K || FORM == ELEMENTS, "packs are copied unchanged");

    const Element* from[POINTERS];
    i64 stride;
    u32 deep, to;
    i32 lines_left;
    Element held[THROUGH_REGISTERS ? POINTERS * STEPS : 1];

    INLINE TileLoader(const Element* first, i64 line_stride, i64 k_stride, u32 line, u32 lines) {
        u32 along = (K_FIRST ? threadIdx.x / THREADS_ALONG_K : threadIdx.x % THREADS_ALONG_LINES) * WIDE_LINES;
        deep = (K_FIRST ? threadIdx.x % THREADS_ALONG_K : threadIdx.x / THREADS_ALONG_LINES) * WIDE_K;
        stride = K_FIRST ? 1 : k_stride;
        to = K_MAJOR ? along * ROW_STRIDE + deep : deep * ROW_STRIDE + along;
        lines_left = i32(lines - line) - i32(along);
#pragma unroll
        for (int i = 0; i < POINTERS; ++i) {
            u32 mine = min(line + along + i * THREADS_ALONG_LINES * WIDE_LINES, lines - WIDE_LINES);
            from[i] = first + mine * (FORM == VECTOR_MN ? i64(1) : line_stride) + deep * stride;
        }
    }
    // The address in the tile of access (i, step).
    INLINE Sum* target(Sum* tile, int i, int step) const {
        int lines = i * THREADS_ALONG_LINES * WIDE_LINES, k = step * THREADS_ALONG_K * WIDE_K;
        return tile + to + (K_MAJOR ? lines * ROW_STRIDE + k : k * ROW_STRIDE + lines);
    }

    // Issues the loads of the next tile; `left` is the length of k from its start.
    INLINE void fetch(Sum* tile, i32 left) {
        if (IDLE && deep >= TILE_K) return;
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            bool in_k = i32(deep) + step * THREADS_ALONG_K * WIDE_K < left;
#pragma unroll
            for (int i = 0; i < POINTERS; ++i) {
                bool valid = in_k && (!K_MAJOR || i * THREADS_ALONG_LINES < lines_left);
                const Element* source = from[i] + step * THREADS_ALONG_K * WIDE_K * stride;
                if constexpr (THROUGH_REGISTERS) held[i * STEPS + step] = valid ? *source : Element();
                else
                    cp_async<WIDE_LINES * WIDE_K * sizeof(Element)>(cvta_to_shared(target(tile, i, step)), source,
                                                                    valid);
            }
        }
#pragma unroll
        for (int i = 0; i < POINTERS; ++i) from[i] += TILE_K * stride;
    }
    // Stores the elements that pass through registers.
    INLINE void commit_to_smem(Sum* tile) {
        if constexpr (THROUGH_REGISTERS) {
            if (IDLE && deep >= TILE_K) return;
#pragma unroll
            for (int i = 0; i < POINTERS; ++i)
#pragma unroll
                for (int step = 0; step < STEPS; ++step) *target(tile, i, step) = Sum(widen(held[i * STEPS + step]));
        }
    }
};

// A lane's lines of one operand: one of every LANES lines of its warp, which start at `line`.
template <int LANES, bool K_MAJOR, int ROW_STRIDE> struct Reader {
    int first, lane;

    INLINE Reader(int line, int lane) : first(K_MAJOR ? (line + lane) * ROW_STRIDE : line + lane * PACK), lane(lane) {}
    // The index of the lane's line i in the warp's lines.
    INLINE int line(int i) const {
        return K_MAJOR ? i * LANES + lane : i / PACK * LANES * PACK + lane * PACK + i % PACK;
    }
    // Reads COUNT of the lane's lines from `begin` on, for DEPTH k from `k` on.
    template <int COUNT> INLINE void read(Sum (&to)[DEPTH][COUNT], const Sum* tile, int begin, int k) const {
        if constexpr (K_MAJOR) {
#pragma unroll
            for (int i = 0; i < COUNT; ++i) {
                Pack<Sum, DEPTH> pack = load<Sum, DEPTH>(tile + first + (begin + i) * LANES * ROW_STRIDE + k);
#pragma unroll
                for (int e = 0; e < DEPTH; ++e) to[e][i] = pack.of[e];
            }
        } else {
#pragma unroll
            for (int e = 0; e < DEPTH; ++e)
#pragma unroll
                for (int i = 0; i < COUNT; i += PACK) {
                    Pack<Sum, PACK> pack = load<Sum, PACK>(tile + first + (k + e) * ROW_STRIDE + (begin + i) * LANES);
#pragma unroll
                    for (int in = 0; in < PACK; ++in) to[e][i + in] = pack.of[in];
                }
        }
    }
};

INLINE float multiply_add(float a, float b, float sum) { return fmaf(a, b, sum); }
INLINE double multiply_add(double a, double b, double sum) { return fma(a, b, sum); }
INLINE u32 multiply_add(u32 a, u32 b, u32 sum) { return a * b + sum; }
INLINE u64 multiply_add(u64 a, u64 b, u64 sum) { return a * b + sum; }

// Stores one sum, without vectorizing it with its neighbors: a store of four would force sums into
// four consecutive registers, and those share a register bank with b in every multiply_add.
INLINE void store_scalar(Sum* to, Sum value) { *reinterpret_cast<volatile Sum*>(to) = value; }

typedef TileLoader<TILE_M, COPY_A, A_ROW_STRIDE> LoaderA;
typedef TileLoader<TILE_N, COPY_B, B_ROW_STRIDE> LoaderB;
typedef TilePipeline<LoaderA, LoaderB, Sum*, TILE_K, STAGES, STAGE, STAGE_A> Tiles;
typedef WarpTile<WARPS_M, WARP_M, WARP_N> Part;
typedef Sum Sums[THREAD_M][THREAD_N];

// A lane's lines of both operands. Neighboring lanes alternate between two lines of the operand
// with fewer lanes: a quarter of a warp then reads half as much.
struct OperandReader {
    static constexpr int MANY = largest(LANES_M, LANES_N);
    Reader<LANES_M, A_K_MAJOR, A_ROW_STRIDE> a;
    Reader<LANES_N, B_K_MAJOR, B_ROW_STRIDE> b;

    INLINE OperandReader(const Part& part)
        : OperandReader(part, part.lane / (2 * MANY) * 2 + part.lane % 2, part.lane / 2 % MANY) {}
    INLINE OperandReader(const Part& part, int of_few, int of_many)
        : a(part.row, LANES_M < LANES_N ? of_few : of_many), b(part.column, LANES_M < LANES_N ? of_many : of_few) {}
};

// Adds the products of DEPTH k to the accumulators, for PART columns from `first` on.
INLINE void multiply(Sums& sums, const Sum (&a)[DEPTH][THREAD_M], const Sum (&b)[DEPTH][PART], int first) {
#pragma unroll
    for (int e = 0; e < DEPTH; ++e)
#pragma unroll
        for (int j = 0; j < PART; ++j)
#pragma unroll
            for (int i = 0; i < THREAD_M; ++i) {
                Sum& sum = sums[i][first + j];
                sum = multiply_add(a[e][i], b[e][j], sum);
            }
}

// Stores a warp's sums to y through shared memory, BLOCK_M rows at a time.
INLINE void store_accumulators(const GemmParams& p, const Tile& tile, const i64 (&at)[3], const Part& part,
                               const OperandReader& reader, Sum* shared, const Sums& sums) {
    Sum* block = shared + part.warp * (BLOCK_M * Y_ROW_STRIDE);
#pragma unroll
    for (int group = 0; group < THREAD_M; group += PACK) {
#pragma unroll
        for (int i = group; i < group + PACK; ++i) {
            Sum* to = block + (reader.a.line(i) - group * LANES_M) * Y_ROW_STRIDE;
#pragma unroll
            for (int j = 0; j < THREAD_N; ++j) store_scalar(to + reader.b.line(j), sums[i][j]);
        }
        __syncwarp();
        store_block<BLOCK_M, WARP_N, Y_ROW_STRIDE>(p, tile, at, block, tile.row + part.row + group * LANES_M,
                                                   tile.column + part.column);
        __syncwarp();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) product(const __grid_constant__ GemmParams p) {
    wait_for_earlier_launches();
    if (!should_run(p)) return;
    extern __shared__ __align__(16) u8 shared[];
    Sum* stages = reinterpret_cast<Sum*>(shared);
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

    Sum a[2][DEPTH][THREAD_M], b[2][DEPTH][PART];
    const Sum* reading = stages;
    Sum* writing = stages + (STAGES - 1) * STAGE;
    reader.a.read(a[0], reading, 0, 0);
    reader.b.read(b[0], reading + STAGE_A, 0, 0);
    constexpr int STEPS = TILE_K / DEPTH * PARTS;
    static_assert(TILE_K % (2 * DEPTH) == 0, "operands are double buffered in registers");
#pragma unroll 1
    for (i32 done = 0; done < k.length; done += TILE_K) {
#pragma unroll
        for (int step = 0; step < STEPS; ++step) {
            // The next operands are read while these are multiplied, also across the end of the
            // tile.
            if (step == STEPS - 1) {
                tiles.commit_to_smem(writing);
                writing = writing == stages + (STAGES - 1) * STAGE ? stages : writing + STAGE;
                reading = reading == stages + (STAGES - 1) * STAGE ? stages : reading + STAGE;
                tiles.await_tile();
            }
            int next = (step + 1) % STEPS;
            int next_k = next / PARTS * DEPTH;
            if (next % PARTS == 0) reader.a.read(a[(step + 1) / PARTS % 2], reading, 0, next_k);
            reader.b.read(b[(step + 1) % 2], reading + STAGE_A, next % PARTS * PART, next_k);
            if (step == 0) {
                tiles.fetch(writing);
                tiles.commit_group();
            }
            multiply(sums, a[step / PARTS % 2], b[step % 2], step % PARTS * PART);
        }
    }
    tiles.drain();
    // Computed again, so that no registers hold the tile during the main loop.
    tile = locate_tile<TILE_M, TILE_N, BAND>(p, opaque(blockIdx.x), at);
    store_accumulators(p, tile, at, part, reader, stages, sums);
}
