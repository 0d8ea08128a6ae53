// The gradient of layer and RMS normalization, and those of weight and bias, in one pass over the
// inputs; formulas in norm.wgsl, parameters in row.wgsl.
//
//   x, d, y   [rows, length], any strides: input, gradient of the output, gradient of the input
//   parts     [teams, length] pairs: a team's sums of d and of d * n in each column; a second
//             launch adds them
//
// A team of `members` threads loops over rows. Each thread keeps its columns of a row, and their
// sums over all rows, in registers:
//
//      team 0: row 0, row T, row 2 T, ..      a thread has PER_THREAD columns, `members` apart,
//      team 1: row 1, row T + 1, ..           or pairs of neighbors if y is written by pairs
//
// Limit: length <= members * PER_THREAD.

alias Acc = vec4<f32>;

// Column k of a thread.
fn column_of_thread(member: u32, k: u32) -> u32 {
    return member * params.thread_step + (k / 2u) * 2u * params.members + (k % 2u) * params.column_step;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let own = lane / params.members;
    let member = lane % params.members;
    let team = workgroup_index(group, groups) * params.per_group + own;
    let teams = params.blocks * params.per_group;
#repeat k PER_THREAD
    var weight_sum_#{k} = 0.0;
    var bias_sum_#{k} = 0.0;
#end
    for (var iteration = 0u; iteration < params.loop_count; iteration += 1u) {
        let row = iteration * teams + team;
        let is_active = row < params.rows && team < teams;
        let at = Member(row, own, member, 0u, is_active);
        let base = three_bases(row);
        var statistics = vec2<f32>(0.0);
        if (is_active) {
            statistics = SAVED(row);
        }
        var acc = vec4<f32>(0.0);
#repeat k PER_THREAD
        var normal_#{k} = 0.0;
        var grad_#{k} = 0.0;
        let column_#{k} = column_of_thread(member, #{k}u);
        if (is_active && column_#{k} < params.length) {
            let n = (x_at(along(1u, base.y, column_#{k})) - statistics.x) * statistics.y;
            let d = d_at(along(2u, base.z, column_#{k}));
            let g = d * WEIGHT(row, column_#{k});
            weight_sum_#{k} += d * n;
            bias_sum_#{k} += d;
            acc += vec4<f32>(g, g * n, 0.0, 0.0);
            normal_#{k} = n;
            grad_#{k} = g;
        }
#end
        workgroupBarrier();
        acc = OF_TEAM(acc, at);
        let mean = CENTER(acc.x);
        let mean_along = acc.y * norm_inverse_length();
        if (is_active) {
#repeat pair PER_THREAD/2
            STORE_TWO(base.x, column_#{pair*2}, column_#{pair*2+1}, statistics.y * vec2<f32>(
                (grad_#{pair*2} - mean) - normal_#{pair*2} * mean_along,
                (grad_#{pair*2+1} - mean) - normal_#{pair*2+1} * mean_along));
#end
        }
    }
#repeat k PER_THREAD
    if (team < teams && column_of_thread(member, #{k}u) < params.length) {
        parts_put_bits(team * params.length + column_of_thread(member, #{k}u), bitcast<vec2<u32>>(vec2<f32>(bias_sum_#{k}, weight_sum_#{k})));
    }
#end
}
