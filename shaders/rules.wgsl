// RULE of step.wgsl: x a parameter, y and z its states, before and after the step.

// The gradient, clipped, with weight decay. Without decay an infinite parameter must not make a NaN.
fn decayed(gradient: f32, parameter: f32, decay: f32) -> f32 {
    let clipped = gradient * hyper(1u);
    if (decay == 0.0) {
        return clipped;
    }
    return clipped + decay * parameter;
}

fn sgd_rule(before: vec3<f32>, gradient: f32) -> vec3<f32> {
    return vec3<f32>(before.x - hyper(0u) * decayed(gradient, before.x, params.decay), 0.0, 0.0);
}

fn momentum_rule(before: vec3<f32>, gradient: f32) -> vec3<f32> {
    let slope = decayed(gradient, before.x, params.decay);
    // What the velocity held before the first step counts nothing, not even as NaN.
    var velocity = slope;
    if (hyper(2u) == 0.0) {
        velocity = params.factors.x * before.y + params.factors.y * slope;
    }
    let direction = select(velocity, slope + params.factors.x * velocity, params.nesterov != 0u);
    return vec3<f32>(before.x - hyper(0u) * direction, velocity, 0.0);
}

fn adam_rule(before: vec3<f32>, gradient: f32) -> vec3<f32> {
    let decoupled = params.decoupled != 0u;
    let slope = decayed(gradient, before.x, select(params.decay, 0.0, decoupled));
    let shrink = select(1.0, 1.0 - hyper(0u) * params.decay, decoupled);
    let m = params.factors.x * before.y + params.factors.y * slope;
    let v = params.factors.z * before.z + params.factors.w * (slope * slope);
    let rate = hyper(0u) / hyper(2u);
    return vec3<f32>(before.x * shrink - rate * (m / (sqrt_of(v) / hyper(3u) + params.eps)), m, v);
}

// ---------------------------------------------------------------- RESULT: the bits of element `number` of the parameter; states are written on the way

fn stateless_result(number: u32) -> y_BITS {
    return y_rounded(RULE(vec3<f32>(y_at(place(0u, number)), 0.0, 0.0), g_at(place(1u, number))).x);
}

fn one_state_result(number: u32) -> y_BITS {
    let first = place(2u, number);
    let after = RULE(vec3<f32>(y_at(place(0u, number)), first_state_at(first), 0.0), g_at(place(1u, number)));
    first_state_put(first, after.y);
    return y_rounded(after.x);
}

fn two_states_result(number: u32) -> y_BITS {
    let first = place(2u, number);
    let second = place(3u, number);
    let after = RULE(vec3<f32>(y_at(place(0u, number)), first_state_at(first), second_state_at(second)), g_at(place(1u, number)));
    first_state_put(first, after.y);
    second_state_put(second, after.z);
    return y_rounded(after.x);
}

// ---------------------------------------------------------------- WRITE: the same of the four with this number, of tensors that lie dense in whole fours

struct FourStates {
    first: vec4<f32>,
    second: vec4<f32>,
}

fn four_after(parameters: vec4<f32>, states: FourStates, gradients: vec4<f32>) -> mat4x3<f32> {
    return mat4x3<f32>(
#repeat k 4
        RULE(vec3<f32>(parameters[#{k}], states.first[#{k}], states.second[#{k}]), gradients[#{k}]),
#end
    );
}

fn stateless_four(four: u32) {
    if (4u * four < params.count) {
        let place = params.offsets / 4u + four;
        let after = transpose(four_after(y_four(place.x), FourStates(), g_four(place.y)));
        y_put_four(place.x, after[0]);
    }
}

fn one_state_four(four: u32) {
    if (4u * four < params.count) {
        let place = params.offsets / 4u + four;
        let after = transpose(four_after(y_four(place.x), FourStates(first_state_four(place.z), vec4<f32>()), g_four(place.y)));
        first_state_put_four(place.z, after[1]);
        y_put_four(place.x, after[0]);
    }
}

fn two_states_four(four: u32) {
    if (4u * four < params.count) {
        let place = params.offsets / 4u + four;
        let states = FourStates(first_state_four(place.z), second_state_four(place.w));
        let after = transpose(four_after(y_four(place.x), states, g_four(place.y)));
        first_state_put_four(place.z, after[1]);
        second_state_put_four(place.w, after[2]);
        y_put_four(place.x, after[0]);
    }
}
