// Reductions for rows.wgsl: y[o] = LEAVE(merge of ENTER(x[o, r], r) over all r), for any axes and
// strides. A row consists of the elements that are reduced to one result. Tensors of the space of
// rows: y, x. `numbers`: 0 is the divisor of a mean or variance, as bits of an f32.

fn reduce_accumulate(at: Member, base: vec4<u32>) -> Acc {
    var acc = START();
    let end = part_end(at);
    let step = params.members;
    var r = part_begin(at) + at.member;
    // Four reads are in flight at the same time.
    while (r + 3u * step < end) {
        let a = ENTER(x_at(along(1u, base.y, r)), r);
        let b = ENTER(x_at(along(1u, base.y, r + step)), r + step);
        let c = ENTER(x_at(along(1u, base.y, r + 2u * step)), r + 2u * step);
        let d = ENTER(x_at(along(1u, base.y, r + 3u * step)), r + 3u * step);
        acc = MERGE(acc, MERGE(MERGE(a, b), MERGE(c, d)));
        r += 4u * step;
    }
    while (r < end) {
        acc = MERGE(acc, ENTER(x_at(along(1u, base.y, r)), r));
        r += step;
    }
    return acc;
}

// For rows of floats that begin at a vec4 and consist of whole vec4. Eight reads of vec4 are in
// flight at the same time.
fn reduce_vec4_accumulate(at: Member, base: vec4<u32>) -> Acc {
    var acc = START();
    let first = base.y / 4u;
    let end = part_end(at) / 4u;
    let step = params.members;
    var quad = part_begin(at) / 4u + at.member;
    for (; quad + 7u * step < end; quad += 8u * step) {
#repeat k 8
        let quad_#{k} = x_vec4(first + quad + #{k}u * step);
#end
#repeat k 8
        acc = MERGE(acc, reduce_vec4(quad_#{k}, quad + #{k}u * step));
#end
    }
    for (; quad < end; quad += step) {
        acc = MERGE(acc, reduce_vec4(x_vec4(first + quad), quad));
    }
    return acc;
}

fn reduce_vec4(x: vec4<f32>, quad: u32) -> Acc {
    let r = 4u * quad;
    return MERGE(MERGE(ENTER(x.x, r), ENTER(x.y, r + 1u)), MERGE(ENTER(x.z, r + 2u), ENTER(x.w, r + 3u)));
}

fn reduce_finish(at: Member, base: vec4<u32>, acc: Acc) {
    if (at.member == 0u) {
        y_put(base.x, LEAVE(acc));
    }
}

// ---------------------------------------------------------------- numbers of the class

fn reduce_plain(x: C, r: u32) -> C {
    return x;
}

fn reduce_identity(acc: C) -> C {
    return acc;
}

fn reduce_square(x: f32, r: u32) -> f32 {
    return x * x;
}

fn reduce_abs(x: f32, r: u32) -> f32 {
    return abs_of(x);
}

// The mean of no elements is NaN, as 0 / 0.
fn reduce_mean(acc: f32) -> f32 {
    if (params.numbers[0].x == 0u) {
        return quiet_nan();
    }
    return acc / bitcast<f32>(params.numbers[0].x);
}

// ---------------------------------------------------------------- positions
//
// The first of the best values; the first NaN wins.

struct Position {
    value: C,
    at: u32,
}

const NO_POSITION: u32 = 0xffffffffu;

fn position_start() -> Position {
    return Position(zero(), NO_POSITION);
}

fn position_enter(x: C, r: u32) -> Position {
    return Position(x, r);
}

fn position_larger(a: C, b: C) -> bool {
    return less(b, a);
}

fn position_smaller(a: C, b: C) -> bool {
    return less(a, b);
}

fn position_merge(a: Position, b: Position) -> Position {
    let a_nan = is_nan(a.value);
    let b_nan = is_nan(b.value);
    let better = select(!a_nan && BETTER(b.value, a.value), !a_nan, b_nan);
    let equal = (a_nan && b_nan) || same(a.value, b.value);
    let take_b = a.at == NO_POSITION || (b.at != NO_POSITION && (better || (equal && b.at < a.at)));
    if (take_b) {
        return b;
    }
    return a;
}

fn position_leave(acc: Position) -> i32 {
    return i32(acc.at);
}

fn position_from_lane(acc: Position, lane: u32) -> Position {
    return Position(subgroupShuffle(acc.value, lane), subgroupShuffle(acc.at, lane));
}

fn position_words(acc: Position) -> vec4<u32> {
    return vec4<u32>(NUMBER_WORDS(acc.value), acc.at, 0u);
}

fn position_from(words: vec4<u32>) -> Position {
    return Position(number_from(words.xy), words.z);
}

// ---------------------------------------------------------------- words of a number

fn plain_words(acc: C) -> vec4<u32> {
    return vec4<u32>(NUMBER_WORDS(acc), 0u, 0u);
}

fn plain_from(words: vec4<u32>) -> C {
    return number_from(words.xy);
}

fn words_of_float(x: f32) -> vec2<u32> {
    return vec2<u32>(bitcast<u32>(x), 0u);
}

fn words_of_int(x: i32) -> vec2<u32> {
    return vec2<u32>(bitcast<u32>(x), 0u);
}

fn words_of_byte(x: u32) -> vec2<u32> {
    return vec2<u32>(x, 0u);
}

fn words_of_wide(x: vec2<u32>) -> vec2<u32> {
    return x;
}

// ---------------------------------------------------------------- log(sum of e^x)

fn reduce_log_sum(acc: vec4<f32>) -> f32 {
    let log_sum = log_of_exponentials(acc);
    return select(log_sum, acc.x + log_sum, abs_bits(log_sum) < 0x7f800000u);
}

// ---------------------------------------------------------------- moments
//
// x is the count, y the sum, z the sum of (x - mean)^2.

fn moments_start() -> vec4<f32> {
    return vec4<f32>(0.0);
}

// Chan, Golub and LeVeque 1979, eq. 2.1: avoids differences of large sums.
fn moments_merge(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    if (a.x == 0.0 || b.x == 0.0) {
        return a + b;
    }
    let count = a.x + b.x;
    let difference = b.y / b.x - a.y / a.x;
    return vec4<f32>(count, a.y + b.y, a.z + b.z + difference * difference * (a.x * b.x / count), 0.0);
}

// Four numbers at a time, whose moments need no division. The deviation of a non-finite number from
// its mean is NaN.
fn moments_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var acc = moments_start();
    let end = part_end(at);
    let step = params.members;
    var r = part_begin(at) + at.member;
    while (r + 3u * step < end) {
        let quad = vec4<f32>(x_at(along(1u, base.y, r)), x_at(along(1u, base.y, r + step)), x_at(along(1u, base.y, r + 2u * step)), x_at(along(1u, base.y, r + 3u * step)));
        let sum = (quad.x + quad.y) + (quad.z + quad.w);
        let centered = quad - sum * 0.25;
        let finite = all((bitcast<vec4<u32>>(quad) & vec4<u32>(0x7fffffffu)) < vec4<u32>(0x7f800000u));
        acc = moments_merge(acc, vec4<f32>(4.0, sum, select(quiet_nan(), dot(centered, centered), finite), 0.0));
        r += 4u * step;
    }
    while (r < end) {
        let x = x_at(along(1u, base.y, r));
        acc = moments_merge(acc, vec4<f32>(1.0, x, select(quiet_nan(), 0.0, abs_bits(x) < 0x7f800000u), 0.0));
        r += step;
    }
    return acc;
}

fn moments_mean(acc: vec4<f32>) -> f32 {
    if (acc.x == 0.0) {
        return quiet_nan();
    }
    return acc.y / acc.x;
}

// The divisor is 0 or more; 0 / 0 is NaN.
fn moments_variance(acc: vec4<f32>, divisor: f32) -> f32 {
    if (abs_bits(divisor) == 0u) {
        return select(infinity(), quiet_nan(), abs_bits(acc.z) == 0u || is_nan(acc.z));
    }
    return acc.z / divisor;
}

// ---------------------------------------------------------------- deviations
//
// x is the count, y the mean, z the sum of (x - mean)^2, and w the same sum in units of 2^128, for
// deviations whose squares overflow.

// 2^64. Its square is the unit of w: squares of deviations in units of 2^64 do not overflow.
const SQUARED_UNIT: f32 = 18446744073709551616.0;
const PER_UNIT: f32 = 1.0 / 18446744073709551616.0;

fn deviations_start() -> vec4<f32> {
    return vec4<f32>(0.0);
}

// As moments_merge, but with means, which do not overflow as sums do.
fn deviations_merge(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    if (a.x == 0.0 || b.x == 0.0) {
        return a + b;
    }
    let count = a.x + b.x;
    let share = b.x / count;
    let difference = b.y - a.y;
    let in_units = b.y * PER_UNIT - a.y * PER_UNIT;
    let weight = a.x * share;
    let mean = select(a.y * (a.x / count) + b.y * share, a.y + difference * share, abs_bits(difference) < 0x7f800000u);
    return vec4<f32>(count, mean, a.z + b.z + difference * difference * weight, a.w + b.w + in_units * in_units * weight);
}

// Returns the accumulator of up to four numbers; NaN sums if they are not all finite.
fn deviations_of(mean: f32, z: f32, w: f32, count: f32, finite: bool) -> vec4<f32> {
    return select(vec4<f32>(count, 0.0, quiet_nan(), quiet_nan()), vec4<f32>(count, mean, z, w), finite);
}

// Four numbers at a time, whose moments need no division. The deviation of a non-finite number from
// its mean is NaN.
fn deviations_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var acc = deviations_start();
    let end = part_end(at);
    let step = params.members;
    var r = part_begin(at) + at.member;
    while (r + 3u * step < end) {
        let quad = vec4<f32>(x_at(along(1u, base.y, r)), x_at(along(1u, base.y, r + step)), x_at(along(1u, base.y, r + 2u * step)), x_at(along(1u, base.y, r + 3u * step)));
        let sum = (quad.x + quad.y) + (quad.z + quad.w);
        let quarter = 0.25 * quad;
        let mean = select((quarter.x + quarter.y) + (quarter.z + quarter.w), sum * 0.25, abs_bits(sum) < 0x7f800000u);
        let centered = quad - mean;
        let in_units = quad * PER_UNIT - mean * PER_UNIT;
        let finite = all((bitcast<vec4<u32>>(quad) & vec4<u32>(0x7fffffffu)) < vec4<u32>(0x7f800000u));
        acc = deviations_merge(acc, deviations_of(mean, dot(centered, centered), dot(in_units, in_units), 4.0, finite));
        r += 4u * step;
    }
    while (r < end) {
        let x = x_at(along(1u, base.y, r));
        acc = deviations_merge(acc, deviations_of(x, 0.0, 0.0, 1.0, abs_bits(x) < 0x7f800000u));
        r += step;
    }
    return acc;
}

