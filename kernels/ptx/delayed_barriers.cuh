// Barriers of a block and of a warp that wait for a random time first, for tests: the host includes this before a kernel's file where
// TERNION_CUDA_DELAYS asks for delays. Named barriers, mbarriers and those of clusters have delays of their own.

#pragma once

#include "ptx/delay.cuh"

// A macro is not expanded within itself: these call the compiler's functions.
#define __syncthreads() (delay_at_random(), __syncthreads())
#define __syncthreads_and(truth) (delay_at_random(), __syncthreads_and(truth))
#define __syncwarp(...) (delay_at_random(), __syncwarp(__VA_ARGS__))
