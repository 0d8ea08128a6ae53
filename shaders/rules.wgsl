// RESULT of step.wgsl: the bits of element `number` of the parameter after the step, whose states are written on the way.

// The gradient, clipped, with weight decay. Without decay an infinite parameter must not make a NaN.
fn decayed(number: u32, parameter: f32, decay: f32) -> f32 {
    let clipped = g_at(place(1u, number)) * hyper(1u);
    if (decay == 0.0) {
        return clipped;
    }
    return clipped + decay * parameter;
}

fn sgd_rule(number: u32) -> y_BITS {
    let parameter = y_at(place(0u, number));
    return y_rounded(parameter - hyper(0u) * decayed(number, parameter, params.decay));
}

fn momentum_rule(number: u32) -> y_BITS {
    let parameter = y_at(place(0u, number));
    let gradient = decayed(number, parameter, params.decay);
    let at = place(2u, number);
    // What the velocity held before the first step counts nothing, not even as NaN.
    var velocity = gradient;
    if (hyper(2u) == 0.0) {
        velocity = params.factors.x * first_state_at(at) + params.factors.y * gradient;
    }
    first_state_put(at, velocity);
    let direction = select(velocity, gradient + params.factors.x * velocity, params.nesterov != 0u);
    return y_rounded(parameter - hyper(0u) * direction);
}

fn adam_rule(number: u32) -> y_BITS {
    let parameter = y_at(place(0u, number));
    let decoupled = params.decoupled != 0u;
    let gradient = decayed(number, parameter, select(params.decay, 0.0, decoupled));
    let shrink = select(1.0, 1.0 - hyper(0u) * params.decay, decoupled);
    let m_place = place(2u, number);
    let v_place = place(3u, number);
    let m = params.factors.x * first_state_at(m_place) + params.factors.y * gradient;
    let v = params.factors.z * second_state_at(v_place) + params.factors.w * (gradient * gradient);
    first_state_put(m_place, m);
    second_state_put(v_place, v);
    let rate = hyper(0u) / hyper(2u);
    return y_rounded(parameter * shrink - rate * (m / (sqrt_of(v) / hyper(3u) + params.eps)));
}
