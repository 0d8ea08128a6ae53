// The gradient of a mask that is added to the scores: that of the scores (grad.cu), summed over the axes along which the mask is repeated. No more of it
// than a tile is in memory:
//
//   dmask[mb, mh, i, j] = sum of ds[b, h, i, j] over the b and h that share mb and mh, and over i or j where the mask has one query or key
//
//                        walked ->   tiles of scores that share the block's elements of the mask, in order
//                 +---------+
//   block's own   |  dmask  |  +=  ds of each: weights anew, their gradient, no product after these      (ROWS queries, STEP keys)
//                 +---------+
//
// Where the mask is small the walk is cut into parts, whose sums attention_grad_mask_sum adds in the order of the parts. So two runs give the same bits.
//
// Launch, after attention_grad_rows (grad_rows.cu), with owned = mask_batch * mask_heads * tiles of the mask:
//   attention_grad_mask<<<owned * parts, THREADS, SHARED_BYTES>>>
//   attention_grad_mask_sum<<<elements / 256, 256>>>, where there is more than one part
// MASK is 2, BAND and DROPOUT are 1, VARLEN is 0.

#pragma once

#include "attention/mask.cuh"
#include "lib/launch.cuh"

struct AttentionGradMask {
    AttentionGrad grad;
    Element* dmask;  // [mask_batch, mask_heads, mask_queries, mask_keys], without gaps
    float* partial;  // [parts, elements of dmask], where parts are several
    u64 elements;    // of dmask
    u32 batch;       // of the scores
    u32 mask_batch, mask_heads, mask_queries, mask_keys;
    u32 parts;
    u64 steps_of_part;
};

INLINE bool repeats_queries(const AttentionGradMask& p) { return p.mask_queries == 1; }
INLINE bool repeats_keys(const AttentionGradMask& p) { return p.mask_keys == 1; }

INLINE u32 tiles_over(u32 count, u32 size) { return (count + size - 1) / size; }

// Of the mask: a head, counted over its batch, the first query and key of a tile, and a part of the walk.
struct MaskTile {
    u32 head, query, key, part;
};
INLINE MaskTile mask_tile(const AttentionGradMask& p, u32 number, u32 rows, u32 columns) {
    u32 query_tiles = tiles_over(p.mask_queries, rows), key_tiles = tiles_over(p.mask_keys, columns);
    MaskTile tile;
    tile.part = number % p.parts;
    number /= p.parts;
    tile.key = number % key_tiles * columns;
    number /= key_tiles;
    tile.query = number % query_tiles * rows;
    tile.head = number / query_tiles;
    return tile;
}

// The tiles of scores that share a tile of the mask, from a part's first one on: keys before queries before heads.
struct ScoreWalk {
    u64 steps;  // left
    u32 member, query_tile, key_tile;
    u32 query_tiles, key_tiles;

    INLINE static ScoreWalk of(const AttentionGradMask& p, const MaskTile& tile, u32 rows, u32 columns) {
        const Sizes& sizes = p.grad.sizes;
        ScoreWalk walk;
        walk.query_tiles = repeats_queries(p) ? tiles_over(sizes.queries, rows) : 1;
        walk.key_tiles = repeats_keys(p) ? tiles_over(sizes.keys, columns) : 1;
        u64 members = u64(p.batch / p.mask_batch) * (sizes.heads / p.mask_heads);
        u64 all = members * walk.query_tiles * walk.key_tiles, first = tile.part * p.steps_of_part;
        u64 end = min(all, first + p.steps_of_part);
        walk.steps = end > first ? end - first : 0;
        walk.member = walk.query_tile = walk.key_tile = 0;
        if (walk.steps == 0) return walk;
        walk.key_tile = u32(first % walk.key_tiles);
        first /= walk.key_tiles;
        walk.query_tile = u32(first % walk.query_tiles);
        walk.member = u32(first / walk.query_tiles);
        return walk;
    }
    INLINE void advance() {
        --steps;
        if (++key_tile < key_tiles) return;
        key_tile = 0;
        if (++query_tile < query_tiles) return;
        query_tile = 0;
        ++member;
    }
};

