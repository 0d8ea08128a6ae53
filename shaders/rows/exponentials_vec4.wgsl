// Rows whose maximum and sum of exponentials are needed: softmax, its logarithm, cross-entropy and
// its gradient, if rows can be read as vec4 (row_vec4.wgsl; formulas in softmax.wgsl and loss.wgsl,
// parameters in row.wgsl).
//
//   x, y   [rows, length] along the last axis; y if it is needed (ELEMENTS 1)
//
// The words of a row are read once and kept in registers. First the maximum is computed, then the
// sum of exponentials (SUMS 1), which are kept if y is computed from them (KEEP 1), then y. If a
// row has more elements than its threads hold (LONG 1), the other elements are read twice, and
// their sum is rescaled to the largest number so far.
//
//   RESULT(at, base, acc)          writes the result of a row, if y is not written
//   BASES(row), SKIPS(at, base)    where the row begins in each tensor; whether the row is skipped
//   SHIFTED_SUM(at, base, shift, lane)
//                                  the sum of x - shift, if it is needed
//   PREPARE(at, base, acc)         what y needs from the row
//   IS_FINITE(state)               whether all numbers are finite, so that VALUES can be used;
//                                  otherwise VALUE(at, base, state, r) computes one element
//                                  (NONFINITE 1)
//   VALUES(x, state, number)       computes the vec4 of y that begins with element `number` of the
//                                  row, from a vec4 of x or, with KEEP, of exponentials
//   PUT(base, quad, values)        stores vec4 `quad` of the row

// ---------------------------------------------------------------- blocks of the entry point
//
// All blocks are inlined into one function, so their variables have unique names.

// Reads a thread's part of the row, and computes its maximum.
#block read_row
#repeat k PER_THREAD
    let quad_#{k} = at.member + #{k}u * MEMBERS;
    var x_#{k} = PADDING;
    if (is_active && (EXACT || quad_#{k} < vec4_count)) {
        x_#{k} = x_words(element_index + quad_#{k});
    }
#end
    var largest_vec4 = vec4<f32>(lowest());
#repeat k PER_THREAD
    x_#{k} = x_within(x_#{k}, quad_#{k}, before);
    largest_vec4 = max(largest_vec4, VEC4_OF(x_#{k}));
#end
    var largest = largest_of_vec4(largest_vec4);
#end

// The sum of the exponentials of the elements that a thread holds.
#block sum_registers
#repeat sums SUMS
    var shift = finite_or_zero(largest);
    var sum_vec4 = vec4<f32>();
#repeat k PER_THREAD
#repeat recompute 1-KEEP
    x_#{k} = HIDDEN(x_#{k});
#end
    let exponentials_#{k} = EXPONENTIALS(VEC4_OF(x_#{k}), shift);
    sum_vec4 += exponentials_#{k};
#end
#end
#end

// For a longer row: the maximum of all elements, and the sum, which is rescaled if a larger number
// appears.
#block read_rest
#repeat long LONG
    var quad = at.member + PER_THREAD * MEMBERS;
    // Reads BATCH at a time while none of them is the row's last, then the rest.
    var rest = quad;
#repeat left 2
    for (; is_active && quad + #{BATCH-left*BATCH}u * MEMBERS < vec4_count; quad += BATCH * MEMBERS) {
        var larger_vec4 = vec4<f32>(largest);
#repeat j BATCH
        var next_#{j} = PADDING;
        if (#{left} == 0 || quad + #{j}u * MEMBERS < vec4_count) {
            next_#{j} = x_words(element_index + quad + #{j}u * MEMBERS);
        }
#end
#repeat j BATCH
#repeat last left
        next_#{j} = x_within(next_#{j}, quad + #{j}u * MEMBERS, before);
#end
        larger_vec4 = max(larger_vec4, VEC4_OF(next_#{j}));
#end
        let larger = largest_of_vec4(larger_vec4);
#repeat sums SUMS
        shift = finite_or_zero(larger);
        sum_vec4 *= EXPONENTIAL(largest - shift);
#repeat j BATCH
        sum_vec4 += EXPONENTIALS(VEC4_OF(HIDDEN(next_#{j})), shift);
#end
#end
        largest = larger;
    }
#repeat first 1-left
    rest = quad;
#end
#end
    let own = largest;
    largest = TEAM_MAX(own, lane, 0u);
#repeat sums SUMS
    shift = finite_or_zero(largest);
    sum_vec4 *= EXPONENTIAL(own - shift);
#end
#end
#end

// Reads the elements that are not held in registers once more, and stores their results. The
// elements that were read last come first, because they may still be in a cache.
#block put_rest
#repeat long LONG
#repeat left 2
#repeat last 1-left
    quad = rest;
    if (quad < vec4_count) {
#end
#repeat first left
    while (rest > at.member + PER_THREAD * MEMBERS) {
        rest -= BATCH * MEMBERS;
        quad = rest;
#end
#repeat j BATCH
        var next_#{j} = PADDING;
        if (#{left} == 1 || quad + #{j}u * MEMBERS < vec4_count) {
            next_#{j} = x_words(element_index + quad + #{j}u * MEMBERS);
        }
#end
#repeat j BATCH
        let values_#{j} = VALUES(VEC4_OF(next_#{j}), state, (quad + #{j}u * MEMBERS) * 4u - before);
#repeat last 1-left
        if (quad + #{j}u * MEMBERS < vec4_count) {
            PUT(base.x, quad + #{j}u * MEMBERS, values_#{j});
        }
#end
#repeat first left
        put_vec4(base.x, quad + #{j}u * MEMBERS, values_#{j});
#end
#end
    }
#end
#end
#end

// Stores the results of the elements that a thread holds.
#block put_registers
#repeat k PER_THREAD
    if (EXACT || quad_#{k} < vec4_count) {
#repeat keep KEEP
        PUT(base.x, quad_#{k}, VALUES(exponentials_#{k}, state, quad_#{k} * 4u - before));
#end
#repeat recompute 1-KEEP
        PUT(base.x, quad_#{k}, VALUES(VEC4_OF(HIDDEN(x_#{k})), state, quad_#{k} * 4u - before));
#end
    }
#end
#end

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let row = workgroup_index(group, groups) * (THREADS / MEMBERS) + lane / MEMBERS;
    let at = Member(row, lane / MEMBERS, lane % MEMBERS, 0u, row < params.rows);
    let base = BASES(row);
    let is_active = at.exists && !SKIPS(at, base);
    let element_index = base.y / 4u;
    let before = elements_before(base.y);
    let vec4_count = vec4s_of_row(before);
#inline read_row
#repeat not_long 1-LONG
    largest = TEAM_MAX(largest, lane, 0u);
#end
#inline sum_registers
#inline read_rest
#repeat sums SUMS
    let sum = TEAM_SUM(sum_of_vec4(sum_vec4), lane, 1u);
    let acc = vec4<f32>(largest, sum, SHIFTED_SUM(at, is_active, base, shift, lane), f32(params.length));
#end
#repeat none 1-SUMS
    let acc = largest;
#end
    if (!is_active) {
        return;
    }
#repeat none 1-ELEMENTS
    RESULT(at, base, acc);
#end
#repeat elements ELEMENTS
    let state = PREPARE(at, base, acc);
#repeat nonfinite NONFINITE
    if (!IS_FINITE(state)) {
        for (var r = at.member; r < params.length; r += MEMBERS) {
            edges_put(base.x + r, VALUE(at, base, state, r));
        }
        return;
    }
#end
#inline put_rest
#inline put_registers
#end
}
