// The shader for everything that first accumulates the elements of a row and then uses the
// accumulator: reductions, softmax, normalizations, losses. The functions are in the files of these
// families, and the host selects them:
//
//   BASES(row)               where the row begins in each tensor
//   ACCUMULATE(at, base)     the accumulator of this thread's elements
//   MERGE(a, b)              merges two parts of a row, in this order; START() is the empty part
//   FINISH(at, base, row)    writes results, given the row's accumulator
//
// There are `rows` rows of `length` elements. `members` threads process a row, and a workgroup has
// `per_group` rows (members * per_group = 256, powers of two). The assignment of threads depends on
// what is contiguous in memory:
//
//   the elements of a row                    the rows, "across"
//   row 0 | 0 1 2 3 | row 1 | 0 1 2 3 |      member 0 | row 0 1 2 3 |
//                                            member 1 | row 0 1 2 3 |
//
// If rows are few and long, they are split into `parts` of `per_part` elements, each for one
// workgroup. A first launch writes the accumulators of the parts to `parts` [rows, parts], and a
// second one merges them. The order of all merges depends only on shapes, so results are
// bit-identical in every run. Limits: rows and length below 2^31.

alias Acc = ACC;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = member_of(workgroup_index(group, groups), lane);
    let base = BASES(at.row);
    var acc = START();
    if (at.exists) {
        acc = ACCUMULATE(at, base);
    }
    acc = OF_TEAM(acc, at);
    if (at.exists) {
        FINISH(at, base, acc);
    }
}
