// Tiles of matrix products (see tile.wgsl) whose operands and result are accessed as vec4. A
// workgroup of 2 VEC4S_COLUMNS threads computes 128 x VEC4S_COLUMNS (128 or 64) of y.
//
//      right   k x n  |--|16|--|  128 columns        a step: 16 inner indices of 128 rows and 128
//   left m x k  128 rows -> [ 128 x 128 of y ]       columns are in workgroup memory; each of 256
//                                                    threads sums 8 x 8: 4 x 4 in each quarter
//
// sum_vec4s adds a part of the sums to a thread's accumulators; tile_vec4_128 computes a whole tile
// of matmul.wgsl. The shader provides left_vec4_index(line, inner) and right_vec4_index(line,
// inner), the index of a vec4; LEFT_VEC4(index) and RIGHT_VEC4(index), which read a vec4;
// left_vec4_step(inner) and right_vec4_step(inner), the distance between inner indices in vec4; and
// params.m and params.n, the number of rows and columns. Rows and columns beyond an edge are read
// as the last ones.
//
// LEFT_K_MAJOR and RIGHT_K_MAJOR determine along which axis a vec4 is contiguous: the inner axis,
// or rows or columns. LEFT_SCALED: the left operand is multiplied by LEFT_FACTOR(line, prefetched),
// one number for 128 inner indices, where `prefetched` was read ahead by LEFT_PREFETCH(line,
// inner); sums then begin at multiples of 128. tile_vec4_128 also uses begin(matrix, split) and
// apply_epilogue(row, column, index, sum), which is left out if only the sum is stored (PLAIN).
// Limits: the size of the axis along which vec4 are contiguous is a multiple of 4, and so is n for
// tile_vec4_128; every vec4 begins at a multiple of four elements.

// ---------------------------------------------------------------- floats

// [16 inner indices][128 rows or columns, padded by 4, so that threads along the inner axis write
// to different banks].
var<workgroup> vec4s_left: array<vec4<f32>, 528>;
var<workgroup> vec4s_right: array<vec4<f32>, 528>;

// Rows and columns beyond an edge are read as the last ones, and not stored.
fn line_within(line: u32, count: u32, is_k_major: bool) -> u32 {
    return min(line, count - select(4u, 1u, is_k_major));
}

// The first row or column, and the first inner index, of the vec4 `number` of a step, for an
// operand that is `across` vec4 wide.
fn vec4_line(number: u32, across: u32, is_k_major: bool) -> u32 {
    return select(number % across * 4u, number / 4u, is_k_major);
}

fn vec4_inner(number: u32, across: u32, is_k_major: bool) -> u32 {
    return select(number / across, number % 4u * 4u, is_k_major);
}

