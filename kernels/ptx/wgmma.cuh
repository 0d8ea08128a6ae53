// Asynchronous products of a warpgroup on the tensor cores (WGMMA, sm_90a): c (+)= a b with m = 64,
// k = 16 and f32 accumulators. a is in shared memory (ss) or in registers (rs), b is in shared
// memory. The size of c determines n, the last parameter selects the operand type. If `accumulate`
// is 0, c is overwritten. n = 192 and 256 exist only if WGMMA_WIDE is defined, since NVRTC parses
// all of their text.

#pragma once

#include "lib/types.cuh"

// Orders earlier register writes before the reads by the products that follow.
INLINE void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
INLINE void wgmma_commit_group() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Waits until at most PENDING of the latest groups are incomplete.
template <int PENDING> INLINE void wgmma_wait_group() {
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}
// Keeps the compiler from moving an accumulator across a wait.
INLINE void wgmma_fence_operand(float& c) { asm volatile("" : "+f"(c)::"memory"); }
// Makes data that copies and stores have written to shared memory visible to wgmma, after the next
// barrier.
INLINE void fence_proxy_async_shared() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// The descriptor of a matrix in shared memory with 128-byte swizzle. K-major: groups of 8 rows are
// `stride` bytes apart. MN-major: also, slabs of 64 columns are `leading` bytes apart.
INLINE u64 smem_descriptor(u32 address, u32 leading, u32 stride) {
    return u64((address >> 4) & 0x3fff) | u64(leading >> 4) << 16 | u64(stride >> 4) << 32 | u64(1) << 62;
}
// The descriptor of a K-major matrix with rows of 64 bytes and 64-byte swizzle: groups of 8 rows
// are `stride` bytes apart.
INLINE u64 smem_descriptor_64(u32 address, u32 stride) {
    return u64((address >> 4) & 0x3fff) | u64(1) << 16 | u64(stride >> 4) << 32 | u64(2) << 62;
}
// The descriptor of the same matrix `bytes` bytes further on in shared memory: one addition.
INLINE u64 smem_descriptor_at(u64 first, u32 bytes) {
    return (first & 0xffffffff00000000) | u32(u32(first) + (bytes >> 4));
}

#define REGISTERS_4(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define REGISTERS_16(j) REGISTERS_4(j), REGISTERS_4(j + 1), REGISTERS_4(j + 2), REGISTERS_4(j + 3)
#define REGISTERS_32 REGISTERS_16(0), REGISTERS_16(4)
#define REGISTERS_64 REGISTERS_32, REGISTERS_16(8), REGISTERS_16(12)
#define REGISTERS_96 REGISTERS_64, REGISTERS_16(16), REGISTERS_16(20)
#define REGISTERS_128 REGISTERS_96, REGISTERS_16(24), REGISTERS_16(28)
#define OPERANDS_32                                                          \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define OPERANDS_64                                                                    \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "           \
    "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, " \
    "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
    "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define OPERANDS_96                                                                      \
    OPERANDS_64                                                                          \
    ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
    "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define OPERANDS_128                                                                                 \
    OPERANDS_96                                                                                      \
    ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
    "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// The products of one n and one type: COUNT accumulators come first, P0 to P5 are the indices of
// the operands after them.
#define WGMMA_PRODUCTS(N, TYPE, COUNT, P0, P1, P2, P3, P4, P5)                                                  \
    /* a and b K-major. */                                                                                      \
    INLINE void wgmma_ss(float (&c)[N / 8][4], u64 a, u64 b, u32 accumulate, TYPE) {                            \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P2 ", 0; wgmma.mma_async.sync.aligned.m64n" #N          \
                     "k16.f32." #TYPE "." #TYPE " {" OPERANDS_##COUNT "}, %" #P0 ", %" #P1 ", p, 1, 1, 0, 0;}"  \
                     : REGISTERS_##COUNT                                                                        \
                     : "l"(a), "l"(b), "r"(accumulate));                                                        \
    }                                                                                                           \
    /* b K-major. */                                                                                            \
    INLINE void wgmma_rs(float (&c)[N / 8][4], const u32(&a)[4], u64 b, u32 accumulate, TYPE) {                 \
        asm volatile("{.reg .pred p; setp.ne.b32 p, %" #P5 ", 0; wgmma.mma_async.sync.aligned.m64n" #N          \
                     "k16.f32." #TYPE "." #TYPE " {" OPERANDS_##COUNT "}, {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 \
                                                                      "}, %" #P4 ", p, 1, 1, 0;}"               \
                     : REGISTERS_##COUNT                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));                    \
    }                                                                                                           \
    /* c += a b, b MN-major. */                                                                                 \
    INLINE void wgmma_rs_trans(float (&c)[N / 8][4], const u32(&a)[4], u64 b, TYPE) {                           \
        asm volatile("wgmma.mma_async.sync.aligned.m64n" #N "k16.f32." #TYPE "." #TYPE " {" OPERANDS_##COUNT    \
                     "}, {%" #P0 ", %" #P1 ", %" #P2 ", %" #P3 "}, %" #P4 ", 1, 1, 1, 1;"                       \
                     : REGISTERS_##COUNT                                                                        \
                     : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));                                     \
    }
WGMMA_PRODUCTS(64, f16, 32, 32, 33, 34, 35, 36, 37)
WGMMA_PRODUCTS(64, bf16, 32, 32, 33, 34, 35, 36, 37)
WGMMA_PRODUCTS(128, f16, 64, 64, 65, 66, 67, 68, 69)
WGMMA_PRODUCTS(128, bf16, 64, 64, 65, 66, 67, 68, 69)
#ifdef WGMMA_WIDE
WGMMA_PRODUCTS(192, f16, 96, 96, 97, 98, 99, 100, 101)
WGMMA_PRODUCTS(192, bf16, 96, 96, 97, 98, 99, 100, 101)
WGMMA_PRODUCTS(256, f16, 128, 128, 129, 130, 131, 132, 133)
WGMMA_PRODUCTS(256, bf16, 128, 128, 129, 130, 131, 132, 133)
#endif
#undef WGMMA_PRODUCTS
#undef OPERANDS_128
#undef OPERANDS_96
#undef OPERANDS_64
#undef OPERANDS_32
#undef REGISTERS_128
#undef REGISTERS_96
#undef REGISTERS_64
#undef REGISTERS_32
#undef REGISTERS_16
#undef REGISTERS_4
