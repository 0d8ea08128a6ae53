// Scaled dot-product attention of f16 and bf16 on tensor cores:
// y = dropout(softmax(scale q k^T + mask)) v, and the log-sum-exp (LSE) of the scores, which are
// never stored (Dao 2023, algorithm 1). The dropout mask is drawn where the weights are computed.
//
//   q        [batch, heads, queries, head_dim]
//   k        [batch, heads / group, keys, head_dim]
//   v        [batch, heads / group, keys, value_dim]
//   y        [batch, heads, queries, value_dim]
//   log_sums [batch, heads, queries], natural logarithms in f32; with an additive mask also
//            log_sum_errors
//
// A block has QUERIES rows of one head, a warp ROW_TILES * 16 of them. All warps process the same
// keys, STEP per iteration. The keys and values of the next step are loaded during the current one.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+   s = q k^T             accumulators
//   warp 0    |         |         |         |   row_max = largest s   reduced over 4 lanes
//   warp 1    |         |  s, p   |         |   p = exp(s - row_max)  left operand, rounded to TYPE
//   warp 2    |         |         |         |   y += p v              accumulators
//             +---------+---------+---------+
//
// The accumulators are blocks of 16 x 8: ROW_TILES x STEP / 8 of s, ROW_TILES x VALUE_DIM / 8 of y.
//
// Without a mask, row maxima are updated only when one has risen by more than 8 in base 2: weights
// are at most 2^8, and y is seldom rescaled. With a mask they are always updated (softmax.cuh has
// the reason). A fully masked query gives 0 and a log-sum-exp of -infinity. A score of NaN or
// +infinity makes its row NaN.
//
// Launch: attention<<<batch * heads * blocks, WARPS * 32, SHARED_BYTES>>>, with
// blocks = ceil(queries / QUERIES). The host sets the tiles with ROW_TILES, STEP, WARPS and BLOCKS
// (blocks per multiprocessor). They use as many registers as are available without spills:
//
//                                             ROW_TILES STEP WARPS BLOCKS
//   mma    head_dim or value_dim above 64         2      32    4     2     (1)
//          narrower                               2      64    4     2
//          with a mask                            1      64    4     2
//   wgmma  head_dim or value_dim above 64         1      64    4     2     (2)
//          narrower                               1     128    4     3
//          with a mask                            1      64    4     2
//   wider than 128, mma                           1      32    4     1     (3)
//                   wgmma                         1      64    4     1
//
//   (1) Two row tiles share each load of a fragment of keys or values.
//   (2) Two blocks run independently: softmax of one under products of the other.
//   (3) y takes most of the registers.
//
// With SPLIT_KV (split-KV), for few queries and many keys, each tile has p.parts.count blocks, with
// one split of the keys each. merge_splits.cu merges their partial results.
//
// Limits: queries + keys < 2^31, grid < 2^31, widths from 1 to 256. The last axis of y is
// contiguous. With a mask, BAND is 1, and the strides of the mask's last two axes are below 2^24.
// wgmma rounds widths up to 64, 128, 192 or 256.

#if WGMMA
#include "attention/wgmma.cuh"
#else
#include "attention/mma.cuh"
#endif
#include "attention/softmax.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

#ifdef HOST_SHIM
#define WARPS 4
#define BLOCKS 2
#endif

constexpr int THREADS = WARPS * WARP;
constexpr int QUERIES = WARPS * ROW_TILES * 16;
constexpr int STAGES = 2;
constexpr int Q_BYTES = QUERIES * largest(HEAD_DIM, VALUE_DIM) * 2;
constexpr int K_BYTES = STEP * HEAD_DIM * 2;
constexpr int V_BYTES = STEP * VALUE_DIM * 2;
constexpr int SHARED_BYTES = Q_BYTES + STAGES * (K_BYTES + V_BYTES);

#if ASYNC_PRODUCTS
// Whether q stays in registers as the left operand, which reduces reads of shared memory. Not with
// three blocks per multiprocessor, and not for wide heads, where y needs the registers.
constexpr bool Q_IN_REGISTERS = BLOCKS <= 2 && HEAD_DIM <= 128;
#endif

