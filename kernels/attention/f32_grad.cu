// Gradient of f32_forward.cu. grad.cu describes what it computes and in which order, f32_mma.cuh
// the products of f32. The row statistics of queries are those of attention_grad_rows for f32.
//
//   attention_grad_queries   dq: a block owns rows of q and dy,        s   = q k^T   dp   = dy v^T
//                            and loops over the keys
//   attention_grad_keys      dk, dv: a block owns rows of k and v,     s^T = k q^T   dp^T = v dy^T
//                            and loops over the queries of all
//                            query heads that share the key head
//   attention_grad_values    dv, with K_SPLIT: attention_grad_keys     s^T = k q^T
//                            then computes only dk
//
//                  streamed ->  STEP      STEP
//                 +---------+---------+---------+    Weights and their gradient are accumulators,
//   own rows      |         |  p, ds  |         |    which are used without rearrangement as the
//   (ROWS)        +---------+---------+---------+    left operands of the next products:
//                                                    own += ds streamed
//                                                    The next step's rows are in flight meanwhile.
//
// With SPLIT, steps with numbers that cannot be split into bf16 terms use FMAs, as in
// f32_forward.cu. So does what a warp adds to a gradient if gradients of its scores are 2^48 or
// more, infinite or NaN.
//
// Launch as in grad.cu: blocks of WARPS * 32 threads have WARPS * ROW_TILES * 16 rows. The host
// sets ROW_TILES, STEP, WARPS, BLOCKS (blocks per multiprocessor) and K_SPLIT:
//
//                             ROW_TILES STEP WARPS BLOCKS K_SPLIT
//   width above 64, TF32          1      16    4     2       0     96 KiB of shared memory;
//                                                                  dk and dv are 128 registers
//                   SPLIT         1      16    4     2       1     no registers for the bf16 terms
//                                                                  in addition to dk and dv
//   narrower                      1      32    4     2       0
//
// Limits: those of f32_forward.cu; the last axes of dq, dk and dv are contiguous. With SPLIT,
// gradients of scores below 2^-103 have fewer than 24 bits.

#include "attention/f32_mma.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 32
#define WARPS 4
#define BLOCKS 2
#endif

// What a loop accumulates. SCORE_GRADS: the gradient of the scores times the streamed rows, which
// is dq or dk. WEIGHTS: the weights times dy, which is dv.
enum Sums { SCORE_GRADS = 1, WEIGHTS = 2, BOTH = 3 };

constexpr int THREADS = WARPS * WARP;
constexpr int WARP_ROWS = ROW_TILES * 16;
constexpr int ROWS = WARPS * WARP_ROWS;
constexpr int STAGES = 2;
// dy or v, after q or k.
constexpr int OWN_SECOND_OFFSET = ROWS * HEAD_DIM * 4;
// Stages of k or q; in each, v or dy follows.
constexpr int STREAMED_OFFSET = OWN_SECOND_OFFSET + ROWS * VALUE_DIM * 4;
constexpr int SECOND_OFFSET = STEP * HEAD_DIM * 4;
constexpr int STAGE_BYTES = SECOND_OFFSET + STEP * VALUE_DIM * 4;
// Stages of the LSE and row_dot of each streamed query.
constexpr int ROW_STATS_OFFSET = STREAMED_OFFSET + STAGES * STAGE_BYTES;
constexpr int ROW_STATS_BYTES = STEP * 8;
// A loop over keys has its own queries' row statistics in registers.
template <bool BY_KEYS> constexpr int SHARED_BYTES = ROW_STATS_OFFSET + (BY_KEYS ? STAGES * ROW_STATS_BYTES : 0);

template <bool BY_KEYS> INLINE TileCoord tile_in(const AttentionGrad& p, u32 index) {
    // The first keys and the last queries of a causal band have the most work: they start first.
    return BY_KEYS ? tile_coord(index, p.sizes.heads / p.sizes.group, p.key_blocks, false, ROWS, p.varlen)
                   : tile_coord(index, p.sizes.heads, p.query_blocks, true, ROWS, p.varlen);
}

typedef float Products[ROW_TILES][STEP / 8][4];
template <bool BY_KEYS> using TileKeepMask = KeepMaskFor<KeepMask<BY_KEYS, ROW_TILES, STEP / 8>>;

