// Cross-entropy of rows of logits with class indices, and its gradient, for rows.wgsl. Tensors of
// the space of rows: y is the gradient of the logits, x is the logits, d is the gradient of the
// loss, `saved_dloss` is the gradient of the loss that y was computed for. Dense tensors, by their
// index in `extras`: 0 target (`targets`), 1 log_sum, 2 loss. `numbers`: 0 and 1 are the ignored
// index, 2 is target_weight = 1 - label_smoothing, 3 is smoothing_weight = label_smoothing /
// classes.
//
//   m = max x, or 0 if that is infinite;  log_sum = log sum exp(x - m)
//   loss = log_sum - target_weight * (x[target] - m) - smoothing_weight * sum(x - m)
//   y = d * (exp(x - m - log_sum) - target_weight * [c == target] - smoothing_weight)
//
// Ignored rows give 0. An index out of range is recorded; its row gives NaN, and a gradient of 0.

fn loss_wide_from_int(bits: u32) -> vec2<u32> {
    return wide_from_i32(bitcast<i32>(bits));
}

fn loss_wide(bits: vec2<u32>) -> vec2<u32> {
    return bits;
}

fn loss_target(row: u32) -> vec2<u32> {
    return WIDEN(targets_bits(params.extras[0].x + row));
}

fn loss_is_ignored(index: vec2<u32>) -> bool {
    return wide_equal(index, params.numbers[0].xy);
}

fn loss_is_valid(index: vec2<u32>) -> bool {
    return index.y == 0u && index.x < params.length && !loss_is_ignored(index);
}

fn loss_check(at: Member, index: vec2<u32>) {
    if (at.member == 0u && at.part == 0u && !loss_is_valid(index) && !loss_is_ignored(index)) {
        record_index_error(index);
    }
}

fn loss_target_weight() -> f32 {
    return bitcast<f32>(params.numbers[0].z);
}

fn loss_smoothing_weight() -> f32 {
    return bitcast<f32>(params.numbers[0].w);
}

// ---------------------------------------------------------------- forward
//
// The accumulator is that of exponentials, and z is the sum of x - m, w is the number of elements.

// Returns the sum of x - shift over the elements of an accumulator.
fn loss_shifted_sum(acc: vec4<f32>, shift: f32) -> f32 {
    if (acc.w == 0.0) {
        return 0.0;
    }
    return acc.z + acc.w * (finite_or_zero(acc.x) - shift);
}

fn loss_merge(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let merged = exponentials_merge(a, b);
    let shift = finite_or_zero(merged.x);
    return vec4<f32>(merged.xy, loss_shifted_sum(a, shift) + loss_shifted_sum(b, shift), a.w + b.w);
}

fn loss_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    let acc = exponentials_accumulate(at, base);
    if (loss_smoothing_weight() == 0.0) {
        return acc;
    }
    // Reads x again, because label smoothing is rarely used.
    let shift = finite_or_zero(acc.x);
    var sum = 0.0;
    var count = 0.0;
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        sum += x_at(along(1u, base.y, r)) - shift;
        count += 1.0;
    }
    return vec4<f32>(acc.xy, sum, count);
}

// The loss and the logarithm of the sum, written by the first member.
fn loss_write(at: Member, base: vec4<u32>, acc: vec4<f32>, log_sum: f32) {
    if (at.member != 0u || at.part != 0u) {
        return;
    }
    let index = loss_target(at.row);
    var loss_of_row = 0.0;
    if (!loss_is_ignored(index)) {
        loss_of_row = quiet_nan();
    }
    if (loss_is_valid(index)) {
        let difference = x_at(along(1u, base.y, index.x)) - finite_or_zero(acc.x);
        loss_of_row = log_sum - loss_target_weight() * difference;
        if (loss_smoothing_weight() != 0.0) {
            loss_of_row -= loss_smoothing_weight() * acc.z;
        }
    }
    log_sum_put(params.extras[0].y + at.row, log_sum);
    loss_put(params.extras[0].z + at.row, loss_of_row);
}

fn loss_finish(at: Member, base: vec4<u32>, acc: vec4<f32>) {
    loss_check(at, loss_target(at.row));
    loss_write(at, base, acc, log_of_exponentials(acc));
}

