// Stores four 8 x 8 matrices of 16-bit elements to shared memory: the inverse of ldmatrix (sm_90).
// Lane l passes the address of row l % 8 of matrix l / 8 and, of each matrix, elements 2 (l % 4)
// and 2 (l % 4) + 1 of row l / 4.

#pragma once

#include "lib/base.cuh"

INLINE void stmatrix_x4(u32 to, const u32 (&from)[4]) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared::cta.b16 [%0], {%1, %2, %3, %4};" ::"r"(to), "r"(from[0]),
                 "r"(from[1]), "r"(from[2]), "r"(from[3])
                 : "memory");
}
