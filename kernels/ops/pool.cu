// Pooling over windows of two axes, and its gradients.
//
//   max_pool       y[n, c, o, q] = the largest element of window (o, q) of x[n, c], or NaN if the
//                  window has one; positions = its index in the plane, row * width + column: the
//                  first one of equal elements; padding is never selected
//   avg_pool       y[n, c, o, q] = the sum of window (o, q) divided by `whole`, or (whole = 0) by
//                  the number of its taps that are inside the image
//   *_grad         dx[n, c, h, w] = sum of the contributions of the windows that cover pixel
//                  (h, w). One thread adds all of them, in ascending order of the windows, so that
//                  no two threads add to one element
//
//        x [h, w]         y [o, q]         dx [h, w]          dy [o, q]
//        . . . . .                         . . . . .
//        . a b . .   ->   . max .          . p p p p   <-     . + + .
//        . c d . .                         . . . . .          . + + .
//
//        max_pool, avg_pool:               *_grad:
//        a thread computes one window      a thread computes RUN pixels of a row from all windows
//                                          that cover them
//
// Windows of 2 x 2 and 3 x 3 have separate kernels, whose loads are in flight together.
//
// In max_pool_grad a position outside its window is rare, but allowed: the kernel stores `call` to
// `stray` if it finds one. max_pool_grad_strays, which is launched after it, then recomputes dx
// from all windows of the plane (windows times pixels: slow). A stale value in `stray` is harmless,
// because both kernels add the same numbers in the same order. A position outside the plane is
// ignored, and the first one that a thread finds is recorded in `fault` for the host.
//
// TYPE is double, float, f16 or bf16 (summed in float). Any strides; `packed`: dx is contiguous,
// and rows and address are multiples of RUN elements.
// Limits: fewer than 2^31 elements of `to` and of an image plane; those of window.cuh.

#include "lib/functions.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"
#include "lib/window.cuh"
#include "ptx/memory.cuh"

typedef TYPE E;
typedef Compute<E> C;
constexpr int THREADS = 256;
// Minimum number of blocks per multiprocessor in the launch bounds. 0: the compiler chooses; in
// double it would aim at more than 4 and spill.
constexpr int MIN_BLOCKS = sizeof(E) == 8 ? 4 : 0;
// Pixels per thread of *_grad: 16 or 8 bytes of dx. Almost the same windows cover adjacent pixels.
constexpr int RUN = sizeof(E) == 8 ? 2 : 4;
constexpr int GROUP = 4;  // windows whose loads are in flight together

// In host memory that is mapped to the device. The site (op and call, never 0) and the position are
// written in one access.
struct alignas(16) Fault {
    i64 position;
    u64 site;
};

struct Pooling {
    E* to;           // y or dx
    const E* from;   // x or dy
    i32* positions;  // max_pool*
    Fault* fault;    // max_pool_grad
    u64 site;
    u64* stray;
    u64 call;
    double whole;  // avg_pool*
    double part;   // avg_pool_grad: 1 / whole
    u32 count;     // elements of y, or runs of dx
    u32 packed;    // whether dx is written RUN elements at a time
    // Whether adjacent threads process adjacent channels, as x is stored.
    u32 channels_last;
    WindowAxis down, across;
    Extent extent;  // of y, or of dx with RUN pixels counted as one column
    Divisor width;  // of the image
    Strides to_strides, from_strides, position_strides;
};

// ---------------------------------------------------------------- forward

INLINE ImageCoord window_of(const Pooling& p, u32 number) {
    if (!p.channels_last) return image_coord(p.extent, number);
    ImageCoord spot;
    u32 windows = divide(number, p.extent.channels);
    spot.channel = number - windows * p.extent.channels.divisor;
    u32 lines = divide(windows, p.extent.columns);
    spot.column = i32(windows - lines * p.extent.columns.divisor);
    spot.image = divide(lines, p.extent.rows);
    spot.row = i32(lines - spot.image * p.extent.rows.divisor);
    return spot;
}

