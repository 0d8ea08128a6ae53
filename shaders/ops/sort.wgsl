// Sorting along an axis of up to 1024 elements, stable, with the positions that values came from: bitonic (Batcher 1968) in the memory of a work group
// over (key, place). Keys tell the order (order.wgsl); equal ones are ordered by place. Longer lines: radix.wgsl.
//
//   a group:  | line 0 ....pad | line 1 ....pad | ...     1024 places, each line with room for a power of two; what fills it up comes last
//
// ORDER makes a KEY, u32 or two words, of an element's bits; ABOVE is that of order.wgsl for it.

const PLACES: u32 = 1024u;

struct Parameters {
    launched: u32,
    length: u32,
    lines: u32,
    // The next power of two.
    room: u32,
    descending: u32,
    rank: u32,
    spare: vec2<u32>,
    // First elements of values, positions, x, and their distances along the axis.
    offsets: vec4<u32>,
    steps: vec4<u32>,
    // Of values, positions and x without the axis.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

var<workgroup> keys: array<KEY, 1024>;
var<workgroup> places: array<u32, 1024>;

fn load_line(line: u32, place: u32, to: u32) {
    places[to] = place;
    keys[to] = ~KEY();
    if (line < params.lines && place < params.length) {
        let key = ORDER(x_bits(located(2u, line) + place * params.steps.z));
        if (params.descending != 0u) {
            keys[to] = ~key;
        } else {
            keys[to] = key;
        }
    }
}

// Brings two places that are `apart` into order: rising, but falling in every other run of `size` of a line.
fn exchange(pair: u32, size: u32, apart: u32) {
    let low = 2u * pair - (pair & (apart - 1u));
    let high = low + apart;
    let rising = (low & (params.room - 1u) & size) == 0u;
    let low_key = keys[low];
    let high_key = keys[high];
    let low_place = places[low];
    let high_place = places[high];
    let equal = all(low_key == high_key);
    if ((ABOVE(low_key, high_key) || (equal && low_place > high_place)) == rising) {
        keys[low] = high_key;
        keys[high] = low_key;
        places[low] = high_place;
        places[high] = low_place;
    }
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let first = group_number(group, groups) * (PLACES / params.room);
    for (var i = lane; i < PLACES; i += 256u) {
        load_line(first + i / params.room, i & (params.room - 1u), i);
    }
    workgroupBarrier();
    for (var size = 2u; size <= params.room; size *= 2u) {
        for (var apart = size / 2u; apart > 0u; apart /= 2u) {
            exchange(lane, size, apart);
            exchange(lane + 256u, size, apart);
            workgroupBarrier();
        }
    }
    for (var i = lane; i < PLACES; i += 256u) {
        let line = first + i / params.room;
        let rank = i & (params.room - 1u);
        if (line < params.lines && rank < params.length) {
            let place = places[i];
            values_put_bits(located(0u, line) + rank * params.steps.x, x_bits(located(2u, line) + place * params.steps.z));
            positions_put_bits(located(1u, line) + rank * params.steps.y, place);
        }
    }
}
