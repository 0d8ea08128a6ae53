// Functions that one instruction approximates.

#pragma once

#include "lib/base.cuh"

// 2^x, within 2 ulp; subnormal numbers are 0.
INLINE float ex2_approx_ftz(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// 1 / x, within 1 ulp; subnormal numbers are 0, here and in the result.
INLINE float rcp_approx_ftz(float x) {
    float y;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// The numbers of a pair within those of `low` and `high`; of NaN these are NaN.
INLINE u32 clamp_nan_f16x2(u32 pair, u32 low, u32 high) {
    asm("max.NaN.f16x2 %0, %0, %1; min.NaN.f16x2 %0, %0, %2;" : "+r"(pair) : "r"(low), "r"(high));
    return pair;
}
INLINE u32 clamp_nan_bf16x2(u32 pair, u32 low, u32 high) {
    asm("max.NaN.bf16x2 %0, %0, %1; min.NaN.bf16x2 %0, %0, %2;" : "+r"(pair) : "r"(low), "r"(high));
    return pair;
}
