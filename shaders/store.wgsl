// 16-bit floats as they lie in memory, by integers alone: no device feature is needed, subnormals are right where arithmetic flushes them, and each
// value is rounded once to nearest even.

// The f32 of an f16's bits, exactly.
fn f16_to_f32(bits: u32) -> f32 {
    let sign = (bits & 0x8000u) << 16u;
    let size = bits & 0x7fffu;
    if (size >= 0x7c00u) {
        let quiet = select(0u, 0x400000u, size > 0x7c00u);
        return bitcast<f32>(sign | 0x7f800000u | quiet | ((size & 0x3ffu) << 13u));
    }
    if (size >= 0x400u) {
        return bitcast<f32>(sign | ((size << 13u) + 0x38000000u));
    }
    if (size == 0u) {
        return bitcast<f32>(sign);
    }
    // Subnormal: size * 2^-24. The leading bit moves to where its weight is added to the exponent.
    let shift = countLeadingZeros(size) - 8u;
    return bitcast<f32>(sign | (((125u - shift) << 23u) + (size << shift)));
}

// The bits of the f16 nearest to x, halves to even; too large is infinite; NaN stays NaN.
fn f32_to_f16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let sign = (bits >> 16u) & 0x8000u;
    let size = bits & 0x7fffffffu;
    if (size > 0x7f800000u) {
        return sign | 0x7e00u | ((size >> 13u) & 0x3ffu);
    }
    // From 65520 on.
    if (size >= 0x477ff000u) {
        return sign | 0x7c00u;
    }
    if (size >= 0x38800000u) {
        let rebased = size - 0x38000000u;
        return sign | ((rebased + 0xfffu + ((rebased >> 13u) & 1u)) >> 13u);
    }
    // Half the smallest f16 and less.
    if (size <= 0x33000000u) {
        return sign;
    }
    // Subnormal: a mantissa of 24 bits loses 14 to 24 of them.
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let shift = 126u - (size >> 23u);
    let kept = mantissa >> shift;
    return sign | ((mantissa + (1u << (shift - 1u)) - 1u + (kept & 1u)) >> shift);
}

// The f32 of a bf16's bits, exactly.
fn bf16_to_f32(bits: u32) -> f32 {
    return bitcast<f32>(bits << 16u);
}

// The bits of the bf16 nearest to x, halves to even; too large is infinite; NaN stays NaN.
fn f32_to_bf16(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u) {
        return (bits >> 16u) | 0x40u;
    }
    return (bits + 0x7fffu + ((bits >> 16u) & 1u)) >> 16u;
}

// ---------------------------------------------------------------- integers rounded to odd, so that a second rounding sees what the first one dropped

// An unsigned 64-bit number with a sign, cut to 24 bits of which the last is 1 if any bit was lost.
fn wide_size_to_f32_odd(size: vec2<u32>, negative: bool) -> f32 {
    if (wide_is_zero(size)) {
        return 0.0;
    }
    let zeros = wide_leading_zeros(size);
    let normal = wide_shift_left(size, zeros);
    let lost = u32(((normal.y & 0xffu) | normal.x) != 0u);
    return bitcast<f32>(select(0u, 0x80000000u, negative) | (((189u - zeros) << 23u) + ((normal.y >> 8u) | lost)));
}

fn wide_to_f32_odd(x: vec2<u32>) -> f32 {
    return wide_size_to_f32_odd(wide_size(x), wide_is_negative(x));
}

fn i32_to_f32_odd(x: i32) -> f32 {
    return wide_size_to_f32_odd(vec2<u32>(u32(select(x, 0i - x, x < 0i)), 0u), x < 0i);
}
