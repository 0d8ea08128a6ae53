// Class of f32 (and of f16 and bf16, which are computed in f32): the class interface, unary, binary and compare families, gradients, and the
// elementary functions they stand on. The twin of kernels/functions.cuh; the names are the stems of core.
//
// The elementary functions are written here because those of WGSL are only as good as the driver. What a driver may do is guarded against thus:
//   reassociation   results whose exact rounding matters pass through `settled`; a fused multiply-add is allowed everywhere
//   no NaN, no inf  both are tested by bits and made from bits; comparisons are of integers
//   flushing        powers of two are multiplied in by `scaled`, an integer operation that also rounds subnormal results
// Errors of the functions are at most 2 units in the last place (tanh 2.5) where +, - and * round correctly and / and sqrt are within 2.5. Results
// that cancel or overflow on the way (gelu_tanh far below 0, slopes near their zeros) have that error beside their largest part. Plain
// arithmetic (add, mul, div, square, ...) is the device's own.
//
// From the host: opaque_zero() -> u32, which is 0 without the compiler's knowledge; first() and second() -> C, the constants of an op.

// The compute type.
alias C = f32;

// ---------------------------------------------------------------- bits

// x, as a value that the compiler knows nothing about: what made it is rounded as written.
fn settled(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ opaque_zero());
}

fn infinity() -> f32 {
    return bitcast<f32>(0x7f800000u | opaque_zero());
}

fn quiet_nan() -> f32 {
    return bitcast<f32>(0x7fc00000u | opaque_zero());
}

// The bits of |x|.
fn size_bits(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x7fffffffu;
}

fn sign_bit(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x80000000u;
}

fn abs_of(x: f32) -> f32 {
    return bitcast<f32>(size_bits(x));
}

// |size| with the sign of `sign`.
fn with_sign(size: f32, sign: f32) -> f32 {
    return bitcast<f32>(size_bits(size) | sign_bit(sign));
}

