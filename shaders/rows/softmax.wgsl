// Softmax, its logarithm and their gradients for rows.wgsl, along any axis. Tensors of the space of
// rows: y, x, then d.
//
//   softmax            y = exp(x - max x) / sum exp(x - max x)
//   log_softmax        y = (x - max x) - log sum exp(x - max x)
//   softmax_grad       y = x * (d - sum(x * d))
//   log_softmax_grad   y = d - exp(x) * sum(d)
//
// In the gradients, x is the output, d is the gradient of the output, and y is the gradient of the
// input. A row in which all elements are -infinity gives NaN, and so does a row with +infinity or
// NaN.

fn softmax_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    return EXPONENTIAL(x_at(along(1u, base.y, r)) - state.numbers.x) * state.numbers.y;
}

fn log_softmax_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    return (x_at(along(1u, base.y, r)) - state.numbers.x) - state.numbers.y;
}

// The largest number, and the factor of exponentials or the logarithm of their sum.
fn softmax_statistics(at: Member, base: vec4<u32>, acc: vec4<f32>) -> RowState {
    if (is_nan(acc.y) || abs_bits(acc.x) >= 0x7f800000u) {
        return RowState(vec4<f32>(0.0, quiet_nan(), 0.0, 0.0), 0u);
    }
    return RowState(vec4<f32>(acc.x, FACTOR(acc.y), 0.0, 0.0), 0u);
}

fn softmax_factor(sum: f32) -> f32 {
    return 1.0 / sum;
}

fn softmax_grad_term(y: f32, dy: f32) -> f32 {
    return y * dy;
}

fn log_softmax_grad_term(y: f32, dy: f32) -> f32 {
    return dy;
}

fn softmax_grad_accumulate(at: Member, base: vec4<u32>) -> f32 {
    var sum = 0.0;
    let end = part_end(at);
    let step = params.members;
    for (var r = part_begin(at) + at.member; r < end; r += 4u * step) {
#repeat k 4
        let r_#{k} = min(r + #{k}u * step, end - 1u);
        let term_#{k} = GRAD_TERM(x_at(along(1u, base.y, r_#{k})), d_at(along(2u, base.z, r_#{k})));
#end
        sum += term_0;
#repeat k 3
        sum += select(0.0, term_#{k+1}, r + #{k+1}u * step < end);
#end
    }
    return sum;
}

fn softmax_grad_state(at: Member, base: vec4<u32>, sum: f32) -> RowState {
    return RowState(vec4<f32>(sum, 0.0, 0.0, 0.0), 0u);
}

fn softmax_grad_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    return x_at(along(1u, base.y, r)) * (d_at(along(2u, base.z, r)) - state.numbers.x);
}

fn log_softmax_grad_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    return d_at(along(2u, base.z, r)) - exponential_of_any(x_at(along(1u, base.y, r))) * state.numbers.x;
}

// ---------------------------------------------------------------- vec4 of rows in registers
//
// For exponentials_vec4.wgsl and sums_vec4.wgsl.

fn skip_nothing(at: Member, base: vec4<u32>) -> bool {
    return false;
}

fn no_shifted_sum(at: Member, is_active: bool, base: vec4<u32>, shift: f32, lane: u32) -> f32 {
    return 0.0;
}

fn softmax_values(x: vec4<f32>, state: RowState, number: u32) -> vec4<f32> {
    return EXPONENTIALS(x, state.numbers.x) * state.numbers.y;
}

// Computes a vec4 of y from exponentials that are kept in registers.
fn softmax_kept_values(exponentials: vec4<f32>, state: RowState, number: u32) -> vec4<f32> {
    return exponentials * state.numbers.y;
}

fn log_softmax_values(x: vec4<f32>, state: RowState, number: u32) -> vec4<f32> {
    return (x - state.numbers.x) - state.numbers.y;
}

fn softmax_grad_terms(y: vec4<f32>, dy: vec4<f32>) -> vec4<f32> {
    return y * dy;
}

fn log_softmax_grad_terms(y: vec4<f32>, dy: vec4<f32>) -> vec4<f32> {
    return dy;
}

fn softmax_grad_sum(sum: f32, squares: f32) -> f32 {
    return sum;
}

fn softmax_grad_values(y: vec4<f32>, dy: vec4<f32>, state: RowState, quad: u32) -> vec4<f32> {
    return y * (dy - state.numbers.x);
}

fn log_softmax_grad_values(y: vec4<f32>, dy: vec4<f32>, state: RowState, quad: u32) -> vec4<f32> {
    return dy - EXPONENTIALS_OF_ANY(y) * state.numbers.x;
}
