// Gradient of forward.cu: attention of f16 and bf16 on the tensor cores. The weights are recomputed
// from the saved log-sum-exp (LSE) (Dao et al. 2022, algorithm 4). Each output element is computed
// by one block, so no sum depends on the order of the blocks:
//
//   p = exp(scale q k^T + mask - lse)     dv = p^T dy                 dq = scale ds k
//   row_dot = rowsum(dy y)                ds = p (dy v^T - row_dot)   dk = scale ds^T q
//
// With dropout, let f be the factor of a weight: 0 if it is dropped, else the dropout scale. Then
// dv = (f p)^T dy and ds = p (f (dy v^T) - row_dot). The dropout mask is recomputed.
//
//   attention_grad_rows      (grad_rows.cu) row_dot, and the LSE in the form that the others read
//   attention_grad_queries   dq: a block owns rows of q and dy,        s   = q k^T   dp   = dy v^T
//                            and loops over the keys
//   attention_grad_keys      dk, dv: a block owns rows of k and v,     s^T = k q^T   dp^T = v dy^T
//                            and loops over the queries of all
//                            query heads that share the key head
//   attention_grad_values    dv, with K_SPLIT: attention_grad_keys     s^T = k q^T
//                            then computes only dk
//
// The last three are one loop with the operands exchanged. The block's own rows stay in shared
// memory. The other rows (`streamed`) are streamed through it, STEP at a time, with double
// buffering:
//
//                  streamed ->  STEP      STEP
//                 +---------+---------+---------+    Weights and their gradient are accumulators,
//   own rows      |         |  p, ds  |         |    which are used without rearrangement as the
//   (ROWS)        +---------+---------+---------+    left operands of the next products:
//                                                    own += ds streamed
//                                                    The next step's rows are in flight meanwhile.
//
// Launch, in this order, with padded = queries rounded up to 16, and a workspace `rows` of
// batch * heads * 2 * padded floats:
//   attention_grad_rows<<<batch * heads * padded / 16, 256>>>
//   attention_grad_queries<<<batch * heads * query_blocks, Q_WARPS * 32, QueryLoop::SHARED_BYTES>>>
//   attention_grad_keys<<<batch * heads / group * key_blocks, K_WARPS * 32,
//                         KeyLoop::SHARED_BYTES>>>
//   attention_grad_values, launched like attention_grad_keys, if K_SPLIT is 1
// A block has WARPS * ROW_TILES * 16 rows. The host sets the tiles by Q_ROW_TILES, Q_STEP, Q_WARPS
// and Q_BLOCKS (blocks per multiprocessor), and by K_ROW_TILES and so on:
//
//                                    Q: ROW_TILES STEP WARPS BLOCKS  K: ROW_TILES STEP WARPS BLOCKS
//   mma    width above 64                    2      16    4     2            1      32    4     2
//          narrower                          2      32    4     2            1      64    4     2
//          mask or dropout                   1      32    4     2            1      32    4     2
//   wgmma  above 64, mask or dropout         1      64    4     2            1      64    4     2
//          narrower                          1      64    4     3            1      64    4     2
//   width above 128, mma                     1      16    4     1            1      16    4     1
//                    wgmma                   1      64    4     1            1      64    4     1
//
// (With VARLEN, mma has smaller tiles in two cases: `backward_tiles` of the host.)
//
// The accumulators of dk and dv of heads wider than 128 do not fit in the registers together. With
// K_SPLIT, attention_grad_keys computes only dk, and attention_grad_values computes dv: five
// products per tile of scores instead of four.
//
// Limits: those of forward.cu; the last axes of dq, dk and dv are contiguous.

#if WGMMA
#include "attention/wgmma.cuh"
#else
#include "attention/mma.cuh"
#include "lib/launch.cuh"
#endif
#include "attention/varlen.cuh"

constexpr int STAGES = 2;

// What a loop accumulates. SCORE_GRADS: the gradient of the scores times the streamed rows, which
// is dq or dk. WEIGHTS: the weights times dy, which is dv.
enum Sums { SCORE_GRADS = 1, WEIGHTS = 2, BOTH = 3 };

