// What the kernels of gemm/wgmma.cu share: macros, sizes, what is where in shared memory, parameters, tiles of a block.

#pragma once

#ifdef HOST_SHIM
#undef TYPE
#undef TYPE_Y
#define TYPE f16
#define TYPE_Y f16
#endif

#ifdef HOST_SHIM
#define A_INNER 1
#define B_INNER 0
#define TILE_M 128
#define TILE_N 128
#define STAGES 4
#define PINGPONG 0
#define EPILOGUE 2
#endif
#define WGMMA_N TILE_N

#define PRE_ACTIVATION 1
#define GRAD_OF_ACTIVATION 2
#define RESIDUAL 3
#ifndef EPILOGUE
#define EPILOGUE 0
#endif
// 1: operands of f32 in three parts of bf16 (split_bf16x3.cu), multiplied part by part.
#ifndef BF16X6
#define BF16X6 0
#endif
// 1: TF32 of which a runs along m, and is read into registers (wgmma_registers.cuh).
#ifndef A_FROM_REGISTERS
#define A_FROM_REGISTERS 0
#endif
// 1: what is stored is the transpose of the product: rows of a are columns of y.
#ifndef TURNED
#define TURNED 0
#endif

// 1: the sums over k of the rows of a beside the product (wgmma_sums.cuh).
#ifndef SUMS_OF_A
#define SUMS_OF_A 0
#endif

// Blocks of a cluster, below each other and side by side. Those of a row of tiles have the same a, those of a column the same b; each loads its share for
// all that have the same.
#ifndef CLUSTER_DOWN
#define CLUSTER_DOWN 1
#endif
#ifndef CLUSTER_ACROSS
#define CLUSTER_ACROSS 1
#endif

#include "gemm/gemm.cuh"
#include "ptx/cluster.cuh"
#include "ptx/cvt.cuh"
#include "ptx/tma.cuh"

constexpr int LINE = 128;                         // bytes of a line of a stage: a period of the swizzle
constexpr int RUN = LINE / int(sizeof(Element));  // elements of a line
// Bytes of a stage along k, and how many elements those are: less where there are three parts of each operand.
constexpr int K_LINE = BF16X6 ? 64 : LINE;
constexpr int TILE_K = K_LINE / int(sizeof(Element));
constexpr int STEPS = K_LINE / 32;  // wgmma takes 32 bytes of each line
constexpr int WARPGROUP = 128;
constexpr int CONSUMERS = 2;
constexpr int CLUSTER = CLUSTER_DOWN * CLUSTER_ACROSS;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr u32 PRODUCER_WARP = CONSUMERS * WARPGROUP / WARP;
constexpr int PARTS = BF16X6 ? 3 : 1;  // of each operand
// 504 registers of three warpgroups' threads: 168 each at launch, which 65536 / THREADS rounds down to. Rows of a take more than loads alone.
constexpr int PRODUCER_REGISTERS = SUMS_OF_A ? 40 : 24, CONSUMER_REGISTERS = SUMS_OF_A ? 232 : 240;

constexpr int PART_M = PINGPONG ? TILE_M : TILE_M / CONSUMERS;  // rows of a consumer
constexpr int BLOCKS = PART_M / 64;
// Where 64 sums and what is worked out of them fit a thread's 168, consumers need not wait for those of the producer.
constexpr bool MOVES_REGISTERS = BLOCKS * TILE_N > 128 || EPILOGUE || SUMS_OF_A || BF16X6;
// Stages whose products run on while the next one's are begun. Where a stage takes 128 cycles, or consumers release it at the barriers of other blocks, tensor
// cores would else stand still now and then until a warp has seen that products are complete. (At 64 x 128 without clusters two or three are slower:
// docs/kernels/matmul.md, What was tried.)
constexpr bool IS_SMALL = PINGPONG && BLOCKS * TILE_N <= 128 && !A_FROM_REGISTERS && !BF16X6;
constexpr u32 UNDER_WAY = !IS_SMALL ? 1 : CLUSTER > 1 ? 3 : TILE_N == 64 ? 2 : 1;
// Of a block's last tile that both consumers have: the second one begins its last PAUSE stages when the first one has begun all of its own. Tensor cores
// have work as before, and the first one stores meanwhile. All stages but one, which the second one may not have released yet.
constexpr u32 PAUSE = !PINGPONG && EPILOGUE == 0 && !A_FROM_REGISTERS && !BF16X6 ? 3 : 0;
static_assert(PAUSE < STAGES, "stages of the last tile that are loaded before the second consumer releases any");
constexpr int PART_A = TILE_M * K_LINE, PART_B = TILE_N * K_LINE;
constexpr int STAGE_A = PARTS * PART_A;
constexpr int STAGE = STAGE_A + PARTS * PART_B;
constexpr int SLAB_K = RUN * K_LINE;  // bytes of an operand across k, of the lines of k of a stage and a run
constexpr int SLAB = 64 * LINE;       // bytes of 64 lines
constexpr int SLAB_N = LINE / int(sizeof(Output));  // columns of y in a slab
constexpr int LINES_OUT = TURNED ? 32 : 64;         // rows of y in a box that is stored
constexpr int SLABS_ACROSS = TILE_N / SLAB_N;
constexpr int SLABS = BLOCKS * SLABS_ACROSS;  // of a consumer's tile

