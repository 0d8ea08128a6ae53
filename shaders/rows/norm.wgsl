// Normalizations and their gradients for rows.wgsl. A row consists of the elements that are
// normalized together: the last axis (layer, RMS), or all elements of a channel (batch). Tensors of
// the space of rows: y, x, then d. Dense tensors, by their index in `extras`: 0 weight, 1 bias, 2
// mean, 3 reciprocal standard deviation or variance, 4 and 5 the gradients of weight and bias.
// `numbers`: 0 is eps, 1 is 1 / length.
//
//   forward   n = (x - mean) * r, r = 1 / sqrt(mean (x - mean)^2 + eps): y = n * weight + bias
//             RMS: mean = 0
//   gradient  d is the gradient of y, y is the gradient of x; g = d * weight:
//             y = r * (g - mean(g) - n * mean(g * n))             RMS: without mean(g)
//             dweight = sum of d * n, dbias = sum of d: over all rows (layer, RMS; for these sums,
//             rows of the launch are columns), or over the channel
//
// WEIGHT(row, r) and BIAS(row, r) return the parameters of an element.

fn norm_eps() -> f32 {
    return bitcast<f32>(params.numbers[0].x);
}

fn norm_inverse_length() -> f32 {
    return bitcast<f32>(params.numbers[0].y);
}

fn norm_weight_of_element(row: u32, r: u32) -> f32 {
    return weight_at(params.extras[0].x + r);
}

fn norm_bias_of_element(row: u32, r: u32) -> f32 {
    return bias_at(params.extras[0].y + r);
}

fn norm_weight_of_row(row: u32, r: u32) -> f32 {
    return weight_at(params.extras[0].x + row);
}

fn norm_bias_of_row(row: u32, r: u32) -> f32 {
    return bias_at(params.extras[0].y + row);
}

fn norm_no_weight(row: u32, r: u32) -> f32 {
    return 1.0;
}

fn norm_no_bias(row: u32, r: u32) -> f32 {
    return 0.0;
}

// ---------------------------------------------------------------- forward

fn norm_squares_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var sum = 0.0;
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        let x = x_at(along(1u, base.y, r));
        sum += x * x;
    }
    return vec4<f32>(0.0, 0.0, sum, 0.0);
}

// Mean and reciprocal standard deviation, written for the row.
fn norm_layer_statistics(row: u32, writes: bool, acc: vec4<f32>) -> vec2<f32> {
    let mean = moments_mean(acc);
    let reciprocal = unary_rsqrt(moments_variance(acc, acc.x) + norm_eps());
    if (writes) {
        mean_put(params.extras[0].z + row, mean);
        reciprocal_put(params.extras[0].w + row, reciprocal);
    }
    return vec2<f32>(mean, reciprocal);
}

fn norm_rms_statistics(row: u32, writes: bool, acc: vec4<f32>) -> vec2<f32> {
    let reciprocal = unary_rsqrt(moments_variance(acc, f32(params.length)) + norm_eps());
    if (writes) {
        reciprocal_put(params.extras[0].w + row, reciprocal);
    }
    return vec2<f32>(0.0, reciprocal);
}

fn norm_batch_statistics(row: u32, writes: bool, acc: vec4<f32>) -> vec2<f32> {
    let mean = moments_mean(acc);
    let variance = moments_variance(acc, acc.x);
    if (writes) {
        mean_put(params.extras[0].z + row, mean);
        reciprocal_put(params.extras[0].w + row, variance);
    }
    return vec2<f32>(mean, unary_rsqrt(variance + norm_eps()));
}

fn norm_state(at: Member, base: vec4<u32>, acc: vec4<f32>) -> RowState {
    let statistics = STATISTICS(at.row, at.member == 0u && at.part == 0u, acc);
    return RowState(vec4<f32>(statistics, 0.0, 0.0), 0u);
}

fn norm_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    let normal = (x_at(along(1u, base.y, r)) - state.numbers.x) * state.numbers.y;
    return normal * WEIGHT(at.row, r) + BIAS(at.row, r);
}

// ---------------------------------------------------------------- gradient

// The statistics of a row that the forward pass saved.
fn norm_layer_saved(row: u32) -> vec2<f32> {
    return vec2<f32>(mean_at(params.extras[0].z + row), reciprocal_at(params.extras[0].w + row));
}

fn norm_rms_saved(row: u32) -> vec2<f32> {
    return vec2<f32>(0.0, reciprocal_at(params.extras[0].w + row));
}

fn norm_batch_saved(row: u32) -> vec2<f32> {
    return vec2<f32>(mean_at(params.extras[0].z + row), unary_rsqrt(reciprocal_at(params.extras[0].w + row) + norm_eps()));
}

// The sums of g and of g * n.
fn norm_grad_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    let statistics = SAVED(at.row);
    var sum = 0.0;
    var sum_along = 0.0;
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        let g = d_at(along(2u, base.z, r)) * WEIGHT(at.row, r);
        sum += g;
        sum_along += g * ((x_at(along(1u, base.y, r)) - statistics.x) * statistics.y);
    }
    return vec4<f32>(sum, sum_along, 0.0, 0.0);
}

fn norm_centered(sum: f32) -> f32 {
    return sum * norm_inverse_length();
}

fn norm_uncentered(sum: f32) -> f32 {
    return 0.0;
}

// Mean, reciprocal standard deviation, the means of g and of g * n.
fn norm_grad_state(at: Member, base: vec4<u32>, acc: vec4<f32>) -> RowState {
    return RowState(vec4<f32>(SAVED(at.row), CENTER(acc.x), acc.y * norm_inverse_length()), 0u);
}

