// Masking: a query attends to the keys that exist, are in its band, and are not masked.

#pragma once

#include "attention/params.cuh"

// Whether the key exists and is in the query's band.
INLINE bool seen(const Sizes& sizes, u32 query, u32 key) {
    if (key >= sizes.keys) return false;
    if (BAND == 0) return true;
    i32 ahead = i32(key) - i32(query);
    return ahead >= sizes.reach_first && ahead < sizes.reach_end;
}
// all_seen: every query of the range attends to every key of the range, and all keys exist.
// any_seen: the band of some query contains some key, which need not exist.
// Ranges are [first, end).
INLINE bool all_seen(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    if (end_key > i32(sizes.keys)) return false;
    return BAND == 0 ||
           (first_key - (end_query - 1) >= sizes.reach_first && end_key - 1 - first_query < sizes.reach_end);
}
INLINE bool any_seen(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    return BAND == 0 ||
           (end_key - 1 - first_query >= sizes.reach_first && first_key - (end_query - 1) < sizes.reach_end);
}

// keys_of: the keys to which any of the queries attends. queries_of: the queries that attend to any
// of the keys.
struct Range {
    i32 first, end;
};
INLINE Range keys_of(const Sizes& sizes, i32 first_query, i32 end_query) {
    if (BAND == 0) return Range{0, i32(sizes.keys)};
    return Range{max(0, first_query + sizes.reach_first), min(i32(sizes.keys), end_query - 1 + sizes.reach_end)};
}
INLINE Range queries_of(const Sizes& sizes, i32 first_key, i32 end_key) {
    if (BAND == 0) return Range{0, i32(sizes.queries)};
    return Range{max(0, first_key - sizes.reach_end + 1), min(i32(sizes.queries), end_key - sizes.reach_first)};
}

// Applies the mask to a scaled score. The key and the query must exist.
INLINE float masked(float score, const View<const MaskElement>& mask, u32 query, u32 key) {
    if (MASK == 0) return score;
    MaskElement element = mask.first[i64(query) * mask.row + i64(key) * mask.column];
    if (MASK == 1) return widen(element) != 0 ? score : -INFINITE;
    return score + float(widen(element));
}
