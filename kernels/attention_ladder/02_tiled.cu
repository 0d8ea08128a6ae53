// Attention ladder, file 2 (tiled): the three kernels of 01_naive.cu in f32, with tiled matrix
// products. A study kernel; operands and shapes are in attention_ladder/attention.cuh.
//
// Idea: q k^T and p v are GEMMs and run as in ladder/06_vectorized.cu. A block computes a tile of
// the result and copies TILE_K of the inner axis of both operands to shared memory at a time. A
// thread accumulates 8 x 8 results (8 x WIDTH / 16 of y) in registers and reads packs of four. The
// tiles of q and k are transposed when they are stored to shared memory, since the product is
// q k^T.
//
//     scores: TILE x TILE of s per block            values: TILE x WIDTH of y per block
//
//                 k^T: WIDTH x TILE                            v: keys x WIDTH
//                   +---------+                                  +---------+
//                   |         |                                  |         |
//     q             +---------+                    p             |         |
//     +-------+     +---------+                    +-----------+ +---------+
//     | TILE  |     |    s    |                    | TILE      | |    y    |
//     +-------+     +---------+                    +-----------+ +---------+
//
//     for each TILE_K of the inner axis:
//       copy both tiles to shared memory
//       sums[i][j] += left[i] * right[j]
//
// A row that is loaded is now used for 128 results instead of one. Bottleneck: the score matrix
// still passes through global memory. Causal: tiles above the diagonal are skipped, and the loop
// over keys ends at the tile's last query.
//
// Launch, blocks of THREADS:
//
//   scores    ceil(tokens / TILE) x ceil(tokens / TILE) x heads blocks
//   softmax   ceil(tokens / ROWS_OF_SOFTMAX) x heads blocks
//   values    ceil(tokens / TILE) x heads blocks
//
// Limits: those of attention_ladder/attention.cuh; rows are aligned to 16 bytes; a workspace of
// heads tokens pitch floats, fewer than 2^32 of them per head.

#include "attention_ladder/stored_scores.cuh"
#include "ladder/packs.cuh"

constexpr int TILE = 128, TILE_K = 16;
constexpr int THREADS_ABREAST = 16;                  // a tile has 16 x 16 threads
constexpr int APART = THREADS_ABREAST * PACK;        // rows or columns between packs of a thread
constexpr int SUMS = TILE / THREADS_ABREAST;         // rows per thread
constexpr int VALUE_SUMS = WIDTH / THREADS_ABREAST;  // columns of y per thread
typedef TilePacks<TILE, TILE_K, THREADS> RowPacks;   // stored transposed
typedef TilePacks<TILE_K, WIDTH, THREADS> ValuePacks;
typedef float TurnedTile[TILE_K][TILE + PACK];

extern "C" __global__ void __launch_bounds__(THREADS) scores(const __grid_constant__ Attention<float> p) {
    __shared__ alignas(16) TurnedTile q_tile, k_tile;
    u32 query = blockIdx.y * TILE, key = blockIdx.x * TILE, head = blockIdx.z;
    if (key >= keys_seen(query + TILE - 1, p.tokens)) return;
    int row = threadIdx.x / THREADS_ABREAST * PACK, column = threadIdx.x % THREADS_ABREAST * PACK;
    Matrices<float> product = {
        scores_of(p, head), head_of(p.q, head, p.tokens), head_of(p.k, head, p.tokens), p.tokens, p.pitch, WIDTH};
    RowPacks q, k;
    float sums[SUMS][SUMS] = {};
#pragma unroll 1
    for (u32 inner = 0; inner < WIDTH; inner += TILE_K) {
        q.fetch(product.a, query, inner, p.tokens, WIDTH);
        k.fetch(product.b, key, inner, p.tokens, WIDTH);
        q.store_turned(q_tile);
        k.store_turned(k_tile);
        __syncthreads();
        multiply_tiles<APART, APART>(sums, q_tile, k_tile, row, column);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < SUMS; ++i)
#pragma unroll
        for (int j = 0; j < SUMS; ++j) sums[i][j] *= p.scale;
    store_sums<APART, APART>(product, sums, query + row, key + column);
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const __grid_constant__ Attention<float> p) {
    softmax_of_row(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) values(const __grid_constant__ Attention<float> p) {
    __shared__ alignas(16) TurnedTile weight_tile;
    __shared__ alignas(16) float v_tile[TILE_K][WIDTH];
    u32 query = blockIdx.x * TILE, head = blockIdx.y, seen = keys_seen(query + TILE - 1, p.tokens);
    int row = threadIdx.x / THREADS_ABREAST * PACK, column = threadIdx.x % THREADS_ABREAST * PACK;
    Matrices<float> product = {
        head_of(p.y, head, p.tokens), scores_of(p, head), head_of(p.v, head, p.tokens), p.tokens, WIDTH, seen};
    RowPacks weights;
    ValuePacks v;
    float sums[SUMS][VALUE_SUMS] = {};
#pragma unroll 1
    for (u32 key = 0; key < seen; key += TILE_K) {
        weights.fetch(product.a, query, key, p.tokens, p.pitch);
        v.fetch(product.b, key, 0, p.tokens, WIDTH);
        weights.store_turned(weight_tile);
        v.store_rows(v_tile);
        __syncthreads();
        multiply_tiles<APART, APART>(sums, weight_tile, v_tile, row, column);
        __syncthreads();
    }
    store_sums<APART, APART>(product, sums, query + row, column);
}
