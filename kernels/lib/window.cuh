// Windows that slide over an image, one axis at a time: which of their taps are on the image, and
// which windows cover a pixel.
//
//   padding   image                 padding         window o starts at pixel o * stride - padding;
//   . . | x x x x x x x x x x x | . .               its tap `t` is at pixel start + t * dilation
//   [o=0    ]
//         [o=1    ]                                 the picture: kernel 4, stride 3, padding 2
//
// Limits (window.rs): the image and both paddings together are below 2^31 pixels; an axis with one
// window has stride 1, a window of one tap has dilation 1.

#pragma once

#include "lib/index_space.cuh"

struct Slide {
    i32 size;   // pixels
    i32 count;  // windows
    i32 kernel, stride, padding, dilation;
    // From a window that covers a pixel to the next one: dilation / gcd(stride, dilation).
    i32 window_step;
    // The pixel's tap is less by this in the next window: stride / gcd(stride, dilation).
    i32 tap_step;
    Divisor by_stride, by_dilation;
};

INLINE i32 start_of(const Slide& s, i32 window) { return window * s.stride - s.padding; }
INLINE bool on_image(const Slide& s, i32 pixel) { return u32(pixel) < u32(s.size); }

// Taps low, .., high - 1 of a window that starts at `start` are on the image.
struct Taps {
    i32 low, high;
};
INLINE Taps taps_of(const Slide& s, i32 start) {
    Taps taps;
    taps.low = start < 0 ? i32(divide(u32(-start - 1), s.by_dilation)) + 1 : 0;
    taps.high = start < s.size ? min(s.kernel, i32(divide(u32(s.size - start - 1), s.by_dilation)) + 1) : 0;
    return taps;
}

// The windows first, first + window_step, .. up to last cover a pixel: the first one with its tap
// `tap`, each next one with a tap that is less by tap_step.
struct Reach {
    i32 first, last, tap;
};
INLINE i32 first_over(const Slide& s, i32 pixel) {
    i32 missed = pixel + s.padding - (s.kernel - 1) * s.dilation;
    return missed > 0 ? i32(divide(u32(missed - 1), s.by_stride)) + 1 : 0;
}
INLINE i32 last_over(const Slide& s, i32 pixel) {
    return min(i32(divide(u32(pixel + s.padding), s.by_stride)), s.count - 1);
}
INLINE Reach windows_over(const Slide& s, i32 pixel) {
    Reach reach = {first_over(s, pixel), last_over(s, pixel), 0};
    // Dilated windows cover only some of the pixels in their range.
    for (; reach.first <= reach.last; ++reach.first) {
        i32 back = pixel + s.padding - reach.first * s.stride;
        reach.tap = i32(divide(u32(back), s.by_dilation));
        if (reach.tap * s.dilation == back) break;
    }
    return reach;
}

// Whether the window covers the pixel.
INLINE bool shows(const Slide& s, i32 window, i32 pixel) {
    i32 back = pixel - start_of(s, window);
    return back >= 0 && back <= (s.kernel - 1) * s.dilation &&
           i32(divide(u32(back), s.by_dilation)) * s.dilation == back;
}

// The sizes that determine the coordinates of element `number`, in row-major order, of a tensor
// [batch, channels, rows, columns].
struct Extent {
    Divisor channels, rows, columns;
};
struct Spot {
    u32 image, channel;
    i32 row, column;
};
INLINE Spot spot_of(const Extent& extent, u32 number) {
    Spot spot;
    u32 lines = divide(number, extent.columns);
    spot.column = i32(number - lines * extent.columns.divisor);
    u32 planes = divide(lines, extent.rows);
    spot.row = i32(lines - planes * extent.rows.divisor);
    spot.image = divide(planes, extent.channels);
    spot.channel = planes - spot.image * extent.channels.divisor;
    return spot;
}
// Strides of [batch, channels, rows, columns].
struct Strides {
    i64 image, channel, row, column;
};
INLINE i64 plane_at(const Strides& strides, const Spot& spot) {
    return i64(spot.image) * strides.image + i64(spot.channel) * strides.channel;
}
INLINE i64 pixel_at(const Strides& strides, i32 row, i32 column) {
    return i64(row) * strides.row + i64(column) * strides.column;
}
