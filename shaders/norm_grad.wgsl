// The gradient of layer and RMS normalisation with those of weight and bias in one reading; formulas in norm.wgsl, parameters in row.wgsl.
//
//   x, d, y   [rows, length], any strides: input, gradient of the output, gradient of the input
//   parts     [teams, length] pairs: a team's sums of d * n and of d in each column; a second launch adds them up
//
// A team of `members` threads walks over rows; each thread keeps its columns of a row, and their sums over all rows, in registers:
//
//      team 0: row 0, row T, row 2 T, ..      columns of a thread: HOLD, `members` apart, or neighbours where y is written by pairs
//      team 1: row 1, row T + 1, ..
//
// Limit: length <= members * HOLD.

alias Acc = vec4<f32>;

// Column k of a thread. spare_a: from an even one to the next; spare_b: from thread to thread.
fn held_column(member: u32, k: u32) -> u32 {
    return member * params.spare_b + (k / 2u) * 2u * params.members + (k % 2u) * params.spare_a;
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let own = lane / params.members;
    let member = lane % params.members;
    let team = group_number(group, groups) * params.per_group + own;
    let teams = params.blocks * params.per_group;
#repeat k HOLD
    var weight_sum_#{k} = 0.0;
    var bias_sum_#{k} = 0.0;
#end
    for (var turn = 0u; turn < params.gathered; turn += 1u) {
        let row = turn * teams + team;
        let here = row < params.rows && team < teams;
        let at = Member(row, own, member, 0u, here);
        // Behind the end the last one is read, and counts as nothing: reads that depend on no condition are under way together.
        let row_there = min(row, params.rows - 1u);
        let base = three_bases(row_there);
        let statistics = KEPT(row_there);
        var acc = vec4<f32>(0.0);
#repeat k HOLD
        let column_#{k} = held_column(member, #{k}u);
        let there_#{k} = min(column_#{k}, params.length - 1u);
        let x_#{k} = x_at(along(1u, base.y, there_#{k}));
        let d_#{k} = d_at(along(2u, base.z, there_#{k}));
#end
#repeat k HOLD
        let counts_#{k} = here && column_#{k} < params.length;
        let normal_#{k} = (x_#{k} - statistics.x) * statistics.y;
        let slope_#{k} = d_#{k} * WEIGHT(row_there, there_#{k});
        weight_sum_#{k} += select(0.0, d_#{k} * normal_#{k}, counts_#{k});
        bias_sum_#{k} += select(0.0, d_#{k}, counts_#{k});
        acc += select(vec4<f32>(0.0), vec4<f32>(slope_#{k}, slope_#{k} * normal_#{k}, 0.0, 0.0), counts_#{k});
#end
        workgroupBarrier();
        acc = of_team(acc, at);
        let mean = CENTRE(acc.x);
        let mean_along = acc.y * norm_share();
        if (here) {
#repeat pair HOLD/2
            STORE_TWO(base.x, column_#{pair*2}, column_#{pair*2+1}, statistics.y * vec2<f32>(
                (slope_#{pair*2} - mean) - normal_#{pair*2} * mean_along,
                (slope_#{pair*2+1} - mean) - normal_#{pair*2+1} * mean_along));
#end
        }
    }
#repeat k HOLD
    if (team < teams && held_column(member, #{k}u) < params.length) {
        parts_put_bits(team * params.length + held_column(member, #{k}u), bitcast<vec2<u32>>(vec2<f32>(bias_sum_#{k}, weight_sum_#{k})));
    }
#end
}
