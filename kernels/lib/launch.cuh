// The beginning of every kernel of an op. With compute capability 9.0 and later the host lets a kernel begin before the one queued ahead of it has
// ended (programmatic dependent launch): its blocks are placed and its first instructions run meanwhile. So every thread waits before its first
// access to global memory, a read or a write, and whatever is ordered behind such a wait by a barrier is covered too.
//
// What follows from one rule, that every kernel here waits before it touches memory:
//   the kernel ahead has ended, and what it wrote is seen;
//   it ended after its own wait, so the ones ahead of it have ended as well;
//   nothing behind this kernel writes what it still reads: that one waits for this one's end.
//
// Before the wait stand only parameters, which are constants of the launch, and shared memory. The host defines DEPENDENT for each variant whose
// launches carry the attribute (Variant::is_dependent), and TRIGGERS where the next kernel is to begin as soon as all blocks of this one have.

#pragma once

#include "ptx/griddepcontrol.cuh"

#if DEPENDENT && __CUDA_ARCH__ >= 900
#define WAITS_FOR_LAUNCHES 1
#endif

// Blocks of a grid up to which it triggers: two on each multiprocessor of an H100. More than fit at once would trigger near its end, where
// the blocks of the next kernel crowd on the multiprocessors that are free first.
constexpr u32 MOST_TRIGGERING_BLOCKS = 264;

// Until everything that was queued ahead has ended and its writes are seen. The first statement of a kernel, or one behind what touches no global
// memory.
INLINE void wait_for_earlier_launches() {
#if WAITS_FOR_LAUNCHES
#if TRIGGERS
    if (gridDim.x * gridDim.y * gridDim.z <= MOST_TRIGGERING_BLOCKS) griddepcontrol_launch_dependents();
#endif
    griddepcontrol_wait();
#endif
}
