// Softmax, its logarithm and their gradients for rows.wgsl, along any axis; tensors of the space of rows: y, x, then d.
//
//   softmax          y = exp(x - max x) / sum exp(x - max x)
//   log_softmax      y = (x - max x) - log sum exp(x - max x)
//   softmax_grad     x is the output, d the gradient of it, y the gradient of the input: y = x * (d - sum(x * d))
//   log_softmax_grad                                                                     y = d - exp(x) * sum(d)
//
// A row of only -infinity gives NaN, and so does one with +infinity or NaN.

fn softmax_element(x: f32, statistics: vec2<f32>) -> f32 {
    return exponential(x - statistics.x) * statistics.y;
}

fn log_softmax_element(x: f32, statistics: vec2<f32>) -> f32 {
    return (x - statistics.x) - statistics.y;
}

// The largest number, and the factor of exponentials or the logarithm of their sum.
fn softmax_statistics(acc: vec4<f32>) -> vec2<f32> {
    if (is_nan(acc.y) || size_bits(acc.x) >= 0x7f800000u) {
        return vec2<f32>(0.0, quiet_nan());
    }
    return vec2<f32>(acc.x, 1.0 / acc.y);
}

fn log_softmax_statistics(acc: vec4<f32>) -> vec2<f32> {
    if (is_nan(acc.y) || size_bits(acc.x) >= 0x7f800000u) {
        return vec2<f32>(0.0, quiet_nan());
    }
    return vec2<f32>(acc.x, log_of(acc.y));
}

fn softmax_finish(at: Member, base: vec4<u32>, acc: vec4<f32>) {
    let statistics = STATISTICS(acc);
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        y_put(along(0u, base.x, r), ELEMENT(x_at(along(1u, base.y, r)), statistics));
    }
}

fn softmax_slope_term(y: f32, dy: f32) -> f32 {
    return y * dy;
}

fn log_softmax_slope_term(y: f32, dy: f32) -> f32 {
    return dy;
}

fn softmax_slope(y: f32, dy: f32, sum: f32) -> f32 {
    return y * (dy - sum);
}

fn log_softmax_slope(y: f32, dy: f32, sum: f32) -> f32 {
    return dy - exponential_of_any(y) * sum;
}

fn softmax_grad_gather(at: Member, base: vec4<u32>) -> f32 {
    var sum = 0.0;
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        sum += SLOPE_TERM(x_at(along(1u, base.y, r)), d_at(along(2u, base.z, r)));
    }
    return sum;
}

fn softmax_grad_finish(at: Member, base: vec4<u32>, sum: f32) {
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        let slope = SLOPE(x_at(along(1u, base.y, r)), d_at(along(2u, base.z, r)), sum);
        y_put(along(0u, base.x, r), slope);
    }
}
