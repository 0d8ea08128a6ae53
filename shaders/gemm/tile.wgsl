// The tiles of matrix products y[row, column] = sum over inner of left[row, inner] * right[inner, column], of m rows, n columns, k inner, for shaders
// that tell what an operand is. A work group of 256 makes one tile of y, of one matrix and one part of the sum: tile_128, tile_64 (in the picture) of
// floats, tile_16 of any class.
//
//      right   k x n  |--|16|--|  64 columns          a step: 16 inner of 64 rows and 64 columns lie in
//   left m x k   64 rows -> [ 64 x 64 of y ]          work-group memory; a thread sums 4 x 4 elements
//
// The next step is read while this one is summed. What lies beyond an edge counts as zero.
//
// From a shader: begin(matrix, split); of each operand OPERAND_line(number) -> vec3<u32>, what is known of a row or column before the sum, and
// OPERAND_value(line, inner) -> C; index_of(row, column) in y and finished(row, column, index, sum) -> C, what is stored there. Its Parameters have m, n,
// k, splits, split_length. LEFT_RUNS and RIGHT_RUNS tell whether neighbours along the inner axis lie side by side in memory: threads read along it
// then. Limits: fewer than 2^32 elements of an operand.

// ---------------------------------------------------------------- which tile

struct Work {
    row: u32,
    column: u32,
    // The part of the sum.
    begin: u32,
    end: u32,
}

// What this group does, in tiles of so many rows and columns.
fn work_of(group: u32, size: u32) -> Work {
    let columns = (params.n + size - 1u) / size;
    let rows = (params.m + size - 1u) / size;
    let column = group % columns;
    let rest = group / columns;
    let row = rest % rows;
    let split = (rest / rows) % params.splits;
    begin(rest / rows / params.splits, split);
    let first_inner = split * params.split_length;
    return Work(row * size, column * size, first_inner, min(first_inner + params.split_length, params.k));
}

fn left_within(line: vec3<u32>, inner: u32, end: u32) -> C {
    if (inner >= end) {
        return zero();
    }
    return left_value(line, inner);
}

fn right_within(line: vec3<u32>, inner: u32, end: u32) -> C {
    if (inner >= end) {
        return zero();
    }
    return right_value(line, inner);
}

// ---------------------------------------------------------------- 64 x 64, floats

// [16 inner][64 lines and 4 more, so that threads along the inner axis write to different banks].
var<workgroup> left_tile: array<vec4<f32>, 272>;
var<workgroup> right_tile: array<vec4<f32>, 272>;

// The line and the inner index, in a step of a tile, that a thread reads at its turn 0 to 3.
fn turn_line(lane: u32, turn: u32, runs: bool) -> u32 {
    return select(lane % 64u, lane / 16u + turn * 16u, runs);
}

fn turn_inner(lane: u32, turn: u32, runs: bool) -> u32 {
    return select(lane / 64u + turn * 4u, lane % 16u, runs);
}

fn put_left(lane: u32, turn: u32, value: f32) {
    let line = turn_line(lane, turn, LEFT_RUNS);
    left_tile[turn_inner(lane, turn, LEFT_RUNS) * 17u + line / 4u][line % 4u] = value;
}

fn put_right(lane: u32, turn: u32, value: f32) {
    let line = turn_line(lane, turn, RIGHT_RUNS);
    right_tile[turn_inner(lane, turn, RIGHT_RUNS) * 17u + line / 4u][line % 4u] = value;
}

