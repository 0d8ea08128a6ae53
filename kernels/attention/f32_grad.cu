// The gradient of f32_forward.cu: see grad.cu for what it computes and in which order, and f32_mma.cuh for how products of f32 are formed. Numbers
// of queries are those of attention_grad_rows for f32.
//
//   attention_grad_queries   dq: a block has rows of q and dy, and walks over the keys       s  = q k^T      dp  = dy v^T
//   attention_grad_keys      dk, dv: a block has rows of k and v, and walks over the         s^T = k q^T     dp^T = v dy^T
//                            queries of all query heads that share the key head
//   attention_grad_values    dv, where K_SPLIT leaves dk alone to the one before             s^T = k q^T
//
//                    walked ->   STEP      STEP
//                 +---------+---------+---------+     weights and their gradient in accumulators, which are the left operands
//   own rows      |         |  p, ds  |         |     of the products that follow as they stand: own += ds walked
//   (ROWS)        +---------+---------+---------+     the next step's rows are in flight meanwhile
//
// With SPLIT steps that meet numbers without parts are multiplied by fused multiply-adds, as in f32_forward.cu, and so is what a warp adds to a
// gradient where gradients of its scores are 2^48 and more, infinite or NaN.
//
// Launch as for grad.cu: blocks of WARPS * 32 threads have WARPS * ROW_TILES * 16 rows. The host says ROW_TILES, STEP, WARPS, BLOCKS and K_SPLIT:
//
//                                   ROW_TILES STEP WARPS BLOCKS K_SPLIT
//   a width above 64, TF32              1      16    4     2       0     96 KiB of shared memory; dk and dv are 128 registers
//                     SPLIT             1      16    4     2       1     there are no registers for parts beside both
//   narrower                            1      32    4     2       0
//
// Limits: as for f32_forward.cu; the last axes of dq, dk and dv are runs. With SPLIT gradients of scores below 2^-103 have fewer than 24 bits.

#include "attention/f32_mma.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 32
#define WARPS 4
#define BLOCKS 2
#endif

// What a walk sums up: the gradient of the scores times the walked rows, which is dq or dk, and the weights times dy, which is dv.
enum Sums { SCORE_GRADS = 1, WEIGHTS = 2, BOTH = 3 };

constexpr int THREADS = WARPS * WARP;
constexpr int WARP_ROWS = ROW_TILES * 16;
constexpr int ROWS = WARPS * WARP_ROWS;
constexpr int STAGES = 2;
constexpr int OWN_SECOND = ROWS * HEAD_DIM * 4;            // after q or k: dy or v
constexpr int WALKED = OWN_SECOND + ROWS * VALUE_DIM * 4;  // stages of k or q
constexpr int SECOND = STEP * HEAD_DIM * 4;                // and, within them, v or dy
constexpr int STAGE_BYTES = SECOND + STEP * VALUE_DIM * 4;
constexpr int NUMBERS = WALKED + STAGES * STAGE_BYTES;  // stages of two numbers for each walked query
constexpr int NUMBER_BYTES = STEP * 8;
// Those that walk over keys have the numbers of their own queries in registers.
template <bool BY_KEYS> constexpr int SHARED_BYTES = NUMBERS + (BY_KEYS ? STAGES * NUMBER_BYTES : 0);

template <bool BY_KEYS> INLINE TileCoord tile_in(const AttentionGrad& p, u32 number) {
    // The first keys and the last queries have most to do: they begin first.
    return BY_KEYS ? tile_coord(number, p.sizes.heads / p.sizes.group, p.key_blocks, false, ROWS, p.varlen)
                   : tile_coord(number, p.sizes.heads, p.query_blocks, true, ROWS, p.varlen);
}

typedef float Products[ROW_TILES][STEP / 8][4];
template <bool BY_KEYS> using KeptWeights = Kept<KeepMask<BY_KEYS, ROW_TILES, STEP / 8>>;

// Where the loop is: a step from row `at` on of the walked rows, of a query head among those of the key head.
struct Step {
    i32 at;
    u32 member, stage;
};

