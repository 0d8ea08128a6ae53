// Powers of two, for attention with cooperative matrices.

// 2^x with a relative error of a few 2^-24, for x up to 15. The result is at least 2^-120.
fn power_of_two_near(x: f32) -> f32 {
    let bounded = clamp(x, -120.0, 15.0);
    let shifted = opaque(bounded + 12582912.0);
    let part = bounded - opaque(shifted - 12582912.0);
    let value = 1.0 + part * (0.693147203 + part * (0.240226479 + part * (0.0555033247 + part * (0.00961843736 + part * (0.00133988744 + part * 0.000153533619)))));
    return bitcast<f32>(bitcast<u32>(value) + (bitcast<u32>(shifted) << 23u));
}

fn vec4_powers_of_two(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(power_of_two_near(x.x), power_of_two_near(x.y), power_of_two_near(x.z), power_of_two_near(x.w));
}

// 2^power, for powers from -126 to 127.
fn power_of_two(power: i32) -> f32 {
    return bitcast<f32>(u32(power + 127) << 23u);
}

// x * 2^power, for powers from -252 to 254: in two steps, because 2^power may be out of range.
fn times_power_of_two(x: f32, power: i32) -> f32 {
    return x * power_of_two(power / 2) * power_of_two(power - power / 2);
}

fn vec4_times_power_of_two(x: vec4<f32>, power: i32) -> vec4<f32> {
    return x * power_of_two(power / 2) * power_of_two(power - power / 2);
}
