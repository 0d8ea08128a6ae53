// Barriers in shared memory (sm_90): a phase ends when `count` threads have arrived and all bytes that were announced have been copied.
// Addresses are those of 8 aligned bytes of the block's own shared memory.

#pragma once

#include "lib/base.cuh"
#include "ptx/delay.cuh"

INLINE void mbarrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Initialised barriers are for copies and for other blocks of the cluster to see, after the next barrier of threads.
INLINE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// One arrival, which announces `bytes` bytes of copies.
INLINE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
    delay_at_random();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
INLINE void mbarrier_arrive(u32 barrier) {
    delay_at_random();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Whether the phase of this parity, of which the first is 0, has ended. Waits for a while before it says no.
INLINE bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
    u32 ended;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}
// Waits until the phase of this parity has ended. A parity distinguishes two neighboring phases only: a waiter must not be two phases ahead or
// behind.
INLINE void mbarrier_wait_parity(u32 barrier, u32 parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {}
    delay_at_random();
}
