// Attention ladder, file 4 (mma.sync): bf16 on the tensor cores by mma.sync (sm_80). A study
// kernel; operands and shapes are in attention_ladder/attention.cuh. Accumulators are f32; weights
// are rounded to bf16 before they are multiplied by v; y is rounded once.
//
// Idea: the loop of 03_online_softmax.cu with whole rows per warp (Dao 2023, FlashAttention-2). A
// warp has 16 queries and all their keys, and shares no row with another warp. Row max and row sum
// need shuffles among four lanes and no shared memory. The weights, which are the accumulators of
// q k^T, have the layout of the left operand of p v (attention_ladder/fragments.cuh). So only q, k
// and v are in shared memory. cp.async loads k and v of the next step while the current step is
// computed.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+        shared memory:
//   warp 0    |         |         |         |          | q | k, v: stage 0 | k, v: stage 1 |
//   warp 1    |         |  s, p   |         |                read now        in flight
//   warp 2    |         |         |         |
//   warp 3    |         |         |         |        registers of a warp: q, s, p, y of 16 rows
//             +---------+---------+---------+
//
// Swizzle: chunk c (16 bytes) of row r of a tile is stored at c ^ (r % 8), so that the eight rows
// that ldmatrix reads at a time are in different banks. Bottleneck: each operand passes through
// registers before it reaches the tensor cores, and the softmax of a warp overlaps only with
// products of other warps.
//
// Launch: ceil(tokens / QUERIES) x heads blocks of THREADS, SHARED bytes of dynamic shared memory.
//
// Limits: those of attention_ladder/attention.cuh; rows are aligned to 16 bytes.

#include "attention_ladder/fragments.cuh"
#include "ptx/cp_async.cuh"
#include "ptx/ldmatrix.cuh"
#include "ptx/mma.cuh"

constexpr int WARPS = 4, THREADS = WARPS * WARP;
constexpr int WARP_QUERIES = 16, QUERIES = WARPS * WARP_QUERIES, STEP = 64, STAGES = 2;
constexpr int CHUNK = 8;              // elements in 16 bytes
constexpr int ROW_BYTES = WIDTH * 2;  // of a row of a tile
constexpr int TILE_BYTES = STEP * ROW_BYTES;
constexpr int STAGE = 2 * TILE_BYTES;
constexpr int SHARED = TILE_BYTES + STAGES * STAGE;
static_assert(QUERIES == STEP, "tiles of q, k and v have the same size");

typedef float Scores[STEP / 8][4];
typedef float Outputs[WIDTH / 8][4];
typedef u32 Queries[WIDTH / 16][4];
typedef u32 Weights[STEP / 16][4];

// The swizzled address of a chunk.
INLINE u32 address_of(u32 tile, u32 row, u32 chunk) { return tile + row * ROW_BYTES + (chunk ^ (row % 8)) * 16; }

// Issues the copies of STEP rows from `first` on; rows after the last are filled with 0.
INLINE void copy_tile(u32 tile, const bf16* rows, u32 first, u32 tokens) {
    constexpr int PER_ROW = WIDTH / CHUNK;
#pragma unroll
    for (int i = 0; i < STEP * PER_ROW / THREADS; ++i) {
        u32 index = threadIdx.x + i * THREADS, row = index / PER_ROW, chunk = index % PER_ROW;
        bool exists = first + row < tokens;
        const bf16* from = rows + (exists ? (first + row) * WIDTH + chunk * CHUNK : 0);
        cp_async<16>(address_of(tile, row, chunk), from, exists);
    }
}

// Loads the warp's 16 rows as left operands. Lanes 0 to 15 give the row addresses of the first
// chunk of a step, lanes 16 to 31 of the second.
INLINE void load_queries(Queries& q, u32 tile) {
    u32 lane = threadIdx.x % WARP, row = threadIdx.x / WARP * WARP_QUERIES + lane % 16;
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step) ldmatrix_x4(q[step], address_of(tile, row, step * 2 + lane / 16));
}

// s = q k^T. A matrix of ldmatrix is 8 keys by 8 columns. One ldmatrix_x4 loads two for the 16
// columns of one mma, and two for the next 8 keys.
INLINE void compute_scores(Scores& s, const Queries& q, u32 tile) {
    u32 lane = threadIdx.x % WARP, row = lane / 16 * 8 + lane % 8, chunk = lane / 8 % 2;
    clear(s);
#pragma unroll
    for (int step = 0; step < WIDTH / 16; ++step)
#pragma unroll
        for (int j = 0; j < STEP / 16; ++j) {
            u32 k[4];
            ldmatrix_x4(k, address_of(tile, j * 16 + row, step * 2 + chunk));
            mma_m16n8k16(s[j * 2], q[step], k[0], k[1], bf16());
            mma_m16n8k16(s[j * 2 + 1], q[step], k[2], k[3], bf16());
        }
}

// y += p v. The inner axis of this product is the keys, which are rows of v: ldmatrix transposes
// its matrices.
INLINE void accumulate_values(Outputs& y, const Weights& weights, u32 tile) {
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int step = 0; step < STEP / 16; ++step)
#pragma unroll
        for (int j = 0; j < WIDTH / 16; ++j) {
            u32 v[4];
            ldmatrix_x4_trans(v, address_of(tile, step * 16 + lane % 16, j * 2 + lane / 16));
            mma_m16n8k16(y[j * 2], weights[step], v[0], v[1], bf16());
            mma_m16n8k16(y[j * 2 + 1], weights[step], v[2], v[3], bf16());
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, 2) attention(const __grid_constant__ Attention<bf16> p) {
    extern __shared__ __align__(128) u8 memory[];
    u32 q_tile = cvta_to_shared(memory), stages = q_tile + TILE_BYTES;
    // With a causal mask the last query tiles have the most keys: they are scheduled first.
    u32 tile = CAUSAL ? gridDim.x - 1 - blockIdx.x : blockIdx.x, head = blockIdx.y, first = tile * QUERIES;
    u32 end = key_count(first + QUERIES - 1, p.tokens), query = first + threadIdx.x / WARP * WARP_QUERIES;
    const bf16 *k = head_of(p.k, head, p.tokens), *v = head_of(p.v, head, p.tokens);
    // Issues one cp.async group per step; the first group also contains q.
    auto copy_step = [&](u32 key, u32 stage) {
        copy_tile(stage, k, key, p.tokens);
        copy_tile(stage + TILE_BYTES, v, key, p.tokens);
        cp_async_commit_group();
    };
    copy_tile(q_tile, head_of(p.q, head, p.tokens), first, p.tokens);
    copy_step(0, stages);
    Queries q;
    Outputs y;
    RowState state;
    clear(y);
#pragma unroll 1
    for (u32 key = 0, read_stage = stages, write_stage = stages + STAGE; key < end; key += STEP) {
        // This thread's copies are complete; after the barrier, those of all threads are. All
        // threads have also finished reading the previous stage, which is refilled.
        cp_async_wait_group<0>();
        __syncthreads();
        if (key + STEP < end) copy_step(key + STEP, write_stage);
        if (key == 0) load_queries(q, q_tile);
        Scores s;
        Weights weights;
        float factor[2];
        compute_scores(s, q, read_stage);
        apply_band_mask(s, query, key, p.tokens);
        online_softmax(s, state, factor, p.scale * LOG2_E);
        rescale(y, factor);
        round_to_operand(weights, s);
        accumulate_values(y, weights, read_stage + TILE_BYTES);
        u32 read = read_stage;
        read_stage = write_stage;
        write_stage = read;
    }
    store_rows(head_of(p.y, head, p.tokens), y, state, query, p.tokens);
}
