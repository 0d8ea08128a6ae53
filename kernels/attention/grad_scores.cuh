// Converts products to weights, and these to gradients of scores, in the registers of a warpgroup
// that has 64 keys and SCORE_QUERIES queries of a tile. For the one-pass gradients.

#pragma once

#include "attention/grad_scheduler.cuh"

typedef float Scores[1][SCORE_QUERIES / 8][4];
typedef u32 ScoreOperand[1][SCORE_QUERIES / 16][4];

// Calls work(j, e, number) for each of a lane's accumulators, where `number` is the LSE or row_dot
// of the element's query.
template <class Function> INLINE void for_each_with_stat(u32 row_stats, u32 thread, Function work) {
#pragma unroll
    for (int j = 0; j < SCORE_QUERIES / 8; ++j) {
        float2 two = ld_shared_v2_f32(row_stats + j * 32 + thread % 4 * 8);
#pragma unroll
        for (int e = 0; e < 4; ++e) work(j, e, e % 2 ? two.y : two.x);
    }
}

// Sets masked weights, and those of keys that do not exist, to 0.
INLINE void mask_weights(Scores& weight, const Sizes& sizes, i32 first_key, i32 first_query, u32 thread) {
    first_query += i32(thread % 4) * 2;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
        i32 key = first_key + half * 8 + i32(thread % WARP / 4);
        bool exists = key < i32(sizes.keys);
        i32 begin = BAND ? key - sizes.band_end + 1 - first_query : 0;
        i32 end = !exists ? -1 : BAND ? key - sizes.band_begin + 1 - first_query : SCORE_QUERIES;
#pragma unroll
        for (int j = 0; j < SCORE_QUERIES / 8; ++j)
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                bool seen = (!BAND || j * 8 + e >= begin) && j * 8 + e < end;
                float& x = weight[0][j][half * 2 + e];
                x = seen ? x : 0;
            }
    }
}

// Converts products to weights. Masked weights, and those of keys that do not exist, become 0.
// `first_key` is the consumer's.
INLINE void recompute_weights(Scores& weight, const Sizes& sizes, i32 first_key, i32 query, u32 row_stats,
                              float scale) {
    u32 thread = read_tid_x();
    for_each_with_stat(row_stats, thread, [&](int j, int e, float stat) {
        weight[0][j][e] = ex2_approx_ftz(fmaf(weight[0][j][e], scale, -stat));
    });
    if (!is_tile_unmasked(sizes, query, query + SCORE_QUERIES, first_key, first_key + 64))
        mask_weights(weight, sizes, first_key + i32(thread % WARPGROUP / WARP * 16), query, thread);
}
// The keep bits of a lane's weights of a step. Let k be 1 for a kept weight, else 0, and f the
// dropout scale. Then
//
//   ds = f (k p) dp - p row_dot = f ((k p) dp - p (row_dot / f))
//
// The row statistics hold row_dot / f. The factor f is applied with the scale at the end.
#if DROPOUT
typedef KeepBitsByKeys<QUERIES / BIT_QUERIES> StepBits;
INLINE StepBits step_bits(const AttentionGradByKeys& p, const WorkTile& work, const Step& step) {
    u32 head = work.batch * p.sizes.heads + step.head, tile = u32(step.tile) * (QUERIES / BIT_QUERIES);
    u32 warp = read_tid_x() / WARP;
    u32 row_group = opaque(work.block) * (KEYS / BIT_ROWS) + (WIDE ? warp % (KEYS / BIT_ROWS) : warp);
    StepBits bits;
    bits.load(p.bits + bit_words_before(p.bit_layout, head, row_group, tile, 1));
    // The second consumer's queries begin at the fifth block of 8.
    if (WIDE && warp >= WARPGROUP / WARP) bits.of[0] <<= SCORE_QUERIES / 8;
    return bits;
}
#else
struct StepBits {};
INLINE StepBits step_bits(const AttentionGradByKeys&, const WorkTile&, const Step&) { return {}; }
#endif

// Converts weights and v dy^T to left operands: the kept weights, and the gradient of the scores.
INLINE void compute_ds(ScoreOperand& weights, ScoreOperand& grads, Scores& weight, Scores& weight_grad, u32 row_stats,
                       const StepBits& bits) {
#if DROPOUT
    for_each_with_stat(row_stats, read_tid_x(), [&](int j, int e, float stat) {
        float kept = keep_or_zero(weight[0][j][e], bits.signs(j, e / 2), j % 2 * 2 + e % 2);
        weight_grad[0][j][e] = fmaf(kept, weight_grad[0][j][e], -(weight[0][j][e] * stat));
        weight[0][j][e] = kept;
    });
    round_to_operand(weights, weight);
#else
    round_to_operand(weights, weight);
    for_each_with_stat(row_stats, read_tid_x(), [&](int j, int e, float stat) {
        weight_grad[0][j][e] = weight[0][j][e] * (weight_grad[0][j][e] - stat);
    });
#endif
    round_to_operand(grads, weight_grad);
}
