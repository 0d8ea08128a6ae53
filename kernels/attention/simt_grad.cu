// Gradient of simt_forward.cu, by FMAs. grad.cu describes what it computes and in which order. A
// block has ROWS own rows, and a tile of weights through which they pass from one product to the
// next:
//
//                  streamed ->  STEP      STEP
//                 +---------+---------+---------+     p and ds: 4 rows x STEP / 8 columns per lane
//   own rows      |         |  p, ds  |         |     own += ds streamed: 4 rows x width / 8
//   (16 per warp) +---------+---------+---------+     columns per lane
//
// Launch as in grad.cu, with 128 threads and blocks of 64 rows.

#include "attention/simt.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

// Streamed rows of a step: as many as let two blocks fit in the 227 KiB of a multiprocessor at
// width 128.
constexpr int STEP = 32;
constexpr int COLUMNS = STEP / LANES;
constexpr int OWN_SECOND_OFFSET = ROWS * pitch_of(HEAD_DIM);
constexpr int STREAMED_FIRST_OFFSET = OWN_SECOND_OFFSET + ROWS * pitch_of(VALUE_DIM);
constexpr int STREAMED_SECOND_OFFSET = STREAMED_FIRST_OFFSET + STEP * pitch_of(HEAD_DIM);
constexpr int WEIGHTS_OFFSET = STREAMED_SECOND_OFFSET + STEP * pitch_of(VALUE_DIM);
constexpr int ROW_STATS_OFFSET = WEIGHTS_OFFSET + ROWS * weight_pitch(STEP);
// Two statistics (LSE and row_dot) for each query, own or streamed.
constexpr int SHARED_BYTES = (ROW_STATS_OFFSET + 2 * ROWS) * 4;
constexpr int BLOCKS = 2;

template <bool BY_KEYS> INLINE TileCoord tile_in(const AttentionGrad& p, u32 index) {
    // The first keys and the last queries of a causal band have the most work: they start first.
    return BY_KEYS ? tile_coord(index, p.sizes.heads / p.sizes.group, p.key_blocks, false, ROWS, p.varlen)
                   : tile_coord(index, p.sizes.heads, p.query_blocks, true, ROWS, p.varlen);
}

// Copies the row statistics of COUNT queries from `at` on: the LSE that is subtracted from their
// scores, then rowsum(dy y). Beyond the workspace they are 0; q and dy are 0 there, too.
template <int COUNT> INLINE void fetch_row_stats(float* to, const AttentionGrad& p, u32 batch, u32 head, i32 at) {
    for (u32 index = threadIdx.x; index < COUNT / 2; index += THREADS) {
        u32 which = index / (COUNT / 4), pack = index % (COUNT / 4);
        const float* from = p.rows + (i64(batch * p.sizes.heads + head) * 2 + which) * p.padded + at + pack * 4;
        cp_async<16>(cvta_to_shared(to + index * 4), from, at + pack * 4 < workspace_rows(p));
    }
}

// What a block computes, and where its tiles and this warp's rows of them are.
template <bool BY_KEYS> struct Block {
    const AttentionGrad& p;
    const Sizes& sizes;
    TileCoord tile;
    i32 own_rows;
    u32 warp, lane, group;
    i32 warp_row;
    float* tiles;
    const float *first_rows, *second_rows, *row_stats;
    float* weights;

    // Copies the block's own rows: of q and dy, or of k and v.
    INLINE void fetch_own() const {
        fetch<ROWS, HEAD_DIM>(tiles, head_of(BY_KEYS ? p.k : p.q, tile.batch, tile.head), tile.first_row, own_rows,
                              sizes.head_dim);
        fetch<ROWS, VALUE_DIM>(tiles + OWN_SECOND_OFFSET, head_of(BY_KEYS ? p.v : p.dy, tile.batch, tile.head),
                               tile.first_row, own_rows, sizes.value_dim);
        if (!BY_KEYS) fetch_row_stats<ROWS>(tiles + ROW_STATS_OFFSET, p, tile.batch, tile.head, tile.first_row);
        cp_async_commit_group();
    }
    // Copies the streamed rows of a step, of k and v or of a query head's q and dy, and waits for
    // those of the first of the two.
    INLINE void fetch_streamed(u32 query_head, i32 at) const {
        u32 head = BY_KEYS ? query_head : tile.head / sizes.group;
        i32 rows = BY_KEYS ? sizes.queries : sizes.keys;
        __syncthreads();
        fetch<STEP, HEAD_DIM>(tiles + STREAMED_FIRST_OFFSET, head_of(BY_KEYS ? p.q : p.k, tile.batch, head), at, rows,
                              sizes.head_dim);
        if (BY_KEYS) fetch_row_stats<STEP>(tiles + ROW_STATS_OFFSET, p, tile.batch, query_head, at);
        cp_async_commit_group();
        fetch<STEP, VALUE_DIM>(tiles + STREAMED_SECOND_OFFSET, head_of(BY_KEYS ? p.dy : p.v, tile.batch, head), at,
                               rows, sizes.value_dim);
        cp_async_commit_group();
        cp_async_wait_group<1>();
        __syncthreads();
    }
};

