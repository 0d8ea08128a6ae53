// Optimizer steps of several large contiguous parameters, each with its gradient and states, all as
// whole vec4: y_k, g_k, state_0_k, state_1_k for k below TENSORS, with STATES states. A thread
// updates a vec4 of one parameter with RULE of step_rule.wgsl; each element is read once and
// written once. Arithmetic and formulas are those of step.wgsl. Limits: at most 4 parameters, fewer
// than 2^31 elements each.

struct Parameters {
    launched: u32,
    // As in step.wgsl.
    nesterov: u32,
    decoupled: u32,
    decay: f32,
    // First element of hyper, and the stride of its elements.
    hyper_first: u32,
    hyper_step: u32,
    eps: f32,
    _padding: u32,
    factors: vec4<f32>,
    // For each parameter: the end of its workgroups, and its number of vec4.
    ends: vec4<u32>,
    vec4_count: vec4<u32>,
    // First vec4 of y, g and the states.
    offsets: array<vec4<u32>, 4>,
}

#repeat k TENSORS
fn step_#{k}(quad: u32) {
    if (quad >= params.vec4_count[#{k}]) {
        return;
    }
    let element_index = params.offsets[#{k}] + quad;
    let before = y_#{k}_vec4(element_index.x);
    let gradient = g_#{k}_vec4(element_index.y);
    var states = array<vec4<f32>, 2>();
#repeat s STATES
    states[#{s}] = state_#{s}_#{k}_vec4(element_index[#{2 + s}]);
#end
#repeat i 4
    let after_#{i} = RULE(vec3<f32>(before[#{i}], states[0][#{i}], states[1][#{i}]), gradient[#{i}]);
#end
    y_#{k}_put_vec4(element_index.x, vec4<f32>(after_0.x, after_1.x, after_2.x, after_3.x));
#repeat s STATES
    state_#{s}_#{k}_put_vec4(element_index[#{2 + s}], vec4<f32>(after_0[#{1 + s}], after_1[#{1 + s}], after_2[#{1 + s}], after_3[#{1 + s}]));
#end
}
#end

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    var begin = 0u;
#repeat k TENSORS
    let end_#{k} = params.ends[#{k}];
    if (number >= begin && number < end_#{k}) {
        step_#{k}((number - begin) * 256u + lane);
    }
    begin = end_#{k};
#end
}
