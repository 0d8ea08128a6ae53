// Rows of which sums are asked for: gradients of softmax, layer and RMS normalisation, where rows lie in fours (row_fours.wgsl; formulas in softmax.wgsl
// and norm.wgsl, parameters in row.wgsl).
//
//   x, y, and d where it is read (WITH_D 1)   [rows, length] along the last axis
//
// The words of a row are read once and stay in registers: first a sum, then that of squares around the mean (SQUARES 1), then y.
//
//   BASES(row)                       where the row begins in each tensor
//   TERM(x, d)                       what is added up, of four elements
//   ACCUMULATED(sum, squares)        what PREPARE(at, base, acc) takes, which finds out what y asks for of the row
//   VALUES(x, d, state, four)        four elements of y; PUT(base, four, values) stores them

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_number(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let at = Member(row, lane / MEMBERS, lane % MEMBERS, 0u, row < params.rows);
    let base = BASES(row);
    let before = elements_before(base.y);
    let fours = fours_of_row(before);
#repeat k HOLD
    let four_#{k} = at.member + #{k}u * MEMBERS;
    let there_#{k} = at.here && (EXACT || four_#{k} < fours);
    var x_#{k} = PADDING;
#repeat d WITH_D
    var d_#{k} = PADDING;
#end
    if (there_#{k}) {
        x_#{k} = x_words(base.y / 4u + four_#{k});
#repeat d WITH_D
        d_#{k} = d_words(base.z / 4u + four_#{k});
#end
    }
#end
    var sum_four = vec4<f32>();
#repeat k HOLD
    x_#{k} = x_within(x_#{k}, four_#{k}, before);
#repeat d WITH_D
    d_#{k} = x_within(d_#{k}, four_#{k}, before);
    sum_four += TERM(FOUR_OF(x_#{k}), FOUR_OF(d_#{k}));
#end
#repeat none 1-WITH_D
    sum_four += TERM(FOUR_OF(x_#{k}), vec4<f32>());
#end
#end
    let sum = TEAM_SUM(sum_of_four(sum_four), lane, 0u);
    var squares = 0.0;
#repeat squares SQUARES
    let mean = sum / f32(params.length);
    var squares_four = vec4<f32>();
#repeat k HOLD
    if (there_#{k}) {
        let centred = FOUR_OF(x_#{k}) - mean;
        squares_four += centred * centred;
    }
#end
    squares = TEAM_SUM(sum_of_four(squares_four), lane, 1u);
#end
    if (!at.here) {
        return;
    }
    let state = PREPARE(at, base, ACCUMULATED(sum, squares));
#repeat k HOLD
    if (EXACT || four_#{k} < fours) {
#repeat d WITH_D
        PUT(base.x, four_#{k}, VALUES(FOUR_OF(x_#{k}), FOUR_OF(d_#{k}), state, four_#{k}));
#end
#repeat none 1-WITH_D
        PUT(base.x, four_#{k}, VALUES(FOUR_OF(x_#{k}), vec4<f32>(), state, four_#{k}));
#end
    }
#end
}
