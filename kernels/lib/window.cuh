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

struct WindowAxis {
    i32 size;   // pixels
    i32 count;  // windows
    i32 kernel, stride, padding, dilation;
    // From a window that covers a pixel to the next one: dilation / gcd(stride, dilation).
    i32 window_step;
    // The pixel's tap is less by this in the next window: stride / gcd(stride, dilation).
    i32 tap_step;
    Divisor by_stride, by_dilation;
};

INLINE i32 window_start(const WindowAxis& s, i32 window) { return window * s.stride - s.padding; }
INLINE bool is_on_image(const WindowAxis& s, i32 pixel) { return u32(pixel) < u32(s.size); }

// Taps low, .., high - 1 of a window that starts at `start` are on the image.
struct TapRange {
    i32 low, high;
};
INLINE TapRange tap_range(const WindowAxis& s, i32 start) {
    TapRange taps;
    taps.low = start < 0 ? i32(divide(u32(-start - 1), s.by_dilation)) + 1 : 0;
    taps.high = start < s.size ? min(s.kernel, i32(divide(u32(s.size - start - 1), s.by_dilation)) + 1) : 0;
    return taps;
}

// The windows first, first + window_step, .. up to last cover a pixel: the first one with its tap
// `tap`, each next one with a tap that is less by tap_step.
struct WindowRange {
    i32 first, last, tap;
};
INLINE i32 first_window(const WindowAxis& s, i32 pixel) {
    i32 missed = pixel + s.padding - (s.kernel - 1) * s.dilation;
    return missed > 0 ? i32(divide(u32(missed - 1), s.by_stride)) + 1 : 0;
}
INLINE i32 last_window(const WindowAxis& s, i32 pixel) {
    return min(i32(divide(u32(pixel + s.padding), s.by_stride)), s.count - 1);
}
INLINE WindowRange windows_covering(const WindowAxis& s, i32 pixel) {
    WindowRange reach = {first_window(s, pixel), last_window(s, pixel), 0};
    // Dilated windows cover only some of the pixels in their range.
    for (; reach.first <= reach.last; ++reach.first) {
        i32 back = pixel + s.padding - reach.first * s.stride;
        reach.tap = i32(divide(u32(back), s.by_dilation));
        if (reach.tap * s.dilation == back) break;
    }
    return reach;
}

// Whether the window covers the pixel.
INLINE bool covers(const WindowAxis& s, i32 window, i32 pixel) {
    i32 back = pixel - window_start(s, window);
    return back >= 0 && back <= (s.kernel - 1) * s.dilation &&
           i32(divide(u32(back), s.by_dilation)) * s.dilation == back;
}

// The sizes that determine the coordinates of element `number`, in row-major order, of a tensor
// [batch, channels, rows, columns].
struct Extent {
    Divisor channels, rows, columns;
};
struct ImageCoord {
    u32 image, channel;
    i32 row, column;
};
INLINE ImageCoord image_coord(const Extent& extent, u32 number) {
    ImageCoord spot;
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
INLINE i64 plane_offset(const Strides& strides, const ImageCoord& spot) {
    return i64(spot.image) * strides.image + i64(spot.channel) * strides.channel;
}
INLINE i64 pixel_offset(const Strides& strides, i32 row, i32 column) {
    return i64(row) * strides.row + i64(column) * strides.column;
}
