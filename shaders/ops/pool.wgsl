// Pooling over two-dimensional windows, and its gradients. RESULT is a function of
// pool_window.wgsl, with a thread for each element of y (or for each word):
//
//   max_of_window    y[n, c, o, q] = the largest element of window (o, q) of x[n, c], NaN if there
//                    is one; positions = its position in its plane, row * width + column, the first
//                    one if several are equal; padding is never the maximum
//   mean_of_window   y[n, c, o, q] = the sum of window (o, q) divided by `divisor` or, if that is
//                    0, by the number of its indices on the image
//   ..._grad         y[n, c, h, w] = the sum of the contributions of the windows that contain pixel
//                    (h, w). A thread adds those of its pixel in ascending order of windows, so
//                    that no two threads add to the same element; x has the gradients of windows
//
//        x [h, w]         y [o, q]              y [h, w]           x [o, q]
//        . . . . .                              . . . . .
//        . a b . .   ->   . max .               . . p . .     <-   . + + .
//        . c d . .                              . . . . .          . + + .
//
// Positions that do not come from these windows are rare, but allowed. max_of_window_grad sets a
// flag when it finds one. A second launch with max_of_plane_grad, which does nothing without the
// flag, then computes y from all windows of the plane (slow). A position outside the plane is
// ignored, and the first such position is recorded for the host. Any strides. Limits: fewer than
// 2^31 elements of y and of an image plane; the limits of window.wgsl.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // The id of the check of positions, for the record of a position out of range.
    index_check: u32,
    // First elements of y, x, positions.
    offsets: vec4<u32>,
    vertical: WindowAxis,
    horizontal: WindowAxis,
    // The divisor of sums, or 0.
    divisor: f32,
    // Number of windows of all planes.
    windows: u32,
    _padding: vec2<u32>,
    // Sizes of y; strides of y, x, positions.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    if (CONDITION()) {
        WRITE(workgroup_index(group, groups) * 256u + lane);
    }
}