// Tile sizes of one of the loops, and the offsets of its tiles in shared memory.
template <bool BY_KEYS, int SUMS, int ROW_TILES_, int STEP_, int WARPS_, int BLOCKS_> struct TileLoop {
    static constexpr int ROW_TILES = ROW_TILES_, STEP = STEP_, WARPS = WARPS_, BLOCKS = BLOCKS_;
    static constexpr bool HAS_FIRST = SUMS & SCORE_GRADS, HAS_SECOND = SUMS & WEIGHTS;
    static constexpr int THREADS = WARPS * WARP;
    static constexpr int WARP_ROWS = ROW_TILES * 16;
    static constexpr int ROWS = WARPS * WARP_ROWS;
    // dy or v, after q or k.
    static constexpr int OWN_SECOND_OFFSET = ROWS * HEAD_DIM * 2;
    // Stages of k or q; in each, v or dy follows.
    static constexpr int STREAMED_OFFSET = OWN_SECOND_OFFSET + ROWS * VALUE_DIM * 2;
    static constexpr int SECOND_OFFSET = STEP * HEAD_DIM * 2;
    static constexpr int STAGE_BYTES = SECOND_OFFSET + STEP * VALUE_DIM * 2;
    // Stages of the LSE and row_dot of each streamed query.
    static constexpr int ROW_STATS_OFFSET = STREAMED_OFFSET + STAGES * STAGE_BYTES;
    static constexpr int ROW_STATS_BYTES = BY_KEYS ? STEP * 8 : 0;
    static constexpr int SHARED_BYTES = ROW_STATS_OFFSET + STAGES * ROW_STATS_BYTES;
};

template <bool BY_KEYS> INLINE TileCoord tile_in(const AttentionGrad& p, u32 index, i32 rows) {
    // The first keys and the last queries of a causal band have the most work: they start first.
    return BY_KEYS ? tile_coord(index, p.sizes.heads / p.sizes.group, p.key_blocks, false, rows, p.varlen)
                   : tile_coord(index, p.sizes.heads, p.query_blocks, true, rows, p.varlen);
}

// Copies the streamed rows from `at` on into a stage. `head_in_group` is the index of the query
// head among those that share the key head.
template <bool BY_KEYS, class W>
INLINE void fetch_streamed(const AttentionGrad& p, const TileCoord& tile, u32 tiles, u32 stage, u32 head_in_group,
                           i32 at) {
    u32 head = BY_KEYS ? tile.head * p.sizes.group + head_in_group : tile.head / p.sizes.group;
    i32 rows = BY_KEYS ? p.sizes.queries : p.sizes.keys;
    u32 to = tiles + W::STREAMED_OFFSET + stage * W::STAGE_BYTES;
    fetch<W::STEP, HEAD_DIM, W::THREADS>(to, head_of(BY_KEYS ? p.q : p.k, tile.batch, head), at, rows,
                                         p.sizes.head_dim);
    fetch<W::STEP, VALUE_DIM, W::THREADS>(to + W::SECOND_OFFSET, head_of(BY_KEYS ? p.dy : p.v, tile.batch, head), at,
                                          rows, p.sizes.value_dim);
    // Packs of 4 rows. Rows beyond the workspace are zero-filled: their weights are 1, but their q
    // and dy are zero too.
    if (BY_KEYS && threadIdx.x < W::STEP / 2) {
        u32 which = threadIdx.x / (W::STEP / 4), pack = threadIdx.x % (W::STEP / 4);
        const float* row_stats =
            p.rows + (i64(tile.batch * p.sizes.heads + head) * 2 + which) * p.padded + at + pack * 4;
        cp_async<16>(tiles + W::ROW_STATS_OFFSET + stage * W::ROW_STATS_BYTES + threadIdx.x * 16, row_stats,
                     at + pack * 4 < workspace_rows(p));
    }
    cp_async_commit_group();
}

template <class W> using Accumulators = float[W::ROW_TILES][W::STEP / 8][4];

