// The base of all files here, in place of the toolkit's headers, which NVRTC cannot find without an
// installed toolkit: names of integer types, and constants of the hardware. Every kernel parses
// this file, so it is kept short.

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

__device__ constexpr int largest(int a, int b) { return a > b ? a : b; }
__device__ constexpr int smallest(int a, int b) { return a < b ? a : b; }
