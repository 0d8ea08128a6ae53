// Attention ladder, file 3 (online softmax): one kernel in f32 that does not store scores. A study
// kernel; operands and shapes are in attention_ladder/attention.cuh.
//
// Idea: a softmax needs the row max and the row sum of the exponentials, which are known only at
// the end of a row. Both can be corrected during the loop over keys (Milakov and Gimelshein 2018):
// when a larger score appears, the running row sum is multiplied by exp(old row max - new row max).
// The same factor rescales the weighted sum of v, so that scores, softmax and values are one loop
// over keys (Dao et al. 2022, FlashAttention): a tile of scores is computed, used and discarded.
// Memory no longer grows with the square of the number of tokens.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+   for each STEP of keys:
//   QUERIES   |         |  s, p   |         |     s = scale q k^T        registers, 4 x 4 a thread
//   of a block|         |         |         |     new row_max, factor    shuffles, 16 threads a row
//             +---------+---------+---------+     p = exp(s - row_max)   to smem, transposed
//                                                 row_sum = row_sum factor + sum(p)
//                                                 y = y factor + p v     registers, 4 x WIDTH / 16
//                                                                        a thread
//             at the end: y / row_sum
//
// Exponentials are base 2, with log2(e) folded into the scale: one instruction less for each. k and
// v of a step use the same shared-memory buffer one after another, so that two blocks fit on a
// multiprocessor. Bottleneck: f32 FMAs run on 128 lanes, not on tensor cores.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, sizeof(Tiles) bytes of dynamic shared
// memory.
//
// Limits: those of attention_ladder/attention.cuh; rows are aligned to 16 bytes. Every query
// attends to key 0, so that the row max is finite from the first step on.

#include "attention_ladder/attention.cuh"
#include "ladder/packs.cuh"

constexpr int THREADS = 256, QUERIES = 64, STEP = 64;
constexpr int THREADS_PER_ROW = 16;                  // a tile has 16 x 16 threads
constexpr int PACK_STRIDE = THREADS_PER_ROW * PACK;  // columns between packs of a thread
constexpr int COLUMNS = WIDTH / THREADS_PER_ROW;     // columns of y per thread
constexpr int SLICE = 16;                            // inner axis of one multiply_tiles
constexpr int SLICES = WIDTH / SLICE, STEP_SLICES = STEP / SLICE;

struct Tiles {
    float q[SLICES][SLICE][QUERIES + PACK];  // transposed: [column][query]
    union {
        float k[SLICES][SLICE][STEP + PACK];  // transposed: [column][key]
        float v[STEP_SLICES][SLICE][WIDTH];
    };
    float weights[STEP_SLICES][SLICE][QUERIES + PACK];  // transposed: [key][query]
};

typedef float Scores[PACK][PACK];
typedef float Outputs[PACK][COLUMNS];

// Running row max and this thread's part of the row sum, for the four rows of a thread.
struct RowState {
    float row_max[PACK], row_sum[PACK];
};

// Copies 64 rows from `first` on to shared memory, transposed; rows after the last are 0. All loads
// are issued before the first store.
INLINE void load_transposed(float (&to)[SLICES][SLICE][64 + PACK], const float* from, u32 first, u32 rows) {
    TilePacks<64, SLICE, THREADS> packs[SLICES];
#pragma unroll
    for (int slice = 0; slice < SLICES; ++slice) packs[slice].fetch(from, first, slice * SLICE, rows, WIDTH);
#pragma unroll
    for (int slice = 0; slice < SLICES; ++slice) packs[slice].store_transposed(to[slice]);
}
// The same without the transpose, for STEP rows.
INLINE void load_rows(float (&to)[STEP_SLICES][SLICE][WIDTH], const float* from, u32 first, u32 rows) {
    TilePacks<SLICE, WIDTH, THREADS> packs[STEP_SLICES];
#pragma unroll
    for (int slice = 0; slice < STEP_SLICES; ++slice) packs[slice].fetch(from, first + slice * SLICE, 0, rows, WIDTH);
#pragma unroll
    for (int slice = 0; slice < STEP_SLICES; ++slice) packs[slice].store_rows(to[slice]);
}

