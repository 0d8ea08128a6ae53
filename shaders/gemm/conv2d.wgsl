// Convolutions and their two gradients, as matrix products whose right operand is read directly
// from an image (implicit GEMM). There is one product for each group of channels, with the tiles of
// tile.wgsl, which has a figure:
//
//                       y [rows][columns]         left [rows][inner]        right [inner][columns]
//   conv2d              [out][batch, oh, ow]      weight, inner (c, i, j)   x  [batch, channels,
//                                                                           height, width]
//   conv2d_grad_input   [channels][batch, h, w]   weight, inner (o, i, j)   dy [batch, out, oh, ow]
//   conv2d_grad_weight  [out][channels, kh, kw]   dy, inner (n, oh, ow)     x
//
// Column indices and inner indices are each (outer, r, c), with sizes `columns` and `inners`. RIGHT
// is patch_value or spread_value. patch_value reads the image at r * step of the column + r * step
// of the inner index - padding. spread_value reads it where a column's r + padding minus r * step
// of the inner index is a multiple of the column's step. OUTPUT is index_of_part if the launch
// writes partial sums [splits][groups][rows][columns] (split-K), else index_of_whole. Products with
// few rows and many columns use tile_few_rows. Limits: fewer than 2^30 pixels along an axis.

struct Parameters {
    launched: u32,
    // Elements of y.
    count: u32,
    m: u32,
    n: u32,
    k: u32,
    // Number of partial sums of each element (split-K), and inner indices of each partial sum.
    splits: u32,
    split_length: u32,
    // 1: a bias for each row.
    with_bias: u32,
    // Sizes of r and c, and steps.
    columns: vec4<u32>,
    inners: vec4<u32>,
    // Padding; height and width of the image.
    image: vec4<u32>,
    // First elements of y, a (left), b (right), bias.
    offsets: vec4<u32>,
    // Distance from one group of channels to the next in y, a, b; the stride of bias.
    groups: vec4<u32>,
    // Strides: rows, then outer, r, c of the columns.
    y: vec4<u32>,
    // Strides: rows, then outer, r, c of the inner indices.
    left: vec4<u32>,
    // Strides: outer of the columns, outer of the inner indices, then rows and columns of pixels.
    right: vec4<u32>,
}

// A row or column outside of every image.
const OUTSIDE: u32 = 0x40000000u;

// First elements of the current group of channels in y, a and b.
var<private> y_group: u32;
var<private> a_group: u32;
var<private> b_group: u32;
// The group's first row, counted over all groups, and the first element of the partial sum.
var<private> first_row: u32;
var<private> first_part: u32;

fn begin(group: u32, split: u32) {
    y_group = params.offsets.x + group * params.groups.x;
    a_group = params.offsets.y + group * params.groups.y;
    b_group = params.offsets.z + group * params.groups.z;
    first_row = group * params.m;
    first_part = split * params.count;
}

// Returns the (outer, r, c) of an index.
fn parts_of(number: u32, sizes: vec4<u32>) -> vec3<u32> {
    let across = number / sizes.y;
    let outer = across / sizes.x;
    return vec3<u32>(outer, across - outer * sizes.x, number - across * sizes.y);
}

// Returns the first element of a row of the left operand, and 1 if the row exists.
fn left_line(row: u32) -> vec3<u32> {
    return vec3<u32>(a_group + row * params.left.x, u32(row < params.m), 0u);
}

fn left_value(line: vec3<u32>, inner: u32) -> f32 {
    if (line.y == 0u) {
        return 0.0;
    }
    let parts = parts_of(inner, params.inners);
    return a_at(line.x + parts.x * params.left.y + parts.y * params.left.z + parts.z * params.left.w);
}

// Returns the first element of a column's image, and the pixel from which the column reads: its row
// and column.
fn right_line(column: u32) -> vec3<u32> {
    if (column >= params.n) {
        return vec3<u32>(0u, OUTSIDE, OUTSIDE);
    }
    let parts = parts_of(column, params.columns);
    return vec3<u32>(b_group + parts.x * params.right.x, ELEMENT_INDEX(parts.y, 0u), ELEMENT_INDEX(parts.z, 1u));
}

fn right_value(line: vec3<u32>, inner: u32) -> f32 {
    return RIGHT(line, parts_of(inner, params.inners));
}

// Returns the first pixel of a patch along an axis. If it is before the image, it wraps to a number
// that is outside the image.
fn patch_index(number: u32, axis: u32) -> u32 {
    return number * params.columns[2u + axis] - params.image[axis];
}