// Loads all taps of the window at (top, left); those outside the image are `outside`.
template <int SIDE>
INLINE void load_window(const Pooling& p, const E* x, i32 top, i32 left, C outside, C (&values)[SIDE * SIDE]) {
    i32 bottom = top + (SIDE - 1) * p.down.dilation, right = left + (SIDE - 1) * p.across.dilation;
    bool whole = is_on_image(p.down, top) && is_on_image(p.down, bottom) && is_on_image(p.across, left) &&
                 is_on_image(p.across, right);
    if (whole && p.across.dilation * p.from_strides.column == 1) {
        const E* line = x + pixel_offset(p.from_strides, top, left);
#pragma unroll
        for (int i = 0; i < SIDE; ++i, line += p.down.dilation * p.from_strides.row)
#pragma unroll
            for (int j = 0; j < SIDE; ++j) values[i * SIDE + j] = widen(line[j]);
        return;
    }
#pragma unroll
    for (int i = 0; i < SIDE * SIDE; ++i) {
        i32 row = top + i / SIDE * p.down.dilation, column = left + i % SIDE * p.across.dilation;
        bool inside = is_on_image(p.down, row) && is_on_image(p.across, column);
        values[i] = inside ? widen(x[pixel_offset(p.from_strides, row, column)]) : outside;
    }
}

// SIDE > 0: windows of SIDE x SIDE taps. SIDE = 0: windows of any size.
template <int SIDE> INLINE void largest_of_window(const Pooling& p) {
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    ImageCoord spot = window_of(p, number);
    const E* x = p.from + plane_offset(p.from_strides, spot);
    i32 top = window_start(p.down, spot.row), left = window_start(p.across, spot.column);
    TapRange rows = tap_range(p.down, top), columns = tap_range(p.across, left);
    // The first tap inside the image is selected unless an element of the window is NaN or above
    // -infinity.
    C best = C(-INFINITE);
    i32 winner = (top + rows.low * p.down.dilation) * p.across.size + left + columns.low * p.across.dilation;
    if constexpr (SIDE > 0) {
        C values[SIDE * SIDE];
        load_window<SIDE>(p, x, top, left, C(-INFINITE), values);
        int winning_tap = -1;
#pragma unroll
        for (int i = 0; i < SIDE * SIDE; ++i) {
            bool wins = !(values[i] <= best) && !is_nan(best);
            best = wins ? values[i] : best;
            winning_tap = wins ? i : winning_tap;
        }
        if (winning_tap >= 0)
            winner = (top + winning_tap / SIDE * p.down.dilation) * p.across.size + left +
                     winning_tap % SIDE * p.across.dilation;
    } else {
        for (i32 i = rows.low; i < rows.high; ++i) {
            i32 row = top + i * p.down.dilation;
            for (i32 j = columns.low; j < columns.high; ++j) {
                i32 column = left + j * p.across.dilation;
                C value = widen(x[pixel_offset(p.from_strides, row, column)]);
                bool wins = !(value <= best) && !is_nan(best);
                best = wins ? value : best;
                winner = wins ? row * p.across.size + column : winner;
            }
        }
    }
    p.to[plane_offset(p.to_strides, spot) + pixel_offset(p.to_strides, spot.row, spot.column)] = narrow<E>(best);
    p.positions[plane_offset(p.position_strides, spot) + pixel_offset(p.position_strides, spot.row, spot.column)] =
        winner;
}
#define KERNEL extern "C" __global__ void __launch_bounds__(THREADS, MIN_BLOCKS)
KERNEL max_pool(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    largest_of_window<0>(p);
}
KERNEL max_pool_2x2(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    largest_of_window<2>(p);
}
KERNEL max_pool_3x3(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    largest_of_window<3>(p);
}

