// Packs queries, keys, values and dy for cooperative matrices: as contiguous f16, multiplied by a
// power of two that all elements of a tensor in a group share, and padded with zeros. A group is a
// key head and the query heads that share it.
//
//   q, k, v, dy   [batch, heads, lines, width], f16 or bf16, vec4 along the width,
//                 any other strides
//   ranges        [workgroups of the launch, 2]: bits of the largest |x| of a chunk of 128 rows,
//                 and the position of the lowest set bit of its elements
//   packed_*      [batch, heads, chunks of 128 rows, WIDTH], f16, WIDTH 64 or 128
//   records       [groups, 8]: 1 if the group is accepted, else 0; the factor of its scores; the
//                 powers of q, k, v and dy; two unused words
//
// Two launches of this file, with one workgroup for each chunk of each tensor: RANGES finds the
// ranges of the elements, PACKS writes the f16 and the records.
//
// The power brings the largest |x| of a tensor in a group to between 2^15 and 2^16. An element
// counts if it is at least 2^-24 of the largest element of its vec4. A group is accepted if the
// conversion is exact for all elements that count, all elements are finite, the powers are between
// 2^-60 and 2^60, and no score may overflow. For f16 the conversion is always exact. For bf16,
// which has 8 bits, it is exact if no element that counts is smaller than 2^-32 of the largest one.
// Elements that do not count lose what is below 2^-39 of the group's largest element. Relative to
// their neighbors this is no more than the rounding of f32; if they counted, one random number in
// some millions would reject whole groups. Rejected groups are computed by attention_vec4.wgsl,
// which also reads the records, so that the host does not wait.

struct Parameters {
    launched: u32,
    // log2 e * the factor of scores.
    scale: f32,
    _padding_0: u32,
    _padding_1: u32,
    // For q, k, v and dy: the first workgroup, chunks of a head, heads, rows.
    counts: array<vec4<u32>, 4>,
    // Number of vec4 in a row, first element, chunks of a group, unused.
    sizes: array<vec4<u32>, 4>,
    strides: array<vec4<u32>, 4>,
}

const THREADS: u32 = 256u;

// A range: the bits of the largest |x|, and the lowest set bit of all elements, as an exponent with
// a bias of 150.
struct Range {
    largest: u32,
    lowest_bit: u32,
}

var<workgroup> range_parts: array<Range, THREADS>;
var<workgroup> range_sixteenths: array<Range, 16>;

fn merge_ranges(a: Range, b: Range) -> Range {
    return Range(max(a.largest, b.largest), min(a.lowest_bit, b.lowest_bit));
}

// Returns the range of all threads: of 16 at a time, then of the results.
fn range_of_group(own: Range, lane: u32) -> Range {
    workgroupBarrier();
    range_parts[lane] = own;
    workgroupBarrier();
    if (lane < 16u) {
        var range = range_parts[lane * 16u];
        for (var next = 1u; next < 16u; next += 1u) {
            range = merge_ranges(range, range_parts[lane * 16u + next]);
        }
        range_sixteenths[lane] = range;
    }
    workgroupBarrier();
    var whole = range_sixteenths[0];
    for (var next = 1u; next < 16u; next += 1u) {
        whole = merge_ranges(whole, range_sixteenths[next]);
    }
    return whole;
}

// Reads a vec4 of tensor 0 (q), 1 (k), 2 (v) or 3 (dy).
fn vec4_of(tensor: u32, element_index: u32) -> vec4<f32> {
#repeat gradient GRADIENT
    if (tensor == 3u) {
        return dy_vec4(element_index);
    }
#end
    if (tensor == 2u) {
        return v_vec4(element_index);
    }
    if (tensor == 1u) {
        return k_vec4(element_index);
    }
    return q_vec4(element_index);
}

// A chunk of a tensor.
struct Chunk {
    tensor: u32,
    // Index among the chunks of the tensor.
    number: u32,
    first_line: u32,
    // Index of the first vec4 of its head.
    head_index: u32,
}

// Returns the chunk of a workgroup.
fn chunk_of(number: u32) -> Chunk {
    var tensor = 0u;
    for (var next = 1u; next < TENSORS; next += 1u) {
        tensor = select(tensor, next, number >= params.counts[next].x);
    }
    let counts = params.counts[tensor];
    let own = number - counts.x;
    let head_number = own / counts.y;
    let strides = params.strides[tensor];
    let head = params.sizes[tensor].y + head_number / counts.z * strides.x + head_number % counts.z * strides.y;
    return Chunk(tensor, own, own % counts.y * 128u, head / 4u);
}

// Returns vec4 `index` of a chunk, or zeros beyond the edges of the tensor.
fn chunk_vec4(chunk: Chunk, index: u32) -> vec4<f32> {
    let line = chunk.first_line + index / VEC4S;
    let column = index % VEC4S;
    if (line >= params.counts[chunk.tensor].w || column >= params.sizes[chunk.tensor].x) {
        return vec4<f32>();
    }
    return vec4_of(chunk.tensor, chunk.head_index + line * (params.strides[chunk.tensor].z / 4u) + column);
}

#repeat ranges RANGES
// An element counts if it is smaller than the largest of its vec4 by at most this power of two.
const COUNTED_POWERS: u32 = 24u;

// Adds an element, given by its bits, to a range if the bits are at least `least`.
fn extend_range(range: Range, bits: u32, least: u32) -> Range {
    let exponent = max(bits >> 23u, 1u);
    let mantissa = select(bits & 0x7fffffu, (bits & 0x7fffffu) | 0x800000u, bits >= 0x800000u);
    let lowest_bit = select(exponent + countTrailingZeros(mantissa), range.lowest_bit, bits < max(least, 1u));
    return merge_ranges(range, Range(bits, lowest_bit));
}