fn loss_with_grad_state(at: Member, base: vec4<u32>, acc: vec4<f32>) -> RowState {
    let log_sum = log_of_exponentials(acc);
    loss_write(at, base, acc, log_sum);
    return loss_grad_row_state(at, base, finite_or_zero(acc.x), log_sum);
}

// ---------------------------------------------------------------- gradient

// The largest logit among this thread's elements.
fn loss_max_accumulate(at: Member, base: vec4<u32>) -> f32 {
    var largest = lowest();
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        largest = larger(largest, x_at(along(1u, base.y, r)));
    }
    return largest;
}

const LOSS_NO_TARGET: u32 = 0xffffffffu;

// Maximum, logarithm of the sum, gradient of the loss; and the class of the target, or
// LOSS_NO_TARGET if the row has no gradient.
fn loss_grad_row_state(at: Member, base: vec4<u32>, shift: f32, log_sum: f32) -> RowState {
    let index = loss_target(at.row);
    loss_check(at, index);
    return RowState(vec4<f32>(shift, log_sum, d_at(base.z), 0.0), select(LOSS_NO_TARGET, index.x, loss_is_valid(index)));
}

fn loss_grad_value(at: Member, base: vec4<u32>, state: RowState, r: u32) -> f32 {
    let probability = exponential_of_any((x_at(along(1u, base.y, r)) - state.numbers.x) - state.numbers.y);
    let expected = loss_smoothing_weight() + select(0.0, loss_target_weight(), r == state.index);
    return select(state.numbers.z * (probability - expected), 0.0, state.index == LOSS_NO_TARGET);
}

fn loss_grad_state(at: Member, base: vec4<u32>, largest: f32) -> RowState {
    return loss_grad_row_state(at, base, finite_or_zero(largest), log_sum_at(params.extras[0].y + at.row));
}

// Whether the row's gradient was already computed for this gradient of the loss. Such rows are
// unchanged.
fn loss_grad_is_current(base: vec4<u32>) -> bool {
    return same(d_at(base.z), saved_dloss_at(base.w));
}

fn loss_update_accumulate(at: Member, base: vec4<u32>) -> f32 {
    if (loss_grad_is_current(base)) {
        return lowest();
    }
    return loss_max_accumulate(at, base);
}

fn loss_update_finish(at: Member, base: vec4<u32>, largest: f32) {
    if (loss_grad_is_current(base)) {
        loss_check(at, loss_target(at.row));
        return;
    }
    FINISH_ELEMENTS(at, base, largest);
}

// ---------------------------------------------------------------- vec4 of rows in registers
//
// For exponentials_vec4.wgsl.

// Whether the row's gradient is unchanged.
fn loss_update_skips(at: Member, base: vec4<u32>) -> bool {
    if (!loss_grad_is_current(base)) {
        return false;
    }
    loss_check(at, loss_target(at.row));
    return true;
}

// Reads x again, because label smoothing is rarely used.
fn loss_shifted_sum_of_row(at: Member, is_active: bool, base: vec4<u32>, shift: f32, lane: u32) -> f32 {
    if (loss_smoothing_weight() == 0.0) {
        return 0.0;
    }
    var sum = 0.0;
    for (var r = at.member; is_active && r < params.length; r += MEMBERS) {
        sum += x_at(base.y + r) - shift;
    }
    return TEAM_SUM(sum, lane, 0u);
}

// Whether exponents are finite and not above 0, as they are with the logarithm of a finite row's
// own sum, and the factor is finite.
fn loss_is_finite(state: RowState) -> bool {
    return max(bitcast<u32>(state.numbers.y), abs_bits(state.numbers.z)) < 0x7f800000u;
}

fn loss_grad_values(x: vec4<f32>, state: RowState, number: u32) -> vec4<f32> {
    let probabilities = SOFTMAX(x, state.numbers.x, state.numbers.y);
    var expected = vec4<f32>(loss_smoothing_weight());
    if (state.index - number < 4u) {
        let is_target = vec4<u32>(state.index - number) == vec4<u32>(0u, 1u, 2u, 3u);
        expected += select(vec4<f32>(), vec4<f32>(loss_target_weight()), is_target);
    }
    return select(state.numbers.z, 0.0, state.index == LOSS_NO_TARGET) * (probabilities - expected);
}
