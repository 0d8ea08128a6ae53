// Class of i32, and of i16 and i8, whose low bits are stored: the class interface, and the unary,
// binary and compare families. Integers wrap; division by zero gives 0.
//
// The host provides first() and second() -> C, the constants of an op.

// The compute type.
alias C = i32;

fn zero() -> C {
    return 0i;
}

fn one() -> C {
    return 1i;
}

fn lowest() -> C {
    return bitcast<i32>(0x80000000u);
}

fn highest() -> C {
    return 0x7fffffffi;
}

fn is_nan(x: C) -> bool {
    return false;
}

fn is_true(x: C) -> bool {
    return x != 0i;
}

fn from_bool(b: bool) -> C {
    return i32(b);
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
    return a + b;
}

fn difference_of(a: C, b: C) -> C {
    return a - b;
}

fn product_of(a: C, b: C) -> C {
    return a * b;
}

// a / b, rounded toward zero. Division by zero gives 0, and the lowest number divided by -1 wraps.
fn quotient_of(a: C, b: C) -> C {
    if (b == 0i) {
        return 0i;
    }
    if (b == -1i) {
        return 0i - a;
    }
    return a / b;
}

// The remainder with the sign of b; 0 if b is 0.
fn remainder_of(a: C, b: C) -> C {
    if (b == 0i || b == -1i) {
        return 0i;
    }
    let remainder = a % b;
    return select(remainder, remainder + b, remainder != 0i && (remainder < 0i) != (b < 0i));
}

// base^exponent, by repeated multiplication. A negative exponent gives 0, except for the bases 1
// and -1.
fn power_of(base: C, exponent: C) -> C {
    if (exponent < 0i) {
        if (base == 1i) {
            return 1i;
        }
        return select(0i, select(1i, -1i, (exponent & 1i) != 0i), base == -1i);
    }
    var product = 1i;
    var square = base;
    var remaining = exponent;
    while (remaining > 0i) {
        if ((remaining & 1i) != 0i) {
            product *= square;
        }
        square *= square;
        remaining >>= 1u;
    }
    return product;
}

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return 0i - x;
}

fn unary_abs(x: C) -> C {
    return select(x, 0i - x, x < 0i);
}

fn unary_sign(x: C) -> C {
    return i32(x > 0i) - i32(x < 0i);
}

fn unary_relu(x: C) -> C {
    return max(x, 0i);
}

fn unary_square(x: C) -> C {
    return x * x;
}

fn unary_clamp(x: C) -> C {
    return min(max(x, first()), second());
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
