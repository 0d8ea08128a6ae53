// The tiles of matrix products y[row, column] = sum over inner of left[row, inner] * right[inner,
// column], of m rows, n columns and k inner indices, for shaders that define the operands. A
// workgroup of 256 threads computes one tile of y, of one matrix and one part of the sum: tile_128
// or tile_64 (in the figure) of floats, or tile_16 of any class.
//
//      right   k x n  |--|16|--|  64 columns          a step: 16 inner indices of 64 rows and 64
//   left m x k   64 rows -> [ 64 x 64 of y ]          columns are in workgroup memory; a thread
//                                                     sums 4 x 4 elements
//
// The next step is read while the current one is summed. Elements beyond an edge count as zero.
//
// The shader provides begin(matrix, split). For each operand it provides OPERAND_line(number) ->
// vec3<u32>, which is computed for a row or column before the sum, and OPERAND_value(line, inner)
// -> C. It also provides index_of(row, column) in y, and apply_epilogue(row, column, index, sum) ->
// C, the value that is stored. Its Parameters have m, n, k, splits and split_length. LEFT_K_MAJOR
// and RIGHT_K_MAJOR: whether neighbors along the inner axis are contiguous in memory, in which case
// threads read along it. Limits: fewer than 2^32 elements of an operand.

// ---------------------------------------------------------------- selection of the tile

// The first row and column of a workgroup's tile, and what it sums over.
struct Work {
    row: u32,
    column: u32,
    // The range of inner indices to sum over.
    begin: u32,
    end: u32,
}

// Returns the tile of this workgroup, for square tiles of `size` rows and columns.
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

// A thread's accumulators, each for four columns. In tile_64, accumulator r is for the thread's row
// r. In tiles of 128 rows, accumulator 2 r is for the near columns of row r, and accumulator 2 r +
// 1 for the far columns.
#repeat part 16
var<private> sums_#{part}: vec4<f32>;
#end

// [16 inner indices][64 rows or columns, padded by 4, so that threads along the inner axis write to
// different banks].
var<workgroup> left_tile: array<vec4<f32>, 272>;
var<workgroup> right_tile: array<vec4<f32>, 272>;

// The row or column, and the inner index, within a step of a tile, that a thread reads in `load` 0
// to 3.
fn line_of_load(lane: u32, load: u32, is_k_major: bool) -> u32 {
    return select(lane % 64u, lane / 16u + load * 16u, is_k_major);
}

fn inner_of_load(lane: u32, load: u32, is_k_major: bool) -> u32 {
    return select(lane / 64u + load * 4u, lane % 16u, is_k_major);
}

fn put_left(lane: u32, load: u32, value: f32) {
    let line = line_of_load(lane, load, LEFT_K_MAJOR);
    left_tile[inner_of_load(lane, load, LEFT_K_MAJOR) * 17u + line / 4u][line % 4u] = value;
}

fn put_right(lane: u32, load: u32, value: f32) {
    let line = line_of_load(lane, load, RIGHT_K_MAJOR);
    right_tile[inner_of_load(lane, load, RIGHT_K_MAJOR) * 17u + line / 4u][line % 4u] = value;
}

// The values of OPERAND_line for the rows and columns that a thread reads, for each load.
struct LoadLines {
#repeat load 4
    left_#{load}: vec3<u32>,
    right_#{load}: vec3<u32>,
#end
}

// The values that a thread reads of both operands for a step, one element per load.
struct LoadValues {
    left: vec4<f32>,
    right: vec4<f32>,
}

fn lines_of_loads(work: Work, lane: u32) -> LoadLines {
    var lines: LoadLines;
#repeat load 4
    lines.left_#{load} = left_line(work.row + line_of_load(lane, #{load}u, LEFT_K_MAJOR));
    lines.right_#{load} = right_line(work.column + line_of_load(lane, #{load}u, RIGHT_K_MAJOR));
#end
    return lines;
}

