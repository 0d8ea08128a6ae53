// Pooling over windows of two axes, and its gradients.
//
//   max_pool       y[n, c, o, q] = the largest element of window (o, q) of x[n, c], NaN if there is one; positions = where it lies in its plane,
//                  row * width + column, the first one of equals; padding never wins
//   avg_pool       y[n, c, o, q] = the sum of window (o, q) divided by `whole`, or (whole = 0) by how many of its places lie on the image
//   *_grad         dx[n, c, h, w] = sum of what the windows that show pixel (h, w) give to it: each adds what comes from its windows in rising order, so
//                  that nothing is added by two threads
//
//        x [h, w]         y [o, q]              dx [h, w]          dy [o, q]
//        . . . . .                              . . . . .
//        . a b . .   ->   . max .               . p . . .   <-     . + + .     a thread of max_pool and avg_pool: one window
//        . c d . .                              . . . . .          . + + .     a thread of *_grad: one pixel, of *_grad_line: LINE pixels in a row
//
// Windows of 2 x 2 and 3 x 3 have kernels of their own, whose loads are under way together. Positions that do not come from these windows are rare, but
// allowed: max_pool_grad leaves `call` in `stray` when it sees one, and max_pool_grad_strays, which follows it, forms dx from all windows of the plane;
// what else lies there does no harm, for both forms add the same numbers in the same order. A position outside the plane goes nowhere, and the first one
// that is seen is left in `fault` for the host.
//
// TYPE is double, float, f16 or bf16 (summed in float). Any strides; *_line: `to` dense, in order, and aligned to LINE elements.
// Limits: fewer than 2^31 elements of `to` and of an image plane; those of window.cuh.

typedef TYPE E;
typedef Compute<E> C;
constexpr int THREADS = 256;
constexpr int LINE = 8 / sizeof(E);  // 8 bytes a thread: wider ones spread the loads of a warp over too many lines
constexpr int LINE_BLOCKS = 4;       // blocks of *_line on a multiprocessor: aiming at more of them the compiler spilled

// In host memory that the device sees. The site (op and call, never 0) is written with the position in one access.
struct alignas(16) Fault {
    i64 position;
    u64 site;
};

struct Pooling {
    E* to;            // y or dx
    const E* from;    // x or dy
    i32* positions;   // max_pool*
    Fault* fault;     // max_pool_grad
    u64 site;
    u64* stray;
    u64 call;
    double whole;     // avg_pool*
    u32 count;        // elements of `to`
    Slide down, across;
    Extent extent;    // of `to`
    Strides to_strides, from_strides, position_strides;
};

// ---------------------------------------------------------------- forward

// SIDE > 0: windows of SIDE x SIDE places.
template <int SIDE> INLINE void largest_of_window(const Pooling& p) {
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    Spot spot = spot_of(p.extent, number);
    const E* x = p.from + plane_at(p.from_strides, spot);
    i32 top = start_of(p.down, spot.row), left = start_of(p.across, spot.column);
    Taps rows = taps_of(p.down, top), columns = taps_of(p.across, left);
    // The first place on the image has won as long as nothing beats -infinity.
    C best = C(-INFINITE);
    i32 winner = (top + rows.low * p.down.dilation) * p.across.size + left + columns.low * p.across.dilation;
    auto compare = [&](C value, i32 row, i32 column) {
        bool wins = !(value <= best) && !is_nan(best);
        best = wins ? value : best;
        winner = wins ? row * p.across.size + column : winner;
    };
    if constexpr (SIDE > 0) {
        constexpr int PLACES = SIDE * SIDE;
        C values[PLACES];
#pragma unroll
        for (int i = 0; i < PLACES; ++i) {
            i32 row = top + i / SIDE * p.down.dilation, column = left + i % SIDE * p.across.dilation;
            bool inside = on_image(p.down, row) && on_image(p.across, column);
            values[i] = inside ? widen(x[pixel_at(p.from_strides, row, column)]) : C(-INFINITE);
        }
#pragma unroll
        for (int i = 0; i < PLACES; ++i)
            compare(values[i], top + i / SIDE * p.down.dilation, left + i % SIDE * p.across.dilation);
    } else {
        for (i32 i = rows.low; i < rows.high; ++i) {
            i32 row = top + i * p.down.dilation;
            for (i32 j = columns.low; j < columns.high; ++j) {
                i32 column = left + j * p.across.dilation;
                compare(widen(x[pixel_at(p.from_strides, row, column)]), row, column);
            }
        }
    }
    p.to[plane_at(p.to_strides, spot) + pixel_at(p.to_strides, spot.row, spot.column)] = narrow<E>(best);
    p.positions[plane_at(p.position_strides, spot) + pixel_at(p.position_strides, spot.row, spot.column)] = winner;
}
extern "C" __global__ void __launch_bounds__(THREADS) max_pool(const __grid_constant__ Pooling p) { largest_of_window<0>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) max_pool_2x2(const __grid_constant__ Pooling p) { largest_of_window<2>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) max_pool_3x3(const __grid_constant__ Pooling p) { largest_of_window<3>(p); }

