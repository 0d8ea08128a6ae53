// Tiles of matrix products (see tile.wgsl) whose operands and result are read and written four elements at a time. A work group of 2 VEC4S_COLUMNS
// threads makes 128 x VEC4S_COLUMNS (128 or 64) of y.
//
//      right   k x n  |--|16|--|  128 columns          a step: 16 inner of 128 rows and 128 columns lie in work-group
//   left m x k  128 rows -> [ 128 x 128 of y ]         memory; a thread of 256 sums 8 x 8: 4 x 4 in each quarter
//
// sum_vec4s adds a part of the sums to what each thread holds; tile_vec4_128 makes a whole tile of matmul.wgsl. From a shader: left_vec4_index(line, inner),
// right_vec4_index(line, inner), the number of a four; LEFT_VEC4(index) and RIGHT_VEC4(index), which read one; left_vec4_step(inner),
// right_vec4_step(inner), vec4s from one inner index to another; params.m and params.n, lines of both operands: those beyond are read as the last.
// LEFT_RUNS and RIGHT_RUNS tell along which axis four elements lie: the inner one, or rows or columns. LEFT_SCALED: the left operand is multiplied with
// LEFT_FACTOR(line, known), one number for 128 inner, where known is what LEFT_KNOWN(line, inner) read ahead; sums begin at multiples of 128 then.
// tile_vec4_128 also takes begin(matrix, split) and finished(row, column, index, sum), which is left out where the sum alone is stored (PLAIN).
// Limits: the axis along which vec4s lie is a multiple of 4 long, n of tile_vec4_128 is, and every four begins at a multiple of four elements.

// ---------------------------------------------------------------- floats

// [16 inner][128 lines and 4 more, so that threads along the inner axis write to different banks].
var<workgroup> vec4s_left: array<vec4<f32>, 528>;
var<workgroup> vec4s_right: array<vec4<f32>, 528>;

// Lines beyond an edge are read as the last ones, and not stored.
fn line_within(line: u32, count: u32, runs: bool) -> u32 {
    return min(line, count - select(4u, 1u, runs));
}

// The first line and the first inner index of a step's four of this number, of an operand so many vec4s wide.
fn vec4_line(number: u32, across: u32, runs: bool) -> u32 {
    return select(number % across * 4u, number / 4u, runs);
}

fn vec4_inner(number: u32, across: u32, runs: bool) -> u32 {
    return select(number / across, number % 4u * 4u, runs);
}

