// The gradient of layer and RMS normalisation with those of weight and bias in one reading, where rows lie in vec4s (row_vec4.wgsl); formulas in
// norm.wgsl, parameters in row.wgsl.
//
//   x, d, y   [rows, length]: input, gradient of the output, gradient of the input
//   parts     [teams, length] pairs: a team's sums of d and of d * n in each column; a second launch adds them up
//
// A team of MEMBERS threads walks over rows; each thread keeps its columns' weights, and their sums over all rows, in registers. It reads the next row
// before the threads meet for the sums of this one, so that memory is busy meanwhile:
//
//      team 0: row 0, row T, row 2 T, ..
//      team 1: row 1, row T + 1, ..
//
// Limits: length a multiple of 4, no more than 4 * MEMBERS * HOLD.

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let member = lane % MEMBERS;
    let team = group_number(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let teams = params.blocks * (THREADS / MEMBERS);
    var statistics = vec2<f32>();
    if (team < params.rows) {
        statistics = SAVED(team);
    }
#repeat k HOLD
    let quad_#{k} = member + #{k}u * MEMBERS;
    let there_#{k} = EXACT || quad_#{k} < params.length / 4u;
    var weight_#{k} = vec4<f32>(1.0);
    var weight_sum_#{k} = vec4<f32>();
    var bias_sum_#{k} = vec4<f32>();
    var x_#{k} = x_WORDS();
    var d_#{k} = d_WORDS();
    if (there_#{k}) {
        weight_#{k} = WEIGHTS(quad_#{k});
        if (team < params.rows) {
            x_#{k} = x_words(strided_index(1u, team) / 4u + quad_#{k});
            d_#{k} = d_words(strided_index(2u, team) / 4u + quad_#{k});
        }
    }
#end
    for (var turn = 0u; turn < params.gathered; turn += 1u) {
        let row = turn * teams + team;
        // Beyond the last row all is 0.
        let next = row + teams;
        var next_statistics = vec2<f32>();
        let next_x = strided_index(1u, next) / 4u;
        let next_d = strided_index(2u, next) / 4u;
        if (next < params.rows) {
            next_statistics = SAVED(next);
        }
#repeat k HOLD
        var next_x_#{k} = x_WORDS();
        var next_d_#{k} = d_WORDS();
        if (there_#{k} && next < params.rows) {
            next_x_#{k} = x_words(next_x + quad_#{k});
            next_d_#{k} = d_words(next_d + quad_#{k});
        }
#end
        var sum = vec4<f32>();
        var sum_along = vec4<f32>();
#repeat k HOLD
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
        let sums = TEAM_SUMS(vec2<f32>(sum_of_vec4(sum), sum_of_vec4(sum_along)), lane, turn & 1u);
        // r * (g - mean(g) - n * mean(g * n)), as (x - mean) * of_x + g * r + always: two operations less for an element.
        let of_x = -(statistics.y * statistics.y) * (sums.y * norm_share());
        let always = -statistics.y * CENTER(sums.x);
        if (row < params.rows) {
            let element_index = strided_index(0u, row) / 4u;
#repeat k HOLD
            if (there_#{k}) {
                let g = VEC4_OF(HIDDEN(d_#{k})) * weight_#{k};
                let x = VEC4_OF(HIDDEN(x_#{k})) - statistics.x;
                y_put_words(element_index + quad_#{k}, WORDS_OF(fma(x, vec4<f32>(of_x), fma(g, vec4<f32>(statistics.y), vec4<f32>(always)))));
            }
#end
        }
        statistics = next_statistics;
#repeat k HOLD
        x_#{k} = next_x_#{k};
        d_#{k} = next_d_#{k};
#end
    }
#repeat k HOLD
    if (there_#{k}) {
        let element_index = (team * (params.length / 4u) + quad_#{k}) * 2u;
        let b = bias_sum_#{k};
        let w = weight_sum_#{k};
        parts_put_words(element_index, bitcast<vec4<u32>>(vec4<f32>(b.x, w.x, b.y, w.y)));
        parts_put_words(element_index + 1u, bitcast<vec4<u32>>(vec4<f32>(b.z, w.z, b.w, w.w)));
    }
#end
}