fn negated(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

// An integer that is ordered as x is; the same for both zeros. Not for NaN.
fn order_of(x: f32) -> i32 {
    let size = i32(size_bits(x));
    return select(size, -size, sign_bit(x) != 0u);
}

// The 12 upper bits of x's 24: their products are exact, and so is x minus them.
fn upper_half(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// value * 2^power.
struct Scaled {
    value: f32,
    power: i32,
}

// value * 2^power, rounded to nearest even where it is subnormal, infinite where it is too large. `value` is 0 or normal.
fn scaled(value: f32, power: i32) -> f32 {
    let bits = bitcast<u32>(value);
    let sign = bits & 0x80000000u;
    let exponent = i32((bits >> 23u) & 0xffu);
    if (exponent == 0 || exponent == 255) {
        return value;
    }
    let moved_exponent = exponent + power;
    if (moved_exponent >= 255) {
        return bitcast<f32>(sign | 0x7f800000u);
    }
    if (moved_exponent > 0) {
        return bitcast<f32>(sign | (u32(moved_exponent) << 23u) | (bits & 0x7fffffu));
    }
    if (moved_exponent < -24) {
        return bitcast<f32>(sign);
    }
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    let shift = u32(1 - moved_exponent);
    let kept = mantissa >> shift;
    let dropped = mantissa & ((1u << shift) - 1u);
    let half = 1u << (shift - 1u);
    let up = dropped > half || (dropped == half && (kept & 1u) == 1u);
    return bitcast<f32>(sign | (kept + u32(up)));
}

// |x| as a value in [1, 2) and a power of two; of 0 the value is 0. Not for infinities and NaN.
fn normalised(x: f32) -> Scaled {
    var bits = size_bits(x);
    if (bits == 0u) {
        return Scaled(0.0, 0);
    }
    var power = -127;
    if (bits < 0x800000u) {
        let shift = countLeadingZeros(bits) - 8u;
        bits <<= shift;
        power -= i32(shift);
    }
    power += i32(max(bits >> 23u, 1u));
    return Scaled(bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u), power);
}

// A positive finite x as a value in [sqrt(1/2), sqrt(2)) and a power of two.
fn near_one(x: f32) -> Scaled {
    let parts = normalised(x);
    let bits = bitcast<u32>(parts.value);
    // 0x3fb504f3 is sqrt(2).
    let above = bits >= 0x3fb504f3u;
    return Scaled(bitcast<f32>(bits - select(0u, 0x800000u, above)), parts.power + select(0, 1, above));
}

// a * b - product, exactly; `product` is a * b, rounded. No factor is near the ends of the range.
fn product_error(a: f32, b: f32, product: f32) -> f32 {
    let a_high = upper_half(a);
    let b_high = upper_half(b);
    let a_low = settled(a - a_high);
    let b_low = settled(b - b_high);
    let first_part = settled(a_high * b_high - product);
    return settled(settled(first_part + a_high * b_low) + a_low * b_high) + a_low * b_low;
}

// A number as the sum of two, of which the second is small beside the first.
struct Pair {
    high: f32,
    low: f32,
}

fn pair_product(a: Pair, b: Pair) -> Pair {
    let product = settled(a.high * b.high);
    return Pair(product, product_error(a.high, b.high, product) + (a.high * b.low + a.low * b.high));
}

// a / b, rounded correctly but for a few in a million, whatever the device's division is worth. Neither is near the ends of the range.
fn pair_quotient(a: Pair, b: Pair) -> f32 {
    let quotient = settled(a.high / b.high);
    let product = settled(quotient * b.high);
    let rest = settled(a.high - product) - product_error(quotient, b.high, product);
    return quotient + (rest + (a.low - quotient * b.low)) / b.high;
}

// ---------------------------------------------------------------- the class interface

fn zero() -> C {
    return 0.0;
}

fn one() -> C {
    return 1.0;
}

fn lowest() -> C {
    return bitcast<f32>(0xff800000u | opaque_zero());
}

fn highest() -> C {
    return infinity();
}

fn is_nan(x: C) -> bool {
    return size_bits(x) > 0x7f800000u;
}

fn is_true(x: C) -> bool {
    return size_bits(x) != 0u;
}

fn truth(b: bool) -> C {
    return select(0.0, 1.0, b);
}

// Whether a or b is NaN.
fn unordered(a: f32, b: f32) -> bool {
    return max(size_bits(a), size_bits(b)) > 0x7f800000u;
}

fn less(a: C, b: C) -> bool {
    return order_of(a) < order_of(b) && !unordered(a, b);
}

fn same(a: C, b: C) -> bool {
    return order_of(a) == order_of(b) && !unordered(a, b);
}

fn float_larger(a: f32, b: f32) -> f32 {
    let take_b = size_bits(b) > 0x7f800000u || order_of(a) <= order_of(b);
    return select(a, b, take_b && size_bits(a) <= 0x7f800000u);
}

fn float_smaller(a: f32, b: f32) -> f32 {
    let take_b = size_bits(b) > 0x7f800000u || order_of(a) >= order_of(b);
    return select(a, b, take_b && size_bits(a) <= 0x7f800000u);
}

// The larger, b where both are equal; the first NaN if there is one.
fn larger(a: C, b: C) -> C {
    return float_larger(a, b);
}

// The smaller, b where both are equal; the first NaN if there is one.
fn smaller(a: C, b: C) -> C {
    return float_smaller(a, b);
}

fn sum_of(a: C, b: C) -> C {
    return a + b;
}

fn difference_of(a: C, b: C) -> C {
    return a - b;
}

fn product_of(a: C, b: C) -> C {
    return a * b;
}

fn quotient_of(a: C, b: C) -> C {
    return a / b;
}

fn remainder_of(a: C, b: C) -> C {
    return float_remainder(a, b);
}

fn power_of(base: C, exponent: C) -> C {
    return float_power(base, exponent);
}

// ---------------------------------------------------------------- exponential

// e^r - 1 on an interval of ln 2 around 0, and the power of two that belongs to it.
//
// high + low = power * ln 2 + r, with ln 2 in two parts of which the first has 15 bits: its products are exact.
fn exp_reduced(high: f32, low: f32) -> Scaled {
    let bounded = clamp(high, -300.0, 300.0);
    let power = floor(bounded * 1.442695022 + 0.5);
    let r_high = settled(bounded - power * 0.6931457520);
    let r_low = low - power * 1.428606765e-06;
    let r = settled(r_high + r_low);
    let rest = settled(r_high - r) + r_low;
    let p = 0.5 + r * (0.1666666716 + r * (4.166645557e-02 + r * (8.333310485e-03 + r * (1.393453218e-03 + r * 1.989197044e-04))));
    return Scaled(r + (rest + (r * r) * p), i32(power));
}

// e^(high + low), where low is small beside 1.
fn exp_parts(high: f32, low: f32) -> Scaled {
    let reduced = exp_reduced(high, low);
    return Scaled(1.0 + reduced.value, reduced.power);
}

// A pair times 2^power.
struct ScaledPair {
    pair: Pair,
    power: i32,
}

// The same to some digits more.
fn exp_pair(high: f32, low: f32) -> ScaledPair {
    let reduced = exp_reduced(high, low);
    let sum = settled(1.0 + reduced.value);
    return ScaledPair(Pair(sum, reduced.value - settled(sum - 1.0)), reduced.power);
}

// factor * e^(rate * x^2), with x^2 to twice the digits. `rate` is -1 or -1/2.
fn bell(x: f32, rate: f32, factor: Pair) -> f32 {
    let a = min(abs_of(x), 20.0);
    let upper = upper_half(a);
    let rest = settled(a - upper);
    let e = exp_pair(rate * (upper * upper), rate * (rest * (a + upper)));
    let product = pair_product(e.pair, factor);
    return scaled(product.high + product.low, e.power);
}

fn exp_of(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = exp_parts(x, 0.0);
    return scaled(parts.value, parts.power);
}

fn expm1_of(x: f32) -> f32 {
    let size = size_bits(x);
    // NaN, and below 2^-25 the value is x.
    if (size > 0x7f800000u || size < 0x33000000u) {
        return x;
    }
    let reduced = exp_reduced(x, 0.0);
    if (reduced.power == 0) {
        return reduced.value;
    }
    if (reduced.power > 25) {
        return scaled(1.0 + reduced.value, reduced.power);
    }
    let power = max(reduced.power, -40);
    let scale = bitcast<f32>(u32(127 + power) << 23u);
    if (power > 0) {
        let inverse = bitcast<f32>(u32(127 - power) << 23u);
        return scale * (reduced.value + settled(1.0 - inverse));
    }
    return scale * reduced.value + settled(scale - 1.0);
}

// ---------------------------------------------------------------- logarithm

// log(1 + f) + power * ln 2 + extra, for 1 + f in [sqrt(1/2), sqrt(2)): by s = f / (2 + f), log(1 + f) = 2 s + 2/3 s^3 + ...
fn log_reduced(f: f32, power: f32, extra: f32) -> f32 {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)));
    let half_square = 0.5 * f * f;
    let small = s * (half_square + r) + (power * 9.0580006145e-06 + extra);
    return settled(settled(small - half_square) + f) + power * 0.69313812256;
}

