// RESULT of elementwise.wgsl: the bits of element `number` of y.

fn unary_result(number: u32) -> y_BITS { return y_rounded(FUNCTION(a_at(ELEMENT_INDEX(1u, number)))); }
fn binary_result(number: u32) -> y_BITS { return y_rounded(FUNCTION(a_at(ELEMENT_INDEX(1u, number)), b_at(ELEMENT_INDEX(2u, number)))); }
fn scalar_right_result(number: u32) -> y_BITS { return y_rounded(FUNCTION(a_at(ELEMENT_INDEX(1u, number)), scalar())); }
fn scalar_left_result(number: u32) -> y_BITS { return y_rounded(FUNCTION(scalar(), a_at(ELEMENT_INDEX(1u, number)))); }
fn compare_result(number: u32) -> u32 { return u32(FUNCTION(a_at(ELEMENT_INDEX(1u, number)), b_at(ELEMENT_INDEX(2u, number)))); }
fn compare_scalar_result(number: u32) -> u32 { return u32(FUNCTION(a_at(ELEMENT_INDEX(1u, number)), scalar())); }

// Each op rounds once, as a product followed by a sum does.
fn multiply_add_result(number: u32) -> y_BITS {
    return y_rounded(sum_of(product_of(a_at(ELEMENT_INDEX(1u, number)), b_at(ELEMENT_INDEX(2u, number))), c_at(ELEMENT_INDEX(3u, number))));
}
fn scale_add_result(number: u32) -> y_BITS {
    return y_rounded(sum_of(product_of(scalar(), a_at(ELEMENT_INDEX(1u, number))), b_at(ELEMENT_INDEX(2u, number))));
}
fn add_relu_result(number: u32) -> y_BITS {
    return y_rounded(larger(sum_of(a_at(ELEMENT_INDEX(1u, number)), b_at(ELEMENT_INDEX(2u, number))), zero()));
}
fn bias_activation_result(number: u32) -> y_BITS {
    return y_rounded(FUNCTION(sum_of(a_at(ELEMENT_INDEX(1u, number)), b_at(ELEMENT_INDEX(2u, number)))));
}

// Selects by a condition. It moves bits, for any dtype.
fn select_result(number: u32) -> y_BITS {
    if (a_bits(ELEMENT_INDEX(1u, number)) != 0u) {
        return b_bits(ELEMENT_INDEX(2u, number));
    }
    return c_bits(ELEMENT_INDEX(3u, number));
}

// Copies: of bits; of numbers that the other dtype can represent; with a function that returns a
// number, or the bits of a rounded number.
fn bits_result(number: u32) -> y_BITS { return a_bits(ELEMENT_INDEX(1u, number)); }
fn same_result(number: u32) -> y_BITS { return y_rounded(a_at(ELEMENT_INDEX(1u, number))); }
fn cast_result(number: u32) -> y_BITS { return y_rounded(FUNCTION(a_at(ELEMENT_INDEX(1u, number)))); }
fn cast_bits_result(number: u32) -> u32 { return FUNCTION(a_at(ELEMENT_INDEX(1u, number))); }

fn fill_result(number: u32) -> u32 { return params.scalar.x; }
fn fill_wide_result(number: u32) -> vec2<u32> { return params.scalar.xy; }