fn patch_value(line: vec3<u32>, inner: vec3<u32>) -> f32 {
    let down = line.y + inner.y * params.inners.z;
    let across = line.z + inner.z * params.inners.w;
    if (down >= params.image.z || across >= params.image.w) {
        return 0.0;
    }
    return b_at(line.x + inner.x * params.right.y + down * params.right.z + across * params.right.w);
}

// Returns the pixel of a column along an axis, counted with padding.
fn spread_index(number: u32, axis: u32) -> u32 {
    return number + params.image[axis];
}

fn spread_value(line: vec3<u32>, inner: vec3<u32>) -> f32 {
    let back_down = inner.y * params.inners.z;
    let back_across = inner.z * params.inners.w;
    if (line.y < back_down || line.z < back_across) {
        return 0.0;
    }
    let down = (line.y - back_down) / params.columns.z;
    let across = (line.z - back_across) / params.columns.w;
    let between = down * params.columns.z != line.y - back_down || across * params.columns.w != line.z - back_across;
    if (between || down >= params.image.z || across >= params.image.w) {
        return 0.0;
    }
    return b_at(line.x + inner.x * params.right.y + down * params.right.z + across * params.right.w);
}

fn apply_epilogue(row: u32, column: u32, element_index: u32, sum: f32) -> f32 {
    if (params.with_bias != 0u) {
        return sum + bias_at(params.offsets.w + (first_row + row) * params.groups.w);
    }
    return sum;
}

fn index_of(row: u32, column: u32) -> u32 {
    return OUTPUT(row, column);
}

fn index_of_part(row: u32, column: u32) -> u32 {
    return first_part + (first_row + row) * params.n + column;
}

fn index_of_whole(row: u32, column: u32) -> u32 {
    let parts = parts_of(column, params.columns);
    return y_group + row * params.y.x + parts.x * params.y.y + parts.y * params.y.z + parts.z * params.y.w;
}

// ---------------------------------------------------------------- few rows
//
// For images or groups of few channels.

// A thread has one column and ROWS rows of it. The outer loops are over the indices of a patch, so
// that whether an index is outside the image is determined once for all channels.
fn tile_few_rows(group: u32, lane: u32) {
    let columns = (params.n + 255u) / 256u;
    let teams = (params.m + ROWS - 1u) / ROWS;
    let column = group % columns * 256u + lane;
    let row = group / columns % teams * ROWS;
    begin(group / columns / teams, 0u);
    if (column >= params.n) {
        return;
    }
    let line = right_line(column);
    let outer = params.k / (params.inners.x * params.inners.y);
#repeat j ROWS
    let left_#{j} = a_group + min(row + #{j}u, params.m - 1u) * params.left.x;
    var sum_#{j} = 0.0;
#end
    for (var r = 0u; r < params.inners.x; r += 1u) {
        let down = PIXEL(line.y, r, 0u);
        for (var c = 0u; c < params.inners.y; c += 1u) {
            let across = PIXEL(line.z, c, 1u);
            if (down == OUTSIDE || across == OUTSIDE) {
                continue;
            }
            var left = r * params.left.z + c * params.left.w;
            var right = line.x + down * params.right.z + across * params.right.w;
            var o = 0u;
            // Four channels are in flight at the same time.
            for (; o + 3u < outer; o += 4u) {
#repeat u 4
                let value_#{u} = b_at(right + #{u}u * params.right.y);
#end
#repeat j ROWS
#repeat u 4
                sum_#{j} += a_at(left_#{j} + left + #{u}u * params.left.y) * value_#{u};
#end
#end
                left += 4u * params.left.y;
                right += 4u * params.right.y;
            }
            for (; o < outer; o += 1u) {
                let value = b_at(right);
#repeat j ROWS
                sum_#{j} += a_at(left_#{j} + left) * value;
#end
                left += params.left.y;
                right += params.right.y;
            }
        }
    }
#repeat j ROWS
    if (row + #{j}u < params.m) {
        store_element(row + #{j}u, column, sum_#{j});
    }
#end
}

// The pixel, along one axis, at an index of a patch, or OUTSIDE.
fn patch_pixel(first: u32, number: u32, axis: u32) -> u32 {
    let pixel = first + number * params.inners[2u + axis];
    return select(OUTSIDE, pixel, pixel < params.image[2u + axis]);
}

fn spread_pixel(element_index: u32, number: u32, axis: u32) -> u32 {
    let back = number * params.inners[2u + axis];
    let step = params.columns[2u + axis];
    let pixel = (element_index - back) / step;
    let exists = element_index >= back && pixel * step == element_index - back && pixel < params.image[2u + axis];
    return select(OUTSIDE, pixel, exists);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number < params.launched) {
        TILE(number, lane);
    }
}
