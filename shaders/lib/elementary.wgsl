// The elementary functions of f32, and the bit operations that they use: exponential, logarithm,
// roots, tanh, error function, rounding to integers. They belong to the class of float.wgsl, which
// is built on them and explains why WGSL's functions are not used and what drivers may do.

// ---------------------------------------------------------------- bits

// Returns x as a value that is opaque to the compiler: the expression that computed it is rounded
// as written.
fn opaque(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ opaque_zero());
}

fn infinity() -> f32 {
    return bitcast<f32>(0x7f800000u | opaque_zero());
}

fn quiet_nan() -> f32 {
    return bitcast<f32>(0x7fc00000u | opaque_zero());
}

// The bits of |x|.
fn abs_bits(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x7fffffffu;
}

fn sign_bit(x: f32) -> u32 {
    return bitcast<u32>(x) & 0x80000000u;
}

fn abs_of(x: f32) -> f32 {
    return bitcast<f32>(abs_bits(x));
}

// |size| with the sign of `sign`.
fn with_sign(size: f32, sign: f32) -> f32 {
    return bitcast<f32>(abs_bits(size) | sign_bit(sign));
}

fn negated(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

// An integer with the same order as x, equal for both zeros. Not for NaN.
fn order_of(x: f32) -> i32 {
    let size = i32(abs_bits(x));
    return select(size, -size, sign_bit(x) != 0u);
}

// The upper 12 of the 24 bits of x. Products of two such values are exact, and so is x minus its
// upper bits.
fn upper_half(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0xfffff000u);
}

// value * 2^power.
struct Scaled {
    value: f32,
    power: i32,
}

// value * 2^power, rounded to nearest, ties to even, if it is subnormal, and infinite if it is too
// large. `value` is 0 or normal.
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

// |x| as a value in [1, 2) and a power of two. For 0, the value is 0. Not for infinities and NaN.
fn normalized(x: f32) -> Scaled {
    var bits = abs_bits(x);
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
    let parts = normalized(x);
    let bits = bitcast<u32>(parts.value);
    // 0x3fb504f3 is sqrt(2).
    let above = bits >= 0x3fb504f3u;
    return Scaled(bitcast<f32>(bits - select(0u, 0x800000u, above)), parts.power + select(0, 1, above));
}

// a * b - product, exactly; `product` is a * b, rounded. Neither factor may be near the limits of
// the range.
fn product_error(a: f32, b: f32, product: f32) -> f32 {
    let a_high = upper_half(a);
    let b_high = upper_half(b);
    let a_low = opaque(a - a_high);
    let b_low = opaque(b - b_high);
    let first_part = opaque(a_high * b_high - product);
    return opaque(opaque(first_part + a_high * b_low) + a_low * b_high) + a_low * b_low;
}

// A number as the sum of two numbers; the second one is small relative to the first.
struct Pair {
    high: f32,
    low: f32,
}

fn pair_product(a: Pair, b: Pair) -> Pair {
    let product = opaque(a.high * b.high);
    return Pair(product, product_error(a.high, b.high, product) + (a.high * b.low + a.low * b.high));
}

// a / b, correctly rounded except for a few cases in a million, however inaccurate the device's
// division is. Neither operand may be near the limits of the range.
fn pair_quotient(a: Pair, b: Pair) -> f32 {
    let quotient = opaque(a.high / b.high);
    let product = opaque(quotient * b.high);
    let rest = opaque(a.high - product) - product_error(quotient, b.high, product);
    return quotient + (rest + (a.low - quotient * b.low)) / b.high;
}

// ---------------------------------------------------------------- exponential

// e^r - 1 on an interval of ln 2 around 0, and the corresponding power of two.
//
// high + low = power * ln 2 + r, with ln 2 in two parts; the first part has 15 bits, so its
// products are exact.
fn exp_reduced(high: f32, low: f32) -> Scaled {
    let bounded = clamp(high, -300.0, 300.0);
    let power = floor(bounded * 1.442695022 + 0.5);
    let r_high = opaque(bounded - power * 0.6931457520);
    let r_low = low - power * 1.428606765e-06;
    let r = opaque(r_high + r_low);
    let rest = opaque(r_high - r) + r_low;
    let p = 0.5 + r * (0.1666666716 + r * (4.166645557e-02 + r * (8.333310485e-03 + r * (1.393453218e-03 + r * 1.989197044e-04))));
    return Scaled(r + (rest + (r * r) * p), i32(power));
}

// e^(high + low), where low is small relative to 1.
fn exp_parts(high: f32, low: f32) -> Scaled {
    let reduced = exp_reduced(high, low);
    return Scaled(1.0 + reduced.value, reduced.power);
}

// A pair times 2^power.
struct ScaledPair {
    pair: Pair,
    power: i32,
}

// e^(high + low) with some more digits than exp_parts.
fn exp_pair(high: f32, low: f32) -> ScaledPair {
    let reduced = exp_reduced(high, low);
    let sum = opaque(1.0 + reduced.value);
    return ScaledPair(Pair(sum, reduced.value - opaque(sum - 1.0)), reduced.power);
}

