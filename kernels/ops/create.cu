// Evenly spaced values: y[i] = start + i * step, with `stride` between the elements of y.
//
// Floats: one product and one sum in double, then one rounding to the type of y. Integers wrap.

#include "lib/functions.cuh"
#include "lib/launch.cuh"

typedef TYPE Y;
constexpr int THREADS = 256;

struct Iota {
    Y* y;
    u64 count;
    i64 stride;
    u64 start, step;  // the bits of a double for floats, of an i64 for integers
};

extern "C" __global__ void __launch_bounds__(THREADS) iota(const __grid_constant__ Iota p) {
    wait_for_earlier_launches();
    u64 i = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (i >= p.count) return;
#ifdef REAL_NUMBERS
    // No FMA: the product is rounded, as on every other device.
    double value =
        __dadd_rn(__longlong_as_double(i64(p.start)), __dmul_rn(double(i), __longlong_as_double(i64(p.step))));
#else
    i64 value = i64(p.start + i * p.step);
#endif
    p.y[i64(i) * p.stride] = Cast<Y>::of(value);
}
