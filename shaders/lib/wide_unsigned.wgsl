// Class of u64: a number is vec2(low word, high word). What differs from wide.wgsl.

fn lowest() -> C {
    return vec2<u32>(0u, 0u);
}

fn highest() -> C {
    return vec2<u32>(0xffffffffu, 0xffffffffu);
}

fn less(a: C, b: C) -> bool {
    return wide_below(a, b);
}

fn larger(a: C, b: C) -> C {
    return select(b, a, wide_below(b, a));
}

fn smaller(a: C, b: C) -> C {
    return select(b, a, wide_below(a, b));
}

// By zero 0.
fn quotient_of(a: C, b: C) -> C {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    return wide_divide(a, b).quotient;
}

// By zero 0.
fn remainder_of(a: C, b: C) -> C {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    return wide_divide(a, b).rest;
}

// By repeated multiplication.
fn power_of(base: C, exponent: C) -> C {
    var product = vec2<u32>(1u, 0u);
    var square = base;
    var left = exponent;
    while (!wide_is_zero(left)) {
        if ((left.x & 1u) != 0u) {
            product = wide_mul(product, square);
        }
        square = wide_mul(square, square);
        left = wide_shift_right_logical(left, 1u);
    }
    return product;
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

// ---------------------------------------------------------------- binary

fn binary_div(a: C, b: C) -> C {
    return quotient_of(a, b);
}

fn binary_pow(a: C, b: C) -> C {
    return power_of(a, b);
}

// ---------------------------------------------------------------- compare

fn compare_lt(a: C, b: C) -> bool {
    return wide_below(a, b);
}

fn compare_le(a: C, b: C) -> bool {
    return !wide_below(b, a);
}

fn compare_gt(a: C, b: C) -> bool {
    return wide_below(b, a);
}

fn compare_ge(a: C, b: C) -> bool {
    return !wide_below(a, b);
}
