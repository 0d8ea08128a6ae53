// The 8-bit and 16-bit integers, and unsigned integers of 64, 32 and 16 bits. The unsigned types
// are here for what depends on the sign: for sums, differences and products the host uses the
// kernels of the signed types. functions.cuh includes this file if NARROW_INTEGERS is defined,
// which the host does if one of these is among the types. All that kernels require of a type is
// here, so that all other code is compiled as if these types did not exist. Each type is its own
// compute type: C++ adds and multiplies in int, and the result keeps the low bits.

#pragma once

#include "lib/functions.cuh"

typedef short i16;
typedef signed char i8;

INLINE i16 widen(i16 x) { return x; }
INLINE i8 widen(i8 x) { return x; }

template <> INLINE i16 constant<i16>(u64 bits) { return i16(bits); }
template <> INLINE i8 constant<i8>(u64 bits) { return i8(bits); }
template <> INLINE u64 constant<u64>(u64 bits) { return bits; }
template <> INLINE u32 constant<u32>(u64 bits) { return u32(bits); }
template <> INLINE u16 constant<u16>(u64 bits) { return u16(bits); }

template <> INLINE u64 unary_abs(u64 x, Constants) { return x; }
template <> INLINE u32 unary_abs(u32 x, Constants) { return x; }
template <> INLINE u16 unary_abs(u16 x, Constants) { return x; }

template <> struct Cast<i16> {
    template <class C> static INLINE i16 of(C x) { return i16(x); }
    static INLINE i16 of(float x) { return i16(smaller(larger(Cast<i32>::of(x), -32768), 32767)); }
    static INLINE i16 of(double x) { return i16(smaller(larger(Cast<i32>::of(x), -32768), 32767)); }
};
template <> struct Cast<i8> {
    template <class C> static INLINE i8 of(C x) { return i8(x); }
    static INLINE i8 of(float x) { return i8(smaller(larger(Cast<i32>::of(x), -128), 127)); }
    static INLINE i8 of(double x) { return i8(smaller(larger(Cast<i32>::of(x), -128), 127)); }
};

// The instructions saturate, but convert NaN to the greatest 64-bit integer.
template <> struct Cast<u64> {
    static INLINE u64 of(float x) { return is_nan(x) ? 0 : __float2ull_rz(x); }
    static INLINE u64 of(double x) { return is_nan(x) ? 0 : __double2ull_rz(x); }
};
template <> struct Cast<u32> {
    static INLINE u32 of(float x) { return is_nan(x) ? 0 : __float2uint_rz(x); }
    static INLINE u32 of(double x) { return is_nan(x) ? 0 : __double2uint_rz(x); }
};
template <> struct Cast<u16> {
    static INLINE u16 of(float x) { return u16(smaller(larger(Cast<i32>::of(x), 0), 65535)); }
    static INLINE u16 of(double x) { return u16(smaller(larger(Cast<i32>::of(x), 0), 65535)); }
};

// For gemm.cuh and cumulative.cu: the type of sums, which is unsigned because sums wrap.
template <class E> struct AccumulatorOf;
template <> struct AccumulatorOf<i16> {
    typedef u32 type;
};
template <> struct AccumulatorOf<i8> {
    typedef u32 type;
};

// For reduce.cu.
template <class T> INLINE T lowest();
template <> INLINE i16 lowest<i16>() { return -32768; }
template <> INLINE i8 lowest<i8>() { return -128; }
template <> INLINE u64 lowest<u64>() { return 0; }
template <> INLINE u32 lowest<u32>() { return 0; }
template <> INLINE u16 lowest<u16>() { return 0; }
template <class T> INLINE T highest();
template <> INLINE i16 highest<i16>() { return 32767; }
template <> INLINE i8 highest<i8>() { return 127; }
template <> INLINE u64 highest<u64>() { return ~u64(0); }
template <> INLINE u32 highest<u32>() { return ~u32(0); }
template <> INLINE u16 highest<u16>() { return 65535; }

// For sort.cu: unsigned keys in the order of the integers.
INLINE u32 key_of(i16 x) { return u16(x) ^ 0x8000u; }
INLINE u32 key_of(i8 x) { return u8(x) ^ 0x80u; }
INLINE u32 key_of(u16 x) { return x; }