// A tile of scores: its head, and its first query and key.
struct ScoreTile {
    u32 batch, head;
    i32 query, key;
};
INLINE ScoreTile score_tile(const AttentionGradMask& p, const MaskTile& tile, const ScoreWalk& walk, u32 rows,
                            u32 columns) {
    u32 heads = p.grad.sizes.heads / p.mask_heads;
    ScoreTile at;
    at.batch = tile.head / p.mask_heads + walk.member / heads;
    at.head = tile.head % p.mask_heads + walk.member % heads;
    at.query = i32(tile.query + walk.query_tile * rows);
    at.key = i32(tile.key + walk.key_tile * columns);
    return at;
}
// Whether any query of the tile sees any of its keys.
INLINE bool sees_any(const Sizes& sizes, const ScoreTile& at, i32 rows, i32 columns) {
    return any_seen(sizes, at.query, min(at.query + rows, i32(sizes.queries)), at.key,
                    min(at.key + columns, i32(sizes.keys)));
}

// What is subtracted from a query's scores, infinity for weights of 0, and rowsum(dy y).
struct QueryNumbers {
    float subtracted, row_dot;
};
INLINE QueryNumbers query_numbers(const AttentionGrad& p, const ScoreTile& at, i32 query) {
    if (query >= i32(p.sizes.queries)) return {INFINITE, 0};
    const float* rows = p.rows + i64(at.batch * p.sizes.heads + at.head) * 2 * p.padded + query;
    return {rows[0], rows[p.padded]};
}

constexpr u32 SUM_THREADS = 256;

// The block's sums over queries and keys that the mask repeats, and all of them to where they belong. `sums` is a tile of ROWS x COLUMNS in shared
// memory, rows PITCH apart, which the block has not yet waited for.
template <int ROWS, int COLUMNS, int PITCH, int THREADS_>
INLINE void put_mask_tile(const AttentionGradMask& p, const MaskTile& tile, float* sums) {
    __syncthreads();
    if (repeats_keys(p)) {
        for (u32 row = threadIdx.x; row < ROWS; row += THREADS_) {
            float total = 0;
            for (int column = 0; column < COLUMNS; ++column) total += sums[row * PITCH + column];
            sums[row * PITCH] = total;
        }
        __syncthreads();
    }
    u32 columns = min(u32(COLUMNS), p.mask_keys - tile.key);
    if (repeats_queries(p)) {
        for (u32 column = threadIdx.x; column < columns; column += THREADS_) {
            float total = 0;
            for (int row = 0; row < ROWS; ++row) total += sums[row * PITCH + column];
            sums[column] = total;
        }
        __syncthreads();
    }
    u32 rows = min(u32(ROWS), p.mask_queries - tile.query);
    for (u32 number = threadIdx.x; number < ROWS * COLUMNS; number += THREADS_) {
        u32 row = number / COLUMNS, column = number % COLUMNS;
        if (row >= rows || column >= columns) continue;
        u64 at = (u64(tile.head) * p.mask_queries + tile.query + row) * p.mask_keys + tile.key + column;
        float sum = sums[row * PITCH + column];
        if (p.parts > 1) p.partial[tile.part * p.elements + at] = sum;
        else p.dmask[at] = narrow<Element>(sum);
    }
}

extern "C" __global__ void __launch_bounds__(SUM_THREADS)
    attention_grad_mask_sum(const __grid_constant__ AttentionGradMask p) {
    wait_for_earlier_launches();
    u64 at = u64(blockIdx.x) * SUM_THREADS + threadIdx.x;
    if (at >= p.elements) return;
    float total = 0;
    for (u32 part = 0; part < p.parts; ++part) total += p.partial[part * p.elements + at];
    p.dmask[at] = narrow<Element>(total);
}