// By what the sum of a window is divided.
INLINE C divisor_of(const Pooling& p, const Taps& rows, const Taps& columns) {
    return p.whole > 0 ? C(p.whole) : C(rows.high - rows.low) * C(columns.high - columns.low);
}

template <int SIDE> INLINE void mean_of_window(const Pooling& p) {
    u32 number = blockIdx.x * THREADS + threadIdx.x;
    if (number >= p.count) return;
    Spot spot = spot_of(p.extent, number);
    const E* x = p.from + plane_at(p.from_strides, spot);
    i32 top = start_of(p.down, spot.row), left = start_of(p.across, spot.column);
    Taps rows = taps_of(p.down, top), columns = taps_of(p.across, left);
    C sum = C(0);
    if constexpr (SIDE > 0) {
        constexpr int PLACES = SIDE * SIDE;
        C values[PLACES];
#pragma unroll
        for (int i = 0; i < PLACES; ++i) {
            i32 row = top + i / SIDE, column = left + i % SIDE;
            bool inside = on_image(p.down, row) && on_image(p.across, column);
            values[i] = inside ? widen(x[pixel_at(p.from_strides, row, column)]) : C(0);
        }
#pragma unroll
        for (int i = 0; i < PLACES; ++i) sum += values[i];
    } else {
        for (i32 i = rows.low; i < rows.high; ++i)
            for (i32 j = columns.low; j < columns.high; ++j) sum += widen(x[pixel_at(p.from_strides, top + i, left + j)]);
    }
    E mean = narrow<E>(sum / divisor_of(p, rows, columns));
    p.to[plane_at(p.to_strides, spot) + pixel_at(p.to_strides, spot.row, spot.column)] = mean;
}
extern "C" __global__ void __launch_bounds__(THREADS) avg_pool(const __grid_constant__ Pooling p) { mean_of_window<0>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) avg_pool_2x2(const __grid_constant__ Pooling p) { mean_of_window<2>(p); }
extern "C" __global__ void __launch_bounds__(THREADS) avg_pool_3x3(const __grid_constant__ Pooling p) { mean_of_window<3>(p); }

// ---------------------------------------------------------------- gradients

// dx of N pixels one after the other: N = 1 for any strides. `gradient(spot, rows, columns)` is that of the pixel `spot`, which the windows
// `rows` x `columns` show.
template <int N, class Gradient> INLINE void each_pixel(const Pooling& p, Gradient gradient) {
    u32 first = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (first >= p.count) return;
    Spot spot = spot_of(p.extent, first);
    Reach rows = windows_over(p.down, spot.row);
    Pack<E, N> dx;
#pragma unroll
    for (int e = 0; e < N; ++e) {
        if (e > 0 && ++spot.column == p.across.size) {
            spot = spot_of(p.extent, min(first + e, p.count - 1));
            rows = windows_over(p.down, spot.row);
        }
        dx.of[e] = narrow<E>(gradient(spot, rows, windows_over(p.across, spot.column)));
    }
    if (N == 1) {
        p.to[plane_at(p.to_strides, spot) + pixel_at(p.to_strides, spot.row, spot.column)] = dx.of[0];
    } else if (first + N <= p.count) {
        store<E, N>(p.to + first, dx);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (first + e < p.count) p.to[first + e] = dx.of[e];
    }
}

INLINE void report(const Pooling& p, i32 position) {
    if (*reinterpret_cast<volatile u64*>(&p.fault->site) == 0) {
        asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(p.fault), "l"(i64(position)), "l"(p.site) : "memory");
    }
}

