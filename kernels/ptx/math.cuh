// Approximate functions of one instruction each, and clamps of packed pairs.

#pragma once

#include "lib/base.cuh"

// 2^x, error at most 2 ulp. Subnormal numbers are flushed to 0.
INLINE float ex2_approx_ftz(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 1 / x, error at most 1 ulp. Subnormal inputs and results are flushed to 0.
INLINE float rcp_approx_ftz(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Both values of a pair clamped to those of the pairs `low` and `high`. NaN stays NaN.
INLINE u32 clamp_nan_f16x2(u32 pair, u32 low, u32 high) {
    asm("max.NaN.f16x2 %0, %0, %1; min.NaN.f16x2 %0, %0, %2;" : "+r"(pair) : "r"(low), "r"(high));
    return pair;
}
INLINE u32 clamp_nan_bf16x2(u32 pair, u32 low, u32 high) {
    asm("max.NaN.bf16x2 %0, %0, %1; min.NaN.bf16x2 %0, %0, %2;" : "+r"(pair) : "r"(low), "r"(high));
    return pair;
}