// Calls work(i, j, e, number) for each of a lane's accumulators, where `index` is the LSE or
// row_dot of the element's query: of the lane's `own` queries, or (BY_KEYS) of the streamed ones,
// at `streamed` in shared memory.
template <bool BY_KEYS, class W, class Function>
INLINE void for_each_with_stat(const float (&own)[W::ROW_TILES][2], u32 streamed, u32 thread, Function function) {
#pragma unroll
    for (int j = 0; j < W::STEP / 8; ++j) {
        float2 two;
        if (BY_KEYS) two = ld_shared_v2_f32(streamed + j * 32 + thread % 4 * 8);
#pragma unroll
        for (int i = 0; i < W::ROW_TILES; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) function(i, j, e, BY_KEYS ? (e % 2 ? two.y : two.x) : own[i][e / 2]);
    }
}

// Converts products q k^T to weights, without masking. The LSE that is subtracted from the scores
// is in `lse` (own queries) or at `row_stats` (streamed queries).
template <bool BY_KEYS, class W>
INLINE void exp_scores(Accumulators<W>& weight, const float (&lse)[W::ROW_TILES][2], u32 row_stats, float scale,
                       u32 thread) {
    for_each_with_stat<BY_KEYS, W>(lse, row_stats, thread, [&](int i, int j, int e, float stat) {
        weight[i][j][e] =
            ex2_approx_ftz(MASK == 0 ? fmaf(weight[i][j][e], scale, -stat) : (weight[i][j][e] - stat) * LOG2_E);
    });
}

// Converts products dy v^T to the gradient of the scores, given the weights. rowsum(dy y) is in
// `row_dot` (own queries) or at `row_stats` (streamed queries).
template <bool BY_KEYS, class W, class Mask>
INLINE void score_gradient(Accumulators<W>& grad, const Accumulators<W>& weight,
                           const float (&row_dot)[W::ROW_TILES][2], u32 row_stats, const Mask& kept,
                           float dropout_scale, u32 thread) {
    for_each_with_stat<BY_KEYS, W>(row_dot, row_stats, thread, [&](int i, int j, int e, float stat) {
        if (DROPOUT)
            grad[i][j][e] = weight[i][j][e] * fmaf(kept.has(i, j, e) ? grad[i][j][e] : 0, dropout_scale, -stat);
        else grad[i][j][e] = weight[i][j][e] * (grad[i][j][e] - stat);
    });
}

// Loads the LSE that is subtracted from the scores, and rowsum(dy y), of the lane's own queries in
// the warp's rows from `first` on.
template <int ROW_TILES>
INLINE void load_row_stats(float (&lse)[ROW_TILES][2], float (&row_dot)[ROW_TILES][2], const AttentionGrad& p,
                           const TileCoord& tile, i32 first) {
    const float* rows = p.rows + i64(tile.batch * p.sizes.heads + tile.head) * 2 * p.padded;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i32 row = first + i * 16 + half * 8 + i32(threadIdx.x % WARP / 4);
            lse[i][half] = row < i32(p.sizes.queries) ? rows[row] : INFINITE;
            row_dot[i][half] = row < i32(p.sizes.queries) ? rows[p.padded + row] : 0;
        }
}

// Copies the block's own rows: of q and dy, or of k and v.
template <bool BY_KEYS, class W> INLINE void fetch_own(const AttentionGrad& p, const TileCoord& tile, u32 tiles) {
    i32 rows = BY_KEYS ? p.sizes.keys : p.sizes.queries;
    fetch<W::ROWS, HEAD_DIM, W::THREADS>(tiles, head_of(BY_KEYS ? p.k : p.q, tile.batch, tile.head), tile.first_row,
                                         rows, p.sizes.head_dim);
    fetch<W::ROWS, VALUE_DIM, W::THREADS>(tiles + W::OWN_SECOND_OFFSET,
                                          head_of(BY_KEYS ? p.v : p.dy, tile.batch, tile.head), tile.first_row, rows,
                                          p.sizes.value_dim);
}

