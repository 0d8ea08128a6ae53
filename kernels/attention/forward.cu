// Scaled dot-product attention of f16 and bf16 on the tensor cores: y = dropout(softmax(scale q k^T + mask)) v and the log-sum-exp of the
// scores, which are never stored (Dao 2023, algorithm 1). Which weights are dropped is drawn where they are made.
//
//   q [batch, heads, queries, head_dim]   k [batch, heads / group, keys, head_dim]   v [batch, heads / group, keys, value_dim]
//   y [batch, heads, queries, value_dim]  log_sums [batch, heads, queries], natural logarithms in f32
//
// A block has QUERIES rows of one head, a warp ROW_TILES * 16 of them; all warps walk over the keys together, STEP at a time. The next step's
// keys and values are under way while one is worked on.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+     s = q k^T                  accumulators, STEP / 8 x ROW_TILES of 16 x 8
//   warp 0    |         |         |         |     top = largest s of a row   within 4 lanes
//   warp 1    |         |  s, p   |         |     p = 2^(s - top)            rounded to halves: the left operand of
//   warp 2    |         |         |         |     y += p v                   accumulators, VALUE_DIM / 8 x ROW_TILES of 16 x 8
//             +---------+---------+---------+
//
// Rows keep an older maximum for as long as the new one is less than 2^8 above it: weights are at most 256 then, and y is seldom rescaled.
// A query that sees no key gives 0 and a log-sum-exp of -infinity; a score of NaN or +infinity makes its row NaN.
//
// Launch: attention<<<batch * heads * blocks, WARPS * 32, SHARED_BYTES>>>, with blocks = queries / QUERIES, rounded up. The host says the
// tiles, which take as many registers as there are without spills, by ROW_TILES, STEP, WARPS and BLOCKS (that share a multiprocessor):
//
//                                             ROW_TILES STEP WARPS BLOCKS   H100, 4096 keys: TFLOP/s full, causal
//   mma    value_dim above 96                     2      32    4     2      370, 320: two row tiles read a fragment of keys or values once
//          narrower                               2      64    4     2      330, 295
//          under a mask, or not aligned           1      64    4     2      220
//   wgmma  head_dim or value_dim above 64         1      64    4     2      490, 420: two blocks run apart, softmax under products
//          narrower                               1     128    4     3      440, 390
//          under a mask, or not aligned           1      64    4     2      290
//
// Limits: queries + keys < 2^31, grid < 2^31, widths from 1 to 128. y's last axis is a run. Under a mask BAND is 1, and the strides of the
// mask's last two axes are below 2^24. wgmma's widths are rounded up to 64 or 128.

#if WGMMA
#include "attention/wgmma.cuh"
#else
#include "attention/mma.cuh"
#endif

constexpr int THREADS = WARPS * WARP;
constexpr int QUERIES = WARPS * ROW_TILES * 16;
constexpr int STAGES = 2;
constexpr int Q_BYTES = QUERIES * largest(HEAD_DIM, VALUE_DIM) * 2;
constexpr int K_BYTES = STEP * HEAD_DIM * 2;
constexpr int V_BYTES = STEP * VALUE_DIM * 2;
constexpr int SHARED_BYTES = Q_BYTES + STAGES * (K_BYTES + V_BYTES);

#if PRODUCTS_RUN_ON
// Whether q stays in registers as left operand, which relieves shared memory: not where three blocks share them.
constexpr bool HOLD_Q = BLOCKS <= 2;
#endif

// How far, in powers of two, a row's maximum may rise before what was gathered is rescaled.
constexpr float SLACK = MASK == 0 ? 8 : 8 * LN_2;

// From here on scores in powers of two lie 2 apart: the product of a maximum and the scale, rounded, is no longer the one within a fused
// multiply-add to less than 1.
constexpr float VAST = 16777216;
INLINE bool is_vast(float top) { return MASK == 0 && fabsf(top) >= VAST && top != -INFINITE; }

