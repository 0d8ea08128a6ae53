// Masking: a query attends to the keys that exist, are in its band, and are not masked.

#pragma once

#include "attention/params.cuh"

// Whether the key exists and is in the query's band.
INLINE bool attends(const Sizes& sizes, u32 query, u32 key) {
    if (key >= sizes.keys) return false;
    if (BAND == 0) return true;
    i32 ahead = i32(key) - i32(query);
    return ahead >= sizes.band_begin && ahead < sizes.band_end;
}
// is_tile_unmasked: every query of the range attends to every key of the range, and all keys exist.
// has_tile_unmasked: the band of some query contains some key, which need not exist.
// Ranges are [first, end).
INLINE bool is_tile_unmasked(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    if (end_key > i32(sizes.keys)) return false;
    return BAND == 0 || (first_key - (end_query - 1) >= sizes.band_begin && end_key - 1 - first_query < sizes.band_end);
}
INLINE bool has_tile_unmasked(const Sizes& sizes, i32 first_query, i32 end_query, i32 first_key, i32 end_key) {
    return BAND == 0 || (end_key - 1 - first_query >= sizes.band_begin && first_key - (end_query - 1) < sizes.band_end);
}

// key_range: the keys to which any of the queries attends. query_range: the queries that attend to
// any of the keys.
struct Range {
    i32 first, end;
};
INLINE Range key_range(const Sizes& sizes, i32 first_query, i32 end_query) {
    if (BAND == 0) return Range{0, i32(sizes.keys)};
    return Range{max(0, first_query + sizes.band_begin), min(i32(sizes.keys), end_query - 1 + sizes.band_end)};
}
INLINE Range query_range(const Sizes& sizes, i32 first_key, i32 end_key) {
    if (BAND == 0) return Range{0, i32(sizes.queries)};
    return Range{max(0, first_key - sizes.band_end + 1), min(i32(sizes.queries), end_key - sizes.band_begin)};
}

// Applies the mask to a scaled score. The key and the query must exist.
INLINE float masked(float score, const View<const MaskElement>& mask, u32 query, u32 key) {
    if (MASK == 0) return score;
    MaskElement element = mask.first[i64(query) * mask.row + i64(key) * mask.column];
    if (MASK == 1) return widen(element) != 0 ? score : -INFINITE;
    return score + float(widen(element));
}
