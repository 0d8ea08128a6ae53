// Shared by the one-pass gradients: the launch that computes the row statistics of queries (LSE and
// row_dot), and the producer, which loads the operands of work tiles.

#pragma once

#include "attention/grad_scheduler.cuh"
#include "lib/launch.cuh"

// ---------------------------------------------------------------- rows

constexpr int ROW_THREADS = 256;
// Lanes per row, 16 bytes each. At width 192 the last eight have no columns.
constexpr int ROW_LANES = HEAD_DIM == 192 ? 32 : HEAD_DIM / 8;
constexpr int ROWS_AT_ONCE = ROW_THREADS / ROW_LANES;
constexpr int ROWS_OF_LANE = QUERIES / ROWS_AT_ONCE;

// With UNORDERED each work tile adds to a query tile's sums, so they are set to 0.
INLINE void clear_sums(const AttentionGradByKeys& p, u64 index) {
    float* sums = p.sums + index * (QUERIES * HEAD_DIM);
#pragma unroll
    for (int at = 0; at < QUERIES * HEAD_DIM / 4; at += ROW_THREADS)
        st_global_v4(sums + (at + threadIdx.x) * 4, uint4{0, 0, 0, 0});
}

// Computes the row statistics of a tile's queries, and sets its turns to 0. Heads of the same
// queries are in adjacent blocks. They are adjacent in memory, too, if a row has all heads. Blocks
// that run at the same time then read the same DRAM pages.
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    attention_grad_tile_rows(const __grid_constant__ AttentionGradByKeys p) {
    wait_for_earlier_launches();
    u32 tiles = blockIdx.x / p.sizes.heads, inner = blockIdx.x - tiles * p.sizes.heads;
    u32 batch = tiles / p.query_tiles, tile = tiles - batch * p.query_tiles;
    u64 index = u64(batch * p.sizes.heads + inner) * p.query_tiles + tile;
    u32 lane = threadIdx.x % ROW_LANES, row = threadIdx.x / ROW_LANES, query = tile * QUERIES + row;
    View<const Element> y = head_of(p.rows_of_y, batch, inner), dy = head_of(p.rows_of_dy, batch, inner);
    Pack<Element, 8> left[ROWS_OF_LANE], right[ROWS_OF_LANE];
    float log_sums[ROWS_OF_LANE];
    View<const float> of_rows = head_of(p.log_sums, batch, inner);
    bool has_columns = lane * 8 < p.sizes.value_dim;
#pragma unroll
    for (int i = 0; i < ROWS_OF_LANE; ++i) {
        u32 at = query + i * ROWS_AT_ONCE;
        if (has_columns && at < p.sizes.queries) {
            left[i] = load<Element, 8>(y.first + i64(at) * y.row + lane * 8);
            right[i] = load<Element, 8>(dy.first + i64(at) * dy.row + lane * 8);
        } else {
            left[i] = right[i] = Pack<Element, 8>{};
        }
        // Loaded together with the others, not after them.
        log_sums[i] = lane == 0 && at < p.sizes.queries ? of_rows.first[i64(at) * of_rows.row] : -INFINITE;
    }
    float* to = p.rows + index * (2 * QUERIES) + row;
#pragma unroll
    for (int i = 0; i < ROWS_OF_LANE; ++i) {
        float row_dot = 0;
#pragma unroll
        for (int e = 0; e < 8; ++e) row_dot += widen(left[i].of[e]) * widen(right[i].of[e]);
#pragma unroll
        for (int lane_mask = ROW_LANES / 2; lane_mask > 0; lane_mask /= 2)
            row_dot += __shfl_xor_sync(ALL_LANES, row_dot, lane_mask);
        if (lane != 0) continue;
        to[i * ROWS_AT_ONCE] = log_sums[i] == -INFINITE ? INFINITE : log_sums[i] * LOG2_E;
        to[QUERIES + i * ROWS_AT_ONCE] = DROPOUT ? row_dot * p.keep_probability : row_dot;
    }
    if (UNORDERED) clear_sums(p, index);
    if (!UNORDERED && threadIdx.x < CONSUMERS) p.dq_semaphores[index * CONSUMERS + threadIdx.x] = 0;
    if (threadIdx.x == 0 && blockIdx.x == 0) *p.ticket = 0;
}

// ---------------------------------------------------------------- producer

template <int ROWS> INLINE void load_tile(u32 to, const TensorMap& map, i32 row, u32 head, u32 batch, u32 barrier) {
#pragma unroll
    for (int slab = 0; slab < SLABS; ++slab)
        cp_async_bulk_tensor_4d(to + slab * ROWS * 128, map, slab * SLAB_COLUMNS, row, head, batch, barrier);
}

// Issues the loads of a step, and with `begins` also that of v of its work tile.
INLINE void produce_step(const AttentionGradByKeys& p, const WorkTile& work, const Step& step, const KeyValueRing& own,
                         Ring& ring, bool begins) {
    mbarrier_wait_parity(ring.empty(), ring.parity ^ 1);
    mbarrier_arrive_expect_tx(ring.full(), STAGE_BYTES + 2 * ROW_STAT_BYTES);
    i32 query = step.tile * QUERIES;
    load_tile<QUERIES>(ring.tiles(), p.q, query, step.head, work.batch, ring.full());
    if (begins) load_tile<KEYS>(own.v_tile(), p.v, work.first_key(), work.head, work.batch, own.full());
    load_tile<QUERIES>(ring.tiles() + TILE_BYTES, p.dy, query, step.head, work.batch, ring.full());
    cp_async_bulk(ring.row_stats(), p.rows + tile_index(p, work, step) * (2 * QUERIES), 2 * ROW_STAT_BYTES,
                  ring.full());
    ring.advance();
}
// Draws work tiles and issues their loads until no work tile is left.
INLINE void producer_loop(const AttentionGradByKeys& p, u32 shared) {
    Ring ring(shared);
    KeyValueRing own(shared);
#pragma unroll 1
    for (;; own.advance()) {
        u32 index = atomicAdd(p.ticket, 1);
        bool is_work = index < p.work_tiles;
        if (!WIDE || !is_work) mbarrier_wait_parity(own.empty(), own.parity ^ 1);
        if (!is_work) {
            st_shared(own.index(), NO_WORK_TILE);
            mbarrier_arrive(own.full());
            return;
        }
        if (!WIDE) st_shared(own.index(), index);
        WorkTile work(p, index);
        Step step(p, work);
        i32 steps = work.tiles * i32(p.sizes.group);
        // Wide heads have one buffer of k and v: the first query tile is loaded while the consumers
        // finish the previous work tile.
        bool ahead = WIDE && steps > 0;
        if (ahead) produce_step(p, work, step, own, ring, false);
        if (WIDE) {
            mbarrier_wait_parity(own.empty(), own.parity ^ 1);
            st_shared(own.index(), index);
        }
        mbarrier_arrive_expect_tx(own.full(), OWN_STAGE_BYTES);
        load_tile<KEYS>(own.k_tile(), p.k, work.first_key(), work.head, work.batch, own.full());
        if (steps == 0 || ahead)
            load_tile<KEYS>(own.v_tile(), p.v, work.first_key(), work.head, work.batch, own.full());
        if (ahead) step.advance(work);
#pragma unroll 1
        for (i32 at = ahead ? 1 : 0; at < steps; ++at, step.advance(work))
            produce_step(p, work, step, own, ring, at == 0);
    }
}
