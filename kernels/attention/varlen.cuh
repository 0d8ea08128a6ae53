// Sequences of different lengths that are stored one after another: which of them a block works on.
//
//   rows      | sequence 0      | 1 |  | 3          | behind the last |     their ends say where each begins
//   blocks    | 0   | 1   | 2   | 3 |  | 5   | 6    | 7  |
//
// The host does not know the lengths. It launches blocks for as many tiles as there may be: those of a sequence begin with number
// `its first row / rows + its index`, which leaves at most one block without rows for each sequence. Rows behind the last sequence are one more, of
// queries that see nothing, or of keys that are not seen.
//
// A block's parameters are those of its sequence alone: pointers at its first rows, its numbers of queries and keys, and how far a query sees. They are
// in shared memory, behind all else that the kernel has there. Beyond this the kernels do not know of sequences.
//
// Ends are read as they are: those that fall or are out of range are bounded, so that no other memory is reached.

#pragma once

#include "attention/params.cuh"

// The end of sequence `index`, and beyond the last one of all rows.
INLINE i32 end_of(const i32* ends, i64 step, u32 sequences, u32 rows, u32 index) {
    if (index > sequences) return i32(rows);
    return index == 0 ? 0 : min(max(ends[index * step], 0), i32(rows));
}
INLINE i32 query_end(const Varlen& all, u32 index) {
    return end_of(all.query_ends, all.query_ends_step, all.sequences, all.queries, index);
}
INLINE i32 key_end(const Varlen& all, u32 index) {
    return end_of(all.key_ends, all.key_ends_step, all.sequences, all.keys, index);
}

// The sequence that has tile `number` of so many rows, and the first tile of that sequence.
struct SequenceTile {
    u32 sequence, first;
};
template <bool BY_KEYS> INLINE SequenceTile sequence_of(const Varlen& all, u32 number, u32 rows) {
    auto first_tile = [&](u32 index) {
        return u32(BY_KEYS ? key_end(all, index) : query_end(all, index)) / rows + index;
    };
    u32 low = 0, high = all.sequences;
    while (low < high) {
        u32 middle = (low + high + 1) / 2;
        if (first_tile(middle) <= number) low = middle;
        else high = middle - 1;
    }
    return {low, first_tile(low)};
}

// Where a sequence's numbers begin in the workspace of the gradient.
constexpr u32 WORKSPACE_ROWS = 16;
INLINE u32 workspace_start(i32 first_query, u32 sequence) {
    return (u32(first_query) / WORKSPACE_ROWS + sequence) * WORKSPACE_ROWS;
}

// The query that a row of the workspace is of, or the number of all queries.
INLINE u32 query_of_row(const Varlen& all, u32 row) {
    SequenceTile tile = sequence_of<false>(all, row / WORKSPACE_ROWS, WORKSPACE_ROWS);
    i32 query = query_end(all, tile.sequence) + i32(row - tile.first * WORKSPACE_ROWS);
    return query < query_end(all, tile.sequence + 1) ? u32(query) : all.queries;
}

template <class T> INLINE void advance_rows(View<T>& view, i32 rows) { view.first += i64(rows) * view.row; }

// From here on of one sequence: its rows, how far they see, and the first row of the block within it.
template <bool BY_KEYS, class P> INLINE void narrow_to_sequence(P& p, u32 number, u32 rows) {
    Varlen& all = p.varlen;
    SequenceTile tile = sequence_of<BY_KEYS>(all, number, rows);
    i32 query = query_end(all, tile.sequence), key = key_end(all, tile.sequence);
    i32 queries = max(query_end(all, tile.sequence + 1) - query, 0),
        keys = max(key_end(all, tile.sequence + 1) - key, 0);
    // What is behind the last sequence is seen by none and sees nothing.
    if (tile.sequence == all.sequences) (BY_KEYS ? queries : keys) = 0;
    advance_rows(p.q, query);
    advance_rows(p.k, key);
    advance_rows(p.v, key);
    // The host says how far back and ahead of its position a query sees.
    i32 offset = keys - queries, back = p.sizes.reach_first, ahead = p.sizes.reach_end;
    // Bounded so that no sum is beyond 2^31: behind all keys, and before all queries, is as far as any distance counts.
    p.sizes.reach_first = max(offset - min(back, keys + 1) + 1, -queries);
    p.sizes.reach_end = min(offset + min(ahead, queries), keys);
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

// The parameters for the block's sequence, at `room` in shared memory; as they are where all sequences are as long. Of each head there are `blocks` tiles.
template <bool BY_KEYS, class P> INLINE const P& of_own_sequence(const P& launched, u8* room, u32 blocks, u32 rows) {
    if (!VARLEN) return launched;
    P& own = *reinterpret_cast<P*>(room);
    const u32* from = reinterpret_cast<const u32*>(&launched);
    for (u32 word = threadIdx.x; word < sizeof(P) / 4; word += blockDim.x)
        reinterpret_cast<u32*>(&own)[word] = from[word];
    __syncthreads();
    if (threadIdx.x == 0) narrow_to_sequence<BY_KEYS>(own, blockIdx.x % blocks, rows);
    __syncthreads();
    return own;
}
// Whether a block has nothing to do, which without sequences of their own lengths does not happen.
INLINE bool has_no_rows(const TileCoord& tile, u32 rows) { return VARLEN && tile.first_row >= i32(rows); }
