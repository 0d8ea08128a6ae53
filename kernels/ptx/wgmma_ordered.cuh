// WGMMA products with n = 32, 64 and 128 and both operands in shared memory, each K-major or
// MN-major (sm_90a). The parameters are those of wgmma.cuh. wgmma_ss.cuh has the same products for
// one n per file; this file is for kernels that need several.

#pragma once

#include "ptx/wgmma.cuh"

#define WGMMA_REGISTERS_4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define WGMMA_REGISTERS_16(j) \
    WGMMA_REGISTERS_4(j), WGMMA_REGISTERS_4(j + 1), WGMMA_REGISTERS_4(j + 2), WGMMA_REGISTERS_4(j + 3)
#define WGMMA_REGISTERS_OF_32 WGMMA_REGISTERS_16(0)
#define WGMMA_REGISTERS_OF_64 WGMMA_REGISTERS_16(0), WGMMA_REGISTERS_16(4)
#define WGMMA_REGISTERS_OF_128 WGMMA_REGISTERS_OF_64, WGMMA_REGISTERS_16(8), WGMMA_REGISTERS_16(12)
#define WGMMA_SUMS_OF_32 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define WGMMA_SUMS_OF_64 \
    WGMMA_SUMS_OF_32     \
    ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define WGMMA_SUMS_OF_128                                                                \
    WGMMA_SUMS_OF_64                                                                     \
    ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// The products of one n and one type: P0 to P4 are the indices of the operands after the
// accumulators.
#define WGMMA_ORDERED(N, TYPE, P0, P1, P2, P3, P4)                                                             \
    template <bool A_MN_MAJOR, bool B_MN_MAJOR>                                                                \
    INLINE void wgmma_ss_ordered(float (&c)[N / 8][4], u64 a, u64 b, u32 accumulate, TYPE) {                   \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P2 ", 0; wgmma.mma_async.sync.aligned.m64n" #N         \
                     "k16.f32." #TYPE "." #TYPE " {" WGMMA_SUMS_OF_##N "}, %" #P0 ", %" #P1 ", p, 1, 1, %" #P3 \
                                                                       ", %" #P4 ";}"                          \
                     : WGMMA_REGISTERS_OF_##N                                                                  \
                     : "l"(a), "l"(b), "r"(accumulate), "n"(int(A_MN_MAJOR)), "n"(int(B_MN_MAJOR)));           \
    }
WGMMA_ORDERED(32, f16, 16, 17, 18, 19, 20)
WGMMA_ORDERED(32, bf16, 16, 17, 18, 19, 20)
WGMMA_ORDERED(64, f16, 32, 33, 34, 35, 36)
WGMMA_ORDERED(64, bf16, 32, 33, 34, 35, 36)
WGMMA_ORDERED(128, f16, 64, 65, 66, 67, 68)
WGMMA_ORDERED(128, bf16, 64, 65, 66, 67, 68)
#undef WGMMA_ORDERED
#undef WGMMA_SUMS_OF_128
#undef WGMMA_SUMS_OF_64
#undef WGMMA_SUMS_OF_32
#undef WGMMA_REGISTERS_OF_128
#undef WGMMA_REGISTERS_OF_64
#undef WGMMA_REGISTERS_OF_32
#undef WGMMA_REGISTERS_16
#undef WGMMA_REGISTERS_4
