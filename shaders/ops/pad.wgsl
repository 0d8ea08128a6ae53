// y = x with a border of one value. Bits are moved, nothing is computed.
//
//     y  b b b b b b       axes slowest first; axes without a border have been merged into the one
//        b b x x x b       before them if the strides of both sides allow it
//        b b x x x b
//
// Limits: fewer than 2^32 elements of y.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    _padding: u32,
    // First elements of y and x.
    offsets: vec4<u32>,
    // The bits of the border's value.
    value: vec4<u32>,
    // Elements of the border before x, and elements of x, along each axis.
    before: array<vec4<u32>, 2>,
    inner: array<vec4<u32>, 2>,
    // Sizes of y, and strides of y and x.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

fn narrow_value() -> u32 { return params.value.x; }
fn wide_value() -> vec2<u32> { return params.value.xy; }

fn padded(number: u32) -> y_BITS {
    var rest = number;
    var element_index = params.offsets.y;
    var inside = true;
    for (var remaining = params.rank; remaining > 0u; remaining -= 1u) {
        let axis = remaining - 1u;
        let size = params.sizes[axis / 4u][axis % 4u];
        let next = rest / size;
        // Before x this wraps, and is not below x's size.
        let own = rest - next * size - params.before[axis / 4u][axis % 4u];
        inside = inside && own < params.inner[axis / 4u][axis % 4u];
        element_index += own * params.strides[2u + axis / 4u][axis % 4u];
        rest = next;
    }
    if (!inside) {
        return VALUE();
    }
    return x_bits(element_index);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    WRITE(workgroup_index(group, groups) * 256u + lane);
}
