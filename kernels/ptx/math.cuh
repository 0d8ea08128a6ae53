// Functions that one instruction approximates.

#pragma once

#include "lib/base.cuh"

// 2^x, within 2 ulp; subnormal numbers are 0.
INLINE float ex2_approx_ftz(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
