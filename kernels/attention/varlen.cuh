// Packed sequences of different lengths (varlen): maps a block to its sequence.
//
//   rows      | sequence 0      | 1 |  | 3          | after the last |   starts: cumulative lengths
//   blocks    | 0   | 1   | 2   | 3 |  | 5   | 6    | 7  |
//
// The host does not know the lengths. It launches as many blocks as there can be tiles. The first
// tile of sequence i has the index `first row of i / rows per tile + i`; so each sequence has at
// most one block without rows. Rows after the last sequence are treated as one more sequence: its
// queries attend to nothing, and no query attends to its keys.
//
// Each block gets parameters that are narrowed to its sequence: pointers to its first rows, its
// queries and keys, and its band. They are stored in shared memory, after everything else that the
// kernel has there. Apart from this, the kernels do not handle sequences.
//
// The cumulative lengths are not validated: values that decrease or are out of range are clamped,
// so that no other memory is accessed.

#pragma once

#include "attention/params.cuh"

// Start of sequence `index`, which is the end of the one before. If `index` is greater than
// `sequences`: the end of all rows.
INLINE i32 cu_seqlen_at(const i32* ends, i64 step, u32 sequences, u32 rows, u32 index) {
    if (index > sequences) return i32(rows);
    return index == 0 ? 0 : min(max(ends[index * step], 0), i32(rows));
}
INLINE i32 query_start(const Varlen& all, u32 index) {
    return cu_seqlen_at(all.cu_seqlens_q, all.cu_seqlens_q_stride, all.sequences, all.queries, index);
}
INLINE i32 key_start(const Varlen& all, u32 index) {
    return cu_seqlen_at(all.cu_seqlens_k, all.cu_seqlens_k_stride, all.sequences, all.keys, index);
}

// The sequence that contains tile `number`, with tiles of `rows` rows, and its first tile.
struct SequenceTile {
    u32 sequence, first;
};
template <bool BY_KEYS> INLINE SequenceTile sequence_of(const Varlen& all, u32 number, u32 rows) {
    auto first_tile = [&](u32 index) {
        return u32(BY_KEYS ? key_start(all, index) : query_start(all, index)) / rows + index;
    };
    u32 low = 0, high = all.sequences;
    while (low < high) {
        u32 middle = (low + high + 1) / 2;
        if (first_tile(middle) <= number) low = middle;
        else high = middle - 1;
    }
    return {low, first_tile(low)};
}

// First row of a sequence in the workspace of the gradient.
constexpr u32 WORKSPACE_ROWS = 16;
INLINE u32 workspace_start(i32 first_query, u32 sequence) {
    return (u32(first_query) / WORKSPACE_ROWS + sequence) * WORKSPACE_ROWS;
}

// Query of a workspace row, or `all.queries` if the row is padding.
INLINE u32 query_of_row(const Varlen& all, u32 row) {
    SequenceTile tile = sequence_of<false>(all, row / WORKSPACE_ROWS, WORKSPACE_ROWS);
    i32 query = query_start(all, tile.sequence) + i32(row - tile.first * WORKSPACE_ROWS);
    return query < query_start(all, tile.sequence + 1) ? u32(query) : all.queries;
}

template <class T> INLINE void advance_rows(View<T>& view, i32 rows) { view.first += i64(rows) * view.row; }

// Narrows the parameters to the sequence of tile `number`: its rows, its band, and the block's
// first row within it.
template <bool BY_KEYS, class P> INLINE void narrow_to_sequence(P& p, u32 number, u32 rows) {
    Varlen& all = p.varlen;
    SequenceTile tile = sequence_of<BY_KEYS>(all, number, rows);
    i32 query = query_start(all, tile.sequence), key = key_start(all, tile.sequence);
    i32 queries = max(query_start(all, tile.sequence + 1) - query, 0),
        keys = max(key_start(all, tile.sequence + 1) - key, 0);
    // Rows after the last sequence: their queries attend to nothing, and no query attends to their
    // keys.
    if (tile.sequence == all.sequences) (BY_KEYS ? queries : keys) = 0;
    advance_rows(p.q, query);
    advance_rows(p.k, key);
    advance_rows(p.v, key);
    // The host passes the first masked distance before and after a query's position.
    i32 offset = keys - queries, window_left = p.sizes.band_begin, window_right = p.sizes.band_end;
    // Clamped so that no sum reaches 2^31: larger distances than past all keys, or before all
    // queries, make no difference.
    p.sizes.band_begin = max(offset - min(window_left, keys + 1) + 1, -queries);
    p.sizes.band_end = min(offset + min(window_right, queries), keys);
    p.sizes.queries = u32(queries);
    p.sizes.keys = u32(keys);
    all.first_query = u32(query);
    all.first_key = u32(key);
    all.first_row = i32((number - tile.first) * rows);
    all.padded = (u32(queries) + WORKSPACE_ROWS - 1) / WORKSPACE_ROWS * WORKSPACE_ROWS;
    advance_results(p, query, key, tile.sequence);
}
INLINE void advance_results(Attention& p, i32 query, i32, u32) { advance_rows(p.y, query); }
INLINE void advance_results(AttentionGrad& p, i32 query, i32 key, u32 sequence) {
    advance_rows(p.dy, query);
    advance_rows(p.dq, query);
    advance_rows(p.dk, key);
    advance_rows(p.dv, key);
    p.rows += workspace_start(query, sequence);
}

// Returns the parameters of the block's sequence, stored at `smem` in shared memory; without VARLEN
// the launched ones, unchanged. Each head has `blocks` tiles.
template <bool BY_KEYS, class P> INLINE const P& sequence_params(const P& launched, u8* smem, u32 blocks, u32 rows) {
    if (!VARLEN) return launched;
    P& own = *reinterpret_cast<P*>(smem);
    const u32* from = reinterpret_cast<const u32*>(&launched);
    for (u32 word = threadIdx.x; word < sizeof(P) / 4; word += blockDim.x)
        reinterpret_cast<u32*>(&own)[word] = from[word];
    __syncthreads();
    if (threadIdx.x == 0) narrow_to_sequence<BY_KEYS>(own, blockIdx.x % blocks, rows);
    __syncthreads();
    return own;
}
// Whether the block has no rows to process. Always false without VARLEN.
INLINE bool has_no_rows(const TileCoord& tile, u32 rows) { return VARLEN && tile.first_row >= i32(rows); }