fn tile_64(group: u32, lane: u32) {
    let work = work_of(group, 64u);
    let left_line_0 = left_line(work.row + turn_line(lane, 0u, LEFT_RUNS));
    let left_line_1 = left_line(work.row + turn_line(lane, 1u, LEFT_RUNS));
    let left_line_2 = left_line(work.row + turn_line(lane, 2u, LEFT_RUNS));
    let left_line_3 = left_line(work.row + turn_line(lane, 3u, LEFT_RUNS));
    let right_line_0 = right_line(work.column + turn_line(lane, 0u, RIGHT_RUNS));
    let right_line_1 = right_line(work.column + turn_line(lane, 1u, RIGHT_RUNS));
    let right_line_2 = right_line(work.column + turn_line(lane, 2u, RIGHT_RUNS));
    let right_line_3 = right_line(work.column + turn_line(lane, 3u, RIGHT_RUNS));
    var left = vec4<f32>();
    var right = vec4<f32>();
    var sums_0 = vec4<f32>();
    var sums_1 = vec4<f32>();
    var sums_2 = vec4<f32>();
    var sums_3 = vec4<f32>();
    let rows = lane / 16u;
    let columns = lane % 16u;
    // One step ahead: the first turn only reads.
    var ahead = work.begin;
    var summing = false;
    loop {
        if (summing) {
            put_left(lane, 0u, left.x);
            put_left(lane, 1u, left.y);
            put_left(lane, 2u, left.z);
            put_left(lane, 3u, left.w);
            put_right(lane, 0u, right.x);
            put_right(lane, 1u, right.y);
            put_right(lane, 2u, right.z);
            put_right(lane, 3u, right.w);
        }
        workgroupBarrier();
        let more = ahead < work.end;
        if (more) {
            let end = work.end;
            left.x = left_within(left_line_0, ahead + turn_inner(lane, 0u, LEFT_RUNS), end);
            left.y = left_within(left_line_1, ahead + turn_inner(lane, 1u, LEFT_RUNS), end);
            left.z = left_within(left_line_2, ahead + turn_inner(lane, 2u, LEFT_RUNS), end);
            left.w = left_within(left_line_3, ahead + turn_inner(lane, 3u, LEFT_RUNS), end);
            right.x = right_within(right_line_0, ahead + turn_inner(lane, 0u, RIGHT_RUNS), end);
            right.y = right_within(right_line_1, ahead + turn_inner(lane, 1u, RIGHT_RUNS), end);
            right.z = right_within(right_line_2, ahead + turn_inner(lane, 2u, RIGHT_RUNS), end);
            right.w = right_within(right_line_3, ahead + turn_inner(lane, 3u, RIGHT_RUNS), end);
            ahead += 16u;
        }
        if (summing) {
            for (var inner = 0u; inner < 16u; inner += 4u) {
                let a_0 = left_tile[inner * 17u + rows];
                let b_0 = right_tile[inner * 17u + columns];
                let a_1 = left_tile[inner * 17u + rows + 17u];
                let b_1 = right_tile[inner * 17u + columns + 17u];
                let a_2 = left_tile[inner * 17u + rows + 34u];
                let b_2 = right_tile[inner * 17u + columns + 34u];
                let a_3 = left_tile[inner * 17u + rows + 51u];
                let b_3 = right_tile[inner * 17u + columns + 51u];
                sums_0 += a_0.x * b_0;
                sums_1 += a_0.y * b_0;
                sums_2 += a_0.z * b_0;
                sums_3 += a_0.w * b_0;
                sums_0 += a_1.x * b_1;
                sums_1 += a_1.y * b_1;
                sums_2 += a_1.z * b_1;
                sums_3 += a_1.w * b_1;
                sums_0 += a_2.x * b_2;
                sums_1 += a_2.y * b_2;
                sums_2 += a_2.z * b_2;
                sums_3 += a_2.w * b_2;
                sums_0 += a_3.x * b_3;
                sums_1 += a_3.y * b_3;
                sums_2 += a_3.z * b_3;
                sums_3 += a_3.w * b_3;
            }
        }
        workgroupBarrier();
        if (!more) {
            break;
        }
        summing = true;
    }
    // One index in the text for all elements: what follows a sum may be long.
    for (var part = 0u; part < 8u; part += 1u) {
        let upper = select(sums_0, sums_1, (part & 2u) != 0u);
        let lower = select(sums_2, sums_3, (part & 2u) != 0u);
        let sums = select(upper, lower, part >= 4u);
        let pair = select(sums.xy, sums.zw, (part & 1u) != 0u);
        store_within(work.row + rows * 4u + part / 2u, work.column + columns * 4u + part % 2u * 2u, pair);
    }
}

// What of two columns is not beyond an edge.
fn store_within(row: u32, column: u32, sums: vec2<f32>) {
    if (row >= params.m || column >= params.n) {
        return;
    }
    let element_index = index_of(row, column);
    let first_result = finished(row, column, element_index, sums.x);
    if (column + 1u >= params.n) {
        y_put(element_index, first_result);
        return;
    }
    let next = index_of(row, column + 1u);
    let second_result = finished(row, column + 1u, next, sums.y);
    if (next == element_index + 1u) {
        y_put_pair(element_index, first_result, second_result);
    } else {
        y_put(element_index, first_result);
        y_put(next, second_result);
    }
}

