// Scaled dot-product attention of f16 and bf16 on the tensor cores: y = dropout(softmax(scale q k^T + mask)) v and the log-sum-exp of the
// scores, which are never stored (Dao 2023, algorithm 1). Which weights are dropped is drawn where they are made.
//
//   q [batch, heads, queries, head_dim]   k [batch, heads / group, keys, head_dim]   v [batch, heads / group, keys, value_dim]
//   y [batch, heads, queries, value_dim]  log_sums [batch, heads, queries], natural logarithms in f32, and under an additive mask log_sum_errors
//
// A block has QUERIES rows of one head, a warp ROW_TILES * 16 of them; all warps walk over the keys together, STEP at a time. The next step's
// keys and values are loaded while one is worked on.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+     s = q k^T                  accumulators, STEP / 8 x ROW_TILES of 16 x 8
//   warp 0    |         |         |         |     row_max = largest s        within 4 lanes
//   warp 1    |         |  s, p   |         |     p = 2^(s - row_max)        rounded to the operands' type: the left operand of
//   warp 2    |         |         |         |     y += p v                   accumulators, VALUE_DIM / 8 x ROW_TILES of 16 x 8
//             +---------+---------+---------+
//
// Rows keep an older maximum for as long as the new one is less than 2^8 above it: weights are at most 256 then, and y is seldom rescaled.
// A query that sees no key gives 0 and a log-sum-exp of -infinity; a score of NaN or +infinity makes its row NaN.
//
// Launch: attention<<<batch * heads * blocks, WARPS * 32, SHARED_BYTES>>>, with blocks = queries / QUERIES, rounded up. The host says the
// tiles, which take as many registers as there are without spills, by ROW_TILES, STEP, WARPS and BLOCKS (that share a multiprocessor):
//
//                                             ROW_TILES STEP WARPS BLOCKS
//   mma    head_dim or value_dim above 64         2      32    4     2      two row tiles read a fragment of keys or values once
//          narrower                               2      64    4     2
//          under a mask                           1      64    4     2
//   wgmma  head_dim or value_dim above 64         1      64    4     2      two blocks run apart, softmax under products
//          narrower                               1     128    4     3
//          under a mask                           1      64    4     2
//   wider than 128, mma                           1      32    4     1      y takes most of the registers
//                   wgmma                         1      64    4     1
//
// With PARTS, for few queries of many keys, there are p.parts.count blocks for each tile, with a part of the keys each, and merge_parts.cu puts
// together what they leave.
//
// Limits: queries + keys < 2^31, grid < 2^31, widths from 1 to 256. y's last axis is a run. Under a mask BAND is 1, and the strides of the
// mask's last two axes are below 2^24. wgmma's widths are rounded up to 64, 128, 192 or 256.

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
// Whether q stays in registers as left operand, which relieves shared memory: not where three blocks share them, nor beside y of wide heads.
constexpr bool Q_IN_REGISTERS = BLOCKS <= 2 && HEAD_DIM <= 128;
#endif

// Multiplies q by the sign of the scale, so that the largest product gives the largest score. By 0 if it is 0: what is finite becomes 0, all
// else NaN.
INLINE void apply_scale_sign(u32 q_tile, float scale) {
    float sign = scale < 0 ? -1 : scale == 0 ? 0 : 1;
    for (u32 at = q_tile + threadIdx.x * 4; at < q_tile + QUERIES * HEAD_DIM * 2; at += THREADS * 4) {
        u32 pair = ld_shared(at);
        Element low, high;
        low.bits = u16(pair);
        high.bits = u16(pair >> 16);
        pair = pair_of(widen(low) * sign, widen(high) * sign, Element());
        st_shared(at, pair);
    }
}

// By what products are multiplied on their way to scores, which are kept as powers of two where they are only scaled, and as they are under a
// mask, whose lowest number may not overflow.
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

INLINE TileCoord tile_in(const Attention& p, u32 number) {
    // The last queries see most keys: they begin first.
    return tile_coord(number, p.sizes.heads, p.blocks, true, QUERIES, p.varlen);
}

typedef float Outputs[ROW_TILES][VALUE_DIM / 8][4];
typedef float Scores[ROW_TILES][STEP / 8][4];
typedef u32 Weights[ROW_TILES][STEP / 16][4];

