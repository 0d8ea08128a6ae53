// Random numbers: y[i] is computed from word i (normal: 2i and 2i + 1) of a Philox stream, with i
// in row-major order. A thread generates a block of four words, which make ELEMENTS elements. Which
// thread writes them depends on where they are stored, so that neighboring threads write
// neighboring elements:
//
//   thread     0       1       2      ...     drawn | 0 1 2 3 | 4 5 6 7 | ...
//   generates  0-3     4-7     8-11           written by threads 0 1 2 3 4 ... 255, 0 1 2 ...
//
//   bits      word >> shift, i32
//   uniform   (word >> 8) * 2^-24
//   normal    sqrt(-2 ln u) cos(2 pi v) (Box and Muller 1958)
//   dropout   x * scale if word >> 8 is at least `threshold`, else 0
//
//   state     [seed, base], i64: block n of this launch is block base + first_block + n of the
//             stream
//
// Limits: fewer than 2^32 elements. x and y have any strides.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // For random bits.
    shift: u32,
    // First elements of y, state, x.
    offsets: vec4<u32>,
    first_block: vec2<u32>,
    // The stride of state.
    state_step: u32,
    // For dropout.
    threshold: u32,
    scale: f32,
    _padding: u32,
    _padding_1: vec2<u32>,
    // Sizes; strides of y, unused, x.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

// Returns the index of element `number` of y or x. DENSE: both are contiguous.
fn element_index(tensor: u32, number: u32) -> u32 {
    if (DENSE) {
        return params.offsets[tensor] + number;
    }
    return strided_index(tensor, number);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    draw_words(number * 256u + lane, lane);
    workgroupBarrier();
    WRITE(number * 256u * ELEMENTS, lane);
}
