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

struct Slide {
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

fn start_of(slide: Slide, window: i32) -> i32 {
    return window * slide.stride - slide.padding;
}

fn on_image(slide: Slide, pixel: i32) -> bool {
    return pixel >= 0i && pixel < slide.size;
}

// The indices low, .., high - 1 of a window that starts at `start` are on the image.
struct Taps {
    low: i32,
    high: i32,
}

fn taps_of(slide: Slide, start: i32) -> Taps {
    var taps = Taps(0i, 0i);
    if (start < 0i) {
        taps.low = (-start - 1i) / slide.dilation + 1i;
    }
    if (start < slide.size) {
        taps.high = min(slide.kernel, (slide.size - start - 1i) / slide.dilation + 1i);
    }
    return taps;
}

// The windows first, first + window_step, .. up to last contain a pixel: the first one at its index
// `tap`, each next one at an index lower by tap_step.
struct Reach {
    first: i32,
    last: i32,
    tap: i32,
}

fn windows_over(slide: Slide, pixel: i32) -> Reach {
    let element_index = pixel + slide.padding;
    let missed = element_index - (slide.kernel - 1i) * slide.dilation;
    var reach = Reach(0i, min(element_index / slide.stride, slide.count - 1i), 0i);
    if (missed > 0i) {
        reach.first = (missed - 1i) / slide.stride + 1i;
    }
    // If windows are dilated, only some of them contain the pixel.
    while (reach.first <= reach.last && (element_index - reach.first * slide.stride) % slide.dilation != 0i) {
        reach.first += 1i;
    }
    reach.tap = (element_index - reach.first * slide.stride) / slide.dilation;
    return reach;
}

// Whether the window contains the pixel.
fn shows(slide: Slide, window: i32, pixel: i32) -> bool {
    let back = pixel - start_of(slide, window);
    return back >= 0i && back <= (slide.kernel - 1i) * slide.dilation && back % slide.dilation == 0i;
}

// ---------------------------------------------------------------- [batch, channels, rows, columns]

struct Spot {
    image: u32,
    channel: u32,
    row: i32,
    column: i32,
}

// The coordinates of element `number` of a tensor of these sizes.
fn spot_of(sizes: vec4<u32>, number: u32) -> Spot {
    let line = number / sizes.w;
    let plane = line / sizes.z;
    let image = plane / sizes.y;
    return Spot(image, plane - image * sizes.y, i32(line - plane * sizes.z), i32(number - line * sizes.w));
}

fn plane_at(tensor: u32, spot: Spot) -> u32 {
    let strides = params.strides[tensor * 2u];
    return params.offsets[tensor] + spot.image * strides.x + spot.channel * strides.y;
}

fn pixel_at(tensor: u32, row: i32, column: i32) -> u32 {
    let strides = params.strides[tensor * 2u];
    return u32(row) * strides.z + u32(column) * strides.w;
}
