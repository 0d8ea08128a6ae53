// The softmax of attention while keys pass by (Milakov and Gimelshein 2018): what a lane keeps of its rows, as accumulators have them
// (half.cuh). Macros: ROW_TILES and STEP, the tile of scores, and VALUE_DIM, the width of the outputs.

#pragma once

#include "attention/params.cuh"

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 64
#endif

// How far, in powers of two, a row's maximum may rise before what was gathered is rescaled.
constexpr float SLACK = MASK == 0 ? 8 : 8 * LN_2;

// From here on neighbouring floats are 2 apart: the product of a maximum and the scale, rounded, can differ by 1 and more from the product
// inside a fused multiply-add.
constexpr float LARGE_SCORE = 16777216;
INLINE bool is_large(float row_max) { return MASK == 0 && fabsf(row_max) >= LARGE_SCORE && row_max != -INFINITE; }

// A lane's rows: what their weights are relative to, the sums of these, and by what both have just been multiplied.
struct Softmax {
    float row_max[ROW_TILES][2], row_sum[ROW_TILES][2], rescale[ROW_TILES][2];
    bool is_rescaled;
};

// Before the first key.
INLINE void clear(Softmax& softmax) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            softmax.row_max[i][half] = -INFINITE;
            softmax.row_sum[i][half] = 0;
        }
}

// Updates the maxima by those of these scores, and rescales the sums where a maximum has risen far enough.
INLINE void update_row_max(Softmax& softmax, const float (&s)[ROW_TILES][STEP / 8][4], float scale) {
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
            higher[i][half] = fmaxf(softmax.row_max[i][half], MASK == 0 ? found * scale : found);
            rises |= higher[i][half] - softmax.row_max[i][half] > SLACK;
        }
    softmax.is_rescaled = __any_sync(ALL_LANES, rises);
    if (!softmax.is_rescaled) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float fall = softmax.row_max[i][half] - (higher[i][half] == -INFINITE ? 0 : higher[i][half]);
            softmax.rescale[i][half] = ex2_approx_ftz(MASK == 0 ? fall : fall * LOG2_E);
            softmax.row_max[i][half] = higher[i][half];
            softmax.row_sum[i][half] *= softmax.rescale[i][half];
        }
}
INLINE void rescale_output(float (&y)[ROW_TILES][VALUE_DIM / 8][4], const Softmax& softmax) {
    if (!softmax.is_rescaled) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int j = 0; j < VALUE_DIM / 8; ++j)
#pragma unroll
            for (int e = 0; e < 4; ++e) y[i][j][e] *= softmax.rescale[i][e / 2];
}
// Whether any of the warp's rows is. (Not kept from step to step: there is no register for it.)
INLINE bool any_large(const Softmax& softmax) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) any |= is_large(softmax.row_max[i][0]) || is_large(softmax.row_max[i][1]);
    return MASK == 0 && __any_sync(ALL_LANES, any);
}
// Of rows whose scores are large: these less the maximum, both rounded once scaled, so that the maximum's weight is 1. In `exp_scores` these
// rows have no maximum to subtract any more.
INLINE void scale_large_scores(float (&s)[ROW_TILES][STEP / 8][4], const Softmax& softmax, float scale) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float row_max = softmax.row_max[i][half];
            if (!is_large(row_max)) continue;
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e)
                    s[i][j][e] = (__fmul_rn(s[i][j][e], scale) - row_max) / scale;
        }
}
// Scores become weights.
INLINE void exp_scores(float (&s)[ROW_TILES][STEP / 8][4], Softmax& softmax, float scale) {
    bool large = any_large(softmax);
    if (large) scale_large_scores(s, softmax, scale);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // A row of which nothing has been seen yet: weights of 0, not of exp(-infinity + infinity).
            float base = softmax.row_max[i][half] == -INFINITE || (large && is_large(softmax.row_max[i][half]))
                             ? 0
                             : softmax.row_max[i][half];
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
#pragma unroll
                for (int e = half * 2; e < half * 2 + 2; ++e) {
                    s[i][j][e] =
                        ex2_approx_ftz(MASK == 0 ? fmaf(s[i][j][e], scale, -base) : (s[i][j][e] - base) * LOG2_E);
                    softmax.row_sum[i][half] += s[i][j][e];
                }
        }
}
