// Rows whose sums are needed: gradients of softmax, layer and RMS normalization, if rows can be
// read as vec4 (row_vec4.wgsl; formulas in softmax.wgsl and norm.wgsl, parameters in row.wgsl).
//
//   x, y, and d if it is read (WITH_D 1)   [rows, length] along the last axis
//
// The words of a row are read once and kept in registers. First a sum is computed, then the sum of
// squares around the mean (SQUARES 1), then y.
//
//   BASES(row)                    where the row begins in each tensor
//   TERM(x, d)                    the terms of the sum, for a vec4
//   ACCUMULATOR(sum, squares)     the accumulator for PREPARE(at, base, acc), which computes what y
//                                 needs from the row
//   VALUES(x, d, state, quad)     vec4 `quad` of y; PUT(base, quad, values) stores it

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup_index(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let at = Member(row, lane / MEMBERS, lane % MEMBERS, 0u, row < params.rows);
    let base = BASES(row);
    let before = elements_before(base.y);
    let vec4_count = vec4s_of_row(before);
#repeat k PER_THREAD
    let quad_#{k} = at.member + #{k}u * MEMBERS;
    let in_row_#{k} = at.exists && (EXACT || quad_#{k} < vec4_count);
    var x_#{k} = PADDING;
#repeat d WITH_D
    var d_#{k} = PADDING;
#end
    if (in_row_#{k}) {
        x_#{k} = x_words(base.y / 4u + quad_#{k});
#repeat d WITH_D
        d_#{k} = d_words(base.z / 4u + quad_#{k});
#end
    }
#end
    var sum_vec4 = vec4<f32>();
#repeat k PER_THREAD
    x_#{k} = x_within(x_#{k}, quad_#{k}, before);
#repeat d WITH_D
    d_#{k} = x_within(d_#{k}, quad_#{k}, before);
    sum_vec4 += TERM(VEC4_OF(x_#{k}), VEC4_OF(d_#{k}));
#end
#repeat none 1-WITH_D
    sum_vec4 += TERM(VEC4_OF(x_#{k}), vec4<f32>());
#end
#end
    let sum = TEAM_SUM(sum_of_vec4(sum_vec4), lane, 0u);
    var squares = 0.0;
#repeat squares SQUARES
    let mean = sum / f32(params.length);
    var squares_vec4 = vec4<f32>();
#repeat k PER_THREAD
    if (in_row_#{k}) {
        let centered = VEC4_OF(x_#{k}) - mean;
        squares_vec4 += centered * centered;
    }
#end
    squares = TEAM_SUM(sum_of_vec4(squares_vec4), lane, 1u);
#end
    if (!at.exists) {
        return;
    }
    let state = PREPARE(at, base, ACCUMULATOR(sum, squares));
#repeat k PER_THREAD
    if (EXACT || quad_#{k} < vec4_count) {
#repeat d WITH_D
        PUT(base.x, quad_#{k}, VALUES(VEC4_OF(x_#{k}), VEC4_OF(d_#{k}), state, quad_#{k}));
#end
#repeat none 1-WITH_D
        PUT(base.x, quad_#{k}, VALUES(VEC4_OF(x_#{k}), vec4<f32>(), state, quad_#{k}));
#end
    }
#end
}
