// Class of u32, and of u16, whose low bits are stored: the functions that differ from byte.wgsl.
// Numbers wrap.

fn highest() -> C {
    return 0xffffffffu;
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

// base^exponent, by repeated multiplication.
fn power_of(base: C, exponent: C) -> C {
    var product = 1u;
    var square = base;
    var remaining = exponent;
    while (remaining > 0u) {
        if ((remaining & 1u) != 0u) {
            product *= square;
        }
        square *= square;
        remaining >>= 1u;
    }
    return product;
}

// ---------------------------------------------------------------- unary

fn unary_neg(x: C) -> C {
    return 0u - x;
}

fn unary_square(x: C) -> C {
    return x * x;
}