fn reduce_variance(acc: vec4<f32>) -> f32 {
    let divisor = bitcast<f32>(params.numbers[0].x);
    if (abs_bits(acc.z) == 0x7f800000u) {
        // `opaque`, because compilers would multiply the units first, which overflows.
        return opaque(moments_variance(vec4<f32>(acc.x, acc.y, acc.w, 0.0), divisor) * SQUARED_UNIT) * SQUARED_UNIT;
    }
    return moments_variance(acc, divisor);
}

// ---------------------------------------------------------------- cumulative sums

fn running_from_zero(at: Member, base: vec4<u32>) -> Acc {
    return START();
}

// The sum of the parts before this one.
fn running_from_parts(at: Member, base: vec4<u32>) -> Acc {
    var acc = START();
    for (var part = at.member; part < at.part; part += params.members) {
        let element_index = 2u * (at.row * params.loop_count + part);
        acc = MERGE(acc, ACC_FROM(vec4<u32>(parts_bits(element_index), parts_bits(element_index + 1u))));
    }
    return acc;
}

// x: the rounded sum; y: its rounding error.
fn pair_start() -> vec2<f32> {
    return vec2<f32>(0.0);
}

fn pair_enter(x: f32, r: u32) -> vec2<f32> {
    return vec2<f32>(x, 0.0);
}

// Knuth 1998, theorem B of 4.2.2. An infinite sum has an error of 0.
fn pair_merge(a: vec2<f32>, b: vec2<f32>) -> vec2<f32> {
    let sum = opaque(a.x + b.x);
    if (abs_bits(sum) >= 0x7f800000u) {
        return vec2<f32>(sum, 0.0);
    }
    let b_part = opaque(sum - a.x);
    let a_part = opaque(sum - b_part);
    let lost = opaque(a.x - a_part) + opaque(b.x - b_part) + (a.y + b.y);
    let exact = opaque(sum + lost);
    return vec2<f32>(exact, opaque(lost - opaque(exact - sum)));
}

fn pair_leave(acc: vec2<f32>) -> f32 {
    return acc.x + acc.y;
}

fn pair_words(acc: vec2<f32>) -> vec4<u32> {
    return vec4<u32>(bitcast<vec2<u32>>(acc), 0u, 0u);
}

fn pair_from(words: vec4<u32>) -> vec2<f32> {
    return bitcast<vec2<f32>>(words.xy);
}