// Multiplies q by the sign of the scale, so that the largest product gives the largest score. A
// scale of 0 multiplies by 0: finite values become 0, all others NaN.
INLINE void apply_scale_sign(u32 q_tile, float scale) {
    float sign = scale < 0 ? -1 : scale == 0 ? 0 : 1;
    for (u32 at = q_tile + threadIdx.x * 4; at < q_tile + QUERIES * HEAD_DIM * 2; at += THREADS * 4) {
        u32 pair = ld_shared(at);
        Element low, high;
        low.bits = u16(pair);
        high.bits = u16(pair >> 16);
        pair = pack_half2(widen(low) * sign, widen(high) * sign, Element());
        st_shared(at, pair);
    }
}

// Returns the factor from q k^T to scores. Without a mask, scores are in base 2. With a mask they
// stay in base e, so that the lowest finite mask value does not overflow.
INLINE float score_scale(u32 q_tile, float scale) {
    if (MASK != 0) return scale;
    if (!(scale > 0)) {
        cp_async_wait_group<0>();
        __syncthreads();
        apply_scale_sign(q_tile, scale);
        scale = scale == 0 ? 1 : fabsf(scale);
    }
    return scale * LOG2_E;
}

INLINE TileCoord tile_in(const Attention& p, u32 block_index) {
    // In a causal band the last queries attend to most keys: their tiles run first.
    return tile_coord(block_index, p.sizes.heads, p.blocks, true, QUERIES, p.varlen);
}

typedef float Outputs[ROW_TILES][VALUE_DIM / 8][4];
typedef float Scores[ROW_TILES][STEP / 8][4];
typedef u32 Weights[ROW_TILES][STEP / 16][4];

typedef KeepMaskFor<KeepMask<false, ROW_TILES, STEP / 8>> TileKeepMask;

// A block's tile, its smem buffers, and the rows of this warp.
struct Block {
    const Attention& p;
    const Sizes& sizes;
    TileCoord tile;
    Range keys;
    View<const Element> k, v;
    u32 warp_row;
    i32 warp_query;
    u32 q_tile, k_tiles, v_tiles;

    INLINE u32 k_tile(i32 key) const { return k_tiles + key / STEP % STAGES * K_BYTES; }
    INLINE u32 v_tile(i32 key) const { return v_tiles + key / STEP % STAGES * V_BYTES; }
    // Issues the copies of the step that begins at `key`, if it exists.
    INLINE void fetch_keys(i32 key) const {
        if (key < keys.end) fetch<STEP, HEAD_DIM, THREADS>(k_tile(key), k, key, sizes.keys, sizes.head_dim);
    }
    INLINE void fetch_values(i32 key) const {
        if (key < keys.end) fetch<STEP, VALUE_DIM, THREADS>(v_tile(key), v, key, sizes.keys, sizes.value_dim);
    }
    INLINE void draw(TileKeepMask& kept, i32 key) const {
        kept.draw(p.dropout, WeightIndex::of(p), tile.batch * sizes.heads + tile.head, warp_query, key);
    }
};

// Scales the products and applies the mask, if there is one. Masked scores become -infinity.
INLINE void mask_scores(Scores& s, const Block& block, i32 first_key, float scale) {
    const Sizes& sizes = block.sizes;
    i32 query = block.warp_query;
    if (MASK != 0)
        apply_mask<false>(s, head_of(block.p.mask, block.tile.batch, block.tile.head), query, first_key, sizes, scale);
    if (is_tile_unmasked(sizes, query, query + ROW_TILES * 16, first_key, first_key + STEP)) return;
    apply_band_mask<false>(s, sizes, query, first_key, -INFINITE, read_tid_x());
}

#if ASYNC_PRODUCTS
// A warp's queries, in registers or in shared memory.
struct Queries {
    u32 loaded[HEAD_DIM / 16][4];

    INLINE void load(const Block& block) {
        if (Q_IN_REGISTERS) load_rows<QUERIES, HEAD_DIM>(loaded, block.q_tile, block.warp_row);
    }
    // Issues s = q k^T of a step.
    INLINE void multiply(Scores& s, const Block& block, i32 key) const {
        if (Q_IN_REGISTERS) gemm_nt_rs<HEAD_DIM>(s, loaded, block.k_tile(key));
        else gemm_nt<QUERIES, HEAD_DIM>(s, block.q_tile, block.warp_row, block.k_tile(key));
    }
};

