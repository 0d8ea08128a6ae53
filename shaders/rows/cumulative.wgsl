// Cumulative sums along an axis: y[l, i] = x[l, 0] + .. + x[l, i] for every row l, of any strides.
// Rows are assigned to threads and split into parts as in rows.wgsl. The tensors of their space are
// y and x.
//
// Each member (thread) of a row reads four elements at a time and sums them. The members then scan
// the sums in workgroup memory, and the total of the previous elements is carried over:
//
//      carry | member 0: 4 | member 1: 4 | ... | -> carry | member 0: 4 | ...
//
// If a row is split into parts, a first launch of rows.wgsl writes the sum of each part, and the
// carry begins with the sums of the preceding parts. Floats are added as pairs (value, its rounding
// error), so that a sum that returns to near 0 keeps its digits. Each sum is rounded when it is
// stored.

alias Acc = ACC;

const EACH: u32 = 4u;

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = member_of(workgroup_index(group, groups), lane);
    let base = BASES(at.row);
    var carry = START();
    if (at.exists) {
        carry = ACCUMULATE(at, base);
    }
    carry = OF_TEAM(carry, at);
    let end = select(0u, part_end(at), at.exists);
    let slot = at.member * params.per_group + at.local_row;
    for (var chunk = 0u; chunk < params.per_part; chunk += params.members * EACH) {
        let first = part_begin(at) + chunk + at.member * EACH;
        var sums: array<Acc, 4>;
        var own = START();
        for (var i = 0u; i < EACH; i += 1u) {
            if (first + i < end) {
                own = MERGE(own, ENTER(x_at(along(1u, base.y, first + i)), 0u));
            }
            sums[i] = own;
        }
        workgroupBarrier();
        team_accs[slot] = own;
        for (var by = 1u; by < params.members; by *= 2u) {
            workgroupBarrier();
            var before = START();
            if (at.member >= by) {
                before = team_accs[slot - by * params.per_group];
            }
            own = MERGE(before, own);
            workgroupBarrier();
            team_accs[slot] = own;
        }
        workgroupBarrier();
        var sum_before = carry;
        if (at.member > 0u) {
            sum_before = MERGE(carry, team_accs[slot - params.per_group]);
        }
        for (var i = 0u; i < EACH; i += 1u) {
            if (first + i < end) {
                y_put(along(0u, base.x, first + i), LEAVE(MERGE(sum_before, sums[i])));
            }
        }
        carry = MERGE(carry, team_accs[(params.members - 1u) * params.per_group + at.local_row]);
    }
}
