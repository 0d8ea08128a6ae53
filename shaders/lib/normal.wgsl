// Normally distributed numbers (Box and Muller 1958), y = sqrt(-2 ln u) cos(2 pi v). They belong to
// the class of float.wgsl, and are built on elementary.wgsl.
//
// Other devices compute y in f64 and round it once. Here both factors are pairs of f32 with a
// relative error below 2^-40, also near u = 1 and near the zeros of the cosine (for all 2^24 u and
// v; 2^-38.9 if / and sqrt have an error of 2 ulp). The results therefore have the same bits,
// except for about one in a million, which differs by one ulp. Pair, pair_product and pair_sum:
// Dekker 1971, "A floating-point technique for extending the available precision".

// a + b, where |a| >= |b| or a is 0.
fn pair_sum(a: Pair, b: Pair) -> Pair {
    let high = opaque(a.high + b.high);
    return Pair(high, opaque(b.high - opaque(high - a.high)) + (a.low + b.low));
}

// a / (1 + b), for b in [1/2, 2): the sum of 1 and b in two parts is exact.
fn quotient_by_one_plus(a: f32, b: f32) -> Pair {
    let divisor = opaque(b + 1.0);
    let divisor_low = b - opaque(divisor - 1.0);
    let quotient = opaque(a / divisor);
    let product = opaque(quotient * divisor);
    let rest = opaque(opaque(a - product) - product_error(quotient, divisor, product)) - quotient * divisor_low;
    return Pair(quotient, rest / divisor);
}

// -2 ln u, for u from 2^-24 to 1.
//
// u = 2^k m with m in [sqrt(1/2), sqrt(2)), s = (m - 1) / (m + 1), ln m = 2 s (1 + s^2 / 3 + s^4 /
// 5 + ...). From 1/7 on, the coefficients are those of the polynomial that interpolates the series
// at Chebyshev points. 2 ln 2 is in two parts; the first part has 19 bits, so its product with k is
// exact.
fn minus_two_log(u: f32) -> Pair {
    let parts = near_one(u);
    let s = quotient_by_one_plus(parts.value - 1.0, parts.value);
    let z = pair_product(s, s);
    let tail = 0.1428571492 + z.high * (0.1111115590 + z.high * (0.09083338082 + z.high * 0.08099271357));
    var series = pair_sum(Pair(0.2000000030, -2.980232283e-09), Pair(z.high * tail, 0.0));
    series = pair_sum(Pair(0.3333333433, -9.934107759e-09), pair_product(z, series));
    series = pair_sum(Pair(1.0, 0.0), pair_product(z, series));
    let power = f32(parts.power);
    return pair_sum(Pair(-1.386295319 * power, 9.574836213e-07 * power), pair_product(Pair(-4.0 * s.high, -4.0 * s.low), series));
}

// The square root of a number above 0, with one step of Newton's method.
fn pair_root(square: Pair) -> Pair {
    let root = opaque(sqrt(square.high));
    let product = opaque(root * root);
    let rest = opaque(opaque(square.high - product) - product_error(root, root, product)) + square.low;
    return Pair(root, rest / (2.0 * root));
}

// A coefficient in two parts, of the sine or of the cosine.
fn coefficient(of_sine: bool, sine: vec2<f32>, cosine: vec2<f32>) -> Pair {
    let chosen = select(cosine, sine, of_sine);
    return Pair(chosen.x, chosen.y);
}

// sin(pi/4 x), or cos(pi/4 x), for |x| at most 1: x (or 1) times the series in x^2, with the last
// three terms as in minus_two_log.
fn eighth_turn(x: Pair, of_sine: bool) -> Pair {
    let z = pair_product(x, x);
    let fourth = coefficient(of_sine, vec2<f32>(3.133616815e-07, 0.0), vec2<f32>(3.590860388e-06, 0.0)).high;
    let fifth = coefficient(of_sine, vec2<f32>(-1.757236245e-09, 0.0), vec2<f32>(-2.461115045e-08, 0.0)).high;
    let sixth = coefficient(of_sine, vec2<f32>(6.917915893e-12, 0.0), vec2<f32>(1.144285708e-10, 0.0)).high;
    let tail = z.high * (fourth + z.high * (fifth + z.high * sixth));
    let third = coefficient(of_sine, vec2<f32>(-3.657620255e-05, -1.635465201e-12), vec2<f32>(-3.259918885e-04, 1.603162373e-12));
    let second = coefficient(of_sine, vec2<f32>(2.490394516e-03, 5.427601424e-11), vec2<f32>(1.585434377e-02, 4.718809787e-10));
    let first = coefficient(of_sine, vec2<f32>(-8.074551076e-02, -1.431311292e-09), vec2<f32>(-0.3084251285, -9.074112128e-09));
    let start = coefficient(of_sine, vec2<f32>(0.7853981853, -2.185569414e-08), vec2<f32>(1.0, 0.0));
    var series = pair_sum(third, Pair(tail, 0.0));
    series = pair_sum(second, pair_product(z, series));
    series = pair_sum(first, pair_product(z, series));
    series = pair_sum(start, pair_product(z, series));
    return pair_product(series, coefficient(of_sine, vec2<f32>(x.high, x.low), vec2<f32>(1.0, 0.0)));
}

// cos(2 pi v), for v in steps of 2^-24. The quadrant, and the remaining angle in eighths of a turn,
// are exact.
fn cos_of_turns(steps: u32) -> Pair {
    let quadrant = (steps + 0x200000u) >> 22u;
    let of_sine = (quadrant & 1u) != 0u;
    let left = bitcast<i32>(steps - (quadrant << 22u));
    var x = Pair(f32(left) * 4.76837158203125e-7, 0.0);
    if (of_sine && left == 0) {
        // Neither pi/2 nor 3 pi/2 is exact in f64, so the cosines that other devices compute there
        // are not 0. x is the error of these angles.
        x = coefficient(quadrant == 1u, vec2<f32>(-7.796343371e-17, -2.938594633e-24), vec2<f32>(-2.338903078e-16, -2.198338998e-24));
    }
    let y = eighth_turn(x, of_sine);
    let sign = select(1.0, -1.0, ((quadrant + 1u) & 2u) != 0u);
    return Pair(sign * y.high, sign * y.low);
}

// Computes y from the upper 24 bits of two random words. u is in (0, 1], so that the logarithm of 0
// does not occur.
fn normal_of(first_word: u32, second_word: u32) -> f32 {
    let steps = (first_word >> 8u) + 1u;
    let cosine = cos_of_turns(second_word >> 8u);
    if (steps == 0x1000000u) {
        // sqrt(-2 ln 1) is -0.
        return bitcast<f32>(sign_bit(cosine.high) ^ 0x80000000u);
    }
    let radius = pair_root(minus_two_log(f32(steps) * UNIT));
    let y = pair_product(radius, cosine);
    return y.high + opaque(y.low);
}
