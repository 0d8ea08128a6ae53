// Ops where each element depends only on the elements at the same index: y = f(a), f(a, b), f(a, b,
// c), f(a, scalar), a constant.
//
//   y, a, b, c   one shape, any strides (broadcast by stride 0), any offset
//
// A thread stores vec4 of y if the layouts of all tensors allow it (write.wgsl; VEC4_MASK is a bit
// mask of the inputs that are read as vec4, and the other inputs have one element for each vec4 of
// y). Otherwise it stores a word of y if y is contiguous (one element, or the elements of 16 or 8
// bits that share it), else one element. RESULT (element_result.wgsl) returns the bits of an
// element, from inputs at ELEMENT_INDEX(tensor, number); FUNCTION is the function. Limits: fewer
// than 2^32 elements.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    _padding: u32,
    // First elements of y, a, b, c.
    offsets: vec4<u32>,
    // Two constants of FUNCTION, as bits of its class.
    constants: vec4<u32>,
    // The scalar of a scalar op, likewise.
    scalar: vec4<u32>,
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

fn first() -> C { return number_from(params.constants.xy); }
fn second() -> C { return number_from(params.constants.zw); }
fn scalar() -> C { return number_from(params.scalar.xy); }

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
