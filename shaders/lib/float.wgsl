// Class of f32 (and of f16 and bf16, which are computed in f32): the class interface, the unary,
// binary and compare families, and gradients. The counterpart of kernels/lib/functions.cuh.
// Functions are named after the ops of core. The elementary functions that they use are in
// elementary.wgsl, power.wgsl and trigonometry.wgsl.
//
// These are not the functions of WGSL, whose accuracy depends on the driver. The code guards
// against what a driver may do:
//   reassociation   results whose exact rounding matters pass through `opaque`; a fused
//                   multiply-add is allowed everywhere
//   no NaN, no inf  both are tested by bits and made from bits; comparisons are of integers
//   flushing        `scaled` multiplies by powers of two; it is an integer operation that also
//                   rounds subnormal results
//
// The errors of the functions are at most 2 ulp (tanh 2.5, gelu_tanh above 0 4.5) if +, - and *
// round correctly and / and sqrt are within 2.5 ulp. Results with cancellation or intermediate
// overflow (gelu_tanh far below 0, gradients near their zeros) have this error relative to their
// largest term. Plain arithmetic (add, mul, div, square, ...) is that of the device.
//
// The host provides opaque_zero() -> u32, which is 0 in a way that the compiler cannot know, and
// first() and second() -> C, the constants of an op.

// The compute type.
alias C = f32;

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
    return abs_bits(x) > 0x7f800000u;
}

fn is_true(x: C) -> bool {
    return abs_bits(x) != 0u;
}

fn from_bool(b: bool) -> C {
    return select(0.0, 1.0, b);
}

// Returns whether a or b is NaN.
fn unordered(a: f32, b: f32) -> bool {
    return max(abs_bits(a), abs_bits(b)) > 0x7f800000u;
}

fn less(a: C, b: C) -> bool {
    return order_of(a) < order_of(b) && !unordered(a, b);
}

fn same(a: C, b: C) -> bool {
    return order_of(a) == order_of(b) && !unordered(a, b);
}

fn float_larger(a: f32, b: f32) -> f32 {
    let take_b = abs_bits(b) > 0x7f800000u || order_of(a) <= order_of(b);
    return select(a, b, take_b && abs_bits(a) <= 0x7f800000u);
}

fn float_smaller(a: f32, b: f32) -> f32 {
    let take_b = abs_bits(b) > 0x7f800000u || order_of(a) >= order_of(b);
    return select(a, b, take_b && abs_bits(a) <= 0x7f800000u);
}

// The larger value, or b if both are equal; the first NaN if there is one.
fn larger(a: C, b: C) -> C {
    return float_larger(a, b);
}

// The smaller value, or b if both are equal; the first NaN if there is one.
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

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return negated(x);
}

fn unary_abs(x: C) -> C {
    return abs_of(x);
}