// The position of the loop: a step from the streamed row `at` on, the index of the query head among
// those of the key head, and the stage.
struct Step {
    i32 at;
    u32 head_in_group, stage;
};

// What a block computes, and where its tiles and this warp's rows of them are.
template <bool BY_KEYS> struct Block {
    const AttentionGrad& p;
    const Sizes& sizes;
    TileCoord tile;
    u32 tiles, tile_row;
    i32 warp_row;
    bool splittable;  // whether the own rows can be split

    INLINE u32 query_head(const Step& step) const {
        return BY_KEYS ? tile.head * sizes.group + step.head_in_group : tile.head;
    }
    INLINE u32 first(const Step& step) const { return tiles + STREAMED_OFFSET + step.stage * STAGE_BYTES; }
    INLINE u32 second(const Step& step) const { return first(step) + SECOND_OFFSET; }
    INLINE u32 row_stats(const Step& step) const { return tiles + ROW_STATS_OFFSET + step.stage * ROW_STATS_BYTES; }

    // Copies the block's own rows: of q and dy, or of k and v.
    INLINE void fetch_own(i32 rows) const {
        fetch_tile<ROWS, HEAD_DIM, THREADS>(tiles, head_of(BY_KEYS ? p.k : p.q, tile.batch, tile.head), tile.first_row,
                                            rows, sizes.head_dim);
        fetch_tile<ROWS, VALUE_DIM, THREADS>(tiles + OWN_SECOND_OFFSET,
                                             head_of(BY_KEYS ? p.v : p.dy, tile.batch, tile.head), tile.first_row, rows,
                                             sizes.value_dim);
    }
    INLINE bool await_own() const {
        cp_async_wait_group<0>();
        return sync_all_splittable(has_splittable_chunks<ROWS, HEAD_DIM, THREADS>(tiles) &&
                                   has_splittable_chunks<ROWS, VALUE_DIM, THREADS>(tiles + OWN_SECOND_OFFSET));
    }
    // Copies the streamed rows of a step: of k and v, or of a query head's q and dy.
    INLINE void fetch_streamed(const Step& step) const {
        u32 head = BY_KEYS ? query_head(step) : tile.head / sizes.group;
        i32 rows = BY_KEYS ? sizes.queries : sizes.keys;
        fetch_tile<STEP, HEAD_DIM, THREADS>(first(step), head_of(BY_KEYS ? p.q : p.k, tile.batch, head), step.at, rows,
                                            sizes.head_dim);
        fetch_tile<STEP, VALUE_DIM, THREADS>(second(step), head_of(BY_KEYS ? p.dy : p.v, tile.batch, head), step.at,
                                             rows, sizes.value_dim);
        // Packs of 4 rows. Rows beyond the workspace are zero-filled: their weights are 1, but
        // their q and dy are zero too.
        if (!BY_KEYS || threadIdx.x >= STEP / 2) return;
        u32 which = threadIdx.x / (STEP / 4), row = step.at + threadIdx.x % (STEP / 4) * 4;
        const float* from = p.rows + (i64(tile.batch * sizes.heads + head) * 2 + which) * p.padded + row;
        cp_async<16>(row_stats(step) + threadIdx.x * 16, from, i32(row) < workspace_rows(p));
    }
    // Waits for the step, and returns whether its rows can be split.
    INLINE bool await_streamed(const Step& step) const {
        cp_async_wait_group<0>();
        return sync_all_splittable(has_splittable_chunks<STEP, HEAD_DIM, THREADS>(first(step)) &&
                                   has_splittable_chunks<STEP, VALUE_DIM, THREADS>(second(step)));
    }
};

// The LSE that is subtracted from the scores, and rowsum(dy y), of the lane's own queries in the
// warp's rows from `first` on.
struct RowStats {
    float lse[ROW_TILES][2], row_dot[ROW_TILES][2];

