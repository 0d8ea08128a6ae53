// Optimizer steps: a parameter, its gradient and its states, each element read once and written
// once. RESULT and RULE are functions of step_rule.wgsl. Large contiguous parameters use
// step_vec4.wgsl.
//
//   y              parameter, updated in place
//   g              gradient
//   *_state        velocity, or first and second moment (f32), updated in place
//   numbers        `hyper`: the hyperparameters that change from step to step, in device memory, so
//                  that replays of a captured step use the current values (step_rule.wgsl)
//
// All tensors except hyper have the same shape, and any strides; all arithmetic is in f32.
// Formulas: step.rs of core (Sutskever et al. 2013; Kingma and Ba 2015; Loshchilov and Hutter
// 2019). Limits: fewer than 2^32 elements.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // 1: Nesterov momentum.
    nesterov: u32,
    // First elements of y, g, first, second.
    offsets: vec4<u32>,
    // First element of hyper, and the stride of its elements.
    hyper_first: u32,
    hyper_step: u32,
    // 1: decoupled weight decay (AdamW); and the weight decay.
    decoupled: u32,
    decay: f32,
    // momentum, 1 - dampening; or beta1, 1 - beta1, beta2, 1 - beta2
    factors: vec4<f32>,
    eps: f32,
    _padding: u32,
    _padding_1: vec2<u32>,
    // Sizes; strides of y, g, first, second.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

// Returns the index of element `number` of y, g, first or second. DENSE: all are contiguous.
fn element_index(tensor: u32, number: u32) -> u32 {
    if (DENSE) {
        return params.offsets[tensor] + number;
    }
    return strided_index(tensor, number);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
