// Rows of which the largest number and the sum of exponentials are asked for: softmax, its logarithm, cross-entropy and its gradient, where rows lie in
// fours (row_fours.wgsl; formulas in softmax.wgsl and loss.wgsl, parameters in row.wgsl).
//
//   x, y   [rows, length] along the last axis; y where it is asked for (ELEMENTS 1)
//
// The words of a row are read once and stay in registers: first their maximum, then the sum of exponentials (SUMS 1), which are kept where y is made of
// them (KEEP 1), then y. Where a row has more than its threads hold (LONG 1), the others are read twice, and added up by the largest number so far.
//
//   RESULT(at, base, acc)            writes what is asked for of a row, where y is not
//   BASES(row), SKIPS(at, base)      where the row begins in each tensor; whether nothing is to be done for it
//   MOVED(at, base, shift, lane)     the sum of x - shift, if that is asked for
//   PREPARE(at, base, acc)           what y asks for of the row; REGULAR(state): whether numbers are finite, so that
//   VALUES(four, state, number)      makes four elements of y, from x or the exponentials; else VALUE(at, base, state, r) makes one (STRANGE 1)
//   PUT(base, four, values)          stores them

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = group_number(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let at = Member(row, lane / MEMBERS, lane % MEMBERS, 0u, row < params.rows);
    let base = BASES(row);
    let here = at.here && !SKIPS(at, base);
    let place = base.y / 4u;
    let before = elements_before(base.y);
    let fours = fours_of_row(before);
#repeat k HOLD
    let four_#{k} = at.member + #{k}u * MEMBERS;
    var x_#{k} = PADDING;
    if (here && (EXACT || four_#{k} < fours)) {
        x_#{k} = x_words(place + four_#{k});
    }
#end
    var largest_four = vec4<f32>(lowest());
#repeat k HOLD
    x_#{k} = x_within(x_#{k}, four_#{k}, before);
    largest_four = max(largest_four, FOUR_OF(x_#{k}));
#end
    var largest = largest_of_four(largest_four);
#repeat held 1-LONG
    largest = TEAM_MAX(largest, lane, 0u);
#end
#repeat sums SUMS
    var shift = finite_or_zero(largest);
    var sum_four = vec4<f32>();
#repeat k HOLD
#repeat anew 1-KEEP
    x_#{k} = HIDDEN(x_#{k});
#end
    let exponentials_#{k} = EXPONENTIALS(FOUR_OF(x_#{k}), shift);
    sum_four += exponentials_#{k};
#end
#end
#repeat long LONG
    var four = at.member + HOLD * MEMBERS;
    // BATCH at a time while none of them is the row's last; then what is left.
    var rest = four;
#repeat left 2
    for (; here && four + #{BATCH-left*BATCH}u * MEMBERS < fours; four += BATCH * MEMBERS) {
        var larger_four = vec4<f32>(largest);
#repeat j BATCH
        var next_#{j} = PADDING;
        if (#{left} == 0 || four + #{j}u * MEMBERS < fours) {
            next_#{j} = x_words(place + four + #{j}u * MEMBERS);
        }
#end
#repeat j BATCH
#repeat last left
        next_#{j} = x_within(next_#{j}, four + #{j}u * MEMBERS, before);
#end
        larger_four = max(larger_four, FOUR_OF(next_#{j}));
#end
        let larger = largest_of_four(larger_four);
#repeat sums SUMS
        shift = finite_or_zero(larger);
        sum_four *= EXPONENTIAL(largest - shift);
#repeat j BATCH
        sum_four += EXPONENTIALS(FOUR_OF(HIDDEN(next_#{j})), shift);
#end
#end
        largest = larger;
    }
#repeat first 1-left
    rest = four;
#end
#end
    let own = largest;
    largest = TEAM_MAX(own, lane, 0u);
#repeat sums SUMS
    shift = finite_or_zero(largest);
    sum_four *= EXPONENTIAL(own - shift);
#end
#end
#repeat sums SUMS
    let sum = TEAM_SUM(sum_of_four(sum_four), lane, 1u);
    let acc = vec4<f32>(largest, sum, MOVED(at, here, base, shift, lane), f32(params.length));
#end
#repeat none 1-SUMS
    let acc = largest;
#end
    if (!here) {
        return;
    }
#repeat none 1-ELEMENTS
    RESULT(at, base, acc);
#end
#repeat elements ELEMENTS
    let state = PREPARE(at, base, acc);
#repeat strange STRANGE
    if (!REGULAR(state)) {
        for (var r = at.member; r < params.length; r += MEMBERS) {
            edges_put(base.x + r, VALUE(at, base, state, r));
        }
        return;
    }
#end
#repeat long LONG
    // What was read last comes first: it may still be near.
#repeat left 2
#repeat last 1-left
    four = rest;
    if (four < fours) {
#end
#repeat first left
    while (rest > at.member + HOLD * MEMBERS) {
        rest -= BATCH * MEMBERS;
        four = rest;
#end
#repeat j BATCH
        var next_#{j} = PADDING;
        if (#{left} == 1 || four + #{j}u * MEMBERS < fours) {
            next_#{j} = x_words(place + four + #{j}u * MEMBERS);
        }
#end
#repeat j BATCH
        let values_#{j} = VALUES(FOUR_OF(next_#{j}), state, (four + #{j}u * MEMBERS) * 4u - before);
#repeat last 1-left
        if (four + #{j}u * MEMBERS < fours) {
            PUT(base.x, four + #{j}u * MEMBERS, values_#{j});
        }
#end
#repeat first left
        put_four(base.x, four + #{j}u * MEMBERS, values_#{j});
#end
#end
    }
#end
#end
#repeat k HOLD
    if (EXACT || four_#{k} < fours) {
#repeat keep KEEP
        PUT(base.x, four_#{k}, VALUES(exponentials_#{k}, state, four_#{k} * 4u - before));
#end
#repeat anew 1-KEEP
        PUT(base.x, four_#{k}, VALUES(FOUR_OF(HIDDEN(x_#{k})), state, four_#{k} * 4u - before));
#end
    }
#end
#end
}
