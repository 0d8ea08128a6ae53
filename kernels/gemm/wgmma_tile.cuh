// Shared by the kernels of gemm/wgmma.cu: macros, sizes, the layout of shared memory, parameters,
// and the work tiles of a block.

#pragma once

#ifdef HOST_SHIM
#undef TYPE
#undef TYPE_Y
#define TYPE f16
#define TYPE_Y f16
#endif

#ifdef HOST_SHIM
#define A_K_MAJOR 1
#define B_K_MAJOR 0
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
// 1: each f32 operand is split into three bf16 terms (split_bf16x3.cu), multiplied pair by pair.
#ifndef BF16X6
#define BF16X6 0
#endif
// 1: TF32 with an M-major a, which consumers load into registers (wgmma_registers.cuh).
#ifndef A_FROM_REGISTERS
#define A_FROM_REGISTERS 0
#endif
// 1: the kernel stores the transpose of its product: rows of a are columns of y.
#ifndef TRANSPOSED
#define TRANSPOSED 0
#endif

// 1: also computes the sums over k of the rows of a (wgmma_sums.cuh).
#ifndef SUMS_OF_A
#define SUMS_OF_A 0
#endif

// Blocks of a cluster along m and along n. Blocks in one row of the cluster have the same tile of
// a, blocks in one column the same tile of b. Each loads its part for all blocks with the same
// tile.
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

constexpr int LINE_BYTES = 128;  // of a line of a stage: the swizzle width
constexpr int LINE_ELEMENTS = LINE_BYTES / int(sizeof(Element));
// Bytes and elements of a stage along k: half as many with BF16X6, where operands have three terms.
constexpr int TILE_K_BYTES = BF16X6 ? 64 : LINE_BYTES;
constexpr int TILE_K = TILE_K_BYTES / int(sizeof(Element));
constexpr int STEPS = TILE_K_BYTES / 32;  // a WGMMA takes 32 bytes along k
constexpr int WARPGROUP = 128;
constexpr int CONSUMERS = 2;
constexpr int CLUSTER = CLUSTER_DOWN * CLUSTER_ACROSS;
constexpr int THREADS = (1 + CONSUMERS) * WARPGROUP;
constexpr u32 PRODUCER_WARP = CONSUMERS * WARPGROUP / WARP;
constexpr int TERMS = BF16X6 ? 3 : 1;  // bf16 terms of each operand
// Registers of a thread. One thread of each of the three warpgroups has 504 together: 3 * 168, and
// 168 is 65536 / THREADS rounded down, as at launch. Row sums of a take more than loads.
constexpr int PRODUCER_REGISTERS = SUMS_OF_A ? 40 : 24, CONSUMER_REGISTERS = SUMS_OF_A ? 232 : 240;

constexpr int CONSUMER_M = PINGPONG ? TILE_M : TILE_M / CONSUMERS;  // rows of a consumer
constexpr int ATOMS_M = CONSUMER_M / 64;                            // WGMMAs that cover its rows
// Where 64 accumulators and the epilogue's temporaries fit into 168 registers, consumers need not
// wait for registers that the producer releases.
constexpr bool MOVES_REGISTERS = ATOMS_M * TILE_N > 128 || EPILOGUE || SUMS_OF_A || BF16X6;
// Stages whose WGMMAs stay in flight while those of the next stage are issued. Where a stage takes
// 128 cycles, or consumers release it at the barriers of other blocks, tensor cores would otherwise
// idle now and then until a warp has observed that WGMMAs are complete. (At 64 x 128 without
// clusters, two or three are slower: docs/kernels/matmul.md, What was tried.)
constexpr bool IS_SMALL = PINGPONG && ATOMS_M * TILE_N <= 128 && !A_FROM_REGISTERS && !BF16X6;
constexpr u32 STAGES_IN_FLIGHT = !IS_SMALL ? 1 : CLUSTER > 1 ? 3 : TILE_N == 64 ? 2 : 1;
// In a block's last tile that both consumers share, the second one begins its last LAG_STAGES
// stages when the first one has issued all its stages. Tensor cores have as much work as before,
// and the first one stores meanwhile. LAG_STAGES is at most STAGES - 1: the second one may not have
// released the stage before.
constexpr u32 LAG_STAGES = !PINGPONG && EPILOGUE == 0 && !A_FROM_REGISTERS && !BF16X6 ? 3 : 0;
static_assert(LAG_STAGES < STAGES, "stages of the last tile that are loaded before the second consumer releases any");
constexpr int TERM_A_BYTES = TILE_M * TILE_K_BYTES, TERM_B_BYTES = TILE_N * TILE_K_BYTES;
constexpr int STAGE_A_BYTES = TERMS * TERM_A_BYTES;
constexpr int STAGE_BYTES = STAGE_A_BYTES + TERMS * TERM_B_BYTES;
// Bytes of a slab of an MN-major operand: the stage's lines of k, LINE_ELEMENTS elements each.
constexpr int SLAB_K_BYTES = LINE_ELEMENTS * TILE_K_BYTES;
constexpr int SLAB_BYTES = 64 * LINE_BYTES;                     // bytes of 64 lines
constexpr int SLAB_COLUMNS = LINE_BYTES / int(sizeof(Output));  // columns of y in a slab
constexpr int STORE_BOX_ROWS = TRANSPOSED ? 32 : 64;            // rows of y in a stored box
constexpr int SLABS_ACROSS = TILE_N / SLAB_COLUMNS;
constexpr int SLABS = ATOMS_M * SLABS_ACROSS;  // of a consumer's tile

