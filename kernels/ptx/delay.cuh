// Delays of random lengths, for tests: what is right only by how long things take comes out wrong with them. The host defines DELAYS where
// TERNION_CUDA_DELAYS asks for them; without it there is nothing.

#pragma once

#include "lib/base.cuh"

// One call in four waits for up to 2048 cycles: of a warp, since all its lanes read the same clock. Where threads or copies wait for each other.
INLINE void delay_at_random() {
#if DELAYS
    u32 begin, now, warp;
    asm volatile("mov.u32 %0, %%clock;" : "=r"(begin));
    asm volatile("mov.u32 %0, %%warpid;" : "=r"(warp));
    u32 drawn = (begin ^ warp * 0x9e3779b9u) * 0x85ebca6bu;
    drawn ^= drawn >> 15;
    if (drawn % 4 > 0) return;
    do {
        asm volatile("mov.u32 %0, %%clock;" : "=r"(now));
    } while (now - begin < drawn / 4 % 2048);
#endif
}