fn put_left_vec4(number: u32, value: vec4<f32>) {
    let line = vec4_line(number, 32u, LEFT_K_MAJOR);
    let first_inner = vec4_inner(number, 32u, LEFT_K_MAJOR);
    if (LEFT_K_MAJOR) {
#repeat i 4
        vec4s_left[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        vec4s_left[first_inner * 33u + line / 4u] = value;
    }
}

fn put_right_vec4(number: u32, value: vec4<f32>) {
    let line = vec4_line(number, VEC4S_COLUMNS / 4u, RIGHT_K_MAJOR);
    let first_inner = vec4_inner(number, VEC4S_COLUMNS / 4u, RIGHT_K_MAJOR);
    if (RIGHT_K_MAJOR) {
#repeat i 4
        vec4s_right[(first_inner + #{i}u) * 33u + line / 4u][line % 4u] = value[#{i}];
#end
    } else {
        vec4s_right[first_inner * 33u + line / 4u] = value;
    }
}

// A thread computes the four rows from 4 vec4s_row on, the four rows 64 further, the four columns
// from 4 vec4s_column on, and the four columns VEC4S_COLUMNS / 2 further. The 32 threads of a
// subgroup are arranged 4 x 8: they read 4 different vec4 of the left tile, and 8 of the right one.
fn vec4s_row(lane: u32) -> u32 {
    return lane % 32u / 8u + lane / (VEC4S_COLUMNS / 2u) * 4u;
}

fn vec4s_column(lane: u32) -> u32 {
    return lane % 8u + lane / 32u % (VEC4S_COLUMNS / 64u) * 8u;
}

// LEFT_PREFETCH of a left operand that is not scaled.
fn no_prefetch(line: u32, inner: u32) -> f32 { return 0.0; }
fn no_factor(line: u32, prefetched: f32) -> f32 { return 1.0; }

// Number of threads of a workgroup. A step has 512 vec4 of the left operand and 4 VEC4S_COLUMNS of
// the right one, and a thread reads one in each load.
const VEC4S_THREADS: u32 = 2u * VEC4S_COLUMNS;

// What a thread reads ahead of the left operand in each load: the vec4, its index, and its inner
// index in the first step. For a scaled operand also the row of its factor, the value that
// LEFT_PREFETCH read, and the factor.
#repeat load 4
var<private> next_left_vec4_#{load}: vec4<f32>;
var<private> left_vec4_at_#{load}: u32;
var<private> left_vec4_inner_#{load}: u32;
var<private> left_vec4_line_#{load}: u32;
var<private> left_prefetched_#{load}: f32;
var<private> left_factor_#{load}: f32;
#end
// What a thread reads ahead of the right operand in each load.
#repeat load 2
var<private> next_right_vec4_#{load}: vec4<f32>;
var<private> right_vec4_at_#{load}: u32;
var<private> right_vec4_inner_#{load}: u32;
#end

// Reads the first step of the left operand. With tiles of 64 columns a thread has 4 loads,
// otherwise 2.
fn prefetch_left_vec4s(work: Work, lane: u32) {
#repeat load 4
    let number_#{load} = lane + #{load}u * VEC4S_THREADS;
    left_vec4_inner_#{load} = work.begin + vec4_inner(number_#{load}, 32u, LEFT_K_MAJOR);
    left_vec4_line_#{load} = line_within(work.row + vec4_line(number_#{load}, 32u, LEFT_K_MAJOR), params.m, LEFT_K_MAJOR);
    left_vec4_at_#{load} = left_vec4_index(left_vec4_line_#{load}, left_vec4_inner_#{load});
    next_left_vec4_#{load} = vec4<f32>();
    left_prefetched_#{load} = 0.0;
    left_factor_#{load} = 1.0;
    if (#{load}u * VEC4S_THREADS < 512u) {
        if (left_vec4_inner_#{load} < work.end) { next_left_vec4_#{load} = LEFT_VEC4(left_vec4_at_#{load}); }
        if (LEFT_SCALED && work.begin < work.end) { left_prefetched_#{load} = LEFT_PREFETCH(left_vec4_line_#{load}, work.begin); }
    }
#end
}

// Reads the first step of the right operand.
fn prefetch_right_vec4s(work: Work, lane: u32) {
#repeat load 2
    let number_#{load} = lane + #{load}u * VEC4S_THREADS;
    right_vec4_inner_#{load} = work.begin + vec4_inner(number_#{load}, VEC4S_COLUMNS / 4u, RIGHT_K_MAJOR);
    let line_#{load} = line_within(work.column + vec4_line(number_#{load}, VEC4S_COLUMNS / 4u, RIGHT_K_MAJOR), params.n, RIGHT_K_MAJOR);
    right_vec4_at_#{load} = right_vec4_index(line_#{load}, right_vec4_inner_#{load});
    next_right_vec4_#{load} = vec4<f32>();
    if (right_vec4_inner_#{load} < work.end) { next_right_vec4_#{load} = RIGHT_VEC4(right_vec4_at_#{load}); }
#end
}

// Computes the factors of the next 128 inner indices from the values that LEFT_PREFETCH read.
fn make_left_factors() {
#repeat load 4
    if (#{load}u * VEC4S_THREADS < 512u) { left_factor_#{load} = LEFT_FACTOR(left_vec4_line_#{load}, left_prefetched_#{load}); }
#end
}

// Stores the values that a thread read for a step in workgroup memory.
fn put_vec4s(lane: u32) {
#repeat load 4
    if (#{load}u * VEC4S_THREADS < 512u) {
        if (LEFT_SCALED) {
            put_left_vec4(lane + #{load}u * VEC4S_THREADS, next_left_vec4_#{load} * left_factor_#{load});
        } else {
            put_left_vec4(lane + #{load}u * VEC4S_THREADS, next_left_vec4_#{load});
        }
    }
#end
#repeat load 2
    put_right_vec4(lane + #{load}u * VEC4S_THREADS, next_right_vec4_#{load});
#end
}

// Reads the step that is `next` inner indices after the first one. Values beyond the end of the sum
// are zero.
fn read_vec4s(work: Work, next: u32) {
#repeat load 4
    left_vec4_at_#{load} += left_vec4_step(16u);
#end
#repeat load 2
    right_vec4_at_#{load} += right_vec4_step(16u);
#end
    if (work.begin + next + 16u <= work.end) {
#repeat load 4
        if (#{load}u * VEC4S_THREADS < 512u) { next_left_vec4_#{load} = LEFT_VEC4(left_vec4_at_#{load}); }
#end
#repeat load 2
        next_right_vec4_#{load} = RIGHT_VEC4(right_vec4_at_#{load});
#end
    } else if (work.begin + next < work.end) {
#repeat load 4
        next_left_vec4_#{load} = vec4<f32>();
        if (#{load}u * VEC4S_THREADS < 512u && left_vec4_inner_#{load} + next < work.end) { next_left_vec4_#{load} = LEFT_VEC4(left_vec4_at_#{load}); }
#end
#repeat load 2
        next_right_vec4_#{load} = vec4<f32>();
        if (right_vec4_inner_#{load} + next < work.end) { next_right_vec4_#{load} = RIGHT_VEC4(right_vec4_at_#{load}); }
#end
    }
    if (LEFT_SCALED && next % 128u == 0u && work.begin + next < work.end) {
#repeat load 4
        if (#{load}u * VEC4S_THREADS < 512u) { left_prefetched_#{load} = LEFT_PREFETCH(left_vec4_line_#{load}, work.begin + next); }
#end
    }
}

// Adds the products of the step in workgroup memory to a thread's accumulators.
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

// Computes a part of the sums, step by step: the next step is read while the current one is summed.
fn sum_vec4s(work: Work, lane: u32) {
    prefetch_left_vec4s(work, lane);
    prefetch_right_vec4s(work, lane);
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
    // The code after the sum may be long, so it exists only once for all elements.
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

// Stores four columns of a row, unless they are beyond an edge.
fn store_vec4(row: u32, column: u32, sums: vec4<f32>) {
    if (row < params.m && column < params.n) {
        let element_index = index_of(row, column);
        if (PLAIN) {
            y_put_vec4(element_index / 4u, sums);
            return;
        }
#repeat i 4
        let value_#{i} = apply_epilogue(row, column + #{i}u, element_index + #{i}u, sums[#{i}]);
#end
        y_put_vec4(element_index / 4u, vec4<f32>(value_0, value_1, value_2, value_3));
    }
}

// ---------------------------------------------------------------- sums of matmul_cooperative.wgsl

// A thread adds the partial sums of a vec4, which are stored in slot `a`:
// [splits][matrices][params.left_layout][params.right_layout].
fn sum_padded_parts(group: u32, lane: u32) {
    let number = group * 256u + lane;
    if (number < params.count / 4u) {
        let across = params.n / 4u;
        let column = number % across * 4u;
        let row = number / across % params.m;
        let matrix = number / across / params.m;
        let first = ((matrix * params.left_layout + row) * params.right_layout + column) / 4u;
        var sums = vec4<f32>();
        for (var split = 0u; split < params.splits; split += 1u) {
            sums += a_vec4(split * (params.split_stride / 4u) + first);
        }
        begin(matrix, 0u);
        store_vec4(row, column, sums);
    }
}
