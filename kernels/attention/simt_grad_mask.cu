// Gradient of an additive mask in f32, by FMAs. grad_mask.cuh describes what is computed, how it is
// divided into blocks, and the launch.
//
//   per tile of scores    s = q k^T, dp = dy v^T         4 rows x STEP / 8 columns per lane
//                         p = exp(scale s + mask - lse)
//                         dmask += p (f dp - row_dot)    with f the dropout factor of the weight
//
// Blocks of 128 threads have 64 queries and 32 keys: with heads of 128 columns that takes as much
// shared memory as the gradient of q, k and v. Limits: those of simt_grad.cu.

#include "attention/grad_mask.cuh"
#include "attention/simt.cuh"

static_assert(MASK == 2 && DROPOUT == 1, "what the host compiles");

// As in simt_grad.cu.
constexpr int STEP = 32;
constexpr int BLOCKS = 2;
constexpr int COLUMNS = STEP / LANES;
constexpr int GRADS_OFFSET = ROWS * pitch_of(HEAD_DIM);
constexpr int KEYS_OFFSET = GRADS_OFFSET + ROWS * pitch_of(VALUE_DIM);
constexpr int VALUES_OFFSET = KEYS_OFFSET + STEP * pitch_of(HEAD_DIM);
// At the end the block's sums overwrite the tiles. The pitch is odd, so that the elements of a
// column are in different banks.
constexpr int PITCH = STEP + 1;

typedef float Scores[LANE_ROWS][COLUMNS];

// Copies everything that the products of a tile of scores read, and waits for it.
INLINE void fetch_tile(const AttentionGrad& p, const ScoreTile& at, float* tiles) {
    const Sizes& sizes = p.sizes;
    u32 key_head = at.head / sizes.group;
    fetch<ROWS, HEAD_DIM>(tiles, head_of(p.q, at.batch, at.head), at.query, sizes.queries, sizes.head_dim);
    fetch<STEP, HEAD_DIM>(tiles + KEYS_OFFSET, head_of(p.k, at.batch, key_head), at.key, sizes.keys, sizes.head_dim);
    fetch<ROWS, VALUE_DIM>(tiles + GRADS_OFFSET, head_of(p.dy, at.batch, at.head), at.query, sizes.queries,
                           sizes.value_dim);
    fetch<STEP, VALUE_DIM>(tiles + VALUES_OFFSET, head_of(p.v, at.batch, key_head), at.key, sizes.keys,
                           sizes.value_dim);
    cp_async_commit_group();
    cp_async_wait_group<0>();
    __syncthreads();
}

// Adds the gradients of a tile of scores to those of a warp's rows, which begin at `warp_row` of
// the tile.
INLINE void add_tile(Scores& sums, const AttentionGrad& p, const ScoreTile& at, const float* tiles, u32 warp_row) {
    const Sizes& sizes = p.sizes;
    u32 lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
    KeepMaskFor<KeepMask<false, COLUMNS>> kept;
    if (p.dropout.threshold != 0)
        kept.draw(p.dropout, WeightIndex::of(p), at.batch * sizes.heads + at.head, at.query + i32(warp_row), at.key);
    else kept.keep_all();
    Scores scores, weight_grad;
    gemm_nt<HEAD_DIM>(scores, tiles + warp_row * pitch_of(HEAD_DIM), tiles + KEYS_OFFSET);
    gemm_nt<VALUE_DIM>(weight_grad, tiles + GRADS_OFFSET + warp_row * pitch_of(VALUE_DIM), tiles + VALUES_OFFSET);
    View<const MaskElement> mask = head_of(p.mask, at.batch, at.head);
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        i32 query = at.query + i32(warp_row + GROUPS * i + group);
        RowStats row_stats = load_row_stats(p, at, query);
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            i32 key = at.key + i32(lane) + j * LANES;
            if (row_stats.lse == INFINITE || !attends(sizes, query, key)) continue;
            float score = masked(scaled(scores[i][j], sizes.scale), mask, query, key);
            float weight = ex2_approx_ftz((score - row_stats.lse) * LOG2_E);
            sums[i][j] += weight * fmaf(kept.only(i, j, weight_grad[i][j]), p.dropout.scale, -row_stats.row_dot);
        }
    }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_mask(const __grid_constant__ AttentionGradMask p) {
    wait_for_earlier_launches();
    extern __shared__ __align__(128) u8 shared[];
    float* tiles = reinterpret_cast<float*>(shared);
    u32 warp_row = threadIdx.x / WARP * WARP_ROWS, lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
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
        add_tile(sums, p.grad, at, tiles, warp_row);
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j)
            tiles[(warp_row + GROUPS * i + group) * PITCH + lane + j * LANES] = sums[i][j];
    store_mask_tile<ROWS, STEP, PITCH, THREADS>(p, own, tiles);
}
