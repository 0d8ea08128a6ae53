// Radix sort of many (key, number) pairs, least significant digit first, 4 bits at a time, stable
// (Knuth 1973, 5.2.5). Lines of `length` pairs are sorted independently. STAGE is one of
// radix_digits.wgsl:
//
//   make_keys, recompute_keys
//                            keys of elements of x (the second in the order of numbers), for
//                            sorting along an axis
//   count_digits             tile of 2048 pairs -> counts[line][digit][tile]
//   sum_digits               prefix sum over (digit, tile): a workgroup for each line
//   move_digits              each pair to where the pairs of its tile with this digit begin, plus
//                            its rank among them
//   gather_sorted            elements of x and their positions, in order
//
//      tile  | thread 0: 8 pairs | thread 1: 8 pairs | ...
//
// A thread counts consecutive pairs, so that equal digits keep their order.
//
// Limits: fewer than 2^32 pairs.

struct Parameters {
    launched: u32,
    length: u32,
    lines: u32,
    // Tiles of a line.
    tiles: u32,
    // Lowest bit of the digit.
    shift: u32,
    // Mask of all bits of a key, and whether they are inverted.
    mask: u32,
    descending: u32,
    rank: u32,
    // First elements of values, positions, x, and their strides along the axis.
    offsets: vec4<u32>,
    steps: vec4<u32>,
    // Sizes and strides of values, positions and x without the axis.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    STAGE(workgroup_index(group, groups), lane);
}
