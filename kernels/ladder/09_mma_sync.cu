// GEMM ladder, file 9 (mma.sync; kernel 10 of docs/kernels/gemm-ladder.md): y = a b in bf16 on the
// tensor cores by mma.sync (sm_80). Accumulators are f32, rounded once to bf16. A study kernel;
// operands and shapes are in ladder/matrices.cuh.
//
// Idea: one mma.sync instruction of a warp multiplies a 16 x 16 tile of a by a 16 x 8 tile of b on
// a tensor core: 2048 multiply-adds, where an FMA of a warp does 32. The operands are register
// fragments with a fixed layout. ldmatrix loads them from shared memory, four 8 x 8 matrices at a
// time; its variant .trans transposes them, so that b needs no transposed copy. Swizzle: chunk c
// (16 bytes) of row r is stored at c ^ (r % 8), so that the eight rows of an 8 x 8 matrix are in
// different banks. cp.async copies from global to shared memory without going through registers,
// STAGES - 1 tiles ahead.
//
//                      b: TILE_K x TILE_N
//                         +---------+---------+   ring buffer of tiles of a and b:
//    a: TILE_M x TILE_K   |         |         |
//        +-------+        +---------+---------+   | stage 0 | stage 1 | stage 2 |
//        |       |        | WARP_M  |         |     read now    cp.async in flight
//        |       |        | x WARP_N|   y     |
//        +-------+        +---------+---------+   a warp: WARP_M / 16 x WARP_N / 8 accumulators
//                                                 of 16 x 8
//
// Launch: ceil(n / TILE_N) x ceil(m / TILE_M) blocks of THREADS,
// STAGES (TILE_M + TILE_N) TILE_K 2 bytes of dynamic shared memory.
//
// Limits: n and k are multiples of 8, a, b and y are aligned to 16 bytes. Tiles at the edges are
// bounds-checked: elements outside a and b are read as 0.

#ifdef HOST_SHIM
#define TILE_M 128
#define TILE_N 128
#define TILE_K 64
#define WARP_M 64
#define WARP_N 32
#define STAGES 3
#endif

#include "ladder/matrices.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

constexpr int CHUNK = 8;  // elements in 16 bytes
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = TILE_M / WARP_M * WARPS_N * WARP;
constexpr int ROW_A = TILE_K * 2, ROW_B = TILE_N * 2;  // bytes of a row of a tile
constexpr int STAGE_A = TILE_M * ROW_A;
constexpr int STAGE = STAGE_A + TILE_K * ROW_B;
// 16 x 8 accumulators down, and pairs of them across: one ldmatrix reads b for a pair.
constexpr int MMA_TILES_M = WARP_M / 16, MMA_PAIRS_N = WARP_N / 16;
static_assert(ROW_A % 128 == 0 && ROW_B % 128 == 0, "a row is a multiple of the 128-byte swizzle period");

// The swizzled address of chunk `chunk` of row `row`, in a tile with rows of ROW bytes.
template <int ROW> INLINE u32 address_of(u32 tile, int row, int chunk) {
    return tile + row * ROW + (chunk ^ (row % 8)) * 16;
}

// Issues the copies of a tile of ROWS rows of ROW bytes, which starts at [first_row, first_column]
// of the matrix.
template <int ROWS, int ROW>
INLINE void copy_tile(u32 tile, const bf16* matrix, u32 first_row, u32 first_column, u32 rows, u32 columns) {
    constexpr int PER_ROW = ROW / 16;
    static_assert(ROWS * PER_ROW % THREADS == 0, "all threads copy the same number of chunks");
#pragma unroll
    for (int i = 0; i < ROWS * PER_ROW / THREADS; ++i) {
        int index = threadIdx.x + i * THREADS, row = index / PER_ROW, chunk = index % PER_ROW;
        u32 r = first_row + row, c = first_column + chunk * CHUNK;
        bool is_inside = r < rows && c < columns;
        cp_async<16>(address_of<ROW>(tile, row, chunk), matrix + (is_inside ? r * columns + c : 0), is_inside);
    }
}
// Issues the copies of the stage at k, both tiles, as one cp.async group. After the last k it is a
// group of zero fills, so that the number of pending groups stays constant.
INLINE void copy_stage(const Matrices<bf16>& p, u32 stage, u32 row, u32 column, u32 k) {
    copy_tile<TILE_M, ROW_A>(stage, p.a, row, k, p.m, p.k);
    copy_tile<TILE_K, ROW_B>(stage + STAGE_A, p.b, k, column, p.k, p.n);
    cp_async_commit_group();
}

