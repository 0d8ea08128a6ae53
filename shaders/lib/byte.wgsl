// Class of u8 and bool: a number is a u32 from 0 to 255, a bool is 0 or 1. The class interface, and
// the unary, binary and compare families. Numbers wrap at 256; division by zero gives 0.
//
// The host provides first() and second() -> C, the constants of an op.

// The compute type.
alias C = u32;

fn zero() -> C {
    return 0u;
}

fn one() -> C {
    return 1u;
}

fn lowest() -> C {
    return 0u;
}

fn highest() -> C {
    return 255u;
}

fn is_nan(x: C) -> bool {
    return false;
}

fn is_true(x: C) -> bool {
    return x != 0u;
}

fn from_bool(b: bool) -> C {
    return u32(b);
}

fn less(a: C, b: C) -> bool {
    return a < b;
}

fn same(a: C, b: C) -> bool {
    return a == b;
}

fn larger(a: C, b: C) -> C {
    return max(a, b);
}

fn smaller(a: C, b: C) -> C {
    return min(a, b);
}

fn sum_of(a: C, b: C) -> C {
    return (a + b) & 255u;
}

fn difference_of(a: C, b: C) -> C {
    return (a - b) & 255u;
}

fn product_of(a: C, b: C) -> C {
    return (a * b) & 255u;
}

fn quotient_of(a: C, b: C) -> C {
    if (b == 0u) {
        return 0u;
    }
    return a / b;
}

fn remainder_of(a: C, b: C) -> C {
    if (b == 0u) {
        return 0u;
    }
    return a % b;
}

// base^exponent, by repeated multiplication.
fn power_of(base: C, exponent: C) -> C {
    var product = 1u;
    var square = base;
    var remaining = exponent;
    while (remaining > 0u) {
        if ((remaining & 1u) != 0u) {
            product = (product * square) & 255u;
        }
        square = (square * square) & 255u;
        remaining >>= 1u;
    }
    return product;
}

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return (0u - x) & 255u;
}

fn unary_abs(x: C) -> C {
    return x;
}

fn unary_sign(x: C) -> C {
    return u32(x != 0u);
}

fn unary_relu(x: C) -> C {
    return x;
}

fn unary_square(x: C) -> C {
    return (x * x) & 255u;
}

fn unary_clamp(x: C) -> C {
    return min(max(x, first()), second());
}

fn unary_logical_not(x: C) -> C {
    return u32(x == 0u);
}

// ---------------------------------------------------------------- binary

fn binary_add(a: C, b: C) -> C {
    return sum_of(a, b);
}

fn binary_sub(a: C, b: C) -> C {
    return difference_of(a, b);
}

fn binary_mul(a: C, b: C) -> C {
    return product_of(a, b);
}

fn binary_div(a: C, b: C) -> C {
    return quotient_of(a, b);
}

fn binary_pow(a: C, b: C) -> C {
    return power_of(a, b);
}

fn binary_maximum(a: C, b: C) -> C {
    return max(a, b);
}

fn binary_minimum(a: C, b: C) -> C {
    return min(a, b);
}

fn binary_remainder(a: C, b: C) -> C {
    return remainder_of(a, b);
}

fn binary_logical_and(a: C, b: C) -> C {
    return u32(a != 0u && b != 0u);
}

fn binary_logical_or(a: C, b: C) -> C {
    return u32((a | b) != 0u);
}

fn binary_logical_xor(a: C, b: C) -> C {
    return u32((a != 0u) != (b != 0u));
}

// ---------------------------------------------------------------- compare

fn compare_eq(a: C, b: C) -> bool {
    return a == b;
}

fn compare_ne(a: C, b: C) -> bool {
    return a != b;
}

fn compare_lt(a: C, b: C) -> bool {
    return a < b;
}

fn compare_le(a: C, b: C) -> bool {
    return a <= b;
}

fn compare_gt(a: C, b: C) -> bool {
    return a > b;
}

fn compare_ge(a: C, b: C) -> bool {
    return a >= b;
}