// Whether, for `count` own rows from `row` on and the streamed rows of the step at `at`, any query
// attends to any key (has_unmasked), or all queries attend to all keys (is_unmasked).
template <bool BY_KEYS, class W> INLINE bool has_unmasked(const Sizes& sizes, i32 row, i32 count, i32 at) {
    return BY_KEYS ? has_tile_unmasked(sizes, at, at + W::STEP, row, row + count)
                   : has_tile_unmasked(sizes, row, row + count, at, at + W::STEP);
}
template <bool BY_KEYS, class W> INLINE bool is_unmasked(const Sizes& sizes, i32 row, i32 count, i32 at) {
    return BY_KEYS ? is_tile_unmasked(sizes, at, at + W::STEP, row, row + count)
                   : is_tile_unmasked(sizes, row, row + count, at, at + W::STEP);
}

// Whether dy v^T of a step is issued together with q k^T, so that it runs while scores are
// converted to weights. Not if a mask needs the registers.
template <bool BY_KEYS, class W>
constexpr bool EARLY_WEIGHT_GRAD = ASYNC_PRODUCTS && W::HAS_FIRST && !((BY_KEYS || HEAD_DIM > 128) && MASK != 0);

// Computes weight = q k^T of a step, and issues dy v^T if that is early. The left operands are the
// warp's own rows, from `tile_row` of the tiles at `tiles` on; the right ones are the stage at
// `streamed`.
template <bool BY_KEYS, class W>
INLINE void issue_step(Accumulators<W>& weight, Accumulators<W>& weight_grad, u32 tiles, u32 tile_row, u32 streamed) {
    warpgroup_arrive();
    gemm_nt<W::ROWS, HEAD_DIM>(weight, tiles, tile_row, streamed);
    warpgroup_commit_batch();
    if (EARLY_WEIGHT_GRAD<BY_KEYS, W>) {
        gemm_nt<W::ROWS, VALUE_DIM>(weight_grad, tiles + W::OWN_SECOND_OFFSET, tile_row, streamed + W::SECOND_OFFSET);
        warpgroup_commit_batch();
    }
    warpgroup_wait<EARLY_WEIGHT_GRAD<BY_KEYS, W> ? 1 : 0>();
    fence_accumulator(weight);
}

// Converts products q k^T of a step to weights. Masked weights become 0.
template <bool BY_KEYS, class W>
INLINE void recompute_weights(Accumulators<W>& weight, const float (&lse)[W::ROW_TILES][2], const AttentionGrad& p,
                              const TileCoord& tile, u32 head, i32 warp_row, i32 current, u32 row_stats, float scale,
                              u32 thread) {
    const Sizes& sizes = p.sizes;
    bool partially_masked = !is_unmasked<BY_KEYS, W>(sizes, warp_row, W::WARP_ROWS, current);
    if (MASK != 0) apply_mask<BY_KEYS>(weight, head_of(p.mask, tile.batch, head), warp_row, current, sizes, scale);
    exp_scores<BY_KEYS, W>(weight, lse, row_stats, scale, thread);
    if (partially_masked) apply_band_mask<BY_KEYS>(weight, sizes, warp_row, current, 0, thread);
}

// Converts dy v^T of a step to the gradient of the scores, given the weights, as a left operand.
// Issues the product first if it is not early.
template <bool BY_KEYS, class W, class Mask>
INLINE void compute_ds(u32 (&grads)[W::ROW_TILES][W::STEP / 16][4], Accumulators<W>& grad,
                       const Accumulators<W>& weight, const float (&row_dot)[W::ROW_TILES][2], u32 tiles, u32 tile_row,
                       u32 streamed, u32 row_stats, const Mask& kept, float dropout_scale, u32 thread) {
    if (!EARLY_WEIGHT_GRAD<BY_KEYS, W>) {
        warpgroup_arrive();
        gemm_nt<W::ROWS, VALUE_DIM>(grad, tiles + W::OWN_SECOND_OFFSET, tile_row, streamed + W::SECOND_OFFSET);
        warpgroup_commit_batch();
    }
    warpgroup_wait<EARLY_WEIGHT_GRAD<BY_KEYS, W> && W::HAS_SECOND ? 1 : 0>();
    fence_accumulator(grad);
    score_gradient<BY_KEYS, W>(grad, weight, row_dot, row_stats + W::STEP * 4, kept, dropout_scale, thread);
    round_to_operand(grads, grad);
}