// Replaces the scores of a step with weights, updates row max and row sum, and rescales y. `query`
// and `key` are the first ones of the thread.
INLINE void online_softmax(Scores& s, Outputs& y, RowState& state, u32 query, u32 key, u32 tokens, float scale) {
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        u32 key_end = key_count(query + i, tokens);
        float row_max = state.row_max[i];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            s[i][j] = key + j < key_end ? s[i][j] * scale : -INFINITE;
            row_max = fmaxf(row_max, s[i][j]);
        }
#pragma unroll
        for (int lanes = 1; lanes < THREADS_PER_ROW; lanes *= 2)
            row_max = fmaxf(row_max, __shfl_xor_sync(ALL_LANES, row_max, lanes));
        float factor = exp2f(state.row_max[i] - row_max);
        state.row_max[i] = row_max;
        state.row_sum[i] *= factor;
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            s[i][j] = exp2f(s[i][j] - row_max);
            state.row_sum[i] += s[i][j];
        }
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) y[i][j] *= factor;
    }
}

// Stores a thread's weights to shared memory, four queries of a key at a time.
INLINE void store_weights(Tiles& tiles, const Scores& s, int row, int column) {
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        FloatPack pack = {{s[0][j], s[1][j], s[2][j], s[3][j]}};
        store<float, PACK>(&tiles.weights[(column + j) / SLICE][(column + j) % SLICE][row], pack);
    }
}

// Divides y by the row sums. The 16 threads of a row have partial sums.
INLINE void divide(Outputs& y, const RowState& state) {
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        float sum = state.row_sum[i];
#pragma unroll
        for (int lanes = 1; lanes < THREADS_PER_ROW; lanes *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) y[i][j] /= sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attention(const __grid_constant__ Attention<float> p) {
    extern __shared__ __align__(16) u8 memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    // With a causal mask the last query tiles have the most keys: they are scheduled first.
    u32 tile = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x, head = blockIdx.y, first = tile * QUERIES;
    u32 end = key_count(first + QUERIES - 1, p.tokens);
    const float *k = head_of(p.k, head, p.tokens), *v = head_of(p.v, head, p.tokens);
    int row = threadIdx.x / THREADS_PER_ROW * PACK, column = threadIdx.x % THREADS_PER_ROW * PACK;
    Outputs y = {};
    RowState state = {{-INFINITE, -INFINITE, -INFINITE, -INFINITE}, {}};
    load_transposed(tiles.q, head_of(p.q, head, p.tokens), first, p.tokens);
#pragma unroll 1
    for (u32 key = 0; key < end; key += STEP) {
        Scores s = {};
        load_transposed(tiles.k, k, key, p.tokens);
        __syncthreads();
#pragma unroll 1
        for (int slice = 0; slice < SLICES; ++slice)
            multiply_tiles<PACK_STRIDE, PACK_STRIDE>(s, tiles.q[slice], tiles.k[slice], row, column);
        online_softmax(s, y, state, first + row, key + column, p.tokens, p.scale * LOG2_E);
        store_weights(tiles, s, row, column);
        // All threads have read the keys: the values overwrite their buffer.
        __syncthreads();
        load_rows(tiles.v, v, key, p.tokens);
        __syncthreads();
#pragma unroll 1
        for (int slice = 0; slice < STEP_SLICES; ++slice)
            multiply_tiles<PACK_STRIDE, PACK_STRIDE>(y, tiles.weights[slice], tiles.v[slice], row, column);
        __syncthreads();
    }
    divide(y, state);
    Matrices<float> result = {head_of(p.y, head, p.tokens), nullptr, nullptr, p.tokens, WIDTH, STEP};
    store_accumulators<PACK_STRIDE, PACK_STRIDE>(result, y, first + row, column);
}
