// The shader of everything that first gathers an accumulator from the elements of a row and then does something with it: reductions, softmax,
// normalisations, losses. What is gathered and done stands in the files of these families; the host names it:
//
//   BASES(row)               where the row begins in each tensor
//   GATHER(at, base)         the accumulator of the elements that this thread has
//   MERGE(a, b)              of two parts of a row, in this order; START() of nothing
//   FINISH(at, base, row)    given the row's accumulator: results to memory
//
// `rows` rows of `length` elements; `members` threads work on a row, `per_group` rows belong to a work group (members * per_group = 256, powers
// of two). Which threads these are depends on what lies side by side in memory:
//
//   the elements of a row                    the rows, "across"
//   row 0 | 0 1 2 3 | row 1 | 0 1 2 3 |      member 0 | row 0 1 2 3 |
//                                            member 1 | row 0 1 2 3 |
//
// Where rows are few and long they are cut into `parts` of `per_part` elements, a work group each. A first launch leaves the accumulators of
// the parts in `parts` [rows, parts]; the second gathers those. The order of all merging follows from shapes alone: results repeat bit by bit.
// Limits: rows, length below 2^31.

alias Acc = ACC;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = member_of(group_number(group, groups), lane);
    let base = BASES(at.row);
    var acc = START();
    if (at.here) {
        acc = GATHER(at, base);
    }
    acc = OF_TEAM(acc, at);
    if (at.here) {
        FINISH(at, base, acc);
    }
}
