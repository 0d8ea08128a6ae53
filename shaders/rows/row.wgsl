// The code that rows.wgsl, its families and cumulative.wgsl share: parameters, threads, indices,
// parts, exponentials.

struct Parameters {
    launched: u32,
    rank: u32,
    over_rank: u32,
    // The id of the check of indices, for the record of an index out of range.
    index_check: u32,
    // How rows are split and assigned to threads: described in rows.wgsl.
    rows: u32,
    length: u32,
    members: u32,
    per_group: u32,
    across: u32,
    parts: u32,
    per_part: u32,
    // Workgroups of a part.
    blocks: u32,
    // Accumulators of a row that the first launch wrote; in norm_grad.wgsl, the rows of a team.
    loop_count: u32,
    // In norm_grad.wgsl: the distance from an even column of a thread to the next one, and the
    // distance from one thread to the next.
    column_step: u32,
    thread_step: u32,
    _padding: u32,
    // First elements: of up to four tensors that are indexed by row in `space`, and of the dense
    // tensors.
    offsets: vec4<u32>,
    extras: array<vec4<u32>, 2>,
    // Numbers of the op, which its file describes.
    numbers: array<vec4<u32>, 2>,
    // The space of rows: its axes, with the strides of up to four tensors.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
    // The space of a row's elements, in the same tensors.
    over_sizes: array<vec4<u32>, 2>,
    over_strides: array<vec4<u32>, 8>,
}

// The position of a thread among those of its row.
struct Member {
    row: u32,
    // The index of the row in the workgroup.
    local_row: u32,
    member: u32,
    part: u32,
    // Whether the row exists.
    exists: bool,
}

fn member_of(group: u32, lane: u32) -> Member {
    let part = group / params.blocks;
    let across = params.across != 0u;
    let local_row = select(lane / params.members, lane % params.per_group, across);
    let member = select(lane % params.members, lane / params.per_group, across);
    let row = (group - part * params.blocks) * params.per_group + local_row;
    return Member(row, local_row, member, part, row < params.rows && part < params.parts);
}

var<workgroup> team_accs: array<Acc, 256>;

// Merges the accumulators of all members of a row. OF_TEAM is one of these two functions.
fn team_in_memory(acc: Acc, at: Member) -> Acc {
    let slot = at.member * params.per_group + at.local_row;
    team_accs[slot] = acc;
    for (var half = params.members / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (at.member < half) {
            team_accs[slot] = MERGE(team_accs[slot], team_accs[slot + half * params.per_group]);
        }
    }
    workgroupBarrier();
    return team_accs[at.local_row];
}

// Merges with shuffles, if the threads of a row are adjacent: within subgroups of SUBGROUP threads,
// and then over the results of the subgroups.
fn team_of_subgroups(acc: Acc, at: Member) -> Acc {
    if (params.across != 0u) {
        return team_in_memory(acc, at);
    }
    let lane = at.local_row * params.members + at.member;
    let near = min(params.members, SUBGROUP);
    let merged = merge_lanes(acc, near, lane);
    let subgroups = params.members / near;
    if (subgroups == 1u) {
        return merged;
    }
    let first = at.local_row * subgroups;
    if (at.member % near == 0u) {
        team_accs[first + at.member / near] = merged;
    }
    workgroupBarrier();
    let width = min(subgroups, SUBGROUP);
    var far = team_accs[first + at.member % width];
    for (var other = at.member % width + width; other < subgroups; other += width) {
        far = MERGE(far, team_accs[first + other]);
    }
    return merge_lanes(far, width, lane);
}

// Merges the values of `width` adjacent lanes, a power of two. All lanes receive the result of the
// first one, so that they have the same bits.
fn merge_lanes(acc: Acc, width: u32, lane: u32) -> Acc {
    var merged = acc;
    for (var half = width / 2u; half > 0u; half /= 2u) {
        merged = MERGE(merged, ACC_FROM_LANE(merged, (lane + half) % SUBGROUP));
    }
    return ACC_FROM_LANE(merged, (lane - lane % width) % SUBGROUP);
}

fn plain_from_lane(acc: Acc, lane: u32) -> Acc {
    return subgroupShuffle(acc, lane);
}

fn part_begin(at: Member) -> u32 {
    return at.part * params.per_part;
}

fn part_end(at: Member) -> u32 {
    return min(params.length, (at.part + 1u) * params.per_part);
}

// BASES: the index of a row's first element in each tensor of the space of rows. no_bases is for
// functions that compute indices in another way.
fn no_bases(row: u32) -> vec4<u32> {
    return vec4<u32>(0u);
}

