// Philox4x32-10 (Salmon et al. 2011): computes 128 random bits from a counter and a key, equal on
// all devices.

#pragma once

#include "lib/base.cuh"

constexpr u32 FIRST_MULTIPLIER = 0xD2511F53u, SECOND_MULTIPLIER = 0xCD9E8D57u;
// The golden ratio and the square root of 3, each less 1 and times 2^32: added to the key after
// each round.
constexpr u32 FIRST_STEP = 0x9E3779B9u, SECOND_STEP = 0xBB67AE85u;

struct RandomWords {
    u32 of[4];
};

INLINE RandomWords philox(u64 seed, u64 number) {
    u32 a = u32(number), b = u32(number >> 32), c = 0, d = 0;
    u32 key = u32(seed), other = u32(seed >> 32);
#pragma unroll
    for (int round = 0; round < 10; ++round) {
        u32 high_a = __umulhi(FIRST_MULTIPLIER, a), low_a = FIRST_MULTIPLIER * a;
        u32 high_c = __umulhi(SECOND_MULTIPLIER, c), low_c = SECOND_MULTIPLIER * c;
        a = high_c ^ b ^ key;
        b = low_c;
        c = high_a ^ d ^ other;
        d = low_a;
        key += FIRST_STEP;
        other += SECOND_STEP;
    }
    return RandomWords{{a, b, c, d}};
}