// Waits for the copies in flight and until all warps have finished with the buffers. Then issues
// the copies of the next step's keys and of this step's values.
INLINE void fetch_step(const Block& block, i32 key) {
    wait_for_copies();
    __syncthreads();
    block.fetch_keys(key + STEP);
    block.fetch_values(key);
    cp_async_commit_group();
}

// Converts complete products q k^T to weights. The caller must rescale y as `softmax` says.
INLINE void online_softmax(Scores& s, Softmax& softmax, const Block& block, i32 key, float scale) {
    fence_accumulator(s);
    mask_scores(s, block, key, scale);
    update_row_max(softmax, s, scale);
    exp_scores(s, softmax, scale);
}

// Main loop. Values lag one step behind keys: y += p v of one step overlaps the softmax of the next
// one.
//
//   tensor cores   | q k0 |      | q k1 | p0 v0 |      | q k2 | p1 v1 |
//   softmax               |  p0  |      |      p1      |      |      p2
INLINE void mainloop(Outputs& y, Softmax& softmax, const Block& block, i32 key, float scale) {
    if (key >= block.keys.end) return;
    Queries q;
    Scores s;
    Weights weights;
    TileKeepMask kept;
    fetch_step(block, key);
    q.load(block);
    block.draw(kept, key);
    warpgroup_arrive();
    q.multiply(s, block, key);
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    online_softmax(s, softmax, block, key, scale);
    round_to_operand(weights, s);
    kept.apply(weights);
#pragma unroll 1
    for (key += STEP; key < block.keys.end; key += STEP) {
        fetch_step(block, key);
        block.draw(kept, key);
        warpgroup_arrive();
        q.multiply(s, block, key);
        warpgroup_commit_batch();
        accumulate_gemm_nn<VALUE_DIM>(y, weights, block.v_tile(key - STEP));
        warpgroup_commit_batch();
        warpgroup_wait<1>();
        online_softmax(s, softmax, block, key, scale);
        warpgroup_wait<0>();
        fence_accumulator(y);
        rescale_output(y, softmax);
        round_to_operand(weights, s);
        kept.apply(weights);
    }
    wait_for_copies();
    __syncthreads();
    warpgroup_arrive();
    accumulate_gemm_nn<VALUE_DIM>(y, weights, block.v_tile(key - STEP));
    warpgroup_commit_batch();
    warpgroup_wait<0>();
    fence_accumulator(y);
}
#endif

// A block's split of the keys, and its tile of queries.
INLINE u32 split_index(const Attention& p, u32 block_index) { return SPLIT_KV ? block_index % p.splits.count : 0; }
INLINE u32 tile_index(const Attention& p, u32 block_index) {
    return SPLIT_KV ? block_index / p.splits.count : block_index;
}

// Stores the partial result of a block's split of the keys. y is not normalized.
INLINE void store_split(const Attention& p, const Outputs& y, const Softmax& softmax) {
    TileCoord tile = tile_in(p, tile_index(p, read_ctaid_x()));
    u32 thread = read_tid_x(), lane = thread % WARP, part = split_index(p, read_ctaid_x());
    i64 numbers = i64(p.splits.rows) * p.splits.count * 2;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.row_sum[i][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            i32 query = tile.first_row + i32(thread / WARP * ROW_TILES * 16 + i * 16 + half * 8 + lane / 4);
            if (query >= i32(p.sizes.queries)) continue;
            i64 row = lse_index(p, tile.batch, tile.head, query) * p.splits.count + part;
            if (lane % 4 == 0) st_global_v2_f32(p.splits.results + row * 2, softmax.row_max[i][half], total);
            float* to = p.splits.results + numbers + row * VALUE_DIM + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
                st_global_v2_f32(to + j * 8, y[i][j][half * 2], y[i][j][half * 2 + 1]);
        }
}

