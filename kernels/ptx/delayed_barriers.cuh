// Block and warp barriers that first wait for a random time, for tests. The host includes this file
// before a kernel's file if TERNION_CUDA_DELAYS=1. Named barriers, mbarriers and cluster barriers
// call delay_at_random themselves.

#pragma once

#include "ptx/delay.cuh"

// A macro is not expanded within its own expansion: these call the compiler's functions.
#define __syncthreads() (delay_at_random(), __syncthreads())
#define __syncthreads_and(truth) (delay_at_random(), __syncthreads_and(truth))
#define __syncwarp(...) (delay_at_random(), __syncwarp(__VA_ARGS__))
