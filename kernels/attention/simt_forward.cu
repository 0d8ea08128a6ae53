// Scaled dot-product attention of f32 by FMAs. forward.cu describes what it computes. A block has
// ROWS queries of one head and loops over the keys, STEP at a time (with dropout,
// y += dropout(p) v):
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+   s = scale q k^T + mask   4 rows x STEP / 8 columns
//             |         |         |         |                            per lane
//   warp 0    |         |         |         |   row_max = largest s      within 8 lanes
//   warp 1    |         |  s, p   |         |   p = exp(s - row_max)     through shared memory, in
//             |         |         |         |                            the buffer of k
//   warp 2    |         |         |         |   y += p v                 4 rows x VALUE_DIM / 8
//             +---------+---------+---------+                            columns per lane
//
// Launch: attention<<<batch * heads * blocks, 128, SHARED_BYTES>>>, with blocks = queries / 64,
// rounded up. A mask can have any layout. The other limits are those of forward.cu.

#include "attention/simt.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

constexpr int STEP = 64;
constexpr int K_FLOATS = STEP * largest(pitch_of(HEAD_DIM), weight_pitch(STEP));
constexpr int SHARED_BYTES = (ROWS * pitch_of(HEAD_DIM) + K_FLOATS + STEP * pitch_of(VALUE_DIM)) * 4;
// Blocks per multiprocessor, as its shared memory (227 KiB) and registers permit.
constexpr int BLOCKS = SHARED_BYTES < 72 * 1024 && VALUE_DIM < 128 && MASK == 0 && !DROPOUT ? 3 : 2;

INLINE TileCoord tile_in(const Attention& p) {
    // The last queries of a causal band attend to the most keys: they start first.
    return tile_coord(blockIdx.x, p.sizes.heads, p.blocks, true, ROWS, p.varlen);
}

typedef float Scores[LANE_ROWS][STEP / LANES];
typedef float Outputs[LANE_ROWS][VALUE_DIM / LANES];

// What a block computes, where its tiles are in shared memory, and which rows are this lane's.
struct Block {
    const Attention& p;
    const Sizes& sizes;
    TileCoord tile;
    i32 end_query;
    View<const Element> k, v;
    View<const MaskElement> mask;
    u32 lane, group;
    float *k_tile, *v_tile, *q_rows, *weights;
    i32 warp_query;

    // Copies keys and values of a step, and waits for the keys.
    INLINE void fetch_step(i32 first_key) const {
        __syncthreads();
        fetch<STEP, HEAD_DIM>(k_tile, k, first_key, sizes.keys, sizes.head_dim);
        cp_async_commit_group();
        fetch<STEP, VALUE_DIM>(v_tile, v, first_key, sizes.keys, sizes.value_dim);
        cp_async_commit_group();
        cp_async_wait_group<1>();
        __syncthreads();
    }
};

// Converts products of a step to scores, then to weights of a lane's rows relative to row_max. Adds
// the weights to row_sum, and rescales y and the previous row_sum.
INLINE void exp_scores(Scores& s, Outputs& y, float (&row_max)[LANE_ROWS], float (&row_sum)[LANE_ROWS],
                       const Block& block, i32 first_key) {
    const Sizes& sizes = block.sizes;
    i32 warp_query = block.warp_query;
    u32 lane = block.lane, group = block.group;
    const View<const MaskElement>& mask = block.mask;
    bool fully_unmasked =
        MASK == 0 && is_tile_unmasked(sizes, warp_query, warp_query + WARP_ROWS, first_key, first_key + STEP);
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        u32 query = warp_query + GROUPS * i + group;
        float largest_score = -INFINITE;
#pragma unroll
        for (int j = 0; j < STEP / LANES; ++j) {
            u32 key = first_key + lane + j * LANES;
            float score = scaled(s[i][j], sizes.scale);
            if (!fully_unmasked)
                score =
                    query < sizes.queries && attends(sizes, query, key) ? masked(score, mask, query, key) : -INFINITE;
            s[i][j] = score;
            largest_score = fmaxf(largest_score, score);
        }
#pragma unroll
        for (int lane_mask = LANES / 2; lane_mask > 0; lane_mask /= 2)
            largest_score = fmaxf(largest_score, __shfl_xor_sync(ALL_LANES, largest_score, lane_mask));
        float new_max = fmaxf(row_max[i], largest_score);
        // If the row has no unmasked key yet: weights of 0, not of exp(-infinity + infinity).
        float base = new_max == -INFINITE ? 0 : new_max;
        float rescale = ex2_approx_ftz((row_max[i] - base) * LOG2_E);
        row_max[i] = new_max;
        row_sum[i] *= rescale;
#pragma unroll
        for (int j = 0; j < STEP / LANES; ++j) {
            s[i][j] = ex2_approx_ftz((s[i][j] - base) * LOG2_E);
            row_sum[i] += s[i][j];
        }
#pragma unroll
        for (int j = 0; j < VALUE_DIM / LANES; ++j) y[i][j] *= rescale;
    }
}

// Divides y by the sums of its weights, and stores y and the log-sum-exp of the scores.
INLINE void epilogue(Outputs& y, const float (&row_max)[LANE_ROWS], const float (&row_sum)[LANE_ROWS],
                     const Block& block) {
    const Attention& p = block.p;
    const Sizes& sizes = p.sizes;
    const TileCoord& tile = block.tile;
    i32 warp_query = block.warp_query, end_query = block.end_query;
    u32 lane = block.lane, group = block.group;
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        float total = row_sum[i];
#pragma unroll
        for (int lane_mask = LANES / 2; lane_mask > 0; lane_mask /= 2)
            total += __shfl_xor_sync(ALL_LANES, total, lane_mask);
        bool is_fully_masked = row_max[i] == -INFINITE && total == 0;
        float inverse = DROPOUT && p.dropout.threshold != 0 ? p.dropout.scale / total : 1 / total;
#pragma unroll
        for (int j = 0; j < VALUE_DIM / LANES; ++j) y[i][j] = is_fully_masked ? 0 : y[i][j] * inverse;
        i32 query = warp_query + GROUPS * i + i32(group);
        if (query < end_query && lane == 0)
            store_lse(p, lse_index(p, tile.batch, tile.head, query), row_max[i], total, is_fully_masked);
    }
    write_rows<VALUE_DIM>(y, head_of(p.y, tile.batch, tile.head), warp_query, end_query, sizes.value_dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Attention launched) {
    wait_for_earlier_launches();
    extern __shared__ __align__(128) u8 shared[];
    const Attention& p = sequence_params<false>(launched, shared + SHARED_BYTES, launched.blocks, ROWS);
    const Sizes& sizes = p.sizes;
    // The last queries of a causal band attend to the most keys: they start first.
    TileCoord tile = tile_in(p);
    if (has_no_rows(tile, sizes.queries)) return;
    i32 end_query = min(tile.first_row + ROWS, i32(sizes.queries));
    Range keys = key_range(sizes, tile.first_row, end_query);
    View<const Element> k = head_of(p.k, tile.batch, tile.head / sizes.group);
    View<const Element> v = head_of(p.v, tile.batch, tile.head / sizes.group);
    View<const MaskElement> mask = head_of(p.mask, tile.batch, tile.head);

    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
    float* q_tile = reinterpret_cast<float*>(shared);
    float* k_tile = q_tile + ROWS * pitch_of(HEAD_DIM);
    float* v_tile = k_tile + K_FLOATS;
    float* q_rows = q_tile + warp * WARP_ROWS * pitch_of(HEAD_DIM);
    float* weights = k_tile + warp * WARP_ROWS * weight_pitch(STEP);
    i32 warp_query = tile.first_row + i32(warp) * WARP_ROWS;
    Block block = {p, sizes, tile, end_query, k, v, mask, lane, group, k_tile, v_tile, q_rows, weights, warp_query};
    fetch<ROWS, HEAD_DIM>(q_tile, head_of(p.q, tile.batch, tile.head), tile.first_row, end_query, sizes.head_dim);
    cp_async_commit_group();

    Outputs y;
    float row_max[LANE_ROWS], row_sum[LANE_ROWS];
    clear(y);
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i) {
        row_max[i] = -INFINITE;
        row_sum[i] = 0;
    }
#pragma unroll 1
    for (i32 first_key = keys.first / STEP * STEP; first_key < keys.end; first_key += STEP) {
        block.fetch_step(first_key);
        bool any = has_tile_unmasked(sizes, warp_query, warp_query + WARP_ROWS, first_key, first_key + STEP);
        Scores s;
        if (any) {
            gemm_nt<HEAD_DIM>(s, q_rows, k_tile);
            exp_scores(s, y, row_max, row_sum, block, first_key);
#if DROPOUT
            if (p.dropout.threshold != 0) {
                KeepMask<false, STEP / LANES> kept;
                kept.draw(p.dropout, WeightIndex::of(p), tile.batch * sizes.heads + tile.head, warp_query, first_key);
                kept.apply(s);
            }
#endif
        }
        __syncthreads();
        if (any) store_weights(weights, s, KeepAll());
        cp_async_wait_group<0>();
        __syncthreads();
        if (any) accumulate_gemm_nn<VALUE_DIM, STEP>(y, weights, v_tile);
    }
    cp_async_wait_group<0>();
    epilogue(y, row_max, row_sum, block);
}
