// Class of i64: a number is vec2(low word, high word) in two's complement. First the arithmetic of
// such numbers, under names wide_* that other files use (casts, indices, random numbers), then the
// class interface on top of it.
//
// The host provides first() and second() -> C, the constants of an op.

// ---------------------------------------------------------------- words

// a * b in 64 bits, from products of the 16-bit high and low parts.
fn multiply_wide(a: u32, b: u32) -> vec2<u32> {
    let a_low = a & 0xffffu;
    let a_high = a >> 16u;
    let b_low = b & 0xffffu;
    let b_high = b >> 16u;
    let bottom = a_low * b_low;
    let middle = a_high * b_low + (bottom >> 16u);
    let other = a_low * b_high + (middle & 0xffffu);
    return vec2<u32>((other << 16u) | (bottom & 0xffffu), a_high * b_high + (middle >> 16u) + (other >> 16u));
}

fn wide_from_u32(x: u32) -> vec2<u32> {
    return vec2<u32>(x, 0u);
}

fn wide_from_i32(x: i32) -> vec2<u32> {
    return vec2<u32>(bitcast<u32>(x), bitcast<u32>(x >> 31u));
}

// ---------------------------------------------------------------- sums and products, modulo 2^64

fn wide_add(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + u32(low < a.x));
}

fn wide_sub(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - u32(a.x < b.x));
}

fn wide_neg(x: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(~x.x + 1u, ~x.y + u32(x.x == 0u));
}

fn wide_mul(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = multiply_wide(a.x, b.x);
    return vec2<u32>(low.x, low.y + a.x * b.y + a.y * b.x);
}

// ---------------------------------------------------------------- order

fn wide_equal(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.x == b.x && a.y == b.y;
}

fn wide_less(a: vec2<u32>, b: vec2<u32>) -> bool {
    return bitcast<i32>(a.y) < bitcast<i32>(b.y) || (a.y == b.y && a.x < b.x);
}

// a < b as unsigned numbers.
fn wide_less_unsigned(a: vec2<u32>, b: vec2<u32>) -> bool {
    return a.y < b.y || (a.y == b.y && a.x < b.x);
}

fn wide_is_zero(x: vec2<u32>) -> bool {
    return (x.x | x.y) == 0u;
}

fn wide_is_negative(x: vec2<u32>) -> bool {
    return (x.y & 0x80000000u) != 0u;
}

// |x| as an unsigned number.
fn wide_abs(x: vec2<u32>) -> vec2<u32> {
    return select(x, wide_neg(x), wide_is_negative(x));
}

// ---------------------------------------------------------------- shifts by 0 to 63

fn wide_shift_left(x: vec2<u32>, by: u32) -> vec2<u32> {
    let part = by & 31u;
    let shifted = vec2<u32>(x.x << part, (x.y << part) | ((x.x >> 1u) >> (31u - part)));
    return select(shifted, vec2<u32>(0u, shifted.x), by >= 32u);
}

fn wide_shift_right_logical(x: vec2<u32>, by: u32) -> vec2<u32> {
    let part = by & 31u;
    let shifted = vec2<u32>((x.x >> part) | ((x.y << 1u) << (31u - part)), x.y >> part);
    return select(shifted, vec2<u32>(shifted.y, 0u), by >= 32u);
}

fn wide_leading_zeros(x: vec2<u32>) -> u32 {
    return select(countLeadingZeros(x.y), 32u + countLeadingZeros(x.x), x.y == 0u);
}

// ---------------------------------------------------------------- quotients

// The quotient and the remainder of unsigned numbers.
struct WideQuotient {
    quotient: vec2<u32>,
    remainder: vec2<u32>,
}

