// Programmatic dependent launch (sm_90): a kernel that is launched with this attribute may begin
// before the previous kernel in the stream has ended.

#pragma once

#include "lib/base.cuh"

// Waits until all earlier launches have ended and their writes are visible.
INLINE void griddepcontrol_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }
// Lets the next launch begin once every block has executed this or has ended.
INLINE void griddepcontrol_launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }
