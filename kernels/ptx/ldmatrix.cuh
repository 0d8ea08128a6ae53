// Loads four 8 x 8 matrices of 16-bit elements from shared memory. Lane l passes the address of row
// l % 8 of matrix l / 8. It receives elements 2 (l % 4) and 2 (l % 4) + 1 of row l / 4 (trans: of
// column l / 4) of each matrix.

#pragma once

#include "lib/base.cuh"

INLINE void ldmatrix_x4(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
INLINE void ldmatrix_x4_trans(u32 (&to)[4], u32 from) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(from)
                 : "memory");
}
