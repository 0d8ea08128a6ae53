// Rows that are read as vec4 and kept in registers: the code that exponentials_vec4.wgsl,
// sums_vec4.wgsl and norm_grad_vec4.wgsl share. A thread holds PER_THREAD vec4 of its row, MEMBERS
// apart, as the words that are in memory:
//
//   row   | member 0 | member 1 | .. | member MEMBERS-1 | member 0 | ..
//
// Each member is a vec4, and a workgroup has THREADS / MEMBERS rows.
//
// The host sets MEMBERS and THREADS (powers of two), and PER_THREAD. EXACT: a row has exactly as
// many vec4 as its threads hold. EDGES: a row may begin and end in the middle of a vec4, with the
// same alignment in all tensors. VEC4_OF, WORDS_OF, HIDDEN, EXPONENTIALS, SOFTMAX, PADDING and
// JOINED are functions of the dtype. TEAM_MAX, TEAM_SUM and TEAM_SUMS use subgroups of SUBGROUP
// threads, or workgroup memory.

// ---------------------------------------------------------------- vec4 and their words

fn vec4_of_f32(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words);
}

fn words_of_f32(quad: vec4<f32>) -> vec4<u32> {
    return bitcast<vec4<u32>>(quad);
}

fn vec4_of_bf16(words: vec2<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(vec4<u32>(words.x << 16u, words.x & 0xffff0000u, words.y << 16u, words.y & 0xffff0000u));
}

// For numbers that are not NaN; ties to even.
fn words_of_number_bf16(quad: vec4<f32>) -> vec2<u32> {
    let bits = bitcast<vec4<u32>>(quad);
    let rounded = bits + vec4<u32>(0x7fffu) + ((bits >> vec4<u32>(16u)) & vec4<u32>(1u));
    return vec2<u32>((rounded.x >> 16u) | (rounded.y & 0xffff0000u), (rounded.z >> 16u) | (rounded.w & 0xffff0000u));
}

// A NaN that results from arithmetic may have all bits of its mantissa set. It is replaced with a
// NaN that does not overflow when it is rounded.
fn words_of_bf16(quad: vec4<f32>) -> vec2<u32> {
    return words_of_number_bf16(bitcast<vec4<f32>>(min(bitcast<vec4<i32>>(quad), vec4<i32>(0x7fc00000))));
}

// Without branches. The bits of a subnormal number become the last bits of a number from 1/2 on,
// which have the same value there, and 1/2 is subtracted.
fn vec4_of_f16(words: vec2<u32>) -> vec4<f32> {
    let bits = vec4<u32>(words.x & 0xffffu, words.x >> 16u, words.y & 0xffffu, words.y >> 16u);
    let size = bits & vec4<u32>(0x7fffu);
    let rebased = (size << vec4<u32>(13u)) + select(vec4<u32>(0x38000000u), vec4<u32>(0x70000000u), size >= vec4<u32>(0x7c00u));
    let small = bitcast<vec4<u32>>(bitcast<vec4<f32>>(size | vec4<u32>(0x3f000000u)) - vec4<f32>(0.5));
    let sign = (bits & vec4<u32>(0x8000u)) << vec4<u32>(16u);
    return bitcast<vec4<f32>>(select(rebased, small, size < vec4<u32>(0x400u)) | sign);
}

// Without branches. Rounds ties to even; values that are too large become infinity.
fn words_of_f16(quad: vec4<f32>) -> vec2<u32> {
    let bits = bitcast<vec4<u32>>(quad);
    let size = bits & vec4<u32>(0x7fffffffu);
    let odd = (size >> vec4<u32>(13u)) & vec4<u32>(1u);
    let rebased = (size - vec4<u32>(0x37fff001u) + odd) >> vec4<u32>(13u);
    let small = bitcast<vec4<u32>>(bitcast<vec4<f32>>(size) + vec4<f32>(0.5)) - vec4<u32>(0x3f000000u);
    let finite = min(select(rebased, small, size < vec4<u32>(0x38800000u)), vec4<u32>(0x7c00u));
    let half = select(finite, vec4<u32>(0x7e00u), size > vec4<u32>(0x7f800000u)) | ((bits >> vec4<u32>(16u)) & vec4<u32>(0x8000u));
    return joined_half(half);
}

fn joined_words(bits: vec4<u32>) -> vec4<u32> {
    return bits;
}

fn joined_half(bits: vec4<u32>) -> vec2<u32> {
    return vec2<u32>(bits.x | (bits.y << 16u), bits.z | (bits.w << 16u));
}

// Returns the same words, but hides this from the compiler, so that it unpacks them again instead
// of keeping the unpacked values in registers.
fn hidden_words(words: vec4<u32>) -> vec4<u32> {
    return words;
}

fn hidden_half(words: vec2<u32>) -> vec2<u32> {
    return words ^ vec2<u32>(opaque_zero());
}

