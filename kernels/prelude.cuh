// What every kernel of this folder stands on, in place of headers: NVRTC finds none without a toolkit. It is put in front of each
// source file, so it is kept short.
//
//   types        f16, bf16, Truth (a bool in memory: any byte, of which only zero is false)
//   Compute<T>   the type that T is computed in: halves in float, all others in themselves
//   widen/narrow T to Compute<T> exactly, and back, rounded once to nearest even
//   Pack<T, N>   N elements that are read or written at once (16 bytes)
//   Strided<N>   the index space of N tensors, by value in the launch parameters
//   warp_*, block_*  reductions in an order that depends on nothing but the shape

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define INLINE __device__ __forceinline__

constexpr int WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
constexpr float INFINITE = __builtin_huge_valf();

// ---------------------------------------------------------------- element types

struct f16 {
    u16 bits;
};
struct bf16 {
    u16 bits;
};
struct Truth {
    u8 byte;
};

INLINE float to_float(f16 x) {
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
}
INLINE float to_float(bf16 x) {
    return __uint_as_float(u32(x.bits) << 16);
}

INLINE f16 to_f16(float x) {
    f16 y;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
INLINE f16 to_f16(double x) {
    f16 y;
    asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x));
    return y;
}
INLINE bf16 to_bf16(float x) {
    bf16 y;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
    return y;
}
// Rounded to odd in f32 first: the second rounding then sees what the first one dropped, so that the whole is rounded once.
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
template <> struct ComputeOf<Truth> {
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
INLINE u8 widen(Truth x) { return x.byte != 0; }

template <class T> INLINE T narrow(Compute<T> x) { return x; }
template <> INLINE f16 narrow<f16>(float x) { return to_f16(x); }
template <> INLINE bf16 narrow<bf16>(float x) { return to_bf16(x); }
template <> INLINE Truth narrow<Truth>(u8 x) { return Truth{u8(x != 0)}; }
