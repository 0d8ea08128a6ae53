// Special registers, and values that the compiler is not to keep. What is computed from a value that is read again at the end of a kernel
// takes no registers before.

#pragma once

#include "lib/base.cuh"

// blockIdx.x and threadIdx.x, read again.
INLINE u32 read_ctaid_x() {
    u32 number;
    asm volatile("mov.u32 %0, %%ctaid.x;" : "=r"(number));
    return number;
}
INLINE u32 read_tid_x() {
    u32 number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
}

// The same value as if it were another one.
INLINE u32 opaque(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}
INLINE void make_opaque(i64& first, i64& second) { asm volatile("" : "+l"(first), "+l"(second)); }

// How many registers each thread of the warpgroup has from here on (sm_90a), a multiple of 8 from 24 to 240. Those of all warpgroups together are at
// most what the kernel was launched with: ptxas says nothing of more, and the kernel hangs.
template <int COUNT> INLINE void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> INLINE void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