// ---------------------------------------------------------------- exponentials
//
// Each is as accurate as the results require.

// e^(x - shift) of finite numbers. x is not above shift, or is -infinity or NaN, which is kept.
fn exponentials_of_f32(x: vec4<f32>, shift: f32) -> vec4<f32> {
    let below = x - shift;
    return vec4<f32>(exponential(below.x), exponential(below.y), exponential(below.z), exponential(below.w));
}

// With the device's 2^x. The difference is computed first: 2^(x / ln 2 - shift / ln 2) would save
// an instruction, but loses all digits of large numbers.
fn exponentials_of_half(x: vec4<f32>, shift: f32) -> vec4<f32> {
    return exp2((x - shift) * 1.442695022);
}

// e^(x - shift - log_sum), likewise.
fn softmax_of_f32(x: vec4<f32>, shift: f32, log_sum: f32) -> vec4<f32> {
    return exponentials_of_f32(x - shift, log_sum);
}

fn softmax_of_half(x: vec4<f32>, shift: f32, log_sum: f32) -> vec4<f32> {
    return exponentials_of_half(x - shift, log_sum);
}

fn exponentials_of_any(x: vec4<f32>) -> vec4<f32> {
    return vec4<f32>(exponential_of_any(x.x), exponential_of_any(x.y), exponential_of_any(x.z), exponential_of_any(x.w));
}

fn exponentials_of_any_half(x: vec4<f32>) -> vec4<f32> {
    let is_number = (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) <= vec4<u32>(0x7f800000u);
    return select(x, exponentials_of_half(x, 0.0), is_number);
}

fn sum_of_vec4(quad: vec4<f32>) -> f32 {
    return (quad.x + quad.y) + (quad.z + quad.w);
}

fn largest_of_vec4(quad: vec4<f32>) -> f32 {
    return max(max(quad.x, quad.y), max(quad.z, quad.w));
}

// ---------------------------------------------------------------- indices

// Number of elements of the first vec4 that are before the row.
fn elements_before(base: u32) -> u32 {
    return select(0u, base % 4u, EDGES);
}

fn vec4s_of_row(before: u32) -> u32 {
    return (before + params.length + 3u) / 4u;
}

// Whether all elements of a vec4 belong to the row.
fn is_whole(quad: u32, before: u32) -> bool {
    let first = (before + 3u) / 4u;
    return !EDGES || quad - first < (before + params.length) / 4u - first;
}

fn numbers_of_vec4(quad: u32, before: u32) -> vec4<u32> {
    return vec4<u32>(quad * 4u - before) + vec4<u32>(0u, 1u, 2u, 3u);
}

// The words of a vec4 of x, with padding in place of elements outside the row.
fn x_within(words: x_WORDS, quad: u32, before: u32) -> x_WORDS {
    if (is_whole(quad, before)) {
        return words;
    }
    let inside = numbers_of_vec4(quad, before) < vec4<u32>(params.length);
    return JOINED(select(x_bits_of_words(PADDING), x_bits_of_words(words), inside));
}

// Stores a vec4 of the row that begins at element `base`.
fn put_vec4(base: u32, quad: u32, values: vec4<f32>) {
    y_put_words(base / 4u + quad, WORDS_OF(values));
}

