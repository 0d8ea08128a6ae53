// Sine, cosine and atan2 of f32. They belong to the class of float.wgsl, and are built on
// elementary.wgsl.

// An angle as quadrant * pi/2 + turn + rest, with |turn| at most pi/4.
struct Angle {
    quadrant: u32,
    turn: f32,
    rest: f32,
}

// 32 zero bits and then the bits of 2/pi, in words.
fn two_over_pi(word: u32) -> u32 {
    switch word {
        case 1u: {
            return 0xa2f9836eu;
        }
        case 2u: {
            return 0x4e441529u;
        }
        case 3u: {
            return 0xfc2757d1u;
        }
        case 4u: {
            return 0xf534ddc0u;
        }
        case 5u: {
            return 0xdb629599u;
        }
        case 6u: {
            return 0x3c439041u;
        }
        case 7u: {
            return 0xfe5163abu;
        }
        default: {
            return 0u;
        }
    }
}

// The 32 bits from bit number `bit` (0 to 31) of the pair of words on.
fn word_from(high: u32, low: u32, bit: u32) -> u32 {
    return (high << bit) | ((low >> 1u) >> (31u - bit));
}

fn reduced_angle(x: f32) -> Angle {
    let size = abs_bits(x);
    if (size <= 0x3f490fdau) {
        return Angle(0u, x, 0.0);
    }
    let mantissa = (size & 0x7fffffu) | 0x800000u;
    let start = (size >> 23u) - 120u;
    let word = start >> 5u;
    let bit = start & 31u;
    let second_word = two_over_pi(word + 1u);
    let third_word = two_over_pi(word + 2u);
    let top = word_from(two_over_pi(word), second_word, bit);
    let middle = multiply_wide(mantissa, word_from(second_word, third_word, bit));
    let bottom = multiply_wide(mantissa, word_from(third_word, two_over_pi(word + 3u), bit));
    var low = middle.x + bottom.y;
    var high = mantissa * top + middle.y + u32(low < bottom.y);
    // The two upper bits, rounded, are the quadrant. The rest is in [-1/8, 1/8) turns.
    let quadrant = (high + 0x20000000u) >> 30u;
    high -= quadrant << 30u;
    let negative = (high & 0x80000000u) != 0u;
    if (negative) {
        low = ~low + 1u;
        high = ~high + u32(low == 0u);
    }
    var power = -30;
    if (high == 0u) {
        high = low;
        low = 0u;
        power -= 32;
    }
    let shift = countLeadingZeros(high) & 31u;
    power -= i32(shift);
    // 0xc90fdaa2 is pi/4 in 32 bits: the angle in units of 2^(power + 1), to at least 31 bits.
    let angle = multiply_wide(word_from(high, low, shift), 0xc90fdaa2u).y;
    let unit = bitcast<u32>(scaled(1.0, power + 1)) | select(0u, 0x80000000u, negative);
    let turn = f32(angle & 0xffffff00u) * bitcast<f32>(unit);
    let rest = f32(angle & 0xffu) * bitcast<f32>(unit);
    let mirrored = sign_bit(x) != 0u;
    return Angle(select(quadrant, 4u - quadrant, mirrored) & 3u, select(turn, -turn, mirrored), select(rest, -rest, mirrored));
}

fn sin_near_zero(turn: f32, rest: f32) -> f32 {
    let z = turn * turn;
    let p = -0.1666666716 + z * (8.333331905e-03 + z * (-1.984007395e-04 + z * 2.724836577e-06));
    return turn + ((turn * z) * p + rest);
}

fn cos_near_zero(turn: f32, rest: f32) -> f32 {
    let z = turn * turn;
    let p = 4.166666791e-02 + z * (-1.388888806e-03 + z * (2.480059084e-05 + z * -2.729965729e-07));
    // 1 - z/2 in two parts.
    let half_square = 0.5 * z;
    let main = opaque(1.0 - half_square);
    return main + (opaque(opaque(1.0 - main) - half_square) + (z * z * p - turn * rest));
}

