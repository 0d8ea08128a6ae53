// Conversions cast_FROM_TO(x), rounded once. FROM is a compute class (f32 also for f16 and bf16;
// i32 also for i16 and i8; u32 also for u16; u8 also for bool), TO is a dtype:
//
//   f32        the value
//   f16, bf16  the 16 bits, in a u32
//   i32        the value
//   i16, i8    the value, in an i32
//   u32        the value
//   u16        the value, in a u32
//   u8, bool   a u32: 0 to 255, 0 or 1
//   i64, u64   vec2(low word, high word)
//
// Float to integer truncates and saturates, NaN gives 0. Integer to integer keeps the low bits.
// Anything to bool is x != 0.

// ---------------------------------------------------------------- from f32

fn cast_f32_f32(x: f32) -> f32 {
    return x;
}

fn cast_f32_f16(x: f32) -> u32 {
    return f32_to_f16(x);
}

fn cast_f32_bf16(x: f32) -> u32 {
    return f32_to_bf16(x);
}

// Computed from the bits, because the device's conversion is unspecified for numbers out of range.
fn cast_f32_i32(x: f32) -> i32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    if (size > 0x7f800000u || size < 0x3f800000u) {
        return 0i;
    }
    let negative = (bitcast<u32>(x) & 0x80000000u) != 0u;
    if (size >= 0x4f000000u) {
        return bitcast<i32>(0x7fffffffu + u32(negative));
    }
    let value = bitcast<i32>(((size << 8u) | 0x80000000u) >> (158u - (size >> 23u)));
    return select(value, 0i - value, negative);
}

fn cast_f32_i16(x: f32) -> i32 {
    return clamp(cast_f32_i32(x), -32768i, 32767i);
}

fn cast_f32_i8(x: f32) -> i32 {
    return clamp(cast_f32_i32(x), -128i, 127i);
}

fn cast_f32_u8(x: f32) -> u32 {
    return u32(clamp(cast_f32_i32(x), 0i, 255i));
}

// Computed from the bits, as above.
fn cast_f32_u32(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    // Negative numbers, those below 1, and NaN.
    if (bits > 0x7f800000u || bits < 0x3f800000u) {
        return 0u;
    }
    if (bits >= 0x4f800000u) {
        return 0xffffffffu;
    }
    return ((bits << 8u) | 0x80000000u) >> (158u - (bits >> 23u));
}

fn cast_f32_u16(x: f32) -> u32 {
    return min(cast_f32_u32(x), 65535u);
}

fn cast_f32_u64(x: f32) -> vec2<u32> {
    let bits = bitcast<u32>(x);
    if (bits > 0x7f800000u || bits < 0x3f800000u) {
        return vec2<u32>(0u, 0u);
    }
    if (bits >= 0x5f800000u) {
        return vec2<u32>(0xffffffffu, 0xffffffffu);
    }
    return wide_shift_right_logical(vec2<u32>(0u, (bits << 8u) | 0x80000000u), 190u - (bits >> 23u));
}

fn cast_f32_i64(x: f32) -> vec2<u32> {
    return wide_from_f32(x);
}

fn cast_f32_bool(x: f32) -> u32 {
    return u32((bitcast<u32>(x) & 0x7fffffffu) != 0u);
}

// ---------------------------------------------------------------- from i32

fn cast_i32_f32(x: i32) -> f32 {
    return wide_to_f32(wide_from_i32(x));
}

fn cast_i32_f16(x: i32) -> u32 {
    return f32_to_f16(i32_to_f32_odd(x));
}

fn cast_i32_bf16(x: i32) -> u32 {
    return f32_to_bf16(i32_to_f32_odd(x));
}

fn cast_i32_i32(x: i32) -> i32 {
    return x;
}

fn cast_i32_u32(x: i32) -> u32 {
    return bitcast<u32>(x);
}

fn cast_i32_u8(x: i32) -> u32 {
    return bitcast<u32>(x) & 255u;
}

fn cast_i32_i64(x: i32) -> vec2<u32> {
    return wide_from_i32(x);
}

fn cast_i32_bool(x: i32) -> u32 {
    return u32(x != 0i);
}

// ---------------------------------------------------------------- from u8 and bool

fn cast_u8_f32(x: u32) -> f32 {
    return f32(x);
}

fn cast_u8_f16(x: u32) -> u32 {
    return f32_to_f16(f32(x));
}

fn cast_u8_bf16(x: u32) -> u32 {
    return f32_to_bf16(f32(x));
}

fn cast_u8_i32(x: u32) -> i32 {
    return i32(x);
}

fn cast_u8_u8(x: u32) -> u32 {
    return x;
}

fn cast_u8_i64(x: u32) -> vec2<u32> {
    return vec2<u32>(x, 0u);
}

fn cast_u8_bool(x: u32) -> u32 {
    return u32(x != 0u);
}

// ---------------------------------------------------------------- from i64

fn cast_i64_f32(x: vec2<u32>) -> f32 {
    return wide_to_f32(x);
}

fn cast_i64_f16(x: vec2<u32>) -> u32 {
    return f32_to_f16(wide_to_f32_odd(x));
}

fn cast_i64_bf16(x: vec2<u32>) -> u32 {
    return f32_to_bf16(wide_to_f32_odd(x));
}

fn cast_i64_i32(x: vec2<u32>) -> i32 {
    return bitcast<i32>(x.x);
}

fn cast_i64_u32(x: vec2<u32>) -> u32 {
    return x.x;
}

fn cast_i64_u8(x: vec2<u32>) -> u32 {
    return x.x & 255u;
}

fn cast_i64_i64(x: vec2<u32>) -> vec2<u32> {
    return x;
}

fn cast_i64_bool(x: vec2<u32>) -> u32 {
    return u32((x.x | x.y) != 0u);
}

// ---------------------------------------------------------------- from u32 (others as from u8)

fn cast_u32_f32(x: u32) -> f32 {
    return wide_abs_to_f32(vec2<u32>(x, 0u));
}

fn cast_u32_f16(x: u32) -> u32 {
    return f32_to_f16(wide_abs_to_f32_odd(vec2<u32>(x, 0u), false));
}

fn cast_u32_bf16(x: u32) -> u32 {
    return f32_to_bf16(wide_abs_to_f32_odd(vec2<u32>(x, 0u), false));
}

fn cast_u32_u8(x: u32) -> u32 {
    return x & 255u;
}

// ---------------------------------------------------------------- from u64 (others as from i64)

fn cast_u64_f32(x: vec2<u32>) -> f32 {
    return wide_abs_to_f32(x);
}

fn cast_u64_f16(x: vec2<u32>) -> u32 {
    return f32_to_f16(wide_abs_to_f32_odd(x, false));
}

fn cast_u64_bf16(x: vec2<u32>) -> u32 {
    return f32_to_bf16(wide_abs_to_f32_odd(x, false));
}
