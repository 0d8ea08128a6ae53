// What every kernel of this folder is built on, in place of the toolkit's headers: NVRTC finds none without a toolkit. It is parsed for
// every kernel that is compiled, so it is kept short.
//
//   types        f16, bf16, Truth (a bool in memory: any byte, of which only zero is false)
//   Compute<T>   the type that T is computed in: halves in float, all others in themselves
//   widen/narrow T to Compute<T> exactly, and back, rounded once to nearest even
//   Pack<T, N>   N elements that are read or written at once (16 bytes)
//   Space<N>     the index space of N tensors, by value in the launch parameters

#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;

#define INLINE __device__ __forceinline__

constexpr int WARP = 32;
constexpr u32 ALL_LANES = 0xffffffffu;
#define INFINITE __int_as_float(0x7f800000)

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
// Bits that are only moved.
INLINE u64 widen(u64 x) { return x; }
INLINE u32 widen(u32 x) { return x; }
INLINE u16 widen(u16 x) { return x; }

template <class T> INLINE T narrow(Compute<T> x) { return x; }
template <> INLINE f16 narrow<f16>(float x) { return to_f16(x); }
template <> INLINE bf16 narrow<bf16>(float x) { return to_bf16(x); }
template <> INLINE Truth narrow<Truth>(u8 x) { return Truth{u8(x != 0)}; }

// ---------------------------------------------------------------- packs

// N elements that are read or written in one access, of 16 bytes at most.
template <class T, int N> struct alignas(sizeof(T) * N) Pack {
    T of[N];
};

template <class T, int N> INLINE Pack<T, N> load(const T* from) {
    return *reinterpret_cast<const Pack<T, N>*>(from);
}
// The same of 16 bytes that nothing writes while the kernel runs and nobody reads again: they are asked for in the order in which they are written
// here, ahead of the arithmetic, with the neighbouring sectors, and not kept in the L1 cache.
template <class T, int N> INLINE Pack<T, N> load_once(const T* from) {
    static_assert(sizeof(T) * N == 16, "one access of the widest kind");
    union {
        u32 words[4];
        Pack<T, N> pack;
    } both;
    asm volatile("ld.global.nc.L1::no_allocate.L2::256B.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(both.words[0]), "=r"(both.words[1]), "=r"(both.words[2]), "=r"(both.words[3])
                 : "l"(from));
    return both.pack;
}
template <class T, int N> INLINE void store(T* to, const Pack<T, N>& pack) {
    *reinterpret_cast<Pack<T, N>*>(to) = pack;
}

__device__ constexpr int largest(int a, int b) { return a > b ? a : b; }

// ---------------------------------------------------------------- strided index spaces

constexpr int MAX_RANK = 8;

// Division of numbers below 2^31 by a divisor that the host knows: n / d = (mulhi(n, factor) + n) >> shift
// (Granlund and Montgomery 1994, figure 4.1).
struct Divisor {
    u32 divisor, factor, shift;
};
INLINE u32 divide(u32 n, const Divisor& d) { return (__umulhi(n, d.factor) + n) >> d.shift; }

// The common index space of N tensors, slowest axis first, axes of size 1 dropped and evenly lying ones merged.
template <int N> struct Space {
    u32 rank;
    Divisor dims[MAX_RANK];
    i64 sizes[MAX_RANK];
    i64 strides[N][MAX_RANK];
};

// Where element number `linear` of the space lies in each tensor, in elements from the first.
template <int N> INLINE void locate(const Space<N>& space, u32 linear, i64 (&at)[N]) {
#pragma unroll
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll
    for (int axis = MAX_RANK - 1; axis >= 0; --axis) {
        if (axis >= space.rank) continue;
        u32 outer = divide(linear, space.dims[axis]);
        i64 index = linear - outer * space.dims[axis].divisor;
        linear = outer;
#pragma unroll
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
// The same in a loop, for what is located once: cold code takes longer to arrive than to run.
template <int N> INLINE void locate_once(const Space<N>& space, u32 linear, i64 (&at)[N]) {
#pragma unroll
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll 1
    for (int axis = int(space.rank) - 1; axis >= 0; --axis) {
        u32 outer = divide(linear, space.dims[axis]);
        i64 index = linear - outer * space.dims[axis].divisor;
        linear = outer;
#pragma unroll
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
// The same for spaces of 2^31 elements and more.
template <int N> INLINE void locate(const Space<N>& space, u64 linear, i64 (&at)[N]) {
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll 1
    for (int axis = int(space.rank) - 1; axis >= 0; --axis) {
        u64 outer = linear / u64(space.sizes[axis]);
        i64 index = i64(linear - outer * u64(space.sizes[axis]));
        linear = outer;
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