fn log_of(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (size_bits(x) == 0u) {
        return bitcast<f32>(0xff800000u | opaque_zero());
    }
    if (size_bits(x) > 0x7f800000u || bits == 0x7f800000u) {
        return x;
    }
    if (bits >= 0x80000000u) {
        return quiet_nan();
    }
    let parts = near_one(x);
    return log_reduced(parts.value - 1.0, f32(parts.power), 0.0);
}

fn log1p_of(x: f32) -> f32 {
    let size = size_bits(x);
    // NaN, and below 2^-25 the value is x.
    if (size > 0x7f800000u || size < 0x33000000u || bitcast<u32>(x) == 0x7f800000u) {
        return x;
    }
    if (sign_bit(x) != 0u && size >= 0x3f800000u) {
        return select(quiet_nan(), bitcast<f32>(0xff800000u | opaque_zero()), size == 0x3f800000u);
    }
    if (x > -0.2928 && x < 0.4142) {
        return log_reduced(x, 0.0, 0.0);
    }
    let sum = settled(1.0 + x);
    var lost = settled(x - settled(sum - 1.0));
    if (x > 1.0) {
        lost = settled(1.0 - settled(sum - x));
    }
    let parts = near_one(sum);
    return log_reduced(parts.value - 1.0, f32(parts.power), lost / sum);
}

// ---------------------------------------------------------------- roots and reciprocals

// The square root of a positive finite number.
fn sqrt_pair(x: f32) -> ScaledPair {
    let parts = normalised(x);
    let odd = parts.power & 1;
    let value = parts.value * f32(1 + odd);
    let root = settled(sqrt(value));
    let upper = upper_half(root);
    let lower = settled(root - upper);
    let rest = settled(settled(value - upper * upper) - 2.0 * upper * lower) - lower * lower;
    let correction = settled(rest / (2.0 * root));
    let high = settled(root + correction);
    return ScaledPair(Pair(high, settled(root - high) + correction), (parts.power - odd) / 2);
}

// Whether x has a square root that is neither 0 nor infinite.
fn has_root(x: f32) -> bool {
    return bitcast<u32>(x) - 1u < 0x7f7fffffu;
}

fn sqrt_of(x: f32) -> f32 {
    if (!has_root(x)) {
        let stays = size_bits(x) == 0u || size_bits(x) > 0x7f800000u || sign_bit(x) == 0u;
        return select(quiet_nan(), x, stays);
    }
    let root = sqrt_pair(x);
    return scaled(root.pair.high, root.power);
}

fn rsqrt_of(x: f32) -> f32 {
    if (!has_root(x)) {
        if (size_bits(x) == 0u) {
            return bitcast<f32>(sign_bit(x) | 0x7f800000u);
        }
        return select(quiet_nan(), 0.0, bitcast<u32>(x) == 0x7f800000u);
    }
    let root = sqrt_pair(x);
    return scaled(pair_quotient(Pair(1.0, 0.0), root.pair), -root.power);
}

fn recip_of(x: f32) -> f32 {
    let size = size_bits(x);
    if (size > 0x7f800000u) {
        return x;
    }
    if (size == 0u || size == 0x7f800000u) {
        return bitcast<f32>(sign_bit(x) | (0x7f800000u - size));
    }
    let parts = normalised(x);
    return with_sign(scaled(pair_quotient(Pair(1.0, 0.0), Pair(parts.value, 0.0)), -parts.power), x);
}

// ---------------------------------------------------------------- trigonometry

// An angle as quadrant * pi/2 + turn + rest, with |turn| at most pi/4.
struct Angle {
    quadrant: u32,
    turn: f32,
    rest: f32,
}

// 32 zeros and then the bits of 2/pi, in words.
fn two_over_pi(word: u32) -> u32 {
    switch word {
        case 1u: {
            return 0xa2f9836eu;
        }
        case 2u: {
            return 0x4e441529u;
        }
        case 3u: {
            return 0xfc2757d1u;
        }
        case 4u: {
            return 0xf534ddc0u;
        }
        case 5u: {
            return 0xdb629599u;
        }
        case 6u: {
            return 0x3c439041u;
        }
        case 7u: {
            return 0xfe5163abu;
        }
        default: {
            return 0u;
        }
    }
}

// The 32 bits that begin `bit` bits (0 to 31) into the pair of words.
fn word_from(high: u32, low: u32, bit: u32) -> u32 {
    return (high << bit) | ((low >> 1u) >> (31u - bit));
}

