// Functions of float.wgsl with fewer terms, for results that are rounded to 16 bits. They belong to
// its class. The exponential is that of the device (row.wgsl).
//
// Before rounding, the relative error of results is below 2^-14, an eighth of an f16 ulp, if exp2
// is as accurate as WGSL requires: 3 + 2 |x| ulp of f32. Results of exponentials below e^-87 are 0.
// Gradients near their zeros have this error relative to their largest term.

// Near 0 two terms of the series are used.
fn unary_half_tanh(x: C) -> C {
    let e = exponential_of_half(-2.0 * abs_of(x));
    let far = with_sign((1.0 - e) / (1.0 + e), x);
    return select(far, x - 0.3333333433 * (x * x) * x, abs_bits(x) < 0x3d800000u);
}

// 1 / (1 + e^-x), 0 below -87. Not for NaN.
fn half_sigmoid(x: f32) -> f32 {
    return select(1.0 / (1.0 + exp2(clamp(x * -1.442695022, -126.0, 126.0))), 0.0, x < -87.0);
}

fn unary_half_sigmoid(x: C) -> C {
    return select(half_sigmoid(x), x, abs_bits(x) > 0x7f800000u);
}

fn unary_half_silu(x: C) -> C {
    return x * half_sigmoid(x);
}

fn unary_half_gelu_tanh(x: C) -> C {
    return x * half_sigmoid(gelu_inner_twice(x));
}

// The probability that a standard normal number is above |x|, and e^(-x^2 / 2).
struct HalfNormal {
    tail: f32,
    bell: f32,
}

// The quotient of the two values is approximated by a polynomial in s: relative error 9e-6, for |x|
// up to 14.5.
fn half_normal(x: f32) -> HalfNormal {
    let a = min(abs_of(x), 14.5);
    let s = 1.0 / (1.0 + 0.3 * a);
    let p = 0.1200573923 + s * (0.1139231127 + s * (0.1434726853 + s * (-1.559744562e-02 + s * (0.2148499630 + s * -7.670127301e-02))));
    let bell = exponential_of_half(-0.5 * a * a);
    return HalfNormal((s * p) * bell, bell);
}

fn unary_half_gelu_erf(x: C) -> C {
    let tail = half_normal(x).tail;
    return x * select(1.0 - tail, tail, sign_bit(x) != 0u);
}

// Near 0 four terms of the series are used.
fn unary_half_erf(x: C) -> C {
    let z = x * x;
    let near = x * (1.128379167 + z * (-0.3761263890 + z * (0.1128379167 + z * -2.686617064e-02)));
    let far = with_sign(1.0 - 2.0 * half_normal(1.414213562 * x).tail, x);
    let value = select(far, near, abs_bits(x) < 0x3f000000u);
    return select(value, x, abs_bits(x) > 0x7f800000u);
}

// ---------------------------------------------------------------- gradients: name(saved, dy)

fn grad_half_erf(s: C, d: C) -> C {
    return 1.128379167 * exponential_of_half(-(s * s)) * d;
}

fn grad_half_gelu_erf(s: C, d: C) -> C {
    // Beyond 40 both parts have reached their limits.
    let x = clamp(s, -40.0, 40.0);
    let normal = half_normal(x);
    let cdf = select(1.0 - normal.tail, normal.tail, sign_bit(x) != 0u);
    let value = (cdf + x * (0.3989422804 * normal.bell)) * d;
    return select(value, s, abs_bits(s) > 0x7f800000u);
}

// As grad_gelu_tanh: g + x * g (1 - g) * dz/dx, with g the sigmoid of z.
fn grad_half_gelu_tanh(s: C, d: C) -> C {
    let x = clamp(s, -40.0, 40.0);
    let e = exponential_of_half(-abs_of(gelu_inner_twice(x)));
    let r = 1.0 / (1.0 + e);
    let g = select(r, e * r, sign_bit(x) != 0u);
    let value = (g + x * (e * r * r) * (1.595769122 + 0.2140644365 * (x * x))) * d;
    return select(value, s, abs_bits(s) > 0x7f800000u);
}

fn grad_half_silu(s: C, d: C) -> C {
    let e = exponential_of_half(-abs_of(s));
    let r = 1.0 / (1.0 + e);
    let negative = sign_bit(s) != 0u;
    let g = select(r, e * r, negative);
    let rest = select(e * r, r, negative);
    return g * (1.0 + s * rest) * d;
}

fn grad_half_softplus(s: C, d: C) -> C {
    return unary_half_sigmoid(s) * d;
}