// Of the fused epilogues (wgmma_fused.cuh): a warp stores strips of its 16 rows from BUFFERS buffers of its own in turn.
constexpr int STRIP = 16 * LINE;
constexpr int BUFFERS =
    EPILOGUE == RESIDUAL ? 3 : 4;  // those of z and of y in pairs; beside f32 two biases of f32 need room, too
constexpr int WARPS = CONSUMERS * WARPGROUP / WARP;  // of the consumers
constexpr int SUMS_OF_TILE =
    PINGPONG ? WARPS / 2 : WARPS;  // rows of the matrix of column sums: of the warps that have a part of a tile

constexpr int OUT = STAGES * STAGE;  // where slabs or strips are on their way out: two slabs of each consumer
constexpr int BESIDE = OUT + (EPILOGUE ? WARPS * BUFFERS * STRIP : CONSUMERS * 2 * SLAB);
// Where the bias of each consumer's tile is, and of its next one.
constexpr int BIAS_BYTES = TILE_N * int(sizeof(Output));
constexpr int BESIDE_BYTES = EPILOGUE == PRE_ACTIVATION || EPILOGUE == RESIDUAL ? CONSUMERS * 2 * BIAS_BYTES : 0;
// Where the barriers are: full and empty of each stage, turns, full of each strip that is read beside.
constexpr int BARRIERS = BESIDE + BESIDE_BYTES;
constexpr int STRIP_BARRIERS = EPILOGUE ? WARPS * BUFFERS : 0;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = BARRIERS + 8 * (2 * STAGES + CONSUMERS + STRIP_BARRIERS + CONSUMERS) + SWIZZLE_ALIGNMENT: the last are notices (wgmma_parts.cuh)

static_assert(PART_M % 64 == 0 && TILE_N % 64 == 0, "whole slabs");
static_assert(sizeof(Element) == 2 || ((A_INNER || A_FROM_REGISTERS) && B_INNER), "TF32 is K-major in shared memory");
static_assert(!A_FROM_REGISTERS || (sizeof(Element) == 4 && !A_INNER && EPILOGUE == 0), "fragments of f32");
static_assert(!TURNED || (A_FROM_REGISTERS && sizeof(Output) == 4), "pairs of rows of f32 are turned");
static_assert(!BF16X6 || (!PINGPONG && EPILOGUE == 0), "two sets of sums, both consumers in one tile");

struct TensorMapProduct {
    TensorMap a, b, y;  // axes: run, line, fast and slow axis of the batch; of partial sums: column, row, matrix, split
    TensorMap z;        // the pre-activation or the residual, as y
    // What the first loads need stands together: parameters come from device memory, 64 bytes at a time.
    TileGrid tiles;  // of a cluster's blocks together
    u32 k, split_length;
    u32 a_axes, b_axes;  // bit 0: the operand has the fast axis of the batch, bit 1: the slow one
    u32 a_part, b_part;  // of BF16X6: from part to part along the slow axis of an operand's map
    u32 m, n, splits;
    u32 is_partial;  // y is that of partial sums
    float alpha;
    const Output* bias;  // null: none; else n neighbors from a multiple of two elements on
    // Null: none. Of GRAD_OF_ACTIVATION [ceil(m / TILE_M) * SUMS_OF_TILE, n], of the columns of y, some rows each; of SUMS_OF_A
    // [splits * ceil(n / TILE_N), m], of the rows of a, some stages each.
    float* sums;
    Constants constants;
    const u32* unfit;  // of BF16X6: what is not 0 where the parts do not stand for the operands
    // Of sums in parts that the blocks add up themselves (wgmma_parts.cuh): f32 [units, splits, sums of a unit] and a word of each unit, 0 between
    // kernels; null: none.
    float* parts;
    u32* states;
};

