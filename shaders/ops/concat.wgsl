// y = up to seven tensors concatenated along one axis. Bits are moved, nothing is computed.
//
//     y  | part 0 | part 1  | part 2 |     a thread finds the part of its element by the
//        | part 0 | part 1  | part 2 |     index of the element along the axis
//
// Limits: fewer than 2^32 elements of y. `part_0` to `part_6` are always bound, even if there are
// fewer parts.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // The axis along which parts are concatenated.
    axis: u32,
    // First element of y.
    offsets: vec4<u32>,
    // Where each part ends along the axis, and its first element.
    ends: array<vec4<u32>, 2>,
    part_offsets: array<vec4<u32>, 2>,
    // Sizes and strides of y; then strides of the parts, two vectors each.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 2>,
    part_strides: array<vec4<u32>, 14>,
}

fn part_element(part: u32, element_index: u32) -> y_BITS {
    switch (part) {
        case 0u: { return part_0_bits(element_index); }
        case 1u: { return part_1_bits(element_index); }
        case 2u: { return part_2_bits(element_index); }
        case 3u: { return part_3_bits(element_index); }
        case 4u: { return part_4_bits(element_index); }
        case 5u: { return part_5_bits(element_index); }
        default: { return part_6_bits(element_index); }
    }
}

fn concatenated(number: u32) -> y_BITS {
    var rest = number;
    var indices = array<vec4<u32>, 2>();
    for (var remaining = params.rank; remaining > 0u; remaining -= 1u) {
        let axis = remaining - 1u;
        let next = rest / params.sizes[axis / 4u][axis % 4u];
        indices[axis / 4u][axis % 4u] = rest - next * params.sizes[axis / 4u][axis % 4u];
        rest = next;
    }
    let index = indices[params.axis / 4u][params.axis % 4u];
    var part = 0u;
    var start = 0u;
    while (part < 6u && index >= params.ends[part / 4u][part % 4u]) {
        start = params.ends[part / 4u][part % 4u];
        part += 1u;
    }
    indices[params.axis / 4u][params.axis % 4u] = index - start;
    let steps = indices[0] * params.part_strides[part * 2u] + indices[1] * params.part_strides[part * 2u + 1u];
    return part_element(part, params.part_offsets[part / 4u][part % 4u] + steps.x + steps.y + steps.z + steps.w);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