// Reads the step that begins at inner index `first`.
fn read_values(lines: LoadLines, first: u32, end: u32, lane: u32) -> LoadValues {
    var values: LoadValues;
#repeat load 4
    values.left[#{load}] = left_within(lines.left_#{load}, first + inner_of_load(lane, #{load}u, LEFT_K_MAJOR), end);
#end
#repeat load 4
    values.right[#{load}] = right_within(lines.right_#{load}, first + inner_of_load(lane, #{load}u, RIGHT_K_MAJOR), end);
#end
    return values;
}

// Stores the values that a thread read in workgroup memory.
fn put_values(values: LoadValues, lane: u32) {
#repeat load 4
    put_left(lane, #{load}u, values.left[#{load}]);
#end
#repeat load 4
    put_right(lane, #{load}u, values.right[#{load}]);
#end
}

// Adds the products of the step in workgroup memory to a thread's accumulators.
fn add_tile_step(lane: u32) {
    let rows = lane / 16u;
    let columns = lane % 16u;
    for (var inner = 0u; inner < 16u; inner += 4u) {
#repeat i 4
        let a_#{i} = left_tile[inner * 17u + rows + #{i*17}u];
        let b_#{i} = right_tile[inner * 17u + columns + #{i*17}u];
#end
#repeat i 4
#repeat row 4
        sums_#{row} += a_#{i}[#{row}] * b_#{i};
#end
#end
    }
}

// A thread computes the four rows from 4 (lane / 16) on, and the four columns from 4 (lane % 16)
// on.
fn tile_64(group: u32, lane: u32) {
    let work = work_of(group, 64u);
    let lines = lines_of_loads(work, lane);
    var values = LoadValues();
    // Reads one step ahead: the first iteration only reads.
    var next_inner = work.begin;
    var summing = false;
    loop {
        if (summing) {
            put_values(values, lane);
        }
        workgroupBarrier();
        let more = next_inner < work.end;
        if (more) {
            values = read_values(lines, next_inner, work.end, lane);
            next_inner += 16u;
        }
        if (summing) {
            add_tile_step(lane);
        }
        workgroupBarrier();
        if (!more) {
            break;
        }
        summing = true;
    }
    // The code after the sum may be long, so it exists only once for all elements.
    for (var part = 0u; part < 8u; part += 1u) {
        let upper = select(sums_0, sums_1, (part & 2u) != 0u);
        let lower = select(sums_2, sums_3, (part & 2u) != 0u);
        let sums = select(upper, lower, part >= 4u);
        let pair = select(sums.xy, sums.zw, (part & 1u) != 0u);
        store_within(work.row + lane / 16u * 4u + part / 2u, work.column + lane % 16u * 4u + part % 2u * 2u, pair);
    }
}

// Stores the sums of two columns of a row, except columns beyond an edge.
fn store_within(row: u32, column: u32, sums: vec2<f32>) {
    if (row >= params.m || column >= params.n) {
        return;
    }
    let element_index = index_of(row, column);
    let first_result = apply_epilogue(row, column, element_index, sums.x);
    if (column + 1u >= params.n) {
        y_put(element_index, first_result);
        return;
    }
    let next = index_of(row, column + 1u);
    let second_result = apply_epilogue(row, column + 1u, next, sums.y);
    if (next == element_index + 1u) {
        y_put_pair(element_index, first_result, second_result);
    } else {
        y_put(element_index, first_result);
        y_put(next, second_result);
    }
}

// ---------------------------------------------------------------- 128 x 128, floats
//
// Steps of 8; a thread sums 8 x 8 elements.

// [8 inner indices][128 rows or columns, padded by 4].
var<workgroup> wide_left_tile: array<vec4<f32>, 264>;
var<workgroup> wide_right_tile: array<vec4<f32>, 264>;

// The row or column, and the inner index, within a step of a tile, that a thread reads in `load` 0
// to 3.
fn wide_line(lane: u32, load: u32, is_k_major: bool) -> u32 {
    return select(lane % 128u, lane / 8u + load * 32u, is_k_major);
}

fn wide_inner(lane: u32, load: u32, is_k_major: bool) -> u32 {
    return select(lane / 128u + load * 2u, lane % 8u, is_k_major);
}

fn put_wide_left(lane: u32, load: u32, value: f32) {
    let line = wide_line(lane, load, LEFT_K_MAJOR);
    wide_left_tile[wide_inner(lane, load, LEFT_K_MAJOR) * 33u + line / 4u][line % 4u] = value;
}

fn put_wide_right(lane: u32, load: u32, value: f32) {
    let line = wide_line(lane, load, RIGHT_K_MAJOR);
    wide_right_tile[wide_inner(lane, load, RIGHT_K_MAJOR) * 33u + line / 4u][line % 4u] = value;
}

fn wide_lines_of_loads(work: Work, lane: u32) -> LoadLines {
    var lines: LoadLines;
#repeat load 4
    lines.left_#{load} = left_line(work.row + wide_line(lane, #{load}u, LEFT_K_MAJOR));
    lines.right_#{load} = right_line(work.column + wide_line(lane, #{load}u, RIGHT_K_MAJOR));
#end
    return lines;
}

// Reads the step that begins at inner index `first`.
fn read_wide_values(lines: LoadLines, first: u32, end: u32, lane: u32) -> LoadValues {
    var values: LoadValues;
#repeat load 4
    values.left[#{load}] = left_within(lines.left_#{load}, first + wide_inner(lane, #{load}u, LEFT_K_MAJOR), end);
#end
#repeat load 4
    values.right[#{load}] = right_within(lines.right_#{load}, first + wide_inner(lane, #{load}u, RIGHT_K_MAJOR), end);
#end
    return values;
}

// Stores the values that a thread read in workgroup memory.
fn put_wide_values(values: LoadValues, lane: u32) {
#repeat load 4
    put_wide_left(lane, #{load}u, values.left[#{load}]);
#end
#repeat load 4
    put_wide_right(lane, #{load}u, values.right[#{load}]);
#end
}

// Adds the products of the step in workgroup memory to a thread's accumulators.
fn add_wide_tile_step(lane: u32) {
    let rows = lane / 16u;
    let columns = lane % 16u;
    for (var inner = 0u; inner < 8u; inner += 1u) {
        let a_0 = wide_left_tile[inner * 33u + rows];
        let a_1 = wide_left_tile[inner * 33u + rows + 16u];
        let b_0 = wide_right_tile[inner * 33u + columns];
        let b_1 = wide_right_tile[inner * 33u + columns + 16u];
#repeat row 8
        sums_#{row*2} += a_#{row/4}[#{row%4}] * b_0;
        sums_#{row*2+1} += a_#{row/4}[#{row%4}] * b_1;
#end
    }
}

// A thread's 8 x 8 sums as 32 pairs of columns: for each row, two near pairs and two far ones.
fn pair_of_sums(part: u32) -> vec2<f32> {
    let row = part / 4u;
    var near = select(select(sums_0, sums_2, row == 1u), select(sums_4, sums_6, row == 3u), row >= 2u);
    var far = select(select(sums_1, sums_3, row == 1u), select(sums_5, sums_7, row == 3u), row >= 2u);
    if (row >= 4u) {
        near = select(select(sums_8, sums_10, row == 5u), select(sums_12, sums_14, row == 7u), row >= 6u);
        far = select(select(sums_9, sums_11, row == 5u), select(sums_13, sums_15, row == 7u), row >= 6u);
    }
    let sums = select(near, far, (part & 2u) != 0u);
    return select(sums.xy, sums.zw, (part & 1u) != 0u);
}

// A thread computes the four rows from 4 (lane / 16) on, the four columns from 4 (lane % 16) on,
// and the four rows and columns 64 further.
fn tile_128(group: u32, lane: u32) {
    let work = work_of(group, 128u);
    let lines = wide_lines_of_loads(work, lane);
    var values = LoadValues();
    // Reads one step ahead: the first iteration only reads.
    var next_inner = work.begin;
    var summing = false;
    loop {
        if (summing) {
            put_wide_values(values, lane);
        }
        workgroupBarrier();
        let more = next_inner < work.end;
        if (more) {
            values = read_wide_values(lines, next_inner, work.end, lane);
            next_inner += 8u;
        }
        if (summing) {
            add_wide_tile_step(lane);
        }
        workgroupBarrier();
        if (!more) {
            break;
        }
        summing = true;
    }
    for (var part = 0u; part < 32u; part += 1u) {
        let row = part / 4u;
        let column = work.column + lane % 16u * 4u + (part & 2u) * 32u + (part & 1u) * 2u;
        store_within(work.row + lane / 16u * 4u + row % 4u + row / 4u * 64u, column, pair_of_sums(part));
    }
}

// ---------------------------------------------------------------- 16 x 16, any class
//
// One element per thread, steps of 16.

var<workgroup> left_square: array<C, 272>;
var<workgroup> right_square: array<C, 272>;

fn store_element(row: u32, column: u32, sum: C) {
    let element_index = index_of(row, column);
    y_put(element_index, apply_epilogue(row, column, element_index, sum));
}

fn tile_16(group: u32, lane: u32) {
    let work = work_of(group, 16u);
    let low = lane % 16u;
    let high = lane / 16u;
    let left_at = select(vec2<u32>(low, high), vec2<u32>(high, low), LEFT_K_MAJOR);
    let right_at = select(vec2<u32>(low, high), vec2<u32>(high, low), RIGHT_K_MAJOR);
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

// ---------------------------------------------------------------- partial sums

// A thread adds the partial sums of an element, which are stored in slot `a`:
// [splits][matrices][m][n].
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
