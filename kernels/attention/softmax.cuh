// Online softmax (Milakov and Gimelshein 2018): a lane's state of its rows, in the accumulator
// layout (half.cuh). Macros: ROW_TILES and STEP, the tile of scores, and VALUE_DIM, the width of
// the output.

#pragma once

#include "attention/params.cuh"

#ifdef HOST_SHIM
#define ROW_TILES 1
#define STEP 64
#endif

// Rise of a row max that is tolerated before sum and output are rescaled: a factor of 2^8. With a
// mask any rise rescales, so that the weight of a row's largest score is 1. Weights are rounded to
// TYPE for the product with v, but not in the row sum, and masked rows often have one large weight:
// rounding it made the error of y over twice that of PyTorch's kernels.
constexpr float RESCALE_THRESHOLD = MASK == 0 ? 8 : 0;

// At this magnitude and above, neighboring floats are at least 2 apart: the rounded product of row
// max and scale can differ by 1 or more from the product inside an FMA.
constexpr float LARGE_SCORE = 16777216;
INLINE bool is_large(float row_max) { return MASK == 0 && fabsf(row_max) >= LARGE_SCORE && row_max != -INFINITE; }

// A lane's rows: row max (which may lag by RESCALE_THRESHOLD), row sum, and the factor of the last
// rescaling.
struct Softmax {
    float row_max[ROW_TILES][2], row_sum[ROW_TILES][2], rescale[ROW_TILES][2];
    bool is_rescaled;
};

// State before the first key.
INLINE void clear(Softmax& softmax) {
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            softmax.row_max[i][half] = -INFINITE;
            softmax.row_sum[i][half] = 0;
        }
}

// If these scores exceed a row max of the warp by more than RESCALE_THRESHOLD, updates all its row
// maxima and rescales the row sums.
INLINE void update_row_max(Softmax& softmax, const float (&s)[ROW_TILES][STEP / 8][4], float scale) {
    float new_row_max[ROW_TILES][2];
    bool needs_rescale = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float step_max = -INFINITE;
#pragma unroll
            for (int j = 0; j < STEP / 8; ++j)
                step_max = fmaxf(step_max, fmaxf(s[i][j][half * 2], s[i][j][half * 2 + 1]));
            step_max = fmaxf(step_max, __shfl_xor_sync(ALL_LANES, step_max, 1));
            step_max = fmaxf(step_max, __shfl_xor_sync(ALL_LANES, step_max, 2));
            new_row_max[i][half] = fmaxf(softmax.row_max[i][half], MASK == 0 ? step_max * scale : step_max);
            needs_rescale |= new_row_max[i][half] - softmax.row_max[i][half] > RESCALE_THRESHOLD;
        }
    softmax.is_rescaled = __any_sync(ALL_LANES, needs_rescale);
    if (!softmax.is_rescaled) return;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            float max_difference =
                softmax.row_max[i][half] - (new_row_max[i][half] == -INFINITE ? 0 : new_row_max[i][half]);
            softmax.rescale[i][half] = ex2_approx_ftz(MASK == 0 ? max_difference : max_difference * LOG2_E);
            softmax.row_max[i][half] = new_row_max[i][half];
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
// Whether any row of the warp has a large max. (Recomputed in each step: there is no register for
// it.)
INLINE bool any_large(const Softmax& softmax) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i) any |= is_large(softmax.row_max[i][0]) || is_large(softmax.row_max[i][1]);
    return MASK == 0 && __any_sync(ALL_LANES, any);
}
// For rows with large scores: subtracts the row max after both were scaled and rounded, so that the
// weight of the largest score is 1. `exp_scores` then subtracts no row max from these rows.
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
// Converts scores to weights, and adds them to the row sums.
INLINE void exp_scores(float (&s)[ROW_TILES][STEP / 8][4], Softmax& softmax, float scale) {
    bool large = any_large(softmax);
    if (large) scale_large_scores(s, softmax, scale);
#pragma unroll
    for (int i = 0; i < ROW_TILES; ++i)
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            // If all keys so far are masked: weights of 0, not exp(-infinity + infinity).
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