// A lane's rows: what their weights are relative to, the sums of these, and by how much both have just shrunk.
struct Softmax {
    float top[ROW_TILES][2], sum[ROW_TILES][2], shrink[ROW_TILES][2];
    bool shrunk;
};

// Multiplies q by the sign of the scale, so that the largest product gives the largest score. By 0 if it is 0: what is finite becomes 0, all
// else NaN.
INLINE void turn_sign(u32 q_tile, float scale) {
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

// Products of a warp's queries become scores under the mask; those of keys that are not seen become -infinity.
INLINE void mask_scores(float (&s)[ROW_TILES][STEP / 8][4], const Attention& p, const Place& place, i32 warp_query, i32 first_key, float scale) {
    const Sizes& sizes = p.sizes;
    if (MASK != 0) apply_mask<false>(s, head_of(p.mask, place.batch, place.head), warp_query, first_key, sizes, scale);
    if (all_seen(sizes, warp_query, warp_query + ROW_TILES * 16, first_key, first_key + STEP)) return;
    u32 thread = read_tid_x();
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            i32 query = warp_query + i * 16 + half * 8 + i32(thread % WARP / 4), key = first_key + i32(thread % 4) * 2;
            // Keys that the query sees, counted from this lane's first.
            i32 begin = (BAND ? query + sizes.reach_first : 0) - key;
            i32 end = (BAND ? min(i32(sizes.keys), query + sizes.reach_end) : i32(sizes.keys)) - key;
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = 0; e < 2; ++e) {
                    bool within = (!BAND || j * 8 + e >= begin) && j * 8 + e < end;
                    s[i][j][half * 2 + e] = within ? s[i][j][half * 2 + e] : -INFINITE;
                }
        }
}

