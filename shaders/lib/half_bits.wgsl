// Conversions of 16-bit floats as they are stored in memory, without branches. They need no device
// feature, subnormals of f16 are correct even if arithmetic flushes those of f32, and each value is
// rounded once, to nearest, ties to even.

// The f32 of an f16's bits, exactly. Subnormals are not left to the device, whose result is
// unspecified: their bits become the mantissa of a number from 2^-14 on, from which 2^-14 is
// subtracted.
fn f16_to_f32(bits: u32) -> f32 {
    let size = bits & 0x7fffu;
    let subnormal = bitcast<u32>(bitcast<f32>((size << 13u) | 0x38800000u) - 0.00006103515625);
    return select(unpack2x16float(bits).x, bitcast<f32>(subnormal | ((bits & 0x8000u) << 16u)), size < 0x400u);
}

// The bits of the f16 nearest to x, ties to even; values that are too large become infinity; NaN
// stays NaN.
//
// The sum with a power of two that is 13 bits above x, and at least 1/2, is rounded at the last bit
// of an f16: its mantissa is that of the result, including the leading 1.
fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let bounded = min(size, 0x47800000u);
    let power = max(bounded & 0x7f800000u, 0x38800000u) + 0x6800000u;
    let mantissa = bitcast<u32>(bitcast<f32>(bounded) + bitcast<f32>(power)) - power;
    let number = mantissa + ((power >> 13u) - 0x1f800u);
    return ((bits >> 16u) & 0x8000u) | select(number, 0x7e00u, size > 0x7f800000u);
}

// The f32 of a bf16's bits, exactly.
fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// The bits of the bf16 nearest to x, ties to even; values that are too large become infinity; NaN
// stays NaN.
fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let rounded = bits + 0x7fffu + ((bits >> 16u) & 1u);
    return select(rounded, bits | 0x400000u, (bits & 0x7fffffffu) > 0x7f800000u) >> 16u;
}

// ---------------------------------------------------------------- integers rounded to odd
//
// Rounding to odd preserves for a second rounding whether the first one lost any bits.

// Converts an unsigned 64-bit number with a sign: it is truncated to 24 bits, and the last bit is
// set if any bit was lost.
fn wide_abs_to_f32_odd(size: vec2<u32>, negative: bool) -> f32 {
    if (wide_is_zero(size)) {
        return 0.0;
    }
    let zeros = wide_leading_zeros(size);
    let normal = wide_shift_left(size, zeros);
    let lost = u32(((normal.y & 0xffu) | normal.x) != 0u);
    return bitcast<f32>(select(0u, 0x80000000u, negative) | (((189u - zeros) << 23u) + ((normal.y >> 8u) | lost)));
}

fn wide_to_f32_odd(x: vec2<u32>) -> f32 {
    return wide_abs_to_f32_odd(wide_abs(x), wide_is_negative(x));
}

fn i32_to_f32_odd(x: i32) -> f32 {
    return wide_abs_to_f32_odd(vec2<u32>(u32(select(x, 0i - x, x < 0i)), 0u), x < 0i);
}