// Whether the winner of a window can be where it says.
INLINE void check(const Pooling& p, i32 winner, i32 window_row, i32 window_column) {
    if (winner < 0 || i64(winner) >= i64(p.down.size) * p.across.size) {
        report(p, winner);
        return;
    }
    i32 row = i32(divide(u32(winner), p.extent.columns));
    i32 column = winner - row * p.across.size;
    if (!(shows(p.down, window_row, row) && shows(p.across, window_column, column))) *p.stray = p.call;
}

template <int N> INLINE void gradient_of_winners(const Pooling& p) {
    each_pixel<N>(p, [&](const Spot& spot, const Reach& rows, const Reach& columns) {
        const E* dy = p.from + plane_at(p.from_strides, spot);
        const i32* positions = p.positions + plane_at(p.position_strides, spot);
        i32 own = spot.row * p.across.size + spot.column;
        C sum = C(0);
        i32 row_tap = rows.tap;
        for (i32 o = rows.first; o <= rows.last; o += p.down.window_step, row_tap -= p.down.tap_step) {
            i32 column_tap = columns.tap;
            for (i32 q = columns.first; q <= columns.last; q += p.across.window_step, column_tap -= p.across.tap_step) {
                i32 winner = positions[pixel_at(p.position_strides, o, q)];
                if (winner == own) sum += widen(dy[pixel_at(p.from_strides, o, q)]);
                // Each window is looked into by the first pixel that it shows.
                bool is_first = (row_tap == 0 || spot.row < p.down.dilation) && (column_tap == 0 || spot.column < p.across.dilation);
                if (is_first && winner != own) check(p, winner, o, q);
            }
        }
        return sum;
    });
}
extern "C" __global__ void __launch_bounds__(THREADS) max_pool_grad(const __grid_constant__ Pooling p) { gradient_of_winners<1>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, LINE_BLOCKS) max_pool_grad_line(const __grid_constant__ Pooling p) {
    gradient_of_winners<LINE>(p);
}

// dx from every window of the plane, where a winner lies outside its own window. Any number of blocks.
extern "C" __global__ void __launch_bounds__(THREADS) max_pool_grad_strays(const __grid_constant__ Pooling p) {
    if (*p.stray != p.call) return;
    for (u64 number = u64(blockIdx.x) * THREADS + threadIdx.x; number < p.count; number += u64(gridDim.x) * THREADS) {
        Spot spot = spot_of(p.extent, u32(number));
        const E* dy = p.from + plane_at(p.from_strides, spot);
        const i32* positions = p.positions + plane_at(p.position_strides, spot);
        i32 own = spot.row * p.across.size + spot.column;
        C sum = C(0);
        for (i32 o = 0; o < p.down.count; ++o)
            for (i32 q = 0; q < p.across.count; ++q)
                if (positions[pixel_at(p.position_strides, o, q)] == own) sum += widen(dy[pixel_at(p.from_strides, o, q)]);
        p.to[plane_at(p.to_strides, spot) + pixel_at(p.to_strides, spot.row, spot.column)] = narrow<E>(sum);
    }
}

template <int N> INLINE void gradient_of_means(const Pooling& p) {
    each_pixel<N>(p, [&](const Spot& spot, const Reach& rows, const Reach& columns) {
        const E* dy = p.from + plane_at(p.from_strides, spot);
        C sum = C(0);
        for (i32 o = rows.first; o <= rows.last; ++o) {
            Taps row_taps = taps_of(p.down, start_of(p.down, o));
            for (i32 q = columns.first; q <= columns.last; ++q) {
                Taps column_taps = taps_of(p.across, start_of(p.across, q));
                sum += widen(dy[pixel_at(p.from_strides, o, q)]) / divisor_of(p, row_taps, column_taps);
            }
        }
        return sum;
    });
}
extern "C" __global__ void __launch_bounds__(THREADS) avg_pool_grad(const __grid_constant__ Pooling p) { gradient_of_means<1>(p); }
extern "C" __global__ void __launch_bounds__(THREADS, LINE_BLOCKS) avg_pool_grad_line(const __grid_constant__ Pooling p) {
    gradient_of_means<LINE>(p);
}
