// Gather along an axis by a tensor of indices, and the keys for scatter.
//
//   gather        y[.., i, ..] = x[.., index[.., i, ..], ..], any strides
//   gather_rows   y[o, i, :] = x[o, index[i], :] for contiguous rows: a thread moves one pack,
//                 which is a word of TYPE (the host uses u64)
//   scatter_keys  the linear index in y that each source element goes to; sort.cu and scatter.cu do
//                 the rest
//
// An index outside the axis is never dereferenced: gather writes 0 for it, scatter skips its
// source, and the first such index that a thread finds is recorded in `fault` for the host.
//
// The kernels only move bits: TYPE is u8, u16, u32 or u64. INDEX is i32 or i64.
// Limits: fewer than 2^31 elements in index and source; y below 2^31 elements for scatter.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "ptx/memory.cuh"

typedef TYPE E;
typedef INDEX I;
constexpr int THREADS = 256;
constexpr int PER_THREAD = 4;

// In host memory that is mapped to the device. The site (op and call, never 0) and the index are
// written in one access.
struct alignas(16) Fault {
    i64 position;
    u64 site;
};
INLINE void report(Fault* fault, u64 site, i64 position) {
    if (*reinterpret_cast<volatile u64*>(&fault->site) == 0) {
        st_volatile_global_v2(fault, u64(position), site);
    }
}

struct Gather {
    E* y;
    const E* x;
    const I* index;
    Fault* fault;
    u64 site;
    u32 count;
    u64 size;        // of the axis
    i64 x_step;      // along the axis
    Space<3> space;  // of y, index, and x without its axis
};

extern "C" __global__ void __launch_bounds__(THREADS) gather(const __grid_constant__ Gather p) {
    wait_for_earlier_launches();
    u32 first = blockIdx.x * (THREADS * PER_THREAD) + threadIdx.x;
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        u32 number = first + i * THREADS;
        if (number >= p.count) return;
        i64 at[3];
        locate(p.space, number, at);
        i64 position = i64(p.index[at[1]]);
        E value = E();
        if (u64(position) < p.size) value = p.x[at[2] + position * p.x_step];
        else report(p.fault, p.site, position);
        p.y[at[0]] = value;
    }
}

// x [outer, size, inner packs], y [outer, count, inner packs]. A pack is one element of TYPE.
struct GatherRows {
    E* y;
    const E* x;
    const I* index;
    Fault* fault;
    u64 site;
    u64 total;  // packs of y
    u64 size;
    i64 index_step;
    i64 x_outer, x_row;  // in packs
    Divisor inner, count;
};

extern "C" __global__ void __launch_bounds__(THREADS) gather_rows(const __grid_constant__ GatherRows p) {
    wait_for_earlier_launches();
    u64 number = u64(blockIdx.x) * THREADS + threadIdx.x;
    if (number >= p.total) return;
    u32 row = divide(u32(number), p.inner);
    u32 column = u32(number) - row * p.inner.divisor;
    u32 outer = divide(row, p.count);
    i64 position = i64(p.index[i64(row - outer * p.count.divisor) * p.index_step]);
    E value = E();
    if (u64(position) < p.size) value = p.x[i64(outer) * p.x_outer + position * p.x_row + column];
    else report(p.fault, p.site, position);
    p.y[number] = value;
}

// The key of source n (counted row-major) is its destination: the row-major index in y.
struct ScatterKeys {
    u32* keys;
    u32* indices;
    const I* index;
    Fault* fault;
    u64 site;
    u32 count;
    u32 out_of_range;  // the key of an index outside the axis: above all others
    u64 size;
    i64 destination_step;  // row-major stride of the axis in y
    Space<2> space;        // of index, and of the row-major order of y without the axis
};

extern "C" __global__ void __launch_bounds__(THREADS) scatter_keys(const __grid_constant__ ScatterKeys p) {
    wait_for_earlier_launches();
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    i64 at[2];
    locate(p.space, number, at);
    i64 position = i64(p.index[at[0]]);
    u32 key = p.out_of_range;
    if (u64(position) < p.size) key = u32(at[1] + position * p.destination_step);
    else report(p.fault, p.site, position);
    p.keys[number] = key;
    p.indices[number] = number;
}