fn put_left_vec4(number: u32, value: vec4<f32>) {
    let line = vec4_line(number, 32u, LEFT_RUNS);
    let first_inner = vec4_inner(number, 32u, LEFT_RUNS);
    if (LEFT_RUNS) {
#repeat i 4
        vec4s_left[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        vec4s_left[first_inner * 33u + line / 4u] = value;
    }
}

fn put_right_vec4(number: u32, value: vec4<f32>) {
    let line = vec4_line(number, VEC4S_COLUMNS / 4u, RIGHT_RUNS);
    let first_inner = vec4_inner(number, VEC4S_COLUMNS / 4u, RIGHT_RUNS);
    if (RIGHT_RUNS) {
#repeat i 4
        vec4s_right[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        vec4s_right[first_inner * 33u + line / 4u] = value;
    }
}

// Rows of a thread are 4 vec4s_row and the three after, and those 64 further; columns likewise, and those VEC4S_COLUMNS / 2 further. The 32 threads of a
// subgroup lie 4 x 8: they read 4 different vec4s of the left tile, and 8 of the right.
fn vec4s_row(lane: u32) -> u32 {
    return lane % 32u / 8u + lane / (VEC4S_COLUMNS / 2u) * 4u;
}

fn vec4s_column(lane: u32) -> u32 {
    return lane % 8u + lane / 32u % (VEC4S_COLUMNS / 64u) * 8u;
}

// What no left operand is scaled with.
fn nothing_known(line: u32, inner: u32) -> f32 { return 0.0; }
fn no_factor(line: u32, known: f32) -> f32 { return 1.0; }

// Threads of a work group; of a step's 512 vec4s of the left operand and 4 VEC4S_COLUMNS of the right one each reads one at each of its turns.
const VEC4S_THREADS: u32 = 2u * VEC4S_COLUMNS;

// What a thread reads ahead of the left operand, turn by turn: the vec4 itself, its number, and the inner index that it has in the first step. Of
// scaled operands also the line that the factor is of, what is known of it, and the factor.
#repeat turn 4
var<private> next_left_vec4_#{turn}: vec4<f32>;
var<private> left_vec4_at_#{turn}: u32;
var<private> left_vec4_inner_#{turn}: u32;
var<private> left_vec4_line_#{turn}: u32;
var<private> left_known_#{turn}: f32;
var<private> left_factor_#{turn}: f32;
#end
// The same of the right operand.
#repeat turn 2
var<private> next_right_vec4_#{turn}: vec4<f32>;
var<private> right_vec4_at_#{turn}: u32;
var<private> right_vec4_inner_#{turn}: u32;
#end

// Reads the first step of the left operand. Of tiles of 64 columns a thread has 4 turns, else 2.
fn begin_left_vec4s(work: Work, lane: u32) {
#repeat turn 4
    let number_#{turn} = lane + #{turn}u * VEC4S_THREADS;
    left_vec4_inner_#{turn} = work.begin + vec4_inner(number_#{turn}, 32u, LEFT_RUNS);
    left_vec4_line_#{turn} = line_within(work.row + vec4_line(number_#{turn}, 32u, LEFT_RUNS), params.m, LEFT_RUNS);
    left_vec4_at_#{turn} = left_vec4_index(left_vec4_line_#{turn}, left_vec4_inner_#{turn});
    next_left_vec4_#{turn} = vec4<f32>();
    left_known_#{turn} = 0.0;
    left_factor_#{turn} = 1.0;
    if (#{turn}u * VEC4S_THREADS < 512u) {
        if (left_vec4_inner_#{turn} < work.end) { next_left_vec4_#{turn} = LEFT_VEC4(left_vec4_at_#{turn}); }
        if (LEFT_SCALED && work.begin < work.end) { left_known_#{turn} = LEFT_KNOWN(left_vec4_line_#{turn}, work.begin); }
    }
#end
}

// Reads the first step of the right operand.
fn begin_right_vec4s(work: Work, lane: u32) {
#repeat turn 2
    let number_#{turn} = lane + #{turn}u * VEC4S_THREADS;
    right_vec4_inner_#{turn} = work.begin + vec4_inner(number_#{turn}, VEC4S_COLUMNS / 4u, RIGHT_RUNS);
    let line_#{turn} = line_within(work.column + vec4_line(number_#{turn}, VEC4S_COLUMNS / 4u, RIGHT_RUNS), params.n, RIGHT_RUNS);
    right_vec4_at_#{turn} = right_vec4_index(line_#{turn}, right_vec4_inner_#{turn});
    next_right_vec4_#{turn} = vec4<f32>();
    if (right_vec4_inner_#{turn} < work.end) { next_right_vec4_#{turn} = RIGHT_VEC4(right_vec4_at_#{turn}); }
#end
}

// The factors of the next 128 inner indices, of what was read ahead for them.
fn make_left_factors() {
#repeat turn 4
    if (#{turn}u * VEC4S_THREADS < 512u) { left_factor_#{turn} = LEFT_FACTOR(left_vec4_line_#{turn}, left_known_#{turn}); }
#end
}

// What a thread read for a step, to where all threads see it.
fn put_vec4s(lane: u32) {
#repeat turn 4
    if (#{turn}u * VEC4S_THREADS < 512u) {
        if (LEFT_SCALED) {
            put_left_vec4(lane + #{turn}u * VEC4S_THREADS, next_left_vec4_#{turn} * left_factor_#{turn});
        } else {
            put_left_vec4(lane + #{turn}u * VEC4S_THREADS, next_left_vec4_#{turn});
        }
    }
#end
#repeat turn 2
    put_right_vec4(lane + #{turn}u * VEC4S_THREADS, next_right_vec4_#{turn});
#end
}

// Reads the step that lies `next` inner indices behind the first one. Beyond the end of the sum are zeros.
fn read_vec4s(work: Work, next: u32) {
#repeat turn 4
    left_vec4_at_#{turn} += left_vec4_step(16u);
#end
#repeat turn 2
    right_vec4_at_#{turn} += right_vec4_step(16u);
#end
    if (work.begin + next + 16u <= work.end) {
#repeat turn 4
        if (#{turn}u * VEC4S_THREADS < 512u) { next_left_vec4_#{turn} = LEFT_VEC4(left_vec4_at_#{turn}); }
#end
#repeat turn 2
        next_right_vec4_#{turn} = RIGHT_VEC4(right_vec4_at_#{turn});
#end
    } else if (work.begin + next < work.end) {
#repeat turn 4
        next_left_vec4_#{turn} = vec4<f32>();
        if (#{turn}u * VEC4S_THREADS < 512u && left_vec4_inner_#{turn} + next < work.end) { next_left_vec4_#{turn} = LEFT_VEC4(left_vec4_at_#{turn}); }
#end
#repeat turn 2
        next_right_vec4_#{turn} = vec4<f32>();
        if (right_vec4_inner_#{turn} + next < work.end) { next_right_vec4_#{turn} = RIGHT_VEC4(right_vec4_at_#{turn}); }
#end
    }
    if (LEFT_SCALED && next % 128u == 0u && work.begin + next < work.end) {
#repeat turn 4
        if (#{turn}u * VEC4S_THREADS < 512u) { left_known_#{turn} = LEFT_KNOWN(left_vec4_line_#{turn}, work.begin + next); }
#end
    }
}

// Adds the products of the step that lies in work-group memory to a thread's sums.
fn add_vec4s_step(lane: u32) {
    let rows = vec4s_row(lane);
    let columns = vec4s_column(lane);
#repeat inner 16
    {
        let a_0 = vec4s_left[#{inner*33}u + rows];
        let a_1 = vec4s_left[#{inner*33+16}u + rows];
        let b_0 = vec4s_right[#{inner*33}u + columns];
        let b_1 = vec4s_right[#{inner*33}u + VEC4S_COLUMNS / 8u + columns];
#repeat row 8
        sums_#{row*2} += a_#{row/4}[#{row%4}] * b_0;
        sums_#{row*2+1} += a_#{row/4}[#{row%4}] * b_1;
#end
    }
#end
}

// Adds a part of the sums, step by step: the next step is read while one is summed.
fn sum_vec4s(work: Work, lane: u32) {
    begin_left_vec4s(work, lane);
    begin_right_vec4s(work, lane);
    for (var done = 0u; work.begin + done < work.end; done += 16u) {
        if (LEFT_SCALED && done % 128u == 0u) {
            make_left_factors();
        }
        put_vec4s(lane);
        workgroupBarrier();
        read_vec4s(work, done + 16u);
        add_vec4s_step(lane);
        workgroupBarrier();
    }
}

fn tile_vec4_128(group: u32, lane: u32) {
    let work = work_of(group, 128u);
    sum_vec4s(work, lane);
    let row = work.row + vec4s_row(lane) * 4u;
    let column = work.column + vec4s_column(lane) * 4u;
    if (PLAIN) {
#repeat part 16
        store_vec4(row + #{part/2%4+part/8*64}u, column + #{part%2*64}u, sums_#{part});
#end
        return;
    }
    // One index in the text for all elements: what follows a sum may be long.
    for (var part = 0u; part < 16u; part += 1u) {
        var sums = vec4<f32>();
        switch (part) {
#repeat part 16
            case #{part}u: { sums = sums_#{part}; }
#end
            default: {}
        }
        store_vec4(row + part / 2u % 4u + part / 8u * 64u, column + part % 2u * 64u, sums);
    }
}

// Four columns of a row, unless they lie beyond an edge.
fn store_vec4(row: u32, column: u32, sums: vec4<f32>) {
    if (row < params.m && column < params.n) {
        let element_index = index_of(row, column);
        if (PLAIN) {
            y_put_vec4(element_index / 4u, sums);
            return;
        }
#repeat i 4
        let value_#{i} = finished(row, column + #{i}u, element_index + #{i}u, sums[#{i}]);
#end
        y_put_vec4(element_index / 4u, vec4<f32>(value_0, value_1, value_2, value_3));
    }
}

// ---------------------------------------------------------------- the parts of sums that matmul_cooperative.wgsl left

// A thread adds the parts of four elements, which lie in slot `a`: [splits][matrices][params.left_runs][params.right_runs].
fn sum_padded_parts(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.count / 4u) {
        let across = params.n / 4u;
        let column = number % across * 4u;
        let row = number / across % params.m;
        let matrix = number / across / params.m;
        let first = ((matrix * params.left_runs + row) * params.right_runs + column) / 4u;
        var sums = vec4<f32>();
        for (var split = 0u; split < params.splits; split += 1u) {
            sums += a_vec4(split * (params.split_stride / 4u) + first);
        }
        begin(matrix, 0u);
        store_vec4(row, column, sums);
    }
}
