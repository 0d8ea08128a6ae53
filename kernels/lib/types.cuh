// Element types and their compute types:
//
//   types        f16, bf16, Truth (a bool in memory: any byte, only zero is false)
//   Compute<T>   the type in which T is computed: float for half precision, u8 for Truth, else T
//   widen/narrow T to Compute<T> exactly, and back, rounded once to nearest even

#pragma once

#include "lib/base.cuh"
#include "ptx/cvt.cuh"

struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
struct Bool {
    u8 byte;
};

INLINE float to_float(f16 x) { return cvt_f32_f16(x.bits); }
INLINE float to_float(bf16 x) { return __uint_as_float(u32(x.bits) << 16); }

INLINE f16 to_f16(float x) { return f16{cvt_rn_f16_f32(x)}; }
INLINE f16 to_f16(double x) { return f16{cvt_rn_f16_f64(x)}; }
INLINE bf16 to_bf16(float x) { return bf16{cvt_rn_bf16_f32(x)}; }
// Rounded to odd in f32 first: the second rounding then knows whether the first one dropped bits,
// so that the result is rounded only once.
INLINE bf16 to_bf16(double x) {
    float toward_zero = __double2float_rz(x);
    bool inexact = double(toward_zero) != x && x == x;
    return to_bf16(__uint_as_float(__float_as_uint(toward_zero) | u32(inexact)));
}

template <class T> struct ComputeOf {
    typedef T type;
};
template <> struct ComputeOf<f16> {
    typedef float type;
};
template <> struct ComputeOf<bf16> {
    typedef float type;
};
template <> struct ComputeOf<Bool> {
    typedef u8 type;
};
template <class T> using Compute = typename ComputeOf<T>::type;

INLINE double widen(double x) { return x; }
INLINE float widen(float x) { return x; }
INLINE float widen(f16 x) { return to_float(x); }
INLINE float widen(bf16 x) { return to_float(x); }
INLINE i64 widen(i64 x) { return x; }
INLINE i32 widen(i32 x) { return x; }
INLINE u8 widen(u8 x) { return x; }
INLINE u8 widen(Bool x) { return x.byte != 0; }
// Bits that are only moved.
INLINE u64 widen(u64 x) { return x; }
INLINE u32 widen(u32 x) { return x; }
INLINE u16 widen(u16 x) { return x; }

template <class T> INLINE T narrow(Compute<T> x) { return x; }
template <> INLINE f16 narrow<f16>(float x) { return to_f16(x); }
template <> INLINE bf16 narrow<bf16>(float x) { return to_bf16(x); }
template <> INLINE Bool narrow<Bool>(u8 x) { return Bool{u8(x != 0)}; }