// Advances to the next step: after the last step of a query head, to the first of the next head.
template <bool BY_KEYS, class W> INLINE void advance(i32& at, u32& head_in_group, const Range& streamed) {
    at += W::STEP;
    if (BY_KEYS && at >= streamed.end) {
        at = streamed.first / W::STEP * W::STEP;
        ++head_in_group;
    }
}

template <bool BY_KEYS> INLINE u32 tiles_of(const AttentionGrad& p) { return BY_KEYS ? p.key_blocks : p.query_blocks; }

// The range of streamed rows that any of the block's own rows attends to (or that attend to it),
// and the number of steps over the range from `at` on.
template <bool BY_KEYS, class W> INLINE Range streamed_range(const Sizes& sizes, const TileCoord& tile, i32 own_rows) {
    i32 end_row = min(tile.first_row + W::ROWS, own_rows);
    return BY_KEYS ? query_range(sizes, tile.first_row, end_row) : key_range(sizes, tile.first_row, end_row);
}
template <bool BY_KEYS, class W> INLINE i32 steps_over(const Sizes& sizes, const Range& streamed, i32 at) {
    i32 steps = streamed.end > streamed.first ? (streamed.end - at + W::STEP - 1) / W::STEP : 0;
    return BY_KEYS ? steps * i32(sizes.group) : steps;
}