fn norm_grad_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    let normal = (x_at(along(1u, base.y, r)) - state.numbers.x) * state.numbers.y;
    let g = d_at(along(2u, base.z, r)) * WEIGHT(at.row, r);
    return state.numbers.y * ((g - state.numbers.z) - normal * state.numbers.w);
}

// The weight is constant in a channel, so it is left out of the sums, which are then the gradients
// of the parameters.
//
// The state is the mean; the product of weight and reciprocal standard deviation; the mean of d;
// the factor of x - mean.
fn norm_batch_grad_state(at: Member, base: vec4<u32>, acc: vec4<f32>) -> RowState {
    if (at.member == 0u && at.part == 0u) {
        PARAMETER_GRADS(at.row, acc);
    }
    let statistics = SAVED(at.row);
    let factor = statistics.y * ROW_WEIGHT(at.row, 0u);
    let mean_along = acc.y * norm_inverse_length() * statistics.y;
    return RowState(vec4<f32>(statistics.x, factor, acc.x * norm_inverse_length(), mean_along), 0u);
}

fn norm_batch_grad_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    let centered = x_at(along(1u, base.y, r)) - state.numbers.x;
    return state.numbers.y * ((d_at(along(2u, base.z, r)) - state.numbers.z) - centered * state.numbers.w);
}

// ---------------------------------------------------------------- gradients of the parameters

// For layer and RMS: a row of this launch is a column of x, over the space of a row's elements.
fn norm_columns_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var sum = 0.0;
    var sum_along = 0.0;
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        let statistics = SAVED(r);
        let d = d_at(along(2u, base.z, r));
        sum += d;
        sum_along += d * ((x_at(along(1u, base.y, r)) - statistics.x) * statistics.y);
    }
    return vec4<f32>(sum, sum_along, 0.0, 0.0);
}

// Stores two elements of a row that begins at `base`, except those beyond its end.
fn norm_store_each(base: u32, first: u32, second: u32, values: vec2<f32>) {
    if (first < params.length) {
        y_put(along(0u, base, first), values.x);
    }
    if (second < params.length) {
        y_put(along(0u, base, second), values.y);
    }
}

// For two neighbors that share a word.
fn norm_store_pair(base: u32, first: u32, second: u32, values: vec2<f32>) {
    if (first < params.length) {
        y_put_word(along(0u, base, first) / 2u, y_rounded(values.x) | (y_rounded(values.y) << 16u));
    }
}

// Adds the sums that norm_grad.wgsl wrote: rows of this launch are columns, and their elements are
// teams.
fn norm_teams_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var sums = vec2<f32>(0.0);
    let end = part_end(at);
    let step = params.members;
    var team = part_begin(at) + at.member;
    for (; team + 3u * step < end; team += 4u * step) {
#repeat k 4
        let sums_#{k} = bitcast<vec2<f32>>(teams_bits((team + #{k}u * step) * params.rows + at.row));
#end
        sums += (sums_0 + sums_1) + (sums_2 + sums_3);
    }
    for (; team < end; team += step) {
        sums += bitcast<vec2<f32>>(teams_bits(team * params.rows + at.row));
    }
    return vec4<f32>(sums, 0.0, 0.0);
}

fn norm_put_nothing(row: u32, acc: vec4<f32>) {
}

fn norm_put_weight(row: u32, acc: vec4<f32>) {
    dweight_put(params.extras[1].x + row, acc.y);
}

fn norm_put_bias(row: u32, acc: vec4<f32>) {
    dbias_put(params.extras[1].y + row, acc.x);
}

fn norm_put_both(row: u32, acc: vec4<f32>) {
    norm_put_weight(row, acc);
    norm_put_bias(row, acc);
}

// The gradients of a channel are stored one after another in one tensor, because a shader binds no
// more than eight tensors.
fn norm_put_channel(row: u32, acc: vec4<f32>) {
    dparameters_put(row, acc.y);
    dparameters_put(params.rows + row, acc.x);
}

fn norm_columns_finish(at: Member, base: vec4<u32>, acc: vec4<f32>) {
    if (at.member == 0u) {
        PARAMETER_GRADS(at.row, acc);
    }
}

// ---------------------------------------------------------------- vec4 of rows in registers
//
// For sums_vec4.wgsl and norm_grad_vec4.wgsl.

fn norm_weights(quad: u32) -> vec4<f32> {
    return VEC4_OF(weight_words(params.extras[0].x / 4u + quad));
}

fn norm_no_weights(quad: u32) -> vec4<f32> {
    return vec4<f32>(1.0);
}

fn norm_biases(quad: u32) -> vec4<f32> {
    return VEC4_OF(bias_words(params.extras[0].y / 4u + quad));
}

fn norm_no_biases(quad: u32) -> vec4<f32> {
    return vec4<f32>();
}

fn norm_terms(x: vec4<f32>, d: vec4<f32>) -> vec4<f32> {
    return x;
}

fn norm_square_terms(x: vec4<f32>, d: vec4<f32>) -> vec4<f32> {
    return x * x;
}

// Returns the accumulator that STATISTICS reads: with RMS, `sum` is that of squares.
fn norm_layer_moments(sum: f32, squares: f32) -> vec4<f32> {
    return vec4<f32>(f32(params.length), sum, squares, 0.0);
}

fn norm_rms_moments(sum: f32, squares: f32) -> vec4<f32> {
    return vec4<f32>(0.0, 0.0, sum, 0.0);
}

fn norm_values(x: vec4<f32>, d: vec4<f32>, state: RowState, quad: u32) -> vec4<f32> {
    return (x - state.numbers.x) * state.numbers.y * WEIGHTS(quad) + BIASES(quad);
}