typedef Kept<KeepMask<false, ROW_TILES, STEP / 8>> KeptWeights;

// What a block works on, where its tiles lie in shared memory, and which rows are this warp's.
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
    // The step that begins with `key`, if there is one.
    INLINE void fetch_keys(i32 key) const {
        if (key < keys.end) fetch<STEP, HEAD_DIM, THREADS>(k_tile(key), k, key, sizes.keys, sizes.head_dim);
    }
    INLINE void fetch_values(i32 key) const {
        if (key < keys.end) fetch<STEP, VALUE_DIM, THREADS>(v_tile(key), v, key, sizes.keys, sizes.value_dim);
    }
    INLINE void draw(KeptWeights& kept, i32 key) const {
        kept.draw(p.dropout, WeightNumbers::of(p), tile.batch * sizes.heads + tile.head, warp_query, key);
    }
};

// Products of a warp's queries become scores under the mask; those of keys that are not seen become -infinity.
INLINE void mask_scores(Scores& s, const Block& block, i32 first_key, float scale) {
    const Sizes& sizes = block.sizes;
    i32 query = block.warp_query;
    if (MASK != 0)
        apply_mask<false>(s, head_of(block.p.mask, block.tile.batch, block.tile.head), query, first_key, sizes, scale);
    if (all_seen(sizes, query, query + ROW_TILES * 16, first_key, first_key + STEP)) return;
    hide_unseen<false>(s, sizes, query, first_key, -INFINITE, read_tid_x());
}

#if ASYNC_PRODUCTS
// A warp's queries, in registers or in shared memory.
struct Queries {
    u32 loaded[HEAD_DIM / 16][4];

    INLINE void load(const Block& block) {
        if (Q_IN_REGISTERS) load_rows<QUERIES, HEAD_DIM>(loaded, block.q_tile, block.warp_row);
    }
    // s = q k^T of a step, begun.
    INLINE void multiply(Scores& s, const Block& block, i32 key) const {
        if (Q_IN_REGISTERS) product_of_loaded_rows<HEAD_DIM>(s, loaded, block.k_tile(key));
        else product_of_rows<QUERIES, HEAD_DIM>(s, block.q_tile, block.warp_row, block.k_tile(key));
    }
};

// Has the keys of the step after `key` and its own values fetched, once all warps are done with what was in their place.
INLINE void fetch_step(const Block& block, i32 key) {
    publish_copies();
    __syncthreads();
    block.fetch_keys(key + STEP);
    block.fetch_values(key);
    cp_async_commit_group();
}

// Complete products become weights. y is to be rescaled as the softmax says.
INLINE void weigh_scores(Scores& s, Softmax& softmax, const Block& block, i32 key, float scale) {
    fence_accumulator(s);
    mask_scores(s, block, key, scale);
    update_row_max(softmax, s, scale);
    exp_scores(s, softmax, scale);
}

// Values lag a step behind keys: y += p v of one step runs while the next one's scores become weights.
//
//   tensor cores   | q k0 |      | q k1 | p0 v0 |      | q k2 | p1 v1 |
//   softmax               |  p0  |      |      p1      |      |      p2
INLINE void walk_keys(Outputs& y, Softmax& softmax, const Block& block, i32 key, float scale) {
    if (key >= block.keys.end) return;
    Queries q;
    Scores s;
    Weights weights;
    KeptWeights kept;
    fetch_step(block, key);
    q.load(block);
    block.draw(kept, key);
    begin_products();
    q.multiply(s, block, key);
    commit_products();
    await_products<0>();
    weigh_scores(s, softmax, block, key, scale);
    round_to_operand(weights, s);
    kept.apply(weights);
#pragma unroll 1
    for (key += STEP; key < block.keys.end; key += STEP) {
        fetch_step(block, key);
        block.draw(kept, key);
        begin_products();
        q.multiply(s, block, key);
        commit_products();
        add_product<VALUE_DIM>(y, weights, block.v_tile(key - STEP));
        commit_products();
        await_products<1>();
        weigh_scores(s, softmax, block, key, scale);
        await_products<0>();
        fence_accumulator(y);
        rescale_output(y, softmax);
        round_to_operand(weights, s);
        kept.apply(weights);
    }
    publish_copies();
    __syncthreads();
    begin_products();
    add_product<VALUE_DIM>(y, weights, block.v_tile(key - STEP));
    commit_products();
    await_products<0>();
    fence_accumulator(y);
}
#endif

