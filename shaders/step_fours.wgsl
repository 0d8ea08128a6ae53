// Optimiser steps of several large parameters that lie dense in whole fours, each with its gradient and states: y_k, g_k, state_0_k, state_1_k for k below TENSORS, with
// STATES states. A thread steps TURNS times four elements of one of them by RULE of rules.wgsl; each is read once and written once. Arithmetic and formulas are those
// of step.wgsl. Limits: at most 8 parameters, fewer than 2^31 elements each.

struct Parameters {
    zero: u32,
    nesterov: u32,
    decoupled: u32,
    decay: f32,
    // First element of hyper, and the distance of its elements.
    hyper_first: u32,
    hyper_step: u32,
    eps: f32,
    spare: u32,
    // As in step.wgsl.
    factors: vec4<f32>,
    // Of each parameter: the first work group behind its own, and its fours.
    ends: array<vec4<u32>, 2>,
    fours: array<vec4<u32>, 2>,
    // First fours of y, g and the states.
    offsets: array<vec4<u32>, 8>,
}

#repeat k TENSORS
fn step_#{k}(first: u32) {
    let count = params.fours[#{k / 4}][#{k % 4}];
    let place = params.offsets[#{k}];
#repeat t TURNS
    // Behind the last four nothing is stored.
    let four_#{t} = min(first + #{256 * t}u, count - 1u);
    let before_#{t} = y_#{k}_four(place.x + four_#{t});
    let gradient_#{t} = g_#{k}_four(place.y + four_#{t});
    var states_#{t} = array<vec4<f32>, 2>();
#repeat s STATES
    states_#{t}[#{s}] = state_#{s}_#{k}_four(place[#{2 + s}] + four_#{t});
#end
#end
#repeat t TURNS
#repeat i 4
    let after_#{t}_#{i} = RULE(vec3<f32>(before_#{t}[#{i}], states_#{t}[0][#{i}], states_#{t}[1][#{i}]), gradient_#{t}[#{i}]);
#end
    if (first + #{256 * t}u < count) {
        y_#{k}_put_four(place.x + four_#{t}, vec4<f32>(after_#{t}_0.x, after_#{t}_1.x, after_#{t}_2.x, after_#{t}_3.x));
#repeat s STATES
        state_#{s}_#{k}_put_four(place[#{2 + s}] + four_#{t}, vec4<f32>(after_#{t}_0[#{1 + s}], after_#{t}_1[#{1 + s}], after_#{t}_2[#{1 + s}], after_#{t}_3[#{1 + s}]));
#end
    }
#end
}
#end

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = group_number(group, groups);
    var begin = 0u;
#repeat k TENSORS
    let end_#{k} = params.ends[#{k / 4}][#{k % 4}];
    if (number >= begin && number < end_#{k}) {
        step_#{k}((number - begin) * TURNS * 256u + lane);
    }
    begin = end_#{k};
#end
}