typedef float Products[LANE_ROWS][COLUMNS];

template <bool BY_KEYS> using TileKeepMask = KeepMaskFor<KeepMask<BY_KEYS, COLUMNS>>;

// Converts products q k^T of a step to weights. Masked weights become 0.
template <bool BY_KEYS>
INLINE void exp_scores(Products& weight, const Block<BY_KEYS>& block, const View<const MaskElement>& mask, i32 at,
                       bool fully_unmasked) {
    const Sizes& sizes = block.sizes;
    u32 thread = read_tid_x(), lane = thread % LANES, group = thread % WARP / LANES;
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            u32 own = block.warp * WARP_ROWS + GROUPS * i + group, other = lane + j * LANES;
            u32 query = BY_KEYS ? at + other : block.tile.first_row + own,
                key = BY_KEYS ? block.tile.first_row + own : at + other;
            float score = scaled(weight[i][j], sizes.scale);
            bool within = fully_unmasked || (query < sizes.queries && attends(sizes, query, key));
            if (MASK != 0 && within) score = masked(score, mask, query, key);
            weight[i][j] = within ? ex2_approx_ftz((score - block.row_stats[BY_KEYS ? other : own]) * LOG2_E) : 0;
        }
}

// Converts products dy v^T of a step to the gradient of the scores, given the weights.
template <bool BY_KEYS>
INLINE void score_gradient(Products& grad, const Products& weight, const Block<BY_KEYS>& block,
                           const TileKeepMask<BY_KEYS>& kept) {
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < COLUMNS; ++j) {
            float row_dot = BY_KEYS ? block.row_stats[STEP + block.lane + j * LANES]
                                    : block.row_stats[ROWS + block.warp * WARP_ROWS + GROUPS * i + block.group];
            if (DROPOUT) grad[i][j] = weight[i][j] * fmaf(kept.only(i, j, grad[i][j]), block.p.dropout.scale, -row_dot);
            else grad[i][j] = weight[i][j] * (grad[i][j] - row_dot);
        }
}

// Adds the gradients of one step to those of a lane's own rows. The streamed rows of k or q have
// been copied before; the function waits for those of v or dy.
template <bool BY_KEYS>
INLINE void add_step(float (&own_first)[LANE_ROWS][HEAD_DIM / LANES],
                     float (&own_second)[LANE_ROWS][BY_KEYS ? VALUE_DIM / LANES : 1], const Block<BY_KEYS>& block,
                     const View<const MaskElement>& mask, u32 query_head, i32 at) {
    const AttentionGrad& p = block.p;
    const Sizes& sizes = p.sizes;
    const float* tiles = block.tiles;
    i32 query = BY_KEYS ? at : block.warp_row, end_query = query + (BY_KEYS ? STEP : WARP_ROWS);
    i32 key = BY_KEYS ? block.warp_row : at, end_key = key + (BY_KEYS ? WARP_ROWS : STEP);
    bool any = has_tile_unmasked(sizes, query, end_query, key, end_key);
    bool fully_unmasked = MASK == 0 && is_tile_unmasked(sizes, query, end_query, key, end_key);
    TileKeepMask<BY_KEYS> kept;
    if (any && p.dropout.threshold != 0)
        kept.draw(p.dropout, WeightIndex::of(p), block.tile.batch * sizes.heads + query_head, BY_KEYS ? key : query,
                  at);
    else kept.keep_all();
    Products weight, weight_grad;
    if (any) {
        gemm_nt<HEAD_DIM>(weight, block.first_rows, tiles + STREAMED_FIRST_OFFSET);
        exp_scores(weight, block, mask, at, fully_unmasked);
    }
    cp_async_wait_group<0>();
    __syncthreads();
    if (!any) return;
    if constexpr (BY_KEYS) {
        store_weights(block.weights, weight, kept);
        __syncwarp();
        accumulate_gemm_nn<VALUE_DIM, STEP>(own_second, block.weights, tiles + STREAMED_SECOND_OFFSET);
    }
    gemm_nt<VALUE_DIM>(weight_grad, block.second_rows, tiles + STREAMED_SECOND_OFFSET);
    score_gradient(weight_grad, weight, block, kept);
    // Wait until all lanes have read the weights that these replace.
    __syncwarp();
    store_weights(block.weights, weight_grad, KeepAll());
    __syncwarp();
    accumulate_gemm_nn<HEAD_DIM, STEP>(own_first, block.weights, tiles + STREAMED_FIRST_OFFSET);
    __syncwarp();
}

