// Gradient of an additive mask: the gradient of the scores (grad.cu), summed over the axes along
// which the mask is broadcast. No more than a tile of the gradient of the scores is stored:
//
//   dmask[mb, mh, i, j] = sum of ds[b, h, i, j] over the b and h that share mb and mh,
//                         and over i or j if the mask has one query or one key
//
//                      loop ->   the tiles of scores that share the block's mask elements, in order
//                 +---------+
//   block's own   |  dmask  |  +=  ds of each: the weights are recomputed, then their gradient;
//                 +---------+      no further product        (ROWS queries, STEP keys)
//
// If the mask is small, the loop is split into parts. attention_grad_mask_sum adds their sums in
// the order of the parts. So two runs are bit-identical.
//
// Launch, after attention_grad_rows (grad_rows.cu), with
// owned = mask_batch * mask_heads * tiles of the mask:
//   attention_grad_mask<<<owned * parts, THREADS, SHARED_BYTES>>>
//   attention_grad_mask_sum<<<ceil(elements / 256), 256>>>, if there is more than one part
// MASK is 2, BAND and DROPOUT are 1, VARLEN is 0.

#pragma once

#include "attention/mask.cuh"
#include "lib/launch.cuh"

struct AttentionGradMask {
    AttentionGrad grad;
    Element* dmask;  // [mask_batch, mask_heads, mask_queries, mask_keys], contiguous
    float* partial;  // [parts, elements of dmask], if there are several parts
    u64 elements;    // of dmask
    u32 batch;       // of the scores
    u32 mask_batch, mask_heads, mask_queries, mask_keys;
    u32 parts;
    u64 steps_per_part;
};

INLINE bool repeats_queries(const AttentionGradMask& p) { return p.mask_queries == 1; }
INLINE bool repeats_keys(const AttentionGradMask& p) { return p.mask_keys == 1; }

INLINE u32 tiles_over(u32 count, u32 size) { return (count + size - 1) / size; }

// A tile of the mask: its head, counted over the mask's batch, its first query and key; and the
// part of the loop.
struct MaskTile {
    u32 head, query, key, part;
};
INLINE MaskTile mask_tile(const AttentionGradMask& p, u32 index, u32 rows, u32 columns) {
    u32 query_tiles = tiles_over(p.mask_queries, rows), key_tiles = tiles_over(p.mask_keys, columns);
    MaskTile tile;
    tile.part = index % p.parts;
    index /= p.parts;
    tile.key = index % key_tiles * columns;
    index /= key_tiles;
    tile.query = index % query_tiles * rows;
    tile.head = index / query_tiles;
    return tile;
}

// The loop over the tiles of scores that share a tile of the mask, from the first one of a part on:
// keys vary fastest, then queries, then heads.
struct ScoreTileIterator {
    u64 steps;  // remaining
    u32 member, query_tile, key_tile;
    u32 query_tiles, key_tiles;

    INLINE static ScoreTileIterator of(const AttentionGradMask& p, const MaskTile& tile, u32 rows, u32 columns) {
        const Sizes& sizes = p.grad.sizes;
        ScoreTileIterator iterator;
        iterator.query_tiles = repeats_queries(p) ? tiles_over(sizes.queries, rows) : 1;
        iterator.key_tiles = repeats_keys(p) ? tiles_over(sizes.keys, columns) : 1;
        u64 members = u64(p.batch / p.mask_batch) * (sizes.heads / p.mask_heads);
        u64 all = members * iterator.query_tiles * iterator.key_tiles, first = tile.part * p.steps_per_part;
        u64 end = min(all, first + p.steps_per_part);
        iterator.steps = end > first ? end - first : 0;
        iterator.member = iterator.query_tile = iterator.key_tile = 0;
        if (iterator.steps == 0) return iterator;
        iterator.key_tile = u32(first % iterator.key_tiles);
        first /= iterator.key_tiles;
        iterator.query_tile = u32(first % iterator.query_tiles);
        iterator.member = u32(first / iterator.query_tiles);
        return iterator;
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

// A tile of scores: its batch and head, and its first query and key.
struct ScoreTile {
    u32 batch, head;
    i32 query, key;
};
INLINE ScoreTile score_tile(const AttentionGradMask& p, const MaskTile& tile, const ScoreTileIterator& iterator,
                            u32 rows, u32 columns) {
    u32 heads = p.grad.sizes.heads / p.mask_heads;
    ScoreTile at;
    at.batch = tile.head / p.mask_heads + iterator.member / heads;
    at.head = tile.head % p.mask_heads + iterator.member % heads;
    at.query = i32(tile.query + iterator.query_tile * rows);
    at.key = i32(tile.key + iterator.key_tile * columns);
    return at;
}
// Whether any query of the tile attends to any of its keys.
INLINE bool has_unmasked(const Sizes& sizes, const ScoreTile& at, i32 rows, i32 columns) {
    return has_tile_unmasked(sizes, at.query, min(at.query + rows, i32(sizes.queries)), at.key,
                             min(at.key + columns, i32(sizes.keys)));
}

// The LSE that is subtracted from a query's scores, which is infinity if its weights are 0; and
// rowsum(dy y).
struct RowStats {
    float lse, row_dot;
};
INLINE RowStats load_row_stats(const AttentionGrad& p, const ScoreTile& at, i32 query) {
    if (query >= i32(p.sizes.queries)) return {INFINITE, 0};
    const float* rows = p.rows + i64(at.batch * p.sizes.heads + at.head) * 2 * p.padded + query;
    return {rows[0], rows[p.padded]};
}

constexpr u32 SUM_THREADS = 256;

// Sums the block's elements over queries and keys along which the mask is broadcast, and stores the
// results. `sums` is a tile of ROWS x COLUMNS in shared memory, with rows PITCH apart. The function
// synchronizes the block before it reads the tile.
template <int ROWS, int COLUMNS, int PITCH, int THREADS_>
INLINE void store_mask_tile(const AttentionGradMask& p, const MaskTile& tile, float* sums) {
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
    for (u32 index = threadIdx.x; index < ROWS * COLUMNS; index += THREADS_) {
        u32 row = index / COLUMNS, column = index % COLUMNS;
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
