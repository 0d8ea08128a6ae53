// Conversions (cvt), rounded to nearest even.

#pragma once

#include "lib/base.cuh"

INLINE float cvt_f32_f16(u16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x));
    return y;
}
INLINE u16 cvt_rn_f16_f32(float x) {
    u16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}
INLINE u16 cvt_rn_f16_f64(double x) {
    u16 y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y) : "d"(x));
    return y;
}
INLINE u16 cvt_rn_bf16_f32(float x) {
    u16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y) : "f"(x));
    return y;
}

// Two values packed into one register, `low` in the low 16 bits.
INLINE u32 cvt_rn_f16x2_f32(float high, float low) {
    u32 pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
INLINE u32 cvt_rn_bf16x2_f32(float high, float low) {
    u32 pair;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}