fn sin_of(x: f32) -> f32 {
    let size = abs_bits(x);
    // Below 2^-12 the value is x.
    if (size < 0x39800000u) {
        return x;
    }
    if (size >= 0x7f800000u) {
        return quiet_nan();
    }
    let angle = reduced_angle(x);
    var y = 0.0;
    if ((angle.quadrant & 1u) == 0u) {
        y = sin_near_zero(angle.turn, angle.rest);
    } else {
        y = cos_near_zero(angle.turn, angle.rest);
    }
    return select(y, -y, (angle.quadrant & 2u) != 0u);
}

fn cos_of(x: f32) -> f32 {
    if (abs_bits(x) >= 0x7f800000u) {
        return quiet_nan();
    }
    let angle = reduced_angle(x);
    var y = 0.0;
    if ((angle.quadrant & 1u) == 0u) {
        y = cos_near_zero(angle.turn, angle.rest);
    } else {
        y = sin_near_zero(angle.turn, angle.rest);
    }
    return select(y, -y, ((angle.quadrant + 1u) & 2u) != 0u);
}

// atan(t) - t for |t| <= 1/2.
fn atan_correction(t: f32) -> f32 {
    let z = t * t;
    let p = -0.3333333433 + z * (0.1999999136 + z * (-0.1428517103 + z * (0.1109776348 + z * (-8.932152390e-02 + z * (6.690115482e-02
        + z * -3.272326663e-02)))));
    return (t * z) * p;
}

// eighths * pi/4 + (t + correction).
fn eighths_plus(eighths: u32, t: f32, correction: f32) -> f32 {
    var base = Pair(0.7853981256, 3.774895063e-08);
    switch eighths {
        case 0u: {
            return select(t + correction, t, correction == 0.0);
        }
        case 2u: {
            base = Pair(1.570796251, 7.549790126e-08);
        }
        case 3u: {
            base = Pair(2.356194258, 2.324561450e-07);
        }
        case 4u: {
            base = Pair(3.141592503, 1.509958025e-07);
        }
        default: {
        }
    }
    let sum = opaque(base.high + t);
    return sum + ((opaque(base.high - sum) + t) + (base.low + correction));
}

// Uses the octant of (x, y), in which the ratio is at most 1, and atan(t) = pi/4 + atan((t - 1) /
// (t + 1)) for t above 1/2.
fn atan2_of(y: f32, x: f32) -> f32 {
    if (unordered(y, x)) {
        return quiet_nan();
    }
    let steep = abs_bits(y) > abs_bits(x);
    var below = max(abs_bits(y), abs_bits(x));
    var above = min(abs_bits(y), abs_bits(x));
    if (below == 0x7f800000u) {
        above = select(0u, 0x3f800000u, above == 0x7f800000u);
        below = 0x3f800000u;
    }
    if (below == 0u) {
        below = 0x3f800000u;
    }
    let numerator = normalized(bitcast<f32>(above));
    let denominator = normalized(bitcast<f32>(below));
    let power = numerator.power - denominator.power;
    var eighths = 0u;
    var t = 0.0;
    var correction = 0.0;
    if (power < -30 || above == 0u) {
        t = scaled(pair_quotient(Pair(numerator.value, 0.0), Pair(denominator.value, 0.0)), power);
    } else {
        let u = scaled(numerator.value, power);
        let v = denominator.value;
        if (u > 0.5 * v) {
            let sum = opaque(u + v);
            eighths = 1u;
            t = pair_quotient(Pair(u - v, 0.0), Pair(sum, opaque(v - sum) + u));
        } else {
            t = pair_quotient(Pair(u, 0.0), Pair(v, 0.0));
        }
        correction = atan_correction(t);
    }
    var flipped = 0u;
    if (steep) {
        eighths = 2u - eighths;
        flipped = 0x80000000u;
    }
    if (sign_bit(x) != 0u) {
        eighths = 4u - eighths;
        flipped ^= 0x80000000u;
    }
    t = bitcast<f32>(bitcast<u32>(t) ^ flipped);
    correction = bitcast<f32>(bitcast<u32>(correction) ^ flipped);
    return with_sign(eighths_plus(eighths, t, correction), y);
}
