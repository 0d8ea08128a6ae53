// Cumulative sums along an axis: y[l, i] = x[l, 0] + .. + x[l, i] for each line l.
//
// `space` is the index space of the lines (strides in y, then in x). The elements of a line are
// `y_step` and `x_step` apart. Floats are added in double, so that a sum that returns to near 0
// keeps its digits for any order of its terms. Each sum is rounded when it is stored.
//
//   scan          a block per line: 1024 elements at a time, [ thread 0: 4 | thread 1: 4 | ... ];
//                 the total so far is carried to the next 1024
//   scan_serial   a thread per line, for many adjacent lines
//
// Limits: fewer than 2^31 lines; any length.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"

typedef TYPE X;
template <class T> struct AccumulatorOf {
    typedef T type;
};
template <> struct AccumulatorOf<float> {
    typedef double type;
};
typedef Compute<X> Stored;
typedef AccumulatorOf<Stored>::type C;
constexpr int THREADS = 256;
constexpr int WARPS = THREADS / WARP;
constexpr int PER_THREAD = 4;  // chunks of 1024: the carry is passed on once per chunk

struct Cumulative {
    const X* x;
    X* y;
    u32 lines;
    u64 length;
    i64 x_step, y_step;
    Space<2> space;
};

extern "C" __global__ void __launch_bounds__(THREADS) scan(const __grid_constant__ Cumulative p) {
    wait_for_earlier_launches();
    __shared__ C totals[WARPS];
    i64 at[2];
    locate(p.space, blockIdx.x, at);
    X* y = p.y + at[0];
    const X* x = p.x + at[1];
    u32 lane = threadIdx.x % WARP, warp = threadIdx.x / WARP;
    C carry = C(0);
    for (u64 chunk = 0; chunk < p.length; chunk += THREADS * PER_THREAD) {
        u64 first = chunk + threadIdx.x * PER_THREAD;
        C sums[PER_THREAD];
        C own = C(0);
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) {
            if (first + i < p.length) own = sum_of(own, C(widen(x[i64(first + i) * p.x_step])));
            sums[i] = own;
        }
        C before = own;
#pragma unroll
        for (int by = 1; by < WARP; by *= 2) {
            C other = C(__shfl_up_sync(ALL_LANES, before, by));
            if (lane >= by) before = sum_of(other, before);
        }
        if (lane == WARP - 1) totals[warp] = before;
        __syncthreads();
        C base = carry;
        for (u32 w = 0; w < warp; ++w) base = sum_of(base, totals[w]);
        C total = base;
        for (u32 w = warp; w < WARPS; ++w) total = sum_of(total, totals[w]);
        // The sum of the lanes before this one comes from a shuffle. A subtraction would turn
        // infinity into NaN.
        C lanes_before = C(__shfl_up_sync(ALL_LANES, before, 1));
        if (lane > 0) base = sum_of(base, lanes_before);
#pragma unroll
        for (int i = 0; i < PER_THREAD; ++i) {
            if (first + i < p.length) y[i64(first + i) * p.y_step] = narrow<X>(Stored(sum_of(base, sums[i])));
        }
        carry = total;
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) scan_serial(const __grid_constant__ Cumulative p) {
    wait_for_earlier_launches();
    u32 line = blockIdx.x * THREADS + threadIdx.x;
    if (line >= p.lines) return;
    i64 at[2];
    locate(p.space, line, at);
    C sum = C(0);
#pragma unroll 4
    for (u64 i = 0; i < p.length; ++i) {
        sum = sum_of(sum, C(widen(p.x[at[1] + i64(i) * p.x_step])));
        p.y[at[0] + i64(i) * p.y_step] = narrow<X>(Stored(sum));
    }
}