// What a block works on, and where its tiles and this warp's rows of them lie.
template <bool BY_KEYS> struct Block {
    const AttentionGrad& p;
    const Sizes& sizes;
    TileCoord tile;
    u32 tiles, tile_row;
    i32 warp_row;
    bool fit;  // the own rows

    INLINE u32 query_head(const Step& step) const {
        return BY_KEYS ? tile.head * sizes.group + step.member : tile.head;
    }
    INLINE u32 first(const Step& step) const { return tiles + WALKED + step.stage * STAGE_BYTES; }
    INLINE u32 second(const Step& step) const { return first(step) + SECOND; }
    INLINE u32 numbers(const Step& step) const { return tiles + NUMBERS + step.stage * NUMBER_BYTES; }

    // The block's own rows, of q and dy or of k and v.
    INLINE void fetch_own(i32 rows) const {
        fetch_tile<ROWS, HEAD_DIM, THREADS>(tiles, head_of(BY_KEYS ? p.k : p.q, tile.batch, tile.head), tile.first_row,
                                            rows, sizes.head_dim);
        fetch_tile<ROWS, VALUE_DIM, THREADS>(tiles + OWN_SECOND, head_of(BY_KEYS ? p.v : p.dy, tile.batch, tile.head),
                                             tile.first_row, rows, sizes.value_dim);
    }
    INLINE bool await_own() const {
        cp_async_wait_group<0>();
        return await_all_fit(has_fit_chunks<ROWS, HEAD_DIM, THREADS>(tiles) &&
                             has_fit_chunks<ROWS, VALUE_DIM, THREADS>(tiles + OWN_SECOND));
    }
    // The walked rows of a step, of k and v or of a query head's q and dy.
    INLINE void fetch_walked(const Step& step) const {
        u32 head = BY_KEYS ? query_head(step) : tile.head / sizes.group;
        i32 rows = BY_KEYS ? sizes.queries : sizes.keys;
        fetch_tile<STEP, HEAD_DIM, THREADS>(first(step), head_of(BY_KEYS ? p.q : p.k, tile.batch, head), step.at, rows,
                                            sizes.head_dim);
        fetch_tile<STEP, VALUE_DIM, THREADS>(second(step), head_of(BY_KEYS ? p.dy : p.v, tile.batch, head), step.at,
                                             rows, sizes.value_dim);
        // Packs of 4 rows. Rows beyond the workspace are zeros: their weights of 1 meet zeros of q and dy.
        if (!BY_KEYS || threadIdx.x >= STEP / 2) return;
        u32 which = threadIdx.x / (STEP / 4), row = step.at + threadIdx.x % (STEP / 4) * 4;
        const float* from = p.rows + (i64(tile.batch * sizes.heads + head) * 2 + which) * p.padded + row;
        cp_async<16>(numbers(step) + threadIdx.x * 16, from, i32(row) < workspace_rows(p));
    }
    // Waits for the step, and says whether its rows are fit.
    INLINE bool await_walked(const Step& step) const {
        cp_async_wait_group<0>();
        return await_all_fit(has_fit_chunks<STEP, HEAD_DIM, THREADS>(first(step)) &&
                             has_fit_chunks<STEP, VALUE_DIM, THREADS>(second(step)));
    }
};

// What is subtracted from the scores of a lane's own queries, and rowsum(dy y): of a warp's rows from `first` on.
struct RowNumbers {
    float subtracted[ROW_TILES][2], row_dot[ROW_TILES][2];

    INLINE void load(const AttentionGrad& p, const TileCoord& tile, i32 first) {
        const float* rows = p.rows + i64(tile.batch * p.sizes.heads + tile.head) * 2 * p.padded;
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                i32 row = first + i * 16 + half * 8 + i32(threadIdx.x % WARP / 4);
                subtracted[i][half] = row < i32(p.sizes.queries) ? rows[row] : INFINITE;
                row_dot[i][half] = row < i32(p.sizes.queries) ? rows[p.padded + row] : 0;
            }
    }
};

// Calls work(i, j, e, number) for a lane's accumulators with the number of the element's query: one of its `own`, or of the walked ones, which lie
// at `walked` in shared memory.
template <bool BY_KEYS, class Work> INLINE void with_numbers(const float (&own)[ROW_TILES][2], u32 walked, Work work) {
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j) {
        float2 two;
        if (BY_KEYS) two = ld_shared_v2_f32(walked + j * 32 + read_tid_x() % 4 * 8);
#pragma unroll
        for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
            for (int e = 0; e < 4; ++e) work(i, j, e, BY_KEYS ? (e % 2 ? two.y : two.x) : own[i][e / 2]);
    }
}

// Products q k^T of a step become weights; those of keys that are not seen, 0.
template <bool BY_KEYS>
INLINE void exp_scores(Products& weight, const RowNumbers& own, const Block<BY_KEYS>& block, const Step& step) {
    const Sizes& sizes = block.sizes;
    i32 row = block.warp_row, at = step.at;
    bool whole = BY_KEYS ? all_seen(sizes, at, at + STEP, row, row + WARP_ROWS)
                         : all_seen(sizes, row, row + WARP_ROWS, at, at + STEP);
    if (MASK != 0) {
        View<const MaskElement> mask = head_of(block.p.mask, block.tile.batch, block.query_head(step));
        apply_mask<BY_KEYS>(weight, mask, row, at, sizes, sizes.scale);
    } else {
        scale_scores(weight, sizes.scale);
    }
    with_numbers<BY_KEYS>(own.subtracted, block.numbers(step), [&](int i, int j, int e, float less) {
        weight[i][j][e] = ex2_approx_ftz((weight[i][j][e] - less) * LOG2_E);
    });
    if (!whole) hide_unseen<BY_KEYS>(weight, sizes, row, at, 0, read_tid_x());
}

