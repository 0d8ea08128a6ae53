// Named barriers of a block, each for a subset of its threads. Barrier 0 is __syncthreads.

#pragma once

#include "lib/base.cuh"
#include "ptx/delay.cuh"

// Waits until `threads` threads (full warps) have arrived at barrier `number`, 1 to 15.
INLINE void barrier_sync(u32 number, u32 threads) {
    delay_at_random();
    asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
// Arrives at the barrier without waiting.
INLINE void barrier_arrive(u32 number, u32 threads) {
    delay_at_random();
    asm volatile("barrier.cta.arrive.aligned %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
