// Attention ladder, file 1 (naive): the definition in f32, by three kernels. A study kernel;
// operands and shapes are in attention_ladder/attention.cuh.
//
// Idea: none. Scores, softmax and the weighted sum of v are one kernel each, and communicate
// through the tokens x tokens score matrix of every head in global memory. The first kernel writes
// it; the second reads it three times and writes it twice; the third reads it. Traffic and memory
// grow with the square of the number of tokens.
//
//     scores   s = scale q k^T     a thread: one score           reads a row of q and a row of k
//     softmax  p = softmax(s)      a warp: one row, in place
//     values   y = p v             a thread: one element of y    reads a row of p, a column of v
//
//        q          k^T: keys ->            s, then p: [tokens, tokens]       v             y
//     +-----+     +-------------+           +-------------+                +-----+       +-----+
//     |     |  x  |             |    =      |   global    |             x  |     |   =   |     |
//     |     |     +-------------+           |   memory    |                |     |       |     |
//     +-----+                               +-------------+                +-----+       +-----+
//
// In `scores`, neighboring threads have neighboring keys, whose rows are WIDTH elements apart: each
// load of k accesses 32 rows. Causal: `scores` and `values` skip masked keys.
//
// Launch, blocks of THREADS:
//
//   scores    ceil(tokens / SCORE_KEYS) x ceil(tokens / SCORE_QUERIES) x heads blocks
//   softmax   ceil(tokens / ROWS_OF_SOFTMAX) x heads blocks
//   values    ceil(tokens / VALUE_QUERIES) x heads blocks
//
// Limits: those of attention_ladder/attention.cuh; a workspace of heads tokens pitch floats.

#include "attention_ladder/stored_scores.cuh"

constexpr int SCORE_KEYS = WARP, SCORE_QUERIES = THREADS / SCORE_KEYS;
constexpr int VALUE_QUERIES = THREADS / WIDTH;

extern "C" __global__ void __launch_bounds__(THREADS) scores(const __grid_constant__ Attention<float> p) {
    u32 query = blockIdx.y * SCORE_QUERIES + threadIdx.x / SCORE_KEYS;
    u32 key = blockIdx.x * SCORE_KEYS + threadIdx.x % SCORE_KEYS, head = blockIdx.z;
    if (query >= p.tokens || key >= key_count(query, p.tokens)) return;
    const float* q = head_of(p.q, head, p.tokens) + query * WIDTH;
    const float* k = head_of(p.k, head, p.tokens) + key * WIDTH;
    float sum = 0;
    for (int column = 0; column < WIDTH; ++column) sum = fmaf(q[column], k[column], sum);
    scores_of(p, head)[i64(query) * p.pitch + key] = sum * p.scale;
}

extern "C" __global__ void __launch_bounds__(THREADS) softmax(const __grid_constant__ Attention<float> p) {
    softmax_of_row(p);
}

extern "C" __global__ void __launch_bounds__(THREADS) values(const __grid_constant__ Attention<float> p) {
    u32 query = blockIdx.x * VALUE_QUERIES + threadIdx.x / WIDTH, column = threadIdx.x % WIDTH, head = blockIdx.y;
    if (query >= p.tokens) return;
    const float* weights = scores_of(p, head) + i64(query) * p.pitch;
    const float* v = head_of(p.v, head, p.tokens) + column;
    u32 key_end = key_count(query, p.tokens);
    float sum = 0;
    for (u32 key = 0; key < key_end; ++key) sum = fmaf(weights[key], v[key * WIDTH], sum);
    head_of(p.y, head, p.tokens)[query * WIDTH + column] = sum;
}
