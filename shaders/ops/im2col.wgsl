// Image patches as columns of a matrix, and the reverse.
//
//   im2col  y[n, (c, i, j), (o, q)] = x[n, c, pixel (i, j) of window (o, q)], or 0 if this pixel is
//           outside the image
//   col2im  y[n, c, h, w] = sum of x[n, (c, i, j), (o, q)] over the windows (o, q) that contain
//           pixel (h, w) at their index (i, j), in ascending order
//
//                     o, q ->
//        c=0  i,j  | x[0, 0] of every window      |     a row of the matrix is the image, shifted
//          |       | x[0, 1]                      |     by (i, j) and subsampled by the stride;
//        c=1       | ...                          |     a thread: an element or a word of y
//
// Any strides. Limits: fewer than 2^32 elements of y; the limits of window.wgsl.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    channels: u32,
    // First elements of y and x.
    offsets: vec4<u32>,
    vertical: WindowAxis,
    horizontal: WindowAxis,
    // Sizes of y; strides of y and x.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

fn im2col(number: u32) -> y_BITS {
    let line = number / u32(params.horizontal.count);
    let q = i32(number - line * u32(params.horizontal.count));
    let element_index = line / u32(params.vertical.count);
    let o = i32(line - element_index * u32(params.vertical.count));
    let tap = image_coord(vec4<u32>(0u, params.channels, u32(params.vertical.kernel), u32(params.horizontal.kernel)), element_index);
    let row = window_start(params.vertical, o) + tap.row * params.vertical.dilation;
    let column = window_start(params.horizontal, q) + tap.column * params.horizontal.dilation;
    if (!is_on_image(params.vertical, row) || !is_on_image(params.horizontal, column)) {
        return 0u;
    }
    return x_bits(plane_at(1u, tap) + pixel_at(1u, row, column));
}

fn col2im(number: u32) -> y_BITS {
    let coord = image_coord(params.sizes[0], number);
    let rows = windows_containing(params.vertical, coord.row);
    let columns = windows_containing(params.horizontal, coord.column);
    // Strides of the matrix: images, rows, columns.
    let strides = params.strides[2];
    let plane = params.offsets.y + coord.image * strides.x;
    var sum = 0.0;
    var i = rows.tap;
    for (var o = rows.first; o <= rows.last; o += params.vertical.window_step) {
        var j = columns.tap;
        for (var q = columns.first; q <= columns.last; q += params.horizontal.window_step) {
            let row = (i32(coord.channel) * params.vertical.kernel + i) * params.horizontal.kernel + j;
            sum += x_at(plane + u32(row) * strides.y + u32(o * params.horizontal.count + q) * strides.z);
            j -= params.horizontal.tap_step;
        }
        i -= params.vertical.tap_step;
    }
    return y_rounded(sum);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