    INLINE void load(const AttentionGrad& p, const TileCoord& tile, i32 first) {
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
};

// Calls work(i, j, e, number) for each of a lane's accumulators, where `index` is the LSE or
// row_dot of the element's query: of the lane's `own` queries, or (BY_KEYS) of the streamed ones,
// at `streamed` in shared memory.
template <bool BY_KEYS, class Function>
INLINE void for_each_with_stat(const float (&own)[ROW_TILES][2], u32 streamed, Function function) {
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j) {
        float2 two;
        if (BY_KEYS) two = ld_shared_v2_f32(streamed + j * 32 + read_tid_x() % 4 * 8);
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) function(i, j, e, BY_KEYS ? (e % 2 ? two.y : two.x) : own[i][e / 2]);
    }
}

// Converts products q k^T of a step to weights. Masked weights become 0.
template <bool BY_KEYS>
INLINE void exp_scores(Products& weight, const RowStats& own, const Block<BY_KEYS>& block, const Step& step) {
    const Sizes& sizes = block.sizes;
    i32 row = block.warp_row, at = step.at;
    bool fully_unmasked = BY_KEYS ? is_tile_unmasked(sizes, at, at + STEP, row, row + WARP_ROWS)
                                  : is_tile_unmasked(sizes, row, row + WARP_ROWS, at, at + STEP);
    if (MASK != 0) {
        View<const MaskElement> mask = head_of(block.p.mask, block.tile.batch, block.query_head(step));
        apply_mask<BY_KEYS>(weight, mask, row, at, sizes, sizes.scale);
    } else {
        scale_scores(weight, sizes.scale);
    }
    for_each_with_stat<BY_KEYS>(own.lse, block.row_stats(step), [&](int i, int j, int e, float stat) {
        weight[i][j][e] = ex2_approx_ftz((weight[i][j][e] - stat) * LOG2_E);
    });
    if (!fully_unmasked) apply_band_mask<BY_KEYS>(weight, sizes, row, at, 0, read_tid_x());
}

// Converts products dy v^T of a step to the gradient of the scores, given the weights.
template <bool BY_KEYS>
INLINE void score_gradient(Products& grad, const Products& weight, const RowStats& own, const Block<BY_KEYS>& block,
                           const Step& step, const TileKeepMask<BY_KEYS>& kept) {
    float factor = block.p.dropout.scale;
    for_each_with_stat<BY_KEYS>(own.row_dot, block.row_stats(step) + STEP * 4, [&](int i, int j, int e, float stat) {
        if (DROPOUT) grad[i][j][e] = weight[i][j][e] * fmaf(kept.has(i, j, e) ? grad[i][j][e] : 0, factor, -stat);
        else grad[i][j][e] = weight[i][j][e] * (grad[i][j][e] - stat);
    });
}

// The gradients of the warp's own rows: dq; dk, dv or both.
template <int SUMS> struct Gradients {
    static constexpr bool HAS_FIRST = SUMS & SCORE_GRADS, HAS_SECOND = SUMS & WEIGHTS;
    float first[ROW_TILES][HAS_FIRST ? HEAD_DIM / 8 : 1][4], second[ROW_TILES][HAS_SECOND ? VALUE_DIM / 8 : 1][4];
};

// Adds the gradients of a step, whose rows have been copied.
template <bool BY_KEYS, int SUMS>
INLINE void add_step(Gradients<SUMS>& to, const RowStats& own, const Block<BY_KEYS>& block, const Step& step,
                     bool splittable) {
    const AttentionGrad& p = block.p;
    u32 head = block.tile.batch * block.sizes.heads + block.query_head(step);
    TileKeepMask<BY_KEYS> kept;
    kept.draw(p.dropout, WeightIndex::of(p), head, block.warp_row, step.at);
    Products weight, grad;
    gemm_nt<HEAD_DIM>(weight, block.tiles, block.tile_row, block.first(step), splittable && block.splittable);
    exp_scores(weight, own, block, step);
    if constexpr (Gradients<SUMS>::HAS_FIRST) {
        gemm_nt<VALUE_DIM>(grad, block.tiles + OWN_SECOND_OFFSET, block.tile_row, block.second(step),
                           splittable && block.splittable);
        score_gradient(grad, weight, own, block, step, kept);
    }
    if constexpr (Gradients<SUMS>::HAS_SECOND) {
        drop_weights(weight, kept);
        accumulate_gemm_nn<VALUE_DIM>(to.second, weight, block.second(step), splittable);
    }
    if constexpr (Gradients<SUMS>::HAS_FIRST)
        accumulate_gemm_nn<HEAD_DIM>(to.first, grad, block.first(step),
                                     splittable && block.splittable && are_splittable(grad));
}

