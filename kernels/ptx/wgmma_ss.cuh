// WGMMA products with both operands in shared memory, each K-major or MN-major (sm_90a): c (+)= a b
// with m = 64, n = WGMMA_N and f32 accumulators. The including file defines WGMMA_N: 16, 32, 64,
// 80, 112, 128, 192 or 256. The text is long, and NVRTC parses all of it: so a file has only the n
// that it uses.
//
// A step along k is 32 bytes of each row of a and column of b: 16 elements of f16 and bf16, or 8 of
// f32, which are read as TF32 (the low 13 bits are truncated; a tensor map of TF32 has rounded them
// before). TF32 has no MN-major order. If `accumulate` is 0, c is overwritten.

#pragma once

#include "ptx/wgmma.cuh"

#if defined(HOST_SHIM) && !defined(WGMMA_N)
#define WGMMA_N 64
#endif

#define WGMMA_0_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define WGMMA_8_15 "%8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_0_31                                                           \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_32_39 "%32, %33, %34, %35, %36, %37, %38, %39"
#define WGMMA_40_47 "%40, %41, %42, %43, %44, %45, %46, %47"
#define WGMMA_48_55 "%48, %49, %50, %51, %52, %53, %54, %55"
#define WGMMA_32_63                                                                    \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define WGMMA_64_95                                                                    \
    "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define WGMMA_96_127                                                                               \
    "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

#define WGMMA_REGISTERS_4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define WGMMA_REGISTERS_16(j) \
    WGMMA_REGISTERS_4(j), WGMMA_REGISTERS_4(j + 1), WGMMA_REGISTERS_4(j + 2), WGMMA_REGISTERS_4(j + 3)
#define WGMMA_REGISTERS_32(j) WGMMA_REGISTERS_16(j), WGMMA_REGISTERS_16(j + 4)

#if WGMMA_N == 16
#define WGMMA_SUMS WGMMA_0_7
#define WGMMA_REGISTERS WGMMA_REGISTERS_4(0), WGMMA_REGISTERS_4(1)
#define WGMMA_SHAPE "m64n16"
#define WGMMA_P(after) WGMMA_P_16_##after
#elif WGMMA_N == 32
#define WGMMA_SUMS WGMMA_0_7 ", " WGMMA_8_15
#define WGMMA_REGISTERS WGMMA_REGISTERS_16(0)
#define WGMMA_SHAPE "m64n32"
#define WGMMA_P(after) WGMMA_P_32_##after
#elif WGMMA_N == 64
#define WGMMA_SUMS WGMMA_0_31
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0)
#define WGMMA_SHAPE "m64n64"
#define WGMMA_P(after) WGMMA_P_64_##after
#elif WGMMA_N == 80
#define WGMMA_SUMS WGMMA_0_31 ", " WGMMA_32_39
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0), WGMMA_REGISTERS_4(8), WGMMA_REGISTERS_4(9)
#define WGMMA_SHAPE "m64n80"
#define WGMMA_P(after) WGMMA_P_80_##after
#elif WGMMA_N == 112
#define WGMMA_SUMS WGMMA_0_31 ", " WGMMA_32_39 ", " WGMMA_40_47 ", " WGMMA_48_55
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0), WGMMA_REGISTERS_16(8), WGMMA_REGISTERS_4(12), WGMMA_REGISTERS_4(13)
#define WGMMA_SHAPE "m64n112"
#define WGMMA_P(after) WGMMA_P_112_##after
#elif WGMMA_N == 128
#define WGMMA_SUMS WGMMA_0_31 ", " WGMMA_32_63
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0), WGMMA_REGISTERS_32(8)
#define WGMMA_SHAPE "m64n128"
#define WGMMA_P(after) WGMMA_P_128_##after
#elif WGMMA_N == 192
#define WGMMA_SUMS WGMMA_0_31 ", " WGMMA_32_63 ", " WGMMA_64_95
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0), WGMMA_REGISTERS_32(8), WGMMA_REGISTERS_32(16)
#define WGMMA_SHAPE "m64n192"
#define WGMMA_P(after) WGMMA_P_192_##after
#elif WGMMA_N == 256
#define WGMMA_SUMS WGMMA_0_31 ", " WGMMA_32_63 ", " WGMMA_64_95 ", " WGMMA_96_127
#define WGMMA_REGISTERS WGMMA_REGISTERS_32(0), WGMMA_REGISTERS_32(8), WGMMA_REGISTERS_32(16), WGMMA_REGISTERS_32(24)
#define WGMMA_SHAPE "m64n256"
#define WGMMA_P(after) WGMMA_P_256_##after
#else
#error "WGMMA_N is 16, 32, 64, 80, 112, 128, 192 or 256"
#endif
#define WGMMA_P_16_0 "%8"
#define WGMMA_P_16_1 "%9"
#define WGMMA_P_16_2 "%10"
#define WGMMA_P_16_3 "%11"
#define WGMMA_P_16_4 "%12"
#define WGMMA_P_32_0 "%16"
#define WGMMA_P_32_1 "%17"
#define WGMMA_P_32_2 "%18"
#define WGMMA_P_32_3 "%19"
#define WGMMA_P_32_4 "%20"
#define WGMMA_P_64_0 "%32"
#define WGMMA_P_64_1 "%33"
#define WGMMA_P_64_2 "%34"
#define WGMMA_P_64_3 "%35"
#define WGMMA_P_64_4 "%36"
#define WGMMA_P_80_0 "%40"
#define WGMMA_P_80_1 "%41"
#define WGMMA_P_80_2 "%42"
#define WGMMA_P_80_3 "%43"
#define WGMMA_P_80_4 "%44"
#define WGMMA_P_112_0 "%56"
#define WGMMA_P_112_1 "%57"
#define WGMMA_P_112_2 "%58"
#define WGMMA_P_112_3 "%59"
#define WGMMA_P_112_4 "%60"
#define WGMMA_P_128_0 "%64"
#define WGMMA_P_128_1 "%65"
#define WGMMA_P_128_2 "%66"
#define WGMMA_P_128_3 "%67"
#define WGMMA_P_128_4 "%68"
#define WGMMA_P_192_0 "%96"
#define WGMMA_P_192_1 "%97"
#define WGMMA_P_192_2 "%98"
#define WGMMA_P_192_3 "%99"
#define WGMMA_P_192_4 "%100"
#define WGMMA_P_256_0 "%128"
#define WGMMA_P_256_1 "%129"
#define WGMMA_P_256_2 "%130"
#define WGMMA_P_256_3 "%131"
#define WGMMA_P_256_4 "%132"