// Which part of the keys a block has, if they are cut into parts, and which tile of queries.
INLINE u32 part_in(const Attention& p, u32 number) { return PARTS ? number % p.parts.count : 0; }
INLINE u32 tile_number(const Attention& p, u32 number) { return PARTS ? number / p.parts.count : number; }

// What a block's part of the keys gives, as it is: y is not divided.
INLINE void store_part(const Attention& p, const Outputs& y, const Softmax& softmax) {
    TileCoord tile = tile_in(p, tile_number(p, read_ctaid_x()));
    u32 thread = read_tid_x(), lane = thread % WARP, part = part_in(p, read_ctaid_x());
    i64 numbers = i64(p.parts.rows) * p.parts.count * 2;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.row_sum[i][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            i32 query = tile.first_row + i32(thread / WARP * ROW_TILES * 16 + i * 16 + half * 8 + lane / 4);
            if (query >= i32(p.sizes.queries)) continue;
            i64 row = log_sum_index(p, tile.batch, tile.head, query) * p.parts.count + part;
            if (lane % 4 == 0) st_global_v2_f32(p.parts.results + row * 2, softmax.row_max[i][half], total);
            float* to = p.parts.results + numbers + row * VALUE_DIM + lane % 4 * 2;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
                st_global_v2_f32(to + j * 8, y[i][j][half * 2], y[i][j][half * 2 + 1]);
        }
}

// y divided by the sums of its weights and the log-sum-exp of the scores are written, y by way of the tile at `staging`.
// Where the warp's rows lie is computed anew, so that it takes no registers before.
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
                put_log_sum(p, log_sum_index(p, tile.batch, tile.head, query), MASK == 0 ? row_max * LN_2 : row_max,
                            total, is_fully_masked);
        }
    write_rows<QUERIES, VALUE_DIM>(y, staging, warp_row, head_of(p.y, tile.batch, tile.head), tile.first_row, end_query,
                                   sizes.value_dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Attention launched) {
    wait_for_earlier_launches();
    extern __shared__ __align__(1024) u8 shared[];
    const Attention& p = of_own_sequence<false>(launched, shared + SHARED_BYTES, launched.blocks, QUERIES);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in(p, tile_number(p, blockIdx.x));
    if (has_no_rows(tile, sizes.queries)) return;
    i32 end_query = min(tile.first_row + QUERIES, i32(sizes.queries));
    View<const Element> k = head_of(p.k, tile.batch, tile.head / sizes.group);
    View<const Element> v = head_of(p.v, tile.batch, tile.head / sizes.group);
    Range keys = keys_of(sizes, tile.first_row, end_query);
    if (PARTS) {
        i32 first = i32(part_in(p, blockIdx.x) * p.parts.keys);
        keys = Range{max(keys.first, first), min(keys.end, first + i32(p.parts.keys))};
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
    walk_keys(y, softmax, block, first_key, scale);
#else
    constexpr int TEAM_ROWS = team_rows(ROW_TILES);
    Scores s;
    Weights weights;
    KeptWeights kept;
#pragma unroll 1
    for (; first_key < block.keys.end; first_key += STEP) {
        publish_copies();
        __syncthreads();
        block.fetch_keys(first_key + STEP);
        block.fetch_values(first_key + STEP);
        cp_async_commit_group();
        if (!any_seen(block.sizes, block.warp_query, block.warp_query + TEAM_ROWS, first_key, first_key + STEP))
            continue;
        block.draw(kept, first_key);
        product_of_rows<QUERIES, HEAD_DIM>(s, block.q_tile, block.warp_row, block.k_tile(first_key));
        mask_scores(s, block, first_key, scale);
        update_row_max(softmax, s, scale);
        rescale_output(y, softmax);
        exp_scores(s, softmax, scale);
        round_to_operand(weights, s);
        kept.apply(weights);
        add_product<VALUE_DIM>(y, weights, block.v_tile(first_key));
    }
#endif
#if PARTS
    // A part without keys has not waited for its queries.
    cp_async_wait_group<0>();
    store_part(p, y, softmax);
#else
    // The place of q is y's now.
    cp_async_wait_group<0>();
    __syncthreads();
    finish_rows(p, y, softmax, q_tile);
#endif
}
