// Strided index spaces: the common axes of N tensors, passed by value in the launch parameters, and
// the offset of an element in each tensor.

#pragma once

#include "lib/base.cuh"

constexpr int MAX_RANK = 8;

// Division of numbers below 2^31 by a divisor that the host knows:
// n / d = (mulhi(n, factor) + n) >> shift (Granlund and Montgomery 1994, figure 4.1).
struct Divisor {
    u32 divisor, factor, shift;
};
INLINE u32 divide(u32 n, const Divisor& d) { return (__umulhi(n, d.factor) + n) >> d.shift; }

// The common index space of N tensors, slowest axis first. Axes of size 1 are dropped, and axes
// that all tensors traverse with one stride are merged.
template <int N> struct Space {
    u32 rank;
    Divisor dims[MAX_RANK];
    i64 sizes[MAX_RANK];
    i64 strides[N][MAX_RANK];
};

// The offset of element `linear` of the space in each tensor, in elements from the first.
template <int N> INLINE void locate(const Space<N>& space, u32 linear, i64 (&at)[N]) {
#pragma unroll
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll
    for (int axis = MAX_RANK - 1; axis >= 0; --axis) {
        if (axis >= space.rank) continue;
        u32 outer = divide(linear, space.dims[axis]);
        i64 index = linear - outer * space.dims[axis].divisor;
        linear = outer;
#pragma unroll
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
// The same as a loop, for code that locates only one element: when code is cold, fetching it takes
// longer than running it.
template <int N> INLINE void locate_once(const Space<N>& space, u32 linear, i64 (&at)[N]) {
#pragma unroll
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll 1
    for (int axis = int(space.rank) - 1; axis >= 0; --axis) {
        u32 outer = divide(linear, space.dims[axis]);
        i64 index = linear - outer * space.dims[axis].divisor;
        linear = outer;
#pragma unroll
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
// The same for spaces of 2^31 or more elements.
template <int N> INLINE void locate(const Space<N>& space, u64 linear, i64 (&at)[N]) {
    for (int tensor = 0; tensor < N; ++tensor) at[tensor] = 0;
#pragma unroll 1
    for (int axis = int(space.rank) - 1; axis >= 0; --axis) {
        u64 outer = linear / u64(space.sizes[axis]);
        i64 index = i64(linear - outer * u64(space.sizes[axis]));
        linear = outer;
        for (int tensor = 0; tensor < N; ++tensor) at[tensor] += index * space.strides[tensor][axis];
    }
}
