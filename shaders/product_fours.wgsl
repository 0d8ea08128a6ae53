// Tiles of matrix products (see product.wgsl) whose operands and result are read and written four elements at a time. A work group makes 128 x 128 of y.
//
//      right   k x n  |--|16|--|  128 columns          a step: 16 inner of 128 rows and 128 columns lie in work-group
//   left m x k  128 rows -> [ 128 x 128 of y ]         memory; a thread of 256 sums 8 x 8: 4 x 4 in each quarter
//
// From a shader: begin(matrix, split); left_four_place(line, inner), right_four_place(line, inner), the number of a four;
// LEFT_FOUR(place) and RIGHT_FOUR(place), which read one; left_four_step(inner), right_four_step(inner), fours from one inner place to another;
// finished(row, column, place, sum), which is left out where the sum alone is stored (PLAIN). LEFT_RUNS and RIGHT_RUNS tell along which axis four
// elements lie: the inner one, or rows or columns. Limits: that axis is a multiple of 4 long, n is, and every four begins at a multiple of four elements.

// ---------------------------------------------------------------- floats

// [16 inner][128 lines and 4 more, so that threads along the inner axis write to different banks].
var<workgroup> fours_left: array<vec4<f32>, 528>;
var<workgroup> fours_right: array<vec4<f32>, 528>;

// Lines beyond an edge are read as the last ones, and not stored.
fn line_within(line: u32, count: u32, runs: bool) -> u32 {
    return min(line, count - select(4u, 1u, runs));
}

// The first line and the first inner place of a step's four of this number.
fn four_line(number: u32, runs: bool) -> u32 {
    return select(number % 32u * 4u, number / 4u, runs);
}

fn four_inner(number: u32, runs: bool) -> u32 {
    return select(number / 32u, number % 4u * 4u, runs);
}

fn put_left_four(number: u32, value: vec4<f32>) {
    let line = four_line(number, LEFT_RUNS);
    let first_inner = four_inner(number, LEFT_RUNS);
    if (LEFT_RUNS) {
#repeat i 4
        fours_left[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        fours_left[first_inner * 33u + line / 4u] = value;
    }
}

fn put_right_four(number: u32, value: vec4<f32>) {
    let line = four_line(number, RIGHT_RUNS);
    let first_inner = four_inner(number, RIGHT_RUNS);
    if (RIGHT_RUNS) {
#repeat i 4
        fours_right[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        fours_right[first_inner * 33u + line / 4u] = value;
    }
}

fn fours_128(group: u32, lane: u32) {
    let work = work_of(group, 128u);
    // Rows of a thread are 4 rows and the three after, and those 64 further; columns likewise. The 32 threads of a subgroup lie 4 x 8: they read 4
    // different fours of the left tile, and 8 of the right.
    let rows = lane % 32u / 8u + lane / 64u * 4u;
    let columns = lane % 8u + lane / 32u % 2u * 8u;
#repeat turn 2
    let left_inner_#{turn} = work.begin + four_inner(lane + #{turn*256}u, LEFT_RUNS);
    let left_line_#{turn} = line_within(work.row + four_line(lane + #{turn*256}u, LEFT_RUNS), params.m, LEFT_RUNS);
    var left_at_#{turn} = left_four_place(left_line_#{turn}, left_inner_#{turn});
    var left_#{turn} = vec4<f32>();
    let right_inner_#{turn} = work.begin + four_inner(lane + #{turn*256}u, RIGHT_RUNS);
    let right_line_#{turn} = line_within(work.column + four_line(lane + #{turn*256}u, RIGHT_RUNS), params.n, RIGHT_RUNS);
    var right_at_#{turn} = right_four_place(right_line_#{turn}, right_inner_#{turn});
    var right_#{turn} = vec4<f32>();
    if (left_inner_#{turn} < work.end) { left_#{turn} = LEFT_FOUR(left_at_#{turn}); }
    if (right_inner_#{turn} < work.end) { right_#{turn} = RIGHT_FOUR(right_at_#{turn}); }
#end
    let left_step = left_four_step(16u);
    let right_step = right_four_step(16u);
#repeat part 16
    var sums_#{part} = vec4<f32>();
#end
    for (var done = 0u; work.begin + done < work.end; done += 16u) {
#repeat turn 2
        put_left_four(lane + #{turn*256}u, left_#{turn});
        put_right_four(lane + #{turn*256}u, right_#{turn});
#end
        workgroupBarrier();
        // The next step is read while this one is summed. Beyond the end of the sum are zeros.
        let next = done + 16u;
#repeat turn 2
        left_at_#{turn} += left_step;
        right_at_#{turn} += right_step;
#end
        if (work.begin + next + 16u <= work.end) {
#repeat turn 2
            left_#{turn} = LEFT_FOUR(left_at_#{turn});
            right_#{turn} = RIGHT_FOUR(right_at_#{turn});
#end
        } else if (work.begin + next < work.end) {
#repeat turn 2
            left_#{turn} = vec4<f32>();
            if (left_inner_#{turn} + next < work.end) { left_#{turn} = LEFT_FOUR(left_at_#{turn}); }
            right_#{turn} = vec4<f32>();
            if (right_inner_#{turn} + next < work.end) { right_#{turn} = RIGHT_FOUR(right_at_#{turn}); }
#end
        }
#repeat inner 16
        {
            let a_0 = fours_left[#{inner*33}u + rows];
            let a_1 = fours_left[#{inner*33+16}u + rows];
            let b_0 = fours_right[#{inner*33}u + columns];
            let b_1 = fours_right[#{inner*33+16}u + columns];
#repeat row 8
            sums_#{row*2} += a_#{row/4}[#{row%4}] * b_0;
            sums_#{row*2+1} += a_#{row/4}[#{row%4}] * b_1;
#end
        }
#end
        workgroupBarrier();
    }
    if (PLAIN) {
#repeat part 16
        store_four(work.row + rows * 4u + #{part/2%4+part/8*64}u, work.column + columns * 4u + #{part%2*64}u, sums_#{part});
#end
        return;
    }
    // One place in the text for all elements: what follows a sum may be long.
    for (var part = 0u; part < 16u; part += 1u) {
        var sums = vec4<f32>();
        switch (part) {
#repeat part 16
            case #{part}u: { sums = sums_#{part}; }
#end
            default: {}
        }
        let row = work.row + rows * 4u + part / 2u % 4u + part / 8u * 64u;
        store_four(row, work.column + columns * 4u + part % 2u * 64u, sums);
    }
}

// Four columns of a row, unless they lie beyond an edge.
fn store_four(row: u32, column: u32, sums: vec4<f32>) {
    if (row < params.m && column < params.n) {
        let place = place_of(row, column);
        if (PLAIN) {
            y_put_four(place / 4u, sums);
            return;
        }
#repeat i 4
        let value_#{i} = finished(row, column + #{i}u, place + #{i}u, sums[#{i}]);
#end
        y_put_four(place / 4u, vec4<f32>(value_0, value_1, value_2, value_3));
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
            sums += a_four(split * (params.split_stride / 4u) + first);
        }
        begin(matrix, 0u);
        store_four(row, column, sums);
    }
}
