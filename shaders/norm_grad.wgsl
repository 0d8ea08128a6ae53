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
    var weight_sums: array<f32, HOLD>;
    var bias_sums: array<f32, HOLD>;
    for (var turn = 0u; turn < params.gathered; turn += 1u) {
        let row = turn * teams + team;
        let here = row < params.rows && team < teams;
        let at = Member(row, own, member, 0u, here);
        let base = three_bases(row);
        var statistics = vec2<f32>(0.0);
        if (here) {
            statistics = KEPT(row);
        }
        var normal: array<f32, HOLD>;
        var slope: array<f32, HOLD>;
        var acc = vec4<f32>(0.0);
        for (var k = 0u; k < HOLD; k += 1u) {
            let r = held_column(member, k);
            if (here && r < params.length) {
                let n = (x_at(along(1u, base.y, r)) - statistics.x) * statistics.y;
                let d = d_at(along(2u, base.z, r));
                let g = d * WEIGHT(row, r);
                weight_sums[k] += d * n;
                bias_sums[k] += d;
                acc += vec4<f32>(g, g * n, 0.0, 0.0);
                normal[k] = n;
                slope[k] = g;
            }
        }
        workgroupBarrier();
        acc = of_team(acc, at);
        let mean = CENTRE(acc.x);
        let mean_along = acc.y * norm_share();
        for (var k = 0u; k < HOLD; k += 2u) {
            let low = statistics.y * ((slope[k] - mean) - normal[k] * mean_along);
            let high = statistics.y * ((slope[k + 1u] - mean) - normal[k + 1u] * mean_along);
            if (here) {
                STORE_TWO(base.x, held_column(member, k), held_column(member, k + 1u), vec2<f32>(low, high));
            }
        }
    }
    for (var k = 0u; k < HOLD; k += 1u) {
        let r = held_column(member, k);
        if (team < teams && r < params.length) {
            parts_put_bits(team * params.length + r, bitcast<vec2<u32>>(vec2<f32>(bias_sums[k], weight_sums[k])));
        }
    }
}