fn two_bases(row: u32) -> vec4<u32> {
    return vec4<u32>(strided_index(0u, row), strided_index(1u, row), 0u, 0u);
}

fn three_bases(row: u32) -> vec4<u32> {
    return vec4<u32>(strided_index(0u, row), strided_index(1u, row), strided_index(2u, row), 0u);
}

fn four_bases(row: u32) -> vec4<u32> {
    return vec4<u32>(strided_index(0u, row), strided_index(1u, row), strided_index(2u, row), strided_index(3u, row));
}

// The index of element r of a row of tensor `tensor` that begins at `base`.
fn along(tensor: u32, base: u32, r: u32) -> u32 {
    if (params.over_rank == 1u) {
        return base + r * params.over_strides[tensor * 2u].x;
    }
    var rest = r;
    var element_index = base;
    for (var axis = params.over_rank - 1u; axis > 0u; axis -= 1u) {
        let size = params.over_sizes[axis / 4u][axis % 4u];
        let next = rest / size;
        element_index += (rest - next * size) * params.over_strides[tensor * 2u + axis / 4u][axis % 4u];
        rest = next;
    }
    return element_index + rest * params.over_strides[tensor * 2u].x;
}

// ---------------------------------------------------------------- parts

// The accumulators of this row that the first launch wrote.
fn accumulate_parts(at: Member, base: vec4<u32>) -> Acc {
    var acc = START();
    for (var part = at.member; part < params.loop_count; part += params.members) {
        let element_index = 2u * (at.row * params.loop_count + part);
        acc = MERGE(acc, ACC_FROM(vec4<u32>(parts_bits(element_index), parts_bits(element_index + 1u))));
    }
    return acc;
}

fn finish_part(at: Member, base: vec4<u32>, acc: Acc) {
    if (at.member == 0u) {
        let words = WORDS_FROM(acc);
        let element_index = 2u * (at.row * params.parts + at.part);
        parts_put_bits(element_index, words.xy);
        parts_put_bits(element_index + 1u, words.zw);
    }
}

fn floats_from(words: vec4<u32>) -> vec4<f32> {
    return bitcast<vec4<f32>>(words);
}

fn floats_words(acc: vec4<f32>) -> vec4<u32> {
    return bitcast<vec4<u32>>(acc);
}

// Several sums at once.
fn sums_start() -> vec4<f32> {
    return vec4<f32>(0.0);
}

fn sums_merge(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    return a + b;
}

// ---------------------------------------------------------------- elements of y
//
// For elements of y that depend on the row's accumulator.

// What PREPARE(at, base, acc) computes for a row, and VALUE(at, base, state, r) uses for each of
// its elements of y.
struct RowState {
    numbers: vec4<f32>,
    index: u32,
}

fn finish_elements(at: Member, base: vec4<u32>, acc: Acc) {
    let state = PREPARE(at, base, acc);
    let end = part_end(at);
    for (var r = part_begin(at) + at.member; r < end; r += params.members) {
        y_put(along(0u, base.x, r), VALUE(at, base, state, r));
    }
}

