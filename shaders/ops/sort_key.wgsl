// Keys with the sorting order of elements, computed from their bits: unsigned numbers, with NaN
// above all others, and -0 equal to 0.

// Returns the key of a float whose sign bit is `sign`; `infinite` is the bits of infinity.
fn float_key(bits: u32, sign: u32, infinite: u32) -> u32 {
    let size = bits & (sign - 1u);
    let all = sign | (sign - 1u);
    if (size > infinite) {
        return all;
    }
    if (size == 0u) {
        return sign;
    }
    return select(bits | sign, ~bits & all, (bits & sign) != 0u);
}
fn key_f32(bits: u32) -> u32 { return float_key(bits, 0x80000000u, 0x7f800000u); }
fn key_f16(bits: u32) -> u32 { return float_key(bits, 0x8000u, 0x7c00u); }
fn key_bf16(bits: u32) -> u32 { return float_key(bits, 0x8000u, 0x7f80u); }
fn key_i32(bits: u32) -> u32 { return bits ^ 0x80000000u; }
fn key_i16(bits: u32) -> u32 { return bits ^ 0x8000u; }
fn key_i8(bits: u32) -> u32 { return bits ^ 0x80u; }
fn key_u8(bits: u32) -> u32 { return bits; }
fn key_u64(bits: vec2<u32>) -> vec2<u32> { return bits; }
fn key_i64(bits: vec2<u32>) -> vec2<u32> { return vec2<u32>(bits.x, bits.y ^ 0x80000000u); }

fn key_above(a: u32, b: u32) -> bool { return a > b; }
fn wide_key_above(a: vec2<u32>, b: vec2<u32>) -> bool { return wide_less_unsigned(b, a); }