// x = mantissa * 2^e, so x / (2 pi) modulo 1 is the mantissa times 96 bits of (2/pi) * 2^(e - 2), modulo 1 (Payne and Hanek 1983). Bits further up
// make whole turns; those further down are below 2^-72. All by integers: no multiple of pi/2 in the range is so near that digits are lost.
fn reduced_angle(x: f32) -> Angle {
    let size = size_bits(x);
    if (size <= 0x3f490fdau) {
        return Angle(0u, x, 0.0);
    }
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let start = (size >> 23u) - 120u;
    let word = start >> 5u;
    let bit = start & 31u;
    let second_word = two_over_pi(word + 1u);
    let third_word = two_over_pi(word + 2u);
    let top = word_from(two_over_pi(word), second_word, bit);
    let middle = multiply_wide(mantissa, word_from(second_word, third_word, bit));
    let bottom = multiply_wide(mantissa, word_from(third_word, two_over_pi(word + 3u), bit));
    var low = middle.x + bottom.y;
    var high = mantissa * top + middle.y + u32(low < bottom.y);
    // The two upper bits, rounded, are the quadrant; what is left is in [-1/8, 1/8) turns.
    let quadrant = (high + 0x20000000u) >> 30u;
    high -= quadrant << 30u;
    let negative = (high & 0x80000000u) != 0u;
    if (negative) {
        low = ~low + 1u;
        high = ~high + u32(low == 0u);
    }
    var power = -30;
    if (high == 0u) {
        high = low;
        low = 0u;
        power -= 32;
    }
    let shift = countLeadingZeros(high) & 31u;
    power -= i32(shift);
    // 0xc90fdaa2 is pi/4 in 32 bits: the angle in units of 2^(power + 1), to 31 digits or more.
    let angle = multiply_wide(word_from(high, low, shift), 0xc90fdaa2u).y;
    let unit = bitcast<u32>(scaled(1.0, power + 1)) | select(0u, 0x80000000u, negative);
    let turn = f32(angle & 0xffffff00u) * bitcast<f32>(unit);
    let rest = f32(angle & 0xffu) * bitcast<f32>(unit);
    let mirrored = sign_bit(x) != 0u;
    return Angle(select(quadrant, 4u - quadrant, mirrored) & 3u, select(turn, -turn, mirrored), select(rest, -rest, mirrored));
}

fn sin_near_zero(turn: f32, rest: f32) -> f32 {
    let z = turn * turn;
    let p = -0.1666666716 + z * (8.333331905e-03 + z * (-1.984007395e-04 + z * 2.724836577e-06));
    return turn + ((turn * z) * p + rest);
}

fn cos_near_zero(turn: f32, rest: f32) -> f32 {
    let z = turn * turn;
    let p = 4.166666791e-02 + z * (-1.388888806e-03 + z * (2.480059084e-05 + z * -2.729965729e-07));
    // 1 - z/2 in two parts.
    let half_square = 0.5 * z;
    let main = settled(1.0 - half_square);
    return main + (settled(settled(1.0 - main) - half_square) + (z * z * p - turn * rest));
}

fn sin_of(x: f32) -> f32 {
    let size = size_bits(x);
    // Below 2^-12 the value is x.
    if (size < 0x39800000u) {
        return x;
    }
    if (size >= 0x7f800000u) {
        return quiet_nan();
    }
    let angle = reduced_angle(x);
    var y = 0.0;
    if ((angle.quadrant & 1u) == 0u) {
        y = sin_near_zero(angle.turn, angle.rest);
    } else {
        y = cos_near_zero(angle.turn, angle.rest);
    }
    return select(y, -y, (angle.quadrant & 2u) != 0u);
}

fn cos_of(x: f32) -> f32 {
    if (size_bits(x) >= 0x7f800000u) {
        return quiet_nan();
    }
    let angle = reduced_angle(x);
    var y = 0.0;
    if ((angle.quadrant & 1u) == 0u) {
        y = cos_near_zero(angle.turn, angle.rest);
    } else {
        y = sin_near_zero(angle.turn, angle.rest);
    }
    return select(y, -y, ((angle.quadrant + 1u) & 2u) != 0u);
}

// atan(t) - t for |t| <= 1/2.
fn atan_correction(t: f32) -> f32 {
    let z = t * t;
    let p = -0.3333333433 + z * (0.1999999136 + z * (-0.1428517103 + z * (0.1109776348 + z * (-8.932152390e-02 + z * (6.690115482e-02
        + z * -3.272326663e-02)))));
    return (t * z) * p;
}

// eighths * pi/4 + (t + correction).
fn eighths_plus(eighths: u32, t: f32, correction: f32) -> f32 {
    var base = Pair(0.7853981256, 3.774895063e-08);
    switch eighths {
        case 0u: {
            return select(t + correction, t, correction == 0.0);
        }
        case 2u: {
            base = Pair(1.570796251, 7.549790126e-08);
        }
        case 3u: {
            base = Pair(2.356194258, 2.324561450e-07);
        }
        case 4u: {
            base = Pair(3.141592503, 1.509958025e-07);
        }
        default: {
        }
    }
    let sum = settled(base.high + t);
    return sum + ((settled(base.high - sum) + t) + (base.low + correction));
}

// By the octant of (x, y), in which the ratio is at most 1, and by atan(t) = pi/4 + atan((t - 1) / (t + 1)) from 1/2 up.
fn atan2_of(y: f32, x: f32) -> f32 {
    if (unordered(y, x)) {
        return quiet_nan();
    }
    let steep = size_bits(y) > size_bits(x);
    var below = max(size_bits(y), size_bits(x));
    var above = min(size_bits(y), size_bits(x));
    if (below == 0x7f800000u) {
        above = select(0u, 0x3f800000u, above == 0x7f800000u);
        below = 0x3f800000u;
    }
    if (below == 0u) {
        below = 0x3f800000u;
    }
    let numerator = normalised(bitcast<f32>(above));
    let denominator = normalised(bitcast<f32>(below));
    let power = numerator.power - denominator.power;
    var eighths = 0u;
    var t = 0.0;
    var correction = 0.0;
    if (power < -30 || above == 0u) {
        t = scaled(pair_quotient(Pair(numerator.value, 0.0), Pair(denominator.value, 0.0)), power);
    } else {
        let u = scaled(numerator.value, power);
        let v = denominator.value;
        if (u > 0.5 * v) {
            let sum = settled(u + v);
            eighths = 1u;
            t = pair_quotient(Pair(u - v, 0.0), Pair(sum, settled(v - sum) + u));
        } else {
            t = pair_quotient(Pair(u, 0.0), Pair(v, 0.0));
        }
        correction = atan_correction(t);
    }
    var flipped = 0u;
    if (steep) {
        eighths = 2u - eighths;
        flipped = 0x80000000u;
    }
    if (sign_bit(x) != 0u) {
        eighths = 4u - eighths;
        flipped ^= 0x80000000u;
    }
    t = bitcast<f32>(bitcast<u32>(t) ^ flipped);
    correction = bitcast<f32>(bitcast<u32>(correction) ^ flipped);
    return with_sign(eighths_plus(eighths, t, correction), y);
}

