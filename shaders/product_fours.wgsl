// Tiles of matrix products (see product.wgsl) whose operands and result are read and written four elements at a time. A work group makes 128 x 128 of y.
//
//      right   k x n  |--|16|--|  128 columns          a step: 16 inner of 128 rows and 128 columns lie in work-group
//   left m x k  128 rows -> [ 128 x 128 of y ]         memory; a thread of 256 sums 8 x 8: 4 x 4 in each quarter
//
// fours_128        floats, summed by multiply-adds
// cooperative_128  f16, summed in f32 by cooperative matrices of 16 x 16 x 16: 4 subgroups of 32 threads, each 64 x 64 of y
//
// From a shader: begin(matrix, split); left_four_place(line, inner), right_four_place(line, inner), the number of a four;
// LEFT_FOUR(place) and RIGHT_FOUR(place), which read one; left_four_step(inner), right_four_step(inner), fours from one inner place to another; finished(row, column, place, sum), which is left out where the sum alone is stored (PLAIN). LEFT_RUNS and RIGHT_RUNS tell along which axis four elements lie: the inner one, or rows or
// columns. Limits: that axis is a multiple of 4 long, n is, and every four begins at a multiple of four elements.

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

// ---------------------------------------------------------------- f16, cooperative matrices

// Two steps: [128 lines][16 inner and 8 more] where four elements lie along the inner axis, [16 inner][128 lines and 8 more] where they do not.
var<workgroup> halves_left: array<vec4<f16>, 1536>;
var<workgroup> halves_right: array<vec4<f16>, 1536>;
// 16 x 16 sums of each subgroup.
var<workgroup> cooperative_sums: array<vec4<f32>, 256>;

// From a line, or an inner place, to the next in work-group memory, in fours.
fn halves_stride(runs: bool) -> u32 {
    return select(34u, 6u, runs);
}

// Where a step's four of this number lies there.
fn halves_place(number: u32, runs: bool) -> u32 {
    return select(number / 32u * 34u + number % 32u, number / 4u * 6u + number % 4u, runs);
}

// Where the matrix of 16 lines from `line` on lies there.
fn halves_matrix(line: u32, runs: bool) -> u32 {
    return select(line / 4u, line * 6u, runs);
}

fn cooperative_128(group: u32, lane: u32) {
    let work = work_of(group, 128u);
    let own_row = lane / 64u * 64u;
    let own_column = lane / 32u % 2u * 64u;
#repeat turn 4
    let left_inner_#{turn} = work.begin + four_inner(lane + #{turn*128}u, LEFT_RUNS);
    let left_line_#{turn} = line_within(work.row + four_line(lane + #{turn*128}u, LEFT_RUNS), params.m, LEFT_RUNS);
    var left_at_#{turn} = left_four_place(left_line_#{turn}, left_inner_#{turn});
    var left_#{turn} = vec4<f16>();
    let right_inner_#{turn} = work.begin + four_inner(lane + #{turn*128}u, RIGHT_RUNS);
    let right_line_#{turn} = line_within(work.column + four_line(lane + #{turn*128}u, RIGHT_RUNS), params.n, RIGHT_RUNS);
    var right_at_#{turn} = right_four_place(right_line_#{turn}, right_inner_#{turn});
    var right_#{turn} = vec4<f16>();
    if (left_inner_#{turn} < work.end) { left_#{turn} = LEFT_FOUR(left_at_#{turn}); }
    if (right_inner_#{turn} < work.end) { right_#{turn} = RIGHT_FOUR(right_at_#{turn}); }
#end
    let left_step = left_four_step(16u);
    let right_step = right_four_step(16u);
    let left_stride = halves_stride(LEFT_RUNS);
    let right_stride = halves_stride(RIGHT_RUNS);
#repeat part 16
    var sums_#{part}: coop_mat16x16<f32, SUM>;
#end
    // Steps take turns in the two halves of the memory: one barrier a step.
    var half = 0u;
    for (var done = 0u; work.begin + done < work.end; done += 16u) {
#repeat turn 4
        halves_left[half + halves_place(lane + #{turn*128}u, LEFT_RUNS)] = left_#{turn};
        halves_right[half + halves_place(lane + #{turn*128}u, RIGHT_RUNS)] = right_#{turn};
#end
        workgroupBarrier();
        // The next step is read while this one is summed. Beyond the end of the sum are zeros.
        let next = done + 16u;
#repeat turn 4
        left_at_#{turn} += left_step;
        right_at_#{turn} += right_step;
#end
        if (work.begin + next + 16u <= work.end) {
#repeat turn 4
            left_#{turn} = LEFT_FOUR(left_at_#{turn});
            right_#{turn} = RIGHT_FOUR(right_at_#{turn});
#end
        } else if (work.begin + next < work.end) {
#repeat turn 4
            left_#{turn} = vec4<f16>();
            if (left_inner_#{turn} + next < work.end) { left_#{turn} = LEFT_FOUR(left_at_#{turn}); }
            right_#{turn} = vec4<f16>();
            if (right_inner_#{turn} + next < work.end) { right_#{turn} = RIGHT_FOUR(right_at_#{turn}); }
#end
        }
#repeat i 4
        let a_place_#{i} = half + halves_matrix(own_row + #{i*16}u, LEFT_RUNS);
        let a_#{i} = LOAD_LEFT<coop_mat16x16<f16, A>>(&halves_left[a_place_#{i}], left_stride);
#end
#repeat j 4
        let b_place_#{j} = half + halves_matrix(own_column + #{j*16}u, RIGHT_RUNS);
        let b_#{j} = LOAD_RIGHT<coop_mat16x16<f16, B>>(&halves_right[b_place_#{j}], right_stride);
#repeat i 4
        sums_#{i*4+j} = coopMultiplyAdd(a_#{i}, b_#{j}, sums_#{i*4+j});
#end
#end
        half = 768u - half;
    }
    let own = lane / 32u * 64u;
    let stride = 4u;
    let row = work.row + own_row + lane % 32u / 2u;
    let column = work.column + own_column + lane % 2u * 8u;
    let place = own + lane % 32u * 2u;
    // Not in a loop: matrices that are chosen by a number are not kept in registers.
#repeat part 16
    workgroupBarrier();
    coopStoreT(sums_#{part}, &cooperative_sums[own], stride);
    workgroupBarrier();
    store_four(row + #{part/4*16}u, column + #{part%4*16}u, cooperative_sums[place]);
    store_four(row + #{part/4*16}u, column + #{part%4*16+4}u, cooperative_sums[place + 1u]);
#end
}
