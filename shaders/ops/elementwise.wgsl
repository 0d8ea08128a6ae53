// Ops of which each element depends on the elements at its index alone: y = f(a), f(a, b), f(a, b, c), f(a, number), a constant.
//
//   y, a, b, c   one shape, any strides (broadcast by stride 0), any offset
//
// A thread stores vec4s of y where all tensors lie so (write.wgsl; RUNS says by bits which inputs have four elements there and not one), a word of y
// where y lies dense (one element, or those of 16 or 8 bits that share it), else one element. RESULT (element_result.wgsl) says the
// bits of an element, of inputs at ELEMENT_INDEX(tensor, number); FUNCTION is the function. Limits: fewer than 2^32 elements.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    spare: u32,
    // First elements of y, a, b, c.
    offsets: vec4<u32>,
    // Two constants of FUNCTION, as bits of its class.
    constants: vec4<u32>,
    // The number of a scalar form, likewise.
    scalar: vec4<u32>,
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

fn first() -> C { return number_from(params.constants.xy); }
fn second() -> C { return number_from(params.constants.zw); }
fn scalar() -> C { return number_from(params.scalar.xy); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(group_number(group, groups) * 256u + lane);
}