// Epilogue: stores y, divided by the row sums, and the log-sum-exp. y is staged in the smem tile
// `staging`. The warp's rows are recomputed, so that they occupy no registers during the main loop.
INLINE void finish_rows(const Attention& p, Outputs& y, const Softmax& softmax, u32 staging) {
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in(p, read_ctaid_x());
    i32 end_query = min(tile.first_row + QUERIES, i32(sizes.queries));
    u32 thread = read_tid_x();
    u32 warp_row = thread / WARP * ROW_TILES * 16;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.row_sum[i][half], row_max = softmax.row_max[i][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            bool is_fully_masked = row_max == -INFINITE && total == 0;
            float inverse = DROPOUT && p.dropout.threshold != 0 ? p.dropout.scale / total : 1 / total;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) y[i][j][e] = is_fully_masked ? 0 : y[i][j][e] * inverse;
            i32 query = tile.first_row + i32(warp_row + i * 16 + half * 8 + thread % WARP / 4);
            if (query < end_query && thread % 4 == 0)
                store_lse(p, lse_index(p, tile.batch, tile.head, query), MASK == 0 ? row_max * LN_2 : row_max, total,
                          is_fully_masked);
        }
    write_rows<QUERIES, VALUE_DIM>(y, staging, warp_row, head_of(p.y, tile.batch, tile.head), tile.first_row, end_query,
                                   sizes.value_dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Attention launched) {
    wait_for_earlier_launches();
    extern __shared__ __align__(1024) u8 shared[];
    const Attention& p = sequence_params<false>(launched, shared + SHARED_BYTES, launched.blocks, QUERIES);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in(p, tile_index(p, blockIdx.x));
    if (has_no_rows(tile, sizes.queries)) return;
    i32 end_query = min(tile.first_row + QUERIES, i32(sizes.queries));
    View<const Element> k = head_of(p.k, tile.batch, tile.head / sizes.group);
    View<const Element> v = head_of(p.v, tile.batch, tile.head / sizes.group);
    Range keys = key_range(sizes, tile.first_row, end_query);
    if (SPLIT_KV) {
        i32 first = i32(split_index(p, blockIdx.x) * p.splits.keys);
        keys = Range{max(keys.first, first), min(keys.end, first + i32(p.splits.keys))};
    }
    i32 first_key = keys.first / STEP * STEP;
    u32 warp_row = threadIdx.x / WARP * ROW_TILES * 16;
    i32 warp_query = tile.first_row + i32(warp_row);
    u32 q_tile = cvta_to_shared(shared), k_tiles = q_tile + Q_BYTES, v_tiles = k_tiles + STAGES * K_BYTES;
    Block block = {p, sizes, tile, keys, k, v, warp_row, warp_query, q_tile, k_tiles, v_tiles};
    fetch<QUERIES, HEAD_DIM, THREADS>(q_tile, head_of(p.q, tile.batch, tile.head), tile.first_row, end_query,
                                      sizes.head_dim);
    block.fetch_keys(first_key);
    if (!ASYNC_PRODUCTS) block.fetch_values(first_key);
    cp_async_commit_group();
    float scale = score_scale(q_tile, sizes.scale);
    Outputs y;
    clear(y);
    Softmax softmax;
    clear(softmax);
#if ASYNC_PRODUCTS
    mainloop(y, softmax, block, first_key, scale);
#else
    constexpr int ROWS_PER_PRODUCT = rows_per_product(ROW_TILES);
    Scores s;
    Weights weights;
    TileKeepMask kept;
#pragma unroll 1
    for (; first_key < block.keys.end; first_key += STEP) {
        wait_for_copies();
        __syncthreads();
        block.fetch_keys(first_key + STEP);
        block.fetch_values(first_key + STEP);
        cp_async_commit_group();
        if (!has_tile_unmasked(block.sizes, block.warp_query, block.warp_query + ROWS_PER_PRODUCT, first_key,
                               first_key + STEP))
            continue;
        block.draw(kept, first_key);
        gemm_nt<QUERIES, HEAD_DIM>(s, block.q_tile, block.warp_row, block.k_tile(first_key));
        mask_scores(s, block, first_key, scale);
        update_row_max(softmax, s, scale);
        rescale_output(y, softmax);
        exp_scores(s, softmax, scale);
        round_to_operand(weights, s);
        kept.apply(weights);
        accumulate_gemm_nn<VALUE_DIM>(y, weights, block.v_tile(first_key));
    }
#endif
#if SPLIT_KV
    // A split without keys has not waited for the copies of its queries.
    cp_async_wait_group<0>();
    store_split(p, y, softmax);
#else
    // y now reuses the smem tile of q.
    cp_async_wait_group<0>();
    __syncthreads();
    finish_rows(p, y, softmax, q_tile);
#endif
}
