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
constexpr int THREADS_PER_ROW = 16;                      // a tile has 16 x 16 threads
constexpr int PACK_STRIDE = THREADS_PER_ROW * PACK;      // rows or columns between a thread's packs
constexpr int THREAD_TILE = TILE / THREADS_PER_ROW;      // rows per thread
constexpr int THREAD_COLUMNS = WIDTH / THREADS_PER_ROW;  // columns of y per thread
typedef TilePacks<TILE, TILE_K, THREADS> RowPacks;       // stored transposed
typedef TilePacks<TILE_K, WIDTH, THREADS> ValuePacks;
typedef float TransposedTile[TILE_K][TILE + PACK];

extern "C" __global__ void __launch_bounds__(THREADS) scores(const __grid_constant__ Attention<float> p) {
    __shared__ alignas(16) TransposedTile q_tile, k_tile;
    u32 query = blockIdx.y * TILE, key = blockIdx.x * TILE, head = blockIdx.z;
    if (key >= key_count(query + TILE - 1, p.tokens)) return;
    int row = threadIdx.x / THREADS_PER_ROW * PACK, column = threadIdx.x % THREADS_PER_ROW * PACK;
    Matrices<float> product = {
        scores_of(p, head), head_of(p.q, head, p.tokens), head_of(p.k, head, p.tokens), p.tokens, p.pitch, WIDTH};
    RowPacks q, k;
    float accumulators[THREAD_TILE][THREAD_TILE] = {};
#pragma unroll 1
    for (u32 inner = 0; inner < WIDTH; inner += TILE_K) {
        q.fetch(product.a, query, inner, p.tokens, WIDTH);
        k.fetch(product.b, key, inner, p.tokens, WIDTH);
        q.store_transposed(q_tile);
        k.store_transposed(k_tile);
        __syncthreads();
        multiply_tiles<PACK_STRIDE, PACK_STRIDE>(accumulators, q_tile, k_tile, row, column);
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < THREAD_TILE; ++i)
#pragma unroll
        for (int j = 0; j < THREAD_TILE; ++j) accumulators[i][j] *= p.scale;
    store_accumulators<PACK_STRIDE, PACK_STRIDE>(product, accumulators, query + row, key + column);
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const __grid_constant__ Attention<float> p) {
    softmax_of_row(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) values(const __grid_constant__ Attention<float> p) {
    __shared__ alignas(16) TransposedTile weight_tile;
    __shared__ alignas(16) float v_tile[TILE_K][WIDTH];
    u32 query = blockIdx.x * TILE, head = blockIdx.y, key_end = key_count(query + TILE - 1, p.tokens);
    int row = threadIdx.x / THREADS_PER_ROW * PACK, column = threadIdx.x % THREADS_PER_ROW * PACK;
    Matrices<float> product = {
        head_of(p.y, head, p.tokens), scores_of(p, head), head_of(p.v, head, p.tokens), p.tokens, WIDTH, key_end};
    RowPacks weights;
    ValuePacks v;
    float accumulators[THREAD_TILE][THREAD_COLUMNS] = {};
#pragma unroll 1
    for (u32 key = 0; key < key_end; key += TILE_K) {
        weights.fetch(product.a, query, key, p.tokens, p.pitch);
        v.fetch(product.b, key, 0, p.tokens, WIDTH);
        weights.store_transposed(weight_tile);
        v.store_rows(v_tile);
        __syncthreads();
        multiply_tiles<PACK_STRIDE, PACK_STRIDE>(accumulators, weight_tile, v_tile, row, column);
        __syncthreads();
    }
    store_accumulators<PACK_STRIDE, PACK_STRIDE>(product, accumulators, query + row, column);
}