// ---------------------------------------------------------------- hyperbolic tangent, error function, normal distribution

fn tanh_of(x: f32) -> f32 {
    let size = size_bits(x);
    // NaN, and below 2^-12 the value is x.
    if (size > 0x7f800000u || size < 0x39800000u) {
        return x;
    }
    if (size < 0x3f200000u) {
        let z = x * x;
        let p = -0.3333333433 + z * (0.1333330423 + z * (-5.395925418e-02 + z * (2.176886797e-02 + z * (-8.343780413e-03 + z * 2.292557620e-03))));
        return x + (x * z) * p;
    }
    let parts = exp_parts(2.0 * min(abs_of(x), 20.0), 0.0);
    return with_sign(1.0 - 2.0 / (scaled(parts.value, parts.power) + 1.0), x);
}

// erf(x) / x - 1, of x^2 up to 0.85.
fn erf_series(z: f32) -> f32 {
    return 0.1283791661 + z * (-0.3761263788 + z * (0.1128378808 + z * (-2.686582319e-02
        + z * (5.222355016e-03 + z * (-8.506830200e-04 + z * (1.145908682e-04 + z * -1.030893145e-05))))));
}

// erfc(x + rest) for x >= 0: below 1/2 as 1 - erf, from there as e^(-x^2) times a polynomial in (x - 2) / (x + 2), over 1 + 2 x.
fn erfc_parts(x: f32, rest: f32) -> Scaled {
    if (x < 0.5) {
        let difference = settled(1.0 - x);
        return Scaled(difference + ((settled(1.0 - difference) - x) - (x * erf_series(x * x) + rest)), 0);
    }
    let a = min(x, 10.25);
    let t = (a - 2.0) / (a + 2.0);
    var p = 8.341087232e-05;
    p = 1.769460359e-04 + t * p;
    p = -4.018225009e-04 + t * p;
    p = -1.429252094e-03 + t * p;
    p = 1.250898815e-03 + t * p;
    p = 8.712456562e-03 + t * p;
    p = -8.029908873e-03 + t * p;
    p = -5.421838537e-02 + t * p;
    p = 0.1640508920 + t * p;
    p = -0.1660304815 + t * p;
    p = settled(t * (-9.276381880e-02 + t * p));
    let sum = settled(1.276978374 + p);
    let factor = Pair(sum, settled(1.276978374 - sum) + p);
    let upper = upper_half(a);
    let lower = settled(a - upper);
    let e = exp_pair(-(upper * upper), -(lower * (a + upper) + 2.0 * a * rest));
    let doubled = 2.0 * a;
    let divisor = settled(1.0 + doubled);
    let quotient = pair_quotient(pair_product(e.pair, factor), Pair(divisor, (settled(doubled - divisor) + 1.0) + 2.0 * rest));
    return Scaled(quotient, e.power);
}

fn erf_of(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    // Below 2^-63 the value is x * 2 / sqrt(pi).
    if (size_bits(x) < 0x20000000u) {
        let parts = normalised(x);
        return with_sign(scaled(1.128379167 * parts.value, parts.power), x);
    }
    if (size_bits(x) < 0x3f6b851fu) {
        let p = erf_series(x * x);
        return x + x * p;
    }
    let tail = erfc_parts(abs_of(x), 0.0);
    return with_sign(1.0 - scaled(tail.value, tail.power), x);
}

fn erfc_of(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = erfc_parts(abs_of(x), 0.0);
    let tail = scaled(parts.value, parts.power);
    return select(tail, 2.0 - tail, sign_bit(x) != 0u);
}

// The probability that a standard normal number is above |x|: erfc(|x| / sqrt(2)) / 2, with the quotient in two parts.
fn normal_tail(x: f32) -> Scaled {
    let a = min(abs_of(x), 14.4);
    let high = settled(a * 0.7071067691);
    let low = product_error(a, 0.7071067691, high) + a * 1.210161749e-08;
    let parts = erfc_parts(high, low);
    return Scaled(parts.value, parts.power - 1);
}

// The probability that a standard normal number is below x.
fn normal_cdf(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = normal_tail(x);
    let tail = scaled(parts.value, parts.power);
    return select(1.0 - tail, tail, sign_bit(x) != 0u);
}

fn normal_pdf(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    return bell(x, -0.5, Pair(0.39894229174, -1.133517014e-08));
}

// The sigmoid of -|x|: e / (1 + e) with e = e^-|x|.
fn sigmoid_tail(x: f32) -> Scaled {
    let e = exp_pair(-abs_of(x), 0.0);
    let scale = bitcast<f32>(u32(127 + max(e.power, -60)) << 23u);
    let small = e.pair.high * scale;
    let sum = settled(1.0 + small);
    return Scaled(pair_quotient(e.pair, Pair(sum, (small - settled(sum - 1.0)) + e.pair.low * scale)), e.power);
}

