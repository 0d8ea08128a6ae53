// Special registers, and values that the compiler must not keep in registers. What is computed from
// a value that is read again at the end of a kernel occupies no registers before.

#pragma once

#include "lib/base.cuh"

// blockIdx.x and threadIdx.x, read again by each call.
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

// Returns the same value, which the compiler treats as a different one.
INLINE u32 opaque(u32 value) {
    asm volatile("" : "+r"(value));
    return value;
}
INLINE void make_opaque(i64& first, i64& second) { asm volatile("" : "+l"(first), "+l"(second)); }

// Sets the number of registers of each thread of the warpgroup (sm_90a), a multiple of 8 from 24 to
// 240. All warpgroups together must not exceed the registers with which the kernel was launched:
// ptxas does not report an excess, and the kernel hangs.
template <int COUNT> INLINE void setmaxnreg_dec() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(COUNT)); }
template <int COUNT> INLINE void setmaxnreg_inc() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(COUNT)); }
