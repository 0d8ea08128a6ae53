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

struct Parameters {
    zero: u32,
    rank: u32,
    over_rank: u32,
    fault: u32,
    rows: u32,
    length: u32,
    members: u32,
    per_group: u32,
    across: u32,
    parts: u32,
    per_part: u32,
    // Work groups of a part.
    blocks: u32,
    // Accumulators of a row that the first launch left.
    gathered: u32,
    spare_a: u32,
    spare_b: u32,
    spare_c: u32,
    // First elements: of up to four tensors that have a place for each row in `space`, and of those that lie dense.
    offsets: vec4<u32>,
    extras: array<vec4<u32>, 2>,
    // What else an op asks for.
    numbers: array<vec4<u32>, 2>,
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
    // The space of a row's elements, in the same tensors.
    over_sizes: array<vec4<u32>, 2>,
    over_strides: array<vec4<u32>, 8>,
}

// A thread's place among those of its row.
struct Member {
    row: u32,
    // The row's number in the work group.
    own: u32,
    member: u32,
    part: u32,
    // Whether there is such a row.
    here: bool,
}

fn member_of(group: u32, lane: u32) -> Member {
    let part = group / params.blocks;
    let across = params.across != 0u;
    let own = select(lane / params.members, lane % params.per_group, across);
    let member = select(lane % params.members, lane / params.per_group, across);
    let row = (group - part * params.blocks) * params.per_group + own;
    return Member(row, own, member, part, row < params.rows && part < params.parts);
}

var<workgroup> team_accs: array<Acc, 256>;

// The accumulators of all members of a row, merged.
fn of_team(acc: Acc, at: Member) -> Acc {
    let slot = at.member * params.per_group + at.own;
    team_accs[slot] = acc;
    for (var half = params.members / 2u; half > 0u; half /= 2u) {
        workgroupBarrier();
        if (at.member < half) {
            team_accs[slot] = MERGE(team_accs[slot], team_accs[slot + half * params.per_group]);
        }
    }
    workgroupBarrier();
    return team_accs[at.own];
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let at = member_of(group_number(group, groups), lane);
    let base = BASES(at.row);
    var acc = START();
    if (at.here) {
        acc = GATHER(at, base);
    }
    acc = of_team(acc, at);
    if (at.here) {
        FINISH(at, base, acc);
    }
}