// Elements at the ends of a row share a vec4, or a word, with another row. They are stored one by
// one through `edges`, a second binding of y.
fn put_vec4_within(base: u32, quad: u32, values: vec4<f32>) {
    let before = base % 4u;
    if (is_whole(quad, before)) {
        put_vec4(base, quad, values);
        return;
    }
    let numbers = numbers_of_vec4(quad, before);
#repeat j 4
    if (numbers[#{j}] < params.length) {
        edges_put(base + numbers[#{j}], values[#{j}]);
    }
#end
}

// ---------------------------------------------------------------- reductions over a row's threads
//
// `buffer` alternates between 0 and 1.

// Two buffers that are used alternately: between two writes to the same index, all threads have
// passed the barrier of the other buffer.
var<workgroup> team_memory: array<vec2<f32>, TEAM_MEMORY>;

fn lane_sums(value: vec2<f32>, width: u32) -> vec2<f32> {
    var sums = value;
    if (width > 1u) { sums += subgroupShuffleXor(sums, 1u); }
    if (width > 2u) { sums += subgroupShuffleXor(sums, 2u); }
    if (width > 4u) { sums += subgroupShuffleXor(sums, 4u); }
    if (width > 8u) { sums += subgroupShuffleXor(sums, 8u); }
    if (width > 16u) { sums += subgroupShuffleXor(sums, 16u); }
    if (width > 32u) { sums += subgroupShuffleXor(sums, 32u); }
    if (width > 64u) { sums += subgroupShuffleXor(sums, 64u); }
    return sums;
}

fn lane_sum(value: f32, width: u32) -> f32 {
    var sum = value;
    if (width > 1u) { sum += subgroupShuffleXor(sum, 1u); }
    if (width > 2u) { sum += subgroupShuffleXor(sum, 2u); }
    if (width > 4u) { sum += subgroupShuffleXor(sum, 4u); }
    if (width > 8u) { sum += subgroupShuffleXor(sum, 8u); }
    if (width > 16u) { sum += subgroupShuffleXor(sum, 16u); }
    if (width > 32u) { sum += subgroupShuffleXor(sum, 32u); }
    if (width > 64u) { sum += subgroupShuffleXor(sum, 64u); }
    return sum;
}

fn lane_max(value: f32, width: u32) -> f32 {
    var largest = value;
    if (width > 1u) { largest = max(largest, subgroupShuffleXor(largest, 1u)); }
    if (width > 2u) { largest = max(largest, subgroupShuffleXor(largest, 2u)); }
    if (width > 4u) { largest = max(largest, subgroupShuffleXor(largest, 4u)); }
    if (width > 8u) { largest = max(largest, subgroupShuffleXor(largest, 8u)); }
    if (width > 16u) { largest = max(largest, subgroupShuffleXor(largest, 16u)); }
    if (width > 32u) { largest = max(largest, subgroupShuffleXor(largest, 32u)); }
    if (width > 64u) { largest = max(largest, subgroupShuffleXor(largest, 64u)); }
    return largest;
}

// The index of the first subgroup of a thread's team.
fn team_index(lane: u32, buffer: u32) -> u32 {
    return buffer * (THREADS / SUBGROUP) + lane / MEMBERS * (MEMBERS / SUBGROUP);
}

// Stores the result of a subgroup for its team.
fn store_for_team(value: vec2<f32>, lane: u32, buffer: u32) {
    if (lane % SUBGROUP == 0u) {
        team_memory[buffer * (THREADS / SUBGROUP) + lane / SUBGROUP] = value;
    }
    workgroupBarrier();
}

fn team_sums_of_subgroups(value: vec2<f32>, lane: u32, buffer: u32) -> vec2<f32> {
    let near = lane_sums(value, min(MEMBERS, SUBGROUP));
    if (MEMBERS <= SUBGROUP) {
        return near;
    }
    store_for_team(near, lane, buffer);
    let width = clamp(MEMBERS / SUBGROUP, 1u, SUBGROUP);
    var far = vec2<f32>();
    for (var at = lane % width; at < MEMBERS / SUBGROUP; at += width) {
        far += team_memory[team_index(lane, buffer) + at];
    }
    return lane_sums(far, width);
}

fn team_sum_of_subgroups(value: f32, lane: u32, buffer: u32) -> f32 {
    let near = lane_sum(value, min(MEMBERS, SUBGROUP));
    if (MEMBERS <= SUBGROUP) {
        return near;
    }
    store_for_team(vec2<f32>(near, 0.0), lane, buffer);
    let width = clamp(MEMBERS / SUBGROUP, 1u, SUBGROUP);
    var far = 0.0;
    for (var at = lane % width; at < MEMBERS / SUBGROUP; at += width) {
        far += team_memory[team_index(lane, buffer) + at].x;
    }
    return lane_sum(far, width);
}

fn team_max_of_subgroups(value: f32, lane: u32, buffer: u32) -> f32 {
    let near = lane_max(value, min(MEMBERS, SUBGROUP));
    if (MEMBERS <= SUBGROUP) {
        return near;
    }
    store_for_team(vec2<f32>(near, 0.0), lane, buffer);
    let width = clamp(MEMBERS / SUBGROUP, 1u, SUBGROUP);
    var far = lowest();
    for (var at = lane % width; at < MEMBERS / SUBGROUP; at += width) {
        far = max(far, team_memory[team_index(lane, buffer) + at].x);
    }
    return lane_max(far, width);
}

fn team_sums_in_memory(value: vec2<f32>, lane: u32, buffer: u32) -> vec2<f32> {
    let first = buffer * THREADS + lane / MEMBERS * MEMBERS;
    let member = lane % MEMBERS;
    team_memory[first + member] = value;
    for (var half = MEMBERS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (member < half) {
            team_memory[first + member] += team_memory[first + member + half];
        }
    }
    workgroupBarrier();
    return team_memory[first];
}

fn team_sum_in_memory(value: f32, lane: u32, buffer: u32) -> f32 {
    return team_sums_in_memory(vec2<f32>(value, 0.0), lane, buffer).x;
}

fn team_max_in_memory(value: f32, lane: u32, buffer: u32) -> f32 {
    let first = buffer * THREADS + lane / MEMBERS * MEMBERS;
    let member = lane % MEMBERS;
    team_memory[first + member].x = value;
    for (var half = MEMBERS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (member < half) {
            team_memory[first + member].x = max(team_memory[first + member].x, team_memory[first + member + half].x);
        }
    }
    workgroupBarrier();
    return team_memory[first].x;
}
