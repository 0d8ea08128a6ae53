// Class of u64: a number is vec2(low word, high word). The functions that differ from wide.wgsl.

fn lowest() -> C {
    return vec2<u32>(0u, 0u);
}

fn highest() -> C {
    return vec2<u32>(0xffffffffu, 0xffffffffu);
}

fn less(a: C, b: C) -> bool {
    return wide_less_unsigned(a, b);
}

// 0 if b is 0.
fn quotient_of(a: C, b: C) -> C {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    return wide_divide(a, b).quotient;
}

// 0 if b is 0.
fn remainder_of(a: C, b: C) -> C {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    return wide_divide(a, b).remainder;
}

fn power_of(base: C, exponent: C) -> C {
    return wide_pow_unsigned(base, exponent);
}

// ---------------------------------------------------------------- unary

fn unary_abs(x: C) -> C {
    return x;
}

fn unary_sign(x: C) -> C {
    return vec2<u32>(u32(!wide_is_zero(x)), 0u);
}

fn unary_relu(x: C) -> C {
    return x;
}