// Stores the elements of long rows, four elements of a thread at a time: all four are computed
// before the first one is stored.
fn finish_four_elements(at: Member, base: vec4<u32>, acc: Acc) {
    let state = PREPARE(at, base, acc);
    let end = part_end(at);
    let step = params.members;
    for (var r = part_begin(at) + at.member; r < end; r += 4u * step) {
#repeat k 4
        let value_#{k} = VALUE(at, base, state, min(r + #{k}u * step, end - 1u));
#end
#repeat k 4
        if (r + #{k}u * step < end) {
            y_put(along(0u, base.x, r + #{k}u * step), value_#{k});
        }
#end
    }
}

// For a y that consists of whole words of two elements: each word is stored at once.
fn finish_pairs(at: Member, base: vec4<u32>, acc: Acc) {
    let state = PREPARE(at, base, acc);
    let end = part_end(at);
    for (var r = part_begin(at) + 2u * at.member; r < end; r += 2u * params.members) {
        let low = y_rounded(VALUE(at, base, state, r));
        let high = y_rounded(VALUE(at, base, state, r + 1u));
        y_put_word(along(0u, base.x, r) / 2u, low | (high << 16u));
    }
}

// For a y whose elements are contiguous, two to a word, in rows that may begin and end in the
// middle of a word. Whole words are stored at once.
fn finish_words(at: Member, base: vec4<u32>, acc: Acc) {
    let state = PREPARE(at, base, acc);
    let begin = part_begin(at);
    let end = part_end(at);
    // The index after the first element of a word.
    for (var next = begin + 1u - ((base.x + begin) & 1u) + 2u * at.member; next <= end; next += 2u * params.members) {
        var low = 0.0;
        if (next > begin) {
            low = VALUE(at, base, state, next - 1u);
        }
        if (next < end) {
            let high = VALUE(at, base, state, next);
            if (next > begin) {
                y_put_pair(base.x + next - 1u, low, high);
            } else {
                y_put(base.x + next, high);
            }
        } else if (next > begin) {
            y_put(base.x + next - 1u, low);
        }
    }
}

// ---------------------------------------------------------------- exponentials
//
// EXPONENTIAL is the first function, or the second one if the result has 16 bits.

// e^x for x that is not above 0, within 2 ulp; 0 instead of subnormal results.
//
// Adding 1.5 * 2^23 leaves the power of two in the lower bits. A power of -127 becomes the exponent
// of 0.
fn exponential(x: f32) -> f32 {
    let bounded = max(min(x, 0.0), -88.0296936);
    let shifted = opaque(bounded * 1.442695022 + 12582912.0);
    let power = opaque(shifted - 12582912.0);
    let r = opaque(bounded - power * 0.6931457520) - power * 1.428606765e-06;
    let p = 0.5 + r * (0.1666666716 + r * (4.166645557e-02 + r * (8.333310485e-03 + r * (1.393453218e-03 + r * 1.989197044e-04))));
    let value = (1.0 + (r + (r * r) * p)) * bitcast<f32>((bitcast<u32>(shifted) << 23u) + 0x3f800000u);
    return select(value, x, abs_bits(x) > 0x7f800000u);
}

// e^x for 16-bit results, with the device's 2^x, which has an error of a few units in the twentieth
// bit.
fn exponential_of_half(x: f32) -> f32 {
    let value = select(exp2(max(x, -88.0) * 1.442695022), 0.0, x < -87.0);
    return select(value, x, abs_bits(x) > 0x7f800000u);
}

// e^x for any x.
fn exponential_of_any(x: f32) -> f32 {
    if (x > 0.0) {
        return exp_of(x);
    }
    return EXPONENTIAL(x);
}

fn finite_or_zero(x: f32) -> f32 {
    return select(0.0, x, abs_bits(x) < 0x7f800000u);
}

// x: the largest number; y: the sum of e^(number - x), with 0 instead of an infinite x. y is NaN if
// any number is.
fn exponentials_start() -> vec4<f32> {
    return vec4<f32>(lowest(), 0.0, 0.0, 0.0);
}

fn exponentials_merge(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> {
    let largest = max(a.x, b.x);
    let shift = finite_or_zero(largest);
    return vec4<f32>(largest, a.y * EXPONENTIAL(a.x - shift) + b.y * EXPONENTIAL(b.x - shift), 0.0, 0.0);
}

// Four numbers at a time, with one rescaling for them.
fn exponentials_accumulate(at: Member, base: vec4<u32>) -> vec4<f32> {
    var largest = lowest();
    var sum = 0.0;
    let end = part_end(at);
    let step = params.members;
    for (var r = part_begin(at) + at.member; r < end; r += 4u * step) {
        let a = x_at(along(1u, base.y, r));
        var b = lowest();
        var c = lowest();
        var d = lowest();
        if (r + step < end) {
            b = x_at(along(1u, base.y, r + step));
        }
        if (r + 2u * step < end) {
            c = x_at(along(1u, base.y, r + 2u * step));
        }
        if (r + 3u * step < end) {
            d = x_at(along(1u, base.y, r + 3u * step));
        }
        let new_largest = max(max(largest, a), max(b, max(c, d)));
        let shift = finite_or_zero(new_largest);
        if (new_largest != largest) {
            sum *= EXPONENTIAL(largest - shift);
            largest = new_largest;
        }
        sum += (EXPONENTIAL(a - shift) + EXPONENTIAL(b - shift)) + (EXPONENTIAL(c - shift) + EXPONENTIAL(d - shift));
    }
    return vec4<f32>(largest, sum, 0.0, 0.0);
}

// log(sum of e^(number - x)). If it is not finite, the result is NaN or the largest number.
fn log_of_exponentials(acc: vec4<f32>) -> f32 {
    if (is_nan(acc.y) || abs_bits(acc.x) >= 0x7f800000u) {
        return select(acc.x, quiet_nan(), is_nan(acc.y));
    }
    return log_of(acc.y);
}
