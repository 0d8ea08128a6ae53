// The stages of radix.wgsl, for one thread of a workgroup. A workgroup beyond the last tile
// executes all barriers and changes nothing.

const DIGIT_TILE: u32 = 2048u;
const DIGITS: u32 = 16u;
// Pairs of a thread.
const PAIRS: u32 = 8u;

fn digit_at(element_index: u32) -> u32 {
    return (keys_bits(element_index) >> params.shift) & 15u;
}

// ---------------------------------------------------------------- keys of elements

fn whole_key(key: u32) -> u32 { return key; }
fn lower_key(key: vec2<u32>) -> u32 { return key.x; }
fn upper_key(key: vec2<u32>) -> u32 { return key.y; }

fn key_in(line: u32, element_index: u32) -> u32 {
    let key = KEY_PART(ORDER(x_bits(strided_index(2u, line) + element_index * params.steps.z)));
    return select(key, ~key & params.mask, params.descending != 0u);
}

fn make_keys(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.length * params.lines) {
        let line = number / params.length;
        let element_index = number - line * params.length;
        keys_put_bits(number, key_in(line, element_index));
        numbers_put_bits(number, element_index);
    }
}

fn recompute_keys(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.length * params.lines) {
        keys_put_bits(number, key_in(number / params.length, numbers_bits(number)));
    }
}

fn gather_sorted(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.length * params.lines) {
        let line = number / params.length;
        let rank = number - line * params.length;
        let element_index = numbers_bits(number);
        values_put_bits(strided_index(0u, line) + rank * params.steps.x, x_bits(strided_index(2u, line) + element_index * params.steps.z));
        positions_put_bits(strided_index(1u, line) + rank * params.steps.y, element_index);
    }
}

// ---------------------------------------------------------------- one digit

var<workgroup> histogram: array<atomic<u32>, 16>;

fn count_digits(group: u32, lane: u32) {
    let line = group / params.tiles;
    let tile = group - line * params.tiles;
    if (lane < DIGITS) {
        atomicStore(&histogram[lane], 0u);
    }
    workgroupBarrier();
    if (line < params.lines) {
        let end = min(params.length, (tile + 1u) * DIGIT_TILE);
        for (var i = tile * DIGIT_TILE + lane; i < end; i += 256u) {
            atomicAdd(&histogram[digit_at(line * params.length + i)], 1u);
        }
    }
    workgroupBarrier();
    if (line < params.lines && lane < DIGITS) {
        counts_put_bits((line * DIGITS + lane) * params.tiles + tile, atomicLoad(&histogram[lane]));
    }
}

var<workgroup> digit_sums: array<u32, 256>;

// Returns the sum of `own` over the threads up to and including this one.
fn sum_through(own: u32, lane: u32) -> u32 {
    digit_sums[lane] = own;
    workgroupBarrier();
    var sum = own;
    for (var by = 1u; by < 256u; by *= 2u) {
        var other = 0u;
        if (lane >= by) {
            other = digit_sums[lane - by];
        }
        workgroupBarrier();
        sum += other;
        digit_sums[lane] = sum;
        workgroupBarrier();
    }
    return sum;
}

// Replaces each count of the line with the sum of all counts before it, 1024 at a time.
fn sum_digits(line: u32, lane: u32) {
    let all = select(0u, DIGITS * params.tiles, line < params.lines);
    let begin = line * DIGITS * params.tiles;
    var carry = 0u;
    for (var chunk = 0u; chunk < DIGITS * params.tiles; chunk += 1024u) {
        let first = chunk + lane * 4u;
        var own = array<u32, 4>();
        var sum = 0u;
        for (var i = 0u; i < 4u; i += 1u) {
            if (first + i < all) {
                own[i] = counts_bits(begin + first + i);
            }
            sum += own[i];
        }
        let through = sum_through(sum, lane);
        var before = carry + through - sum;
        for (var i = 0u; i < 4u; i += 1u) {
            if (first + i < all) {
                counts_put_bits(begin + first + i, before);
            }
            before += own[i];
        }
        carry += digit_sums[255];
        workgroupBarrier();
    }
}

// ranks[d][thread]: the number of pairs of digits d (lower 16 bits) and d + 8 (upper 16 bits) in
// the thread; then in the threads before it.
var<workgroup> ranks: array<array<u32, 256>, 8>;

fn move_digits(group: u32, lane: u32) {
    let line = group / params.tiles;
    let tile = group - line * params.tiles;
    let first = tile * DIGIT_TILE + lane * PAIRS;
    var end = min(params.length, first + PAIRS);
    if (line >= params.lines) {
        end = 0u;
    }
    for (var d = 0u; d < 8u; d += 1u) {
        ranks[d][lane] = 0u;
    }
    for (var i = first; i < end; i += 1u) {
        let digit = digit_at(line * params.length + i);
        ranks[digit & 7u][lane] += 1u << ((digit >> 3u) * 16u);
    }
    workgroupBarrier();
    // A thread sums over a part of one of 8 rows, which have 32 threads each: first its 8
    // consecutive entries, then what is before them.
    let row = lane / 32u;
    let part = (lane & 31u) * 8u;
    var sum = 0u;
    for (var i = 0u; i < 8u; i += 1u) {
        let own = ranks[row][part + i];
        ranks[row][part + i] = sum;
        sum += own;
    }
    digit_sums[lane] = sum;
    workgroupBarrier();
    var before = 0u;
    for (var other = row * 32u; other < lane; other += 1u) {
        before += digit_sums[other];
    }
    for (var i = 0u; i < 8u; i += 1u) {
        ranks[row][part + i] += before;
    }
    workgroupBarrier();
    for (var i = first; i < end; i += 1u) {
        let origin = line * params.length + i;
        let digit = digit_at(origin);
        let half = (digit >> 3u) * 16u;
        let rank = (ranks[digit & 7u][lane] >> half) & 0xffffu;
        ranks[digit & 7u][lane] += 1u << half;
        let to = line * params.length + counts_bits((line * DIGITS + digit) * params.tiles + tile) + rank;
        sorted_keys_put_bits(to, keys_bits(origin));
        sorted_numbers_put_bits(to, numbers_bits(origin));
    }
}