fn unary_sign(x: C) -> C {
    if (abs_bits(x) == 0u || abs_bits(x) > 0x7f800000u) {
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

// By bits: values from -0 to -infinity become 0, NaN is kept.
fn unary_relu(x: C) -> C {
    return select(x, 0.0, bitcast<u32>(x) - 0x80000000u <= 0x7f800000u);
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

fn unary_gelu_erf(x: C) -> C {
    if (sign_bit(x) == 0u || abs_bits(x) >= 0x7f800000u) {
        return x * normal_cdf(x);
    }
    let factor = normalized(max(x, -14.4));
    let tail = normal_tail(x);
    return scaled(negated(factor.value * tail.value), factor.power + tail.power);
}

// (1 + tanh(u)) / 2 is the sigmoid of z = 2 u, which keeps its precision where it is small.
fn unary_gelu_tanh(x: C) -> C {
    let z = gelu_inner_twice(x);
    let e = exponential(-abs_of(z));
    return x * (select(1.0, e, sign_bit(z) != 0u) / (1.0 + e));
}

fn unary_silu(x: C) -> C {
    if (sign_bit(x) == 0u || abs_bits(x) >= 0x7f800000u) {
        return x * sigmoid_of(x);
    }
    let factor = normalized(max(x, -200.0));
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

// ---------------------------------------------------------------- gradients: name(saved, dy)
//
// `saved` is y if the gradient is computed from y, otherwise x.

fn grad_neg(s: C, d: C) -> C {
    return negated(d);
}

fn grad_abs(s: C, d: C) -> C {
    return unary_sign(s) * d;
}

fn grad_sign(s: C, d: C) -> C {
    return 0.0;
}

fn grad_exp(s: C, d: C) -> C {
    return s * d;
}

fn grad_log(s: C, d: C) -> C {
    return d / s;
}

fn grad_log1p(s: C, d: C) -> C {
    return d / (s + 1.0);
}

fn grad_expm1(s: C, d: C) -> C {
    return (s + 1.0) * d;
}

fn grad_sqrt(s: C, d: C) -> C {
    return 0.5 * d / s;
}

fn grad_rsqrt(s: C, d: C) -> C {
    return -0.5 * (s * s * s) * d;
}

fn grad_sin(s: C, d: C) -> C {
    return cos_of(s) * d;
}

fn grad_cos(s: C, d: C) -> C {
    return -sin_of(s) * d;
}

fn grad_tanh(s: C, d: C) -> C {
    return (1.0 - s * s) * d;
}

fn grad_sigmoid(s: C, d: C) -> C {
    return s * (1.0 - s) * d;
}

fn grad_relu(s: C, d: C) -> C {
    return select(0.0, d, less(0.0, s));
}

fn grad_erf(s: C, d: C) -> C {
    if (abs_bits(s) > 0x7f800000u) {
        return s;
    }
    return bell(s, -1.0, Pair(1.1283792257, -5.863538277e-08)) * d;
}

// `opaque`, because a driver that doubles s first would overflow too early.
fn grad_square(s: C, d: C) -> C {
    return 2.0 * opaque(s * d);
}

fn grad_recip(s: C, d: C) -> C {
    return -(s * s) * d;
}

fn grad_floor(s: C, d: C) -> C {
    return 0.0;
}

fn grad_ceil(s: C, d: C) -> C {
    return 0.0;
}

fn grad_round(s: C, d: C) -> C {
    return 0.0;
}

fn grad_leaky_relu(s: C, d: C) -> C {
    return select(first() * d, d, less(0.0, s));
}

fn grad_elu(s: C, d: C) -> C {
    if (less(0.0, s)) {
        return d;
    }
    return first() * exp_of(s) * d;
}

fn grad_gelu_erf(s: C, d: C) -> C {
    let x = gelu_bounded(s);
    return (normal_cdf(x) + x * normal_pdf(x)) * d;
}

// With g = (1 + tanh(u)) / 2, the sigmoid of 2 u: g + x * 2 g (1 - g) * du/dx, where the smaller of
// g and 1 - g is known in full precision.
fn grad_gelu_tanh(s: C, d: C) -> C {
    let x = gelu_bounded(s);
    let parts = sigmoid_tail(gelu_inner_twice(x));
    let tail = scaled(parts.value, parts.power);
    let g = select(1.0 - tail, tail, sign_bit(x) != 0u);
    let inner = 0.7978845608 * (1.0 + 0.134145 * x * x);
    return (g + x * (2.0 * tail * (1.0 - tail) * inner)) * d;
}

fn grad_silu(s: C, d: C) -> C {
    let parts = sigmoid_tail(s);
    let tail = scaled(parts.value, parts.power);
    let negative = sign_bit(s) != 0u;
    let g = select(1.0 - tail, tail, negative);
    let rest = select(tail, 1.0 - tail, negative);
    return g * (1.0 + s * rest) * d;
}

fn grad_softplus(s: C, d: C) -> C {
    return sigmoid_of(s) * d;
}

fn grad_clamp(s: C, d: C) -> C {
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
