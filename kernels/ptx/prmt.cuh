// Byte permutation of two words.

#pragma once

#include "lib/base.cuh"

// Nibble i of `selector` selects byte i of the result: 0 to 3 are the bytes of `low`, 4 to 7 those
// of `high`. If bit 3 of the nibble is set, all 8 bits of the result are the sign bit of that byte.
INLINE u32 prmt(u32 low, u32 high, u32 selector) {
    u32 bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(low), "r"(high), "r"(selector));
    return bytes;
}
