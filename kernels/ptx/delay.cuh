// Random delays, for tests: they expose code that is correct only by its timing. The host defines
// DELAYS if TERNION_CUDA_DELAYS=1; otherwise delay_at_random is empty.

#pragma once

#include "lib/base.cuh"

// Called where threads or copies wait for each other. One call in four spins for up to 2048 cycles.
// A warp spins as a whole, since all its lanes read the same clock.
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