// Takes up the maxima of these scores.
INLINE void renew(Softmax& softmax, const float (&s)[ROW_TILES][STEP / 8][4], float scale) {
    float higher[ROW_TILES][2];
    bool rises = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float found = -INFINITE;
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j) found = fmaxf(found, fmaxf(s[i][j][half * 2], s[i][j][half * 2 + 1]));
            found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 1));
            found = fmaxf(found, __shfl_xor_sync(ALL_LANES, found, 2));
            higher[i][half] = fmaxf(softmax.top[i][half], MASK == 0 ? found * scale : found);
            rises |= higher[i][half] - softmax.top[i][half] > SLACK;
        }
    softmax.shrunk = __any_sync(ALL_LANES, rises);
    if (!softmax.shrunk) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float fall = softmax.top[i][half] - (higher[i][half] == -INFINITE ? 0 : higher[i][half]);
            softmax.shrink[i][half] = ex2_approx_ftz(MASK == 0 ? fall : fall * LOG2_E);
            softmax.top[i][half] = higher[i][half];
            softmax.sum[i][half] *= softmax.shrink[i][half];
        }
}
INLINE void rescale(float (&y)[ROW_TILES][VALUE_DIM / 8][4], const Softmax& softmax) {
    if (!softmax.shrunk) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) y[i][j][e] *= softmax.shrink[i][e / 2];
}
// Whether any of the warp's rows is. (Not kept from step to step: there is no register for it.)
INLINE bool any_vast(const Softmax& softmax) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) any |= is_vast(softmax.top[i][0]) || is_vast(softmax.top[i][1]);
    return MASK == 0 && __any_sync(ALL_LANES, any);
}
// Of rows whose scores are vast: these less the maximum, both rounded once scaled, so that the maximum's weight is 1. In `weigh` these rows
// have no maximum to subtract any more.
INLINE void lower_vast(float (&s)[ROW_TILES][STEP / 8][4], const Softmax& softmax, float scale) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float top = softmax.top[i][half];
            if (!is_vast(top)) continue;
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) s[i][j][e] = (__fmul_rn(s[i][j][e], scale) - top) / scale;
        }
}
// Scores become weights.
INLINE void weigh(float (&s)[ROW_TILES][STEP / 8][4], Softmax& softmax, float scale) {
    bool vast = any_vast(softmax);
    if (vast) lower_vast(s, softmax, scale);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // A row of which nothing has been seen yet: weights of 0, not of exp(-infinity + infinity).
            float base = softmax.top[i][half] == -INFINITE || (vast && is_vast(softmax.top[i][half])) ? 0 : softmax.top[i][half];
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) {
                    s[i][j][e] = ex2_approx_ftz(MASK == 0 ? fmaf(s[i][j][e], scale, -base) : (s[i][j][e] - base) * LOG2_E);
                    softmax.sum[i][half] += s[i][j][e];
                }
        }
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Attention p) {
    extern __shared__ __align__(1024) u8 shared[];
    const Sizes& sizes = p.sizes;
    // The last queries see most keys: they begin first.
    Place place = place_of(blockIdx.x, sizes.heads, p.blocks, true, QUERIES);
    i32 end_query = min(place.first_row + QUERIES, i32(sizes.queries));
    View<const Element> k = head_of(p.k, place.batch, place.head / sizes.group);
    View<const Element> v = head_of(p.v, place.batch, place.head / sizes.group);
    Range keys = keys_of(sizes, place.first_row, end_query);
    i32 first_key = keys.first / STEP * STEP;

    u32 warp_row = threadIdx.x / WARP * ROW_TILES * 16;
    i32 warp_query = place.first_row + i32(warp_row);
    u32 q_tile = cvta_to_shared(shared), k_tiles = q_tile + Q_BYTES, v_tiles = k_tiles + STAGES * K_BYTES;
    auto k_tile = [&](i32 key) { return k_tiles + key / STEP % STAGES * K_BYTES; };
    auto v_tile = [&](i32 key) { return v_tiles + key / STEP % STAGES * V_BYTES; };
    auto fetch_keys = [&](i32 key) {
        if (key < keys.end) fetch<STEP, HEAD_DIM, THREADS>(k_tile(key), k, key, sizes.keys, sizes.head_dim);
    };
    auto fetch_values = [&](i32 key) {
        if (key < keys.end) fetch<STEP, VALUE_DIM, THREADS>(v_tile(key), v, key, sizes.keys, sizes.value_dim);
    };
    fetch<QUERIES, HEAD_DIM, THREADS>(q_tile, head_of(p.q, place.batch, place.head), place.first_row, end_query, sizes.head_dim);
    fetch_keys(first_key);
    if (!PRODUCTS_RUN_ON) fetch_values(first_key);
    cp_async_commit_group();

    // Scores are kept as powers of two where they are only scaled, and as they are under a mask, whose lowest number may not overflow.
    float scale = sizes.scale;
    if (MASK == 0) {
        if (!(scale > 0)) {
            cp_async_wait_group<0>();
            __syncthreads();
            turn_sign(q_tile, scale);
            scale = scale == 0 ? 1 : fabsf(scale);
        }
        scale *= LOG2_E;
    }

    float y[ROW_TILES][VALUE_DIM / 8][4];
    clear(y);
    Softmax softmax;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            softmax.top[i][half] = -INFINITE;
            softmax.sum[i][half] = 0;
        }
    float s[ROW_TILES][STEP / 8][4];
    u32 weights[ROW_TILES][STEP / 16][4];
#if DROPOUT
    Kept<false, ROW_TILES, STEP / 8> kept;
#define DRAW() kept.draw(p.dropping, sizes, place.batch * sizes.heads + place.head, warp_query, first_key)
#define DROP() kept.apply(weights)
#else
#define DRAW()
#define DROP()
#endif

#if !PRODUCTS_RUN_ON
    constexpr int TEAM_ROWS = team_rows(ROW_TILES);