// factor * e^(rate * x^2), with x^2 in twice the precision. `rate` is -1 or -1/2.
fn bell(x: f32, rate: f32, factor: Pair) -> f32 {
    let a = min(abs_of(x), 20.0);
    let upper = upper_half(a);
    let rest = opaque(a - upper);
    let e = exp_pair(rate * (upper * upper), rate * (rest * (a + upper)));
    let product = pair_product(e.pair, factor);
    return scaled(product.high + product.low, e.power);
}

fn exp_of(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = exp_parts(x, 0.0);
    return scaled(parts.value, parts.power);
}

fn expm1_of(x: f32) -> f32 {
    let size = abs_bits(x);
    // NaN; and below 2^-25 the value is x.
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
        return scale * (reduced.value + opaque(1.0 - inverse));
    }
    return scale * reduced.value + opaque(scale - 1.0);
}

// ---------------------------------------------------------------- logarithm

// log(1 + f) + power * ln 2 + extra, for 1 + f in [sqrt(1/2), sqrt(2)): with s = f / (2 + f), log(1
// + f) = 2 s + 2/3 s^3 + ...
fn log_reduced(f: f32, power: f32, extra: f32) -> f32 {
    let s = f / (2.0 + f);
    let z = s * s;
    let r = z * (0.66666662693 + z * (0.40000972152 + z * (0.28498786688 + z * 0.24279078841)));
    let half_square = 0.5 * f * f;
    let small = s * (half_square + r) + (power * 9.0580006145e-06 + extra);
    return opaque(opaque(small - half_square) + f) + power * 0.69313812256;
}

fn log_of(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (abs_bits(x) == 0u) {
        return bitcast<f32>(0xff800000u | opaque_zero());
    }
    if (abs_bits(x) > 0x7f800000u || bits == 0x7f800000u) {
        return x;
    }
    if (bits >= 0x80000000u) {
        return quiet_nan();
    }
    let parts = near_one(x);
    return log_reduced(parts.value - 1.0, f32(parts.power), 0.0);
}

fn log1p_of(x: f32) -> f32 {
    let size = abs_bits(x);
    // NaN; and below 2^-25 the value is x.
    if (size > 0x7f800000u || size < 0x33000000u || bitcast<u32>(x) == 0x7f800000u) {
        return x;
    }
    if (sign_bit(x) != 0u && size >= 0x3f800000u) {
        return select(quiet_nan(), bitcast<f32>(0xff800000u | opaque_zero()), size == 0x3f800000u);
    }
    if (x > -0.2928 && x < 0.4142) {
        return log_reduced(x, 0.0, 0.0);
    }
    let sum = opaque(1.0 + x);
    var lost = opaque(x - opaque(sum - 1.0));
    if (x > 1.0) {
        lost = opaque(1.0 - opaque(sum - x));
    }
    let parts = near_one(sum);
    return log_reduced(parts.value - 1.0, f32(parts.power), lost / sum);
}

// ---------------------------------------------------------------- roots and reciprocals

// The square root of a positive finite number.
fn sqrt_pair(x: f32) -> ScaledPair {
    let parts = normalized(x);
    let odd = parts.power & 1;
    let value = parts.value * f32(1 + odd);
    let root = opaque(sqrt(value));
    let upper = upper_half(root);
    let lower = opaque(root - upper);
    let rest = opaque(opaque(value - upper * upper) - 2.0 * upper * lower) - lower * lower;
    let correction = opaque(rest / (2.0 * root));
    let high = opaque(root + correction);
    return ScaledPair(Pair(high, opaque(root - high) + correction), (parts.power - odd) / 2);
}

// Whether x has a square root that is neither 0 nor infinite.
fn has_root(x: f32) -> bool {
    return bitcast<u32>(x) - 1u < 0x7f7fffffu;
}

fn sqrt_of(x: f32) -> f32 {
    if (!has_root(x)) {
        let stays = abs_bits(x) == 0u || abs_bits(x) > 0x7f800000u || sign_bit(x) == 0u;
        return select(quiet_nan(), x, stays);
    }
    let root = sqrt_pair(x);
    return scaled(root.pair.high, root.power);
}

fn rsqrt_of(x: f32) -> f32 {
    if (!has_root(x)) {
        if (abs_bits(x) == 0u) {
            return bitcast<f32>(sign_bit(x) | 0x7f800000u);
        }
        return select(quiet_nan(), 0.0, bitcast<u32>(x) == 0x7f800000u);
    }
    let root = sqrt_pair(x);
    return scaled(pair_quotient(Pair(1.0, 0.0), root.pair), -root.power);
}

fn recip_of(x: f32) -> f32 {
    let size = abs_bits(x);
    if (size > 0x7f800000u) {
        return x;
    }
    if (size == 0u || size == 0x7f800000u) {
        return bitcast<f32>(sign_bit(x) | (0x7f800000u - size));
    }
    let parts = normalized(x);
    return with_sign(scaled(pair_quotient(Pair(1.0, 0.0), Pair(parts.value, 0.0)), -parts.power), x);
}