// a / b of unsigned numbers, b not 0: directly if both fit in one word, otherwise bit by bit.
fn wide_divide(a: vec2<u32>, b: vec2<u32>) -> WideQuotient {
    if (a.y == 0u && b.y == 0u) {
        let divisor = max(b.x, 1u);
        return WideQuotient(vec2<u32>(a.x / divisor, 0u), vec2<u32>(a.x % divisor, 0u));
    }
    if (wide_less_unsigned(a, b)) {
        return WideQuotient(vec2<u32>(0u, 0u), a);
    }
    var step = wide_leading_zeros(b) - wide_leading_zeros(a);
    var remainder = a;
    var divisor = wide_shift_left(b, step);
    var quotient = vec2<u32>(0u, 0u);
    loop {
        quotient = wide_shift_left(quotient, 1u);
        if (!wide_less_unsigned(remainder, divisor)) {
            remainder = wide_sub(remainder, divisor);
            quotient.x |= 1u;
        }
        if (step == 0u) {
            break;
        }
        step -= 1u;
        divisor = wide_shift_right_logical(divisor, 1u);
    }
    return WideQuotient(quotient, remainder);
}

// a / b rounded toward zero; 0 if b is 0.
fn wide_div(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    let quotient = wide_divide(wide_abs(a), wide_abs(b)).quotient;
    return select(quotient, wide_neg(quotient), wide_is_negative(a) != wide_is_negative(b));
}

// a - b * (a / b), with the sign of a, as in C; 0 if b is 0.
fn wide_rem(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    if (wide_is_zero(b)) {
        return vec2<u32>(0u, 0u);
    }
    let remainder = wide_divide(wide_abs(a), wide_abs(b)).remainder;
    return select(remainder, wide_neg(remainder), wide_is_negative(a));
}

// ---------------------------------------------------------------- power

// base^exponent, by repeated multiplication, for an unsigned exponent.
fn wide_pow_unsigned(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
    var product = vec2<u32>(1u, 0u);
    var square = base;
    var remaining = exponent;
    while (!wide_is_zero(remaining)) {
        if ((remaining.x & 1u) != 0u) {
            product = wide_mul(product, square);
        }
        square = wide_mul(square, square);
        remaining = wide_shift_right_logical(remaining, 1u);
    }
    return product;
}

// base^exponent. A negative exponent gives 0, except for the bases 1 and -1.
fn wide_pow(base: vec2<u32>, exponent: vec2<u32>) -> vec2<u32> {
    if (!wide_is_negative(exponent)) {
        return wide_pow_unsigned(base, exponent);
    }
    let unit = vec2<u32>(1u, 0u);
    let minus_unit = vec2<u32>(0xffffffffu, 0xffffffffu);
    if (wide_equal(base, unit)) {
        return unit;
    }
    let odd = (exponent.x & 1u) != 0u;
    return select(vec2<u32>(0u, 0u), select(unit, minus_unit, odd), wide_equal(base, minus_unit));
}

// ---------------------------------------------------------------- to and from f32

// Converts an unsigned number, rounded to nearest, ties to even.
fn wide_abs_to_f32(size: vec2<u32>) -> f32 {
    if (wide_is_zero(size)) {
        return 0.0;
    }
    let zeros = wide_leading_zeros(size);
    let normal = wide_shift_left(size, zeros);
    let mantissa = normal.y >> 8u;
    let dropped = normal.y & 0xffu;
    let more = dropped > 0x80u || (dropped == 0x80u && (normal.x != 0u || (mantissa & 1u) == 1u));
    return bitcast<f32>(((189u - zeros) << 23u) + mantissa + u32(more));
}

// Converts a signed number, rounded to nearest, ties to even.
fn wide_to_f32(x: vec2<u32>) -> f32 {
    let value = bitcast<u32>(wide_abs_to_f32(wide_abs(x)));
    return bitcast<f32>(value | (x.y & select(0u, 0x80000000u, wide_is_negative(x))));
}

// Converts a float, rounded toward zero. Values beyond the range become the nearest limit of the
// range, NaN becomes 0.
fn wide_from_f32(x: f32) -> vec2<u32> {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    if (size > 0x7f800000u || size < 0x3f800000u) {
        return vec2<u32>(0u, 0u);
    }
    let negative = (bitcast<u32>(x) & 0x80000000u) != 0u;
    if (size >= 0x5f000000u) {
        return select(vec2<u32>(0xffffffffu, 0x7fffffffu), vec2<u32>(0u, 0x80000000u), negative);
    }
    // The mantissa in the upper 24 of 64 bits, shifted to its position.
    let mantissa = vec2<u32>(0u, (size << 8u) | 0x80000000u);
    let value = wide_shift_right_logical(mantissa, 190u - (size >> 23u));
    return select(value, wide_neg(value), negative);
}

