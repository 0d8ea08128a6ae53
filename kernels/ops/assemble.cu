// Pads and concatenates tensors. The kernels only move bits.
//
//   pad            y = x with a border of a constant value; any strides
//   pad_line       the same for a contiguous y: a thread writes PACK elements
//
//        y  b b b b b b      Axes are ordered slowest first. The host merges an axis without a
//           b b x x x b      border into the axis before it where the strides of x and y allow it,
//           b b x x x b      so that a thread seldom reaches the end of a row.
//
//   concat         y[o, start + i] = part[o, i] for up to PARTS tensors in one launch: each is
//                  [outer, length] with contiguous rows
//   concat_packed  the same, 16 bytes per access
//
//        y  | part 0 | part 1  | part 2 |     grid: [ part 0 ... | part 1 ... | part 2 ... ],
//           | part 0 | part 1  | part 2 |     each block copies from one part
//
// TYPE = u8, u16, u32, u64. Limits: pad: fewer than 2^31 elements of y; concat: fewer than 2^31
// words in a part. pad_line needs y aligned to 16 bytes; concat_packed needs all addresses, pitches
// and lengths to be multiples of 16 bytes.

#include "lib/functions.cuh"
#include "lib/index_space.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"

typedef TYPE E;
constexpr int THREADS = 256;
constexpr int PACK = 16 / sizeof(E);
constexpr int PER_THREAD = 4;  // words per thread of concat, all loaded before the first store
constexpr int PARTS = 64;      // 3 KiB of the 4 KiB that kernel parameters may have

struct Padding {
    E* y;
    const E* x;
    u64 value;  // the bits of an element
    u32 count, rank;
    Divisor dims[MAX_RANK];  // of y
    i32 before[MAX_RANK];
    i32 sizes[MAX_RANK];  // of x
    i64 x_strides[MAX_RANK], y_strides[MAX_RANK];
};

// An element of y: its offset, and the element of x that it is copied from.
struct Origin {
    i64 y;
    const E* line;       // row of x, at index 0 of the last axis
    i32 column;          // index along the last axis of x
    bool is_row_inside;  // whether the indices along all other axes are inside x
};
INLINE Origin origin_of(const Padding& p, u32 number) {
    Origin origin = {0, p.x, 0, true};
#pragma unroll
    for (int axis = MAX_RANK - 1; axis >= 0; --axis) {
        if (axis >= p.rank) continue;
        u32 outer = divide(number, p.dims[axis]);
        i32 index = i32(number - outer * p.dims[axis].divisor);
        number = outer;
        origin.y += i64(index) * p.y_strides[axis];
        i32 own = index - p.before[axis];
        if (axis == p.rank - 1) {
            origin.column = own;
        } else {
            origin.is_row_inside = origin.is_row_inside && u32(own) < u32(p.sizes[axis]);
            origin.line += i64(own) * p.x_strides[axis];
        }
    }
    return origin;
}

template <int N> INLINE void write_padded(const Padding& p) {
    u32 first = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (first >= p.count) return;
    int last = int(p.rank) - 1;
    i32 size = p.sizes[last], end = i32(p.dims[last].divisor) - p.before[last];
    i64 step = p.x_strides[last];
    Origin origin = origin_of(p, first);
    i64 at = origin.y;
    Pack<E, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) {
        if (e > 0 && ++origin.column == end) origin = origin_of(p, min(first + e, p.count - 1));
        bool inside = origin.is_row_inside && u32(origin.column) < u32(size);
        pack.of[e] = inside ? origin.line[i64(origin.column) * step] : E(p.value);
    }
    if (N == 1) {
        p.y[at] = pack.of[0];
    } else if (first + N <= p.count) {
        store<E, N>(p.y + first, pack);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (first + e < p.count) p.y[first + e] = pack.of[e];
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) pad(const __grid_constant__ Padding p) {
    wait_for_earlier_launches();
    write_padded<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) pad_line(const __grid_constant__ Padding p) {
    wait_for_earlier_launches();
    write_padded<PACK>(p);
}

// Counts, offsets and pitches are in words.
struct Part {
    u64 x;        // address
    i64 x_pitch;  // between rows of x
    u64 start;    // offset in a row of y
    u32 count;
    u32 first_block;
    Divisor length;  // of a row of the part
};
struct Concatenation {
    u64 y;
    i64 y_pitch;
    u32 parts;
    Part part[PARTS];
};

template <class Word> INLINE void write_part(const Concatenation& p) {
    // Binary search for the last part whose first block is at or before this one.
    u32 low = 0, high = p.parts;
    while (high - low > 1) {
        u32 middle = (low + high) / 2;
        if (p.part[middle].first_block <= blockIdx.x) low = middle;
        else high = middle;
    }
    const Part& part = p.part[low];
    const Word* x = reinterpret_cast<const Word*>(part.x);
    Word* y = reinterpret_cast<Word*>(p.y) + part.start;
    u32 first = (blockIdx.x - part.first_block) * (THREADS * PER_THREAD) + threadIdx.x;
    Word words[PER_THREAD];
    i64 to[PER_THREAD];
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i) {
        u32 number = first + i * THREADS;
        u32 row = divide(number, part.length);
        u32 column = number - row * part.length.divisor;
        to[i] = i64(row) * p.y_pitch + column;
        if (number < part.count) words[i] = x[i64(row) * part.x_pitch + column];
    }
#pragma unroll
    for (int i = 0; i < PER_THREAD; ++i)
        if (first + i * THREADS < part.count) y[to[i]] = words[i];
}
extern "C" __global__ void __launch_bounds__(THREADS) concat(const __grid_constant__ Concatenation p) {
    wait_for_earlier_launches();
    write_part<E>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) concat_packed(const __grid_constant__ Concatenation p) {
    wait_for_earlier_launches();
    write_part<Pack<u32, 4>>(p);
}
