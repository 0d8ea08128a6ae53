// mbarriers: barriers in shared memory (sm_90). A phase completes when `count` threads have arrived
// and all bytes that were announced (the transaction count) have been copied. An mbarrier is 8
// bytes of the block's own shared memory, aligned to 8; `barrier` is its address.

#pragma once

#include "lib/base.cuh"
#include "ptx/delay.cuh"

INLINE void mbarrier_init(u32 barrier, u32 count) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}
// Makes initialized mbarriers visible to async copies and to other blocks of the cluster, after the
// next barrier of threads.
INLINE void fence_mbarrier_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }
// One arrival that announces `bytes` bytes of copies.
INLINE void mbarrier_arrive_expect_tx(u32 barrier, u32 bytes) {
    delay_at_random();
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}
INLINE void mbarrier_arrive(u32 barrier) {
    delay_at_random();
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
// Returns whether the phase with this parity has completed. The first phase has parity 0. May wait
// for a limited time before it returns false.
INLINE bool mbarrier_try_wait_parity(u32 barrier, u32 parity) {
    u32 ended;
    asm volatile("{.reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p;}"
                 : "=r"(ended)
                 : "r"(barrier), "r"(parity)
                 : "memory");
    return ended != 0;
}
// Waits until the phase with this parity has completed. The parity distinguishes only two
// consecutive phases: a waiter must not be two phases ahead or late.
INLINE void mbarrier_wait_parity(u32 barrier, u32 parity) {
    while (!mbarrier_try_wait_parity(barrier, parity)) {}
    delay_at_random();
}