// ---------------------------------------------------------------- tanh, erf, normal distribution

fn tanh_of(x: f32) -> f32 {
    let size = abs_bits(x);
    // NaN; and below 2^-12 the value is x.
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

// erf(x) / x - 1, for x^2 up to 0.85.
fn erf_series(z: f32) -> f32 {
    return 0.1283791661 + z * (-0.3761263788 + z * (0.1128378808 + z * (-2.686582319e-02
        + z * (5.222355016e-03 + z * (-8.506830200e-04 + z * (1.145908682e-04 + z * -1.030893145e-05))))));
}

// erfc(x + rest) for x >= 0: below 1/2 as 1 - erf, otherwise as e^(-x^2) times a polynomial in (x -
// 2) / (x + 2), divided by 1 + 2 x.
fn erfc_parts(x: f32, rest: f32) -> Scaled {
    if (x < 0.5) {
        let difference = opaque(1.0 - x);
        return Scaled(difference + ((opaque(1.0 - difference) - x) - (x * erf_series(x * x) + rest)), 0);
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
    p = opaque(t * (-9.276381880e-02 + t * p));
    let sum = opaque(1.276978374 + p);
    let factor = Pair(sum, opaque(1.276978374 - sum) + p);
    let upper = upper_half(a);
    let lower = opaque(a - upper);
    let e = exp_pair(-(upper * upper), -(lower * (a + upper) + 2.0 * a * rest));
    let doubled = 2.0 * a;
    let divisor = opaque(1.0 + doubled);
    let quotient = pair_quotient(pair_product(e.pair, factor), Pair(divisor, (opaque(doubled - divisor) + 1.0) + 2.0 * rest));
    return Scaled(quotient, e.power);
}

fn erf_of(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    // Below 2^-63 the value is x * 2 / sqrt(pi).
    if (abs_bits(x) < 0x20000000u) {
        let parts = normalized(x);
        return with_sign(scaled(1.128379167 * parts.value, parts.power), x);
    }
    if (abs_bits(x) < 0x3f6b851fu) {
        let p = erf_series(x * x);
        return x + x * p;
    }
    let tail = erfc_parts(abs_of(x), 0.0);
    return with_sign(1.0 - scaled(tail.value, tail.power), x);
}

fn erfc_of(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = erfc_parts(abs_of(x), 0.0);
    let tail = scaled(parts.value, parts.power);
    return select(tail, 2.0 - tail, sign_bit(x) != 0u);
}

// The probability that a standard normal number is above |x|: erfc(|x| / sqrt(2)) / 2, with the
// quotient in two parts.
fn normal_tail(x: f32) -> Scaled {
    let a = min(abs_of(x), 14.4);
    let high = opaque(a * 0.7071067691);
    let low = product_error(a, 0.7071067691, high) + a * 1.210161749e-08;
    let parts = erfc_parts(high, low);
    return Scaled(parts.value, parts.power - 1);
}

// The probability that a standard normal number is below x.
fn normal_cdf(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = normal_tail(x);
    let tail = scaled(parts.value, parts.power);
    return select(1.0 - tail, tail, sign_bit(x) != 0u);
}

fn normal_pdf(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    return bell(x, -0.5, Pair(0.39894229174, -1.133517014e-08));
}

// The sigmoid of -|x|: e / (1 + e) with e = e^-|x|.
fn sigmoid_tail(x: f32) -> Scaled {
    let e = exp_pair(-abs_of(x), 0.0);
    let scale = bitcast<f32>(u32(127 + max(e.power, -60)) << 23u);
    let small = e.pair.high * scale;
    let sum = opaque(1.0 + small);
    return Scaled(pair_quotient(e.pair, Pair(sum, (small - opaque(sum - 1.0)) + e.pair.low * scale)), e.power);
}

// 1 / (1 + e^-x)
fn sigmoid_of(x: f32) -> f32 {
    if (abs_bits(x) > 0x7f800000u) {
        return x;
    }
    let parts = sigmoid_tail(x);
    let tail = scaled(parts.value, parts.power);
    return select(1.0 - tail, tail, sign_bit(x) != 0u);
}

// 2 sqrt(2/pi) * (x + 0.044715 x^3)
fn gelu_inner_twice(x: f32) -> f32 {
    return x * (1.595769122 + 0.07135481283 * (x * x));
}

// Beyond 40 the normal density is 0 and tanh is 1. Gradients have reached their limits, and x^2
// must not overflow.
fn gelu_bounded(x: f32) -> f32 {
    return float_smaller(float_larger(x, -40.0), 40.0);
}

// ---------------------------------------------------------------- rounding to integers, by bits

fn truncated(x: f32) -> f32 {
    let exponent = abs_bits(x) >> 23u;
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

// Rounds to nearest, ties to even: half a unit less one bit is added, and one more bit if the unit
// is odd. A carry into the exponent gives the correct result.
fn round_of(x: f32) -> f32 {
    let size = abs_bits(x);
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
