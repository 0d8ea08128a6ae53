// Setting and adding along an axis, with results that do not depend on the order of threads. STAGE
// is one of scatter_index.wgsl:
//
//   set     mark_winners   winners[index] = number of the last source with this destination
//           put_winners    writes these sources to y
//   add     make_indices   (index, number) of each source; radix.wgsl makes equal indices adjacent,
//                          in the order of their numbers
//           add_runs       the thread of a run's first source adds the whole run to the existing
//                          value, rounded once
//           add_rows       the same for rows of `columns` elements: a thread for each column of
//                          each run, with neighboring threads along the row
//
//     keys     3 3 3 | 5 | 8 8 | invalid ...      sorted: a run is one index of y
//     numbers  0 4 9 | 2 | 1 7 | 3
//
// An index is counted from y's lowest element (for rows, it is the position). Limits: fewer than
// 2^32 - 1 sources and indices, and for rows fewer than 2^32 columns of all sources.

struct Parameters {
    launched: u32,
    count: u32,
    rank: u32,
    // The id of the check of indices, for the record of an index out of range.
    index_check: u32,
    // First elements of index, y, source; for rows: of y and source.
    offsets: vec4<u32>,
    // Elements of y along the axis, and their stride.
    size: u32,
    step: u32,
    // Where y begins, and the key of sources without a destination.
    low: u32,
    invalid_key: u32,
    // For rows: their length, and their strides in y and in source.
    columns: u32,
    y_row: u32,
    source_row: u32,
    _padding: u32,
    // Sizes and strides of index, y without its axis, source; for rows: of y and source without the
    // axis.
    sizes: array<vec4<u32>, 2>,
    strides: array<vec4<u32>, 8>,
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    STAGE(workgroup_index(group, groups) * 256u + lane);
}