// Fused epilogues (wgmma_fused.cuh): a warp stores strips of its 16 rows from its ring of BUFFERS
// buffers. PRE_ACTIVATION uses them in pairs, for z and y. RESIDUAL has fewer because its two f32
// biases need shared memory, too.
constexpr int STRIP_BYTES = 16 * LINE_BYTES;
constexpr int BUFFERS = EPILOGUE == RESIDUAL ? 3 : 4;
constexpr int WARPS = CONSUMERS * WARPGROUP / WARP;  // of the consumers
// Rows of the matrix of column sums for each tile: one for each warp that has a part of the tile.
constexpr int SUMS_OF_TILE = PINGPONG ? WARPS / 2 : WARPS;

// Offsets in shared memory, after the stages. The staging buffers of the epilogue: strips, or two
// slabs for each consumer.
constexpr int STAGING_OFFSET = STAGES * STAGE_BYTES;
constexpr int BIAS_OFFSET = STAGING_OFFSET + (EPILOGUE ? WARPS * BUFFERS * STRIP_BYTES : CONSUMERS * 2 * SLAB_BYTES);
// The biases of each consumer's tile and of its next one.
constexpr int BIAS_BYTES = TILE_N * int(sizeof(Output));
constexpr int BIAS_BUFFERS_BYTES = EPILOGUE == PRE_ACTIVATION || EPILOGUE == RESIDUAL ? CONSUMERS * 2 * BIAS_BYTES : 0;
// The mbarriers: full and empty of each stage, turns of the consumers, full of each strip that the
// epilogue loads.
constexpr int BARRIERS_OFFSET = BIAS_OFFSET + BIAS_BUFFERS_BYTES;
constexpr int STRIP_BARRIERS = EPILOGUE ? WARPS * BUFFERS : 0;
constexpr int SWIZZLE_ALIGNMENT = 1024;
// SHARED = BARRIERS_OFFSET + 8 * (2 * STAGES + CONSUMERS + STRIP_BARRIERS + CONSUMERS)
//          + SWIZZLE_ALIGNMENT: the last CONSUMERS are notices (wgmma_split_k_fixup.cuh)

static_assert(CONSUMER_M % 64 == 0 && TILE_N % 64 == 0, "widths must be multiples of a slab's 64 columns");
static_assert(sizeof(Element) == 2 || ((A_K_MAJOR || A_FROM_REGISTERS) && B_K_MAJOR),
              "TF32 is K-major in shared memory");
static_assert(!A_FROM_REGISTERS || (sizeof(Element) == 4 && !A_K_MAJOR && EPILOGUE == 0), "fragments of f32");
static_assert(!TRANSPOSED || (A_FROM_REGISTERS && sizeof(Output) == 4), "pairs of f32 rows are transposed");
static_assert(!BF16X6 || (!PINGPONG && EPILOGUE == 0), "two sets of accumulators, cooperative schedule");

struct TensorMapProduct {
    // Axes: contiguous axis, line, inner and outer batch axis. Of partial sums: column, row,
    // matrix, split.
    TensorMap a, b, y;
    TensorMap z;  // the pre-activation or the residual, with the axes of y
    // The fields that the first loads need are adjacent: parameters are fetched from device memory,
    // 64 bytes at a time.
    TileGrid tiles;  // of cluster tiles, CLUSTER_M x CLUSTER_N
    u32 k, split_length;
    // Bit 0: the operand has the inner batch axis, bit 1: the outer one.
    u32 a_batch_axes, b_batch_axes;
    // BF16X6: stride between terms along the outer batch axis of an operand's map
    u32 a_term_stride, b_term_stride;
    u32 m, n, splits;
    u32 is_partial;  // y is the tensor of partial sums
    float alpha;
    const Output* bias;  // null: none; else n contiguous elements, aligned to two elements
    // Null: none. GRAD_OF_ACTIVATION: [ceil(m / TILE_M) * SUMS_OF_TILE, n], column sums of y, each
    // over some of the rows. SUMS_OF_A: [splits * ceil(n / TILE_N), m], row sums of a, each over
    // some of the stages.
    float* sums;
    Constants constants;
    const u32* not_splittable;  // BF16X6: nonzero if the terms do not represent the operands
    // Split-K partial sums that the blocks add (wgmma_split_k_fixup.cuh): f32 [units, splits,
    // accumulators of a unit], and a state word for each unit, 0 between kernels. Null: none.
    float* parts;
    u32* states;
};