template <bool BY_KEYS, class W> INLINE void gradient(const AttentionGrad& launched) {
    extern __shared__ __align__(1024) u8 shared[];
    const auto& p = sequence_params<BY_KEYS>(launched, shared + W::SHARED_BYTES, tiles_of<BY_KEYS>(launched), W::ROWS);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in<BY_KEYS>(p, blockIdx.x, W::ROWS);
    i32 own_rows = BY_KEYS ? sizes.keys : sizes.queries;
    if (has_no_rows(tile, own_rows)) return;
    Range streamed = streamed_range<BY_KEYS, W>(sizes, tile, own_rows);
    i32 at = streamed.first / W::STEP * W::STEP;
    i32 steps = steps_over<BY_KEYS, W>(sizes, streamed, at);
    u32 tiles = cvta_to_shared(shared);
    u32 tile_row = threadIdx.x / WARP * W::WARP_ROWS;
    i32 warp_row = tile.first_row + i32(tile_row);
    fetch_own<BY_KEYS, W>(p, tile, tiles);
    u32 head_in_group = 0;
    if (steps > 0) fetch_streamed<BY_KEYS, W>(p, tile, tiles, 0, head_in_group, at);
    cp_async_commit_group();
    float own_first[W::ROW_TILES][W::HAS_FIRST ? HEAD_DIM / 8 : 1][4];
    float own_second[W::ROW_TILES][W::HAS_SECOND ? VALUE_DIM / 8 : 1][4];
    clear(own_first);
    clear(own_second);
    float lse[W::ROW_TILES][2], row_dot[W::ROW_TILES][2];
    if (!BY_KEYS) load_row_stats(lse, row_dot, p, tile, warp_row);
    float scale = MASK == 0 ? sizes.scale * LOG2_E : sizes.scale;
#pragma unroll 1
    for (i32 step = 0; step < steps; ++step) {
        // Wait for the products that read the stage that is filled next.
        warpgroup_wait<0>();
        wait_for_copies();
        __syncthreads();
        i32 current = at;
        u32 head = BY_KEYS ? tile.head * sizes.group + head_in_group : tile.head;
        u32 streamed_first = tiles + W::STREAMED_OFFSET + step % STAGES * W::STAGE_BYTES,
            streamed_second = streamed_first + W::SECOND_OFFSET;
        u32 row_stats = tiles + W::ROW_STATS_OFFSET + step % STAGES * W::ROW_STATS_BYTES;
        advance<BY_KEYS, W>(at, head_in_group, streamed);
        if (step + 1 < steps) fetch_streamed<BY_KEYS, W>(p, tile, tiles, (step + 1) % STAGES, head_in_group, at);
        constexpr int ROWS_PER_PRODUCT = rows_per_product(W::ROW_TILES);
        i32 team_row = warp_row / ROWS_PER_PRODUCT * ROWS_PER_PRODUCT;
        if (!has_unmasked<BY_KEYS, W>(sizes, team_row, ROWS_PER_PRODUCT, current)) continue;
        KeepMaskFor<KeepMask<BY_KEYS, W::ROW_TILES, W::STEP / 8>> kept;
        kept.draw(p.dropout, WeightIndex::of(p), tile.batch * sizes.heads + head, warp_row, current);
        float weight[W::ROW_TILES][W::STEP / 8][4], weight_grad[W::ROW_TILES][W::STEP / 8][4];
        issue_step<BY_KEYS, W>(weight, weight_grad, tiles, tile_row, streamed_first);
        u32 thread = read_tid_x();
        recompute_weights<BY_KEYS, W>(weight, lse, p, tile, head, warp_row, current, row_stats, scale, thread);
        u32 weights[W::ROW_TILES][W::STEP / 16][4], weight_grads[W::ROW_TILES][W::STEP / 16][4];
        if constexpr (W::HAS_SECOND) {
            round_to_operand(weights, weight);
            kept.apply(weights);
            warpgroup_arrive();
            accumulate_gemm_nn<VALUE_DIM>(own_second, weights, streamed_second);
            warpgroup_commit_batch();
        }
        if constexpr (W::HAS_FIRST) {
            compute_ds<BY_KEYS, W>(weight_grads, weight_grad, weight, row_dot, tiles, tile_row, streamed_first,
                                   row_stats, kept, p.dropout.scale, thread);
            warpgroup_arrive();
            accumulate_gemm_nn<HEAD_DIM>(own_first, weight_grads, streamed_first);
            warpgroup_commit_batch();
        }
    }
    warpgroup_wait<0>();
    fence_accumulator(own_first);
    fence_accumulator(own_second);
    // Staged in the memory of the own rows. In a function, ptxas would serialize wgmma (C7515).
    cp_async_wait_group<0>();
    __syncthreads();
    tile = tile_in<BY_KEYS>(p, read_ctaid_x(), W::ROWS);
    tile_row = read_tid_x() / WARP * W::WARP_ROWS;
    if constexpr (W::HAS_FIRST) {
        scale_by(own_first, sizes.scale);
        write_rows<W::ROWS, HEAD_DIM>(own_first, tiles, tile_row, head_of(BY_KEYS ? p.dk : p.dq, tile.batch, tile.head),
                                      tile.first_row, own_rows, sizes.head_dim);
    }
    if constexpr (W::HAS_SECOND && DROPOUT) scale_by(own_second, p.dropout.scale);
    if constexpr (W::HAS_SECOND)
        write_rows<W::ROWS, VALUE_DIM>(own_second, tiles + W::OWN_SECOND_OFFSET, tile_row,
                                       head_of(p.dv, tile.batch, tile.head), tile.first_row, own_rows, sizes.value_dim);
}

typedef TileLoop<false, SCORE_GRADS, Q_ROW_TILES, Q_STEP, Q_WARPS, Q_BLOCKS> QueryLoop;
typedef TileLoop<true, K_SPLIT ? SCORE_GRADS : BOTH, K_ROW_TILES, K_STEP, K_WARPS, K_BLOCKS> KeyLoop;

extern "C" __global__ void __launch_bounds__(QueryLoop::THREADS, QueryLoop::BLOCKS)
    attention_grad_queries(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<false, QueryLoop>(p);
}
extern "C" __global__ void __launch_bounds__(KeyLoop::THREADS, KeyLoop::BLOCKS)
    attention_grad_keys(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<true, KeyLoop>(p);
}
#if K_SPLIT
typedef TileLoop<true, WEIGHTS, K_ROW_TILES, K_STEP, K_WARPS, K_BLOCKS> ValueLoop;
extern "C" __global__ void __launch_bounds__(ValueLoop::THREADS, ValueLoop::BLOCKS)
    attention_grad_values(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<true, ValueLoop>(p);
}
#endif
