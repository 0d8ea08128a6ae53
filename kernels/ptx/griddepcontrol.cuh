// Programmatic dependent launch (sm_90): a kernel that is launched with the attribute begins before the one ahead of it has ended.

#pragma once

#include "lib/base.cuh"

// Until the launches ahead have ended, and what they wrote is seen.
INLINE void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// The next launch may begin once every block has said so, or ended.
INLINE void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
