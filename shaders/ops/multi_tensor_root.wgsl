// y = the root of the sum of `count` partial sums from multi_tensor.wgsl: the norm of all elements
// of many tensors. One workgroup.

struct Parameters {
    launched: u32,
    count: u32,
    // First element of y.
    offset: u32,
    _padding: u32,
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) lane: u32) {
    var sum = vec4<f32>();
    for (var part = lane; part < params.count; part += 256u) {
        sum += parts_vec4(part);
    }
    sum = squares_of_group(sum, lane);
    if (lane == 0u) {
        y_put(params.offset, root_of_squares(sum));
    }
}
