// The beginning of every kernel of an op. From compute capability 9.0 on, the host lets a kernel
// begin before the previous one in the stream has ended (programmatic dependent launch): its blocks
// are scheduled and its first instructions run in the meantime. So every thread waits before its
// first access to global memory, read or write. Accesses that a barrier orders after such a wait
// are covered, too.
//
// Consequences of one rule, that every kernel here waits before it accesses memory:
//   the previous kernel has ended, and its writes are visible;
//   it ended after its own wait, so the kernels before it have ended as well;
//   no later kernel writes what this kernel still reads: it waits for the end of this kernel.
//
// Before the wait, a kernel accesses only parameters, which are constants of the launch, and shared
// memory. The host defines DEPENDENT for each variant whose launches have the attribute
// (Variant::is_dependent), and TRIGGERS if the next kernel may begin as soon as all blocks of this
// one have begun.

#pragma once

#include "ptx/griddepcontrol.cuh"

#if DEPENDENT && __CUDA_ARCH__ >= 900
#define WAITS_FOR_LAUNCHES 1
#endif

// The maximum number of blocks of a grid that triggers: two per multiprocessor of an H100. A grid
// with more blocks than fit at once would trigger near its end, and the blocks of the next kernel
// would crowd on the multiprocessors that become free first.
constexpr u32 MAX_TRIGGERING_BLOCKS = 264;

// Waits until all earlier launches have ended and their writes are visible. The first statement of
// a kernel; only code that accesses no global memory may precede it.
INLINE void wait_for_earlier_launches() {
#if WAITS_FOR_LAUNCHES
#if TRIGGERS
    if (gridDim.x * gridDim.y * gridDim.z <= MAX_TRIGGERING_BLOCKS) griddepcontrol_launch_dependents();
#endif
    griddepcontrol_wait();
#endif
}