// The operands after the accumulators: descriptors of a and b, `accumulate`, and for 16-bit types
// whether a and b are MN-major.
#define WGMMA_SS_16_BITS(TYPE)                                                                                        \
    template <bool A_MN_MAJOR, bool B_MN_MAJOR>                                                                       \
    INLINE void wgmma_ss_wide(float (&c)[WGMMA_N / 8][4], u64 a, u64 b, u32 accumulate, TYPE) {                       \
        asm volatile("{.reg .pred p; setp.ne.b32 p, " WGMMA_P(2) ", 0; wgmma.mma_async.sync.aligned." WGMMA_SHAPE     \
                                                                 "k16.f32." #TYPE "." #TYPE " {" WGMMA_SUMS           \
                                                                 "}, " WGMMA_P(0) ", " WGMMA_P(                       \
                                                                     1) ", p, 1, 1, " WGMMA_P(3) ", " WGMMA_P(4) ";}" \
                     : WGMMA_REGISTERS                                                                                \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(A_MN_MAJOR)), "n"(int(B_MN_MAJOR)));                  \
    }
WGMMA_SS_16_BITS(f16)
WGMMA_SS_16_BITS(bf16)
#undef WGMMA_SS_16_BITS

template <bool A_MN_MAJOR, bool B_MN_MAJOR>
INLINE void wgmma_ss_wide(float (&c)[WGMMA_N / 8][4], u64 a, u64 b, u32 accumulate, float) {
    static_assert(!A_MN_MAJOR && !B_MN_MAJOR, "TF32 is K-major");
    asm volatile("{.reg .pred p; setp.ne.b32 p, " WGMMA_P(2) ", 0; wgmma.mma_async.sync.aligned." WGMMA_SHAPE
                                                             "k8.f32.tf32.tf32 {" WGMMA_SUMS
                                                             "}, " WGMMA_P(0) ", " WGMMA_P(1) ", p, 1, 1;}"
                 : WGMMA_REGISTERS
                 : "l"(a), "l"(b), "r"(accumulate));
}