typedef float Accumulators[MMA_TILES_M][2 * MMA_PAIRS_N][4];

// Multiplies one stage into the accumulators of the warp tile at [row, column].
INLINE void multiply_stage(Accumulators& accumulators, u32 stage, int row, int column, int lane) {
#pragma unroll
    for (int step = 0; step < TILE_K / 16; ++step) {
        u32 a[MMA_TILES_M][4], b[MMA_PAIRS_N][4];
        // Lanes 0 to 15 give the row addresses of the first chunk, lanes 16 to 31 of the second.
#pragma unroll
        for (int i = 0; i < MMA_TILES_M; ++i)
            ldmatrix_x4(a[i], address_of<ROW_A>(stage, row + i * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < MMA_PAIRS_N; ++j) {
            int chunk = (column + j * 16) / CHUNK + lane / 16;
            ldmatrix_x4_trans(b[j], address_of<ROW_B>(stage + STAGE_A, step * 16 + lane % 16, chunk));
        }
#pragma unroll
        for (int i = 0; i < MMA_TILES_M; ++i)
#pragma unroll
            for (int j = 0; j < 2 * MMA_PAIRS_N; ++j)
                mma_m16n8k16(accumulators[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], bf16());
    }
}

// Epilogue: stores the accumulators to y, two adjacent columns at a time. Of each 16 x 8
// accumulator, a lane has columns 2 (lane % 4) and 2 (lane % 4) + 1 of rows lane / 4 and
// lane / 4 + 8.
INLINE void store_accumulators(const Matrices<bf16>& p, const Accumulators& accumulators, u32 row, u32 column,
                               int lane) {
    u32* y = reinterpret_cast<u32*>(p.y);
#pragma unroll
    for (int i = 0; i < MMA_TILES_M; ++i)
#pragma unroll
        for (int j = 0; j < 2 * MMA_PAIRS_N; ++j)
#pragma unroll
            for (int row_half = 0; row_half < 2; ++row_half) {
                u32 r = row + i * 16 + row_half * 8 + lane / 4, c = column + j * 8 + lane % 4 * 2;
                const float (&fragment)[4] = accumulators[i][j];
                if (r < p.m && c < p.n)
                    y[(r * p.n + c) / 2] = cvt_rn_bf16x2_f32(fragment[row_half * 2 + 1], fragment[row_half * 2]);
            }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) product(const __grid_constant__ Matrices<bf16> p) {
    extern __shared__ __align__(128) u8 shared[];
    u32 first = cvta_to_shared(shared);
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    u32 next_k = 0;  // the k of the next stage to copy
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, next_k += TILE_K)
        copy_stage(p, first + stage * STAGE, row, column, next_k);
    Accumulators accumulators = {};
    int read_stage = 0, write_stage = STAGES - 1;
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K, next_k += TILE_K) {
        // This thread's copies of the stage are complete; after the barrier, those of all threads
        // are. All threads have also finished reading the previous stage, which is refilled.
        cp_async_wait_group<STAGES - 2>();
        __syncthreads();
        copy_stage(p, first + write_stage * STAGE, row, column, next_k);
        multiply_stage(accumulators, first + read_stage * STAGE, warp_row, warp_column, lane);
        read_stage = read_stage == STAGES - 1 ? 0 : read_stage + 1;
        write_stage = write_stage == STAGES - 1 ? 0 : write_stage + 1;
    }
    // No copy is in flight when the block exits.
    cp_async_wait_group<0>();
    store_accumulators(p, accumulators, row + warp_row, column + warp_column, lane);
}