// Products dy v^T of a step become the gradient of the scores, given the weights.
template <bool BY_KEYS>
INLINE void score_gradient(Products& grad, const Products& weight, const RowNumbers& own, const Block<BY_KEYS>& block,
                           const Step& step, const KeptWeights<BY_KEYS>& kept) {
    float factor = block.p.dropout.scale;
    with_numbers<BY_KEYS>(own.row_dot, block.numbers(step) + STEP * 4, [&](int i, int j, int e, float less) {
        if (DROPOUT) grad[i][j][e] = weight[i][j][e] * fmaf(kept.has(i, j, e) ? grad[i][j][e] : 0, factor, -less);
        else grad[i][j][e] = weight[i][j][e] * (grad[i][j][e] - less);
    });
}

// The gradients of the warp's own rows: dq, or dk, dv or both.
template <int SUMS> struct Gradients {
    static constexpr bool HAS_FIRST = SUMS & SCORE_GRADS, HAS_SECOND = SUMS & WEIGHTS;
    float first[ROW_TILES][HAS_FIRST ? HEAD_DIM / 8 : 1][4], second[ROW_TILES][HAS_SECOND ? VALUE_DIM / 8 : 1][4];
};

// Adds those of a step, whose rows are there.
template <bool BY_KEYS, int SUMS>
INLINE void add_step(Gradients<SUMS>& to, const RowNumbers& own, const Block<BY_KEYS>& block, const Step& step,
                     bool fit) {
    const AttentionGrad& p = block.p;
    u32 head = block.tile.batch * block.sizes.heads + block.query_head(step);
    KeptWeights<BY_KEYS> kept;
    kept.draw(p.dropout, WeightNumbers::of(p), head, block.warp_row, step.at);
    Products weight, grad;
    product_of_rows<HEAD_DIM>(weight, block.tiles, block.tile_row, block.first(step), fit && block.fit);
    exp_scores(weight, own, block, step);
    if constexpr (Gradients<SUMS>::HAS_FIRST) {
        product_of_rows<VALUE_DIM>(grad, block.tiles + OWN_SECOND, block.tile_row, block.second(step),
                                   fit && block.fit);
        score_gradient(grad, weight, own, block, step, kept);
    }
    if constexpr (Gradients<SUMS>::HAS_SECOND) {
        drop_weights(weight, kept);
        add_product<VALUE_DIM>(to.second, weight, block.second(step), fit);
    }
    if constexpr (Gradients<SUMS>::HAS_FIRST)
        add_product<HEAD_DIM>(to.first, grad, block.first(step), fit && block.fit && are_fit(grad));
}

// To the next step: behind the last one of a query head, the first one of the next head.
template <bool BY_KEYS> INLINE Step next_of(const Step& step, const Range& walked) {
    Step next = {step.at + STEP, step.member, (step.stage + 1) % STAGES};
    if (BY_KEYS && next.at >= walked.end) {
        next.at = walked.first / STEP * STEP;
        ++next.member;
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
    const AttentionGrad& p = of_own_sequence<BY_KEYS>(launched, shared + SHARED_BYTES<BY_KEYS>, blocks, ROWS);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in<BY_KEYS>(p, blockIdx.x);
    i32 own_rows = BY_KEYS ? sizes.keys : sizes.queries;
    if (has_no_rows(tile, own_rows)) return;
    i32 end_row = min(tile.first_row + ROWS, own_rows);
    Range walked = BY_KEYS ? queries_of(sizes, tile.first_row, end_row) : keys_of(sizes, tile.first_row, end_row);
    u32 tile_row = threadIdx.x / WARP * WARP_ROWS;
    Block<BY_KEYS> block = {p, sizes, tile, cvta_to_shared(shared), tile_row, tile.first_row + i32(tile_row), true};
    Step step = {walked.first / STEP * STEP, 0, 0};
    i32 steps = walked.end > walked.first ? (walked.end - step.at + STEP - 1) / STEP : 0;
    if (BY_KEYS) steps *= i32(sizes.group);
    block.fetch_own(own_rows);
    if (steps > 0) block.fetch_walked(step);
    cp_async_commit_group();
    RowNumbers own;
    if (!BY_KEYS) own.load(p, tile, block.warp_row);
    block.fit = block.await_own();
    Gradients<SUMS> gradients;
    clear(gradients.first);
    clear(gradients.second);
#pragma unroll 1
    for (; steps > 0; --steps) {
        bool fit = block.await_walked(step);
        Step here = step;
        step = next_of<BY_KEYS>(step, walked);
        if (steps > 1) block.fetch_walked(step);
        cp_async_commit_group();
        i32 row = block.warp_row, at = here.at;
        bool any = BY_KEYS ? any_seen(sizes, at, at + STEP, row, row + WARP_ROWS)
                           : any_seen(sizes, row, row + WARP_ROWS, at, at + STEP);
        if (any) add_step(gradients, own, block, here, fit);
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
