// Sorting along an axis of up to 1024 elements, stable, with the positions of the values: bitonic
// sort (Batcher 1968) of (key, index) in workgroup memory. Keys determine the order
// (sort_key.wgsl); equal keys are ordered by index. Longer lines: radix.wgsl.
//
//   workgroup:  | line 0 ....pad | line 1 ....pad | ...    1024 indices; each line is padded to a
//                                                          power of two, and padding comes last
//
// ORDER computes a KEY, u32 or two words, from an element's bits. ABOVE is the comparison of
// sort_key.wgsl for this type.

const INDICES: u32 = 1024u;

struct Parameters {
    launched: u32,
    length: u32,
    lines: u32,
    // The length of a line rounded up to a power of two.
    padded_length: u32,
    descending: u32,
    rank: u32,
    _padding: vec2<u32>,
    // First elements of values, positions, x, and their strides along the axis.
    offsets: vec4<u32>,
    steps: vec4<u32>,
    // Sizes and strides of values, positions and x without the axis.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

var<workgroup> keys: array<KEY, 1024>;
var<workgroup> element_indices: array<u32, 1024>;

fn load_line(line: u32, element_index: u32, to: u32) {
    element_indices[to] = element_index;
    keys[to] = ~KEY();
    if (line < params.lines && element_index < params.length) {
        let key = ORDER(x_bits(strided_index(2u, line) + element_index * params.steps.z));
        if (params.descending != 0u) {
            keys[to] = ~key;
        } else {
            keys[to] = key;
        }
    }
}

// Orders two indices that are `distance` from each other: ascending, but descending in every other
// run of `size` of a line.
fn exchange(pair: u32, size: u32, distance: u32) {
    let low = 2u * pair - (pair & (distance - 1u));
    let high = low + distance;
    let ascending = (low & (params.padded_length - 1u) & size) == 0u;
    let low_key = keys[low];
    let high_key = keys[high];
    let low_index = element_indices[low];
    let high_index = element_indices[high];
    let equal = all(low_key == high_key);
    if ((ABOVE(low_key, high_key) || (equal && low_index > high_index)) == ascending) {
        keys[low] = high_key;
        keys[high] = low_key;
        element_indices[low] = high_index;
        element_indices[high] = low_index;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = workgroup_index(group, groups) * (INDICES / params.padded_length);
    for (var i = lane; i < INDICES; i += 256u) {
        load_line(first + i / params.padded_length, i & (params.padded_length - 1u), i);
    }
    workgroupBarrier();
    for (var size = 2u; size <= params.padded_length; size *= 2u) {
        for (var distance = size / 2u; distance > 0u; distance /= 2u) {
            exchange(lane, size, distance);
            exchange(lane + 256u, size, distance);
            workgroupBarrier();
        }
    }
    for (var i = lane; i < INDICES; i += 256u) {
        let line = first + i / params.padded_length;
        let rank = i & (params.padded_length - 1u);
        if (line < params.lines && rank < params.length) {
            let element_index = element_indices[i];
            values_put_bits(strided_index(0u, line) + rank * params.steps.x, x_bits(strided_index(2u, line) + element_index * params.steps.z));
            positions_put_bits(strided_index(1u, line) + rank * params.steps.y, element_index);
        }
    }
}
