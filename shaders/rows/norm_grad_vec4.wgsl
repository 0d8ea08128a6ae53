// The gradient of layer and RMS normalization, and those of weight and bias, in one pass over the
// inputs, if rows can be read as vec4 (row_vec4.wgsl); formulas in norm.wgsl, parameters in
// row.wgsl.
//
//   x, d, y   [rows, length]: input, gradient of the output, gradient of the input
//   parts     [teams, length] pairs: a team's sums of d and of d * n in each column; a second
//             launch adds them
//
// A team of MEMBERS threads loops over rows. Each thread keeps the weights of its columns, and
// their sums over all rows, in registers. It reads the next row before the threads synchronize for
// the sums of the current one, so that memory stays busy:
//
//      team 0: row 0, row T, row 2 T, ..
//      team 1: row 1, row T + 1, ..
//
// Limits: length is a multiple of 4, and at most 4 * MEMBERS * PER_THREAD.

// What a thread holds: for its columns (vec4 k of the row), the weights and the sums over all rows;
// for the current row and the next one, x and d.
#repeat k PER_THREAD
var<private> weight_#{k}: vec4<f32>;
var<private> weight_sum_#{k}: vec4<f32>;
var<private> bias_sum_#{k}: vec4<f32>;
var<private> x_#{k}: x_WORDS;
var<private> d_#{k}: d_WORDS;
var<private> next_x_#{k}: x_WORDS;
var<private> next_d_#{k}: d_WORDS;
#end

// Whether this vec4 is part of a row.
fn is_in_row(quad: u32) -> bool {
    return EXACT || quad < params.length / 4u;
}

fn read_weights(member: u32) {
#repeat k PER_THREAD
    weight_#{k} = vec4<f32>(1.0);
    if (is_in_row(member + #{k}u * MEMBERS)) {
        weight_#{k} = WEIGHTS(member + #{k}u * MEMBERS);
    }
#end
}

// Reads a row ahead, and its statistics: mean and reciprocal standard deviation. Beyond the last
// row everything is 0.
fn read_row(row: u32, member: u32) -> vec2<f32> {
    var statistics = vec2<f32>();
    let first_x = strided_index(1u, row) / 4u + member;
    let first_d = strided_index(2u, row) / 4u + member;
    if (row < params.rows) {
        statistics = SAVED(row);
    }
#repeat k PER_THREAD
    next_x_#{k} = x_WORDS();
    next_d_#{k} = d_WORDS();
    if (is_in_row(member + #{k}u * MEMBERS) && row < params.rows) {
        next_x_#{k} = x_words(first_x + #{k}u * MEMBERS);
        next_d_#{k} = d_words(first_d + #{k}u * MEMBERS);
    }
#end
    return statistics;
}

// Makes the row that was read ahead the current one.
fn take_row() {
#repeat k PER_THREAD
    x_#{k} = next_x_#{k};
    d_#{k} = next_d_#{k};
#end
}

// Adds the row to the sums of columns. Returns a thread's parts of the sums of g = d * weight and
// of g * n.
fn add_row(statistics: vec2<f32>) -> vec2<f32> {
    var sum = vec4<f32>();
    var sum_along = vec4<f32>();
#repeat k PER_THREAD
    {
        let n = (VEC4_OF(x_#{k}) - statistics.x) * statistics.y;
        let d = VEC4_OF(d_#{k});
        let g = d * weight_#{k};
        weight_sum_#{k} += d * n;
        bias_sum_#{k} += d;
        sum += g;
        sum_along += g * n;
    }
#end
    return vec2<f32>(sum_of_vec4(sum), sum_of_vec4(sum_along));
}

// Stores r * (g - mean(g) - n * mean(g * n)), as (x - mean) * x_factor + g * r + constant_term,
// which saves two operations per element.
fn put_row(row: u32, member: u32, statistics: vec2<f32>, sums: vec2<f32>) {
    let x_factor = -(statistics.y * statistics.y) * (sums.y * norm_inverse_length());
    let constant_term = -statistics.y * CENTER(sums.x);
    let element_index = strided_index(0u, row) / 4u + member;
#repeat k PER_THREAD
    if (is_in_row(member + #{k}u * MEMBERS)) {
        let g = VEC4_OF(HIDDEN(d_#{k})) * weight_#{k};
        let x = VEC4_OF(HIDDEN(x_#{k})) - statistics.x;
        let grads = fma(x, vec4<f32>(x_factor), fma(g, vec4<f32>(statistics.y), vec4<f32>(constant_term)));
        y_put_words(element_index + #{k}u * MEMBERS, WORDS_OF(grads));
    }
#end
}

// Stores the sums of columns.
fn put_parts(team: u32, member: u32) {
#repeat k PER_THREAD
    if (is_in_row(member + #{k}u * MEMBERS)) {
        let element_index = (team * (params.length / 4u) + member + #{k}u * MEMBERS) * 2u;
        let b = bias_sum_#{k};
        let w = weight_sum_#{k};
        parts_put_words(element_index, bitcast<vec4<u32>>(vec4<f32>(b.x, w.x, b.y, w.y)));
        parts_put_words(element_index + 1u, bitcast<vec4<u32>>(vec4<f32>(b.z, w.z, b.w, w.w)));
    }
#end
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let member = lane % MEMBERS;
    let team = workgroup_index(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let teams = params.blocks * (THREADS / MEMBERS);
    read_weights(member);
    var next_statistics = read_row(team, member);
    for (var iteration = 0u; iteration < params.loop_count; iteration += 1u) {
        let row = iteration * teams + team;
        let statistics = next_statistics;
        take_row();
        next_statistics = read_row(row + teams, member);
        let sums = TEAM_SUMS(add_row(statistics), lane, iteration & 1u);
        if (row < params.rows) {
            put_row(row, member, statistics, sums);
        }
    }
    put_parts(team, member);
}