// ---------------------------------------------------------------- 128 x 128, floats: steps of 8, a thread sums 8 x 8 elements

// [8 inner][128 lines and 4 more].
var<workgroup> wide_left_tile: array<vec4<f32>, 264>;
var<workgroup> wide_right_tile: array<vec4<f32>, 264>;

// The line and the inner index, in a step of a tile, that a thread reads at its turn 0 to 3.
fn wide_line(lane: u32, turn: u32, runs: bool) -> u32 {
    return select(lane % 128u, lane / 8u + turn * 32u, runs);
}

fn wide_inner(lane: u32, turn: u32, runs: bool) -> u32 {
    return select(lane / 128u + turn * 2u, lane % 8u, runs);
}

fn put_wide_left(lane: u32, turn: u32, value: f32) {
    let line = wide_line(lane, turn, LEFT_RUNS);
    wide_left_tile[wide_inner(lane, turn, LEFT_RUNS) * 33u + line / 4u][line % 4u] = value;
}

fn put_wide_right(lane: u32, turn: u32, value: f32) {
    let line = wide_line(lane, turn, RIGHT_RUNS);
    wide_right_tile[wide_inner(lane, turn, RIGHT_RUNS) * 33u + line / 4u][line % 4u] = value;
}

// Rows and columns of a thread are 4 (lane / 16), 4 (lane % 16) and the three after, and those 64 further.
fn tile_128(group: u32, lane: u32) {
    let work = work_of(group, 128u);
    let left_line_0 = left_line(work.row + wide_line(lane, 0u, LEFT_RUNS));
    let left_line_1 = left_line(work.row + wide_line(lane, 1u, LEFT_RUNS));
    let left_line_2 = left_line(work.row + wide_line(lane, 2u, LEFT_RUNS));
    let left_line_3 = left_line(work.row + wide_line(lane, 3u, LEFT_RUNS));
    let right_line_0 = right_line(work.column + wide_line(lane, 0u, RIGHT_RUNS));
    let right_line_1 = right_line(work.column + wide_line(lane, 1u, RIGHT_RUNS));
    let right_line_2 = right_line(work.column + wide_line(lane, 2u, RIGHT_RUNS));
    let right_line_3 = right_line(work.column + wide_line(lane, 3u, RIGHT_RUNS));
    var left = vec4<f32>();
    var right = vec4<f32>();
    var near_0 = vec4<f32>();
    var far_0 = vec4<f32>();
    var near_1 = vec4<f32>();
    var far_1 = vec4<f32>();
    var near_2 = vec4<f32>();
    var far_2 = vec4<f32>();
    var near_3 = vec4<f32>();
    var far_3 = vec4<f32>();
    var near_4 = vec4<f32>();
    var far_4 = vec4<f32>();
    var near_5 = vec4<f32>();
    var far_5 = vec4<f32>();
    var near_6 = vec4<f32>();
    var far_6 = vec4<f32>();
    var near_7 = vec4<f32>();
    var far_7 = vec4<f32>();
    let rows = lane / 16u;
    let columns = lane % 16u;
    // One step ahead: the first turn only reads.
    var ahead = work.begin;
    var summing = false;
    loop {
        if (summing) {
            put_wide_left(lane, 0u, left.x);
            put_wide_left(lane, 1u, left.y);
            put_wide_left(lane, 2u, left.z);
            put_wide_left(lane, 3u, left.w);
            put_wide_right(lane, 0u, right.x);
            put_wide_right(lane, 1u, right.y);
            put_wide_right(lane, 2u, right.z);
            put_wide_right(lane, 3u, right.w);
        }
        workgroupBarrier();
        let more = ahead < work.end;
        if (more) {
            let end = work.end;
            left.x = left_within(left_line_0, ahead + wide_inner(lane, 0u, LEFT_RUNS), end);
            left.y = left_within(left_line_1, ahead + wide_inner(lane, 1u, LEFT_RUNS), end);
            left.z = left_within(left_line_2, ahead + wide_inner(lane, 2u, LEFT_RUNS), end);
            left.w = left_within(left_line_3, ahead + wide_inner(lane, 3u, LEFT_RUNS), end);
            right.x = right_within(right_line_0, ahead + wide_inner(lane, 0u, RIGHT_RUNS), end);
            right.y = right_within(right_line_1, ahead + wide_inner(lane, 1u, RIGHT_RUNS), end);
            right.z = right_within(right_line_2, ahead + wide_inner(lane, 2u, RIGHT_RUNS), end);
            right.w = right_within(right_line_3, ahead + wide_inner(lane, 3u, RIGHT_RUNS), end);
            ahead += 8u;
        }
        if (summing) {
            for (var inner = 0u; inner < 8u; inner += 1u) {
                let a_near = wide_left_tile[inner * 33u + rows];
                let a_far = wide_left_tile[inner * 33u + rows + 16u];
                let b_near = wide_right_tile[inner * 33u + columns];
                let b_far = wide_right_tile[inner * 33u + columns + 16u];
                near_0 += a_near.x * b_near;
                far_0 += a_near.x * b_far;
                near_1 += a_near.y * b_near;
                far_1 += a_near.y * b_far;
                near_2 += a_near.z * b_near;
                far_2 += a_near.z * b_far;
                near_3 += a_near.w * b_near;
                far_3 += a_near.w * b_far;
                near_4 += a_far.x * b_near;
                far_4 += a_far.x * b_far;
                near_5 += a_far.y * b_near;
                far_5 += a_far.y * b_far;
                near_6 += a_far.z * b_near;
                far_6 += a_far.z * b_far;
                near_7 += a_far.w * b_near;
                far_7 += a_far.w * b_far;
            }
        }
        workgroupBarrier();
        if (!more) {
            break;
        }
        summing = true;
    }
    for (var part = 0u; part < 32u; part += 1u) {
        let row = part / 4u;
        var near = select(select(near_0, near_1, row == 1u), select(near_2, near_3, row == 3u), row >= 2u);
        var far = select(select(far_0, far_1, row == 1u), select(far_2, far_3, row == 3u), row >= 2u);
        if (row >= 4u) {
            near = select(select(near_4, near_5, row == 5u), select(near_6, near_7, row == 7u), row >= 6u);
            far = select(select(far_4, far_5, row == 5u), select(far_6, far_7, row == 7u), row >= 6u);
        }
        let sums = select(near, far, (part & 2u) != 0u);
        let pair = select(sums.xy, sums.zw, (part & 1u) != 0u);
        let column = work.column + columns * 4u + (part & 2u) * 32u + (part & 1u) * 2u;
        store_within(work.row + rows * 4u + row % 4u + row / 4u * 64u, column, pair);
    }
}