// ---------------------------------------------------------------- the class interface

// The compute type.
alias C = vec2<u32>;

fn zero() -> C {
    return vec2<u32>(0u, 0u);
}

fn one() -> C {
    return vec2<u32>(1u, 0u);
}

fn lowest() -> C {
    return vec2<u32>(0u, 0x80000000u);
}

fn highest() -> C {
    return vec2<u32>(0xffffffffu, 0x7fffffffu);
}

fn is_nan(x: C) -> bool {
    return false;
}

fn is_true(x: C) -> bool {
    return !wide_is_zero(x);
}

fn from_bool(b: bool) -> C {
    return vec2<u32>(u32(b), 0u);
}

fn less(a: C, b: C) -> bool {
    return wide_less(a, b);
}

fn same(a: C, b: C) -> bool {
    return wide_equal(a, b);
}

fn larger(a: C, b: C) -> C {
    return select(b, a, less(b, a));
}

fn smaller(a: C, b: C) -> C {
    return select(b, a, less(a, b));
}

fn sum_of(a: C, b: C) -> C {
    return wide_add(a, b);
}

fn difference_of(a: C, b: C) -> C {
    return wide_sub(a, b);
}

fn product_of(a: C, b: C) -> C {
    return wide_mul(a, b);
}

fn quotient_of(a: C, b: C) -> C {
    return wide_div(a, b);
}

// The remainder with the sign of b; 0 if b is 0.
fn remainder_of(a: C, b: C) -> C {
    let remainder = wide_rem(a, b);
    let moves = !wide_is_zero(remainder) && wide_is_negative(remainder) != wide_is_negative(b);
    return select(remainder, wide_add(remainder, b), moves);
}

fn power_of(base: C, exponent: C) -> C {
    return wide_pow(base, exponent);
}

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return wide_neg(x);
}

fn unary_abs(x: C) -> C {
    return wide_abs(x);
}

fn unary_sign(x: C) -> C {
    return select(vec2<u32>(u32(!wide_is_zero(x)), 0u), vec2<u32>(0xffffffffu, 0xffffffffu), wide_is_negative(x));
}

fn unary_relu(x: C) -> C {
    return select(x, vec2<u32>(0u, 0u), wide_is_negative(x));
}

fn unary_square(x: C) -> C {
    return wide_mul(x, x);
}

fn unary_clamp(x: C) -> C {
    return smaller(larger(x, first()), second());
}

// ---------------------------------------------------------------- binary

fn binary_add(a: C, b: C) -> C {
    return wide_add(a, b);
}

fn binary_sub(a: C, b: C) -> C {
    return wide_sub(a, b);
}

fn binary_mul(a: C, b: C) -> C {
    return wide_mul(a, b);
}

fn binary_div(a: C, b: C) -> C {
    return quotient_of(a, b);
}

fn binary_pow(a: C, b: C) -> C {
    return power_of(a, b);
}

fn binary_maximum(a: C, b: C) -> C {
    return larger(a, b);
}

fn binary_minimum(a: C, b: C) -> C {
    return smaller(a, b);
}

fn binary_remainder(a: C, b: C) -> C {
    return remainder_of(a, b);
}

// ---------------------------------------------------------------- compare

fn compare_eq(a: C, b: C) -> bool {
    return wide_equal(a, b);
}

fn compare_ne(a: C, b: C) -> bool {
    return !wide_equal(a, b);
}

fn compare_lt(a: C, b: C) -> bool {
    return less(a, b);
}

fn compare_le(a: C, b: C) -> bool {
    return !less(b, a);
}

fn compare_gt(a: C, b: C) -> bool {
    return less(b, a);
}

fn compare_ge(a: C, b: C) -> bool {
    return !less(a, b);
}