// SUMS_OF_A: the warps of the producer's warpgroup that sum rows of a, a slab each.
constexpr int SUM_WARPS = SUMS_OF_A ? TILE_M / 64 : 0;
static_assert(!SUMS_OF_A || (sizeof(Element) == 2 && !A_K_MAJOR && EPILOGUE == 0 && CLUSTER == 1 && !BF16X6),
              "slabs of 16-bit elements");

// Rows and columns of y that the tiles of a cluster cover.
constexpr int CLUSTER_M = CLUSTER_DOWN * TILE_M, CLUSTER_N = CLUSTER_ACROSS * TILE_N;
static_assert(64 % (8 * CLUSTER_DOWN) == 0 && 64 % (8 * CLUSTER_ACROSS) == 0,
              "multicast parts are whole swizzle periods");
static_assert(CLUSTER == 1 || (sizeof(Element) == 2 && !BF16X6 && EPILOGUE == 0), "multicast of 16-bit elements");

// Row and column of a block's tile in its cluster.
INLINE u32 rank_down() { return CLUSTER_DOWN == 1 ? 0 : read_cluster_ctarank() % CLUSTER_DOWN; }
INLINE u32 rank_across() { return CLUSTER_ACROSS == 1 ? 0 : read_cluster_ctarank() / CLUSTER_DOWN; }
// The number of blocks with which a block shares an operand tile, itself included: those of its row
// and of its column.
constexpr u32 MULTICAST_PEERS = CLUSTER_DOWN + CLUSTER_ACROSS - 1;
INLINE bool shares_operand_with(u32 rank) {
    return rank % CLUSTER_DOWN == rank_down() || rank / CLUSTER_DOWN == rank_across();
}

INLINE u32 first_tile_index() { return blockIdx.x / CLUSTER; }
INLINE u32 next_tile_index(u32 tile_index) { return tile_index + gridDim.x / CLUSTER; }

// A work tile of y, and its range of k. `cluster_tile` is the index of the cluster's work tile,
// which has a tile for each thread block.
struct WorkTile {
    Tile tile;
    u32 first_k, k_tiles;
    i32 inner_batch, outer_batch;  // batch indices

    INLINE WorkTile(const TensorMapProduct& p, u32 cluster_tile) {
        tile = p.tiles.tile(cluster_tile);
        tile.row = tile.row * CLUSTER_M + rank_down() * TILE_M;
        tile.column = tile.column * CLUSTER_N + rank_across() * TILE_N;
        first_k = tile.split * p.split_length;
        k_tiles = (min(p.k - first_k, p.split_length) + TILE_K - 1) / TILE_K;
        outer_batch = divide(tile.matrix, p.tiles.inner_batch);
        inner_batch = tile.matrix - outer_batch * p.tiles.inner_batch.divisor;
    }
};

// The mbarrier of a consumer's turn to multiply.
INLINE u32 turn_barrier(u32 shared, u32 consumer) { return shared + BARRIERS_OFFSET + (2 * STAGES + consumer) * 8; }

// The first of a lane's two accumulator rows among 64 rows; the other one is NEXT_ROW below. Where
// fragments are loaded into registers, a warp has 16 of 32 rows in adjacent pairs: 16 lanes that
// read such pairs from four lines of k access every bank once.
INLINE u32 accumulator_row(u32 warp, u32 lane) {
    u32 group = lane / 4;
    if (!A_FROM_REGISTERS) return warp * 16 + group;
    return warp / 2 * 32 + group / 2 % 2 * 16 + group / 4 * 8 + warp % 2 * 4 + group % 2 * 2;
}
constexpr int NEXT_ROW = A_FROM_REGISTERS ? 1 : 8;

// A consumer's accumulators, for each 64 rows and each 8 columns. Lane l of warp w has columns
// 2 (l % 4) and the next of two rows (accumulator_row).
typedef float Sums[ATOMS_M][TILE_N / 8][4];

INLINE u32 pack_half2(float low, float high, f16) { return cvt_rn_f16x2_f32(high, low); }
INLINE u32 pack_half2(float low, float high, bf16) { return cvt_rn_bf16x2_f32(high, low); }
template <class Half> INLINE float low_of(u32 pair, Half) { return widen(Half{u16(pair)}); }
template <class Half> INLINE float high_of(u32 pair, Half) { return widen(Half{u16(pair >> 16)}); }