// 1 / (1 + e^-x)
fn sigmoid_of(x: f32) -> f32 {
    if (size_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = sigmoid_tail(x);
    let tail = scaled(parts.value, parts.power);
    return select(1.0 - tail, tail, sign_bit(x) != 0u);
}

// sqrt(2/pi) * (x + 0.044715 x^3)
fn gelu_inner(x: f32) -> f32 {
    return 0.7978845608 * (x + 0.044715 * (x * x * x));
}

// Beyond 40 the normal density is 0 and tanh is 1: slopes have reached their limits, and x^2 must not overflow.
fn gelu_bounded(x: f32) -> f32 {
    return float_smaller(float_larger(x, -40.0), 40.0);
}

// ---------------------------------------------------------------- whole numbers, by bits

// x without its fraction.
fn truncated(x: f32) -> f32 {
    let exponent = size_bits(x) >> 23u;
    if (exponent >= 150u) {
        return x;
    }
    if (exponent < 127u) {
        return bitcast<f32>(sign_bit(x));
    }
    return bitcast<f32>(bitcast<u32>(x) & ~((1u << (150u - exponent)) - 1u));
}

fn floor_of(x: f32) -> f32 {
    let whole = truncated(x);
    if (sign_bit(x) == 0u || bitcast<u32>(whole) == bitcast<u32>(x)) {
        return whole;
    }
    return whole - 1.0;
}

fn ceil_of(x: f32) -> f32 {
    return negated(floor_of(negated(x)));
}

// Halves to even: half a unit less one bit is added, and one bit more if the unit is odd. A carry moves into the exponent as it should.
fn round_of(x: f32) -> f32 {
    let size = size_bits(x);
    let exponent = size >> 23u;
    if (exponent >= 150u) {
        return x;
    }
    if (exponent < 127u) {
        return bitcast<f32>(sign_bit(x) | select(0u, 0x3f800000u, size > 0x3f000000u));
    }
    let unit = 1u << (150u - exponent);
    let odd = u32((size & unit) != 0u);
    return bitcast<f32>(sign_bit(x) | ((size + (unit >> 1u) - 1u + odd) & ~(unit - 1u)));
}

// ---------------------------------------------------------------- remainder and power

// The exact remainder with the sign of a, as C's fmodf: 8 digits of the quotient a step.
fn float_fmod(a: f32, b: f32) -> f32 {
    let a_size = size_bits(a);
    let b_size = size_bits(b);
    if (a_size >= 0x7f800000u || b_size > 0x7f800000u || b_size == 0u) {
        return quiet_nan();
    }
    if (a_size < b_size) {
        return a;
    }
    let a_exponent = max(a_size >> 23u, 1u);
    let b_exponent = max(b_size >> 23u, 1u);
    let b_mantissa = (b_size & 0x7fffffu) | select(0u, 0x800000u, b_size >= 0x800000u);
    var rest = ((a_size & 0x7fffffu) | select(0u, 0x800000u, a_size >= 0x800000u)) % b_mantissa;
    var left = a_exponent - b_exponent;
    while (left > 0u && rest != 0u) {
        let step = min(left, 8u);
        rest = (rest << step) % b_mantissa;
        left -= step;
    }
    if (rest == 0u) {
        return bitcast<f32>(sign_bit(a));
    }
    // rest * 2^(b_exponent - 150), below |b|.
    let shift = min(countLeadingZeros(rest) - 8u, b_exponent - 1u);
    let mantissa = rest << shift;
    let exponent = select(0u, b_exponent - shift, mantissa >= 0x800000u);
    return bitcast<f32>(sign_bit(a) | (exponent << 23u) | (mantissa & 0x7fffffu));
}

// The remainder with the sign of b: C's, moved once.
fn float_remainder(a: f32, b: f32) -> f32 {
    let rest = float_fmod(a, b);
    let rest_size = size_bits(rest);
    if (rest_size == 0u || rest_size > 0x7f800000u || sign_bit(rest) == sign_bit(b)) {
        return rest;
    }
    return rest + b;
}

// 2 where x is an even whole number, 1 where it is an odd one, else 0. Not for NaN.
fn wholeness(x: f32) -> u32 {
    let size = size_bits(x);
    let exponent = size >> 23u;
    if (exponent > 150u || size == 0u) {
        return 2u;
    }
    if (exponent < 127u) {
        return 0u;
    }
    let unit = 1u << (150u - exponent);
    let mantissa = size | 0x800000u;
    if ((mantissa & (unit - 1u)) != 0u) {
        return 0u;
    }
    return select(2u, 1u, (mantissa & unit) != 0u);
}

// log2 of a positive finite x to about 34 digits, the first part with 12 of them.
//
// x = 2^k m, s = (m - 1) / (m + 1), log2 m = 2 / (3 ln 2) * s * (3 + s^2 + s^4 Q(s^2)), in products of halves that are exact.
fn log2_pair(x: f32) -> Pair {
    let parts = near_one(x);
    let m = parts.value;
    let f = m - 1.0;
    let divisor = settled(m + 1.0);
    let divisor_high = upper_half(divisor);
    let divisor_low = settled(m - settled(divisor_high - 1.0));
    let s = settled(f / divisor);
    let s_high = upper_half(s);
    let s_low = settled(settled(f - s_high * divisor_high) - s_high * divisor_low) / divisor;
    // z = s^2 = square + cross
    let square = settled(s_high * s_high);
    let cross = s_low * (s_high + s);
    let z = square + cross;
    let series = cross + z * z * (0.6 + z * (0.4285714030 + z * (0.3333376348 + z * (0.2723230124 + z * 0.2461932600))));
    let sum_high = upper_half(3.0 + square + series);
    let sum_low = settled(series - settled(settled(sum_high - 3.0) - square));
    let main = settled(s_high * sum_high);
    let side = settled(s_low * sum_high + sum_low * s);
    let product_high = upper_half(main + side);
    let product_low = settled(side - settled(product_high - main));
    // 2 / (3 ln 2) is 0.9616699219 + 1.267720509e-04.
    let log_high = settled(0.9616699219 * product_high);
    let log_low = settled(1.267720509e-04 * product_high + product_low * 0.9617967010);
    let power = f32(parts.power);
    let high = upper_half(settled(log_high + log_low) + power);
    return Pair(high, settled(log_low - settled(settled(high - power) - log_high)));
}

// 2^(high + low).
fn exp2_parts(high: f32, low: f32) -> Scaled {
    let power = floor(high + 0.5);
    let r = settled(high - power) + low;
    let p = 0.6931471825 + r * (0.2402265072 + r * (5.550410971e-02 + r * (9.618055075e-03 + r * (1.333350199e-03
        + r * (1.546190906e-04 + r * 1.529768087e-05)))));
    return Scaled(1.0 + r * p, i32(power));
}

// |base|^exponent for a finite base that is not 0 and a finite exponent.
fn power_of_size(base: f32, exponent: f32) -> f32 {
    // Beyond 2^34 all powers but those of 1 have left the range.
    let bounded = clamp(exponent, -17179869184.0, 17179869184.0);
    let log = log2_pair(abs_of(base));
    let exponent_high = upper_half(bounded);
    let exponent_low = settled(bounded - exponent_high);
    let high = settled(exponent_high * log.high);
    if (high > 300.0) {
        return infinity();
    }
    if (high < -300.0) {
        return 0.0;
    }
    let low = settled(exponent_low * log.high + bounded * log.low);
    let sum = settled(high + low);
    let parts = exp2_parts(sum, settled(high - sum) + low);
    return scaled(parts.value, parts.power);
}

// base^exponent, with C's results for zeros, infinities and NaN.
fn float_power(base: f32, exponent: f32) -> f32 {
    let base_size = size_bits(base);
    let exponent_size = size_bits(exponent);
    if (exponent_size == 0u || bitcast<u32>(base) == 0x3f800000u) {
        return 1.0;
    }
    if (max(base_size, exponent_size) > 0x7f800000u) {
        return quiet_nan();
    }
    let grows = (base_size > 0x3f800000u) == (sign_bit(exponent) == 0u);
    if (exponent_size == 0x7f800000u) {
        if (base_size == 0x3f800000u) {
            return 1.0;
        }
        return select(0.0, infinity(), grows);
    }
    let whole = wholeness(exponent);
    let sign = select(0u, sign_bit(base), whole == 1u);
    if (base_size == 0u || base_size == 0x7f800000u) {
        return bitcast<f32>(sign | select(0u, 0x7f800000u, grows));
    }
    if (whole == 0u && sign_bit(base) != 0u) {
        return quiet_nan();
    }
    return bitcast<f32>(sign | bitcast<u32>(power_of_size(base, exponent)));
}

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return negated(x);
}

