// Bulk copies of contiguous bytes from shared to global memory by TMA, without a tensor map
// (sm_90). One thread issues a copy. The copy belongs to the bulk group that this thread commits
// next (tma.cuh). A copy sees earlier stores to shared memory if each storing thread has executed
// fence_proxy_async_shared and then a barrier. Addresses and byte counts are multiples of 16.

#pragma once

#include "lib/base.cuh"

// Stores four values to shared memory, from where such a copy reads them.
INLINE void st_shared_v4_f32(u32 to, const float (&x)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
}
INLINE void cp_async_bulk_store(void* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
// The same, but adds f32 values to those in global memory, each element by a separate reduction.
INLINE void cp_reduce_async_bulk_add_f32(float* to, u32 from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
// Waits until at most PENDING of this thread's latest groups are incomplete. The writes of all
// earlier groups are then in global memory and visible to this thread.
template <int PENDING> INLINE void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
// Orders earlier accesses to global memory, and writes that they acquired, before this thread's
// later bulk copies; and copies that have been waited for before this thread's later releases.
INLINE void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
