// RULE of step.wgsl and step_vec4.wgsl: x is a parameter, y and z are its states, before and after
// the step.

// Returns a hyperparameter: 0 the learning rate, 1 the clip factor of the gradient. SGD: 2 is 1 in
// the first step, else 0. Adam, in step t: 2 is 1 - beta1^t, 3 is sqrt(1 - beta2^t).
fn hyper(number: u32) -> f32 {
    return numbers_at(params.hyper_first + number * params.hyper_step);
}

// Returns the gradient, clipped, with weight decay. Without decay the parameter is not read: 0
// times an infinite parameter is NaN.
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
    let grad = decayed(gradient, before.x, params.decay);
    // In the first step, the previous velocity is ignored, even if it is NaN.
    var velocity = grad;
    if (hyper(2u) == 0.0) {
        velocity = params.factors.x * before.y + params.factors.y * grad;
    }
    let direction = select(velocity, grad + params.factors.x * velocity, params.nesterov != 0u);
    return vec3<f32>(before.x - hyper(0u) * direction, velocity, 0.0);
}

fn adam_rule(before: vec3<f32>, gradient: f32) -> vec3<f32> {
    let decoupled = params.decoupled != 0u;
    let grad = decayed(gradient, before.x, select(params.decay, 0.0, decoupled));
    let decay_factor = select(1.0, 1.0 - hyper(0u) * params.decay, decoupled);
    let m = params.factors.x * before.y + params.factors.y * grad;
    let v = params.factors.z * before.z + params.factors.w * (grad * grad);
    let rate = hyper(0u) * hyper(3u) / hyper(2u);
    // Numerator and denominator are multiplied by hyper(3), which saves a division for each
    // element.
    return vec3<f32>(before.x * decay_factor - rate * (m / (root_of_moment(v) + params.eps * hyper(3u))), m, v);
}

// The device's square root, except for 0, infinity and NaN, which it may not handle.
fn root_of_moment(v: f32) -> f32 {
    return select(sqrt(v), v, abs_bits(v) == 0u || bitcast<u32>(v) == 0x7f800000u || abs_bits(v) > 0x7f800000u);
}

// ---------------------------------------------------------------- RESULT of step.wgsl
//
// Returns the bits of element `number` of the parameter, and writes the states.

fn stateless_result(number: u32) -> y_BITS {
    return y_rounded(RULE(vec3<f32>(y_at(element_index(0u, number)), 0.0, 0.0), g_at(element_index(1u, number))).x);
}

fn one_state_result(number: u32) -> y_BITS {
    let first = element_index(2u, number);
    let after = RULE(vec3<f32>(y_at(element_index(0u, number)), first_state_at(first), 0.0), g_at(element_index(1u, number)));
    first_state_put(first, after.y);
    return y_rounded(after.x);
}

fn two_states_result(number: u32) -> y_BITS {
    let first = element_index(2u, number);
    let second = element_index(3u, number);
    let after = RULE(vec3<f32>(y_at(element_index(0u, number)), first_state_at(first), second_state_at(second)), g_at(element_index(1u, number)));
    first_state_put(first, after.y);
    second_state_put(second, after.z);
    return y_rounded(after.x);
}