// Returns the next step: after the last step of a query head, the first of the next head.
template <bool BY_KEYS> INLINE Step next_of(const Step& step, const Range& streamed) {
    Step next = {step.at + STEP, step.head_in_group, (step.stage + 1) % STAGES};
    if (BY_KEYS && next.at >= streamed.end) {
        next.at = streamed.first / STEP * STEP;
        ++next.head_in_group;
    }
    return next;
}

template <bool BY_KEYS, int SUMS>
INLINE void write_gradients(Gradients<SUMS>& gradients, const Block<BY_KEYS>& block, i32 rows) {
    const AttentionGrad& p = block.p;
    const TileCoord& tile = block.tile;
    if constexpr (Gradients<SUMS>::HAS_FIRST) {
        scale_by(gradients.first, block.sizes.scale);
        write_columns<HEAD_DIM>(gradients.first, head_of(BY_KEYS ? p.dk : p.dq, tile.batch, tile.head), block.warp_row,
                                rows, block.sizes.head_dim);
    }
    if constexpr (Gradients<SUMS>::HAS_SECOND) {
        if (DROPOUT) scale_by(gradients.second, p.dropout.scale);
        write_columns<VALUE_DIM>(gradients.second, head_of(p.dv, tile.batch, tile.head), block.warp_row, rows,
                                 block.sizes.value_dim);
    }
}

template <bool BY_KEYS, int SUMS> INLINE void gradient(const AttentionGrad& launched) {
    extern __shared__ __align__(1024) u8 shared[];
    u32 blocks = BY_KEYS ? launched.key_blocks : launched.query_blocks;
    const AttentionGrad& p = sequence_params<BY_KEYS>(launched, shared + SHARED_BYTES<BY_KEYS>, blocks, ROWS);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in<BY_KEYS>(p, blockIdx.x);
    i32 own_rows = BY_KEYS ? sizes.keys : sizes.queries;
    if (has_no_rows(tile, own_rows)) return;
    i32 end_row = min(tile.first_row + ROWS, own_rows);
    Range streamed = BY_KEYS ? query_range(sizes, tile.first_row, end_row) : key_range(sizes, tile.first_row, end_row);
    u32 tile_row = threadIdx.x / WARP * WARP_ROWS;
    Block<BY_KEYS> block = {p, sizes, tile, cvta_to_shared(shared), tile_row, tile.first_row + i32(tile_row), true};
    Step step = {streamed.first / STEP * STEP, 0, 0};
    i32 steps = streamed.end > streamed.first ? (streamed.end - step.at + STEP - 1) / STEP : 0;
    if (BY_KEYS) steps *= i32(sizes.group);
    block.fetch_own(own_rows);
    if (steps > 0) block.fetch_streamed(step);
    cp_async_commit_group();
    RowStats own;
    if (!BY_KEYS) own.load(p, tile, block.warp_row);
    block.splittable = block.await_own();
    Gradients<SUMS> gradients;
    clear(gradients.first);
    clear(gradients.second);
#pragma unroll 1
    for (; steps > 0; --steps) {
        bool splittable = block.await_streamed(step);
        Step current = step;
        step = next_of<BY_KEYS>(step, streamed);
        if (steps > 1) block.fetch_streamed(step);
        cp_async_commit_group();
        i32 row = block.warp_row, at = current.at;
        bool any = BY_KEYS ? has_tile_unmasked(sizes, at, at + STEP, row, row + WARP_ROWS)
                           : has_tile_unmasked(sizes, row, row + WARP_ROWS, at, at + STEP);
        if (any) add_step(gradients, own, block, current, splittable);
    }
    write_gradients(gradients, block, own_rows);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_queries(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<false, SCORE_GRADS>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_keys(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<true, K_SPLIT ? SCORE_GRADS : BOTH>(p);
}
#if K_SPLIT
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_values(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<true, WEIGHTS>(p);
}
#endif
