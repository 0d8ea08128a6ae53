// Splits an f32 operand into three bf16 terms, for gemm/wgmma.cu with BF16X6:
//
//   x = term 0 + term 1 + term 2        each is what the previous terms leave of x, rounded to
//                                       nearest even
//
//   x of any strides -->  [3, slow, fast, lines, pitch] of bf16
//
// One term follows another in memory. A line is a contiguous run of `run` numbers that begins at a
// multiple of 16 bytes.
//
// A term has 8 of the 24 bits of x, and its remainder is exact in f32; the third term leaves none.
// That holds if x is 0 or 2^-103 <= |x| < 2^48: then no term is subnormal, and no sum of up to 2^31
// products of terms exceeds the range of f32 unless the sum of the unsplit products does.
// Infinities, NaN and all other numbers set `not_splittable`, and gemm/simt.cu computes the
// product.
//
// Macros: none. Limits: run, lines, fast and slow above 0; packs of 8 numbers of a term below 2^31.
//
// Launch: blocks of 256 threads, one thread for each pack of 8 consecutive numbers of a line.

#include "lib/base.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"
#include "ptx/cvt.cuh"

constexpr int THREADS = 256;
constexpr int PACK = 8;
constexpr int PARTS = 3;
// The bits of the least magnitude that can be split, and of the least that is too large.
constexpr u32 MIN_SPLITTABLE = (127 - 103) << 23, SPLITTABLE_END = (127 + 48) << 23;

struct Split {
    u32* parts;  // two bf16 numbers per word
    const float* x;
    u32* not_splittable;  // 0 before the launch; nonzero if a number is not the sum of its terms
    // Strides of x in elements: along a run, between lines, along the axes of the batch.
    i64 run_stride, line_stride, inner_stride, outer_stride;
    u32 run, lines, inner, outer;
    u32 pitch;     // run, rounded up to full packs
    u32 in_packs;  // whether x is read 16 bytes at a time
};

INLINE bool is_splittable(float x) {
    u32 magnitude = __float_as_uint(x) & 0x7fffffff;
    return magnitude == 0 || magnitude - MIN_SPLITTABLE < SPLITTABLE_END - MIN_SPLITTABLE;
}
INLINE float low_of(u32 pair) { return __uint_as_float(pair << 16); }
INLINE float high_of(u32 pair) { return __uint_as_float(pair & 0xffff0000); }

// Reads the pack that begins at element `at` of a run. Elements beyond the run are 0.
INLINE void read(const Split& p, const float* x, u32 at, float (&to)[PACK]) {
    if (p.in_packs && at + PACK <= p.run) {
#pragma unroll
        for (int first = 0; first < PACK; first += 4) {
            Pack<float, 4> pack = load_once<float, 4>(x + at + first);
#pragma unroll
            for (int e = 0; e < 4; ++e) to[first + e] = pack.of[e];
        }
        return;
    }
#pragma unroll
    for (int e = 0; e < PACK; ++e) to[e] = at + e < p.run ? x[i64(at + e) * p.run_stride] : 0;
}

extern "C" __global__ void __launch_bounds__(THREADS) split(const __grid_constant__ Split p) {
    wait_for_earlier_launches();
    u32 packs = p.pitch / PACK;
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    u32 line = number / packs;
    if (line >= p.lines * p.inner * p.outer) return;
    u32 at = (number - line * packs) * PACK;
    u32 matrix = line / p.lines;
    u32 outer = matrix / p.inner;
    const float* x = p.x + i64(line - matrix * p.lines) * p.line_stride +
                     i64(matrix - outer * p.inner) * p.inner_stride + i64(outer) * p.outer_stride;
    float rest[PACK];
    read(p, x, at, rest);
    bool fit = true;
#pragma unroll
    for (int e = 0; e < PACK; ++e) fit = fit && is_splittable(rest[e]);
    if (!fit) *p.not_splittable = 1;

    u64 part_length = u64(p.lines) * p.inner * p.outer * packs;
#pragma unroll
    for (int part = 0; part < PARTS; ++part) {
        Pack<u32, PACK / 2> words;
#pragma unroll
        for (int pair = 0; pair < PACK / 2; ++pair) {
            float &low = rest[2 * pair], &high = rest[2 * pair + 1];
            u32 word = cvt_rn_bf16x2_f32(high, low);
            words.of[pair] = word;
            low -= low_of(word), high -= high_of(word);
        }
        store<u32, PACK / 2>(p.parts + (part * part_length + number) * (PACK / 2), words);
    }
}