fn extend_range_vec4(range: Range, quad: vec4<f32>) -> Range {
    let bits = vec4<u32>(abs_bits(quad.x), abs_bits(quad.y), abs_bits(quad.z), abs_bits(quad.w));
    let largest = max(max(bits.x, bits.y), max(bits.z, bits.w));
    let least = largest - min(largest, COUNTED_POWERS << 23u);
    return extend_range(extend_range(extend_range(extend_range(range, bits.x, least), bits.y, least), bits.z, least), bits.w, least);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    let chunk = chunk_of(number);
    var range = Range(0u, 1000u);
    for (var index = lane; index < 128u * VEC4S; index += 4u * THREADS) {
        // All reads are issued before the first result is used.
#repeat load 4
        let quad_#{load} = chunk_vec4(chunk, index + #{load}u * THREADS);
#end
#repeat load 4
        range = extend_range_vec4(range, quad_#{load});
#end
    }
    let whole = range_of_group(range, lane);
    if (lane == 0u) {
        ranges_put_word(2u * number, whole.largest);
        ranges_put_word(2u * number + 1u, whole.lowest_bit);
    }
}
#end
#repeat packs PACKS
// Returns the range of a tensor in a group.
fn tensor_range(tensor: u32, group_index: u32, lane: u32) -> Range {
    let count = params.sizes[tensor].z;
    let first = params.counts[tensor].x + group_index * count;
    var range = Range(0u, 1000u);
    for (var index = lane; index < count; index += THREADS) {
        range = merge_ranges(range, Range(ranges_bits(2u * (first + index)), ranges_bits(2u * (first + index) + 1u)));
    }
    return range_of_group(range, lane);
}

// Returns the power of two that converts the numbers of a range to f16.
fn power_of(range: Range) -> i32 {
    return select(clamp(142 - i32(range.largest >> 23u), -60, 60), 0, range.largest == 0u);
}

// Returns whether the conversion to f16 is exact for the elements that count.
fn is_exact(range: Range) -> bool {
    let power = 142 - i32(range.largest >> 23u);
    let fits = range.largest < 0x7f800000u && power >= -60 && power <= 60;
    return range.largest == 0u || (fits && i32(range.lowest_bit) - 150 + power >= -24);
}

// Returns the f16 bits of x. If x is too small to be exact, the bits that fit are kept.
fn f16_bits(x: f32) -> u32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let subnormal = ((size & 0x7fffffu) | 0x800000u) >> min(126u - min(size >> 23u, 126u), 31u);
    return ((bits >> 16u) & 0x8000u) | select(subnormal, (size - 0x38000000u) >> 13u, size >= 0x38800000u);
}

fn f16_bits_of_vec4(quad: vec4<f32>) -> vec4<u32> {
    return vec4<u32>(f16_bits(quad.x), f16_bits(quad.y), f16_bits(quad.z), f16_bits(quad.w));
}

// Stores the f16 bits of a packed vec4.
fn put_packed(tensor: u32, element_index: u32, quad: vec4<u32>) {
#repeat gradient GRADIENT
    if (tensor == 3u) {
        packed_dy_put_vec4_bits(element_index, quad);
    }
#end
    if (tensor == 2u) {
        packed_v_put_vec4_bits(element_index, quad);
    }
    if (tensor == 1u) {
        packed_k_put_vec4_bits(element_index, quad);
    }
    if (tensor == 0u) {
        packed_q_put_vec4_bits(element_index, quad);
    }
}

// Stores the record of a group.
fn put_record(group_index: u32, lane: u32) {
    var powers = vec4<i32>();
    var accepted = true;
    for (var tensor = 0u; tensor < TENSORS; tensor += 1u) {
        let range = tensor_range(tensor, group_index, lane);
        powers[tensor] = power_of(range);
        accepted &= is_exact(range);
    }
    // Sums of products of f16 are below 2^39.
    let factor = params.scale * power_of_two(-powers.x) * power_of_two(-powers.y);
    accepted &= abs_of(factor) < 1e18;
    // The gradients of scores, from dy and v, must not overflow either.
    accepted &= powers.z + powers.w >= -80;
    if (lane == 0u) {
        let first = group_index * 8u;
        records_put_word(first, u32(accepted));
        records_put_word(first + 1u, bitcast<u32>(factor));
        records_put_word(first + 2u, bitcast<u32>(powers.x));
        records_put_word(first + 3u, bitcast<u32>(powers.y));
        records_put_word(first + 4u, bitcast<u32>(powers.z));
        records_put_word(first + 5u, bitcast<u32>(powers.w));
    }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let number = workgroup_index(group, groups);
    if (number >= params.launched) {
        return;
    }
    let chunk = chunk_of(number);
    let chunks = params.sizes[chunk.tensor].z;
    let group_index = chunk.number / chunks;
    let factor = power_of_two(power_of(tensor_range(chunk.tensor, group_index, lane)));
    for (var index = lane; index < 128u * VEC4S; index += 4u * THREADS) {
#repeat load 4
        let quad_#{load} = chunk_vec4(chunk, index + #{load}u * THREADS);
#end
#repeat load 4
        put_packed(chunk.tensor, chunk.number * 128u * VEC4S + index + #{load}u * THREADS, f16_bits_of_vec4(quad_#{load} * factor));
#end
    }
    if (chunk.tensor == 0u && chunk.number % chunks == 0u) {
        put_record(group_index, lane);
    }
}
#end
