// Scaled dot-product attention of f32 on the tensor cores. forward.cu describes what it computes.
// f32_mma.cuh describes the products of f32: in TF32 (SPLIT 0), or as bf16x6, as accurate as FMAs
// (SPLIT 1). Everything else, including the dropout mask, is as in simt_forward.cu.
//
// A block has QUERIES rows of one head, a warp ROW_TILES * 16 of them. All warps loop over the keys
// together, STEP at a time. The next step's keys and values are in flight during each step.
//
//                 keys ->     STEP      STEP
//             +---------+---------+---------+   s = scale q k^T + mask   STEP / 8 x ROW_TILES
//             |         |         |         |                            accumulators of 16 x 8
//   warp 0    |         |         |         |   row_max = largest s      within 4 lanes
//   warp 1    |         |  s, p   |         |   p = exp(s - row_max)     in registers: left operand
//   warp 2    |         |         |         |   y += p v                 VALUE_DIM / 8 x ROW_TILES
//             +---------+---------+---------+                            accumulators of 16 x 8
//
// With SPLIT each thread checks what it copied for numbers that cannot be split into bf16 terms. A
// step whose keys or values have such a number uses FMAs, and so do all steps of such queries. So
// infinities, NaN, and the largest and smallest numbers give the same results as with FMAs.
//
// Launch: attention<<<batch * heads * blocks, WARPS * 32, SHARED_BYTES>>>, with blocks = queries /
// QUERIES, rounded up. The host sets the tiles by ROW_TILES, STEP, WARPS and BLOCKS (blocks per
// multiprocessor). With two row tiles, a fragment of keys or values is read and converted only
// once. Up to 128 columns, STEP is such that two blocks fit in the 227 KiB of compute capability
// 9.0, and one in the 99 KiB of 8.6 and 8.9.
//
//                                             ROW_TILES STEP WARPS BLOCKS
//   TF32   head_dim or value_dim above 128        1      16    4     1    128 KiB of shared memory
//          above 64                               1      32    4     2
//          narrower                               2      32    4     2
//   SPLIT  head_dim or value_dim above 64         1      16    4     2    more keys spill
//          narrower                               1      32    4     2    (*)
//
//   (*) The terms, and the sums of 16 products, take the registers of a second row tile.
//
// Limits: those of forward.cu; widths up to 256 in TF32 and up to 128 with SPLIT. With SPLIT, a
// weight below 2^-103 of its row's largest has fewer than 24 bits.

#include "attention/f32_mma.cuh"
#include "attention/varlen.cuh"
#include "lib/launch.cuh"

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 32
#define WARPS 4
#define BLOCKS 2
#endif

constexpr int THREADS = WARPS * WARP;
constexpr int QUERIES = WARPS * ROW_TILES * 16;
constexpr int STAGES = 2;
constexpr int Q_BYTES = QUERIES * HEAD_DIM * 4;
constexpr int K_BYTES = STEP * HEAD_DIM * 4;
constexpr int V_BYTES = STEP * VALUE_DIM * 4;
constexpr int SHARED_BYTES = Q_BYTES + STAGES * (K_BYTES + V_BYTES);

INLINE TileCoord tile_in(const Attention& p) {
    // The last queries of a causal band attend to the most keys: they start first.
    return tile_coord(read_ctaid_x(), p.sizes.heads, p.blocks, true, QUERIES, p.varlen);
}

typedef float Outputs[ROW_TILES][VALUE_DIM / 8][4];
typedef float Scores[ROW_TILES][STEP / 8][4];
typedef KeepMaskFor<KeepMask<false, ROW_TILES, STEP / 8>> TileKeepMask;

// What a block computes, and the addresses of its tiles in shared memory.
struct Block {
    const Attention& p;
    const Sizes& sizes;
    TileCoord tile;
    View<const Element> k, v;
    i32 end_key;
    u32 q_tile, k_tiles, v_tiles;

    // The warp's first row, in the tile and in all queries. Recomputed at each use, so that it
    // takes no registers in between.
    INLINE u32 warp_row() const { return read_tid_x() / WARP * ROW_TILES * 16; }
    INLINE i32 warp_query() const { return tile.first_row + i32(warp_row()); }
    INLINE u32 k_tile(i32 key) const { return k_tiles + key / STEP % STAGES * K_BYTES; }
    INLINE u32 v_tile(i32 key) const { return v_tiles + key / STEP % STAGES * V_BYTES; }
    // Copies keys and values of the step that begins with `key`, if it exists.
    INLINE void fetch_step(i32 key) const {
        if (key < end_key) {
            fetch_tile<STEP, HEAD_DIM, THREADS>(k_tile(key), k, key, sizes.keys, sizes.head_dim);
            fetch_tile<STEP, VALUE_DIM, THREADS>(v_tile(key), v, key, sizes.keys, sizes.value_dim);
        }
        cp_async_commit_group();
    }
    // Waits for the step that begins with `key`, and returns whether its keys and values can be
    // split.
    INLINE bool await_step(i32 key) const {
        cp_async_wait_group<0>();
        return sync_all_splittable(has_splittable_chunks<STEP, HEAD_DIM, THREADS>(k_tile(key)) &&
                                   has_splittable_chunks<STEP, VALUE_DIM, THREADS>(v_tile(key)));
    }
};

// The online softmax state of a lane's rows: the maximum that weights are relative to, and the sums
// of the weights.
struct Softmax {
    float row_max[ROW_TILES][2], row_sum[ROW_TILES][2];
};
INLINE void clear(Softmax& softmax) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            softmax.row_max[i][half] = -INFINITE;
            softmax.row_sum[i][half] = 0;
        }
}