// SUMS_OF_A: the warps beside the producer's that add up rows of a, a slab each.
constexpr int SUM_WARPS = SUMS_OF_A ? TILE_M / 64 : 0;
static_assert(!SUMS_OF_A || (sizeof(Element) == 2 && !A_INNER && EPILOGUE == 0 && CLUSTER == 1 && !BF16X6),
              "slabs of 16-bit elements");

// Rows and columns of the tiles of a cluster.
constexpr int CLUSTER_M = CLUSTER_DOWN * TILE_M, CLUSTER_N = CLUSTER_ACROSS * TILE_N;
static_assert(64 % (8 * CLUSTER_DOWN) == 0 && 64 % (8 * CLUSTER_ACROSS) == 0, "shares of whole swizzle periods");
static_assert(CLUSTER == 1 || (sizeof(Element) == 2 && !BF16X6 && EPILOGUE == 0), "shares of 16-bit elements");

// Where a block's tile is among those of its cluster.
INLINE u32 rank_down() { return CLUSTER_DOWN == 1 ? 0 : read_cluster_ctarank() % CLUSTER_DOWN; }
INLINE u32 rank_across() { return CLUSTER_ACROSS == 1 ? 0 : read_cluster_ctarank() / CLUSTER_DOWN; }
// The blocks that a block has operands in common with, itself too: of its row and of its column.
constexpr u32 SHARING = CLUSTER_DOWN + CLUSTER_ACROSS - 1;
INLINE bool shares_with(u32 rank) { return rank % CLUSTER_DOWN == rank_down() || rank / CLUSTER_DOWN == rank_across(); }

INLINE u32 first_number() { return blockIdx.x / CLUSTER; }
INLINE u32 next_number(u32 number) { return number + gridDim.x / CLUSTER; }

// One tile of y, and where its operands begin. `number` is that of the tiles of a cluster.
struct Work {
    Tile tile;
    u32 first, blocks;  // along k: where it begins, and how many stages it takes
    i32 fast, slow;     // of the batch

    INLINE Work(const TensorMapProduct& p, u32 number) {
        tile = p.tiles.tile(number);
        tile.row = tile.row * CLUSTER_M + rank_down() * TILE_M;
        tile.column = tile.column * CLUSTER_N + rank_across() * TILE_N;
        first = tile.split * p.split_length;
        blocks = (min(p.k - first, p.split_length) + TILE_K - 1) / TILE_K;
        slow = divide(tile.matrix, p.tiles.fast);
        fast = tile.matrix - slow * p.tiles.fast.divisor;
    }
};

// The barrier of a consumer's turn to multiply.
INLINE u32 turn_of(u32 shared, u32 consumer) { return shared + BARRIERS + (2 * STAGES + consumer) * 8; }

// Which of 64 rows a lane's sums are of, and how far below the other one is. Where fragments are read into registers, a warp has 16 of 32 rows in
// neighboring pairs: 16 lanes that read such pairs of four lines of k meet every bank once.
INLINE u32 row_of_sums(u32 warp, u32 lane) {
    u32 group = lane / 4;
    if (!A_FROM_REGISTERS) return warp * 16 + group;
    return warp / 2 * 32 + group / 2 % 2 * 16 + group / 4 * 8 + warp % 2 * 4 + group % 2 * 2;
}
constexpr int NEXT_ROW = A_FROM_REGISTERS ? 1 : 8;

// A consumer's sums: of each 64 rows, each 8 columns. Lane l of warp w has of two rows (row_of_sums) the columns 2 (l % 4) and the next.
typedef float Sums[BLOCKS][TILE_N / 8][4];

INLINE u32 pair_of(float low, float high, f16) { return cvt_rn_f16x2_f32(high, low); }
INLINE u32 pair_of(float low, float high, bf16) { return cvt_rn_bf16x2_f32(high, low); }
template <class Half> INLINE float low_of(u32 pair, Half) { return widen(Half{u16(pair)}); }
template <class Half> INLINE float high_of(u32 pair, Half) { return widen(Half{u16(pair >> 16)}); }