fn unary_abs(x: C) -> C {
    return abs_of(x);
}

fn unary_sign(x: C) -> C {
    if (size_bits(x) == 0u || size_bits(x) > 0x7f800000u) {
        return x;
    }
    return with_sign(1.0, x);
}

fn unary_exp(x: C) -> C {
    return exp_of(x);
}

fn unary_log(x: C) -> C {
    return log_of(x);
}

fn unary_log1p(x: C) -> C {
    return log1p_of(x);
}

fn unary_expm1(x: C) -> C {
    return expm1_of(x);
}

fn unary_sqrt(x: C) -> C {
    return sqrt_of(x);
}

fn unary_rsqrt(x: C) -> C {
    return rsqrt_of(x);
}

fn unary_sin(x: C) -> C {
    return sin_of(x);
}

fn unary_cos(x: C) -> C {
    return cos_of(x);
}

fn unary_tanh(x: C) -> C {
    return tanh_of(x);
}

fn unary_sigmoid(x: C) -> C {
    return sigmoid_of(x);
}

fn unary_relu(x: C) -> C {
    return float_larger(x, 0.0);
}

fn unary_erf(x: C) -> C {
    return erf_of(x);
}

fn unary_square(x: C) -> C {
    return x * x;
}

fn unary_recip(x: C) -> C {
    return recip_of(x);
}

fn unary_floor(x: C) -> C {
    return floor_of(x);
}

fn unary_ceil(x: C) -> C {
    return ceil_of(x);
}

fn unary_round(x: C) -> C {
    return round_of(x);
}

fn unary_leaky_relu(x: C) -> C {
    return select(first() * x, x, less(0.0, x));
}

fn unary_elu(x: C) -> C {
    if (less(0.0, x)) {
        return x;
    }
    return first() * expm1_of(x);
}

// x * normal_cdf(x); below 0 the tail is scaled after it has been multiplied, so that it does not leave the range too soon.
fn unary_gelu_erf(x: C) -> C {
    if (sign_bit(x) == 0u || size_bits(x) >= 0x7f800000u) {
        return x * normal_cdf(x);
    }
    let factor = normalised(max(x, -14.4));
    let tail = normal_tail(x);
    return scaled(negated(factor.value * tail.value), factor.power + tail.power);
}

// (1 + tanh(u)) / 2 is the sigmoid of 2 u, which keeps its digits where it is small.
fn unary_gelu_tanh(x: C) -> C {
    return x * sigmoid_of(2.0 * gelu_inner(x));
}

// x * sigmoid_of(x), scaled last as well.
fn unary_silu(x: C) -> C {
    if (sign_bit(x) == 0u || size_bits(x) >= 0x7f800000u) {
        return x * sigmoid_of(x);
    }
    let factor = normalised(max(x, -200.0));
    let tail = sigmoid_tail(x);
    return scaled(negated(factor.value * tail.value), factor.power + tail.power);
}

