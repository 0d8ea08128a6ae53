// Remainder and power of f32. They belong to the class of float.wgsl, and are built on
// elementary.wgsl.

// The exact remainder with the sign of a, as C's fmodf: 8 bits of the quotient per step.
fn float_fmod(a: f32, b: f32) -> f32 {
    let a_size = abs_bits(a);
    let b_size = abs_bits(b);
    if (a_size >= 0x7f800000u || b_size > 0x7f800000u || b_size == 0u) {
        return quiet_nan();
    }
    if (a_size < b_size) {
        return a;
    }
    let a_exponent = max(a_size >> 23u, 1u);
    let b_exponent = max(b_size >> 23u, 1u);
    let b_mantissa = (b_size & 0x7fffffu) | select(0u, 0x800000u, b_size >= 0x800000u);
    var rest = ((a_size & 0x7fffffu) | select(0u, 0x800000u, a_size >= 0x800000u)) % b_mantissa;
    var remaining = a_exponent - b_exponent;
    while (remaining > 0u && rest != 0u) {
        let step = min(remaining, 8u);
        rest = (rest << step) % b_mantissa;
        remaining -= step;
    }
    if (rest == 0u) {
        return bitcast<f32>(sign_bit(a));
    }
    // rest * 2^(b_exponent - 150), below |b|.
    let shift = min(countLeadingZeros(rest) - 8u, b_exponent - 1u);
    let mantissa = rest << shift;
    let exponent = select(0u, b_exponent - shift, mantissa >= 0x800000u);
    return bitcast<f32>(sign_bit(a) | (exponent << 23u) | (mantissa & 0x7fffffu));
}

// The remainder with the sign of b: C's remainder, plus b if the signs differ.
fn float_remainder(a: f32, b: f32) -> f32 {
    let rest = float_fmod(a, b);
    let rest_size = abs_bits(rest);
    if (rest_size == 0u || rest_size > 0x7f800000u || sign_bit(rest) == sign_bit(b)) {
        return rest;
    }
    return rest + b;
}

// Returns 2 if x is an even integer, 1 if it is an odd integer, else 0. Not for NaN.
fn integer_parity(x: f32) -> u32 {
    let size = abs_bits(x);
    let exponent = size >> 23u;
    if (exponent > 150u || size == 0u) {
        return 2u;
    }
    if (exponent < 127u) {
        return 0u;
    }
    let unit = 1u << (150u - exponent);
    let mantissa = size | 0x800000u;
    if ((mantissa & (unit - 1u)) != 0u) {
        return 0u;
    }
    return select(2u, 1u, (mantissa & unit) != 0u);
}

// log2 of a positive finite x to about 34 bits, 12 of them in the first part.
//
// x = 2^k m, s = (m - 1) / (m + 1), log2 m = 2 / (3 ln 2) * s * (3 + s^2 + s^4 Q(s^2)), computed
// with products of upper and lower parts that are exact.
fn log2_pair(x: f32) -> Pair {
    let parts = near_one(x);
    let m = parts.value;
    let f = m - 1.0;
    let divisor = opaque(m + 1.0);
    let divisor_high = upper_half(divisor);
    let divisor_low = opaque(m - opaque(divisor_high - 1.0));
    let s = opaque(f / divisor);
    let s_high = upper_half(s);
    let s_low = opaque(opaque(f - s_high * divisor_high) - s_high * divisor_low) / divisor;
    // z = s^2 = square + cross
    let square = opaque(s_high * s_high);
    let cross = s_low * (s_high + s);
    let z = square + cross;
    let series = cross + z * z * (0.6 + z * (0.4285714030 + z * (0.3333376348 + z * (0.2723230124 + z * 0.2461932600))));
    let sum_high = upper_half(3.0 + square + series);
    let sum_low = opaque(series - opaque(opaque(sum_high - 3.0) - square));
    let main = opaque(s_high * sum_high);
    let side = opaque(s_low * sum_high + sum_low * s);
    let product_high = upper_half(main + side);
    let product_low = opaque(side - opaque(product_high - main));
    // 2 / (3 ln 2) is 0.9616699219 + 1.267720509e-04.
    let log_high = opaque(0.9616699219 * product_high);
    let log_low = opaque(1.267720509e-04 * product_high + product_low * 0.9617967010);
    let power = f32(parts.power);
    let high = upper_half(opaque(log_high + log_low) + power);
    return Pair(high, opaque(log_low - opaque(opaque(high - power) - log_high)));
}

// 2^(high + low).
fn exp2_parts(high: f32, low: f32) -> Scaled {
    let power = floor(high + 0.5);
    let r = opaque(high - power) + low;
    let p = 0.6931471825 + r * (0.2402265072 + r * (5.550410971e-02 + r * (9.618055075e-03 + r * (1.333350199e-03
        + r * (1.546190906e-04 + r * 1.529768087e-05)))));
    return Scaled(1.0 + r * p, i32(power));
}

// |base|^exponent for a finite base that is not 0 and a finite exponent.
fn power_of_abs(base: f32, exponent: f32) -> f32 {
    // Beyond 2^34 all powers except those of 1 are out of range.
    let bounded = clamp(exponent, -17179869184.0, 17179869184.0);
    let log = log2_pair(abs_of(base));
    let exponent_high = upper_half(bounded);
    let exponent_low = opaque(bounded - exponent_high);
    let high = opaque(exponent_high * log.high);
    if (high > 300.0) {
        return infinity();
    }
    if (high < -300.0) {
        return 0.0;
    }
    let low = opaque(exponent_low * log.high + bounded * log.low);
    let sum = opaque(high + low);
    let parts = exp2_parts(sum, opaque(high - sum) + low);
    return scaled(parts.value, parts.power);
}

// base^exponent, with the results of C for zeros, infinities and NaN.
fn float_power(base: f32, exponent: f32) -> f32 {
    let base_size = abs_bits(base);
    let exponent_size = abs_bits(exponent);
    if (exponent_size == 0u || bitcast<u32>(base) == 0x3f800000u) {
        return 1.0;
    }
    if (max(base_size, exponent_size) > 0x7f800000u) {
        return quiet_nan();
    }
    let grows = (base_size > 0x3f800000u) == (sign_bit(exponent) == 0u);
    if (exponent_size == 0x7f800000u) {
        if (base_size == 0x3f800000u) {
            return 1.0;
        }
        return select(0.0, infinity(), grows);
    }
    let parity = integer_parity(exponent);
    let sign = select(0u, sign_bit(base), parity == 1u);
    if (base_size == 0u || base_size == 0x7f800000u) {
        return bitcast<f32>(sign | select(0u, 0x7f800000u, grows));
    }
    if (parity == 0u && sign_bit(base) != 0u) {
        return quiet_nan();
    }
    return bitcast<f32>(sign | bitcast<u32>(power_of_abs(base, exponent)));
}
