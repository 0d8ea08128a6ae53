// WGMMA products in TF32 with a in registers (sm_90a): c (+)= a b with m = 64, k = 8, n = WGMMA_N
// and f32 accumulators. b is in shared memory, K-major. Lane l of warp w holds the elements of a in
// rows 16 w + l / 4 and 16 w + l / 4 + 8 at k = l % 4, then those at k = l % 4 + 4. The low 13 bits
// of an element are truncated. Registers of a must not change until the products are complete. If
// `accumulate` is 0, c is overwritten.

#pragma once

#include "ptx/wgmma_ss.cuh"

#define WGMMA_P_64_5 "%37"
#define WGMMA_P_128_5 "%69"
#define WGMMA_P_192_5 "%101"
#define WGMMA_P_256_5 "%133"

INLINE void wgmma_rs_tf32(float (&c)[WGMMA_N / 8][4], const u32 (&a)[4], u64 b, u32 accumulate) {
    asm volatile("{.reg .pred p; setp.ne.b32 p, " WGMMA_P(
                     5) ", 0; wgmma.mma_async.sync.aligned." WGMMA_SHAPE "k8.f32.tf32.tf32 {" WGMMA_SUMS
                        "}, {" WGMMA_P(0) ", " WGMMA_P(1) ", " WGMMA_P(2) ", " WGMMA_P(3) "}, " WGMMA_P(4) ", p, 1, 1;}"
                 : WGMMA_REGISTERS
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
