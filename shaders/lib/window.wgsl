// Windows that slide over an image, one axis at a time: which of their indices are on the image,
// and which windows contain a pixel. The counterpart of window.cuh.
//
//   padding   image                 padding         window o starts at pixel o * stride - padding;
//   . . | x x x x x x x x x x x | . .               index `tap` is at pixel start + tap * dilation
//   [o=0    ]
//         [o=1    ]                                 in the figure: kernel 4, stride 3, padding 2
//
// Limits (window.rs): image and both borders together below 2^31 pixels. An axis with one window
// has stride 1, a window of one index has dilation 1.

struct WindowAxis {
    // Number of pixels, and number of windows.
    size: i32,
    count: i32,
    kernel: i32,
    stride: i32,
    padding: i32,
    dilation: i32,
    // The distance from a window that contains a pixel to the next one that does: dilation /
    // gcd(stride, dilation). The pixel's index in that window is lower by stride / gcd(stride,
    // dilation).
    window_step: i32,
    tap_step: i32,
}

// Returns the pixel at which a window starts. It may be in the padding.
fn window_start(axis: WindowAxis, window: i32) -> i32 {
    return window * axis.stride - axis.padding;
}

fn is_on_image(axis: WindowAxis, pixel: i32) -> bool {
    return pixel >= 0i && pixel < axis.size;
}

// The indices low, .., high - 1 of a window that starts at `start` are on the image.
struct TapRange {
    low: i32,
    high: i32,
}

fn tap_range(axis: WindowAxis, start: i32) -> TapRange {
    var taps = TapRange(0i, 0i);
    if (start < 0i) {
        taps.low = (-start - 1i) / axis.dilation + 1i;
    }
    if (start < axis.size) {
        taps.high = min(axis.kernel, (axis.size - start - 1i) / axis.dilation + 1i);
    }
    return taps;
}

// The windows first, first + window_step, .. up to last contain a pixel: the first one at its index
// `tap`, each next one at an index lower by tap_step.
struct WindowRange {
    first: i32,
    last: i32,
    tap: i32,
}

fn windows_containing(axis: WindowAxis, pixel: i32) -> WindowRange {
    let element_index = pixel + axis.padding;
    let missed = element_index - (axis.kernel - 1i) * axis.dilation;
    var range = WindowRange(0i, min(element_index / axis.stride, axis.count - 1i), 0i);
    if (missed > 0i) {
        range.first = (missed - 1i) / axis.stride + 1i;
    }
    // If windows are dilated, only some of them contain the pixel.
    while (range.first <= range.last && (element_index - range.first * axis.stride) % axis.dilation != 0i) {
        range.first += 1i;
    }
    range.tap = (element_index - range.first * axis.stride) / axis.dilation;
    return range;
}

// Whether the window contains the pixel.
fn contains_pixel(axis: WindowAxis, window: i32, pixel: i32) -> bool {
    let back = pixel - window_start(axis, window);
    return back >= 0i && back <= (axis.kernel - 1i) * axis.dilation && back % axis.dilation == 0i;
}

// ---------------------------------------------------------------- [batch, channels, rows, columns]

struct ImageCoord {
    image: u32,
    channel: u32,
    row: i32,
    column: i32,
}

// The coordinates of element `number` of a tensor of these sizes.
fn image_coord(sizes: vec4<u32>, number: u32) -> ImageCoord {
    let line = number / sizes.w;
    let plane = line / sizes.z;
    let image = plane / sizes.y;
    return ImageCoord(image, plane - image * sizes.y, i32(line - plane * sizes.z), i32(number - line * sizes.w));
}

// Returns the first element of a channel of an image in a tensor.
fn plane_at(tensor: u32, coord: ImageCoord) -> u32 {
    let strides = params.strides[tensor * 2u];
    return params.offsets[tensor] + coord.image * strides.x + coord.channel * strides.y;
}

// Returns the distance from the first element of a channel to a pixel.
fn pixel_at(tensor: u32, row: i32, column: i32) -> u32 {
    let strides = params.strides[tensor * 2u];
    return u32(row) * strides.z + u32(column) * strides.w;
}
