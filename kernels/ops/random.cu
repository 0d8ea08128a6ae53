// Random numbers from the Philox generator of philox.cuh.
//
// Word w of an op's stream is word w % 4 of philox(counter = base + offset + w / 4, key = seed).
// `state` = [seed, base] is in device memory, so that a captured step draws new numbers in each
// replay. A thread computes one Philox block of four words.
//
//   bits     y[i] = word[i] >> shift, i32
//   uniform  y[i] = (word[i] >> 8) * 2^-24
//   normal   y[i] = sqrt(-2 ln u) cos(2 pi v) from words 2i and 2i + 1 (Box and Muller 1958), in
//            double and rounded once, for all dtypes: in float two of three numbers would differ
//            from the CPU's
//   dropout  y[i] = word[i] >> 8 >= threshold ? x[i] * scale : 0

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/philox.cuh"
#include "lib/vec.cuh"

constexpr int THREADS = 256;

typedef TYPE Y;

struct Random {
    Y* y;
    const Y* x;
    const i64* state;
    i64 state_stride;
    u64 offset;
    u64 count;
    u32 shift, threshold;
    double scale;
    Space<2> space;  // of y and x, in row-major order of their shape
};

INLINE RandomWords words_of(const Random& p, u64 number) {
    return philox(u64(p.state[0]), u64(p.state[p.state_stride]) + p.offset + number);
}
INLINE void locate_element(const Random& p, u64 i, i64 (&at)[2]) {
    if (p.count <= 0x7fffffffu) locate(p.space, u32(i), at);
    else locate(p.space, i, at);
}

#ifdef BITS
extern "C" __global__ void __launch_bounds__(THREADS) bits(const __grid_constant__ Random p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number * 4 >= p.count) return;
    RandomWords words = words_of(p, number);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        u64 i = number * 4 + w;
        if (i >= p.count) return;
        i64 at[2];
        locate_element(p, i, at);
        p.y[at[0]] = i32(words.of[w] >> p.shift);
    }
}
#endif

#ifdef REAL_NUMBERS
typedef Compute<Y> C;
constexpr C UNIT = C(1.0 / 16777216.0);

extern "C" __global__ void __launch_bounds__(THREADS) uniform(const __grid_constant__ Random p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number * 4 >= p.count) return;
    RandomWords words = words_of(p, number);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        u64 i = number * 4 + w;
        if (i >= p.count) return;
        i64 at[2];
        locate_element(p, i, at);
        p.y[at[0]] = narrow<Y>(C(words.of[w] >> 8) * UNIT);
    }
}

INLINE double box_muller(u32 first, u32 second) {
    constexpr double STEP = 1.0 / 16777216.0;
    // u is in (0, 1]: the logarithm of 0 cannot occur.
    double u = ((first >> 8) + 1) * STEP, v = (second >> 8) * STEP;
    // The angle is rounded as on the CPU. The compiler must not keep it exact in an FMA of the
    // cosine.
    double angle = __dmul_rn(v, 6.283185307179586);
    return sqrt_of(-2.0 * log_of(u)) * cos_of(angle);
}

extern "C" __global__ void __launch_bounds__(THREADS) normal(const __grid_constant__ Random p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number * 2 >= p.count) return;
    RandomWords words = words_of(p, number);
#pragma unroll
    for (int pair = 0; pair < 2; ++pair) {
        u64 i = number * 2 + pair;
        if (i >= p.count) return;
        i64 at[2];
        locate_element(p, i, at);
        p.y[at[0]] = narrow<Y>(C(box_muller(words.of[2 * pair], words.of[2 * pair + 1])));
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) dropout(const __grid_constant__ Random p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number * 4 >= p.count) return;
    RandomWords words = words_of(p, number);
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        u64 i = number * 4 + w;
        if (i >= p.count) return;
        i64 at[2];
        locate_element(p, i, at);
        bool kept = (words.of[w] >> 8) >= p.threshold;
        p.y[at[0]] = kept ? narrow<Y>(widen(p.x[at[1]]) * C(p.scale)) : narrow<Y>(C(0));
    }
}

// x and y are contiguous in the order of their shape, and packs of four elements are aligned: a
// thread moves four elements in one access (double: in two).
extern "C" __global__ void __launch_bounds__(THREADS) dropout_line(const __grid_constant__ Random p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number * 4 >= p.count) return;
    RandomWords words = words_of(p, number);
    u64 first = number * 4;
    if (first + 4 > p.count) {
#pragma unroll 1
        for (u64 i = first; i < p.count; ++i) {
            u32 word = i == first ? words.of[0] : i == first + 1 ? words.of[1] : words.of[2];
            p.y[i] = (word >> 8) >= p.threshold ? narrow<Y>(widen(p.x[i]) * C(p.scale)) : narrow<Y>(C(0));
        }
        return;
    }
    constexpr int HALF = sizeof(Y) == 8 ? 2 : 4;
#pragma unroll
    for (int part = 0; part < 4; part += HALF) {
        Pack<Y, HALF> pack = load<Y, HALF>(p.x + first + part);
#pragma unroll
        for (int e = 0; e < HALF; ++e) {
            bool kept = (words.of[part + e] >> 8) >= p.threshold;
            pack.of[e] = kept ? narrow<Y>(widen(pack.of[e]) * C(p.scale)) : narrow<Y>(C(0));
        }
        store<Y, HALF>(p.y + first + part, pack);
    }
}
#endif
