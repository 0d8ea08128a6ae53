// Pooling over windows of two axes, and its gradients. RESULT is one of pool_window.wgsl's, a thread for each element of y (or its words):
//
//   max_of_window    y[n, c, o, q] = the largest element of window (o, q) of x[n, c], NaN if there is one; positions = where it lies in its
//                        plane, row * width + column, the first one of equals; padding never wins
//   mean_of_window       y[n, c, o, q] = the sum of window (o, q) divided by `whole`, or (whole = 0) by how many of its indices lie on the image
//   ..._grad             y[n, c, h, w] = sum of what the windows that show pixel (h, w) give to it: each adds what comes from its windows in
//                        rising order, so that nothing is added by two threads; x holds the gradients of windows
//
//        x [h, w]         y [o, q]              y [h, w]           x [o, q]
//        . . . . .                              . . . . .
//        . a b . .   ->   . max .               . . p . .     <-   . + + .
//        . c d . .                              . . . . .          . + + .
//
// Positions that do not come from these windows are rare, but allowed: max_of_window_grad leaves a mark when it sees one, and a second launch with
// strays_of_plane, which does nothing without the mark, then forms y from all windows of the plane (slow). A position outside the plane goes nowhere, and
// the first one that is seen is noted for the host. Any strides. Limits: fewer than 2^31 elements of y and of an image plane; those of window.wgsl.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    fault: u32,
    // First elements of y, x, positions.
    offsets: vec4<u32>,
    down: Slide,
    across: Slide,
    // What sums are divided by, or 0.
    whole: f32,
    // Windows of all planes.
    windows: u32,
    spare: vec2<u32>,
    // Of y; strides of y, x, positions.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    if (WANTED()) {
        WRITE(group_number(group, groups) * 256u + lane);
    }
}