#pragma unroll 1
    for (; first_key < keys.end; first_key += STEP) {
        publish_copies();
        __syncthreads();
        fetch_keys(first_key + STEP);
        fetch_values(first_key + STEP);
        cp_async_commit_group();
        if (!any_seen(sizes, warp_query, warp_query + TEAM_ROWS, first_key, first_key + STEP)) continue;
        DRAW();
        product_of_rows<QUERIES, HEAD_DIM>(s, q_tile, warp_row, k_tile(first_key));
        mask_scores(s, p, place, warp_query, first_key, scale);
        renew(softmax, s, scale);
        rescale(y, softmax);
        weigh(s, softmax, scale);
        round_to_operand(weights, s);
        DROP();
        add_product<VALUE_DIM>(y, weights, v_tile(first_key));
    }
#else
    if (first_key < keys.end) {
        // Values lag a step behind keys: y += p v of one step runs while the next one's scores become weights.
        //
        //   tensor cores   | q k0 |      | q k1 | p0 v0 |      | q k2 | p1 v1 |
        //   softmax               |  p0  |      |      p1      |      |      p2
        publish_copies();
        __syncthreads();
        fetch_keys(first_key + STEP);
        fetch_values(first_key);
        cp_async_commit_group();
        u32 q[HEAD_DIM / 16][4];
        if (HOLD_Q) hold_rows<QUERIES, HEAD_DIM>(q, q_tile, warp_row);
        auto multiply = [&](i32 key) {
            if (HOLD_Q)
                product_of_held_rows<HEAD_DIM>(s, q, k_tile(key));
            else
                product_of_rows<QUERIES, HEAD_DIM>(s, q_tile, warp_row, k_tile(key));
        };
        DRAW();
        begin_products();
        multiply(first_key);
        commit_products();
        await_products<0>();
        hold(s);
        mask_scores(s, p, place, warp_query, first_key, scale);
        renew(softmax, s, scale);
        weigh(s, softmax, scale);
        round_to_operand(weights, s);
        DROP();
#pragma unroll 1
        for (first_key += STEP; first_key < keys.end; first_key += STEP) {
            publish_copies();
            __syncthreads();
            fetch_keys(first_key + STEP);
            fetch_values(first_key);
            cp_async_commit_group();
            DRAW();
            begin_products();
            multiply(first_key);
            commit_products();
            add_product<VALUE_DIM>(y, weights, v_tile(first_key - STEP));
            commit_products();
            await_products<1>();
            hold(s);
            mask_scores(s, p, place, warp_query, first_key, scale);
            renew(softmax, s, scale);
            weigh(s, softmax, scale);
            await_products<0>();
            hold(y);
            rescale(y, softmax);
            round_to_operand(weights, s);
            DROP();
        }
        publish_copies();
        __syncthreads();
        begin_products();
        add_product<VALUE_DIM>(y, weights, v_tile(first_key - STEP));
        commit_products();
        await_products<0>();
        hold(y);
    }
#endif
    // The place of q is y's now.
    cp_async_wait_group<0>();
    __syncthreads();

    place = place_of(read_ctaid_x(), sizes.heads, p.blocks, true, QUERIES);
    end_query = min(place.first_row + QUERIES, i32(sizes.queries));
    u32 thread = read_tid_x();
    warp_row = thread / WARP * ROW_TILES * 16;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float total = softmax.sum[i][half], top = softmax.top[i][half];
            total += __shfl_xor_sync(ALL_LANES, total, 1);
            total += __shfl_xor_sync(ALL_LANES, total, 2);
            bool blind = top == -INFINITE && total == 0;
            float inverse = DROPOUT && p.dropping.threshold != 0 ? p.dropping.scale / total : 1 / total;
#pragma unroll
            for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) y[i][j][e] = blind ? 0 : y[i][j][e] * inverse;
            i32 query = place.first_row + i32(warp_row + i * 16 + half * 8 + thread % WARP / 4);
            if (query < end_query && thread % 4 == 0)
                p.log_sums[i64(place.batch * sizes.heads + place.head) * sizes.queries + query] = (MASK == 0 ? top * LN_2 : top) + logf(total);
        }
    write_rows<QUERIES, VALUE_DIM>(y, q_tile, warp_row, head_of(p.y, place.batch, place.head), place.first_row, end_query, sizes.value_dim);
}