// ---------------------------------------------------------------- 16 x 16, any class: one element a thread, steps of 16

var<workgroup> left_square: array<C, 272>;
var<workgroup> right_square: array<C, 272>;

fn store_element(row: u32, column: u32, sum: C) {
    let element_index = index_of(row, column);
    y_put(element_index, finished(row, column, element_index, sum));
}

fn tile_16(group: u32, lane: u32) {
    let work = work_of(group, 16u);
    let low = lane % 16u;
    let high = lane / 16u;
    let left_at = select(vec2<u32>(low, high), vec2<u32>(high, low), LEFT_RUNS);
    let right_at = select(vec2<u32>(low, high), vec2<u32>(high, low), RIGHT_RUNS);
    let own_left = left_line(work.row + left_at.x);
    let own_right = right_line(work.column + right_at.x);
    var sum = zero();
    for (var step = work.begin; step < work.end; step += 16u) {
        left_square[left_at.y * 17u + left_at.x] = left_within(own_left, step + left_at.y, work.end);
        right_square[right_at.y * 17u + right_at.x] = right_within(own_right, step + right_at.y, work.end);
        workgroupBarrier();
        for (var inner = 0u; inner < 16u; inner += 1u) {
            sum = sum_of(sum, product_of(left_square[inner * 17u + high], right_square[inner * 17u + low]));
        }
        workgroupBarrier();
    }
    let row = work.row + high;
    let column = work.column + low;
    if (row < params.m && column < params.n) {
        store_element(row, column, sum);
    }
}

// ---------------------------------------------------------------- the parts of sums

// A thread adds the parts of an element, which lie in slot `a`: [splits][matrices][m][n].
fn sum_parts(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.count) {
        var sum = zero();
        for (var split = 0u; split < params.splits; split += 1u) {
            sum = sum_of(sum, a_at(split * params.count + number));
        }
        let rest = number / params.n;
        begin(rest / params.m, 0u);
        store_element(rest % params.m, number % params.n, sum);
    }
}
