// Bytes of two words, picked.

#pragma once

#include "lib/base.cuh"

// Byte i of the result is the byte of `low` (0 to 3) or `high` (4 to 7) that nibble i of the selector says; with bit 3 of the nibble, eight times that byte's sign.
INLINE u32 prmt(u32 low, u32 high, u32 selector) {
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}