template <bool BY_KEYS> INLINE void gradient(const AttentionGrad& launched) {
    extern __shared__ __align__(128) u8 shared[];
    u32 blocks = BY_KEYS ? launched.key_blocks : launched.query_blocks;
    const AttentionGrad& p = sequence_params<BY_KEYS>(launched, shared + SHARED_BYTES, blocks, ROWS);
    float* tiles = reinterpret_cast<float*>(shared);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in<BY_KEYS>(p, blockIdx.x);
    i32 own_rows = BY_KEYS ? sizes.keys : sizes.queries;
    if (has_no_rows(tile, own_rows)) return;
    i32 end_row = min(tile.first_row + ROWS, own_rows);
    Range streamed = BY_KEYS ? query_range(sizes, tile.first_row, end_row) : key_range(sizes, tile.first_row, end_row);

    u32 warp = threadIdx.x / WARP, lane = threadIdx.x % LANES, group = threadIdx.x % WARP / LANES;
    i32 warp_row = tile.first_row + i32(warp) * WARP_ROWS;
    const float* first_rows = tiles + warp * WARP_ROWS * pitch_of(HEAD_DIM);
    const float* second_rows = tiles + OWN_SECOND_OFFSET + warp * WARP_ROWS * pitch_of(VALUE_DIM);
    float* weights = tiles + WEIGHTS_OFFSET + warp * WARP_ROWS * weight_pitch(STEP);
    const float* row_stats = tiles + ROW_STATS_OFFSET;
    Block<BY_KEYS> block = {p,        sizes, tile,       own_rows,    warp,      lane,   group,
                            warp_row, tiles, first_rows, second_rows, row_stats, weights};
    block.fetch_own();

    float own_first[LANE_ROWS][HEAD_DIM / LANES], own_second[LANE_ROWS][BY_KEYS ? VALUE_DIM / LANES : 1];
    clear(own_first);
    clear(own_second);
#pragma unroll 1
    for (u32 head_in_group = 0; head_in_group < (BY_KEYS ? sizes.group : 1); ++head_in_group) {
        u32 query_head = BY_KEYS ? tile.head * sizes.group + head_in_group : tile.head;
        View<const MaskElement> mask = head_of(p.mask, tile.batch, query_head);
#pragma unroll 1
        for (i32 at = streamed.first / STEP * STEP; at < streamed.end; at += STEP) {
            block.fetch_streamed(query_head, at);
            add_step(own_first, own_second, block, mask, query_head, at);
        }
    }
    cp_async_wait_group<0>();
#pragma unroll
    for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
        for (int j = 0; j < HEAD_DIM / LANES; ++j) own_first[i][j] *= sizes.scale;
    if constexpr (BY_KEYS && DROPOUT)
#pragma unroll
        for (int i = 0; i < LANE_ROWS; ++i)
#pragma unroll
            for (int j = 0; j < VALUE_DIM / LANES; ++j) own_second[i][j] *= p.dropout.scale;
    write_rows<HEAD_DIM>(own_first, head_of(BY_KEYS ? p.dk : p.dq, tile.batch, tile.head), warp_row, own_rows,
                         sizes.head_dim);
    if constexpr (BY_KEYS)
        write_rows<VALUE_DIM>(own_second, head_of(p.dv, tile.batch, tile.head), warp_row, own_rows, sizes.value_dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_queries(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<false>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    attention_grad_keys(const __grid_constant__ AttentionGrad p) {
    wait_for_earlier_launches();
    gradient<true>(p);
}
