// Image patches as columns of a matrix, and back.
//
//   im2col  y[n, (c, i, j), (o, q)] = x[n, c, pixel of tap (i, j) of window (o, q)], 0 where the
//           tap is outside the image
//   col2im  x[n, c, h, w] = sum of y[n, (c, i, j), (o, q)] over the windows (o, q) that cover pixel
//           (h, w) with their tap (i, j), in ascending order
//
//                     o, q ->
//        c=0  i,j  | x[0, 0] of every window      |     a row of the matrix is the image, shifted
//          |       | x[0, 1]                      |     by (i, j) and subsampled by the stride;
//        c=1       | ...                          |     a thread of *_line: a run of elements,
//                                                       which may continue in the next row
//
// TYPE is double, float, f16 or bf16 (summed in float). Any strides; *_line: `to` is contiguous and
// aligned to the elements of a thread.
// Limits: fewer than 2^31 elements of `to`; those of window.cuh.

#include "lib/functions.cuh"
#include "lib/launch.cuh"
#include "lib/vec.cuh"
#include "lib/window.cuh"

typedef TYPE E;
typedef Compute<E> C;
constexpr int THREADS = 256;
constexpr int PATCH_RUN = 16 / sizeof(E);
// 8 bytes per thread: longer runs would spread the loads of a warp over too many cache lines.
constexpr int IMAGE_RUN = 8 / sizeof(E);

struct Patches {
    E* to;
    const E* from;
    u32 count;  // elements of `to`
    WindowAxis down, across;
    Extent image;          // [channels, h, w] of the image
    Extent taps, windows;  // [channels, i, j] and [-, o, q] of the matrix
    Strides image_strides;
    i64 batch_stride, row_stride, column_stride;  // of the matrix
};

// The source of an element of the matrix.
struct Patch {
    const E* line;  // of the image; invalid if `is_row_inside` is false
    const E* plane;
    i32 top, left;  // pixel of tap (i, j) in window (0, 0)
    i32 o, q;
    bool is_row_inside;
};
INLINE void set_row(const Patches& p, Patch& patch) {
    i32 row = patch.top + patch.o * p.down.stride;
    patch.is_row_inside = is_on_image(p.down, row);
    patch.line = patch.plane + i64(row) * p.image_strides.row;
}
INLINE Patch patch_of(const Patches& p, u32 number, i64& at) {
    // The matrix is [image, (channel, i, j), (o, q)], row-major.
    u32 rest = divide(number, p.windows.columns);
    i32 q = i32(number - rest * p.windows.columns.divisor);
    u32 row = divide(rest, p.windows.rows);
    i32 o = i32(rest - row * p.windows.rows.divisor);
    ImageCoord position = image_coord(p.taps, row);
    Patch patch;
    patch.plane = p.from + plane_offset(p.image_strides, position);
    patch.top = position.row * p.down.dilation - p.down.padding;
    patch.left = position.column * p.across.dilation - p.across.padding;
    patch.o = o;
    patch.q = q;
    set_row(p, patch);
    i64 row_of_image = (i64(position.channel) * p.down.kernel + position.row) * p.across.kernel + position.column;
    at = i64(position.image) * p.batch_stride + row_of_image * p.row_stride +
         (i64(o) * p.across.count + q) * p.column_stride;
    return patch;
}

template <int N> INLINE void write_patches(const Patches& p) {
    u32 first = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (first >= p.count) return;
    i64 at;
    Patch patch = patch_of(p, first, at);
    Pack<E, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) {
        if (e > 0 && ++patch.q == p.across.count) {
            patch.q = 0;
            if (++patch.o < p.down.count) {
                set_row(p, patch);
            } else {
                i64 ignored;
                patch = patch_of(p, min(first + e, p.count - 1), ignored);
            }
        }
        i32 column = patch.left + patch.q * p.across.stride;
        bool inside = patch.is_row_inside && is_on_image(p.across, column);
        pack.of[e] = inside ? patch.line[i64(column) * p.image_strides.column] : E();
    }
    if (N == 1) {
        p.to[at] = pack.of[0];
    } else if (first + N <= p.count) {
        store<E, N>(p.to + first, pack);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (first + e < p.count) p.to[first + e] = pack.of[e];
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) im2col(const __grid_constant__ Patches p) {
    wait_for_earlier_launches();
    write_patches<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) im2col_line(const __grid_constant__ Patches p) {
    wait_for_earlier_launches();
    write_patches<PATCH_RUN>(p);
}

template <int N> INLINE void add_patches(const Patches& p) {
    u32 first = (blockIdx.x * THREADS + threadIdx.x) * N;
    if (first >= p.count) return;
    // To the next window that covers a pixel: a later column of the matrix and, as it covers the
    // pixel with an earlier tap, an earlier row.
    i64 down_step = i64(p.down.window_step) * p.across.count * p.column_stride -
                    i64(p.down.tap_step) * p.across.kernel * p.row_stride;
    i64 across_step = i64(p.across.window_step) * p.column_stride - i64(p.across.tap_step) * p.row_stride;
    ImageCoord spot = image_coord(p.image, first);
    WindowRange rows = windows_covering(p.down, spot.row);
    Pack<E, N> pack;
#pragma unroll
    for (int e = 0; e < N; ++e) {
        if (e > 0 && ++spot.column == p.across.size) {
            spot = image_coord(p.image, min(first + e, p.count - 1));
            rows = windows_covering(p.down, spot.row);
        }
        WindowRange columns = windows_covering(p.across, spot.column);
        i64 row = (i64(spot.channel) * p.down.kernel + rows.tap) * p.across.kernel + columns.tap;
        i64 position = i64(rows.first) * p.across.count + columns.first;
        i64 line = i64(spot.image) * p.batch_stride + row * p.row_stride + position * p.column_stride;
        C sum = C(0);
        for (i32 o = rows.first; o <= rows.last; o += p.down.window_step, line += down_step) {
            i64 at = line;
            for (i32 q = columns.first; q <= columns.last; q += p.across.window_step, at += across_step)
                sum += widen(p.from[at]);
        }
        pack.of[e] = narrow<E>(sum);
    }
    if (N == 1) {
        p.to[plane_offset(p.image_strides, spot) + pixel_offset(p.image_strides, spot.row, spot.column)] = pack.of[0];
    } else if (first + N <= p.count) {
        store<E, N>(p.to + first, pack);
    } else {
#pragma unroll
        for (int e = 0; e < N; ++e)
            if (first + e < p.count) p.to[first + e] = pack.of[e];
    }
}
extern "C" __global__ void __launch_bounds__(THREADS) col2im(const __grid_constant__ Patches p) {
    wait_for_earlier_launches();
    add_patches<1>(p);
}
extern "C" __global__ void __launch_bounds__(THREADS) col2im_line(const __grid_constant__ Patches p) {
    wait_for_earlier_launches();
    add_patches<IMAGE_RUN>(p);
}
