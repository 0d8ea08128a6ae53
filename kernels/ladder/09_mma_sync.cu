// Ladder, 9: y = a b in bf16 on the tensor cores by mma.sync (sm_80), for study (ladder/matrices.cuh says what is computed). Sums in f32, rounded once
// to bf16.
//
// Idea: a tensor core multiplies a 16 x 16 part of a by a 16 x 8 part of b in one instruction of a warp: 2048 multiply-adds, where an fmaf of a warp
// has 32. The operands stand in registers in an order of its own, which ldmatrix reads from shared memory, four 8 x 8 matrices at a time; its variant
// .trans turns them, so that b needs no turned copy. For the eight rows of a matrix to be in different banks, chunks of 16 bytes are permuted within
// their row: chunk c of row r is stored at c ^ (r % 8). Copies by cp.async go from global to shared memory past the registers, STAGES - 1 tiles ahead.
//
//                      b: TILE_K x TILE_N
//                         +---------+---------+           tiles of a and b pass through a ring:
//    a: TILE_M x TILE_K   |         |         |
//        +-------+        +---------+---------+           | stage 0 | stage 1 | stage 2 |
//        |       |        | WARP_M  |         |             read now    under way by cp.async
//        |       |        | x WARP_N|   y     |
//        +-------+        +---------+---------+           a warp: WARP_M / 16 by WARP_N / 8 squares of 16 x 8 sums
//
// Limits: 8 divides k and n, rows begin at multiples of 16 bytes. Edges of the tiles are guarded: beyond a and b there are zeros.
//
// Launch: blocks of THREADS, ceil(n / TILE_N) x ceil(m / TILE_M) of them, STAGES (TILE_M + TILE_N) TILE_K 2 bytes of shared memory.

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

constexpr int CHUNK = 8;  // elements of 16 bytes
constexpr int WARPS_N = TILE_N / WARP_N;
constexpr int THREADS = TILE_M / WARP_M * WARPS_N * WARP;
constexpr int ROW_A = TILE_K * 2, ROW_B = TILE_N * 2;  // bytes of a row of a tile
constexpr int STAGE_A = TILE_M * ROW_A;
constexpr int STAGE = STAGE_A + TILE_K * ROW_B;
constexpr int SQUARES_M = WARP_M / 16, PAIRS_N = WARP_N / 16;  // ldmatrix reads b for two squares at once
static_assert(ROW_A % 128 == 0 && ROW_B % 128 == 0, "a row has whole groups of the eight chunks that are permuted");

// Chunk `chunk` of row `row` of a tile whose rows are ROW bytes long.
template <int ROW> INLINE u32 address_of(u32 tile, int row, int chunk) {
    return tile + row * ROW + (chunk ^ (row % 8)) * 16;
}

// Begins the copies of a tile of ROWS rows, each ROW bytes, from [first_row, first_column] of a matrix on.
template <int ROWS, int ROW>
INLINE void copy_tile(u32 tile, const bf16* matrix, u32 first_row, u32 first_column, u32 rows, u32 columns) {
    constexpr int PER_ROW = ROW / 16;
    static_assert(ROWS * PER_ROW % THREADS == 0, "every thread copies as many chunks");
#pragma unroll
    for (int i = 0; i < ROWS * PER_ROW / THREADS; ++i) {
        int at = threadIdx.x + i * THREADS, row = at / PER_ROW, chunk = at % PER_ROW;
        u32 r = first_row + row, c = first_column + chunk * CHUNK;
        bool is_inside = r < rows && c < columns;
        cp_async<16>(address_of<ROW>(tile, row, chunk), matrix + (is_inside ? r * columns + c : 0), is_inside);
    }
}
// Both tiles of TILE_K from k on, as a group of copies; beyond the last k a group of zeros, so that all groups can be counted.
INLINE void copy_stage(const Matrices<bf16>& p, u32 stage, u32 row, u32 column, u32 k) {
    copy_tile<TILE_M, ROW_A>(stage, p.a, row, k, p.m, p.k);
    copy_tile<TILE_K, ROW_B>(stage + STAGE_A, p.b, k, column, p.k, p.n);
    cp_async_commit_group();
}

typedef float Sums[SQUARES_M][2 * PAIRS_N][4];

// The products of one stage, of the warp's part at [row, column].
INLINE void multiply(Sums& sums, u32 stage, int row, int column, int lane) {
#pragma unroll
    for (int step = 0; step < TILE_K / 16; ++step) {
        u32 a[SQUARES_M][4], b[PAIRS_N][4];
        // Lanes 0 to 15 name the rows of the first chunk, the others those of the second one.
#pragma unroll
        for (int i = 0; i < SQUARES_M; ++i)
            ldmatrix_x4(a[i], address_of<ROW_A>(stage, row + i * 16 + lane % 16, step * 2 + lane / 16));
#pragma unroll
        for (int j = 0; j < PAIRS_N; ++j) {
            int chunk = (column + j * 16) / CHUNK + lane / 16;
            ldmatrix_x4_trans(b[j], address_of<ROW_B>(stage + STAGE_A, step * 16 + lane % 16, chunk));
        }
#pragma unroll
        for (int i = 0; i < SQUARES_M; ++i)
#pragma unroll
            for (int j = 0; j < 2 * PAIRS_N; ++j)
                mma_m16n8k16(sums[i][j], a[i], b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1], bf16());
    }
}

// The sums into y, two neighbors at once. A lane has columns 2 (lane % 4) and the next of rows lane / 4 and lane / 4 + 8 of a square.
INLINE void store_sums(const Matrices<bf16>& p, const Sums& sums, u32 row, u32 column, int lane) {
    u32* y = reinterpret_cast<u32*>(p.y);
#pragma unroll
    for (int i = 0; i < SQUARES_M; ++i)
#pragma unroll
        for (int j = 0; j < 2 * PAIRS_N; ++j)
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                u32 r = row + i * 16 + below * 8 + lane / 4, c = column + j * 8 + lane % 4 * 2;
                const float (&four)[4] = sums[i][j];
                if (r < p.m && c < p.n) y[(r * p.n + c) / 2] = cvt_rn_bf16x2_f32(four[below * 2 + 1], four[below * 2]);
            }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) product(const __grid_constant__ Matrices<bf16> p) {
    extern __shared__ __align__(128) u8 shared[];
    u32 first = cvta_to_shared(shared);
    u32 row = blockIdx.y * TILE_M, column = blockIdx.x * TILE_N;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    int warp_row = warp / WARPS_N * WARP_M, warp_column = warp % WARPS_N * WARP_N;
    u32 ahead = 0;  // the k that is copied next
#pragma unroll
    for (int stage = 0; stage < STAGES - 1; ++stage, ahead += TILE_K)
        copy_stage(p, first + stage * STAGE, row, column, ahead);
    Sums sums = {};
    int reading = 0, writing = STAGES - 1;
#pragma unroll 1
    for (u32 k = 0; k < p.k; k += TILE_K, ahead += TILE_K) {
        // This thread's copies of the stage have ended, then everybody's; and nobody reads the stage before any more, which is filled anew.
        cp_async_wait_group<STAGES - 2>();
        __syncthreads();
        copy_stage(p, first + writing * STAGE, row, column, ahead);
        multiply(sums, first + reading * STAGE, warp_row, warp_column, lane);
        reading = reading == STAGES - 1 ? 0 : reading + 1;
        writing = writing == STAGES - 1 ? 0 : writing + 1;
    }
    // Nothing is under way when the block ends.
    cp_async_wait_group<0>();
    store_sums(p, sums, row + warp_row, column + warp_column, lane);
}
