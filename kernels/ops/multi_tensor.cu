// The Euclidean norm of all elements of many tensors: y = sqrt(sum of x^2), also where that sum
// would overflow or underflow. Each element is normally read once.
//
//   tensor 0      tensor 1   tensor 2                      a block of `squares`: CHUNK elements of
//   [ b0 | b1 ]   [ b2 ]     [ b3 | b4 | b5 ]              one tensor; first_block = 0, 2, 3, 6
//     |    |        |          |    |    |
//   partial[b], an accumulator per block  ->  root_of_sum, one block  ->  y
//
// A block adds plain squares. If the sum is outside the range in which no square overflowed and
// none that matters underflowed, the block reads its chunk again and scales the values (Blue 1978,
// in reduce.cuh). It also does so if all of them are 0.
//
// Squares are computed and added in the accumulator type. The order of additions depends only on
// the sizes and addresses of the tensors: results are bit-equal from run to run.
//
// Limits: all tensors are dense, in any order of axes, and not empty; at most MOST_TENSORS tensors
// in a launch, as many as fit into 4 KiB of parameters, the limit of older drivers; fewer than 2^31
// blocks in all.

#include "lib/functions.cuh"
#include "lib/launch.cuh"
#include "lib/reduce.cuh"

typedef TYPE X;
typedef Compute<X> C;
typedef Squares<C> Acc;

constexpr int THREADS = 256;
constexpr int PACK = 16 / sizeof(X);
constexpr int PACKS = 16;  // per thread: 64 KiB per block, so that one block can add all partials
constexpr u32 CHUNK = THREADS * PACKS * PACK;
// Packs in flight per thread, as in reduce.cu.
constexpr int UNROLL = sizeof(X) == 4 ? 8 : sizeof(X) == 8 ? 2 : 4;
constexpr int MOST_TENSORS = 192;
// Threads of `root_of_sum`.
constexpr int PART_THREADS = 1024;

struct Source {
    const X* x;
    u64 count;
};

struct Sources {
    u32 tensors;
    u32 first_block[MOST_TENSORS];
    Acc* partial;
    Source of[MOST_TENSORS];
};

struct Parts {
    const Acc* partial;
    C* y;
    u32 count;
};

// Squares without scaling.
struct Plain {
    typedef C Acc;
    static INLINE C start() { return C(0); }
    static INLINE C of(C x) { return x * x; }
    static INLINE C merge(C a, C b) { return a + b; }
};

// Reduces this thread's elements of a chunk with policy R.
template <class R> INLINE typename R::Acc reduce_chunk(const X* x, u32 count) {
    typename R::Acc acc = R::start();
    u32 packs = u64(x) % 16 == 0 ? count / PACK : 0, first = threadIdx.x;
    for_packs<X, PACK, UNROLL>(x + first * PACK, THREADS * PACK, first < packs ? (packs - first - 1) / THREADS + 1 : 0,
                               [&](const PackedWords<X, PACK>& pack, u32) {
#pragma unroll
                                   for (int e = 0; e < PACK; ++e) acc = R::merge(acc, R::of(widen(pack.get(e))));
                               });
    // Less than a pack, or all of a chunk that is not aligned to 16 bytes.
#pragma unroll 4
    for (u32 at = packs * PACK + threadIdx.x; at < count; at += THREADS) acc = R::merge(acc, R::of(widen(x[at])));
    return acc;
}

extern "C" __global__ void __launch_bounds__(THREADS) squares(const __grid_constant__ Sources p) {
    wait_for_earlier_launches();
    u32 low = 0, high = p.tensors;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (p.first_block[middle] <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Source& source = p.of[low];
    u64 begin = u64(blockIdx.x - p.first_block[low]) * CHUNK;
    const X* x = source.x + begin;
    u32 count = u32(smaller(source.count - begin, u64(CHUNK)));

    __shared__ bool is_plain;
    C sum = block_reduce<Plain, THREADS / WARP>(reduce_chunk<Plain>(x, count));
    if (threadIdx.x == 0) {
        // If the sum is between the squares of both bounds, so are the squares of the values that
        // matter to it: none overflowed, and those that underflowed are negligible. NaN fails the
        // test.
        is_plain = sum >= Acc::SMALL * Acc::SMALL && sum <= Acc::LARGE * Acc::LARGE;
        if (is_plain) p.partial[blockIdx.x] = Acc{C(0), sum, C(0)};
    }
    __syncthreads();
    if (is_plain) return;
    Acc acc = block_reduce<Acc, THREADS / WARP>(reduce_chunk<Acc>(x, count));
    if (threadIdx.x == 0) p.partial[blockIdx.x] = acc;
}

extern "C" __global__ void __launch_bounds__(PART_THREADS) root_of_sum(const __grid_constant__ Parts p) {
    wait_for_earlier_launches();
    Acc acc = Acc::start();
#pragma unroll 4
    for (u32 part = threadIdx.x; part < p.count; part += PART_THREADS) acc = Acc::merge(acc, p.partial[part]);
    acc = block_reduce<Acc, PART_THREADS / WARP>(acc);
    if (threadIdx.x == 0) *p.y = acc.root();
}