// The divisor of a window's sum.
INLINE C divisor_of(const Pooling& p, const TapRange& rows, const TapRange& columns) {
    return p.whole > 0 ? C(p.whole) : C(rows.high - rows.low) * C(columns.high - columns.low);
}

template <int SIDE> INLINE void mean_of_window(const Pooling& p) {
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    ImageCoord spot = window_of(p, number);
    const E* x = p.from + plane_offset(p.from_strides, spot);
    i32 top = window_start(p.down, spot.row), left = window_start(p.across, spot.column);
    TapRange rows = tap_range(p.down, top), columns = tap_range(p.across, left);
    C sum = C(0);
    if constexpr (SIDE > 0) {
        C values[SIDE * SIDE];
        load_window<SIDE>(p, x, top, left, C(0), values);
#pragma unroll
        for (int i = 0; i < SIDE * SIDE; ++i) sum += values[i];
    } else {
        for (i32 i = rows.low; i < rows.high; ++i)
            for (i32 j = columns.low; j < columns.high; ++j)
                sum += widen(x[pixel_offset(p.from_strides, top + i, left + j)]);
    }
    E mean = narrow<E>(sum / divisor_of(p, rows, columns));
    p.to[plane_offset(p.to_strides, spot) + pixel_offset(p.to_strides, spot.row, spot.column)] = mean;
}
KERNEL avg_pool(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    mean_of_window<0>(p);
}
KERNEL avg_pool_2x2(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    mean_of_window<2>(p);
}
KERNEL avg_pool_3x3(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    mean_of_window<3>(p);
}

// ---------------------------------------------------------------- gradients

INLINE ImageCoord run_of(const Pooling& p, u32 number) {
    ImageCoord spot = image_coord(p.extent, number);
    spot.column *= RUN;
    return spot;
}

INLINE void write_run(const Pooling& p, const ImageCoord& spot, const C (&sums)[RUN]) {
    E* dx = p.to + plane_offset(p.to_strides, spot) + pixel_offset(p.to_strides, spot.row, spot.column);
    Pack<E, RUN> pack;
#pragma unroll
    for (int e = 0; e < RUN; ++e) pack.of[e] = narrow<E>(sums[e]);
    if (p.packed) {
        store<E, RUN>(dx, pack);
        return;
    }
#pragma unroll
    for (int e = 0; e < RUN; ++e)
        if (spot.column + e < p.across.size) dx[e * p.to_strides.column] = pack.of[e];
}

// Reports a position outside its window: to `stray` if inside the plane, otherwise to `fault`.
__device__ __noinline__ void report_position(const Pooling& p, i32 winner) {
    if (winner >= 0 && i64(winner) < i64(p.down.size) * p.across.size) {
        *p.stray = p.call;
    } else if (*reinterpret_cast<volatile u64*>(&p.fault->site) == 0) {
        st_volatile_global_v2(p.fault, u64(i64(winner)), p.site);
    }
}
INLINE bool can_win(const Pooling& p, i32 winner, i32 o, i32 q) {
    i32 row = i32(divide(u32(winner), p.width));
    i32 column = winner - row * p.across.size;
    bool undilated = (p.down.dilation | p.across.dilation) == 1;
    if (winner < 0 || row >= p.down.size) return false;
    if (undilated)
        return u32(row - window_start(p.down, o)) < u32(p.down.kernel) &&
               u32(column - window_start(p.across, q)) < u32(p.across.kernel);
    return covers(p.down, o, row) && covers(p.across, q, column);
}