fn unary_softplus(x: C) -> C {
    let rest = log1p_of(exp_of(-abs_of(x)));
    return select(x + rest, rest, sign_bit(x) != 0u);
}

fn unary_clamp(x: C) -> C {
    return float_smaller(float_larger(x, first()), second());
}

// ---------------------------------------------------------------- gradients: name(saved, dy); saved is y where y tells the slope

fn slope_neg(s: C, d: C) -> C {
    return negated(d);
}

fn slope_abs(s: C, d: C) -> C {
    return unary_sign(s) * d;
}

fn slope_sign(s: C, d: C) -> C {
    return 0.0;
}

fn slope_exp(s: C, d: C) -> C {
    return s * d;
}

fn slope_log(s: C, d: C) -> C {
    return d / s;
}

fn slope_log1p(s: C, d: C) -> C {
    return d / (s + 1.0);
}

fn slope_expm1(s: C, d: C) -> C {
    return (s + 1.0) * d;
}

fn slope_sqrt(s: C, d: C) -> C {
    return 0.5 * d / s;
}

fn slope_rsqrt(s: C, d: C) -> C {
    return -0.5 * (s * s * s) * d;
}

fn slope_sin(s: C, d: C) -> C {
    return cos_of(s) * d;
}

fn slope_cos(s: C, d: C) -> C {
    return -sin_of(s) * d;
}

fn slope_tanh(s: C, d: C) -> C {
    return (1.0 - s * s) * d;
}

fn slope_sigmoid(s: C, d: C) -> C {
    return s * (1.0 - s) * d;
}

fn slope_relu(s: C, d: C) -> C {
    return select(0.0, d, less(0.0, s));
}

fn slope_erf(s: C, d: C) -> C {
    if (size_bits(s) > 0x7f800000u) {
        return s;
    }
    return bell(s, -1.0, Pair(1.1283792257, -5.863538277e-08)) * d;
}

// Settled: a driver that doubles s first overflows too early.
fn slope_square(s: C, d: C) -> C {
    return 2.0 * settled(s * d);
}

fn slope_recip(s: C, d: C) -> C {
    return -(s * s) * d;
}

fn slope_floor(s: C, d: C) -> C {
    return 0.0;
}

fn slope_ceil(s: C, d: C) -> C {
    return 0.0;
}

fn slope_round(s: C, d: C) -> C {
    return 0.0;
}

fn slope_leaky_relu(s: C, d: C) -> C {
    return select(first() * d, d, less(0.0, s));
}

fn slope_elu(s: C, d: C) -> C {
    if (less(0.0, s)) {
        return d;
    }
    return first() * exp_of(s) * d;
}

fn slope_gelu_erf(s: C, d: C) -> C {
    let x = gelu_bounded(s);
    return (normal_cdf(x) + x * normal_pdf(x)) * d;
}

// With g = (1 + tanh(u)) / 2, the sigmoid of 2 u: g + x * 2 g (1 - g) * du/dx, where the smaller of g and 1 - g is known to all its digits.
fn slope_gelu_tanh(s: C, d: C) -> C {
    let x = gelu_bounded(s);
    let parts = sigmoid_tail(2.0 * gelu_inner(x));
    let tail = scaled(parts.value, parts.power);
    let g = select(1.0 - tail, tail, sign_bit(x) != 0u);
    let inner = 0.7978845608 * (1.0 + 0.134145 * x * x);
    return (g + x * (2.0 * tail * (1.0 - tail) * inner)) * d;
}

fn slope_silu(s: C, d: C) -> C {
    let parts = sigmoid_tail(s);
    let tail = scaled(parts.value, parts.power);
    let negative = sign_bit(s) != 0u;
    let g = select(1.0 - tail, tail, negative);
    let rest = select(tail, 1.0 - tail, negative);
    return g * (1.0 + s * rest) * d;
}

fn slope_softplus(s: C, d: C) -> C {
    return sigmoid_of(s) * d;
}

fn slope_clamp(s: C, d: C) -> C {
    return select(0.0, d, compare_ge(s, first()) && compare_le(s, second()));
}

// ---------------------------------------------------------------- binary

fn binary_add(a: C, b: C) -> C {
    return a + b;
}

fn binary_sub(a: C, b: C) -> C {
    return a - b;
}

fn binary_mul(a: C, b: C) -> C {
    return a * b;
}

fn binary_div(a: C, b: C) -> C {
    return a / b;
}

fn binary_pow(a: C, b: C) -> C {
    return float_power(a, b);
}

fn binary_maximum(a: C, b: C) -> C {
    return float_larger(a, b);
}

fn binary_minimum(a: C, b: C) -> C {
    return float_smaller(a, b);
}

fn binary_atan2(a: C, b: C) -> C {
    return atan2_of(a, b);
}

fn binary_remainder(a: C, b: C) -> C {
    return float_remainder(a, b);
}

// ---------------------------------------------------------------- compare

fn compare_eq(a: C, b: C) -> bool {
    return same(a, b);
}

fn compare_ne(a: C, b: C) -> bool {
    return !same(a, b);
}

fn compare_lt(a: C, b: C) -> bool {
    return less(a, b);
}

fn compare_le(a: C, b: C) -> bool {
    return order_of(a) <= order_of(b) && !unordered(a, b);
}

fn compare_gt(a: C, b: C) -> bool {
    return less(b, a);
}

fn compare_ge(a: C, b: C) -> bool {
    return compare_le(b, a);
}
