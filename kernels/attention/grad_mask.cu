// Gradient of an additive mask: f16 and bf16 on the tensor cores. grad_mask.cuh describes what is
// computed, how it is divided into blocks, and the launch.
//
//   per tile of scores    s = q k^T, dp = dy v^T           by four warps, 16 queries each
//                         p = exp(scale s + mask - lse)
//                         dmask += p (f dp - row_dot)      with f the dropout factor of the weight
//
// Tiles of q, dy, k and v have one buffer each: the loads of a block overlap with the products of
// the other blocks on its multiprocessor. Tiles (BLOCKS is the number per multiprocessor):
//
//                                STEP BLOCKS
//   mma    width up to 128        64    2     three blocks spill
//          256                    16    1     fits in 99 KiB of shared memory: compute capability
//                                             8.6, 8.9 and 12.0
//   wgmma  width up to 128        64    3     four blocks spill
//          256                    64    1
//
// Limits: those of grad.cu.

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 64
#define WARPS 4
#define BLOCKS 2
#endif

#if WGMMA
#include "attention/wgmma.cuh"
#else
#include "attention/mma.cuh"
#endif
#include "attention/grad_mask.cuh"

static_assert(MASK == 2 && DROPOUT == 1 && ROW_TILES == 1, "what the host compiles");

constexpr int ROWS = WARPS * 16;
constexpr int THREADS = WARPS * WARP;
constexpr int GRADS_OFFSET = ROWS * HEAD_DIM * 2;                 // dy, after q
constexpr int KEYS_OFFSET = GRADS_OFFSET + ROWS * VALUE_DIM * 2;  // k
constexpr int VALUES_OFFSET = KEYS_OFFSET + STEP * HEAD_DIM * 2;  // v
constexpr int TILES_BYTES = VALUES_OFFSET + STEP * VALUE_DIM * 2;
// At the end the block's sums overwrite the tiles. The pitch is odd, so that the elements of a
// column are in different banks.
constexpr int PITCH = STEP + 1;

typedef float Scores[1][STEP / 8][4];

// Copies everything that the products of a tile of scores read.
INLINE void fetch_tile(const AttentionGrad& p, const ScoreTile& at, u32 tiles) {
    const Sizes& sizes = p.sizes;
    u32 key_head = at.head / sizes.group;
    fetch<ROWS, HEAD_DIM, THREADS>(tiles, head_of(p.q, at.batch, at.head), at.query, sizes.queries, sizes.head_dim);
    fetch<STEP, HEAD_DIM, THREADS>(tiles + KEYS_OFFSET, head_of(p.k, at.batch, key_head), at.key, sizes.keys,
                                   sizes.head_dim);
    fetch<ROWS, VALUE_DIM, THREADS>(tiles + GRADS_OFFSET, head_of(p.dy, at.batch, at.head), at.query, sizes.queries,
                                    sizes.value_dim);
    fetch<STEP, VALUE_DIM, THREADS>(tiles + VALUES_OFFSET, head_of(p.v, at.batch, key_head), at.key, sizes.keys,
                                    sizes.value_dim);
    cp_async_commit_group();
}

// Computes both products of a warp's rows and waits for them.
INLINE void multiply(Scores& scores, Scores& weight_grad, u32 tiles, u32 tile_row) {
    warpgroup_arrive();
    gemm_nt<ROWS, HEAD_DIM>(scores, tiles, tile_row, tiles + KEYS_OFFSET);
    gemm_nt<ROWS, VALUE_DIM>(weight_grad, tiles + GRADS_OFFSET, tile_row, tiles + VALUES_OFFSET);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    fence_accumulator(scores);
    fence_accumulator(weight_grad);
}

// Converts masked scores and gradients of weights to gradients of scores. They become 0 for a query
// that attends to no key; the caller applies the band.
template <class Mask>
INLINE void compute_ds(Scores& scores, const Scores& weight_grad, const RowStats (&row_stats)[2], const Mask& kept,
                       float dropout_scale) {
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
            const RowStats& query = row_stats[e / 2];
            float weight = ex2_approx_ftz((scores[0][j][e] - query.lse) * LOG2_E);
            float grad = fmaf(kept.has(0, j, e) ? weight_grad[0][j][e] : 0, dropout_scale, -query.row_dot);
            scores[0][j][e] = query.lse == INFINITE ? 0 : weight * grad;
        }
}

// Adds the gradients of a tile of scores, whose copies have been issued, to those of a warp's rows.
INLINE void add_tile(Scores& sums, const AttentionGrad& p, const ScoreTile& at, u32 tiles, u32 tile_row) {
    u32 thread = read_tid_x();
    i32 query = at.query + i32(tile_row);
    KeepMaskFor<KeepMask<false, 1, STEP / 8>> kept;
    kept.draw(p.dropout, WeightIndex::of(p), at.batch * p.sizes.heads + at.head, query, at.key);
    RowStats row_stats[2];
#pragma unroll
    for (int half = 0; half < 2; ++half)
        row_stats[half] = load_row_stats(p, at, query + half * 8 + i32(thread % WARP / 4));
    wait_for_copies();
    __syncthreads();
    Scores scores, weight_grad;
    multiply(scores, weight_grad, tiles, tile_row);
    apply_mask<false>(scores, head_of(p.mask, at.batch, at.head), query, at.key, p.sizes, p.sizes.scale);
    compute_ds(scores, weight_grad, row_stats, kept, p.dropout.scale);
    apply_band_mask<false>(scores, p.sizes, query, at.key, 0, thread);
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[0][j][e] += scores[0][j][e];
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_mask(const __grid_constant__ AttentionGradMask p) {
    wait_for_earlier_launches();
    extern __shared__ __align__(1024) u8 shared[];
    u32 tiles = cvta_to_shared(shared), tile_row = threadIdx.x / WARP * 16;
    MaskTile own = mask_tile(p, blockIdx.x, ROWS, STEP);
    Scores sums;
    clear(sums);
#pragma unroll 1
    for (ScoreTileIterator iterator = ScoreTileIterator::of(p, own, ROWS, STEP); iterator.steps > 0;
         iterator.advance()) {
        ScoreTile at = score_tile(p, own, iterator, ROWS, STEP);
        if (!has_unmasked(p.grad.sizes, at, ROWS, STEP)) continue;
        // Wait until the previous tiles have been read.
        __syncthreads();
        fetch_tile(p.grad, at, tiles);
        add_tile(sums, p.grad, at, tiles, tile_row);
    }
    __syncthreads();
    float* staged = reinterpret_cast<float*>(shared);
    u32 lane = threadIdx.x % WARP;
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
        for (int e = 0; e < 4; ++e)
            staged[(tile_row + e / 2 * 8 + lane / 4) * PITCH + j * 8 + lane % 4 * 2 + e % 2] = sums[0][j][e];
    store_mask_tile<ROWS, STEP, PITCH, THREADS>(p, own, staged);
}