KERNEL max_pool_grad(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    ImageCoord spot = run_of(p, number);
    i32 end = min(spot.column + RUN, p.across.size);
    i32 own = spot.row * p.across.size + spot.column;
    WindowRange rows = windows_covering(p.down, spot.row);
    i32 first = first_window(p.across, spot.column), last = last_window(p.across, end - 1);
    const E* dy = p.from + plane_offset(p.from_strides, spot);
    const i32* positions = p.positions + plane_offset(p.position_strides, spot);
    C sums[RUN] = {};
    i32 row_tap = rows.tap;
    for (i32 o = rows.first; o <= rows.last; o += p.down.window_step, row_tap -= p.down.tap_step) {
        // One thread checks the position of each window: the one whose pixels include the window's
        // first pixel inside the image.
        bool is_first_row = row_tap == 0 || spot.row < p.down.dilation;
        for (i32 q = first; q <= last; q += GROUP) {
            i32 winners[GROUP];
            C grads[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; ++i) {
                bool in_range = q + i <= last;
                winners[i] = in_range ? positions[pixel_offset(p.position_strides, o, q + i)] : own - 1;
                grads[i] = in_range ? widen(dy[pixel_offset(p.from_strides, o, q + i)]) : C(0);
            }
#pragma unroll
            for (int i = 0; i < GROUP; ++i) {
#pragma unroll
                for (int e = 0; e < RUN; ++e)
                    if (winners[i] == own + e) sums[e] += grads[i];
                if (!is_first_row || q + i > last) continue;
                i32 start = window_start(p.across, q + i);
                i32 first_column = start < 0 ? start + tap_range(p.across, start).low * p.across.dilation : start;
                if (first_column >= spot.column && first_column < end && !can_win(p, winners[i], o, q + i))
                    report_position(p, winners[i]);
            }
        }
    }
    write_run(p, spot, sums);
}

// Computes dx from all windows of the plane if a position is outside its window. Any grid size.
KERNEL max_pool_grad_strays(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    if (*p.stray != p.call) return;
    for (u64 number = u64(blockIdx.x) * THREADS + threadIdx.x; number < p.count; number += u64(gridDim.x) * THREADS) {
        ImageCoord spot = run_of(p, u32(number));
        const E* dy = p.from + plane_offset(p.from_strides, spot);
        const i32* positions = p.positions + plane_offset(p.position_strides, spot);
        i32 own = spot.row * p.across.size + spot.column;
        C sums[RUN] = {};
        for (i32 o = 0; o < p.down.count; ++o)
            for (i32 q = 0; q < p.across.count; ++q) {
                i32 winner = positions[pixel_offset(p.position_strides, o, q)];
                if (winner < own || winner >= own + RUN) continue;
                C grad = widen(dy[pixel_offset(p.from_strides, o, q)]);
#pragma unroll
                for (int e = 0; e < RUN; ++e)
                    if (winner == own + e) sums[e] += grad;
            }
        write_run(p, spot, sums);
    }
}

KERNEL avg_pool_grad(const __grid_constant__ Pooling p) {
    wait_for_earlier_launches();
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    ImageCoord spot = run_of(p, number);
    i32 end = min(spot.column + RUN, p.across.size);
    i32 last_row = last_window(p.down, spot.row);
    i32 first = first_window(p.across, spot.column), last = last_window(p.across, end - 1);
    const E* dy = p.from + plane_offset(p.from_strides, spot);
    C sums[RUN] = {};
    for (i32 o = first_window(p.down, spot.row); o <= last_row; ++o) {
        TapRange row_taps = tap_range(p.down, window_start(p.down, o));
        for (i32 q = first; q <= last; q += GROUP) {
            C grads[GROUP];
#pragma unroll
            for (int i = 0; i < GROUP; ++i)
                grads[i] = q + i <= last ? widen(dy[pixel_offset(p.from_strides, o, q + i)]) : C(0);
#pragma unroll
            for (int i = 0; i < GROUP; ++i) {
                i32 start = window_start(p.across, q + i);
                if (p.whole > 0) grads[i] *= C(p.part);
                else if (q + i <= last) grads[i] /= divisor_of(p, row_taps, tap_range(p.across, start));
#pragma unroll
                for (int e = 0; e < RUN; ++e)
                    if (u32(spot.column + e - start) < u32(p.across.kernel)) sums[e] += grads[i];
            }
        }
    }
    write_run(p, spot, sums);
}
