// Copies of neighboring bytes from shared to global memory by the tensor memory accelerator, without a map (sm_90). One thread starts a copy; it belongs
// to the thread's group that is committed next (tma.cuh). What was stored to shared memory is seen after fence_proxy_async_shared in each storing thread
// and a barrier. Addresses and numbers of bytes are multiples of 16.

#pragma once

#include "lib/base.cuh"

// Numbers on their way to such a copy.
INLINE void st_shared_v4_f32(u32 to, const float (&x)[4]) {
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(to), "f"(x[0]), "f"(x[1]), "f"(x[2]), "f"(x[3])
                 : "memory");
}
INLINE void cp_async_bulk_store(void* to, u32 from, u32 bytes) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes)
                 : "memory");
}
// The same, added to numbers of f32 there, each by itself.
INLINE void cp_reduce_async_bulk_add_f32(float* to, u32 from, u32 bytes) {
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(to), "r"(from),
                 "r"(bytes)
                 : "memory");
}
// Until at most PENDING of this thread's latest groups are not in global memory yet, where this thread sees them.
template <int PENDING> INLINE void cp_async_bulk_wait_group() {
    asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}
// Orders accesses to global memory before this, and what they have acquired, before this thread's later copies; and copies that have been awaited before
// what this thread releases.
INLINE void fence_proxy_async_global() { asm volatile("fence.proxy.async.global;" ::: "memory"); }
