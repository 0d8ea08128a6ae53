// Attention ladder, 3: one kernel in f32 that stores no scores, for study (attention_ladder/attention.cuh says what is computed).
//
// Idea: a softmax needs the largest score and the sum of all exponentials, which are known only at the end of a row. Both can be corrected while keys
// pass by (Milakov and Gimelshein 2018): when a larger score appears, the sum gathered so far is multiplied by exp(old maximum - new maximum). The same
// factor corrects the weighted sum of v, so that scores, softmax and values become one walk over the keys (Dao et al. 2022, FlashAttention): a tile of
// scores is made, used and forgotten. Memory no longer grows with the square of the tokens.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+        for each STEP of keys:
//   QUERIES   |         |  s, p   |         |          s = scale q k^T           registers, 4 x 4 a thread
//   of a block|         |         |         |          new maximum, factor       shuffles of the 16 threads of a row
//             +---------+---------+---------+          p = exp(s - maximum)      to shared memory, transposed
//                                                      sum = sum factor + rowsum(p)
//                                                      y = y factor + p v        registers, 4 x WIDTH / 16 a thread
//             at the end: y / sum
//
// Exponentials are of base 2, with log2(e) in the scale: one instruction less for each. k and v of a step have the same place in shared memory, one
// after the other, so that two blocks fit on a multiprocessor. What limits it: f32 is multiplied by 128 lanes, not by tensor cores.
//
// Limits: those of attention_ladder/attention.cuh; rows begin at multiples of 16 bytes. Every query sees key 0, so that a maximum is finite from the
// first step on.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, sizeof(Tiles) bytes of shared memory.

#include "attention_ladder/attention.cuh"
#include "ladder/packs.cuh"

constexpr int THREADS = 256, QUERIES = 64, STEP = 64;
constexpr int THREADS_ABREAST = 16;               // threads stand 16 x 16 in a tile
constexpr int APART = THREADS_ABREAST * PACK;     // columns from one pack of a thread to its next one
constexpr int COLUMNS = WIDTH / THREADS_ABREAST;  // of y, of a thread
constexpr int SLICE = 16;                         // of the inner axis, multiplied at a time
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

// Of a thread's four rows.
struct RowState {
    float row_max[PACK], row_sum[PACK];
};

// 64 rows from `first` on, transposed; zeros beyond the last one. All loads are issued before the first store.
INLINE void load_turned(float (&to)[SLICES][SLICE][64 + PACK], const float* from, u32 first, u32 rows) {
    TilePacks<64, SLICE, THREADS> packs[SLICES];
#pragma unroll
    for (int slice = 0; slice < SLICES; ++slice) packs[slice].fetch(from, first, slice * SLICE, rows, WIDTH);
#pragma unroll
    for (int slice = 0; slice < SLICES; ++slice) packs[slice].store_turned(to[slice]);
}
INLINE void load_rows(float (&to)[STEP_SLICES][SLICE][WIDTH], const float* from, u32 first, u32 rows) {
    TilePacks<SLICE, WIDTH, THREADS> packs[STEP_SLICES];
#pragma unroll
    for (int slice = 0; slice < STEP_SLICES; ++slice) packs[slice].fetch(from, first + slice * SLICE, 0, rows, WIDTH);
#pragma unroll
    for (int slice = 0; slice < STEP_SLICES; ++slice) packs[slice].store_rows(to[slice]);
}

// Scores of a step become weights, and what the thread has gathered is corrected. `query` and `key` are the thread's first.
INLINE void online_softmax(Scores& s, Outputs& y, RowState& state, u32 query, u32 key, u32 tokens, float scale) {
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        u32 seen = keys_seen(query + i, tokens);
        float row_max = state.row_max[i];
#pragma unroll
        for (int j = 0; j < PACK; ++j) {
            s[i][j] = key + j < seen ? s[i][j] * scale : -INFINITE;
            row_max = fmaxf(row_max, s[i][j]);
        }
#pragma unroll
        for (int lanes = 1; lanes < THREADS_ABREAST; lanes *= 2)
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

// A thread's weights into shared memory, four queries of a key at a time.
INLINE void store_weights(Tiles& tiles, const Scores& s, int row, int column) {
#pragma unroll
    for (int j = 0; j < PACK; ++j) {
        Floats pack = {{s[0][j], s[1][j], s[2][j], s[3][j]}};
        store<float, PACK>(&tiles.weights[(column + j) / SLICE][(column + j) % SLICE][row], pack);
    }
}

// y divided by the sums of its weights, each of which 16 threads have parts of.
INLINE void divide(Outputs& y, const RowState& state) {
#pragma unroll
    for (int i = 0; i < PACK; ++i) {
        float sum = state.row_sum[i];
#pragma unroll
        for (int lanes = 1; lanes < THREADS_ABREAST; lanes *= 2) sum += __shfl_xor_sync(ALL_LANES, sum, lanes);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) y[i][j] /= sum;
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attention(const __grid_constant__ Attention<float> p) {
    extern __shared__ __align__(16) u8 memory[];
    Tiles& tiles = *reinterpret_cast<Tiles*>(memory);
    // Of a causal mask the last queries see most keys: they begin first.
    u32 tile = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x, head = blockIdx.y, first = tile * QUERIES;
    u32 end = keys_seen(first + QUERIES - 1, p.tokens);
    const float *k = head_of(p.k, head, p.tokens), *v = head_of(p.v, head, p.tokens);
    int row = threadIdx.x / THREADS_ABREAST * PACK, column = threadIdx.x % THREADS_ABREAST * PACK;
    Outputs y = {};
    RowState state = {{-INFINITE, -INFINITE, -INFINITE, -INFINITE}, {}};
    load_turned(tiles.q, head_of(p.q, head, p.tokens), first, p.tokens);
#pragma unroll 1
    for (u32 key = 0; key < end; key += STEP) {
        Scores s = {};
        load_turned(tiles.k, k, key, p.tokens);
        __syncthreads();
#pragma unroll 1
        for (int slice = 0; slice < SLICES; ++slice)
            multiply_tiles<APART, APART>(s, tiles.q[slice], tiles.k[slice], row, column);
        online_softmax(s, y, state, first + row, key + column, p.tokens, p.scale * LOG2_E);
        store_weights(tiles, s, row, column);
        // Nobody reads the keys any more, whose place the values take.
        __syncthreads();
        load_rows(tiles.v, v, key, p.tokens);
        __syncthreads();
#pragma unroll 1
        for (int slice = 0; slice < STEP_SLICES; ++slice)
            multiply_tiles<APART, APART>(y, tiles.weights[slice], tiles.v[slice], row, column);
        __syncthreads();
    }
    divide(y, state);
    Matrices<float> result = {head_of(p.y, head, p.tokens), nullptr, nullptr, p.tokens, WIDTH, STEP};
    store_sums<APART, APART>(result, y, first + row, column);
}