// Converts products of a warp's queries to masked scores. Scores of keys outside the band become
// -infinity.
INLINE void mask_scores(Scores& s, const Block& block, i32 first_key) {
    const Sizes& sizes = block.sizes;
    i32 query = block.warp_query();
    if (MASK != 0) {
        View<const MaskElement> mask = head_of(block.p.mask, block.tile.batch, block.tile.head);
        apply_mask<false>(s, mask, query, first_key, sizes, sizes.scale);
    } else {
        scale_scores(s, sizes.scale);
    }
    if (is_tile_unmasked(sizes, query, query + ROW_TILES * 16, first_key, first_key + STEP)) return;
    apply_band_mask<false>(s, sizes, query, first_key, -INFINITE, read_tid_x());
}

// The largest of a row's scores, over the four lanes that share the row.
INLINE float largest_score(const Scores& s, int i, int half) {
    float largest = -INFINITE;
#pragma unroll
    for (int j = 0; j < STEP / 8; ++j) largest = fmaxf(largest, fmaxf(s[i][j][half * 2], s[i][j][half * 2 + 1]));
    largest = fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 1));
    return fmaxf(largest, __shfl_xor_sync(ALL_LANES, largest, 2));
}

// Converts scores to weights relative to row_max, which is raised to the largest score. Rescales
// the running sums and y.
INLINE void exp_scores(Scores& s, Outputs& y, Softmax& softmax) {
    float rescale[ROW_TILES][2];
    bool is_rescaled = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float& row_max = softmax.row_max[i][half];
            float& row_sum = softmax.row_sum[i][half];
            float new_max = fmaxf(row_max, largest_score(s, i, half));
            // If the row has no unmasked key yet: weights of 0, not of exp(-infinity + infinity).
            float base = new_max == -INFINITE ? 0 : new_max;
            rescale[i][half] = ex2_approx_ftz((row_max - base) * LOG2_E);
            is_rescaled |= rescale[i][half] != 1;
            row_max = new_max;
            row_sum *= rescale[i][half];
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) {
                    s[i][j][e] = ex2_approx_ftz((s[i][j][e] - base) * LOG2_E);
                    row_sum += s[i][j][e];
                }
        }
    if (!__any_sync(ALL_LANES, is_rescaled)) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) y[i][j][e] *= rescale[i][e / 2];
}

// Divides y by the sums of its weights, and stores y and the log-sum-exp of the scores. The
// position of the warp's rows is recomputed, so that it takes no registers before.
INLINE void epilogue(const Attention& p, Outputs& y, const Softmax& softmax) {
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in(p);
    u32 thread = read_tid_x();
    i32 end_query = min(tile.first_row + QUERIES, i32(sizes.queries));
    i32 warp_query = tile.first_row + i32(thread / WARP * ROW_TILES * 16);
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
            i32 query = warp_query + i * 16 + half * 8 + i32(thread % WARP / 4);
            if (query < end_query && thread % 4 == 0)
                store_lse(p, lse_index(p, tile.batch, tile.head, query), row_max, total, is_fully_masked);
        }
    write_columns<VALUE_DIM>(y, head_of(p.y, tile.batch, tile.head), warp_query, end_query, sizes.value_dim);
}

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS) attention(const __grid_constant__ Attention launched) {
    wait_for_earlier_launches();
    extern __shared__ __align__(1024) u8 shared[];
    const Attention& p = sequence_params<false>(launched, shared + SHARED_BYTES, launched.blocks, QUERIES);
    const Sizes& sizes = p.sizes;
    TileCoord tile = tile_in(p);
    if (has_no_rows(tile, sizes.queries)) return;
    i32 end_query = min(tile.first_row + QUERIES, i32(sizes.queries));
    Range keys = key_range(sizes, tile.first_row, end_query);
    u32 q_tile = cvta_to_shared(shared), k_tiles = q_tile + Q_BYTES, v_tiles = k_tiles + STAGES * K_BYTES;
    Block block = {p,
                   sizes,
                   tile,
                   head_of(p.k, tile.batch, tile.head / sizes.group),
                   head_of(p.v, tile.batch, tile.head / sizes.group),
                   keys.end,
                   q_tile,
                   k_tiles,
                   v_tiles};
    i32 key = keys.first / STEP * STEP;
    fetch_tile<QUERIES, HEAD_DIM, THREADS>(q_tile, head_of(p.q, tile.batch, tile.head), tile.first_row, end_query,
                                           sizes.head_dim);
    block.fetch_step(key);
    cp_async_wait_group<0>();
    bool are_queries_splittable = sync_all_splittable(has_splittable_chunks<QUERIES, HEAD_DIM, THREADS>(q_tile));
    Outputs y;
    Softmax softmax;
    clear(y);
    clear(softmax);
#pragma unroll 1
    for (; key < keys.end; key += STEP) {
        bool splittable = block.await_step(key);
        block.fetch_step(key + STEP);
        i32 query = block.warp_query();
        if (!has_tile_unmasked(sizes, query, query + ROW_TILES * 16, key, key + STEP)) continue;
        TileKeepMask kept;
        kept.draw(p.dropout, WeightIndex::of(p), tile.batch * sizes.heads + tile.head, query, key);
        Scores s;
        gemm_nt<HEAD_DIM>(s, q_tile, block.warp_row(), block.k_tile(key), splittable && are_queries_splittable);
        mask_scores(s, block, key);
        exp_scores(s, y, softmax);
        drop_weights(s, kept);
        accumulate_gemm_nn<VALUE_DIM>(y, s, block.v_tile(key), splittable);
    }
    epilogue(p, y, softmax);
}
