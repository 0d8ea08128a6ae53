// Gathering along an axis: y[.., i, ..] = x[.., index[.., i, ..], ..].
//
//   y, index   one shape, any strides; a vector of positions has stride 0 along all axes but one
//   x          as y, except along the axis, where it has `size` elements
//
// Only bits are moved. A position outside the axis is never accessed: its element of y is 0, and
// the first such position is recorded for the host. POSITION converts an element of index to two
// words. Limits: fewer than 2^32 elements.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // The id of the check of indices, for the record of an index out of range.
    index_check: u32,
    // First elements of y, index, x.
    offsets: vec4<u32>,
    // Elements of x along the axis, and their stride.
    size: u32,
    step: u32,
    _padding: vec2<u32>,
    // Sizes, and strides of y, index, and x without its axis.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

fn gathered(number: u32) -> y_BITS {
    let position = POSITION(index_bits(strided_index(1u, number)));
    if (position.y != 0u || position.x >= params.size) {
        record_index_error(position);
        return y_BITS();
    }
    return x_bits(strided_index(2u, number) + position.x * params.step);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
