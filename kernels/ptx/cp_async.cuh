// Async copies of 4, 8 or 16 bytes from global to shared memory (sm_80). A copy belongs to the
// group that its thread commits next. A thread waits for its own groups.

#pragma once

#include "ptx/memory.cuh"

template <int BYTES, class T> INLINE void cp_async(u32 to, const T* from) {
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
    else asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(BYTES) : "memory");
}
// Writes zeros if `valid` is false, and then reads nothing.
template <int BYTES> INLINE void cp_async(u32 to, const void* from, bool valid) {
    int size = valid ? BYTES : 0;
    if constexpr (BYTES == 16)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(size) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %3, %2;" ::"r"(to), "l"(from), "r"(size), "n"(BYTES)
                     : "memory");
}
INLINE void cp_async_commit_group() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most PENDING of the latest groups are incomplete.
template <int PENDING> INLINE void cp_async_wait_group() {
    asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}
